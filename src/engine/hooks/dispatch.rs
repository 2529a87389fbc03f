//! One dispatch of the hooks of a point: which are queued, which one runs, and the results so far.
//!
//! Owns the order of runs. The session decides what follows when all have run.
//!
//! # Invariants
//! - Hooks of one dispatch run one after another, each once; a run that was cut because creel died
//!   runs again.
//! - Where a failure stops the remaining hooks, the session does not continue past the point
//!   either. A disabled hook stops nothing.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::{
    engine::{
        conversation::ToolCall,
        effect::{GateFacts, TaskFacts},
        event::{HookFinished, PromptSent},
        hooks::{
            HookRef,
            point::{AfterFailure, DecisionMode, HookPoint, PipeTarget},
            verdict::{self, RunEnd, RunJudgement, RunView, Verdict},
        },
        ids::{ItemId, PermissionId, RunId},
        policy::{HookAction, HookSpec},
        question::{AgentQuestion, QuestionAnswer},
        time::TimeSpan,
        verify::base_tests::TestSource,
    },
    text::first_line,
};

/// How many characters of a name or a command the feedback contains. Either can be a whole script.
const NAMED: usize = 200;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HookDispatch {
    pub point: HookPoint,
    pub cause: DispatchCause,
    /// The hooks that are still to run, by name. `None` until the list is recorded.
    pub queue: Option<VecDeque<String>>,
    pub running: Option<ActiveRun>,
    /// The runs that ended, in order.
    pub done: Vec<FinishedRun>,
    /// The questions that the user was asked about this dispatch, so that none is asked twice.
    pub asked: Vec<DispatchQuestion>,
    /// The pending items that the user has reviewed before they are sent with the prompt.
    pub seen: Vec<ItemId>,
    /// The hooks before whose output is part of the prompt that waits here.
    #[serde(default)]
    pub before: Option<Box<Self>>,
}

/// A tool call, as its hooks see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolFacts {
    pub call: ToolCall,
    /// The request that waits for these hooks. None if nothing does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask: Option<PermissionId>,
    /// Whether they see only a part of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shortened: bool,
    /// Whether its record is truncated, but they get the whole input.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub whole: bool,
    /// The question that it is, instead of a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<Box<QuestionFacts>>,
}

