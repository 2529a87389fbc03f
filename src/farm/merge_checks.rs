//! The checks of the merge queue, in the worktree where it makes its merges.
//!
//! # Invariants
//! - A failure counts only in a worktree that was just made: what an earlier check left behind there, such as
//!   ignored files, is blamed on no task and on no base. What has passed before does not count there.

use std::{
    collections::VecDeque,
    path::Path,
    time::{Duration, Instant},
};

use tokio_util::sync::CancellationToken;

use crate::{
    engine::{
        effect::{HookFacts, HookJob, SubmissionFacts},
        hooks::{
            point::HookPoint,
            verdict::{HookReply, RunEnd, RunResult},
        },
        ids::RunId,
        policy::{HookAction, HookFailurePolicy, HookSpec, SessionPlan, WorktreePlan},
        queue::QueuedTask,
    },
    farm::FarmError,
    hooks::{HookWorkspace, run_hook},
    present::tables::queued_name,
    process::run::ProcessObserver,
    runtime::now,
    worktrees::{
        self, ProjectRepository, base_commit::BaseCommit, merge_report::MergeReport,
        merge_stage::MergeStage, new_worktree,
    },
};

/// How much of a failed check's output the agent gets, in bytes.
const OUTPUT: usize = 3 << 10;

/// The result of the checks.
pub(super) enum CheckResult {
    Passed,
    Failed(String),
    /// They were ended.
    Stopped,
}

/// What is checked.
#[derive(Clone, Copy)]
pub(super) struct CheckedWork<'a> {
    pub(super) plan: &'a SessionPlan,
    pub(super) base: &'a BaseCommit,
    pub(super) commit: &'a str,
    /// The tasks that are merged in it. None: it is the base.
    pub(super) tasks: &'a [&'a QueuedTask],
    /// Their type.
    pub(super) kind: Option<&'a str>,
}

/// What a check depends on, apart from the files.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CheckProfile {
    checks: Vec<(HookPoint, HookSpec)>,
    /// The type of the task, which a check can ask for.
    kind: Option<String>,
}

impl CheckProfile {
    pub(super) fn of(plan: &SessionPlan, kind: Option<&str>) -> Self {
        Self {
            checks: checks(plan),
            kind: kind.map(str::to_owned),
        }
    }
}

pub(crate) struct CheckedStage<'a> {
    /// The project's folder.
    root: &'a Path,
    repository: &'a ProjectRepository,
    tokio: &'a tokio::runtime::Handle,
    say: fn(&str),
    /// Made once it is needed.
    stage: Option<MergeStage<'a>>,
    /// Whether a check has run there since it was made.
    is_used: bool,
    /// The trees that passed, the latest last.
    green: VecDeque<(String, CheckProfile)>,
    /// The commits that did not pass as the base.
    red: VecDeque<RedBase>,
    /// Ends the checks.
    pub(super) halt: CancellationToken,
}

/// A commit that did not pass as the base.
struct RedBase {
    commit: String,
    profile: CheckProfile,
    why: String,
    since: Instant,
}

/// How many results are remembered.
const KNOWN: usize = 100;
/// After how long a base that did not pass is tested again, although it has not moved.
const RED_FOR: Duration = Duration::from_mins(10);

impl<'a> CheckedStage<'a> {
    pub(crate) fn new(
        root: &'a Path,
        repository: &'a ProjectRepository,
        tokio: &'a tokio::runtime::Handle,
        say: fn(&str),
    ) -> Self {
        Self {
            root,
            repository,
            tokio,
            say,
            stage: None,
            is_used: false,
            green: VecDeque::new(),
            red: VecDeque::new(),
            halt: CancellationToken::new(),
        }
    }

