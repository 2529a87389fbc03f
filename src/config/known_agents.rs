//! Agents that need no entry in the config.
//!
//! Owns the table of them: the built-in one in `assets/agents.yaml`, changed by a user's file in
//! the same format. Also finds which launch method is installed on this machine. Does not run
//! anything.
//!
//! # Invariants
//! - Only programs in folders with an absolute path count as installed: a program in a project is
//!   not one that the user installed.

use std::{env, ffi::OsStr, path::PathBuf, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{
    agents::{self, AgentCommand, AgentDescription, AgentEntry, program_of},
    diagnostic::{SourceSpan, nearest, quoted},
    fields::ConfigFields,
    keys::{KNOWN_AGENT, WAY},
    node::{self, ConfigKey, ConfigNode, NodeKind},
    report::DiagnosticReport,
    shape::ValueType,
    validate,
};
use crate::{
    engine::policy::{AgentFacts, AgentSpec, ToolPassing},
    process::programs::{self, is_executable},
};

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

    /// Overrides its facts with those that `said` contains.
    fn retold(&self, said: &AgentFacts) -> Self {
        let mut way = self.clone();
        match &mut way.spec {
            AgentSpec::Acp { known, .. } | AgentSpec::Command { known, .. } => {
                *known = said.clone().or(std::mem::take(known));
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
    let said = agents::facts(report, &fields, origin);
    let facts = said
        .clone()
        .or(before.map(|agent| agent.facts.clone()).unwrap_or_default());
    let ways = match (fields.given("ways"), before) {
        (None, Some(before)) => before.ways.iter().map(|way| way.retold(&said)).collect(),
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
        spec,
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
