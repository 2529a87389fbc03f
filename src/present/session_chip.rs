//! The state of a session as one short text with a sign and a meaning, for the screen's header and for lists of sessions.
//!
//! Owns the words and their order of importance. Does not own colours or motion: see `crate::tui`.
//!
//! # Invariants
//! - Every session has exactly one chip. It has a sign and a word, so that nothing is lost without colour.
//! - A session that needs the user or has ended shows no running time, so its chip does not change by itself.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;

use super::{
    clock::{against, running_clock, short_span, time_of_day},
    text::plain_line,
    usage_limits,
};
use crate::engine::{
    SessionState,
    event::{Event, HookEvent, SessionEvent, SessionOutcome, StopEvent, StopTiming, TurnEvent},
    hooks::point::HookPoint,
    ids::RunId,
    retry::RetryWait,
    session::phase::Phase,
    time::{TimeSpan, UnixTime},
};

/// The agent counts as quiet after this time without an update.
const QUIET: TimeSpan = TimeSpan::secs(30);
/// The longest name of a hook in a chip, in characters.
const NAME: usize = 40;

/// The meaning of a chip, which decides its colour and whether it moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChipRole {
    /// The agent works.
    Working,
    /// A hook or a rule runs, or is about to.
    Hook,
    /// The session waits for a backoff or a usage limit.
    Waiting,
    Paused,
    /// The session waits for the user.
    NeedsUser,
    Complete,
    Forced,
    Failed,
    Stopped,
    /// No iterations are left.
    Limit,
}

impl ChipRole {
    /// Whether something works at this moment, so that the chip's clock runs.
    pub const fn is_active(self) -> bool {
        match self {
            Self::Working | Self::Hook => true,
            Self::Waiting
            | Self::Paused
            | Self::NeedsUser
            | Self::Complete
            | Self::Forced
            | Self::Failed
            | Self::Stopped
            | Self::Limit => false,
        }
    }
}

/// The state of a session. Its text is the sign, the word, the time and the note.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateChip {
    pub sign: &'static str,
    pub word: String,
    /// How long, or since when. Empty if neither is known.
    pub time: String,
    /// Something to notice, such as an agent that has been quiet for long. Empty if there is nothing.
    pub note: String,
    pub role: ChipRole,
}

impl StateChip {
    fn new(sign: &'static str, word: impl Into<String>, role: ChipRole) -> Self {
        Self { sign, word: word.into(), time: String::new(), note: String::new(), role }
    }

    #[must_use]
    fn timed(mut self, time: impl Into<String>) -> Self {
        self.time = time.into();
        self
    }

    /// The sign, the word and the time. The note is separate, since it has its own colour.
    pub fn label(&self) -> String {
        let time = if self.time.is_empty() { String::new() } else { format!(" {}", self.time) };
        format!("{} {}{time}", self.sign, self.word)
    }

    /// Everything that the chip says, in one line.
    pub fn text(&self) -> String {
        let note = if self.note.is_empty() { String::new() } else { format!(" · {}", self.note) };
        format!("{}{note}", self.label())
    }
}

/// When the things that chips show began. A fold over records, like the state beside it.
#[derive(Debug, Clone, Default)]
pub struct SessionTimes {
    /// When the current turn began.
    turn: Option<UnixTime>,
    /// When the agent last reported something.
    heard: Option<UnixTime>,
    runs: BTreeMap<RunId, UnixTime>,
    ended: Option<UnixTime>,
}

impl SessionTimes {
    /// Remembers a record.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the other records begin and end nothing that a chip shows")]
    pub fn follow(&mut self, at: UnixTime, event: &Event) {
        match event {
            Event::Turn(TurnEvent::PromptSent(_)) => (self.turn, self.heard) = (Some(at), Some(at)),
            Event::Turn(_) => self.heard = Some(at),
            Event::Hook(HookEvent::Started { run, .. }) | Event::Stop(StopEvent::RuleStarted { run, .. }) => {
                self.runs.insert(*run, at);
            }
            Event::Hook(HookEvent::Finished(finished)) => {
                self.runs.remove(&finished.run);
            }
            Event::Stop(StopEvent::RuleChecked { run, .. }) => {
                self.runs.remove(run);
            }
            Event::Session(SessionEvent::Ended { .. }) => self.ended = Some(at),
            // The runs and the turn of the process that died are over.
            Event::Session(SessionEvent::Resumed { .. }) => *self = Self::default(),
            _ => {}
        }
    }

    /// The agent reported something that is not recorded yet.
    pub fn heard_live(&mut self, at: UnixTime) {
        self.heard = self.heard.max(Some(at));
    }

    /// How long the session took, or has taken so far.
    pub fn elapsed(&self, state: &SessionState, now: UnixTime) -> TimeSpan {
        self.ended.unwrap_or(now).since(state.started)
    }
}

