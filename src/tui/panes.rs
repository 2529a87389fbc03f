//! The panes: their counts, what they show without content, the stream, and the pending items. The
//! other panes have files of their own.

pub mod hooks;
pub mod retries;
pub mod tasks;

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::{Line, Span},
    widgets::{Paragraph, Widget as _},
};
use unicode_width::UnicodeWidthStr as _;

use crate::{
    engine::{
        SessionState,
        pending::{ItemState, PendingItem},
    },
    present::text::{counted, plain_line, short_size},
    tui::{
        keymap::TaskKey,
        modals::frame::mark_matches,
        model::{Pane, ScreenModel},
        text::fit,
        theme::{ScreenTheme, ThemeRole},
        view::facts,
    },
};

/// The columns before each row that show the cursor.
pub const MARGIN: u16 = 2;

/// What a click has hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClickedRow {
    Nothing,
    Chosen,
    /// It was selected already.
    Again,
}

/// The most important number of a pane.
pub fn count(model: &ScreenModel, pane: Pane) -> String {
    let state = model.session.as_ref();
    match pane {
        Pane::Stream => String::new(),
        Pane::Hooks => facts::hooks(model).unwrap_or_default(),
        Pane::Pending => state
            .map(|state| facts::pending(state).to_string())
            .unwrap_or_default(),
        Pane::Retries => state.and_then(facts::retries).unwrap_or_default(),
        Pane::Tasks => facts::tasks(model).unwrap_or_default(),
    }
}

/// The same with a few words, for its frame.
pub fn count_in_words(model: &ScreenModel, pane: Pane) -> String {
    match pane {
        Pane::Pending if model.session.is_some() => pending_words(model),
        Pane::Tasks => tasks::count(model),
        Pane::Retries => model
            .session
            .as_ref()
            .and_then(facts::retries_in_words)
            .unwrap_or_default(),
        Pane::Stream | Pane::Hooks | Pane::Pending => count(model, pane),
    }
}

/// How many rows a pane needs for its content. 0 if it has none.
pub fn wanted(model: &ScreenModel, pane: Pane) -> usize {
    match pane {
        Pane::Stream => usize::MAX,
        Pane::Hooks => hooks::wanted(model),
        Pane::Pending => pending_rows(model).len(),
        Pane::Retries => retries::wanted(model),
        Pane::Tasks => model.task_rows().map_or(0, |rows| {
            if model.has_tasks() {
                rows.len().max(1)
            } else {
                0
            }
        }),
    }
}

/// What would be in a pane without content, and how it gets there, as far as a width has room for
/// it.
pub fn empty(model: &ScreenModel, pane: Pane, width: usize) -> String {
    let dots = || model.session.as_ref().and_then(facts::retries);
    let texts = match pane {
        Pane::Stream => [
            "Nothing has happened yet".to_owned(),
            "Nothing yet".to_owned(),
        ],
        Pane::Hooks => [
            "No hooks. Add some under `hooks:` in creel.yaml".to_owned(),
            "No hooks. Add some under `hooks:`".to_owned(),
        ],
        Pane::Pending => [
            "Nothing to send. Hooks with `pipe_output: true` add items".to_owned(),
            "Nothing: no hook has piped output".to_owned(),
        ],
        Pane::Retries => match dots() {
            Some(dots) => [
                format!("{dots}  None in this iteration. A stop hook that blocks uses one"),
                format!("{dots}  None in this iteration"),
            ],
            None => ["Off (max_hook_retries: 0)".to_owned(), "Off".to_owned()],
        },
        Pane::Tasks if model.is_steered() => {
            let key = model.look.keymap.key(TaskKey::Add);
            [
                format!("No tasks. Press {key} to add one"),
                format!("None. {key} adds one"),
            ]
        }
        Pane::Tasks => ["No tasks".to_owned(), "None".to_owned()],
    };
    let [long, short] = texts;
    if long.width() <= width {
        long
    } else {
        fit(&short, width)
    }
}

/// The row with the cursor in front of it, if it is selected. In the focused pane the whole row
/// stands out.
pub(super) fn with_cursor(
    spans: Vec<Span<'static>>,
    selected: bool,
    focused: bool,
    theme: &ScreenTheme,
) -> Line<'static> {
    let sign = if selected { "▌ " } else { "  " };
    let role = if focused {
        ThemeRole::BorderFocused
    } else {
        ThemeRole::Border
    };
    let mut line = Line::from(vec![theme.span(role, sign)]);
    line.spans.extend(spans);
    if selected && focused {
        theme.selected(line)
    } else {
        line
    }
}

/// The first visible row of a list, so that the selected one is visible.
pub(super) fn first_row(chosen: usize, area: Rect) -> usize {
    (chosen + 1).saturating_sub(usize::from(area.height))
}

/// The number of pending items, and of items that the agent works with.
fn pending_words(model: &ScreenModel) -> String {
    let Some(state) = &model.session else {
        return String::new();
    };
    let with_agent = state
        .pending
        .items()
        .iter()
        .filter(|item| item.state == ItemState::InFlight)
        .count();
    let held = counted(state.pending.waiting().count(), "item");
    let delivered = delivered(state.pending.items());
    let delivered = if delivered > 1 {
        format!(" · {delivered} delivered")
    } else {
        String::new()
    };
    if with_agent == 0 {
        held + &delivered
    } else {
        format!("{held}, {with_agent} with the agent{delivered}")
    }
}

fn delivered(items: &[PendingItem]) -> usize {
    items
        .iter()
        .filter(|item| item.state == ItemState::Delivered)
        .count()
}

/// A row of the pending pane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PendingRow {
    /// All delivered items in one row: how many there are.
    Delivered(usize),
    /// The item with this place in the list.
    Item(usize),
}

