//! The clock that a session uses for its decisions.
//!
//! Owns how a process tracks the time of its session. It reads the wall clock once, at the start,
//! and then counts with a clock that cannot be set.
//!
//! # Invariants
//! - Within a process, time never goes backwards and never jumps, whatever happens to the machine's
//!   clock.
//! - Time while the machine was asleep counts. So the time stays right, and a wait whose end has
//!   passed is over.

use std::{sync::LazyLock, time::Duration};

use jiff::Timestamp;

use crate::engine::time::{TimeSpan, UnixTime};

/// The longest single sleep, because timers do not count while the machine is asleep.
const LONGEST_SLEEP: TimeSpan = TimeSpan::secs(30);

/// A moment of the wall clock, and the steady clock's value at that moment.
#[derive(Debug, Clone, Copy)]
struct ClockAnchor {
    wall: UnixTime,
    steady: Duration,
}

impl ClockAnchor {
    fn at(&self, steady: Duration) -> UnixTime {
        self.wall
            .after(TimeSpan::from(steady.saturating_sub(self.steady)))
    }
}

/// The time of the sessions in this process. Records are stamped with it; waits, limits and budgets
/// are measured with it.
pub fn session_time() -> UnixTime {
    static ANCHOR: LazyLock<ClockAnchor> = LazyLock::new(|| ClockAnchor {
        wall: wall_clock(),
        steady: steady_clock(),
    });
    ANCHOR.at(steady_clock())
}

/// The machine's clock, for names and for comparison with other machines. It can jump, so waits do
/// not use it.
pub fn wall_clock() -> UnixTime {
    UnixTime(Timestamp::now().as_millisecond())
}

/// Waits until a moment, or forever if there is none. Can return early, so the caller has to check
/// again.
pub(crate) async fn sleep_until(wake: Option<UnixTime>) {
    match wake {
        Some(at) => tokio::time::sleep(nap(at, session_time()).into()).await,
        None => std::future::pending().await,
    }
}

fn nap(until: UnixTime, now: UnixTime) -> TimeSpan {
    until.since(now).min(LONGEST_SLEEP)
}

/// The time since the machine started, including sleep.
#[cfg(target_os = "linux")]
fn steady_clock() -> Duration {
    let up = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::try_from(up).unwrap_or_default()
}

/// The time since this process started. Sleep does not count, because this system has no clock that
/// includes it.
#[cfg(not(target_os = "linux"))]
fn steady_clock() -> Duration {
    static START: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);
    START.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_the_wall_clocks_at_the_start_and_the_steady_clocks_from_there_on() {
        let anchor = ClockAnchor {
            wall: UnixTime(1_000_000),
            steady: Duration::from_secs(50),
        };
        assert_eq!(anchor.at(Duration::from_secs(50)), UnixTime(1_000_000));
        assert_eq!(
            anchor.at(Duration::from_millis(50_250)),
            UnixTime(1_000_250)
        );
        assert_eq!(
            anchor.at(Duration::from_secs(49)),
            UnixTime(1_000_000),
            "it never goes backwards"
        );
    }

    #[test]
    fn time_passes_and_begins_near_the_wall_clocks() {
        let (one, two) = (session_time(), session_time());
        assert!(one <= two);
        let started = steady_clock();
        while steady_clock() == started {}
        assert!(session_time() >= two);
    }

    #[test]
    fn no_sleep_is_longer_than_the_machine_may_have_slept() {
        assert_eq!(nap(UnixTime(5_000), UnixTime(4_000)), TimeSpan::secs(1));
        assert_eq!(nap(UnixTime(4_000), UnixTime(5_000)), TimeSpan(0));
        assert_eq!(nap(UnixTime(i64::MAX), UnixTime(0)), LONGEST_SLEEP);
    }
}
