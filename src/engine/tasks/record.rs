//! The contents of task records: the `data`, the actor, and the hook action that a record carries
//! out.
//!
//! Keys inside `data` are in `camelCase`, as in the tools that creel shares these events with.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::engine::{
    event::{Actor, ActorKind},
    ids::{TaskEventId, WorkflowRunId},
    stored_form::known_or_none,
    tasks::graph::{TaskDescription, TaskDescriptionChanges, TaskState},
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskRecord<D> {
    pub task: String,
    pub data: D,
    #[serde(flatten)]
    pub origin: ChangeOrigin,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeOrigin {
    #[serde(flatten)]
    pub by: Option<Actor>,
    /// The hook action that the change carries out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<ActionRef>,
    /// The workflow step that the change carries out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<WorkflowStepRef>,
    /// What the change leads to. Journals of earlier versions do not say.
    #[serde(
        default,
        deserialize_with = "known_or_none",
        skip_serializing_if = "Option::is_none"
    )]
    pub due: Option<DueHooks>,
}

/// Which hooks a change to a task makes due.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DueHooks {
    /// How many changes led to this one, each made by a hook of the one before.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub depth: u32,
    /// Whether automation hooks react to it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub automation: bool,
    /// Whether `on_task_complete` hooks run for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub on_complete: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkflowStepRef {
    pub flow: WorkflowRunId,
    pub step: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionRef {
    /// The event that the hook received.
    pub event: TaskEventId,
    pub hook: String,
    /// Which of the event's actions, from 1.
    pub action: u32,
}

impl ChangeOrigin {
    pub const fn by(by: Actor) -> Self {
        Self {
            by: Some(by),
            cause: None,
            step: None,
            due: None,
        }
    }

    pub fn action(action: ActionRef) -> Self {
        Self {
            by: Some(ActorKind::Policy.into()),
            cause: Some(action),
            step: None,
            due: None,
        }
    }

    pub fn step(step: WorkflowStepRef) -> Self {
        Self {
            by: Some(ActorKind::Policy.into()),
            cause: None,
            step: Some(step),
            due: None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskCreated {
    #[serde(flatten)]
    pub description: TaskDescription,
    #[serde(default)]
    pub parent: Option<String>,
    #[serde(default)]
    pub dependencies: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<BTreeSet<String>>,
    pub state: TaskState,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskStarted {
    /// Context for the agent that starts the task.
    pub context: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskCompleted {
    pub content: String,
    pub result: Option<String>,
    pub artifacts: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TaskBlocked {
    pub reason: String,
    /// Information that is missing to continue.
    pub required_knowledge: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskDeleted {
    /// How many dependency and origin edges were removed with it.
    pub edges_removed: usize,
}

/// Changes to a task; absent fields stay the same.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskUpdated {
    #[serde(flatten)]
    pub description: TaskDescriptionChanges,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<TaskState>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EdgeAdded {
    /// The task that waits.
    pub from_id: String,
    /// The task that it waits for.
    pub to_id: String,
    pub edge_type: EdgeType,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EdgeType {
    DependsOn,
    SpawnedBy,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EdgeRemoved {
    pub edge_id: String,
    /// The task that waited.
    pub from_id: String,
    /// The task that it waited for.
    pub to_id: String,
}

/// The last dependency of a task was completed or removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DependencySatisfied {
    pub dependent_task_id: String,
    /// The dependency that was completed last. None if the last one was removed.
    pub completed_task_id: Option<String>,
    /// The dependency that was removed last, if that made the task ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed_task_id: Option<String>,
}

/// A failed hook of a task event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HookErrorData {
    pub hook_name: String,
    pub error: String,
    /// The event that the hook received. None for an `on_task_complete` hook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original_event: Option<Value>,
}

/// An action that could not be carried out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ActionErrorData {
    pub action_type: String,
    pub error: String,
    /// The action's parameters.
    pub payload: Value,
}

/// A borrowed view of a task record: the common fields, and the specific data.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TaskRecordRef<'a> {
    pub task: &'a str,
    pub origin: &'a ChangeOrigin,
    pub what: TaskRecordData<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TaskRecordData<'a> {
    Created(&'a TaskCreated),
    Started(&'a TaskStarted),
    Completed(&'a TaskCompleted),
    Blocked(&'a TaskBlocked),
    Deleted(&'a TaskDeleted),
    Updated(&'a TaskUpdated),
    DependencyAdded(&'a EdgeAdded),
    DependencyRemoved(&'a EdgeRemoved),
    DependencySatisfied(&'a DependencySatisfied),
    Metrics(&'a Map<String, Value>),
    Custom(&'a str, &'a Map<String, Value>),
    ActionFailed(&'a ActionErrorData),
}

/// The task events that hooks can subscribe to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskEventKind {
    TaskCreated,
    TaskStarted,
    TaskCompleted,
    TaskBlocked,
    TaskDeleted,
    DependencyAdded,
    DependencyRemoved,
    DependencySatisfied,
}

impl TaskEventKind {
    pub const ALL: [Self; 8] = [
        Self::TaskCreated,
        Self::TaskStarted,
        Self::TaskCompleted,
        Self::TaskBlocked,
        Self::TaskDeleted,
        Self::DependencyAdded,
        Self::DependencyRemoved,
        Self::DependencySatisfied,
    ];

    /// The name in records and in the config.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TaskCreated => "task_created",
            Self::TaskStarted => "task_started",
            Self::TaskCompleted => "task_completed",
            Self::TaskBlocked => "task_blocked",
            Self::TaskDeleted => "task_deleted",
            Self::DependencyAdded => "dependency_added",
            Self::DependencyRemoved => "dependency_removed",
            Self::DependencySatisfied => "dependency_satisfied",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl TaskRecordData<'_> {
    /// None for records that hooks cannot subscribe to.
    pub const fn kind(&self) -> Option<TaskEventKind> {
        match self {
            Self::Created(_) => Some(TaskEventKind::TaskCreated),
            Self::Started(_) => Some(TaskEventKind::TaskStarted),
            Self::Completed(_) => Some(TaskEventKind::TaskCompleted),
            Self::Blocked(_) => Some(TaskEventKind::TaskBlocked),
            Self::Deleted(_) => Some(TaskEventKind::TaskDeleted),
            Self::DependencyAdded(_) => Some(TaskEventKind::DependencyAdded),
            Self::DependencyRemoved(_) => Some(TaskEventKind::DependencyRemoved),
            Self::DependencySatisfied(_) => Some(TaskEventKind::DependencySatisfied),
            Self::Updated(_) | Self::Metrics(_) | Self::Custom(..) | Self::ActionFailed(_) => None,
        }
    }
}

/// Events that are more levels below the first event than this are ignored.
pub const DEEPEST: u32 = 8;
/// How many actions may follow from one change to a task.
pub const MOST_ACTIONS: u32 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_called_the_same_in_the_config_and_in_records() {
        for kind in TaskEventKind::ALL {
            assert_eq!(serde_json::to_value(kind).expect("a name"), kind.name());
            assert_eq!(TaskEventKind::named(kind.name()), Some(kind));
        }
    }
}
