//! The stream pane: what happens, as it happens.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::Line,
    widgets::{Paragraph, Widget as _},
};

use crate::tui::{
    model::ScreenModel,
    theme::{ScreenTheme, ThemeRole},
};

pub fn draw(model: &ScreenModel, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
    if model.stream_lines.is_empty() {
        Line::styled("Nothing has happened yet.", theme.style(ThemeRole::Faint)).render(area, buffer);
        return;
    }
    Paragraph::new(model.stream_lines.clone()).render(area, buffer);
    if !model.query.is_empty() {
        mark_matches(&model.query.to_lowercase(), theme, area, buffer);
    }
}

/// Highlights the text that was searched for.
fn mark_matches(query: &str, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
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
