//! The live end of an answer that is too long for the journal.
//!
//! creel records the beginning of a very long answer and writes the rest to a file until the turn
//! ends. The stream shows the end of that file below the recorded text, so that the user sees
//! progress.

use super::{BlockBody, BlockKind, SessionStream, StreamBlock, StreamPosition, block};
use crate::{
    engine::{
        event::{Event, TurnEvent},
        ids::TurnId,
        time::UnixTime,
    },
    present::{describe::DetailText, text::readable_size},
    tui::theme::ThemeRole,
};

/// The answer of the current turn.
#[derive(Debug, Default)]
pub(super) struct LiveAnswerTail {
    turn: Option<TurnId>,
    /// How many bytes of the answer are recorded.
    recorded: u64,
    /// The length of the answer when its end was last shown. None while it is not shown.
    shown: Option<u64>,
    /// The block of the end while it was last shown. The view follows it if records arrive before
    /// it.
    block: usize,
}

impl LiveAnswerTail {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the other records are no part of an answer"
    )]
    pub(super) fn count(&mut self, event: &Event) {
        match event {
            Event::Turn(TurnEvent::PromptSent(prompt)) => {
                *self = Self {
                    turn: Some(prompt.turn),
                    ..Self::default()
                }
            }
            Event::Turn(TurnEvent::AgentSaid { turn, text, .. }) if self.turn == Some(*turn) => {
                self.recorded += text.len() as u64;
            }
            Event::Turn(TurnEvent::Ended { .. } | TurnEvent::Failed { .. }) => self.turn = None,
            _ => {}
        }
    }
}

impl SessionStream {
    /// Shows the end of this turn's answer, which has `printed` bytes by now. Returns whether it
    /// has grown.
    pub fn show_live_end(&mut self, turn: TurnId, at: UnixTime, printed: u64, end: &[u8]) -> bool {
        let missing = printed.saturating_sub(self.live_end.recorded);
        if self.live_end.turn != Some(turn) || missing == 0 || self.live_end.shown == Some(printed)
        {
            return false;
        }
        self.hide_live_end();
        let wanted = usize::try_from(missing)
            .unwrap_or(usize::MAX)
            .min(end.len());
        let text = String::from_utf8_lossy(&end[end.len() - wanted..]).into_owned();
        let omitted = missing - wanted as u64;
        let head = if omitted > 0 {
            format!(
                "… {} of this answer omitted; it continues:",
                readable_size(omitted)
            )
        } else {
            String::new()
        };
        let mut new: StreamBlock = block(BlockKind::Message, at, head, ThemeRole::Faint);
        new.body = BlockBody::Text(vec![DetailText::words(text)]);
        self.blocks.push(new);
        let (was, is) = (self.live_end.block, self.blocks.len() - 1);
        if was > 0 && is > was {
            self.follow_block(was, is);
        }
        (self.live_end.shown, self.live_end.block) = (Some(printed), is);
        true
    }

    /// The view and the cursor stay in a block that has moved.
    fn follow_block(&mut self, was: usize, is: usize) {
        if let StreamPosition::At { block, .. } = &mut self.position
            && *block == was
        {
            *block = is;
        }
        if let Some(cursor) = self.cursor.as_mut().filter(|cursor| cursor.block == was) {
            cursor.block = is;
        }
    }

    /// Removes the block of the live end, before a record or a newer end is added.
    pub(super) fn hide_live_end(&mut self) {
        if self.live_end.shown.take().is_some() {
            self.blocks.pop();
            self.rows.remove(&self.blocks.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::stream::StreamPlace;

    #[test]
    fn the_view_stays_in_the_live_end_when_late_records_come_before_it() {
        let at = UnixTime::default();
        let mut stream = SessionStream::default();
        let record = |stream: &mut SessionStream| {
            stream.hide_live_end();
            stream.blocks.push(block(
                BlockKind::Message,
                at,
                String::new(),
                ThemeRole::Text,
            ));
        };
        stream.live_end.turn = Some(TurnId::default());
        record(&mut stream);
        assert!(stream.show_live_end(TurnId::default(), at, 100, b"the end"));
        stream.position = StreamPosition::At { block: 1, row: 0 };
        stream.cursor = Some(StreamPlace { block: 1, row: 0 });
        record(&mut stream);
        assert!(stream.show_live_end(TurnId::default(), at, 100, b"the end"));
        assert_eq!(stream.position, StreamPosition::At { block: 2, row: 0 });
        assert_eq!(stream.cursor.map(|cursor| cursor.block), Some(2));
    }
}
