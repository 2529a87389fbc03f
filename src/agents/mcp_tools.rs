//! creel's own MCP tools for agents: how to start the server, and how to recognise a request for
//! one of its tools.

use serde::Serialize;
use serde_json::{Map, Value};

use super::{AgentWorkspace, NOTE_MAX, limited, with_options};
use crate::engine::{
    conversation::{ToolCall, ToolKind},
    creel_tools::{CreelTool, TOOLS},
    hooks::template::{self, TemplateError},
    policy::{AgentFacts, ToolPassing},
};

/// The server's name for agents.
pub(super) const NAME: &str = "creel";
/// Where an agent with one process per turn finds the server.
pub(super) const VARIABLE: &str = "CREEL_MCP";

/// A program that serves the session's tools over its standard streams.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct ToolServer {
    pub(super) command: String,
    pub(super) args: [String; 3],
}

impl ToolServer {
    /// None if the config turns the tools off.
    pub(super) fn of(place: &AgentWorkspace, known: &AgentFacts) -> Option<Self> {
        let wanted = known.mcp.unwrap_or(true);
        let command = place
            .creel
            .as_ref()
            .filter(|_| wanted)?
            .to_str()?
            .to_owned();
        // The session is an argument, because the agent might not pass environment variables on.
        Some(Self {
            command,
            args: ["mcp".into(), "--session".into(), place.session.clone()],
        })
    }

    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("texts are JSON")
    }
}

/// Command-line options that pass the session's tools to an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ToolOptions {
    /// Part of a command line, with placeholders.
    options: String,
    server: ToolServer,
}

impl ToolOptions {
    /// None if the agent has no such options, or if the config turns the tools off.
    pub(super) fn of(place: &AgentWorkspace, known: &AgentFacts) -> Option<Self> {
        let Some(ToolPassing::Options(options)) = &known.tools else {
            return None;
        };
        Some(Self {
            options: options.clone(),
            server: ToolServer::of(place, known)?,
        })
    }

    pub(super) fn added_to(&self, command: &str) -> Result<String, TemplateError> {
        template::expand(&with_options(command, &self.options))
    }

    pub(super) fn variables(&self) -> [(String, String); 4] {
        let ToolServer { command, args } = &self.server;
        let list: Vec<&String> = std::iter::once(command).chain(args).collect();
        let line: Vec<String> = list.iter().map(|word| shell_word(word)).collect();
        let json = |value: Value| value.to_string();
        [
            ("mcp_command", json(command.as_str().into())),
            ("mcp_args", json(args.to_vec().into())),
            (
                "mcp_list",
                json(list.into_iter().map(String::as_str).collect()),
            ),
            ("mcp_line", line.join(" ")),
        ]
        .map(|(name, value)| (template::variable(name), value))
    }
}

/// Quotes a word so that every parser reads it as one: agents' own parsers know fewer rules than a
/// shell.
fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+".contains(c);
    if word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\"'\"'"))
    }
}

/// A warning for the user about an agent that does not accept creel's tools.
pub(super) fn refusal(place: &AgentWorkspace, known: &AgentFacts) -> Option<&'static str> {
    let refused =
        known.tools == Some(ToolPassing::Refused) && ToolServer::of(place, known).is_some();
    refused.then_some(
        "this agent does not accept creel's tools. It can run commands such as `creel task list` instead. Set `mcp: \
         false` in its entry to hide this message",
    )
}

/// What an agent reports about a tool call beyond the [`ToolCall`].
#[derive(Debug, Clone, Default)]
pub(super) struct ToolCallDetails {
    /// The agent's own name for the tool, if it sends one besides the title.
    pub(super) name: Option<String>,
    /// The names of the arguments.
    arguments: Vec<String>,
    /// Whether the input is something other than named arguments.
    opaque: bool,
    /// The MCP server and its tool, for agents that put both into the input.
    target: Option<(String, String)>,
    /// Whether the title, the input or the diff was cut.
    pub(super) shortened: bool,
    /// The whole input, if anything was cut.
    pub(super) whole: Option<String>,
}

