//! How the records of tasks change the state.

use super::record::{Origin, What};
use crate::engine::{event::Event, session::State, time::At};

impl State {
    pub(crate) fn apply_task(&mut self, at: At, event: &Event) {
        let Some(news) = event.task_news() else { return };
        self.tasks.graph.take(at, &news);
        self.loops_go_on(news.task);
        if let What::Completed(data) = news.what {
            self.task_completed(news.task, &data.content);
        }
        if news.what.kind().is_some_and(|kind| !self.hearing(kind).is_empty()) {
            let depth = self.depth_of(news.origin);
            self.tasks.automation.raise(at, event, depth);
        }
        if let Some(cause) = &news.origin.cause {
            self.tasks.automation.carried_out(cause);
        }
        if let Some(step) = &news.origin.step {
            self.flow_changed_task(step, &news);
        }
    }

    /// How many actions led to a change, one from the other.
    fn depth_of(&self, origin: &Origin) -> u32 {
        let job = self.tasks.automation.current.as_ref().filter(|_| origin.cause.is_some());
        let flow = origin.step.as_ref().and_then(|step| self.tasks.flows.open.iter().find(|flow| flow.id == step.flow));
        job.map(|job| job.raised.depth + 1).or(flow.map(|flow| flow.depth)).unwrap_or(0)
    }
}
