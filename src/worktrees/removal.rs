//! Removes worktrees and their branches, but nothing that exists only there.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use super::{
    ProjectRepository, WorktreeError,
    base_commit::BaseCommit,
    entry_of,
    inventory::{self, GOING, OwnedWorktree, UnsavedWork},
    kill_repair::{discard_half_made, is_half_made},
    worktree_git_output,
};
use crate::engine::{event::SessionWorktree, queue::TaskLanding};

/// How many branches one push deletes.
const DELETIONS: usize = 100;

/// What happened to a worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemovalOutcome {
    Removed(BranchFate),
    Kept(UnsavedWork),
}

/// What happened to the branch of a removed worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BranchFate {
    /// It is still there.
    Stays(String),
    /// Another branch has all its commits.
    Deleted(String),
    /// The worktree had none.
    Unknown,
}

/// Whether a branch is deleted with its worktree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BranchRemoval<'a> {
    Keep,
    /// This one, which creel created, if it is merged.
    IfMerged(&'a str),
}

impl ProjectRepository {
    /// Removes a worktree, unless something would be lost.
    pub fn remove(
        &self,
        worktree: &OwnedWorktree,
        branch: BranchRemoval<'_>,
    ) -> Result<RemovalOutcome, WorktreeError> {
        let _alone = self.lock()?;
        self.clear_after_kills()?;
        let entry = entry_of(&worktree.path);
        let is_checked_out =
            entry.is_none_or(|entry| is_half_made(&entry) || entry.join("index").exists());
        if !is_checked_out && !inventory::is_occupied(&worktree.path) {
            self.repair(
                &worktree.path,
                worktree.branch.as_deref().unwrap_or_default(),
            )?;
        }
        if let Some(unsaved) = worktree.unsaved(self)? {
            return Ok(RemovalOutcome::Kept(unsaved));
        }
        if let Some(going) = entry_of(&worktree.path).map(|entry| entry.join(GOING)) {
            let error = |cause| WorktreeError::File {
                action: format!("write {}", going.display()),
                cause,
            };
            fs::write(&going, "").map_err(error)?;
        }
        self.discard(&worktree.path)?;
        let Some(name) = worktree.branch.clone() else {
            return Ok(RemovalOutcome::Removed(BranchFate::Unknown));
        };
        let fate = if branch == BranchRemoval::IfMerged(&name) && self.delete_if_merged(&name)? {
            BranchFate::Deleted(name)
        } else {
            BranchFate::Stays(name)
        };
        Ok(RemovalOutcome::Removed(fate))
    }

    /// Removes the worktree of a session, unless something would be lost.
    pub fn remove_of(
        &self,
        worktree: &SessionWorktree,
        session: &str,
    ) -> Result<RemovalOutcome, WorktreeError> {
        let path = PathBuf::from(&worktree.path);
        let owned = OwnedWorktree {
            name: worktree.name.clone(),
            is_missing: !path.exists(),
            branch: Some(worktree.branch.clone()),
            head: String::new(),
            session: Some(session.to_owned()),
            path,
        };
        self.remove(&owned, BranchRemoval::Keep)
    }

    /// Forgets what is not committed in a worktree whose session never began, if a branch here or
    /// at the remote has it, too: git was killed while it merged the work of earlier runs.
    pub fn forget_merged(&self, worktree: &OwnedWorktree) -> Result<(), WorktreeError> {
        let _alone = self.lock()?;
        let path = &worktree.path;
        if worktree.is_missing || inventory::is_occupied(path) {
            return Ok(());
        }
        self.repair(path, worktree.branch.as_deref().unwrap_or_default())?;
        worktree_git_output(path, &["add", "--all"])?;
        let changed = worktree_git_output(
            path,
            &[
                "diff",
                "--cached",
                "--raw",
                "--no-abbrev",
                "--no-renames",
                "--diff-filter=d",
                "HEAD",
            ],
        )?;
        // Each line has the modes and contents before and now: `:100644 100644 OLD NEW M	name`.
        for content in changed.lines().filter_map(|line| line.split(' ').nth(3)) {
            let find = format!("--find-object={content}");
            if self
                .tell(&["log", "-1", "--format=%H", "--branches", "--remotes", &find])?
                .is_empty()
            {
                return Ok(());
            }
        }
        worktree_git_output(path, &["reset", "--quiet", "--hard"]).map(drop)
    }

    /// The branches that creel made for these sessions, by their logs. It may have been killed
    /// before a session began.
    pub fn branches_made_for(&self, sessions: &[String]) -> Result<Vec<String>, WorktreeError> {
        let all = self.tell(&["for-each-ref", "--format=%(refname:short)", "refs/heads"])?;
        let is_theirs = |branch: &&str| {
            sessions
                .iter()
                .any(|session| self.is_made_for(branch, session))
        };
        Ok(all.lines().filter(is_theirs).map(str::to_owned).collect())
    }

