//! Stop hooks that are registered while the session runs.
//!
//! They are data, so the journal restores them after a restart. Only presets can be registered: creel never runs a
//! command that an agent wrote.

use serde_json::{Map, Value};

use crate::engine::{
    EngineOutput,
    event::{Actor, ActorKind, Event, StopEvent},
    policy::{StopHook, StopHookKind, StopPreset},
    refusal::Refusal,
    stop::agent_loop::LoopRules,
    time::UnixTime,
};

/// The most hooks that a task can have.
const MOST: usize = 50;

#[derive(Debug, Clone, PartialEq)]
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
        if let StopHookKind::Preset(preset) = self.hook.judge { preset.name() } else { "custom" }
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

impl<'a> LoopRules<'a> {
    pub(crate) fn register_stop_hook(self, by: &Actor, wanted: StopHookRegistration, now: UnixTime) -> EngineOutput {
        let StopHookRegistration { task, preset, metadata } = wanted;
        if let Err(why) = self.known_task(&task) {
            return EngineOutput::refuse(why);
        }
        if self.stop.registered.iter().filter(|known| known.task == task).count() >= MOST {
            return EngineOutput::refuse(Refusal::TooManyStopHooks { task, limit: MOST });
        }
        let hook_id = self.stop.name("HOOK", now);
        let hook = StopHook { name: hook_id.clone(), ..StopHook::preset(preset) };
        EngineOutput::record(Event::Stop(StopEvent::HookRegistered {
            hook_id,
            task,
            hook: Box::new(hook),
            metadata,
            by: by.clone(),
        }))
    }

    /// The stop hook of that name, configured or registered.
    pub fn stop_hook(self, name: &str) -> Option<&'a StopHook> {
        let registered = || self.stop.registered.iter().find(|known| known.id == name).map(|known| &known.hook);
        self.plan.stop.hook(name).or_else(registered)
    }
}
