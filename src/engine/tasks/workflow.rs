//! Workflows: named steps that an action starts, run in the background.
//!
//! A flow is one run of a workflow. It runs one step at a time; a `parallel` step runs all of its parts at once. The
//! plan says what follows a step: `on_success`, else the next one; `on_failure`, else the end.
//!
//! # Invariants
//! - A step that changes a task is one record, the task's own: after an interruption it is done exactly once.
//! - Later steps receive the outputs of earlier ones as data: as text in task commands, as variables in shell commands.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    action::{ActionType, AutomationAction},
    record::{ActionRef, ChangeOrigin, WorkflowStepRef},
};
use crate::engine::{
    EngineOutput,
    effect::{Effect, HookFacts, HookJob, TaskFacts},
    event::{Event, WorkflowEvent},
    hooks::{
        point::HookPoint,
        resolve::HookState,
        template::{Placeholder, placeholders},
        verdict::{RunEnd, RunResult},
    },
    ids::{RunId, WorkflowRunId},
    policy::{HookAction, HookSpec, SessionPlan, StepAction, StepTransition, Workflow, WorkflowStep},
    session::iteration::IterationState,
    tasks::{SessionTasks, command::TaskRules},
};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct WorkflowState {
    /// The flows in progress, oldest first.
    pub open: Vec<WorkflowRun>,
    /// The highest id so far.
    pub(super) last: WorkflowRunId,
}

