//! `creel unpause`: a paused session continues.

use crate::{
    cli::{arguments::SessionArgs, error::CliResult, target::ask},
    engine::input::SessionCommand,
};

pub(super) fn unpause(args: &SessionArgs) -> CliResult {
    ask(args, SessionCommand::Unpause)
}
