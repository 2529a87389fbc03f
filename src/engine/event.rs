//! What happened: the lines of the journal, and the only thing that changes state.
//!
//! The fields that other programs rely on are fixed; more may be added. A kind that a reader does not know is
//! [`Event::Unknown`], and changes nothing. Hooks log events of their own kinds as [`Event::Custom`].

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

pub use super::actor::{Actor, ActorKind};
use super::{
    conversation::{
        AgentPermissionRequest, ContextUsage, ConversationMode, ForbiddenChanges, PlanEntry, StopReason, ToolCall,
        TurnUsage, WorktreeChanges,
    },
    hooks::{
        point::HookPoint,
        verdict::{BuiltinOutcome, HookReply, RunEnd, Verdict},
    },
    ids::{GateId, ItemId, PermissionId, RunId, TaskEventId, TurnId, WorkflowRunId},
    policy::{SessionPlan, StopHook},
    session::gate::{GateChoice, GateKind},
    stop::{StopAction, StopResult, checkpoint::Checkpoint, promise::Promise},
    submit::{PipelineKind, PipelineOutcome, review::GatekeeperReview},
    tasks::{
        action::AutomationAction,
        record::{self as task, TaskRecord},
        workflow::{StepEnded, WorkflowOutcome, WorkflowStarted},
    },
    time::{TimeSpan, UnixTime, as_rfc3339, rfc3339_or_none},
};
use crate::engine::stop::agent_loop::EvaluationRequest;

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", remote = "Self")]
pub enum Event {
    SessionStarted(Box<SessionStarted>),
    SessionResumed {
        /// What was in flight when the session was cut off.
        cut: Vec<String>,
        presence: UserPresence,
        /// A new limit, if one was given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_iterations: Option<u32>,
        /// The checkpoint that the agent is told of.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        checkpoint: Option<u32>,
        /// Whether it is still paused.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        paused: bool,
    },
    IterationStarted {
        iteration: u32,
    },
    IterationCompleted {
        iteration: u32,
        outcome: IterationOutcome,
    },
    /// A point was reached, and these hooks will run there.
    HooksDue {
        point: HookPoint,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        iteration: Option<u32>,
        hooks: Vec<String>,
        /// The task whose event it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<String>,
        /// Whether a person asked for it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        by_hand: bool,
    },
    /// A person wants a hook to run now.
    HookRequested {
        point: HookPoint,
        hook: String,
        #[serde(flatten)]
        by: Actor,
    },
    HookStarted {
        run: RunId,
        point: HookPoint,
        hook: String,
        iteration: u32,
        /// Retries so far.
        attempt: u32,
        /// Whether it runs beside the main line.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        beside: bool,
        /// The agent's own loop that it judges.
        #[serde(default, rename = "loop", skip_serializing_if = "Option::is_none")]
        of: Option<String>,
    },
    HookFinished(Box<HookFinished>),
    HookDisabled {
        point: HookPoint,
        hook: String,
        #[serde(flatten)]
        by: Actor,
    },
    HookEnabled {
        point: HookPoint,
        hook: String,
        #[serde(flatten)]
        by: Actor,
    },
    PendingAdded {
        item: ItemId,
        run: RunId,
        point: HookPoint,
        hook: String,
        iteration: u32,
        bytes: usize,
        text: String,
    },
    PendingSkipped {
        item: ItemId,
        #[serde(flatten)]
        by: Actor,
    },
    PendingRestored {
        item: ItemId,
        #[serde(flatten)]
        by: Actor,
    },
    PendingEdited {
        item: ItemId,
        #[serde(flatten)]
        by: Actor,
        text: String,
    },
    PromptSent(Box<PromptSent>),
    AgentSaid {
        iteration: u32,
        turn: TurnId,
        text: String,
    },
    AgentThought {
        iteration: u32,
        turn: TurnId,
        text: String,
    },
    ToolCalled {
        iteration: u32,
        turn: TurnId,
        #[serde(flatten)]
        tool: ToolCall,
    },
    ToolUpdated {
        iteration: u32,
        turn: TurnId,
        #[serde(flatten)]
        tool: ToolCall,
    },
    /// What the agent means to do; it replaces what it meant to do before.
    AgentPlanned {
        iteration: u32,
        turn: TurnId,
        entries: Vec<PlanEntry>,
    },
    AgentUsed {
        iteration: u32,
        turn: TurnId,
        #[serde(flatten)]
        context: ContextUsage,
    },
    /// Something of the agent's own affairs.
    AgentNoted {
        iteration: u32,
        turn: TurnId,
        what: String,
        text: String,
    },
    /// The agent's own name for the conversation, by which it can be taken up again.
    ConversationOpened {
        iteration: u32,
        turn: TurnId,
        conversation: String,
    },
    /// The agent wants to do something and waits for leave.
    PermissionAsked {
        iteration: u32,
        turn: TurnId,
        #[serde(flatten)]
        ask: Box<AgentPermissionRequest>,
    },
    TurnEnded {
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
    TurnFailed {
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
    LimitReached(Box<LimitReached>),
    AgentSwitched {
        from: String,
        to: String,
        reason: String,
        /// The user who wanted it; creel itself, if unsaid.
        #[serde(flatten, default)]
        by: Option<Actor>,
    },
    WaitSkipped {
        #[serde(flatten)]
        by: Actor,
    },
    Delivered {
        items: Vec<ItemId>,
    },
    RetryCounted {
        used: u32,
        limit: u32,
        hook: String,
        reason: String,
        no_progress: bool,
    },
    RetryLimitReached {
        used: u32,
        limit: u32,
        hook: String,
    },
    /// The session waits before it tries again.
    BackoffStarted {
        wait_ms: TimeSpan,
        until: UnixTime,
    },
    GateOpened {
        gate: GateId,
        about: GateKind,
        choices: Vec<GateChoice>,
        /// Why the session waits, in words.
        reason: String,
        /// The hook that it is about.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hook: Option<String>,
        /// The held items that it is about.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        items: Vec<ItemId>,
        /// The agent's request that it is about.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ask: Option<PermissionId>,
    },
    GateAnswered {
        gate: GateId,
        choice: GateChoice,
        #[serde(flatten)]
        by: Actor,
        /// Which of the agent's options was taken.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        option: Option<String>,
    },
    /// These rules are about to be checked.
    RulesDue {
        iteration: u32,
        rules: Vec<String>,
        /// The loop that it is about; the main line, if none.
        #[serde(default, rename = "loop", skip_serializing_if = "Option::is_none")]
        of: Option<String>,
    },
    RuleStarted {
        run: RunId,
        rule: String,
        iteration: u32,
        #[serde(default, rename = "loop", skip_serializing_if = "Option::is_none")]
        of: Option<String>,
    },
    RuleChecked {
        run: RunId,
        rule: String,
        iteration: u32,
        passed: bool,
        message: String,
        took_ms: TimeSpan,
        /// How its command ended, if it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        end: Option<RunEnd>,
        /// The file with all that its command printed, relative to the session's folder.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file: Option<String>,
        #[serde(default, rename = "loop", skip_serializing_if = "Option::is_none")]
        of: Option<String>,
    },
    StopDecided(Box<StopDecided>),
    Checkpoint(Box<Checkpoint>),
    /// A stop hook was registered for a task, or for the session.
    StopHookRegistered {
        hook_id: String,
        task: String,
        hook: Box<StopHook>,
        metadata: Map<String, Value>,
        #[serde(flatten)]
        by: Actor,
    },
    StopHooksCleared {
        task: String,
        hooks: Vec<String>,
        #[serde(flatten)]
        by: Actor,
    },
    /// An agent leads a loop of its own over a task.
    AgentLoopStarted {
        loop_id: String,
        task: String,
        max_iterations: u32,
        promises: Vec<Promise>,
        #[serde(flatten)]
        by: Actor,
    },
    AgentLoopAdvanced {
        loop_id: String,
        iteration: u32,
        #[serde(flatten)]
        by: Actor,
    },
    /// An agent wants to know whether its work is done.
    JudgementAsked {
        iteration: u32,
        #[serde(flatten)]
        asked: Box<EvaluationRequest>,
        #[serde(flatten)]
        by: Actor,
    },
    AgentLoopEnded {
        loop_id: String,
        task: String,
        iterations: u32,
        promise: Promise,
        #[serde(flatten)]
        by: Actor,
    },
    /// The agent says that the session is complete; the stop hooks judge that.
    CompletionPromised {
        reason: String,
        #[serde(flatten)]
        by: Actor,
    },
    TaskCreated(Box<TaskRecord<task::TaskCreated>>),
    TaskStarted(TaskRecord<task::TaskStarted>),
    TaskCompleted(Box<TaskRecord<task::TaskCompleted>>),
    TaskBlocked(TaskRecord<task::TaskBlocked>),
    TaskDeleted(TaskRecord<task::TaskDeleted>),
    TaskUpdated(Box<TaskRecord<task::TaskUpdated>>),
    DependencyAdded(TaskRecord<task::EdgeAdded>),
    DependencyRemoved(TaskRecord<task::EdgeRemoved>),
    DependencySatisfied(TaskRecord<task::DependencySatisfied>),
    AgentMetrics(Box<TaskRecord<Map<String, Value>>>),
    /// Something that a hook logged under a kind of its own; it has no name here, since its record has its own.
    #[serde(skip)]
    Custom(Box<CustomRecord>),
    ActionError(Box<TaskRecord<task::ActionErrorData>>),
    WorkflowStarted(Box<WorkflowStarted>),
    WorkflowStepStarted {
        flow: WorkflowRunId,
        step: String,
        run: RunId,
    },
    WorkflowStepEnded(Box<StepEnded>),
    WorkflowEnded {
        flow: WorkflowRunId,
        outcome: WorkflowOutcome,
    },
    HookError {
        task: String,
        data: task::HookErrorData,
        /// The event that an automation hook was told of.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        event: Option<TaskEventId>,
    },
    /// An event of a task is looked at, and these automation hooks will be asked.
    AutomationDue {
        event: TaskEventId,
        task: String,
        hooks: Vec<String>,
    },
    /// An automation hook answered.
    AutomationDecided {
        event: TaskEventId,
        hook: String,
        actions: Vec<AutomationAction>,
    },
    /// Somebody wants the work to be submitted or merged.
    PipelineRequested {
        pipeline: PipelineKind,
        #[serde(flatten)]
        by: Actor,
    },
    PipelineStarted {
        pipeline: PipelineKind,
        presence: UserPresence,
    },
    /// A check failed, and the agent is asked to repair it.
    RemediationCounted {
        pipeline: PipelineKind,
        used: u32,
        limit: u32,
        hook: String,
        reason: String,
    },
    /// The change that agents review was read.
    ReviewStarted {
        run: RunId,
        hook: String,
        change: String,
        /// The last commit of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        commit: Option<String>,
    },
    /// A gatekeeper has said what it thinks.
    Reviewed {
        run: RunId,
        #[serde(flatten)]
        said: GatekeeperReview,
    },
    PipelineEnded {
        pipeline: PipelineKind,
        outcome: PipelineOutcome,
        reason: String,
        /// Who left it at a failure.
        #[serde(flatten)]
        by: Option<Actor>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pull_request: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        merged: Option<String>,
    },
    Paused {
        #[serde(flatten)]
        by: Actor,
        /// The turn that was cancelled, if that is why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        turn: Option<TurnId>,
    },
    Unpaused {
        #[serde(flatten)]
        by: Actor,
    },
    MessageQueued {
        #[serde(flatten)]
        by: Actor,
        text: String,
    },
    StopRequested {
        #[serde(flatten)]
        by: Actor,
        how: StopTiming,
    },
    Warning {
        text: String,
    },
    /// A process that belongs to the session was started; told so that a later creel can find it.
    ProcessStarted {
        pid: i32,
        /// When it was started, in the kernel's own units: tells it apart from a later process of that number.
        started: u64,
    },
    /// The loop is over; what is left is the final delivery, if there is one, and `session_end`.
    LoopEnded {
        outcome: SessionOutcome,
        reason: String,
        delivery: FinalDeliveryMode,
    },
    SessionEnded {
        outcome: SessionOutcome,
        iterations: u32,
        reason: String,
    },
    /// A kind of a later version.
    #[serde(other)]
    Unknown,
}

/// What the kinds of events that hooks log begin with.
pub const CUSTOM: &str = "custom.";

/// An event that a hook logged under a kind of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CustomRecord {
    /// The kind, with its prefix `custom.`.
    pub kind: String,
    /// What it says.
    #[serde(flatten)]
    pub record: TaskRecord<Map<String, Value>>,
}

// By hand, because the kind of a custom event is not a name that the derived code could know.
impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Self::Custom(custom) = self { custom.serialize(serializer) } else { Self::serialize(self, serializer) }
    }
}

