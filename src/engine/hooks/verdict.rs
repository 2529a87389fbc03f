//! What a run means: its reply and exit code become a verdict under the rules of its point.

use serde::{Deserialize, Serialize};

use crate::{
    engine::{
        hooks::{
            claude::{ClaudeBlock, ClaudeEvent, ClaudeHandler},
            point::{BrokenHookPolicy, DecisionMode, HookPoint},
        },
        policy::{HookFailurePolicy, HookSpec, PermissionPolicy},
        time::TimeSpan,
    },
    text::{TestCounts, telling_line},
};

const BLOCKING: &str = "Hook returned blocking error (exit code 2)";
/// The warning for a reply that older journals recorded as unreadable without a reason.
const UNREADABLE: &str = "creel cannot read its JSON reply";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunEnd {
    Exit(i32),
    Signal(i32),
    TimedOut,
    /// It could not be started, with the reason.
    SpawnFailed(String),
    /// creel was stopped, or an actor cancelled the run.
    Cut,
}

/// A run's output and end, as the runner reports it.
#[derive(Debug, Clone, PartialEq)]
pub struct RunResult {
    pub end: RunEnd,
    pub took: TimeSpan,
    /// Truncated.
    pub stdout: String,
    /// Truncated.
    pub stderr: String,
    /// How many bytes the limits left out.
    pub omitted_bytes: u64,
    /// The file with the whole output, relative to the session's folder.
    pub file: Option<String>,
    /// The JSON that it printed. Only read after exit code 0, or from hooks of Claude Code.
    pub reply: Option<HookReply>,
    /// The whole standard output, where it is an answer. None if it is too long for one.
    pub answer: Option<String>,
    pub outcome: Option<BuiltinOutcome>,
    /// The tests that a check ran. None if its output does not say how many.
    pub tests: Option<TestCounts>,
    /// In a clean worktree: how many test files of the work differ from those of the base commit.
    pub changed_tests: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuiltinOutcome {
    pub status: BuiltinStatus,
    /// The cause, and what the user can do.
    pub message: String,
    /// Instructions for the agent about a failure, if an agent can repair it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remediation: Option<String>,
    /// The URL of the pull request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_request: Option<String>,
    /// The commit with which the work is in the base branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged: Option<String>,
    /// The commit that it read, if it only reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BuiltinStatus {
    Success,
    Failure,
    /// It had nothing to do.
    Skip,
}

/// A hook's JSON reply, in the format of Claude Code and codemie hooks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookReply {
    pub decision: Option<HookDecision>,
    pub reason: Option<String>,
    /// Additional text for the agent.
    pub additional_context: Option<String>,
    /// Whether the output is not sent to the agent.
    pub suppress_output: bool,
    /// What it says about a request of the agent, in words of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission: Option<PermissionPolicy>,
    /// Whether the hook wants the session to stop here and wait for the user (`continue: false`).
    /// `reason` is then meant for the user and not for the agent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stops: bool,
    /// Its answer to a question of the agent, as a JSON object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// What it says to the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_message: Option<String>,
    /// What the agent gets before the goal, from a hook of the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_message: Option<String>,
    /// Whether the reply cannot be used: everything but `problem` is empty then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unreadable: bool,
    /// What is wrong with an unreadable reply, and what is accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl HookReply {
    pub fn unreadable(problem: impl Into<String>) -> Self {
        Self {
            unreadable: true,
            problem: Some(problem.into()),
            ..Self::default()
        }
    }

    /// Whether it decides against the work.
    pub(crate) fn refuses(&self) -> bool {
        matches!(
            self.decision,
            Some(HookDecision::Deny | HookDecision::Block)
        )
    }

    /// Whether it denies a request of the agent.
    fn denies(&self) -> bool {
        self.refuses() || self.permission == Some(PermissionPolicy::Deny)
    }

    /// Why the reply cannot be used.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.unreadable
            .then(|| self.problem.as_deref().unwrap_or(UNREADABLE))
    }
}

/// A decision, weakest first: when several are merged, the strongest counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookDecision {
    Allow,
    /// Like `Allow`, but explicit.
    Approve,
    Deny,
    Block,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Pass,
    Block,
    /// It failed; the point decides what that means.
    Fail,
}

