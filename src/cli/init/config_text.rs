//! The text of the config that `creel init` writes.

use std::{ffi::OsStr, fmt};

use crate::{
    cli::init::{InitChoices, InitTemplate},
    config::known_agents::{KnownAgent, KnownAgents, LaunchMethod, how_to_install},
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
        let iterations = if self.template == Some(InitTemplate::Security) { 20 } else { 10 };
        writeln!(f, "# yaml-language-server: $schema={}", self.schema)?;
        writeln!(f, "# What creel does in this project. `creel config example` prints every key with its default.")?;
        writeln!(f, "# Commit the schema with this file; `creel schema > {}` writes it again.", self.schema)?;
        writeln!(f, "version: 1\n\n{}", self.agent())?;
        writeln!(f, "max_iterations: {iterations}")?;
        f.write_str(NOTE)?;
        writeln!(f, "\n{}\n{}", self.checks(), limit(self.choices.on_limit))?;
        f.write_str(&self.stop())
    }
}

const NOTE: &str = "# creel ends each prompt with a short note on how to report the end: \
                    <promise>COMPLETE</promise>,
# BLOCKED or ESCALATE. `instructions: none` leaves the note out; any \
                    other text replaces it.
# instructions: auto
";

impl ConfigText<'_> {
    fn agent(&self) -> String {
        if let Some(agent) = self.choices.agent.as_deref().and_then(|name| self.known.named(name)) {
            return named(agent, agent.installed(self.search));
        }
        let install: String = install_lines(self.known).iter().map(|line| format!("#   {line}\n")).collect();
        format!(
            "# No known agent is installed on this machine. Install one of them, for example:\n{install}# `creel agents` \
             lists all. creel then uses the first one that is installed, or the one that you name here:\n# agent: {}\n",
            self.known.names().next().unwrap_or("NAME")
        )
    }

    fn checks(&self) -> String {
        // The rules of this template already run the tests.
        let check = self.choices.check.as_deref().filter(|_| self.template != Some(InitTemplate::Tdd));
        let Some(check) = check else {
            return "checks: []   # commands that must pass after each turn; the agent gets the output of a failure\n"
                .to_owned();
        };
        format!(
            "# After each turn, these must pass. The agent gets the output of a failure, up to max_hook_retries times (5).\n\
             checks:\n  - {}\n",
            quoted(check)
        )
    }

    /// The rules and hooks that decide when the work is complete.
    fn stop(&self) -> String {
        let Some(template) = self.template else { return String::new() };
        let test = quoted(self.choices.check.as_deref().unwrap_or("./test"));
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
    format!(
        "# When the check still fails at the retry limit and you are not there: complete (accept the turn, marked as\n\
         # forced), escalate (stop and wait for you) or abort.\non_limit: {}\n",
        on_limit_name(on_limit)
    )
}

pub(super) const fn on_limit_name(on_limit: RetryLimitPolicy) -> &'static str {
    match on_limit {
        RetryLimitPolicy::Complete => "complete",
        RetryLimitPolicy::Escalate => "escalate",
        RetryLimitPolicy::Abort => "abort",
    }
}

/// The line for the agent, below a comment about how it runs and how to log in.
fn named(agent: &KnownAgent, way: Option<&LaunchMethod>) -> String {
    let name = if is_plain(&agent.name) { agent.name.clone() } else { quoted(&agent.name) };
    let Some(way) = way.or(agent.ways.first()) else { return format!("agent: {name}\n") };
    let how = if way.is_acp() { "over ACP" } else { "one process per turn" };
    let login = way.login().map(|login| format!("# To log in: {}\n", one_line(login))).unwrap_or_default();
    format!(
        "# {}, {how}. `creel agents` lists the others, and how to install each.\n{login}agent: {name}\n",
        one_line(&agent.title)
    )
}

/// How to install the preferred agents, one line each.
pub(super) fn install_lines(known: &KnownAgents) -> Vec<String> {
    let line = |agent: &KnownAgent| {
        let install = how_to_install(agent.ways.iter()).first().map(|line| one_line(line))?;
        Some(format!("{install}   # {}", one_line(&agent.title)))
    };
    known.iter().filter_map(line).take(3).collect()
}

fn is_plain(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

/// Quotes a text for YAML, which accepts JSON strings.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// For a YAML comment, which must not contain a newline.
fn one_line(text: &str) -> String {
    plain(text).split_whitespace().collect::<Vec<_>>().join(" ")
}
