//! Which rule under `permissions:` applies to a request.
//!
//! # Invariants
//! - A rule that allows applies only if it covers every file of the request, however the agent
//!   spells them.
//! - Agents that leave out the kind or the files of a call are read as far as its name, its title
//!   and its input say what it does. What they leave open is not allowed by a rule about it.

use serde_json::Value;

use crate::engine::{
    conversation::{ToolCall, ToolKind},
    policy::{PermissionPolicy, PermissionRule},
};

/// The arguments in which agents name files, without regard to `_` and capitals.
const FILE_ARGUMENTS: [&str; 10] = [
    "path",
    "paths",
    "file",
    "files",
    "file_path",
    "file_name",
    "target_file",
    "notebook_path",
    "absolute_path",
    "uri",
];
/// The arguments in which agents name a command.
pub(crate) const COMMAND_ARGUMENTS: [&str; 3] = ["command", "cmd", "script"];
/// The words in names and titles of tools, by what such a tool does.
const WORDS: [(ToolKind, &[&str]); 3] = [
    (
        ToolKind::Edit,
        &[
            "write",
            "writing",
            "edit",
            "editing",
            "multiedit",
            "create",
            "replace",
            "patch",
            "insert",
            "update",
            "modify",
            "str",
        ],
    ),
    (
        ToolKind::Execute,
        &["bash", "shell", "terminal", "exec", "execute", "run"],
    ),
    (ToolKind::Read, &["read", "reading", "view", "cat"]),
];

pub(crate) fn first_that_fits(
    rules: &[PermissionRule],
    cwd: &str,
    tool: &ToolCall,
) -> Option<PermissionPolicy> {
    rules
        .iter()
        .find(|rule| fits(rule, cwd, tool))
        .map(|rule| rule.action)
}

/// A rule that denies matches if one of the files does; any other rule only if there are files and
/// all of them match.
fn fits(rule: &PermissionRule, cwd: &str, tool: &ToolCall) -> bool {
    let kind = kind(tool);
    let denies = rule.action == PermissionPolicy::Deny;
    // What a call of an unknown kind does to a file that a rule denies is not known to be harmless.
    let may_be = denies && kind == ToolKind::Other && !rule.paths.is_empty();
    if !rule.kinds.is_empty() && !rule.kinds.contains(&kind) && !may_be {
        return false;
    }
    if rule.paths.is_empty() {
        return true;
    }
    let files = files(tool, cwd);
    let named = |file: &String| {
        rule.paths
            .iter()
            .any(|pattern| fast_glob::glob_match(pattern, file))
    };
    if denies {
        files.iter().any(named)
    } else {
        !files.is_empty() && files.iter().all(named)
    }
}

/// What a call does: as the agent says, or else as its name or title and its input say.
pub(crate) fn kind(tool: &ToolCall) -> ToolKind {
    let declared = tool.kind.unwrap_or(ToolKind::Other);
    if declared != ToolKind::Other {
        return declared;
    }
    let name = tool.name.as_deref().unwrap_or(&tool.title);
    let first = name.lines().next().unwrap_or_default().to_lowercase();
    let mut words = first.split(|letter: char| !letter.is_alphanumeric());
    let input = input(tool);
    let has = |names: &[&str]| arguments(&input, names).next().is_some();
    let fits = |kind: ToolKind| {
        if kind == ToolKind::Execute {
            has(&COMMAND_ARGUMENTS)
        } else {
            has(&FILE_ARGUMENTS) || (input.is_null() && titled_file(tool).is_some())
        }
    };
    let by_word = words.find_map(|word| {
        let mut kinds = WORDS.iter().filter(|(_, known)| known.contains(&word));
        kinds.next().map(|(kind, _)| *kind)
    });
    by_word.filter(|kind| fits(*kind)).unwrap_or(declared)
}