/// A question of the agent, as its hooks see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionFacts {
    pub question: AgentQuestion,
    /// The answer that was given, before the agent gets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Box<QuestionAnswer>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum DispatchCause {
    /// The session reached the point.
    Lifecycle,
    /// A turn failed.
    Error(String),
    /// This prompt is about to be sent.
    Prompt(Box<PromptSent>),
    /// A task was completed.
    Task(TaskFacts),
    /// A gate opened or closed.
    Gate(Box<GateFacts>),
    /// The agent asked for a tool call, or one has ended.
    Tool(Box<ToolFacts>),
    /// The user ran the hook by hand.
    ByHand,
    /// The work changed since the checks last ran.
    Verification,
    /// The checks run in a clean worktree, with these test files.
    CleanRun(TestSource),
    /// The session was resumed. Only hooks of Claude Code run then.
    Resumed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DispatchQuestion {
    /// The retry limit was reached.
    Limit,
    /// A hook escalated a failure.
    Escalation,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActiveRun {
    pub run: RunId,
    pub hook: String,
    /// The iteration in which it began. It can end in another one.
    pub iteration: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FinishedRun {
    pub run: RunId,
    pub hook: String,
    /// The check, its command and its end in one line, for the agent.
    pub summary: String,
    pub judgement: RunJudgement,
    /// Its framed output for the agent, if it is piped.
    pub piped: Option<String>,
    /// Instructions for the agent, if the run failed and the agent can repair it.
    pub remediation: Option<String>,
    /// The result message of a built-in hook, without the output of the programs that it ran.
    pub message: Option<String>,
    /// Replaces the default feedback if the hook blocked and has a template.
    pub own: Option<TemplateFeedback>,
    /// Whether it is only a warning if it fails.
    #[serde(default)]
    pub advisory: bool,
    /// Its answer to a question, as a JSON object.
    #[serde(default)]
    pub answer: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemplateFeedback {
    pub hook: String,
    pub template: String,
    pub reason: String,
    pub output: String,
}

/// The feedback to the agent about blocking hooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookFeedback {
    /// The first hook that blocked.
    pub hook: String,
    /// One line for each hook that blocked.
    pub reason: String,
    /// The whole message.
    pub text: String,
    /// The message in the default form, without templates. Comparing it shows whether anything
    /// changed.
    pub usual: String,
    /// All hooks that blocked.
    pub blocked: Vec<String>,
    /// The feedback of hooks with a template.
    pub own: Vec<TemplateFeedback>,
    /// The default message about the other hooks, if any.
    pub rest: Option<String>,
}

impl HookFeedback {
    /// Feedback in the default form.
    pub(crate) fn usual(hook: &str, reason: String, text: String) -> Self {
        let (own, rest) = (Vec::new(), None);
        Self {
            hook: hook.to_owned(),
            reason,
            usual: text.clone(),
            text,
            blocked: vec![hook.to_owned()],
            own,
            rest,
        }
    }
}

impl HookDispatch {
    /// The hook that starts next.
    pub fn next_hook(&self) -> Option<&str> {
        self.queue.as_ref()?.front().map(String::as_str)
    }

    pub fn reached(point: HookPoint, cause: DispatchCause) -> Self {
        Self {
            point,
            cause,
            queue: None,
            running: None,
            done: Vec::new(),
            asked: Vec::new(),
            seen: Vec::new(),
            before: None,
        }
    }

    /// The test files of a run in a clean worktree.
    pub(crate) fn tests_of(&self) -> Option<TestSource> {
        if let DispatchCause::CleanRun(of) = self.cause {
            Some(of)
        } else {
            None
        }
    }

    pub fn next(&self) -> Option<&str> {
        self.queue.as_ref()?.front().map(String::as_str)
    }

    /// The first run that blocks or escalates; runs of hooks in `disabled` do not count.
    pub fn held_by(&self, disabled: &dyn Fn(&HookRef) -> bool) -> Option<&FinishedRun> {
        self.done
            .iter()
            .find(|done| done.holds() && !disabled(&HookRef::new(self.point, &done.hook)))
    }

    /// Whether a failure stops the remaining hooks of the point. Only a failure that also stops the
    /// session does.
    pub fn stops_early(&self, disabled: &dyn Fn(&HookRef) -> bool) -> bool {
        self.point.rules().after_failure == AfterFailure::StopTheRest
            && self.held_by(disabled).is_some()
    }

    pub fn was_asked(&self, question: DispatchQuestion) -> bool {
        self.asked.contains(&question)
    }

    /// The feedback to the agent, if a hook blocked; runs of hooks in `disabled` do not count.
    pub fn feedback(&self, disabled: &dyn Fn(&HookRef) -> bool) -> Option<HookFeedback> {
        let counted = || {
            self.done
                .iter()
                .filter(|done| !disabled(&HookRef::new(self.point, &done.hook)))
        };
        let blocking = || counted().filter(|done| done.judgement.verdict == Verdict::Block);
        let hook = &blocking().next()?.hook;
        let reason = each_once(blocking().filter_map(|done| done.judgement.headline.as_deref()))
            .join("\n\n");
        let blocked = blocking().map(|done| done.hook.clone()).collect();
        let text = usual_text(counted())?;
        let own: Vec<TemplateFeedback> = blocking().filter_map(|done| done.own.clone()).collect();
        let rest =
            usual_text(counted().filter(|done| done.own.is_none())).filter(|_| !own.is_empty());
        Some(HookFeedback {
            blocked,
            own,
            rest,
            ..HookFeedback::usual(hook, reason, text)
        })
    }

    /// The texts for the next prompt, joined.
    pub fn piped_text(&self) -> Option<String> {
        let texts: Vec<&str> = self
            .done
            .iter()
            .filter_map(|done| done.piped.as_deref())
            .collect();
        (!texts.is_empty()).then(|| texts.join("\n\n"))
    }

    pub(crate) fn started(&mut self, running: ActiveRun) {
        if let Some(queue) = &mut self.queue {
            queue.retain(|name| *name != running.hook);
        }
        self.running = Some(running);
    }

    pub(crate) fn finished(&mut self, spec: Option<&HookSpec>, finished: &HookFinished) {
        self.running = None;
        if finished.again {
            self.requeue(&finished.hook);
            return;
        }
        // A hook that is not in the plan cannot have been started: this happens only in damaged
        // journals.
        let Some(spec) = spec else { return };
        let judgement = verdict::judge(self.point, spec, view(finished));
        let judgement = judgement.with_recorded(finished.verdict, finished.judged.as_ref());
        let template = spec
            .retry
            .feedback
            .as_ref()
            .filter(|_| judgement.verdict == Verdict::Block);
        let own = template.map(|template| TemplateFeedback {
            hook: finished.hook.clone(),
            template: template.clone(),
            reason: judgement.headline.clone().unwrap_or_default(),
            output: finished.text(),
        });
        let done = FinishedRun {
            run: finished.run,
            hook: finished.hook.clone(),
            summary: summary(spec, finished, judgement.verdict),
            judgement,
            own,
            piped: finished.framed(),
            remediation: finished.remediation(),
            message: finished
                .outcome
                .as_ref()
                .map(|outcome| outcome.message.clone()),
            advisory: self.point.rules().checks_work() && spec.is_advisory(),
            answer: view(finished)
                .readable()
                .and_then(|reply| reply.answer.clone()),
        };
        self.done.push(done);
    }

    /// Runs a hook once more, before all others.
    pub(crate) fn requeue(&mut self, hook: &str) {
        self.done.retain(|done| done.hook != hook);
        self.queue
            .get_or_insert_default()
            .push_front(hook.to_owned());
    }

    pub(crate) fn drop_from_queue(&mut self, hook: &str) {
        if let Some(queue) = &mut self.queue {
            queue.retain(|name| name != hook);
        }
    }
}

impl FinishedRun {
    /// Why the user has to decide.
    pub(crate) fn needs_a_person(&self, point: HookPoint) -> String {
        needs_a_person(point, &self.hook, &self.judgement)
    }

    /// The texts of a run for the feedback. The reason of a failure that does not block is context,
    /// too.
    fn for_feedback(&self) -> impl Iterator<Item = &str> {
        let RunJudgement {
            reason,
            context,
            stops,
            ..
        } = &self.judgement;
        let reason = reason.as_ref().filter(|_| !stops);
        reason
            .into_iter()
            .chain(context)
            .chain(self.framed_pass())
            .map(String::as_str)
    }

    /// The output of a passed run, which has a frame of its own.
    fn framed_pass(&self) -> Option<&String> {
        let RunJudgement {
            verdict, context, ..
        } = &self.judgement;
        self.piped
            .as_ref()
            .filter(|_| *verdict == Verdict::Pass && context.is_none())
    }
}

/// Why the user has to decide about a hook that escalates.
pub(crate) fn needs_a_person(point: HookPoint, hook: &str, judgement: &RunJudgement) -> String {
    let why = judgement.headline.as_deref().unwrap_or("it failed");
    if judgement.stops {
        return format!("the hook `{hook}` at {point} stopped the session: {why}");
    }
    format!("the hook `{hook}` at {point} needs you: {why}")
}

/// Why the user has to decide about a broken hook.
pub(crate) fn is_broken_again(point: HookPoint, hook: &str, why: Option<&str>) -> String {
    if point.rules().checks_work() {
        let why = why.map(|why| why.strip_prefix("could not start: ").unwrap_or(why));
        return format!(
            "the check `{hook}` cannot start: {}",
            why.unwrap_or("it did not run")
        );
    }
    format!("the hook `{hook}` at {point} failed to run twice in a row")
}

/// The default feedback of these runs: a paragraph for each one that blocked, then the context of
/// the others. Each text occurs once.
fn usual_text<'a>(runs: impl Iterator<Item = &'a FinishedRun> + Clone) -> Option<String> {
    let blocks = |done: &&FinishedRun| done.judgement.verdict == Verdict::Block;
    let mut shown: Vec<&str> = Vec::new();
    let mut paragraphs = Vec::new();
    for done in runs
        .clone()
        .filter(blocks)
        .chain(runs.filter(|done| !blocks(done)))
    {
        let texts: Vec<&str> = each_once(done.for_feedback())
            .into_iter()
            .filter(|text| !shown.contains(text))
            .collect();
        shown.extend(&texts);
        let is_named = done.framed_pass().is_none() && (blocks(&done) || !texts.is_empty());
        let texts = texts.join("\n\n");
        let parts = [
            is_named.then_some(done.summary.as_str()),
            (!texts.is_empty()).then_some(texts.as_str()),
        ];
        paragraphs.extend(
            parts
                .into_iter()
                .flatten()
                .map(str::to_owned)
                .reduce(|summary, texts| summary + "\n" + &texts),
        );
    }
    (!paragraphs.is_empty()).then(|| format!("[Hook feedback]: {}", paragraphs.join("\n\n")))
}

/// What a check is and how it ended: `` check `tests` failed: `sh test.sh`, exit 1 ``.
fn summary(spec: &HookSpec, finished: &HookFinished, verdict: Verdict) -> String {
    let decided = view(finished)
        .readable()
        .is_some_and(|reply| reply.decision.is_some());
    let verb = match verdict {
        Verdict::Pass => "passed",
        Verdict::Block if decided => "blocked",
        Verdict::Block | Verdict::Fail => "failed",
    };
    let command = match spec.action {
        HookAction::Command(_) | HookAction::Exec(_) => Some(spec.action.describe()),
        HookAction::Builtin(_) | HookAction::Gatekeeper(_) => None,
    };
    let command = command.filter(|command| verdict != Verdict::Pass && *command != spec.name);
    let command = command
        .map(|command| format!(": `{}`", first_line(&command, NAMED)))
        .unwrap_or_default();
    let end = match &finished.end {
        RunEnd::Exit(0) => String::new(),
        RunEnd::TimedOut => format!(", timed out after {}", spec.timeout.compact()),
        end @ (RunEnd::Exit(_) | RunEnd::Signal(_) | RunEnd::SpawnFailed(_) | RunEnd::Cut) => {
            format!(", {}", end.describe())
        }
    };
    let weight = if verdict == Verdict::Fail {
        "; it does not block"
    } else {
        ""
    };
    format!(
        "check `{}` {verb}{command}{end}{weight}",
        first_line(&spec.name, NAMED)
    )
}

fn each_once<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut once = Vec::new();
    for text in texts {
        if !once.contains(&text) {
            once.push(text);
        }
    }
    once
}

