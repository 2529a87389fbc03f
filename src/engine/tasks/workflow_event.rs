//! The events of workflows: started, a step started or ended, ended.

use serde::{Deserialize, Serialize};

use crate::engine::{
    ids::{RunId, WorkflowRunId},
    tasks::workflow_record::{StepEnded, WorkflowOutcome, WorkflowStarted},
};

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
