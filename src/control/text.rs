//! Text of agents and hooks on its way to a terminal.
//!
//! # Invariants
//! - No escape sequence and no control character of theirs reaches the terminal.

/// The text without escape sequences and control characters; newlines and tabs stay.
pub fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => skip_sequence(&mut chars),
            '\u{9b}' => skip_until(&mut chars, |c| ('\u{40}'..='\u{7e}').contains(&c)),
            '\n' | '\t' => out.push(c),
            // A bare carriage return redraws the line; as text it would hide what stands before it.
            '\r' if chars.peek() != Some(&'\n') => out.push('\n'),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

/// Skips what follows an escape character.
fn skip_sequence(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match chars.peek() {
        Some('[') => {
            chars.next();
            skip_until(chars, |c| ('\u{40}'..='\u{7e}').contains(&c));
        }
        // Titles, links, pictures: they end with a bell or with `ESC \`.
        Some(']' | 'P' | 'X' | '^' | '_') => skip_string(chars),
        Some(' '..='/') => skip_until(chars, |c| ('0'..='~').contains(&c)),
        Some(_) => {
            chars.next();
        }
        None => {}
    }
}

fn skip_until(chars: &mut impl Iterator<Item = char>, end: impl Fn(char) -> bool) {
    for c in chars.by_ref() {
        if end(c) || c == '\n' {
            break;
        }
    }
}

fn skip_string(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    while let Some(c) = chars.next() {
        match c {
            '\u{7}' | '\u{9c}' => break,
            '\u{1b}' if chars.peek() == Some(&'\\') => {
                chars.next();
                break;
            }
            _ => {}
        }
    }
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
