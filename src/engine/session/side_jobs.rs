//! Hooks of task events, and those that people run: beside the agent, one at a time, in the order in which they were asked for.
//!
//! # Invariants
//! - What cannot be run here never gets into a dispatch: each one comes to its end.
//! - A chain of hooks that complete further tasks is cut at [`DEEPEST`], and after [`MOST_CHAINED`] such tasks between two
//!   prompts, with a warning: so it ends, and soon.
//! - An interrupt starts nothing here and drops nothing that is about a task: that runs when the session is resumed.
//! - A session that the agent leads itself is never held: what needs a person there is only told.

use std::collections::{BTreeSet, VecDeque};

use super::{
    GateDetails, SessionState,
    gate::{Gate, GateChoice, GateKind},
    warning,
};
use crate::engine::{
    EngineOutput,
    effect::TaskFacts,
    event::{Event, HookEvent, SessionOutcome, UserPresence},
    hooks::{
        dispatch::{DispatchCause, HookDispatch, is_broken_again, needs_a_person},
        point::HookPoint,
        resolve::{self, HookRef},
        verdict::{RunEnd, RunJudgement},
    },
    ids::RunId,
    tasks::automation::DEEPEST,
};

/// For how many tasks that hooks completed the hooks run between two prompts. Each may complete several, so the depth alone
/// would allow thousands.
pub const MOST_CHAINED: u32 = 64;

/// What runs beside the main line.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SideJobs {
    /// What is still to be run.
    pub queue: VecDeque<SideJob>,
    /// What runs now.
    pub dispatch: Option<HookDispatch>,
    /// How many tasks led to what was begun last, each completed by a hook of the one before.
    pub depth: u32,
    /// For how many tasks that hooks completed the hooks have run since the last prompt.
    pub chained: u32,
    /// Tasks that were completed; completing one again means nothing.
    pub completed: BTreeSet<String>,
    /// Failures that a person has to look at, until one was asked: they wait for the next place where the main line can.
    pub troubles: Vec<TaskHookFailure>,
}

/// A hook of a task event that needs a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskHookFailure {
    /// Which.
    pub hook: String,
    /// The run that failed.
    pub run: RunId,
    /// Why, for the user. One answer settles all failures of a hook for the same reason.
    pub reason: String,
    /// The task, if the hook could not do its job for it twice in a row: it can be run again.
    pub broken_for: Option<TaskFacts>,
}

/// Something to run beside the main line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SideJob {
    /// The hooks for a completed task.
    Task {
        /// The task.
        task: TaskFacts,
        /// How many tasks led to it, each completed by a hook of the one before.
        depth: u32,
    },
    /// One of them, again.
    Again(TaskFacts, String),
    /// A hook that a person wants to run.
    ByHand(HookRef),
}

impl TaskHookFailure {
    /// The gate that asks about it.
    fn gate(&self) -> GateKind {
        if self.broken_for.is_some() { GateKind::BrokenHook } else { GateKind::Escalation }
    }
}

impl SideJobs {
    /// Whether something runs or is about to.
    pub fn is_busy(&self) -> bool {
        self.dispatch.is_some() || !self.queue.is_empty()
    }

    pub(super) fn begin(&mut self, hooks: VecDeque<String>) {
        let (mut dispatch, depth) = match self.queue.pop_front() {
            Some(SideJob::Task { task, depth }) => {
                (HookDispatch::reached(HookPoint::OnTaskComplete, DispatchCause::Task(task)), depth)
            }
            Some(SideJob::Again(task, _)) => {
                (HookDispatch::reached(HookPoint::OnTaskComplete, DispatchCause::Task(task)), 0)
            }
            Some(SideJob::ByHand(hook)) => (HookDispatch::reached(hook.point, DispatchCause::ByHand), 0),
            None => return,
        };
        self.depth = depth;
        self.chained += u32::from(depth > 0);
        dispatch.queue = Some(hooks);
        self.dispatch = Some(dispatch);
        self.settle();
    }

    /// A dispatch with nothing left to run is over.
    pub(super) fn settle(&mut self) {
        let over = |dispatch: &HookDispatch| dispatch.running.is_none() && dispatch.next().is_none();
        if self.dispatch.as_ref().is_some_and(over) {
            self.dispatch = None;
        }
    }

