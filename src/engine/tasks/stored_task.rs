//! How the tasks of a session are stored in a snapshot: with every field, unlike on other surfaces.
//! The same for the task events that wait for automation hooks.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::Value;

use crate::engine::{
    tasks::{
        event::{CUSTOM, TaskEvent},
        task::{Task, TaskState},
    },
    time::UnixTime,
};

#[derive(Serialize, Deserialize)]
#[serde(remote = "Task")]
struct StoredTask {
    id: String,
    goal: String,
    deliverables: Vec<String>,
    labels: Vec<String>,
    priority: u8,
    kind: Option<String>,
    state: TaskState,
    dependencies: BTreeSet<String>,
    parent: Option<String>,
    queue: Option<BTreeSet<String>>,
    result: Option<String>,
    artifacts: Vec<String>,
    reason: Option<String>,
    required_knowledge: Vec<String>,
    created: UnixTime,
    started: Option<UnixTime>,
    completed: Option<UnixTime>,
    open: usize,
    number: u64,
}

#[derive(Serialize)]
struct TaskToStore<'a>(#[serde(serialize_with = "whole")] &'a Task);

#[derive(Deserialize)]
struct TaskFromStore(#[serde(with = "StoredTask")] Task);

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn whole<S: Serializer>(task: &&Task, serializer: S) -> Result<S::Ok, S::Error> {
    StoredTask::serialize(task, serializer)
}

pub(super) fn serialize<S: Serializer>(
    tasks: &BTreeMap<String, Task>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(tasks.iter().map(|(id, task)| (id, TaskToStore(task))))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, Task>, D::Error> {
    let stored = BTreeMap::<String, TaskFromStore>::deserialize(deserializer)?;
    Ok(stored
        .into_iter()
        .map(|(id, TaskFromStore(task))| (id, task))
        .collect())
}

/// Reads a task event. Those of a custom kind have a form of their own, as in records.
pub(super) fn task_event<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Box<TaskEvent>, D::Error> {
    let stored = Value::deserialize(deserializer)?;
    let is_custom = stored
        .get("kind")
        .and_then(Value::as_str)
        .is_some_and(|kind| kind.starts_with(CUSTOM));
    let event = if is_custom {
        serde_json::from_value(stored).map(TaskEvent::Custom)
    } else {
        serde_json::from_value(stored)
    };
    event.map(Box::new).map_err(D::Error::custom)
}
