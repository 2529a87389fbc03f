//! A prompt, and what the agent does and says until its turn ends.

use crate::engine::{
    conversation::{
        AgentPermissionRequest, ContextUsage, ConversationMode, ForbiddenChanges, PlanEntry, StopReason, ToolCall,
        TurnUsage, WorktreeChanges,
    },
    ids::{ItemId, TurnId},
    time::TimeSpan,
};
use serde::{Deserialize, Serialize};

/// A prompt, and what the agent does and says until its turn ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum TurnEvent {
    #[serde(rename = "prompt_sent")]
    PromptSent(Box<PromptSent>),
    #[serde(rename = "agent_said")]
    AgentSaid { iteration: u32, turn: TurnId, text: String },
    #[serde(rename = "agent_thought")]
    AgentThought { iteration: u32, turn: TurnId, text: String },
    #[serde(rename = "tool_called")]
    ToolCalled {
        iteration: u32,
        turn: TurnId,
        #[serde(flatten)]
        tool: ToolCall,
    },
    #[serde(rename = "tool_updated")]
    ToolUpdated {
        iteration: u32,
        turn: TurnId,
        #[serde(flatten)]
        tool: ToolCall,
    },
    /// What the agent means to do; it replaces what it meant to do before.
    #[serde(rename = "agent_planned")]
    AgentPlanned { iteration: u32, turn: TurnId, entries: Vec<PlanEntry> },
    #[serde(rename = "agent_used")]
    AgentUsed {
        iteration: u32,
        turn: TurnId,
        #[serde(flatten)]
        context: ContextUsage,
    },
    /// Something of the agent's own affairs.
    #[serde(rename = "agent_noted")]
    AgentNoted { iteration: u32, turn: TurnId, what: String, text: String },
    /// The agent's own name for the conversation, by which it can be taken up again.
    #[serde(rename = "conversation_opened")]
    ConversationOpened { iteration: u32, turn: TurnId, conversation: String },
    /// The agent wants to do something and waits for leave.
    #[serde(rename = "permission_asked")]
    PermissionAsked {
        iteration: u32,
        turn: TurnId,
        #[serde(flatten)]
        ask: Box<AgentPermissionRequest>,
    },
    #[serde(rename = "turn_ended")]
    Ended {
        iteration: u32,
        turn: TurnId,
        stop_reason: StopReason,
        #[serde(flatten)]
        spent: TurnUsage,
        /// What became of the project's files meanwhile.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        work: Option<Box<WorktreeChanges>>,
        #[serde(flatten)]
        forbidden: ForbiddenChanges,
    },
    #[serde(rename = "turn_failed")]
    Failed {
        iteration: u32,
        turn: TurnId,
        error: String,
        /// How long the agent's server wants to be left alone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<TimeSpan>,
        /// Whether it reached a usage limit: then it is sent again, and counts as no error.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        usage_limit: bool,
        #[serde(flatten)]
        spent: TurnUsage,
        #[serde(flatten)]
        forbidden: ForbiddenChanges,
    },
}

/// A prompt as it went to the agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PromptSent {
    /// The iteration.
    pub iteration: u32,
    /// The ticket.
    pub turn: TurnId,
    /// Why it was sent.
    pub reason: PromptReason,
    /// All of it.
    pub text: String,
    /// The held items that it carries.
    pub items: Vec<ItemId>,
    /// Whether it opens a conversation.
    pub conversation: ConversationMode,
    /// How many of a person's messages it carries.
    #[serde(default)]
    pub messages: usize,
    /// The gatekeeper that it went to; the session's own agent, if unsaid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Whether it continues an iteration that was judged complete: the answer is checked and judged again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reopens: bool,
}

/// Why a prompt was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptReason {
    /// A new iteration.
    Iteration,
    /// A stop hook blocked.
    Feedback,
    /// A turn failed, and `on_error` had something to say.
    Recovery,
    /// The loop is over, and output was still held.
    FinalDelivery,
    /// A person said something.
    Message,
    /// A submit hook blocked.
    Remediation,
    /// A review is wanted.
    Gatekeeper,
}
