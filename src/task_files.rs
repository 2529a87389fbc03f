//! Tasks in files: `prd.json`, Markdown checklists, GitHub issues, beads, and creel's own JSON.
//!
//! Owns the formats: which one a text has, the tasks in it, and how tasks are written. Pure: it
//! neither opens files nor creates tasks, see [`crate::cli::import`] and [`crate::cli::export`].
//!
//! # Invariants
//! - A file is read as a whole or refused as a whole: its ids are unique, the tasks that it names
//!   exist, and none waits for itself.
//! - Marking tasks as done changes their marks and no other byte of the file.

mod checklist;
pub mod export;
pub mod import_plan;
mod json_formats;

use std::{collections::BTreeSet, fmt, ops::Range};

use crate::{engine::tasks::command::NewTask, text::some_names};

/// The label that says where a task comes from begins with this. It has the file and the id there.
const SOURCE: &str = "from:";
/// The longest part of a text that becomes an id, in characters.
const SLUG: usize = 48;
/// How many ids a message names.
const NAMED: usize = 8;

/// What a file can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum TaskFormat {
    /// A Markdown checklist, or a plan with `### Task N:` headings.
    Markdown,
    /// The `prd.json` of ralph.
    Prd,
    /// The output of `gh issue list --json number,title,body,labels,state,url`.
    Github,
    /// The output of `bd list --json`, or `.beads/issues.jsonl`.
    Beads,
    /// creel's own tasks, as JSON.
    Json,
}

impl fmt::Display for TaskFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Markdown => "a Markdown checklist",
            Self::Prd => "a prd.json",
            Self::Github => "a list of GitHub issues",
            Self::Beads => "a list of beads",
            Self::Json => "a list of creel's tasks",
        })
    }
}

/// The tasks of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskFile {
    pub format: TaskFormat,
    pub tasks: Vec<FileTask>,
    /// What creel concluded from the file without reading it there.
    pub note: Option<&'static str>,
}

/// A task of a file. Its id, its parent and its dependencies are ids of that file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileTask {
    pub task: NewTask,
    pub state: FileTaskState,
    /// Where it is known from, if its id alone says that: a project on a forge.
    origin: Option<String>,
    /// The places in the text that say that it is not done.
    marks: Vec<Range<usize>>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FileTaskState {
    #[default]
    Open,
    Done,
    /// The file says not to do it now.
    Deferred,
}

/// Why a file has no tasks that creel can create.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TaskFileError {
    #[error(
        "creel does not know its format\n  creel reads Markdown checklists, prd.json, `gh issue list --json \
         number,title,body,labels,state,url`, beads and `creel export`; --format says which one it is"
    )]
    Unknown,
    #[error(
        "it has no checklist\n  a task is a line such as `- [ ] Write the parser`, or a heading `### Task 1: TITLE`"
    )]
    NoChecklist,
    #[error("it cannot be read as {format}: {reason}")]
    Unreadable { format: TaskFormat, reason: String },
    #[error("two tasks have the id `{0}`; each needs its own")]
    SameId(String),
    #[error("task `{task}` depends on `{on}`, which is not in the file{}", if *format == TaskFormat::Beads { "\n  `bd list` leaves out closed beads; .beads/issues.jsonl has all of them" } else { "" })]
    UnknownDependency {
        task: String,
        on: String,
        format: TaskFormat,
    },
    #[error("these tasks wait for each other: {}\n  remove one of the dependencies", .0.join(" → "))]
    Cycle(Vec<String>),
    #[error("task `{task}`: {reason}")]
    BadTask { task: String, reason: String },
}

