//! Tasks as stories: the graph, its events, and what hooks do with them.

use creel::engine::{
    event::{ActorKind, AutomationEvent, Event, HookEvent},
    hooks::verdict::RunEnd,
    input::SessionCommand,
    refusal::{ByHandObstacle, Refusal},
    tasks::{
        command::{NewTask, TaskChanges, TaskCommand, TaskCompletion},
        graph::{Task, TaskDescriptionChanges, TaskState},
        record::{
            self,
            TaskEventKind::{self, DependencySatisfied, TaskCompleted, TaskCreated, TaskDeleted},
        },
        task_rules::inherit,
    },
    time::{TimeSpan, UnixTime},
};
use serde_json::{Value, json};

use crate::support::world::*;

/// A session whose agent has just begun, so that tasks come and go beside it.
fn begun(script: Script) -> World {
    let mut world = World::begin(script);
    world.settle();
    world
}

fn add(new: NewTask) -> SessionCommand {
    SessionCommand::Task {
        task: TaskCommand::Add(new),
    }
}

fn task(id: &str, on: &[&str]) -> SessionCommand {
    add(NewTask {
        id: Some(id.into()),
        goal: format!("Do {id}"),
        dependencies: on.iter().map(|&id| id.into()).collect(),
        ..NewTask::default()
    })
}

fn start(id: &str) -> SessionCommand {
    SessionCommand::Task {
        task: TaskCommand::Start {
            id: id.into(),
            context: None,
        },
    }
}

fn done(id: &str) -> SessionCommand {
    SessionCommand::Task {
        task: TaskCommand::Complete(TaskCompletion {
            id: id.into(),
            ..TaskCompletion::default()
        }),
    }
}

fn block(id: &str, reason: &str) -> SessionCommand {
    let (id, reason, required_knowledge) = (id.into(), reason.into(), vec!["the format".into()]);
    SessionCommand::Task {
        task: TaskCommand::Block {
            id,
            reason,
            required_knowledge,
        },
    }
}

fn depend(id: &str, on: &str) -> SessionCommand {
    SessionCommand::Task {
        task: TaskCommand::Depend {
            id: id.into(),
            on: on.into(),
        },
    }
}

fn research(id: &str) -> NewTask {
    NewTask {
        id: Some(id.into()),
        goal: "Research graph patterns".into(),
        deliverables: vec!["Research doc".into(), "Pattern catalog".into()],
        labels: vec!["agent".into(), "research".into()],
        priority: Some(1),
        ..NewTask::default()
    }
}

fn of<'a>(world: &'a World, id: &str) -> &'a Task {
    world
        .state
        .tasks
        .graph
        .get(id)
        .unwrap_or_else(|| panic!("there is a task {id}"))
}

/// The event as a reader of its record has it.
fn read_again(event: &Event) -> Event {
    let record = serde_json::to_value(event).expect("a record");
    let kind = record["kind"].as_str().expect("a kind");
    Event::read(kind, &record.to_string()).expect("a record")
}

/// The texts of the refusals, which are all about tasks.
fn refused(world: &World) -> Vec<String> {
    let text = |refusal: &Refusal| match refusal {
        Refusal::Task(refusal) => refusal.to_string(),
        other => panic!("not about a task: {other:?}"),
    };
    world.refused.iter().map(text).collect()
}

fn state(world: &World, id: &str) -> TaskState {
    of(world, id).state
}

/// The records of one kind, as other programs read them.
fn records(world: &World, kind: &str) -> Vec<Value> {
    let all = world
        .events
        .iter()
        .map(|event| serde_json::to_value(event).expect("a record"));
    all.filter(|record| record["kind"] == kind).collect()
}

#[test]
fn the_work_of_an_agent_gets_a_review_that_is_its_child() {
    let mut world = begun(Script::new().builtins());
    world.command(add(research("task_42")));
    world.command(start("task_42"));
    world.command(SessionCommand::Task {
        task: TaskCommand::Complete(TaskCompletion {
            id: "task_42".into(),
            result: Some("Research complete".into()),
            ..TaskCompletion::default()
        }),
    });
    let review = of(&world, "task_43");
    assert_eq!(review.goal, "Review: Research graph patterns");
    assert_eq!(
        review.deliverables,
        ["Review completed", "Feedback provided"]
    );
    assert_eq!(review.labels, ["review", "agent", "research"]);
    assert_eq!(
        (review.priority, review.parent.as_deref(), review.state),
        (1, Some("task_42"), TaskState::Ready)
    );
    let [_, created] = &records(&world, "task_created")[..] else {
        panic!("two tasks")
    };
    assert_eq!(created["by"], "policy");
    assert_eq!(
        created["cause"],
        json!({ "event": 1, "hook": "auto-create-review-task", "action": 1 })
    );
    let completed = &records(&world, "task_completed")[0];
    assert_eq!(
        completed["data"],
        json!({ "content": "Research graph patterns", "result": "Research complete", "artifacts": [] })
    );
    // A review gets no review, and neither does a task that no agent worked on.
    world.command(done("task_43"));
    world.command(task("by-hand", &[]));
    world.command(done("by-hand"));
    assert_eq!(world.state.tasks.graph.len(), 3);
}

