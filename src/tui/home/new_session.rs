//! The form for a new session: its prompt, its agent and its folder.

use std::path::PathBuf;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
    text::Line,
    widgets::Widget as _,
};
use tui_textarea::{TextArea, WrapMode};

use super::SessionStart;
use crate::{
    present::{session_list::short_path, text::plain},
    tui::{
        modals::frame::{dialog, keys_that_fit, middle},
        text::fit,
        theme::{ScreenTheme, ThemeRole},
    },
};

/// A folder in which a session can start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartPlace {
    pub root: PathBuf,
    /// The agents that can be chosen. The first is the default.
    pub agents: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FormField {
    Prompt,
    Agent,
    Folder,
}

/// What a key did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FormResult {
    Stays,
    Closed,
    Start(SessionStart),
}

#[derive(Debug)]
pub struct NewSessionForm {
    prompt: TextArea<'static>,
    places: Vec<StartPlace>,
    place: usize,
    agent: usize,
    field: FormField,
    asked_to_leave: bool,
    home_dir: Option<String>,
}

impl NewSessionForm {
    /// A form with these places, of which the first is preselected. None without a place.
    pub fn new(
        places: Vec<StartPlace>,
        agent: Option<&str>,
        home_dir: Option<String>,
    ) -> Option<Self> {
        let first = places.first()?;
        let agent = agent
            .and_then(|agent| first.agents.iter().position(|known| known == agent))
            .unwrap_or(0);
        let mut prompt = TextArea::default();
        prompt.set_wrap_mode(WrapMode::WordOrGlyph);
        prompt.set_placeholder_text(
            "What should the agent do? Leave it empty for the prompt of the config.",
        );
        let field = FormField::Prompt;
        Some(Self {
            prompt,
            places,
            place: 0,
            agent,
            field,
            asked_to_leave: false,
            home_dir,
        })
    }

    fn text(&self) -> String {
        self.prompt.lines().join("\n")
    }

    fn agents(&self) -> &[String] {
        self.places
            .get(self.place)
            .map_or(&[], |place| &place.agents)
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the terminal library's enum grows"
    )]
    pub fn key(&mut self, key: KeyEvent) -> FormResult {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let asked = std::mem::take(&mut self.asked_to_leave);
        let has_prompt = self.field == FormField::Prompt;
        match key.code {
            KeyCode::Esc if asked || self.text().trim().is_empty() => return FormResult::Closed,
            KeyCode::Esc => self.asked_to_leave = true,
            KeyCode::Char('s') if control => return FormResult::Start(self.start()),
            KeyCode::Tab => self.field = self.next_field(1),
            KeyCode::BackTab => self.field = self.next_field(2),
            // A terminal can send a line feed as ctrl-j; the text area would delete text.
            KeyCode::Char('j') if control && has_prompt => self.prompt.insert_newline(),
            _ if has_prompt => {
                self.prompt.input(key);
            }
            KeyCode::Left | KeyCode::Up => self.change(-1),
            KeyCode::Right | KeyCode::Down | KeyCode::Char(' ') | KeyCode::Enter => self.change(1),
            _ => {}
        }
        FormResult::Stays
    }

    pub fn paste(&mut self, text: &str) {
        self.prompt.insert_str(plain(text));
    }

    const fn next_field(&self, by: usize) -> FormField {
        const FIELDS: [FormField; 3] = [FormField::Prompt, FormField::Agent, FormField::Folder];
        let at = match self.field {
            FormField::Prompt => 0,
            FormField::Agent => 1,
            FormField::Folder => 2,
        };
        FIELDS[(at + by) % FIELDS.len()]
    }

    /// The next or the previous agent or folder.
    fn change(&mut self, by: isize) {
        let turn = |at: usize, of: usize| (at + of).saturating_add_signed(by) % of.max(1);
        match self.field {
            FormField::Prompt => {}
            FormField::Agent => self.agent = turn(self.agent, self.agents().len()),
            FormField::Folder => {
                self.place = turn(self.place, self.places.len());
                self.agent = 0;
            }
        }
    }

    fn start(&self) -> SessionStart {
        let place = self.places.get(self.place);
        SessionStart {
            root: place.map(|place| place.root.clone()).unwrap_or_default(),
            prompt: self.text().trim().to_owned(),
            // The first agent is the one that creel takes by itself.
            agent: self
                .agents()
                .get(self.agent)
                .filter(|_| self.agent > 0)
                .cloned(),
        }
    }

    /// Gives the text its colours.
    pub fn prepare(&mut self, theme: &ScreenTheme) {
        self.prompt.set_style(theme.style(ThemeRole::Text));
        self.prompt
            .set_cursor_line_style(theme.style(ThemeRole::Text));
        self.prompt
            .set_placeholder_style(theme.style(ThemeRole::Faint));
        let has_focus = self.field == FormField::Prompt;
        self.prompt.set_cursor_style(theme.style(if has_focus {
            ThemeRole::Selected
        } else {
            ThemeRole::Text
        }));
    }

    fn frame(area: Rect) -> Rect {
        middle(area, area.width * 9 / 10, area.height * 7 / 10)
    }

    /// The screen row with the keys.
    pub fn hint_row(area: Rect) -> u16 {
        Self::frame(area).bottom().saturating_sub(2)
    }

    pub fn draw(&self, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
        let has_focus = self.field == FormField::Prompt;
        let area = Self::frame(area);
        let inside = dialog(area, "New session", ThemeRole::Accent, theme, buffer);
        let rows = [
            Constraint::Min(1),
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Length(1),
        ];
        let [text, agent, folder, hints] = Layout::vertical(rows).areas(inside);
        self.prompt.render(text, buffer);
        let shown = self
            .agents()
            .get(self.agent)
            .map_or("the default", String::as_str)
            .to_owned();
        self.draw_field(
            FormField::Agent,
            &shown,
            self.agents().len(),
            theme,
            agent,
            buffer,
        );
        let root = self
            .places
            .get(self.place)
            .map(|place| place.root.to_string_lossy().into_owned());
        let root = short_path(&root.unwrap_or_default(), self.home_dir.as_deref());
        self.draw_field(
            FormField::Folder,
            &root,
            self.places.len(),
            theme,
            folder,
            buffer,
        );
        let keys: &[&str] = if self.asked_to_leave {
            &["esc again discards the prompt", "ctrl-s starts the session"]
        } else if has_focus {
            &["ctrl-s start", "tab agent and folder", "esc leave"]
        } else {
            &["ctrl-s start", "←→ change", "tab next", "esc leave"]
        };
        let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
        let line = keys_that_fit(&keys, usize::from(hints.width));
        theme.line(ThemeRole::Faint, line).render(hints, buffer);
    }

    fn draw_field(
        &self,
        field: FormField,
        value: &str,
        of: usize,
        theme: &ScreenTheme,
        area: Rect,
        buffer: &mut Buffer,
    ) {
        let has_focus = self.field == field;
        let name = match field {
            FormField::Prompt => "Prompt",
            FormField::Agent => "Agent ",
            FormField::Folder => "Folder",
        };
        let value = if of > 1 {
            format!("‹ {} ›", plain(value))
        } else {
            plain(value)
        };
        let sign = if has_focus { "▌" } else { " " };
        let line = Line::from(vec![
            theme.span(ThemeRole::Key, format!("{sign}{name}  ")),
            theme.span(
                ThemeRole::Text,
                fit(&value, usize::from(area.width).saturating_sub(9)),
            ),
        ]);
        let line = if has_focus {
            theme.selected(line)
        } else {
            line
        };
        line.render(area, buffer);
    }
}
