//! How the screen follows a session: new records, its history, live output, and the records of a
//! replay.
//!
//! Owns what is read and when. Does not decide what it means: see [`super::model`].

use std::{io, path::Path};

use super::{Tui, journal_feed::RecordSpan, model::ScreenMode};
use crate::{
    runtime::{HookOutputChunk, clock::session_time},
    socket::running_output::end,
};

impl Tui {
    pub(super) fn on_news(&mut self, over: bool) -> io::Result<()> {
        // No record follows, but the screen stays until the user leaves.
        self.over = over;
        self.read_records()
    }

    pub(super) fn read_records(&mut self) -> io::Result<()> {
        if matches!(self.model.mode, ScreenMode::Replay(_)) || self.history.is_some() {
            return Ok(());
        }
        loop {
            let batch = self.feed.read()?;
            self.terminal.changed |= !batch.records.is_empty();
            for (spot, record) in &batch.records {
                self.model.take(*spot, record);
            }
            if !batch.more {
                break;
            }
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
        let batch = self.feed.read()?;
        self.terminal.changed = true;
        if !history.take(&batch, &mut self.model) {
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
        let Some(turn) = turn.filter(|_| matches!(self.model.mode, ScreenMode::Live)) else {
            return;
        };
        let folder = self.source.journal.parent().unwrap_or(Path::new("."));
        let (printed, end) = end(&folder.join(format!("outputs/turn-{turn}.log")));
        if self
            .model
            .stream
            .show_live_end(turn, self.model.now, printed, &end)
        {
            self.model.times.heard_live(self.model.now);
        }
    }

    /// Reads what running hooks printed before this screen opened.
    pub(super) fn catch_up(&mut self) {
        let folder = self.source.journal.parent().unwrap_or(Path::new("."));
        for run in self.model.runs.unheard() {
            let (printed, end) = end(&folder.join(run.output_file()));
            self.model.runs.catch_up(run, printed, &end);
        }
    }

    /// Shows new output of a hook. The record of the hook's start may still be unread.
    pub(super) fn on_live(&mut self, live: &HookOutputChunk) -> io::Result<()> {
        if !self.model.runs.knows(live.run) {
            self.read_records()?;
        }
        self.model.runs.overhear(live.run, live.at, &live.bytes);
        self.terminal.changed = true;
        Ok(())
    }

    pub(super) fn on_tick(&mut self) -> io::Result<()> {
        self.model.now = session_time();
        self.terminal.changed = true;
        // Between two records, only the spinner moves.
        if let ScreenMode::Replay(player) = &self.model.mode
            && player.due().is_some_and(|due| due <= self.model.now)
        {
            let target = player.shown + 1;
            self.seek(target)?;
        }
        self.follow_answer();
        Ok(())
    }

    pub(super) fn load_replay(&mut self) -> io::Result<()> {
        let ScreenMode::Replay(player) = &mut self.model.mode else {
            return Ok(());
        };
        loop {
            let batch = self.feed.read()?;
            for (spot, record) in &batch.records {
                player.add(*spot, record);
            }
            if !batch.more {
                break;
            }
        }
        self.model.now = session_time();
        self.seek(1)?;
        if let ScreenMode::Replay(player) = &mut self.model.mode {
            player.toggle(session_time());
        }
        Ok(())
    }

    /// Shows a past session up to a record.
    pub(super) fn seek(&mut self, target: usize) -> io::Result<()> {
        self.terminal.changed = true;
        let ScreenMode::Replay(player) = &mut self.model.mode else {
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
