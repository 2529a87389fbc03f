//! The part of the plan for usage limits of agents.

use serde::{Deserialize, Serialize};

use crate::engine::{policy::AgentSpec, time::TimeSpan};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LimitsPlan {
    pub on_usage_limit: UsageLimitPolicy,
    /// The longest wait without asking the user.
    pub max_wait: TimeSpan,
    /// The agents that take over, in this order.
    #[serde(default)]
    pub fallback: Vec<FallbackAgent>,
}

impl Default for LimitsPlan {
    fn default() -> Self {
        Self { on_usage_limit: UsageLimitPolicy::Wait, max_wait: TimeSpan::secs(12 * 60 * 60), fallback: Vec::new() }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsageLimitPolicy {
    #[default]
    Wait,
    Ask,
    /// The turn fails like any other.
    Fail,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FallbackAgent {
    pub name: String,
    pub spec: AgentSpec,
}
