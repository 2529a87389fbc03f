//! The actor behind a command, and which commands agents and hooks are allowed to give.
//!
//! # Invariants
//! - The session's own agent and hooks cannot act as the user: they never answer a gate, disable a
//!   hook, change pending items, pause, stop, submit or merge, unless the config adds that command
//!   to `agent_may`. The same is true of agents and hooks of other sessions, and of commands that
//!   need no session.

use serde::{Deserialize, Serialize};

/// How a command reached the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActorKind {
    Tui,
    /// The command line, or a signal.
    Cli,
    /// An MCP client other than the session's own agent.
    Mcp,
    /// Another machine.
    Nats,
    /// The session's own agent, through any endpoint.
    Agent,
    /// One of the session's own hooks, through any endpoint.
    Hook,
    /// An agent or a hook of another session.
    #[serde(rename = "agent", skip_deserializing)]
    OtherSession,
    Policy,
    /// A gate that timed out.
    Timeout,
}

impl ActorKind {
    /// The name in records and on the screen.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tui => "tui",
            Self::Cli => "cli",
            Self::Mcp => "mcp",
            Self::Nats => "nats",
            Self::Agent | Self::OtherSession => "agent",
            Self::Hook => "hook",
            Self::Policy => "policy",
            Self::Timeout => "timeout",
        }
    }

    /// Whether it is a part of a session, whose work creel checks.
    pub const fn is_supervised(self) -> bool {
        matches!(self, Self::Agent | Self::Hook | Self::OtherSession)
    }
}

/// The actor that gave a command; records carry its fields as `by`, `user`, `host` and `claimed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    pub by: ActorKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The machine that the user works at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Whether only the client says so: no server and no system vouches for the name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub claimed: bool,
}

impl Actor {
    /// An actor without the name of a user.
    pub const fn of(by: ActorKind) -> Self {
        Self {
            by,
            user: None,
            host: None,
            claimed: false,
        }
    }

    /// The same actor in records, which name no other sessions.
    #[must_use]
    pub fn as_recorded(&self) -> Self {
        let by = if self.by == ActorKind::OtherSession {
            ActorKind::Agent
        } else {
            self.by
        };
        Self { by, ..self.clone() }
    }
}

impl From<ActorKind> for Actor {
    fn from(by: ActorKind) -> Self {
        Self::of(by)
    }
}

impl std::fmt::Display for Actor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let claimed = if self.claimed { ", claimed" } else { "" };
        let by = format!("{}{claimed}", self.by.name());
        match (&self.user, &self.host) {
            (Some(user), Some(host)) => write!(f, "{user}@{host} ({by})"),
            (Some(name), None) | (None, Some(name)) => write!(f, "{name} ({by})"),
            (None, None) => f.write_str(self.by.name()),
        }
    }
}

/// A command that only the user can give, unless the config allows it for agents and hooks.
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
    /// Start or resume a session.
    Run,
    Worker,
    Init,
    /// Change the queue, other than by adding a task.
    Task,
    /// Remove worktrees.
    Worktree,
    /// Delete old sessions.
    Prune,
}

impl UserCommand {
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
            Self::Run => "run",
            Self::Worker => "worker",
            Self::Init => "init",
            Self::Task => "task",
            Self::Worktree => "worktree",
            Self::Prune => "prune",
        }
    }

    /// Whether `agent_may` allows it. A worker starts sessions.
    pub fn is_allowed_by(self, agent_may: &[Self]) -> bool {
        agent_may.contains(&self) || (self == Self::Run && agent_may.contains(&Self::Worker))
    }
}

/// The rules of the config, as the actor of an answer.
pub(crate) const POLICY: Actor = Actor::of(ActorKind::Policy);
/// A hook of the config, as the actor of an answer.
pub(crate) const HOOK: Actor = Actor::of(ActorKind::Hook);
