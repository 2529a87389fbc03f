//! Agents: their entries in a config, and the table of those that need no entry.
//!
//! Owns which keys go together, and the table: the built-in one in `assets/agents.yaml`, changed by
//! a user's file in the same format. Also finds which launch method is installed on this machine.
//! Does not read scripts (see [`mod@super::load`]) and does not run anything.
//!
//! # Invariants
//! - Only programs in folders with an absolute path count as installed: a program in a project is
//!   not one that the user installed.

use std::{collections::BTreeMap, env, ffi::OsStr, path::PathBuf, sync::Arc};

use regex::Regex;
use serde::{Deserialize, Serialize};

pub(super) use super::fields::reason;
use super::{
    diagnostic::{self, DiagnosticReport, SourceSpan, nearest, quoted},
    fields::ConfigFields,
    hooks,
    keys::{KNOWN_AGENT, TOOL_HOOK_SUPPORT, WAY},
    node::{self, ConfigKey, ConfigNode, NodeKind},
    shape::ValueType,
    validate,
};
use crate::{
    engine::{
        hooks::template,
        policy::{AgentFacts, AgentSpec, ToolHookLevel, ToolHookSupport, ToolPassing},
    },
    process::programs::{self, is_executable},
};

/// The placeholders in an agent's command.
const PROMPT_VARIABLES: &[&str] = &["prompt", "session"];
/// The placeholders in the command for later turns of a conversation.
const CONTINUE_VARIABLES: &[&str] = &["prompt", "session", "conversation"];

/// The placeholders in its options for the session's tools: the server's program and its arguments,
/// each as JSON, both as one list, and as one command line.
const TOOL_VARIABLES: &[&str] = &["session", "mcp_command", "mcp_args", "mcp_list", "mcp_line"];

