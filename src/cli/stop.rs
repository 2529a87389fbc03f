//! `creel stop`: ends a session.

use clap::Args;

use crate::{
    cli::{arguments::SessionArgs, error::CliResult, target::session_request::ask},
    engine::{event::StopTiming, input::SessionCommand},
};

/// How to stop.
#[derive(Debug, Args)]
pub struct StopArgs {
    /// Which session.
    #[command(flatten)]
    pub session: SessionArgs,
    /// At once: cancel the turn, deliver nothing more, run `session_end`. Otherwise when this iteration is completed.
    #[arg(long)]
    pub now: bool,
}

pub(super) fn stop(args: &StopArgs) -> CliResult {
    let how = if args.now { StopTiming::Now } else { StopTiming::AfterIteration };
    ask(&args.session, SessionCommand::Stop { how })
}
