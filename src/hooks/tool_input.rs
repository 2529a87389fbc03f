//! The standard input of hooks at the points of tool calls.

use serde_json::{Value, json};

use crate::engine::{
    conversation::{ToolCall, ToolStatus},
    hooks::{claude_tools, tool_matcher::ClaudeToolEvent},
    permission::tool_call::{input, kind},
};

/// The fields that describe a call, under the names that Claude Code uses, too.
pub(super) fn fields(call: &ToolCall) -> Vec<(&'static str, Value)> {
    let arguments = match (&call.input, input(call)) {
        // What is no JSON is text.
        (Some(text), Value::Null) => Value::String(text.clone()),
        (_, read) => read,
    };
    let mut fields = vec![
        ("tool_name", json!(name(call))),
        ("tool_input", arguments),
        ("tool_use_id", json!(call.call)),
        ("tool_kind", json!(kind(call))),
        ("tool_title", json!(call.title)),
        ("locations", json!(call.locations)),
    ];
    if let Some(diff) = &call.diff {
        fields.push(("diff", json!(diff)));
    }
    if has_ended(call) {
        fields.push(("status", json!(call.status)));
        fields.push(("tool_response", json!(call.output)));
    }
    fields
}

/// The same for a hook that is written for an event of Claude Code.
pub(super) fn claude_fields(
    event: ClaudeToolEvent,
    call: &ToolCall,
    cwd: &str,
) -> Vec<(&'static str, Value)> {
    let mut fields = vec![
        ("hook_event_name", json!(event.name())),
        ("permission_mode", json!("default")),
        ("tool_name", json!(claude_tools::claude_name(call))),
        ("tool_input", claude_tools::claude_input(call, cwd)),
        ("tool_use_id", json!(call.call)),
    ];
    match event {
        ClaudeToolEvent::PreToolUse | ClaudeToolEvent::PermissionRequest => {}
        ClaudeToolEvent::PostToolUse => fields.push(("tool_response", json!(call.output))),
        ClaudeToolEvent::PostToolUseFailure => fields.push(("error", json!(call.output))),
    }
    fields
}

fn has_ended(call: &ToolCall) -> bool {
    match call.status {
        ToolStatus::Completed | ToolStatus::Failed => true,
        ToolStatus::Pending | ToolStatus::InProgress => false,
    }
}

/// The agent's own name of the tool, or else Claude Code's.
pub(super) fn name(call: &ToolCall) -> String {
    call.name
        .clone()
        .unwrap_or_else(|| claude_tools::claude_name(call))
}

pub(super) fn value(call: &ToolCall, name: &str) -> Option<String> {
    let status = || json!(call.status).as_str().map(str::to_owned);
    match name {
        "tool" => Some(self::name(call)),
        "tool_kind" => Some(kind(call).name().to_owned()),
        "status" => status(),
        _ => None,
    }
}
