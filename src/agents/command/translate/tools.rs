//! Translates the tools of known agents by name and arguments.
//!
//! Owns the table of names. All agents share it, because they copy each other's tools and only
//! spell them differently.

use serde_json::Value;

use super::{list, text};
use crate::{
    agents::unified,
    engine::conversation::{FileLocation, PlanEntry, ToolCall, ToolKind, ToolStatus},
};

pub(super) fn call(id: &str, name: &str, input: &Value) -> ToolCall {
    let kind = kind(name);
    ToolCall {
        call: id.to_owned(),
        title: title(name, kind, input),
        kind: Some(kind),
        locations: path(input)
            .map(|path| FileLocation {
                path: path.to_owned(),
                line: line(input),
            })
            .into_iter()
            .collect(),
        input: input
            .as_object()
            .filter(|fields| !fields.is_empty())
            .map(|_| format!("{input:#}")),
        diff: diff(input),
        ..ToolCall::default()
    }
}

/// The kind of a tool. `WriteFile`, `write_file` and `write-file` are the same.
pub(super) fn kind(name: &str) -> ToolKind {
    let name: String = name
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .collect();
    match name.as_str() {
        "read" | "readfile" | "readmanyfiles" | "notebookread" | "list" | "ls"
        | "listdirectory" | "todoread" => ToolKind::Read,
        "write" | "writefile" | "edit" | "editfile" | "multiedit" | "notebookedit" | "replace"
        | "patch" | "applypatch" | "strreplace" => ToolKind::Edit,
        "bash" | "bashoutput" | "killshell" | "shell" | "runshellcommand" | "execcommand" => {
            ToolKind::Execute
        }
        "grep" | "grepsearch" | "glob" | "searchfilecontent" | "codesearch" | "toolsearch" => {
            ToolKind::Search
        }
        "webfetch" | "websearch" | "googlewebsearch" => ToolKind::Fetch,
        "task" | "agent" | "todowrite" | "writetodos" | "savememory" => ToolKind::Think,
        "exitplanmode" | "enterplanmode" => ToolKind::SwitchMode,
        _ => ToolKind::Other,
    }
}

/// The agent's plan, if this input contains one.
pub(super) fn plan(input: &Value) -> Option<Vec<PlanEntry>> {
    input.get("todos")?.as_array()?;
    let entry = |todo: &Value| {
        let content = text(todo, "/content").or_else(|| text(todo, "/description"))?;
        let status = match text(todo, "/status").unwrap_or_default() {
            "in_progress" => ToolStatus::InProgress,
            "completed" => ToolStatus::Completed,
            "cancelled" => ToolStatus::Failed,
            _ => ToolStatus::Pending,
        };
        Some(PlanEntry {
            content: content.to_owned(),
            status,
        })
    };
    Some(list(input, "/todos").filter_map(entry).collect())
}

fn title(name: &str, kind: ToolKind, input: &Value) -> String {
    let about = |keys: &[&str]| {
        keys.iter()
            .find_map(|key| text(input, key).filter(|value| !value.trim().is_empty()))
    };
    if kind == ToolKind::Execute
        && let Some(command) = about(&["/command", "/cmd"])
    {
        return command.to_owned();
    }
    let about = path(input).or_else(|| {
        about(&[
            "/pattern",
            "/query",
            "/url",
            "/description",
            "/title",
            "/prompt",
        ])
    });
    match about {
        Some(about) => format!("{name} {about}"),
        None => name.to_owned(),
    }
}

fn path(input: &Value) -> Option<&str> {
    const KEYS: [&str; 6] = [
        "/file_path",
        "/filePath",
        "/path",
        "/absolute_path",
        "/notebook_path",
        "/dir_path",
    ];
    KEYS.iter()
        .find_map(|key| text(input, key))
        .filter(|path| !path.is_empty())
}

fn line(input: &Value) -> Option<u32> {
    input
        .get("offset")
        .and_then(Value::as_u64)
        .and_then(|line| u32::try_from(line).ok())
        .filter(|line| *line > 0)
}

/// The diff of an edit. None for a whole-file write, which does not contain the old text.
fn diff(input: &Value) -> Option<String> {
    let path = path(input)?;
    let change = |edit: &Value| {
        let old = text(edit, "/old_string").or_else(|| text(edit, "/oldString"))?;
        let new = text(edit, "/new_string").or_else(|| text(edit, "/newString"))?;
        Some(unified(path, old, new))
    };
    let changes: String = change(input)
        .into_iter()
        .chain(list(input, "/edits").filter_map(change))
        .collect();
    (!changes.is_empty()).then_some(changes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_says_what_it_is_about() {
        let titles = [
            (
                "Bash",
                json!({ "command": "ls -l", "description": "Lists" }),
                "ls -l",
                ToolKind::Execute,
            ),
            (
                "run_shell_command",
                json!({ "command": "ls" }),
                "ls",
                ToolKind::Execute,
            ),
            (
                "Read",
                json!({ "file_path": "a.rs", "offset": 7 }),
                "Read a.rs",
                ToolKind::Read,
            ),
            (
                "write",
                json!({ "filePath": "a.rs", "content": "x" }),
                "write a.rs",
                ToolKind::Edit,
            ),
            (
                "Grep",
                json!({ "pattern": "fn" }),
                "Grep fn",
                ToolKind::Search,
            ),
            (
                "WebFetch",
                json!({ "url": "https://x" }),
                "WebFetch https://x",
                ToolKind::Fetch,
            ),
            (
                "mcp__tasks__add",
                json!({}),
                "mcp__tasks__add",
                ToolKind::Other,
            ),
            ("Bash", json!("not an object"), "Bash", ToolKind::Execute),
        ];
        for (name, input, title, kind) in titles {
            let call = call("1", name, &input);
            assert_eq!((call.title.as_str(), call.kind), (title, Some(kind)));
        }
        let read = call("1", "Read", &json!({ "file_path": "a.rs", "offset": 7 }));
        assert_eq!(
            read.locations,
            [FileLocation {
                path: "a.rs".into(),
                line: Some(7)
            }]
        );
    }

    #[test]
    fn a_change_is_shown_as_a_diff() {
        let edit =
            json!({ "file_path": "a.rs", "old_string": "one\ntwo\n", "new_string": "one\n2\n" });
        assert_eq!(
            diff(&edit).as_deref(),
            Some("--- a.rs\n+++ a.rs\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n")
        );
        let edits = json!({ "file_path": "a", "edits": [{ "old_string": "1\n", "new_string": "" }, { "x": 1 }] });
        assert_eq!(
            diff(&edits).as_deref(),
            Some("--- a\n+++ a\n@@ -1 +0,0 @@\n-1\n")
        );
        assert_eq!(diff(&json!({ "file_path": "a", "content": "x" })), None);
    }

    #[test]
    fn a_list_of_things_to_do_is_a_plan() {
        let input = json!({ "todos": [
            { "content": "read", "status": "completed" },
            { "description": "write", "status": "in_progress" },
            { "content": "test", "status": "pending", "activeForm": "testing" },
            { "status": "pending" },
        ] });
        let entry = |content: &str, status| PlanEntry {
            content: content.into(),
            status,
        };
        let plan = [
            entry("read", ToolStatus::Completed),
            entry("write", ToolStatus::InProgress),
            entry("test", ToolStatus::Pending),
        ];
        assert_eq!(super::plan(&input).as_deref(), Some(&plan[..]));
        assert_eq!(super::plan(&json!({ "command": "ls" })), None);
    }
}
