//! The time zone of the user's machine.

use std::{env, fs, sync::LazyLock};

use jiff::{Timestamp, Zoned, tz::TimeZone};

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
    fn the_zone_of_the_machine_is_the_one_that_the_library_finds() {
        let at = Timestamp::from_second(1_794_735_000).expect("a time");
        assert_eq!(
            at.to_zoned(local_zone()).offset(),
            at.to_zoned(TimeZone::system()).offset()
        );
    }
}
