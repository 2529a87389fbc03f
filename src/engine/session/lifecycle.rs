//! The main line: what is due in each phase, and what follows when the hooks of a point have run.
//!
//! Decides the order of the lifecycle. The conditions of each step belong to the machines that it
//! asks.

use std::collections::VecDeque;

use crate::{
    engine::{
        effect::Effect,
        event::{Event, IterationOutcome, SessionEvent, SessionOutcome, VerifyEvent},
        gate::subject::{FailedHook, GateSubject},
        hooks::{
            dispatch::{DispatchCause, FinishedRun, HookDispatch, is_broken_again},
            point::HookPoint,
        },
        output::EngineOutput,
        policy::DeliveryPolicy,
        session::{
            SessionState,
            phase::{LoopEnd, STOPPED},
        },
        stop::agent_loop::StopEvaluation,
        submit::kind::PipelineKind,
        time::UnixTime,
        turn::DuePrompt,
        verify::{MissingCheck, PassFeedback, WorkChangedBy, WorkMeasurement, rules::VerifyRules},
    },
    text::counted,
};

impl SessionState {
    pub(crate) fn proceed_hooks(
        &self,
        dispatch: &HookDispatch,
        now: UnixTime,
        measured: Option<&WorkMeasurement>,
    ) -> EngineOutput {
        if dispatch.running.is_some() {
            return self.pipeline().proceed_review(dispatch, now);
        }
        if self.protect().protect_blocks(dispatch) {
            return self.conclude_stop(dispatch, measured);
        }
        if dispatch.queue.is_none() {
            let announced = self.hook_rules().announce(dispatch.point, &dispatch.cause);
            if !announced.is_empty() {
                return announced;
            }
        }
        if let Some(FinishedRun {
            hook,
            run,
            judgement,
            ..
        }) = self.hook_rules().broken_again(dispatch)
        {
            let reason = is_broken_again(dispatch.point, hook, judgement.headline.as_deref());
            let mut failed = GateSubject::failed_hook(hook, *run);
            failed.point = (dispatch.point == HookPoint::Stop).then_some(dispatch.point);
            return self
                .gates
                .open_gate(GateSubject::BrokenHook(failed), reason);
        }
        match dispatch
            .next()
            .filter(|_| !dispatch.stops_early(&|hook| self.hooks.is_off(hook)))
        {
            Some(hook) => {
                let verifies = self.pipeline().verify_before(dispatch, hook, measured);
                verifies.unwrap_or_else(|| self.hook_rules().start_hook(dispatch, hook))
            }
            None => self.conclude(dispatch, now, measured),
        }
    }

    /// All checks of a turn have run, or those of a pass that verifies the work.
    fn conclude_stop(
        &self,
        dispatch: &HookDispatch,
        measured: Option<&WorkMeasurement>,
    ) -> EngineOutput {
        let feedback = self.retries().feedback(dispatch);
        if self.verify.pass.is_some() {
            return self
                .verification()
                .conclude_pass(feedback.map(PassFeedback::of_hooks), measured);
        }
        let only_reports = self
            .ending
            .as_ref()
            .is_some_and(|ending| ending.outcome == SessionOutcome::Cancelled);
        if let Some(feedback) = feedback {
            return if only_reports {
                EngineOutput::record(Event::Verify(VerifyEvent::DeliveryChecked {
                    passed: false,
                }))
            } else {
                self.retries().judge_stop(dispatch, feedback)
            };
        }
        let changed = match measured {
            _ if dispatch.done.is_empty() => None,
            None => return VerifyRules::measure(WorkChangedBy::Checks),
            Some(measured) => self.verification().change(measured),
        };
        let next = if self.ending.is_some() {
            self.delivery_passed()
        } else {
            self.retries().turn_passed()
        };
        changed
            .into_iter()
            .chain(next.events)
            .fold(EngineOutput::default(), EngineOutput::and)
    }

