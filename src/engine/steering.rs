//! Steering: the commands to a running session, and what is still in effect of them.
//!
//! Owns the pause, the stop, the messages that wait for the agent, their events, and the meaning of
//! each command ([`commands`]). Passes a command to the machine that it is about, and does not own
//! that machine's rules. The endpoints determine the actor; [`super::actor`] lists the commands
//! that only the user can give.
//!
//! # Invariants
//! - A command that is refused changes nothing.
//! - While the session is paused, no prompt is sent. A turn in progress continues.
//! - The agent and its hooks can each queue one message per turn, unless the config allows more.

pub(crate) mod apply;
pub mod commands;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    engine::{
        event::{Actor, ActorKind, Event},
        ids::TurnId,
        policy::SessionPlan,
        session::iteration::IterationState,
    },
    text::counted,
};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ControlState {
    /// While true, no prompt is sent.
    pub paused: bool,
    /// The actor that paused it last.
    #[serde(default)]
    pub paused_by: Option<Actor>,
    /// The turn whose cancellation paused the session.
    pub cancelled: Option<TurnId>,
    /// When the session should stop. None: it continues.
    pub stop: Option<StopTiming>,
    /// Messages that the agent has not answered, oldest first.
    pub messages: Vec<QueuedMessage>,
    pub queued_in: LastMessageTurns,
    /// The model that the user chose for the next prompts, by the agent's name. Without an entry: as
    /// planned.
    #[serde(default)]
    pub models: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuedMessage {
    pub by: ActorKind,
    pub text: String,
}

impl ControlState {
    /// Removes the first `carried` messages: a prompt had them.
    pub(crate) fn forget_messages(&mut self, carried: usize) {
        self.messages.drain(..carried.min(self.messages.len()));
    }

    /// Removes the user's own messages among the first `carried`: the user writes another one
    /// instead. Those of hooks and agents stay.
    pub(crate) fn replace_messages(&mut self, carried: usize) {
        let mut nth = 0;
        self.messages.retain(|message| {
            nth += 1;
            nth > carried || message.by.is_supervised()
        });
    }

    /// Whether the messages after the first `known` are sent in a turn of their own. Messages of
    /// the agent itself or of a hook use up iterations there; otherwise they could keep the session
    /// running for ever.
    pub(crate) fn message_is_due(
        &self,
        known: usize,
        iterations: &IterationState,
        plan: &SessionPlan,
    ) -> bool {
        let is_new = self.messages.len() > known;
        is_new && (self.person_spoke_after(known) || iterations.used() < iterations.limit(plan))
    }

    /// Whether the user sent one of the messages after the first `known`.
    pub(crate) fn person_spoke_after(&self, known: usize) -> bool {
        self.messages
            .iter()
            .skip(known)
            .any(|message| !message.by.is_supervised())
    }

    /// Whether the user sent one of the first `carried` messages. Older records do not count the
    /// messages of a prompt: those count as the user's.
    pub(crate) fn person_speaks_in(&self, carried: usize) -> bool {
        carried == 0
            || self
                .messages
                .iter()
                .take(carried)
                .any(|message| !message.by.is_supervised())
    }
}

/// When agents and hooks queued their last message: each can queue one per turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastMessageTurns {
    agent: Option<TurnId>,
    hook: Option<TurnId>,
}

impl LastMessageTurns {
    pub(in crate::engine) fn note(&mut self, by: ActorKind, turn: TurnId) {
        match by {
            ActorKind::Agent => self.agent = Some(turn),
            ActorKind::Hook => self.hook = Some(turn),
            ActorKind::OtherSession
            | ActorKind::Tui
            | ActorKind::Cli
            | ActorKind::Mcp
            | ActorKind::Nats
            | ActorKind::Policy
            | ActorKind::Timeout => {}
        }
    }

    pub(crate) fn has(self, by: ActorKind, turn: TurnId) -> bool {
        match by {
            ActorKind::Agent => self.agent == Some(turn),
            ActorKind::Hook => self.hook == Some(turn),
            ActorKind::OtherSession
            | ActorKind::Tui
            | ActorKind::Cli
            | ActorKind::Mcp
            | ActorKind::Nats
            | ActorKind::Policy
            | ActorKind::Timeout => false,
        }
    }
}

impl ControlState {
    pub(crate) fn messages_text(&self) -> Option<String> {
        let texts: Vec<&str> = self
            .messages
            .iter()
            .map(|message| message.text.as_str())
            .collect();
        (!texts.is_empty()).then(|| texts.join("\n\n"))
    }

    pub(crate) fn interrupted(&self) -> bool {
        self.stop == Some(StopTiming::Now)
    }

    /// The warning about unsent messages of the agent or a hook.
    pub(crate) fn messages_left(&self) -> Option<Event> {
        let left = self
            .messages
            .iter()
            .filter(|message| message.by.is_supervised())
            .count();
        let words = counted(left, "message");
        (left > 0).then(|| {
            Event::warning(format!(
                "not sent: {words} of the agent or its hooks; the text is in the journal"
            ))
        })
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum SteeringEvent {
    #[serde(rename = "paused")]
    Paused {
        #[serde(flatten)]
        by: Actor,
        /// The turn whose cancellation paused the session, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        turn: Option<TurnId>,
    },
    #[serde(rename = "unpaused")]
    Unpaused {
        #[serde(flatten)]
        by: Actor,
    },
    #[serde(rename = "message_queued")]
    MessageQueued {
        #[serde(flatten)]
        by: Actor,
        text: String,
    },
    #[serde(rename = "model_chosen")]
    ModelChosen {
        #[serde(flatten)]
        by: Actor,
        /// None: as planned.
        model: Option<String>,
        /// The fallback that it is for. None: the session's own agent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<String>,
    },
    #[serde(rename = "stop_requested")]
    StopRequested {
        #[serde(flatten)]
        by: Actor,
        how: StopTiming,
    },
}

impl SteeringEvent {
    /// The kinds of its records.
    pub(crate) const KINDS: &'static [&'static str] = &[
        "paused",
        "unpaused",
        "message_queued",
        "model_chosen",
        "stop_requested",
    ];
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopTiming {
    /// When this iteration is completed; pending items are still sent.
    AfterIteration,
    /// Immediately: the turn is cancelled and nothing more is sent.
    Now,
}
