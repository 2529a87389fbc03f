//! Deletes tasks from a server's queue that ended long ago: `max_age` under `nats:`.
//!
//! Does not decide which: see [`crate::engine::queue::retention`].

use std::collections::BTreeMap;

use async_nats::jetstream::stream::Stream;

use crate::{
    config::NatsConfig,
    engine::{
        queue::{QueuedTask, retention::past_tasks},
        time::{TimeSpan, UnixTime},
    },
    nats::{connection::NatsError, stream::purge},
    queue::{
        backend::{QueueTaskKey, TaskRevision},
        ready_tasks::{ReadyTaskStream, subject_of},
        task_bucket::TaskBucket,
    },
};

#[derive(Debug)]
pub(super) struct TaskRetention {
    max_age: TimeSpan,
    board: TaskBucket,
    /// The stream of ready tasks, and the start of its subjects.
    line: Stream,
    prefix: String,
}

impl TaskRetention {
    /// `None` if the config keeps tasks for ever.
    pub(super) fn of(nats: &NatsConfig, board: &TaskBucket, line: &ReadyTaskStream) -> Option<Self> {
        let max_age = nats.stream.max_age;
        let (line, prefix) = line.stream();
        (!max_age.is_zero()).then(|| Self { max_age, board: board.clone(), line, prefix })
    }

    /// Deletes the tasks that are past, on the server and in `tasks`.
    pub(super) async fn clear_out(
        &self,
        tasks: &mut BTreeMap<QueueTaskKey, TaskRevision>,
        at: UnixTime,
    ) -> Result<(), NatsError> {
        let past = past_tasks(tasks.values().map(|seen| &seen.task), self.max_age, at);
        let past: Vec<QueuedTask> = past.into_iter().cloned().collect();
        for task in past {
            let key = QueueTaskKey::of(&task.order);
            let Some(seen) = tasks.get(&key) else { continue };
            // First from the line, where it is if its worker died before it could say that it is done: a worker runs
            // what is in the line and unknown to the store.
            purge(&self.line, &subject_of(&self.prefix, &task.order), None).await?;
            self.board.forget(&key, seen.revision).await?;
            tasks.remove(&key);
        }
        Ok(())
    }
}
