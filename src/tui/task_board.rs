//! The tasks as the pane shows them: filter, order and selection.
//!
//! They are arranged again only when the tasks, the filter or the layout change, not for every
//! frame: there can be thousands.
//!
//! # Invariants
//! - Every task that passes the filter has exactly one row, in the list and in the tree.
//! - The selected task stays selected while other tasks come and go.

pub mod details;
pub mod form;
mod tree;

use std::{cell::OnceCell, cmp::Reverse, collections::HashMap};

use crate::engine::tasks::{
    graph::TaskGraph,
    task::{Task, TaskState},
};

#[derive(Debug, Default)]
pub struct TaskBoard {
    shape: TaskLayout,
    filter: TaskFilter,
    /// The task that other tasks are to wait for.
    pub marked: Option<String>,
    chosen: Option<String>,
    /// The row of the selected task. If the task is gone, the task in that row is selected.
    at: usize,
    /// Made when the rows are first needed.
    arranged: OnceCell<ArrangedTasks>,
}

#[derive(Debug)]
struct ArrangedTasks {
    /// Each task's id, and its branch in the tree.
    rows: Vec<(String, String)>,
    /// The row of each task id.
    places: HashMap<String, usize>,
    /// How many tasks are open, visible or not.
    open: usize,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TaskLayout {
    /// By priority, open tasks first.
    #[default]
    List,
    /// Each task under its parent, or under a task that it waits for.
    Tree,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TaskFilter {
    #[default]
    All,
    /// Not completed.
    Open,
    /// The task can be started.
    Ready,
    Blocked,
    Done,
}

#[derive(Debug, Clone, Copy)]
pub struct TaskRows<'a> {
    graph: &'a TaskGraph,
    arranged: &'a ArrangedTasks,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskRow<'a> {
    pub task: &'a Task,
    /// The tree lines before the task.
    pub branch: &'a str,
}

impl<'a> TaskRows<'a> {
    pub fn len(&self) -> usize {
        self.arranged.rows.len()
    }

    pub fn is_empty(&self) -> bool {
        self.arranged.rows.is_empty()
    }

    pub fn get(&self, n: usize) -> Option<TaskRow<'a>> {
        let (id, branch) = self.arranged.rows.get(n)?;
        Some(TaskRow {
            task: self.graph.get(id)?,
            branch,
        })
    }

    pub fn iter(self) -> impl Iterator<Item = TaskRow<'a>> {
        (0..self.len()).filter_map(move |n| self.get(n))
    }

    /// How many tasks are open, visible or not.
    pub fn open(&self) -> usize {
        self.arranged.open
    }
}

impl TaskLayout {
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::List => Self::Tree,
            Self::Tree => Self::List,
        }
    }
}

impl TaskFilter {
    /// The next filter, going around.
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
    pub const fn shape(&self) -> TaskLayout {
        self.shape
    }

    pub const fn filter(&self) -> TaskFilter {
        self.filter
    }

    pub fn turn(&mut self) {
        self.shape = self.shape.other();
        self.forget();
    }

    pub fn next_filter(&mut self) {
        self.filter = self.filter.next();
        self.forget();
    }

    /// Drops the arranged rows, since the tasks changed. They are made again when needed.
    pub fn forget(&mut self) {
        self.arranged.take();
    }

    pub fn rows<'a>(&'a self, graph: &'a TaskGraph) -> TaskRows<'a> {
        TaskRows {
            graph,
            arranged: self.arranged.get_or_init(|| self.arrange(graph)),
        }
    }

    fn arrange(&self, graph: &TaskGraph) -> ArrangedTasks {
        let tasks = graph.tasks();
        let row = |task: &Task, branch: String| (task.id.clone(), branch);
        let rows: Vec<(String, String)> = match self.shape {
            TaskLayout::List => {
                let mut shown: Vec<&Task> = tasks
                    .iter()
                    .copied()
                    .filter(|task| self.filter.fits(task))
                    .collect();
                shown.sort_by_key(|task| (Reverse(task.is_open()), task.priority));
                shown
                    .into_iter()
                    .map(|task| row(task, String::new()))
                    .collect()
            }
            TaskLayout::Tree => {
                let shown: Vec<bool> = tasks.iter().map(|task| self.filter.fits(task)).collect();
                tree::grow(&tasks, &shown)
                    .into_iter()
                    .map(|twig| row(tasks[twig.task], twig.branch))
                    .collect()
            }
        };
        let places = rows
            .iter()
            .enumerate()
            .map(|(n, (id, _))| (id.clone(), n))
            .collect();
        ArrangedTasks {
            rows,
            places,
            open: tasks.iter().filter(|task| task.is_open()).count(),
        }
    }

    pub fn position(&self, rows: TaskRows<'_>) -> usize {
        let found = self
            .chosen
            .as_ref()
            .and_then(|id| rows.arranged.places.get(id).copied());
        found.unwrap_or_else(|| self.at.min(rows.len().saturating_sub(1)))
    }

    /// Selects a task and remembers its row.
    pub fn choose(&mut self, id: Option<String>, at: usize) {
        self.chosen = id;
        self.at = at;
    }
}
