//! Stop hooks, loops, judgements and checkpoints as they are told to those who ask: plain facts, no rules.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    engine::{
        SessionState,
        event::{Event, StopEvent},
        stop::{StopAction, agent_loop::AgentLoop, checkpoint::Checkpoint, promise::Promise},
        time::TimeSpan,
    },
    journal::{Record, record::rfc3339},
};

/// A stop hook that was registered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StopHookView {
    /// Its name.
    pub id: String,
    /// The task; the session's name where it is for the session.
    pub task: String,
    /// The preset.
    pub preset: String,
    /// Whether it is asked.
    pub enabled: bool,
    /// What whoever registered it wants to know of it.
    pub metadata: Map<String, Value>,
}

/// A loop that an agent leads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoopView {
    /// Its name.
    pub id: String,
    /// The task.
    pub task: String,
    /// Where it is, from 1.
    pub iteration: u32,
    /// How many iterations it may have.
    pub max_iterations: u32,
    /// The promises that count; all, if none is named.
    pub promises: Vec<Promise>,
    /// Whether it is over.
    pub is_over: bool,
    /// What was decided last about the iteration that it is in.
    pub decided: Option<StopAction>,
}

/// What a rule said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RuleView {
    /// The rule.
    pub rule: String,
    /// Whether it holds.
    pub passed: bool,
    /// What was found.
    pub message: String,
    /// How long the check took.
    pub took_ms: TimeSpan,
}

/// What was decided about an iteration of a loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JudgementView {
    /// Who decided.
    pub hook: String,
    /// The iteration.
    pub iteration: u32,
    /// What.
    pub action: StopAction,
    /// Why.
    pub reason: String,
    /// What the agent is to do next.
    pub next_prompt: Option<String>,
    /// What the rules said, where they were checked.
    pub rules: Vec<RuleView>,
    /// Whether something was kept.
    pub checkpoint_created: bool,
    /// What else the hook said.
    pub metadata: Map<String, Value>,
}

/// Something that was kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckpointView {
    /// When.
    pub at: String,
    /// What.
    #[serde(flatten)]
    pub checkpoint: Checkpoint,
}

/// The stop hooks that were registered for a task, or all of them.
pub fn hooks(state: &SessionState, task: Option<&str>) -> Vec<StopHookView> {
    let wanted = state.stop.registered.iter().filter(|known| task.is_none_or(|task| known.task == task));
    wanted
        .map(|known| StopHookView {
            id: known.id.clone(),
            task: known.task.clone(),
            preset: known.preset().to_owned(),
            enabled: state.stop_hook_is_on(&known.hook),
            metadata: known.metadata.clone(),
        })
        .collect()
}

/// A loop.
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

/// What was kept, oldest first.
pub fn checkpoints(state: &SessionState) -> Vec<CheckpointView> {
    let kept = state.stop.checkpoints.iter();
    kept.map(|kept| CheckpointView { at: rfc3339(kept.at), checkpoint: kept.checkpoint.clone() }).collect()
}

impl JudgementView {
    /// The decision that these records, of one judgement, end with.
    pub fn of<'a>(records: impl IntoIterator<Item = &'a Record>) -> Option<Self> {
        let mut rules = Vec::new();
        let mut checkpoint_created = false;
        for record in records {
            if let Event::Stop(StopEvent::RuleChecked { rule, passed, message, took_ms, .. }) = &record.event {
                let (rule, message) = (rule.clone(), message.clone());
                rules.push(RuleView { rule, passed: *passed, message, took_ms: *took_ms });
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
