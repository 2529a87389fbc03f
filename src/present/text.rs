//! Makes text of agents and hooks safe for a terminal.
//!
//! # Invariants
//! - None of their escape sequences and control characters reaches the terminal, and none that
//!   changes the order of others.

use std::borrow::Cow;

pub use crate::text::{counted, first_line, listed, plural, some_names};
use crate::{
    engine::event::{PromptReason, PromptSent},
    text::{plain_text, telling_line},
};

/// The text without what only a terminal understands. Characters that change the direction of those
/// that follow are shown by their number: with them, `txt.exe` could look like `exe.txt`.
pub fn plain(text: &str) -> String {
    let plain = plain_text(text);
    if !plain.contains(changes_direction) {
        return plain;
    }
    let mut shown = String::new();
    for c in plain.chars() {
        if changes_direction(c) {
            shown += &format!("<U+{:04X}>", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Whether it is an embedding, an override or an isolate. Marks, which only help with right-to-left
/// text, are not.
const fn changes_direction(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The subject of a prompt, in one line. For feedback this is its most informative line, since the
/// first one is whatever the hook printed first.
pub fn prompt_line(prompt: &PromptSent, most: usize) -> String {
    match prompt.reason {
        PromptReason::Feedback => {
            let feedback = prompt.text.trim_start_matches("[Hook feedback]: ");
            // What the check printed says more than its name and its exit code.
            let printed = feedback
                .split_once('\n')
                .filter(|(line, _)| line.starts_with("check `"));
            let line = printed
                .and_then(|(_, printed)| telling_line(&[printed]))
                .or_else(|| telling_line(&[feedback]));
            first_line(&line.unwrap_or_default(), most)
        }
        // The row already says what the prompt is.
        PromptReason::Recovery
        | PromptReason::FinalDelivery
        | PromptReason::Message
        | PromptReason::News => {
            let is_opening = |line: &str| {
                [
                    "[Recovery]: ",
                    "[Final delivery]: ",
                    "[Message]: from ",
                    "[News of the pull request]: ",
                ]
                .iter()
                .any(|opening| line.starts_with(opening))
            };
            let content = prompt
                .text
                .split_once('\n')
                .filter(|(line, _)| is_opening(line));
            first_line(
                &plain(content.map_or(prompt.text.as_str(), |(_, content)| content)),
                most,
            )
        }
        PromptReason::Iteration | PromptReason::Remediation | PromptReason::Gatekeeper => {
            first_line(&plain(&prompt.text), most)
        }
    }
}

/// The text with C1 control characters (U+0080 to U+009F) written as JSON escapes. Terminals
/// interpret them like escape sequences; in JSON the escape means the same character.
pub fn without_c1(text: &str) -> Cow<'_, str> {
    let is_c1 = |c: char| matches!(c, '\u{80}'..='\u{9f}');
    if !text.contains(is_c1) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_c1(c) {
            out.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// The first line of a text of an agent or a hook, at most this long.
pub fn plain_line(text: &str, most: usize) -> String {
    first_line(&plain(text), most)
}

/// A number with its thousands set off: `1,204`.
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The text with a capital at its beginning, unless it begins with a name such as `task_5`,
/// `fix-parser` or `creel.yaml`.
pub fn sentence_case(text: &str) -> String {
    let word = text
        .split(|c: char| c.is_whitespace() || [',', ';', ':'].contains(&c))
        .next()
        .unwrap_or_default();
    // A single letter is a key.
    if word == "creel"
        || word.chars().count() == 1
        || !word.chars().all(|c| c.is_alphabetic() || c == '\'')
    {
        return text.to_owned();
    }
    let mut chars = text.chars();
    chars
        .next()
        .map(|first| first.to_uppercase().chain(chars).collect())
        .unwrap_or_default()
}

/// A size that people can read.
pub fn readable_size(bytes: u64) -> String {
    match bytes {
        0..1_000 => counted(bytes, "byte"),
        1_000..1_000_000 => format!("{}.{} kB", bytes / 1_000, bytes % 1_000 / 100),
        1_000_000.. => format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000),
    }
}

/// The same in few columns: `76 B`, `1.2 kB`.
pub fn short_size(bytes: u64) -> String {
    if bytes < 1_000 {
        format!("{bytes} B")
    } else {
        readable_size(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_in_json_become_escapes_that_mean_the_same() {
        let value = serde_json::json!({"text": "a\u{9b}31mb\u{85}é\u{a0}"});
        let line = value.to_string();
        let shown = without_c1(&line);
        assert!(!shown.contains(|c: char| c.is_control()), "{shown:?}");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&shown).expect("JSON"),
            value
        );
        assert_eq!(without_c1("é\n"), "é\n");
    }

    #[test]
    fn characters_that_change_the_direction_are_shown_by_number() {
        assert_eq!(
            plain("a\u{202e}txt.exe\u{2066}"),
            "a<U+202E>txt.exe<U+2066>"
        );
        assert_eq!(plain("\u{5e9}\u{200f}!"), "\u{5e9}\u{200f}!");
    }

    #[test]
    fn sequences_are_gone_and_text_stays() {
        assert_eq!(plain("\u{1b}[31mred\u{1b}[0m\tok\n"), "red\tok\n");
        assert_eq!(
            plain("\u{1b}]0;title\u{7}a\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\"),
            "alink"
        );
        assert_eq!(
            plain("\u{1b}Pq#0\u{1b}\\b\u{1b}(Bc\u{1b}cd\u{9b}2Je\u{8}\u{7}f"),
            "bcdef"
        );
        assert_eq!(plain("50%\r100%\r\n"), "50%\n100%\n");
        assert_eq!(plain("open \u{1b}["), "open ");
    }

    #[test]
    fn sentences_begin_with_a_capital_and_names_stay_as_they_are() {
        let texts = [
            "no gate is open",
            "task_5 is done",
            "creel waits",
            "`x` is off",
            "run: it",
            "n next match",
            "",
        ];
        let shown = texts.map(sentence_case);
        assert_eq!(
            shown,
            [
                "No gate is open",
                "task_5 is done",
                "creel waits",
                "`x` is off",
                "Run: it",
                "n next match",
                ""
            ]
        );
    }

    #[test]
    fn thousands_are_set_off() {
        assert_eq!(
            [7, 999, 1_204, 1_234_567].map(grouped),
            ["7", "999", "1,204", "1,234,567"]
        );
    }

    #[test]
    fn sizes_are_short() {
        let sizes = [1, 999, 1_000, 12_345, 1_234_567].map(readable_size);
        assert_eq!([1, 999, 1_000].map(short_size), ["1 B", "999 B", "1.0 kB"]);
        assert_eq!(
            sizes,
            ["1 byte", "999 bytes", "1.0 kB", "12.3 kB", "1.2 MB"]
        );
    }
}
