//! The actions that automation hooks request: parsing a hook's answer, and the record that each
//! action becomes.
//!
//! # Invariants
//! - An action becomes one record: its result, or an `action_error` with the reason. A failed
//!   action does not prevent the others.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::engine::hooks::verdict::{RunEnd, RunResult};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AutomationAction {
    /// The name of the action. It is checked when the action is carried out.
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub payload: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionType {
    CreateTask,
    UpdateTask,
    ExecuteWorkflow,
    /// Records an event of any type.
    Log,
}

impl ActionType {
    pub(super) const ALL: [Self; 4] = [
        Self::CreateTask,
        Self::UpdateTask,
        Self::ExecuteWorkflow,
        Self::Log,
    ];

    /// The name in answers and records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CreateTask => "create_task",
            Self::UpdateTask => "update_task",
            Self::ExecuteWorkflow => "execute_workflow",
            Self::Log => "log",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl AutomationAction {
    pub fn new(kind: ActionType, payload: Value) -> Self {
        Self {
            kind: kind.name().to_owned(),
            payload,
        }
    }
}

/// The actions that a run requests, or what is wrong with its answer. Empty output requests
/// nothing.
pub(super) fn answered(result: &RunResult) -> Result<Vec<AutomationAction>, ActionAnswerError> {
    if result.end != RunEnd::Exit(0) {
        let output = result.stderr.lines().rfind(|line| !line.trim().is_empty());
        let output = output.map(|output| output.trim().to_owned());
        return Err(ActionAnswerError::HookFailed {
            end: result.end.describe(),
            output,
        });
    }
    let Some(text) = &result.answer else {
        return Err(ActionAnswerError::TooLong);
    };
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    read(text).ok_or(ActionAnswerError::Malformed)
}

/// Why an automation hook gave no list of actions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ActionAnswerError {
    #[error("{end}{}", output.as_ref().map(|output| format!(": {output}")).unwrap_or_default())]
    HookFailed { end: String, output: Option<String> },
    #[error("its answer is too long")]
    TooLong,
    #[error(
        "its answer is not a JSON list of actions: [{{\"type\": …, \"payload\": …}}] or {{\"actions\": […]}}"
    )]
    Malformed,
}

fn read(text: &str) -> Option<Vec<AutomationAction>> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum ActionList {
        List(Vec<AutomationAction>),
        Object { actions: Vec<AutomationAction> },
    }
    Some(match serde_json::from_str(text).ok()? {
        ActionList::List(actions) | ActionList::Object { actions } => actions,
    })
}
