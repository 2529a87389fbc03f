//! Brings the branches of several sessions together in one worktree, and takes finished work out of
//! it.
//!
//! # Invariants
//! - A conflict stays in the worktree for the agent to resolve, and no work counts as finished
//!   while one is left.
//! - Work counts as finished only if its branch contains every branch that it started from.

use std::{
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use super::{
    NO_HOOKS, ProjectRepository, WorktreeError, checked_out, entry_of,
    inventory::{self, UnsavedWork, in_progress, some_files},
    worktree_git, worktree_git_output,
};

use crate::{engine::event::SessionWorktree, git};

/// A merge that needs an agent or a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeConflict {
    pub branch: String,
    pub files: Vec<String>,
    /// The branches that are still to be merged after this one.
    pub left: Vec<String>,
}

/// Work in a worktree that is to be finished.
#[derive(Debug)]
pub struct TaskWork<'a> {
    pub worktree: &'a SessionWorktree,
    /// For the commit of what the agent did not commit.
    pub message: &'a str,
    /// The branches that it started from.
    pub joined: &'a [String],
    pub remote: Option<&'a str>,
}

/// Why work is not finished.
#[derive(Debug, thiserror::Error)]
pub enum UnfinishedWork {
    #[error("it was not merged with the branch `{branch}`: {} in conflict", files_in_words(.files))]
    Conflict { branch: String, files: Vec<String> },
    #[error(
        "its branch does not contain `{branch}`, the work that it builds on; merge that branch"
    )]
    NotJoined { branch: String },
    #[error("its work is not on the branch `{branch}`; put it there with `git switch -C {branch}` in {}", .path.display())]
    LeftBranch { branch: String, path: PathBuf },
    #[error("a commit hook of the repository refuses its work: {printed}")]
    Refused { printed: String },
    #[error("creel could not commit its work: {complaint}")]
    CannotCommit { complaint: String, was_killed: bool },
    #[error(
        "its work is on the branch `{branch}` here, but creel could not push it to `{remote}`: {complaint}"
    )]
    CannotPush {
        branch: String,
        remote: String,
        complaint: String,
    },
    #[error(transparent)]
    Git(#[from] WorktreeError),
}

impl MergeConflict {
    /// What the agent has to do first.
    pub fn for_agent(&self) -> String {
        let files: String = self
            .files
            .iter()
            .map(|file| format!("- {file}\n"))
            .collect();
        let left: String = self
            .left
            .iter()
            .map(|branch| format!("`git merge {branch}`\n"))
            .collect();
        let more = if left.is_empty() {
            String::new()
        } else {
            format!("Then merge what is still missing, one after another, in the same way:\n{left}")
        };
        format!(
            "Before you begin: your work builds on the branch `{}`, and merging it left conflicts in:\n{files}\
             Resolve them so that both sides keep what they meant, `git add` the files, and finish with `git commit \
             --no-edit`. Do not abort the merge.\n{more}\nThen do this:\n\n",
            self.branch
        )
    }
}

/// What git prints if the other side ended before it said anything, for example because a
/// connection broke. It is worth a second attempt before a task is blocked.
const NO_CONTACT: &str = "Could not read from remote repository";
/// What it prints if another push to the same branch was faster, for example of a worker that was killed.
const LOCKED: &str = "cannot lock ref";

impl ProjectRepository {
    /// Merges branches into a worktree, in this order, up to the first conflict.
    pub fn join(
        &self,
        path: &Path,
        branches: &[String],
        remote: Option<&str>,
    ) -> Result<Option<MergeConflict>, WorktreeError> {
        for (at, branch) in branches.iter().enumerate() {
            let place =
                " for the work that this builds on; fetch it, or start that task again".to_owned();
            let missing = || WorktreeError::NoBase {
                base: branch.clone(),
                place,
            };
            let commit = self.newest(branch, remote)?.ok_or_else(missing)?;
            if worktree_git(path, &["merge-base", "--is-ancestor", &commit, "HEAD"])?.is_ok {
                continue;
            }
            let message = format!("Merge branch '{branch}'");
            // The repository's hooks judge what is merged into the base, which this is not yet.
            let args = ["merge", "--quiet", "--no-edit", "-m", &message, &commit];
            let merge = worktree_git(path, &[&NO_HOOKS[..], &args].concat())?;
            if merge.is_ok {
                continue;
            }
            let files = unmerged(path)?;
            if files.is_empty() {
                let complaint = merge.complaint();
                return Err(WorktreeError::Git {
                    command: format!("merge {branch}"),
                    complaint,
                });
            }
            let left = branches[at + 1..].to_vec();
            return Ok(Some(MergeConflict {
                branch: branch.clone(),
                files,
                left,
            }));
        }
        Ok(None)
    }

