//! The invariants of tasks and automation, over random graphs, failing hooks, and kills at any
//! record.

use std::collections::{BTreeMap, BTreeSet};

use creel::engine::{
    event::{AutomationEvent, Event},
    input::SessionCommand,
    tasks::{
        command::{NewTask, TaskChanges, TaskCommand, TaskCompletion},
        graph::{TaskDescriptionChanges, TaskGraph, TaskState},
        record::{ActionRef, TaskEventKind, TaskRecordData},
    },
};
use proptest::prelude::*;

use crate::support::world::*;

/// Answers of hooks: some do something, some something impossible, some nothing.
const ANSWERS: [&str; 6] = [
    r#"[{"type":"create_task","payload":{"goal":"found","labels":["agent"]}}]"#,
    r#"[{"type":"update_task","payload":{"taskId":"task_1","action":"start"}},{"type":"log","payload":{}}]"#,
    r#"{"actions":[{"type":"update_task","payload":{"taskId":"task_2","action":"add_dependency","payload":{"dependsOn":"task_1"}}}]}"#,
    r#"[{"type":"update_task","payload":{"taskId":"task_3","action":"complete","payload":{"result":"by itself"}}}]"#,
    r#"[{"type":"dance"}]"#,
    "",
];

fn an_id() -> impl Strategy<Value = String> {
    (1..7u8).prop_map(|n| format!("task_{n}"))
}

fn a_task() -> impl Strategy<Value = NewTask> {
    let labels = prop::sample::subsequence(vec!["agent", "review", "bug"], 0..3);
    let dependencies = prop::collection::vec(an_id(), 0..3);
    (labels, dependencies, 0..6u8, prop::option::of(an_id())).prop_map(
        |(labels, dependencies, priority, parent)| NewTask {
            goal: "Fix it".into(),
            labels: labels.into_iter().map(str::to_owned).collect(),
            dependencies,
            priority: Some(priority),
            parent,
            ..NewTask::default()
        },
    )
}

fn a_command() -> impl Strategy<Value = SessionCommand> {
    let complete = |id| {
        TaskCommand::Complete(TaskCompletion {
            id,
            ..TaskCompletion::default()
        })
    };
    let block = |id| TaskCommand::Block {
        id,
        reason: "stuck".into(),
        required_knowledge: Vec::new(),
    };
    let update = |(id, parent)| TaskCommand::Update {
        id,
        changes: TaskChanges {
            description: TaskDescriptionChanges {
                parent: Some(parent),
                ..TaskDescriptionChanges::default()
            },
            ..TaskChanges::default()
        },
    };
    prop_oneof![
        5 => a_task().prop_map(TaskCommand::Add),
        3 => an_id().prop_map(|id| TaskCommand::Start { id, context: None }),
        4 => an_id().prop_map(complete),
        1 => an_id().prop_map(block),
        1 => an_id().prop_map(|id| TaskCommand::MakeReady { id }),
        1 => (an_id(), an_id()).prop_map(update),
        4 => (an_id(), an_id()).prop_map(|(id, on)| TaskCommand::Depend { id, on }),
        2 => (an_id(), an_id()).prop_map(|(id, on)| TaskCommand::Undepend { id, on }),
        1 => an_id().prop_map(|id| TaskCommand::Remove { id }),
    ]
    .prop_map(|task| SessionCommand::Task { task })
}

fn a_hook() -> impl Strategy<Value = (i64, Vec<TaskEventKind>, Vec<Ran>)> {
    let events = prop::sample::subsequence(TaskEventKind::ALL.to_vec(), 1..3);
    // A hook also gets the events of what it creates: it must stop at some point, or there would be
    // very many tasks.
    let answers = prop::collection::vec(
        prop::sample::select(ANSWERS.to_vec()).prop_map(prints),
        0..3,
    );
    (0..100i64, events, answers).prop_map(|(priority, events, mut answers)| {
        answers.push(passes());
        (priority, events, answers)
    })
}

fn a_broken_hook() -> impl Strategy<Value = (i64, Vec<TaskEventKind>, Vec<Ran>)> {
    let broken = prop::sample::select(vec![
        breaks(),
        exits(1, ANSWERS[0], "no"),
        exits(127, "", ""),
        prints("not JSON"),
    ]);
    (0..100i64, broken)
        .prop_map(|(priority, broken)| (priority, TaskEventKind::ALL.to_vec(), vec![broken]))
}

