//! Tool calls and plans as text for people: symbols, files, arguments.
//!
//! # Invariants
//! - The text has no control characters except newlines and tabs: see [`super::text::plain`].

use serde_json::Value;

use super::text::{plain, plain_line, some_names};
use crate::engine::{
    conversation::{PlanEntry, ToolCall, ToolKind, ToolStatus},
    permission::tool_call,
};

/// The longest title in a line, in characters.
const TITLE: usize = 200;
/// How many files to name in a line.
const FILES: usize = 3;

/// A symbol for the kind of a tool. Each call has one, so that its title, which is the agent's, never
/// looks like a line of creel.
const fn sign(kind: ToolKind) -> &'static str {
    match kind {
        ToolKind::Read => "◎",
        ToolKind::Edit => "✎",
        ToolKind::Delete => "⌫",
        ToolKind::Move => "⇢",
        ToolKind::Search => "⌕",
        ToolKind::Execute => "$",
        ToolKind::Think => "∴",
        ToolKind::Fetch => "⇣",
        ToolKind::SwitchMode => "⇄",
        ToolKind::Other => "◇",
    }
}

/// A tool call in one line: its symbol, its title, how many lines it adds and removes, and the
/// files that the title does not name.
pub fn line(tool: &ToolCall, project: &str) -> String {
    let sign = sign(tool_call::kind(tool));
    let title = plain_line(&tool.title, TITLE);
    let files: Vec<String> = files(tool, project)
        .into_iter()
        .filter(|file| !names(&title, file))
        .collect();
    let files = if files.is_empty() {
        String::new()
    } else {
        format!(" · {}", some_names(&files, FILES))
    };
    let changes = tool.diff.as_deref().map(changed_lines).unwrap_or_default();
    format!("{sign} {title}{changes}{files}")
}

/// How many lines a change adds and removes: `  +12 −3`. Empty if it changes none.
fn changed_lines(diff: &str) -> String {
    // The names of the files have the same signs, three of them.
    let count = |sign: &str, name: &str| {
        diff.lines()
            .filter(|line| line.starts_with(sign) && !line.starts_with(name))
            .count()
    };
    match (count("+", "+++ "), count("-", "--- ")) {
        (0, 0) => String::new(),
        (added, removed) => format!("  +{added} −{removed}"),
    }
}

/// Whether a title names this file, and not one whose name only contains it.
fn names(title: &str, file: &str) -> bool {
    let part_of_a_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    title.match_indices(file).any(|(at, _)| {
        let after = &title[at + file.len()..];
        !title[..at].ends_with(part_of_a_name)
            && !after.starts_with(|c| part_of_a_name(c) || c == '/')
    })
}

/// The files of a tool call, each once, as `path:line`. Those in the project are relative to it.
pub fn files(tool: &ToolCall, project: &str) -> Vec<String> {
    let mut files: Vec<String> = Vec::new();
    for place in &tool.locations {
        let inside = place
            .path
            .strip_prefix(project)
            .and_then(|rest| rest.strip_prefix('/'));
        let path = plain(
            inside
                .filter(|rest| !rest.is_empty())
                .unwrap_or(&place.path),
        )
        .replace('\n', " ");
        let file = place
            .line
            .map_or_else(|| path.clone(), |line| format!("{path}:{line}"));
        if !files.contains(&file) {
            files.push(file);
        }
    }
    files
}

/// The arguments of a tool call: an object as `name: value`, one per line; anything else as it is.
pub fn arguments(input: &str) -> String {
    let lines = match serde_json::from_str(input) {
        Ok(Value::Object(fields)) => fields
            .iter()
            .map(|(name, value)| argument(name, value))
            .collect::<Vec<_>>(),
        Ok(Value::String(text)) => vec![text],
        Ok(Value::Null) => Vec::new(),
        Ok(other) => vec![format!("{other:#}")],
        Err(_) => vec![input.trim_end().to_owned()],
    };
    plain(&lines.join("\n"))
}

fn argument(name: &str, value: &Value) -> String {
    let text = value
        .as_str()
        .map_or_else(|| format!("{value:#}"), str::to_owned);
    if text.trim_end().contains('\n') {
        let indented: String = text
            .trim_end()
            .lines()
            .map(|line| format!("\n  {line}"))
            .collect();
        format!("{name}:{indented}")
    } else {
        format!("{name}: {}", text.trim_end())
    }
}

