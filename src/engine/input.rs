//! The inputs of the engine: the results of its effects, and the commands of users, programs and
//! agents.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::engine::{
    actor::UserCommand,
    conversation::{
        AgentPermissionRequest, AgentUpdate, ForbiddenChanges, ToolCall, TurnEnd, TurnFailure,
    },
    event::{Actor, StopTiming, UserPresence},
    gate::kind::GateChoice,
    hooks::{point::HookPoint, verdict::RunResult},
    ids::{GateId, ItemId, PermissionId, RunId, TurnId},
    session::event::ResumeAnswer,
    stop::{agent_loop::LoopCommand, chain::StopHookRegistration, context::RuleCheckResult},
    submit::kind::PipelineKind,
    tasks::command::TaskCommand,
    verify::WorkMeasurement,
    watch::forge::{ForgeAnswer, ForgeFailure, ForgeReading},
};

#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// Nothing new: decide the next step that the state allows.
    Proceed,
    HookFinished {
        run: RunId,
        result: Box<RunResult>,
    },
    RuleChecked {
        run: RunId,
        result: Box<RuleCheckResult>,
    },
    /// The agent reported something during its turn.
    Agent {
        turn: TurnId,
        update: AgentUpdate,
    },
    /// The agent waits for permission to do something.
    PermissionAsked {
        turn: TurnId,
        ask: Box<AgentPermissionRequest>,
    },
    /// The agent's own hook no longer waits for an answer about a call.
    ToolHookGone(PermissionId),
    TurnEnded {
        turn: TurnId,
        end: TurnEnd,
    },
    TurnFailed {
        turn: TurnId,
        failure: TurnFailure,
    },
    /// The runtime has compared the work with its state at the last look.
    WorkMeasured(WorkMeasurement),
    ForgeRead {
        pull_request: String,
        result: Box<Result<ForgeReading, ForgeFailure>>,
    },
    NewsAnswered {
        answer: Box<ForgeAnswer>,
        result: Result<(), ForgeFailure>,
    },
    /// Files that agents must not change have changed since the last look, or creel could not
    /// compare them. The runtime looks before a step that asks for it: see
    /// [`super::EngineOutput::compares`].
    FilesCompared(ForbiddenChanges),
    /// The runtime started a process of the session.
    ProcessStarted {
        /// The process id, which is also the id of its process group.
        pid: i32,
        /// The start time, in the kernel's units.
        started: u64,
    },
    /// A warning for the user, from outside the engine.
    Warned(String),
    /// The project's folder or the disk is gone: the session cannot continue.
    CannotContinue(String),
    Command {
        by: Actor,
        command: SessionCommand,
    },
    /// The session continues after it was interrupted or had ended.
    Resume {
        /// Whether a user can answer this time.
        presence: UserPresence,
        /// Replaces the session's iteration limit. None: the limit stays.
        max_iterations: Option<u32>,
        /// The checkpoint whose content the agent gets. None: no checkpoint was chosen.
        checkpoint: Option<u32>,
        /// The answer to the gate at which the session stopped. None: the gate opens, and waits.
        answer: Option<ResumeAnswer>,
    },
    /// The user wants to submit or merge the work of a session that has ended.
    Pipeline {
        pipeline: PipelineKind,
        /// Whether the session then waits until the pull request is merged, whatever the plan says.
        until_merged: bool,
        /// Whether a user can answer this time.
        presence: UserPresence,
    },
}

