//! `creel watch`: follows a pull request until it is merged.

use clap::Args;

use crate::{
    cli::{
        arguments::{ConfigArgs, OutputArgs},
        error::{CliError, CliResult, start_tokio},
        launch::pipeline::{PipelineArgs, pipeline},
        target::Project,
        verb_outcome::VerbOutcome,
    },
    engine::submit::kind::PipelineKind,
    hooks::builtin,
};

/// What to follow.
#[derive(Debug, Args)]
pub struct WatchArgs {
    /// The pull request: its number or its address. Its branch must be checked out here.
    pub pull_request: String,
    #[command(flatten)]
    pub config: ConfigArgs,
    /// The agent that gets what its checks and reviewers say.
    #[arg(short, long, value_name = "NAME")]
    pub agent: Option<String>,
    #[command(flatten)]
    pub output: OutputArgs,
    /// Trust the commands, and remember this.
    #[arg(long)]
    pub trust: bool,
}

/// The work of the branch is verified and pushed first, as before every push to a pull request.
pub(super) fn watch(args: WatchArgs) -> CliResult<VerbOutcome> {
    let project = Project::load_existing(&args.config)?;
    let place = builtin::pull_request_here(&project.root, &args.pull_request);
    if let Err(why) = start_tokio()?.block_on(place) {
        return Err(CliError::failed(why.to_string()));
    }
    let args = PipelineArgs {
        session: None,
        config: args.config,
        task_type: None,
        agent: args.agent,
        output: args.output,
        trust: args.trust,
        until_merged: true,
    };
    pipeline(PipelineKind::Submit, &args)
}