    /// The commit of a branch with finished work: at the remote if it is there, since finished work
    /// is pushed. A branch of the same name here can have work of a worker that was cut off.
    pub fn newest(
        &self,
        branch: &str,
        remote: Option<&str>,
    ) -> Result<Option<String>, WorktreeError> {
        if let Some(remote) = remote {
            let _alone = self.lock()?;
            // If the remote does not have it or does not answer, what is here has to be enough.
            let refspec = format!("+refs/heads/{branch}:refs/remotes/{remote}/{branch}");
            self.fetch(remote, &refspec)?;
        }
        self.last_seen(branch, remote)
    }

    /// The same, without fetching.
    fn last_seen(
        &self,
        branch: &str,
        remote: Option<&str>,
    ) -> Result<Option<String>, WorktreeError> {
        let there = match remote {
            Some(remote) => self.commit(&format!("refs/remotes/{remote}/{branch}"))?,
            None => None,
        };
        if there.is_some() {
            Ok(there)
        } else {
            self.branch(branch)
        }
    }

    /// Commits what the agent left, makes sure that nothing is missing, and pushes the branch.
    /// Returns the branch that the work is on.
    pub fn finish(&self, work: &TaskWork<'_>) -> Result<String, UnfinishedWork> {
        let SessionWorktree { path, branch, .. } = work.worktree;
        let path = Path::new(path);
        if path.join(".git").exists() {
            self.undisturbed(path, branch, || self.commit_rest(path, work))?;
            judge_skipped(path, work)?;
        }
        let reference = format!("refs/heads/{branch}");
        for joined in work.joined {
            let commit = self.last_seen(joined, work.remote)?;
            let is_in =
                commit.is_none_or(|commit| self.contains(&reference, &commit).unwrap_or(false));
            if !is_in {
                return Err(UnfinishedWork::NotJoined {
                    branch: joined.clone(),
                });
            }
        }
        match work.remote {
            Some(remote) => self.push(branch, remote),
            None => Ok(branch.clone()),
        }
    }

