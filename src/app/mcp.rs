//! `creel mcp`: the session's tools for an agent.

use std::io::IsTerminal as _;

use super::{Failure, Result, say, steer::choose};
use crate::control::{cli::steer::SessionArgs, mcp};

pub(super) fn mcp(args: SessionArgs) -> Result {
    if std::io::stdin().is_terminal() {
        say("creel: this is for an agent to start: it speaks the Model Context Protocol on standard input and output");
    }
    let find = move || choose::running(&args).map_err(Failure::into_message);
    mcp::serve(Box::new(find)).map(|()| 0).map_err(|error| Failure::failed(format!("the MCP server failed: {error}")))
}
