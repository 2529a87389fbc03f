//! The settings of a valid config.
//!
//! Owns the settings and the choice of the agent. Does not read anything (see [`mod@super::load`]),
//! and does not resolve them for one session (see [`super::resolve`]).
//!
//! # Invariants
//! - Settings exist without an agent, so that a config can be checked where no agent is installed.

use std::{collections::BTreeMap, env, ffi::OsStr, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::{
    agents::{KnownAgent, KnownAgents, LaunchMethod, flags_hint, how_to_install},
    claude::ImportedHook,
    diagnostic::{Diagnostic, names, quoted, suggest},
    hooks::HookLists,
    nats::NatsConfig,
    otel::OtelConfig,
    paths,
};
use crate::{
    engine::{
        policy::{
            AgentFacts, AgentSpec, RuleSpec, SessionPlan, SettledPolicy, StopHook, TypeNotAllowed,
        },
        time::TimeSpan,
    },
    process::programs::{self, MissingProgram},
};

#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// None without a config file.
    pub path: Option<PathBuf>,
    pub session: Option<String>,
    /// From the config, or from the file that it names.
    pub prompt: Option<String>,
    /// What became of each hook of the files under `hooks.import`.
    pub imports: Vec<ImportedHook>,
    pub agent: Option<String>,
    /// The agents under `agents:`.
    pub agents: BTreeMap<String, AgentSpec>,
    /// The agents that need no entry.
    pub known: KnownAgents,
    /// The plan of a session of no task type, before an agent and its hooks are chosen.
    pub base_plan: SessionPlan,
    /// The names of the agents that take over at a usage limit.
    pub fallback: Vec<String>,
    /// The project's hooks and checks.
    pub hooks: HookLists,
    pub task_types: BTreeMap<String, TaskType>,
    /// By agent. Entries without overrides are omitted.
    pub notes: BTreeMap<String, AgentOverrides>,
    pub servers: SessionServers,
    pub ui: UiSettings,
    /// Every file that affects which commands run. Trust covers their contents.
    pub documents: Vec<ConfigDocument>,
    pub warnings: Vec<Diagnostic>,
    /// Further warnings, which only `creel check` shows.
    pub advice: Vec<Diagnostic>,
}

/// The servers that a session reports to. A session gets them from today's config each time it starts
/// or resumes, because a login must not be on record.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionServers {
    pub nats: Option<NatsConfig>,
    pub otel: Option<OtelConfig>,
}

/// The settings in an agent's entry besides its launch method.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AgentOverrides {
    /// The points that the agent overrides. An empty list means no hooks.
    pub hooks: HookLists,
    /// The prompt for its reviews.
    pub prompt: Option<String>,
    /// Set if the entry has no launch method of its own: creel knows how to run the agent.
    pub facts: Option<AgentFacts>,
}

/// A file whose content affects which commands run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigDocument {
    /// Relative to the config's folder if it was written that way.
    pub name: String,
    pub text: String,
}

/// The settings for tasks of one type.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskType {
    /// The points that the type overrides. An empty list means no hooks.
    pub hooks: HookLists,
    /// None means any agent.
    pub agents: Option<TaskAgents>,
    /// None means those of the project.
    pub stop_hooks: Option<Vec<StopHook>>,
    /// Only if the type has its own stop hooks.
    pub settled: Option<SettledPolicy>,
    /// None means those of the project.
    pub rules: Option<Vec<RuleSpec>>,
    pub max_iterations: Option<u32>,
    pub max_hook_retries: Option<u32>,
    /// How often the agent can repair what blocked a submit or a merge.
    pub remediation_attempts: Option<u32>,
    pub turn_timeout: Option<TimeSpan>,
    pub model: Option<String>,
}

impl TaskType {
    /// The agents that can do the work. None means any agent.
    pub fn implementers(&self) -> Option<&[String]> {
        self.agents
            .as_ref()
            .map(|agents| agents.implementer.as_slice())
            .filter(|names| !names.is_empty())
    }

