//! Time in the engine: always passed in, never read from a clock.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

/// Milliseconds since the Unix epoch.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct UnixTime(pub i64);

/// A duration in milliseconds.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct TimeSpan(pub u64);

impl UnixTime {
    #[must_use]
    pub fn after(self, span: TimeSpan) -> Self {
        Self(
            self.0
                .saturating_add(i64::try_from(span.0).unwrap_or(i64::MAX)),
        )
    }

    /// Parses the format of [`Self::rfc3339`] only.
    pub fn from_rfc3339(text: &str) -> Option<Self> {
        let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
        let mut date = date.splitn(3, '-').map(str::parse::<i64>);
        let (year, month, day) = (date.next()?.ok()?, date.next()?.ok()?, date.next()?.ok()?);
        let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
        let mut time = time.splitn(3, ':').map(str::parse::<i64>);
        let (hour, minute, second) = (time.next()?.ok()?, time.next()?.ok()?, time.next()?.ok()?);
        let ms = format!("{fraction:0<3}").get(..3)?.parse::<i64>().ok()?;
        let in_order =
            (1..=12).contains(&month) && (1..=31).contains(&day) && (0..=9999).contains(&year);
        if !in_order || hour > 23 || minute > 59 || second > 60 {
            return None;
        }
        let year = if month <= 2 { year - 1 } else { year };
        let from_march = (month + 9) % 12;
        let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100
            + (153 * from_march + 2) / 5
            + day
            - 1;
        let days = era * 146_097 + day_of_era - 719_468;
        Some(Self(
            (((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000 + ms,
        ))
    }

    /// The format of records: `2026-11-15T09:30:00.123Z`.
    ///
    /// Calculated here, because the engine has no calendar: years are counted from March, so that a
    /// leap day is the last day of its year.
    pub fn rfc3339(self) -> String {
        let (days, ms) = (self.0.div_euclid(86_400_000), self.0.rem_euclid(86_400_000));
        let since_0000_03_01 = days + 719_468;
        let (era, day_of_era) = (
            since_0000_03_01.div_euclid(146_097),
            since_0000_03_01.rem_euclid(146_097),
        );
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * from_march + 2) / 5 + 1;
        let month = if from_march < 10 {
            from_march + 3
        } else {
            from_march - 9
        };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60);
        // Years before year 0 need a sign and six digits, or readers would reject them.
        let year = if year < 0 {
            format!("-{:06}", -year)
        } else {
            format!("{year:04}")
        };
        format!(
            "{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z",
            ms % 1_000
        )
    }

    /// The duration from `earlier` to this moment; zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> TimeSpan {
        TimeSpan(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl TimeSpan {
    pub const fn secs(secs: u64) -> Self {
        Self(secs * 1000)
    }

    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl From<TimeSpan> for Duration {
    fn from(span: TimeSpan) -> Self {
        Self::from_millis(span.0)
    }
}

impl From<Duration> for TimeSpan {
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }
}

/// `40 ms`, `12.3 s`, `4 min 10 s`, `2 h 5 min`.
impl TimeSpan {
    /// As a config has it: `500ms`, `42s`, `10m`, `1h 30m`.
    pub fn compact(self) -> String {
        let ms = self.0;
        let parts = [
            (ms / 3_600_000, "h"),
            (ms / 60_000 % 60, "m"),
            (ms / 1_000 % 60, "s"),
            (ms % 1_000, "ms"),
        ];
        let parts = parts
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, unit)| format!("{count}{unit}"));
        let parts: Vec<String> = parts.collect();
        if parts.is_empty() {
            "0s".into()
        } else {
            parts.join(" ")
        }
    }
}

impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.0;
        match ms {
            0..1_000 => write!(f, "{ms} ms"),
            1_000..60_000 if ms.is_multiple_of(1_000) => write!(f, "{} s", ms / 1_000),
            1_000..60_000 => write!(f, "{}.{} s", ms / 1_000, ms % 1_000 / 100),
            60_000..3_600_000 if ms < 61_000 || (ms / 1_000).is_multiple_of(60) => {
                write!(f, "{} min", ms / 60_000)
            }
            60_000..3_600_000 => write!(f, "{} min {} s", ms / 60_000, ms / 1_000 % 60),
            _ if (ms / 60_000).is_multiple_of(60) => write!(f, "{} h", ms / 3_600_000),
            _ => write!(f, "{} h {} min", ms / 3_600_000, ms / 60_000 % 60),
        }
    }
}

