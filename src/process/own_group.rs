//! Puts each agent and each hook into its own process group, away from the user's terminal.
//!
//! # Invariants
//! - No agent and no hook has creel's terminal as its controlling terminal. Otherwise it could type
//!   keys there as if it were the user, or wait there for a password.

use std::{fs::File, sync::OnceLock};

use process_wrap::std::{CommandWrap, CommandWrapper as _, ProcessSession};
use tokio::process::Command;

/// Gives the process its own group and, if creel has a terminal, its own session, which has none.
pub(super) fn own_group(command: &mut Command) {
    // Starting a process in its own session takes a little longer.
    if has_terminal() {
        let nothing = CommandWrap::with_new("", |_| {});
        if ProcessSession
            .pre_spawn(command.as_std_mut(), &nothing)
            .is_ok()
        {
            return;
        }
    }
    command.process_group(0);
}

fn has_terminal() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| File::open("/dev/tty").is_ok())
}
