//! Carries out the commands of an agent about its own loops, stop hooks and checkpoints, or refuses
//! them.

use serde_json::Value;

use crate::{
    engine::{
        event::{Actor, Event, StopEvent},
        output::EngineOutput,
        policy::{SessionPlan, StopHook},
        refusal::Refusal,
        stop::{
            StopState,
            agent_loop::{LoopCommand, LoopRefusal},
            chain::StopHookRegistration,
            context::Promise,
            event::{Checkpoint, NewCheckpoint},
        },
        tasks::{
            SessionTasks,
            command::{TaskCommand, TaskCompletion, TaskRefusal},
            graph::{Task, TaskState},
            record::ChangeOrigin,
            task_rules::TaskRules,
        },
        time::UnixTime,
        turn::TurnState,
    },
    text::nearest,
};

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
    pub(crate) fn on_loop_command(
        self,
        by: &Actor,
        command: LoopCommand,
        now: UnixTime,
    ) -> EngineOutput {
        let done = match command {
            LoopCommand::Start {
                task,
                max_iterations,
                promises,
            } => self.start_loop(by, task, max_iterations, promises, now),
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
        if let Some(open) = self
            .stop
            .loops
            .iter()
            .find(|known| known.task == task && !known.is_over)
        {
            let (loop_id, iteration) = (open.id.clone(), open.iteration);
            return Err(LoopRefusal::LoopExists {
                task,
                loop_id,
                iteration,
            }
            .into());
        }
        if let Some(known) = self.tasks.graph.get(&task) {
            match known.state {
                TaskState::Completed => return Err(TaskRefusal::Completed(task).into()),
                TaskState::Active if known.is_elsewhere() => {
                    return Err(TaskRefusal::ActiveInQueue(task).into());
                }
                TaskState::Active => {}
                TaskState::Created | TaskState::Ready | TaskState::Blocked => {
                    let start = TaskCommand::Start {
                        id: task.clone(),
                        context: None,
                    };
                    events.push(
                        self.task_rules
                            .task_event(start, ChangeOrigin::by(by.clone()))?,
                    );
                }
            }
        }
        let loop_id = self.stop.name("IT", now);
        events.push(Event::Stop(StopEvent::LoopStarted {
            loop_id,
            task,
            max_iterations,
            promises,
            by: by.clone(),
        }));
        Ok(events
            .into_iter()
            .fold(EngineOutput::default(), EngineOutput::and))
    }

    /// Refuses a task that does not exist. The agent would otherwise work on a mistyped name as a
    /// task of its own.
    pub(crate) fn known_task(self, task: &str) -> Result<(), LoopRefusal> {
        let graph = &self.tasks.graph;
        if task == self.name || graph.get(task).is_some() {
            return Ok(());
        }
        let known = graph
            .tasks()
            .into_iter()
            .map(|task| task.id.as_str())
            .chain([self.name]);
        let near = nearest(task, known).map(str::to_owned);
        Err(LoopRefusal::UnknownTask {
            task: task.to_owned(),
            near,
            session: self.name.to_owned(),
        })
    }

    pub(crate) fn advance_loop(
        self,
        by: &Actor,
        id: String,
        checkpoint: Option<Value>,
    ) -> Result<EngineOutput, Refusal> {
        let known = self.stop.open_loop(&id)?;
        if known.iteration >= known.max_iterations {
            return Err(LoopRefusal::LimitUsed {
                loop_id: id,
                limit: known.max_iterations,
            }
            .into());
        }
        if self.stop.waits_for_a_person(known) {
            return Err(LoopRefusal::Escalated(id).into());
        }
        if known.is_judged_complete() {
            return Err(LoopRefusal::JudgedComplete(id).into());
        }
        let (task, iteration) = (known.task.clone(), known.iteration);
        let kept = checkpoint.map(|data| NewCheckpoint {
            task,
            iteration,
            hook: None,
            data,
        });
        let step = self
            .keep(kept)
            .into_iter()
            .fold(EngineOutput::default(), EngineOutput::and);
        Ok(step.and(Event::Stop(StopEvent::LoopAdvanced {
            loop_id: id,
            iteration: iteration + 1,
            by: by.clone(),
        })))
    }

    pub(crate) fn complete_loop(
        self,
        by: &Actor,
        id: String,
        promise: Promise,
    ) -> Result<EngineOutput, Refusal> {
        let known = self.stop.open_loop(&id)?;
        let task = known.task.clone();
        let mut events = Vec::new();
        let is_open = self.tasks.graph.get(&task).is_some_and(Task::is_open);
        let about = match promise {
            Promise::Complete if self.stop.waits_for_a_person(known) => {
                return Err(LoopRefusal::NotCompletedWhileEscalated(id).into());
            }
            Promise::Complete if !known.is_judged_complete() => {
                let last = known
                    .decided
                    .as_ref()
                    .map(|decided| (decided.action, decided.reason.clone()));
                return Err(LoopRefusal::NotJudgedComplete { loop_id: id, last }.into());
            }
            Promise::Complete => {
                let done = TaskCompletion {
                    id: task.clone(),
                    ..TaskCompletion::default()
                };
                is_open.then_some(TaskCommand::Complete(done))
            }
            Promise::Escalate | Promise::Blocked => {
                let reason = format!("the agent ended its work with {}", promise.tag());
                let block = TaskCommand::Block {
                    id: task.clone(),
                    reason,
                    required_knowledge: Vec::new(),
                };
                (is_open && !self.tasks.is_blocked(&task)).then_some(block)
            }
        };
        if let Some(about) = about {
            events.push(
                self.task_rules
                    .task_event(about, ChangeOrigin::by(by.clone()))?,
            );
        }
        let iterations = known.iteration;
        events.push(Event::Stop(StopEvent::LoopEnded {
            loop_id: id,
            task,
            iterations,
            promise,
            by: by.clone(),
        }));
        Ok(events
            .into_iter()
            .fold(EngineOutput::default(), EngineOutput::and))
    }
}

