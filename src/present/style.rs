//! How lines and screens look: the colours of lines, the signs, and their form on terminals that show
//! only ASCII.

use std::{fmt::Display, io::IsTerminal};

use crate::engine::time::UnixTime;

/// The meaning of a text. `paint` decides how it looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextRole {
    Heading,
    Good,
    Bad,
    Warning,
    /// Less important.
    Faint,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColourMode {
    Colour,
    Plain,
}

impl ColourMode {
    /// Colour if the stream is a terminal, unless `NO_COLOR` or a dumb terminal forbids it.
    pub fn for_stream(stream: &impl IsTerminal) -> Self {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        if stream.is_terminal() && !unwanted {
            Self::Colour
        } else {
            Self::Plain
        }
    }

    pub fn paint(self, role: TextRole, text: impl Display) -> String {
        let code = match role {
            TextRole::Heading => "1",
            TextRole::Good => "32",
            TextRole::Bad => "31",
            TextRole::Warning => "33",
            TextRole::Faint => "2",
        };
        match self {
            Self::Colour => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            Self::Plain => text.to_string(),
        }
    }
}

/// Which characters creel uses for its own signs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SignSet {
    #[default]
    Unicode,
    /// creel's signs and frames are ASCII; other text stays as it is.
    Ascii,
    /// The terminal shows nothing but ASCII, so other characters become `?`.
    AsciiOnly,
}

impl SignSet {
    /// The signs for a locale, given by the variables that decide about it, in this order:
    /// `LC_ALL`, `LC_CTYPE`, `LANG`. Without any, terminals of today show UTF-8.
    pub fn of_locale(variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let Some(locale) = set("LC_ALL")
            .or_else(|| set("LC_CTYPE"))
            .or_else(|| set("LANG"))
        else {
            return Self::Unicode;
        };
        let lower = locale.to_lowercase();
        if lower.contains("utf-8") || lower.contains("utf8") {
            Self::Unicode
        } else {
            Self::AsciiOnly
        }
    }

    /// The form of one character of the screen in this set.
    pub fn shown(self, symbol: &str) -> &str {
        match self {
            Self::Unicode => symbol,
            Self::Ascii => ascii_sign(symbol).unwrap_or(symbol),
            Self::AsciiOnly if symbol.is_ascii() => symbol,
            Self::AsciiOnly => ascii_sign(symbol).unwrap_or("?"),
        }
    }
}

/// The ASCII form of one of creel's own signs. None for other characters.
fn ascii_sign(symbol: &str) -> Option<&'static str> {
    let sign = match symbol {
        "─" | "━" | "═" | "—" | "–" | "╌" | "−" => "-",
        "│" | "┃" | "║" | "▏" | "▎" | "╎" => "|",
        "┌" | "┐" | "└" | "┘" | "┏" | "┓" | "┗" | "┛" | "╔" | "╗" | "╚" | "╝" | "╭" | "╮" | "╯"
        | "╰" | "├" | "┤" | "┬" | "┴" | "┼" | "✓" | "☑" => "+",
        "▌" | "▸" | "›" | "→" | "»" | "⇢" | "≥" => ">",
        "▾" | "↓" | "⇣" => "v",
        "✗" | "✘" | "✕" | "×" | "⌫" => "x",
        "⚠" => "!",
        "■" | "●" | "█" => "#",
        "⊘" => "/",
        "◆" | "◇" | "⚙" => "*",
        "○" | "☐" | "░" | "◎" | "⌕" => "o",
        "·" | "•" | "∴" => ".",
        "…" | "✎" | "≈" => "~",
        "↻" | "⟳" => "@",
        "⏳" | "◷" | "⇄" => "%",
        "⏸" | "≡" => "=",
        "“" | "”" => "\"",
        "↑" => "^",
        "←" => "<",
        _ => return spinner_sign(symbol),
    };
    Some(sign)
}

/// The frames of the spinner, and their ASCII form.
pub const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// The time between two frames of the spinner, in milliseconds.
pub const SPIN: i64 = 250;

/// The frame of the spinner at this moment.
pub fn spinner_frame(now: UnixTime) -> &'static str {
    SPINNER[usize::try_from(now.0.div_euclid(SPIN)).unwrap_or(0) % SPINNER.len()]
}

fn spinner_sign(symbol: &str) -> Option<&'static str> {
    const FRAMES: [&str; 4] = ["|", "/", "-", "\\"];
    SPINNER
        .iter()
        .position(|frame| *frame == symbol)
        .map(|at| FRAMES[at % FRAMES.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_locale_decides_what_the_terminal_can_show() {
        let of = |set: &[(&str, &str)]| {
            SignSet::of_locale(|name| {
                set.iter()
                    .find(|(key, _)| *key == name)
                    .map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(of(&[]), SignSet::Unicode);
        assert_eq!(of(&[("LANG", "de_DE.UTF-8")]), SignSet::Unicode);
        assert_eq!(of(&[("LANG", "C")]), SignSet::AsciiOnly);
        assert_eq!(
            of(&[("LANG", "de_DE.utf8"), ("LC_ALL", "POSIX")]),
            SignSet::AsciiOnly
        );
        assert_eq!(
            of(&[("LANG", "C"), ("LC_CTYPE", "C.UTF-8"), ("LC_ALL", "")]),
            SignSet::Unicode
        );
    }

    #[test]
    fn only_creels_own_signs_change_unless_the_terminal_shows_no_others() {
        assert_eq!(
            ["✓", "é", "a", "⠹"].map(|one| SignSet::Ascii.shown(one)),
            ["+", "é", "a", "-"]
        );
        assert_eq!(
            ["✓", "é", "a", "⠹"].map(|one| SignSet::AsciiOnly.shown(one)),
            ["+", "?", "a", "-"]
        );
        assert_eq!(
            ["✓", "é"].map(|one| SignSet::Unicode.shown(one)),
            ["✓", "é"]
        );
    }
}
