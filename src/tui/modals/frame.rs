//! What dialogs and the rows of a screen share: frames, hints of keys, clicks on them, and marked
//! matches.

use crossterm::event::KeyEvent;
use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::{Modifier, Style},
    widgets::{Block, BorderType, Clear, Widget as _},
};
use unicode_width::UnicodeWidthStr as _;

use crate::tui::{
    keymap::key_named,
    text::fit,
    theme::{ScreenTheme, ThemeRole},
};

/// Clears the area and draws a frame; returns the area inside.
pub fn framed(
    area: Rect,
    title: &str,
    role: ThemeRole,
    theme: &ScreenTheme,
    buffer: &mut Buffer,
) -> Rect {
    Clear.render(area, buffer);
    buffer.set_style(area, theme.style(ThemeRole::Text));
    let block = Block::bordered()
        .border_type(BorderType::Double)
        .border_style(theme.style(role))
        .title(theme.line(role, format!(" {title} ")));
    let inside = block.inner(area);
    block.render(area, buffer);
    inside
}

/// Draws the frame of a dialog: the rows beside it are empty, and everything else but the header and
/// the last line is dimmed. Returns the area inside.
pub fn dialog(
    area: Rect,
    title: &str,
    role: ThemeRole,
    theme: &ScreenTheme,
    buffer: &mut Buffer,
) -> Rect {
    let screen = buffer.area;
    let behind = Rect {
        y: screen.y + 1,
        height: screen.height.saturating_sub(2),
        ..screen
    };
    buffer.set_style(behind, Style::default().add_modifier(Modifier::DIM));
    beside_nothing(area, title, role, theme, buffer)
}

/// The same without dimming what is above and below.
pub fn beside_nothing(
    area: Rect,
    title: &str,
    role: ThemeRole,
    theme: &ScreenTheme,
    buffer: &mut Buffer,
) -> Rect {
    let rows = Rect {
        x: buffer.area.x,
        width: buffer.area.width,
        ..area
    };
    Clear.render(rows, buffer);
    buffer.set_style(rows, theme.style(ThemeRole::Text));
    framed(area, title, role, theme, buffer)
}

/// In percent. A frame that needs this much of the width takes all of it.
const NEARLY_ALL: u16 = 85;

/// The width of a frame that wants to be this wide.
pub fn frame_width(area: Rect, wanted: u16) -> u16 {
    let needs_all = u32::from(wanted) * 100 >= u32::from(area.width) * u32::from(NEARLY_ALL);
    if area.width < 60 || needs_all {
        area.width
    } else {
        wanted
    }
}

/// A centred area of this size. Small screens are used completely.
pub fn middle(area: Rect, width: u16, height: u16) -> Rect {
    let width = frame_width(area, width);
    let height = if area.height < 16 {
        area.height
    } else {
        height.min(area.height)
    };
    Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    }
}

/// Joins key hints into one line. The first (the main action) and the last (the way out) stay
/// longest; of the others, the later ones are dropped first.
pub fn keys_that_fit(hints: &[String], width: usize) -> String {
    let last = hints.len().saturating_sub(1);
    let by_importance = (0..=last)
        .take(1)
        .chain((1..=last).rev().take(1))
        .chain(1..last);
    let mut kept: Vec<usize> = Vec::new();
    let mut used = 0;
    for n in by_importance.filter(|n| *n < hints.len()) {
        used += hints[n].width() + if kept.is_empty() { 0 } else { 2 };
        if used > width && !kept.is_empty() {
            break;
        }
        kept.push(n);
    }
    kept.sort_unstable();
    fit(
        &kept
            .iter()
            .map(|n| hints[*n].as_str())
            .collect::<Vec<_>>()
            .join("  "),
        width,
    )
}

/// The first text that fits; texts get shorter. The last one is cut if none fits.
pub fn first_that_fits(words: &[&str], width: usize) -> String {
    let fits = words.iter().find(|words| words.width() <= width);
    fit(fits.or(words.last()).unwrap_or(&""), width)
}

/// Highlights the text that was searched for, which is in lower case.
pub fn mark_matches(query: &str, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
    for y in area.top()..area.bottom() {
        let mut row = String::new();
        let mut columns = Vec::new();
        for x in area.left()..area.right() {
            let symbol = buffer[(x, y)].symbol().to_lowercase();
            columns.extend(std::iter::repeat_n(x, symbol.len()));
            row.push_str(&symbol);
        }
        for (at, _) in row.match_indices(query) {
            for x in &columns[at..at + query.len()] {
                buffer[(*x, y)].set_style(theme.style(ThemeRole::Selected));
            }
        }
    }
}

