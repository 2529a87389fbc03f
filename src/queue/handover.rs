//! Hands tasks of a session over to the queue when they are ready, and follows them there.
//!
//! Does not decide which side to update: see [`crate::engine::queue::handover`].
//!
//! # Invariants
//! - A session without such tasks sends no request to the server.
//! - A message that is repeated after a lost connection has no effect the second time. A state of
//!   the queue from before a request is not an answer to it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use async_nats::jetstream::{self, Context};

use crate::{
    config::NatsConfig,
    engine::{
        event::ActorKind,
        input::SessionCommand,
        queue::{
            handover::{HandoverAction, HandoverTrigger, LocalTask, due},
            task_spec::{OwnerSession, TaskSpec},
        },
        tasks::graph::{TaskDescription, TaskGraph, TaskState},
    },
    nats::connection::{NatsError, ReconnectPolicy, connect},
    present::{
        refusals,
        task_view::{self, TaskView},
    },
    protocol::{ReplyData, SessionQuery},
    queue::{
        LEASE, QueueError, TaskQueue,
        backend::{ChangeFeed, QueueFailure, QueueTaskKey, TaskRevision},
    },
    runtime::{SessionHandle, now},
    socket::session_mirror::QueryHandle,
};

/// How long to wait after a change in the session before reading it, so that changes are read
/// together.
const PACE: Duration = Duration::from_millis(100);
/// How long to wait before the next attempt to reach the queue.
const AGAIN: Duration = Duration::from_secs(5);

pub(crate) struct TaskHandover {
    pub(crate) place: HandoverPlace,
    pub(crate) owner: OwnerSession,
    pub(crate) query_handle: QueryHandle,
    pub(crate) handle: SessionHandle,
}

/// The queue that the session uses.
#[derive(Debug, Clone)]
pub(crate) enum HandoverPlace {
    Server(Box<(Context, NatsConfig)>),
    /// The queue in the folder of this project.
    Project(PathBuf),
}

impl HandoverPlace {
    async fn open(&self) -> Result<TaskQueue, QueueFailure> {
        match self {
            Self::Server(server) => TaskQueue::of_server(&server.0, &server.1, LEASE).await,
            Self::Project(root) => TaskQueue::of_project(root, LEASE),
        }
    }

    const fn actor(&self) -> ActorKind {
        match self {
            Self::Server(_) => ActorKind::Nats,
            Self::Project(_) => ActorKind::Cli,
        }
    }
}

/// The tasks, as last seen in the session and in the queue.
#[derive(Default)]
struct HandoverSnapshot {
    tasks: BTreeMap<String, TaskView>,
    queued: BTreeMap<String, TaskRevision>,
}

impl HandoverSnapshot {
    /// Stores the state of a task in the queue. Returns the task's name if the state is new.
    fn learn(&mut self, seen: TaskRevision) -> Option<String> {
        let id = seen.task.order.id.clone();
        if !seen.is_news_to(self.queued.get(&id)) {
            return None;
        }
        self.queued.insert(id.clone(), seen);
        Some(id)
    }
}

impl TaskHandover {
    /// Hands tasks over until the caller drops the future. Warns about errors once, since the
    /// records matter more.
    pub(crate) async fn keep(&self, warned: &AtomicBool) {
        loop {
            if let Err(why) = self.follow().await {
                tracing::info!("{why}");
                if !warned.swap(true, Ordering::Relaxed) {
                    self.handle
                        .warn(format!("tasks for the queue wait here: {why}"));
                }
                tokio::time::sleep(AGAIN).await;
            }
        }
    }

    async fn follow(&self) -> Result<(), QueueFailure> {
        let mut news = self.query_handle.news.clone();
        let mut known = HandoverSnapshot {
            tasks: self.tasks().await,
            queued: BTreeMap::new(),
        };
        while known.tasks.is_empty() {
            if news.changed().await.is_err() {
                return std::future::pending().await;
            }
            tokio::time::sleep(PACE).await;
            known.tasks = self.tasks().await;
        }
        let mut queue = self.place.open().await?;
        if let Some(notice) = &queue.notice {
            tracing::warn!("{notice}");
        }
        let mut changes = queue.board.changes(&self.owner.id).await?;
        self.catch_up(&mut queue, &mut known, &mut *changes).await?;
        loop {
            tokio::select! {
                seen = changes.next() => {
                    let id = seen?.and_then(|seen| known.learn(seen));
                    if let Some(id) = id {
                        self.do_what_is_due(&mut queue, &mut known, &id, HandoverTrigger::OfQueue).await?;
                    }
                }
                Ok(()) = news.changed() => {
                    tokio::time::sleep(PACE).await;
                    news.mark_unchanged();
                    for id in self.look(&mut known).await {
                        self.do_what_is_due(&mut queue, &mut known, &id, HandoverTrigger::OfSession).await?;
                    }
                }
            }
        }
    }

