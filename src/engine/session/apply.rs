//! Applies events to the state. It decides nothing: an event contains the decision.

mod gates;
mod hooks;
mod turns;

use super::{Phase, SessionState, delivery::LoopEnd, retry::RetryWait};
use crate::engine::{
    effect::TaskFacts,
    event::{Event, FinalDeliveryMode, IterationOutcome, SessionEvent, SessionOutcome, StopTiming},
    hooks::{
        dispatch::{DispatchCause, HookDispatch},
        point::HookPoint,
        resolve,
    },
    ids::RunId,
    session::side_jobs::SideJob,
    stop::settled::StopHookSigns,
    submit::{FinishedPipeline, PipelineOutcome, ReturnTo},
    time::{TimeSpan, UnixTime},
};

impl SessionState {
    pub fn apply(&mut self, at: UnixTime, event: &Event) {
        self.store(at, event);
        self.note_gate_change(event);
    }

    fn store(&mut self, at: UnixTime, event: &Event) {
        match event {
            Event::Session(event) => self.apply_session(at, event),
            Event::Hook(event) => self.apply_hook(event),
            Event::Pending(event) => self.pending.apply(event),
            Event::Turn(event) => self.apply_turn(at, event),
            Event::UsageLimit(event) => self.apply_usage_limit(at, event),
            Event::Retry(event) => self.apply_retry(event),
            Event::Gate(event) => self.apply_gate(at, event),
            Event::Stop(event) => self.apply_stop(at, event),
            Event::Task(event) => self.apply_task(at, event),
            Event::Automation(event) => self.tasks.automation.apply(event),
            Event::Workflow(event) => self.apply_workflow(event),
            Event::Pipeline(event) => self.apply_pipeline(at, event),
            Event::Steering(event) => self.apply_steering(event),
            Event::Unknown => {}
        }
    }

    fn apply_session(&mut self, at: UnixTime, event: &SessionEvent) {
        match event {
            SessionEvent::Started(began) => *self = Self::new(&self.name, (**began).clone(), at),
            SessionEvent::Resumed { presence, max_iterations, checkpoint, paused, .. } => {
                self.steering.paused = *paused;
                self.retry.resumed(at);
                if let Some(gate) = &mut self.gates.open {
                    gate.opened = gate.opened.min(at);
                }
                self.resumed(*presence, *max_iterations, *checkpoint);
            }
            SessionEvent::IterationStarted { iteration } => self.iteration_started(*iteration),
            SessionEvent::IterationCompleted { outcome, .. } => self.iteration_completed(*outcome),
            SessionEvent::ProcessStarted { pid, started } => self.processes.push((*pid, *started)),
            SessionEvent::LoopEnded { outcome, reason, delivery } => self.loop_ended(*outcome, reason, *delivery),
            SessionEvent::Ended { outcome, .. } => self.phase = Phase::Ended(*outcome),
            SessionEvent::Warning { .. } => {}
        }
    }

    /// The dispatch of the lifecycle, if it is at that point.
    fn dispatch_at(&mut self, point: HookPoint) -> Option<&mut HookDispatch> {
        let Phase::Hooks(dispatch) = &mut self.phase else { return None };
        (dispatch.point == point).then_some(dispatch)
    }

    /// The dispatch that waits for this run.
    fn dispatch_of(&mut self, run: RunId) -> Option<&mut HookDispatch> {
        let main = if let Phase::Hooks(dispatch) = &mut self.phase { Some(dispatch) } else { None };
        let waits = |dispatch: &&mut HookDispatch| dispatch.running.as_ref().is_some_and(|running| running.run == run);
        main.into_iter().chain(&mut self.side.dispatch).chain(&mut self.gate_hooks.dispatch).find(waits)
    }

    fn iteration_started(&mut self, iteration: u32) {
        self.iterations.current = iteration;
        self.iterations.begin_work();
        // A promise from a failed turn does not count for this iteration.
        self.stop.promised = None;
        self.retry.wait = RetryWait::No;
        self.phase = Phase::Hooks(HookDispatch::reached(HookPoint::PreIteration, DispatchCause::Lifecycle));
    }

    fn iteration_completed(&mut self, outcome: IterationOutcome) {
        self.set_turn_aside();
        if let Phase::Hooks(dispatch) = &self.phase
            && dispatch.point == HookPoint::Stop
        {
            self.iterations.signs.stop_hooks = StopHookSigns::of(dispatch);
        }
        self.iterations.open = false;
        self.iterations.last = Some(outcome);
        if matches!(self.phase, Phase::Exit(_)) {
            return;
        }
        match outcome {
            IterationOutcome::Done | IterationOutcome::Forced => {
                self.hold_what_stop_hooks_piped();
                self.phase = Phase::Hooks(HookDispatch::reached(HookPoint::PostIteration, DispatchCause::Lifecycle));
            }
            IterationOutcome::Failed => {
                if self.retry.errors > 0 && self.retry.wait == RetryWait::No {
                    self.retry.wait = RetryWait::Due { nth: self.retry.errors, at_least: TimeSpan::default() };
                }
                self.phase = Phase::Between;
            }
        }
    }

    pub(in crate::engine) fn task_completed(&mut self, id: &str, content: &str, depth: u32) {
        let hooks_run = !resolve::due(self.plan(), &self.hooks, HookPoint::OnTaskComplete).is_empty();
        if self.side.completed.insert(id.to_owned()) && hooks_run {
            let task = TaskFacts { id: id.to_owned(), content: content.to_owned() };
            self.side.queue.push_back(SideJob::Task { task, depth });
        }
    }

    pub(super) fn stop_requested(&mut self, how: StopTiming) {
        self.steering.stop = Some(how);
        if how == StopTiming::AfterIteration {
            return;
        }
        self.set_turn_aside();
        self.side.drop_by_hand();
        self.gate_hooks.stop();
        self.drop_automation_commands();
        self.tasks.flows.cut();
        self.stop.loops.iter_mut().for_each(|known| known.judging = None);
        self.gates.open = None;
        self.asks.waiting.clear();
        // A session that had ended before its submit keeps its outcome.
        let had_ended = matches!(&self.pipelines.course, Some(course) if matches!(course.back, ReturnTo::Ended(_)));
        let stays = self.is_ending() || had_ended;
        if let Some(ending) = self.ending.as_mut().filter(|_| !stays) {
            ending.delivery = FinalDeliveryMode::No;
            ending.interrupted = true;
        }
    }

    fn loop_ended(&mut self, outcome: SessionOutcome, reason: &str, delivery: FinalDeliveryMode) {
        self.gates.open = None;
        self.asks.waiting.clear();
        self.pipelines.course = None;
        // If the loop had already ended, this is the same loop ending again, and its submit is not repeated.
        let was_cut = |last: &FinishedPipeline| last.outcome == PipelineOutcome::Cancelled;
        self.pipelines.followed &= self.ending.is_some() && !self.pipelines.last.as_deref().is_some_and(was_cut);
        self.stop.promised = None;
        let stopped_at =
            (outcome == SessionOutcome::Cancelled && self.interrupted()).then(|| self.phase_to_resume()).flatten();
        let cut_short = self.ends_well() && outcome == SessionOutcome::Escalated;
        let before = self.ending.take().filter(|_| cut_short).map(Box::new);
        self.ending = Some(LoopEnd { delivery, before, stopped_at, ..LoopEnd::offering(outcome, reason) });
        self.phase = Phase::Delivering;
    }
}
