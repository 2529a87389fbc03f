//! What verbs print: results on standard output, messages for the user on standard error.

use std::io::{self, Write as _};

use crate::{
    cli::error::{CliError, CliResult},
    journal::RecordOrderError,
    present::text::{plain, without_c1},
};

/// How much of a reason or a name fits into a line.
pub(super) const LINE: usize = 100;

/// Writes to standard output and flushes it.
pub(crate) fn put(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(without_c1(text).as_bytes())?;
    out.flush()
}

/// Prints the result of a command. A reader that has gone is no error.
pub(super) fn print(text: &str) -> CliResult {
    match put(text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CliError::failed(format!("cannot print: {error}")))
        }
        Ok(()) | Err(_) => Ok(0),
    }
}

pub(super) fn json(value: &impl serde::Serialize) -> CliResult {
    let text =
        serde_json::to_string_pretty(value).map_err(|error| CliError::failed(error.to_string()))?;
    print(&(text + "\n"))
}

/// With `--json`, a refusal is printed as JSON, too: a program decides by its code.
pub(super) fn refusal_as_json(wanted: bool, result: CliResult) -> CliResult {
    if wanted
        && let Err(error) = &result
        && let Some(code) = &error.refusal
    {
        json(&serde_json::json!({ "error": error.message(), "code": code }))?;
    }
    result
}

/// Prints a message for the user.
pub(crate) fn say(text: &str) {
    // If standard error is closed, the user cannot be told. `plain`, since names in the text can
    // come from other programs.
    let _ = writeln!(io::stderr(), "{}", plain(text.trim_end()));
}

/// Warns the user that the lines of a journal are not what a session wrote.
pub(super) fn warn_of(disorder: Option<&RecordOrderError>) {
    if let Some(disorder) = disorder {
        say(&format!("creel: warning: {disorder}"));
    }
}
