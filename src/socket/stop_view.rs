//! Stop hooks, loops, judgements and checkpoints as clients see them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    engine::{
        SessionState,
        event::{Event, StopEvent},
        stop::{
            agent_loop::AgentLoop, checkpoint::Checkpoint, decision::StopAction, promise::Promise,
        },
        time::TimeSpan,
    },
    journal::{Record, record::rfc3339},
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StopHookView {
    pub id: String,
    /// The task's id, or the session's name if the hook is for the session.
    pub task: String,
    pub preset: String,
    pub enabled: bool,
    /// Data of the client that registered it. creel does not use it.
    pub metadata: Map<String, Value>,
}

/// A loop of a self-driven agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoopView {
    pub id: String,
    pub task: String,
    /// The current iteration, from 1.
    pub iteration: u32,
    pub max_iterations: u32,
    /// The promises that count. Empty means all.
    pub promises: Vec<Promise>,
    pub is_over: bool,
    /// The last decision about the current iteration.
    pub decided: Option<StopAction>,
}

/// The result of a rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RuleView {
    pub rule: String,
    pub passed: bool,
    /// What the check found.
    pub message: String,
    pub took_ms: TimeSpan,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JudgementView {
    /// The stop hook that decided.
    pub hook: String,
    pub iteration: u32,
    pub action: StopAction,
    pub reason: String,
    /// What the agent is to do next.
    pub next_prompt: Option<String>,
    /// The results of the rules, if they were checked.
    pub rules: Vec<RuleView>,
    pub checkpoint_created: bool,
    /// Other data that the hook returned.
    pub metadata: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckpointView {
    pub at: String,
    #[serde(flatten)]
    pub checkpoint: Checkpoint,
}

/// The stop hooks that were registered for a task, or all of them.
pub fn hooks(state: &SessionState, task: Option<&str>) -> Vec<StopHookView> {
    let wanted = state
        .stop
        .registered
        .iter()
        .filter(|known| task.is_none_or(|task| known.task == task));
    wanted
        .map(|known| StopHookView {
            id: known.id.clone(),
            task: known.task.clone(),
            preset: known.preset().to_owned(),
            enabled: state.hooks.stop_hook_is_on(&known.hook),
            metadata: known.metadata.clone(),
        })
        .collect()
}

pub fn agent_loop(known: &AgentLoop) -> LoopView {
    LoopView {
        id: known.id.clone(),
        task: known.task.clone(),
        iteration: known.iteration,
        max_iterations: known.max_iterations,
        promises: known.promises.clone(),
        is_over: known.is_over,
        decided: known.decided.as_ref().map(|decided| decided.action),
    }
}

/// Oldest first.
pub fn checkpoints(state: &SessionState) -> Vec<CheckpointView> {
    let kept = state.stop.checkpoints.iter();
    kept.map(|kept| CheckpointView {
        at: rfc3339(kept.at),
        checkpoint: kept.checkpoint.clone(),
    })
    .collect()
}

impl JudgementView {
    /// The decision at the end of these records, which belong to one judgement.
    pub fn of<'a>(records: impl IntoIterator<Item = &'a Record>) -> Option<Self> {
        let mut rules = Vec::new();
        let mut checkpoint_created = false;
        for record in records {
            if let Event::Stop(StopEvent::RuleChecked {
                rule,
                passed,
                message,
                took_ms,
                ..
            }) = &record.event
            {
                let (rule, message) = (rule.clone(), message.clone());
                rules.push(RuleView {
                    rule,
                    passed: *passed,
                    message,
                    took_ms: *took_ms,
                });
            }
            checkpoint_created |= matches!(record.event, Event::Stop(StopEvent::CheckpointKept(_)));
            if let Event::Stop(StopEvent::Decided(decided)) = &record.event {
                return Some(Self {
                    hook: decided.hook.clone(),
                    iteration: decided.iteration,
                    action: decided.action,
                    reason: decided.reason.clone(),
                    next_prompt: decided.next_prompt.clone(),
                    rules,
                    checkpoint_created,
                    metadata: decided.metadata.clone().unwrap_or_default(),
                });
            }
        }
        None
    }
}
