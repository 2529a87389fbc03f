//! The records of a session on disk, and the session state rebuilt from them.

pub mod chain;
pub mod file;
pub mod fold;
pub mod open;
pub mod outbox;
pub mod record;
pub mod search;
pub mod session_dir;
mod session_index;
mod snapshot;
pub mod tail;

pub use crate::journal::session_dir::{SessionDir, SessionsDir};
pub use file::{Journal, JournalError, OpenedJournal, RecordOrderError, running};
pub use fold::{fold, fold_checked, last_end, quick_fold, read, read_last, read_while};
pub use open::{FileTimePrecision, JournalDamage};
pub use record::Record;
pub use snapshot::keep_key_in as keep_snapshot_key_in;
pub use tail::{JournalFollower, RecordSpan, RecordTail};
