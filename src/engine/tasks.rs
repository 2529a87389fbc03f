//! Tasks: what there is to do, what depends on what, and what happens by itself when a task changes.
//!
//! Owns the graph ([`graph`]), the records that change it ([`record`]), what people and hooks may ask of it ([`command`],
//! [`action`]), the automation hooks that its events fire ([`automation`], [`builtin`]), and the workflows that those start
//! ([`workflow`]). Does not own the
//! `on_task_complete` hooks of the config: see [`super::session::side_jobs`].
//!
//! # Invariants
//! - One command or action is one record, so that no prefix of a journal holds half of a change. What follows from it has records of
//!   its own ([`follow_up`]).
//! - No task that is ready has an open dependency, and no task depends on itself, however far around.

pub mod action;
pub mod automation;
pub mod builtin;
pub mod command;
pub mod follow_up;
pub mod graph;
pub mod inherit;
pub mod record;
pub mod task;
pub mod workflow;

mod apply;

use automation::AutomationState;
use graph::TaskGraph;
use workflow::WorkflowState;

/// The tasks of a session.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionTasks {
    /// What there is to do.
    pub graph: TaskGraph,
    /// What happens by itself.
    pub automation: AutomationState,
    /// Steps that go on in the background.
    pub flows: WorkflowState,
}
