//! Sessions in a list: which come first, and what each says in one line.
//!
//! Owns the groups, the order and the words of `creel sessions` and of the home screen. Does not
//! read sessions: see `crate::sessions`.
//!
//! # Invariants
//! - Sessions that need the user come first, then running ones, then the others; within a group the
//!   newest first.
//! - The order does not depend on the time, so that a list at rest stays as it is.

use std::cmp::Ordering;

use jiff::tz::TimeZone;

use super::{
    end_card::outcome_sentence,
    gate_words,
    session_chip::{ChipRole, CurrentActivity, SessionTimes, outcome_words},
    text::{counted, plain, plain_line, running_clock, sentence_case},
};
use crate::{
    engine::{
        SessionState,
        budget::CostTotal,
        event::{SessionOutcome, SessionStarted},
        gate::kind::GateKind,
        queue::QueuedTask,
        time::{TimeSpan, UnixTime},
    },
    present::{tables::queued_name, text::local_zone},
};

/// The longest reason in a list, in characters.
const REASON: usize = 300;

/// The part of a list that a session is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SessionGroup {
    NeedsYou,
    Running,
    Ended,
}

impl SessionGroup {
    pub const ALL: [Self; 3] = [Self::NeedsYou, Self::Running, Self::Ended];

    pub const fn title(self) -> &'static str {
        match self {
            Self::NeedsYou => "NEEDS YOU",
            Self::Running => "RUNNING",
            Self::Ended => "ENDED",
        }
    }
}

/// Where a listed session is in its life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListedState {
    Runs {
        activity: CurrentActivity,
        /// Why it needs the user. Empty otherwise.
        reason: String,
    },
    Ended {
        outcome: SessionOutcome,
        reason: String,
    },
    /// Its creel was closed or killed before the session had ended.
    Stopped {
        /// The gate that was open.
        gate: Option<GateKind>,
    },
    /// A session on another machine that has sent no heartbeat for a while.
    Lost,
    /// Its journal cannot be read, for this reason.
    Unreadable(String),
    /// It does not run, and its journal has not been read yet.
    Unread,
    /// A task of the queue instead of a session: no worker continues it, for this reason.
    BlockedTask(String),
}

/// A session in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedSession {
    pub name: String,
    /// The project's folder.
    pub project: String,
    /// The machine. Empty for this one.
    pub host: String,
    /// The name of its user. Empty if unknown.
    pub user: String,
    /// The branch of its worktree. Empty without one.
    pub branch: String,
    pub agent: String,
    /// The first line of the prompt. Empty if unknown.
    pub goal: String,
    pub iteration: u32,
    pub max_iterations: u32,
    /// The retries of the iteration that are used, and their limit. 0 of 0 if unknown.
    pub retries: (u32, u32),
    pub cost: CostTotal,
    pub started: Option<UnixTime>,
    /// How long no process ran it since then.
    pub idle: TimeSpan,
    /// The last change; of an ended session, its end.
    pub changed: UnixTime,
    pub state: ListedState,
    pub can_resume: bool,
}

/// One line about a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedWords {
    pub sign: &'static str,
    pub text: String,
    pub role: ChipRole,
}

/// The goal of a session in one line.
pub fn goal(began: &SessionStarted) -> String {
    let first = plain(&began.prompt)
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or_default()
        .to_owned();
    plain_line(&first, REASON)
}

impl ListedSession {
    /// A session whose journal has not been read yet.
    pub fn unread(name: &str, project: &str, changed: UnixTime) -> Self {
        Self {
            name: name.to_owned(),
            project: project.to_owned(),
            host: String::new(),
            user: String::new(),
            branch: String::new(),
            agent: String::new(),
            goal: String::new(),
            iteration: 0,
            max_iterations: 0,
            retries: (0, 0),
            cost: CostTotal::default(),
            started: None,
            idle: TimeSpan::default(),
            changed,
            state: ListedState::Unread,
            can_resume: false,
        }
    }