#[test]
fn the_review_of_a_most_urgent_task_is_most_urgent() {
    let mut world = begun(Script::new().builtins());
    world.command(add(NewTask {
        priority: Some(0),
        ..research("a")
    }));
    world.command(done("a"));
    assert_eq!(of(&world, "task_1").priority, 0);
}

#[test]
fn a_task_is_ready_when_all_its_dependencies_are_completed() {
    let mut world = begun(Script::new().builtins());
    for command in [
        task("task_10", &[]),
        task("task_15", &[]),
        task("task_20", &["task_10", "task_15"]),
        start("task_15"),
    ] {
        world.command(command);
    }
    assert_eq!(state(&world, "task_20"), TaskState::Created);
    world.command(start("task_20"));
    assert_eq!(
        refused(&world),
        ["task_20 depends on 2 tasks that are not completed"]
    );
    world.command(done("task_10"));
    assert_eq!(
        (
            state(&world, "task_20"),
            records(&world, "dependency_satisfied").len()
        ),
        (TaskState::Created, 0)
    );
    world.command(done("task_15"));
    assert_eq!(state(&world, "task_20"), TaskState::Ready);
    let [satisfied] = &records(&world, "dependency_satisfied")[..] else {
        panic!("one record")
    };
    assert_eq!(satisfied["task"], "task_20");
    assert_eq!(
        satisfied["data"],
        json!({ "dependentTaskId": "task_20", "completedTaskId": "task_15" })
    );
    let [updated] = &records(&world, "task_updated")[..] else {
        panic!("one record")
    };
    assert_eq!(
        (&updated["task"], &updated["data"]),
        (&json!("task_20"), &json!({ "state": "ready" }))
    );
}

#[test]
fn a_task_started_before_a_hook_makes_it_ready_stays_active() {
    let mut world = begun(Script::new().builtins().automation(
        "slow",
        90,
        &[TaskCompleted],
        [passes()],
    ));
    for command in [task("a", &[]), task("b", &["a"]), done("a"), start("b")] {
        world.command(command);
    }
    world.finish_hook(0);
    assert_eq!(state(&world, "b"), TaskState::Active);
    assert_eq!(
        records(&world, "action_error")[0]["data"]["error"],
        "b is already active"
    );
}

#[test]
fn the_duration_of_an_agents_task_is_recorded() {
    let mut world = begun(Script::new().builtins());
    world.now = UnixTime(1_768_644_000_000);
    world.command(add(research("task_agent_5")));
    world.command(start("task_agent_5"));
    world.now = world.now.after(TimeSpan::secs(9_000));
    world.command(done("task_agent_5"));
    let [metrics] = &records(&world, "agent_metrics")[..] else {
        panic!("one record")
    };
    assert_eq!(metrics["task"], "task_agent_5");
    assert_eq!(
        metrics["data"],
        json!({
            "goal": "Research graph patterns",
            "labels": ["agent", "research"],
            "priority": 1,
            "durationMs": 9_000_000,
            "deliverables": ["Research doc", "Pattern catalog"],
        })
    );
    let told = serde_json::to_value(of(&world, "task_agent_5")).expect("JSON");
    assert_eq!(
        (&told["startedAt"], &told["completedAt"]),
        (
            &json!("2026-01-17T10:00:00.000Z"),
            &json!("2026-01-17T12:30:00.000Z")
        )
    );
}

#[test]
fn a_task_that_was_never_started_has_no_duration() {
    let mut world = begun(Script::new().builtins());
    world.command(add(research("a")));
    world.command(done("a"));
    assert_eq!(
        records(&world, "agent_metrics")[0]["data"]["durationMs"],
        Value::Null
    );
}

#[test]
fn words_of_a_goal_become_labels_if_enabled() {
    let mut world = begun(Script::new().builtins());
    let fix = || {
        add(NewTask {
            goal: "Fix the crash; add TESTS.".into(),
            labels: vec!["bug".into()],
            ..NewTask::default()
        })
    };
    world.command(fix());
    assert_eq!(of(&world, "task_1").labels, ["bug"]);
    world.command(SessionCommand::EnableHook {
        point: None,
        hook: "auto-label-by-keyword".into(),
    });
    world.command(fix());
    assert_eq!(of(&world, "task_2").labels, ["bug", "test"]);
}

