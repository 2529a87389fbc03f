//! What a hook of Claude Code gets and how it replies: its fields, its variables, its output.
//!
//! Owns the translation between creel's facts and Claude Code's. Does not decide when such a hook
//! runs or what its result means: see `crate::engine::hooks::claude`.
//!
//! Also owns the standard input of hooks at the points of tool calls, which has the names that
//! Claude Code uses.
//!
//! # Invariants
//! - A field that Claude Code has means the same here. creel's own fields are additional.

use serde_json::{Map, Value, json};

use super::{HookWorkspace, reply};
use crate::{
    engine::{
        conversation::{ToolCall, ToolStatus},
        effect::{ClaudeFacts, HookFacts},
        hooks::{
            claude::ClaudeEvent,
            claude_tools,
            dispatch::QuestionFacts,
            tool_matcher::ClaudeToolEvent,
            verdict::{HookReply, RunEnd},
        },
        permission::tool_call::{input, kind},
        question::{AgentQuestion, FieldKind, QuestionField},
    },
    process::output::CapturedOutput,
};

const PROJECT: &str = "CLAUDE_PROJECT_DIR";

/// The variables that its scripts rely on.
pub(super) fn environment(place: &HookWorkspace) -> Vec<(String, String)> {
    let variable = |name: &str, value: String| (name.to_owned(), value);
    let root = place.project().map(|(_, root)| variable(PROJECT, root));
    let others = [
        variable("CLAUDECODE", "1".to_owned()),
        variable("CLAUDE_CODE_SESSION_ID", place.session_id.clone()),
    ];
    root.into_iter().chain(others).collect()
}

/// An argument of a program that no shell expands.
pub(super) fn expanded(argument: &str, place: &HookWorkspace) -> String {
    match place.project() {
        Some((_, root)) => argument.replace("${CLAUDE_PROJECT_DIR}", &root),
        None => argument.to_owned(),
    }
}

/// The fields of its standard input that creel's own hooks do not have.
pub(super) fn fields(event: ClaudeEvent, facts: &HookFacts) -> Map<String, Value> {
    let known = facts.claude.as_deref();
    let word = known.and_then(|known| known.word.as_deref());
    let last_message = || ("last_assistant_message", json!(facts.agent_output));
    let of_event = match event {
        ClaudeEvent::SessionStart => vec![("source", json!(word))],
        ClaudeEvent::UserPromptSubmit => {
            vec![(
                "prompt",
                json!(known.and_then(|known| known.prompt.as_ref())),
            )]
        }
        ClaudeEvent::Stop => vec![last_message()],
        ClaudeEvent::StopFailure => vec![
            ("error", json!(word)),
            ("error_details", json!(facts.error)),
            last_message(),
        ],
        ClaudeEvent::Notification => vec![
            (
                "message",
                json!(facts.gate.as_ref().map(|gate| &gate.reason)),
            ),
            ("title", json!("creel needs you")),
            ("notification_type", json!(word)),
        ],
        ClaudeEvent::TaskCompleted => {
            let task = facts.task.as_ref();
            let subject = task.and_then(|task| task.content.lines().next());
            vec![
                ("task_id", json!(task.map(|task| &task.id))),
                ("task_subject", json!(subject)),
                ("task_description", json!(task.map(|task| &task.content))),
            ]
        }
        ClaudeEvent::SessionEnd => vec![("reason", json!(word))],
        // The call or the question is in the fields of the point.
        ClaudeEvent::Elicitation | ClaudeEvent::ElicitationResult | ClaudeEvent::Tool(_) => {
            Vec::new()
        }
    };
    let mode = |known: &ClaudeFacts| ("permission_mode", json!(known.permission_mode));
    // What creel does not know is absent, as in Claude Code.
    let present = of_event.into_iter().filter(|(_, value)| !value.is_null());
    [("hook_event_name", json!(event.name()))]
        .into_iter()
        .chain(known.map(mode))
        .chain(present)
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}