    /// The same session with what its state says. Without a process that runs it, only an end on
    /// record is an end.
    #[must_use]
    pub fn with_state(self, state: &SessionState, times: &SessionTimes, is_running: bool) -> Self {
        let listed = match (state.phase.outcome(), is_running) {
            (Some(outcome), _) => {
                let reason = state
                    .ending
                    .as_ref()
                    .map(|ending| plain_line(ending.explanation(), REASON));
                ListedState::Ended {
                    outcome,
                    reason: reason.unwrap_or_default(),
                }
            }
            (None, true) => ListedState::Runs {
                activity: CurrentActivity::of(state, times),
                reason: state
                    .gates
                    .open
                    .as_ref()
                    .map(|_| open_reason(state))
                    .unwrap_or_default(),
            },
            (None, false) => ListedState::Stopped {
                gate: state
                    .gates
                    .open
                    .as_ref()
                    .map(crate::engine::gate::Gate::kind),
            },
        };
        Self {
            branch: state
                .began
                .worktree
                .as_ref()
                .map(|worktree| plain(&worktree.branch))
                .unwrap_or_default(),
            agent: plain(state.agent_choice().agent()),
            goal: goal(&state.began),
            iteration: state.iterations.current,
            max_iterations: state.max_iterations(),
            retries: (state.retry.used, state.retries().retry_limit()),
            cost: state.account.used.cost,
            started: Some(state.started),
            idle: times.idle(),
            changed: times.end().unwrap_or(self.changed),
            can_resume: !matches!(listed, ListedState::Runs { .. })
                && state.refuse_resume(None).is_none(),
            state: listed,
            ..self
        }
    }

    pub const fn group(&self) -> SessionGroup {
        match &self.state {
            ListedState::BlockedTask(_)
            | ListedState::Runs {
                activity: CurrentActivity::NeedsUser { .. },
                ..
            } => SessionGroup::NeedsYou,
            ListedState::Runs { .. } => SessionGroup::Running,
            ListedState::Ended { .. }
            | ListedState::Stopped { .. }
            | ListedState::Lost
            | ListedState::Unreadable(_)
            | ListedState::Unread => SessionGroup::Ended,
        }
    }

    /// The moment that decides the place within the group.
    fn newest(&self) -> UnixTime {
        match &self.state {
            ListedState::Runs {
                activity: CurrentActivity::NeedsUser { since, .. },
                ..
            } => *since,
            ListedState::Runs { .. } => self.started.unwrap_or(self.changed),
            ListedState::Ended { .. }
            | ListedState::Stopped { .. }
            | ListedState::Lost
            | ListedState::Unreadable(_)
            | ListedState::BlockedTask(_)
            | ListedState::Unread => self.changed,
        }
    }

    /// The order of lists.
    pub fn order(&self, other: &Self) -> Ordering {
        let newest = || other.newest().cmp(&self.newest());
        let name = || {
            (&self.name, &self.project, &self.host).cmp(&(&other.name, &other.project, &other.host))
        };
        self.group()
            .cmp(&other.group())
            .then_with(newest)
            .then_with(name)
    }

