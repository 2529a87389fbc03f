//! The tools for the task graph.

use std::collections::BTreeSet;

use rmcp::schemars::{self, JsonSchema};
use serde::{Deserialize, Serialize};

use super::tool::{McpTool, ToolDescription, ToolEffect};
use crate::{
    engine::{
        input::SessionCommand,
        tasks::{
            command::{NewTask, TaskCommand, TaskCompletion},
            graph::TaskState,
        },
    },
    mcp::session::{PooledConnection, ToolError, other_answer},
    present::{
        task_view::{TaskView, state_names},
        text::some_names,
    },
    protocol::{ReplyData, SessionQuery, SessionRequestError},
};

/// How many task names an error lists.
const SOME: usize = 20;

pub(super) fn tools() -> Vec<McpTool> {
    vec![
        McpTool::new(ADD, add),
        McpTool::new(LIST, list),
        McpTool::new(GET, get),
        McpTool::new(START, start),
        McpTool::new(COMPLETE, complete),
        McpTool::new(BLOCK, block),
        McpTool::new(DEPEND, depend),
    ]
}

const ADD: ToolDescription = ToolDescription {
    name: "task_add",
    title: "Add a task",
    description: "Add a task, for now or later. Returns the new task; pass its `id` to the other tools as `taskId`. A \
                  task waits for the tasks that it depends on. With `queue`, a worker does it.",
    touch: ToolEffect::Anew,
};
const LIST: ToolDescription = ToolDescription {
    name: "task_list",
    title: "List tasks",
    description: "List the tasks of this session, in the order in which they were added: all of them, or only those in \
                  one state, with certain labels, or of one type. You can start those that are `ready`.",
    touch: ToolEffect::Looks,
};
const GET: ToolDescription = ToolDescription {
    name: "task_get",
    title: "Show a task",
    description: "Show everything about one task.",
    touch: ToolEffect::Looks,
};
const START: ToolDescription = ToolDescription {
    name: "task_start",
    title: "Start a task",
    description: "Report that you start a task, so that no other agent starts it. It must not depend on open tasks.",
    touch: ToolEffect::Once,
};
const COMPLETE: ToolDescription = ToolDescription {
    name: "task_complete",
    title: "Complete a task",
    description: "Report that a task is done, with its result. The user's checks for completed tasks run now; a later \
                  prompt contains their findings. Tasks that depended on this one may become ready.",
    touch: ToolEffect::Once,
};
const BLOCK: ToolDescription = ToolDescription {
    name: "task_block",
    title: "Mark a task as blocked",
    description: "Report that you cannot continue a task, why, and what the user has to decide or provide.",
    touch: ToolEffect::Anew,
};
const DEPEND: ToolDescription = ToolDescription {
    name: "task_depend",
    title: "Add a dependency",
    description: "Make a task wait until another one is completed, or with `remove` no longer. creel refuses cycles.",
    touch: ToolEffect::Once,
};

/// A task to add.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TaskAddInput {
    /// The goal.
    goal: String,
    /// The id: letters, digits, `-` and `_`. Default: the next number.
    #[serde(default, alias = "task_id")]
    task_id: Option<String>,
    /// What the task must produce.
    #[serde(default)]
    deliverables: Vec<String>,
    /// Labels.
    #[serde(default)]
    labels: Vec<String>,
    /// The priority from 0, the highest, to 4. Default: 2.
    #[serde(default)]
    #[schemars(range(min = 0, max = 4))]
    priority: Option<u8>,
    /// The type, if the project has task types.
    #[serde(default, rename = "type")]
    kind: Option<String>,
    /// The parent task.
    #[serde(default, alias = "parent_id")]
    parent_id: Option<String>,
    /// The tasks that must be completed first.
    #[serde(default, alias = "depends_on")]
    depends_on: Vec<String>,
    /// Whether a worker (`creel worker`) does it instead of you. It enters the queue when it is
    /// ready, and its state here follows its state there.
    #[serde(default)]
    queue: bool,
    /// With `queue`: the agents that may work on it. Default: those of its type, or all.
    #[serde(default)]
    agents: BTreeSet<String>,
}