/// The files that a call names: its locations, the arguments for files, or else its title.
pub(crate) fn files(tool: &ToolCall, cwd: &str) -> Vec<String> {
    let input = input(tool);
    let mut files: Vec<String> = tool.locations.iter().map(|it| it.path.clone()).collect();
    for value in arguments(&input, &FILE_ARGUMENTS) {
        match value {
            Value::String(path) => files.push(path.clone()),
            Value::Array(paths) => {
                files.extend(paths.iter().filter_map(Value::as_str).map(str::to_owned));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {}
        }
    }
    if files.is_empty() {
        files.extend(titled_file(tool));
    }
    let plain = |path: String| within(cwd, path.strip_prefix("file://").unwrap_or(&path));
    files.into_iter().map(plain).collect()
}

/// All arguments with one of these names, whether the agent writes `file_path` or `filePath`.
fn arguments<'a>(input: &'a Value, names: &[&str]) -> impl Iterator<Item = &'a Value> {
    let plain = |key: &str| key.replace('_', "").to_lowercase();
    let fields = input.as_object().into_iter().flatten();
    let found = fields.filter(move |(key, _)| names.iter().any(|name| plain(key) == plain(name)));
    found.map(|(_, value)| value)
}

/// The file in a title such as `Edit src/a.rs`, if the title says nothing else.
fn titled_file(tool: &ToolCall) -> Option<String> {
    let mut words = tool.title.split_whitespace();
    let (verb, file) = (words.next()?, words.next()?);
    let is_verb = verb
        .chars()
        .all(|letter| letter.is_alphabetic() || ":_-".contains(letter));
    let file = file.trim_matches(['`', '\'', '"']);
    let is_file = file.contains(['.', '/']) && !file.contains("://");
    (is_verb && is_file && words.next().is_none()).then(|| file.to_owned())
}

pub(crate) fn input(call: &ToolCall) -> Value {
    call.input
        .as_deref()
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or(Value::Null)
}

/// Whether a call only changes files of the project, other than creel's and git's own.
pub(crate) fn is_project_edit(tool: &ToolCall, cwd: &str) -> bool {
    let own = [".git", ".creel", "creel.yaml", "creel.yml"];
    let files = files(tool, cwd);
    let in_project = |file: &String| {
        let first = file.split('/').next().unwrap_or_default();
        !file.starts_with('/') && !first.is_empty() && !own.contains(&first)
    };
    kind(tool) == ToolKind::Edit && !files.is_empty() && files.iter().all(in_project)
}

