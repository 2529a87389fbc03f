//! The text editor: messages to the agent, changes to pending items, results of tasks.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
    text::Line,
    widgets::{Paragraph, Widget as _},
};
use tui_textarea::{TextArea, WrapMode};

use crate::{
    engine::ids::{GateId, ItemId},
    present::text::plain,
    text::{diff_groups, whole_lines},
    tui::{
        modals::frame::{beside_nothing, dialog, first_that_fits, keys_that_fit},
        theme::{ScreenTheme, ThemeRole},
    },
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EditorPurpose {
    /// Sent when the turn ends.
    Message,
    /// Cancels the turn.
    MessageNow,
    /// The model of the next prompts.
    Model,
    /// The message that answers a gate.
    Answer(GateId),
    /// The text of a pending item.
    Item(ItemId),
    /// The proposed tasks at a gate.
    Tasks(GateId),
    /// The result of a task.
    Done(String),
    /// Why a task is blocked.
    Block(String),
}

impl EditorPurpose {
    /// Whether an unsent text becomes a draft for the next message.
    pub const fn keeps_a_draft(&self) -> bool {
        match self {
            Self::Message | Self::MessageNow | Self::Answer(_) => true,
            Self::Model | Self::Item(_) | Self::Tasks(_) | Self::Done(_) | Self::Block(_) => false,
        }
    }

    /// Whether the text belongs to a gate.
    pub const fn is_of_a_gate(&self) -> bool {
        match self {
            Self::Answer(_) | Self::Item(_) | Self::Tasks(_) => true,
            Self::Message | Self::MessageNow | Self::Model | Self::Done(_) | Self::Block(_) => {
                false
            }
        }
    }

    /// What finishing the text does.
    const fn verb(&self) -> &'static str {
        match self {
            Self::Message | Self::MessageNow | Self::Answer(_) => "send",
            Self::Model => "choose",
            Self::Item(_) | Self::Tasks(_) => "save",
            Self::Done(_) => "complete the task",
            Self::Block(_) => "block the task",
        }
    }

    /// Titles, longest first.
    fn titles(&self) -> Vec<String> {
        let words: &[&str] = match self {
            Self::Message => &[
                "Message to the agent, sent when the turn ends",
                "Message, sent when the turn ends",
            ],
            Self::MessageNow => &[
                "Message to the agent; cancels the turn",
                "Message; cancels the turn",
            ],
            Self::Model => &[
                "The model of the next prompts; empty: as planned",
                "The next model",
            ],
            Self::Answer(_) => &["Your own message to the agent", "Your message"],
            Self::Item(id) => return vec![format!("Item {id}")],
            Self::Tasks(_) => &[
                "The proposed tasks: change, add and delete them, then save",
                "The proposed tasks",
            ],
            Self::Done(task) => {
                let task = plain(task);
                return vec![
                    format!("{task} is done. What is the result? (optional)"),
                    format!("Result of {task}"),
                ];
            }
            Self::Block(task) => return vec![format!("Why is {} blocked?", plain(task))],
        };
        words.iter().map(|words| (*words).to_owned()).collect()
    }
}

#[derive(Debug)]
pub struct EditorModal {
    pub purpose: EditorPurpose,
    before: String,
    area: TextArea<'static>,
    show_change: bool,
    asked_to_leave: bool,
    /// It was sent, and the session did not say whether it accepted it.
    in_doubt: bool,
}

impl EditorModal {
    pub fn new(purpose: EditorPurpose, text: &str) -> Self {
        let clean = plain(text);
        let lines = if clean.is_empty() {
            vec![String::new()]
        } else {
            clean.lines().map(str::to_owned).collect()
        };
        let mut area = TextArea::new(lines);
        area.set_wrap_mode(WrapMode::WordOrGlyph);
        area.move_cursor(tui_textarea::CursorMove::Bottom);
        area.move_cursor(tui_textarea::CursorMove::End);
        Self {
            purpose,
            before: clean,
            area,
            show_change: false,
            asked_to_leave: false,
            in_doubt: false,
        }
    }

    /// Shows the text from its first line.
    #[must_use]
    pub fn at_the_top(mut self) -> Self {
        self.area.move_cursor(tui_textarea::CursorMove::Top);
        self.area.move_cursor(tui_textarea::CursorMove::Head);
        self
    }

    /// The same editor with another text, from its first line.
    #[must_use]
    pub fn with_text(self, text: &str) -> Self {
        let before = self.before;
        Self {
            before,
            ..Self::new(self.purpose, text).at_the_top()
        }
    }

    /// Marks the text as possibly delivered.
    #[must_use]
    pub fn in_doubt(self) -> Self {
        Self {
            in_doubt: true,
            ..self
        }
    }

    pub fn text(&self) -> String {
        self.area.lines().join("\n")
    }

    /// Shows the diff, or the text again.
    pub fn toggle_change(&mut self) {
        self.show_change = !self.show_change;
    }

    pub fn is_changed(&self) -> bool {
        self.text() != self.before.trim_end_matches('\n')
    }

