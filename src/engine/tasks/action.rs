//! The actions that automation hooks request: parsing a hook's answer, and the record that each action becomes.
//!
//! # Invariants
//! - An action becomes one record: its result, or an `action_error` with the reason. A failed action does not prevent
//!   the others.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use super::{
    command::{TaskChanges, TaskCommand, TaskCompletion, texts},
    record::{ActionErrorData, ChangeOrigin, DependencySatisfied, TaskRecord},
};
use crate::engine::{
    event::{CUSTOM, CustomRecord, Event, TaskEvent, WorkflowEvent},
    hooks::verdict::{RunEnd, RunResult},
    tasks::{command::TaskRules, record::ActionRef, refusal::TaskRefusal, workflow::WorkflowStarted},
};

/// The subject of records that are about no task.
const SYSTEM: &str = "system";
/// The longest type of an event, in bytes.
const LONGEST_KIND: usize = 100;

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
    const ALL: [Self; 4] = [Self::CreateTask, Self::UpdateTask, Self::ExecuteWorkflow, Self::Log];

    /// The name in answers and records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CreateTask => "create_task",
            Self::UpdateTask => "update_task",
            Self::ExecuteWorkflow => "execute_workflow",
            Self::Log => "log",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl AutomationAction {
    pub fn new(kind: ActionType, payload: Value) -> Self {
        Self { kind: kind.name().to_owned(), payload }
    }
}

/// The actions that a run requests, or what is wrong with its answer. Empty output requests nothing.
pub(super) fn answered(result: &RunResult) -> Result<Vec<AutomationAction>, ActionAnswerError> {
    if result.end != RunEnd::Exit(0) {
        let said = result.stderr.lines().rfind(|line| !line.trim().is_empty());
        let said = said.map(|said| said.trim().to_owned());
        return Err(ActionAnswerError::HookFailed { end: result.end.describe(), said });
    }
    let Some(text) = &result.answer else { return Err(ActionAnswerError::TooLong) };
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    read(text).ok_or(ActionAnswerError::Malformed)
}

/// Why an automation hook gave no list of actions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ActionAnswerError {
    #[error("{end}{}", said.as_ref().map(|said| format!(": {said}")).unwrap_or_default())]
    HookFailed { end: String, said: Option<String> },
    #[error("its answer is longer than any answer may be")]
    TooLong,
    #[error("its answer is no JSON list of actions: [{{\"type\": …, \"payload\": …}}] or {{\"actions\": […]}}")]
    Malformed,
}

/// Why an action changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ActionError {
    #[error("there is no action `{0}`; there are: {known}", known = ActionType::ALL.map(ActionType::name).join(", "))]
    UnknownAction(String),
    #[error(
        "`update_task` has no action `{0}`; it has: transition_to_ready, start, complete, block, update, add_labels, \
         remove_labels, add_dependency, remove_dependency, remove"
    )]
    UnknownUpdate(String),
    /// The payload does not fit; serde says where.
    #[error("{0}")]
    Malformed(String),
    #[error("`{0}` is missing")]
    Missing(&'static str),
    #[error("a workflow cannot start another")]
    WorkflowInWorkflow,
    #[error("there is no workflow `{0}`")]
    NoSuchWorkflow(String),
    #[error("the session is stopping")]
    SessionStopping,
    #[error("the event has no type: name one in `type`")]
    NoEventType,
    #[error("creel records `{0}` itself when it happens: change tasks with `update_task`")]
    OwnEventType(String),
    #[error("an event type has at most {LONGEST_KIND} bytes and no control characters")]
    BadEventType,
    #[error(transparent)]
    Task(#[from] TaskRefusal),
}

fn read(text: &str) -> Option<Vec<AutomationAction>> {
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

/// The parameters of `update_task`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct UpdatePayload {
    task_id: String,
    action: String,
    #[serde(default)]
    payload: Value,
}

/// The parameters of `log`. The time is the record's own.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LogPayload {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default, alias = "task")]
    node_id: Option<String>,
    #[serde(default)]
    data: Map<String, Value>,
}

impl TaskRules<'_> {
    /// The record that an action becomes.
    pub(crate) fn carry_out(self, action: &AutomationAction, origin: ChangeOrigin) -> Event {
        self.try_action(action, origin.clone()).unwrap_or_else(|error| {
            let error = error.to_string();
            let data = ActionErrorData { action_type: action.kind.clone(), error, payload: action.payload.clone() };
            Event::Task(TaskEvent::ActionError(Box::new(TaskRecord { task: SYSTEM.into(), data, origin })))
        })
    }

    pub(crate) fn try_action(self, action: &AutomationAction, origin: ChangeOrigin) -> Result<Event, ActionError> {
        let Some(kind) = ActionType::named(&action.kind) else {
            return Err(ActionError::UnknownAction(action.kind.clone()));
        };
        match kind {
            ActionType::CreateTask => Ok(self.task_event(TaskCommand::Add(told(&action.payload)?), origin)?),
            ActionType::UpdateTask => Ok(self.task_event(update(told(&action.payload)?)?, origin)?),
            ActionType::ExecuteWorkflow => {
                self.start_flow(&action.payload, origin.cause.ok_or(ActionError::WorkflowInWorkflow)?)
            }
            ActionType::Log => log(told(&action.payload)?, origin),
        }
    }
}

