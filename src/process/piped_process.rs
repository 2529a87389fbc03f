//! A process that stays while it is needed: it is talked to over its standard streams.
//!
//! Owns its start and its end. What goes over the streams is the caller's affair.
//!
//! # Invariants
//! - When it was ended, or is dropped, nothing that it started is left.

use std::{path::PathBuf, process::Stdio, time::Duration};

use tokio::{
    process::{Child, ChildStderr, ChildStdin, ChildStdout},
    time::timeout,
};

use super::{children, sweep};
use crate::process::run::{self, GRACE, ProcessEnd, ProcessGroup, ProcessGroupGuard};

/// How long it may take to end by itself once nobody talks to it any more.
const GOODBYE: Duration = Duration::from_millis(1_500);
/// How long the system may take to tell how it ended.
const REAP: Duration = Duration::from_millis(500);

/// What to start.
#[derive(Debug, Clone)]
pub struct PipedProcessSpec {
    /// For `sh -c`.
    pub command: String,
    /// Where it runs.
    pub cwd: PathBuf,
    /// What is set on top of our own environment.
    pub env: Vec<(String, String)>,
    /// What its `CREEL_MARK` is.
    pub mark: String,
}

/// The streams of a companion, seen from its side.
#[derive(Debug)]
pub struct PipedStreams {
    /// What it reads.
    pub stdin: ChildStdin,
    /// What it prints.
    pub stdout: ChildStdout,
    /// What it complains.
    pub stderr: ChildStderr,
}

/// A process that stays.
#[derive(Debug)]
pub struct PipedProcess {
    child: Child,
    guard: ProcessGroupGuard,
}

impl PipedProcess {
    /// Starts it.
    pub fn start(spec: PipedProcessSpec) -> Result<(Self, PipedStreams), String> {
        let mut command = run::shell(&spec.command, &spec.cwd, &spec.env, &spec.mark);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = children::start(&spec.mark, || command.spawn());
        let (mut child, entry) = started.map_err(|error| run::why_not(&error, &spec.cwd))?;
        let guard = ProcessGroupGuard::of(entry, spec.mark);
        let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = streams else { return Err("it has no streams".into()) };
        Ok((Self { child, guard }, PipedStreams { stdin, stdout, stderr }))
    }

    /// The group that it leads.
    pub fn group(&self) -> ProcessGroup {
        self.guard.group
    }

    /// Waits until the process itself has ended. What it started may hold its streams open for longer.
    pub async fn exited(&mut self) {
        let _ = self.child.wait().await;
    }

    /// Whether the process itself has ended.
    pub fn has_exited(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// How it ended, if it has.
    pub async fn ended(&mut self) -> Option<ProcessEnd> {
        timeout(REAP, self.child.wait()).await.ok().map(run::describe)
    }

    /// Waits a moment for it to go by itself, which most do once their input is closed, then ends all that is left: TERM,
    /// grace, KILL.
    pub async fn end(&mut self) {
        let _ = timeout(GOODBYE, self.child.wait()).await;
        sweep::end_all(&self.guard.mark, &[self.guard.group], GRACE).await;
        let _ = timeout(REAP, self.child.wait()).await;
        self.guard.disarm();
    }
}
