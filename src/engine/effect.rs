//! What the engine asks the runtime to do.

use serde_json::Value;

use super::{
    conversation::{ConversationMode, PermissionAnswer},
    event::ActorKind,
    hooks::point::HookPoint,
    ids::{GateId, PermissionId, RunId, TurnId},
    policy::{HookSpec, RuleSpec},
    session::{
        gate::{GateChoice, GateKind},
        tamper::ProtectBaseline,
    },
    time::TimeSpan,
};

/// Something to be done in the world. The answer comes back as an input with the same ticket.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Run a hook; answered by `HookFinished`.
    RunHook(Box<HookJob>),
    /// Check a rule; answered by `RuleChecked`.
    CheckRule(Box<RuleJob>),
    /// End a running hook, or the check of a rule; its answer comes all the same, as `cut`.
    CancelHook(RunId),
    /// Send a prompt; answered by `TurnEnded` or `TurnFailed`.
    SendPrompt {
        /// The ticket.
        turn: TurnId,
        /// What to send.
        text: String,
        /// Whether the agent starts anew.
        conversation: ConversationMode,
        /// How long the turn may take; zero: as long as it likes.
        timeout: TimeSpan,
        /// The gatekeeper that it goes to; the session's own agent, if unsaid.
        to: Option<String>,
        /// The fallback agent that works instead of the session's own.
        standing_in: Option<String>,
        /// What the protected paths are compared with afterwards.
        baseline: ProtectBaseline,
    },
    /// End the turn; its answer comes all the same, as `cancelled`.
    CancelTurn(TurnId),
    /// Answer a request of the agent; whoever asked may be gone.
    AnswerPermission {
        /// The ticket.
        ask: PermissionId,
        /// The answer.
        answer: PermissionAnswer,
    },
    /// Nothing more will happen here.
    Leave(ExitReason),
}

/// Why the runtime can leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitReason {
    /// The session has ended.
    Ended,
    /// A gate waits for a person, and nobody is there.
    NobodyThere,
}

/// All that is needed to run a hook once.
#[derive(Debug, Clone, PartialEq)]
pub struct HookJob {
    /// The ticket.
    pub run: RunId,
    /// Where in the lifecycle.
    pub point: HookPoint,
    /// What to run.
    pub hook: HookSpec,
    /// How many bytes of its output may be kept in the record.
    pub output_limit: usize,
    /// What the hook is told.
    pub facts: HookFacts,
}

/// All that is needed to check a rule once.
#[derive(Debug, Clone, PartialEq)]
pub struct RuleJob {
    /// The ticket.
    pub run: RunId,
    /// What to check.
    pub rule: RuleSpec,
    /// How many bytes of its output may be kept in the record.
    pub output_limit: usize,
    /// What its command is told; the agent's last message is part of it.
    pub facts: HookFacts,
}

/// What a hook is told: as JSON on its standard input, as `CREEL_*`, and as `{{name}}`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HookFacts {
    /// The session's name.
    pub session: String,
    /// The iteration, at points that lie in one.
    pub iteration: Option<u32>,
    /// Retries so far, at points that can be retried.
    pub attempt: Option<u32>,
    /// The task, at points that are about one.
    pub task: Option<TaskFacts>,
    /// What went wrong, at `on_error`.
    pub error: Option<String>,
    /// The gate, at `on_gate`.
    pub gate: Option<Box<GateFacts>>,
    /// The end of what the agent said last, where there was a turn.
    pub agent_output: Option<String>,
    /// The files that were changed in the iteration, at the points that come after the agent's work.
    pub files_modified: Option<Vec<String>>,
    /// What the rules said, where it is to be judged.
    pub validation_results: Option<Value>,
    /// All that stop decisions rest on, under the names that tools for agents share.
    pub context: Option<Value>,
    /// What happened to a task, at events of tasks.
    pub event: Option<Value>,
    /// All tasks, at events of tasks.
    pub graph: Option<Value>,
    /// What earlier steps of a workflow said, by the names that stand for it.
    pub values: Vec<(String, String)>,
    /// What is submitted or merged, at the points that are about it.
    pub submission: Option<Box<SubmissionFacts>>,
}

/// What is submitted or merged, and how: for the built-in hooks. Texts may come from an agent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SubmissionFacts {
    /// The task, if the work is about one.
    pub task: Option<TaskFacts>,
    /// Its type.
    pub task_type: Option<String>,
    /// What the pull request is called; unsaid if empty.
    pub title: String,
    /// What the pull request says.
    pub body: String,
    /// The branch that the work goes to; found if unsaid.
    pub base_branch: Option<String>,
    /// The command that makes a pull request, where `gh` does not.
    pub pr_command: Option<String>,
    /// The command that runs the tests; found if unsaid.
    pub test_command: Option<String>,
    /// The remote that the work goes to; found if unsaid.
    pub remote: Option<String>,
    /// What reviewers said.
    pub reviews: Vec<String>,
    /// The commit that they saw, if there was a review before this hook.
    pub reviewed: Option<String>,
    /// Whether the agent was asked to repair something since the pipeline began.
    pub repaired: bool,
}

/// What a hook hears about a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateFacts {
    /// Its number.
    pub gate: GateId,
    /// Its kind.
    pub about: GateKind,
    /// Why the session asks.
    pub reason: String,
    /// The answers that it accepts.
    pub choices: Vec<GateChoice>,
    /// The command line that answers it, once you append a choice.
    pub answer_command: String,
    /// Whether it has just opened or closed.
    pub state: GateState,
    /// Whether only the user can answer it. Otherwise the config answers it at once.
    pub waits_for_user: bool,
    /// Which answer closed it, and from where it came. A gate also closes without an answer when the session is stopped.
    pub answer: Option<(GateChoice, ActorKind)>,
}

/// What happened to a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateState {
    /// It opened.
    Opened,
    /// It closed.
    Closed,
}

impl GateState {
    /// The name that hooks read.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Opened => "opened",
            Self::Closed => "closed",
        }
    }
}

/// What a hook is told of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskFacts {
    /// Its id.
    pub id: String,
    /// What it was about.
    pub content: String,
}
