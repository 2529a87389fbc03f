//! Whether a session can run here: checks the programs of all agents, hooks, rules and other
//! commands that it can start, and what `nats:` and `otel:` need.
//!
//! Owns what `creel check` reports beyond a valid config, and what `creel run` refuses before
//! anything runs.
//!
//! # Invariants
//! - creel runs nothing that a project's config names. It starts only the program of a known agent,
//!   to ask for its version.

use std::{borrow::Cow, ffi::OsString, fmt::Write as _, iter, path::Path};

use crate::{
    cli::{
        agents::{self, VersionAnswer, VersionQuery, question},
        error::{CliError, CliResult, say},
        target::Project,
    },
    config::{PlanError, Settings, agents::KnownAgents},
    engine::{
        conversation::ToolKind,
        hooks::point::HookPoint,
        policy::{
            AgentSpec, HookAction, HookFailurePolicy, HookSpec, PermissionPolicy, PermissionRule,
            RuleCheck, SessionPlan, StepAction, StopHook, StopHookKind, ToolHookLevel,
            WorkflowStep,
        },
        session::SessionState,
    },
    hooks,
    process::programs::{self, MissingProgram},
    text::shell_word,
};

struct PlannedCommand<'a> {
    owner: String,
    command: Cow<'a, str>,
    /// The working directory, relative to the project's folder.
    folder: Option<&'a str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AgentRole {
    Main,
    /// It works while the main agent has reached a usage limit.
    Fallback,
    /// It reviews before a submit or a merge.
    Gatekeeper,
}

impl AgentRole {
    const fn words(self) -> &'static str {
        match self {
            Self::Main => "the agent",
            Self::Fallback => "the fallback agent",
            Self::Gatekeeper => "the gatekeeper",
        }
    }
}

/// An agent that a session can start.
#[derive(Debug, Clone, Copy)]
struct PlannedAgent<'a> {
    role: AgentRole,
    name: &'a str,
    spec: &'a AgentSpec,
}

/// Why a session of this plan would not work here, as texts of one or more lines. `None` if a
/// signal arrived first. `asked` is the value of `--agent`.
pub(crate) fn problems(
    project: &Project,
    plan: std::result::Result<&SessionPlan, &PlanError>,
    asked: Option<&str>,
) -> CliResult<Option<Vec<String>>> {
    let Project { root, settings, .. } = project;
    let outside;
    let (mut problems, plan) = match plan {
        Err(error) => {
            outside = settings.plan_outside(None);
            (vec![error.to_string()], &outside)
        }
        Ok(plan) => (Vec::new(), plan),
    };
    let Some(of_agents) = agent_problems(root, settings, &planned_agents(plan))? else {
        return Ok(None);
    };
    problems.extend(of_agents);
    problems.extend(missing_helpers(settings, plan, asked));
    problems.extend(command_problems(root, plan));
    problems.extend(nats_problems(settings));
    problems.extend(otel_problems(settings));
    Ok(Some(problems))
}

/// What the user can do instead of installing a missing agent.
pub(crate) const ANOTHER_AGENT: &str =
    "or choose another agent with `--agent NAME`; list the installed agents with `creel agents`";
/// The same for a session that has started.
pub(crate) const RESUME_LATER: &str = "then resume the session";

/// Refuses to start or resume a session whose agent is not installed, before anything runs.
pub(crate) fn require_agent(root: &Path, plan: &SessionPlan, way_out: &str) -> CliResult<()> {
    let Some(problem) = agent_problem(root, plan) else {
        return Ok(());
    };
    Err(CliError::usage(format!(
        "{problem}\n  {way_out}\n  Nothing has run."
    )))
}

/// Says before an unattended session that it stops at an edit, if its agent may ask.
pub(crate) fn warn_about_edits(plan: &SessionPlan) {
    let may_ask = |spec: &AgentSpec| {
        let has_mode = spec
            .facts()
            .is_some_and(|known| known.options.contains_key("mode"));
        matches!(spec, AgentSpec::Acp { mode: None, .. }) && !has_mode
    };
    let fallbacks = plan.limits.fallback.iter().map(|agent| &agent.spec);
    let decides_all = |rule: &PermissionRule| {
        let any_file = rule.paths.is_empty() || rule.paths.iter().any(|path| path == "**");
        let edits = rule.kinds.is_empty() || rule.kinds.contains(&ToolKind::Edit);
        rule.action != PermissionPolicy::Ask && any_file && edits
    };
    let is_decided = plan.gates.permissions != PermissionPolicy::Ask
        || plan.access.permissions.iter().any(decides_all);
    if !is_decided && iter::once(&plan.agent_spec).chain(fallbacks).any(may_ask) {
        say(
            "creel: no user is there to allow edits: if the agent asks before an edit that `permissions:` does not decide,\n  \
             the session stops there (exit code 4). Allow edits in the project: `permissions: [{ kind: edit, path: \"**\", action: allow }]`",
        );
    }
}

