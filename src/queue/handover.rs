//! Tasks of a session that others do: put into the queue when they are ready, and followed there.
//!
//! Does not decide what has to be told to whom: see [`crate::engine::queue::handover`].
//!
//! # Invariants
//! - A session without such tasks asks nothing of the server.
//! - What is told twice, after a lost connection, changes nothing the second time. What the queue said before something was
//!   asked of it is no answer to that.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use async_nats::jetstream::Context;

use crate::{
    config::NatsConfig,
    engine::{
        event::ActorKind,
        input::SessionCommand,
        queue::{
            handover::{HandoverAction, HandoverTrigger, LocalTask, due},
            task_spec::{OwnerSession, TaskSpec},
        },
    },
    nats::connection::NatsError,
    present::task_view::TaskView,
    queue::{
        LEASE, QueueError, TaskQueue,
        task_bucket::{QueueChanges, QueueTaskKey, TaskRevision},
    },
    runtime::{SessionHandle, now},
    socket::{
        message::{ReplyData, SessionQuery},
        session_mirror::QueryHandle,
    },
};

/// How often the session is looked at, if something happens in it.
const PACE: Duration = Duration::from_millis(100);
/// How long to wait before the queue is tried again.
const AGAIN: Duration = Duration::from_secs(5);

/// Hands tasks over.
pub(crate) struct TaskHandover<'a> {
    pub(crate) jetstream: &'a Context,
    pub(crate) nats: &'a NatsConfig,
    pub(crate) session: &'a str,
    pub(crate) id: &'a str,
    pub(crate) desk: &'a QueryHandle,
    pub(crate) handle: &'a SessionHandle,
}

/// What is known on both sides.
#[derive(Default)]
struct HandoverSnapshot {
    tasks: BTreeMap<String, TaskView>,
    queued: BTreeMap<String, TaskRevision>,
}

impl HandoverSnapshot {
    /// Learns how a task is in the queue. Its name, if that is news.
    fn learn(&mut self, seen: TaskRevision) -> Option<String> {
        let id = seen.task.order.id.clone();
        if !seen.is_news_to(self.queued.get(&id)) {
            return None;
        }
        self.queued.insert(id.clone(), seen);
        Some(id)
    }
}

impl TaskHandover<'_> {
    /// Hands tasks over as long as it is asked to. Trouble is told once: the records matter more.
    pub(crate) async fn keep(&self, warned: &mut bool) {
        loop {
            if let Err(NatsError(why)) = self.follow().await {
                tracing::info!("nats: the queue: {why}");
                if !std::mem::replace(warned, true) {
                    self.handle.warn(format!("tasks for the queue wait here: {why}"));
                }
                tokio::time::sleep(AGAIN).await;
            }
        }
    }

    async fn follow(&self) -> Result<(), NatsError> {
        let mut news = self.desk.news.clone();
        let mut known = HandoverSnapshot { tasks: self.tasks().await, queued: BTreeMap::new() };
        while known.tasks.is_empty() {
            if news.changed().await.is_err() {
                return std::future::pending().await;
            }
            tokio::time::sleep(PACE).await;
            known.tasks = self.tasks().await;
        }
        let mut queue = TaskQueue::open(self.jetstream, self.nats, LEASE).await?;
        if let Some(why) = queue.missing_replicas() {
            tracing::warn!("nats: a lost server can take the queue with it: {why}");
        }
        let mut changes = queue.board.changes(self.id).await?;
        self.catch_up(&mut queue, &mut known, &mut changes).await?;
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

    /// What happened in the queue while nobody listened, then what happened in the session.
    async fn catch_up(
        &self,
        queue: &mut TaskQueue,
        known: &mut HandoverSnapshot,
        changes: &mut QueueChanges,
    ) -> Result<(), NatsError> {
        for seen in changes.all().await?.into_values() {
            known.learn(seen);
        }
        let ids: BTreeSet<String> = known.queued.keys().chain(known.tasks.keys()).cloned().collect();
        for id in ids {
            self.do_what_is_due(queue, known, &id, HandoverTrigger::AfterSilence).await?;
        }
        Ok(())
    }

    /// The tasks that are for the queue. Never comes back if the session is over: that a session is gone says nothing about
    /// its tasks.
    async fn tasks(&self) -> BTreeMap<String, TaskView> {
        match self.desk.ask(SessionQuery::HandedTasks).await.told {
            Some(ReplyData::Tasks(tasks)) => tasks.into_iter().map(|task| (task.id.clone(), task)).collect(),
            Some(_) | None => std::future::pending().await,
        }
    }

    /// Looks at the session again: the tasks that are in another state than before.
    async fn look(&self, known: &mut HandoverSnapshot) -> Vec<String> {
        let before = std::mem::replace(&mut known.tasks, self.tasks().await);
        let state = |tasks: &BTreeMap<String, TaskView>, id: &String| tasks.get(id).map(|task| task.state);
        let ids: BTreeSet<&String> = before.keys().chain(known.tasks.keys()).collect();
        ids.into_iter().filter(|id| state(&before, id) != state(&known.tasks, id)).cloned().collect()
    }

    async fn do_what_is_due(
        &self,
        queue: &mut TaskQueue,
        known: &mut HandoverSnapshot,
        id: &str,
        news: HandoverTrigger,
    ) -> Result<(), NatsError> {
        let task = known.tasks.get(id);
        let ours = task.map(|task| LocalTask {
            id,
            state: task.state,
            result: task.result.as_deref(),
            reason: task.reason.as_deref(),
        });
        let owner = OwnerSession { name: self.session.to_owned(), id: self.id.to_owned() };
        let done = match (due(ours, known.queued.get(id).map(|seen| &seen.task), news), task) {
            (HandoverAction::Put, Some(task)) => queue.add(order(task, owner), now()).await.map(Some),
            (HandoverAction::Nothing | HandoverAction::Put, _) => Ok(None),
            (HandoverAction::Ask(ask), _) => {
                let order = TaskSpec { id: id.to_owned(), session: Some(owner), ..TaskSpec::default() };
                queue.ask(&QueueTaskKey::of(&order), &ask, now()).await.map(Some)
            }
            (HandoverAction::Tell(command), _) => {
                let told = self.handle.command(ActorKind::Nats, SessionCommand::Task(command)).await;
                told.map(|()| None).map_err(QueueError::Refused)
            }
        };
        match done {
            Ok(seen) => {
                seen.and_then(|seen| known.learn(seen));
                Ok(())
            }
            Err(QueueError::Trouble(trouble)) => Err(trouble),
            Err(QueueError::Refused(why)) => {
                // Somebody else was faster; what they did is heard of next.
                tracing::info!("nats: the queue: {why}");
                Ok(())
            }
        }
    }
}

/// What others are asked to do. What it waited for is the session's affair.
fn order(task: &TaskView, owner: OwnerSession) -> TaskSpec {
    TaskSpec {
        id: task.id.clone(),
        goal: task.goal.clone(),
        deliverables: task.deliverables.clone(),
        labels: task.labels.clone(),
        priority: task.priority,
        kind: task.kind.clone(),
        agents: task.queue.iter().flatten().cloned().collect(),
        session: Some(owner),
        ..TaskSpec::default()
    }
}
