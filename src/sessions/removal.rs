//! Removes a session that does not run.

use std::{
    fs, io,
    path::Path,
    time::{Duration, Instant},
};

use crate::{
    journal::{self, SessionDir, SessionsDir},
    present::text::{counted, readable_size},
};

/// How long the process of a session that has ended may take to exit: it still sends and closes
/// what it has.
const CLOSING: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_millis(20);

/// What a removal would delete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovalPreview {
    pub folder: SessionDir,
    pub files: usize,
    pub bytes: u64,
}

impl RemovalPreview {
    /// Counts the files of a session. Links count as files: creel removes the link and not its
    /// target.
    pub fn of(folder: &SessionDir) -> io::Result<Self> {
        let (mut files, mut bytes) = (0, 0);
        count(&folder.path, &mut files, &mut bytes)?;
        Ok(Self {
            folder: folder.clone(),
            files,
            bytes,
        })
    }

    /// `14 files, 1.2 MB`.
    pub fn size(&self) -> String {
        format!(
            "{}, {}",
            counted(self.files, "file"),
            readable_size(self.bytes)
        )
    }
}

fn count(folder: &Path, files: &mut usize, bytes: &mut u64) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let meta = entry.metadata()?;
        if meta.is_dir() {
            count(&entry.path(), files, bytes)?;
        } else {
            *files += 1;
            *bytes += meta.len();
        }
    }
    Ok(())
}

/// Why a session was not removed.
#[derive(Debug, thiserror::Error)]
pub enum RemovalError {
    #[error("session `{0}` is running: stop it first")]
    Running(String),
    #[error("cannot remove {path}: {cause}")]
    Failed { path: String, cause: io::Error },
}

/// Deletes the session's folder and its entries in the project's indexes. Nothing else of the
/// project changes. Waits for the process of a session that has just ended.
pub fn remove(folder: &SessionDir) -> Result<(), RemovalError> {
    let failed = |cause| RemovalError::Failed {
        path: folder.path.display().to_string(),
        cause,
    };
    SessionsDir::around(folder).refuse_links().map_err(failed)?;
    if fs::symlink_metadata(&folder.path)
        .map_err(failed)?
        .is_symlink()
    {
        return Err(failed(io::Error::other("it is a symbolic link")));
    }
    // Keeps the lock, so that no process can resume the session meanwhile.
    let lock = fs::File::open(folder.journal()).map_err(failed)?;
    let is_free = || journal::running(folder).is_none() && lock.try_lock().is_ok();
    let has_ended =
        || journal::fold(&folder.journal()).is_ok_and(|state| state.phase.outcome().is_some());
    let deadline = Instant::now() + CLOSING;
    while !is_free() {
        if Instant::now() > deadline || !has_ended() {
            return Err(RemovalError::Running(folder.name.clone()));
        }
        std::thread::sleep(AGAIN);
    }
    fs::remove_dir_all(&folder.path).map_err(failed)?;
    folder.forget();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removal_deletes_exactly_the_folder_that_it_names() {
        let dir = tempfile::tempdir().expect("a folder");
        let sessions = SessionsDir::of(dir.path());
        let write = |name: &str, file: &str| {
            let path = sessions.folder(name).path.join(file);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, "12345\n").expect("a file");
        };
        for name in ["one", "other"] {
            write(name, "journal.jsonl");
            write(name, "outputs/run-1.log");
        }
        let one = sessions.folder("one");
        let preview = RemovalPreview::of(&one).expect("it is there");
        assert_eq!(
            (preview.files, preview.size().as_str()),
            (2, "2 files, 12 bytes")
        );
        remove(&one).expect("it does not run");
        assert!(
            !one.path.exists()
                && sessions
                    .folder("other")
                    .path
                    .join("outputs/run-1.log")
                    .exists()
        );
        assert!(remove(&one).is_err(), "it is gone already");
    }

    #[test]
    fn a_running_session_and_a_link_are_not_removed() {
        let dir = tempfile::tempdir().expect("a folder");
        let sessions = SessionsDir::of(dir.path());
        let one = sessions.folder("one");
        fs::create_dir_all(&one.path).expect("a folder");
        fs::write(one.journal(), "{}\n").expect("a file");
        let held = fs::File::open(one.journal()).expect("a file");
        held.lock().expect("a lock");
        assert!(matches!(remove(&one), Err(RemovalError::Running(_))));
        drop(held);
        std::os::unix::fs::symlink(&one.path, sessions.folder("link").path).expect("a link");
        assert!(matches!(
            remove(&sessions.folder("link")),
            Err(RemovalError::Failed { .. })
        ));
        assert!(one.journal().exists());
    }
}
