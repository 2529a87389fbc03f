//! Workflows as stories: steps in the background, their outputs, and kills at any record.

use creel::engine::{
    event::{Event, StopTiming, TaskEvent, WorkflowEvent},
    hooks::verdict::RunEnd,
    input::SessionCommand,
    policy::{
        HookAction, HookSpec, StepAction, StepCondition, StepTransition, Workflow, WorkflowStep,
    },
    tasks::{
        command::{NewTask, TaskCommand},
        graph::TaskState,
        record::TaskEventKind,
    },
};
use serde_json::{Value, json};

use crate::support::world::*;

fn step(name: &str, action: StepAction) -> WorkflowStep {
    WorkflowStep {
        name: name.into(),
        action,
        on_success: StepTransition::Following,
        on_failure: StepTransition::End,
    }
}

fn command(name: &str, command: &str) -> WorkflowStep {
    let spec = HookSpec {
        action: HookAction::Command(command.into()),
        ..hook_command(&format!("release/{name}"))
    };
    step(name, StepAction::Command(spec))
}

/// What `tests/lib/workflow_config.rs` says in a config.
pub(crate) fn release() -> Workflow {
    let build = "make {{task_id}} {{context}} {{context.why}} {{context.tags.1}} {{context.tags}} {{context.no.such}}";
    let note = json!({ "goal": "Note: {{steps.build.stdout}}", "labels": ["from {{session}}", "{{context.tags.0}}"] });
    let finish = json!({ "taskId": "{{task_id}}", "action": "add_labels", "payload": { "labels": ["built"] } });
    let clean = StepCondition {
        value: "{{steps.lint.exit}} {{steps.note.task}}".into(),
        equals: Some("0 task_1".into()),
        contains: None,
    };
    let repair = json!({ "goal": "Repair: {{steps.build.stderr}}" });
    let parts = vec![
        command("lint", "lint {{steps.build.stdout}}"),
        step("note", StepAction::CreateTask(note)),
    ];
    let steps = vec![
        WorkflowStep {
            on_failure: StepTransition::Step("tell".into()),
            ..command("build", build)
        },
        step("checks", StepAction::Parallel(parts)),
        step("clean", StepAction::Condition(clean)),
        WorkflowStep {
            on_success: StepTransition::End,
            ..step("finish", StepAction::UpdateTask(finish))
        },
        step("tell", StepAction::CreateTask(repair)),
    ];
    Workflow {
        description: None,
        steps,
    }
}

const BEGIN: &str = r#"[{"type":"execute_workflow","payload":{"workflowId":"release","context":{"why":"it's \"new\"","tags":["a","b"]}}}]"#;

fn script(build: Ran) -> Script {
    let mut script =
        Script::new().automation("go", 1, &[TaskEventKind::TaskStarted], [prints(BEGIN)]);
    script.plan.workflows = [("release".into(), release())].into();
    script.hooks.insert("release/build".into(), vec![build]);
    script.hooks.insert("release/lint".into(), vec![passes()]);
    script
}

fn begun(build: Ran) -> World {
    let mut world = World::begin(script(build));
    begin(&mut world);
    world
}

/// Starts a task, and so the workflow.
fn begin(world: &mut World) {
    world.settle();
    world.command(SessionCommand::Task {
        task: TaskCommand::Add(NewTask {
            id: Some("a".into()),
            goal: "Do a".into(),
            ..NewTask::default()
        }),
    });
    world.command(SessionCommand::Task {
        task: TaskCommand::Start {
            id: "a".into(),
            context: None,
        },
    });
}

fn finish_all(world: &mut World) {
    while !world.jobs.is_empty() {
        world.finish_hook(0);
    }
}

fn steps(world: &World) -> Vec<String> {
    let told = world.events.iter().filter_map(|event| match event {
        Event::Workflow(WorkflowEvent::Started(began)) => Some(format!("{} began", began.workflow)),
        Event::Workflow(WorkflowEvent::StepEnded(ended)) if !ended.again => {
            Some(format!("{} {}", ended.step, ended.result.ok))
        }
        Event::Workflow(WorkflowEvent::Ended { outcome, .. }) => Some(format!("{outcome:?}")),
        other => other
            .task_news()?
            .origin
            .step
            .as_ref()
            .map(|at| format!("{} in the graph", at.step)),
    });
    told.collect()
}

fn goals(world: &World) -> Vec<&str> {
    world
        .state
        .tasks
        .graph
        .tasks()
        .into_iter()
        .map(|task| task.goal.as_str())
        .collect()
}

#[test]
fn an_empty_parallel_step_is_skipped() {
    let mut script = script(passes());
    let steps_of = &mut script
        .plan
        .workflows
        .get_mut("release")
        .expect("it is there")
        .steps;
    // No config allows that, but older journals can contain it.
    steps_of[0].action = StepAction::Parallel(Vec::new());
    steps_of[1].action = StepAction::Parallel(Vec::new());
    steps_of[2].action = StepAction::Noop;
    let mut world = World::begin(script);
    begin(&mut world);
    finish_all(&mut world);
    assert_eq!(
        steps(&world),
        ["release began", "clean true", "finish in the graph", "Done"]
    );
    assert!(world.state.tasks.flows.open.is_empty());
}

