//! Usage as text for people: tokens and money, and usage limits with the time at which a session
//! resumes, in the time zone of the user's machine.

use jiff::{Timestamp, tz::TimeZone};

use crate::{
    engine::{
        budget::{CostTotal, UsageTotals},
        conversation::LimitCause,
        event::{LimitAction, LimitReached},
        time::{TimeSpan, UnixTime},
        usage_limit::UsageLimitWait,
    },
    present::text::{counted, local_zone, plain, short_span},
};

/// `12.3k tokens · $0.42`, or whichever of the two is known.
pub fn words(used: UsageTotals) -> Option<String> {
    let count = (used.tokens > 0).then(|| tokens(used.tokens));
    let known: Vec<String> = count.into_iter().chain(cost(used.cost)).collect();
    (!known.is_empty()).then(|| known.join(" · "))
}

/// The same, to append to another text.
pub fn suffix(used: UsageTotals) -> String {
    words(used)
        .map(|words| format!(" · {words}"))
        .unwrap_or_default()
}

/// What turns cost, for surfaces that leave out what is unknown or nothing.
pub fn cost(total: CostTotal) -> Option<String> {
    let is_known = |known: &f64| *known > 0.0;
    let known = total.known().filter(is_known)?;
    Some(amount(known, total.estimated, total.unknown_turns > 0))
}

/// `$0.42`, `≈ $0.42` if creel estimated a part of it, `≥ $0.42` if it lacks a part.
pub fn amount(known: f64, estimated: f64, is_partial: bool) -> String {
    let least = if is_partial { "≥" } else { "" };
    let about = if estimated > 0.0 { "≈" } else { "" };
    match (least, about) {
        ("", "") => money(known),
        _ => format!("{least}{about} {}", money(known)),
    }
}

/// Tokens: all digits up to 9,999, then thousands and millions.
pub fn tokens(count: u64) -> String {
    match count {
        0..10_000 => counted(count, "token"),
        10_000..1_000_000 => format!("{}.{}k tokens", count / 1_000, count % 1_000 / 100),
        _ => format!(
            "{}.{}M tokens",
            count / 1_000_000,
            count % 1_000_000 / 100_000
        ),
    }
}

/// The same in a few characters: `41k tok`.
pub fn short_tokens(count: u64) -> String {
    match count {
        0..1_000 => format!("{count} tok"),
        1_000..1_000_000 => format!("{}k tok", count / 1_000),
        _ => format!("{}.{}M tok", count / 1_000_000, count % 1_000_000 / 100_000),
    }
}

/// Money. An amount below one cent is not shown as zero.
pub fn money(cost: f64) -> String {
    if cost > 0.0 && cost < 0.01 {
        "<$0.01".into()
    } else {
        format!("${cost:.2}")
    }
}

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
    use crate::engine::conversation::TurnUsage;

    #[test]
    fn amounts_have_the_units_of_their_size() {
        assert_eq!(
            [0, 1, 9_999, 10_000, 12_345, 999_999, 2_500_000].map(tokens),
            [
                "0 tokens",
                "1 token",
                "9999 tokens",
                "10.0k tokens",
                "12.3k tokens",
                "999.9k tokens",
                "2.5M tokens"
            ]
        );
        assert_eq!(
            [0.0, 0.001, 0.01, 1.239, 12.0].map(money),
            ["$0.00", "<$0.01", "$0.01", "$1.24", "$12.00"]
        );
    }

    #[test]
    fn unknown_amounts_are_left_out_and_estimates_and_gaps_have_a_sign() {
        let turn = |tokens, cost, cost_estimated| TurnUsage {
            tokens,
            cost,
            cost_estimated,
            ..TurnUsage::UNKNOWN
        };
        let shown = |turns: &[TurnUsage]| {
            let mut used = UsageTotals::default();
            for turn in turns {
                used.add(*turn);
            }
            suffix(used)
        };
        let reported = turn(Some(12_345), Some(0.42), None);
        let estimated = turn(Some(10), None, Some(0.001));
        let unknown = turn(None, None, None);
        assert_eq!(shown(&[]), "");
        assert_eq!(shown(&[unknown]), "");
        assert_eq!(shown(&[reported]), " · 12.3k tokens · $0.42");
        assert_eq!(shown(&[estimated]), " · 10 tokens · ≈ <$0.01");
        assert_eq!(shown(&[reported, unknown]), " · 12.3k tokens · ≥ $0.42");
        let all = [reported, estimated, unknown];
        assert_eq!(shown(&all), " · 12.3k tokens · ≥≈ $0.42");
        // What the agent reports counts, even nothing.
        let free = turn(Some(5), Some(0.0), Some(1.0));
        assert_eq!(shown(&[free]), " · 5 tokens");
    }

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
