//! `creel stop`: ends a session.

use clap::Args;

use crate::{
    cli::{arguments::SessionArgs, error::CliResult, target::ask},
    engine::{event::StopTiming, input::SessionCommand},
};

/// How to stop.
#[derive(Debug, Args)]
pub struct StopArgs {
    /// Which session.
    #[command(flatten)]
    pub session: SessionArgs,
    /// Stop at once: cancel the turn, send nothing more, run `session_end`. Default: stop after
    /// this iteration.
    #[arg(long)]
    pub now: bool,
}

pub(super) fn stop(args: &StopArgs) -> CliResult {
    let how = if args.now {
        StopTiming::Now
    } else {
        StopTiming::AfterIteration
    };
    ask(&args.session, SessionCommand::Stop { how })
}
