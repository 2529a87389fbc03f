//! Usage limits as text: when a session resumes, in the time zone of the user's machine.

use jiff::{Timestamp, tz::TimeZone};

use super::{clock::short_span, local_time::local_zone, text::plain};
use crate::engine::{
    conversation::LimitCause,
    event::{LimitAction, LimitReached},
    time::{TimeSpan, UnixTime},
    usage_limit::UsageLimitWait,
};

/// A reset that is further away than this is shown with its day.
const WITH_DAY: TimeSpan = TimeSpan::secs(20 * 60 * 60);

/// The text for the record of a reached limit.
pub fn limit_reached(reached: &LimitReached) -> String {
    let agent = plain(&reached.agent);
    let unsure = reached.resets_at.is_none() && reached.action == LimitAction::Wait;
    let what = match reached.cause {
        LimitCause::Usage if unsure => "reached its usage limit and reported no reset time",
        LimitCause::Usage => "reached its usage limit",
        LimitCause::NoCredit => "has no credit left",
        LimitCause::Outage => "does not reach its server",
    };
    let then = match (reached.action, reached.cause) {
        (LimitAction::Wait, _) => {
            format!(". The session resumes at {}", clock(reached.until, None))
        }
        (LimitAction::Switch, LimitCause::Usage | LimitCause::Outage) => {
            format!(
                ". It gets the next turn after {}",
                clock(reached.until, None)
            )
        }
        (LimitAction::Switch, LimitCause::NoCredit) | (LimitAction::Ask | LimitAction::Fail, _) => {
            String::new()
        }
    };
    format!("`{agent}` {what}{then}")
}

/// The status of a session that waits for a reset.
pub fn waiting(hold: &UsageLimitWait, now: UnixTime) -> String {
    let left = short_span(hold.until.since(now));
    match hold.cause {
        LimitCause::Outage => format!("Server not reached: next try in {left}"),
        LimitCause::Usage | LimitCause::NoCredit => {
            format!(
                "Usage limit: resumes at {} (in {left})",
                clock(hold.until, Some(now))
            )
        }
    }
}

/// When the limit resets, seen from a moment.
pub(super) fn reset_time(hold: &UsageLimitWait, now: UnixTime, zone: &TimeZone) -> String {
    match hold.resets_at {
        _ if hold.cause == LimitCause::NoCredit => {
            "It has no credit left. Add some and retry, or switch agents.".to_owned()
        }
        Some(at) => format!(
            "It resets at {}, in {}.",
            clock_in(zone, at, Some(now)),
            short_span(at.since(now))
        ),
        None => "The agent did not report when it resets.".to_owned(),
    }
}

pub fn resumes(until: UnixTime, now: UnixTime) -> String {
    format!("at {} (in {})", clock(until, Some(now)), until.since(now))
}

/// The local time of day, with the day if it is not soon.
fn clock(at: UnixTime, now: Option<UnixTime>) -> String {
    clock_in(&local_zone(), at, now)
}

pub(super) fn clock_in(zone: &TimeZone, at: UnixTime, now: Option<UnixTime>) -> String {
    let Ok(timestamp) = Timestamp::from_millisecond(at.0) else {
        return "an unknown time".to_owned();
    };
    let there = timestamp.to_zoned(zone.clone());
    let far = now.is_some_and(|now| at.since(now) > WITH_DAY);
    there
        .strftime(if far { "%a %-d %b %H:%M" } else { "%H:%M" })
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_that_is_not_soon_is_shown_with_its_day() {
        let zone = TimeZone::get("America/New_York").expect("a zone");
        let at = |text: &str| UnixTime(text.parse::<Timestamp>().expect("a time").as_millisecond());
        let now = at("2026-11-16T22:00:00Z");
        assert_eq!(
            clock_in(&zone, at("2026-11-17T01:00:00Z"), Some(now)),
            "20:00"
        );
        assert_eq!(
            clock_in(&zone, at("2026-11-19T01:05:00Z"), Some(now)),
            "Wed 18 Nov 20:05"
        );
    }
}