#[test]
fn impossible_commands_are_refused_with_a_reason() {
    let mut world = begun(Script::new());
    let setup = [
        task("a", &[]),
        task("b", &["a"]),
        task("c", &["b"]),
        task("d", &[]),
        done("d"),
    ];
    for command in setup {
        world.command(command);
    }
    assert_eq!(world.refused, []);
    let before = world.events.len();
    let wrong = [
        depend("a", "c"),
        depend("a", "a"),
        depend("a", "x"),
        depend("b", "a"),
        task("e", &["x"]),
        task("e", &["e"]),
        task("a", &[]),
        task("no spaces", &[]),
        add(NewTask {
            goal: " ".into(),
            ..NewTask::default()
        }),
        add(NewTask {
            goal: "x".into(),
            priority: Some(5),
            ..NewTask::default()
        }),
        add(NewTask {
            goal: "x".into(),
            parent: Some("x".into()),
            ..NewTask::default()
        }),
        start("b"),
        start("x"),
        start("d"),
        done("d"),
        done("x"),
        depend("d", "a"),
        SessionCommand::Task {
            task: TaskCommand::Undepend {
                id: "a".into(),
                on: "b".into(),
            },
        },
        SessionCommand::Task {
            task: TaskCommand::Block {
                id: "a".into(),
                reason: " ".into(),
                required_knowledge: Vec::new(),
            },
        },
        SessionCommand::Task {
            task: TaskCommand::MakeReady { id: "a".into() },
        },
        SessionCommand::Task {
            task: TaskCommand::Update {
                id: "a".into(),
                changes: TaskChanges::default(),
            },
        },
        SessionCommand::Task {
            task: TaskCommand::Remove { id: "x".into() },
        },
    ];
    for command in wrong {
        world.command(command);
    }
    let expected = [
        "a cannot depend on c: that would be a cycle, a → c → b → a",
        "a cannot depend on itself",
        "there is no task x",
        "b already depends on a",
        "there is no task x",
        "e cannot depend on itself",
        "task a already exists",
        "`no spaces` is not a valid name for a task: use letters, digits, `-` and `_`, at most 64",
        "a task needs a goal",
        "a priority is a number from 0, the highest, to 4, not 5",
        "there is no task x",
        "b depends on a task that is not completed",
        "there is no task x",
        "d is completed",
        "task d is already completed",
        "there is no task x; to complete a task of another program, pass its content",
        "d is completed",
        "a does not depend on b",
        "a reason is needed to block a",
        "a is already ready",
        "you named no change to a",
        "there is no task x",
    ];
    assert_eq!(refused(&world), expected);
    assert_eq!(world.events.len(), before, "what is refused leaves nothing");
}

#[test]
fn adding_and_removing_edges_changes_readiness() {
    let mut world = begun(Script::new());
    for command in [task("a", &[]), task("b", &[]), depend("b", "a")] {
        world.command(command);
    }
    assert_eq!(state(&world, "b"), TaskState::Created);
    world.command(SessionCommand::Task {
        task: TaskCommand::Undepend {
            id: "b".into(),
            on: "a".into(),
        },
    });
    assert_eq!(state(&world, "b"), TaskState::Ready);
    world.command(depend("b", "a"));
    world.command(SessionCommand::Task {
        task: TaskCommand::Remove { id: "a".into() },
    });
    assert_eq!(
        (state(&world, "b"), world.state.tasks.graph.len()),
        (TaskState::Ready, 1)
    );
    let edge = json!({ "fromId": "b", "toId": "a", "edgeType": "depends_on" });
    assert_eq!(records(&world, "dependency_added")[0]["data"], edge);
    let edge = json!({ "edgeId": "b:depends_on:a", "fromId": "b", "toId": "a" });
    assert_eq!(records(&world, "dependency_removed")[0]["data"], edge);
    assert_eq!(
        records(&world, "task_deleted")[0]["data"],
        json!({ "edgesRemoved": 1 })
    );
    assert_eq!(world.refused, []);
}

#[test]
fn an_edge_of_a_new_task_is_recorded_like_an_added_one() {
    let script = Script::new().automation("look", 1, &[TaskEventKind::DependencyAdded], [passes()]);
    let mut world = begun(script);
    for command in [
        task("a", &[]),
        task("b", &[]),
        task("c", &["b", "a"]),
        depend("b", "a"),
    ] {
        world.command(command);
    }
    while !world.jobs.is_empty() {
        world.finish_hook(0);
    }
    let edges: Vec<Value> = records(&world, "dependency_added")
        .iter()
        .map(|record| record["data"].clone())
        .collect();
    let edge =
        |from: &str, to: &str| json!({ "fromId": from, "toId": to, "edgeType": "depends_on" });
    assert_eq!(edges, [edge("c", "a"), edge("c", "b"), edge("b", "a")]);
    assert_eq!(records(&world, "dependency_added")[0]["by"], "tui");
    assert_eq!(
        records(&world, "hook_started").len(),
        3,
        "hooks hear of each"
    );
    assert_eq!(
        of(&world, "c").open_dependencies(),
        2,
        "and none counts twice"
    );
}

