//! The live end of an answer that is too long for the journal.
//!
//! creel records the beginning of a very long answer and writes the rest to a file until the turn ends. The stream
//! shows the end of that file below the recorded text, so that the user sees progress.

use super::{BlockBody, BlockKind, SessionStream, StreamBlock, block};
use crate::{
    engine::{
        event::{Event, TurnEvent},
        ids::TurnId,
        time::UnixTime,
    },
    present::text::counted,
    tui::{stream::block_text, theme::ThemeRole},
};

/// The answer of the current turn.
#[derive(Debug, Default)]
pub(super) struct LiveAnswerTail {
    turn: Option<TurnId>,
    /// How many bytes of the answer are recorded.
    recorded: u64,
    /// The length of the answer when its end was last shown. None while it is not shown.
    shown: Option<u64>,
}

impl LiveAnswerTail {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the other records are no part of an answer")]
    pub(super) fn count(&mut self, event: &Event) {
        match event {
            Event::Turn(TurnEvent::PromptSent(prompt)) => *self = Self { turn: Some(prompt.turn), ..Self::default() },
            Event::Turn(TurnEvent::AgentSaid { turn, text, .. }) if self.turn == Some(*turn) => {
                self.recorded += text.len() as u64;
            }
            Event::Turn(TurnEvent::Ended { .. } | TurnEvent::Failed { .. }) => self.turn = None,
            _ => {}
        }
    }
}

impl SessionStream {
    /// Shows the end of this turn's answer, which has `printed` bytes by now.
    pub fn show_live_end(&mut self, turn: TurnId, at: UnixTime, printed: u64, end: &[u8]) {
        let missing = printed.saturating_sub(self.live_end.recorded);
        if self.live_end.turn != Some(turn) || missing == 0 || self.live_end.shown == Some(printed) {
            return;
        }
        self.hide_live_end();
        let wanted = usize::try_from(missing).unwrap_or(usize::MAX).min(end.len());
        let text = String::from_utf8_lossy(&end[end.len() - wanted..]).into_owned();
        let omitted = missing - wanted as u64;
        let head = if omitted > 0 {
            format!("… {} of this answer omitted; it continues:", readable_size(omitted))
        } else {
            String::new()
        };
        let mut new: StreamBlock = block(BlockKind::Said, at, head, ThemeRole::Faint);
        new.body = BlockBody::Text(vec![block_text::BlockText::words(text)]);
        self.blocks.push(new);
        self.live_end.shown = Some(printed);
    }

    /// Removes the block of the live end, before a record or a newer end is added.
    pub(super) fn hide_live_end(&mut self) {
        if self.live_end.shown.take().is_some() {
            self.blocks.pop();
            self.rows.remove(&self.blocks.len());
        }
    }
}

fn readable_size(bytes: u64) -> String {
    match bytes {
        0..1_000 => counted(bytes, "byte"),
        1_000..1_000_000 => format!("{}.{} kB", bytes / 1_000, bytes % 1_000 / 100),
        1_000_000.. => format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        let sizes = [1, 999, 1_000, 12_345, 1_234_567].map(readable_size);
        assert_eq!(sizes, ["1 byte", "999 bytes", "1.0 kB", "12.3 kB", "1.2 MB"]);
    }
}