/// A command to a session. It means the same whether the screen, the command line, the control
/// socket, NATS or an MCP tool sends it, and it is written the same everywhere:
/// `{"do":"message","text":"…"}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum SessionCommand {
    /// Send no further prompt until [`Self::Unpause`].
    Pause,
    /// Resume a paused session.
    Unpause,
    /// End the session.
    Stop {
        #[serde(default = "after_iteration")]
        how: StopTiming,
    },
    /// End this turn. The session pauses, unless there is a message to send instead. The iteration
    /// continues.
    CancelTurn,
    /// Queue a message for the agent.
    Message { text: String },
    /// Use this model for the next prompts. None: as planned.
    SetModel {
        #[serde(default)]
        model: Option<String>,
    },
    /// Do not send an item to the agent.
    #[serde(rename = "pending_skip")]
    SkipItem { item: ItemId },
    /// Undo a skip.
    #[serde(rename = "pending_restore")]
    RestoreItem { item: ItemId },
    /// Replace the text of an item.
    #[serde(rename = "pending_edit")]
    EditItem { item: ItemId, text: String },
    /// Answer a gate. The first answer counts.
    #[serde(rename = "gate_answer")]
    AnswerGate(GateAnswer),
    /// Do not run a hook any more in this session; at all points, unless one is named.
    #[serde(rename = "hook_disable")]
    DisableHook {
        hook: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        point: Option<HookPoint>,
    },
    /// Run a disabled hook again.
    #[serde(rename = "hook_enable")]
    EnableHook {
        hook: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        point: Option<HookPoint>,
    },
    /// Run a hook now, beside everything else. Its verdict changes nothing, and its output is only
    /// shown.
    #[serde(rename = "hook_run")]
    RunHook {
        hook: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        point: Option<HookPoint>,
    },
    /// End a hook that runs.
    #[serde(rename = "hook_cancel")]
    CancelHook { run: RunId },
    /// Change the task graph. The reply to a new task is `added`, its name.
    Task { task: TaskCommand },
    /// Register another stop hook. The reply is `stop_hooks`, with this one only.
    #[serde(rename = "stop_hook_register")]
    RegisterStopHook(StopHookRegistration),
    /// Remove the stop hooks that were registered for this task. The reply is `cleared`, their
    /// number.
    #[serde(rename = "stop_hooks_clear")]
    ClearStopHooks { task: String },
    /// Start, evaluate, advance or complete a loop that the agent drives. The reply is
    /// `agent_loop`, or `judged` after an evaluation.
    Loop { about: LoopCommand },
    /// The agent reports that the session is complete, and why; the stop hooks decide.
    #[serde(rename = "session_complete")]
    CompleteSession {
        #[serde(default)]
        reason: String,
    },
    /// Submit or merge the work, between two iterations.
    Pipeline { pipeline: PipelineKind },
    /// Decide a call that the agent is about to make. Only the hook that creel added to the session's
    /// own agent gives it, and the reply is `tool_decided`.
    DecideTool {
        /// The runtime's id for the answer.
        #[serde(skip)]
        ask: PermissionId,
        call: Box<ToolCall>,
        /// The call's input, instead of as a text in it, where it would be escaped twice.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<Value>,
        /// Whether the call's record is truncated.
        #[serde(skip)]
        shortened: bool,
        /// Whether hooks get the whole input nevertheless.
        #[serde(skip)]
        whole: bool,
        /// The fingerprint of the whole input.
        #[serde(skip)]
        digest: Option<String>,
    },
    /// A call of the agent has ended, as that hook reports.
    ToolEnded { call: Box<ToolCall> },
    /// Send the turn that waits for a usage limit at once.
    RetryNow,
    /// Give the turn that waits for a usage limit to another agent: this one, or the next.
    SwitchAgent {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<String>,
    },
}

const fn after_iteration() -> StopTiming {
    StopTiming::AfterIteration
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateAnswer {
    pub gate: GateId,
    pub choice: GateChoice,
    /// The message, if the choice sends one; at a permission gate the agent's own name of an
    /// option.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The approved items; all of them if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<Vec<ItemId>>,
}

impl SessionCommand {
    /// The user command that this is. None if the session's own agent and hooks can give it as
    /// well.
    pub const fn of_the_user(&self) -> Option<UserCommand> {
        let of_the_agent = matches!(
            self,
            Self::Task { .. }
                | Self::RegisterStopHook(_)
                | Self::ClearStopHooks { .. }
                | Self::Loop { .. }
                | Self::CompleteSession { .. }
                | Self::DecideTool { .. }
                | Self::ToolEnded { .. }
        );
        if of_the_agent {
            None
        } else {
            Some(self.in_another_session())
        }
    }

    /// Whether only the session's own agent gives it, through the hook that creel added to it.
    pub(crate) const fn is_of_agent_hook(&self) -> bool {
        matches!(self, Self::DecideTool { .. } | Self::ToolEnded { .. })
    }

    /// The user command that this is for an agent or a hook of another session.
    pub const fn in_another_session(&self) -> UserCommand {
        match self {
            Self::Pause => UserCommand::Pause,
            Self::Unpause => UserCommand::Unpause,
            Self::Stop { .. } | Self::Loop { .. } | Self::CompleteSession { .. } => {
                UserCommand::Stop
            }
            Self::CancelTurn => UserCommand::Cancel,
            Self::Message { .. } => UserCommand::Message,
            Self::SkipItem { .. } | Self::RestoreItem { .. } | Self::EditItem { .. } => {
                UserCommand::Pending
            }
            // A gate may ask about these, too.
            Self::AnswerGate(_)
            | Self::RetryNow
            | Self::SwitchAgent { .. }
            | Self::SetModel { .. }
            | Self::DecideTool { .. }
            | Self::ToolEnded { .. } => UserCommand::Gate,
            Self::DisableHook { .. }
            | Self::EnableHook { .. }
            | Self::RunHook { .. }
            | Self::CancelHook { .. }
            | Self::RegisterStopHook(_)
            | Self::ClearStopHooks { .. } => UserCommand::Hooks,
            Self::Pipeline {
                pipeline: PipelineKind::Submit,
            } => UserCommand::Submit,
            Self::Pipeline {
                pipeline: PipelineKind::Merge,
            } => UserCommand::Merge,
            Self::Task { .. } => UserCommand::Task,
        }
    }
}
