//! The loop of a worker, from its first task to its last.

mod task_branch;
mod task_end;

use std::{path::PathBuf, time::Duration};

use tokio::time::{Instant, MissedTickBehavior};

use crate::{
    cli::{
        error::{CliError, CliResult},
        output::{print, say},
        task::queue::say_notice,
        worker::{
            WorkerArgs,
            child_session::{ChildSession, ChildSessionEnd, ChildSessionSpec, PriorSession},
            eligibility::Eligibility,
            gate_watch::GateWatch,
            job_slots::{JobSlot, JobSlots},
            worker_loop::{
                task_branch::{TaskGit, TaskStart, branch_of},
                task_end::WorkerTaskEnd,
            },
        },
    },
    engine::queue::{ClaimOutcome, QueuedTask, QueuedTaskState, TaskAssignee, TaskOutcome},
    journal::SessionsDir,
    present::{tables, text::plain_line},
    process::signals::ShutdownSignals,
    queue::{
        QueuePlace, WatchedQueue,
        backend::{DispatchGroup, QueueTaskKey, QueueTrouble, TaskLease, TaskRevision, TaskStore},
    },
    runtime::now,
    worktrees::ProjectRepository,
};

/// How often an idle worker checks whether it missed a task.
const LOOK: Duration = Duration::from_secs(2);
/// How often a worker checks whether a session waits for the user.
const GATE_LOOK: Duration = Duration::from_millis(500);
/// How long to wait before asking a failing server again.
const AGAIN: Duration = Duration::from_secs(1);
/// The longest goal in a line, in characters.
const LINE: usize = 100;
/// The longest reason in a line: the user decides by it.
const REASON: usize = 500;
/// The exit code of a worker that a signal ended.
const INTERRUPTED: u8 = 130;

pub(super) struct WorkerIdentity {
    /// Unique among all workers.
    pub(super) worker: String,
    pub(super) host: String,
}

impl WorkerIdentity {
    /// One of several loops of the same worker.
    pub(super) fn numbered(&self, number: usize) -> Self {
        Self {
            worker: format!("{}-{number}", self.worker),
            host: self.host.clone(),
        }
    }
}

/// Where a worker works.
pub(super) struct WorkerSite {
    /// The project's folder.
    pub(super) root: PathBuf,
    /// Set if each session has a worktree.
    pub(super) repository: Option<ProjectRepository>,
    /// The remote of the repository.
    pub(super) remote: Option<String>,
    /// Whether the work of a completed task is submitted.
    pub(super) submits: bool,
}

pub(super) struct WorkerLoop<'a> {
    args: &'a WorkerArgs,
    site: &'a WorkerSite,
    slots: &'a JobSlots,
    sessions: SessionsDir,
    me: WorkerIdentity,
    callings: Eligibility<'a>,
    place: QueuePlace,
    queue: WatchedQueue,
    signals: ShutdownSignals,
    /// When the worker last checked for missed tasks.
    looked: Instant,
    /// The last error of the server. The same error is reported once.
    trouble: Option<QueueTrouble>,
}

/// How the loop of a worker ended.
pub(super) struct WorkerLoopEnd {
    pub(super) code: u8,
    /// What stays in the queue, if the loop ended because there is nothing for it.
    pub(super) left: Option<String>,
}

impl WorkerLoopEnd {
    const fn with(code: u8) -> Self {
        Self { code, left: None }
    }
}

enum NextWorkerAction<'a> {
    Take(Box<dyn TaskLease>, JobSlot<'a>),
    Wait,
    Leave(WorkerLoopEnd),
}

impl<'a> WorkerLoop<'a> {
    pub(super) async fn new(
        args: &'a WorkerArgs,
        site: &'a WorkerSite,
        me: WorkerIdentity,
        callings: Eligibility<'a>,
        mut place: QueuePlace,
        slots: &'a JobSlots,
    ) -> CliResult<Self> {
        let signals = ShutdownSignals::listen()
            .map_err(|error| CliError::failed(format!("cannot listen for signals: {error}")))?;
        let queue = watch(&mut place, args).await?;
        let sessions = SessionsDir::of(&site.root);
        Ok(Self {
            args,
            site,
            slots,
            sessions,
            me,
            callings,
            place,
            queue,
            signals,
            looked: Instant::now(),
            trouble: None,
        })
    }

