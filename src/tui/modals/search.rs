//! The search line.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::{Line, Span},
    widgets::{Clear, Widget as _},
};

use crate::tui::theme::{ScreenTheme, ThemeRole};

#[derive(Debug, Default)]
pub struct SearchModal {
    pub query: String,
}

impl SearchModal {
    pub fn draw(&self, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
        let line = Rect { y: area.bottom().saturating_sub(1), height: 1.min(area.height), ..area };
        Clear.render(line, buffer);
        Line::from(vec![
            Span::styled("/", theme.style(ThemeRole::Key)),
            Span::styled(self.query.clone(), theme.style(ThemeRole::Text)),
            Span::raw("▏"),
        ])
        .render(line, buffer);
    }
}
