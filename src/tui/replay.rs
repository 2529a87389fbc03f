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
    present::text::running_clock,
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
    /// How long the replay takes up to here, at its usual speed.
    elapsed: TimeSpan,
    /// How many iterations and errors there are up to here.
    iterations: usize,
    errors: usize,
}

/// A cell of the scrubber.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScrubberCell {
    /// The shown record.
    Here,
    /// Something went wrong in it.
    Error,
    /// An iteration begins in it.
    Iteration,
    Played,
    Ahead,
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
        let before = self.marks.last();
        let elapsed = before.map_or(TimeSpan::default(), |before| {
            let pause = Self::pause(record.at.since(before.at));
            TimeSpan(before.elapsed.0.saturating_add(pause.0))
        });
        let iterations = before.map_or(0, |before| before.iterations) + usize::from(iteration);
        let errors = before.map_or(0, |before| before.errors) + usize::from(error);
        self.marks.push(ReplayMark {
            spot,
            at: record.at,
            iteration,
            error,
            elapsed,
            iterations,
            errors,
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
        let (at, whole) = (self.time(), self.whole());
        format!(
            "replay {} of {} {state}{speed}",
            running_clock(at),
            running_clock(whole)
        )
    }

    /// How long the session had taken by the shown record.
    fn time(&self) -> TimeSpan {
        let shown = self.shown.checked_sub(1).and_then(|n| self.marks.get(n));
        let first = self.marks.first();
        shown
            .zip(first)
            .map_or(TimeSpan::default(), |(shown, first)| {
                shown.at.since(first.at)
            })
    }

    fn whole(&self) -> TimeSpan {
        let ends = self.marks.last().zip(self.marks.first());
        ends.map_or(TimeSpan::default(), |(last, first)| last.at.since(first.at))
    }

    /// The first record of a cell, of this many cells. Each cell takes as long to play.
    fn first_of(&self, cell: usize, width: usize) -> usize {
        let whole = self.marks.last().map_or(0, |last| last.elapsed.0);
        let (cell, width) = (cell as u64, width.max(1) as u64);
        let from = whole.saturating_mul(cell) / width;
        if cell >= width {
            return self.marks.len();
        }
        self.marks.partition_point(|mark| mark.elapsed.0 < from)
    }

    /// The whole session in this many cells. It costs the same for every session.
    pub fn cells(&self, width: usize) -> Vec<ScrubberCell> {
        let shown = self.shown.saturating_sub(1);
        let at = (0..width)
            .rev()
            .find(|cell| self.first_of(*cell, width) <= shown)
            .unwrap_or(0);
        let up_to = |mark: usize| {
            let before = mark.checked_sub(1).and_then(|n| self.marks.get(n));
            before.map_or((0, 0), |mark| (mark.iterations, mark.errors))
        };
        (0..width)
            .map(|cell| {
                let (from, to) = (self.first_of(cell, width), self.first_of(cell + 1, width));
                let (before, after) = (up_to(from), up_to(to));
                if cell == at {
                    ScrubberCell::Here
                } else if after.1 > before.1 {
                    ScrubberCell::Error
                } else if after.0 > before.0 {
                    ScrubberCell::Iteration
                } else if cell < at {
                    ScrubberCell::Played
                } else {
                    ScrubberCell::Ahead
                }
            })
            .collect()
    }

    /// The position that a cell stands for.
    pub fn position_of(&self, cell: usize, width: usize) -> usize {
        (self.first_of(cell, width) + 1).min(self.marks.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A session of records at these seconds; those in the second list are errors.
    fn player(seconds: &[i64], errors: &[usize]) -> ReplayPlayer {
        let mut player = ReplayPlayer::default();
        for (n, second) in seconds.iter().enumerate() {
            let event = if errors.contains(&n) {
                Event::Retry(RetryEvent::LimitReached {
                    used: 1,
                    limit: 1,
                    hook: "tests".to_owned(),
                })
            } else {
                Event::Session(SessionEvent::Warning {
                    text: String::new(),
                })
            };
            let record = Record {
                v: 1,
                seq: n as u64 + 1,
                at: UnixTime(second * 1_000),
                session: "s".to_owned(),
                event,
                chain: None,
            };
            let spot = RecordSpan {
                offset: 0,
                length: 0,
            };
            player.add(spot, &record);
        }
        player
    }

    #[test]
    fn a_long_pause_of_the_session_is_short_on_the_scrubber() {
        let mut player = player(&[0, 1, 3_601, 3_602], &[2]);
        player.shown = 2;
        assert_eq!(player.describe(), "replay 0:01 of 1:00:02 paused");
        let signs = |player: &ReplayPlayer| -> String {
            let sign = |cell: &ScrubberCell| match cell {
                ScrubberCell::Here => 'o',
                ScrubberCell::Error => 'x',
                ScrubberCell::Iteration => 'i',
                ScrubberCell::Played => '=',
                ScrubberCell::Ahead => '-',
            };
            player.cells(8).iter().map(sign).collect()
        };
        assert_eq!(signs(&player), "==o---x-");
        player.shown = 4;
        assert!(signs(&player).ends_with('o'), "{}", signs(&player));
        assert_eq!(player.position_of(0, 8), 1);
        assert_eq!(player.position_of(7, 8), 4);
    }
}