    /// Removes what killed workers left behind.
    pub(super) async fn clear_leftovers(&self) {
        let git = TaskGit {
            site: self.site,
            args: self.args,
        };
        git.clear_leftovers(&self.sessions, self.queue.tasks())
            .await;
    }

    /// Says what the user should know about the queue. Once for each worker.
    pub(super) fn say_notice(&self) {
        say_notice(&self.queue.queue);
    }

    /// Works until there are no more tasks, or a signal arrives.
    pub(super) async fn work(mut self) -> CliResult<WorkerLoopEnd> {
        loop {
            let did = match self.next().await {
                Ok(NextWorkerAction::Leave(end)) => return Ok(end),
                Ok(NextWorkerAction::Wait) => Ok(None),
                Ok(NextWorkerAction::Take(lot, slot)) => self.take(lot, slot).await,
                Err(trouble) => Err(WorkerError::Trouble(trouble)),
            };
            match did {
                Ok(Some(code)) => return Ok(WorkerLoopEnd::with(code)),
                Ok(None) => {}
                Err(WorkerError::Failure(failure)) => return Err(failure),
                Err(WorkerError::Trouble(trouble)) => {
                    let trouble = self.place.explained(trouble);
                    if self.trouble.as_ref() != Some(&trouble) {
                        say(&format!("creel: {trouble}; retrying"));
                    }
                    self.trouble = Some(trouble);
                    if let Some(code) = self.recover().await {
                        return Ok(WorkerLoopEnd::with(code));
                    }
                }
            }
        }
    }

    /// Opens the queue again, as soon as the server allows it.
    async fn recover(&mut self) -> Option<u8> {
        loop {
            tokio::select! {
                _ = self.signals.next() => return Some(INTERRUPTED),
                () = tokio::time::sleep(AGAIN) => {}
            }
            let watched = tokio::select! {
                _ = self.signals.next() => return Some(INTERRUPTED),
                watched = watch(&mut self.place, self.args) => watched,
            };
            match watched {
                Ok(queue) => {
                    self.queue = queue;
                    return None;
                }
                Err(trouble) => tracing::info!("{trouble}"),
            }
        }
    }

    async fn next(&mut self) -> std::result::Result<NextWorkerAction<'a>, QueueTrouble> {
        if self.slots.is_closed() {
            return Ok(NextWorkerAction::Leave(WorkerLoopEnd::with(0)));
        }
        tokio::select! {
            biased;
            _ = self.signals.next() => return Ok(NextWorkerAction::Leave(WorkerLoopEnd::with(INTERRUPTED))),
            readied = self.queue.ready_all() => readied?,
        }
        let Some(slot) = self.slots.take() else {
            tokio::select! {
                _ = self.signals.next() => return Ok(NextWorkerAction::Leave(WorkerLoopEnd::with(INTERRUPTED))),
                () = self.slots.changed() => {}
                () = self.queue.follow() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
            return Ok(NextWorkerAction::Wait);
        };
        let Self {
            queue,
            callings,
            signals,
            ..
        } = self;
        let mut wanted = |row: &DispatchGroup| callings.agent_for(row).is_some();
        // If this is cancelled, a task that was just received is handed out again when its lease
        // expires.
        let taken = tokio::select! {
            biased;
            _ = signals.next() => return Ok(NextWorkerAction::Leave(WorkerLoopEnd::with(INTERRUPTED))),
            taken = queue.queue.line.take(&mut wanted) => taken?,
        };
        if let Some(lot) = taken {
            return Ok(NextWorkerAction::Take(lot, slot));
        }
        drop(slot);
        if self.args.drain && !self.has_more() {
            self.clear_leftovers().await;
            return Ok(NextWorkerAction::Leave(WorkerLoopEnd {
                code: 0,
                left: tables::left_in_queue(self.queue.tasks()),
            }));
        }
        tokio::select! {
            _ = self.signals.next() => return Ok(NextWorkerAction::Leave(WorkerLoopEnd::with(INTERRUPTED))),
            changed = self.queue.changed() => changed?,
            () = self.slots.closed() => {}
            news = self.place.news() => self.heard(news?.as_deref()),
            () = tokio::time::sleep_until(self.looked + LOOK) => {
                self.looked = Instant::now();
                let Self { queue, callings, signals, .. } = self;
                tokio::select! {
                    biased;
                    _ = signals.next() => return Ok(NextWorkerAction::Leave(WorkerLoopEnd::with(INTERRUPTED))),
                    mended = queue.mend(|order| callings.agent_for(&DispatchGroup::of(order)).is_some()) => mended?,
                }
                self.queue.clear_out(now()).await;
            }
        }
        Ok(NextWorkerAction::Wait)
    }

