//! The hook that creel adds to an agent's own hooks for a session, so that hooks at `pre_tool` see
//! every call: its command line, and how the agent gets it.
//!
//! Owns the texts. Does not answer the agent: see `crate::cli::hook`.
//!
//! # Invariants
//! - No file of the user changes. Whatever keeps creel's command from running denies the call.
//! - Files for the agent are written again before each start, and not through a link: an earlier
//!   turn may have changed them.

use std::{ffi::OsString, fs, io, io::Write as _, path::PathBuf};

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::{AgentWorkspace, with_options};
use crate::{
    engine::{
        hooks::{
            template::{self, TemplateError},
            tool_matcher::ClaudeToolEvent,
        },
        policy::{AgentFacts, HookJsonError, ToolHookLevel, ToolHookSupport},
    },
    process::{output::create, project_variable},
    text::shell_word,
};

/// How long agents wait for an answer, in seconds: the user may have to give it.
const PATIENCE: u32 = 604_800;

/// The folder of the files for the agent, in the session's folder.
const FOLDER: &str = "agent-hooks";

/// Why creel cannot add its hook. The agent then does not start: its calls would pass unseen.
#[derive(Debug, thiserror::Error)]
pub enum NativeHookError {
    #[error(
        "creel cannot add its hook to the agent, because it does not know the path of its own program"
    )]
    NoProgram,
    #[error(
        "creel cannot add its hook to the agent, because its own path {} is not UTF-8. Install creel elsewhere",
        .0.display()
    )]
    PathNotUtf8(PathBuf),
    #[error(
        "creel cannot add its hook to the agent: its `tool_hooks` has neither `args` nor `meta`, `env` or `files`"
    )]
    NoWay,
    #[error("creel cannot add its hook to the agent with `{name}` of `tool_hooks`: {error}")]
    Text { name: String, error: HookJsonError },
    #[error(
        "creel cannot add its hook to the agent: the variable {0} has to be a JSON object, or not set"
    )]
    Variable(String),
    #[error(
        "creel cannot add its hook to the agent: the variable {name} has `{key}` in another form"
    )]
    OtherForm { name: String, key: String },
    #[error(
        "`{file}` turns the hooks of the agent off (`{key}`), creel's too, so your hooks would see no call. Remove \
         `{key}` there, or the hooks at `pre_tool` and `post_tool`"
    )]
    TurnedOff { file: String, key: String },
    #[error("creel could not write its hook for the agent into the session's folder: {0}")]
    NotWritten(#[from] io::Error),
}

/// How one agent gets creel's hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NativeHooks {
    /// What the command line gets.
    args: Option<String>,
    /// What each placeholder stands for, as JSON.
    values: Vec<(&'static str, String)>,
    /// The variables that add the hook.
    env: Vec<(String, String)>,
    meta: Option<Map<String, Value>>,
    /// The files that the agent reads when it starts, by name.
    files: Vec<(String, String)>,
    folder: PathBuf,
    /// The agent's own settings: as they are called, and where they are.
    settings: Vec<(String, PathBuf)>,
    /// What turns hooks off in them.
    disabled_by: Vec<String>,
}

impl NativeHooks {
    /// None if the session has no hooks of tool calls, or the agent no such hooks.
    pub(super) fn of(
        place: &AgentWorkspace,
        known: &AgentFacts,
    ) -> Result<Option<Self>, NativeHookError> {
        Self::among(place, known, |name| std::env::var_os(name))
    }

