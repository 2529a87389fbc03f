//! Arranges the tasks as a tree.
//!
//! Tasks are identified by their index among all tasks, oldest first.
//!
//! # Invariants
//! - Every shown task has exactly one row, however tasks depend on each other.
//! - The work grows with the number of tasks and edges, not with the length of their chains.

use std::{cmp::Reverse, collections::HashMap};

use crate::engine::tasks::task::Task;

/// Deeper tasks are not indented further.
const DEEPEST: usize = 8;

pub(super) struct TaskTreeRow {
    pub(super) task: usize,
    /// The tree lines before the task.
    pub(super) branch: String,
    /// The tree lines before its children's branches.
    trunk: String,
    depth: usize,
}

/// The rows of the shown tasks, from top to bottom.
pub(super) fn grow(tasks: &[&Task], shown: &[bool]) -> Vec<TaskTreeRow> {
    let mut above = above(tasks);
    let mut below = vec![Vec::new(); tasks.len()];
    let mut roots = Vec::new();
    for task in (0..tasks.len()).filter(|task| shown[*task]) {
        // A task under a hidden task moves up to the next visible one.
        match climb(&mut above, task, |up| shown[up]) {
            Some(up) => below[up].push(task),
            None => roots.push(task),
        }
    }
    let mut rows = Vec::new();
    let root = |task| TaskTreeRow {
        task,
        branch: String::new(),
        trunk: String::new(),
        depth: 0,
    };
    // An explicit stack instead of recursion: a chain of tasks can be longer than the call stack
    // allows.
    let mut next: Vec<TaskTreeRow> = roots.into_iter().rev().map(root).collect();
    while let Some(twig) = next.pop() {
        next.extend(grown(&twig, &below[twig.task]));
        rows.push(twig);
    }
    rows
}

/// The children of a row, last first.
fn grown(from: &TaskTreeRow, tasks: &[usize]) -> impl Iterator<Item = TaskTreeRow> {
    let TaskTreeRow { trunk, depth, .. } = from;
    tasks.iter().enumerate().rev().map(move |(n, task)| {
        let (sign, beside) = if n + 1 == tasks.len() {
            ("└─ ", "   ")
        } else {
            ("├─ ", "│  ")
        };
        let deeper = if *depth < DEEPEST {
            format!("{trunk}{beside}")
        } else {
            trunk.clone()
        };
        TaskTreeRow {
            task: *task,
            branch: format!("{trunk}{sign}"),
            trunk: deeper,
            depth: depth + 1,
        }
    })
}

/// The task above each task: its parent, or else the newest one that it waits for.
fn above(tasks: &[&Task]) -> Vec<Option<usize>> {
    let places: HashMap<&str, usize> = tasks
        .iter()
        .enumerate()
        .map(|(n, task)| (task.id.as_str(), n))
        .collect();
    let place = |id: &str| places.get(id).copied();
    let mut above: Vec<Option<usize>> = tasks
        .iter()
        .map(|task| task.parent.as_deref().and_then(place))
        .collect();
    let mut way_up = above.clone();
    for (n, task) in tasks
        .iter()
        .enumerate()
        .filter(|(_, task)| task.parent.is_none())
    {
        let mut waits_for: Vec<usize> = task
            .dependencies
            .iter()
            .filter_map(|on| place(on))
            .collect();
        waits_for.sort_unstable_by_key(|on| Reverse(*on));
        // A task often waits for its own children, which must not be above it as well.
        let under = waits_for.into_iter().find(|on| top(&mut way_up, *on) != n);
        above[n] = under;
        way_up[n] = under;
    }
    above
}

/// The topmost task above a task; the task itself if there is none.
fn top(way_up: &mut [Option<usize>], task: usize) -> usize {
    let Some(mut highest) = way_up[task] else {
        return task;
    };
    while let Some(up) = way_up[highest] {
        highest = up;
    }
    shorten(way_up, task, Some(highest));
    highest
}

/// The nearest task above that is wanted.
fn climb(
    above: &mut [Option<usize>],
    task: usize,
    is_wanted: impl Fn(usize) -> bool,
) -> Option<usize> {
    let mut next = above[task];
    while let Some(up) = next.filter(|up| !is_wanted(*up)) {
        next = above[up];
    }
    shorten(above, task, next);
    next
}

/// Points every task on the path directly to `to`, so that the path is walked only once.
fn shorten(above: &mut [Option<usize>], from: usize, to: Option<usize>) {
    let mut next = Some(from);
    while let Some(here) = next.filter(|here| Some(*here) != to) {
        next = std::mem::replace(&mut above[here], to);
    }
}
