//! Removes the lock files of git that a kill left in a worktree of creel's. Git refuses to work as long as they exist.
//!
//! # Invariants
//! - Only files in the worktree's own entry, and the lock of its own branch. No session works there.
//! - A process that is still alive gets time to finish.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::inventory::GOING;
use super::repository::{ProjectRepository, WorktreeError, entry_of};

/// How long to wait where creel cannot see which processes work there.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long to wait for a process that works there: a commit waits for the project's own hooks.
const LONGEST: Duration = Duration::from_mins(10);
const LOOK: Duration = Duration::from_millis(20);
/// The files that git locks in the entry of a worktree.
const LOCKED: [&str; 4] = ["index.lock", "HEAD.lock", "ORIG_HEAD.lock", "config.worktree.lock"];

impl ProjectRepository {
    /// Waits for locks to go, and removes those that stay.
    pub(super) fn unlock(&self, worktree: &Path, branch: &str) -> Result<(), WorktreeError> {
        let Some(entry) = entry_of(worktree).filter(|entry| entry.starts_with(&self.common_dir)) else {
            return Ok(());
        };
        // A removal that was interrupted must not delete the work that comes now.
        let _ = fs::remove_file(entry.join(GOING));
        let own = self.common_dir.join(format!("refs/heads/{branch}.lock"));
        let files: Vec<PathBuf> = LOCKED.iter().map(|name| entry.join(name)).chain([own]).collect();
        let (soon, late) = (Instant::now() + PATIENCE, Instant::now() + LONGEST);
        while files.iter().any(|file| file.exists()) {
            let is_alive = has_process_in(worktree);
            if Instant::now() > late || (is_alive == Some(false)) || (is_alive.is_none() && Instant::now() > soon) {
                break;
            }
            std::thread::sleep(LOOK);
        }
        for file in files.iter().filter(|file| file.exists()) {
            let error = |cause| WorktreeError::File { action: format!("remove {}", file.display()), cause };
            fs::remove_file(file).map_err(error)?;
        }
        Ok(())
    }
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