#[test]
fn a_chain_of_tasks_that_wait_for_each_other_ends_after_eight() {
    let next = r#"[{"type":"create_task","payload":{"goal":"next","dependsOn":["a"]}}]"#;
    let mut world = begun(Script::new().automation(
        "echo",
        1,
        &[TaskEventKind::DependencyAdded],
        [prints(next)],
    ));
    world.command(task("a", &[]));
    world.command(task("b", &["a"]));
    while !world.jobs.is_empty() {
        world.finish_hook(0);
    }
    assert_eq!(records(&world, "hook_started").len(), 9);
    assert!(!world.state.beside().is_busy_beside());
}

#[test]
fn a_task_that_is_ready_because_a_dependency_was_removed_says_so() {
    let mut world = begun(Script::new());
    for command in [task("a", &[]), task("b", &[]), task("c", &["a", "b"])] {
        world.command(command);
    }
    let undepend = |on: &str| SessionCommand::Task {
        task: TaskCommand::Undepend {
            id: "c".into(),
            on: on.into(),
        },
    };
    world.command(undepend("a"));
    assert_eq!(
        records(&world, "dependency_satisfied"),
        [json!(null); 0],
        "it still waits for b"
    );
    world.command(undepend("b"));
    let satisfied = records(&world, "dependency_satisfied");
    let data = json!({ "dependentTaskId": "c", "completedTaskId": null, "removedTaskId": "b" });
    assert_eq!(
        (
            satisfied.len(),
            &satisfied[0]["task"],
            &satisfied[0]["data"]
        ),
        (1, &json!("c"), &data)
    );
    // The same by removing the task that it waits for.
    world.command(depend("c", "a"));
    world.command(SessionCommand::Task {
        task: TaskCommand::Remove { id: "a".into() },
    });
    let satisfied = records(&world, "dependency_satisfied");
    assert_eq!(
        (satisfied.len(), &satisfied[1]["data"]["removedTaskId"]),
        (2, &json!("a"))
    );
}

#[test]
fn a_hook_logs_custom_events() {
    let answer = r#"[
        {"type":"log","payload":{"type":"deploy_started","nodeId":"a","data":{"to":"prod"}}},
        {"type":"log","payload":{"type":"custom.deploy.ended"}},
        {"type":"log","payload":{"type":"task_completed","nodeId":"a","data":{}}},
        {"type":"log","payload":{"type":" ","nodeId":"a"}}
    ]"#;
    let mut world = begun(Script::new().automation("deploy", 1, &[TaskCreated], [prints(answer)]));
    world.command(task("a", &[]));
    world.finish_hook(0);
    let [started] = &records(&world, "custom.deploy_started")[..] else {
        panic!("{:?}", world.events)
    };
    assert_eq!(
        (&started["task"], &started["data"]),
        (&json!("a"), &json!({ "to": "prod" }))
    );
    assert_eq!(started["cause"]["hook"], "deploy");
    assert_eq!(records(&world, "custom.deploy.ended")[0]["task"], "system");
    let refused: Vec<Value> = records(&world, "action_error")
        .iter()
        .map(|error| error["data"]["error"].clone())
        .collect();
    assert_eq!(
        refused,
        [
            "creel itself records `task_completed`: change tasks with `update_task`",
            "the event has no type: name one in `type`"
        ]
    );
    assert!(of(&world, "a").is_open());
    for event in &world.events {
        assert_eq!(read_again(event), *event);
    }
}

