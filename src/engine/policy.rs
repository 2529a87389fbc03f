//! A session's plan: the validated config that it starts with.
//!
//! The plan is recorded with the session, so that a resumed or replayed session follows the rules
//! it began with, even if the config has changed since.

mod limits;
mod stop;
mod submit;
mod workflow;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    actor::UserCommand,
    conversation::ToolKind,
    hooks::{claude::ClaudeHandler, point::HookPoint, tool_matcher::ToolMatcher},
    question::QuestionPolicy,
    tasks::record::TaskEventKind,
    time::TimeSpan,
    verify::base_tests::TestSource,
};
use crate::text::command_line;
pub use limits::{FallbackAgent, LimitsPlan, OutagePlan, UsageLimitPolicy};
pub use stop::{CoverageFormat, FileRequirement, PatternTarget, RuleCheck, RuleSpec};
pub use stop::{
    OpenTasksPolicy, SettledPolicy, StopHook, StopHookCondition, StopHookKind, StopPlan, StopPreset,
};
pub use submit::{
    BuiltinCall, BuiltinOptions, COLLABORATORS, Gatekeeper, MERGE, MergePolicy, MergeQueuePlan,
    MergeStyle, SubmitPlan, SubmitUntil, TypeNotAllowed, WatchPlan,
};
pub use submit::{WORKTREE_BRANCH, WorktreePlan};
pub use workflow::{StepAction, StepCondition, StepTransition, Workflow, WorkflowStep};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionPlan {
    pub max_iterations: u32,
    #[serde(default)]
    pub instructions: CompletionInstructions,
    pub context: ContextPolicy,
    /// How many times a blocked stop is sent back before the user is asked.
    pub max_hook_retries: u32,
    /// What happens at the retry limit when unattended.
    pub on_limit: RetryLimitPolicy,
    /// How many failed turns in a row are tolerated.
    pub max_consecutive_errors: u32,
    /// Zero: no limit.
    pub turn_timeout: TimeSpan,
    /// How many bytes of a hook's output the agent gets.
    pub output_limit: usize,
    /// The wait before a retry. None: no wait.
    pub backoff: Option<BackoffPolicy>,
    pub gates: GatePolicies,
    /// In the order in which they run.
    pub hooks: BTreeMap<HookPoint, Vec<HookSpec>>,
    /// In the order in which they run.
    #[serde(default)]
    pub automation: Vec<AutomationHook>,
    /// Workflows that automation hooks can start, by name.
    #[serde(default)]
    pub workflows: BTreeMap<String, Workflow>,
    pub stop: StopPlan,
    #[serde(flatten)]
    pub access: AgentAccess,
    #[serde(default)]
    pub budget: Budget,
    #[serde(default, skip_serializing_if = "EvidencePolicy::is_none")]
    pub evidence: EvidencePolicy,
    #[serde(default)]
    pub limits: LimitsPlan,
    /// The agent's name in the config.
    pub agent: String,
    pub agent_spec: AgentSpec,
    #[serde(flatten)]
    pub models: ModelPlan,
    /// The type of the session's task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_type: Option<String>,
    /// The allowed agents of a task type. All agents can work on types that are not listed.
    #[serde(default)]
    pub task_types: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    pub submit: SubmitPlan,
    /// The reviewing agents, by the names that hooks use.
    #[serde(default)]
    pub gatekeepers: BTreeMap<String, Gatekeeper>,
    /// Set if the session works in a git worktree of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<WorktreePlan>,
    /// Set if the agent only proposes tasks for the queue, and the user approves them at a gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposal: Option<ProposalPlan>,
}

/// Where creel writes the head of the journal, for `creel verify`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvidencePolicy {
    #[default]
    None,
    /// Into the message of creel's own commits.
    Trailer,
    /// Into a git note of creel's own commits, and of the last commit of a session.
    Note,
}

impl EvidencePolicy {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    const fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }
}