type Hooks = Vec<(i64, Vec<TaskEventKind>, Vec<Ran>)>;

fn a_script(hooks: Hooks, broken: Hooks) -> Script {
    let mut script = Script::new()
        .builtins()
        .agent([Answer::Says("Working."), DONE]);
    for (n, (priority, events, answers)) in hooks.into_iter().enumerate() {
        script = script.automation(&format!("hook {n}"), priority, &events, answers);
    }
    for (n, (priority, events, answers)) in broken.into_iter().enumerate() {
        script = script.automation(&format!("broken {n}"), priority, &events, answers);
    }
    script
}

/// How many commands were accepted: each leaves one record that no hook caused and that follows
/// from no other record, as the edges of a new task and the end of waiting do.
fn taken(events: &[Event]) -> usize {
    let mut implied = BTreeSet::new();
    let commands = events
        .iter()
        .filter_map(Event::task_news)
        .filter(|news| match news.what {
            TaskRecordData::Created(created) => {
                implied.extend(
                    created
                        .dependencies
                        .iter()
                        .map(|on| (news.task.to_owned(), on.clone())),
                );
                news.origin.cause.is_none()
            }
            TaskRecordData::DependencyAdded(edge) => {
                !implied.remove(&(edge.from_id.clone(), edge.to_id.clone()))
                    && news.origin.cause.is_none()
            }
            TaskRecordData::DependencySatisfied(_) => false,
            _ => news.origin.cause.is_none(),
        });
    commands.count()
}

/// Sends the commands one by one, with everything that follows from each, and then lets the session
/// end.
fn live(mut world: World, commands: &[SessionCommand]) -> World {
    world.settle();
    while !world.jobs.is_empty() {
        world.finish_hook(0);
    }
    for command in commands {
        world.command(command.clone());
        while !world.jobs.is_empty() {
            world.finish_hook(0);
        }
    }
    world.run()
}

fn resumed(script: &Script, events: &[Event]) -> World {
    let mut world = World::from_events(script.clone(), events);
    if world.state.phase.outcome().is_none() {
        let presence = world.script.presence;
        world.input(creel::engine::input::Input::Resume {
            presence,
            max_iterations: None,
            checkpoint: None,
            answer: None,
        });
    }
    world
}

fn no_ready_task_waits(graph: &TaskGraph) {
    for task in graph.tasks() {
        let open = graph.open_among(&task.dependencies);
        assert_eq!(task.open_dependencies(), open, "{} miscounts", task.id);
        assert!(
            task.state != TaskState::Ready || open == 0,
            "{} is ready and waits",
            task.id
        );
        for on in &task.dependencies {
            assert!(
                graph.get(on).is_some(),
                "{} depends on {on}, which is not there",
                task.id
            );
            assert!(
                graph
                    .dependents(on)
                    .iter()
                    .any(|waiting| waiting.id == task.id),
                "{on} forgets {}",
                task.id
            );
            assert_eq!(graph.path(on, &task.id), None, "a cycle");
        }
    }
}

/// Every event with a hook is handled once.
fn no_event_is_lost(world: &World) {
    let heard: BTreeSet<&str> = world
        .state
        .plan()
        .automation
        .iter()
        .filter(|hook| hook.spec.enabled)
        .flat_map(|hook| {
            let built_in = matches!(
                hook.spec.action,
                creel::engine::policy::HookAction::Builtin(_)
            );
            hook.events
                .iter()
                .filter(move |kind| !built_in || **kind == TaskEventKind::TaskCompleted)
                .map(|kind| kind.name())
        })
        .collect();
    let kinds = world
        .events
        .iter()
        .filter_map(|event| event.task_news()?.what.kind());
    let raised = kinds.filter(|kind| heard.contains(kind.name())).count();
    let due = world
        .events
        .iter()
        .filter(|event| matches!(event, Event::Automation(AutomationEvent::Due { .. })))
        .count();
    assert_eq!(raised, due);
    assert!(!world.state.beside().is_busy_beside());
}