#[test]
fn the_records_of_a_task_show_its_history() {
    let mut world = begun(Script::new());
    world.command(task("a", &[]));
    world.command(SessionCommand::Task {
        task: TaskCommand::Start {
            id: "a".into(),
            context: Some("see docs".into()),
        },
    });
    world.command(SessionCommand::Task {
        task: TaskCommand::Block {
            id: "a".into(),
            reason: "no key".into(),
            required_knowledge: vec!["the API key".into()],
        },
    });
    assert_eq!(
        (state(&world, "a"), of(&world, "a").reason.as_deref()),
        (TaskState::Blocked, Some("no key"))
    );
    world.command(start("a"));
    assert_eq!(
        (state(&world, "a"), of(&world, "a").reason.as_deref()),
        (TaskState::Active, None)
    );
    let changes = TaskChanges {
        add_labels: vec!["x".into()],
        description: TaskDescriptionChanges {
            priority: Some(0),
            ..TaskDescriptionChanges::default()
        },
        ..TaskChanges::default()
    };
    world.command(SessionCommand::Task {
        task: TaskCommand::Update {
            id: "a".into(),
            changes,
        },
    });
    let created = &records(&world, "task_created")[0];
    assert_eq!(created["by"], "tui");
    assert_eq!(
        created["data"],
        json!({ "goal": "Do a", "deliverables": [], "labels": [], "priority": 2, "type": null, "parent": null,
                "dependencies": [], "state": "ready" })
    );
    assert_eq!(
        records(&world, "task_started")[0]["data"],
        json!({ "context": "see docs" })
    );
    let blocked = json!({ "reason": "no key", "requiredKnowledge": ["the API key"] });
    assert_eq!(records(&world, "task_blocked")[0]["data"], blocked);
    assert_eq!(
        records(&world, "task_updated")[0]["data"],
        json!({ "priority": 0, "labels": ["x"] })
    );
}

#[test]
fn a_hook_that_fails_leaves_one_error_and_the_others_answer() {
    let script = Script::new()
        .automation(
            "late",
            20,
            &[TaskDeleted],
            [prints(
                r#"[{"type":"create_task","payload":{"goal":"late"}}]"#,
            )],
        )
        .automation(
            "first",
            0,
            &[TaskDeleted],
            [prints(
                r#"{"actions":[{"type":"create_task","payload":{"goal":"first"}}]}"#,
            )],
        )
        .automation("fails", 10, &[TaskDeleted], [exits(3, "", "boom\n")])
        .automation("hangs", 11, &[TaskDeleted], [breaks()])
        .automation("talks", 12, &[TaskDeleted], [prints("done!")])
        .automation("silent", 13, &[TaskDeleted], [passes()])
        .automation("other", 14, &[TaskCreated], [prints("never asked")])
        .plan(|plan| plan.automation[6].spec.enabled = false);
    let mut world = begun(script);
    world.command(task("a", &[]));
    world.command(SessionCommand::Task {
        task: TaskCommand::Remove { id: "a".into() },
    });
    let started = |world: &World| {
        records(world, "hook_started")
            .iter()
            .map(|r| r["hook"].clone())
            .collect::<Vec<_>>()
    };
    while !world.jobs.is_empty() {
        assert_eq!(world.jobs.len(), 1, "one after another");
        assert_eq!(
            world.state.tasks.graph.len(),
            0,
            "actions wait for all hooks"
        );
        world.finish_hook(0);
    }
    assert_eq!(
        started(&world),
        ["first", "fails", "hangs", "talks", "silent", "late"]
    );
    let goals: Vec<&str> = world
        .state
        .tasks
        .graph
        .tasks()
        .into_iter()
        .map(|task| task.goal.as_str())
        .collect();
    assert_eq!(goals, ["first", "late"]);
    let errors = records(&world, "hook_error");
    let said: Vec<_> = errors
        .iter()
        .map(|e| (e["data"]["hookName"].as_str(), e["data"]["error"].as_str()))
        .collect();
    let no_list = "its answer is not a JSON list of actions: [{\"type\": …, \"payload\": …}] or {\"actions\": […]}";
    assert_eq!(
        said,
        [
            (Some("fails"), Some("exit 3: boom")),
            (Some("hangs"), Some("timed out")),
            (Some("talks"), Some(no_list))
        ]
    );
    assert_eq!(errors[0]["task"], "a");
    assert_eq!(errors[0]["data"]["originalEvent"]["type"], "task_deleted");
    assert_eq!(errors[0]["data"]["originalEvent"]["nodeId"], "a");
}

