//! The work beside the main line: whether any is in progress, and what has to wait for it.
//!
//! Covers hooks of completed tasks, of tool calls and of gates, hooks run by hand, automation,
//! workflows and evaluations of agent loops. Starts none of them: see [`super::side_rules`].

use crate::engine::{
    event::{Event, SessionOutcome},
    gate::notices::GateHooks,
    hooks::{
        dispatch::{DispatchCause, HookDispatch, needs_a_person},
        point::HookPoint,
        side_jobs::SideJobs,
        tool_hooks::ToolHooks,
        verdict::{RunEnd, RunJudgement},
    },
    policy::SessionPlan,
    session::phase::LoopEnd,
    steering::ControlState,
    stop::StopState,
    submit::state::PipelineState,
    tasks::SessionTasks,
};

#[derive(Debug, Clone, Copy)]
pub struct BesideWork<'a> {
    pub(crate) plan: &'a SessionPlan,
    pub(crate) side: &'a SideJobs,
    pub(crate) gate_hooks: &'a GateHooks,
    pub(crate) tool_hooks: &'a ToolHooks,
    pub(crate) tasks: &'a SessionTasks,
    pub(crate) stop: &'a StopState,
    pub(crate) pipelines: &'a PipelineState,
    pub(crate) steering: &'a ControlState,
    pub(crate) ending: &'a Option<LoopEnd>,
}

impl<'a> BesideWork<'a> {
    /// Whether independent work is in progress that the session has to wait for before it delivers
    /// or ends.
    pub fn is_busy_beside(self) -> bool {
        let judged = self.stop.loops.iter().any(|known| known.judging.is_some());
        self.side_is_busy()
            || self.tool_hooks.is_busy()
            || self.tasks.automation.is_busy()
            || !self.tasks.flows.open.is_empty()
            || judged
    }

    /// The depth of a task that an `on_gate` hook completes now. The task's own hooks can cause the
    /// next gate, so until the next prompt this is a chain like any other.
    pub(crate) fn next_depth_at_gate(self) -> Option<u32> {
        self.gate_hooks.dispatch.as_ref()?;
        Some(if self.side.chained == 0 {
            1
        } else {
            self.side.depth.saturating_add(1)
        })
    }

    /// The hooks that run beside the main line.
    pub(crate) fn dispatches_beside(self) -> impl Iterator<Item = &'a HookDispatch> {
        let beside = self.side.dispatch.iter().chain(&self.gate_hooks.dispatch);
        beside.chain(self.tool_hooks.dispatches())
    }

    /// Whether the end of the session has to wait for work beside the main line.
    pub(crate) fn end_waits(self) -> bool {
        self.is_busy_beside() || self.gate_hooks.is_busy()
    }

    /// The warning for a task hook that escalates while the agent drives itself: there is no loop
    /// of creel's to stop.
    pub(crate) fn escalation_warning(
        self,
        dispatch: &HookDispatch,
        hook: &str,
        judged: &RunJudgement,
    ) -> Option<Event> {
        let tells = matches!(dispatch.cause, DispatchCause::Task(_))
            && judged.escalates
            && self.plan.is_led_from_outside();
        tells.then(|| Event::warning(needs_a_person(dispatch.point, hook, judged)))
    }

    /// Whether the hooks of completed tasks wait until the session is resumed. A session that ends
    /// for good runs them before it ends.
    pub(crate) fn task_hooks_wait(self) -> bool {
        let resumable =
            |ending: &LoopEnd| ending.interrupted || ending.outcome == SessionOutcome::Cancelled;
        self.steering.interrupted() && self.ending.as_ref().is_none_or(resumable)
    }

    /// Whether a hook that an interrupt has cut runs again when the session is resumed.
    pub(crate) fn runs_again(self, dispatch: &HookDispatch, end: &RunEnd) -> bool {
        let resumes = match dispatch.cause {
            DispatchCause::Task(_) => self.task_hooks_wait(),
            // A submit or a merge begins again as a whole.
            DispatchCause::Lifecycle | DispatchCause::Error(_) | DispatchCause::Verification => {
                self.ending.is_none() && !self.pipelines.is_open()
            }
            DispatchCause::Gate(_)
            | DispatchCause::Tool(_)
            | DispatchCause::ByHand
            | DispatchCause::Resumed => false,
        };
        *end == RunEnd::Cut && self.steering.interrupted() && resumes
    }

    /// Whether side jobs run, or are about to.
    pub(crate) fn side_is_busy(self) -> bool {
        let running = |dispatch: &HookDispatch| dispatch.running.is_some();
        if self.task_hooks_wait() {
            self.side.dispatch.as_ref().is_some_and(running)
        } else {
            self.side.is_busy()
        }
    }

    /// Whether a hook can run as a side job: only hooks of `hooks:` can.
    pub(crate) fn runs_beside(self, point: HookPoint, hook: &str) -> bool {
        HookPoint::ALL.contains(&point) && self.plan.hook(point, hook).is_some()
    }
}
