//! The task queue: a bucket with all tasks, and a stream with the tasks that are ready to start.
//!
//! # Invariants
//! - A task is put into the stream after the bucket says that it is ready. If a process dies in between, the next one
//!   that checks puts it there.

pub mod handover;
pub mod ready_tasks;
pub mod task_bucket;

use std::{collections::BTreeMap, time::Duration};

use async_nats::jetstream::Context;

use crate::{
    config::NatsConfig,
    engine::{
        queue::{QueueRequest, QueueRequestError, QueuedTask, QueuedTaskState, task_spec::TaskSpec},
        tasks::refusal::TaskRefusal,
        time::UnixTime,
    },
    nats::connection::NatsError,
    queue::{
        ready_tasks::ReadyTaskStream,
        task_bucket::{QueueAddError, QueueChanges, QueueTaskKey, TaskBucket, TaskRevision},
    },
};

/// How long to wait before asking a failing server again.
const AGAIN: Duration = Duration::from_secs(1);
/// The default lease: how long a worker can be silent before its task is handed out again.
pub const LEASE: Duration = Duration::from_secs(15);

#[derive(Debug)]
pub struct TaskQueue {
    /// All tasks.
    pub board: TaskBucket,
    /// The tasks that are ready to start.
    pub line: ReadyTaskStream,
}

/// The queue together with its tasks, kept up to date.
pub struct WatchedQueue {
    pub queue: TaskQueue,
    /// All tasks, as last received.
    tasks: BTreeMap<QueueTaskKey, TaskRevision>,
    changes: QueueChanges,
    /// Whether a task may have become ready since the last check.
    stirred: bool,
}

/// Why a request of the user failed.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    #[error(transparent)]
    Refused(QueueRequestError),
    #[error(transparent)]
    BadTask(TaskRefusal),
    /// Another task has the name.
    #[error("{0}")]
    Taken(QueueAddError),
    #[error("NATS: {0}")]
    Trouble(#[from] NatsError),
}

impl From<QueueAddError> for QueueError {
    fn from(error: QueueAddError) -> Self {
        match error {
            QueueAddError::Taken(_) => Self::Taken(error),
            QueueAddError::Trouble(trouble) => Self::Trouble(trouble),
        }
    }
}

impl TaskQueue {
    /// Opens the queue. Creates what the server does not have.
    pub async fn open(jetstream: &Context, nats: &NatsConfig, lease: Duration) -> Result<Self, NatsError> {
        let board = TaskBucket::open(jetstream, nats).await?;
        let line = ReadyTaskStream::open(jetstream, nats, lease).await?;
        Ok(Self { board, line })
    }

    /// Why the queue has fewer replicas than the config asks for.
    pub fn missing_replicas(&self) -> Option<String> {
        let all: Vec<&str> = self.board.missing_replicas().into_iter().chain(self.line.missing_replicas()).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Adds a task. One without a name gets the next number.
    pub async fn add(&mut self, order: TaskSpec, at: UnixTime) -> Result<TaskRevision, QueueError> {
        // The name is chosen later, so the check uses any valid one.
        let named = if order.id.is_empty() { TaskSpec { id: "0".to_owned(), ..order.clone() } } else { order.clone() };
        named.checked().map_err(QueueError::BadTask)?;
        for on in &order.dependencies {
            let known = self.board.get(&QueueTaskKey::of(&order).sibling(on)).await?;
            if known.is_none_or(|seen| seen.task.standing == QueuedTaskState::Removed) {
                return Err(QueueError::Refused(QueueRequestError::NoDependency(on.clone())));
            }
        }
        let added = self.board.add(QueuedTask::new(order, at)).await?;
        Ok(self.ready(&QueueTaskKey::of(&added.task.order)).await?.unwrap_or(added))
    }

    pub async fn ask(
        &mut self,
        key: &QueueTaskKey,
        ask: &QueueRequest,
        at: UnixTime,
    ) -> Result<TaskRevision, QueueError> {
        loop {
            let none = || QueueError::Refused(QueueRequestError::NoSuchTask(key.id().to_owned()));
            let TaskRevision { task, revision } = self.board.get(key).await?.ok_or_else(none)?;
            let task = task.asked(ask.clone(), at).map_err(QueueError::Refused)?;
            if let Some(revision) = self.board.write(&task, revision).await? {
                return Ok(self.ready(key).await?.unwrap_or(TaskRevision { task, revision }));
            }
        }
    }

    /// Puts a task into the stream of ready tasks if all of its dependencies are closed. Returns its state afterwards.
    pub async fn ready(&mut self, key: &QueueTaskKey) -> Result<Option<TaskRevision>, NatsError> {
        let Some(known) = self.board.get(key).await? else { return Ok(None) };
        let mut open = Vec::new();
        for on in &known.task.order.dependencies {
            let waits = self.board.get(&key.sibling(on)).await?.is_some_and(|seen| seen.task.is_open());
            open.extend(waits.then(|| on.clone()));
        }
        let is_open = |on: &str| open.iter().any(|open| open == on);
        let seen = match self.board.change(key, |task| task.readied(is_open)).await? {
            Some(readied) => readied,
            // Another process may have done it just now.
            None => self.board.get(key).await?.unwrap_or(known),
        };
        if seen.task.standing == QueuedTaskState::Ready {
            self.line.put(&seen.task.order).await?;
        }
        Ok(Some(seen))
    }

    pub async fn watched(self) -> Result<WatchedQueue, NatsError> {
        let mut changes = self.board.changes("").await?;
        let tasks = changes.all().await?;
        Ok(WatchedQueue { queue: self, tasks, changes, stirred: true })
    }
}

impl WatchedQueue {
    pub async fn changed(&mut self) -> Result<(), NatsError> {
        if let Some(seen) = self.changes.next().await? {
            self.note(seen);
        }
        Ok(())
    }