impl ToolCallDetails {
    /// Reads the input of a call. Some agents send it as JSON in a string.
    pub(super) fn learn_input(&mut self, input: &Value) {
        let parsed = input
            .as_str()
            .and_then(|text| serde_json::from_str::<Value>(text).ok());
        let input = parsed.as_ref().unwrap_or(input);
        let Some(fields) = input.as_object() else {
            self.opaque = !input.is_null();
            return;
        };
        self.opaque = false;
        let text = |name: &str| fields.get(name).and_then(Value::as_str).map(str::to_owned);
        let only_a_target = fields
            .keys()
            .all(|key| ["server", "tool", "arguments"].contains(&key.as_str()));
        self.target = text("server").zip(text("tool")).filter(|_| only_a_target);
        let inner = fields
            .get("arguments")
            .filter(|_| self.target.is_some())
            .unwrap_or(&Value::Null);
        self.opaque = !inner.is_null() && !inner.is_object();
        let arguments = if self.target.is_some() {
            inner.as_object()
        } else {
            Some(fields)
        };
        self.arguments = arguments
            .into_iter()
            .flat_map(|fields| fields.keys().cloned())
            .collect();
    }

    /// Reads the tool's name from the metadata of a call. Agents use different keys.
    pub(super) fn learn_meta(&mut self, meta: &Map<String, Value>) {
        let nested = meta
            .get("claudeCode")
            .and_then(|theirs| theirs.get("toolName"));
        let named = meta
            .get("tool_name")
            .or_else(|| meta.get("toolName"))
            .or(nested)
            .and_then(Value::as_str);
        if let Some(name) = named {
            self.name = Some(limited(name, NOTE_MAX));
        }
    }

    /// Whether a request is certainly for one of creel's own tools.
    ///
    /// A model can influence the titles of other tools: the title of a shell command is often the
    /// command, that of a subagent its description. So the name alone is not enough. The call must
    /// have only arguments of that tool, no file and no change, and a kind that commands and edits
    /// do not have.
    pub(super) fn is_own_tool(&self, call: &ToolCall) -> bool {
        let Some(tool) = self
            .name
            .as_deref()
            .map_or_else(|| own_title(&call.title), own_name)
        else {
            return false;
        };
        let foreign = self
            .arguments
            .iter()
            .any(|name| !tool.arguments.contains(&name.as_str()));
        if foreign || self.opaque || !call.locations.is_empty() || call.diff.is_some() {
            return false;
        }
        match call.kind {
            None | Some(ToolKind::Other | ToolKind::Read) => true,
            // Codex reports every MCP tool as a command, with the server and the tool in the input.
            Some(ToolKind::Execute) => {
                matches!(&self.target, Some((server, name)) if server == NAME && name == tool.name)
            }
            Some(
                ToolKind::Edit
                | ToolKind::Delete
                | ToolKind::Move
                | ToolKind::Search
                | ToolKind::Think
                | ToolKind::Fetch
                | ToolKind::SwitchMode,
            ) => false,
        }
    }
}

/// The tool for an agent's name of it. Agents add the server's name in front, each in its own way.
fn own_name(name: &str) -> Option<CreelTool> {
    let forms = [
        "mcp__creel__",
        "mcp_creel_",
        "mcp_creel.",
        "mcp.creel.",
        "creel__",
        "creel_",
        "creel-",
        "creel.",
        "creel:",
        "creel/",
    ];
    let bare = forms.iter().find_map(|form| name.strip_prefix(form))?;
    TOOLS.into_iter().find(|tool| tool.name == bare)
}

