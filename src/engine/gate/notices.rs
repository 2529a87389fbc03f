//! The `on_gate` hooks, which notify you outside of creel that a gate opened or closed.
//!
//! Owns the queue of notifications and the dispatch in progress. The hooks run beside the session:
//! meanwhile you can answer the gate, and the session continues.
//!
//! # Invariants
//! - Only the end of the session waits for these hooks, and [`StopTiming::Now`] ends them.
//! - The hooks run twice for every gate, when it opens and when it closes, in the order in which
//!   that happened.
//! - However these hooks fail, they open no gate: that gate would run them again.
//!
//! [`StopTiming::Now`]: crate::engine::event::StopTiming::Now

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::engine::{
    effect::{GateFacts, GateState},
    event::{Event, GateEvent},
    hooks::{
        dispatch::{DispatchCause, HookDispatch},
        point::HookPoint,
    },
    session::SessionState,
};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GateHooks {
    /// The notifications that are still due, oldest first.
    pub(crate) waiting: VecDeque<GateNotice>,
    /// The dispatch in progress.
    pub dispatch: Option<HookDispatch>,
    /// The open gate, as the hooks were notified of it.
    pub(crate) open: Option<GateFacts>,
}

/// A reason to run hooks of `on_gate`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum GateNotice {
    /// A gate opened or closed.
    Changed(Box<GateFacts>),
    /// The user runs this hook by hand.
    ByHand(String),
}

impl GateHooks {
    /// Whether a hook runs or is about to.
    pub fn is_busy(&self) -> bool {
        self.dispatch.is_some() || !self.waiting.is_empty()
    }

    pub(crate) fn run_by_hand(&mut self, hook: &str) {
        self.waiting.push_back(GateNotice::ByHand(hook.to_owned()));
    }

    pub(crate) fn begin(&mut self, hooks: VecDeque<String>) {
        let cause = match self.waiting.pop_front() {
            Some(GateNotice::Changed(facts)) => DispatchCause::Gate(facts),
            Some(GateNotice::ByHand(_)) => DispatchCause::ByHand,
            None => return,
        };
        self.dispatch = Some(HookDispatch {
            queue: Some(hooks),
            ..HookDispatch::reached(HookPoint::OnGate, cause)
        });
        self.settle();
    }

    /// Drops a dispatch with nothing left to run.
    pub(crate) fn settle(&mut self) {
        self.dispatch
            .take_if(|dispatch| dispatch.running.is_none() && dispatch.next().is_none());
    }

    /// The session stops at once: no further hook starts.
    pub(crate) fn stop(&mut self) {
        self.waiting.clear();
        if let Some(dispatch) = &mut self.dispatch {
            dispatch.queue = Some(VecDeque::new());
        }
        self.settle();
    }
}

/// Notes that the event just applied opened or closed a gate.
pub(crate) fn note_gate_change(session: &mut SessionState, event: &Event) {
    if session.plan().hooks_at(HookPoint::OnGate).is_empty() {
        return;
    }
    let open = session.gates.open.as_ref().map(|gate| gate.id);
    if let Some(notice) = session
        .gate_hooks
        .open
        .take_if(|notice| open != Some(notice.gate))
    {
        let answer = if let Event::Gate(GateEvent::Answered { choice, by, .. }) = event {
            Some((*choice, by.by))
        } else {
            None
        };
        announce_gate(
            session,
            GateFacts {
                state: GateState::Closed,
                answer,
                waits_for_user: false,
                ..notice
            },
        );
    }
    if session.gate_hooks.open.is_none()
        && let Some(facts) = session
            .hook_rules()
            .open_gate_facts()
            .filter(|_| !session.permissions().is_ruled_permission())
    {
        session.gate_hooks.open = Some(facts.clone());
        announce_gate(session, facts);
    }
}

fn announce_gate(session: &mut SessionState, facts: GateFacts) {
    let cause = DispatchCause::Gate(Box::new(facts.clone()));
    let hooks_run = !session
        .hook_rules()
        .due(HookPoint::OnGate, &cause)
        .is_empty();
    if hooks_run && !session.steering.interrupted() {
        session
            .gate_hooks
            .waiting
            .push_back(GateNotice::Changed(Box::new(facts)));
    }
}
