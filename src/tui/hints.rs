//! Whether the line above the footer explains what happens, and what it says.
//!
//! The sentences are in [`crate::present::session_hint`]. How many sessions had the line is in
//! [`super::memory::HintMemory`].
//!
//! # Invariants
//! - A replay has no such line.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::{Line, Span},
    widgets::Widget as _,
};
use unicode_width::UnicodeWidthStr as _;

use crate::{
    config::HintMode,
    engine::event::{Event, SessionEvent},
    present::session_hint::SessionHint,
    process::playback_pace::{PlaybackMode, PlaybackPace},
    tui::{
        keymap::GlobalKey,
        memory::HintMemory,
        modals::Modal,
        model::{ScreenMode, ScreenModel},
        request::ScreenRequest,
        text::{fit, wrap},
        theme::{ScreenTheme, ThemeRole},
    },
};

#[derive(Debug)]
pub struct HintModel {
    pub mode: HintMode,
    /// What the user chose on this screen. It counts more than the mode.
    chosen: Option<HintVisibility>,
    session: SessionHint,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HintVisibility {
    Shown,
    Hidden,
}

impl Default for HintModel {
    /// Without the line, until the config says something else.
    fn default() -> Self {
        Self {
            mode: HintMode::Never,
            chosen: None,
            session: SessionHint::default(),
        }
    }
}

impl ScreenModel {
    /// Follows an event that the session's state already contains.
    pub(super) fn follow_hint(&mut self, event: &Event) {
        let Some(state) = &self.session else { return };
        self.hint.session.follow(event, state);
        let is_live = matches!(self.link.mode, ScreenMode::Live);
        if let (Event::Session(SessionEvent::Started(began)), true, HintMode::Auto) =
            (event, is_live, self.hint.mode)
        {
            self.memory.hints.see(&began.id);
        }
    }

    /// The line above the footer, if there is one.
    pub fn hint(&self) -> Option<&str> {
        let session = self
            .session
            .as_ref()
            .filter(|_| matches!(self.link.mode, ScreenMode::Live))?;
        let shown = match (self.hint.chosen, self.hint.mode) {
            (Some(HintVisibility::Shown), _) | (None, HintMode::Always) => true,
            (Some(HintVisibility::Hidden), _) | (None, HintMode::Never) => false,
            (None, HintMode::Auto) => self.memory.hints.covers(&session.began.id),
        };
        self.hint.session.text().filter(|_| shown)
    }

    /// Hides the line, in later sessions too, or shows it again.
    pub fn switch_hint(&mut self) {
        if matches!(self.link.mode, ScreenMode::Replay(_)) {
            return;
        }
        let is_shown = self.hint().is_some();
        self.hint.chosen = Some(if is_shown {
            HintVisibility::Hidden
        } else {
            HintVisibility::Shown
        });
        self.memory.hints.dismissed = is_shown;
        self.request(ScreenRequest::Remember);
    }

    /// Forgets the sentence, when a replay starts over.
    pub(super) fn forget_hint(&mut self) {
        self.hint.session = SessionHint::default();
    }

    /// Whether a demo plays that the viewer can pause and skip: not before and after its session.
    pub fn plays_demo(&self) -> Option<PlaybackPace> {
        let is_running = self
            .session
            .as_ref()
            .is_some_and(|state| state.phase.outcome().is_none());
        self.link
            .demo
            .filter(|pace| is_running && pace.mode != PlaybackMode::Fast)
    }
}

impl HintMemory {
    /// In how many sessions the line is shown by itself.
    const SESSIONS: usize = 3;

    /// Counts a session once, however many screens show it.
    fn see(&mut self, session: &str) {
        if self.sessions.len() < Self::SESSIONS && !self.covers(session) {
            self.sessions.push(session.to_owned());
        }
    }

    fn covers(&self, session: &str) -> bool {
        !self.dismissed && self.sessions.iter().any(|seen| seen == session)
    }
}

/// Columns and rows. A smaller screen needs its rows for the session.
const SMALLEST: (u16, u16) = (80, 24);
/// The same for a demo, which is there to be explained.
const SMALLEST_DEMO: (u16, u16) = (60, 16);

/// How many rows the line has on a screen of this size. The captions of a demo are never cut.
pub(super) fn hint_rows(model: &ScreenModel, area: Rect) -> u16 {
    let Some(text) = model.hint().filter(|_| has_hint_line(model, area)) else {
        return 0;
    };
    let room = usize::from(area.width).saturating_sub(sign(model).0.width());
    1 + u16::from(model.link.demo.is_some() && text.width() > room)
}

/// Whether a screen of this size has the line.
fn has_hint_line(model: &ScreenModel, area: Rect) -> bool {
    let (width, height) = if model.link.demo.is_some() {
        SMALLEST_DEMO
    } else {
        SMALLEST
    };
    area.width >= width && area.height >= height && model.hint().is_some()
}

pub(super) fn draw_hint_line(
    model: &ScreenModel,
    theme: &ScreenTheme,
    area: Rect,
    buffer: &mut Buffer,
) {
    let Some(text) = model.hint().filter(|_| area.height > 0) else {
        return;
    };
    let (sign, role) = sign(model);
    let room = usize::from(area.width).saturating_sub(sign.width());
    if area.height > 1 {
        let rows = wrap(
            &[(text.to_owned(), theme.style(ThemeRole::Heading))],
            room,
            0,
        );
        for (n, (mut row, y)) in rows.into_iter().zip(area.top()..area.bottom()).enumerate() {
            let before = if n == 0 { sign } else { "   " };
            row.spans.insert(0, theme.span(role, before));
            row.render(
                Rect {
                    y,
                    height: 1,
                    ..area
                },
                buffer,
            );
        }
        return;
    }
    let hide = hide(model, area);
    let text = fit(text, room);
    let gap = room.saturating_sub(text.width() + width(&hide));
    let mut spans = vec![
        theme.span(role, sign),
        theme.span(ThemeRole::Heading, text),
        Span::raw(" ".repeat(gap)),
    ];
    spans.extend(hide.into_iter().map(|(text, role)| theme.span(role, text)));
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
    let Some(text) = model.hint().filter(|_| model.link.demo.is_none()) else {
        return Vec::new();
    };
    let is_at_gate = matches!(model.modals.last(), Some(Modal::Gate(_)));
    let key = if is_at_gate {
        "×".to_owned()
    } else {
        model.look.keymap.key(GlobalKey::Hints)
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
pub(super) fn hides_hint_line(model: &ScreenModel, area: Rect, column: u16) -> bool {
    let words = u16::try_from(width(&hide(model, area))).unwrap_or(0);
    column >= area.right().saturating_sub(words) && column < area.right()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_sessions_have_hints_each_counted_once() {
        let mut memory = HintMemory::default();
        for session in ["a", "a", "b", "c", "d"] {
            memory.see(session);
        }
        assert!(["a", "b", "c"].iter().all(|session| memory.covers(session)));
        assert!(!memory.covers("d"));
        memory.dismissed = true;
        assert!(!memory.covers("a"));
    }
}
