//! Pull requests through `gh`, and merge requests through `glab`.
//!
//! Owns the calls of both and the meaning of their answers. Does not decide when to create or merge
//! a pull request, and does not watch one: see [`super::forge_watch`].
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
    forge_watch::ForgeClient,
    outcome::{BuiltinError, named, quoted},
    program::{ProgramCall, ProgramResult, ProgramRunner},
};
use crate::engine::watch::forge::{CheckState, ForgeFailure};

const FIELDS: &str = "number,url,state,headRefOid,baseRefName,isDraft,body,isCrossRepository,mergeable,reviewDecision,mergeCommit";

/// A forge whose program creel uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Forge {
    #[default]
    GitHub,
    GitLab,
}

/// Parts of the URLs of known forges. A forge with any other name counts as a plain git server.
const FORGES: [&str; 9] = [
    "github",
    "gitlab",
    "bitbucket",
    "codeberg",
    "gitea",
    "forgejo",
    "sr.ht",
    "dev.azure.com",
    "visualstudio.com",
];

/// Whether a remote is a folder on this machine.
pub(super) fn is_a_folder(url: &str) -> bool {
    url.starts_with("file://") || url.starts_with(['/', '.'])
}

/// The forge of a URL, by its name. None for a folder or a plain git server.
pub fn forge_of(url: &str) -> Option<&'static str> {
    FORGES
        .into_iter()
        .find(|forge| url.contains(forge) && !is_a_folder(url))
}

impl Forge {
    /// The ones that a URL can belong to. The name of a host of your own says nothing: then the
    /// programs know whether it is theirs.
    pub(super) fn candidates(url: &str) -> &'static [Self] {
        match forge_of(url) {
            Some("github") => &[Self::GitHub],
            Some("gitlab") => &[Self::GitLab],
            Some(_) | None => &[Self::GitHub, Self::GitLab],
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::GitHub => "GitHub",
            Self::GitLab => "GitLab",
        }
    }

    pub(super) fn program(self) -> &'static str {
        match self {
            Self::GitHub => "gh",
            Self::GitLab => "glab",
        }
    }

    /// What the program calls a pull request.
    fn noun(self) -> &'static str {
        match self {
            Self::GitHub => "pr",
            Self::GitLab => "mr",
        }
    }

    pub(super) fn not_found(self) -> String {
        let program = self.program();
        format!(
            "`{program}` is not on PATH: install the {} CLI and log in with `{program} auth login`",
            self.name()
        )
    }

    /// `gh pr VERB …`
    pub(super) fn call(self, verb: &str, args: &[&str]) -> ProgramCall {
        let mut all = vec![self.noun(), verb];
        all.extend(args);
        ProgramCall::new(self.program(), &all)
    }

    /// Why `gh pr VERB` failed, and what to do.
    pub(super) fn error(self, verb: &str, ran: &ProgramResult) -> BuiltinError {
        let program = self.program();
        let advice = match () {
            () if ran.code == 4
                || ran.stderr.contains("auth login")
                || ran.stderr.contains("401") =>
            {
                format!("log in with `{program} auth login`")
            }
            () if ran.stderr.contains("unknown flag") => {
                format!("this `{program}` is too old: update it")
            }
            () => "try it by hand".to_owned(),
        };
        BuiltinError::failed(format!(
            "`{program} {} {verb}` failed (exit {}): {}; {advice}",
            self.noun(),
            ran.code,
            ran.complaint()
        ))
    }

    fn read<T: for<'a> Deserialize<'a>>(self, verb: &str, text: &str) -> Result<T, BuiltinError> {
        let program = self.program();
        serde_json::from_str(text).map_err(|error| {
            BuiltinError::failed(format!(
                "creel does not understand the answer of `{program} {} {verb}` ({error}): update `{program}`",
                self.noun()
            ))
        })
    }
}

/// A pull request in the JSON of `gh`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PullRequest {
    #[serde(skip)]
    pub(super) forge: Forge,
    pub(super) number: u64,
    pub(super) url: String,
    pub(super) state: SubmittedState,
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
pub(super) enum SubmittedState {
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
        self.bucket == "fail"
    }

    pub(super) fn was_cancelled(&self) -> bool {
        self.bucket == "cancel"
    }
}

/// A merge request in the JSON of `glab`.
#[derive(Debug, Clone, Deserialize)]
struct GlabMergeRequest {
    iid: u64,
    web_url: String,
    state: String,
    #[serde(default)]
    sha: String,
    target_branch: String,
    #[serde(default)]
    draft: bool,
    description: Option<String>,
    source_project_id: Option<u64>,
    target_project_id: Option<u64>,
    #[serde(default)]
    has_conflicts: bool,
    detailed_merge_status: Option<String>,
    merge_commit_sha: Option<String>,
}

