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
}
