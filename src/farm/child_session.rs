//! The session in which a worker has a task done: its own creel process, the child of a
//! process pair.
//!
//! # Invariants
//! - The session does not outlive its worker, however the worker ends.
//! - A session that started here before is resumed, and one that ended here before is not run
//!   again.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::{
        fd::OwnedFd,
        unix::{fs::OpenOptionsExt as _, net::UnixStream, process::ExitStatusExt as _},
    },
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use crate::{
    engine::{
        SessionState,
        event::SessionOutcome,
        queue::{QueuedTask, TaskOutcome, TaskSpending, worker_rules::ExistingSession},
    },
    farm::worker::WorkerOptions,
    journal::{self, SessionDir, SessionsDir, session_dir::PRIVATE_FILE},
    process::{
        children::{self, ChildEntry},
        run::GRACE,
        send_file, sweep,
    },
    runtime::now,
};

/// The exit code of a session that waits for the user while unattended.
const NEEDS_USER: i32 = 4;
/// The exit code of a session whose worktree could not be prepared.
const FAILED: i32 = 1;
/// The exit code of a session that could not start: its config is wrong, or no longer trusted.
const USAGE: i32 = 2;

/// The session that this machine already has for a task.
pub(super) enum PriorSession {
    /// None. Carries the folder for a new one.
    Nothing(SessionDir),
    /// A session that has not ended.
    Begun(SessionDir),
    /// A session whose end was never reported.
    Ended(SessionDir, TaskOutcome),
    /// A session that another process runs.
    Running,
}

pub(super) struct ChildSessionSpec<'a> {
    pub(super) options: &'a WorkerOptions,
    pub(super) prompt: &'a str,
    /// The task's mark.
    pub(super) mark: String,
    pub(super) kind: Option<&'a str>,
    pub(super) agent: &'a str,
    /// If the session gets a worktree: the branches that it starts from, besides its base.
    pub(super) joins: Option<&'a [String]>,
}

/// A running session.
pub(super) struct ChildSession {
    pub(super) folder: SessionDir,
    has_worktree: bool,
    child: Child,
    _entry: ChildEntry,
    /// The session ends when this is closed.
    _parent_socket: UnixStream,
}

pub(super) enum ChildSessionEnd {
    /// The task has a result. The second is how the session ended, if it has.
    Result(TaskOutcome, Option<SessionOutcome>),
    NeverBegan,
    /// Its worktree could not be prepared. Another attempt may succeed.
    NoWorktree,
    Died,
}

impl PriorSession {
    /// Looks for the session of a task: under its name, or with a number added if other sessions
    /// have the name.
    pub(super) fn of(sessions: &SessionsDir, task: &QueuedTask) -> Self {
        let name = task.order.session(task.run);
        sessions
            .numbered(&name)
            .find_map(|folder| Self::at(folder, task))
            .expect("numbers do not end before sessions do")
    }

    /// The state of a folder. `None` if it belongs to another task.
    fn at(folder: SessionDir, task: &QueuedTask) -> Option<Self> {
        if !folder.exists() {
            return Some(Self::Nothing(folder));
        }
        match journal::fold(&folder.journal()).map_or(ExistingSession::Foreign, |session| {
            ExistingSession::of(&session, task)
        }) {
            ExistingSession::Foreign => None,
            ExistingSession::Unfinished | ExistingSession::Over(_)
                if journal::running(&folder).is_some() =>
            {
                Some(Self::Running)
            }
            ExistingSession::Unfinished => Some(Self::Begun(folder)),
            ExistingSession::Over(outcome) => Some(Self::Ended(folder, outcome)),
        }
    }

    /// The folder of the existing or future session. `None` if another process runs it.
    pub(super) fn folder(&self) -> Option<&SessionDir> {
        match self {
            Self::Nothing(folder) | Self::Begun(folder) | Self::Ended(folder, _) => Some(folder),
            Self::Running => None,
        }
    }
}

impl ChildSession {
    pub(super) fn begin(folder: SessionDir, job: &ChildSessionSpec<'_>) -> io::Result<Self> {
        let mut command = held("run")?;
        command.args([
            "--session",
            &folder.name,
            "--prompt-file",
            "/dev/stdin",
            "--agent",
            job.agent,
        ]);
        // As one argument, since it can begin with a `-`.
        command.arg(format!("--order={}", job.mark));
        if let Some(kind) = job.kind {
            command.args(["--task-type", kind]);
        }
        if let Some(joins) = job.joins {
            command
                .arg("--worktree")
                .args(joins.iter().map(|branch| format!("--join={branch}")));
        }
        Self::start(folder, command, job, readable(job.prompt)?)
    }

    pub(super) fn resume(folder: SessionDir, job: &ChildSessionSpec<'_>) -> io::Result<Self> {
        let mut command = held("resume")?;
        command.arg(&folder.name);
        Self::start(folder, command, job, File::open("/dev/null")?)
    }

