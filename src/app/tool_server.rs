//! Serves the tools of `creel mcp`, and runs a self-driven session for an agent that has no other.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{
    app::self_driven_session::SelfDrivenSession,
    cli::{
        arguments::SessionArgs,
        error::{CliError, CliResult},
        mcp::{SelfDrivenSpec, ToolServerRequest},
        target::local_sessions,
    },
    journal::SessionDir,
    mcp::{self, McpServerEnd, NoSessionError},
};

/// The exit code of a server that a signal ended.
const INTERRUPTED: u8 = 130;

pub(super) fn serve(request: ToolServerRequest) -> CliResult {
    let ToolServerRequest {
        session: args,
        note,
    } = request;
    let own = Arc::new(Mutex::new(None));
    let find = {
        let own = Arc::clone(&own);
        move || session(&args, &own).map_err(|error| NoSessionError(error.into_message()))
    };
    let served = mcp::serve(Box::new(find), note);
    if let Some(own) = own.lock().unwrap_or_else(PoisonError::into_inner).take() {
        own.end();
    }
    match served {
        Ok(McpServerEnd::Closed) => Ok(0),
        Ok(McpServerEnd::Interrupted) => Ok(INTERRUPTED),
        Err(error) => Err(CliError::failed(format!("the MCP server failed: {error}"))),
    }
}

/// The named or running session. If there is none, a self-driven one.
fn session(args: &SessionArgs, own: &Mutex<Option<SelfDrivenSession>>) -> CliResult<SessionDir> {
    // The first call starts it while the others wait for the lock.
    let mut own = own.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(own) = own.as_ref().filter(|own| own.is_running()) {
        return Ok(own.folder().clone());
    }
    if let Some(folder) = local_sessions::running_if_any(args)? {
        return Ok(folder);
    }
    let begun = SelfDrivenSession::begin(SelfDrivenSpec::of(&args.config)?)?;
    let folder = begun.folder().clone();
    *own = Some(begun);
    Ok(folder)
}
