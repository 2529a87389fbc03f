//! The questions to GitHub, and what its answers mean.
//!
//! # Invariants
//! - Of a check that ran several times, only the newest run counts.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::{
    ForgeCheckRun, ForgeComment, WatchedPullRequest,
    client::{ForgeClient, Nodes, is_account},
    forge_error,
};
use crate::engine::watch::forge::{
    CheckState, ForgeCheck, ForgeFailure, ForgeReading, Mergeable, NewsOrigin, PullRequestState,
    ReviewDecision,
};

const QUERY: &str = "query($owner:String!,$name:String!,$number:Int!,$checks:String,$threads:String,$reviews:String,$comments:String){\
repository(owner:$owner,name:$name){pullRequest(number:$number){\
id state isDraft isCrossRepository headRefName headRefOid baseRefName baseRefOid baseRef{target{oid}} mergeCommit{oid} \
mergeable mergeStateStatus reviewDecision isInMergeQueue autoMergeRequest{enabledAt} \
commits(last:1){nodes{commit{oid statusCheckRollup{contexts(first:100,after:$checks){nodes{__typename \
...on CheckRun{id name status conclusion startedAt detailsUrl title summary isRequired(pullRequestNumber:$number) \
checkSuite{workflowRun{event workflow{name}}}} \
...on StatusContext{id context state description targetUrl createdAt isRequired(pullRequestNumber:$number)}} \
pageInfo{hasNextPage endCursor}}}}}} \
reviewThreads(first:100,after:$threads){nodes{id isResolved path line originalLine \
comments(first:100){nodes{id url body state isMinimized viewerDidAuthor author{__typename login}} pageInfo{hasNextPage}}} \
pageInfo{hasNextPage endCursor}} \
reviews(first:100,after:$reviews){nodes{id url state body isMinimized viewerDidAuthor author{__typename login}} \
pageInfo{hasNextPage endCursor}} \
comments(first:100,after:$comments){nodes{id url body isMinimized viewerDidAuthor author{__typename login}} \
pageInfo{hasNextPage endCursor}}}}}";

/// The lists of a pull request, and the variables of their cursors.
const LISTS: [(&str, &str); 4] = [
    (
        "/commits/nodes/0/commit/statusCheckRollup/contexts",
        "checks",
    ),
    ("/reviewThreads", "threads"),
    ("/reviews", "reviews"),
    ("/comments", "comments"),
];