/// The parts of a record that determine the verdict.
pub(crate) fn view(finished: &HookFinished) -> RunView<'_> {
    RunView {
        end: &finished.end,
        stdout: &finished.stdout,
        stderr: &finished.stderr,
        reply: finished.reply.as_ref(),
    }
}

impl HookFinished {
    /// A run whose end creel did not see.
    pub(crate) fn cut(point: HookPoint, running: &ActiveRun) -> Self {
        Self {
            run: running.run,
            point,
            hook: running.hook.clone(),
            iteration: running.iteration,
            end: RunEnd::Cut,
            took_ms: TimeSpan::default(),
            verdict: Verdict::Fail,
            stdout: String::new(),
            stderr: String::new(),
            omitted_bytes: 0,
            piped: false,
            reply: None,
            decision: None,
            file: None,
            outcome: None,
            judged: None,
            tests: None,
            tests_of: None,
            again: true,
        }
    }

    /// The text for the agent: a line that names the source, then the output.
    pub(crate) fn framed(&self) -> Option<String> {
        self.piped.then(|| {
            let frame = frame(self.point, &self.hook, &self.end.describe(), self.took_ms);
            format!("{frame}\n{}", self.text())
        })
    }

    /// Instructions for repairing a failure: from a built-in hook, or the text of another one.
    fn remediation(&self) -> Option<String> {
        let failed =
            self.verdict != Verdict::Pass && self.point.rules().piped_to == PipeTarget::Remediation;
        let output = self
            .outcome
            .as_ref()
            .and_then(|outcome| outcome.remediation.clone());
        output.or_else(|| self.framed()).filter(|_| failed)
    }

