//! Text for the screen: styled pieces, wrapped to a width, and the simple Markdown that agents write.
//!
//! # Invariants
//! - A wrapped line is never wider than requested, whatever characters it has.
//! - [`plain_lines`] and [`markdown`] remove control characters: see [`crate::present::text::plain`].

use ratatui::{
    style::{Modifier, Style},
    text::{Line, Span},
};
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

use super::theme::{ScreenTheme, ThemeRole};
use crate::present::text::plain;

const TAB: &str = "    ";

pub type StyledText = (String, Style);

/// Wraps pieces to a width, at spaces if possible; later lines are indented.
pub fn wrap(pieces: &[StyledText], width: usize, indent: usize) -> Vec<Line<'static>> {
    let width = width.max(1);
    let indent = if indent * 2 < width { indent } else { 0 };
    let mut lines = Vec::new();
    let mut row = LineBuilder::default();
    for (text, style) in pieces {
        for grapheme in text.replace('\t', TAB).graphemes(true) {
            // A joined character can be wider than a narrow screen has room for after the indent.
            let grapheme = if grapheme.width() > width - indent { "…" } else { grapheme };
            let grows = grapheme.width();
            // More than once if the word that moved to the next line does not fit after the indent either.
            while row.width + grows > width && row.cells.len() > row.fixed {
                let rest = row.break_off();
                lines.push(std::mem::replace(&mut row, rest.indented(indent)).into_line());
            }
            row.push(grapheme, grows, *style);
        }
    }
    lines.push(row.into_line());
    lines
}

#[derive(Default)]
struct LineBuilder {
    cells: Vec<(String, usize, Style)>,
    width: usize,
    /// How many cells at the start are the indent, where no word can be split off.
    fixed: usize,
}

impl LineBuilder {
    fn push(&mut self, grapheme: &str, width: usize, style: Style) {
        self.cells.push((grapheme.to_owned(), width, style));
        self.width += width;
    }

    /// Splits off the last word, which belongs to the next line.
    fn break_off(&mut self) -> Self {
        let space = self.cells.iter().rposition(|(text, ..)| text == " ").filter(|at| *at > self.fixed);
        let Some(space) = space else { return Self::default() };
        let cells = self.cells.split_off(space + 1);
        self.cells.pop();
        let width = cells.iter().map(|(_, width, _)| width).sum();
        Self { cells, width, fixed: 0 }
    }

    fn indented(mut self, indent: usize) -> Self {
        if indent > 0 {
            self.cells.insert(0, (" ".repeat(indent), indent, Style::default()));
            self.width += indent;
            self.fixed = 1;
        }
        self
    }

    fn into_line(self) -> Line<'static> {
        let mut spans: Vec<Span<'static>> = Vec::new();
        for (text, _, style) in self.cells {
            match spans.last_mut() {
                Some(last) if last.style == style => last.content.to_mut().push_str(&text),
                _ => spans.push(Span::styled(text, style)),
            }
        }
        Line::from(spans)
    }
}

pub fn plain_lines(text: &str, style: Style, width: usize) -> Vec<Line<'static>> {
    let clean = plain(text);
    clean.lines().flat_map(|line| wrap(&[(line.to_owned(), style)], width, 0)).collect()
}

/// An agent's text, wrapped, with headings, lists and code styled.
pub fn markdown(text: &str, theme: &ScreenTheme, width: usize) -> Vec<Line<'static>> {
    let clean = plain(text);
    let mut in_code = false;
    let mut lines = Vec::new();
    for line in clean.lines() {
        let trimmed = line.trim_start();
        if trimmed.starts_with("```") {
            in_code = !in_code;
            lines.extend(wrap(&[(line.to_owned(), theme.style(ThemeRole::Faint))], width, 0));
        } else if in_code {
            lines.extend(wrap(&[(line.to_owned(), theme.style(ThemeRole::Code))], width, 2));
        } else {
            lines.extend(prose(line, trimmed, theme, width));
        }
    }
    lines
}

