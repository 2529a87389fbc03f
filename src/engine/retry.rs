//! Retries of blocked turns, failed turns in a row, and the waits between attempts.
//!
//! Owns the counters, the waits, their events, and the feedback to the agent ([`feedback`]). Does
//! not run the stop hooks that block ([`super::hooks`]). A turn that reached a usage limit is not a
//! retry ([`super::usage_limit`]).
//!
//! # Invariants
//! - `used` never passes the limit unless the user granted more.
//! - An iteration's prompt, or a message of the user, resets `used` to 0.
//! - The length of a wait is recorded when it begins, so a crash neither shortens nor repeats it.

pub(crate) mod apply;
pub mod feedback;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::engine::{
    gate::event::GateGrants,
    hooks::dispatch::HookFeedback,
    policy::BackoffPolicy,
    time::{TimeSpan, UnixTime},
};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RetryState {
    /// `hookLoopCounter`: feedback sent since the last new message.
    pub used: u32,
    /// Retries that the user granted on top of the limit.
    pub granted: u32,
    /// The retries per blocking hook.
    pub by_hook: BTreeMap<String, HookRetries>,
    /// The limit that applied to the last blocked stop.
    pub applies: Option<u32>,
    pub last_feedback: Option<String>,
    /// The last feedback in the default form. Comparing it shows whether the next one is new.
    pub last_usual: Option<String>,
    /// Failed turns in a row.
    pub errors: u32,
    pub wait: RetryWait,
    /// How long the last wait is.
    pub last_wait: TimeSpan,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RetryWait {
    #[default]
    No,
    /// A wait is due, but its length is not recorded yet.
    Due {
        /// Which consecutive wait this is, from 1.
        nth: u32,
        /// The wait that the agent's server asked for.
        at_least: TimeSpan,
    },
    Until(UnixTime),
}

impl RetryState {
    /// The retry limit, including the user's grants.
    pub fn limit(&self, max: u32) -> u32 {
        max.saturating_add(self.granted)
    }

    /// Another process resumed the session, and the clock may have been changed since: no wait
    /// becomes longer than it was.
    pub(crate) fn resumed(&mut self, at: UnixTime) {
        if let RetryWait::Until(until) = self.wait {
            self.wait = RetryWait::Until(until.min(at.after(self.last_wait)));
        }
    }

    /// A new message: the count starts again.
    pub(crate) fn reset(&mut self) {
        self.used = 0;
        self.granted = 0;
        self.by_hook.clear();
        self.applies = None;
        self.last_feedback = None;
        self.last_usual = None;
    }

    pub(crate) fn grant(&mut self, grants: &GateGrants) {
        self.granted = self
            .granted
            .saturating_add(grants.retries.unwrap_or_default());
        for (hook, retries) in &grants.hooks {
            let known = self.by_hook.entry(hook.clone()).or_default();
            known.granted = known.granted.saturating_add(*retries);
        }
        self.applies = None;
    }
}

/// The length of the `nth` wait. The jitter depends only on the session's seed, so a replay waits
/// the same.
pub(crate) fn wait_for(backoff: &BackoffPolicy, nth: u32, seed: u64) -> TimeSpan {
    let exponent = i32::try_from(nth.saturating_sub(1)).unwrap_or(i32::MAX);
    let full = (millis(backoff.base) * backoff.factor.powi(exponent)).min(millis(backoff.max));
    let chance = share(seed ^ u64::from(nth)) * 2.0 - 1.0;
    from_millis((full * (1.0 + backoff.jitter * chance)).min(millis(backoff.max)))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "waits of more than 2^53 ms do not occur"
)]
fn millis(span: TimeSpan) -> f64 {
    span.0 as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates, and a wait is never negative"
)]
fn from_millis(ms: f64) -> TimeSpan {
    TimeSpan(ms.max(0.0).round() as u64)
}

/// A number from 0 to 1 that depends on the seed alone (the finalizer of `SplitMix64`).
#[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
fn share(seed: u64) -> f64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}

impl RetryState {
    /// Counts a retry for each hook that blocked, and remembers what the next feedback is compared
    /// with.
    pub(crate) fn feedback_due(&mut self, nth: u32, feedback: &RecordedFeedback) {
        for hook in &feedback.blocked {
            let known = self.by_hook.entry(hook.clone()).or_default();
            known.used = known.used.saturating_add(1);
            known.output = feedback.outputs.get(hook).cloned();
        }
        let usual = feedback.usual.as_ref().unwrap_or(&feedback.text);
        self.last_usual = Some(usual.clone());
        self.last_feedback = Some(feedback.text.clone());
        self.wait = RetryWait::Due {
            nth,
            at_least: TimeSpan::default(),
        };
    }
}

/// The retries that one hook has caused since the last new message.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookRetries {
    pub used: u32,
    /// How many the user granted on top of the hook's own limit.
    pub granted: u32,
    /// Its last output, if its feedback is a template.
    pub output: Option<String>,
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_by_the_factor_up_to_the_maximum() {
        let backoff = BackoffPolicy {
            base: TimeSpan::secs(1),
            factor: 2.0,
            max: TimeSpan::secs(10),
            jitter: 0.0,
        };
        let waits: Vec<u64> = (1..=6).map(|nth| wait_for(&backoff, nth, 7).0).collect();
        assert_eq!(waits, [1_000, 2_000, 4_000, 8_000, 10_000, 10_000]);
    }

    #[test]
    fn jitter_stays_within_its_share_and_below_the_maximum() {
        let backoff = BackoffPolicy {
            base: TimeSpan::secs(10),
            factor: 1.0,
            max: TimeSpan::secs(11),
            jitter: 0.2,
        };
        for seed in 0..1_000 {
            let wait = wait_for(&backoff, 1, seed).0;
            assert!((8_000..=11_000).contains(&wait), "{wait}");
        }
    }
}
