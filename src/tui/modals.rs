//! Dialogs over the panes: gates, the editor, viewers, help, the palette, questions.

pub mod cancel;
pub mod choice_question;
pub mod editor;
pub mod gate;
pub mod help;
pub mod palette;
pub mod quit;
pub mod remove;
pub mod search;
pub mod viewer;

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::Line,
    widgets::{Block, BorderType, Clear, Widget as _},
};

use super::{
    text::fit,
    theme::{ScreenTheme, ThemeRole},
};
use crate::engine::input::SessionCommand;
use unicode_width::UnicodeWidthStr as _;

/// A dialog over the panes. It receives the keys.
#[derive(Debug)]
pub enum Modal {
    Gate(Box<gate::GateModal>),
    Editor(Box<editor::EditorModal>),
    Viewer(Box<viewer::ViewerModal>),
    Help(help::HelpModal),
    Palette(palette::PaletteModal),
    Search(search::SearchModal),
    Quit(Box<choice_question::ChoiceQuestion<quit::LeaveChoice>>),
    Remove(Box<choice_question::ChoiceQuestion<SessionCommand>>),
    Cancel(Box<choice_question::ChoiceQuestion<SessionCommand>>),
}

/// Clears the area and draws a frame; returns the area inside.
pub(super) fn framed(
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
        .title(Line::styled(format!(" {title} "), theme.style(role)));
    let inside = block.inner(area);
    block.render(area, buffer);
    inside
}

/// A centred area of this size. Small screens are used completely.
pub(super) fn middle(area: Rect, width: u16, height: u16) -> Rect {
    let width = if area.width < 60 {
        area.width
    } else {
        width.min(area.width)
    };
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
pub(super) fn keys_that_fit(hints: &[String], width: usize) -> String {
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
pub(super) fn first_that_fits(words: &[&str], width: usize) -> String {
    let fits = words.iter().find(|words| words.width() <= width);
    fit(fits.or(words.last()).unwrap_or(&""), width)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