impl RunResult {
    /// A run that was never started, with the reason.
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
            tests: None,
            changed_tests: None,
        }
    }

    /// The hook was not needed.
    pub fn nothing_to_do(why: String) -> Self {
        let outcome = BuiltinOutcome {
            status: BuiltinStatus::Skip,
            message: why,
            remediation: None,
            pull_request: None,
            merged: None,
            read: None,
        };
        Self {
            end: RunEnd::Exit(0),
            outcome: Some(outcome),
            ..Self::not_started(String::new())
        }
    }
}

impl RunEnd {
    /// Whether the hook itself is broken, and not its subject. A shell exits with 126 or 127 for a
    /// command that it cannot run or find.
    pub fn is_broken(&self) -> bool {
        match self {
            Self::Exit(code) => matches!(code, 126 | 127),
            Self::Signal(_) | Self::TimedOut | Self::SpawnFailed(_) | Self::Cut => true,
        }
    }

    /// The end in words: `exit 101`, `signal 9`, `timed out`.
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

/// A run's result under the rules of its point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunJudgement {
    pub verdict: Verdict,
    /// The full reason for the agent, if it does not pass and the hook gave one.
    pub reason: Option<String>,
    /// The reason in one line, for counters, rows and gates: the hook's own reason, else the most
    /// informative line of its output.
    pub headline: Option<String>,
    /// Additional text for the agent.
    pub context: Option<String>,
    /// Whether the hook itself is broken.
    pub broken: bool,
    /// Whether the user has to look.
    pub escalates: bool,
    /// Whether the hook itself requested that, with `continue: false`. Its reason is not for the
    /// agent.
    pub stops: bool,
    /// What it decides about a request of the agent.
    #[serde(default)]
    pub decides: Option<PermissionPolicy>,
}

/// The parts of a judgement that a record keeps. The texts for the agent follow from the recorded
/// output.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedJudgement {
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub broken: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub escalates: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stops: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headline: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decides: Option<PermissionPolicy>,
}

impl RunJudgement {
    pub(crate) fn recorded(&self) -> RecordedJudgement {
        let Self {
            broken,
            escalates,
            stops,
            headline,
            decides,
            ..
        } = self;
        RecordedJudgement {
            broken: *broken,
            escalates: *escalates,
            stops: *stops,
            headline: headline.clone(),
            decides: *decides,
        }
    }

    /// The judgement as it was recorded, whatever the rules say today.
    pub(crate) fn with_recorded(
        self,
        verdict: Verdict,
        recorded: Option<&RecordedJudgement>,
    ) -> Self {
        let Some(RecordedJudgement {
            broken,
            escalates,
            stops,
            headline,
            decides,
        }) = recorded.cloned()
        else {
            return self;
        };
        Self {
            verdict,
            headline,
            broken,
            escalates,
            stops,
            decides,
            ..self
        }
    }
}

/// Applies the rules of its point to a run.
pub fn judge(point: HookPoint, hook: &HookSpec, run: RunView<'_>) -> RunJudgement {
    if point.rules().decides == DecisionMode::TheStrictest {
        return judge_request(hook, run);
    }
    let judged = match &hook.claude {
        Some(handler) => judge_claude(point, hook, handler.event, run),
        None => judge_run(point, hook, run),
    };
    if point.rules().checks_work() && hook.is_advisory() {
        advised(judged)
    } else {
        judged
    }
}

/// An advisory check never holds anything up: whatever it says against the work is a warning.
fn advised(judged: RunJudgement) -> RunJudgement {
    let verdict = if judged.verdict == Verdict::Pass {
        Verdict::Pass
    } else {
        Verdict::Fail
    };
    RunJudgement {
        verdict,
        escalates: false,
        ..judged
    }
}

