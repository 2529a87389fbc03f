//! Records that follow from another record of the graph: the edges that a task was created with,
//! and a task that became ready because a dependency was removed.
//!
//! # Invariants
//! - They are due from the change until they are recorded, so a kill in between neither loses nor
//!   repeats one.

use serde::{Deserialize, Serialize};

use crate::engine::{
    event::TaskEvent,
    tasks::{
        automation::AutomationState,
        graph::TaskGraph,
        record::{
            ChangeOrigin, DependencySatisfied, EdgeAdded, EdgeType, TaskRecord, TaskRecordData,
            TaskRecordRef,
        },
        task::{Task, TaskState},
    },
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FollowUp {
    fact: FollowUpFact,
    /// The origin of the change that it follows from.
    origin: ChangeOrigin,
    /// How many actions led to that change.
    depth: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum FollowUpFact {
    /// A task was created with this edge.
    EdgeAdded { from: String, to: String },
    /// A task is ready since this task was removed, or is no longer a dependency.
    Satisfied { task: String, removed: String },
}

impl FollowUp {
    pub(super) fn event(&self) -> TaskEvent {
        let origin = self.origin.clone();
        match &self.fact {
            FollowUpFact::EdgeAdded { from, to } => {
                let data = EdgeAdded {
                    from_id: from.clone(),
                    to_id: to.clone(),
                    edge_type: EdgeType::DependsOn,
                };
                TaskEvent::DependencyAdded(TaskRecord {
                    task: from.clone(),
                    data,
                    origin,
                })
            }
            FollowUpFact::Satisfied { task, removed } => {
                let (dependent_task_id, removed_task_id) = (task.clone(), Some(removed.clone()));
                let data = DependencySatisfied {
                    dependent_task_id,
                    completed_task_id: None,
                    removed_task_id,
                };
                TaskEvent::DependencySatisfied(TaskRecord {
                    task: task.clone(),
                    data,
                    origin,
                })
            }
        }
    }

    /// Whether it is still true: the graph may have changed before it was recorded.
    fn holds(&self, graph: &TaskGraph) -> bool {
        match &self.fact {
            FollowUpFact::EdgeAdded { from, to } => graph
                .get(from)
                .is_some_and(|task| task.dependencies.contains(to)),
            FollowUpFact::Satisfied { task, .. } => graph
                .get(task)
                .is_some_and(|task| task.state == TaskState::Ready),
        }
    }
}

/// The tasks that wait for a task or an edge that a change removes, each with the removed
/// dependency. Must be called before the change is applied.
pub(super) fn waiting_for(graph: &TaskGraph, news: &TaskRecordRef<'_>) -> Vec<(String, String)> {
    let waits = |task: &&Task| task.state == TaskState::Created;
    match news.what {
        TaskRecordData::DependencyRemoved(edge) => {
            let from = graph.get(&edge.from_id).filter(waits);
            from.map(|task| (task.id.clone(), edge.to_id.clone()))
                .into_iter()
                .collect()
        }
        TaskRecordData::Deleted(_) => {
            let dependents = graph.dependents(news.task).into_iter().filter(waits);
            dependents
                .map(|task| (task.id.clone(), news.task.to_owned()))
                .collect()
        }
        TaskRecordData::Created(_)
        | TaskRecordData::Started(_)
        | TaskRecordData::Completed(_)
        | TaskRecordData::Blocked(_)
        | TaskRecordData::Updated(_)
        | TaskRecordData::DependencyAdded(_)
        | TaskRecordData::DependencySatisfied(_)
        | TaskRecordData::Metrics(_)
        | TaskRecordData::Custom(..)
        | TaskRecordData::ActionFailed(_) => Vec::new(),
    }
}

impl AutomationState {
    /// Queues the consequences of a change. `waited` are the tasks that waited for a removed
    /// dependency.
    pub(super) fn follow(
        &mut self,
        graph: &TaskGraph,
        news: &TaskRecordRef<'_>,
        depth: u32,
        waited: Vec<(String, String)>,
    ) {
        self.follow_ups.retain(|due| due.holds(graph));
        let edges = match news.what {
            TaskRecordData::Created(data) => data.dependencies.as_slice(),
            TaskRecordData::Started(_)
            | TaskRecordData::Completed(_)
            | TaskRecordData::Blocked(_)
            | TaskRecordData::Deleted(_)
            | TaskRecordData::Updated(_)
            | TaskRecordData::DependencyAdded(_)
            | TaskRecordData::DependencyRemoved(_)
            | TaskRecordData::DependencySatisfied(_)
            | TaskRecordData::Metrics(_)
            | TaskRecordData::Custom(..)
            | TaskRecordData::ActionFailed(_) => &[],
        };
        let added = edges.iter().map(|to| FollowUpFact::EdgeAdded {
            from: news.task.to_owned(),
            to: to.clone(),
        });
        let freed = waited
            .into_iter()
            .map(|(task, removed)| FollowUpFact::Satisfied { task, removed });
        let origin = ChangeOrigin {
            cause: None,
            step: None,
            due: None,
            ..news.origin.clone()
        };
        let due = added.chain(freed).map(|fact| FollowUp {
            fact,
            origin: origin.clone(),
            depth,
        });
        self.follow_ups.extend(due.filter(|due| due.holds(graph)));
    }

    /// How many actions led to a record, if it is the one that was due.
    pub(super) fn follow_up_depth(&self, event: &TaskEvent) -> Option<u32> {
        self.follow_ups
            .front()
            .filter(|due| due.event() == *event)
            .map(|due| due.depth)
    }

    /// Removes a record from the list if it is the one that was due, and returns how many actions
    /// led to it.
    pub(super) fn followed(&mut self, event: &TaskEvent) -> Option<u32> {
        let recorded = event.without_due();
        self.follow_ups
            .pop_front_if(|due| due.event() == recorded)
            .map(|due| due.depth)
    }
}
