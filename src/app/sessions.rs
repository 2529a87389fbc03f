//! `creel sessions` and `creel show`: what there was.

use std::io::IsTerminal as _;

use serde_json::json;

use super::{Failure, Result, print, project, stage};
use crate::{
    config::Settings,
    control::{
        cli::{ListArgs, ReplayArgs, ShowArgs},
        narrate::{HookOutput, Narrator},
        paint::{Paint, Role},
    },
    engine::{State, event::Event, time::At},
    journal::{self, Folder, JournalError, record::rfc3339},
    runtime::now,
    tui::{self, model::Tie},
};

/// A session in a list.
struct Listed {
    folder: Folder,
    state: std::result::Result<State, JournalError>,
    running: Option<journal::Holder>,
    changed: At,
}

pub(super) fn sessions(args: &ListArgs) -> Result {
    let (root, sessions) = project::sessions_of(&args.config)?;
    let folders = sessions.list().map_err(|error| Failure::failed(format!("cannot list the sessions: {error}")))?;
    let listed: Vec<Listed> = folders.into_iter().map(look_at).collect();
    if args.json {
        let all: Vec<serde_json::Value> = listed.iter().map(as_json).collect();
        return print(&format!("{:#}\n", serde_json::Value::from(all)));
    }
    if listed.is_empty() {
        super::say(&format!("creel: no sessions in {}; `creel run` starts one", root.display()));
        return Ok(0);
    }
    let paint = Paint::for_stream(&std::io::stdout());
    let width = listed.iter().map(|one| one.folder.name.len()).max().unwrap_or(0).max(4);
    let head = format!("{:width$}  {:9}  {:>9}  WHAT", "NAME", "AGE", "ITERATION");
    let lines: String = listed.iter().map(|one| line(one, width) + "\n").collect();
    print(&format!("{}\n{lines}", paint.paint(Role::Faint, head)))
}

fn look_at(folder: Folder) -> Listed {
    let running = journal::running(&folder);
    let modified = std::fs::metadata(folder.journal()).and_then(|meta| meta.modified());
    let since_epoch =
        modified.ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok()).unwrap_or_default();
    let changed = At(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX));
    Listed { state: journal::fold(&folder.journal()), folder, running, changed }
}

/// What a session is, in a word: an outcome, or whether somebody runs it.
fn status(listed: &Listed) -> &'static str {
    match (&listed.state, listed.running) {
        (Ok(state), _) if state.outcome().is_some() => state.outcome().map_or("", crate::engine::event::Outcome::name),
        (_, Some(_)) => "running",
        (Ok(state), None) if state.gates.open.is_some() => "waiting",
        (Ok(_), None) => "stopped",
        (Err(_), None) => "unreadable",
    }
}

fn line(listed: &Listed, width: usize) -> String {
    let age = now().since(listed.changed);
    let (iteration, what) = match &listed.state {
        Ok(state) => (format!("{}/{}", state.iterations.current, state.max_iterations()), state.doing()),
        Err(error) => ("-".into(), error.to_string()),
    };
    let status = status(listed);
    let what = if status == what { what } else { format!("{status}: {what}") };
    format!("{:width$}  {:9}  {iteration:>9}  {what}", listed.folder.name, coarse(age))
}

/// An age needs no second unit.
fn coarse(age: crate::engine::time::Span) -> String {
    let seconds = age.0 / 1_000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

fn as_json(listed: &Listed) -> serde_json::Value {
    let common = json!({
        "name": listed.folder.name,
        "state": status(listed),
        "running": listed.running.is_some(),
        "pid": listed.running.and_then(|holder| holder.pid),
        "changed": rfc3339(listed.changed),
        "age_ms": now().since(listed.changed),
        "path": listed.folder.path,
    });
    let more = match &listed.state {
        Ok(state) => json!({
            "iteration": state.iterations.current,
            "max_iterations": state.max_iterations(),
            "agent": state.began.agent,
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

pub(super) fn show(args: &ShowArgs) -> Result {
    let (_, sessions) = project::sessions_of(&args.config)?;
    let folder = sessions.folder(&args.session);
    if !folder.exists() {
        return Err(JournalError::Missing(args.session.clone()).into());
    }
    if args.json {
        return print_each(&folder, journal::Record::to_line);
    }
    let paint = Paint::for_stream(&std::io::stdout());
    if args.prompts {
        return print_each(&folder, |record| prompt(record, paint));
    }
    let mut narrator = Narrator::new(paint, HookOutput::Told);
    print_each(&folder, |record| narrator.tell(record))
}

/// A journal can be larger than memory: it is printed as it is read.
fn print_each(folder: &Folder, mut text: impl FnMut(&journal::Record) -> String) -> Result {
    let mut printed = Ok(0);
    journal::read(&folder.journal(), |record| {
        if printed.is_ok() {
            printed = print(&text(&record));
        }
    })?;
    printed
}

fn prompt(record: &journal::Record, paint: Paint) -> String {
    let Event::PromptSent(prompt) = &record.event else { return String::new() };
    let reason = format!("{:?}", prompt.reason).to_lowercase();
    let head = format!("── turn {} · iteration {} · {reason} · {}", prompt.turn, prompt.iteration, rfc3339(record.at));
    format!("{}\n{}\n\n", paint.paint(Role::Heading, head), crate::control::text::plain(&prompt.text))
}

/// Watches a past session again.
pub(super) fn replay(args: &ReplayArgs) -> Result {
    let (_, sessions) = project::sessions_of(&args.config)?;
    let folder = sessions.folder(&args.session);
    if !folder.exists() {
        return Err(JournalError::Missing(args.session.clone()).into());
    }
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(Failure::usage("a replay needs a terminal; `creel show` prints what happened"));
    }
    // Read once before the screen opens, so that a damaged journal is told in words.
    journal::fold(&folder.journal())?;
    let ui = project::Project::load(&args.config).map_or(Settings::default().ui, |project| project.settings.ui);
    let (_silent, news) = tokio::sync::mpsc::unbounded_channel();
    let (_mute, live) = tokio::sync::mpsc::channel(1);
    let source = tui::Source { journal: folder.journal(), helm: None, news, live, tie: Tie::default() };
    let shown = stage::runtime()?.block_on(tui::run(source, stage::screen_options(ui)));
    shown.map(|_| 0).map_err(|error| Failure::failed(format!("the screen failed: {error}")))
}