    /// Handles what changed in the queue and in the session while this process was not connected.
    async fn catch_up(
        &self,
        queue: &mut TaskQueue,
        known: &mut HandoverSnapshot,
        changes: &mut dyn ChangeFeed,
    ) -> Result<(), QueueFailure> {
        for seen in changes.all().await?.into_values() {
            known.learn(seen);
        }
        let ids: BTreeSet<String> = known
            .queued
            .keys()
            .chain(known.tasks.keys())
            .cloned()
            .collect();
        for id in ids {
            self.do_what_is_due(queue, known, &id, HandoverTrigger::AfterSilence)
                .await?;
        }
        Ok(())
    }

    /// The tasks for the queue. Never returns if the session has ended, since that says nothing
    /// about its tasks.
    async fn tasks(&self) -> BTreeMap<String, TaskView> {
        match self
            .query_handle
            .ask(SessionQuery::QueuedTaskList)
            .await
            .data
        {
            Some(ReplyData::Tasks(tasks)) => tasks
                .into_iter()
                .map(|task| (task.id.clone(), task))
                .collect(),
            Some(_) | None => std::future::pending().await,
        }
    }

    /// Reads the session again and returns the tasks whose state has changed.
    async fn look(&self, known: &mut HandoverSnapshot) -> Vec<String> {
        let before = std::mem::replace(&mut known.tasks, self.tasks().await);
        let state =
            |tasks: &BTreeMap<String, TaskView>, id: &String| tasks.get(id).map(|task| task.state);
        let ids: BTreeSet<&String> = before.keys().chain(known.tasks.keys()).collect();
        ids.into_iter()
            .filter(|id| state(&before, id) != state(&known.tasks, id))
            .cloned()
            .collect()
    }

    async fn do_what_is_due(
        &self,
        queue: &mut TaskQueue,
        known: &mut HandoverSnapshot,
        id: &str,
        news: HandoverTrigger,
    ) -> Result<(), QueueFailure> {
        let task = known.tasks.get(id);
        let ours = task.map(|task| LocalTask {
            id,
            state: task.state,
            result: task.result.as_deref(),
            reason: task.reason.as_deref(),
        });
        let done = match (
            due(ours, known.queued.get(id).map(|seen| &seen.task), news),
            task,
        ) {
            (HandoverAction::Put, Some(task)) => queue
                .add(order(task, self.owner.clone()), now())
                .await
                .map(Some),
            (HandoverAction::Nothing | HandoverAction::Put, _) => Ok(None),
            (HandoverAction::Ask(ask), _) => {
                let order = TaskSpec {
                    id: id.to_owned(),
                    session: Some(self.owner.clone()),
                    ..TaskSpec::default()
                };
                queue
                    .ask(&QueueTaskKey::of(&order), &ask, now())
                    .await
                    .map(Some)
            }
            (HandoverAction::Tell(command), _) => {
                let written = self
                    .handle
                    .command(self.place.actor(), SessionCommand::Task { task: command })
                    .await;
                if let Err(why) = written {
                    tracing::info!("the queue: {}", refusals::text(&why));
                }
                Ok(None)
            }
        };
        match done {
            Ok(seen) => {
                seen.and_then(|seen| known.learn(seen));
                Ok(())
            }
            Err(QueueError::Failed(failure)) => Err(failure),
            Err(
                error @ (QueueError::Refused(_)
                | QueueError::BadTask(_)
                | QueueError::Taken(_)
                | QueueError::Named { .. }),
            ) => {
                // Another process was faster. Its change arrives next.
                tracing::info!("the queue: {error}");
                Ok(())
            }
        }
    }
}

/// Hands over what a session that has ended added last, when nothing followed it any more. `server`
/// is the server of its queue, if it has one.
pub(crate) async fn finish(
    root: &Path,
    server: Option<&NatsConfig>,
    owner: OwnerSession,
    graph: &TaskGraph,
) -> Result<(), QueueFailure> {
    let ready: Vec<TaskView> = task_view::handed(graph)
        .into_iter()
        .filter(|task| task.state == TaskState::Ready)
        .collect();
    if ready.is_empty() {
        return Ok(());
    }
    let mut queue = match server {
        Some(nats) => {
            let (client, _events) = connect(nats, ReconnectPolicy::Never)
                .await
                .map_err(NatsError::from)?;
            TaskQueue::of_server(&jetstream::new(client), nats, LEASE).await?
        }
        None => TaskQueue::of_project(root, LEASE)?,
    };
    for task in ready {
        match queue.add(order(&task, owner.clone()), now()).await {
            // Most of them are there already.
            Ok(_) | Err(QueueError::Taken(_)) => {}
            Err(QueueError::Failed(failure)) => return Err(failure),
            Err(
                error
                @ (QueueError::Refused(_) | QueueError::BadTask(_) | QueueError::Named { .. }),
            ) => {
                tracing::warn!("the queue: {error}");
            }
        }
    }
    Ok(())
}

/// The task for the queue. Without dependencies, since the session has already waited for these.
fn order(task: &TaskView, owner: OwnerSession) -> TaskSpec {
    TaskSpec {
        id: task.id.clone(),
        description: TaskDescription {
            goal: task.goal.clone(),
            deliverables: task.deliverables.clone(),
            labels: task.labels.clone(),
            priority: task.priority,
            kind: task.kind.clone(),
        },
        agents: task.queue.iter().flatten().cloned().collect(),
        session: Some(owner),
        ..TaskSpec::default()
    }
}
