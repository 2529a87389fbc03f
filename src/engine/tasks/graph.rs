//! The task graph: tasks with their goal and state, and their dependencies.
//!
//! Owns the edges in both directions, so that completing or removing a task costs only its own
//! edges, whatever the size of the graph. Applies records; [`super::command`] decides which
//! commands are allowed.
//!
//! # Invariants
//! - A ready task has no open dependency. A waiting task becomes ready by itself when its last open
//!   edge is removed, but not when its last open dependency is completed: a hook decides that.
//! - There are no cycles, and every edge connects two existing tasks.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Deref,
};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::engine::{
    tasks::{
        command::NewTask,
        record::{TaskCreated, TaskRecordData, TaskRecordRef, TaskUpdated},
    },
    time::{UnixTime, as_rfc3339, rfc3339_or_none},
};

/// creel never generates larger numbers, so a larger number in an id is ignored.
const NUMBERS: u64 = 1 << 53;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskGraph {
    tasks: BTreeMap<String, Task>,
    /// The tasks that wait for a task.
    dependents: BTreeMap<String, BTreeSet<String>>,
    /// The tasks that came from a task.
    children: BTreeMap<String, BTreeSet<String>>,
    /// How many tasks were ever added.
    count: u64,
    /// The highest number in an id of the form `task_N`.
    last: u64,
}

impl TaskGraph {
    /// A graph of new tasks. Those without an id get one.
    pub fn of_new(tasks: impl IntoIterator<Item = NewTask>, at: UnixTime) -> Self {
        let mut graph = Self::default();
        for new in tasks {
            let data = TaskCreated {
                description: TaskDescription {
                    goal: new.goal,
                    deliverables: new.deliverables,
                    labels: new.labels,
                    priority: new.priority.unwrap_or(PRIORITY),
                    kind: new.kind,
                },
                parent: new.parent,
                dependencies: new.dependencies,
                queue: new.queue,
                state: TaskState::Created,
            };
            let id = new.id.or_else(|| graph.names().next()).unwrap_or_default();
            graph.created(at, &id, &data);
        }
        graph
    }

    pub fn get(&self, id: &str) -> Option<&Task> {
        self.tasks.get(id)
    }

    /// All tasks, in the order in which they were added.
    pub fn tasks(&self) -> Vec<&Task> {
        let mut all: Vec<&Task> = self.tasks.values().collect();
        all.sort_by_key(|task| task.number);
        all
    }

    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// The tasks that wait for a task, in the order in which they were added.
    pub fn dependents(&self, id: &str) -> Vec<&Task> {
        self.in_order(self.dependents.get(id))
    }

    /// The tasks that came from a task, in the order in which they were added.
    pub fn children(&self, id: &str) -> Vec<&Task> {
        self.in_order(self.children.get(id))
    }

    fn in_order(&self, ids: Option<&BTreeSet<String>>) -> Vec<&Task> {
        let mut all: Vec<&Task> = ids
            .into_iter()
            .flatten()
            .filter_map(|id| self.get(id))
            .collect();
        all.sort_by_key(|task| task.number);
        all
    }

    /// The ids for the next tasks without one. An id is never reused, not even after a removal.
    pub fn names(&self) -> impl Iterator<Item = String> {
        (self.last + 1..).map(|number| format!("task_{number}"))
    }

