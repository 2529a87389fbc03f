//! The pending pane: output that waits for the agent, in order.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::Line,
    widgets::{Paragraph, Widget as _},
};

use crate::{
    engine::pending::{ItemState, PendingItem},
    present::text::{counted, plain},
    tui::{
        model::{Pane, ScreenModel},
        text::fit,
        theme::{ScreenTheme, ThemeRole},
    },
};

pub fn draw(model: &ScreenModel, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
    let items = model.session.as_ref().map_or(&[][..], |state| state.pending.items());
    if items.is_empty() {
        Line::styled("No pending items.", theme.style(ThemeRole::Faint)).render(area, buffer);
        return;
    }
    let height = usize::from(area.height);
    let focused = model.focus == Pane::Pending;
    let first = first_row(model, items.len(), height);
    let lines: Vec<Line<'_>> = items
        .iter()
        .enumerate()
        .skip(first)
        .take(height)
        .map(|(n, item)| {
            let (text, role) = row(item);
            let role = if focused && n == model.chosen_item { ThemeRole::Selected } else { role };
            Line::styled(fit(&text, usize::from(area.width)), theme.style(role))
        })
        .collect();
    Paragraph::new(lines).render(area, buffer);
}

/// Items that wait are at the end, so the end is visible unless the user has selected something else.
fn first_row(model: &ScreenModel, count: usize, height: usize) -> usize {
    let last = if model.focus == Pane::Pending { model.chosen_item } else { count.saturating_sub(1) };
    (last + 1).saturating_sub(height)
}

fn row(item: &PendingItem) -> (String, ThemeRole) {
    let (state, role) = match item.state {
        ItemState::Pending => ("● pending", ThemeRole::Warning),
        ItemState::InFlight => ("→ with the agent", ThemeRole::Accent),
        ItemState::Skipped => ("○ skipped", ThemeRole::Faint),
        ItemState::Delivered => ("✓ delivered", ThemeRole::Good),
    };
    let edited = if item.edited { " · edited" } else { "" };
    let size = if item.text.is_empty() { String::new() } else { format!(" · {}", counted(item.text.len(), "byte")) };
    let source = &item.source;
    let iteration = if source.iteration == 0 { String::new() } else { format!(" · iteration {}", source.iteration) };
    let text = format!("{} {state}{size}{edited} · {} {}{iteration}", item.id, source.point, plain(&source.hook));
    (text, role)
}

fn item_at(model: &ScreenModel, area: Rect, nth: usize) -> Option<usize> {
    let count = model.session.as_ref().map_or(0, |state| state.pending.items().len());
    let chosen = first_row(model, count, usize::from(area.height)) + nth;
    (nth < usize::from(area.height) && chosen < count).then_some(chosen)
}

/// Selects the clicked row. Call this before the click focuses the pane, because that moves the rows.
pub fn choose(model: &mut ScreenModel, area: Rect, nth: usize) {
    if let Some(chosen) = item_at(model, area, nth) {
        model.chosen_item = chosen;
    }
}
