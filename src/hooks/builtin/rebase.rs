//! `rebase_on_main`: rebases the work onto the base branch, and undoes a rebase that was
//! interrupted.
//!
//! Owns the note that marks a rebase as creel's: a file in git's folder, written before the rebase
//! begins and removed when it ends. Git moves the branch only at the end of a rebase. So aborting
//! an interrupted rebase undoes it, and the branch needs no backup. The note says where it must be.
//!
//! # Invariants
//! - However it ends, the branch is where it was, or completely on top of the base branch.
//! - It begins only without uncommitted changes, so that aborting a rebase loses nothing.
//! - Only a rebase of the noted branch from the noted commit that git's reflog marks as creel's is
//!   undone. A rebase that the user began since is not.
//! - A branch is never moved while no rebase is in progress: then the rebase has ended.
//! - A rebase of another creel that still runs is left alone.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::{
    branch_status::BranchStatus,
    git::{self, UncommittedChanges},
    job::BuiltinRun,
    outcome::{BuiltinError, BuiltinSuccess, files, named, quoted, short, some},
    program::{ProgramResult, ProgramRunner},
};
use crate::{process::run::ProcessGroup, text::counted};

pub(super) async fn run(worker: &mut BuiltinRun<'_>) -> Result<BuiltinSuccess, BuiltinError> {
    if let Some(url) = &worker.submission.watched {
        let why = format!(
            "{url} is watched: creel merges the base only if it has to, so that approvals stay"
        );
        return Ok(BuiltinSuccess::skip(why));
    }
    let status = BranchStatus::of(worker).await?;
    let changes = worker.runner.changes().await?;
    let base = status.fetch_base(worker).await?;
    if let Some(skip) = nothing_to_do(&worker.runner, &status, &base, &changes).await? {
        return Ok(skip);
    }
    status.on_its_own_branch(&worker.call.job.facts.session)?;
    status.refuse_changes(&changes, "it is not rebased")?;
    if !worker
        .runner
        .git(&["merge-base", &base, &status.head])
        .await?
        .ok()
    {
        return Err(BuiltinError::failed(format!(
            "{} and {} have no commit in common: check `base_branch`",
            named(&status.branch),
            named(&status.base_name())
        )));
    }
    rebase(worker, &status, &base).await
}

async fn nothing_to_do(
    runner: &ProgramRunner,
    status: &BranchStatus,
    base: &str,
    changes: &UncommittedChanges,
) -> Result<Option<BuiltinSuccess>, BuiltinError> {
    let (branch, base_name) = (named(&status.branch), named(&status.base_name()));
    if runner.contains(&status.head, base).await? {
        let at = short(base);
        return Ok(Some(BuiltinSuccess::skip(format!(
            "{branch} is up to date with {base_name} ({at})"
        ))));
    }
    if runner.ahead(base, &status.head).await? == 0 && changes.tracked.is_empty() {
        return Ok(Some(BuiltinSuccess::skip(format!(
            "{branch} has no commits that {base_name} does not have"
        ))));
    }
    Ok(None)
}

async fn rebase(
    worker: &mut BuiltinRun<'_>,
    status: &BranchStatus,
    base: &str,
) -> Result<BuiltinSuccess, BuiltinError> {
    let note = RebaseNote::write(&status.git_dir, &status.branch, &status.head, base)?;
    worker
        .runner
        .env
        .push(("GIT_REFLOG_ACTION".to_owned(), ACTION.to_owned()));
    // Override the user's settings: stashed changes would not come back after a kill, and other
    // branches must stay.
    let args = [
        "-c",
        "rebase.autoStash=false",
        "-c",
        "rebase.updateRefs=false",
        "rebase",
        "--no-autosquash",
        base,
    ];
    let mut call = git::call(&args);
    call.unshown += 4;
    let ran = worker.show(&call).await;
    let tidying = worker.runner.for_tidying();
    let conflicts = tidying.unmerged().await.unwrap_or_default();
    if ran.as_ref().is_ok_and(ProgramResult::ok) {
        RebaseNote::remove(&status.git_dir);
        let commits = worker.runner.ahead(base, "HEAD").await?;
        return Ok(BuiltinSuccess::success(format!(
            "rebased {} of {} onto {} ({}); before, the branch was at {}",
            counted(commits, "commit"),
            named(&status.branch),
            named(&status.base_name()),
            short(base),
            short(&status.head)
        )));
    }
    let undone = put_back(&tidying, &status.git_dir, &note).await?;
    let halt = match ran {
        Ok(_) if !conflicts.is_empty() => conflict(status, &conflicts),
        Ok(ran) => BuiltinError::failed(format!(
            "`git rebase` failed (exit {}): {}",
            ran.code,
            ran.complaint()
        )),
        Err(halt) => halt,
    };
    Err(match undone {
        RebaseUndo::Nothing | RebaseUndo::PutBack(_) => halt.and(&format!(
            "the branch is at {} as before",
            short(&status.head)
        )),
        RebaseUndo::Left(why) => halt.and(&why),
    })
}

