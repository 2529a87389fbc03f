//! The stream: what happens, as it happens.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::Line,
    widgets::{Paragraph, Widget as _},
};

use crate::tui::{
    model::Model,
    theme::{Role, Theme},
};

/// Draws the lines that are in sight.
pub fn draw(model: &Model, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    if model.stream_lines.is_empty() {
        Line::styled("Nothing has happened yet.", theme.style(Role::Faint)).render(area, buffer);
        return;
    }
    Paragraph::new(model.stream_lines.clone()).render(area, buffer);
    if !model.query.is_empty() {
        mark_matches(&model.query.to_lowercase(), theme, area, buffer);
    }
}

/// Shows where the text that was searched for stands.
fn mark_matches(query: &str, theme: &Theme, area: Rect, buffer: &mut Buffer) {
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
                buffer[(*x, y)].set_style(theme.style(Role::Selected));
            }
        }
    }
}
