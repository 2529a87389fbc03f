//! A question: a numbered list in which each answer says what happens.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::Style,
    text::{Line, Span},
    widgets::{Paragraph, Widget as _},
};
use unicode_width::UnicodeWidthStr as _;

use super::{framed, keys_that_fit, middle};
use crate::tui::{
    text::{fit, wrap},
    theme::{ScreenTheme, ThemeRole},
};

/// In columns. With less room, a part of an effect says nothing.
const NARROWEST: usize = 16;
/// In columns. A narrower question would be hard to notice.
const NARROWEST_FRAME: usize = 44;
/// The columns around a label: the cursor, the number and two gaps.
const BESIDE_LABEL: usize = 7;

/// An answer: what it is called, what follows, and what creel then does. Without a request, nothing
/// happens.
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

    /// As wide as its content and no wider.
    fn frame(&self, area: Rect) -> Rect {
        let margin = margin(area);
        let texts = self.text.iter().map(|line| line.width());
        let labels = self.labels();
        let choices = self
            .choices
            .iter()
            .map(|choice| labels + choice.effect.width() + BESIDE_LABEL);
        let others = [self.title.width() + 2, self.hints().join("  ").width()];
        let content = texts
            .chain(choices)
            .chain(others)
            .max()
            .unwrap_or(0)
            .max(NARROWEST_FRAME);
        let edge = 2 + 2 * margin;
        let width = u16::try_from(content)
            .unwrap_or(u16::MAX)
            .saturating_add(edge)
            .min(area.width);
        let text: usize = self
            .text
            .iter()
            .map(|line| lines_of(line, usize::from(width.saturating_sub(edge))))
            .sum();
        let height = u16::try_from(text + self.choices.len() + 5).unwrap_or(area.height);
        middle(area, width, height)
    }

    /// The area of the text and the answers.
    fn inside(&self, area: Rect) -> Rect {
        let (frame, margin) = (self.frame(area), margin(area));
        Rect {
            x: frame.x + 1 + margin,
            y: frame.y + 1,
            width: frame.width.saturating_sub(2 + 2 * margin),
            height: frame.height.saturating_sub(2),
        }
    }

    fn labels(&self) -> usize {
        self.choices
            .iter()
            .map(|choice| choice.label.width())
            .max()
            .unwrap_or(0)
    }

    fn hints(&self) -> [String; 4] {
        let numbers = format!("1-{} choose", self.choices.len());
        [
            "enter answer".to_owned(),
            numbers,
            "↑↓ move".to_owned(),
            "esc close".to_owned(),
        ]
    }

    /// The row of the screen that has the keys, if there is room for it.
    pub fn hint_row(&self, area: Rect) -> u16 {
        let inside = self.inside(area);
        let above = self.text_rows(inside) + 1 + self.choices.len();
        let blank = usize::from(usize::from(inside.height) > above + 1);
        inside
            .y
            .saturating_add(u16::try_from(above + blank).unwrap_or(u16::MAX))
    }

    fn text_rows(&self, inside: Rect) -> usize {
        self.text
            .iter()
            .map(|line| lines_of(line, usize::from(inside.width)))
            .sum()
    }

    /// The answer on a row of the screen.
    pub fn choice_at(&self, area: Rect, column: u16, row: u16) -> Option<usize> {
        let inside = self.inside(area);
        let first = inside.y + u16::try_from(self.text_rows(inside) + 1).unwrap_or(u16::MAX);
        let nth = usize::from(row.checked_sub(first)?);
        (nth < self.choices.len() && inside.contains((column, row).into())).then_some(nth)
    }

    pub fn draw(&self, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
        framed(
            self.frame(area),
            &self.title,
            ThemeRole::Warning,
            theme,
            buffer,
        );
        let inside = self.inside(area);
        let width = usize::from(inside.width);
        let plain = theme.style(ThemeRole::Text);
        let mut lines: Vec<Line<'static>> = self
            .text
            .iter()
            .flat_map(|text| wrap(&[(text.clone(), plain)], width, 0))
            .collect();
        lines.push(Line::default());
        let labels = self.labels();
        for (n, choice) in self.choices.iter().enumerate() {
            let is_chosen = n == self.chosen;
            let sign = if is_chosen { "▌" } else { " " };
            let room = width.saturating_sub(labels + BESIDE_LABEL);
            let effect = if room < NARROWEST {
                String::new()
            } else {
                fit(&choice.effect, room)
            };
            let line = Line::from(vec![
                Span::styled(sign, theme.style(ThemeRole::BorderFocused)),
                Span::styled(format!("{}  ", n + 1), theme.style(ThemeRole::Key)),
                Span::styled(format!("{:labels$}   ", choice.label), plain),
                Span::styled(effect, plain),
            ]);
            lines.push(if is_chosen {
                line.patch_style(theme.style(ThemeRole::Selected))
            } else {
                line
            });
        }
        if usize::from(inside.height) > lines.len() + 1 {
            lines.push(Line::default());
        }
        lines.push(Line::styled(
            keys_that_fit(&self.hints(), width),
            theme.style(ThemeRole::Faint),
        ));
        Paragraph::new(lines).render(inside, buffer);
    }
}

/// The columns between the frame and its content. Small screens have none.
fn margin(area: Rect) -> u16 {
    u16::from(area.width >= 60)
}

fn lines_of(text: &str, width: usize) -> usize {
    wrap(&[(text.to_owned(), Style::default())], width, 0).len()
}