impl TaskFile {
    /// Reads the tasks of a text. `format` is the user's word for what it is.
    pub fn read(text: &str, format: Option<TaskFormat>) -> Result<Self, TaskFileError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let format = match format {
            Some(format) => format,
            None => json_formats::format_of(text)?,
        };
        let mut file = match format {
            TaskFormat::Markdown => checklist::read(text),
            TaskFormat::Prd | TaskFormat::Github | TaskFormat::Beads | TaskFormat::Json => {
                json_formats::read(text, format)
            }
        }?;
        for at in 0..file.tasks.len() {
            let task = &file.tasks[at].task;
            if task.id.as_ref().is_none_or(String::is_empty) {
                let first = task.goal.lines().next().unwrap_or_default();
                let id = unused_id(&slug(first), &file.tasks);
                file.tasks[at].task.id = Some(id);
            }
        }
        let mut seen = BTreeSet::new();
        match file.tasks.iter().find(|task| !seen.insert(task.id())) {
            Some(twice) => Err(TaskFileError::SameId(twice.id().to_owned())),
            None => Ok(file),
        }
    }

    /// The text with the marks of these tasks set to done, and how many tasks that changed.
    pub fn marked(&self, text: &str, is_done: impl Fn(&FileTask) -> bool) -> (String, usize) {
        let done = match self.format {
            TaskFormat::Markdown => "x",
            TaskFormat::Prd | TaskFormat::Github | TaskFormat::Beads | TaskFormat::Json => "true",
        };
        let marked = |task: &&FileTask| !task.marks.is_empty() && is_done(task);
        let tasks: Vec<&FileTask> = self.tasks.iter().filter(marked).collect();
        let mut places: Vec<&Range<usize>> = tasks.iter().flat_map(|task| &task.marks).collect();
        places.sort_by_key(|place| place.start);
        // A byte order mark is not part of the text that was read.
        let skipped = text.len() - text.strip_prefix('\u{feff}').unwrap_or(text).len();
        let (mut new, mut from) = (String::new(), 0);
        for place in places {
            new += text.get(from..place.start + skipped).unwrap_or_default();
            new += done;
            from = place.end + skipped;
        }
        new += text.get(from..).unwrap_or_default();
        (new, tasks.len())
    }
}

impl FileTask {
    /// A task of creel, in order to write it.
    pub fn of(task: NewTask, state: FileTaskState) -> Self {
        Self {
            task,
            state,
            ..Self::default()
        }
    }

    pub fn id(&self) -> &str {
        self.task.id.as_deref().unwrap_or_default()
    }

    /// Where creel took it from.
    pub fn sources(&self) -> impl Iterator<Item = &str> {
        let labels = self.task.labels.iter().map(String::as_str);
        labels.filter(|label| is_source(label))
    }

    /// The label that tells the task apart from all others, also when the file is read again.
    pub fn source(&self, file: &str) -> String {
        let origin = self.origin.as_deref().unwrap_or(file);
        let own = self.sources().next().map(str::to_owned);
        own.unwrap_or_else(|| format!("{SOURCE}{origin}#{}", self.id()))
    }
}

/// What tells a task apart from another one of the same number.
pub fn title(goal: &str) -> &str {
    goal.trim().lines().next().unwrap_or_default().trim()
}

/// Whether a label says where its task comes from.
fn is_source(label: &str) -> bool {
    label.starts_with(SOURCE) && label.contains('#')
}

/// A text as an id: its letters and digits, in lower case.
fn slug(text: &str) -> String {
    let mut slug = String::new();
    for c in text.to_lowercase().chars() {
        if c.is_alphanumeric() || c == '_' {
            slug.push(c);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let whole: Vec<&str> = slug.split('-').filter(|word| !word.is_empty()).collect();
    let mut short = String::new();
    for word in whole {
        let gap = if short.is_empty() { "" } else { "-" };
        let length = short.chars().count() + gap.len() + word.chars().count();
        if length > SLUG && !short.is_empty() {
            break;
        }
        short += gap;
        short.extend(word.chars().take(SLUG));
    }
    short
}

/// An id that no other task of the file has.
fn unused_id(wanted: &str, tasks: &[FileTask]) -> String {
    let wanted = if wanted.is_empty() { "task" } else { wanted };
    let is_free = |id: &String| tasks.iter().all(|task| task.id() != id);
    let first = wanted.to_owned();
    if is_free(&first) {
        return first;
    }
    (2..=tasks.len() + 2)
        .map(|number| format!("{wanted}-{number}"))
        .find(is_free)
        .unwrap_or(first)
}

/// The first few ids of a list.
pub fn some_ids(ids: &[String]) -> String {
    some_names(ids, NAMED)
}

/// Each task waits for the one before it.
fn in_sequence(tasks: &mut [FileTask]) {
    let mut before: Option<String> = None;
    // What is done already is not imported, so nothing can wait for it.
    for task in tasks
        .iter_mut()
        .filter(|task| task.state != FileTaskState::Done)
    {
        task.task.dependencies.extend(before.take());
        before = Some(task.id().to_owned());
    }
}

#[cfg(test)]
mod tests;
