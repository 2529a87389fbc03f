//! The session: where it is in its lifecycle, and what is due next.
//!
//! [`SessionState`] is a fold over events. After any prefix of a journal it says what has to happen next, so going on after
//! a crash is not a case of its own: it is [`SessionState::proceed`] from wherever the records end.
//!
//! # Invariants
//! - [`SessionState::apply`] decides nothing, and nothing else changes a state.
//! - At most one turn is in flight, and at most one hook of the lifecycle.
//! - No prompt that carries held output is sent, and the session does not end, while a hook of a task event runs or
//!   something is left to do about one.

pub mod budget;
pub mod completion_note;
pub mod control;
pub mod delivery;
pub mod feedback;
pub mod gate;
pub mod gate_hooks;
pub mod limits;
pub mod pending;
pub mod permission;
pub mod retry;
pub mod side_jobs;
pub mod tamper;
pub mod turn;

mod apply;
mod lifecycle;

use std::collections::BTreeMap;

use super::{
    EngineOutput,
    conversation::{AgentPermissionRequest, FileContent},
    effect::{Effect, ExitReason},
    event::{
        Actor, ActorKind, Event, GateEvent, IterationOutcome, PromptSent, SessionEvent, SessionOutcome, SessionStarted,
        UserPresence,
    },
    hooks::{
        dispatch::{DispatchCause, HookDispatch},
        point::HookPoint,
        resolve::HookState,
    },
    ids::{GateId, ItemId, PermissionId, RunId, TurnId},
    policy::SessionPlan,
    stop::{StopState, settled::IterationSigns},
    submit::{PipelineKind, PipelineState},
    tasks::SessionTasks,
    time::UnixTime,
};
use crate::engine::{
    session::{control::ControlState, side_jobs::SideJobs},
    stop::evaluation::StopEvaluation,
};
use budget::BudgetUsage;
use delivery::LoopEnd;
use gate::{GateKind, SessionGates, UnansweredGate};
use gate_hooks::GateHooks;
use limits::UsageLimitState;
use pending::PendingItems;
use permission::PermissionState;
use retry::{RetryState, RetryWait};
use tamper::UnsettledChanges;
use turn::{DuePrompt, TurnState};

/// Everything that is known of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionState {
    /// The session's name.
    pub name: String,
    /// How it began, its rules among it.
    pub began: SessionStarted,
    /// When it began.
    pub started: UnixTime,
    /// Whether somebody is there to answer.
    pub presence: UserPresence,
    /// Where it is.
    pub phase: Phase,
    /// The passes of the loop.
    pub iterations: IterationState,
    /// The prompts and answers.
    pub turns: TurnState,
    /// The held output.
    pub pending: PendingItems,
    /// The counters.
    pub retry: RetryState,
    /// The usage limits.
    pub limits: UsageLimitState,
    /// The gates.
    pub gates: SessionGates,
    /// What is known of the hooks beside the plan.
    pub hooks: HookState,
    /// What the agent asks leave for.
    pub asks: PermissionState,
    /// What turns changed although they must not.
    pub unsettled: UnsettledChanges,
    /// What was used.
    pub account: BudgetUsage,
    /// Hooks that run beside the agent.
    pub side: SideJobs,
    /// Hooks that tell the user about gates.
    pub gate_hooks: GateHooks,
    /// What there is to do, and what happens by itself when that changes.
    pub tasks: SessionTasks,
    /// What is known about stop decisions.
    pub stop: StopState,
    /// How the work is submitted and merged.
    pub pipelines: PipelineState,
    /// What people asked for.
    pub steering: ControlState,
    /// How the loop ended, once it has.
    pub ending: Option<LoopEnd>,
    /// The processes that were started, with the kernel's word for when.
    pub processes: Vec<(i32, u64)>,
}

