//! Usage limits: whether a turn failed because of a subscription, a quota or a rate limit, and when
//! that resets.
//!
//! Owns how such messages write times. The words for an agent's own limits are data
//! (`limit_pattern` in `assets/agents.yaml`), besides those that all servers share. The engine
//! decides what follows from a limit.
//!
//! # Invariants
//! - An unknown reset time is not guessed.
//! - A time without seconds means the end of that minute. One that has just passed means now: a
//!   turn that is sent again too early costs nothing, a night that is lost does.

use std::sync::LazyLock;

use jiff::{
    Timestamp, Zoned,
    civil::{Date, DateTime, Time, Weekday},
    tz::TimeZone,
};
use regex::{Captures, Regex, RegexBuilder};

use super::failure::{FailureKind, has_status, retry_after, without_work, words};
use crate::engine::{
    conversation::{LimitCause, UsageLimit},
    policy::AgentFacts,
    time::TimeSpan,
};

/// A reset that is further away is a misread time.
const FARTHEST: TimeSpan = TimeSpan::secs(40 * 24 * 60 * 60);
/// A time of day that passed this recently is not tomorrow's.
const JUST_PASSED: jiff::SignedDuration = jiff::SignedDuration::from_mins(30);

/// The limit or the outage that a message is about, if any.
pub(super) fn of(
    text: &str,
    kind: FailureKind,
    known: &AgentFacts,
    now: &Zoned,
) -> Option<UsageLimit> {
    static LIMIT: LazyLock<Regex> = LazyLock::new(|| {
        words(
            r"(usage|session|weekly|daily|hourly|monthly|request|token|message|\d+.?hour|rate).{0,12}(limit|cap\b)|limit.{0,20}(reached|hit|reset|exceeded)|(reached|hit|exceeded|exhausted|used up).{0,30}(limit|quota|requests)|quota.{0,40}(exceeded|exhausted|reset|per (day|minute|hour))|resource.?exhausted|too many requests",
        )
    });
    let resets_in = resets_in(text, now);
    let about_server = without_work(text);
    let own = known
        .limit_pattern
        .as_deref()
        .map(|pattern| RegexBuilder::new(pattern).multi_line(true).build());
    let is_own_limit =
        own.is_some_and(|pattern| pattern.is_ok_and(|pattern| pattern.is_match(text)));
    let is_limit = match kind {
        FailureKind::RateLimit => {
            resets_in.is_some()
                || LIMIT.is_match(&about_server)
                || has_status(&about_server, &["429"])
        }
        FailureKind::Quota => resets_in.is_some() || LIMIT.is_match(&about_server),
        FailureKind::NoCredit | FailureKind::Overloaded | FailureKind::Network => true,
        FailureKind::Login | FailureKind::Setup | FailureKind::ContextFull => false,
        FailureKind::Server | FailureKind::Other => {
            resets_in.is_some() && LIMIT.is_match(&about_server)
        }
    };
    let cause = match kind {
        FailureKind::NoCredit if resets_in.is_none() => LimitCause::NoCredit,
        FailureKind::Overloaded | FailureKind::Network if !is_own_limit => LimitCause::Outage,
        FailureKind::NoCredit
        | FailureKind::Overloaded
        | FailureKind::Network
        | FailureKind::RateLimit
        | FailureKind::Quota
        | FailureKind::Login
        | FailureKind::Setup
        | FailureKind::ContextFull
        | FailureKind::Server
        | FailureKind::Other => LimitCause::Usage,
    };
    (is_limit || is_own_limit).then_some(UsageLimit { resets_in, cause })
}

/// The time until the reset in a message.
fn resets_in(text: &str, now: &Zoned) -> Option<TimeSpan> {
    let until = |at: Timestamp| {
        let span =
            u64::try_from(at.as_millisecond() - now.timestamp().as_millisecond()).unwrap_or(0);
        Some(TimeSpan(span)).filter(|span| *span <= FARTHEST)
    };
    let absolute = epoch(text)
        .or_else(|| written_out(text))
        .or_else(|| clock_time(text, now));
    let absolute = absolute.and_then(until);
    // A date that has passed may be that of the message.
    let is_over = absolute.is_none_or(TimeSpan::is_zero);
    retry_after(text).filter(|_| is_over).or(absolute)
}

