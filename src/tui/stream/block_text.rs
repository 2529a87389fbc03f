//! The text under the first line of a block.

use ratatui::text::Line;

use crate::{
    present::describe::{DetailKind, DetailText},
    tui::{
        diff,
        text::plain_lines,
        theme::{ScreenTheme, ThemeRole},
    },
};

/// The title above the text, used if a block has more than one text.
const fn title(kind: DetailKind) -> &'static str {
    match kind {
        DetailKind::Change => "changes",
        DetailKind::Arguments => "arguments",
        DetailKind::Output => "output",
        DetailKind::Words | DetailKind::Plan => "",
    }
}

/// In bytes.
pub(super) fn size(parts: &[DetailText]) -> usize {
    parts.iter().map(|part| part.text.len()).sum()
}

/// The rows of the texts, with a bar on their left.
pub(super) fn quoted(parts: &[DetailText], theme: &ScreenTheme, width: usize) -> Vec<Line<'static>> {
    let inner = width.saturating_sub(2).max(1);
    let mut rows = Vec::new();
    for part in parts {
        if parts.len() > 1 && !title(part.kind).is_empty() {
            rows.extend(plain_lines(title(part.kind), theme.style(ThemeRole::Accent), inner));
        }
        rows.extend(match part.kind {
            DetailKind::Change => diff::lines(&part.text, theme, inner),
            DetailKind::Plan => part.text.lines().flat_map(|entry| planned(entry, theme, inner)).collect(),
            DetailKind::Words | DetailKind::Arguments | DetailKind::Output => {
                plain_lines(&part.text, theme.style(ThemeRole::Faint), inner)
            }
        });
    }
    for row in &mut rows {
        row.spans.insert(0, "│ ".into());
    }
    rows
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
