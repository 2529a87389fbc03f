//! The task queue: a store with all tasks, and a line with the tasks that are ready to start.
//!
//! Both are kept by a NATS server for workers on many machines ([`task_bucket`], [`ready_tasks`]),
//! or in a folder of the project for workers on this one ([`local_store`], [`local_line`]).
//! [`backend`] says what either has to do, and a [`QueuePlace`] opens the queue again after an error.
//!
//! # Invariants
//! - A task is put into the line after the store says that it is ready. If a process dies in
//!   between, the next one that checks puts it there.

pub mod backend;
pub mod handover;
mod local_line;
pub mod local_store;
pub mod merger_lease;
mod ready_tasks;
pub mod task_bucket;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use async_nats::{
    Client, Subscriber,
    jetstream::{self, Context},
};
use tokio::sync::mpsc;

use crate::{
    config::NatsConfig,
    engine::{
        queue::{
            QueueRequest, QueueRequestError, QueuedTask, QueuedTaskState, dependency_path,
            task_spec::TaskSpec,
        },
        tasks::command::TaskRefusal,
        time::UnixTime,
    },
    journal::open,
    nats::{
        commands::next,
        connection::{NatsConnectionEvent, NatsError},
    },
    queue::{
        backend::{ChangeFeed, QueueFailure, QueueTaskKey, ReadyLine, TaskRevision, TaskStore},
        local_line::LocalLine,
        local_store::{LocalQueueDir, LocalStore, SkippedLines},
        merger_lease::{MergerEntry, MergerTurn, MergerWatch},
        ready_tasks::{ReadyTaskStream, subjects},
        task_bucket::{TaskBucket, TaskRetention},
    },
};

/// How long to wait before asking a failing server again.
const AGAIN: Duration = Duration::from_secs(1);
/// The default lease: how long a worker can be silent before its task is handed out again.
pub const LEASE: Duration = Duration::from_secs(15);
/// How many numbers to try for a task without a name, since other processes add tasks, too.
const NAMES: u64 = 1_000;

#[derive(Debug)]
pub struct TaskQueue {
    /// All tasks.
    pub board: Arc<dyn TaskStore>,
    /// The tasks that are ready to start.
    pub line: Box<dyn ReadyLine>,
    pub notice: Option<QueueNotice>,
    /// Set if the server forgets tasks that ended long ago.
    retention: Option<TaskRetention>,
    /// The bucket of a queue on a server.
    bucket: Option<TaskBucket>,
}

/// What the user should know about a queue that works.
#[derive(Debug, thiserror::Error)]
pub enum QueueNotice {
    /// Why it has fewer replicas than the config asks for.
    #[error("if the NATS server fails, the queue can be lost: {0}")]
    MissingReplicas(String),
    #[error("{0}")]
    SkippedLines(SkippedLines),
    #[error(
        "no worker takes the tasks {} of this server: an earlier version of creel queued them, without a project\n  queue \
         them again", .0.join(", ")
    )]
    WithoutProject(Vec<String>),
}

