//! The state of a session as one short text with a sign and a meaning, for the screen's header and
//! for lists of sessions.
//!
//! Owns the words and their order of importance. Does not own colours or motion: see `crate::tui`.
//!
//! # Invariants
//! - Every session has exactly one chip. It has a sign and a word, so that nothing is lost without
//!   colour.
//! - A session that needs the user or has ended shows no running time, so its chip does not change
//!   by itself.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;

use super::{
    clock::{against, running_clock, short_span, time_of_day},
    gate_words::answer_origin,
    idle_time::IdleTime,
    text::plain_line,
    usage_limits,
};
use crate::engine::{
    SessionState,
    conversation::LimitCause,
    event::{Event, HookEvent, SessionEvent, SessionOutcome, StopEvent, StopTiming, TurnEvent},
    gate::kind::GateKind,
    hooks::point::HookPoint,
    ids::RunId,
    retry::RetryWait,
    session::phase::Phase,
    time::{TimeSpan, UnixTime},
    turn::SILENCE,
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
    /// Something to notice, such as an agent that has been quiet for long. Empty if there is
    /// nothing.
    pub note: String,
    pub role: ChipRole,
}

impl StateChip {
    fn new(sign: &'static str, word: impl Into<String>, role: ChipRole) -> Self {
        Self {
            sign,
            word: word.into(),
            time: String::new(),
            note: String::new(),
            role,
        }
    }

    #[must_use]
    fn timed(mut self, time: impl Into<String>) -> Self {
        self.time = time.into();
        self
    }

    /// The sign, the word and the time. The note is separate, since it has its own colour.
    pub fn label(&self) -> String {
        let time = if self.time.is_empty() {
            String::new()
        } else {
            format!(" {}", self.time)
        };
        format!("{} {}{time}", self.sign, self.word)
    }

    /// Everything that the chip says, in one line.
    pub fn text(&self) -> String {
        let note = if self.note.is_empty() {
            String::new()
        } else {
            format!(" · {}", self.note)
        };
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
    idle: IdleTime,
}

impl SessionTimes {
    /// Remembers a record.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the other records begin and end nothing that a chip shows"
    )]
    pub fn follow(&mut self, at: UnixTime, event: &Event) {
        self.idle.take(at, event);
        match event {
            Event::Turn(TurnEvent::PromptSent(_)) => (self.turn, self.heard) = (Some(at), Some(at)),
            Event::Turn(TurnEvent::AgentNoted { what, .. }) if what == SILENCE => {}
            Event::Turn(_) => self.heard = Some(at),
            Event::Hook(HookEvent::Started { run, .. })
            | Event::Stop(StopEvent::RuleStarted { run, .. }) => {
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
            Event::Session(SessionEvent::Resumed { .. }) => {
                *self = Self {
                    idle: std::mem::take(&mut self.idle),
                    ..Self::default()
                };
            }
            _ => {}
        }
    }

    /// The agent reported something that is not recorded yet.
    pub fn heard_live(&mut self, at: UnixTime) {
        self.heard = self.heard.max(Some(at));
    }

    /// When the session ended, if that record was read.
    pub const fn end(&self) -> Option<UnixTime> {
        self.ended
    }

    /// How long no process ran the session.
    pub const fn idle(&self) -> TimeSpan {
        self.idle.total()
    }

    /// How long the session took, or has taken so far.
    pub fn elapsed(&self, state: &SessionState, now: UnixTime) -> TimeSpan {
        self.idle.running(state.started, self.ended.unwrap_or(now))
    }
}

/// What a session does, with the moments that its chip counts from. It stays the same until the
/// next record, so lists can keep it instead of the whole state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CurrentActivity {
    Ended {
        outcome: SessionOutcome,
        /// How long the session ran. None if the record of the end was not read.
        took: Option<TimeSpan>,
    },
    NeedsUser {
        gate: GateKind,
        since: UnixTime,
    },
    /// A hook of the main line. Hooks beside the agent do not hide that the agent works.
    RunsHook {
        hook: String,
        since: Option<UnixTime>,
        limit: Option<TimeSpan>,
        then: Option<&'static str>,
    },
    Works {
        since: Option<UnixTime>,
        /// When the agent last reported something.
        heard: Option<UnixTime>,
        silent: bool,
        then: Option<&'static str>,
    },
    Paused {
        /// The actor, unless it was the user at the session's screen.
        by: String,
    },
    UsageLimit {
        until: UnixTime,
    },
    /// The agent's server is overloaded, or cannot be reached.
    Outage {
        until: UnixTime,
    },
    Backoff {
        until: UnixTime,
        then: String,
    },
    /// The short moments in which creel itself is about to do something.
    Between(String),
}

impl CurrentActivity {
    pub fn of(state: &SessionState, times: &SessionTimes) -> Self {
        if let Some(outcome) = state.phase.outcome() {
            return Self::Ended {
                outcome,
                took: times.ended.map(|ended| times.elapsed(state, ended)),
            };
        }
        if let Some(gate) = &state.gates.open {
            return Self::NeedsUser {
                gate: gate.kind(),
                since: gate.opened,
            };
        }
        if let Some(hook) = running_hook(state, times) {
            return hook;
        }
        if state.phase.turn_in_flight().is_some() {
            // A list may have read the session from a snapshot in the middle of the turn.
            let since = times.turn.or(Some(state.account.turn_began));
            let (heard, silent) = (times.heard, state.turns.silent);
            return Self::Works {
                since,
                heard,
                silent,
                then: afterwards(state),
            };
        }
        if state.steering.paused {
            let by = state
                .steering
                .paused_by
                .as_ref()
                .map(answer_origin)
                .unwrap_or_default();
            return Self::Paused {
                by: by.trim_start_matches(" · ").to_owned(),
            };
        }
        match (state.retry.wait, &state.limits.hold) {
            (RetryWait::Until(until), Some(hold)) if hold.cause == LimitCause::Outage => {
                Self::Outage { until }
            }
            (RetryWait::Until(_), Some(hold)) => Self::UsageLimit { until: hold.until },
            (RetryWait::Until(until), None) => Self::Backoff {
                until,
                then: state.doing(),
            },
            (RetryWait::No | RetryWait::Due { .. }, _) => Self::Between(state.doing()),
        }
    }

