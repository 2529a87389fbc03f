//! The task graph.

use crate::engine::tasks::record::{self as task, TaskRecord};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum TaskEvent {
    #[serde(rename = "task_created")]
    Created(Box<TaskRecord<task::TaskCreated>>),
    #[serde(rename = "task_started")]
    Started(TaskRecord<task::TaskStarted>),
    #[serde(rename = "task_completed")]
    Completed(Box<TaskRecord<task::TaskCompleted>>),
    #[serde(rename = "task_blocked")]
    Blocked(TaskRecord<task::TaskBlocked>),
    #[serde(rename = "task_deleted")]
    Deleted(TaskRecord<task::TaskDeleted>),
    #[serde(rename = "task_updated")]
    Updated(Box<TaskRecord<task::TaskUpdated>>),
    #[serde(rename = "dependency_added")]
    DependencyAdded(TaskRecord<task::EdgeAdded>),
    #[serde(rename = "dependency_removed")]
    DependencyRemoved(TaskRecord<task::EdgeRemoved>),
    #[serde(rename = "dependency_satisfied")]
    DependencySatisfied(TaskRecord<task::DependencySatisfied>),
    #[serde(rename = "agent_metrics")]
    AgentMetrics(Box<TaskRecord<Map<String, Value>>>),
    #[serde(rename = "action_error")]
    ActionError(Box<TaskRecord<task::ActionErrorData>>),
    /// An event that a hook logged under a kind of its own.
    #[serde(untagged, skip_deserializing)]
    Custom(Box<CustomRecord>),
}

/// The prefix of kinds that hooks log.
pub const CUSTOM: &str = "custom.";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CustomRecord {
    /// The kind, with its prefix `custom.`.
    pub kind: String,
    #[serde(flatten)]
    pub record: TaskRecord<Map<String, Value>>,
}