fn judge_run(point: HookPoint, hook: &HookSpec, run: RunView<'_>) -> RunJudgement {
    match run.end {
        RunEnd::Exit(0) => judge_reply(point, hook, run),
        // An explicit verdict of the hook, like a decision in its JSON. `on_failure` applies only
        // to hooks without one.
        RunEnd::Exit(2) if can_block(point) => {
            block_at(point, HookExplanation::printed(run, BLOCKING))
        }
        end @ (RunEnd::Exit(_)
        | RunEnd::Signal(_)
        | RunEnd::TimedOut
        | RunEnd::SpawnFailed(_)
        | RunEnd::Cut) => {
            let words = HookExplanation::printed(run, &format!("Hook failed ({})", end.describe()));
            judge_failure(point, hook, run, words)
        }
    }
}

/// What a hook says about a request of the agent. Whatever failed decides nothing: the user is
/// asked, unless the config says what a failure means.
fn judge_request(hook: &HookSpec, run: RunView<'_>) -> RunJudgement {
    let failed = |words: HookExplanation| {
        let on_failure = hook.on_failure;
        let decides = match on_failure {
            Some(HookFailurePolicy::Ignore) => None,
            Some(HookFailurePolicy::Block) => Some(PermissionPolicy::Deny),
            Some(HookFailurePolicy::Escalate) | None => Some(PermissionPolicy::Ask),
        };
        let judged = match on_failure {
            Some(HookFailurePolicy::Block) => blocked(words),
            Some(HookFailurePolicy::Ignore | HookFailurePolicy::Escalate) | None => failed(words),
        };
        RunJudgement {
            broken: run.is_broken(),
            decides,
            ..judged
        }
    };
    let denied = |words| RunJudgement {
        decides: Some(PermissionPolicy::Deny),
        ..blocked(words)
    };
    // Claude Code reads a reply whatever the exit code is.
    let is_replied = hook.claude.is_some() && run.readable().is_some();
    let end = match run.end {
        RunEnd::Exit(code) if *code != 2 && is_replied => &RunEnd::Exit(0),
        end @ (RunEnd::Exit(_)
        | RunEnd::Signal(_)
        | RunEnd::TimedOut
        | RunEnd::SpawnFailed(_)
        | RunEnd::Cut) => end,
    };
    match (end, run.reply) {
        (RunEnd::Exit(2), reply) => {
            let replied = reply.filter(|reply| !reply.unreadable && reply.reason.is_some());
            denied(replied.map_or_else(
                || HookExplanation::printed(run, "exit code 2"),
                |reply| HookExplanation::replied(reply, "exit code 2"),
            ))
        }
        (RunEnd::Exit(_), Some(reply)) if reply.stops => RunJudgement {
            decides: Some(PermissionPolicy::Deny),
            ..stopped(reply)
        },
        (RunEnd::Exit(_), Some(reply)) if reply.denies() => {
            denied(HookExplanation::replied(reply, "it gave no reason"))
        }
        (RunEnd::Exit(0), None) => passed(None),
        (RunEnd::Exit(0), Some(reply)) => {
            if let Some(problem) = reply.problem() {
                return failed(HookExplanation::about_reply(problem));
            }
            let words = HookExplanation::replied(reply, "it gave no reason");
            let allows = matches!(
                reply.decision,
                Some(HookDecision::Allow | HookDecision::Approve)
            );
            let decides = reply
                .permission
                .or(allows.then_some(PermissionPolicy::Allow));
            RunJudgement {
                decides,
                headline: reply.reason.as_deref().and_then(non_empty),
                ..passed(words.context)
            }
        }
        (
            end @ (RunEnd::Exit(_)
            | RunEnd::Signal(_)
            | RunEnd::TimedOut
            | RunEnd::SpawnFailed(_)
            | RunEnd::Cut),
            _,
        ) => failed(HookExplanation::printed(
            run,
            &format!("Hook failed ({})", end.describe()),
        )),
    }
}

