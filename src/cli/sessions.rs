//! `creel sessions`: the past and running sessions of a project, or those on other machines.

use clap::Args;
use serde_json::json;

use crate::{
    cli::{
        arguments::{ConfigArgs, NatsArgs},
        error::{CliError, CliResult},
        output::{self, print, say},
        target::{project, remote_sessions::NatsServerConnection},
    },
    engine::{SessionState, time::UnixTime},
    journal::{self, JournalError, SessionDir, record::rfc3339},
    nats::heartbeat::SessionHeartbeat,
    present::{
        style::{ColourMode, TextRole},
        text::plain,
    },
    runtime::now,
    socket::view::StatusView,
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
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

struct ListedSession {
    folder: SessionDir,
    state: std::result::Result<SessionState, JournalError>,
    running: Option<journal::LockHolder>,
    changed: UnixTime,
}

pub(super) fn sessions(args: &SessionListArgs) -> CliResult {
    if let Some(server) = NatsServerConnection::named(&args.nats, &args.config)? {
        return elsewhere(&server.signs()?, args.json);
    }
    let (root, sessions) = project::sessions_of(&args.config)?;
    let folders = sessions.list().map_err(|error| CliError::failed(format!("cannot list the sessions: {error}")))?;
    let listed: Vec<ListedSession> = folders.into_iter().map(look_at).collect();
    if args.json {
        let all: Vec<serde_json::Value> = listed.iter().map(as_json).collect();
        return print(&format!("{:#}\n", serde_json::Value::from(all)));
    }
    if listed.is_empty() {
        say(&format!("creel: no sessions in {}; start one with `creel run`", root.display()));
        return Ok(0);
    }
    let paint = ColourMode::for_stream(&std::io::stdout());
    let width = listed.iter().map(|one| one.folder.name.len()).max().unwrap_or(0).max(4);
    let head = format!("{:width$}  {:9}  {:>9}  WHAT", "NAME", "AGE", "ITERATION");
    let lines: String = listed.iter().map(|one| line(one, width) + "\n").collect();
    print(&format!("{}\n{lines}", paint.paint(TextRole::Faint, head)))
}

/// Sessions on other machines, by their last heartbeats.
fn elsewhere(signs: &[SessionHeartbeat], as_json: bool) -> CliResult {
    if as_json {
        return output::json(&signs);
    }
    if signs.is_empty() {
        say("creel: this server has no sessions");
        return Ok(0);
    }
    let width =
        |text: fn(&SessionHeartbeat) -> &str| signs.iter().map(|sign| text(sign).len()).max().unwrap_or(0).max(4);
    let (name, host) = (width(|sign| &sign.status.session), width(|sign| &sign.host));
    let head = format!("{:name$}  {:host$}  {:9}  {:>9}  WHAT", "NAME", "HOST", "SEEN", "ITERATION");
    let paint = ColourMode::for_stream(&std::io::stdout());
    let lines = signs.iter().map(|sign| {
        let StatusView { session, state, doing, iteration, max_iterations, gate, .. } = &sign.status;
        let lost = sign.status.outcome.is_none() && sign.is_overdue(now());
        let what = match gate {
            _ if lost => format!("lost: {doing}"),
            Some(gate) => format!("waiting at gate {}: {}", gate.gate, gate.reason),
            None if state == doing => state.clone(),
            None => format!("{state}: {doing}"),
        };
        let seen = sign.seen.parse::<jiff::Timestamp>().map_or(UnixTime(0), |seen| UnixTime(seen.as_millisecond()));
        let (seen, iteration) = (coarse(now().since(seen)), format!("{iteration}/{max_iterations}"));
        let line = format!("{session:name$}  {:host$}  {seen:9}  {iteration:>9}  {what}", sign.host);
        plain(&line) + "\n"
    });
    print(&format!("{}\n{}", paint.paint(TextRole::Faint, head), lines.collect::<String>()))
}

fn look_at(folder: SessionDir) -> ListedSession {
    let running = journal::running(&folder);
    let modified = std::fs::metadata(folder.journal()).and_then(|meta| meta.modified());
    let since_epoch =
        modified.ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok()).unwrap_or_default();
    let changed = UnixTime(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX));
    ListedSession { state: journal::fold(&folder.journal()), folder, running, changed }
}

/// The outcome of a session, or whether a process runs it, in one word.
fn status(listed: &ListedSession) -> &'static str {
    match (&listed.state, listed.running) {
        (Ok(state), _) if state.phase.outcome().is_some() => {
            state.phase.outcome().map_or("", crate::engine::event::SessionOutcome::name)
        }
        (_, Some(_)) => "running",
        (Ok(state), None) if state.gates.open.is_some() => "waiting",
        (Ok(_), None) => "stopped",
        (Err(_), None) => "unreadable",
    }
}

fn line(listed: &ListedSession, width: usize) -> String {
    let age = now().since(listed.changed);
    let (iteration, what) = match &listed.state {
        Ok(state) => (format!("{}/{}", state.iterations.current, state.max_iterations()), state.doing()),
        Err(error) => ("-".into(), error.to_string()),
    };
    let status = status(listed);
    let what = if status == what { what } else { format!("{status}: {what}") };
    let line = format!("{:width$}  {:9}  {iteration:>9}  {what}", listed.folder.name, coarse(age));
    plain(&line).replace('\n', " ")
}

/// An age in a single unit.
fn coarse(age: crate::engine::time::TimeSpan) -> String {
    let seconds = age.0 / 1_000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

fn as_json(listed: &ListedSession) -> serde_json::Value {
    let common = json!({
        "name": listed.folder.name,
        "state": status(listed),
        "running": listed.running.is_some(),
        "pid": listed.running.and_then(|holder| holder.pid),
        "changed": rfc3339(listed.changed),
        "age_ms": now().since(listed.changed),
        "path": listed.folder.path.to_string_lossy(),
    });
    let more = match &listed.state {
        Ok(state) => json!({
            "iteration": state.iterations.current,
            "max_iterations": state.max_iterations(),
            "agent": state.agent_choice().agent(),
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
