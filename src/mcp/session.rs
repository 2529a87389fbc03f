//! The tools for the session itself.

use std::time::Duration;

use rmcp::schemars::{self, JsonSchema};
use serde::{Deserialize, Serialize};

use super::tool::{McpTool, ToolDescription, ToolEffect};
use crate::{
    engine::{input::SessionCommand, tasks::graph::TaskState},
    mcp::session_pool::{PooledConnection, ToolError, other_answer},
    present::task_view::TaskView,
    protocol::{
        ReplyData, SessionQuery,
        view::{GateView, StatusView},
    },
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
