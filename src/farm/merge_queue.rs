//! The merge queue: merges the finished tasks of the queue, one after another.
//!
//! Each is merged with what is on the base branch by then, tested as it would be there, and only
//! then the base branch moves. What does not fit or does not pass goes back to the queue, with the
//! reason.
//!
//! # Invariants
//! - No task is sent back unless the base branch as it is by then passes the same checks without it.
//!
//! By default it merges: other tasks have started from these commits, and copies of them can conflict
//! with the originals.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{File, OpenOptions},
    path::Path,
};

use crate::{
    config::{PlanRequest, Settings},
    engine::{
        policy::{MergeStyle, SessionPlan},
        queue::{QueuedTask, QueuedTaskState, TaskLanding, retention::merged_branches},
    },
    farm::{
        FarmError,
        merge_checks::{CheckResult, CheckedStage, CheckedWork},
        task_branch::clear_worktrees,
    },
    journal::{SessionsDir, session_dir::create_ignored},
    present::{tables::queued_name, text::plain_line},
    process::run::ProcessObserver,
    queue::backend::QueueTaskKey,
    worktrees::{
        self, ProjectRepository,
        base_commit::BaseCommit,
        inventory::some_files,
        merge_stage::{BaseMoveOutcome, StagedMerge, TaskMerge},
    },
};

/// How often to merge again because the base branch has moved meanwhile.
const TRIES: usize = 5;
/// The longest goal in a commit's message or a line, in characters.
pub(crate) const GOAL: usize = 60;

/// What happened to a task.
pub(crate) enum MergeResult {
    Merged(String),
    /// The base branch already has it.
    Present(String),
    SentBack(String),
    /// Nothing changed, and why.
    Held(String),
    /// The base branch itself does not pass, so nothing can be merged.
    RedBase(String),
    /// The user stopped it.
    Stopped,
}

/// Makes sure that no other creel merges here.
pub(crate) fn lock(root: &Path) -> Result<File, FarmError> {
    let folder = root.join(worktrees::FOLDER);
    let path = folder.join("merge-queue.lock");
    let opened = create_ignored(&folder).and_then(|()| {
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
    });
    let file = opened
        .map_err(|error| FarmError::Failed(format!("cannot open {}: {error}", path.display())))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(_) => Err(FarmError::Failed(
            "another creel merges the queue of this project; wait until it is done".to_owned(),
        )),
    }
}

/// The tasks to merge: each after those that it waited for, otherwise in the order in which they
/// were completed.
pub(crate) fn in_order(all: Vec<QueuedTask>) -> Vec<QueuedTask> {
    let completed = |task: &QueuedTask| match &task.state {
        QueuedTaskState::Completed { completed_at, .. }
            if task.merged.is_none() && task.branch.is_some() =>
        {
            Some(completed_at.clone())
        }
        QueuedTaskState::Completed { .. }
        | QueuedTaskState::Created
        | QueuedTaskState::Ready
        | QueuedTaskState::Active { .. }
        | QueuedTaskState::Blocked { .. }
        | QueuedTaskState::Removed => None,
    };
    let mut left: Vec<(String, QueuedTask)> = all
        .into_iter()
        .filter_map(|task| Some((completed(&task)?, task)))
        .collect();
    left.sort_by(|(one, _), (other, _)| one.cmp(other));
    let mut order: Vec<QueuedTask> = Vec::new();
    while !left.is_empty() {
        let keys: BTreeSet<QueueTaskKey> = left
            .iter()
            .map(|(_, task)| QueueTaskKey::of(&task.order))
            .collect();
        let is_free = |task: &QueuedTask| {
            let key = QueueTaskKey::of(&task.order);
            !task
                .order
                .dependencies
                .iter()
                .any(|on| keys.contains(&key.sibling(on)))
        };
        // Dependencies have no cycles; if they had, the first one would do.
        let next = left.iter().position(|(_, task)| is_free(task)).unwrap_or(0);
        order.push(left.remove(next).1);
    }
    order
}

pub(crate) struct QueueMerger<'a> {
    /// The project's folder.
    pub(crate) root: &'a Path,
    pub(crate) settings: &'a Settings,
    pub(crate) repository: &'a ProjectRepository,
    /// Prints a message for the user.
    pub(crate) say: fn(&str),
    /// The worktree in which tasks are merged.
    pub(crate) stage: CheckedStage<'a>,
    pub(crate) has_named_base: bool,
    /// The last commits of branches whose work the base branch has as other commits.
    pub(crate) landed: BTreeMap<QueueTaskKey, String>,
}

