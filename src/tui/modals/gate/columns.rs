//! The columns of a gate: the pending items beside the text of one of them, or the last feedbacks.

use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
    text::Line,
    widgets::{Paragraph, Widget as _},
};

use super::{GateModal, ItemMark};
use crate::{
    present::text::{first_line, plain},
    tui::{
        model::{RetryAttempt, ScreenModel},
        text::{fit, plain_lines},
        theme::{ScreenTheme, ThemeRole},
    },
};

impl GateModal {
    /// Draws the items, and the text of the selected one.
    pub(super) fn draw_items(&mut self, model: &ScreenModel, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
        let Some(state) = &model.session else { return };
        let list_width = (area.width / 3).clamp(12, 40).min(area.width);
        let [left, right] = Layout::horizontal([Constraint::Length(list_width), Constraint::Min(1)]).areas(area);
        self.list = left;
        let first = self.first_item();
        let rows = self.items.iter().enumerate().skip(first).take(usize::from(left.height));
        let lines: Vec<Line<'_>> = rows
            .map(|(n, (id, mark))| {
                let source =
                    state.pending.get(*id).map(|item| first_line(&plain(&item.source.hook), 60)).unwrap_or_default();
                let edited = if state.pending.get(*id).is_some_and(|item| item.edited) { "~" } else { " " };
                let (mark, skipped, role) = match mark {
                    ItemMark::Approved => ("[x]", "", ThemeRole::Text),
                    ItemMark::LeftOut => ("[ ]", "", ThemeRole::Text),
                    ItemMark::Skipped => ("[ ]", "skipped · ", ThemeRole::Faint),
                };
                let text = fit(&format!("{mark}{edited}{id} {skipped}{source}"), usize::from(left.width) - 1);
                let role = if n == self.item { ThemeRole::Selected } else { role };
                Line::styled(text, theme.style(role))
            })
            .collect();
        Paragraph::new(lines).render(left, buffer);
        if let Some(item) = self.items.get(self.item).and_then(|(id, _)| state.pending.get(*id)) {
            let text = plain_lines(&item.text, theme.style(ThemeRole::Text), usize::from(right.width));
            self.stop_at_the_end(text.len(), right.height);
            let shown: Vec<Line<'_>> = text.into_iter().skip(self.scroll).collect();
            Paragraph::new(shown).render(right, buffer);
        }
    }

    /// Draws the last feedbacks side by side, so that the user sees whether anything changes.
    pub(super) fn draw_attempts(
        &mut self,
        attempts: &[RetryAttempt],
        theme: &ScreenTheme,
        area: Rect,
        buffer: &mut Buffer,
    ) {
        let shown = attempts_shown(attempts, area.width);
        if shown == 0 || area.height < 2 {
            return;
        }
        let columns = Layout::horizontal(vec![Constraint::Fill(1); shown]).spacing(1).split(area);
        let shown = &attempts[attempts.len() - shown..];
        let text = |attempt: &RetryAttempt, column: &Rect| {
            plain_lines(&attempt.feedback, theme.style(ThemeRole::Text), usize::from(column.width))
        };
        let texts: Vec<_> = shown.iter().zip(columns.iter()).map(|(attempt, column)| text(attempt, column)).collect();
        self.stop_at_the_end(texts.iter().map(Vec::len).max().unwrap_or(0) + 1, area.height);
        for ((attempt, column), text) in shown.iter().zip(columns.iter()).zip(texts) {
            let same = if attempt.no_progress { " · same as before" } else { "" };
            let head = fit(&format!("retry {}{same}", attempt.used), usize::from(column.width));
            let mut lines = vec![Line::styled(head, theme.style(ThemeRole::Warning))];
            lines.extend(text.into_iter().skip(self.scroll));
            Paragraph::new(lines).render(*column, buffer);
        }
    }
}

/// How many feedbacks fit side by side.
pub(super) fn attempts_shown(attempts: &[RetryAttempt], width: u16) -> usize {
    attempts.len().min(if width >= 90 { 3 } else { 2 })
}
