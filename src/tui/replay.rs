//! Replays a past session: the position in it, and when the next record is due.

use crate::{
    engine::{
        event::{
            AutomationEvent, Event, HookEvent, RetryEvent, SessionEvent, StopEvent, TurnEvent,
        },
        hooks::verdict::Verdict,
        time::{TimeSpan, UnixTime},
    },
    journal::{Record, RecordSpan},
};

/// Longer pauses of the session are shortened to this.
const LONGEST_PAUSE: TimeSpan = TimeSpan(2_000);

/// A record without its text.
#[derive(Debug, Clone, Copy)]
pub struct ReplayMark {
    pub spot: RecordSpan,
    at: UnixTime,
    iteration: bool,
    error: bool,
}

#[derive(Debug, Default)]
pub struct ReplayPlayer {
    marks: Vec<ReplayMark>,
    pub shown: usize,
    playing: bool,
    /// The exponent of two: 1 is twice as fast, -1 half as fast.
    speed: i32,
    due: Option<UnixTime>,
}

/// Whether a hook or a rule blocked, failed, timed out or could not run.
fn did_not_pass(event: &Event) -> bool {
    if let Event::Hook(HookEvent::Finished(finished)) = event {
        finished.verdict != Verdict::Pass
    } else {
        matches!(
            event,
            Event::Stop(StopEvent::RuleChecked { passed: false, .. })
        )
    }
}

impl ReplayPlayer {
    pub fn add(&mut self, spot: RecordSpan, record: &Record) {
        let error = matches!(
            record.event,
            Event::Turn(TurnEvent::Failed { .. })
                | Event::Retry(RetryEvent::LimitReached { .. })
                | Event::Automation(AutomationEvent::HookError { .. })
        ) || did_not_pass(&record.event);
        let iteration = matches!(
            record.event,
            Event::Session(SessionEvent::IterationStarted { .. })
        );
        self.marks.push(ReplayMark {
            spot,
            at: record.at,
            iteration,
            error,
        });
    }

    /// The records from the current position up to a target.
    pub fn between(&self, target: usize) -> &[ReplayMark] {
        &self.marks[self.shown.min(self.marks.len())..target.min(self.marks.len())]
    }

    pub(crate) fn len(&self) -> usize {
        self.marks.len()
    }

    /// When the next record is due. None while paused.
    pub fn due(&self) -> Option<UnixTime> {
        self.due
    }

    /// Plays or pauses.
    pub fn toggle(&mut self, now: UnixTime) {
        self.playing = !self.playing && self.shown < self.marks.len();
        self.plan(now);
    }

    pub fn change_speed(&mut self, by: i32, now: UnixTime) {
        self.speed = (self.speed + by).clamp(-3, 10);
        self.plan(now);
    }

    /// Schedules the next record, after one was shown or the speed changed.
    pub fn plan(&mut self, now: UnixTime) {
        let next = self.marks.get(self.shown).filter(|_| self.playing);
        self.due = next.map(|next| {
            let before = self
                .shown
                .checked_sub(1)
                .and_then(|n| self.marks.get(n))
                .map_or(next.at, |mark| mark.at);
            let pause = Self::pause(next.at.since(before));
            let shift = self.speed.unsigned_abs();
            now.after(TimeSpan(if self.speed >= 0 {
                pause.0 >> shift
            } else {
                pause.0 << shift
            }))
        });
        self.playing = self.due.is_some();
    }

    /// How long a replay waits where the session took this time.
    pub fn pause(took: TimeSpan) -> TimeSpan {
        took.min(LONGEST_PAUSE)
    }

    pub fn is_playing(&self) -> bool {
        self.playing
    }

    /// The position after the next iteration's first record.
    pub fn next_iteration(&self) -> Option<usize> {
        self.next_with(|mark| mark.iteration)
    }

    /// The position after the next error.
    pub fn next_error(&self) -> Option<usize> {
        self.next_with(|mark| mark.error)
    }

    fn next_with(&self, wanted: impl Fn(&ReplayMark) -> bool) -> Option<usize> {
        self.marks
            .iter()
            .skip(self.shown)
            .position(wanted)
            .map(|n| self.shown + n + 1)
    }

    pub fn describe(&self) -> String {
        let speed = match self.speed {
            0 => String::new(),
            n if n > 0 => format!(" · {}x", 1 << n),
            n => format!(" · 1/{}x", 1 << -n),
        };
        let state = if self.playing { "playing" } else { "paused" };
        format!("replay {}/{} {state}{speed}", self.shown, self.marks.len())
    }
}