/// What the agent may do, and the files that it may not change.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentAccess {
    /// Rules for the agent's permission requests. The first match decides.
    #[serde(default)]
    pub permissions: Vec<PermissionRule>,
    /// The user's commands that agents and hooks can give as well.
    #[serde(default)]
    pub agent_may: Vec<UserCommand>,
    /// Patterns of paths that no turn is allowed to change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protect: Vec<String>,
    /// The files that the config was read from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub config_files: Vec<String>,
    #[serde(default, skip_serializing_if = "EnvPlan::is_default")]
    pub env: EnvPlan,
    /// Patterns of secrets that creel masks, besides the well-known ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mask: Vec<String>,
    /// What happens when tests were weakened.
    #[serde(default, skip_serializing_if = "TestProtection::is_default")]
    pub protect_tests: TestProtection,
}

/// What happens when tests were deleted, skipped or weakened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TestProtection {
    #[default]
    Warn,
    /// The session asks before it is complete.
    Gate,
    Off,
}

impl TestProtection {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Which of creel's variables agents get. Hooks get all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvPlan {
    pub base: EnvBase,
    /// Names, or beginnings with `*`, that a clean environment has besides.
    pub pass: Vec<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnvBase {
    /// All of them.
    #[default]
    Inherit,
    /// What programs need to run at all, and what the agent needs.
    Clean,
}

/// What programs need to run at all: where things are, how people write, how to reach the network.
const CLEAN: [&str; 24] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "TERM",
    "COLORTERM",
    "NO_COLOR",
    "TMPDIR",
    "XDG_*",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "SSL_CERT_*",
    "NODE_EXTRA_CA_CERTS",
];

impl EnvPlan {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The names of the variables that an agent gets, as patterns. None: all.
    pub fn variables(&self, spec: &AgentSpec) -> Option<Vec<String>> {
        if self.base == EnvBase::Inherit {
            return None;
        }
        let needed = spec.facts().map_or(&[][..], |known| known.env.as_slice());
        let clean = CLEAN.iter().map(|name| (*name).to_owned());
        Some(
            clean
                .chain(needed.iter().chain(&self.pass).cloned())
                .collect(),
        )
    }
}

/// Which model the session's own agent uses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelPlan {
    /// None: the agent decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Other models after some retries.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub retries: Vec<RetryModel>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryModel {
    /// After how many retries of an iteration.
    pub after: u32,
    pub model: String,
}

impl ModelPlan {
    /// The model of a prompt after so many retries.
    pub fn after(&self, retries: u32) -> Option<&str> {
        let due = self.retries.iter().filter(|other| other.after <= retries);
        let other = due.max_by_key(|other| other.after);
        other
            .map(|other| other.model.as_str())
            .or(self.model.as_deref())
    }
}

/// How proposed tasks are checked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProposalPlan {
    /// The types of tasks in the config. Empty: any type is a label.
    pub types: BTreeSet<String>,
}

/// Instructions at the end of iteration prompts: how the agent reports completion.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompletionInstructions {
    /// creel's completion note, unless the goal mentions promises itself.
    Auto,
    /// No note. Sessions that began before the note existed continue without one.
    #[default]
    None,
    Text(String),
}

impl CompletionInstructions {
    /// Parses the config's value: `auto`, `none`, or the text itself.
    pub fn of(text: &str) -> Self {
        match text.trim() {
            "auto" => Self::Auto,
            "none" => Self::None,
            _ => Self::Text(text.to_owned()),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContextPolicy {
    /// A new conversation each iteration.
    #[default]
    Fresh,
    /// One conversation for the session.
    Keep,
}

/// What happens at the retry limit when unattended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryLimitPolicy {
    /// Accept the turn as it is, with a warning.
    #[default]
    Complete,
    Escalate,
    Abort,
}

/// The wait before a retry: `base * factor^n`, at most `max`, plus or minus the jitter.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BackoffPolicy {
    pub base: TimeSpan,
    pub factor: f64,
    pub max: TimeSpan,
    /// The random share of the wait, 0 to 1.
    pub jitter: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GatePolicies {
    /// Before the final delivery. None: ask, or `auto` when unattended.
    pub final_delivery: Option<FinalDeliveryPolicy>,
    /// Before each iteration's prompt that carries pending items.
    pub delivery: DeliveryPolicy,
    /// Before an agent uses a tool.
    pub permissions: PermissionPolicy,
    /// When an agent asks something in an unattended session.
    #[serde(default, skip_serializing_if = "QuestionPolicy::is_default")]
    pub questions: QuestionPolicy,
    /// Before news of a pull request is sent.
    #[serde(default, skip_serializing_if = "ReviewPolicy::is_default")]
    pub review: ReviewPolicy,
    /// How long a gate waits before it gets the `auto` answer. Zero: no limit.
    pub timeout: TimeSpan,
}

/// Whether the user looks at news of a pull request before the agent gets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewPolicy {
    Ask,
    #[default]
    Auto,
}

impl ReviewPolicy {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What happens to pending items when the loop has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinalDeliveryPolicy {
    Ask,
    /// Send them.
    Auto,
    /// Leave them unsent.
    Skip,
}

/// What happens to pending items before an iteration's prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryPolicy {
    Ask,
    /// Send them with the prompt.
    #[default]
    Auto,
}

/// The answer to permission requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PermissionPolicy {
    #[default]
    Ask,
    Allow,
    Deny,
}