    /// The same with these variables of creel.
    fn among(
        place: &AgentWorkspace,
        known: &AgentFacts,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Option<Self>, NativeHookError> {
        let support = known.tool_hooks.as_ref().filter(|_| place.has_tool_hooks);
        let Some(support) = support.filter(|it| it.level == ToolHookLevel::Native) else {
            return Ok(None);
        };
        if !support.adds_hook() {
            return Err(NativeHookError::NoWay);
        }
        let program = place.creel.as_ref().ok_or(NativeHookError::NoProgram)?;
        let creel = program.to_str();
        let creel = creel.ok_or_else(|| NativeHookError::PathNotUtf8(program.clone()))?;
        let values = values(place, creel, support.deny_only);
        let filled = |name: &str, text: &str, groups: [usize; 2]| {
            let value = |wanted: &str| match wanted {
                "pre_tool_group" => Some(groups[0].to_string()),
                "post_tool_group" => Some(groups[1].to_string()),
                _ => {
                    let mut known = values.iter();
                    let known = known.find(|(name, _)| *name == wanted);
                    known.map(|(_, value)| value.clone())
                }
            };
            ToolHookSupport::filled(text, value).map_err(|error| NativeHookError::Text {
                name: name.to_owned(),
                error,
            })
        };
        let meta = support.meta.as_ref();
        let meta = meta.map(|text| filled("meta", text, [0, 0])).transpose()?;
        let mut env = Vec::new();
        for (name, text) in &support.env {
            let mut all = object(name, variable(name))?;
            let groups = ["PreToolUse", "PostToolUse"].map(|event| {
                let groups = all.get("hooks").and_then(|hooks| hooks[event].as_array());
                groups.map_or(0, Vec::len)
            });
            let own = filled(name, text, groups)?;
            merge(&mut all, own).map_err(|key| NativeHookError::OtherForm {
                name: name.clone(),
                key,
            })?;
            env.push((name.clone(), Value::Object(all).to_string()));
        }
        let mut files = Vec::new();
        for (name, text) in &support.files {
            let text = Value::Object(filled(name, text, [0, 0])?).to_string();
            files.push((name.clone(), text));
        }
        let settings = known.own_hooks.iter();
        let settings = settings.map(|name| (name.clone(), placed(place, name)));
        Ok(Some(Self {
            args: support.args.clone(),
            values,
            env,
            meta,
            files,
            folder: place.session_dir.join(FOLDER),
            settings: settings.collect(),
            disabled_by: support.disabled_by.clone(),
        }))
    }

    /// The command line with the arguments that add the hook.
    pub(super) fn added_to(&self, command: &str) -> Result<String, TemplateError> {
        match &self.args {
            Some(args) => Ok(with_options(command, &template::expand(args)?)),
            None => Ok(command.to_owned()),
        }
    }

    /// The variables of the agent: those that its command line uses, and those that add the hook.
    pub(super) fn variables(&self) -> impl Iterator<Item = (String, String)> {
        let used = self.values.iter();
        let used = used.map(|(name, value)| (template::variable(name), value.clone()));
        used.chain(self.env.iter().cloned())
    }

    /// Prepares what the agent reads when it starts.
    pub(super) fn prepare(&self) -> Result<(), NativeHookError> {
        for (name, path) in &self.settings {
            let text = fs::read_to_string(path).unwrap_or_default();
            let key = self.disabled_by.iter().find(|key| sets(&text, key));
            if let Some(key) = key {
                let (file, key) = (name.clone(), key.clone());
                return Err(NativeHookError::TurnedOff { file, key });
            }
        }
        if !self.files.is_empty() && self.folder.to_str().is_none() {
            return Err(io::Error::other("its path is not UTF-8").into());
        }
        let is_link = fs::symlink_metadata(&self.folder).is_ok_and(|it| it.is_symlink());
        if is_link {
            return Err(io::Error::other("the folder is a link").into());
        }
        for (name, text) in &self.files {
            create(&self.folder.join(name))?.write_all(text.as_bytes())?;
        }
        Ok(())
    }

    /// What the agent gets with each conversation.
    pub(super) fn meta(&self) -> Option<Map<String, Value>> {
        self.meta.clone()
    }
}

fn values(place: &AgentWorkspace, creel: &str, deny_only: bool) -> Vec<(&'static str, String)> {
    let line = |event| command_line(place, creel, event, deny_only);
    let (pre, post) = (
        line(ClaudeToolEvent::PreToolUse),
        line(ClaudeToolEvent::PostToolUse),
    );
    let failure = line(ClaudeToolEvent::PostToolUseFailure);
    let text = |text: String| Value::String(text).to_string();
    vec![
        ("pre_tool_trust", text(trusted("pre_tool_use", &pre))),
        ("post_tool_trust", text(trusted("post_tool_use", &post))),
        ("pre_tool", text(pre)),
        ("post_tool", text(post)),
        ("post_tool_failure", text(failure)),
        (
            "hooks_dir",
            place
                .session_dir
                .join(FOLDER)
                .to_string_lossy()
                .into_owned(),
        ),
    ]
}

/// What the user has in a variable.
fn object(name: &str, text: Option<OsString>) -> Result<Map<String, Value>, NativeHookError> {
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return Ok(Map::new());
    };
    let read = text
        .to_str()
        .and_then(|text| serde_json::from_str(text).ok());
    read.ok_or_else(|| NativeHookError::Variable(name.to_owned()))
}

