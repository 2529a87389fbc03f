//! Records that are under way: they left, and the server has not said yet that it has them.
//!
//! # Invariants
//! - A record comes out when all of its messages have arrived, and not before the one in front of it.
//! - What is under way has a limit, in records and in bytes: a journal is read no faster than the server takes it.

use std::collections::VecDeque;

use tokio::time::Instant;

/// How many records are under way at once.
pub(super) const WINDOW: usize = 512;
/// How many leave together, while there are more than fit.
const REFILL: usize = 64;
/// How many bytes are under way at once; one record more may be.
const BYTES: usize = 8 << 20;

/// A record that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UnderWay {
    /// Its number.
    pub(super) seq: u64,
    /// Where it ends in the journal.
    pub(super) end: u64,
    pub(super) bytes: usize,
    /// The number of its last message.
    pub(super) last_message: u64,
    /// How many of its messages have not arrived.
    pub(super) missing: usize,
    /// The highest number that one of its messages has in the stream.
    pub(super) at: u64,
    /// When it left.
    pub(super) since: Instant,
}

/// What is left in the file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Rest {
    /// Nobody has looked since something was heard.
    #[default]
    Unknown,
    /// Nothing.
    Nothing,
    /// More than fits into the window.
    TooMuch,
    /// Whatever comes after the first record, which claims the session's name.
    AllButTheFirst,
}

/// All that is under way, in the order of the journal.
#[derive(Debug, Default)]
pub(super) struct Window {
    records: VecDeque<UnderWay>,
    bytes: usize,
    pub(super) rest: Rest,
}

impl Window {
    /// Whether to read on.
    pub(super) fn can_follow(&self) -> bool {
        match self.rest {
            Rest::Unknown => true,
            Rest::Nothing => false,
            Rest::TooMuch => self.records.len() + REFILL <= WINDOW && self.bytes <= BYTES / 2,
            Rest::AllButTheFirst => self.records.is_empty(),
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.records.len() >= WINDOW || self.bytes >= BYTES
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// When the oldest left.
    pub(super) fn since(&self) -> Option<Instant> {
        self.records.front().map(|first| first.since)
    }

    pub(super) fn leave(&mut self, record: UnderWay) {
        self.bytes += record.bytes;
        self.records.push_back(record);
    }

    /// A message has arrived, under that number in the stream.
    pub(super) fn arrived(&mut self, message: u64, at: u64) {
        // They arrive in order, nearly always.
        let which = self.records.iter().position(|record| message <= record.last_message);
        if let Some(record) = which.and_then(|which| self.records.get_mut(which)) {
            record.missing = record.missing.saturating_sub(1);
            record.at = record.at.max(at);
        }
    }

    /// Takes off the first record, if the server has it.
    pub(super) fn take_off(&mut self) -> Option<UnderWay> {
        let first = self.records.pop_front_if(|first| first.missing == 0)?;
        self.bytes -= first.bytes;
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(seq: u64, bytes: usize, last_message: u64, missing: usize) -> UnderWay {
        UnderWay { seq, end: seq * 10, bytes, last_message, missing, at: 0, since: Instant::now() }
    }

    #[test]
    fn a_record_comes_out_when_all_of_it_and_all_before_it_have_arrived() {
        let mut window = Window::default();
        window.leave(record(1, 5, 1, 1));
        window.leave(record(2, 5, 3, 2));
        window.leave(record(3, 5, 4, 1));
        let out = |window: &mut Window| window.take_off().map(|record| (record.seq, record.at));
        window.arrived(4, 23);
        window.arrived(3, 22);
        assert_eq!(out(&mut window), None);
        window.arrived(1, 20);
        assert_eq!(out(&mut window), Some((1, 20)));
        assert_eq!(out(&mut window), None);
        window.arrived(2, 21);
        assert_eq!([out(&mut window), out(&mut window), out(&mut window)], [Some((2, 22)), Some((3, 23)), None]);
        assert!(window.is_empty() && window.bytes == 0);
    }

    #[test]
    fn what_is_under_way_is_limited_in_records_and_in_bytes() {
        let mut window = Window::default();
        (1..=WINDOW as u64).for_each(|seq| window.leave(record(seq, 1, seq, 1)));
        assert!(window.is_full());
        window.rest = Rest::TooMuch;
        for seq in 1..REFILL as u64 {
            window.arrived(seq, seq);
            window.take_off();
            assert!(!window.can_follow());
        }
        window.arrived(REFILL as u64, 1);
        window.take_off();
        assert!(window.can_follow() && !window.is_full());
        let mut heavy = Window { rest: Rest::TooMuch, ..Window::default() };
        heavy.leave(record(1, BYTES, 1, 1));
        assert!(heavy.is_full() && !heavy.can_follow());
        heavy.arrived(1, 1);
        heavy.take_off();
        assert!(heavy.can_follow() && !heavy.is_full());
    }
}