    /// Stores the state of a task, unless a later one is known.
    pub fn note(&mut self, seen: TaskRevision) {
        let key = QueueTaskKey::of(&seen.task.order);
        if seen.is_news_to(self.tasks.get(&key)) {
            self.stirred |= !seen.task.is_open() || seen.task.standing == QueuedTaskState::Created;
            self.tasks.insert(key, seen);
        }
    }

    /// Whether the task is ready or active, or waits only for tasks that workers are doing.
    pub fn is_ahead(&self, task: &QueuedTask) -> bool {
        let key = QueueTaskKey::of(&task.order);
        task.is_ahead(|on| self.tasks.get(&key.sibling(on)).map(|seen| &seen.task))
    }

    pub fn tasks(&self) -> impl Iterator<Item = &QueuedTask> {
        self.tasks.values().map(|seen| &seen.task)
    }

    /// Puts all tasks into the stream of ready tasks that have become ready.
    pub async fn ready_all(&mut self) -> Result<(), NatsError> {
        if !self.stirred {
            return Ok(());
        }
        let waits =
            |key: &QueueTaskKey, on: &str| self.tasks.get(&key.sibling(on)).is_some_and(|seen| seen.task.is_open());
        let due = self.tasks.iter().filter(|(key, seen)| seen.task.readied(|on| waits(key, on)).is_some());
        let due: Vec<QueueTaskKey> = due.map(|(key, _)| key.clone()).collect();
        for key in due {
            if let Some(seen) = self.queue.ready(&key).await? {
                self.tasks.insert(key, seen);
            }
        }
        self.stirred = false;
        Ok(())
    }

    /// Follows all changes and puts tasks into the stream when they become ready: another worker may wait for a task
    /// that only this process knows to be ready. Runs until the caller drops the future; the next call finishes what
    /// was interrupted.
    pub async fn follow(&mut self) {
        loop {
            let followed = match self.ready_all().await {
                Ok(()) => self.changed().await,
                Err(trouble) => Err(trouble),
            };
            if let Err(trouble) = followed {
                tracing::info!("nats: {trouble}");
                tokio::time::sleep(AGAIN).await;
            }
        }
    }

    /// Repairs the queue: puts ready or active tasks back into the stream if they are missing there. The worker of an
    /// active task may be dead.
    pub async fn mend(&mut self, mut wanted: impl FnMut(&TaskSpec) -> bool) -> Result<(), NatsError> {
        let TaskQueue { line, .. } = &mut self.queue;
        let there = line.look().await?;
        let is_due =
            |task: &&QueuedTask| matches!(task.standing, QueuedTaskState::Ready | QueuedTaskState::Active { .. });
        for task in self.tasks.values().map(|seen| &seen.task).filter(is_due).filter(|task| wanted(&task.order)) {
            if !there.contains(&line.subject(&task.order)) {
                line.put(&task.order).await?;
            }
        }
        self.stirred = true;
        Ok(())
    }
}
