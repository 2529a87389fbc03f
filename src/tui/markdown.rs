//! The Markdown that agents write, as styled rows: headings, lists, quotations, links, emphasis, code
//! blocks and tables.
//!
//! Code blocks are set off by an indent instead of their fences. In common languages, comments,
//! strings and keywords stand out. A line is read on its own, so a string or a comment over several
//! lines is ordinary code.
//!
//! # Invariants
//! - No row is wider than requested.
//! - The text has no control characters: see [`crate::present::text::plain`].

mod inline;

use inline::inline;
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

/// An agent's text, wrapped and styled.
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
            rows.extend(prose(line, theme, width, 0));
        }
    }
    rows
}

/// The sign before the lines of a quotation.
const QUOTED: &str = "▏ ";
/// A line of a quotation with more levels than this is read as text from there on.
const DEEPEST: usize = 4;

fn prose(line: &str, theme: &ScreenTheme, width: usize, depth: usize) -> Vec<Line<'static>> {
    let trimmed = line.trim_start();
    if let Some(rest) = trimmed.strip_prefix('>')
        && depth < DEEPEST
        && width > NARROW
    {
        let inside = rest.strip_prefix(' ').unwrap_or(rest);
        let mut rows = prose(inside, theme, width - QUOTED.width(), depth + 1);
        for row in &mut rows {
            row.spans.insert(0, theme.span(ThemeRole::Faint, QUOTED));
        }
        return rows;
    }
    if let Some((level, title)) = heading(trimmed) {
        let style = heading_style(level, theme);
        return wrap(&inline(title, style, theme), width, 0);
    }
    if is_rule(trimmed) {
        return vec![theme.line(ThemeRole::Border, "─".repeat(width.min(RULE)))];
    }
    let margin = line.len() - trimmed.len();
    let (bullet, rest) = list_item(trimmed);
    let mut pieces = vec![(
        format!("{}{bullet}", " ".repeat(margin)),
        theme.style(ThemeRole::Accent),
    )];
    pieces.extend(inline(rest, theme.style(ThemeRole::Text), theme));
    wrap(&pieces, width, margin + bullet.width())
}

/// The level and the text of a heading.
fn heading(line: &str) -> Option<(usize, &str)> {
    let level = line.chars().take_while(|c| *c == '#').count();
    let title = line[level..].strip_prefix(' ')?;
    (1..=6).contains(&level).then(|| (level, title.trim()))
}

/// Without colours, too, the levels differ: bold and underlined, bold, underlined.
fn heading_style(level: usize, theme: &ScreenTheme) -> Style {
    let heading = theme.style(ThemeRole::Heading);
    match level {
        1 => heading.add_modifier(Modifier::UNDERLINED),
        2 => heading,
        _ => heading
            .remove_modifier(Modifier::BOLD)
            .add_modifier(Modifier::UNDERLINED),
    }
}

/// The width of a line between two parts of a text, in columns.
const RULE: usize = 24;

/// Whether the line is only a line between two parts of the text: `---`, `* * *`.
fn is_rule(line: &str) -> bool {
    let mut signs = line.chars().filter(|c| !c.is_whitespace());
    let Some(first) = signs.next().filter(|c| matches!(c, '-' | '*' | '_')) else {
        return false;
    };
    let mut count = 1;
    for sign in signs {
        if sign != first {
            return false;
        }
        count += 1;
    }
    count >= 3
}