#[test]
fn an_action_that_fails_leaves_one_error_and_the_rest_is_done() {
    let answer = r#"[
        {"type":"create_task","payload":{"goal":"one","priority":9}},
        {"type":"dance"},
        {"type":"update_task","payload":{"taskId":"a","action":"fly"}},
        {"type":"update_task","payload":{"taskId":"missing-task","action":"start"}},
        {"type":"log","payload":{}},
        {"type":"log","payload":{"type":"task_completed","nodeId":"a","data":{}}},
        {"type":"execute_workflow","payload":{"workflowId":"none"}},
        {"type":"update_task","payload":{"taskId":"a","action":"start"}},
        {"type":"update_task","payload":{"taskId":"a","action":"block","payload":{"reason":"r","requiredKnowledge":"k"}}},
        {"type":"update_task","payload":{"taskId":"a","action":"add_labels","payload":{"labels":["x"]}}},
        {"type":"update_task","payload":{"taskId":"a","action":"update","payload":{"goal":"new"}}},
        {"type":"log","payload":{"type":"agent_metrics","nodeId":"a","data":{"mine":1}}},
        {"type":"update_task","payload":{"taskId":"a","action":"complete","payload":{"result":"ok"}}}
    ]"#;
    let mut world =
        begun(Script::new().automation("act", 1, &[TaskCreated], [prints(answer), passes()]));
    world.command(task("a", &[]));
    world.finish_hook(0);
    let errors = records(&world, "action_error");
    assert_eq!(errors.len(), 7);
    assert!(errors.iter().all(|error| error["task"] == "system"));
    assert_eq!(
        errors[0]["data"],
        json!({
            "actionType": "create_task",
            "error": "a priority is a number from 0, the highest, to 4, not 9",
            "payload": { "goal": "one", "priority": 9 },
        })
    );
    assert_eq!(errors[1]["data"]["actionType"], "dance");
    let a = of(&world, "a");
    assert_eq!(
        (a.state, a.goal.as_str(), a.result.as_deref()),
        (TaskState::Completed, "new", Some("ok"))
    );
    assert_eq!(a.labels, ["x"]);
    assert_eq!(
        records(&world, "agent_metrics")[0]["data"],
        json!({ "mine": 1 })
    );
    assert_eq!(
        records(&world, "task_blocked")[0]["data"],
        json!({ "reason": "r", "requiredKnowledge": ["k"] })
    );
    let caused = world.events.iter().filter(|e| {
        e.task_news()
            .is_some_and(|news| news.origin.cause.is_some())
    });
    assert_eq!(caused.count(), 13, "each action leaves one record");
}

#[test]
fn a_hook_gets_the_event_and_the_graph() {
    let mut world = begun(Script::new().automation("look", 1, &[TaskCompleted], [passes()]));
    for command in [task("a", &[]), task("b", &["a"]), start("a"), done("a")] {
        world.command(command);
    }
    let facts = &world.jobs[0].facts;
    let event = facts.event.as_ref().expect("an event");
    assert_eq!(
        (&event["type"], &event["nodeId"], &event["data"]["content"]),
        (&json!("task_completed"), &json!("a"), &json!("Do a"))
    );
    assert_eq!(event["metadata"], json!({ "triggeredBy": "tui" }));
    let graph = facts.graph.as_ref().expect("a graph");
    assert_eq!(
        graph["edges"],
        json!([{ "fromId": "b", "toId": "a", "type": "depends_on" }])
    );
    assert_eq!(
        (&graph["tasks"][0]["state"], &graph["tasks"][1]["state"]),
        (&json!("completed"), &json!("created"))
    );
    assert_eq!(
        facts.task.as_ref().map(|task| task.content.as_str()),
        Some("Do a")
    );
}

#[test]
fn a_chain_of_events_ends_after_eight() {
    let again = r#"[{"type":"create_task","payload":{"goal":"again"}}]"#;
    let mut world = begun(Script::new().automation("echo", 1, &[TaskCreated], [prints(again)]));
    world.command(task("a", &[]));
    while !world.jobs.is_empty() {
        world.finish_hook(0);
    }
    // Hooks get the first event and eight below it; not the ninth.
    assert_eq!(records(&world, "hook_started").len(), 9);
    assert_eq!(world.state.tasks.graph.len(), 10);
    let [warning] = &records(&world, "warning")[..] else {
        panic!("one warning")
    };
    assert!(
        warning["text"]
            .as_str()
            .expect("text")
            .starts_with("creel stops automation here: 8 events")
    );
    assert!(!world.state.beside().is_busy_beside());
}

#[test]
fn what_follows_from_one_change_ends_however_much_each_hook_wants() {
    let ten: &'static str = format!(
        "[{}]",
        [r#"{"type":"create_task","payload":{"goal":"again"}}"#; 10].join(",")
    )
    .leak();
    let mut world = begun(Script::new().automation("flood", 1, &[TaskCreated], [prints(ten)]));
    world.command(task("a", &[]));
    while !world.jobs.is_empty() {
        world.finish_hook(0);
    }
    assert_eq!(
        (
            records(&world, "hook_started").len(),
            world.state.tasks.graph.len()
        ),
        (100, 1_001)
    );
    let [warning] = &records(&world, "warning")[..] else {
        panic!("one warning")
    };
    let text = warning["text"].as_str().expect("text");
    assert!(
        text.contains("1000 actions followed from one change"),
        "{text}"
    );
    assert!(!world.state.beside().is_busy_beside());
    world.command(task("b", &[]));
    world.finish_hook(0);
    assert_eq!(
        world.state.tasks.graph.len(),
        1_012,
        "the next change of yours has its own hooks again"
    );
}

