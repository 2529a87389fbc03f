//! Text of agents and hooks on its way to a terminal.
//!
//! # Invariants
//! - No escape sequence and no control character of theirs reaches the terminal.

use crate::hooks::plain::{Plain, Returns};

/// The text without escape sequences and control characters; newlines and tabs stay. A bare carriage return redraws the
/// line; as text it would hide what stands before it, so it becomes a line end.
pub fn plain(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut plain = Plain::new(Returns::EndLine);
    plain.push(text.as_bytes(), &mut out);
    plain.finish(&mut out);
    String::from_utf8(out).expect("only whole characters are taken out of a text")
}

/// The first line, at most this long, with a sign of what was left out.
pub fn first_line(text: &str, most: usize) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("").trim();
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
    fn sequences_are_gone_and_text_stays() {
        assert_eq!(plain("\u{1b}[31mred\u{1b}[0m\tok\n"), "red\tok\n");
        assert_eq!(plain("\u{1b}]0;title\u{7}a\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\"), "alink");
        assert_eq!(plain("\u{1b}Pq#0\u{1b}\\b\u{1b}(Bc\u{1b}cd\u{9b}2Je\u{8}\u{7}f"), "bcdef");
        assert_eq!(plain("50%\r100%\r\n"), "50%\n100%\n");
        assert_eq!(plain("open \u{1b}["), "open ");
    }
}
