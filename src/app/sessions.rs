//! `creel sessions`, `creel show` and `creel replay`: past and running sessions.

use std::io::IsTerminal as _;

use serde_json::json;

use super::{AppError, AppResult, print, project};
use crate::{
    app::{control::choose_session, remote_sessions::NatsServerConnection, session_host},
    cli::{
        ConfigArgs, ReplayArgs, SessionListArgs, ShowArgs,
        record_formatter::{HookOutputMode, RecordFormatter},
    },
    config::Settings,
    engine::{
        SessionState,
        event::{Event, TurnEvent},
        time::UnixTime,
    },
    journal::{self, JournalError, SessionDir, record::rfc3339},
    nats::{heartbeat::SessionHeartbeat, remote_journal::RemoteJournal},
    present::{
        describe::prompt_name,
        style::{ColourMode, TextRole},
        text::plain,
    },
    runtime::now,
    socket::view::StatusView,
    tui::{self, model::CloseBehavior},
};

struct ListedSession {
    folder: SessionDir,
    state: std::result::Result<SessionState, JournalError>,
    running: Option<journal::LockHolder>,
    changed: UnixTime,
}

pub(super) fn sessions(args: &SessionListArgs) -> AppResult {
    if let Some(server) = NatsServerConnection::named(&args.nats, &args.config)? {
        return elsewhere(&server.signs()?, args.json);
    }
    let (root, sessions) = project::sessions_of(&args.config)?;
    let folders = sessions.list().map_err(|error| AppError::failed(format!("cannot list the sessions: {error}")))?;
    let listed: Vec<ListedSession> = folders.into_iter().map(look_at).collect();
    if args.json {
        let all: Vec<serde_json::Value> = listed.iter().map(as_json).collect();
        return print(&format!("{:#}\n", serde_json::Value::from(all)));
    }
    if listed.is_empty() {
        super::say(&format!("creel: no sessions in {}; `creel run` starts one", root.display()));
        return Ok(0);
    }
    let paint = ColourMode::for_stream(&std::io::stdout());
    let width = listed.iter().map(|one| one.folder.name.len()).max().unwrap_or(0).max(4);
    let head = format!("{:width$}  {:9}  {:>9}  WHAT", "NAME", "AGE", "ITERATION");
    let lines: String = listed.iter().map(|one| line(one, width) + "\n").collect();
    print(&format!("{}\n{lines}", paint.paint(TextRole::Faint, head)))
}

/// Sessions on other machines, by their last heartbeats.
fn elsewhere(signs: &[SessionHeartbeat], as_json: bool) -> AppResult {
    if as_json {
        let text = serde_json::to_string_pretty(signs).map_err(|error| AppError::failed(error.to_string()))?;
        return print(&(text + "\n"));
    }
    if signs.is_empty() {
        super::say("creel: there are no sessions on this server");
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
        (Ok(state), _) if state.outcome().is_some() => {
            state.outcome().map_or("", crate::engine::event::SessionOutcome::name)
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
            "agent": state.agent(),
            "started": rfc3339(state.started),
            "outcome": state.outcome(),
            "gate": state.gates.open.as_ref().map(|gate| gate.about),
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

/// A session of this project, or the copy of a remote one.
fn found(copy: Option<&RemoteJournal>, config: &ConfigArgs, session: &str) -> AppResult<SessionDir> {
    let Some(copy) = copy else { return choose_session::called(session, config, &project::sessions_of(config)?.1) };
    let folder = copy.folder().clone();
    if folder.exists() { Ok(folder) } else { Err(JournalError::Missing(session.to_owned()).into()) }
}

pub(super) fn show(args: &ShowArgs) -> AppResult {
    let server = NatsServerConnection::named(&args.nats, &args.config)?;
    let copy = server.as_ref().map(|server| server.mirror(Some(&args.session))).transpose()?;
    let folder = found(copy.as_ref(), &args.config, &args.session)?;
    if args.json {
        return print_each(&folder, journal::Record::to_line);
    }
    let paint = ColourMode::for_stream(&std::io::stdout());
    if args.prompts {
        return print_each(&folder, |record| prompt(record, paint));
    }
    let mut narrator = RecordFormatter::new(paint, HookOutputMode::Told);
    print_each(&folder, |record| narrator.tell(record))
}

/// Prints while reading, since a journal can be larger than memory.
fn print_each(folder: &SessionDir, mut text: impl FnMut(&journal::Record) -> String) -> AppResult {
    let mut printed = Ok(0);
    let disorder = journal::read(&folder.journal(), |record| {
        if printed.is_ok() {
            printed = print(&text(&record));
        }
    })?;
    super::warn_of(disorder.as_ref());
    printed
}

fn prompt(record: &journal::Record, paint: ColourMode) -> String {
    let Event::Turn(TurnEvent::PromptSent(prompt)) = &record.event else { return String::new() };
    let name = prompt_name(prompt.reason);
    let head = format!("── {name} · turn {} · iteration {} · {}", prompt.turn, prompt.iteration, rfc3339(record.at));
    format!("{}\n{}\n\n", paint.paint(TextRole::Heading, head), plain(&prompt.text))
}

pub(super) fn replay(args: &ReplayArgs) -> AppResult {
    let server = NatsServerConnection::named(&args.nats, &args.config)?;
    let copy = server.as_ref().map(|server| server.mirror(Some(&args.session))).transpose()?;
    let folder = found(copy.as_ref(), &args.config, &args.session)?;
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(AppError::usage("a replay needs a terminal; `creel show` prints what happened"));
    }
    // Read once before the screen opens, so that a damaged journal is reported as text.
    let (_, disorder) = journal::fold_checked(&folder.journal())?;
    super::warn_of(disorder.as_ref());
    let ui = project::Project::load(&args.config).map_or(Settings::default().ui, |project| project.settings.ui);
    let (_silent, news) = tokio::sync::watch::channel(0);
    let (_mute, live) = tokio::sync::mpsc::channel(1);
    let source = tui::ScreenSource {
        journal: folder.journal(),
        helm: None,
        news,
        live,
        tie: CloseBehavior::default(),
        nats: None,
    };
    let shown = session_host::runtime()?.block_on(tui::run(source, session_host::screen_options(ui)));
    shown.map(|_| 0).map_err(|error| AppError::failed(format!("the screen failed: {error}")))
}