    /// Commits what a session that did not finish left in the worktree of its branch, so that the
    /// next session on the same task starts with it. Leaves a worktree alone in which a session
    /// works, or in which git is in the middle of something.
    pub fn save_unfinished(&self, branch: &str, message: &str) -> Result<(), UnfinishedWork> {
        let _alone = self.lock()?;
        for worktree in self
            .worktrees()?
            .iter()
            .filter(|worktree| worktree.branch.as_deref() == Some(branch))
        {
            let is_busy =
                entry_of(&worktree.path).is_none_or(|entry| in_progress(&entry).is_some());
            if is_busy || inventory::is_occupied(&worktree.path) {
                continue;
            }
            self.undisturbed(&worktree.path, branch, || {
                if matches!(worktree.unsaved(self)?, Some(UnsavedWork::Changes(_))) {
                    commit(&worktree.path, &["add", "--all"])?;
                    let kept = commit(&worktree.path, &["commit", "--quiet", "-m", message]);
                    if matches!(kept, Err(UnfinishedWork::Refused { .. })) {
                        // They judge it when it is finished.
                        let skip = ["commit", "--quiet", "-m", message, "-m", SKIPPED];
                        return commit(&worktree.path, &[&NO_HOOKS[..], &skip].concat());
                    }
                    kept?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Commits in a worktree. Repairs it first, and begins again if git was killed.
    fn undisturbed(
        &self,
        path: &Path,
        branch: &str,
        work: impl Fn() -> Result<(), UnfinishedWork>,
    ) -> Result<(), UnfinishedWork> {
        let mut left = git::ATTEMPTS;
        loop {
            left -= 1;
            self.repair(path, branch)?;
            let done = work();
            if left == 0
                || !matches!(
                    done,
                    Err(UnfinishedWork::CannotCommit {
                        was_killed: true,
                        ..
                    })
                )
            {
                return done;
            }
        }
    }

    /// Pushes a branch. If the remote has other work under its name, for example of a worker on
    /// another machine that was cut off, this work gets another name.
    pub fn push(&self, branch: &str, remote: &str) -> Result<String, UnfinishedWork> {
        let reference = format!("refs/heads/{branch}");
        let push = |to: &str| {
            let refspec = format!("{reference}:refs/heads/{to}");
            self.ask(&[
                "push",
                "--porcelain",
                "--no-follow-tags",
                "--",
                remote,
                &refspec,
            ])
        };
        let mut pushed = push(branch)?;
        let may_succeed = [NO_CONTACT, LOCKED];
        if may_succeed
            .iter()
            .any(|words| pushed.stderr.contains(words))
        {
            pushed = push(branch)?;
        }
        if pushed.is_ok {
            return Ok(branch.to_owned());
        }
        if pushed.stdout.contains("[rejected]") {
            let commit = self.branch(branch)?.unwrap_or_default();
            let other = format!("{branch}-{}", commit.chars().take(8).collect::<String>());
            if push(&other)?.is_ok {
                self.ask(&["update-ref", &format!("refs/heads/{other}"), &commit])?;
                return Ok(other);
            }
        }
        let (branch, remote, complaint) =
            (branch.to_owned(), remote.to_owned(), pushed.complaint());
        Err(UnfinishedWork::CannotPush {
            branch,
            remote,
            complaint,
        })
    }

    fn commit_rest(&self, path: &Path, work: &TaskWork<'_>) -> Result<(), UnfinishedWork> {
        let SessionWorktree { branch, .. } = work.worktree;
        let status = worktree_git(
            path,
            &["status", "--porcelain=v1", "-z", "--untracked-files=normal"],
        )?;
        if !status.is_ok {
            return Err(UnfinishedWork::CannotCommit {
                complaint: status.complaint(),
                was_killed: status.was_killed,
            });
        }
        let changes = status.stdout;
        let merge_head =
            entry_of(path).and_then(|entry| std::fs::read_to_string(entry.join("MERGE_HEAD")).ok());
        let has_conflicts = changes
            .split('\0')
            .any(|entry| entry.get(..2).is_some_and(is_unmerged));
        if has_conflicts {
            let merged = merge_head.as_deref().map(str::trim).unwrap_or_default();
            let is_it = |name: &&String| {
                self.last_seen(name, work.remote).ok().flatten().as_deref() == Some(merged)
            };
            let branch = work.joined.iter().find(is_it).unwrap_or(branch).clone();
            return Err(UnfinishedWork::Conflict {
                branch,
                files: unmerged(path)?,
            });
        }
        if !changes.is_empty() {
            commit(path, &["add", "--all"])?;
        }
        match (merge_head, changes.is_empty()) {
            (Some(_), _) => commit(path, &["commit", "--quiet", "--no-edit"])?,
            (None, false) => commit(path, &["commit", "--quiet", "-m", work.message])?,
            (None, true) => {}
        }
        if self.has_checked_out(path, branch) {
            return Ok(());
        }
        // The agent has left its branch.
        let head = worktree_git_output(path, &["rev-parse", "HEAD"])?;
        let tip = self.branch(branch)?;
        if tip.as_deref() == Some(head.as_str()) {
            return Ok(());
        }
        let reference = format!("refs/heads/{branch}");
        let moves_on = tip
            .as_ref()
            .is_none_or(|tip| self.contains(&head, tip).unwrap_or(false));
        if moves_on
            && self
                .ask(&[
                    "update-ref",
                    &reference,
                    &head,
                    tip.as_deref().unwrap_or(""),
                ])?
                .is_ok
        {
            return Ok(());
        }
        // The branch has work that HEAD lacks. That counts, unless HEAD has work that no branch
        // has.
        let loose = self.ask(&["merge-base", "--is-ancestor", &head, &reference])?;
        if loose.is_ok {
            Ok(())
        } else {
            Err(UnfinishedWork::LeftBranch {
                branch: branch.clone(),
                path: path.to_owned(),
            })
        }
    }
}

impl ProjectRepository {
    /// Whether a branch of this repository is certainly checked out there, found out without git.
    fn has_checked_out(&self, path: &Path, branch: &str) -> bool {
        let is_ours = entry_of(path).is_some_and(|entry| entry.starts_with(&self.common_dir));
        let exists = self.common_dir.join("refs/heads").join(branch).is_file();
        is_ours && exists && checked_out(path).flatten().as_deref() == Some(branch)
    }
}

/// The last line of a commit that creel made without the hooks of the repository.
const SKIPPED: &str = "Creel-Hooks: skipped";
/// The hooks that can refuse a commit.
const COMMIT_HOOKS: [&str; 3] = ["pre-commit", "prepare-commit-msg", "commit-msg"];
/// How much of their output counts, in bytes.
const OUTPUT: usize = 3 << 10;

/// Runs a step of a commit.
fn commit(path: &Path, args: &[&str]) -> Result<(), UnfinishedWork> {
    let answer = worktree_git(path, args)?;
    let (complaint, was_killed) = (answer.complaint(), answer.was_killed);
    if answer.is_ok {
        return Ok(());
    }
    if !was_killed && args.first() == Some(&"commit") && is_up_to_hooks(path)? {
        let printed = format!("{}{}", answer.stdout, answer.stderr);
        let from = printed.ceil_char_boundary(printed.len().saturating_sub(OUTPUT));
        let printed = printed[from..].trim().to_owned();
        return Err(UnfinishedWork::Refused { printed });
    }
    Err(UnfinishedWork::CannotCommit {
        complaint,
        was_killed,
    })
}

/// Whether only a hook of the repository can be the reason why git does not commit: there is one, and git can
/// make the commit itself.
fn is_up_to_hooks(path: &Path) -> Result<bool, WorktreeError> {
    let hooks = worktree_git_output(path, &["rev-parse", "--git-path", "hooks"])?;
    let hooks = path.join(hooks);
    let can_run = |name: &str| {
        let found = hooks.join(name).metadata();
        found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if !COMMIT_HOOKS.into_iter().any(can_run) {
        return Ok(false);
    }
    let tree = worktree_git(path, &["write-tree"])?;
    let made = ["commit-tree", "-p", "HEAD", "-m", "nothing", tree.line()];
    Ok(tree.is_ok && worktree_git(path, &made)?.is_ok)
}

/// Has the hooks of the repository judge the work, if a part of it was committed without them. No branch
/// moves.
fn judge_skipped(path: &Path, work: &TaskWork<'_>) -> Result<(), UnfinishedWork> {
    let SessionWorktree {
        branch,
        commit: base,
        ..
    } = work.worktree;
    let (skipped, before) = (format!("--grep=^{SKIPPED}$"), format!("^{base}"));
    let found = ["rev-list", "--max-count=1", &skipped, "HEAD", &before];
    let is_on_branch = checked_out(path).flatten().as_deref() == Some(branch);
    if !is_on_branch || worktree_git_output(path, &found)?.is_empty() {
        return Ok(());
    }
    let reference = format!("refs/heads/{branch}");
    worktree_git_output(path, &["checkout", "--quiet", "--detach"])?;
    worktree_git_output(path, &["reset", "--quiet", "--soft", base])?;
    let judged = commit(
        path,
        &["commit", "--quiet", "--allow-empty", "-m", work.message],
    );
    // The files are the same.
    worktree_git_output(path, &["symbolic-ref", "HEAD", &reference])?;
    worktree_git_output(path, &["reset", "--quiet"])?;
    judged
}

/// Whether the two letters of a status mean a conflict.
fn is_unmerged(letters: &str) -> bool {
    letters.contains('U') || letters == "AA" || letters == "DD"
}

/// The files in conflict.
pub fn unmerged(path: &Path) -> Result<Vec<String>, WorktreeError> {
    let output = worktree_git_output(path, &["diff", "--name-only", "--diff-filter=U", "-z"])?;
    Ok(output
        .split('\0')
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect())
}

fn files_in_words(files: &[String]) -> String {
    format!(
        "{} {}",
        some_files(files),
        if files.len() == 1 { "is" } else { "are" }
    )
}