/// A filter for tasks.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TaskListInput {
    /// Only tasks in this state.
    #[serde(default)]
    #[schemars(schema_with = "state_names")]
    state: Option<TaskState>,
    /// Only tasks with all of these labels.
    #[serde(default)]
    labels: Vec<String>,
    /// Only tasks of this type.
    #[serde(default, rename = "type")]
    kind: Option<String>,
}

/// A task.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TaskGetInput {
    /// The task's id.
    #[serde(alias = "task_id")]
    task_id: String,
}

/// A task to start.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TaskStartInput {
    /// The task's id.
    #[serde(alias = "task_id")]
    task_id: String,
    /// What the user should know, for example how you plan to do it.
    #[serde(default)]
    context: Option<String>,
}

/// The result of a task.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TaskCompleteInput {
    /// The task's id.
    #[serde(alias = "task_id")]
    task_id: String,
    /// The result.
    #[serde(default)]
    result: Option<String>,
    /// The files and other artifacts that you made.
    #[serde(default)]
    artifacts: Vec<String>,
}

/// A blocked task.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TaskBlockInput {
    /// The task's id.
    #[serde(alias = "task_id")]
    task_id: String,
    /// Why you cannot continue.
    reason: String,
    /// What an agent must know to continue.
    #[serde(default, alias = "required_knowledge")]
    required_knowledge: Vec<String>,
}

/// A dependency.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TaskDependInput {
    /// The task that depends on the other.
    #[serde(alias = "task_id")]
    task_id: String,
    /// The task that must be completed first.
    #[serde(alias = "depends_on")]
    depends_on: String,
    /// Whether to remove the dependency.
    #[serde(default)]
    remove: bool,
}

/// Tasks.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct TaskListOutput {
    /// The number of tasks in the list.
    task_count: usize,
    /// The tasks, in the order in which they were added.
    tasks: Vec<TaskView>,
}

async fn add(line: &mut PooledConnection, new: TaskAddInput) -> Result<TaskView, ToolError> {
    let TaskAddInput {
        goal,
        task_id: id,
        deliverables,
        labels,
        priority,
        kind,
        parent_id: parent,
        depends_on,
        queue,
        agents,
    } = new;
    if !queue && !agents.is_empty() {
        return Err(ToolError::Job(
            "`agents` limits which workers get a task from the queue; set `queue` too".into(),
        ));
    }
    let named: Vec<String> = parent.iter().chain(&depends_on).cloned().collect();
    let named: Vec<&String> = named.iter().collect();
    let (dependencies, queue) = (depends_on, queue.then_some(agents));
    let new = NewTask {
        id,
        goal,
        deliverables,
        labels,
        priority,
        kind,
        parent,
        dependencies,
        queue,
    };
    match line
        .ask(SessionCommand::Task {
            task: TaskCommand::Add(new),
        })
        .await
    {
        Ok(Some(ReplyData::Added(id))) => one(line, &id).await,
        Ok(_) => Err(other_answer()),
        Err(error) => Err(explained(line, error, &named).await),
    }
}

async fn list(
    line: &mut PooledConnection,
    wanted: TaskListInput,
) -> Result<TaskListOutput, ToolError> {
    let TaskListInput {
        state,
        labels,
        kind,
    } = wanted;
    let mut tasks = line.tasks().await?;
    tasks.retain(|task| {
        state.is_none_or(|state| task.state == state)
            && labels.iter().all(|label| task.labels.contains(label))
            && kind
                .as_ref()
                .is_none_or(|kind| task.kind.as_ref() == Some(kind))
    });
    Ok(TaskListOutput {
        task_count: tasks.len(),
        tasks,
    })
}

async fn get(
    line: &mut PooledConnection,
    TaskGetInput { task_id }: TaskGetInput,
) -> Result<TaskView, ToolError> {
    one(line, &task_id).await
}

async fn start(
    line: &mut PooledConnection,
    TaskStartInput {
        task_id: id,
        context,
    }: TaskStartInput,
) -> Result<TaskView, ToolError> {
    change(
        line,
        &[&id],
        TaskCommand::Start {
            id: id.clone(),
            context,
        },
    )
    .await
}

