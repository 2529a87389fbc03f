//! Hooks of task events: they run beside the agent, one at a time, in the order of completion.

use std::collections::{BTreeSet, VecDeque};

use super::State;
use crate::engine::{
    Step,
    effect::TaskFacts,
    event::Event,
    hooks::{
        dispatch::{Cause, Dispatch},
        point::Point,
        resolve,
    },
};

/// What runs beside the main line.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Side {
    /// Completed tasks whose hooks have not run.
    pub queue: VecDeque<TaskFacts>,
    /// The task whose hooks run now.
    pub dispatch: Option<Dispatch>,
    /// Tasks that were completed; completing one again means nothing.
    pub completed: BTreeSet<String>,
}

impl Side {
    /// Whether something runs or is about to.
    pub fn is_busy(&self) -> bool {
        self.dispatch.is_some() || !self.queue.is_empty()
    }

    pub(super) fn begin(&mut self, hooks: &[String]) {
        let Some(task) = self.queue.pop_front() else { return };
        let mut dispatch = Dispatch::reached(Point::OnTaskComplete, Cause::Task(task));
        dispatch.queue = Some(hooks.iter().cloned().collect());
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
    pub(super) fn proceed_side(&self) -> Step {
        match (&self.side.dispatch, self.side.queue.front()) {
            (Some(dispatch), _) if dispatch.running.is_none() => {
                dispatch.next().map_or_else(Step::default, |hook| self.start_hook(dispatch, hook))
            }
            (None, Some(task)) => {
                // Recorded also when nothing is due any more: the record takes the task off the queue.
                let hooks = resolve::due(self.plan(), &self.hooks, Point::OnTaskComplete);
                let iteration = Some(self.iterations.current);
                Step::record(Event::HooksDue {
                    point: Point::OnTaskComplete,
                    iteration,
                    hooks,
                    task: Some(task.id.clone()),
                })
            }
            (Some(_) | None, _) => Step::default(),
        }
    }
}
