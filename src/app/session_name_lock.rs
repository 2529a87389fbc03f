//! Who may choose the name of a new session: one after the other, so that each finds another name free.
//!
//! Only for names that nobody asked for. Whoever does not wait his turn is still refused by the journal's lock.

use std::{
    fs::{DirBuilder, File, OpenOptions, TryLockError},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    time::{Duration, Instant},
};

use crate::{
    config::paths,
    journal::session_dir::{PRIVATE_DIR, PRIVATE_FILE},
};

/// How long somebody may take from the choice of a name to the session's first record. One that was halted in between
/// must not hold all others.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often to look.
const AGAIN: Duration = Duration::from_millis(5);

/// The turn of this process, until it is dropped.
#[derive(Debug)]
pub(super) struct SessionNameLock(#[expect(dead_code, reason = "its lock is what counts")] File);

impl SessionNameLock {
    /// Waits for it. None, where there is no way to: then the journal's lock has to do.
    pub(super) fn wait() -> Option<Self> {
        let folder = paths::state_dir()?;
        DirBuilder::new().recursive(true).mode(PRIVATE_DIR).create(&folder).ok()?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(PRIVATE_FILE);
        let file = options.open(folder.join("names.lock")).ok()?;
        let deadline = Instant::now() + PATIENCE;
        while matches!(file.try_lock(), Err(TryLockError::WouldBlock)) && Instant::now() < deadline {
            std::thread::sleep(AGAIN);
        }
        Some(Self(file))
    }
}
