//! Starts side jobs and `on_gate` hooks, and opens the gates for their failures.

use crate::engine::{
    event::{Event, HookEvent, UserPresence},
    gate::{
        notices::{GateHooks, GateNotice},
        subject::GateSubject,
    },
    hooks::{
        dispatch::DispatchCause,
        point::HookPoint,
        resolve::{self, HookRef},
        side_jobs::{SideJob, TaskHookFailure, cut_off},
    },
    output::EngineOutput,
    session::SessionState,
};

#[derive(Debug, Clone, Copy)]
pub struct SideRules<'a>(pub(crate) &'a SessionState);

impl SideRules<'_> {
    /// The gate for the escalation of an agent loop, if no stop evaluation follows that could
    /// handle it: the turn failed, or the session's loop has ended.
    pub(crate) fn take_up_a_loop(self) -> Option<EngineOutput> {
        let (_, _, reason) = self.0.stop.escalated.as_ref()?;
        Some(
            self.0
                .gates
                .open_gate(GateSubject::Escalation { failed: None }, reason.clone()),
        )
    }

    pub(crate) fn proceed_gate_hooks(self) -> EngineOutput {
        let GateHooks {
            waiting, dispatch, ..
        } = &self.0.gate_hooks;
        match (dispatch, waiting.front()) {
            (Some(dispatch), _) if dispatch.running.is_none() => {
                dispatch.next().map_or_else(EngineOutput::default, |hook| {
                    self.0.hook_rules().start_hook(dispatch, hook)
                })
            }
            (None, Some(notice)) => {
                let (hooks, by_hand) = match notice {
                    GateNotice::Changed(facts) => {
                        let cause = DispatchCause::Gate(facts.clone());
                        let rules = self.0.hook_rules();
                        (rules.due(HookPoint::OnGate, &cause), false)
                    }
                    GateNotice::ByHand(wanted) => {
                        let known = self.0.plan().hook(HookPoint::OnGate, wanted);
                        (
                            known.map(|spec| spec.name.clone()).into_iter().collect(),
                            true,
                        )
                    }
                };
                let iteration =
                    (self.0.iterations.current > 0).then_some(self.0.iterations.current);
                EngineOutput::record(Event::Hook(HookEvent::Due {
                    point: HookPoint::OnGate,
                    iteration,
                    hooks,
                    task: None,
                    by_hand,
                    ask: None,
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
                self.0.presence == UserPresence::Attended
                    && self.0.hooks.is_broken_again(&hook_of(failure))
            };
            failure.broken_for.is_none() || is_still_broken()
        };
        let mut waiting = self
            .0
            .side
            .failures
            .iter()
            .filter(|failure| !self.0.hooks.is_off(&hook_of(failure)));
        let failure = waiting.find(|failure| matters(failure))?;
        Some(
            self.0
                .gates
                .open_gate(failure.subject(), failure.reason.clone()),
        )
    }

    pub(crate) fn proceed_side(self) -> EngineOutput {
        if self.0.beside().task_hooks_wait() {
            return EngineOutput::default();
        }
        match (&self.0.side.dispatch, self.0.side.queue.front()) {
            (Some(dispatch), _) if dispatch.running.is_none() => {
                dispatch.next().map_or_else(EngineOutput::default, |hook| {
                    self.0.hook_rules().start_hook(dispatch, hook)
                })
            }
            (None, Some(job)) => {
                // Recorded even if no hook is left: the record removes the job from the queue.
                let (point, hooks, task) = match job {
                    SideJob::Task { task, depth } if self.0.side.is_cut(*depth) => {
                        return EngineOutput::record(Event::warning(cut_off(&task.id, *depth)))
                            .and(Event::Hook(HookEvent::Due {
                                point: HookPoint::OnTaskComplete,
                                iteration: Some(self.0.iterations.current),
                                hooks: Vec::new(),
                                task: Some(task.id.clone()),
                                by_hand: false,
                                ask: None,
                            }));
                    }
                    SideJob::Task { task, .. } => {
                        let point = HookPoint::OnTaskComplete;
                        (
                            point,
                            resolve::due(self.0.plan(), &self.0.hooks, point),
                            Some(task.id.clone()),
                        )
                    }
                    SideJob::Again(task, again) => {
                        let point = HookPoint::OnTaskComplete;
                        let mut hooks = resolve::due(self.0.plan(), &self.0.hooks, point);
                        hooks.retain(|hook| hook == again);
                        (point, hooks, Some(task.id.clone()))
                    }
                    SideJob::Resumed(hook) => {
                        let point = HookPoint::SessionStart;
                        let mut hooks = self.0.hook_rules().due(point, &DispatchCause::Resumed);
                        hooks.retain(|due| due == hook);
                        (point, hooks, None)
                    }
                    SideJob::ByHand(HookRef { point, hook }) => {
                        let runs = self.0.beside().runs_beside(*point, hook);
                        (
                            *point,
                            runs.then(|| hook.clone()).into_iter().collect(),
                            None,
                        )
                    }
                };
                let (iteration, by_hand) = (Some(self.0.iterations.current), task.is_none());
                EngineOutput::record(Event::Hook(HookEvent::Due {
                    point,
                    iteration,
                    hooks,
                    task,
                    by_hand,
                    ask: None,
                }))
            }
            (Some(_) | None, _) => EngineOutput::default(),
        }
    }
}
