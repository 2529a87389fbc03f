//! A worktree in which a merge is made and tested before the base branch moves.
//!
//! # Invariants
//! - The base branch moves forward or not at all: nothing is forced, and only to a commit that was
//!   made here.
//! - A checkout of the base branch is updated only if it has no changes, with git's own
//!   fast-forward.

use std::path::{Path, PathBuf};

use super::{
    NO_HOOKS, ProjectRepository, WorktreeError, base_commit::BaseCommit, entry_of, git_in,
    git_output, joined_branches::unmerged, kill_repair, worktree_git, worktree_git_output,
};
use crate::engine::policy::{MergeStyle, WorktreePlan};

/// Its name. No worktree of a session can have it.
const NAME: &str = ".merge-queue";

#[derive(Debug)]
pub struct MergeStage<'a> {
    repository: &'a ProjectRepository,
    /// Its top folder.
    path: PathBuf,
    /// The project's folder in it.
    pub cwd: PathBuf,
    /// Whether it was just made.
    pub is_new: bool,
}

/// The work of a task that is to be merged.
#[derive(Debug)]
pub struct TaskMerge<'a> {
    pub base: &'a BaseCommit,
    pub commit: &'a str,
    pub style: MergeStyle,
    /// The first line of the commit's message.
    pub subject: &'a str,
    /// Its last lines: `Creel-Task: 1`. They have no character with a meaning to a shell.
    pub trailers: &'a [String],
    /// Commits that the base branch has as others, and that this work may build on.
    pub landed: &'a [String],
}

/// The result of a merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StagedMerge {
    /// A merge commit that no branch has yet.
    Commit(String),
    /// The files in conflict.
    Conflict(Vec<String>),
    /// The base has all of it.
    Nothing,
    /// A commit hook of the repository refuses it, with this output.
    Refused(String),
}

/// How much of a commit hook's output counts, in bytes.
const OUTPUT: usize = 3 << 10;

/// What happened to the base branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BaseMoveOutcome {
    Done,
    /// It has moved since the merge was made.
    Moved,
    /// Why it does not move to this commit.
    Refused(String),
    /// Why it does not move to any commit now.
    Closed(String),
}

