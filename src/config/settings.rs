//! What a config says, once it is known to be right.
//!
//! Owns the settings and the choice of the agent. Does not read anything (see [`mod@super::load`]), and does not say what
//! holds for one session (see [`super::resolve`]).
//!
//! # Invariants
//! - Settings exist without an agent, so that a config can be checked where none is installed.

use std::{collections::BTreeMap, ffi::OsStr, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::{
    diagnostic::{Diagnostic, names, quoted, suggest},
    hooks::HookLists,
    known_agents::{KnownAgent, KnownAgents, how_to_install},
    nats::NatsConfig,
};
use crate::engine::{
    actor::UserCommand,
    hooks::point::HookPoint,
    policy::{
        AgentSpec, AutomationHook, BackoffPolicy, Budget, CompletionInstructions, ContextPolicy, GatePolicies,
        HookSpec, LimitsPlan, PermissionRule, RetryLimitPolicy, RuleSpec, SettledPolicy, StopHook, StopPlan,
        SubmitPlan, Workflow,
    },
    time::TimeSpan,
};

/// Everything that a config says.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The config's file.
    pub path: Option<PathBuf>,
    /// The session's name, if it is given.
    pub session: Option<String>,
    /// What the agent is asked to do, from the config or from the file that it names.
    pub prompt: Option<String>,
    /// The agent's name, if it is given.
    pub agent: Option<String>,
    /// The agents that the config describes.
    pub agents: BTreeMap<String, AgentSpec>,
    /// The agents that need no entry.
    pub known: KnownAgents,
    /// The rules of the session, without the agent.
    pub draft: PlanDraft,
    /// Hooks, agents and limits by the type of a task.
    pub task_types: BTreeMap<String, TaskType>,
    /// What the entries of agents say beside how they are run, where they say something.
    pub notes: BTreeMap<String, AgentOverrides>,
    /// The lines of the project's hooks.
    pub lines: BTreeMap<(HookPoint, String), usize>,
    /// A NATS server.
    pub nats: Option<NatsConfig>,
    /// How the screen looks.
    pub ui: UiSettings,
    /// Every file that decides what runs, for trust.
    pub documents: Vec<ConfigDocument>,
    /// What is allowed, and perhaps not meant.
    pub warnings: Vec<Diagnostic>,
}

/// A [`Plan`](crate::engine::policy::SessionPlan) without its agent. The fields are the plan's.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct PlanDraft {
    pub max_iterations: u32,
    pub context: ContextPolicy,
    pub max_hook_retries: u32,
    pub instructions: CompletionInstructions,
    pub on_limit: RetryLimitPolicy,
    pub max_consecutive_errors: u32,
    pub turn_timeout: TimeSpan,
    pub output_limit: usize,
    pub backoff: Option<BackoffPolicy>,
    pub gates: GatePolicies,
    pub hooks: BTreeMap<HookPoint, Vec<HookSpec>>,
    pub automation: Vec<AutomationHook>,
    pub workflows: BTreeMap<String, Workflow>,
    pub stop: StopPlan,
    pub permissions: Vec<PermissionRule>,
    pub agent_may: Vec<UserCommand>,
    pub protect: Vec<String>,
    pub budget: Budget,
    pub limits: LimitsPlan,
    /// The names of the agents that take over at a usage limit.
    pub fallback: Vec<String>,
    pub submit: SubmitPlan,
}

/// What the entry of an agent says beside how it is run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AgentOverrides {
    /// The hooks of each point that the agent replaces; an empty list means none.
    pub hooks: HookLists,
    /// What it is told when it reviews.
    pub prompt: Option<String>,
}

/// A file whose content decides what runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigDocument {
    /// Its name, relative to the config's folder where it was written so.
    pub name: String,
    /// What it says.
    pub text: String,
}

