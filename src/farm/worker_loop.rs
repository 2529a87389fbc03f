//! The loop of a worker, from its first task to its last.

use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior};

use crate::{
    engine::{
        SessionState,
        queue::{ClaimOutcome, QueuedTask, QueuedTaskState, TaskAssignee, TaskOutcome},
    },
    farm::{
        FarmError,
        child_session::{
            ChildSession, ChildSessionEnd, ChildSessionSpec, PriorSession, SessionObserver,
        },
        job_slots::{JobSlot, JobSlots},
        task_branch::{TaskBase, TaskGit, TaskStart, branch_of},
        task_end::{WorkerTaskEnd, with_spending},
        worker::{Eligibility, WorkerIdentity, WorkerOptions, WorkerSite},
        worker_merger::WorkerMerger,
    },
    journal::{self, SessionDir, SessionsDir},
    present::tables,
    process::signals::ShutdownSignals,
    queue::{
        QueuePlace, WatchedQueue,
        backend::{DispatchGroup, QueueFailure, QueueTaskKey, TaskLease, TaskRevision, TaskStore},
    },
    runtime::now,
};

/// How often an idle worker checks whether it missed a task.
const LOOK: Duration = Duration::from_secs(2);
/// How often a worker checks whether a session waits for the user, and what it has used.
const SESSION_LOOK: Duration = Duration::from_millis(500);
/// How long to wait before asking a failing server again.
pub(super) const AGAIN: Duration = Duration::from_secs(1);
/// The exit code of a worker that a signal ended.
pub(super) const INTERRUPTED: u8 = 130;
/// The exit code of a worker that drained the queue, except for tasks that are blocked.
const NEEDS_USER: u8 = 4;
/// The exit code of a worker that has used up its budget.
const USED_UP: u8 = 3;

/// The end of a message about what stays in the queue.
const SHOWN_BY: &str = "\n  `creel task list --queue` shows these tasks";

pub(super) struct WorkerLoop<'a> {
    pub(super) options: &'a WorkerOptions,
    site: &'a WorkerSite,
    pub(super) slots: &'a JobSlots,
    /// The merger of this worker.
    merger: Option<&'a WorkerMerger>,
    sessions: SessionsDir,
    pub(super) me: WorkerIdentity,
    eligibility: Eligibility<'a>,
    pub(super) place: QueuePlace,
    pub(super) queue: WatchedQueue,
    pub(super) signals: ShutdownSignals,
    /// When the worker last checked for missed tasks.
    looked: Instant,
    /// The last error of the server. The same error is reported once.
    last_error: Option<QueueFailure>,
}

/// How the loop of a worker ended.
pub(super) struct WorkerLoopEnd {
    pub(super) code: u8,
    /// What the user should know about it, and about what stays in the queue.
    pub(super) message: Option<String>,
}

impl WorkerLoopEnd {
    const fn with(code: u8) -> Self {
        Self {
            code,
            message: None,
        }
    }

    /// Whether the loop ended because there is nothing for it. Then the others can go on.
    pub(super) const fn has_no_more(&self) -> bool {
        matches!(self.code, 0 | NEEDS_USER)
    }
}

/// A task that this worker has claimed, and what its session needs.
struct ClaimedTask {
    task: QueuedTask,
    agent: String,
    dependencies: Vec<QueuedTask>,
    prompt: String,
    prior: PriorSession,
    /// The folder of its session.
    folder: SessionDir,
}

enum NextWorkerAction<'a> {
    Take(Box<dyn TaskLease>, JobSlot<'a>),
    Wait,
    Leave(WorkerLoopEnd),
}

impl<'a> WorkerLoop<'a> {
    pub(super) async fn new(
        options: &'a WorkerOptions,
        site: &'a WorkerSite,
        me: WorkerIdentity,
        eligibility: Eligibility<'a>,
        mut place: QueuePlace,
        (slots, merger): (&'a JobSlots, Option<&'a WorkerMerger>),
    ) -> Result<Self, FarmError> {
        let signals = ShutdownSignals::listen()
            .map_err(|error| FarmError::Failed(format!("cannot listen for signals: {error}")))?;
        let queue = watch(&mut place, options).await?;
        let sessions = SessionsDir::of(&site.root);
        Ok(Self {
            options,
            site,
            slots,
            merger,
            sessions,
            me,
            eligibility,
            place,
            queue,
            signals,
            looked: Instant::now(),
            last_error: None,
        })
    }

