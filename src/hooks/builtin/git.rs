//! Calls git and parses its answers.
//!
//! Does not decide what follows from an answer.
//!
//! # Invariants
//! - References are full names (`refs/heads/…`) and commits are hashes, so no name can look like an
//!   option or be ambiguous.

use std::path::{Path, PathBuf};

use super::{
    BuiltinError,
    program::{ProgramCall, ProgramResult, ProgramRunner},
};
use crate::git::PLAIN;

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
                let said = ran.complaint();
                let why = if said.contains("not a git repository") {
                    String::new()
                } else {
                    format!(" ({said})")
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
        let said = self
            .git_says(&["rev-list", "--count", commit, &format!("^{of}"), "--"])
            .await?;
        said.parse().map_err(|_| {
            BuiltinError::failed(format!(
                "creel does not understand git's count of commits: {said}"
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

    /// The files with conflicts.
    pub(super) async fn unmerged(&self) -> Result<Vec<String>, BuiltinError> {
        let said = self
            .git_says(&["diff", "--name-only", "--diff-filter=U", "-z"])
            .await?;
        Ok(said
            .split('\0')
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect())
    }
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
