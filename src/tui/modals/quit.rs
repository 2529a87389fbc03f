//! Whether to leave, and what becomes of the session then.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::{Line, Span},
    widgets::{Paragraph, Widget as _},
};

use super::{framed, middle};
use crate::tui::theme::{Role, Theme};

/// The question.
#[derive(Debug, Default)]
pub struct QuitModal;

impl QuitModal {
    /// Draws the question.
    pub fn draw(theme: &Theme, area: Rect, buffer: &mut Buffer) {
        let inside = framed(middle(area, 64, 8), "Leave?", Role::Warning, theme, buffer);
        let key = |key: &'static str, about: &'static str| {
            Line::from(vec![Span::styled(key, theme.style(Role::Key)), Span::styled(about, theme.style(Role::Text))])
        };
        Paragraph::new(vec![
            Line::styled("The session is still going on.", theme.style(Role::Text)),
            Line::default(),
            key("y", "    stop it now: cancel the turn, run session_end"),
            key("w", "    let this iteration end, then stop"),
            key("esc", "  stay"),
        ])
        .render(inside, buffer);
    }
}
