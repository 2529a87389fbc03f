//! What follows when an agent reaches a usage limit.

use serde::{Deserialize, Serialize};

use super::AgentSpec;
use crate::engine::time::TimeSpan;

/// What follows when an agent reaches a usage limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LimitsPlan {
    /// What the session does.
    pub on_usage_limit: UsageLimitPolicy,
    /// The user is asked about a longer wait.
    pub max_wait: TimeSpan,
    /// The agents that take over meanwhile, in this order.
    #[serde(default)]
    pub fallback: Vec<FallbackAgent>,
}

impl Default for LimitsPlan {
    fn default() -> Self {
        Self { on_usage_limit: UsageLimitPolicy::Wait, max_wait: TimeSpan::secs(12 * 60 * 60), fallback: Vec::new() }
    }
}

/// What a session does at a usage limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsageLimitPolicy {
    /// It waits for the reset.
    #[default]
    Wait,
    /// It asks the user.
    Ask,
    /// The turn fails like any other.
    Fail,
}

/// An agent that takes over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FallbackAgent {
    /// Its name.
    pub name: String,
    /// How to run it.
    pub spec: AgentSpec,
}
