//! Starts the automation hooks of a task event, one after another, and then carries out their
//! actions in order.
//!
//! An action, also one of a workflow step, becomes the record that carries it out. One that cannot
//! be carried out becomes an `action_error` with the reason.

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::engine::{
    budget::BudgetCheck,
    effect::{Effect, HookFacts, HookJob, TaskFacts},
    event::{AutomationEvent, CUSTOM, CustomRecord, Event, HookEvent, TaskEvent, WorkflowEvent},
    hooks::{HookState, point::HookPoint},
    output::EngineOutput,
    policy::{AutomationHook, HookAction, HookSpec, SessionPlan},
    session::{iteration::IterationState, phase::Phase},
    steering::ControlState,
    tasks::{
        SessionTasks,
        automation::{AutomationJob, QueuedAction, RaisedEvent, hook_error},
        builtin::BuiltinAutomation,
        command::{
            ActionType, AutomationAction, TaskChanges, TaskCommand, TaskCompletion, TaskRefusal,
            texts,
        },
        record::{
            ActionErrorData, ActionRef, ChangeOrigin, DEEPEST, DependencySatisfied, MOST_ACTIONS,
            TaskEventKind, TaskRecord, TaskRecordData, TaskRecordRef,
        },
        task_rules::TaskRules,
        workflow_record::WorkflowStarted,
    },
    time::UnixTime,
};

#[derive(Debug, Clone, Copy)]
pub struct AutomationRules<'a> {
    pub(crate) name: &'a str,
    pub(crate) plan: &'a SessionPlan,
    pub(crate) iterations: &'a IterationState,
    pub(crate) hooks: &'a HookState,
    pub(crate) tasks: &'a SessionTasks,
    pub(crate) steering: &'a ControlState,
    pub(crate) task_rules: TaskRules<'a>,
    pub(crate) budget: BudgetCheck<'a>,
    pub(crate) phase: &'a Phase,
}