/// The queue together with its tasks, kept up to date.
pub struct WatchedQueue {
    pub queue: TaskQueue,
    /// All tasks, as last received.
    tasks: BTreeMap<QueueTaskKey, TaskRevision>,
    changes: Box<dyn ChangeFeed>,
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
    /// The name is taken.
    #[error("the queue already has a task {0}")]
    Taken(String),
    /// The name of a removed task that another one still names.
    #[error("task {by} depends on a task {name} that was removed")]
    Named { name: String, by: String },
    #[error(transparent)]
    Failed(#[from] QueueFailure),
}

impl From<QueueRequestError> for QueueError {
    fn from(error: QueueRequestError) -> Self {
        if let QueueRequestError::BadChange(refusal) = error {
            Self::BadTask(refusal)
        } else {
            Self::Refused(error)
        }
    }
}

/// The name of the queue that a project has on a server.
fn queue_of(nats: &NatsConfig) -> Result<&str, NatsError> {
    let unnamed = || {
        NatsError("creel does not know which project's queue it is; set `nats.queue`".to_owned())
    };
    nats.queue.as_deref().ok_or_else(unnamed)
}

impl dyn TaskStore {
    /// Adds a task and returns it. One without a name gets the next number.
    async fn add(&self, new: QueuedTask) -> Result<TaskRevision, QueueError> {
        if !new.order.id.is_empty() {
            let before = self.get(&QueueTaskKey::of(&new.order)).await?;
            // A session that hands its task over a second time must not bring it back.
            let is_free = |seen: &TaskRevision| {
                seen.task.state == QueuedTaskState::Removed && new.order.session.is_none()
            };
            let written = match before {
                Some(seen) if is_free(&seen) => {
                    self.can_be_used_again(&new.order).await?;
                    self.write(&new, seen.revision).await?
                }
                Some(_) => None,
                None => self.write(&new, 0).await?,
            };
            return match written {
                Some(revision) => Ok(TaskRevision {
                    task: new,
                    revision,
                }),
                None => Err(QueueError::Taken(new.order.id)),
            };
        }
        let first = self.next_number().await?;
        for number in first..first + NAMES {
            let order = TaskSpec {
                id: number.to_string(),
                ..new.order.clone()
            };
            let task = QueuedTask {
                order,
                ..new.clone()
            };
            if let Some(revision) = self.write(&task, 0).await? {
                return Ok(TaskRevision { task, revision });
            }
        }
        Err(QueueError::Taken(format!("{first} to {}", first + NAMES)))
    }

    /// Whether the name of a removed task can be used again: a task that waited for it would wait for
    /// the new one.
    async fn can_be_used_again(&self, order: &TaskSpec) -> Result<(), QueueError> {
        let key = QueueTaskKey::of(order);
        let all = self.all().await?;
        let names_it = |task: &&QueuedTask| {
            task.is_open()
                && QueueTaskKey::of(&task.order).owner() == key.owner()
                && task.order.dependencies.contains(key.id())
        };
        match all.iter().find(names_it) {
            Some(task) => Err(QueueError::Named {
                name: key.id().to_owned(),
                by: task.order.id.clone(),
            }),
            None => Ok(()),
        }
    }

    /// Whether a task can wait for another one.
    async fn can_depend(&self, key: &QueueTaskKey, on: &str) -> Result<(), QueueError> {
        let there = self.all().await?.into_iter();
        let there = there.filter(|task| task.state != QueuedTaskState::Removed);
        let siblings = there.map(|task| task.order);
        let siblings = siblings.filter(|order| QueueTaskKey::of(order) == key.sibling(&order.id));
        let all: BTreeMap<_, _> = siblings
            .map(|order| (order.id, order.dependencies))
            .collect();
        let (id, on) = (key.id().to_owned(), on.to_owned());
        if !all.contains_key(&on) {
            return Err(QueueRequestError::NoDependency(on).into());
        }
        match dependency_path(&on, &id, &all) {
            Some(way) => Err(QueueError::BadTask(TaskRefusal::DependencyCycle {
                id,
                on,
                way,
            })),
            None => Ok(()),
        }
    }

    /// Changes a task, and tries again if another process was faster. `change` returns `None` if
    /// there is nothing to change.
    pub async fn change(
        &self,
        key: &QueueTaskKey,
        change: impl Fn(&QueuedTask) -> Option<QueuedTask> + Send,
    ) -> Result<Option<TaskRevision>, QueueFailure> {
        while let Some(TaskRevision { task, revision }) = self.get(key).await? {
            let Some(task) = change(&task) else {
                return Ok(None);
            };
            if let Some(revision) = self.write(&task, revision).await? {
                return Ok(Some(TaskRevision { task, revision }));
            }
        }
        Ok(None)
    }
}

impl TaskQueue {
    /// Opens the queue of a server. Creates what the server does not have.
    pub async fn of_server(
        jetstream: &Context,
        nats: &NatsConfig,
        lease: Duration,
    ) -> Result<Self, QueueFailure> {
        let board = TaskBucket::open(jetstream, nats).await?;
        let line = ReadyTaskStream::open(jetstream, nats, lease).await?;
        let missing = [board.missing_replicas(), line.missing_replicas()]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>();
        let replicas =
            (!missing.is_empty()).then(|| QueueNotice::MissingReplicas(missing.join("; ")));
        let unowned =
            (!board.unowned.is_empty()).then(|| QueueNotice::WithoutProject(board.unowned.clone()));
        let (retention, notice) = (TaskRetention::of(nats, &board), replicas.or(unowned));
        Ok(Self {
            bucket: Some(board.clone()),
            board: Arc::new(board),
            line: Box::new(line),
            notice,
            retention,
        })
    }

