//! What a tool call does and which files it names, as far as its agent says so.

use serde_json::Value;

use crate::engine::conversation::{ToolCall, ToolKind};

/// The arguments in which agents name files. All names here are without `_` and capitals.
pub(crate) const FILE_ARGUMENTS: [&str; 10] = [
    "path",
    "paths",
    "file",
    "files",
    "filepath",
    "filename",
    "targetfile",
    "notebookpath",
    "absolutepath",
    "uri",
];
/// The arguments with what goes into a file.
const CONTENT_ARGUMENTS: [&str; 16] = [
    "content",
    "contents",
    "text",
    "filetext",
    "code",
    "diff",
    "patch",
    "oldstring",
    "newstring",
    "oldstr",
    "newstr",
    "oldtext",
    "newtext",
    "before",
    "after",
    "replacement",
];
/// The arguments in which agents name a command.
pub(crate) const COMMAND_ARGUMENTS: [&str; 3] = ["command", "cmd", "script"];
/// Names of tools, by what such a tool does.
const TOOLS: [(ToolKind, &[&str]); 3] = [
    (
        ToolKind::Edit,
        &[
            "write",
            "edit",
            "multiedit",
            "writefile",
            "editfile",
            "createfile",
            "strreplace",
            "applypatch",
        ],
    ),
    (
        ToolKind::Execute,
        &[
            "bash",
            "shell",
            "terminal",
            "exec",
            "execute",
            "run",
            "runcommand",
            "runshellcommand",
        ],
    ),
    (ToolKind::Read, &["read", "readfile", "view", "cat"]),
];
/// First words of titles that name nothing but a file, such as `Editing src/a.rs`.
const VERBS: [(ToolKind, &[&str]); 2] = [
    (
        ToolKind::Edit,
        &[
            "write",
            "writing",
            "edit",
            "editing",
            "create",
            "creating",
            "update",
            "updating",
            "modify",
            "modifying",
        ],
    ),
    (ToolKind::Read, &["read", "reading", "view", "viewing"]),
];
/// What a call does: as the agent says, or else as the name of its tool and its input say.
pub(crate) fn kind(tool: &ToolCall) -> ToolKind {
    let declared = tool.kind.unwrap_or(ToolKind::Other);
    if declared != ToolKind::Other {
        return declared;
    }
    let known = |all: &[(ToolKind, &[&str])], name: &str| {
        let mut fitting = all.iter().filter(|(_, names)| names.contains(&name));
        fitting.next().map(|(kind, _)| *kind)
    };
    let name = tool.name.as_deref().or_else(|| {
        let first = tool.title.split_whitespace().next()?;
        Some(first.trim_end_matches(':'))
    });
    let by_name = name.and_then(|name| known(&TOOLS, &plain(name)));
    let runs = has_command(tool);
    let decided = match by_name {
        Some(ToolKind::Execute) => runs,
        Some(_) => !runs && (!tool.files.is_empty() || !files_in(&input(tool)).is_empty()),
        None => false,
    };
    let by_title = || {
        let (verb, _) = titled_file(tool).filter(|_| tool.input.is_none())?;
        known(&VERBS, &verb)
    };
    by_name
        .filter(|_| decided)
        .or_else(by_title)
        .unwrap_or(declared)
}

/// The files that a call names, or else the one in its title.
pub(crate) fn files(tool: &ToolCall, cwd: &str) -> Vec<String> {
    let places = tool.locations.iter().map(|it| it.path.clone());
    let named = tool.files.iter().cloned().chain(files_in(&input(tool)));
    let mut files: Vec<String> = Vec::new();
    for file in places.chain(named).map(|path| within(cwd, &path)) {
        if !files.contains(&file) {
            files.push(file);
        }
    }
    if files.is_empty() {
        files.extend(titled_file(tool).map(|(_, file)| within(cwd, &file)));
    }
    files
}

/// The files that the arguments of a call name, at any depth: arguments for files, and any other
/// text that can only be a path out of the project.
pub fn files_in(input: &Value) -> Vec<String> {
    fn gather(value: &Value, key: &str, files: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                for (key, value) in fields {
                    let key = plain(key);
                    if !CONTENT_ARGUMENTS.contains(&key.as_str()) {
                        gather(value, &key, files);
                    }
                }
            }
            Value::Array(values) => values.iter().for_each(|it| gather(it, key, files)),
            Value::String(text) => {
                let leads_out = text.starts_with(['/', '~']) || text.starts_with("../");
                let is_path = leads_out && !text.contains(char::is_whitespace);
                if FILE_ARGUMENTS.contains(&key) || is_path {
                    files.push(text.clone());
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut files = Vec::new();
    gather(input, "", &mut files);
    files
}

/// All arguments with one of these names, whether the agent writes `file_path` or `filePath`.
pub(crate) fn arguments<'a>(input: &'a Value, names: &[&str]) -> impl Iterator<Item = &'a Value> {
    let fields = input.as_object().into_iter().flatten();
    let found = fields.filter(move |(key, _)| {
        names
            .iter()
            .any(|name| self::plain(key) == self::plain(name))
    });
    found.map(|(_, value)| value)
}

pub(crate) fn has_command(tool: &ToolCall) -> bool {
    let input = input(tool);
    let mut names = input.as_object().into_iter().flat_map(|all| all.keys());
    names.any(|name| COMMAND_ARGUMENTS.contains(&plain(name).as_str()))
}

/// A name as all agents would write it: `file_path`, `filePath` and `filepath` are the same.
fn plain(name: &str) -> String {
    name.replace(['_', '-'], "").to_lowercase()
}

/// The first word and the file of a title such as `Edit src/a.rs`, if it says nothing else.
pub(crate) fn titled_file(tool: &ToolCall) -> Option<(String, String)> {
    let mut words = tool.title.split_whitespace();
    let (verb, file) = (words.next()?, words.next()?);
    let verb = verb.trim_end_matches(':');
    let file = file.trim_matches(['`', '\'', '"']);
    let is_file = file.contains(['.', '/']) && !file.contains("://");
    (verb.chars().all(char::is_alphabetic) && is_file && words.next().is_none())
        .then(|| (verb.to_lowercase(), file.to_owned()))
}

pub(crate) fn input(call: &ToolCall) -> Value {
    call.input
        .as_deref()
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or(Value::Null)
}

/// A file's path relative to the project, without `.` and `..`. A file outside keeps its whole
/// path, and so does what only the agent or its shell can resolve.
pub(crate) fn within(cwd: &str, file: &str) -> String {
    let local = file.strip_prefix("file://");
    let file = local
        .filter(|path| path.starts_with('/') && !path.contains('%'))
        .unwrap_or(file);
    if file.starts_with(['~', '$']) || file.contains("://") {
        return file.to_owned();
    }
    let whole = if file.starts_with('/') {
        file.to_owned()
    } else {
        format!("{cwd}/{file}")
    };
    let plain = straight(&whole);
    let root = straight(cwd);
    match plain
        .strip_prefix(&root)
        .and_then(|rest| rest.strip_prefix('/'))
    {
        Some(rest) => rest.to_owned(),
        None => plain,
    }
}

fn straight(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}
