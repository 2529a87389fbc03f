//! The commands of an agent about its own loops.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{context::AgentDraft, promise::Promise};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoopCommand {
    Start {
        task: String,
        max_iterations: u32,
        /// The promises that count. Empty: all.
        promises: Vec<Promise>,
    },
    /// Evaluate the iteration.
    Judge(Box<EvaluationRequest>),
    /// Start the next iteration.
    Next {
        id: String,
        checkpoint: Option<Value>,
    },
    /// Complete the task.
    Complete { id: String, promise: Promise },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EvaluationRequest {
    #[serde(rename = "loop")]
    pub id: String,
    /// The agent's message.
    #[serde(default, rename = "said")]
    pub agent_text: String,
    /// The changed files, as the agent reports them.
    #[serde(default)]
    pub files: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draft: Option<AgentDraft>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Value>,
    pub rules: RuleCheckMode,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleCheckMode {
    /// Check the rules first, on this iteration's state.
    Check,
    /// Use the last results.
    AsLast,
}
