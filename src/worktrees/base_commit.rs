//! Finds the commit that a new worktree starts from.
//!
//! # Invariants
//! - With a remote, the base is fetched first. If the remote does not answer, the last fetched
//!   state counts, and a note says so.

use super::{ProjectRepository, WorktreeError};

/// The value of `worktree.base` for the user's current commit.
const HERE: &str = "HEAD";

/// Where a worktree starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseCommit {
    /// For people: `origin/main`, `main`, or a short hash.
    pub name: String,
    pub commit: String,
    /// The branch and its remote, if the base is a branch.
    pub branch: Option<String>,
    pub remote: Option<String>,
    /// Why the base may be old.
    pub note: Option<String>,
}

impl BaseCommit {
    /// `wanted` and `remote` are those of the config.
    pub fn find(
        repository: &ProjectRepository,
        wanted: Option<&str>,
        remote: Option<&str>,
    ) -> Result<Self, WorktreeError> {
        let remote = repository.remote(remote)?;
        match (wanted, remote) {
            (Some(HERE), _) | (None, None) => Self::here(repository),
            (Some(wanted), None) => Self::local(repository, wanted, "in this repository"),
            (Some(wanted), Some(remote)) => {
                let name = wanted.strip_prefix(&format!("{remote}/")).unwrap_or(wanted);
                Self::fetched(repository, &remote, name)
            }
            (None, Some(remote)) => match repository.remote_head(&remote)? {
                Ok(name) => Self::fetched(repository, &remote, &name),
                Err(why) => Self::known(repository, &remote, &why),
            },
        }
    }

    /// The user's current commit.
    fn here(repository: &ProjectRepository) -> Result<Self, WorktreeError> {
        let answer = repository.ask(&["rev-parse", HERE, "--symbolic-full-name", HERE])?;
        let mut lines = answer.stdout.lines();
        let commit = lines
            .next()
            .filter(|_| answer.is_ok)
            .ok_or(WorktreeError::NoCommit)?
            .to_owned();
        let branch = lines
            .next()
            .and_then(|name| name.strip_prefix("refs/heads/"))
            .map(str::to_owned);
        let name = branch
            .clone()
            .unwrap_or_else(|| commit.chars().take(10).collect());
        Ok(Self {
            name,
            commit,
            branch,
            remote: None,
            note: None,
        })
    }

    fn local(
        repository: &ProjectRepository,
        name: &str,
        place: &str,
    ) -> Result<Self, WorktreeError> {
        let branch = repository
            .branch(name)?
            .map(|commit| (commit, Some(name.to_owned())));
        // A tag or a hash is fine too.
        let found = match branch {
            Some(found) => Some(found),
            None if name.starts_with('-') => None,
            None => repository.commit(name)?.map(|commit| (commit, None)),
        };
        let place = format!(" {place}");
        let (commit, branch) = found.ok_or_else(|| WorktreeError::NoBase {
            base: name.to_owned(),
            place,
        })?;
        Ok(Self {
            name: name.to_owned(),
            commit,
            branch,
            remote: None,
            note: None,
        })
    }

    /// Fetches a branch of the remote.
    fn fetched(
        repository: &ProjectRepository,
        remote: &str,
        branch: &str,
    ) -> Result<Self, WorktreeError> {
        let tracking = format!("refs/remotes/{remote}/{branch}");
        let refspec = format!("+refs/heads/{branch}:{tracking}");
        let answer = repository.fetch(remote, &refspec)?;
        let is_missing = answer.stderr.contains("couldn't find remote ref");
        if is_missing {
            return Self::local(
                repository,
                branch,
                &format!("on `{remote}` or in this repository"),
            );
        }
        let note = (!answer.is_ok)
            .then(|| format!("cannot fetch from `{remote}` ({})", answer.complaint()));
        let place = format!(
            " of `{remote}` here, and creel {}",
            note.as_deref().unwrap_or("found none")
        );
        let commit = repository.commit(&tracking)?;
        let commit = commit.ok_or_else(|| WorktreeError::NoBase {
            base: branch.to_owned(),
            place,
        })?;
        Ok(Self {
            name: format!("{remote}/{branch}"),
            commit,
            branch: Some(branch.to_owned()),
            remote: Some(remote.to_owned()),
            note: note.map(|why| {
                format!(
                    "{why}, so the worktree starts from `{remote}/{branch}` as it was fetched last"
                )
            }),
        })
    }

    /// What was fetched before, since the remote does not answer.
    fn known(
        repository: &ProjectRepository,
        remote: &str,
        why: &str,
    ) -> Result<Self, WorktreeError> {
        let prefix = format!("refs/remotes/{remote}/");
        let head = repository.ask(&["symbolic-ref", "-q", &format!("{prefix}HEAD")])?;
        let reported = head
            .line()
            .strip_prefix(&prefix)
            .filter(|_| head.is_ok)
            .map(str::to_owned);
        let candidates = reported
            .into_iter()
            .chain(["main", "master", "trunk"].map(str::to_owned));
        for name in candidates {
            if let Some(commit) = repository.commit(&format!("{prefix}{name}"))? {
                let note = format!(
                    "{why}, so the worktree starts from `{remote}/{name}` as it was fetched last"
                );
                return Ok(Self {
                    name: format!("{remote}/{name}"),
                    commit,
                    branch: Some(name),
                    remote: Some(remote.to_owned()),
                    note: Some(note),
                });
            }
        }
        let here = Self::here(repository)?;
        let note = format!("{why}, so the worktree starts from your current commit");
        Ok(Self {
            note: Some(note),
            ..here
        })
    }
}

impl ProjectRepository {
    /// The branch that is checked out in the project's folder, if any.
    pub fn branch_here(&self) -> Result<Option<String>, WorktreeError> {
        let head = self.ask(&["symbolic-ref", "-q", "--short", HERE])?;
        Ok(head.is_ok.then(|| head.line().to_owned()))
    }

    /// The remote to fetch from and push to: the configured one, `origin`, or the only one.
    pub fn remote(&self, configured: Option<&str>) -> Result<Option<String>, WorktreeError> {
        let all = self.tell(&["remote"])?;
        let mut all = all.lines();
        if let Some(wanted) = configured {
            let is_there = all.any(|remote| remote == wanted);
            return if is_there {
                Ok(Some(wanted.to_owned()))
            } else {
                Err(WorktreeError::NoRemote(wanted.to_owned()))
            };
        }
        let all: Vec<&str> = all.collect();
        let only = if let [only] = all[..] {
            Some(only)
        } else {
            None
        };
        Ok(all
            .iter()
            .copied()
            .find(|remote| *remote == "origin")
            .or(only)
            .map(str::to_owned))
    }

    /// The default branch of a remote, as the remote reports it, or why that is unknown.
    fn remote_head(&self, remote: &str) -> Result<Result<String, String>, WorktreeError> {
        let answer = self.ask(&["ls-remote", "--symref", "--", remote, "HEAD"])?;
        if !answer.is_ok {
            return Ok(Err(format!(
                "`{remote}` does not answer ({})",
                answer.complaint()
            )));
        }
        let head = answer.stdout.lines().find_map(|line| {
            line.strip_prefix("ref: refs/heads/")?
                .strip_suffix("\tHEAD")
        });
        Ok(head
            .map(str::to_owned)
            .ok_or_else(|| format!("`{remote}` does not report a default branch")))
    }
}