    /// The turn of a final delivery passed its checks. Its promises count: a question of the agent
    /// opens the gate.
    fn delivery_passed(&self) -> EngineOutput {
        self.stop_rules()
            .escalated_by_the_agent()
            .unwrap_or_else(|| {
                EngineOutput::record(Event::Verify(VerifyEvent::DeliveryChecked { passed: true }))
            })
    }

    /// The stop evaluation of an iteration, or the rules of a pass that verifies the work.
    pub(crate) fn proceed_judging(
        &self,
        judging: &StopEvaluation,
        now: UnixTime,
        measured: Option<&WorkMeasurement>,
    ) -> EngineOutput {
        let next = judging.rules.as_ref().and_then(|rules| rules.front());
        match (&self.verify.pass, next) {
            (Some(_), Some(rule)) => self.stop_rules().check(None, judging, rule),
            (Some(_), None) if judging.runs().next().is_some() => EngineOutput::default(),
            (Some(_), None) => self
                .verification()
                .conclude_pass(PassFeedback::of_rules(&judging.results), measured),
            (None, _) => self.judge_iteration(judging, now, measured),
        }
    }

    /// Rules are checks, so what they change is told from what other hooks changed: creel looks at
    /// the work before and after them.
    fn judge_iteration(
        &self,
        judging: &StopEvaluation,
        now: UnixTime,
        measured: Option<&WorkMeasurement>,
    ) -> EngineOutput {
        let has_rules = self.stop_rules().rules().next().is_some();
        let before = judging.rules.is_none();
        let after = judging.rules.as_ref().is_some_and(VecDeque::is_empty)
            && judging.runs().next().is_none()
            && judging.answers.is_empty();
        let hooks_ran = self
            .phase
            .dispatch()
            .is_some_and(|dispatch| !dispatch.done.is_empty());
        let window = if has_rules && before && hooks_ran {
            Some(WorkChangedBy::Others)
        } else if has_rules && after {
            Some(WorkChangedBy::Checks)
        } else {
            None
        };
        let changed = match (window, measured) {
            (None, _) => None,
            (Some(by), None) => return VerifyRules::measure(by),
            (Some(_), Some(measured)) => self.verification().change(measured),
        };
        let step = self.stop_rules().proceed_judging(None, judging, now);
        let events = changed.into_iter().chain(step.events).collect();
        EngineOutput { events, ..step }
    }

    /// Before the first turn: the gate for a check that cannot start although the hooks at
    /// `session_start` have run. None if every check can.
    fn look_for_programs(&self, measured: Option<&WorkMeasurement>) -> Option<EngineOutput> {
        let mut checks = self.plan().hooks_at(HookPoint::Stop).to_vec();
        checks.retain(|spec| !spec.is_advisory() && self.hooks.is_enabled(HookPoint::Stop, spec));
        if checks.is_empty() {
            return None;
        }
        let Some(measured) = measured else {
            return Some(EngineOutput::default().then(Effect::MeasureWork {
                by: WorkChangedBy::Others,
                checks,
                tests: None,
            }));
        };
        let MissingCheck { check, why } = measured.missing.first()?;
        let failed = FailedHook {
            hook: check.clone(),
            run: None,
            point: Some(HookPoint::Stop),
        };
        let reason = format!("the check `{check}` cannot start: {why}");
        Some(
            self.gates
                .open_gate(GateSubject::BrokenHook(failed), reason),
        )
    }

