//! Applies the events of hooks to the state.

use super::super::{
    Phase, SessionState,
    pending::{IncomingItem, ItemSource},
};
use crate::engine::{
    event::{HookEvent, HookFinished},
    hooks::{
        dispatch::{self, ActiveRun, DispatchCause, HookDispatch},
        point::{HookPoint, PipeTarget},
        resolve::HookRef,
        verdict::RunEnd,
    },
    session::side_jobs::SideJob,
};

impl SessionState {
    pub(super) fn apply_hook(&mut self, event: &HookEvent) {
        match event {
            HookEvent::Due { point, hooks, task, by_hand, .. } => {
                self.hooks_due(*point, hooks, task.is_some() || *by_hand);
            }
            HookEvent::Requested { point: HookPoint::OnGate, hook, .. } => self.gate_hooks.run_by_hand(hook),
            HookEvent::Requested { point, hook, .. } => {
                self.side.queue.push_back(SideJob::ByHand(HookRef::new(*point, hook)));
            }
            HookEvent::Started { run, point, hook, iteration, beside, of, .. } => {
                let running = ActiveRun { run: *run, hook: hook.clone(), iteration: *iteration };
                if *point == HookPoint::StopDecision {
                    self.stop_hook_started(running, of.as_deref());
                } else {
                    self.hook_started(running, *point, *beside);
                }
            }
            HookEvent::Finished(finished) => self.hook_finished(finished),
            HookEvent::Disabled { point, hook, .. } => self.hook_disabled(*point, hook),
            HookEvent::Enabled { point, hook, .. } => self.hooks.enable(HookRef::new(*point, hook)),
        }
    }

    /// Output of stop hooks is sent immediately if a hook blocks. If the turn is accepted, there is no feedback prompt,
    /// and the output becomes pending items for the next prompt.
    pub(super) fn hold_what_stop_hooks_piped(&mut self) {
        let Phase::Hooks(dispatch) = &self.phase else { return };
        if dispatch.point != HookPoint::Stop {
            return;
        }
        let iteration = self.iterations.current;
        for done in &dispatch.done {
            let Some(text) = done.piped.clone() else { continue };
            let source = ItemSource { run: done.run, point: HookPoint::Stop, hook: done.hook.clone(), iteration };
            self.pending.catch(IncomingItem { source, text });
        }
    }

    pub(super) fn hooks_due(&mut self, point: HookPoint, hooks: &[String], beside: bool) {
        if point == HookPoint::OnGate {
            return self.gate_hooks.begin(hooks.iter().cloned().collect());
        }
        if beside {
            let known = hooks.iter().filter(|hook| self.runs_beside(point, hook)).cloned().collect();
            return self.side.begin(known);
        }
        self.steps_due(point, hooks);
        let queue = Some(hooks.iter().cloned().collect());
        if let Some(dispatch) = self.dispatch_at(point) {
            dispatch.queue = queue;
        } else {
            self.phase = Phase::Hooks(HookDispatch { queue, ..HookDispatch::reached(point, DispatchCause::Lifecycle) });
        }
    }

    pub(super) fn hook_started(&mut self, running: ActiveRun, point: HookPoint, beside: bool) {
        self.hooks.last_run = running.run;
        if point == HookPoint::Automation {
            return self.tasks.automation.started(running);
        }
        if !beside {
            self.pipelines.step_started(point, &running.hook);
        }
        let dispatch = if point == HookPoint::OnGate {
            self.gate_hooks.dispatch.as_mut()
        } else if beside {
            self.side.dispatch.as_mut()
        } else {
            self.dispatch_at(point)
        };
        if let Some(dispatch) = dispatch {
            dispatch.started(running);
        }
    }

    pub(super) fn hook_disabled(&mut self, point: HookPoint, hook: &str) {
        self.hooks.disable(HookRef::new(point, hook));
        if point == HookPoint::Automation {
            return self.tasks.automation.drop_hooks(|name| name == hook);
        }
        let beside = self.side.dispatch.iter_mut().chain(&mut self.gate_hooks.dispatch);
        for dispatch in beside.filter(|dispatch| dispatch.point == point) {
            dispatch.drop_from_queue(hook);
        }
        if let Some(dispatch) = self.dispatch_at(point) {
            dispatch.drop_from_queue(hook);
        }
        self.side.settle();
        self.gate_hooks.settle();
    }

    pub(super) fn hook_finished(&mut self, finished: &HookFinished) {
        if finished.point == HookPoint::StopDecision {
            return self.stop_hook_finished(finished);
        }
        if self.tasks.automation.awaits(finished.run) {
            return self.tasks.automation.finished();
        }
        let point = finished.point;
        let spec = self.began.plan.hook(point, &finished.hook).cloned();
        let beside = self
            .side
            .dispatch
            .as_ref()
            .is_some_and(|side| side.running.as_ref().is_some_and(|it| it.run == finished.run));
        let outside = self.is_led_from_outside();
        let Some(dispatch) = self.dispatch_of(finished.run) else {
            // The run belongs to a review whose session has already left the point.
            return self.pipelines.review_cut(finished);
        };
        dispatch.finished(spec.as_ref(), finished);
        if !finished.again {
            let broken = dispatch::view(finished).is_broken() && finished.end != RunEnd::Cut;
            self.hooks.ran(HookRef::new(point, &finished.hook), broken);
        }
        if !beside {
            self.pipelines.step_finished(finished);
        } else if !finished.again && !outside {
            self.side.look(self.hooks.is_broken_again(&HookRef::new(point, &finished.hook)));
        }
        self.side.settle();
        self.gate_hooks.settle();
        if finished.again {
            return;
        }
        if let Some(text) = finished.framed().filter(|_| point.rules().piped_to == PipeTarget::Pending) {
            let source =
                ItemSource { run: finished.run, point, hook: finished.hook.clone(), iteration: finished.iteration };
            self.pending.catch(IncomingItem { source, text });
        }
    }
}
