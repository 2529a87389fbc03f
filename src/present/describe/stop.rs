//! The wording of rules, stop decisions, checkpoints and the loops of agents.

use super::{Described, EventTone, name, sentence};
use crate::{
    engine::{
        event::{StopDecided, StopEvent},
        stop::{checkpoint::Checkpoint, decision::StopAction, preset::IN_PROGRESS},
    },
    present::{clock::brief_span, stop_decisions::action, text::counted},
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
            .said
            .as_ref()
            .filter(|said| !said.is_empty())
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
