//! The events of retries, and of the waits between attempts.

use serde::{Deserialize, Serialize};

use crate::engine::time::{TimeSpan, UnixTime};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum RetryEvent {
    #[serde(rename = "retry_counted")]
    Counted {
        used: u32,
        limit: u32,
        hook: String,
        reason: String,
        no_progress: bool,
    },
    #[serde(rename = "retry_limit_reached")]
    LimitReached { used: u32, limit: u32, hook: String },
    #[serde(rename = "backoff_started")]
    BackoffStarted { wait_ms: TimeSpan, until: UnixTime },
}

impl RetryEvent {
    /// The kinds of its records.
    pub(crate) const KINDS: &'static [&'static str] =
        &["retry_counted", "retry_limit_reached", "backoff_started"];
}