/// Warns if hooks at `pre_tool` do not see the tool calls of an agent, or fewer than they could. Returns
/// the warnings.
pub(crate) fn warn_about_unseen_calls(plan: &SessionPlan, known: &KnownAgents) -> Vec<String> {
    let warnings = unseen_calls(plan).into_iter();
    let warnings: Vec<String> = warnings.chain(unseen_wrapped(plan, known)).collect();
    for warning in &warnings {
        say(&format!("creel: warning: {warning}"));
    }
    warnings
}

/// A known agent that another program starts: creel cannot tell what its command line means, and adds
/// no hook.
fn unseen_wrapped(plan: &SessionPlan, known: &KnownAgents) -> Option<String> {
    let hooks = plan.hooks.get(&HookPoint::PreTool)?;
    if !hooks.iter().any(|hook| hook.enabled) {
        return None;
    }
    let fallbacks = plan.limits.fallback.iter();
    let fallbacks = fallbacks.map(|agent| (agent.name.as_str(), &agent.spec));
    let mut all = iter::once((plan.agent.as_str(), &plan.agent_spec)).chain(fallbacks);
    all.find_map(|(name, spec)| {
        let is_described = spec.facts()?.tool_hooks.is_some();
        let line = spec.command_line().filter(|_| !is_described)?;
        let words = line.split(|it: char| it.is_whitespace() || matches!(it, '\'' | '"' | ';'));
        let mut programs = words.map(|word| word.rsplit('/').next().unwrap_or(word));
        let inner = programs.find(|program| {
            let way = known.by_program(program).filter(|way| {
                way.is_acp() == matches!(spec, AgentSpec::Acp { .. })
            });
            way.is_some_and(|way| way.spec.tool_hook_level() == ToolHookLevel::Native)
        })?;
        Some(format!(
            "creel does not add its hook to {name}, because another program starts `{inner}`: hooks at `pre_tool` see at most \
             the calls that the agent asks about. Begin the command with `{inner}`, or describe the agent with `tool_hooks:`",
        ))
    })
}

fn unseen_calls(plan: &SessionPlan) -> Option<String> {
    let hooks = plan.hooks.get(&HookPoint::PreTool)?;
    if !hooks.iter().any(|hook| hook.enabled) {
        return None;
    }
    let own = (plan.agent.as_str(), &plan.agent_spec);
    let fallbacks = plan
        .limits
        .fallback
        .iter()
        .map(|agent| (agent.name.as_str(), &agent.spec));
    let unseen = iter::once(own).chain(fallbacks);
    let unseen = unseen.filter(|(_, spec)| match spec.tool_hook_level() {
        ToolHookLevel::Native | ToolHookLevel::Asks => false,
        ToolHookLevel::Sees | ToolHookLevel::None => **spec != AgentSpec::Outside,
    });
    let names: Vec<&str> = unseen.map(|(name, _)| name).collect();
    (!names.is_empty()).then(|| {
        format!(
            "the hooks at `pre_tool` see no tool call of {}: it asks creel nothing. Use another agent, or the same one over ACP, or `protect:` for files",
            names.join(", ")
        )
    })
}

/// What the user can do about a check whose program is missing.
pub(crate) const ANOTHER_CHECK: &str = "install it, or correct the name under `checks:`";
/// The same for a session that has started, which keeps its plan.
pub(crate) const ANOTHER_CHECK_LATER: &str =
    "install it, then resume the session; or correct the name under `checks:` and start a new one";

