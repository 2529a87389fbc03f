//! How a built-in hook ends, and how its message shows foreign names and texts.
//!
//! # Invariants
//! - Shown text has no control characters except creel's own line breaks.

use crate::{
    engine::hooks::verdict::{BuiltinOutcome, BuiltinStatus, RunEnd},
    text::{CarriageReturnMode, PlainTextFilter, bulleted, shortened, some_names},
};

pub(super) use crate::text::shell_word as quoted;

/// How many files to list.
const NAMED: usize = 40;
/// The longest title in characters. Forges refuse longer ones.
const TITLE: usize = 200;

#[derive(Debug, Default)]
pub(super) struct BuiltinSuccess {
    pub(super) skipped: bool,
    pub(super) message: String,
    pub(super) pull_request: Option<String>,
    pub(super) merged: Option<String>,
    /// The commit that the hook read, or that the remote has now.
    pub(super) read: Option<String>,
}

#[derive(Debug)]
pub(super) struct BuiltinError {
    pub(super) end: RunEnd,
    pub(super) message: String,
    pub(super) remediation: Option<String>,
    /// The end of the output of the program that was ended.
    pub(super) printed: String,
}

impl BuiltinSuccess {
    pub(super) fn success(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            ..Self::default()
        }
    }

    pub(super) fn skip(message: impl Into<String>) -> Self {
        Self {
            skipped: true,
            message: message.into(),
            ..Self::default()
        }
    }
}

impl BuiltinError {
    /// Only a person can fix this.
    pub(super) fn failed(message: impl Into<String>) -> Self {
        Self {
            end: RunEnd::Exit(1),
            message: message.into(),
            remediation: None,
            printed: String::new(),
        }
    }

    /// Adds a prompt with which an agent can fix this.
    pub(super) fn repaired_by(self, prompt: impl Into<String>) -> Self {
        Self {
            remediation: Some(prompt.into()),
            ..self
        }
    }

    /// Adds to the message.
    pub(super) fn and(self, more: &str) -> Self {
        Self {
            message: format!("{}; {more}", self.message),
            ..self
        }
    }
}

pub(super) fn reported(
    ended: Result<BuiltinSuccess, BuiltinError>,
) -> (RunEnd, Option<BuiltinOutcome>) {
    match ended {
        // The hook's output is its whole result.
        Ok(BuiltinSuccess {
            message,
            read: None,
            ..
        }) if message.is_empty() => (RunEnd::Exit(0), None),
        Ok(BuiltinSuccess {
            skipped,
            message,
            pull_request,
            merged,
            read,
        }) => {
            let status = if skipped {
                BuiltinStatus::Skip
            } else {
                BuiltinStatus::Success
            };
            (
                RunEnd::Exit(0),
                Some(BuiltinOutcome {
                    status,
                    message,
                    remediation: None,
                    pull_request,
                    merged,
                    read,
                }),
            )
        }
        // The hook runs again, or is no longer needed.
        Err(BuiltinError {
            end: RunEnd::Cut, ..
        }) => (RunEnd::Cut, None),
        Err(BuiltinError {
            end,
            message,
            remediation,
            ..
        }) => {
            let status = BuiltinStatus::Failure;
            (
                end,
                Some(BuiltinOutcome {
                    status,
                    message,
                    remediation,
                    pull_request: None,
                    merged: None,
                    read: None,
                }),
            )
        }
    }
}

/// A name in a sentence.
pub(super) fn named(text: &str) -> String {
    format!("`{}`", visible(text).replace('`', "'"))
}

/// A list of files, one per line.
pub(super) fn files(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| named(name)).collect();
    bulleted(&names, NAMED)
}

/// The first few names, in a sentence.
pub(super) fn some(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| named(name)).collect();
    some_names(&names, 3)
}

pub(super) fn short(commit: &str) -> &str {
    commit.get(..10).unwrap_or(commit)
}

/// One line of text that a forge accepts as a title.
pub(super) fn title_line(text: &str) -> String {
    let line = text
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or_default();
    let line: String = line.chars().filter(|c| !c.is_control()).collect();
    shortened(&line, TITLE - 1)
}

/// A program's output without terminal sequences.
pub(super) fn printed_text(bytes: &[u8]) -> String {
    let mut text = Vec::new();
    let mut plain = PlainTextFilter::new(CarriageReturnMode::Redraw);
    plain.push(bytes, &mut text);
    plain.finish(&mut text);
    String::from_utf8_lossy(&text).trim_end().to_owned()
}

/// The last lines of a program's error output, in a sentence.
pub(super) fn complaint(text: &str) -> String {
    let says_why = |line: &&str| !line.is_empty() && !line.starts_with("hint:");
    let lines: Vec<&str> = text.lines().map(str::trim).filter(says_why).collect();
    let last = &lines[lines.len().saturating_sub(3)..];
    if last.is_empty() {
        "it gave no reason".into()
    } else {
        visible(&last.join(" · "))
    }
}

pub(super) fn visible(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            if c.is_control() {
                c.escape_default().collect()
            } else {
                vec![c]
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_for_a_shell_is_one_word() {
        assert_eq!(quoted("feature/a-1"), "feature/a-1");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("$(id)'x'"), r"'$(id)'\''x'\'''");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn a_name_stays_in_its_line() {
        assert_eq!(named("a\nb`c\u{1b}[2J"), r"`a\nb'c\u{1b}[2J`");
    }

    #[test]
    fn a_title_is_one_line() {
        assert_eq!(
            title_line("\n  Fix the parser\u{7}  \nand more"),
            "Fix the parser"
        );
        assert_eq!(title_line("x".repeat(500).as_str()).chars().count(), TITLE);
        assert_eq!(title_line(" \n "), "");
    }

    #[test]
    fn many_files_are_counted() {
        let names: Vec<String> = (0..50).map(|n| format!("f{n}")).collect();
        assert!(files(&names).ends_with("- `f39`\n- and 10 more\n"));
        assert_eq!(some(&names), "`f0`, `f1`, `f2` and 47 more");
    }
}