fn told<T: DeserializeOwned>(payload: &Value) -> Result<T, ActionError> {
    T::deserialize(payload).map_err(|error| ActionError::Malformed(error.to_string()))
}

fn maybe_told<T: DeserializeOwned + Default>(payload: &Value) -> Result<T, ActionError> {
    if payload.is_null() { Ok(T::default()) } else { told(payload) }
}

fn update(UpdatePayload { task_id: id, action, payload }: UpdatePayload) -> Result<TaskCommand, ActionError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct BlockPayload {
        reason: String,
        #[serde(default, deserialize_with = "texts")]
        required_knowledge: Vec<String>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct DependPayload {
        #[serde(alias = "toId", alias = "on")]
        depends_on: String,
    }
    #[derive(Deserialize)]
    struct LabelsPayload {
        labels: Vec<String>,
    }
    #[derive(Default, Deserialize)]
    struct StartPayload {
        context: Option<String>,
    }
    Ok(match action.as_str() {
        "transition_to_ready" => TaskCommand::MakeReady { id },
        "start" => TaskCommand::Start { id, context: maybe_told::<StartPayload>(&payload)?.context },
        "complete" => TaskCommand::Complete(TaskCompletion { id, ..maybe_told(&payload)? }),
        "block" => {
            let BlockPayload { reason, required_knowledge } = told(&payload)?;
            TaskCommand::Block { id, reason, required_knowledge }
        }
        "update" => TaskCommand::Update { id, changes: told(&payload)? },
        "add_labels" => {
            let add_labels = told::<LabelsPayload>(&payload)?.labels;
            TaskCommand::Update { id, changes: TaskChanges { add_labels, ..TaskChanges::default() } }
        }
        "remove_labels" => {
            let remove_labels = told::<LabelsPayload>(&payload)?.labels;
            TaskCommand::Update { id, changes: TaskChanges { remove_labels, ..TaskChanges::default() } }
        }
        "add_dependency" => TaskCommand::Depend { id, on: told::<DependPayload>(&payload)?.depends_on },
        "remove_dependency" => TaskCommand::Undepend { id, on: told::<DependPayload>(&payload)?.depends_on },
        "remove" => TaskCommand::Remove { id },
        other => {
            return Err(ActionError::UnknownUpdate(other.to_owned()));
        }
    })
}

/// Records an event under the hook's own kind. Of creel's own kinds, only those that change nothing can be logged: a
/// hook cannot fake a change.
fn log(LogPayload { kind, node_id, data }: LogPayload, origin: ChangeOrigin) -> Result<Event, ActionError> {
    let about = || node_id.clone().ok_or(ActionError::Missing("nodeId"));
    match kind.trim() {
        "" => Err(ActionError::NoEventType),
        "agent_metrics" => {
            Ok(Event::Task(TaskEvent::AgentMetrics(Box::new(TaskRecord { task: about()?, data, origin }))))
        }
        "dependency_satisfied" => {
            let completed = data.get("completedTaskId").and_then(Value::as_str);
            let completed_task_id = Some(completed.ok_or(ActionError::Missing("data.completedTaskId"))?.to_owned());
            let data = DependencySatisfied { dependent_task_id: about()?, completed_task_id, removed_task_id: None };
            Ok(Event::Task(TaskEvent::DependencySatisfied(TaskRecord { task: about()?, data, origin })))
        }
        own if Event::is_own_kind(own) => Err(ActionError::OwnEventType(own.to_owned())),
        other if other.len() > LONGEST_KIND || other.chars().any(char::is_control) => Err(ActionError::BadEventType),
        other => {
            let kind = if other.starts_with(CUSTOM) { other.to_owned() } else { format!("{CUSTOM}{other}") };
            let record = TaskRecord { task: node_id.unwrap_or_else(|| SYSTEM.to_owned()), data, origin };
            Ok(Event::Task(TaskEvent::Custom(Box::new(CustomRecord { kind, record }))))
        }
    }
}

impl TaskRules<'_> {
    pub(crate) fn start_flow(self, payload: &Value, cause: ActionRef) -> Result<Event, ActionError> {
        let name = payload.get("workflowId").and_then(Value::as_str).ok_or(ActionError::Missing("workflowId"))?;
        if !self.plan.workflows.contains_key(name) {
            return Err(ActionError::NoSuchWorkflow(name.to_owned()));
        }
        if self.steering.interrupted() {
            return Err(ActionError::SessionStopping);
        }
        let news = self.tasks.automation.current.as_ref().map(|job| job.raised.event.news());
        let task = news.map(|news| news.task.to_owned()).unwrap_or_default();
        let context = payload.get("context").cloned().unwrap_or_default();
        let flow = self.tasks.flows.last.next();
        Ok(Event::Workflow(WorkflowEvent::Started(Box::new(WorkflowStarted {
            flow,
            workflow: name.to_owned(),
            context,
            task,
            cause,
        }))))
    }
}
