//! A long-running process that creel talks to over its standard streams.
//!
//! Owns its start and its end. The caller defines what goes over the streams.
//!
//! # Invariants
//! - After its end or its drop, nothing that it started is left.

use std::{ffi::OsString, path::PathBuf, process::Stdio, time::Duration};

use tokio::{
    process::{Child, ChildStderr, ChildStdin, ChildStdout},
    time::timeout,
};

use super::{children, sweep};
use crate::process::run::{
    self, GRACE, ProcessEnd, ProcessGroup, ProcessGroupGuard, StartError, Variables,
};

/// How long it gets to exit by itself after its input was closed.
const GOODBYE: Duration = Duration::from_millis(1_500);
/// How long to wait for its exit status.
const REAP: Duration = Duration::from_millis(500);

#[derive(Debug, Clone)]
pub struct PipedProcessSpec {
    /// For `sh -c`.
    pub command: String,
    pub cwd: PathBuf,
    /// Added to creel's own environment.
    pub env: Vec<(String, String)>,
    /// Variables of creel that it does not get.
    pub unset: Vec<OsString>,
    /// The value of its `CREEL_MARK`.
    pub mark: String,
}

#[derive(Debug)]
pub struct PipedStreams {
    pub stdin: ChildStdin,
    pub stdout: ChildStdout,
    pub stderr: ChildStderr,
}

#[derive(Debug)]
pub struct PipedProcess {
    child: Child,
    guard: ProcessGroupGuard,
}

impl PipedProcess {
    pub fn start(spec: PipedProcessSpec) -> Result<(Self, PipedStreams), StartError> {
        let env = Variables {
            set: &spec.env,
            unset: &spec.unset,
        };
        let mut command = run::shell(&spec.command, &spec.cwd, &env, &spec.mark);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let started = children::start(&spec.mark, || command.spawn());
        let (mut child, entry) = started.map_err(|error| run::why_not(error, &spec.cwd))?;
        let guard = ProcessGroupGuard::of(entry, spec.mark);
        let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = streams else {
            return Err(StartError::NoStreams);
        };
        Ok((
            Self { child, guard },
            PipedStreams {
                stdin,
                stdout,
                stderr,
            },
        ))
    }

    pub fn group(&self) -> ProcessGroup {
        self.guard.group
    }

    /// Waits until the process itself has ended. Its children can keep its streams open for longer.
    pub async fn exited(&mut self) {
        let _ = self.child.wait().await;
    }

    /// Ignores its children.
    pub fn has_exited(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// How it ended. None if it still runs after a short wait.
    pub async fn ended(&mut self) -> Option<ProcessEnd> {
        timeout(REAP, self.child.wait())
            .await
            .ok()
            .map(run::describe)
    }

    /// Waits a moment for it to exit by itself, as most programs do once their input is closed.
    /// Then ends everything that is left: TERM, grace, KILL.
    pub async fn end(&mut self) {
        let _ = timeout(GOODBYE, self.child.wait()).await;
        sweep::end_all(&self.guard.mark, &[self.guard.group], GRACE).await;
        let _ = timeout(REAP, self.child.wait()).await;
        self.guard.disarm();
    }
}
