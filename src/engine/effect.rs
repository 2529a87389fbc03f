//! The engine's requests to the runtime.

use serde::{Deserialize, Serialize};

use serde_json::Value;

use crate::engine::{
    conversation::{ConversationMode, PermissionAnswer, ToolCall},
    event::{ActorKind, PromptSent},
    gate::kind::{GateChoice, GateKind},
    hooks::{dispatch::QuestionFacts, point::HookPoint},
    ids::{GateId, PermissionId, RunId, TurnId},
    policy::{EvidencePolicy, HookSpec, RuleSpec},
    session::iteration::SessionFiles,
    time::TimeSpan,
    verify::{WorkChangedBy, base_tests::TestSource},
    watch::forge::{ForgeAnswer, ForgeRequest},
};

/// A request to the runtime. The result comes back as an input with the same id.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Answered by `HookFinished`.
    RunHook(Box<HookJob>),
    /// Answered by `RuleChecked`.
    CheckRule(Box<RuleJob>),
    /// Cancels a hook or the check of a rule. Its result still arrives, as `cut`.
    CancelHook(RunId),
    /// Answered by `TurnEnded` or `TurnFailed`.
    SendPrompt {
        turn: TurnId,
        text: String,
        conversation: ConversationMode,
        /// None: the agent's own.
        model: Option<String>,
        /// Zero: no limit.
        timeout: TimeSpan,
        /// After this long without a word, the agent is silent. Zero: never.
        silence: TimeSpan,
        /// The gatekeeper to send it to. None: the session's agent.
        to: Option<String>,
        /// The fallback agent that works instead of the session's own.
        stand_in: Option<String>,
        /// The state that the protected paths are compared with afterwards.
        baseline: ProtectBaseline,
    },
    /// Cancels the turn. Its end still arrives, as `cancelled`.
    CancelTurn(TurnId),
    /// Answers a permission request, which the agent may have dropped by now.
    AnswerPermission {
        ask: PermissionId,
        answer: PermissionAnswer,
    },
    /// Compares the work with its state at the last look. Answered by `WorkMeasured`. Asking again
    /// while one is in progress changes nothing.
    MeasureWork {
        by: WorkChangedBy,
        /// Checks whose programs creel looks for, too.
        checks: Vec<HookSpec>,
        /// Set if creel also looks for weakened tests in the files that the session changed. Without
        /// names: in all that differ.
        tests: Option<Box<SessionFiles>>,
    },
    /// Looks at a pull request. Answered by `ForgeRead`.
    ReadForge(Box<ForgeRequest>),
    /// Answers below a comment. Answered by `NewsAnswered`. While a call to the forge is in progress,
    /// another changes nothing.
    AnswerNews(Box<ForgeAnswer>),
    /// Nothing more will happen in this process.
    Leave(ExitReason),
}

/// What the runtime compares before a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileComparison {
    /// Before a prompt to the session's own agent or a fallback.
    Prompt(ProtectBaseline),
    /// Before a prompt to a gatekeeper.
    Review,
    /// Before the session is complete.
    Complete,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitReason {
    Ended,
    /// A gate waits for the user, and the session is unattended.
    NeedsUser,
}

#[derive(Debug, Clone, PartialEq)]
pub struct HookJob {
    pub run: RunId,
    pub point: HookPoint,
    pub hook: HookSpec,
    /// How many bytes of its output the record keeps.
    pub output_limit: usize,
    pub facts: HookFacts,
    /// Set if a check runs in a clean worktree.
    pub clean: Option<Box<CleanRunJob>>,
}

/// How the clean worktree of a run is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CleanRunJob {
    pub of: TestSource,
    /// The commit before the session. None if creel does not know it.
    pub base: Option<String>,
    /// Ignored files and folders of the project that it gets, too.
    pub copy: Vec<String>,
    /// Commands that prepare it.
    pub setup: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RuleJob {
    pub run: RunId,
    pub rule: RuleSpec,
    /// How many bytes of its output the record keeps.
    pub output_limit: usize,
    /// The input of its command, including the agent's last message.
    pub facts: HookFacts,
}

