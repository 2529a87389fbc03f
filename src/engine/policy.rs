//! What a session was told to do: the rules that it starts with and keeps.
//!
//! The plan is recorded with the session, so that a resumed or replayed session follows the rules it began with,
//! whatever became of the config since.

mod limits;
mod rules;
mod stop;
mod submit;
mod workflow;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    actor::UserCommand, conversation::ToolKind, hooks::point::HookPoint, tasks::record::TaskEventKind, time::TimeSpan,
};
pub use limits::{FallbackAgent, LimitsPlan, UsageLimitPolicy};
pub use rules::{CoverageFormat, FileRequirement, PatternTarget, RuleCheck, RuleSpec};
pub use stop::{SettledPolicy, StopHook, StopHookCondition, StopHookKind, StopPlan, StopPreset};
pub use submit::{BuiltinCall, BuiltinOptions, Gatekeeper, MERGE, SubmitPlan, not_allowed};
pub use workflow::{StepAction, StepCondition, StepTransition, Workflow, WorkflowStep};

/// Everything that the engine and the runtime need to know of the config.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionPlan {
    /// How many iterations there may be.
    pub max_iterations: u32,
    /// What the agent is told about how to report the end.
    #[serde(default)]
    pub instructions: CompletionInstructions,
    /// Whether each iteration is a new conversation.
    pub context: ContextPolicy,
    /// How often blocked stops are sent back before a person is asked.
    pub max_hook_retries: u32,
    /// What happens at the retry limit with nobody there.
    pub on_limit: RetryLimitPolicy,
    /// How many failed turns in a row are tolerated.
    pub max_consecutive_errors: u32,
    /// How long one turn may take; zero: as long as it likes.
    pub turn_timeout: TimeSpan,
    /// How many bytes of a hook's output the agent gets.
    pub output_limit: usize,
    /// How long to wait before a retry; at once if absent.
    pub backoff: Option<BackoffPolicy>,
    /// Which gates ask.
    pub gates: GatePolicies,
    /// The hooks of each point, in the order in which they run.
    pub hooks: BTreeMap<HookPoint, Vec<HookSpec>>,
    /// What happens by itself when tasks change, in the order in which it runs.
    #[serde(default)]
    pub automation: Vec<AutomationHook>,
    /// Steps that automation hooks can start, by name.
    #[serde(default)]
    pub workflows: BTreeMap<String, Workflow>,
    /// What decides whether the session is complete.
    pub stop: StopPlan,
    /// What the agent may do without being asked about, or may not: the first that fits says.
    #[serde(default)]
    pub permissions: Vec<PermissionRule>,
    /// Commands of the user that agents and hooks may give as well.
    #[serde(default)]
    pub agent_may: Vec<UserCommand>,
    /// Patterns of paths that no turn may change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protect: Vec<String>,
    /// The files that the config was read from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub config_files: Vec<String>,
    /// What the session may use before a person is asked.
    #[serde(default)]
    pub budget: Budget,
    /// What follows when an agent reaches a usage limit.
    #[serde(default)]
    pub limits: LimitsPlan,
    /// The agent's name in the config.
    pub agent: String,
    /// How to run the agent.
    pub agent_spec: AgentSpec,
    /// The type of the session's task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_type: Option<String>,
    /// Who may work on tasks of a type, where not everybody may.
    #[serde(default)]
    pub task_types: BTreeMap<String, Vec<String>>,
    /// How the work is submitted and merged.
    #[serde(default)]
    pub submit: SubmitPlan,
    /// Who reviews changes, by the names that hooks call them by.
    #[serde(default)]
    pub gatekeepers: BTreeMap<String, Gatekeeper>,
}

/// What the agent is told at the end of iteration prompts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompletionInstructions {
    /// creel's completion note, unless the goal mentions promises itself.
    Auto,
    /// Nothing. Sessions that began before there was a note go on without one.
    #[default]
    None,
    /// These words.
    Text(String),
}

impl CompletionInstructions {
    /// What the config says: `auto`, `none`, or the words themselves.
    pub fn of(text: &str) -> Self {
        match text.trim() {
            "auto" => Self::Auto,
            "none" => Self::None,
            _ => Self::Text(text.to_owned()),
        }
    }
}

/// Whether each iteration is a new conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContextPolicy {
    /// A new conversation each iteration.
    #[default]
    Fresh,
    /// One conversation for the session.
    Keep,
}