#[test]
fn what_hooks_cause_does_not_outlive_the_budget() {
    let again = r#"[{"type":"create_task","payload":{"goal":"again"}}]"#;
    let script = Script::new().automation("echo", 1, &[TaskCreated], [prints(again)]);
    let mut world = begun(script.plan(|plan| plan.budget.time = Some(TimeSpan(2_000))));
    world.command(task("a", &[]));
    world.now = UnixTime(3_000);
    while !world.jobs.is_empty() {
        world.finish_hook(0);
    }
    assert_eq!(
        (
            records(&world, "hook_started").len(),
            world.state.tasks.graph.len()
        ),
        (1, 2)
    );
}

#[test]
fn the_session_does_not_end_while_a_task_event_is_handled() {
    let make = r#"[{"type":"create_task","payload":{"goal":"late"}}]"#;
    let script = Script::new().automation("slow", 1, &[TaskCompleted], [prints(make)]);
    let mut world = begun(script);
    world.command(completes("T1", "parser"));
    world.finish_turn();
    assert_eq!((world.jobs.len(), world.state.phase.outcome()), (1, None));
    world.finish_hook(0);
    assert!(world.state.phase.outcome().is_some());
    assert_eq!(of(&world, "task_1").goal, "late");
}

#[test]
fn a_pause_and_a_gate_do_not_stop_automation() {
    let mut world = begun(Script::new().builtins().attended(&[]));
    world.command(SessionCommand::Pause);
    world.command(add(research("a")));
    world.command(done("a"));
    assert_eq!(world.state.tasks.graph.len(), 2);
}

#[test]
fn an_interrupt_ends_commands_and_still_runs_built_in_hooks() {
    let script = Script::new()
        .builtins()
        .automation("slow", 0, &[TaskCompleted], [passes()]);
    let mut world = begun(script);
    for command in [task("a", &[]), task("b", &["a"]), done("a")] {
        world.command(command);
    }
    world.command(SessionCommand::Stop {
        how: creel::engine::event::StopTiming::Now,
    });
    assert_eq!(world.cancelled, [world.jobs[0].run]);
    let world = world.run();
    assert_eq!(state(&world, "b"), TaskState::Ready);
    let ends: Vec<_> = world
        .events
        .iter()
        .filter_map(|e| {
            if let Event::Hook(HookEvent::Finished(done)) = e {
                Some(&done.end)
            } else {
                None
            }
        })
        .collect();
    assert_eq!(ends, [&RunEnd::Cut]);
    assert_eq!(records(&world, "hook_error").len(), 1);
}

#[test]
fn a_hook_can_be_switched_off_in_the_session() {
    let mut world = begun(Script::new().builtins());
    world.command(SessionCommand::DisableHook {
        point: None,
        hook: "auto-create-review-task".into(),
    });
    world.command(add(research("a")));
    world.command(done("a"));
    assert_eq!(world.state.tasks.graph.len(), 1);
    world.command(SessionCommand::RunHook {
        point: None,
        hook: "auto-create-review-task".into(),
    });
    assert_eq!(
        world.refused,
        [Refusal::NotRunByHand {
            hook: "auto-create-review-task".into(),
            why: ByHandObstacle::AnswersTaskEvents,
        }]
    );
}

#[test]
fn a_completion_by_another_program_fires_hooks_and_adds_no_task() {
    let script = Script::new()
        .builtins()
        .hook(
            creel::engine::hooks::point::HookPoint::OnTaskComplete,
            "validate",
            [passes()],
        )
        .automation("look", 1, &[TaskCompleted], [passes()]);
    let mut world = begun(script);
    world.command(completes("T1", "parser"));
    world.command(completes("T1", "parser"));
    assert_eq!(refused(&world), ["task T1 is already completed"]);
    assert_eq!(records(&world, "hook_started").len(), 2);
    assert!(world.state.tasks.graph.is_empty());
    world.command(task("T1", &[]));
    assert_eq!(
        refused(&world).last().map(String::as_str),
        Some("a task T1 was completed before")
    );
}

#[test]
fn a_generated_id_is_not_one_of_another_programs_task() {
    let mut world = begun(Script::new());
    world.command(completes("task_1", "parser"));
    world.command(add(NewTask {
        goal: "Lex".into(),
        ..NewTask::default()
    }));
    assert_eq!(world.refused, []);
    assert_eq!(of(&world, "task_2").goal, "Lex");
}

