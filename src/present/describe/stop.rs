//! The wording of stop decisions, checkpoints, loops, submits and merges.

use crate::{
    engine::{
        event::{PipelineEvent, StopDecided, StopEvent},
        stop::{chain::IN_PROGRESS, decision::StopAction, event::Checkpoint},
        submit::kind::{PipelineKind, PipelineOutcome, ReviewVerdict},
        watch::event::WatchEvent,
    },
    present::{
        describe::{Described, EventTone, name, sentence},
        policies::action,
        text::{brief_span, counted, plain, readable_size},
    },
    text::shortened,
};

pub(super) fn stop(event: &StopEvent) -> Option<Described> {
    let plain = |text: String| Described::new("", EventTone::Plain, text);
    Some(match event {
        StopEvent::RuleStarted { rule, of, .. } => Described::new(
            "▸",
            EventTone::Quiet,
            format!("Rule: {}{}", name(rule), within(of.as_deref())),
        ),
        StopEvent::RuleChecked {
            rule,
            passed,
            message,
            took_ms,
            of,
            ..
        } => {
            let (sign, tone) = if *passed {
                ("☑", EventTone::Passed)
            } else {
                ("☐", EventTone::Problem)
            };
            let (rule, message, within) = (name(rule), sentence(message), within(of.as_deref()));
            Described::new(
                sign,
                tone,
                format!("Rule {rule}: {message} · {}{within}", brief_span(*took_ms)),
            )
        }
        StopEvent::Decided(decided) => decision(decided),
        StopEvent::CheckpointKept(kept) => checkpoint(kept),
        StopEvent::HookRegistered { hook_id, task, .. } => plain(format!(
            "Stop hook {} registered for {}",
            name(hook_id),
            name(task)
        )),
        StopEvent::HooksCleared { task, hooks, .. } => {
            let text = format!(
                "Cleared {} of {}",
                counted(hooks.len(), "stop hook"),
                name(task)
            );
            Described::new("", EventTone::Quiet, text)
        }
        StopEvent::LoopStarted {
            loop_id,
            task,
            max_iterations,
            ..
        } => {
            let limit = counted(*max_iterations, "iteration");
            plain(format!(
                "Loop {} for {} started · up to {limit}",
                name(loop_id),
                name(task)
            ))
        }
        StopEvent::LoopAdvanced {
            loop_id, iteration, ..
        } => plain(format!("Loop {}: iteration {iteration}", name(loop_id))),
        StopEvent::LoopEnded {
            loop_id,
            iterations,
            promise,
            ..
        } => plain(format!(
            "Loop {} ended after {}: {promise}",
            name(loop_id),
            counted(*iterations, "iteration")
        )),
        StopEvent::CompletionPromised { reason, .. } => plain(format!(
            "The agent reports that the session is complete: {}",
            sentence(reason)
        )),
        StopEvent::RulesDue { .. } | StopEvent::JudgementAsked { .. } => return None,
    })
}

fn decision(decided: &StopDecided) -> Described {
    let tone = match decided.action {
        StopAction::Complete => EventTone::Passed,
        StopAction::Continue => EventTone::Quiet,
        StopAction::Escalate => EventTone::Problem,
    };
    // A fixed action without a name is called like its reason.
    let is_named = decided.hook != "default" && decided.hook != decided.reason;
    let by = if is_named {
        format!(" · by {}", name(&decided.hook))
    } else {
        String::new()
    };
    let reason = sentence(
        decided
            .explanation
            .as_ref()
            .filter(|reason| !reason.is_empty())
            .unwrap_or(&decided.reason),
    );
    let (action, within) = (action(decided.action), within(decided.of.as_deref()));
    if decided.action == StopAction::Continue
        && decided.reason == IN_PROGRESS
        && decided.of.is_none()
    {
        let text = "Next iteration: the agent has not said that it is done".to_owned();
        return Described::new("", tone, text);
    }
    Described::new(
        "",
        tone,
        format!("Decision: {action} · {reason}{by}{within}"),
    )
}

fn checkpoint(kept: &Checkpoint) -> Described {
    let by = kept
        .hook
        .as_deref()
        .map_or_else(|| "the agent".into(), |hook| format!("`{}`", name(hook)));
    let commit = kept
        .commit
        .as_deref()
        .map(|commit| format!(" · commit {}", name(commit)))
        .unwrap_or_default();
    Described::new(
        "⚑",
        EventTone::Plain,
        format!("Checkpoint {} by {by}{commit}", kept.checkpoint),
    )
}

