//! Claude Code's names for tools and their arguments, for calls of any agent.
//!
//! Hook scripts are written for these names. An agent's own names and arguments stay beside them.

use serde_json::{Map, Value};

use crate::engine::{
    conversation::{ToolCall, ToolKind},
    permission::tool_call::{COMMAND_ARGUMENTS, FILE_ARGUMENTS, arguments, files, input, kind},
};

/// Claude Code's own tools, whose names say exactly what they are.
const KNOWN: [&str; 16] = [
    "Agent",
    "AskUserQuestion",
    "Bash",
    "Edit",
    "ExitPlanMode",
    "Glob",
    "Grep",
    "MultiEdit",
    "NotebookEdit",
    "Read",
    "Skill",
    "Task",
    "TodoWrite",
    "WebFetch",
    "WebSearch",
    "Write",
];

/// The arguments in which agents pass what Claude Code passes under the first name.
const ARGUMENTS: [(&str, &[&str]); 6] = [
    (
        "content",
        &["content", "contents", "file_text", "new_content", "text"],
    ),
    (
        "old_string",
        &["old_string", "old_str", "old_text", "before"],
    ),
    (
        "new_string",
        &["new_string", "new_str", "new_text", "after"],
    ),
    ("url", &["url"]),
    ("pattern", &["pattern", "regex", "glob"]),
    ("query", &["query"]),
];

/// Whether a call of this kind may change files by its own name for them.
pub(crate) fn may_change_files(kind: ToolKind) -> bool {
    match kind {
        ToolKind::Edit | ToolKind::Delete | ToolKind::Move | ToolKind::Other => true,
        ToolKind::Read
        | ToolKind::Search
        | ToolKind::Execute
        | ToolKind::Think
        | ToolKind::Fetch
        | ToolKind::SwitchMode => false,
    }
}

/// The names by which a matcher can mean a call: the agent's own, and Claude Code's for what the
/// call does. Empty if the call does not say what it is.
pub(crate) fn names(call: &ToolCall) -> Vec<String> {
    let own = call.name.clone().filter(|name| !name.trim().is_empty());
    let is_known = |name: &String| KNOWN.contains(&name.as_str()) || name.starts_with("mcp__");
    if own.as_ref().is_some_and(is_known) {
        return own.into_iter().collect();
    }
    let usual = usual_names(call).iter().map(|name| (*name).to_owned());
    own.into_iter().chain(usual).collect()
}

/// Claude Code's name of a call, or the agent's own where Claude Code has none.
pub fn claude_name(call: &ToolCall) -> String {
    let names = names(call);
    let known = names.iter().find(|name| KNOWN.contains(&name.as_str()));
    let name = known.or_else(|| names.first()).cloned();
    name.unwrap_or_else(|| kind(call).name().to_owned())
}

fn usual_names(call: &ToolCall) -> &'static [&'static str] {
    let sent = input(call);
    let has = |names: &[&str]| arguments(&sent, names).next().is_some();
    match kind(call) {
        ToolKind::Execute => &["Bash"],
        ToolKind::Read => &["Read"],
        ToolKind::Edit if has(ARGUMENTS[1].1) => &["Edit"],
        ToolKind::Edit if has(ARGUMENTS[0].1) => &["Write"],
        // Claude Code has no tools that delete or move; a hook that guards files means these, too.
        ToolKind::Edit | ToolKind::Delete | ToolKind::Move => &["Edit", "Write"],
        ToolKind::Search => &["Grep", "Glob"],
        ToolKind::Fetch if has(&["query"]) => &["WebSearch"],
        ToolKind::Fetch => &["WebFetch"],
        ToolKind::SwitchMode => &["ExitPlanMode"],
        ToolKind::Think | ToolKind::Other => &[],
    }
}

