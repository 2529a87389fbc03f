//! Writing: messages to the agent, changes to held output, tasks.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
    text::Line,
    widgets::{Paragraph, Widget as _},
};
use similar::{ChangeTag, TextDiff};
use tui_textarea::{TextArea, WrapMode};

use super::{first_that_fits, framed, keys_that_fit, middle};
use crate::{
    engine::ids::{GateId, ItemId},
    present::text::plain,
    tui::theme::{ScreenTheme, ThemeRole},
};

/// What the text is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EditorPurpose {
    /// A message, sent when the turn ends.
    Message,
    /// A message for which the turn is cancelled.
    MessageNow,
    /// The message that answers a gate.
    Answer(GateId),
    /// What an item says.
    Item(ItemId),
    /// Something to do.
    NewTask,
    /// What is to be different about a task, and how it was when that was begun.
    ChangeTask {
        /// Which.
        id: String,
        /// As it was written down.
        before: String,
    },
    /// What came of a task.
    Done(String),
    /// Why a task is blocked.
    Block(String),
}

impl EditorPurpose {
    /// Whether what is written and not sent comes back with the next message.
    pub const fn keeps_a_draft(&self) -> bool {
        match self {
            Self::Message | Self::MessageNow | Self::Answer(_) => true,
            Self::Item(_) | Self::NewTask | Self::ChangeTask { .. } | Self::Done(_) | Self::Block(_) => false,
        }
    }

    /// Whether it can be written at a gate.
    pub const fn is_of_a_gate(&self) -> bool {
        match self {
            Self::Answer(_) | Self::Item(_) => true,
            Self::Message
            | Self::MessageNow
            | Self::NewTask
            | Self::ChangeTask { .. }
            | Self::Done(_)
            | Self::Block(_) => false,
        }
    }

    /// What stands over the text, in more and in fewer words.
    fn titles(&self) -> Vec<String> {
        let words: &[&str] = match self {
            Self::Message => &["Message to the agent, sent when the turn ends", "Message, sent when the turn ends"],
            Self::MessageNow => &["Message to the agent; the turn is cancelled for it", "Message; cancels the turn"],
            Self::Answer(_) => &["Your own message to the agent", "Your message"],
            Self::Item(id) => return vec![format!("Item {id}")],
            Self::NewTask => &[
                "New task: its goal, then lines such as `priority: 1`, `labels: a, b`, `depends: task_1`",
                "New task: its goal, then lines like `priority: 1`, `labels: a`",
                "New task: its goal",
            ],
            Self::ChangeTask { id, .. } => {
                let id = plain(id);
                return vec![format!("{id}: its goal, then its priority, its labels and the like"), id];
            }
            Self::Done(task) => {
                let task = plain(task);
                return vec![format!("{task} is done. What came of it? (may be empty)"), format!("Result of {task}")];
            }
            Self::Block(task) => return vec![format!("Why is {} blocked?", plain(task))],
        };
        words.iter().map(|words| (*words).to_owned()).collect()
    }
}

/// An editor on the screen.
#[derive(Debug)]
pub struct EditorModal {
    /// What the text is for.
    pub purpose: EditorPurpose,
    before: String,
    area: TextArea<'static>,
    show_change: bool,
    asked_to_leave: bool,
    /// It was sent once, and nobody said what became of it.
    in_doubt: bool,
}

impl EditorModal {
    /// An editor with this text in it.
    pub fn new(purpose: EditorPurpose, text: &str) -> Self {
        let clean = plain(text);
        let lines = if clean.is_empty() { vec![String::new()] } else { clean.lines().map(str::to_owned).collect() };
        let mut area = TextArea::new(lines);
        area.set_wrap_mode(WrapMode::WordOrGlyph);
        area.move_cursor(tui_textarea::CursorMove::Bottom);
        area.move_cursor(tui_textarea::CursorMove::End);
        Self { purpose, before: clean, area, show_change: false, asked_to_leave: false, in_doubt: false }
    }

