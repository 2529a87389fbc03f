//! The built-in stop hooks, and those that are registered while the session runs.
//!
//! Registered hooks are data, so the journal restores them after a restart. Only presets can be
//! registered: creel never runs a command that an agent wrote.

use crate::{
    engine::{
        event::ActorKind,
        policy::{StopHook, StopHookKind, StopPreset},
        stop::{
            context::AgentContext,
            decision::{StopAction, StopResult},
            promise::Promise,
        },
    },
    text::plural,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub fn judge(preset: StopPreset, context: &AgentContext) -> StopResult {
    match preset {
        StopPreset::Default => promised(context)
            .or_else(|| validated(context))
            .unwrap_or_else(in_progress),
        StopPreset::Validation => validated(context).unwrap_or_else(|| {
            StopResult::new(StopAction::Continue, "No validation rules to judge by")
        }),
        StopPreset::Promise => promised(context).unwrap_or_else(|| {
            StopResult::new(StopAction::Continue, "No completion promise detected")
        }),
    }
}

/// The reason to continue if nothing speaks for an end.
pub const IN_PROGRESS: &str = "Iteration in progress";

fn in_progress() -> StopResult {
    StopResult::new(StopAction::Continue, IN_PROGRESS)
}

fn promised(context: &AgentContext) -> Option<StopResult> {
    let promise = context.promise()?;
    let how = context
        .completion_promises
        .iter()
        .find(|made| made.promise == promise)
        .map(|made| &*made.content)?;
    let (action, what) = match promise {
        Promise::Complete => (StopAction::Complete, "completion"),
        Promise::Escalate => (StopAction::Escalate, "a need for escalation"),
        Promise::Blocked => (StopAction::Escalate, "that it is blocked"),
    };
    Some(StopResult::new(
        action,
        format!("Agent signaled {what} via {how}"),
    ))
}

/// The decision by the rules. None if there are no rules.
fn validated(context: &AgentContext) -> Option<StopResult> {
    let all = context.validation_results.len();
    let failed: Vec<_> = context.failed().collect();
    match (all, failed.len()) {
        (0, _) => None,
        (1, 0) => Some(StopResult::new(
            StopAction::Complete,
            "The validation rule passed",
        )),
        (all, 0) => Some(StopResult::new(
            StopAction::Complete,
            format!("All {all} validation rules passed"),
        )),
        (all, missed) => {
            let list = failed
                .iter()
                .map(|rule| format!("- {}: {}", rule.rule_name, rule.message));
            let prompt = format!(
                "[Validation failed]\n{}",
                list.collect::<Vec<_>>().join("\n")
            );
            let names = failed
                .iter()
                .map(|rule| rule.rule_name.as_str())
                .collect::<Vec<_>>()
                .join(", ");
            let rules = plural(all, "rule");
            let reason = format!("{missed} of {all} validation {rules} failed: {names}");
            Some(StopResult::new(StopAction::Continue, reason).telling(prompt))
        }
    }
}

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