fn prose(line: &str, trimmed: &str, theme: &ScreenTheme, width: usize) -> Vec<Line<'static>> {
    let hashes = trimmed.chars().take_while(|c| *c == '#').count();
    if (1..=6).contains(&hashes) && trimmed[hashes..].starts_with(' ') {
        return wrap(&[(trimmed[hashes + 1..].to_owned(), theme.style(ThemeRole::Heading))], width, 0);
    }
    let margin = line.len() - trimmed.len();
    let (bullet, rest) = match trimmed.strip_prefix("- ").or_else(|| trimmed.strip_prefix("* ")) {
        Some(rest) => ("• ", rest),
        None => ("", trimmed),
    };
    let mut pieces = vec![(format!("{}{bullet}", " ".repeat(margin)), theme.style(ThemeRole::Accent))];
    pieces.extend(inline(rest, theme));
    wrap(&pieces, width, margin + bullet.width())
}

/// `code` and **bold** inside a line.
fn inline(text: &str, theme: &ScreenTheme) -> Vec<StyledText> {
    let ordinary = theme.style(ThemeRole::Text);
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((at, mark)) = ["`", "**"].iter().filter_map(|mark| rest.find(mark).map(|at| (at, *mark))).min() {
        let inside = &rest[at + mark.len()..];
        let Some(end) = inside.find(mark).filter(|end| *end > 0) else { break };
        let style = if mark == "`" { theme.style(ThemeRole::Code) } else { ordinary.add_modifier(Modifier::BOLD) };
        pieces.push((rest[..at].to_owned(), ordinary));
        pieces.push((inside[..end].to_owned(), style));
        rest = &inside[end + mark.len()..];
    }
    pieces.push((rest.to_owned(), ordinary));
    pieces
}

/// Expands tabs as a terminal does: up to the next multiple of eight columns.
pub fn expand_tabs(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    for (n, part) in line.split('\t').enumerate() {
        if n > 0 {
            out.extend(std::iter::repeat_n(' ', 8 - out.width() % 8));
        }
        out.push_str(part);
    }
    out
}

/// Cuts the text to a width and ends it with `…` if something is missing.
pub fn fit(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 0;
    for grapheme in text.graphemes(true) {
        let grows = grapheme.width();
        if used + grows + 1 > width {
            break;
        }
        out.push_str(grapheme);
        used += grows;
    }
    if width > 0 {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(lines: &[Line<'_>]) -> Vec<String> {
        lines.iter().map(|line| line.spans.iter().map(|span| span.content.as_ref()).collect()).collect()
    }

    #[test]
    fn words_are_kept_whole_where_they_fit() {
        let piece = [("the quick brown fox".to_owned(), Style::default())];
        assert_eq!(shown(&wrap(&piece, 10, 0)), ["the quick", "brown fox"]);
        assert_eq!(shown(&wrap(&piece, 11, 2)), ["the quick", "  brown fox"]);
        assert_eq!(shown(&wrap(&[("abcdefgh".to_owned(), Style::default())], 3, 0)), ["abc", "def", "gh"]);
        assert_eq!(shown(&wrap(&[("日本語".to_owned(), Style::default())], 4, 0)), ["日本", "語"]);
        let joined = [("a \u{1f469}\u{301}\u{200d}\u{1f469}".to_owned(), Style::default())];
        assert_eq!(shown(&wrap(&joined, 4, 1)), ["a …"]);
    }

    #[test]
    fn tabs_reach_to_the_next_eighth_column() {
        assert_eq!(expand_tabs("a\tb"), "a       b");
        assert_eq!(expand_tabs("12345678\tb\t"), "12345678        b       ");
        assert_eq!(expand_tabs("日本\tb"), "日本    b");
    }

    #[test]
    fn markdown_is_shown_and_not_its_signs() {
        let theme = ScreenTheme::chosen(crate::config::ThemeName::Dark, false);
        let text = "# Title\n- one **two** `three`\n```rust\nlet x = 1;\n```\nleft `open";
        assert_eq!(
            shown(&markdown(text, &theme, 40)),
            ["Title", "• one two three", "```rust", "let x = 1;", "```", "left `open"]
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn no_line_is_wider_than_asked_for(text in "[ a-z日\u{301}\u{1f469}\u{200d}\t#*`-]{0,80}", width in 2usize..30) {
            let theme = ScreenTheme::chosen(crate::config::ThemeName::Dark, false);
            for line in shown(&markdown(&text, &theme, width)) {
                prop_assert!(line.width() <= width, "{line:?} is wider than {width}");
            }
            prop_assert!(fit(&text, width).width() <= width);
        }
    }
}
