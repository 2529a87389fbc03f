//! Deletes tasks from a server's queue that ended long ago: `max_age` under `nats:`.
//!
//! Does not decide which: see [`crate::engine::queue::retention`].

use std::collections::BTreeMap;

use crate::{
    config::NatsConfig,
    engine::{
        queue::{QueuedTask, retention::past_tasks},
        time::{TimeSpan, UnixTime},
    },
    nats::connection::NatsError,
    queue::{
        backend::{QueueTaskKey, TaskRevision},
        task_bucket::TaskBucket,
    },
};

#[derive(Debug)]
pub(super) struct TaskRetention {
    max_age: TimeSpan,
    board: TaskBucket,
}

impl TaskRetention {
    /// `None` if the config keeps tasks for ever.
    pub(super) fn of(nats: &NatsConfig, board: &TaskBucket) -> Option<Self> {
        let max_age = nats.stream.max_age;
        (!max_age.is_zero()).then(|| Self {
            max_age,
            board: board.clone(),
        })
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
            let Some(seen) = tasks.get(&key) else {
                continue;
            };
            self.board.forget(&key, seen.revision).await?;
            tasks.remove(&key);
        }
        Ok(())
    }
}
