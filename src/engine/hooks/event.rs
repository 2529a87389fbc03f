//! The events of hooks: which are due, which one runs, how it ended.

use serde::{Deserialize, Serialize};

use crate::engine::{
    actor::Actor,
    hooks::{
        point::HookPoint,
        verdict::{BuiltinOutcome, HookReply, RecordedJudgement, RunEnd, Verdict},
    },
    ids::{PermissionId, RunId},
    stop::decision::StopResult,
    stored_form::known_or_none,
    time::TimeSpan,
};

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
        /// Whether the user ran the hook by hand.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        by_hand: bool,
        /// The agent's request that waits for these hooks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ask: Option<PermissionId>,
    },
    /// The user wants to run a hook now.
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
        /// Whether it runs independently of the lifecycle.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        beside: bool,
        /// The agent's own loop that it evaluates.
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

impl HookEvent {
    /// The kinds of its records.
    pub(crate) const KINDS: &'static [&'static str] = &[
        "hooks_due",
        "hook_requested",
        "hook_started",
        "hook_finished",
        "hook_disabled",
        "hook_enabled",
    ];
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HookFinished {
    pub run: RunId,
    pub point: HookPoint,
    pub hook: String,
    pub iteration: u32,
    pub end: RunEnd,
    pub took_ms: TimeSpan,
    pub verdict: Verdict,
    /// Truncated.
    pub stdout: String,
    /// Truncated.
    pub stderr: String,
    /// How many bytes the limits left out.
    pub omitted_bytes: u64,
    /// Whether its output is sent to the agent.
    pub piped: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<HookReply>,
    /// The result of a stop decision hook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Box<StopResult>>,
    /// The file with the whole output, relative to the session's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<BuiltinOutcome>,
    /// The judgement of the run, beyond its verdict. Journals of earlier versions do not contain
    /// it.
    #[serde(
        default,
        deserialize_with = "known_or_none",
        skip_serializing_if = "Option::is_none"
    )]
    pub judged: Option<RecordedJudgement>,
    /// Whether the run was cut and runs again when the session is resumed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
}