    pub(super) fn override_plan(&self, plan: &mut SessionPlan) {
        plan.max_iterations = self.max_iterations.unwrap_or(plan.max_iterations);
        plan.max_hook_retries = self.max_hook_retries.unwrap_or(plan.max_hook_retries);
        plan.turn_timeout = self.turn_timeout.unwrap_or(plan.turn_timeout);
        plan.submit.remediation_attempts = self
            .remediation_attempts
            .unwrap_or(plan.submit.remediation_attempts);
        if let Some(hooks) = &self.stop_hooks {
            plan.stop.hooks.clone_from(hooks);
            plan.stop.settled = self.settled.unwrap_or(plan.stop.settled);
        }
        if let Some(rules) = &self.rules {
            plan.stop.rules.clone_from(rules);
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskAgents {
    pub implementer: Vec<String>,
    pub gatekeeper: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UiSettings {
    pub theme: ThemeName,
    pub mouse: bool,
    /// Whether creel notifies the terminal when the session needs the user.
    pub notify: bool,
    pub motion: MotionMode,
    pub signs: SignChoice,
    pub hints: HintMode,
}

/// When a line on the screen explains what happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HintMode {
    /// In the user's first sessions, until the user hides it.
    #[default]
    Auto,
    Always,
    Never,
}

/// How much moves on the screen while an agent or a hook works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MotionMode {
    #[default]
    Full,
    /// No spinner, and clocks that change at most once per second.
    Reduced,
}

/// The characters of creel's own signs and frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SignChoice {
    /// ASCII if the locale is not UTF-8.
    #[default]
    Auto,
    Unicode,
    Ascii,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThemeName {
    /// Dark or light, like the terminal's background; the terminal's own colours if that is
    /// unknown.
    #[default]
    Auto,
    Dark,
    Light,
    HighContrast,
    /// The 16 colours of the terminal.
    Terminal,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    #[error("unknown agent {}\n  {hint}", quoted(.name))]
    UnknownAgent {
        name: String,
        /// What the user probably meant, or what to do.
        hint: String,
    },
    #[error("unknown task type {}\n  {hint}", quoted(.name))]
    UnknownType {
        name: String,
        /// What the user probably meant, or what to do.
        hint: String,
    },
    /// The agent is not allowed for this task type.
    #[error("{0}\n  choose one of them with `--agent NAME`, or change `task_types:`")]
    NotAllowed(TypeNotAllowed),
    /// The user named no agent, and none of those that are allowed for this task type is installed.
    #[error("none of the agents for tasks of type {} is installed: {}{first}", quoted(.kind), listed(.allowed))]
    NoneInstalled {
        kind: String,
        allowed: Vec<String>,
        /// How to install the first of them, or what else to do.
        first: String,
    },
    #[error(
        "the agent `{name}` is not installed: creel did not find {} on PATH{}\n  or describe an agent under `agents:`, \
         choose another with `--agent NAME`, or try `creel demo`",
        either(.programs), ways_out("install it", .install)
    )]
    NotInstalled {
        name: String,
        /// The missing programs. One of them is enough.
        programs: Vec<String>,
        /// The ways to install it. One of them is enough.
        install: Vec<String>,
    },
    /// The agent is a command that has no flag for the option.
    #[error("creel does not know how to pass {} to the agent {}\n  {hint}", quoted(.option), quoted(.agent))]
    NoFlag {
        agent: String,
        option: String,
        /// What the user can do.
        hint: String,
    },
    /// The user named no agent, and none was found.
    #[error("{found}\n  {hint}")]
    NoAgent {
        /// The agents that were available to choose from.
        found: String,
        /// What the user can do.
        hint: String,
    },
}

/// What the user can do about an unknown agent.
pub(super) const DESCRIBE: &str =
    "describe it under `agents:`; `creel agents` lists the known agents";

/// `a`, `b` or `c`.
fn either(all: &[String]) -> String {
    match all {
        [] => String::new(),
        [one] => quoted(one),
        [first @ .., last] => {
            format!("{} or {}", listed(first), quoted(last))
        }
    }
}

fn listed(all: &[String]) -> String {
    names(&all.iter().map(String::as_str).collect::<Vec<_>>())
}

fn ways_out(first: &str, install: &[String]) -> String {
    install
        .iter()
        .enumerate()
        .fold(String::new(), |all, (n, line)| {
            let lead = if n == 0 { first } else { "or" };
            format!("{all}\n  {lead}: {line}")
        })
}

impl Default for Settings {
    /// The settings of an empty config.
    fn default() -> Self {
        super::load::defaults()
    }
}

impl Settings {
    pub(super) fn pick(
        &self,
        asked: Option<&str>,
        path: &OsStr,
    ) -> Result<(String, AgentSpec), PlanError> {
        if let Some(name) = asked.or(self.agent.as_deref()) {
            return self.named(name, path);
        }
        let mut described = self.described();
        if let (Some(only), None) = (described.next(), described.next()) {
            return self.named(only, path);
        }
        match self.known.preferred(path) {
            Some((agent, _)) => self.named(&agent.name, path),
            None => Err(self.no_agent()),
        }
    }

