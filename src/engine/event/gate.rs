//! Decisions that the session waits for.

use serde::{Deserialize, Serialize};

use crate::engine::{
    actor::Actor,
    ids::{GateId, ItemId, PermissionId, RunId},
    session::gate::{GateChoice, GateKind},
};

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
        /// The failed run of that hook.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run: Option<RunId>,
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