impl From<GlabMergeRequest> for PullRequest {
    fn from(given: GlabMergeRequest) -> Self {
        let commit = given.merge_commit_sha.filter(|commit| !commit.is_empty());
        let objected = given.detailed_merge_status.as_deref() == Some("requested_changes");
        Self {
            forge: Forge::GitLab,
            number: given.iid,
            url: given.web_url,
            state: match given.state.as_str() {
                "merged" => SubmittedState::Merged,
                "closed" => SubmittedState::Closed,
                _ => SubmittedState::Open,
            },
            head: given.sha,
            base: Some(given.target_branch),
            is_draft: given.draft,
            body: given.description.unwrap_or_default(),
            is_cross_repository: given.source_project_id != given.target_project_id,
            mergeable: if given.has_conflicts {
                "CONFLICTING"
            } else {
                ""
            }
            .to_owned(),
            review_decision: objected.then(|| "CHANGES_REQUESTED".to_owned()),
            merge_commit: commit.map(|oid| MergeCommit { oid }),
        }
    }
}

pub(super) enum ForgeLookup {
    /// The forge, and the pull request of the branch, if any.
    Known(Forge, Option<Box<PullRequest>>),
    /// The repository is in no forge that the programs know.
    NoForge,
    /// The request failed.
    Failed(Forge, ProgramResult),
}

impl ProgramRunner {
    /// The pull request of this branch: an open one, otherwise the one that ended with exactly this
    /// commit. An open one to another branch is an error.
    pub(super) async fn pull_request(
        &self,
        status: &BranchStatus,
    ) -> Result<ForgeLookup, BuiltinError> {
        let mut failed = None;
        for forge in Forge::candidates(&self.url_of(status).await?) {
            if !self.finds(forge.program()) {
                continue;
            }
            match self.pull_request_on(*forge, status).await? {
                ForgeLookup::NoForge => {}
                ForgeLookup::Failed(forge, ran) => {
                    failed.get_or_insert(ForgeLookup::Failed(forge, ran));
                }
                known @ ForgeLookup::Known(..) => return Ok(known),
            }
        }
        Ok(failed.unwrap_or(ForgeLookup::NoForge))
    }

    /// The address of the remote that the work goes to.
    pub(super) async fn url_of(&self, status: &BranchStatus) -> Result<String, BuiltinError> {
        let Some(remote) = &status.remote else {
            return Ok(String::new());
        };
        let ran = self.git(&["remote", "get-url", remote]).await?;
        Ok(ran.answer().to_owned())
    }

    async fn pull_request_on(
        &self,
        forge: Forge,
        status: &BranchStatus,
    ) -> Result<ForgeLookup, BuiltinError> {
        let branch = &status.branch;
        let (head, source) = (
            format!("--head={branch}"),
            format!("--source-branch={branch}"),
        );
        let fields = format!("--json={FIELDS}");
        let call = match forge {
            Forge::GitHub => forge.call("list", &[&head, "--state=all", "--limit=50", &fields]),
            Forge::GitLab => forge.call(
                "list",
                &[&source, "--all", "--per-page=50", "--output=json"],
            ),
        };
        let ran = self.run(&call, None).await?;
        if !ran.ok() {
            let strange = [
                "known GitHub host",
                "known GitLab host",
                "no git remotes found",
            ];
            return Ok(if strange.iter().any(|words| ran.stderr.contains(words)) {
                ForgeLookup::NoForge
            } else {
                ForgeLookup::Failed(forge, ran)
            });
        }
        let all: Vec<PullRequest> = match forge {
            Forge::GitHub => forge.read("list", &ran.stdout)?,
            Forge::GitLab => {
                let found: Option<Vec<GlabMergeRequest>> = forge.read("list", &ran.stdout)?;
                found.into_iter().flatten().map(PullRequest::from).collect()
            }
        };
        let own = || all.iter().filter(|pull| !pull.is_cross_repository);
        let open = || own().filter(|pull| pull.state == SubmittedState::Open);
        let fits = |pull: &&PullRequest| pull.goes_to(&status.base);
        let ended = || own().filter(fits).find(|pull| pull.head == status.head);
        match (open().find(fits), open().next()) {
            (None, Some(other)) => Err(elsewhere(status, other)),
            (found, _) => Ok(ForgeLookup::Known(
                forge,
                found.or_else(ended).cloned().map(Box::new),
            )),
        }
    }