    /// The hooks of a task have come as far as this: what the last one said may need a person, and so does one that could
    /// not do its job again.
    pub(super) fn look(&mut self, broken_again: bool) {
        let Some(dispatch) = &self.dispatch else { return };
        let (DispatchCause::Task(task), Some(done)) = (&dispatch.cause, dispatch.done.last()) else { return };
        let (hook, run, point) = (done.hook.clone(), done.run, dispatch.point);
        if done.judgement.escalates {
            let reason = done.needs_a_person(point);
            self.troubles.push(TaskHookFailure { hook, run, reason, broken_for: None });
        } else if broken_again {
            let reason = is_broken_again(point, &hook);
            self.troubles.push(TaskHookFailure { hook, run, reason, broken_for: Some(task.clone()) });
        }
    }

    /// A person was asked about troubles. Gives whether they were of this kind, and not the main line's.
    pub(super) fn asked(&mut self, run: Option<RunId>, choice: GateChoice) -> bool {
        let Some(failure) = self.failure_of(run).cloned() else { return false };
        let is_same = |other: &mut TaskHookFailure| other.hook == failure.hook && other.reason == failure.reason;
        let asked: Vec<TaskHookFailure> = self.troubles.extract_if(.., is_same).collect();
        let again = asked.into_iter().filter(|_| choice == GateChoice::Retry);
        let again = again.filter_map(|trouble| trouble.broken_for.map(|task| SideJob::Again(task, trouble.hook)));
        self.queue.extend(again);
        true
    }

    /// The failure of that run, if it is one of a task's hooks.
    fn failure_of(&self, run: Option<RunId>) -> Option<&TaskHookFailure> {
        self.troubles.iter().find(|failure| Some(failure.run) == run)
    }

    /// The run of the first failure that a gate about this hook can mean.
    pub(super) fn next_failure_of(&self, hook: &str, about: GateKind) -> Option<RunId> {
        let asks = |failure: &&TaskHookFailure| failure.hook == hook && failure.gate() == about;
        self.troubles.iter().find(asks).map(|failure| failure.run)
    }

    /// Drops the hooks that a person wanted to run and that have not been started.
    pub(super) fn drop_by_hand(&mut self) {
        self.queue.retain(|errand| !matches!(errand, SideJob::ByHand(_)));
        if let Some(dispatch) = self.dispatch.as_mut().filter(|dispatch| dispatch.cause == DispatchCause::ByHand) {
            dispatch.queue = Some(VecDeque::new());
        }
        self.settle();
    }

    /// Whether the hooks of a task that other hooks led to do not run any more.
    fn is_cut(&self, depth: u32) -> bool {
        depth > DEEPEST || (depth > 0 && self.chained >= MOST_CHAINED)
    }

    /// How deep a task is that a hook of this kind completes now; nothing, if none runs.
    pub(in crate::engine) fn next_depth(&self) -> Option<u32> {
        let dispatch = self.dispatch.as_ref()?;
        matches!(dispatch.cause, DispatchCause::Task(_)).then(|| self.depth.saturating_add(1))
    }

    /// The completed tasks whose hooks have not all run.
    pub fn tasks(&self) -> impl Iterator<Item = &str> {
        let begun = self.dispatch.as_ref().and_then(|dispatch| match &dispatch.cause {
            DispatchCause::Task(task) => Some(&task.id),
            DispatchCause::Lifecycle | DispatchCause::Error(_) | DispatchCause::Gate(_) | DispatchCause::ByHand => None,
        });
        let queued = self.queue.iter().filter_map(|errand| match errand {
            SideJob::Task { task, .. } | SideJob::Again(task, _) => Some(&task.id),
            SideJob::ByHand(_) => None,
        });
        begun.into_iter().chain(queued).map(String::as_str)
    }
}

impl SessionState {
    /// What a hook of a task event needs a person for, where the agent leads itself: there is no main line that could be held.
    pub(in crate::engine) fn only_told(
        &self,
        dispatch: &HookDispatch,
        hook: &str,
        judged: &RunJudgement,
    ) -> Option<Event> {
        let tells = matches!(dispatch.cause, DispatchCause::Task(_)) && judged.escalates && self.is_led_from_outside();
        tells.then(|| warning(needs_a_person(dispatch.point, hook, judged)))
    }

    /// The gate for a failure beside the main line.
    pub(super) fn take_up_trouble(&self) -> Option<EngineOutput> {
        let hook_of = |trouble: &TaskHookFailure| HookRef::new(HookPoint::OnTaskComplete, &trouble.hook);
        let matters = |trouble: &TaskHookFailure| {
            let is_still_broken =
                || self.presence == UserPresence::Attended && self.hooks.is_broken_again(&hook_of(trouble));
            trouble.broken_for.is_none() || is_still_broken()
        };
        let mut waiting = self.side.troubles.iter().filter(|trouble| !self.is_off(&hook_of(trouble)));
        let failure = waiting.find(|trouble| matters(trouble))?;
        let details = GateDetails::failed_run(&failure.hook, failure.run);
        Some(self.open_gate(failure.gate(), failure.reason.clone(), details))
    }

