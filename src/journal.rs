//! What happened, on disk: the records of a session, and the session that follows from them.

pub mod file;
pub mod folder;
pub mod open;
pub mod outbox;
pub mod record;
pub mod tail;

pub use file::{
    Journal, JournalDamage, JournalError, LockHolder, LockedJournal, OpenedJournal, RecordOrderError, fold,
    fold_checked, read, running,
};
pub use folder::{SessionDir, SessionsDir};
pub use record::Record;
pub use tail::RecordTail;