/// Refuses to start or resume a session while the program of a check is missing, before anything
/// runs. Only warns about an advisory check.
pub(crate) fn require_checks<'a>(
    root: &Path,
    checks: impl IntoIterator<Item = &'a HookSpec>,
    way_out: &str,
) -> CliResult<()> {
    let mut missing = String::new();
    for check in checks {
        let (Some(program), name) = (hooks::missing_program(&check.action, root), &check.name)
        else {
            continue;
        };
        if check.on_failure == Some(HookFailurePolicy::Ignore) {
            say(&format!(
                "creel: warning: the check `{name}` cannot run: `{program}` is not on PATH"
            ));
        } else {
            let _ = writeln!(
                missing,
                "the check `{name}` cannot start: `{program}` is not on PATH"
            );
        }
    }
    if missing.is_empty() {
        Ok(())
    } else {
        Err(CliError::usage(format!(
            "{missing}  {way_out}\n  Nothing has run."
        )))
    }
}

/// The checks of a new session that must be able to start now: none if something can install their
/// programs first.
pub(crate) fn checks_at_start(plan: &SessionPlan) -> impl Iterator<Item = &HookSpec> {
    let sets_up = plan
        .worktree
        .as_ref()
        .is_some_and(|worktree| !worktree.setup.is_empty());
    let installs = sets_up
        || enabled_hooks(plan, HookPoint::SessionStart)
            .next()
            .is_some();
    enabled_hooks(plan, HookPoint::Stop).filter(move |_| !installs)
}

fn enabled_hooks(plan: &SessionPlan, point: HookPoint) -> impl Iterator<Item = &HookSpec> {
    plan.hooks
        .get(&point)
        .into_iter()
        .flatten()
        .filter(|hook| hook.enabled)
}

/// The checks of a session that must be able to start when it is resumed.
pub(crate) fn checks_of_session(state: &SessionState) -> impl Iterator<Item = &HookSpec> {
    // Until the first iteration, a hook at `session_start` can still install something.
    let has_started = state.iterations.current > 0;
    let plan = &state.began.plan;
    let starts_with_hooks = enabled_hooks(plan, HookPoint::SessionStart)
        .next()
        .is_some();
    let checks = plan.hooks.get(&HookPoint::Stop).into_iter().flatten();
    checks.filter(move |check| {
        (has_started || !starts_with_hooks) && state.hooks.is_enabled(HookPoint::Stop, check)
    })
}

fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_default()
}

/// The agents that a session can start, each once.
fn planned_agents(plan: &SessionPlan) -> Vec<PlannedAgent<'_>> {
    let main = PlannedAgent {
        role: AgentRole::Main,
        name: &plan.agent,
        spec: &plan.agent_spec,
    };
    let fallbacks = plan.limits.fallback.iter();
    let fallbacks = fallbacks.map(|agent| PlannedAgent {
        role: AgentRole::Fallback,
        name: &agent.name,
        spec: &agent.spec,
    });
    let gatekeepers = gatekeepers(plan).filter_map(|name| {
        let spec = &plan.gatekeepers.get(name)?.spec;
        Some(PlannedAgent {
            role: AgentRole::Gatekeeper,
            name,
            spec,
        })
    });
    let mut agents: Vec<PlannedAgent<'_>> = Vec::new();
    for agent in std::iter::once(main).chain(fallbacks).chain(gatekeepers) {
        if !agents.iter().any(|known| known.spec == agent.spec) {
            agents.push(agent);
        }
    }
    agents
}

/// The names under `gatekeeper:` in the enabled hooks.
fn gatekeepers(plan: &SessionPlan) -> impl Iterator<Item = &str> {
    let hooks = plan.hooks.values().flatten().filter(|hook| hook.enabled);
    hooks.flat_map(|hook| match &hook.action {
        HookAction::Gatekeeper(names) => names.iter().map(String::as_str).collect(),
        HookAction::Command(_) | HookAction::Exec(_) | HookAction::Builtin(_) => Vec::new(),
    })
}

/// The fallback agents and gatekeepers that are not installed, and therefore not part of the plan.
fn missing_helpers(settings: &Settings, plan: &SessionPlan, asked: Option<&str>) -> Vec<String> {
    // `--agent A,B` replaces the fallback agents of the config.
    let replaced = asked.is_some_and(|names| names.contains(','));
    let fallbacks = settings
        .fallback
        .iter()
        .filter(|name| !replaced && **name != plan.agent);
    let fallbacks = fallbacks.map(|name| ("`limits.fallback`".to_owned(), name.as_str()));
    let reviewers = gatekeepers(plan).filter(|name| !plan.gatekeepers.contains_key(*name));
    let reviewers =
        reviewers.map(|name| (format!("{} `{name}`", AgentRole::Gatekeeper.words()), name));
    let mut problems = Vec::new();
    for (owner, name) in fallbacks.chain(reviewers) {
        // A gatekeeper that is not an agent is a kind of review.
        if let Err(error @ PlanError::NotInstalled { .. }) = settings.agent_named(name) {
            problems.push(format!("{owner}: {error}"));
        }
    }
    problems
}

