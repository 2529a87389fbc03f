//! `creel mcp`: the session's tools for an agent.
//!
//! An agent that creel supervises has a session. One that the user starts by hand may have none: then the first call
//! starts a self-driven session, which ends with the agent.

mod self_driven_session;

use std::{
    io::IsTerminal as _,
    sync::{Arc, Mutex, PoisonError},
};

use super::{AppError, AppResult, say};
use crate::{
    app::{
        control::choose_session,
        mcp::self_driven_session::{SelfDrivenSession, SelfDrivenSpec},
    },
    cli::control::SessionArgs,
    journal::SessionDir,
    mcp::{self, McpServerEnd, NoSessionError},
};

/// The exit code of a server that a signal ended.
const INTERRUPTED: u8 = 130;

pub(super) fn mcp(args: SessionArgs) -> AppResult {
    if std::io::stdin().is_terminal() {
        say("creel: this is for an agent to start: it speaks the Model Context Protocol on standard input and output");
    }
    let own = Arc::new(Mutex::new(None));
    let more = if choose_session::running_if_any(&args).is_ok_and(|found| found.is_none()) {
        restriction(&args)
    } else {
        None
    };
    let find = {
        let own = Arc::clone(&own);
        move || session(&args, &own).map_err(|error| NoSessionError(error.into_message()))
    };
    let served = mcp::serve(Box::new(find), more);
    if let Some(own) = own.lock().unwrap_or_else(PoisonError::into_inner).take() {
        own.end();
    }
    match served {
        Ok(McpServerEnd::Closed) => Ok(0),
        Ok(McpServerEnd::Interrupted) => Ok(INTERRUPTED),
        Err(error) => Err(AppError::failed(format!("the MCP server failed: {error}"))),
    }
}

/// The named or running session. If there is none, a self-driven one.
fn session(args: &SessionArgs, own: &Mutex<Option<SelfDrivenSession>>) -> AppResult<SessionDir> {
    // The first call starts it while the others wait for the lock.
    let mut own = own.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(own) = own.as_ref().filter(|own| own.is_running()) {
        return Ok(own.folder().clone());
    }
    if let Some(folder) = choose_session::running_if_any(args)? {
        return Ok(folder);
    }
    let begun = SelfDrivenSpec::of(&args.config)?.begin()?;
    let folder = begun.folder().clone();
    *own = Some(begun);
    Ok(folder)
}

/// A note for the agent if its self-driven session does not run the project's hooks and rules.
fn restriction(args: &SessionArgs) -> Option<&'static str> {
    let untrusted = SelfDrivenSpec::of(&args.config).is_ok_and(|opening| !opening.is_allowed());
    untrusted.then_some(
        "The project's config has hooks and rules that nobody has allowed to run, so they do not: `creel trust` allows them.",
    )
}
