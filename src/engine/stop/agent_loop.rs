//! Loops that an agent drives itself, each over a task: the agent starts one, requests evaluations, and continues or
//! completes it.
//!
//! They run independently of the session's own iterations. The agent reports its work; rules and hooks are those of the
//! session.
//!
//! # Invariants
//! - A task has at most one open loop, and a loop at most one evaluation in progress.
//! - A loop that escalates blocks its task, once, and stops the session at the end of the turn. Until the user has
//!   decided, the loop neither continues nor completes anything, regardless of later decisions about it.
//! - A loop completes its task only if the last evaluation of its iteration decided complete.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    StopAction, StopResult,
    checkpoint::NewCheckpoint,
    context::{AgentDraft, RuleOutcome},
    guard::{GuardState, IterationFacts},
    promise::Promise,
};
use crate::engine::{
    EngineOutput,
    event::{Actor, Event, StopEvent},
    nearest_name::nearest,
    policy::SessionPlan,
    refusal::Refusal,
    session::turn::TurnState,
    stop::{StopState, evaluation::StopEvaluation, loop_refusal::LoopRefusal},
    tasks::{
        SessionTasks,
        command::{TaskCommand, TaskCompletion, TaskRules},
        record::ChangeOrigin,
        refusal::TaskRefusal,
        task::{Task, TaskState},
    },
    time::UnixTime,
};

#[derive(Debug, Clone, PartialEq)]
pub struct AgentLoop {
    pub id: String,
    pub task: String,
    pub max_iterations: u32,
    /// The promises that count in it.
    pub promises: Vec<Promise>,
    /// From 1.
    pub iteration: u32,
    /// The evaluation in progress.
    pub judging: Option<StopEvaluation>,
    /// The last results of the rules.
    pub results: Vec<RuleOutcome>,
    /// The last decision about the current iteration.
    pub decided: Option<StopResult>,
    pub guards: LoopGuards,
    pub is_over: bool,
}

/// The guards of a loop. An iteration counts once, even if the agent requests several evaluations of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoopGuards {
    /// Before the current iteration.
    before: GuardState,
    /// After the last evaluation of the current iteration.
    now: GuardState,
}

impl LoopGuards {
    /// The state of the guards after this evaluation.
    pub(super) fn with(&self, sight: IterationFacts<'_>) -> GuardState {
        self.before.after(sight)
    }

    pub(super) fn judge(&mut self, sight: IterationFacts<'_>) {
        self.now = self.with(sight);
    }

    pub(super) fn advance(&mut self) {
        self.before = self.now.clone();
    }
}

/// An agent's command about its own loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoopCommand {
    Start {
        task: String,
        max_iterations: u32,
        /// The promises that count. Empty: all.
        promises: Vec<Promise>,
    },
    /// Evaluate the iteration.
    Judge(Box<EvaluationRequest>),
    /// Start the next iteration.
    Next { id: String, checkpoint: Option<Value> },
    /// Complete the task.
    Complete { id: String, promise: Promise },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EvaluationRequest {
    #[serde(rename = "loop")]
    pub id: String,
    /// The agent's message.
    #[serde(default)]
    pub said: String,
    /// The changed files, as the agent reports them.
    #[serde(default)]
    pub files: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draft: Option<AgentDraft>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Value>,
    pub rules: RuleCheckMode,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleCheckMode {
    /// Check the rules first, on this iteration's state.
    Check,
    /// Use the last results.
    AsLast,
}

impl AgentLoop {
    /// Whether the last evaluation of the current iteration decided complete.
    fn is_judged_complete(&self) -> bool {
        self.decided.as_ref().is_some_and(|decided| decided.action == StopAction::Complete)
    }
}

/// Carries out an agent's commands about its own loops and stop hooks.
#[derive(Debug, Clone, Copy)]
pub struct LoopRules<'a> {
    pub(crate) name: &'a str,
    pub(crate) plan: &'a SessionPlan,
    pub(crate) turns: &'a TurnState,
    pub(crate) tasks: &'a SessionTasks,
    pub(crate) stop: &'a StopState,
    pub(crate) task_rules: TaskRules<'a>,
}

