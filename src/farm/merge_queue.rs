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
    io,
    path::Path,
};

use tokio_util::sync::CancellationToken;

use crate::{
    config::{PlanRequest, Settings},
    engine::{
        effect::{HookFacts, HookJob, SubmissionFacts},
        hooks::point::HookPoint,
        hooks::verdict::{RunEnd, RunResult},
        ids::RunId,
        policy::{HookAction, HookSpec, MergeStyle, SessionPlan, WorktreePlan},
        queue::{QueuedTask, QueuedTaskState, TaskLanding, retention::merged_branches},
    },
    farm::{FarmError, task_branch::clear_worktrees},
    hooks::{HookWorkspace, run_hook},
    journal::{SessionsDir, session_dir::create_ignored},
    present::{tables::queued_name, text::plain_line},
    process::{run::ProcessObserver, signals::ShutdownSignals},
    queue::backend::QueueTaskKey,
    worktrees::{
        self, ProjectRepository,
        base_commit::BaseCommit,
        inventory::some_files,
        merge_stage::{BaseMoveOutcome, MergeStage, StagedMerge, TaskMerge},
        new_worktree,
    },
};

/// How often to merge again because the base branch has moved meanwhile.
const TRIES: usize = 5;
/// How much of a failed check's output the agent gets, in bytes.
const OUTPUT: usize = 3 << 10;
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
    /// Runs the checks.
    pub(crate) tokio: &'a tokio::runtime::Handle,
    /// Prints a message for the user.
    pub(crate) say: fn(&str),
    /// The worktree in which tasks are merged, once it is needed.
    pub(crate) stage: Option<MergeStage<'a>>,
    pub(crate) has_named_base: bool,
    /// The commits that were checked in this run, each with the reason if it did not pass.
    pub(crate) checked: Vec<(CheckedCommit, Option<String>)>,
    /// The last commits of branches whose work the base branch has as other commits.
    pub(crate) landed: BTreeMap<QueueTaskKey, String>,
}