/// Adds what is creel's to what is the user's: lists follow the user's, other values replace them. The
/// error is the key with values that cannot be joined.
fn merge(all: &mut Map<String, Value>, own: Map<String, Value>) -> Result<(), String> {
    for (key, value) in own {
        match (all.get_mut(&key), value) {
            (Some(Value::Object(before)), Value::Object(value)) => merge(before, value)?,
            (Some(Value::Array(before)), Value::Array(value)) => before.extend(value),
            (Some(_), Value::Object(_) | Value::Array(_)) => return Err(key),
            (_, value) => drop(all.insert(key, value)),
        }
    }
    Ok(())
}

/// Where one of the agent's settings files is.
fn placed(place: &AgentWorkspace, name: &str) -> PathBuf {
    let home = || std::env::var_os("HOME").map(PathBuf::from);
    match name.strip_prefix("~/").zip(home()) {
        Some((below, home)) => home.join(below),
        None => place.cwd.join(name),
    }
}

/// Whether settings set a key to true, or may do so.
fn sets(settings: &str, key: &str) -> bool {
    match serde_json::from_str::<Value>(settings) {
        Ok(settings) => settings[key] == true,
        Err(_) => settings.contains(key),
    }
}

/// What the agent runs. Exit code 2 with a text denies a call, for every agent, and so does whatever
/// keeps creel from answering.
fn command_line(
    place: &AgentWorkspace,
    creel: &str,
    event: ClaudeToolEvent,
    deny_only: bool,
) -> String {
    let session = format!("CREEL_SESSION={}", shell_word(&place.session));
    let root = project_variable(&place.session_dir);
    let root = root.map(|(name, root)| format!(" {name}={}", shell_word(&root)));
    let (root, creel, event) = (root.unwrap_or_default(), shell_word(creel), event.name());
    let deny_only = if deny_only { " --deny-only" } else { "" };
    let otherwise = if event == ClaudeToolEvent::PreToolUse.name() {
        "{ echo \"creel denies this call\" >&2; exit 2; }"
    } else {
        "true"
    };
    format!("{session}{root} {creel} hook {event}{deny_only} || {otherwise}")
}