/// What a row with keys looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyRow {
    /// Several keys, each with its meaning: `enter open  e next error`.
    Hints,
    /// One key and what it does: `y      stop now`.
    Answer,
}

/// The key that a drawn row has at this column.
pub fn key_in_row(buffer: &Buffer, kind: KeyRow, column: u16, row: u16) -> Option<KeyEvent> {
    let area = buffer.area;
    if !area.contains((column, row).into()) {
        return None;
    }
    let cells: Vec<&str> = (area.left()..area.right())
        .map(|x| buffer[(x, row)].symbol())
        .collect();
    let at = usize::from(column - area.left());
    let is_blank = |n: usize| cells.get(n).is_none_or(|cell| *cell == " ");
    // One space is inside a hint, two are between two hints.
    let is_gap = |n: usize| match kind {
        KeyRow::Hints => is_blank(n) && (is_blank(n + 1) || n == 0 || is_blank(n - 1)),
        KeyRow::Answer => false,
    };
    let is_edge = |n: &usize| is_frame(cells[*n]) || is_gap(*n);
    if is_edge(&at) {
        return None;
    }
    let start = (0..at).rev().find(is_edge).map_or(0, |edge| edge + 1);
    let end = (at..cells.len()).find(is_edge).unwrap_or(cells.len());
    key_named(cells[start..end].concat().split_whitespace().next()?)
}

/// Whether a cell belongs to the frame of a dialog or a pane, with or without Unicode.
fn is_frame(cell: &str) -> bool {
    cell.chars()
        .all(|c| c == '|' || ('\u{2500}'..='\u{257f}').contains(&c))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossterm::event::{KeyCode, KeyModifiers};

    #[test]
    fn where_there_is_little_room_the_least_important_keys_go() {
        let hints = ["enter answer", "right choose", "e edit", "esc aside"].map(String::from);
        let shown = |width| keys_that_fit(&hints, width);
        assert_eq!(shown(80), "enter answer  right choose  e edit  esc aside");
        assert_eq!(shown(40), "enter answer  right choose  esc aside");
        assert_eq!(shown(32), "enter answer  esc aside");
        assert_eq!(shown(24), "enter answer  esc aside");
        assert_eq!(shown(20), "enter answer");
        assert_eq!(shown(8), "enter a…");
        assert_eq!(keys_that_fit(&hints[..1], 80), "enter answer");
        assert_eq!(keys_that_fit(&[], 80), "");
    }

    fn pressed(row: &str, kind: KeyRow, at: &str) -> Option<KeyEvent> {
        let buffer = Buffer::with_lines([row]);
        let before = row.split_once(at).expect("part of the row").0;
        key_in_row(
            &buffer,
            kind,
            u16::try_from(before.chars().count()).expect("short"),
            0,
        )
    }

    #[test]
    fn a_click_on_a_hint_or_on_its_key_presses_the_key() {
        let row = " enter open  e next error  ctrl-s done  PgDn more  1-5 choose  ? keys ";
        let key = |at| pressed(row, KeyRow::Hints, at);
        let plain = |code| Some(KeyEvent::new(code, KeyModifiers::NONE));
        assert_eq!(key("enter"), plain(KeyCode::Enter));
        assert_eq!(key("open"), plain(KeyCode::Enter));
        assert_eq!(key("e next"), plain(KeyCode::Char('e')));
        assert_eq!(key("error"), plain(KeyCode::Char('e')));
        assert_eq!(
            key("done"),
            Some(KeyEvent::new(KeyCode::Char('s'), KeyModifiers::CONTROL))
        );
        assert_eq!(key("more"), plain(KeyCode::PageDown));
        assert_eq!(key("keys"), plain(KeyCode::Char('?')));
        assert_eq!(key("  e next"), None);
        assert_eq!(key("choose"), None);
    }

    #[test]
    fn an_answer_is_its_whole_row_inside_the_frame() {
        let row = "  y here ║y      stop now: cancel the turn    ║ ";
        assert_eq!(
            pressed(row, KeyRow::Answer, "cancel").map(|key| key.code),
            Some(KeyCode::Char('y'))
        );
        assert_eq!(pressed(row, KeyRow::Answer, "║"), None);
        let ascii = pressed("|y      stop now     |", KeyRow::Answer, "now");
        assert_eq!(ascii.map(|key| key.code), Some(KeyCode::Char('y')));
        assert_eq!(
            pressed("║The session runs.   ║", KeyRow::Answer, "runs"),
            None
        );
    }
}
