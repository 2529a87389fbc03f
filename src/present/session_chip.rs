//! What a session does, as text: a chip with a sign and a meaning for the screen's header and for
//! lists of sessions, a sentence for `creel status`, and the names of outcomes.
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

use super::text::counted;
use crate::{
    engine::{
        SessionState,
        conversation::LimitCause,
        event::{
            Event, HookEvent, PipelineEvent, PromptReason, SessionEvent, SessionOutcome, StopEvent,
            StopTiming, TurnEvent,
        },
        gate::kind::GateKind,
        hooks::{dispatch::HookDispatch, point::HookPoint},
        ids::RunId,
        retry::RetryWait,
        session::phase::Phase,
        time::{TimeSpan, UnixTime},
        turn::SILENCE,
    },
    present::{
        gate_words::answer_origin,
        text::{against, plain_line, running_clock, short_span, time_of_day},
        usage,
    },
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
        format!("{} {}{}", self.sign, self.word, led_by(" ", &self.time))
    }

    /// What follows the word.
    pub fn time_and_note(&self) -> String {
        led_by(" ", &self.time) + &led_by(" · ", &self.note)
    }
}

/// The text after a gap. Nothing if there is no text.
fn led_by(gap: &str, text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!("{gap}{text}")
    }
}

/// When the things that chips show began. A fold over records, like the state beside it.
#[derive(Debug, Clone, Default)]
pub struct SessionTimes {
    /// When the current turn began.
    turn: Option<UnixTime>,
    /// When the agent last reported something.
    last_update: Option<UnixTime>,
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
            Event::Turn(TurnEvent::PromptSent(_)) => {
                (self.turn, self.last_update) = (Some(at), Some(at));
            }
            Event::Turn(TurnEvent::AgentNoted { what, .. }) if what == SILENCE => {}
            Event::Turn(_) => self.last_update = Some(at),
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
    pub fn updated_live(&mut self, at: UnixTime) {
        self.last_update = self.last_update.max(Some(at));
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
        last_update: Option<UnixTime>,
        silent: bool,
        /// The step of a workflow that runs in parallel.
        step: Option<String>,
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
    /// The session waits for its pull request to be merged.
    Watches {
        checked: Option<UnixTime>,
        /// Why the forge did not answer the last time. Empty if it did.
        problem: String,
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
            let (last_update, silent) = (times.last_update, state.turns.silent);
            return Self::Works {
                since,
                last_update,
                silent,
                step: workflow_step(state),
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
        if let (Phase::Watching, Some(watch)) = (&state.phase, state.pipelines.watch()) {
            return Self::Watches {
                checked: watch.checked,
                problem: watch
                    .problem
                    .as_deref()
                    .map_or_else(String::new, |why| plain_line(why, NAME)),
            };
        }
        match (state.retry.wait, &state.limits.hold) {
            (RetryWait::Until(until), Some(hold)) if hold.cause == LimitCause::Outage => {
                Self::Outage { until }
            }
            (RetryWait::Until(_), Some(hold)) => Self::UsageLimit { until: hold.until },
            (RetryWait::Until(until), None) => Self::Backoff {
                until,
                then: doing(state),
            },
            (RetryWait::No | RetryWait::Due { .. }, _) => {
                running_step(state, times).unwrap_or_else(|| Self::Between(doing(state)))
            }
        }
    }

    /// The chip at this moment.
    pub fn chip(&self, now: UnixTime, zone: &TimeZone) -> StateChip {
        let since = |at: &Option<UnixTime>| at.map(|at| now.since(at)).unwrap_or_default();
        match self {
            Self::Ended { outcome, took } => {
                let OutcomeWords {
                    sign, chip, role, ..
                } = outcome_words(*outcome);
                StateChip::new(sign, chip, role).timed(took.map(running_clock).unwrap_or_default())
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
                last_update,
                silent,
                step,
                then,
            } => {
                let quiet = since(last_update);
                let word = if *silent { "silent" } else { "quiet" };
                let quiet =
                    (quiet > QUIET || *silent).then(|| format!("{word} {}", short_span(quiet)));
                let step = step
                    .as_ref()
                    .map(|step| format!("▸ {}", plain_line(step, NAME)));
                let then = then.map(str::to_owned);
                let notes: Vec<String> = quiet.into_iter().chain(step).chain(then).collect();
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
                let word = format!("limit resets {}", usage::clock_in(zone, *until, Some(now)));
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
            Self::Watches { checked, problem } => {
                let ago = |at: &UnixTime| format!("· checked {} ago", short_span(now.since(*at)));
                let chip = StateChip::new("◷", "WAITING FOR REVIEW", ChipRole::Waiting)
                    .timed(checked.as_ref().map(ago).unwrap_or_default());
                StateChip {
                    note: problem.clone(),
                    ..chip
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
        (true, _) => Some("pauses after this turn"),
        (false, Some(StopTiming::AfterIteration)) => Some("stops after this iteration"),
        (false, Some(StopTiming::Now)) => Some("stops now"),
        (false, None) => None,
    }
}

fn running_hook(state: &SessionState, times: &SessionTimes) -> Option<CurrentActivity> {
    let (point, running) = match &state.phase {
        Phase::Hooks(dispatch) => match (&dispatch.running, dispatch.next_hook()) {
            (Some(running), _) => (dispatch.point, running),
            // It starts at once.
            (None, Some(next)) => {
                return Some(CurrentActivity::RunsHook {
                    hook: next.to_owned(),
                    since: None,
                    limit: None,
                    then: afterwards(state),
                });
            }
            (None, None) => return None,
        },
        Phase::Judging(judging) => (HookPoint::StopDecision, judging.runs().next()?),
        Phase::Due(_)
        | Phase::Turn(_)
        | Phase::Settled(_)
        | Phase::Between
        | Phase::Escalated(_)
        | Phase::Exit(_)
        | Phase::Pipeline
        | Phase::PipelineOnly(_)
        | Phase::Watching
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

/// A step of a workflow, while nothing else happens.
fn running_step(state: &SessionState, times: &SessionTimes) -> Option<CurrentActivity> {
    let (_, run, _) = state.tasks.flows.running().next()?;
    Some(CurrentActivity::RunsHook {
        hook: workflow_step(state)?,
        since: times.runs.get(&run).copied(),
        limit: None,
        then: afterwards(state),
    })
}

/// `workflow release: build`, while a step of a workflow runs.
fn workflow_step(state: &SessionState) -> Option<String> {
    let (flow, _, step) = state.tasks.flows.running().next()?;
    Some(format!("workflow {}: {step}", flow.began.workflow))
}

fn between(doing: &str) -> StateChip {
    StateChip::new("▸", plain_line(doing, NAME), ChipRole::Hook)
}

/// How an outcome is named, on all surfaces.
#[derive(Debug, Clone, Copy)]
pub struct OutcomeWords {
    pub sign: &'static str,
    /// In a chip.
    pub chip: &'static str,
    /// At the beginning of a sentence with the reason.
    pub word: &'static str,
    /// In the stream and in lines.
    pub line: &'static str,
    pub role: ChipRole,
}

pub const fn outcome_words(outcome: SessionOutcome) -> OutcomeWords {
    let (sign, chip, word, line, role) = match outcome {
        SessionOutcome::Complete => (
            "✓",
            "COMPLETE",
            "Complete",
            "Session complete",
            ChipRole::Complete,
        ),
        SessionOutcome::Forced => (
            "⚠",
            "FORCED",
            "Forced",
            "Session ended as forced",
            ChipRole::Forced,
        ),
        SessionOutcome::Unverified => (
            "⚠",
            "NOT VERIFIED",
            "Not verified",
            "Session ended, not verified",
            ChipRole::Forced,
        ),
        SessionOutcome::Failed => ("✗", "FAILED", "Failed", "Session failed", ChipRole::Failed),
        SessionOutcome::Escalated => (
            "✗",
            "ESCALATED",
            "Needs you",
            "Session escalated",
            ChipRole::Failed,
        ),
        SessionOutcome::Aborted => (
            "■",
            "ABORTED",
            "Aborted",
            "Session aborted",
            ChipRole::Stopped,
        ),
        SessionOutcome::Cancelled => (
            "■",
            "STOPPED",
            "Stopped",
            "Session cancelled",
            ChipRole::Stopped,
        ),
        SessionOutcome::Limit => (
            "⊘",
            "LIMIT",
            "Stopped",
            "Session limit reached",
            ChipRole::Limit,
        ),
    };
    OutcomeWords {
        sign,
        chip,
        word,
        line,
        role,
    }
}

/// What a session is doing, in words for `creel status`, the socket and other programs.
pub fn doing(state: &SessionState) -> String {
    if let Some(outcome) = state.phase.outcome() {
        return outcome.name().into();
    }
    if let Some(gate) = &state.gates.open {
        return format!("needs you: {}", gate.kind().name().replace('_', " "));
    }
    if state.steering.paused && state.phase.turn_in_flight().is_none() {
        return "paused".into();
    }
    let then = afterwards(state).map(|then| format!("; {then}"));
    let silent = if state.turns.silent {
        format!(", silent for more than {}", state.plan().limits.silence)
    } else {
        String::new()
    };
    format!("{}{silent}{}", doing_now(state), then.unwrap_or_default())
}

fn repairs(session: &SessionState) -> String {
    let Some(run) = &session.pipelines.pipeline_run else {
        return "the agent works".into();
    };
    let limit = session.plan().submit.remediation_attempts;
    format!(
        "the agent repairs what blocked the {}, {} of {limit}",
        run.pipeline.name(),
        run.used
    )
}

fn doing_now(session: &SessionState) -> String {
    match &session.phase {
        // creel has nothing to do until the agent that the user runs calls a tool.
        Phase::Hooks(HookDispatch {
            point: HookPoint::SessionStart,
            running: None,
            ..
        })
        | Phase::Between
            if session.plan().is_led_from_outside() =>
        {
            "the agent drives it".into()
        }
        Phase::Hooks(dispatch) => match &dispatch.running {
            Some(running) => format!("runs `{}` at {}", running.hook, dispatch.point),
            None => match (dispatch.next_hook(), dispatch.done.last()) {
                (Some(next), _) => format!("starts `{next}` at {}", dispatch.point),
                (None, Some(last)) => format!("ran `{}` at {}", last.hook, dispatch.point),
                (None, None) => format!("at {}", dispatch.point),
            },
        },
        Phase::Turn(prompt) => match prompt.reason {
            PromptReason::Iteration => "the agent works".into(),
            PromptReason::Feedback => {
                format!("the agent works on feedback, retry {}", session.retry.used)
            }
            PromptReason::Recovery => "the agent recovers from an error".into(),
            PromptReason::FinalDelivery => "the agent reads the final delivery".into(),
            PromptReason::Message => "the agent answers a message".into(),
            PromptReason::News => "the agent works on news of the pull request".into(),
            PromptReason::Remediation => repairs(session),
            PromptReason::Gatekeeper => {
                format!(
                    "`{}` reviews the change",
                    prompt.agent.as_deref().unwrap_or("a gatekeeper")
                )
            }
        },
        Phase::Judging(judging) => match (judging.checking.as_slice(), &judging.running) {
            (_, Some(running)) => format!("asks `{}` whether to continue", running.hook),
            ([one], None) => format!("checks the rule `{}`", one.hook),
            ([], None) => "evaluates the iteration".into(),
            (some, None) => format!("checks {}", counted(some.len(), "rule")),
        },
        Phase::Due(_)
            if session
                .limits
                .hold
                .as_ref()
                .is_some_and(|hold| hold.cause == LimitCause::Outage) =>
        {
            format!(
                "waits until `{}` reaches its server",
                session.agent_choice().agent()
            )
        }
        Phase::Due(_) if session.limits.hold.is_some() => {
            format!(
                "waits for the usage limit of `{}` to reset",
                session.agent_choice().agent()
            )
        }
        Phase::Due(_)
        | Phase::Settled(_)
        | Phase::Between
        | Phase::Escalated(_)
        | Phase::Exit(_)
        | Phase::Pipeline
        | Phase::PipelineOnly(_) => "continues".into(),
        Phase::Watching => match session.pipelines.watch() {
            Some(watch) => format!(
                "waits for the merge of {}: {}",
                watch.pull_request,
                watch.status()
            ),
            None => "waits for the merge of the pull request".into(),
        },
        Phase::Delivering => "sends pending items".into(),
        Phase::Ended(outcome) => outcome.name().into(),
    }
}

/// The wait before the next attempt, if there is one.
pub fn next_attempt(state: &SessionState, now: UnixTime) -> Option<String> {
    let RetryWait::Until(until) = state.retry.wait else {
        return None;
    };
    let left = until.since(now);
    if let Some(hold) = &state.limits.hold {
        return Some(usage::waiting(hold, now));
    }
    (left.0 > 0).then(|| {
        format!(
            "Next retry in {}",
            short_span(TimeSpan::secs(left.0.div_ceil(1_000)))
        )
    })
}

#[derive(Debug, Clone, Default)]
pub struct IdleTime {
    /// The time of the last record.
    last: Option<UnixTime>,
    /// The time of the last record before that. Records that are written together have the same
    /// time.
    before: Option<UnixTime>,
    has_ended: bool,
    total: TimeSpan,
}

impl IdleTime {
    /// Counts a record.
    pub fn take(&mut self, at: UnixTime, event: &Event) {
        if self.last.is_none_or(|last| last < at) {
            self.before = self.last.replace(at);
        }
        let continues = matches!(event, Event::Session(SessionEvent::Resumed { .. }))
            || self.has_ended && matches!(event, Event::Pipeline(PipelineEvent::Started { .. }));
        if continues {
            let idle = self
                .before
                .map(|before| at.since(before))
                .unwrap_or_default();
            self.total = TimeSpan(self.total.0.saturating_add(idle.0));
        }
        self.has_ended = !continues
            && (self.has_ended || matches!(event, Event::Session(SessionEvent::Ended { .. })));
    }

    pub const fn total(&self) -> TimeSpan {
        self.total
    }

    /// How long the session ran from one moment to another.
    pub fn running(&self, from: UnixTime, to: UnixTime) -> TimeSpan {
        TimeSpan(to.since(from).0.saturating_sub(self.total.0))
    }
}