/// The answer to some of the agent's permission requests, given in advance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionRule {
    /// The kinds of tools that it applies to. Empty: all.
    pub kinds: Vec<ToolKind>,
    /// Patterns of files that it applies to, relative to the project. Empty: files do not matter.
    pub paths: Vec<String>,
    pub action: PermissionPolicy,
}

/// What a session can use before the user is asked. None: no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// Tokens, as the agent reports them.
    pub tokens: Option<u64>,
    /// Cost, as the agent reports it.
    pub cost: Option<f64>,
    /// Time during which the agent works.
    pub time: Option<TimeSpan>,
}

/// The default time limit of a hook.
const HOOK_TIMEOUT: TimeSpan = TimeSpan::secs(60);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HookSpec {
    /// Unique at its hook point.
    pub name: String,
    pub action: HookAction,
    pub timeout: TimeSpan,
    pub pipe_output: PipeOutput,
    /// Lower runs first.
    pub priority: i64,
    pub enabled: bool,
    /// Overrides the rule of its hook point for failures.
    pub on_failure: Option<HookFailurePolicy>,
    /// The tool calls that it is for. None: all. Used at the points of tool calls only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matcher: Option<Box<ToolMatcher>>,
    /// Set if a check that passed also runs with these test files. Used by stop hooks only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests: Option<TestSource>,
    /// Used by stop hooks only.
    #[serde(flatten)]
    pub retry: RetryOptions,
    /// Set if it is written for Claude Code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claude: Option<Box<ClaudeHandler>>,
}

impl HookSpec {
    /// A hook with the defaults of all else. It pipes nothing.
    pub fn new(name: impl Into<String>, action: HookAction) -> Self {
        Self {
            name: name.into(),
            action,
            timeout: HOOK_TIMEOUT,
            pipe_output: PipeOutput::Never,
            priority: 100,
            enabled: true,
            on_failure: None,
            matcher: None,
            tests: None,
            retry: RetryOptions::default(),
            claude: None,
        }
    }

    /// Whether a failure at `stop` is only a warning: the config says `on_failure: ignore`.
    pub fn is_advisory(&self) -> bool {
        self.on_failure == Some(HookFailurePolicy::Ignore)
    }

    /// The names of the agents that review the change.
    pub fn gatekeepers(&self) -> &[String] {
        match &self.action {
            HookAction::Gatekeeper(names) => names,
            HookAction::Command(_) | HookAction::Exec(_) | HookAction::Builtin(_) => &[],
        }
    }
}

/// Whether a hook's output is sent to the agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "RecordedPipeOutput", into = "RecordedPipeOutput")]
pub enum PipeOutput {
    Always,
    #[default]
    Never,
    /// Only what a run printed that did not pass.
    OnFailure,
}

/// `true`, `false` or `"on_failure"`, as in the config.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum RecordedPipeOutput {
    Flag(bool),
    Word(OnFailureWord),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OnFailureWord {
    OnFailure,
}

impl From<RecordedPipeOutput> for PipeOutput {
    fn from(written: RecordedPipeOutput) -> Self {
        match written {
            RecordedPipeOutput::Flag(true) => Self::Always,
            RecordedPipeOutput::Flag(false) => Self::Never,
            RecordedPipeOutput::Word(OnFailureWord::OnFailure) => Self::OnFailure,
        }
    }
}

impl From<PipeOutput> for RecordedPipeOutput {
    fn from(piped: PipeOutput) -> Self {
        match piped {
            PipeOutput::Always => Self::Flag(true),
            PipeOutput::Never => Self::Flag(false),
            PipeOutput::OnFailure => Self::Word(OnFailureWord::OnFailure),
        }
    }
}

