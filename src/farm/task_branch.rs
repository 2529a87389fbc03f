//! The branch of a task: where its work starts, and how it is handed in.

use std::{collections::BTreeSet, path::Path, time::Duration};

use crate::{
    engine::{
        SessionState,
        event::SessionWorktree,
        queue::{QueuedTask, QueuedTaskState, TaskOutcome, retention::merged_branches},
    },
    farm::{
        child_session::{self, ChildSessionEnd, PriorSession},
        task_end::WorkerTaskEnd,
        worker::{WorkerOptions, WorkerSite},
        worker_loop::{WorkerLoop, taken_away},
    },
    journal::{self, SessionDir, SessionsDir},
    present::{tables, text::plain_line},
    queue::backend::TaskLease,
    worktrees::{
        ProjectRepository, WorktreeError,
        base_commit::BaseCommit,
        checked_out,
        inventory::OwnedWorktree,
        joined_branches::{TaskWork, UnfinishedWork},
        removal::{BranchRemoval, RemovalOutcome},
    },
};

/// The longest first line of a commit, in characters.
const SUBJECT: usize = 72;
/// How much later than git this process can notice a signal that both got.
const SIGNAL_LAG: Duration = Duration::from_millis(100);

/// What a task starts from.
pub(super) enum TaskStart {
    /// These branches, on top of the base.
    Branches(Vec<String>),
    /// Something is missing.
    Missing(String),
}

/// What the work of a session starts from.
#[derive(Clone, Copy)]
pub(super) struct TaskBase<'a> {
    /// The branches that the task builds on now.
    pub(super) joined: &'a [String],
    /// Whether the session began earlier, perhaps from others.
    pub(super) is_continued: bool,
}

impl WorkerLoop<'_> {
    /// Waits for the start of a task, and keeps renewing the lease: a remote can be slow. An error
    /// if a signal ends the worker, or if another worker has the task by then.
    pub(super) async fn prepared(
        &mut self,
        start: impl Future<Output = TaskStart>,
        lease: &dyn TaskLease,
    ) -> Result<TaskStart, WorkerTaskEnd> {
        let board = self.queue.queue.board.clone();
        let Self { signals, me, .. } = self;
        let start = tokio::select! {
            biased;
            _ = signals.next() => return Err(WorkerTaskEnd::Leaves(None)),
            start = start => start,
            () = taken_away(lease, &*board, &me.worker) => return Err(WorkerTaskEnd::TakenAway),
        };
        if matches!(start, TaskStart::Missing(_)) && self.is_stopped().await {
            return Err(WorkerTaskEnd::Leaves(None));
        }
        Ok(start)
    }

    /// Whether a signal ends this worker. Waits a moment for it: git can end first.
    pub(super) async fn is_stopped(&mut self) -> bool {
        tokio::time::timeout(SIGNAL_LAG, self.signals.next())
            .await
            .is_ok()
    }
}

/// Works with git for the tasks of a worker.
#[derive(Clone, Copy)]
pub(super) struct TaskGit<'a> {
    pub(super) site: &'a WorkerSite,
    pub(super) options: &'a WorkerOptions,
}

