//! The result of a decision: events, effects, or a refusal.

use std::fmt::Display;

use crate::engine::{
    effect::{Effect, FileComparison},
    event::{Event, SessionEvent, SessionOutcome},
    refusal::Refusal,
};

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
        Self {
            events: vec![event],
            ..Self::default()
        }
    }

    pub(crate) fn refuse(why: impl Into<Refusal>) -> Self {
        Self {
            refusal: Some(why.into()),
            ..Self::default()
        }
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

    /// What to compare before this step: prompts and a good end rest on files that agents must not
    /// change.
    pub fn compares(&self) -> Option<FileComparison> {
        let prompt = self.effects.iter().find_map(|effect| {
            let Effect::SendPrompt { to, baseline, .. } = effect else {
                return None;
            };
            Some(if to.is_some() {
                FileComparison::Review
            } else {
                FileComparison::Prompt(*baseline)
            })
        });
        let completes = self.events.iter().any(|event| {
            matches!(
                event,
                Event::Session(
                    SessionEvent::LoopEnded {
                        outcome: SessionOutcome::Complete,
                        ..
                    } | SessionEvent::Ended {
                        outcome: SessionOutcome::Complete,
                        ..
                    }
                )
            )
        });
        prompt.or_else(|| completes.then_some(FileComparison::Complete))
    }

    pub fn is_empty(&self) -> bool {
        self.events.is_empty() && self.effects.is_empty()
    }
}
