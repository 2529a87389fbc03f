//! The inputs of the engine: the results of its effects, and the commands of users, programs and agents.

use super::{
    conversation::{AgentPermissionRequest, AgentUpdate, TurnEnd, TurnFailure},
    event::{Actor, StopTiming, UserPresence},
    hooks::{point::HookPoint, verdict::RunResult},
    ids::{GateId, ItemId, RunId, TurnId},
    session::gate::GateChoice,
    stop::{registry::StopHookRegistration, rule::RuleCheckResult},
    submit::PipelineKind,
    tasks::command::TaskCommand,
};
use crate::engine::stop::agent_loop::LoopCommand;

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
    TurnEnded {
        turn: TurnId,
        end: TurnEnd,
    },
    TurnFailed {
        turn: TurnId,
        failure: TurnFailure,
    },
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
    Doomed(String),
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
    },
    /// The user wants to submit or merge the work of a session that has ended.
    Pipeline {
        pipeline: PipelineKind,
        /// Whether a user can answer this time.
        presence: UserPresence,
    },
}

/// A command to a session. It means the same for every actor.
#[derive(Debug, Clone, PartialEq)]
pub enum SessionCommand {
    /// Send no further prompt until [`Self::Unpause`].
    Pause,
    Unpause,
    Stop(StopTiming),
    /// Cancel this turn. The session pauses, unless a queued message can be sent instead. The iteration continues.
    CancelTurn,
    /// Send a message to the agent.
    Message(String),
    /// Do not send an item to the agent.
    SkipItem(ItemId),
    /// Undo a skip.
    RestoreItem(ItemId),
    /// Replace an item's text.
    EditItem(ItemId, String),
    AnswerGate(GateAnswer),
    /// Stop running a hook in this session; at all points, unless one is named.
    DisableHook(Option<HookPoint>, String),
    /// Undo [`Self::DisableHook`].
    EnableHook(Option<HookPoint>, String),
    /// Run a hook now, independently of the session's phase. Its verdict changes nothing, and its output is only shown.
    RunHook(Option<HookPoint>, String),
    CancelHook(RunId),
    Task(TaskCommand),
    /// Evaluate one more stop hook from now on.
    RegisterStopHook(StopHookRegistration),
    /// Remove all stop hooks that were registered for this task.
    ClearStopHooks(String),
    /// A command about a loop that an agent drives itself.
    Loop(LoopCommand),
    /// The agent reports that the session is complete, with its reason; the stop hooks evaluate that.
    CompleteSession(String),
    /// Submit or merge the work, between two iterations.
    Pipeline(PipelineKind),
    /// Send the turn that waits for a usage limit now.
    RetryNow,
    /// Give the turn that waits for a usage limit to another agent: the named one, or the next.
    SwitchAgent(Option<String>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateAnswer {
    pub gate: GateId,
    pub choice: GateChoice,
    /// The message, where the choice sends one; or the id of the agent's option, where it offers several of the same
    /// kind.
    pub text: Option<String>,
    /// The approved items. None: all.
    pub items: Option<Vec<ItemId>>,
}
