//! Why creel refuses to add or change a task.
//!
//! The texts are here because the session records them: an action of a hook that is refused becomes
//! an `action_error`.

use crate::engine::{
    policy::TypeNotAllowed,
    tasks::task::{LOWEST, TaskState},
};

/// Why a task cannot be added or changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TaskRefusal {
    #[error("there is no task {0}")]
    NoSuchTask(String),
    #[error("there is no task {0}; to complete a task of another program, pass its content")]
    NoContent(String),
    #[error("{0} is completed")]
    Completed(String),
    #[error("task {0} is already completed")]
    CompletedBefore(String),
    #[error("a task {0} was completed before")]
    NameCompletedBefore(String),
    #[error("task {0} already exists")]
    Exists(String),
    #[error(
        "`{name}` is not a valid name for {what}: use letters, digits, `-` and `_`, at most 64"
    )]
    BadName { name: String, what: &'static str },
    #[error("a task needs a goal")]
    NoGoal,
    #[error("a priority is a number from 0, the highest, to {LOWEST}, not {0}")]
    BadPriority(u8),
    #[error("the names of the agents are longer than {0} letters; name fewer, or use a type")]
    AgentNamesTooLong(usize),
    #[error("the task is longer than {0} KiB; write it to a file, and name the file in the goal")]
    TooLong(usize),
    #[error("a reason is needed to block {0}")]
    NoReason(String),
    #[error("{id} is already {}", state.name())]
    AlreadyInState { id: String, state: TaskState },
    #[error("{id} depends on {} not completed", if *open == 1 { "a task that is".into() } else { format!("{open} tasks that are") })]
    Waits { id: String, open: usize },
    #[error(
        "{0} is for the queue: the worker that gets it starts it. `creel task start --queue SESSION/{0}` puts it back \
         into the queue"
    )]
    StartsFromQueue(String),
    #[error("{0} is for the queue and cannot change; remove it and add another")]
    FixedInQueue(String),
    #[error("{0} is for the queue; workers work on it")]
    ActiveInQueue(String),
    #[error(transparent)]
    TypeNotAllowed(#[from] TypeNotAllowed),
    #[error("{0} cannot depend on itself")]
    DependsOnItself(String),
    #[error("{id} already depends on {on}")]
    DependsAlready { id: String, on: String },
    #[error("{id} does not depend on {on}")]
    DoesNotDepend { id: String, on: String },
    #[error("{id} cannot depend on {on}: that would be a cycle, {id} → {}", way.join(" → "))]
    DependencyCycle {
        id: String,
        on: String,
        way: Vec<String>,
    },
    #[error("{id} cannot have the parent {parent}, which is below it")]
    ParentCycle { id: String, parent: String },
    #[error("you named no change to {0}")]
    NothingToChange(String),
}

impl TaskRefusal {
    /// The stable name of the reason, for programs.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NoSuchTask(_) | Self::NoContent(_) => "no_such_task",
            Self::Completed(_) | Self::CompletedBefore(_) | Self::NameCompletedBefore(_) => {
                "task_completed"
            }
            Self::Exists(_) => "task_exists",
            Self::BadName { .. } => "bad_name",
            Self::NoGoal => "no_goal",
            Self::BadPriority(_) => "bad_priority",
            Self::AgentNamesTooLong(_) => "agent_names_too_long",
            Self::TooLong(_) => "task_too_long",
            Self::NoReason(_) => "no_reason",
            Self::AlreadyInState { .. } => "task_already_in_state",
            Self::Waits { .. } => "task_waits",
            Self::StartsFromQueue(_) | Self::FixedInQueue(_) | Self::ActiveInQueue(_) => {
                "task_in_queue"
            }
            Self::TypeNotAllowed(_) => "type_not_allowed",
            Self::DependsOnItself(_) | Self::DependencyCycle { .. } => "dependency_cycle",
            Self::DependsAlready { .. } => "depends_already",
            Self::DoesNotDepend { .. } => "does_not_depend",
            Self::ParentCycle { .. } => "parent_cycle",
            Self::NothingToChange(_) => "nothing_to_change",
        }
    }
}