fn conflict(status: &BranchStatus, conflicts: &[String]) -> BuiltinError {
    let (branch, base) = (named(&status.branch), named(&status.base_name()));
    let message = format!("{branch} conflicts with {base} in {}", some(conflicts));
    let fetch = status.remote.as_ref().map_or_else(String::new, |remote| {
        format!(
            "Get the newest state: `git fetch {} {}`.",
            quoted(remote),
            quoted(&status.base)
        )
    });
    let steps = [
        fetch,
        format!("Begin: `git rebase {}`.", quoted(&status.base_name())),
        "For each file with conflicts: open it, keep what both sides meant, remove the conflict markers, then `git add -- \
         FILE`."
            .to_owned(),
        "Continue: `GIT_EDITOR=true git rebase --continue`. Repeat from step 3 until git says that the rebase is done."
            .to_owned(),
        "Build and test, and commit what this needs.".to_owned(),
        "See with `git status` that no rebase is in progress and that nothing is uncommitted.".to_owned(),
    ];
    let steps: String = steps
        .iter()
        .filter(|step| !step.is_empty())
        .enumerate()
        .map(numbered)
        .collect();
    let steps = if status.remote.is_some() {
        steps
    } else {
        steps.replace("from step 3", "from step 2")
    };
    BuiltinError::failed(message).repaired_by(format!(
        "creel could not rebase the branch {branch} onto {base}. These files have conflicts:\n{}creel aborted the \
         rebase, and the branch is as you left it. Rebase it yourself, in this folder:\n{steps}Do not push, do not \
         merge, do not drop commits, and do not use `git rebase --skip`. If you cannot resolve it, leave with `git \
         rebase --abort` and say why.",
        files(conflicts)
    ))
}

fn numbered((at, step): (usize, &String)) -> String {
    format!("{}. {step}\n", at + 1)
}

/// In git's folder.
const NOTE: &str = "creel-rebase.json";
/// The mark of creel's rebases in git's reflog.
pub(super) const ACTION: &str = "creel rebase";
/// The folders for git's rebase state.
const STATES: [&str; 2] = ["rebase-merge", "rebase-apply"];
/// How long to wait for a lock of a process that still works.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);
/// The interval between checks of the lock.
const LOOK: Duration = Duration::from_millis(50);

/// The state before a rebase of creel's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RebaseNote {
    /// Without `refs/heads/`.
    pub(super) branch: String,
    /// The commit of the branch.
    pub(super) commit: String,
    /// The commit to rebase onto.
    onto: String,
    /// The process that began it.
    pid: i32,
    /// The start time of that process, in the kernel's ticks since boot, if known.
    started: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RebaseUndo {
    /// There was no interrupted rebase.
    Nothing,
    PutBack(RebaseNote),
    /// Why it was not undone: it is not creel's, or it failed.
    Left(String),
}

/// Undoes the rebase that a killed creel left in this folder, if any, and returns a message about
/// it. The caller must first have ended that creel's processes.
pub async fn recover(folder: &Path) -> Option<String> {
    let runner = runner_in(folder);
    // Without git there is nothing to recover.
    let git_dir = runner.git_dir().await.ok()?;
    match undo(&runner, &git_dir).await {
        Ok(RebaseUndo::Nothing) => None,
        Ok(RebaseUndo::PutBack(note)) => Some(format!(
            "a rebase of {} was interrupted. creel undid it, and the branch is at {} as before",
            named(&note.branch),
            short(&note.commit)
        )),
        Ok(RebaseUndo::Left(why)) => Some(why),
        Err(halt) => Some(halt.message),
    }
}

/// Runs programs outside of a hook.
pub(super) fn runner_in(folder: &Path) -> ProgramRunner {
    let mark = format!("look-{}", std::process::id());
    let runner = ProgramRunner {
        cwd: folder.to_owned(),
        env: Vec::new(),
        mark,
        cancel: CancellationToken::new(),
        deadline: None,
    };
    runner.for_tidying()
}