/// A hook's input: as JSON on its standard input, as `CREEL_*`, and as `{{name}}`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HookFacts {
    /// The session's name.
    pub session: String,
    /// At points within an iteration.
    pub iteration: Option<u32>,
    /// Retries so far, at points that can be retried.
    pub attempt: Option<u32>,
    /// At points that are about a task.
    pub task: Option<TaskFacts>,
    /// At `on_error`.
    pub error: Option<String>,
    /// At `pre_prompt`: the prompt that waits for the hook.
    pub prompt: Option<Box<PromptSent>>,
    /// At `on_gate`.
    pub gate: Option<Box<GateFacts>>,
    /// At the points of tool calls.
    pub tool: Option<Box<ToolCall>>,
    /// At `on_question`.
    pub question: Option<Box<QuestionFacts>>,
    /// The request whose whole input the hook has to get, because its record is truncated.
    pub whole_input_of: Option<PermissionId>,
    /// The end of the agent's last message. None before the first turn.
    pub agent_output: Option<String>,
    /// The files that the iteration changed, at the points after the agent's work.
    pub files_modified: Option<Vec<String>>,
    /// The results of the rules, for stop hooks.
    pub validation_results: Option<Value>,
    /// The whole input of stop decisions. The field names are shared with other agent tools.
    pub context: Option<Value>,
    /// At task events.
    pub event: Option<Value>,
    /// All tasks, at task events.
    pub graph: Option<Value>,
    /// The outputs of earlier workflow steps, by placeholder name.
    pub values: Vec<(String, String)>,
    /// At the points of submitting and merging.
    pub submission: Option<Box<SubmissionFacts>>,
    /// For hooks that are written for Claude Code.
    pub claude: Option<Box<ClaudeFacts>>,
}

/// What only hooks of Claude Code read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClaudeFacts {
    /// What a matcher of the event compares: the source, the notification, the cause.
    pub word: Option<String>,
    pub permission_mode: String,
    /// The prompt that is about to be sent.
    pub prompt: Option<String>,
}

/// The input of the built-in hooks for submitting and merging. Texts may come from an agent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SubmissionFacts {
    /// The task that the work is about, if any.
    pub task: Option<TaskFacts>,
    pub task_type: Option<String>,
    /// The title of the pull request. Empty: not set.
    pub title: String,
    /// The text of the pull request.
    pub body: String,
    /// The branch to merge into. None: detected.
    pub base_branch: Option<String>,
    /// The command that opens a pull request instead of `gh`.
    pub pr_command: Option<String>,
    /// The command that runs the tests. None: detected.
    pub test_command: Option<String>,
    /// The remote to push to. None: detected.
    pub remote: Option<String>,
    pub reviews: Vec<String>,
    /// The reviewed commit, if a review ran before this hook.
    pub reviewed: Option<String>,
    /// Whether the agent was asked to repair something since the pipeline began.
    pub repaired: bool,
    /// The agent that did the work.
    pub agent: String,
    /// The URL of the pull request, once there is one.
    pub pull_request: Option<String>,
    /// The files of the session's turns: the commit has to have them, because the checks saw them.
    pub files: SessionFiles,
    /// Whether the session waits until the work is merged: then the commit has to have every change
    /// of a file that git tracks, too.
    pub until_merged: bool,
    /// The only pull request that may be updated: the session waits for its merge.
    pub watched: Option<String>,
    /// Where the commits that creel makes name the head of the journal.
    pub evidence: EvidencePolicy,
    /// Whether a later hook of the point opens a pull request: then the point has nothing to do if
    /// there is nothing to submit.
    pub opens_request: bool,
}

/// A gate, as hooks see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateFacts {
    pub gate: GateId,
    pub about: GateKind,
    /// Why the session asks.
    pub reason: String,
    pub choices: Vec<GateChoice>,
    /// The command line that answers it, once you append a choice.
    pub answer_command: String,
    pub state: GateState,
    /// Whether only the user can answer it. Otherwise the config answers it immediately.
    pub waits_for_user: bool,
    /// The answer that closed it, with the kind of actor. None if the gate is open, or closed
    /// because the session was stopped.
    pub answer: Option<(GateChoice, ActorKind)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum GateState {
    Opened,
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

/// A task, as hooks see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskFacts {
    pub id: String,
    pub content: String,
}

/// The state that protected paths are compared with after a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtectBaseline {
    /// The state when the prompt is sent.
    New,
    /// The state before the unsettled change, or before the interrupted turn.
    Kept,
}
