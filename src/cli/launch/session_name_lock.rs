//! A lock for starting a session, so that two processes do not choose the same name, or the same
//! folder unnoticed.
//!
//! Only generated names need it: the journal's lock still refuses a second session of the same
//! name.

use std::{
    fs::{DirBuilder, File, OpenOptions, TryLockError},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    time::{Duration, Instant},
};

use crate::{
    config::paths,
    journal::session_dir::{PRIVATE_DIR, PRIVATE_FILE},
};

/// How long to wait for another process between its choice of a name and its first record. A
/// suspended process must not block all others.
const PATIENCE: Duration = Duration::from_secs(30);
const AGAIN: Duration = Duration::from_millis(5);

/// Locked until this is dropped.
#[derive(Debug)]
pub(crate) struct SessionNameLock(#[expect(dead_code, reason = "its lock is what counts")] File);

impl SessionNameLock {
    /// Waits for the lock. `None` if it cannot be acquired: then only the journal's lock protects
    /// the name.
    pub(crate) fn wait() -> Option<Self> {
        let folder = paths::state_dir()?;
        DirBuilder::new()
            .recursive(true)
            .mode(PRIVATE_DIR)
            .create(&folder)
            .ok()?;
        let mut options = OpenOptions::new();
        options
            .write(true)
            .create(true)
            .truncate(false)
            .mode(PRIVATE_FILE);
        let file = options.open(folder.join("names.lock")).ok()?;
        let deadline = Instant::now() + PATIENCE;
        while matches!(file.try_lock(), Err(TryLockError::WouldBlock)) && Instant::now() < deadline
        {
            std::thread::sleep(AGAIN);
        }
        Some(Self(file))
    }
}
