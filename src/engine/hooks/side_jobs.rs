//! The queue of hooks that run beside the agent: those of completed tasks, and those that the user
//! runs by hand.
//!
//! They run one at a time, in the order of the requests. Owns the queue and the failures that the
//! user has to see. [`super::start`] starts the hooks.
//!
//! [`BesideWork`] says whether any work beside the main line is in progress, and what has to wait
//! for it. It covers hooks of completed tasks, of tool calls and of gates, hooks run by hand,
//! automation, workflows and evaluations of agent loops. Starts none of them: see [`super::start`].
//!
//! # Invariants
//! - A hook that cannot run here is never added to a dispatch: every dispatch ends.
//! - A chain of hooks that complete further tasks ends at depth [`DEEPEST`], and after
//!   [`MOST_CHAINED`] such tasks between two prompts, with a warning.
//! - An interrupt starts nothing here and keeps everything about tasks: it runs when the session is
//!   resumed.
//! - A session that the agent drives itself is never stopped: where the user would have to decide,
//!   there is only a warning.

use std::collections::{BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

use crate::engine::{
    effect::TaskFacts,
    event::{Event, SessionOutcome},
    gate::{
        Gate,
        kind::{BrokenHookAnswer, GateKind, GateResponse},
        notices::GateHooks,
        subject::GateSubject,
    },
    hooks::{
        HookRef,
        dispatch::{DispatchCause, HookDispatch, is_broken_again, needs_a_person},
        point::HookPoint,
        tool_hooks::ToolHooks,
        verdict::{RunEnd, RunJudgement},
    },
    ids::RunId,
    policy::SessionPlan,
    session::phase::LoopEnd,
    steering::ControlState,
    stop::StopState,
    submit::state::PipelineState,
    tasks::{SessionTasks, record::DEEPEST},
    turn::event::StoppedByHook,
};

/// The limit of tasks completed by hooks, between two prompts, for which `on_task_complete` hooks
/// run. Each task can cause several more, so the depth alone would allow thousands.
pub const MOST_CHAINED: u32 = 64;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SideJobs {
    pub queue: VecDeque<SideJob>,
    /// The dispatch in progress.
    pub dispatch: Option<HookDispatch>,
    /// The depth of the last started job: the length of the chain of tasks, each completed by a
    /// hook of the one before.
    pub depth: u32,
    /// How many jobs since the last prompt were for tasks that hooks completed.
    pub chained: u32,
    /// Completed tasks; completing one again has no effect.
    pub completed: BTreeSet<String>,
    /// Failures that the user has not been asked about. They wait until the session can open a
    /// gate.
    pub failures: Vec<BesideFailure>,
}

/// A hook beside the main line that needs the user: one of a completed task, or one that stopped
/// the session while the agent worked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BesideFailure {
    pub point: HookPoint,
    pub hook: String,
    pub run: RunId,
    /// The reason as shown. One answer applies to all failures with the same reason.
    pub reason: String,
    /// The task, if the hook was broken for it twice in a row: the hook can be run again.
    pub broken_for: Option<TaskFacts>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SideJob {
    /// The hooks for a completed task.
    Task {
        task: TaskFacts,
        /// The length of the chain of tasks before it, each completed by a hook of the one before.
        depth: u32,
    },
    /// One hook of a completed task again.
    Again(TaskFacts, String),
    /// A hook that the user runs by hand.
    ByHand(HookRef),
    /// A hook of `session_start` that Claude Code also runs when a session is resumed.
    Resumed(String),
}

impl BesideFailure {
    /// A hook stopped the session while the agent worked.
    pub(crate) fn stopped(by: &StoppedByHook) -> Self {
        Self {
            point: by.point,
            hook: by.hook.clone(),
            run: by.run,
            reason: by.reason.clone(),
            broken_for: None,
        }
    }

    /// The gate that asks about it.
    pub(crate) fn gate(&self) -> GateKind {
        self.subject().kind()
    }

    pub(crate) fn subject(&self) -> GateSubject {
        let failed = GateSubject::failed_hook(&self.hook, self.run);
        if self.broken_for.is_some() {
            GateSubject::BrokenHook(failed)
        } else {
            GateSubject::Escalation {
                failed: Some(failed),
            }
        }
    }
}

impl SideJobs {
    pub fn is_busy(&self) -> bool {
        self.dispatch.is_some() || !self.queue.is_empty()
    }

    pub(crate) fn begin(&mut self, hooks: VecDeque<String>) {
        let (mut dispatch, depth) = match self.queue.pop_front() {
            Some(SideJob::Task { task, depth }) => (
                HookDispatch::reached(HookPoint::OnTaskComplete, DispatchCause::Task(task)),
                depth,
            ),
            Some(SideJob::Again(task, _)) => (
                HookDispatch::reached(HookPoint::OnTaskComplete, DispatchCause::Task(task)),
                0,
            ),
            Some(SideJob::ByHand(hook)) => {
                (HookDispatch::reached(hook.point, DispatchCause::ByHand), 0)
            }
            Some(SideJob::Resumed(_)) => {
                let point = HookPoint::SessionStart;
                (HookDispatch::reached(point, DispatchCause::Resumed), 0)
            }
            None => return,
        };
        self.depth = depth;
        self.chained += u32::from(depth > 0);
        dispatch.queue = Some(hooks);
        self.dispatch = Some(dispatch);
        self.settle();
    }

    /// Ends a dispatch that has nothing left to run.
    pub(crate) fn settle(&mut self) {
        let over =
            |dispatch: &HookDispatch| dispatch.running.is_none() && dispatch.next().is_none();
        if self.dispatch.as_ref().is_some_and(over) {
            self.dispatch = None;
        }
    }

    /// Records a failure if the last hook of a task escalated, or was broken again.
    pub(crate) fn look(&mut self, broken_again: bool) {
        let Some(dispatch) = &self.dispatch else {
            return;
        };
        let (DispatchCause::Task(task), Some(done)) = (&dispatch.cause, dispatch.done.last())
        else {
            return;
        };
        let (hook, run, point) = (done.hook.clone(), done.run, dispatch.point);
        if done.judgement.escalates {
            let reason = done.needs_a_person(point);
            self.failures.push(BesideFailure {
                point,
                hook,
                run,
                reason,
                broken_for: None,
            });
        } else if broken_again {
            let reason = is_broken_again(point, &hook, None);
            self.failures.push(BesideFailure {
                point,
                hook,
                run,
                reason,
                broken_for: Some(task.clone()),
            });
        }
    }

    /// The user was asked about failures. Returns whether they were failures of hooks beside the
    /// lifecycle, and not of the lifecycle.
    pub(crate) fn asked(&mut self, run: Option<RunId>, answer: GateResponse) -> bool {
        let Some(failure) = self.failure_of(run).cloned() else {
            return false;
        };
        let is_same = |other: &mut BesideFailure| {
            other.hook == failure.hook && other.reason == failure.reason
        };
        let asked: Vec<BesideFailure> = self.failures.extract_if(.., is_same).collect();
        let again = asked
            .into_iter()
            .filter(|_| answer == GateResponse::BrokenHook(BrokenHookAnswer::Retry));
        let again = again.filter_map(|failure| {
            failure
                .broken_for
                .map(|task| SideJob::Again(task, failure.hook))
        });
        self.queue.extend(again);
        true
    }

    /// The failure of that run, if its hook ran beside the lifecycle.
    fn failure_of(&self, run: Option<RunId>) -> Option<&BesideFailure> {
        self.failures
            .iter()
            .find(|failure| Some(failure.run) == run)
    }

    /// The run of the first failure that a gate about this hook can mean.
    pub(crate) fn next_failure_of(&self, hook: &str, about: GateKind) -> Option<RunId> {
        let is_it = |failure: &&BesideFailure| failure.hook == hook && failure.gate() == about;
        self.failures.iter().find(is_it).map(|failure| failure.run)
    }

    /// Queues the hooks of a completed task. Completing a task again has no effect.
    pub(crate) fn task_completed(&mut self, id: &str, content: &str, depth: u32, hooks_run: bool) {
        if self.completed.insert(id.to_owned()) && hooks_run {
            let task = TaskFacts {
                id: id.to_owned(),
                content: content.to_owned(),
            };
            self.queue.push_back(SideJob::Task { task, depth });
        }
    }

    /// Discards hooks that the user wanted to run and that have not been started.
    pub(crate) fn drop_by_hand(&mut self) {
        self.queue.retain(|job| !matches!(job, SideJob::ByHand(_)));
        if let Some(dispatch) = self
            .dispatch
            .as_mut()
            .filter(|dispatch| dispatch.cause == DispatchCause::ByHand)
        {
            dispatch.queue = Some(VecDeque::new());
        }
        self.settle();
    }

    /// Whether the hooks of a task at this depth are skipped, because the chain is too long.
    pub(crate) fn is_cut(&self, depth: u32) -> bool {
        depth > DEEPEST || (depth > 0 && self.chained >= MOST_CHAINED)
    }

    /// The depth of a task that a task hook completes now. None if no such hook runs.
    pub(in crate::engine) fn next_depth(&self) -> Option<u32> {
        let dispatch = self.dispatch.as_ref()?;
        matches!(dispatch.cause, DispatchCause::Task(_)).then(|| self.depth.saturating_add(1))
    }

    /// The completed tasks whose hooks have not all run.
    pub fn tasks(&self) -> impl Iterator<Item = &str> {
        let begun = self
            .dispatch
            .as_ref()
            .and_then(|dispatch| match &dispatch.cause {
                DispatchCause::Task(task) => Some(&task.id),
                DispatchCause::Lifecycle
                | DispatchCause::Error(_)
                | DispatchCause::Prompt(_)
                | DispatchCause::Gate(_)
                | DispatchCause::Tool(_)
                | DispatchCause::ByHand
                | DispatchCause::Resumed
                | DispatchCause::CleanRun(_)
                | DispatchCause::Verification => None,
            });
        let queued = self.queue.iter().filter_map(|job| match job {
            SideJob::Task { task, .. } | SideJob::Again(task, _) => Some(&task.id),
            SideJob::ByHand(_) | SideJob::Resumed(_) => None,
        });
        begun.into_iter().chain(queued).map(String::as_str)
    }
}

pub(crate) fn cut_off(task: &str, depth: u32) -> String {
    let why = if depth > DEEPEST {
        format!("{DEEPEST} tasks led to {task}, each completed by a hook of the one before")
    } else {
        format!("hooks completed {MOST_CHAINED} tasks since the last prompt")
    };
    format!("creel stops on_task_complete here: {why}; it does not run the hooks for {task}")
}

impl SideJobs {
    /// Whether a gate is about a hook beside the lifecycle.
    pub(crate) fn is_beside(&self, gate: &Gate) -> bool {
        self.failure_of(gate.subject.run()).is_some()
    }

    /// Whether a gate is about a hook that stopped the session while the agent worked.
    pub(crate) fn stopped_the_turn(&self, gate: &Gate) -> bool {
        self.failure_of(gate.subject.run())
            .is_some_and(|failure| failure.point.is_in_turn())
    }

    /// The completed tasks whose hooks did not run because of the interrupt.
    pub(crate) fn hooks_left(&self) -> Option<Event> {
        let tasks: Vec<&str> = self.tasks().collect();
        let first = tasks.first()?;
        let of = if tasks.len() == 1 {
            format!("task {first}")
        } else {
            format!("{} tasks", tasks.len())
        };
        Some(Event::warning(format!(
            "the on_task_complete hooks of {of} have not run; they run when you resume the session"
        )))
    }
}

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
            DispatchCause::Lifecycle
            | DispatchCause::Error(_)
            | DispatchCause::Prompt(_)
            | DispatchCause::CleanRun(_)
            | DispatchCause::Verification => self.ending.is_none() && !self.pipelines.is_open(),
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
