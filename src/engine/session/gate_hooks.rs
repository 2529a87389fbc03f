//! The hooks of `on_gate`, which tell you outside of creel that a gate opened or closed.
//!
//! Owns the gates that these hooks still have to announce, and the run of the hooks. The hooks run beside the session:
//! meanwhile you can answer the gate, and the session continues.
//!
//! # Invariants
//! - Only the end of the session waits for these hooks, and [`StopHow::Now`] ends them.
//! - The hooks hear of every gate twice, when it opens and when it closes, in the order in which that happened.
//! - However these hooks fail, they open no gate: that gate would run them again.
//!
//! [`StopHow::Now`]: crate::engine::event::StopTiming::Now

use std::collections::VecDeque;

use super::{SessionState, gate::Gate};
use crate::engine::{
    EngineOutput,
    effect::{GateFacts, GateState},
    event::{Event, GateEvent, HookEvent},
    hooks::{
        dispatch::{DispatchCause, HookDispatch},
        point::HookPoint,
        resolve,
    },
};

/// What `on_gate` hooks run for, and their run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GateHooks {
    /// What the hooks have not been run for yet, oldest first.
    waiting: VecDeque<GateNotice>,
    /// The hooks that run now.
    pub dispatch: Option<HookDispatch>,
    /// The open gate, as the hooks heard of it.
    open: Option<GateFacts>,
}

/// A reason to run hooks of `on_gate`.
#[derive(Debug, Clone, PartialEq, Eq)]
enum GateNotice {
    /// A gate opened or closed.
    Changed(Box<GateFacts>),
    /// The user wants to run this hook.
    ByHand(String),
}

impl GateHooks {
    /// Whether a hook runs or is about to.
    pub fn is_busy(&self) -> bool {
        self.dispatch.is_some() || !self.waiting.is_empty()
    }

    pub(super) fn run_by_hand(&mut self, hook: &str) {
        self.waiting.push_back(GateNotice::ByHand(hook.to_owned()));
    }

    pub(super) fn begin(&mut self, hooks: VecDeque<String>) {
        let cause = match self.waiting.pop_front() {
            Some(GateNotice::Changed(facts)) => DispatchCause::Gate(facts),
            Some(GateNotice::ByHand(_)) => DispatchCause::ByHand,
            None => return,
        };
        self.dispatch = Some(HookDispatch { queue: Some(hooks), ..HookDispatch::reached(HookPoint::OnGate, cause) });
        self.settle();
    }

    /// Drops a dispatch with nothing left to run.
    pub(super) fn settle(&mut self) {
        self.dispatch.take_if(|dispatch| dispatch.running.is_none() && dispatch.next().is_none());
    }

    /// The session stops at once: no further hook starts.
    pub(super) fn stop(&mut self) {
        self.waiting.clear();
        if let Some(dispatch) = &mut self.dispatch {
            dispatch.queue = Some(VecDeque::new());
        }
        self.settle();
    }
}

impl SessionState {
    /// Notes that the event just applied opened or closed a gate.
    pub(super) fn note_gate_change(&mut self, event: &Event) {
        if self.plan().hooks_at(HookPoint::OnGate).is_empty() {
            return;
        }
        let open = self.gates.open.as_ref().map(|gate| gate.id);
        if let Some(told) = self.gate_hooks.open.take_if(|told| open != Some(told.gate)) {
            let answer = if let Event::Gate(GateEvent::Answered { choice, by, .. }) = event {
                Some((*choice, by.by))
            } else {
                None
            };
            self.announce_gate(GateFacts { state: GateState::Closed, answer, waits_for_user: false, ..told });
        }
        if self.gate_hooks.open.is_none()
            && let Some(facts) = self.open_gate_facts().filter(|_| !self.is_ruled_permission())
        {
            self.gate_hooks.open = Some(facts.clone());
            self.announce_gate(facts);
        }
    }

    fn announce_gate(&mut self, facts: GateFacts) {
        let hooks_run = !resolve::due(self.plan(), &self.hooks, HookPoint::OnGate).is_empty();
        if hooks_run && !self.interrupted() {
            self.gate_hooks.waiting.push_back(GateNotice::Changed(Box::new(facts)));
        }
    }

    /// Whether the open gate is a permission request that a rule answers: you have answered it already.
    fn is_ruled_permission(&self) -> bool {
        let gate = self.gates.open.as_ref();
        gate.and_then(|gate| self.asked_at(gate)).and_then(|ask| self.standing_permission(ask)).is_some()
    }

    /// What hooks hear about the open gate.
    pub(super) fn open_gate_facts(&self) -> Option<GateFacts> {
        let Gate { id, about, reason, choices, .. } = self.gates.open.as_ref()?;
        Some(GateFacts {
            gate: *id,
            about: *about,
            reason: reason.clone(),
            choices: choices.clone(),
            answer_command: format!("creel gate answer -s {} {id}", self.name),
            state: GateState::Opened,
            waits_for_user: self.gate_for_a_person().is_some(),
            answer: None,
        })
    }

    /// What a hook hears that starts now: the gate may have closed while an earlier hook was running.
    pub(super) fn gate_facts_now(&self, facts: &GateFacts) -> GateFacts {
        let is_open = self.open_gate_named(facts.gate).is_some();
        GateFacts { waits_for_user: facts.waits_for_user && is_open, ..facts.clone() }
    }

    pub(super) fn proceed_gate_hooks(&self) -> EngineOutput {
        let GateHooks { waiting, dispatch, .. } = &self.gate_hooks;
        match (dispatch, waiting.front()) {
            (Some(dispatch), _) if dispatch.running.is_none() => {
                dispatch.next().map_or_else(EngineOutput::default, |hook| self.start_hook(dispatch, hook))
            }
            (None, Some(notice)) => {
                let mut hooks = resolve::due(self.plan(), &self.hooks, HookPoint::OnGate);
                let by_hand = match notice {
                    GateNotice::Changed(_) => false,
                    GateNotice::ByHand(wanted) => {
                        hooks = self
                            .plan()
                            .hook(HookPoint::OnGate, wanted)
                            .map(|spec| spec.name.clone())
                            .into_iter()
                            .collect();
                        true
                    }
                };
                let iteration = (self.iterations.current > 0).then_some(self.iterations.current);
                EngineOutput::record(Event::Hook(HookEvent::Due {
                    point: HookPoint::OnGate,
                    iteration,
                    hooks,
                    task: None,
                    by_hand,
                }))
            }
            (Some(_) | None, _) => EngineOutput::default(),
        }
    }

    /// How deep a task is that a hook of `on_gate` completes now. What the task's own hooks print can open the next gate,
    /// so until the next prompt this is a chain like any other.
    pub(in crate::engine) fn next_depth_at_gate(&self) -> Option<u32> {
        self.gate_hooks.dispatch.as_ref()?;
        Some(if self.side.chained == 0 { 1 } else { self.side.depth.saturating_add(1) })
    }

    /// The hooks that run beside the main line.
    pub(in crate::engine) fn dispatches_beside(&self) -> impl Iterator<Item = &HookDispatch> {
        self.side.dispatch.iter().chain(&self.gate_hooks.dispatch)
    }

    /// Whether the session cannot end yet because of something beside the main line.
    pub(in crate::engine) fn end_waits(&self) -> bool {
        self.is_busy_beside() || self.gate_hooks.is_busy()
    }
}
