//! A record as a block of the stream: its first line, its style, and the text under it.

use super::{BlockBody, BlockKind, StreamBlock};
use crate::{
    engine::{
        conversation::{AgentPermissionRequest, PlanEntry, StopReason, ToolCall, ToolStatus, TurnUsage},
        event::{
            AutomationEvent, Event, GateEvent, HookEvent, HookFinished, IterationOutcome, PendingEvent, PipelineEvent,
            PromptReason, PromptSent, RetryEvent, SessionEvent, SessionOutcome, SteeringEvent, StopEvent, TaskEvent,
            TurnEvent, UsageLimitEvent, WorkflowEvent,
        },
        hooks::verdict::Verdict,
        session::gate::GateKind,
        time::{TimeSpan, UnixTime},
    },
    present::{
        permission_requests::{AnsweredPermission, PermissionOutcome},
        pipelines, stop_decisions,
        tasks::{self, LineTone},
        text::{counted, plain, plain_line, prompt_line},
        tool_calls,
        usage_limits::limit_reached,
        usage_totals::UsageTotals,
    },
    tui::{
        stream::block_text::{BlockText, BlockTextKind},
        theme::ThemeRole,
    },
};

pub(super) fn block(kind: BlockKind, at: UnixTime, head: String, role: ThemeRole) -> StreamBlock {
    let folded = matches!(kind, BlockKind::Tool | BlockKind::Request | BlockKind::Hook | BlockKind::Prompt);
    StreamBlock {
        kind,
        at,
        head,
        role,
        error: false,
        folded,
        body: BlockBody::None,
        spots: Vec::new(),
        turn: None,
        revision: 0,
    }
}

pub(super) fn finished_block(at: UnixTime, finished: &HookFinished) -> StreamBlock {
    let HookFinished { point, hook, end, took_ms, verdict, piped, .. } = finished;
    let (sign, role, said) = match verdict {
        Verdict::Pass => ("✓", ThemeRole::Good, "passed"),
        Verdict::Block => ("✗", ThemeRole::Bad, "blocked"),
        Verdict::Fail => ("!", ThemeRole::Warning, "failed"),
    };
    let piped = if *piped { " · piped" } else { "" };
    let head = format!("{sign} {point}: {} {said} · {} · {took_ms}{piped}", plain_line(hook, 80), end.describe());
    let failed = *verdict != Verdict::Pass;
    StreamBlock { error: failed, folded: *verdict == Verdict::Pass, ..block(BlockKind::Hook, at, head, role) }
}

fn output(finished: &HookFinished) -> String {
    let parts = [&finished.stdout, &finished.stderr].into_iter().filter(|text| !text.trim().is_empty());
    parts.map(|text| text.trim_end()).collect::<Vec<_>>().join("\n")
}

pub(super) fn prompt_block(at: UnixTime, prompt: &PromptSent) -> StreamBlock {
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
    block(BlockKind::Prompt, at, head, ThemeRole::Accent)
}

/// A tool call: its status, what it does with which files, how long it took.
pub(super) fn tool_block(at: UnixTime, call: &ToolCall, project: &str, took: Option<TimeSpan>) -> StreamBlock {
    let (sign, role) = match call.status {
        ToolStatus::Pending | ToolStatus::InProgress => ("⚙", ThemeRole::Accent),
        ToolStatus::Completed => ("✓", ThemeRole::Good),
        ToolStatus::Failed => ("✗", ThemeRole::Bad),
    };
    let took = took.map(|took| format!(" · {took}")).unwrap_or_default();
    let head = format!("{sign} {}{took}", tool_calls::line(call, project));
    StreamBlock { error: call.status == ToolStatus::Failed, ..block(BlockKind::Tool, at, head, role) }
}

/// The changes, the arguments and the output of a tool call.
fn tool_parts(call: &ToolCall) -> Vec<BlockText> {
    let part =
        |look, text: Option<String>| text.filter(|text| !text.trim().is_empty()).map(|text| BlockText { look, text });
    let parts = [
        part(BlockTextKind::Change, call.diff.clone()),
        part(BlockTextKind::Arguments, call.input.as_deref().map(tool_calls::arguments)),
        part(BlockTextKind::Output, call.output.clone()),
    ];
    parts.into_iter().flatten().collect()
}

/// A permission request of the agent.
pub(super) fn request_block(at: UnixTime, ask: &AgentPermissionRequest, project: &str) -> StreamBlock {
    block(BlockKind::Request, at, format!("? asks: {}", tool_calls::line(&ask.tool, project)), ThemeRole::Gate)
}

