//! The transitions between hook points: what is due when the hooks of a point have run.

use super::{GateDetails, Phase, SessionState, feedback::RetryLimit, gate::GateKind, retry::RetryWait, warning};
use crate::engine::{
    EngineOutput,
    comparable_text::same_text,
    effect::{Effect, HookFacts, HookJob},
    event::{
        Event, FinalDeliveryMode, HookEvent, IterationOutcome, RetryEvent, SessionEvent, SessionOutcome, StopTiming,
        UserPresence,
    },
    hooks::{
        dispatch::{DispatchCause, DispatchQuestion, FinishedRun, HookDispatch, HookFeedback, is_broken_again},
        point::HookPoint,
        resolve::{self, HookRef},
    },
    policy::{DeliveryPolicy, HookAction, RetryLimitPolicy},
    session::delivery::{LoopEnd, STOPPED},
    stop::evaluation::StopEvaluation,
    submit::{PipelineKind, review::CHANGE_LIMIT},
    time::UnixTime,
    wording::counted,
};

impl SessionState {
    pub(super) fn proceed_hooks(&self, dispatch: &HookDispatch, now: UnixTime) -> EngineOutput {
        if dispatch.running.is_some() {
            return self.proceed_review(dispatch, now);
        }
        if self.protect_blocks(dispatch) {
            return self.judge_stop(dispatch);
        }
        if dispatch.queue.is_none() {
            let announced = self.announce(dispatch.point);
            if !announced.is_empty() {
                return announced;
            }
        }
        if let Some(FinishedRun { hook, run, .. }) = self.broken_again(dispatch) {
            let reason = is_broken_again(dispatch.point, hook);
            return self.open_gate(GateKind::BrokenHook, reason, GateDetails::failed_run(hook, *run));
        }
        match dispatch.next().filter(|_| !dispatch.stops_early(&|hook| self.is_off(hook))) {
            Some(hook) => self.start_hook(dispatch, hook),
            None => self.conclude(dispatch, now),
        }
    }

    /// Records which hooks will run at a point. Empty if there are none.
    pub(super) fn announce(&self, point: HookPoint) -> EngineOutput {
        let hooks = resolve::due(self.plan(), &self.hooks, point);
        if hooks.is_empty() {
            return EngineOutput::default();
        }
        let iteration = (self.iterations.current > 0).then_some(self.iterations.current);
        EngineOutput::record(Event::Hook(HookEvent::Due { point, iteration, hooks, task: None, by_hand: false }))
    }

    pub(super) fn start_hook(&self, dispatch: &HookDispatch, hook: &str) -> EngineOutput {
        let Some(spec) = self.plan().hook(dispatch.point, hook) else { return EngineOutput::default() };
        let run = self.hooks.last_run.next();
        let facts = self.facts(dispatch);
        let attempt = facts.attempt.unwrap_or(0);
        let output_limit = match spec.action {
            HookAction::Gatekeeper(_) => CHANGE_LIMIT,
            HookAction::Command(_) | HookAction::Exec(_) | HookAction::Builtin(_) => self.plan().output_limit,
        };
        let job = HookJob { run, point: dispatch.point, hook: spec.clone(), output_limit, facts };
        EngineOutput::record(Event::Hook(HookEvent::Started {
            run,
            point: dispatch.point,
            hook: hook.to_owned(),
            iteration: self.iterations.current,
            attempt,
            beside: self.dispatches_beside().any(|beside| beside == dispatch),
            of: None,
        }))
        .then(Effect::RunHook(Box::new(job)))
    }