    /// Whether creel made the branch for this session.
    pub(super) fn is_made_for(&self, branch: &str, session: &str) -> bool {
        self.first_reason(branch) == Some(self.lock_reason(session))
    }

    /// Deletes these branches if `kept` has all their commits.
    pub fn forget_branches(&self, branches: &[String], kept: &str) -> Result<(), WorktreeError> {
        for branch in branches.iter().filter(|branch| *branch != kept) {
            let reference = format!("refs/heads/{branch}");
            if self.branch(branch)?.is_some()
                && self.contains(&format!("refs/heads/{kept}"), &reference)?
            {
                // Git keeps one that is checked out.
                self.ask(&["branch", "--quiet", "-D", "--", branch])?;
            }
        }
        Ok(())
    }

    /// Deletes these branches, on which no session has worked, if other branches here or at the remote
    /// have all their commits. Merges do not count: creel makes them before a session begins.
    pub fn forget_unused(&self, branches: &[String]) -> Result<(), WorktreeError> {
        for branch in branches {
            let reference = format!("refs/heads/{branch}");
            let exclude = format!("--exclude={branch}");
            let own = ["rev-list", "--no-merges", "--max-count=1", &reference];
            let elsewhere = ["--not", &exclude, "--branches", "--remotes"];
            if self.tell(&[own, elsewhere].concat())?.is_empty() {
                // Git keeps one that is checked out.
                self.ask(&["branch", "--quiet", "-D", "--", branch])?;
            }
        }
        Ok(())
    }

    /// Deletes branches of merged tasks here, and what is known of those at the remote. The base and one
    /// that creel did not make stay, one with commits that were not merged into the base, and one that
    /// is checked out or rebased. Returns how many went.
    pub fn forget_merged_branches(
        &self,
        merged: &BTreeMap<String, Vec<TaskLanding>>,
        base: &BaseCommit,
    ) -> Result<usize, WorktreeError> {
        let _alone = self.lock()?;
        let format = "--format=%(objectname) %(refname) %(worktreepath)";
        let remote = base.remote.as_deref();
        let there = remote.map(|remote| format!("refs/remotes/{remote}/"));
        let mut args = vec!["for-each-ref", format, "refs/heads/"];
        args.extend(there.as_deref());
        let (list, rebased, mut went) = (self.tell(&args)?, self.rebased_branches(), 0);
        for line in list.lines() {
            let Some((tip, reference)) = line.trim_end().split_once(' ') else {
                continue;
            };
            let local = reference.strip_prefix("refs/heads/");
            let tracked = || reference.strip_prefix(there.as_deref()?);
            // A name with a space is one that is checked out.
            let name = local.or_else(tracked).unwrap_or_default();
            let stays = base.branch.as_deref() == Some(name)
                || rebased.contains(reference)
                || local.is_some_and(|name| !self.is_made_by_creel(name));
            if let Some(landings) = merged.get(name).filter(|_| !stays)
                && self.is_merged(tip, landings, &base.commit)?
                && self.ask(&["update-ref", "-d", reference, tip])?.is_ok
            {
                went += usize::from(local.is_some());
            }
        }
        Ok(went)
    }

    /// The branches in the middle of a rebase: git shows them as checked out nowhere.
    pub(super) fn rebased_branches(&self) -> BTreeSet<String> {
        let worktrees = fs::read_dir(self.common_dir.join("worktrees"));
        let worktrees = worktrees.into_iter().flatten().flatten();
        let folders = worktrees.map(|entry| entry.path());
        let folders = folders.chain([self.common_dir.clone()]);
        let notes = folders.flat_map(|folder| {
            ["rebase-merge", "rebase-apply"].map(|state| folder.join(state).join("head-name"))
        });
        notes
            .filter_map(|note| Some(fs::read_to_string(note).ok()?.trim_end().to_owned()))
            .collect()
    }

    /// Whether creel made the branch, for any session.
    fn is_made_by_creel(&self, branch: &str) -> bool {
        self.first_reason(branch)
            .is_some_and(|reason| reason.starts_with(inventory::REASON))
    }

    /// Why the branch was made, as git's log of it says.
    fn first_reason(&self, branch: &str) -> Option<String> {
        let log = self.common_dir.join("logs/refs/heads").join(branch);
        let log = fs::read_to_string(log).ok()?;
        let (_, reason) = log.lines().next()?.split_once('\t')?;
        Some(reason.to_owned())
    }

