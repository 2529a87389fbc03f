//! The last result of each check, and the pass of the checks in progress.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::engine::{
    hooks::dispatch::FinishedRun,
    session::phase::VerificationPass,
    verify::{CheckKind, CheckRef, CheckRun, PassFeedback, test_guard::TestGuard},
};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct VerificationState {
    /// Grows whenever the work may have changed.
    pub version: u64,
    /// In the order in which they first ran.
    pub checks: Vec<CheckRun>,
    /// How many times in a row the checks changed the work.
    pub rewrites: u32,
    /// Whether the checks changed files that git does not track and that others have changed, too.
    #[serde(default)]
    pub artifacts: bool,
    /// The files that hooks and the user have changed.
    #[serde(default)]
    pub by_others: BTreeSet<String>,
    /// What changed last, for the reason of an end that is not verified.
    pub changed: Vec<String>,
    /// Whether creel could not find out what changed last.
    pub unknown: bool,
    /// The passes since the last turn.
    pub passes: u32,
    /// The pass in progress.
    pub pass: Option<VerificationPass>,
    /// The feedback of the last pass that blocked.
    pub feedback: Option<PassFeedback>,
    /// Which tests the checks ran, and what creel found about them.
    #[serde(default)]
    pub tests: TestGuard,
}

impl VerificationState {
    pub fn run_of(&self, check: &CheckRef) -> Option<&CheckRun> {
        self.checks.iter().find(|run| run.check == *check)
    }

    /// Whether the work may have changed since these hooks checked it.
    pub(crate) fn is_stale(&self, done: &[FinishedRun]) -> bool {
        let runs = done
            .iter()
            .filter_map(|done| self.run_of(&CheckRef::new(CheckKind::Hook, &done.hook)));
        runs.into_iter().any(|run| run.version != self.version)
    }
}
