//! The fields of the form of a task: a line, several lines, or a choice.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use tui_textarea::{CursorMove, TextArea, WrapMode};

use super::{NO_TYPE, TaskField};
use crate::tui::theme::{ScreenTheme, ThemeRole};

#[derive(Debug)]
pub(super) struct TaskFormField {
    pub(super) name: TaskField,
    pub(super) input: FieldInput,
    /// The value when the form opened.
    before: String,
    /// What is wrong with the value.
    pub(super) mistake: Option<String>,
}

#[derive(Debug)]
pub(super) enum FieldInput {
    Line(Box<TextArea<'static>>),
    Lines(Box<TextArea<'static>>),
    Choice { names: Vec<String>, chosen: usize },
}

impl TaskFormField {
    pub(super) fn line(name: TaskField, text: &str) -> Self {
        let area = text_area(text, name, WrapMode::None);
        Self::of(name, FieldInput::Line(Box::new(area)))
    }

    pub(super) fn lines(name: TaskField, text: &str) -> Self {
        let area = text_area(text, name, WrapMode::WordOrGlyph);
        Self::of(name, FieldInput::Lines(Box::new(area)))
    }

    pub(super) fn choice(name: TaskField, names: Vec<String>, chosen: usize) -> Self {
        Self::of(name, FieldInput::Choice { names, chosen })
    }

    fn of(name: TaskField, input: FieldInput) -> Self {
        let mut field = Self {
            name,
            input,
            before: String::new(),
            mistake: None,
        };
        field.before = field.value();
        field
    }

    /// The text, or the name that is chosen. Empty for no type.
    pub(super) fn value(&self) -> String {
        match &self.input {
            FieldInput::Line(area) | FieldInput::Lines(area) => area.lines().join("\n"),
            FieldInput::Choice { names, chosen } => names
                .get(*chosen)
                .filter(|name| self.name != TaskField::Type || *name != NO_TYPE)
                .cloned()
                .unwrap_or_default(),
        }
    }

    pub(super) fn is_changed(&self) -> bool {
        self.value().trim_end() != self.before.trim_end()
    }

    /// Replaces the text.
    pub(super) fn set(&mut self, text: &str) {
        match &mut self.input {
            FieldInput::Line(area) => **area = text_area(text, self.name, WrapMode::None),
            FieldInput::Lines(area) => **area = text_area(text, self.name, WrapMode::WordOrGlyph),
            FieldInput::Choice { .. } => {}
        }
        self.mistake = None;
    }

    pub(super) fn paste(&mut self, text: &str) {
        match &mut self.input {
            FieldInput::Line(area) => {
                area.insert_str(text.lines().collect::<Vec<_>>().join(" "));
            }
            FieldInput::Lines(area) => {
                area.insert_str(text);
            }
            FieldInput::Choice { .. } => {}
        }
        self.mistake = None;
    }

    /// Whether it is a text, and the cursor is behind it.
    pub(super) fn is_at_the_end(&self) -> bool {
        match &self.input {
            FieldInput::Line(area) | FieldInput::Lines(area) => {
                let mut end = area.clone();
                end.move_cursor(CursorMove::Bottom);
                end.move_cursor(CursorMove::End);
                end.cursor() == area.cursor()
            }
            FieldInput::Choice { .. } => false,
        }
    }

    /// Handles a key. Returns by how many fields the focus moves.
    pub(super) fn key(&mut self, key: KeyEvent) -> isize {
        let before = self.value();
        let moved = match &mut self.input {
            FieldInput::Line(area) => key_in_line(area, key),
            FieldInput::Lines(area) => key_in_lines(area, key),
            FieldInput::Choice { names, chosen } => key_at_choice(names, chosen, key),
        };
        if self.value() != before {
            self.mistake = None;
        }
        moved
    }

    /// Gives the text its colours.
    pub(super) fn prepare(&mut self, theme: &ScreenTheme, has_focus: bool) {
        if let FieldInput::Line(area) | FieldInput::Lines(area) = &mut self.input {
            let cursor = if has_focus {
                ThemeRole::Selected
            } else {
                ThemeRole::Text
            };
            area.set_style(theme.style(ThemeRole::Text));
            area.set_cursor_line_style(theme.style(ThemeRole::Text));
            area.set_placeholder_style(theme.style(ThemeRole::Faint));
            area.set_cursor_style(theme.style(cursor));
        }
    }
}

fn text_area(text: &str, name: TaskField, wraps: WrapMode) -> TextArea<'static> {
    let mut area = TextArea::new(text.split('\n').map(str::to_owned).collect());
    area.set_wrap_mode(wraps);
    area.set_placeholder_text(name.placeholder());
    area.move_cursor(CursorMove::Bottom);
    area.move_cursor(CursorMove::End);
    area
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the terminal library's enum grows"
)]
fn key_in_line(area: &mut TextArea<'static>, key: KeyEvent) -> isize {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Up => return -1,
        KeyCode::Down | KeyCode::Enter => return 1,
        // A line has no line feed.
        KeyCode::Char('j' | 'm') if control => return 1,
        _ => {
            area.input(key);
        }
    }
    0
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the terminal library's enum grows"
)]
fn key_in_lines(area: &mut TextArea<'static>, key: KeyEvent) -> isize {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    let before = area.cursor();
    match key.code {
        // A terminal can send a line feed as ctrl-j; the text area would delete text.
        KeyCode::Char('j') if control => area.insert_newline(),
        _ => {
            area.input(key);
        }
    }
    // Where there is no further line, the next field follows.
    match key.code {
        KeyCode::Up if area.cursor() == before => -1,
        KeyCode::Down if area.cursor() == before => 1,
        _ => 0,
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the terminal library's enum grows"
)]
fn key_at_choice(names: &[String], chosen: &mut usize, key: KeyEvent) -> isize {
    let count = names.len().max(1);
    match key.code {
        KeyCode::Up => return -1,
        KeyCode::Down | KeyCode::Enter => return 1,
        KeyCode::Left => *chosen = (*chosen + count - 1) % count,
        KeyCode::Right | KeyCode::Char(' ') => *chosen = (*chosen + 1) % count,
        // The next choice that begins with this letter or digit.
        KeyCode::Char(letter) => {
            let begins = |n: &usize| names[*n].to_lowercase().starts_with(letter);
            let around = (1..=count).map(|by| (*chosen + by) % count);
            *chosen = around
                .filter(|n| *n < names.len())
                .find(begins)
                .unwrap_or(*chosen);
        }
        _ => {}
    }
    0
}
