//! The tasks as a tree: which stands under which.
//!
//! Tasks are named by their places among all, oldest first.
//!
//! # Invariants
//! - Every task that is to be shown has exactly one row, however they depend on each other.
//! - The work grows with the tasks and their edges, not with the length of the chains that they form.

use std::{cmp::Reverse, collections::HashMap};

use crate::engine::tasks::task::Task;

/// Whoever stands deeper in the tree is not moved further to the right.
const DEEPEST: usize = 8;

/// A task with its place in the tree.
pub(super) struct TaskTreeRow {
    /// Which.
    pub(super) task: usize,
    /// What leads to it.
    pub(super) branch: String,
    /// What stands before the branches of those under it.
    trunk: String,
    depth: usize,
}

/// The shown ones among the tasks, from the top to the bottom.
pub(super) fn grow(tasks: &[&Task], shown: &[bool]) -> Vec<TaskTreeRow> {
    let mut above = above(tasks);
    let mut below = vec![Vec::new(); tasks.len()];
    let mut roots = Vec::new();
    for task in (0..tasks.len()).filter(|task| shown[*task]) {
        // Who stands under a task that is not in sight moves up to the next that is.
        match climb(&mut above, task, |up| shown[up]) {
            Some(up) => below[up].push(task),
            None => roots.push(task),
        }
    }
    let mut rows = Vec::new();
    let root = |task| TaskTreeRow { task, branch: String::new(), trunk: String::new(), depth: 0 };
    // With a list of its own instead of recursion: a chain of tasks may be longer than a stack is deep.
    let mut next: Vec<TaskTreeRow> = roots.into_iter().rev().map(root).collect();
    while let Some(twig) = next.pop() {
        next.extend(grown(&twig, &below[twig.task]));
        rows.push(twig);
    }
    rows
}

/// What grows directly from a twig, the last first.
fn grown(from: &TaskTreeRow, tasks: &[usize]) -> impl Iterator<Item = TaskTreeRow> {
    let TaskTreeRow { trunk, depth, .. } = from;
    tasks.iter().enumerate().rev().map(move |(n, task)| {
        let (sign, beside) = if n + 1 == tasks.len() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        let deeper = if *depth < DEEPEST { format!("{trunk}{beside}") } else { trunk.clone() };
        TaskTreeRow { task: *task, branch: format!("{trunk}{sign}"), trunk: deeper, depth: depth + 1 }
    })
}

/// Under which task each one stands: the one that it came from, or else the newest that it waits for.
fn above(tasks: &[&Task]) -> Vec<Option<usize>> {
    let places: HashMap<&str, usize> = tasks.iter().enumerate().map(|(n, task)| (task.id.as_str(), n)).collect();
    let place = |id: &str| places.get(id).copied();
    let mut above: Vec<Option<usize>> = tasks.iter().map(|task| task.parent.as_deref().and_then(place)).collect();
    let mut way_up = above.clone();
    for (n, task) in tasks.iter().enumerate().filter(|(_, task)| task.parent.is_none()) {
        let mut waits_for: Vec<usize> = task.dependencies.iter().filter_map(|on| place(on)).collect();
        waits_for.sort_unstable_by_key(|on| Reverse(*on));
        // A task often waits for those that came from it: they cannot stand over it, too.
        let under = waits_for.into_iter().find(|on| top(&mut way_up, *on) != n);
        above[n] = under;
        way_up[n] = under;
    }
    above
}

/// The highest above a task; itself, if none is.
fn top(way_up: &mut [Option<usize>], task: usize) -> usize {
    let Some(mut highest) = way_up[task] else { return task };
    while let Some(up) = way_up[highest] {
        highest = up;
    }
    shorten(way_up, task, Some(highest));
    highest
}

/// The next above a task that is wanted.
fn climb(above: &mut [Option<usize>], task: usize, is_wanted: impl Fn(usize) -> bool) -> Option<usize> {
    let mut next = above[task];
    while let Some(up) = next.filter(|up| !is_wanted(*up)) {
        next = above[up];
    }
    shorten(above, task, next);
    next
}

/// Lets all on the way from a task to another lead there directly, so that the way is gone only once.
fn shorten(above: &mut [Option<usize>], from: usize, to: Option<usize>) {
    let mut next = Some(from);
    while let Some(here) = next.filter(|here| Some(*here) != to) {
        next = std::mem::replace(&mut above[here], to);
    }
}
