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

use crate::engine::{
    effect::GateFacts,
    hooks::{
        dispatch::{DispatchCause, HookDispatch},
        point::HookPoint,
    },
};

/// What `on_gate` hooks run for, and their run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GateHooks {
    /// What the hooks have not been run for yet, oldest first.
    pub(crate) waiting: VecDeque<GateNotice>,
    /// The hooks that run now.
    pub dispatch: Option<HookDispatch>,
    /// The open gate, as the hooks heard of it.
    pub(crate) open: Option<GateFacts>,
}

/// A reason to run hooks of `on_gate`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GateNotice {
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

    pub(crate) fn run_by_hand(&mut self, hook: &str) {
        self.waiting.push_back(GateNotice::ByHand(hook.to_owned()));
    }

    pub(crate) fn begin(&mut self, hooks: VecDeque<String>) {
        let cause = match self.waiting.pop_front() {
            Some(GateNotice::Changed(facts)) => DispatchCause::Gate(facts),
            Some(GateNotice::ByHand(_)) => DispatchCause::ByHand,
            None => return,
        };
        self.dispatch = Some(HookDispatch { queue: Some(hooks), ..HookDispatch::reached(HookPoint::OnGate, cause) });
        self.settle();
    }

    /// Drops a dispatch with nothing left to run.
    pub(crate) fn settle(&mut self) {
        self.dispatch.take_if(|dispatch| dispatch.running.is_none() && dispatch.next().is_none());
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
