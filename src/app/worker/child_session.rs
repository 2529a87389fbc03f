//! The session in which a worker has a task done: a creel of its own, held as if it had a screen.
//!
//! # Invariants
//! - The session does not outlive its worker, however the worker ends.
//! - What was begun here before is gone on with, and what was ended here before is not done again.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::{
        fd::OwnedFd,
        unix::{fs::OpenOptionsExt as _, net::UnixStream, process::ExitStatusExt as _},
    },
    path::PathBuf,
    process::{ExitStatus, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use crate::{
    app::{process_pair, run::numbered},
    cli::worker::WorkerArgs,
    engine::{
        SessionState,
        event::SessionOutcome,
        queue::{QueuedTask, TaskOutcome, worker_rules::ExistingSession},
    },
    journal::{self, SessionDir, SessionsDir, session_dir::PRIVATE_FILE},
    process::{
        children::{self, ChildEntry},
        run::GRACE,
        sweep,
    },
    runtime::now,
};

/// The exit code of a session that waits for somebody who is not there.
const NOBODY_THERE: i32 = 4;
/// The exit code of one that could not begin: its config is wrong, or not trusted any more.
const USAGE: i32 = 2;

/// What is known here of a task that was handed out.
pub(super) enum PriorSession {
    /// Nothing.
    Nothing(SessionDir),
    /// A session that is not over.
    Begun(SessionDir),
    /// A session whose end nobody was told.
    Ended(SessionDir, TaskOutcome),
    /// A session that somebody runs.
    Running,
}

/// How a session is to be run.
pub(super) struct ChildSessionSpec<'a> {
    pub(super) args: &'a WorkerArgs,
    pub(super) prompt: &'a str,
    /// Of the task.
    pub(super) mark: String,
    pub(super) kind: Option<&'a str>,
    pub(super) agent: &'a str,
}

/// A session that runs.
pub(super) struct ChildSession {
    pub(super) folder: SessionDir,
    child: Child,
    _entry: ChildEntry,
    /// The session ends when this is closed.
    _leash: UnixStream,
}

/// How a session ended.
pub(super) enum ChildSessionEnd {
    /// With something to tell.
    Upshot(TaskOutcome, Option<SessionOutcome>),
    /// Before it began.
    NeverBegan,
    /// It was killed.
    Died,
}

impl PriorSession {
    /// Looks for the session of a task: under its name, or under that with a number, if others have the name.
    pub(super) fn of(sessions: &SessionsDir, task: &QueuedTask) -> Self {
        let name = task.order.session(task.run);
        let mut folders = numbered(sessions, &name);
        folders.find_map(|folder| Self::at(folder, task)).expect("numbers do not end before sessions do")
    }

    /// What a folder has of a task. Nothing, if it is another task's.
    fn at(folder: SessionDir, task: &QueuedTask) -> Option<Self> {
        if !folder.exists() {
            return Some(Self::Nothing(folder));
        }
        match journal::fold(&folder.journal())
            .map_or(ExistingSession::Foreign, |session| ExistingSession::of(&session, task))
        {
            ExistingSession::Foreign => None,
            ExistingSession::Unfinished | ExistingSession::Over(_) if journal::running(&folder).is_some() => {
                Some(Self::Running)
            }
            ExistingSession::Unfinished => Some(Self::Begun(folder)),
            ExistingSession::Over(upshot) => Some(Self::Ended(folder, upshot)),
        }
    }

    /// The session that there is or will be.
    pub(super) fn folder(&self) -> Option<&SessionDir> {
        match self {
            Self::Nothing(folder) | Self::Begun(folder) | Self::Ended(folder, _) => Some(folder),
            Self::Running => None,
        }
    }
}

impl ChildSession {
    /// Begins a session.
    pub(super) fn begin(folder: SessionDir, job: &ChildSessionSpec<'_>) -> io::Result<Self> {
        let mut command = held("run")?;
        command.args(["--session", &folder.name, "--prompt-file", "/dev/stdin", "--agent", job.agent]);
        // In one word: it can begin with a `-`.
        command.arg(format!("--order={}", job.mark));
        if let Some(kind) = job.kind {
            command.args(["--task-type", kind]);
        }
        Self::start(folder, command, job, readable(job.prompt)?)
    }

    /// Goes on with one.
    pub(super) fn resume(folder: SessionDir, job: &ChildSessionSpec<'_>) -> io::Result<Self> {
        let mut command = held("resume")?;
        command.arg(&folder.name);
        Self::start(folder, command, job, File::open("/dev/null")?)
    }

    fn start(folder: SessionDir, mut command: Command, job: &ChildSessionSpec<'_>, input: File) -> io::Result<Self> {
        let WorkerArgs { config, nats, attended, json, .. } = job.args;
        command.arg("--headless");
        if *attended {
            command.arg("--attended");
        }
        if let Some(config) = &config.config {
            command.arg("--config").arg(config);
        }
        if let Some(url) = &nats.url {
            command.args(["--nats", url]);
        }
        if *json {
            command.stdout(Stdio::null());
        }
        let (ours, theirs) = UnixStream::pair()?;
        process_pair::send_input(&ours, input)?;
        // In a group of its own: what the terminal sends is for the worker, which passes it on.
        command.stdin(Stdio::from(OwnedFd::from(theirs))).env_remove("CREEL_SESSION").env_remove("CREEL_PROJECT");
        let (child, entry) = children::start("", || command.process_group(0).spawn())?;
        Ok(Self { folder, child, _entry: entry, _leash: ours })
    }

    /// Waits for its end.
    pub(super) async fn ended(&mut self) -> ChildSessionEnd {
        let status = self.child.wait().await.unwrap_or_else(|_| ExitStatus::from_raw(1 << 8));
        if status.signal().is_some() {
            // It had no time to end what it started, and this worker is the parent of that now.
            sweep::end_orphans(GRACE).await;
        }
        if status.code() == Some(USAGE) {
            return ChildSessionEnd::NeverBegan;
        }
        let Some(state) = self.state() else {
            // Whoever killed it so early has nothing against this machine.
            return if status.signal().is_some() { ChildSessionEnd::Died } else { ChildSessionEnd::NeverBegan };
        };
        match state.outcome() {
            None if status.code() != Some(NOBODY_THERE) => ChildSessionEnd::Died,
            outcome => ChildSessionEnd::Upshot(TaskOutcome::of(&state), outcome),
        }
    }

    fn state(&self) -> Option<SessionState> {
        journal::fold(&self.folder.journal()).ok()
    }

    /// Asks it to end: the first time in order, the second time at once.
    pub(super) fn stop(&self) {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // It may have ended just now.
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}

fn held(subcommand: &str) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--held").arg(subcommand);
    Ok(command)
}

/// A text to be read by another process, and by nobody else: neither a list of processes nor a folder shows it.
fn readable(text: &str) -> io::Result<File> {
    let path: PathBuf = std::env::temp_dir().join(format!("creel-{}-{}", std::process::id(), now().0));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(PRIVATE_FILE).open(&path)?;
    let read = file.write_all(text.as_bytes()).and_then(|()| File::open(&path));
    fs::remove_file(&path)?;
    read
}