impl TaskGit<'_> {
    /// The branches that a task starts from: all of its dependencies must be here or at the remote.
    /// Its own earlier branch may be gone.
    pub(super) async fn start_of(
        self,
        sessions: &SessionsDir,
        task: &QueuedTask,
        before: &[QueuedTask],
    ) -> TaskStart {
        let mut before = before.to_vec();
        before.sort_by_key(completed_at);
        // A worker that died could not say where its work is.
        let task = &task.clone().on_branch(
            task.branch
                .clone()
                .or_else(|| earlier_branches(sessions, task).into_iter().next()),
        );
        let (wanted, own) = (task.joined_branches(&before), task.branch.clone());
        let Some(repository) = self.site.repository.clone() else {
            return TaskStart::Branches(Vec::new());
        };
        let remote = self.site.remote.clone();
        if wanted.is_empty() {
            return TaskStart::Branches(wanted);
        }
        let say = self.options.say;
        let unfinished = format!("Unfinished: {}", message(task));
        let found = tokio::task::spawn_blocking(move || {
            let mut found = Vec::new();
            if let Some(own) = &own {
                say_if_left(&repository, own, say);
            }
            if let Some(own) = &own
                && let Err(error) = repository.save_unfinished(own, &unfinished)
            {
                say(&format!(
                    "creel: the task starts from what is committed on `{own}`: {error}"
                ));
            }
            for branch in wanted {
                if repository.newest(&branch, remote.as_deref())?.is_some() {
                    found.push(branch);
                } else if Some(&branch) != own.as_ref() {
                    return Ok(Err(branch));
                }
            }
            Ok::<_, WorktreeError>(Ok(found))
        });
        match found.await {
            Ok(Ok(Ok(found))) => TaskStart::Branches(found),
            Ok(Ok(Err(branch))) => TaskStart::Missing(format!(
                "the branch `{branch}`, which it builds on, is neither here nor at the remote"
            )),
            Ok(Err(error)) => TaskStart::Missing(error.to_string()),
            Err(_) => TaskStart::Missing("git did not answer".to_owned()),
        }
    }

    /// Removes what completed tasks no longer need.
    pub(super) async fn clear_leftovers(
        self,
        sessions: &SessionsDir,
        tasks: impl Iterator<Item = &QueuedTask>,
    ) {
        let Some(repository) = self.site.repository.clone() else {
            return;
        };
        let (all, sessions) = (tasks.cloned().collect::<Vec<_>>(), sessions.clone());
        let (base, remote) = (self.site.base.clone(), self.site.remote.clone());
        let cleared = in_background(move || {
            let merged = merged_branches(all.iter());
            let cleared = clear_worktrees(&repository, &sessions, &all).and_then(|()| {
                if repository.knows_none_of(&merged)? {
                    return Ok(0);
                }
                let base = BaseCommit::find(&repository, base.as_deref(), remote.as_deref())?;
                repository.forget_merged_branches(&merged, &base)
            });
            cleared.map_err(|error| error.to_string())
        });
        if let Err(why) = cleared.await {
            tracing::warn!("a worktree or a branch stays: {why}");
        }
    }

    /// Hands in the work of a session that has ended: commits what is left, checks and pushes its
    /// branch. Returns the branch; if the work is not finished, the task is blocked.
    pub(super) async fn hand_in(
        self,
        task: &QueuedTask,
        folder: &SessionDir,
        start: TaskBase<'_>,
        end: WorkerTaskEnd,
    ) -> (WorkerTaskEnd, Option<String>) {
        let state = journal::fold(&folder.journal()).ok();
        let Some((worktree, plan)) = state.and_then(|state| {
            Some((
                state.began.worktree.clone()?,
                state.plan().worktree.clone().unwrap_or_default(),
            ))
        }) else {
            return (end, None);
        };
        let is_done = match &end {
            WorkerTaskEnd::Ended(ChildSessionEnd::Result(result, _))
            | WorkerTaskEnd::Leaves(Some(result)) => {
                matches!(result, TaskOutcome::Done(_))
            }
            WorkerTaskEnd::Ended(
                ChildSessionEnd::NeverBegan | ChildSessionEnd::NoWorktree | ChildSessionEnd::Died,
            )
            | WorkerTaskEnd::Leaves(None)
            | WorkerTaskEnd::TakenAway => false,
        };
        let branch = Some(worktree.branch.clone());
        if !is_done {
            return (end, branch);
        }
        match self
            .finish(task, folder, worktree, start, plan.keep.lets_go(true))
            .await
        {
            Ok(branch) => (end, Some(branch)),
            Err(unfinished) => {
                let end = match end {
                    WorkerTaskEnd::Leaves(_) => WorkerTaskEnd::Leaves(Some(unfinished)),
                    WorkerTaskEnd::Ended(ChildSessionEnd::Result(_, outcome)) => {
                        WorkerTaskEnd::Ended(ChildSessionEnd::Result(unfinished, outcome))
                    }
                    WorkerTaskEnd::Ended(
                        end @ (ChildSessionEnd::NeverBegan
                        | ChildSessionEnd::NoWorktree
                        | ChildSessionEnd::Died),
                    ) => WorkerTaskEnd::Ended(end),
                    WorkerTaskEnd::TakenAway => WorkerTaskEnd::TakenAway,
                };
                (end, branch)
            }
        }
    }

    async fn finish(
        self,
        task: &QueuedTask,
        folder: &SessionDir,
        worktree: SessionWorktree,
        start: TaskBase<'_>,
        can_go: bool,
    ) -> Result<String, TaskOutcome> {
        let Some(repository) = self.site.repository.clone() else {
            return Ok(worktree.branch);
        };
        let (remote, message, kept) = (self.site.remote.clone(), message(task), worktree.clone());
        let (name, limit) = (tables::queued_name(&task.order), self.site.attempts);
        let here = repository.clone();
        let (joined, is_continued) = (start.joined.to_vec(), start.is_continued);
        let path = worktree.path.clone();
        let finished = tokio::task::spawn_blocking(move || {
            let work = TaskWork {
                worktree: &worktree,
                message: &message,
                joined: &joined,
                remote: remote.as_deref(),
            };
            repository.finish(&work)
        });
        let finished = finished
            .await
            .map_err(|_| TaskOutcome::Stuck("git did not answer".to_owned()))?;
        let branch = finished.map_err(|error| match &error {
            UnfinishedWork::NotJoined { .. } if is_continued => {
                TaskOutcome::Outdated(error.to_string())
            }
            UnfinishedWork::Refused { .. } => TaskOutcome::Refused {
                reason: error.to_string(),
                limit,
            },
            UnfinishedWork::CannotPush { .. } => TaskOutcome::Stuck(format!(
                "{error}; when the remote takes it again, `creel task done --queue {name}` pushes it"
            )),
            UnfinishedWork::Conflict { .. }
            | UnfinishedWork::NotJoined { .. }
            | UnfinishedWork::LeftBranch { .. }
            | UnfinishedWork::CannotCommit { .. }
            | UnfinishedWork::Git(_) => TaskOutcome::Stuck(error.to_string()),
        })?;
        if self.site.submits {
            child_session::submit(folder, self.options.config.as_deref())
                .await
                .map_err(TaskOutcome::Stuck)?;
        }
        if !can_go {
            return Ok(branch);
        }
        let session = folder.name.clone();
        // It is committed. A folder that cannot be removed now goes with the next `creel worktree
        // prune`.
        let removed = in_background(move || {
            here.remove_of(&kept, &session)
                .map_err(|error| error.to_string())
        });
        match removed.await {
            Ok(RemovalOutcome::Kept(unsaved)) => (self.options.say)(&format!(
                "creel: the worktree {path} stays: it has {}",
                unsaved.in_words()
            )),
            Ok(RemovalOutcome::Removed(_)) => {}
            Err(why) => tracing::warn!("a worktree stays: {why}"),
        }
        Ok(branch)
    }
}

