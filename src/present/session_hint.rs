//! What happens, in a sentence: for users that see a session for the first time, and for the demo.
//!
//! Owns the wording, and which events are worth a sentence. Does not own when and where it is
//! shown: see `crate::tui`.
//!
//! # Invariants
//! - A hint stays until another event has one, so it always explains the latest thing that matters.
//! - Every machine of the main line has a function that matches all of its events.

use super::text::{counted, plain_line, short_span};
use crate::engine::{
    SessionState,
    conversation::LimitCause,
    event::{
        ActorKind, Event, GateEvent, HookEvent, HookFinished, IterationOutcome, LimitAction,
        PendingEvent, PipelineEvent, PromptReason, PromptSent, RetryEvent, SessionEvent,
        SessionOutcome, SteeringEvent, StopEvent, StopTiming, TurnEvent, UsageLimitEvent,
        WatchEvent,
    },
    gate::kind::{GateChoice, GateKind},
    hooks::{point::HookPoint, verdict::Verdict},
    stop::decision::StopAction,
};

/// The longest name of a hook in a hint, in characters. Longer ones would leave no room for the
/// sentence.
const NAME: usize = 24;

/// The sentence about the latest thing that matters. A fold over records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionHint {
    text: Option<String>,
}

impl SessionHint {
    /// Follows an event. The state already contains it.
    pub fn follow(&mut self, event: &Event, state: &SessionState) {
        let text = match event {
            Event::Session(event) => session(event, state),
            Event::Hook(event) => hook(event),
            Event::Pending(event) => pending(event, state),
            Event::Turn(event) => turn(event),
            Event::UsageLimit(event) => Some(usage_limit(event)),
            Event::Retry(event) => Some(retry(event)),
            Event::Gate(event) => gate(event, state),
            Event::Stop(event) => stop(event),
            Event::Pipeline(event) => pipeline(event),
            Event::Steering(event) => Some(steering(event)),
            Event::Watch(WatchEvent::Started { .. }) => {
                Some("creel waits until the pull request is merged.".into())
            }
            // These happen beside the main line, often many at once.
            Event::Task(_)
            | Event::Automation(_)
            | Event::Workflow(_)
            | Event::Verify(_)
            | Event::Watch(_)
            | Event::Unknown => None,
        };
        self.text = text.or_else(|| self.text.take());
    }

    /// `None` before the first event.
    pub fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }
}

fn name(hook: &str) -> String {
    plain_line(hook, NAME)
}

fn session(event: &SessionEvent, state: &SessionState) -> Option<String> {
    Some(match event {
        SessionEvent::Started(_) => {
            "The agent works, hooks check its work, and creel repeats that until it is done.".into()
        }
        SessionEvent::Resumed { .. } => "The session continues where it was interrupted.".into(),
        SessionEvent::IterationStarted { iteration: 1 } => return None,
        SessionEvent::IterationStarted { iteration } => {
            format!(
                "Iteration {iteration} of {}: the agent gets the goal again.",
                state.max_iterations()
            )
        }
        SessionEvent::IterationCompleted {
            outcome: IterationOutcome::Done,
            ..
        } => "This iteration is done. creel decides whether the work is complete.".into(),
        SessionEvent::IterationCompleted {
            outcome: IterationOutcome::Failed,
            ..
        } => "The turn failed, so creel continues with the next iteration.".into(),
        SessionEvent::IterationCompleted {
            outcome: IterationOutcome::Forced,
            ..
        } => "Accepted although a check failed: creel shows this iteration as forced.".into(),
        SessionEvent::Ended {
            outcome: SessionOutcome::Complete,
            ..
        } => {
            let is_checked = state
                .plan()
                .hooks
                .get(&HookPoint::Stop)
                .is_some_and(|hooks| !hooks.is_empty());
            let why = if is_checked {
                "the checks passed"
            } else {
                "the agent says that the work is done"
            };
            format!("Complete: {why}, so the session ends.")
        }
        SessionEvent::Ended { .. } => {
            "The session has ended. The card says why, and what you can do next.".into()
        }
        SessionEvent::LoopEnded { .. }
        | SessionEvent::Warning { .. }
        | SessionEvent::ProcessStarted { .. } => {
            return None;
        }
    })
}