    /// The names of all agents under `agents:`.
    pub fn described(&self) -> impl Iterator<Item = &str> {
        let changed = self.notes.iter().filter(|(_, notes)| notes.facts.is_some());
        let changed = changed.map(|(name, _)| name);
        self.agents.keys().chain(changed).map(String::as_str)
    }

    fn named(&self, name: &str, path: &OsStr) -> Result<(String, AgentSpec), PlanError> {
        if let Some(spec) = self.agents.get(name) {
            return Ok((name.to_owned(), spec.clone()));
        }
        let Some(known) = self.known.named(name) else {
            let all = agent_names(self.agents.keys(), &self.known);
            let hint = suggest(name, all, "choose from").unwrap_or_else(|| DESCRIBE.to_owned());
            return Err(PlanError::UnknownAgent {
                name: name.to_owned(),
                hint,
            });
        };
        match known.installed(path) {
            Some(way) => self.changed(name, way).map(|spec| (name.to_owned(), spec)),
            None => Err(not_installed(known)),
        }
    }

    /// How to run an agent under `agents:`, also where it is not installed.
    pub(super) fn described_spec(&self, name: &str) -> Option<AgentSpec> {
        if let Some(spec) = self.agents.get(name) {
            return Some(spec.clone());
        }
        let own = self.notes.get(name)?.facts.as_ref()?;
        let known = self.known.named(name)?;
        let path = env::var_os("PATH").unwrap_or_default();
        let way = known.installed(&path).or_else(|| known.ways.first())?;
        Some(way.with_facts(own).spec)
    }

    /// A known agent, with what its entry under `agents:` changes.
    fn changed(&self, name: &str, way: &LaunchMethod) -> Result<AgentSpec, PlanError> {
        let own = self.notes.get(name).and_then(|notes| notes.facts.as_ref());
        let spec = own.map_or_else(|| way.spec.clone(), |own| way.with_facts(own).spec);
        let options = own.into_iter().flat_map(|own| own.options.keys());
        for option in options {
            can_pass(name, &spec, option)?;
        }
        Ok(spec)
    }

    /// The first of the agents for a task type that can run here.
    pub(super) fn first_installed(
        &self,
        kind: &str,
        allowed: &[String],
        path: &OsStr,
    ) -> Result<(String, AgentSpec), PlanError> {
        let runs = |(_, spec): &(String, AgentSpec)| self.missing_program(spec, path).is_none();
        let found = allowed
            .iter()
            .find_map(|name| self.named(name, path).ok().filter(runs));
        found.ok_or_else(|| PlanError::NoneInstalled {
            kind: kind.to_owned(),
            allowed: allowed.to_vec(),
            first: allowed
                .first()
                .map(|name| self.how_to_get(name, path))
                .unwrap_or_default(),
        })
    }

    fn missing_program(&self, spec: &AgentSpec, path: &OsStr) -> Option<MissingProgram> {
        let root = self
            .path
            .as_deref()
            .map(paths::project_root)
            .unwrap_or_default();
        programs::missing(spec.command_line()?, &root, path)
            .into_iter()
            .next()
    }

    /// What the user can do so that an agent can run here.
    fn how_to_get(&self, name: &str, path: &OsStr) -> String {
        let lead = format!("install {}", quoted(name));
        match self.named(name, path) {
            Ok((_, spec)) => {
                let missing = self
                    .missing_program(&spec, path)
                    .map(|missing| format!("\n  {missing}"));
                let way_out = match spec.facts().and_then(|facts| facts.install.clone()) {
                    Some(install) => ways_out(&lead, &[install]),
                    None => {
                        "\n  install it, or correct the agent's command under `agents:`".to_owned()
                    }
                };
                missing.unwrap_or_default() + &way_out
            }
            Err(PlanError::NotInstalled { install, .. }) => ways_out(&lead, &install),
            Err(error) => format!("\n  {error}"),
        }
    }

