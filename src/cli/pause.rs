//! `creel pause`: no further prompt for now.

use crate::{
    cli::{arguments::SessionArgs, error::CliResult, target::ask},
    engine::input::SessionCommand,
};

pub(super) fn pause(args: &SessionArgs) -> CliResult {
    ask(args, SessionCommand::Pause)
}
