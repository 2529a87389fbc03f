//! Pull requests through `gh`.
//!
//! Owns the calls of `gh` and the meaning of its answers. Does not decide when to create or merge a
//! pull request.
//!
//! It finds a pull request by its branch in a list, not with `gh pr view BRANCH`: that would treat
//! the branch `12` as the number of a pull request, and also find those of forks whose branch has
//! the same name.
//!
//! # Invariants
//! - A foreign value follows `--option=`, so that it cannot look like an option.
//! - A pull request from another repository, or to another branch, is never used.

use serde::Deserialize;

use super::{
    branch_status::BranchStatus,
    outcome::{BuiltinError, named, quoted},
    program::{ProgramCall, ProgramResult, ProgramRunner},
};

const FIELDS: &str = "number,url,state,headRefOid,baseRefName,isDraft,body,isCrossRepository,mergeable,reviewDecision,mergeCommit";

/// A pull request in the JSON of `gh`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PullRequest {
    pub(super) number: u64,
    pub(super) url: String,
    pub(super) state: PullRequestState,
    /// The commit to merge.
    #[serde(default, rename = "headRefOid")]
    pub(super) head: String,
    /// The branch to merge into, if `gh` reports it.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum PullRequestState {
    Open,
    Merged,
    /// Closed without a merge.
    Closed,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct MergeCommit {
    pub(super) oid: String,
}

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

pub(super) enum ForgeLookup {
    /// The pull request of the branch, if any.
    Known(Option<Box<PullRequest>>),
    /// The repository is in no forge that `gh` knows.
    NoForge,
    /// The request failed.
    Failed(ProgramResult),
}

pub(super) fn call(args: &[&str]) -> ProgramCall {
    ProgramCall::new("gh", args)
}

impl ProgramRunner {
    /// The pull request of this branch: an open one, otherwise the one that ended with exactly this
    /// commit. An open one to another branch is an error.
    pub(super) async fn pull_request(
        &self,
        status: &BranchStatus,
    ) -> Result<ForgeLookup, BuiltinError> {
        let (head, fields) = (
            format!("--head={}", status.branch),
            format!("--json={FIELDS}"),
        );
        let ran = self
            .run(
                &call(&["pr", "list", &head, "--state=all", "--limit=50", &fields]),
                None,
            )
            .await?;
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
        let fits = |pull: &&PullRequest| pull.goes_to(&status.base);
        let ended = || own().filter(fits).find(|pull| pull.head == status.head);
        match (open().find(fits), open().next()) {
            (None, Some(other)) => Err(elsewhere(status, other)),
            (found, _) => Ok(ForgeLookup::Known(
                found.or_else(ended).cloned().map(Box::new),
            )),
        }
    }

    pub(super) async fn look_at(&self, number: u64) -> Result<PullRequest, BuiltinError> {
        let fields = format!("--json={FIELDS}");
        let ran = self
            .run(&call(&["pr", "view", &number.to_string(), &fields]), None)
            .await?;
        if ran.ok() {
            read(&ran.stdout, "gh pr view")
        } else {
            Err(gh_error("gh pr view", &ran))
        }
    }

    /// The checks of a pull request. An empty list is valid; no answer is an error.
    pub(super) async fn checks(&self, number: u64) -> Result<Vec<PullRequestCheck>, BuiltinError> {
        let ran = self
            .run(
                &call(&[
                    "pr",
                    "checks",
                    &number.to_string(),
                    "--json=name,bucket,link",
                ]),
                None,
            )
            .await?;
        if ran.stdout.trim_start().starts_with('[') {
            // The list is more precise than the exit code.
            return read(&ran.stdout, "gh pr checks");
        }
        if ran.stderr.contains("no checks reported") {
            return Ok(Vec::new());
        }
        Err(gh_error("gh pr checks", &ran))
    }

    /// The repository's default merge method.
    pub(super) async fn merge_method(&self) -> Result<&'static str, BuiltinError> {
        let ran = self
            .run(
                &call(&["repo", "view", "--json=viewerDefaultMergeMethod"]),
                None,
            )
            .await?;
        let output: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap_or_default();
        Ok(match output["viewerDefaultMergeMethod"].as_str() {
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

/// The error for a pull request to another branch. Its checks would be for that branch, and a merge
/// would bring the work there.
fn elsewhere(status: &BranchStatus, pull: &PullRequest) -> BuiltinError {
    let (to, base) = (
        named(pull.base.as_deref().unwrap_or_default()),
        named(&status.base),
    );
    BuiltinError::failed(format!(
        "{} goes to {to} and the work to {base}: set `base_branch`, or change it with `gh pr edit {} --base {}`",
        pull.url,
        pull.number,
        quoted(&status.base)
    ))
}

/// Why `gh` failed, and what to do.
pub(super) fn gh_error(what: &str, ran: &ProgramResult) -> BuiltinError {
    let advice = match () {
        () if ran.code == 4 || ran.stderr.contains("auth login") => "log in with `gh auth login`",
        () if ran.stderr.contains("unknown flag") => "this `gh` is too old: update it",
        () => "try it by hand",
    };
    BuiltinError::failed(format!(
        "`{what}` failed (exit {}): {}; {advice}",
        ran.code,
        ran.complaint()
    ))
}

fn read<T: for<'a> Deserialize<'a>>(text: &str, what: &str) -> Result<T, BuiltinError> {
    serde_json::from_str(text).map_err(|error| {
        BuiltinError::failed(format!(
            "creel does not understand the answer of `{what}` ({error}): update `gh`"
        ))
    })
}

/// The last URL in a text.
pub(super) fn address(text: &str) -> Option<String> {
    let is_address = |word: &&str| word.starts_with("https://") || word.starts_with("http://");
    text.split_whitespace().rfind(is_address).map(str::to_owned)
}