/// What a check depends on.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CheckedCommit {
    commit: String,
    checks: Vec<HookSpec>,
    /// The type of the task, which a check can ask for.
    kind: Option<String>,
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
            self.stage(&plan, &base)?.check_out(&base.commit)?;
            match self.check(&plan, &base.commit, (task, true), output)? {
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
                    match self.check(&plan, &merged, (task, false), output)? {
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
            match self.stage(&plan, &base)?.publish(&base, &merged)? {
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
        Ok(self.stage(plan, base)?.merge(&merge)?)
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

    fn stage(
        &mut self,
        plan: &SessionPlan,
        base: &BaseCommit,
    ) -> Result<&MergeStage<'a>, FarmError> {
        if self.stage.is_none() {
            let wanted: WorktreePlan = plan.worktree.clone().unwrap_or_default();
            let stage = MergeStage::open(self.repository, &wanted, base, &self.say)?;
            for command in &wanted.setup {
                new_worktree::set_up(command, &stage.cwd, "merge-queue", self.root, self.say)?;
            }
            self.stage = Some(stage);
        }
        Ok(self.stage.as_ref().expect("it is set above"))
    }

    /// Runs the checks on a commit, which is checked out: the base, or a task merged with it.
    fn check(
        &mut self,
        plan: &SessionPlan,
        commit: &str,
        (task, is_base): (&QueuedTask, bool),
        output: &mut dyn ProcessObserver,
    ) -> Result<CheckResult, FarmError> {
        let run = CheckedCommit {
            commit: commit.to_owned(),
            checks: checks(plan),
            kind: task.order.kind.clone(),
        };
        if let Some((_, why)) = self.checked.iter().find(|(known, _)| *known == run) {
            let failed = |why: &String| CheckResult::Failed(why.clone());
            return Ok(why.as_ref().map_or(CheckResult::Passed, failed));
        }
        let stage = self
            .stage
            .as_ref()
            .expect("the commit is checked out there");
        let cwd = stage.cwd.clone();
        let whose = if is_base {
            "the base".to_owned()
        } else {
            format!("task {}", task.order.id)
        };
        for (number, hook) in (1..).zip(run.checks.iter().cloned()) {
            (self.say)(&format!("creel: {whose}: {}", hook.name));
            let name = hook.name.clone();
            let job = job(RunId(number), hook, plan, (task, is_base));
            let session_dir = self.root.join(worktrees::FOLDER).join("merge-queue.checks");
            let place = HookWorkspace {
                cwd: cwd.clone(),
                journal: session_dir.join("journal.jsonl"),
                session_dir,
                session_id: "merge-queue".to_owned(),
                mark: format!("merge-queue-{}", std::process::id()),
            };
            let ran = self.tokio.block_on(async {
                let cancel = CancellationToken::new();
                let mut signals = ShutdownSignals::listen()?;
                let mut running = std::pin::pin!(run_hook(&job, &place, &mut *output, &cancel));
                tokio::select! {
                    ran = &mut running => Ok(Some(ran)),
                    _ = signals.next() => {
                        // The check has a process group of its own.
                        cancel.cancel();
                        running.await;
                        Ok::<_, io::Error>(None)
                    }
                }
            });
            let ran = ran.map_err(|error| {
                FarmError::Failed(format!("cannot listen for signals: {error}"))
            })?;
            let Some(ran) = ran else {
                return Ok(CheckResult::Stopped);
            };
            if let Some(reason) = failure(&name, &ran) {
                self.checked.push((run, Some(reason.clone())));
                return Ok(CheckResult::Failed(reason));
            }
        }
        self.checked.push((run, None));
        Ok(CheckResult::Passed)
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

/// The result of the checks.
enum CheckResult {
    Passed,
    Failed(String),
    /// A signal ended them.
    Stopped,
}

/// The hooks that check a merge: those of `before_merge` that only look, or else the tests if the
/// config names them.
fn checks(plan: &SessionPlan) -> Vec<HookSpec> {
    let configured = plan
        .hooks
        .get(&HookPoint::BeforeMerge)
        .into_iter()
        .flatten();
    let checks: Vec<HookSpec> = configured
        .filter(|hook| hook.enabled && only_looks(hook))
        .cloned()
        .collect();
    if checks.is_empty() && plan.submit.test_command.is_some() {
        return vec![HookSpec::builtin("run_tests")];
    }
    checks
}

/// Rebasing, merging and reviews are for a session: they move its branch, or need its agents.
fn only_looks(hook: &HookSpec) -> bool {
    match &hook.action {
        HookAction::Command(_) | HookAction::Exec(_) => true,
        HookAction::Builtin(call) => call.name == "run_tests",
        HookAction::Gatekeeper(_) => false,
    }
}

fn job(
    run: RunId,
    hook: HookSpec,
    plan: &SessionPlan,
    (task, is_base): (&QueuedTask, bool),
) -> HookJob {
    let of_the_task = Some(task).filter(|_| !is_base);
    let submission = SubmissionFacts {
        task_type: task.order.kind.clone(),
        title: of_the_task.map_or_else(String::new, |task| task.order.goal.clone()),
        base_branch: plan.submit.base_branch.clone(),
        test_command: plan.submit.test_command.clone(),
        remote: plan.submit.remote.clone(),
        ..SubmissionFacts::default()
    };
    let by = of_the_task.and_then(|task| task.state.by());
    let session = by.map_or_else(|| "merge-queue".to_owned(), |by| by.session.clone());
    let facts = HookFacts {
        session,
        submission: Some(Box::new(submission)),
        ..HookFacts::default()
    };
    HookJob {
        run,
        point: HookPoint::BeforeMerge,
        hook,
        output_limit: plan.output_limit,
        facts,
    }
}

/// Why a check did not pass.
fn failure(name: &str, ran: &RunResult) -> Option<String> {
    let why = match &ran.end {
        RunEnd::Exit(0) => return None,
        RunEnd::Exit(code) => format!("exit {code}"),
        RunEnd::TimedOut => "it took too long".to_owned(),
        RunEnd::Signal(signal) => format!("signal {signal} ended it"),
        RunEnd::SpawnFailed(reason) => reason.clone(),
        RunEnd::Cut => "it was stopped".to_owned(),
    };
    let printed = format!("{}{}", ran.stdout, ran.stderr);
    let from = printed.len().saturating_sub(OUTPUT);
    let printed = &printed[printed.ceil_char_boundary(from)..];
    Some(match printed.trim() {
        "" => format!("`{name}` does not pass ({why}, no output)"),
        printed => format!("`{name}` does not pass ({why}):\n{printed}"),
    })
}
