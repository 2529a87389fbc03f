//! The question whether to cancel the turn.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::Line,
    widgets::{Paragraph, Widget as _},
};

use super::{framed, middle};
use crate::tui::{
    text::wrap,
    theme::{ScreenTheme, ThemeRole},
};

#[derive(Debug)]
pub struct CancelModal;

impl CancelModal {
    pub fn draw(&self, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
        let inside = framed(middle(area, 64, 8), "Cancel the turn?", ThemeRole::Warning, theme, buffer);
        let width = usize::from(inside.width);
        let style = theme.style(ThemeRole::Text);
        let about = "The agent stops what it is doing. The session then pauses, so that you can write to the agent.";
        let mut lines = wrap(&[(about.to_owned(), style)], width, 0);
        lines.push(Line::default());
        for (key, about) in [("y", "cancel it"), ("esc", "let it work")] {
            let pieces = [(format!("{key:5}"), theme.style(ThemeRole::Key)), (about.to_owned(), style)];
            lines.extend(wrap(&pieces, width, 5));
        }
        Paragraph::new(lines).render(inside, buffer);
    }
}
