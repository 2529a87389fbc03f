//! Pull requests, by the words of `gh`.
//!
//! Owns how `gh` is asked and what its answers mean. Does not decide when something is made or merged.
//!
//! A pull request is looked for by the name of its branch in a list, not by `gh pr view BRANCH`: that takes the branch `12`
//! for the number of a pull request, and finds those of others whose branch has the same name.
//!
//! # Invariants
//! - A value that is not ours stands behind `--option=`, so that it cannot be taken for an option.
//! - A pull request from another repository, or to another branch, is never taken for ours.

use serde::Deserialize;

use super::{
    BuiltinError,
    program::{ProgramCall, ProgramResult, ProgramRunner},
};
use crate::hooks::builtin::{
    branch_status::BranchStatus,
    quoting::{named, quoted},
};

const FIELDS: &str =
    "number,url,state,headRefOid,baseRefName,isDraft,body,isCrossRepository,mergeable,reviewDecision,mergeCommit";

/// A pull request as `gh` tells it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PullRequest {
    pub(super) number: u64,
    pub(super) url: String,
    pub(super) state: PullRequestState,
    /// The commit that it wants to be merged.
    #[serde(default, rename = "headRefOid")]
    pub(super) head: String,
    /// The branch that it wants to be merged into, where that is told.
    #[serde(default, rename = "baseRefName")]
    base: Option<String>,
    #[serde(default)]
    pub(super) is_draft: bool,
    #[serde(default)]
    pub(super) body: String,
    #[serde(default)]
    is_cross_repository: bool,
    /// `MERGEABLE`, `CONFLICTING` or `UNKNOWN`.
    #[serde(default)]
    pub(super) mergeable: String,
    /// `APPROVED`, `CHANGES_REQUESTED`, `REVIEW_REQUIRED` or nothing.
    #[serde(default)]
    pub(super) review_decision: Option<String>,
    #[serde(default)]
    pub(super) merge_commit: Option<MergeCommit>,
}

/// What became of a pull request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum PullRequestState {
    /// It waits.
    Open,
    /// It is in the base branch.
    Merged,
    /// Somebody turned it down.
    Closed,
}

/// The commit by which it was merged.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct MergeCommit {
    pub(super) oid: String,
}

/// One check of a pull request.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct PullRequestCheck {
    pub(super) name: String,
    /// `pass`, `fail`, `pending`, `skipping` or `cancel`.
    pub(super) bucket: String,
    #[serde(default)]
    pub(super) link: String,
}

impl PullRequestCheck {
    pub(super) fn passed(&self) -> bool {
        matches!(self.bucket.as_str(), "pass" | "skipping")
    }

    pub(super) fn failed(&self) -> bool {
        matches!(self.bucket.as_str(), "fail" | "cancel")
    }
}

/// Whether the forge knows the repository.
pub(super) enum ForgeLookup {
    /// The pull request of the branch that counts, if there is one.
    Known(Option<Box<PullRequest>>),
    /// It is in no forge that `gh` knows.
    NoForge,
    /// It could not be asked.
    Failed(ProgramResult),
}

/// A call of `gh`.
pub(super) fn call(args: &[&str]) -> ProgramCall {
    ProgramCall::new("gh", args)
}

impl ProgramRunner {
    /// The pull request of this branch: one that is open, else the one that ended with exactly this commit. One that is
    /// open and goes elsewhere is in the way.
    pub(super) async fn pull_request(&self, standing: &BranchStatus) -> Result<ForgeLookup, BuiltinError> {
        let (head, fields) = (format!("--head={}", standing.branch), format!("--json={FIELDS}"));
        let ran = self.run(&call(&["pr", "list", &head, "--state=all", "--limit=50", &fields]), None).await?;
        if !ran.ok() {
            let strange = ["known GitHub host", "no git remotes found"];
            return Ok(if strange.iter().any(|words| ran.stderr.contains(words)) {
                ForgeLookup::NoForge
            } else {
                ForgeLookup::Failed(ran)
            });
        }
        let all: Vec<PullRequest> = read(&ran.stdout, "gh pr list")?;
        let own = || all.iter().filter(|pull| !pull.is_cross_repository);
        let open = || own().filter(|pull| pull.state == PullRequestState::Open);
        let fits = |pull: &&PullRequest| pull.goes_to(&standing.base);
        let ended = || own().filter(fits).find(|pull| pull.head == standing.head);
        match (open().find(fits), open().next()) {
            (None, Some(other)) => Err(elsewhere(standing, other)),
            (found, _) => Ok(ForgeLookup::Known(found.or_else(ended).cloned().map(Box::new))),
        }
    }

