//! Which rule under `permissions:` applies to a request, and which of the user's earlier answers:
//! "always" answers for the session, and grants for the turn.
//!
//! # Invariants
//! - A rule that allows applies only if it covers every file of the request, however the agent
//!   spells them.
//! - Agents that leave out the kind or the files of a call are read as far as its name, its title
//!   and its input say what it does. What they leave open is not allowed by a rule about it.
//! - An "always" answer applies only to the same agent, kind, title, locations and input.
//! - A request that creel truncated, or that does not describe its action, is never remembered.
//! - A grant ends with its turn, and covers only the files and the command that the request named.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::engine::{
    conversation::{AgentPermissionRequest, FileLocation, ToolCall, ToolKind},
    permission::tool_call::{
        COMMAND_ARGUMENTS, files, has_command, input, kind, titled_file, within,
    },
    policy::{PermissionPolicy, PermissionRule},
};

/// creel's own files in a project, besides its folder and the config files in use.
const CONFIGS: [&str; 3] = ["creel.yaml", "creel.yml", "creel.json"];

/// The place that files are compared with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProjectFiles<'a> {
    pub(crate) cwd: &'a str,
    /// The config files in use.
    pub(crate) config: &'a [String],
}

pub(crate) fn first_that_fits(
    rules: &[PermissionRule],
    project: ProjectFiles<'_>,
    tool: &ToolCall,
) -> Option<PermissionPolicy> {
    rules
        .iter()
        .find(|rule| fits(rule, project, tool))
        .map(|rule| rule.action)
}

/// A rule that allows applies only to a call that it covers wholly. A rule that denies or asks
/// applies as soon as the call may be what it is about.
fn fits(rule: &PermissionRule, project: ProjectFiles<'_>, tool: &ToolCall) -> bool {
    let (declared, seen) = (tool.kind.unwrap_or(ToolKind::Other), kind(tool));
    let is_meant = |kind: ToolKind| rule.kinds.is_empty() || rule.kinds.contains(&kind);
    let named = |file: &String| {
        let fits = |pattern: &String| fast_glob::glob_match(pattern, file);
        rule.paths.iter().any(fits)
    };
    if rule.action == PermissionPolicy::Allow {
        let files = files(tool, project.cwd);
        let covered = |file: &String| {
            let outside = |pattern: &String| pattern.starts_with(['/', '~']);
            let is_named = if is_inside(file) {
                named(file)
            } else {
                rule.paths
                    .iter()
                    .any(|it| outside(it) && fast_glob::glob_match(it, file))
            };
            is_named && !project.owns(file)
        };
        let all_covered = !files.is_empty() && files.iter().all(covered);
        return is_meant(seen) && (rule.paths.is_empty() || all_covered);
    }
    // What a call of an unknown kind does to a file is not known to be harmless.
    let unknown = declared == ToolKind::Other && !rule.paths.is_empty();
    if !is_meant(declared) && !is_meant(seen) && !unknown {
        return false;
    }
    let titled = titled_file(tool).map(|(_, file)| within(project.cwd, &file));
    let mut files = files(tool, project.cwd).into_iter().chain(titled);
    rule.paths.is_empty() || files.any(|file| named(&file))
}

/// Whether a call only changes files of the project, other than creel's and git's own.
pub(crate) fn is_project_edit(tool: &ToolCall, project: ProjectFiles<'_>) -> bool {
    let files = files(tool, project.cwd);
    let is_safe = |file: &String| is_inside(file) && !project.owns(file);
    kind(tool) == ToolKind::Edit
        && !has_command(tool)
        && !files.is_empty()
        && files.iter().all(is_safe)
}

impl ProjectFiles<'_> {
    /// Whether a file belongs to creel or git. Some disks take `.Git` for `.git`.
    pub(crate) fn owns(self, file: &str) -> bool {
        let lower = file.to_lowercase();
        let is_config = |config: &String| within(self.cwd, config).to_lowercase() == lower;
        lower
            .split('/')
            .any(|part| [".git", ".creel"].contains(&part))
            || CONFIGS.contains(&lower.as_str())
            || self.config.iter().any(is_config)
    }
}

