//! Environment variables that creel gives to the programs it starts.

use std::path::Path;

/// The longest value of a variable. The kernel allows 128 KiB a variable with its name; staying well below leaves room
/// for the rest of the environment where the sum is limited too.
pub const VARIABLE_MAX: usize = 96 * 1024;
/// How far below its project a session's folder lies.
const DEPTH: usize = 3;

/// The variable that names a session's project, so that `creel` finds the session from any folder. None if the path is not
/// UTF-8.
pub fn project(session_dir: &Path) -> Option<(String, String)> {
    let root = session_dir.ancestors().nth(DEPTH)?.to_str()?;
    Some(("CREEL_PROJECT".to_owned(), root.to_owned()))
}

/// As much of a text as a variable can hold: NUL bytes are left out, and a text that is too long ends with `…`.
pub fn for_variable(text: &str) -> String {
    let mut value = text.replace('\0', "");
    if value.len() > VARIABLE_MAX {
        value.truncate(value.floor_char_boundary(VARIABLE_MAX));
        value.push('…');
    }
    value
}
