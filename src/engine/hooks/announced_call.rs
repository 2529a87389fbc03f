//! Reads what an agent's own hook says about a tool call: the input of `PreToolUse`, `PostToolUse`
//! and `PostToolUseFailure` of Claude Code, and of agents that have taken it over.
//!
//! Owns what each field means for a call. Does not decide anything about it.

use serde_json::Value;

use crate::engine::{
    conversation::{FileLocation, ToolCall, ToolKind, ToolStatus},
    hooks::tool_matcher::ClaudeToolEvent,
    permission::tool_call::files_in,
};

/// The tools whose kind their name says. What is missing here is of an unknown kind.
const KINDS: [(ToolKind, &[&str]); 6] = [
    (
        ToolKind::Execute,
        &["Bash", "PowerShell", "exec_command", "shell"],
    ),
    (
        ToolKind::Edit,
        &["Write", "Edit", "MultiEdit", "NotebookEdit", PATCH],
    ),
    (ToolKind::Read, &["Read", "NotebookRead"]),
    (ToolKind::Search, &["Grep", "Glob", "LS"]),
    (ToolKind::Fetch, &["WebFetch", "WebSearch"]),
    (ToolKind::SwitchMode, &["ExitPlanMode", "EnterPlanMode"]),
];
/// Codex' tool for edits. Its model can also call it as a command.
const PATCH: &str = "apply_patch";
/// How a patch of it names a file.
const PATCHED: [&str; 4] = [
    "*** Add File: ",
    "*** Update File: ",
    "*** Delete File: ",
    "*** Move to: ",
];

/// Why an input says nothing about a call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnnouncedCallError {
    #[error("its input has no `tool_name`")]
    NoTool,
    #[error("its input is for `{0}`")]
    OtherEvent(String),
}

/// The call in the input of a hook of this event. Its arguments are whole.
pub fn read(event: ClaudeToolEvent, input: &Value) -> Result<ToolCall, AnnouncedCallError> {
    let text = |key: &str| input[key].as_str();
    if let Some(other) = text("hook_event_name").filter(|name| *name != event.name()) {
        return Err(AnnouncedCallError::OtherEvent(other.to_owned()));
    }
    let named = text("tool_name").filter(|name| !name.trim().is_empty());
    let named = named.ok_or(AnnouncedCallError::NoTool)?;
    let arguments = &input["tool_input"];
    let command = arguments["command"].as_str();
    let is_patch = command.is_some_and(|line| line.trim_start().starts_with(PATCH));
    let name = if is_patch { PATCH } else { named };
    let mut fitting = KINDS.iter().filter(|(_, names)| names.contains(&name));
    let kind = fitting.next().map_or(ToolKind::Other, |(kind, _)| *kind);
    let locations: Vec<FileLocation> = if name == PATCH {
        patched(arguments).collect()
    } else {
        Vec::new()
    };
    let first = locations.first().map(|place| place.path.clone());
    let file = first.or_else(|| files_in(arguments).into_iter().next());
    let title = match (command.filter(|_| kind == ToolKind::Execute), file) {
        (Some(command), _) => command.to_owned(),
        (None, Some(file)) => format!("{name} {file}"),
        (None, None) => name.to_owned(),
    };
    let (status, output) = match event {
        ClaudeToolEvent::PreToolUse | ClaudeToolEvent::PermissionRequest => {
            (ToolStatus::Pending, None)
        }
        ClaudeToolEvent::PostToolUse => (ToolStatus::Completed, response(&input["tool_response"])),
        ClaudeToolEvent::PostToolUseFailure => (ToolStatus::Failed, response(&input["error"])),
    };
    Ok(ToolCall {
        call: text("tool_use_id").unwrap_or_default().to_owned(),
        title,
        name: Some(name.to_owned()),
        status,
        kind: Some(kind),
        locations,
        input: (!arguments.is_null()).then(|| arguments.to_string()),
        output,
        ..ToolCall::default()
    })
}

/// The files of a patch, in whichever argument it is.
fn patched(arguments: &Value) -> impl Iterator<Item = FileLocation> {
    let texts = arguments.as_object().into_iter().flatten();
    let texts = texts
        .filter_map(|(_, text)| text.as_str())
        .chain(arguments.as_str());
    let lines = texts.flat_map(str::lines);
    let named = lines.filter_map(|line| PATCHED.iter().find_map(|begin| line.strip_prefix(begin)));
    named.map(|path| FileLocation {
        path: path.trim().to_owned(),
        line: None,
    })
}

/// What a tool has answered, as text. What a command printed is the text of both streams.
fn response(value: &Value) -> Option<String> {
    let printed = |key: &str| value[key].as_str().filter(|text| !text.is_empty());
    let text = match value {
        Value::Null => return None,
        Value::String(text) => text.clone(),
        Value::Object(fields) if fields.contains_key("stdout") => {
            let streams = [printed("stdout"), printed("stderr")];
            streams.into_iter().flatten().collect::<Vec<_>>().join("\n")
        }
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    };
    Some(text).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_of_claude_code_and_one_of_codex_say_what_they_do() {
        let bash = json!({"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_use_id": "toolu_1",
            "tool_input": {"command": "rm -rf build", "description": "Clean up"}});
        let call = read(ClaudeToolEvent::PreToolUse, &bash).expect("a call");
        assert_eq!(
            (call.call.as_str(), call.title.as_str(), call.kind),
            ("toolu_1", "rm -rf build", Some(ToolKind::Execute))
        );
        let write =
            json!({"tool_name": "Write", "tool_input": {"file_path": "/p/.env", "content": "x"}});
        let call = read(ClaudeToolEvent::PreToolUse, &write).expect("a call");
        assert_eq!(
            (call.title.as_str(), call.kind),
            ("Write /p/.env", Some(ToolKind::Edit))
        );
        let patch =
            "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: a.rs\n+x\n*** End Patch\nEOF";
        let patch = json!({"tool_name": "Bash", "tool_input": {"command": patch}});
        let call = read(ClaudeToolEvent::PreToolUse, &patch).expect("a call");
        assert_eq!(
            (
                call.name.as_deref(),
                call.kind,
                call.locations[0].path.as_str()
            ),
            (Some(PATCH), Some(ToolKind::Edit), "a.rs")
        );
    }

    #[test]
    fn the_end_of_a_call_says_what_it_printed() {
        let ended = json!({"tool_name": "Bash", "tool_input": {"command": "ls"},
            "tool_response": {"stdout": "a", "stderr": "b", "interrupted": false}});
        let call = read(ClaudeToolEvent::PostToolUse, &ended).expect("a call");
        assert_eq!(
            (call.status, call.output.as_deref()),
            (ToolStatus::Completed, Some("a\nb"))
        );
        let failed = json!({"tool_name": "Bash", "tool_input": {}, "error": "exit 1"});
        let call = read(ClaudeToolEvent::PostToolUseFailure, &failed).expect("a call");
        assert_eq!(
            (call.status, call.output.as_deref()),
            (ToolStatus::Failed, Some("exit 1"))
        );
    }

    #[test]
    fn an_input_without_a_tool_or_of_another_event_is_none() {
        let none = read(ClaudeToolEvent::PreToolUse, &json!({"tool_input": {}}));
        assert_eq!(none, Err(AnnouncedCallError::NoTool));
        let other = json!({"hook_event_name": "Stop", "tool_name": "Bash"});
        let other = read(ClaudeToolEvent::PreToolUse, &other);
        assert_eq!(other, Err(AnnouncedCallError::OtherEvent("Stop".into())));
    }
}
