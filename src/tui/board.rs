//! The tasks as they are looked at: which are in sight, in which order, and which one is chosen.
//!
//! # Invariants
//! - Every task that fits the filter has exactly one row, in the list as in the tree.
//! - What was chosen stays chosen while tasks come and go around it.

pub mod details;
pub mod form;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    iter,
};

use crate::engine::tasks::{
    graph::Graph,
    task::{Task, TaskState},
};

/// Whoever stands deeper in the tree is not moved further to the right.
const DEEPEST: usize = 8;

/// How the tasks are looked at.
#[derive(Debug, Default)]
pub struct Board {
    /// How they are arranged.
    pub shape: Shape,
    /// Which are in sight.
    pub filter: Filter,
    /// The task that others are to wait for.
    pub marked: Option<String>,
    chosen: Option<String>,
    /// Where the chosen one was: if it is gone, what stands there is chosen.
    at: usize,
}

/// How tasks are arranged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Shape {
    /// What is to be done first comes first.
    #[default]
    List,
    /// Under each task what came from it, or comes after it.
    Tree,
}

/// Which tasks are in sight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Filter {
    /// All.
    #[default]
    All,
    /// Those about which something has to be done.
    Open,
    /// Those that can be started.
    Ready,
    /// Those with which somebody cannot go on.
    Blocked,
    /// Those that are completed.
    Done,
}

/// A task in sight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row<'a> {
    /// Which.
    pub task: &'a Task,
    /// The branch of the tree that leads to it.
    pub branch: String,
}

impl Shape {
    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::List => Self::Tree,
            Self::Tree => Self::List,
        }
    }
}

impl Filter {
    /// The one that comes after it, going around.
    #[must_use]
    pub const fn next(self) -> Self {
        match self {
            Self::All => Self::Open,
            Self::Open => Self::Ready,
            Self::Ready => Self::Blocked,
            Self::Blocked => Self::Done,
            Self::Done => Self::All,
        }
    }

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Open => "open",
            Self::Ready => "ready",
            Self::Blocked => "blocked",
            Self::Done => "done",
        }
    }

    fn fits(self, task: &Task) -> bool {
        match self {
            Self::All => true,
            Self::Open => task.is_open(),
            Self::Ready => task.state == TaskState::Ready,
            Self::Blocked => task.state == TaskState::Blocked,
            Self::Done => !task.is_open(),
        }
    }
}

impl Board {
    /// The tasks in sight, in order.
    pub fn rows<'a>(&self, graph: &'a Graph) -> Vec<Row<'a>> {
        let mut shown: Vec<&Task> = graph.tasks().into_iter().filter(|task| self.filter.fits(task)).collect();
        match self.shape {
            Shape::List => {
                shown.sort_by_key(|task| (Reverse(task.is_open()), task.priority));
                shown.into_iter().map(|task| Row { task, branch: String::new() }).collect()
            }
            Shape::Tree => tree(graph, &shown),
        }
    }

    /// Which of the rows is chosen.
    pub fn position(&self, rows: &[Row<'_>]) -> usize {
        let found = self.chosen.as_ref().and_then(|id| rows.iter().position(|row| row.task.id == *id));
        found.unwrap_or_else(|| self.at.min(rows.len().saturating_sub(1)))
    }

    /// Chooses a task, and remembers where it stands.
    pub fn choose(&mut self, id: Option<String>, at: usize) {
        self.chosen = id;
        self.at = at;
    }
}

fn tree<'a>(graph: &'a Graph, shown: &[&'a Task]) -> Vec<Row<'a>> {
    let above = above(graph);
    let seen: BTreeSet<&str> = shown.iter().map(|task| task.id.as_str()).collect();
    let mut below: Below<'a> = BTreeMap::new();
    for task in shown {
        // Who stands under a task that is not in sight moves up to the next that is.
        let place = way_up(&above, &task.id).find(|up| seen.contains(up));
        below.entry(place).or_default().push(task);
    }
    let mut rows = Vec::with_capacity(shown.len());
    let mut next = grown(&below, None);
    while let Some(twig) = next.pop() {
        next.extend(grown(&below, Some(&twig)));
        rows.push(Row { task: twig.task, branch: twig.branch });
    }
    rows
}

/// Who stands directly under whom; the roots stand under nobody.
type Below<'a> = BTreeMap<Option<&'a str>, Vec<&'a Task>>;

/// A task with its place in the tree.
struct Twig<'a> {
    task: &'a Task,
    branch: String,
    /// What stands before the branches of those under it.
    trunk: String,
    depth: usize,
}

/// What grows directly from here, the last first.
fn grown<'a>(below: &Below<'a>, from: Option<&Twig<'a>>) -> Vec<Twig<'a>> {
    let tasks = below.get(&from.map(|twig| twig.task.id.as_str())).map_or(&[][..], Vec::as_slice);
    let twig = |(n, task): (usize, &&'a Task)| {
        let Some(Twig { trunk, depth, .. }) = from else {
            return Twig { task, branch: String::new(), trunk: String::new(), depth: 0 };
        };
        let (sign, beside) = if n + 1 == tasks.len() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        let deeper = if *depth < DEEPEST { format!("{trunk}{beside}") } else { trunk.clone() };
        Twig { task, branch: format!("{trunk}{sign}"), trunk: deeper, depth: depth + 1 }
    };
    tasks.iter().enumerate().map(twig).rev().collect()
}

/// Under which task each one stands: the one that it came from, or else the newest that it waits for.
fn above(graph: &Graph) -> BTreeMap<&str, &str> {
    let tasks = graph.tasks();
    let age: BTreeMap<&str, usize> = tasks.iter().enumerate().map(|(n, task)| (task.id.as_str(), n)).collect();
    let mut above: BTreeMap<&str, &str> =
        tasks.iter().filter_map(|task| Some((task.id.as_str(), task.parent.as_deref()?))).collect();
    for task in tasks.iter().filter(|task| task.parent.is_none()) {
        let mut waits_for: Vec<&str> = task.dependencies.iter().map(String::as_str).collect();
        waits_for.sort_by_key(|on| Reverse(age.get(on)));
        // A task often waits for those that came from it: they cannot stand over it, too.
        let comes_after = |on: &&str| way_up(&above, on).all(|up| up != task.id);
        if let Some(on) = waits_for.into_iter().find(comes_after) {
            above.insert(&task.id, on);
        }
    }
    above
}

fn way_up<'a>(above: &BTreeMap<&'a str, &'a str>, from: &str) -> impl Iterator<Item = &'a str> {
    iter::successors(above.get(from).copied(), |up| above.get(up).copied())
}
