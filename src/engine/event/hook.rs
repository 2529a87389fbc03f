//! Runs of hooks: which are due, which run, how they ended.

use crate::engine::{
    actor::Actor,
    hooks::{
        point::HookPoint,
        verdict::{BuiltinOutcome, HookReply, RunEnd, Verdict},
    },
    ids::RunId,
    stop::StopResult,
    time::TimeSpan,
};
use serde::{Deserialize, Serialize};

/// Runs of hooks: which are due, which run, how they ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum HookEvent {
    /// A point was reached, and these hooks will run there.
    #[serde(rename = "hooks_due")]
    Due {
        point: HookPoint,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        iteration: Option<u32>,
        hooks: Vec<String>,
        /// The task whose event it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<String>,
        /// Whether a person asked for it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        by_hand: bool,
    },
    /// A person wants a hook to run now.
    #[serde(rename = "hook_requested")]
    Requested {
        point: HookPoint,
        hook: String,
        #[serde(flatten)]
        by: Actor,
    },
    #[serde(rename = "hook_started")]
    Started {
        run: RunId,
        point: HookPoint,
        hook: String,
        iteration: u32,
        /// Retries so far.
        attempt: u32,
        /// Whether it runs beside the main line.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        beside: bool,
        /// The agent's own loop that it judges.
        #[serde(default, rename = "loop", skip_serializing_if = "Option::is_none")]
        of: Option<String>,
    },
    #[serde(rename = "hook_finished")]
    Finished(Box<HookFinished>),
    #[serde(rename = "hook_disabled")]
    Disabled {
        point: HookPoint,
        hook: String,
        #[serde(flatten)]
        by: Actor,
    },
    #[serde(rename = "hook_enabled")]
    Enabled {
        point: HookPoint,
        hook: String,
        #[serde(flatten)]
        by: Actor,
    },
}

/// How a run ended and what it means.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HookFinished {
    /// The ticket.
    pub run: RunId,
    /// Where.
    pub point: HookPoint,
    /// Which.
    pub hook: String,
    /// When.
    pub iteration: u32,
    /// How it ended.
    pub end: RunEnd,
    /// How long it took.
    pub took_ms: TimeSpan,
    /// What it means.
    pub verdict: Verdict,
    /// Standard output, limited.
    pub stdout: String,
    /// Standard error, limited.
    pub stderr: String,
    /// How much the limits left out.
    pub omitted_bytes: u64,
    /// Whether its text goes to the agent.
    pub piped: bool,
    /// The JSON that it answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<HookReply>,
    /// What it decided, where it is a stop decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Box<StopResult>>,
    /// The file with all of the output, relative to the session's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// What a built-in hook came to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<BuiltinOutcome>,
    /// Whether it was cut off with the session, and runs again when that is resumed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
}
