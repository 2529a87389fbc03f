//! Loops that an agent drives itself, each over a task: the agent starts one, requests evaluations,
//! and continues or completes it.
//!
//! They run independently of the session's own iterations. The agent reports its work; rules and
//! hooks are those of the session.
//!
//! Also owns why a command about such a loop is refused, and a [`StopEvaluation`]: creel checks the
//! rules, then evaluates the stop hooks, then decides. An evaluation works the same for an
//! iteration of the session and for one of an agent's loop; only the context differs.
//!
//! # Invariants
//! - A task has at most one open loop, and a loop at most one evaluation in progress.
//! - A loop that escalates blocks its task, once, and stops the session at the end of the turn.
//!   Until the user has decided, the loop neither continues nor completes anything, regardless of
//!   later decisions about it.
//! - A loop completes its task only if the last evaluation of its iteration decided complete.
//! - Rules are checked in parallel, and no hook is evaluated before all rules have a result.
//! - An interrupted evaluation continues where it was; commands that were running run again.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::engine::{
    hooks::dispatch::ActiveRun,
    ids::RunId,
    stop::{
        chain::StopAnswers,
        context::{AgentDraft, Promise, RuleOutcome},
        decision::{StopAction, StopResult},
        guard::{ChangedFiles, GuardState, GuardStreaks, IterationFacts},
    },
};

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

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoopRefusal {
    NoIterations,
    /// The loop or the stop hook is for a task that does not exist. The agent would otherwise work
    /// on a mistyped name.
    UnknownTask {
        task: String,
        near: Option<String>,
        session: String,
    },
    LoopExists {
        task: String,
        loop_id: String,
        iteration: u32,
    },
    NoSuchLoop(String),
    LoopOver {
        loop_id: String,
        task: String,
    },
    BeingJudged(String),
    LimitUsed {
        loop_id: String,
        limit: u32,
    },
    /// The loop waits for the user, and does not continue.
    Escalated(String),
    /// The loop waits for the user, so its task is not completed.
    NotCompletedWhileEscalated(String),
    JudgedComplete(String),
    NotJudgedComplete {
        loop_id: String,
        last: Option<(StopAction, String)>,
    },
    /// The loop ended while its evaluation ran.
    EndedUnjudged(String),
    /// The session ended while the evaluation of a loop ran.
    SessionOverUnjudged,
}

impl LoopRefusal {
    /// The stable name of the reason, for programs.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NoIterations => "no_iterations",
            Self::UnknownTask { .. } => "no_such_task",
            Self::LoopExists { .. } => "loop_exists",
            Self::NoSuchLoop(_) => "no_such_loop",
            Self::LoopOver { .. } | Self::EndedUnjudged(_) => "loop_over",
            Self::BeingJudged(_) => "loop_being_judged",
            Self::LimitUsed { .. } => "iteration_limit_used",
            Self::Escalated(_) | Self::NotCompletedWhileEscalated(_) => "loop_escalated",
            Self::JudgedComplete(_) => "loop_judged_complete",
            Self::NotJudgedComplete { .. } => "loop_not_judged_complete",
            Self::SessionOverUnjudged => "session_ended",
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StopEvaluation {
    /// The agent's report, if the agent requested the evaluation.
    pub asked: Option<Box<EvaluationRequest>>,
    /// The rules that are still to be checked. `None` until the list is recorded.
    pub rules: Option<VecDeque<String>>,
    pub checking: Vec<ActiveRun>,
    pub results: Vec<RuleOutcome>,
    /// The stop hook command that is running.
    pub running: Option<ActiveRun>,
    /// The results of the commands that ended.
    pub answers: StopAnswers,
}

impl StopEvaluation {
    /// The evaluation that an agent requests in its own loop.
    pub(crate) fn asked(asked: EvaluationRequest, last: Vec<RuleOutcome>) -> Self {
        let (rules, results) = match asked.rules {
            RuleCheckMode::Check => (None, Vec::new()),
            RuleCheckMode::AsLast => (Some(VecDeque::new()), last),
        };
        Self {
            asked: Some(Box::new(asked)),
            rules,
            results,
            ..Self::default()
        }
    }

    pub fn runs(&self) -> impl Iterator<Item = &ActiveRun> {
        self.checking.iter().chain(&self.running)
    }

    /// The facts for the guards, from the agent's own report.
    pub(super) fn facts<'a>(&'a self, results: &'a [RuleOutcome]) -> IterationFacts<'a> {
        let (files, agent_text) = self
            .asked
            .as_ref()
            .map_or((&[][..], ""), |asked| (&asked.files, &asked.agent_text));
        IterationFacts {
            rules: results,
            files: ChangedFiles::Named(files),
            message: agent_text,
        }
    }

    pub(crate) fn rule_started(&mut self, rule: ActiveRun) {
        if let Some(queue) = &mut self.rules {
            queue.retain(|name| *name != rule.hook);
        }
        self.checking.push(rule);
    }

    pub(crate) fn rule_checked(&mut self, run: RunId, outcome: RuleOutcome) {
        self.checking.retain(|checking| checking.run != run);
        self.results.push(outcome);
    }

    /// Puts interrupted checks and commands back, so that they run again.
    pub(crate) fn cut(&mut self) {
        let again = std::mem::take(&mut self.checking)
            .into_iter()
            .map(|checking| checking.hook);
        self.rules.get_or_insert_default().extend(again);
    }
}
