//! The end of the work on a task: reports the result, or returns the task to the queue.
//!
//! # Invariants
//! - A task that another worker has stays in the stream, since that worker can die.

use std::time::Duration;

use crate::{
    engine::{
        event::SessionOutcome,
        queue::{
            QueuedTask, QueuedTaskState, SessionSpending, TaskOutcome, TaskSpending,
            worker_rules::{FAILURES, MachineFault},
        },
    },
    farm::{
        FarmError,
        child_session::ChildSessionEnd,
        worker_loop::{AGAIN, INTERRUPTED, WorkerLoop, watch},
    },
    queue::backend::{QueueTaskKey, TaskLease, TaskRevision},
    runtime::now,
};

/// How long a worker that exits waits for the server.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long to wait for the server to store the result of a task.
const ANSWER: Duration = Duration::from_secs(10);

pub(super) enum WorkerTaskEnd {
    Ended(ChildSessionEnd),
    /// Another worker has the task.
    TakenAway,
    /// A signal ended the worker. Carries the result if the session ended by itself.
    Leaves(Option<TaskOutcome>),
}

impl WorkerTaskEnd {
    /// Whether the result is that the task needs help.
    pub(super) const fn is_stuck(&self) -> bool {
        matches!(
            self,
            Self::Ended(ChildSessionEnd::Result(TaskOutcome::Stuck(_), _))
                | Self::Leaves(Some(TaskOutcome::Stuck(_)))
        )
    }
}

pub(super) fn with_spending(task: QueuedTask, spending: Option<SessionSpending>) -> QueuedTask {
    match spending {
        Some(spending) => task.with_spending(spending),
        None => task,
    }
}

