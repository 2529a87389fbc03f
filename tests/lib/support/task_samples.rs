//! Sessions with tasks in all states.

use creel::engine::{
    input::SessionCommand,
    tasks::command::{NewTask, TaskCommand, TaskCompletion},
};

use super::{samples, world::World};

pub fn add(world: &mut World, goal: &str, change: impl FnOnce(&mut NewTask)) {
    let mut task = NewTask {
        goal: goal.into(),
        ..NewTask::default()
    };
    change(&mut task);
    tell(world, TaskCommand::Add(task));
}

pub fn start(world: &mut World, id: &str) {
    tell(
        world,
        TaskCommand::Start {
            id: id.into(),
            context: None,
        },
    );
}

pub fn depend(world: &mut World, id: &str, on: &str) {
    tell(
        world,
        TaskCommand::Depend {
            id: id.into(),
            on: on.into(),
        },
    );
}

/// Sends a command that must not be refused.
pub fn tell(world: &mut World, command: TaskCommand) {
    world.command(SessionCommand::Task { task: command });
    assert_eq!(world.refused, []);
}

/// A plan half done: the parser waits for its own children, and others wait for the parser.
pub fn planned() -> World {
    let mut world = samples::first_turn();
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    add(&mut world, "Rewrite the parser", |task| {
        task.id = Some("parser".into());
        task.priority = Some(1);
        task.kind = Some("feature".into());
        task.labels = texts(&["core", "agent"]);
        task.deliverables = texts(&[
            "src/parser.rs without the old recursion",
            "tests for empty and nested lists",
        ]);
    });
    add(&mut world, "Write the lexer", |task| {
        task.parent = Some("parser".into());
        task.labels = texts(&["core"]);
    });
    add(&mut world, "Read nested lists", |task| {
        task.parent = Some("parser".into());
        task.dependencies = texts(&["task_1"]);
    });
    add(&mut world, "Limit the depth", |task| {
        task.parent = Some("parser".into());
        task.priority = Some(1);
    });
    for child in ["task_1", "task_2", "task_3"] {
        depend(&mut world, "parser", child);
    }
    add(&mut world, "Tell the users what is different", |task| {
        task.priority = Some(3);
        task.labels = texts(&["docs"]);
        task.dependencies = texts(&["parser"]);
    });
    add(&mut world, "Measure 1 MB of brackets", |task| {
        task.priority = Some(0);
        task.labels = texts(&["bench"]);
    });
    add(&mut world, "Publish 日本語 examples", |task| {
        task.priority = Some(4);
        task.dependencies = texts(&["task_4", "task_5"]);
    });
    start(&mut world, "task_1");
    tell(
        &mut world,
        TaskCommand::Complete(TaskCompletion {
            id: "task_1".into(),
            content: None,
            result: Some("tokens with their places".into()),
            artifacts: vec!["src/lexer.rs".into()],
        }),
    );
    start(&mut world, "task_2");
    tell(
        &mut world,
        TaskCommand::Block {
            id: "task_3".into(),
            reason: "the spec does not limit the depth".into(),
            required_knowledge: vec!["the deepest list of a user".into()],
        },
    );
    world
}