    /// Whether the chip changes as time passes.
    pub const fn has_clock(&self) -> bool {
        match self {
            Self::RunsHook { .. }
            | Self::Works { .. }
            | Self::Backoff { .. }
            | Self::Outage { .. } => true,
            Self::Ended { .. }
            | Self::NeedsUser { .. }
            | Self::Paused { .. }
            | Self::UsageLimit { .. }
            | Self::Between(_) => false,
        }
    }

    /// The chip at this moment.
    pub fn chip(&self, now: UnixTime, zone: &TimeZone) -> StateChip {
        let since = |at: &Option<UnixTime>| at.map(|at| now.since(at)).unwrap_or_default();
        match self {
            Self::Ended { outcome, took } => {
                ended_chip(*outcome).timed(took.map(running_clock).unwrap_or_default())
            }
            Self::NeedsUser { gate, since } => {
                let word = format!("NEEDS YOU: {}", gate.name().replace('_', " "));
                StateChip::new("◆", word, ChipRole::NeedsUser)
                    .timed(format!("since {}", time_of_day(*since, zone)))
            }
            Self::RunsHook {
                hook,
                since: at,
                limit,
                then,
            } => {
                let took = at.map(|at| now.since(at));
                let time = took.map(|took| {
                    limit.map_or_else(|| short_span(took), |limit| against(took, limit))
                });
                let chip = StateChip::new("▸", plain_line(hook, NAME), ChipRole::Hook)
                    .timed(time.unwrap_or_default());
                StateChip {
                    note: then.unwrap_or_default().to_owned(),
                    ..chip
                }
            }
            Self::Works {
                since: at,
                heard,
                silent,
                then,
            } => {
                let quiet = since(heard);
                let word = if *silent { "silent" } else { "quiet" };
                let quiet =
                    (quiet > QUIET || *silent).then(|| format!("{word} {}", short_span(quiet)));
                let notes: Vec<String> = quiet.into_iter().chain(then.map(str::to_owned)).collect();
                let chip = StateChip::new("⠹", "WORKING", ChipRole::Working)
                    .timed(running_clock(since(at)));
                StateChip {
                    note: notes.join(" · "),
                    ..chip
                }
            }
            Self::Paused { by } => StateChip {
                note: by.clone(),
                ..StateChip::new("⏸", "PAUSED", ChipRole::Paused)
            },
            Self::UsageLimit { until } => {
                let word = format!(
                    "limit resets {}",
                    usage_limits::clock_in(zone, *until, Some(now))
                );
                StateChip::new("⏳", word, ChipRole::Waiting)
            }
            Self::Outage { until } => {
                let left = TimeSpan(until.since(now).0.div_ceil(1_000) * 1_000);
                StateChip::new(
                    "⏳",
                    format!("server down, retry in {}", short_span(left)),
                    ChipRole::Waiting,
                )
            }
            Self::Backoff { until, then } => {
                match TimeSpan(until.since(now).0.div_ceil(1_000) * 1_000) {
                    TimeSpan(0) => between(then),
                    left => StateChip::new(
                        "⏳",
                        format!("retry in {}", short_span(left)),
                        ChipRole::Waiting,
                    ),
                }
            }
            Self::Between(doing) => between(doing),
        }
    }
}

/// The chip of a session at this moment.
pub fn session_chip(
    state: &SessionState,
    times: &SessionTimes,
    now: UnixTime,
    zone: &TimeZone,
) -> StateChip {
    CurrentActivity::of(state, times).chip(now, zone)
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

fn running_hook(state: &SessionState, times: &SessionTimes) -> Option<CurrentActivity> {
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
    Some(CurrentActivity::RunsHook {
        hook: running.hook.clone(),
        since: times.runs.get(&running.run).copied(),
        limit: state
            .plan()
            .hook(point, &running.hook)
            .map(|spec| spec.timeout),
        then: afterwards(state),
    })
}

fn between(doing: &str) -> StateChip {
    StateChip::new("▸", plain_line(doing, NAME), ChipRole::Hook)
}

/// The chip of an outcome, without the time.
pub fn ended_chip(outcome: SessionOutcome) -> StateChip {
    let (sign, word, role) = match outcome {
        SessionOutcome::Complete => ("✓", "COMPLETE", ChipRole::Complete),
        SessionOutcome::Forced => ("⚠", "FORCED", ChipRole::Forced),
        SessionOutcome::Unverified => ("⚠", "NOT VERIFIED", ChipRole::Forced),
        SessionOutcome::Failed => ("✗", "FAILED", ChipRole::Failed),
        SessionOutcome::Escalated => ("✗", "ESCALATED", ChipRole::Failed),
        SessionOutcome::Aborted => ("■", "ABORTED", ChipRole::Stopped),
        SessionOutcome::Cancelled => ("■", "STOPPED", ChipRole::Stopped),
        SessionOutcome::Limit => ("⊘", "LIMIT", ChipRole::Limit),
    };
    StateChip::new(sign, word, role)
}