    /// Leaves out the names of branches here that creel did not make.
    pub fn keep_those_of_the_user<T>(
        &self,
        branches: &mut BTreeMap<String, T>,
    ) -> Result<(), WorktreeError> {
        let list = self.tell(&[
            "for-each-ref",
            "--format=%(refname:lstrip=2)",
            "refs/heads/",
        ])?;
        for name in list.lines().filter(|name| !self.is_made_by_creel(name)) {
            branches.remove(name);
        }
        Ok(())
    }

    /// Whether none of these branches is here.
    pub fn knows_none_of(
        &self,
        merged: &BTreeMap<String, Vec<TaskLanding>>,
    ) -> Result<bool, WorktreeError> {
        let list = self.tell(&[
            "for-each-ref",
            "--format=%(refname:lstrip=2)",
            "refs/heads/",
        ])?;
        Ok(!list.lines().any(|name| merged.contains_key(name)))
    }

    /// Deletes them at the remote, unless they have other commits by then.
    pub fn forget_at_remote(
        &self,
        merged: &BTreeMap<String, Vec<TaskLanding>>,
        remote: &str,
        base: &BaseCommit,
    ) -> Result<usize, WorktreeError> {
        let list = self.tell(&["ls-remote", "--refs", "--", remote, "refs/heads/*"])?;
        let (mut leases, mut refspecs) = (Vec::new(), Vec::new());
        for (tip, reference) in list.lines().filter_map(|line| line.split_once('\t')) {
            let name = reference.strip_prefix("refs/heads/").unwrap_or_default();
            let Some(landings) = merged
                .get(name)
                .filter(|_| base.branch.as_deref() != Some(name))
            else {
                continue;
            };
            if self.is_merged(tip, landings, &base.commit)? {
                leases.push(format!("--force-with-lease={reference}:{tip}"));
                refspecs.push(format!(":{reference}"));
            }
        }
        let mut went = 0;
        for (leases, refspecs) in leases.chunks(DELETIONS).zip(refspecs.chunks(DELETIONS)) {
            let args = ["push", "--porcelain", "--no-follow-tags"].into_iter();
            let args = args.chain(leases.iter().map(String::as_str));
            let args = args.chain(["--", remote]);
            let args: Vec<&str> = args.chain(refspecs.iter().map(String::as_str)).collect();
            let pushed = self.ask(&args)?;
            went += pushed
                .stdout
                .lines()
                .filter(|line| line.starts_with("-\t"))
                .count();
            // Another process may have been faster.
            if !pushed.is_ok && !pushed.stdout.contains("(stale info)") {
                return Err(WorktreeError::Git {
                    command: "push".to_owned(),
                    complaint: pushed.complaint(),
                });
            }
        }
        Ok(went)
    }

    /// Whether the base has all commits up to this one.
    fn is_merged(
        &self,
        tip: &str,
        landings: &[TaskLanding],
        base: &str,
    ) -> Result<bool, WorktreeError> {
        for TaskLanding { commit, tip: last } in landings {
            if self.contains(base, commit)? && self.contains(last, tip)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Deletes a branch if another one has all its commits. Branches of other sessions do not
    /// count, since they can go too.
    fn delete_if_merged(&self, branch: &str) -> Result<bool, WorktreeError> {
        let Some(commit) = self.branch(branch)? else {
            return Ok(false);
        };
        let reference = format!("refs/heads/{branch}");
        let contains = format!("--contains={commit}");
        let all = self.tell(&[
            "for-each-ref",
            &contains,
            "--format=%(refname)",
            "refs/heads",
            "refs/remotes",
        ])?;
        let prefix = branch
            .rsplit_once('/')
            .map_or(branch.to_owned(), |(prefix, _)| format!("{prefix}/"));
        let is_of_session = |name: &str| {
            let local = name.strip_prefix("refs/heads/");
            let remote = name
                .strip_prefix("refs/remotes/")
                .and_then(|name| name.split_once('/'))
                .map(|(_, name)| name);
            local
                .or(remote)
                .is_none_or(|name| name.starts_with(&prefix))
        };
        if all.lines().all(is_of_session) {
            return Ok(false);
        }
        // Only if it still is at that commit.
        Ok(self.ask(&["update-ref", "-d", &reference, &commit])?.is_ok)
    }

    /// Removes a worktree with everything in it.
    pub(super) fn discard(&self, path: &Path) -> Result<(), WorktreeError> {
        if let Some(entry) = entry_of(path).filter(|entry| is_half_made(entry)) {
            discard_half_made(Some(path), &entry)?;
            return Ok(());
        }
        // The first `--force` is for submodules, the second for the lock.
        let path = path.to_string_lossy();
        self.tell(&["worktree", "remove", "--force", "--force", "--", &path])
            .map(drop)
    }
}
