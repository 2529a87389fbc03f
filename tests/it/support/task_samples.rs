//! Sessions with tasks in all states.

use creel::{
    engine::{
        input::SessionCommand,
        tasks::command::{TaskCommand, TaskCompletion},
    },
    tui::task_board::form,
};

use super::{samples, world::World};

/// Adds a task, in the form that a user writes.
pub fn add(world: &mut World, text: &str) {
    tell(
        world,
        TaskCommand::Add(form::read(text).expect("it can be understood")),
    );
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
    assert_eq!(world.refused, Vec::<String>::new());
}

/// A plan half done: the parser waits for its own children, and others wait for the parser.
pub fn planned() -> World {
    let mut world = samples::first_turn();
    add(
        &mut world,
        "Rewrite the parser\nid: parser\npriority: 1\ntype: feature\nlabels: core, agent\n\
         deliverable: src/parser.rs without the old recursion\ndeliverable: tests for empty and nested lists",
    );
    add(&mut world, "Write the lexer\nparent: parser\nlabels: core");
    add(
        &mut world,
        "Read nested lists\nparent: parser\ndepends: task_1",
    );
    add(&mut world, "Limit the depth\nparent: parser\npriority: 1");
    for child in ["task_1", "task_2", "task_3"] {
        depend(&mut world, "parser", child);
    }
    add(
        &mut world,
        "Tell the users what is different\npriority: 3\nlabels: docs\ndepends: parser",
    );
    add(
        &mut world,
        "Measure 1 MB of brackets\npriority: 0\nlabels: bench",
    );
    add(
        &mut world,
        "Publish 日本語 examples\npriority: 4\ndepends: task_4, task_5",
    );
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
