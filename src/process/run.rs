//! Runs one command line to its end.
//!
//! Owns the process group, the three streams, the timeout and the cancellation of one `sh -c`, or
//! of one program without a shell. A command line that is only a program and its words does not
//! need the shell either. Does not store output (see [`super::output`]) and does not know the
//! command's purpose.
//!
//! # Invariants
//! - All output reaches the observer, in the order of each stream, even if the command is killed.
//! - After a timeout, a cancellation or a drop of the future of [`run`], nothing that the command
//!   started is left. A command that ended by itself can leave processes in the background; the
//!   caller has its [`ProcessGroup`].
//! - A command that never reads its input, or leaves its output open in the background, does not
//!   block creel.

use std::{
    ffi::OsString,
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

mod plain_command;
mod streams;

pub use super::sweep::ProcessGroup;
use super::{
    children::{self, ChildEntry},
    sweep::{self, MARK},
};
use crate::process::{own_group, pty};
use streams::{LARGE_BUFFER, ProcessInput, ProcessOutput, input_for, write};

/// An absolute path: a search on `PATH` costs a failed call per folder, and a project must not
/// replace the shell through `PATH`.
const SHELL: &str = "/bin/sh";

/// After the command ended: how long to wait for output while a background process keeps the pipe
/// open.
const DRAIN_QUIET: Duration = Duration::from_millis(50);
/// After the command ended: how long to read output of background processes at most.
const DRAIN_TOTAL: Duration = Duration::from_millis(500);
/// Variables that creel sets. A command must not inherit them from an outer session.
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
    "CREEL_BRANCH",
    "CREEL_BASE",
    "CREEL_COMMIT",
    "CREEL_AGENT",
    "CREEL_TASK_TYPE",
    "CREEL_PULL_REQUEST",
];

#[derive(Debug, Clone)]
pub struct ProcessSpec {
    /// For `sh -c`.
    pub command: String,
    pub cwd: PathBuf,
    /// Added to creel's own environment. NUL bytes are dropped: a variable cannot contain one.
    pub env: Vec<(String, String)>,
    /// Variables of creel that it does not get.
    pub unset: Vec<OsString>,
    pub stdin: Vec<u8>,
    /// No limit if None.
    pub timeout: Option<Duration>,
    /// How long it gets to end after TERM.
    pub grace: Duration,
    /// The value of its `CREEL_MARK`. It must be unique to this run, or a sweep would end other
    /// runs too.
    pub mark: String,
}

/// A program to run without a shell: no character in an argument is special.
#[derive(Debug, Clone)]
pub struct ProgramSpec {
    /// A path, or a name that is searched on the program's own `PATH`.
    pub program: String,
    pub args: Vec<String>,
    pub cwd: PathBuf,
    /// Added to creel's own environment.
    pub env: Vec<(String, String)>,
    /// Variables to remove from the environment.
    pub unset: &'static [&'static str],
    pub stdin: Vec<u8>,
    /// No limit if None.
    pub timeout: Option<Duration>,
    /// The value of its `CREEL_MARK`. It must be unique to this run.
    pub mark: String,
}

