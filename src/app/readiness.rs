//! Whether a session can run here: the agent's program, the programs of hooks and rules, and what `nats:` needs.
//!
//! Owns what `creel check` reports beyond a valid config, and what `creel run` refuses before anything runs.
//!
//! # Invariants
//! - Nothing that a project's config names is run. Only the program of a known agent is started, to ask for its version.

use std::{collections::BTreeSet, ffi::OsString, fmt::Write as _, path::Path};

use super::{
    Failure, Result,
    agents::{
        question,
        version::{self, Question, VersionAnswer},
    },
    project::Project,
};
use crate::{
    config::{
        ConfigError, Settings,
        programs::{self, MissingProgram},
    },
    engine::policy::{AgentSpec, HookAction, Judge, Plan, RuleCheck, StopHook},
};

/// A command of a plan, and what it belongs to.
struct PlannedCommand<'a> {
    owner: String,
    command: &'a str,
    /// Where it runs, relative to the project's folder.
    folder: Option<&'a str>,
}

/// Why a session of this plan would not work here, as texts of one or more lines. `None`, if a signal came first.
pub(super) fn problems(
    project: &Project,
    plan: std::result::Result<&Plan, &ConfigError>,
) -> Result<Option<Vec<String>>> {
    let mut problems = Vec::new();
    match plan {
        Err(error) => {
            problems.push(error.to_string());
            problems.extend(hook_problems(&project.root, &project.settings.plan_outside()));
        }
        Ok(plan) => {
            match agent_problem(&project.root, plan) {
                Some(missing) => problems.push(missing),
                None => match check_start(&project.settings, plan)? {
                    StartCheck::Fine => {}
                    StartCheck::Fails(problem) => problems.push(problem),
                    StartCheck::Interrupted => return Ok(None),
                },
            }
            problems.extend(hook_problems(&project.root, plan));
        }
    }
    problems.extend(nats_problems(&project.settings));
    Ok(Some(problems))
}

/// What the user can do instead of installing a missing agent.
pub(super) const ANOTHER_AGENT: &str =
    "or choose another agent with `--agent NAME`; `creel agents` lists those that are installed";
/// The same for a session that has begun.
pub(super) const RESUME_LATER: &str = "then resume the session";

/// Refuses to start or resume a session whose agent is not there, before anything runs.
pub(super) fn require_agent(root: &Path, plan: &Plan, way_out: &str) -> Result<()> {
    let Some(problem) = agent_problem(root, plan) else { return Ok(()) };
    Err(Failure::usage(format!("{problem}\n  {way_out}\n  Nothing has run.")))
}

fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_default()
}

/// What the agent lacks, and how to get it.
fn agent_problem(root: &Path, plan: &Plan) -> Option<String> {
    let command = plan.agent_spec.command_line()?;
    let missing = programs::missing(command, root, &search_path()).into_iter().next()?;
    let mut text = format!("the agent `{}` cannot start: {missing}", plan.agent);
    let install = plan.agent_spec.facts().and_then(|facts| facts.install.as_deref());
    match (install, missing) {
        (Some(install), _) => {
            let _ = write!(text, "\n  to install it: {install}");
        }
        (None, MissingProgram::NotOnPath(_)) => {
            text += "\n  install it, or correct the agent's command under `agents:`";
        }
        (None, MissingProgram::NoFile(_) | MissingProgram::NotExecutable(_) | MissingProgram::NoInterpreter { .. }) => {
            text += "\n  correct it, or the agent's command under `agents:`";
        }
    }
    Some(text)
}

/// What was found out by starting the agent's program.
enum StartCheck {
    /// It starts, or creel does not know how to ask.
    Fine,
    Fails(String),
    /// A signal came first.
    Interrupted,
}