/// The arguments of a call with Claude Code's names, as far as the agent sends them, and the
/// agent's own beside them.
pub fn claude_input(call: &ToolCall, cwd: &str) -> Value {
    let sent = input(call);
    let mut fields = sent.as_object().cloned().unwrap_or_default();
    let add = |fields: &mut Map<String, Value>, name: &str, value: Option<Value>| {
        if let Some(value) = value.filter(|_| !fields.contains_key(name)) {
            fields.insert(name.to_owned(), value);
        }
    };
    if kind(call) == ToolKind::Execute {
        let command = arguments(&sent, &COMMAND_ARGUMENTS).find_map(command_line);
        // An agent without arguments shows the command as the title.
        let titled = || Some(call.title.clone()).filter(|title| !title.trim().is_empty());
        let command = command.or_else(|| titled().filter(|_| sent.is_null()));
        if let Some(command) = command {
            fields.insert("command".to_owned(), Value::String(command));
        }
    }
    let names_a_file =
        !call.locations.is_empty() || arguments(&sent, &FILE_ARGUMENTS).next().is_some();
    if let Some(file) = files(call, cwd)
        .into_iter()
        .next()
        .filter(|_| names_a_file || may_change_files(kind(call)))
    {
        let whole = if file.starts_with('/') {
            file
        } else {
            format!("{cwd}/{file}")
        };
        fields.insert("file_path".to_owned(), Value::String(whole));
    }
    for (name, theirs) in ARGUMENTS {
        let value = arguments(&sent, theirs).next().cloned();
        add(&mut fields, name, value);
    }
    Value::Object(fields)
}

/// A command as one line. `["bash", "-lc", "ls"]` is what the shell runs.
fn command_line(value: &Value) -> Option<String> {
    match value {
        Value::String(line) => Some(line.clone()),
        Value::Array(words) => {
            let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
            Some(match words?.as_slice() {
                [_, flag, script] if flag.starts_with('-') && flag.ends_with('c') => {
                    (*script).to_owned()
                }
                words => words.join(" "),
            })
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sent(kind: ToolKind, name: Option<&str>, input: &Value) -> ToolCall {
        ToolCall {
            kind: Some(kind),
            name: name.map(str::to_owned),
            input: Some(input.to_string()),
            ..ToolCall::default()
        }
    }

    #[test]
    fn a_call_of_another_agent_gets_claude_codes_name_and_arguments() {
        let codex = sent(
            ToolKind::Execute,
            Some("exec_command"),
            &json!({"command": ["bash", "-lc", "rm -rf x"]}),
        );
        assert_eq!(claude_name(&codex), "Bash");
        assert_eq!(claude_input(&codex, "/p"), json!({"command": "rm -rf x"}));
        let opencode = sent(
            ToolKind::Edit,
            None,
            &json!({"filePath": "a.rs", "oldString": "1", "newString": "2"}),
        );
        assert_eq!(claude_name(&opencode), "Edit");
        let input = claude_input(&opencode, "/p");
        assert_eq!(
            (
                &input["file_path"],
                &input["old_string"],
                &input["new_string"]
            ),
            (&json!("/p/a.rs"), &json!("1"), &json!("2"))
        );
        let goose = sent(
            ToolKind::Edit,
            None,
            &json!({"path": "/p/b", "content": "x"}),
        );
        assert_eq!(claude_name(&goose), "Write");
        assert_eq!(claude_input(&goose, "/p")["content"], "x");
    }

    #[test]
    fn a_command_without_arguments_is_in_the_title() {
        let gemini = ToolCall {
            kind: Some(ToolKind::Execute),
            title: "rm -rf build".into(),
            ..ToolCall::default()
        };
        assert_eq!(
            claude_input(&gemini, "/p"),
            json!({"command": "rm -rf build"})
        );
    }

    #[test]
    fn claude_codes_own_calls_stay_as_they_are() {
        let input = json!({"file_path": "/p/a", "content": "text"});
        let write = sent(ToolKind::Edit, Some("Write"), &input);
        assert_eq!(names(&write), ["Write"]);
        assert_eq!(claude_input(&write, "/p"), input);
        let search = sent(ToolKind::Other, Some("mcp__docs__find"), &json!({"q": 1}));
        assert_eq!(claude_name(&search), "mcp__docs__find");
        assert_eq!(claude_input(&search, "/p"), json!({"q": 1}));
    }
}
