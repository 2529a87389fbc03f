//! Formats records as lines for people: for sessions without a screen, and for `creel show`.

use std::collections::HashMap;

use crate::{
    engine::{
        conversation::{AgentPermissionRequest, PlanEntry, StopReason, ToolCall, ToolStatus},
        event::{
            AutomationEvent, Event, GateEvent, HookEvent, HookFinished, IterationOutcome, PendingEvent, PipelineEvent,
            PromptReason, PromptSent, RetryEvent, SessionEvent, SessionOutcome, SteeringEvent, StopEvent, TaskEvent,
            TurnEvent, UsageLimitEvent, WorkflowEvent,
        },
        hooks::verdict::{RunEnd, Verdict},
        ids::RunId,
        session::gate::GateKind,
        time::TimeSpan,
        wording::counted,
    },
    journal::Record,
    present::{
        permission_requests::{PermissionOutcome, TurnPermissions},
        pipelines, stop_decisions,
        style::{ColourMode, TextRole},
        tasks::{self, LineTone},
        text::{plain, plain_line, prompt_line},
        tool_calls,
        usage_limits::limit_reached,
        usage_totals::UsageTotals,
    },
    runtime::HookOutputChunk,
};

/// The longest prompt or reason in a line, in characters.
const LINE: usize = 100;

/// How many bytes of a run's live output are shown.
const SHOWN: usize = 64 << 10;

/// Whether the formatter prints the output of hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookOutputMode {
    /// No: it was already printed live.
    Shown,
    Told,
}

/// Formats a session, record by record.
#[derive(Debug)]
pub struct RecordFormatter {
    paint: ColourMode,
    output: HookOutputMode,
    /// Whether the agent's text ended in the middle of a line.
    speaking: bool,
    heard: HashMap<RunId, HookLineBuffer>,
    /// The project's folder.
    project: String,
    iteration: UsageTotals,
    total: UsageTotals,
    /// The agent's permission requests.
    requests: TurnPermissions,
    /// The entries of the plan when it was last printed in full.
    plan: Vec<String>,
}

/// The live output of a run.
#[derive(Debug, Default)]
struct HookLineBuffer {
    /// The line that has no end yet.
    partial: Vec<u8>,
    /// How many bytes were shown.
    shown: usize,
}

impl RecordFormatter {
    pub fn new(paint: ColourMode, output: HookOutputMode) -> Self {
        Self {
            paint,
            output,
            speaking: false,
            heard: HashMap::new(),
            project: String::new(),
            iteration: UsageTotals::default(),
            total: UsageTotals::default(),
            requests: TurnPermissions::default(),
            plan: Vec::new(),
        }
    }

    /// The lines for a record. Empty for records that only programs need.
    pub fn tell(&mut self, record: &Record) -> String {
        if let Event::Turn(TurnEvent::AgentSaid { text, .. }) = &record.event {
            return self.speak(text);
        }
        let ended =
            if let Event::Hook(HookEvent::Finished(finished)) = &record.event { Some(finished.run) } else { None };
        let heard = ended.map(|run| self.hear_out(run)).unwrap_or_default();
        let line = self.line(&record.event);
        self.follow(&record.event);
        let Some(line) = line else { return String::new() };
        let newline = if std::mem::take(&mut self.speaking) { "\n" } else { "" };
        format!("{heard}{newline}{line}\n")
    }

    /// Processes an event without formatting it.
    pub fn follow(&mut self, event: &Event) {
        self.requests.follow(event);
        if let Event::Session(SessionEvent::Started(began)) = event {
            self.project.clone_from(&began.cwd);
        } else if let Event::Session(SessionEvent::IterationStarted { .. }) = event {
            self.iteration = UsageTotals::default();
        } else if let Event::Turn(TurnEvent::Ended { spent, .. } | TurnEvent::Failed { spent, .. }) = event {
            self.iteration.add(*spent);
            self.total.add(*spent);
        } else if let Event::Turn(TurnEvent::AgentPlanned { entries, .. }) = event {
            self.plan = entries.iter().map(|entry| entry.content.clone()).collect();
        }
    }

    /// Formats live output of a hook: whole lines, up to a limit.
    pub fn overhear(&mut self, live: &HookOutputChunk) -> String {
        let heard = self.heard.entry(live.run).or_default();
        if heard.shown > SHOWN {
            return String::new();
        }
        heard.partial.extend_from_slice(&live.bytes);
        let whole = heard.partial.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let lines: Vec<u8> = heard.partial.drain(..whole).collect();
        heard.shown += lines.len() + if heard.partial.len() > SHOWN { SHOWN } else { 0 };
        let too_much = heard.shown > SHOWN;
        let text = String::from_utf8_lossy(&lines[..lines.len().min(SHOWN)]).into_owned();
        let mut out = if lines.is_empty() { String::new() } else { self.quoted_at_line_start(&text) };
        if live.gap {
            out += &self.quoted_at_line_start("… it prints faster than this can be shown");
        }
        if too_much {
            out += &self.quoted_at_line_start("… there is more; `creel show` has its end, its output file has all");
        }
        out
    }

