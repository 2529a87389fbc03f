//! The user's earlier answers: "always" answers for the session, and grants for the turn.
//!
//! # Invariants
//! - An "always" answer applies only to the same agent, kind, title, locations and input.
//! - A request that creel truncated, or that does not describe its action, is never remembered.
//! - A grant ends with its turn, and covers only the files and the command that the request named.

use serde::{Deserialize, Serialize};

use serde_json::Value;

use crate::engine::{
    conversation::{AgentPermissionRequest, FileLocation, ToolCall, ToolKind},
    permission::tool_call::{COMMAND_ARGUMENTS, input, within},
};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RememberedAnswer {
    key: RequestKey,
    allowed: bool,
}

/// Requests with the same key are the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct RequestKey {
    agent: String,
    kind: Option<ToolKind>,
    title: String,
    locations: Vec<FileLocation>,
    input: Option<String>,
    /// Some agents send the change as part of the input; creel shows it separately.
    change: Option<String>,
}

impl RequestKey {
    fn of(agent: &str, ask: &AgentPermissionRequest) -> Option<Self> {
        let tool = &ask.tool;
        let changes_files = matches!(
            tool.kind,
            Some(ToolKind::Edit | ToolKind::Delete | ToolKind::Move)
        );
        let unclear = changes_files && tool.locations.is_empty() && tool.input.is_none();
        (!ask.shortened && !unclear).then(|| Self {
            agent: agent.to_owned(),
            kind: tool.kind,
            title: tool.title.clone(),
            locations: tool.locations.clone(),
            input: tool.input.clone(),
            change: tool.input.as_ref().and(tool.diff.clone()),
        })
    }
}

impl RememberedAnswer {
    /// The answer to remember, if the request can be recognized again.
    pub(crate) fn new(agent: &str, ask: &AgentPermissionRequest, allowed: bool) -> Option<Self> {
        RequestKey::of(agent, ask).map(|key| Self { key, allowed })
    }
}

/// The newest answer to the same request.
pub(crate) fn remembered(
    answers: &[RememberedAnswer],
    agent: &str,
    ask: &AgentPermissionRequest,
) -> Option<bool> {
    let key = RequestKey::of(agent, ask)?;
    answers
        .iter()
        .rev()
        .find(|known| known.key == key)
        .map(|known| known.allowed)
}

/// Whether a call that was allowed in this turn covers the action that creel should now perform for
/// the agent.
pub(crate) fn covers(granted: &ToolCall, wanted: &ToolCall, cwd: &str) -> bool {
    let untyped = matches!(granted.kind, None | Some(ToolKind::Other));
    match wanted.kind {
        Some(ToolKind::Edit) => {
            let changes = matches!(
                granted.kind,
                Some(ToolKind::Edit | ToolKind::Delete | ToolKind::Move)
            );
            let files = named_files(granted, cwd);
            let all_named = wanted
                .locations
                .iter()
                .all(|place| files.contains(&within(cwd, &place.path)));
            (changes || untyped) && !wanted.locations.is_empty() && all_named
        }
        Some(ToolKind::Execute) => {
            let runs = granted.kind == Some(ToolKind::Execute);
            let commands = named_commands(granted);
            (runs || untyped)
                && command_lines(wanted)
                    .iter()
                    .any(|line| commands.contains(line))
        }
        Some(ToolKind::Read) => {
            let files = named_files(granted, cwd);
            wanted
                .locations
                .iter()
                .all(|place| files.contains(&within(cwd, &place.path)))
        }
        Some(
            ToolKind::Delete
            | ToolKind::Move
            | ToolKind::Search
            | ToolKind::Think
            | ToolKind::Fetch
            | ToolKind::SwitchMode
            | ToolKind::Other,
        )
        | None => false,
    }
}

/// Whether what creel does for the agent is a part of a call that the agent reports. Agents put a
/// shell, or a change of the folder, in front of a command.
pub(crate) fn is_part_of(served: &ToolCall, call: &ToolCall, cwd: &str) -> bool {
    let commands = named_commands(call);
    let mut endings = commands.iter().map(|command| format!(" {command}"));
    covers(call, served, cwd)
        || (served.kind == Some(ToolKind::Execute)
            && endings.any(|ending| served.title.ends_with(&ending)))
}

