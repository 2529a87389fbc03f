//! One stop evaluation: creel checks the rules, then evaluates the stop hooks, then decides.
//!
//! It works the same for an iteration of the session and for one of a loop that an agent drives
//! itself; only the context differs.
//!
//! # Invariants
//! - Rules are checked in parallel, and no hook is evaluated before all rules have a result.
//! - An interrupted evaluation continues where it was; commands that were running run again.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::engine::{
    hooks::dispatch::ActiveRun,
    ids::RunId,
    stop::{
        agent_loop::{EvaluationRequest, RuleCheckMode},
        chain::StopAnswers,
        context::RuleOutcome,
        file_history::ChangedFiles,
        guard::IterationFacts,
    },
};

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
