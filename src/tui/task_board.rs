//! The tasks as the pane shows them: filter, order and selection.
//!
//! They are arranged again only when the tasks, the filter or the layout change, not for every
//! frame: there can be thousands.
//!
//! # Invariants
//! - Every task that passes the filter has exactly one row, in the list and in the tree.
//! - The selected task stays selected while other tasks come and go.

pub mod details;

use std::{cell::OnceCell, cmp::Reverse, collections::HashMap};

use crate::engine::tasks::graph::{Task, TaskGraph, TaskState};

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
                grow(&tasks, &shown)
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
fn grow(tasks: &[&Task], shown: &[bool]) -> Vec<TaskTreeRow> {
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