/// Codex' hash of a hook, with which the user's config would trust it.
fn trusted(event: &str, command: &str) -> String {
    let hook =
        json!({ "async": false, "command": command, "timeout": PATIENCE, "type": "command" });
    let text = json!({ "event_name": event, "hooks": [hook] }).to_string();
    let digest = Sha256::digest(text.as_bytes());
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

#[cfg(test)]
mod tests {
    use std::{os::unix::ffi::OsStrExt as _, sync::Arc};

    use super::*;
    use crate::process::path_guard::PathGuard;

    fn place(creel: &[u8], cwd: &str) -> AgentWorkspace {
        let (cwd, creel) = (PathBuf::from(cwd), std::ffi::OsStr::from_bytes(creel));
        AgentWorkspace {
            session: "s".into(),
            session_dir: cwd.join(".creel/sessions/s"),
            mark: "s/1.1".into(),
            guard: Arc::new(PathGuard::new(&cwd, &cwd, &[], &[])),
            goal: String::new(),
            creel: Some(creel.into()),
            variables: None,
            has_tool_hooks: true,
            prices: None,
            cwd,
        }
    }

    fn with(support: ToolHookSupport) -> AgentFacts {
        AgentFacts {
            tool_hooks: Some(ToolHookSupport {
                level: ToolHookLevel::Native,
                ..support
            }),
            ..AgentFacts::default()
        }
    }

    fn in_meta(meta: &str) -> AgentFacts {
        with(ToolHookSupport {
            meta: Some(meta.into()),
            ..ToolHookSupport::default()
        })
    }

    fn in_env(text: &str) -> AgentFacts {
        with(ToolHookSupport {
            env: [("X".to_owned(), text.to_owned())].into(),
            ..ToolHookSupport::default()
        })
    }

    #[test]
    fn what_creel_cannot_add_is_an_error_and_never_left_out() {
        let usual = place(b"/bin/creel", "/p");
        let error = |place: &AgentWorkspace, known: &AgentFacts, set: Option<&str>| {
            let set = set.map(OsString::from);
            let hooks = NativeHooks::among(place, known, |_| set.clone());
            hooks.expect_err("no hook was added").to_string()
        };
        let fine = r#"{"a":{{pre_tool}}}"#;
        let strange = error(&place(b"/bin\xff/creel", "/p"), &in_meta(fine), None);
        assert!(strange.contains("is not UTF-8"), "{strange}");
        let nothing = error(&usual, &with(ToolHookSupport::default()), None);
        assert!(nothing.contains("neither `args`"), "{nothing}");
        for text in [r#"{"x": {{pre_tool}"#, "nojson {{pre_tool}}", "[]"] {
            let meta = error(&usual, &in_meta(text), None);
            assert!(meta.contains("`meta` of `tool_hooks`"), "{meta}");
            let env = error(&usual, &in_env(text), None);
            assert!(env.contains("`X` of `tool_hooks`"), "{env}");
        }
        for set in ["[]", "nojson", "3"] {
            let other = error(&usual, &in_env(fine), Some(set));
            assert!(other.contains("the variable X has to be"), "{other}");
        }
        let other = error(
            &usual,
            &in_env(r#"{"hooks":{}}"#),
            Some(r#"{"hooks":true}"#),
        );
        assert!(other.contains("`hooks` in another form"), "{other}");
    }

    #[test]
    fn names_of_placeholders_in_a_path_stay_as_they_are() {
        let place = place(b"/bin/creel", "/{{post_tool}}/{{pre_tool_trust}}");
        let known = in_meta(r#"{"a":{{pre_tool}},"b":{"c":{{post_tool}}}}"#);
        let hooks = NativeHooks::among(&place, &known, |_| None).expect("JSON");
        let meta = hooks.and_then(|hooks| hooks.meta()).expect("JSON");
        let line = meta["a"].as_str().expect("a command");
        assert!(line.contains("/{{post_tool}}/{{pre_tool_trust}}"), "{line}");
        assert!(
            meta["b"]["c"]
                .as_str()
                .is_some_and(|it| it.contains("PostToolUse"))
        );
    }

    #[test]
    fn the_users_own_hooks_in_a_variable_stay() {
        let known = in_env(
            r#"{"hooks":{"PreToolUse":["creel"],"PostToolUse":["creel"],"state":{"pre:{{pre_tool_group}}":1,"post:{{post_tool_group}}":2}},"features":{"hooks":true}}"#,
        );
        let users = r#"{"hooks":{"PreToolUse":["mine"],"Stop":["s"],"state":{"pre:0":3}},"features":{"hooks":false,"x":true},"model":"m"}"#;
        let place = place(b"/bin/creel", "/p");
        let hooks = NativeHooks::among(&place, &known, |_| Some(users.into()));
        let hooks = hooks.expect("JSON").expect("hooks");
        let (_, text) = hooks.variables().last().expect("a variable");
        let all: Value = serde_json::from_str(&text).expect("JSON");
        let wanted = json!({
            "hooks": {"PreToolUse": ["mine", "creel"], "Stop": ["s"], "PostToolUse": ["creel"],
                "state": {"pre:0": 3, "pre:1": 1, "post:0": 2}},
            "features": {"hooks": true, "x": true},
            "model": "m",
        });
        assert_eq!(all, wanted);
    }

    #[test]
    fn codex_trusts_a_hook_by_its_hash() {
        let hook = json!({ "async": false, "command": "true", "timeout": 600, "type": "command" });
        let text = json!({ "event_name": "pre_tool_use", "hooks": [hook] }).to_string();
        let keys = ["\"async\"", "\"command\"", "\"timeout\"", "\"type\""];
        let places: Vec<Option<usize>> = keys.iter().map(|key| text.find(key)).collect();
        assert!(
            places.is_sorted() && places[0].is_some(),
            "the keys are in order"
        );
        let digest = Sha256::digest(text.as_bytes());
        // What codex 0.169 calls the hash of this hook.
        assert_eq!(digest[..4], [0xa7, 0xde, 0x97, 0xb6]);
    }
}
