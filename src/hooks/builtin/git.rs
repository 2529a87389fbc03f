//! Calls git and parses its answers, and finds the base branch.
//!
//! Does not decide what follows from an answer.
//!
//! # Invariants
//! - References are full names (`refs/heads/…`) and commits are hashes, so no name can look like an
//!   option or be ambiguous.
//! - The config decides about the base branch, otherwise the remote's current answer. Local
//!   information counts only if the remote does not answer, and then creel prints which branch it
//!   chose and why.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::{
    outcome::{BuiltinError, named},
    program::{ProgramCall, ProgramResult, ProgramRunner},
};
use crate::{engine::hooks::verdict::RunEnd, git::PLAIN};

/// Files in git's folder, and the operation in progress that each indicates.
const OPERATIONS: [(&str, &str); 6] = [
    ("rebase-merge", "a rebase"),
    ("rebase-apply", "a rebase"),
    ("MERGE_HEAD", "a merge"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"),
    ("REVERT_HEAD", "a revert"),
    ("BISECT_LOG", "a bisect"),
];

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct UncommittedChanges {
    pub(super) tracked: Vec<String>,
    pub(super) untracked: Vec<String>,
}

pub(super) fn call(args: &[&str]) -> ProgramCall {
    let all: Vec<&str> = PLAIN.iter().chain(args).copied().collect();
    ProgramCall {
        unshown: PLAIN.len(),
        ..ProgramCall::new("git", &all)
    }
}

/// The operation in progress in the work tree of this git folder.
pub(super) fn in_progress(git_dir: &Path) -> Option<&'static str> {
    OPERATIONS
        .iter()
        .find(|(file, _)| git_dir.join(file).exists())
        .map(|(_, what)| *what)
}

impl ProgramRunner {
    /// Any exit code is fine.
    pub(super) async fn git(&self, args: &[&str]) -> Result<ProgramResult, BuiltinError> {
        self.run(&call(args), None).await
    }

    /// A failure of git is an error.
    pub(super) async fn git_says(&self, args: &[&str]) -> Result<String, BuiltinError> {
        let ran = self.git(args).await?;
        if ran.ok() {
            Ok(ran.answer().to_owned())
        } else {
            Err(failed(args, &ran))
        }
    }

    /// The git folder of this work tree, which is not the shared one of a repository with several.
    pub(super) async fn git_dir(&self) -> Result<PathBuf, BuiltinError> {
        let ran = self
            .git(&["rev-parse", "--is-inside-work-tree", "--absolute-git-dir"])
            .await?;
        match ran.answer().split_once('\n') {
            Some(("true", dir)) if ran.ok() => Ok(PathBuf::from(dir)),
            Some(_) if ran.ok() => Err(BuiltinError::failed(format!(
                "{} has no work tree: run creel in a clone that has one",
                self.cwd.display()
            ))),
            Some(_) | None => {
                let output = ran.complaint();
                let why = if output.contains("not a git repository") {
                    String::new()
                } else {
                    format!(" ({output})")
                };
                Err(BuiltinError::failed(format!(
                    "{} is not usable as a git repository{why}: create one with `git init` and a first commit",
                    self.cwd.display()
                )))
            }
        }
    }

    /// The branch that is checked out. None for a detached HEAD.
    pub(super) async fn branch(&self) -> Result<Option<String>, BuiltinError> {
        let ran = self.git(&["symbolic-ref", "-q", "HEAD"]).await?;
        Ok(ran
            .answer()
            .strip_prefix("refs/heads/")
            .filter(|_| ran.ok())
            .map(str::to_owned))
    }

    /// Resolves a reference to its commit.
    pub(super) async fn commit(&self, what: &str) -> Result<Option<String>, BuiltinError> {
        let ran = self
            .git(&[
                "rev-parse",
                "--verify",
                "--quiet",
                &format!("{what}^{{commit}}"),
            ])
            .await?;
        Ok(ran.ok().then(|| ran.answer().to_owned()))
    }

    /// Whether `earlier` is an ancestor of `later`.
    pub(super) async fn contains(&self, later: &str, earlier: &str) -> Result<bool, BuiltinError> {
        Ok(self
            .git(&["merge-base", "--is-ancestor", earlier, later])
            .await?
            .ok())
    }

    /// How many commits `commit` has that `of` does not.
    pub(super) async fn ahead(&self, of: &str, commit: &str) -> Result<usize, BuiltinError> {
        let output = self
            .git_says(&["rev-list", "--count", commit, &format!("^{of}"), "--"])
            .await?;
        output.parse().map_err(|_| {
            BuiltinError::failed(format!(
                "creel does not understand git's count of commits: {output}"
            ))
        })
    }

