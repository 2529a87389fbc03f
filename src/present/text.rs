//! Makes text of agents and hooks safe for a terminal.
//!
//! Also words sizes and times as people read them: how long something takes, when something
//! happened, and the time zone of the user's machine.
//!
//! # Invariants
//! - None of the escape sequences and control characters of such a text reaches the terminal, and
//!   none that changes the order of others.

use std::{borrow::Cow, env, fs, sync::LazyLock};

use jiff::{Timestamp, Zoned, tz::TimeZone};

use crate::{
    engine::{
        event::{PromptReason, PromptSent},
        time::{TimeSpan, UnixTime},
    },
    text::{plain_text, telling_line},
};

pub use crate::text::{counted, first_line, listed, plural, some_names};

/// The text without what only a terminal understands. Characters that change the direction of those
/// that follow are shown by their number: with them, `txt.exe` could look like `exe.txt`.
pub fn plain(text: &str) -> String {
    let plain = plain_text(text);
    if !plain.contains(changes_direction) {
        return plain;
    }
    let mut shown = String::new();
    for c in plain.chars() {
        if changes_direction(c) {
            shown += &format!("<U+{:04X}>", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Whether it is an embedding, an override or an isolate. Marks, which only help with right-to-left
/// text, are not.
const fn changes_direction(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The subject of a prompt, in one line. For feedback this is its most informative line, since the
/// first one is whatever the hook printed first.
pub fn prompt_line(prompt: &PromptSent, most: usize) -> String {
    match prompt.reason {
        PromptReason::Feedback => {
            let feedback = prompt.text.trim_start_matches("[Hook feedback]: ");
            // What the check printed says more than its name and its exit code.
            let printed = feedback
                .split_once('\n')
                .filter(|(line, _)| line.starts_with("check `"));
            let line = printed
                .and_then(|(_, printed)| telling_line(&[printed]))
                .or_else(|| telling_line(&[feedback]));
            first_line(&line.unwrap_or_default(), most)
        }
        // The row already says what the prompt is.
        PromptReason::Recovery
        | PromptReason::FinalDelivery
        | PromptReason::Message
        | PromptReason::News => {
            let is_opening = |line: &str| {
                [
                    "[Recovery]: ",
                    "[Final delivery]: ",
                    "[Message]: from ",
                    "[News of the pull request]: ",
                ]
                .iter()
                .any(|opening| line.starts_with(opening))
            };
            let content = prompt
                .text
                .split_once('\n')
                .filter(|(line, _)| is_opening(line));
            first_line(
                &plain(content.map_or(prompt.text.as_str(), |(_, content)| content)),
                most,
            )
        }
        PromptReason::Iteration | PromptReason::Remediation | PromptReason::Gatekeeper => {
            first_line(&plain(&prompt.text), most)
        }
    }
}

/// The text with C1 control characters (U+0080 to U+009F) written as JSON escapes. Terminals
/// interpret them like escape sequences; in JSON the escape means the same character.
pub fn without_c1(text: &str) -> Cow<'_, str> {
    let is_c1 = |c: char| matches!(c, '\u{80}'..='\u{9f}');
    if !text.contains(is_c1) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_c1(c) {
            out.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// The first line of a text of an agent or a hook, at most this long.
pub fn plain_line(text: &str, most: usize) -> String {
    first_line(&plain(text), most)
}

/// A number with its thousands set off: `1,204`.
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The text with a capital at its beginning, unless it begins with a name such as `task_5`,
/// `fix-parser` or `creel.yaml`.
pub fn sentence_case(text: &str) -> String {
    let word = text
        .split(|c: char| c.is_whitespace() || [',', ';', ':'].contains(&c))
        .next()
        .unwrap_or_default();
    // A single letter is a key.
    if word == "creel"
        || word.chars().count() == 1
        || !word.chars().all(|c| c.is_alphabetic() || c == '\'')
    {
        return text.to_owned();
    }
    let mut chars = text.chars();
    chars
        .next()
        .map(|first| first.to_uppercase().chain(chars).collect())
        .unwrap_or_default()
}

/// A size that people can read.
pub fn readable_size(bytes: u64) -> String {
    match bytes {
        0..1_000 => counted(bytes, "byte"),
        1_000..1_000_000 => format!("{}.{} kB", bytes / 1_000, bytes % 1_000 / 100),
        1_000_000.. => format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000),
    }
}

/// The same in few columns: `76 B`, `1.2 kB`.
pub fn short_size(bytes: u64) -> String {
    if bytes < 1_000 {
        format!("{bytes} B")
    } else {
        readable_size(bytes)
    }
}

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

/// How long something took: `5ms`, `0.4s`, `1.2s`, `1m 04s`.
pub fn brief_span(span: TimeSpan) -> String {
    match span.0 {
        0..=100 => format!("{}ms", span.0),
        101..60_000 => format!("{}.{}s", span.0 / 1_000, span.0 % 1_000 / 100),
        60_000.. => short_span(span),
    }
}

/// A time against its limit: `12s of 60s`, `90s of 10m`.
pub fn against(span: TimeSpan, limit: TimeSpan) -> String {
    let seconds = |span: TimeSpan| {
        if span.0 < 600_000 {
            format!("{}s", span.0 / 1_000)
        } else {
            short_span(span)
        }
    };
    let limit = seconds(limit);
    let whole = limit
        .strip_suffix(" 00s")
        .or_else(|| limit.strip_suffix(" 00m"));
    format!("{} of {}", seconds(span), whole.unwrap_or(&limit))
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
    fn control_characters_in_json_become_escapes_that_mean_the_same() {
        let value = serde_json::json!({"text": "a\u{9b}31mb\u{85}é\u{a0}"});
        let line = value.to_string();
        let shown = without_c1(&line);
        assert!(!shown.contains(|c: char| c.is_control()), "{shown:?}");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&shown).expect("JSON"),
            value
        );
        assert_eq!(without_c1("é\n"), "é\n");
    }

    #[test]
    fn characters_that_change_the_direction_are_shown_by_number() {
        assert_eq!(
            plain("a\u{202e}txt.exe\u{2066}"),
            "a<U+202E>txt.exe<U+2066>"
        );
        assert_eq!(plain("\u{5e9}\u{200f}!"), "\u{5e9}\u{200f}!");
    }

    #[test]
    fn sequences_are_gone_and_text_stays() {
        assert_eq!(plain("\u{1b}[31mred\u{1b}[0m\tok\n"), "red\tok\n");
        assert_eq!(
            plain("\u{1b}]0;title\u{7}a\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\"),
            "alink"
        );
        assert_eq!(
            plain("\u{1b}Pq#0\u{1b}\\b\u{1b}(Bc\u{1b}cd\u{9b}2Je\u{8}\u{7}f"),
            "bcdef"
        );
        assert_eq!(plain("50%\r100%\r\n"), "50%\n100%\n");
        assert_eq!(plain("open \u{1b}["), "open ");
    }

    #[test]
    fn sentences_begin_with_a_capital_and_names_stay_as_they_are() {
        let texts = [
            "no gate is open",
            "task_5 is done",
            "creel waits",
            "`x` is off",
            "run: it",
            "n next match",
            "",
        ];
        let shown = texts.map(sentence_case);
        assert_eq!(
            shown,
            [
                "No gate is open",
                "task_5 is done",
                "creel waits",
                "`x` is off",
                "Run: it",
                "n next match",
                ""
            ]
        );
    }

    #[test]
    fn thousands_are_set_off() {
        assert_eq!(
            [7, 999, 1_204, 1_234_567].map(grouped),
            ["7", "999", "1,204", "1,234,567"]
        );
    }

    #[test]
    fn sizes_are_short() {
        let sizes = [1, 999, 1_000, 12_345, 1_234_567].map(readable_size);
        assert_eq!([1, 999, 1_000].map(short_size), ["1 B", "999 B", "1.0 kB"]);
        assert_eq!(
            sizes,
            ["1 byte", "999 bytes", "1.0 kB", "12.3 kB", "1.2 MB"]
        );
    }
}

#[cfg(test)]
mod clock_tests {
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
            ["5ms", "0.4s", "1.2s", "1m 04s"]
        );
        assert_eq!(against(TimeSpan(12_900), TimeSpan::secs(60)), "12s of 60s");
        assert_eq!(
            against(TimeSpan::secs(90), TimeSpan::secs(3_600)),
            "90s of 1h"
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
