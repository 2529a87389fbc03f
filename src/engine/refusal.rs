//! Why creel refuses a command.
//!
//! Owns the reasons and their codes. The text for people is made in `present::refusals`, except for
//! tasks: the session also records why an action of a hook could not change a task, so
//! [`TaskRefusal`] has its text.
//!
//! # Invariants
//! - A code never changes its meaning: programs decide by it.

use crate::engine::{
    actor::{ActorKind, UserCommand},
    event::SessionOutcome,
    gate::kind::GateChoice,
    ids::{GateId, ItemId, RunId},
    queue::task_proposal::ProposalMistake,
    stop::agent_loop::LoopRefusal,
    submit::kind::PipelineKind,
    tasks::command::TaskRefusal,
};

/// Why the session refuses a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The session waits for no answer with this ticket.
    StaleTicket(String),
    /// `None`: the process that runs the session has left its loop, however that ended.
    SessionEnded(Option<SessionOutcome>),
    SessionEnding,
    /// An agent or a hook gave a command of the user.
    NotAllowed {
        actor: ActorKind,
        command: UserCommand,
    },
    /// Only the hook that creel added to the session's own agent asks this.
    NotTheAgent,
    AlreadyPaused,
    NotPaused,
    AlreadyStopping,
    AlreadyCompleting,
    NoTurn,
    NoSuchRun(RunId),
    EmptyMessage,
    EmptyGateMessage,
    /// The agent drives the session, so creel sends it no prompts.
    SelfDriven,
    NoSuchItem(ItemId),
    ItemInFlight(ItemId),
    ItemDelivered(ItemId),
    ItemAlreadySkipped(ItemId),
    ItemNotSkipped(ItemId),
    NoSuchHook(String),
    NotRunByHand {
        hook: String,
        why: ByHandObstacle,
    },
    NoSuchGate(GateId),
    GateAlreadyAnswered(GateId),
    ChoiceNotOffered {
        gate: GateId,
        choice: GateChoice,
        offered: Vec<GateChoice>,
    },
    ItemNotAtGate {
        gate: GateId,
        item: ItemId,
    },
    NoSuchOption {
        gate: GateId,
        choice: GateChoice,
        option: String,
        known: Vec<String>,
    },
    /// The answer does not fit the agent's question.
    BadAnswer {
        gate: GateId,
        why: String,
    },
    /// The changed tasks cannot be queued.
    BadProposal(Vec<ProposalMistake>),
    NoUsageLimit,
    /// A gate asks about the usage limit already.
    UsageLimitGate(GateId),
    AgentWorksAlready(String),
    NoFallbackAgent,
    /// Empty: creel cannot choose models for this agent.
    NoSuchModel {
        model: String,
        offered: Vec<String>,
    },
    UnknownFallbackAgent {
        agent: String,
        known: Vec<String>,
    },
    PipelineRunning(PipelineKind),
    PipelineRequested(PipelineKind),
    PipelineWhileEnding(PipelineKind),
    SessionNotEnded,
    SessionComplete,
    /// The resumed session asks nothing.
    NothingToAnswer,
    IterationLimitUsed(u32),
    NoSuchCheckpoint {
        number: u32,
        last: Option<u32>,
    },
    TooManyStopHooks {
        task: String,
        limit: usize,
    },
    Task(TaskRefusal),
    Loop(LoopRefusal),
}

/// Why a hook cannot run when the user asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByHandObstacle {
    ChecksTurns,
    DecidesIterations,
    AnswersTaskEvents,
    ReviewsPipelines,
    SeesToolCalls,
}

impl Refusal {
    /// The stable name of the reason, for programs.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::StaleTicket(_) => "stale_ticket",
            Self::SessionEnded(_) => "session_ended",
            Self::SessionEnding | Self::PipelineWhileEnding(_) => "session_ending",
            Self::NotAllowed { .. } => "not_allowed",
            Self::NotTheAgent => "not_the_agent",
            Self::AlreadyPaused => "already_paused",
            Self::NotPaused => "not_paused",
            Self::AlreadyStopping => "already_stopping",
            Self::AlreadyCompleting => "already_completing",
            Self::NoTurn => "no_turn",
            Self::NoSuchRun(_) => "no_such_run",
            Self::EmptyMessage | Self::EmptyGateMessage => "empty_message",
            Self::SelfDriven => "self_driven",
            Self::NoSuchItem(_) => "no_such_item",
            Self::ItemInFlight(_) => "item_in_flight",
            Self::ItemDelivered(_) => "item_delivered",
            Self::ItemAlreadySkipped(_) => "item_already_skipped",
            Self::ItemNotSkipped(_) => "item_not_skipped",
            Self::NoSuchHook(_) => "no_such_hook",
            Self::NotRunByHand { .. } => "not_run_by_hand",
            Self::NoSuchGate(_) => "no_such_gate",
            Self::GateAlreadyAnswered(_) => "gate_already_answered",
            Self::ChoiceNotOffered { .. } => "choice_not_offered",
            Self::ItemNotAtGate { .. } => "item_not_at_gate",
            Self::NoSuchOption { .. } => "no_such_option",
            Self::BadAnswer { .. } => "bad_answer",
            Self::BadProposal(_) => "bad_proposal",
            Self::NoUsageLimit => "no_usage_limit",
            Self::UsageLimitGate(_) => "usage_limit_gate_open",
            Self::AgentWorksAlready(_) => "agent_works_already",
            Self::NoFallbackAgent => "no_fallback_agent",
            Self::NoSuchModel { .. } => "no_such_model",
            Self::UnknownFallbackAgent { .. } => "unknown_fallback_agent",
            Self::PipelineRunning(_) => "pipeline_running",
            Self::PipelineRequested(_) => "pipeline_requested",
            Self::SessionNotEnded => "session_not_ended",
            Self::SessionComplete => "session_complete",
            Self::NothingToAnswer => "nothing_to_answer",
            Self::IterationLimitUsed(_) => "iteration_limit_used",
            Self::NoSuchCheckpoint { .. } => "no_such_checkpoint",
            Self::TooManyStopHooks { .. } => "too_many_stop_hooks",
            Self::Task(task) => task.code(),
            Self::Loop(about) => about.code(),
        }
    }
}

impl From<TaskRefusal> for Refusal {
    fn from(refusal: TaskRefusal) -> Self {
        Self::Task(refusal)
    }
}

impl From<LoopRefusal> for Refusal {
    fn from(refusal: LoopRefusal) -> Self {
        Self::Loop(refusal)
    }
}