    pub(super) async fn changes(&self) -> Result<UncommittedChanges, BuiltinError> {
        Ok(changes(
            &self
                .git_says(&["status", "--porcelain=v1", "-z", "--untracked-files=normal"])
                .await?,
        ))
    }

    /// Merges two commits without a work tree.
    pub(super) async fn merged_tree(
        &self,
        ours: &str,
        theirs: &str,
    ) -> Result<MergedTree, BuiltinError> {
        let args = [
            "merge-tree",
            "--write-tree",
            "--name-only",
            "--no-messages",
            "-z",
            ours,
            theirs,
        ];
        let ran = self.git(&args).await?;
        let mut parts = ran
            .stdout
            .split(['\0', '\n'])
            .filter(|part| !part.is_empty())
            .map(str::to_owned);
        match (ran.code, parts.next()) {
            (0, Some(tree)) => Ok(MergedTree::Clean(tree)),
            (1, Some(_)) => Ok(MergedTree::Conflicts(parts.collect())),
            (129, _) => Err(BuiltinError::failed(
                "this git cannot merge without a work tree: install version 2.38 or newer",
            )),
            (_, _) => Err(failed(&args, &ran)),
        }
    }

    /// Creates an unreferenced commit, signed if the repository wants that.
    pub(super) async fn commit_tree(
        &self,
        tree: &str,
        parents: &[&str],
        message: &str,
    ) -> Result<String, BuiltinError> {
        let mut args = vec!["commit-tree", "-F", "-"];
        args.extend(parents.iter().flat_map(|parent| ["-p", parent]));
        let signs = self
            .git(&["config", "--type=bool", "commit.gpgSign"])
            .await?;
        if signs.answer() == "true" {
            args.push("-S");
        }
        args.push(tree);
        let mut call = call(&args);
        call.stdin = message.as_bytes().to_vec();
        let ran = self.run(&call, None).await?;
        if ran.ok() {
            Ok(ran.answer().to_owned())
        } else {
            Err(failed(&args, &ran))
        }
    }

    /// The files with conflicts.
    pub(super) async fn unmerged(&self) -> Result<Vec<String>, BuiltinError> {
        let output = self
            .git_says(&["diff", "--name-only", "--diff-filter=U", "-z"])
            .await?;
        Ok(output
            .split('\0')
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect())
    }
}

/// The merge of two commits.
pub(super) enum MergedTree {
    Clean(String),
    /// The files with conflicts.
    Conflicts(Vec<String>),
}

/// The error for a call that should not have failed.
pub(super) fn failed(args: &[&str], ran: &ProgramResult) -> BuiltinError {
    let verb = args.first().copied().unwrap_or_default();
    BuiltinError::failed(format!(
        "`git {verb}` failed (exit {}): {}",
        ran.code,
        ran.complaint()
    ))
}

/// Parses `git status -z`: two letters, a space, the name. For a rename, the old name follows.
fn changes(status: &str) -> UncommittedChanges {
    let mut found = UncommittedChanges::default();
    let mut entries = status.split('\0');
    while let Some(entry) = entries.next() {
        let (Some(letters), Some(name)) = (entry.get(..2), entry.get(3..)) else {
            continue;
        };
        if letters.contains(['R', 'C']) {
            entries.next();
        }
        let list = if letters == "??" {
            &mut found.untracked
        } else {
            &mut found.tracked
        };
        list.push(name.to_owned());
    }
    found
}

