//! The details of a task as a text: for the viewer, the detail pane and copying.

use std::collections::BTreeSet;

use crate::engine::{
    tasks::graph::{Task, TaskGraph, TaskState},
    time::UnixTime,
};

/// The column where the values begin.
const COLUMN: usize = 14;

pub const fn sign(state: TaskState) -> &'static str {
    match state {
        TaskState::Created => "○",
        TaskState::Ready => "●",
        TaskState::Active => "▸",
        TaskState::Blocked => "!",
        TaskState::Completed => "✓",
    }
}

/// All that the graph knows of a task.
pub fn text(graph: &TaskGraph, task: &Task, now: UnixTime) -> String {
    let named = |tasks: Vec<&Task>| tasks.into_iter().map(in_a_line).collect();
    let dependencies = task
        .dependencies
        .iter()
        .filter_map(|id| graph.get(id))
        .collect();
    let parent = task.parent.iter().filter_map(|id| graph.get(id)).collect();
    let about = [
        (
            "state",
            vec![format!("{} {}", sign(task.state), task.state.name())],
        ),
        ("reason", task.reason.iter().cloned().collect()),
        ("needed knowledge", task.required_knowledge.clone()),
        (
            "priority",
            vec![format!(
                "{} (0 is the highest, 4 the lowest)",
                task.priority
            )],
        ),
        ("type", task.kind.iter().cloned().collect()),
        ("labels", joined(&task.labels)),
        ("queue", task.queue.iter().map(for_whom).collect()),
        ("deliverables", task.deliverables.clone()),
        ("depends on", named(dependencies)),
        ("needed by", named(graph.dependents(&task.id))),
        ("came from", named(parent)),
        ("led to", named(graph.children(&task.id))),
        ("result", task.result.iter().cloned().collect()),
        ("artifacts", task.artifacts.clone()),
        ("added", vec![moment(task.created, now)]),
        (
            "started",
            task.started.map(|at| moment(at, now)).into_iter().collect(),
        ),
        (
            "completed",
            task.completed
                .map(|at| moment(at, now))
                .into_iter()
                .collect(),
        ),
    ];
    let lines = about
        .iter()
        .map(|(what, texts)| paragraph(what, texts))
        .collect::<String>();
    format!("{}\n\n{lines}", task.goal)
}

/// Which agents can work on a queued task.
fn for_whom(agents: &BTreeSet<String>) -> String {
    if agents.is_empty() {
        return "for all agents".to_owned();
    }
    let names: Vec<&str> = agents.iter().map(String::as_str).collect();
    format!("for {}", names.join(", "))
}

/// A task by its state, id and goal.
fn in_a_line(task: &Task) -> String {
    format!(
        "{} {} {}",
        sign(task.state),
        task.id,
        task.goal.lines().next().unwrap_or("")
    )
}

fn joined(words: &[String]) -> Vec<String> {
    if words.is_empty() {
        Vec::new()
    } else {
        vec![words.join(", ")]
    }
}

/// A name with its values, one per line. Empty without values.
fn paragraph(what: &str, texts: &[String]) -> String {
    let lines = texts.iter().flat_map(|text| text.lines());
    let line =
        |(n, line): (usize, &str)| format!("{:COLUMN$}{line}\n", if n == 0 { what } else { "" });
    lines.enumerate().map(line).collect()
}

fn moment(at: UnixTime, now: UnixTime) -> String {
    let written = at.rfc3339();
    let (day, time) = written.split_once('T').unwrap_or((&written, ""));
    let time = time.split('.').next().unwrap_or(time);
    format!("{day} {time} UTC, {} ago", now.since(at))
}