impl<'a> MergeStage<'a> {
    /// Opens the worktree, or creates it.
    pub fn open(
        repository: &'a ProjectRepository,
        plan: &WorktreePlan,
        base: &BaseCommit,
        say: &dyn Fn(&str),
    ) -> Result<Self, WorktreeError> {
        let _alone = repository.lock()?;
        repository.clear_after_kills()?;
        let path = repository.folder(plan).join(NAME);
        let entry = entry_of(&path).filter(|entry| entry.starts_with(&repository.common_dir));
        // Nothing in it is worth keeping.
        let is_ours = match &entry {
            Some(entry) => !kill_repair::discard_if_interrupted(&path, entry)?,
            None => false,
        };
        if entry.is_none() && path.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
            let error = |cause| WorktreeError::File {
                action: format!("remove {}", path.display()),
                cause,
            };
            std::fs::remove_dir_all(&path).map_err(error)?;
        }
        if !is_ours {
            // Git may still have an entry of one whose folder is gone.
            let _ = repository.discard(&path);
            repository.add(
                &path,
                NAME,
                &["--detach", &path.to_string_lossy(), &base.commit],
            )?;
            repository.fill_in(plan, &path, say)?;
        }
        let cwd = path.join(&repository.prefix).components().collect();
        Ok(Self {
            repository,
            path,
            cwd,
            is_new: !is_ours,
        })
    }

    /// Removes the worktree. Nothing in it is worth keeping.
    pub fn remove(self) -> Result<(), WorktreeError> {
        let _alone = self.repository.lock()?;
        self.repository.discard(&self.path)
    }

    /// Checks a commit out. Whatever an earlier merge left behind is worth nothing.
    pub fn check_out(&self, commit: &str) -> Result<(), WorktreeError> {
        worktree_git(&self.path, &["merge", "--abort"])?;
        worktree_git_output(
            &self.path,
            &["checkout", "--quiet", "--force", "--detach", commit],
        )?;
        worktree_git_output(&self.path, &["clean", "--quiet", "--force", "-d"]).map(drop)
    }

    /// Merges work into the base.
    pub fn merge(&self, merge: &TaskMerge<'_>) -> Result<StagedMerge, WorktreeError> {
        match merge.style {
            MergeStyle::Merge => {
                self.check_out(&merge.base.commit)?;
                self.add_merge_commit(merge)
            }
            MergeStyle::Squash => self.squash(merge),
            MergeStyle::Rebase => match self.rebase(merge)? {
                Some(rebased) => Ok(rebased),
                None => self.squash(merge),
            },
        }
    }

    /// Merges work into what is checked out.
    fn add_merge_commit(&self, merge: &TaskMerge<'_>) -> Result<StagedMerge, WorktreeError> {
        let ask = |args: &[&str]| worktree_git(&self.path, args);
        let (subject, trailers) = (merge.subject, merge.trailers.join("\n"));
        let how = ["merge", "--quiet", "--no-ff", "--no-edit", "-m", subject];
        let what = ["-m", &trailers, merge.commit];
        let before = self.resolve("HEAD")?;
        let merged = ask(&[&how[..], &what].concat())?;
        if merged.is_ok {
            return Ok(StagedMerge::Commit(self.resolve("HEAD")?));
        }
        let files = unmerged(&self.path)?;
        self.check_out(&before)?;
        if !files.is_empty() {
            return Ok(StagedMerge::Conflict(files));
        }
        // What fails only with the hooks is refused by one of them.
        let is_refused = !merged.was_killed && ask(&[&NO_HOOKS[..], &how, &what].concat())?.is_ok;
        self.check_out(&before)?;
        if is_refused {
            let printed = format!("{}{}", merged.stdout, merged.stderr);
            let from = printed.ceil_char_boundary(printed.len().saturating_sub(OUTPUT));
            return Ok(StagedMerge::Refused(printed[from..].trim().to_owned()));
        }
        Err(WorktreeError::Git {
            command: "merge".to_owned(),
            complaint: merged.complaint(),
        })
    }

    /// What a commit hook of the repository says about a merge that changes nothing, if it refuses even that.
    pub fn refuses_every_merge(&self, base: &BaseCommit) -> Result<Option<String>, WorktreeError> {
        let tree = format!("{}^{{tree}}", base.commit);
        let nothing = ["commit-tree", "-p", &base.commit, "-m", "nothing", &tree];
        let nothing = worktree_git_output(&self.path, &nothing)?;
        self.check_out(&base.commit)?;
        let merged = self.add_merge_commit(&TaskMerge {
            base,
            commit: &nothing,
            style: MergeStyle::Merge,
            subject: "Merge task 0: nothing",
            trailers: &["Creel-Task: 0".to_owned()],
            landed: &[],
        })?;
        Ok(match merged {
            StagedMerge::Refused(why) => Some(why),
            StagedMerge::Commit(_) | StagedMerge::Conflict(_) | StagedMerge::Nothing => None,
        })
    }

    /// Makes one merge commit of the merges on top of the base, whose last is `tip`.
    pub fn join(
        &self,
        base: &BaseCommit,
        tip: &str,
        subject: &str,
        trailers: &str,
    ) -> Result<String, WorktreeError> {
        self.check_out(&base.commit)?;
        let merge = [
            "merge",
            "--quiet",
            "--no-ff",
            "--no-edit",
            "-m",
            subject,
            "-m",
            trailers,
            tip,
        ];
        worktree_git_output(&self.path, &[&NO_HOOKS[..], &merge].concat())?;
        self.resolve("HEAD")
    }

    /// Makes one commit of the work.
    fn squash(&self, merge: &TaskMerge<'_>) -> Result<StagedMerge, WorktreeError> {
        let base = &merge.base.commit;
        self.check_out(&self.with_landed(merge)?)?;
        let merged = self.add_merge_commit(merge)?;
        if !matches!(merged, StagedMerge::Commit(_)) {
            return Ok(merged);
        }
        if self.resolve("HEAD^{tree}")? == self.resolve(&format!("{base}^{{tree}}"))? {
            return Ok(StagedMerge::Nothing);
        }
        let tell = |args: &[&str]| worktree_git_output(&self.path, args);
        tell(&["reset", "--quiet", "--soft", base])?;
        let trailers = merge.trailers.join("\n");
        // The repository's hooks have seen these changes when they were committed.
        let commit = ["commit", "--quiet", "--no-verify", "-m", merge.subject];
        tell(&[&commit[..], &["-m", &trailers]].concat())?;
        Ok(StagedMerge::Commit(self.resolve("HEAD")?))
    }

    /// The base as a commit whose history has what it has under other names. Otherwise git would
    /// see the same changes twice.
    fn with_landed(&self, merge: &TaskMerge<'_>) -> Result<String, WorktreeError> {
        let base = &merge.base.commit;
        let mut parents = vec!["-p", base];
        for landed in merge.landed {
            if self.repository.contains(merge.commit, landed)?
                && !self.repository.contains(base, landed)?
            {
                parents.extend(["-p", landed]);
            }
        }
        if parents.len() == 2 {
            return Ok(base.clone());
        }
        let tree = format!("{base}^{{tree}}");
        let commit = ["commit-tree", "-m", "base", &tree];
        worktree_git_output(&self.path, &[&commit[..], &parents].concat())
    }

    /// Makes the same commits on top of the base. None if they do not apply one by one.
    fn rebase(&self, merge: &TaskMerge<'_>) -> Result<Option<StagedMerge>, WorktreeError> {
        // A kill may have left one in the middle.
        worktree_git(&self.path, &["rebase", "--quit"])?;
        self.check_out(merge.commit)?;
        let trailers: String = merge
            .trailers
            .iter()
            .map(|trailer| format!(" --trailer '{trailer}'"))
            .collect();
        let amend = format!("git commit --quiet --amend --no-edit --no-verify{trailers}");
        let rebased = worktree_git(
            &self.path,
            &[
                "-c",
                "rebase.updateRefs=false",
                "rebase",
                "--quiet",
                "--no-autostash",
                "--no-autosquash",
                "--no-fork-point",
                "--exec",
                &amend,
                &merge.base.commit,
            ],
        )?;
        if !rebased.is_ok {
            worktree_git(&self.path, &["rebase", "--quit"])?;
            return Ok(None);
        }
        let head = self.resolve("HEAD")?;
        if self.loses_something(&merge.base.commit, merge.commit)? {
            return Ok(None);
        }
        Ok(Some(if head == merge.base.commit {
            StagedMerge::Nothing
        } else {
            StagedMerge::Commit(head)
        }))
    }

    /// Whether the rebased work, which is checked out, is not what a merge has: a rebase drops what only
    /// a merge commit has.
    fn loses_something(&self, base: &str, commit: &str) -> Result<bool, WorktreeError> {
        let args = ["merge-tree", "--write-tree", "--no-messages", base, commit];
        let merged = worktree_git(&self.path, &args)?;
        Ok(merged.is_ok && merged.stdout.trim() != self.resolve("HEAD^{tree}")?)
    }

    fn resolve(&self, what: &str) -> Result<String, WorktreeError> {
        worktree_git_output(&self.path, &["rev-parse", "--verify", what])
    }

    /// Moves the base branch to a merge.
    pub fn publish(
        &self,
        base: &BaseCommit,
        commit: &str,
    ) -> Result<BaseMoveOutcome, WorktreeError> {
        let Some(branch) = &base.branch else {
            return Ok(BaseMoveOutcome::Closed(format!(
                "`{}` is not a branch; set `submit.base_branch`",
                base.name
            )));
        };
        let reference = format!("refs/heads/{branch}");
        let Some(remote) = &base.remote else {
            return self.move_local(&reference, base, commit);
        };
        let refspec = format!("{commit}:{reference}");
        let push = self.repository.ask(&[
            "push",
            "--porcelain",
            "--no-follow-tags",
            "--",
            remote,
            &refspec,
        ])?;
        if push.is_ok {
            let tracking = format!("refs/remotes/{remote}/{branch}");
            self.repository.ask(&["update-ref", &tracking, commit])?;
            return Ok(BaseMoveOutcome::Done);
        }
        // What git says does not tell a branch that moved during the push from one that is protected.
        let list = self
            .repository
            .ask(&["ls-remote", "--", remote, &reference])?;
        let tip = list.stdout.split_once('\t').map(|(tip, _)| tip);
        Ok(match tip.filter(|_| list.is_ok) {
            Some(tip) if tip == commit => BaseMoveOutcome::Done,
            Some(tip) if tip != base.commit => BaseMoveOutcome::Moved,
            Some(_) | None => BaseMoveOutcome::Refused(push.complaint()),
        })
    }

    fn move_local(
        &self,
        reference: &str,
        base: &BaseCommit,
        commit: &str,
    ) -> Result<BaseMoveOutcome, WorktreeError> {
        let list = self
            .repository
            .tell(&["worktree", "list", "--porcelain", "-z"])?;
        let is_there = |tree: &&str| {
            tree.split('\0')
                .any(|line| line.strip_prefix("branch ") == Some(reference))
        };
        let checkout = list.split("\0\0").find(is_there);
        let checkout = checkout.and_then(|tree| {
            tree.split('\0')
                .find_map(|line| line.strip_prefix("worktree "))
        });
        let Some(checkout) = checkout.map(Path::new) else {
            if self.repository.rebased_branches().contains(reference) {
                let name = reference.trim_start_matches("refs/heads/");
                return Ok(BaseMoveOutcome::Closed(format!(
                    "you are rebasing `{name}`; finish that first"
                )));
            }
            let moved = self.repository.ask(&[
                "update-ref",
                "-m",
                "creel: merge",
                reference,
                commit,
                &base.commit,
            ])?;
            return Ok(if moved.is_ok {
                BaseMoveOutcome::Done
            } else {
                BaseMoveOutcome::Moved
            });
        };
        if git_output(checkout, &["rev-parse", "HEAD"])? != base.commit {
            return Ok(BaseMoveOutcome::Moved);
        }
        let changes = git_output(checkout, &["status", "--porcelain", "--untracked-files=no"])?;
        if !changes.is_empty() {
            return Ok(BaseMoveOutcome::Closed(format!(
                "`{}` is checked out in {} and has uncommitted changes there: commit or stash them",
                base.name,
                checkout.display()
            )));
        }
        let moved = git_in(checkout, &["merge", "--quiet", "--ff-only", commit])?;
        Ok(if moved.is_ok {
            BaseMoveOutcome::Done
        } else {
            BaseMoveOutcome::Refused(moved.complaint())
        })
    }
}