/// How long the remote gets to report its default branch.
const PATIENCE: Duration = Duration::from_secs(20);
/// The names to try if nothing else is known, in this order.
const USUAL: [&str; 3] = ["main", "master", "trunk"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BaseBranch {
    pub(super) name: String,
    /// Why this branch was chosen, if the remote should have answered and did not.
    pub(super) note: Option<String>,
}

enum RemoteHead {
    Branch(String),
    /// The reason why it is unknown.
    Unknown(String),
}

impl BaseBranch {
    pub(super) async fn find(
        runner: &ProgramRunner,
        wanted: Option<&str>,
        remote: Option<&str>,
    ) -> Result<Self, BuiltinError> {
        if let Some(wanted) = wanted {
            return Ok(Self {
                name: configured(runner, wanted, remote).await?,
                note: None,
            });
        }
        let mut unanswered = None;
        if let Some(remote) = remote {
            match remote_head(runner, remote).await? {
                RemoteHead::Branch(name) => return Ok(Self { name, note: None }),
                RemoteHead::Unknown(why) => unanswered = Some(why),
            }
        }
        let Some((name, reason)) = known_here(runner, remote).await? else {
            let why = unanswered.map_or_else(String::new, |why| format!("{why}, and "));
            let message = format!(
                "which branch does the work go to? {why}there is no {}: set `base_branch`",
                usual("and")
            );
            return Err(BuiltinError::failed(message));
        };
        let note = unanswered
            .map(|why| format!("{why}, so the base branch is {}: {reason}", named(&name)));
        Ok(Self { name, note })
    }
}

/// `main`, `master` or `trunk`, for a sentence.
fn usual(word: &str) -> String {
    let [first, second, third] = USUAL;
    format!("`{first}`, `{second}` {word} `{third}`")
}

async fn configured(
    runner: &ProgramRunner,
    wanted: &str,
    remote: Option<&str>,
) -> Result<String, BuiltinError> {
    // `origin/main` means `main` on `origin`.
    let name = remote
        .and_then(|remote| wanted.strip_prefix(remote)?.strip_prefix('/'))
        .unwrap_or(wanted);
    if is_branch_name(runner, name).await? {
        return Ok(name.to_owned());
    }
    Err(BuiltinError::failed(format!(
        "`base_branch` is {}, which is not a valid branch name",
        named(wanted)
    )))
}

async fn is_branch_name(runner: &ProgramRunner, name: &str) -> Result<bool, BuiltinError> {
    Ok(!name.starts_with('-')
        && runner
            .git(&["check-ref-format", &format!("refs/heads/{name}")])
            .await?
            .ok())
}

/// Asks the remote for its default branch. No answer is not an error: the steps that need the
/// remote report that.
async fn remote_head(runner: &ProgramRunner, remote: &str) -> Result<RemoteHead, BuiltinError> {
    let soon = Instant::now() + PATIENCE;
    let bounded = ProgramRunner {
        deadline: Some(runner.deadline.map_or(soon, |own| own.min(soon))),
        ..runner.clone()
    };
    let ran = match bounded
        .git(&["ls-remote", "--symref", "--", remote, "HEAD"])
        .await
    {
        Ok(ran) => ran,
        Err(halt) if halt.end == RunEnd::TimedOut && bounded.deadline != runner.deadline => {
            let seconds = PATIENCE.as_secs();
            return Ok(RemoteHead::Unknown(format!(
                "{} did not answer within {seconds} s",
                named(remote)
            )));
        }
        Err(halt) => return Err(halt),
    };
    if !ran.ok() {
        return Ok(RemoteHead::Unknown(format!(
            "{} cannot be reached ({})",
            named(remote),
            ran.complaint()
        )));
    }
    let reported = ran.stdout.lines().find_map(|line| {
        line.strip_prefix("ref: refs/heads/")?
            .strip_suffix("\tHEAD")
    });
    match reported {
        Some(name) if is_branch_name(runner, name).await? => {
            Ok(RemoteHead::Branch(name.to_owned()))
        }
        Some(_) | None => Ok(RemoteHead::Unknown(format!(
            "{} does not report a default branch",
            named(remote)
        ))),
    }
}

/// The base branch from local information, and the reason for it.
async fn known_here(
    runner: &ProgramRunner,
    remote: Option<&str>,
) -> Result<Option<(String, String)>, BuiltinError> {
    if let Some(remote) = remote {
        let prefix = format!("refs/remotes/{remote}/");
        let ran = runner
            .git(&["symbolic-ref", "-q", &format!("{prefix}HEAD")])
            .await?;
        if let Some(name) = ran.answer().strip_prefix(&prefix).filter(|_| ran.ok()) {
            return Ok(Some((
                name.to_owned(),
                format!("{} reported it before", named(remote)),
            )));
        }
    }
    let places = remote
        .map(|remote| format!("refs/remotes/{remote}/"))
        .into_iter()
        .chain(["refs/heads/".to_owned()]);
    for place in places {
        for name in USUAL {
            if runner.commit(&format!("{place}{name}")).await?.is_some() {
                return Ok(Some((
                    name.to_owned(),
                    format!("it is the first of {} that exists", usual("and")),
                )));
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_with_all_its_names() {
        let status = " M a b\0R  new\nname\0old\0?? -x\0UU c\0";
        let expected = UncommittedChanges {
            tracked: ["a b", "new\nname", "c"].map(str::to_owned).into(),
            untracked: vec!["-x".to_owned()],
        };
        assert_eq!(changes(status), expected);
        assert_eq!(changes(""), UncommittedChanges::default());
    }
}