    /// Opens the queue of a project. Creates its folder.
    pub fn of_project(root: &Path, lease: Duration) -> Result<Self, QueueFailure> {
        let store = LocalStore::new(LocalQueueDir::open(root)?);
        let notice = store.skipped_lines()?.map(QueueNotice::SkippedLines);
        let line = LocalLine::new(store.clone(), lease);
        Ok(Self {
            board: Arc::new(store),
            line: Box::new(line),
            notice,
            retention: None,
            bucket: None,
        })
    }

    /// Takes the lease of the merger, if the queue needs one: that of a project is merged in one folder only,
    /// whose lock is enough.
    pub async fn merge(
        &self,
        watch: &mut MergerWatch,
        entry: &MergerEntry,
    ) -> Result<Option<MergerTurn>, QueueFailure> {
        match &self.bucket {
            Some(bucket) => watch.take(bucket, entry).await.map(Some),
            None => Ok(None),
        }
    }

    /// Adds a task. One without a name gets the next number.
    pub async fn add(&mut self, order: TaskSpec, at: UnixTime) -> Result<TaskRevision, QueueError> {
        // The name is chosen later, so the check uses any valid one.
        let named = if order.id.is_empty() {
            TaskSpec {
                id: "0".to_owned(),
                ..order.clone()
            }
        } else {
            order.clone()
        };
        named.checked().map_err(QueueError::BadTask)?;
        for on in &order.dependencies {
            let key = QueueTaskKey::of(&order).sibling(on);
            let known = self.board.get(&key).await?;
            if known.is_none_or(|seen| seen.task.state == QueuedTaskState::Removed) {
                return Err(QueueRequestError::NoDependency(on.clone()).into());
            }
        }
        let added = self.board.add(QueuedTask::new(order, at)).await?;
        let key = QueueTaskKey::of(&added.task.order);
        match self.ready(&key).await {
            Ok(seen) => Ok(seen.unwrap_or(added)),
            Err(failure) => {
                // After this failure, the user adds it again. A session tries the same task again.
                if added.task.order.session.is_none() {
                    let _ = self
                        .board
                        .change(&key, |task| task.asked(QueueRequest::Remove, at).ok())
                        .await;
                }
                Err(failure.into())
            }
        }
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
            let task = task.asked(ask.clone(), at)?;
            if let QueueRequest::Depend { on } = ask {
                self.board.can_depend(key, on).await?;
            }
            if let Some(revision) = self.board.write(&task, revision).await? {
                if let QueueRequest::Depend { on } = ask
                    && let Err(why) = self.board.can_depend(key, on).await
                {
                    // Another process made the other one depend on this one just now.
                    let back = QueueRequest::Undepend { on: on.clone() };
                    let undo = |task: &QueuedTask| task.asked(back.clone(), at).ok();
                    self.board.change(key, undo).await?;
                    self.ready(key).await?;
                    return Err(why);
                }
                return Ok(self
                    .ready(key)
                    .await?
                    .unwrap_or(TaskRevision { task, revision }));
            }
        }
    }

