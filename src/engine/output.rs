//! The result of a decision: events, effects, or a refusal.

use std::fmt::Display;

use crate::engine::{effect::Effect, event::Event, refusal::Refusal};

#[derive(Debug, Clone, Default, PartialEq)]
#[must_use]
pub struct EngineOutput {
    /// To be recorded and applied, in order.
    pub events: Vec<Event>,
    /// To be performed afterwards.
    pub effects: Vec<Effect>,
    /// Why a command was refused.
    pub refusal: Option<Refusal>,
}

impl EngineOutput {
    pub(crate) fn record(event: Event) -> Self {
        Self { events: vec![event], ..Self::default() }
    }

    pub(crate) fn refuse(why: impl Into<Refusal>) -> Self {
        Self { refusal: Some(why.into()), ..Self::default() }
    }

    /// A reply that the session no longer waits for: refused, without any other consequence.
    pub(crate) fn stale(ticket: impl Display) -> Self {
        Self::refuse(Refusal::StaleTicket(ticket.to_string()))
    }

    pub(crate) fn and(mut self, event: Event) -> Self {
        self.events.push(event);
        self
    }

    pub(crate) fn then(mut self, effect: Effect) -> Self {
        self.effects.push(effect);
        self
    }

    pub fn is_empty(&self) -> bool {
        self.events.is_empty() && self.effects.is_empty()
    }
}