/// A symbol for the progress of an entry.
pub const fn progress(status: ToolStatus) -> &'static str {
    match status {
        ToolStatus::Pending => "☐",
        ToolStatus::InProgress => "▸",
        ToolStatus::Completed => "☑",
        ToolStatus::Failed => "✗",
    }
}

/// A plan in one line: how much of it is done, and what is in progress.
pub fn plan_line(entries: &[PlanEntry]) -> String {
    let done = entries
        .iter()
        .filter(|entry| entry.status == ToolStatus::Completed)
        .count();
    let current = entries
        .iter()
        .find(|entry| entry.status == ToolStatus::InProgress);
    let now = current
        .map(|entry| format!(" · now: {}", plain_line(&entry.content, TITLE)))
        .unwrap_or_default();
    format!("Plan: {done} of {} done{now}", entries.len())
}

/// An entry of a plan, in one line.
pub fn plan_entry(entry: &PlanEntry) -> String {
    format!(
        "{} {}",
        progress(entry.status),
        plain_line(&entry.content, TITLE)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::conversation::FileLocation;

    fn tool(title: &str, kind: ToolKind, files: &[(&str, Option<u32>)]) -> ToolCall {
        let locations = files
            .iter()
            .map(|(path, line)| FileLocation {
                path: (*path).into(),
                line: *line,
            })
            .collect();
        ToolCall {
            title: title.into(),
            kind: Some(kind),
            locations,
            ..ToolCall::default()
        }
    }

    #[test]
    fn a_line_names_each_file_once_and_as_short_as_it_can() {
        let edit = tool(
            "Edit src/a.rs",
            ToolKind::Edit,
            &[("/p/src/a.rs", None), ("src/a.rs", None)],
        );
        assert_eq!(line(&edit, "/p"), "✎ Edit src/a.rs");
        let read = tool(
            "Read",
            ToolKind::Read,
            &[
                ("/p/src/a.rs", Some(4)),
                ("/etc/hosts", None),
                ("/pp/x", None),
            ],
        );
        assert_eq!(line(&read, "/p"), "◎ Read · src/a.rs:4, /etc/hosts, /pp/x");
        let many = tool(
            "Find",
            ToolKind::Search,
            &[
                ("a", None),
                ("b", None),
                ("c", None),
                ("d", None),
                ("e", None),
            ],
        );
        assert_eq!(line(&many, "/p"), "⌕ Find · a, b, c and 2 more");
        assert_eq!(
            line(
                &tool("a\x1b[31m\nb", ToolKind::Other, &[("x\n\x07y", None)]),
                "/p"
            ),
            "◇ a… · x y"
        );
    }

    #[test]
    fn a_change_says_how_many_lines_it_adds_and_removes() {
        let diff = "--- a/src/a.rs\n+++ b/src/a.rs\n@@ -1,2 +1,3 @@\n same\n-old\n+new\n+more\n";
        let edit = ToolCall {
            diff: Some(diff.into()),
            ..tool("Edit src/a.rs", ToolKind::Edit, &[])
        };
        assert_eq!(line(&edit, "/p"), "✎ Edit src/a.rs  +2 −1");
        assert_eq!(
            line(
                &ToolCall {
                    diff: Some(" same\n".into()),
                    ..edit
                },
                "/p"
            ),
            "✎ Edit src/a.rs"
        );
    }

    #[test]
    fn arguments_have_their_names() {
        assert_eq!(
            arguments(r#"{"command":"cargo test\n","env":{"A":"1"},"text":"a\nb","timeout":5}"#),
            "command: cargo test\nenv:\n  {\n    \"A\": \"1\"\n  }\ntext:\n  a\n  b\ntimeout: 5"
        );
        assert_eq!(
            arguments("{\"command\": \"cut off in the mid"),
            "{\"command\": \"cut off in the mid"
        );
        assert_eq!(arguments("\"ls\\u001b[31m -l\""), "ls -l");
        assert_eq!(arguments("null"), "");
    }
}