fn hook(event: &HookEvent) -> Option<String> {
    match event {
        HookEvent::Started {
            hook,
            tests_of: Some(of),
            ..
        } => Some(format!(
            "{} passed. creel runs it again {}.",
            name(hook),
            of.words()
        )),
        HookEvent::Finished(finished) if finished.tests_of.is_some() => None,
        HookEvent::Started {
            point,
            hook,
            beside: false,
            ..
        } => hook_started(*point, &name(hook)),
        HookEvent::Finished(finished) => hook_finished(finished),
        HookEvent::Disabled { hook, .. } => Some(format!(
            "{} does not run any more in this session.",
            name(hook)
        )),
        HookEvent::Enabled { hook, .. } => Some(format!("{} runs again from now on.", name(hook))),
        HookEvent::Started { beside: true, .. }
        | HookEvent::Due { .. }
        | HookEvent::Requested { .. } => None,
    }
}

fn hook_started(point: HookPoint, hook: &str) -> Option<String> {
    Some(match point {
        HookPoint::SessionStart => format!("First, the hook {hook} runs: it prepares the session."),
        HookPoint::PreIteration => {
            format!("{hook} runs before the prompt. Its output can go with the prompt.")
        }
        HookPoint::PrePrompt => format!("{hook} reads the prompt before it is sent."),
        HookPoint::Stop => {
            format!("The agent says that it is done. The stop hook {hook} checks that.")
        }
        HookPoint::PostIteration => format!("The iteration is done. {hook} runs after it."),
        HookPoint::OnError => format!("The turn failed, so {hook} runs."),
        HookPoint::StopDecision => format!("{hook} decides whether the work is complete."),
        HookPoint::BeforeSubmit => format!("{hook} checks the work before creel submits it."),
        HookPoint::AfterSubmit => format!("{hook} runs after the submit."),
        HookPoint::BeforeMerge => format!("{hook} checks the work before creel merges it."),
        HookPoint::AfterMerge => format!("{hook} runs after the merge."),
        HookPoint::SessionEnd => format!("Everything is delivered. {hook} runs at the end."),
        HookPoint::OnTaskComplete
        | HookPoint::Automation
        | HookPoint::OnGate
        | HookPoint::PreTool
        | HookPoint::PostTool
        | HookPoint::OnQuestion => return None,
    })
}

/// A hook that blocks has no hint of its own: the retry or the gate that follows explains it.
fn hook_finished(finished: &HookFinished) -> Option<String> {
    let hook = name(&finished.hook);
    match (finished.verdict, finished.point) {
        (Verdict::Pass, HookPoint::Stop) => Some(format!("{hook} passed.")),
        (Verdict::Pass | Verdict::Block, _) => None,
        (Verdict::Fail, _) => Some(format!(
            "{hook} failed. A hook never ends a session, so creel continues."
        )),
    }
}

fn pending(event: &PendingEvent, state: &SessionState) -> Option<String> {
    match event {
        PendingEvent::Added { hook, .. } => {
            let when = if state.ending.is_some() {
                "creel asks you before the end"
            } else {
                "it goes with the next prompt"
            };
            Some(format!("The output of {} is pending: {when}.", name(hook)))
        }
        PendingEvent::Skipped { .. } => {
            Some("Skipped: the agent does not get this item unless you restore it.".into())
        }
        PendingEvent::Restored { .. } => {
            Some("Restored: the agent gets this item after all.".into())
        }
        PendingEvent::Edited { .. } => {
            Some("Edited: the agent gets your text instead of the hook's.".into())
        }
        PendingEvent::Delivered { .. } => None,
    }
}

