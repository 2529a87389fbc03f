//! The row of a replay with which the user moves through the session.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::{Line, Span},
    widgets::Widget as _,
};
use unicode_width::UnicodeWidthStr as _;

use crate::{
    present::text::time_with_seconds,
    tui::{
        model::{ScreenMode, ScreenModel},
        replay::ScrubberCell,
        theme::{ScreenTheme, ThemeRole},
    },
};

/// Columns and rows. A smaller screen needs its rows for the session.
const SMALLEST: (u16, u16) = (40, 12);

/// Whether a screen of this size has the row.
pub(super) fn is_shown(model: &ScreenModel, area: Rect) -> bool {
    let has_room = area.width >= SMALLEST.0 && area.height >= SMALLEST.1;
    has_room && matches!(model.link.mode, ScreenMode::Replay(_)) && model.session.is_some()
}

/// Where the cells are: behind the time of day.
fn track(model: &ScreenModel, area: Rect) -> Rect {
    let time = u16::try_from(time(model).width() + 3).unwrap_or(0);
    Rect {
        x: area.x + time,
        width: area.width.saturating_sub(time + 1),
        ..area
    }
}

fn time(model: &ScreenModel) -> String {
    time_with_seconds(model.moment(), &model.look.zone)
}

pub(super) fn draw(model: &ScreenModel, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
    let ScreenMode::Replay(player) = &model.link.mode else {
        return;
    };
    let cells = player.cells(usize::from(track(model, area).width));
    let cell = |cell: &ScrubberCell| match cell {
        ScrubberCell::Here => theme.span(ThemeRole::Key, "●"),
        ScrubberCell::Error => theme.span(ThemeRole::Bad, "✗"),
        ScrubberCell::Iteration => theme.span(ThemeRole::Heading, "┼"),
        ScrubberCell::Played => theme.span(ThemeRole::Accent, "━"),
        ScrubberCell::Ahead => theme.span(ThemeRole::Border, "─"),
    };
    let time = theme.span(ThemeRole::Text, format!(" {}  ", time(model)));
    let spans: Vec<Span<'_>> = [time].into_iter().chain(cells.iter().map(cell)).collect();
    Line::from(spans).render(area, buffer);
}

/// The position in the session of a column of the row.
pub fn position_at(model: &ScreenModel, column: u16, row: u16) -> Option<usize> {
    let area = super::places(model, model.area())?.hint_line;
    if area.height == 0 || row != area.y || !is_shown(model, model.area()) {
        return None;
    }
    let track = track(model, area);
    let ScreenMode::Replay(player) = &model.link.mode else {
        return None;
    };
    let cell = column.checked_sub(track.x)?;
    (cell < track.width).then(|| player.position_of(usize::from(cell), usize::from(track.width)))
}
