//! The form of a task on the screen: which rows its fields have, and their drawing.
//!
//! # Invariants
//! - The field with the focus is always in sight, and so is its mistake.

use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
    style::Style,
    text::{Line, Span},
    widgets::{Paragraph, Widget as _},
};
use unicode_width::UnicodeWidthStr as _;

use super::{
    TaskForm,
    fields::{FieldInput, TaskFormField},
};
use crate::{
    present::text::plain,
    tui::{
        modals::frame::{dialog, frame_width, keys_that_fit, middle},
        text::{fit, wrap},
        theme::{ScreenTheme, ThemeRole},
    },
};

/// The column where the values begin.
const COLUMN: u16 = 15;
/// The widest form.
const WIDEST: u16 = 100;
/// A screen that has fewer rows is used completely.
const LOW_SCREEN: u16 = 16;
/// The most rows of a text without and with the focus.
const CLOSED: usize = 3;
const OPEN: usize = 8;

/// Where a field is.
#[derive(Debug, Clone, Copy)]
struct FieldRows {
    at: usize,
    rows: usize,
    /// The row below it with its mistake, or with tasks that it can name.
    note: usize,
}

impl TaskForm {
    fn frame(&self, area: Rect) -> Rect {
        // The header stays in sight, and so does the last line, which has messages to the user.
        let area = if area.height < LOW_SCREEN {
            area
        } else {
            Rect {
                y: area.y + 1,
                height: area.height - 2,
                ..area
            }
        };
        let rows = self
            .places(value_width(area))
            .last()
            .map_or(0, |last| last.at + last.rows + last.note);
        let wanted = u16::try_from(rows).unwrap_or(u16::MAX).saturating_add(3);
        let low = Rect {
            height: area.height.min(wanted.max(LOW_SCREEN - 2)),
            ..area
        };
        let frame = middle(area, area.width.min(WIDEST), low.height);
        if area.height > low.height {
            frame
        } else {
            Rect {
                y: area.y,
                height: area.height,
                ..frame
            }
        }
    }

    /// The screen row with the keys.
    pub fn hint_row(&self, area: Rect) -> u16 {
        self.frame(area).bottom().saturating_sub(2)
    }

    /// The rows of the fields, from the first one, whatever is in sight.
    fn places(&self, width: usize) -> Vec<FieldRows> {
        let mut at = 0;
        let of = |(n, field): (usize, &TaskFormField)| {
            let has_focus = n == self.focus;
            let rows = match &field.input {
                FieldInput::Lines(area) => {
                    let most = if has_focus { OPEN } else { CLOSED };
                    let least = if has_focus { CLOSED } else { 1 };
                    area.lines().len().clamp(least, most)
                }
                FieldInput::Line(_) | FieldInput::Choice { .. } => 1,
            };
            let note = match &field.mistake {
                Some(mistake) => mistake_rows(mistake, width, Style::default()).len(),
                None => usize::from(has_focus && field.name.names_tasks()),
            };
            let place = FieldRows { at, rows, note };
            at += rows + place.note;
            place
        };
        self.fields.iter().enumerate().map(of).collect()
    }

    /// How many rows are above the form's first visible row.
    fn hidden_above(&self, places: &[FieldRows], room: usize) -> usize {
        let focus = places.get(self.focus);
        focus.map_or(0, |place| {
            (place.at + place.rows + place.note).saturating_sub(room)
        })
    }

    /// Moves the focus to the clicked field. A click on a choice that has the focus takes the next.
    pub fn click(&mut self, area: Rect, column: u16, row: u16) -> bool {
        let inside = inside_of(self.frame(area));
        if !inside.contains((column, row).into()) {
            return false;
        }
        let places = self.places(usize::from(inside.width.saturating_sub(COLUMN)));
        let above = self.hidden_above(&places, usize::from(inside.height));
        let nth = usize::from(row - inside.y) + above;
        let hit = places
            .iter()
            .position(|place| (place.at..place.at + place.rows + place.note).contains(&nth));
        let Some(hit) = hit else {
            return false;
        };
        let again = hit == self.focus;
        self.focus = hit;
        self.asked_to_leave = false;
        again
    }

    /// Gives the texts their colours.
    pub fn prepare(&mut self, theme: &ScreenTheme) {
        let focus = self.focus;
        for (n, field) in self.fields.iter_mut().enumerate() {
            field.prepare(theme, n == focus);
        }
    }

    pub fn draw(&self, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
        let title = match &self.id {
            None => "New task".to_owned(),
            Some(id) => format!("Change {}", plain(id)),
        };
        let frame = self.frame(area);
        let inside = dialog(frame, &title, ThemeRole::Accent, theme, buffer);
        let [form, hints] =
            Layout::vertical([Constraint::Min(1), Constraint::Length(1)]).areas(inside);
        let places = self.places(usize::from(form.width.saturating_sub(COLUMN)));
        let room = usize::from(form.height);
        let above = self.hidden_above(&places, room);
        for (n, (field, place)) in self.fields.iter().zip(&places).enumerate() {
            self.draw_field((n, field), *place, above, theme, form, buffer);
        }
        let end = places.last().map_or(0, |last| last.at + last.rows);
        draw_more(above > 0, end > above + room, theme, frame, buffer);
        let line = keys_that_fit(&self.hints(), usize::from(hints.width));
        theme.line(ThemeRole::Faint, line).render(hints, buffer);
    }