    /// The last line of a hook, if it had no newline.
    fn hear_out(&mut self, run: RunId) -> String {
        let rest = self.heard.remove(&run).map(|heard| heard.partial).unwrap_or_default();
        if rest.is_empty() || rest.len() > SHOWN {
            return String::new();
        }
        self.quoted_at_line_start(&String::from_utf8_lossy(&rest))
    }

    fn quoted_at_line_start(&mut self, text: &str) -> String {
        let newline = if std::mem::take(&mut self.speaking) { "\n" } else { "" };
        format!("{newline}{}", self.quoted(text))
    }

    fn speak(&mut self, text: &str) -> String {
        let mut out = String::new();
        for piece in plain(text).split_inclusive('\n') {
            if !self.speaking {
                out.push_str("  ");
            }
            out.push_str(piece);
            self.speaking = !piece.ends_with('\n');
        }
        out
    }

    fn quoted(&self, text: &str) -> String {
        plain(text).lines().map(|line| self.paint.paint(TextRole::Faint, format!("    │ {line}")) + "\n").collect()
    }

    #[expect(clippy::too_many_lines, reason = "an arm for each kind of record: split, a new kind could be forgotten")]
    fn line(&self, event: &Event) -> Option<String> {
        let paint = self.paint;
        let told = tasks::told(event).or_else(|| stop_decisions::told(event)).or_else(|| pipelines::told(event));
        if let Some((tone, line)) = told {
            return Some(self.toned(tone, format!("  {line}")));
        }
        Some(match event {
            Event::Session(SessionEvent::Started(began)) => paint.paint(
                TextRole::Heading,
                format!(
                    "session started · agent {} · up to {}",
                    plain(&began.agent),
                    counted(began.max_iterations, "iteration")
                ),
            ),
            Event::Session(SessionEvent::Resumed { cut, paused, .. }) => {
                let cut =
                    if cut.is_empty() { String::new() } else { format!(" · done again: {}", plain(&cut.join(", "))) };
                let paused = if *paused { " · still paused: `creel unpause` continues it" } else { "" };
                paint.paint(TextRole::Heading, format!("session resumed{cut}{paused}"))
            }
            Event::Session(SessionEvent::IterationStarted { iteration }) => {
                paint.paint(TextRole::Heading, format!("── iteration {iteration} ──"))
            }
            Event::Session(SessionEvent::IterationCompleted { iteration, outcome }) => {
                self.iteration(*iteration, *outcome)
            }
            Event::Hook(HookEvent::Started { point, hook, .. }) => {
                paint.paint(TextRole::Faint, format!("  ▸ {point}: {}", plain_line(hook, LINE)))
            }
            Event::Hook(HookEvent::Finished(finished)) => self.hook(finished),
            Event::Hook(HookEvent::Disabled { point, hook, .. }) => {
                format!("  hook `{}` at {point} is off for this session", plain(hook))
            }
            Event::Hook(HookEvent::Enabled { point, hook, .. }) => {
                format!("  hook `{}` at {point} is on again", plain(hook))
            }
            Event::Pending(PendingEvent::Added { item, hook, bytes, .. }) => {
                format!("  held: item {item} of `{}`, {}", plain(hook), counted(*bytes, "byte"))
            }
            Event::Pending(PendingEvent::Skipped { item, .. }) => format!("  item {item} will not be delivered"),
            Event::Pending(PendingEvent::Restored { item, .. }) => format!("  item {item} will be delivered after all"),
            Event::Pending(PendingEvent::Edited { item, .. }) => format!("  item {item} was edited"),
            Event::Turn(TurnEvent::PromptSent(prompt)) => self.prompt(prompt),
            Event::Turn(TurnEvent::ToolCalled { tool, .. }) => self.tool(tool),
            Event::Turn(TurnEvent::ToolUpdated { tool, .. }) if tool.status == ToolStatus::Failed => self.tool(tool),
            Event::Turn(TurnEvent::AgentPlanned { entries, .. }) => self.planned(entries),
            Event::Turn(TurnEvent::AgentNoted { what, text, .. }) => {
                let said = plain_line(text, LINE);
                paint.paint(TextRole::Faint, format!("  · {}: {said}", plain_line(what, LINE)))
            }
            Event::Turn(TurnEvent::PermissionAsked { ask, .. }) => self.asked(ask),
            Event::Turn(TurnEvent::Ended { stop_reason, .. }) => {
                paint.paint(TextRole::Warning, cut_short(*stop_reason)?)
            }
            Event::Turn(TurnEvent::Failed { error, .. }) => {
                paint.paint(TextRole::Bad, format!("  ✗ turn failed: {}", plain(error).trim_end()))
            }
            Event::Pending(PendingEvent::Delivered { items }) => {
                let ids = items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                paint.paint(TextRole::Good, format!("  ✓ delivered: item {ids}"))
            }
            Event::Retry(RetryEvent::Counted { used, limit, reason, no_progress, .. }) => {
                paint.paint(TextRole::Warning, retry(*used, *limit, reason, *no_progress))
            }
            Event::Retry(RetryEvent::LimitReached { used, limit, hook }) => {
                paint.paint(TextRole::Bad, format!("  ↻ retry limit reached ({used}/{limit}) by `{}`", plain(hook)))
            }
            Event::UsageLimit(UsageLimitEvent::Reached(reached)) => {
                paint.paint(TextRole::Warning, format!("  ◷ {}", limit_reached(reached)))
            }
            Event::UsageLimit(UsageLimitEvent::AgentSwitched { from, to, reason, .. }) => {
                let (from, to, reason) = (plain(from), plain(to), plain(reason));
                paint.paint(TextRole::Warning, format!("  ⇄ `{to}` takes over from `{from}`: {reason}"))
            }
            Event::UsageLimit(UsageLimitEvent::WaitSkipped { by }) => format!("  ◷ the wait ends now (by {by})"),
            Event::Retry(RetryEvent::BackoffStarted { wait_ms, .. }) => format!("  waits {wait_ms}"),
            Event::Gate(GateEvent::Opened { gate, reason, about, .. }) if *about != GateKind::Permission => {
                paint.paint(TextRole::Warning, format!("  ◆ gate {gate}: {}", plain_line(reason, LINE)))
            }
            Event::Gate(GateEvent::Answered { gate, choice, by, .. }) => {
                self.permitted(event).unwrap_or_else(|| format!("  ◆ gate {gate}: {} (by {})", choice.name(), by))
            }
            Event::Automation(AutomationEvent::HookError { data, .. }) => {
                paint.paint(TextRole::Warning, format!("  ! hook `{}`: {}", plain(&data.hook_name), plain(&data.error)))
            }
            Event::Steering(SteeringEvent::Paused { turn: Some(turn), .. }) => format!(
                "  paused: turn {turn} was cancelled; `creel message TEXT` replaces it, `creel unpause` sends it again"
            ),
            Event::Steering(SteeringEvent::Paused { turn: None, .. }) => "  paused".into(),
            Event::Steering(SteeringEvent::Unpaused { .. }) => "  goes on".into(),
            Event::Steering(SteeringEvent::MessageQueued { text, .. }) => {
                format!("  message for the agent: {}", plain_line(text, LINE))
            }
            Event::Steering(SteeringEvent::StopRequested { .. }) => paint.paint(TextRole::Warning, "  stopping"),
            Event::Session(SessionEvent::Warning { text }) => {
                paint.paint(TextRole::Warning, format!("  ! {}", plain(text)))
            }
            Event::Session(SessionEvent::Ended { outcome, iterations, reason }) => {
                self.ended(*outcome, *iterations, reason)
            }
            // What the agent asks leave for was told when it asked.
            Event::Gate(GateEvent::Opened { .. })
            | Event::Hook(HookEvent::Due { .. } | HookEvent::Requested { .. })
            | Event::Turn(
                TurnEvent::AgentSaid { .. }
                | TurnEvent::AgentThought { .. }
                | TurnEvent::AgentUsed { .. }
                | TurnEvent::ConversationOpened { .. }
                | TurnEvent::ToolUpdated { .. },
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
            | Event::Unknown => return None,
        })
    }

    fn toned(&self, tone: LineTone, line: String) -> String {
        match tone {
            LineTone::Plain => line,
            LineTone::Good => self.paint.paint(TextRole::Good, line),
            LineTone::Warning => self.paint.paint(TextRole::Warning, line),
            LineTone::Faint => self.paint.paint(TextRole::Faint, line),
        }
    }

    fn tool(&self, call: &ToolCall) -> String {
        let (role, failed) =
            if call.status == ToolStatus::Failed { (TextRole::Bad, " · failed") } else { (TextRole::Faint, "") };
        self.paint.paint(role, format!("  ⚙ {}{failed}", tool_calls::line(call, &self.project)))
    }

    /// The agent sends the plan again whenever an entry is done. It is printed in full only if its entries have
    /// changed.
    fn planned(&self, entries: &[PlanEntry]) -> String {
        let head = self.paint.paint(TextRole::Faint, format!("  {}", tool_calls::plan_line(entries)));
        if entries.iter().map(|entry| &entry.content).eq(&self.plan) {
            return head;
        }
        let entry = |entry| {
            format!("\n{}", self.paint.paint(TextRole::Faint, format!("    {}", tool_calls::plan_entry(entry))))
        };
        head + &entries.iter().map(entry).collect::<String>()
    }

    fn asked(&self, ask: &AgentPermissionRequest) -> String {
        self.paint.paint(TextRole::Warning, format!("  ? asks: {}", tool_calls::line(&ask.tool, &self.project)))
    }

    /// The answer to the agent's permission request, if the gate was about one.
    fn permitted(&self, event: &Event) -> Option<String> {
        let told = self.requests.tell(event)?;
        let role = match told.leave {
            PermissionOutcome::Given => TextRole::Good,
            PermissionOutcome::Refused => TextRole::Warning,
            PermissionOutcome::Unsaid => TextRole::Faint,
        };
        Some(self.paint.paint(role, format!("  {}", told.words)))
    }

    fn iteration(&self, iteration: u32, outcome: IterationOutcome) -> String {
        let used = self.iteration.suffix();
        let (role, said) = match outcome {
            IterationOutcome::Done => (TextRole::Good, format!("  ✓ iteration {iteration} done{used}")),
            IterationOutcome::Failed => (TextRole::Bad, format!("  ✗ iteration {iteration} failed{used}")),
            IterationOutcome::Forced => (TextRole::Warning, format!("  ! iteration {iteration} forced{used}")),
        };
        self.paint.paint(role, said)
    }

    fn hook(&self, finished: &HookFinished) -> String {
        let HookFinished { point, hook, end, took_ms, verdict, .. } = finished;
        let (sign, role) = match verdict {
            Verdict::Pass => ("✓", TextRole::Good),
            Verdict::Block => ("✗", TextRole::Bad),
            Verdict::Fail => ("!", TextRole::Warning),
        };
        let said = match verdict {
            Verdict::Pass => "passed",
            Verdict::Block => "blocked",
            Verdict::Fail if *end == RunEnd::Cut => "was cut",
            Verdict::Fail => "failed",
        };
        let took = if *end == RunEnd::Cut { TimeSpan::default() } else { *took_ms };
        let head = format!("  {sign} {point}: {} {said} · {} · {took}", plain_line(hook, LINE), end.describe());
        let mut lines = self.paint.paint(role, head);
        if self.output == HookOutputMode::Told {
            for text in [&finished.stdout, &finished.stderr].into_iter().filter(|text| !text.trim().is_empty()) {
                lines.push('\n');
                lines.push_str(self.quoted(text).trim_end());
            }
        }
        lines
    }

    fn prompt(&self, prompt: &PromptSent) -> String {
        let reason = match prompt.reason {
            PromptReason::Iteration => "prompt",
            PromptReason::Feedback => "feedback",
            PromptReason::Recovery => "recovery prompt",
            PromptReason::FinalDelivery => "final delivery",
            PromptReason::Message => "message",
            PromptReason::Remediation => "remediation",
            PromptReason::Gatekeeper => "review",
        };
        let whose = prompt.agent.as_ref().map(|agent| format!(" by {}", plain(agent))).unwrap_or_default();
        let items = match prompt.items.len() {
            0 => String::new(),
            1 => ", with 1 held item".into(),
            n => format!(", with {n} held items"),
        };
        let head = format!("  → {reason}{whose} ({} bytes{items}): {}", prompt.text.len(), prompt_line(prompt, LINE));
        self.paint.paint(TextRole::Faint, head)
    }

    fn ended(&self, outcome: SessionOutcome, count: u32, reason: &str) -> String {
        let role = if outcome == SessionOutcome::Complete { TextRole::Good } else { TextRole::Warning };
        let times = counted(count, "iteration");
        let reason = plain_line(reason, 300);
        let used = self.total.words().map(|used| format!("\n  used {used}")).unwrap_or_default();
        self.paint.paint(role, format!("session {} after {times}: {reason}{used}", outcome.name()))
    }
}

fn retry(used: u32, limit: u32, reason: &str, no_progress: bool) -> String {
    let same = if no_progress { " · no progress" } else { "" };
    format!("  ↻ retry {used}/{limit}{same}: {}", plain_line(reason, LINE))
}

/// Why a turn ended early, as text for the user.
const fn cut_short(reason: StopReason) -> Option<&'static str> {
    match reason {
        StopReason::EndTurn => None,
        StopReason::Cancelled => Some("  turn cancelled"),
        StopReason::MaxTokens => Some("  the agent ran into its token limit"),
        StopReason::MaxTurnRequests => Some("  the agent ran into its request limit"),
        StopReason::Refusal => Some("  the agent refused"),
    }
}
