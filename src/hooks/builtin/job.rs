//! What a built-in hook works with: its job, its programs, and its output.
//!
//! # Invariants
//! - Commands that change something or use the network are shown, with their output.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::{
    outcome::BuiltinError,
    program::{ProgramCall, ProgramResult, ProgramRunner},
};
use crate::{
    engine::{
        effect::{HookJob, SubmissionFacts},
        hooks::verdict::{BuiltinOutcome, BuiltinStatus},
    },
    hooks::workspace::{HookWorkspace, OutputTee},
    process::run::{OutputStream, ProcessObserver as _},
};

#[derive(Debug, Clone, Copy)]
pub struct BuiltinJob<'a> {
    pub job: &'a HookJob,
    pub place: &'a HookWorkspace,
    /// Added to creel's own environment.
    pub env: &'a [(String, String)],
}

pub(super) struct BuiltinRun<'a> {
    pub(super) call: BuiltinJob<'a>,
    pub(super) submission: &'a SubmissionFacts,
    pub(super) runner: ProgramRunner,
    pub(super) output: OutputTee<'a>,
}

impl<'a> BuiltinRun<'a> {
    pub(super) fn new(
        call: BuiltinJob<'a>,
        submission: &'a SubmissionFacts,
        output: OutputTee<'a>,
        cancel: &CancellationToken,
    ) -> Self {
        let timeout = call.job.hook.timeout;
        let runner = ProgramRunner {
            cwd: call.place.cwd.clone(),
            env: call.env.to_vec(),
            mark: format!("{}/run-{}", call.place.mark, call.job.run),
            cancel: cancel.clone(),
            deadline: (!timeout.is_zero()).then(|| Instant::now() + Duration::from(timeout)),
        };
        Self {
            call,
            submission,
            runner,
            output,
        }
    }

    /// Runs a program, and shows its command line and output.
    pub(super) async fn show(&mut self, call: &ProgramCall) -> Result<ProgramResult, BuiltinError> {
        self.print(&format!("$ {}\n", call.line()));
        self.pass_on(call).await
    }

    /// Runs a program, and shows its output only.
    pub(super) async fn pass_on(
        &mut self,
        call: &ProgramCall,
    ) -> Result<ProgramResult, BuiltinError> {
        self.runner.run(call, Some(&mut self.output)).await
    }

    pub(super) fn print(&mut self, text: &str) {
        self.output.output(OutputStream::Stdout, text.as_bytes());
    }

    /// Runs the user's own command line.
    pub(super) async fn show_line(
        &mut self,
        line: &str,
        env: Vec<(String, String)>,
    ) -> Result<ProgramResult, BuiltinError> {
        self.print(&format!("$ {line}\n"));
        self.runner.run_line(line, env, &mut self.output).await
    }

    /// Prints the outcome: a failure to standard error.
    pub(super) fn say(&mut self, outcome: &BuiltinOutcome) {
        let stream = match outcome.status {
            BuiltinStatus::Success | BuiltinStatus::Skip => OutputStream::Stdout,
            BuiltinStatus::Failure => OutputStream::Stderr,
        };
        self.output
            .output(stream, format!("{}\n", outcome.message).as_bytes());
    }

    pub(super) fn into_output(self) -> OutputTee<'a> {
        self.output
    }
}
