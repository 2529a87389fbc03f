//! Dialogs over the panes: gates, the editor, forms, viewers, changes, help, the palette, questions.

pub mod diff;
pub mod editor;
pub mod frame;
pub mod gate;
pub mod help;
pub mod line_mark;
pub mod palette;
pub mod question;
pub mod task_form;
pub mod viewer;

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::{Line, Span},
    widgets::{Clear, Widget as _},
};
use unicode_width::UnicodeWidthStr as _;

use crate::{
    engine::input::SessionCommand,
    tui::theme::{ScreenTheme, ThemeRole},
};

/// A dialog over the panes. It receives the keys.
#[derive(Debug)]
pub enum Modal {
    Gate(Box<gate::GateModal>),
    Editor(Box<editor::EditorModal>),
    TaskForm(Box<task_form::TaskForm>),
    Viewer(Box<viewer::ViewerModal>),
    Diff(Box<diff::DiffModal>),
    Help(help::HelpModal),
    Palette(palette::PaletteModal),
    Search(SearchModal),
    Quit(Box<question::ChoiceQuestion<question::LeaveChoice>>),
    Remove(Box<question::ChoiceQuestion<SessionCommand>>),
    Cancel(Box<question::ChoiceQuestion<SessionCommand>>),
}

#[derive(Debug, Default)]
pub struct SearchModal {
    pub query: String,
}

impl SearchModal {
    pub fn draw(&self, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
        let line = Rect {
            y: area.bottom().saturating_sub(1),
            height: 1.min(area.height),
            ..area
        };
        Clear.render(line, buffer);
        Line::from(vec![
            theme.span(ThemeRole::Key, "/"),
            theme.span(ThemeRole::Text, self.query.clone()),
            Span::raw("▏"),
        ])
        .render(line, buffer);
        let keys = vec![
            theme.span(ThemeRole::Key, "enter"),
            theme.span(ThemeRole::Text, " find  "),
            theme.span(ThemeRole::Key, "esc"),
            theme.span(ThemeRole::Text, " cancel "),
        ];
        let keys = Line::from(keys);
        if self.query.width() + keys.width() + 4 <= usize::from(line.width) {
            keys.right_aligned().render(line, buffer);
        }
    }
}
