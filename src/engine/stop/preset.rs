//! The built-in stop hooks.

use crate::{
    engine::{
        policy::StopPreset,
        stop::{
            context::AgentContext,
            decision::{StopAction, StopResult},
            promise::Promise,
        },
    },
    text::plural,
};

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
