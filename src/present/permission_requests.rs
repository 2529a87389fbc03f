//! What an agent asked leave for, so that an answer can be told in the agent's own words.
//!
//! Follows the events of a session; decides nothing.

use std::collections::BTreeMap;

use super::text::{first_line, plain};
use crate::engine::{
    conversation::PermissionOption,
    event::Event,
    ids::{AskId, GateId},
    session::gate::Choice,
};

/// How much of a title or of an option's name fits into a line.
const LINE: usize = 100;

/// The requests of the turn.
#[derive(Debug, Default)]
pub struct Requests {
    asked: BTreeMap<AskId, (String, Vec<PermissionOption>)>,
    /// The gate that waits, and the request that it is about.
    at: Option<(GateId, AskId)>,
}

/// An answer that an agent got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// In words.
    pub words: String,
    /// What it means.
    pub leave: Leave,
}

/// What an answer means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// The agent may.
    Given,
    /// It may not.
    Refused,
    /// Its turn was over before.
    Unsaid,
}

impl Requests {
    /// Takes in an event.
    pub fn follow(&mut self, event: &Event) {
        if let Event::PermissionAsked { ask, .. } = event {
            self.asked.insert(ask.ask, (ask.tool.title.clone(), ask.options.clone()));
        } else if let Event::GateOpened { gate, ask: Some(ask), .. } = event {
            self.at = Some((*gate, *ask));
        } else if let Event::PromptSent(_) = event {
            *self = Self::default();
        }
    }

    /// The answer to a request, in words; nothing, if the gate is about something else.
    pub fn tell(&self, event: &Event) -> Option<Told> {
        let Event::GateAnswered { gate, choice, by, option } = event else { return None };
        let (_, ask) = self.at.filter(|(at, _)| at == gate)?;
        let (title, options) = self.asked.get(&ask)?;
        let (verb, leave) = match choice {
            Choice::AllowOnce => ("✓ allowed", Leave::Given),
            Choice::AllowAlways => ("✓ allowed from now on", Leave::Given),
            Choice::RejectOnce => ("✗ not allowed", Leave::Refused),
            Choice::RejectAlways => ("✗ not allowed from now on", Leave::Refused),
            Choice::Cancel
            | Choice::Approve
            | Choice::Skip
            | Choice::Continue
            | Choice::Send
            | Choice::Message
            | Choice::Ignore
            | Choice::Disable
            | Choice::Retry
            | Choice::Wait
            | Choice::Switch
            | Choice::Complete
            | Choice::Escalate
            | Choice::Fail
            | Choice::Stop
            | Choice::Leave
            | Choice::Abort => ("- no answer, the turn ends", Leave::Unsaid),
        };
        let short = |text: &str| first_line(&plain(text), LINE);
        let taken = options.iter().find(|known| Some(&known.id) == option.as_ref());
        let taken = taken.map(|option| format!(" · “{}”", short(&option.name))).unwrap_or_default();
        Some(Told { words: format!("{verb}: {}{taken} · by {}", short(title), by), leave })
    }
}
