//! What the user asks of the session while it runs.

use crate::engine::{actor::Actor, ids::TurnId};
use serde::{Deserialize, Serialize};

/// What the user asks of the session while it runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum SteeringEvent {
    #[serde(rename = "paused")]
    Paused {
        #[serde(flatten)]
        by: Actor,
        /// The turn that was cancelled, if that is why.
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
    #[serde(rename = "stop_requested")]
    StopRequested {
        #[serde(flatten)]
        by: Actor,
        how: StopTiming,
    },
}

/// When a stop takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopTiming {
    /// When this iteration is completed; what is held is still delivered.
    AfterIteration,
    /// At once: the turn is cancelled and nothing more is delivered.
    Now,
}
