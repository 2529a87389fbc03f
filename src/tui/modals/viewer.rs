//! The viewer: the whole output of a run, a pending item, or the next prompt.

use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
    style::Style,
    text::Line,
    widgets::{Paragraph, Widget as _},
};

use super::{framed, keys_that_fit};
use crate::{
    present::text::plain,
    tui::{
        keymap::{KeyAction, Keymap},
        text::{expand_tabs, fit, wrap},
        theme::{ScreenTheme, ThemeRole},
    },
};

#[derive(Debug)]
pub struct ViewerModal {
    title: String,
    lines: Vec<String>,
    /// A note about the text: its size, what was cut.
    about: String,
    top: ViewerPosition,
    left: usize,
    wraps: bool,
}

/// A line, and a row in it if it is wrapped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct ViewerPosition {
    line: usize,
    row: usize,
}

/// Columns and rows.
type ViewportSize = (usize, usize);

/// The size of the text area on a screen of this size: without the frame and the last line.
pub fn room((width, height): (u16, u16)) -> ViewportSize {
    (usize::from(width.saturating_sub(2)).max(1), usize::from(height.saturating_sub(3)).max(1))
}

impl ViewerModal {
    pub fn new(title: impl Into<String>, text: &str, about: impl Into<String>) -> Self {
        let lines = plain(text).lines().map(expand_tabs).collect();
        Self { title: title.into(), lines, about: about.into(), top: ViewerPosition::default(), left: 0, wraps: true }
    }

    pub fn text(&self) -> String {
        self.lines.join("\n")
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "an action without a meaning here does nothing")]
    pub fn key(&mut self, action: KeyAction, room: ViewportSize) {
        let page = room.1.saturating_sub(1).max(1);
        match action {
            KeyAction::Up => self.back(1, room),
            KeyAction::Down => self.on(1, room),
            KeyAction::PageUp => self.back(page, room),
            KeyAction::PageDown => self.on(page, room),
            KeyAction::Top => self.top = ViewerPosition::default(),
            KeyAction::Bottom => self.top = self.end(room),
            KeyAction::Wrap => {
                self.wraps = !self.wraps;
                self.top.row = 0;
            }
            KeyAction::NextChoice => self.left += 8,
            KeyAction::PreviousChoice => self.left = self.left.saturating_sub(8),
            _ => {}
        }
    }

    /// How many rows a line needs.
    fn rows(&self, line: usize, width: usize) -> usize {
        self.lines.get(line).map_or(0, |text| if self.wraps { wrapped(text, width).len() } else { 1 })
    }

    /// The position from which everything to the end is visible.
    fn end(&self, (width, height): ViewportSize) -> ViewerPosition {
        let mut left = height;
        for line in (0..self.lines.len()).rev() {
            let rows = self.rows(line, width);
            if rows >= left {
                return ViewerPosition { line, row: rows - left };
            }
            left -= rows;
        }
        ViewerPosition::default()
    }

    fn back(&mut self, mut rows: usize, (width, _): ViewportSize) {
        while rows > self.top.row && self.top.line > 0 {
            rows -= self.top.row + 1;
            let line = self.top.line - 1;
            self.top = ViewerPosition { line, row: self.rows(line, width).saturating_sub(1) };
        }
        self.top.row = self.top.row.saturating_sub(rows);
    }

    /// Scrolls forward, but not beyond the end, unless a search has already moved beyond it.
    fn on(&mut self, mut rows: usize, room: ViewportSize) {
        let last = self.end(room).max(self.top);
        while self.top < last && rows > 0 {
            let left = self.rows(self.top.line, room.0).saturating_sub(self.top.row);
            if rows < left {
                self.top.row += rows;
                break;
            }
            rows -= left;
            self.top = ViewerPosition { line: self.top.line + 1, row: 0 };
        }
        self.top = self.top.min(last);
    }

    /// Moves to the next or previous line that contains the text, going around; returns whether there is one.
    pub fn search(&mut self, query: &str, forward: bool) -> bool {
        let query = query.to_lowercase();
        let holds = |n: &usize| self.lines[*n].to_lowercase().contains(&query);
        let count = self.lines.len();
        let top = self.top.line;
        let found = if forward {
            (top + 1..count).chain(0..(top + 1).min(count)).find(holds)
        } else {
            (0..top.min(count)).rev().chain((top.min(count)..count).rev()).find(holds)
        };
        self.top = found.map_or(self.top, |line| ViewerPosition { line, row: 0 });
        found.is_some()
    }

    pub fn draw(&self, keymap: &Keymap, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
        let inside = framed(area, &self.title, ThemeRole::Accent, theme, buffer);
        let [text, foot] = Layout::vertical([Constraint::Min(1), Constraint::Length(1)]).areas(inside);
        let (width, height) = (usize::from(text.width), usize::from(text.height));
        let style = theme.style(ThemeRole::Text);
        let mut rows: Vec<Line<'_>> = Vec::with_capacity(height);
        for line in self.lines.iter().skip(self.top.line) {
            if rows.len() >= height + self.top.row {
                break;
            }
            if self.wraps {
                rows.extend(wrapped(line, width).into_iter().map(|row| row.style(style)));
            } else {
                let cut: String = line.chars().skip(self.left).collect();
                rows.push(Line::styled(fit(&cut, width), style));
            }
        }
        Paragraph::new(rows.into_iter().skip(self.top.row).take(height).collect::<Vec<_>>()).render(text, buffer);
        let place = format!("line {} of {}", (self.top.line + 1).min(self.lines.len()), self.lines.len());
        let keys = [
            (KeyAction::Search, "search"),
            (KeyAction::Wrap, "wrap"),
            (KeyAction::Copy, "copy"),
            (KeyAction::Close, "close"),
        ];
        let keys = keys.map(|(action, about)| format!("{} {about}", keymap.key(action)));
        let hints: Vec<String> = [place].into_iter().chain(keys).collect();
        let line = keys_that_fit(&hints, usize::from(foot.width));
        Line::styled(line, theme.style(ThemeRole::Faint)).render(foot, buffer);
        let edge = Rect { x: area.x + 1, y: area.bottom() - 1, width: area.width.saturating_sub(2), height: 1 };
        let about = fit(&format!(" {} ", self.about), usize::from(edge.width));
        Line::styled(about, theme.style(ThemeRole::Accent)).render(edge, buffer);
    }
}

fn wrapped(text: &str, width: usize) -> Vec<Line<'static>> {
    wrap(&[(text.to_owned(), Style::default())], width, 0)
}