/// For fields with a moment as text.
pub mod as_rfc3339 {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use super::UnixTime;

    pub fn serialize<S: Serializer>(at: &UnixTime, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&at.rfc3339())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<UnixTime, D::Error> {
        let text = String::deserialize(from)?;
        UnixTime::from_rfc3339(&text)
            .ok_or_else(|| D::Error::custom(format!("`{text}` is not a time")))
    }
}

/// The same for optional fields.
pub mod rfc3339_or_none {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use super::UnixTime;

    pub fn serialize<S: Serializer>(at: &Option<UnixTime>, to: S) -> Result<S::Ok, S::Error> {
        match at {
            Some(at) => to.serialize_some(&at.rfc3339()),
            None => to.serialize_none(),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<UnixTime>, D::Error> {
        let Some(text) = Option::<String>::deserialize(from)? else {
            return Ok(None);
        };
        UnixTime::from_rfc3339(&text)
            .map(Some)
            .ok_or_else(|| D::Error::custom(format!("`{text}` is not a time")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_written_as_a_calendar_has_it() {
        for ms in [
            0,
            951_782_399_999,
            951_782_400_000,
            1_768_644_000_123,
            4_107_542_400_000,
            -62_135_596_800_000,
        ] {
            let timestamp = jiff::Timestamp::from_millisecond(ms).expect("a moment");
            let expected =
                jiff::fmt::strtime::format("%Y-%m-%dT%H:%M:%S.%3fZ", timestamp).expect("a format");
            assert_eq!(UnixTime(ms).rfc3339(), expected);
        }
        let before_the_first_year: jiff::Timestamp = UnixTime(-100_000_000_000_000)
            .rfc3339()
            .parse()
            .expect("a moment");
        assert_eq!(before_the_first_year.as_millisecond(), -100_000_000_000_000);
    }

    #[test]
    fn a_span_is_shown_in_the_units_of_its_size() {
        let shown = [
            0, 40, 999, 1_000, 12_345, 60_000, 61_500, 250_000, 3_600_000, 7_500_000,
        ]
        .map(|ms| TimeSpan(ms).to_string());
        assert_eq!(
            shown,
            [
                "0 ms",
                "40 ms",
                "999 ms",
                "1 s",
                "12.3 s",
                "1 min",
                "1 min 1 s",
                "4 min 10 s",
                "1 h",
                "2 h 5 min"
            ]
        );
    }

    #[test]
    fn a_compact_span_is_written_as_in_a_config() {
        let written = [0, 500, 42_000, 600_000, 61_500, 5_400_000].map(|ms| TimeSpan(ms).compact());
        assert_eq!(
            written,
            ["0s", "500ms", "42s", "10m", "1m 1s 500ms", "1h 30m"]
        );
    }

    #[test]
    fn what_is_written_is_read_again() {
        for ms in [
            0,
            1_794_813_000_123,
            951_782_400_000,
            4_102_444_799_999,
            -62_135_596_800_000,
        ] {
            assert_eq!(
                UnixTime::from_rfc3339(&UnixTime(ms).rfc3339()),
                Some(UnixTime(ms)),
                "{}",
                UnixTime(ms).rfc3339()
            );
        }
        for text in [
            "",
            "2026-11-16",
            "2026-13-16T00:00:00Z",
            "2026-11-16T25:00:00Z",
            "2026-11-16T00:00:00+01:00",
        ] {
            assert_eq!(UnixTime::from_rfc3339(text), None, "{text}");
        }
    }
}
