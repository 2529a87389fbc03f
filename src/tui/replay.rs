//! A past session, watched again: where one is in it, and when the next record is due.

use crate::{
    engine::{
        event::{AutomationEvent, Event, RetryEvent, SessionEvent, TurnEvent},
        time::{TimeSpan, UnixTime},
    },
    journal::Record,
    tui::journal_feed::RecordSpan,
};

/// No pause of the past is watched for longer.
const LONGEST_PAUSE: TimeSpan = TimeSpan(2_000);

/// What is known of a record without its text.
#[derive(Debug, Clone, Copy)]
pub struct ReplayMark {
    /// Where it lies.
    pub spot: RecordSpan,
    at: UnixTime,
    iteration: bool,
    error: bool,
}

/// Plays a past session.
#[derive(Debug, Default)]
pub struct ReplayPlayer {
    marks: Vec<ReplayMark>,
    /// How many records have been shown.
    pub shown: usize,
    playing: bool,
    /// Twice as fast, four times, …: the power of two.
    speed: i32,
    due: Option<UnixTime>,
}

impl ReplayPlayer {
    /// Adds a record to what can be played.
    pub fn add(&mut self, spot: RecordSpan, record: &Record) {
        let error = matches!(
            record.event,
            Event::Turn(TurnEvent::Failed { .. })
                | Event::Retry(RetryEvent::LimitReached { .. })
                | Event::Automation(AutomationEvent::HookError { .. })
        );
        let iteration = matches!(record.event, Event::Session(SessionEvent::IterationStarted { .. }));
        self.marks.push(ReplayMark { spot, at: record.at, iteration, error });
    }

    /// The marks from where it is up to a target.
    pub fn between(&self, target: usize) -> &[ReplayMark] {
        &self.marks[self.shown.min(self.marks.len())..target.min(self.marks.len())]
    }

    /// How many records there are.
    pub fn len(&self) -> usize {
        self.marks.len()
    }

    /// Whether there is nothing to play.
    pub fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// When the next record is due, if it plays.
    pub fn due(&self) -> Option<UnixTime> {
        self.due
    }

    /// Plays, or holds.
    pub fn toggle(&mut self, now: UnixTime) {
        self.playing = !self.playing && self.shown < self.marks.len();
        self.plan(now);
    }

    /// Changes the speed.
    pub fn change_speed(&mut self, by: i32, now: UnixTime) {
        self.speed = (self.speed + by).clamp(-3, 10);
        self.plan(now);
    }

    /// Plans the next record, after one was shown or something was changed.
    pub fn plan(&mut self, now: UnixTime) {
        let next = self.marks.get(self.shown).filter(|_| self.playing);
        self.due = next.map(|next| {
            let before = self.shown.checked_sub(1).and_then(|n| self.marks.get(n)).map_or(next.at, |mark| mark.at);
            let pause = next.at.since(before).min(LONGEST_PAUSE);
            let shift = self.speed.unsigned_abs();
            now.after(TimeSpan(if self.speed >= 0 { pause.0 >> shift } else { pause.0 << shift }))
        });
        self.playing = self.due.is_some();
    }

    /// The next record of a kind, as a target.
    pub fn next_iteration(&self) -> usize {
        self.next_with(|mark| mark.iteration)
    }

    /// The next error, as a target.
    pub fn next_error(&self) -> usize {
        self.next_with(|mark| mark.error)
    }

    fn next_with(&self, wanted: impl Fn(&ReplayMark) -> bool) -> usize {
        let found = self.marks.iter().skip(self.shown).position(wanted);
        found.map_or(self.marks.len(), |n| self.shown + n + 1)
    }

    /// Where it is, in words.
    pub fn describe(&self) -> String {
        let speed = match self.speed {
            0 => String::new(),
            n if n > 0 => format!(" · {}x", 1 << n),
            n => format!(" · 1/{}x", 1 << -n),
        };
        let state = if self.playing { "plays" } else { "holds" };
        format!("replay {}/{} {state}{speed}", self.shown, self.marks.len())
    }
}
