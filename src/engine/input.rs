//! What the engine is told: answers to its effects, and what people ask for.

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

/// One thing that the engine is told.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// Nothing new: go on as far as the state allows.
    Proceed,
    /// A hook ended.
    HookFinished {
        /// The ticket.
        run: RunId,
        /// How.
        result: Box<RunResult>,
    },
    /// A rule was checked.
    RuleChecked {
        /// The ticket.
        run: RunId,
        /// What came of it.
        result: Box<RuleCheckResult>,
    },
    /// The agent did something in its turn.
    Agent {
        /// The ticket.
        turn: TurnId,
        /// What.
        update: AgentUpdate,
    },
    /// The agent asks for leave to do something, and waits.
    PermissionAsked {
        /// The ticket of the turn.
        turn: TurnId,
        /// What it asks.
        ask: Box<AgentPermissionRequest>,
    },
    /// The turn ended by itself or was cancelled.
    TurnEnded {
        /// The ticket.
        turn: TurnId,
        /// How.
        end: TurnEnd,
    },
    /// The turn failed.
    TurnFailed {
        /// The ticket.
        turn: TurnId,
        /// Why.
        failure: TurnFailure,
    },
    /// A process of the session was started.
    ProcessStarted {
        /// Its number, and its group's.
        pid: i32,
        /// When, in the kernel's units.
        started: u64,
    },
    /// Something in the world that a person should know of.
    Warned(String),
    /// The folder or the disk is gone: the session cannot go on.
    Doomed(String),
    /// Somebody asks for something.
    Command {
        /// Who.
        by: Actor,
        /// What.
        command: SessionCommand,
    },
    /// The session goes on after it was cut off or had ended.
    Resume {
        /// Whether somebody is there this time.
        presence: UserPresence,
        /// A new limit for its iterations.
        max_iterations: Option<u32>,
        /// The checkpoint that the agent is told of.
        checkpoint: Option<u32>,
    },
    /// The work of a session that has ended is to be submitted or merged.
    Pipeline {
        /// Which of the two.
        pipeline: PipelineKind,
        /// Whether somebody is there this time.
        presence: UserPresence,
    },
}

/// What a person, a program or an agent can ask of a session. There is one meaning of each, whoever asks.
#[derive(Debug, Clone, PartialEq)]
pub enum SessionCommand {
    /// Send no further prompt for now.
    Pause,
    /// Go on.
    Unpause,
    /// End the session.
    Stop(StopTiming),
    /// End this turn. The session pauses, unless there is a message to send instead. The iteration continues.
    CancelTurn,
    /// Say something to the agent.
    Message(String),
    /// Keep an item from the agent.
    SkipItem(ItemId),
    /// Take a skip back.
    RestoreItem(ItemId),
    /// Change what an item says.
    EditItem(ItemId, String),
    /// Answer a gate.
    AnswerGate(GateAnswer),
    /// Do not run a hook any more in this session; at all points, unless one is named.
    DisableHook(Option<HookPoint>, String),
    /// Run it again.
    EnableHook(Option<HookPoint>, String),
    /// Run a hook now, beside everything else. Its verdict changes nothing, and its output is only shown.
    RunHook(Option<HookPoint>, String),
    /// End a hook that runs.
    CancelHook(RunId),
    /// Something about a task.
    Task(TaskCommand),
    /// Ask a stop hook as well, from now on.
    RegisterStopHook(StopHookRegistration),
    /// Ask none of those any more that were registered for this task.
    ClearStopHooks(String),
    /// Something about a loop that the agent leads.
    Loop(LoopCommand),
    /// The agent says that the session is complete, and why; the stop hooks judge that.
    CompleteSession(String),
    /// Submit or merge the work, between two iterations.
    Pipeline(PipelineKind),
    /// Send the turn that waits for a usage limit at once.
    RetryNow,
    /// Let another agent take the turn that waits for a usage limit: this one, or the next.
    SwitchAgent(Option<String>),
}

/// An answer to a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateAnswer {
    /// Which gate.
    pub gate: GateId,
    /// What was chosen.
    pub choice: GateChoice,
    /// The message, where the choice is to send one; the agent's own name of an option, where it offers several alike.
    pub text: Option<String>,
    /// The items that are approved; all, if unsaid.
    pub items: Option<Vec<ItemId>>,
}