const REPLY: &str = "mutation($thread:ID!,$body:String!){addPullRequestReviewThreadReply(\
input:{pullRequestReviewThreadId:$thread,body:$body}){comment{id}}}";
const COMMENT: &str = "mutation($subject:ID!,$body:String!){addComment(input:{subjectId:$subject,body:$body}){commentEdge{node{id}}}}";

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GitHubPullRequest {
    id: String,
    state: String,
    is_draft: bool,
    is_cross_repository: bool,
    head_ref_name: String,
    head_ref_oid: String,
    base_ref_name: String,
    base_ref_oid: String,
    base_ref: Option<BaseRef>,
    merge_commit: Option<CommitId>,
    mergeable: String,
    merge_state_status: String,
    review_decision: Option<String>,
    is_in_merge_queue: bool,
    auto_merge_request: Option<Value>,
    commits: Nodes<PullRequestCommit>,
    review_threads: Nodes<ReviewThread>,
    reviews: Nodes<Remark>,
    comments: Nodes<Remark>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct BaseRef {
    target: Option<CommitId>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct CommitId {
    oid: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PullRequestCommit {
    commit: HeadCommit,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct HeadCommit {
    oid: String,
    status_check_rollup: Option<CheckRollup>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct CheckRollup {
    contexts: Nodes<CheckContext>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "__typename")]
enum CheckContext {
    #[serde(rename_all = "camelCase")]
    CheckRun {
        id: String,
        name: String,
        status: String,
        conclusion: Option<String>,
        started_at: Option<String>,
        details_url: Option<String>,
        title: Option<String>,
        summary: Option<String>,
        is_required: bool,
        check_suite: Option<CheckSuite>,
    },
    #[serde(rename_all = "camelCase")]
    StatusContext {
        id: String,
        context: String,
        state: String,
        description: Option<String>,
        target_url: Option<String>,
        created_at: Option<String>,
        is_required: bool,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CheckSuite {
    workflow_run: Option<ActionsRun>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct ActionsRun {
    event: String,
    workflow: ActionsWorkflow,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct ActionsWorkflow {
    name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReviewThread {
    id: String,
    is_resolved: bool,
    path: String,
    line: Option<u32>,
    original_line: Option<u32>,
    comments: Nodes<Remark>,
}

/// A comment or a review.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Remark {
    id: String,
    url: String,
    body: String,
    #[serde(default)]
    state: String,
    is_minimized: bool,
    viewer_did_author: bool,
    author: Option<Author>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Author {
    #[serde(rename = "__typename")]
    kind: String,
    login: String,
}

impl Author {
    /// A bot and a person can have the same login; only the suffix tells them apart.
    fn name(&self) -> String {
        if self.kind == "Bot" && !self.login.ends_with("[bot]") {
            format!("{}[bot]", self.login)
        } else {
            self.login.clone()
        }
    }
}

pub(super) async fn read(client: &ForgeClient) -> Result<WatchedPullRequest, ForgeFailure> {
    let (owner, name) = client.address.project.split_once('/').unwrap_or_default();
    let fields = [
        format!("--raw-field=owner={owner}"),
        format!("--raw-field=name={name}"),
        format!("--field=number={}", client.address.number),
    ];
    let root = "/repository/pullRequest";
    let found: GitHubPullRequest = client
        .whole(QUERY, &fields, root, &LISTS, &["/headRefOid"])
        .await?;
    found.understood().map_err(forge_error)
}

/// Whether an account may push to the repository. It may not if GitHub does not say.
pub(super) async fn may_push(client: &ForgeClient, author: &str) -> Result<bool, ForgeFailure> {
    if !is_account(author) {
        return Ok(false);
    }
    let path = format!(
        "repos/{}/collaborators/{author}/permission",
        client.address.project
    );
    match client.api(&[&path]).await? {
        Ok(body) => {
            let answer: Value = serde_json::from_str(&body).unwrap_or_default();
            Ok(matches!(
                answer["permission"].as_str(),
                Some("write" | "maintain" | "admin")
            ))
        }
        Err(failure) if failure.is_passing() => Err(client.why(&failure)),
        Err(_) => Ok(false),
    }
}

pub(super) async fn comment(
    client: &ForgeClient,
    pull: &str,
    thread: Option<&str>,
    body: &str,
) -> Result<(), ForgeFailure> {
    let (query, name, id) = match thread {
        Some(thread) => (REPLY, "thread", thread),
        None => (COMMENT, "subject", pull),
    };
    let fields = [
        format!("--raw-field={name}={id}"),
        format!("--raw-field=body={body}"),
    ];
    client.graphql(query, &fields).await.map(|_| ())
}

impl GitHubPullRequest {
    fn contexts(&self) -> Option<&Nodes<CheckContext>> {
        let commit = self.commits.nodes.first()?;
        Some(&commit.commit.status_check_rollup.as_ref()?.contexts)
    }

    pub(super) fn understood(self) -> Result<WatchedPullRequest, String> {
        let state = match self.state.as_str() {
            "OPEN" => PullRequestState::Open,
            "MERGED" => PullRequestState::Merged,
            "CLOSED" => PullRequestState::Closed,
            other => {
                return Err(format!(
                    "GitHub calls the state of the pull request `{other}`: update creel"
                ));
            }
        };
        let shown = self.commits.nodes.first().map(|node| &node.commit.oid);
        if state == PullRequestState::Open && shown != Some(&self.head_ref_oid) {
            // Its checks would be those of another commit.
            return Err("GitHub has not noticed the newest push yet; creel asks again".to_owned());
        }
        let (checks, runs) = self
            .newest_checks()
            .into_iter()
            .map(CheckContext::read)
            .unzip();
        let base = self.base_ref.as_ref().and_then(|base| base.target.as_ref());
        Ok(WatchedPullRequest {
            base_commit: base
                .map_or(&self.base_ref_oid, |commit| &commit.oid)
                .clone(),
            reading: ForgeReading {
                state,
                is_draft: self.is_draft,
                head: self.head_ref_oid.clone(),
                base: self.base_ref_name.clone(),
                merged: self
                    .merge_commit
                    .as_ref()
                    .filter(|_| state == PullRequestState::Merged)
                    .map(|commit| commit.oid.clone()),
                mergeable: match (self.mergeable.as_str(), self.merge_state_status.as_str()) {
                    ("CONFLICTING", _) | (_, "DIRTY") => Mergeable::Conflict,
                    (_, "BEHIND") => Mergeable::Behind,
                    ("MERGEABLE", "CLEAN" | "HAS_HOOKS" | "UNSTABLE") => Mergeable::Clean,
                    (_, _) => Mergeable::Unknown,
                },
                review: match self.review_decision.as_deref() {
                    Some("APPROVED") => ReviewDecision::Approved,
                    Some("CHANGES_REQUESTED") => ReviewDecision::ChangesRequested,
                    None | Some("") => ReviewDecision::NotRequired,
                    Some(_) => ReviewDecision::Required,
                },
                queued: self.is_in_merge_queue || self.auto_merge_request.is_some(),
                checks,
                ..ForgeReading::default()
            },
            runs,
            is_foreign: self.is_cross_repository,
            branch: self.head_ref_name.clone(),
            comments: self.remarks()?,
            id: self.id,
        })
    }

    /// In the order of the forge, the newest run of each.
    fn newest_checks(&self) -> Vec<&CheckContext> {
        let all = self.contexts().map_or(&[][..], |contexts| &contexts.nodes);
        let mut newest: BTreeMap<_, usize> = BTreeMap::new();
        for (at, context) in all.iter().enumerate() {
            let place = newest.entry(context.key()).or_insert(at);
            if context.age() >= all[*place].age() {
                *place = at;
            }
        }
        let mut places: Vec<usize> = newest.into_values().collect();
        places.sort_unstable();
        places.into_iter().map(|at| &all[at]).collect()
    }

    fn remarks(&self) -> Result<Vec<ForgeComment>, String> {
        let mut all = Vec::new();
        for (at, review) in self.reviews.nodes.iter().enumerate() {
            let decides =
                |state: &str| matches!(state, "APPROVED" | "CHANGES_REQUESTED" | "DISMISSED");
            let is_later = |later: &Remark| later.author == review.author && decides(&later.state);
            let is_over =
                decides(&review.state) && self.reviews.nodes[at + 1..].iter().any(is_later);
            let (deed, counts) = match review.state.as_str() {
                "CHANGES_REQUESTED" => ("requests changes", !is_over),
                "APPROVED" => ("approved", !is_over && !review.body.trim().is_empty()),
                "COMMENTED" => ("reviewed", !review.body.trim().is_empty()),
                _ => ("reviewed", false),
            };
            let comment = review.comment(NewsOrigin::Review, deed);
            all.push(ForgeComment {
                is_open: counts && comment.is_open,
                ..comment
            });
        }
        for thread in &self.review_threads.nodes {
            if !thread.comments.is_whole() && !thread.is_resolved {
                return Err(format!(
                    "a thread on `{}` has more comments than creel reads: resolve it, and begin a new one",
                    thread.path
                ));
            }
            let first = thread
                .comments
                .nodes
                .first()
                .and_then(|first| first.author.as_ref());
            for remark in &thread.comments.nodes {
                let is_reply = remark.author.as_ref() != first;
                let comment = remark.comment(NewsOrigin::Comment, "commented");
                all.push(ForgeComment {
                    is_open: comment.is_open && !thread.is_resolved && remark.state != "PENDING",
                    begun_by: first.filter(|_| is_reply).map(Author::name),
                    path: Some(thread.path.clone()),
                    line: thread.line.or(thread.original_line),
                    thread: Some(thread.id.clone()),
                    ..comment
                });
            }
        }
        let general = self.comments.nodes.iter();
        all.extend(general.map(|remark| remark.comment(NewsOrigin::Comment, "commented")));
        Ok(all)
    }
}

impl Remark {
    fn comment(&self, origin: NewsOrigin, deed: &'static str) -> ForgeComment {
        ForgeComment {
            id: self.id.clone(),
            origin,
            author: self.author.as_ref().map(Author::name),
            is_own: self.viewer_did_author,
            may_push: None,
            is_open: !self.is_minimized,
            body: self.body.clone(),
            deed,
            begun_by: None,
            path: None,
            line: None,
            thread: None,
            link: self.url.clone(),
        }
    }
}

impl CheckContext {
    /// The same check in another run has the same.
    fn key(&self) -> (&str, &str, &str) {
        match self {
            Self::StatusContext { context, .. } => (context, "", ""),
            Self::CheckRun {
                name, check_suite, ..
            } => {
                let run = check_suite
                    .as_ref()
                    .and_then(|suite| suite.workflow_run.as_ref());
                run.map_or((name, " ", ""), |run| {
                    (name, &run.workflow.name, &run.event)
                })
            }
        }
    }

    /// Larger is newer: one that has not started is the newest.
    fn age(&self) -> (bool, Option<&str>) {
        let (Self::CheckRun { started_at: at, .. } | Self::StatusContext { created_at: at, .. }) =
            self;
        (at.is_none(), at.as_deref())
    }

    fn read(&self) -> (ForgeCheck, ForgeCheckRun) {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        match self {
            Self::CheckRun {
                id,
                name,
                status,
                conclusion,
                details_url,
                title,
                summary,
                is_required,
                ..
            } => {
                let link = text(details_url);
                let check = ForgeCheck {
                    name: name.clone(),
                    result: match (status.as_str(), conclusion.as_deref()) {
                        ("COMPLETED", Some("SUCCESS" | "NEUTRAL")) => CheckState::Passed,
                        ("COMPLETED", Some("FAILURE" | "TIMED_OUT" | "STARTUP_FAILURE")) => {
                            CheckState::Failed
                        }
                        ("COMPLETED", Some("CANCELLED" | "STALE")) => CheckState::Cancelled,
                        ("COMPLETED", Some("SKIPPED")) => CheckState::Skipped,
                        // It waits for a person, too, if it requires an action.
                        (_, _) => CheckState::Pending,
                    },
                    required: *is_required,
                };
                let summary = format!("{}\n{}", text(title), text(summary));
                (
                    check,
                    ForgeCheckRun {
                        id: id.clone(),
                        job: job(&link),
                        link,
                        summary,
                    },
                )
            }
            Self::StatusContext {
                id,
                context,
                state,
                description,
                target_url,
                is_required,
                ..
            } => {
                let check = ForgeCheck {
                    name: context.clone(),
                    result: match state.as_str() {
                        "SUCCESS" => CheckState::Passed,
                        "FAILURE" | "ERROR" => CheckState::Failed,
                        _ => CheckState::Pending,
                    },
                    required: *is_required,
                };
                (
                    check,
                    ForgeCheckRun {
                        id: id.clone(),
                        job: None,
                        link: text(target_url),
                        summary: text(description),
                    },
                )
            }
        }
    }
}

/// The job of a check run of GitHub Actions: `…/actions/runs/1/job/2`.
fn job(link: &str) -> Option<u64> {
    let (_, run) = link.split_once("/actions/runs/")?;
    let (_, job) = run.split_once("/job/")?;
    job.split(['?', '#', '/']).next()?.parse().ok()
}
