//! The part of the plan for usage limits of agents.

use serde::{Deserialize, Serialize};

use crate::engine::{policy::AgentSpec, stored_form::is_default, time::TimeSpan};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LimitsPlan {
    pub on_usage_limit: UsageLimitPolicy,
    /// The longest wait without asking the user, and the longest sum of waits since the last turn
    /// that ended well.
    pub max_wait: TimeSpan,
    #[serde(default, skip_serializing_if = "is_default")]
    pub outage: OutagePlan,
    /// After this long without a word, the agent is shown as silent. 0: never.
    #[serde(default = "silence", skip_serializing_if = "is_usual_silence")]
    pub silence: TimeSpan,
    /// The agents that take over, in this order.
    #[serde(default)]
    pub fallback: Vec<FallbackAgent>,
}

impl Default for LimitsPlan {
    fn default() -> Self {
        Self {
            on_usage_limit: UsageLimitPolicy::Wait,
            max_wait: TimeSpan::secs(12 * 60 * 60),
            outage: OutagePlan::default(),
            silence: silence(),
            fallback: Vec::new(),
        }
    }
}

const fn silence() -> TimeSpan {
    TimeSpan::secs(10 * 60)
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_usual_silence(span: &TimeSpan) -> bool {
    *span == silence()
}

/// The waits while an agent's server is overloaded or cannot be reached.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutagePlan {
    /// The first wait. Each further one is twice as long.
    pub base: TimeSpan,
    pub max: TimeSpan,
    /// After so much waiting, the turn has failed.
    pub total: TimeSpan,
}

impl Default for OutagePlan {
    fn default() -> Self {
        Self {
            base: TimeSpan::secs(5),
            max: TimeSpan::secs(5 * 60),
            total: TimeSpan::secs(2 * 60 * 60),
        }
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
