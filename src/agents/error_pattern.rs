//! Recognises answers that are really errors: some agents print an error as their answer and exit
//! with code 0.
//!
//! Owns where in an answer an `error_pattern` counts. The patterns themselves are data
//! (`assets/agents.yaml`).
//!
//! # Invariants
//! - An error counts wherever in the answer it begins, if only a few lines about it follow. Text
//!   that the agent wrote before it failed does not hide the error.
//! - An answer that quotes an error, in a code block, a quotation or inline code, is an answer. So
//!   is one in which the agent retried and continued.

use std::ops::Range;

use regex::{Regex, RegexBuilder};

use super::AgentError;
use crate::{engine::policy::AgentFacts, text::fence_after};

/// How many lines can follow an error. Agents add advice for the user, or the usage.
const LINES_AFTER: usize = 5;

#[derive(Debug, Clone)]
pub(super) struct ErrorPattern(Regex);

impl ErrorPattern {
    /// Combines the agent's error and limit patterns. None if it has none.
    pub(super) fn of(known: &AgentFacts) -> Result<Option<Self>, AgentError> {
        let patterns: Vec<&str> = known
            .error_pattern
            .iter()
            .chain(&known.limit_pattern)
            .map(String::as_str)
            .collect();
        let all = patterns
            .iter()
            .map(|pattern| format!("(?:{pattern})"))
            .collect::<Vec<_>>()
            .join("|");
        (!patterns.is_empty()).then(|| Self::new(&all)).transpose()
    }

    /// `^` and `$` match at every line; `\A` and `\z` at the ends of the answer.
    pub(super) fn new(pattern: &str) -> Result<Self, AgentError> {
        RegexBuilder::new(pattern)
            .multi_line(true)
            .build()
            .map(Self)
            .map_err(AgentError::Pattern)
    }

    /// The error at the end of an answer, up to the answer's end.
    pub(super) fn find<'a>(&self, answer: &'a str) -> Option<&'a str> {
        let mut found = self
            .0
            .find_iter(answer)
            .map(|found| found.range())
            .peekable();
        found.peek()?;
        let quoted = quoted_lines(answer);
        found
            .find(|found| counts(answer, found, &quoted))
            .map(|found| &answer[found.start..])
    }
}

/// Whether the answer ends with the error that begins here.
fn counts(answer: &str, found: &Range<usize>, quoted: &[(usize, usize)]) -> bool {
    let at = found.start;
    let (before, rest) = answer.split_at(at);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = rest.lines().next().unwrap_or_default();
    let after = answer[found.end..]
        .split_once('\n')
        .map_or("", |(_, after)| after);
    let in_code = answer[line_start..at].matches('`').count() % 2 == 1 && line.contains('`');
    !in_code
        && !quoted
            .iter()
            .any(|(start, end)| (*start..*end).contains(&line_start))
        && ends_with_it(after)
}

/// Whether the text after an error belongs to it.
fn ends_with_it(after: &str) -> bool {
    // Details of an error are often indented, or printed as JSON.
    let is_detail =
        |line: &str| line.starts_with(|c: char| c.is_whitespace() || "{}[]()\",".contains(c));
    let mut retried = false;
    let mut lines = 0;
    for line in after
        .lines()
        .filter(|line| !line.trim().is_empty() && !is_detail(line))
    {
        lines += 1;
        if retried || lines > LINES_AFTER {
            return false;
        }
        retried = line.starts_with("Retrying");
    }
    true
}

/// The code blocks and quotations as byte ranges. An unclosed code block does not count: the error
/// can have interrupted it.
fn quoted_lines(answer: &str) -> Vec<(usize, usize)> {
    let mut quoted = Vec::new();
    let mut block: Option<(usize, &str)> = None;
    let mut at = 0;
    for line in answer.split_inclusive('\n') {
        let (start, text) = (at, line.trim());
        at += line.len();
        let open = block.map(|(_, fence)| fence);
        match (block, fence_after(open, text)) {
            (None, Some(fence)) => block = Some((start, fence)),
            (Some((begin, _)), None) => {
                quoted.push((begin, at));
                block = None;
            }
            (None, None) if text.starts_with('>') => quoted.push((start, at)),
            (None, None) | (Some(_), Some(_)) => {}
        }
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find<'a>(pattern: &str, answer: &'a str) -> Option<&'a str> {
        ErrorPattern::new(pattern).expect("a pattern").find(answer)
    }

    #[test]
    fn an_error_counts_after_any_text_and_before_a_few_lines() {
        let error = "Error: no response\n  {\n  \"code\": 429\n}\nTry again later.\n";
        assert_eq!(find("^Error: ", error), Some(error));
        assert_eq!(
            find("^Error: ", &format!("I begin.\n\n{error}")),
            Some(error)
        );
        let cut_off = format!("I write it:\n```rust\nfn main() {{\n{error}");
        assert_eq!(
            find("^Error: ", &cut_off),
            Some(error),
            "an open code block was cut off by the error"
        );
    }

    #[test]
    fn an_answer_that_quotes_an_error_is_an_answer() {
        for answer in [
            "It printed:\n```\nError: no response\n```\n",
            "It printed:\n\n> Error: no response\n",
            "It printed `Error: no response` twice.",
            "Error: no response\nThat is mended:\n- one\n- two\n- three\n- four\n- five\n",
            "Error: no response\nRetrying in 0.2 seconds...\nDone.",
        ] {
            assert_eq!(
                find("^Error: |Error: no response", answer),
                None,
                "{answer}"
            );
        }
    }

    #[test]
    fn an_agent_that_gave_up_after_it_tried_again_failed() {
        let last = "Error: two\nRetrying in 0.5 seconds...\n";
        assert_eq!(
            find(
                "^Error: ",
                &format!("Error: one\nRetrying in 0.2 seconds...\n{last}")
            ),
            Some(last)
        );
    }
}
