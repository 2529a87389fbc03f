//! Tables: columns of one width, cells that wrap, never wider than the pane.

use ratatui::{
    style::{Modifier, Style},
    text::{Line, Span},
};
use unicode_width::UnicodeWidthStr as _;

use super::inline;
use crate::tui::{
    text::{StyledText, wrap},
    theme::{ScreenTheme, ThemeRole},
};

/// Between two columns.
const SEPARATOR: &str = " │ ";
/// A column is never narrower than this, in columns of the screen.
const NARROWEST: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CellAlignment {
    Left,
    Center,
    Right,
}

/// The rows of the table at the beginning of the lines, and how many lines it has. None if there is
/// no table, or no room for one.
pub(super) fn rows(
    source: &[&str],
    theme: &ScreenTheme,
    width: usize,
) -> Option<(Vec<Line<'static>>, usize)> {
    let [head, ruler, ..] = source else {
        return None;
    };
    let head = head.contains('|').then(|| cells(head))?;
    let columns = alignments(ruler).filter(|columns| columns.len() == head.len())?;
    let body = source[2..]
        .iter()
        .take_while(|line| line.contains('|'))
        .map(|line| cells(line));
    let table: Vec<Vec<Vec<StyledText>>> = [head]
        .into_iter()
        .chain(body)
        .map(|row| {
            (0..columns.len())
                .map(|n| styled(row.get(n).map_or("", String::as_str), theme))
                .collect()
        })
        .collect();
    let widths = widths(&table, width)?;
    let mut rows = Vec::new();
    for (n, row) in table.iter().enumerate() {
        let mut lines = row_lines(row, &widths, &columns, theme);
        if n == 0 {
            lines = lines
                .into_iter()
                .map(|line| line.patch_style(Modifier::BOLD))
                .collect();
            let rule = widths
                .iter()
                .map(|width| "─".repeat(*width))
                .collect::<Vec<_>>()
                .join("─┼─");
            lines.push(Line::styled(rule, theme.style(ThemeRole::Border)));
        }
        rows.extend(lines);
    }
    Some((rows, table.len() + 1))
}

/// The cells of a line. An escaped bar, and one in code, is part of its cell.
fn cells(line: &str) -> Vec<String> {
    let line = line.trim();
    let line = line.strip_prefix('|').unwrap_or(line);
    let mut cells = vec![String::new()];
    let (mut escaped, mut in_code) = (false, false);
    for c in line.chars() {
        let cell = cells.last_mut().expect("there is always a last cell");
        match c {
            '|' if escaped => {
                cell.pop();
                cell.push('|');
            }
            '|' if !in_code => cells.push(String::new()),
            _ => cell.push(c),
        }
        in_code ^= c == '`';
        escaped = c == '\\' && !escaped;
    }
    if cells.len() > 1 && cells.last().is_some_and(|last| last.trim().is_empty()) {
        cells.pop();
    }
    cells
        .into_iter()
        .map(|cell| cell.trim().to_owned())
        .collect()
}

/// The alignment of each column, if the line is the one below the head of a table.
fn alignments(line: &str) -> Option<Vec<CellAlignment>> {
    let marks = |cell: &String| {
        let dashes = cell.trim_matches(':');
        let is_mark = !dashes.is_empty() && dashes.chars().all(|c| c == '-');
        is_mark.then(|| match (cell.starts_with(':'), cell.ends_with(':')) {
            (true, true) => CellAlignment::Center,
            (false, true) => CellAlignment::Right,
            (_, false) => CellAlignment::Left,
        })
    };
    line.contains('|')
        .then(|| cells(line).iter().map(marks).collect())?
}

fn styled(cell: &str, theme: &ScreenTheme) -> Vec<StyledText> {
    inline(cell, theme)
}

/// The widths of the columns: as wide as their content. If that is too wide, the widest columns
/// give way.
fn widths(table: &[Vec<Vec<StyledText>>], room: usize) -> Option<Vec<usize>> {
    let columns = table.first()?.len();
    let cell = |cell: &Vec<StyledText>| cell.iter().map(|(text, _)| text.width()).sum::<usize>();
    let mut widths: Vec<usize> = (0..columns)
        .map(|n| {
            table
                .iter()
                .map(|row| cell(&row[n]))
                .max()
                .unwrap_or(0)
                .max(1)
        })
        .collect();
    let room = room.checked_sub(SEPARATOR.width() * (columns - 1))?;
    while widths.iter().sum::<usize>() > room {
        let widest = widths
            .iter_mut()
            .max()
            .filter(|width| **width > NARROWEST)?;
        *widest -= 1;
    }
    Some(widths)
}

/// One row of the table: as many lines as its longest cell needs.
fn row_lines(
    row: &[Vec<StyledText>],
    widths: &[usize],
    alignments: &[CellAlignment],
    theme: &ScreenTheme,
) -> Vec<Line<'static>> {
    let cells: Vec<Vec<Line<'static>>> = row
        .iter()
        .zip(widths)
        .map(|(cell, width)| wrap(cell, *width, 0))
        .collect();
    let height = cells.iter().map(Vec::len).max().unwrap_or(0);
    let line = |n: usize| {
        let mut spans = Vec::new();
        for (column, cell) in cells.iter().enumerate() {
            if column > 0 {
                spans.push(Span::styled(SEPARATOR, theme.style(ThemeRole::Border)));
            }
            let part = cell.get(n).cloned().unwrap_or_default();
            let free = widths[column].saturating_sub(part.width());
            let before = match alignments[column] {
                CellAlignment::Left => 0,
                CellAlignment::Center => free / 2,
                CellAlignment::Right => free,
            };
            // Nothing follows the last cell.
            let after = if column + 1 == cells.len() {
                0
            } else {
                free - before
            };
            spans.push(Span::styled(" ".repeat(before), Style::default()));
            spans.extend(part.spans);
            spans.push(Span::styled(" ".repeat(after), Style::default()));
        }
        Line::from(spans)
    };
    (0..height).map(line).collect()
}