pub(super) fn answer_block(at: UnixTime, told: &AnsweredPermission) -> StreamBlock {
    let role = match told.leave {
        PermissionOutcome::Given => ThemeRole::Good,
        PermissionOutcome::Refused => ThemeRole::Warning,
        PermissionOutcome::Unsaid => ThemeRole::Faint,
    };
    block(BlockKind::Note, at, told.words.clone(), role)
}

pub(super) fn plan_block(at: UnixTime, entries: &[PlanEntry]) -> StreamBlock {
    block(BlockKind::Plan, at, tool_calls::plan_line(entries), ThemeRole::Accent)
}

/// A note of the agent about itself. A text longer than a line is folded.
pub(super) fn noted_block(at: UnixTime, what: &str, text: &str) -> StreamBlock {
    let head = format!("· {}: {}", plain_line(what, 60), plain_line(text, NOTED));
    StreamBlock { folded: true, ..block(BlockKind::Note, at, head, ThemeRole::Faint) }
}

/// How many characters of a note fit into its first line.
const NOTED: usize = 80;

/// The text of a block, from its record.
#[expect(clippy::wildcard_enum_match_arm, reason = "the other records say all in their first line")]
pub(super) fn body_of(event: &Event) -> Vec<BlockText> {
    let words = |text: &str| BlockText::words(text);
    let parts = match event {
        Event::Turn(TurnEvent::AgentSaid { text, .. } | TurnEvent::AgentThought { text, .. }) => {
            vec![words(text)]
        }
        Event::Turn(TurnEvent::ToolCalled { tool, .. } | TurnEvent::ToolUpdated { tool, .. }) => tool_parts(tool),
        Event::Turn(TurnEvent::PermissionAsked { ask, .. }) => tool_parts(&ask.tool),
        Event::Turn(TurnEvent::AgentPlanned { entries, .. }) => {
            let lines = entries.iter().map(tool_calls::plan_entry).collect::<Vec<_>>().join("\n");
            vec![BlockText { look: BlockTextKind::Plan, text: lines }]
        }
        Event::Turn(TurnEvent::AgentNoted { text, .. }) => {
            let more = text.trim().contains('\n') || text.trim().chars().count() > NOTED;
            more.then(|| words(text)).into_iter().collect()
        }
        Event::Hook(HookEvent::Finished(finished)) => vec![words(&output(finished))],
        Event::Turn(TurnEvent::PromptSent(prompt)) => vec![words(&prompt.text)],
        _ => Vec::new(),
    };
    parts.into_iter().filter(|part| !part.text.is_empty()).collect()
}

/// How a turn ended. None for an ordinary end without usage figures.
fn turn_ended(at: UnixTime, stop_reason: StopReason, spent: TurnUsage) -> Option<StreamBlock> {
    let used = UsageTotals::from(spent);
    let (why, role) = match stop_reason {
        StopReason::EndTurn => {
            return used
                .words()
                .map(|used| block(BlockKind::Note, at, format!("turn ended · {used}"), ThemeRole::Faint));
        }
        StopReason::MaxTokens => ("at its token limit", ThemeRole::Warning),
        StopReason::MaxTurnRequests => ("at its request limit", ThemeRole::Warning),
        StopReason::Refusal => ("the agent refused", ThemeRole::Warning),
        StopReason::Cancelled => ("cancelled", ThemeRole::Warning),
    };
    Some(block(BlockKind::Note, at, format!("turn ended: {why}{}", used.suffix()), role))
}

fn resumed(cut: &[String], paused: bool) -> String {
    let paused = if paused { " · still paused" } else { "" };
    match cut {
        [] => format!("session resumed{paused}"),
        cut => format!("session resumed{paused} · done again: {}", plain_line(&cut.join(", "), 300)),
    }
}

fn iteration_ended(at: UnixTime, iteration: u32, outcome: IterationOutcome) -> StreamBlock {
    let (head, role, error) = match outcome {
        IterationOutcome::Done => (format!("✓ iteration {iteration} done"), ThemeRole::Good, false),
        IterationOutcome::Failed => (format!("✗ iteration {iteration} failed"), ThemeRole::Bad, true),
        IterationOutcome::Forced => {
            (format!("! iteration {iteration} forced at the retry limit"), ThemeRole::Warning, false)
        }
    };
    StreamBlock { error, ..block(BlockKind::Note, at, head, role) }
}