async fn complete(
    line: &mut PooledConnection,
    done: TaskCompleteInput,
) -> Result<TaskView, ToolError> {
    let TaskCompleteInput {
        task_id: id,
        result,
        artifacts,
    } = done;
    let completion = TaskCompletion {
        id: id.clone(),
        content: None,
        result,
        artifacts,
    };
    change(line, &[&id], TaskCommand::Complete(completion)).await
}

async fn block(line: &mut PooledConnection, held: TaskBlockInput) -> Result<TaskView, ToolError> {
    let TaskBlockInput {
        task_id: id,
        reason,
        required_knowledge,
    } = held;
    change(
        line,
        &[&id],
        TaskCommand::Block {
            id: id.clone(),
            reason,
            required_knowledge,
        },
    )
    .await
}

async fn depend(line: &mut PooledConnection, edge: TaskDependInput) -> Result<TaskView, ToolError> {
    let TaskDependInput {
        task_id,
        depends_on,
        remove,
    } = edge;
    let (id, on) = (task_id.clone(), depends_on.clone());
    let command = if remove {
        TaskCommand::Undepend { id, on }
    } else {
        TaskCommand::Depend { id, on }
    };
    change(line, &[&task_id, &depends_on], command).await
}

/// Changes the first of the named tasks and returns it.
async fn change(
    line: &mut PooledConnection,
    named: &[&String],
    command: TaskCommand,
) -> Result<TaskView, ToolError> {
    let starts = matches!(command, TaskCommand::Start { .. });
    match line.ask(SessionCommand::Task { task: command }).await {
        Ok(_) => one(line, named[0]).await,
        Err(SessionRequestError::Refused(why)) if starts => Err(ToolError::Job(
            why.text + &held_up(&line.tasks().await?, named[0]),
        )),
        Err(error) => Err(explained(line, error, named).await),
    }
}

async fn one(line: &mut PooledConnection, id: &String) -> Result<TaskView, ToolError> {
    match line.ask(SessionQuery::TaskShow { id: id.clone() }).await {
        Ok(Some(ReplyData::Task(task))) => Ok(*task),
        Ok(_) => Err(other_answer()),
        Err(error) => Err(explained(line, error, &[id]).await),
    }
}

/// The reason of a refusal, with the known tasks if a named one does not exist.
async fn explained(
    line: &mut PooledConnection,
    error: SessionRequestError,
    named: &[&String],
) -> ToolError {
    let SessionRequestError::Refused(why) = error else {
        return error.into();
    };
    match line.tasks().await {
        Ok(tasks) => ToolError::Job(why.text + &instead(&tasks, named)),
        Err(_) => ToolError::Job(why.text),
    }
}

/// The known tasks, if one of the named does not exist.
fn instead(tasks: &[TaskView], named: &[&String]) -> String {
    let is_known = |id: &String| tasks.iter().any(|task| task.id == *id);
    match named.iter().find(|id| !is_known(id)) {
        None => String::new(),
        Some(_) if tasks.is_empty() => "\nno tasks yet; add one with task_add".into(),
        Some(_) => format!("\nuse one of: {}", names(tasks.iter())),
    }
}

/// The open dependencies of a task, or the known tasks if it does not exist.
fn held_up(tasks: &[TaskView], id: &String) -> String {
    let Some(task) = tasks.iter().find(|task| task.id == *id) else {
        return instead(tasks, &[id]);
    };
    let is_open = |other: &&TaskView| {
        task.dependencies.contains(&other.id) && other.state != TaskState::Completed
    };
    match names(tasks.iter().filter(is_open)) {
        none if none.is_empty() => none,
        some => format!("\nit depends on: {some}"),
    }
}

fn names<'a>(tasks: impl Iterator<Item = &'a TaskView>) -> String {
    let all: Vec<String> = tasks
        .map(|task| format!("{} ({})", task.id, task.state.name()))
        .collect();
    some_names(&all, SOME)
        + if all.len() > SOME {
            "; list them with task_list"
        } else {
            ""
        }
}
