//! The tools for the session itself, and the connections of the tool server to its session.
//!
//! Owns when creel looks for the session: at the first call, and again when the known one has
//! ended.
//!
//! # Invariants
//! - Each call has its own connection, so that no call waits for the answer of another one.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rmcp::schemars::{self, JsonSchema};
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::tool::{McpTool, ToolDescription, ToolEffect};
use crate::{
    engine::{input::SessionCommand, tasks::graph::TaskState},
    journal::SessionDir,
    present::task_view::TaskView,
    protocol::{
        ClientKind, ReplyData, SessionQuery, SessionRequest, SessionRequestError,
        view::{GateView, StatusView},
    },
    sessions::session_client::SessionClient,
};

pub(super) fn tools() -> Vec<McpTool> {
    vec![
        McpTool::new(STATUS, status),
        McpTool::new(COMPLETE, complete),
    ]
}

/// The interval between two looks at a session whose checks run.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

const STATUS: ToolDescription = ToolDescription {
    name: "session_status",
    title: "Show the session",
    description: "Show the session that supervises you: its iteration and the maximum, the retries since the last new \
                  message, the pending items for you, whether it needs the user, and how many tasks are in each state.",
    touch: ToolEffect::Looks,
};
const COMPLETE: ToolDescription = ToolDescription {
    name: "session_complete",
    title: "Report that the whole work is done",
    description: "Report that the work of the whole session is done, like <promise>COMPLETE</promise> in your last \
                  message. creel evaluates this when your turn ends, so end it then; the next prompt says what is \
                  missing.",
    touch: ToolEffect::Once,
};

/// The report that the work is done.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SessionCompleteInput {
    /// The reason.
    #[serde(default)]
    reason: String,
}

/// The result.
#[derive(Debug, Serialize, JsonSchema)]
struct SessionCompleteOutput {
    /// The session's name.
    session: String,
    /// What happens next.
    next: String,
}

/// No arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EmptyInput {}

/// The status of a session.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct SessionStatusOutput {
    /// The session's name.
    session: String,
    /// The state: running, paused, waiting (for the user), or how it ended.
    state: String,
    /// The current activity.
    doing: String,
    /// The current iteration, from 1.
    iteration: u32,
    /// The maximum number of iterations.
    max_iterations: u32,
    /// How many times a check has sent you back since the last new message.
    retries: u32,
    /// The maximum number of retries.
    max_retries: u32,
    /// How many pending items the next prompt will contain.
    pending: usize,
    /// How many messages of the user the next prompt will contain.
    messages: usize,
    /// The decision that the session waits for.
    gate: Option<OpenGateOutput>,
    /// The agent's name.
    agent: String,
    /// The project folder.
    cwd: String,
    /// When the session started.
    started: String,
    /// The number of tasks in each state.
    tasks: TaskCountsOutput,
}

/// A gate: the session waits for the user.
#[derive(Debug, Serialize, JsonSchema)]
struct OpenGateOutput {
    /// The gate's number.
    gate: u64,
    /// The kind of gate.
    about: String,
    /// Why the session waits.
    reason: String,
}

/// The number of tasks.
#[derive(Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
struct TaskCountsOutput {
    /// Tasks that depend on open tasks.
    created: usize,
    /// Tasks that can start.
    ready: usize,
    /// Tasks that an agent works on.
    active: usize,
    /// Blocked tasks.
    blocked: usize,
    /// Completed tasks.
    completed: usize,
}

async fn status(
    line: &mut PooledConnection,
    _: EmptyInput,
) -> Result<SessionStatusOutput, ToolError> {
    let ReplyData::Status(status) = line.reply(SessionQuery::Status).await? else {
        return Err(other_answer());
    };
    Ok(SessionStatusOutput::of(*status, &line.tasks().await?))
}

async fn complete(
    line: &mut PooledConnection,
    SessionCompleteInput { reason }: SessionCompleteInput,
) -> Result<SessionCompleteOutput, ToolError> {
    let ReplyData::Status(status) = line.reply(SessionQuery::Status).await? else {
        return Err(other_answer());
    };
    line.ask(SessionCommand::CompleteSession { reason }).await?;
    let next = if status.led_from_outside {
        verified(line).await?;
        "the session is complete and has ended"
    } else {
        "end your turn: creel then evaluates whether the work is done"
    };
    Ok(SessionCompleteOutput {
        session: status.session,
        next: next.into(),
    })
}

/// Waits until the checks have judged the work of an agent that drives itself. A red check refuses
/// the completion.
async fn verified(line: &mut PooledConnection) -> Result<(), ToolError> {
    loop {
        // A session that cannot be asked any more has ended.
        let Ok(ReplyData::Status(status)) = line.reply(SessionQuery::Status).await else {
            return Ok(());
        };
        if let Some(gate) = status.gate {
            return Err(ToolError::Job(format!(
                "the session is not complete. It needs the user: {}",
                gate.reason
            )));
        }
        if let Some(why) = status.completion_refused {
            return Err(ToolError::Job(format!(
                "the session is not complete. Mend this, then report completion again.\n{why}"
            )));
        }
        if status.outcome.is_some() {
            return Ok(());
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

impl SessionStatusOutput {
    fn of(status: StatusView, tasks: &[TaskView]) -> Self {
        Self {
            session: status.session,
            state: status.state,
            doing: status.doing,
            iteration: status.iteration,
            max_iterations: status.max_iterations,
            retries: status.counts.retries,
            max_retries: status.counts.max_retries,
            pending: status.counts.pending,
            messages: status.counts.messages,
            gate: status.gate.map(OpenGateOutput::of),
            agent: status.agent,
            cwd: status.cwd,
            started: status.started,
            tasks: TaskCountsOutput::of(tasks),
        }
    }
}

impl OpenGateOutput {
    fn of(gate: GateView) -> Self {
        Self {
            gate: gate.gate.0,
            about: gate.about.name().to_owned(),
            reason: gate.reason,
        }
    }
}

impl TaskCountsOutput {
    fn of(tasks: &[TaskView]) -> Self {
        let mut counts = Self::default();
        for task in tasks {
            *match task.state {
                TaskState::Created => &mut counts.created,
                TaskState::Ready => &mut counts.ready,
                TaskState::Active => &mut counts.active,
                TaskState::Blocked => &mut counts.blocked,
                TaskState::Completed => &mut counts.completed,
            } += 1;
        }
        counts
    }
}

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
