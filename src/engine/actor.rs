//! The actor behind a command, and what agents and hooks may do.
//!
//! # Invariants
//! - The session's own agent and hooks cannot act as the user: they never answer a gate, switch a hook off, change pending
//!   items, pause, stop, submit or merge, unless the config adds that command to `agent_may`.

use serde::{Deserialize, Serialize};

use super::{input::SessionCommand, submit::PipelineKind};

/// How a command reached the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActorKind {
    /// A screen.
    Tui,
    /// The command line, or a signal.
    Cli,
    /// An MCP client other than the session's own agent.
    Mcp,
    /// Another machine.
    Nats,
    /// The session's own agent, whichever way it took.
    Agent,
    /// One of the session's own hooks, whichever way it took.
    Hook,
    /// The config.
    Policy,
    /// A gate that timed out.
    Timeout,
}

impl ActorKind {
    /// The word for it in records and on the screen.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tui => "tui",
            Self::Cli => "cli",
            Self::Mcp => "mcp",
            Self::Nats => "nats",
            Self::Agent => "agent",
            Self::Hook => "hook",
            Self::Policy => "policy",
            Self::Timeout => "timeout",
        }
    }

    /// Whether it is a part of the session itself, whose work others judge.
    pub const fn is_supervised(self) -> bool {
        matches!(self, Self::Agent | Self::Hook)
    }
}

/// The actor that gave a command; records carry its fields as `by`, `user` and `host`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    /// How the command came.
    pub by: ActorKind,
    /// The name of the person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The machine that the person works at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

impl Actor {
    /// One that is not a person, or whose name is unknown.
    pub const fn of(by: ActorKind) -> Self {
        Self { by, user: None, host: None }
    }
}

impl From<ActorKind> for Actor {
    fn from(by: ActorKind) -> Self {
        Self::of(by)
    }
}

impl std::fmt::Display for Actor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let by = self.by.name();
        match (&self.user, &self.host) {
            (Some(user), Some(host)) => write!(f, "{user}@{host} ({by})"),
            (Some(name), None) | (None, Some(name)) => write!(f, "{name} ({by})"),
            (None, None) => f.write_str(by),
        }
    }
}

/// A command that only the user may give, unless the config allows it to agents and hooks; by its name on the command
/// line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UserCommand {
    Pause,
    Unpause,
    Message,
    Cancel,
    Stop,
    Pending,
    Gate,
    Hooks,
    Submit,
    Merge,
}

impl UserCommand {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Pause,
        Self::Unpause,
        Self::Message,
        Self::Cancel,
        Self::Stop,
        Self::Pending,
        Self::Gate,
        Self::Hooks,
        Self::Submit,
        Self::Merge,
    ];

    /// Its name on the command line and in `agent_may`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Unpause => "unpause",
            Self::Message => "message",
            Self::Cancel => "cancel",
            Self::Stop => "stop",
            Self::Pending => "pending",
            Self::Gate => "gate",
            Self::Hooks => "hooks",
            Self::Submit => "submit",
            Self::Merge => "merge",
        }
    }

    /// What agents and hooks may not do, for the sentence that refuses it.
    pub(super) const fn describe(self) -> &'static str {
        match self {
            Self::Pause => "pause the session",
            Self::Unpause => "unpause the session",
            Self::Message => "queue more than one message per turn",
            Self::Cancel => "cancel a turn",
            Self::Stop => "stop the session",
            Self::Pending => "change pending items",
            Self::Gate => "answer gates",
            Self::Hooks => "run, cancel, enable or disable hooks",
            Self::Submit => "submit the work",
            Self::Merge => "merge the work",
        }
    }
}

impl SessionCommand {
    /// The command of the user that this is; nothing, if agents and hooks may give it as well.
    pub const fn of_the_user(&self) -> Option<UserCommand> {
        match self {
            Self::Pause => Some(UserCommand::Pause),
            Self::Unpause => Some(UserCommand::Unpause),
            Self::Stop(_) => Some(UserCommand::Stop),
            Self::CancelTurn => Some(UserCommand::Cancel),
            Self::Message(_) => Some(UserCommand::Message),
            Self::SkipItem(_) | Self::RestoreItem(_) | Self::EditItem(..) => Some(UserCommand::Pending),
            // What a gate would ask about, if the config said so.
            Self::AnswerGate(_) | Self::RetryNow | Self::SwitchAgent(_) => Some(UserCommand::Gate),
            Self::DisableHook(..) | Self::EnableHook(..) | Self::RunHook(..) | Self::CancelHook(_) => {
                Some(UserCommand::Hooks)
            }
            Self::Pipeline(PipelineKind::Submit) => Some(UserCommand::Submit),
            Self::Pipeline(PipelineKind::Merge) => Some(UserCommand::Merge),
            Self::Task(_)
            | Self::RegisterStopHook(_)
            | Self::ClearStopHooks(_)
            | Self::Loop(_)
            | Self::CompleteSession(_) => None,
        }
    }
}