    /// Removes what killed workers left behind.
    pub(super) async fn clear_leftovers(&self) {
        self.git()
            .clear_leftovers(&self.sessions, self.queue.tasks())
            .await;
    }

    /// Says what the user should know about the queue. Once for each worker.
    pub(super) fn say_notice(&self) {
        if let Some(notice) = &self.queue.queue.notice {
            (self.options.say)(&format!("creel: {notice}"));
        }
    }

    /// Works until there are no more tasks, or a signal arrives.
    pub(super) async fn work(mut self) -> Result<WorkerLoopEnd, FarmError> {
        loop {
            let did = match self.next().await {
                Ok(NextWorkerAction::Leave(end)) => return Ok(end),
                Ok(NextWorkerAction::Wait) => Ok(None),
                Ok(NextWorkerAction::Take(lease, slot)) => self.run_task(&*lease, slot).await,
                Err(error) => Err(error.into()),
            };
            match did {
                Ok(Some(code)) => {
                    return Ok(self.used_up().unwrap_or_else(|| WorkerLoopEnd::with(code)));
                }
                Ok(None) => {}
                // The server may be back soon. Other errors end the worker.
                Err(FarmError::Queue(error)) => {
                    let error = self.place.explained(error);
                    if self.last_error.as_ref() != Some(&error) {
                        (self.options.say)(&format!("creel: {error}; retrying"));
                    }
                    self.last_error = Some(error);
                    if let Some(code) = self.recover().await {
                        return Ok(WorkerLoopEnd::with(code));
                    }
                }
                Err(error) => return Err(error),
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
                watched = watch(&mut self.place, self.options) => watched,
            };
            match watched {
                Ok(queue) => {
                    self.queue = queue;
                    return None;
                }
                Err(error) => tracing::info!("{error}"),
            }
        }
    }

