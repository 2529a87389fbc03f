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
    let Some(text) = model.hint().filter(|_| area.height > 0) else { return };
    let (sign, role) = match model.plays_demo().map(|pace| pace.mode) {
        Some(PlaybackMode::Paused) => (" ⏸ ", ThemeRole::Warning),
        Some(PlaybackMode::Play | PlaybackMode::Fast) | None => (" » ", ThemeRole::Key),
    };
    let key = if model.demo.is_some() { String::new() } else { model.keymap.key(KeyAction::Hints) };
    let hide =
        if key.is_empty() { Vec::new() } else { vec![(key, ThemeRole::Key), (" hide ".to_owned(), ThemeRole::Faint)] };
    let width = |spans: &[(String, ThemeRole)]| spans.iter().map(|(text, _)| text.width()).sum::<usize>();
    let room = usize::from(area.width).saturating_sub(sign.width());
    // The sentence matters more than the key, which the help page has as well.
    let hide = if text.width() + 2 + width(&hide) <= room { hide } else { Vec::new() };
    let text = fit(text, room);
    let gap = room.saturating_sub(text.width() + width(&hide));
    let mut spans = vec![
        Span::styled(sign, theme.style(role)),
        Span::styled(text, theme.style(ThemeRole::Heading)),
        Span::raw(" ".repeat(gap)),
    ];
    spans.extend(hide.into_iter().map(|(text, role)| Span::styled(text, theme.style(role))));
    Line::from(spans).render(area, buffer);
}
