//! Which tool calls a hook at `pre_tool` or `post_tool` is for.
//!
//! # Invariants
//! - What a matcher cannot rule out, it matches: a call that says neither its name nor its kind, a
//!   change that names no file, a pattern that cannot be read.

use regex::Regex;
use serde::{Deserialize, Serialize};

use crate::engine::{
    conversation::{ToolCall, ToolKind, ToolStatus},
    hooks::{claude_tools, point::HookPoint},
    permission::tool_call::{files, kind},
};

/// All conditions must hold. An empty list, or no text, is no condition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ToolMatcher {
    /// A matcher as Claude Code reads it: names separated by `|`, or a regular expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Patterns of the agent's or Claude Code's names of tools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<ToolKind>,
    /// Patterns of files, relative to the project. One file that matches is enough.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// The event of Claude Code that the hook is written for. None: its input is creel's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claude: Option<ClaudeToolEvent>,
}

/// An event of Claude Code about a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClaudeToolEvent {
    PreToolUse,
    PermissionRequest,
    PostToolUse,
    PostToolUseFailure,
}

impl ClaudeToolEvent {
    pub const ALL: [Self; 4] = [
        Self::PreToolUse,
        Self::PermissionRequest,
        Self::PostToolUse,
        Self::PostToolUseFailure,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::PreToolUse => "PreToolUse",
            Self::PermissionRequest => "PermissionRequest",
            Self::PostToolUse => "PostToolUse",
            Self::PostToolUseFailure => "PostToolUseFailure",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.name() == name)
    }

    pub const fn point(self) -> HookPoint {
        match self {
            Self::PreToolUse | Self::PermissionRequest => HookPoint::PreTool,
            Self::PostToolUse | Self::PostToolUseFailure => HookPoint::PostTool,
        }
    }

    /// Whether the event happens to a call with this status.
    fn fits(self, status: ToolStatus) -> bool {
        match self {
            Self::PreToolUse | Self::PermissionRequest => true,
            Self::PostToolUse => status != ToolStatus::Failed,
            Self::PostToolUseFailure => status == ToolStatus::Failed,
        }
    }
}

/// How a matcher's text is read.
enum TextMatcher {
    All,
    Names(Vec<String>),
    Pattern(Regex),
}

impl TextMatcher {
    fn read(text: &str) -> Result<Self, regex::Error> {
        if matches!(text.trim(), "" | "*") {
            return Ok(Self::All);
        }
        let is_list = text
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || "_ ,|-".contains(letter));
        if is_list {
            let names = text.split(['|', ',']).map(|name| name.trim().to_owned());
            return Ok(Self::Names(names.collect()));
        }
        Regex::new(text).map(Self::Pattern)
    }

    fn fits(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Names(names) => names.iter().any(|known| known == name),
            Self::Pattern(pattern) => pattern.is_match(name),
        }
    }
}

/// Why a matcher's text cannot be read.
pub(crate) fn check_text(text: &str) -> Result<(), regex::Error> {
    TextMatcher::read(text).map(|_| ())
}

impl ToolMatcher {
    pub(crate) fn fits(&self, call: &ToolCall, cwd: &str) -> bool {
        let fits_event = self.claude.is_none_or(|event| event.fits(call.status));
        fits_event && self.fits_name(call) && self.fits_kind(call) && self.fits_path(call, cwd)
    }

    fn fits_name(&self, call: &ToolCall) -> bool {
        let names = claude_tools::names(call);
        let by_text = self.text.as_deref().is_none_or(|text| {
            TextMatcher::read(text)
                .is_ok_and(|matcher| names.is_empty() || names.iter().any(|it| matcher.fits(it)))
                || TextMatcher::read(text).is_err()
        });
        let fits = |pattern: &String| {
            names
                .iter()
                .any(|name| fast_glob::glob_match(pattern, name))
        };
        by_text && (self.names.is_empty() || names.is_empty() || self.names.iter().any(fits))
    }

    fn fits_kind(&self, call: &ToolCall) -> bool {
        let kind = kind(call);
        let is_unknown = kind == ToolKind::Other && claude_tools::names(call).is_empty();
        self.kinds.is_empty() || is_unknown || self.kinds.contains(&kind)
    }

    fn fits_path(&self, call: &ToolCall, cwd: &str) -> bool {
        let files = files(call, cwd);
        let named = |file: &String| {
            self.paths
                .iter()
                .any(|pattern| fast_glob::glob_match(pattern, file))
        };
        self.paths.is_empty()
            || files.iter().any(named)
            || (files.is_empty() && claude_tools::may_change_files(kind(call)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::conversation::FileLocation;

    fn call(kind: ToolKind, name: Option<&str>, file: Option<&str>) -> ToolCall {
        let place = |path: &str| FileLocation {
            path: path.into(),
            line: None,
        };
        ToolCall {
            kind: Some(kind),
            name: name.map(str::to_owned),
            locations: file.map(place).into_iter().collect(),
            ..ToolCall::default()
        }
    }

    fn by_text(text: &str) -> ToolMatcher {
        ToolMatcher {
            text: Some(text.into()),
            ..ToolMatcher::default()
        }
    }

    #[test]
    fn a_text_is_a_list_of_exact_names_or_a_regular_expression() {
        let bash = call(ToolKind::Execute, Some("Bash"), None);
        for (text, fits) in [
            ("", true),
            ("*", true),
            ("Bash", true),
            ("Edit|Bash", true),
            ("Edit, Bash", true),
            ("bash", false),
            ("Ba", false),
            ("Ba.*", true),
            ("^ash", false),
            ("mcp__.*", false),
            ("(", true),
        ] {
            assert_eq!(by_text(text).fits(&bash, "/p"), fits, "{text:?}");
        }
        assert!(check_text("(").is_err() && check_text("Edit|Write").is_ok());
    }

    #[test]
    fn tools_of_other_agents_have_claude_codes_names_too() {
        let codex = call(ToolKind::Execute, Some("exec_command"), None);
        assert!(by_text("Bash").fits(&codex, "/p") && by_text("exec_command").fits(&codex, "/p"));
        let untitled = call(ToolKind::Edit, None, Some("a.rs"));
        assert!(by_text("Write").fits(&untitled, "/p") && by_text("Edit").fits(&untitled, "/p"));
        assert!(!by_text("Bash").fits(&untitled, "/p"));
        let unknown = call(ToolKind::Other, None, None);
        assert!(by_text("Bash").fits(&unknown, "/p"), "it may be a command");
    }

    #[test]
    fn kinds_names_and_paths_must_all_fit() {
        let sources = ToolMatcher {
            kinds: vec![ToolKind::Edit],
            names: vec!["Wri*".into()],
            paths: vec!["src/**".into()],
            ..ToolMatcher::default()
        };
        let write = |file| call(ToolKind::Edit, Some("Write"), file);
        assert!(sources.fits(&write(Some("/p/src/a.rs")), "/p"));
        assert!(
            sources.fits(&write(None), "/p"),
            "it may change such a file"
        );
        assert!(!sources.fits(&write(Some("/p/docs/a.md")), "/p"));
        assert!(!sources.fits(&call(ToolKind::Read, Some("Read"), Some("src/a.rs")), "/p"));
        let renamed = call(ToolKind::Edit, Some("NotebookEdit"), Some("src/a.rs"));
        assert!(!sources.fits(&renamed, "/p"));
    }
}
