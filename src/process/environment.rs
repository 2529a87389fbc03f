//! Environment variables that creel gives to the programs it starts.

use std::path::Path;

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
