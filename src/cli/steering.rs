//! The verbs that only send one command to a running session: `creel pause`, `unpause`, `cancel`,
//! `stop` and `message`.

use clap::Args;

use crate::{
    cli::{
        arguments::SessionArgs,
        error::CliResult,
        target::local_sessions::{ask, given},
    },
    engine::{event::StopTiming, input::SessionCommand},
};

pub(super) fn pause(args: &SessionArgs) -> CliResult {
    ask(args, SessionCommand::Pause)
}

pub(super) fn unpause(args: &SessionArgs) -> CliResult {
    ask(args, SessionCommand::Unpause)
}

pub(super) fn cancel(args: &SessionArgs) -> CliResult {
    ask(args, SessionCommand::CancelTurn)
}

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

/// What to say.
#[derive(Debug, Args)]
pub struct MessageArgs {
    /// The message, or `-` to read it from standard input.
    pub text: String,
    /// Which session.
    #[command(flatten)]
    pub session: SessionArgs,
}

pub(super) fn message(args: &MessageArgs) -> CliResult {
    ask(
        &args.session,
        SessionCommand::Message {
            text: given(&args.text)?,
        },
    )
}
