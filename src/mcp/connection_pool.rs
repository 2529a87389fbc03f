//! How the tools reach their session.
//!
//! The session may begin after the server, and end before it. So it is looked for when it is needed, and again when the one
//! that was found is over.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, SemaphorePermit};

use super::tool::ToolError;
use crate::{
    journal::SessionDir,
    present::task_view::TaskView,
    socket::{
        async_client::AsyncSocketClient,
        client::{SessionRequestError, SocketClient},
        message::{ClientKind, ReplyData, SessionRequest},
    },
};

/// Finds the session that is meant, or says why there is none.
pub type SessionFinder = dyn Fn() -> Result<SessionDir, String> + Send + Sync;

/// The way to the session.
pub struct SessionConnectionPool {
    find: Box<SessionFinder>,
    /// The session that was found last.
    found: Mutex<Option<SessionDir>>,
    /// Connections that no call uses now.
    idle: Mutex<Vec<PooledConnection>>,
    /// Room for calls.
    room: Semaphore,
}

/// How many calls are worked on at once; the others wait. A session has room for more clients than this.
const AT_ONCE: usize = 16;

/// How many connections are kept. A session has room for so many clients only, and servers are not alone.
const KEPT: usize = 2;

/// A connection to the session, for one call at a time.
pub(super) struct PooledConnection(AsyncSocketClient);

impl SessionConnectionPool {
    /// The session that `find` finds.
    pub fn new(find: Box<SessionFinder>) -> Self {
        Self { find, found: Mutex::new(None), idle: Mutex::new(Vec::new()), room: Semaphore::new(AT_ONCE) }
    }

    /// Waits until there is room for another call.
    pub(super) async fn room(&self) -> Option<SemaphorePermit<'_>> {
        self.room.acquire().await.ok()
    }

    /// A connection for a call.
    pub(super) async fn line(self: &Arc<Self>) -> Result<PooledConnection, ToolError> {
        // Those that the session has closed meanwhile are dropped.
        while let Some(line) = lock(&self.idle).pop() {
            if line.0.is_open() {
                return Ok(line);
            }
        }
        let reach = Arc::clone(self);
        let connected = tokio::task::spawn_blocking(move || reach.connect()).await;
        let client = connected.map_err(|panic| ToolError::Job(format!("no session was found: {panic}")))??;
        Ok(PooledConnection(AsyncSocketClient::new(client)?))
    }

    /// Keeps the connection of a call that went well for the next one.
    pub(super) fn keep(&self, line: PooledConnection) {
        let mut idle = lock(&self.idle);
        if idle.len() < KEPT {
            idle.push(line);
        }
    }

    /// Blocks until it is connected: a session may be about to begin.
    fn connect(&self) -> Result<SocketClient, ToolError> {
        let found = lock(&self.found).clone();
        if let Some(folder) = found {
            let connected = SocketClient::connect(&folder);
            if !matches!(connected, Err(SessionRequestError::NotRunning(_))) {
                return Ok(connected?);
            }
        }
        let folder = (self.find)().map_err(|why| no_session(&why))?;
        let client = SocketClient::connect(&folder)?;
        *lock(&self.found) = Some(folder);
        Ok(client)
    }
}

/// What is behind a lock is whole at any time, whoever died holding it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PooledConnection {
    /// Asks for something that is told.
    pub(super) async fn told(&mut self, request: &SessionRequest) -> Result<ReplyData, ToolError> {
        self.ask(request).await?.ok_or_else(other_answer)
    }

    /// Asks, for whoever can make something of a refusal.
    pub(super) async fn ask(&mut self, request: &SessionRequest) -> Result<Option<ReplyData>, SessionRequestError> {
        self.0.ask(ClientKind::Mcp, request).await
    }

    /// Asks for something that takes as long as the session needs for it.
    pub(super) async fn told_in_time(&mut self, request: &SessionRequest) -> Result<ReplyData, ToolError> {
        self.0.ask_patiently(ClientKind::Mcp, request).await?.ok_or_else(other_answer)
    }

    /// All tasks.
    pub(super) async fn tasks(&mut self) -> Result<Vec<TaskView>, ToolError> {
        let ReplyData::Tasks(tasks) = self.told(&SessionRequest::TaskList).await? else { return Err(other_answer()) };
        Ok(tasks)
    }
}

/// An answer to another question than the one that was asked.
pub(super) fn other_answer() -> ToolError {
    ToolError::Job("the session answered something else; it may be run by another version of creel".into())
}

fn no_session(why: &str) -> ToolError {
    let how = "`creel run` starts a session, `creel resume` goes on with one; then call this tool again";
    ToolError::Job(format!("{why}\n{how}"))
}

impl From<SessionRequestError> for ToolError {
    fn from(error: SessionRequestError) -> Self {
        match &error {
            SessionRequestError::Refused(why) => Self::Job(why.clone()),
            SessionRequestError::NotRunning(name) => no_session(&format!("session `{name}` is not running")),
            SessionRequestError::Unreachable { .. } => {
                Self::Job(format!("{error}\nit may be about to end; call this tool again"))
            }
            SessionRequestError::Ended(_) => {
                Self::Job(format!("{error}\nwhat was asked for may have been done, or not: `creel show` tells"))
            }
        }
    }
}
