//! Repairs what a kill left in a worktree of creel's: lock files of git, which refuses to work as
//! long as they exist, a worktree that git had not finished, and a removal that was interrupted.
//!
//! # Invariants
//! - Only files in the worktree's own entry, and the locks of its own branch. No session works
//!   there. Locks of other branches go once they are old and no git works in the project.
//! - No file goes that git has not just written: a folder goes only while there is nothing in it
//!   but its `.git` file.
//! - A process that is still alive gets time to finish.

use std::{
    fs::{self, OpenOptions},
    io::{ErrorKind, Write as _},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::{
    ProjectRepository, WorktreeError, entry_of,
    inventory::{GOING, session_of},
    new_worktree::UNREADY,
    worktree_git, worktree_git_output,
};

/// How long to wait where creel cannot see which processes work there.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long to wait for a process that works there: a commit waits for the project's own hooks.
const LONGEST: Duration = Duration::from_mins(10);
const LOOK: Duration = Duration::from_millis(20);
/// How old a lock of a branch is at least that a killed git left behind. Git holds one for
/// milliseconds, but a hook of the user's can make it wait.
const STALE: Duration = Duration::from_secs(20);
/// The files that git locks in the entry of a worktree.
const LOCKED: [&str; 4] = [
    "index.lock",
    "HEAD.lock",
    "ORIG_HEAD.lock",
    "config.worktree.lock",
];

impl ProjectRepository {
    /// Waits for locks to go, and removes those that stay. Undoes a removal that was interrupted.
    pub(super) fn repair(&self, worktree: &Path, branch: &str) -> Result<(), WorktreeError> {
        let Some(entry) = entry_of(worktree).filter(|entry| entry.starts_with(&self.common_dir))
        else {
            return Ok(());
        };
        let is_of_branch = |lock: &PathBuf| lock.ends_with(format!("{branch}.lock"));
        let files: Vec<PathBuf> = LOCKED
            .iter()
            .map(|name| entry.join(name))
            .chain(self.ref_locks().into_iter().filter(is_of_branch))
            .collect();
        wait_for_git(worktree, || files.iter().all(|file| !file.exists()));
        remove_locks(&files)?;
        let is_checked_out = entry.join("index").exists();
        if !is_checked_out && !is_half_made(&entry) {
            worktree_git_output(worktree, &["read-tree", "HEAD"])?;
        }
        if entry.join(GOING).exists() || !is_checked_out {
            restore_files(worktree, &entry)
        } else {
            Ok(())
        }
    }

    /// The locks of branches, local and remote.
    fn ref_locks(&self) -> Vec<PathBuf> {
        let mut locks = vec![self.common_dir.join("packed-refs.lock")];
        let mut folders = vec![self.common_dir.join("refs")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if entry.file_type().is_ok_and(|sort| sort.is_dir()) {
                    folders.push(path);
                } else if path.extension().is_some_and(|end| end == "lock") {
                    locks.push(path);
                }
            }
        }
        locks
    }

    /// Deletes what a killed git left behind: old locks of branches, and what there is of worktrees
    /// that it was about to make. What is left of those that it was about to remove can be removed
    /// again. Only with the lock of the repository.
    pub fn clear_after_kills(&self) -> Result<(), WorktreeError> {
        let is_stale = |lock: &PathBuf| {
            let written = lock.metadata().and_then(|meta| meta.modified()).ok();
            let age = written.and_then(|at| at.elapsed().ok()).unwrap_or_default();
            age > LONGEST || (age > STALE && has_process_in(&self.project) == Some(false))
        };
        let mut locks = self.ref_locks();
        locks.retain(is_stale);
        remove_locks(&locks)?;
        let Ok(entries) = fs::read_dir(self.common_dir.join("worktrees")) else {
            return Ok(());
        };
        for entry in entries.flatten().map(|entry| entry.path()) {
            let reason = fs::read_to_string(entry.join("locked")).unwrap_or_default();
            let is_own = session_of(&reason)
                .is_some_and(|(_, project)| Path::new(project.trim_end()) == self.project);
            if !is_own {
                continue;
            }
            let link = fs::read_to_string(entry.join("gitdir")).unwrap_or_default();
            let link = Path::new(link.trim_end());
            let worktree = link.parent().filter(|folder| folder.is_absolute());
            if is_half_made(&entry) {
                discard_half_made(worktree, &entry)?;
            } else if entry.join(GOING).exists() && worktree.is_some_and(Path::exists) {
                relink(link, &entry)?;
            }
        }
        Ok(())
    }
}