    /// Handles the key that leaves; returns whether to close. The first press closes the diff if it
    /// is shown, and a change that would be lost needs two presses.
    pub fn may_leave(&mut self) -> bool {
        if std::mem::take(&mut self.show_change) {
            return false;
        }
        self.purpose.keeps_a_draft()
            || !self.is_changed()
            || std::mem::replace(&mut self.asked_to_leave, true)
    }

    pub fn input(&mut self, key: KeyEvent) {
        self.asked_to_leave = false;
        if std::mem::take(&mut self.show_change) {
            return;
        }
        // A terminal can send a line feed as ctrl-j. It inserts a new line here; the text area
        // would delete text.
        if key.code == KeyCode::Char('j') && key.modifiers == KeyModifiers::CONTROL {
            self.area.insert_newline();
        } else {
            self.area.input(key);
        }
    }

    pub fn paste(&mut self, text: &str) {
        self.area.insert_str(plain(text));
    }

    /// Gives the text its colors.
    pub fn prepare(&mut self, theme: &ScreenTheme) {
        self.area.set_style(theme.style(ThemeRole::Text));
        self.area
            .set_cursor_line_style(theme.style(ThemeRole::Text));
        self.area.set_cursor_style(theme.style(ThemeRole::Selected));
    }

    /// Draws it in the lower part of the screen: over a gate, what the gate shows stays in sight.
    pub fn draw(&self, theme: &ScreenTheme, area: Rect, over: EditorPlace, buffer: &mut Buffer) {
        let area = self.frame(area);
        let titles = self.purpose.titles();
        let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
        let title = first_that_fits(&titles, usize::from(area.width.saturating_sub(4)));
        let inside = match over {
            EditorPlace::Gate => beside_nothing(area, &title, ThemeRole::Accent, theme, buffer),
            EditorPlace::Panes => dialog(area, &title, ThemeRole::Accent, theme, buffer),
        };
        let [text, hints] =
            Layout::vertical([Constraint::Min(1), Constraint::Length(1)]).areas(inside);
        if self.show_change {
            Paragraph::new(change(&self.before, &self.text(), theme)).render(text, buffer);
        } else {
            self.area.render(text, buffer);
        }
        let line = keys_that_fit(&self.hints(), usize::from(hints.width));
        theme.line(ThemeRole::Faint, line).render(hints, buffer);
    }
}

impl EditorModal {
    /// The keys and what they do now.
    fn hints(&self) -> Vec<String> {
        if self.asked_to_leave {
            return vec![
                "esc again discards the change".to_owned(),
                "ctrl-s keeps it".to_owned(),
            ];
        }
        let send = if self.in_doubt {
            "the session may have it: ctrl-s sends it again".to_owned()
        } else {
            format!("ctrl-s {}", self.purpose.verb())
        };
        let leave = match (self.show_change, self.purpose.keeps_a_draft()) {
            (true, _) => "esc show text",
            (false, true) => "esc keep as draft",
            (false, false) => "esc close",
        };
        let changes = if self.show_change {
            "ctrl-d show text"
        } else {
            "ctrl-d show changes"
        };
        // A new text has nothing to compare it with.
        let changes = Some(changes.to_owned()).filter(|_| !self.before.is_empty());
        let others = changes
            .into_iter()
            .chain(["ctrl-o edit in $EDITOR".to_owned(), leave.to_owned()]);
        [send].into_iter().chain(others).collect()
    }
}

/// What is below an editor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EditorPlace {
    Panes,
    /// A gate, whose text the user answers.
    Gate,
}

/// The fewest rows that an editor has.
const LOWEST: u16 = 6;
/// A screen that has fewer rows is used completely.
const LOW_SCREEN: u16 = 16;

impl EditorModal {
    /// The lower third of the screen. A text that is not written to the agent can need more.
    pub fn frame(&self, area: Rect) -> Rect {
        if area.height < LOW_SCREEN {
            return area;
        }
        let third = (area.height / 3).max(LOWEST);
        let wanted = u16::try_from(self.area.lines().len().saturating_add(3)).unwrap_or(u16::MAX);
        let most = if self.purpose.keeps_a_draft() {
            third
        } else {
            area.height * 7 / 10
        };
        let height = wanted.clamp(third, most);
        // The last line has messages to the user.
        Rect {
            y: area.bottom() - 1 - height,
            height,
            ..area
        }
    }

    /// The screen row with the keys.
    pub fn hint_row(&self, area: Rect) -> u16 {
        self.frame(area).bottom().saturating_sub(2)
    }
}

/// The diff of an edit, line by line.
fn change(before: &str, after: &str, theme: &ScreenTheme) -> Vec<Line<'static>> {
    // A missing newline at the end is not a change.
    let ended = |text: &str| format!("{}\n", text.trim_end_matches('\n'));
    let (before, after) = (ended(before), ended(after));
    // Only the changes with a little context: the rest of a long text would hide them.
    let near = diff_groups(&whole_lines(&before), &whole_lines(&after));
    let lines = near
        .iter()
        .flat_map(|group| &group.lines)
        .map(|(sign, line)| {
            let role = match sign {
                '-' => ThemeRole::Bad,
                '+' => ThemeRole::Good,
                _ => ThemeRole::Faint,
            };
            theme.line(role, format!("{sign} {}", line.trim_end()))
        });
    lines.collect()
}