impl WorkerLoop<'_> {
    pub(super) async fn end_task(
        &mut self,
        task: &QueuedTask,
        lease: &dyn TaskLease,
        end: WorkerTaskEnd,
        branch: Option<String>,
    ) -> Result<Option<u8>, FarmError> {
        let id = &task.order.id;
        let spending = self.spending(task);
        match end {
            WorkerTaskEnd::TakenAway => {
                self.note_spending(task, spending).await?;
                self.let_go(task, lease).await?;
                Ok(None)
            }
            WorkerTaskEnd::Leaves(None) => {
                self.give_back(task, lease, spending).await;
                Ok(Some(INTERRUPTED))
            }
            WorkerTaskEnd::Leaves(Some(result)) => {
                self.settle(task, lease, &result, (branch, spending))
                    .await?;
                Ok(Some(INTERRUPTED))
            }
            WorkerTaskEnd::Ended(ChildSessionEnd::NeverBegan) => {
                self.give_back(task, lease, spending).await;
                let why = format!(
                    "the session of task {id} did not start, so this worker stops; the task is back in the queue"
                );
                Err(FarmError::Failed(why))
            }
            WorkerTaskEnd::Ended(ChildSessionEnd::NoWorktree) => {
                self.give_back(task, lease, spending).await;
                if self.slots.note(Some(MachineFault::NoWorktree)) {
                    let why = format!(
                        "this worker stops: {}, {FAILURES} times in a row; the tasks are back in the queue",
                        MachineFault::NoWorktree.in_words()
                    );
                    return Err(FarmError::Failed(why));
                }
                tokio::time::sleep(AGAIN).await;
                Ok(None)
            }
            WorkerTaskEnd::Ended(ChildSessionEnd::Died) => {
                (self.options.say)(&format!(
                    "creel: the session of task {id} crashed; another worker will continue it"
                ));
                self.note_spending(task, spending).await?;
                let seen = self
                    .queue
                    .queue
                    .board
                    .get(&QueueTaskKey::of(&task.order))
                    .await?;
                // A worker must not return a task that another one has.
                if self.is_ours(seen.as_ref()) {
                    lease.back(AGAIN).await?;
                }
                Ok(None)
            }
            WorkerTaskEnd::Ended(ChildSessionEnd::Result(result, outcome)) => {
                let leaves = self
                    .settle(task, lease, &result, (branch, spending))
                    .await?;
                let has_failed = outcome == Some(SessionOutcome::Failed);
                let fault = self.session_of(task).filter(|_| has_failed);
                let fault = match &result {
                    TaskOutcome::Stuck(why) => MachineFault::in_words_of(why)
                        .filter(|_| outcome == Some(SessionOutcome::Complete)),
                    TaskOutcome::Done(_)
                    | TaskOutcome::Refused { .. }
                    | TaskOutcome::Outdated(_) => None,
                }
                .or_else(|| fault.as_ref().and_then(MachineFault::of));
                let is_too_often = self.slots.note(fault);
                if let Some(fault) = fault.filter(|_| is_too_often) {
                    let why = format!(
                        "this worker stops: {}, and {FAILURES} sessions in a row failed because of this machine\n  \
                         repair that, then put their tasks into the queue again with `creel task start --queue`",
                        fault.in_words()
                    );
                    return Err(FarmError::Failed(why));
                }
                Ok(leaves)
            }
        }
    }

    /// Stores the result of a task, and tries until the server is back.
    async fn settle(
        &mut self,
        task: &QueuedTask,
        lease: &dyn TaskLease,
        result: &TaskOutcome,
        (branch, spending): (Option<String>, Option<SessionSpending>),
    ) -> Result<Option<u8>, FarmError> {
        let key = QueueTaskKey::of(&task.order);
        let mut is_reported = false;
        loop {
            let ended = |task: &QueuedTask| {
                let ended = task.ended(&self.me.worker, result.clone(), now());
                ended.map(|task| with_spending(task.on_branch(branch.clone()), spending.clone()))
            };
            // A client that is not connected may only buffer the request, so the wait needs a
            // limit.
            let changed =
                tokio::time::timeout(ANSWER, self.queue.queue.board.change(&key, ended)).await;
            let why = match changed {
                Err(_) => "the server does not answer".to_owned(),
                Ok(Ok(Some(seen))) => {
                    self.report(seen)?;
                    break;
                }
                Ok(Ok(None)) => {
                    self.let_go(task, lease).await?;
                    return Ok(None);
                }
                Ok(Err(error)) => error.to_string(),
            };
            if !std::mem::replace(&mut is_reported, true) {
                (self.options.say)(&format!(
                    "creel: {why}; this worker reports the result of task {} when the queue is back",
                    key.id()
                ));
            }
            let _ = tokio::time::timeout(AGAIN, lease.keep()).await;
            // A server that lost its data has no bucket either, until a client creates one.
            let watched = async {
                tokio::time::sleep(AGAIN).await;
                Box::pin(watch(&mut self.place, self.options)).await
            };
            tokio::select! {
                _ = self.signals.next() => return Ok(Some(INTERRUPTED)),
                watched = watched => {
                    if let Ok(queue) = watched {
                        self.queue = queue;
                    }
                }
            }
        }
        // If this is lost, the task is handed out again, and that worker sees that it is done.
        let _ = lease.done().await;
        Ok(None)
    }

    /// This worker does not have the task any more. The message stays in the stream for the worker
    /// that has it: otherwise the task would not be handed out again if that worker died.
    async fn let_go(&mut self, task: &QueuedTask, lease: &dyn TaskLease) -> Result<(), FarmError> {
        let seen = self
            .queue
            .queue
            .board
            .get(&QueueTaskKey::of(&task.order))
            .await?;
        let (id, session) = (
            &task.order.id,
            task.state.by().map_or("", |by| by.session.as_str()),
        );
        let Some(seen) = seen else {
            (self.options.say)(&format!(
                "creel: the queue does not have task {id} any more; its work is in session {session}"
            ));
            return Ok(());
        };
        // It was removed, and its name was used again.
        let is_new = seen.task.state == QueuedTaskState::Ready && !seen.task.is_same(task);
        let is_settled = seen.task.is_settled();
        if seen
            .task
            .state
            .by()
            .is_none_or(|by| by.worker == self.me.worker)
        {
            // The user decided, or the server stored this worker's report although the answer was
            // lost.
            self.report(seen)?;
        } else {
            (self.options.say)(&format!(
                "creel: another worker has task {id} now; the work of this worker does not count"
            ));
        }
        if is_settled {
            lease.done().await?;
        } else if is_new {
            lease.back(Duration::ZERO).await?;
        }
        Ok(())
    }

    /// What the session of a task has used so far.
    pub(super) fn spending(&self, task: &QueuedTask) -> Option<SessionSpending> {
        let by = task.state.by()?;
        let session = self.session_of(task)?;
        Some(SessionSpending {
            session: by.session.clone(),
            host: by.host.clone(),
            used: TaskSpending::of(&session),
        })
    }

    /// Notes what the session of a task has used, whatever worker has the task now.
    async fn note_spending(
        &self,
        task: &QueuedTask,
        spending: Option<SessionSpending>,
    ) -> Result<(), FarmError> {
        let board = &self.queue.queue.board;
        let note = |now: &QueuedTask| {
            let spending = spending.clone().filter(|_| now.is_same(task))?;
            Some(now.clone().with_spending(spending))
        };
        board.change(&QueueTaskKey::of(&task.order), note).await?;
        Ok(())
    }

    fn is_ours(&self, seen: Option<&TaskRevision>) -> bool {
        seen.is_some_and(|seen| seen.task.is_in_hands_of(&self.me.worker))
    }

    /// Returns the task to the queue for another worker.
    async fn give_back(
        &mut self,
        task: &QueuedTask,
        lease: &dyn TaskLease,
        spending: Option<SessionSpending>,
    ) {
        let (board, key) = (
            self.queue.queue.board.clone(),
            QueueTaskKey::of(&task.order),
        );
        let giving = async {
            if let Ok(Some(seen)) = board
                .change(&key, |task| {
                    let given_back = task.given_back(&self.me.worker);
                    given_back.map(|task| with_spending(task, spending.clone()))
                })
                .await
            {
                let _ = self.report(seen);
                let _ = lease.back(Duration::ZERO).await;
                self.place.flush().await;
            }
        };
        // If the server is unreachable, the task is handed out again when its lease expires.
        let _ = tokio::time::timeout(LEAVE_TIMEOUT, giving).await;
    }
}
