//! `creel trust` and `creel untrust`, and the question before anything of a new config runs.

use std::{
    io::{self, BufRead as _, IsTerminal as _, Write as _},
    path::{Path, PathBuf},
};

use super::{
    Failure, Result,
    project::{self, Project},
    say,
};
use crate::{
    agents,
    config::Document,
    control::{cli::ConfigArgs, text::plain, trust::commands},
    engine::policy::{AgentSpec, Plan},
};

/// Whether the command line says so already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// `--trust` was given.
    Trust,
    /// Nothing was said.
    Unsaid,
}

pub(super) fn trust(args: &ConfigArgs) -> Result {
    let project = Project::load_existing(args)?;
    let place = project.config_place();
    project::trust_store()?.trust(&place, &project.settings.documents).map_err(|error| cannot_remember(&error))?;
    say(&format!("creel: {} is trusted as it is now", place.display()));
    Ok(0)
}

pub(super) fn untrust(args: &ConfigArgs) -> Result {
    let here = project::here()?;
    let named = args.config.clone().map(|path| here.join(path)).or_else(|| crate::config::paths::find(&here));
    let Some(path) = named else {
        return Err(Failure::usage("there is no config here or above"));
    };
    let place = path.canonicalize().unwrap_or(path);
    let store = project::trust_store()?;
    let root = crate::config::paths::project_root(&place);
    store.untrust(&place_of_plans(&root)).map_err(|error| cannot_remember(&error))?;
    let had = store.untrust(&place).map_err(|error| cannot_remember(&error))?;
    say(&format!("creel: {} {}", place.display(), if had { "is no longer trusted" } else { "was not trusted" }));
    Ok(0)
}

/// Whether a person allowed what would run.
pub(super) fn is_allowed(place: &Path, documents: &[Document], commands: &[String]) -> Result<bool> {
    Ok(commands.is_empty() || project::trust_store()?.trusts(place, documents))
}

/// Makes sure that a person allowed what would run.
pub(super) fn require(place: &Path, documents: &[Document], commands: &[String], asked: Asked) -> Result<()> {
    if is_allowed(place, documents, commands)? {
        return Ok(());
    }
    let store = project::trust_store()?;
    if asked == Asked::Unsaid && !a_person_agrees(place, commands)? {
        return Err(Failure::usage("not trusted; nothing has run"));
    }
    store.trust(place, documents).map_err(|error| cannot_remember(&error))
}

fn a_person_agrees(place: &Path, commands: &[String]) -> Result<bool> {
    let list: String =
        commands.iter().map(|command| format!("  {}\n", plain(command).replace('\n', "\n    "))).collect();
    let what = format!("{} would run these commands, and nobody has allowed that yet:\n\n{list}", place.display());
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Failure::usage(format!(
            "{what}\nLook at them, then run `creel trust`, or give --trust. Nothing has run."
        )));
    }
    say(&format!("creel: {what}"));
    let _ = write!(io::stderr(), "Allow this config, as it is now, to run them? [y/N] ");
    let mut answer = String::new();
    io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(|error| Failure::failed(format!("cannot read the answer: {error}")))?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

fn cannot_remember(error: &io::Error) -> Failure {
    Failure::failed(format!(
        "cannot remember what is trusted: {error}\n  it is kept in creel's folder under XDG_STATE_HOME"
    ))
}

/// Where the plans of a project's sessions are trusted, beside its config.
pub(super) fn place_of_plans(root: &Path) -> PathBuf {
    root.join(".creel").join("sessions")
}

/// What a session would run, its agent's script included.
pub(super) fn of_plan(plan: &Plan) -> Vec<String> {
    commands(plan, true).into_iter().chain(scripted(plan)).collect()
}

fn scripted(plan: &Plan) -> Vec<String> {
    let all = std::iter::once(&plan.agent_spec).chain(plan.gatekeepers.values().map(|gatekeeper| &gatekeeper.spec));
    all.flat_map(|spec| match spec {
        AgentSpec::Scripted { script } => agents::scripted::commands(script),
        AgentSpec::Acp { .. } | AgentSpec::Command { .. } | AgentSpec::Outside => Vec::new(),
    })
    .collect()
}

/// What a project's config would run with this plan.
pub(super) fn of_project(project: &Project, plan: &Plan) -> Vec<String> {
    let described = project.settings.agents.contains_key(&plan.agent);
    let mut all = commands(plan, described);
    all.extend(scripted(plan));
    // It runs nothing by itself, but whoever has the server reads everything and can tell the agent what to do.
    let server = project.settings.nats.as_ref().map(crate::config::Nats::shown);
    all.extend(server.map(|url| format!("(nats) records go to {url}, and commands come from there")));
    all
}
