//! What a built-in hook works with: its errand, its programs, and the screen.
//!
//! # Invariants
//! - What changes something, or talks to the network, is shown: the command, and what it prints.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::{
    Errand, Halt,
    program::{Call, Ran, Runner},
};
use crate::{
    engine::{
        effect::Submission,
        hooks::verdict::{BuiltinOutcome, BuiltinStatus},
    },
    hooks::Both,
    process::run::{Stream, Watch as _},
};

/// One built-in hook at work.
pub(super) struct Worker<'a> {
    pub(super) errand: Errand<'a>,
    pub(super) submission: &'a Submission,
    pub(super) runner: Runner,
    output: Both<'a>,
}

impl<'a> Worker<'a> {
    pub(super) fn new(
        errand: Errand<'a>,
        submission: &'a Submission,
        output: Both<'a>,
        cancel: &CancellationToken,
    ) -> Self {
        let timeout = errand.job.hook.timeout;
        let runner = Runner {
            cwd: errand.place.cwd.clone(),
            env: errand.env.to_vec(),
            mark: format!("{}/run-{}", errand.place.mark, errand.job.run),
            cancel: cancel.clone(),
            deadline: (!timeout.is_zero()).then(|| Instant::now() + Duration::from(timeout)),
        };
        Self { errand, submission, runner, output }
    }

    /// Runs a program that is shown.
    pub(super) async fn show(&mut self, call: &Call) -> Result<Ran, Halt> {
        self.print(&format!("$ {}\n", call.line()));
        self.pass_on(call).await
    }

    /// The same, with nothing but what it prints.
    pub(super) async fn pass_on(&mut self, call: &Call) -> Result<Ran, Halt> {
        self.runner.run(call, Some(&mut self.output)).await
    }

    pub(super) fn print(&mut self, text: &str) {
        self.output.output(Stream::Stdout, text.as_bytes());
    }

    /// Runs a command line of the person's own.
    pub(super) async fn show_line(&mut self, line: &str, env: Vec<(String, String)>) -> Result<Ran, Halt> {
        self.print(&format!("$ {line}\n"));
        self.runner.run_line(line, env, &mut self.output).await
    }

    /// Says how it ended: a failure where complaints go.
    pub(super) fn say(&mut self, outcome: &BuiltinOutcome) {
        let stream = match outcome.status {
            BuiltinStatus::Success | BuiltinStatus::Skip => Stream::Stdout,
            BuiltinStatus::Failure => Stream::Stderr,
        };
        self.output.output(stream, format!("{}\n", outcome.message).as_bytes());
    }

    pub(super) fn into_output(self) -> Both<'a> {
        self.output
    }
}
