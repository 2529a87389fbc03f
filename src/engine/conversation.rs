//! What goes between creel and an agent: a prompt, what the agent does meanwhile, and how the turn ends.

use serde::{Deserialize, Serialize};

/// Whether a prompt opens a new conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Conversation {
    /// The agent starts with nothing but this prompt.
    New,
    /// The agent knows what was said before.
    Same,
}

/// Something that an agent did in the middle of a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentUpdate {
    /// Text of its answer, as it comes.
    Said(String),
    /// Text of its thinking, as it comes.
    Thought(String),
    /// A tool call began.
    ToolCalled(ToolCall),
    /// A tool call went on or ended.
    ToolUpdated(ToolCall),
    /// Something that a person should know.
    Warned(String),
}

/// A tool call and how far it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Its name within the session.
    pub call: String,
    /// What it does, for a person.
    pub title: String,
    /// How far it is.
    pub status: ToolStatus,
    /// What it printed or changed, limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

/// How far a tool call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    /// Announced.
    Pending,
    /// Running.
    InProgress,
    /// Done.
    Completed,
    /// Not done.
    Failed,
}

/// How a turn ended that ended by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnEnd {
    /// Why the agent stopped.
    pub stop_reason: StopReason,
    /// What it used, where known.
    pub tokens: Option<u64>,
}

/// Why an agent stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It had said what it wanted to say.
    EndTurn,
    /// It ran into its token limit.
    MaxTokens,
    /// It ran into its request limit.
    MaxTurnRequests,
    /// It refused.
    Refusal,
    /// A person or creel cancelled it.
    Cancelled,
}

/// Why a turn failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TurnFailure {
    /// What happened, why, and what to do.
    pub message: String,
}

impl TurnFailure {
    /// A failure with these words.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}
