//! The events of usage limits: a limit was reached, another agent continues, the user skipped the
//! wait.

use serde::{Deserialize, Serialize};

use crate::engine::{
    actor::Actor,
    conversation::LimitCause,
    stored_form::is_default,
    time::{UnixTime, as_rfc3339, rfc3339_or_none},
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum UsageLimitEvent {
    #[serde(rename = "limit_reached")]
    Reached(Box<LimitReached>),
    /// The agent's server is overloaded, or cannot be reached.
    #[serde(rename = "outage_reported")]
    Outage(Box<LimitReached>),
    #[serde(rename = "agent_switched")]
    AgentSwitched {
        from: String,
        to: String,
        reason: String,
        /// Until then, the agent that did not answer gets no turn.
        #[serde(
            default,
            with = "rfc3339_or_none",
            skip_serializing_if = "Option::is_none"
        )]
        until: Option<UnixTime>,
        /// The user that requested the switch. None: creel itself.
        #[serde(flatten, default)]
        by: Option<Actor>,
    },
    #[serde(rename = "wait_skipped")]
    WaitSkipped {
        #[serde(flatten)]
        by: Actor,
    },
}

impl UsageLimitEvent {
    /// The kinds of its records.
    pub(crate) const KINDS: &'static [&'static str] = &[
        "limit_reached",
        "outage_reported",
        "agent_switched",
        "wait_skipped",
    ];
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitReached {
    pub agent: String,
    /// None if neither the agent nor its server reports it.
    #[serde(
        default,
        with = "rfc3339_or_none",
        skip_serializing_if = "Option::is_none"
    )]
    pub resets_at: Option<UnixTime>,
    /// When the session sends the turn again, unless another agent continues it or the user
    /// decides.
    #[serde(with = "as_rfc3339")]
    pub until: UnixTime,
    pub action: LimitAction,
    #[serde(default, skip_serializing_if = "is_default")]
    pub cause: LimitCause,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitAction {
    Wait,
    Ask,
    /// Another agent continues the turn.
    Switch,
    /// The turn fails like any other.
    Fail,
}