    /// Whether a gate is about a hook that runs beside the main line.
    pub(super) fn is_beside(&self, gate: &Gate) -> bool {
        self.side.failure_of(gate.run).is_some()
    }

    /// Whether the hooks of completed tasks wait until the session is resumed. A session that ends for good runs them
    /// before it ends.
    pub(in crate::engine) fn task_hooks_wait(&self) -> bool {
        let resumable = |ending: &super::LoopEnd| ending.interrupted || ending.outcome == SessionOutcome::Cancelled;
        self.interrupted() && self.ending.as_ref().is_none_or(resumable)
    }

    /// Whether a hook that an interrupt has cut off runs again when the session is resumed.
    pub(in crate::engine) fn runs_again(&self, dispatch: &HookDispatch, end: &RunEnd) -> bool {
        let resumes = match dispatch.cause {
            DispatchCause::Task(_) => self.task_hooks_wait(),
            // A submit or a merge begins again as a whole.
            DispatchCause::Lifecycle | DispatchCause::Error(_) => self.ending.is_none() && !self.pipelines.is_open(),
            DispatchCause::Gate(_) | DispatchCause::ByHand => false,
        };
        *end == RunEnd::Cut && self.interrupted() && resumes
    }

    /// Whether hooks run beside the main line, or are about to.
    pub(super) fn side_is_busy(&self) -> bool {
        let running = |dispatch: &HookDispatch| dispatch.running.is_some();
        if self.task_hooks_wait() { self.side.dispatch.as_ref().is_some_and(running) } else { self.side.is_busy() }
    }

    pub(super) fn proceed_side(&self) -> EngineOutput {
        if self.task_hooks_wait() {
            return EngineOutput::default();
        }
        match (&self.side.dispatch, self.side.queue.front()) {
            (Some(dispatch), _) if dispatch.running.is_none() => {
                dispatch.next().map_or_else(EngineOutput::default, |hook| self.start_hook(dispatch, hook))
            }
            (None, Some(errand)) => {
                // Recorded also when nothing is due any more: the record takes the errand off the queue.
                let (point, hooks, task) = match errand {
                    SideJob::Task { task, depth } if self.side.is_cut(*depth) => {
                        return EngineOutput::record(warning(cut_off(&task.id, *depth))).and(Event::Hook(
                            HookEvent::Due {
                                point: HookPoint::OnTaskComplete,
                                iteration: Some(self.iterations.current),
                                hooks: Vec::new(),
                                task: Some(task.id.clone()),
                                by_hand: false,
                            },
                        ));
                    }
                    SideJob::Task { task, .. } => {
                        let point = HookPoint::OnTaskComplete;
                        (point, resolve::due(self.plan(), &self.hooks, point), Some(task.id.clone()))
                    }
                    SideJob::Again(task, again) => {
                        let point = HookPoint::OnTaskComplete;
                        let mut hooks = resolve::due(self.plan(), &self.hooks, point);
                        hooks.retain(|hook| hook == again);
                        (point, hooks, Some(task.id.clone()))
                    }
                    SideJob::ByHand(HookRef { point, hook }) => {
                        let runs = self.runs_beside(*point, hook);
                        (*point, runs.then(|| hook.clone()).into_iter().collect(), None)
                    }
                };
                let (iteration, by_hand) = (Some(self.iterations.current), task.is_none());
                EngineOutput::record(Event::Hook(HookEvent::Due { point, iteration, hooks, task, by_hand }))
            }
            (Some(_) | None, _) => EngineOutput::default(),
        }
    }

    /// Whether a hook can run beside the main line: those of other points have a place of their own where runs are kept.
    pub(super) fn runs_beside(&self, point: HookPoint, hook: &str) -> bool {
        HookPoint::ALL.contains(&point) && self.plan().hook(point, hook).is_some()
    }
}

fn cut_off(task: &str, depth: u32) -> String {
    let why = if depth > DEEPEST {
        format!("{DEEPEST} tasks led to {task}, each completed by a hook of the one before")
    } else {
        format!("hooks completed {MOST_CHAINED} tasks since the last prompt")
    };
    format!("on_task_complete stops here: {why}; the hooks for {task} do not run")
}
