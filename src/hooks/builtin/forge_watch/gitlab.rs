//! The questions to GitLab, and what its answers mean.

use serde::Deserialize;

use super::{
    ForgeCheckRun, ForgeComment, WatchedPullRequest,
    client::{ForgeClient, Nodes},
    forge_error,
};
use crate::engine::watch::forge::{
    CheckState, ForgeCheck, ForgeFailure, ForgeReading, Mergeable, NewsOrigin, PullRequestState,
    ReviewDecision,
};

const QUERY: &str = "query($project:ID!,$number:String!,$jobs:String,$discussions:String){currentUser{username} \
project(fullPath:$project){mergeRequest(iid:$number){\
id webUrl state draft sourceBranch targetBranch sourceProjectId targetProjectId diffHeadSha diffRefs{startSha} mergeCommitSha \
conflicts shouldBeRebased detailedMergeStatus autoMergeEnabled approvedBy{nodes{username}} \
reviewers{nodes{username mergeRequestInteraction{reviewState}}} \
headPipeline{id status path failureReason jobs(first:100,after:$jobs,retried:false){\
nodes{id name status allowFailure webPath failureMessage} pageInfo{hasNextPage endCursor}}} \
discussions(first:100,after:$discussions){nodes{replyId resolvable resolved \
notes(first:100){nodes{id url body system maxAccessLevelOfAuthor author{username} position{newPath oldPath newLine oldLine}} \
pageInfo{hasNextPage}}} pageInfo{hasNextPage endCursor}}}}}";

/// The lists of a merge request, and the variables of their cursors.
const LISTS: [(&str, &str); 2] = [
    ("/headPipeline/jobs", "jobs"),
    ("/discussions", "discussions"),
];

const COMMENT: &str = "mutation($subject:NoteableID!,$thread:DiscussionID,$body:String!){createNote(\
input:{noteableId:$subject,discussionId:$thread,body:$body}){errors note{id}}}";

