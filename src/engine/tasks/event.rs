//! The events of the task graph, of its automation and of its workflows, and records under kinds of
//! hooks.

use crate::engine::{
    event::Event,
    ids::{RunId, TaskEventId, WorkflowRunId},
    tasks::{
        command::AutomationAction,
        record::{self as task, ChangeOrigin, DueHooks, TaskRecord, TaskRecordData, TaskRecordRef},
        workflow_record::{StepEnded, WorkflowOutcome, WorkflowStarted},
    },
    time::UnixTime,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

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

impl TaskEvent {
    /// The kinds of its records.
    pub(crate) const KINDS: &'static [&'static str] = &[
        "task_created",
        "task_started",
        "task_completed",
        "task_blocked",
        "task_deleted",
        "task_updated",
        "dependency_added",
        "dependency_removed",
        "dependency_satisfied",
        "agent_metrics",
        "action_error",
    ];
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

impl TaskEvent {
    pub fn news(&self) -> TaskRecordRef<'_> {
        fn news<'a, D>(
            record: &'a TaskRecord<D>,
            what: impl FnOnce(&'a D) -> TaskRecordData<'a>,
        ) -> TaskRecordRef<'a> {
            TaskRecordRef {
                task: &record.task,
                origin: &record.origin,
                what: what(&record.data),
            }
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
            Self::Custom(custom) => news(&custom.record, |data| {
                TaskRecordData::Custom(&custom.kind, data)
            }),
            Self::ActionError(record) => news(record, TaskRecordData::ActionFailed),
        }
    }

    fn origin_mut(&mut self) -> &mut ChangeOrigin {
        match self {
            Self::Created(record) => &mut record.origin,
            Self::Started(record) => &mut record.origin,
            Self::Completed(record) => &mut record.origin,
            Self::Blocked(record) => &mut record.origin,
            Self::Deleted(record) => &mut record.origin,
            Self::Updated(record) => &mut record.origin,
            Self::DependencyAdded(record) => &mut record.origin,
            Self::DependencyRemoved(record) => &mut record.origin,
            Self::DependencySatisfied(record) => &mut record.origin,
            Self::AgentMetrics(record) => &mut record.origin,
            Self::ActionError(record) => &mut record.origin,
            Self::Custom(custom) => &mut custom.record.origin,
        }
    }

    pub(crate) fn set_due(&mut self, due: Option<DueHooks>) {
        self.origin_mut().due = due;
    }

    /// The event as it was before creel decided which hooks it makes due.
    pub(crate) fn without_due(&self) -> Self {
        let mut event = self.clone();
        event.set_due(None);
        event
    }

    /// The event in the form that hooks receive.
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
    /// None for events that are not about a task.
    pub fn task_news(&self) -> Option<TaskRecordRef<'_>> {
        if let Self::Task(event) = self {
            Some(event.news())
        } else {
            None
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum AutomationEvent {
    /// creel processes a task event with these automation hooks.
    #[serde(rename = "automation_due")]
    Due {
        event: TaskEventId,
        task: String,
        hooks: Vec<String>,
    },
    #[serde(rename = "automation_decided")]
    Decided {
        event: TaskEventId,
        hook: String,
        actions: Vec<AutomationAction>,
    },
    #[serde(rename = "hook_error")]
    HookError {
        task: String,
        data: task::HookErrorData,
        /// The event that the automation hook received. None for an `on_task_complete` hook.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        event: Option<TaskEventId>,
    },
}

impl AutomationEvent {
    /// The kinds of its records.
    pub(crate) const KINDS: &'static [&'static str] =
        &["automation_due", "automation_decided", "hook_error"];
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum WorkflowEvent {
    #[serde(rename = "workflow_started")]
    Started(Box<WorkflowStarted>),
    #[serde(rename = "workflow_step_started")]
    StepStarted {
        flow: WorkflowRunId,
        step: String,
        run: RunId,
    },
    #[serde(rename = "workflow_step_ended")]
    StepEnded(Box<StepEnded>),
    #[serde(rename = "workflow_ended")]
    Ended {
        flow: WorkflowRunId,
        outcome: WorkflowOutcome,
    },
}

impl WorkflowEvent {
    /// The kinds of its records.
    pub(crate) const KINDS: &'static [&'static str] = &[
        "workflow_started",
        "workflow_step_started",
        "workflow_step_ended",
        "workflow_ended",
    ];
}
