//! All tasks of the queue with their states, in a key-value bucket with compare-and-swap.
//!
//! Deletes tasks that ended longer ago than `max_age` under `nats:`. Does not decide how a task can
//! change, or which ones are past: see [`crate::engine::queue`].

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use async_nats::{
    HeaderMap,
    jetstream::{
        self, Context, consumer::DeliverPolicy, context::PublishErrorKind, message::StreamMessage,
    },
};

use crate::{
    config::NatsConfig,
    engine::{
        queue::{QueuedTask, QueuedTaskState, retention::past_tasks, task_spec::TaskSpec},
        tasks::command::is_name,
        time::{TimeSpan, UnixTime},
    },
    nats::{
        connection::NatsError,
        stream::{self, NatsStream, OrderedMessages},
        subject::LAST_OF_SUBJECT,
    },
    queue::{
        backend::{ChangeFeed, QueueFuture, QueueTaskKey, TaskRevision, TaskStore},
        merger_lease::MergerEntry,
        queue_of,
    },
};

/// How long to wait for a message of the bucket.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, Clone)]
pub(super) struct TaskBucket {
    jetstream: Context,
    store: Arc<NatsStream>,
    /// The start of the subjects of this queue: the bucket has the tasks of several.
    prefix: String,
    /// The subject of the queue's merger. No queue has a name with this beginning.
    merger: String,
    /// The unfinished tasks of no project: they are from a version of creel that had one queue for
    /// all projects.
    pub(super) unowned: Vec<String>,
}

/// The changes of tasks: first each task as it is, then each change.
struct QueueChanges {
    messages: OrderedMessages,
    /// The subjects that existed at the start and have not arrived. A count would not do, since
    /// tasks change at the same time.
    missing: BTreeSet<String>,
}

/// The tasks in these messages. Skips those in a format that this creel cannot read.
fn read(messages: &[StreamMessage]) -> Vec<QueuedTask> {
    messages
        .iter()
        .filter_map(|message| serde_json::from_slice(&message.payload).ok())
        .collect()
}

fn bucket(prefix: &str) -> String {
    format!("{}-tasks", prefix.replace('.', "_"))
}

impl TaskBucket {
    /// Opens the bucket. Creates it if there is none.
    pub(super) async fn open(jetstream: &Context, nats: &NatsConfig) -> Result<Self, NatsError> {
        let bucket = bucket(&nats.prefix);
        let wanted = stream::bucket(&bucket, Duration::ZERO, nats.stream.replicas);
        let store = Arc::new(stream::ensured_replicas(jetstream, wanted).await?);
        let prefix = format!("$KV.{bucket}.{}.", queue_of(nats)?);
        let merger = format!("$KV.{bucket}.=merger.{}", queue_of(nats)?);
        let tasks = read(&store.last_of_each(format!("$KV.{bucket}.*.*")).await?);
        let unowned = tasks
            .into_iter()
            .filter(QueuedTask::is_open)
            .map(|task| task.order.id)
            .collect();
        Ok(Self {
            jetstream: jetstream.clone(),
            store,
            prefix,
            merger,
            unowned,
        })
    }

    /// Why the server has fewer replicas than the config asks for.
    pub(super) fn missing_replicas(&self) -> Option<&str> {
        self.store.differences.first().map(String::as_str)
    }

    fn subject(&self, tokens: &str) -> String {
        format!("{}{tokens}", self.prefix)
    }

    async fn get(&self, key: &QueueTaskKey) -> Result<Option<TaskRevision>, NatsError> {
        // A text that is not a name could match other subjects: `*` matches any task.
        if !is_name(key.id()) {
            return Ok(None);
        }
        let Some(message) = self.store.last_of(&self.subject(&key.tokens())).await? else {
            return Ok(None);
        };
        let revision = message.sequence;
        if message.payload.is_empty() {
            // The queue has forgotten it, or it was deleted with the server's own tools. Its name
            // stays taken.
            let order = TaskSpec {
                id: key.id().to_owned(),
                ..TaskSpec::default()
            };
            return Ok(Some(TaskRevision {
                task: QueuedTask {
                    state: QueuedTaskState::Removed,
                    ..QueuedTask::new(order, UnixTime(0))
                },
                revision,
            }));
        }
        let task = serde_json::from_slice(&message.payload).map_err(|error| {
            NatsError(format!(
                "cannot read task {} from the server: {error}",
                key.id()
            ))
        })?;
        Ok(Some(TaskRevision { task, revision }))
    }

