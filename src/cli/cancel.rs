//! `creel cancel`: ends the turn and pauses the session.

use crate::{
    cli::{arguments::SessionArgs, error::CliResult, target::ask},
    engine::input::SessionCommand,
};

pub(super) fn cancel(args: &SessionArgs) -> CliResult {
    ask(args, SessionCommand::CancelTurn)
}
