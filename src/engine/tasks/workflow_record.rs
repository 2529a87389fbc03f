//! The contents of workflow records: how a workflow started, the results of its steps, and how it
//! ended.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::engine::{hooks::verdict::RunEnd, ids::WorkflowRunId, tasks::record::ActionRef};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkflowStarted {
    pub flow: WorkflowRunId,
    pub workflow: String,
    /// The parameters of the action that started it.
    #[serde(default)]
    pub context: Value,
    /// The task whose event led to it.
    pub task: String,
    /// The action that it carries out.
    pub cause: ActionRef,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepEnded {
    pub flow: WorkflowRunId,
    pub step: String,
    #[serde(flatten)]
    pub result: StepResult,
    /// Whether the step was cut because creel died, and runs again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StepResult {
    pub ok: bool,
    /// None if the step ran no command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<RunEnd>,
    /// Truncated.
    pub stdout: String,
    /// Truncated.
    pub stderr: String,
    /// The task that the step created or changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkflowOutcome {
    Done,
    /// A step failed, and no step followed.
    Failed,
    /// The session was stopped.
    Cut,
}

impl StepResult {
    /// The value of `{{steps.NAME.…}}`, by its last part.
    pub(super) fn field(&self, name: &str) -> Option<String> {
        match name {
            "stdout" => Some(self.stdout.trim_end().to_owned()),
            "stderr" => Some(self.stderr.trim_end().to_owned()),
            "exit" => match self.end {
                Some(RunEnd::Exit(code)) => Some(code.to_string()),
                Some(
                    RunEnd::Signal(_) | RunEnd::TimedOut | RunEnd::SpawnFailed(_) | RunEnd::Cut,
                )
                | None => None,
            },
            "task" => self.task.clone(),
            _ => None,
        }
    }
}

/// The last parts of `{{steps.NAME.…}}`.
pub const FIELDS: [&str; 4] = ["stdout", "stderr", "exit", "task"];
