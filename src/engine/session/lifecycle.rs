//! The main line: what is due in each phase, and what follows when the hooks of a point have run.
//!
//! Decides the order of the lifecycle. The conditions of each step belong to the machines that it asks.

use crate::engine::{
    event::{Event, IterationOutcome, SessionEvent, SessionOutcome},
    gate::subject::GateSubject,
    hooks::{
        dispatch::{FinishedRun, HookDispatch, is_broken_again},
        point::HookPoint,
    },
    output::EngineOutput,
    policy::DeliveryPolicy,
    session::{
        SessionState,
        phase::{LoopEnd, STOPPED},
    },
    stop::evaluation::StopEvaluation,
    submit::kind::PipelineKind,
    time::UnixTime,
    turn::DuePrompt,
    wording::counted,
};

impl SessionState {
    pub(crate) fn proceed_hooks(&self, dispatch: &HookDispatch, now: UnixTime) -> EngineOutput {
        if dispatch.running.is_some() {
            return self.pipeline().proceed_review(dispatch, now);
        }
        if self.protect().protect_blocks(dispatch) {
            return self.retries().judge_stop(dispatch);
        }
        if dispatch.queue.is_none() {
            let announced = self.hook_rules().announce(dispatch.point);
            if !announced.is_empty() {
                return announced;
            }
        }
        if let Some(FinishedRun { hook, run, .. }) = self.hook_rules().broken_again(dispatch) {
            let reason = is_broken_again(dispatch.point, hook);
            return self.gates.open_gate(GateSubject::BrokenHook(GateSubject::failed_hook(hook, *run)), reason);
        }
        match dispatch.next().filter(|_| !dispatch.stops_early(&|hook| self.hooks.is_off(hook))) {
            Some(hook) => self.hook_rules().start_hook(dispatch, hook),
            None => self.conclude(dispatch, now),
        }
    }

    /// All hooks of the point have run.
    fn conclude(&self, dispatch: &HookDispatch, now: UnixTime) -> EngineOutput {
        let is_check = PipelineKind::of(dispatch.point).is_some_and(|pipeline| pipeline.before() == dispatch.point);
        if let Some(step) = self.hook_rules().escalate_failures(dispatch).filter(|_| !is_check) {
            return step;
        }
        match dispatch.point {
            HookPoint::SessionStart => self.proceed_between(now),
            HookPoint::PreIteration => {
                self.agent_choice().switch_back(now).unwrap_or_else(|| self.send_iteration(dispatch))
            }
            HookPoint::Stop => self.retries().judge_stop(dispatch),
            HookPoint::PostIteration => self.stop_rules().proceed_judging(None, &StopEvaluation::default(), now),
            HookPoint::OnError => self.after_error(dispatch, now),
            HookPoint::SessionEnd => self.end_rules().end(),
            HookPoint::BeforeSubmit | HookPoint::AfterSubmit | HookPoint::BeforeMerge | HookPoint::AfterMerge => {
                self.pipeline().conclude_pipeline(dispatch)
            }
            // These do not belong to the lifecycle: task events and gates run independently of it, and stop decisions
            // have their own evaluation.
            HookPoint::OnTaskComplete | HookPoint::OnGate | HookPoint::Automation | HookPoint::StopDecision => {
                EngineOutput::default()
            }
        }
    }

    /// The next iteration, or the reason why there is none.
    pub(crate) fn proceed_between(&self, now: UnixTime) -> EngineOutput {
        if let Some(step) = self.retries().too_many_errors().or_else(|| self.pipeline().begin_between()) {
            return step;
        }
        if self.steering.stop.is_some() {
            return self.end_rules().leave_loop(&LoopEnd::offering(SessionOutcome::Cancelled, STOPPED));
        }
        // Self-driven sessions are not evaluated. Running hooks finish first, so the session ends only here.
        if let Some(reason) = self.stop.promised.as_ref().filter(|_| self.plan().is_led_from_outside()) {
            return self.end_rules().leave_loop(&LoopEnd::undelivered(SessionOutcome::Complete, reason));
        }
        if let Some(step) = self.side_rules().take_up_a_loop().or_else(|| self.side_rules().take_up_trouble()) {
            return step;
        }
        if self.iterations.used() >= self.max_iterations() {
            let for_messages = match self.iterations.messages {
                0 => String::new(),
                messages => format!(", {messages} of them for messages of the agent or its hooks"),
            };
            let reason =
                format!("the limit of {} was reached{for_messages}", counted(self.max_iterations(), "iteration"));
            return self.end_rules().leave_loop(&LoopEnd::offering(SessionOutcome::Limit, &reason));
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
            let reason = format!("the next prompt contains {}", counted(items.len(), "pending item"));
            return self.gates.open_gate(GateSubject::Delivery { items }, reason);
        }
        self.prompts().iteration_prompt(dispatch, items)
    }

    fn after_error(&self, dispatch: &HookDispatch, now: UnixTime) -> EngineOutput {
        match dispatch.piped_text() {
            Some(text) => {
                self.retries().must_leave_the_server_alone(now).unwrap_or_else(|| self.prompts().recovery_prompt(text))
            }
            None if self.pipelines.is_open() => self.pipeline().proceed_pipeline(),
            None if self.ending.is_some() => self.end_rules().proceed_delivery(now),
            None => self.iterations.complete_iteration(IterationOutcome::Failed),
        }
    }

    /// A message that waits when the session would be complete is answered first. If the budget does not allow that,
    /// the session stays complete.
    pub(crate) fn proceed_exit(&self, ending: &LoopEnd, now: UnixTime) -> EngineOutput {
        let answers = !self.iterations.open && self.budget().used_up().is_none();
        let answer = answers.then(|| self.end_rules().answer_before_the_end(ending, now)).flatten();
        answer.unwrap_or_else(|| self.end_rules().leave_loop(ending))
    }
}

impl SessionState {
    pub(crate) fn proceed_due(&self, due: &DuePrompt, now: UnixTime) -> EngineOutput {
        if self.steering.paused {
            return EngineOutput::default();
        }
        if let Some(step) = self.agent_choice().limit_gate(now) {
            return step;
        }
        if let Some(step) = self.retries().wait_over(now).or_else(|| self.agent_choice().switch_after_wait(now)) {
            return step;
        }
        match due {
            DuePrompt::Cancelled(_) if self.steering.stop.is_some() => {
                self.iterations.complete_iteration(IterationOutcome::Failed)
            }
            DuePrompt::Cancelled(prompt) if self.steering.person_spoke_after(prompt.messages) => {
                self.prompts().message_prompt(None)
            }
            DuePrompt::Again(prompt) | DuePrompt::Cancelled(prompt)
                if !prompt.items.is_empty() && self.beside().is_busy_beside() =>
            {
                EngineOutput::default()
            }
            DuePrompt::Again(prompt) | DuePrompt::Cancelled(prompt) => {
                self.prompts().send(self.prompts().again(prompt))
            }
            DuePrompt::Message => self.prompts().message_prompt(None),
            DuePrompt::Remediation(text) => self.prompts().remediation_prompt(text),
            DuePrompt::Feedback(text) => self.prompts().feedback_prompt(text),
        }
    }
}
