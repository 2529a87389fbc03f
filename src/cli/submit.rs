//! `creel submit`: submits the work of a session, or of the folder as it is.

use clap::{Args, ValueEnum};

use crate::{
    cli::{
        error::CliResult,
        launch::pipeline::{PipelineArgs, pipeline},
        verb_outcome::VerbOutcome,
    },
    engine::submit::kind::PipelineKind,
};

/// What to submit.
#[derive(Debug, Args)]
pub struct SubmitArgs {
    /// When it is over. `merged`: follow the pull request, and give the agent what its checks and
    /// reviewers say. Default: the config's `submit.until`.
    #[arg(long, value_name = "STATE")]
    pub until: Option<SubmitEnd>,
    #[command(flatten)]
    pub pipeline: PipelineArgs,
}

/// When a submit is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SubmitEnd {
    /// The pull request is open.
    #[value(name = "pull_request")]
    PullRequest,
    /// It is merged.
    Merged,
}

pub(super) fn submit(args: SubmitArgs) -> CliResult<VerbOutcome> {
    let args = PipelineArgs {
        until_merged: args.until == Some(SubmitEnd::Merged),
        ..args.pipeline
    };
    pipeline(PipelineKind::Submit, &args)
}
