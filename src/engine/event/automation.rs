//! What automation hooks were asked, and what they answered.

use crate::engine::{
    ids::TaskEventId,
    tasks::{action::AutomationAction, record as task},
};
use serde::{Deserialize, Serialize};

/// What automation hooks were asked, and what they answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum AutomationEvent {
    /// An event of a task is looked at, and these automation hooks will be asked.
    #[serde(rename = "automation_due")]
    Due { event: TaskEventId, task: String, hooks: Vec<String> },
    /// An automation hook answered.
    #[serde(rename = "automation_decided")]
    Decided { event: TaskEventId, hook: String, actions: Vec<AutomationAction> },
    #[serde(rename = "hook_error")]
    HookError {
        task: String,
        data: task::HookErrorData,
        /// The event that an automation hook was told of.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        event: Option<TaskEventId>,
    },
}