/// What the session's own agent lacks, and how to get it.
fn agent_problem(root: &Path, plan: &SessionPlan) -> Option<String> {
    missing_program(
        root,
        PlannedAgent {
            role: AgentRole::Main,
            name: &plan.agent,
            spec: &plan.agent_spec,
        },
    )
}

fn missing_program(
    root: &Path,
    PlannedAgent { role, name, spec }: PlannedAgent<'_>,
) -> Option<String> {
    let missing = programs::missing(spec.command_line()?, root, &search_path())
        .into_iter()
        .next()?;
    let mut text = format!("{} `{name}` cannot start: {missing}", role.words());
    let install = spec.facts().and_then(|facts| facts.install.as_deref());
    match (install, missing) {
        (Some(install), _) => {
            let _ = write!(text, "\n  install it: {install}");
        }
        (None, MissingProgram::NotOnPath(_)) => {
            text += "\n  install it, or correct the agent's command under `agents:`";
        }
        (
            None,
            MissingProgram::NoFile(_)
            | MissingProgram::NotExecutable(_)
            | MissingProgram::NoInterpreter { .. },
        ) => {
            text += "\n  correct it, or the agent's command under `agents:`";
        }
    }
    Some(text)
}

/// What the agents lack. Starts the programs of known agents, all at the same time, to ask for
/// their versions. `None` if a signal arrived first.
fn agent_problems(
    root: &Path,
    settings: &Settings,
    agents: &[PlannedAgent<'_>],
) -> CliResult<Option<Vec<String>>> {
    let missing: Vec<Option<String>> = agents
        .iter()
        .map(|agent| missing_program(root, *agent))
        .collect();
    let present = agents
        .iter()
        .zip(&missing)
        .filter(|(_, missing)| missing.is_none());
    let questions = present
        .filter_map(|(agent, _)| version_question(settings, agent.spec))
        .collect();
    let Some(answers) = agents::ask_all(questions, agents::CHECKING)? else {
        return Ok(None);
    };
    let problems = agents.iter().zip(missing).filter_map(|(agent, missing)| {
        missing.or_else(|| {
            let question = version_question(settings, agent.spec)?;
            let problem = answers.get(&question).and_then(VersionAnswer::problem)?;
            let (words, name, VersionQuery { program, arguments }) =
                (agent.role.words(), agent.name, question);
            Some(format!(
                "{words} `{name}` does not start: `{} {arguments}`: {problem}",
                program.display()
            ))
        })
    });
    Ok(Some(problems.collect()))
}

fn version_question(settings: &Settings, spec: &AgentSpec) -> Option<VersionQuery> {
    let needed = programs::needed(spec.command_line()?);
    let way = settings.known.by_program(needed.first()?)?;
    question(way, &search_path())
}

fn command_problems(root: &Path, plan: &SessionPlan) -> Vec<String> {
    let path = search_path();
    let mut problems = Vec::new();
    for PlannedCommand {
        owner,
        command,
        folder,
    } in commands(plan)
    {
        let folder = folder.map_or_else(|| root.to_owned(), |folder| root.join(folder));
        for missing in programs::missing(&command, &folder, &path) {
            let problem = format!("{owner}: {missing}");
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
    }
    problems
}

fn in_project(owner: String, command: &str) -> PlannedCommand<'_> {
    PlannedCommand {
        owner,
        command: command.into(),
        folder: None,
    }
}

/// The command line of a hook that starts a process.
fn hook_command(hook: &HookSpec) -> Option<Cow<'_, str>> {
    Some(match &hook.action {
        HookAction::Command(command) => Cow::Borrowed(command.as_str()),
        // Its arguments are no commands, whatever they say.
        HookAction::Exec(arguments) => shell_word(arguments.first()?).into(),
        HookAction::Builtin(call) => call.options.command.as_deref()?.into(),
        HookAction::Gatekeeper(_) => return None,
    })
}