/// Its reply, whatever the exit code. Where plain output is context, that is a reply too.
pub(super) fn reply(
    event: ClaudeEvent,
    end: &RunEnd,
    captured: &CapturedOutput,
) -> Option<HookReply> {
    let RunEnd::Exit(code) = end else {
        return None;
    };
    if let Some(reply) = reply::parse(&captured.answer) {
        return Some(HookReply {
            suppress_output: false,
            ..reply
        });
    }
    let text = captured.stdout.trim();
    let is_context =
        *code == 0 && event.rules().output_is_context && !text.is_empty() && !text.starts_with('{');
    is_context.then(|| HookReply {
        additional_context: Some(text.to_owned()),
        ..HookReply::default()
    })
}

/// The fields that describe a question of the agent, and the answer that was given.
pub(super) fn question_fields(asked: &QuestionFacts) -> Vec<(&'static str, Value)> {
    let AgentQuestion {
        message,
        fields,
        url,
    } = &asked.question;
    let mut all = vec![("message", json!(message))];
    match url {
        Some(url) => all.extend([("mode", json!("url")), ("url", json!(url))]),
        None => all.extend([
            ("mode", json!("form")),
            ("requested_schema", schema(fields)),
        ]),
    }
    if let Some(answer) = &asked.answer {
        let action = match answer.content {
            Some(_) => "accept",
            None => "decline",
        };
        all.push(("action", json!(action)));
        let read = |text: &String| serde_json::from_str::<Value>(text).ok();
        all.extend(
            answer
                .content
                .as_ref()
                .and_then(read)
                .map(|it| ("content", it)),
        );
    }
    all
}

/// The form as a JSON schema.
fn schema(fields: &[QuestionField]) -> Value {
    let of_field = |field: &QuestionField| {
        let options: Vec<Value> = field
            .options
            .iter()
            .map(|option| json!({ "const": option.value, "title": option.title }))
            .collect();
        let mut property = match field.kind {
            FieldKind::Text => json!({ "type": "string" }),
            FieldKind::Number => json!({ "type": "number" }),
            FieldKind::Integer => json!({ "type": "integer" }),
            FieldKind::Boolean => json!({ "type": "boolean" }),
            FieldKind::One => json!({ "type": "string", "oneOf": options }),
            FieldKind::Many => json!({ "type": "array", "items": { "anyOf": options } }),
        };
        property["title"] = json!(field.title);
        let others = [
            ("description", json!(field.description)),
            ("default", json!(field.default)),
        ];
        for (key, value) in others.into_iter().filter(|(_, value)| !value.is_null()) {
            property[key] = value;
        }
        let own = field
            .other
            .as_ref()
            .map(|name| (name.clone(), json!({ "type": "string" })));
        [(field.name.clone(), property)].into_iter().chain(own)
    };
    let properties: Map<String, Value> = fields.iter().flat_map(of_field).collect();
    let required: Vec<&String> = fields
        .iter()
        .filter(|field| field.required)
        .map(|field| &field.name)
        .collect();
    json!({ "type": "object", "properties": properties, "required": required })
}

/// The fields that describe a call, under the names that Claude Code uses, too.
pub(super) fn call_fields(call: &ToolCall) -> Vec<(&'static str, Value)> {
    let arguments = match (&call.input, input(call)) {
        // What is no JSON is text.
        (Some(text), Value::Null) => Value::String(text.clone()),
        (_, read) => read,
    };
    let mut fields = vec![
        ("tool_name", json!(tool_name(call))),
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
pub(super) fn tool_name(call: &ToolCall) -> String {
    call.name
        .clone()
        .unwrap_or_else(|| claude_tools::claude_name(call))
}

pub(super) fn call_value(call: &ToolCall, name: &str) -> Option<String> {
    let status = || json!(call.status).as_str().map(str::to_owned);
    match name {
        "tool" => Some(tool_name(call)),
        "tool_kind" => Some(kind(call).name().to_owned()),
        "status" => status(),
        _ => None,
    }
}
