//! The Markdown that agents write, as styled rows: headings, lists, code blocks and tables.
//!
//! # Invariants
//! - No row is wider than requested.
//! - The text has no control characters: see [`crate::present::text::plain`].

mod code;

use code::CodeBlock;
use ratatui::{
    style::{Modifier, Style},
    text::{Line, Span},
};
use unicode_width::UnicodeWidthStr as _;

use crate::{
    present::text::plain,
    tui::{
        text::{StyledText, wrap},
        theme::{ScreenTheme, ThemeRole},
    },
};

/// An agent's text, wrapped, with headings, lists, code and tables styled.
pub fn markdown(text: &str, theme: &ScreenTheme, width: usize) -> Vec<Line<'static>> {
    let clean = plain(text);
    let source: Vec<&str> = clean.lines().collect();
    let mut code: Option<CodeBlock> = None;
    let mut rows = Vec::new();
    let mut at = 0;
    while let Some(line) = source.get(at).copied() {
        at += 1;
        if let Some(block) = &code {
            if block.ends_with(line) {
                code = None;
            } else {
                rows.extend(block.rows(line, theme, width));
            }
        } else if let Some(block) = CodeBlock::beginning(line) {
            code = Some(block);
        } else if let Some((table, lines)) = table_rows(&source[at - 1..], theme, width) {
            rows.extend(table);
            at += lines - 1;
        } else {
            rows.extend(prose(line, theme, width));
        }
    }
    rows
}

fn prose(line: &str, theme: &ScreenTheme, width: usize) -> Vec<Line<'static>> {
    let trimmed = line.trim_start();
    let hashes = trimmed.chars().take_while(|c| *c == '#').count();
    if (1..=6).contains(&hashes) && trimmed[hashes..].starts_with(' ') {
        return wrap(
            &[(
                trimmed[hashes + 1..].to_owned(),
                theme.style(ThemeRole::Heading),
            )],
            width,
            0,
        );
    }
    let margin = line.len() - trimmed.len();
    let (bullet, rest) = match trimmed
        .strip_prefix("- ")
        .or_else(|| trimmed.strip_prefix("* "))
    {
        Some(rest) => ("• ", rest),
        None => ("", trimmed),
    };
    let mut pieces = vec![(
        format!("{}{bullet}", " ".repeat(margin)),
        theme.style(ThemeRole::Accent),
    )];
    pieces.extend(inline(rest, theme));
    wrap(&pieces, width, margin + bullet.width())
}