/// What holds for tasks of one type.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskType {
    /// The hooks of each point that the type replaces; an empty list means none.
    pub hooks: HookLists,
    /// Who may work on it; everybody if absent.
    pub agents: Option<TaskAgents>,
    /// Who is asked whether the work is complete, if not those of the project.
    pub stop_hooks: Option<Vec<StopHook>>,
    /// What follows when an iteration settles, where the type has stop hooks of its own.
    pub settled: Option<SettledPolicy>,
    /// The rules of the stop decision, if not those of the project.
    pub rules: Option<Vec<RuleSpec>>,
    /// How many iterations there may be.
    pub max_iterations: Option<u32>,
    /// How often a blocked stop is sent back.
    pub max_hook_retries: Option<u32>,
    /// How often the agent may repair what blocked a submit or a merge.
    pub remediation_attempts: Option<u32>,
    /// How long one turn may take.
    pub turn_timeout: Option<TimeSpan>,
}

impl TaskType {
    /// Who may do the work, if not everybody may.
    pub fn implementers(&self) -> Option<&[String]> {
        self.agents.as_ref().map(|agents| agents.implementer.as_slice()).filter(|names| !names.is_empty())
    }
}

/// Who may work on a type of task.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskAgents {
    /// Who does the work.
    pub implementer: Vec<String>,
    /// Who reviews it.
    pub gatekeeper: Vec<String>,
}

/// How the screen looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UiSettings {
    /// The colours.
    pub theme: ThemeName,
    /// Whether the mouse does something.
    pub mouse: bool,
    /// Whether the terminal is told when a person is needed.
    pub notify: bool,
}

/// The colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThemeName {
    /// As the terminal has it.
    #[default]
    Auto,
    /// For a dark background.
    Dark,
    /// For a light background.
    Light,
    /// For weak eyes and bright rooms.
    HighContrast,
}

/// Why there is no agent to run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Nobody has that name.
    #[error("there is no agent {}\n  {hint}", quoted(.name))]
    UnknownAgent {
        /// The name that was asked for.
        name: String,
        /// What was probably meant.
        hint: String,
    },
    /// No type of task has that name.
    #[error("there is no task type {}\n  {hint}", quoted(.name))]
    UnknownType {
        /// The name that was asked for.
        name: String,
        /// What was probably meant.
        hint: String,
    },
    /// The agent is not for this type of task.
    #[error("{0}\n  take one of them with `--agent NAME`, or change `task_types:`")]
    NotAllowed(String),
    /// It is known, but not there.
    #[error(
        "the agent `{name}` is not installed: there is no {} on PATH{}\n  or describe one under `agents:`, take another \
         with `--agent NAME`, or look around with `creel demo`",
        either(.programs), ways_out(.install)
    )]
    NotInstalled {
        /// The agent.
        name: String,
        /// What is missing; one of them would do.
        programs: Vec<String>,
        /// How to install it; one of them would do.
        install: Vec<String>,
    },
    /// None was named, and none was found.
    #[error("{found}\n  {hint}")]
    NoAgent {
        /// What there was to choose from.
        found: String,
        /// The ways out.
        hint: String,
    },
}

/// What a person can do about an unknown agent.
pub(super) const DESCRIBE: &str = "describe it under `agents:`; `creel agents` lists those that need no entry";

/// `a`, `b` or `c`.
fn either(all: &[String]) -> String {
    match all {
        [] => String::new(),
        [one] => quoted(one),
        [first @ .., last] => {
            let first: Vec<&str> = first.iter().map(String::as_str).collect();
            format!("{} or {}", names(&first), quoted(last))
        }
    }
}

fn ways_out(install: &[String]) -> String {
    install.iter().enumerate().fold(String::new(), |all, (n, line)| {
        let lead = if n == 0 { "install it" } else { "or" };
        format!("{all}\n  {lead}: {line}")
    })
}

impl Default for Settings {
    /// What an empty config says.
    fn default() -> Self {
        super::load::defaults()
    }
}

impl Settings {
    pub(super) fn pick(&self, asked: Option<&str>, path: &OsStr) -> Result<(String, AgentSpec), PlanError> {
        if let Some(name) = asked.or(self.agent.as_deref()) {
            return self.named(name, path);
        }
        if let Some((name, spec)) = self.agents.first_key_value().filter(|_| self.agents.len() == 1) {
            return Ok((name.clone(), spec.clone()));
        }
        match self.known.preferred(path) {
            Some((agent, _)) => self.named(&agent.name, path),
            None => Err(self.no_agent()),
        }
    }

