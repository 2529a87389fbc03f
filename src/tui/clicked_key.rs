//! A click on a key that the screen shows does what the key does.
//!
//! Reads the key from a drawn row, so that every hint works without a list of its own. Does not
//! know which rows have hints: its callers do.

use crossterm::event::KeyEvent;
use ratatui::buffer::Buffer;

use super::keymap::key_named;

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
    use crossterm::event::{KeyCode, KeyModifiers};

    use super::*;

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