/// The sign of an item of a list, as it is shown, and the text after it.
fn list_item(line: &str) -> (String, &str) {
    let digits = line.find(|c: char| !c.is_ascii_digit()).unwrap_or(0);
    let number = &line[..digits];
    if (1..=9).contains(&digits)
        && let Some(rest) = line[digits..]
            .strip_prefix(". ")
            .or_else(|| line[digits..].strip_prefix(") "))
    {
        return (format!("{number}. "), rest);
    }
    let Some(rest) = ["- ", "* ", "+ "]
        .iter()
        .find_map(|sign| line.strip_prefix(sign))
    else {
        return (String::new(), line);
    };
    for (mark, sign) in [("[ ] ", "☐ "), ("[x] ", "☑ "), ("[X] ", "☑ ")] {
        if let Some(rest) = rest.strip_prefix(mark) {
            return (sign.to_owned(), rest);
        }
    }
    ("• ".to_owned(), rest)
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
    inline(cell, theme.style(ThemeRole::Text), theme)
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

/// The columns before each line of code. On narrow screens there are none.
const INDENT: usize = 2;
const NARROW: usize = 16;

/// What a line needs to be read.
#[derive(Debug, Clone, Copy)]
struct CodeLanguage {
    /// Separated by spaces, like the keywords.
    names: &'static str,
    comment: &'static str,
    keywords: &'static str,
}

const LANGUAGES: &[CodeLanguage] = &[
    CodeLanguage {
        names: "rust rs",
        comment: "//",
        keywords: "as async await break const continue else enum false fn for if impl in let loop match mod move \
            mut pub ref return self Self static struct trait true type unsafe use where while",
    },
    CodeLanguage {
        names: "c cpp c++ csharp go java javascript js jsx kotlin swift ts tsx typescript",
        comment: "//",
        keywords: "async await break case catch class const continue default defer else enum export extends false \
            finally for func function if import interface let new nil null package private public range \
            return static struct switch this throw true try type var void while",
    },
    CodeLanguage {
        names: "python py ruby rb",
        comment: "#",
        keywords: "and as async await begin break class continue def del do elif else end ensure except False \
            finally for from if import in is lambda module None nil not or pass raise require rescue return \
            self True try unless while with yield",
    },
    CodeLanguage {
        names: "bash console sh shell zsh",
        comment: "#",
        keywords: "case do done elif else esac exit export fi for function if in local return set then until while",
    },
    CodeLanguage {
        names: "toml yaml yml",
        comment: "#",
        keywords: "false null true",
    },
    CodeLanguage {
        names: "json jsonc",
        comment: "//",
        keywords: "false null true",
    },
    CodeLanguage {
        names: "sql",
        comment: "--",
        keywords: "AND AS BY CREATE DELETE FROM GROUP IN INSERT INTO JOIN NOT NULL ON OR ORDER SELECT SET TABLE \
            UPDATE VALUES WHERE",
    },
];

/// The code block that the current line belongs to.
#[derive(Debug)]
struct CodeBlock {
    sign: char,
    /// How many signs its fence has.
    length: usize,
    syntax: CodeSyntax,
}

#[derive(Debug)]
enum CodeSyntax {
    Unknown,
    Diff,
    Known(CodeLanguage),
}

/// The sign of a fence, how many of them there are, and the text after them.
fn fence(line: &str) -> Option<(char, usize, &str)> {
    let line = line.trim_start();
    let sign = line
        .chars()
        .next()
        .filter(|sign| matches!(sign, '`' | '~'))?;
    let rest = line.trim_start_matches(sign);
    let length = line.len() - rest.len();
    (length >= 3 && !rest.contains(sign)).then_some((sign, length, rest.trim()))
}

impl CodeBlock {
    /// The block that begins with this line, if it is a fence.
    fn beginning(line: &str) -> Option<Self> {
        let (sign, length, rest) = fence(line)?;
        let language = rest
            .split([' ', ',', '{', ':'])
            .next()
            .unwrap_or_default()
            .to_lowercase();
        let known = LANGUAGES
            .iter()
            .find(|known| is_among(&language, known.names));
        let syntax = match (known, language.as_str()) {
            (Some(known), _) => CodeSyntax::Known(*known),
            (None, "diff" | "patch") => CodeSyntax::Diff,
            (None, _) => CodeSyntax::Unknown,
        };
        Some(Self {
            sign,
            length,
            syntax,
        })
    }

    fn ends_with(&self, line: &str) -> bool {
        fence(line).is_some_and(|(sign, length, rest)| {
            sign == self.sign && length >= self.length && rest.is_empty()
        })
    }

    fn rows(&self, line: &str, theme: &ScreenTheme, width: usize) -> Vec<Line<'static>> {
        let indent = if width < NARROW { 0 } else { INDENT };
        let mut rows = wrap(&self.pieces(line, theme), width - indent, indent);
        for row in &mut rows {
            row.spans.insert(0, " ".repeat(indent).into());
        }
        rows
    }

    fn pieces(&self, line: &str, theme: &ScreenTheme) -> Vec<StyledText> {
        let whole = |role| vec![(line.to_owned(), theme.style(role))];
        match &self.syntax {
            CodeSyntax::Diff if line.starts_with('+') => whole(ThemeRole::Good),
            CodeSyntax::Diff if line.starts_with('-') => whole(ThemeRole::Bad),
            CodeSyntax::Diff | CodeSyntax::Unknown => whole(ThemeRole::Code),
            CodeSyntax::Known(language) => language.pieces(line, theme),
        }
    }
}

