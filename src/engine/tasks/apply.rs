//! How the records of tasks change the state.

use crate::engine::{event::Event, session::State, tasks::record::What, time::At};

impl State {
    pub(crate) fn apply_task(&mut self, at: At, event: &Event) {
        let Some(news) = event.task_news() else { return };
        self.tasks.graph.take(at, &news);
        if let What::Completed(data) = news.what {
            self.task_completed(news.task, &data.content);
        }
        let cause = news.origin.cause.as_ref();
        if news.what.kind().is_some_and(|kind| !self.hearing(kind).is_empty()) {
            self.tasks.automation.raise(at, event, cause.is_some());
        }
        if let Some(cause) = cause {
            self.tasks.automation.carried_out(cause);
        }
    }
}
