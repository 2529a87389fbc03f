//! How the events of gates and retries change the state.

use crate::engine::{
    event::{Actor, GateEvent, IterationOutcome, RetryEvent, SessionOutcome},
    hooks::dispatch::DispatchQuestion,
    session::{
        Phase, SessionState,
        delivery::LoopEnd,
        gate::{Gate, GateChoice, GateKind},
        retry::RetryWait,
        turn::DuePrompt,
    },
    time::{TimeSpan, UnixTime},
};

impl SessionState {
    pub(super) fn apply_gate(&mut self, at: UnixTime, event: &GateEvent) {
        match event {
            GateEvent::Opened { gate, about, reason, hook, run, items, ask, choices } => {
                self.gates.last = *gate;
                let (reason, hook, items, choices) = (reason.clone(), hook.clone(), items.clone(), choices.clone());
                // Journals of earlier versions do not name the run.
                let run = run.or_else(|| self.side.next_failure_of(hook.as_deref()?, *about));
                let (id, about, ask) = (*gate, *about, *ask);
                self.gates.open = Some(Gate { id, about, reason, hook, run, items, ask, choices, opened: at });
            }
            GateEvent::Answered { choice, by, .. } => self.gate_answered(at, *choice, by),
        }
    }

    pub(super) fn gate_answered(&mut self, at: UnixTime, choice: GateChoice, by: &Actor) {
        let Some(gate) = self.gates.open.take() else { return };
        let of_a_loop = self.is_of_a_loop(&gate);
        if of_a_loop {
            self.stop.blocked = self.stop.escalated.take().map(|(_, task, _)| task).into_iter().collect();
        }
        let beside = self.side.asked(gate.run, choice);
        if gate.about == GateKind::Tampered {
            self.tampered_answered(choice);
        }
        let reason = || gate.reason.clone();
        if choice.leaves_the_loop() {
            self.set_turn_aside();
        }
        match choice {
            GateChoice::Abort => return self.exit(SessionOutcome::Aborted, &reason()),
            GateChoice::Fail => return self.exit(SessionOutcome::Failed, &reason()),
            GateChoice::Escalate => return self.exit(SessionOutcome::Escalated, &reason()),
            GateChoice::Complete => {
                self.hold_what_stop_hooks_piped();
                self.phase = Phase::Exit(LoopEnd::offering(SessionOutcome::Complete, "accepted by a person"));
                return;
            }
            GateChoice::Stop => return self.budget_stopped(by, &gate),
            GateChoice::Approve
            | GateChoice::Skip
            | GateChoice::Continue
            | GateChoice::Send
            | GateChoice::Message
            | GateChoice::Ignore
            | GateChoice::Disable
            | GateChoice::Retry
            | GateChoice::Wait
            | GateChoice::Switch
            | GateChoice::Leave
            | GateChoice::AllowOnce
            | GateChoice::AllowAlways
            | GateChoice::RejectOnce
            | GateChoice::RejectAlways
            | GateChoice::Cancel => {}
        }
        match gate.about {
            GateKind::FinalDelivery => {
                // Not the items added while the gate was open: the user has not seen those.
                let approved = self.pending.waiting_ids().into_iter().filter(|id| gate.items.contains(id)).collect();
                if let Some(ending) = &mut self.ending {
                    ending.approved = Some(approved);
                    ending.seen = gate.items;
                }
            }
            GateKind::Delivery => {
                if let Phase::Hooks(dispatch) = &mut self.phase {
                    dispatch.seen = gate.items;
                }
            }
            GateKind::RetryLimit => self.limit_answered(choice, &gate.reason),
            GateKind::Escalation if matches!(self.phase, Phase::Escalated(_)) => {
                self.phase = Phase::Between;
                self.looked_at();
            }
            GateKind::Escalation if of_a_loop => self.looked_at(),
            GateKind::Escalation => self.ask_once(DispatchQuestion::Escalation),
            GateKind::Errors => self.retry.errors = 0,
            GateKind::BrokenHook if beside => {}
            GateKind::BrokenHook => self.broken_answered(choice, gate.hook.as_deref()),
            GateKind::Permission if choice == GateChoice::Cancel => self.asks.waiting.clear(),
            GateKind::Permission => {
                let agent = self.asking_agent().to_owned();
                self.asks.answered(choice, &agent);
            }
            GateKind::UsageLimit => self.limit_answered_by_user(at, choice),
            GateKind::Budget => self.account.grant(&self.began.plan.budget),
            // Settled above, whatever the answer.
            GateKind::Tampered => {}
            GateKind::Submit | GateKind::Merge => self.pipeline_answered(choice, by, &gate),
        }
    }

