//! Resuming after creel was killed, or after a session was stopped.
//!
//! # Invariants
//! - Work in progress is recorded as cut and done again: a turn unchanged, a hook from its start.
//!   It makes no difference whether creel was killed or the user stopped the session immediately.
//! - A session that was paused when creel was killed is still paused, unless it is resumed
//!   unattended.
//! - Counters, pending items and open gates are unchanged. A session that had ended at a gate opens
//!   it again before anything else happens, unless the user starts from a checkpoint: that counts
//!   as `continue`.
//! - A check that could not start runs again instead: its program may be there now.

use crate::engine::{
    conversation::ToolStatus,
    event::{
        ActorKind, Event, HookEvent, HookFinished, PromptSent, SessionEvent, SessionOutcome,
        UserPresence, WorkflowEvent,
    },
    gate::{
        Gate,
        kind::{GateChoice, GateResponse},
    },
    hooks::{
        dispatch::{DispatchCause, HookDispatch},
        point::HookPoint,
    },
    input::GateAnswer,
    output::EngineOutput,
    pending::ItemState,
    refusal::Refusal,
    session::event::ResumeAnswer,
    session::{
        SessionState,
        event::{AfterResume, FinalDeliveryMode, ResumeDecision},
        phase::{AskedGate, LoopEnd, Phase},
    },
    steering::QueuedMessage,
    stop::apply::{cut_judgements, looked_at, unseen},
    submit::{
        apply::submit_again,
        state::{FinishedPipeline, PipelineAgain, ReturnTo},
    },
    time::UnixTime,
    turn::{DuePrompt, reports::CUT_OFF},
};

impl SessionState {
    pub(crate) fn on_resume(
        &self,
        presence: UserPresence,
        max_iterations: Option<u32>,
        checkpoint: Option<u32>,
        answers: bool,
    ) -> EngineOutput {
        if let Some(refusal) = self
            .refuse_resume(max_iterations)
            .or_else(|| self.stop.refuse_checkpoint(checkpoint))
        {
            return EngineOutput::refuse(refusal);
        }
        let dispatches = self
            .phase
            .dispatch()
            .into_iter()
            .chain(self.beside().dispatches_beside());
        let runs = dispatches.filter_map(|dispatch| self.pipeline().cut_run(dispatch));
        let runs: Vec<HookFinished> = runs
            .chain(self.tasks.automation.cut_automation_run())
            .chain(self.stop_rules().cut_stop_hooks())
            .collect();
        let turn = self
            .phase
            .turn_in_flight()
            .map(|prompt| format!("turn {}", prompt.turn));
        let steps: Vec<_> = self.tasks.flows.cut_steps().collect();
        let cut_runs = runs
            .iter()
            .map(|run| format!("run {} of {}", run.run, run.hook));
        let cut_steps = steps
            .iter()
            .map(|(run, ended)| format!("run {run} of {}", ended.step));
        let checked = self
            .stop_rules()
            .judgements()
            .flat_map(|(_, judging)| &judging.checking);
        let cut_rules = checked.map(|rule| format!("run {} of {}", rule.run, rule.hook));
        let cut = cut_runs
            .chain(cut_steps)
            .chain(cut_rules)
            .chain(turn)
            .collect();
        let runs = runs
            .into_iter()
            .map(|run| Event::Hook(HookEvent::Finished(Box::new(run))));
        let steps = steps
            .into_iter()
            .map(|(_, ended)| Event::Workflow(WorkflowEvent::StepEnded(Box::new(ended))));
        let asked = self.asked_again(max_iterations, checkpoint);
        // A session without a gate to open again continues, and so do the tasks that it blocked.
        let continues = asked.is_none() && self.phase.outcome() == Some(SessionOutcome::Escalated);
        let blocked = self
            .stop
            .blocked
            .iter()
            .chain(self.stop.escalated.iter().map(|(_, task, _)| task));
        let started = self
            .task_rules()
            .unblock(blocked.filter(|_| continues), &ActorKind::Cli.into())
            .events;
        // The agent's requests are gone, and it will repeat them.
        let calls = self.turn_rules().close_calls(ToolStatus::Failed, CUT_OFF);
        let before = runs.chain(steps).chain(calls).chain(started).fold(
            self.gates.unasked(&ActorKind::Policy.into()),
            EngineOutput::and,
        );
        // Resuming a session that has ended continues it. A kill is no reason to end a pause,
        // unless no user is there to end it.
        let attended = presence == UserPresence::Attended;
        let paused = self.steering.paused && self.phase.outcome().is_none() && attended;
        let resumed = before.and(Event::Session(SessionEvent::Resumed {
            cut,
            presence,
            max_iterations,
            checkpoint,
            answer: None,
            paused,
            hooks: self.hooks_on_resume(),
            decision: None,
        }));
        let granted = self.ended_by_its_budget().map(|why| {
            Event::warning(format!(
                "{why}; you resumed it, so creel grants the same budget again"
            ))
        });
        let opened = asked
            .filter(|asked| answers || !asked.gate.subject.is_broken_check())
            .map(|asked| {
                let Gate {
                    subject,
                    choices,
                    reason,
                    ..
                } = asked.gate.clone();
                Event::Gate(subject.opened(self.gates.last.next(), choices, reason))
            });
        granted
            .into_iter()
            .chain(self.stop.offer_checkpoint(checkpoint))
            .chain(opened)
            .fold(resumed, EngineOutput::and)
    }