/// Custom events are read as [`Event::Unknown`] here: see [`Event::read_custom`].
impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(deserializer)
    }
}

impl Event {
    /// Whether creel itself has records of that kind.
    pub fn is_own_kind(kind: &str) -> bool {
        let read: Result<Self, _> = serde_json::from_value(serde_json::json!({ "kind": kind }));
        !matches!(read, Ok(Self::Unknown))
    }

    /// Reads the line of a custom event.
    pub fn read_custom(line: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(line).map(|custom| Self::Custom(Box::new(custom)))
    }
}

/// How a session began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionStarted {
    /// The agent's name.
    pub agent: String,
    /// The project's folder.
    pub cwd: String,
    /// The goal.
    pub prompt: String,
    /// How many iterations there may be.
    pub max_iterations: u32,
    /// Names this session among all that ever had its name.
    pub id: String,
    /// What the jitter of waits is drawn from.
    pub seed: u64,
    /// Whether somebody is there to answer.
    pub presence: UserPresence,
    /// The rules.
    pub plan: SessionPlan,
    /// All that it is for, if that is not to work on a goal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errand: Option<PipelineKind>,
    /// The task of a queue that it works on, if it does: see [`crate::engine::queue::QueuedTask::mark`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
}

/// How a run ended and what it means.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HookFinished {
    /// The ticket.
    pub run: RunId,
    /// Where.
    pub point: HookPoint,
    /// Which.
    pub hook: String,
    /// When.
    pub iteration: u32,
    /// How it ended.
    pub end: RunEnd,
    /// How long it took.
    pub took_ms: TimeSpan,
    /// What it means.
    pub verdict: Verdict,
    /// Standard output, limited.
    pub stdout: String,
    /// Standard error, limited.
    pub stderr: String,
    /// How much the limits left out.
    pub omitted_bytes: u64,
    /// Whether its text goes to the agent.
    pub piped: bool,
    /// The JSON that it answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<HookReply>,
    /// What it decided, where it is a stop decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Box<StopResult>>,
    /// The file with all of the output, relative to the session's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// What a built-in hook came to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<BuiltinOutcome>,
    /// Whether it was cut off with the session, and runs again when that is resumed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
}

