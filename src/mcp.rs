//! The MCP server with the agent's tools, on standard input and output.
//!
//! Owns the protocol. A tool reaches the session over its control socket, by the client that all surfaces use.
//! The server has no state, so any number of servers can serve one session. The session can start
//! after the server and end before it. So the server looks for it at the first call, and again when
//! the known one has ended.
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

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt as _,
    model::{
        CallToolRequestParams, CallToolResponse, Implementation, ListToolsResult,
        PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool as Described,
    },
    service::{RequestContext, ServerInitializeError},
    transport::{async_rw::AsyncRwTransport, stdio_pipes},
};
use tokio::sync::{Semaphore, SemaphorePermit};
use tool::McpTool;

use crate::{
    journal::SessionDir,
    mcp::tool::ToolError,
    present::task_view::TaskView,
    process::signals::ShutdownSignals,
    protocol::{ClientKind, ReplyData, SessionQuery, SessionRequest, SessionRequestError},
    sessions::session_client::SessionClient,
};

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

/// Why there is no session for the tools. Carries the text for the agent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoSessionError(pub String);

/// Finds the session, or says why it cannot.
pub type SessionFinder = dyn Fn() -> Result<SessionDir, NoSessionError> + Send + Sync;

pub struct SessionConnectionPool {
    find: Box<SessionFinder>,
    /// The session that was found last.
    found: Mutex<Option<SessionDir>>,
    /// Connections that no call uses at the moment.
    idle: Mutex<Vec<PooledConnection>>,
    /// Limits the number of concurrent calls.
    room: Semaphore,
}

/// How many calls run at the same time. Less than the number of clients that a session accepts.
const AT_ONCE: usize = 16;

/// How many idle connections to keep. Few, since a session accepts only so many clients, and
/// several servers can share it.
const KEPT: usize = 2;

struct PooledConnection(SessionClient);

impl SessionConnectionPool {
    pub fn new(find: Box<SessionFinder>) -> Self {
        Self {
            find,
            found: Mutex::new(None),
            idle: Mutex::new(Vec::new()),
            room: Semaphore::new(AT_ONCE),
        }
    }

    /// Waits until another call can run.
    async fn room(&self) -> Option<SemaphorePermit<'_>> {
        self.room.acquire().await.ok()
    }

    async fn line(self: &Arc<Self>) -> Result<PooledConnection, ToolError> {
        // Drops those that the session has closed meanwhile.
        while let Some(line) = lock(&self.idle).pop() {
            if line.0.is_open() {
                return Ok(line);
            }
        }
        let known = lock(&self.found).clone();
        if let Some(folder) = known {
            let connected = SessionClient::connect(&folder, ClientKind::Mcp).await;
            if !matches!(connected, Err(SessionRequestError::NotRunning(_))) {
                return Ok(PooledConnection(connected?));
            }
        }
        let pool = Arc::clone(self);
        let found = tokio::task::spawn_blocking(move || (pool.find)()).await;
        let folder = found
            .map_err(|panic| ToolError::Job(format!("cannot look for sessions: {panic}")))?
            .map_err(|why| no_session(&why.to_string()))?;
        let client = SessionClient::connect(&folder, ClientKind::Mcp).await?;
        *lock(&self.found) = Some(folder);
        Ok(PooledConnection(client))
    }

    /// Returns the connection of a successful call to the pool.
    fn keep(&self, line: PooledConnection) {
        let mut idle = lock(&self.idle);
        if idle.len() < KEPT {
            idle.push(line);
        }
    }
}

/// Ignores poisoning: the values are consistent at any time, even after a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PooledConnection {
    /// Sends a request whose answer has data.
    async fn reply(&mut self, request: impl Into<SessionRequest>) -> Result<ReplyData, ToolError> {
        self.ask(request).await?.ok_or_else(other_answer)
    }

    /// Sends a request, for callers that handle a refusal themselves.
    async fn ask(
        &mut self,
        request: impl Into<SessionRequest>,
    ) -> Result<Option<ReplyData>, SessionRequestError> {
        self.0.request(request).await
    }

    async fn tasks(&mut self) -> Result<Vec<TaskView>, ToolError> {
        let ReplyData::Tasks(tasks) = self.reply(SessionQuery::TaskList).await? else {
            return Err(other_answer());
        };
        Ok(tasks)
    }
}

/// The error for an answer that does not fit the request.
fn other_answer() -> ToolError {
    ToolError::Job(
        "creel does not understand the session's answer; another version of creel may run this session".into(),
    )
}

fn no_session(why: &str) -> ToolError {
    let how = "start a session with `creel run` or continue one with `creel resume`, then call this tool again";
    ToolError::Job(format!("{why}\n{how}"))
}

impl From<SessionRequestError> for ToolError {
    fn from(error: SessionRequestError) -> Self {
        match &error {
            SessionRequestError::Refused(_) | SessionRequestError::NotSent(_) => {
                Self::Job(error.to_string())
            }
            SessionRequestError::NotRunning(name) => {
                no_session(&format!("session `{name}` is not running"))
            }
            SessionRequestError::Unreachable { .. } => Self::Job(format!(
                "{error}\nthe session may be about to end; call this tool again"
            )),
            SessionRequestError::Unanswered { .. } | SessionRequestError::Ended(_) => {
                Self::Job(format!(
                    "{error}\nthe session may have run the request or not: check with `creel show`"
                ))
            }
        }
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
