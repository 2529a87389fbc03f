//! The text under the line of a block: what it is, and how it looks.

use ratatui::text::Line;

use crate::tui::{
    diff,
    text::plain_lines,
    theme::{Role, Theme},
};

/// A stretch of a block's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) look: Look,
    pub(super) text: String,
}

impl Part {
    pub(super) fn words(text: impl Into<String>) -> Self {
        Self { look: Look::Words, text: text.into() }
    }
}

/// What a stretch of text is, and so how it looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
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

impl Look {
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
pub(super) fn size(parts: &[Part]) -> usize {
    parts.iter().map(|part| part.text.len()).sum()
}

/// The rows of a text that belongs to a line above it.
pub(super) fn quoted(parts: &[Part], theme: &Theme, width: usize) -> Vec<Line<'static>> {
    let inner = width.saturating_sub(2).max(1);
    let mut rows = Vec::new();
    for part in parts {
        if parts.len() > 1 && !part.look.title().is_empty() {
            rows.extend(plain_lines(part.look.title(), theme.style(Role::Accent), inner));
        }
        rows.extend(match part.look {
            Look::Change => diff::lines(&part.text, theme, inner),
            Look::Plan => part.text.lines().flat_map(|entry| planned(entry, theme, inner)).collect(),
            Look::Words | Look::Arguments | Look::Output => plain_lines(&part.text, theme.style(Role::Faint), inner),
        });
    }
    for row in &mut rows {
        row.spans.insert(0, "│ ".into());
    }
    rows
}

/// An entry of a plan: what is being done stands out, what is done steps back.
fn planned(entry: &str, theme: &Theme, width: usize) -> Vec<Line<'static>> {
    let role = match entry.chars().next() {
        Some('▸') => Role::Accent,
        Some('☑') => Role::Faint,
        Some('✗') => Role::Bad,
        Some(_) | None => Role::Text,
    };
    plain_lines(entry, theme.style(role), width)
}
