//! What the answers of both forges mean, and the texts of news.

use serde::Deserialize as _;
use serde_json::{Value, json};

use super::{
    WatchedPullRequest,
    client::{ApiFailure, PullRequestAddress, is_account},
    github::GitHubPullRequest,
    gitlab::GitLabMergeRequest,
    inert, last_line, mark_of,
};
use crate::{
    engine::{
        time::UnixTime,
        watch::forge::{CheckState, Mergeable, NewsOrigin, PullRequestState, ReviewDecision},
    },
    hooks::builtin::forge::Forge,
};

fn page(nodes: Value) -> Value {
    let mut page = json!({ "pageInfo": { "hasNextPage": false, "endCursor": null } });
    page["nodes"] = nodes;
    page
}

fn author(login: &str) -> Value {
    json!({ "__typename": "User", "login": login })
}

/// A pull request of GitHub, with these changes.
fn github(change: impl FnOnce(&mut Value)) -> Result<WatchedPullRequest, String> {
    let mut pull = json!({
        "id": "PR_kwDOA1", "state": "OPEN", "isDraft": false, "isCrossRepository": false, "headRefName": "work",
        "headRefOid": "aaaa", "baseRefName": "main", "baseRefOid": "b000", "baseRef": { "target": { "oid": "bbbb" } },
        "mergeCommit": null, "mergeable": "MERGEABLE", "mergeStateStatus": "CLEAN", "reviewDecision": null,
        "isInMergeQueue": false, "autoMergeRequest": null,
        "commits": { "nodes": [{ "commit": { "oid": "aaaa", "statusCheckRollup": null } }] },
        "reviewThreads": page(json!([])), "reviews": page(json!([])), "comments": page(json!([])),
    });
    change(&mut pull);
    let pull = GitHubPullRequest::deserialize(&pull).map_err(|error| error.to_string())?;
    pull.understood()
}

fn check_run(
    name: &str,
    id: u64,
    status: &str,
    conclusion: Option<&str>,
    started: Option<&str>,
) -> Value {
    json!({
        "__typename": "CheckRun", "id": format!("CR_{id}"), "name": name, "status": status, "conclusion": conclusion,
        "startedAt": started, "detailsUrl": format!("https://github.com/acme/app/actions/runs/9/job/{id}?pr=7"),
        "title": null, "summary": null, "isRequired": true,
        "checkSuite": { "workflowRun": { "event": "push", "workflow": { "name": "CI" } } },
    })
}

#[test]
fn of_a_check_the_newest_run_counts() {
    let (early, late) = (Some("2026-11-19T01:00:00Z"), Some("2026-11-19T02:00:00Z"));
    let contexts = json!([
        check_run("again", 2, "COMPLETED", Some("SUCCESS"), late),
        check_run("again", 1, "COMPLETED", Some("FAILURE"), early),
        check_run("queued", 4, "QUEUED", None, None),
        check_run("queued", 3, "COMPLETED", Some("FAILURE"), late),
        check_run("neutral", 5, "COMPLETED", Some("NEUTRAL"), early),
        check_run("approval", 6, "COMPLETED", Some("ACTION_REQUIRED"), early),
        check_run("broken", 7, "COMPLETED", Some("STARTUP_FAILURE"), early),
        check_run("stale", 8, "COMPLETED", Some("STALE"), early),
        check_run("skipped", 9, "COMPLETED", Some("SKIPPED"), early),
        check_run("new word", 10, "COMPLETED", Some("SOMETHING"), early),
        { "__typename": "StatusContext", "id": "SC_1", "context": "ci/other", "state": "ERROR", "description": "no runner",
          "targetUrl": null, "createdAt": early, "isRequired": false },
        { "__typename": "StatusContext", "id": "SC_2", "context": "ci/expected", "state": "EXPECTED", "description": null,
          "targetUrl": null, "createdAt": early, "isRequired": false },
    ]);
    let rollup = json!({ "contexts": page(contexts) });
    let pull = github(|pull| pull["commits"]["nodes"][0]["commit"]["statusCheckRollup"] = rollup);
    let pull = pull.expect("a pull request");
    let states: Vec<_> = pull
        .reading
        .checks
        .iter()
        .map(|check| (check.name.as_str(), check.result))
        .collect();
    let expected = [
        ("again", CheckState::Passed),
        ("queued", CheckState::Pending),
        ("neutral", CheckState::Passed),
        ("approval", CheckState::Pending),
        ("broken", CheckState::Failed),
        ("stale", CheckState::Cancelled),
        ("skipped", CheckState::Skipped),
        ("new word", CheckState::Pending),
        ("ci/other", CheckState::Failed),
        ("ci/expected", CheckState::Pending),
    ];
    assert_eq!(states, expected);
    assert_eq!(pull.runs[4].job, Some(7));
    assert_eq!(pull.runs[8].job, None);
}

