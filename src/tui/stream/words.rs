//! What a record says in the stream: the line of its block, how that looks, and the text under it.

use super::{
    Block, Body, Kind,
    part::{Look, Part},
};
use crate::{
    engine::{
        conversation::{PermissionAsk, PlanEntry, Spent, StopReason, ToolCall, ToolStatus},
        event::{Event, HookFinished, IterationOutcome, Outcome, PromptReason, PromptSent},
        hooks::verdict::Verdict,
        session::gate::About,
        time::{At, Span},
    },
    present::{
        amounts::Used,
        permission_requests::{Leave, Told},
        pipelines, stop_decisions,
        tasks::{self, Tone},
        text::{first_line, plain, prompt_line},
        tool_calls,
        usage_limits::limit_reached,
    },
    tui::theme::Role,
};

pub(super) fn block(kind: Kind, at: At, head: String, role: Role) -> Block {
    let folded = matches!(kind, Kind::Tool | Kind::Request | Kind::Hook | Kind::Prompt);
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

fn output(finished: &HookFinished) -> String {
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
    let whose = prompt.agent.as_ref().map(|agent| format!(" {}", plain(agent))).unwrap_or_default();
    let head = format!("→ prompt: {reason}{whose} · {} bytes{items}: {}", prompt.text.len(), prompt_line(prompt, 60));
    block(Kind::Prompt, at, head, Role::Accent)
}

/// A tool call: how far it is, what it does with which files, how long it took.
pub(super) fn tool_block(at: At, call: &ToolCall, project: &str, took: Option<Span>) -> Block {
    let (sign, role) = match call.status {
        ToolStatus::Pending | ToolStatus::InProgress => ("⚙", Role::Accent),
        ToolStatus::Completed => ("✓", Role::Good),
        ToolStatus::Failed => ("✗", Role::Bad),
    };
    let took = took.map(|took| format!(" · {took}")).unwrap_or_default();
    let head = format!("{sign} {}{took}", tool_calls::line(call, project));
    Block { error: call.status == ToolStatus::Failed, ..block(Kind::Tool, at, head, role) }
}

/// What a tool call would change, was given, and printed.
fn tool_parts(call: &ToolCall) -> Vec<Part> {
    let part = |look, text: Option<String>| text.filter(|text| !text.trim().is_empty()).map(|text| Part { look, text });
    let parts = [
        part(Look::Change, call.diff.clone()),
        part(Look::Arguments, call.input.as_deref().map(tool_calls::arguments)),
        part(Look::Output, call.output.clone()),
    ];
    parts.into_iter().flatten().collect()
}

/// Something that the agent wants to do, and asks about first.
pub(super) fn request_block(at: At, ask: &PermissionAsk, project: &str) -> Block {
    block(Kind::Request, at, format!("? asks: {}", tool_calls::line(&ask.tool, project)), Role::Gate)
}

pub(super) fn answer_block(at: At, told: &Told) -> Block {
    let role = match told.leave {
        Leave::Given => Role::Good,
        Leave::Refused => Role::Warning,
        Leave::Unsaid => Role::Faint,
    };
    block(Kind::Note, at, told.words.clone(), role)
}

pub(super) fn plan_block(at: At, entries: &[PlanEntry]) -> Block {
    block(Kind::Plan, at, tool_calls::plan_line(entries), Role::Accent)
}

/// Something of the agent's own affairs: what is more than a line is folded under it.
pub(super) fn noted_block(at: At, what: &str, text: &str) -> Block {
    let head = format!("· {}: {}", first_line(&plain(what), 60), first_line(&plain(text), NOTED));
    Block { folded: true, ..block(Kind::Note, at, head, Role::Faint) }
}

/// How much of a note fits into its line.
const NOTED: usize = 80;

/// The text of a block, from its record.
#[expect(clippy::wildcard_enum_match_arm, reason = "the other records say all in their first line")]
pub(super) fn body_of(event: &Event) -> Vec<Part> {
    let words = |text: &str| Part::words(text);
    let parts = match event {
        Event::AgentSaid { text, .. } | Event::AgentThought { text, .. } => vec![words(text)],
        Event::ToolCalled { tool, .. } | Event::ToolUpdated { tool, .. } => tool_parts(tool),
        Event::PermissionAsked { ask, .. } => tool_parts(&ask.tool),
        Event::AgentPlanned { entries, .. } => {
            let lines = entries.iter().map(tool_calls::plan_entry).collect::<Vec<_>>().join("\n");
            vec![Part { look: Look::Plan, text: lines }]
        }
        Event::AgentNoted { text, .. } => {
            let more = text.trim().contains('\n') || text.trim().chars().count() > NOTED;
            more.then(|| words(text)).into_iter().collect()
        }
        Event::HookFinished(finished) => vec![words(&output(finished))],
        Event::PromptSent(prompt) => vec![words(&prompt.text)],
        _ => Vec::new(),
    };
    parts.into_iter().filter(|part| !part.text.is_empty()).collect()
}

/// How a turn ended, where that is worth a line.
fn turn_ended(at: At, stop_reason: StopReason, spent: Spent) -> Option<Block> {
    let used = Used::from(spent);
    let (why, role) = match stop_reason {
        StopReason::EndTurn => {
            return used.words().map(|used| block(Kind::Note, at, format!("turn ended · {used}"), Role::Faint));
        }
        StopReason::MaxTokens => ("at its token limit", Role::Warning),
        StopReason::MaxTurnRequests => ("at its request limit", Role::Warning),
        StopReason::Refusal => ("the agent refused", Role::Warning),
        StopReason::Cancelled => ("cancelled", Role::Warning),
    };
    Some(block(Kind::Note, at, format!("turn ended: {why}{}", used.suffix()), role))
}

fn resumed(cut: &[String], paused: bool) -> String {
    let paused = if paused { " · still paused" } else { "" };
    match cut {
        [] => format!("session resumed{paused}"),
        cut => format!("session resumed{paused} · done again: {}", first_line(&plain(&cut.join(", ")), 300)),
    }
}

fn iteration_ended(at: At, iteration: u32, outcome: IterationOutcome) -> Block {
    let (head, role, error) = match outcome {
        IterationOutcome::Done => (format!("✓ iteration {iteration} done"), Role::Good, false),
        IterationOutcome::Failed => (format!("✗ iteration {iteration} failed"), Role::Bad, true),
        IterationOutcome::Forced => {
            (format!("! iteration {iteration} forced at the retry limit"), Role::Warning, false)
        }
    };
    Block { error, ..block(Kind::Note, at, head, role) }
}

fn toned(at: At, tone: Tone, head: String) -> Block {
    let (role, error) = match tone {
        Tone::Plain => (Role::Accent, false),
        Tone::Good => (Role::Good, false),
        Tone::Warning => (Role::Warning, true),
        Tone::Faint => (Role::Faint, false),
    };
    Block { error, ..block(Kind::Note, at, head, role) }
}

/// What needs only a line.
#[expect(clippy::too_many_lines, reason = "an arm for each kind of record: split, a new kind could be forgotten")]
pub(super) fn note(at: At, event: &Event) -> Option<Block> {
    let told = tasks::told(event).or_else(|| stop_decisions::told(event)).or_else(|| pipelines::told(event));
    if let Some((tone, head)) = told {
        return Some(toned(at, tone, head));
    }
    let line = |head: String, role| Some(block(Kind::Note, at, head, role));
    let wrong = |head: String| Some(Block { error: true, ..block(Kind::Note, at, head, Role::Bad) });
    let short = |text: &str| first_line(&plain(text), 300);
    match event {
        Event::SessionStarted(began) => {
            Some(block(Kind::Session, at, format!("session started · agent {}", short(&began.agent)), Role::Heading))
        }
        Event::SessionResumed { cut, paused, .. } => {
            Some(block(Kind::Session, at, resumed(cut, *paused), Role::Heading))
        }
        Event::IterationStarted { iteration } => {
            Some(block(Kind::Iteration, at, format!("━━ iteration {iteration} "), Role::Heading))
        }
        Event::IterationCompleted { iteration, outcome } => Some(iteration_ended(at, *iteration, *outcome)),
        Event::TurnEnded { stop_reason, spent, .. } => turn_ended(at, *stop_reason, *spent),
        Event::TurnFailed { error, spent, .. } => {
            wrong(format!("✗ turn failed: {}{}", short(error), Used::from(*spent).suffix()))
        }
        Event::ConversationOpened { conversation, .. } => {
            line(format!("· conversation {}", short(conversation)), Role::Faint)
        }
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
        Event::LimitReached(reached) => line(format!("◷ {}", limit_reached(reached)), Role::Warning),
        Event::AgentSwitched { from, to, reason, .. } => {
            line(format!("⇄ {} takes over from {}: {}", short(to), short(from), short(reason)), Role::Warning)
        }
        Event::WaitSkipped { by } => line(format!("◷ the wait ends now, by {by}"), Role::Faint),
        Event::BackoffStarted { wait_ms, .. } => line(format!("waits {wait_ms}"), Role::Faint),
        Event::GateOpened { gate, reason, about, .. } if *about != About::Permission => {
            line(format!("◆ gate {gate}: {}", short(reason)), Role::Gate)
        }
        Event::GateAnswered { gate, choice, by, .. } => {
            line(format!("◆ gate {gate}: {} by {}", choice.name(), by), Role::Gate)
        }
        Event::HookDisabled { point, hook, .. } => {
            line(format!("hook {} at {point} is off", short(hook)), Role::Warning)
        }
        Event::HookEnabled { point, hook, .. } => line(format!("hook {} at {point} is on", short(hook)), Role::Accent),
        Event::HookError { data, .. } => wrong(format!("! hook {}: {}", short(&data.hook_name), short(&data.error))),
        Event::Paused { turn: Some(_), .. } => {
            line("paused: the turn was cancelled; a message replaces it, unpause sends it again".into(), Role::Warning)
        }
        Event::Paused { turn: None, .. } => line("paused".into(), Role::Warning),
        Event::Unpaused { .. } => line("goes on".into(), Role::Accent),
        Event::MessageQueued { text, .. } => line(format!("message: {}", short(text)), Role::Accent),
        Event::StopRequested { .. } => line("stopping".into(), Role::Warning),
        Event::Warning { text } => line(format!("! {}", short(text)), Role::Warning),
        Event::SessionEnded { outcome, reason, .. } => {
            let role = if *outcome == Outcome::Complete { Role::Good } else { Role::Warning };
            Some(block(Kind::Session, at, format!("session {}: {}", outcome.name(), short(reason)), role))
        }
        // What the agent asks leave for stands there already.
        Event::GateOpened { .. }
        | Event::PermissionAsked { .. }
        | Event::AgentPlanned { .. }
        | Event::AgentUsed { .. }
        | Event::AgentNoted { .. }
        | Event::HooksDue { .. }
        | Event::HookRequested { .. }
        | Event::HookStarted { .. }
        | Event::HookFinished(_)
        | Event::PromptSent(_)
        | Event::AgentSaid { .. }
        | Event::AgentThought { .. }
        | Event::ToolCalled { .. }
        | Event::ToolUpdated { .. }
        | Event::TaskCreated(_)
        | Event::TaskStarted(_)
        | Event::TaskCompleted(_)
        | Event::TaskBlocked(_)
        | Event::TaskDeleted(_)
        | Event::TaskUpdated(_)
        | Event::DependencyAdded(_)
        | Event::DependencyRemoved(_)
        | Event::DependencySatisfied(_)
        | Event::AgentMetrics(_)
        | Event::Custom(_)
        | Event::ActionError(_)
        | Event::AutomationDue { .. }
        | Event::AutomationDecided { .. }
        | Event::WorkflowStarted(_)
        | Event::WorkflowStepStarted { .. }
        | Event::WorkflowStepEnded(_)
        | Event::WorkflowEnded { .. }
        | Event::RulesDue { .. }
        | Event::RuleStarted { .. }
        | Event::RuleChecked { .. }
        | Event::StopDecided(_)
        | Event::Checkpoint(_)
        | Event::StopHookRegistered { .. }
        | Event::StopHooksCleared { .. }
        | Event::AgentLoopStarted { .. }
        | Event::AgentLoopAdvanced { .. }
        | Event::JudgementAsked { .. }
        | Event::AgentLoopEnded { .. }
        | Event::CompletionPromised { .. }
        | Event::PipelineRequested { .. }
        | Event::PipelineStarted { .. }
        | Event::RemediationCounted { .. }
        | Event::ReviewStarted { .. }
        | Event::Reviewed { .. }
        | Event::PipelineEnded { .. }
        | Event::ProcessStarted { .. }
        | Event::LoopEnded { .. }
        | Event::Unknown => None,
    }
}
