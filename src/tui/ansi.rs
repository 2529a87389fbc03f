//! Output of hooks and agents in its own colours.
//!
//! Owns which parts of escape sequences survive: colours, bold and underline. Everything else in
//! them is dropped.
//!
//! # Invariants
//! - The text has no control character. A carriage return rewrites its line.
//! - The work is proportional to the text, and a style never outlives its text.

use ratatui::{
    style::{Color, Modifier, Style},
    text::Line,
};

use crate::{
    present::text::{grouped, plain, plural},
    text::OmittedOutput,
    tui::{
        text::{StyledText, wrap},
        theme::{ScreenTheme, ThemeRole},
    },
};

/// The text with its colour sequences, and without any other sequence or control character except
/// line ends, tabs and carriage returns.
pub fn only_colours(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for part in Parts(text) {
        match part {
            OutputPart::Text(text) => out.push_str(&clean(text)),
            OutputPart::Colours(parameters) => out.extend(["\u{1b}[", parameters, "m"]),
        }
    }
    out
}

/// The lines of a text, each as styled pieces. `base` is the style of text without a colour of its
/// own.
pub fn coloured_lines(text: &str, base: Style, keeps_colours: bool) -> Vec<Vec<StyledText>> {
    let mut lines: Vec<Vec<StyledText>> = vec![Vec::new()];
    let mut style = base;
    for part in Parts(text) {
        match part {
            OutputPart::Text(text) => {
                for (n, line) in clean(text).split('\n').enumerate() {
                    if n > 0 {
                        lines.push(Vec::new());
                    }
                    push_line(
                        lines.last_mut().expect("there is always a last line"),
                        line,
                        style,
                    );
                }
            }
            OutputPart::Colours(parameters) if keeps_colours => {
                style = applied(parameters, style, base);
            }
            OutputPart::Colours(_) => {}
        }
    }
    if lines.last().is_some_and(Vec::is_empty) {
        lines.pop();
    }
    lines
}

/// Adds the text of one line. After a carriage return, the line begins again.
fn push_line(line: &mut Vec<StyledText>, text: &str, style: Style) {
    let mut parts = text.trim_end_matches('\r').split('\r');
    let first = parts.next().unwrap_or_default();
    let last = parts.next_back();
    if last.is_some() {
        line.clear();
    }
    let text = last.unwrap_or(first);
    if !text.is_empty() {
        line.push((text.to_owned(), style));
    }
}

/// The text without control characters except line ends, tabs and single carriage returns.
fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (n, part) in text.replace("\r\n", "\n").split('\r').enumerate() {
        if n > 0 {
            out.push('\r');
        }
        out.push_str(&plain(part));
    }
    out
}

enum OutputPart<'a> {
    /// May contain other sequences.
    Text(&'a str),
    /// The parameters of `ESC [ … m`.
    Colours(&'a str),
}

struct Parts<'a>(&'a str);

impl<'a> Iterator for Parts<'a> {
    type Item = OutputPart<'a>;

    fn next(&mut self) -> Option<OutputPart<'a>> {
        if self.0.is_empty() {
            return None;
        }
        if let Some((parameters, rest)) = leading_colours(self.0) {
            self.0 = rest;
            return Some(OutputPart::Colours(parameters));
        }
        // The first byte can be an escape character that begins no colour.
        let skip = self.0.chars().next().map_or(0, char::len_utf8);
        let mut at = skip;
        while let Some(found) = self.0[at..].find('\u{1b}') {
            at += found;
            if leading_colours(&self.0[at..]).is_some() {
                let (text, rest) = self.0.split_at(at);
                self.0 = rest;
                return Some(OutputPart::Text(text));
            }
            at += 1;
        }
        Some(OutputPart::Text(std::mem::take(&mut self.0)))
    }
}

/// The parameters of a colour sequence at the beginning of the text, and the text after it.
fn leading_colours(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix("\u{1b}[")?;
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != ';' && c != ':')?;
    rest[end..]
        .starts_with('m')
        .then(|| (&rest[..end], &rest[end + 1..]))
}

/// The style after a colour sequence.
fn applied(parameters: &str, mut style: Style, base: Style) -> Style {
    let mut codes = parameters
        .split([';', ':'])
        .map(|code| code.parse::<u8>().unwrap_or(0));
    while let Some(code) = codes.next() {
        style = match code {
            0 => base,
            1 => style.add_modifier(Modifier::BOLD),
            2 => style.add_modifier(Modifier::DIM),
            4 => style.add_modifier(Modifier::UNDERLINED),
            22 => style.remove_modifier(Modifier::BOLD | Modifier::DIM),
            24 => style.remove_modifier(Modifier::UNDERLINED),
            30..=37 => style.fg(Color::Indexed(code - 30)),
            90..=97 => style.fg(Color::Indexed(code - 90 + 8)),
            40..=47 => style.bg(Color::Indexed(code - 40)),
            100..=107 => style.bg(Color::Indexed(code - 100 + 8)),
            38 => extended(&mut codes).map_or(style, |colour| style.fg(colour)),
            48 => extended(&mut codes).map_or(style, |colour| style.bg(colour)),
            39 => Style {
                fg: base.fg,
                ..style
            },
            49 => Style {
                bg: base.bg,
                ..style
            },
            _ => style,
        };
    }
    style
}

