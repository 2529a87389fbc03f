//! The records of a session on disk, and the session state rebuilt from them.

pub mod file;
mod file_stamp;
pub mod fold;
mod journal_follower;
pub mod open;
pub mod outbox;
pub mod record;
pub mod session_dir;
mod session_index;
mod snapshot;
pub mod snapshot_key;
mod snapshot_writer;
pub mod tail;

pub use crate::journal::session_dir::{SessionDir, SessionsDir};
pub use file::{
    Journal, JournalError, LockHolder, LockedJournal, OpenedJournal, RecordOrderError, running,
};
pub use file_stamp::{FileTimePrecision, JournalDamage};
pub use fold::{fold, fold_checked, last_end, quick_fold, read, read_last, read_while};
pub use journal_follower::JournalFollower;
pub use record::Record;
pub use tail::{RecordSpan, RecordTail};