impl<'a> AutomationRules<'a> {
    /// The hooks that react to such events, by priority; ties keep the config's order.
    pub(crate) fn hearing(self, kind: TaskEventKind) -> Vec<&'a AutomationHook> {
        let hears = |hook: &&AutomationHook| {
            hook.hears(kind) && self.hooks.is_enabled(HookPoint::Automation, &hook.spec)
        };
        let mut hooks: Vec<&AutomationHook> = self.plan.automation.iter().filter(hears).collect();
        hooks.sort_by_key(|hook| hook.spec.priority);
        hooks
    }

    pub(crate) fn proceed_automation(self, now: UnixTime) -> EngineOutput {
        let automation = &self.tasks.automation;
        if let Some(due) = automation.follow_ups.front() {
            return EngineOutput::record(Event::Task(due.event()));
        }
        let Some(job) = &automation.current else {
            return automation
                .queue
                .front()
                .map_or_else(EngineOutput::default, |raised| self.begin(raised, now));
        };
        if job.running.is_some() {
            return EngineOutput::default();
        }
        if let Some(hook) = job.hooks.front() {
            return self.ask(job, hook);
        }
        let next = job.actions.front();
        let carry_out = |wanted: &QueuedAction| {
            let origin = ChangeOrigin::action(wanted.cause.clone());
            match self.must_stop(&job.raised, now) {
                Some(why) => failed(&wanted.action, &why, origin),
                None => self.task_rules.carry_out(&wanted.action, origin),
            }
        };
        next.map_or_else(EngineOutput::default, |wanted| {
            EngineOutput::record(carry_out(wanted))
        })
    }

    /// Why hooks cause no more changes. What follows from a change of the user or the agent ends,
    /// however many changes each hook wants, and it does not outlive the budget.
    fn must_stop(self, raised: &RaisedEvent, now: UnixTime) -> Option<ActionError> {
        if self.tasks.automation.actions_with(raised) >= MOST_ACTIONS {
            return Some(ActionError::TooManyActions);
        }
        let works = self.phase.turn_in_flight().is_some();
        self.budget
            .used_up_at(works.then_some(now))
            .filter(|_| raised.depth > 0)
            .map(ActionError::OverBudget)
    }

    /// Recorded even if no hook reacts: the record removes the event from the queue.
    pub(crate) fn begin(self, raised: &RaisedEvent, now: UnixTime) -> EngineOutput {
        let news = raised.event.news();
        let event = raised.id;
        let task = news.task.to_owned();
        if raised.depth > DEEPEST {
            let text = format!(
                "creel stops automation here: {DEEPEST} events led to this one of {task}, each raised by a hook of the \
                 one before"
            );
            return EngineOutput::record(Event::warning(text)).and(Event::Automation(
                AutomationEvent::Due {
                    event,
                    task,
                    hooks: Vec::new(),
                },
            ));
        }
        let stops = self.must_stop(raised, now);
        let warning = stops
            .as_ref()
            .filter(|_| self.tasks.automation.actions_with(raised) == MOST_ACTIONS);
        let warning = warning
            .map(|why| EngineOutput::record(Event::warning(why.to_string())))
            .unwrap_or_default();
        let kind = news.what.kind().filter(|_| stops.is_none());
        let hearing = kind.map_or_else(Vec::new, |kind| self.hearing(kind));
        let speaking = hearing
            .into_iter()
            .filter(|hook| self.has_something_to_do(hook, &news));
        let hooks = speaking.map(|hook| hook.spec.name.clone()).collect();
        warning.and(Event::Automation(AutomationEvent::Due {
            event,
            task,
            hooks,
        }))
    }

    pub(crate) fn has_something_to_do(
        self,
        hook: &AutomationHook,
        news: &TaskRecordRef<'_>,
    ) -> bool {
        match &hook.spec.action {
            HookAction::Builtin(call) => BuiltinAutomation::named(&call.name)
                .is_none_or(|builtin| !builtin.actions(news, &self.tasks.graph).is_empty()),
            // An interrupt cancels running commands and starts no new ones.
            HookAction::Command(_) | HookAction::Exec(_) | HookAction::Gatekeeper(_) => {
                !self.steering.interrupted()
            }
        }
    }

    pub(crate) fn ask(self, job: &AutomationJob, hook: &str) -> EngineOutput {
        let event = job.raised.id;
        let news = job.raised.event.news();
        let spec = self.plan.automation_hook(hook).map(|hook| &hook.spec);
        match spec.map(|spec| (spec, &spec.action)) {
            Some((spec, HookAction::Command(_) | HookAction::Exec(_))) => {
                self.run(job, &news, spec)
            }
            Some((_, HookAction::Builtin(call))) => match BuiltinAutomation::named(&call.name) {
                Some(builtin) => {
                    let actions = builtin.actions(&news, &self.tasks.graph);
                    EngineOutput::record(Event::Automation(AutomationEvent::Decided {
                        event,
                        hook: hook.to_owned(),
                        actions,
                    }))
                }
                None => EngineOutput::record(hook_error(
                    job,
                    hook,
                    format!("unknown built-in hook `{}`", call.name),
                )),
            },
            Some((_, HookAction::Gatekeeper(_))) | None => {
                EngineOutput::record(hook_error(job, hook, "it cannot run here".into()))
            }
        }
    }

    pub(crate) fn run(
        self,
        job: &AutomationJob,
        news: &TaskRecordRef<'_>,
        spec: &HookSpec,
    ) -> EngineOutput {
        let run = self.hooks.last_run.next();
        let goal = self
            .tasks
            .graph
            .get(news.task)
            .map(|task| task.goal.clone());
        let content = if let TaskRecordData::Completed(data) = news.what {
            Some(data.content.clone())
        } else {
            goal
        };
        let facts = HookFacts {
            session: self.name.to_owned(),
            iteration: Some(self.iterations.current),
            task: Some(TaskFacts {
                id: news.task.to_owned(),
                content: content.unwrap_or_default(),
            }),
            event: Some(job.raised.event.for_hooks(job.raised.at)),
            graph: Some(self.tasks.graph.to_json()),
            ..HookFacts::default()
        };
        let (point, output_limit) = (HookPoint::Automation, self.plan.output_limit);
        let effect = HookJob {
            run,
            point,
            hook: spec.clone(),
            output_limit,
            facts,
            clean: None,
        };
        let (hook, iteration) = (spec.name.clone(), self.iterations.current);
        EngineOutput::record(Event::Hook(HookEvent::Started {
            run,
            point,
            hook,
            iteration,
            attempt: 0,
            beside: true,
            of: None,
            tests_of: None,
        }))
        .then(Effect::RunHook(Box::new(effect)))
    }
}

