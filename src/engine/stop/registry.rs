//! Stop hooks that are registered while the session runs.
//!
//! They are data, so the journal restores them after a restart. Only presets can be registered:
//! creel never runs a command that an agent wrote.

use serde::{Deserialize, Serialize};

use serde_json::{Map, Value};

use crate::engine::{
    event::ActorKind,
    policy::{StopHook, StopHookKind, StopPreset},
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RegisteredStopHook {
    pub id: String,
    /// The task's id, or the session's name if the hook applies to the whole session.
    pub task: String,
    pub hook: StopHook,
    /// Data of the actor that registered it.
    pub metadata: Map<String, Value>,
    pub by: ActorKind,
}

impl RegisteredStopHook {
    pub fn preset(&self) -> &'static str {
        if let StopHookKind::Preset(preset) = self.hook.judge {
            preset.name()
        } else {
            "custom"
        }
    }
}

#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct StopHookRegistration {
    /// The task's id, or the session's name.
    pub task: String,
    pub preset: StopPreset,
    /// Data of the actor that registers it; creel does not use it.
    #[serde(default)]
    pub metadata: Map<String, Value>,
}
