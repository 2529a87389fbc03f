//! What importing a file creates: which tasks, under which names, in which order.
//!
//! # Invariants
//! - A task that is there already, by its label, is not created again.
//! - A task comes after those that it depends on.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    engine::{
        queue::task_spec::TaskSpec,
        tasks::{
            command::{NewTask, is_name},
            graph::{PRIORITY, TaskDescription},
        },
    },
    task_files::{FileTask, FileTaskState, SOURCE, TaskFile, TaskFileError, TaskFormat, title},
};

/// A task that is there already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PresentTask {
    pub name: String,
    pub goal: String,
    pub labels: Vec<String>,
}

impl PresentTask {
    /// Whether it was made from this task of a file. A number in a file can stand for another task
    /// later, so the titles count, too.
    fn is_from(&self, task: &FileTask, source: &String) -> bool {
        self.labels.contains(source) && title(&self.goal) == title(&task.task.goal)
    }
}

/// What an import does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportPlan {
    /// The tasks to create, each after those that it depends on.
    pub tasks: Vec<ImportedTask>,
    /// The tasks of the file that are not created.
    pub skipped: Vec<SkippedTask>,
    /// The names of tasks that are there already, by their ids in the file.
    pub names: BTreeMap<String, String>,
}

/// A task to create. Its parent and its dependencies are ids of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedTask {
    /// Its id in the file.
    pub id: String,
    /// The label that tells it apart from all others.
    pub source: String,
    pub task: NewTask,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedTask {
    /// Its id in the file.
    pub id: String,
    pub reason: SkipReason,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SkipReason {
    /// The file says that it is done.
    Done,
    /// It was imported before.
    Present,
    /// The file says not to do it now.
    Deferred,
    /// It waits for such a task.
    WaitsForDeferred,
}

impl SkipReason {
    /// The reason in words, behind the ids.
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::Done => "done in the file",
            Self::Present => "imported before",
            Self::Deferred => "deferred in the file",
            Self::WaitsForDeferred => "they wait for deferred tasks",
        }
    }

    /// The name for programs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Present => "present",
            Self::Deferred => "deferred",
            Self::WaitsForDeferred => "waits_for_deferred",
        }
    }
}

impl ImportPlan {
    /// `label` stands for the file in the labels of its tasks.
    pub fn of(
        file: &TaskFile,
        label: &str,
        present: &[PresentTask],
    ) -> Result<Self, TaskFileError> {
        let mut names = BTreeMap::new();
        let mut reasons = BTreeMap::new();
        for task in &file.tasks {
            let source = task.source(label);
            if let Some(before) = present.iter().find(|before| before.is_from(task, &source)) {
                names.insert(task.id().to_owned(), before.name.clone());
                reasons.insert(task.id(), SkipReason::Present);
            }
            match task.state {
                FileTaskState::Open => {}
                FileTaskState::Done => {
                    reasons.insert(task.id(), SkipReason::Done);
                }
                FileTaskState::Deferred => {
                    reasons.insert(task.id(), SkipReason::Deferred);
                }
            }
        }
        skip_what_waits(file, &mut reasons);
        let new: Vec<&FileTask> = file
            .tasks
            .iter()
            .filter(|task| !reasons.contains_key(task.id()))
            .collect();
        for task in &new {
            check(task)?;
            find_dependencies(task, file, label, present, &mut names)?;
        }
        let mut used: BTreeSet<String> = present.iter().map(|task| task.name.clone()).collect();
        let tasks = in_order(&new)?.into_iter().map(|task| {
            let is_new = |id: &String| !reasons.contains_key(id.as_str()) || names.contains_key(id);
            let source = task.source(label);
            let mut labels = task.task.labels.clone();
            if !labels.contains(&source) {
                labels.push(source.clone());
            }
            let dependencies: BTreeSet<&String> = task.task.dependencies.iter().collect();
            ImportedTask {
                id: task.id().to_owned(),
                source,
                task: NewTask {
                    // A task of another file can have the same id. Then this one gets a number.
                    id: task_name(file.format, task.id()).filter(|name| used.insert(name.clone())),
                    labels,
                    dependencies: dependencies
                        .into_iter()
                        .filter(|id| is_new(id))
                        .cloned()
                        .collect(),
                    parent: task.task.parent.clone().filter(|parent| {
                        names.contains_key(parent) || new.iter().any(|task| task.id() == parent)
                    }),
                    ..task.task.clone()
                },
            }
        });
        let tasks = tasks.collect();
        let skipped = file.tasks.iter().filter_map(|task| {
            let reason = *reasons.get(task.id())?;
            Some(SkippedTask {
                id: task.id().to_owned(),
                reason,
            })
        });
        Ok(Self {
            skipped: skipped.collect(),
            tasks,
            names,
        })
    }

    /// The tasks with their parents and dependencies by name, for a session that has no tasks yet.
    pub fn into_new_tasks(self) -> Vec<NewTask> {
        let taken: BTreeSet<String> = self
            .tasks
            .iter()
            .filter_map(|task| task.task.id.clone())
            .collect();
        let mut numbers = (1u64..)
            .map(|number| format!("task_{number}"))
            .filter(|name| !taken.contains(name));
        let mut names = BTreeMap::new();
        for ImportedTask { id, task, .. } in &self.tasks {
            let name = task
                .id
                .clone()
                .or_else(|| numbers.next())
                .unwrap_or_default();
            names.insert(id.clone(), name);
        }
        let of_new = |imported: ImportedTask| imported.named(&names);
        self.tasks.into_iter().map(of_new).collect()
    }