/// As Claude Code reads a run: exit code 2 blocks whatever the reply says, and at any other code
/// the reply says what blocks. Only exit code 0 without a block passes.
fn judge_claude(
    point: HookPoint,
    hook: &HookSpec,
    event: ClaudeEvent,
    run: RunView<'_>,
) -> RunJudgement {
    let is_exit_2 = *run.end == RunEnd::Exit(2);
    if let Some(problem) = run
        .reply
        .and_then(HookReply::problem)
        .filter(|_| !is_exit_2)
    {
        return judge_failure(point, hook, run, HookExplanation::about_reply(problem));
    }
    let reply = run.readable();
    if let Some(stops) = reply.filter(|reply| reply.stops && !is_exit_2) {
        return stopped(stops);
    }
    let words = match reply {
        Some(reply) if !is_exit_2 || reply.reason.is_some() => {
            HookExplanation::replied(reply, &format!("Hook ended with {}", run.end.describe()))
        }
        Some(_) => HookExplanation::printed(RunView { stdout: "", ..run }, BLOCKING),
        None if is_exit_2 => HookExplanation::printed(run, BLOCKING),
        None => {
            let unsaid = format!("Hook failed ({})", run.end.describe());
            HookExplanation::printed(run, &unsaid)
        }
    };
    let continues = event == ClaudeEvent::Stop && words.context.is_some() && reply.is_some();
    if is_exit_2 || reply.is_some_and(HookReply::refuses) || continues {
        return match event.rules().block {
            ClaudeBlock::SendsBack => blocked(words),
            ClaudeBlock::NeedsUser => held(words),
            ClaudeBlock::TellsAgent => failed(words),
            ClaudeBlock::NoEffect => judge_failure(point, hook, run, words),
        };
    }
    if *run.end == RunEnd::Exit(0) {
        passed(words.context.filter(|_| reply.is_some()))
    } else {
        judge_failure(point, hook, run, words)
    }
}

/// Whether a block of a Claude Code hook goes to the agent with its next prompt.
pub(crate) fn claude_tells_agent(hook: &HookSpec, run: RunView<'_>) -> bool {
    let tells = |handler: &ClaudeHandler| handler.event.rules().block == ClaudeBlock::TellsAgent;
    let refuses = |reply: &HookReply| reply.refuses() && !reply.stops;
    hook.claude.as_deref().is_some_and(tells)
        && (*run.end == RunEnd::Exit(2) || run.readable().is_some_and(refuses))
}

/// Why a hook does not pass.
struct HookExplanation {
    /// For the agent, in full. None if the hook gave none.
    reason: Option<String>,
    /// For the user, in one line.
    headline: String,
    /// Additional text for the agent.
    context: Option<String>,
}

impl HookExplanation {
    /// From its output. Standard error is the reason and standard output the context, but the line
    /// for the user can come from either.
    fn printed(run: RunView<'_>, unsaid: &str) -> Self {
        let line = telling_line(&[run.stdout, run.stderr]);
        let headline = match (line, run.end) {
            (Some(line), RunEnd::Exit(_)) => line,
            // A hook that did not exit by itself printed no verdict.
            (Some(line), end) => format!("{}: {line}", end.describe()),
            (None, _) => unsaid.to_owned(),
        };
        Self {
            reason: non_empty(run.stderr),
            headline,
            context: non_empty(run.stdout),
        }
    }

    /// From its JSON reply.
    fn replied(reply: &HookReply, unsaid: &str) -> Self {
        let context = reply.additional_context.as_deref().and_then(non_empty);
        let own = reply.reason.as_deref().and_then(non_empty);
        let headline = own.clone().or_else(|| telling_line(&[context.as_deref()?]));
        Self {
            reason: own,
            headline: headline.unwrap_or_else(|| unsaid.to_owned()),
            context,
        }
    }

    /// creel's message about a reply that cannot be used.
    fn about_reply(problem: &str) -> Self {
        Self {
            reason: Some(problem.to_owned()),
            headline: problem.to_owned(),
            context: None,
        }
    }
}

/// The parts of a run that determine the verdict.
#[derive(Debug, Clone, Copy)]
pub struct RunView<'a> {
    pub end: &'a RunEnd,
    pub stdout: &'a str,
    pub stderr: &'a str,
    pub reply: Option<&'a HookReply>,
}

impl<'a> RunView<'a> {
    /// Whether the hook itself is broken. A reply that cannot be used counts as broken.
    pub fn is_broken(&self) -> bool {
        self.end.is_broken() || self.reply.is_some_and(|reply| reply.unreadable)
    }

