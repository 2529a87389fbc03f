//! From records to spans: the session, its iterations, turns, tool calls, hooks and gates.
//!
//! Owns which records begin and end a span, and its attributes. They follow OpenTelemetry's
//! conventions for agents (`gen_ai.*`) where there are some, otherwise they begin with `creel.`.
//!
//! # Invariants
//! - A span is complete when it is returned, and it is returned once.
//! - What was running when creel was killed ends at the last record before, as an error: `cut`.
//!   Iterations and gates continue in the resumed session, and so do their spans.
//! - No attribute has a text of the user, the agent or a hook, except names.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use crate::{
    engine::{
        conversation::{ToolCall, ToolKind, ToolStatus, TurnUsage},
        event::{
            Event, GateEvent, HookEvent, IterationOutcome, PipelineEvent, PromptSent, SessionEvent,
            SessionOutcome, SessionStarted, StopEvent, TurnEvent, UsageLimitEvent,
        },
        hooks::{
            point::HookPoint,
            verdict::{RunEnd, Verdict},
        },
        ids::{GateId, RunId, TurnId},
        policy::{HookAction, SessionPlan},
        time::UnixTime,
    },
    journal::Record,
    process::trace_context::{SpanId, TraceContext, TracedWork},
};

/// Calls of tools that are open at once. An agent that never ends its calls has no more.
const OPEN_TOOLS: usize = 256;
/// Characters of a name in an attribute.
const NAME_MAX: usize = 120;
/// Why a span of a killed session ended.
const CUT: &str = "cut";

/// What happened in a session between two moments.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceSpan {
    pub work: TracedWork,
    pub id: SpanId,
    pub parent: Option<SpanId>,
    pub name: String,
    pub start: UnixTime,
    pub end: UnixTime,
    pub attributes: Vec<SpanAttribute>,
    /// None if it went well.
    pub error: Option<String>,
}

