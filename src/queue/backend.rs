//! What a queue needs from the place where it keeps its tasks: a NATS server, or a folder of the
//! project.
//!
//! A [`TaskStore`] has all tasks, with compare-and-swap. A [`ReadyLine`] hands each ready task to
//! one worker, and a [`TaskLease`] is the worker's hold on it. Tasks of the same priority, type and
//! allowed agents form a [`DispatchGroup`]. A worker asks the groups that it can serve, the highest
//! priority first. Groups of the same priority take turns; within a group, the oldest task comes
//! first.
//!
//! Does not decide how a task can change: see [`crate::engine::queue`].

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    pin::Pin,
    time::Duration,
};

use crate::{
    engine::queue::{QueuedTask, task_spec::TaskSpec},
    nats::connection::NatsError,
    queue::local_store::LocalQueueError,
};

/// The answer of a place, boxed, so that one worker serves every kind of place.
pub type QueueFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, QueueFailure>> + Send + 'a>>;
/// Which groups a worker asks for.
pub type WantedGroups<'a> = &'a mut (dyn FnMut(&DispatchGroup) -> bool + Send);

/// Why a place does not answer. It may do so later.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueueFailure {
    #[error("NATS: {0}")]
    Nats(#[from] NatsError),
    #[error("the local queue: {0}")]
    Local(#[from] LocalQueueError),
}

/// The key of a task: its session and its name there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueTaskKey {
    owner: String,
    id: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct TaskRevision {
    pub task: QueuedTask,
    /// Grows with every change in the queue.
    pub revision: u64,
}

/// All tasks with their states.
///
/// # Invariants
/// - A write succeeds only if the task has not changed since it was read.
/// - A name is used for one task at a time. That of a removed task can be used again.
pub trait TaskStore: fmt::Debug + Send + Sync {
    fn get<'a>(&'a self, key: &'a QueueTaskKey) -> QueueFuture<'a, Option<TaskRevision>>;

    /// Writes a task if its revision is still `read`; 0 means that it did not exist. `None` if
    /// another process was faster.
    fn write<'a>(&'a self, task: &'a QueuedTask, read: u64) -> QueueFuture<'a, Option<u64>>;

    /// A number that is likely to be free as the name of the next task.
    fn next_number(&self) -> QueueFuture<'_, u64>;

    /// All tasks in the order of their last change. Skips those in a format that this creel cannot
    /// read.
    fn all(&self) -> QueueFuture<'_, Vec<QueuedTask>>;

    /// The changes of all tasks, or of the tasks of one session if `owner` is not empty.
    fn changes<'a>(&'a self, owner: &'a str) -> QueueFuture<'a, Box<dyn ChangeFeed>>;
}

/// The changes of tasks: first each task as it is, then each change.
pub trait ChangeFeed: Send {
    /// All tasks as they are. Skips those in a format that this creel cannot read.
    fn all(&mut self) -> QueueFuture<'_, BTreeMap<QueueTaskKey, TaskRevision>>;

    /// The next change. `None` if this creel cannot read its format. Nothing is lost if the caller
    /// drops the future.
    fn next(&mut self) -> QueueFuture<'_, Option<TaskRevision>>;
}

/// The tasks that are ready to start.
///
/// # Invariants
/// - A task is handed to one worker at a time. One whose worker is silent for longer than its lease
///   is handed out again.
/// - The highest priority comes first; groups of the same priority take turns; in a group, the
///   oldest task comes first.
pub trait ReadyLine: fmt::Debug + Send {
    /// Puts a task into the line, unless it is already there.
    fn put<'a>(&'a mut self, order: &'a TaskSpec) -> QueueFuture<'a, ()>;

    /// Puts those of the tasks into the line that are missing there.
    fn restore<'a>(&'a mut self, due: Vec<&'a TaskSpec>) -> QueueFuture<'a, ()>;

    /// The next task of the groups that `wanted` accepts.
    fn take<'a>(
        &'a mut self,
        wanted: WantedGroups<'a>,
    ) -> QueueFuture<'a, Option<Box<dyn TaskLease>>>;

    /// Notes that there is a task under this subject.
    fn note_change(&mut self, subject: &str);
}

