//! Usage limits: whether a turn failed because of a subscription, a quota or a rate limit, and when that resets.
//!
//! Owns how such messages write times. The words for an agent's own limits are data (`limit_pattern` in
//! `assets/agents.yaml`), besides those that all servers share. The engine decides what follows from a limit.
//!
//! # Invariants
//! - An empty balance is not a limit: it does not reset by waiting.
//! - An unknown reset time is not guessed.

use std::sync::LazyLock;

use jiff::{
    Timestamp, Zoned,
    civil::{Date, DateTime, Time, Weekday},
    tz::TimeZone,
};
use regex::{Captures, Regex, RegexBuilder};

use super::failure::{FailureKind, has_status, retry_after, words};
use crate::engine::{conversation::UsageLimit, policy::AgentFacts, time::TimeSpan};

/// A reset that is further away is a misread time.
const FARTHEST: TimeSpan = TimeSpan::secs(40 * 24 * 60 * 60);

/// The limit that a message is about, if any.
pub(super) fn of(said: &str, trouble: FailureKind, known: &AgentFacts, now: &Zoned) -> Option<UsageLimit> {
    static LIMIT: LazyLock<Regex> = LazyLock::new(|| {
        words(
            r"(usage|session|weekly|daily|hourly|monthly|request|token|message|\d+.?hour|rate).{0,12}(limit|cap\b)|limit.{0,20}(reached|hit|reset|exceeded)|(reached|hit|exceeded).{0,30}(limit|quota)|quota.{0,40}(exceeded|exhausted|reset|per (day|minute|hour))|resource.?exhausted|too many requests",
        )
    });
    static MONEY: LazyLock<Regex> = LazyLock::new(|| {
        words(
            r"insufficient.?(quota|funds|balance|credits?)|credit balance|(out of|no) credits|credits exhausted|payment required|billing",
        )
    });
    let resets_in = resets_in(said, now);
    let own = known.limit_pattern.as_deref().map(|pattern| RegexBuilder::new(pattern).multi_line(true).build());
    let is_own_limit = own.is_some_and(|pattern| pattern.is_ok_and(|pattern| pattern.is_match(said)));
    let is_limit = match trouble {
        FailureKind::RateLimit => resets_in.is_some() || LIMIT.is_match(said) || has_status(said, &["429"]),
        FailureKind::Quota => resets_in.is_some() || (LIMIT.is_match(said) && !MONEY.is_match(said)),
        FailureKind::Login | FailureKind::ContextFull => false,
        FailureKind::Server | FailureKind::Network | FailureKind::Other => resets_in.is_some() && LIMIT.is_match(said),
    };
    (is_limit || is_own_limit).then_some(UsageLimit { resets_in })
}

/// The time until the reset in a message.
fn resets_in(said: &str, now: &Zoned) -> Option<TimeSpan> {
    let until = |at: Timestamp| {
        let span = u64::try_from(at.as_millisecond() - now.timestamp().as_millisecond()).unwrap_or(0);
        Some(TimeSpan(span)).filter(|span| *span <= FARTHEST)
    };
    let absolute = epoch(said).or_else(|| written_out(said)).or_else(|| clock_time(said, now));
    absolute.and_then(until).or_else(|| retry_after(said))
}

