//! `creel merge`: merges the work when every check before that has passed.

use clap::Args;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    cli::{
        error::{CliError, CliResult, put, say, start_tokio},
        launch::{
            pipeline::{PipelineArgs, pipeline},
            trust_prompt::{self, TrustFlag},
        },
        target::{Project, name_queue, remote_sessions::on_command_line},
        verb_outcome::VerbOutcome,
    },
    config::PlanRequest,
    engine::submit::kind::PipelineKind,
    farm::merge_loop::{BATCH, MergeLoop, MergeProgress},
    process::{secrets, signals::ShutdownSignals},
    queue::LEASE,
    worktrees::ProjectRepository,
};

/// What to merge.
#[derive(Debug, Args)]
pub struct MergeArgs {
    /// Merge all finished tasks of the queue that have a branch, in the order of their dependencies: each
    /// with what was merged before it, and only if its checks pass. What does not fit goes back to
    /// the queue.
    #[arg(long, conflicts_with_all = ["session", "task_type", "agent"])]
    pub queue: bool,
    /// With --queue: wait for more tasks until Ctrl-C, and merge each once it is finished.
    #[arg(long, requires = "queue")]
    pub watch: bool,
    /// With --queue: how many tasks to test together.
    #[arg(long, value_name = "N", requires = "queue", default_value_t = BATCH, value_parser = batch_size)]
    pub batch: usize,
    /// With --queue: use the queue on this NATS server. Default: the server in the config's
    /// `nats:`, else the project's own queue.
    #[arg(long, value_name = "URL", requires = "queue")]
    pub nats: Option<String>,
    /// What to merge otherwise.
    #[command(flatten)]
    pub pipeline: PipelineArgs,
}

pub(super) fn merge(args: &MergeArgs) -> CliResult<VerbOutcome> {
    if args.queue {
        return merge_queue(args).map(VerbOutcome::Done);
    }
    pipeline(PipelineKind::Merge, &args.pipeline)
}

fn merge_queue(args: &MergeArgs) -> CliResult {
    let PipelineArgs { config, trust, .. } = &args.pipeline;
    let project = Project::load(config)?;
    let plan = project.settings.plan(PlanRequest::default())?;
    let would_run = trust_prompt::of_project(&project, &plan);
    trust_prompt::require(
        &project.config_place(),
        &project.settings.documents,
        &would_run,
        TrustFlag::given(*trust),
    )?;
    secrets::use_patterns(&plan.access.mask);
    let repository = ProjectRepository::of(&project.root)?;
    let mut nats = on_command_line(args.nats.as_deref(), project.settings.servers.nats.clone())?;
    if let Some(nats) = &mut nats {
        name_queue(nats, None, &project.root)?;
    }
    let merging = MergeLoop {
        root: project.root,
        settings: project.settings,
        home: repository.branch_here()?,
        repository,
        nats,
        batch: args.batch,
        lease: LEASE,
        watches: args.watch,
        patience: None,
        say,
        echo,
    };
    if args.watch {
        say("creel: merging finished tasks as they come; stop with Ctrl-C");
    }
    let (tokio, stop) = (start_tokio()?, CancellationToken::new());
    let mut signals = {
        let _threads = tokio.enter();
        ShutdownSignals::listen()
            .map_err(|error| CliError::failed(format!("cannot listen for signals: {error}")))?
    };
    let stopped = stop.clone();
    tokio.spawn(async move {
        signals.next().await;
        stopped.cancel();
    });
    let progress = watch::Sender::new(MergeProgress::default());
    let code = merging.run(tokio.handle(), &stop, &progress);
    tokio.shutdown_background();
    Ok(code?)
}

/// Shows what a check prints.
pub(super) fn echo(bytes: &[u8]) {
    let _ = put(&String::from_utf8_lossy(bytes));
}

fn batch_size(text: &str) -> Result<usize, BatchSizeError> {
    let size = text.parse().ok();
    size.filter(|size| (1..=MOST).contains(size))
        .ok_or(BatchSizeError)
}

/// The most tasks that are tested together.
const MOST: usize = 64;

#[derive(Debug, thiserror::Error)]
#[error("the size of a batch is a whole number from 1 to {MOST}")]
struct BatchSizeError;