/// Keys that are valid only with some launch methods.
const GOES_WITH: [(&str, &[&str]); 19] = [
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
    ("options", &["acp", "command"]),
    ("flags", &["acp", "command"]),
    ("env", &["acp", "command"]),
    ("own_hooks", &["acp", "command"]),
    ("tool_hooks", &["acp", "command"]),
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
    Run(Box<AgentSpec>),
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
        self.check_flags(report);
        let own = facts(report, &self.fields, self.origin);
        let value = self.fields.some_text(way)?;
        let command = AgentCommand {
            line: &value,
            is_acp: way == "acp",
        };
        let known = own.or(otherwise(&command));
        if !command.is_acp {
            self.check_options(report, &known);
        }
        let run = |spec| Some(AgentDescription::Run(Box::new(spec)));
        match way {
            "acp" => run(AgentSpec::Acp {
                known,
                mode: self.fields.some_text("mode"),
                files: self.fields.one_of("files"),
                terminals: self.fields.one_of("terminals"),
                command: value,
            }),
            "command" => run(AgentSpec::Command {
                known,
                continue_command: self.fields.some_text("continue_command"),
                format: self.fields.one_of("format"),
                tty: self.fields.bool("tty"),
                command: value,
            }),
            _ => self.fields.given("script").map(AgentDescription::Script),
        }
    }

    /// Whether the entry only changes an agent that creel knows how to run.
    pub(super) fn has_no_way(&self) -> bool {
        self.ways.iter().all(|way| self.fields.given(way).is_none())
    }

    /// The facts of an entry without a launch method.
    pub(super) fn read_facts(&self, report: &mut DiagnosticReport) -> AgentFacts {
        for (key, ways) in GOES_WITH {
            let is_of_one = !ways.contains(&"acp") || !ways.contains(&"command");
            if let Some(given) = self.fields.given(key).filter(|_| is_of_one) {
                let message = format!("`{key}` needs {} in the same entry", all_of(ways));
                let hint = format!("add the command of {}, or remove it", quoted(self.name));
                report.error_hint(given.at, message, hint);
            }
        }
        self.check_flags(report);
        facts(report, &self.fields, self.origin)
    }

    fn check_flags(&self, report: &mut DiagnosticReport) {
        for (_, flag) in self
            .fields
            .given("flags")
            .map_or(&[][..], ConfigNode::entries)
        {
            let Some(text) = flag.text() else { continue };
            hooks::check_placeholders(report, "a flag", &["value"], text, flag.at);
            let names = template::placeholders(text);
            if !text.contains("{{value}}") && names.iter().all(|it| it.name == "value") {
                report.error_hint(
                    flag.at,
                    "a flag needs `{{value}}`, the option's value",
                    "such as `--model {{value}}`".to_owned(),
                );
            }
        }
    }

    /// Each option of a command needs a flag.
    fn check_options(&self, report: &mut DiagnosticReport, known: &AgentFacts) {
        for (key, _) in self
            .fields
            .given("options")
            .map_or(&[][..], ConfigNode::entries)
        {
            if !known.flags.contains_key(&key.name) {
                let message = format!(
                    "creel does not know how to pass {} to this command",
                    quoted(&key.name)
                );
                report.error_hint(key.at, message, flags_hint(&key.name, known));
            }
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
        for (key, names) in [
            ("acp", PROMPT_VARIABLES),
            ("command", PROMPT_VARIABLES),
            ("continue_command", CONTINUE_VARIABLES),
            ("tools", TOOL_VARIABLES),
        ] {
            if let (Some(node), Some(command)) =
                (self.fields.given(key), self.fields.some_text(key))
            {
                hooks::check_placeholders(report, "an agent", names, &command, node.at);
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
    let (options, flags) = (texts_of(fields, "options"), texts_of(fields, "flags"));
    AgentFacts {
        install,
        login,
        error_pattern,
        limit_pattern,
        usage,
        mcp,
        list_tools,
        tools,
        env: fields.texts("env"),
        own_hooks: fields.texts("own_hooks"),
        tool_hooks: tool_hooks(report, fields),
        options,
        flags,
    }
}

fn tool_hooks(report: &mut DiagnosticReport, fields: &ConfigFields<'_>) -> Option<ToolHookSupport> {
    let node = fields.given("tool_hooks")?;
    let fields = ConfigFields::of(&TOOL_HOOK_SUPPORT, Some(node));
    let support = ToolHookSupport {
        level: fields.one_of("level"),
        args: fields.some_text("args"),
        meta: fields.some_text("meta"),
        disabled_by: fields.texts("disabled_by"),
        files: texts_of(&fields, "files"),
        env: texts_of(&fields, "env"),
        deny_only: fields.bool("deny_only"),
    };
    // Without its own hook, creel would let every call pass that the agent does not ask about.
    if support.level == ToolHookLevel::Native && !support.adds_hook() {
        let message = "`level: native` needs `args`, `meta` or `env`, with which creel adds its hook to the agent";
        report.error(node.at, message.to_owned());
    }
    let meta = support.meta.iter().map(|text| ("meta", text));
    let env = support.env.iter().map(|(name, text)| (name.as_str(), text));
    for (name, text) in meta.chain(env) {
        let known = |name: &str| ToolHookSupport::PLACEHOLDERS.contains(&name);
        let filled = ToolHookSupport::filled(text, |name| known(name).then(|| "0".to_owned()));
        if let Err(error) = filled {
            let message = format!("creel cannot add its hook to the agent with `{name}`: {error}");
            report.error(node.at, message);
        }
    }
    Some(support)
}

/// A map of texts. A boolean counts as its word.
fn texts_of(fields: &ConfigFields<'_>, key: &str) -> BTreeMap<String, String> {
    let entries = fields.given(key).map_or(&[][..], ConfigNode::entries);
    let written = |node: &ConfigNode| match &node.kind {
        NodeKind::Bool(value) => Some(value.to_string()),
        NodeKind::Text(text) => Some(text.clone()),
        NodeKind::Null
        | NodeKind::Int(_)
        | NodeKind::Float(_)
        | NodeKind::List(_)
        | NodeKind::Map(_) => None,
    };
    let texts = entries
        .iter()
        .filter_map(|(key, node)| Some((key.name.clone(), written(node)?)));
    texts.collect()
}

/// What to do about an option that a command has no flag for.
pub(super) fn flags_hint(option: &str, known: &AgentFacts) -> String {
    let has: Vec<&str> = known.flags.keys().map(String::as_str).collect();
    let add = format!("`flags: {{ {option}: \"--{option} {{{{value}}}}\" }}`");
    if has.is_empty() {
        format!("add {add} to the agent's entry, or remove it")
    } else {
        format!("it has {}; add {add} for another", diagnostic::names(&has))
    }
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

/// The table as people write and read it.
#[cfg(test)]
const BUILT_IN: &str = include_str!("../../assets/agents.yaml");
/// The same table as creel reads it, because parsing the YAML took most of the start. A test
/// compares the two.
const BUILT_IN_JSON: &str = include_str!("../../assets/agents.json");

/// In order of preference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownAgents(Vec<KnownAgent>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownAgent {
    /// Its name in the config.
    pub name: String,
    /// Its name for the user.
    pub title: String,
    pub origin: AgentOrigin,
    /// Facts for all its launch methods.
    facts: AgentFacts,
    /// The first one that is installed is used.
    pub ways: Vec<LaunchMethod>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AgentOrigin {
    BuiltIn,
    /// The user's own table.
    Own,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchMethod {
    pub spec: AgentSpec,
    /// The program that has to be installed.
    pub program: String,
    /// The arguments that make the program print its version, if it can.
    pub version: Option<String>,
}

impl LaunchMethod {
    pub fn is_acp(&self) -> bool {
        matches!(self.spec, AgentSpec::Acp { .. })
    }

    pub fn install(&self) -> Option<&str> {
        self.spec.facts()?.install.as_deref()
    }

    pub fn login(&self) -> Option<&str> {
        self.spec.facts()?.login.as_deref()
    }

    /// Overrides its facts with those that `own` contains.
    pub(super) fn with_facts(&self, own: &AgentFacts) -> Self {
        let mut way = self.clone();
        match &mut way.spec {
            AgentSpec::Acp { known, .. } | AgentSpec::Command { known, .. } => {
                *known = own.clone().or(std::mem::take(known));
            }
            AgentSpec::Scripted { .. } | AgentSpec::Outside => {}
        }
        way
    }

    pub fn find(&self, path: &OsStr) -> Option<PathBuf> {
        find_program(&self.program, path)
    }
}

impl KnownAgent {
    /// The first launch method that is installed.
    pub fn installed(&self, path: &OsStr) -> Option<&LaunchMethod> {
        self.ways.iter().find(|way| way.find(path).is_some())
    }

    /// Without duplicates.
    pub fn programs(&self) -> Vec<&str> {
        each_once(self.ways.iter().map(|way| way.program.as_str()))
    }
}

/// The install instructions of these launch methods, without duplicates.
pub fn how_to_install<'a>(ways: impl Iterator<Item = &'a LaunchMethod>) -> Vec<&'a str> {
    each_once(ways.filter_map(LaunchMethod::install))
}

fn each_once<'a>(all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for one in all {
        if !seen.contains(&one) {
            seen.push(one);
        }
    }
    seen
}

impl KnownAgents {
    pub fn built_in() -> Self {
        serde_json::from_str(BUILT_IN_JSON).expect("a test reads the same table")
    }

    /// The table as it is written.
    #[cfg(test)]
    pub(super) fn written() -> Self {
        let mut report = DiagnosticReport::new(Arc::new(super::diagnostic::SourceFile::new(
            "agents.yaml",
            BUILT_IN,
        )));
        let agents = read(&mut report, AgentOrigin::BuiltIn, &Self(Vec::new()));
        assert!(
            !report.has_errors(),
            "the built-in table is right: {:?}",
            report.diagnostics
        );
        Self(agents)
    }

    /// Adds the user's table. Its agents come first, and fields that an entry omits are unchanged.
    pub(super) fn with_own(&self, report: &mut DiagnosticReport) -> Self {
        let own = read(report, AgentOrigin::Own, self);
        let others = self
            .iter()
            .filter(|agent| own.iter().all(|own| own.name != agent.name))
            .cloned();
        let others: Vec<KnownAgent> = others.collect();
        Self([own, others].concat())
    }

    pub fn iter(&self) -> impl Iterator<Item = &KnownAgent> {
        self.0.iter()
    }

    pub fn named(&self, name: &str) -> Option<&KnownAgent> {
        self.iter().find(|agent| agent.name == name)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|agent| agent.name.as_str())
    }

    /// The default agent: an installed one, preferably one that speaks the protocol.
    pub fn preferred(&self, path: &OsStr) -> Option<(&KnownAgent, &LaunchMethod)> {
        let installed: Vec<_> = self
            .iter()
            .filter_map(|agent| Some((agent, agent.installed(path)?)))
            .collect();
        installed
            .iter()
            .find(|(_, way)| way.is_acp())
            .or(installed.first())
            .copied()
    }

    /// The facts about the agent in a config's command line. Tool options are used only for a
    /// single command: after a pipe or a comment they would end up elsewhere.
    pub(super) fn facts_of(&self, command: &AgentCommand<'_>) -> AgentFacts {
        let program = program_of(command.line);
        let ways = || {
            self.iter()
                .flat_map(|agent| &agent.ways)
                .filter(|way| way.program == program)
        };
        let way = ways()
            .find(|way| way.is_acp() == command.is_acp)
            .or_else(|| ways().next());
        let mut facts = way
            .and_then(|way| way.spec.facts())
            .cloned()
            .unwrap_or_default();
        if !programs::is_one_command(command.line) {
            facts.flags.clear();
            facts.tool_hooks = facts.tool_hooks.filter(|hooks| hooks.args.is_none());
            facts.tools = facts.tools.filter(|tools| *tools == ToolPassing::Refused);
        }
        facts
    }

    /// The launch method that uses this program.
    pub fn by_program(&self, program: &str) -> Option<&LaunchMethod> {
        self.iter()
            .flat_map(|agent| &agent.ways)
            .find(|way| way.program == program)
    }
}