    /// The text: from the hook's JSON, or its plain output.
    fn text(&self) -> String {
        if let Some(reply) = view(self).readable() {
            let reason = reply.reason.as_deref().filter(|_| !reply.stops);
            return reason
                .into_iter()
                .chain(reply.additional_context.as_deref())
                .collect::<Vec<_>>()
                .join("\n\n");
        }
        match (self.stdout.trim_end(), self.stderr.trim_end()) {
            ("", "") => "(no output)".into(),
            (out, "") => out.into(),
            ("", err) => err.into(),
            (out, err) => format!("{out}\n{err}"),
        }
    }
}

/// Whether a run has output for the agent and is allowed to send it.
pub(crate) fn is_piped(
    spec: &HookSpec,
    point: HookPoint,
    run: RunView<'_>,
    verdict: Verdict,
) -> bool {
    // A cut run is run again or is no longer needed.
    if point.rules().piped_to == PipeTarget::Never || *run.end == RunEnd::Cut {
        return false;
    }
    // The protocol has no place for the reason of a denial, so it follows with the next prompt.
    let decides = point.rules().decides;
    let denies = decides == DecisionMode::TheStrictest && verdict == Verdict::Block;
    if denies || verdict::claude_tells_agent(spec, run) {
        return true;
    }
    // What keeps a prompt back is for the user, and so is a failure without a reply.
    let is_plain = verdict == Verdict::Fail && run.readable().is_none();
    if decides == DecisionMode::HoldsPrompt && (verdict == Verdict::Block || is_plain) {
        return false;
    }
    if let Some(reply) = run.readable() {
        // A context in the JSON is addressed to the agent, whatever `pipe_output` says.
        let gives_a_reason = reply.reason.is_some() && !reply.stops;
        let has_output = reply.additional_context.is_some()
            || (spec.pipe_output.covers(verdict == Verdict::Pass) && gives_a_reason);
        return has_output && !reply.suppress_output;
    }
    let printed = !run.stdout.trim().is_empty() || !run.stderr.trim().is_empty();
    spec.pipe_output.covers(verdict == Verdict::Pass) && (printed || verdict != Verdict::Pass)
}