    /// All hooks of the point have run.
    fn conclude(
        &self,
        dispatch: &HookDispatch,
        now: UnixTime,
        measured: Option<&WorkMeasurement>,
    ) -> EngineOutput {
        let is_check = PipelineKind::of(dispatch.point)
            .is_some_and(|pipeline| pipeline.before() == dispatch.point);
        if let Some(step) = self
            .hook_rules()
            .escalate_failures(dispatch)
            .filter(|_| !is_check)
        {
            return step;
        }
        match dispatch.point {
            HookPoint::SessionStart => {
                let next = self.proceed_between(now);
                let begins = |event: &Event| {
                    matches!(event, Event::Session(SessionEvent::IterationStarted { .. }))
                };
                let looks = next.events.iter().any(begins) && !dispatch.done.is_empty();
                looks
                    .then(|| self.look_for_programs(measured))
                    .flatten()
                    .unwrap_or(next)
            }
            HookPoint::PreIteration => self
                .agent_choice()
                .switch_back(now)
                .unwrap_or_else(|| self.send_iteration(dispatch)),
            HookPoint::PrePrompt => self.send_read_prompt(dispatch),
            HookPoint::Stop => self.conclude_stop(dispatch, measured),
            HookPoint::PostIteration => {
                self.judge_iteration(&StopEvaluation::default(), now, measured)
            }
            HookPoint::OnError => self.after_error(dispatch, now, measured),
            HookPoint::SessionEnd => self.end_rules().end(measured),
            HookPoint::BeforeSubmit
            | HookPoint::AfterSubmit
            | HookPoint::BeforeMerge
            | HookPoint::AfterMerge => self.pipeline().conclude_pipeline(dispatch, measured),
            // These do not belong to the lifecycle: task events, gates and tool calls run independently
            // of it, and stop decisions have their own evaluation.
            HookPoint::OnTaskComplete
            | HookPoint::OnGate
            | HookPoint::PreTool
            | HookPoint::PostTool
            | HookPoint::OnQuestion
            | HookPoint::Automation
            | HookPoint::StopDecision => EngineOutput::default(),
        }
    }

    /// The next iteration, or the reason why there is none.
    pub(crate) fn proceed_between(&self, now: UnixTime) -> EngineOutput {
        if let Some(step) = self
            .retries()
            .too_many_errors()
            .or_else(|| self.pipeline().begin_between())
        {
            return step;
        }
        if self.steering.stop.is_some() {
            return self
                .end_rules()
                .leave_loop(&LoopEnd::offering(SessionOutcome::Cancelled, STOPPED));
        }
        // Self-driven sessions are not evaluated. Running hooks finish first, so the session ends
        // only here.
        if let Some(reason) = self
            .stop
            .promised
            .as_ref()
            .filter(|_| self.plan().is_led_from_outside())
        {
            let explanation = match reason.trim() {
                "" => "the agent says it is done".to_owned(),
                reason => format!("the agent says it is done: {reason}"),
            };
            return self.end_rules().leave_loop(&LoopEnd::undelivered(
                SessionOutcome::Complete,
                &explanation,
            ));
        }
        if let Some(step) = self
            .side_rules()
            .take_up_a_loop()
            .or_else(|| self.side_rules().ask_about_failure())
        {
            return step;
        }
        if self.iterations.used() >= self.max_iterations() {
            let for_messages = match self.iterations.messages {
                0 => String::new(),
                messages => format!(", {messages} of them for messages of the agent or its hooks"),
            };
            let reason = format!(
                "the limit of {} was reached{for_messages}",
                counted(self.max_iterations(), "iteration")
            );
            return self
                .end_rules()
                .leave_loop(&LoopEnd::offering(SessionOutcome::Limit, &reason));
        }
        if let Some(step) = self.budget().over_budget() {
            return step;
        }
        if self.steering.paused || self.plan().is_led_from_outside() {
            return EngineOutput::default();
        }
        self.retries().wait_over(now).unwrap_or_else(|| {
            EngineOutput::record(Event::Session(SessionEvent::IterationStarted {
                iteration: self.iterations.current + 1,
            }))
        })
    }

    fn send_iteration(&self, dispatch: &HookDispatch) -> EngineOutput {
        if self.steering.paused || self.beside().is_busy_beside() {
            return EngineOutput::default();
        }
        let items = self.pending.waiting_ids();
        let ask = self.plan().gates.delivery == DeliveryPolicy::Ask && !items.is_empty();
        if ask && items.iter().any(|id| !dispatch.seen.contains(id)) {
            let reason = format!(
                "the next prompt contains {}",
                counted(items.len(), "pending item")
            );
            return self
                .gates
                .open_gate(GateSubject::Delivery { items }, reason);
        }
        self.prompts().iteration_prompt(dispatch, items)
    }

