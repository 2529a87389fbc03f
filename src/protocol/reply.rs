//! Replies to requests: data, or why a request was refused or not answered; and the deadline of a
//! command that arrives by NATS.
//!
//! A command can wait anywhere on its way: in a client that lost its connection, in the server, or
//! in a session that was suspended. So it carries a deadline, and the session refuses it after
//! that. Two machines rarely agree about the time, so a deadline is a time of the session's clock.
//! Every reply of a session reports that clock (`at`), and a client asks for a reply before its
//! first command.
//!
//! # Invariants
//! - A command never runs after its client timed out, however wrong the two clocks are and however
//!   slow the reply was.

use std::{
    io,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use super::{
    request::{LONGEST_REQUEST, RequestError, VERSION, line},
    view::{
        CheckpointView, GateView, HookView, ItemView, JudgementView, LoopView, StatusView,
        StopHookView, ToolDecisionView,
    },
};
use crate::{
    engine::{
        event::{Event, StopEvent, TaskEvent},
        refusal::Refusal,
        time::{TimeSpan, UnixTime},
    },
    present::{refusals, task_view::TaskView},
};

/// Why a request is refused.
#[derive(Debug, thiserror::Error)]
pub enum RequestRefusal {
    #[error("{}", refusals::text(.0))]
    Session(Refusal),
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("a request has at most {LONGEST_REQUEST} bytes; the session closed the connection")]
    LineTooLong,
    #[error(transparent)]
    Deadline(#[from] DeadlineError),
    /// The query names a loop that does not exist.
    #[error("there is no iteration {0}")]
    NoSuchLoop(String),
    #[error("this session belongs to another user")]
    OtherUser,
    #[error("all {0} connections of this session are busy; try again")]
    TooManyClients(usize),
    #[error("too many clients watch this session (the limit is {0})")]
    TooManyWatchers(usize),
    #[error(
        "{0} calls already wait for your hooks or for you, and creel answers no more at a time"
    )]
    TooManyCalls(usize),
    #[error("cannot read the journal: {0}")]
    JournalUnreadable(io::Error),
    #[error("NATS does not send records here: read them from the stream, under {0}")]
    NoWatchOverNats(String),
    #[error(
        "the answer is too large ({length} B; the NATS server allows {most} B); ask on the session's machine"
    )]
    ReplyTooLong { length: usize, most: usize },
}

impl RequestRefusal {
    /// The stable name of the reason, for programs.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Session(refusal) => refusal.code(),
            Self::Request(error) => error.code(),
            Self::LineTooLong => "request_too_long",
            Self::Deadline(error) => error.code(),
            Self::NoSuchLoop(_) => "no_such_loop",
            Self::OtherUser => "other_user",
            Self::TooManyClients(_) => "too_many_clients",
            Self::TooManyWatchers(_) => "too_many_watchers",
            Self::TooManyCalls(_) => "too_many_calls",
            Self::JournalUnreadable(_) => "journal_unreadable",
            Self::NoWatchOverNats(_) => "no_watch_over_nats",
            Self::ReplyTooLong { .. } => "reply_too_long",
        }
    }
}

impl From<Refusal> for RequestRefusal {
    fn from(refusal: Refusal) -> Self {
        Self::Session(refusal)
    }
}

/// A refusal as a client receives it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct RefusedRequest {
    /// The stable name of the reason. An older creel does not send it.
    pub code: Option<String>,
    /// The reason, for people.
    pub text: String,
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum SessionRequestError {
    /// No process runs the session.
    #[error("session `{0}` is not running")]
    NotRunning(String),
    /// A process runs the session, but creel cannot connect to it: nothing was sent.
    #[error("session `{name}` is running, but creel cannot reach it: {cause}")]
    Unreachable { name: String, cause: io::Error },
    /// The session got the request and did not answer: it may have run it.
    #[error("session `{name}` did not answer: {cause}")]
    Unanswered { name: String, cause: io::Error },
    #[error(transparent)]
    Refused(RefusedRequest),
    /// The request did not leave this machine.
    #[error("{0}; nothing was sent")]
    NotSent(String),
    /// The session ended before it answered.
    #[error("session `{0}` ended before it answered")]
    Ended(String),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionReply {
    /// The version of the protocol.
    pub v: u32,
    /// Whether it was done.
    pub ok: bool,
    /// Why not, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Why not, for programs: the text may change, the code does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    pub data: Option<ReplyData>,
}

/// The data of a reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyData {
    Status(Box<StatusView>),
    Items(Vec<ItemView>),
    Item(Box<ItemView>),
    Gates(Vec<GateView>),
    Hooks(Vec<HookView>),
    Tasks(Vec<TaskView>),
    Task(Box<TaskView>),
    /// The name of the task that was added.
    Added(String),
    /// The stop hooks that were registered.
    StopHooks(Vec<StopHookView>),
    /// How many stop hooks were removed.
    Cleared(usize),
    AgentLoop(Box<LoopView>),
    Judged(Box<JudgementView>),
    ToolDecided(ToolDecisionView),
    Checkpoints(Vec<CheckpointView>),
}