#[test]
fn steps_follow_each_other_and_pass_on_their_output() {
    let mut world = begun(prints("v1 $(touch pwned)\n"));
    finish_all(&mut world);
    let way = [
        "release began",
        "build true",
        "note in the graph",
        "lint true",
        "clean true",
        "finish in the graph",
        "Done",
    ];
    assert_eq!(steps(&world), way);
    assert_eq!(goals(&world), ["Do a", "Note: v1 $(touch pwned)"]);
    let graph = &world.state.tasks.graph;
    assert_eq!(graph.get("a").expect("a task").labels, ["built"]);
    assert_eq!(
        graph.get("task_1").expect("a task").labels,
        ["from story", "a"]
    );
    let record: Vec<Value> = world
        .events
        .iter()
        .map(|event| serde_json::to_value(event).expect("JSON"))
        .collect();
    let note = record
        .iter()
        .rfind(|record| record["kind"] == "task_created")
        .expect("a record");
    assert_eq!(note["step"], json!({ "flow": 1, "step": "note" }));
}

#[test]
fn a_failed_step_continues_with_its_failure_branch() {
    let mut world = begun(exits(2, "", "no rule\n"));
    finish_all(&mut world);
    assert_eq!(
        steps(&world),
        ["release began", "build false", "tell in the graph", "Done"]
    );
    assert_eq!(goals(&world), ["Do a", "Repair: no rule"]);
}

#[test]
fn a_failure_without_a_branch_fails_the_workflow() {
    let mut script = script(passes());
    script.hooks.insert("release/lint".into(), vec![breaks()]);
    let mut world = World::begin(script);
    world.settle();
    for command in [
        TaskCommand::Add(NewTask {
            id: Some("a".into()),
            goal: "Do a".into(),
            ..NewTask::default()
        }),
        TaskCommand::Start {
            id: "a".into(),
            context: None,
        },
    ] {
        world.command(SessionCommand::Task { task: command });
    }
    finish_all(&mut world);
    assert_eq!(
        steps(&world),
        [
            "release began",
            "build true",
            "note in the graph",
            "lint false",
            "Failed"
        ]
    );
}

#[test]
fn values_reach_commands_as_variables() {
    let mut world = begun(prints("it's `x`"));
    world.finish_hook(0);
    let build = &world.jobs[0];
    assert_eq!(build.hook.name, "release/build");
    let values: Vec<_> = build
        .facts
        .values
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let expected = [
        ("context", r#"{"why":"it's \"new\"","tags":["a","b"]}"#),
        ("context.why", r#"it's "new""#),
        ("context.tags.1", "b"),
        ("context.tags", r#"["a","b"]"#),
        ("context.no.such", ""),
    ];
    assert_eq!(values, expected);
    assert_eq!(
        build.facts.task.as_ref().map(|task| task.id.as_str()),
        Some("a")
    );
    world.finish_hook(0);
    assert_eq!(
        world.jobs[0].facts.values,
        [("steps.build.stdout".to_owned(), "it's `x`".to_owned())]
    );
}

#[test]
fn the_agent_continues_meanwhile_and_the_session_waits_for_the_steps() {
    let mut world = begun(prints("v1"));
    world.finish_hook(0);
    world.finish_turn();
    assert_eq!(
        (world.turn.is_none(), world.state.phase.outcome()),
        (true, None)
    );
    finish_all(&mut world);
    assert!(world.state.phase.outcome().is_some());
}

#[test]
fn an_interrupt_ends_running_steps_and_starts_none() {
    let mut world = begun(prints("v1"));
    world.finish_hook(0);
    let run = world.jobs[0].run;
    world.command(SessionCommand::Stop {
        how: StopTiming::Now,
    });
    assert_eq!(world.cancelled, [run]);
    let world = world.run();
    assert_eq!(steps(&world), ["release began", "build false", "Cut"]);
    assert_eq!(goals(&world), ["Do a"]);
}

#[test]
fn a_missing_workflow_is_a_failed_action() {
    let none = r#"[{"type":"execute_workflow","payload":{"workflowId":"none"}},{"type":"execute_workflow"}]"#;
    let mut script = script(passes());
    script.hooks.insert("go".into(), vec![prints(none)]);
    let mut world = World {
        script,
        ..begun(passes())
    };
    world.finish_hook(0);
    let errors = world.events.iter().filter_map(|e| {
        if let Event::Task(TaskEvent::ActionError(e)) = e {
            Some(&*e.data.error)
        } else {
            None
        }
    });
    assert_eq!(
        errors.collect::<Vec<_>>(),
        ["unknown workflow `none`", "`workflowId` is missing"]
    );
}

#[test]
fn every_step_is_done_once_wherever_the_session_is_killed() {
    for build in [prints("v1"), exits(2, "", "no rule")] {
        let mut uncut = begun(build.clone());
        finish_all(&mut uncut);
        let uncut = uncut.run();
        let first = uncut
            .events
            .iter()
            .position(|e| matches!(e, Event::Task(TaskEvent::Started(_))))
            .expect("it was started");
        for kept in first + 1..uncut.events.len() {
            let events = &uncut.events[..kept];
            let resumed = World::from_events(script(build.clone()), events).resume();
            let killed = format!("killed after {:?}", events.last());
            assert_eq!(
                resumed.state.tasks.graph, uncut.state.tasks.graph,
                "{killed}"
            );
            assert_eq!(sorted(steps(&resumed)), sorted(steps(&uncut)), "{killed}");
            assert_eq!(
                resumed.state.tasks.graph.get("a").expect("a task").state,
                TaskState::Active
            );
            let cut = |e: &&Event| matches!(e, Event::Workflow(WorkflowEvent::StepEnded(ended)) if ended.again && ended.result.end == Some(RunEnd::Cut));
            assert!(resumed.events.iter().filter(cut).count() <= 1, "{killed}");
        }
    }
}

fn sorted(mut steps: Vec<String>) -> Vec<String> {
    steps.sort();
    steps
}
