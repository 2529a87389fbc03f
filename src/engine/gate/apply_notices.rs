//! Queues the `on_gate` hooks when a gate opened or closed.

use crate::engine::{
    effect::{GateFacts, GateState},
    event::{Event, GateEvent},
    gate::notices::GateNotice,
    hooks::{point::HookPoint, resolve},
    session::SessionState,
};

/// Notes that the event just applied opened or closed a gate.
pub(crate) fn note_gate_change(session: &mut SessionState, event: &Event) {
    if session.plan().hooks_at(HookPoint::OnGate).is_empty() {
        return;
    }
    let open = session.gates.open.as_ref().map(|gate| gate.id);
    if let Some(told) = session
        .gate_hooks
        .open
        .take_if(|told| open != Some(told.gate))
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
                ..told
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
    let hooks_run = !resolve::due(session.plan(), &session.hooks, HookPoint::OnGate).is_empty();
    if hooks_run && !session.steering.interrupted() {
        session
            .gate_hooks
            .waiting
            .push_back(GateNotice::Changed(Box::new(facts)));
    }
}
