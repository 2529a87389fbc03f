//! `creel sessions`: the past and running sessions of a project, of all projects, or of other
//! machines.

mod list_filter;
mod session_table;
mod watch_list;

use clap::Args;
use serde_json::json;

use crate::{
    cli::{
        arguments::{ConfigArgs, NatsArgs},
        error::{CliError, CliResult},
        output::{self, print, say},
        sessions::{
            list_filter::SessionFilterArgs,
            session_table::{ListColumns, fleet_table, table},
        },
        target::{project, remote_sessions::NatsServerConnection},
    },
    engine::{SessionState, time::UnixTime},
    journal::{self, JournalError, SessionDir, SessionsDir, record::rfc3339},
    present::session_list::{ListedSession, SessionGroup},
    runtime::now,
    sessions::{
        listed_heartbeat, project_list::ProjectList, session_store::ProjectScope, stored_session,
    },
    worktrees::repository::session_branch,
};

/// How to list.
#[derive(Debug, Args)]
pub struct SessionListArgs {
    /// Whose sessions.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Where they are.
    #[command(flatten)]
    pub nats: NatsArgs,
    /// List the sessions of all projects in which you have run creel.
    #[arg(long, conflicts_with = "url")]
    pub all: bool,
    /// Which of them.
    #[command(flatten)]
    pub filter: SessionFilterArgs,
    /// Keep running: list again whenever something changes. Without a terminal, print a line per
    /// change.
    #[arg(long, conflicts_with = "json")]
    pub watch: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

pub(super) fn sessions(args: &SessionListArgs) -> CliResult {
    if let Some(server) = NatsServerConnection::named(&args.nats, &args.config)? {
        return if args.watch {
            watch_list::watch_fleet(&server, args)
        } else {
            elsewhere(&server, args)
        };
    }
    let (root, scope) = scope(args)?;
    if args.watch {
        return watch_list::watch(scope, args);
    }
    let mut found = Vec::new();
    for project in projects(&scope) {
        let sessions = match SessionsDir::of(&project).list() {
            Ok(sessions) => sessions,
            // Of several projects, one that cannot be read does not hide the others.
            Err(error) if args.all => {
                say(&format!(
                    "creel: cannot list the sessions of {}: {error}",
                    project.display()
                ));
                continue;
            }
            Err(error) => {
                return Err(CliError::failed(format!(
                    "cannot list the sessions: {error}"
                )));
            }
        };
        let live = SessionsDir::of(&project)
            .live_or_starting()
            .unwrap_or_default();
        let live = live.into_iter().map(|folder| folder.name).collect();
        found.extend(
            stored_session::rows(&sessions, &live)
                .into_iter()
                .zip(sessions),
        );
    }
    found.retain(|(listed, _)| args.filter.matches(listed));
    found.sort_by(|(one, _), (other, _)| one.order(other));
    if args.json {
        let all = stored_session::for_each(&found, |(listed, folder)| as_json(listed, folder));
        return print(&format!("{:#}\n", serde_json::Value::from(all)));
    }
    if found.is_empty() {
        let which = if args.filter.is_empty() { "" } else { " match" };
        let place = if args.all {
            "of yours".to_owned()
        } else {
            format!("in {}", root.display())
        };
        say(&format!(
            "creel: no sessions {place}{which}; start one with `creel run`"
        ));
        return Ok(0);
    }
    let listed: Vec<&ListedSession> = found.iter().map(|(listed, _)| listed).collect();
    print(&table(
        &listed,
        if args.all {
            ListColumns::WithProject
        } else {
            ListColumns::Short
        },
    ))
}

/// The project of the command, and which projects to look at.
fn scope(args: &SessionListArgs) -> CliResult<(std::path::PathBuf, ProjectScope)> {
    let (root, _) = project::sessions_of(&args.config)?;
    let list = if args.all {
        Some(ProjectList::of(&project::state_dir()?))
    } else {
        None
    };
    Ok((
        root.clone(),
        ProjectScope {
            projects: vec![root],
            list,
        },
    ))
}

fn projects(scope: &ProjectScope) -> std::collections::BTreeSet<std::path::PathBuf> {
    let listed = scope
        .list
        .as_ref()
        .map(ProjectList::projects)
        .unwrap_or_default();
    scope.projects.iter().cloned().chain(listed).collect()
}

/// Sessions on other machines, by their last heartbeats.
fn elsewhere(server: &NatsServerConnection, args: &SessionListArgs) -> CliResult {
    let at = now();
    let mut signs: Vec<_> = server
        .heartbeats()?
        .into_iter()
        .map(|sign| (listed_heartbeat(&sign, at), sign))
        .collect();
    let has_any = !signs.is_empty();
    signs.retain(|(listed, _)| args.filter.matches(listed));
    signs.sort_by(|(one, _), (other, _)| one.order(other));
    if args.json {
        return output::json(&signs.into_iter().map(|(_, sign)| sign).collect::<Vec<_>>());
    }
    let is_wanted = |listed: &ListedSession| {
        let over = listed.group() == SessionGroup::Ended && listed.state_name() != "lost";
        !over || args.filter.ended || args.filter.names_state()
    };
    let wanted: Vec<_> = signs
        .iter()
        .filter(|(listed, _)| is_wanted(listed))
        .collect();
    if wanted.is_empty() {
        say(match (has_any, args.filter.is_empty()) {
            (false, _) => "creel: this server has no sessions",
            (true, true) => "creel: no session is running there; list the ended ones with --ended",
            (true, false) => "creel: no sessions on this server match",
        });
        return Ok(0);
    }
    print(&fleet_table(&wanted))
}

/// The outcome of a session, or whether a process runs it, in one word.
fn status(state: &Result<SessionState, JournalError>, is_running: bool) -> &'static str {
    match (state, is_running) {
        (Ok(state), _) if state.phase.outcome().is_some() => state
            .phase
            .outcome()
            .map_or("", crate::engine::event::SessionOutcome::name),
        (_, true) => "running",
        (Ok(state), false) if state.gates.open.is_some() => "waiting",
        (Ok(_), false) => "stopped",
        (Err(_), false) => "unreadable",
    }
}

fn as_json(listed: &ListedSession, folder: &SessionDir) -> serde_json::Value {
    let running = journal::running(folder);
    let state = journal::fold(&folder.journal());
    let modified = std::fs::metadata(folder.journal()).and_then(|meta| meta.modified());
    let changed = modified.map_or(UnixTime(0), stored_session::unix_time);
    let common = json!({
        "name": folder.name,
        "project": listed.project,
        "state": status(&state, running.is_some()),
        "running": running.is_some(),
        "pid": running.and_then(|holder| holder.pid),
        "changed": rfc3339(changed),
        "age_ms": now().since(changed),
        "path": folder.path.to_string_lossy(),
    });
    let more = match &state {
        Ok(state) => json!({
            "iteration": state.iterations.current,
            "max_iterations": state.max_iterations(),
            "agent": state.agent_choice().agent(),
            "branch": session_branch(&state.began),
            "started": rfc3339(state.started),
            "outcome": state.phase.outcome(),
            "gate": state.gates.open.as_ref().map(crate::engine::gate::Gate::kind),
            "pending": state.pending.waiting().count(),
        }),
        Err(error) => json!({ "error": error.to_string() }),
    };
    let mut all = common;
    if let (Some(all), serde_json::Value::Object(more)) = (all.as_object_mut(), more) {
        all.extend(more);
    }
    all
}