/// Each action that hooks decided is done or failed, once.
fn every_action_leaves_one_record(world: &World) {
    let mut wanted: BTreeMap<(u64, String), usize> = BTreeMap::new();
    let mut left: BTreeMap<(u64, String), usize> = BTreeMap::new();
    let key = |cause: &ActionRef| (cause.event.0, cause.hook.clone());
    let mut seen = BTreeSet::new();
    for event in &world.events {
        if let Event::Automation(AutomationEvent::Decided {
            event,
            hook,
            actions,
        }) = event
        {
            *wanted.entry((event.0, hook.clone())).or_default() += actions.len();
        }
        if let Some(cause) = event.task_news().and_then(|news| news.origin.cause.clone()) {
            assert!(
                seen.insert((cause.event, cause.action)),
                "{cause:?} was carried out twice"
            );
            *left.entry(key(&cause)).or_default() += 1;
        }
    }
    wanted.retain(|_, count| *count > 0);
    assert_eq!(wanted, left);
}

/// Each hook answers once per event, successfully or not.
fn every_hook_answers_once(world: &World) {
    let mut asked = Vec::new();
    let mut answered = Vec::new();
    for event in &world.events {
        match event {
            Event::Automation(AutomationEvent::Due { event, hooks, .. }) => {
                asked.extend(hooks.iter().map(|hook| (*event, hook.clone())));
            }
            Event::Automation(AutomationEvent::Decided { event, hook, .. }) => {
                answered.push((*event, hook.clone()));
            }
            Event::Automation(AutomationEvent::HookError {
                event: Some(event),
                data,
                ..
            }) => {
                answered.push((*event, data.hook_name.clone()));
            }
            _ => {}
        }
    }
    assert_eq!(asked, answered);
}

fn holds(world: &World) {
    assert!(world.state.phase.outcome().is_some());
    no_ready_task_waits(&world.state.tasks.graph);
    no_event_is_lost(world);
    every_action_leaves_one_record(world);
    every_hook_answers_once(world);
}

proptest! {
    #![proptest_config(random_cases(400))]

    #[test]
    fn tasks_keep_their_invariants_at_every_record(
        hooks in prop::collection::vec(a_hook(), 0..3),
        commands in prop::collection::vec(a_command(), 0..25),
    ) {
        let world = live(World::begin(a_script(hooks, Vec::new())), &commands);
        holds(&world);
        for kept in 1..world.events.len() {
            no_ready_task_waits(&World::from_events(world.script.clone(), &world.events[..kept]).state.tasks.graph);
        }
    }

    #[test]
    fn failing_hooks_do_not_affect_the_others(
        hooks in prop::collection::vec(a_hook(), 0..3),
        broken in prop::collection::vec(a_broken_hook(), 1..3),
        commands in prop::collection::vec(a_command(), 0..12),
    ) {
        let without = live(World::begin(a_script(hooks.clone(), Vec::new())), &commands);
        let with = live(World::begin(a_script(hooks, broken)), &commands);
        holds(&with);
        prop_assert_eq!(&with.state.tasks.graph, &without.state.tasks.graph);
    }
}

proptest! {
    #![proptest_config(random_cases(40))]

    #[test]
    fn a_session_killed_at_any_record_reaches_the_same_graph_and_does_nothing_twice(
        hooks in prop::collection::vec(a_hook(), 0..3),
        broken in prop::collection::vec(a_broken_hook(), 0..2),
        commands in prop::collection::vec(a_command(), 0..8),
    ) {
        let script = a_script(hooks, broken);
        let uncut = live(World::begin(script.clone()), &commands);
        // Without refused commands, the number of accepted ones says which are left.
        let mut accepted = Vec::new();
        let mut trial = World::begin(script.clone());
        trial.settle();
        for command in &commands {
            let refused = trial.refused.len();
            trial.command(command.clone());
            while !trial.jobs.is_empty() {
                trial.finish_hook(0);
            }
            if trial.refused.len() == refused {
                accepted.push(command.clone());
            }
        }
        for kept in 1..uncut.events.len() {
            let events = &uncut.events[..kept];
            let world = resumed(&script, events);
            let world = if world.state.phase.outcome().is_none() { live(world, &accepted[taken(events)..]) } else { world };
            holds(&world);
            prop_assert_eq!(&world.state.tasks.graph, &uncut.state.tasks.graph, "killed after {}: {:?}", kept, events.last());
        }
    }
}