/// Reads a table. Fields that an entry omits come from `before`.
fn read(
    report: &mut DiagnosticReport,
    origin: AgentOrigin,
    before: &KnownAgents,
) -> Vec<KnownAgent> {
    let root = match node::parse(&Arc::clone(&report.source)) {
        Ok(root) => root,
        Err(diagnostic) => {
            report.diagnostics.push(diagnostic);
            return Vec::new();
        }
    };
    if matches!(root.kind, NodeKind::Map(_) | NodeKind::Null) {
        for (key, node) in root.entries() {
            validate::check(report, &ValueType::Object(&KNOWN_AGENT), node, &key.name);
        }
    } else {
        let message = format!(
            "a table of agents is a map from names to agents, not {}",
            root.kind.describe()
        );
        report.error_hint(
            root.at,
            message,
            "such as `my-agent: { ways: [{ command: my-agent }] }`".to_owned(),
        );
    }
    let entries = root
        .entries()
        .iter()
        .filter(|(_, node)| matches!(node.kind, NodeKind::Map(_)));
    entries
        .map(|(key, node)| agent(report, origin, (key, node), before))
        .collect()
}

fn agent(
    report: &mut DiagnosticReport,
    origin: AgentOrigin,
    (key, node): (&ConfigKey, &ConfigNode),
    known: &KnownAgents,
) -> KnownAgent {
    let before = known.named(&key.name);
    let fields = ConfigFields::of(&KNOWN_AGENT, Some(node));
    let own = facts(report, &fields, origin);
    let facts = own
        .clone()
        .or(before.map(|agent| agent.facts.clone()).unwrap_or_default());
    let ways = match (fields.given("ways"), before) {
        (None, Some(before)) => before.ways.iter().map(|way| way.with_facts(&own)).collect(),
        (None, None) => no_way(report, &key.name, key.at, known),
        (Some(list), _) if matches!(&list.kind, NodeKind::List(items) if items.is_empty()) => {
            no_way(report, &key.name, list.at, known)
        }
        (Some(list), _) => list
            .items()
            .iter()
            .filter_map(|node| way(report, (origin, &key.name), node, &facts))
            .collect(),
    };
    let title = fields
        .some_text("title")
        .or_else(|| before.map(|agent| agent.title.clone()));
    KnownAgent {
        title: title.unwrap_or_else(|| key.name.clone()),
        name: key.name.clone(),
        origin,
        facts,
        ways,
    }
}

