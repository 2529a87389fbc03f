//! The built-in hooks for submitting and merging: one job in, one result out.
//!
//! Owns what they share: how they end and how that is reported. Each hook has a file of its own.
//!
//! # Invariants
//! - No commit is lost: whatever fails, and whenever creel is killed, the branch is where it was or
//!   where the finished hook put it, and no rebase of creel's is left in progress. See
//!   [`undo_rebase`].
//! - creel never touches what the user began: a rebase, a merge, or uncommitted changes.
//! - No value becomes part of a command line: names and texts are arguments, files or variables.

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

pub use crate::hooks::builtin::branch_status::{can_submit, refuse_on_base};
pub use crate::hooks::builtin::merge::forge_of;
pub use crate::hooks::builtin::undo_rebase::recover;

/// The name of the hook that prints the change for gatekeepers. A config cannot use it.
pub const CHANGE: &str = "the change";

#[derive(Debug, Clone, Copy)]
pub struct BuiltinJob<'a> {
    pub job: &'a HookJob,
    pub place: &'a HookWorkspace,
    /// Added to creel's own environment.
    pub env: &'a [(String, String)],
}

pub async fn run(
    name: &str,
    errand: BuiltinJob<'_>,
    watch: &mut dyn ProcessObserver,
    cancel: &CancellationToken,
) -> RunResult {
    let started = Instant::now();
    let submission = errand
        .job
        .facts
        .submission
        .as_deref()
        .cloned()
        .unwrap_or_else(|| unsaid(errand.job));
    let submission = with_options(submission, &errand.job.hook.action);
    let output = OutputTee::new(errand.job.run, errand.job.output_limit, errand.place, watch);
    let mut worker = BuiltinRun::new(errand, &submission, output, cancel);
    let ended = match name {
        "rebase_on_main" => rebase::run(&mut worker).await,
        "run_tests" => run_tests::run(&mut worker).await,
        "create_pr" => pull_request::run(&mut worker).await,
        "merge_pr" => merge::run(&mut worker).await,
        CHANGE => review_diff::run(&mut worker).await,
        _ => return RunResult::not_started(format!("unknown built-in hook `{name}`")),
    };
    let (end, outcome) = said(ended);
    if let Some(outcome) = outcome
        .as_ref()
        .filter(|outcome| !outcome.message.is_empty())
    {
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

/// The facts for a hook that runs without a submission.
fn unsaid(job: &HookJob) -> SubmissionFacts {
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

#[derive(Debug, Default)]
struct BuiltinSuccess {
    skipped: bool,
    message: String,
    pull_request: Option<String>,
    merged: Option<String>,
    /// Set if the hook only read this commit.
    read: Option<String>,
}

#[derive(Debug)]
struct BuiltinError {
    end: RunEnd,
    message: String,
    remediation: Option<String>,
    /// The end of the output of the program that was ended.
    printed: String,
}

impl BuiltinSuccess {
    fn success(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            ..Self::default()
        }
    }

    fn skip(message: impl Into<String>) -> Self {
        Self {
            skipped: true,
            message: message.into(),
            ..Self::default()
        }
    }
}

impl BuiltinError {
    /// Only a person can fix this.
    fn failed(message: impl Into<String>) -> Self {
        Self {
            end: RunEnd::Exit(1),
            message: message.into(),
            remediation: None,
            printed: String::new(),
        }
    }

    /// Adds a prompt with which an agent can fix this.
    fn repaired_by(self, prompt: impl Into<String>) -> Self {
        Self {
            remediation: Some(prompt.into()),
            ..self
        }
    }

    /// Adds to the message.
    fn and(self, more: &str) -> Self {
        Self {
            message: format!("{}; {more}", self.message),
            ..self
        }
    }
}

fn said(ended: Result<BuiltinSuccess, BuiltinError>) -> (RunEnd, Option<BuiltinOutcome>) {
    match ended {
        // The hook's output is its whole result.
        Ok(BuiltinSuccess {
            message,
            read: None,
            ..
        }) if message.is_empty() => (RunEnd::Exit(0), None),
        Ok(BuiltinSuccess {
            skipped,
            message,
            pull_request,
            merged,
            read,
        }) => {
            let status = if skipped {
                BuiltinStatus::Skip
            } else {
                BuiltinStatus::Success
            };
            (
                RunEnd::Exit(0),
                Some(BuiltinOutcome {
                    status,
                    message,
                    remediation: None,
                    pull_request,
                    merged,
                    read,
                }),
            )
        }
        // The hook runs again, or is no longer needed.
        Err(BuiltinError {
            end: RunEnd::Cut, ..
        }) => (RunEnd::Cut, None),
        Err(BuiltinError {
            end,
            message,
            remediation,
            ..
        }) => {
            let status = BuiltinStatus::Failure;
            (
                end,
                Some(BuiltinOutcome {
                    status,
                    message,
                    remediation,
                    pull_request: None,
                    merged: None,
                    read: None,
                }),
            )
        }
    }
}