    fn no_agent(&self) -> PlanError {
        let mine: Vec<&str> = self.described().collect();
        if mine.is_empty() {
            PlanError::NoAgent {
                found: "no agent found: none of the agents that creel knows is on PATH".to_owned(),
                hint: "install one (`creel agents` shows how), describe one under `agents:`, or try `creel demo`"
                    .to_owned(),
            }
        } else {
            PlanError::NoAgent {
                found: format!(
                    "the config describes several agents and chooses none: {}",
                    names(&mine)
                ),
                hint: "choose one with `agent:` or `--agent NAME`".to_owned(),
            }
        }
    }
}

/// An error if the agent is a command without a flag for the option.
pub(super) fn can_pass(agent: &str, spec: &AgentSpec, option: &str) -> Result<(), PlanError> {
    if spec.accepts(option) {
        return Ok(());
    }
    Err(PlanError::NoFlag {
        agent: agent.to_owned(),
        option: option.to_owned(),
        hint: spec.facts().map_or_else(
            || "a script has no options: leave it out, or choose another agent".to_owned(),
            |known| flags_hint(option, known),
        ),
    })
}

fn not_installed(agent: &KnownAgent) -> PlanError {
    let owned = |all: Vec<&str>| all.into_iter().map(str::to_owned).collect();
    PlanError::NotInstalled {
        name: agent.name.clone(),
        programs: owned(agent.programs()),
        install: owned(how_to_install(agent.ways.iter())),
    }
}

pub(super) fn agent_names<'a>(
    mine: impl Iterator<Item = &'a String>,
    known: &'a KnownAgents,
) -> impl Iterator<Item = &'a str> {
    mine.map(String::as_str).chain(known.names())
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;
    use crate::config::PlanRequest;

    fn with_agents(names: &[&str]) -> Settings {
        let agents = names
            .iter()
            .map(|name| ((*name).to_owned(), AgentSpec::acp(format!("{name}-acp"))));
        Settings {
            agents: agents.collect(),
            ..Settings::default()
        }
    }

    fn picked(settings: &Settings, asked: Option<&str>, path: &OsStr) -> String {
        match settings.plan_with(
            PlanRequest {
                agent: asked,
                max_iterations: Some(7),
                ..PlanRequest::default()
            },
            path,
        ) {
            Ok(plan) => {
                assert_eq!(plan.max_iterations, 7);
                format!("{} {:?}", plan.agent, plan.agent_spec)
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_agent_is_the_one_named_then_the_only_one_then_one_that_is_installed() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("gemini");
        fs::write(&program, "").expect("a file");
        let path = folder.path().as_os_str();
        let none = OsStr::new("");
        assert!(
            picked(&with_agents(&[]), None, path).starts_with("no agent found"),
            "it is not executable"
        );
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("permissions");
        assert!(picked(&with_agents(&[]), None, path).starts_with("gemini "));
        assert!(picked(&with_agents(&["mine"]), None, path).starts_with("mine "));
        assert!(picked(&with_agents(&["mine", "yours"]), None, path).starts_with("gemini "));
        assert!(
            picked(&with_agents(&["mine", "yours"]), Some("yours"), none).starts_with("yours ")
        );
        let named = Settings {
            agent: Some("mine".to_owned()),
            ..with_agents(&["mine", "yours"])
        };
        assert!(picked(&named, None, path).starts_with("mine "));
        assert!(picked(&named, Some("gemini"), path).starts_with("gemini "));
    }

    #[test]
    fn without_an_agent_the_ways_out_are_named() {
        let none = OsStr::new("");
        expect_test::expect![[r#"
            no agent found: none of the agents that creel knows is on PATH
              install one (`creel agents` shows how), describe one under `agents:`, or try `creel demo`"#]]
        .assert_eq(&picked(&with_agents(&[]), None, none));
        expect_test::expect![[r#"
            the config describes several agents and chooses none: `a`, `b`
              choose one with `agent:` or `--agent NAME`"#]]
        .assert_eq(&picked(&with_agents(&["a", "b"]), None, none));
        expect_test::expect![[r#"
            the agent `claude` is not installed: creel did not find `claude-agent-acp`, `claude-code-acp` or `claude` on PATH
              install it: npm i -g @agentclientprotocol/claude-agent-acp # Node 22+
              or: npm install -g @anthropic-ai/claude-code
              or describe an agent under `agents:`, choose another with `--agent NAME`, or try `creel demo`"#]]
        .assert_eq(&picked(&with_agents(&[]), Some("claude"), none));
        expect_test::expect![[r#"
            unknown agent `cluade`
              did you mean `claude`?"#]]
        .assert_eq(&picked(&with_agents(&[]), Some("cluade"), none));
    }
}
