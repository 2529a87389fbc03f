//! The text under the line of a block: what it is, and how it looks.

use ratatui::text::Line;

use crate::tui::{
    diff,
    text::plain_lines,
    theme::{ScreenTheme, ThemeRole},
};

/// A stretch of a block's text.
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

/// What a stretch of text is, and so how it looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockTextKind {
    /// Words, of the agent or of a hook.
    Words,
    /// A diff.
    Change,
    /// The arguments of a tool call.
    Arguments,
    /// What a tool printed.
    Output,
    /// The entries of a plan.
    Plan,
}

impl BlockTextKind {
    /// What stands over it, where there is more than one kind of text.
    const fn title(self) -> &'static str {
        match self {
            Self::Change => "changes",
            Self::Arguments => "arguments",
            Self::Output => "output",
            Self::Words | Self::Plan => "",
        }
    }
}

/// How much text it is.
pub(super) fn size(parts: &[BlockText]) -> usize {
    parts.iter().map(|part| part.text.len()).sum()
}

/// The rows of a text that belongs to a line above it.
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

/// An entry of a plan: what is being done stands out, what is done steps back.
fn planned(entry: &str, theme: &ScreenTheme, width: usize) -> Vec<Line<'static>> {
    let role = match entry.chars().next() {
        Some('▸') => ThemeRole::Accent,
        Some('☑') => ThemeRole::Faint,
        Some('✗') => ThemeRole::Bad,
        Some(_) | None => ThemeRole::Text,
    };
    plain_lines(entry, theme.style(role), width)
}