    fn facts(&self, dispatch: &HookDispatch) -> HookFacts {
        let offered = |name| crate::engine::hooks::template::offered(dispatch.point).contains(&name);
        let mut facts = HookFacts::default();
        match &dispatch.cause {
            DispatchCause::ByHand if dispatch.point == HookPoint::OnGate => {
                facts.gate = self.open_gate_facts().map(Box::new);
            }
            DispatchCause::Lifecycle | DispatchCause::ByHand => facts.task = self.task_at(dispatch.point),
            DispatchCause::Error(error) => facts.error = Some(error.clone()),
            DispatchCause::Task(task) => facts.task = Some(task.clone()),
            DispatchCause::Gate(gate) => facts.gate = Some(Box::new(self.gate_facts_now(gate))),
        }
        HookFacts {
            session: self.name.clone(),
            iteration: offered("iteration").then_some(self.iterations.current),
            attempt: offered("attempt").then(|| self.repairs_at(dispatch.point).unwrap_or(self.retry.used)),
            agent_output: (!self.turns.said.is_empty()).then(|| self.turns.said.clone()),
            files_modified: self.files_offered(dispatch.point),
            submission: self.submission_at(dispatch.point),
            ..facts
        }
    }

    /// The files that the iteration changed, at the points after the agent's work.
    fn files_offered(&self, point: HookPoint) -> Option<Vec<String>> {
        matches!(point, HookPoint::Stop | HookPoint::PostIteration).then(|| self.iterations.files.clone())
    }