/// Starts the program of a known agent, to ask for its version.
fn check_start(settings: &Settings, plan: &Plan) -> Result<StartCheck> {
    let Some(question) = version_question(settings, &plan.agent_spec) else { return Ok(StartCheck::Fine) };
    let asked = BTreeSet::from([question.clone()]);
    let Some(answers) = version::ask_all(asked, version::CHECKING)? else { return Ok(StartCheck::Interrupted) };
    let Some(problem) = answers.get(&question).and_then(VersionAnswer::problem) else { return Ok(StartCheck::Fine) };
    let Question { program, arguments } = question;
    let agent = &plan.agent;
    Ok(StartCheck::Fails(format!("the agent `{agent}` does not start: `{} {arguments}`: {problem}", program.display())))
}

fn version_question(settings: &Settings, spec: &AgentSpec) -> Option<Question> {
    let needed = programs::needed(spec.command_line()?);
    let way = settings.known.by_program(needed.first()?)?;
    question(way, &search_path())
}

fn hook_problems(root: &Path, plan: &Plan) -> Vec<String> {
    let path = search_path();
    let mut problems = Vec::new();
    for PlannedCommand { owner, command, folder } in commands(plan) {
        let folder = folder.map_or_else(|| root.to_owned(), |folder| root.join(folder));
        for missing in programs::missing(command, &folder, &path) {
            let problem = format!("{owner}: {missing}");
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
    }
    problems
}

/// The commands that the session runs by itself.
fn commands(plan: &Plan) -> Vec<PlannedCommand<'_>> {
    let named = |what: &str, name: &str, command: &str| {
        if name == command { what.to_owned() } else { format!("{what} `{name}`") }
    };
    let in_project = |owner: String, command| PlannedCommand { owner, command, folder: None };
    let hooks = plan.hooks.iter().flat_map(|(point, hooks)| hooks.iter().map(move |hook| (point.name(), hook)));
    let automation = plan.automation.iter().map(|hook| ("automation", &hook.spec));
    let hooks = hooks.chain(automation).filter(|(_, hook)| hook.enabled).filter_map(|(point, hook)| {
        let command = match &hook.action {
            HookAction::Command(command) => command,
            HookAction::Builtin(_) | HookAction::Gatekeeper(_) => return None,
        };
        Some(in_project(named(&format!("the {point} hook"), &hook.name, command), command))
    });
    let rules = plan.stop.rules.iter().filter(|rule| rule.enabled).filter_map(|rule| match &rule.check {
        RuleCheck::Command { env, .. } if env.contains_key("PATH") => None,
        RuleCheck::Command { command, folder, .. } => {
            let owner = format!("the rule `{}`", rule.name);
            Some(PlannedCommand { owner, command, folder: folder.as_deref() })
        }
        RuleCheck::ContentPattern { .. } | RuleCheck::FileExistence { .. } | RuleCheck::Coverage { .. } => None,
    });
    let judges = plan.stop.hooks.iter().flat_map(judges);
    let judges = judges.map(|command| in_project("a stop decision hook".to_owned(), command));
    hooks.chain(rules).chain(judges).collect()
}

/// The commands of a stop hook, those of its parts included.
fn judges(hook: &StopHook) -> Vec<&str> {
    if !hook.enabled {
        return Vec::new();
    }
    let own = if let Judge::Command { command, .. } = &hook.judge { Some(command.as_str()) } else { None };
    own.into_iter().chain(hook.parts().iter().flat_map(judges)).collect()
}

fn nats_problems(settings: &Settings) -> Vec<String> {
    let Some(nats) = &settings.nats else { return Vec::new() };
    let is_set = |name: &str| std::env::var_os(name).is_some();
    let variables = nats.missing_variables(is_set).into_iter();
    let variables = variables.map(|name| format!("`nats:` needs the environment variable `{name}`, which is not set"));
    let files = nats.files().into_iter().filter(|file| !file.exists());
    let files = files.map(|file| format!("`nats:` needs the file {}, which does not exist", file.display()));
    variables.chain(files).collect()
}
