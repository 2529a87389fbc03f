//! One task.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize, Serializer};

use crate::engine::time::UnixTime;

/// The priority of a task about which nothing is said.
pub const PRIORITY: u8 = 2;
/// The lowest priority; 0 is the highest.
pub const LOWEST: u8 = 4;

/// Something to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// Its name.
    pub id: String,
    /// What is to be reached.
    pub goal: String,
    /// What is to be there in the end.
    pub deliverables: Vec<String>,
    /// Words to find it by.
    pub labels: Vec<String>,
    /// 0 is the highest, 4 the lowest.
    pub priority: u8,
    /// Of which type it is, as the config knows them.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Where it is.
    pub state: TaskState,
    /// What has to be completed before it.
    pub dependencies: BTreeSet<String>,
    /// The task that it came from.
    pub parent: Option<String>,
    /// Who may work on it elsewhere, if it is handed to others by a queue; nobody means everybody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<BTreeSet<String>>,
    /// What came of it.
    pub result: Option<String>,
    /// What was made.
    pub artifacts: Vec<String>,
    /// Why it is blocked.
    pub reason: Option<String>,
    /// What somebody would have to know to go on.
    pub required_knowledge: Vec<String>,
    /// When it was added.
    #[serde(rename = "createdAt", serialize_with = "moment")]
    pub created: UnixTime,
    /// When it was first started.
    #[serde(rename = "startedAt", serialize_with = "maybe_moment")]
    pub started: Option<UnixTime>,
    /// When it was completed.
    #[serde(rename = "completedAt", serialize_with = "maybe_moment")]
    pub completed: Option<UnixTime>,
    /// How many of its dependencies are not completed.
    #[serde(skip)]
    pub(super) open: usize,
    /// Its place among all tasks that there ever were.
    #[serde(skip)]
    pub(super) number: u64,
}

/// Where a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// It waits for others.
    Created,
    /// It can be started.
    Ready,
    /// Somebody works on it.
    Active,
    /// Somebody who worked on it cannot go on.
    Blocked,
    /// It is done.
    Completed,
}

impl TaskState {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Created, Self::Ready, Self::Active, Self::Blocked, Self::Completed];

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

impl Task {
    /// How many of its dependencies are not completed.
    pub const fn open_dependencies(&self) -> usize {
        self.open
    }

    /// Whether it bears that label.
    pub fn has_label(&self, label: &str) -> bool {
        self.labels.iter().any(|own| own == label)
    }

    /// Whether somebody still has to do something about it.
    pub fn is_open(&self) -> bool {
        self.state != TaskState::Completed
    }

    /// Whether it is for others, who have it from a queue: what becomes of it is not decided in its session.
    pub const fn is_elsewhere(&self) -> bool {
        self.queue.is_some()
    }

    /// Whether somebody works on it in its session.
    pub fn is_worked_on_here(&self) -> bool {
        self.state == TaskState::Active && !self.is_elsewhere()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn moment<S: Serializer>(at: &UnixTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&at.rfc3339())
}

#[expect(clippy::ref_option, reason = "serde's signature")]
fn maybe_moment<S: Serializer>(at: &Option<UnixTime>, serializer: S) -> Result<S::Ok, S::Error> {
    at.map(UnixTime::rfc3339).serialize(serializer)
}
