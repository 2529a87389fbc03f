//! Which hooks are due at a point, in which order, and which ones the session has disabled or found
//! broken.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::engine::{
    hooks::point::HookPoint,
    ids::RunId,
    policy::{HookSpec, SessionPlan, StopHook},
    stored_form::pairs,
};

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
