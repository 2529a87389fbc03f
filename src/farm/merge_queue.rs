//! The merge queue: merges the finished tasks of the queue, in batches.
//!
//! A batch is merged with what is on the base branch by then, task by task, tested as it would be there, and
//! only then the base branch moves. If it does not pass, a bisection finds the first task that breaks. What
//! does not fit or does not pass goes back to the queue, with the reason.
//!
//! # Invariants
//! - No task is sent back unless what it was merged with passes the same checks without it.
//! - Each commit that the base branch gets by its first parents has passed the checks: a batch is one such
//!   commit, with the merges of its tasks behind it.
//!
//! By default it merges: other tasks have started from these commits, and copies of them can conflict
//! with the originals.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use crate::{
    config::{PlanRequest, Settings},
    engine::{
        policy::{EvidencePolicy, MergeStyle, SessionPlan},
        queue::{QueuedTask, QueuedTaskState, TaskLanding, retention::merged_branches},
    },
    farm::{
        FarmError,
        merge_checks::{CheckProfile, CheckResult, CheckedStage, CheckedWork, named},
        task_branch::{clear_worktrees, completed_at},
    },
    journal::{SessionsDir, chain},
    present::{tables::queued_name, text::plain_line},
    process::run::ProcessObserver,
    queue::backend::QueueTaskKey,
    worktrees::{
        ProjectRepository,
        base_commit::BaseCommit,
        inventory::some_files,
        merge_stage::{BaseMoveOutcome, StagedMerge, TaskMerge},
    },
};

/// How often to merge again because the base branch has moved.
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
    /// The same, but another try may succeed at once.
    Later(String),
    /// The base branch itself does not pass, so nothing can be merged.
    RedBase(String),
    /// The user stopped it.
    Stopped,
}

/// Whether the task is finished, but its work not merged yet.
pub(crate) fn is_due(task: &QueuedTask) -> bool {
    let is_done = matches!(task.state, QueuedTaskState::Completed { .. });
    is_done && task.merged.is_none() && task.branch.is_some()
}

/// The tasks to merge: each after those that it waited for, otherwise in the order in which they
/// were completed.
pub(crate) fn in_order(all: Vec<QueuedTask>) -> Vec<QueuedTask> {
    let mut left: Vec<(String, QueuedTask)> = all
        .into_iter()
        .filter(is_due)
        .map(|task| (completed_at(&task), task))
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
    /// The branch that was checked out when this began: without a remote, it is the base by default.
    pub(crate) home: Option<String>,
    /// The last commits of branches whose work the base branch has as other commits.
    pub(crate) landed: BTreeMap<QueueTaskKey, String>,
}

/// Tasks, each with what happened to it.
type SettledTasks = Vec<(QueueTaskKey, MergeResult)>;
/// Stores what a branch becomes, before the base branch moves: a merge that is killed then does not
/// merge it twice. False if the task is not to be merged any more; without a landing, it only says that.
pub(crate) type NoteLanding<'a> =
    &'a dyn Fn(&QueuedTask, Option<&TaskLanding>) -> Result<bool, FarmError>;

/// Where tasks are merged.
#[derive(Clone, Copy)]
struct MergeTarget<'a> {
    plan: &'a SessionPlan,
    base: &'a BaseCommit,
    /// The type of the tasks.
    kind: Option<&'a str>,
}

impl<'a> MergeTarget<'a> {
    const fn work(self, commit: &'a str, tasks: &'a [&'a QueuedTask]) -> CheckedWork<'a> {
        CheckedWork {
            plan: self.plan,
            base: self.base,
            commit,
            tasks,
            kind: self.kind,
        }
    }
}

/// A task with work that the base does not have.
struct DueTask<'a> {
    task: &'a QueuedTask,
    /// The last commit of its branch.
    tip: String,
}

impl DueTask<'_> {
    fn key(&self) -> QueueTaskKey {
        QueueTaskKey::of(&self.task.order)
    }

    fn landing(&self, commit: &str) -> TaskLanding {
        TaskLanding {
            commit: commit.to_owned(),
            tip: self.tip.clone(),
        }
    }
}

