//! The open tasks that a session copies from another session.
//!
//! # Invariants
//! - A task is recorded after its dependencies, so that every edge in a prefix of the journal leads
//!   to an existing task.

use std::collections::BTreeSet;

use crate::engine::{
    event::{ActorKind, Event, TaskEvent},
    output::EngineOutput,
    tasks::{
        graph::TaskGraph,
        record::{ChangeOrigin, TaskBlocked, TaskCreated, TaskRecord},
        task::{Task, TaskState},
    },
};

/// Copies the open tasks of a graph under their ids. No copy is active. A blocked task stays
/// blocked, with its reason.
pub fn inherit(graph: &TaskGraph) -> EngineOutput {
    let of_task = |task| [Some(created(graph, task)), blocked(task)];
    let events = in_order(graph)
        .into_iter()
        .flat_map(of_task)
        .flatten()
        .collect();
    EngineOutput {
        events,
        ..EngineOutput::default()
    }
}

/// The open tasks, dependencies first, and otherwise in the order in which they were added.
fn in_order(graph: &TaskGraph) -> Vec<&Task> {
    let mut ordered = Vec::new();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut next: Vec<(&Task, GraphVisit)> = open(graph)
        .rev()
        .map(|task| (task, GraphVisit::Before))
        .collect();
    // An explicit stack instead of recursion: a chain of tasks can be longer than the call stack
    // allows.
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

/// Whether a task's dependencies have been visited.
enum GraphVisit {
    Before,
    After,
}

fn open(graph: &TaskGraph) -> impl DoubleEndedIterator<Item = &Task> {
    graph.tasks().into_iter().filter(|task| task.is_open())
}

/// The open dependencies of a task.
fn waited_for<'a>(graph: &'a TaskGraph, task: &'a Task) -> impl Iterator<Item = &'a Task> {
    task.dependencies
        .iter()
        .filter_map(|on| graph.get(on))
        .filter(|on| on.is_open())
}

fn created(graph: &TaskGraph, task: &Task) -> Event {
    let dependencies: Vec<String> = waited_for(graph, task).map(|on| on.id.clone()).collect();
    let is_open = |id: &String| graph.get(id).is_some_and(Task::is_open);
    let data = TaskCreated {
        description: task.description.clone(),
        queue: task.queue.clone(),
        // The parent may be recorded later: a task often waits for its own children.
        parent: task.parent.clone().filter(is_open),
        state: if dependencies.is_empty() {
            TaskState::Ready
        } else {
            TaskState::Created
        },
        dependencies,
    };
    Event::Task(TaskEvent::Created(Box::new(record(task, data))))
}

fn blocked(task: &Task) -> Option<Event> {
    if task.state != TaskState::Blocked {
        return None;
    }
    let reason = task.reason.clone().unwrap_or_default();
    let data = TaskBlocked {
        reason,
        required_knowledge: task.required_knowledge.clone(),
    };
    Some(Event::Task(TaskEvent::Blocked(record(task, data))))
}

fn record<D>(task: &Task, data: D) -> TaskRecord<D> {
    TaskRecord {
        task: task.id.clone(),
        data,
        origin: ChangeOrigin::by(ActorKind::Cli.into()),
    }
}