    fn heard(&mut self, subject: Option<&str>) {
        if let Some(subject) = subject {
            self.queue.queue.line.heard(subject);
        }
    }

    /// Whether there is a task for this worker now, or can be when other workers are done.
    fn has_more(&mut self) -> bool {
        let Self {
            queue, callings, ..
        } = self;
        queue.tasks().any(|task| {
            queue.is_ahead(task)
                && callings
                    .agent_for(&DispatchGroup::of(&task.order))
                    .is_some()
        })
    }

    /// Has a task done. Returns an exit code if the worker is to exit.
    async fn take(
        &mut self,
        lot: Box<dyn TaskLease>,
        slot: JobSlot<'_>,
    ) -> std::result::Result<Option<u8>, WorkerError> {
        let (board, key) = (
            self.queue.queue.board.clone(),
            QueueTaskKey::of(lot.order()),
        );
        let ready = || QueuedTask {
            standing: QueuedTaskState::Ready,
            ..QueuedTask::new(lot.order().clone(), now())
        };
        // Another program may have put the task into the stream without the bucket.
        let TaskRevision { task, revision } =
            board.get(&key).await?.unwrap_or_else(|| TaskRevision {
                task: ready(),
                revision: 0,
            });
        let agent = self.callings.agent_for(&DispatchGroup::of(&task.order));
        let Some(agent) = agent.filter(|_| lot.is_for(&task.order)) else {
            // The message has the name of another task, whose own message is elsewhere or will be.
            lot.done().await?;
            return Ok(None);
        };
        let dependencies = self.before(&task).await?;
        let prompt = task.prompt(&dependencies);
        let before = PriorSession::of(&self.sessions, &task);
        let Some(folder) = before.folder() else {
            // Its worker is dead or disconnected, and the session is about to end.
            lot.back(AGAIN).await?;
            return Ok(None);
        };
        let folder = folder.clone();
        let WorkerIdentity { worker, host } = &self.me;
        let hand = TaskAssignee {
            worker: worker.clone(),
            host: host.clone(),
            session: folder.name.clone(),
        };
        let task = match task.claimed(hand, now()) {
            ClaimOutcome::Begin(task) => task,
            ClaimOutcome::GivenUp(task) => {
                let task = task.on_branch(branch_of(&folder));
                if let Some(revision) = board.write(&task, revision).await? {
                    self.tell(TaskRevision { task, revision })?;
                }
                lot.done().await?;
                return Ok(None);
            }
            ClaimOutcome::Nothing => {
                lot.done().await?;
                return Ok(None);
            }
        };
        let Some(revision) = board.write(&task, revision).await? else {
            // Another worker may have taken the task. Then it stays in the stream until that worker
            // is silent for too long.
            if board
                .get(&key)
                .await?
                .is_none_or(|seen| !matches!(seen.task.standing, QueuedTaskState::Active { .. }))
            {
                lot.back(Duration::ZERO).await?;
            }
            return Ok(None);
        };
        self.tell(TaskRevision {
            task: task.clone(),
            revision,
        })?;
        self.trouble = None;
        let kind = task
            .order
            .kind
            .as_deref()
            .and_then(|kind| self.callings.described(kind));
        let git = TaskGit {
            site: self.site,
            args: self.args,
        };
        let sessions = self.sessions.clone();
        let start = self
            .prepared(git.start_of(&sessions, &task, &dependencies), &*lot)
            .await;
        let joined = match start {
            Ok(TaskStart::Branches(joined)) => joined,
            Ok(TaskStart::Missing(why)) => {
                let stuck =
                    WorkerTaskEnd::Ended(ChildSessionEnd::Upshot(TaskOutcome::Stuck(why), None));
                return self.part(&task, &*lot, stuck, None).await;
            }
            Err(parting) => return self.part(&task, &*lot, parting, None).await,
        };
        let joins = self.site.repository.as_ref().map(|_| joined.as_slice());
        let job = ChildSessionSpec {
            args: self.args,
            prompt: &prompt,
            mark: task.mark(),
            kind,
            agent: &agent,
            joins,
        };
        let parting = self.have_done(before, &job, &*lot, slot).await;
        let was_stuck = parting.is_stuck();
        let (parting, branch) = tokio::select! {
            biased;
            handed_in = git.hand_in(&task, &folder, &joined, parting) => handed_in,
            () = kept(&*lot, &*board, &self.me.worker) => (WorkerTaskEnd::TakenAway, None),
        };
        // Ctrl-C in a terminal also ends git, which is no failure of the task: the next worker
        // hands its work in.
        if !was_stuck && parting.is_stuck() && self.is_stopped().await {
            return self
                .part(&task, &*lot, WorkerTaskEnd::Leaves(None), None)
                .await;
        }
        self.part(&task, &*lot, parting, branch).await
    }

