//! What `gh` prints.

use serde_json::{Map, Value, json};

use crate::{
    Call, Reply, create, file, merge,
    world::{Check, Remark, World},
};

pub fn answer(world: &mut World, call: &Call) -> Option<Reply> {
    let words = call.words();
    Some(match words.as_slice() {
        ["api", "graphql"] => graphql(world, call)?,
        ["api", path] => rest(world, call, path)?,
        ["repo", "view"] => Reply::ok(r#"{"viewerDefaultMergeMethod":"MERGE"}"#),
        ["pr", "list"] => {
            let branch = call.option("head");
            let found = world
                .pull
                .as_ref()
                .is_some_and(|pull| pull.branch == branch);
            let all: Vec<Value> = found.then(|| shown(world, call)).into_iter().collect();
            Reply::ok(format!("{}\n", json!(all)))
        }
        ["pr", "create"] => {
            let body = file(call.option("body-file"));
            match create(
                world,
                call.option("head"),
                call.option("base"),
                call.option("title"),
                body,
            ) {
                Ok(url) => Reply::ok(format!("{url}\n")),
                Err(why) => Reply::failed(why),
            }
        }
        ["pr", verb, number] if is_it(world, number) => match *verb {
            "view" => Reply::ok(format!("{}\n", shown(world, call))),
            "checks" => checks(world, call.option("required") == "true"),
            "edit" => {
                world.pull().body = file(call.option("body-file"));
                Reply::ok(format!("{}\n", world.url()))
            }
            // Without a terminal it prints nothing.
            "merge" => match merge(world, call.option("match-head-commit")) {
                Ok(()) => Reply::ok(""),
                Err(why) => Reply::failed(format!("GraphQL: {why}")),
            },
            _ => return None,
        },
        ["pr", _, number] => Reply::failed(format!(
            "GraphQL: Could not resolve to a PullRequest with the number of {number}. (repository.pullRequest)\n"
        )),
        _ => return None,
    })
}

fn is_it(world: &World, number: &str) -> bool {
    world
        .pull
        .as_ref()
        .is_some_and(|pull| pull.number.to_string() == number)
}

/// The fields that the call asks for.
fn shown(world: &World, call: &Call) -> Value {
    let pull = world.pull.as_ref().expect("a pull request");
    let all = json!({
        "number": pull.number, "url": world.url(), "state": pull.state, "headRefOid": pull.head, "baseRefName": pull.base,
        "isDraft": pull.is_draft, "body": pull.body, "isCrossRepository": pull.is_foreign, "mergeable": mergeable(world),
        "reviewDecision": decision(world).unwrap_or_default(), "mergeCommit": pull.merged.as_ref().map(|oid| json!({ "oid": oid })),
    });
    let fields: Map<String, Value> = call
        .option("json")
        .split(',')
        .map(|field| {
            (
                field.to_owned(),
                all.get(field)
                    .unwrap_or_else(|| panic!("unknown JSON field: {field}"))
                    .clone(),
            )
        })
        .collect();
    Value::Object(fields)
}

fn mergeable(world: &World) -> &'static str {
    if world.conflicts() {
        "CONFLICTING"
    } else {
        "MERGEABLE"
    }
}

fn decision(world: &World) -> Option<&'static str> {
    let decisions = world.decisions();
    let any = |state: &str| decisions.values().any(|decided| *decided == state);
    match () {
        () if any("CHANGES_REQUESTED") => Some("CHANGES_REQUESTED"),
        () if any("APPROVED") => Some("APPROVED"),
        () if world.review_required => Some("REVIEW_REQUIRED"),
        () => None,
    }
}

fn checks(world: &World, only_required: bool) -> Reply {
    let mut newest = world.newest_checks();
    newest.retain(|check| !only_required || world.required.contains(&check.name));
    if newest.is_empty() {
        let branch = world.pull.as_ref().map_or("", |pull| &pull.branch);
        let which = if only_required { "required " } else { "" };
        return Reply::failed(format!(
            "no {which}checks reported on the '{branch}' branch\n"
        ));
    }
    let bucket = |check: &Check| match check.conclusion.as_str() {
        "SUCCESS" => "pass",
        "SKIPPED" | "NEUTRAL" => "skipping",
        "CANCELLED" => "cancel",
        "" => "pending",
        _ => "fail",
    };
    let list: Vec<Value> = newest
        .iter()
        .map(|check| json!({ "name": check.name, "bucket": bucket(check), "link": link(world, check) }))
        .collect();
    let buckets: Vec<&str> = newest.iter().map(|check| bucket(check)).collect();
    let code = match () {
        () if buckets
            .iter()
            .any(|bucket| matches!(*bucket, "fail" | "cancel")) =>
        {
            1
        }
        () if buckets.contains(&"pending") => 8,
        () => 0,
    };
    Reply::ok(format!("{}\n", json!(list))).with_code(code)
}