    pub(super) fn exit(&mut self, outcome: SessionOutcome, reason: &str) {
        self.phase = Phase::Exit(LoopEnd::undelivered(outcome, reason));
    }

    pub(super) fn limit_answered(&mut self, choice: GateChoice, reason: &str) {
        match choice {
            GateChoice::Ignore => {
                self.iterations.forced_past = Some(reason.to_owned());
                self.accept_protected();
                self.hold_what_stop_hooks_piped();
                self.phase = Phase::Settled(IterationOutcome::Forced);
            }
            GateChoice::Send | GateChoice::Message => {
                self.hold_what_stop_hooks_piped();
                self.phase = Phase::Due(DuePrompt::Message);
            }
            GateChoice::Continue => {
                self.grant_retries();
                self.forget_limit();
            }
            // Without the hook the turn is judged again.
            GateChoice::Disable => self.forget_limit(),
            GateChoice::Approve
            | GateChoice::Skip
            | GateChoice::Retry
            | GateChoice::Wait
            | GateChoice::Switch
            | GateChoice::Complete
            | GateChoice::Escalate
            | GateChoice::Fail
            | GateChoice::Stop
            | GateChoice::Leave
            | GateChoice::AllowOnce
            | GateChoice::AllowAlways
            | GateChoice::RejectOnce
            | GateChoice::RejectAlways
            | GateChoice::Cancel
            | GateChoice::Abort => {}
        }
    }

    pub(super) fn forget_limit(&mut self) {
        if let Phase::Hooks(dispatch) = &mut self.phase {
            dispatch.asked.retain(|asked| *asked != DispatchQuestion::Limit);
        }
    }

    pub(super) fn broken_answered(&mut self, choice: GateChoice, hook: Option<&str>) {
        let (Phase::Hooks(dispatch), Some(hook), GateChoice::Retry) = (&mut self.phase, hook, choice) else { return };
        dispatch.requeue(hook);
    }

    pub(super) fn ask_once(&mut self, question: DispatchQuestion) {
        if let Phase::Hooks(dispatch) = &mut self.phase {
            dispatch.asked.push(question);
        }
    }

    pub(super) fn apply_retry(&mut self, event: &RetryEvent) {
        match event {
            RetryEvent::Counted { used, limit, .. } => self.retry_counted(*used, *limit),
            RetryEvent::LimitReached { limit, .. } => {
                self.retry.applies = Some(*limit);
                self.ask_once(DispatchQuestion::Limit);
            }
            RetryEvent::BackoffStarted { until, wait_ms } => {
                self.retry.wait = RetryWait::Until(*until);
                self.retry.last_wait = *wait_ms;
            }
        }
    }

    pub(super) fn retry_counted(&mut self, used: u32, limit: u32) {
        let feedback = if let Phase::Hooks(dispatch) = &self.phase { self.feedback(dispatch) } else { None };
        self.retry.used = used;
        self.retry.applies = Some(limit);
        let Some(feedback) = feedback else { return };
        self.count_retries(&feedback);
        self.retry.last_feedback = Some(feedback.text.clone());
        self.retry.last_usual = Some(feedback.usual);
        self.retry.wait = RetryWait::Due { nth: used, at_least: TimeSpan::default() };
        self.phase = Phase::Due(DuePrompt::Feedback(feedback.text));
    }
}