    /// The hooks of `session_start` that Claude Code also runs now.
    fn hooks_on_resume(&self) -> Vec<String> {
        let (point, cause) = (HookPoint::SessionStart, DispatchCause::Resumed);
        if self.iterations.current == 0 {
            return Vec::new();
        }
        self.hook_rules().due(point, &cause)
    }

    /// The gate that a resumed session opens again.
    fn asked_again(
        &self,
        max_iterations: Option<u32>,
        checkpoint: Option<u32>,
    ) -> Option<&AskedGate> {
        let ending = self
            .ending
            .as_ref()
            .filter(|_| after_resume(self, max_iterations, checkpoint) == AfterResume::Gate);
        ending.and_then(|ending| ending.asked.as_deref())
    }

    /// Adds the answer that the user gave together with `resume`: to the gate that is open then, or
    /// for the gate of the submit that starts again.
    pub(crate) fn answer_on_resume(
        &self,
        now: UnixTime,
        mut resumed: EngineOutput,
        given: ResumeAnswer,
    ) -> EngineOutput {
        if resumed.refusal.is_some() {
            return resumed;
        }
        let mut after = self.clone();
        resumed
            .events
            .iter()
            .for_each(|event| after.apply(now, event));
        let Some(gate) = &after.gates.open else {
            return Self::answer_the_pipeline(&after, resumed, &given);
        };
        let ResumeAnswer { choice, text } = given;
        let answer = GateAnswer {
            gate: gate.id,
            choice,
            text,
            items: None,
        };
        let answered = after
            .gate_rules()
            .answer_gate(&ActorKind::Cli.into(), answer);
        if answered.refusal.is_some() {
            return answered;
        }
        resumed.events.extend(answered.events);
        resumed.effects.extend(answered.effects);
        resumed
    }

    /// The answers that `resume --answer` offers after the session has ended.
    pub fn choices_on_resume(&self) -> Vec<GateChoice> {
        // `resume` cannot answer a request of a turn that is gone.
        let open = self
            .gates
            .open
            .as_ref()
            .filter(|gate| gate.subject.ask().is_none());
        let asked = self
            .ending
            .as_ref()
            .and_then(|ending| ending.asked.as_ref())
            .map(|asked| &asked.gate)
            .or(open);
        let left = self
            .pipelines
            .last
            .as_deref()
            .filter(|last| last.waits_for_a_person());
        asked
            .map(|gate| gate.choices.clone())
            .or(left.map(FinishedPipeline::choices))
            .unwrap_or_default()
    }