fn turn(event: &TurnEvent) -> Option<String> {
    match event {
        TurnEvent::PromptSent(prompt) => prompt_sent(prompt),
        TurnEvent::Failed {
            usage_limit: false, ..
        } => {
            Some("The agent's turn failed. After several failures in a row, creel asks you.".into())
        }
        TurnEvent::Failed {
            usage_limit: true, ..
        }
        | TurnEvent::AgentSaid { .. }
        | TurnEvent::AgentThought { .. }
        | TurnEvent::ToolCalled { .. }
        | TurnEvent::ToolUpdated { .. }
        | TurnEvent::AgentPlanned { .. }
        | TurnEvent::AgentUsed { .. }
        | TurnEvent::AgentNoted { .. }
        | TurnEvent::ConversationOpened { .. }
        | TurnEvent::PermissionAsked { .. }
        | TurnEvent::ToolDecided { .. }
        | TurnEvent::QuestionAnswered { .. }
        | TurnEvent::Cancelling { .. }
        | TurnEvent::Ended { .. } => None,
    }
}

fn prompt_sent(prompt: &PromptSent) -> Option<String> {
    Some(match (prompt.reason, prompt.items.len()) {
        (PromptReason::Iteration, 0) => "The agent works on the goal.".into(),
        (PromptReason::Iteration, items) => {
            format!(
                "The agent works. Its prompt has the goal and {} from hooks.",
                counted(items, "item")
            )
        }
        // The retry before it has said so.
        (PromptReason::Feedback, _) => return None,
        (PromptReason::Recovery, _) => {
            "The agent gets the output of the hooks for failed turns, and tries again.".into()
        }
        (PromptReason::News, _) => {
            "The agent gets what checks and reviewers say about its pull request.".into()
        }
        (PromptReason::FinalDelivery, _) => {
            "One last prompt: the agent gets what was still pending.".into()
        }
        (PromptReason::Message, _) => "The agent gets the message and continues.".into(),
        (PromptReason::Remediation, _) => "The agent repairs what the check has found.".into(),
        (PromptReason::Gatekeeper, _) => "Another agent reviews the change.".into(),
    })
}

fn usage_limit(event: &UsageLimitEvent) -> String {
    match event {
        UsageLimitEvent::Reached(reached) | UsageLimitEvent::Outage(reached) => {
            let what = match reached.cause {
                LimitCause::Usage => "Usage limit reached.",
                LimitCause::NoCredit => "The agent has no credit left.",
                LimitCause::Outage => "The agent does not reach its server.",
            };
            let then = match reached.action {
                LimitAction::Wait => "creel waits, then sends the same turn again.",
                LimitAction::Ask => "creel asks you what to do.",
                LimitAction::Switch => "Another agent takes the turn.",
                LimitAction::Fail => "The turn has failed.",
            };
            format!("{what} {then}")
        }
        UsageLimitEvent::AgentSwitched { to, .. } => format!("{} works from now on.", name(to)),
        UsageLimitEvent::WaitSkipped { .. } => "creel sends the turn again now.".into(),
    }
}

fn retry(event: &RetryEvent) -> String {
    match event {
        RetryEvent::Counted {
            used,
            limit,
            hook,
            no_progress,
            ..
        } => {
            let same = if *no_progress {
                " with the same output"
            } else {
                ""
            };
            format!(
                "{} failed{same}: creel sends the output back to the agent. Retry {used} of {limit}.",
                name(hook)
            )
        }
        RetryEvent::LimitReached { used, hook, .. } => {
            format!(
                "{} still fails after {}.",
                name(hook),
                counted(*used, "retry")
            )
        }
        RetryEvent::BackoffStarted { wait_ms, .. } => {
            let wait = match wait_ms.0 {
                0..1_000 => "a moment".to_owned(),
                _ => short_span(*wait_ms),
            };
            format!("creel waits {wait} before it tries again.")
        }
    }
}

fn gate(event: &GateEvent, state: &SessionState) -> Option<String> {
    match event {
        GateEvent::Opened { about, .. } => {
            let timeout = state.plan().gates.timeout;
            let otherwise = if timeout.is_zero() {
                "creel waits for you.".to_owned()
            } else {
                format!("creel decides in {timeout}.")
            };
            Some(format!("{} {otherwise}", gate_opened(*about)))
        }
        GateEvent::Answered { by, .. } if by.by == ActorKind::Timeout => {
            Some("You did not answer in time, so creel decided as the config says.".into())
        }
        GateEvent::Answered { choice, by, .. }
            if *choice == GateChoice::Cancel
                && by.by == ActorKind::Policy
                && state.pipelines.watch().is_some() =>
        {
            Some("The gate closed, because its reason is gone. creel keeps waiting.".into())
        }
        GateEvent::ProposalEdited { .. } | GateEvent::Answered { .. } => None,
    }
}