fn toned(at: UnixTime, tone: LineTone, head: String) -> StreamBlock {
    let (role, error) = match tone {
        LineTone::Plain => (ThemeRole::Accent, false),
        LineTone::Good => (ThemeRole::Good, false),
        LineTone::Warning => (ThemeRole::Warning, true),
        LineTone::Faint => (ThemeRole::Faint, false),
    };
    StreamBlock { error, ..block(BlockKind::Note, at, head, role) }
}

/// The block of a record that needs only one line.
#[expect(clippy::too_many_lines, reason = "an arm for each kind of record: split, a new kind could be forgotten")]
pub(super) fn note(at: UnixTime, event: &Event) -> Option<StreamBlock> {
    let told = tasks::told(event).or_else(|| stop_decisions::told(event)).or_else(|| pipelines::told(event));
    if let Some((tone, head)) = told {
        return Some(toned(at, tone, head));
    }
    let line = |head: String, role| Some(block(BlockKind::Note, at, head, role));
    let wrong = |head: String| Some(StreamBlock { error: true, ..block(BlockKind::Note, at, head, ThemeRole::Bad) });
    let short = |text: &str| plain_line(text, 300);
    match event {
        Event::Session(SessionEvent::Started(began)) => Some(block(
            BlockKind::Session,
            at,
            format!("session started · agent {}", short(&began.agent)),
            ThemeRole::Heading,
        )),
        Event::Session(SessionEvent::Resumed { cut, paused, .. }) => {
            Some(block(BlockKind::Session, at, resumed(cut, *paused), ThemeRole::Heading))
        }
        Event::Session(SessionEvent::IterationStarted { iteration }) => {
            Some(block(BlockKind::Iteration, at, format!("━━ iteration {iteration} "), ThemeRole::Heading))
        }
        Event::Session(SessionEvent::IterationCompleted { iteration, outcome }) => {
            Some(iteration_ended(at, *iteration, *outcome))
        }
        Event::Turn(TurnEvent::Ended { stop_reason, spent, .. }) => turn_ended(at, *stop_reason, *spent),
        Event::Turn(TurnEvent::Failed { error, spent, .. }) => {
            wrong(format!("✗ turn failed: {}{}", short(error), UsageTotals::from(*spent).suffix()))
        }
        Event::Turn(TurnEvent::ConversationOpened { conversation, .. }) => {
            line(format!("· conversation {}", short(conversation)), ThemeRole::Faint)
        }
        Event::Pending(PendingEvent::Delivered { items }) => {
            let ids = items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            line(format!("✓ delivered: item {ids}"), ThemeRole::Good)
        }
        Event::Pending(PendingEvent::Added { item, hook, bytes, .. }) => {
            line(format!("+ held: item {item} of {}, {}", short(hook), counted(*bytes, "byte")), ThemeRole::Faint)
        }
        Event::Pending(PendingEvent::Skipped { item, .. }) => {
            line(format!("- item {item} is skipped"), ThemeRole::Faint)
        }
        Event::Pending(PendingEvent::Restored { item, .. }) => line(format!("+ item {item} is back"), ThemeRole::Faint),
        Event::Pending(PendingEvent::Edited { item, .. }) => {
            line(format!("~ item {item} was edited"), ThemeRole::Faint)
        }
        Event::Retry(RetryEvent::Counted { used, limit, reason, no_progress, .. }) => {
            let same = if *no_progress { " · no progress" } else { "" };
            line(format!("↻ retry {used}/{limit}{same}: {}", short(reason)), ThemeRole::Warning)
        }
        Event::Retry(RetryEvent::LimitReached { used, limit, hook }) => {
            wrong(format!("↻ retry limit {used}/{limit} reached by {}", short(hook)))
        }
        Event::UsageLimit(UsageLimitEvent::Reached(reached)) => {
            line(format!("◷ {}", limit_reached(reached)), ThemeRole::Warning)
        }
        Event::UsageLimit(UsageLimitEvent::AgentSwitched { from, to, reason, .. }) => {
            line(format!("⇄ {} takes over from {}: {}", short(to), short(from), short(reason)), ThemeRole::Warning)
        }
        Event::UsageLimit(UsageLimitEvent::WaitSkipped { by }) => {
            line(format!("◷ the wait ends now, by {by}"), ThemeRole::Faint)
        }
        Event::Retry(RetryEvent::BackoffStarted { wait_ms, .. }) => line(format!("waits {wait_ms}"), ThemeRole::Faint),
        Event::Gate(GateEvent::Opened { gate, reason, about, .. }) if *about != GateKind::Permission => {
            line(format!("◆ gate {gate}: {}", short(reason)), ThemeRole::Gate)
        }
        Event::Gate(GateEvent::Answered { gate, choice, by, .. }) => {
            line(format!("◆ gate {gate}: {} by {}", choice.name(), by), ThemeRole::Gate)
        }
        Event::Hook(HookEvent::Disabled { point, hook, .. }) => {
            line(format!("hook {} at {point} is off", short(hook)), ThemeRole::Warning)
        }
        Event::Hook(HookEvent::Enabled { point, hook, .. }) => {
            line(format!("hook {} at {point} is on", short(hook)), ThemeRole::Accent)
        }
        Event::Automation(AutomationEvent::HookError { data, .. }) => {
            wrong(format!("! hook {}: {}", short(&data.hook_name), short(&data.error)))
        }
        Event::Steering(SteeringEvent::Paused { turn: Some(_), .. }) => line(
            "paused: the turn was cancelled; a message replaces it, unpause sends it again".into(),
            ThemeRole::Warning,
        ),
        Event::Steering(SteeringEvent::Paused { turn: None, .. }) => line("paused".into(), ThemeRole::Warning),
        Event::Steering(SteeringEvent::Unpaused { .. }) => line("goes on".into(), ThemeRole::Accent),
        Event::Steering(SteeringEvent::MessageQueued { text, .. }) => {
            line(format!("message: {}", short(text)), ThemeRole::Accent)
        }
        Event::Steering(SteeringEvent::StopRequested { .. }) => line("stopping".into(), ThemeRole::Warning),
        Event::Session(SessionEvent::Warning { text }) => line(format!("! {}", short(text)), ThemeRole::Warning),
        Event::Session(SessionEvent::Ended { outcome, reason, .. }) => {
            let role = if *outcome == SessionOutcome::Complete { ThemeRole::Good } else { ThemeRole::Warning };
            Some(block(BlockKind::Session, at, format!("session {}: {}", outcome.name(), short(reason)), role))
        }
        // What the agent asks leave for stands there already.
        Event::Gate(GateEvent::Opened { .. })
        | Event::Turn(
            TurnEvent::PermissionAsked { .. }
            | TurnEvent::AgentPlanned { .. }
            | TurnEvent::AgentUsed { .. }
            | TurnEvent::AgentNoted { .. }
            | TurnEvent::PromptSent(_)
            | TurnEvent::AgentSaid { .. }
            | TurnEvent::AgentThought { .. }
            | TurnEvent::ToolCalled { .. }
            | TurnEvent::ToolUpdated { .. },
        )
        | Event::Hook(
            HookEvent::Due { .. } | HookEvent::Requested { .. } | HookEvent::Started { .. } | HookEvent::Finished(_),
        )
        | Event::Task(
            TaskEvent::Created(_)
            | TaskEvent::Started(_)
            | TaskEvent::Completed(_)
            | TaskEvent::Blocked(_)
            | TaskEvent::Deleted(_)
            | TaskEvent::Updated(_)
            | TaskEvent::DependencyAdded(_)
            | TaskEvent::DependencyRemoved(_)
            | TaskEvent::DependencySatisfied(_)
            | TaskEvent::AgentMetrics(_)
            | TaskEvent::Custom(_)
            | TaskEvent::ActionError(_),
        )
        | Event::Automation(AutomationEvent::Due { .. } | AutomationEvent::Decided { .. })
        | Event::Workflow(
            WorkflowEvent::Started(_)
            | WorkflowEvent::StepStarted { .. }
            | WorkflowEvent::StepEnded(_)
            | WorkflowEvent::Ended { .. },
        )
        | Event::Stop(
            StopEvent::RulesDue { .. }
            | StopEvent::RuleStarted { .. }
            | StopEvent::RuleChecked { .. }
            | StopEvent::Decided(_)
            | StopEvent::CheckpointKept(_)
            | StopEvent::HookRegistered { .. }
            | StopEvent::HooksCleared { .. }
            | StopEvent::LoopStarted { .. }
            | StopEvent::LoopAdvanced { .. }
            | StopEvent::JudgementAsked { .. }
            | StopEvent::LoopEnded { .. }
            | StopEvent::CompletionPromised { .. },
        )
        | Event::Pipeline(
            PipelineEvent::Requested { .. }
            | PipelineEvent::Started { .. }
            | PipelineEvent::RemediationCounted { .. }
            | PipelineEvent::ReviewStarted { .. }
            | PipelineEvent::Reviewed { .. }
            | PipelineEvent::Ended { .. },
        )
        | Event::Session(SessionEvent::ProcessStarted { .. } | SessionEvent::LoopEnded { .. })
        | Event::Unknown => None,
    }
}
