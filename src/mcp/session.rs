//! The tools for the session itself.

use rmcp::schemars::{self, JsonSchema};
use serde::{Deserialize, Serialize};

use super::tool::{McpTool, ToolDescription, ToolEffect, ToolError};
use crate::{
    engine::{input::SessionCommand, tasks::task::TaskState},
    mcp::connection_pool::{PooledConnection, other_answer},
    present::task_view::TaskView,
    socket::{
        message::ReplyData,
        query::SessionQuery,
        view::{GateView, StatusView},
    },
};

pub(super) fn tools() -> Vec<McpTool> {
    vec![McpTool::new(STATUS, status), McpTool::new(COMPLETE, complete)]
}

const STATUS: ToolDescription = ToolDescription {
    name: "session_status",
    title: "Look at the session",
    description: "Where the session that supervises you is: its iteration and how many there may be, the retries since the \
                  last new message, what is held for you, whether it waits for a person, and how many tasks there are in \
                  each state.",
    touch: ToolEffect::Looks,
};
const COMPLETE: ToolDescription = ToolDescription {
    name: "session_complete",
    title: "Say that the whole work is done",
    description: "Say that the work of the whole session is done, as <promise>COMPLETE</promise> in your last message does. \
                  It is judged when your turn ends, so end it then; what is missing comes with the next prompt.",
    touch: ToolEffect::Once,
};

/// That the work is done.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SessionCompleteInput {
    /// What makes you say so.
    #[serde(default)]
    reason: String,
}

/// What follows from it.
#[derive(Debug, Serialize, JsonSchema)]
struct SessionCompleteOutput {
    /// The session's name.
    session: String,
    /// What happens now.
    next: String,
}

/// Nothing has to be said.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EmptyInput {}

/// Where a session is.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct SessionStatusOutput {
    /// The session's name.
    session: String,
    /// In a word: running, paused, waiting (for a person), or how it ended.
    state: String,
    /// In a few words.
    doing: String,
    /// The current iteration, from 1.
    iteration: u32,
    /// How many there may be.
    max_iterations: u32,
    /// How often a check has sent you back since the last new message.
    retries: u32,
    /// How often it may.
    max_retries: u32,
    /// How many pieces of output wait to go with the next prompt.
    pending: usize,
    /// How many messages of people wait to go with the next prompt.
    messages: usize,
    /// What it waits for a person to decide.
    gate: Option<OpenGateOutput>,
    /// The agent's name.
    agent: String,
    /// The project's folder.
    cwd: String,
    /// When the session began.
    started: String,
    /// How many tasks there are, by their state.
    tasks: TaskCountsOutput,
}

/// A gate: the session waits for a person.
#[derive(Debug, Serialize, JsonSchema)]
struct OpenGateOutput {
    /// Its number.
    gate: u64,
    /// What it is about.
    about: String,
    /// Why the session waits.
    reason: String,
}

/// How many tasks there are.
#[derive(Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
struct TaskCountsOutput {
    /// They wait for others.
    created: usize,
    /// They can be started.
    ready: usize,
    /// An agent works on them.
    active: usize,
    /// They are blocked.
    blocked: usize,
    /// They are done.
    completed: usize,
}

async fn status(line: &mut PooledConnection, _: EmptyInput) -> Result<SessionStatusOutput, ToolError> {
    let ReplyData::Status(status) = line.told(SessionQuery::Status).await? else { return Err(other_answer()) };
    Ok(SessionStatusOutput::of(*status, &line.tasks().await?))
}

async fn complete(
    line: &mut PooledConnection,
    SessionCompleteInput { reason }: SessionCompleteInput,
) -> Result<SessionCompleteOutput, ToolError> {
    let ReplyData::Status(status) = line.told(SessionQuery::Status).await? else { return Err(other_answer()) };
    line.ask(SessionCommand::CompleteSession { reason }).await?;
    let next = if status.led_from_outside {
        "the session is complete, and over"
    } else {
        "end your turn: then it is judged whether the work is done"
    };
    Ok(SessionCompleteOutput { session: status.session, next: next.into() })
}

impl SessionStatusOutput {
    fn of(status: StatusView, tasks: &[TaskView]) -> Self {
        Self {
            session: status.session,
            state: status.state,
            doing: status.doing,
            iteration: status.iteration,
            max_iterations: status.max_iterations,
            retries: status.retries,
            max_retries: status.max_retries,
            pending: status.pending,
            messages: status.messages,
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
        Self { gate: gate.gate.0, about: gate.about.name().to_owned(), reason: gate.reason }
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
