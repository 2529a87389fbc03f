//! Reads the entry of an agent, from a config or from the table of known agents.
//!
//! Owns which keys go together. Does not read scripts (see [`mod@super::load`]) and does not look
//! for programs (see [`super::known_agents`]).

use regex::Regex;

use super::{
    diagnostic::{self, SourceSpan, quoted},
    fields::ConfigFields,
    hooks,
    known_agents::AgentOrigin,
    node::ConfigNode,
    report::DiagnosticReport,
};
use crate::engine::policy::{AgentFacts, AgentSpec, ToolPassing};

/// The placeholders in an agent's command.
const TOLD: &[&str] = &["prompt", "session"];
/// The placeholders in the command for later turns of a conversation.
const TOLD_LATER: &[&str] = &["prompt", "session", "conversation"];

/// The placeholders in its options for the session's tools: the server's program and its arguments,
/// each as JSON, both as one list, and as one command line.
const TOLD_TOOLS: &[&str] = &["session", "mcp_command", "mcp_args", "mcp_list", "mcp_line"];

/// Keys that are valid only with some launch methods.
const GOES_WITH: [(&str, &[&str]); 14] = [
    ("continue_command", &["command"]),
    ("format", &["command"]),
    ("tty", &["command"]),
    ("mode", &["acp"]),
    ("files", &["acp"]),
    ("terminals", &["acp"]),
    ("usage", &["acp"]),
    ("error_pattern", &["acp", "command"]),
    ("limit_pattern", &["acp", "command"]),
    ("install", &["acp", "command"]),
    ("login", &["acp", "command"]),
    ("mcp", &["acp", "command"]),
    ("list_tools", &["acp", "command"]),
    ("tools", &["acp", "command"]),
];

pub(super) struct AgentEntry<'a> {
    pub(super) name: &'a str,
    /// The position for a mistake about the whole entry.
    pub(super) at: SourceSpan,
    pub(super) fields: ConfigFields<'a>,
    /// The launch methods that are valid here.
    pub(super) ways: &'static [&'static str],
    pub(super) origin: AgentOrigin,
}

pub(super) struct AgentCommand<'a> {
    pub(super) line: &'a str,
    pub(super) is_acp: bool,
}

pub(super) enum AgentDescription<'a> {
    Run(AgentSpec),
    /// A script file that has not been read yet.
    Script(&'a ConfigNode),
}

impl<'a> AgentEntry<'a> {
    /// Reads the entry. `otherwise` returns the facts that are known about the agent's program, for
    /// keys that the entry omits.
    pub(super) fn read(
        &self,
        report: &mut DiagnosticReport,
        otherwise: impl FnOnce(&AgentCommand<'_>) -> AgentFacts,
    ) -> Option<AgentDescription<'a>> {
        let way = self.way(report)?;
        self.check_companions(report, way);
        self.check_commands(report);
        let said = facts(report, &self.fields, self.origin);
        let value = self.fields.some_text(way)?;
        let command = AgentCommand {
            line: &value,
            is_acp: way == "acp",
        };
        let known = || said.or(otherwise(&command));
        match way {
            "acp" => Some(AgentDescription::Run(AgentSpec::Acp {
                known: known(),
                mode: self.fields.some_text("mode"),
                files: self.fields.one_of("files"),
                terminals: self.fields.one_of("terminals"),
                command: value,
            })),
            "command" => Some(AgentDescription::Run(AgentSpec::Command {
                known: known(),
                continue_command: self.fields.some_text("continue_command"),
                format: self.fields.one_of("format"),
                tty: self.fields.bool("tty"),
                command: value,
            })),
            _ => self.fields.given("script").map(AgentDescription::Script),
        }
    }

    /// The launch method. Exactly one must be configured.
    fn way(&self, report: &mut DiagnosticReport) -> Option<&'static str> {
        let given: Vec<&'static str> = self
            .ways
            .iter()
            .copied()
            .filter(|way| self.fields.given(way).is_some())
            .collect();
        if let [way] = given[..] {
            return Some(way);
        }
        let name = quoted(self.name);
        let message = if given.is_empty() {
            format!("the agent {name} has no command")
        } else {
            format!(
                "the agent {name} has {} ways to run: {}",
                given.len(),
                diagnostic::names(&given)
            )
        };
        report.error_hint(
            self.at,
            message,
            format!("keep one of {}", all_of(self.ways)),
        );
        None
    }

    fn check_companions(&self, report: &mut DiagnosticReport, way: &str) {
        for (key, ways) in GOES_WITH {
            if let Some(other) = self.fields.given(key).filter(|_| !ways.contains(&way)) {
                let message = format!("`{key}` is only for {}", all_of(ways));
                report.error_hint(other.at, message, format!("remove it, or remove `{way}`"));
            }
        }
    }

    fn check_commands(&self, report: &mut DiagnosticReport) {
        for (key, told) in [
            ("acp", TOLD),
            ("command", TOLD),
            ("continue_command", TOLD_LATER),
            ("tools", TOLD_TOOLS),
        ] {
            if let (Some(node), Some(command)) =
                (self.fields.given(key), self.fields.some_text(key))
            {
                hooks::check_placeholders(report, "an agent", told, &command, node.at);
            }
        }
    }
}

/// The facts about the agent in an entry.
pub(super) fn facts(
    report: &mut DiagnosticReport,
    fields: &ConfigFields<'_>,
    origin: AgentOrigin,
) -> AgentFacts {
    let mut pattern = |key| {
        let pattern = fields.some_text(key)?;
        // A test compiles the built-in ones. Doing it here would take longer than all the rest of
        // the start.
        let node = fields.given(key).filter(|_| origin == AgentOrigin::Own);
        if let Some((node, error)) = node.and_then(|node| Some((node, Regex::new(&pattern).err()?)))
        {
            let message = format!(
                "{} is not a regular expression: {}",
                quoted(&pattern),
                reason(&error)
            );
            report.error(node.at, message);
        }
        Some(pattern)
    };
    let (error_pattern, limit_pattern) = (pattern("error_pattern"), pattern("limit_pattern"));
    let (install, login) = (fields.some_text("install"), fields.some_text("login"));
    let maybe_bool = |key: &'static str| fields.given(key).map(|_| fields.bool(key));
    let (mcp, list_tools) = (maybe_bool("mcp"), maybe_bool("list_tools"));
    let tools = fields.some_text("tools").map(|text| match text.as_str() {
        "none" => ToolPassing::Refused,
        _ => ToolPassing::Options(text),
    });
    let usage = fields.maybe_one_of("usage");
    AgentFacts {
        install,
        login,
        error_pattern,
        limit_pattern,
        usage,
        mcp,
        list_tools,
        tools,
    }
}

/// The last line is the reason. The lines before it show the position.
pub(super) fn reason(error: &regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}

/// The first word of a command line.
pub fn program_of(command: &str) -> &str {
    command.split_whitespace().next().unwrap_or_default()
}

/// Names at the end of a sentence: `a`, `b` and `c`.
fn all_of(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => quoted(one),
        [first @ .., last] => format!("{} and {}", diagnostic::names(first), quoted(last)),
    }
}