fn extended(codes: &mut impl Iterator<Item = u8>) -> Option<Color> {
    match codes.next()? {
        5 => codes.next().map(Color::Indexed),
        2 => Some(Color::Rgb(codes.next()?, codes.next()?, codes.next()?)),
        _ => None,
    }
}

/// Rows, and for each the number of its line, from 1.
#[derive(Debug, Default)]
pub struct PrintedRows {
    pub rows: Vec<Line<'static>>,
    pub numbers: Vec<usize>,
}

impl PrintedRows {
    pub fn of(text: &str, theme: &ScreenTheme, width: usize) -> Self {
        let mut all = Self::default();
        let mut number = 0;
        for line in coloured_lines(
            text.trim_end(),
            theme.style(ThemeRole::Text),
            theme.keeps_colours,
        ) {
            let omitted = OmittedOutput::at_start(&words(&line)).map_or(0, |omitted| omitted.lines);
            let line = omitted_words(&line)
                .map_or(line, |words| vec![(words, theme.style(ThemeRole::Faint))]);
            number += omitted.max(1);
            let rows = wrap(&line, width, 0);
            all.numbers.extend(rows.iter().map(|_| number));
            all.rows.extend(rows);
        }
        all
    }
}

/// What to show instead of a line about omitted output. None for other lines.
pub fn omitted_words(line: &[StyledText]) -> Option<String> {
    let lines = OmittedOutput::at_start(&words(line))
        .map(|omitted| omitted.lines)
        .filter(|lines| *lines > 0)?;
    Some(format!(
        "… {} {} left out, see the full output in the viewer",
        grouped(lines),
        plural(lines, "line")
    ))
}

fn words(line: &[StyledText]) -> String {
    line.iter()
        .map(|(text, _): &(String, Style)| text.as_str())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(text: &str) -> Vec<String> {
        let lines = coloured_lines(text, Style::default(), true);
        lines
            .into_iter()
            .map(|line| line.into_iter().map(|(text, _)| text).collect())
            .collect()
    }

    #[test]
    fn colours_bold_and_underline_stay() {
        let text = "\u{1b}[1;31merror\u{1b}[0m: \u{1b}[38;5;208mo\u{1b}[38;2;1;2;3mr\u{1b}[4;49mu\n\u{1b}[92mg";
        let line = coloured_lines(text, Style::default(), true);
        let red = Style::default()
            .fg(Color::Indexed(1))
            .add_modifier(Modifier::BOLD);
        assert_eq!(line[0][0], ("error".to_owned(), red));
        assert_eq!(line[0][1], (": ".to_owned(), Style::default()));
        assert_eq!(line[0][2].1.fg, Some(Color::Indexed(208)));
        assert_eq!(line[0][3].1.fg, Some(Color::Rgb(1, 2, 3)));
        assert_eq!(line[0][4].1.add_modifier, Modifier::UNDERLINED);
        assert_eq!(line[1][0].1.fg, Some(Color::Indexed(10)));
        let plain = coloured_lines(text, Style::default(), false);
        assert!(
            plain
                .iter()
                .flatten()
                .all(|(_, style)| *style == Style::default())
        );
    }

    #[test]
    fn everything_else_in_sequences_is_dropped_and_lines_are_rewritten() {
        assert_eq!(
            texts("\u{1b}]0;title\u{7}a\u{1b}[2J\u{1b}[31mb\u{1b}[5;5Hc\u{1b}[mx"),
            ["abcx"]
        );
        assert_eq!(texts("10%\r50%\r100%\ndone\r\n"), ["100%", "done"]);
        assert_eq!(texts("open \u{1b}[3"), ["open "]);
        assert_eq!(
            only_colours("\u{1b}[31mred\u{1b}[0m \u{1b}[2Kx\u{1b}]8;;u\u{7}y"),
            "\u{1b}[31mred\u{1b}[0m xy"
        );
    }

    proptest! {
        #[test]
        fn no_control_character_survives(text in "(\\PC|[\\n\\r\\t\\x1b\\x07\\[\\]0-9;m?]){0,60}") {
            for line in texts(&text) {
                prop_assert!(!line.contains(|c: char| c.is_control() && c != '\t'), "{line:?}");
            }
        }
    }

    #[test]
    fn lines_after_a_gap_have_the_numbers_that_they_were_printed_with() {
        let theme = ScreenTheme::chosen(crate::config::ThemeName::Dark, false);
        let text = "one\ntwo\n[… 99197 lines, 689133 bytes left out; all of it: outputs/run-7.log …]\nlast but one\nlast\n";
        let PrintedRows { rows, numbers } = PrintedRows::of(text, &theme, 80);
        assert_eq!(numbers, [1, 2, 99_199, 99_200, 99_201]);
        assert_eq!(
            rows[2].to_string(),
            "… 99,197 lines left out, see the full output in the viewer"
        );
        let old = PrintedRows::of("one\n[… 9 bytes left out …]\nlast", &theme, 80);
        assert_eq!(
            (old.numbers, old.rows[1].to_string()),
            (vec![1, 2, 3], "[… 9 bytes left out …]".to_owned())
        );
    }
}
