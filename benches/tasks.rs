//! The figures of tasks: the cost of built-in hooks on a large graph, and of `creel task done`.
//!
//! `cargo bench --bench tasks` measures all of them, `cargo bench --bench tasks -- event` one. Two
//! have limits in absolute time; each is also shown as a ratio to work of the same run that does
//! not depend on creel.

#[path = "support/graph.rs"]
mod graph;
#[path = "support/measure.rs"]
mod measure;

use std::{
    cell::Cell,
    fs,
    hint::black_box,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::net::UnixStream,
    process::{Child, Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use creel::{
    engine::{
        SessionState,
        event::{Event, TaskEvent},
        tasks::{
            builtin::BuiltinAutomation,
            command::{TaskCommand, TaskCompletion},
        },
    },
    journal::Record,
};
use graph::{change, name, session};
use measure::{Figure, Finding, Result, Verdict, check, compare};
use serde_json::{Value, json};

const TASKS: u32 = 10_000;
/// The limit for the built-in hooks of an event.
const BUILT_IN: Duration = Duration::from_micros(10);
/// The limit for an event with all its hooks and the actions that they request.
const EVENT: Duration = Duration::from_micros(50);
/// How often a task is completed from the command line.
const DONE: u32 = 60;

fn main() -> ExitCode {
    measure::run(&[
        Figure {
            name: "builtin",
            measure: builtin,
        },
        Figure {
            name: "event",
            measure: event,
        },
        Figure {
            name: "done",
            measure: done,
        },
    ])
}

/// The built-in hooks, asked about the completion of every task, compared with parsing the records
/// of that.
fn builtin() -> Result<Vec<Finding>> {
    let graph = session(TASKS)?.0;
    let records = completed(&mut graph.clone(), |_, _| Duration::ZERO)?.records;
    let completions: Vec<String> = records
        .iter()
        .filter(|record| is_completion(record))
        .map(Record::to_line)
        .collect();
    let ours = || Ok(completed(&mut graph.clone(), ask_all)?.beside);
    let compared = compare(5, ours, || parse(&completions))?;
    Ok(findings(
        "the built-in hooks, an event",
        &compared,
        "parsing its record",
        BUILT_IN,
    ))
}

fn ask_all(state: &SessionState, record: &Record) -> Duration {
    let Some(news) = record.event.task_news() else {
        return Duration::ZERO;
    };
    let started = Instant::now();
    for builtin in BuiltinAutomation::ALL {
        black_box(builtin.actions(&news, &state.tasks.graph));
    }
    started.elapsed()
}

/// The completion of every task with everything that follows, compared with parsing the records of
/// that.
fn event() -> Result<Vec<Finding>> {
    let graph = session(TASKS)?.0;
    let records = completed(&mut graph.clone(), |_, _| Duration::ZERO)?.records;
    let lines: Vec<String> = records.iter().map(Record::to_line).collect();
    let ours = || Ok(completed(&mut graph.clone(), |_, _| Duration::ZERO)?.took);
    let compared = compare(5, ours, || parse(&lines))?;
    let what = format!(
        "an event with its hooks, {} records",
        lines.len() / TASKS as usize
    );
    Ok(findings(&what, &compared, "parsing those", EVENT))
}

/// A time, and for information its ratio.
fn findings(
    what: &str,
    compared: &measure::Compared,
    theirs: &str,
    allowed: Duration,
) -> Vec<Finding> {
    let micros = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(TASKS);
    let (our_time, their_time) = (micros(compared.ours), micros(compared.theirs));
    let allowed = allowed.as_secs_f64() * 1e6;
    let verdict = if our_time <= allowed {
        Verdict::Ok
    } else {
        Verdict::Missed
    };
    let ratio = compared.ratio;
    vec![
        Finding {
            text: format!("{what}: {our_time:.2} us, allowed {allowed:.0} us"),
            verdict,
        },
        Finding {
            text: format!(
                "{theirs}: {their_time:.2} us; ratio {ratio:.2} over {} rounds",
                compared.rounds
            ),
            verdict: Verdict::Information,
        },
    ]
}

fn parse(lines: &[String]) -> Result<Duration> {
    let started = Instant::now();
    for line in lines {
        black_box(serde_json::from_str::<Value>(line)?);
    }
    Ok(started.elapsed())
}

fn is_completion(record: &Record) -> bool {
    matches!(record.event, Event::Task(TaskEvent::Completed(_)))
}

/// The result of completing every task.
struct All {
    records: Vec<Record>,
    /// Spent in the engine.
    took: Duration,
    /// Spent in `look`.
    beside: Duration,
}

/// Completes every task, with everything that follows.
fn completed(
    state: &mut SessionState,
    look: impl Fn(&SessionState, &Record) -> Duration,
) -> Result<All> {
    let mut all = All {
        records: Vec::new(),
        took: Duration::ZERO,
        beside: Duration::ZERO,
    };
    for n in 0..TASKS {
        let first = all.records.len();
        let started = Instant::now();
        change(
            state,
            TaskCommand::Complete(TaskCompletion {
                id: name(n),
                ..TaskCompletion::default()
            }),
            &mut all.records,
        )?;
        all.took += started.elapsed();
        all.beside += look(state, &all.records[first]);
    }
    let open = state
        .tasks
        .graph
        .tasks()
        .into_iter()
        .filter(|task| task.is_open())
        .count();
    check(
        open == TASKS as usize / 2,
        "not every completion was followed by what it should be",
    )?;
    Ok(all)
}

/// `creel task done` from start to end, compared with `creel --version`.
fn done() -> Result<Vec<Finding>> {
    let session = Session::start()?;
    let next = Cell::new(0);
    let ours = || {
        next.set(next.get() + 1);
        session.creel(&["task", "done", &name(next.get()), "-s", "s"])
    };
    session.add_tasks(DONE + 2)?;
    let compared = compare(DONE as usize, ours, || session.creel(&["--version"]))?;
    Ok(vec![compared.finding(
        "`creel task done`",
        "`creel --version`",
        3.0,
    )])
}

/// A running session in its own folder.
struct Session {
    folder: tempfile::TempDir,
    child: Option<Child>,
}

impl Session {
    fn start() -> Result<Self> {
        let mut session = Self {
            folder: tempfile::tempdir()?,
            child: None,
        };
        let folder = session.folder.path();
        fs::write(
            folder.join("creel.yaml"),
            "prompt: x\nagents: { demo: { script: scenario.yaml } }\n",
        )?;
        fs::write(folder.join("scenario.yaml"), "turns: [{ hang: true }]\n")?;
        session.child = Some(
            session
                .command(&["run", "--headless", "--trust", "-s", "s"])
                .spawn()?,
        );
        let deadline = Instant::now() + Duration::from_secs(10);
        while session.socket().is_none() {
            check(Instant::now() < deadline, "the session did not begin")?;
            std::thread::yield_now();
        }
        Ok(session)
    }

    fn command(&self, args: &[&str]) -> Command {
        let folder = self.folder.path();
        let mut command = Command::new(env!("CARGO_BIN_EXE_creel"));
        command
            .args(args)
            .current_dir(folder)
            .env("HOME", folder)
            .env("XDG_STATE_HOME", folder.join("state"));
        command
            .env_remove("XDG_RUNTIME_DIR")
            .env_remove("CREEL_SESSION");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    /// How long a creel command takes.
    fn creel(&self, args: &[&str]) -> Result<Duration> {
        let started = Instant::now();
        check(self.command(args).status()?.success(), "creel failed")?;
        Ok(started.elapsed())
    }

    fn socket(&self) -> Option<UnixStream> {
        let said = fs::read_to_string(self.folder.path().join(".creel/sessions/s/socket")).ok()?;
        UnixStream::connect(said.strip_suffix('\n')?).ok()
    }

    fn add_tasks(&self, count: u32) -> Result<()> {
        let mut socket = BufReader::new(self.socket().ok_or("the session is gone")?);
        for n in 0..count {
            let task = json!({ "add": { "goal": format!("Part {n}") } });
            writeln!(
                socket.get_mut(),
                "{}",
                json!({ "v": 1, "do": "task", "task": task })
            )?;
            let mut reply = String::new();
            socket.read_line(&mut reply)?;
            check(reply.contains("\"ok\":true"), "a task was not added")?;
        }
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.creel(&["stop", "--now", "-s", "s"]);
        if let Some(mut child) = self.child.take() {
            let _ = child.wait();
        }
    }
}
