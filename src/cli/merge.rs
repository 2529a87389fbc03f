//! `creel merge`: merges the work when every check before that has passed.

use std::collections::BTreeSet;

use clap::Args;

use crate::{
    cli::{
        arguments::{ConfigArgs, NatsArgs, SessionArgs},
        error::{CliResult, put, say},
        launch::{
            pipeline::{PipelineArgs, pipeline},
            trust_prompt::{self, TrustFlag},
        },
        target::Project,
        task::{QueueArgs, queue::QueueConnection},
        verb_outcome::VerbOutcome,
    },
    config::PlanRequest,
    engine::{
        queue::{QueueRequest, QueuedTaskState, TaskLanding},
        submit::kind::PipelineKind,
    },
    farm::{
        FarmError,
        merge_checks::CheckedStage,
        merge_queue::{GOAL, MergeResult, QueueMerger, in_order, lock},
    },
    present::text::plain_line,
    process::run::{OutputStream, ProcessGroup, ProcessObserver},
    queue::backend::QueueTaskKey,
    worktrees::ProjectRepository,
};

/// The exit code after a signal.
const INTERRUPTED: u8 = 130;
/// The exit code if only the user can go on.
const NEEDS_USER: u8 = 4;

/// What to merge.
#[derive(Debug, Args)]
pub struct MergeArgs {
    /// Merge all finished tasks of the queue that have a branch, one after another: each with what
    /// was merged before it, and only if its checks pass. What does not fit goes back to the queue.
    #[arg(long, conflicts_with_all = ["session", "task_type", "agent"])]
    pub queue: bool,
    /// With --queue: use the queue on this NATS server. Default: the server in the config's
    /// `nats:`, else the project's own queue.
    #[arg(long, value_name = "URL", requires = "queue")]
    pub nats: Option<String>,
    /// What to merge otherwise.
    #[command(flatten)]
    pub pipeline: PipelineArgs,
}

pub(super) fn merge(args: &MergeArgs) -> CliResult<VerbOutcome> {
    let PipelineArgs { config, trust, .. } = &args.pipeline;
    if args.queue {
        return merge_queue(config, args.nats.as_deref(), *trust).map(VerbOutcome::Done);
    }
    pipeline(PipelineKind::Merge, &args.pipeline)
}

fn merge_queue(config: &ConfigArgs, nats: Option<&str>, trust: bool) -> CliResult {
    let project = Project::load(config)?;
    let plan = project.settings.plan(PlanRequest::default())?;
    let would_run = trust_prompt::of_project(&project, &plan);
    let asked = TrustFlag::given(trust);
    trust_prompt::require(
        &project.config_place(),
        &project.settings.documents,
        &would_run,
        asked,
    )?;
    let repository = ProjectRepository::of(&project.root)?;
    let _lock = lock(&project.root)?;
    let session = SessionArgs {
        config: config.clone(),
        nats: NatsArgs {
            url: nats.map(str::to_owned),
        },
        ..SessionArgs::default()
    };
    let mut connection = QueueConnection::open(&session, &QueueArgs::default())?;
    let all = connection.all()?;
    let tokio = connection.tokio().handle().clone();
    let tips = all.iter().filter_map(|task| {
        let landed = task.landed()?;
        (landed.tip != landed.commit).then(|| (QueueTaskKey::of(&task.order), landed.tip))
    });
    let mut merger = QueueMerger {
        root: &project.root,
        settings: &project.settings,
        repository: &repository,
        say,
        stage: CheckedStage::new(&project.root, &repository, &tokio, say),
        has_named_base: false,
        landed: tips.collect(),
    };
    merger.clear_merged(&all);
    // What is neither merged nor only a label: a task that depends on it must wait.
    let mut unmerged: BTreeSet<QueueTaskKey> = all
        .iter()
        .filter(|task| task.merged.is_none() && (task.is_open() || task.branch.is_some()))
        .map(|task| QueueTaskKey::of(&task.order))
        .collect();
    let due = in_order(all);
    if due.is_empty() {
        say("creel: no finished task is waiting to be merged");
        return Ok(0);
    }
    let (mut code, mut has_merged, mut red) = (0, false, BTreeSet::new());
    for task in due {
        let (key, id) = (QueueTaskKey::of(&task.order), &task.order.id);
        let mut waits_for = task.order.dependencies.iter();
        let waits_for = waits_for.find(|on| unmerged.contains(&key.sibling(on)));
        let result = if let Some(on) = waits_for {
            MergeResult::Held(format!("it waits for task {on}"))
        } else {
            let note = |landing: &TaskLanding| {
                let noted = connection.change(&key, |task| task.landing_as(landing));
                noted.map_err(|error| FarmError::Failed(error.into_message()))
            };
            merger.merge(&task, &note, &mut EchoedOutput)?
        };
        match result {
            MergeResult::Merged(commit) => {
                has_merged = true;
                connection.change(&key, |task| task.merged_as(&commit))?;
                unmerged.remove(&key);
                let short: String = commit.chars().take(10).collect();
                say(&format!(
                    "creel: merged task {id} ({}) as {short}",
                    plain_line(&task.order.goal, GOAL)
                ));
            }
            MergeResult::Present(commit) => {
                connection.change(&key, |task| task.merged_as(&commit))?;
                unmerged.remove(&key);
                say(&format!(
                    "creel: task {id} has no commits that the base branch does not have"
                ));
            }
            MergeResult::Stopped => return Ok(INTERRUPTED),
            MergeResult::RedBase(reason) => {
                let why = if red.insert(reason.clone()) {
                    format!(
                        ": {reason}\n  No task was sent back. Repair the base branch, then run `creel merge --queue` again"
                    )
                } else {
                    String::new()
                };
                say(&format!(
                    "creel: the base branch does not pass, so task {id} is not merged{why}"
                ));
            }
            MergeResult::SentBack(reason) => {
                code = 1;
                let why = plain_line(&reason, 200);
                let request = QueueRequest::SendBack {
                    run: task.run,
                    reason,
                    limit: plan.submit.queue.attempts,
                };
                let what = match connection.try_ask(&key, &request)?.map(|task| task.state) {
                    Some(QueuedTaskState::Blocked { .. }) => {
                        format!(
                            "is blocked: {why}\n  `creel task show --queue {id}` shows the output; \
                                 `creel task start --queue {id}` gives it to the agent again"
                        )
                    }
                    Some(_) => format!("goes back to the queue: {why}"),
                    None => "was changed by another command".to_owned(),
                };
                say(&format!("creel: task {id} {what}"));
            }
            MergeResult::Held(reason) => {
                code = 1;
                say(&format!("creel: task {id} is not merged: {reason}"));
            }
        }
    }
    if has_merged {
        merger.clear_merged(&connection.all()?);
    }
    Ok(if red.is_empty() { code } else { NEEDS_USER })
}

/// Shows what a check prints.
struct EchoedOutput;

impl ProcessObserver for EchoedOutput {
    fn started(&mut self, _: ProcessGroup) {}

    fn output(&mut self, _: OutputStream, bytes: &[u8]) {
        let _ = put(&String::from_utf8_lossy(bytes));
    }
}
