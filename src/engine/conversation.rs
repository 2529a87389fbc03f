//! The exchange between creel and an agent: a prompt, the agent's updates, and the end of the turn.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    hooks::claude::FailureCause, ids::PermissionId, question::AgentQuestion,
    stored_form::known_or_none, time::TimeSpan,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConversationMode {
    New,
    /// The agent has the conversation so far.
    Same,
}

/// The conversation that a session begins with, if it does not begin a new one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstConversation {
    /// The agent's id for it.
    pub id: String,
    /// The session that had it. The agent continues a copy of it. None: it continues the
    /// conversation itself.
    pub fork_of: Option<String>,
}

/// An update that the agent sends during a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentUpdate {
    /// A piece of its answer's text.
    Message(String),
    /// A piece of its thinking.
    Thought(String),
    ToolCalled(ToolCall),
    ToolUpdated(ToolCall),
    /// The whole plan; it replaces the previous one.
    Planned(Vec<PlanEntry>),
    /// The size of its context, and the cost of the conversation so far.
    Used(ContextUsage),
    /// A conversation was opened or resumed. The text is its id, for resuming it later.
    Opened(String),
    /// Anything else that the agent reports: its mode, its commands, or a kind that creel does not
    /// know.
    Noted {
        what: String,
        /// The text to show to the user.
        text: String,
    },
    Warned(String),
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The call's id, unique within the session.
    pub call: String,
    /// A description to show to the user.
    pub title: String,
    /// The agent's own name of the tool, if it sends one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub status: ToolStatus,
    /// None if the agent does not report one.
    #[serde(default, rename = "tool", skip_serializing_if = "Option::is_none")]
    pub kind: Option<ToolKind>,
    /// The files that the call reads or changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locations: Vec<FileLocation>,
    /// More files that it names: in its arguments and its diffs, and where links lead.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Its arguments, truncated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// Its change as a unified diff, truncated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// Its output, truncated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Whether creel does it for the agent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub served: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    Read,
    Edit,
    Delete,
    Move,
    Search,
    Execute,
    Think,
    Fetch,
    /// Switches the agent's mode.
    SwitchMode,
    #[serde(other)]
    Other,
}

impl ToolKind {
    /// The name in records and in the config.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Edit => "edit",
            Self::Delete => "delete",
            Self::Move => "move",
            Self::Search => "search",
            Self::Execute => "execute",
            Self::Think => "think",
            Self::Fetch => "fetch",
            Self::SwitchMode => "switch_mode",
            Self::Other => "other",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileLocation {
    /// The path as the agent wrote it.
    pub path: String,
    /// From 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanEntry {
    pub content: String,
    pub status: ToolStatus,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ContextUsage {
    /// Tokens in the context.
    pub used: u64,
    /// Tokens that fit into the context.
    pub size: u64,
}

/// A request for permission: for a tool call of the agent, or for something that creel does on its
/// behalf.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentPermissionRequest {
    pub ask: PermissionId,
    #[serde(flatten)]
    pub tool: ToolCall,
    pub options: Vec<PermissionOption>,
    #[serde(default, skip_serializing_if = "PermissionSource::is_agent")]
    pub source: PermissionSource,
    /// Whether creel truncated the title, the input or the diff: two such requests can look the
    /// same and differ.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shortened: bool,
    /// Whether hooks get the whole input, although its record is truncated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub whole: bool,
    /// The fingerprint of the whole input, if its record can be truncated and creel has all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The request of the agent's own hook about the same call: hooks have decided it already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<PermissionId>,
}

impl AgentPermissionRequest {
    /// Whether what hooks decide about a request counts for this one.
    pub(crate) fn is_decided_with(&self, ask: PermissionId) -> bool {
        ask == self.ask || Some(ask) == self.earlier
    }

