//! Decisions that the session waits for.

use crate::engine::{
    actor::Actor,
    ids::{GateId, ItemId, PermissionId},
    session::gate::{GateChoice, GateKind},
};
use serde::{Deserialize, Serialize};

/// Decisions that the session waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum GateEvent {
    #[serde(rename = "gate_opened")]
    Opened {
        gate: GateId,
        about: GateKind,
        choices: Vec<GateChoice>,
        /// Why the session waits, in words.
        reason: String,
        /// The hook that it is about.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hook: Option<String>,
        /// The held items that it is about.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        items: Vec<ItemId>,
        /// The agent's request that it is about.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ask: Option<PermissionId>,
    },
    #[serde(rename = "gate_answered")]
    Answered {
        gate: GateId,
        choice: GateChoice,
        #[serde(flatten)]
        by: Actor,
        /// Which of the agent's options was taken.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        option: Option<String>,
    },
}
