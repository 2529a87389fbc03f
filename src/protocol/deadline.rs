//! The deadline of a command that arrives by NATS.
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

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::reply::SessionReply;
use crate::engine::time::{TimeSpan, UnixTime};

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
pub fn check(request: &[u8], now: UnixTime) -> Result<(), DeadlineError> {
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
            let runs = check(&request, session_clock(sent + way)).is_ok();
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
            assert_eq!(check(line.as_bytes(), UnixTime(i64::MAX)), Ok(()), "{line}");
        }
    }

    #[test]
    fn a_deadline_that_is_no_time_is_refused() {
        for line in [r#"{"deadline":"soon"}"#, r#"{"deadline":12}"#] {
            assert_eq!(
                check(line.as_bytes(), UnixTime(0)),
                Err(DeadlineError::Unreadable),
                "{line}"
            );
        }
    }

    #[test]
    fn a_late_command_is_refused_in_words_and_by_a_word() {
        let late = check(
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
