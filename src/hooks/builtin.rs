//! The built-in hooks for submitting and merging: one job in, one result out.
//!
//! Owns which hook a name means. What the hooks work with is in [`job`], how they end in
//! [`outcome`]. Each hook has a file of its own.
//!
//! # Invariants
//! - No commit is lost: whatever fails, and whenever creel is killed, the branch is where it was or
//!   where the finished hook put it, and no rebase of creel's is left in progress. See
//!   [`rebase`].
//! - creel never touches what the user began: a rebase, a merge, or uncommitted changes.
//! - No value becomes part of a command line: names and texts are arguments, files or variables.

mod branch_status;
mod clean_worktree;
mod forge;
mod forge_watch;
mod git;
mod job;
mod merge;
mod outcome;
mod program;
mod pull_request;
mod push;
mod rebase;
mod review_diff;
mod run_tests;

use std::time::Instant;

use tokio_util::sync::CancellationToken;

use super::tests_of;
use crate::{
    engine::{
        effect::{HookJob, SubmissionFacts},
        hooks::verdict::RunResult,
        policy::{BuiltinOptions, HookAction},
        time::TimeSpan,
    },
    hooks::workspace::OutputTee,
    process::{run::ProcessObserver, secrets},
};
use job::BuiltinRun;
use outcome::reported;

pub(in crate::hooks) use crate::hooks::builtin::branch_status::nothing_to_submit;
pub use crate::hooks::builtin::branch_status::{can_submit, facts_of_the_work, refuse_on_base};
pub(in crate::hooks) use crate::hooks::builtin::clean_worktree::run_clean;
pub use crate::hooks::builtin::forge::forge_of;
pub use crate::hooks::builtin::forge_watch::{answer_news, read_pull_request};
pub use crate::hooks::builtin::pull_request::pull_request_here;
pub use clean_worktree::remove_left_worktree;
pub use job::BuiltinJob;
pub use rebase::recover;

/// The name of the hook that prints the change for gatekeepers. A config cannot use it.
pub const CHANGE: &str = "the change";

pub async fn run(
    name: &str,
    call: BuiltinJob<'_>,
    watch: &mut dyn ProcessObserver,
    cancel: &CancellationToken,
) -> RunResult {
    let started = Instant::now();
    let submission = call
        .job
        .facts
        .submission
        .as_deref()
        .cloned()
        .unwrap_or_else(|| no_submission(call.job));
    let submission = with_options(submission, &call.job.hook.action);
    let output = OutputTee::new(call.job.run, call.job.output_limit, call.place, watch);
    let mut worker = BuiltinRun::new(call, &submission, output, cancel);
    let ended = match name {
        "rebase_on_main" => rebase::run(&mut worker).await,
        "run_tests" => run_tests::run(&mut worker).await,
        "create_pr" => pull_request::run(&mut worker).await,
        "merge_pr" => merge::run(&mut worker).await,
        CHANGE => review_diff::run(&mut worker).await,
        _ => return RunResult::not_started(format!("unknown built-in hook `{name}`")),
    };
    let (end, mut outcome) = reported(ended);
    if let Some(outcome) = &mut outcome {
        secrets::mask_text(&mut outcome.message);
        outcome.remediation.as_mut().map(secrets::mask_text);
    }
    if let Some(outcome) = outcome
        .as_ref()
        .filter(|outcome| !outcome.message.is_empty())
    {
        worker.say(outcome);
    }
    let (captured, file) = worker.into_output().finish(call.job.run);
    let tests = tests_of(call.job, call.place, &captured, file.is_some()).await;
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
        tests,
        changed_tests: None,
    }
}

/// The facts for a hook that runs without a submission.
fn no_submission(job: &HookJob) -> SubmissionFacts {
    SubmissionFacts {
        task: job.facts.task.clone(),
        ..SubmissionFacts::default()
    }
}

/// Overrides the facts with the options from the hook's config.
fn with_options(submission: SubmissionFacts, action: &HookAction) -> SubmissionFacts {
    let HookAction::Builtin(call) = action else {
        return submission;
    };
    let BuiltinOptions {
        command,
        base_branch,
        remote,
    } = call.options.clone();
    SubmissionFacts {
        test_command: command.or(submission.test_command),
        base_branch: base_branch.or(submission.base_branch),
        remote: remote.or(submission.remote),
        ..submission
    }
}