    /// The state in one word, for filters and scripts.
    pub const fn state_name(&self) -> &'static str {
        match &self.state {
            ListedState::Runs {
                activity: CurrentActivity::NeedsUser { .. },
                ..
            } => "needs-you",
            ListedState::Runs { .. } => "running",
            ListedState::Ended { outcome, .. } => outcome.name(),
            ListedState::Stopped { .. } => "stopped",
            ListedState::Lost => "lost",
            ListedState::Unreadable(_) => "unreadable",
            ListedState::Unread => "ended",
            ListedState::BlockedTask(_) => "blocked",
        }
    }

    /// Whether the line about it changes as time passes.
    pub const fn has_clock(&self) -> bool {
        match &self.state {
            // The time since the start runs even while creel is between two steps.
            ListedState::Runs { activity, .. } => {
                !matches!(activity, CurrentActivity::NeedsUser { .. })
            }
            ListedState::Ended { .. }
            | ListedState::Stopped { .. }
            | ListedState::Lost
            | ListedState::Unreadable(_)
            | ListedState::BlockedTask(_)
            | ListedState::Unread => false,
        }
    }

    /// What the session does, or how it ended.
    pub fn words(&self, now: UnixTime, zone: &TimeZone) -> ListedWords {
        let words = |sign, text: String, role| ListedWords { sign, text, role };
        match &self.state {
            ListedState::Runs { activity, reason } => running_words(activity, reason, now, zone),
            ListedState::Ended { outcome, reason } => {
                let end = outcome_words(*outcome);
                words(end.sign, outcome_sentence(*outcome, reason), end.role)
            }
            ListedState::Stopped { gate: Some(gate) } => {
                let text = format!(
                    "Stopped while it needed you: {}",
                    gate.name().replace('_', " ")
                );
                words("■", text, ChipRole::Stopped)
            }
            ListedState::Stopped { gate: None } if self.iteration == 0 => words(
                "■",
                "Stopped before the first iteration".to_owned(),
                ChipRole::Stopped,
            ),
            ListedState::Stopped { gate: None } => words(
                "■",
                format!("Stopped in iteration {}", self.iteration),
                ChipRole::Stopped,
            ),
            ListedState::Lost => words("✗", "Lost: no heartbeat".to_owned(), ChipRole::Failed),
            ListedState::Unreadable(why) => {
                words("✗", with_reason("Unreadable", why), ChipRole::Failed)
            }
            ListedState::Unread => words("·", String::new(), ChipRole::Stopped),
            ListedState::BlockedTask(reason) => {
                words("◆", with_reason("Blocked", reason), ChipRole::NeedsUser)
            }
        }
    }

    /// How long the session took or has taken; at a gate, since when it waits. Empty if unknown.
    pub fn time(&self, now: UnixTime, zone: &TimeZone) -> String {
        let took = |until: UnixTime| {
            let whole = until.since(self.started?);
            Some(running_clock(TimeSpan(whole.0.saturating_sub(self.idle.0))))
        };
        match &self.state {
            ListedState::Runs {
                activity: CurrentActivity::NeedsUser { since, .. },
                ..
            } => {
                format!("since {}", moment(*since, now, zone))
            }
            ListedState::Runs { .. } => took(now).unwrap_or_default(),
            ListedState::Ended { .. } | ListedState::Stopped { .. } => {
                took(self.changed).unwrap_or_default()
            }
            ListedState::Lost
            | ListedState::Unreadable(_)
            | ListedState::BlockedTask(_)
            | ListedState::Unread => String::new(),
        }
    }

    /// When an ended session changed last. Empty for a running one.
    pub fn age(&self, now: UnixTime, zone: &TimeZone) -> String {
        match self.group() {
            SessionGroup::NeedsYou | SessionGroup::Running => String::new(),
            SessionGroup::Ended => moment(self.changed, now, zone),
        }
    }

    /// A task of the queue that no worker continues. `project` is its folder, or the name of its queue.
    pub fn blocked_task(task: &QueuedTask, project: &str, reason: &str) -> Self {
        let added = task.created_at.parse::<jiff::Timestamp>();
        let added = added.map_or(UnixTime(0), |at| UnixTime(at.as_millisecond()));
        Self {
            goal: plain_line(&task.order.goal, REASON),
            state: ListedState::BlockedTask(plain_line(reason, REASON)),
            ..Self::unread(
                &format!("task {}", queued_name(&task.order)),
                &plain(project),
                added,
            )
        }
    }

    /// What it cost, if it changed today. A session that began earlier counts as a whole.
    pub fn cost_today(&self, now: UnixTime, zone: &TimeZone) -> CostTotal {
        let date = |at: UnixTime| {
            jiff::Timestamp::from_millisecond(at.0)
                .ok()
                .map(|at| at.to_zoned(zone.clone()).date())
        };
        // The sessions of a task are in the list themselves.
        if matches!(self.state, ListedState::BlockedTask(_)) {
            return CostTotal::default();
        }
        let changed = match self.group() {
            SessionGroup::NeedsYou | SessionGroup::Running => now,
            SessionGroup::Ended => self.changed,
        };
        if date(changed) == date(now) {
            self.cost
        } else {
            CostTotal::default()
        }
    }

    /// Whether a text occurs in the session's name, project, host or user. An empty text matches
    /// everything.
    pub fn matches(&self, query: &str) -> bool {
        let query = query.to_lowercase();
        let fields = [&self.name, &self.project, &self.host, &self.user];
        query.split_whitespace().all(|word| {
            fields
                .iter()
                .any(|field| field.to_lowercase().contains(word))
        })
    }
}

