//! Stop decisions: whether the session is complete, goes on, or needs a person.
//!
//! After each iteration the rules are checked, then the hooks are asked, in order: the first that completes or escalates
//! decides, otherwise the last one's word stands ([`chain`]). What they judge is the agent's [`context`]: its promises
//! ([`promise`]), what the rules said, what changed. Presets answer at once ([`preset`]), commands when they have run
//! ([`evaluation`]). A decision to go on can still be turned into one to ask a person ([`guard`]).
//!
//! The agent takes part: it registers hooks ([`registry`]), and may lead a loop of its own over a task ([`agent_loop`]), which is
//! judged in the same way.
//!
//! # Invariants
//! - A session is complete only if a hook or a person said so.
//! - What hooks gave to be kept ([`checkpoint`]) is kept, whatever was decided.

pub mod agent_loop;
pub mod chain;
pub mod checkpoint;
pub mod context;
pub mod evaluation;
pub mod file_history;
pub mod guard;
pub mod preset;
pub mod promise;
pub mod registry;
pub mod rule;
pub mod settled;

mod apply;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::time::UnixTime;
use crate::engine::stop::agent_loop::AgentLoop;
use checkpoint::TimedCheckpoint;
use context::RuleOutcome;
use guard::GuardState;
use registry::RegisteredStopHook;

/// What is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopAction {
    /// The work is done.
    Complete,
    /// Another iteration.
    Continue,
    /// A person has to look.
    Escalate,
}

impl StopAction {
    /// The name in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Continue => "continue",
            Self::Escalate => "escalate",
        }
    }
}

/// A decision, as a hook answers it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StopResult {
    /// What.
    pub action: StopAction,
    /// Why.
    #[serde(default)]
    pub reason: String,
    /// What the agent should be told with its next prompt.
    #[serde(default, alias = "nextPrompt", skip_serializing_if = "Option::is_none")]
    pub next_prompt: Option<String>,
    /// What is to be kept.
    #[serde(default, alias = "checkpointData", skip_serializing_if = "Option::is_none")]
    pub checkpoint_data: Option<Value>,
    /// Whatever else it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

impl StopResult {
    /// A decision with nothing but its grounds.
    pub fn new(action: StopAction, reason: impl Into<String>) -> Self {
        Self { action, reason: reason.into(), next_prompt: None, checkpoint_data: None, metadata: None }
    }

    /// What a hook that did not do its job decides.
    pub fn failed(error: &str) -> Self {
        let metadata = Map::from_iter([("error".to_owned(), Value::from(error))]);
        let reason = format!("Hook evaluation failed: {error}");
        Self { metadata: Some(metadata), ..Self::new(StopAction::Escalate, reason) }
    }

    /// The same, with something to tell the agent.
    #[must_use]
    pub fn telling(self, next_prompt: impl Into<String>) -> Self {
        Self { next_prompt: Some(next_prompt.into()), ..self }
    }
}

/// What a session knows about its stop decisions beside the plan.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StopState {
    /// The hooks that were registered, in order.
    pub registered: Vec<RegisteredStopHook>,
    /// The loops that agents lead.
    pub loops: Vec<AgentLoop>,
    /// What was kept.
    pub checkpoints: Vec<TimedCheckpoint>,
    /// What was seen in the iterations so far.
    pub guards: GuardState,
    /// What the agent said in this iteration when it completed the session by a tool, until that is judged. One that leads
    /// itself is not judged: its session ends as soon as nothing of it runs.
    pub promised: Option<String>,
    /// The decision of a loop to escalate, until the main line has taken it up, by its judgement or else by a gate: the hook, the task, and why.
    pub escalated: Option<(String, String, String)>,
    /// The tasks that the last escalation blocked, which go on when a person says so.
    pub blocked: Vec<String>,
    /// The rules of the session that failed when they were last checked.
    pub failed_rules: Vec<RuleOutcome>,
    /// The last number given to a hook or a loop.
    pub last: u32,
}

impl StopState {
    /// A name that nothing else has.
    fn name(&self, prefix: &str, now: UnixTime) -> String {
        format!("{prefix}-{}-{}", now.0.div_euclid(1_000), base36(self.last + 1))
    }
}

/// A number in digits and letters, at least three of them.
fn base36(mut number: u32) -> String {
    let mut digits = Vec::new();
    while number > 0 || digits.len() < 3 {
        digits.push(char::from_digit(number % 36, 36).expect("a remainder of 36 is one digit"));
        number /= 36;
    }
    digits.iter().rev().collect()
}