/// Removes the worktrees of completed tasks that a killed worker left behind, and the branches of
/// their earlier runs. Nothing goes that is not committed, and no branch whose work the task's own
/// branch does not have.
pub(super) fn clear_worktrees(
    repository: &ProjectRepository,
    sessions: &SessionsDir,
    all: &[QueuedTask],
) -> Result<(), WorktreeError> {
    let is_done = |task: &&QueuedTask| matches!(task.state, QueuedTaskState::Completed { .. });
    let in_use: BTreeSet<&str> = all
        .iter()
        .filter_map(|task| task.branch.as_deref())
        .collect();
    let tasks: Vec<&QueuedTask> = all.iter().filter(is_done).collect();
    let done: BTreeSet<String> = tasks.iter().flat_map(|task| task.all_marks()).collect();
    let named: BTreeSet<String> = tasks.iter().flat_map(|task| task.all_sessions()).collect();
    let alone = repository.lock()?;
    repository.clear_after_kills()?;
    drop(alone);
    for owned in repository.worktrees()? {
        let Some(folder) = owned
            .session
            .as_ref()
            .map(|session| sessions.folder(session))
        else {
            continue;
        };
        let can_go = if let Ok(SessionState { began, .. }) = journal::fold(&folder.journal()) {
            let plan = began.plan.worktree.clone().unwrap_or_default();
            let is_done = began.order.is_some_and(|mark| done.contains(&mark));
            is_done && plan.keep.lets_go(true)
        } else {
            // creel was killed before the session had a record.
            let never_began = !folder.exists() && named.contains(&folder.name);
            if never_began {
                repository.forget_merged(&owned)?;
            }
            never_began
        };
        if can_go {
            repository.remove(&owned, BranchRemoval::Keep)?;
        }
    }
    let unmerged = tasks.iter().filter(|task| task.merged.is_none());
    for (branch, task) in unmerged.filter_map(|task| Some((task.branch.as_deref()?, task))) {
        repository.forget_branches(&earlier_branches(sessions, task), branch)?;
        let mut never_began = task.all_sessions();
        never_began.retain(|session| !sessions.folder(session).exists());
        let mut made = repository.branches_made_for(&never_began)?;
        made.retain(|branch| !in_use.contains(branch.as_str()));
        repository.forget_unused(&made)?;
    }
    Ok(())
}

