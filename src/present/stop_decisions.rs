//! Lines for the records of stop decisions: for sessions without a screen, and for the stream.

use super::text::{counted, plain_line};
use crate::{
    engine::{
        event::{Event, StopDecided, StopEvent},
        policy::{StopHook, StopHookCondition, StopHookKind, StopPreset},
        stop::{StopAction, checkpoint::Checkpoint},
    },
    present::tasks::LineTone,
};

/// The longest reason in a line, in characters.
const LINE: usize = 200;

/// The line for a record of a stop decision. `None` for other records, and for those that the user need not see.
#[expect(clippy::wildcard_enum_match_arm, reason = "everything else is not about stop decisions, whatever it is")]
pub fn told(event: &Event) -> Option<(LineTone, String)> {
    Some(match event {
        Event::Stop(StopEvent::RuleStarted { rule, of, .. }) => {
            (LineTone::Faint, format!("▸ rule: {}{}", short(rule), within(of.as_deref())))
        }
        Event::Stop(StopEvent::RuleChecked { rule, passed, message, took_ms, of, .. }) => {
            let (tone, mark) = if *passed { (LineTone::Good, "☑") } else { (LineTone::Warning, "☐") };
            (tone, format!("{mark} rule {}: {} · {took_ms}{}", short(rule), short(message), within(of.as_deref())))
        }
        Event::Stop(StopEvent::Decided(decided)) => decision(decided),
        Event::Stop(StopEvent::CheckpointKept(kept)) => (LineTone::Plain, checkpoint(kept)),
        Event::Stop(StopEvent::HookRegistered { hook_id, task, .. }) => {
            (LineTone::Plain, format!("stop hook {} registered for {}", short(hook_id), short(task)))
        }
        Event::Stop(StopEvent::HooksCleared { task, hooks, .. }) => {
            (LineTone::Faint, format!("{} of {} cleared", counted(hooks.len(), "stop hook"), short(task)))
        }
        Event::Stop(StopEvent::LoopStarted { loop_id, task, max_iterations, .. }) => (
            LineTone::Plain,
            format!(
                "loop {} over {} started · up to {}",
                short(loop_id),
                short(task),
                counted(*max_iterations as usize, "iteration")
            ),
        ),
        Event::Stop(StopEvent::LoopAdvanced { loop_id, iteration, .. }) => {
            (LineTone::Plain, format!("loop {} is in iteration {iteration}", short(loop_id)))
        }
        Event::Stop(StopEvent::LoopEnded { loop_id, iterations, promise, .. }) => {
            let after = counted(*iterations as usize, "iteration");
            (LineTone::Plain, format!("loop {} ended after {after}: {promise}", short(loop_id)))
        }
        Event::Stop(StopEvent::CompletionPromised { reason, .. }) => {
            (LineTone::Plain, format!("the agent says that the session is complete: {}", short(reason)))
        }
        _ => return None,
    })
}

pub const fn action(action: StopAction) -> &'static str {
    match action {
        StopAction::Complete => "complete",
        StopAction::Continue => "continue",
        StopAction::Escalate => "escalate",
    }
}

/// What a stop decision hook does, and when.
pub fn judge(hook: &StopHook) -> String {
    let what = match &hook.judge {
        StopHookKind::Preset(StopPreset::Default) => "what the agent promised, then what the rules said".to_owned(),
        StopHookKind::Preset(StopPreset::Validation) => "what the rules said".to_owned(),
        StopHookKind::Preset(StopPreset::Promise) => "what the agent promised".to_owned(),
        StopHookKind::Command { command, .. } => command.clone(),
        StopHookKind::Fixed(result) => format!("{}: {}", action(result.action), result.reason),
        StopHookKind::All(parts) => format!("all of:\n{}", parts.iter().map(judge).collect::<Vec<_>>().join("\n")),
        StopHookKind::Any(parts) => format!("any of:\n{}", parts.iter().map(judge).collect::<Vec<_>>().join("\n")),
    };
    let when = if hook.when.is_always() { String::new() } else { format!("\nwhen {}", conditions(&hook.when)) };
    format!("{what}{when}")
}

fn conditions(when: &StopHookCondition) -> String {
    let iterations = match (when.from, when.to) {
        (None, None) => None,
        (Some(from), Some(to)) if from == to => Some(format!("iteration {from}")),
        (from, to) => {
            let end = |bound: Option<u32>| bound.map(|n| n.to_string()).unwrap_or_default();
            Some(format!("iterations {}..{}", end(from), end(to)))
        }
    };
    let files = (!when.files.is_empty()).then(|| format!("changed: {}", when.files.join(", ")));
    let rules = when.rules.iter().map(|(rule, passed)| format!("{rule} {}", if *passed { "passed" } else { "failed" }));
    let labels = (!when.labels.is_empty()).then(|| format!("labels: {}", when.labels.join(", ")));
    iterations.into_iter().chain(files).chain(rules).chain(labels).collect::<Vec<_>>().join(" · ")
}

fn decision(decided: &StopDecided) -> (LineTone, String) {
    let tone = match decided.action {
        StopAction::Complete => LineTone::Good,
        StopAction::Continue => LineTone::Plain,
        StopAction::Escalate => LineTone::Warning,
    };
    let by = if decided.hook == "default" { String::new() } else { format!(" · by {}", short(&decided.hook)) };
    (
        tone,
        format!(
            "decision: {}: {}{by}{}",
            action(decided.action),
            short(&decided.reason),
            within(decided.of.as_deref())
        ),
    )
}

fn checkpoint(kept: &Checkpoint) -> String {
    let by = kept.hook.as_deref().map_or_else(|| "the agent".into(), |hook| format!("`{}`", short(hook)));
    let commit = kept.commit.as_deref().map(|commit| format!(" · commit {}", short(commit))).unwrap_or_default();
    format!("⚑ checkpoint {} of {by}{commit}", kept.checkpoint)
}

fn within(of: Option<&str>) -> String {
    of.map(|id| format!(" · {}", short(id))).unwrap_or_default()
}

fn short(text: &str) -> String {
    plain_line(text, LINE)
}