    async fn next(&mut self) -> Result<NextWorkerAction<'a>, QueueFailure> {
        if let Some(end) = self.used_up() {
            return Ok(NextWorkerAction::Leave(end));
        }
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
            eligibility,
            signals,
            ..
        } = self;
        let mut wanted = |group: &DispatchGroup| {
            let agent = eligibility.agent_with_room(group, |agent| slot.has_room_for(agent));
            agent.is_some()
        };
        // If this is cancelled, a task that was just received is handed out again when its lease
        // expires.
        let taken = tokio::select! {
            biased;
            _ = signals.next() => return Ok(NextWorkerAction::Leave(WorkerLoopEnd::with(INTERRUPTED))),
            taken = queue.queue.line.take(&mut wanted) => taken?,
        };
        if let Some(lease) = taken {
            return Ok(NextWorkerAction::Take(lease, slot));
        }
        drop(slot);
        let drains = self.options.drain || self.slots.drains();
        if drains && !self.has_more() && self.has_merged() {
            self.clear_leftovers().await;
            let has_blocked = self.has_blocked();
            let message = tables::left_in_queue(self.queue.tasks(), true)
                .map(|left| format!("nothing is left that this worker can do: {left}{SHOWN_BY}"));
            return Ok(NextWorkerAction::Leave(WorkerLoopEnd {
                code: if has_blocked { NEEDS_USER } else { 0 },
                message,
            }));
        }
        tokio::select! {
            _ = self.signals.next() => return Ok(NextWorkerAction::Leave(WorkerLoopEnd::with(INTERRUPTED))),
            changed = self.queue.changed() => changed?,
            () = self.slots.closed() => {}
            () = merged(self.merger), if drains => {}
            () = self.slots.changed() => {}
            news = self.place.news() => if let Some(subject) = news? {
                self.queue.queue.line.note_change(&subject);
            },
            () = tokio::time::sleep_until(self.looked + LOOK) => {
                self.looked = Instant::now();
                let Self { queue, eligibility, signals, .. } = self;
                tokio::select! {
                    biased;
                    _ = signals.next() => return Ok(NextWorkerAction::Leave(WorkerLoopEnd::with(INTERRUPTED))),
                    mended = queue.mend(|order| eligibility.agent_for(&DispatchGroup::of(order)).is_some()) => mended?,
                }
                self.queue.clear_out(now()).await;
            }
        }
        Ok(NextWorkerAction::Wait)
    }

    /// The end of this loop, if the worker's budget is used up.
    fn used_up(&self) -> Option<WorkerLoopEnd> {
        let why = self.slots.budget.used_up()?;
        let left = tables::left_in_queue(self.queue.tasks(), false);
        let left = left.map_or_else(
            || "nothing is left in the queue".to_owned(),
            |left| format!("{left}{SHOWN_BY}"),
        );
        Some(WorkerLoopEnd {
            code: USED_UP,
            message: Some(format!("this worker stops: {why}; {left}")),
        })
    }

    /// Whether there is a task for this worker now, or can be when other workers are done.
    fn has_more(&mut self) -> bool {
        let Self {
            queue, eligibility, ..
        } = self;
        queue.tasks().any(|task| {
            queue.is_ahead(task)
                && eligibility
                    .agent_for(&DispatchGroup::of(&task.order))
                    .is_some()
        })
    }

    /// Whether nothing is still to be merged.
    fn has_merged(&self) -> bool {
        self.merger
            .is_none_or(|merger| merger.has_done(self.queue.tasks()))
    }

    /// Whether a task of this worker is blocked.
    fn has_blocked(&mut self) -> bool {
        let Self {
            queue, eligibility, ..
        } = self;
        queue.tasks().any(|task| {
            let group = DispatchGroup::of(&task.order);
            matches!(task.state, QueuedTaskState::Blocked { .. })
                && eligibility.agent_for(&group).is_some()
        })
    }

    /// Has a task done. Returns an exit code if the worker is to exit.
    async fn run_task(
        &mut self,
        lease: &dyn TaskLease,
        mut slot: JobSlot<'_>,
    ) -> Result<Option<u8>, FarmError> {
        let Some(claimed) = self.claim(lease, &mut slot).await? else {
            return Ok(None);
        };
        let task = claimed.task.clone();
        let (end, branch) = self.work_on(claimed, lease, slot).await;
        self.end_task(&task, lease, end, branch).await
    }

    /// Claims a task for this worker. None if this worker must not do it, or not now: then its
    /// lease is over.
    async fn claim(
        &mut self,
        lease: &dyn TaskLease,
        slot: &mut JobSlot<'_>,
    ) -> Result<Option<ClaimedTask>, FarmError> {
        let (board, key) = (
            self.queue.queue.board.clone(),
            QueueTaskKey::of(lease.order()),
        );
        // Another program may have put the task into the stream without the bucket.
        let ready = || TaskRevision {
            task: QueuedTask {
                state: QueuedTaskState::Ready,
                ..QueuedTask::new(lease.order().clone(), now())
            },
            revision: 0,
        };
        let TaskRevision { task, revision } = board.get(&key).await?.unwrap_or_else(ready);
        let group = DispatchGroup::of(&task.order);
        let has_room = |agent: &str| slot.has_room_for(agent);
        let agent = self.eligibility.agent_with_room(&group, has_room);
        // Another loop was faster.
        if agent.is_none() && self.eligibility.agent_for(&group).is_some() {
            lease.back(Duration::ZERO).await?;
            return Ok(None);
        }
        let Some(agent) = agent.filter(|_| lease.is_for(&task.order)) else {
            // The message has the name of another task, whose own message is elsewhere or will be.
            lease.done().await?;
            return Ok(None);
        };
        if !slot.reserve(&agent) {
            lease.back(Duration::ZERO).await?;
            return Ok(None);
        }
        let dependencies = self.dependencies_of(&task).await?;
        let prompt = task.prompt(&dependencies);
        let prior = PriorSession::of(&self.sessions, &task);
        let Some(folder) = prior.folder().cloned() else {
            // Its worker is dead or disconnected, and the session is about to end.
            lease.back(AGAIN).await?;
            return Ok(None);
        };
        let assignee = TaskAssignee {
            worker: self.me.worker.clone(),
            host: self.me.host.clone(),
            session: folder.name.clone(),
        };
        let task = match task.claimed(assignee, now()) {
            ClaimOutcome::Begin(task) => task,
            ClaimOutcome::GivenUp(task) => {
                let spending = self.spending(&task);
                let task = with_spending(task.on_branch(branch_of(&folder)), spending);
                if let Some(revision) = board.write(&task, revision).await? {
                    self.report(TaskRevision { task, revision })?;
                }
                lease.done().await?;
                return Ok(None);
            }
            ClaimOutcome::Nothing => {
                lease.done().await?;
                return Ok(None);
            }
        };
        let Some(revision) = board.write(&task, revision).await? else {
            // Another worker may have taken the task. Then it stays in the stream until that worker
            // is silent for too long.
            let seen = board.get(&key).await?;
            if !seen.is_some_and(|seen| matches!(seen.task.state, QueuedTaskState::Active { .. })) {
                lease.back(Duration::ZERO).await?;
            }
            return Ok(None);
        };
        self.report(TaskRevision {
            task: task.clone(),
            revision,
        })?;
        self.last_error = None;
        Ok(Some(ClaimedTask {
            task,
            agent,
            dependencies,
            prompt,
            prior,
            folder,
        }))
    }

    /// Runs the session of a task and hands its work in. Returns the branch of the work, if any.
    async fn work_on(
        &mut self,
        claimed: ClaimedTask,
        lease: &dyn TaskLease,
        slot: JobSlot<'_>,
    ) -> (WorkerTaskEnd, Option<String>) {
        let ClaimedTask {
            task,
            agent,
            mut dependencies,
            prompt,
            prior,
            folder,
        } = claimed;
        let (git, sessions) = (self.git(), self.sessions.clone());
        let start = loop {
            let start = self
                .prepared(git.start_of(&sessions, &task, &dependencies), lease)
                .await;
            // A branch is gone once it is merged, and the base has its work.
            let now = match &start {
                Ok(TaskStart::Missing(_)) => self.dependencies_of(&task).await.ok(),
                Ok(TaskStart::Branches(_)) | Err(_) => None,
            };
            match now.filter(|now| *now != dependencies) {
                Some(now) => dependencies = now,
                None => break start,
            }
        };
        let joined = match start {
            Ok(TaskStart::Branches(joined)) => joined,
            Ok(TaskStart::Missing(why)) => {
                let stuck = ChildSessionEnd::Result(TaskOutcome::Stuck(why), None);
                return (WorkerTaskEnd::Ended(stuck), None);
            }
            Err(end) => return (end, None),
        };
        let kind = task
            .order
            .kind
            .as_deref()
            .and_then(|kind| self.eligibility.described(kind));
        let spec = ChildSessionSpec {
            options: self.options,
            prompt: &prompt,
            mark: task.mark(),
            kind,
            agent: &agent,
            joins: self.site.repository.as_ref().map(|_| joined.as_slice()),
        };
        let start = TaskBase {
            joined: &joined,
            is_continued: !matches!(prior, PriorSession::Nothing(_)),
        };
        let end = self.run_session(prior, &spec, lease, slot).await;
        let was_stuck = end.is_stuck();
        let board = self.queue.queue.board.clone();
        let (end, branch) = tokio::select! {
            biased;
            handed_in = git.hand_in(&task, &folder, start, end) => handed_in,
            () = taken_away(lease, &*board, &self.me.worker) => (WorkerTaskEnd::TakenAway, None),
        };
        // Ctrl-C in a terminal also ends git, which is no failure of the task: the next worker
        // hands its work in.
        if !was_stuck && end.is_stuck() && self.is_stopped().await {
            return (WorkerTaskEnd::Leaves(None), None);
        }
        (end, branch)
    }

    fn git(&self) -> TaskGit<'a> {
        TaskGit {
            site: self.site,
            options: self.options,
        }
    }

    /// The session that worked on a task here.
    pub(super) fn session_of(&self, task: &QueuedTask) -> Option<SessionState> {
        let folder = self.sessions.folder(&task.state.by()?.session);
        journal::fold(&folder.journal()).ok()
    }

    /// The dependencies of the task, read again: the known state may be old, and lack their
    /// results.
    async fn dependencies_of(&self, task: &QueuedTask) -> Result<Vec<QueuedTask>, QueueFailure> {
        let (board, key) = (&self.queue.queue.board, QueueTaskKey::of(&task.order));
        let mut found = Vec::new();
        for id in &task.order.dependencies {
            let seen = board.get(&key.sibling(id)).await?;
            found.extend(seen.map(|seen| seen.task));
        }
        Ok(found)
    }

    /// Runs the session of a task to its end.
    async fn run_session(
        &mut self,
        prior: PriorSession,
        spec: &ChildSessionSpec<'_>,
        lease: &dyn TaskLease,
        slot: JobSlot<'_>,
    ) -> WorkerTaskEnd {
        let started = match prior {
            PriorSession::Ended(_, outcome) => {
                return WorkerTaskEnd::Ended(ChildSessionEnd::Result(outcome, None));
            }
            PriorSession::Nothing(folder) => ChildSession::begin(folder, spec),
            PriorSession::Begun(folder) => ChildSession::resume(folder, spec),
            PriorSession::Running => return WorkerTaskEnd::Ended(ChildSessionEnd::Died),
        };
        match started {
            Ok(session) => self.wait_for(session, lease, slot).await,
            Err(error) => {
                (self.options.say)(&format!("creel: cannot start a session: {error}"));
                WorkerTaskEnd::Ended(ChildSessionEnd::NeverBegan)
            }
        }
    }

    /// Waits for a session and keeps renewing the lease. Reacts at once to the end of the session
    /// and to signals, whatever the server does.
    async fn wait_for(
        &mut self,
        mut session: ChildSession,
        lease: &dyn TaskLease,
        mut slot: JobSlot<'_>,
    ) -> WorkerTaskEnd {
        slot.begin();
        let name = session.folder.name.clone();
        let mut watch = SessionObserver::of(&session.folder);
        self.slots.budget.note(&name, watch.used);
        let looks = self.options.attended || self.slots.budget.is_limited();
        let board = self.queue.queue.board.clone();
        let mut taken_away = std::pin::pin!(taken_away(lease, &*board, &self.me.worker));
        let mut is_ours = true;
        let mut stopped: Option<WorkerTaskEnd> = None;
        loop {
            tokio::select! {
                biased;
                end = session.ended() => {
                    watch.look();
                    self.slots.budget.note(&name, watch.used);
                    return match (stopped, end) {
                    (Some(WorkerTaskEnd::Leaves(_)), ChildSessionEnd::Result(result, Some(outcome))) if outcome.is_by_itself() => {
                        WorkerTaskEnd::Leaves(Some(result))
                    }
                    (stopped, end) => stopped.unwrap_or(WorkerTaskEnd::Ended(end)),
                    };
                }
                _ = self.signals.next() => {
                    session.stop();
                    stopped = Some(WorkerTaskEnd::Leaves(None));
                }
                () = &mut taken_away, if is_ours => {
                    is_ours = false;
                    if stopped.is_none() {
                        session.stop();
                        stopped = Some(WorkerTaskEnd::TakenAway);
                    }
                }
                // A lost connection says nothing about the session.
                Ok(subject) = self.place.news() => if let Some(subject) = subject {
                    self.queue.queue.line.note_change(&subject);
                },
                () = self.queue.follow() => {}
                () = tokio::time::sleep(SESSION_LOOK), if looks => {
                    watch.look();
                    if self.options.attended {
                        slot.set_waiting(watch.is_waiting);
                    }
                    self.slots.budget.note(&name, watch.used);
                    if stopped.is_none() && self.slots.budget.used_up().is_some() {
                        session.stop();
                        stopped = Some(WorkerTaskEnd::Leaves(None));
                    }
                }
            }
        }
    }

    /// Reports a change of a task.
    pub(super) fn report(&mut self, seen: TaskRevision) -> Result<(), FarmError> {
        (self.options.report)(&seen.task)?;
        self.queue.note(seen);
        Ok(())
    }
}

/// Waits until the merger, if there is one, has merged what it can.
async fn merged(merger: Option<&WorkerMerger>) {
    match merger {
        Some(merger) => merger.changed().await,
        None => std::future::pending().await,
    }
}

/// Keeps renewing the lease of a task. Returns when another worker has the task.
pub(super) async fn taken_away(lease: &dyn TaskLease, board: &dyn TaskStore, worker: &str) {
    let often = lease.length() / 3;
    let mut beat = tokio::time::interval(often);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        beat.tick().await;
        // An unreachable server may be back before the lease expires.
        let _ = lease.keep().await;
        // If the server has lost the task, no other worker has it, and the result may still be
        // useful.
        if let Ok(Ok(Some(seen))) =
            tokio::time::timeout(often, board.get(&QueueTaskKey::of(lease.order()))).await
            && !seen.task.is_in_hands_of(worker)
        {
            return;
        }
    }
}

pub(super) async fn watch(
    place: &mut QueuePlace,
    options: &WorkerOptions,
) -> Result<WatchedQueue, QueueFailure> {
    let mut watched = place.open(options.lease.into()).await?.watched().await?;
    watched.queue.line.restore(Vec::new()).await?;
    watched.clear_out(now()).await;
    Ok(watched)
}