impl LoopRules<'_> {
    /// Numbers new checkpoints and returns their records.
    pub(crate) fn keep(self, all: impl IntoIterator<Item = NewCheckpoint>) -> Vec<Event> {
        let last = self
            .stop
            .checkpoints
            .last()
            .map_or(0, |kept| kept.checkpoint.checkpoint);
        let work = self.turns.work.as_ref();
        let numbered = (last + 1..).zip(all);
        numbered
            .map(
                |(
                    checkpoint,
                    NewCheckpoint {
                        task,
                        iteration,
                        hook,
                        data,
                    },
                )| {
                    let commit = work.and_then(|work| work.commit.clone());
                    let dirty = work.map(|work| work.dirty.clone()).unwrap_or_default();
                    Event::Stop(StopEvent::CheckpointKept(Box::new(Checkpoint {
                        checkpoint,
                        task,
                        iteration,
                        hook,
                        data,
                        commit,
                        dirty,
                    })))
                },
            )
            .collect()
    }
}

/// The most hooks that a task can have.
pub(crate) const MOST: usize = 50;

impl<'a> LoopRules<'a> {
    pub(crate) fn register_stop_hook(
        self,
        by: &Actor,
        wanted: StopHookRegistration,
        now: UnixTime,
    ) -> EngineOutput {
        let StopHookRegistration {
            task,
            preset,
            metadata,
        } = wanted;
        if let Err(why) = self.known_task(&task) {
            return EngineOutput::refuse(why);
        }
        if self
            .stop
            .registered
            .iter()
            .filter(|known| known.task == task)
            .count()
            >= MOST
        {
            return EngineOutput::refuse(Refusal::TooManyStopHooks { task, limit: MOST });
        }
        let hook_id = self.stop.name("HOOK", now);
        let hook = StopHook {
            name: hook_id.clone(),
            ..StopHook::preset(preset)
        };
        EngineOutput::record(Event::Stop(StopEvent::HookRegistered {
            hook_id,
            task,
            hook: Box::new(hook),
            metadata,
            by: by.clone(),
        }))
    }

    /// The stop hook of that name, configured or registered.
    pub fn stop_hook(self, name: &str) -> Option<&'a StopHook> {
        let registered = || {
            self.stop
                .registered
                .iter()
                .find(|known| known.id == name)
                .map(|known| &known.hook)
        };
        self.plan.stop.hook(name).or_else(registered)
    }
}
