//! The stream pane: what happens, as it happens. The row under the cursor has a mark.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::Line,
    widgets::{Paragraph, Widget as _},
};

use crate::tui::{
    model::{Pane, ScreenModel},
    theme::{ScreenTheme, ThemeRole},
    view::MARGIN,
};

pub fn draw(model: &ScreenModel, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
    let text = Rect {
        x: area.x + MARGIN,
        width: area.width.saturating_sub(MARGIN),
        ..area
    };
    if model.stream_lines.is_empty() {
        Line::styled("Nothing has happened yet", theme.style(ThemeRole::Faint))
            .render(text, buffer);
        return;
    }
    for (line, y) in model.stream_lines.iter().zip(area.top()..area.bottom()) {
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
        .stream_places
        .iter()
        .position(|place| Some(*place) == model.stream_cursor);
    if let Some(y) = row
        .and_then(|row| u16::try_from(row).ok())
        .map(|row| area.y + row)
        && y < area.bottom()
    {
        let role = if model.focus == Pane::Stream {
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

/// Highlights the text that was searched for, which is in lower case.
pub fn mark_matches(query: &str, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
    for y in area.top()..area.bottom() {
        let mut row = String::new();
        let mut columns = Vec::new();
        for x in area.left()..area.right() {
            let symbol = buffer[(x, y)].symbol().to_lowercase();
            columns.extend(std::iter::repeat_n(x, symbol.len()));
            row.push_str(&symbol);
        }
        for (at, _) in row.match_indices(query) {
            for x in &columns[at..at + query.len()] {
                buffer[(*x, y)].set_style(theme.style(ThemeRole::Selected));
            }
        }
    }
}
