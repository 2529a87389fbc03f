//! The connections of the tool server to its session.
//!
//! Owns when creel looks for the session: at the first call, and again when the known one has
//! ended. Does not own the tools: see the files beside this one.
//!
//! # Invariants
//! - Each call has its own connection, so that no call waits for the answer of another one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::{
    journal::SessionDir,
    present::task_view::TaskView,
    protocol::{ClientKind, ReplyData, SessionQuery, SessionRequest, SessionRequestError},
    sessions::session_client::SessionClient,
};

/// Why a call failed, as text for the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ToolError {
    Arguments(String),
    /// The session refuses, or cannot be reached.
    Job(String),
}

/// Why there is no session for the tools. Carries the text for the agent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoSessionError(pub String);

/// Finds the session, or says why it cannot.
pub type SessionFinder = dyn Fn() -> Result<SessionDir, NoSessionError> + Send + Sync;

pub(super) struct SessionConnectionPool {
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

pub(super) struct PooledConnection(SessionClient);

impl SessionConnectionPool {
    pub(super) fn new(find: Box<SessionFinder>) -> Self {
        Self {
            find,
            found: Mutex::new(None),
            idle: Mutex::new(Vec::new()),
            room: Semaphore::new(AT_ONCE),
        }
    }

    /// Waits until another call can run.
    pub(super) async fn room(&self) -> Option<SemaphorePermit<'_>> {
        self.room.acquire().await.ok()
    }

    pub(super) async fn line(self: &Arc<Self>) -> Result<PooledConnection, ToolError> {
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
    pub(super) fn keep(&self, line: PooledConnection) {
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
    pub(super) async fn reply(
        &mut self,
        request: impl Into<SessionRequest>,
    ) -> Result<ReplyData, ToolError> {
        self.ask(request).await?.ok_or_else(other_answer)
    }

    /// Sends a request, for callers that handle a refusal themselves.
    pub(super) async fn ask(
        &mut self,
        request: impl Into<SessionRequest>,
    ) -> Result<Option<ReplyData>, SessionRequestError> {
        self.0.request(request).await
    }

    pub(super) async fn tasks(&mut self) -> Result<Vec<TaskView>, ToolError> {
        let ReplyData::Tasks(tasks) = self.reply(SessionQuery::TaskList).await? else {
            return Err(other_answer());
        };
        Ok(tasks)
    }
}

/// The error for an answer that does not fit the request.
pub(super) fn other_answer() -> ToolError {
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
