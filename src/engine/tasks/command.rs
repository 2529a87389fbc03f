//! Commands to the task graph, by users, programs, agents and hooks.
//!
//! Owns the meaning of each [`TaskCommand`]: which record it becomes, or why it cannot be done.
//!
//! # Invariants
//! - A command becomes one record or is refused; it is never carried out partly.

use std::collections::BTreeSet;

use serde::{Deserialize, Deserializer, Serialize};

use crate::engine::tasks::{
    refusal::TaskRefusal,
    task::{LOWEST, TaskDescriptionChanges},
};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskCommand {
    Add(NewTask),
    /// Start working on a task.
    Start {
        id: String,
        context: Option<String>,
    },
    /// A worker claimed the task from the queue. Only the queue sends this.
    #[serde(skip)]
    TakenUp {
        id: String,
        context: String,
    },
    /// Mark a task as done. An id that the graph does not know is a task of another program.
    Complete(TaskCompletion),
    /// Mark a task as blocked.
    Block {
        id: String,
        reason: String,
        required_knowledge: Vec<String>,
    },
    Update {
        id: String,
        changes: TaskChanges,
    },
    MakeReady {
        id: String,
    },
    /// Make a task wait for another.
    Depend {
        id: String,
        on: String,
    },
    Undepend {
        id: String,
        on: String,
    },
    /// Delete the task with its edges.
    Remove {
        id: String,
    },
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NewTask {
    /// None: creel generates one.
    #[serde(alias = "taskId")]
    pub id: Option<String>,
    pub goal: String,
    pub deliverables: Vec<String>,
    pub labels: Vec<String>,
    pub priority: Option<u8>,
    #[serde(rename = "type")]
    pub kind: Option<String>,
    #[serde(alias = "parentTaskId", alias = "parentId")]
    pub parent: Option<String>,
    #[serde(alias = "dependsOn")]
    pub dependencies: Vec<String>,
    pub queue: Option<BTreeSet<String>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskCompletion {
    pub id: String,
    /// None: the task's goal.
    pub content: Option<String>,
    pub result: Option<String>,
    pub artifacts: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TaskChanges {
    #[serde(flatten)]
    pub description: TaskDescriptionChanges,
    pub add_labels: Vec<String>,
    pub remove_labels: Vec<String>,
}

pub(crate) fn a_goal(goal: &str) -> Result<(), TaskRefusal> {
    if goal.trim().is_empty() {
        Err(TaskRefusal::NoGoal)
    } else {
        Ok(())
    }
}

/// Whether a number can be a priority.
pub(crate) fn a_priority(given: u8) -> Result<(), TaskRefusal> {
    if given <= LOWEST {
        Ok(())
    } else {
        Err(TaskRefusal::BadPriority(given))
    }
}

/// Whether a task or a session can have that name. It must be valid in a subject, a header and a
/// path.
pub(crate) fn is_name(id: &str) -> bool {
    let plain = id
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    plain && (1..=64).contains(&id.len())
}

/// A text, or a list of texts.
pub(super) fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum TextOrList {
        None(()),
        One(String),
        Many(Vec<String>),
    }
    Ok(match TextOrList::deserialize(deserializer)? {
        TextOrList::None(()) => Vec::new(),
        TextOrList::One(text) => vec![text],
        TextOrList::Many(texts) => texts,
    })
}
