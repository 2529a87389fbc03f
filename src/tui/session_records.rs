//! How the screen follows a session: new records, its history, live output, and the records of a
//! replay.
//!
//! Owns what is read and when. Does not decide what it means: see [`super::model`].

use std::{fs, io, path::Path};

use crate::{
    engine::SessionState,
    journal::{self, RecordSpan, record::Record},
    process::output,
    runtime::{HookOutputChunk, clock::session_time},
    socket::session_mirror::end,
    tui::{
        Tui,
        model::{ScreenMode, ScreenModel, Toast},
        theme::ThemeRole,
    },
};

impl Tui {
    pub(super) fn on_news(&mut self, over: bool) -> io::Result<()> {
        // No record follows, but the screen stays until the user leaves.
        self.over = over;
        self.read_records()
    }

    pub(super) fn read_records(&mut self) -> io::Result<()> {
        if matches!(self.model.link.mode, ScreenMode::Replay(_)) || self.history.is_some() {
            return Ok(());
        }
        while let Some((spot, record)) = self.feed.next_placed()? {
            self.terminal.changed = true;
            self.model.take(spot, &record);
        }
        self.catch_up();
        self.follow_answer();
        Ok(())
    }

    /// Reads the next part of the history.
    pub(super) fn read_history(&mut self) -> io::Result<()> {
        let Some(history) = &mut self.history else {
            return Ok(());
        };
        let (mut records, mut read) = (Vec::new(), 0);
        while read < PART
            && let Some((spot, record)) = self.feed.next_placed()?
        {
            read += spot.length;
            records.push((spot, record));
        }
        self.terminal.changed = true;
        if !history.take(&records, read >= PART, &mut self.model) {
            self.history = None;
            self.catch_up();
            self.follow_answer();
        }
        Ok(())
    }

    /// Shows the rest of a very long answer, which is in a file until the turn ends and only then
    /// in the journal.
    pub(super) fn follow_answer(&mut self) {
        let turn = self
            .model
            .session
            .as_ref()
            .and_then(|state| state.phase.turn_in_flight())
            .map(|prompt| prompt.turn);
        let Some(turn) = turn.filter(|_| matches!(self.model.link.mode, ScreenMode::Live)) else {
            return;
        };
        let folder = self.source.journal.parent().unwrap_or(Path::new("."));
        let answer = folder.join(format!("outputs/turn-{turn}.log"));
        let (printed, end) = output::live_end(&answer).unwrap_or_else(|| end(&answer));
        if self
            .model
            .stream
            .show_live_end(turn, self.model.now, printed, &end)
        {
            self.model.tallies.times.updated_live(self.model.now);
        }
    }

    /// Reads what running hooks printed before this screen opened.
    pub(super) fn catch_up(&mut self) {
        let folder = self.source.journal.parent().unwrap_or(Path::new("."));
        for run in self.model.runs.unread() {
            let (printed, end) = end(&folder.join(run.output_file()));
            self.model.runs.catch_up(run, printed, &end);
        }
    }

    /// Shows new output of a hook. The record of the hook's start may still be unread.
    pub(super) fn on_live(&mut self, live: &HookOutputChunk) -> io::Result<()> {
        if !self.model.runs.knows(live.run) {
            self.read_records()?;
        }
        self.model.runs.add_output(live.run, live.at, &live.bytes);
        self.terminal.changed = true;
        Ok(())
    }

    pub(super) fn on_tick(&mut self) -> io::Result<()> {
        self.model.now = session_time();
        self.terminal.changed = true;
        // Between two records, only the spinner moves.
        if let ScreenMode::Replay(player) = &self.model.link.mode
            && player.due().is_some_and(|due| due <= self.model.now)
        {
            let target = player.shown + 1;
            self.seek(target)?;
        }
        self.follow_answer();
        Ok(())
    }

    pub(super) fn load_replay(&mut self) -> io::Result<()> {
        let ScreenMode::Replay(player) = &mut self.model.link.mode else {
            return Ok(());
        };
        while let Some((spot, record)) = self.feed.next_placed()? {
            player.add(spot, &record);
        }
        self.model.now = session_time();
        self.seek(1)?;
        if let ScreenMode::Replay(player) = &mut self.model.link.mode {
            player.toggle(session_time());
        }
        Ok(())
    }

    /// Shows a past session up to a record.
    pub(super) fn seek(&mut self, target: usize) -> io::Result<()> {
        self.terminal.changed = true;
        let ScreenMode::Replay(player) = &mut self.model.link.mode else {
            return Ok(());
        };
        let target = target.min(player.len());
        let back = target < player.shown;
        if back {
            player.shown = 0;
        }
        let spots: Vec<RecordSpan> = player
            .between(target)
            .iter()
            .map(|mark| mark.spot)
            .collect();
        player.shown = target;
        player.plan(session_time());
        if back {
            self.model.start_over();
        }
        for spot in spots {
            let record = self.feed.again(spot)?;
            self.model.take(spot, &record);
        }
        Ok(())
    }
}

/// How many bytes of the history are read at a time, so that it does not block the screen.
const PART: u64 = 1 << 20;
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
    fn take(
        &mut self,
        records: &[(RecordSpan, Record)],
        more: bool,
        model: &mut ScreenModel,
    ) -> bool {
        std::mem::swap(&mut model.session, &mut self.past);
        for (spot, record) in records {
            model.take(*spot, record);
        }
        if !more {
            // All records are read, so this is the state now.
            model.toast = self.toast.take();
            model.order_hooks();
            return false;
        }
        std::mem::swap(&mut model.session, &mut self.past);
        model.order_hooks();
        if let Some((RecordSpan { offset, length }, _)) = records.last() {
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
        journal::RecordTail,
        tui::{keymap::Keymap, model::ScreenMode, theme::ScreenTheme},
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
        let mut feed = RecordTail::open(&journal).expect("a journal");
        let whole: Vec<_> = std::iter::from_fn(|| feed.next_placed().expect("a record")).collect();
        let mut expected = model();
        for (spot, record) in &whole {
            expected.take(*spot, record);
        }
        let present = expected.session.clone().expect("a session");
        let mut shown = model();
        let mut history = UnreadHistory::begin(
            present.clone(),
            fs::metadata(&journal).expect("a file").len(),
            &mut shown,
        );
        for (number, record) in whole.into_iter().enumerate() {
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
            assert!(history.take(&[record], true, &mut shown));
        }
        assert!(!history.take(&[], false, &mut shown));
        assert_eq!(shown.session.as_ref(), Some(&present));
        assert_eq!((shown.attempts, shown.toast), (expected.attempts, None));
        assert_eq!(shown.item_spots, expected.item_spots);
        assert_eq!(
            format!("{:?}", shown.stream),
            format!("{:?}", expected.stream)
        );
    }
}
