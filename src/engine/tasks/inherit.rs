//! What a session takes over from another one: the tasks that are open there.
//!
//! # Invariants
//! - A task is recorded after those that it waits for, so that no prefix of the journal holds an edge that leads nowhere.

use std::collections::BTreeSet;

use super::{
    graph::TaskGraph,
    record::{ChangeOrigin, TaskCreated, TaskRecord},
    task::{Task, TaskState},
};
use crate::engine::{
    EngineOutput,
    event::{ActorKind, Event, TaskEvent},
};

/// The open tasks of a graph as new ones, under their names. Nobody works on them yet, and nobody is blocked.
pub fn inherit(graph: &TaskGraph) -> EngineOutput {
    let events = in_order(graph).into_iter().map(|task| created(graph, task)).collect();
    EngineOutput { events, ..EngineOutput::default() }
}

/// The open tasks: those that others wait for come first, and otherwise those that were added first.
fn in_order(graph: &TaskGraph) -> Vec<&Task> {
    let mut ordered = Vec::new();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut next: Vec<(&Task, GraphVisit)> = open(graph).rev().map(|task| (task, GraphVisit::Before)).collect();
    // With a list of its own instead of recursion: a chain of tasks may be longer than a stack is deep.
    while let Some((task, visit)) = next.pop() {
        match visit {
            GraphVisit::Before if seen.insert(&task.id) => {
                next.push((task, GraphVisit::After));
                next.extend(waited_for(graph, task).map(|on| (on, GraphVisit::Before)));
            }
            GraphVisit::Before => {}
            GraphVisit::After => ordered.push(task),
        }
    }
    ordered
}

/// Whether what a task waits for has had its turn.
enum GraphVisit {
    Before,
    After,
}

fn open(graph: &TaskGraph) -> impl DoubleEndedIterator<Item = &Task> {
    graph.tasks().into_iter().filter(|task| task.is_open())
}

/// The open tasks among those that a task depends on.
fn waited_for<'a>(graph: &'a TaskGraph, task: &'a Task) -> impl Iterator<Item = &'a Task> {
    task.dependencies.iter().filter_map(|on| graph.get(on)).filter(|on| on.is_open())
}

fn created(graph: &TaskGraph, task: &Task) -> Event {
    let dependencies: Vec<String> = waited_for(graph, task).map(|on| on.id.clone()).collect();
    let is_open = |id: &String| graph.get(id).is_some_and(Task::is_open);
    let data = TaskCreated {
        goal: task.goal.clone(),
        deliverables: task.deliverables.clone(),
        labels: task.labels.clone(),
        priority: task.priority,
        kind: task.kind.clone(),
        queue: task.queue.clone(),
        // It may be recorded later: a task often waits for those that came from it.
        parent: task.parent.clone().filter(is_open),
        state: if dependencies.is_empty() { TaskState::Ready } else { TaskState::Created },
        dependencies,
    };
    Event::Task(TaskEvent::Created(Box::new(TaskRecord {
        task: task.id.clone(),
        data,
        origin: ChangeOrigin::by(ActorKind::Cli.into()),
    })))
}
