//! Hooks: where they run, in which order, with which facts, and what their results mean.
//!
//! Owns the table of hook points ([`point`]), which hooks are due at a point and which ones the
//! session has disabled or found broken, the events of hooks, one pass over the hooks of a point
//! ([`dispatch`]), the facts and placeholders of a run ([`start`], [`template`]), its verdict
//! ([`verdict`]), the hooks that run beside the agent ([`side_jobs`]), and those of its tool calls
//! ([`tool_hooks`]). Does not run anything: see `crate::hooks`. What follows when the hooks of a
//! point have run is decided by [`super::session`], and for submits and merges by
//! [`super::submit`].
//!
//! # Invariants
//! - Every difference between hook points is a column of one table.
//! - No hook fails a session: the most that a hook can do is to open a gate.
//! - Of each kind at most one runs at a time: one hook of the lifecycle, one side job, one
//!   `on_gate` hook, one at each point of tool calls.

pub mod announced_call;
pub(crate) mod apply;
pub mod claude;
pub mod claude_tools;
pub mod dispatch;
pub mod point;
pub mod side_jobs;
pub mod start;
pub mod template;
pub mod tool_hooks;
pub mod tool_matcher;
pub mod verdict;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{
    engine::{
        actor::Actor,
        hooks::{
            point::HookPoint,
            verdict::{BuiltinOutcome, HookReply, RecordedJudgement, RunEnd, Verdict},
        },
        ids::{PermissionId, RunId},
        policy::{HookSpec, SessionPlan, StopHook},
        question::QuestionAnswer,
        stop::decision::StopResult,
        stored_form::{known_or_none, pairs},
        time::TimeSpan,
        turn::event::PromptSent,
        verify::base_tests::{CleanRun, TestSource},
    },
    text::TestCounts,
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
        /// The prompt that waits for these hooks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt: Option<Box<PromptSent>>,
        /// The answer that waits for these hooks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<Box<QuestionAnswer>>,
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
        /// Set if it runs in a clean worktree, with these test files.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tests_of: Option<TestSource>,
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
    /// The tests that a check ran. None if its output does not say how many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests: Option<TestCounts>,
    /// Set if it ran in a clean worktree: it is no result of the check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests_of: Option<Box<CleanRun>>,
    /// Whether the run was cut and runs again when the session is resumed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HookRef {
    pub point: HookPoint,
    pub hook: String,
}

impl HookRef {
    pub fn new(point: HookPoint, hook: &str) -> Self {
        Self {
            point,
            hook: hook.to_owned(),
        }
    }
}

/// The session's own knowledge of its hooks, in addition to the plan.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HookState {
    /// The highest run id so far.
    pub last_run: RunId,
    /// Disabled for this session.
    pub disabled: BTreeSet<HookRef>,
    /// Enabled for this session, against the config.
    pub enabled: BTreeSet<HookRef>,
    /// How many times in a row a hook was broken.
    #[serde(with = "pairs")]
    pub broken: BTreeMap<HookRef, u32>,
}

impl HookState {
    pub fn is_enabled(&self, point: HookPoint, spec: &HookSpec) -> bool {
        let hook = HookRef::new(point, &spec.name);
        !self.disabled.contains(&hook) && (spec.enabled || self.enabled.contains(&hook))
    }

    pub(crate) fn ran(&mut self, hook: HookRef, broken: bool) {
        if broken {
            *self.broken.entry(hook).or_default() += 1;
        } else {
            self.broken.remove(&hook);
        }
    }

    /// Whether a hook was broken at least twice in a row.
    pub(crate) fn is_broken_again(&self, hook: &HookRef) -> bool {
        self.broken.get(hook).is_some_and(|times| *times >= 2)
    }

    pub(crate) fn disable(&mut self, hook: HookRef) {
        self.enabled.remove(&hook);
        self.disabled.insert(hook);
    }

    pub(crate) fn enable(&mut self, hook: HookRef) {
        self.disabled.remove(&hook);
        self.broken.remove(&hook);
        self.enabled.insert(hook);
    }
}

impl SessionPlan {
    /// The hooks of a point, in order, including disabled ones.
    pub fn hooks_at(&self, point: HookPoint) -> &[HookSpec] {
        self.hooks.get(&point).map_or(&[], Vec::as_slice)
    }

    pub fn hook(&self, point: HookPoint, name: &str) -> Option<&HookSpec> {
        if point == HookPoint::Automation {
            return self.automation_hook(name).map(|hook| &hook.spec);
        }
        self.hooks_or_usual(point)
            .iter()
            .find(|spec| spec.name == name)
    }
}

/// The names of the hooks that run when a point is reached now, in order. Hooks that differ only in
/// their names and priorities run once.
pub(crate) fn due(plan: &SessionPlan, book: &HookState, point: HookPoint) -> Vec<String> {
    let all = plan.hooks_or_usual(point).iter();
    let enabled = each_once(all.filter(|spec| book.is_enabled(point, spec)));
    enabled.into_iter().map(|spec| spec.name.clone()).collect()
}

/// The hooks of a point that would run if none had been disabled during the session, in order.
pub(crate) fn due_or_disabled<'a>(
    plan: &'a SessionPlan,
    book: &HookState,
    point: HookPoint,
) -> Vec<&'a HookSpec> {
    let is_off = |spec: &HookSpec| spec.enabled && book.is_off(&HookRef::new(point, &spec.name));
    let all = plan.hooks_or_usual(point).iter();
    each_once(all.filter(|spec| book.is_enabled(point, spec) || is_off(spec)))
}

/// Sorted by priority. Hooks that differ only in their names and priorities are listed once.
fn each_once<'a>(hooks: impl Iterator<Item = &'a HookSpec>) -> Vec<&'a HookSpec> {
    let mut sorted: Vec<&HookSpec> = hooks.collect();
    sorted.sort_by_key(|spec| spec.priority);
    let mut chosen: Vec<&HookSpec> = Vec::new();
    for spec in sorted {
        if !chosen.iter().any(|earlier| same(earlier, spec)) {
            chosen.push(spec);
        }
    }
    chosen
}

fn same(one: &HookSpec, other: &HookSpec) -> bool {
    let settings = |spec: &HookSpec| (spec.timeout, spec.pipe_output, spec.on_failure);
    let occasion = |spec: &HookSpec| {
        let handler = spec.claude.as_ref()?;
        Some((handler.event, handler.words.clone()))
    };
    one.action == other.action
        && one.matcher == other.matcher
        && one.tests == other.tests
        && settings(one) == settings(other)
        && one.retry == other.retry
        && occasion(one) == occasion(other)
}

impl HookState {
    pub fn stop_hook_is_on(&self, hook: &StopHook) -> bool {
        let name = HookRef::new(HookPoint::StopDecision, &hook.name);
        !self.disabled.contains(&name) && (hook.enabled || self.enabled.contains(&name))
    }

    /// Whether an actor disabled a hook: its result no longer counts.
    pub(crate) fn is_off(&self, hook: &HookRef) -> bool {
        self.disabled.contains(hook)
    }
}
