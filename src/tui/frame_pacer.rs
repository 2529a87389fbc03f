//! When the next frame may be drawn.
//!
//! # Invariants
//! - On average, at most 60 frames a second. After a pause, a few may follow each other at once, so
//!   that the first thing that happens after a frame is not late.

use std::time::{Duration, Instant};

/// The average time between two frames.
const FRAME: Duration = Duration::from_millis(16);
/// How many frames may follow each other at once after a pause, besides the first.
const AT_ONCE: u32 = 2;

#[derive(Debug, Default)]
pub(super) struct FramePacer {
    /// When the frames so far would have ended if each had taken its time. `None` before the first.
    spent_until: Option<Instant>,
}

impl FramePacer {
    /// The earliest time of the next frame. `None`: now.
    pub(super) fn next(&self) -> Option<Instant> {
        self.spent_until
            .and_then(|until| until.checked_sub(FRAME * AT_ONCE))
    }

    pub(super) fn may_draw(&self, now: Instant) -> bool {
        self.next().is_none_or(|next| now >= next)
    }

    pub(super) fn drawn(&mut self, now: Instant) {
        self.spent_until = Some(self.spent_until.map_or(now, |until| until.max(now)) + FRAME);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_pause_three_frames_come_at_once_and_then_sixty_a_second() {
        let start = Instant::now() + Duration::from_mins(1);
        let mut pacer = FramePacer::default();
        let frames = (0..1_000).filter(|ms| {
            let now = start + Duration::from_millis(*ms);
            let may = pacer.may_draw(now);
            if may {
                pacer.drawn(now);
            }
            may
        });
        let frames: Vec<u64> = frames.collect();
        assert_eq!(frames[..5], [0, 1, 2, 16, 32]);
        assert!(frames.len() <= 65, "{}", frames.len());
    }
}