/// Undoes the noted rebase of this git folder.
pub(super) async fn undo(
    runner: &ProgramRunner,
    git_dir: &Path,
) -> Result<RebaseUndo, BuiltinError> {
    let Some(note) = RebaseNote::read(git_dir) else {
        return Ok(RebaseUndo::Nothing);
    };
    if note.is_anothers() {
        return Ok(RebaseUndo::Left(format!(
            "another creel (process {}) rebases {} here: wait for it",
            note.pid,
            named(&note.branch)
        )));
    }
    put_back(&runner.for_tidying(), git_dir, &note).await
}

/// Aborts the rebase, so that the branch is checked out where it was.
pub(super) async fn put_back(
    runner: &ProgramRunner,
    git_dir: &Path,
    note: &RebaseNote,
) -> Result<RebaseUndo, BuiltinError> {
    unlock(runner, git_dir, note).await?;
    let Some(state) = STATES
        .iter()
        .map(|name| git_dir.join(name))
        .find(|state| state.exists())
    else {
        // It has not begun, or has ended.
        RebaseNote::remove(git_dir);
        return Ok(RebaseUndo::Nothing);
    };
    if !note.is_of(&state) || begun_by_another(runner).await? {
        RebaseNote::remove(git_dir);
        return Ok(RebaseUndo::Left(format!(
            "a rebase that creel did not start is in progress: {}",
            way_out()
        )));
    }
    let aborted = runner.git(&["rebase", "--abort"]).await?;
    if !aborted.ok() {
        leave_by_hand(runner, &state, note).await?;
    }
    let branch = runner.branch().await?;
    let commit = runner.commit(&note.reference()).await?;
    if branch.as_deref() != Some(&note.branch)
        || commit.as_deref() != Some(&note.commit)
        || state.exists()
    {
        return Ok(RebaseUndo::Left(format!(
            "a rebase of {} was interrupted, and creel could not undo it ({}): {}; the work is at commit {}",
            named(&note.branch),
            aborted.complaint(),
            way_out(),
            note.commit
        )));
    }
    remove_leftovers(runner, git_dir, note).await?;
    RebaseNote::remove(git_dir);
    Ok(RebaseUndo::PutBack(note.clone()))
}

/// Removes files of the other commit that a killed git had already written, because they would
/// block the next rebase. Nothing is lost: they are empty, or identical to that commit.
async fn remove_leftovers(
    runner: &ProgramRunner,
    git_dir: &Path,
    note: &RebaseNote,
) -> Result<(), BuiltinError> {
    let unknown = runner
        .git_says(&[
            "ls-files",
            "--others",
            "--exclude-standard",
            "-z",
            "--",
            ":/",
        ])
        .await?;
    let noted = modified(&git_dir.join(NOTE));
    let young = |name: &&str| !name.is_empty() && modified(&runner.cwd.join(name)) >= noted;
    let unknown: Vec<&str> = unknown.split('\0').filter(young).collect();
    for name in unknown {
        // Relative to this folder, as in the output of `git ls-files`.
        let there = runner
            .git(&[
                "rev-parse",
                "--verify",
                "--quiet",
                &format!("{}:./{name}", note.onto),
            ])
            .await?;
        let path = runner.cwd.join(name);
        let is_empty = path
            .symlink_metadata()
            .is_ok_and(|metadata| metadata.is_file() && metadata.len() == 0);
        if there.ok()
            && (is_empty
                || runner.git(&["hash-object", "--", name]).await?.answer() == there.answer())
        {
            // If it stays, the next rebase reports it.
            let _ = fs::remove_file(path);
        }
    }
    Ok(())
}

/// Whether the last rebase that moved HEAD is not creel's. A note can outlive its rebase, and the
/// user can begin another one from the same commit. Git's reflog shows the difference.
async fn begun_by_another(runner: &ProgramRunner) -> Result<bool, BuiltinError> {
    if runner.branch().await?.is_some() {
        // The rebase has not moved HEAD.
        return Ok(false);
    }
    let log = runner
        .git(&["reflog", "show", "--format=%gs", "--max-count=1000", "HEAD"])
        .await?;
    let actions = log
        .stdout
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(action, _)| action);
    let begun = actions
        .map(str::trim)
        .find(|action| action.ends_with("(start)"));
    Ok(begun.is_some_and(|action| !action.starts_with(ACTION)))
}

fn way_out() -> &'static str {
    "leave it with `git rebase --abort`"
}