#[test]
fn what_github_says_about_merging_is_understood() {
    let cases = [
        ("MERGEABLE", "CLEAN", Mergeable::Clean),
        ("MERGEABLE", "UNSTABLE", Mergeable::Clean),
        ("MERGEABLE", "BEHIND", Mergeable::Behind),
        ("MERGEABLE", "BLOCKED", Mergeable::Unknown),
        ("CONFLICTING", "DIRTY", Mergeable::Conflict),
        ("UNKNOWN", "UNKNOWN", Mergeable::Unknown),
        ("UNKNOWN", "CLEAN", Mergeable::Unknown),
    ];
    for (mergeable, status, expected) in cases {
        let pull = github(|pull| {
            pull["mergeable"] = mergeable.into();
            pull["mergeStateStatus"] = status.into();
        });
        assert_eq!(
            pull.expect("a pull request").reading.mergeable,
            expected,
            "{mergeable} {status}"
        );
    }
    let pull = github(|pull| {
        pull["autoMergeRequest"] = json!({ "enabledAt": "2026-11-19T01:00:00Z" });
        pull["reviewDecision"] = "REVIEW_REQUIRED".into();
    });
    let reading = pull.expect("a pull request").reading;
    assert!(reading.queued);
    assert_eq!(reading.review, ReviewDecision::Required);
}