    /// The same, of which nobody knows whether it has arrived.
    #[must_use]
    pub fn in_doubt(self) -> Self {
        Self { in_doubt: true, ..self }
    }

    /// What was written.
    pub fn text(&self) -> String {
        self.area.lines().join("\n")
    }

    /// Shows what was changed, or the text again.
    pub fn toggle_change(&mut self) {
        self.show_change = !self.show_change;
    }

    /// Whether the text was changed.
    pub fn is_changed(&self) -> bool {
        self.text() != self.before.trim_end_matches('\n')
    }

    /// Asked to leave. Tells whether that is possible: first out of what is shown, and a change is thrown away only when
    /// asked for twice.
    pub fn may_leave(&mut self) -> bool {
        if std::mem::take(&mut self.show_change) {
            return false;
        }
        self.purpose.keeps_a_draft() || !self.is_changed() || std::mem::replace(&mut self.asked_to_leave, true)
    }

    /// A key for the text.
    pub fn input(&mut self, key: KeyEvent) {
        self.asked_to_leave = false;
        if std::mem::take(&mut self.show_change) {
            return;
        }
        // A line feed that comes as such is a new line, and nothing that deletes.
        if key.code == KeyCode::Char('j') && key.modifiers == KeyModifiers::CONTROL {
            self.area.insert_newline();
        } else {
            self.area.input(key);
        }
    }

    /// Text from the clipboard.
    pub fn paste(&mut self, text: &str) {
        self.area.insert_str(plain(text));
    }

    /// Draws the editor.
    pub fn draw(&mut self, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
        let area = middle(area, area.width * 9 / 10, area.height * 7 / 10);
        let titles = self.purpose.titles();
        let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
        let title = first_that_fits(&titles, usize::from(area.width.saturating_sub(4)));
        let inside = framed(area, &title, ThemeRole::Accent, theme, buffer);
        let [text, hints] = Layout::vertical([Constraint::Min(1), Constraint::Length(1)]).areas(inside);
        if self.show_change {
            Paragraph::new(change(&self.before, &self.text(), theme)).render(text, buffer);
        } else {
            self.area.set_style(theme.style(ThemeRole::Text));
            self.area.set_cursor_line_style(theme.style(ThemeRole::Text));
            self.area.set_cursor_style(theme.style(ThemeRole::Selected));
            self.area.render(text, buffer);
        }
        let keys: &[&str] = if self.asked_to_leave {
            &["esc once more throws the change away", "ctrl-s keeps it"]
        } else if self.in_doubt {
            &["it may have arrived: ctrl-s sends it once more", "ctrl-d what changed", "ctrl-o $EDITOR", "esc leave"]
        } else {
            &["ctrl-s done", "ctrl-d what changed", "ctrl-o $EDITOR", "esc leave"]
        };
        let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
        let line = keys_that_fit(&keys, usize::from(hints.width));
        Line::styled(line, theme.style(ThemeRole::Faint)).render(hints, buffer);
    }
}

/// What an edit changed, line by line.
fn change(before: &str, after: &str, theme: &ScreenTheme) -> Vec<Line<'static>> {
    // A last line without an end is no other line.
    let ended = |text: &str| format!("{}\n", text.trim_end_matches('\n'));
    let (before, after) = (ended(before), ended(after));
    let diff = TextDiff::from_lines(&before, &after);
    // Only what changed, with a little around it: the rest of a long text would hide it.
    let near = diff.grouped_ops(3).into_iter().flatten().collect::<Vec<_>>();
    let lines = near.iter().flat_map(|part| diff.iter_changes(part)).map(|change| {
        let (sign, role) = match change.tag() {
            ChangeTag::Delete => ("-", ThemeRole::Bad),
            ChangeTag::Insert => ("+", ThemeRole::Good),
            ChangeTag::Equal => (" ", ThemeRole::Faint),
        };
        Line::styled(format!("{sign} {}", change.value().trim_end()), theme.style(role))
    });
    lines.collect()
}
