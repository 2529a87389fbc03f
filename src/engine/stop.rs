//! Stop decisions: whether the session is complete, continues, or needs the user.
//!
//! Owns the evaluation of an iteration ([`stop_rules`], [`agent_loop::StopEvaluation`]). creel
//! checks the rules, then evaluates the stop hooks in order: the first that completes or escalates
//! decides, otherwise the last verdict counts ([`chain`]). Their input is the agent's [`context`]:
//! its promises, the results of the rules, and the changes. Presets answer immediately, commands
//! when they have run. Then an iteration that [`settled`] can complete the session, and a [`guard`]
//! can turn continue into escalate.
//!
//! The agent can register hooks and drive a loop of its own over a task ([`agent_loop`],
//! [`loop_rules`]), which is evaluated in the same way.
//!
//! Does not own the hooks of the point `stop`, which check each turn: see [`super::hooks`] and
//! [`super::retry`].
//!
//! # Invariants
//! - A session is complete only if a hook, a settled iteration or the user decided so.
//! - Agents can only make a decision about the session stricter.
//! - Data that hooks save ([`event::Checkpoint`]) is kept, whatever the decision.

pub mod agent_loop;
pub(crate) mod apply;
pub mod chain;
pub mod context;
pub mod decision;
pub mod event;
pub mod guard;
pub mod loop_rules;
pub mod settled;
pub mod stop_rules;

use serde::{Deserialize, Serialize};

use crate::engine::{
    event::{Actor, Event, StopEvent},
    output::EngineOutput,
    refusal::Refusal,
    stop::{
        agent_loop::{AgentLoop, EvaluationRequest, LoopRefusal},
        chain::RegisteredStopHook,
        context::RuleOutcome,
        decision::StopAction,
        event::TimedCheckpoint,
        guard::GuardState,
    },
    time::UnixTime,
};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StopState {
    /// In the order of registration.
    pub registered: Vec<RegisteredStopHook>,
    pub loops: Vec<AgentLoop>,
    pub checkpoints: Vec<TimedCheckpoint>,
    pub guards: GuardState,
    /// The reason with which the agent completed the session by a tool in this iteration, until it
    /// is evaluated. For an agent that the user runs by hand it is not evaluated: the session ends
    /// as soon as nothing is running.
    pub promised: Option<String>,
    /// The escalation of an agent loop, until the session's own evaluation or a gate handles it:
    /// the hook, the task, and the reason.
    pub escalated: Option<(String, String, String)>,
    /// The tasks that the last escalation blocked. They continue when the user agrees.
    pub blocked: Vec<String>,
    /// The rules of the session that failed in the last check.
    pub failed_rules: Vec<RuleOutcome>,
    /// Whether the agent was told that it has not done anything yet.
    #[serde(default)]
    pub idle: bool,
    /// The open tasks that the agent was reminded of when it said that it is done.
    #[serde(default)]
    pub reminded: Vec<String>,
    /// The highest number of a hook or a loop so far.
    pub last: u32,
}

impl StopState {
    /// A unique id.
    fn name(&self, prefix: &str, now: UnixTime) -> String {
        format!(
            "{prefix}-{}-{}",
            now.0.div_euclid(1_000),
            base36(self.last + 1)
        )
    }
}

/// A number in base 36, with at least three digits.
fn base36(mut number: u32) -> String {
    let mut digits = Vec::new();
    while number > 0 || digits.len() < 3 {
        digits.push(char::from_digit(number % 36, 36).expect("a remainder of 36 is one digit"));
        number /= 36;
    }
    digits.iter().rev().collect()
}

impl StopState {
    /// Removes the hooks of a task. An agent or hook removes only those that agents and hooks
    /// registered.
    pub(crate) fn clear_stop_hooks(&self, by: &Actor, task: String) -> EngineOutput {
        let may = |known: &&RegisteredStopHook| !by.by.is_supervised() || known.by.is_supervised();
        let hooks = self
            .registered
            .iter()
            .filter(|known| known.task == task)
            .filter(may);
        let hooks = hooks.map(|known| known.id.clone());
        EngineOutput::record(Event::Stop(StopEvent::HooksCleared {
            hooks: hooks.collect(),
            task,
            by: by.clone(),
        }))
    }

    pub fn agent_loop(&self, id: &str) -> Option<&AgentLoop> {
        self.loops.iter().find(|known| known.id == id)
    }

    pub(crate) fn open_loop(&self, id: &str) -> Result<&AgentLoop, LoopRefusal> {
        let Some(known) = self.agent_loop(id) else {
            return Err(LoopRefusal::NoSuchLoop(id.to_owned()));
        };
        if known.is_over {
            return Err(LoopRefusal::LoopOver {
                loop_id: id.to_owned(),
                task: known.task.clone(),
            });
        }
        if known.judging.is_some() {
            return Err(LoopRefusal::BeingJudged(id.to_owned()));
        }
        Ok(known)
    }

    pub(crate) fn ask_judgement(
        &self,
        by: &Actor,
        asked: EvaluationRequest,
    ) -> Result<EngineOutput, Refusal> {
        let iteration = self.open_loop(&asked.id)?.iteration;
        Ok(EngineOutput::record(Event::Stop(
            StopEvent::JudgementAsked {
                iteration,
                asked: Box::new(asked),
                by: by.clone(),
            },
        )))
    }

    /// Whether a loop has escalated and the user has not decided yet.
    pub(crate) fn waits_for_a_person(&self, known: &AgentLoop) -> bool {
        let decided = known
            .decided
            .as_ref()
            .is_some_and(|decided| decided.action == StopAction::Escalate);
        let to_be_taken_up = self
            .escalated
            .as_ref()
            .is_some_and(|(_, task, _)| *task == known.task);
        decided || to_be_taken_up
    }

    /// Why the session cannot resume from that checkpoint. None if it can.
    pub(crate) fn refuse_checkpoint(&self, number: Option<u32>) -> Option<Refusal> {
        let number = number.filter(|number| self.checkpoint(*number).is_none())?;
        let last = self
            .checkpoints
            .last()
            .map(|kept| kept.checkpoint.checkpoint);
        Some(Refusal::NoSuchCheckpoint { number, last })
    }

    /// A hint for a user that resumes a session without choosing a checkpoint.
    pub(crate) fn offer_checkpoint(&self, chosen: Option<u32>) -> Option<Event> {
        let last = &self
            .checkpoints
            .last()
            .filter(|_| chosen.is_none())?
            .checkpoint;
        let (number, iteration) = (last.checkpoint, last.iteration);
        Some(Event::warning(format!(
            "checkpoint {number} of iteration {iteration} exists. To send it to the agent, resume the session with \
             `--checkpoint {number}`"
        )))
    }

    pub fn checkpoint(&self, number: u32) -> Option<&TimedCheckpoint> {
        self.checkpoints
            .iter()
            .find(|kept| kept.checkpoint.checkpoint == number)
    }

    pub(crate) fn loop_mut(&mut self, id: &str) -> Option<&mut AgentLoop> {
        self.loops.iter_mut().find(|known| known.id == id)
    }
}
