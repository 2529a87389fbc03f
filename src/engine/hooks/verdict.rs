//! What a run says, and what the runs of one dispatch say together.

use serde::{Deserialize, Serialize};

use super::point::{BrokenHookPolicy, DecisionMode, HookPoint};
use crate::engine::{
    hooks::headline::telling_line,
    policy::{HookFailurePolicy, HookSpec},
    time::TimeSpan,
};

/// What a warning says about a reply that older journals recorded as unreadable without saying why.
const UNREADABLE: &str = "its JSON reply cannot be read";

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunEnd {
    /// It exited with this code.
    Exit(i32),
    /// A signal ended it.
    Signal(i32),
    /// It took longer than it may.
    TimedOut,
    /// It could not be started, and why.
    SpawnFailed(String),
    /// creel was stopped, or a person cancelled it, while it ran.
    Cut,
}

/// What a run printed and how it ended, as the runner tells it.
#[derive(Debug, Clone, PartialEq)]
pub struct RunResult {
    /// How it ended.
    pub end: RunEnd,
    /// How long it took.
    pub took: TimeSpan,
    /// Standard output, limited.
    pub stdout: String,
    /// Standard error, limited.
    pub stderr: String,
    /// How many bytes the limits left out.
    pub omitted_bytes: u64,
    /// The file with all of it, relative to the session's folder.
    pub file: Option<String>,
    /// The JSON that it printed, if it exited with 0 and did.
    pub reply: Option<HookReply>,
    /// All of its standard output, where that is an answer, unless it is longer than any answer.
    pub answer: Option<String>,
    /// What a built-in hook came to.
    pub outcome: Option<BuiltinOutcome>,
}

/// What a built-in hook came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuiltinOutcome {
    /// Whether it did its job.
    pub status: BuiltinStatus,
    /// What happened, why, and what to do, for a person.
    pub message: String,
    /// What an agent is to do about a failure, if one can do something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remediation: Option<String>,
    /// Where the pull request is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_request: Option<String>,
    /// The commit by which the work is in the base branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged: Option<String>,
    /// The commit that it read, if it only reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<String>,
}

/// Whether a built-in hook did its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BuiltinStatus {
    /// It did.
    Success,
    /// It did not.
    Failure,
    /// There was nothing to do.
    Skip,
}

/// What a hook can answer in JSON: the format of Claude Code and codemie hooks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookReply {
    /// What it decided.
    pub decision: Option<HookDecision>,
    /// Why.
    pub reason: Option<String>,
    /// What the agent should know.
    pub additional_context: Option<String>,
    /// Whether to keep the output from the agent.
    pub suppress_output: bool,
    /// Whether the hook wants the session to stop here and wait for the user (`continue: false`). `reason` is then meant
    /// for the user and not for the agent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stops: bool,
    /// Whether the reply cannot be used: everything but `problem` is empty then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unreadable: bool,
    /// What is wrong with a reply that cannot be used, and what is accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl HookReply {
    /// A reply that cannot be used, and why.
    pub fn unreadable(problem: impl Into<String>) -> Self {
        Self { unreadable: true, problem: Some(problem.into()), ..Self::default() }
    }

    /// Why the reply cannot be used.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.unreadable.then(|| self.problem.as_deref().unwrap_or(UNREADABLE))
    }
}

/// A decision, weakest first: merging takes the strongest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookDecision {
    /// Go on.
    Allow,
    /// Go on, said aloud.
    Approve,
    /// Do not go on.
    Deny,
    /// Do not go on.
    Block,
}

/// What a run means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Nothing stands in the way.
    Pass,
    /// It must not go on like this.
    Block,
    /// It did not do its job; what that means, the point says.
    Fail,
}

impl RunResult {
    /// A run that never was, and why.
    pub fn not_started(why: String) -> Self {
        Self {
            end: RunEnd::SpawnFailed(why),
            took: TimeSpan::default(),
            stdout: String::new(),
            stderr: String::new(),
            omitted_bytes: 0,
            file: None,
            reply: None,
            answer: None,
            outcome: None,
        }
    }
}

impl RunEnd {
    /// Whether the hook itself is at fault, not what it looked at. 126 and 127 are what a shell says of a command
    /// that cannot be run or found.
    pub fn is_broken(&self) -> bool {
        match self {
            Self::Exit(code) => matches!(code, 126 | 127),
            Self::Signal(_) | Self::TimedOut | Self::SpawnFailed(_) | Self::Cut => true,
        }
    }

    /// As a person says it: `exit 101`, `signal 9`, `timed out`.
    pub fn describe(&self) -> String {
        match self {
            Self::Exit(code) => format!("exit {code}"),
            Self::Signal(signal) => format!("signal {signal}"),
            Self::TimedOut => "timed out".into(),
            Self::SpawnFailed(why) => format!("could not start: {why}"),
            Self::Cut => "cut".into(),
        }
    }
}

/// What a run says, read by the rules of its point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunJudgement {
    /// What it means.
    pub verdict: Verdict,
    /// Why, if it blocks: all that the agent is told.
    pub reason: Option<String>,
    /// Why in one line, for counters, rows and gates: the hook's own reason, else the most telling line of its output.
    pub headline: Option<String>,
    /// What the agent should know besides.
    pub context: Option<String>,
    /// Whether the hook itself is at fault.
    pub broken: bool,
    /// Whether a person has to look.
    pub escalates: bool,
    /// Whether the hook asked for that itself, with `continue: false`. Its reason is not for the agent.
    pub stops: bool,
}