#[test]
fn records_of_an_earlier_version_still_load() {
    let line = r#"{"kind":"task_completed","task":"T1","data":{"content":"parser"}}"#;
    let event = Event::read("task_completed", line).expect("a record");
    let mut world = begun(Script::new());
    world.state.apply(UnixTime(0), &event);
    assert!(world.state.side.completed.contains("T1"));
    let line = r#"{"kind":"hook_error","task":"T1","data":{"hookName":"h","error":"e"}}"#;
    assert!(matches!(
        Event::read("hook_error", line),
        Ok(Event::Automation(AutomationEvent::HookError {
            event: None,
            ..
        }))
    ));
}

#[test]
fn a_task_record_survives_a_round_trip() {
    let kinds = [
        TaskCreated,
        TaskEventKind::TaskStarted,
        TaskCompleted,
        TaskEventKind::TaskBlocked,
        TaskDeleted,
    ];
    let kinds = [
        &kinds[..],
        &[
            TaskEventKind::DependencyAdded,
            TaskEventKind::DependencyRemoved,
            DependencySatisfied,
        ],
    ]
    .concat();
    let mut world = begun(Script::new().builtins());
    let block = TaskCommand::Block {
        id: "a".into(),
        reason: "r".into(),
        required_knowledge: vec!["k".into()],
    };
    let undepend = TaskCommand::Undepend {
        id: "c".into(),
        on: "a".into(),
    };
    let remove = TaskCommand::Remove { id: "c".into() };
    let commands = [
        add(research("a")),
        task("b", &["a"]),
        task("c", &[]),
        depend("c", "a"),
        SessionCommand::Task { task: undepend },
        start("a"),
        SessionCommand::Task { task: block },
        done("a"),
        SessionCommand::Task { task: remove },
    ];
    for command in commands {
        world.input(creel::engine::input::Input::Command {
            by: ActorKind::Cli.into(),
            command,
        });
    }
    for event in &world.events[1..] {
        assert_eq!(read_again(event), *event);
    }
    for kind in kinds {
        assert_ne!(records(&world, kind.name()).len(), 0, "{}", kind.name());
    }
}

#[test]
fn a_task_that_another_session_takes_over_stays_blocked_with_its_reason() {
    let mut first = begun(Script::new().builtins());
    let commands = [
        task("a", &[]),
        task("b", &["a"]),
        task("c", &[]),
        task("d", &["b"]),
        block("b", "the format is unclear"),
        block("c", "no key"),
        start("a"),
    ];
    for command in commands {
        first.command(command);
    }
    let mut second = begun(Script::new().builtins());
    for event in inherit(&first.state.tasks.graph).events {
        second.state.apply(UnixTime(0), &event);
    }
    second.settle();
    let facts = |world: &World| {
        let task = |id| {
            let Task {
                state,
                reason,
                required_knowledge,
                ..
            } = of(world, id);
            format!("{id} {} {reason:?} {required_knowledge:?}", state.name())
        };
        ["a", "b", "c", "d"].map(task).join("\n")
    };
    expect_test::expect![[r#"
        a ready None []
        b blocked Some("the format is unclear") ["the format"]
        c blocked Some("no key") ["the format"]
        d created None []"#]]
    .assert_eq(&facts(&second));
    second.command(done("a"));
    second.settle();
    assert_eq!(
        state(&second, "b"),
        TaskState::Blocked,
        "only a person knows whether the reason is gone"
    );
    second.command(start("b"));
    assert_eq!(
        (state(&second, "b"), of(&second, "b").reason.as_deref()),
        (TaskState::Active, None)
    );
}

#[test]
fn a_description_is_no_level_of_its_own_in_records_and_commands() {
    let created = r#"{"goal":"g","deliverables":["d"],"labels":["l"],"priority":1,"type":"bug","parent":null,"dependencies":[],"state":"ready"}"#;
    let read: record::TaskCreated = serde_json::from_str(created).expect("a record");
    assert_eq!(serde_json::to_string(&read).expect("JSON"), created);
    let short = r#"{"goal":"g","state":"ready"}"#;
    let read: record::TaskCreated = serde_json::from_str(short).expect("an older record");
    assert_eq!(read.description.priority, 2);
    let read: record::TaskUpdated = serde_json::from_str(short).expect("a record");
    assert_eq!(serde_json::to_string(&read).expect("JSON"), short);
    let command = r#"{"goal":"g","priority":null,"parentId":"p","addLabels":["x"]}"#;
    let expected = TaskChanges {
        description: TaskDescriptionChanges {
            goal: Some("g".into()),
            parent: Some("p".into()),
            ..TaskDescriptionChanges::default()
        },
        add_labels: vec!["x".into()],
        ..TaskChanges::default()
    };
    let read: TaskChanges = serde_json::from_str(command).expect("a command");
    assert_eq!(read, expected);
}