    /// A pull request as it is now.
    pub(super) async fn look_at(&self, number: u64) -> Result<PullRequest, BuiltinError> {
        let fields = format!("--json={FIELDS}");
        let ran = self.run(&call(&["pr", "view", &number.to_string(), &fields]), None).await?;
        if ran.ok() { read(&ran.stdout, "gh pr view") } else { Err(trouble("gh pr view", &ran)) }
    }

    /// The checks of a pull request. That there are none is an answer; no answer is a failure.
    pub(super) async fn checks(&self, number: u64) -> Result<Vec<PullRequestCheck>, BuiltinError> {
        let ran = self.run(&call(&["pr", "checks", &number.to_string(), "--json=name,bucket,link"]), None).await?;
        if ran.stdout.trim_start().starts_with('[') {
            // It says with its exit code what the list says better.
            return read(&ran.stdout, "gh pr checks");
        }
        if ran.stderr.contains("no checks reported") {
            return Ok(Vec::new());
        }
        Err(trouble("gh pr checks", &ran))
    }

    /// How the repository wants pull requests to be merged.
    pub(super) async fn merge_method(&self) -> Result<&'static str, BuiltinError> {
        let ran = self.run(&call(&["repo", "view", "--json=viewerDefaultMergeMethod"]), None).await?;
        let said: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap_or_default();
        Ok(match said["viewerDefaultMergeMethod"].as_str() {
            Some("SQUASH") => "--squash",
            Some("REBASE") => "--rebase",
            Some(_) | None => "--merge",
        })
    }
}

impl PullRequest {
    fn goes_to(&self, base: &str) -> bool {
        self.base.as_deref().is_none_or(|own| own == base)
    }
}

/// Its checks would be those of another branch, and to merge it would bring the work there.
fn elsewhere(standing: &BranchStatus, pull: &PullRequest) -> BuiltinError {
    let (to, base) = (named(pull.base.as_deref().unwrap_or_default()), named(&standing.base));
    BuiltinError::failed(format!(
        "{} goes to {to} and the work to {base}: set `base_branch`, or change it with `gh pr edit {} --base {}`",
        pull.url,
        pull.number,
        quoted(&standing.base)
    ))
}

/// Why `gh` could not do something, and what to do.
pub(super) fn trouble(what: &str, ran: &ProgramResult) -> BuiltinError {
    let advice = match () {
        () if ran.code == 4 || ran.stderr.contains("auth login") => "log in with `gh auth login`",
        () if ran.stderr.contains("unknown flag") => "this `gh` is too old: update it",
        () => "try it by hand",
    };
    BuiltinError::failed(format!("`{what}` failed (exit {}): {}; {advice}", ran.code, ran.complaint()))
}

fn read<T: for<'a> Deserialize<'a>>(text: &str, what: &str) -> Result<T, BuiltinError> {
    serde_json::from_str(text)
        .map_err(|error| BuiltinError::failed(format!("`{what}` answers in an unknown way ({error}): update `gh`")))
}

/// The last address in what was printed.
pub(super) fn address(text: &str) -> Option<String> {
    let is_address = |word: &&str| word.starts_with("https://") || word.starts_with("http://");
    text.split_whitespace().rfind(is_address).map(str::to_owned)
}