    /// The dependencies of the task, read again: the known state may be old, and lack their
    /// results.
    async fn before(
        &self,
        task: &QueuedTask,
    ) -> std::result::Result<Vec<QueuedTask>, QueueTrouble> {
        let mut before = Vec::new();
        for on in &task.order.dependencies {
            let seen = self
                .queue
                .queue
                .board
                .get(&QueueTaskKey::of(&task.order).sibling(on))
                .await?;
            before.extend(seen.map(|seen| seen.task));
        }
        Ok(before)
    }

    /// Runs the session of a task to its end.
    async fn have_done(
        &mut self,
        before: PriorSession,
        job: &ChildSessionSpec<'_>,
        lot: &dyn TaskLease,
        slot: JobSlot<'_>,
    ) -> WorkerTaskEnd {
        let started = match before {
            PriorSession::Ended(_, upshot) => {
                return WorkerTaskEnd::Ended(ChildSessionEnd::Upshot(upshot, None));
            }
            PriorSession::Nothing(folder) => ChildSession::begin(folder, job),
            PriorSession::Begun(folder) => ChildSession::resume(folder, job),
            PriorSession::Running => return WorkerTaskEnd::Ended(ChildSessionEnd::Died),
        };
        match started {
            Ok(hired) => self.stay(hired, lot, slot).await,
            Err(error) => {
                say(&format!("creel: cannot start a session: {error}"));
                WorkerTaskEnd::Ended(ChildSessionEnd::NeverBegan)
            }
        }
    }

