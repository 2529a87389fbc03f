//! The question before a new config or the plan of a session runs anything, and what they would
//! run.

use std::{
    collections::BTreeSet,
    io::{self, BufRead as _, IsTerminal as _, Write as _},
    path::{Path, PathBuf},
};

use crate::{
    agents,
    cli::{
        error::{CliError, CliResult, say},
        target::{self, Project},
    },
    config::{
        ConfigDocument, NatsConfig, PlanRequest,
        trust::{commands, plan_document},
    },
    engine::policy::{AgentSpec, PermissionPolicy, SessionPlan},
    present::text::plain,
    protocol::process_origin,
    worktrees,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TrustFlag {
    Trust,
    Unsaid,
}

impl TrustFlag {
    /// The value of `--trust`.
    pub(crate) const fn given(flag: bool) -> Self {
        if flag { Self::Trust } else { Self::Unsaid }
    }
}

/// Whether the user has allowed these commands.
pub(crate) fn is_allowed(
    place: &Path,
    documents: &[ConfigDocument],
    commands: &[String],
) -> CliResult<bool> {
    if commands.is_empty() {
        return Ok(true);
    }
    let store = target::trust_store()?;
    Ok(store.trusts(place, documents)
        || origin_place(place).is_some_and(|origin| store.trusts(&origin, documents)))
}

/// For a config in a worktree of a session: the place of the same config in the project. Trust in a
/// project covers its worktrees as long as the config is the same.
fn origin_place(place: &Path) -> Option<PathBuf> {
    let folder = place.parent()?;
    let project = worktrees::inventory::project_of(folder)?;
    let root = crate::config::paths::project_root(place);
    Some(project.join(place.strip_prefix(root).ok()?))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TrustSubject {
    Config,
    Session,
}

/// Makes sure that the user has allowed what a config would run.
pub(crate) fn require(
    place: &Path,
    documents: &[ConfigDocument],
    commands: &[String],
    asked: TrustFlag,
) -> CliResult<()> {
    ensure(TrustSubject::Config, (place, documents), commands, asked)
}

/// Makes sure that the user has allowed what a resumed session of this project would run.
pub(crate) fn require_session(root: &Path, plan: &SessionPlan, asked: TrustFlag) -> CliResult<()> {
    let content = [plan_document(plan)];
    ensure(
        TrustSubject::Session,
        (&place_of_plans(root), &content),
        &of_session(plan),
        asked,
    )
}

fn ensure(
    subject: TrustSubject,
    (place, documents): (&Path, &[ConfigDocument]),
    commands: &[String],
    asked: TrustFlag,
) -> CliResult<()> {
    if is_allowed(place, documents, commands)? {
        return Ok(());
    }
    refuse_supervised()?;
    let store = target::trust_store()?;
    if asked == TrustFlag::Unsaid && !a_person_agrees(subject, place, commands)? {
        return Err(CliError::usage("not trusted; nothing has run"));
    }
    store
        .trust(place, documents)
        .map_err(|error| cannot_remember(&error))
}

/// Agents and hooks, of any session, cannot decide what creel trusts.
pub(crate) fn refuse_supervised() -> CliResult<()> {
    if process_origin::of_this_process().is_none() {
        return Ok(());
    }
    let way_out = "do that in your own terminal";
    Err(CliError::failed(format!(
        "agents and hooks cannot decide what creel trusts; {way_out}"
    )))
}

fn a_person_agrees(subject: TrustSubject, place: &Path, commands: &[String]) -> CliResult<bool> {
    let (way_out, noun) = match subject {
        TrustSubject::Config => ("run `creel trust`, or add --trust", "config"),
        // `creel trust` is for the config, which can differ from the session's plan by now.
        TrustSubject::Session => ("add --trust", "session"),
    };
    let list = listed(commands);
    let what = format!(
        "{} wants to run these commands. You have not trusted it yet:\n\n{list}",
        place.display()
    );
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(CliError::usage(format!(
            "{what}\nRead them, then {way_out}. Nothing has run."
        )));
    }
    say(&format!("creel: {what}"));
    let _ = write!(
        io::stderr(),
        "\nTrust this {noun} as it is now, and run them? [y/N] "
    );
    let mut answer = String::new();
    io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(|error| CliError::failed(format!("cannot read the answer: {error}")))?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

pub(crate) fn listed(commands: &[String]) -> String {
    commands
        .iter()
        .map(|command| format!("  {}\n", plain(command).replace('\n', "\n    ")))
        .collect()
}

pub(crate) fn cannot_remember(error: &io::Error) -> CliError {
    CliError::failed(format!(
        "cannot store what you trust: {error}\n  creel keeps it in its folder under XDG_STATE_HOME"
    ))
}

/// The place under which the plans of a project's sessions are trusted.
pub(crate) fn place_of_plans(root: &Path) -> PathBuf {
    root.join(".creel").join("sessions")
}

/// Trusts the plan for a later resume, which also asks for trust since a journal can come with a
/// clone. The user has just allowed it.
pub(crate) fn remember_plan(root: &Path, plan: &SessionPlan) -> CliResult<()> {
    target::trust_store()?
        .trust(&place_of_plans(root), &[plan_document(plan)])
        .map_err(|error| CliError::failed(format!("cannot store what you trust: {error}")))
}

/// What a resumed session would run. Never empty, since its journal says what happens next.
fn of_session(plan: &SessionPlan) -> Vec<String> {
    let next = "(session) the next steps in its journal".to_owned();
    of_plan(plan).into_iter().chain([next]).collect()
}

/// What a session would run, including its agent's script.
pub(crate) fn of_plan(plan: &SessionPlan) -> Vec<String> {
    commands(plan, true)
        .into_iter()
        .chain(scripted(plan))
        .collect()
}

fn scripted(plan: &SessionPlan) -> Vec<String> {
    let all = std::iter::once(&plan.agent_spec)
        .chain(plan.gatekeepers.values().map(|gatekeeper| &gatekeeper.spec));
    all.flat_map(|spec| match spec {
        AgentSpec::Scripted { script } => agents::scripted::commands(script),
        AgentSpec::Acp { .. } | AgentSpec::Command { .. } | AgentSpec::Outside => Vec::new(),
    })
    .collect()
}

/// What a project's config would run, with this plan and with every other that it allows, since the
/// user trusts the whole text.
pub(crate) fn of_project(project: &Project, plan: &SessionPlan) -> Vec<String> {
    let settings = &project.settings;
    let types = settings.task_types.keys().map(|kind| {
        let planned = settings.plan(PlanRequest {
            task_type: Some(kind),
            ..PlanRequest::default()
        });
        // Without an installed agent for the type, its hooks still count: the user can install one
        // later.
        planned.unwrap_or_else(|_| settings.plan_outside(Some(kind)))
    });
    let agents = settings
        .described()
        .map(|agent| settings.plan_to_trust(agent));
    let others: Vec<SessionPlan> = types.chain(agents).collect();
    let of = |plan: &SessionPlan| {
        let described = settings.described().any(|agent| agent == plan.agent);
        commands(plan, described)
            .into_iter()
            .chain(scripted(plan))
            .chain(allowed(plan))
    };
    // A server runs nothing by itself, but its owner can read everything and send commands to the
    // agent.
    let server = settings.servers.nats.as_ref().map(NatsConfig::shown);
    let server = server
        .map(|url| format!("(nats) sends records to {url}, and receives commands from there"));
    let collector = settings.servers.otel.as_ref();
    let collector = collector.map(|otel| {
        let endpoint = otel.endpoint.shown();
        format!("(otel) sends what the session does to {endpoint}")
    });
    let mut seen = BTreeSet::new();
    let all = std::iter::once(plan)
        .chain(&others)
        .flat_map(of)
        .chain(server)
        .chain(collector);
    all.filter(|line| seen.insert(line.clone())).collect()
}

/// What the config allows the agent without asking.
fn allowed(plan: &SessionPlan) -> Vec<String> {
    let everything = (plan.gates.permissions == PermissionPolicy::Allow)
        .then(|| "(permissions) allows every request of the agent".to_owned());
    let rules = plan
        .access
        .permissions
        .iter()
        .filter(|rule| rule.action == PermissionPolicy::Allow)
        .map(|rule| {
            let kinds: Vec<&str> = rule.kinds.iter().map(|kind| kind.name()).collect();
            let what = if kinds.is_empty() {
                "everything".to_owned()
            } else {
                kinds.join(", ")
            };
            let place = if rule.paths.is_empty() {
                String::new()
            } else {
                format!(" in {}", rule.paths.join(", "))
            };
            format!("(permissions) allows this without asking you: {what}{place}")
        });
    let commands: Vec<&str> = plan
        .access
        .agent_may
        .iter()
        .map(|command| command.name())
        .collect();
    let acts = (!commands.is_empty()).then(|| {
        format!(
            "(agent_may) allows the agent and hooks to run these commands of yours: {}",
            commands.join(", ")
        )
    });
    everything.into_iter().chain(rules).chain(acts).collect()
}