impl SessionReply {
    /// It was done.
    pub const fn done() -> Self {
        Self {
            v: VERSION,
            ok: true,
            error: None,
            code: None,
            data: None,
        }
    }

    /// The reply to a command that recorded these events.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the reply to other commands has no data"
    )]
    pub fn recorded<'a>(events: impl IntoIterator<Item = &'a Event>) -> Self {
        let data = events.into_iter().filter_map(|event| match event {
            Event::Task(TaskEvent::Created(created)) => {
                Some(ReplyData::Added(created.task.clone()))
            }
            Event::Stop(StopEvent::HooksCleared { hooks, .. }) => {
                Some(ReplyData::Cleared(hooks.len()))
            }
            _ => None,
        });
        data.last().map_or(Self::done(), Self::with)
    }

    pub fn with(data: ReplyData) -> Self {
        Self {
            data: Some(data),
            ..Self::done()
        }
    }

    pub fn refused(why: &RequestRefusal) -> Self {
        Self {
            ok: false,
            error: Some(why.to_string()),
            code: Some(why.code().into()),
            ..Self::done()
        }
    }

    pub fn outcome(self) -> Result<Option<ReplyData>, RefusedRequest> {
        if self.ok {
            return Ok(self.data);
        }
        let text = self
            .error
            .unwrap_or_else(|| "the session gave no reason".into());
        Err(RefusedRequest {
            code: self.code,
            text,
        })
    }

    /// The reply as a line, with its newline.
    pub fn to_line(&self) -> String {
        line(self)
    }
}

/// The session's clock, as a client knows it: a time that the session reported, and when the report
/// arrived here.
///
/// The session's clock has moved on while the reply was on its way, so it is never behind what is
/// known of it. A deadline that is calculated from it can only be too early, by as long as the
/// reply took, and never too late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionClock {
    reported: UnixTime,
    received: Instant,
}

impl SessionClock {
    /// The clock that a reply reports. `None` if it reports none.
    pub fn of(reply: &TimedReply, received: Instant) -> Option<Self> {
        let reported: jiff::Timestamp = reply.at.as_deref()?.parse().ok()?;
        Some(Self {
            reported: UnixTime(reported.as_millisecond()),
            received,
        })
    }

    /// The deadline of a command that is sent now, if the client waits for `patience`.
    pub fn deadline(&self, now: Instant, patience: Duration) -> String {
        let since = now.saturating_duration_since(self.received) + patience;
        self.reported.after(TimeSpan::from(since)).rfc3339()
    }
}

/// The deadline in a request. Requests of other programs need not have one.
#[derive(Debug, Clone, PartialEq, Deserialize)]
struct RequestDeadline {
    #[serde(default)]
    deadline: Option<serde_json::Value>,
}

/// Why a session does not run a command that it read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeadlineError {
    #[error(
        "the command arrived at {arrived}, after its deadline ({deadline}), so the session did not run it; send it again"
    )]
    Passed {
        deadline: String,
        /// When the session read the command.
        arrived: String,
    },
    #[error("`deadline` is not a time such as 2026-11-15T09:30:00.123Z")]
    Unreadable,
}

impl DeadlineError {
    pub fn reply(&self) -> SessionReply {
        SessionReply::refused(&self.clone().into())
    }

    /// The stable name of the reason, for programs.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Passed { .. } => "past_deadline",
            Self::Unreadable => "bad_deadline",
        }
    }

    /// The reason in the reply's own field.
    pub const fn refusal(&self) -> Option<DeadlineRefusal> {
        match self {
            Self::Passed { .. } => Some(DeadlineRefusal::PastDeadline),
            Self::Unreadable => None,
        }
    }
}

/// Checks the deadline of a request that the session reads at `now`.
pub fn check_deadline(request: &[u8], now: UnixTime) -> Result<(), DeadlineError> {
    // The code that reads the whole request reports anything else that is wrong with it.
    let Ok(RequestDeadline {
        deadline: Some(deadline),
    }) = serde_json::from_slice(request)
    else {
        return Ok(());
    };
    let deadline = deadline
        .as_str()
        .ok_or(DeadlineError::Unreadable)?
        .to_owned();
    let until: jiff::Timestamp = deadline.parse().map_err(|_| DeadlineError::Unreadable)?;
    if now.0 <= until.as_millisecond() {
        return Ok(());
    }
    Err(DeadlineError::Passed {
        deadline,
        arrived: now.rfc3339(),
    })
}

/// Why a command was refused, as a code for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeadlineRefusal {
    PastDeadline,
}

/// A reply by NATS: the same as on the control socket, with the session's clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TimedReply {
    #[serde(flatten)]
    pub reply: SessionReply,
    /// Why the session refused the request without reading all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<DeadlineRefusal>,
    /// The session's clock when it replied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