/// A file's path relative to the project, without `.` and `..`; a file outside keeps its whole
/// path.
pub(crate) fn within(cwd: &str, file: &str) -> String {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::engine::conversation::FileLocation;

    fn tool(kind: ToolKind, files: &[&str]) -> ToolCall {
        let locations = files
            .iter()
            .map(|path| FileLocation {
                path: (*path).to_owned(),
                line: None,
            })
            .collect();
        ToolCall {
            kind: Some(kind),
            locations,
            ..ToolCall::default()
        }
    }

    fn rule(kinds: &[ToolKind], paths: &[&str], action: PermissionPolicy) -> PermissionRule {
        let paths = paths.iter().map(|path| (*path).to_owned()).collect();
        PermissionRule {
            kinds: kinds.to_vec(),
            paths,
            action,
        }
    }

    #[test]
    fn a_rule_fits_by_kind_and_by_file_however_the_file_is_spelled() {
        let sources = rule(&[ToolKind::Edit], &["src/**"], PermissionPolicy::Allow);
        let fits = |files: &[&str]| fits(&sources, "/project", &tool(ToolKind::Edit, files));
        assert!(fits(&["/project/src/main.rs"]));
        assert!(fits(&["src/a/b.rs", "/project/./src/c.rs"]));
        assert!(!fits(&["/project/src/../Cargo.toml"]));
        assert!(!fits(&["src/../../elsewhere/src/main.rs"]));
        assert!(!fits(&["/project-2/src/main.rs"]));
        assert!(
            !fits(&["src/main.rs", "/etc/passwd"]),
            "all files must fit to be allowed"
        );
        assert!(!fits(&[]), "no file is named");
        assert!(!super::fits(
            &sources,
            "/project",
            &tool(ToolKind::Read, &["src/main.rs"])
        ));
    }

    fn sent(kind: Option<ToolKind>, title: &str, input: Option<Value>) -> ToolCall {
        ToolCall {
            kind,
            title: title.into(),
            input: input.map(|input| input.to_string()),
            ..ToolCall::default()
        }
    }

    #[test]
    fn a_call_is_read_as_far_as_it_says_what_it_does() {
        let other = Some(ToolKind::Other);
        let edit = json!({"path": "/project/src/a.rs", "content": "x"});
        let goose = sent(other, "write", Some(edit.clone()));
        assert_eq!(kind(&goose), ToolKind::Edit);
        assert_eq!(files(&goose, "/project"), ["src/a.rs"]);
        let named = ToolCall {
            name: Some("developer__text_editor".into()),
            ..sent(None, "Working", Some(json!({"filePath": "src/a.rs"})))
        };
        assert_eq!(kind(&named), ToolKind::Other, "no word says that it writes");
        assert_eq!(files(&named, "/project"), ["src/a.rs"]);
        let titled = sent(None, "Edit `src/a.rs`", None);
        assert_eq!(
            (kind(&titled), files(&titled, "/project")),
            (ToolKind::Edit, vec!["src/a.rs".into()])
        );
        let shell = sent(other, "shell: ls", Some(json!({"command": "ls"})));
        assert_eq!(kind(&shell), ToolKind::Execute);
        let twice = sent(
            other,
            "write",
            Some(json!({"filePath": "a", "file_path": "b"})),
        );
        assert_eq!(files(&twice, "/project"), ["a", "b"]);
        let upload = sent(other, "upload", Some(edit));
        assert_eq!(kind(&upload), ToolKind::Other);
        let vague = sent(other, "edit things", None);
        assert_eq!(
            (kind(&vague), files(&vague, "/project").len()),
            (ToolKind::Other, 0)
        );
    }

    #[test]
    fn rules_read_what_agents_really_send() {
        let sources = rule(&[ToolKind::Edit], &["src/**"], PermissionPolicy::Allow);
        let secrets = rule(&[ToolKind::Edit], &[".env"], PermissionPolicy::Deny);
        let other = |title: &str, path: &str| {
            sent(Some(ToolKind::Other), title, Some(json!({"path": path})))
        };
        assert!(fits(&sources, "/project", &other("write", "src/a.rs")));
        assert!(!fits(&sources, "/project", &other("upload", "src/a.rs")));
        assert!(
            fits(&secrets, "/project", &other("upload", ".env")),
            "it may change the file"
        );
        let mixed = ToolCall {
            locations: tool(ToolKind::Edit, &["src/a.rs"]).locations,
            ..other("write", ".env")
        };
        assert!(!fits(&sources, "/project", &mixed) && fits(&secrets, "/project", &mixed));
    }

    #[test]
    fn an_edit_in_the_project_touches_neither_git_nor_creel_nor_other_folders() {
        let edits = |path: &str| is_project_edit(&tool(ToolKind::Edit, &[path]), "/project");
        assert!(edits("src/a.rs") && edits("/project/new.txt"));
        for outside in [
            ".git/hooks/pre-commit",
            ".creel/x",
            "creel.yaml",
            "/etc/passwd",
            "../a",
            "/project",
        ] {
            assert!(!edits(outside), "{outside}");
        }
        assert!(!is_project_edit(
            &tool(ToolKind::Delete, &["src/a.rs"]),
            "/project"
        ));
        assert!(!is_project_edit(&tool(ToolKind::Edit, &[]), "/project"));
    }

    #[test]
    fn one_file_is_enough_to_be_denied() {
        let secrets = rule(&[], &["**/.env", ".env"], PermissionPolicy::Deny);
        let fits = |files: &[&str]| fits(&secrets, "/project", &tool(ToolKind::Read, files));
        assert!(fits(&["src/main.rs", "/project/.env"]));
        assert!(fits(&["deploy/.env"]));
        assert!(!fits(&["src/main.rs"]));
    }
}