/// What happens at the retry limit with nobody there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryLimitPolicy {
    /// Accept the turn as it is, with a warning.
    #[default]
    Complete,
    /// End the session as escalated.
    Escalate,
    /// End the session as aborted.
    Abort,
}

/// Waiting before a retry: `base * factor^n`, at most `max`, give or take the jitter.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BackoffPolicy {
    /// The first wait.
    pub base: TimeSpan,
    /// What each further wait is multiplied by.
    pub factor: f64,
    /// No wait is longer.
    pub max: TimeSpan,
    /// The share of the wait that is left to chance, 0 to 1.
    pub jitter: f64,
}

/// Which gates ask a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GatePolicies {
    /// Before what is left is delivered; unsaid: ask, or `auto` with nobody there.
    pub final_delivery: Option<FinalDeliveryPolicy>,
    /// Before each iteration's prompt that carries held output.
    pub delivery: DeliveryPolicy,
    /// Before an agent may use a tool.
    pub permissions: PermissionPolicy,
    /// After how long the `auto` answer is taken; zero: wait.
    pub timeout: TimeSpan,
}

/// What happens to held output when the loop is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinalDeliveryPolicy {
    /// A person looks at it first.
    Ask,
    /// It is delivered.
    Auto,
    /// It stays where it is.
    Skip,
}

/// What happens to held output before an iteration's prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryPolicy {
    /// A person looks at it first.
    Ask,
    /// It goes with the prompt.
    #[default]
    Auto,
}

/// What an agent may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PermissionPolicy {
    /// A person is asked.
    #[default]
    Ask,
    /// Everything.
    Allow,
    /// Nothing that it has to ask for.
    Deny,
}

/// What is said beforehand about some of the things that an agent asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionRule {
    /// The sorts of tools that it is about; all, if unsaid.
    pub kinds: Vec<ToolKind>,
    /// Patterns for the files that it is about, relative to the project; if unsaid, files do not matter.
    pub paths: Vec<String>,
    /// What is said.
    pub action: PermissionPolicy,
}

/// What a session may use before a person is asked; what is unsaid is not limited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// Tokens, as the agent reports them.
    pub tokens: Option<u64>,
    /// Money, as the agent reports it.
    pub cost: Option<f64>,
    /// Time in which the agent works.
    pub time: Option<TimeSpan>,
}

/// One configured hook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HookSpec {
    /// What it is called; unique at its point.
    pub name: String,
    /// What it does.
    pub action: HookAction,
    /// How long it may take.
    pub timeout: TimeSpan,
    /// Whether its output goes to the agent.
    pub pipe_output: bool,
    /// Lower runs first.
    pub priority: i64,
    /// Whether it runs at all.
    pub enabled: bool,
    /// What a failure means; unsaid: what the point says.
    pub on_failure: Option<HookFailurePolicy>,
    /// How it sends the agent back. Only stop hooks do.
    #[serde(flatten)]
    pub retry: RetryOptions,
}

/// How a stop hook that blocks sends the agent back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RetryOptions {
    /// How many times, before the user is asked. None: as often as the session allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    /// The template of what the agent reads. None: `[Hook feedback]: ` and the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feedback: Option<String>,
}

/// A hook that is told of events of tasks, and answers with actions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AutomationHook {
    /// The events that it subscribes to.
    pub events: Vec<TaskEventKind>,
    /// What runs, and when among others.
    pub spec: HookSpec,
}

/// What a hook does when it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookAction {
    /// `sh -c` with the template filled in.
    Command(String),
    /// Something that creel brings along.
    Builtin(BuiltinCall),
    /// Each named agent reviews the change.
    Gatekeeper(Vec<String>),
}

/// What a failed hook means, where its configuration overrides its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookFailurePolicy {
    /// Nothing.
    Ignore,
    /// As if it had blocked.
    Block,
    /// A person decides.
    Escalate,
}

