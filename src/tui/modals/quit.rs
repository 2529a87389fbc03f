//! The question whether to leave, and what to do with the session.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::Line,
    widgets::{Paragraph, Widget as _},
};

use super::{framed, middle};
use crate::tui::{
    model::CloseBehavior,
    text::wrap,
    theme::{ScreenTheme, ThemeRole},
};

#[derive(Debug)]
pub struct QuitModal {
    /// What can happen to the session.
    pub tie: CloseBehavior,
    /// The quit key with a modifier, such as `ctrl-c`; pressed at the question, it leaves immediately.
    pub again: Option<String>,
}

impl QuitModal {
    pub fn draw(&self, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
        let height = 8 + u16::from(self.tie == CloseBehavior::Loose) + u16::from(self.again.is_some());
        let inside = framed(middle(area, 64, height), "Leave?", ThemeRole::Warning, theme, buffer);
        let key = |key: &str, about: &str| {
            let pieces =
                [(format!("{key:7}"), theme.style(ThemeRole::Key)), (about.to_owned(), theme.style(ThemeRole::Text))];
            wrap(&pieces, usize::from(inside.width), 7)
        };
        let question =
            vec![Line::styled("The session is still running.", theme.style(ThemeRole::Text)), Line::default()];
        let leave =
            (self.tie == CloseBehavior::Loose).then(|| key("d", "leave it running; show it again with `creel attach`"));
        let answers = [
            key("y", "stop now: cancel the turn, run session_end, leave"),
            key("w", "stop after this iteration"),
            key("esc", "stay"),
        ];
        let at_once = self.again.as_ref().map(|again| key(again, "leave immediately"));
        let answers = leave.into_iter().chain(answers).chain(at_once).flatten();
        Paragraph::new(question.into_iter().chain(answers).collect::<Vec<_>>()).render(inside, buffer);
    }
}
