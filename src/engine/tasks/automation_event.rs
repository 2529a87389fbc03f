//! The events of automation: due, decided, a hook failed.

use serde::{Deserialize, Serialize};

use crate::engine::{
    ids::TaskEventId,
    tasks::{action::AutomationAction, record as task},
};

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