/// The chip of a session at this moment.
pub fn session_chip(state: &SessionState, times: &SessionTimes, now: UnixTime, zone: &TimeZone) -> StateChip {
    if let Some(outcome) = state.phase.outcome() {
        return ended(outcome).timed(running_clock(times.elapsed(state, now)));
    }
    if let Some(gate) = &state.gates.open {
        let word = format!("NEEDS YOU: {}", gate.kind().name().replace('_', " "));
        return StateChip::new("◆", word, ChipRole::NeedsUser)
            .timed(format!("since {}", time_of_day(gate.opened, zone)));
    }
    if let Some(chip) = running_hook(state, times, now) {
        return chip;
    }
    if state.phase.turn_in_flight().is_some() {
        return working(state, times, now);
    }
    if state.steering.paused {
        return StateChip::new("⏸", "PAUSED", ChipRole::Paused);
    }
    waiting(state, now, zone).unwrap_or_else(|| between(state))
}

fn working(state: &SessionState, times: &SessionTimes, now: UnixTime) -> StateChip {
    let since = |at: Option<UnixTime>| at.map(|at| now.since(at)).unwrap_or_default();
    let quiet = since(times.heard);
    let mut notes = Vec::new();
    if quiet > QUIET {
        notes.push(format!("quiet {}", short_span(quiet)));
    }
    notes.extend(afterwards(state).map(str::to_owned));
    let chip = StateChip::new("⠹", "WORKING", ChipRole::Working).timed(running_clock(since(times.turn)));
    StateChip { note: notes.join(" · "), ..chip }
}

/// What the user asked for after the current work.
const fn afterwards(state: &SessionState) -> Option<&'static str> {
    match (state.steering.paused, state.steering.stop) {
        (true, _) => Some("pauses then"),
        (false, Some(StopTiming::AfterIteration)) => Some("stops after this iteration"),
        (false, Some(StopTiming::Now)) => Some("stops now"),
        (false, None) => None,
    }
}

/// The hook of the main line that runs now. Hooks beside the agent do not hide that the agent works.
fn running_hook(state: &SessionState, times: &SessionTimes, now: UnixTime) -> Option<StateChip> {
    let (point, running) = match &state.phase {
        Phase::Hooks(dispatch) => (dispatch.point, dispatch.running.as_ref()?),
        Phase::Judging(judging) => (HookPoint::StopDecision, judging.runs().next()?),
        Phase::Due(_)
        | Phase::Turn(_)
        | Phase::Settled(_)
        | Phase::Between
        | Phase::Escalated(_)
        | Phase::Exit(_)
        | Phase::Pipeline
        | Phase::Errand(_)
        | Phase::Delivering
        | Phase::Ended(_) => return None,
    };
    let took = times.runs.get(&running.run).map(|at| now.since(*at)).unwrap_or_default();
    let limit = state.plan().hook(point, &running.hook).map(|spec| spec.timeout);
    let time = limit.map_or_else(|| short_span(took), |limit| against(took, limit));
    let chip = StateChip::new("▸", plain_line(&running.hook, NAME), ChipRole::Hook).timed(time);
    Some(StateChip { note: afterwards(state).unwrap_or_default().to_owned(), ..chip })
}

fn waiting(state: &SessionState, now: UnixTime, zone: &TimeZone) -> Option<StateChip> {
    let RetryWait::Until(until) = state.retry.wait else { return None };
    if let Some(hold) = &state.limits.hold {
        let word = format!("limit resets {}", usage_limits::clock_in(zone, hold.until, Some(now)));
        return Some(StateChip::new("⏳", word, ChipRole::Waiting));
    }
    let left = TimeSpan(until.since(now).0.div_ceil(1_000) * 1_000);
    (left.0 > 0).then(|| StateChip::new("⏳", format!("retry in {}", short_span(left)), ChipRole::Waiting))
}

/// The short moments in which creel itself is about to do something.
fn between(state: &SessionState) -> StateChip {
    StateChip::new("▸", plain_line(&state.doing(), NAME), ChipRole::Hook)
}

fn ended(outcome: SessionOutcome) -> StateChip {
    let (sign, word, role) = match outcome {
        SessionOutcome::Complete => ("✓", "COMPLETE", ChipRole::Complete),
        SessionOutcome::Forced => ("⚠", "FORCED", ChipRole::Forced),
        SessionOutcome::Failed => ("✗", "FAILED", ChipRole::Failed),
        SessionOutcome::Escalated => ("✗", "ESCALATED", ChipRole::Failed),
        SessionOutcome::Aborted => ("■", "ABORTED", ChipRole::Stopped),
        SessionOutcome::Cancelled => ("■", "STOPPED", ChipRole::Stopped),
        SessionOutcome::Limit => ("⊘", "LIMIT", ChipRole::Limit),
    };
    StateChip::new(sign, word, role)
}
