//! Whether to leave, and what becomes of the session then.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::Line,
    widgets::{Paragraph, Widget as _},
};

use super::{framed, middle};
use crate::tui::{
    text::wrap,
    theme::{Role, Theme},
};

/// The question.
#[derive(Debug, Default)]
pub struct QuitModal;

impl QuitModal {
    /// Draws the question.
    pub fn draw(theme: &Theme, area: Rect, buffer: &mut Buffer) {
        let inside = framed(middle(area, 64, 8), "Leave?", Role::Warning, theme, buffer);
        let key = |key: &str, about: &str| {
            let pieces = [(format!("{key:5}"), theme.style(Role::Key)), (about.to_owned(), theme.style(Role::Text))];
            wrap(&pieces, usize::from(inside.width), 5)
        };
        let question = vec![Line::styled("The session is still going on.", theme.style(Role::Text)), Line::default()];
        let answers = [
            key("y", "stop it now: cancel the turn, run session_end, leave"),
            key("w", "let this iteration end, then stop"),
            key("esc", "stay"),
        ];
        Paragraph::new(question.into_iter().chain(answers.into_iter().flatten()).collect::<Vec<_>>())
            .render(inside, buffer);
    }
}
