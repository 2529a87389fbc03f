//! The records of a session on disk, and the session state rebuilt from them.

pub mod file;
pub mod open;
pub mod outbox;
pub mod record;
pub mod session_dir;
pub mod tail;

pub use crate::journal::session_dir::{SessionDir, SessionsDir};
pub use file::{
    Journal, JournalDamage, JournalError, LockHolder, LockedJournal, OpenedJournal, RecordOrderError, fold,
    fold_checked, read, running,
};
pub use record::Record;
pub use tail::RecordTail;