/// The files of a request: its locations, and every argument, because agents choose the arguments'
/// names freely.
fn named_files(call: &ToolCall, cwd: &str) -> Vec<String> {
    let input = input(call);
    let arguments = input
        .as_object()
        .into_iter()
        .flat_map(|fields| fields.values());
    let arguments = arguments.filter_map(|value| value.as_str().map(str::to_owned));
    let locations = call.locations.iter().map(|place| place.path.clone());
    locations
        .chain(arguments)
        .map(|path| within(cwd, &path))
        .collect()
}

/// The command lines that a request named: as its title, or as an argument.
fn named_commands(call: &ToolCall) -> Vec<String> {
    let input = input(call);
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(words) => {
            let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
            words.map(|words| words.join(" "))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    };
    let arguments = COMMAND_ARGUMENTS
        .into_iter()
        .filter_map(|name| text(&input[name]));
    std::iter::once(call.title.clone())
        .chain(arguments)
        .collect()
}

/// The forms in which an agent may have named a command that creel should run: as it is, or as a
/// shell's argument.
fn command_lines(call: &ToolCall) -> Vec<String> {
    let input = input(call);
    let words: Vec<&str> = input["args"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let shell = matches!(&words[..], [flag, _] if flag.starts_with('-') && flag.ends_with('c'));
    let script = words
        .last()
        .filter(|_| shell)
        .map(|script| (*script).to_owned());
    std::iter::once(call.title.clone()).chain(script).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(kind: ToolKind, title: &str, files: &[&str], input: Option<&str>) -> ToolCall {
        let locations = files
            .iter()
            .map(|path| FileLocation {
                path: (*path).to_owned(),
                line: None,
            })
            .collect();
        let input = input.map(str::to_owned);
        ToolCall {
            kind: Some(kind),
            title: title.into(),
            locations,
            input,
            ..ToolCall::default()
        }
    }

    #[test]
    fn a_grant_covers_the_files_that_it_names_and_no_other() {
        let covers = |granted: &ToolCall, file: &str| {
            super::covers(
                granted,
                &tool(ToolKind::Edit, "write", &[file], None),
                "/project",
            )
        };
        let by_location = tool(ToolKind::Edit, "Edit files", &["/project/src/a.rs"], None);
        assert!(covers(&by_location, "src/a.rs") && covers(&by_location, "src/../src/a.rs"));
        assert!(!covers(&by_location, "src/b.rs") && !covers(&by_location, "/project/../src/a.rs"));
        let by_argument = tool(
            ToolKind::Other,
            "write_file",
            &[],
            Some(r#"{"path": "src/a.rs", "content": "x"}"#),
        );
        assert!(covers(&by_argument, "src/a.rs") && !covers(&by_argument, "src/b.rs"));
        assert!(
            !covers(
                &tool(ToolKind::Read, "Read a.rs", &["src/a.rs"], None),
                "src/a.rs"
            ),
            "to read is not to write"
        );
    }

    #[test]
    fn a_grant_covers_the_command_that_it_names_and_no_other() {
        let run = |title: &str, input: &str| tool(ToolKind::Execute, title, &[], Some(input));
        let wanted = run("ls -la", r#"{"command": "ls -la"}"#);
        let by_shell = run(
            "bash -lc ls -la",
            r#"{"command": "bash", "args": ["-lc", "ls -la"]}"#,
        );
        for granted in [
            run("ls -la", "{}"),
            run("Shell: ls -la", r#"{"command": "ls -la"}"#),
        ] {
            assert!(
                covers(&granted, &wanted, "/p") && covers(&granted, &by_shell, "/p"),
                "{granted:?}"
            );
        }
        assert!(!covers(&run("ls", "{}"), &wanted, "/p"));
        assert!(!covers(
            &tool(ToolKind::Edit, "ls -la", &[], None),
            &wanted,
            "/p"
        ));
    }
}
