//! The hook that creel adds to an agent's own hooks for a session, so that hooks at `pre_tool` see
//! every call: its command line, and how the agent gets it.
//!
//! Owns the texts. Does not answer the agent: see `crate::cli::hook`.
//!
//! # Invariants
//! - No file of the user changes. Whatever keeps creel's command from running denies the call.
//! - Files for the agent are written again before each start, and not through a link: an earlier
//!   turn may have changed them.

use std::{fs, io, io::Write as _, path::PathBuf};

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::{AgentWorkspace, with_options};
use crate::{
    engine::{
        hooks::{
            template::{self, TemplateError},
            tool_matcher::ClaudeToolEvent,
        },
        policy::{AgentFacts, ToolHookLevel, ToolHookSupport},
    },
    process::{output::create, project_variable},
    text::shell_word,
};

/// How long agents wait for an answer, in seconds: the user may have to give it.
const PATIENCE: u32 = 604_800;

/// The folder of the files for the agent, in the session's folder.
const FOLDER: &str = "agent-hooks";

/// How one agent gets creel's hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NativeHooks {
    support: ToolHookSupport,
    /// What each placeholder stands for: a command as JSON, or the folder of the files.
    values: [(&'static str, String); 6],
    folder: PathBuf,
    /// The agent's own settings: as they are called, and where they are.
    settings: Vec<(String, PathBuf)>,
}

/// Why an agent cannot start with creel's hook.
#[derive(Debug, thiserror::Error)]
pub(super) enum NativeHookError {
    #[error(
        "`{file}` turns the hooks of the agent off (`{key}`), creel's too, so your hooks would see no call. Remove \
         `{key}` there, or the hooks at `pre_tool` and `post_tool`"
    )]
    TurnedOff { file: String, key: String },
    #[error("creel could not write its hook for the agent into the session's folder: {0}")]
    NotWritten(#[from] io::Error),
}

impl NativeHooks {
    /// None if the session has no hooks of tool calls, or the agent no such hooks.
    pub(super) fn of(place: &AgentWorkspace, known: &AgentFacts) -> Option<Self> {
        let support = known.tool_hooks.as_ref().filter(|_| place.has_tool_hooks)?;
        let creel = place.creel.as_ref()?.to_str()?;
        let is_native = support.level == ToolHookLevel::Native;
        let line = |event| command_line(place, creel, event, support.deny_only);
        let (pre, post) = (
            line(ClaudeToolEvent::PreToolUse),
            line(ClaudeToolEvent::PostToolUse),
        );
        let failure = line(ClaudeToolEvent::PostToolUseFailure);
        let text = |text: String| Value::String(text).to_string();
        let folder = place.session_dir.join(FOLDER);
        let hooks_dir = folder.to_string_lossy().into_owned();
        is_native.then(|| Self {
            support: support.clone(),
            values: [
                ("pre_tool_trust", text(trusted("pre_tool_use", &pre))),
                ("post_tool_trust", text(trusted("post_tool_use", &post))),
                ("pre_tool", text(pre)),
                ("post_tool", text(post)),
                ("post_tool_failure", text(failure)),
                ("hooks_dir", hooks_dir),
            ],
            folder,
            settings: known
                .own_hooks
                .iter()
                .map(|name| (name.clone(), placed(place, name)))
                .collect(),
        })
    }

    /// The command line with the arguments that add the hook.
    pub(super) fn added_to(&self, command: &str) -> Result<String, TemplateError> {
        match &self.support.args {
            Some(args) => Ok(with_options(command, &template::expand(args)?)),
            None => Ok(command.to_owned()),
        }
    }

    /// The variables of the agent: those that its command line uses, and those that add the hook.
    pub(super) fn variables(&self) -> impl Iterator<Item = (String, String)> {
        let used = self.values.iter();
        let used = used.map(|(name, value)| (template::variable(name), value.clone()));
        let own = self.support.env.iter().filter_map(|(name, text)| {
            let before = std::env::var(name).ok();
            let before = before.and_then(|text| serde_json::from_str(&text).ok());
            let Value::Object(mut all) = before.unwrap_or_else(|| Value::Object(Map::new())) else {
                return None;
            };
            all.extend(self.filled(text)?);
            Some((name.clone(), Value::Object(all).to_string()))
        });
        used.chain(own)
    }

    /// Prepares what the agent reads when it starts.
    pub(super) fn prepare(&self) -> Result<(), NativeHookError> {
        for (name, path) in &self.settings {
            let text = fs::read_to_string(path).unwrap_or_default();
            let key = self.support.disabled_by.iter().find(|key| sets(&text, key));
            if let Some(key) = key {
                let (file, key) = (name.clone(), key.clone());
                return Err(NativeHookError::TurnedOff { file, key });
            }
        }
        if !self.support.files.is_empty() && self.folder.to_str().is_none() {
            return Err(io::Error::other("its path is not UTF-8").into());
        }
        let is_link = fs::symlink_metadata(&self.folder).is_ok_and(|it| it.is_symlink());
        if is_link {
            return Err(io::Error::other("the folder is a link").into());
        }
        for (name, text) in &self.support.files {
            let filled = self.filled(text).ok_or(io::ErrorKind::InvalidData);
            let text = Value::Object(filled.map_err(io::Error::from)?).to_string();
            create(&self.folder.join(name))?.write_all(text.as_bytes())?;
        }
        Ok(())
    }

    /// What the agent gets with each conversation.
    pub(super) fn meta(&self) -> Option<Map<String, Value>> {
        self.filled(self.support.meta.as_ref()?)
    }

    fn filled(&self, text: &str) -> Option<Map<String, Value>> {
        let fill = |text: String, (name, value): &(&str, String)| {
            text.replace(&format!("{{{{{name}}}}}"), value)
        };
        let filled = self.values.iter().fold(text.to_owned(), fill);
        serde_json::from_str(&filled).ok()
    }
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
    use super::*;

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