    /// Writes a task if its revision is still `read`; 0 means that it did not exist. `None` if
    /// another process was faster.
    async fn write(&self, task: &QueuedTask, read: u64) -> Result<Option<u64>, NatsError> {
        let mut headers = HeaderMap::new();
        headers.insert(LAST_OF_SUBJECT, read.to_string().as_str());
        let text = serde_json::to_vec(task).expect("a task has no keys that are not text");
        self.put_task(&QueueTaskKey::of(&task.order), headers, text)
            .await
    }

    async fn put_task(
        &self,
        key: &QueueTaskKey,
        headers: HeaderMap,
        text: Vec<u8>,
    ) -> Result<Option<u64>, NatsError> {
        let (subject, what) = (self.subject(&key.tokens()), format!("task {}", key.id()));
        self.put(subject, &what, headers, text).await
    }

    /// The merger of this queue, if there is one, and the revision of its entry.
    pub(super) async fn merger(&self) -> Result<(Option<MergerEntry>, u64), NatsError> {
        let found = self.store.last_of(&self.merger).await?;
        Ok(found.map_or((None, 0), |message| {
            let entry = serde_json::from_slice(&message.payload).ok();
            (entry, message.sequence)
        }))
    }

    /// Writes the merger of this queue if the entry's revision is still `read`. `None` if another process was
    /// faster.
    pub(super) async fn write_merger(
        &self,
        entry: Option<&MergerEntry>,
        read: u64,
    ) -> Result<Option<u64>, NatsError> {
        let mut headers = HeaderMap::new();
        headers.insert(LAST_OF_SUBJECT, read.to_string().as_str());
        let text = entry.map_or_else(Vec::new, |entry| {
            serde_json::to_vec(entry).expect("an entry has no keys that are not text")
        });
        if entry.is_none() {
            headers.insert("KV-Operation", "DEL");
        }
        self.put(self.merger.clone(), "a merger", headers, text)
            .await
    }

    async fn put(
        &self,
        subject: String,
        what: &str,
        headers: HeaderMap,
        text: Vec<u8>,
    ) -> Result<Option<u64>, NatsError> {
        let cannot = |error: jetstream::context::PublishError| {
            let cause = std::error::Error::source(&error)
                .map(|cause| format!(": {cause}"))
                .unwrap_or_default();
            NatsError(format!("the server does not accept {what}: {error}{cause}"))
        };
        let sent = self
            .jetstream
            .publish_with_headers(subject, headers, text.into())
            .await
            .map_err(cannot)?;
        match sent.await {
            Ok(ack) => Ok(Some(ack.sequence)),
            Err(error) if error.kind() == PublishErrorKind::WrongLastSequence => Ok(None),
            Err(error) => Err(cannot(error)),
        }
    }

    async fn next_number(&self) -> Result<u64, NatsError> {
        // Names are never freed.
        Ok(self.store.subjects(self.subject(">")).await?.len() as u64 + 1)
    }

    /// Deletes the text of a task, unless it has changed since it was read. Its name stays taken.
    ///
    /// Not with a purge: servers of version 2.9 then skip what the consumers of the stream have not
    /// read.
    pub(super) async fn forget(&self, key: &QueueTaskKey, read: u64) -> Result<(), NatsError> {
        let mut headers = HeaderMap::new();
        headers.insert(LAST_OF_SUBJECT, read.to_string().as_str());
        headers.insert("KV-Operation", "DEL");
        self.put_task(key, headers, Vec::new()).await.map(drop)
    }

    /// All tasks in the order of their last change. Skips those in a format that this creel cannot
    /// read.
    async fn all(&self) -> Result<Vec<QueuedTask>, NatsError> {
        Ok(read(&self.store.last_of_each(self.subject(">")).await?))
    }

    /// The changes of all tasks, or of the tasks of one session if `owner` is not empty.
    async fn changes(&self, owner: &str) -> Result<QueueChanges, NatsError> {
        let tokens = if owner.is_empty() {
            ">".to_owned()
        } else {
            format!("{owner}.>")
        };
        let filter = self.subject(&tokens);
        let messages = self
            .store
            .follow(filter.clone(), DeliverPolicy::LastPerSubject)
            .await
            .map_err(unreadable)?;
        // Read after the consumer was created, so each of these subjects will arrive.
        let missing = self.store.subjects(filter).await?;
        Ok(QueueChanges { messages, missing })
    }
}

fn unreadable(NatsError(why): NatsError) -> NatsError {
    NatsError(format!("the tasks of the queue: {why}"))
}

