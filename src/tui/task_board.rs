//! The tasks as they are looked at: which are in sight, in which order, and which one is chosen.
//!
//! They are arranged when they have changed or are looked at otherwise, and not for every frame: there may be thousands.
//!
//! # Invariants
//! - Every task that fits the filter has exactly one row, in the list as in the tree.
//! - What was chosen stays chosen while tasks come and go around it.

pub mod details;
pub mod form;
mod tree;

use std::{cell::OnceCell, cmp::Reverse, collections::HashMap};

use crate::engine::tasks::{
    graph::TaskGraph,
    task::{Task, TaskState},
};

/// How the tasks are looked at.
#[derive(Debug, Default)]
pub struct TaskBoard {
    shape: TaskLayout,
    filter: TaskFilter,
    /// The task that others are to wait for.
    pub marked: Option<String>,
    chosen: Option<String>,
    /// Where the chosen one was: if it is gone, what stands there is chosen.
    at: usize,
    /// The rows, once somebody has asked for them.
    arranged: OnceCell<ArrangedTasks>,
}

/// The tasks in their order.
#[derive(Debug)]
struct ArrangedTasks {
    /// Their names, and the branches of the tree that lead to them.
    rows: Vec<(String, String)>,
    /// Where each of them stands.
    places: HashMap<String, usize>,
    /// How many tasks are open, in sight or not.
    open: usize,
}

/// How tasks are arranged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TaskLayout {
    /// What is to be done first comes first.
    #[default]
    List,
    /// Under each task what came from it, or comes after it.
    Tree,
}

/// Which tasks are in sight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TaskFilter {
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

/// The tasks in sight, in order.
#[derive(Debug, Clone, Copy)]
pub struct TaskRows<'a> {
    graph: &'a TaskGraph,
    arranged: &'a ArrangedTasks,
}

/// A task in sight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskRow<'a> {
    /// Which.
    pub task: &'a Task,
    /// The branch of the tree that leads to it.
    pub branch: &'a str,
}

impl<'a> TaskRows<'a> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.arranged.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.arranged.rows.is_empty()
    }

    /// One of them.
    pub fn get(&self, n: usize) -> Option<TaskRow<'a>> {
        let (id, branch) = self.arranged.rows.get(n)?;
        Some(TaskRow { task: self.graph.get(id)?, branch })
    }

    /// From the first to the last.
    pub fn iter(self) -> impl Iterator<Item = TaskRow<'a>> {
        (0..self.len()).filter_map(move |n| self.get(n))
    }

    /// How many tasks are open, in sight or not.
    pub fn open(&self) -> usize {
        self.arranged.open
    }
}

impl TaskLayout {
    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::List => Self::Tree,
            Self::Tree => Self::List,
        }
    }
}

impl TaskFilter {
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

impl TaskBoard {
    /// How the tasks are arranged.
    pub const fn shape(&self) -> TaskLayout {
        self.shape
    }

    /// Which are in sight.
    pub const fn filter(&self) -> TaskFilter {
        self.filter
    }

    /// Arranges them the other way.
    pub fn turn(&mut self) {
        self.shape = self.shape.other();
        self.forget();
    }

    /// Shows others.
    pub fn next_filter(&mut self) {
        self.filter = self.filter.next();
        self.forget();
    }

    /// The tasks have changed: they are arranged again when somebody asks for them.
    pub fn forget(&mut self) {
        self.arranged.take();
    }

    /// The tasks in sight, in order.
    pub fn rows<'a>(&'a self, graph: &'a TaskGraph) -> TaskRows<'a> {
        TaskRows { graph, arranged: self.arranged.get_or_init(|| self.arrange(graph)) }
    }

    fn arrange(&self, graph: &TaskGraph) -> ArrangedTasks {
        let tasks = graph.tasks();
        let row = |task: &Task, branch: String| (task.id.clone(), branch);
        let rows: Vec<(String, String)> = match self.shape {
            TaskLayout::List => {
                let mut shown: Vec<&Task> = tasks.iter().copied().filter(|task| self.filter.fits(task)).collect();
                shown.sort_by_key(|task| (Reverse(task.is_open()), task.priority));
                shown.into_iter().map(|task| row(task, String::new())).collect()
            }
            TaskLayout::Tree => {
                let shown: Vec<bool> = tasks.iter().map(|task| self.filter.fits(task)).collect();
                tree::grow(&tasks, &shown).into_iter().map(|twig| row(tasks[twig.task], twig.branch)).collect()
            }
        };
        let places = rows.iter().enumerate().map(|(n, (id, _))| (id.clone(), n)).collect();
        ArrangedTasks { rows, places, open: tasks.iter().filter(|task| task.is_open()).count() }
    }

    /// Which of the rows is chosen.
    pub fn position(&self, rows: TaskRows<'_>) -> usize {
        let found = self.chosen.as_ref().and_then(|id| rows.arranged.places.get(id).copied());
        found.unwrap_or_else(|| self.at.min(rows.len().saturating_sub(1)))
    }

    /// Chooses a task, and remembers where it stands.
    pub fn choose(&mut self, id: Option<String>, at: usize) {
        self.chosen = id;
        self.at = at;
    }
}