    fn draw_field(
        &self,
        (n, field): (usize, &TaskFormField),
        place: FieldRows,
        above: usize,
        theme: &ScreenTheme,
        form: Rect,
        buffer: &mut Buffer,
    ) {
        let Some(value) = visible(place.at, place.rows, above, form) else {
            return;
        };
        let has_focus = n == self.focus;
        let sign = if has_focus { "▌" } else { " " };
        // A changed value of an existing task is marked.
        let changed = self.id.is_some() && field.is_changed();
        let name = format!(
            "{sign}{}{}",
            field.name.name(),
            if changed { " •" } else { "" }
        );
        let role = if field.mistake.is_some() {
            ThemeRole::Bad
        } else {
            ThemeRole::Key
        };
        let label = theme.line(role, name);
        if place.at >= above {
            label.render(Rect { height: 1, ..value }, buffer);
        }
        let value = Rect {
            x: value.x + COLUMN,
            width: value.width.saturating_sub(COLUMN),
            ..value
        };
        match &field.input {
            FieldInput::Line(text) | FieldInput::Lines(text) => text.render(value, buffer),
            FieldInput::Choice { names, chosen } => {
                let name = names
                    .get(*chosen)
                    .map(|name| plain(name))
                    .unwrap_or_default();
                let name = fit(&format!("‹ {name} ›"), usize::from(value.width));
                let style = theme.style(if has_focus {
                    ThemeRole::Selected
                } else {
                    ThemeRole::Text
                });
                Line::from(Span::styled(name, style)).render(value, buffer);
            }
        }
        if let Some(note) = visible(place.at + place.rows, place.note, above, form) {
            let note = Rect {
                x: note.x + COLUMN,
                width: note.width.saturating_sub(COLUMN),
                ..note
            };
            let lines = match &field.mistake {
                Some(mistake) => {
                    let style = theme.style(ThemeRole::Bad);
                    mistake_rows(mistake, usize::from(note.width), style)
                }
                None => vec![self.suggested(theme, usize::from(note.width))],
            };
            Paragraph::new(lines).render(note, buffer);
        }
    }

    /// The tasks that the field with the focus can name.
    fn suggested(&self, theme: &ScreenTheme, width: usize) -> Line<'static> {
        let found = self.suggestions();
        let Some((first, title)) = found.first() else {
            return theme.line(ThemeRole::Faint, "no other open task");
        };
        let mut text = format!("→ {} {}", plain(first), plain(title));
        for (id, _) in &found[1..] {
            let more = format!("  {}", plain(id));
            if text.width() + more.width() > width {
                break;
            }
            text.push_str(&more);
        }
        theme.line(ThemeRole::Faint, fit(&text, width))
    }

    /// The keys and what they do now.
    fn hints(&self) -> Vec<String> {
        let verb = match &self.id {
            None => "adds the task",
            Some(_) => "saves the change",
        };
        if self.asked_to_leave {
            let what = match &self.id {
                None => "esc again discards the task",
                Some(_) => "esc again discards the change",
            };
            return vec![what.to_owned(), format!("ctrl-s {verb}")];
        }
        let save = if self.in_doubt {
            "the session may have it: ctrl-s sends it again"
        } else if self.id.is_none() {
            "ctrl-s add the task"
        } else {
            "ctrl-s save"
        };
        let field = match self.focused().map(|field| &field.input) {
            Some(FieldInput::Choice { .. }) => Some("←→ choose"),
            Some(FieldInput::Lines(_)) => Some("ctrl-o edit in $EDITOR"),
            Some(FieldInput::Line(_)) | None => None,
        };
        [
            Some(save),
            Some("tab next"),
            field,
            Some("shift-tab back"),
            Some("esc close"),
        ]
        .into_iter()
        .flatten()
        .map(str::to_owned)
        .collect()
    }
}

/// How wide the values of the fields are.
fn value_width(area: Rect) -> usize {
    let frame = frame_width(area, area.width.min(WIDEST));
    usize::from(frame.saturating_sub(2 + COLUMN))
}

fn mistake_rows(mistake: &str, width: usize, style: Style) -> Vec<Line<'static>> {
    wrap(&[(format!("✗ {mistake}"), style)], width, 2)
}

/// The rows of the form inside its frame, without the row of the keys.
fn inside_of(frame: Rect) -> Rect {
    Rect {
        x: frame.x + 1,
        y: frame.y + 1,
        width: frame.width.saturating_sub(2),
        height: frame.height.saturating_sub(3),
    }
}

/// Where these rows are on the screen, as far as they are in sight.
fn visible(at: usize, rows: usize, above: usize, form: Rect) -> Option<Rect> {
    let first = at.max(above) - above;
    let end = (at + rows)
        .checked_sub(above)?
        .min(usize::from(form.height));
    let height = u16::try_from(end.checked_sub(first)?)
        .ok()
        .filter(|rows| *rows > 0)?;
    Some(Rect {
        y: form.y + u16::try_from(first).ok()?,
        height,
        ..form
    })
}

/// Says in the lower edge of the frame that there are more fields.
fn draw_more(above: bool, below: bool, theme: &ScreenTheme, frame: Rect, buffer: &mut Buffer) {
    let text = match (above, below) {
        (true, true) => " ↑↓ more fields ",
        (true, false) => " ↑ more fields ",
        (false, true) => " ↓ more fields ",
        (false, false) => return,
    };
    let edge = Rect {
        x: frame.x + 1,
        y: frame.bottom().saturating_sub(1),
        width: frame.width.saturating_sub(2),
        height: 1,
    };
    theme
        .line(ThemeRole::Accent, text)
        .right_aligned()
        .render(edge, buffer);
}
