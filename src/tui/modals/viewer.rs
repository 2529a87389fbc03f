//! Reading: the whole output of a run, an item, or the next prompt.

use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
    text::Line,
    widgets::{Paragraph, Widget as _},
};

use super::framed;
use crate::{
    control::text::plain,
    tui::{
        keymap::{Action, Keymap},
        text::{expand_tabs, fit, wrap},
        theme::{Role, Theme},
    },
};

/// A text on the screen.
#[derive(Debug)]
pub struct ViewerModal {
    title: String,
    lines: Vec<String>,
    /// What is to be known beside the text: its size, what was cut.
    about: String,
    top: usize,
    left: usize,
    wraps: bool,
}

impl ViewerModal {
    /// A viewer of this text.
    pub fn new(title: impl Into<String>, text: &str, about: impl Into<String>) -> Self {
        let lines = plain(text).lines().map(expand_tabs).collect();
        Self { title: title.into(), lines, about: about.into(), top: 0, left: 0, wraps: true }
    }

    /// All of the text.
    pub fn text(&self) -> String {
        self.lines.join("\n")
    }

    /// A key was pressed.
    pub fn key(&mut self, action: Action, page: usize) {
        let last = self.lines.len().saturating_sub(1);
        match action {
            Action::Up => self.top = self.top.saturating_sub(1),
            Action::Down => self.top = (self.top + 1).min(last),
            Action::PageUp => self.top = self.top.saturating_sub(page),
            Action::PageDown => self.top = (self.top + page).min(last),
            Action::Top => self.top = 0,
            Action::Bottom => self.top = self.lines.len().saturating_sub(page),
            Action::Wrap => self.wraps = !self.wraps,
            Action::NextChoice => self.left += 8,
            Action::PreviousChoice => self.left = self.left.saturating_sub(8),
            _ => {}
        }
    }

    /// Goes to the next or previous line with this text in it; tells whether there is one.
    pub fn search(&mut self, query: &str, forward: bool) -> bool {
        let query = query.to_lowercase();
        let holds = |n: &usize| self.lines[*n].to_lowercase().contains(&query);
        let count = self.lines.len();
        let found = if forward {
            (self.top + 1..count).chain(0..(self.top + 1).min(count)).find(holds)
        } else {
            (0..self.top.min(count)).rev().chain((self.top.min(count)..count).rev()).find(holds)
        };
        self.top = found.unwrap_or(self.top);
        found.is_some()
    }

    /// Draws the viewer.
    pub fn draw(&self, keymap: &Keymap, theme: &Theme, area: Rect, buffer: &mut Buffer) {
        let inside = framed(area, &self.title, Role::Accent, theme, buffer);
        let [text, foot] = Layout::vertical([Constraint::Min(1), Constraint::Length(1)]).areas(inside);
        let (width, height) = (usize::from(text.width), usize::from(text.height));
        let style = theme.style(Role::Text);
        let mut rows: Vec<Line<'_>> = Vec::with_capacity(height);
        for line in self.lines.iter().skip(self.top) {
            if rows.len() >= height {
                break;
            }
            if self.wraps {
                rows.extend(wrap(&[(line.clone(), style)], width, 0));
            } else {
                let cut: String = line.chars().skip(self.left).collect();
                rows.push(Line::styled(fit(&cut, width), style));
            }
        }
        rows.truncate(height);
        Paragraph::new(rows).render(text, buffer);
        let place = format!("line {} of {}", (self.top + 1).min(self.lines.len()), self.lines.len());
        let keys = format!(
            "{} wrap · {} search · {} copy · {} close",
            keymap.key(Action::Wrap),
            keymap.key(Action::Search),
            keymap.key(Action::Copy),
            keymap.key(Action::Close)
        );
        let line = fit(&format!("{place} · {keys}"), usize::from(foot.width));
        Line::styled(line, theme.style(Role::Faint)).render(foot, buffer);
        let edge = Rect { x: area.x + 1, y: area.bottom() - 1, width: area.width.saturating_sub(2), height: 1 };
        let about = fit(&format!(" {} ", self.about), usize::from(edge.width));
        Line::styled(about, theme.style(Role::Accent)).render(edge, buffer);
    }
}
