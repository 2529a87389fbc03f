//! `creel sessions`: the past and running sessions of a project, of all projects, or of other
//! machines.

mod watch_list;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{Args, builder::PossibleValuesParser};
use serde_json::json;

use crate::{
    cli::{
        arguments::{ConfigArgs, NatsArgs},
        error::{self, CliError, CliResult, print, say},
        sessions::watch_list::{ListColumns, fleet_table, table},
        target::{self, Project, remote_sessions::NatsServerConnection},
    },
    engine::{SessionState, queue::QueueCounts, time::UnixTime},
    journal::{self, JournalError, SessionDir, SessionsDir, record::rfc3339},
    present::{
        session_list::{ListedSession, SessionGroup},
        tables,
    },
    queue::task_bucket::FleetTasks,
    runtime::now,
    sessions::{
        listed_heartbeat,
        queue_feed::{self, ProjectQueues},
        session_store::{ProjectList, ProjectScope},
        stored_session,
    },
    worktrees::session_branch,
};

/// How long to wait for the tasks of a server: the sessions are what the user asked for.
const QUEUE_PATIENCE: Duration = Duration::from_secs(1);

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
    let projects = projects(&scope);
    for project in &projects {
        let sessions = match SessionsDir::of(project).list() {
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
        let live = SessionsDir::of(project)
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
    // The queue of a project with a server is there.
    let is_here = args.all
        || Project::load(&args.config)
            .map_or(true, |project| project.settings.servers.nats.is_none());
    if is_here {
        let roots = projects.iter().map(PathBuf::as_path);
        say_queue(ProjectQueues::default().summary(roots).counts);
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

/// What the queues of a server have to do. A user may not be allowed to read them.
fn queue_counts(server: &NatsServerConnection) -> QueueCounts {
    let jetstream = server.jetstream();
    let read = async {
        let tasks = FleetTasks::all(&jetstream, &server.nats);
        tokio::time::timeout(QUEUE_PATIENCE, tasks).await
    };
    let tasks = match server.tokio.block_on(read) {
        Ok(Ok(tasks)) => tasks,
        Ok(Err(error)) => {
            tracing::info!("the queues of the server: {error}");
            Vec::new()
        }
        Err(_) => Vec::new(),
    };
    queue_feed::summary_of_fleet(tasks.iter().map(|(queue, task)| (queue, task))).counts
}

/// Says what the queue has to do, if anything.
fn say_queue(counts: QueueCounts) {
    if let Some(counts) = tables::queue_counts(counts) {
        say(&format!(
            "creel: the queue: {counts}\n  `creel task list --queue` shows the tasks"
        ));
    }
}

/// The project of the command, and which projects to look at.
fn scope(args: &SessionListArgs) -> CliResult<(std::path::PathBuf, ProjectScope)> {
    let (root, _) = target::sessions_of(&args.config)?;
    let list = if args.all {
        Some(ProjectList::of(&target::state_dir()?))
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
    let mut heartbeats: Vec<_> = server
        .heartbeats()?
        .into_iter()
        .map(|heartbeat| (listed_heartbeat(&heartbeat, at), heartbeat))
        .collect();
    let has_any = !heartbeats.is_empty();
    heartbeats.retain(|(listed, _)| args.filter.matches(listed));
    heartbeats.sort_by(|(one, _), (other, _)| one.order(other));
    if args.json {
        return error::json(
            &heartbeats
                .into_iter()
                .map(|(_, heartbeat)| heartbeat)
                .collect::<Vec<_>>(),
        );
    }
    say_queue(queue_counts(server));
    let is_wanted = |listed: &ListedSession| {
        let over = listed.group() == SessionGroup::Ended && listed.state_name() != "lost";
        !over || args.filter.ended || args.filter.names_state()
    };
    let wanted: Vec<_> = heartbeats
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

const STATES: [&str; 13] = [
    "needs-you",
    "running",
    "ended",
    "stopped",
    "lost",
    "unreadable",
    "complete",
    "forced",
    "limit",
    "escalated",
    "aborted",
    "failed",
    "cancelled",
];

/// Which sessions to list. Several filters must all match.
#[derive(Debug, Default, Args)]
pub struct SessionFilterArgs {
    /// Only sessions in this state.
    #[arg(long, value_name = "STATE", value_parser = PossibleValuesParser::new(STATES))]
    pub state: Option<String>,
    /// Only sessions of this project: its folder, or the end of its path.
    #[arg(long, value_name = "FOLDER")]
    pub project: Option<String>,
    /// With --nats: only sessions on this machine.
    #[arg(long, value_name = "NAME", requires = "url")]
    pub host: Option<String>,
    /// With --nats: only sessions of this user.
    #[arg(long, value_name = "NAME", requires = "url")]
    pub user: Option<String>,
    /// With --nats: ended sessions too.
    #[arg(long, requires = "url")]
    pub ended: bool,
}

impl SessionFilterArgs {
    pub(super) const fn is_empty(&self) -> bool {
        self.state.is_none() && self.project.is_none() && self.host.is_none() && self.user.is_none()
    }

    pub(super) const fn names_state(&self) -> bool {
        self.state.is_some()
    }

    pub(super) fn matches(&self, listed: &ListedSession) -> bool {
        let state = |wanted: &str| match listed.group() {
            SessionGroup::Ended => wanted == "ended" || wanted == listed.state_name(),
            SessionGroup::NeedsYou | SessionGroup::Running => wanted == listed.state_name(),
        };
        self.state.as_deref().is_none_or(state)
            && self
                .project
                .as_deref()
                .is_none_or(|wanted| is_in(&listed.project, wanted))
            && self
                .host
                .as_deref()
                .is_none_or(|wanted| wanted == listed.host)
            && self
                .user
                .as_deref()
                .is_none_or(|wanted| wanted == listed.user)
    }
}

/// Whether a project's folder is the wanted one: by its whole path, also from here, or by the end
/// of it.
fn is_in(project: &str, wanted: &str) -> bool {
    let from_here = Path::new(wanted)
        .canonicalize()
        .is_ok_and(|path| path == Path::new(project));
    from_here || Path::new(project).ends_with(wanted.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        engine::{event::SessionOutcome, time::UnixTime},
        present::session_list::ListedState,
    };

    #[test]
    fn a_session_must_match_every_filter() {
        let failed = ListedState::Ended {
            outcome: SessionOutcome::Failed,
            reason: String::new(),
        };
        let listed = ListedSession {
            state: failed,
            host: "box".into(),
            ..ListedSession::unread("s", "/home/me/src/parser", UnixTime(0))
        };
        let by = |state: Option<&str>, project: Option<&str>, host: Option<&str>| {
            let own = |text: Option<&str>| text.map(str::to_owned);
            SessionFilterArgs {
                state: own(state),
                project: own(project),
                host: own(host),
                user: None,
                ended: false,
            }
            .matches(&listed)
        };
        assert!(
            by(None, None, None)
                && by(Some("ended"), Some("parser"), Some("box"))
                && by(Some("failed"), None, None)
        );
        assert!(by(None, Some("src/parser/"), None) && by(None, Some("/home/me/src/parser"), None));
        assert!(
            !by(Some("running"), None, None)
                && !by(None, Some("arser"), None)
                && !by(None, None, Some("other"))
        );
    }
}