/// The tool for a title: its name, or the form of Gemini and Qwen, optionally with the arguments
/// after it.
fn own_title(title: &str) -> Option<CreelTool> {
    let title = title.trim();
    let words = || {
        let (tool, rest) = title.split_once(" (creel MCP Server)")?;
        let known = TOOLS.into_iter().find(|known| known.name == tool)?;
        let arguments = rest
            .strip_prefix(':')
            .and_then(|text| serde_json::from_str::<Map<String, Value>>(text).ok());
        let are_its_own = |all: Map<String, Value>| {
            all.keys()
                .all(|name| known.arguments.contains(&name.as_str()))
        };
        (rest.is_empty() || arguments.is_some_and(are_its_own)).then_some(known)
    };
    own_name(title).or_else(words)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::engine::conversation::FileLocation;

    fn is_own(title: &str, kind: ToolKind, input: &Value) -> bool {
        let mut details = ToolCallDetails::default();
        details.learn_input(input);
        details.is_own_tool(&ToolCall {
            title: title.into(),
            kind: Some(kind),
            ..ToolCall::default()
        })
    }

    #[test]
    fn every_agents_way_to_name_a_tool_is_understood() {
        let other = ToolKind::Other;
        assert!(is_own("mcp__creel__task_list", other, &json!({})), "claude");
        assert!(
            is_own(
                "mcp__creel__task_add",
                other,
                &json!({"goal": "x", "labels": ["a"]})
            ),
            "claude"
        );
        assert!(
            is_own("task_list (creel MCP Server)", other, &Value::Null),
            "gemini"
        );
        assert!(
            is_own(
                "task_list (creel MCP Server): {\"state\": \"ready\"}",
                ToolKind::Read,
                &json!({})
            ),
            "qwen"
        );
        let codex = json!({"server": "creel", "tool": "task_list", "arguments": {}});
        assert!(
            is_own("mcp.creel.task_list", ToolKind::Execute, &codex),
            "codex"
        );
        assert!(
            is_own("creel-task_list", ToolKind::Read, &json!({})),
            "copilot"
        );
        assert!(
            is_own("creel_task_list", other, &json!("{\"state\": \"ready\"}")),
            "vibe, opencode"
        );
        assert!(
            is_own("mcp_creel.task_add", other, &json!({"goal": "x"})),
            "vibe"
        );
        let named = ToolCallDetails {
            name: Some("creel_task_list".into()),
            ..ToolCallDetails::default()
        };
        let call = ToolCall {
            title: "Listing tasks".into(),
            kind: Some(other),
            ..ToolCall::default()
        };
        assert!(named.is_own_tool(&call), "vibe names it in the metadata");
    }

    #[test]
    fn nothing_else_passes_for_a_tool_of_creel() {
        let other = ToolKind::Other;
        let title = "mcp__creel__task_list";
        for kind in [
            ToolKind::Execute,
            ToolKind::Edit,
            ToolKind::Think,
            ToolKind::Fetch,
            ToolKind::Search,
        ] {
            assert!(!is_own(title, kind, &json!({})), "{kind:?}");
        }
        for argument in ["command", "shell", "path", "url", "goal", "anything"] {
            assert!(
                !is_own(title, other, &json!({argument: "rm -rf /"})),
                "{argument}"
            );
        }
        assert!(
            !is_own(title, other, &json!("rm -rf /")),
            "an input that is no set of arguments"
        );
        for title in [
            "mcp__creel__task_list; rm -rf /",
            "mcp__creel__rm",
            "mcp__other__task_list",
            "task_list",
            "task_list (creel MCP Server); rm -rf /",
            "task_list (creel MCP Server): {}; rm -rf /",
            "x task_list (creel MCP Server)",
            "mcp__creel__mcp__creel__task_list",
        ] {
            assert!(!is_own(title, other, &json!({})), "{title}");
        }
        let shell =
            json!({"server": "creel", "tool": "task_list", "arguments": {}, "command": "rm"});
        assert!(!is_own("mcp.creel.task_list", ToolKind::Execute, &shell));
        let inside = json!({"server": "creel", "tool": "task_list", "arguments": {"shell": "rm"}});
        assert!(!is_own("mcp.creel.task_list", ToolKind::Execute, &inside));
        assert!(!is_own(
            "task_list (creel MCP Server): {\"shell\": \"rm\"}",
            other,
            &Value::Null
        ));
        let elsewhere = json!({"server": "other", "tool": "task_list", "arguments": {}});
        assert!(!is_own(
            "mcp.creel.task_list",
            ToolKind::Execute,
            &elsewhere
        ));
        let place = vec![FileLocation {
            path: "/etc/passwd".into(),
            line: None,
        }];
        let call = ToolCall {
            title: title.into(),
            kind: Some(ToolKind::Read),
            locations: place,
            ..ToolCall::default()
        };
        assert!(
            !ToolCallDetails::default().is_own_tool(&call),
            "a file with that name"
        );
        let renamed = ToolCallDetails {
            name: Some("Bash".into()),
            ..ToolCallDetails::default()
        };
        let call = ToolCall {
            title: title.into(),
            kind: Some(other),
            ..ToolCall::default()
        };
        assert!(
            !renamed.is_own_tool(&call),
            "the name that the agent gives counts before the title"
        );
    }
}