/// The result of testing a batch.
enum BatchResult {
    /// So many pass, and the task after them does not, with the reason.
    Known(usize, Option<(usize, String)>),
    /// The base does not pass either.
    RedBase(String),
    Stopped,
}

fn of<'a>(due: &[DueTask<'a>]) -> Vec<&'a QueuedTask> {
    due.iter().map(|due| due.task).collect()
}

fn red_base(base: &BaseCommit, why: &str) -> MergeResult {
    let short: String = base.commit.chars().take(10).collect();
    MergeResult::RedBase(format!("`{}` ({short}): {why}", base.name))
}

/// The same result for each of these tasks.
fn all(tasks: &[&QueuedTask], result: impl Fn() -> MergeResult) -> SettledTasks {
    let keys = tasks.iter().map(|task| QueueTaskKey::of(&task.order));
    keys.map(|key| (key, result())).collect()
}

impl QueueMerger<'_> {
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

    /// Merges these tasks together if their checks pass. They print to `output`. Returns what happened to the
    /// first of them, and to those that were settled with it.
    pub(crate) fn merge(
        &mut self,
        tasks: &[&QueuedTask],
        note: NoteLanding<'_>,
        output: &mut dyn ProcessObserver,
    ) -> Result<SettledTasks, FarmError> {
        let Some(first) = tasks.first() else {
            return Ok(Vec::new());
        };
        let plan = self.plan(first)?;
        for _ in 0..TRIES {
            let base = self.base(&plan)?;
            if !std::mem::replace(&mut self.has_named_base, true) {
                (self.say)(&format!("creel: merging into `{}`", base.name));
            }
            if let Some(why) = self.forge(&base)? {
                return Ok(all(tasks, || MergeResult::Held(why.clone())));
            }
            let (mut settled, due) = self.unmerged(&plan, &base, tasks)?;
            if due.is_empty() {
                return Ok(settled);
            }
            let target = MergeTarget {
                plan: &plan,
                base: &base,
                kind: first.order.kind.as_deref(),
            };
            match self.stage.check(target.work(&base.commit, &[]), output)? {
                CheckResult::Passed => {}
                CheckResult::Failed(why) => {
                    settled.extend(all(&of(&due), || red_base(&base, &why)));
                    return Ok(settled);
                }
                CheckResult::Stopped => return Ok(all(tasks, || MergeResult::Stopped)),
            }
            if let Some(new) = self.merge_onto(target, &due, note, output)? {
                settled.extend(new);
                return Ok(settled);
            }
        }
        let why = format!("the base branch moved {TRIES} times during the merge; try again");
        Ok(all(tasks, || MergeResult::Later(why.clone())))
    }

    /// The tasks that are to be merged, with the last commits of their branches, and what happened to the others.
    fn unmerged<'t>(
        &mut self,
        plan: &SessionPlan,
        base: &BaseCommit,
        tasks: &[&'t QueuedTask],
    ) -> Result<(SettledTasks, Vec<DueTask<'t>>), FarmError> {
        let (mut settled, mut due) = (Vec::new(), Vec::new());
        let remote = self.repository.remote(plan.submit.remote.as_deref())?;
        for &task in tasks {
            let (key, branch) = (
                QueueTaskKey::of(&task.order),
                task.branch.as_deref().unwrap_or_default(),
            );
            let Some(tip) = self.repository.newest(branch, remote.as_deref())? else {
                let why = format!("its branch `{branch}` is neither here nor at the remote");
                settled.push((key, MergeResult::Held(why)));
                // What builds on it has to wait.
                break;
            };
            if self.repository.contains(&base.commit, &tip)? {
                settled.push((key, MergeResult::Present(base.commit.clone())));
            } else if let Some(landing) = task.landing.as_ref().filter(|landing| landing.tip == tip)
                && self.repository.contains(&base.commit, &landing.commit)?
            {
                self.landed.insert(key.clone(), tip);
                settled.push((key, MergeResult::Merged(landing.commit.clone())));
            } else {
                due.push(DueTask { task, tip });
            }
        }
        Ok((settled, due))
    }

    /// Merges tasks on top of each other onto a base that passes, and moves the base branch over those that
    /// pass. None if it has moved since.
    fn merge_onto(
        &mut self,
        target: MergeTarget<'_>,
        due: &[DueTask<'_>],
        note: NoteLanding<'_>,
        output: &mut dyn ProcessObserver,
    ) -> Result<Option<SettledTasks>, FarmError> {
        let MergeTarget { plan, base, .. } = target;
        let (made, problem) = self.stacked(target, due)?;
        if made.is_empty() {
            return self.settled_alone(target, &due[0], problem, note);
        }
        let (green, red) = match self.tested(target, due, &made, output)? {
            BatchResult::Known(green, red) => (green, red),
            BatchResult::RedBase(why) => {
                return Ok(Some(all(&of(due), || red_base(base, &why))));
            }
            BatchResult::Stopped => return Ok(Some(all(&of(due), || MergeResult::Stopped))),
        };
        let mut settled = Vec::new();
        if green > 0 {
            let (merged, commits) = (&due[..green], &made[..green]);
            // The user may have removed or started one of them again while it was tested.
            let mut changed = Vec::new();
            for due in merged {
                if !note(due.task, None)? {
                    changed.push(due.task);
                }
            }
            if !changed.is_empty() {
                let why = "it was changed while it was tested";
                return Ok(Some(all(&changed, || MergeResult::Later(why.to_owned()))));
            }
            match self.published(target, merged, commits, note)? {
                BaseMoveOutcome::Done => {
                    let done = merged.iter().zip(commits);
                    settled.extend(
                        done.map(|(due, commit)| (due.key(), MergeResult::Merged(commit.clone()))),
                    );
                }
                BaseMoveOutcome::Moved => return Ok(None),
                // One of them may be why.
                BaseMoveOutcome::Refused(_) if green > 1 => {
                    return self.merge_onto(target, &due[..green / 2], note, output);
                }
                BaseMoveOutcome::Refused(why) | BaseMoveOutcome::Closed(why) => {
                    return Ok(Some(all(&of(merged), || MergeResult::Held(why.clone()))));
                }
            }
        } else if self.base(plan)?.commit != base.commit {
            // Another merge queue may have merged the task by now.
            return Ok(None);
        }
        if let Some((first, why)) = red {
            let why = format!("merged with `{}`, {why}", base.name);
            settled.push((due[first - 1].key(), MergeResult::SentBack(why)));
        }
        Ok(Some(settled))
    }

    /// Tests the merges of a batch. If it does not pass, a bisection finds the first that breaks.
    fn tested(
        &mut self,
        target: MergeTarget<'_>,
        due: &[DueTask<'_>],
        made: &[String],
        output: &mut dyn ProcessObserver,
    ) -> Result<BatchResult, FarmError> {
        let mut check = |count: usize| {
            let tasks = of(&due[..count]);
            let commit = if count == 0 {
                &target.base.commit
            } else {
                &made[count - 1]
            };
            self.stage.check(target.work(commit, &tasks), output)
        };
        let mut red = match check(made.len())? {
            CheckResult::Passed => return Ok(BatchResult::Known(made.len(), None)),
            CheckResult::Failed(why) => (made.len(), why),
            CheckResult::Stopped => return Ok(BatchResult::Stopped),
        };
        let mut green = 0_usize;
        loop {
            // In the end this is the one before, once more: in a new worktree, it may not pass either.
            let next = green.midpoint(red.0);
            match check(next)? {
                CheckResult::Passed if next == green => {
                    return Ok(BatchResult::Known(green, Some(red)));
                }
                CheckResult::Passed => green = next,
                CheckResult::Failed(why) if next == 0 => return Ok(BatchResult::RedBase(why)),
                CheckResult::Failed(why) => {
                    green = if next == green { 0 } else { green };
                    red = (next, why);
                }
                CheckResult::Stopped => return Ok(BatchResult::Stopped),
            }
        }
    }

    /// Makes the merges of tasks on top of each other, up to the first that does not fit, and says why it does
    /// not.
    fn stacked(
        &mut self,
        target: MergeTarget<'_>,
        due: &[DueTask<'_>],
    ) -> Result<(Vec<String>, Option<StagedMerge>), FarmError> {
        let mut made: Vec<String> = Vec::new();
        for due in due {
            let onto = BaseCommit {
                commit: made.last().unwrap_or(&target.base.commit).clone(),
                ..target.base.clone()
            };
            // The task before has its work, which is there once that is merged.
            if self.repository.contains(&onto.commit, &due.tip)? {
                break;
            }
            match self.staged(target.plan, &onto, due.task, &due.tip)? {
                StagedMerge::Commit(commit) => made.push(commit),
                problem @ (StagedMerge::Conflict(_)
                | StagedMerge::Nothing
                | StagedMerge::Refused(_)) => {
                    return Ok((made, Some(problem)));
                }
            }
        }
        Ok((made, None))
    }

    /// What happens to a task that cannot be merged with the base as it is. None if that has moved since.
    fn settled_alone(
        &mut self,
        target: MergeTarget<'_>,
        due: &DueTask<'_>,
        problem: Option<StagedMerge>,
        note: NoteLanding<'_>,
    ) -> Result<Option<SettledTasks>, FarmError> {
        let MergeTarget { plan, base, .. } = target;
        let result = match problem {
            Some(StagedMerge::Conflict(files)) => {
                let files = some_files(&files);
                MergeResult::SentBack(format!("it conflicts with `{}` in {files}", base.name))
            }
            Some(StagedMerge::Refused(why)) => {
                match self.stage.open(plan, base)?.refuses_every_merge(base)? {
                    Some(why) => MergeResult::RedBase(format!(
                        "a commit hook of this repository refuses every merge: {why}"
                    )),
                    None => MergeResult::SentBack(format!(
                        "a commit hook of the repository refuses the merge with `{}`: {why}",
                        base.name
                    )),
                }
            }
            Some(StagedMerge::Nothing | StagedMerge::Commit(_)) | None => {
                note(due.task, Some(&due.landing(&base.commit)))?;
                self.landed.insert(due.key(), due.tip.clone());
                MergeResult::Present(base.commit.clone())
            }
        };
        let is_judged = matches!(result, MergeResult::SentBack(_));
        // Another merge queue may have merged the task by now.
        if is_judged && self.base(plan)?.commit != base.commit {
            return Ok(None);
        }
        Ok(Some(vec![(due.key(), result)]))
    }

    /// Moves the base branch over these merges, whose last has passed. It gets one commit: each commit that the
    /// base branch has by its first parents has been tested.
    fn published(
        &mut self,
        target: MergeTarget<'_>,
        merged: &[DueTask<'_>],
        commits: &[String],
        note: NoteLanding<'_>,
    ) -> Result<BaseMoveOutcome, FarmError> {
        let MergeTarget { plan, base, .. } = target;
        let tip = commits.last().expect("there is one for each task");
        let has_own_commits = plan.submit.queue.style != MergeStyle::Merge;
        if has_own_commits {
            for (due, commit) in merged.iter().zip(commits) {
                note(due.task, Some(&due.landing(commit)))?;
            }
        }
        let trailers = merged.iter().map(|due| self.trailers(plan, due.task));
        let trailers: Vec<String> = trailers.flatten().collect();
        let stage = self.stage.open(plan, base)?;
        let outcome = if merged.len() == 1 {
            stage.publish(base, tip)?
        } else {
            let subject = format!("Merge {}", named(&of(merged)));
            let joined = stage.join(base, tip, &subject, &trailers.join("\n"))?;
            stage.publish(base, &joined)?
        };
        if has_own_commits && outcome == BaseMoveOutcome::Done {
            let tips = merged.iter().map(|due| (due.key(), due.tip.clone()));
            self.landed.extend(tips);
        }
        if plan.evidence == EvidencePolicy::Note && outcome == BaseMoveOutcome::Done {
            self.add_notes(merged, commits)?;
        }
        Ok(outcome)
    }

    /// The tasks that can be merged together with the first one: in order, and with the same checks.
    pub(crate) fn batch<'t>(
        &self,
        due: &'t [QueuedTask],
        size: usize,
        waits_for: impl Fn(&QueuedTask, &str) -> bool,
    ) -> Result<Vec<&'t QueuedTask>, FarmError> {
        let Some((first, rest)) = due.split_first() else {
            return Ok(Vec::new());
        };
        let plan = self.plan(first)?;
        let profile = |plan: &SessionPlan, task: &QueuedTask| {
            let checks = CheckProfile::of(plan, task.order.kind.as_deref());
            let (base, submit) = (wanted_base(plan).map(str::to_owned), &plan.submit);
            (checks, base, submit.remote.clone(), submit.queue.style)
        };
        let wanted = profile(&plan, first);
        // With other styles, each commit of a task is on the base branch by itself, and is tested by itself.
        let size = if plan.submit.queue.style == MergeStyle::Merge {
            size
        } else {
            1
        };
        let mut batch = vec![first];
        for task in rest {
            if batch.len() >= size {
                break;
            }
            let key = QueueTaskKey::of(&task.order);
            let is_in = |on: &str| {
                batch
                    .iter()
                    .any(|one| QueueTaskKey::of(&one.order) == key.sibling(on))
            };
            let waits = task
                .order
                .dependencies
                .iter()
                .any(|on| waits_for(task, on) && !is_in(on));
            let fits = |plan: SessionPlan| profile(&plan, task) == wanted;
            if !waits && self.plan(task).is_ok_and(fits) {
                batch.push(task);
            }
        }
        Ok(batch)
    }

    fn plan(&self, task: &QueuedTask) -> Result<SessionPlan, FarmError> {
        Ok(self.settings.plan(PlanRequest {
            task_type: self.kind(task),
            ..PlanRequest::default()
        })?)
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
        let trailers = self.trailers(plan, task);
        let merge = TaskMerge {
            base,
            commit,
            style: plan.submit.queue.style,
            subject: &subject,
            trailers: &trailers,
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
        let remote = self.repository.remote(plan.submit.remote.as_deref())?;
        let home = self.home.as_deref().filter(|_| remote.is_none());
        let wanted = wanted_base(plan).or(home);
        let base = BaseCommit::find(self.repository, wanted, remote.as_deref())?;
        match &base.note {
            Some(note) => Err(FarmError::Failed(format!(
                "{note}\n  a merge needs the remote; try again when it answers"
            ))),
            None => Ok(base),
        }
    }

    /// The base of tasks without a type.
    pub(crate) fn default_base(&self) -> Result<BaseCommit, FarmError> {
        self.base(&self.settings.base_plan)
    }

    /// The last lines of a commit's message, which name the task and its session.
    fn trailers(&self, plan: &SessionPlan, task: &QueuedTask) -> Vec<String> {
        let is_plain = |c: &char| c.is_ascii_alphanumeric() || "-_./".contains(*c);
        let safe = |name: &str| name.chars().filter(is_plain).collect::<String>();
        let id = format!("Creel-Task: {}", safe(&queued_name(&task.order)));
        let by = task.state.by();
        let session = by.map(|by| format!("Creel-Session: {}", safe(&by.session)));
        let evidence = (plan.evidence == EvidencePolicy::Trailer)
            .then(|| self.evidence(task))
            .flatten();
        std::iter::once(id).chain(session).chain(evidence).collect()
    }

    /// The head of the journal of the task's session, if the session is on this machine.
    fn evidence(&self, task: &QueuedTask) -> Option<String> {
        let session = &task.state.by()?.session;
        chain::evidence(&SessionsDir::of(self.root).folder(session))
    }

    /// Adds notes to the merged commits. The merge is right without them, too.
    fn add_notes(&self, merged: &[DueTask<'_>], commits: &[String]) -> Result<(), FarmError> {
        let notes = format!("--ref={}", chain::EVIDENCE_NOTES);
        for (due, commit) in merged.iter().zip(commits) {
            if let Some(line) = self.evidence(due.task) {
                let args = ["notes", &notes, "append", "-m", &line, commit];
                let added = self.repository.ask(&args)?;
                if !added.is_ok {
                    (self.say)(&format!("creel: no git note: {}", added.complaint()));
                }
            }
        }
        Ok(())
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
