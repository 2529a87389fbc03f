//! What a record says in the stream: the line of its block, how that looks, and the text under it.

use super::{Block, Body, Kind};
use crate::{
    control::text::{first_line, plain},
    engine::{
        conversation::StopReason,
        event::{Event, HookFinished, IterationOutcome, Outcome, PromptReason, PromptSent},
        hooks::verdict::Verdict,
        time::At,
    },
    tui::theme::Role,
};

pub(super) fn block(kind: Kind, at: At, head: String, role: Role) -> Block {
    let folded = matches!(kind, Kind::Tool | Kind::Hook | Kind::Prompt);
    Block { kind, at, head, role, error: false, folded, body: Body::None, spots: Vec::new(), turn: None, revision: 0 }
}

pub(super) fn finished_block(at: At, finished: &HookFinished) -> Block {
    let HookFinished { point, hook, end, took_ms, verdict, piped, .. } = finished;
    let (sign, role, said) = match verdict {
        Verdict::Pass => ("✓", Role::Good, "passed"),
        Verdict::Block => ("✗", Role::Bad, "blocked"),
        Verdict::Fail => ("!", Role::Warning, "failed"),
    };
    let piped = if *piped { " · piped" } else { "" };
    let head =
        format!("{sign} {point}: {} {said} · {} · {took_ms}{piped}", first_line(&plain(hook), 80), end.describe());
    let failed = *verdict != Verdict::Pass;
    Block { error: failed, folded: *verdict == Verdict::Pass, ..block(Kind::Hook, at, head, role) }
}

pub(super) fn output(finished: &HookFinished) -> String {
    let parts = [&finished.stdout, &finished.stderr].into_iter().filter(|text| !text.trim().is_empty());
    parts.map(|text| text.trim_end()).collect::<Vec<_>>().join("\n")
}

pub(super) fn prompt_block(at: At, prompt: &PromptSent) -> Block {
    let reason = match prompt.reason {
        PromptReason::Iteration => "iteration",
        PromptReason::Feedback => "feedback",
        PromptReason::Recovery => "recovery",
        PromptReason::FinalDelivery => "final delivery",
        PromptReason::Message => "message",
        PromptReason::Remediation => "remediation",
        PromptReason::Gatekeeper => "gatekeeper",
    };
    let items = match prompt.items.len() {
        0 => String::new(),
        n => format!(" · carries {n} held"),
    };
    let head =
        format!("→ prompt: {reason} · {} bytes{items}: {}", prompt.text.len(), first_line(&plain(&prompt.text), 60));
    block(Kind::Prompt, at, head, Role::Accent)
}

/// The text of a block, from its record.
pub(super) fn body_of(event: &Event) -> String {
    match event {
        Event::AgentSaid { text, .. } | Event::AgentThought { text, .. } => text.clone(),
        Event::ToolCalled { tool, .. } | Event::ToolUpdated { tool, .. } => tool.output.clone().unwrap_or_default(),
        Event::HookFinished(finished) => output(finished),
        Event::PromptSent(prompt) => prompt.text.clone(),
        _ => String::new(),
    }
}

fn resumed(cut: &[String]) -> String {
    match cut {
        [] => "session resumed".into(),
        cut => format!("session resumed · done again: {}", first_line(&plain(&cut.join(", ")), 300)),
    }
}