/// The rows of the pending pane. Several delivered items share one, unless the user has opened it.
pub fn pending_rows(model: &ScreenModel) -> Vec<PendingRow> {
    let Some(state) = &model.session else {
        return Vec::new();
    };
    let items = state.pending.items();
    let delivered = delivered(items);
    let folds = delivered > 1;
    let is_shown = |item: &PendingItem| {
        !folds || model.panes.shows_delivered || item.state != ItemState::Delivered
    };
    let head = folds.then_some(PendingRow::Delivered(delivered));
    let shown = items.iter().enumerate().filter(|(_, item)| is_shown(item));
    head.into_iter()
        .chain(shown.map(|(n, _)| PendingRow::Item(n)))
        .collect()
}

/// The selected row of the pending pane.
pub fn pending_row(model: &ScreenModel) -> Option<PendingRow> {
    let rows = pending_rows(model);
    rows.get(model.panes.item.min(rows.len().saturating_sub(1)))
        .copied()
}

/// The longest name of a hook, in columns.
const NAME: usize = 24;

pub fn draw_pending(model: &ScreenModel, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
    let Some(state) = model
        .session
        .as_ref()
        .filter(|state| !state.pending.items().is_empty())
    else {
        let text = empty(model, Pane::Pending, usize::from(area.width));
        theme.line(ThemeRole::Faint, text).render(area, buffer);
        return;
    };
    let items = state.pending.items();
    let all = pending_rows(model);
    let height = usize::from(area.height);
    let focused = model.panes.focus == Pane::Pending;
    let first = first_item(model, all.len(), area);
    let chosen = model.panes.item.min(all.len().saturating_sub(1));
    let rows = || all.iter().skip(first).take(height);
    let in_view = || {
        rows().filter_map(|row| match row {
            PendingRow::Item(n) => items.get(*n),
            PendingRow::Delivered(_) => None,
        })
    };
    let columns = ItemColumns {
        names: in_view()
            .map(|item| item_name(item).width())
            .max()
            .unwrap_or(0),
        sizes: in_view()
            .map(|item| item_size(item).width())
            .max()
            .unwrap_or(0),
        width: usize::from(area.width),
    };
    let lines = rows().enumerate().map(|(n, row)| {
        let spans = match row {
            PendingRow::Delivered(count) => {
                let sign = if model.panes.shows_delivered {
                    "▾"
                } else {
                    "▸"
                };
                vec![
                    theme.span(ThemeRole::Good, "✓ "),
                    theme.span(ThemeRole::Text, format!("{sign} {count} delivered")),
                ]
            }
            PendingRow::Item(item) => items
                .get(*item)
                .map(|item| columns.row(state, item, theme))
                .unwrap_or_default(),
        };
        with_cursor(spans, first + n == chosen, focused, theme)
    });
    Paragraph::new(lines.collect::<Vec<_>>()).render(area, buffer);
}

fn item_name(item: &PendingItem) -> String {
    plain_line(&item.source.hook, NAME)
}

/// Items that wait are at the end, so the end is visible unless the user has selected something
/// else.
fn first_item(model: &ScreenModel, count: usize, area: Rect) -> usize {
    let last = if model.panes.focus == Pane::Pending {
        model.panes.item
    } else {
        count.saturating_sub(1)
    };
    first_row(last, area)
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
        let name = item_name(item);
        let pad = " ".repeat(self.names.saturating_sub(name.width()));
        let edited = if item.edited { " · edited" } else { "" };
        let head = format!(
            "{sign} {name}{pad}  {:>sizes$}  ",
            item_size(item),
            sizes = self.sizes
        );
        let room = self.width.saturating_sub(2 + head.width());
        let long = format!("{when}{edited}");
        let text = if long.width() <= room {
            long
        } else {
            format!("{}{edited}", when.trim_start_matches("for the "))
        };
        vec![theme.span(role, head), theme.span(role, fit(&text, room))]
    }
}

/// The size of an item. The text of a delivered one is not kept.
fn item_size(item: &PendingItem) -> String {
    if item.text.is_empty() {
        String::new()
    } else {
        short_size(item.text.len() as u64)
    }
}

/// The item at a row of the pane. Call this before the click focuses the pane, because that moves
/// the rows.
pub fn item_at(model: &ScreenModel, area: Rect, nth: usize) -> Option<usize> {
    let count = pending_rows(model).len();
    let chosen = first_item(model, count, area) + nth;
    (nth < usize::from(area.height) && chosen < count).then_some(chosen)
}

pub fn draw_stream(model: &ScreenModel, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
    let text = Rect {
        x: area.x + MARGIN,
        width: area.width.saturating_sub(MARGIN),
        ..area
    };
    if model.frame.lines.is_empty() {
        theme
            .line(ThemeRole::Faint, "Nothing has happened yet")
            .render(text, buffer);
        return;
    }
    for (line, y) in model.frame.lines.iter().zip(area.top()..area.bottom()) {
        Paragraph::new(line.clone()).render(
            Rect {
                y,
                height: 1,
                ..text
            },
            buffer,
        );
    }
    let row = model
        .frame
        .places
        .iter()
        .position(|place| Some(*place) == model.frame.cursor);
    if let Some(y) = row
        .and_then(|row| u16::try_from(row).ok())
        .map(|row| area.y + row)
        && y < area.bottom()
    {
        let role = if model.panes.focus == Pane::Stream {
            ThemeRole::BorderFocused
        } else {
            ThemeRole::Border
        };
        buffer.set_string(area.x, y, "▌", theme.style(role));
    }
    if !model.query.is_empty() {
        mark_matches(&model.query.to_lowercase(), theme, text, buffer);
    }
}