/// Reads a run by the rules of its point.
pub fn judge(point: HookPoint, hook: &HookSpec, run: RunView<'_>) -> RunJudgement {
    let can_block = point.rules().decides == DecisionMode::AllMustPass;
    match run.end {
        RunEnd::Exit(0) => judge_reply(point, hook, run),
        // What the hook itself says, like a decision in its JSON: `on_failure` is about those that say nothing.
        RunEnd::Exit(2) if can_block => {
            blocked(HookExplanation::printed(run, "Hook returned blocking error (exit code 2)"))
        }
        end @ (RunEnd::Exit(_) | RunEnd::Signal(_) | RunEnd::TimedOut | RunEnd::SpawnFailed(_) | RunEnd::Cut) => {
            let words = HookExplanation::printed(run, &format!("Hook failed ({})", end.describe()));
            judge_failure(point, hook, run, words)
        }
    }
}

/// What a hook that does not pass has to say.
struct HookExplanation {
    /// For the agent, in full.
    reason: String,
    /// The same for people, in one line.
    headline: String,
    /// For the agent, besides.
    context: Option<String>,
}

impl HookExplanation {
    /// What it printed. Standard error is the reason and standard output the context, but the line for people can come
    /// from either.
    fn printed(run: RunView<'_>, unsaid: &str) -> Self {
        let reason = told(run.stderr).unwrap_or_else(|| unsaid.to_owned());
        let line = telling_line(&[run.stdout, run.stderr]);
        let headline = match (line, run.end) {
            (Some(line), RunEnd::Exit(_)) => line,
            // A hook that did not end by itself printed no verdict.
            (Some(line), end) => format!("{}: {line}", end.describe()),
            (None, _) => unsaid.to_owned(),
        };
        Self { reason, headline, context: told(run.stdout) }
    }

    /// What it said in its JSON reply.
    fn replied(reply: &HookReply, unsaid: &str) -> Self {
        let context = reply.additional_context.as_deref().and_then(told);
        let own = reply.reason.as_deref().and_then(told);
        let headline = own.clone().or_else(|| telling_line(&[context.as_deref()?]));
        Self {
            reason: own.unwrap_or_else(|| unsaid.to_owned()),
            headline: headline.unwrap_or_else(|| unsaid.to_owned()),
            context,
        }
    }

    /// What creel says about a reply that cannot be used.
    fn about_reply(problem: &str) -> Self {
        Self { reason: problem.to_owned(), headline: problem.to_owned(), context: None }
    }
}

/// The parts of a run that a verdict rests on.
#[derive(Debug, Clone, Copy)]
pub struct RunView<'a> {
    /// How it ended.
    pub end: &'a RunEnd,
    /// Standard output.
    pub stdout: &'a str,
    /// Standard error.
    pub stderr: &'a str,
    /// The JSON that it answered.
    pub reply: Option<&'a HookReply>,
}

impl<'a> RunView<'a> {
    /// Whether the hook itself is at fault. A hook whose reply cannot be used is.
    pub fn is_broken(&self) -> bool {
        self.end.is_broken() || self.reply.is_some_and(|reply| reply.unreadable)
    }

    /// The JSON that it answered, if that says something.
    pub fn readable(&self) -> Option<&'a HookReply> {
        self.reply.filter(|reply| !reply.unreadable)
    }
}

fn judge_reply(point: HookPoint, hook: &HookSpec, run: RunView<'_>) -> RunJudgement {
    let Some(reply) = run.reply else { return passed(None) };
    if let Some(problem) = reply.problem() {
        return judge_failure(point, hook, run, HookExplanation::about_reply(problem));
    }
    let can_block = point.rules().decides == DecisionMode::AllMustPass;
    // As in Claude Code, this counts more than any decision beside it.
    if reply.stops {
        let words = HookExplanation::replied(reply, "it gave no reason");
        return RunJudgement { escalates: true, stops: true, ..failed(words) };
    }
    match reply.decision {
        Some(HookDecision::Deny | HookDecision::Block) => {
            let words = HookExplanation::replied(reply, "Hook requested continuation");
            if can_block { blocked(words) } else { judge_failure(point, hook, run, words) }
        }
        Some(HookDecision::Allow | HookDecision::Approve) | None => {
            passed(reply.additional_context.as_deref().and_then(told))
        }
    }
}

fn judge_failure(point: HookPoint, hook: &HookSpec, run: RunView<'_>, words: HookExplanation) -> RunJudgement {
    let rules = point.rules();
    let can_block = rules.decides == DecisionMode::AllMustPass;
    let broken = run.is_broken();
    let blocks = match hook.on_failure {
        Some(HookFailurePolicy::Block) => true,
        Some(HookFailurePolicy::Ignore | HookFailurePolicy::Escalate) => false,
        // At the points that fail fast every failure blocks; at `stop` only exit 2 does.
        None => rules.broken == BrokenHookPolicy::Block,
    };
    // The agent cannot repair a hook, and a point that cannot block has nothing to send back: a person has to look.
    let cannot_be_sent_back = !can_block || (broken && point == HookPoint::Stop);
    let escalates = hook.on_failure == Some(HookFailurePolicy::Escalate) || (blocks && cannot_be_sent_back);
    let judged = if blocks && !escalates { blocked(words) } else { failed(words) };
    RunJudgement { broken, escalates, ..judged }
}

fn passed(context: Option<String>) -> RunJudgement {
    RunJudgement {
        verdict: Verdict::Pass,
        reason: None,
        headline: None,
        context,
        broken: false,
        escalates: false,
        stops: false,
    }
}

fn blocked(words: HookExplanation) -> RunJudgement {
    let HookExplanation { reason, headline, context } = words;
    RunJudgement { verdict: Verdict::Block, reason: Some(reason), headline: Some(headline), ..passed(context) }
}

fn failed(words: HookExplanation) -> RunJudgement {
    RunJudgement { verdict: Verdict::Fail, ..blocked(words) }
}

fn told(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}
