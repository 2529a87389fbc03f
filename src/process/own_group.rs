//! Puts agents and hooks into process groups of their own, away from the user's terminal.
//!
//! # Invariants
//! - No agent and no hook has creel's terminal as its controlling terminal. Otherwise it could type keys there as if it
//!   were the user, or wait there for a password.

use std::{fs::File, sync::OnceLock};

use process_wrap::std::{CommandWrap, CommandWrapper as _, ProcessSession};
use tokio::process::Command;

/// The process leads a group of its own; if creel has a terminal, also a session of its own, which has none.
pub(super) fn own_group(command: &mut Command) {
    // Starting a process in a session of its own takes a little longer.
    if has_terminal() {
        let nothing = CommandWrap::with_new("", |_| {});
        if ProcessSession.pre_spawn(command.as_std_mut(), &nothing).is_ok() {
            return;
        }
    }
    command.process_group(0);
}

fn has_terminal() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| File::open("/dev/tty").is_ok())
}
