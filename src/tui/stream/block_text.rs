//! The text under the first line of a block.

use ratatui::text::Line;

use crate::tui::{
    diff,
    text::plain_lines,
    theme::{ScreenTheme, ThemeRole},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BlockText {
    pub(super) look: BlockTextKind,
    pub(super) text: String,
}

impl BlockText {
    pub(super) fn words(text: impl Into<String>) -> Self {
        Self { look: BlockTextKind::Words, text: text.into() }
    }
}

/// The kind of a text, which decides its style.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockTextKind {
    /// Of the agent or of a hook.
    Words,
    Change,
    Arguments,
    Output,
    Plan,
}

impl BlockTextKind {
    /// The title above the text, used if a block has more than one text.
    const fn title(self) -> &'static str {
        match self {
            Self::Change => "changes",
            Self::Arguments => "arguments",
            Self::Output => "output",
            Self::Words | Self::Plan => "",
        }
    }
}

/// In bytes.
pub(super) fn size(parts: &[BlockText]) -> usize {
    parts.iter().map(|part| part.text.len()).sum()
}

/// The rows of the texts, with a bar on their left.
pub(super) fn quoted(parts: &[BlockText], theme: &ScreenTheme, width: usize) -> Vec<Line<'static>> {
    let inner = width.saturating_sub(2).max(1);
    let mut rows = Vec::new();
    for part in parts {
        if parts.len() > 1 && !part.look.title().is_empty() {
            rows.extend(plain_lines(part.look.title(), theme.style(ThemeRole::Accent), inner));
        }
        rows.extend(match part.look {
            BlockTextKind::Change => diff::lines(&part.text, theme, inner),
            BlockTextKind::Plan => part.text.lines().flat_map(|entry| planned(entry, theme, inner)).collect(),
            BlockTextKind::Words | BlockTextKind::Arguments | BlockTextKind::Output => {
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
