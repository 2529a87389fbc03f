//! The result of one stop hook: complete, continue or escalate, with its reason.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopAction {
    Complete,
    Continue,
    /// The user has to look.
    Escalate,
}

impl StopAction {
    /// The name in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Continue => "continue",
            Self::Escalate => "escalate",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StopResult {
    pub action: StopAction,
    #[serde(default)]
    pub reason: String,
    /// Text for the agent's next prompt.
    #[serde(default, alias = "nextPrompt", skip_serializing_if = "Option::is_none")]
    pub next_prompt: Option<String>,
    #[serde(
        default,
        alias = "checkpointData",
        skip_serializing_if = "Option::is_none"
    )]
    pub checkpoint_data: Option<Value>,
    /// Other data of the hook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

impl StopResult {
    pub fn new(action: StopAction, reason: impl Into<String>) -> Self {
        Self {
            action,
            reason: reason.into(),
            next_prompt: None,
            checkpoint_data: None,
            metadata: None,
        }
    }

    /// The result of a broken hook.
    pub fn failed(error: &str) -> Self {
        let metadata = Map::from_iter([("error".to_owned(), Value::from(error))]);
        let reason = format!("Hook evaluation failed: {error}");
        Self {
            metadata: Some(metadata),
            ..Self::new(StopAction::Escalate, reason)
        }
    }

    /// Adds text for the agent's next prompt.
    #[must_use]
    pub fn telling(self, next_prompt: impl Into<String>) -> Self {
        Self {
            next_prompt: Some(next_prompt.into()),
            ..self
        }
    }
}
