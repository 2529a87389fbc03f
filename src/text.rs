//! Texts of terminals, tools and agents: made plain, compared, shortened, searched.
//!
//! A leaf: it knows nothing of sessions, and is as pure as the engine, which uses it.
//!
//! The small pieces of messages (counts, lists of names, shortened lines) are here because reasons
//! and warnings are records; [`crate::present::text`] offers the same to the surfaces.

mod comparable;
mod diff;
mod headline;
mod mask;
mod plain;
mod test_counts;
mod unquoted;

use std::fmt::Display;

pub use comparable::{OmittedOutput, comparable_text, is_shortened, printed_lines, same_text};
pub use diff::{LineChange, diff_groups, line_changes, unified_diff, unified_hunks, whole_lines};
pub use headline::{looks_like_failure, place_of_telling_line, telling_line};
pub use mask::{MASKED, MaskError, SecretMask, StreamMask, VALUE_MIN, check_pattern};
pub use plain::{CarriageReturnMode, PlainTextFilter, plain_text};
pub use test_counts::{TestCountReader, TestCounts};

pub(crate) use unquoted::{LetterCase, UnquotedText, fence_after, open_fence};

/// The nearest known name, if the difference is small enough for a typing mistake.
pub(crate) fn nearest<'a>(
    wrong: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let written = wrong;
    let wrong = wrong.to_lowercase().replace('-', "_");
    let length = wrong.chars().count();
    let tolerated = |name: &str| name.chars().count().max(3) / 3;
    known
        .into_iter()
        // Comparing lengths first is cheap and excludes most names.
        .filter(|name| name.chars().count().abs_diff(length) <= tolerated(name))
        .map(|name| {
            (
                strsim::osa_distance(&wrong, &name.to_lowercase().replace('-', "_")),
                name,
            )
        })
        // If every letter differs, the user did not mean this name.
        .filter(|(distance, name)| *distance <= tolerated(name) && *distance < name.chars().count())
        // Of two names that differ in capitals, the one that is written in the same way.
        .min_by_key(|(distance, name)| (*distance, strsim::osa_distance(written, name)))
        .map(|(_, name)| name)
}

/// `1 commit`, `2 commits`, `2 retries`.
pub fn counted<N: Copy + Display + PartialEq + From<u8>>(number: N, noun: &str) -> String {
    format!("{number} {}", plural(number, noun))
}

/// The noun that agrees with the number: `commit`, `commits`.
pub fn plural<N: Copy + PartialEq + From<u8>>(number: N, noun: &str) -> String {
    if number == N::from(1) {
        return noun.to_owned();
    }
    match noun.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{stem}ies"),
        Some(_) | None => format!("{noun}s"),
    }
}

/// The first few names: `a, b and 3 more`.
pub fn some_names<S: AsRef<str>>(names: &[S], most: usize) -> String {
    let shown = names
        .iter()
        .take(most)
        .map(AsRef::as_ref)
        .collect::<Vec<_>>()
        .join(", ");
    match names.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// All names, as in a sentence: `a`, `a and b`, `a, b and c`.
pub fn listed<S: AsRef<str>>(names: &[S]) -> String {
    match names {
        [] => String::new(),
        [only] => only.as_ref().to_owned(),
        [first @ .., last] => {
            let first = first
                .iter()
                .map(AsRef::as_ref)
                .collect::<Vec<_>>()
                .join(", ");
            format!("{first} and {}", last.as_ref())
        }
    }
}

/// The first few names, one a line: `- a`, `- b`, `- and 3 more`.
pub fn bulleted<S: AsRef<str>>(names: &[S], most: usize) -> String {
    let shown: String = names
        .iter()
        .take(most)
        .map(|name| format!("- {}\n", name.as_ref()))
        .collect();
    match names.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown}- and {more} more\n"),
    }
}

/// A program and its arguments, as a shell reads them.
pub fn command_line<S: AsRef<str>>(arguments: &[S]) -> String {
    arguments
        .iter()
        .map(|argument| shell_word(argument.as_ref()))
        .collect::<Vec<_>>()
        .join(" ")
}

/// A text as one word of a shell.
pub fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./@%+=:,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// At most this many characters, with a sign of what was left out.
pub fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
        None => text.to_owned(),
    }
}

/// The first line that is not blank, at most this long, with a sign of what was left out.
pub fn first_line(text: &str, most: usize) -> String {
    let line = text
        .lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or("")
        .trim();
    let mut short: String = line.chars().take(most).collect();
    if short.len() < line.len() || text.trim().lines().count() > 1 {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nouns_agree_with_their_numbers() {
        assert_eq!(
            [0, 1, 2].map(|n: usize| counted(n, "held item")),
            ["0 held items", "1 held item", "2 held items"]
        );
        assert_eq!(
            [counted(1_u32, "retry"), counted(2_u64, "retry")],
            ["1 retry", "2 retries"]
        );
        assert_eq!(counted(3_u8, "key"), "3 keys");
    }

    #[test]
    fn a_command_line_can_be_typed_into_a_shell() {
        assert_eq!(
            command_line(&["cargo", "test", "a b", "it's", ""]),
            r"cargo test 'a b' 'it'\''s' ''"
        );
    }

    #[test]
    fn omitted_text_is_marked() {
        assert_eq!(some_names(&["a", "b", "c"], 3), "a, b, c");
        assert_eq!(some_names(&["a", "b", "c"], 2), "a, b and 1 more");
        assert_eq!(some_names::<String>(&[], 2), "");
        assert_eq!(bulleted(&["a", "b", "c"], 2), "- a\n- b\n- and 1 more\n");
        assert_eq!([shortened("abc", 3), shortened("ab cd", 3)], ["abc", "ab…"]);
        assert_eq!(
            ["\n a \n", "a\nb", "abc"].map(|text| first_line(text, 2)),
            ["a", "a…", "ab…"]
        );
    }
}
