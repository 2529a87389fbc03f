//! The whole session in the frame of the stream, one cell per step.

use ratatui::{buffer::Buffer, layout::Rect, style::Modifier};
use unicode_width::UnicodeWidthStr as _;

use super::layout::{ScreenLayout, has_tabs};
use crate::{
    engine::time::TimeSpan,
    present::text::short_span,
    tui::{
        model::{Pane, ScreenModel, ShownTimeline},
        stream::StreamPosition,
        theme::{ScreenTheme, ThemeRole},
    },
};

/// In columns. With less room, a row of signs says nothing.
const NARROWEST: u16 = 8;
/// The shortest time that is shown.
const SHORTEST: TimeSpan = TimeSpan(60_000);

/// The cells for the stream's frame, if the stream is visible and has steps.
pub(super) fn of(model: &mut ScreenModel, places: &ScreenLayout) -> Option<ShownTimeline> {
    if !model.stream.has_timeline() {
        return None;
    }
    let stream = places.panes.iter().find(|(pane, _)| *pane == Pane::Stream);
    let frame = stream
        .map(|(_, rect)| *rect)
        .filter(|rect| rect.height > 1)?;
    let took = took(model);
    // `╭ 1 Stream ─ 3h 12m ─ ✓✓✗…`, with a part of the frame on the right.
    let title = if has_tabs(model) { 0 } else { 10 };
    let before = 2 + title + if took.is_empty() { 0 } else { took.width() + 3 };
    let before = u16::try_from(before).unwrap_or(u16::MAX);
    let width = frame.width.saturating_sub(before + 4);
    if width < NARROWEST {
        return None;
    }
    let cells = model.stream.timeline(usize::from(width));
    let here = match model.stream.position() {
        StreamPosition::Follow => None,
        StreamPosition::At { block, .. } => {
            let at = model.frame.cursor.map_or(block, |cursor| cursor.block);
            let after = cells.partition_point(|cell| cell.block <= at);
            Some(after.saturating_sub(1))
        }
    };
    let place = Rect {
        x: frame.x + before,
        y: frame.y,
        width: u16::try_from(cells.len()).unwrap_or(width),
        height: 1,
    };
    Some(ShownTimeline {
        place,
        cells,
        took,
        here,
    })
}

/// How long the session has run, without seconds.
fn took(model: &ScreenModel) -> String {
    let Some(state) = model
        .session
        .as_ref()
        .filter(|state| state.phase.outcome().is_none())
    else {
        return String::new();
    };
    // At a gate and while paused, nothing moves.
    let whole = model.last_moved().since(state.started);
    let run = TimeSpan(whole.0.saturating_sub(model.tallies.times.idle().0));
    if run < SHORTEST {
        return String::new();
    }
    let text = short_span(run);
    match text.split_once("m ") {
        Some((minutes, _)) => format!("{minutes}m"),
        None => text,
    }
}

/// Draws the cells over the upper line of the stream's frame.
pub(super) fn draw(model: &ScreenModel, theme: &ScreenTheme, buffer: &mut Buffer) {
    let Some(timeline) = &model.frame.timeline else {
        return;
    };
    let ShownTimeline {
        place,
        cells,
        took,
        here,
    } = timeline;
    let y = place.y;
    if !took.is_empty() {
        let width = u16::try_from(took.width() + 2).unwrap_or(0);
        let x = place.x.saturating_sub(width + 2);
        buffer.set_string(x, y, format!(" {took} "), theme.style(ThemeRole::Text));
    }
    buffer.set_string(
        place.x.saturating_sub(1),
        y,
        " ",
        theme.style(ThemeRole::Text),
    );
    buffer.set_string(place.right(), y, " ", theme.style(ThemeRole::Text));
    for (n, cell) in cells.iter().enumerate() {
        let Ok(column) = u16::try_from(n) else { break };
        let style = theme.style(cell.mark.role());
        let style = if *here == Some(n) {
            style.add_modifier(Modifier::UNDERLINED | Modifier::BOLD)
        } else {
            style
        };
        buffer.set_string(place.x + column, y, cell.mark.sign(), style);
    }
}

/// The block of the step at a screen position.
pub fn block_at(model: &ScreenModel, column: u16, row: u16) -> Option<usize> {
    let timeline = model.frame.timeline.as_ref()?;
    let place = timeline.place;
    if !place.contains((column, row).into()) {
        return None;
    }
    let cell = timeline.cells.get(usize::from(column - place.x))?;
    Some(cell.block)
}
