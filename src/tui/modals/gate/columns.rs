//! The columns of a gate: the pending items beside the text of one of them, or the last feedbacks.

use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
    text::Line,
    widgets::{Paragraph, Widget as _},
};

use super::{GateModal, ItemMark};
use crate::{
    present::text::plain_line,
    tui::{
        model::{RetryAttempt, ScreenModel},
        text::{fit, plain_lines},
        theme::{ScreenTheme, ThemeRole},
    },
};

impl GateModal {
    /// Draws the items, one per line.
    pub(super) fn draw_items(&self, model: &ScreenModel, theme: &ScreenTheme, buffer: &mut Buffer) {
        let Some(state) = &model.session else { return };
        let left = self.layout.list;
        let first = self.first_item();
        let rows = self.items.iter().enumerate().skip(first).take(usize::from(left.height));
        let lines: Vec<Line<'_>> = rows
            .map(|(n, (id, mark))| {
                let source = state.pending.get(*id).map(|item| plain_line(&item.source.hook, 60)).unwrap_or_default();
                let edited = if state.pending.get(*id).is_some_and(|item| item.edited) { "~" } else { " " };
                let (mark, skipped, role) = match mark {
                    ItemMark::Approved => ("[x]", "", ThemeRole::Text),
                    ItemMark::LeftOut => ("[ ]", "", ThemeRole::Text),
                    ItemMark::Skipped => ("[ ]", "skipped · ", ThemeRole::Faint),
                };
                let text =
                    fit(&format!("{mark}{edited}{id} {skipped}{source}"), usize::from(left.width.saturating_sub(1)));
                let role = if n == self.item { ThemeRole::Selected } else { role };
                Line::styled(text, theme.style(role))
            })
            .collect();
        Paragraph::new(lines).render(left, buffer);
    }

    /// Draws the last feedbacks side by side, so that the user sees whether anything changes.
    pub(super) fn draw_attempts(&self, columns: &[AttemptColumn], theme: &ScreenTheme, buffer: &mut Buffer) {
        for column in columns {
            let mut lines = vec![Line::styled(column.head.as_str(), theme.style(ThemeRole::Warning))];
            lines.extend(column.lines.iter().skip(self.scroll).cloned());
            Paragraph::new(lines).render(column.area, buffer);
        }
    }
}

/// One feedback among others.
#[derive(Debug)]
pub(super) struct AttemptColumn {
    pub(super) area: Rect,
    pub(super) head: String,
    pub(super) lines: Vec<Line<'static>>,
}

/// The last feedbacks that fit side by side.
pub(super) fn attempt_columns(attempts: &[RetryAttempt], theme: &ScreenTheme, area: Rect) -> Vec<AttemptColumn> {
    let shown = attempts_shown(attempts, area.width);
    if shown == 0 || area.height < 2 {
        return Vec::new();
    }
    let areas = Layout::horizontal(vec![Constraint::Fill(1); shown]).spacing(1).split(area);
    let shown = &attempts[attempts.len() - shown..];
    let column = |(attempt, area): (&RetryAttempt, &Rect)| {
        let same = if attempt.no_progress { " · same as before" } else { "" };
        let width = usize::from(area.width);
        AttemptColumn {
            area: *area,
            head: fit(&format!("retry {}{same}", attempt.used), width),
            lines: plain_lines(&attempt.feedback, theme.style(ThemeRole::Text), width),
        }
    };
    shown.iter().zip(areas.iter()).map(column).collect()
}

/// How many feedbacks fit side by side.
pub(super) fn attempts_shown(attempts: &[RetryAttempt], width: u16) -> usize {
    attempts.len().min(if width >= 90 { 3 } else { 2 })
}
