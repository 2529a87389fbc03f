//! Text for the screen: styled pieces, wrapped or cut to a width.
//!
//! # Invariants
//! - A wrapped line is never wider than requested, whatever characters it has.
//! - [`plain_lines`] removes control characters: see [`crate::present::text::plain`].

use ratatui::{
    style::Style,
    text::{Line, Span},
};
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

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
            let grapheme = if grapheme.width() > width - indent {
                "…"
            } else {
                grapheme
            };
            let grows = grapheme.width();
            // More than once if the word that moved to the next line fills that, too.
            while row.width + grows > width && row.cells.len() > row.fixed {
                let rest = row.break_off(width - indent);
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

    /// Ends the line with `…`, within a width.
    fn cut(&mut self, width: usize) {
        let style = self
            .cells
            .last()
            .map_or_else(Style::default, |(.., style)| *style);
        while self.width + 1 > width
            && let Some((_, gone, _)) = self.cells.pop()
        {
            self.width -= gone;
        }
        if width > 0 {
            self.push("…", 1, style);
        }
    }

    /// Splits off the last word, which belongs to the next line, unless it is wider than the next
    /// line has room for.
    fn break_off(&mut self, room: usize) -> Self {
        let space = self
            .cells
            .iter()
            .rposition(|(text, ..)| text == " ")
            .filter(|at| *at > self.fixed);
        let Some(space) = space else {
            return Self::default();
        };
        let width = self.cells[space + 1..]
            .iter()
            .map(|(_, width, _)| width)
            .sum();
        if width > room {
            return Self::default();
        }
        let cells = self.cells.split_off(space + 1);
        self.cells.pop();
        Self {
            cells,
            width,
            fixed: 0,
        }
    }

    fn indented(mut self, indent: usize) -> Self {
        if indent > 0 {
            self.cells
                .insert(0, (" ".repeat(indent), indent, Style::default()));
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
    clean
        .lines()
        .flat_map(|line| wrap(&[(line.to_owned(), style)], width, 0))
        .collect()
}

/// The part of a line from a column on, cut to a width. `…` says that something is missing on that
/// side.
pub fn window(pieces: &[StyledText], left: usize, width: usize) -> Line<'static> {
    let mut row = LineBuilder::default();
    let mut column = 0;
    for (text, style) in pieces {
        for grapheme in expand_tabs_from(text, column).graphemes(true) {
            let grows = grapheme.width();
            column += grows;
            if column <= left {
                continue;
            }
            if row.width + grows > width {
                row.cut(width);
                return row.into_line();
            }
            row.push(grapheme, grows, *style);
        }
    }
    row.into_line()
}

/// Expands tabs as a terminal does: up to the next multiple of eight columns.
pub fn expand_tabs(line: &str) -> String {
    expand_tabs_from(line, 0)
}

/// The same for a text that begins at a column.
fn expand_tabs_from(line: &str, column: usize) -> String {
    let mut out = String::with_capacity(line.len());
    for (n, part) in line.split('\t').enumerate() {
        if n > 0 {
            out.extend(std::iter::repeat_n(' ', 8 - (column + out.width()) % 8));
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
        lines
            .iter()
            .map(|line| {
                line.spans
                    .iter()
                    .map(|span| span.content.as_ref())
                    .collect()
            })
            .collect()
    }

    #[test]
    fn words_are_kept_whole_where_they_fit() {
        let piece = [("the quick brown fox".to_owned(), Style::default())];
        assert_eq!(shown(&wrap(&piece, 10, 0)), ["the quick", "brown fox"]);
        assert_eq!(shown(&wrap(&piece, 11, 2)), ["the quick", "  brown fox"]);
        assert_eq!(
            shown(&wrap(&[("abcdefgh".to_owned(), Style::default())], 3, 0)),
            ["abc", "def", "gh"]
        );
        assert_eq!(
            shown(&wrap(&[("日本語".to_owned(), Style::default())], 4, 0)),
            ["日本", "語"]
        );
        let long = [
            ("\u{301} abcd".to_owned(), Style::default()),
            ("efg".to_owned(), Style::default()),
        ];
        assert_eq!(shown(&wrap(&long, 5, 2)), ["\u{301} abcd", "  efg"]);
        let joined = [(
            "a \u{1f469}\u{301}\u{200d}\u{1f469}".to_owned(),
            Style::default(),
        )];
        assert_eq!(shown(&wrap(&joined, 4, 1)), ["a …"]);
    }

    #[test]
    fn tabs_reach_to_the_next_eighth_column() {
        assert_eq!(expand_tabs("a\tb"), "a       b");
        assert_eq!(expand_tabs("12345678\tb\t"), "12345678        b       ");
        assert_eq!(expand_tabs("日本\tb"), "日本    b");
    }

    #[test]
    fn a_window_shows_a_part_of_a_line_in_its_styles() {
        let (plain, red) = (
            Style::default(),
            Style::default().fg(ratatui::style::Color::Red),
        );
        let pieces = [("ab\tc".to_owned(), plain), ("日本語".to_owned(), red)];
        let shown_from = |left, width| {
            let line = window(&pieces, left, width);
            (
                shown(std::slice::from_ref(&line)).concat(),
                line.spans.last().map(|span| span.style),
            )
        };
        assert_eq!(shown_from(0, 20), ("ab      c日本語".into(), Some(red)));
        assert_eq!(shown_from(8, 20), ("c日本語".into(), Some(red)));
        assert_eq!(shown_from(8, 4), ("c日…".into(), Some(red)));
        assert_eq!(shown_from(0, 3), ("ab…".into(), Some(plain)));
        assert_eq!(shown_from(40, 3), (String::new(), None));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn no_line_is_wider_than_asked_for(text in "[ a-z日\u{301}\u{1f469}\u{200d}\t#*`-]{0,80}", width in 2usize..30) {
            let pieces = [(text.clone(), Style::default())];
            let lines = [wrap(&pieces, width, 2), vec![window(&pieces, 3, width)]].concat();
            for line in shown(&lines) {
                prop_assert!(line.width() <= width, "{line:?} is wider than {width}");
            }
            prop_assert!(fit(&text, width).width() <= width);
        }
    }
}