fn no_way(
    report: &mut DiagnosticReport,
    name: &str,
    at: SourceSpan,
    known: &KnownAgents,
) -> Vec<LaunchMethod> {
    let hint = nearest(name, known.names().filter(|known| *known != name)).map_or_else(
        || "add `ways`, a list of `acp: …` and `command: …`".to_owned(),
        |near| format!("did you mean `{near}`? An agent of your own needs `ways`"),
    );
    report.error_hint(
        at,
        format!("the agent {} has no command", quoted(name)),
        hint,
    );
    Vec::new()
}

fn way(
    report: &mut DiagnosticReport,
    (origin, name): (AgentOrigin, &str),
    node: &ConfigNode,
    common: &AgentFacts,
) -> Option<LaunchMethod> {
    if !matches!(node.kind, NodeKind::Map(_)) {
        return None;
    }
    let fields = ConfigFields::of(&WAY, Some(node));
    let entry = AgentEntry {
        name,
        at: node.at,
        fields,
        ways: &["acp", "command"],
        origin,
    };
    let AgentDescription::Run(spec) = entry.read(report, |_| common.clone())? else {
        return None;
    };
    let program = fields
        .some_text("program")
        .or_else(|| Some(program_of(spec.command_line()?).to_owned()))?;
    Some(LaunchMethod {
        program,
        version: fields.some_text("version"),
        spec: *spec,
    })
}

pub fn find_program(program: &str, path: &OsStr) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program))
            .filter(|file| file.is_absolute() && is_executable(file));
    }
    let folders = env::split_paths(path).filter(|folder| folder.is_absolute());
    folders
        .map(|folder| folder.join(program))
        .find(|file| is_executable(file))
}