/// Why an open gate asks: the most informative text that is known.
fn open_reason(state: &SessionState) -> String {
    let Some(gate) = &state.gates.open else {
        return String::new();
    };
    let asked = state
        .permissions()
        .asked_at(gate)
        .map(|ask| plain(&ask.tool.title));
    let items = gate.subject.items().len();
    let unsent = (items > 0).then(|| format!("{} not sent yet", counted(items, "item")));
    let proposed = gate.subject.proposal().map(|_| plain(&gate.reason));
    let reason = asked
        .or(unsent)
        .or(proposed)
        .unwrap_or_else(|| gate_words::gate_reason(state, gate, &local_zone()));
    let reason = if reason.is_empty() {
        gate_words::gate_title(state, gate)
    } else {
        reason
    };
    plain_line(&reason, REASON)
}

fn running_words(
    activity: &CurrentActivity,
    reason: &str,
    now: UnixTime,
    zone: &TimeZone,
) -> ListedWords {
    let chip = activity.chip(now, zone);
    let rest = chip.time_and_note();
    let text = match activity {
        CurrentActivity::NeedsUser { gate, .. } => {
            return ListedWords {
                sign: chip.sign,
                text: with_reason(&sentence_case(&gate.name().replace('_', " ")), reason),
                role: chip.role,
            };
        }
        // The name of a hook stays as the config has it.
        CurrentActivity::RunsHook { .. } => chip.word,
        CurrentActivity::Ended { .. }
        | CurrentActivity::Works { .. }
        | CurrentActivity::Watches { .. }
        | CurrentActivity::Paused { .. } => sentence_case(&chip.word.to_lowercase()),
        CurrentActivity::UsageLimit { .. } => format!("Usage {}", chip.word),
        CurrentActivity::Backoff { .. }
        | CurrentActivity::Outage { .. }
        | CurrentActivity::Between(_) => sentence_case(&chip.word),
    };
    ListedWords {
        sign: chip.sign,
        text: text + &rest,
        role: chip.role,
    }
}

fn with_reason(word: &str, reason: &str) -> String {
    match plain_line(reason, REASON) {
        reason if reason.is_empty() => word.to_owned(),
        // The reason says it already.
        reason if reason.to_lowercase().starts_with(&word.to_lowercase()) => sentence_case(&reason),
        reason => format!("{word}: {reason}"),
    }
}

/// A moment as people name it: the time of today, the day of the last months, else the date.
fn moment(at: UnixTime, now: UnixTime, zone: &TimeZone) -> String {
    let zoned = |at: UnixTime| {
        jiff::Timestamp::from_millisecond(at.0)
            .ok()
            .map(|at| at.to_zoned(zone.clone()))
    };
    let (Some(at), Some(now)) = (zoned(at), zoned(now)) else {
        return String::new();
    };
    let form = match () {
        () if at.date() == now.date() => "%H:%M",
        () if at.year() == now.year() => "%b %-d",
        () => "%Y-%m-%d",
    };
    at.strftime(form).to_string()
}

/// An age in a single unit.
pub fn coarse_age(age: TimeSpan) -> String {
    let seconds = age.0 / 1_000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => format!("{} h", seconds / 3_600),
        _ => counted(seconds / 86_400, "day"),
    }
}

