//! Verification: whether every check has passed since the work last changed.
//!
//! Owns the last result of each check, which state of the work it judged, the passes of the checks
//! at the end of a session and before a push ([`rules`]), and the events of all that. Does not
//! measure the work: the runtime reports what changed. Does not run the checks of an iteration: see
//! [`super::hooks`] and [`super::stop`].
//!
//! # Invariants
//! - A result counts only for the state of the work that the check saw. Whatever may have changed
//!   the work since makes it stale: a turn, a hook, the user, or a check itself.
//! - What creel cannot compare has changed.
//! - Passes end: at most [`PASSES`] between two turns, and two in a row in which the checks change
//!   the work.

pub(crate) mod apply;
pub mod base_tests;
pub mod rules;
pub mod state;
pub mod test_files;
pub mod test_guard;

use serde::{Deserialize, Serialize};

use crate::engine::{
    conversation::ForbiddenChanges,
    event::CheckRunResult,
    verify::{base_tests::TestSource, test_guard::TestComparison},
};

/// How many passes of the checks there are between two turns.
pub const PASSES: u32 = 3;
/// How many passes in a row may change the work before creel gives up.
pub const REWRITES: u32 = 2;

/// The last run of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckRun {
    pub check: CheckRef,
    pub result: CheckRunResult,
    /// The version of the work that it judged.
    pub version: u64,
    /// How it failed, in one line.
    pub reason: Option<String>,
    /// Set if the work was accepted although the check had not passed, until it passes.
    pub accepted: Option<CheckAcceptance>,
}

/// How a check that did not pass was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckAcceptance {
    /// The retries that were used.
    pub retries: u32,
    /// Whether the policy accepted it, and not a person.
    pub by_policy: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CheckRef {
    pub kind: CheckKind,
    pub name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckKind {
    /// The paths under `protect:`.
    Protect,
    /// A hook at `stop`.
    Hook,
    Rule,
}

impl CheckRef {
    pub fn new(kind: CheckKind, name: &str) -> Self {
        Self {
            kind,
            name: name.to_owned(),
        }
    }
}

/// What a pass sends back to the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassFeedback {
    pub check: String,
    /// In one line.
    pub reason: String,
    pub text: String,
}

/// What can have changed the work since creel last looked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkChangedBy {
    /// Only checks ran.
    Checks,
    /// A hook, the user, or a process that they left running.
    Others,
}

/// What the runtime found when it compared the work with its state at the last look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkMeasurement {
    pub by: WorkChangedBy,
    /// None if the runtime cannot tell.
    pub changes: Option<MeasuredChanges>,
    /// The checks that cannot start, of those that the engine asked about.
    pub missing: Vec<MissingCheck>,
    /// What the changed files say about the tests. None if the engine did not ask.
    pub tests: Option<TestComparison>,
}

/// A check whose program is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingCheck {
    pub check: String,
    /// What is missing.
    pub why: String,
}

/// Changed files, relative to the project's folder, without ignored ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MeasuredChanges {
    /// Files that git tracks, now or before.
    pub tracked: Vec<String>,
    pub untracked: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum VerifyEvent {
    /// Something other than a turn changed the work: earlier results of checks are stale.
    #[serde(rename = "work_changed")]
    WorkChanged {
        by: WorkChangedBy,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        files: Vec<String>,
        /// How many files the list leaves out.
        #[serde(default, skip_serializing_if = "is_zero")]
        more: usize,
        /// Whether creel cannot tell what changed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        unknown: bool,
        /// Whether git tracks none of the files.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        untracked: bool,
    },
    /// Checks whose results are stale run again: hooks, or rules.
    #[serde(rename = "verification_started")]
    Started {
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        hooks: Vec<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        rules: Vec<String>,
        /// Set if the hooks run in a clean worktree, with these test files.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tests_of: Option<TestSource>,
    },
    #[serde(rename = "verification_ended")]
    Ended {
        next: AfterPass,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        feedback: Option<PassFeedback>,
    },
    /// Files that agents must not change have changed since the last turn, or creel could not
    /// compare them.
    #[serde(rename = "tampering_found")]
    Tampered(ForbiddenChanges),
    /// Before a complete end: the tests, compared with those at the start.
    #[serde(rename = "tests_compared")]
    TestsCompared(TestComparison),
    /// The checks have judged the turn of a final delivery.
    #[serde(rename = "delivery_checked")]
    DeliveryChecked { passed: bool },
}

/// Where the session continues after a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterPass {
    /// Where it was.
    Back,
    /// In a new iteration, whose prompt has the feedback.
    Iteration,
}

impl VerifyEvent {
    /// The kinds of its records.
    pub(crate) const KINDS: &'static [&'static str] = &[
        "work_changed",
        "verification_started",
        "verification_ended",
        "tampering_found",
        "tests_compared",
        "delivery_checked",
    ];
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn is_zero(count: &usize) -> bool {
    *count == 0
}
