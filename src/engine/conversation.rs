//! What goes between creel and an agent: a prompt, what the agent does meanwhile, and how the turn ends.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{ids::PermissionId, time::TimeSpan};

/// Whether a prompt opens a new conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConversationMode {
    /// The agent starts with nothing but this prompt.
    New,
    /// The agent knows what was said before.
    Same,
}

/// Something that an agent did in the middle of a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentUpdate {
    /// Text of its answer, as it comes.
    Said(String),
    /// Text of its thinking, as it comes.
    Thought(String),
    /// A tool call began.
    ToolCalled(ToolCall),
    /// A tool call went on or ended.
    ToolUpdated(ToolCall),
    /// What it means to do, whole; it replaces what it meant to do before.
    Planned(Vec<PlanEntry>),
    /// How full its memory is, and what the conversation has cost so far.
    Used(ContextUsage),
    /// A conversation began or was taken up again, and can be found later by this name.
    Opened(String),
    /// Something of its own affairs: its mode, its commands, or a kind that creel does not know.
    Noted {
        /// What kind.
        what: String,
        /// What it said, for a person.
        text: String,
    },
    /// Something that a person should know.
    Warned(String),
}

/// A tool call and how far it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Its name within the session.
    pub call: String,
    /// What it does, for a person.
    pub title: String,
    /// How far it is.
    pub status: ToolStatus,
    /// What sort of thing it does, where that is known.
    #[serde(default, rename = "tool", skip_serializing_if = "Option::is_none")]
    pub kind: Option<ToolKind>,
    /// The files that it is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locations: Vec<FileLocation>,
    /// Its arguments, limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// What it changes, as a unified diff, limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// What it printed, limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

/// What sort of thing a tool does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    /// Reads files or data.
    Read,
    /// Changes files.
    Edit,
    /// Removes files or data.
    Delete,
    /// Renames or moves files.
    Move,
    /// Looks for something.
    Search,
    /// Runs a command.
    Execute,
    /// Thinks aloud.
    Think,
    /// Gets something from elsewhere.
    Fetch,
    /// Changes how the agent works.
    SwitchMode,
    /// Anything else.
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

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileLocation {
    /// The file, as the agent names it.
    pub path: String,
    /// The line, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

/// One thing that the agent means to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanEntry {
    /// What.
    pub content: String,
    /// How far it is.
    pub status: ToolStatus,
}

/// How full the agent's memory is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ContextUsage {
    /// Tokens in it.
    pub used: u64,
    /// Tokens that fit into it.
    pub size: u64,
}

/// A permission request: something that an agent wants to do, or wants creel to do for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentPermissionRequest {
    /// The ticket.
    pub ask: PermissionId,
    /// What it wants to do.
    #[serde(flatten)]
    pub tool: ToolCall,
    /// The answers that it offers.
    pub options: Vec<PermissionOption>,
    /// What the request is about.
    #[serde(default, skip_serializing_if = "PermissionSource::is_agent")]
    pub source: PermissionSource,
    /// Whether creel kept only a part of its title, its input or its change: two such requests may look the same and differ.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shortened: bool,
}

impl AgentPermissionRequest {
    /// A request for something that the agent does itself.
    pub const fn new(ask: PermissionId, tool: ToolCall, options: Vec<PermissionOption>) -> Self {
        Self { ask, tool, options, source: PermissionSource::Agent, shortened: false }
    }
}

/// What a permission request is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PermissionSource {
    /// Something that the agent does itself.
    #[default]
    Agent,
    /// A call of one of creel's own MCP tools.
    CreelTool,
    /// A file or a command that creel serves to the agent.
    Service,
}

impl PermissionSource {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    const fn is_agent(&self) -> bool {
        matches!(self, Self::Agent)
    }
}

/// An answer that an agent offers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionOption {
    /// The agent's own name for it.
    pub id: String,
    /// What it says, for a person.
    pub name: String,
    /// What it means.
    pub kind: PermissionOptionKind,
}

