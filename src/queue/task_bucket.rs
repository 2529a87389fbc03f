//! All tasks of the queue with their states, in a key-value bucket with compare-and-swap.
//!
//! Does not decide how a task can change: see [`crate::engine::queue`].
//!
//! # Invariants
//! - A write succeeds only if the task has not changed since it was read.
//! - A name is used once, even after its task was removed.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::Pin,
    time::Duration,
};

use async_nats::{
    HeaderMap,
    jetstream::{
        self, Context,
        consumer::{
            DeliverPolicy,
            pull::{Ordered, OrderedConfig},
        },
        context::PublishErrorKind,
    },
};
use futures_core::Stream as _;

use crate::{
    config::NatsConfig,
    engine::{
        queue::{QueuedTask, QueuedTaskState, task_spec::TaskSpec},
        tasks::command::is_name,
        time::UnixTime,
    },
    nats::{
        connection::NatsError,
        stream::{self, NatsStream},
        subject::LAST_OF_SUBJECT,
    },
};

/// How long to wait for a message of the bucket.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many numbers to try for a task without a name, since other processes add tasks, too.
const NAMES: u64 = 1_000;

#[derive(Debug, Clone)]
pub struct TaskBucket {
    jetstream: Context,
    store: std::sync::Arc<NatsStream>,
    bucket: String,
}

/// The key of a task: its session and its name there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueTaskKey {
    owner: String,
    id: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRevision {
    pub task: QueuedTask,
    /// The sequence number of the message with this state.
    pub revision: u64,
}

/// The changes of tasks: first each task as it is, then each change.
pub struct QueueChanges {
    messages: Ordered,
    /// The subjects that existed at the start and have not arrived. A count would not do, since tasks change meanwhile.
    missing: BTreeSet<String>,
}

impl TaskRevision {
    /// Whether this state is newer than the known one. A process receives its own writes again, after all earlier ones.
    pub fn is_news_to(&self, known: Option<&Self>) -> bool {
        known.is_none_or(|known| self.revision > known.revision)
    }
}

impl QueueTaskKey {
    /// A task without a session.
    pub fn own(id: &str) -> Self {
        Self { owner: "-".to_owned(), id: id.to_owned() }
    }

    pub fn of(order: &TaskSpec) -> Self {
        let owner = order.session.as_ref().map_or("-", |owner| owner.id.as_str());
        Self { owner: owner.to_owned(), id: order.id.clone() }
    }

    #[must_use]
    pub fn sibling(&self, id: &str) -> Self {
        Self { owner: self.owner.clone(), id: id.to_owned() }
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// The end of the task's subject.
    pub fn tokens(&self) -> String {
        format!("{}.{}", self.owner, self.id)
    }
}

fn bucket(prefix: &str) -> String {
    format!("{}-tasks", prefix.replace('.', "_"))
}

impl TaskBucket {
    /// Opens the bucket. Creates it if there is none.
    pub async fn open(jetstream: &Context, nats: &NatsConfig) -> Result<Self, NatsError> {
        let bucket = bucket(&nats.prefix);
        let wanted = stream::bucket(&bucket, Duration::ZERO, nats.stream.replicas);
        let store = stream::ensured_replicas(jetstream, wanted).await?;
        Ok(Self { jetstream: jetstream.clone(), store: store.into(), bucket })
    }

    /// Why the server has fewer replicas than the config asks for.
    pub fn missing_replicas(&self) -> Option<&str> {
        self.store.differences.first().map(String::as_str)
    }

    fn subject(&self, tokens: &str) -> String {
        format!("$KV.{}.{tokens}", self.bucket)
    }

    pub async fn get(&self, key: &QueueTaskKey) -> Result<Option<TaskRevision>, NatsError> {
        // A text that is not a name could match other subjects: `*` matches any task.
        if !is_name(&key.id) {
            return Ok(None);
        }
        let Some(message) = self.store.last_of(&self.subject(&key.tokens())).await? else { return Ok(None) };
        let revision = message.sequence;
        if message.payload.is_empty() {
            // The task was deleted with the server's own tools. Its name stays taken.
            let order = TaskSpec { id: key.id.clone(), ..TaskSpec::default() };
            return Ok(Some(TaskRevision {
                task: QueuedTask { standing: QueuedTaskState::Removed, ..QueuedTask::new(order, UnixTime(0)) },
                revision,
            }));
        }
        let task = serde_json::from_slice(&message.payload)
            .map_err(|error| NatsError(format!("cannot read task {} from the server: {error}", key.id)))?;
        Ok(Some(TaskRevision { task, revision }))
    }

