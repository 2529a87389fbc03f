//! A question: a numbered list in which each answer says what happens.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::Style,
    text::{Line, Span},
    widgets::{Paragraph, Widget as _},
};
use unicode_width::UnicodeWidthStr as _;

use super::{framed, middle};
use crate::tui::{
    text::{fit, wrap},
    theme::{ScreenTheme, ThemeRole},
};

/// In columns. With less room, a part of an effect says nothing.
const NARROWEST: usize = 16;

/// An answer: what it is called, what follows, and what creel then does. Without a request, nothing happens.
#[derive(Debug, Clone)]
pub struct OfferedChoice<R> {
    pub label: String,
    pub effect: String,
    pub request: Option<R>,
}

#[derive(Debug)]
pub struct ChoiceQuestion<R> {
    pub title: String,
    /// What the user should know first.
    pub text: Vec<String>,
    pub choices: Vec<OfferedChoice<R>>,
    pub chosen: usize,
}

impl<R> ChoiceQuestion<R> {
    pub fn move_by(&mut self, by: isize) {
        let last = self.choices.len().saturating_sub(1);
        self.chosen = self.chosen.saturating_add_signed(by).min(last);
    }

    /// The answer with this number, from 1.
    pub fn numbered(&self, number: usize) -> Option<&OfferedChoice<R>> {
        self.choices.get(number.checked_sub(1)?)
    }

    fn frame(&self, area: Rect) -> Rect {
        let width = area.width.min(76);
        let inside = usize::from(width.saturating_sub(2));
        let text: usize = self.text.iter().map(|line| lines_of(line, inside)).sum();
        let height = u16::try_from(text + self.choices.len() + 4).unwrap_or(area.height);
        middle(area, width, height)
    }

    /// The answer on a row of the screen.
    pub fn choice_at(&self, area: Rect, column: u16, row: u16) -> Option<usize> {
        let frame = self.frame(area);
        let inside =
            Rect { x: frame.x + 1, y: frame.y + 1, width: frame.width.saturating_sub(2), height: frame.height };
        let text: usize = self.text.iter().map(|line| lines_of(line, usize::from(inside.width))).sum();
        let first = inside.y + u16::try_from(text + 1).unwrap_or(u16::MAX);
        let nth = usize::from(row.checked_sub(first)?);
        (nth < self.choices.len() && inside.contains((column, row).into())).then_some(nth)
    }

    pub fn draw(&self, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
        let inside = framed(self.frame(area), &self.title, ThemeRole::Warning, theme, buffer);
        let width = usize::from(inside.width);
        let plain = theme.style(ThemeRole::Text);
        let mut lines: Vec<Line<'static>> =
            self.text.iter().flat_map(|text| wrap(&[(text.clone(), plain)], width, 0)).collect();
        lines.push(Line::default());
        let labels = self.choices.iter().map(|choice| choice.label.width()).max().unwrap_or(0);
        for (n, choice) in self.choices.iter().enumerate() {
            let is_chosen = n == self.chosen;
            let sign = if is_chosen { "▌" } else { " " };
            // The cursor, the number and two gaps.
            let room = width.saturating_sub(labels + 6);
            let effect = if room < NARROWEST { String::new() } else { fit(&choice.effect, room) };
            let line = Line::from(vec![
                Span::styled(sign, theme.style(ThemeRole::BorderFocused)),
                Span::styled(format!("{}  ", n + 1), theme.style(ThemeRole::Key)),
                Span::styled(format!("{:labels$}  ", choice.label), plain),
                Span::styled(effect, theme.style(ThemeRole::Faint)),
            ]);
            lines.push(if is_chosen { line.patch_style(theme.style(ThemeRole::Selected)) } else { line });
        }
        let hint = format!("1-{} choose   ↑↓ enter   esc close", self.choices.len());
        lines.push(Line::styled(hint, theme.style(ThemeRole::Faint)));
        Paragraph::new(lines).render(inside, buffer);
    }
}

fn lines_of(text: &str, width: usize) -> usize {
    wrap(&[(text.to_owned(), Style::default())], width, 0).len()
}