    pub(super) async fn look_at(&self, pull: &PullRequest) -> Result<PullRequest, BuiltinError> {
        self.view(pull.forge, &pull.number.to_string()).await
    }

    pub(super) async fn view(
        &self,
        forge: Forge,
        number: &str,
    ) -> Result<PullRequest, BuiltinError> {
        let fields = match forge {
            Forge::GitHub => format!("--json={FIELDS}"),
            Forge::GitLab => "--output=json".to_owned(),
        };
        let ran = self
            .run(&forge.call("view", &[number, &fields]), None)
            .await?;
        if !ran.ok() {
            return Err(forge.error("view", &ran));
        }
        match forge {
            Forge::GitHub => forge.read("view", &ran.stdout),
            Forge::GitLab => Ok(forge.read::<GlabMergeRequest>("view", &ran.stdout)?.into()),
        }
    }

    /// The checks that decide about a pull request: those that the forge requires, or all if it
    /// requires none. An empty list is valid; no answer is an error.
    pub(super) async fn checks(
        &self,
        pull: &PullRequest,
    ) -> Result<Vec<PullRequestCheck>, BuiltinError> {
        if pull.forge == Forge::GitLab {
            return self.pipeline(pull).await;
        }
        let all = self.listed_checks(pull, &[]).await?;
        if all.iter().all(PullRequestCheck::passed) {
            return Ok(all);
        }
        let required = self.listed_checks(pull, &["--required"]).await?;
        Ok(if required.is_empty() { all } else { required })
    }

    async fn listed_checks(
        &self,
        pull: &PullRequest,
        which: &[&str],
    ) -> Result<Vec<PullRequestCheck>, BuiltinError> {
        let number = pull.number.to_string();
        let args = [&[number.as_str(), "--json=name,bucket,link"], which].concat();
        let ran = self.run(&pull.forge.call("checks", &args), None).await?;
        if ran.stdout.trim_start().starts_with('[') {
            // The list is more precise than the exit code.
            return pull.forge.read("checks", &ran.stdout);
        }
        let none = ["no checks reported", "no required checks reported"];
        if none.iter().any(|words| ran.stderr.contains(words)) {
            return Ok(Vec::new());
        }
        Err(pull.forge.error("checks", &ran))
    }

    /// The jobs of the head's pipeline, in the words of `gh`.
    async fn pipeline(&self, pull: &PullRequest) -> Result<Vec<PullRequestCheck>, BuiltinError> {
        let failed = |error: ForgeFailure| BuiltinError::failed(error.reason);
        let client = ForgeClient::with(self.clone(), &pull.url).map_err(failed)?;
        let found = client.look().await.map_err(failed)?;
        let checks = found.reading.checks.into_iter().zip(found.runs);
        Ok(checks
            .map(|(check, run)| PullRequestCheck {
                name: check.name,
                bucket: match check.result {
                    CheckState::Passed => "pass",
                    _ if !check.required => "skipping",
                    CheckState::Failed => "fail",
                    CheckState::Pending => "pending",
                    CheckState::Cancelled => "cancel",
                    CheckState::Skipped => "skipping",
                }
                .to_owned(),
                link: run.link,
            })
            .collect())
    }

    /// The repository's default merge method.
    pub(super) async fn merge_method(&self) -> Result<&'static str, BuiltinError> {
        let call = ProgramCall::new("gh", &["repo", "view", "--json=viewerDefaultMergeMethod"]);
        let ran = self.run(&call, None).await?;
        let output: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap_or_default();
        Ok(match output["viewerDefaultMergeMethod"].as_str() {
            Some("SQUASH") => "--squash",
            Some("REBASE") => "--rebase",
            Some(_) | None => "--merge",
        })
    }
}

/// The number of a pull request, from its address.
pub(super) fn number(url: &str) -> &str {
    url.trim_end_matches('/').rsplit('/').next().unwrap_or(url)
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
    let change = match pull.forge {
        Forge::GitHub => format!("gh pr edit {} --base", pull.number),
        Forge::GitLab => format!("glab mr update {} --target-branch", pull.number),
    };
    BuiltinError::failed(format!(
        "{} goes to {to} and the work to {base}: set `base_branch`, or change it with `{change} {}`",
        pull.url,
        quoted(&status.base)
    ))
}

/// The last URL in a text.
pub(super) fn address(text: &str) -> Option<String> {
    let is_address = |word: &&str| word.starts_with("https://") || word.starts_with("http://");
    text.split_whitespace().rfind(is_address).map(str::to_owned)
}