#[test]
fn what_is_not_understood_is_an_error() {
    type Change = fn(&mut Value);
    let cases: [(&str, Change); 4] = [
        ("has not noticed the newest push", |pull| {
            pull["headRefOid"] = "cccc".into();
        }),
        ("`PAUSED`: update creel", |pull| {
            pull["state"] = "PAUSED".into();
        }),
        ("missing field `reviews`", |pull| {
            pull.as_object_mut().expect("an object").remove("reviews");
        }),
        ("more comments than creel reads", |pull| {
            pull["reviewThreads"]["nodes"] = json!([{
                "id": "T", "isResolved": false, "path": "a.rs", "line": 1, "originalLine": 1,
                "comments": { "nodes": [], "pageInfo": { "hasNextPage": true } },
            }]);
        }),
    ];
    for (expected, change) in cases {
        let error = github(change).expect_err(expected);
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn hidden_withdrawn_and_unsent_remarks_are_not_open() {
    let remark = |id: &str, state: &str, body: &str, by: &str, minimized: bool| json!({ "id": id, "url": "https://x", "body": body, "state": state, "isMinimized": minimized, "viewerDidAuthor": by == "me", "author": author(by) });
    let pull = github(|pull| {
        pull["reviews"] = page(json!([
            remark("r1", "CHANGES_REQUESTED", "no", "alice", false),
            remark("r2", "COMMENTED", "hm", "alice", false),
            remark("r3", "APPROVED", "yes, but", "alice", false),
            remark("r4", "CHANGES_REQUESTED", "", "bob", false),
            remark("r5", "DISMISSED", "old", "carol", false),
            remark("r6", "PENDING", "draft", "me", false),
            remark("r7", "APPROVED", "", "dave", false),
            remark("r8", "COMMENTED", "", "dave", false),
        ]));
        pull["reviewThreads"]["nodes"] = json!([{
            "id": "T1", "isResolved": false, "path": "a.rs", "line": null, "originalLine": 4,
            "comments": { "nodes": [
                remark("t1", "SUBMITTED", "one\r\ntwo", "alice", false),
                remark("t2", "PENDING", "unsent", "me", false),
                { "id": "t3", "url": "https://x", "body": "bye", "state": "SUBMITTED", "isMinimized": false, "viewerDidAuthor": false, "author": null },
            ], "pageInfo": { "hasNextPage": false } },
        }]);
        pull["comments"] = page(json!([
            remark("c1", "", "spam", "eve", true),
            remark("c2", "", "hi", "eve", false)
        ]));
    });
    let pull = pull.expect("a pull request");
    let open: Vec<_> = pull
        .comments
        .iter()
        .filter(|comment| comment.is_open)
        .collect();
    let ids: Vec<_> = open.iter().map(|comment| comment.id.as_str()).collect();
    assert_eq!(ids, ["r2", "r3", "r4", "t1", "t3", "c2"]);
    assert_eq!(
        open[3].text(),
        "@alice commented on `a.rs:4` (https://x):\n\n> one\n> two"
    );
    assert_eq!(
        open[4].text(),
        "a deleted account commented on `a.rs:4` in the thread of @alice (https://x):\n\n> bye"
    );
    assert_eq!(
        open[2].text().trim_end(),
        "@bob requests changes (https://x)."
    );
}

/// A merge request of GitLab, with these changes.
fn gitlab(change: impl FnOnce(&mut Value)) -> Result<WatchedPullRequest, String> {
    let mut found = json!({
        "id": "gid://gitlab/MergeRequest/1", "webUrl": "https://git.example.com/a/b/-/merge_requests/7", "state": "opened",
        "draft": false, "sourceBranch": "work", "targetBranch": "main", "sourceProjectId": 4, "targetProjectId": 4,
        "diffHeadSha": "aaaa", "diffRefs": { "startSha": "bbbb" }, "mergeCommitSha": null, "conflicts": false,
        "shouldBeRebased": false, "detailedMergeStatus": "MERGEABLE", "autoMergeEnabled": false,
        "approvedBy": { "nodes": [] }, "reviewers": { "nodes": [] }, "headPipeline": null, "discussions": page(json!([])),
    });
    change(&mut found);
    let found = GitLabMergeRequest::deserialize(&found).map_err(|error| error.to_string())?;
    found.understood()
}

#[test]
fn a_pipeline_of_gitlab_is_its_jobs() {
    let job = |number: u64, name: &str, status: &str, allow_failure: bool| {
        json!({
            "id": format!("gid://gitlab/Ci::Build/{number}"), "name": name, "status": status, "allowFailure": allow_failure,
            "webPath": format!("/a/b/-/jobs/{number}"), "failureMessage": null,
        })
    };
    let pipeline = |status: &str, jobs: Value| {
        json!({
            "id": "gid://gitlab/Ci::Pipeline/1", "status": status, "path": "/a/b/-/pipelines/1",
            "failureReason": "config_error", "jobs": page(jobs),
        })
    };
    let jobs = json!([
        job(1, "test", "FAILED", false),
        job(2, "deploy", "MANUAL", true),
        job(3, "gate", "MANUAL", false),
        job(4, "lint", "FAILED", true),
        job(5, "old", "CANCELED", false),
        { "id": "gid://gitlab/Ci::Bridge/6", "name": "child", "status": "RUNNING", "allowFailure": false, "webPath": null,
          "failureMessage": null },
    ]);
    let pull =
        gitlab(|found| found["headPipeline"] = pipeline("FAILED", jobs)).expect("a merge request");
    let states: Vec<_> = pull
        .reading
        .checks
        .iter()
        .map(|check| (check.name.as_str(), check.result, check.required))
        .collect();
    let expected = [
        ("test", CheckState::Failed, true),
        ("deploy", CheckState::Skipped, false),
        ("gate", CheckState::Pending, true),
        ("lint", CheckState::Failed, false),
        ("old", CheckState::Cancelled, true),
        ("child", CheckState::Pending, true),
    ];
    assert_eq!(states, expected);
    assert_eq!((pull.runs[0].job, pull.runs[5].job), (Some(1), None));
    assert_eq!(pull.runs[0].link, "https://git.example.com/a/b/-/jobs/1");
    // A config that GitLab cannot read, and a pipeline that has no jobs yet.
    for (status, expected) in [
        ("FAILED", CheckState::Failed),
        ("CREATED", CheckState::Pending),
    ] {
        let pull = gitlab(|found| found["headPipeline"] = pipeline(status, json!([])));
        let pull = pull.expect("a merge request");
        assert_eq!(
            (
                pull.reading.checks[0].result,
                pull.reading.checks[0].required
            ),
            (expected, true)
        );
        assert_eq!(pull.runs[0].summary, "config_error");
    }
}

#[test]
fn what_gitlab_says_about_merging_is_understood() {
    let cases = [
        ("MERGEABLE", Mergeable::Clean, ReviewDecision::NotRequired),
        (
            "NEED_REBASE",
            Mergeable::Behind,
            ReviewDecision::NotRequired,
        ),
        ("CONFLICT", Mergeable::Conflict, ReviewDecision::NotRequired),
        ("CHECKING", Mergeable::Unknown, ReviewDecision::NotRequired),
        (
            "DISCUSSIONS_NOT_RESOLVED",
            Mergeable::Unknown,
            ReviewDecision::NotRequired,
        ),
        ("NOT_APPROVED", Mergeable::Unknown, ReviewDecision::Required),
        (
            "REQUESTED_CHANGES",
            Mergeable::Unknown,
            ReviewDecision::ChangesRequested,
        ),
    ];
    for (status, mergeable, review) in cases {
        let pull = gitlab(|found| found["detailedMergeStatus"] = status.into());
        let reading = pull.expect("a merge request").reading;
        assert_eq!(
            (reading.mergeable, reading.review),
            (mergeable, review),
            "{status}"
        );
    }
    let pull = gitlab(|found| {
        found["state"] = "merged".into();
        found["mergeCommitSha"] = "cccc".into();
        found["sourceProjectId"] = Value::Null;
    });
    let pull = pull.expect("a merge request");
    assert_eq!(
        (pull.reading.state, pull.reading.merged.as_deref()),
        (PullRequestState::Merged, Some("cccc"))
    );
    assert!(pull.is_foreign);
}

#[test]
fn notes_of_gitlab_say_who_may_push() {
    let note = |id: u64, by: &str, role: Option<&str>, system: bool, body: &str| {
        json!({
            "id": format!("gid://gitlab/Note/{id}"), "url": "https://x", "body": body, "system": system,
            "maxAccessLevelOfAuthor": role, "author": { "username": by }, "position": null,
        })
    };
    let discussion = |resolvable: bool, resolved: bool, note: Value| {
        json!({
            "replyId": "gid://gitlab/Discussion/1", "resolvable": resolvable, "resolved": resolved,
            "notes": { "nodes": [note], "pageInfo": { "hasNextPage": false } },
        })
    };
    let pull = gitlab(|found| {
        found["reviewers"]["nodes"] = json!([{ "username": "carol", "mergeRequestInteraction": { "reviewState": "REQUESTED_CHANGES" } }]);
        found["discussions"] = page(json!([
            discussion(true, true, note(1, "alice", Some("Owner"), false, "old")),
            discussion(
                true,
                false,
                note(2, "alice", Some("Developer"), false, "open")
            ),
            discussion(false, false, note(3, "bob", Some("Reporter"), false, "hi")),
            discussion(false, false, note(4, "eve", None, false, "hi")),
            discussion(
                false,
                false,
                note(5, "carol", Some("Maintainer"), true, "requested changes")
            ),
            discussion(
                false,
                false,
                note(6, "carol", Some("Maintainer"), true, "added 1 commit")
            ),
            discussion(
                false,
                false,
                note(7, "carol", Some("Maintainer"), true, "requested changes")
            ),
        ]));
    });
    let pull = pull.expect("a merge request");
    assert_eq!(pull.reading.review, ReviewDecision::ChangesRequested);
    let open: Vec<_> = pull
        .comments
        .iter()
        .filter(|comment| comment.is_open)
        .map(|comment| {
            (
                comment.id.rsplit('/').next(),
                comment.may_push,
                comment.thread.is_some(),
                comment.origin,
            )
        })
        .collect();
    let expected = [
        (Some("2"), Some(true), true, NewsOrigin::Comment),
        (Some("3"), Some(false), false, NewsOrigin::Comment),
        (Some("4"), Some(false), false, NewsOrigin::Comment),
        (Some("7"), Some(true), false, NewsOrigin::Review),
    ];
    assert_eq!(open, expected);
}

#[test]
fn an_address_says_which_forge_it_is_on_any_host() {
    let parsed = |url: &str| {
        PullRequestAddress::parse(url).map(|found| (found.forge, found.project, found.number))
    };
    let (github, gitlab) = (Forge::GitHub, Forge::GitLab);
    let cases = [
        (
            "https://github.com/acme/app/pull/7",
            Some((github, "acme/app", 7)),
        ),
        (
            "https://git.corp.example:8443/acme/app/pull/7/files?w=1",
            Some((github, "acme/app", 7)),
        ),
        (
            "https://gitlab.com/a/b/c/-/merge_requests/12#note_1",
            Some((gitlab, "a/b/c", 12)),
        ),
        ("https://github.com/acme/app/issues/7", None),
        ("https://github.com/acme/app/pull/x", None),
        ("https://github.com/a/b/c/pull/7", None),
        ("https://github.com/acme/../pull/7", None),
        ("https://github.com/acme/a%2Fb/pull/7", None),
        ("https://-oops/acme/app/pull/7", None),
        ("acme/app#7", None),
    ];
    for (url, expected) in cases {
        let expected = expected.map(|(forge, project, number)| (forge, project.to_owned(), number));
        assert_eq!(parsed(url), expected, "{url}");
    }
    assert!(is_account("dependabot[bot]") && is_account("a-b_c.d"));
    assert!(!is_account("../x") && !is_account("") && !is_account("a/b") && !is_account("a b"));
}

#[test]
fn a_rate_limit_lasts_as_long_as_the_forge_says() {
    let now = UnixTime(1_000_000_000);
    let ends = |headers: &str, complaint: &str| {
        ApiFailure::of(headers, complaint)
            .ends(now)
            .map(|at| (at.0 - now.0) / 1000)
    };
    let cases = [
        (
            "HTTP/2.0 200 OK\nX-Ratelimit-Remaining: 0\r\nX-Ratelimit-Reset: 1000900",
            "gh: API rate limit exceeded for user ID 1.",
            Some(900),
        ),
        (
            "HTTP/2.0 403 Forbidden\nRetry-After: 30\r\nX-Ratelimit-Reset: 1000900",
            "gh: You have exceeded a secondary rate limit (HTTP 403)",
            Some(30),
        ),
        (
            "HTTP/2.0 403 Forbidden\nX-Ratelimit-Reset: 1000900",
            "gh: You have exceeded a secondary rate limit (HTTP 403)",
            Some(60),
        ),
        (
            "HTTP/2.0 429 Too Many Requests\nRatelimit-Reset: 1000120",
            "glab: HTTP 429",
            Some(120),
        ),
        ("", "GraphQL: API rate limit exceeded", Some(60)),
        (
            "HTTP/2.0 200 OK\nX-Ratelimit-Reset: 999999",
            "API rate limit exceeded",
            Some(60),
        ),
        (
            "HTTP/2.0 404 Not Found\nX-Ratelimit-Remaining: 4999",
            "gh: Not Found (HTTP 404)",
            None,
        ),
    ];
    for (headers, complaint, expected) in cases {
        assert_eq!(ends(headers, complaint), expected, "{headers} {complaint}");
    }
}

#[test]
fn an_answer_cannot_be_a_command_and_has_its_mark_last() {
    assert_eq!(
        inert("/merge\ntext /x\n  /approve"),
        "&#47;merge\ntext /x\n  &#47;approve"
    );
    let mark = mark_of("PRRC_kwDOA1");
    assert_eq!(mark, "<!-- creel: PRRC_kwDOA1 -->");
    assert_eq!(last_line(&format!("text\n\n{mark}\r\n")), mark);
    assert_ne!(
        last_line(&format!("> {mark}\n\nwhat does this mean?")),
        mark
    );
}
