//! Loops that an agent drives itself, each over a task: the agent starts one, requests evaluations,
//! and continues or completes it.
//!
//! They run independently of the session's own iterations. The agent reports its work; rules and
//! hooks are those of the session.
//!
//! # Invariants
//! - A task has at most one open loop, and a loop at most one evaluation in progress.
//! - A loop that escalates blocks its task, once, and stops the session at the end of the turn.
//!   Until the user has decided, the loop neither continues nor completes anything, regardless of
//!   later decisions about it.
//! - A loop completes its task only if the last evaluation of its iteration decided complete.

use crate::engine::stop::{
    context::{AgentDraft, RuleOutcome},
    decision::{StopAction, StopResult},
    evaluation::StopEvaluation,
    guard::{GuardState, GuardStreaks, IterationFacts},
    promise::Promise,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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

/// The guards of a loop. An iteration counts once, even if the agent requests several evaluations
/// of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopGuards {
    /// Before the current iteration.
    before: GuardState,
    /// After the last evaluation of the current iteration.
    now: GuardState,
}

impl LoopGuards {
    /// The state of the guards after this evaluation.
    pub(super) fn with(&self, facts: IterationFacts<'_>) -> GuardState {
        self.before.after(facts)
    }

    /// What repeats itself with this evaluation.
    pub(crate) fn streaks(&self, facts: IterationFacts<'_>) -> GuardStreaks {
        self.before.streaks(facts)
    }

    pub(super) fn store(&mut self, facts: IterationFacts<'_>, streaks: GuardStreaks) {
        self.now.clone_from(&self.before);
        self.now.store(facts, streaks);
    }

    pub(super) fn advance(&mut self) {
        self.before = self.now.clone();
    }
}

impl AgentLoop {
    /// Whether the last evaluation of the current iteration decided complete.
    pub(super) fn is_judged_complete(&self) -> bool {
        self.decided
            .as_ref()
            .is_some_and(|decided| decided.action == StopAction::Complete)
    }
}

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
    Next {
        id: String,
        checkpoint: Option<Value>,
    },
    /// Complete the task.
    Complete { id: String, promise: Promise },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EvaluationRequest {
    #[serde(rename = "loop")]
    pub id: String,
    /// The agent's message.
    #[serde(default, rename = "said")]
    pub agent_text: String,
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
