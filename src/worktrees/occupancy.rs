//! Which worktrees sessions work in: each session's process has a lock on a file in its worktree's
//! entry, which the kernel drops when the process ends, however that happens.

use std::{
    fs::{File, OpenOptions},
    path::Path,
    sync::{Mutex, PoisonError},
};

use super::repository::{WorktreeError, entry_of};

/// The locked file.
const IN_USE: &str = "creel-in-use";

/// The lock of this process.
static HELD: Mutex<Option<File>> = Mutex::new(None);

/// Keeps the worktree for this process until it ends. False if another process has it.
pub fn occupy(worktree: &Path) -> Result<bool, WorktreeError> {
    let Some(file) = lock(worktree)? else {
        return Ok(false);
    };
    *HELD.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
    Ok(true)
}

/// Gives the worktree of this process back.
pub fn leave() {
    HELD.lock().unwrap_or_else(PoisonError::into_inner).take();
}

/// Whether a process works there.
pub fn is_occupied(worktree: &Path) -> bool {
    matches!(lock(worktree), Ok(None))
}

/// None if another process has the lock.
fn lock(worktree: &Path) -> Result<Option<File>, WorktreeError> {
    let entry = entry_of(worktree).ok_or_else(|| WorktreeError::Broken(worktree.to_owned()))?;
    let path = entry.join(IN_USE);
    let error = |cause| WorktreeError::File {
        action: format!("lock {}", path.display()),
        cause,
    };
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(error)?;
    Ok(file.try_lock().is_ok().then_some(file))
}