    fn answer_the_pipeline(
        after: &Self,
        mut resumed: EngineOutput,
        given: &ResumeAnswer,
    ) -> EngineOutput {
        let waits = after
            .pipelines
            .last
            .as_deref()
            .filter(|last| last.waits_for_a_person());
        let Some(last) = waits.filter(|_| {
            after.phase == Phase::Delivering || matches!(after.phase, Phase::PipelineOnly(_))
        }) else {
            return EngineOutput::refuse(Refusal::NothingToAnswer);
        };
        let offered = last.choices();
        if !offered.contains(&given.choice) {
            let (gate, choice) = (after.gates.last, given.choice);
            return EngineOutput::refuse(Refusal::ChoiceNotOffered {
                gate,
                choice,
                offered,
            });
        }
        if given.choice == GateChoice::Send
            && given
                .text
                .as_deref()
                .is_none_or(|text| text.trim().is_empty())
        {
            return EngineOutput::refuse(Refusal::EmptyGateMessage);
        }
        for event in &mut resumed.events {
            if let Event::Session(SessionEvent::Resumed { answer, .. }) = event {
                *answer = Some(given.clone());
            }
        }
        resumed
    }

    /// Which limit was used up, if that ended the session: in its loop, or during a submit.
    fn ended_by_its_budget(&self) -> Option<String> {
        if self
            .ending
            .as_ref()
            .is_some_and(|ending| ending.asked.is_some())
        {
            return None;
        }
        let had_iterations_left = self.iterations.used() < self.max_iterations();
        let ended = self.phase.outcome();
        let by_budget = ended == Some(SessionOutcome::Escalated)
            || (ended == Some(SessionOutcome::Limit) && had_iterations_left);
        self.budget().used_up().filter(|_| by_budget)
    }

    /// Why the session cannot be resumed with that iteration limit. None if it can.
    pub fn refuse_resume(&self, max_iterations: Option<u32>) -> Option<Refusal> {
        self.phase.outcome()?;
        let ending = self.ending.as_ref().filter(|ending| !ending.interrupted)?;
        match ending.outcome {
            SessionOutcome::Complete | SessionOutcome::Forced | SessionOutcome::Unverified => {
                Some(Refusal::SessionComplete)
            }
            SessionOutcome::Limit
                if max_iterations.unwrap_or(self.max_iterations()) <= self.iterations.used() =>
            {
                Some(Refusal::IterationLimitUsed(self.iterations.used()))
            }
            SessionOutcome::Limit
            | SessionOutcome::Escalated
            | SessionOutcome::Aborted
            | SessionOutcome::Failed
            | SessionOutcome::Cancelled => None,
        }
    }
}

pub(crate) fn resumed(
    session: &mut SessionState,
    presence: UserPresence,
    max_iterations: Option<u32>,
    checkpoint: Option<u32>,
    answer: Option<ResumeAnswer>,
    decision: ResumeDecision,
) {
    if let Some(kept) = checkpoint.and_then(|number| session.stop.checkpoint(number)) {
        let text = kept.checkpoint.for_agent();
        if session.iterations.open {
            // An open iteration continues with its old prompt, and its stop decision replaces
            // `next_prompt`. So the checkpoint is sent as a message.
            session.steering.messages.push(QueuedMessage {
                by: ActorKind::Cli,
                text,
            });
        } else {
            let text = [Some(text), session.turns.next_prompt.take()];
            session.turns.next_prompt =
                Some(text.into_iter().flatten().collect::<Vec<_>>().join("\n\n"));
        }
    }
    session.account.grant(decision.budgets);
    session.presence = presence;
    session.iterations.raised_limit = max_iterations.or(session.iterations.raised_limit);
    session.steering.stop = None;
    session.unsettled.asked = false;
    session.processes.clear();
    session.requests.waiting.clear();
    session.tool_hooks.resumed();
    cut_judgements(session);
    session.pipelines.review_resumed();
    let cut = session.phase.turn_in_flight().cloned();
    if let Some(prompt) = &cut {
        unseen(session);
        session.pending.set_state(&prompt.items, ItemState::Pending);
    }
    submit_again(session);
    if matches!(
        decision.next,
        AfterResume::Submit | AfterResume::PipelineOnly
    ) {
        session.pipelines.again = Some(PipelineAgain { answer });
    }
    continue_at(session, decision.next, cut);
    // A turn that is sent again is unchanged, so its items cannot be edited any more.
    if let Some(prompt) = session.phase.waiting_prompt() {
        session
            .pending
            .set_state(&prompt.items, ItemState::InFlight);
    }
}