impl LoopRules<'_> {
    pub(crate) fn on_loop_command(self, by: &Actor, command: LoopCommand, now: UnixTime) -> EngineOutput {
        let done = match command {
            LoopCommand::Start { task, max_iterations, promises } => {
                self.start_loop(by, task, max_iterations, promises, now)
            }
            LoopCommand::Judge(asked) => self.stop.ask_judgement(by, *asked),
            LoopCommand::Next { id, checkpoint } => self.advance_loop(by, id, checkpoint),
            LoopCommand::Complete { id, promise } => self.complete_loop(by, id, promise),
        };
        done.unwrap_or_else(EngineOutput::refuse)
    }

    pub(crate) fn start_loop(
        self,
        by: &Actor,
        task: String,
        max_iterations: u32,
        promises: Vec<Promise>,
        now: UnixTime,
    ) -> Result<EngineOutput, Refusal> {
        if max_iterations == 0 {
            return Err(LoopRefusal::NoIterations.into());
        }
        self.known_task(&task)?;
        let mut events = Vec::new();
        if let Some(open) = self.stop.loops.iter().find(|known| known.task == task && !known.is_over) {
            let (loop_id, iteration) = (open.id.clone(), open.iteration);
            return Err(LoopRefusal::LoopExists { task, loop_id, iteration }.into());
        }
        if let Some(known) = self.tasks.graph.get(&task) {
            match known.state {
                TaskState::Completed => return Err(TaskRefusal::Completed(task).into()),
                TaskState::Active if known.is_elsewhere() => {
                    return Err(TaskRefusal::ActiveInQueue(task).into());
                }
                TaskState::Active => {}
                TaskState::Created | TaskState::Ready | TaskState::Blocked => {
                    let start = TaskCommand::Start { id: task.clone(), context: None };
                    events.push(self.task_rules.task_event(start, ChangeOrigin::by(by.clone()))?);
                }
            }
        }
        let loop_id = self.stop.name("IT", now);
        events.push(Event::Stop(StopEvent::LoopStarted { loop_id, task, max_iterations, promises, by: by.clone() }));
        Ok(events.into_iter().fold(EngineOutput::default(), EngineOutput::and))
    }

    /// Refuses a task that does not exist. The agent would otherwise work on a mistyped name as a task of its own.
    pub(crate) fn known_task(self, task: &str) -> Result<(), LoopRefusal> {
        let graph = &self.tasks.graph;
        if task == self.name || graph.get(task).is_some() {
            return Ok(());
        }
        let known = graph.tasks().into_iter().map(|task| task.id.as_str()).chain([self.name]);
        let near = nearest(task, known).map(str::to_owned);
        Err(LoopRefusal::UnknownTask { task: task.to_owned(), near, session: self.name.to_owned() })
    }

    pub(crate) fn advance_loop(
        self,
        by: &Actor,
        id: String,
        checkpoint: Option<Value>,
    ) -> Result<EngineOutput, Refusal> {
        let known = self.stop.open_loop(&id)?;
        if known.iteration >= known.max_iterations {
            return Err(LoopRefusal::LimitUsed { loop_id: id, limit: known.max_iterations }.into());
        }
        if self.stop.waits_for_a_person(known) {
            return Err(LoopRefusal::Escalated(id).into());
        }
        if known.is_judged_complete() {
            return Err(LoopRefusal::JudgedComplete(id).into());
        }
        let (task, iteration) = (known.task.clone(), known.iteration);
        let kept = checkpoint.map(|data| NewCheckpoint { task, iteration, hook: None, data });
        let step = self.keep(kept).into_iter().fold(EngineOutput::default(), EngineOutput::and);
        Ok(step.and(Event::Stop(StopEvent::LoopAdvanced { loop_id: id, iteration: iteration + 1, by: by.clone() })))
    }

    pub(crate) fn complete_loop(self, by: &Actor, id: String, promise: Promise) -> Result<EngineOutput, Refusal> {
        let known = self.stop.open_loop(&id)?;
        let task = known.task.clone();
        let mut events = Vec::new();
        let is_open = self.tasks.graph.get(&task).is_some_and(Task::is_open);
        let about = match promise {
            Promise::Complete if self.stop.waits_for_a_person(known) => {
                return Err(LoopRefusal::NotCompletedWhileEscalated(id).into());
            }
            Promise::Complete if !known.is_judged_complete() => {
                let last = known.decided.as_ref().map(|decided| (decided.action, decided.reason.clone()));
                return Err(LoopRefusal::NotJudgedComplete { loop_id: id, last }.into());
            }
            Promise::Complete => {
                let done = TaskCompletion { id: task.clone(), ..TaskCompletion::default() };
                is_open.then_some(TaskCommand::Complete(done))
            }
            Promise::Escalate | Promise::Blocked => {
                let reason = format!("the agent ended its work with {}", promise.tag());
                let block = TaskCommand::Block { id: task.clone(), reason, required_knowledge: Vec::new() };
                (is_open && !self.tasks.is_blocked(&task)).then_some(block)
            }
        };
        if let Some(about) = about {
            events.push(self.task_rules.task_event(about, ChangeOrigin::by(by.clone()))?);
        }
        let iterations = known.iteration;
        events.push(Event::Stop(StopEvent::LoopEnded { loop_id: id, task, iterations, promise, by: by.clone() }));
        Ok(events.into_iter().fold(EngineOutput::default(), EngineOutput::and))
    }
}