/// The commands that the session runs by itself.
fn commands(plan: &SessionPlan) -> Vec<PlannedCommand<'_>> {
    let named = |what: &str, name: &str, command: &str| {
        if name == command {
            what.to_owned()
        } else {
            format!("{what} `{name}`")
        }
    };
    let hooks = plan
        .hooks
        .iter()
        .flat_map(|(point, hooks)| hooks.iter().map(move |hook| (point.name(), hook)));
    let automation = plan
        .automation
        .iter()
        .map(|hook| ("automation", &hook.spec));
    let hooks = hooks
        .chain(automation)
        .filter(|(_, hook)| hook.enabled)
        .filter_map(|(point, hook)| {
            let owner = named(
                &format!("the {point} hook"),
                &hook.name,
                &hook.action.describe(),
            );
            Some(PlannedCommand {
                owner,
                command: hook_command(hook)?,
                folder: None,
            })
        });
    let rules = plan
        .stop
        .rules
        .iter()
        .filter(|rule| rule.enabled)
        .filter_map(|rule| match &rule.check {
            RuleCheck::Command { env, .. } if env.contains_key("PATH") => None,
            RuleCheck::Command {
                command, folder, ..
            } => {
                let owner = format!("the rule `{}`", rule.name);
                Some(PlannedCommand {
                    owner,
                    command: command.into(),
                    folder: folder.as_deref(),
                })
            }
            RuleCheck::ContentPattern { .. }
            | RuleCheck::FileExistence { .. }
            | RuleCheck::Coverage { .. } => None,
        });
    let judges = plan.stop.hooks.iter().flat_map(judges);
    let judges = judges.map(|command| in_project("a stop decision hook".to_owned(), command));
    let submit = [
        ("`submit.pr_command`", &plan.submit.pr_command),
        ("`submit.test_command`", &plan.submit.test_command),
    ];
    let submit = submit
        .into_iter()
        .filter_map(|(owner, command)| Some(in_project(owner.to_owned(), command.as_ref()?)));
    let steps = plan.workflows.iter().flat_map(|(workflow, plan)| {
        let steps = plan.steps.iter().flat_map(step_commands);
        steps.map(move |(step, command)| {
            in_project(
                format!("the step `{step}` of the workflow `{workflow}`"),
                command,
            )
        })
    });
    hooks
        .chain(rules)
        .chain(judges)
        .chain(submit)
        .chain(steps)
        .collect()
}

/// The commands of a workflow's step and of its parts, each with the name of its step.
fn step_commands(step: &WorkflowStep) -> Vec<(&str, &str)> {
    match &step.action {
        StepAction::Command(HookSpec {
            action: HookAction::Command(command),
            ..
        }) => vec![(&step.name, command)],
        StepAction::Parallel(parts) => parts.iter().flat_map(step_commands).collect(),
        StepAction::Command(_)
        | StepAction::CreateTask(_)
        | StepAction::UpdateTask(_)
        | StepAction::Condition(_)
        | StepAction::Noop => Vec::new(),
    }
}

/// The commands of a stop hook and of its parts.
fn judges(hook: &StopHook) -> Vec<&str> {
    if !hook.enabled {
        return Vec::new();
    }
    let own = if let StopHookKind::Command { command, .. } = &hook.judge {
        Some(command.as_str())
    } else {
        None
    };
    own.into_iter()
        .chain(hook.parts().iter().flat_map(judges))
        .collect()
}

fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some()
}

fn otel_problems(settings: &Settings) -> Vec<String> {
    let servers = settings.servers.otel.iter();
    let variables = servers.flat_map(|otel| otel.missing_variables(is_set));
    variables
        .map(|name| format!("`otel:` needs the environment variable `{name}`, which is not set"))
        .collect()
}

fn nats_problems(settings: &Settings) -> Vec<String> {
    let Some(nats) = &settings.servers.nats else {
        return Vec::new();
    };
    let variables = nats.missing_variables(is_set).into_iter();
    let variables = variables
        .map(|name| format!("`nats:` needs the environment variable `{name}`, which is not set"));
    let files = nats.files().into_iter().filter(|file| !file.exists());
    let files = files.map(|file| {
        format!(
            "`nats:` needs the file {}, which does not exist",
            file.display()
        )
    });
    variables.chain(files).collect()
}