/// How the session continues, decided once, before it is recorded.
pub(crate) fn resume_decision(
    session: &SessionState,
    max_iterations: Option<u32>,
    checkpoint: Option<u32>,
) -> ResumeDecision {
    let by_budget = session.ended_by_its_budget().is_some();
    let budgets = by_budget.then(|| session.account.next_grant(&session.plan().budget));
    ResumeDecision {
        next: after_resume(session, max_iterations, checkpoint),
        budgets,
    }
}

fn after_resume(
    session: &SessionState,
    max_iterations: Option<u32>,
    checkpoint: Option<u32>,
) -> AfterResume {
    let interrupted_turn = || {
        if session.phase.turn_in_flight().is_some() {
            AfterResume::Again
        } else {
            AfterResume::Same
        }
    };
    let has_ended = matches!(session.phase, Phase::Ended(_));
    if session.pipelines.is_open() {
        return interrupted_turn();
    }
    if has_ended && session.began.only_pipeline.is_some() {
        return AfterResume::PipelineOnly;
    }
    let ending = session.ending.as_ref();
    if has_ended && checkpoint.is_none() && ending.is_some_and(|ending| ending.asked.is_some()) {
        return AfterResume::Gate;
    }
    if submit_waits(session) {
        return AfterResume::Submit;
    }
    if ending.is_some_and(|ending| ending.interrupted) {
        return AfterResume::Delivery;
    }
    if !has_ended && ending.is_none_or(|ending| ending.outcome != SessionOutcome::Cancelled) {
        return interrupted_turn();
    }
    // The loop had ended before the user was needed, unless the user raises its limit.
    let counts = |end: &LoopEnd| end.outcome != SessionOutcome::Limit || max_iterations.is_none();
    if ending
        .and_then(|ending| ending.before.as_deref())
        .is_some_and(counts)
    {
        AfterResume::EarlierEnd
    } else if ending.is_some_and(|ending| ending.stopped_at.is_some()) {
        AfterResume::StoppedPhase
    } else if session.iterations.current > 0 {
        AfterResume::NextIteration
    } else {
        AfterResume::Start
    }
}

/// Whether the work was complete and only its submit needs the user.
fn submit_waits(session: &SessionState) -> bool {
    let interrupted = session
        .ending
        .as_ref()
        .is_some_and(|ending| ending.interrupted);
    let over = matches!(session.phase, Phase::Ended(_)) || interrupted;
    let escalated = session
        .ending
        .as_ref()
        .is_some_and(|ending| ending.outcome == SessionOutcome::Escalated);
    let waits =
        |last: &FinishedPipeline| last.left_open || (escalated && last.waits_for_a_person());
    over && session.pipelines.last.as_deref().is_some_and(waits)
}

