//! Hooks of task events, and those that people run: beside the agent, one at a time, in the order in which they were asked for.
//!
//! # Invariants
//! - What cannot be run here never gets into a dispatch: each one comes to its end.
//! - A session that the agent leads itself is never held: what needs a person there is only told.

use std::collections::{BTreeSet, VecDeque};

use super::{GateAbout, State, gate::About, warning};
use crate::engine::{
    Step,
    effect::TaskFacts,
    event::Event,
    hooks::{
        dispatch::{Cause, Dispatch, needs_a_person},
        point::Point,
        resolve::{self, HookRef},
        verdict::Judgement,
    },
};

/// What runs beside the main line.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Side {
    /// What is still to be run.
    pub queue: VecDeque<Errand>,
    /// What runs now.
    pub dispatch: Option<Dispatch>,
    /// Tasks that were completed; completing one again means nothing.
    pub completed: BTreeSet<String>,
    /// Failures that a person has to look at, until one was asked: they wait for the next place where the main line can.
    pub troubles: Vec<Trouble>,
}

/// A hook of a task event that needs a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// Which.
    pub hook: String,
    /// Why, as it is told.
    pub reason: String,
}

/// Something to run beside the main line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Errand {
    /// The hooks for a completed task.
    Task(TaskFacts),
    /// A hook that a person wants to run.
    ByHand(HookRef),
}

impl Side {
    /// Whether something runs or is about to.
    pub fn is_busy(&self) -> bool {
        self.dispatch.is_some() || !self.queue.is_empty()
    }

    pub(super) fn begin(&mut self, hooks: VecDeque<String>) {
        let mut dispatch = match self.queue.pop_front() {
            Some(Errand::Task(task)) => Dispatch::reached(Point::OnTaskComplete, Cause::Task(task)),
            Some(Errand::ByHand(hook)) => Dispatch::reached(hook.point, Cause::ByHand),
            None => return,
        };
        dispatch.queue = Some(hooks);
        self.dispatch = Some(dispatch);
        self.settle();
    }

    /// A dispatch with nothing left to run is over.
    pub(super) fn settle(&mut self) {
        let over = |dispatch: &Dispatch| dispatch.running.is_none() && dispatch.next().is_none();
        if self.dispatch.as_ref().is_some_and(over) {
            self.dispatch = None;
        }
    }

    /// The hooks of a task have come as far as this: what the last one said may need a person.
    pub(super) fn look(&mut self) {
        let of_a_task = |dispatch: &&Dispatch| matches!(dispatch.cause, Cause::Task(_));
        let Some(dispatch) = self.dispatch.as_ref().filter(of_a_task) else { return };
        if let Some(done) = dispatch.done.last().filter(|done| done.judgement.escalates) {
            let (hook, reason) = (done.hook.clone(), done.needs_a_person(dispatch.point));
            self.troubles.push(Trouble { hook, reason });
        }
    }

    /// Drops what has not been started.
    pub(super) fn clear(&mut self) {
        self.queue.clear();
        if let Some(dispatch) = &mut self.dispatch {
            dispatch.queue = Some(VecDeque::new());
        }
        self.settle();
    }
}

impl State {
    /// What a hook of a task event needs a person for, where the agent leads itself: there is no main line that could be held.
    pub(in crate::engine) fn only_told(&self, dispatch: &Dispatch, hook: &str, judged: &Judgement) -> Option<Event> {
        let tells = matches!(dispatch.cause, Cause::Task(_)) && judged.escalates && self.is_led_from_outside();
        tells.then(|| warning(needs_a_person(dispatch.point, hook, judged)))
    }

    /// The gate for a failure beside the main line.
    pub(super) fn take_up_trouble(&self) -> Option<Step> {
        let off = |trouble: &&Trouble| self.is_off(&HookRef::new(Point::OnTaskComplete, &trouble.hook));
        let trouble = self.side.troubles.iter().find(|trouble| !off(trouble))?;
        Some(self.open_gate(About::Escalation, trouble.reason.clone(), GateAbout::hook(&trouble.hook)))
    }

    pub(super) fn proceed_side(&self) -> Step {
        match (&self.side.dispatch, self.side.queue.front()) {
            (Some(dispatch), _) if dispatch.running.is_none() => {
                dispatch.next().map_or_else(Step::default, |hook| self.start_hook(dispatch, hook))
            }
            (None, Some(errand)) => {
                // Recorded also when nothing is due any more: the record takes the errand off the queue.
                let (point, hooks, task) = match errand {
                    Errand::Task(task) => {
                        let point = Point::OnTaskComplete;
                        (point, resolve::due(self.plan(), &self.hooks, point), Some(task.id.clone()))
                    }
                    Errand::ByHand(HookRef { point, hook }) => {
                        let runs = self.runs_beside(*point, hook);
                        (*point, runs.then(|| hook.clone()).into_iter().collect(), None)
                    }
                };
                let (iteration, by_hand) = (Some(self.iterations.current), task.is_none());
                Step::record(Event::HooksDue { point, iteration, hooks, task, by_hand })
            }
            (Some(_) | None, _) => Step::default(),
        }
    }
    /// Whether a hook can run beside the main line: those of other points have a place of their own where runs are kept.
    pub(super) fn runs_beside(&self, point: Point, hook: &str) -> bool {
        Point::ALL.contains(&point) && self.plan().hook(point, hook).is_some()
    }
}
