//! The input of stop hooks: the agent's message, its promises, its changes, and the results of the
//! rules.
//!
//! A promise (`<promise>COMPLETE</promise>` and others) counts at the beginning or the end of a
//! line of the agent's last message. In code, in quotations, or repeated from the prompt it is
//! ignored: see [`crate::text`].

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    engine::{hooks::verdict::RunEnd, time::TimeSpan},
    text::{LetterCase, UnquotedText},
};

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

/// Strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Promise {
    Complete,
    /// The user has to look.
    Escalate,
    /// The agent cannot continue.
    Blocked,
}

impl Promise {
    /// Strongest first.
    pub const ALL: [Self; 3] = [Self::Complete, Self::Escalate, Self::Blocked];

    /// The word inside the tag.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Complete => "COMPLETE",
            Self::Escalate => "ESCALATE",
            Self::Blocked => "BLOCKED",
        }
    }

    /// The promise as an agent writes it.
    pub fn tag(self) -> String {
        format!("<promise>{}</promise>", self.word())
    }

    /// A message without the tags.
    pub fn removed_from(message: &str) -> String {
        Self::ALL.iter().fold(message.to_owned(), |text, promise| {
            text.replace(&promise.tag(), "")
        })
    }

    /// The promise of that name, bare or as a tag.
    pub fn named(text: &str) -> Option<Self> {
        let text = text.trim();
        let word = text
            .strip_prefix("<promise>")
            .and_then(|rest| rest.strip_suffix("</promise>"))
            .unwrap_or(text);
        Self::ALL
            .into_iter()
            .find(|promise| promise.word() == word.trim())
    }

    /// The promises in a message that answers this prompt, strongest first.
    pub fn made_in(message: &str, prompt: &str) -> Vec<Self> {
        if !message.contains("<promise>") {
            return Vec::new();
        }
        let words = UnquotedText::of(message, prompt);
        Self::ALL
            .into_iter()
            .filter(|promise| words.say(&promise.tag(), LetterCase::Exact))
            .collect()
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(message: &str) -> Vec<Promise> {
        Promise::made_in(
            message,
            "Make the tests pass, then say <promise>COMPLETE</promise>.\nWhen stuck, write\n<promise>BLOCKED</promise>",
        )
    }

    #[test]
    fn complete_outranks_escalate_outranks_blocked() {
        let all = "<promise>BLOCKED</promise>\n<promise>ESCALATE</promise> and <promise>COMPLETE</promise>";
        assert_eq!(
            made(all),
            [Promise::Complete, Promise::Escalate, Promise::Blocked]
        );
        assert_eq!(
            made("promise: COMPLETE <promise>DONE</promise> <promise>complete</promise>"),
            []
        );
    }

    #[test]
    fn a_promise_is_made_in_words_of_ones_own() {
        assert_eq!(
            made("Done. <promise>COMPLETE</promise>"),
            [Promise::Complete]
        );
        assert_eq!(
            made("Done.\n<promise>COMPLETE</promise>\n"),
            [Promise::Complete]
        );
        assert_eq!(made("**<promise>COMPLETE</promise>**"), [Promise::Complete]);
        assert_eq!(
            made("```sh\nls\n```\n<promise>COMPLETE</promise>"),
            [Promise::Complete]
        );
        assert_eq!(
            made("`ls` and `cat` ran. <promise>COMPLETE</promise>"),
            [Promise::Complete]
        );
        assert_eq!(
            made("<promise>BLOCKED</promise>: it's the key, isn't it"),
            [Promise::Blocked]
        );
    }

    #[test]
    fn a_promise_in_the_middle_of_a_line_is_none() {
        assert_eq!(
            made("I'll say <promise>COMPLETE</promise> when the tests pass"),
            []
        );
        assert_eq!(made("It's done: <promise>COMPLETE</promise>, isn't it"), []);
        assert_eq!(
            made("- I will not write <promise>COMPLETE</promise> before that."),
            []
        );
        assert_eq!(
            made("Not <promise>COMPLETE</promise> yet.\n- **<promise>BLOCKED</promise>**, sorry"),
            [Promise::Blocked]
        );
    }

    #[test]
    fn a_promise_in_code_is_none() {
        assert_eq!(made("I will print `<promise>COMPLETE</promise>` later"), []);
        assert_eq!(made("```\n<promise>COMPLETE</promise>\n```"), []);
        assert_eq!(
            made("~~~~ text\n```\n<promise>COMPLETE</promise>\n~~~\n~~~~"),
            []
        );
        assert_eq!(
            made("```\n<promise>COMPLETE</promise>\nthe block is never closed"),
            []
        );
        assert_eq!(
            made("  ```rust\n  // <promise>COMPLETE</promise>\n  ```"),
            []
        );
    }

    #[test]
    fn a_promise_that_is_quoted_is_none() {
        assert_eq!(made("> <promise>COMPLETE</promise>"), []);
        assert_eq!(
            made("You want to read \"<promise>COMPLETE</promise>\" at the end"),
            []
        );
        assert_eq!(
            made("Make the tests pass, then say <promise>COMPLETE</promise>."),
            []
        );
        assert_eq!(
            made("I was told:\nWhen stuck, write\n<promise>BLOCKED</promise>"),
            []
        );
        assert_eq!(
            made("I am stuck.\n<promise>BLOCKED</promise>"),
            [Promise::Blocked]
        );
    }

    #[test]
    fn a_promise_is_named_bare_or_as_a_tag() {
        assert_eq!(Promise::named("COMPLETE"), Some(Promise::Complete));
        assert_eq!(
            Promise::named(" <promise>BLOCKED</promise> "),
            Some(Promise::Blocked)
        );
        assert_eq!(Promise::named("done"), None);
    }
}
