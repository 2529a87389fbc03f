//! Takes the next step of each open workflow, with the values of its placeholders filled in.

use serde_json::Value;

use crate::engine::{
    effect::{Effect, HookFacts, HookJob, TaskFacts},
    event::{Event, WorkflowEvent},
    hooks::{
        HookState,
        point::HookPoint,
        template::{Placeholder, placeholders},
    },
    output::EngineOutput,
    policy::{HookAction, HookSpec, SessionPlan, StepAction, WorkflowStep},
    session::iteration::IterationState,
    tasks::{
        SessionTasks,
        command::{ActionType, AutomationAction},
        record::{ChangeOrigin, WorkflowStepRef},
        task_rules::TaskRules,
        workflow::WorkflowRun,
        workflow_record::{StepEnded, StepResult},
    },
};

/// A text with its placeholders filled in. Values are not searched for placeholders.
pub(crate) fn filled(text: &str, value: &dyn Fn(&str) -> String) -> String {
    let mut out = String::new();
    let mut from = 0;
    for Placeholder { name, range } in placeholders(text) {
        out += &text[from..range.start];
        out += &value(&name);
        from = range.end;
    }
    out + &text[from..]
}

/// The same for all texts in a value.
pub(crate) fn filled_in(given: &Value, value: &dyn Fn(&str) -> String) -> Value {
    match given {
        Value::String(text) => Value::String(filled(text, value)),
        Value::Array(items) => items.iter().map(|item| filled_in(item, value)).collect(),
        Value::Object(map) => map
            .iter()
            .map(|(key, item)| (key.clone(), filled_in(item, value)))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => given.clone(),
    }
}

/// A part of a workflow's context, by the keys and indices that lead to it. A text is itself,
/// anything else is JSON.
fn part_of(context: &Value, path: &str) -> Option<String> {
    let mut part = context;
    for key in path.split('.') {
        part = match part {
            Value::Array(items) => items.get(key.parse::<usize>().ok()?)?,
            Value::Object(map) => map.get(key)?,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
        };
    }
    match part {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Some(part.to_string())
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct WorkflowRules<'a> {
    pub(crate) name: &'a str,
    pub(crate) plan: &'a SessionPlan,
    pub(crate) iterations: &'a IterationState,
    pub(crate) hooks: &'a HookState,
    pub(crate) tasks: &'a SessionTasks,
    pub(crate) task_rules: TaskRules<'a>,
}

impl<'a> WorkflowRules<'a> {
    pub(crate) fn proceed_flows(self) -> EngineOutput {
        let flows = &self.tasks.flows.open;
        if let Some(over) = flows
            .iter()
            .find(|flow| flow.at.is_none() && flow.running.is_empty())
        {
            return EngineOutput::record(Event::Workflow(WorkflowEvent::Ended {
                flow: over.id,
                outcome: over.outcome,
            }));
        }
        let due = flows
            .iter()
            .find_map(|flow| Some((flow, self.part(flow, flow.waiting.first()?)?)));
        due.map_or_else(EngineOutput::default, |(flow, part)| {
            self.take_step(flow, part)
        })
    }

    pub(crate) fn part(self, flow: &WorkflowRun, name: &str) -> Option<&'a WorkflowStep> {
        let current = self
            .plan
            .workflows
            .get(&flow.began.workflow)?
            .steps
            .get(flow.at?)?;
        current.parts().iter().find(|part| part.name == name)
    }

    /// The value of a placeholder. Empty if it has none yet.
    pub(crate) fn value_in(self, flow: &WorkflowRun, name: &str) -> String {
        let of_step = |rest: &str| {
            let (step, field) = rest.rsplit_once('.')?;
            flow.results.get(step)?.field(field)
        };
        let value = match name {
            "session" => Some(self.name.to_owned()),
            "iteration" => Some(self.iterations.current.to_string()),
            "task_id" => Some(flow.began.task.clone()),
            "task_content" => self
                .tasks
                .graph
                .get(&flow.began.task)
                .map(|task| task.goal.clone()),
            "context" => Some(flow.began.context.to_string()),
            _ => match name.strip_prefix("context.") {
                Some(path) => part_of(&flow.began.context, path),
                None => name.strip_prefix("steps.").and_then(of_step),
            },
        };
        value.unwrap_or_default()
    }

    pub(crate) fn take_step(self, flow: &WorkflowRun, part: &WorkflowStep) -> EngineOutput {
        let value = |name: &str| self.value_in(flow, name);
        let change = |kind, payload: &Value| {
            let origin = ChangeOrigin::step(WorkflowStepRef {
                flow: flow.id,
                step: part.name.clone(),
            });
            EngineOutput::record(self.task_rules.carry_out(
                &AutomationAction::new(kind, filled_in(payload, &value)),
                origin,
            ))
        };
        let ended = |ok| {
            let result = StepResult {
                ok,
                ..StepResult::default()
            };
            let ended = StepEnded {
                flow: flow.id,
                step: part.name.clone(),
                result,
                again: false,
            };
            EngineOutput::record(Event::Workflow(WorkflowEvent::StepEnded(Box::new(ended))))
        };
        match &part.action {
            StepAction::Command(hook) => self.run_step(flow, part, hook),
            StepAction::CreateTask(payload) => change(ActionType::CreateTask, payload),
            StepAction::UpdateTask(payload) => change(ActionType::UpdateTask, payload),
            StepAction::Condition(condition) => {
                ended(condition.holds(&filled(&condition.value, &value)))
            }
            // The parts of a parallel step run instead of it, and cannot be parallel themselves.
            StepAction::Noop | StepAction::Parallel(_) => ended(true),
        }
    }

    pub(crate) fn run_step(
        self,
        flow: &WorkflowRun,
        part: &WorkflowStep,
        hook: &HookSpec,
    ) -> EngineOutput {
        let run = self.hooks.last_run.next();
        let HookAction::Command(command) = &hook.action else {
            return EngineOutput::default();
        };
        let own = |name: &str| {
            name.starts_with("steps.") || name == "context" || name.starts_with("context.")
        };
        let names = placeholders(command)
            .into_iter()
            .map(|placeholder| placeholder.name)
            .filter(|name| own(name));
        let values = names
            .map(|name| (name.clone(), self.value_in(flow, &name)))
            .collect();
        let facts = HookFacts {
            session: self.name.to_owned(),
            iteration: Some(self.iterations.current),
            task: Some(TaskFacts {
                id: flow.began.task.clone(),
                content: self.value_in(flow, "task_content"),
            }),
            event: Some(flow.began.context.clone()).filter(|context| !context.is_null()),
            graph: Some(self.tasks.graph.to_json()),
            values,
            ..HookFacts::default()
        };
        let hook = hook.clone();
        let job = HookJob {
            run,
            point: HookPoint::Automation,
            hook,
            output_limit: self.plan.output_limit,
            facts,
            clean: None,
        };
        EngineOutput::record(Event::Workflow(WorkflowEvent::StepStarted {
            flow: flow.id,
            step: part.name.clone(),
            run,
        }))
        .then(Effect::RunHook(Box::new(job)))
    }
}
