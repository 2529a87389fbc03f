//! What `glab` prints.

use serde_json::{Value, json};

use crate::{
    Call, Reply, create, merge,
    world::{Check, Remark, World},
};

/// The number of the project.
const PROJECT: u64 = 42;

pub fn answer(world: &mut World, call: &Call) -> Option<Reply> {
    let words = call.words();
    Some(match words.as_slice() {
        ["api", "graphql"] => graphql(world, call)?,
        ["api", path] => trace(world, call, path)?,
        ["mr", "list"] => {
            let branch = call.option("source-branch");
            let found = world
                .pull
                .as_ref()
                .is_some_and(|pull| pull.branch == branch);
            let all: Vec<Value> = found.then(|| shown(world)).into_iter().collect();
            Reply::ok(format!("{}\n", json!(all)))
        }
        ["mr", "create"] => {
            let (from, to) = (call.option("source-branch"), call.option("target-branch"));
            match create(
                world,
                from,
                to,
                call.option("title"),
                call.option("description").to_owned(),
            ) {
                Ok(url) => Reply::ok(format!(
                    "!{} {} ({from})\n {url}\n\n",
                    world.pull().number,
                    call.option("title")
                )),
                Err(why) => Reply::failed(why),
            }
        }
        ["mr", verb, number] if is_it(world, number) => match *verb {
            "view" => Reply::ok(format!("{}\n", shown(world))),
            "update" => {
                call.option("description")
                    .clone_into(&mut world.pull().body);
                Reply::ok(format!(
                    "- Updating merge request !{number}\n✓ updated description\n{}\n",
                    world.url()
                ))
            }
            "merge" => match merge(world, call.option("sha")) {
                Ok(()) => Reply::ok(format!(
                    "✓ Pipeline succeeded.\n✓ Merged!\n{}\n",
                    world.url()
                )),
                Err(why) => Reply::failed(format!(
                    "PUT https://{}/api/v4/merge: 409 {{message: {why}}}\n",
                    world.host
                )),
            },
            _ => return None,
        },
        ["mr", ..] => Reply::failed("404 Not found\n"),
        _ => return None,
    })
}

fn is_it(world: &World, number: &str) -> bool {
    world
        .pull
        .as_ref()
        .is_some_and(|pull| pull.number.to_string() == number)
}

fn state(world: &World) -> &'static str {
    match world.pull.as_ref().map_or("", |pull| pull.state.as_str()) {
        "OPEN" => "opened",
        "MERGED" => "merged",
        _ => "closed",
    }
}

fn shown(world: &World) -> Value {
    let pull = world.pull.as_ref().expect("a merge request");
    json!({
        "id": 1000 + pull.number, "iid": pull.number, "project_id": PROJECT, "title": pull.title, "state": state(world),
        "target_branch": pull.base, "source_branch": pull.branch, "sha": pull.head, "draft": pull.is_draft,
        "description": pull.body, "source_project_id": if pull.is_foreign { PROJECT + 1 } else { PROJECT },
        "target_project_id": PROJECT, "has_conflicts": pull.state == "OPEN" && world.conflicts(),
        "detailed_merge_status": status(world).to_lowercase(), "merge_commit_sha": pull.merged.clone().unwrap_or_default(),
        "squash_commit_sha": "", "web_url": world.url(), "references": { "short": format!("!{}", pull.number) },
    })
}

fn status(world: &World) -> &'static str {
    let pull = world.pull.as_ref().expect("a merge request");
    let decisions = world.decisions();
    let decided = |state: &str| decisions.values().any(|decision| *decision == state);
    match () {
        () if pull.state != "OPEN" => "NOT_OPEN",
        () if pull.is_draft => "DRAFT_STATUS",
        () if world.conflicts() => "CONFLICT",
        () if world.is_behind() => "NEED_REBASE",
        () if decided("CHANGES_REQUESTED") => "REQUESTED_CHANGES",
        () if world.review_required && !decided("APPROVED") => "NOT_APPROVED",
        () if world
            .newest_checks()
            .iter()
            .any(|check| check.conclusion.is_empty()) =>
        {
            "CI_STILL_RUNNING"
        }
        () if world
            .newest_checks()
            .iter()
            .any(|check| check.conclusion == "FAILURE" && world.required.contains(&check.name)) =>
        {
            "CI_MUST_PASS"
        }
        () => "MERGEABLE",
    }
}