    /// Puts a task into the stream of ready tasks if all of its dependencies are closed. Returns
    /// its state afterwards.
    pub async fn ready(
        &mut self,
        key: &QueueTaskKey,
    ) -> Result<Option<TaskRevision>, QueueFailure> {
        let Some(known) = self.board.get(key).await? else {
            return Ok(None);
        };
        let mut open = Vec::new();
        for on in &known.task.order.dependencies {
            let waits = self
                .board
                .get(&key.sibling(on))
                .await?
                .is_some_and(|seen| seen.task.is_open());
            open.extend(waits.then(|| on.clone()));
        }
        let is_open = |on: &str| open.iter().any(|open| open == on);
        let seen = match self.board.change(key, |task| task.readied(is_open)).await? {
            Some(readied) => readied,
            // Another process may have done it just now.
            None => self.board.get(key).await?.unwrap_or(known),
        };
        if seen.task.state == QueuedTaskState::Ready {
            self.line.put(&seen.task.order).await?;
        }
        Ok(Some(seen))
    }

    pub async fn watched(self) -> Result<WatchedQueue, QueueFailure> {
        let mut changes = self.board.changes("").await?;
        let tasks = changes.all().await?;
        Ok(WatchedQueue {
            queue: self,
            tasks,
            changes,
            stirred: true,
        })
    }
}

impl WatchedQueue {
    pub async fn changed(&mut self) -> Result<(), QueueFailure> {
        if let Some(seen) = self.changes.next().await? {
            self.note(seen);
        }
        Ok(())
    }