    /// How many of these tasks are not completed.
    pub fn open_among<'a>(&self, ids: impl IntoIterator<Item = &'a String>) -> usize {
        ids.into_iter()
            .filter(|id| self.get(id).is_some_and(Task::is_open))
            .count()
    }

    /// The path along dependencies from one task to another, both included, if there is one.
    pub fn path(&self, from: &str, to: &str) -> Option<Vec<String>> {
        // Maps each task to the one it was first reached from, so that each task is visited once.
        let mut reached: BTreeMap<&str, &str> = BTreeMap::new();
        let mut next = vec![from];
        while let Some(here) = next.pop() {
            if here == to {
                return Some(way_back(&reached, from, to));
            }
            for there in self
                .get(here)
                .into_iter()
                .flat_map(|task| &task.dependencies)
            {
                if there != from && !reached.contains_key(there.as_str()) {
                    reached.insert(there, here);
                    next.push(there);
                }
            }
        }
        None
    }

    /// How many edges are removed with a task: its dependencies, its dependents, its parent and its
    /// children.
    pub fn edges_of(&self, id: &str) -> usize {
        let Some(task) = self.get(id) else { return 0 };
        let edges =
            |edges: &BTreeMap<String, BTreeSet<String>>| edges.get(id).map_or(0, BTreeSet::len);
        let outward = task.dependencies.len() + usize::from(task.parent.is_some());
        outward + edges(&self.dependents) + edges(&self.children)
    }

    /// The whole graph in the form that hooks receive.
    pub fn to_json(&self) -> Value {
        let tasks = self.tasks();
        let depends = tasks.iter().flat_map(|task| {
            task.dependencies
                .iter()
                .map(|on| json!({ "fromId": task.id, "toId": on, "type": "depends_on" }))
        });
        let spawned = tasks.iter().filter_map(|task| {
            task.parent
                .as_ref()
                .map(|parent| json!({ "fromId": task.id, "toId": parent, "type": "spawned_by" }))
        });
        let edges: Vec<Value> = depends.chain(spawned).collect();
        json!({ "tasks": tasks, "edges": edges })
    }

    /// Applies a record.
    pub(super) fn take(&mut self, at: UnixTime, news: &TaskRecordRef<'_>) {
        let id = news.task;
        match news.what {
            TaskRecordData::Created(data) => self.created(at, id, data),
            TaskRecordData::Started(_) => self.change(id, |task| {
                task.state = TaskState::Active;
                task.started = task.started.or(Some(at));
                unblock(task);
            }),
            TaskRecordData::Completed(data) => {
                let was_open = self.get(id).is_some_and(Task::is_open);
                self.change(id, |task| {
                    task.state = TaskState::Completed;
                    task.completed = Some(at);
                    task.result.clone_from(&data.result);
                    task.artifacts.clone_from(&data.artifacts);
                    unblock(task);
                });
                if was_open {
                    self.for_dependents(id, |task| task.open = task.open.saturating_sub(1));
                }
            }
            TaskRecordData::Blocked(data) => self.change(id, |task| {
                task.state = TaskState::Blocked;
                task.reason = Some(data.reason.clone());
                task.required_knowledge.clone_from(&data.required_knowledge);
            }),
            TaskRecordData::Deleted(_) => self.deleted(id),
            TaskRecordData::Updated(changes) => {
                if let Some(parent) = &changes.description.parent {
                    self.comes_from(id, Some(parent));
                }
                self.change(id, |task| update(task, changes));
            }
            TaskRecordData::DependencyAdded(edge) => self.connect(&edge.from_id, &edge.to_id),
            TaskRecordData::DependencyRemoved(edge) => self.disconnect(&edge.from_id, &edge.to_id),
            TaskRecordData::DependencySatisfied(_)
            | TaskRecordData::Metrics(_)
            | TaskRecordData::Custom(..)
            | TaskRecordData::ActionFailed(_) => {}
        }
    }

    fn change(&mut self, id: &str, change: impl FnOnce(&mut Task)) {
        if let Some(task) = self.tasks.get_mut(id) {
            change(task);
        }
    }

    fn for_dependents(&mut self, id: &str, change: impl Fn(&mut Task)) {
        for dependent in self.dependents.get(id).into_iter().flatten() {
            if let Some(task) = self.tasks.get_mut(dependent) {
                change(task);
            }
        }
    }

    fn created(&mut self, at: UnixTime, id: &str, data: &TaskCreated) {
        self.count += 1;
        let number = id
            .strip_prefix("task_")
            .and_then(|number| number.parse().ok());
        self.last = self
            .last
            .max(number.filter(|number| *number < NUMBERS).unwrap_or(0));
        for on in &data.dependencies {
            self.dependents
                .entry(on.clone())
                .or_default()
                .insert(id.to_owned());
        }
        let task = Task {
            id: id.to_owned(),
            description: data.description.clone(),
            state: data.state,
            dependencies: data.dependencies.iter().cloned().collect(),
            parent: None,
            queue: data.queue.clone(),
            result: None,
            artifacts: Vec::new(),
            reason: None,
            required_knowledge: Vec::new(),
            created: at,
            started: None,
            completed: None,
            open: self.open_among(&data.dependencies),
            number: self.count,
        };
        self.tasks.insert(task.id.clone(), task);
        self.comes_from(id, data.parent.as_deref());
    }

    /// Replaces a task's parent.
    fn comes_from(&mut self, id: &str, parent: Option<&str>) {
        let before = self.get(id).and_then(|task| task.parent.clone());
        if let Some(siblings) = before.and_then(|before| self.children.get_mut(&before)) {
            siblings.remove(id);
        }
        if let Some(parent) = parent {
            self.children
                .entry(parent.to_owned())
                .or_default()
                .insert(id.to_owned());
        }
        self.change(id, |task| task.parent = parent.map(str::to_owned));
    }

    fn deleted(&mut self, id: &str) {
        let Some(task) = self.tasks.get(id) else {
            return;
        };
        let dependencies: Vec<String> = task.dependencies.iter().cloned().collect();
        let dependents: Vec<String> = self
            .dependents
            .get(id)
            .into_iter()
            .flatten()
            .cloned()
            .collect();
        for on in dependencies {
            self.disconnect(id, &on);
        }
        for from in dependents {
            self.disconnect(&from, id);
        }
        for child in self.children.remove(id).unwrap_or_default() {
            self.comes_from(&child, None);
        }
        self.comes_from(id, None);
        self.tasks.remove(id);
        self.dependents.remove(id);
    }

    fn connect(&mut self, from: &str, to: &str) {
        let open = self.get(to).is_some_and(Task::is_open);
        self.change(from, |task| {
            if !task.dependencies.insert(to.to_owned()) || !open {
                return;
            }
            task.open += 1;
            if task.state == TaskState::Ready {
                task.state = TaskState::Created;
            }
        });
        self.dependents
            .entry(to.to_owned())
            .or_default()
            .insert(from.to_owned());
    }

    fn disconnect(&mut self, from: &str, to: &str) {
        let open = self.get(to).is_some_and(Task::is_open);
        self.change(from, |task| {
            if task.dependencies.remove(to) && open {
                task.open = task.open.saturating_sub(1);
            }
            if task.open == 0 && task.state == TaskState::Created {
                task.state = TaskState::Ready;
            }
        });
        if let Some(waiting) = self.dependents.get_mut(to) {
            waiting.remove(from);
        }
    }
}