/// A task that a worker has received.
pub trait TaskLease: fmt::Debug + Send + Sync {
    fn order(&self) -> &TaskSpec;

    /// How long the worker can be silent.
    fn length(&self) -> Duration;

    /// Whether the task is in the line under its own place. Another program may have put it under
    /// the name of another task.
    fn is_for(&self, order: &TaskSpec) -> bool;

    /// Reports that the worker is alive.
    fn keep(&self) -> QueueFuture<'_, ()>;

    /// Removes the task from the line.
    fn done(&self) -> QueueFuture<'_, ()>;

    /// Returns the task, so that another worker gets it after the delay.
    fn back(&self, after: Duration) -> QueueFuture<'_, ()>;
}

impl TaskRevision {
    /// Whether this state is newer than the known one. A process receives its own writes again,
    /// after all earlier ones.
    pub fn is_news_to(&self, known: Option<&Self>) -> bool {
        known.is_none_or(|known| self.revision > known.revision)
    }
}

impl QueueTaskKey {
    /// A task without a session.
    pub fn own(id: &str) -> Self {
        Self {
            owner: "-".to_owned(),
            id: id.to_owned(),
        }
    }

    pub fn of(order: &TaskSpec) -> Self {
        let owner = order
            .session
            .as_ref()
            .map_or("-", |owner| owner.id.as_str());
        Self {
            owner: owner.to_owned(),
            id: order.id.clone(),
        }
    }

    #[must_use]
    pub fn sibling(&self, id: &str) -> Self {
        Self {
            owner: self.owner.clone(),
            id: id.to_owned(),
        }
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// The end of the task's subject.
    pub fn tokens(&self) -> String {
        format!("{}.{}", self.owner, self.id)
    }
}

/// Tasks that the same workers can do.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DispatchGroup {
    /// 0 is the highest.
    pub priority: u8,
    pub kind: Option<String>,
    /// The agents that can work on them. Empty means all agents.
    pub agents: BTreeSet<String>,
}

impl DispatchGroup {
    pub fn of(order: &TaskSpec) -> Self {
        Self {
            priority: order.priority,
            kind: order.kind.clone(),
            agents: order.agents.clone(),
        }
    }
}

/// Which groups this process has received tasks of, so that groups of the same priority take turns.
#[derive(Debug, Default)]
pub(super) struct GroupTurns {
    /// The count of received tasks when a task of the group was received last.
    last: BTreeMap<DispatchGroup, u64>,
    taken: u64,
}

impl GroupTurns {
    /// The groups in the order in which to ask them.
    pub(super) fn in_order(
        &self,
        groups: impl Iterator<Item = DispatchGroup>,
    ) -> Vec<DispatchGroup> {
        let last = |group: &DispatchGroup| self.last.get(group).copied().unwrap_or_default();
        let mut groups: Vec<_> = groups
            .map(|group| (group.priority, last(&group), group))
            .collect();
        groups.sort();
        groups.into_iter().map(|(_, _, group)| group).collect()
    }

    pub(super) fn note(&mut self, group: DispatchGroup) {
        self.taken += 1;
        self.last.insert(group, self.taken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_priority_comes_first_and_groups_of_the_same_priority_take_turns() {
        let group = |priority, kind: &str| DispatchGroup {
            priority,
            kind: Some(kind.into()),
            agents: BTreeSet::new(),
        };
        let groups = [group(2, "a"), group(1, "z"), group(1, "m")];
        let mut turns = GroupTurns::default();
        let kinds = |turns: &GroupTurns| {
            let groups = turns.in_order(groups.iter().cloned());
            groups
                .into_iter()
                .filter_map(|group| group.kind)
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(kinds(&turns), "m z a");
        turns.note(group(1, "m"));
        assert_eq!(kinds(&turns), "z m a");
        turns.note(group(1, "z"));
        assert_eq!(kinds(&turns), "m z a");
    }
}
