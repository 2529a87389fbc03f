//! A task as clients and hooks see it.

use rmcp::schemars::{self, JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::engine::{
    tasks::{
        command::TaskRefusal,
        graph::{Task, TaskGraph, TaskState},
    },
    time::UnixTime,
};

/// A task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskView {
    /// Its name.
    pub id: String,
    /// What is to be reached.
    pub goal: String,
    /// Where it is.
    #[schemars(schema_with = "state_names")]
    pub state: TaskState,
    /// 0 is the highest, 4 the lowest.
    pub priority: u8,
    /// Of which type it is.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Words to find it by.
    pub labels: Vec<String>,
    /// What is to be there in the end.
    pub deliverables: Vec<String>,
    /// What has to be completed before it.
    pub dependencies: Vec<String>,
    /// How many of these are not completed.
    pub open_dependencies: usize,
    /// The tasks that wait for it.
    pub dependents: Vec<String>,
    /// The task that it came from.
    pub parent: Option<String>,
    /// The workers that may do it, if a queue hands it out; empty: any worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Vec<String>>,
    /// What came of it.
    pub result: Option<String>,
    /// What was made.
    pub artifacts: Vec<String>,
    /// Why it is blocked.
    pub reason: Option<String>,
    /// What a worker must know to continue.
    pub required_knowledge: Vec<String>,
    /// When it was added.
    pub created_at: String,
    /// When it was first started.
    pub started_at: Option<String>,
    /// When it was completed.
    pub completed_at: Option<String>,
}

/// The states, for a JSON schema.
pub fn state_names(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": TaskState::ALL.map(TaskState::name) })
}

/// All tasks, in the order in which they were added.
pub fn all(graph: &TaskGraph) -> Vec<TaskView> {
    graph
        .tasks()
        .into_iter()
        .map(|task| TaskView::of(graph, task))
        .collect()
}

/// The tasks that are handed over to the queue.
pub fn handed(graph: &TaskGraph) -> Vec<TaskView> {
    graph
        .tasks()
        .into_iter()
        .filter(|task| task.queue.is_some())
        .map(|task| TaskView::of(graph, task))
        .collect()
}

/// The task with that id.
pub fn one(graph: &TaskGraph, id: &str) -> Result<TaskView, TaskRefusal> {
    let task = graph
        .get(id)
        .ok_or_else(|| TaskRefusal::NoSuchTask(id.to_owned()))?;
    Ok(TaskView::of(graph, task))
}

impl TaskView {
    fn of(graph: &TaskGraph, task: &Task) -> Self {
        Self {
            id: task.id.clone(),
            goal: task.goal.clone(),
            state: task.state,
            priority: task.priority,
            kind: task.kind.clone(),
            labels: task.labels.clone(),
            deliverables: task.deliverables.clone(),
            dependencies: task.dependencies.iter().cloned().collect(),
            open_dependencies: task.open_dependencies(),
            dependents: graph
                .dependents(&task.id)
                .into_iter()
                .map(|task| task.id.clone())
                .collect(),
            parent: task.parent.clone(),
            queue: task
                .queue
                .as_ref()
                .map(|agents| agents.iter().cloned().collect()),
            result: task.result.clone(),
            artifacts: task.artifacts.clone(),
            reason: task.reason.clone(),
            required_knowledge: task.required_knowledge.clone(),
            created_at: task.created.rfc3339(),
            started_at: task.started.map(UnixTime::rfc3339),
            completed_at: task.completed.map(UnixTime::rfc3339),
        }
    }
}