/// What an answer to an agent means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PermissionOptionKind {
    /// Yes, this time.
    AllowOnce,
    /// Yes, and do not ask again.
    AllowAlways,
    /// No, not this time.
    RejectOnce,
    /// No, and do not ask again.
    RejectAlways,
}

/// The answer that an agent gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PermissionAnswer {
    /// One of its options, by its own name.
    Selected(String),
    /// The turn is over; nobody will say.
    Cancelled,
}

/// How far a tool call is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    /// Announced.
    #[default]
    Pending,
    /// Running.
    InProgress,
    /// Done.
    Completed,
    /// Not done.
    Failed,
}

/// What became of the project's files in a turn.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorktreeChanges {
    /// The files that were changed, relative to the project's folder.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files_modified: Vec<String>,
    /// How many more were: a record holds no list without end.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_modified: usize,
    /// The commit that is checked out, in a repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The files that are not committed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dirty: Vec<String>,
    /// How many more are not.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_dirty: usize,
    /// What the named files contain now; without those that creel could not read, or that are too large.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub contents: BTreeMap<String, FileContent>,
}

/// What a file contains after a turn that changed it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileContent {
    /// The beginning of the content's SHA-256 digest. None if the file was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Whether the turn only added to the end of what creel saw there before, as in a log.
    #[serde(skip_serializing_if = "is_false")]
    pub appended: bool,
    /// Whether the file was committed since creel looked last.
    #[serde(skip_serializing_if = "is_false")]
    pub committed: bool,
}

impl FileContent {
    /// The content after this turn and a later one.
    #[must_use]
    pub fn then(&self, later: &Self) -> Self {
        Self {
            digest: later.digest.clone(),
            appended: self.appended && later.appended,
            committed: self.committed || later.committed,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(count: &usize) -> bool {
    *count == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

/// Files that changed during a turn although the agent must not change them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ForbiddenChanges {
    /// Files of creel, the config in use, git's config and hooks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tampered: Vec<String>,
    /// Paths under `protect:`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub protected: Vec<String>,
}

/// How a turn ended that ended by itself.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnEnd {
    /// Why the agent stopped.
    pub stop_reason: StopReason,
    /// What the turn used.
    pub spent: TurnUsage,
    /// What it left in the work tree, where that is known. Told by the runtime, not by the agent.
    pub work: Option<Box<WorktreeChanges>>,
    /// What it must not have changed. Reported by the runtime, not by the agent.
    pub forbidden: ForbiddenChanges,
}

impl TurnEnd {
    /// An end that says nothing of what was used.
    pub const fn new(stop_reason: StopReason) -> Self {
        let forbidden = ForbiddenChanges { tampered: Vec::new(), protected: Vec::new() };
        Self { stop_reason, spent: TurnUsage { tokens: None, cost: None }, work: None, forbidden }
    }
}

/// What a turn used, where the agent says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct TurnUsage {
    /// All tokens, read and written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Money, in the agent's currency, which is the US dollar for all that are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
}

/// Why an agent stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It had said what it wanted to say.
    EndTurn,
    /// It ran into its token limit.
    MaxTokens,
    /// It ran into its request limit.
    MaxTurnRequests,
    /// It refused.
    Refusal,
    /// A person or creel cancelled it.
    Cancelled,
}

/// Why a turn failed.
#[derive(Debug, Clone, Default, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct TurnFailure {
    /// What happened, why, and what to do.
    pub message: String,
    /// How long the agent's server wants to be left alone.
    pub retry_after: Option<TimeSpan>,
    /// The usage limit that it ran into.
    pub limit: Option<UsageLimit>,
    /// What the turn used before it failed.
    pub spent: TurnUsage,
    /// What it must not have changed.
    pub forbidden: Box<ForbiddenChanges>,
}

/// A subscription, a quota or a rate limit that was reached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UsageLimit {
    /// How long it is until the limit resets, where the agent or its server says so.
    pub resets_in: Option<TimeSpan>,
}

impl TurnFailure {
    /// A failure with these words.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }
}