impl QueueChanges {
    async fn all(&mut self) -> Result<BTreeMap<QueueTaskKey, TaskRevision>, NatsError> {
        let mut all = BTreeMap::new();
        while !self.missing.is_empty() {
            let next = tokio::time::timeout(PATIENCE, self.next()).await;
            let seen = next.map_err(|_| NatsError("the server does not answer".to_owned()))??;
            all.extend(seen.map(|seen| (QueueTaskKey::of(&seen.task.order), seen)));
        }
        Ok(all)
    }

    async fn next(&mut self) -> Result<Option<TaskRevision>, NatsError> {
        let message = self.messages.next().await.map_err(unreadable)?;
        self.missing.remove(message.subject.as_str());
        let revision = message.info().map_or(0, |info| info.stream_sequence);
        Ok(serde_json::from_slice(&message.payload)
            .ok()
            .map(|task| TaskRevision { task, revision }))
    }
}

/// The tasks of all queues of a server: first each as it is, then each change.
pub struct FleetTasks {
    messages: OrderedMessages,
    prefix: String,
}

impl FleetTasks {
    /// Fails if the server has no queue.
    pub async fn follow(jetstream: &Context, nats: &NatsConfig) -> Result<Self, NatsError> {
        let bucket = bucket(&nats.prefix);
        let prefix = format!("$KV.{bucket}.");
        let store = stream::find(jetstream, &format!("KV_{bucket}")).await?;
        let from = DeliverPolicy::LastPerSubject;
        let messages = store.follow(format!("{prefix}>"), from).await?;
        Ok(Self { messages, prefix })
    }

    /// All tasks as they are, each with its queue.
    pub async fn all(
        jetstream: &Context,
        nats: &NatsConfig,
    ) -> Result<Vec<(String, QueuedTask)>, NatsError> {
        let bucket = bucket(&nats.prefix);
        let prefix = format!("$KV.{bucket}.");
        let Some(stream) = stream::found(jetstream, &format!("KV_{bucket}")).await? else {
            return Ok(Vec::new());
        };
        let last = Arc::new(NatsStream::of(stream))
            .last_of_each(format!("{prefix}>"))
            .await?;
        let tasks = last.iter().filter_map(|message| {
            let tokens = message.subject.as_str().strip_prefix(&prefix)?;
            let (queue, _) = tokens.split_once('.')?;
            let task = serde_json::from_slice(&message.payload).ok()?;
            Some((queue.to_owned(), task))
        });
        Ok(tasks.collect())
    }

    /// The next task, with its queue and its key there. `None` instead of the task if it is deleted, or
    /// in a format that this creel cannot read.
    pub async fn next(&mut self) -> Result<(String, String, Option<QueuedTask>), NatsError> {
        let message = self.messages.next().await?;
        let subject = message.subject.as_str();
        let tokens = subject.strip_prefix(&self.prefix).unwrap_or(subject);
        let (queue, key) = tokens.split_once('.').unwrap_or((tokens, ""));
        let task = serde_json::from_slice(&message.payload).ok();
        Ok((queue.to_owned(), key.to_owned(), task))
    }
}

impl TaskStore for TaskBucket {
    fn get<'a>(&'a self, key: &'a QueueTaskKey) -> QueueFuture<'a, Option<TaskRevision>> {
        Box::pin(async { Ok(Self::get(self, key).await?) })
    }

    fn write<'a>(&'a self, task: &'a QueuedTask, read: u64) -> QueueFuture<'a, Option<u64>> {
        Box::pin(async move { Ok(Self::write(self, task, read).await?) })
    }

    fn next_number(&self) -> QueueFuture<'_, u64> {
        Box::pin(async { Ok(Self::next_number(self).await?) })
    }

    fn all(&self) -> QueueFuture<'_, Vec<QueuedTask>> {
        Box::pin(async { Ok(Self::all(self).await?) })
    }

    fn changes<'a>(&'a self, owner: &'a str) -> QueueFuture<'a, Box<dyn ChangeFeed>> {
        Box::pin(async { Ok(Box::new(Self::changes(self, owner).await?) as Box<dyn ChangeFeed>) })
    }
}

impl ChangeFeed for QueueChanges {
    fn all(&mut self) -> QueueFuture<'_, BTreeMap<QueueTaskKey, TaskRevision>> {
        Box::pin(async { Ok(Self::all(self).await?) })
    }

    fn next(&mut self) -> QueueFuture<'_, Option<TaskRevision>> {
        Box::pin(async { Ok(Self::next(self).await?) })
    }
}

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
