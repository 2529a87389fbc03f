//! Requests to a session that runs in another process.
//!
//! Exit codes: 0 done, 1 refused by the session, 2 wrong usage, or no such session runs.

use std::io::Read as _;

use crate::{
    cli::{
        arguments::SessionArgs,
        error::{CliError, CliResult},
        target::{choose_session, remote_sessions::NatsServerConnection},
    },
    journal::SessionDir,
    protocol::{ClientKind, ReplyData, SessionRequest},
    socket::client::ask_once,
};

/// Asks the session for something; there is nothing to print.
pub(crate) fn ask(session: &SessionArgs, request: impl Into<SessionRequest>) -> CliResult {
    told(session, request)?;
    Ok(0)
}

/// The same, of the session in this folder.
pub(crate) fn ask_in(folder: &SessionDir, request: impl Into<SessionRequest>) -> CliResult {
    ask_once(folder, ClientKind::Cli, request)?;
    Ok(0)
}

/// Asks the session, and gives what it told.
pub(crate) fn told(
    session: &SessionArgs,
    request: impl Into<SessionRequest>,
) -> CliResult<Option<ReplyData>> {
    if let Some(server) = NatsServerConnection::named(&session.nats, &session.config)? {
        return server.told(session, &request.into());
    }
    let folder = choose_session::running(session)?;
    Ok(ask_once(&folder, ClientKind::Cli, request)?)
}

/// An answer to another question than the one that was asked.
pub(crate) fn other_answer() -> CliError {
    CliError::failed(
        "creel does not understand the session's answer; another version of creel may run this session",
    )
}

/// A text from the command line; `-` means standard input.
pub(crate) fn given(text: &str) -> CliResult<String> {
    if text != "-" {
        return Ok(text.to_owned());
    }
    let mut read = String::new();
    let stdin = std::io::stdin().read_to_string(&mut read);
    stdin.map_err(|error| CliError::usage(format!("cannot read standard input: {error}")))?;
    Ok(read.strip_suffix('\n').map(str::to_owned).unwrap_or(read))
}
