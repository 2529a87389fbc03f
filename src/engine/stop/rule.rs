//! What the check of a rule says.

use super::super::{hooks::verdict::RunEnd, time::TimeSpan};

/// The names that stand for values in the command of a rule, as `{{name}}`.
pub const OFFERED: &[&str] = &["session", "iteration"];

/// What came of checking one rule, as the checker tells it. A rule that cannot be judged has not passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleCheckResult {
    /// Whether it holds.
    pub passed: bool,
    /// What was found, for the agent.
    pub message: String,
    /// How long the check took.
    pub took: TimeSpan,
    /// How its command ended, if it has one.
    pub end: Option<RunEnd>,
    /// The file with all that its command printed, relative to the session's folder.
    pub file: Option<String>,
}

impl RuleCheckResult {
    /// A check that came to no end, and why.
    pub fn not_judged(why: String) -> Self {
        Self { passed: false, message: why, took: TimeSpan::default(), end: None, file: None }
    }
}