impl CodeLanguage {
    fn pieces(&self, line: &str, theme: &ScreenTheme) -> Vec<StyledText> {
        let code = theme.style(ThemeRole::Code);
        let mut pieces: Vec<StyledText> = Vec::new();
        let mut rest = line;
        let mut spaced = true;
        while let Some(first) = rest.chars().next() {
            let (length, style) = if spaced && rest.starts_with(self.comment) {
                (rest.len(), theme.style(ThemeRole::Faint))
            } else if let Some(length) = quoted(rest, first) {
                (length, theme.style(ThemeRole::Good))
            } else if is_word(first) {
                let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
                let known = is_among(&rest[..length], self.keywords);
                (
                    length,
                    if known {
                        code.add_modifier(Modifier::BOLD)
                    } else {
                        code
                    },
                )
            } else {
                (first.len_utf8(), code)
            };
            let (piece, after) = rest.split_at(length);
            match pieces.last_mut() {
                Some((last, known)) if *known == style => last.push_str(piece),
                Some(_) | None => pieces.push((piece.to_owned(), style)),
            }
            // A `#` inside a word begins no comment: `$#`, `C#`.
            spaced = !first.is_alphanumeric() && first != '$';
            rest = after;
        }
        pieces
    }
}

fn is_among(word: &str, words: &str) -> bool {
    words.split(' ').any(|known| known == word)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The length of the string at the beginning of a text, with its quotes. A single quote without a
/// partner soon after it is no string: it can begin a lifetime.
fn quoted(text: &str, quote: char) -> Option<usize> {
    if !matches!(quote, '"' | '\'' | '`') {
        return None;
    }
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '\\' if !escaped => escaped = true,
            _ if c == quote && !escaped => return Some(at + 1),
            ' ' | ',' | '>' | ')'
                if quote == '\'' && at > 1 && text[1..at].chars().all(is_word) =>
            {
                return None;
            }
            _ => escaped = false,
        }
    }
    None
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
    fn quotations_lists_and_lines_have_their_form() {
        let text = "> he said\n>> they *said*\n1. one that is long\n10) ten\n- [ ] open\n- [x] done\n---\nsnake_case_name 2*3*4";
        assert_eq!(
            shown(text, 18),
            [
                "▏ he said",
                "▏ > they said",
                "1. one that is",
                "   long",
                "10. ten",
                "☐ open",
                "☑ done",
                "──────────────────",
                "snake_case_name",
                "2*3*4",
            ]
        );
    }

    #[test]
    fn links_show_their_address_and_emphasis_is_a_style() {
        let text = "see [the *docs*](https://e.org/a) or <https://e.org>, [not] (this), a < b";
        assert_eq!(
            shown(text, 100),
            ["see the *docs* (https://e.org/a) or https://e.org, [not] (this), a < b"]
        );
        let rows = markdown("a *b* **c _d_** ~~e~~ `*f*` * g *", &theme(), 80);
        let found: Vec<(String, Modifier)> = rows[0]
            .spans
            .iter()
            .map(|span| (span.content.to_string(), span.style.add_modifier))
            .collect();
        let expected = [
            ("a ", Modifier::empty()),
            ("b", Modifier::ITALIC),
            (" ", Modifier::empty()),
            ("c ", Modifier::BOLD),
            ("d", Modifier::BOLD.union(Modifier::ITALIC)),
            (" ", Modifier::empty()),
            ("e", Modifier::CROSSED_OUT),
            (" ", Modifier::empty()),
            ("*f*", Modifier::empty()),
            (" * g *", Modifier::empty()),
        ];
        assert_eq!(
            found,
            expected.map(|(text, modifier)| (text.to_owned(), modifier))
        );
    }

    #[test]
    fn the_levels_of_headings_differ_without_colours() {
        let plain = ScreenTheme::chosen(crate::config::ThemeName::Dark, true);
        let rows = markdown("# a\n## b\n### c\n#d", &plain, 40);
        let styles: Vec<Modifier> = rows
            .iter()
            .map(|row| {
                row.spans
                    .last()
                    .map_or(Modifier::empty(), |span| span.style.add_modifier)
            })
            .collect();
        assert_eq!(
            styles,
            [
                Modifier::BOLD | Modifier::UNDERLINED,
                Modifier::BOLD,
                Modifier::UNDERLINED,
                Modifier::empty()
            ]
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
