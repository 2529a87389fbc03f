//! The settings of a plan as text, in the words of the config.

use crate::engine::policy::{HookFailurePolicy, OutputFormat, RetryLimitPolicy};

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