    /// Whether its hooks see only a part of the call.
    pub(crate) const fn is_cut_for_hooks(&self) -> bool {
        self.shortened && !self.whole
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PermissionSource {
    /// Something that the agent does itself.
    #[default]
    Agent,
    /// A call of one of creel's own MCP tools.
    CreelTool,
    /// A file or a command that creel serves to the agent.
    Service,
    /// A question to the user. The tool call has only its text.
    Question(Box<AgentQuestion>),
    /// A call that the agent is about to make: it asks through the hook that creel added to it. No
    /// decision is an answer, too.
    Hook,
}

impl PermissionSource {
    const fn is_agent(&self) -> bool {
        matches!(self, Self::Agent)
    }
}

/// An answer that the agent offers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionOption {
    /// The agent's id for it.
    pub id: String,
    /// The label to show to the user.
    pub name: String,
    pub kind: PermissionOptionKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PermissionOptionKind {
    AllowOnce,
    AllowAlways,
    RejectOnce,
    RejectAlways,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PermissionAnswer {
    /// The id of the chosen option, or the answer to a question as a JSON object.
    Selected(String),
    /// The question gets no answer: the user declined it, or the session is unattended.
    Declined { unattended: bool },
    /// The call that a hook of the agent asks about must not run, for this reason.
    Refused(String),
    /// No hook has decided that call: the agent continues by its own rules.
    Undecided,
    /// The turn has ended, so the request gets no answer.
    Cancelled,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    #[default]
    Pending,
    InProgress,
    Completed,
    Failed,
}

impl ToolStatus {
    pub const fn has_ended(self) -> bool {
        match self {
            Self::Completed | Self::Failed => true,
            Self::Pending | Self::InProgress => false,
        }
    }
}

/// Changes to the project's files during a turn.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorktreeChanges {
    /// Relative to the project's folder.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files_modified: Vec<String>,
    /// How many changed files `files_modified` leaves out, because the list is limited.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_modified: usize,
    /// The commit that is checked out. None outside a repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// What was checked out before the turn, if it was another commit or there is none now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Files with uncommitted changes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dirty: Vec<String>,
    /// How many such files `dirty` leaves out.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_dirty: usize,
    /// The contents of the listed files, except files that are too large or that creel could not
    /// read.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub contents: BTreeMap<String, FileContent>,
}

/// The lines that a session added and removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedLines {
    pub added: usize,
    pub removed: usize,
    /// How many files differ from before.
    pub files: usize,
}

impl ChangedLines {
    /// The counts together with those of another file.
    #[must_use]
    pub const fn and(self, added: usize, removed: usize) -> Self {
        Self {
            added: self.added + added,
            removed: self.removed + removed,
            files: self.files + 1,
        }
    }
}

/// The lines that a session added to a file and removed from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedFileLines {
    /// Relative to the project's folder.
    pub path: String,
    pub added: usize,
    pub removed: usize,
}

/// The content of a file after a turn that changed it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileContent {
    /// The beginning of the content's SHA-256 digest. None if the file was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Whether the turn only appended to the content that creel had seen before, as in a log.
    #[serde(skip_serializing_if = "is_false")]
    pub appended: bool,
    /// Whether the file was committed since creel last looked.
    #[serde(skip_serializing_if = "is_false")]
    pub committed: bool,
}

impl FileContent {
    /// Combines the content after this turn with the content after a later one.
    #[must_use]
    pub fn then(&self, later: &Self) -> Self {
        Self {
            digest: later.digest.clone(),
            appended: self.appended && later.appended,
            committed: self.committed || later.committed,
        }
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn is_zero(count: &usize) -> bool {
    *count == 0
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

/// Files that changed although agents must not change them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ForbiddenChanges {
    /// creel's own files, the config in use, and git's config and hooks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tampered: Vec<String>,
    /// Paths under `protect:`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub protected: Vec<String>,
    /// Why creel could not compare some of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unchecked: Vec<String>,
}

impl ForbiddenChanges {
    pub const NONE: Self = Self {
        tampered: Vec::new(),
        protected: Vec::new(),
        unchecked: Vec::new(),
    };

    pub fn is_empty(&self) -> bool {
        *self == Self::NONE
    }
}

/// The end of a turn that did not fail.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnEnd {
    pub stop_reason: StopReason,
    pub spent: TurnUsage,
    /// The changes in the work tree, if known. Reported by the runtime, not by the agent.
    pub work: Option<Box<WorktreeChanges>>,
    /// Changes that the agent must not make. Reported by the runtime, not by the agent.
    pub forbidden: ForbiddenChanges,
}

impl TurnEnd {
    /// An end without usage figures.
    pub const fn new(stop_reason: StopReason) -> Self {
        Self {
            stop_reason,
            spent: TurnUsage::UNKNOWN,
            work: None,
            forbidden: ForbiddenChanges::NONE,
        }
    }
}

/// Usage of one turn, as far as the agent reports it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct TurnUsage {
    /// All tokens, input and output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Cost in the agent's currency, which is the US dollar for all known agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// The tokens by kind. None unless every token has a kind.
    #[serde(
        default,
        deserialize_with = "known_or_none",
        skip_serializing_if = "Option::is_none"
    )]
    pub token_kinds: Option<TokenKinds>,
    /// What creel estimated in dollars when the turn ended, if the agent reported no cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_estimated: Option<f64>,
}

