//! The text of the config that `creel init` writes.

use std::{ffi::OsStr, fmt};

use super::{InitChoices, InitTemplate};
use crate::{
    config::agents::{KnownAgent, KnownAgents, LaunchMethod, how_to_install},
    engine::policy::RetryLimitPolicy,
    present::text::plain,
};

pub(super) struct ConfigText<'a> {
    pub(super) known: &'a KnownAgents,
    /// The `PATH` to search for programs.
    pub(super) search: &'a OsStr,
    pub(super) choices: &'a InitChoices,
    pub(super) template: Option<InitTemplate>,
    /// The schema's file, relative to the config.
    pub(super) schema: &'a str,
}

impl fmt::Display for ConfigText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let iterations = if self.template == Some(InitTemplate::Security) {
            20
        } else {
            10
        };
        writeln!(f, "# yaml-language-server: $schema={}", self.schema)?;
        writeln!(
            f,
            "# `creel config example` prints every key with its default."
        )?;
        write!(
            f,
            "version: 1\n{}max_iterations: {iterations}\n{}",
            self.agent(),
            self.checks()
        )?;
        writeln!(f, "on_limit: {}", limit(self.choices.on_limit))?;
        f.write_str(PERMISSIONS)?;
        f.write_str(&self.stop())
    }
}

const PERMISSIONS: &str = "\
# permissions:   # for agents that ask before they act: the first rule that fits decides, else creel asks you
#   - { kind: [read, search, edit], action: allow }
#   - { kind: execute, action: ask }
";

impl ConfigText<'_> {
    fn agent(&self) -> String {
        if let Some(agent) = self
            .choices
            .agent
            .as_deref()
            .and_then(|name| self.known.named(name))
        {
            return named(agent, agent.installed(self.search));
        }
        let install = install_lines(self.known)
            .into_iter()
            .next()
            .unwrap_or_default();
        format!(
            "# agent: {}   # no known agent is installed here; `creel agents` lists all. For example:\n#   {install}\n",
            self.known.names().next().unwrap_or("NAME")
        )
    }

    fn checks(&self) -> String {
        let note =
            "# must pass after each turn; the agent gets the output of a failure, up to 5 times";
        // The rules of this template already run the tests.
        if self.choices.checks.is_empty() || self.template == Some(InitTemplate::Tdd) {
            return format!("checks: []   {note}\n");
        }
        let checks: String = self
            .choices
            .checks
            .iter()
            .map(|check| format!("  - {}\n", quoted(check)))
            .collect();
        format!("checks:   {note}\n{checks}")
    }

    /// The rules and hooks that decide when the work is complete.
    fn stop(&self) -> String {
        let Some(template) = self.template else {
            return String::new();
        };
        let test = quoted(self.choices.checks.first().map_or("./test", String::as_str));
        match template {
            InitTemplate::Tdd => format!(
                "stop:\n  rules:\n    - {{ name: tests_pass, type: command, command: {test}, timeout: 10m }}\n  hooks:\n    \
                 - {{ action: complete, reason: All tests pass, when: {{ rules: {{ tests_pass: passed }} }} }}\n    \
                 - {{ action: continue, reason: Tests still failing, next_prompt: Fix failing tests and run again }}\n"
            ),
            InitTemplate::Security => SECURITY.to_owned(),
            InitTemplate::Checkpoint => CHECKPOINT.to_owned(),
        }
    }
}

const SECURITY: &str = r#"stop:
  # Write here how you scan this project: each command must exit with 0 when it finds nothing.
  rules:
    - { name: vulns_fixed, type: command, command: "./scan-dependencies", timeout: 10m }
    - { name: sast_clean, type: command, command: "./scan-code", timeout: 10m }
  # The rules of a hard case fail for long; after ten iterations you decide.
  circuit_breaker: 0
  hooks:
    - { action: complete, reason: All vulnerabilities remediated, when: { rules: { vulns_fixed: passed, sast_clean: passed } } }
    - { action: escalate, reason: Max iterations reached - complex vulnerabilities may require manual review, when: { iteration: "10.." } }
    - { action: continue, reason: Vulnerabilities remain }
"#;

const CHECKPOINT: &str = "stop:
  hooks:
    - action: continue
      reason: Halfway checkpoint
      when: { iteration: 5 }
      checkpoint: { executionPhase: midpoint, executionStep: 5, agentContext: { milestone: halfway } }
    - default
";

fn limit(on_limit: RetryLimitPolicy) -> String {
    let name = on_limit_name(on_limit);
    format!(
        "{name}   # if a check still fails then and you are not there: complete (as forced) | escalate | abort"
    )
}

pub(super) const fn on_limit_name(on_limit: RetryLimitPolicy) -> &'static str {
    match on_limit {
        RetryLimitPolicy::Complete => "complete",
        RetryLimitPolicy::Escalate => "escalate",
        RetryLimitPolicy::Abort => "abort",
    }
}

/// The line for the agent, with a comment about how it runs and how to log in.
fn named(agent: &KnownAgent, way: Option<&LaunchMethod>) -> String {
    let name = if is_plain(&agent.name) {
        agent.name.clone()
    } else {
        quoted(&agent.name)
    };
    let Some(way) = way.or(agent.ways.first()) else {
        return format!("agent: {name}\n");
    };
    let how = if way.is_acp() {
        "over ACP"
    } else {
        "one process per turn"
    };
    let login = way
        .login()
        .map(|login| format!("; to log in: {}", one_line(login)))
        .unwrap_or_default();
    format!(
        "agent: {name}   # {}, {how}{login}\n",
        one_line(&agent.title)
    )
}

/// How to install the preferred agents, one line each.
pub(super) fn install_lines(known: &KnownAgents) -> Vec<String> {
    let line = |agent: &KnownAgent| {
        let install = how_to_install(agent.ways.iter())
            .first()
            .map(|line| one_line(line))?;
        Some(format!("{install}   # {}", one_line(&agent.title)))
    };
    known.iter().filter_map(line).take(3).collect()
}

fn is_plain(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

/// Quotes a text for YAML, which accepts JSON strings.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// For a YAML comment, which must not contain a newline.
fn one_line(text: &str) -> String {
    plain(text).split_whitespace().collect::<Vec<_>>().join(" ")
}
