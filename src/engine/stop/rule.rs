//! The result of checking a rule.

use super::super::{hooks::verdict::RunEnd, time::TimeSpan};

/// The placeholders in the command of a rule.
pub const OFFERED: &[&str] = &["session", "iteration"];

/// A rule that could not be checked has not passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleCheckResult {
    pub passed: bool,
    /// The message for the agent.
    pub message: String,
    pub took: TimeSpan,
    /// None if the rule has no command.
    pub end: Option<RunEnd>,
    /// The file with the command's whole output, relative to the session's folder.
    pub file: Option<String>,
}

impl RuleCheckResult {
    /// A check that could not be completed, with the reason.
    pub fn not_judged(why: String) -> Self {
        Self {
            passed: false,
            message: why,
            took: TimeSpan::default(),
            end: None,
            file: None,
        }
    }
}