    fn start(
        folder: SessionDir,
        mut command: Command,
        job: &ChildSessionSpec<'_>,
        input: File,
    ) -> io::Result<Self> {
        let options = job.options;
        // Several workers may share a folder.
        command.args(["--headless", "--force"]);
        if options.attended {
            command.arg("--attended");
        }
        if let Some(config) = &options.config {
            command.arg("--config").arg(config);
        }
        if let Some(url) = &options.nats_url {
            command.args(["--nats", url]);
        }
        if !options.shows_sessions {
            command.stdout(Stdio::null());
        }
        let (ours, theirs) = UnixStream::pair()?;
        send_file(&ours, input)?;
        // In its own process group: signals of the terminal go to the worker, which forwards them.
        command
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .env_remove("CREEL_SESSION")
            .env_remove("CREEL_PROJECT");
        let (child, entry) = children::start("", || command.process_group(0).spawn())?;
        Ok(Self {
            folder,
            has_worktree: job.joins.is_some(),
            child,
            _entry: entry,
            _parent_socket: ours,
        })
    }

    pub(super) async fn ended(&mut self) -> ChildSessionEnd {
        let status = self
            .child
            .wait()
            .await
            .unwrap_or_else(|_| ExitStatus::from_raw(1 << 8));
        if status.signal().is_some() {
            // It could not end its own processes, which are children of this worker now.
            sweep::end_orphans(GRACE).await;
        }
        if status.code() == Some(USAGE) {
            return ChildSessionEnd::NeverBegan;
        }
        let Some(state) = self.state() else {
            // A session that a signal ended this early says nothing about this machine.
            return if status.signal().is_some() {
                ChildSessionEnd::Died
            } else if self.has_worktree && status.code() == Some(FAILED) {
                ChildSessionEnd::NoWorktree
            } else {
                ChildSessionEnd::NeverBegan
            };
        };
        match state.phase.outcome() {
            None if status.code() != Some(NEEDS_USER) => ChildSessionEnd::Died,
            outcome => ChildSessionEnd::Result(TaskOutcome::of(&state), outcome),
        }
    }

    fn state(&self) -> Option<SessionState> {
        journal::fold(&self.folder.journal()).ok()
    }

    /// Asks the session to end: the first time in order, the second time at once.
    pub(super) fn stop(&self) {
        let pid = self
            .child
            .id()
            .and_then(|pid| i32::try_from(pid).ok())
            .and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // It may have just ended.
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}

/// Submits the work of a session that has ended. Says why that failed.
pub(super) async fn submit(folder: &SessionDir, config: Option<&Path>) -> Result<(), String> {
    let name = &folder.name;
    let started = || -> io::Result<(Child, ChildEntry)> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["submit", name, "--headless"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true);
        if let Some(config) = config {
            command.arg("--config").arg(config);
        }
        command
            .env_remove("CREEL_SESSION")
            .env_remove("CREEL_PROJECT");
        children::start("", || command.process_group(0).spawn())
    };
    let (mut child, _entry) =
        started().map_err(|error| format!("creel could not submit its work: {error}"))?;
    match child.wait().await {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!(
            "creel could not submit its work ({status}); `creel show {name}` says why"
        )),
        Err(error) => Err(format!("creel could not submit its work: {error}")),
    }
}

fn held(subcommand: &str) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--held").arg(subcommand);
    Ok(command)
}

/// A file with that text that only the reader of the returned handle sees: it is in no list of
/// processes and in no folder.
fn readable(text: &str) -> io::Result<File> {
    let path: PathBuf =
        std::env::temp_dir().join(format!("creel-{}-{}", std::process::id(), now().0));
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(PRIVATE_FILE)
        .open(&path)?;
    let read = file
        .write_all(text.as_bytes())
        .and_then(|()| File::open(&path));
    fs::remove_file(&path)?;
    read
}

/// Follows a session from outside: whether it waits for the user, and what it has used.
pub(super) struct SessionObserver {
    folder: SessionDir,
    /// The length of the journal at the last look.
    length: u64,
    pub(super) is_waiting: bool,
    pub(super) used: TaskSpending,
}

impl SessionObserver {
    pub(super) fn of(folder: &SessionDir) -> Self {
        let mut watch = Self {
            folder: folder.clone(),
            length: 0,
            is_waiting: false,
            used: TaskSpending::default(),
        };
        watch.look();
        watch
    }

    /// Reads the journal only if it has grown.
    pub(super) fn look(&mut self) {
        let journal = self.folder.journal();
        let length = fs::metadata(&journal).map_or(0, |file| file.len());
        if length == std::mem::replace(&mut self.length, length) {
            return;
        }
        if let Ok(state) = journal::fold(&journal) {
            self.is_waiting = state.gates.open.is_some();
            self.used = TaskSpending::of(&state);
        }
    }
}
