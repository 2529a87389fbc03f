//! The MCP server with the agent's tools, on standard input and output.
//!
//! Owns the protocol. A tool reaches the session by the client that all surfaces use. The server has
//! no state, so any number of servers can serve one session, which can start after the server and
//! end before it.
//!
//! # Invariants
//! - No client message ends the server: wrong requests get an error, and lines that are not
//!   messages are skipped.
//! - No call blocks another one: each has its own connection and waits for its own answer.

mod hooks;
mod iterations;
mod session;
mod tasks;
mod tool;

use std::{io, sync::Arc};

use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt as _,
    model::{
        CallToolRequestParams, CallToolResponse, Implementation, ListToolsResult,
        PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool as Described,
    },
    service::{RequestContext, ServerInitializeError},
    transport::{async_rw::AsyncRwTransport, stdio_pipes},
};
use session::{SessionConnectionPool, SessionFinder};
use tool::McpTool;

use crate::process::signals::ShutdownSignals;

pub use session::NoSessionError;

/// The longest message, in bytes. Longer ones are skipped unread, so this is far above the limit of
/// a call: a client that sends too much should get an error.
const LONGEST_MESSAGE: usize = 64 << 20;

const INSTRUCTIONS: &str = "creel supervises this session: it prompts you, runs checks when you stop, and continues \
                            until the work is complete. You share its task graph with the user and the hooks. Call \
                            session_status to see where the session is and task_list for what there is to do. Call \
                            task_start when you start a task, task_complete when it is done, task_block when you \
                            cannot continue, and task_add for work that you find. To work on a task in iterations of \
                            your own until it is done, call hook_register and iteration_start, and after each \
                            iteration iteration_validate. Errors say what to do next.";

struct McpToolServer {
    tools: Vec<McpTool>,
    reach: Arc<SessionConnectionPool>,
    instructions: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum McpServerEnd {
    /// The client closed its side.
    Closed,
    Interrupted,
}

/// Serves the session that `find` returns, until the client closes its side. `more` is added to the
/// instructions for the agent.
pub fn serve(find: Box<SessionFinder>, more: Option<&str>) -> io::Result<McpServerEnd> {
    let tools = all_tools();
    let instructions = [Some(INSTRUCTIONS), more]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(" ");
    let server = McpToolServer {
        tools,
        reach: Arc::new(SessionConnectionPool::new(find)),
        instructions,
    };
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let ended = tokio.block_on(async {
        let mut signals = ShutdownSignals::listen()?;
        tokio::select! {
            talked = server.talk() => talked.map(|()| McpServerEnd::Closed),
            _ = signals.next() => Ok(McpServerEnd::Interrupted),
        }
    });
    // A call that still waits for its session must not delay the exit.
    tokio.shutdown_background();
    ended
}

fn all_tools() -> Vec<McpTool> {
    [
        tasks::tools(),
        hooks::tools(),
        iterations::tools(),
        session::tools(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

impl McpToolServer {
    async fn talk(self) -> io::Result<()> {
        let (input, output) = stdio_pipes();
        let transport =
            AsyncRwTransport::new_server(input, output).with_max_line_length(LONGEST_MESSAGE);
        let running = match self.serve(transport).await {
            Ok(running) => running,
            // The client disconnected before the handshake.
            Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            Err(error) => return Err(io::Error::other(error)),
        };
        running.waiting().await.map(drop).map_err(io::Error::other)
    }

    fn tool(&self, name: &str) -> Result<&McpTool, ErrorData> {
        self.tools
            .iter()
            .find(|tool| tool.name() == name)
            .ok_or_else(|| {
                let names = self
                    .tools
                    .iter()
                    .map(McpTool::name)
                    .collect::<Vec<_>>()
                    .join(", ");
                ErrorData::invalid_params(
                    format!("unknown tool `{name}`; use one of: {names}"),
                    None,
                )
            })
    }
}

impl ServerHandler for McpToolServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("creel", env!("CARGO_PKG_VERSION")))
            .with_instructions(self.instructions.clone())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(
            self.tools.iter().map(McpTool::described).collect(),
        ))
    }

    fn get_tool(&self, name: &str) -> Option<Described> {
        self.tool(name).ok().map(McpTool::described)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tool = self.tool(&request.name)?;
        tool.call(&self.reach, request.arguments.unwrap_or_default())
            .await
            .map(Into::into)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::engine::creel_tools::TOOLS;

    #[test]
    fn requests_for_every_tool_are_recognised_by_its_schema() {
        let served: BTreeMap<String, BTreeSet<String>> = all_tools()
            .iter()
            .map(|tool| {
                let schema = tool.described().input_schema;
                let arguments = schema
                    .get("properties")
                    .and_then(serde_json::Value::as_object);
                (
                    tool.name().to_owned(),
                    arguments
                        .into_iter()
                        .flat_map(|all| all.keys().cloned())
                        .collect(),
                )
            })
            .collect();
        let named = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        assert_eq!(
            served,
            TOOLS
                .map(|tool| (tool.name.to_owned(), named(tool.arguments)))
                .into_iter()
                .collect()
        );
    }
}
