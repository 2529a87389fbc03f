//! `creel mcp`: the session's tools for an agent.
//!
//! An agent that creel supervises has a session. One that somebody runs by hand may have none: then the first call begins one,
//! which that agent leads itself, and which ends when the agent goes.

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
    mcp::{self, McpServerEnd},
};

/// The exit code of a server that was ended by a signal.
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
        move || session(&args, &own).map_err(AppError::into_message)
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

/// The session that is meant; with none named and none running, one of its own.
fn session(args: &SessionArgs, own: &Mutex<Option<SelfDrivenSession>>) -> AppResult<SessionDir> {
    // One call begins it, and the others wait for that.
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

/// What an agent has to know of a session of its own that is not as the project wants it.
fn restriction(args: &SessionArgs) -> Option<&'static str> {
    let untrusted = SelfDrivenSpec::of(&args.config).is_ok_and(|opening| !opening.is_allowed());
    untrusted.then_some(
        "The project's config has hooks and rules that nobody has allowed to run, so they do not: `creel trust` allows them.",
    )
}
