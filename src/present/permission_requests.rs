//! The agent's permission requests, so that an answer can be shown in the agent's own words.
//!
//! Follows the events of a session. Decides nothing.

use std::collections::BTreeMap;

use super::text::plain_line;
use crate::engine::{
    conversation::PermissionOption,
    event::{Event, GateEvent, TurnEvent},
    ids::{GateId, PermissionId},
    session::gate::GateChoice,
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnsweredPermission {
    /// As text for the user.
    pub words: String,
    pub leave: PermissionOutcome,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PermissionOutcome {
    Given,
    Refused,
    /// The turn ended before an answer.
    Unsaid,
}

impl TurnPermissions {
    pub fn follow(&mut self, event: &Event) {
        if let Event::Turn(TurnEvent::PermissionAsked { ask, .. }) = event {
            self.asked.insert(ask.ask, (ask.tool.title.clone(), ask.options.clone()));
        } else if let Event::Gate(GateEvent::Opened { gate, ask: Some(ask), .. }) = event {
            self.at = Some((*gate, *ask));
        } else if let Event::Turn(TurnEvent::PromptSent(_)) = event {
            *self = Self::default();
        }
    }

    /// The answer to a request, as text. `None` if the gate is about something else.
    pub fn tell(&self, event: &Event) -> Option<AnsweredPermission> {
        let Event::Gate(GateEvent::Answered { gate, choice, by, option }) = event else { return None };
        let (_, ask) = self.at.filter(|(at, _)| at == gate)?;
        let (title, options) = self.asked.get(&ask)?;
        let (verb, leave) = match choice {
            GateChoice::AllowOnce => ("✓ allowed", PermissionOutcome::Given),
            GateChoice::AllowAlways => ("✓ allowed from now on", PermissionOutcome::Given),
            GateChoice::RejectOnce => ("✗ not allowed", PermissionOutcome::Refused),
            GateChoice::RejectAlways => ("✗ not allowed from now on", PermissionOutcome::Refused),
            GateChoice::Cancel
            | GateChoice::Approve
            | GateChoice::Skip
            | GateChoice::Continue
            | GateChoice::Send
            | GateChoice::Message
            | GateChoice::Ignore
            | GateChoice::Disable
            | GateChoice::Retry
            | GateChoice::Wait
            | GateChoice::Switch
            | GateChoice::Complete
            | GateChoice::Escalate
            | GateChoice::Fail
            | GateChoice::Stop
            | GateChoice::Leave
            | GateChoice::Abort => ("- no answer, the turn ends", PermissionOutcome::Unsaid),
        };
        let short = |text: &str| plain_line(text, LINE);
        let taken = options.iter().find(|known| Some(&known.id) == option.as_ref());
        let taken = taken.map(|option| format!(" · “{}”", short(&option.name))).unwrap_or_default();
        Some(AnsweredPermission { words: format!("{verb}: {}{taken} · by {}", short(title), by), leave })
    }
}