/// Seconds or milliseconds since 1970: `limit reached|1749924000`, `"resets_at": 1749924000`.
fn epoch(text: &str) -> Option<Timestamp> {
    static EPOCH: LazyLock<Regex> = LazyLock::new(|| {
        words(r#"(?:\||reset[\w-]*["']?\s*[:=]?\s*["']?|retry-after\s*:\s*)(\d{13}|\d{10})\b"#)
    });
    let digits = EPOCH.captures_iter(text).last()?.get(1)?.as_str();
    let number: i64 = digits.parse().ok()?;
    if digits.len() == 13 {
        Timestamp::from_millisecond(number)
    } else {
        Timestamp::from_second(number)
    }
    .ok()
}

/// A whole date with a zone: `2026-11-16T20:00:00Z`, `2026-11-16 20:00 UTC`, `Wed, 18 Nov 2026
/// 07:28:00 GMT`.
fn written_out(text: &str) -> Option<Timestamp> {
    static ISO: LazyLock<Regex> = LazyLock::new(|| {
        words(
            r"(?:reset|until|retry|again|available)[^\n]{0,25}?(?P<date>\d{4}-\d\d-\d\d)[T ](?P<time>\d\d:\d\d(?::\d\d)?)(?:\.\d+)?\s*(?P<zone>Z|UTC|GMT|[+-]\d\d:?\d\d)",
        )
    });
    static HTTP: LazyLock<Regex> = LazyLock::new(|| {
        words(
            r"(?:reset|until|retry|again|available)[^\n]{0,25}?((?:mon|tue|wed|thu|fri|sat|sun), \d{1,2} [a-z]{3} \d{4} \d\d:\d\d:\d\d GMT)",
        )
    });
    if let Some(found) = HTTP.captures_iter(text).last() {
        return jiff::fmt::rfc2822::parse(&found[1])
            .ok()
            .map(|at| at.timestamp());
    }
    let found = ISO.captures_iter(text).last()?;
    let date: Date = found["date"].parse().ok()?;
    let time: Time = found["time"].parse().ok()?;
    let zone = match &found["zone"] {
        "Z" | "z" | "UTC" | "utc" | "GMT" | "gmt" => TimeZone::UTC,
        offset => {
            let minutes = |text: &str| text.parse::<i32>().ok();
            let (hours, rest) = (
                minutes(offset.get(1..3)?)?,
                minutes(offset.get(offset.len() - 2..)?)?,
            );
            let seconds = (hours * 60 + rest) * 60 * if offset.starts_with('-') { -1 } else { 1 };
            TimeZone::fixed(jiff::tz::Offset::from_seconds(seconds).ok()?)
        }
    };
    let at = date.to_datetime(time).to_zoned(zone).ok()?.timestamp();
    if found["time"].len() > "20:00".len() {
        Some(at)
    } else {
        end_of_minute(at)
    }
}

fn end_of_minute(at: Timestamp) -> Option<Timestamp> {
    at.checked_add(jiff::SignedDuration::from_mins(1)).ok()
}

/// A time of day: `resets 8pm (America/New_York)`, `resets Nov 20 at 8:30am`, `try again at 3:04
/// PM`, `resets Monday 9am`, `resets tomorrow at 6am`.
fn clock_time(text: &str, now: &Zoned) -> Option<Timestamp> {
    static CLOCK: LazyLock<Regex> = LazyLock::new(|| {
        words(concat!(
            r"(?:resets?|try again|retry|available(?: again)?|until|wait)(?:\s+(?:at|on|after|is|will be|time:?))*\s+",
            r"(?:(?:(?P<month>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?\s+(?P<day>\d{1,2})(?:st|nd|rd|th)?",
            r"|(?P<tomorrow>tomorrow)|today|(?P<weekday>mon|tue|wed|thu|fri|sat|sun)[a-z]*)(?:,?\s*(?P<year>\d{4}))?,?\s*(?:at\s+)?)?",
            r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?(?::(?P<second>\d\d))?\s*(?P<half>[ap]\.?m\.?)?",
            r"\s*(?:\(?(?P<zone>[A-Za-z]+(?:/[A-Za-z_+\-0-9]+)+|UTC|GMT|[PMCE][SD]?T|CES?T|BST|JST)\b\)?)?",
        ))
    });
    let found = CLOCK
        .captures_iter(text)
        .filter(|found| is_clock(found))
        .last()?;
    let number = |name: &str| {
        found
            .name(name)
            .and_then(|it| it.as_str().parse::<i8>().ok())
    };
    let zone = match found.name("zone").map(|zone| zone.as_str()) {
        Some("UTC" | "utc" | "GMT" | "gmt") => TimeZone::UTC,
        Some(name) => TimeZone::get(zone_of(name)).ok()?,
        None => now.time_zone().clone(),
    };
    let half = found.name("half").map(|half| half.as_str().to_lowercase());
    let hour = match (
        number("hour")?,
        half.as_deref().and_then(|half| half.chars().next()),
    ) {
        (12, Some('a')) => 0,
        (hour @ 1..=11, Some('p')) => hour + 12,
        (hour, _) => hour,
    };
    let second = number("second");
    let time = Time::new(hour, number("minute").unwrap_or(0), second.unwrap_or(0), 0).ok()?;
    let there = now.with_time_zone(zone.clone());
    let at = |date: Date| DateTime::from_parts(date, time).to_zoned(zone.clone()).ok();
    let is_to_come =
        |date: Date| at(date).is_some_and(|at| at.duration_since(&there) > -JUST_PASSED);
    let date = match (found.name("month"), found.name("weekday")) {
        (Some(month), _) => {
            let month = month_of(month.as_str())?;
            let year = found
                .name("year")
                .and_then(|year| year.as_str().parse::<i16>().ok());
            let this_year =
                Date::new(year.unwrap_or_else(|| there.year()), month, number("day")?).ok()?;
            let is_past = year.is_none() && this_year < there.date();
            if is_past {
                Date::new(this_year.year() + 1, month, number("day")?).ok()?
            } else {
                this_year
            }
        }
        (None, Some(weekday)) => {
            let wanted = weekday_of(weekday.as_str())?;
            let mut days = there
                .date()
                .yesterday()
                .ok()?
                .series(jiff::Span::new().days(1))
                .take(9);
            days.find(|day| day.weekday() == wanted && is_to_come(*day))?
        }
        (None, None) => {
            let today = there.date();
            let before_midnight = today.yesterday().ok()?;
            let is_named = found.name("tomorrow").is_some();
            [before_midnight, today]
                .into_iter()
                .find(|day| !is_named && is_to_come(*day))
                .or(today.tomorrow().ok())?
        }
    };
    let at = at(date)?.timestamp();
    if second.is_some() {
        Some(at)
    } else {
        end_of_minute(at)
    }
}

/// The zone of an abbreviation.
fn zone_of(name: &str) -> &str {
    match name.to_uppercase().as_str() {
        "PST" | "PDT" | "PT" => "America/Los_Angeles",
        "MST" | "MDT" | "MT" => "America/Denver",
        "CST" | "CDT" | "CT" => "America/Chicago",
        "EST" | "EDT" | "ET" => "America/New_York",
        "CET" | "CEST" => "Europe/Berlin",
        "BST" => "Europe/London",
        "JST" => "Asia/Tokyo",
        _ => name,
    }
}

/// A bare number is not a time of day: `try again in 5` is not, `resets at 20:00` and `resets 8pm`
/// are.
fn is_clock(found: &Captures<'_>) -> bool {
    found.name("half").is_some() || found.name("minute").is_some()
}

fn month_of(name: &str) -> Option<i8> {
    const MONTHS: [&str; 12] = [
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ];
    let name = name.to_lowercase();
    (1..)
        .zip(MONTHS)
        .find(|(_, month)| *month == name)
        .map(|(number, _)| number)
}

fn weekday_of(name: &str) -> Option<Weekday> {
    const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
    let name = name.to_lowercase();
    let number = (1..).zip(DAYS).find(|(_, day)| *day == name)?.0;
    Weekday::from_monday_one_offset(number).ok()
}

#[cfg(test)]
mod tests {
    use LimitCause::{NoCredit, Outage, Usage};

    use super::*;
    use crate::config::agents::KnownAgents;

    /// Monday, 16 November 2026, 17:00 in New York; 22:00 in UTC.
    fn now() -> Zoned {
        "2026-11-16T17:00:00[America/New_York]"
            .parse()
            .expect("a time")
    }

    fn limit(text: &str, known: &AgentFacts) -> Option<UsageLimit> {
        of(text, FailureKind::of(text), known, &now())
    }

    #[test]
    fn a_time_that_is_over_is_now_and_one_that_is_too_far_away_is_none() {
        assert_eq!(
            resets_in("usage limit reached|1749924000", &now()),
            Some(TimeSpan(0))
        );
        assert_eq!(resets_in("usage limit reached|1999999999", &now()), None);
        for text in [
            "try again later",
            "resets soon",
            "in 5 of 8 tests",
            "at line 12:30",
            "since 1999-01-01",
        ] {
            assert_eq!(resets_in(text, &now()), None, "{text}");
        }
    }

    /// What creel makes of a message: its cause, and the instant at which the turn is sent again.
    /// Times of day are in the zone of the user, unless the message names one.
    const TEXTS: &[(&str, LimitCause, Option<&str>)] = &[
        // Times of day. Those without seconds mean the end of the minute.
        (
            "You've hit your session limit · resets 8pm (America/New_York)",
            Usage,
            Some("2026-11-17T01:01:00Z"),
        ),
        (
            "5-hour limit reached ∙ resets 3am (Europe/Berlin)",
            Usage,
            Some("2026-11-17T02:01:00Z"),
        ),
        (
            "Your usage limit will reset at 7pm (UTC).",
            Usage,
            Some("2026-11-17T19:01:00Z"),
        ),
        (
            "Usage limit: resets 22:30:15 UTC",
            Usage,
            Some("2026-11-16T22:30:15Z"),
        ),
        (
            "You've hit your weekly limit · resets Nov 18 at 8pm (America/New_York)",
            Usage,
            Some("2026-11-19T01:01:00Z"),
        ),
        (
            "usage limit, resets Nov 18, 8pm (America/New_York)",
            Usage,
            Some("2026-11-19T01:01:00Z"),
        ),
        (
            "usage limit, resets Tuesday 9am (America/New_York)",
            Usage,
            Some("2026-11-17T14:01:00Z"),
        ),
        (
            "usage limit resets tomorrow at 6am (UTC)",
            Usage,
            Some("2026-11-17T06:01:00Z"),
        ),
        (
            "You've hit your usage limit, try again at Nov 17th, 2026 5:00 PM (UTC).",
            Usage,
            Some("2026-11-17T17:01:00Z"),
        ),
        (
            "quota exceeded, resets at 2026-11-16 23:00 UTC",
            Usage,
            Some("2026-11-16T23:01:00Z"),
        ),
        // Just passed.
        (
            "You've hit your usage limit. Try again at 10:00 PM (UTC).",
            Usage,
            Some("2026-11-16T22:01:00Z"),
        ),
        (
            "You've hit your usage limit. Try again at 9:58 PM (UTC).",
            Usage,
            Some("2026-11-16T22:00:00Z"),
        ),
        (
            "You've hit your usage limit. Try again at 4:45 PM (America/New_York).",
            Usage,
            Some("2026-11-16T22:00:00Z"),
        ),
        (
            "usage limit, resets Monday 9:50pm (UTC)",
            Usage,
            Some("2026-11-16T22:00:00Z"),
        ),
        (
            "usage limit, resets 4pm (America/New_York)",
            Usage,
            Some("2026-11-17T21:01:00Z"),
        ),
        // Instants.
        (
            "Claude AI usage limit reached|1794870000",
            Usage,
            Some("2026-11-16T23:00:00Z"),
        ),
        (
            r#"{"type":"usage_limit_reached","resets_at":1794870000}"#,
            Usage,
            Some("2026-11-16T23:00:00Z"),
        ),
        (
            r#"rate_limit_error "resetsAt": 1794870000000"#,
            Usage,
            Some("2026-11-16T23:00:00Z"),
        ),
        (
            "429, x-ratelimit-reset: 1794870000",
            Usage,
            Some("2026-11-16T23:00:00Z"),
        ),
        (
            "quota exceeded, resets at 2026-11-16T23:00:00Z",
            Usage,
            Some("2026-11-16T23:00:00Z"),
        ),
        (
            "usage limit until 2026-11-17T00:30:00+01:00",
            Usage,
            Some("2026-11-16T23:30:00Z"),
        ),
        (
            "429 Retry-After: Mon, 16 Nov 2026 23:00:00 GMT",
            Usage,
            Some("2026-11-16T23:00:00Z"),
        ),
        // Spans.
        (
            "Rate limit reached for gpt-5 on tokens per min (TPM). Please try again in 1.2s.",
            Usage,
            Some("2026-11-16T22:00:01.200Z"),
        ),
        ("429 Retry-After: 120", Usage, Some("2026-11-16T22:02:00Z")),
        (
            "You've hit your usage limit. Upgrade to Pro, or try again in 2 hours 5 minutes.",
            Usage,
            Some("2026-11-17T00:05:00Z"),
        ),
        (
            "Usage limit reached. Resets in 2h 15m",
            Usage,
            Some("2026-11-17T00:15:00Z"),
        ),
        (
            "usage limit reached, try again in 3 days 4 hours 5 minutes",
            Usage,
            Some("2026-11-20T02:05:00Z"),
        ),
        (
            "Rate limited. Please try again in an hour.",
            Usage,
            Some("2026-11-16T23:00:00Z"),
        ),
        (
            "Rate limited. Please try again in a minute.",
            Usage,
            Some("2026-11-16T22:01:00Z"),
        ),
        (
            "rate limit: please retry in half an hour",
            Usage,
            Some("2026-11-16T22:30:00Z"),
        ),
        (
            r#"{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"37s"}]}}"#,
            Usage,
            Some("2026-11-16T22:00:37Z"),
        ),
        (
            "[API Error: You have exhausted your capacity on this model. Your quota will reset after 3h0m0s.]",
            Usage,
            Some("2026-11-17T01:00:00Z"),
        ),
        (
            "litellm.RateLimitError: AnthropicException - 429 try again in 60s",
            Usage,
            Some("2026-11-16T22:01:00Z"),
        ),
        (
            "usage limit reached, try again in 2 hours and 5 minutes",
            Usage,
            Some("2026-11-17T00:05:00Z"),
        ),
        (
            "usage limit reached, try again in 1 day, 2 hours",
            Usage,
            Some("2026-11-18T00:00:00Z"),
        ),
        (
            "usage limit reached, try again in about an hour",
            Usage,
            Some("2026-11-16T23:00:00Z"),
        ),
        (
            "You've hit your usage limit, resets 8pm (PST)",
            Usage,
            Some("2026-11-17T04:01:00Z"),
        ),
        (
            "You're out of extra usage · resets 8pm (Europe/Berlin)",
            Usage,
            Some("2026-11-17T19:01:00Z"),
        ),
        // The date of the message is not the reset.
        (
            "2026-11-16T21:59:03Z ERROR: You've hit your usage limit, try again in 2 hours 5 minutes",
            Usage,
            Some("2026-11-17T00:05:00Z"),
        ),
        (
            "429 { date: 'Mon, 16 Nov 2026 22:00:00 GMT', 'retry-after': '3600' }",
            Usage,
            Some("2026-11-16T23:00:00Z"),
        ),
        // Limits that do not say when they reset.
        ("429 Too Many Requests", Usage, None),
        (
            "exceeded retry limit, last status: 429 Too Many Requests",
            Usage,
            None,
        ),
        (
            "You have exhausted your daily quota on this model.",
            Usage,
            None,
        ),
        (
            "Quota exceeded for quota metric 'Requests' and limit 'Requests per day'",
            Usage,
            None,
        ),
        (
            "This request would exceed your account's rate limit. Please try again later.",
            Usage,
            None,
        ),
        (
            "[API Error: 429 You have reached your free daily quota limit. Please wait and try again]",
            Usage,
            None,
        ),
        (
            "LLM provider error: 429 you've reached your usage limit for this period",
            Usage,
            None,
        ),
        // No credit.
        ("Credit balance is too low", NoCredit, None),
        (
            "You exceeded your current quota, please check your plan and billing details. (insufficient_quota)",
            NoCredit,
            None,
        ),
        (
            "Error: 402 You have no premium requests left this month.",
            NoCredit,
            None,
        ),
        ("You have no premium requests left.", NoCredit, None),
        ("Credits exhausted: add more to continue", NoCredit, None),
        ("402 Payment Required", NoCredit, None),
        (
            "2026-11-16T21:59:03Z ERROR insufficient_quota",
            NoCredit,
            None,
        ),
        (
            "Your team's spending limit has been reached",
            NoCredit,
            None,
        ),
        (
            "You have exceeded your premium request allowance",
            NoCredit,
            None,
        ),
        // Outages.
        (
            r#"API Error: 529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            Outage,
            None,
        ),
        (
            "API Error: 529 Overloaded. This is a server-side issue",
            Outage,
            None,
        ),
        ("503 Service Unavailable", Outage, None),
        ("unexpected status 502 Bad Gateway: upstream", Outage, None),
        ("504 Gateway Timeout", Outage, None),
        (
            "503 Service Unavailable, Retry-After: 20",
            Outage,
            Some("2026-11-16T22:00:20Z"),
        ),
        (
            "We’re currently experiencing high demand, which may cause temporary errors.",
            Outage,
            None,
        ),
        ("connect ECONNREFUSED 127.0.0.1:443", Outage, None),
        ("read ECONNRESET", Outage, None),
        ("getaddrinfo ENOTFOUND api.anthropic.com", Outage, None),
        ("getaddrinfo EAI_AGAIN api.openai.com", Outage, None),
        ("connection reset", Outage, None),
        (
            "curl: (6) Could not resolve host: api.anthropic.com",
            Outage,
            None,
        ),
        (
            "error sending request for url (https://api.openai.com/v1/responses): dns error: failed to lookup address information",
            Outage,
            None,
        ),
        (
            "[Errno -3] Temporary failure in name resolution",
            Outage,
            None,
        ),
        (
            "stream disconnected before completion: stream closed",
            Outage,
            None,
        ),
        ("API Error: Request timed out.", Outage, None),
        ("Unable to connect to API (ConnectionRefused)", Outage, None),
        ("unexpected status 522", Outage, None),
        (
            "litellm.APIConnectionError: Server disconnected without sending a response.",
            Outage,
            None,
        ),
    ];

    #[test]
    fn limits_and_outages_are_read_with_the_instant_in_every_zone() {
        for zone in ["America/New_York", "Asia/Kolkata", "UTC"] {
            let now = now().with_time_zone(TimeZone::get(zone).expect("a zone"));
            for (text, cause, at) in TEXTS {
                let found = of(text, FailureKind::of(text), &AgentFacts::default(), &now);
                let found = found.map(|limit| (limit.cause, limit.resets_in));
                let at = at.map(|at| {
                    at.parse::<Timestamp>()
                        .expect("an instant")
                        .as_millisecond()
                });
                let wait = at.map(|at| {
                    TimeSpan(u64::try_from(at - now.timestamp().as_millisecond()).expect("a wait"))
                });
                assert_eq!(found, Some((*cause, wait)), "{zone}: {text}");
            }
        }
    }

    #[test]
    fn a_time_of_day_is_in_the_users_zone_unless_the_message_names_one() {
        let cases = [
            ("America/New_York", "2026-11-16T23:05:00Z"),
            ("Asia/Kolkata", "2026-11-17T12:35:00Z"),
            ("UTC", "2026-11-17T18:05:00Z"),
            ("Europe/Berlin", "2026-11-17T17:05:00Z"),
        ];
        for (zone, wanted) in cases {
            let now = now().with_time_zone(TimeZone::get(zone).expect("a zone"));
            let wait = resets_in("You've hit your usage limit. Try again at 6:04 PM.", &now)
                .expect("a wait");
            let at = now.timestamp().as_millisecond() + i64::try_from(wait.0).expect("a number");
            assert_eq!(
                at,
                wanted
                    .parse::<Timestamp>()
                    .expect("an instant")
                    .as_millisecond(),
                "{zone}"
            );
        }
        // Just before midnight, seen just after it.
        let now: Zoned = "2026-11-17T00:01:30[America/New_York]"
            .parse()
            .expect("a time");
        assert_eq!(resets_in("resets at 11:58 PM", &now), Some(TimeSpan(0)));
    }

    #[test]
    fn what_the_agent_says_about_its_work_is_no_limit() {
        for text in [
            "Not logged in · Please run /login",
            "prompt is too long: 210000 tokens, limit 200000",
            "thread 'main' panicked at src/throttle.rs:12:5: called `unwrap` on `None`",
            "test rate_limit::too_many_requests ... FAILED",
            "failures:\n    rate_limit::too_many_requests\n\ntest result: FAILED. 3 passed; 1 failed",
            "--- FAIL: TestRateLimitExceeded (0.00s)",
            "FAILED tests/test_rate_limit.py::test_too_many_requests - assert 200 == 429",
            "● rate limit › answers with 429 Too Many Requests (5 ms)",
            "AssertionError: expected 429 to equal 200",
            "I could not finish: `rate_limit` in src/rate_limit.rs is not covered",
            "the function connection_reset_test fails",
            "error: 4291 tests failed in 401ms",
            "500 Internal Server Error",
            "Tests: 2 failed, 429 passed, 431 total",
            "1 failed, 503 passed",
            "503 passed in 3s",
            "wrote 429 lines\nSegmentation fault",
            "Ran 502 tests\nerror: agent crashed",
            "compiled in 503 ms\nerror: agent crashed",
            "created issue 503 for it",
            "listening on port 502.",
            "Implemented the rate limiter.\nInternal agent error",
            "The usage limit feature was implemented.\nError: spawn git ENOENT",
            "The billing module has two failing tests",
            "write EPIPE",
            "Request too large for gpt-5: Limit 30000, Requested 45000",
            "",
        ] {
            assert_eq!(limit(text, &AgentFacts::default()), None, "{text}");
        }
    }

    /// The messages of each agent, as its program or its server prints them.
    #[test]
    fn the_limits_of_known_agents_are_recognised() {
        let cases = [
            (
                "claude",
                "You've hit your session limit · resets 8pm (America/New_York)",
                Some(181),
            ),
            (
                "claude",
                "You've hit your limit · resets 8pm (America/New_York)",
                Some(181),
            ),
            (
                "claude",
                "Claude AI usage limit reached|1794870000",
                Some(60),
            ),
            ("claude", "5-hour limit reached ∙ resets 8pm", Some(181)),
            (
                "claude",
                r#"API Error: 429 {"type":"error","error":{"type":"rate_limit_error","message":"x"}}"#,
                None,
            ),
            (
                "codex",
                "You've hit your usage limit. Upgrade to Pro, or try again in 2 hours 5 minutes.",
                Some(125),
            ),
            (
                "codex",
                "You've hit your usage limit. Try again at 6:04 PM.",
                Some(65),
            ),
            (
                "codex",
                "exceeded retry limit, last status: 429 Too Many Requests",
                None,
            ),
            (
                "gemini",
                "[API Error: You have exhausted your capacity on this model. Your quota will reset after 3h0m0s.]",
                Some(180),
            ),
            (
                "gemini",
                "[API Error: Quota exceeded for quota metric 'Gemini 2.5 Pro Requests' and limit 'per day']",
                None,
            ),
            (
                "qwen",
                "[API Error: 429 You have reached your free daily quota limit. Please wait and try again]",
                None,
            ),
            (
                "copilot",
                "Error: 429 you have exceeded your copilot token usage for this session, please wait a minute",
                Some(1),
            ),
            (
                "copilot",
                "Error: Sorry, you've hit a rate limit that restricts the number of requests. Please try again in 2 hours.",
                Some(120),
            ),
            (
                "goose",
                "Rate limit exceeded: 429 Please retry after 30",
                Some(0),
            ),
            (
                "opencode",
                "Error: Rate limit exceeded. Please try again later.",
                None,
            ),
            (
                "vibe",
                "Rate limits exceeded. Please wait a moment before trying again.",
                None,
            ),
            (
                "kimi",
                "LLM provider error: 429 you've reached your usage limit for this period",
                None,
            ),
            (
                "cursor-agent",
                "You've hit your usage limit. Your limit resets on Nov 18 at 8pm",
                Some(51 * 60 + 1),
            ),
            (
                "auggie",
                "429: You have reached your daily message limit",
                None,
            ),
            ("droid", "Usage limit reached. Resets in 2h", Some(120)),
            (
                "aider",
                "litellm.RateLimitError: AnthropicException - 429 try again in 60s",
                Some(1),
            ),
            ("pi", "429 Rate limit reached, try again in 20s", Some(0)),
        ];
        let known = KnownAgents::built_in();
        for (agent, text, wanted) in cases {
            let facts = known
                .named(agent)
                .and_then(|agent| agent.ways[0].spec.facts())
                .expect(agent);
            let found = limit(text, facts).unwrap_or_else(|| panic!("{agent}: {text}"));
            assert_eq!(
                found.resets_in.map(|span| span.0 / 60_000),
                wanted,
                "{agent}: {text}"
            );
        }
    }
}