/// The default time that a command gets to end after TERM.
pub const GRACE: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessEnd {
    Exit(i32),
    Signal(i32),
    TimedOut,
    Cancelled,
    /// With the reason.
    SpawnFailed(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputStream {
    Stdout,
    Stderr,
}

/// Observes a command while it runs. Must not block, because the command waits meanwhile.
pub trait ProcessObserver: Send {
    fn started(&mut self, group: ProcessGroup);
    fn output(&mut self, stream: OutputStream, bytes: &[u8]);
}

pub async fn run(
    spec: ProcessSpec,
    watch: &mut dyn ProcessObserver,
    cancel: &CancellationToken,
) -> ProcessEnd {
    attend(spec.timeout, || RunningProcess::start(spec), watch, cancel).await
}

/// Like [`run`], for a program without a shell.
pub async fn run_program(
    spec: ProgramSpec,
    watch: &mut dyn ProcessObserver,
    cancel: &CancellationToken,
) -> ProcessEnd {
    attend(
        spec.timeout,
        || RunningProcess::start_program(spec),
        watch,
        cancel,
    )
    .await
}

/// Like [`run`], on a terminal of its own. All output is standard output then, and the input is
/// typed: see [`pty::typed`]. Processes that it leaves in the background receive a hangup.
pub async fn run_on_terminal(
    spec: ProcessSpec,
    watch: &mut dyn ProcessObserver,
    cancel: &CancellationToken,
) -> ProcessEnd {
    attend(
        spec.timeout,
        || RunningProcess::start_on_terminal(spec),
        watch,
        cancel,
    )
    .await
}

async fn attend(
    timeout: Option<Duration>,
    start: impl FnOnce() -> Result<RunningProcess, StartError>,
    watch: &mut dyn ProcessObserver,
    cancel: &CancellationToken,
) -> ProcessEnd {
    if cancel.is_cancelled() {
        return ProcessEnd::Cancelled;
    }
    let deadline = timeout.and_then(|t| Instant::now().checked_add(t));
    let mut running = match start() {
        Ok(running) => running,
        Err(error) => return ProcessEnd::SpawnFailed(error.to_string()),
    };
    watch.started(running.guard.group);
    let too_late = async {
        match deadline {
            Some(deadline) => sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    };
    // In this order, so that a flood of output cannot delay the end.
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

/// The variables of a command, beside creel's own.
pub(super) struct Variables<'a> {
    pub(super) set: &'a [(String, String)],
    /// Those of creel that it does not get.
    pub(super) unset: &'a [OsString],
}

/// A shell command line in its own process group, with creel's mark.
pub(super) fn shell(line: &str, cwd: &Path, env: &Variables<'_>, mark: &str) -> Command {
    let mut command = bare_shell(line, cwd, env, mark);
    own_group(&mut command);
    command
}

/// Without a group: a command with a terminal becomes a session leader, which a group leader
/// cannot.
fn bare_shell(line: &str, cwd: &Path, env: &Variables<'_>, mark: &str) -> Command {
    let mut command = Command::new(SHELL);
    command.arg("-c").arg(line);
    marked(&mut command, cwd, env, mark);
    command
}

/// Sets the working directory, the environment and the mark.
fn marked(command: &mut Command, cwd: &Path, env: &Variables<'_>, mark: &str) {
    command.current_dir(cwd);
    for name in OURS {
        command.env_remove(name);
    }
    for name in env.unset {
        command.env_remove(name);
    }
    for (name, value) in env.set {
        command.env(name, value.replace('\0', ""));
    }
    command.env(MARK, sweep::marked(mark));
}

/// On drop, kills the group and the processes that left it, unless the run ended regularly.
#[derive(Debug)]
pub(super) struct ProcessGroupGuard {
    pub(super) group: ProcessGroup,
    pub(super) mark: String,
    armed: bool,
    _entry: ChildEntry,
}

impl ProcessGroupGuard {
    pub(super) fn of(entry: ChildEntry, mark: String) -> Self {
        Self {
            group: entry.group(),
            mark,
            armed: true,
            _entry: entry,
        }
    }

    /// The run ended regularly: there is nothing to kill on drop.
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

enum ProcessProgress {
    Read(OutputStream, usize),
    Wrote,
    Exited,
}

impl RunningProcess {
    fn start(spec: ProcessSpec) -> Result<Self, StartError> {
        let ProcessSpec {
            command: line,
            cwd,
            env,
            unset,
            stdin,
            grace,
            mark,
            ..
        } = spec;
        let env = Variables {
            set: &env,
            unset: &unset,
        };
        let start = |mut command: Command| {
            command
                .stdin(input_for(&stdin))
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
            children::start(&mark, || command.spawn())
        };
        let plain = plain_command::words(&line, &cwd).map(|words| {
            let mut command = Command::new(words[0]);
            command.args(&words[1..]);
            own_group(&mut command);
            marked(&mut command, &cwd, &env, &mark);
            command
        });
        // What the system cannot start, the shell may understand; otherwise it says why not.
        let started = match plain.map(&start) {
            Some(Ok(started)) => Ok(started),
            Some(Err(_)) | None => start(shell(&line, &cwd, &env, &mark)),
        };
        let started = started.map_err(|error| why_not(error, &cwd))?;
        Ok(Self::piped(started, stdin, grace, mark))
    }

    fn start_program(spec: ProgramSpec) -> Result<Self, StartError> {
        let mut command = Command::new(&spec.program);
        // An argument cannot contain a NUL byte.
        command.args(spec.args.iter().map(|arg| arg.replace('\0', "")));
        own_group(&mut command);
        for name in spec.unset {
            command.env_remove(name);
        }
        let env = Variables {
            set: &spec.env,
            unset: &[],
        };
        marked(&mut command, &spec.cwd, &env, &spec.mark);
        command
            .stdin(input_for(&spec.stdin))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // With a folder in PATH that the user cannot read, the system reports a missing program as
        // a denied one.
        let hidden = |e: &io::Error| {
            e.kind() == io::ErrorKind::PermissionDenied && !is_on_path(&spec.program)
        };
        let missing =
            |e: &io::Error| (e.kind() == io::ErrorKind::NotFound || hidden(e)) && spec.cwd.is_dir();
        let started =
            children::start(&spec.mark, || command.spawn()).map_err(|e| match missing(&e) {
                true if spec.program.contains('/') => {
                    StartError::NoProgramFile(spec.program.clone())
                }
                true => StartError::NoProgram(spec.program.clone()),
                false => why_not(e, &spec.cwd),
            })?;
        Ok(Self::piped(started, spec.stdin, GRACE, spec.mark))
    }

    fn piped(
        (mut child, entry): (Child, ChildEntry),
        stdin: Vec<u8>,
        grace: Duration,
        mark: String,
    ) -> Self {
        let guard = ProcessGroupGuard::of(entry, mark);
        let stdin = child
            .stdin
            .take()
            .map(|pipe| ProcessInput::new(pipe, stdin));
        let stdout = child
            .stdout
            .take()
            .map_or_else(ProcessOutput::closed, ProcessOutput::new);
        let stderr = child
            .stderr
            .take()
            .map_or_else(ProcessOutput::closed, ProcessOutput::new);
        Self {
            child,
            exited: None,
            stdin,
            stdout,
            stderr,
            grace,
            guard,
        }
    }

    fn start_on_terminal(spec: ProcessSpec) -> Result<Self, StartError> {
        let env = Variables {
            set: &spec.env,
            unset: &spec.unset,
        };
        let command = bare_shell(&spec.command, &spec.cwd, &env, &spec.mark);
        let started = children::start_with(&spec.mark, || pty::spawn(command));
        let (child, entry, terminal) = started.map_err(|e| why_not(e, &spec.cwd))?;
        let guard = ProcessGroupGuard::of(entry, spec.mark);
        let (reader, writer) = terminal.into_split();
        let stdin = (!spec.stdin.is_empty()).then(|| ProcessInput::new(writer, spec.stdin));
        let (stdout, stderr) = (ProcessOutput::new(reader), ProcessOutput::closed());
        Ok(Self {
            child,
            exited: None,
            stdin,
            stdout,
            stderr,
            grace: spec.grace,
            guard,
        })
    }

    /// Copies input and output until the leader has ended.
    async fn until_exit(&mut self, watch: &mut dyn ProcessObserver) -> io::Result<ExitStatus> {
        loop {
            if let Some(exited) = self.exited.take() {
                return exited;
            }
            self.step(watch).await;
        }
    }

    /// Waits for one event. Nothing is lost if this future is dropped.
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
            ProcessProgress::Read(OutputStream::Stdout, n) => {
                self.stdout.pass_on(OutputStream::Stdout, n, watch);
            }
            ProcessProgress::Read(OutputStream::Stderr, n) => {
                self.stderr.pass_on(OutputStream::Stderr, n, watch);
            }
            ProcessProgress::Wrote => {}
            // The command has ended and reads no more input.
            ProcessProgress::Exited => self.stdin = None,
        }
        if flooded {
            // Let the receivers process this chunk before the next one: chunks that pile up cost
            // memory.
            tokio::task::yield_now().await;
        }
    }

    /// Reads the rest of the output after the leader ended. Does not wait long for background
    /// processes that keep the pipe open.
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

    /// The command has ended, and its background processes can continue. Their output is read and
    /// dropped, because a closed pipe would end them.
    fn leave_background(&mut self) {
        self.guard.disarm();
        self.stdout.discard();
        self.stderr.discard();
    }

    /// TERM, grace, KILL for everything that belongs to the command. Its output is still read
    /// meanwhile.
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
            // Reaps the leader. It was killed, so this is short unless it is stuck in the kernel.
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
            (None, None) => ProcessEnd::SpawnFailed(format!(
                "the system does not report how it ended: {status}"
            )),
        },
        Err(e) => ProcessEnd::SpawnFailed(format!("the system does not report how it ended: {e}")),
    }
}

/// Whether a program that is named by its file alone can be found. A path always counts as found.
fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    program.contains('/')
        || std::env::split_paths(&path).any(|folder| folder.join(program).exists())
}

/// Distinguishes the reasons that the user can fix in different ways.
pub(super) fn why_not(error: io::Error, cwd: &Path) -> StartError {
    if !cwd.is_dir() {
        return StartError::NoFolder(cwd.to_owned());
    }
    let kind = error.kind();
    if kind == io::ErrorKind::ArgumentListTooLong {
        StartError::CommandTooLong
    } else if kind == io::ErrorKind::NotFound {
        StartError::NoShell
    } else {
        StartError::Io(error)
    }
}

/// Why a command did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("the folder {} no longer exists", .0.display())]
    NoFolder(PathBuf),
    #[error(
        "the command and its environment are too long for the system: make the command shorter"
    )]
    CommandTooLong,
    #[error("`sh` is not on PATH: install a POSIX shell")]
    NoShell,
    #[error("`{0}` is not on PATH")]
    NoProgram(String),
    #[error("the program `{0}` does not exist")]
    NoProgramFile(String),
    #[error("it has no streams")]
    NoStreams,
    #[error(transparent)]
    Io(#[from] io::Error),
}
