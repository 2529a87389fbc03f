//! Tasks, their dependencies, and the automation that runs when a task changes.
//!
//! Owns the graph ([`graph`]), the rules and records that change it ([`task_rules`], [`record`]),
//! the commands of users and hooks ([`command`]), the automation hooks that its events
//! trigger ([`automation`], [`builtin`]), and the workflows that those start ([`workflow`]). Does
//! not own the `on_task_complete` hooks of the config: see [`super::hooks::side_jobs`].
//!
//! # Invariants
//! - One command or action is one record, so that no prefix of a journal contains half of a change.
//!   Its consequences have records of their own ([`automation`]).
//! - No ready task has an open dependency, and no task depends on itself, directly or indirectly.

pub(crate) mod apply;
pub mod automation;
pub mod automation_rules;
pub mod builtin;
pub mod command;
pub(crate) mod due;
pub mod event;
pub mod graph;
pub mod record;
pub mod task_rules;
pub mod workflow;
pub mod workflow_record;
pub mod workflow_rules;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::engine::tasks::{
    automation::AutomationState,
    graph::{TaskGraph, TaskState},
    workflow::WorkflowState,
};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionTasks {
    pub graph: TaskGraph,
    pub automation: AutomationState,
    pub flows: WorkflowState,
    /// The ids of tasks that automation hooks and workflows created.
    #[serde(default)]
    pub automated: BTreeSet<String>,
}

impl SessionTasks {
    pub(crate) fn is_blocked(&self, task: &str) -> bool {
        self.graph
            .get(task)
            .is_some_and(|task| task.state == TaskState::Blocked)
    }
}