    /// The hooks have read the prompt: it is sent, with what they add.
    fn send_read_prompt(&self, dispatch: &HookDispatch) -> EngineOutput {
        let DispatchCause::Prompt(prompt) = &dispatch.cause else {
            return EngineOutput::default();
        };
        if !prompt.items.is_empty() && self.beside().is_busy_beside() {
            return EngineOutput::default();
        }
        let added = dispatch.piped_text();
        self.prompts()
            .transmit(self.prompts().with_context(prompt, added.as_deref()))
    }

    fn after_error(
        &self,
        dispatch: &HookDispatch,
        now: UnixTime,
        measured: Option<&WorkMeasurement>,
    ) -> EngineOutput {
        // After the last turn that may fail, the user decides before another one is paid for.
        let may_recover =
            self.pipelines.is_open() || self.retry.errors < self.plan().max_consecutive_errors;
        match dispatch.piped_text().filter(|_| may_recover) {
            Some(text) => self
                .retries()
                .must_leave_the_server_alone(now)
                .unwrap_or_else(|| self.prompts().recovery_prompt(&text)),
            None if self.pipelines.is_open() => self
                .watch_rules()
                .wait_on()
                .unwrap_or_else(|| self.pipeline().proceed_pipeline()),
            None if self.ending.is_some() => self.end_rules().proceed_delivery(now, measured),
            None => self.iterations.complete_iteration(IterationOutcome::Failed),
        }
    }

    /// A message that waits when the session would be complete is answered first. If the budget
    /// does not allow that, the session stays complete.
    pub(crate) fn proceed_exit(&self, ending: &LoopEnd, now: UnixTime) -> EngineOutput {
        let answers = !self.iterations.open && self.budget().used_up().is_none();
        let answer = answers
            .then(|| self.end_rules().answer_before_the_end(ending, now))
            .flatten();
        answer.unwrap_or_else(|| self.end_rules().leave_loop(ending))
    }
}

impl SessionState {
    pub(crate) fn proceed_due(&self, due: &DuePrompt, now: UnixTime) -> EngineOutput {
        if self.steering.paused {
            return EngineOutput::default();
        }
        // A session that should stop does not wait for an agent first.
        let waits = self.limits.hold.is_some()
            && self.steering.stop.is_some()
            && matches!(due, DuePrompt::Again(_));
        if waits && self.ending.is_none() && !self.pipelines.is_open() {
            return self.iterations.complete_iteration(IterationOutcome::Failed);
        }
        if let Some(step) = self.agent_choice().limit_gate(now) {
            return step;
        }
        if let Some(step) = self
            .retries()
            .wait_over(now)
            .or_else(|| self.agent_choice().switch_after_wait(now))
        {
            return step;
        }
        match due {
            DuePrompt::Cancelled(_) if self.steering.stop.is_some() => self
                .watch_rules()
                .wait_on()
                .unwrap_or_else(|| self.iterations.complete_iteration(IterationOutcome::Failed)),
            DuePrompt::Cancelled(prompt) if self.steering.person_spoke_after(prompt.messages) => {
                self.prompts().message_prompt(None)
            }
            DuePrompt::Again(prompt) | DuePrompt::Cancelled(prompt)
                if !prompt.items.is_empty() && self.beside().is_busy_beside() =>
            {
                EngineOutput::default()
            }
            DuePrompt::Again(prompt) | DuePrompt::Cancelled(prompt) => {
                self.prompts().send_again(prompt)
            }
            DuePrompt::Message => self.prompts().message_prompt(None),
            DuePrompt::Remediation(text) => self.prompts().remediation_prompt(text),
            DuePrompt::Feedback(text) => self.prompts().feedback_prompt(text),
        }
    }
}