fn frame(point: HookPoint, hook: &str, end: &str, took: TimeSpan) -> String {
    // A name can be a whole script: the frame stays one line, so that the agent sees where it ends.
    let name = first_line(hook, usize::MAX).replace('"', "'");
    format!(
        "[Hook output: {point} \"{name}\" · {end} · {}]",
        seconds(took)
    )
}

fn seconds(span: TimeSpan) -> String {
    format!("{}.{} s", span.0 / 1_000, span.0 % 1_000 / 100)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::hooks::verdict::{HookDecision, HookReply};

    fn check(name: &str) -> HookSpec {
        HookSpec {
            timeout: TimeSpan::secs(600),
            ..HookSpec::new(name, HookAction::Command("sh test.sh".into()))
        }
    }

    fn ended(end: RunEnd) -> HookFinished {
        let running = ActiveRun {
            run: RunId(1),
            hook: "tests".into(),
            iteration: 1,
        };
        HookFinished {
            end,
            ..HookFinished::cut(HookPoint::Stop, &running)
        }
    }

    #[test]
    fn a_check_is_summarized_by_its_name_its_command_and_its_end() {
        let summary_of = |name: &str, end| summary(&check(name), &ended(end), Verdict::Block);
        assert_eq!(
            summary_of("tests", RunEnd::Exit(1)),
            "check `tests` failed: `sh test.sh`, exit 1"
        );
        assert_eq!(
            summary_of("sh test.sh", RunEnd::Exit(101)),
            "check `sh test.sh` failed, exit 101"
        );
        assert_eq!(
            summary_of("tests", RunEnd::TimedOut),
            "check `tests` failed: `sh test.sh`, timed out after 10m"
        );
        assert_eq!(
            summary_of("tests", RunEnd::Signal(9)),
            "check `tests` failed: `sh test.sh`, signal 9"
        );
        let script = HookSpec {
            action: HookAction::Command("set -e\nmake\n".into()),
            ..check("tests")
        };
        assert_eq!(
            summary(&script, &ended(RunEnd::Exit(1)), Verdict::Fail),
            "check `tests` failed: `set -e…`, exit 1; it does not block"
        );
        let reply = HookReply {
            decision: Some(HookDecision::Block),
            ..HookReply::default()
        };
        let decided = HookFinished {
            reply: Some(reply),
            ..ended(RunEnd::Exit(0))
        };
        assert_eq!(
            summary(&check("sh test.sh"), &decided, Verdict::Block),
            "check `sh test.sh` blocked"
        );
    }
}
