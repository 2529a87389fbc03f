//! `creel trust` and `creel untrust`, and the question before a new config runs anything.

use std::{
    collections::BTreeSet,
    io::{self, BufRead as _, IsTerminal as _, Write as _},
    path::{Path, PathBuf},
};

use super::{
    AppError, AppResult,
    project::{self, Project},
    say,
};
use crate::{
    agents,
    cli::ConfigArgs,
    config::{
        ConfigDocument, NatsConfig, PlanRequest,
        trust::{commands, plan_document},
    },
    engine::policy::{AgentSpec, PermissionPolicy, SessionPlan},
    present::text::plain,
    process::sweep,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TrustFlag {
    Trust,
    Unsaid,
}

pub(super) fn trust(args: &ConfigArgs) -> AppResult {
    let project = Project::load_existing(args)?;
    let place = project.config_place();
    refuse_own_session(&place)?;
    project::trust_store()?.trust(&place, &project.settings.documents).map_err(|error| cannot_remember(&error))?;
    // A config with a mistake can be trusted, too; `creel check` reports the mistake.
    let may_run =
        project.settings.plan(PlanRequest::default()).map(|plan| of_project(&project, &plan)).unwrap_or_default();
    let may_run = if may_run.is_empty() { String::new() } else { format!(", and may run:\n\n{}", listed(&may_run)) };
    say(&format!("creel: {} is trusted as it is now{may_run}", place.display()));
    Ok(0)
}

pub(super) fn untrust(args: &ConfigArgs) -> AppResult {
    let here = project::here()?;
    let named = args.config.clone().map(|path| here.join(path)).or_else(|| crate::config::paths::find(&here));
    let Some(path) = named else {
        return Err(AppError::usage("there is no config here or above"));
    };
    let place = path.canonicalize().unwrap_or(path);
    refuse_own_session(&place)?;
    let store = project::trust_store()?;
    let root = crate::config::paths::project_root(&place);
    store.untrust(&place_of_plans(&root)).map_err(|error| cannot_remember(&error))?;
    let had = store.untrust(&place).map_err(|error| cannot_remember(&error))?;
    say(&format!("creel: {} {}", place.display(), if had { "is no longer trusted" } else { "was not trusted" }));
    Ok(0)
}

/// Whether the user has allowed these commands.
pub(super) fn is_allowed(place: &Path, documents: &[ConfigDocument], commands: &[String]) -> AppResult<bool> {
    Ok(commands.is_empty() || project::trust_store()?.trusts(place, documents))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TrustSubject {
    Config,
    Session,
}

/// Makes sure that the user has allowed what a config would run.
pub(super) fn require(
    place: &Path,
    documents: &[ConfigDocument],
    commands: &[String],
    asked: TrustFlag,
) -> AppResult<()> {
    ensure(TrustSubject::Config, (place, documents), commands, asked)
}

/// Makes sure that the user has allowed what a resumed session of this project would run.
pub(super) fn require_session(root: &Path, plan: &SessionPlan, asked: TrustFlag) -> AppResult<()> {
    let content = [plan_document(plan)];
    ensure(TrustSubject::Session, (&place_of_plans(root), &content), &of_session(plan), asked)
}

fn ensure(
    subject: TrustSubject,
    (place, documents): (&Path, &[ConfigDocument]),
    commands: &[String],
    asked: TrustFlag,
) -> AppResult<()> {
    if is_allowed(place, documents, commands)? {
        return Ok(());
    }
    refuse_own_session(place)?;
    let store = project::trust_store()?;
    if asked == TrustFlag::Unsaid && !a_person_agrees(subject, place, commands)? {
        return Err(AppError::usage("not trusted; nothing has run"));
    }
    store.trust(place, documents).map_err(|error| cannot_remember(&error))
}

/// Agents and hooks cannot trust the config of their own project, since they could have changed it.
fn refuse_own_session(place: &Path) -> AppResult<()> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let (Some(_), Some(project)) = (variable(sweep::MARK), variable("CREEL_PROJECT")) else { return Ok(()) };
    let own = PathBuf::from(project);
    let own = own.canonicalize().unwrap_or(own);
    if place != place_of_plans(&own) && crate::config::paths::project_root(place) != own {
        return Ok(());
    }
    let way_out = "run `creel trust` in your own terminal";
    Err(AppError::failed(format!(
        "agents and hooks of this project's sessions may not decide what creel trusts; {way_out}"
    )))
}

fn a_person_agrees(subject: TrustSubject, place: &Path, commands: &[String]) -> AppResult<bool> {
    let (way_out, noun) = match subject {
        TrustSubject::Config => ("run `creel trust`, or give --trust", "config"),
        // `creel trust` is for the config, which can differ from the session's plan by now.
        TrustSubject::Session => ("give --trust", "session"),
    };
    let list = listed(commands);
    let what = format!("{} would run these commands, and nobody has allowed that yet:\n\n{list}", place.display());
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(AppError::usage(format!("{what}\nLook at them, then {way_out}. Nothing has run.")));
    }
    say(&format!("creel: {what}"));
    let _ = write!(io::stderr(), "Allow this {noun}, as it is now, to run them? [y/N] ");
    let mut answer = String::new();
    io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(|error| AppError::failed(format!("cannot read the answer: {error}")))?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

fn listed(commands: &[String]) -> String {
    commands.iter().map(|command| format!("  {}\n", plain(command).replace('\n', "\n    "))).collect()
}

fn cannot_remember(error: &io::Error) -> AppError {
    AppError::failed(format!(
        "cannot remember what is trusted: {error}\n  it is kept in creel's folder under XDG_STATE_HOME"
    ))
}

/// The place under which the plans of a project's sessions are trusted.
pub(super) fn place_of_plans(root: &Path) -> PathBuf {
    root.join(".creel").join("sessions")
}

/// What a resumed session would run. Never empty, since its journal says what happens next.
fn of_session(plan: &SessionPlan) -> Vec<String> {
    let next = "(session) whatever its journal says is to be done next".to_owned();
    of_plan(plan).into_iter().chain([next]).collect()
}

/// What a session would run, including its agent's script.
pub(super) fn of_plan(plan: &SessionPlan) -> Vec<String> {
    commands(plan, true).into_iter().chain(scripted(plan)).collect()
}

fn scripted(plan: &SessionPlan) -> Vec<String> {
    let all = std::iter::once(&plan.agent_spec).chain(plan.gatekeepers.values().map(|gatekeeper| &gatekeeper.spec));
    all.flat_map(|spec| match spec {
        AgentSpec::Scripted { script } => agents::scripted::commands(script),
        AgentSpec::Acp { .. } | AgentSpec::Command { .. } | AgentSpec::Outside => Vec::new(),
    })
    .collect()
}

/// What a project's config would run, with this plan and with every other that it allows, since the user trusts the
/// whole text.
pub(super) fn of_project(project: &Project, plan: &SessionPlan) -> Vec<String> {
    let settings = &project.settings;
    let types = settings.task_types.keys().map(|kind| PlanRequest { task_type: Some(kind), ..PlanRequest::default() });
    let agents = settings.agents.keys().map(|agent| PlanRequest { agent: Some(agent), ..PlanRequest::default() });
    let others: Vec<SessionPlan> = types.chain(agents).filter_map(|wanted| settings.plan(wanted).ok()).collect();
    let of = |plan: &SessionPlan| {
        let described = settings.agents.contains_key(&plan.agent);
        commands(plan, described).into_iter().chain(scripted(plan)).chain(allowed(plan))
    };
    // A server runs nothing by itself, but its owner can read everything and send commands to the agent.
    let server = settings.nats.as_ref().map(NatsConfig::shown);
    let server = server.map(|url| format!("(nats) records go to {url}, and commands come from there"));
    let mut seen = BTreeSet::new();
    let all = std::iter::once(plan).chain(&others).flat_map(of).chain(server);
    all.filter(|line| seen.insert(line.clone())).collect()
}

/// What the config allows the agent without asking.
fn allowed(plan: &SessionPlan) -> Vec<String> {
    let everything = (plan.gates.permissions == PermissionPolicy::Allow)
        .then(|| "(permissions) the agent may do whatever it asks for".to_owned());
    let rules = plan.permissions.iter().filter(|rule| rule.action == PermissionPolicy::Allow).map(|rule| {
        let kinds: Vec<&str> = rule.kinds.iter().map(|kind| kind.name()).collect();
        let what = if kinds.is_empty() { "everything".to_owned() } else { kinds.join(", ") };
        let place = if rule.paths.is_empty() { String::new() } else { format!(" in {}", rule.paths.join(", ")) };
        format!("(permissions) the agent may do this without a question: {what}{place}")
    });
    let commands: Vec<&str> = plan.agent_may.iter().map(|command| command.name()).collect();
    let acts = (!commands.is_empty())
        .then(|| format!("(agent_may) the agent and hooks may use these commands of yours: {}", commands.join(", ")));
    everything.into_iter().chain(rules).chain(acts).collect()
}