    /// Stores the state of a task, unless a later one is known.
    pub fn note(&mut self, seen: TaskRevision) {
        let key = QueueTaskKey::of(&seen.task.order);
        if seen.is_news_to(self.tasks.get(&key)) {
            self.stirred |= !seen.task.is_open() || seen.task.state == QueuedTaskState::Created;
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
    pub async fn ready_all(&mut self) -> Result<(), QueueFailure> {
        if !self.stirred {
            return Ok(());
        }
        let waits = |key: &QueueTaskKey, on: &str| {
            self.tasks
                .get(&key.sibling(on))
                .is_some_and(|seen| seen.task.is_open())
        };
        let due = self
            .tasks
            .iter()
            .filter(|(key, seen)| seen.task.readied(|on| waits(key, on)).is_some());
        let due: Vec<QueueTaskKey> = due.map(|(key, _)| key.clone()).collect();
        for key in due {
            if let Some(seen) = self.queue.ready(&key).await? {
                self.tasks.insert(key, seen);
            }
        }
        self.stirred = false;
        Ok(())
    }

    /// Follows all changes and puts tasks into the stream when they become ready: another worker
    /// may wait for a task that only this process knows to be ready. Runs until the caller drops
    /// the future; the next call finishes what was interrupted.
    pub async fn follow(&mut self) {
        loop {
            let followed = match self.ready_all().await {
                Ok(()) => self.changed().await,
                Err(failure) => Err(failure),
            };
            if let Err(failure) = followed {
                tracing::info!("{failure}");
                tokio::time::sleep(AGAIN).await;
            }
        }
    }

    /// Deletes tasks that ended longer ago than the config keeps them. If the server does not allow
    /// that, they stay.
    pub async fn clear_out(&mut self, at: UnixTime) {
        let Self { queue, tasks, .. } = self;
        let Some(retention) = &queue.retention else {
            return;
        };
        if let Err(why) = retention.clear_out(tasks, at).await {
            tracing::warn!("nats: tasks that are older than `max_age` stay in the queue: {why}");
            queue.retention = None;
        }
    }

    /// Repairs the queue: puts ready or active tasks back into the line if they are missing there.
    /// The worker of an active task may be dead.
    pub async fn mend(
        &mut self,
        mut wanted: impl FnMut(&TaskSpec) -> bool,
    ) -> Result<(), QueueFailure> {
        let is_due = |task: &&QueuedTask| {
            matches!(
                task.state,
                QueuedTaskState::Ready | QueuedTaskState::Active { .. }
            )
        };
        let due = self
            .tasks
            .values()
            .map(|seen| &seen.task)
            .filter(is_due)
            .map(|task| &task.order);
        self.queue
            .line
            .restore(due.filter(|order| wanted(order)).collect())
            .await?;
        self.stirred = true;
        Ok(())
    }
}

/// The tasks of a project's queue, to be read again and again. Creates nothing.
#[derive(Debug)]
pub struct ProjectTasks(LocalStore);

impl ProjectTasks {
    pub fn of(root: &Path) -> Self {
        Self(LocalStore::new(LocalQueueDir::to_read(root)))
    }

    /// The paths that change when a task does.
    pub fn paths(root: &Path) -> [PathBuf; 2] {
        let folder = root.join(open::OURS).join("queue");
        [folder.join("tasks.jsonl"), folder]
    }

    pub fn now(&self) -> Result<Vec<QueuedTask>, QueueFailure> {
        let tasks = self.0.read(|known| {
            let tasks = known.tasks().map(|(_, known)| known.seen.task.clone());
            tasks.collect()
        });
        Ok(tasks?)
    }
}

pub enum QueuePlace {
    Server(Box<QueueServer>),
    /// The project's own folder.
    Project(PathBuf),
}

/// A NATS server, and what arrives from it.
pub struct QueueServer {
    nats: NatsConfig,
    client: Client,
    events: mpsc::UnboundedReceiver<NatsConnectionEvent>,
    news: Subscriber,
}

impl QueuePlace {
    pub async fn server(
        nats: NatsConfig,
        client: Client,
        events: mpsc::UnboundedReceiver<NatsConnectionEvent>,
    ) -> Result<Self, QueueFailure> {
        let news = client.subscribe(subjects(&nats)?).await;
        let news = news.map_err(|error| NatsError(format!("cannot subscribe: {error}")))?;
        Ok(Self::Server(Box::new(QueueServer {
            nats,
            client,
            events,
            news,
        })))
    }

    pub async fn open(&mut self, lease: Duration) -> Result<TaskQueue, QueueFailure> {
        match self {
            Self::Server(server) => {
                let opened = TaskQueue::of_server(
                    &jetstream::new(server.client.clone()),
                    &server.nats,
                    lease,
                )
                .await;
                opened.map_err(|failure| self.explained(failure))
            }
            Self::Project(root) => TaskQueue::of_project(root, lease),
        }
    }

    /// The reason for trouble. A server that refuses something says so, and does not answer.
    pub fn explained(&mut self, failure: QueueFailure) -> QueueFailure {
        match self {
            Self::Server(server) => server.refusal().map_or(failure, QueueFailure::Nats),
            Self::Project(_) => failure,
        }
    }

    /// Waits until another process has put a task into the line, and returns the task's subject. In
    /// a project's own queue, the changes of the tasks say everything.
    pub async fn news(&mut self) -> Result<Option<String>, QueueFailure> {
        match self {
            Self::Server(server) => Ok(server.news().await?),
            Self::Project(_) => std::future::pending().await,
        }
    }

    /// Sends what is still in a buffer. An unreachable server gets it when it is back.
    pub async fn flush(&self) {
        match self {
            Self::Server(server) => {
                let _ = server.client.flush().await;
            }
            Self::Project(_) => {}
        }
    }
}

impl QueueServer {
    /// What the server has refused since the last question. It does not answer a user that lacks a
    /// right.
    fn refusal(&mut self) -> Option<NatsError> {
        let events = std::iter::from_fn(|| self.events.try_recv().ok());
        let refusals = events.filter_map(|event| match event {
            NatsConnectionEvent::Refused(why) => Some(why),
            NatsConnectionEvent::Connected | NatsConnectionEvent::Lost => None,
        });
        refusals
            .last()
            .map(|why| NatsError(format!("the server refused: {why}")))
    }

    async fn news(&mut self) -> Result<Option<String>, NatsError> {
        tokio::select! {
            events = self.events.recv() => match events {
                Some(NatsConnectionEvent::Connected) => Ok(None),
                Some(NatsConnectionEvent::Lost) | None => Err(NatsError("the connection was lost".to_owned())),
                Some(NatsConnectionEvent::Refused(why)) => Err(NatsError(format!("the server refused: {why}"))),
            },
            Some(message) = next(&mut self.news) => Ok(Some(message.subject.to_string())),
        }
    }
}
