//! The session: its phase in the lifecycle, and what is due next.
//!
//! [`SessionState`] is a fold over events. After any prefix of a journal it determines the next step, so resuming after
//! a crash is not a special case: it is [`SessionState::proceed`] from wherever the records end.
//!
//! # Invariants
//! - [`SessionState::apply`] decides nothing, and nothing else changes a state.
//! - At most one turn is in progress, and at most one hook of the lifecycle.
//! - While a hook of a task event runs or automation work is left, no prompt with pending items is sent, and the
//!   session does not end.

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

#[derive(Debug, Clone, PartialEq)]
pub struct SessionState {
    pub name: String,
    /// Its first record, including the plan.
    pub began: SessionStarted,
    pub started: UnixTime,
    pub presence: UserPresence,
    pub phase: Phase,
    pub iterations: IterationState,
    pub turns: TurnState,
    pub pending: PendingItems,
    pub retry: RetryState,
    pub limits: UsageLimitState,
    pub gates: SessionGates,
    pub hooks: HookState,
    pub asks: PermissionState,
    /// Changes that turns made although they must not.
    pub unsettled: UnsettledChanges,
    pub account: BudgetUsage,
    /// Hooks that run independently of the agent.
    pub side: SideJobs,
    /// Hooks that notify the user about gates.
    pub gate_hooks: GateHooks,
    pub tasks: SessionTasks,
    pub stop: StopState,
    pub pipelines: PipelineState,
    pub steering: ControlState,
    /// None while the loop runs.
    pub ending: Option<LoopEnd>,
    /// The ids of the started processes, with their start times in the kernel's units.
    pub processes: Vec<(i32, u64)>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Phase {
    /// The hooks of a point are due or running.
    Hooks(HookDispatch),
    Due(DuePrompt),
    /// The agent works.
    Turn(Box<PromptSent>),
    /// Nothing more happens in this iteration.
    Settled(IterationOutcome),
    /// The next iteration is due, or the end of the loop.
    Between,
    /// The stop evaluation of the iteration runs.
    Judging(Box<StopEvaluation>),
    /// A stop decision asks the user.
    Escalated(String),
    /// The session is about to leave the loop.
    Exit(LoopEnd),
    /// The checks of a submit or a merge are due.
    Pipeline,
    /// The session exists only for this pipeline.
    Errand(PipelineKind),
    /// Pending items are sent, then the session ends.
    Delivering,
    Ended(SessionOutcome),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IterationState {
    /// The current one, or the last.
    pub current: u32,
    /// Whether the current one is in progress.
    pub open: bool,
    /// The turns that answered only messages of the agent or a hook: each counts as an iteration.
    pub messages: u32,
    /// The files that the current iteration changed.
    pub files: Vec<String>,
    /// The contents of these files, as far as creel saw them.
    pub contents: BTreeMap<String, FileContent>,
    pub signs: IterationSigns,
    /// How the last completed one ended.
    pub last: Option<IterationOutcome>,
    /// The check that the last forced one did not pass, with its reason.
    pub forced_past: Option<String>,
    /// A raised limit, given when the session was resumed.
    pub raised_limit: Option<u32>,
}

impl IterationState {
    /// Starts the agent's work. Its earlier work has already been evaluated.
    fn begin_work(&mut self) {
        self.open = true;
        self.last = None;
        self.files.clear();
        self.contents.clear();
        self.signs = IterationSigns::default();
    }

    pub fn used(&self) -> u32 {
        self.current.saturating_add(self.messages)
    }
}

impl SessionState {
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

    pub fn plan(&self) -> &SessionPlan {
        &self.began.plan
    }

    pub fn max_iterations(&self) -> u32 {
        self.iterations.raised_limit.unwrap_or(self.plan().max_iterations)
    }

    /// None while the session runs.
    pub fn outcome(&self) -> Option<SessionOutcome> {
        if let Phase::Ended(outcome) = self.phase { Some(outcome) } else { None }
    }

    pub fn turn_in_flight(&self) -> Option<&PromptSent> {
        if let Phase::Turn(prompt) = &self.phase { Some(prompt) } else { None }
    }

    /// The dispatch of the lifecycle, if one is in progress.
    pub fn dispatch(&self) -> Option<&HookDispatch> {
        if let Phase::Hooks(dispatch) = &self.phase { Some(dispatch) } else { None }
    }

    /// The evaluation of the session's own iteration, if one is in progress.
    pub fn judging_here(&self) -> Option<&StopEvaluation> {
        if let Phase::Judging(judging) = &self.phase { Some(judging) } else { None }
    }

    /// Whether independent work is in progress that the session has to wait for before it delivers or ends.
    pub fn is_busy_beside(&self) -> bool {
        let judged = self.stop.loops.iter().any(|known| known.judging.is_some());
        self.side_is_busy() || self.tasks.automation.is_busy() || !self.tasks.flows.open.is_empty() || judged
    }

    /// When the session continues by itself if no input arrives first.
    pub fn next_wake(&self) -> Option<UnixTime> {
        let gate = self.gates.open.as_ref();
        let wait = if let RetryWait::Until(at) = self.retry.wait { Some(at) } else { None };
        // A wait only matters if neither a pause nor a gate delays the prompt.
        gate.map_or(wait.filter(|_| !self.steering.paused), |gate| gate.deadline(self.plan()))
    }

    /// The next step, unless the session waits for a result.
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

    /// The gate that waits for the user: not one that a rule or a policy is about to answer.
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
            // Leaving would end the hooks that notify the user about this gate.
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

    /// An interrupt waits only for the cancelled work in progress.
    fn must_leave_now(&self) -> bool {
        self.interrupted() && self.ending.is_none() && !self.is_in_flight()
    }

    /// The same after the loop, where only the end of the session is left.
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

#[derive(Debug, Clone, Default)]
pub(crate) struct GateDetails {
    hook: Option<String>,
    run: Option<RunId>,
    items: Vec<ItemId>,
    ask: Option<PermissionId>,
    /// The answers, where they differ between gates of the kind.
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

/// The next ids.
impl SessionState {
    pub(crate) fn next_turn(&self) -> TurnId {
        self.turns.last.next()
    }

    pub fn open_gate_named(&self, id: GateId) -> Option<&gate::Gate> {
        self.gates.open.as_ref().filter(|gate| gate.id == id)
    }
}

pub(crate) fn warning(text: impl Into<String>) -> Event {
    Event::Session(SessionEvent::Warning { text: text.into() })
}

pub(crate) const POLICY: Actor = Actor::of(ActorKind::Policy);
