//! The events of retries, and of the waits between attempts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::engine::{
    hooks::dispatch::HookFeedback,
    time::{TimeSpan, UnixTime},
};

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
        #[serde(default, skip_serializing_if = "Option::is_none")]
        feedback: Option<Box<RecordedFeedback>>,
    },
    #[serde(rename = "retry_limit_reached")]
    LimitReached { used: u32, limit: u32, hook: String },
    #[serde(rename = "backoff_started")]
    BackoffStarted { wait_ms: TimeSpan, until: UnixTime },
}

/// The feedback that the agent gets next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedFeedback {
    pub text: String,
    /// The text without templates, if it is different. Comparing it shows whether anything changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usual: Option<String>,
    /// All hooks that blocked.
    pub blocked: Vec<String>,
    /// The output of hooks with a template, which `{{changed}}` is compared with, by hook.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub outputs: BTreeMap<String, String>,
}

impl From<HookFeedback> for RecordedFeedback {
    fn from(feedback: HookFeedback) -> Self {
        let outputs = feedback.own.into_iter().map(|own| (own.hook, own.output));
        Self {
            usual: (feedback.usual != feedback.text).then_some(feedback.usual),
            text: feedback.text,
            blocked: feedback.blocked,
            outputs: outputs.collect(),
        }
    }
}

impl RetryEvent {
    /// The kinds of its records.
    pub(crate) const KINDS: &'static [&'static str] =
        &["retry_counted", "retry_limit_reached", "backoff_started"];
}