/// What needs only a line.
pub(super) fn note(at: At, event: &Event) -> Option<Block> {
    let line = |head: String, role| Some(block(Kind::Note, at, head, role));
    let wrong = |head: String| Some(Block { error: true, ..block(Kind::Note, at, head, Role::Bad) });
    let short = |text: &str| first_line(&plain(text), 300);
    match event {
        Event::SessionStarted(began) => {
            Some(block(Kind::Session, at, format!("session started · agent {}", short(&began.agent)), Role::Heading))
        }
        Event::SessionResumed { cut, .. } => Some(block(Kind::Session, at, resumed(cut), Role::Heading)),
        Event::IterationStarted { iteration } => {
            Some(block(Kind::Iteration, at, format!("━━ iteration {iteration} "), Role::Heading))
        }
        Event::IterationCompleted { iteration, outcome } => match outcome {
            IterationOutcome::Done => line(format!("✓ iteration {iteration} done"), Role::Good),
            IterationOutcome::Failed => wrong(format!("✗ iteration {iteration} failed")),
            IterationOutcome::Forced => {
                line(format!("! iteration {iteration} forced at the retry limit"), Role::Warning)
            }
        },
        Event::TurnEnded { stop_reason, .. } if *stop_reason != StopReason::EndTurn => {
            let why = match stop_reason {
                StopReason::EndTurn => "done",
                StopReason::MaxTokens => "at its token limit",
                StopReason::MaxTurnRequests => "at its request limit",
                StopReason::Refusal => "the agent refused",
                StopReason::Cancelled => "cancelled",
            };
            line(format!("turn ended: {why}"), Role::Warning)
        }
        Event::TurnFailed { error, .. } => wrong(format!("✗ turn failed: {}", short(error))),
        Event::Delivered { items } => {
            let ids = items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            line(format!("✓ delivered: item {ids}"), Role::Good)
        }
        Event::PendingAdded { item, hook, bytes, .. } => {
            line(format!("+ held: item {item} of {}, {bytes} bytes", short(hook)), Role::Faint)
        }
        Event::PendingSkipped { item, .. } => line(format!("- item {item} is skipped"), Role::Faint),
        Event::PendingRestored { item, .. } => line(format!("+ item {item} is back"), Role::Faint),
        Event::PendingEdited { item, .. } => line(format!("~ item {item} was edited"), Role::Faint),
        Event::RetryCounted { used, limit, reason, no_progress, .. } => {
            let same = if *no_progress { " · no progress" } else { "" };
            line(format!("↻ retry {used}/{limit}{same}: {}", short(reason)), Role::Warning)
        }
        Event::RetryLimitReached { used, limit, hook } => {
            wrong(format!("↻ retry limit {used}/{limit} reached by {}", short(hook)))
        }
        Event::BackoffStarted { wait_ms, .. } => line(format!("waits {wait_ms}"), Role::Faint),
        Event::GateOpened { gate, reason, .. } => line(format!("◆ gate {gate}: {}", short(reason)), Role::Gate),
        Event::GateAnswered { gate, choice, by, .. } => {
            line(format!("◆ gate {gate}: {} by {}", choice.name(), format!("{by:?}").to_lowercase()), Role::Gate)
        }
        Event::StopDecided { action, reason, .. } => {
            line(format!("decision: {}: {}", format!("{action:?}").to_lowercase(), short(reason)), Role::Accent)
        }
        Event::HookDisabled { point, hook, .. } => {
            line(format!("hook {} at {point} is off", short(hook)), Role::Warning)
        }
        Event::HookEnabled { point, hook, .. } => line(format!("hook {} at {point} is on", short(hook)), Role::Accent),
        Event::TaskCompleted { task, data } => {
            line(format!("task {} completed: {}", short(task), short(&data.content)), Role::Accent)
        }
        Event::HookError { data, .. } => wrong(format!("! hook {}: {}", short(&data.hook_name), short(&data.error))),
        Event::Paused { .. } => line("paused".into(), Role::Warning),
        Event::Unpaused { .. } => line("goes on".into(), Role::Accent),
        Event::MessageQueued { text, .. } => line(format!("message: {}", short(text)), Role::Accent),
        Event::StopRequested { .. } => line("stopping".into(), Role::Warning),
        Event::Warning { text } => line(format!("! {}", short(text)), Role::Warning),
        Event::SessionEnded { outcome, reason, .. } => {
            let role = if *outcome == Outcome::Complete { Role::Good } else { Role::Warning };
            Some(block(Kind::Session, at, format!("session {}: {}", outcome.name(), short(reason)), role))
        }
        Event::PermissionAsked { ask, .. } => line(format!("? asks: {}", short(&ask.tool.title)), Role::Accent),
        Event::TurnEnded { .. }
        | Event::AgentPlanned { .. }
        | Event::AgentUsed { .. }
        | Event::AgentNoted { .. }
        | Event::ConversationOpened { .. }
        | Event::HooksDue { .. }
        | Event::HookRequested { .. }
        | Event::HookStarted { .. }
        | Event::HookFinished(_)
        | Event::PromptSent(_)
        | Event::AgentSaid { .. }
        | Event::AgentThought { .. }
        | Event::ToolCalled { .. }
        | Event::ToolUpdated { .. }
        | Event::ProcessStarted { .. }
        | Event::LoopEnded { .. }
        | Event::Unknown => None,
    }
}