/// Stores what a branch becomes, before the base branch moves: a merge that is killed then does not
/// merge it twice.
pub(crate) type NoteLanding<'a> = &'a dyn Fn(&TaskLanding) -> Result<(), FarmError>;

impl<'a> QueueMerger<'a> {
    /// Removes what merged tasks no longer need: their worktrees, and their branches here and at the
    /// remote.
    pub(crate) fn clear_merged(&self, all: &[QueuedTask]) {
        if let Err(why) = self.try_clear(all) {
            (self.say)(&format!("creel: branches of merged tasks stay: {why}"));
        }
    }

    fn try_clear(&self, all: &[QueuedTask]) -> Result<(), FarmError> {
        let mut merged = merged_branches(all.iter());
        if merged.is_empty() {
            return Ok(());
        }
        clear_worktrees(self.repository, &SessionsDir::of(self.root), all)?;
        let base = self.base(&self.settings.base_plan)?;
        self.repository.keep_those_of_the_user(&mut merged)?;
        let remote = base.remote.as_deref();
        let there = remote.map_or(Ok(0), |remote| {
            self.repository.forget_at_remote(&merged, remote, &base)
        });
        let here = self.repository.forget_merged_branches(&merged, &base)?;
        let there = there?;
        if here + there > 0 {
            let at_remote =
                remote.map_or_else(String::new, |remote| format!(", {there} at `{remote}`"));
            (self.say)(&format!(
                "creel: deleted the branches of merged tasks: {here} here{at_remote}"
            ));
        }
        Ok(())
    }

    /// Merges a task if its checks pass. They print to `output`.
    pub(crate) fn merge(
        &mut self,
        task: &QueuedTask,
        note: NoteLanding<'_>,
        output: &mut dyn ProcessObserver,
    ) -> Result<MergeResult, FarmError> {
        let wanted = PlanRequest {
            task_type: self.kind(task),
            ..PlanRequest::default()
        };
        let plan = self.settings.plan(wanted)?;
        let remote = self.repository.remote(plan.submit.remote.as_deref())?;
        let branch = task.branch.as_deref().unwrap_or_default();
        for _ in 0..TRIES {
            let base = self.base(&plan)?;
            if !std::mem::replace(&mut self.has_named_base, true) {
                (self.say)(&format!("creel: merging into `{}`", base.name));
            }
            if let Some(why) = self.forge(&base)? {
                return Ok(MergeResult::Held(why));
            }
            let Some(commit) = self.repository.newest(branch, remote.as_deref())? else {
                return Ok(MergeResult::Held(format!(
                    "its branch `{branch}` is neither here nor at the remote"
                )));
            };
            if self.repository.contains(&base.commit, &commit)? {
                return Ok(MergeResult::Present(base.commit));
            }
            if let Some(landing) = task
                .landing
                .as_ref()
                .filter(|landing| landing.tip == commit)
                && self.repository.contains(&base.commit, &landing.commit)?
            {
                self.landed.insert(QueueTaskKey::of(&task.order), commit);
                return Ok(MergeResult::Merged(landing.commit.clone()));
            }
            let on_base = CheckedWork {
                plan: &plan,
                base: &base,
                commit: &base.commit,
                task,
                is_base: true,
            };
            match self.stage.check(on_base, output)? {
                CheckResult::Passed => {}
                CheckResult::Failed(reason) => {
                    let short: String = base.commit.chars().take(10).collect();
                    return Ok(MergeResult::RedBase(format!(
                        "`{}` ({short}): {reason}",
                        base.name
                    )));
                }
                CheckResult::Stopped => return Ok(MergeResult::Stopped),
            }
            let staged = self.staged(&plan, &base, task, &commit)?;
            let landing = |commit: &str, tip: &str| TaskLanding {
                commit: commit.to_owned(),
                tip: tip.to_owned(),
            };
            let (merged, failed) = match staged {
                StagedMerge::Commit(merged) => {
                    let work = CheckedWork {
                        commit: &merged,
                        is_base: false,
                        ..on_base
                    };
                    match self.stage.check(work, output)? {
                        CheckResult::Passed => (merged, None),
                        CheckResult::Failed(reason) => (
                            merged,
                            Some(format!("merged with `{}`, {reason}", base.name)),
                        ),
                        CheckResult::Stopped => return Ok(MergeResult::Stopped),
                    }
                }
                StagedMerge::Conflict(files) => {
                    let files = some_files(&files);
                    let reason = format!("it conflicts with `{}` in {files}", base.name);
                    (String::new(), Some(reason))
                }
                StagedMerge::Nothing => {
                    note(&landing(&base.commit, &commit))?;
                    self.landed.insert(QueueTaskKey::of(&task.order), commit);
                    return Ok(MergeResult::Present(base.commit));
                }
            };
            if let Some(reason) = failed {
                // Another merge queue may have merged the task by now.
                if self.base(&plan)?.commit == base.commit {
                    return Ok(MergeResult::SentBack(reason));
                }
                continue;
            }
            if plan.submit.queue.style != MergeStyle::Merge {
                note(&landing(&merged, &commit))?;
            }
            match self.stage.open(&plan, &base)?.publish(&base, &merged)? {
                BaseMoveOutcome::Done => {
                    if plan.submit.queue.style != MergeStyle::Merge {
                        self.landed.insert(QueueTaskKey::of(&task.order), commit);
                    }
                    return Ok(MergeResult::Merged(merged));
                }
                BaseMoveOutcome::Moved => {}
                BaseMoveOutcome::Refused(why) => return Ok(MergeResult::Held(why)),
            }
        }
        Ok(MergeResult::Held(format!(
            "the base branch moved {TRIES} times meanwhile; try again"
        )))
    }

