//! Repairs what a kill left in a worktree of creel's: lock files of git, which refuses to work as long as they exist, and a
//! removal that was interrupted.
//!
//! # Invariants
//! - Only files in the worktree's own entry, and the lock of its own branch. No session works there.
//! - A process that is still alive gets time to finish.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::{
    inventory::GOING,
    new_worktree::UNREADY,
    repository::{ProjectRepository, WorktreeError, entry_of, git_there, told_there},
};

/// How long to wait where creel cannot see which processes work there.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long to wait for a process that works there: a commit waits for the project's own hooks.
const LONGEST: Duration = Duration::from_mins(10);
const LOOK: Duration = Duration::from_millis(20);
/// The files that git locks in the entry of a worktree.
const LOCKED: [&str; 4] = ["index.lock", "HEAD.lock", "ORIG_HEAD.lock", "config.worktree.lock"];

impl ProjectRepository {
    /// Waits for locks to go, and removes those that stay. Undoes a removal that was interrupted.
    pub(super) fn repair(&self, worktree: &Path, branch: &str) -> Result<(), WorktreeError> {
        let Some(entry) = entry_of(worktree).filter(|entry| entry.starts_with(&self.common_dir)) else {
            return Ok(());
        };
        let own = self.common_dir.join(format!("refs/heads/{branch}.lock"));
        let files: Vec<PathBuf> = LOCKED.iter().map(|name| entry.join(name)).chain([own]).collect();
        wait_for_git(worktree, || files.iter().all(|file| !file.exists()));
        for file in files.iter().filter(|file| file.exists()) {
            let error = |cause| WorktreeError::File { action: format!("remove {}", file.display()), cause };
            fs::remove_file(file).map_err(error)?;
        }
        if entry.join(GOING).exists() { restore_files(worktree, &entry) } else { Ok(()) }
    }
}

/// Waits while git works in the worktree, until `is_done`.
fn wait_for_git(worktree: &Path, is_done: impl Fn() -> bool) {
    let (soon, late) = (Instant::now() + PATIENCE, Instant::now() + LONGEST);
    while !is_done() {
        let is_alive = has_process_in(worktree);
        if Instant::now() > late || (is_alive == Some(false)) || (is_alive.is_none() && Instant::now() > soon) {
            break;
        }
        std::thread::sleep(LOOK);
    }
}

/// Deletes a worktree that belongs to creel alone and that a kill left in the middle of something. Returns whether it did.
pub(super) fn discard_if_interrupted(worktree: &Path, entry: &Path) -> Result<bool, WorktreeError> {
    let is_whole = || {
        let has_lock = fs::read_dir(entry).is_ok_and(|mut files| {
            files.any(|file| file.is_ok_and(|file| file.path().extension().is_some_and(|end| end == "lock")))
        });
        !has_lock && fs::read(entry.join("HEAD")).is_ok_and(|head| !head.is_empty())
    };
    wait_for_git(worktree, is_whole);
    if is_whole() {
        return Ok(false);
    }
    for folder in [worktree, entry] {
        let error = |cause| WorktreeError::File { action: format!("remove {}", folder.display()), cause };
        fs::remove_dir_all(folder).map_err(error)?;
    }
    Ok(true)
}

/// Undoes a removal that was interrupted: it has deleted files that are committed, which must not look like work, and
/// perhaps what the setup made.
fn restore_files(worktree: &Path, entry: &Path) -> Result<(), WorktreeError> {
    // It writes only what is missing, and fails if a file that is there has changed.
    let restored = git_there(worktree, &["checkout-index", "--all", "--quiet"])?;
    if !told_there(worktree, &["ls-files", "--deleted"])?.is_empty() {
        return Err(WorktreeError::Git { command: "checkout-index".to_owned(), complaint: restored.complaint() });
    }
    let error = |cause| WorktreeError::File { action: format!("write to {}", entry.display()), cause };
    fs::write(entry.join(UNREADY), "").and_then(|()| fs::remove_file(entry.join(GOING))).map_err(error)
}

/// Whether git works in the worktree. None if the system does not say.
fn has_process_in(worktree: &Path) -> Option<bool> {
    let mut seen = false;
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        let Ok(cwd) = fs::read_link(entry.path().join("cwd")) else { continue };
        seen = true;
        let is_git = || fs::read_to_string(entry.path().join("comm")).is_ok_and(|name| name.starts_with("git"));
        if cwd.starts_with(worktree) && is_git() {
            return Some(true);
        }
    }
    seen.then_some(false)
}
