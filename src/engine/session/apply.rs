//! Applies an event to the state: passes it to its machine, and stores the events of the session
//! itself.
//!
//! Decides nothing: the event contains the decision.

use super::SessionState;
use crate::engine::{
    budget::UsageTotals,
    consequences,
    event::{Event, FinalDeliveryMode, IterationOutcome, SessionEvent, SessionOutcome, StopTiming},
    gate::{apply::apply_gate, notices::note_gate_change},
    hooks::{
        apply::{apply_hook, queue_unsent_output},
        dispatch::{DispatchCause, HookDispatch},
        point::HookPoint,
        side_jobs::SideJob,
    },
    ids::RunId,
    retry::{RetryWait, apply::apply_retry},
    session::{
        iteration::StopHookSummary,
        phase::{LoopEnd, Phase},
        recovery::resumed,
    },
    steering::apply::apply_steering,
    stop::apply::apply_stop,
    submit::{
        apply::apply_pipeline,
        kind::PipelineOutcome,
        state::{FinishedPipeline, ReturnTo},
    },
    tasks::apply::{apply_task, apply_workflow, drop_automation_commands},
    time::{TimeSpan, UnixTime},
    turn::apply::{apply_turn, leave_turn},
    usage_limit::apply::apply_usage_limit,
    verify::apply::apply_verify,
    watch::apply::apply_watch,
};

impl SessionState {
    pub fn apply(&mut self, at: UnixTime, event: &Event) {
        let completed = consequences::completed(self, event);
        let event = completed.as_ref().unwrap_or(event);
        store(self, at, event);
        note_gate_change(self, event);
    }
}

fn store(session: &mut SessionState, at: UnixTime, event: &Event) {
    match event {
        Event::Session(event) => apply_session(session, at, event),
        Event::Hook(event) => apply_hook(session, event),
        Event::Pending(event) => session.pending.apply(event),
        Event::Turn(event) => apply_turn(session, at, event),
        Event::UsageLimit(event) => apply_usage_limit(session, at, event),
        Event::Retry(event) => apply_retry(session, event),
        Event::Gate(event) => apply_gate(session, at, event),
        Event::Stop(event) => apply_stop(session, at, event),
        Event::Task(event) => apply_task(session, at, event),
        Event::Automation(event) => session.tasks.automation.apply(event),
        Event::Workflow(event) => apply_workflow(session, event),
        Event::Pipeline(event) => apply_pipeline(session, at, event),
        Event::Steering(event) => apply_steering(session, event),
        Event::Verify(event) => apply_verify(session, event),
        Event::Watch(event) => apply_watch(session, at, event),
        Event::Unknown => {}
    }
}

fn apply_session(session: &mut SessionState, at: UnixTime, event: &SessionEvent) {
    match event {
        SessionEvent::Started(began) => {
            *session = SessionState::new(&session.name, (**began).clone(), at);
        }
        SessionEvent::Resumed {
            presence,
            max_iterations,
            checkpoint,
            answer,
            paused,
            hooks,
            decision,
            ..
        } => {
            let Some(decision) = *decision else { return };
            let again = hooks.iter().cloned().map(SideJob::Resumed);
            session.side.queue.extend(again);
            session.steering.paused = *paused;
            session.retry.resumed(at);
            session.verify.forget_the_work();
            if let Some(gate) = &mut session.gates.open {
                gate.opened = gate.opened.min(at);
            }
            resumed(
                session,
                *presence,
                *max_iterations,
                *checkpoint,
                answer.clone(),
                decision,
            );
        }
        SessionEvent::IterationStarted { iteration } => iteration_started(session, *iteration),
        SessionEvent::IterationCompleted { outcome, .. } => iteration_completed(session, *outcome),
        SessionEvent::ProcessStarted { pid, started } => session.processes.push((*pid, *started)),
        SessionEvent::LoopEnded {
            outcome,
            reason,
            delivery,
        } => loop_ended(session, *outcome, reason, *delivery),
        SessionEvent::Ended {
            outcome, reason, ..
        } => {
            session.phase = Phase::Ended(*outcome);
            if let Some(ending) = &mut session.ending {
                ending.sentence = Some(reason.clone());
            }
        }
        SessionEvent::Warning { .. } => {}
    }
}

/// The dispatch that waits for this run.
pub(crate) fn dispatch_of(session: &mut SessionState, run: RunId) -> Option<&mut HookDispatch> {
    let main = if let Phase::Hooks(dispatch) = &mut session.phase {
        Some(dispatch)
    } else {
        None
    };
    let waits = |dispatch: &&mut HookDispatch| {
        dispatch
            .running
            .as_ref()
            .is_some_and(|running| running.run == run)
    };
    main.into_iter()
        .chain(&mut session.side.dispatch)
        .chain(&mut session.gate_hooks.dispatch)
        .chain(session.tool_hooks.dispatches_mut())
        .find(waits)
}

