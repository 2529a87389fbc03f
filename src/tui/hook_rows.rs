//! The rows of the hooks pane: every hook of the session has one, by hook point, with its last
//! runs.
//!
//! # Invariants
//! - The order is the order of a session: by point, then as in the plan, then hooks that are not in
//!   the plan.

use super::runs::{HookRuns, RunEntry, RunList, RunSubject};
use crate::{
    engine::{
        SessionState,
        hooks::{HookRef, point::HookPoint},
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
        if self.subject() == RunSubject::Rule {
            format!("rule {name}")
        } else {
            name
        }
    }

    pub fn id(&self) -> HookRowId {
        HookRowId {
            hook: self.hook(),
            kind: self.subject(),
        }
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

/// The order of the rows, by the places of what they stand for in the plan and among the runs.
#[derive(Debug, Default)]
pub struct HookOrder {
    slots: Vec<RowSlot>,
}

#[derive(Debug, Clone, Copy)]
struct RowSlot {
    point: HookPoint,
    place: SlotPlace,
    /// Where its runs are in the list of runs.
    runs: Option<usize>,
}

#[derive(Debug, Clone, Copy)]
enum SlotPlace {
    Hook(usize),
    Decides(usize),
    Rule(usize),
    Unplanned,
}

impl HookOrder {
    /// The order for this plan and these runs. A list of it costs little; to make it, every hook is
    /// looked for among the runs.
    pub fn new(runs: &RunList, state: Option<&SessionState>) -> Self {
        let mut slots = state.map(|state| planned(state, runs)).unwrap_or_default();
        let known: Vec<usize> = slots.iter().filter_map(|slot| slot.runs).collect();
        let unplanned = runs
            .hooks()
            .enumerate()
            .filter(|(at, _)| !known.contains(at));
        slots.extend(unplanned.map(|(at, unplanned)| RowSlot {
            point: unplanned.point,
            place: SlotPlace::Unplanned,
            runs: Some(at),
        }));
        slots.sort_by_key(|slot| HookPoint::ALL.iter().position(|point| *point == slot.point));
        Self { slots }
    }
}

/// The rows in their order.
#[derive(Debug, Clone, Copy)]
pub struct HookRows<'a> {
    order: &'a HookOrder,
    runs: &'a RunList,
    state: Option<&'a SessionState>,
}

impl<'a> HookRows<'a> {
    pub const fn new(
        order: &'a HookOrder,
        runs: &'a RunList,
        state: Option<&'a SessionState>,
    ) -> Self {
        Self { order, runs, state }
    }

    pub fn iter(self) -> impl Iterator<Item = HookRow<'a>> {
        self.order
            .slots
            .iter()
            .filter_map(move |slot| self.row(*slot))
    }

    pub fn len(self) -> usize {
        self.order.slots.len()
    }

    pub fn is_empty(self) -> bool {
        self.order.slots.is_empty()
    }

    pub fn nth(self, nth: usize) -> Option<HookRow<'a>> {
        self.row(*self.order.slots.get(nth)?)
    }

    /// The current position of a row.
    pub fn find(self, id: &HookRowId) -> Option<usize> {
        self.iter().position(|row| row.id() == *id)
    }

    fn row(self, RowSlot { point, place, runs }: RowSlot) -> Option<HookRow<'a>> {
        let runs = runs.and_then(|at| self.runs.nth(at));
        let kind = match place {
            SlotPlace::Hook(at) => HookRowKind::Hook(self.state?.plan().hooks_at(point).get(at)?),
            SlotPlace::Rule(at) => HookRowKind::Rule(self.state?.plan().stop.rules.get(at)?),
            SlotPlace::Decides(at) => HookRowKind::Decides(deciding(self.state?).nth(at)?),
            SlotPlace::Unplanned => HookRowKind::Unplanned(runs?),
        };
        Some(HookRow { point, kind, runs })
    }
}

/// The stop decision hooks of the plan, then those that were registered.
fn deciding(state: &SessionState) -> impl Iterator<Item = &StopHook> {
    state
        .plan()
        .stop
        .listed()
        .iter()
        .chain(state.stop.registered.iter().map(|known| &known.hook))
}

/// The hooks and rules of the plan.
fn planned(state: &SessionState, runs: &RunList) -> Vec<RowSlot> {
    let at = |point: HookPoint| {
        state
            .plan()
            .hooks_at(point)
            .iter()
            .enumerate()
            .map(move |(at, spec)| RowSlot {
                point,
                place: SlotPlace::Hook(at),
                runs: runs.place_of(point, RunSubject::Hook, &spec.name),
            })
    };
    let rules = state
        .plan()
        .stop
        .rules
        .iter()
        .enumerate()
        .map(|(at, rule)| RowSlot {
            point: HookPoint::StopDecision,
            place: SlotPlace::Rule(at),
            runs: runs.place_of(HookPoint::StopDecision, RunSubject::Rule, &rule.name),
        });
    let deciding = deciding(state).enumerate().map(|(at, hook)| RowSlot {
        point: HookPoint::StopDecision,
        place: SlotPlace::Decides(at),
        runs: runs.place_of(HookPoint::StopDecision, RunSubject::Hook, &hook.name),
    });
    HookPoint::ALL
        .into_iter()
        .flat_map(at)
        .chain(rules)
        .chain(deciding)
        .collect()
}
