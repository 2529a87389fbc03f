//! The services behind `creel worker`, `creel merge --queue` and `creel plan`.
//!
//! Owns how a worker takes tasks and has them done, how finished tasks are merged, and how an agent
//! proposes tasks. Does not own arguments and output: see [`crate::cli`].

pub mod child_session;
pub mod job_slots;
pub mod merge_checks;
pub mod merge_loop;
pub mod merge_queue;
pub mod plan;
pub mod task_branch;
pub mod task_end;
pub mod worker;
pub mod worker_budget;
pub mod worker_loop;
pub mod worker_merger;

use std::path::Path;

use crate::{
    config::{NatsConfig, PlanError},
    nats::connection::{ConnectProblem, ReconnectPolicy, connect},
    queue::{QueuePlace, backend::QueueFailure},
    worktrees::WorktreeError,
};

/// Where the queue of a project is.
async fn open_place(nats: Option<&NatsConfig>, root: &Path) -> Result<QueuePlace, FarmError> {
    let Some(nats) = nats else {
        return Ok(QueuePlace::Project(root.to_owned()));
    };
    let connected = connect(nats, ReconnectPolicy::ByItself).await;
    let (client, events) =
        connected.map_err(|problem| FarmError::CannotConnect(Box::new(nats.clone()), problem))?;
    Ok(QueuePlace::server(nats.clone(), client, events).await?)
}

/// Why a service ended early.
#[derive(Debug, thiserror::Error)]
pub enum FarmError {
    #[error("{0}")]
    Failed(String),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Queue(#[from] QueueFailure),
    #[error(transparent)]
    Worktree(#[from] WorktreeError),
    #[error("{}: {}", .0.shown(), .1.reason)]
    CannotConnect(Box<NatsConfig>, ConnectProblem),
}