fn iteration_started(session: &mut SessionState, iteration: u32) {
    session.iterations.current = iteration;
    session.iterations.begin_work();
    session.account.iteration = UsageTotals::default();
    // A promise from a failed turn does not count for this iteration.
    session.stop.promised = None;
    session.retry.wait = RetryWait::No;
    session.phase = Phase::Hooks(HookDispatch::reached(
        HookPoint::PreIteration,
        DispatchCause::Lifecycle,
    ));
}

fn iteration_completed(session: &mut SessionState, outcome: IterationOutcome) {
    leave_turn(session);
    if let Phase::Hooks(dispatch) = &session.phase
        && dispatch.point == HookPoint::Stop
    {
        session.iterations.activity.stop_hooks = StopHookSummary::of(dispatch);
    }
    session.iterations.open = false;
    session.iterations.last = Some(outcome);
    if matches!(session.phase, Phase::Exit(_)) {
        return;
    }
    match outcome {
        IterationOutcome::Done | IterationOutcome::Forced => {
            queue_unsent_output(session);
            session.phase = Phase::Hooks(HookDispatch::reached(
                HookPoint::PostIteration,
                DispatchCause::Lifecycle,
            ));
        }
        IterationOutcome::Failed => {
            if session.retry.errors > 0 && session.retry.wait == RetryWait::No {
                session.retry.wait = RetryWait::Due {
                    nth: session.retry.errors,
                    at_least: TimeSpan::default(),
                };
            }
            session.phase = Phase::Between;
        }
    }
}

pub(crate) fn stop_requested(session: &mut SessionState, how: StopTiming) {
    session.steering.stop = Some(how);
    if how == StopTiming::AfterIteration {
        return;
    }
    leave_turn(session);
    session.side.drop_by_hand();
    session.gate_hooks.stop();
    session.tool_hooks.stop();
    drop_automation_commands(session);
    session.tasks.flows.cut();
    session
        .stop
        .loops
        .iter_mut()
        .for_each(|known| known.judging = None);
    session.gates.open = None;
    session.requests.waiting.clear();
    // A session that had ended before its submit keeps its outcome.
    let had_ended = matches!(&session.pipelines.pipeline_run, Some(pipeline_run) if matches!(pipeline_run.back, ReturnTo::Ended(_)));
    let stays = session.phase.is_ending() || had_ended;
    if let Some(ending) = session.ending.as_mut().filter(|_| !stays) {
        ending.delivery = FinalDeliveryMode::No;
        ending.interrupted = true;
    }
}

fn loop_ended(
    session: &mut SessionState,
    outcome: SessionOutcome,
    reason: &str,
    delivery: FinalDeliveryMode,
) {
    leave_turn(session);
    session.gates.open = None;
    session.requests.waiting.clear();
    session.tool_hooks.forget_requests();
    session.pipelines.pipeline_run = None;
    session.verify.pass = None;
    // If the loop had already ended, this is the same loop ending again, and its submit is not
    // repeated.
    let was_cut = |last: &FinishedPipeline| last.outcome == PipelineOutcome::Cancelled;
    session.pipelines.followed &=
        session.ending.is_some() && !session.pipelines.last.as_deref().is_some_and(was_cut);
    let asked = if let Phase::Exit(exit) = &mut session.phase {
        exit.asked.take()
    } else {
        None
    };
    let stopped_at = (outcome == SessionOutcome::Cancelled && session.steering.interrupted())
        .then(|| phase_to_resume(session))
        .flatten();
    if asked.is_none() && stopped_at.is_none() {
        session.stop.promised = None;
    }
    let cut_short = session.ending.as_ref().is_some_and(LoopEnd::ends_well)
        && outcome == SessionOutcome::Escalated;
    let last = session.pipelines.last.as_deref();
    let is_left = last.is_some_and(|last| last.left_open);
    let before = session.ending.take().and_then(|ending| {
        if cut_short {
            Some(Box::new(ending))
        } else {
            // The end of a wait for a merge has the loop's own end already.
            ending.before.filter(|_| is_left)
        }
    });
    session.ending = Some(LoopEnd {
        delivery,
        before,
        stopped_at,
        asked,
        ..LoopEnd::offering(outcome, reason)
    });
    session.phase = Phase::Delivering;
}

/// Where a session that is stopped immediately continues when it is resumed: as if creel had been
/// killed here.
pub(crate) fn phase_to_resume(session: &SessionState) -> Option<Box<Phase>> {
    match &session.phase {
        Phase::Hooks(_)
        | Phase::Due(_)
        | Phase::Settled(_)
        | Phase::Between
        | Phase::Escalated(_) => Some(Box::new(session.phase.clone())),
        // The cancelled hooks gave no verdict, so the turn is evaluated again.
        Phase::Judging(_) => Some(Box::new(Phase::Judging(Box::default()))),
        // The user had decided to leave: the iteration is over.
        Phase::Exit(_) if session.iterations.open => {
            Some(Box::new(Phase::Settled(IterationOutcome::Failed)))
        }
        Phase::Turn(_)
        | Phase::Exit(_)
        | Phase::Pipeline
        | Phase::PipelineOnly(_)
        | Phase::Watching
        | Phase::Delivering
        | Phase::Ended(_) => None,
    }
}