    /// Writes a task if its revision is still `read`; 0 means that it did not exist. `None` if another process was
    /// faster.
    pub async fn write(&self, task: &QueuedTask, read: u64) -> Result<Option<u64>, NatsError> {
        let mut headers = HeaderMap::new();
        headers.insert(LAST_OF_SUBJECT, read.to_string().as_str());
        let text = serde_json::to_vec(task).expect("a task has no keys that are not text");
        let subject = self.subject(&QueueTaskKey::of(&task.order).tokens());
        let cannot = |error: jetstream::context::PublishError| {
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
            NatsError(format!("the server does not accept task {}: {error}{cause}", task.order.id))
        };
        let sent = self.jetstream.publish_with_headers(subject, headers, text.into()).await.map_err(cannot)?;
        match sent.await {
            Ok(ack) => Ok(Some(ack.sequence)),
            Err(error) if error.kind() == PublishErrorKind::WrongLastSequence => Ok(None),
            Err(error) => Err(cannot(error)),
        }
    }

    /// Adds a task and returns it. One without a name gets the next number.
    pub async fn add(&self, new: QueuedTask) -> Result<TaskRevision, QueueAddError> {
        if !new.order.id.is_empty() {
            return match self.write(&new, 0).await? {
                Some(revision) => Ok(TaskRevision { task: new, revision }),
                None => Err(QueueAddError::Taken(new.order.id)),
            };
        }
        // Names are never freed, so there are about as many as there are messages.
        let info = self.store.stream.get_info().await;
        let known =
            info.map_err(|error| NatsError(format!("the server does not report how many tasks there are: {error}")))?;
        let first = known.state.messages + 1;
        for number in first..first + NAMES {
            let order = TaskSpec { id: number.to_string(), ..new.order.clone() };
            let task = QueuedTask { order, ..new.clone() };
            if let Some(revision) = self.write(&task, 0).await? {
                return Ok(TaskRevision { task, revision });
            }
        }
        Err(QueueAddError::Taken(format!("{first} to {}", first + NAMES)))
    }

    /// Changes a task, and tries again if another process was faster. `change` returns `None` if there is nothing to
    /// change.
    pub async fn change(
        &self,
        key: &QueueTaskKey,
        change: impl Fn(&QueuedTask) -> Option<QueuedTask>,
    ) -> Result<Option<TaskRevision>, NatsError> {
        while let Some(TaskRevision { task, revision }) = self.get(key).await? {
            let Some(task) = change(&task) else { return Ok(None) };
            if let Some(revision) = self.write(&task, revision).await? {
                return Ok(Some(TaskRevision { task, revision }));
            }
        }
        Ok(None)
    }

    /// All tasks in the order of their last change. Skips those in a format that this creel cannot read.
    pub async fn all(&self) -> Result<Vec<QueuedTask>, NatsError> {
        let last = self.store.last_of_each(self.subject(">")).await?;
        Ok(last.iter().filter_map(|message| serde_json::from_slice(&message.payload).ok()).collect())
    }

    /// The changes of all tasks, or of the tasks of one session if `owner` is not empty.
    pub async fn changes(&self, owner: &str) -> Result<QueueChanges, NatsError> {
        let cannot = |error: String| NatsError(format!("cannot read the tasks of the queue: {error}"));
        let tokens = if owner.is_empty() { ">".to_owned() } else { format!("{owner}.>") };
        let filter = self.subject(&tokens);
        let config = OrderedConfig {
            filter_subject: filter.clone(),
            deliver_policy: DeliverPolicy::LastPerSubject,
            ..OrderedConfig::default()
        };
        let consumer = self.store.stream.create_consumer(config).await.map_err(|error| cannot(error.to_string()))?;
        let messages = consumer.messages().await.map_err(|error| cannot(error.to_string()))?;
        // Read after the consumer was created, so each of these subjects will arrive.
        let missing = self.store.subjects(filter).await?;
        Ok(QueueChanges { messages, missing })
    }
}

impl QueueChanges {
    /// All tasks as they are. Skips those in a format that this creel cannot read.
    pub async fn all(&mut self) -> Result<BTreeMap<QueueTaskKey, TaskRevision>, NatsError> {
        let mut all = BTreeMap::new();
        while !self.missing.is_empty() {
            let next = tokio::time::timeout(PATIENCE, self.next()).await;
            let seen = next.map_err(|_| NatsError("the server does not answer".to_owned()))??;
            all.extend(seen.map(|seen| (QueueTaskKey::of(&seen.task.order), seen)));
        }
        Ok(all)
    }

    /// The next change. `None` if this creel cannot read its format.
    pub async fn next(&mut self) -> Result<Option<TaskRevision>, NatsError> {
        let next = std::future::poll_fn(|context| Pin::new(&mut self.messages).poll_next(context)).await;
        match next {
            Some(Ok(message)) => {
                self.missing.remove(message.subject.as_str());
                let revision = message.info().map_or(0, |info| info.stream_sequence);
                Ok(serde_json::from_slice(&message.payload).ok().map(|task| TaskRevision { task, revision }))
            }
            Some(Err(error)) => Err(NatsError(format!("cannot read the tasks of the queue: {error}"))),
            None => Err(NatsError("the connection was lost".to_owned())),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum QueueAddError {
    /// The name is taken, or was in the past.
    #[error("the queue already has a task {0}, or had one")]
    Taken(String),
    #[error("NATS: {0}")]
    Trouble(#[from] NatsError),
}
