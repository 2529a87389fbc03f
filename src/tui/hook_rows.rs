//! The rows of the hooks pane: every hook of the session has one, by hook point, with its last runs.
//!
//! # Invariants
//! - The order is the order of a session: by point, then as in the plan, then hooks that are not in the plan.

use super::runs::{HookRuns, RunEntry, RunList, RunSubject};
use crate::{
    engine::{
        SessionState,
        hooks::{point::HookPoint, resolve::HookRef},
        policy::{HookSpec, RuleSpec, StopHook},
    },
    present::text::plain_line,
};

/// What a row stands for.
#[derive(Debug, Clone, Copy)]
pub enum HookRowKind<'a> {
    Hook(&'a HookSpec),
    /// A stop decision hook. Presets never run.
    Decides(&'a StopHook),
    Rule(&'a RuleSpec),
    /// A hook that ran without being in the plan, such as a default hook of a submit.
    Unplanned(&'a HookRuns),
}

#[derive(Debug, Clone, Copy)]
pub struct HookRow<'a> {
    pub point: HookPoint,
    pub kind: HookRowKind<'a>,
    /// None if it has not run.
    runs: Option<&'a HookRuns>,
}

/// Identifies a row by its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookRowId {
    hook: HookRef,
    kind: RunSubject,
}

impl<'a> HookRow<'a> {
    pub fn hook(&self) -> HookRef {
        HookRef::new(self.point, self.plan_name())
    }

    fn plan_name(&self) -> &'a str {
        match self.kind {
            HookRowKind::Hook(spec) => &spec.name,
            HookRowKind::Decides(hook) => &hook.name,
            HookRowKind::Rule(rule) => &rule.name,
            HookRowKind::Unplanned(runs) => &runs.hook,
        }
    }

    pub const fn subject(&self) -> RunSubject {
        match self.kind {
            HookRowKind::Rule(_) => RunSubject::Rule,
            HookRowKind::Unplanned(runs) => runs.kind,
            HookRowKind::Hook(_) | HookRowKind::Decides(_) => RunSubject::Hook,
        }
    }

    /// The name, for the screen.
    pub fn name(&self) -> String {
        let name = plain_line(self.plan_name(), 80);
        if self.subject() == RunSubject::Rule { format!("rule {name}") } else { name }
    }

    pub fn id(&self) -> HookRowId {
        HookRowId { hook: self.hook(), kind: self.subject() }
    }

    pub fn newest_first(&self) -> impl Iterator<Item = &'a RunEntry> {
        self.runs.into_iter().flat_map(HookRuns::newest_first)
    }

    /// The last runs, oldest first.
    pub fn last(&self, count: usize) -> impl Iterator<Item = &'a RunEntry> {
        self.runs.into_iter().flat_map(move |runs| runs.last(count))
    }

    pub fn latest(&self) -> Option<&'a RunEntry> {
        self.newest_first().next()
    }

    /// The run that has not ended.
    pub fn running(&self) -> Option<&'a RunEntry> {
        self.newest_first().find(|run| run.ended.is_none())
    }
}

#[derive(Debug)]
pub struct HookRows<'a> {
    rows: Vec<HookRow<'a>>,
}

impl<'a> HookRows<'a> {
    pub fn new(runs: &'a RunList, state: Option<&'a SessionState>) -> Self {
        let mut rows: Vec<HookRow<'a>> = state.into_iter().flat_map(|state| planned(state, runs)).collect();
        for unplanned in runs.hooks() {
            let is_known = |row: &HookRow<'_>| {
                row.point == unplanned.point
                    && row.subject() == unplanned.kind
                    && row.runs.is_some_and(|known| known.hook == unplanned.hook)
            };
            if !rows.iter().any(is_known) {
                let kind = HookRowKind::Unplanned(unplanned);
                rows.push(HookRow { point: unplanned.point, kind, runs: Some(unplanned) });
            }
        }
        rows.sort_by_key(|row| HookPoint::ALL.iter().position(|point| *point == row.point));
        Self { rows }
    }

    pub fn iter(&self) -> impl Iterator<Item = &HookRow<'a>> {
        self.rows.iter()
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn nth(&self, nth: usize) -> Option<HookRow<'a>> {
        self.rows.get(nth).copied()
    }

    /// The current position of a row.
    pub fn find(&self, id: &HookRowId) -> Option<usize> {
        self.rows.iter().position(|row| row.id() == *id)
    }
}

/// The hooks and rules of the plan.
fn planned<'a>(state: &'a SessionState, runs: &'a RunList) -> impl Iterator<Item = HookRow<'a>> {
    let at = move |point: HookPoint| {
        state.plan().hooks_at(point).iter().map(move |spec| HookRow {
            point,
            kind: HookRowKind::Hook(spec),
            runs: runs.of(point, RunSubject::Hook, &spec.name),
        })
    };
    let rules = state.plan().stop.rules.iter().map(move |rule| HookRow {
        point: HookPoint::StopDecision,
        kind: HookRowKind::Rule(rule),
        runs: runs.of(HookPoint::StopDecision, RunSubject::Rule, &rule.name),
    });
    let registered = state.stop.registered.iter().map(|known| &known.hook);
    let deciding = state.plan().stop.said().iter().chain(registered).map(move |hook| HookRow {
        point: HookPoint::StopDecision,
        kind: HookRowKind::Decides(hook),
        runs: runs.of(HookPoint::StopDecision, RunSubject::Hook, &hook.name),
    });
    HookPoint::ALL.into_iter().flat_map(at).chain(rules).chain(deciding)
}
