//! Runs one command line to its end, whatever it does.
//!
//! Owns the process group, the three streams, the timeout and the cancelling of one `sh -c`, or of one program without
//! a shell. Does not keep output (see [`super::output`]) and does not know what the command is for.
//!
//! # Invariants
//! - What was printed reaches the watch, in the order of each stream, also when the command is ended by force.
//! - When [`run`] is over because of time or a cancel, or its future is dropped, nothing that the command started is
//!   left. A command that ended by itself may leave something in the background; the caller has its [`ProcessGroup`].
//! - A command that never reads its input, or leaves its output open in the background, holds nobody.

use std::{
    io,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use tokio::{
    process::{Child, Command},
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

mod streams;

pub use super::sweep::ProcessGroup;
use super::{
    children::{self, ChildEntry},
    sweep::{self, MARK},
};
use crate::process::pty;
use streams::{LARGE_BUFFER, ProcessInput, ProcessOutput, input_for, write};

/// The shell, by its path: looking for it on `PATH` costs a failed call for every folder before the right one, and what a
/// project puts on `PATH` must not stand in for it.
const SHELL: &str = "/bin/sh";

/// After the command ended: how long its output may be silent while somebody still holds it open.
const DRAIN_QUIET: Duration = Duration::from_millis(50);
/// After the command ended: how long we read at most from what it left in the background.
const DRAIN_TOTAL: Duration = Duration::from_millis(500);
/// What a command is told by us and must not hear from an outer session.
const OURS: &[&str] = &[
    "CREEL_SESSION",
    "CREEL_PROJECT",
    "CREEL_ITERATION",
    "CREEL_TASK_ID",
    "CREEL_TASK_CONTENT",
    "CREEL_ERROR",
    "CREEL_ATTEMPT",
    "CREEL_HOOK",
    "CREEL_POINT",
    "CREEL_PROMPT",
    "CREEL_CONVERSATION",
    "CREEL_MCP",
];

/// What to run, and how long.
#[derive(Debug, Clone)]
pub struct ProcessSpec {
    /// For `sh -c`.
    pub command: String,
    /// Where it runs.
    pub cwd: PathBuf,
    /// What is set on top of our own environment. NUL bytes are dropped: no variable can hold one.
    pub env: Vec<(String, String)>,
    /// What it can read.
    pub stdin: Vec<u8>,
    /// How long it may take; as long as it likes if absent.
    pub timeout: Option<Duration>,
    /// How long it may take to end after TERM.
    pub grace: Duration,
    /// What its `CREEL_MARK` is; unique to this run, or a sweep would end others too.
    pub mark: String,
}

/// A program to run without a shell: no character of an argument has a meaning.
#[derive(Debug, Clone)]
pub struct ProgramSpec {
    /// Its name, looked for on the `PATH` that it is given, or its path.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Where it runs.
    pub cwd: PathBuf,
    /// What is set on top of our own environment.
    pub env: Vec<(String, String)>,
    /// What it must not hear of our own environment.
    pub unset: &'static [&'static str],
    /// What it can read.
    pub stdin: Vec<u8>,
    /// How long it may take; as long as it likes if absent.
    pub timeout: Option<Duration>,
    /// What its `CREEL_MARK` is; unique to this run.
    pub mark: String,
}

/// How long a command may usually take to end after TERM.
pub const GRACE: Duration = Duration::from_secs(2);

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessEnd {
    /// It exited with this code.
    Exit(i32),
    /// A signal ended it.
    Signal(i32),
    /// It took too long, and was ended.
    TimedOut,
    /// It was cancelled, and was ended.
    Cancelled,
    /// It could not be started, and why.
    SpawnFailed(String),
}

/// Where something was printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Sees what a command does while it runs. Must not wait: the command is held meanwhile.
pub trait ProcessObserver: Send {
    /// It runs, in this group.
    fn started(&mut self, group: ProcessGroup);
    /// It printed something.
    fn output(&mut self, stream: OutputStream, bytes: &[u8]);
}

/// Runs the command and waits for its end.
pub async fn run(spec: ProcessSpec, watch: &mut dyn ProcessObserver, cancel: &CancellationToken) -> ProcessEnd {
    attend(spec.timeout, || RunningProcess::start(spec), watch, cancel).await
}

/// The same for a program without a shell.
pub async fn run_program(spec: ProgramSpec, watch: &mut dyn ProcessObserver, cancel: &CancellationToken) -> ProcessEnd {
    attend(spec.timeout, || RunningProcess::start_program(spec), watch, cancel).await
}

/// The same on a terminal of its own. What it prints is one stream then, standard output, and its input is what is
/// typed: see [`pty::typed`]. What it leaves in the background hears that the terminal hangs up.
pub async fn run_on_terminal(
    spec: ProcessSpec,
    watch: &mut dyn ProcessObserver,
    cancel: &CancellationToken,
) -> ProcessEnd {
    attend(spec.timeout, || RunningProcess::start_on_terminal(spec), watch, cancel).await
}

async fn attend(
    timeout: Option<Duration>,
    start: impl FnOnce() -> Result<RunningProcess, String>,
    watch: &mut dyn ProcessObserver,
    cancel: &CancellationToken,
) -> ProcessEnd {
    if cancel.is_cancelled() {
        return ProcessEnd::Cancelled;
    }
    let deadline = timeout.and_then(|t| Instant::now().checked_add(t));
    let mut running = match start() {
        Ok(running) => running,
        Err(why) => return ProcessEnd::SpawnFailed(why),
    };
    watch.started(running.guard.group);
    let too_late = async {
        match deadline {
            Some(deadline) => sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    };
    // In this order, so that a flood of output cannot put off the end.
    tokio::select! {
        biased;
        () = cancel.cancelled() => {
            running.end_by_force(watch).await;
            ProcessEnd::Cancelled
        }
        () = too_late => {
            running.end_by_force(watch).await;
            ProcessEnd::TimedOut
        }
        ended = running.until_exit(watch) => {
            running.drain(watch).await;
            running.leave_background();
            describe(ended)
        }
    }
}

/// A command line for the shell, in a group of its own, marked as ours.
pub(super) fn shell(line: &str, cwd: &Path, env: &[(String, String)], mark: &str) -> Command {
    let mut command = bare_shell(line, cwd, env, mark);
    command.process_group(0);
    command
}

/// The same without a group: one that gets a terminal becomes the leader of a session, which the leader of a group cannot.
fn bare_shell(line: &str, cwd: &Path, env: &[(String, String)], mark: &str) -> Command {
    let mut command = Command::new(SHELL);
    command.arg("-c").arg(line);
    marked(&mut command, cwd, env, mark);
    command
}

/// Says where it runs, and in which environment.
fn marked(command: &mut Command, cwd: &Path, env: &[(String, String)], mark: &str) {
    command.current_dir(cwd);
    for name in OURS {
        command.env_remove(name);
    }
    for (name, value) in env {
        command.env(name, value.replace('\0', ""));
    }
    command.env(MARK, sweep::marked(mark));
}

/// Ends the group, and whatever left it, if nobody came to see the end.
#[derive(Debug)]
pub(super) struct ProcessGroupGuard {
    pub(super) group: ProcessGroup,
    pub(super) mark: String,
    armed: bool,
    _entry: ChildEntry,
}

impl ProcessGroupGuard {
    /// Watches over a process that was just started.
    pub(super) fn of(entry: ChildEntry, mark: String) -> Self {
        Self { group: entry.group(), mark, armed: true, _entry: entry }
    }

    /// Somebody saw the end.
    pub(super) fn disarm(&mut self) {
        self.armed = false;
    }
}

impl Drop for ProcessGroupGuard {
    fn drop(&mut self) {
        if self.armed {
            self.group.signal(Signal::KILL);
            sweep::kill_all_now(&self.mark, &[self.group]);
        }
    }
}

struct RunningProcess {
    child: Child,
    exited: Option<io::Result<ExitStatus>>,
    stdin: Option<ProcessInput>,
    stdout: ProcessOutput,
    stderr: ProcessOutput,
    grace: Duration,
    guard: ProcessGroupGuard,
}

/// What one look at the streams found.
enum ProcessProgress {
    Read(OutputStream, usize),
    Wrote,
    Exited,
}

impl RunningProcess {
    fn start(spec: ProcessSpec) -> Result<Self, String> {
        let mut command = shell(&spec.command, &spec.cwd, &spec.env, &spec.mark);
        command.stdin(input_for(&spec.stdin)).stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = children::start(&spec.mark, || command.spawn()).map_err(|e| why_not(&e, &spec.cwd))?;
        Ok(Self::piped(started, spec.stdin, spec.grace, spec.mark))
    }

    fn start_program(spec: ProgramSpec) -> Result<Self, String> {
        let mut command = Command::new(&spec.program);
        // An argument cannot hold a NUL byte.
        command.args(spec.args.iter().map(|arg| arg.replace('\0', ""))).process_group(0);
        for name in spec.unset {
            command.env_remove(name);
        }
        marked(&mut command, &spec.cwd, &spec.env, &spec.mark);
        command.stdin(input_for(&spec.stdin)).stdout(Stdio::piped()).stderr(Stdio::piped());
        let missing = |e: &io::Error| e.kind() == io::ErrorKind::NotFound && spec.cwd.is_dir();
        let started = children::start(&spec.mark, || command.spawn()).map_err(|e| {
            if missing(&e) { format!("there is no `{}` on the PATH", spec.program) } else { why_not(&e, &spec.cwd) }
        })?;
        Ok(Self::piped(started, spec.stdin, GRACE, spec.mark))
    }

    fn piped((mut child, entry): (Child, ChildEntry), stdin: Vec<u8>, grace: Duration, mark: String) -> Self {
        let guard = ProcessGroupGuard::of(entry, mark);
        let stdin = child.stdin.take().map(|pipe| ProcessInput::new(pipe, stdin));
        let stdout = child.stdout.take().map_or_else(ProcessOutput::closed, ProcessOutput::new);
        let stderr = child.stderr.take().map_or_else(ProcessOutput::closed, ProcessOutput::new);
        Self { child, exited: None, stdin, stdout, stderr, grace, guard }
    }

    fn start_on_terminal(spec: ProcessSpec) -> Result<Self, String> {
        let command = bare_shell(&spec.command, &spec.cwd, &spec.env, &spec.mark);
        let started = children::start_with(&spec.mark, || pty::spawn(command));
        let (child, entry, terminal) = started.map_err(|e| why_not(&e, &spec.cwd))?;
        let guard = ProcessGroupGuard::of(entry, spec.mark);
        let (reader, writer) = terminal.into_split();
        let stdin = (!spec.stdin.is_empty()).then(|| ProcessInput::new(writer, spec.stdin));
        let (stdout, stderr) = (ProcessOutput::new(reader), ProcessOutput::closed());
        Ok(Self { child, exited: None, stdin, stdout, stderr, grace: spec.grace, guard })
    }

    /// Moves bytes until the leader has ended.
    async fn until_exit(&mut self, watch: &mut dyn ProcessObserver) -> io::Result<ExitStatus> {
        loop {
            if let Some(exited) = self.exited.take() {
                return exited;
            }
            self.step(watch).await;
        }
    }

    /// Waits for one thing to happen. Nothing is lost if it is dropped while it waits.
    async fn step(&mut self, watch: &mut dyn ProcessObserver) {
        let seen = tokio::select! {
            n = self.stdout.read() => ProcessProgress::Read(OutputStream::Stdout, n),
            n = self.stderr.read() => ProcessProgress::Read(OutputStream::Stderr, n),
            () = write(&mut self.stdin) => ProcessProgress::Wrote,
            exited = self.child.wait(), if self.exited.is_none() => {
                self.exited = Some(exited);
                ProcessProgress::Exited
            }
        };
        let flooded = matches!(seen, ProcessProgress::Read(_, n) if n >= LARGE_BUFFER);
        match seen {
            ProcessProgress::Read(OutputStream::Stdout, n) => self.stdout.pass_on(OutputStream::Stdout, n, watch),
            ProcessProgress::Read(OutputStream::Stderr, n) => self.stderr.pass_on(OutputStream::Stderr, n, watch),
            ProcessProgress::Wrote => {}
            // Nobody is left for whom this was meant.
            ProcessProgress::Exited => self.stdin = None,
        }
        if flooded {
            // Whoever was told of this piece gets a turn before the next one: pieces that pile up cost fresh memory.
            tokio::task::yield_now().await;
        }
    }

    /// Reads what is left after the leader ended, without waiting for those who only hold the pipe.
    async fn drain(&mut self, watch: &mut dyn ProcessObserver) {
        let deadline = Instant::now() + DRAIN_TOTAL;
        while self.stdout.is_open() || self.stderr.is_open() {
            let silent = tokio::select! {
                biased;
                n = self.stdout.read() => { self.stdout.pass_on(OutputStream::Stdout, n, watch); false }
                n = self.stderr.read() => { self.stderr.pass_on(OutputStream::Stderr, n, watch); false }
                () = sleep(DRAIN_QUIET) => true,
            };
            if silent || Instant::now() >= deadline {
                return;
            }
        }
    }

    /// The command is over, and what it left in the background may go on. Its output is read and dropped, since a
    /// closed pipe would end it.
    fn leave_background(&mut self) {
        self.guard.disarm();
        self.stdout.discard();
        self.stderr.discard();
    }

    /// TERM, grace, KILL, for all that belongs to it; what it prints meanwhile is still read.
    async fn end_by_force(&mut self, watch: &mut dyn ProcessObserver) {
        let (mark, groups) = (self.guard.mark.clone(), [self.guard.group]);
        let ending = sweep::end_all(&mark, &groups, self.grace);
        tokio::pin!(ending);
        loop {
            tokio::select! {
                biased;
                _ = &mut ending => break,
                () = self.step(watch), if self.is_busy() => {}
            }
        }
        if self.exited.is_none() {
            // Reaps the leader. It was killed, so this is short, unless the kernel holds it.
            let _ = timeout(DRAIN_TOTAL, self.child.wait()).await;
        }
        self.drain(watch).await;
        self.guard.disarm();
    }

    fn is_busy(&self) -> bool {
        self.exited.is_none() || self.stdout.is_open() || self.stderr.is_open()
    }
}

pub(super) fn describe(ended: io::Result<ExitStatus>) -> ProcessEnd {
    match ended {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => ProcessEnd::Exit(code),
            (None, Some(signal)) => ProcessEnd::Signal(signal),
            (None, None) => ProcessEnd::SpawnFailed(format!("the system does not say how it ended: {status}")),
        },
        Err(e) => ProcessEnd::SpawnFailed(format!("the system does not say how it ended: {e}")),
    }
}

/// Tells the reasons apart that a person would treat differently.
pub(super) fn why_not(error: &io::Error, cwd: &Path) -> String {
    if !cwd.is_dir() {
        return format!("the folder {} is gone", cwd.display());
    }
    let kind = error.kind();
    if kind == io::ErrorKind::ArgumentListTooLong {
        "the command and its environment are too long for the system: make the command shorter".into()
    } else if kind == io::ErrorKind::NotFound {
        "there is no `sh` on the PATH: install a POSIX shell".into()
    } else {
        error.to_string()
    }
}