fn update(task: &mut Task, changes: &TaskUpdated) {
    task.description = task.description.changed(&changes.description);
    if let Some(state) = changes.state {
        task.state = state;
        unblock(task);
    }
}

fn unblock(task: &mut Task) {
    task.reason = None;
    task.required_knowledge.clear();
}

fn way_back(reached: &BTreeMap<&str, &str>, from: &str, to: &str) -> Vec<String> {
    let mut way = vec![to.to_owned()];
    let mut here = to;
    while here != from {
        let Some(before) = reached.get(here) else {
            break;
        };
        here = before;
        way.push(here.to_owned());
    }
    way.reverse();
    way
}

/// The default priority.
pub const PRIORITY: u8 = 2;
/// The lowest priority; 0 is the highest.
pub const LOWEST: u8 = 4;

/// What a task is about, wherever the task is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskDescription {
    #[serde(alias = "content")]
    pub goal: String,
    pub deliverables: Vec<String>,
    pub labels: Vec<String>,
    /// 0 is the highest, 4 the lowest.
    pub priority: u8,
    /// The type's name in the config.
    #[serde(rename = "type")]
    pub kind: Option<String>,
}

impl Default for TaskDescription {
    fn default() -> Self {
        Self {
            goal: String::new(),
            deliverables: Vec::new(),
            labels: Vec::new(),
            priority: PRIORITY,
            kind: None,
        }
    }
}

impl TaskDescription {
    /// The description after some changes. A parent is not part of it.
    pub(crate) fn changed(&self, changes: &TaskDescriptionChanges) -> Self {
        let TaskDescriptionChanges {
            goal,
            deliverables,
            labels,
            priority,
            kind,
            parent: _,
        } = changes.clone();
        let before = self.clone();
        Self {
            goal: goal.unwrap_or(before.goal),
            deliverables: deliverables.unwrap_or(before.deliverables),
            labels: labels.unwrap_or(before.labels),
            priority: priority.unwrap_or(before.priority),
            kind: kind.or(before.kind),
        }
    }
}

/// A field that is not set stays the same.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskDescriptionChanges {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deliverables: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(alias = "parentTaskId", alias = "parentId")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
}

/// Hooks get it as JSON in this form, and so do snapshots of the state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    pub id: String,
    #[serde(flatten)]
    pub description: TaskDescription,
    pub state: TaskState,
    /// Tasks that must be completed first.
    pub dependencies: BTreeSet<String>,
    /// The task that it came from.
    pub parent: Option<String>,
    /// The agents that can work on it through the queue; empty means all. None: it is done in its
    /// session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<BTreeSet<String>>,
    pub result: Option<String>,
    pub artifacts: Vec<String>,
    /// Why it is blocked.
    pub reason: Option<String>,
    /// Information that is missing to continue.
    pub required_knowledge: Vec<String>,
    #[serde(rename = "createdAt", with = "as_rfc3339")]
    pub created: UnixTime,
    /// When it was first started.
    #[serde(rename = "startedAt", with = "rfc3339_or_none")]
    pub started: Option<UnixTime>,
    #[serde(rename = "completedAt", with = "rfc3339_or_none")]
    pub completed: Option<UnixTime>,
    /// How many of its dependencies are not completed.
    #[serde(rename = "openDependencies")]
    pub(super) open: usize,
    /// Its position among all tasks that were ever added.
    pub(super) number: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// It waits for its dependencies.
    Created,
    /// It can be started.
    Ready,
    Active,
    Blocked,
    Completed,
}

impl TaskState {
    pub const ALL: [Self; 5] = [
        Self::Created,
        Self::Ready,
        Self::Active,
        Self::Blocked,
        Self::Completed,
    ];

    /// The name in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Ready => "ready",
            Self::Active => "active",
            Self::Blocked => "blocked",
            Self::Completed => "completed",
        }
    }
}

impl Deref for Task {
    type Target = TaskDescription;

    fn deref(&self) -> &TaskDescription {
        &self.description
    }
}

impl Task {
    /// How many of its dependencies are not completed.
    pub const fn open_dependencies(&self) -> usize {
        self.open
    }

    pub fn has_label(&self, label: &str) -> bool {
        self.labels.iter().any(|own| own == label)
    }

    pub fn is_open(&self) -> bool {
        self.state != TaskState::Completed
    }

    /// Whether it is given to queue workers: its session does not decide about it.
    pub const fn is_elsewhere(&self) -> bool {
        self.queue.is_some()
    }

    /// Whether it is in progress in its own session.
    pub fn is_worked_on_here(&self) -> bool {
        self.state == TaskState::Active && !self.is_elsewhere()
    }
}
