//! Names for new sessions that no other session has, and the lock for choosing one.

use std::{
    fs::{DirBuilder, File, OpenOptions, TryLockError},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::Path,
    time::{Duration, Instant},
};

use crate::{
    config::paths,
    journal::{
        SessionDir, SessionsDir,
        session_dir::{PRIVATE_DIR, PRIVATE_FILE},
    },
    present::clock::local_now,
};

/// How many names to try one after the other.
const IN_ORDER: u64 = 16;

/// The folder of that name, or a free one with a number added: the first one, if there are only a
/// few.
pub(crate) fn first_free(sessions: &SessionsDir, name: &str) -> SessionDir {
    let is_free = |folder: &SessionDir| !folder.exists();
    if let Some(folder) = sessions
        .numbered(name)
        .take(usize::try_from(IN_ORDER).unwrap_or(1))
        .find(is_free)
    {
        return folder;
    }
    // Doubles the number until one is free, then halves the distance to one that is taken: this
    // stays quick after thousands of sessions.
    let numbered = |number: u64| sessions.folder(&format!("{name}-{number}"));
    let (mut taken, mut free) = (IN_ORDER, 2 * IN_ORDER);
    while !is_free(&numbered(free)) {
        (taken, free) = (free, free.saturating_mul(2));
    }
    while free - taken > 1 {
        let middle = taken + (free - taken) / 2;
        if is_free(&numbered(middle)) {
            free = middle;
        } else {
            taken = middle;
        }
    }
    numbered(free)
}

/// A name from the folder and the time.
pub(crate) fn dated_name(root: &Path) -> String {
    let folder = root
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let plain: String = folder
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '_' {
                c
            } else {
                '-'
            }
        })
        .take(40)
        .collect();
    let folder = plain.trim_matches('-');
    dated(if folder.is_empty() { "session" } else { folder })
}

/// A name with the time added.
pub(crate) fn dated(name: &str) -> String {
    format!("{name}-{}", local_now().strftime("%Y%m%d-%H%M%S"))
}

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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_name_is_free_however_many_sessions_have_it() {
        let dir = tempfile::tempdir().expect("a folder");
        let sessions = SessionsDir::of(dir.path());
        for _ in 0..100 {
            let folder = first_free(&sessions, "s");
            assert!(!folder.exists());
            fs::create_dir_all(&folder.path).expect("a folder");
            fs::write(folder.journal(), "{}\n").expect("a journal");
        }
        let taken: Vec<String> = sessions
            .numbered("s")
            .take(100)
            .map(|folder| folder.name)
            .collect();
        assert!(
            taken.iter().all(|name| sessions.folder(name).exists()),
            "no number was skipped"
        );
    }
}