/// The agent's own loop, if the event belongs to one.
fn within(of: Option<&str>) -> String {
    of.map(|id| format!(" · {}", name(id))).unwrap_or_default()
}

pub(super) fn pipeline(event: &PipelineEvent) -> Described {
    match event {
        PipelineEvent::Requested { pipeline, .. } => {
            let text = format!(
                "{} requested · starts after this iteration",
                title(*pipeline)
            );
            Described::new("", EventTone::Plain, text)
        }
        PipelineEvent::Started { pipeline, .. } => {
            Described::new("━━", EventTone::Plain, title(*pipeline))
        }
        PipelineEvent::RemediationCounted {
            used,
            limit,
            hook,
            reason,
            ..
        } => {
            let text = format!(
                "Repair {used} of {limit} for `{}`: {}",
                name(hook),
                sentence(reason)
            );
            Described::new("↻", EventTone::Problem, text)
        }
        PipelineEvent::ReviewStarted { hook, change, .. } => {
            let size = readable_size(change.len() as u64);
            Described::new(
                "·",
                EventTone::Quiet,
                format!("Review `{}` started · {size} to review", name(hook)),
            )
        }
        PipelineEvent::Reviewed { review, .. } => {
            let (sign, tone, verdict) = match review.verdict {
                ReviewVerdict::Approve => ("✓", EventTone::Passed, "approved"),
                ReviewVerdict::Block => ("✗", EventTone::Problem, "blocked"),
                ReviewVerdict::Unsaid => ("✗", EventTone::Problem, "no verdict"),
            };
            let (gatekeeper, reason) = (name(&review.gatekeeper), sentence(&review.reason));
            Described::new(
                sign,
                tone,
                format!("Review by {gatekeeper} · {verdict}: {reason}"),
            )
        }
        PipelineEvent::Ended {
            pipeline,
            outcome,
            reason,
            pull_request,
            ..
        } => ended(
            *pipeline,
            *outcome,
            &sentence(reason),
            pull_request.as_deref(),
        ),
    }
}

/// What the forge said, if it is something new.
pub(super) fn watch(event: &WatchEvent) -> Option<Described> {
    Some(match event {
        WatchEvent::Started { pull_request, .. } => {
            let text = format!("Waiting for {}", plain(pull_request));
            Described::new("◷", EventTone::Plain, text)
        }
        WatchEvent::Read(read) if read.changed => {
            let (url, status) = (plain(&read.pull_request), read.reading.status());
            Described::new("·", EventTone::Quiet, format!("{url}: {}", plain(&status)))
        }
        WatchEvent::Read(_) => return None,
        WatchEvent::Failed { reason, .. } => {
            let text = format!("The forge did not answer: {}", sentence(reason));
            Described::new("!", EventTone::Warning, text)
        }
        WatchEvent::Answered {
            error: Some(error), ..
        } => {
            let text = format!("creel could not answer a comment: {}", sentence(error));
            Described::new("!", EventTone::Warning, text)
        }
        WatchEvent::Answered { commit, .. } => {
            let with = commit.as_deref().map_or_else(
                || "without a change".to_owned(),
                |commit| format!("with {}", shortened(commit, 10)),
            );
            Described::new("✓", EventTone::Quiet, format!("Answered a comment {with}"))
        }
    })
}

/// How a submit or a merge ended, in one word.
pub const fn pipeline_result(outcome: PipelineOutcome) -> &'static str {
    match outcome {
        PipelineOutcome::Done => "done",
        PipelineOutcome::Failed => "failed",
        PipelineOutcome::Cancelled => "cancelled",
    }
}

const fn title(pipeline: PipelineKind) -> &'static str {
    match pipeline {
        PipelineKind::Submit => "Submit",
        PipelineKind::Merge => "Merge",
    }
}

fn ended(
    pipeline: PipelineKind,
    outcome: PipelineOutcome,
    reason: &str,
    pull_request: Option<&str>,
) -> Described {
    let result = format!("{} {}", title(pipeline), pipeline_result(outcome));
    let link = pull_request
        .filter(|link| !reason.contains(link))
        .map(|link| format!(" · {}", plain(link)));
    let link = link.unwrap_or_default();
    match outcome {
        PipelineOutcome::Done => {
            Described::new("✓", EventTone::Passed, format!("{result}: {reason}{link}"))
        }
        PipelineOutcome::Failed => {
            let text = format!("{result}: {reason}{link} · the branch is kept");
            Described::new("✗", EventTone::Problem, text)
        }
        PipelineOutcome::Cancelled => Described::new(
            "✗",
            EventTone::Problem,
            format!("{result}{link} · the branch is kept"),
        ),
    }
}
