//! Workflows: named steps that an action starts, run in the background.
//!
//! A flow is one run of a workflow. It runs one step at a time; a `parallel` step runs all of its
//! parts at once. The plan says what follows a step: `on_success`, else the next one; `on_failure`,
//! else the end.
//!
//! # Invariants
//! - A step that changes a task is one record, the task's own: after an interruption it is done
//!   exactly once.
//! - Later steps receive the outputs of earlier ones as data: as text in task commands, as
//!   variables in shell commands.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::engine::{
    event::{Event, WorkflowEvent},
    hooks::verdict::{RunEnd, RunResult},
    ids::{RunId, WorkflowRunId},
    output::EngineOutput,
    policy::{StepTransition, Workflow, WorkflowStep},
    tasks::workflow_record::{StepEnded, StepResult, WorkflowOutcome, WorkflowStarted},
};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkflowState {
    /// The flows in progress, oldest first.
    pub open: Vec<WorkflowRun>,
    /// The highest id so far.
    pub(super) last: WorkflowRunId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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

impl WorkflowRun {
    /// A part of the current step ended. After the last part, the flow continues with the next
    /// step.
    pub(super) fn ended(&mut self, workflow: &Workflow, step: &str, result: StepResult) {
        self.waiting.retain(|name| name != step);
        self.running.retain(|(_, name)| name != step);
        self.results.insert(step.to_owned(), result);
        let Some(current) = self.at.and_then(|at| workflow.steps.get(at)) else {
            return;
        };
        if !self.waiting.is_empty() || !self.running.is_empty() {
            return;
        }
        let ok = current
            .parts()
            .iter()
            .all(|part| self.results.get(&part.name).is_some_and(|result| result.ok));
        let next = if ok {
            &current.on_success
        } else {
            &current.on_failure
        };
        let next = self.at.and_then(|at| workflow.after(at, next));
        if !ok && current.on_failure == StepTransition::End {
            self.outcome = WorkflowOutcome::Failed;
        }
        self.go_to(workflow, next);
    }

    /// A step without parts would never end, so it counts as successful and is skipped. Such steps
    /// could form a cycle, so at most as many are skipped as there are steps.
    pub(super) fn go_to(&mut self, workflow: &Workflow, next: Option<usize>) {
        let at = |at: usize| workflow.steps.get(at);
        let way = std::iter::successors(next, |here| workflow.after(*here, &at(*here)?.on_success));
        let does_something = |step: &WorkflowStep| !step.parts().is_empty();
        self.at = way
            .take(workflow.steps.len())
            .find(|here| at(*here).is_some_and(does_something));
        let step = self.at.and_then(at);
        self.waiting = step.map_or_else(Vec::new, |step| {
            step.parts().iter().map(|part| part.name.clone()).collect()
        });
    }
}

impl WorkflowState {
    pub(crate) fn awaits(&self, run: RunId) -> bool {
        self.running().any(|(_, running, _)| running == run)
    }

    /// The running steps with their flows.
    pub fn running(&self) -> impl Iterator<Item = (&WorkflowRun, RunId, &str)> {
        self.open.iter().flat_map(|flow| {
            flow.running
                .iter()
                .map(move |(run, step)| (flow, *run, step.as_str()))
        })
    }

    /// After an interrupt: discards everything that has not been started.
    pub(crate) fn cut(&mut self) {
        for flow in &mut self.open {
            (flow.at, flow.outcome) = (None, WorkflowOutcome::Cut);
            flow.waiting.clear();
        }
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
        let RunResult {
            end,
            stdout,
            stderr,
            ..
        } = result;
        let result = StepResult {
            ok: end == RunEnd::Exit(0),
            end: Some(end),
            stdout,
            stderr,
            task: None,
        };
        let ended = StepEnded {
            flow: flow.id,
            step: step.to_owned(),
            result,
            again: false,
        };
        EngineOutput::record(Event::Workflow(WorkflowEvent::StepEnded(Box::new(ended))))
    }

    /// The running steps as cut, because creel itself died.
    pub(crate) fn cut_steps(&self) -> impl Iterator<Item = (RunId, StepEnded)> {
        self.running().map(|(flow, run, step)| {
            let result = StepResult {
                end: Some(RunEnd::Cut),
                ..StepResult::default()
            };
            (
                run,
                StepEnded {
                    flow: flow.id,
                    step: step.to_owned(),
                    result,
                    again: flow.at.is_some(),
                },
            )
        })
    }
}
