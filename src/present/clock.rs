//! Times as people read them: how long something takes, when something happened, and the time zone of
//! the user's machine.

use std::{env, fs, sync::LazyLock};

use jiff::{Timestamp, Zoned, tz::TimeZone};

use crate::engine::time::{TimeSpan, UnixTime};

/// A running clock: `0:42`, `12:04`, `2:00:00`.
pub fn running_clock(span: TimeSpan) -> String {
    let seconds = span.0 / 1_000;
    match seconds {
        0..3_600 => format!("{}:{:02}", seconds / 60, seconds % 60),
        3_600.. => format!(
            "{}:{:02}:{:02}",
            seconds / 3_600,
            seconds / 60 % 60,
            seconds % 60
        ),
    }
}

/// Whole seconds, or minutes and hours if there are many: `12s`, `1m 04s`, `2h 05m`.
pub fn short_span(span: TimeSpan) -> String {
    let seconds = span.0 / 1_000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        3_600.. => format!("{}h {:02}m", seconds / 3_600, seconds / 60 % 60),
    }
}

/// How long something took: `5ms`, `1.2s`, `1m 04s`.
pub fn brief_span(span: TimeSpan) -> String {
    match span.0 {
        0..1_000 => format!("{}ms", span.0),
        1_000..60_000 => format!("{}.{}s", span.0 / 1_000, span.0 % 1_000 / 100),
        60_000.. => short_span(span),
    }
}

/// A time against its limit: `12s / 60s`.
pub fn against(span: TimeSpan, limit: TimeSpan) -> String {
    let seconds = |span: TimeSpan| {
        if span.0 < 600_000 {
            format!("{}s", span.0 / 1_000)
        } else {
            short_span(span)
        }
    };
    format!("{} / {}", seconds(span), seconds(limit))
}

/// The time of day in a zone: `14:32`.
pub fn time_of_day(at: UnixTime, zone: &TimeZone) -> String {
    formatted(at, zone, "%H:%M")
}

/// The same with seconds: `14:32:07`.
pub fn time_with_seconds(at: UnixTime, zone: &TimeZone) -> String {
    formatted(at, zone, "%H:%M:%S")
}

fn formatted(at: UnixTime, zone: &TimeZone, form: &str) -> String {
    let there = Timestamp::from_millisecond(at.0).map(|timestamp| timestamp.to_zoned(zone.clone()));
    there.map_or_else(
        |_| "an unknown time".to_owned(),
        |there| there.strftime(form).to_string(),
    )
}

/// The file with the rules of the machine's own zone.
const RULES: &str = "/etc/localtime";

/// Reads the rules from their file if `TZ` does not name another zone: finding the zone's name
/// first would read the whole folder of zones, which takes longer than everything else at the start
/// of a session.
pub fn local_zone() -> TimeZone {
    static ZONE: LazyLock<TimeZone> = LazyLock::new(|| {
        let file = || {
            fs::read(RULES)
                .ok()
                .and_then(|rules| TimeZone::tzif("local", &rules).ok())
        };
        let own = if env::var_os("TZ").is_none() {
            file()
        } else {
            None
        };
        own.unwrap_or_else(TimeZone::system)
    });
    ZONE.clone()
}

pub fn local_now() -> Zoned {
    Timestamp::now().to_zoned(local_zone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_counts_hours_from_sixty_minutes_on() {
        let clocks = [0, 42, 3_599, 3_600, 7_200, 36_061]
            .map(|seconds| running_clock(TimeSpan::secs(seconds)));
        assert_eq!(
            clocks,
            ["0:00", "0:42", "59:59", "1:00:00", "2:00:00", "10:01:01"]
        );
    }

    #[test]
    fn spans_are_short() {
        let spans = [0, 12, 64, 7_500].map(|seconds| short_span(TimeSpan::secs(seconds)));
        assert_eq!(spans, ["0s", "12s", "1m 04s", "2h 05m"]);
        assert_eq!(
            [5, 405, 1_250, 64_000].map(|ms| brief_span(TimeSpan(ms))),
            ["5ms", "405ms", "1.2s", "1m 04s"]
        );
        assert_eq!(against(TimeSpan(12_900), TimeSpan::secs(60)), "12s / 60s");
        assert_eq!(
            against(TimeSpan::secs(90), TimeSpan::secs(3_600)),
            "90s / 1h 00m"
        );
    }

    #[test]
    fn the_time_of_day_depends_on_the_zone() {
        let zone = TimeZone::get("America/New_York").expect("a zone");
        let at = UnixTime::from_rfc3339("2026-11-16T22:05:09.000Z").expect("a time");
        assert_eq!(time_of_day(at, &zone), "17:05");
        assert_eq!(time_with_seconds(at, &TimeZone::UTC), "22:05:09");
    }

    #[test]
    fn the_zone_of_the_machine_is_the_one_that_the_library_finds() {
        let at = Timestamp::from_second(1_794_735_000).expect("a time");
        assert_eq!(
            at.to_zoned(local_zone()).offset(),
            at.to_zoned(TimeZone::system()).offset()
        );
    }
}