/// Does the work of `git rebase --abort` for a rebase that was interrupted before git had written
/// all that it needs. Git had not changed files yet, or only to the commit of the base.
async fn leave_by_hand(
    runner: &ProgramRunner,
    state: &Path,
    note: &RebaseNote,
) -> Result<(), BuiltinError> {
    runner
        .git_says(&[
            "symbolic-ref",
            "-m",
            "creel: undo a rebase",
            "HEAD",
            &note.reference(),
        ])
        .await?;
    runner
        .git_says(&[
            "update-ref",
            "-m",
            "creel: undo a rebase",
            &note.reference(),
            &note.commit,
        ])
        .await?;
    runner
        .git_says(&["reset", "--hard", "--quiet", &note.commit])
        .await?;
    fs::remove_dir_all(state).map_err(|error| {
        BuiltinError::failed(format!(
            "cannot remove {} ({error}): remove it by hand",
            quoted(&state.to_string_lossy())
        ))
    })
}

/// Removes the locks of a killed git. A lock counts as such if it is younger than the note and
/// exists longer than any git process needs.
async fn unlock(
    runner: &ProgramRunner,
    git_dir: &Path,
    note: &RebaseNote,
) -> Result<(), BuiltinError> {
    let noted = modified(&git_dir.join(NOTE));
    let common = runner
        .cwd
        .join(runner.git_says(&["rev-parse", "--git-common-dir"]).await?);
    let of_branch = common.join(format!("{}.lock", note.reference()));
    let files = fs::read_dir(git_dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let is_lock = |path: &PathBuf| {
        path.extension()
            .is_some_and(|extension| extension == "lock")
    };
    let locks = files
        .chain([of_branch, common.join("packed-refs.lock")])
        .filter(is_lock);
    let locks: Vec<PathBuf> = locks
        .filter(|lock| modified(lock).is_some_and(|at| Some(at) >= noted))
        .collect();
    let deadline = tokio::time::Instant::now() + LOCK_PATIENCE;
    while locks.iter().any(|lock| lock.exists()) {
        if tokio::time::Instant::now() >= deadline {
            for lock in &locks {
                // If it is still there, git reports it.
                let _ = fs::remove_file(lock);
            }
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata()
        .and_then(|metadata| metadata.modified())
        .ok()
}

impl RebaseNote {
    /// Saves the position of a branch before its rebase.
    pub(super) fn write(
        git_dir: &Path,
        branch: &str,
        commit: &str,
        onto: &str,
    ) -> Result<Self, BuiltinError> {
        let own = ProcessGroup::led_by(own_pid());
        let (branch, commit, onto) = (branch.to_owned(), commit.to_owned(), onto.to_owned());
        let note = Self {
            branch,
            commit,
            onto,
            pid: own.pid,
            started: own.start,
        };
        let written = note.try_write(git_dir);
        written.map_err(|error| {
            BuiltinError::failed(format!(
                "cannot write in git's folder {} ({error})",
                git_dir.display()
            ))
        })?;
        Ok(note)
    }

    fn try_write(&self, git_dir: &Path) -> io::Result<()> {
        let new = git_dir.join(format!("{NOTE}.new"));
        let mut file = File::create(&new)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        file.sync_all()?;
        fs::rename(new, git_dir.join(NOTE))
    }

    fn read(git_dir: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(git_dir.join(NOTE)).ok()?).ok()
    }

    pub(super) fn remove(git_dir: &Path) {
        // If it stays, the next check finds nothing to undo.
        let _ = fs::remove_file(git_dir.join(NOTE));
    }

    pub(super) fn reference(&self) -> String {
        format!("refs/heads/{}", self.branch)
    }

    /// Whether another creel wrote it that still runs.
    fn is_anothers(&self) -> bool {
        if self.pid == own_pid() {
            return false;
        }
        let now = ProcessGroup::led_by(self.pid).start;
        match self.started {
            Some(started) => now == Some(started),
            None => Pid::from_raw(self.pid).is_some_and(|pid| test_kill_process(pid).is_ok()),
        }
    }

    /// Whether this is the noted rebase. Git stores the branch and its commit. If it had not stored
    /// them yet, no other rebase can have begun since.
    fn is_of(&self, state: &Path) -> bool {
        let says = |file: &str, expected: &str| match fs::read_to_string(state.join(file)) {
            Ok(text) => text.is_empty() || text.trim_end_matches('\n') == expected,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        says("head-name", &self.reference()) && says("orig-head", &self.commit)
    }
}

fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

impl RebaseUndo {
    /// Why a hook cannot begin.
    pub(super) fn problem(self) -> Option<String> {
        match self {
            Self::Nothing | Self::PutBack(_) => None,
            Self::Left(why) => Some(why),
        }
    }
}