/// Where a session is.
#[derive(Debug, Clone, PartialEq)]
pub enum Phase {
    /// The hooks of a point are due or running.
    Hooks(HookDispatch),
    /// A prompt is due.
    Due(DuePrompt),
    /// The agent works.
    Turn(Box<PromptSent>),
    /// Nothing more happens in this iteration.
    Settled(IterationOutcome),
    /// The next iteration is due, or the end of the loop.
    Between,
    /// The iteration is judged.
    Judging(Box<StopEvaluation>),
    /// A stop decision wants a person to look.
    Escalated(String),
    /// The loop is to be left.
    Exit(LoopEnd),
    /// The checks of a submit or a merge are due.
    Pipeline,
    /// The session is for nothing else than this.
    Errand(PipelineKind),
    /// What is still held is to be delivered, then the session ends.
    Delivering,
    /// It is over.
    Ended(SessionOutcome),
}

/// The passes of the loop.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IterationState {
    /// The current one, or the last.
    pub current: u32,
    /// Whether it is still going on.
    pub open: bool,
    /// The turns that answered only messages of the agent or a hook: each counts as an iteration.
    pub messages: u32,
    /// The files that were changed in it.
    pub files: Vec<String>,
    /// What these files contain now, as far as creel saw it.
    pub contents: BTreeMap<String, FileContent>,
    /// What else it shows about whether its work is done.
    pub signs: IterationSigns,
    /// How the last completed one ended.
    pub last: Option<IterationOutcome>,
    /// The check that the last forced one did not pass, and why, in words.
    pub forced_past: Option<String>,
    /// A raised limit, given when the session was resumed.
    pub raised_limit: Option<u32>,
}

impl IterationState {
    /// The agent works from here on. What it did before was judged already.
    fn begin_work(&mut self) {
        self.open = true;
        self.last = None;
        self.files.clear();
        self.contents.clear();
        self.signs = IterationSigns::default();
    }

    /// How many iterations were used up.
    pub fn used(&self) -> u32 {
        self.current.saturating_add(self.messages)
    }
}

impl SessionState {
    /// A session that has just begun.
    pub fn new(name: &str, began: SessionStarted, started: UnixTime) -> Self {
        let start = || Phase::Hooks(HookDispatch::reached(HookPoint::SessionStart, DispatchCause::Lifecycle));
        Self {
            name: name.to_owned(),
            presence: began.presence,
            phase: began.errand.map_or_else(start, Phase::Errand),
            began,
            started,
            iterations: IterationState::default(),
            turns: TurnState::default(),
            pending: PendingItems::default(),
            retry: RetryState::default(),
            limits: UsageLimitState::default(),
            gates: SessionGates::default(),
            hooks: HookState::default(),
            asks: PermissionState::default(),
            unsettled: UnsettledChanges::default(),
            account: BudgetUsage::default(),
            side: SideJobs::default(),
            gate_hooks: GateHooks::default(),
            tasks: SessionTasks::default(),
            stop: StopState::default(),
            pipelines: PipelineState::default(),
            steering: ControlState::default(),
            ending: None,
            processes: Vec::new(),
        }
    }

    /// The rules.
    pub fn plan(&self) -> &SessionPlan {
        &self.began.plan
    }

    /// How many iterations there may be.
    pub fn max_iterations(&self) -> u32 {
        self.iterations.raised_limit.unwrap_or(self.plan().max_iterations)
    }

    /// How it ended, once it has.
    pub fn outcome(&self) -> Option<SessionOutcome> {
        if let Phase::Ended(outcome) = self.phase { Some(outcome) } else { None }
    }

    /// The turn that is in flight.
    pub fn turn_in_flight(&self) -> Option<&PromptSent> {
        if let Phase::Turn(prompt) = &self.phase { Some(prompt) } else { None }
    }

    /// The dispatch of the lifecycle, if one is going on.
    pub fn dispatch(&self) -> Option<&HookDispatch> {
        if let Phase::Hooks(dispatch) = &self.phase { Some(dispatch) } else { None }
    }

    /// The judgement of the main line, if one is going on.
    pub fn judging_here(&self) -> Option<&StopEvaluation> {
        if let Phase::Judging(judging) = &self.phase { Some(judging) } else { None }
    }

