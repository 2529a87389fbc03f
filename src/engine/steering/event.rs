//! The events of steering: paused, unpaused, message queued, model chosen, stop requested.

use serde::{Deserialize, Serialize};

use crate::engine::{actor::Actor, ids::TurnId};

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