    /// Merges the branch of a task, without moving the base branch.
    fn staged(
        &mut self,
        plan: &SessionPlan,
        base: &BaseCommit,
        task: &QueuedTask,
        commit: &str,
    ) -> Result<StagedMerge, FarmError> {
        let key = QueueTaskKey::of(&task.order);
        let dependencies = task.order.dependencies.iter();
        let landed: Vec<String> = dependencies
            .filter_map(|on| self.landed.get(&key.sibling(on)).cloned())
            .collect();
        let goal = plain_line(&task.order.goal, GOAL);
        let subject = match plan.submit.queue.style {
            MergeStyle::Merge => format!("Merge task {}: {goal}", task.order.id),
            MergeStyle::Squash | MergeStyle::Rebase => goal,
        };
        let merge = TaskMerge {
            base,
            commit,
            style: plan.submit.queue.style,
            subject: &subject,
            trailers: &trailers(task),
            landed: &landed,
        };
        Ok(self.stage.open(plan, base)?.merge(&merge)?)
    }

    /// The type of a task, if the config describes it.
    fn kind<'b>(&self, task: &'b QueuedTask) -> Option<&'b str> {
        task.order
            .kind
            .as_deref()
            .filter(|kind| self.settings.task_types.contains_key(*kind))
    }

    fn base(&self, plan: &SessionPlan) -> Result<BaseCommit, FarmError> {
        let remote = plan.submit.remote.as_deref();
        let base = BaseCommit::find(self.repository, wanted_base(plan), remote)?;
        match &base.note {
            Some(note) => Err(FarmError::Failed(format!(
                "{note}\n  a merge needs the remote; try again when it answers"
            ))),
            None => Ok(base),
        }
    }

    /// Why a merge is up to a forge.
    fn forge(&self, base: &BaseCommit) -> Result<Option<String>, FarmError> {
        let Some(remote) = &base.remote else {
            return Ok(None);
        };
        let url = self.repository.ask(&["remote", "get-url", remote])?;
        let forge = crate::hooks::builtin::forge_of(url.line());
        Ok(forge.map(|forge| {
            format!("`{remote}` is on a forge ({forge}), where creel merges only pull requests: use `creel submit` and `creel merge`")
        }))
    }
}

/// The branch that work is merged into, if the config names it.
pub(crate) fn wanted_base(plan: &SessionPlan) -> Option<&str> {
    let of_worktree = || plan.worktree.as_ref()?.base.as_deref();
    plan.submit.base_branch.as_deref().or_else(of_worktree)
}

/// The last lines of a commit's message, which name the task and its session.
fn trailers(task: &QueuedTask) -> Vec<String> {
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || "-_./".contains(*c);
    let plain = |name: &str| name.chars().filter(is_plain).collect::<String>();
    let id = format!("Creel-Task: {}", plain(&queued_name(&task.order)));
    let by = task.state.by();
    let session = by.map(|by| format!("Creel-Session: {}", plain(&by.session)));
    std::iter::once(id).chain(session).collect()
}