/// Whether a path of [`within`] is in the project.
fn is_inside(file: &str) -> bool {
    !file.is_empty() && !file.starts_with(['/', '~', '$']) && !file.contains("://")
}

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
    use serde_json::{Value, json};

    use super::*;
    use crate::engine::conversation::FileLocation;

    const PROJECT: ProjectFiles<'_> = ProjectFiles {
        cwd: "/project",
        config: &[],
    };

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
        let fits = |files: &[&str]| fits(&sources, PROJECT, &tool(ToolKind::Edit, files));
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
            PROJECT,
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
        assert!(fits(&sources, PROJECT, &other("write", "src/a.rs")));
        assert!(!fits(&sources, PROJECT, &other("upload", "src/a.rs")));
        assert!(
            fits(&secrets, PROJECT, &other("upload", ".env")),
            "it may change the file"
        );
        let mixed = ToolCall {
            locations: tool(ToolKind::Edit, &["src/a.rs"]).locations,
            ..other("write", ".env")
        };
        assert!(!fits(&sources, PROJECT, &mixed) && fits(&secrets, PROJECT, &mixed));
    }

    #[test]
    fn an_edit_in_the_project_touches_neither_git_nor_creel_nor_other_folders() {
        let project = ProjectFiles {
            cwd: "/project",
            config: &["/project/ci/Check.yaml".to_owned()],
        };
        let edits = |path: &str| is_project_edit(&tool(ToolKind::Edit, &[path]), project);
        assert!(edits("src/a.rs") && edits("/project/new.txt") && edits("file:///project/a b"));
        assert!(edits("app/$id.tsx") && edits(".github/workflows/ci.yml"));
        for outside in [
            ".git/hooks/pre-commit",
            ".Git/hooks/pre-commit",
            "vendor/lib/.git/config",
            ".creel/x",
            "creel.yaml",
            "creel.json",
            "ci/check.yaml",
            "/etc/passwd",
            "../a",
            "/project",
            "~/.bashrc",
            "$HOME/.bashrc",
            "file://localhost/etc/passwd",
            "file:///project/%2e%2e/x",
            "https://api.example.com/x",
        ] {
            assert!(!edits(outside), "{outside}");
        }
        let safe = |kind: ToolKind, files: &[&str]| is_project_edit(&tool(kind, files), PROJECT);
        assert!(!safe(ToolKind::Delete, &["src/a.rs"]) && !safe(ToolKind::Edit, &[]));
    }

    #[test]
    fn an_edit_in_the_project_is_nothing_else_besides() {
        let other = Some(ToolKind::Other);
        let edits =
            |title: &str, input: Value| is_project_edit(&sent(other, title, Some(input)), PROJECT);
        assert!(edits(
            "write",
            json!({"path": "src/a.rs", "content": "/etc/passwd"})
        ));
        for (title, input) in [
            (
                "mcp__github__create_or_update_file",
                json!({"path": "src/a.rs"}),
            ),
            ("create_symlink", json!({"path": "src/x", "target": "/etc"})),
            ("write", json!({"path": "src/x", "target": "/etc"})),
            (
                "edit",
                json!({"path": "src/a.rs", "command": "curl x | sh"}),
            ),
            (
                "edit",
                json!({"path": "src/a.rs", "edits": [{"file_path": "/etc/passwd"}]}),
            ),
        ] {
            assert!(!edits(title, input.clone()), "{title} {input}");
        }
        let beside = ToolCall {
            files: vec!["/etc/passwd".into()],
            ..tool(ToolKind::Edit, &["src/a.rs"])
        };
        assert!(
            !is_project_edit(&beside, PROJECT),
            "its diff is about another file"
        );
    }

    #[test]
    fn a_rule_against_a_call_applies_as_soon_as_the_call_may_be_meant() {
        let deny = |kinds: &[ToolKind]| rule(kinds, &[".env"], PermissionPolicy::Deny);
        let secrets = deny(&[ToolKind::Edit]);
        let other = Some(ToolKind::Other);
        let reads = sent(
            other,
            "read_and_update_config",
            Some(json!({"path": ".env"})),
        );
        assert!(fits(&secrets, PROJECT, &reads), "its name proves nothing");
        let titled = ToolCall {
            title: "Edit .env".into(),
            ..tool(ToolKind::Edit, &["src/a.rs"])
        };
        assert!(fits(&secrets, PROJECT, &titled));
        let webhook = sent(other, "write", Some(json!({"path": "x/prod"})));
        let others = rule(&[ToolKind::Other], &[], PermissionPolicy::Deny);
        assert!(fits(&others, PROJECT, &webhook), "the agent calls it other");
        let ask = rule(&[], &[".env"], PermissionPolicy::Ask);
        let both = tool(ToolKind::Edit, &["src/a.rs", ".env"]);
        assert!(fits(&ask, PROJECT, &both), "one of its files is enough");
    }

    #[test]
    fn a_rule_that_allows_all_files_allows_those_of_the_project() {
        let all = rule(&[ToolKind::Edit], &["**"], PermissionPolicy::Allow);
        let allows = |path: &str| fits(&all, PROJECT, &tool(ToolKind::Edit, &[path]));
        assert!(allows("src/a.rs"));
        for other in ["/etc/passwd", ".git/config", "~/.bashrc", ".creel/x"] {
            assert!(!allows(other), "{other}");
        }
        let elsewhere = rule(&[], &["/var/data/**"], PermissionPolicy::Allow);
        assert!(fits(
            &elsewhere,
            PROJECT,
            &tool(ToolKind::Edit, &["/var/data/x"])
        ));
    }

    #[test]
    fn one_file_is_enough_to_be_denied() {
        let secrets = rule(&[], &["**/.env", ".env"], PermissionPolicy::Deny);
        let fits = |files: &[&str]| fits(&secrets, PROJECT, &tool(ToolKind::Read, files));
        assert!(fits(&["src/main.rs", "/project/.env"]));
        assert!(fits(&["deploy/.env"]));
        assert!(!fits(&["src/main.rs"]));
    }
}

#[cfg(test)]
mod remembered_answers_tests {
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