fn link(world: &World, check: &Check) -> String {
    format!(
        "https://{}/{}/actions/runs/9/job/{}",
        world.host, world.project, check.id
    )
}

fn rest(world: &World, call: &Call, path: &str) -> Option<Reply> {
    let path = path.strip_prefix(&format!("repos/{}/", world.project))?;
    let missing = || call.http("gh", 404, &[], r#"{"message":"Not Found"}"#);
    if let Some(rest) = path.strip_prefix("collaborators/") {
        let author = rest.strip_suffix("/permission")?;
        let Some(permission) = world.permissions.get(author) else {
            return Some(missing());
        };
        let legacy = match permission.as_str() {
            "maintain" => "write",
            "triage" => "read",
            other => other,
        };
        let body =
            json!({ "permission": legacy, "role_name": permission, "user": { "login": author } });
        return Some(call.http("gh", 200, &[], &body.to_string()));
    }
    let job = path.strip_prefix("actions/jobs/")?.strip_suffix("/logs")?;
    let checks = world.pull.as_ref()?.checks.iter();
    let log = checks
        .filter(|check| check.id.to_string() == job)
        .find_map(|check| check.log.clone());
    Some(log.map_or_else(missing, Reply::ok))
}

fn graphql(world: &mut World, call: &Call) -> Option<Reply> {
    let query = call.field("query");
    let done = |name: &str| {
        let body = json!({ "data": { name: { "clientMutationId": null } } });
        call.http("gh", 200, &[], &body.to_string())
    };
    let viewer = world.viewer.clone();
    if query.contains("addPullRequestReviewThreadReply(") {
        let remark = world.remark(&viewer, call.field("body"));
        let thread = world
            .pull()
            .threads
            .iter_mut()
            .find(|thread| id("PRRT", thread.id) == call.field("thread"));
        let Some(thread) = thread else {
            return Some(missing(
                call,
                "Could not resolve to a node with the global id of that thread",
            ));
        };
        thread.comments.push(remark);
        return Some(done("addPullRequestReviewThreadReply"));
    }
    if query.contains("addComment(") {
        let number = world.pull().number;
        if call.field("subject") != id("PR", number) {
            return Some(missing(
                call,
                "Could not resolve to a node with that global id",
            ));
        }
        let remark = world.remark(&viewer, call.field("body"));
        world.pull().comments.push(remark);
        return Some(done("addComment"));
    }
    if !query.contains("pullRequest(number:$number)") {
        return None;
    }
    let project = format!("{}/{}", call.field("owner"), call.field("name"));
    if project != world.project {
        return Some(missing(
            call,
            &format!("Could not resolve to a Repository with the name '{project}'."),
        ));
    }
    if !is_it(world, call.field("number")) {
        let number = call.field("number");
        return Some(missing(
            call,
            &format!("Could not resolve to a PullRequest with the number of {number}."),
        ));
    }
    let body = json!({ "data": { "repository": { "pullRequest": whole(world, call) } } });
    Some(call.http("gh", 200, &[], &body.to_string()))
}

fn missing(call: &Call, message: &str) -> Reply {
    let body = json!({ "data": null, "errors": [{ "type": "NOT_FOUND", "path": ["repository"], "message": message }] });
    call.http("gh", 200, &[], &body.to_string())
}

fn id(kind: &str, number: u64) -> String {
    format!("{kind}_kwDOA{number:04}")
}

fn whole(world: &World, call: &Call) -> Value {
    let pull = world.pull.as_ref().expect("a pull request");
    let page = |all: &[Value], cursor: &str| call.page(all, cursor, world.page);
    let conflicts = pull.state == "OPEN" && world.conflicts();
    let status = match () {
        () if pull.state != "OPEN" => "UNKNOWN",
        () if conflicts => "DIRTY",
        () if pull.is_draft || decision(world) == Some("REVIEW_REQUIRED") => "BLOCKED",
        () if world.is_behind() => "BEHIND",
        () if world
            .newest_checks()
            .iter()
            .any(|check| check.conclusion != "SUCCESS") =>
        {
            "UNSTABLE"
        }
        () => "CLEAN",
    };
    let contexts: Vec<Value> = world
        .checks()
        .into_iter()
        .map(|check| context(world, check))
        .collect();
    let rollup = if contexts.is_empty() {
        Value::Null
    } else {
        json!({ "contexts": page(&contexts, "checks") })
    };
    let remarks = |all: &[Remark], kind: &str| {
        all.iter()
            .map(|one| remark(world, one, kind))
            .collect::<Vec<_>>()
    };
    let threads = pull.threads.iter().map(|thread| {
        let comments: Vec<Value> = remarks(&thread.comments, "PRRC")
            .into_iter()
            .map(|mut comment| {
                comment["state"] = "SUBMITTED".into();
                comment
            })
            .collect();
        json!({
            "id": id("PRRT", thread.id), "isResolved": thread.is_resolved, "path": thread.path, "line": thread.line,
            "originalLine": thread.line, "comments": { "nodes": comments, "pageInfo": { "hasNextPage": false } },
        })
    });
    let reviews = remarks(&pull.reviews, "PRR")
        .into_iter()
        .zip(&pull.reviews)
        .map(|(mut shown, review)| {
            shown["state"] = review.state.clone().into();
            shown
        });
    json!({
        "id": id("PR", pull.number), "state": pull.state, "isDraft": pull.is_draft, "isCrossRepository": pull.is_foreign,
        "headRefName": pull.branch, "headRefOid": pull.head, "baseRefName": pull.base, "baseRefOid": world.base_tip(),
        "baseRef": { "target": { "oid": world.base_tip() } },
        "mergeCommit": pull.merged.as_ref().map(|oid| json!({ "oid": oid })),
        "mergeable": if conflicts { "CONFLICTING" } else if pull.state == "OPEN" { "MERGEABLE" } else { "UNKNOWN" },
        "mergeStateStatus": status, "reviewDecision": decision(world), "isInMergeQueue": pull.is_queued,
        "autoMergeRequest": null,
        "commits": { "nodes": [{ "commit": { "oid": pull.head, "statusCheckRollup": rollup } }] },
        "reviewThreads": page(&threads.collect::<Vec<_>>(), "threads"),
        "reviews": page(&reviews.collect::<Vec<_>>(), "reviews"),
        "comments": page(&remarks(&pull.comments, "IC"), "comments"),
    })
}

fn context(world: &World, check: &Check) -> Value {
    let required = world.required.contains(&check.name);
    let at = format!(
        "2026-11-19T01:{:02}:{:02}Z",
        check.id / 60 % 60,
        check.id % 60
    );
    if let Some(description) = &check.status {
        let state = if check.conclusion.is_empty() {
            "PENDING"
        } else {
            &check.conclusion
        };
        return json!({
            "__typename": "StatusContext", "id": id("SC", check.id), "context": check.name, "state": state,
            "description": description, "targetUrl": "https://ci.example/1", "createdAt": at, "isRequired": required,
        });
    }
    let is_done = !check.conclusion.is_empty();
    json!({
        "__typename": "CheckRun", "id": id("CR", check.id), "name": check.name,
        "status": if is_done { "COMPLETED" } else { "IN_PROGRESS" },
        "conclusion": is_done.then_some(&check.conclusion), "startedAt": at,
        "detailsUrl": link(world, check), "title": null, "summary": null, "isRequired": required,
        "checkSuite": { "workflowRun": { "event": "pull_request", "workflow": { "name": "CI" } } },
    })
}

fn remark(world: &World, remark: &Remark, kind: &str) -> Value {
    let login = remark.author.trim_end_matches("[bot]");
    let typename = if world.bots.contains(&remark.author) {
        "Bot"
    } else {
        "User"
    };
    json!({
        "id": id(kind, remark.id), "url": format!("{}#r{}", world.url(), remark.id), "body": remark.body,
        "isMinimized": remark.is_minimized, "viewerDidAuthor": remark.author == world.viewer, "author": { "__typename": typename, "login": login },
    })
}