    /// Whether a check could not even start. The agent may be the one to mend everything else: a
    /// timeout, a crash, a script that does not exist yet.
    pub fn could_not_start(&self) -> bool {
        matches!(self.end, RunEnd::SpawnFailed(_))
    }

    /// The JSON reply, if it can be used.
    pub fn readable(&self) -> Option<&'a HookReply> {
        self.reply.filter(|reply| !reply.unreadable)
    }
}

fn judge_reply(point: HookPoint, hook: &HookSpec, run: RunView<'_>) -> RunJudgement {
    let Some(reply) = run.reply else {
        return passed(None);
    };
    if let Some(problem) = reply.problem() {
        return judge_failure(point, hook, run, HookExplanation::about_reply(problem));
    }
    // As in Claude Code, this overrides any decision in the same reply.
    if reply.stops {
        return stopped(reply);
    }
    match reply.decision {
        Some(HookDecision::Deny | HookDecision::Block) => {
            let words = HookExplanation::replied(reply, "Hook requested continuation");
            if can_block(point) {
                block_at(point, words)
            } else {
                judge_failure(point, hook, run, words)
            }
        }
        Some(HookDecision::Allow | HookDecision::Approve) | None => {
            passed(reply.additional_context.as_deref().and_then(non_empty))
        }
    }
}

fn judge_failure(
    point: HookPoint,
    hook: &HookSpec,
    run: RunView<'_>,
    words: HookExplanation,
) -> RunJudgement {
    let rules = point.rules();
    let can_send_back = rules.decides == DecisionMode::AllMustPass;
    let unreadable = run.reply.is_some_and(|reply| reply.unreadable);
    let broken = if rules.checks_work() {
        run.could_not_start()
    } else {
        run.is_broken()
    };
    let blocks = match hook.on_failure {
        Some(HookFailurePolicy::Block) => true,
        Some(HookFailurePolicy::Ignore | HookFailurePolicy::Escalate) => false,
        // At the points that fail fast every failure blocks; at `stop` only exit 2 does. A prompt
        // also waits for a decision that creel cannot read.
        None => {
            rules.broken == BrokenHookPolicy::Block
                || (unreadable && rules.decides == DecisionMode::HoldsPrompt)
        }
    };
    // The agent cannot repair a hook, and a point that cannot block has nothing to send back: the
    // user has to look. A check that cannot start has a gate of its own.
    let cannot_be_sent_back = !can_send_back || (unreadable && rules.checks_work());
    let escalates =
        hook.on_failure == Some(HookFailurePolicy::Escalate) || (blocks && cannot_be_sent_back);
    let has_own_gate = broken && rules.checks_work();
    let escalates = escalates && !has_own_gate;
    let judged = if blocks && !escalates && !has_own_gate {
        blocked(words)
    } else {
        failed(words)
    };
    RunJudgement {
        broken,
        escalates,
        ..judged
    }
}

/// Whether a hook at the point can block.
fn can_block(point: HookPoint) -> bool {
    matches!(
        point.rules().decides,
        DecisionMode::AllMustPass | DecisionMode::HoldsPrompt
    )
}

fn block_at(point: HookPoint, words: HookExplanation) -> RunJudgement {
    if point.rules().decides == DecisionMode::HoldsPrompt {
        held(words)
    } else {
        blocked(words)
    }
}

/// The prompt waits for the user.
fn held(words: HookExplanation) -> RunJudgement {
    RunJudgement {
        escalates: true,
        ..blocked(words)
    }
}

/// The hook stopped the session, with `continue: false`.
fn stopped(reply: &HookReply) -> RunJudgement {
    RunJudgement {
        escalates: true,
        stops: true,
        ..failed(HookExplanation::replied(reply, "it gave no reason"))
    }
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
        decides: None,
    }
}

fn blocked(words: HookExplanation) -> RunJudgement {
    let HookExplanation {
        reason,
        headline,
        context,
    } = words;
    RunJudgement {
        verdict: Verdict::Block,
        reason,
        headline: Some(headline),
        ..passed(context)
    }
}

fn failed(words: HookExplanation) -> RunJudgement {
    RunJudgement {
        verdict: Verdict::Fail,
        ..blocked(words)
    }
}

fn non_empty(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}
