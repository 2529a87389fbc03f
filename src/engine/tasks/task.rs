//! One task: its goal, its state, and what it waits for.

use std::{collections::BTreeSet, ops::Deref};

use serde::{Deserialize, Serialize};

use crate::engine::time::{UnixTime, as_rfc3339, rfc3339_or_none};

/// The default priority.
pub const PRIORITY: u8 = 2;
/// The lowest priority; 0 is the highest.
pub const LOWEST: u8 = 4;

/// What a task is about, wherever the task is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskDescription {
    #[serde(alias = "content")]
    pub goal: String,
    pub deliverables: Vec<String>,
    pub labels: Vec<String>,
    /// 0 is the highest, 4 the lowest.
    pub priority: u8,
    /// The type's name in the config.
    #[serde(rename = "type")]
    pub kind: Option<String>,
}

impl Default for TaskDescription {
    fn default() -> Self {
        Self {
            goal: String::new(),
            deliverables: Vec::new(),
            labels: Vec::new(),
            priority: PRIORITY,
            kind: None,
        }
    }
}

/// A field that is not set stays the same.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskDescriptionChanges {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deliverables: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(alias = "parentTaskId", alias = "parentId")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
}

/// Hooks get it as JSON in this form, and so do snapshots of the state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    pub id: String,
    #[serde(flatten)]
    pub description: TaskDescription,
    pub state: TaskState,
    /// Tasks that must be completed first.
    pub dependencies: BTreeSet<String>,
    /// The task that it came from.
    pub parent: Option<String>,
    /// The agents that can work on it through the queue; empty means all. None: it is done in its
    /// session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<BTreeSet<String>>,
    pub result: Option<String>,
    pub artifacts: Vec<String>,
    /// Why it is blocked.
    pub reason: Option<String>,
    /// Information that is missing to continue.
    pub required_knowledge: Vec<String>,
    #[serde(rename = "createdAt", with = "as_rfc3339")]
    pub created: UnixTime,
    /// When it was first started.
    #[serde(rename = "startedAt", with = "rfc3339_or_none")]
    pub started: Option<UnixTime>,
    #[serde(rename = "completedAt", with = "rfc3339_or_none")]
    pub completed: Option<UnixTime>,
    /// How many of its dependencies are not completed.
    #[serde(rename = "openDependencies")]
    pub(super) open: usize,
    /// Its position among all tasks that were ever added.
    pub(super) number: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// It waits for its dependencies.
    Created,
    /// It can be started.
    Ready,
    Active,
    Blocked,
    Completed,
}

impl TaskState {
    pub const ALL: [Self; 5] = [
        Self::Created,
        Self::Ready,
        Self::Active,
        Self::Blocked,
        Self::Completed,
    ];

    /// The name in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Ready => "ready",
            Self::Active => "active",
            Self::Blocked => "blocked",
            Self::Completed => "completed",
        }
    }
}

impl Deref for Task {
    type Target = TaskDescription;

    fn deref(&self) -> &TaskDescription {
        &self.description
    }
}

impl Task {
    /// How many of its dependencies are not completed.
    pub const fn open_dependencies(&self) -> usize {
        self.open
    }

    pub fn has_label(&self, label: &str) -> bool {
        self.labels.iter().any(|own| own == label)
    }

    pub fn is_open(&self) -> bool {
        self.state != TaskState::Completed
    }

    /// Whether it is given to queue workers: its session does not decide about it.
    pub const fn is_elsewhere(&self) -> bool {
        self.queue.is_some()
    }

    /// Whether it is in progress in its own session.
    pub fn is_worked_on_here(&self) -> bool {
        self.state == TaskState::Active && !self.is_elsewhere()
    }
}
