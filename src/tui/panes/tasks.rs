//! The tasks: a place for what is to be done.

use ratatui::{buffer::Buffer, layout::Rect, text::Line, widgets::Widget as _};

use crate::tui::{
    model::Model,
    text::fit,
    theme::{Role, Theme},
};

/// Draws the pane.
pub fn draw(model: &Model, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let completed = model.session.as_ref().map_or(0, |state| state.side.completed.len());
    let text = match completed {
        0 => "No task was completed yet.".into(),
        1 => "1 task completed".into(),
        n => format!("{n} tasks completed"),
    };
    Line::styled(fit(&text, usize::from(area.width)), theme.style(Role::Faint)).render(area, buffer);
}
