//! The hooks that creel brings along for submitting and merging: one job in, one result out.
//!
//! Owns what they have in common: how they end, and what is said of it. What each one does is in a file of its own.
//!
//! # Invariants
//! - No commit is lost: whatever fails, and wherever creel is killed, the branch is where it was or where the finished
//!   hook put it, and no rebase of ours is left in progress. See [`undo_rebase`].
//! - What a person began (a rebase, a merge, changes that are not committed) is never touched.
//! - No value becomes a part of a command line: names and texts are arguments, files or variables.

use std::time::Instant;

use tokio_util::sync::CancellationToken;

use super::{HookWorkspace, OutputTee};
use crate::{
    engine::{
        effect::{HookJob, SubmissionFacts},
        hooks::verdict::{BuiltinOutcome, BuiltinStatus, RunEnd, RunResult},
        policy::{BuiltinOptions, HookAction},
        time::TimeSpan,
    },
    hooks::builtin::builtin_run::BuiltinRun,
    process::run::ProcessObserver,
};

mod base;
mod branch_status;
mod builtin_run;
mod forge;
mod git;
mod local_merge;
mod merge;
mod program;
mod pull_request;
mod push;
mod quoting;
mod rebase;
mod repair;
mod review_diff;
mod run_tests;
mod undo_rebase;

pub use crate::hooks::builtin::branch_status::{SubmittableWork, work_to_submit};
pub use crate::hooks::builtin::undo_rebase::recover;

/// What prints the change for gatekeepers. No hook of a config has this name.
pub const CHANGE: &str = "the change";

/// What a built-in hook is asked to do.
#[derive(Debug, Clone, Copy)]
pub struct BuiltinJob<'a> {
    /// The hook, and what it is told.
    pub job: &'a HookJob,
    /// Where it runs.
    pub place: &'a HookWorkspace,
    /// What is set on top of our own environment.
    pub env: &'a [(String, String)],
}

/// Runs the built-in hook of this name.
pub async fn run(
    name: &str,
    errand: BuiltinJob<'_>,
    watch: &mut dyn ProcessObserver,
    cancel: &CancellationToken,
) -> RunResult {
    let started = Instant::now();
    let submission = errand.job.facts.submission.as_deref().cloned().unwrap_or_else(|| unsaid(errand.job));
    let submission = with_options(submission, &errand.job.hook.action);
    let output = OutputTee::new(errand.job.run, errand.job.output_limit, errand.place, watch);
    let mut worker = BuiltinRun::new(errand, &submission, output, cancel);
    let ended = match name {
        "rebase_on_main" => rebase::run(&mut worker).await,
        "run_tests" => run_tests::run(&mut worker).await,
        "create_pr" => pull_request::run(&mut worker).await,
        "merge_pr" => merge::run(&mut worker).await,
        CHANGE => review_diff::run(&mut worker).await,
        _ => return RunResult::not_started(format!("there is no built-in hook `{name}`")),
    };
    let (end, outcome) = said(ended);
    if let Some(outcome) = outcome.as_ref().filter(|outcome| !outcome.message.is_empty()) {
        worker.say(outcome);
    }
    let (captured, file) = worker.into_output().finish(errand.job.run);
    RunResult {
        end,
        took: TimeSpan::from(started.elapsed()),
        stdout: captured.stdout,
        stderr: captured.stderr,
        omitted_bytes: captured.omitted_bytes,
        file,
        reply: None,
        answer: None,
        outcome,
    }
}

/// What a hook is about that was asked for without saying it.
fn unsaid(job: &HookJob) -> SubmissionFacts {
    SubmissionFacts { task: job.facts.task.clone(), ..SubmissionFacts::default() }
}

/// What a hook is about, with the options that its config gives it.
fn with_options(submission: SubmissionFacts, action: &HookAction) -> SubmissionFacts {
    let HookAction::Builtin(call) = action else { return submission };
    let BuiltinOptions { command, base_branch, remote } = call.options.clone();
    SubmissionFacts {
        test_command: command.or(submission.test_command),
        base_branch: base_branch.or(submission.base_branch),
        remote: remote.or(submission.remote),
        ..submission
    }
}

/// How a built-in hook ended that was not stopped.
#[derive(Debug, Default)]
struct BuiltinSuccess {
    skipped: bool,
    message: String,
    pull_request: Option<String>,
    merged: Option<String>,
    /// The commit that it read, which is all that it did.
    read: Option<String>,
}

/// Why a built-in hook did not come to its end.
#[derive(Debug)]
struct BuiltinError {
    end: RunEnd,
    message: String,
    remediation: Option<String>,
    /// The end of what was printed by the program that was ended.
    printed: String,
}

impl BuiltinSuccess {
    fn success(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }

    fn skip(message: impl Into<String>) -> Self {
        Self { skipped: true, message: message.into(), ..Self::default() }
    }
}

impl BuiltinError {
    /// Something is in the way, and only a person can do something about it.
    fn failed(message: impl Into<String>) -> Self {
        Self { end: RunEnd::Exit(1), message: message.into(), remediation: None, printed: String::new() }
    }

    /// An agent can do something about it, namely this.
    fn repaired_by(self, prompt: impl Into<String>) -> Self {
        Self { remediation: Some(prompt.into()), ..self }
    }

    /// The same, and something more is to be known.
    fn and(self, more: &str) -> Self {
        Self { message: format!("{}; {more}", self.message), ..self }
    }
}

fn said(ended: Result<BuiltinSuccess, BuiltinError>) -> (RunEnd, Option<BuiltinOutcome>) {
    match ended {
        // What it printed is all that there is to say.
        Ok(BuiltinSuccess { message, read: None, .. }) if message.is_empty() => (RunEnd::Exit(0), None),
        Ok(BuiltinSuccess { skipped, message, pull_request, merged, read }) => {
            let status = if skipped { BuiltinStatus::Skip } else { BuiltinStatus::Success };
            (RunEnd::Exit(0), Some(BuiltinOutcome { status, message, remediation: None, pull_request, merged, read }))
        }
        // It is run again, or not wanted any more.
        Err(BuiltinError { end: RunEnd::Cut, .. }) => (RunEnd::Cut, None),
        Err(BuiltinError { end, message, remediation, .. }) => {
            let status = BuiltinStatus::Failure;
            (end, Some(BuiltinOutcome { status, message, remediation, pull_request: None, merged: None, read: None }))
        }
    }
}