#[derive(Debug, Clone, PartialEq)]
pub struct WorkflowRun {
    pub id: WorkflowRunId,
    pub began: WorkflowStarted,
    /// How many actions, each triggered by the previous one, led to it.
    pub(super) depth: u32,
    /// The index of the current step. None when the flow is over.
    pub at: Option<usize>,
    /// The parts of the current step that have not been started.
    pub waiting: Vec<String>,
    pub running: Vec<(RunId, String)>,
    /// The results of ended steps, by name.
    pub results: BTreeMap<String, StepResult>,
    pub outcome: WorkflowOutcome,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkflowStarted {
    pub flow: WorkflowRunId,
    pub workflow: String,
    /// The parameters of the action that started it.
    #[serde(default)]
    pub context: Value,
    /// The task whose event led to it.
    pub task: String,
    /// The action that it carries out.
    pub cause: ActionRef,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepEnded {
    pub flow: WorkflowRunId,
    pub step: String,
    #[serde(flatten)]
    pub result: StepResult,
    /// Whether the step was cut because creel died, and runs again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StepResult {
    pub ok: bool,
    /// None if the step ran no command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<RunEnd>,
    /// Truncated.
    pub stdout: String,
    /// Truncated.
    pub stderr: String,
    /// The task that the step created or changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkflowOutcome {
    Done,
    /// A step failed, and no step followed.
    Failed,
    /// The session was stopped.
    Cut,
}

impl StepResult {
    /// The value of `{{steps.NAME.…}}`, by its last part.
    fn field(&self, name: &str) -> Option<String> {
        match name {
            "stdout" => Some(self.stdout.trim_end().to_owned()),
            "stderr" => Some(self.stderr.trim_end().to_owned()),
            "exit" => match self.end {
                Some(RunEnd::Exit(code)) => Some(code.to_string()),
                Some(RunEnd::Signal(_) | RunEnd::TimedOut | RunEnd::SpawnFailed(_) | RunEnd::Cut) | None => None,
            },
            "task" => self.task.clone(),
            _ => None,
        }
    }
}

/// The last parts of `{{steps.NAME.…}}`.
pub const FIELDS: [&str; 4] = ["stdout", "stderr", "exit", "task"];

impl WorkflowRun {
    /// A part of the current step ended. After the last part, the flow continues with the next step.
    pub(super) fn ended(&mut self, workflow: &Workflow, step: &str, result: StepResult) {
        self.waiting.retain(|name| name != step);
        self.running.retain(|(_, name)| name != step);
        self.results.insert(step.to_owned(), result);
        let Some(current) = self.at.and_then(|at| workflow.steps.get(at)) else { return };
        if !self.waiting.is_empty() || !self.running.is_empty() {
            return;
        }
        let ok = current.parts().iter().all(|part| self.results.get(&part.name).is_some_and(|result| result.ok));
        let next = if ok { &current.on_success } else { &current.on_failure };
        let next = self.at.and_then(|at| workflow.after(at, next));
        if !ok && current.on_failure == StepTransition::End {
            self.outcome = WorkflowOutcome::Failed;
        }
        self.go_to(workflow, next);
    }

    /// A step without parts would never end, so it counts as successful and is skipped. Such steps could form a cycle,
    /// so at most as many are skipped as there are steps.
    pub(super) fn go_to(&mut self, workflow: &Workflow, next: Option<usize>) {
        let at = |at: usize| workflow.steps.get(at);
        let way = std::iter::successors(next, |here| workflow.after(*here, &at(*here)?.on_success));
        let does_something = |step: &WorkflowStep| !step.parts().is_empty();
        self.at = way.take(workflow.steps.len()).find(|here| at(*here).is_some_and(does_something));
        let step = self.at.and_then(at);
        self.waiting = step.map_or_else(Vec::new, |step| step.parts().iter().map(|part| part.name.clone()).collect());
    }
}

/// A text with its placeholders filled in. Values are not searched for placeholders.
fn filled(text: &str, value: &dyn Fn(&str) -> String) -> String {
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
fn filled_in(given: &Value, value: &dyn Fn(&str) -> String) -> Value {
    match given {
        Value::String(text) => Value::String(filled(text, value)),
        Value::Array(items) => items.iter().map(|item| filled_in(item, value)).collect(),
        Value::Object(map) => map.iter().map(|(key, item)| (key.clone(), filled_in(item, value))).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => given.clone(),
    }
}

impl WorkflowState {
    pub(crate) fn awaits(&self, run: RunId) -> bool {
        self.running().any(|(_, running, _)| running == run)
    }

    /// The running steps with their flows.
    pub fn running(&self) -> impl Iterator<Item = (&WorkflowRun, RunId, &str)> {
        self.open.iter().flat_map(|flow| flow.running.iter().map(move |(run, step)| (flow, *run, step.as_str())))
    }

    /// After an interrupt: discards everything that has not been started.
    pub(crate) fn cut(&mut self) {
        for flow in &mut self.open {
            (flow.at, flow.outcome) = (None, WorkflowOutcome::Cut);
            flow.waiting.clear();
        }
    }
}

/// Takes the steps of workflows.
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
        if let Some(over) = flows.iter().find(|flow| flow.at.is_none() && flow.running.is_empty()) {
            return EngineOutput::record(Event::Workflow(WorkflowEvent::Ended {
                flow: over.id,
                outcome: over.outcome,
            }));
        }
        let due = flows.iter().find_map(|flow| Some((flow, self.part(flow, flow.waiting.first()?)?)));
        due.map_or_else(EngineOutput::default, |(flow, part)| self.take_step(flow, part))
    }

    pub(crate) fn part(self, flow: &WorkflowRun, name: &str) -> Option<&'a WorkflowStep> {
        let current = self.plan.workflows.get(&flow.began.workflow)?.steps.get(flow.at?)?;
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
            "task_content" => self.tasks.graph.get(&flow.began.task).map(|task| task.goal.clone()),
            "context" => Some(flow.began.context.to_string()),
            _ => name.strip_prefix("steps.").and_then(of_step),
        };
        value.unwrap_or_default()
    }

    pub(crate) fn take_step(self, flow: &WorkflowRun, part: &WorkflowStep) -> EngineOutput {
        let value = |name: &str| self.value_in(flow, name);
        let change = |kind, payload: &Value| {
            let origin = ChangeOrigin::step(WorkflowStepRef { flow: flow.id, step: part.name.clone() });
            EngineOutput::record(
                self.task_rules.carry_out(&AutomationAction::new(kind, filled_in(payload, &value)), origin),
            )
        };
        let ended = |ok| {
            let result = StepResult { ok, ..StepResult::default() };
            let ended = StepEnded { flow: flow.id, step: part.name.clone(), result, again: false };
            EngineOutput::record(Event::Workflow(WorkflowEvent::StepEnded(Box::new(ended))))
        };
        match &part.action {
            StepAction::Command(hook) => self.run_step(flow, part, hook),
            StepAction::CreateTask(payload) => change(ActionType::CreateTask, payload),
            StepAction::UpdateTask(payload) => change(ActionType::UpdateTask, payload),
            StepAction::Condition(condition) => ended(condition.holds(&filled(&condition.value, &value))),
            // The parts of a parallel step run instead of it, and cannot be parallel themselves.
            StepAction::Noop | StepAction::Parallel(_) => ended(true),
        }
    }

    pub(crate) fn run_step(self, flow: &WorkflowRun, part: &WorkflowStep, hook: &HookSpec) -> EngineOutput {
        let run = self.hooks.last_run.next();
        let HookAction::Command(command) = &hook.action else { return EngineOutput::default() };
        let own = |name: &str| name.starts_with("steps.") || name == "context";
        let names = placeholders(command).into_iter().map(|placeholder| placeholder.name).filter(|name| own(name));
        let values = names.map(|name| (name.clone(), self.value_in(flow, &name))).collect();
        let facts = HookFacts {
            session: self.name.to_owned(),
            iteration: Some(self.iterations.current),
            task: Some(TaskFacts { id: flow.began.task.clone(), content: self.value_in(flow, "task_content") }),
            event: Some(flow.began.context.clone()).filter(|context| !context.is_null()),
            graph: Some(self.tasks.graph.to_json()),
            values,
            ..HookFacts::default()
        };
        let hook = hook.clone();
        let job = HookJob { run, point: HookPoint::Automation, hook, output_limit: self.plan.output_limit, facts };
        EngineOutput::record(Event::Workflow(WorkflowEvent::StepStarted {
            flow: flow.id,
            step: part.name.clone(),
            run,
        }))
        .then(Effect::RunHook(Box::new(job)))
    }
}

impl WorkflowState {
    pub(crate) fn flow_ended(&mut self, id: WorkflowRunId) {
        self.open.retain(|flow| flow.id != id);
    }

    pub(crate) fn on_step_finished(&self, run: RunId, result: RunResult) -> EngineOutput {
        let Some((flow, _, step)) = self.running().find(|(_, running, _)| *running == run) else {
            return EngineOutput::stale(run);
        };
        let RunResult { end, stdout, stderr, .. } = result;
        let result = StepResult { ok: end == RunEnd::Exit(0), end: Some(end), stdout, stderr, task: None };
        let ended = StepEnded { flow: flow.id, step: step.to_owned(), result, again: false };
        EngineOutput::record(Event::Workflow(WorkflowEvent::StepEnded(Box::new(ended))))
    }

    /// The running steps as cut, because creel itself died.
    pub(crate) fn cut_steps(&self) -> impl Iterator<Item = (RunId, StepEnded)> {
        self.running().map(|(flow, run, step)| {
            let result = StepResult { end: Some(RunEnd::Cut), ..StepResult::default() };
            (run, StepEnded { flow: flow.id, step: step.to_owned(), result, again: flow.at.is_some() })
        })
    }
}
