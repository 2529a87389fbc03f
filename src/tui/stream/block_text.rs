//! The text under the first line of a block.

use ratatui::text::Line;

use super::BlockFold;
use crate::{
    present::{
        describe::{DetailKind, DetailText},
        text::{grouped, plural},
    },
    text::printed_lines,
    tui::{
        ansi::coloured_lines,
        diff,
        printed_rows::omitted_words,
        text::{plain_lines, wrap},
        theme::{ScreenTheme, ThemeRole},
    },
};

/// How many lines of a long output are visible before the user opens all of it.
const END: usize = 12;
/// Narrower text has a smaller indent, in columns.
const NARROW: usize = 40;

/// The title above the text, used if a block has more than one text.
const fn title(kind: DetailKind) -> &'static str {
    match kind {
        DetailKind::Change => "Changes",
        DetailKind::Arguments => "Arguments",
        DetailKind::Output => "Output",
        DetailKind::Words | DetailKind::Plan => "",
    }
}

/// In bytes.
pub(super) fn size(parts: &[DetailText]) -> usize {
    parts.iter().map(|part| part.text.len()).sum()
}

/// The rows of the texts, indented. Of a block that is open to its end, only the last lines of long
/// texts.
pub(super) fn quoted(
    parts: &[DetailText],
    fold: BlockFold,
    theme: &ScreenTheme,
    width: usize,
) -> Vec<Line<'static>> {
    let indent = if width < NARROW { 2 } else { 4 };
    let inner = width.saturating_sub(indent).max(1);
    let mut rows = Vec::new();
    for part in parts {
        if parts.len() > 1 && !title(part.kind).is_empty() {
            rows.extend(plain_lines(
                title(part.kind),
                theme.style(ThemeRole::Faint),
                inner,
            ));
        }
        rows.extend(match part.kind {
            DetailKind::Change => diff::lines(&part.text, theme, inner),
            DetailKind::Plan => part
                .text
                .lines()
                .flat_map(|entry| planned(entry, theme, inner))
                .collect(),
            DetailKind::Words | DetailKind::Arguments | DetailKind::Output => {
                output(part, fold, theme, inner)
            }
        });
    }
    for row in &mut rows {
        row.spans.insert(0, " ".repeat(indent).into());
    }
    rows
}

/// A text in its own colours.
fn output(
    part: &DetailText,
    fold: BlockFold,
    theme: &ScreenTheme,
    width: usize,
) -> Vec<Line<'static>> {
    let text = part.text.trim_end();
    let (before, text) = if fold == BlockFold::End {
        end_of(text)
    } else {
        (0, text)
    };
    let mut rows = Vec::new();
    if before > 0 {
        let note = format!("… {} more {}", grouped(before), plural(before, "line"));
        rows.extend(plain_lines(&note, theme.style(ThemeRole::Faint), width));
    }
    let lines = coloured_lines(text, theme.style(ThemeRole::Text), theme.keeps_colours);
    for line in lines {
        let omitted = omitted_words(&line).filter(|_| part.kind == DetailKind::Output);
        let line = omitted.map_or(line, |words| vec![(words, theme.style(ThemeRole::Faint))]);
        rows.extend(wrap(&line, width, 0));
    }
    rows
}

/// The last lines of a text, and how many were printed before them.
fn end_of(text: &str) -> (usize, &str) {
    let Some((cut, _)) = text.rmatch_indices('\n').nth(END - 1) else {
        return (0, text);
    };
    (printed_lines(&text[..=cut]), &text[cut + 1..])
}

/// An entry of a plan: active entries stand out, completed ones are faint.
fn planned(entry: &str, theme: &ScreenTheme, width: usize) -> Vec<Line<'static>> {
    let role = match entry.chars().next() {
        Some('▸') => ThemeRole::Accent,
        Some('☑') => ThemeRole::Faint,
        Some('✗') => ThemeRole::Bad,
        Some(_) | None => ThemeRole::Text,
    };
    plain_lines(entry, theme.style(role), width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_shown_from_its_end() {
        let text = (1..=20)
            .map(|n| n.to_string())
            .collect::<Vec<_>>()
            .join("\n");
        let (omitted, end) = end_of(&text);
        assert_eq!(
            (omitted, end.lines().count(), end.lines().next()),
            (8, 12, Some("9"))
        );
        assert_eq!(end_of("1\n2"), (0, "1\n2"));
        let twelve = (1..=12)
            .map(|n| n.to_string())
            .collect::<Vec<_>>()
            .join("\n");
        assert_eq!(end_of(&twelve).0, 0);
        assert_eq!(
            end_of(&format!("1\n[… 900 lines, 9 bytes left out …]\n{twelve}")).0,
            901
        );
    }
}