    fn named(&self, name: &str, path: &OsStr) -> Result<(String, AgentSpec), PlanError> {
        if let Some(spec) = self.agents.get(name) {
            return Ok((name.to_owned(), spec.clone()));
        }
        let Some(known) = self.known.named(name) else {
            let all = agent_names(self.agents.keys(), &self.known);
            let hint = suggest(name, all, "there are").unwrap_or_else(|| DESCRIBE.to_owned());
            return Err(PlanError::UnknownAgent { name: name.to_owned(), hint });
        };
        match known.installed(path) {
            Some(way) => Ok((name.to_owned(), way.spec.clone())),
            None => Err(not_installed(known)),
        }
    }

    fn no_agent(&self) -> PlanError {
        let mine: Vec<&str> = self.agents.keys().map(String::as_str).collect();
        if mine.is_empty() {
            PlanError::NoAgent {
                found: "no agent was found: none of those that creel knows is on PATH".to_owned(),
                hint: "install one (`creel agents` says how), describe one under `agents:`, or look around with \
                       `creel demo`"
                    .to_owned(),
            }
        } else {
            PlanError::NoAgent {
                found: format!("the config describes several agents and chooses none: {}", names(&mine)),
                hint: "choose one with `agent:` or `--agent NAME`".to_owned(),
            }
        }
    }
}

fn not_installed(agent: &KnownAgent) -> PlanError {
    let owned = |all: Vec<&str>| all.into_iter().map(str::to_owned).collect();
    PlanError::NotInstalled {
        name: agent.name.clone(),
        programs: owned(agent.programs()),
        install: owned(how_to_install(agent.ways.iter())),
    }
}

/// Every name that an agent can be called by.
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
        let agents = names.iter().map(|name| ((*name).to_owned(), AgentSpec::acp(format!("{name}-acp"))));
        Settings { agents: agents.collect(), ..Settings::default() }
    }

    fn picked(settings: &Settings, asked: Option<&str>, path: &OsStr) -> String {
        match settings.plan_with(PlanRequest { agent: asked, max_iterations: Some(7), ..PlanRequest::default() }, path)
        {
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
        assert!(picked(&with_agents(&[]), None, path).starts_with("no agent was found"), "it is not executable");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("permissions");
        assert!(picked(&with_agents(&[]), None, path).starts_with("gemini "));
        assert!(picked(&with_agents(&["mine"]), None, path).starts_with("mine "));
        assert!(picked(&with_agents(&["mine", "yours"]), None, path).starts_with("gemini "));
        assert!(picked(&with_agents(&["mine", "yours"]), Some("yours"), none).starts_with("yours "));
        let named = Settings { agent: Some("mine".to_owned()), ..with_agents(&["mine", "yours"]) };
        assert!(picked(&named, None, path).starts_with("mine "));
        assert!(picked(&named, Some("gemini"), path).starts_with("gemini "));
    }

    #[test]
    fn without_an_agent_the_ways_out_are_named() {
        let none = OsStr::new("");
        expect_test::expect![[r#"
            no agent was found: none of those that creel knows is on PATH
              install one (`creel agents` says how), describe one under `agents:`, or look around with `creel demo`"#]]
        .assert_eq(&picked(&with_agents(&[]), None, none));
        expect_test::expect![[r#"
            the config describes several agents and chooses none: `a`, `b`
              choose one with `agent:` or `--agent NAME`"#]]
        .assert_eq(&picked(&with_agents(&["a", "b"]), None, none));
        expect_test::expect![[r#"
            the agent `claude` is not installed: there is no `claude-agent-acp`, `claude-code-acp` or `claude` on PATH
              install it: npm install -g @agentclientprotocol/claude-agent-acp
              or: npm install -g @anthropic-ai/claude-code
              or describe one under `agents:`, take another with `--agent NAME`, or look around with `creel demo`"#]]
        .assert_eq(&picked(&with_agents(&[]), Some("claude"), none));
        expect_test::expect![[r#"
            there is no agent `cluade`
              did you mean `claude`?"#]]
        .assert_eq(&picked(&with_agents(&[]), Some("cluade"), none));
    }
}