    /// Waits for a session and keeps renewing the lease. Reacts at once to the end of the session
    /// and to signals, whatever the server does.
    async fn stay(
        &mut self,
        mut hired: ChildSession,
        lot: &dyn TaskLease,
        mut slot: JobSlot<'_>,
    ) -> WorkerTaskEnd {
        slot.begin();
        let mut gates = GateWatch::of(&hired.folder);
        let board = self.queue.queue.board.clone();
        let mut kept = std::pin::pin!(kept(lot, &*board, &self.me.worker));
        let mut is_kept = true;
        let mut stopped: Option<WorkerTaskEnd> = None;
        loop {
            tokio::select! {
                biased;
                end = hired.ended() => return match (stopped, end) {
                    (Some(WorkerTaskEnd::Leaves(_)), ChildSessionEnd::Upshot(upshot, Some(outcome))) if outcome.is_by_itself() => {
                        WorkerTaskEnd::Leaves(Some(upshot))
                    }
                    (stopped, end) => stopped.unwrap_or(WorkerTaskEnd::Ended(end)),
                },
                _ = self.signals.next() => {
                    hired.stop();
                    stopped = Some(WorkerTaskEnd::Leaves(None));
                }
                () = &mut kept, if is_kept => {
                    is_kept = false;
                    if stopped.is_none() {
                        hired.stop();
                        stopped = Some(WorkerTaskEnd::TakenAway);
                    }
                }
                // A lost connection says nothing about the session.
                Ok(subject) = self.place.news() => if let Some(subject) = subject {
                    self.queue.queue.line.heard(&subject);
                },
                () = self.queue.follow() => {}
                () = tokio::time::sleep(GATE_LOOK), if self.args.attended => slot.set_waiting(gates.is_open()),
            }
        }
    }

    /// Reports the result of a task.
    fn tell(&mut self, seen: TaskRevision) -> CliResult<()> {
        if self.args.json {
            let line = serde_json::to_string(&seen.task)
                .map_err(|error| CliError::failed(error.to_string()))?;
            print(&(line + "\n"))?;
        } else {
            say(&format!("creel: {}", line(&seen.task)));
        }
        self.queue.note(seen);
        Ok(())
    }
}

/// Keeps renewing the lease of a task. Returns when another worker has the task.
async fn kept(lot: &dyn TaskLease, board: &dyn TaskStore, worker: &str) {
    let often = lot.length() / 3;
    let mut beat = tokio::time::interval(often);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        beat.tick().await;
        // An unreachable server may be back before the lease expires.
        let _ = lot.keep().await;
        // If the server has lost the task, no other worker has it, and the result may still be
        // useful.
        if let Ok(Ok(Some(seen))) =
            tokio::time::timeout(often, board.get(&QueueTaskKey::of(lot.order()))).await
            && !seen.task.is_in_hands_of(worker)
        {
            return;
        }
    }
}

async fn watch(
    place: &mut QueuePlace,
    args: &WorkerArgs,
) -> std::result::Result<WatchedQueue, QueueTrouble> {
    let mut watched = place.open(args.lease.into()).await?.watched().await?;
    watched.queue.line.restore(Vec::new()).await?;
    watched.clear_out(now()).await;
    Ok(watched)
}

fn line(task: &QueuedTask) -> String {
    let QueuedTask {
        order,
        standing,
        attempt,
        ..
    } = task;
    let id = &order.id;
    match standing {
        QueuedTaskState::Created => format!("task {id} is waiting"),
        QueuedTaskState::Ready => format!("task {id} is back in the queue"),
        QueuedTaskState::Active { by, .. } => {
            let again = if *attempt > 1 {
                format!(" (attempt {attempt})")
            } else {
                String::new()
            };
            format!(
                "task {id}{again}: {}\n  in session {}",
                plain_line(&order.goal, LINE),
                by.session
            )
        }
        QueuedTaskState::Blocked { reason, .. } => {
            format!("task {id} is blocked: {}", plain_line(reason, REASON))
        }
        QueuedTaskState::Completed { .. } => format!("task {id} is completed"),
        QueuedTaskState::Removed => format!("task {id} is removed"),
    }
}

/// An error that can pass, or one that ends the worker.
enum WorkerError {
    Trouble(QueueTrouble),
    Failure(CliError),
}

impl From<QueueTrouble> for WorkerError {
    fn from(trouble: QueueTrouble) -> Self {
        Self::Trouble(trouble)
    }
}

impl From<CliError> for WorkerError {
    fn from(failure: CliError) -> Self {
        Self::Failure(failure)
    }
}
