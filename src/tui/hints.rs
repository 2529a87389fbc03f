//! Whether the line above the footer explains what happens, and what it says.
//!
//! The sentences are in [`crate::present::session_hint`]. How many sessions had the line is in
//! [`super::memory::HintMemory`].
//!
//! # Invariants
//! - A replay has no such line.

use super::{
    memory::HintMemory,
    model::{ScreenMode, ScreenModel},
    update::ScreenRequest,
};
use crate::{
    config::HintMode,
    engine::event::{Event, SessionEvent},
    present::session_hint::SessionHint,
    process::playback_pace::{PlaybackMode, PlaybackPace},
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
        let is_live = matches!(self.mode, ScreenMode::Live);
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
            .filter(|_| matches!(self.mode, ScreenMode::Live))?;
        let shown = match (self.hint.chosen, self.hint.mode) {
            (Some(HintVisibility::Shown), _) | (None, HintMode::Always) => true,
            (Some(HintVisibility::Hidden), _) | (None, HintMode::Never) => false,
            (None, HintMode::Auto) => self.memory.hints.covers(&session.began.id),
        };
        self.hint.session.text().filter(|_| shown)
    }

    /// Hides the line, in later sessions too, or shows it again.
    pub fn switch_hint(&mut self) -> Vec<ScreenRequest> {
        if matches!(self.mode, ScreenMode::Replay(_)) {
            return Vec::new();
        }
        let is_shown = self.hint().is_some();
        self.hint.chosen = Some(if is_shown {
            HintVisibility::Hidden
        } else {
            HintVisibility::Shown
        });
        self.memory.hints.dismissed = is_shown;
        vec![ScreenRequest::Remember]
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
        self.demo
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