impl PipeOutput {
    /// Whether the output of a run that passed, or did not, is piped.
    pub const fn covers(self, has_passed: bool) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::OnFailure => !has_passed,
        }
    }

    /// In a few words, for lists of hooks. None if nothing is piped.
    pub const fn describe(self) -> Option<&'static str> {
        match self {
            Self::Always => Some("piped"),
            Self::Never => None,
            Self::OnFailure => Some("piped on failure"),
        }
    }
}

/// How a stop hook that blocks sends the agent back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RetryOptions {
    /// How many times, before the user is asked. None: as often as the session allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    /// The template of the feedback to the agent. None: `[Hook feedback]: `, the check and what it
    /// printed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feedback: Option<String>,
}

/// A hook that receives task events and answers with actions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AutomationHook {
    pub events: Vec<TaskEventKind>,
    pub spec: HookSpec,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookAction {
    /// `sh -c` with the template filled in.
    Command(String),
    /// A program and its arguments, without a shell.
    Exec(Vec<String>),
    Builtin(BuiltinCall),
    /// Each named agent reviews the change.
    Gatekeeper(Vec<String>),
}

impl HookAction {
    /// What it does, as the user reads it.
    pub fn describe(&self) -> String {
        match self {
            Self::Command(command) => command.clone(),
            Self::Exec(arguments) => command_line(arguments),
            Self::Builtin(call) => format!("{} (built in)", call.describe()),
            Self::Gatekeeper(agents) => format!("review by {}", agents.join(", ")),
        }
    }
}

/// What a failed hook means, where its configuration overrides its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookFailurePolicy {
    Ignore,
    /// As if it had blocked.
    Block,
    /// The user decides.
    Escalate,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentSpec {
    /// A program that speaks the Agent Client Protocol on its standard streams.
    Acp {
        command: String,
        /// The mode to select, by the agent's own name for it. None: the agent's default.
        #[serde(default)]
        mode: Option<String>,
        /// Whether creel reads and writes files for it.
        #[serde(default)]
        files: ServicePolicy,
        /// Whether creel runs commands for it.
        #[serde(default)]
        terminals: ServicePolicy,
        #[serde(default)]
        known: AgentFacts,
    },
    /// One process per turn.
    Command {
        /// The command line of a conversation's first turn.
        command: String,
        /// The command line of its later turns, if it differs.
        continue_command: Option<String>,
        #[serde(default)]
        format: OutputFormat,
        /// Whether it runs in a terminal of its own.
        #[serde(default)]
        tty: bool,
        #[serde(default)]
        known: AgentFacts,
    },
    /// creel runs no agent: the user runs one by hand, and it uses the session's tools.
    Outside,
    /// Turns read from a file. The text is recorded, so that a resumed session follows the same
    /// script.
    Scripted {
        /// The script itself, as YAML.
        script: String,
    },
}

impl AgentSpec {
    /// An ACP agent with default settings.
    pub fn acp(command: impl Into<String>) -> Self {
        Self::Acp {
            command: command.into(),
            mode: None,
            files: ServicePolicy::default(),
            terminals: ServicePolicy::default(),
            known: AgentFacts::default(),
        }
    }

    /// A command that answers in plain text, the same in every turn.
    pub fn command(command: impl Into<String>) -> Self {
        Self::Command {
            command: command.into(),
            continue_command: None,
            format: OutputFormat::default(),
            tty: false,
            known: AgentFacts::default(),
        }
    }
}

impl AgentSpec {
    /// Whether each turn is a new conversation, because creel has no way to continue one.
    pub const fn forgets(&self) -> bool {
        matches!(
            self,
            Self::Command {
                continue_command: None,
                ..
            }
        )
    }

    /// None if creel runs no command for it.
    pub fn command_line(&self) -> Option<&str> {
        match self {
            Self::Acp { command, .. } | Self::Command { command, .. } => Some(command),
            Self::Scripted { .. } | Self::Outside => None,
        }
    }

