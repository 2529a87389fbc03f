//! `creel merge`: merges the work when every check before that has passed.

mod merge_queue;

use clap::Args;

use crate::{
    cli::{
        error::CliResult,
        launch::pipeline::{PipelineArgs, pipeline},
        verb_outcome::VerbOutcome,
    },
    engine::submit::kind::PipelineKind,
};

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
        return merge_queue::merge_queue(config, args.nats.as_deref(), *trust)
            .map(VerbOutcome::Done);
    }
    pipeline(PipelineKind::Merge, &args.pipeline)
}
