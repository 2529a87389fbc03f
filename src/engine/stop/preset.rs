//! The stop hooks that creel brings along.

use super::{Action, StopResult, context::AgentContext, promise::Promise};
use crate::engine::policy::Preset;

/// What a preset says.
pub fn judge(preset: Preset, context: &AgentContext) -> StopResult {
    match preset {
        Preset::Default => promised(context).or_else(|| validated(context)).unwrap_or_else(in_progress),
        Preset::Validation => {
            validated(context).unwrap_or_else(|| StopResult::new(Action::Continue, "No validation rules to judge by"))
        }
        Preset::Promise => {
            promised(context).unwrap_or_else(|| StopResult::new(Action::Continue, "No completion promise detected"))
        }
    }
}

fn in_progress() -> StopResult {
    StopResult::new(Action::Continue, "Iteration in progress")
}

fn promised(context: &AgentContext) -> Option<StopResult> {
    let promise = context.promise()?;
    let how = context.completion_promises.iter().find(|made| made.promise == promise).map(|made| &*made.content)?;
    let (action, what) = match promise {
        Promise::Complete => (Action::Complete, "completion"),
        Promise::Escalate => (Action::Escalate, "a need for escalation"),
        Promise::Blocked => (Action::Escalate, "that it is blocked"),
    };
    Some(StopResult::new(action, format!("Agent signaled {what} via {how}")))
}

/// What the rules say, if there are any.
fn validated(context: &AgentContext) -> Option<StopResult> {
    let all = context.validation_results.len();
    let failed: Vec<_> = context.failed().collect();
    match (all, failed.len()) {
        (0, _) => None,
        (1, 0) => Some(StopResult::new(Action::Complete, "The validation rule passed")),
        (all, 0) => Some(StopResult::new(Action::Complete, format!("All {all} validation rules passed"))),
        (all, missed) => {
            let list = failed.iter().map(|rule| format!("- {}: {}", rule.rule_name, rule.message));
            let told = format!("[Validation failed]\n{}", list.collect::<Vec<_>>().join("\n"));
            let names = failed.iter().map(|rule| rule.rule_name.as_str()).collect::<Vec<_>>().join(", ");
            let rules = if all == 1 { "rule" } else { "rules" };
            let reason = format!("{missed} of {all} validation {rules} failed: {names}");
            Some(StopResult::new(Action::Continue, reason).telling(told))
        }
    }
}