/// What was decided about an iteration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StopDecided {
    /// The iteration.
    pub iteration: u32,
    /// Who decided.
    pub hook: String,
    /// What.
    pub action: StopAction,
    /// Why.
    pub reason: String,
    /// What the agent is told with its next prompt.
    pub next_prompt: Option<String>,
    /// The task that the hook judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The tasks that are blocked by it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocked: Vec<String>,
    /// Everybody who was asked, with what they said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<(String, StopAction)>,
    /// What else the hook said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// The agent's own loop that it is about; the main line, if none.
    #[serde(default, rename = "loop", skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
}

/// An agent reached a usage limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitReached {
    /// Which agent.
    pub agent: String,
    /// When the limit resets, where the agent or its server says so.
    #[serde(default, with = "rfc3339_or_none", skip_serializing_if = "Option::is_none")]
    pub resets_at: Option<UnixTime>,
    /// When the session sends the turn again, unless another agent takes it or the user decides.
    #[serde(with = "as_rfc3339")]
    pub until: UnixTime,
    /// What the session does meanwhile.
    pub action: LimitAction,
}

/// What a session does when its agent reached a usage limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitAction {
    /// It waits.
    Wait,
    /// It asks the user.
    Ask,
    /// Another agent takes the turn.
    Switch,
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

/// How an iteration ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IterationOutcome {
    /// Its last turn ended well and nothing blocked it.
    Done,
    /// A turn failed or was cancelled.
    Failed,
    /// Its last turn was blocked and accepted all the same.
    Forced,
}

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionOutcome {
    /// Done.
    Complete,
    /// The last iteration was accepted at the retry limit.
    Forced,
    /// No iterations are left.
    Limit,
    /// A person has to look at it.
    Escalated,
    /// A person, or the policy at the retry limit, gave it up.
    Aborted,
    /// Too many turns failed.
    Failed,
    /// A person stopped it.
    Cancelled,
}

/// Whether what is still held is delivered after the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinalDeliveryMode {
    /// If there is something, and the policy or a person says so.
    Offer,
    /// The agent is not to be bothered any more.
    No,
}

/// Whether somebody is there to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UserPresence {
    /// A person watches.
    Attended,
    /// Nobody does; gates take their policy answer.
    Unattended,
}

/// When a stop takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopTiming {
    /// When this iteration is completed; what is held is still delivered.
    AfterIteration,
    /// At once: the turn is cancelled and nothing more is delivered.
    Now,
}
