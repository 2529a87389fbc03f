//! The directory that holds a viewer's copy of a remote journal, in the system's temporary
//! directory.
//!
//! Owns its creation and its removal. The viewer keeps the directory locked while it runs, so the
//! lock shows whether a directory still has a viewer: a process id could belong to another program
//! by now, or to another container.
//!
//! # Invariants
//! - Only the owner can read the copy. It is removed with its viewer, or, if that one was killed,
//!   by the next viewer.
//! - A directory whose viewer is alive is never removed.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use rustix::{fs::OFlags, process::geteuid};

use crate::{
    journal::{
        SessionDir,
        session_dir::{PRIVATE_DIR, PRIVATE_FILE},
    },
    runtime::now,
};

const PREFIX: &str = "creel-view-";
/// How many names to try for a new directory.
const ATTEMPTS: u32 = 16;

/// A directory for the copy of one session's journal.
#[derive(Debug)]
pub(super) struct CopyDir {
    root: PathBuf,
    folder: SessionDir,
    /// Locked as long as the viewer runs.
    _lock: File,
}

impl CopyDir {
    /// Makes a directory with an empty journal, and removes those that killed viewers left behind.
    pub(super) fn create(session: &str) -> io::Result<(Self, File)> {
        Self::create_in(&std::env::temp_dir(), session)
    }

    fn create_in(parent: &Path, session: &str) -> io::Result<(Self, File)> {
        remove_abandoned(parent);
        let (root, lock) = locked_dir(parent)?;
        let folder = SessionDir {
            name: session.to_owned(),
            path: root.join("copy"),
        };
        let copy = Self {
            root,
            folder,
            _lock: lock,
        };
        DirBuilder::new()
            .mode(PRIVATE_DIR)
            .create(&copy.folder.path)?;
        let journal = copy.folder.journal();
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(PRIVATE_FILE)
            .open(journal)?;
        Ok((copy, file))
    }

    pub(super) const fn folder(&self) -> &SessionDir {
        &self.folder
    }
}

impl Drop for CopyDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// A new directory that this process has locked. If another viewer removes it before it is locked,
/// this makes another.
fn locked_dir(parent: &Path) -> io::Result<(PathBuf, File)> {
    for attempt in 0..ATTEMPTS {
        let root = parent.join(format!(
            "{PREFIX}{}-{}-{attempt}",
            std::process::id(),
            now().0
        ));
        match DirBuilder::new().mode(PRIVATE_DIR).create(&root) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(error),
        }
        let Ok(lock) = open_own(&root) else { continue };
        if lock.try_lock().is_ok() && is_still(&root, &lock) {
            return Ok((root, lock));
        }
    }
    Err(io::Error::other(format!(
        "cannot create a directory in {}",
        parent.display()
    )))
}

/// Removes the directories whose viewers are gone. One that cannot be removed does not stop the
/// user from viewing a session.
fn remove_abandoned(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX))
    {
        let root = entry.path();
        let Ok(lock) = open_own(&root) else { continue };
        let is_alive = match lock.try_lock() {
            Ok(()) => !is_still(&root, &lock),
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => true,
        };
        if !is_alive && let Err(error) = fs::remove_dir_all(&root) {
            tracing::warn!(
                "cannot remove {}, which a killed `creel attach` left: {error}",
                root.display()
            );
        }
    }
}

/// Opens a directory of this user. Every user can create entries in the parent, so links are not
/// followed.
fn open_own(root: &Path) -> io::Result<File> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let dir = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(root)?;
    if dir.metadata()?.uid() == geteuid().as_raw() {
        Ok(dir)
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

/// Whether the path still names the directory that was opened.
fn is_still(root: &Path, opened: &File) -> bool {
    let place = |meta: fs::Metadata| (meta.dev(), meta.ino());
    match (fs::symlink_metadata(root), opened.metadata()) {
        (Ok(there), Ok(opened)) => place(there) == place(opened),
        (Err(_), _) | (_, Err(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_viewer_removes_the_copies_of_dead_viewers_and_no_others() {
        let parent = tempfile::tempdir().expect("a folder");
        let (living, _file) = CopyDir::create_in(parent.path(), "s").expect("a copy");
        let dead = parent.path().join(format!("{PREFIX}1-2-0"));
        fs::create_dir_all(dead.join("copy")).expect("a folder");
        fs::write(dead.join("copy/journal.jsonl"), "{}\n").expect("a file");
        let outside = tempfile::tempdir().expect("a folder");
        fs::write(outside.path().join("precious"), "").expect("a file");
        std::os::unix::fs::symlink(outside.path(), parent.path().join(format!("{PREFIX}link")))
            .expect("a link");
        fs::create_dir(parent.path().join("creel-demo")).expect("a folder");
        let (other, _file) = CopyDir::create_in(parent.path(), "s").expect("a copy");
        assert!(!dead.exists());
        assert!(living.folder().journal().exists() && other.folder().journal().exists());
        assert!(
            outside.path().join("precious").exists() && parent.path().join("creel-demo").exists()
        );
        let root = living.root.clone();
        drop(living);
        assert!(!root.exists());
    }

    #[test]
    fn the_copy_is_the_owners_alone() {
        let parent = tempfile::tempdir().expect("a folder");
        let (copy, file) = CopyDir::create_in(parent.path(), "s").expect("a copy");
        let mode = |meta: fs::Metadata| meta.mode() & 0o777;
        assert_eq!(
            mode(fs::metadata(&copy.root).expect("it is there")),
            PRIVATE_DIR
        );
        assert_eq!(mode(file.metadata().expect("it is open")), PRIVATE_FILE);
    }
}