/// `code` and **bold** inside a line.
fn inline(text: &str, theme: &ScreenTheme) -> Vec<StyledText> {
    let ordinary = theme.style(ThemeRole::Text);
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((at, mark)) = ["`", "**"]
        .iter()
        .filter_map(|mark| rest.find(mark).map(|at| (at, *mark)))
        .min()
    {
        let inside = &rest[at + mark.len()..];
        let Some(end) = inside.find(mark).filter(|end| *end > 0) else {
            break;
        };
        let style = if mark == "`" {
            theme.style(ThemeRole::Code)
        } else {
            ordinary.add_modifier(Modifier::BOLD)
        };
        pieces.push((rest[..at].to_owned(), ordinary));
        pieces.push((inside[..end].to_owned(), style));
        rest = &inside[end + mark.len()..];
    }
    pieces.push((rest.to_owned(), ordinary));
    pieces
}

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
fn table_rows(
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
            lines.push(theme.line(ThemeRole::Border, rule));
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
                spans.push(theme.span(ThemeRole::Border, SEPARATOR));
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn theme() -> ScreenTheme {
        ScreenTheme::chosen(crate::config::ThemeName::Dark, false)
    }

    fn shown(text: &str, width: usize) -> Vec<String> {
        let rows = markdown(text, &theme(), width);
        rows.iter()
            .map(|line| {
                line.spans
                    .iter()
                    .map(|span| span.content.as_ref())
                    .collect()
            })
            .collect()
    }

    #[test]
    fn markdown_is_shown_and_not_its_signs() {
        let text = "# Title\n- one **two** `three`\n```rust\nlet x = 1;\n```\nleft `open";
        assert_eq!(
            shown(text, 40),
            ["Title", "• one two three", "  let x = 1;", "left `open"]
        );
    }

    #[test]
    fn a_code_block_ends_with_its_own_fence_and_keeps_its_signs() {
        let text = "````md\n# not a title\n```\n| not | a table |\n````\nafter\n~~~\n- no bullet\n";
        let rows = [
            "  # not a title",
            "  ```",
            "  | not | a table |",
            "after",
            "  - no bullet",
        ];
        assert_eq!(shown(text, 40), rows);
    }

    #[test]
    fn words_of_common_languages_stand_out_in_code() {
        let styles = |text: &str| {
            let rows = markdown(text, &theme(), 60);
            let spans = rows.iter().flat_map(|row| row.spans.clone());
            spans
                .map(|span| (span.content.trim().to_owned(), span.style))
                .collect::<Vec<_>>()
        };
        let code = theme().style(ThemeRole::Code);
        let (word, text, comment) = (
            code.add_modifier(Modifier::BOLD),
            theme().style(ThemeRole::Good),
            theme().style(ThemeRole::Faint),
        );
        let found = styles("```rust\nlet a: &'static str = \"if // x\"; // why\n```");
        for (part, style) in [
            ("let", word),
            ("static", word),
            ("\"if // x\"", text),
            ("// why", comment),
        ] {
            assert!(
                found.contains(&(part.to_owned(), style)),
                "{part}: {found:?}"
            );
        }
        let found = styles("```python\ndef f(): # 'why'\n```");
        assert!(
            found.contains(&("def".into(), word)) && found.contains(&("# 'why'".into(), comment)),
            "{found:?}"
        );
        let found = styles("```diff\n-old\n+new\n```");
        assert!(
            found.contains(&("-old".into(), theme().style(ThemeRole::Bad))),
            "{found:?}"
        );
        // Without a language, nothing is guessed.
        assert!(styles("```\nlet it be # 1\n```").contains(&("let it be # 1".into(), code)));
    }

    #[test]
    fn tables_are_aligned() {
        let text = "| Test | Time | Why |\n|:-----|-----:|:---:|\n| `a` | 1.5 s | ok |\n| a\\|b | 12 s | **never** \
                    |\nafter";
        assert_eq!(
            shown(text, 60),
            [
                "Test │  Time │  Why",
                "─────┼───────┼──────",
                "a    │ 1.5 s │  ok",
                "a|b  │  12 s │ never",
                "after",
            ]
        );
    }

    #[test]
    fn a_wide_table_wraps_its_cells() {
        let text =
            "Name | What it does\n--- | ---\nlexer | gives tokens with their places\n日本 | short";
        assert_eq!(
            shown(text, 24),
            [
                "Name  │ What it does",
                "──────┼─────────────────",
                "lexer │ gives tokens",
                "      │ with their",
                "      │ places",
                "日本  │ short",
            ]
        );
        // Without room for columns, the lines are text.
        assert_eq!(shown("a | b | c\n-|-|-\nd | e | f", 8)[0], "a | b |");
        assert_eq!(shown("a | b", 8), ["a | b"]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn no_row_is_wider_than_asked_for(text in "[ a-z日\u{301}\u{1f469}\u{200d}\t#*`|:\n\"'/-]{0,120}", width in 2usize..30) {
            for line in shown(&text, width) {
                prop_assert!(line.width() <= width, "{line:?} is wider than {width}");
            }
        }

        #[test]
        fn no_table_is_wider_than_asked_for(
            cells in proptest::collection::vec("[a-z日 ]{0,12}", 4..24), columns in 1usize..6, width in 2usize..40,
        ) {
            let rows: Vec<String> = cells.chunks(columns).map(|row| format!("|{}|", row.join("|"))).collect();
            let text = format!("{}\n|{}\n{}", rows[0], "---|".repeat(columns), rows[1..].join("\n"));
            for line in shown(&text, width) {
                prop_assert!(line.width() <= width, "{line:?} is wider than {width}");
            }
        }
    }
}