    /// Whether something goes on beside the main line that it has to wait for before it delivers or ends.
    pub fn is_busy_beside(&self) -> bool {
        let judged = self.stop.loops.iter().any(|known| known.judging.is_some());
        self.side_is_busy() || self.tasks.automation.is_busy() || !self.tasks.flows.open.is_empty() || judged
    }

    /// When something happens by itself, if nothing else does before.
    pub fn next_wake(&self) -> Option<UnixTime> {
        let gate = self.gates.open.as_ref();
        let wait = if let RetryWait::Until(at) = self.retry.wait { Some(at) } else { None };
        // A wait only matters where nothing else holds the prompt back.
        gate.map_or(wait.filter(|_| !self.steering.paused), |gate| gate.deadline(self.plan()))
    }

    /// The next thing that has to happen, if nothing is awaited.
    pub(crate) fn proceed(&self, now: UnixTime) -> EngineOutput {
        if matches!(self.phase, Phase::Ended(_)) {
            return EngineOutput::default();
        }
        if let Some(event) = self.pending.due() {
            return EngineOutput::record(event);
        }
        let about_gates = self.proceed_gate_hooks();
        if !about_gates.is_empty() {
            return about_gates;
        }
        let beside = self.proceed_side();
        if !beside.is_empty() {
            return beside;
        }
        let by_itself = self.proceed_automation();
        if !by_itself.is_empty() {
            return by_itself;
        }
        let in_the_background = self.proceed_flows();
        if !in_the_background.is_empty() {
            return in_the_background;
        }
        let led_by_the_agent = self.proceed_loops(now);
        if !led_by_the_agent.is_empty() {
            return led_by_the_agent;
        }
        if self.gates.open.is_some() {
            return self.proceed_gate(now);
        }
        if let Some(step) = self.abandon_pipeline() {
            return step;
        }
        if self.must_leave_now() {
            return self.leave_now();
        }
        if self.must_end_now() {
            return self.reach_session_end();
        }
        if let Some(step) = self.proceed_tampered() {
            return step;
        }
        match &self.phase {
            Phase::Hooks(dispatch) => self.proceed_hooks(dispatch, now),
            Phase::Due(due) => self.proceed_due(due, now),
            Phase::Turn(_) => self.proceed_asks(),
            Phase::Ended(_) => EngineOutput::default(),
            Phase::Settled(outcome) => self.complete_iteration(*outcome),
            Phase::Between => self.proceed_between(now),
            Phase::Judging(judging) => self.proceed_judging(None, judging, now),
            Phase::Escalated(reason) => self.open_gate(GateKind::Escalation, reason.clone(), GateDetails::default()),
            Phase::Exit(ending) => self.proceed_exit(ending, now),
            Phase::Pipeline => self.proceed_pipeline(),
            Phase::Errand(pipeline) => self.begin_pipeline(*pipeline),
            Phase::Delivering => self.proceed_delivery(now),
        }
    }

    /// The gate that waits for a person: not one that a rule or a policy is about to answer.
    pub fn gate_for_a_person(&self) -> Option<&gate::Gate> {
        let ruled = |gate: &gate::Gate| self.asked_at(gate).and_then(|ask| self.standing_permission(ask)).is_some();
        let settled = |gate: &gate::Gate| gate.standing_answer(self.plan(), self.presence).is_some();
        self.gates.open.as_ref().filter(|gate| !ruled(gate) && !settled(gate))
    }

    fn proceed_gate(&self, now: UnixTime) -> EngineOutput {
        let Some(gate) = &self.gates.open else { return EngineOutput::default() };
        if let Some(choice) = self.asked_at(gate).and_then(|ask| self.standing_permission(ask)) {
            return self.answered(gate, choice, &POLICY, None);
        }
        if let Some(choice) = self.limit_has_reset(gate, now) {
            return self.answered(gate, choice, &POLICY, None);
        }
        match gate.unanswered(self.plan(), self.presence, now) {
            UnansweredGate::Answer(choice, by) => self.answered(gate, choice, &by.into(), None),
            UnansweredGate::Wait => EngineOutput::default(),
            // Leaving ends the hooks that tell the user about this gate.
            UnansweredGate::NobodyThere if self.gate_hooks.is_busy() => EngineOutput::default(),
            UnansweredGate::NobodyThere => EngineOutput::default().then(Effect::Leave(ExitReason::NobodyThere)),
        }
    }

