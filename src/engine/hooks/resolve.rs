//! Which hooks run at a point, in which order.

use std::collections::{BTreeMap, BTreeSet};

use super::point::HookPoint;
use crate::engine::{
    ids::RunId,
    policy::{HookSpec, SessionPlan},
};

/// A hook by its place and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HookRef {
    /// Where it runs.
    pub point: HookPoint,
    /// What it is called.
    pub hook: String,
}

impl HookRef {
    /// The hook of that name at that point.
    pub fn new(point: HookPoint, hook: &str) -> Self {
        Self { point, hook: hook.to_owned() }
    }
}

/// What the session knows of its hooks beside the plan.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HookState {
    /// The last number given to a run.
    pub last_run: RunId,
    /// Switched off for this session.
    pub disabled: BTreeSet<HookRef>,
    /// Switched on for this session, against the config.
    pub enabled: BTreeSet<HookRef>,
    /// How often in a row a hook could not do its job.
    pub broken: BTreeMap<HookRef, u32>,
}

impl HookState {
    /// Whether a hook runs when its point is reached.
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

    /// Whether a hook could not do its job at least twice in a row.
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
    /// The hooks of a point, in order, disabled ones included.
    pub fn hooks_at(&self, point: HookPoint) -> &[HookSpec] {
        self.hooks.get(&point).map_or(&[], Vec::as_slice)
    }

    /// A hook by its place and name.
    pub fn hook(&self, point: HookPoint, name: &str) -> Option<&HookSpec> {
        if point == HookPoint::Automation {
            return self.automation_hook(name).map(|hook| &hook.spec);
        }
        self.hooks_or_usual(point).iter().find(|spec| spec.name == name)
    }
}

/// The names of the hooks that run when a point is reached now, in order. Two that are the same but for their names
/// and places run once.
pub(crate) fn due(plan: &SessionPlan, book: &HookState, point: HookPoint) -> Vec<String> {
    let all = plan.hooks_or_usual(point).iter();
    let mut enabled: Vec<&HookSpec> = all.filter(|spec| book.is_enabled(point, spec)).collect();
    enabled.sort_by_key(|spec| spec.priority);
    let mut chosen: Vec<&HookSpec> = Vec::new();
    for spec in enabled {
        if !chosen.iter().any(|earlier| same(earlier, spec)) {
            chosen.push(spec);
        }
    }
    chosen.into_iter().map(|spec| spec.name.clone()).collect()
}

fn same(one: &HookSpec, other: &HookSpec) -> bool {
    let settings = |spec: &HookSpec| (spec.timeout, spec.pipe_output, spec.on_failure);
    one.action == other.action && settings(one) == settings(other) && one.retry == other.retry
}
