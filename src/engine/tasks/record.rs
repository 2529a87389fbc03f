//! What a record says of a task: its `data`, who did it, and which action of a hook it carries out.
//!
//! Inside `data` keys are in `camelCase`, as the tools have them that creel shares these events with.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::task::{PRIORITY, TaskState};
use crate::engine::{
    event::{Actor, ActorKind, Event, TaskEvent},
    ids::{TaskEventId, WorkflowRunId},
    time::UnixTime,
};

/// Something that happened to a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskRecord<D> {
    /// Which.
    pub task: String,
    /// What.
    pub data: D,
    /// Where it came from.
    #[serde(flatten)]
    pub origin: ChangeOrigin,
}

/// Where a change came from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeOrigin {
    /// Who.
    #[serde(flatten)]
    pub by: Option<Actor>,
    /// The action that it carries out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<ActionRef>,
    /// The step of a workflow that it carries out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<WorkflowStepRef>,
}

/// A step of a workflow that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkflowStepRef {
    /// Which run of which workflow.
    pub flow: WorkflowRunId,
    /// The step.
    pub step: String,
}

/// An action of a hook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionRef {
    /// The event that the hook was told of.
    pub event: TaskEventId,
    /// The hook.
    pub hook: String,
    /// Which of the event's actions, from 1.
    pub action: u32,
}

impl ChangeOrigin {
    /// Somebody asked for it.
    pub const fn by(by: Actor) -> Self {
        Self { by: Some(by), cause: None, step: None }
    }

    /// A hook asked for it.
    pub fn action(action: ActionRef) -> Self {
        Self { by: Some(ActorKind::Policy.into()), cause: Some(action), step: None }
    }

    /// A workflow asked for it.
    pub fn step(step: WorkflowStepRef) -> Self {
        Self { by: Some(ActorKind::Policy.into()), cause: None, step: Some(step) }
    }
}

/// A task was added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskCreated {
    pub goal: String,
    #[serde(default)]
    pub deliverables: Vec<String>,
    #[serde(default)]
    pub labels: Vec<String>,
    #[serde(default = "usual_priority")]
    pub priority: u8,
    #[serde(default, rename = "type")]
    pub kind: Option<String>,
    #[serde(default)]
    pub parent: Option<String>,
    #[serde(default)]
    pub dependencies: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<BTreeSet<String>>,
    /// Whether it can be started at once.
    pub state: TaskState,
}

const fn usual_priority() -> u8 {
    PRIORITY
}

/// A task was started.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskStarted {
    /// What whoever starts it should know.
    pub context: Option<String>,
}

/// A task was completed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskCompleted {
    /// What it was about.
    pub content: String,
    /// What came of it.
    pub result: Option<String>,
    /// What was made.
    pub artifacts: Vec<String>,
}

/// Somebody cannot go on with a task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TaskBlocked {
    /// Why.
    pub reason: String,
    /// What somebody would have to know.
    pub required_knowledge: Vec<String>,
}

/// A task was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskDeleted {
    /// How many dependencies and origins went with it.
    pub edges_removed: usize,
}

/// What is different about a task; what is not named is as it was.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskUpdated {
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<TaskState>,
}

/// A task now waits for another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EdgeAdded {
    /// The task that waits.
    pub from_id: String,
    /// The task that it waits for.
    pub to_id: String,
    /// What kind of edge it is.
    pub edge_type: EdgeType,
}

/// What an edge means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EdgeType {
    /// The one waits for the other.
    DependsOn,
    /// The one came from the other.
    SpawnedBy,
}

/// A task no longer waits for another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EdgeRemoved {
    /// The edge's name.
    pub edge_id: String,
    /// The task that waited.
    pub from_id: String,
    /// The task that it waited for.
    pub to_id: String,
}

/// A task waits for nothing any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DependencySatisfied {
    /// The task that waited.
    pub dependent_task_id: String,
    /// The dependency that was completed last, unless the last one was removed.
    pub completed_task_id: Option<String>,
    /// The dependency that was removed last, if that made the task ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed_task_id: Option<String>,
}

/// A hook of a task event that did not do its job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HookErrorData {
    /// Which.
    pub hook_name: String,
    /// What went wrong.
    pub error: String,
    /// The event that it was told of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original_event: Option<Value>,
}

/// An action that could not be carried out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ActionErrorData {
    /// What it was to do.
    pub action_type: String,
    /// What went wrong.
    pub error: String,
    /// What it was told.
    pub payload: Value,
}

/// A record of a task, taken apart: what all of them share, and in what they differ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TaskRecordRef<'a> {
    /// Which task.
    pub task: &'a str,
    /// Where it came from.
    pub origin: &'a ChangeOrigin,
    /// What happened.
    pub what: TaskRecordData<'a>,
}

/// What happened to a task.
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

/// The events of tasks that hooks can subscribe to.
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
    /// All of them.
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

    /// The event of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl TaskRecordData<'_> {
    /// The event that hooks can subscribe to, if it is one.
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

impl TaskEvent {
    /// The task, who changed it, and what changed.
    pub fn news(&self) -> TaskRecordRef<'_> {
        fn news<'a, D>(record: &'a TaskRecord<D>, what: impl FnOnce(&'a D) -> TaskRecordData<'a>) -> TaskRecordRef<'a> {
            TaskRecordRef { task: &record.task, origin: &record.origin, what: what(&record.data) }
        }
        match self {
            Self::Created(record) => news(record, TaskRecordData::Created),
            Self::Started(record) => news(record, TaskRecordData::Started),
            Self::Completed(record) => news(record, TaskRecordData::Completed),
            Self::Blocked(record) => news(record, TaskRecordData::Blocked),
            Self::Deleted(record) => news(record, TaskRecordData::Deleted),
            Self::Updated(record) => news(record, TaskRecordData::Updated),
            Self::DependencyAdded(record) => news(record, TaskRecordData::DependencyAdded),
            Self::DependencyRemoved(record) => news(record, TaskRecordData::DependencyRemoved),
            Self::DependencySatisfied(record) => news(record, TaskRecordData::DependencySatisfied),
            Self::AgentMetrics(record) => news(record, TaskRecordData::Metrics),
            Self::Custom(custom) => news(&custom.record, |data| TaskRecordData::Custom(&custom.kind, data)),
            Self::ActionError(record) => news(record, TaskRecordData::ActionFailed),
        }
    }

    /// The event as hooks are told of it.
    pub(crate) fn for_hooks(&self, at: UnixTime) -> Value {
        let record = serde_json::to_value(self).expect("records have no keys that are not text");
        json!({
            "type": record["kind"],
            "nodeId": record["task"],
            "timestamp": at.rfc3339(),
            "data": record["data"],
            "metadata": { "triggeredBy": record["by"] },
        })
    }
}

impl Event {
    /// What it says of a task, if it is about one.
    pub fn task_news(&self) -> Option<TaskRecordRef<'_>> {
        if let Self::Task(event) = self { Some(event.news()) } else { None }
    }
}

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