/// Seconds or milliseconds since 1970: `limit reached|1749924000`, `"resets_at": 1749924000`.
fn epoch(said: &str) -> Option<Timestamp> {
    static EPOCH: LazyLock<Regex> =
        LazyLock::new(|| words(r#"(?:\||reset[\w-]*["']?\s*[:=]?\s*["']?|retry-after\s*:\s*)(\d{13}|\d{10})\b"#));
    let digits = EPOCH.captures_iter(said).last()?.get(1)?.as_str();
    let number: i64 = digits.parse().ok()?;
    if digits.len() == 13 { Timestamp::from_millisecond(number) } else { Timestamp::from_second(number) }.ok()
}

/// A whole date with a zone: `2026-11-16T20:00:00Z`, `2026-11-16 20:00 UTC`, `Wed, 18 Nov 2026 07:28:00 GMT`.
fn written_out(said: &str) -> Option<Timestamp> {
    static ISO: LazyLock<Regex> = LazyLock::new(|| {
        words(
            r"(?P<date>\d{4}-\d\d-\d\d)[T ](?P<time>\d\d:\d\d(?::\d\d)?)(?:\.\d+)?\s*(?P<zone>Z|UTC|GMT|[+-]\d\d:?\d\d)",
        )
    });
    static HTTP: LazyLock<Regex> =
        LazyLock::new(|| words(r"(?:mon|tue|wed|thu|fri|sat|sun), \d{1,2} [a-z]{3} \d{4} \d\d:\d\d:\d\d GMT"));
    if let Some(found) = HTTP.find_iter(said).last() {
        return jiff::fmt::rfc2822::parse(found.as_str()).ok().map(|at| at.timestamp());
    }
    let found = ISO.captures_iter(said).last()?;
    let date: Date = found["date"].parse().ok()?;
    let time: Time = found["time"].parse().ok()?;
    let zone = match &found["zone"] {
        "Z" | "z" | "UTC" | "utc" | "GMT" | "gmt" => TimeZone::UTC,
        offset => {
            let minutes = |text: &str| text.parse::<i32>().ok();
            let (hours, rest) = (minutes(offset.get(1..3)?)?, minutes(offset.get(offset.len() - 2..)?)?);
            let seconds = (hours * 60 + rest) * 60 * if offset.starts_with('-') { -1 } else { 1 };
            TimeZone::fixed(jiff::tz::Offset::from_seconds(seconds).ok()?)
        }
    };
    Some(date.to_datetime(time).to_zoned(zone).ok()?.timestamp())
}

/// A time of day: `resets 8pm (America/New_York)`, `resets Nov 20 at 8:30am`, `try again at 3:04 PM`, `resets Monday 9am`.
fn clock_time(said: &str, now: &Zoned) -> Option<Timestamp> {
    static CLOCK: LazyLock<Regex> = LazyLock::new(|| {
        words(concat!(
            r"(?:resets?|try again|retry|available(?: again)?|until|wait)(?:\s+(?:at|on|after|is|will be|time:?))*\s+",
            r"(?:(?:(?P<month>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?\s+(?P<day>\d{1,2})(?:st|nd|rd|th)?",
            r"|(?P<weekday>mon|tue|wed|thu|fri|sat|sun)[a-z]*)(?:,?\s*(?P<year>\d{4}))?,?\s*(?:at\s+)?)?",
            r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?(?::\d\d)?\s*(?P<half>[ap]\.?m\.?)?",
            r"\s*(?:\(?(?P<zone>[A-Za-z]+(?:/[A-Za-z_+\-0-9]+)+|UTC|GMT)\)?)?",
        ))
    });
    let found = CLOCK.captures_iter(said).filter(|found| is_clock(found)).last()?;
    let number = |name: &str| found.name(name).and_then(|it| it.as_str().parse::<i8>().ok());
    let zone = match found.name("zone").map(|zone| zone.as_str()) {
        Some("UTC" | "utc" | "GMT" | "gmt") => TimeZone::UTC,
        Some(name) => TimeZone::get(name).ok()?,
        None => now.time_zone().clone(),
    };
    let half = found.name("half").map(|half| half.as_str().to_lowercase());
    let hour = match (number("hour")?, half.as_deref().and_then(|half| half.chars().next())) {
        (12, Some('a')) => 0,
        (hour @ 1..=11, Some('p')) => hour + 12,
        (hour, _) => hour,
    };
    let time = Time::new(hour, number("minute").unwrap_or(0), 0, 0).ok()?;
    let there = now.with_time_zone(zone.clone());
    let at = |date: Date| DateTime::from_parts(date, time).to_zoned(zone.clone()).ok();
    let date = match (found.name("month"), found.name("weekday")) {
        (Some(month), _) => {
            let month = month_of(month.as_str())?;
            let year = found.name("year").and_then(|year| year.as_str().parse::<i16>().ok());
            let this_year = Date::new(year.unwrap_or_else(|| there.year()), month, number("day")?).ok()?;
            let is_past = year.is_none() && this_year < there.date();
            if is_past { Date::new(this_year.year() + 1, month, number("day")?).ok()? } else { this_year }
        }
        (None, Some(weekday)) => {
            let wanted = weekday_of(weekday.as_str())?;
            let mut days = there.date().series(jiff::Span::new().days(1)).take(8);
            days.find(|day| day.weekday() == wanted && at(*day).is_some_and(|at| at > there))?
        }
        (None, None) => {
            let today = there.date();
            if at(today)? > there { today } else { today.tomorrow().ok()? }
        }
    };
    Some(at(date)?.timestamp())
}

/// A bare number is not a time of day: `try again in 5` is not, `resets at 20:00` and `resets 8pm` are.
fn is_clock(found: &Captures<'_>) -> bool {
    found.name("half").is_some() || found.name("minute").is_some()
}

fn month_of(name: &str) -> Option<i8> {
    const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let name = name.to_lowercase();
    (1..).zip(MONTHS).find(|(_, month)| *month == name).map(|(number, _)| number)
}

fn weekday_of(name: &str) -> Option<Weekday> {
    const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
    let name = name.to_lowercase();
    let number = (1..).zip(DAYS).find(|(_, day)| *day == name)?.0;
    Weekday::from_monday_one_offset(number).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::known_agents::KnownAgents;

    /// Monday, 16 November 2026, 17:00 in New York; 22:00 in UTC.
    fn now() -> Zoned {
        "2026-11-16T17:00:00[America/New_York]".parse().expect("a time")
    }

    fn limit(said: &str, known: &AgentFacts) -> Option<UsageLimit> {
        of(said, FailureKind::of(said), known, &now())
    }

    fn minutes(said: &str) -> Option<u64> {
        resets_in(said, &now()).map(|span| span.0 / 60_000)
    }

    #[test]
    fn a_reset_is_read_in_every_way_in_which_it_is_written() {
        let cases = [
            ("You've hit your session limit · resets 8pm (America/New_York)", 3 * 60),
            ("resets 8:30pm (America/New_York)", 3 * 60 + 30),
            ("5-hour limit reached ∙ resets 3am (Europe/Berlin)", 4 * 60),
            ("resets 4pm (America/New_York)", 23 * 60),
            ("Your limit will reset at 7pm (UTC).", 21 * 60),
            ("You've hit your weekly limit · resets Nov 18 at 8pm (America/New_York)", 51 * 60),
            ("resets Nov 18, 8pm (America/New_York)", 51 * 60),
            ("resets Tuesday 9am (America/New_York)", 16 * 60),
            ("resets 8pm", 3 * 60),
            ("You've hit your usage limit. Try again at 6:04 PM.", 64),
            ("or try again at Nov 17th, 2026 5:00 PM.", 24 * 60),
            ("try again in 3 days 4 hours 5 minutes", 76 * 60 + 5),
            ("Claude AI usage limit reached|1794870000", 60),
            (r#"{"type":"usage_limit_reached","resets_at":1794870000}"#, 60),
            (r#""resetsAt": 1794870000000"#, 60),
            ("x-ratelimit-reset: 1794870000", 60),
            ("quota resets at 2026-11-16T23:00:00Z", 60),
            ("quota resets at 2026-11-16 23:00 UTC", 60),
            ("until 2026-11-17T00:30:00+01:00", 90),
            ("Retry-After: Mon, 16 Nov 2026 23:00:00 GMT", 60),
            ("Retry-After: 120", 2),
            ("resets in 2h 15m", 135),
            ("Please try again in 90s", 1),
        ];
        for (said, wanted) in cases {
            assert_eq!(minutes(said), Some(wanted), "{said}");
        }
        for said in ["try again later", "resets soon", "in 5 of 8 tests", "at line 12:30", "since 1999-01-01"] {
            assert_eq!(minutes(said), None, "{said}");
        }
    }

    #[test]
    fn a_reset_that_is_over_is_now_and_one_that_is_too_far_away_is_none() {
        assert_eq!(minutes("usage limit reached|1749924000"), Some(0));
        assert_eq!(minutes("usage limit reached|1999999999"), None);
    }

    #[test]
    fn limits_are_told_from_errors_and_from_money_that_has_run_out() {
        let plain = AgentFacts::default();
        for said in [
            "429 Too Many Requests",
            "Rate limit reached for gpt-5 on tokens per min (TPM). Please try again in 1.2s.",
            "Quota exceeded for quota metric 'Requests' and limit 'Requests per day'",
            "This request would exceed your account's rate limit. Please try again later.",
        ] {
            assert!(limit(said, &plain).is_some(), "{said}");
        }
        for said in [
            "Credit balance is too low",
            "You exceeded your current quota, please check your plan and billing details. (insufficient_quota)",
            "Not logged in · Please run /login",
            "prompt is too long: 210000 tokens, limit 200000",
            "connection reset",
            "529 Overloaded",
            "thread 'main' panicked at src/throttle.rs:12:5: called `unwrap` on `None`",
            "",
        ] {
            assert_eq!(limit(said, &plain), None, "{said}");
        }
    }

    /// The messages of each agent, as its program or its server prints them.
    #[test]
    fn the_limits_of_known_agents_are_recognised() {
        let cases = [
            ("claude", "You've hit your session limit · resets 8pm (America/New_York)", Some(180)),
            ("claude", "You've hit your limit · resets 8pm (America/New_York)", Some(180)),
            ("claude", "Claude AI usage limit reached|1794870000", Some(60)),
            ("claude", "5-hour limit reached ∙ resets 8pm", Some(180)),
            ("claude", r#"API Error: 429 {"type":"error","error":{"type":"rate_limit_error","message":"x"}}"#, None),
            ("codex", "You've hit your usage limit. Upgrade to Pro, or try again in 2 hours 5 minutes.", Some(125)),
            ("codex", "You've hit your usage limit. Try again at 6:04 PM.", Some(64)),
            ("codex", "exceeded retry limit, last status: 429 Too Many Requests", None),
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
            ("qwen", "[API Error: 429 You have reached your free daily quota limit. Please wait and try again]", None),
            (
                "copilot",
                "Error: 429 you have exceeded your copilot token usage for this session, please wait a minute",
                None,
            ),
            (
                "copilot",
                "Error: Sorry, you've hit a rate limit that restricts the number of requests. Please try again in 2 hours.",
                Some(120),
            ),
            ("goose", "Rate limit exceeded: 429 Please retry after 30", Some(0)),
            ("opencode", "Error: Rate limit exceeded. Please try again later.", None),
            ("vibe", "Rate limits exceeded. Please wait a moment before trying again.", None),
            ("kimi", "LLM provider error: 429 you've reached your usage limit for this period", None),
            ("cursor-agent", "You've hit your usage limit. Your limit resets on Nov 18 at 8pm", Some(51 * 60)),
            ("auggie", "429: You have reached your daily message limit", None),
            ("droid", "Usage limit reached. Resets in 2h", Some(120)),
            ("aider", "litellm.RateLimitError: AnthropicException - 429 try again in 60s", Some(1)),
            ("pi", "429 Rate limit reached, try again in 20s", Some(0)),
        ];
        let known = KnownAgents::built_in();
        for (agent, said, wanted) in cases {
            let facts = known.named(agent).and_then(|agent| agent.ways[0].spec.facts()).expect(agent);
            let found = limit(said, facts).unwrap_or_else(|| panic!("{agent}: {said}"));
            assert_eq!(found.resets_in.map(|span| span.0 / 60_000), wanted, "{agent}: {said}");
        }
    }
}
