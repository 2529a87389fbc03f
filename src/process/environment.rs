//! The environment variables and the process group that creel gives to the programs it starts.
//!
//! # Invariants
//! - No agent and no hook has creel's terminal as its controlling terminal. Otherwise it could type
//!   keys there as if it were the user, or wait there for a password.

use std::{fs::File, path::Path, sync::OnceLock};

use process_wrap::std::{CommandWrap, CommandWrapper as _, ProcessSession};
use tokio::process::Command;

/// The longest value in bytes. Linux allows 128 KiB per variable including its name; this leaves
/// room where the total is limited too.
pub const VARIABLE_MAX: usize = 96 * 1024;
/// How many folders a session's folder is below its project.
const DEPTH: usize = 3;

/// The variable with the session's project, so that `creel` finds the session from any folder. None
/// if the path is not UTF-8.
pub fn project(session_dir: &Path) -> Option<(String, String)> {
    let root = session_dir.ancestors().nth(DEPTH)?.to_str()?;
    Some(("CREEL_PROJECT".to_owned(), root.to_owned()))
}

/// Makes a text fit a variable: removes NUL bytes, and cuts a long text and ends it with `…`.
pub fn for_variable(text: &str) -> String {
    let mut value = text.replace('\0', "");
    if value.len() > VARIABLE_MAX {
        value.truncate(value.floor_char_boundary(VARIABLE_MAX));
        value.push('…');
    }
    value
}

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