impl TimedReply {
    pub fn at(reply: SessionReply, refusal: Option<DeadlineRefusal>, now: UnixTime) -> Self {
        Self {
            reply,
            refusal,
            at: Some(now.rfc3339()),
        }
    }

    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a reply has no keys that are not text")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::protocol::ReplyData;

    #[test]
    fn answers_read_as_they_are_documented() {
        assert_eq!(SessionReply::done().to_line(), "{\"v\":1,\"ok\":true}\n");
        let refused = SessionReply::refused(&Refusal::NotPaused.into());
        let line = r#"{"v":1,"ok":false,"error":"the session is not paused","code":"not_paused"}"#;
        assert_eq!(refused.to_line(), format!("{line}\n"));
        let (code, text) = (
            Some("not_paused".to_owned()),
            "the session is not paused".to_owned(),
        );
        assert_eq!(refused.outcome(), Err(RefusedRequest { code, text }));
        let gates = SessionReply::with(ReplyData::Gates(Vec::new()));
        assert_eq!(gates.to_line(), "{\"v\":1,\"ok\":true,\"gates\":[]}\n");
        assert_eq!(
            serde_json::from_str::<SessionReply>(&gates.to_line()).expect("a reply"),
            gates
        );
        assert_eq!(
            serde_json::from_str::<SessionReply>(&SessionReply::done().to_line()).expect("a reply"),
            SessionReply::done()
        );
    }

    const PATIENCE: Duration = Duration::from_secs(30);
    const HOUR: i64 = 3_600_000;

    fn request(deadline: &str) -> Vec<u8> {
        format!(r#"{{"v":1,"do":"pause","deadline":"{deadline}"}}"#).into_bytes()
    }

    proptest! {
        /// Time is counted in milliseconds from the client's first question, on a clock that
        /// neither side has. The session's own clock is wrong by `skew`.
        #[test]
        fn no_command_runs_after_its_client_gave_up_whatever_the_clocks_say(
            skew in -1_000 * HOUR..1_000 * HOUR,
            (asked, answered, waited, way) in (0_i64..60_000, 0_i64..60_000, 0_i64..10 * HOUR, 0_i64..2 * HOUR),
        ) {
            let true_time = 1_794_796_000_000_i64;
            let start = Instant::now();
            let after = |ms: i64| start + Duration::from_millis(u64::try_from(ms).expect("it is positive"));
            let session_clock = |ms: i64| UnixTime(true_time + skew + ms);
            let reply = TimedReply::at(SessionReply::done(), None, session_clock(asked));
            let clock = SessionClock::of(&reply, after(asked + answered)).expect("it tells its time");
            let sent = asked + answered + waited;
            let request = request(&clock.deadline(after(sent), PATIENCE));
            let runs = check_deadline(&request, session_clock(sent + way)).is_ok();
            let patience = i64::try_from(PATIENCE.as_millis()).expect("it is small");
            prop_assert!(!runs || way <= patience, "it ran {way} ms after it was sent");
            prop_assert!(runs || way + answered > patience, "it was refused {way} ms after it was sent");
        }
    }

    #[test]
    fn a_request_without_a_deadline_is_never_late() {
        for line in [
            r#"{"v":1,"do":"pause"}"#,
            r#"{"v":1,"do":"pause","deadline":null}"#,
            "no JSON",
        ] {
            assert_eq!(
                check_deadline(line.as_bytes(), UnixTime(i64::MAX)),
                Ok(()),
                "{line}"
            );
        }
    }

    #[test]
    fn a_deadline_that_is_no_time_is_refused() {
        for line in [r#"{"deadline":"soon"}"#, r#"{"deadline":12}"#] {
            assert_eq!(
                check_deadline(line.as_bytes(), UnixTime(0)),
                Err(DeadlineError::Unreadable),
                "{line}"
            );
        }
    }

    #[test]
    fn a_late_command_is_refused_in_words_and_by_a_word() {
        let late = check_deadline(
            &request("2026-11-15T09:30:00Z"),
            UnixTime(1_794_735_001_000),
        )
        .expect_err("it is late");
        let reply = TimedReply::at(late.reply(), late.refusal(), UnixTime(1_794_735_001_000));
        assert_eq!(
            reply.to_json(),
            r#"{"v":1,"ok":false,"error":"the command arrived at 2026-11-15T09:30:01.000Z, after its deadline "#
                .to_owned()
                + r#"(2026-11-15T09:30:00Z), so the session did not run it; send it again","code":"past_deadline","#
                + r#""refusal":"past_deadline","at":"2026-11-15T09:30:01.000Z"}"#
        );
        assert_eq!(
            serde_json::from_str::<TimedReply>(&reply.to_json()).expect("a reply"),
            reply
        );
        let with_data = TimedReply::at(
            SessionReply::with(ReplyData::Gates(Vec::new())),
            None,
            UnixTime(0),
        );
        assert_eq!(
            serde_json::from_str::<TimedReply>(&with_data.to_json()).expect("a reply"),
            with_data
        );
    }
}