impl TurnUsage {
    pub const UNKNOWN: Self = Self {
        tokens: None,
        cost: None,
        token_kinds: None,
        cost_estimated: None,
    };

    /// What the agent reported, otherwise what creel estimated.
    pub fn known_cost(self) -> Option<f64> {
        self.cost.or(self.cost_estimated).map(|cost| cost.max(0.0))
    }

    /// The part of the known cost that creel estimated.
    pub fn estimated_part(self) -> Option<f64> {
        self.known_cost().filter(|_| self.cost.is_none())
    }
}

/// Tokens by what they cost. Each token has one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TokenKinds {
    /// Input that came neither from a cache nor went into one.
    pub input: u64,
    /// Output, with the model's thoughts.
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
}

impl TokenKinds {
    pub const fn total(self) -> u64 {
        self.input
            .saturating_add(self.output)
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_write)
    }

    #[must_use]
    pub const fn plus(self, more: Self) -> Self {
        Self {
            input: self.input.saturating_add(more.input),
            output: self.output.saturating_add(more.output),
            cache_read: self.cache_read.saturating_add(more.cache_read),
            cache_write: self.cache_write.saturating_add(more.cache_write),
        }
    }

    /// What came on top of an earlier count. None if one kind has become less.
    pub fn since(self, before: Self) -> Option<Self> {
        Some(Self {
            input: self.input.checked_sub(before.input)?,
            output: self.output.checked_sub(before.output)?,
            cache_read: self.cache_read.checked_sub(before.cache_read)?,
            cache_write: self.cache_write.checked_sub(before.cache_write)?,
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The agent finished its answer.
    EndTurn,
    MaxTokens,
    MaxTurnRequests,
    Refusal,
    /// The user or creel cancelled the turn.
    Cancelled,
}

#[derive(Debug, Clone, Default, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct TurnFailure {
    /// The cause, and what the user can do.
    pub message: String,
    /// Why it failed, as far as its messages show.
    pub cause: FailureCause,
    /// How long the agent's server asks creel to wait before the next request.
    pub retry_after: Option<TimeSpan>,
    /// Why the turn could not be done now, if nothing is wrong with it.
    pub limit: Option<UsageLimit>,
    /// Whether `turn_timeout` ended the turn of an agent that had sent nothing for
    /// `limits.silence`. The agent reports the first, the runtime the second.
    pub silent: bool,
    /// Usage before the failure.
    pub spent: TurnUsage,
    /// Changes that the agent must not make.
    pub forbidden: Box<ForbiddenChanges>,
    /// The changes in the work tree, if known. Reported by the runtime, not by the agent.
    pub work: Option<Box<WorktreeChanges>>,
}

/// A reason to send the same turn again later, or to another agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageLimit {
    /// Time until the limit resets, if the agent or its server reports it.
    pub resets_in: Option<TimeSpan>,
    pub cause: LimitCause,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitCause {
    /// A subscription limit, a quota or a rate limit.
    #[default]
    Usage,
    /// Nothing is left of what was paid for. Waiting does not help.
    NoCredit,
    /// The agent's server is overloaded, or cannot be reached.
    Outage,
}

/// What the failure of a turn says if the machine does not have the agent's program.
pub const AGENT_NOT_INSTALLED: &str = "is not installed or not on PATH";
/// What it says if the system refuses to start it.
pub const AGENT_NOT_STARTED: &str = "the agent could not be started";

impl TurnFailure {
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            ..Self::default()
        }
    }
}