/// A project's folder, short: below the home folder with `~`.
pub fn short_path(path: &str, home: Option<&str>) -> String {
    let below = home
        .filter(|home| !home.is_empty())
        .and_then(|home| path.strip_prefix(home));
    match below {
        Some("") => "~".to_owned(),
        Some(rest) if rest.starts_with('/') => plain(&format!("~{rest}")),
        Some(_) | None => plain(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(name: &str, changed: i64, state: ListedState) -> ListedSession {
        let started = Some(UnixTime(changed - 60_000));
        ListedSession {
            state,
            iteration: 2,
            started,
            ..ListedSession::unread(name, "/home/me/src/parser", UnixTime(changed))
        }
    }

    fn works() -> ListedState {
        let activity = CurrentActivity::Works {
            since: Some(UnixTime(0)),
            last_update: None,
            silent: false,
            step: None,
            then: None,
        };
        ListedState::Runs {
            activity,
            reason: String::new(),
        }
    }

    fn waiting(since: i64) -> ListedState {
        let activity = CurrentActivity::NeedsUser {
            gate: GateKind::RetryLimit,
            since: UnixTime(since),
        };
        ListedState::Runs {
            activity,
            reason: "case_4 failed".into(),
        }
    }

    fn complete() -> ListedState {
        ListedState::Ended {
            outcome: SessionOutcome::Complete,
            reason: "all tests pass".into(),
        }
    }

    #[test]
    fn the_time_of_a_session_is_the_time_in_which_it_ran() {
        let ended = session("a", 600_000, complete());
        assert_eq!(ended.time(UnixTime(900_000), &TimeZone::UTC), "1:00");
        let continued = ListedSession {
            idle: TimeSpan(18_000),
            ..ended
        };
        assert_eq!(continued.time(UnixTime(900_000), &TimeZone::UTC), "0:42");
    }

    #[test]
    fn sessions_that_need_the_user_come_first_and_the_newest_of_each_group() {
        let mut list = [
            session("ended-early", 1_000, complete()),
            session("works", 9_000_000, works()),
            session("asks-early", 100, waiting(100)),
            session("ended-late", 2_000, complete()),
            session("asks-late", 50, waiting(200)),
            session("killed", 1_500, ListedState::Stopped { gate: None }),
        ];
        list.sort_by(ListedSession::order);
        let names: Vec<&str> = list.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "asks-late",
                "asks-early",
                "works",
                "ended-late",
                "killed",
                "ended-early"
            ]
        );
    }

    #[test]
    fn one_line_says_what_a_session_does_or_how_it_ended() {
        let text = |state| {
            session("s", 0, state)
                .words(UnixTime(72_000), &TimeZone::UTC)
                .text
        };
        assert_eq!(text(works()), "Working 1:12");
        assert_eq!(text(waiting(0)), "Retry limit: case_4 failed");
        assert_eq!(text(complete()), "Complete: all tests pass");
        let stopped = ListedState::Ended {
            outcome: SessionOutcome::Cancelled,
            reason: "stopped by the user".into(),
        };
        assert_eq!(text(stopped), "Stopped by the user");
        assert_eq!(
            text(ListedState::Stopped { gate: None }),
            "Stopped in iteration 2"
        );
        assert_eq!(
            text(ListedState::Stopped {
                gate: Some(GateKind::Budget)
            }),
            "Stopped while it needed you: budget"
        );
        let hook = CurrentActivity::RunsHook {
            hook: "tests".into(),
            since: Some(UnixTime(60_000)),
            limit: Some(TimeSpan::secs(60)),
            then: None,
        };
        assert_eq!(
            text(ListedState::Runs {
                activity: hook,
                reason: String::new()
            }),
            "tests 12s of 60s"
        );
        let doing = CurrentActivity::Between("the agent drives it".into());
        assert_eq!(
            text(ListedState::Runs {
                activity: doing,
                reason: String::new()
            }),
            "The agent drives it"
        );
    }

    #[test]
    fn a_session_that_waits_or_has_ended_shows_no_running_clock() {
        let time = |state: &ListedState, now| {
            session("s", 60_000, state.clone()).time(UnixTime(now), &TimeZone::UTC)
        };
        assert_eq!(time(&works(), 72_000), "1:12");
        for (state, shown) in [(complete(), "1:00"), (waiting(61_000), "since 00:01")] {
            assert_eq!([time(&state, 72_000), time(&state, 80_000)], [shown, shown]);
        }
        assert_eq!(
            moment(UnixTime(0), UnixTime(86_400_000), &TimeZone::UTC),
            "Jan 1"
        );
        assert_eq!(
            moment(UnixTime(0), UnixTime(400 * 86_400_000), &TimeZone::UTC),
            "1970-01-01"
        );
    }

    #[test]
    fn a_filter_finds_every_word_in_name_or_project() {
        let one = session("fix-Parser", 0, works());
        assert!(one.matches("") && one.matches("parser src") && one.matches("FIX"));
        assert!(!one.matches("fix docs"));
    }

    #[test]
    fn a_project_below_the_home_folder_is_short() {
        assert_eq!(short_path("/home/me/src/x", Some("/home/me")), "~/src/x");
        assert_eq!(short_path("/home/me", Some("/home/me")), "~");
        assert_eq!(
            short_path("/home/meadow/x", Some("/home/me")),
            "/home/meadow/x"
        );
        assert_eq!(short_path("/srv/x", None), "/srv/x");
    }
}