    /// The hook that just broke for at least the second time in a row, if the session is attended.
    fn broken_again<'a>(&self, dispatch: &'a HookDispatch) -> Option<&'a FinishedRun> {
        let last = dispatch.done.last().filter(|done| done.judgement.broken)?;
        let hook = HookRef::new(dispatch.point, &last.hook);
        // The points of a pipeline have their own gate for failures.
        let elsewhere = dispatch.point == HookPoint::SessionEnd || PipelineKind::of(dispatch.point).is_some();
        let asks = self.presence == UserPresence::Attended && !elsewhere;
        (self.hooks.is_broken_again(&hook) && asks && !self.is_off(&hook)).then_some(last)
    }

    /// All hooks of the point have run.
    fn conclude(&self, dispatch: &HookDispatch, now: UnixTime) -> EngineOutput {
        let is_check = PipelineKind::of(dispatch.point).is_some_and(|pipeline| pipeline.before() == dispatch.point);
        if let Some(step) = self.escalate_failures(dispatch).filter(|_| !is_check) {
            return step;
        }
        match dispatch.point {
            HookPoint::SessionStart => self.proceed_between(now),
            HookPoint::PreIteration => self.switch_back(now).unwrap_or_else(|| self.send_iteration(dispatch)),
            HookPoint::Stop => self.judge_stop(dispatch),
            HookPoint::PostIteration => self.proceed_judging(None, &StopEvaluation::default(), now),
            HookPoint::OnError => self.after_error(dispatch, now),
            HookPoint::SessionEnd => self.end(),
            HookPoint::BeforeSubmit | HookPoint::AfterSubmit | HookPoint::BeforeMerge | HookPoint::AfterMerge => {
                self.conclude_pipeline(dispatch)
            }
            // These do not belong to the lifecycle: task events and gates run independently of it, and stop decisions
            // have their own evaluation.
            HookPoint::OnTaskComplete | HookPoint::OnGate | HookPoint::Automation | HookPoint::StopDecision => {
                EngineOutput::default()
            }
        }
    }

    fn escalate_failures(&self, dispatch: &HookDispatch) -> Option<EngineOutput> {
        let asked = dispatch.was_asked(DispatchQuestion::Escalation) || dispatch.point == HookPoint::SessionEnd;
        let failed = dispatch
            .done
            .iter()
            .find(|done| done.judgement.escalates && !self.is_off(&HookRef::new(dispatch.point, &done.hook)))?;
        let reason = || failed.needs_a_person(dispatch.point);
        (!asked)
            .then(|| self.open_gate(GateKind::Escalation, reason(), GateDetails::failed_run(&failed.hook, failed.run)))
    }

    /// The next iteration, or the reason why there is none.
    pub(super) fn proceed_between(&self, now: UnixTime) -> EngineOutput {
        if let Some(step) = self.too_many_errors().or_else(|| self.begin_between()) {
            return step;
        }
        if self.steering.stop.is_some() {
            return self.leave_loop(&LoopEnd::offering(SessionOutcome::Cancelled, STOPPED));
        }
        // Self-driven sessions are not evaluated. Running hooks finish first, so the session ends only here.
        if let Some(reason) = self.stop.promised.as_ref().filter(|_| self.is_led_from_outside()) {
            return self.leave_loop(&LoopEnd::undelivered(SessionOutcome::Complete, reason));
        }
        if let Some(step) = self.take_up_a_loop().or_else(|| self.take_up_trouble()) {
            return step;
        }
        if self.iterations.used() >= self.max_iterations() {
            let for_messages = match self.iterations.messages {
                0 => String::new(),
                messages => format!(", {messages} of them for messages of the agent or its hooks"),
            };
            let reason =
                format!("the limit of {} was reached{for_messages}", counted(self.max_iterations(), "iteration"));
            return self.leave_loop(&LoopEnd::offering(SessionOutcome::Limit, &reason));
        }
        if let Some(step) = self.over_budget() {
            return step;
        }
        if self.steering.paused || self.is_led_from_outside() {
            return EngineOutput::default();
        }
        self.wait_over(now).unwrap_or_else(|| {
            EngineOutput::record(Event::Session(SessionEvent::IterationStarted {
                iteration: self.iterations.current + 1,
            }))
        })
    }

    pub(super) fn too_many_errors(&self) -> Option<EngineOutput> {
        (self.retry.errors >= self.plan().max_consecutive_errors).then(|| {
            let last = self.turns.last_error.as_deref().unwrap_or("unknown");
            let reason = match self.retry.errors {
                1 => format!("a turn failed: {last}"),
                times => format!("{times} turns failed in a row, the last one with: {last}"),
            };
            self.open_gate(GateKind::Errors, reason, GateDetails::default())
        })
    }

    /// A step while the session waits. None when the wait is over.
    pub(super) fn wait_over(&self, now: UnixTime) -> Option<EngineOutput> {
        match self.retry.wait {
            RetryWait::Due { nth, at_least } => {
                let own = self.plan().backoff.as_ref().map(|own| super::retry::wait_for(own, nth, self.began.seed));
                let wait_ms = own.unwrap_or_default().max(at_least);
                let waits = own.is_some() || !at_least.is_zero();
                waits.then(|| {
                    EngineOutput::record(Event::Retry(RetryEvent::BackoffStarted {
                        wait_ms,
                        until: now.after(wait_ms),
                    }))
                })
            }
            RetryWait::Until(at) if now < at => Some(EngineOutput::default()),
            RetryWait::No | RetryWait::Until(_) => None,
        }
    }

    /// A recovery prompt is sent immediately, unless the agent's server asked creel to wait.
    fn must_leave_the_server_alone(&self, now: UnixTime) -> Option<EngineOutput> {
        match self.retry.wait {
            RetryWait::Due { at_least, .. } if at_least.is_zero() => None,
            RetryWait::No | RetryWait::Due { .. } | RetryWait::Until(_) => self.wait_over(now),
        }
    }

    fn send_iteration(&self, dispatch: &HookDispatch) -> EngineOutput {
        if self.steering.paused || self.is_busy_beside() {
            return EngineOutput::default();
        }
        let items = self.pending.waiting_ids();
        let ask = self.plan().gates.delivery == DeliveryPolicy::Ask && !items.is_empty();
        if ask && items.iter().any(|id| !dispatch.seen.contains(id)) {
            let reason = format!("the next prompt carries {}", counted(items.len(), "held item"));
            return self.open_gate(GateKind::Delivery, reason, GateDetails::items(items));
        }
        self.iteration_prompt(dispatch, items)
    }

    fn judge_stop(&self, dispatch: &HookDispatch) -> EngineOutput {
        let Some(feedback) = self.feedback(dispatch) else { return self.complete_iteration(IterationOutcome::Done) };
        let RetryLimit { limit, hook: limited } = self.limit_for(&feedback);
        let used = self.retry.used;
        if used < limit {
            let no_progress = self.retry.last_usual.as_deref().is_some_and(|last| same_text(last, &feedback.usual));
            let HookFeedback { hook, reason, .. } = feedback;
            return EngineOutput::record(Event::Retry(RetryEvent::Counted {
                used: used + 1,
                limit,
                hook,
                reason,
                no_progress,
            }));
        }
        if !dispatch.was_asked(DispatchQuestion::Limit) {
            let reached = EngineOutput::record(Event::Retry(RetryEvent::LimitReached { used, limit, hook: limited }));
            let completes =
                self.presence == UserPresence::Unattended && self.plan().on_limit == RetryLimitPolicy::Complete;
            let text = format!("[Warning: Hook retry limit ({limit}) reached. Completing execution.]");
            return if completes { reached.and(warning(text)) } else { reached };
        }
        let times = counted(used, "retry");
        let reason = format!("the hook `{limited}` still blocks after {times}: {}", feedback.reason);
        self.open_gate(GateKind::RetryLimit, reason, GateDetails::hook(&limited))
    }

    /// Whether an actor disabled a hook: its result no longer counts.
    pub(in crate::engine) fn is_off(&self, hook: &HookRef) -> bool {
        self.hooks.disabled.contains(hook)
    }

    fn after_error(&self, dispatch: &HookDispatch, now: UnixTime) -> EngineOutput {
        match dispatch.piped_text() {
            Some(text) => self.must_leave_the_server_alone(now).unwrap_or_else(|| self.recovery_prompt(text)),
            None if self.pipelines.is_open() => self.proceed_pipeline(),
            None if self.ending.is_some() => self.proceed_delivery(now),
            None => self.complete_iteration(IterationOutcome::Failed),
        }
    }

    /// A message that waits when the session would be complete is answered first. If the budget does not allow that,
    /// the session stays complete.
    pub(super) fn proceed_exit(&self, ending: &LoopEnd, now: UnixTime) -> EngineOutput {
        let answers = !self.iterations.open && self.used_up().is_none();
        let answer = answers.then(|| self.answer_before_the_end(ending, now)).flatten();
        answer.unwrap_or_else(|| self.leave_loop(ending))
    }

    /// Leaves the loop. An iteration that is still open is recorded as failed first, unless a person accepts it. An
    /// iteration that a person stops immediately stays open: `resume` continues it.
    pub(super) fn leave_loop(&self, ending: &LoopEnd) -> EngineOutput {
        let stopped = ending.outcome == SessionOutcome::Cancelled && self.interrupted();
        if self.iterations.open && !stopped {
            let accepted = ending.outcome == SessionOutcome::Complete;
            return self.complete_iteration(if accepted { IterationOutcome::Done } else { IterationOutcome::Failed });
        }
        EngineOutput::record(Event::Session(SessionEvent::LoopEnded {
            outcome: ending.outcome,
            reason: ending.reason.clone(),
            delivery: if self.is_led_from_outside() { FinalDeliveryMode::No } else { ending.delivery },
        }))
    }

    /// Whether an agent that the user runs by hand has reported completion.
    pub fn is_being_completed(&self) -> bool {
        self.is_led_from_outside() && (self.stop.promised.is_some() || self.ending.is_some())
    }

    pub(super) fn is_ending(&self) -> bool {
        matches!(&self.phase, Phase::Hooks(dispatch) if dispatch.point == HookPoint::SessionEnd)
    }

    pub(in crate::engine) fn interrupted(&self) -> bool {
        self.steering.stop == Some(StopTiming::Now)
    }

    pub(super) fn delivery_is_off(&self) -> bool {
        self.ending.as_ref().is_some_and(|ending| ending.delivery == FinalDeliveryMode::No)
    }
}