/// Writes the `.git` file of a worktree again if git deleted it before the rest of the folder.
fn relink(link: &Path, entry: &Path) -> Result<(), WorktreeError> {
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(link)
        .and_then(|mut file| writeln!(file, "gitdir: {}", entry.display()));
    match written {
        Err(cause) if cause.kind() != ErrorKind::AlreadyExists => {
            let action = format!("write {}", link.display());
            Err(WorktreeError::File { action, cause })
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

fn remove_locks(files: &[PathBuf]) -> Result<(), WorktreeError> {
    for file in files {
        match fs::remove_file(file) {
            Err(cause) if cause.kind() != ErrorKind::NotFound => {
                let action = format!("remove {}", file.display());
                return Err(WorktreeError::File { action, cause });
            }
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// Deletes the entry of a worktree that git had not finished, and its folder if nothing else is in
/// it. Returns whether it did.
pub(super) fn discard_half_made(
    worktree: Option<&Path>,
    entry: &Path,
) -> Result<bool, WorktreeError> {
    wait_for_git(worktree.unwrap_or(entry), || !is_half_made(entry));
    if !is_half_made(entry) || worktree.is_some_and(|worktree| !is_bare(worktree)) {
        return Ok(false);
    }
    for folder in worktree
        .into_iter()
        .filter(|folder| folder.exists())
        .chain([entry])
    {
        let error = |cause| WorktreeError::File {
            action: format!("remove {}", folder.display()),
            cause,
        };
        fs::remove_dir_all(folder).map_err(error)?;
    }
    Ok(true)
}

/// Whether git was killed before the worktree of this entry had a commit.
pub(super) fn is_half_made(entry: &Path) -> bool {
    let has = |name: &str| fs::read(entry.join(name)).is_ok_and(|text| !text.is_empty());
    !(has("gitdir") && has("commondir") && has("HEAD"))
}

/// Whether there is nothing in a folder but its `.git` file, or no such folder.
pub(super) fn is_bare(worktree: &Path) -> bool {
    let Ok(found) = fs::read_dir(worktree) else {
        return !worktree.exists();
    };
    found
        .flatten()
        .all(|file| file.file_name() == ".git" && file.file_type().is_ok_and(|sort| sort.is_file()))
}

/// Waits while a git that outlived its creel makes the worktree: if its checkout was killed, it
/// removes the folder.
pub(super) fn wait_until_made(worktree: &Path) {
    if worktree.exists() {
        wait_for_git(worktree, || has_process_in(worktree) != Some(true));
    }
}

/// Waits while git works in the worktree, until `is_done`.
fn wait_for_git(worktree: &Path, is_done: impl Fn() -> bool) {
    let (soon, late) = (Instant::now() + PATIENCE, Instant::now() + LONGEST);
    while !is_done() {
        let is_alive = has_process_in(worktree);
        if Instant::now() > late
            || (is_alive == Some(false))
            || (is_alive.is_none() && Instant::now() > soon)
        {
            break;
        }
        std::thread::sleep(LOOK);
    }
}

/// Deletes a worktree that belongs to creel alone and that a kill left in the middle of something.
/// Returns whether it did.
pub(super) fn discard_if_interrupted(worktree: &Path, entry: &Path) -> Result<bool, WorktreeError> {
    let is_whole = || {
        let has_lock = fs::read_dir(entry).is_ok_and(|mut files| {
            files.any(|file| {
                file.is_ok_and(|file| file.path().extension().is_some_and(|end| end == "lock"))
            })
        });
        !has_lock && fs::read(entry.join("HEAD")).is_ok_and(|head| !head.is_empty())
    };
    wait_for_git(worktree, is_whole);
    if is_whole() {
        return Ok(false);
    }
    for folder in [worktree, entry] {
        let error = |cause| WorktreeError::File {
            action: format!("remove {}", folder.display()),
            cause,
        };
        fs::remove_dir_all(folder).map_err(error)?;
    }
    Ok(true)
}

/// Undoes a removal that was interrupted: it has deleted files that are committed, which must not
/// look like work, and perhaps what the setup made.
fn restore_files(worktree: &Path, entry: &Path) -> Result<(), WorktreeError> {
    // It writes only what is missing, and fails if a file that is there has changed.
    let restored = worktree_git(worktree, &["checkout-index", "--all", "--quiet"])?;
    if !worktree_git_output(worktree, &["ls-files", "--deleted"])?.is_empty() {
        return Err(WorktreeError::Git {
            command: "checkout-index".to_owned(),
            complaint: restored.complaint(),
        });
    }
    let error = |cause| WorktreeError::File {
        action: format!("write to {}", entry.display()),
        cause,
    };
    let noted = fs::write(entry.join(UNREADY), "");
    let going = entry.join(GOING);
    noted
        .and_then(|()| {
            if going.exists() {
                fs::remove_file(going)
            } else {
                Ok(())
            }
        })
        .map_err(error)
}

/// Whether git works in the worktree, or makes it. None if the system does not say.
fn has_process_in(worktree: &Path) -> Option<bool> {
    let mut seen = false;
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        let Ok(cwd) = fs::read_link(entry.path().join("cwd")) else {
            continue;
        };
        seen = true;
        let is_git = || {
            fs::read_to_string(entry.path().join("comm")).is_ok_and(|name| name.starts_with("git"))
        };
        let names_it = || {
            let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            words
                .split(|byte| *byte == 0)
                .any(|word| word == worktree.as_os_str().as_bytes())
        };
        if is_git() && (cwd.starts_with(worktree) || names_it()) {
            return Some(true);
        }
    }
    seen.then_some(false)
}