/// The subject of records that are about no task.
pub(crate) const SYSTEM: &str = "system";

/// The longest type of an event, in bytes.
pub(crate) const LONGEST_KIND: usize = 100;

/// Why an action changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ActionError {
    #[error("unknown action `{0}`; use one of: {known}", known = ActionType::ALL.map(ActionType::name).join(", "))]
    UnknownAction(String),
    #[error(
        "`update_task` has no action `{0}`; use one of: transition_to_ready, start, complete, block, update, \
         add_labels, remove_labels, add_dependency, remove_dependency, remove"
    )]
    UnknownUpdate(String),
    /// The payload does not fit; serde says where.
    #[error("{0}")]
    Malformed(String),
    #[error("`{0}` is missing")]
    Missing(&'static str),
    #[error("a workflow cannot start another")]
    WorkflowInWorkflow,
    #[error("unknown workflow `{0}`")]
    NoSuchWorkflow(String),
    #[error("the session is stopping")]
    SessionStopping,
    #[error(
        "creel stops automation here: {MOST_ACTIONS} actions followed from one change to a task"
    )]
    TooManyActions,
    #[error("creel stops automation here: {0}")]
    OverBudget(String),
    #[error("the event has no type: name one in `type`")]
    NoEventType,
    #[error("creel itself records `{0}`: change tasks with `update_task`")]
    OwnEventType(String),
    #[error("an event type has at most {LONGEST_KIND} bytes and no control characters")]
    BadEventType,
    #[error(transparent)]
    Task(#[from] TaskRefusal),
}

/// The parameters of `update_task`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UpdatePayload {
    task_id: String,
    action: String,
    #[serde(default)]
    payload: Value,
}

/// The parameters of `log`. The time is the record's own.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LogPayload {
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
        self.try_action(action, origin.clone())
            .unwrap_or_else(|error| failed(action, &error, origin))
    }

    pub(crate) fn try_action(
        self,
        action: &AutomationAction,
        origin: ChangeOrigin,
    ) -> Result<Event, ActionError> {
        let Some(kind) = ActionType::named(&action.kind) else {
            return Err(ActionError::UnknownAction(action.kind.clone()));
        };
        match kind {
            ActionType::CreateTask => {
                Ok(self.task_event(TaskCommand::Add(parsed(&action.payload)?), origin)?)
            }
            ActionType::UpdateTask => {
                Ok(self.task_event(update(parsed(&action.payload)?)?, origin)?)
            }
            ActionType::ExecuteWorkflow => self.start_flow(
                &action.payload,
                origin.cause.ok_or(ActionError::WorkflowInWorkflow)?,
            ),
            ActionType::Log => log(parsed(&action.payload)?, origin),
        }
    }
}

impl TaskRules<'_> {
    pub(crate) fn start_flow(
        self,
        payload: &Value,
        cause: ActionRef,
    ) -> Result<Event, ActionError> {
        let name = payload
            .get("workflowId")
            .and_then(Value::as_str)
            .ok_or(ActionError::Missing("workflowId"))?;
        if !self.plan.workflows.contains_key(name) {
            return Err(ActionError::NoSuchWorkflow(name.to_owned()));
        }
        if self.steering.interrupted() {
            return Err(ActionError::SessionStopping);
        }
        let news = self
            .tasks
            .automation
            .current
            .as_ref()
            .map(|job| job.raised.event.news());
        let task = news.map(|news| news.task.to_owned()).unwrap_or_default();
        let context = payload.get("context").cloned().unwrap_or_default();
        let flow = self.tasks.flows.last.next();
        Ok(Event::Workflow(WorkflowEvent::Started(Box::new(
            WorkflowStarted {
                flow,
                workflow: name.to_owned(),
                context,
                task,
                cause,
            },
        ))))
    }
}

/// The record of an action that changes nothing.
pub(super) fn failed(
    action: &AutomationAction,
    error: &ActionError,
    origin: ChangeOrigin,
) -> Event {
    let (action_type, payload) = (action.kind.clone(), action.payload.clone());
    let data = ActionErrorData {
        action_type,
        error: error.to_string(),
        payload,
    };
    Event::Task(TaskEvent::ActionError(Box::new(TaskRecord {
        task: SYSTEM.into(),
        data,
        origin,
    })))
}

