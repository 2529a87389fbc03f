//! What happened, on disk: the records of a session, and the session that follows from them.

pub mod file;
pub mod folder;
pub mod open;
pub mod outbox;
pub mod record;

pub use file::{Holder, Journal, JournalError, Opened, Untouched, fold, read, running};
pub use folder::{Folder, Sessions};
pub use record::Record;