const fn gate_opened(kind: GateKind) -> &'static str {
    match kind {
        GateKind::FinalDelivery => "Send this output to the agent before the end?",
        GateKind::Delivery => "Send this output with the next prompt?",
        GateKind::RetryLimit => "The check still fails, and no retries are left.",
        GateKind::Escalation => "The session needs your decision.",
        GateKind::Errors => "Too many turns failed in a row.",
        GateKind::BrokenHook => "A check or a hook cannot run.",
        GateKind::Permission => "The agent asks for permission, and waits.",
        GateKind::Question => "The agent asks you something, and waits.",
        GateKind::Budget => "The budget is used up.",
        GateKind::UsageLimit => "The agent reached a usage limit.",
        GateKind::Tampered => "Something changed that only you can accept.",
        GateKind::Submit => "A check before the submit failed.",
        GateKind::Merge => "The pull request waits for you.",
        GateKind::Review => "Send this news of the pull request to the agent?",
        GateKind::Proposal => "The agent has proposed tasks.",
    }
}

fn stop(event: &StopEvent) -> Option<String> {
    match event {
        StopEvent::RuleStarted { rule, .. } => {
            Some(format!("creel checks the rule {}.", name(rule)))
        }
        StopEvent::Decided(decided) if decided.of.is_none() => Some(match decided.action {
            StopAction::Complete => {
                "The work is complete: the checks passed, and the agent says that it is done."
                    .into()
            }
            StopAction::Continue => {
                "The work is not complete yet, so another iteration follows.".into()
            }
            StopAction::Escalate => "creel cannot decide without you whether to continue.".into(),
        }),
        StopEvent::Decided(_)
        | StopEvent::RulesDue { .. }
        | StopEvent::RuleChecked { .. }
        | StopEvent::CheckpointKept(_)
        | StopEvent::HookRegistered { .. }
        | StopEvent::HooksCleared { .. }
        | StopEvent::LoopStarted { .. }
        | StopEvent::LoopAdvanced { .. }
        | StopEvent::JudgementAsked { .. }
        | StopEvent::LoopEnded { .. }
        | StopEvent::CompletionPromised { .. } => None,
    }
}

fn pipeline(event: &PipelineEvent) -> Option<String> {
    Some(match event {
        PipelineEvent::Requested { pipeline, .. } => {
            format!("The {} begins after this iteration.", pipeline.name())
        }
        PipelineEvent::Started { pipeline, .. } => {
            format!("The {} begins with its checks.", pipeline.name())
        }
        PipelineEvent::RemediationCounted {
            hook, used, limit, ..
        } => {
            format!(
                "{} failed: the agent repairs it. Attempt {used} of {limit}.",
                name(hook)
            )
        }
        PipelineEvent::ReviewStarted { .. }
        | PipelineEvent::Reviewed { .. }
        | PipelineEvent::Ended { .. } => {
            return None;
        }
    })
}

fn steering(event: &SteeringEvent) -> String {
    match event {
        SteeringEvent::Paused { .. } => {
            "Paused: creel sends no prompt until you unpause the session.".into()
        }
        SteeringEvent::Unpaused { .. } => "The session continues.".into(),
        SteeringEvent::MessageQueued { .. } => {
            "creel sends the message when the agent's turn ends.".into()
        }
        SteeringEvent::ModelChosen { .. } => "The agent's next prompt uses this model.".into(),
        SteeringEvent::StopRequested {
            how: StopTiming::AfterIteration,
            ..
        } => "creel stops the session after this iteration.".into(),
        SteeringEvent::StopRequested {
            how: StopTiming::Now,
            ..
        } => "creel stops the session now.".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The columns for a sentence on the smallest screen that has the line.
    const ROOM: usize = 77;

    #[test]
    fn the_sentence_about_a_gate_fits_the_smallest_screen_with_hints() {
        for kind in GateKind::ALL {
            let text = format!("{} creel decides in 7 s.", gate_opened(kind));
            assert!(text.len() <= ROOM, "{text}");
        }
    }
}