/// How to run an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentSpec {
    /// A program that speaks the Agent Client Protocol on its standard streams.
    Acp {
        /// The command line.
        command: String,
        /// The mode in which it works, by the agent's own name for it; as it likes, if unsaid.
        #[serde(default)]
        mode: Option<String>,
        /// Whether creel reads and writes files for it.
        #[serde(default)]
        files: ServicePolicy,
        /// Whether creel runs commands for it.
        #[serde(default)]
        terminals: ServicePolicy,
        /// What is known of it.
        #[serde(default)]
        known: AgentFacts,
    },
    /// One process a turn.
    Command {
        /// The command line of a conversation's first turn.
        command: String,
        /// The command line of its later turns, if it differs.
        continue_command: Option<String>,
        /// What its output looks like.
        #[serde(default)]
        format: OutputFormat,
        /// Whether it gets a terminal of its own.
        #[serde(default)]
        tty: bool,
        /// What is known of it.
        #[serde(default)]
        known: AgentFacts,
    },
    /// None: an agent that somebody runs by hand leads itself, and reaches the session by its tools.
    Outside,
    /// Turns read from a file; the text is kept, so that a resumed session follows the same script.
    Scripted {
        /// The script itself, as YAML.
        script: String,
    },
}

impl AgentSpec {
    /// A program that speaks the protocol, and nothing more is said of it.
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
    /// The command line that it runs, if it runs one.
    pub fn command_line(&self) -> Option<&str> {
        match self {
            Self::Acp { command, .. } | Self::Command { command, .. } => Some(command),
            Self::Scripted { .. } | Self::Outside => None,
        }
    }

    /// Whether it gets the session's tools.
    pub fn tool_access(&self) -> ToolAccess {
        let Some(known) = self.facts() else { return ToolAccess::Off };
        match (&known.tools, self) {
            _ if known.mcp == Some(false) => ToolAccess::Off,
            (Some(ToolPassing::Refused), _) => ToolAccess::Refused,
            (Some(ToolPassing::Options(_)), _) | (None, Self::Acp { .. }) => ToolAccess::Given,
            (None, Self::Command { .. } | Self::Scripted { .. } | Self::Outside) => ToolAccess::InVariable,
        }
    }

    /// What is known of it; a script needs nothing to be known.
    pub fn facts(&self) -> Option<&AgentFacts> {
        match self {
            Self::Acp { known, .. } | Self::Command { known, .. } => Some(known),
            Self::Scripted { .. } | Self::Outside => None,
        }
    }
}

/// What is known of an agent beside how to run it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentFacts {
    /// How to install it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install: Option<String>,
    /// How to log in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub login: Option<String>,
    /// What an answer looks like that is really an error: a regular expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_pattern: Option<String>,
    /// The words by which its usage limits are known: a regular expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_pattern: Option<String>,
    /// What its count of tokens at the end of a turn is about; the turn, if unsaid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<UsageScope>,
    /// Whether it is given the session's tools; it is, if unsaid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp: Option<bool>,
    /// Whether the completion note has to list the names of the session's tools, because the agent does not show them to
    /// its model by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub list_tools: Option<bool>,
    /// How it gets the session's tools; as its kind does, if unsaid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<ToolPassing>,
}

/// How an agent gets the session's tools, where its kind has no way of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolPassing {
    /// It does not accept them.
    Refused,
    /// By options of its own, which are added to its command line.
    Options(String),
}

/// Whether an agent gets the session's tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolAccess {
    /// It does.
    Given,
    /// It has to read a variable and start the server itself.
    InVariable,
    /// It does not accept them.
    Refused,
    /// It needs none, or the config keeps them from it.
    Off,
}

/// What a count of tokens is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsageScope {
    /// The turn.
    Turn,
    /// The conversation so far.
    Conversation,
}

impl AgentFacts {
    /// Whether the completion note should list the session's tools by name.
    pub fn lists_tools(&self) -> bool {
        self.list_tools == Some(true) && self.mcp != Some(false) && self.tools != Some(ToolPassing::Refused)
    }

    /// These facts, and for what they leave out, others.
    #[must_use]
    pub fn or(self, others: Self) -> Self {
        Self {
            install: self.install.or(others.install),
            login: self.login.or(others.login),
            error_pattern: self.error_pattern.or(others.error_pattern),
            limit_pattern: self.limit_pattern.or(others.limit_pattern),
            usage: self.usage.or(others.usage),
            mcp: self.mcp.or(others.mcp),
            list_tools: self.list_tools.or(others.list_tools),
            tools: self.tools.or(others.tools),
        }
    }
}

/// Whether creel does something for an agent that asks for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServicePolicy {
    /// Inside the project's folder.
    #[default]
    Serve,
    /// Never; the agent has to do it itself.
    Decline,
}

/// What the output of a command agent looks like.
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
