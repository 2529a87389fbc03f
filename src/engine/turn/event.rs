//! The events of turns: a prompt, the agent's updates, and the end of the turn.

use serde::{Deserialize, Serialize};

use crate::engine::{
    conversation::{
        AgentPermissionRequest, ContextUsage, ConversationMode, ForbiddenChanges, PlanEntry,
        StopReason, ToolCall, TurnUsage, WorktreeChanges,
    },
    hooks::{claude::FailureCause, point::HookPoint},
    ids::{ItemId, PermissionId, RunId, TurnId},
    policy::PermissionPolicy,
    stored_form::known_or_none,
    time::TimeSpan,
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum TurnEvent {
    #[serde(rename = "prompt_sent")]
    PromptSent(Box<PromptSent>),
    #[serde(rename = "agent_said")]
    AgentSaid {
        iteration: u32,
        turn: TurnId,
        text: String,
    },
    #[serde(rename = "agent_thought")]
    AgentThought {
        iteration: u32,
        turn: TurnId,
        text: String,
    },
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
        /// Whether the hook that creel added to the agent reported its end.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        by_hook: bool,
    },
    /// The whole plan; it replaces the previous one.
    #[serde(rename = "agent_planned")]
    AgentPlanned {
        iteration: u32,
        turn: TurnId,
        entries: Vec<PlanEntry>,
    },
    #[serde(rename = "agent_used")]
    AgentUsed {
        iteration: u32,
        turn: TurnId,
        #[serde(flatten)]
        context: ContextUsage,
    },
    /// Another update of the agent, for example about its mode.
    #[serde(rename = "agent_noted")]
    AgentNoted {
        iteration: u32,
        turn: TurnId,
        what: String,
        text: String,
    },
    /// `conversation` is the agent's id for it, for resuming it later.
    #[serde(rename = "conversation_opened")]
    ConversationOpened {
        iteration: u32,
        turn: TurnId,
        conversation: String,
    },
    /// The agent waits for permission to do something.
    #[serde(rename = "permission_asked")]
    PermissionAsked {
        iteration: u32,
        turn: TurnId,
        #[serde(flatten)]
        ask: Box<AgentPermissionRequest>,
    },
    /// What the hooks decided about a call that the agent is about to make.
    #[serde(rename = "tool_decided")]
    ToolDecided {
        iteration: u32,
        turn: TurnId,
        ask: PermissionId,
        /// None: the agent continues by its own rules.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        action: Option<PermissionPolicy>,
        /// The hook that decided, and why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The agent gets an answer to its question that hooks have seen first.
    #[serde(rename = "question_answered")]
    QuestionAnswered {
        iteration: u32,
        turn: TurnId,
        ask: PermissionId,
        /// As a JSON object. None: declined.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<String>,
        /// The hook that changed it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hook: Option<String>,
    },
    /// The turn was cancelled, in a session with hooks of tool calls. Until it ends, creel answers no
    /// request and starts no such hook.
    #[serde(rename = "turn_cancelling")]
    Cancelling {
        iteration: u32,
        turn: TurnId,
        /// The hook that stopped the session, if that is why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stopped_by: Option<Box<StoppedByHook>>,
    },
    #[serde(rename = "turn_ended")]
    Ended {
        iteration: u32,
        turn: TurnId,
        stop_reason: StopReason,
        #[serde(flatten)]
        spent: TurnUsage,
        /// Changes to the project's files during the turn.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        work: Option<Box<WorktreeChanges>>,
        #[serde(flatten)]
        forbidden: ForbiddenChanges,
        /// Where the session continues. Journals of earlier versions do not say.
        #[serde(
            default,
            deserialize_with = "known_or_none",
            skip_serializing_if = "Option::is_none"
        )]
        next: Option<AfterTurn>,
    },
    #[serde(rename = "turn_failed")]
    Failed {
        iteration: u32,
        turn: TurnId,
        error: String,
        /// Why it failed, as far as its messages show.
        #[serde(default, skip_serializing_if = "FailureCause::is_unknown")]
        cause: FailureCause,
        /// How long the agent's server asks creel to wait.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<TimeSpan>,
        /// Whether it reached a usage limit: then it is sent again and does not count as an error.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        usage_limit: bool,
        #[serde(flatten)]
        spent: TurnUsage,
        /// Changes to the project's files during the turn.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        work: Option<Box<WorktreeChanges>>,
        #[serde(flatten)]
        forbidden: ForbiddenChanges,
        /// Where the session continues. Journals of earlier versions do not say.
        #[serde(
            default,
            deserialize_with = "known_or_none",
            skip_serializing_if = "Option::is_none"
        )]
        next: Option<AfterTurn>,
    },
}

/// A hook that stopped the session while the agent worked (`continue: false`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoppedByHook {
    pub point: HookPoint,
    pub hook: String,
    pub run: RunId,
    /// For the user.
    pub reason: String,
}

impl TurnEvent {
    /// The kinds of its records.
    pub(crate) const KINDS: &'static [&'static str] = &[
        "prompt_sent",
        "agent_said",
        "agent_thought",
        "tool_called",
        "tool_updated",
        "agent_planned",
        "agent_used",
        "agent_noted",
        "conversation_opened",
        "permission_asked",
        "tool_decided",
        "question_answered",
        "turn_cancelling",
        "turn_ended",
        "turn_failed",
    ];
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptSent {
    pub iteration: u32,
    pub turn: TurnId,
    pub reason: PromptReason,
    /// The whole text.
    pub text: String,
    /// The pending items that it carries.
    pub items: Vec<ItemId>,
    pub conversation: ConversationMode,
    /// How many queued messages it carries.
    #[serde(default)]
    pub messages: usize,
    /// The gatekeeper that it was sent to. None: the session's agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The model that creel chose for it. None: the agent's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whether it continues an iteration that was already complete: the answer is checked and
    /// evaluated again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reopens: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptReason {
    Iteration,
    /// A stop hook blocked.
    Feedback,
    /// A turn failed, and `on_error` had output for the agent.
    Recovery,
    /// The loop has ended, and there were pending items.
    FinalDelivery,
    /// A message of the user, the agent or a hook.
    Message,
    /// A submit hook blocked.
    Remediation,
    /// News of the pull request.
    News,
    /// A review is due.
    Gatekeeper,
}

/// Where a session continues when a turn has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterTurn {
    /// The stop hooks check the turn.
    StopHooks,
    /// The hooks for failed turns run.
    OnError,
    /// A message to the agent is sent.
    Message,
    /// The same turn is sent again.
    Again,
    /// The user cancelled the turn: it is sent again unless the user writes something else.
    Cancelled,
    /// The iteration is over, as failed.
    IterationFailed,
    /// The checks of a submit or a merge run again.
    Pipeline,
    /// The loop had ended: pending items are sent, then the session ends.
    Delivery,
    /// A gatekeeper's answer is read.
    Review,
}
