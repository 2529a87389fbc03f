//! The input of stop hooks: the agent's message, its promises, its changes, and the results of the
//! rules.

use crate::engine::{hooks::verdict::RunEnd, stop::promise::Promise, time::TimeSpan};
use serde::{Deserialize, Serialize};

/// The agent's work in an iteration. The field names are shared with other agent tools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentContext {
    /// The task's id, or the session's name if the work is about no task.
    pub task_id: String,
    /// From 1.
    pub iteration: u32,
    /// From the last checkpoint.
    pub execution_phase: Option<String>,
    pub files_modified: Vec<String>,
    pub validation_results: Vec<RuleOutcome>,
    pub completion_promises: Vec<CompletionPromise>,
    /// The agent's last message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_output: Option<String>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub draft: Option<AgentDraft>,
    /// The labels of the task.
    pub labels: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleOutcome {
    pub rule_name: String,
    pub passed: bool,
    pub message: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CompletionPromise {
    #[serde(rename = "type")]
    pub promise: Promise,
    /// Always true: only promises that were made are listed.
    pub detected: bool,
    /// The text of the promise.
    pub content: String,
    pub detected_at: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentDraft {
    pub draft_content: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draft_type: Option<String>,
}

impl AgentContext {
    /// The strongest promise.
    pub fn promise(&self) -> Option<Promise> {
        self.completion_promises
            .iter()
            .map(|made| made.promise)
            .min()
    }

    /// The rules that failed.
    pub fn failed(&self) -> impl Iterator<Item = &RuleOutcome> {
        self.validation_results
            .iter()
            .filter(|result| !result.passed)
    }
}

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
