//! The settings of a plan as text, in the words of the config; stop decisions and the hooks that make
//! them.

use crate::engine::{
    policy::{
        HookFailurePolicy, OutputFormat, RetryLimitPolicy, StopHook, StopHookCondition,
        StopHookKind, StopPreset,
    },
    stop::decision::StopAction,
};

pub const fn retry_limit_policy(policy: RetryLimitPolicy) -> &'static str {
    match policy {
        RetryLimitPolicy::Complete => "complete",
        RetryLimitPolicy::Escalate => "escalate",
        RetryLimitPolicy::Abort => "abort",
    }
}

pub const fn hook_failure_policy(policy: HookFailurePolicy) -> &'static str {
    match policy {
        HookFailurePolicy::Ignore => "ignore",
        HookFailurePolicy::Block => "block",
        HookFailurePolicy::Escalate => "escalate",
    }
}

pub const fn output_format(format: OutputFormat) -> &'static str {
    match format {
        OutputFormat::Text => "text",
        OutputFormat::Claude => "claude",
        OutputFormat::Codex => "codex",
        OutputFormat::Gemini => "gemini",
        OutputFormat::Opencode => "opencode",
    }
}

pub const fn action(action: StopAction) -> &'static str {
    match action {
        StopAction::Complete => "complete",
        StopAction::Continue => "continue",
        StopAction::Escalate => "escalate",
    }
}

/// What a stop decision hook does, and when.
pub fn judge(hook: &StopHook) -> String {
    let what = match &hook.judge {
        StopHookKind::Preset(StopPreset::Default) => {
            "the agent's promise, then the results of the rules".to_owned()
        }
        StopHookKind::Preset(StopPreset::Validation) => "the results of the rules".to_owned(),
        StopHookKind::Preset(StopPreset::Promise) => "the agent's promise".to_owned(),
        StopHookKind::Command { command, .. } => command.clone(),
        StopHookKind::Fixed(result) => format!("{}: {}", action(result.action), result.reason),
        StopHookKind::All(parts) => format!(
            "all of:\n{}",
            parts.iter().map(judge).collect::<Vec<_>>().join("\n")
        ),
        StopHookKind::Any(parts) => format!(
            "any of:\n{}",
            parts.iter().map(judge).collect::<Vec<_>>().join("\n")
        ),
    };
    let when = if hook.when.is_always() {
        String::new()
    } else {
        format!("\nwhen {}", conditions(&hook.when))
    };
    format!("{what}{when}")
}

fn conditions(when: &StopHookCondition) -> String {
    let iterations = match (when.from, when.to) {
        (None, None) => None,
        (Some(from), Some(to)) if from == to => Some(format!("iteration {from}")),
        (from, to) => {
            let end = |bound: Option<u32>| bound.map(|n| n.to_string()).unwrap_or_default();
            Some(format!("iterations {}..{}", end(from), end(to)))
        }
    };
    let files = (!when.files.is_empty()).then(|| format!("changed: {}", when.files.join(", ")));
    let rules = when
        .rules
        .iter()
        .map(|(rule, passed)| format!("{rule} {}", if *passed { "passed" } else { "failed" }));
    let labels = (!when.labels.is_empty()).then(|| format!("labels: {}", when.labels.join(", ")));
    iterations
        .into_iter()
        .chain(files)
        .chain(rules)
        .chain(labels)
        .collect::<Vec<_>>()
        .join(" · ")
}
