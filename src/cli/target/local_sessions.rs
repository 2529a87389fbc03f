//! Sessions of this machine: which one a command is about (the one that is named, the one whose agent
//! or hook asks, or the only one that runs), and requests to it.
//!
//! Exit codes: 0 done, 1 refused by the session, 2 wrong usage, or no such session runs.

use std::{io::Read as _, path::Path};

use crate::{
    cli::{
        arguments::{ConfigArgs, SessionArgs},
        error::{CliError, CliResult},
        target::{self, remote_sessions::NatsServerConnection},
    },
    journal::{self, JournalError, SessionDir, SessionsDir},
    protocol::{ClientKind, ReplyData, SessionRequest},
    sessions::session_client::request_once,
    text::nearest,
};

/// A session that appears to run. Connecting to it shows whether it does.
pub(crate) fn running(args: &SessionArgs) -> CliResult<SessionDir> {
    let (root, _) = target::sessions_of(&args.config)?;
    running_if_any(args)?
        .ok_or_else(|| none_running(&root, "list the past sessions with `creel sessions`"))
}

/// The same; nothing, if none is named and none runs.
pub(crate) fn running_if_any(args: &SessionArgs) -> CliResult<Option<SessionDir>> {
    let (_, sessions) = target::sessions_of(&args.config)?;
    match named(args, &sessions)? {
        Some(folder) => Ok(Some(folder)),
        None => the_only(&sessions),
    }
}

/// The session that is named, running or not; otherwise the only one that runs.
pub(crate) fn named_or_running(args: &SessionArgs) -> CliResult<SessionDir> {
    let (_, sessions) = target::sessions_of(&args.config)?;
    match named(args, &sessions)? {
        Some(folder) => Ok(folder),
        None => running_or_past(args),
    }
}

/// The only session that runs, for a command that can also tell about a past one.
pub(crate) fn running_or_past(args: &SessionArgs) -> CliResult<SessionDir> {
    let (root, _) = target::sessions_of(&args.config)?;
    let advice = "name a past session with `--session NAME`; `creel sessions` lists them";
    running_if_any(args)?.ok_or_else(|| none_running(&root, advice))
}

/// The session that is named, running or not.
pub(crate) fn named(args: &SessionArgs, sessions: &SessionsDir) -> CliResult<Option<SessionDir>> {
    match &args.session {
        Some(name) => called(name, &args.config, sessions).map(Some),
        None => own(&args.config, sessions).map(existing).transpose(),
    }
}

/// The session of this name: one of these, or else the one whose agent or hook asks.
pub(crate) fn called(
    name: &str,
    config: &ConfigArgs,
    sessions: &SessionsDir,
) -> CliResult<SessionDir> {
    let here = sessions.folder(name);
    let own = own(config, sessions).filter(|own| own.name == name && !here.exists());
    existing(own.unwrap_or(here))
}

/// The session whose agent or hook asks. It may have gone to another folder: what tells it the
/// session tells the project, too. A project that does not have it, such as one that was moved,
/// hides none that is here.
fn own(config: &ConfigArgs, here: &SessionsDir) -> Option<SessionDir> {
    let name = std::env::var("CREEL_SESSION")
        .ok()
        .filter(|name| !name.is_empty())?;
    let project = std::env::var_os("CREEL_PROJECT")
        .filter(|root| !root.is_empty() && config.config.is_none());
    let there = project
        .map(|root| SessionsDir::of(Path::new(&root)).folder(&name))
        .filter(SessionDir::exists);
    Some(there.unwrap_or_else(|| here.folder(&name)))
}

/// The session of this name; without a name the one whose agent or hook asks, otherwise the one
/// that changed last.
pub(crate) fn called_or_latest(name: Option<&str>, config: &ConfigArgs) -> CliResult<SessionDir> {
    let (root, sessions) = target::sessions_of(config)?;
    if let Some(name) = name {
        return called(name, config, &sessions);
    }
    if let Some(own) = own(config, &sessions) {
        return existing(own);
    }
    sessions
        .latest()
        .map_err(|error| CliError::failed(format!("cannot list the sessions: {error}")))?
        .ok_or_else(|| {
            CliError::usage(format!(
                "no sessions in {}; start one with `creel run`",
                root.display()
            ))
        })
}

fn existing(folder: SessionDir) -> CliResult<SessionDir> {
    if folder.exists() {
        Ok(folder)
    } else {
        Err(missing(&folder))
    }
}

/// Says that a session does not exist, and which one the user probably meant.
pub(crate) fn missing(folder: &SessionDir) -> CliError {
    let others = SessionsDir::around(folder).list().unwrap_or_default();
    let error = CliError::from(JournalError::Missing(folder.name.clone()));
    match nearest(&folder.name, others.iter().map(|other| other.name.as_str())) {
        Some(near) => CliError::usage(format!(
            "session `{}` does not exist here\n  did you mean `{near}`?",
            folder.name
        )),
        None => error,
    }
}

/// All that run.
pub(crate) fn all_running(sessions: &SessionsDir) -> CliResult<Vec<SessionDir>> {
    let all = sessions
        .live()
        .map_err(|error| CliError::failed(format!("cannot list the sessions: {error}")))?;
    Ok(all
        .into_iter()
        .filter(|folder| journal::running(folder).is_some())
        .collect())
}

fn the_only(sessions: &SessionsDir) -> CliResult<Option<SessionDir>> {
    let mut running = all_running(sessions)?;
    match (running.pop(), running.len()) {
        (only, 0) => Ok(only),
        (last, _) => {
            let names = running
                .iter()
                .chain(&last)
                .map(|folder| format!("\n  {}", folder.name));
            Err(CliError::usage(format!(
                "several sessions are running; choose one with --session:{}",
                names.collect::<String>()
            )))
        }
    }
}

/// Says that no session runs, and what to do: this, or start the first one.
fn none_running(root: &Path, advice: &str) -> CliError {
    let advice = if SessionsDir::of(root).has_any() {
        advice
    } else {
        "start one with `creel run`"
    };
    CliError::usage(format!(
        "no session is running in {}\n  {advice}",
        root.display()
    ))
}

/// Asks the session for something; there is nothing to print.
pub(crate) fn ask(session: &SessionArgs, request: impl Into<SessionRequest>) -> CliResult {
    reply_to(session, request)?;
    Ok(0)
}

/// The same, of the session in this folder.
pub(crate) fn ask_in(folder: &SessionDir, request: impl Into<SessionRequest>) -> CliResult {
    request_once(folder, ClientKind::Cli, request)?;
    Ok(0)
}

/// Sends a request and returns the reply.
pub(crate) fn reply_to(
    session: &SessionArgs,
    request: impl Into<SessionRequest>,
) -> CliResult<Option<ReplyData>> {
    if let Some(server) = NatsServerConnection::named(&session.nats, &session.config)? {
        return server.reply_to(session, request);
    }
    let folder = running(session)?;
    Ok(request_once(&folder, ClientKind::Cli, request)?)
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
