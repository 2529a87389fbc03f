//! The session: its phase in the lifecycle, and what is due next.
//!
//! Owns the main line ([`phase`], [`lifecycle`]), the iterations ([`iteration`]), the end of the
//! loop and the final delivery ([`delivery`]), and resuming ([`recovery`]). Does not own the rules
//! of the other machines: it asks them in a fixed order which step is due, and gives each one its
//! context ([`contexts`]).
//!
//! [`SessionState`] is a fold over events. After any prefix of a journal it determines the next
//! step, so resuming after a crash is not a special case: the session proceeds from wherever the
//! records end.
//!
//! # Invariants
//! - [`SessionState::apply`] decides nothing, and nothing else changes a state.
//! - At most one turn is in progress, and at most one hook of the lifecycle.
//! - While a hook of a task event runs or automation work is left, no prompt with pending items is
//!   sent, and the session does not end.

pub(crate) mod apply;
pub mod contexts;
pub mod delivery;
pub mod event;
pub mod iteration;
pub mod lifecycle;
pub mod phase;
pub mod recovery;

use serde::{Deserialize, Serialize};

use crate::engine::{
    budget::BudgetUsage,
    effect::Effect,
    event::{PromptSent, SessionOutcome, SessionStarted, UserPresence},
    gate::{
        Gate, SessionGates, notices::GateHooks, proposal_rules::ProposalState, subject::GateSubject,
    },
    hooks::{
        HookState,
        dispatch::{DispatchCause, HookDispatch},
        point::HookPoint,
        side_jobs::SideJobs,
        tool_hooks::ToolHooks,
    },
    output::EngineOutput,
    pending::PendingItems,
    permission::PermissionState,
    policy::{SessionPlan, ToolHookLevel},
    protect::UnsettledChanges,
    retry::{RetryState, RetryWait},
    session::{
        iteration::IterationState,
        phase::{LoopEnd, Phase},
    },
    steering::ControlState,
    stop::StopState,
    submit::state::PipelineState,
    tasks::SessionTasks,
    time::UnixTime,
    turn::TurnState,
    usage_limit::UsageLimitState,
    verify::{WorkMeasurement, state::VerificationState},
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionState {
    pub name: String,
    /// The first record, including the plan.
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
    pub proposal: ProposalState,
    pub hooks: HookState,
    pub requests: PermissionState,
    /// Changes that turns made although they must not.
    pub unsettled: UnsettledChanges,
    pub account: BudgetUsage,
    /// Hooks that run independently of the agent.
    pub side: SideJobs,
    /// Hooks that notify the user about gates.
    pub gate_hooks: GateHooks,
    /// Hooks of the agent's tool calls.
    #[serde(default)]
    pub tool_hooks: ToolHooks,
    pub tasks: SessionTasks,
    pub stop: StopState,
    pub pipelines: PipelineState,
    pub steering: ControlState,
    /// What the checks said about the work, and whether it changed since.
    pub verify: VerificationState,
    /// None while the loop runs.
    pub ending: Option<LoopEnd>,
    /// The ids of the started processes, with their start times in the kernel's units.
    pub processes: Vec<(i32, u64)>,
}

impl SessionState {
    pub fn new(name: &str, began: SessionStarted, started: UnixTime) -> Self {
        let start = || {
            Phase::Hooks(HookDispatch::reached(
                HookPoint::SessionStart,
                DispatchCause::Lifecycle,
            ))
        };
        Self {
            name: name.to_owned(),
            presence: began.presence,
            phase: began.only_pipeline.map_or_else(start, Phase::PipelineOnly),
            turns: TurnState {
                first: began.first_conversation(),
                ..TurnState::default()
            },
            began,
            started,
            iterations: IterationState::default(),
            pending: PendingItems::default(),
            retry: RetryState::default(),
            limits: UsageLimitState::default(),
            gates: SessionGates::default(),
            proposal: ProposalState::default(),
            hooks: HookState::default(),
            requests: PermissionState::default(),
            unsettled: UnsettledChanges::default(),
            account: BudgetUsage::default(),
            side: SideJobs::default(),
            gate_hooks: GateHooks::default(),
            tool_hooks: ToolHooks::default(),
            tasks: SessionTasks::default(),
            stop: StopState::default(),
            pipelines: PipelineState::default(),
            steering: ControlState::default(),
            verify: VerificationState::default(),
            ending: None,
            processes: Vec::new(),
        }
    }

    pub fn plan(&self) -> &SessionPlan {
        &self.began.plan
    }

    /// Whether creel adds its own hook to the agent of the current turn.
    pub(crate) fn has_own_tool_hook(&self) -> bool {
        let prompt = self.phase.turn_in_flight();
        let spec = match prompt.and_then(|prompt| prompt.agent.as_ref()) {
            Some(reviewer) => self.plan().gatekeepers.get(reviewer).map(|it| &it.spec),
            None => self.agent_choice().spec(),
        };
        spec.is_some_and(|spec| spec.tool_hook_level() == ToolHookLevel::Native)
    }

    /// The prompt that hooks keep back at a gate, also once the session has ended there.
    pub fn prompt_kept_back_at(&self, gate: &Gate) -> Option<&PromptSent> {
        let mut phases = self.phases_at_gate();
        phases.find_map(|phase| phase.prompt_kept_back_at(gate))
    }

    /// Whether a gate opened because a hook stopped the session.
    pub fn is_stopped_at(&self, gate: &Gate) -> bool {
        let phases = self.phases_at_gate();
        let mut runs = phases.filter_map(|phase| phase.run_that_escalated(gate));
        self.side.stopped_the_turn(gate) || runs.any(|done| done.judgement.stops)
    }

    /// The phase now, and the one in which the session ended at a gate.
    fn phases_at_gate(&self) -> impl Iterator<Item = &Phase> {
        let ending = self.ending.as_ref();
        let asked = ending.and_then(|ending| ending.asked.as_ref());
        let asked = asked.map(|asked| &asked.phase);
        [&self.phase].into_iter().chain(asked)
    }

    /// Whether a message to the agent is sent instead of a prompt that hooks keep back.
    pub fn message_replaces_prompt(&self) -> bool {
        self.ending.is_none() && !self.pipelines.is_open()
    }

    pub fn max_iterations(&self) -> u32 {
        self.iterations.limit(self.plan())
    }

    /// When the session continues by itself if no input arrives first.
    pub fn next_wake(&self) -> Option<UnixTime> {
        let gate = self.gates.open.as_ref();
        let wait = if let RetryWait::Until(at) = self.retry.wait {
            Some(at)
        } else {
            None
        };
        let look = if self.phase == Phase::Watching {
            self.watch_rules().wake()
        } else {
            None
        };
        let next = wait.into_iter().chain(look).min();
        // A wait only matters if neither a pause nor a gate delays the prompt.
        gate.map_or(next.filter(|_| !self.steering.paused), |gate| {
            let look = self.watch_rules().wake_at_gate();
            gate.deadline(self.plan()).into_iter().chain(look).min()
        })
    }

    /// The runtime has compared the work with its state at the last look. If the session does not
    /// wait for that any more, it only keeps the change in mind.
    pub(crate) fn on_work_measured(
        &self,
        now: UnixTime,
        measured: &WorkMeasurement,
    ) -> EngineOutput {
        let is_it = |effect: &Effect| matches!(effect, Effect::MeasureWork { by, .. } if *by == measured.by);
        if self.proceed(now, None).effects.iter().any(is_it) {
            return self.proceed(now, Some(measured));
        }
        self.verification()
            .change(measured)
            .map(EngineOutput::record)
            .unwrap_or_default()
    }

    /// The next step. Asks one machine after another; empty if the session waits for a result.
    /// `measured` answers the question about the work that the same step asked before.
    pub(crate) fn proceed(
        &self,
        now: UnixTime,
        measured: Option<&WorkMeasurement>,
    ) -> EngineOutput {
        if matches!(self.phase, Phase::Ended(_)) {
            return EngineOutput::default();
        }
        if let Some(event) = self.pending.due() {
            return EngineOutput::record(event);
        }
        let about_gates = self.side_rules().proceed_gate_hooks();
        if !about_gates.is_empty() {
            return about_gates;
        }
        let about_tools = self.tool_rules().proceed(self);
        if !about_tools.is_empty() {
            return about_tools;
        }
        let about_agent_hooks = self.permissions().answer_tool_hooks();
        if !about_agent_hooks.is_empty() {
            return about_agent_hooks;
        }
        let about_questions = self.permissions().answer_question();
        if !about_questions.is_empty() {
            return about_questions;
        }
        let beside = self.side_rules().proceed_side();
        if !beside.is_empty() {
            return beside;
        }
        let by_itself = self.automation().proceed_automation(now);
        if !by_itself.is_empty() {
            return by_itself;
        }
        let in_the_background = self.workflows().proceed_flows();
        if !in_the_background.is_empty() {
            return in_the_background;
        }
        let led_by_the_agent = self.stop_rules().proceed_loops(now);
        if !led_by_the_agent.is_empty() {
            return led_by_the_agent;
        }
        if self.gates.open.is_some() {
            let looks_on = self.watch_rules().proceed_at_gate(now);
            if !looks_on.is_empty() {
                return looks_on;
            }
            return self.gate_rules().proceed_gate(now);
        }
        if let Some(step) = self.pipeline().abandon_pipeline() {
            return step;
        }
        if self.must_leave_now() {
            return self.leave_now();
        }
        if self.must_end_now() {
            return self.end_rules().reach_session_end(measured);
        }
        if let Some(step) = self
            .protect()
            .proceed_tampered()
            .filter(|_| !self.steering.interrupted())
        {
            return step;
        }
        if let Some(step) = self.side_rules().ask_about_a_stop() {
            return step;
        }
        if self.is_held() {
            return EngineOutput::default();
        }
        match &self.phase {
            Phase::Hooks(dispatch) => self.proceed_hooks(dispatch, now, measured),
            Phase::Due(due) => self.proceed_due(due, now),
            Phase::Turn(_) => self.permissions().open_next_request(),
            Phase::Ended(_) => EngineOutput::default(),
            Phase::Settled(outcome) => self.iterations.complete_iteration(*outcome),
            Phase::Between => self.proceed_between(now),
            Phase::Judging(judging) => self.proceed_judging(judging, now, measured),
            Phase::Escalated(reason) => self
                .gates
                .open_gate(GateSubject::Escalation { failed: None }, reason.clone()),
            Phase::Exit(ending) => self.proceed_exit(ending, now),
            Phase::Pipeline => self.pipeline().proceed_pipeline(),
            Phase::PipelineOnly(pipeline) => self.pipeline().begin_pipeline(*pipeline),
            Phase::Watching => self.watch_rules().proceed_watch(now),
            Phase::Delivering => self.end_rules().proceed_delivery(now, measured),
        }
    }

    /// Whether a pause keeps the next step from starting. What runs goes on, and a session that
    /// leaves for another reason than its own completion still ends.
    fn is_held(&self) -> bool {
        let leaves = self.ending.is_some() && !self.ending.as_ref().is_some_and(LoopEnd::ends_well);
        let holds = match &self.phase {
            Phase::Hooks(dispatch) => {
                dispatch.running.is_none() && dispatch.point != HookPoint::SessionEnd
            }
            Phase::Judging(judging) => judging.runs().next().is_none(),
            Phase::Due(_)
            | Phase::Settled(_)
            | Phase::Between
            | Phase::Pipeline
            | Phase::PipelineOnly(_)
            | Phase::Watching
            | Phase::Delivering => true,
            Phase::Exit(ending) => ending.outcome == SessionOutcome::Complete,
            Phase::Turn(_) | Phase::Escalated(_) | Phase::Ended(_) => false,
        };
        self.steering.paused && holds && !leaves
    }

    /// An interrupt waits only for the cancelled work in progress.
    fn must_leave_now(&self) -> bool {
        self.steering.interrupted() && self.ending.is_none() && !self.phase.is_in_flight()
    }

    /// Whether an interrupt after the loop leaves only the end of the session.
    fn must_end_now(&self) -> bool {
        let sends = |point| matches!(point, HookPoint::OnError | HookPoint::PrePrompt);
        let before_a_prompt =
            matches!(&self.phase, Phase::Hooks(dispatch) if sends(dispatch.point));
        let sends_more =
            before_a_prompt || matches!(self.phase, Phase::Due(_)) || self.checks_after_the_loop();
        sends_more
            && self.steering.interrupted()
            && self.ending.is_some()
            && !self.pipelines.is_open()
            && !self.phase.is_in_flight()
    }

    /// Whether the checks judge the turn of a final delivery, or run once more.
    fn checks_after_the_loop(&self) -> bool {
        let at_stop =
            matches!(&self.phase, Phase::Hooks(dispatch) if dispatch.point == HookPoint::Stop);
        self.ending.is_some() && (at_stop || self.verify.pass.is_some())
    }

    fn leave_now(&self) -> EngineOutput {
        self.end_rules().leave_loop(&LoopEnd::undelivered(
            SessionOutcome::Cancelled,
            phase::STOPPED,
        ))
    }
}

impl SessionOutcome {
    /// The name in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Forced => "forced",
            Self::Unverified => "unverified",
            Self::Limit => "limit",
            Self::Escalated => "escalated",
            Self::Aborted => "aborted",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl SessionState {
    /// What an agent that drives itself has to mend before it can complete the session. None while
    /// the checks run, and if none of them is red.
    pub fn completion_refused(&self) -> Option<&str> {
        let decided = self.plan().is_led_from_outside() && !self.commands().is_being_completed();
        self.verify
            .feedback
            .as_ref()
            .filter(|_| decided)
            .map(|feedback| feedback.text.as_str())
    }
}