pub type SpanAttribute = (&'static str, Value);

/// The spans of one session that have begun and not ended.
#[derive(Debug)]
pub struct SessionTrace {
    context: TraceContext,
    /// Attributes of the session's span.
    about: Vec<SpanAttribute>,
    name: String,
    /// The session's own agent, and the model that its options name.
    own: (String, Option<String>),
    /// The agent that works now.
    agent: String,
    /// The commands of hooks, which are also the names of those without one.
    commands: BTreeSet<String>,
    /// The time of the last record.
    last: UnixTime,
    session: Option<TraceSpan>,
    /// How many spans of the session have begun.
    sessions: u64,
    iterations: u32,
    iteration: Option<TraceSpan>,
    turn: Option<(TurnId, TraceSpan)>,
    tools: BTreeMap<String, TraceSpan>,
    runs: BTreeMap<RunId, TraceSpan>,
    gates: BTreeMap<GateId, TraceSpan>,
}

/// The name of a value in records.
fn word(value: impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

fn short(name: &str) -> String {
    name.chars().take(NAME_MAX).collect()
}

fn commands_of(plan: &SessionPlan) -> BTreeSet<String> {
    let hooks = plan.hooks.values().flatten().map(|spec| &spec.action);
    let hooks = hooks.chain(plan.automation.iter().map(|hook| &hook.spec.action));
    hooks.map(HookAction::describe).collect()
}

/// The program of a command, as far as that is certain.
fn program(command: &str) -> &str {
    let first = command.split_whitespace().next().unwrap_or_default();
    let first = first.rsplit('/').next().unwrap_or_default();
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    if !first.is_empty() && first.chars().all(is_plain) {
        first
    } else {
        "command"
    }
}

impl SessionTrace {
    pub fn new(context: TraceContext, name: &str, began: &SessionStarted, at: UnixTime) -> Self {
        let project = began.cwd.trim_end_matches('/').rsplit('/').next();
        let mut about: Vec<SpanAttribute> = vec![
            ("creel.session.name", name.into()),
            ("creel.session.id", began.id.as_str().into()),
            ("creel.project", project.unwrap_or_default().into()),
            ("gen_ai.agent.name", began.agent.as_str().into()),
        ];
        let kind = began.plan.task_type.as_deref();
        about.extend(kind.map(|kind| ("creel.task_type", kind.into())));
        Self {
            context,
            about,
            name: name.to_owned(),
            own: (
                began.agent.clone(),
                began.plan.agent_spec.model().map(str::to_owned),
            ),
            agent: began.agent.clone(),
            commands: commands_of(&began.plan),
            last: at,
            session: None,
            sessions: 0,
            iterations: 0,
            iteration: None,
            turn: None,
            tools: BTreeMap::new(),
            runs: BTreeMap::new(),
            gates: BTreeMap::new(),
        }
    }

    /// The spans that a record ends.
    pub fn see(&mut self, record: &Record) -> Vec<TraceSpan> {
        let mut ended = Vec::new();
        match &record.event {
            Event::Session(event) => self.on_session(event, record, &mut ended),
            Event::Turn(event) => self.on_turn(event, record, &mut ended),
            Event::Hook(event) => self.on_hook(event, record.at, &mut ended),
            Event::Stop(event) => self.on_rule(event, record.at, &mut ended),
            Event::Gate(event) => self.on_gate(event, record.at, &mut ended),
            Event::UsageLimit(UsageLimitEvent::AgentSwitched { to, .. }) => {
                self.agent.clone_from(to);
            }
            // A submit of a session that has ended.
            Event::Pipeline(PipelineEvent::Started { .. }) => {
                self.session(record.at);
            }
            Event::UsageLimit(
                UsageLimitEvent::Reached(_)
                | UsageLimitEvent::Outage(_)
                | UsageLimitEvent::WaitSkipped { .. },
            )
            | Event::Pipeline(
                PipelineEvent::Requested { .. }
                | PipelineEvent::RemediationCounted { .. }
                | PipelineEvent::ReviewStarted { .. }
                | PipelineEvent::Reviewed { .. }
                | PipelineEvent::Ended { .. },
            )
            | Event::Pending(_)
            | Event::Retry(_)
            | Event::Task(_)
            | Event::Automation(_)
            | Event::Workflow(_)
            | Event::Steering(_)
            | Event::Verify(_)
            | Event::Watch(_)
            | Event::Unknown => {}
        }
        self.last = record.at;
        ended
    }

    fn on_session(&mut self, event: &SessionEvent, record: &Record, ended: &mut Vec<TraceSpan>) {
        match event {
            SessionEvent::Started(_) => {
                self.session(record.at);
            }
            SessionEvent::Resumed { .. } => {
                self.cut(self.last, ended);
                self.session(record.at);
            }
            SessionEvent::IterationStarted { iteration } => {
                self.end_iteration(record.at, ended);
                self.iterations = *iteration;
                let work = TracedWork::Iteration(record.seq);
                let mut span = self.begin(work, format!("iteration {iteration}"), record.at);
                // An iteration is not part of what it interrupts.
                span.parent = self.session.as_ref().map(|span| span.id);
                span.add("creel.iteration", *iteration);
                self.iteration = Some(span);
            }
            SessionEvent::IterationCompleted { outcome, .. } => {
                if let Some(span) = &mut self.iteration {
                    span.add("creel.outcome", word(outcome));
                    span.error = match outcome {
                        IterationOutcome::Done => None,
                        IterationOutcome::Failed | IterationOutcome::Forced => {
                            Some(text(&word(outcome)))
                        }
                    };
                }
            }
            SessionEvent::LoopEnded { .. } => self.end_iteration(record.at, ended),
            SessionEvent::Ended { outcome, .. } => self.end_session(*outcome, record.at, ended),
            SessionEvent::Warning { .. } | SessionEvent::ProcessStarted { .. } => {}
        }
    }

    fn on_turn(&mut self, event: &TurnEvent, record: &Record, ended: &mut Vec<TraceSpan>) {
        match event {
            TurnEvent::PromptSent(prompt) => self.begin_turn(prompt, record.at, ended),
            TurnEvent::ToolCalled { tool, .. } => {
                self.begin_tool(tool, record, ended);
                self.end_tool(tool, record.at, ended);
            }
            TurnEvent::ToolUpdated { tool, .. } => self.end_tool(tool, record.at, ended),
            TurnEvent::ConversationOpened { conversation, .. } => {
                if let Some((_, span)) = &mut self.turn {
                    span.add("gen_ai.conversation.id", short(conversation));
                }
            }
            TurnEvent::Ended {
                turn,
                stop_reason,
                spent,
                ..
            } => {
                let about = [("creel.turn.stop_reason", word(stop_reason))];
                self.end_turn(*turn, (None, spent), about, record.at, ended);
            }
            TurnEvent::Failed {
                turn, cause, spent, ..
            } => {
                let about = [("error.type", cause.name().into())];
                let error = Some(cause.name().to_owned());
                self.end_turn(*turn, (error, spent), about, record.at, ended);
            }
            TurnEvent::AgentSaid { .. }
            | TurnEvent::AgentThought { .. }
            | TurnEvent::AgentPlanned { .. }
            | TurnEvent::AgentUsed { .. }
            | TurnEvent::AgentNoted { .. }
            | TurnEvent::PermissionAsked { .. }
            | TurnEvent::ToolDecided { .. }
            | TurnEvent::QuestionAnswered { .. }
            | TurnEvent::Cancelling { .. } => {}
        }
    }

    fn on_hook(&mut self, event: &HookEvent, at: UnixTime, ended: &mut Vec<TraceSpan>) {
        match event {
            HookEvent::Started {
                run,
                point,
                hook,
                attempt,
                beside,
                ..
            } => {
                let is_check = *point == HookPoint::Stop;
                let kind = if is_check { "check" } else { "hook" };
                let mut span = self.begin_run(*run, kind, hook, at);
                if *beside {
                    let around = self.iteration.as_ref().or(self.session.as_ref());
                    span.parent = around.map(|span| span.id);
                }
                span.add("creel.hook.point", point.name());
                span.add("creel.hook.attempt", *attempt);
                self.runs.insert(*run, span);
            }
            HookEvent::Finished(finished) => {
                if let Some(mut span) = self.runs.remove(&finished.run) {
                    span.add("creel.hook.verdict", word(finished.verdict));
                    span.add_end(&finished.end);
                    span.error = match finished.verdict {
                        Verdict::Pass => None,
                        Verdict::Block | Verdict::Fail => Some(text(&word(finished.verdict))),
                    };
                    ended.push(span.ended(at));
                }
            }
            HookEvent::Due { .. }
            | HookEvent::Requested { .. }
            | HookEvent::Disabled { .. }
            | HookEvent::Enabled { .. } => {}
        }
    }

    fn on_rule(&mut self, event: &StopEvent, at: UnixTime, ended: &mut Vec<TraceSpan>) {
        match event {
            StopEvent::RuleStarted { run, rule, .. } => {
                let mut span = self.begin_run(*run, "check", rule, at);
                span.add("creel.hook.point", "rule");
                self.runs.insert(*run, span);
            }
            StopEvent::RuleChecked {
                run, passed, end, ..
            } => {
                if let Some(mut span) = self.runs.remove(run) {
                    let verdict = if *passed {
                        Verdict::Pass
                    } else {
                        Verdict::Fail
                    };
                    span.add("creel.hook.verdict", word(verdict));
                    if let Some(end) = end {
                        span.add_end(end);
                    }
                    span.error = (!passed).then(|| text(&word(verdict)));
                    ended.push(span.ended(at));
                }
            }
            StopEvent::RulesDue { .. }
            | StopEvent::Decided(_)
            | StopEvent::CheckpointKept(_)
            | StopEvent::HookRegistered { .. }
            | StopEvent::HooksCleared { .. }
            | StopEvent::LoopStarted { .. }
            | StopEvent::LoopAdvanced { .. }
            | StopEvent::JudgementAsked { .. }
            | StopEvent::LoopEnded { .. }
            | StopEvent::CompletionPromised { .. } => {}
        }
    }

    fn on_gate(&mut self, event: &GateEvent, at: UnixTime, ended: &mut Vec<TraceSpan>) {
        match event {
            GateEvent::Opened { gate, about, .. } => {
                let name = format!("gate {}", about.name());
                let mut span = self.begin(TracedWork::Gate(gate.0), name, at);
                span.add("creel.gate.kind", about.name());
                self.gates.insert(*gate, span);
            }
            GateEvent::Answered {
                gate, choice, by, ..
            } => {
                if let Some(mut span) = self.gates.remove(gate) {
                    span.add("creel.gate.choice", choice.name());
                    span.add("creel.gate.by", by.by.name());
                    ended.push(span.ended(at));
                }
            }
            GateEvent::ProposalEdited { .. } => {}
        }
    }

    /// The session's own span. Begins another one if the session had ended: the ended one was sent.
    fn session(&mut self, at: UnixTime) -> SpanId {
        if let Some(span) = &self.session {
            return span.id;
        }
        let work = TracedWork::Session(self.sessions);
        let id = self.context.span(work);
        let first = self.context.span(TracedWork::Session(0));
        let parent = if self.sessions == 0 {
            self.context.parent()
        } else {
            Some(first)
        };
        self.sessions += 1;
        self.session = Some(TraceSpan {
            work,
            id,
            parent,
            name: format!("creel session {}", self.name),
            start: at,
            end: at,
            attributes: self.about.clone(),
            error: None,
        });
        id
    }

    /// A span below what is open now.
    fn begin(&mut self, work: TracedWork, name: String, at: UnixTime) -> TraceSpan {
        let session = self.session(at);
        let turn = self.turn.as_ref().map(|(_, span)| span.id);
        let around = turn.or(self.iteration.as_ref().map(|span| span.id));
        TraceSpan {
            work,
            id: self.context.span(work),
            parent: Some(around.unwrap_or(session)),
            name,
            start: at,
            end: at,
            attributes: Vec::new(),
            error: None,
        }
    }

    fn begin_run(&mut self, run: RunId, kind: &str, name: &str, at: UnixTime) -> TraceSpan {
        // A command is not sent: it can have anything in it.
        let is_command = self.commands.contains(name);
        let name = short(if is_command { program(name) } else { name });
        let mut span = self.begin(TracedWork::Run(run.0), format!("{kind} {name}"), at);
        span.add("creel.hook.name", name);
        span
    }

    fn begin_turn(&mut self, prompt: &PromptSent, at: UnixTime, ended: &mut Vec<TraceSpan>) {
        // Without its end on record, the turn before was interrupted.
        self.cut_turn(at, ended);
        let PromptSent {
            turn,
            reason,
            agent,
            model,
            ..
        } = prompt;
        let name = format!("turn {turn}");
        let mut span = self.begin(TracedWork::Turn(turn.0), name, at);
        span.add("gen_ai.operation.name", "invoke_agent");
        span.add(
            "gen_ai.agent.name",
            agent.as_ref().unwrap_or(&self.agent).as_str(),
        );
        let (own, usual) = &self.own;
        let is_own = agent.is_none() && self.agent == *own;
        let usual = usual.as_ref().filter(|_| is_own);
        if let Some(model) = model.as_ref().or(usual) {
            span.add("gen_ai.request.model", model.as_str());
        }
        span.add("creel.turn", turn.0);
        span.add("creel.turn.reason", word(reason));
        self.turn = Some((*turn, span));
    }

    fn end_turn(
        &mut self,
        turn: TurnId,
        (error, spent): (Option<String>, &TurnUsage),
        about: impl IntoIterator<Item = SpanAttribute>,
        at: UnixTime,
        ended: &mut Vec<TraceSpan>,
    ) {
        let Some((_, mut span)) = self.turn.take_if(|(open, _)| *open == turn) else {
            return;
        };
        self.end_tools(at, None, ended);
        span.attributes.extend(about);
        if let Some(tokens) = spent.tokens {
            span.add("creel.usage.tokens", tokens);
        }
        if let Some(kinds) = spent.token_kinds {
            // By convention, input has the tokens that came from a cache or went into one.
            let input = kinds.total().saturating_sub(kinds.output);
            span.add("gen_ai.usage.input_tokens", input);
            span.add("gen_ai.usage.output_tokens", kinds.output);
            span.add("gen_ai.usage.cache_read.input_tokens", kinds.cache_read);
            span.add(
                "gen_ai.usage.cache_creation.input_tokens",
                kinds.cache_write,
            );
        }
        if let Some(cost) = spent.cost {
            span.add("creel.usage.cost", cost);
        } else if let Some(cost) = spent.cost_estimated {
            span.add("creel.usage.cost_estimated", cost);
        }
        span.error = error;
        ended.push(span.ended(at));
    }

    fn begin_tool(&mut self, tool: &ToolCall, record: &Record, ended: &mut Vec<TraceSpan>) {
        if let Some(again) = self.tools.remove(&tool.call) {
            ended.push(again.ended(record.at));
        }
        if self.tools.len() >= OPEN_TOOLS {
            return;
        }
        let kind = tool.kind.map(ToolKind::name);
        let name = short(tool.name.as_deref().or(kind).unwrap_or("tool"));
        let work = TracedWork::Tool(record.seq);
        let mut span = self.begin(work, format!("execute_tool {name}"), record.at);
        span.add("gen_ai.operation.name", "execute_tool");
        span.add("gen_ai.tool.name", name);
        span.add("gen_ai.tool.call.id", short(&tool.call));
        if let Some(kind) = kind {
            span.add("creel.tool.kind", kind);
        }
        self.tools.insert(tool.call.clone(), span);
    }

    fn end_tool(&mut self, tool: &ToolCall, at: UnixTime, ended: &mut Vec<TraceSpan>) {
        if !tool.status.has_ended() {
            return;
        }
        if let Some(mut span) = self.tools.remove(&tool.call) {
            let has_failed = tool.status == ToolStatus::Failed;
            span.error = has_failed.then(|| text(&word(tool.status)));
            ended.push(span.ended(at));
        }
    }

    fn end_tools(&mut self, at: UnixTime, error: Option<&str>, ended: &mut Vec<TraceSpan>) {
        for mut span in std::mem::take(&mut self.tools).into_values() {
            span.error = error.map(str::to_owned);
            ended.push(span.ended(at));
        }
    }

    fn cut_turn(&mut self, at: UnixTime, ended: &mut Vec<TraceSpan>) {
        self.end_tools(at, Some(CUT), ended);
        if let Some((_, span)) = self.turn.take() {
            ended.push(span.cut(at));
        }
    }

    /// Ends what a kill ended.
    fn cut(&mut self, at: UnixTime, ended: &mut Vec<TraceSpan>) {
        self.cut_turn(at, ended);
        let runs = std::mem::take(&mut self.runs).into_values();
        ended.extend(runs.map(|span| span.cut(at)));
    }

    fn end_iteration(&mut self, at: UnixTime, ended: &mut Vec<TraceSpan>) {
        ended.extend(self.iteration.take().map(|span| span.ended(at)));
    }

    fn end_session(&mut self, outcome: SessionOutcome, at: UnixTime, ended: &mut Vec<TraceSpan>) {
        self.cut(at, ended);
        let gates = std::mem::take(&mut self.gates).into_values();
        ended.extend(gates.map(|span| span.ended(at)));
        self.end_iteration(at, ended);
        let Some(mut span) = self.session.take() else {
            return;
        };
        span.add("creel.outcome", word(outcome));
        span.add("creel.iterations", self.iterations);
        let is_complete = outcome == SessionOutcome::Complete;
        span.error = (!is_complete).then(|| text(&word(outcome)));
        ended.push(span.ended(at));
    }
}

impl TraceSpan {
    pub fn attribute(&self, name: &str) -> Option<&Value> {
        let mut known = self.attributes.iter();
        known
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value)
    }

    fn add(&mut self, name: &'static str, value: impl Into<Value>) {
        self.attributes.push((name, value.into()));
    }

    /// How a process ended.
    fn add_end(&mut self, end: &RunEnd) {
        match end {
            RunEnd::Exit(code) => self.add("process.exit.code", *code),
            RunEnd::Signal(signal) => self.add("error.type", format!("signal {signal}")),
            RunEnd::TimedOut => self.add("error.type", "timeout"),
            RunEnd::SpawnFailed(_) => self.add("error.type", "not_started"),
            RunEnd::Cut => self.add("error.type", CUT),
        }
    }

    fn ended(self, at: UnixTime) -> Self {
        // The clock of a resumed session can be behind.
        let end = at.max(self.start);
        Self { end, ..self }
    }

    fn cut(mut self, at: UnixTime) -> Self {
        self.error = Some(CUT.to_owned());
        self.ended(at)
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
