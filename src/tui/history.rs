//! The records of a long session, read in parts after the first frame.
//!
//! Until all are read, the screen shows the session as its snapshot describes it, and the stream
//! grows.
//!
//! # Invariants
//! - The user never sees or answers a gate of the past: what the session does comes from the
//!   snapshot.

use std::{fs, path::Path};

use crate::{
    engine::SessionState,
    journal,
    tui::{
        journal_feed::{RecordBatch, RecordSpan},
        model::{ScreenModel, Toast},
        theme::ThemeRole,
    },
};

/// Shorter journals are read before the first frame: this takes less than a tenth of a second.
const LONG: u64 = 8 << 20;

#[derive(Debug)]
pub(super) struct UnreadHistory {
    /// The state after the records that were read.
    past: Option<SessionState>,
    /// The journal's length in bytes when the screen opened.
    length: u64,
    /// The message that the progress replaces.
    toast: Option<Toast>,
}

impl UnreadHistory {
    /// Gives the screen the state of a long session with a snapshot. None if its journal is to be
    /// read first.
    pub(super) fn of(journal: &Path, model: &mut ScreenModel) -> Option<Self> {
        let length = fs::metadata(journal).ok()?.len();
        if length < LONG {
            return None;
        }
        let state = journal::quick_fold(journal)?;
        Some(Self::begin(state, length, model))
    }

    fn begin(state: SessionState, length: u64, model: &mut ScreenModel) -> Self {
        model.session = Some(state);
        model.order_hooks();
        let history = Self {
            past: None,
            length,
            toast: model.toast.take(),
        };
        history.say_progress(0, model);
        history
    }

    /// Applies records. Returns whether more are to be read.
    pub(super) fn take(&mut self, batch: &RecordBatch, model: &mut ScreenModel) -> bool {
        std::mem::swap(&mut model.session, &mut self.past);
        for (spot, record) in &batch.records {
            model.take(*spot, record);
        }
        if !batch.more {
            // All records are read, so this is the state now.
            model.toast = self.toast.take();
            model.order_hooks();
            return false;
        }
        std::mem::swap(&mut model.session, &mut self.past);
        model.order_hooks();
        if let Some((RecordSpan { offset, length }, _)) = batch.records.last() {
            self.say_progress(offset + length, model);
        }
        true
    }

    fn say_progress(&self, read: u64, model: &mut ScreenModel) {
        let percent = (read.saturating_mul(100) / self.length.max(1)).min(99);
        model.say(
            ThemeRole::Faint,
            format!("Reading the history… {percent} %"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::ThemeName,
        tui::{journal_feed::JournalFeed, keymap::Keymap, model::ScreenMode, theme::ScreenTheme},
    };

    fn model() -> ScreenModel {
        ScreenModel::new(
            Keymap::standard(),
            ScreenTheme::chosen(ThemeName::Dark, true),
            ScreenMode::Live,
        )
    }

    #[test]
    fn the_screen_shows_the_present_until_it_has_read_the_past() {
        let journal = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/fixtures/journals/0.1.0/retry_gates.jsonl");
        let whole = JournalFeed::open(&journal)
            .and_then(|mut feed| feed.read())
            .expect("a journal");
        let mut expected = model();
        for (spot, record) in &whole.records {
            expected.take(*spot, record);
        }
        let present = expected.session.clone().expect("a session");
        let mut shown = model();
        let mut history = UnreadHistory::begin(
            present.clone(),
            fs::metadata(&journal).expect("a file").len(),
            &mut shown,
        );
        for (number, record) in whole.records.into_iter().enumerate() {
            assert_eq!(
                shown.session.as_ref(),
                Some(&present),
                "after {number} records"
            );
            assert!(
                shown
                    .toast
                    .as_ref()
                    .is_some_and(|toast| toast.text.starts_with("Reading the history…"))
            );
            assert!(history.take(
                &RecordBatch {
                    records: vec![record],
                    more: true
                },
                &mut shown
            ));
        }
        assert!(!history.take(&RecordBatch::default(), &mut shown));
        assert_eq!(shown.session.as_ref(), Some(&present));
        assert_eq!((shown.attempts, shown.toast), (expected.attempts, None));
        assert_eq!(shown.item_spots, expected.item_spots);
        assert_eq!(
            format!("{:?}", shown.stream),
            format!("{:?}", expected.stream)
        );
    }
}