    /// The worktree, set up as the config says.
    pub(super) fn open(
        &mut self,
        plan: &SessionPlan,
        base: &BaseCommit,
    ) -> Result<&MergeStage<'a>, FarmError> {
        if self.stage.is_none() {
            let wanted: WorktreePlan = plan.worktree.clone().unwrap_or_default();
            let stage = MergeStage::open(self.repository, &wanted, base, &self.say)?;
            self.is_used = !stage.is_new;
            for command in &wanted.setup {
                new_worktree::set_up(command, &stage.cwd, "merge-queue", self.root, self.say)?;
            }
            self.stage = Some(stage);
        }
        Ok(self.stage.as_ref().expect("it is set above"))
    }

    /// Runs the checks on a commit.
    pub(super) fn check(
        &mut self,
        work: CheckedWork<'_>,
        output: &mut dyn ProcessObserver,
    ) -> Result<CheckResult, FarmError> {
        let profile = CheckProfile::of(work.plan, work.kind);
        let tree = format!("{}^{{tree}}", work.commit);
        let tree = self.repository.tell(&["rev-parse", "--verify", &tree])?;
        if self
            .green
            .iter()
            .any(|(known, by)| *known == tree && *by == profile)
        {
            return Ok(CheckResult::Passed);
        }
        let is_base = work.tasks.is_empty();
        self.red.retain(|red| red.since.elapsed() < RED_FOR);
        let mut red = self.red.iter().filter(|_| is_base);
        if let Some(red) = red.find(|red| red.commit == work.commit && red.profile == profile) {
            return Ok(CheckResult::Failed(red.why.clone()));
        }
        self.open(work.plan, work.base)?.check_out(work.commit)?;
        let was_used = self.is_used;
        let mut result = self.run(work, &profile.checks, output);
        MergeReport::remove(self.root);
        if was_used && matches!(result, CheckResult::Failed(_)) {
            (self.say)("creel: checking that once more, in a new worktree");
            if let Some(stage) = self.stage.take() {
                stage.remove()?;
            }
            // It may have passed because of what was left behind in the old one.
            self.green.clear();
            self.open(work.plan, work.base)?.check_out(work.commit)?;
            result = self.run(work, &profile.checks, output);
            MergeReport::remove(self.root);
        }
        match &result {
            CheckResult::Passed => self.green.push_back((tree, profile)),
            CheckResult::Failed(why) if is_base => {
                self.red.push_back(RedBase {
                    commit: work.commit.to_owned(),
                    profile,
                    why: why.clone(),
                    since: Instant::now(),
                });
            }
            CheckResult::Failed(_) | CheckResult::Stopped => {}
        }
        let (green, red) = (self.green.len(), self.red.len());
        self.green.drain(..green.saturating_sub(KNOWN));
        self.red.drain(..red.saturating_sub(KNOWN));
        Ok(result)
    }

    /// Runs the checks on what is checked out, up to the first that does not pass.
    fn run(
        &mut self,
        work: CheckedWork<'_>,
        checks: &[(HookPoint, HookSpec)],
        output: &mut dyn ProcessObserver,
    ) -> CheckResult {
        let stage = self
            .stage
            .as_ref()
            .expect("the commit is checked out there");
        let session_dir = self.root.join(worktrees::FOLDER).join("merge-queue.checks");
        let place = HookWorkspace {
            cwd: stage.cwd.clone(),
            journal: session_dir.join("journal.jsonl"),
            session_dir,
            session_id: "merge-queue".to_owned(),
            mark: format!("merge-queue-{}", std::process::id()),
        };
        let whose = match work.tasks {
            [] => "the base".to_owned(),
            tasks => named(tasks),
        };
        let mut report = MergeReport {
            tasks: work
                .tasks
                .iter()
                .map(|task| queued_name(&task.order))
                .collect(),
            number: 0,
            checks: checks.len(),
            check: String::new(),
            since: now(),
        };
        for (number, (point, hook)) in (1..).zip(checks.iter().cloned()) {
            (self.say)(&format!("creel: {whose}: {}", hook.name));
            self.is_used = true;
            (report.number, report.check) = (report.number + 1, hook.name.clone());
            if let Err(error) = report.write(self.root) {
                tracing::debug!("cannot report what is tested: {error}");
            }
            let name = hook.name.clone();
            let job = job(RunId(number), point, hook, work);
            let running = run_or_stop(&job, &place, &mut *output, &self.halt);
            let Some(ran) = self.tokio.block_on(running) else {
                return CheckResult::Stopped;
            };
            if let Some(reason) = failure(&name, &ran) {
                return CheckResult::Failed(reason);
            }
        }
        CheckResult::Passed
    }
}