/// The branches that creel made for the sessions here that worked on the task in earlier runs, the
/// last one first.
fn earlier_branches(sessions: &SessionsDir, task: &QueuedTask) -> Vec<String> {
    let runs = (1..task.run).rev().map(|run| {
        PriorSession::of(
            sessions,
            &QueuedTask {
                run,
                ..task.clone()
            },
        )
    });
    runs.filter_map(|session| branch_of(session.folder()?))
        .collect()
}

/// The branch that creel made for the session in this folder. The agent may have left it.
pub(super) fn branch_of(folder: &SessionDir) -> Option<String> {
    Some(
        journal::fold(&folder.journal())
            .ok()?
            .began
            .worktree?
            .branch,
    )
}

/// Says that work of the last run is on another branch than the one that the task continues.
fn say_if_left(repository: &ProjectRepository, branch: &str, say: fn(&str)) {
    let made = |path: &Path| checked_out(path).flatten().filter(|now| now != branch);
    let worktrees = repository.worktrees().unwrap_or_default();
    let of_branch =
        |worktree: &&OwnedWorktree| branch.rsplit('/').next() == Some(worktree.name.as_str());
    if let Some((other, worktree)) = worktrees
        .iter()
        .find(of_branch)
        .and_then(|one| Some((made(&one.path)?, one)))
    {
        say(&format!(
            "creel: the task continues on `{branch}`; what its last session did on `{other}`, in {}, is not part of that",
            worktree.path.display()
        ));
    }
}

/// Runs something that blocks, such as git.
async fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|_| Err("git did not answer".to_owned()))
}

pub(super) fn completed_at(task: &QueuedTask) -> String {
    if let QueuedTaskState::Completed { completed_at, .. } = &task.state {
        completed_at.clone()
    } else {
        String::new()
    }
}

/// The commit message for what the agent did not commit.
fn message(task: &QueuedTask) -> String {
    let goal = task.order.goal.trim();
    let first = goal.lines().next().unwrap_or_default();
    let subject = plain_line(first, SUBJECT);
    if subject == goal {
        subject
    } else {
        format!("{subject}\n\n{goal}")
    }
}