    /// The ids of the tasks that are skipped for this reason.
    pub fn skipped_for(&self, reason: SkipReason) -> Vec<String> {
        let skipped = self
            .skipped
            .iter()
            .filter(|skipped| skipped.reason == reason);
        skipped.map(|skipped| skipped.id.clone()).collect()
    }
}

impl ImportedTask {
    /// The task with names in place of ids of the file. A parent without a name yet is left out.
    pub fn named(&self, names: &BTreeMap<String, String>) -> NewTask {
        let task = self.task.clone();
        let name = |id: &String| names.get(id).unwrap_or(id).clone();
        NewTask {
            id: names.get(&self.id).cloned().or(task.id),
            dependencies: task.dependencies.iter().map(name).collect(),
            parent: task.parent.and_then(|parent| names.get(&parent).cloned()),
            ..task
        }
    }
}

/// Skips the open tasks that wait for deferred ones, directly or indirectly.
fn skip_what_waits<'a>(file: &'a TaskFile, reasons: &mut BTreeMap<&'a str, SkipReason>) {
    loop {
        let waits = |task: &&FileTask| {
            let is_deferred = |on: &String| {
                matches!(
                    reasons.get(on.as_str()),
                    Some(SkipReason::Deferred | SkipReason::WaitsForDeferred)
                )
            };
            !reasons.contains_key(task.id()) && task.task.dependencies.iter().any(is_deferred)
        };
        let Some(next) = file.tasks.iter().find(waits) else {
            return;
        };
        reasons.insert(next.id(), SkipReason::WaitsForDeferred);
    }
}

/// Whether a session and a queue accept the task.
fn check(task: &FileTask) -> Result<(), TaskFileError> {
    let NewTask {
        goal,
        deliverables,
        labels,
        priority,
        kind,
        ..
    } = task.task.clone();
    let spec = TaskSpec {
        id: "task".to_owned(),
        description: TaskDescription {
            goal,
            deliverables,
            labels,
            priority: priority.unwrap_or(PRIORITY),
            kind,
        },
        ..TaskSpec::default()
    };
    let refused = spec.checked().map(drop);
    refused.map_err(|reason| TaskFileError::BadTask {
        task: task.id().to_owned(),
        reason: reason.to_string(),
    })
}

/// A dependency is a task of the file, or one that an earlier import took from it.
fn find_dependencies(
    task: &FileTask,
    file: &TaskFile,
    name: &str,
    present: &[PresentTask],
    names: &mut BTreeMap<String, String>,
) -> Result<(), TaskFileError> {
    for on in &task.task.dependencies {
        if file.tasks.iter().any(|other| other.id() == on) {
            continue;
        }
        let label = format!("{SOURCE}{}#{on}", task.origin.as_deref().unwrap_or(name));
        let Some(before) = present.iter().find(|before| before.labels.contains(&label)) else {
            return Err(TaskFileError::UnknownDependency {
                task: task.id().to_owned(),
                on: on.clone(),
                format: file.format,
            });
        };
        names.insert(on.clone(), before.name.clone());
    }
    Ok(())
}

/// Each task after those that it depends on, and otherwise in the order of the file.
fn in_order<'a>(tasks: &[&'a FileTask]) -> Result<Vec<&'a FileTask>, TaskFileError> {
    let mut left: Vec<&FileTask> = tasks.to_vec();
    let mut waiting: BTreeSet<&str> = left.iter().map(|task| task.id()).collect();
    let mut ordered = Vec::new();
    while !left.is_empty() {
        let is_due = |task: &&FileTask| {
            let mut dependencies = task.task.dependencies.iter();
            !dependencies.any(|on| waiting.contains(on.as_str()))
        };
        let Some(next) = left.iter().position(is_due) else {
            return Err(TaskFileError::Cycle(cycle(&left)));
        };
        let next = left.remove(next);
        waiting.remove(next.id());
        ordered.push(next);
    }
    Ok(ordered)
}

/// Tasks that wait for each other, the first one also at the end. Each of these waits for another.
fn cycle(tasks: &[&FileTask]) -> Vec<String> {
    let mut way: Vec<&FileTask> = Vec::new();
    let mut next = tasks.first().copied();
    while let Some(here) = next {
        if let Some(at) = way.iter().position(|before| before.id() == here.id()) {
            let around = way[at..].iter().chain(&way[at..=at]);
            return around.map(|task| task.id().to_owned()).collect();
        }
        way.push(here);
        let waits_for =
            |other: &&&FileTask| here.task.dependencies.iter().any(|on| on == other.id());
        next = tasks.iter().find(waits_for).copied();
    }
    way.iter().map(|task| task.id().to_owned()).collect()
}

/// An id as a name of a task. None if nothing is left of it.
fn task_name(format: TaskFormat, id: &str) -> Option<String> {
    if format == TaskFormat::Github {
        return Some(format!("issue-{id}"));
    }
    if is_name(id) && !id.starts_with('-') {
        return Some(id.to_owned());
    }
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '_' {
            c
        } else {
            '-'
        }
    };
    let name: String = id.chars().map(plain).take(64).collect();
    let name = name.trim_matches('-').to_owned();
    (!name.is_empty()).then_some(name)
}