/// Runs a check. None if it was ended.
async fn run_or_stop(
    job: &HookJob,
    place: &HookWorkspace,
    output: &mut dyn ProcessObserver,
    halt: &CancellationToken,
) -> Option<RunResult> {
    let cancel = CancellationToken::new();
    let mut running = std::pin::pin!(run_hook(job, place, output, &cancel));
    tokio::select! {
        ran = &mut running => Some(ran),
        () = halt.cancelled() => {
            // The check has its own process group.
            cancel.cancel();
            running.await;
            None
        }
    }
}

/// `task 1`, `tasks 1, 2 and 3`.
pub(super) fn named(tasks: &[&QueuedTask]) -> String {
    let names: Vec<&str> = tasks.iter().map(|task| task.order.id.as_str()).collect();
    match &names[..] {
        [one] => format!("task {one}"),
        [before @ .., last] => format!("tasks {} and {last}", before.join(", ")),
        [] => String::new(),
    }
}

/// What checks a merge: the checks of the sessions, then the hooks of `before_merge` that only look, or else
/// the tests if the config names them. None twice.
fn checks(plan: &SessionPlan) -> Vec<(HookPoint, HookSpec)> {
    let of = |point: HookPoint| {
        let configured = plan.hooks.get(&point).into_iter().flatten();
        configured.filter(|hook| hook.enabled && only_looks(hook))
    };
    // A hook of Claude Code reads the session that it is for.
    let blocks = |hook: &&HookSpec| {
        hook.on_failure == Some(HookFailurePolicy::Block) && hook.claude.is_none()
    };
    let mut found: Vec<(HookPoint, HookSpec)> = of(HookPoint::Stop)
        .filter(blocks)
        .map(|hook| (HookPoint::Stop, hook.clone()))
        .collect();
    let mut before: Vec<HookSpec> = of(HookPoint::BeforeMerge).cloned().collect();
    if before.is_empty() && plan.submit.test_command.is_some() {
        before.push(HookSpec::builtin("run_tests"));
    }
    for hook in before {
        let what = |hook: &HookSpec| what_runs(hook, plan);
        if !found.iter().any(|(_, known)| what(known) == what(&hook)) {
            found.push((HookPoint::BeforeMerge, hook));
        }
    }
    found
}

/// The action of a check: `run_tests` is the command that it runs, if the config names it.
fn what_runs(hook: &HookSpec, plan: &SessionPlan) -> HookAction {
    let command = match &hook.action {
        HookAction::Builtin(call) => call
            .options
            .command
            .as_ref()
            .or(plan.submit.test_command.as_ref()),
        HookAction::Command(_) | HookAction::Exec(_) | HookAction::Gatekeeper(_) => None,
    };
    command.map_or_else(
        || hook.action.clone(),
        |command| HookAction::Command(command.clone()),
    )
}

/// Rebasing, merging and reviews are for a session: they move its branch, or need its agents.
fn only_looks(hook: &HookSpec) -> bool {
    match &hook.action {
        HookAction::Command(_) | HookAction::Exec(_) => true,
        HookAction::Builtin(call) => call.name == "run_tests",
        HookAction::Gatekeeper(_) => false,
    }
}

fn job(run: RunId, point: HookPoint, hook: HookSpec, work: CheckedWork<'_>) -> HookJob {
    let CheckedWork { plan, kind, .. } = work;
    // What several tasks are together has no session and no title.
    let of_the_task = work.tasks.first().filter(|_| work.tasks.len() == 1);
    let submission = SubmissionFacts {
        task_type: kind.map(str::to_owned),
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
        point,
        hook,
        output_limit: plan.output_limit,
        facts,
        clean: None,
    }
}

/// Why a check did not pass.
fn failure(name: &str, ran: &RunResult) -> Option<String> {
    let why = match &ran.end {
        RunEnd::Exit(0) if ran.reply.as_ref().is_some_and(HookReply::refuses) => {
            "it blocks".to_owned()
        }
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