fn trace(world: &World, call: &Call, path: &str) -> Option<Reply> {
    let project = world.project.replace('/', "%2F");
    let job = path
        .strip_prefix(&format!("projects/{project}/jobs/"))?
        .strip_suffix("/trace")?;
    let checks = world.pull.as_ref()?.checks.iter();
    let log = checks
        .filter(|check| check.id.to_string() == job)
        .find_map(|check| check.log.clone());
    let missing = || call.http("glab", 404, &[], r#"{"message":"404 Not Found"}"#);
    Some(log.map_or_else(missing, Reply::ok))
}

fn graphql(world: &mut World, call: &Call) -> Option<Reply> {
    let query = call.field("query");
    let viewer = world.viewer.clone();
    if query.contains("createNote(") {
        let subject = gid("MergeRequest", 1000 + world.pull().number);
        if call.field("subject") != subject {
            let body = json!({ "data": { "createNote": null }, "errors": [{ "message": "The resource that you are attempting to access does not exist" }] });
            return Some(call.http("glab", 200, &[], &body.to_string()));
        }
        let remark = world.remark(&viewer, call.field("body"));
        let thread = call.field("thread");
        let pull = world.pull();
        let mut errors = Vec::new();
        if thread.is_empty() {
            pull.comments.push(remark);
        } else {
            match pull
                .threads
                .iter_mut()
                .find(|known| gid("DiffDiscussion", known.id) == thread)
            {
                Some(thread) => thread.comments.push(remark),
                None => errors.push("Discussion not found"),
            }
        }
        let body = json!({ "data": { "createNote": { "errors": errors, "note": { "id": gid("Note", 1) } } } });
        return Some(call.http("glab", 200, &[], &body.to_string()));
    }
    if !query.contains("mergeRequest(iid:$number)") {
        return None;
    }
    let found = call.field("project") == world.project && is_it(world, call.field("number"));
    let body = json!({ "data": { "currentUser": { "username": world.viewer }, "project": { "mergeRequest": if found { whole(world, call) } else { Value::Null } } } });
    Some(call.http("glab", 200, &[], &body.to_string()))
}

fn gid(kind: &str, number: u64) -> String {
    format!("gid://gitlab/{kind}/{number}")
}

fn whole(world: &World, call: &Call) -> Value {
    let pull = world.pull.as_ref().expect("a merge request");
    let jobs: Vec<Value> = world
        .newest_checks()
        .into_iter()
        .map(|check| job(world, check))
        .collect();
    let failed = world
        .newest_checks()
        .iter()
        .any(|check| check.conclusion == "FAILURE" && world.required.contains(&check.name));
    let pipeline = (!jobs.is_empty()).then(|| {
        json!({
            "id": gid("Ci::Pipeline", 5), "status": if failed { "FAILED" } else { "SUCCESS" },
            "path": format!("/{}/-/pipelines/5", world.project), "failureReason": null,
            "jobs": call.page(&jobs, "jobs", world.page),
        })
    });
    let mut discussions: Vec<Value> = Vec::new();
    for review in &pull.reviews {
        let words = match review.state.as_str() {
            "CHANGES_REQUESTED" => "requested changes",
            "APPROVED" => "approved this merge request",
            _ => "left review comments",
        };
        let mut system = note(world, review);
        system["system"] = true.into();
        system["body"] = words.into();
        discussions.push(discussion(
            "IndividualNoteDiscussion",
            review.id,
            false,
            false,
            &[system],
        ));
        if !review.body.is_empty() {
            let mut said = note(world, review);
            said["id"] = gid("Note", 100_000 + review.id).into();
            discussions.push(discussion(
                "IndividualNoteDiscussion",
                100_000 + review.id,
                false,
                false,
                &[said],
            ));
        }
    }
    for thread in &pull.threads {
        let notes = thread.comments.iter().map(|comment| {
            let mut note = note(world, comment);
            note["position"] = json!({ "newPath": thread.path, "oldPath": thread.path, "newLine": thread.line, "oldLine": null });
            note
        });
        discussions.push(discussion(
            "DiffDiscussion",
            thread.id,
            true,
            thread.is_resolved,
            &notes.collect::<Vec<_>>(),
        ));
    }
    for comment in &pull.comments {
        let notes = [note(world, comment)];
        discussions.push(discussion(
            "IndividualNoteDiscussion",
            comment.id,
            false,
            false,
            &notes,
        ));
    }
    let decisions = world.decisions();
    let review_state = |decision: &str| match decision {
        "CHANGES_REQUESTED" => "REQUESTED_CHANGES",
        "APPROVED" => "APPROVED",
        _ => "REVIEWED",
    };
    let reviewers: Vec<Value> = decisions
        .iter()
        .map(|(author, decision)| json!({ "username": author, "mergeRequestInteraction": { "reviewState": review_state(decision) } }))
        .collect();
    let approved = decisions
        .iter()
        .filter(|(_, decision)| **decision == "APPROVED");
    let approvers: Vec<Value> = approved
        .map(|(author, _)| json!({ "username": author }))
        .collect();
    json!({
        "id": gid("MergeRequest", 1000 + pull.number), "webUrl": world.url(), "state": state(world), "draft": pull.is_draft,
        "sourceBranch": pull.branch, "targetBranch": pull.base,
        "sourceProjectId": if pull.is_foreign { PROJECT + 1 } else { PROJECT }, "targetProjectId": PROJECT,
        "diffHeadSha": pull.head, "diffRefs": { "startSha": world.base_tip() }, "mergeCommitSha": pull.merged,
        "conflicts": pull.state == "OPEN" && world.conflicts(), "shouldBeRebased": world.is_behind(),
        "detailedMergeStatus": status(world), "autoMergeEnabled": pull.is_queued,
        "approvedBy": { "nodes": approvers }, "reviewers": { "nodes": reviewers }, "headPipeline": pipeline,
        "discussions": call.page(&discussions, "discussions", world.page),
    })
}

fn discussion(kind: &str, number: u64, resolvable: bool, resolved: bool, notes: &[Value]) -> Value {
    json!({
        "replyId": gid(kind, number), "resolvable": resolvable, "resolved": resolved,
        "notes": { "nodes": notes, "pageInfo": { "hasNextPage": false } },
    })
}

fn note(world: &World, remark: &Remark) -> Value {
    let role = match world.permissions.get(&remark.author).map(String::as_str) {
        Some("admin") => Some("Owner"),
        Some("maintain") => Some("Maintainer"),
        Some("write") => Some("Developer"),
        Some(_) => Some("Reporter"),
        None => None,
    };
    json!({
        "id": gid("Note", remark.id), "url": format!("{}#note_{}", world.url(), remark.id), "body": remark.body, "system": false,
        "maxAccessLevelOfAuthor": role, "author": { "username": remark.author }, "position": null,
    })
}

fn job(world: &World, check: &Check) -> Value {
    let status = match check.conclusion.as_str() {
        "" => "RUNNING",
        "FAILURE" => "FAILED",
        "CANCELLED" => "CANCELED",
        other => other,
    };
    let kind = if check.status.is_some() {
        "GenericCommitStatus"
    } else {
        "Ci::Build"
    };
    json!({
        "id": gid(kind, check.id), "name": check.name, "status": status,
        "allowFailure": !world.required.contains(&check.name) && !world.required.is_empty(),
        "webPath": format!("/{}/-/jobs/{}", world.project, check.id), "failureMessage": check.status,
    })
}
