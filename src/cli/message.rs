//! `creel message`: a message from the user to the agent.

use clap::Args;

use crate::{
    cli::{
        arguments::SessionArgs,
        error::CliResult,
        target::{ask, given},
    },
    engine::input::SessionCommand,
};

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
