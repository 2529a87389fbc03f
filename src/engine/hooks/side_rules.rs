//! Starts side jobs and `on_gate` hooks, and opens the gates for their failures.

use crate::engine::{
    event::{Event, HookEvent, UserPresence},
    gate::{
        SessionGates,
        notices::{GateHooks, GateNotice},
        subject::GateSubject,
    },
    hooks::{
        beside::BesideWork,
        point::HookPoint,
        resolve::{self, HookRef, HookState},
        side_jobs::{SideJob, SideJobs, TaskHookFailure, cut_off},
        start::HookRules,
    },
    output::EngineOutput,
    policy::SessionPlan,
    session::iteration::IterationState,
    stop::StopState,
};

#[derive(Debug, Clone, Copy)]
pub struct SideRules<'a> {
    pub(crate) plan: &'a SessionPlan,
    pub(crate) presence: UserPresence,
    pub(crate) iterations: &'a IterationState,
    pub(crate) gates: &'a SessionGates,
    pub(crate) hooks: &'a HookState,
    pub(crate) side: &'a SideJobs,
    pub(crate) gate_hooks: &'a GateHooks,
    pub(crate) stop: &'a StopState,
    pub(crate) beside: BesideWork<'a>,
    pub(crate) hook_rules: HookRules<'a>,
}

impl SideRules<'_> {
    /// The gate for the escalation of an agent loop, if no stop evaluation follows that could
    /// handle it: the turn failed, or the session's loop has ended.
    pub(crate) fn take_up_a_loop(self) -> Option<EngineOutput> {
        let (_, _, reason) = self.stop.escalated.as_ref()?;
        Some(
            self.gates
                .open_gate(GateSubject::Escalation { failed: None }, reason.clone()),
        )
    }

    pub(crate) fn proceed_gate_hooks(self) -> EngineOutput {
        let GateHooks {
            waiting, dispatch, ..
        } = &self.gate_hooks;
        match (dispatch, waiting.front()) {
            (Some(dispatch), _) if dispatch.running.is_none() => {
                dispatch.next().map_or_else(EngineOutput::default, |hook| {
                    self.hook_rules.start_hook(dispatch, hook)
                })
            }
            (None, Some(notice)) => {
                let mut hooks = resolve::due(self.plan, self.hooks, HookPoint::OnGate);
                let by_hand = match notice {
                    GateNotice::Changed(_) => false,
                    GateNotice::ByHand(wanted) => {
                        hooks = self
                            .plan
                            .hook(HookPoint::OnGate, wanted)
                            .map(|spec| spec.name.clone())
                            .into_iter()
                            .collect();
                        true
                    }
                };
                let iteration = (self.iterations.current > 0).then_some(self.iterations.current);
                EngineOutput::record(Event::Hook(HookEvent::Due {
                    point: HookPoint::OnGate,
                    iteration,
                    hooks,
                    task: None,
                    by_hand,
                }))
            }
            (Some(_) | None, _) => EngineOutput::default(),
        }
    }

    /// The gate for a failed task hook.
    pub(crate) fn ask_about_failure(self) -> Option<EngineOutput> {
        let hook_of =
            |failure: &TaskHookFailure| HookRef::new(HookPoint::OnTaskComplete, &failure.hook);
        let matters = |failure: &TaskHookFailure| {
            let is_still_broken = || {
                self.presence == UserPresence::Attended
                    && self.hooks.is_broken_again(&hook_of(failure))
            };
            failure.broken_for.is_none() || is_still_broken()
        };
        let mut waiting = self
            .side
            .failures
            .iter()
            .filter(|failure| !self.hooks.is_off(&hook_of(failure)));
        let failure = waiting.find(|failure| matters(failure))?;
        Some(
            self.gates
                .open_gate(failure.subject(), failure.reason.clone()),
        )
    }

    pub(crate) fn proceed_side(self) -> EngineOutput {
        if self.beside.task_hooks_wait() {
            return EngineOutput::default();
        }
        match (&self.side.dispatch, self.side.queue.front()) {
            (Some(dispatch), _) if dispatch.running.is_none() => {
                dispatch.next().map_or_else(EngineOutput::default, |hook| {
                    self.hook_rules.start_hook(dispatch, hook)
                })
            }
            (None, Some(job)) => {
                // Recorded even if no hook is left: the record removes the job from the queue.
                let (point, hooks, task) = match job {
                    SideJob::Task { task, depth } if self.side.is_cut(*depth) => {
                        return EngineOutput::record(Event::warning(cut_off(&task.id, *depth)))
                            .and(Event::Hook(HookEvent::Due {
                                point: HookPoint::OnTaskComplete,
                                iteration: Some(self.iterations.current),
                                hooks: Vec::new(),
                                task: Some(task.id.clone()),
                                by_hand: false,
                            }));
                    }
                    SideJob::Task { task, .. } => {
                        let point = HookPoint::OnTaskComplete;
                        (
                            point,
                            resolve::due(self.plan, self.hooks, point),
                            Some(task.id.clone()),
                        )
                    }
                    SideJob::Again(task, again) => {
                        let point = HookPoint::OnTaskComplete;
                        let mut hooks = resolve::due(self.plan, self.hooks, point);
                        hooks.retain(|hook| hook == again);
                        (point, hooks, Some(task.id.clone()))
                    }
                    SideJob::ByHand(HookRef { point, hook }) => {
                        let runs = self.beside.runs_beside(*point, hook);
                        (
                            *point,
                            runs.then(|| hook.clone()).into_iter().collect(),
                            None,
                        )
                    }
                };
                let (iteration, by_hand) = (Some(self.iterations.current), task.is_none());
                EngineOutput::record(Event::Hook(HookEvent::Due {
                    point,
                    iteration,
                    hooks,
                    task,
                    by_hand,
                }))
            }
            (Some(_) | None, _) => EngineOutput::default(),
        }
    }
}