    pub fn tool_access(&self) -> ToolAccess {
        let Some(known) = self.facts() else {
            return ToolAccess::Off;
        };
        match (&known.tools, self) {
            _ if known.mcp == Some(false) => ToolAccess::Off,
            (Some(ToolPassing::Refused), _) => ToolAccess::Refused,
            (Some(ToolPassing::Options(_)), _) | (None, Self::Acp { .. }) => ToolAccess::Given,
            (None, Self::Command { .. } | Self::Scripted { .. } | Self::Outside) => {
                ToolAccess::InVariable
            }
        }
    }

    /// The model that its own options name.
    pub fn model(&self) -> Option<&str> {
        self.facts()?.options.get(MODEL).map(String::as_str)
    }

    /// Whether creel can pass the option to it. An ACP agent says so itself, when it runs.
    pub fn accepts(&self, option: &str) -> bool {
        match self {
            Self::Command { known, .. } => known.flags.contains_key(option),
            Self::Acp { .. } => true,
            Self::Scripted { .. } | Self::Outside => false,
        }
    }

    /// None for scripted agents and for agents that the user runs.
    pub fn facts(&self) -> Option<&AgentFacts> {
        match self {
            Self::Acp { known, .. } | Self::Command { known, .. } => Some(known),
            Self::Scripted { .. } | Self::Outside => None,
        }
    }
}

/// What creel knows of an agent apart from how to run it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentFacts {
    /// How to install it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install: Option<String>,
    /// How to log in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub login: Option<String>,
    /// A regular expression for answers that are really errors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_pattern: Option<String>,
    /// A regular expression for messages about its usage limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_pattern: Option<String>,
    /// What its token count at the end of a turn covers. None: the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<UsageScope>,
    /// Whether it gets the session's tools. None: yes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp: Option<bool>,
    /// Whether the completion note has to list the names of the session's tools, because the agent
    /// does not show them to its model by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub list_tools: Option<bool>,
    /// How it gets the session's tools. None: the default of its kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<ToolPassing>,
    /// The variables that it reads, as names or beginnings with `*`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// The settings files whose hooks it runs itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub own_hooks: Vec<String>,
    /// How hooks see its tool calls. None: as usual for its kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_hooks: Option<ToolHookSupport>,
    /// The values of its options, such as `model`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// How a command line passes each option: text with `{{value}}`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub flags: BTreeMap<String, String>,
}

/// The option that selects the model.
pub const MODEL: &str = "model";

/// How an agent gets the session's tools, where its kind has no standard way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolPassing {
    /// It does not accept them.
    Refused,
    /// Options that creel appends to its command line.
    Options(String),
}

/// Whether an agent gets the session's tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolAccess {
    Given,
    /// It has to read a variable and start the server itself.
    InVariable,
    /// It does not accept them.
    Refused,
    /// It needs none, or the config withholds them.
    Off,
}

/// What a token count covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsageScope {
    Turn,
    /// The conversation so far.
    Conversation,
    /// Only the last call of the turn's model. That is too little to estimate a cost.
    Call,
}

impl AgentFacts {
    /// Whether the completion note should list the session's tools by name.
    pub fn lists_tools(&self) -> bool {
        self.list_tools == Some(true)
            && self.mcp != Some(false)
            && self.tools != Some(ToolPassing::Refused)
    }

    /// Fills in missing facts from `others`.
    #[must_use]
    pub fn or(self, others: Self) -> Self {
        let both = |mut others: BTreeMap<String, String>, own| {
            others.extend(own);
            others
        };
        Self {
            options: both(others.options, self.options),
            flags: both(others.flags, self.flags),
            env: [others.env, self.env].concat(),
            own_hooks: [others.own_hooks, self.own_hooks].concat(),
            install: self.install.or(others.install),
            login: self.login.or(others.login),
            error_pattern: self.error_pattern.or(others.error_pattern),
            limit_pattern: self.limit_pattern.or(others.limit_pattern),
            usage: self.usage.or(others.usage),
            mcp: self.mcp.or(others.mcp),
            list_tools: self.list_tools.or(others.list_tools),
            tools: self.tools.or(others.tools),
            tool_hooks: self.tool_hooks.or(others.tool_hooks),
        }
    }
}

