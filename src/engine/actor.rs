//! Who gave a command, and what agents and hooks may do.
//!
//! # Invariants
//! - The session's own agent and hooks cannot act as the user: they never answer a gate, switch a hook off, change pending
//!   items, pause, stop, submit or merge, unless the config adds that command to `agent_may`.

use serde::{Deserialize, Serialize};

/// How a command reached the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
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

impl By {
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

/// Who gave a command; records carry its fields as `by`, `user` and `host`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    /// How the command came.
    pub by: By,
    /// The name of the person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The machine that the person works at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

impl Actor {
    /// One that is not a person, or whose name is unknown.
    pub const fn of(by: By) -> Self {
        Self { by, user: None, host: None }
    }
}

impl From<By> for Actor {
    fn from(by: By) -> Self {
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
