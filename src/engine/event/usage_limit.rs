//! Usage limits of agents: when one is reached, and which agent works meanwhile.

use crate::engine::{
    actor::Actor,
    time::{UnixTime, as_rfc3339, rfc3339_or_none},
};
use serde::{Deserialize, Serialize};

/// Usage limits of agents: when one is reached, and which agent works meanwhile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum UsageLimitEvent {
    #[serde(rename = "limit_reached")]
    Reached(Box<LimitReached>),
    #[serde(rename = "agent_switched")]
    AgentSwitched {
        from: String,
        to: String,
        reason: String,
        /// The user who wanted it; creel itself, if unsaid.
        #[serde(flatten, default)]
        by: Option<Actor>,
    },
    #[serde(rename = "wait_skipped")]
    WaitSkipped {
        #[serde(flatten)]
        by: Actor,
    },
}

/// An agent reached a usage limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitReached {
    /// Which agent.
    pub agent: String,
    /// When the limit resets, where the agent or its server says so.
    #[serde(default, with = "rfc3339_or_none", skip_serializing_if = "Option::is_none")]
    pub resets_at: Option<UnixTime>,
    /// When the session sends the turn again, unless another agent takes it or the user decides.
    #[serde(with = "as_rfc3339")]
    pub until: UnixTime,
    /// What the session does meanwhile.
    pub action: LimitAction,
}

/// What a session does when its agent reached a usage limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitAction {
    /// It waits.
    Wait,
    /// It asks the user.
    Ask,
    /// Another agent takes the turn.
    Switch,
}
