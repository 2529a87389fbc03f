//! The built-in hooks for submitting and merging: one job in, one result out.
//!
//! Owns what they share: what they work with, how they end, how that is reported, and how foreign
//! names and texts are shown. Each hook has a file of its own.
//!
//! # Invariants
//! - No commit is lost: whatever fails, and whenever creel is killed, the branch is where it was or
//!   where the finished hook put it, and no rebase of creel's is left in progress. See
//!   [`rebase`].
//! - creel never touches what the user began: a rebase, a merge, or uncommitted changes.
//! - No value becomes part of a command line: names and texts are arguments, files or variables.
//! - Commands that change something or use the network are shown, with their output.
//! - Shown text has no control characters except creel's own line breaks.

mod branch_status;
mod forge;
mod git;
mod merge;
mod program;
mod pull_request;
mod push;
mod rebase;
mod review_diff;
mod run_tests;

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::{HookWorkspace, OutputTee};
use crate::{
    engine::{
        effect::{HookJob, SubmissionFacts},
        hooks::verdict::{BuiltinOutcome, BuiltinStatus, RunEnd, RunResult},
        policy::{BuiltinOptions, HookAction},
        time::TimeSpan,
    },
    process::run::{OutputStream, ProcessObserver},
    text::{CarriageReturnMode, PlainTextFilter, bulleted, shortened, some_names},
};
use program::{ProgramCall, ProgramResult, ProgramRunner};

pub use crate::hooks::builtin::branch_status::{can_submit, refuse_on_base};
pub use crate::hooks::builtin::merge::forge_of;
pub use rebase::recover;

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
    let (end, outcome) = reported(ended);
    if let Some(outcome) = outcome
        .as_ref()
        .filter(|outcome| !outcome.message.is_empty())
    {
        worker.say(outcome);
    }
    let (captured, file) = worker.into_output().finish(call.job.run);
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

fn reported(ended: Result<BuiltinSuccess, BuiltinError>) -> (RunEnd, Option<BuiltinOutcome>) {
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

struct BuiltinRun<'a> {
    call: BuiltinJob<'a>,
    submission: &'a SubmissionFacts,
    runner: ProgramRunner,
    output: OutputTee<'a>,
}

impl<'a> BuiltinRun<'a> {
    fn new(
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
    async fn show(&mut self, call: &ProgramCall) -> Result<ProgramResult, BuiltinError> {
        self.print(&format!("$ {}\n", call.line()));
        self.pass_on(call).await
    }

    /// Runs a program, and shows its output only.
    async fn pass_on(&mut self, call: &ProgramCall) -> Result<ProgramResult, BuiltinError> {
        self.runner.run(call, Some(&mut self.output)).await
    }

    fn print(&mut self, text: &str) {
        self.output.output(OutputStream::Stdout, text.as_bytes());
    }

    /// Runs the user's own command line.
    async fn show_line(
        &mut self,
        line: &str,
        env: Vec<(String, String)>,
    ) -> Result<ProgramResult, BuiltinError> {
        self.print(&format!("$ {line}\n"));
        self.runner.run_line(line, env, &mut self.output).await
    }

    /// Prints the outcome: a failure to standard error.
    fn say(&mut self, outcome: &BuiltinOutcome) {
        let stream = match outcome.status {
            BuiltinStatus::Success | BuiltinStatus::Skip => OutputStream::Stdout,
            BuiltinStatus::Failure => OutputStream::Stderr,
        };
        self.output
            .output(stream, format!("{}\n", outcome.message).as_bytes());
    }

    fn into_output(self) -> OutputTee<'a> {
        self.output
    }
}

use crate::text::shell_word as quoted;

/// How many files to list.
const NAMED: usize = 40;
/// The longest title in characters. Forges refuse longer ones.
const TITLE: usize = 200;

/// A name in a sentence.
fn named(text: &str) -> String {
    format!("`{}`", visible(text).replace('`', "'"))
}

/// A list of files, one per line.
fn files(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| named(name)).collect();
    bulleted(&names, NAMED)
}

/// The first few names, in a sentence.
fn some(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| named(name)).collect();
    some_names(&names, 3)
}

fn short(commit: &str) -> &str {
    commit.get(..10).unwrap_or(commit)
}

/// One line of text that a forge accepts as a title.
fn title_line(text: &str) -> String {
    let line = text
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or_default();
    let line: String = line.chars().filter(|c| !c.is_control()).collect();
    shortened(&line, TITLE - 1)
}

/// A program's output without terminal sequences.
fn printed_text(bytes: &[u8]) -> String {
    let mut text = Vec::new();
    let mut plain = PlainTextFilter::new(CarriageReturnMode::Redraw);
    plain.push(bytes, &mut text);
    plain.finish(&mut text);
    String::from_utf8_lossy(&text).trim_end().to_owned()
}

/// The last lines of a program's error output, in a sentence.
fn complaint(text: &str) -> String {
    let says_why = |line: &&str| !line.is_empty() && !line.starts_with("hint:");
    let lines: Vec<&str> = text.lines().map(str::trim).filter(says_why).collect();
    let last = &lines[lines.len().saturating_sub(3)..];
    if last.is_empty() {
        "it gave no reason".into()
    } else {
        visible(&last.join(" · "))
    }
}

fn visible(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            if c.is_control() {
                c.escape_default().collect()
            } else {
                vec![c]
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_for_a_shell_is_one_word() {
        assert_eq!(quoted("feature/a-1"), "feature/a-1");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("$(id)'x'"), r"'$(id)'\''x'\'''");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn a_name_stays_in_its_line() {
        assert_eq!(named("a\nb`c\u{1b}[2J"), r"`a\nb'c\u{1b}[2J`");
    }

    #[test]
    fn a_title_is_one_line() {
        assert_eq!(
            title_line("\n  Fix the parser\u{7}  \nand more"),
            "Fix the parser"
        );
        assert_eq!(title_line("x".repeat(500).as_str()).chars().count(), TITLE);
        assert_eq!(title_line(" \n "), "");
    }

    #[test]
    fn many_files_are_counted() {
        let names: Vec<String> = (0..50).map(|n| format!("f{n}")).collect();
        assert!(files(&names).ends_with("- `f39`\n- and 10 more\n"));
        assert_eq!(some(&names), "`f0`, `f1`, `f2` and 47 more");
    }
}
