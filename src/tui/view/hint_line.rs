//! The line above the footer that explains what happens.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::{Line, Span},
    widgets::Widget as _,
};
use unicode_width::UnicodeWidthStr as _;

use crate::{
    process::playback_pace::PlaybackMode,
    tui::{
        keymap::KeyAction,
        modals::Modal,
        model::ScreenModel,
        text::fit,
        theme::{ScreenTheme, ThemeRole},
    },
};

/// Columns and rows. A smaller screen needs its rows for the session.
const SMALLEST: (u16, u16) = (80, 24);

/// Whether a screen of this size has the line.
pub(super) fn is_shown(model: &ScreenModel, area: Rect) -> bool {
    area.width >= SMALLEST.0 && area.height >= SMALLEST.1 && model.hint().is_some()
}

pub(super) fn draw(model: &ScreenModel, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
    let Some(text) = model.hint().filter(|_| area.height > 0) else {
        return;
    };
    let (sign, role) = sign(model);
    let room = usize::from(area.width).saturating_sub(sign.width());
    let hide = hide(model, area);
    let text = fit(text, room);
    let gap = room.saturating_sub(text.width() + width(&hide));
    let mut spans = vec![
        Span::styled(sign, theme.style(role)),
        Span::styled(text, theme.style(ThemeRole::Heading)),
        Span::raw(" ".repeat(gap)),
    ];
    spans.extend(
        hide.into_iter()
            .map(|(text, role)| Span::styled(text, theme.style(role))),
    );
    Line::from(spans).render(area, buffer);
}

fn sign(model: &ScreenModel) -> (&'static str, ThemeRole) {
    match model.plays_demo().map(|pace| pace.mode) {
        Some(PlaybackMode::Paused) => (" ⏸ ", ThemeRole::Warning),
        Some(PlaybackMode::Play | PlaybackMode::Fast) | None => (" » ", ThemeRole::Key),
    }
}

/// The words that hide the line, if there is room for them: the sentence matters more. A gate has
/// its own meaning for the key, so there only a click hides the line.
fn hide(model: &ScreenModel, area: Rect) -> Vec<(String, ThemeRole)> {
    let Some(text) = model.hint().filter(|_| model.demo.is_none()) else {
        return Vec::new();
    };
    let is_at_gate = matches!(model.modals.last(), Some(Modal::Gate(_)));
    let key = if is_at_gate {
        "×".to_owned()
    } else {
        model.keymap.key(KeyAction::Hints)
    };
    let hide = vec![
        (key, ThemeRole::Key),
        (" hide ".to_owned(), ThemeRole::Faint),
    ];
    let has_room =
        sign(model).0.width() + text.width() + 2 + width(&hide) <= usize::from(area.width);
    if has_room && !hide[0].0.is_empty() {
        hide
    } else {
        Vec::new()
    }
}

fn width(spans: &[(String, ThemeRole)]) -> usize {
    spans.iter().map(|(text, _)| text.width()).sum()
}

/// Whether the words that hide the line are in this column.
pub(super) fn hides(model: &ScreenModel, area: Rect, column: u16) -> bool {
    let words = u16::try_from(width(&hide(model, area))).unwrap_or(0);
    column >= area.right().saturating_sub(words) && column < area.right()
}
