//! All keys, from the key map.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::{Line, Span},
    widgets::{Paragraph, Widget as _},
};

use super::{framed, middle};
use crate::tui::{
    keymap::{ACTIONS, Action, Keymap},
    text::fit,
    theme::{Role, Theme},
};

/// The help page.
#[derive(Debug, Default)]
pub struct HelpModal {
    top: usize,
}

impl HelpModal {
    /// A key was pressed.
    pub fn key(&mut self, action: Action, page: usize) {
        match action {
            Action::Up => self.top = self.top.saturating_sub(1),
            Action::Down => self.top += 1,
            Action::PageUp => self.top = self.top.saturating_sub(page),
            Action::PageDown => self.top += page,
            Action::Top => self.top = 0,
            Action::Bottom => self.top = usize::MAX / 2,
            _ => {}
        }
    }

    /// Draws the page.
    pub fn draw(&mut self, keymap: &Keymap, theme: &Theme, area: Rect, buffer: &mut Buffer) {
        let inside = framed(middle(area, 84, area.height), "Keys", Role::Accent, theme, buffer);
        let lines = lines(keymap, theme, usize::from(inside.width));
        // From behind the end, the way back would be as long.
        self.top = self.top.min(lines.len().saturating_sub(usize::from(inside.height)));
        Paragraph::new(lines.into_iter().skip(self.top).collect::<Vec<_>>()).render(inside, buffer);
    }
}

fn lines(keymap: &Keymap, theme: &Theme, width: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let mut place = None;
    for (context, action, _, about) in ACTIONS {
        if place != Some(context) {
            place = Some(context);
            lines.push(Line::styled(context.name(), theme.style(Role::Heading)));
        }
        let keys = format!("  {:24}  ", keymap.keys(*action));
        let about = fit(about, width.saturating_sub(keys.len()));
        lines.push(Line::from(vec![
            Span::styled(keys, theme.style(Role::Key)),
            Span::styled(about, theme.style(Role::Text)),
        ]));
    }
    lines
}
