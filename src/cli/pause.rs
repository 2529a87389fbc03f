//! `creel pause`: no further prompt for now.

use crate::{
    cli::{arguments::SessionArgs, error::CliResult, target::local_sessions::ask},
    engine::input::SessionCommand,
};

pub(super) fn pause(args: &SessionArgs) -> CliResult {
    ask(args, SessionCommand::Pause)
}
