//! Commands for a session that runs in another process.
//!
//! Exit codes: 0 done, 1 refused by the session, 2 wrong usage, or no such session runs.

pub(super) mod checkpoint;
pub(super) mod choose_session;
pub(super) mod gate;
mod hook_stats;
pub(super) mod hooks;
pub(super) mod pending;
mod queue;
pub(super) mod task;

use std::io::Read as _;

use super::{AppError, AppResult, print};
use crate::{
    app::remote_sessions::NatsServerConnection,
    cli::control::{MessageArgs, SessionArgs, StatusArgs, StopArgs},
    engine::{event::StopTiming, input::SessionCommand},
    journal::SessionDir,
    present::{
        text::{counted, plain, plain_line},
        usage_limits,
    },
    runtime::clock,
    socket::{
        client::SocketClient,
        message::{ClientKind, ReplyData, SessionRequest},
        query::SessionQuery,
        view::StatusView,
    },
};

/// How much of a reason fits into a line.
const LINE: usize = 100;

/// Asks the session for something; there is nothing to print.
pub(super) fn ask(session: &SessionArgs, request: impl Into<SessionRequest>) -> AppResult {
    told(session, request)?;
    Ok(0)
}

/// The same, of the session in this folder.
pub(super) fn ask_in(folder: &SessionDir, request: impl Into<SessionRequest>) -> AppResult {
    SocketClient::connect(folder)?.ask(ClientKind::Cli, request)?;
    Ok(0)
}

/// Asks the session, and gives what it told.
fn told(session: &SessionArgs, request: impl Into<SessionRequest>) -> AppResult<Option<ReplyData>> {
    if let Some(server) = NatsServerConnection::named(&session.nats, &session.config)? {
        return server.told(session, &request.into());
    }
    let folder = choose_session::running(session)?;
    Ok(SocketClient::connect(&folder)?.ask(ClientKind::Cli, request)?)
}

/// An answer to another question than the one that was asked.
fn other_answer() -> AppError {
    AppError::failed("the session answered something else; is it run by another version of creel?")
}

fn json(value: &impl serde::Serialize) -> AppResult {
    let text = serde_json::to_string_pretty(value).map_err(|error| AppError::failed(error.to_string()))?;
    print(&(text + "\n"))
}

/// With `--json`, a refusal is printed as JSON, too: a program decides by its code.
fn refusal_as_json(wanted: bool, result: AppResult) -> AppResult {
    if wanted
        && let Err(error) = &result
        && let Some(code) = &error.refusal
    {
        json(&serde_json::json!({ "error": error.message(), "code": code }))?;
    }
    result
}

/// A text from the command line; `-` means standard input.
fn given(text: &str) -> AppResult<String> {
    if text != "-" {
        return Ok(text.to_owned());
    }
    let mut read = String::new();
    let stdin = std::io::stdin().read_to_string(&mut read);
    stdin.map_err(|error| AppError::usage(format!("cannot read standard input: {error}")))?;
    Ok(read.strip_suffix('\n').map(str::to_owned).unwrap_or(read))
}

pub(super) fn stop(args: &StopArgs) -> AppResult {
    let how = if args.now { StopTiming::Now } else { StopTiming::AfterIteration };
    ask(&args.session, SessionCommand::Stop { how })
}

pub(super) fn message(args: &MessageArgs) -> AppResult {
    ask(&args.session, SessionCommand::Message { text: given(&args.text)? })
}

pub(super) fn status(args: &StatusArgs) -> AppResult {
    refusal_as_json(args.json, show_status(args))
}

fn show_status(args: &StatusArgs) -> AppResult {
    let Some(ReplyData::Status(status)) = told(&args.session, SessionQuery::Status)? else {
        return Err(other_answer());
    };
    if args.json { json(&status) } else { print(&lines(&status)) }
}

fn lines(status: &StatusView) -> String {
    let mut text = format!(
        "session    {} ({})\ndoing      {}\niteration  {} of at most {}\nagent      {}\n",
        status.session,
        status.state,
        plain_line(&status.doing, LINE),
        status.iteration,
        status.max_iterations,
        plain(&status.agent),
    );
    if let Some(limit) = &status.usage_limit {
        text += &format!("resumes    {}\n", usage_limits::resumes(limit.until, clock::wall_clock()));
    }
    if status.retries > 0 {
        text += &format!("retries    {} of at most {}\n", status.retries, status.max_retries);
    }
    if status.errors > 0 {
        text += &format!("errors     {} in a row\n", status.errors);
    }
    text += &format!("pending    {}\n", counted(status.pending, "item"));
    if status.messages > 0 {
        text += &format!("messages   {} for the agent\n", status.messages);
    }
    if let Some(gate) = &status.gate {
        text += &format!("gate       {}\n", gate::line(gate).replace('\n', "\n           "));
    }
    if let Some(link) = &status.nats {
        text += &format!("nats       {}\n", plain(&link.to_string()));
    }
    text + &format!("since      {} (process {})\n", status.started, status.pid)
}
