//! The agent's permission requests, so that an answer can be shown in the agent's own words.
//!
//! Follows the events of a session. Decides nothing.

use std::collections::BTreeMap;

use super::{
    describe::{Described, EventTone},
    gate_words::answer_origin,
    text::plain_line,
};
use crate::engine::{
    SessionState,
    conversation::PermissionOption,
    event::{Actor, Event, GateEvent, TurnEvent},
    gate::{
        kind::{GateChoice, GateKind},
        response::{GateResponse, PermissionChoice},
    },
    ids::{GateId, PermissionId},
};

/// The longest title or name of an option in a line, in characters.
const LINE: usize = 100;

/// The requests of the current turn.
#[derive(Debug, Default)]
pub struct TurnPermissions {
    asked: BTreeMap<PermissionId, (String, Vec<PermissionOption>)>,
    /// The open gate, and the request that it is about.
    at: Option<(GateId, PermissionId)>,
}

impl TurnPermissions {
    /// The requests that still wait in a state.
    pub fn of(state: &SessionState) -> Self {
        let asked = state
            .asks
            .waiting
            .iter()
            .map(|ask| (ask.ask, (ask.tool.title.clone(), ask.options.clone())));
        let gate = state.gates.open.as_ref();
        Self {
            asked: asked.collect(),
            at: gate.and_then(|gate| Some((gate.id, gate.subject.ask()?))),
        }
    }

    pub fn follow(&mut self, event: &Event) {
        if let Event::Turn(TurnEvent::PermissionAsked { ask, .. }) = event {
            self.asked
                .insert(ask.ask, (ask.tool.title.clone(), ask.options.clone()));
        } else if let Event::Gate(GateEvent::Opened {
            gate,
            ask: Some(ask),
            ..
        }) = event
        {
            self.at = Some((*gate, *ask));
        } else if let Event::Turn(TurnEvent::PromptSent(_)) = event {
            *self = Self::default();
        }
    }

    /// The answer to a request, as text. `None` if the gate is about something else.
    pub fn answered(
        &self,
        gate: GateId,
        choice: GateChoice,
        by: &Actor,
        option: Option<&str>,
    ) -> Option<Described> {
        let (_, ask) = self.at.filter(|(at, _)| *at == gate)?;
        let (title, options) = self.asked.get(&ask)?;
        let Some(GateResponse::Permission(answer)) = GateKind::Permission.response(choice) else {
            return None;
        };
        let (sign, tone, verb) = match answer {
            PermissionChoice::AllowOnce => ("✓", EventTone::Passed, "Allowed"),
            PermissionChoice::AllowAlways => ("✓", EventTone::Passed, "Always allowed"),
            PermissionChoice::RejectOnce => ("✗", EventTone::Warning, "Rejected"),
            PermissionChoice::RejectAlways => ("✗", EventTone::Warning, "Always rejected"),
            PermissionChoice::Cancel => ("-", EventTone::Quiet, "Cancelled with the turn"),
        };
        let short = |text: &str| plain_line(text, LINE);
        let taken = options
            .iter()
            .find(|known| Some(known.id.as_str()) == option);
        let taken = taken
            .map(|option| format!(" · “{}”", short(&option.name)))
            .unwrap_or_default();
        Some(Described::new(
            sign,
            tone,
            format!("{verb}: {}{taken}{}", short(title), answer_origin(by)),
        ))
    }
}