fn continue_at(session: &mut SessionState, next: AfterResume, cut: Option<PromptSent>) {
    match next {
        AfterResume::Same => {}
        AfterResume::Again => {
            if let Some(prompt) = cut {
                session.phase = Phase::Due(DuePrompt::Again(Box::new(prompt)));
            }
        }
        AfterResume::PipelineOnly => {
            if let Some(pipeline) = session.began.only_pipeline {
                session.ending = None;
                session.phase = Phase::PipelineOnly(pipeline);
            }
        }
        AfterResume::Submit => {
            session.retry.errors = 0;
            let outside = session.plan().is_led_from_outside();
            if let Some(ending) = &mut session.ending {
                match ending.before.take() {
                    Some(before) => *ending = *before,
                    // Journals of earlier versions do not have the end before the submit.
                    None => ending.outcome = SessionOutcome::Complete,
                }
                if ending.outcome == SessionOutcome::Limit {
                    session.pipelines.wanted =
                        session.pipelines.last.as_deref().map(|last| last.pipeline);
                }
                ending.delivery = if outside {
                    FinalDeliveryMode::No
                } else {
                    FinalDeliveryMode::Offer
                };
            }
            session.phase = cut.map_or(Phase::Delivering, |prompt| {
                Phase::Due(DuePrompt::Again(Box::new(prompt)))
            });
        }
        AfterResume::Delivery => {
            if let Some(ending) = &mut session.ending {
                let before = ending.before.take();
                *ending = LoopEnd {
                    before,
                    ..LoopEnd::offering(ending.outcome, &ending.reason)
                };
            }
            // The pass over the checks was cut. A new one follows if it is needed.
            session.verify.pass = None;
            session.phase = Phase::Delivering;
        }
        AfterResume::Gate => stand_at_gate(session),
        AfterResume::EarlierEnd
        | AfterResume::StoppedPhase
        | AfterResume::NextIteration
        | AfterResume::Start => {
            reenter(session, next);
        }
    }
}

/// Everything is again as it was when the session ended at its gate. The record of the gate
/// follows, except for a check that runs again.
fn stand_at_gate(session: &mut SessionState) {
    let Some(LoopEnd {
        before,
        asked: Some(asked),
        ..
    }) = session.ending.take()
    else {
        return;
    };
    let AskedGate {
        gate,
        phase,
        pass,
        in_iteration,
        pipeline_run,
    } = *asked;
    session.ending = before.map(|before| *before);
    session.pipelines.followed |= pipeline_run
        .as_ref()
        .is_some_and(|pipeline_run| pipeline_run.back == ReturnTo::End);
    session.pipelines.pipeline_run = pipeline_run;
    session.phase = phase;
    session.verify.pass = pass;
    session.iterations.open = in_iteration;
    if gate.subject.is_broken_check() {
        session
            .phase
            .run_again(gate.subject.hook().unwrap_or_default());
    }
}

/// Continues a session that had ended, or whose user had stopped it.
fn reenter(session: &mut SessionState, next: AfterResume) {
    let ending = session.ending.take();
    if let Some(asked) = ending.as_ref().and_then(|ending| ending.asked.as_deref()) {
        session.stop.escalated = None;
        session.side.asked(
            asked.gate.subject.run(),
            GateResponse::End(SessionOutcome::Escalated),
        );
        // The checkpoint is for a new iteration.
        session.iterations.open = false;
    }
    let (before, stopped_at) =
        ending.map_or((None, None), |ending| (ending.before, ending.stopped_at));
    session.retry.errors = 0;
    if session.phase.outcome() == Some(SessionOutcome::Escalated) {
        looked_at(session);
    }
    let start = Phase::Hooks(HookDispatch::reached(
        HookPoint::SessionStart,
        DispatchCause::Lifecycle,
    ));
    session.phase = match (next, before, stopped_at) {
        (AfterResume::EarlierEnd, Some(before), _) => {
            session.ending = Some(*before);
            Phase::Delivering
        }
        (AfterResume::StoppedPhase, _, Some(phase)) => *phase,
        (AfterResume::Start, _, _) => start,
        (_, _, _) => Phase::Between,
    };
}