pub(crate) fn parsed<T: DeserializeOwned>(payload: &Value) -> Result<T, ActionError> {
    T::deserialize(payload).map_err(|error| ActionError::Malformed(error.to_string()))
}

pub(crate) fn parsed_or_default<T: DeserializeOwned + Default>(
    payload: &Value,
) -> Result<T, ActionError> {
    if payload.is_null() {
        Ok(T::default())
    } else {
        parsed(payload)
    }
}

pub(crate) fn update(
    UpdatePayload {
        task_id: id,
        action,
        payload,
    }: UpdatePayload,
) -> Result<TaskCommand, ActionError> {
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
        "start" => TaskCommand::Start {
            id,
            context: parsed_or_default::<StartPayload>(&payload)?.context,
        },
        "complete" => TaskCommand::Complete(TaskCompletion {
            id,
            ..parsed_or_default(&payload)?
        }),
        "block" => {
            let BlockPayload {
                reason,
                required_knowledge,
            } = parsed(&payload)?;
            TaskCommand::Block {
                id,
                reason,
                required_knowledge,
            }
        }
        "update" => TaskCommand::Update {
            id,
            changes: parsed(&payload)?,
        },
        "add_labels" => {
            let add_labels = parsed::<LabelsPayload>(&payload)?.labels;
            TaskCommand::Update {
                id,
                changes: TaskChanges {
                    add_labels,
                    ..TaskChanges::default()
                },
            }
        }
        "remove_labels" => {
            let remove_labels = parsed::<LabelsPayload>(&payload)?.labels;
            TaskCommand::Update {
                id,
                changes: TaskChanges {
                    remove_labels,
                    ..TaskChanges::default()
                },
            }
        }
        "add_dependency" => TaskCommand::Depend {
            id,
            on: parsed::<DependPayload>(&payload)?.depends_on,
        },
        "remove_dependency" => TaskCommand::Undepend {
            id,
            on: parsed::<DependPayload>(&payload)?.depends_on,
        },
        "remove" => TaskCommand::Remove { id },
        other => {
            return Err(ActionError::UnknownUpdate(other.to_owned()));
        }
    })
}

/// Records an event under the hook's own kind. Of creel's own kinds, only those that change nothing
/// can be logged: a hook cannot fake a change.
pub(crate) fn log(
    LogPayload {
        kind,
        node_id,
        data,
    }: LogPayload,
    origin: ChangeOrigin,
) -> Result<Event, ActionError> {
    let about = || node_id.clone().ok_or(ActionError::Missing("nodeId"));
    match kind.trim() {
        "" => Err(ActionError::NoEventType),
        "agent_metrics" => Ok(Event::Task(TaskEvent::AgentMetrics(Box::new(TaskRecord {
            task: about()?,
            data,
            origin,
        })))),
        "dependency_satisfied" => {
            let completed = data.get("completedTaskId").and_then(Value::as_str);
            let completed_task_id = Some(
                completed
                    .ok_or(ActionError::Missing("data.completedTaskId"))?
                    .to_owned(),
            );
            let data = DependencySatisfied {
                dependent_task_id: about()?,
                completed_task_id,
                removed_task_id: None,
            };
            Ok(Event::Task(TaskEvent::DependencySatisfied(TaskRecord {
                task: about()?,
                data,
                origin,
            })))
        }
        own if Event::is_own_kind(own) => Err(ActionError::OwnEventType(own.to_owned())),
        other if other.len() > LONGEST_KIND || other.chars().any(char::is_control) => {
            Err(ActionError::BadEventType)
        }
        other => {
            let kind = if other.starts_with(CUSTOM) {
                other.to_owned()
            } else {
                format!("{CUSTOM}{other}")
            };
            let record = TaskRecord {
                task: node_id.unwrap_or_else(|| SYSTEM.to_owned()),
                data,
                origin,
            };
            Ok(Event::Task(TaskEvent::Custom(Box::new(CustomRecord {
                kind,
                record,
            }))))
        }
    }
}