    pub(crate) fn open_gate(&self, about: GateKind, reason: String, details: GateDetails) -> EngineOutput {
        EngineOutput::record(Event::Gate(GateEvent::Opened {
            gate: self.gates.last.next(),
            about,
            choices: details.choices.unwrap_or_else(|| about.choices().to_vec()),
            reason,
            hook: details.hook,
            run: details.run,
            items: details.items,
            ask: details.ask,
        }))
    }

    pub(crate) fn complete_iteration(&self, outcome: IterationOutcome) -> EngineOutput {
        EngineOutput::record(Event::Session(SessionEvent::IterationCompleted {
            iteration: self.iterations.current,
            outcome,
        }))
    }

    /// An interrupt waits for what is in flight, which was told to end, and for nothing else.
    fn must_leave_now(&self) -> bool {
        self.interrupted() && self.ending.is_none() && !self.is_in_flight()
    }

    /// The same after the loop: there is only the end to come.
    fn must_end_now(&self) -> bool {
        let after_an_error = matches!(&self.phase, Phase::Hooks(dispatch) if dispatch.point == HookPoint::OnError);
        let sends_more = after_an_error || matches!(self.phase, Phase::Due(_));
        sends_more && self.interrupted() && self.ending.is_some() && !self.pipelines.is_open() && !self.is_in_flight()
    }

    fn is_in_flight(&self) -> bool {
        match &self.phase {
            Phase::Turn(_) => true,
            Phase::Hooks(dispatch) => dispatch.running.is_some(),
            Phase::Judging(judging) => judging.runs().next().is_some(),
            Phase::Due(_)
            | Phase::Settled(_)
            | Phase::Between
            | Phase::Escalated(_)
            | Phase::Exit(_)
            | Phase::Pipeline
            | Phase::Errand(_)
            | Phase::Delivering
            | Phase::Ended(_) => false,
        }
    }

    fn leave_now(&self) -> EngineOutput {
        self.leave_loop(&LoopEnd::undelivered(SessionOutcome::Cancelled, delivery::STOPPED))
    }
}

/// What a gate is about, beside its kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct GateDetails {
    hook: Option<String>,
    run: Option<RunId>,
    items: Vec<ItemId>,
    ask: Option<PermissionId>,
    /// The answers, where they are not the same for all gates of the kind.
    choices: Option<Vec<gate::GateChoice>>,
}

impl GateDetails {
    pub(crate) fn hook(hook: &str) -> Self {
        Self { hook: Some(hook.to_owned()), ..Self::default() }
    }

    /// A hook whose run failed.
    pub(crate) fn failed_run(hook: &str, run: RunId) -> Self {
        Self { run: Some(run), ..Self::hook(hook) }
    }

    pub(crate) fn items(items: Vec<ItemId>) -> Self {
        Self { items, ..Self::default() }
    }

    pub(crate) fn ask(ask: &AgentPermissionRequest) -> Self {
        Self { ask: Some(ask.ask), choices: Some(ask.choices()), ..Self::default() }
    }
}

/// Numbers that the next things of their kind get.
impl SessionState {
    pub(crate) fn next_turn(&self) -> TurnId {
        self.turns.last.next()
    }

    /// The gate of that number, if it waits.
    pub fn open_gate_named(&self, id: GateId) -> Option<&gate::Gate> {
        self.gates.open.as_ref().filter(|gate| gate.id == id)
    }
}

pub(crate) fn warning(text: impl Into<String>) -> Event {
    Event::Session(SessionEvent::Warning { text: text.into() })
}

pub(crate) const POLICY: Actor = Actor::of(ActorKind::Policy);
