//! What a forge says about a pull request, as the session reads it.
//!
//! Owns the words. Does not read anything: see `crate::hooks::builtin::forge_watch`.

use serde::{Deserialize, Serialize};

use crate::{
    engine::time::{TimeSpan, UnixTime},
    text::{counted, some_names},
};

/// What creel asks a forge.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ForgeRequest {
    /// The address of the pull request.
    pub pull_request: String,
    /// The commit that creel pushed last, or that the work was verified at. None before the first push.
    pub pushed: Option<String>,
    /// The ids of news that the session knows: their logs and authors are not read again.
    pub known: Vec<String>,
    /// The authors that may speak to the agent: see `submit.reviewers`.
    pub reviewers: Vec<String>,
    /// The remote that the work goes to. None: detected.
    pub remote: Option<String>,
    /// How many bytes of a check's log are read into the text of its news.
    pub output_limit: usize,
}

/// One look at a pull request.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ForgeReading {
    pub state: PullRequestState,
    #[serde(default)]
    pub is_draft: bool,
    /// The commit of its branch.
    pub head: String,
    /// The branch that it goes into.
    #[serde(default)]
    pub base: String,
    /// The commit that the base branch has since it was merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged: Option<String>,
    #[serde(default)]
    pub mergeable: Mergeable,
    #[serde(default)]
    pub review: ReviewDecision,
    /// In the forge's merge queue, or to be merged by the forge when it is ready.
    #[serde(default)]
    pub queued: bool,
    pub checks: Vec<ForgeCheck>,
    /// The commit of the branch here, if no turn made it: the user's own one, or the newest base that
    /// creel merged. It is to be verified and pushed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_verify: Option<String>,
    /// Whether the branch here has commits that it does not have on the forge.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unpushed: bool,
    /// What there is for the agent now: failed checks, open comments, a conflict, commits of others.
    /// Known ones are listed, too; what is missing here has been resolved, deleted or repaired.
    #[serde(default)]
    pub news: Vec<ForgeNews>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PullRequestState {
    #[default]
    Open,
    Merged,
    /// Closed without a merge.
    Closed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mergeable {
    Clean,
    /// It conflicts with the base.
    Conflict,
    /// The forge merges only what contains the newest base.
    Behind,
    /// The forge has not decided yet, or another of its rules keeps it from merging.
    #[default]
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewDecision {
    Approved,
    ChangesRequested,
    /// The forge asks for a review that is missing.
    Required,
    /// The forge asks for no review.
    #[default]
    NotRequired,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForgeCheck {
    pub name: String,
    pub result: CheckState,
    /// Whether the forge merges only if it passed. If it names none, all of them count.
    #[serde(default)]
    pub required: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckState {
    Passed,
    Failed,
    /// It waits or runs.
    Pending,
    Cancelled,
    Skipped,
}

/// Something for the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForgeNews {
    #[serde(flatten)]
    pub source: NewsSource,
    /// Empty for news that the session knows and that cannot change.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// Whether its author may speak to the agent. True for what no person wrote.
    #[serde(default)]
    pub trusted: bool,
}

/// Where news comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewsSource {
    pub origin: NewsOrigin,
    /// The forge's own id, or for a check, a conflict and commits what makes them unique: the same
    /// news never has another, and other news never the same.
    pub id: String,
    /// What it is called in lists: the check's name, or nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The thread that creel answers in. None: below the pull request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NewsOrigin {
    Check,
    Review,
    Comment,
    Conflict,
    /// Others pushed to the branch.
    Commits,
}

/// Why a forge gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForgeFailure {
    /// A sentence for the user, with what to do.
    pub reason: String,
    /// The forge says when to ask again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<UnixTime>,
}

impl ForgeFailure {
    pub(crate) fn bug(panic: &str) -> Self {
        Self {
            reason: format!("a bug in creel: {panic}"),
            until: None,
        }
    }
}

/// An answer below a comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgeAnswer {
    pub pull_request: String,
    pub source: NewsSource,
    /// The other comments of the thread that it answers.
    pub also: Vec<String>,
    pub text: String,
}

/// How long one call of a forge may take.
pub const FORGE_PATIENCE: TimeSpan = TimeSpan::secs(120);

impl NewsOrigin {
    /// The name in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Review => "review",
            Self::Comment => "comment",
            Self::Conflict => "conflict",
            Self::Commits => "commits",
        }
    }

    /// Whether a person waits for an answer.
    pub const fn is_answered(self) -> bool {
        matches!(self, Self::Review | Self::Comment)
    }
}

impl ForgeReading {
    /// The checks that decide: the required ones, or all if the forge names none.
    pub fn counted_checks(&self) -> impl Iterator<Item = &ForgeCheck> {
        let some_are_required = self.checks.iter().any(|check| check.required);
        self.checks
            .iter()
            .filter(move |check| check.required || !some_are_required)
    }

    /// Whether every check that decides has passed.
    pub fn is_green(&self) -> bool {
        let is_good =
            |check: &ForgeCheck| matches!(check.result, CheckState::Passed | CheckState::Skipped);
        self.counted_checks().all(is_good)
    }

    /// Whether no review is missing.
    pub const fn is_approved(&self) -> bool {
        matches!(
            self.review,
            ReviewDecision::Approved | ReviewDecision::NotRequired
        )
    }

    /// In a few words.
    pub fn status(&self) -> String {
        match self.state {
            PullRequestState::Merged => return "merged".to_owned(),
            PullRequestState::Closed => return "closed without a merge".to_owned(),
            PullRequestState::Open => {}
        }
        if self.queued {
            return "in the merge queue".to_owned();
        }
        let of = |state| {
            self.counted_checks()
                .filter(|check| check.result == state)
                .map(|check| check.name.clone())
                .collect::<Vec<_>>()
        };
        let (failed, pending, cancelled) = (
            of(CheckState::Failed),
            of(CheckState::Pending),
            of(CheckState::Cancelled),
        );
        let checks = if !failed.is_empty() {
            format!("failed: {}", some_names(&failed, 3))
        } else if !pending.is_empty() {
            format!("{} running", counted(pending.len(), "check"))
        } else if !cancelled.is_empty() {
            format!("cancelled: {}", some_names(&cancelled, 3))
        } else if self.checks.is_empty() {
            "no checks".to_owned()
        } else {
            "checks passed".to_owned()
        };
        let review = match self.review {
            ReviewDecision::Approved => "approved",
            ReviewDecision::ChangesRequested => "changes requested",
            ReviewDecision::Required => "review missing",
            ReviewDecision::NotRequired => "",
        };
        let mergeable = match self.mergeable {
            Mergeable::Clean | Mergeable::Unknown => "",
            Mergeable::Conflict => "conflicts with its base",
            Mergeable::Behind => "behind its base",
        };
        let draft = if self.is_draft { "a draft" } else { "" };
        let unpushed = if self.unpushed {
            "commits here are not pushed"
        } else {
            ""
        };
        [checks.as_str(), review, mergeable, draft, unpushed]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(", ")
    }
}