/// The roles that may push.
const PUSHERS: [&str; 3] = ["Developer", "Maintainer", "Owner"];
/// What GitLab notes when a reviewer requests changes.
const REQUESTED: &str = "requested changes";

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are independent in GitLab's answer, too"
)]
pub(super) struct GitLabMergeRequest {
    id: String,
    web_url: String,
    state: String,
    draft: bool,
    source_branch: String,
    target_branch: String,
    source_project_id: Option<u64>,
    target_project_id: u64,
    diff_head_sha: Option<String>,
    diff_refs: Option<DiffRefs>,
    merge_commit_sha: Option<String>,
    conflicts: bool,
    should_be_rebased: bool,
    detailed_merge_status: Option<String>,
    auto_merge_enabled: bool,
    approved_by: Option<Nodes<GitLabUser>>,
    reviewers: Option<Nodes<Reviewer>>,
    head_pipeline: Option<Pipeline>,
    discussions: Nodes<Discussion>,
    /// The account that creel uses.
    current_user: Option<GitLabUser>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DiffRefs {
    start_sha: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct GitLabUser {
    username: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reviewer {
    username: String,
    merge_request_interaction: Option<Interaction>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Interaction {
    review_state: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pipeline {
    id: String,
    status: String,
    path: Option<String>,
    failure_reason: Option<String>,
    jobs: Option<Nodes<Job>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Job {
    id: String,
    name: Option<String>,
    status: Option<String>,
    allow_failure: bool,
    web_path: Option<String>,
    failure_message: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Discussion {
    reply_id: String,
    resolvable: bool,
    resolved: bool,
    notes: Nodes<Note>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Note {
    id: String,
    url: Option<String>,
    body: String,
    system: bool,
    max_access_level_of_author: Option<String>,
    author: Option<GitLabUser>,
    position: Option<Position>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Position {
    new_path: Option<String>,
    old_path: Option<String>,
    new_line: Option<u32>,
    old_line: Option<u32>,
}

pub(super) async fn read(client: &ForgeClient) -> Result<WatchedPullRequest, ForgeFailure> {
    let fields = [
        format!("--raw-field=project={}", client.address.project),
        format!("--raw-field=number={}", client.address.number),
    ];
    let (root, fixed) = (
        "/project/mergeRequest",
        ["/diffHeadSha", "/headPipeline/id"],
    );
    let found: Option<GitLabMergeRequest> =
        client.whole(QUERY, &fields, root, &LISTS, &fixed).await?;
    let Some(found) = found else {
        return Err(forge_error(format!(
            "{} does not exist, or your login may not see it: check the address, and `glab auth status`",
            client.address.url
        )));
    };
    found.understood().map_err(forge_error)
}

pub(super) async fn comment(
    client: &ForgeClient,
    pull: &str,
    thread: Option<&str>,
    body: &str,
) -> Result<(), ForgeFailure> {
    let mut fields = vec![
        format!("--raw-field=subject={pull}"),
        format!("--raw-field=body={body}"),
    ];
    fields.extend(thread.map(|thread| format!("--raw-field=thread={thread}")));
    let answer = client.graphql(COMMENT, &fields).await?;
    let refusals = answer["createNote"]["errors"].as_array();
    match refusals.and_then(|refusals| refusals.first()) {
        Some(refusal) => Err(forge_error(format!(
            "GitLab refused the answer at {}: {refusal}",
            client.address.url
        ))),
        None => Ok(()),
    }
}

impl GitLabMergeRequest {
    fn jobs(&self) -> &[Job] {
        let jobs = self
            .head_pipeline
            .as_ref()
            .and_then(|pipeline| pipeline.jobs.as_ref());
        jobs.map_or(&[], |jobs| &jobs.nodes)
    }

    pub(super) fn understood(self) -> Result<WatchedPullRequest, String> {
        let state = match self.state.as_str() {
            "opened" | "locked" => PullRequestState::Open,
            "merged" => PullRequestState::Merged,
            "closed" => PullRequestState::Closed,
            other => {
                return Err(format!(
                    "GitLab calls the state of the merge request `{other}`: update creel"
                ));
            }
        };
        let (checks, runs) = self.checks().into_iter().unzip();
        let status = self.detailed_merge_status.as_deref().unwrap_or_default();
        let mergeable = match status {
            _ if self.conflicts => Mergeable::Conflict,
            "CONFLICT" => Mergeable::Conflict,
            "NEED_REBASE" => Mergeable::Behind,
            _ if self.should_be_rebased => Mergeable::Behind,
            "MERGEABLE" => Mergeable::Clean,
            _ => Mergeable::Unknown,
        };
        let head = self.diff_head_sha.clone();
        Ok(WatchedPullRequest {
            reading: ForgeReading {
                state,
                is_draft: self.draft,
                head: head.ok_or(
                    "GitLab does not name the commit of the merge request; creel asks again",
                )?,
                base: self.target_branch.clone(),
                merged: self
                    .merge_commit_sha
                    .clone()
                    .filter(|_| state == PullRequestState::Merged),
                mergeable,
                review: self.review(status),
                queued: self.auto_merge_enabled && state == PullRequestState::Open,
                checks,
                ..ForgeReading::default()
            },
            branch: self.source_branch.clone(),
            base_commit: self
                .diff_refs
                .as_ref()
                .map(|refs| refs.start_sha.clone())
                .unwrap_or_default(),
            is_foreign: self.source_project_id != Some(self.target_project_id),
            runs,
            comments: self.remarks()?,
            id: self.id,
        })
    }

    /// The reviewers that request changes.
    fn objectors(&self) -> impl Iterator<Item = &str> {
        let objects = |reviewer: &&Reviewer| {
            let review = reviewer.merge_request_interaction.as_ref();
            review.and_then(|review| review.review_state.as_deref()) == Some("REQUESTED_CHANGES")
        };
        let all = self
            .reviewers
            .as_ref()
            .map_or(&[][..], |reviewers| &reviewers.nodes);
        all.iter()
            .filter(objects)
            .map(|reviewer| reviewer.username.as_str())
    }

    fn review(&self, status: &str) -> ReviewDecision {
        let approvals = self
            .approved_by
            .as_ref()
            .map_or(0, |users| users.nodes.len());
        match status {
            "REQUESTED_CHANGES" => ReviewDecision::ChangesRequested,
            _ if self.objectors().next().is_some() => ReviewDecision::ChangesRequested,
            "NOT_APPROVED" | "APPROVALS_SYNCING" | "CODE_OWNERS_APPROVAL" => {
                ReviewDecision::Required
            }
            _ if approvals > 0 => ReviewDecision::Approved,
            _ => ReviewDecision::NotRequired,
        }
    }

    fn checks(&self) -> Vec<(ForgeCheck, ForgeCheckRun)> {
        let host = self
            .web_url
            .split('/')
            .take(3)
            .collect::<Vec<_>>()
            .join("/");
        let mut all: Vec<_> = self.jobs().iter().map(|job| job.read(&host)).collect();
        let Some(pipeline) = &self.head_pipeline else {
            return all;
        };
        let has_failed = |(check, _): &(ForgeCheck, ForgeCheckRun)| {
            check.required && check.result == CheckState::Failed
        };
        let result = state_of(&pipeline.status, false);
        // A config that GitLab cannot read has no jobs, and a new pipeline has none yet.
        if all.is_empty() || (result == CheckState::Failed && !all.iter().any(has_failed)) {
            all.push((
                ForgeCheck {
                    name: "pipeline".to_owned(),
                    result,
                    required: true,
                },
                ForgeCheckRun {
                    id: pipeline.id.clone(),
                    link: pipeline
                        .path
                        .as_ref()
                        .map_or_else(String::new, |path| format!("{host}{path}")),
                    summary: pipeline.failure_reason.clone().unwrap_or_default(),
                    job: None,
                },
            ));
        }
        all
    }

    fn remarks(&self) -> Result<Vec<ForgeComment>, String> {
        let mut all = Vec::new();
        for discussion in &self.discussions.nodes {
            let is_resolved = discussion.resolvable && discussion.resolved;
            if !discussion.notes.is_whole() && !is_resolved {
                return Err(
                    "a thread has more comments than creel reads: resolve it, and begin a new one"
                        .to_owned(),
                );
            }
            let first = discussion
                .notes
                .nodes
                .first()
                .and_then(|note| note.author.as_ref());
            let written = discussion.notes.nodes.iter().filter(|note| !note.system);
            all.extend(written.map(|note| {
                let place = note.position.as_ref();
                let is_reply = note.author.as_ref() != first;
                ForgeComment {
                    is_own: note.author.is_some() && note.author == self.current_user,
                    is_open: !is_resolved,
                    begun_by: first.filter(|_| is_reply).map(|user| user.username.clone()),
                    path: place.and_then(|place| place.new_path.clone().or(place.old_path.clone())),
                    line: place.and_then(|place| place.new_line.or(place.old_line)),
                    thread: discussion.resolvable.then(|| discussion.reply_id.clone()),
                    ..note.comment(NewsOrigin::Comment, "commented")
                }
            }));
        }
        let notes = || {
            self.discussions
                .nodes
                .iter()
                .flat_map(|discussion| &discussion.notes.nodes)
        };
        for objector in self.objectors() {
            let by = |note: &&Note| {
                note.author
                    .as_ref()
                    .is_some_and(|user| user.username == objector)
            };
            let mut requests = notes()
                .filter(by)
                .filter(|note| note.system && note.body.starts_with(REQUESTED));
            // The newest one: the same person can request changes again.
            let Some(note) = requests.next_back() else {
                continue;
            };
            all.push(ForgeComment {
                body: String::new(),
                ..note.comment(NewsOrigin::Review, "requests changes")
            });
        }
        Ok(all)
    }
}

impl Note {
    fn comment(&self, origin: NewsOrigin, deed: &'static str) -> ForgeComment {
        let role = self.max_access_level_of_author.as_deref();
        ForgeComment {
            id: self.id.clone(),
            origin,
            author: self.author.as_ref().map(|user| user.username.clone()),
            is_own: false,
            may_push: Some(role.is_some_and(|role| PUSHERS.contains(&role))),
            is_open: true,
            body: self.body.clone(),
            deed,
            begun_by: None,
            path: None,
            line: None,
            thread: None,
            link: self.url.clone().unwrap_or_default(),
        }
    }
}

impl Job {
    fn read(&self, host: &str) -> (ForgeCheck, ForgeCheckRun) {
        let check = ForgeCheck {
            name: self.name.clone().unwrap_or_default(),
            result: state_of(
                self.status.as_deref().unwrap_or_default(),
                self.allow_failure,
            ),
            required: !self.allow_failure,
        };
        let number = self
            .id
            .rsplit_once("Ci::Build/")
            .and_then(|(_, number)| number.parse().ok());
        let run = ForgeCheckRun {
            id: self.id.clone(),
            link: self
                .web_path
                .as_ref()
                .map_or_else(String::new, |path| format!("{host}{path}")),
            summary: self.failure_message.clone().unwrap_or_default(),
            job: number,
        };
        (check, run)
    }
}

fn state_of(status: &str, may_fail: bool) -> CheckState {
    match status.to_ascii_uppercase().as_str() {
        "SUCCESS" => CheckState::Passed,
        "FAILED" => CheckState::Failed,
        "CANCELED" | "CANCELING" => CheckState::Cancelled,
        "SKIPPED" => CheckState::Skipped,
        // An optional job that a person starts.
        "MANUAL" if may_fail => CheckState::Skipped,
        _ => CheckState::Pending,
    }
}
