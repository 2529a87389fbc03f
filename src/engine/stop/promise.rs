//! What an agent promises in its last message: `<promise>COMPLETE</promise>` and its like.
//!
//! A promise is something that the agent says of its own. What stands in code, in a quotation, or in a line that it repeats
//! from its prompt, is talk about promises and counts for nothing.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A promise, strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Promise {
    /// The work is done.
    Complete,
    /// A person has to look.
    Escalate,
    /// It cannot go on.
    Blocked,
}

impl Promise {
    /// All of them, strongest first.
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

    /// The promise of that name, bare or as a tag.
    pub fn named(text: &str) -> Option<Self> {
        let text = text.trim();
        let word = text.strip_prefix("<promise>").and_then(|rest| rest.strip_suffix("</promise>")).unwrap_or(text);
        Self::ALL.into_iter().find(|promise| promise.word() == word.trim())
    }

    /// What the agent promises in a message that answers this prompt, strongest first.
    pub fn made_in(message: &str, prompt: &str) -> Vec<Self> {
        if !message.contains("<promise>") {
            return Vec::new();
        }
        let lines: Vec<&str> = own_words(message).collect();
        let made = |promise: &Self| {
            let tag = promise.tag();
            lines.iter().enumerate().any(|(n, line)| promises(line, &tag) && !is_repeated(&lines, n, &tag, prompt))
        };
        Self::ALL.into_iter().filter(made).collect()
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The lines that are neither in a code block nor quoted.
fn own_words(message: &str) -> impl Iterator<Item = &str> {
    let mut fence: Option<&str> = None;
    message.lines().filter(move |line| {
        let text = line.trim_start();
        let before = fence;
        fence = fence_after(before, text);
        before.is_none() && fence.is_none() && !text.starts_with('>')
    })
}

/// The fence of the code block that a text ends in, if it ends in one.
pub(in crate::engine) fn open_fence(text: &str) -> Option<&str> {
    text.lines().fold(None, |open, line| fence_after(open, line.trim_start()))
}

/// The fence that is open after a line.
pub(crate) fn fence_after<'a>(open: Option<&'a str>, text: &'a str) -> Option<&'a str> {
    match (open, fence_mark(text)) {
        (None, mark) => mark,
        // Only a fence that is at least as long, with nothing behind it, ends a block.
        (Some(open), Some(mark)) if mark.starts_with(open) && text[mark.len()..].trim().is_empty() => None,
        (Some(open), _) => Some(open),
    }
}

/// The fence that a line begins with.
fn fence_mark(text: &str) -> Option<&str> {
    let mark = text.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let length = text.len() - text.trim_start_matches(mark).len();
    // A line with backticks behind three of them is a piece of code in the line.
    let opens = length >= 3 && !(mark == '`' && text[length..].contains('`'));
    opens.then(|| &text[..length])
}

/// Whether a line holds the tag outside of code and quotation marks.
fn promises(line: &str, tag: &str) -> bool {
    line.match_indices(tag).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + tag.len()..]);
        let in_code = before.matches('`').count() % 2 == 1 && after.contains('`');
        let quoted = [('"', '"'), ('\'', '\''), ('“', '”'), ('‘', '’'), ('«', '»'), ('„', '“')]
            .into_iter()
            .any(|(open, close)| before.ends_with(open) && after.starts_with(close));
        !in_code && !quoted
    })
}

/// Whether the agent only repeats what it was told: the same line, if there is more in it than the tag; otherwise the same
/// line after the same line.
fn is_repeated(lines: &[&str], nth: usize, tag: &str, prompt: &str) -> bool {
    let line = lines[nth].trim();
    if line != tag {
        return prompt.lines().any(|told| told.trim() == line);
    }
    let Some(before) = lines[..nth].iter().rev().map(|line| line.trim()).find(|line| !line.is_empty()) else {
        return false;
    };
    let told: Vec<&str> = prompt.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    told.windows(2).any(|pair| pair == [before, line])
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
        let all = "<promise>BLOCKED</promise> <promise>ESCALATE</promise> and <promise>COMPLETE</promise>";
        assert_eq!(made(all), [Promise::Complete, Promise::Escalate, Promise::Blocked]);
        assert_eq!(made("promise: COMPLETE <promise>DONE</promise> <promise>complete</promise>"), []);
    }

    #[test]
    fn a_promise_is_made_in_words_of_ones_own() {
        assert_eq!(made("Done. <promise>COMPLETE</promise>"), [Promise::Complete]);
        assert_eq!(made("Done.\n<promise>COMPLETE</promise>\n"), [Promise::Complete]);
        assert_eq!(made("**<promise>COMPLETE</promise>**"), [Promise::Complete]);
        assert_eq!(made("```sh\nls\n```\n<promise>COMPLETE</promise>"), [Promise::Complete]);
        assert_eq!(made("`ls` and `cat` ran. <promise>COMPLETE</promise>"), [Promise::Complete]);
        assert_eq!(made("It's done: <promise>COMPLETE</promise>, isn't it"), [Promise::Complete]);
    }

    #[test]
    fn a_promise_in_code_is_none() {
        assert_eq!(made("I will print `<promise>COMPLETE</promise>` later"), []);
        assert_eq!(made("```\n<promise>COMPLETE</promise>\n```"), []);
        assert_eq!(made("~~~~ text\n```\n<promise>COMPLETE</promise>\n~~~\n~~~~"), []);
        assert_eq!(made("```\n<promise>COMPLETE</promise>\nthe block is never closed"), []);
        assert_eq!(made("  ```rust\n  // <promise>COMPLETE</promise>\n  ```"), []);
    }

    #[test]
    fn a_promise_that_is_quoted_is_none() {
        assert_eq!(made("> <promise>COMPLETE</promise>"), []);
        assert_eq!(made("You want to read \"<promise>COMPLETE</promise>\" at the end"), []);
        assert_eq!(made("Make the tests pass, then say <promise>COMPLETE</promise>."), []);
        assert_eq!(made("I was told:\nWhen stuck, write\n<promise>BLOCKED</promise>"), []);
        assert_eq!(made("I am stuck.\n<promise>BLOCKED</promise>"), [Promise::Blocked]);
    }

    #[test]
    fn a_promise_is_named_bare_or_as_a_tag() {
        assert_eq!(Promise::named("COMPLETE"), Some(Promise::Complete));
        assert_eq!(Promise::named(" <promise>BLOCKED</promise> "), Some(Promise::Blocked));
        assert_eq!(Promise::named("done"), None);
    }
}
