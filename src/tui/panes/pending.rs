//! The pending pane: output that waits for the agent, in the order of delivery, with when creel
//! sends it.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::{Line, Span},
    widgets::{Paragraph, Widget as _},
};
use unicode_width::UnicodeWidthStr as _;

use super::with_cursor;
use crate::{
    engine::{
        SessionState,
        pending::{ItemState, PendingItem},
    },
    present::text::{plain_line, short_size},
    tui::{
        model::{Pane, ScreenModel},
        text::fit,
        theme::{ScreenTheme, ThemeRole},
    },
};

/// The longest name of a hook, in columns.
const NAME: usize = 24;

pub fn draw(model: &ScreenModel, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
    let Some(state) = model
        .session
        .as_ref()
        .filter(|state| !state.pending.items().is_empty())
    else {
        let text = super::empty(model, Pane::Pending, usize::from(area.width));
        Line::styled(text, theme.style(ThemeRole::Faint)).render(area, buffer);
        return;
    };
    let items = state.pending.items();
    let height = usize::from(area.height);
    let focused = model.focus == Pane::Pending;
    let first = first_row(model, items.len(), area);
    let in_sight = || items.iter().skip(first).take(height);
    let columns = ItemColumns {
        names: in_sight().map(|item| name(item).width()).max().unwrap_or(0),
        sizes: in_sight().map(|item| size(item).width()).max().unwrap_or(0),
        width: usize::from(area.width),
    };
    let rows = items
        .iter()
        .enumerate()
        .skip(first)
        .take(height)
        .map(|(n, item)| {
            let spans = columns.row(state, item, theme);
            with_cursor(spans, n == model.chosen_item, focused, theme)
        });
    Paragraph::new(rows.collect::<Vec<_>>()).render(area, buffer);
}

fn name(item: &PendingItem) -> String {
    plain_line(&item.source.hook, NAME)
}

/// Items that wait are at the end, so the end is visible unless the user has selected something
/// else.
fn first_row(model: &ScreenModel, count: usize, area: Rect) -> usize {
    let last = if model.focus == Pane::Pending {
        model.chosen_item
    } else {
        count.saturating_sub(1)
    };
    super::first_row(last, area)
}

/// What all rows have in common, in columns.
struct ItemColumns {
    names: usize,
    sizes: usize,
    width: usize,
}

impl ItemColumns {
    fn row(
        &self,
        state: &SessionState,
        item: &PendingItem,
        theme: &ScreenTheme,
    ) -> Vec<Span<'static>> {
        let (sign, role, when) = match item.state {
            ItemState::Pending if state.ending.is_some() => {
                ("☑", ThemeRole::Text, "for the final delivery")
            }
            ItemState::Pending => ("☑", ThemeRole::Text, "for the next prompt"),
            ItemState::InFlight => ("→", ThemeRole::Accent, "with the agent"),
            ItemState::Skipped => ("☐", ThemeRole::Warning, "skipped"),
            ItemState::Delivered => ("✓", ThemeRole::Good, "delivered"),
        };
        let name = name(item);
        let pad = " ".repeat(self.names.saturating_sub(name.width()));
        let edited = if item.edited { " · edited" } else { "" };
        let head = format!(
            "{sign} {name}{pad}  {:>sizes$}  ",
            size(item),
            sizes = self.sizes
        );
        let room = self.width.saturating_sub(2 + head.width());
        let long = format!("{when}{edited}");
        let text = if long.width() <= room {
            long
        } else {
            format!("{}{edited}", when.trim_start_matches("for the "))
        };
        vec![
            Span::styled(head, theme.style(role)),
            Span::styled(fit(&text, room), theme.style(role)),
        ]
    }
}

/// The size of an item. The text of a delivered one is not kept.
fn size(item: &PendingItem) -> String {
    if item.text.is_empty() {
        String::new()
    } else {
        short_size(item.text.len() as u64)
    }
}

/// The item at a row of the pane. Call this before the click focuses the pane, because that moves
/// the rows.
pub fn row_at(model: &ScreenModel, area: Rect, nth: usize) -> Option<usize> {
    let count = model
        .session
        .as_ref()
        .map_or(0, |state| state.pending.items().len());
    let chosen = first_row(model, count, area) + nth;
    (nth < usize::from(area.height) && chosen < count).then_some(chosen)
}
