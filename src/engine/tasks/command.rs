//! Commands to the task graph, by users, programs and agents, and the actions that automation hooks
//! request.
//!
//! Also owns why creel refuses to add or change a task. The texts are here because the session
//! records them: an action of a hook that is refused becomes an `action_error`.
//!
//! # Invariants
//! - A command becomes one record or is refused; it is never carried out partly.
//! - An action becomes one record: its result, or an `action_error` with the reason. A failed
//!   action does not prevent the others.

use std::collections::BTreeSet;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::engine::{
    hooks::verdict::{RunEnd, RunResult},
    policy::TypeNotAllowed,
    tasks::graph::{LOWEST, TaskDescriptionChanges, TaskState},
};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskCommand {
    Add(NewTask),
    /// Start working on a task.
    Start {
        id: String,
        context: Option<String>,
    },
    /// A worker claimed the task from the queue. Only the queue sends this.
    #[serde(skip)]
    TakenUp {
        id: String,
        context: String,
    },
    /// Mark a task as done. An id that the graph does not know is a task of another program.
    Complete(TaskCompletion),
    /// Mark a task as blocked.
    Block {
        id: String,
        reason: String,
        required_knowledge: Vec<String>,
    },
    Update {
        id: String,
        changes: TaskChanges,
    },
    MakeReady {
        id: String,
    },
    /// Make a task wait for another.
    Depend {
        id: String,
        on: String,
    },
    Undepend {
        id: String,
        on: String,
    },
    /// Delete the task with its edges.
    Remove {
        id: String,
    },
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NewTask {
    /// None: creel generates one.
    #[serde(alias = "taskId")]
    pub id: Option<String>,
    pub goal: String,
    pub deliverables: Vec<String>,
    pub labels: Vec<String>,
    pub priority: Option<u8>,
    #[serde(rename = "type")]
    pub kind: Option<String>,
    #[serde(alias = "parentTaskId", alias = "parentId")]
    pub parent: Option<String>,
    #[serde(alias = "dependsOn")]
    pub dependencies: Vec<String>,
    pub queue: Option<BTreeSet<String>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskCompletion {
    pub id: String,
    /// None: the task's goal.
    pub content: Option<String>,
    pub result: Option<String>,
    pub artifacts: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TaskChanges {
    #[serde(flatten)]
    pub description: TaskDescriptionChanges,
    pub add_labels: Vec<String>,
    pub remove_labels: Vec<String>,
}

pub(crate) fn a_goal(goal: &str) -> Result<(), TaskRefusal> {
    if goal.trim().is_empty() {
        Err(TaskRefusal::NoGoal)
    } else {
        Ok(())
    }
}

/// Whether a number can be a priority.
pub(crate) fn a_priority(given: u8) -> Result<(), TaskRefusal> {
    if given <= LOWEST {
        Ok(())
    } else {
        Err(TaskRefusal::BadPriority(given))
    }
}

/// Whether a task or a session can have that name. It must be valid in a subject, a header and a
/// path.
pub(crate) fn is_name(id: &str) -> bool {
    let plain = id
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    plain && (1..=64).contains(&id.len())
}

/// A text, or a list of texts.
pub(super) fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum TextOrList {
        None(()),
        One(String),
        Many(Vec<String>),
    }
    Ok(match TextOrList::deserialize(deserializer)? {
        TextOrList::None(()) => Vec::new(),
        TextOrList::One(text) => vec![text],
        TextOrList::Many(texts) => texts,
    })
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AutomationAction {
    /// The name of the action. It is checked when the action is carried out.
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub payload: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionType {
    CreateTask,
    UpdateTask,
    ExecuteWorkflow,
    /// Records an event of any type.
    Log,
}

impl ActionType {
    pub(super) const ALL: [Self; 4] = [
        Self::CreateTask,
        Self::UpdateTask,
        Self::ExecuteWorkflow,
        Self::Log,
    ];

    /// The name in answers and records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CreateTask => "create_task",
            Self::UpdateTask => "update_task",
            Self::ExecuteWorkflow => "execute_workflow",
            Self::Log => "log",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl AutomationAction {
    pub fn new(kind: ActionType, payload: Value) -> Self {
        Self {
            kind: kind.name().to_owned(),
            payload,
        }
    }
}

/// The actions that a run requests, or what is wrong with its answer. Empty output requests
/// nothing.
pub(super) fn requested_actions(
    result: &RunResult,
) -> Result<Vec<AutomationAction>, ActionAnswerError> {
    if result.end != RunEnd::Exit(0) {
        let output = result.stderr.lines().rfind(|line| !line.trim().is_empty());
        let output = output.map(|output| output.trim().to_owned());
        return Err(ActionAnswerError::HookFailed {
            end: result.end.describe(),
            output,
        });
    }
    let Some(text) = &result.answer else {
        return Err(ActionAnswerError::TooLong);
    };
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    read_actions(text).ok_or(ActionAnswerError::Malformed)
}

/// Why an automation hook gave no list of actions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ActionAnswerError {
    #[error("{end}{}", output.as_ref().map(|output| format!(": {output}")).unwrap_or_default())]
    HookFailed { end: String, output: Option<String> },
    #[error("its answer is too long")]
    TooLong,
    #[error(
        "its answer is not a JSON list of actions: [{{\"type\": …, \"payload\": …}}] or {{\"actions\": […]}}"
    )]
    Malformed,
}

fn read_actions(text: &str) -> Option<Vec<AutomationAction>> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum ActionList {
        List(Vec<AutomationAction>),
        Object { actions: Vec<AutomationAction> },
    }
    Some(match serde_json::from_str(text).ok()? {
        ActionList::List(actions) | ActionList::Object { actions } => actions,
    })
}

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