/// How hooks see the tool calls of an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ToolHookSupport {
    pub level: ToolHookLevel,
    /// With `native`: what adds creel's hook to the agent's command line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<String>,
    /// With `native`: the same as JSON for the protocol's `_meta`, sent with each conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meta: Option<String>,
    /// With `native`: keys that keep the agent from running creel's hook, if one of `own_hooks` sets
    /// them to true.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disabled_by: Vec<String>,
    /// With `native`: files with JSON that creel writes into the session's folder, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// With `native`: variables with JSON. What the user has in one of them stays.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Whether the agent accepts no answer that allows a call.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub deny_only: bool,
}

/// Why a JSON text of [`ToolHookSupport`] is of no use.
#[derive(Debug, thiserror::Error)]
pub enum HookJsonError {
    #[error("it is no JSON once creel's commands are in it: {0}")]
    NotJson(#[source] serde_json::Error),
    #[error("it is no JSON object")]
    NotAnObject,
}

impl ToolHookSupport {
    /// What a text can have between `{{` and `}}`.
    pub const PLACEHOLDERS: [&'static str; 7] = [
        "pre_tool",
        "post_tool",
        "post_tool_failure",
        "pre_tool_trust",
        "post_tool_trust",
        "pre_tool_group",
        "post_tool_group",
    ];

    /// Whether anything here adds creel's hook to the agent.
    pub fn adds_hook(&self) -> bool {
        self.args.is_some() || self.meta.is_some() || !self.env.is_empty() || !self.files.is_empty()
    }

    /// A JSON object with values in place of the names. A value is never read for names.
    pub fn filled(
        text: &str,
        value: impl Fn(&str) -> Option<String>,
    ) -> Result<Map<String, Value>, HookJsonError> {
        let (mut filled, mut rest) = (String::new(), text);
        while let Some((before, after)) = rest.split_once("{{") {
            filled.push_str(before);
            let named = after.split_once("}}");
            let named = named.and_then(|(name, after)| Some((value(name)?, after)));
            if let Some((value, after)) = named {
                filled.push_str(&value);
                rest = after;
            } else {
                // A name can begin with the second of these.
                filled.push('{');
                rest = &rest[before.len() + 1..];
            }
        }
        filled.push_str(rest);
        match serde_json::from_str(&filled).map_err(HookJsonError::NotJson)? {
            Value::Object(object) => Ok(object),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => Err(HookJsonError::NotAnObject),
        }
    }
}

/// Which tool calls of an agent hooks at `pre_tool` see.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolHookLevel {
    /// All: creel adds a hook of its own to the agent.
    Native,
    /// Those that the agent asks about.
    #[default]
    Asks,
    /// None before it runs. Hooks at `post_tool` see them afterwards.
    Sees,
    /// None at all.
    None,
}

impl AgentSpec {
    /// Which of its tool calls hooks see.
    pub fn tool_hook_level(&self) -> ToolHookLevel {
        let known = |usual| {
            let known = self.facts().and_then(|known| known.tool_hooks.as_ref());
            known.map_or(usual, |known| known.level)
        };
        match self {
            Self::Acp { .. } => known(ToolHookLevel::Asks),
            Self::Command {
                format: OutputFormat::Text,
                ..
            } => known(ToolHookLevel::None),
            Self::Command { .. } => known(ToolHookLevel::Sees),
            Self::Scripted { .. } => ToolHookLevel::Asks,
            Self::Outside => ToolHookLevel::None,
        }
    }
}

/// Whether creel serves an agent's requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServicePolicy {
    /// Inside the project's folder.
    #[default]
    Serve,
    /// Never; the agent has to do it itself.
    Decline,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputFormat {
    /// The answer, as text.
    #[default]
    Text,
    /// The JSON lines of Claude Code.
    Claude,
    /// The JSON lines of Codex.
    Codex,
    /// The JSON lines of Gemini.
    Gemini,
    /// The JSON lines of opencode.
    Opencode,
}

impl SessionPlan {
    /// Whether hooks decide about tool calls, or see their end.
    pub fn has_tool_hooks(&self) -> bool {
        let points = [HookPoint::PreTool, HookPoint::PostTool];
        let mut lists = points.iter().filter_map(|point| self.hooks.get(point));
        lists.any(|hooks| !hooks.is_empty())
    }

    /// Whether creel runs no agent here: the user runs one by hand.
    pub fn is_led_from_outside(&self) -> bool {
        self.agent_spec == AgentSpec::Outside
    }
}
