//! Turns the messages of a stream into the records of one session, in order.
//!
//! # Invariants
//! - Each record is returned once, in the order of the journal, however often and in whatever order
//!   its messages arrive.
//! - Messages that are not records of this session are skipped.

use std::collections::BTreeMap;

use async_nats::HeaderMap;

use super::subject::SESSION;
use crate::{
    journal::Record,
    nats::stream::{MessagePart, header, part},
};

#[derive(Debug)]
pub struct RecordAssembler {
    id: String,
    /// The sequence number of the next record.
    next: u64,
    /// The parts of an incomplete record. The parts of one record arrive one after another.
    parts: BTreeMap<usize, Vec<u8>>,
    /// Lines of records that arrived before an earlier one.
    early: BTreeMap<u64, String>,
}

impl RecordAssembler {
    /// Starts with the first record of that session.
    pub fn new(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            next: 1,
            parts: BTreeMap::new(),
            early: BTreeMap::new(),
        }
    }

    /// Adds a message and returns the lines that are complete now, each with its newline.
    pub fn take(&mut self, headers: Option<&HeaderMap>, payload: &[u8]) -> Vec<String> {
        let Some(headers) = headers.filter(|headers| header(headers, SESSION) == Some(&self.id))
        else {
            return Vec::new();
        };
        let Some(part) = part(headers) else {
            return Vec::new();
        };
        let Some(line) = self.whole(part, payload) else {
            return Vec::new();
        };
        // Readers of the copy parse every line as a record.
        match Record::from_line(&line) {
            Ok(record) if record.seq >= self.next && !line.contains('\n') => {
                self.early.insert(record.seq, line + "\n");
            }
            Ok(_) => {}
            Err(error) => tracing::warn!("nats: skipped a message: {error}"),
        }
        std::iter::from_fn(|| {
            let line = self.early.remove(&self.next)?;
            self.next += 1;
            Some(line)
        })
        .collect()
    }

    /// The sequence number of a missing record. `None` unless later ones have arrived.
    pub fn gap(&self) -> Option<u64> {
        (!self.early.is_empty()).then_some(self.next)
    }

    fn whole(&mut self, part: MessagePart, payload: &[u8]) -> Option<String> {
        if part.of == 1 {
            return String::from_utf8(payload.to_vec()).ok();
        }
        if part.number == 1 {
            self.parts.clear();
        }
        self.parts.insert(part.number, payload.to_vec());
        if self.parts.len() < part.of {
            return None;
        }
        String::from_utf8(
            std::mem::take(&mut self.parts)
                .into_values()
                .flatten()
                .collect(),
        )
        .ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nats::subject::PART;

    fn headers(id: &str, part: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(SESSION, id);
        if let Some(part) = part {
            headers.insert(PART, part);
        }
        headers
    }

    fn line(seq: u64) -> String {
        format!(
            r#"{{"v":1,"seq":{seq},"at":"2026-11-15T09:30:00.000Z","session":"s","kind":"paused","by":"cli"}}"#
        )
    }

    #[test]
    fn records_come_out_in_order_and_once() {
        let mut assembly = RecordAssembler::new("a");
        let mut take = |seq| assembly.take(Some(&headers("a", None)), line(seq).as_bytes());
        let lines = |seqs: &[u64]| seqs.iter().map(|seq| line(*seq) + "\n").collect::<Vec<_>>();
        assert_eq!(take(1), lines(&[1]));
        assert_eq!(take(1), lines(&[]));
        assert_eq!(take(3), lines(&[]));
        assert_eq!(take(4), lines(&[]));
        assert_eq!(assembly.gap(), Some(2));
        let mut take = |seq| assembly.take(Some(&headers("a", None)), line(seq).as_bytes());
        assert_eq!(take(2), lines(&[2, 3, 4]));
        assert_eq!(take(3), lines(&[]));
        assert_eq!(assembly.gap(), None);
    }

    #[test]
    fn what_is_not_a_record_of_the_session_is_passed_over() {
        let mut assembly = RecordAssembler::new("a");
        assert!(assembly.take(None, line(1).as_bytes()).is_empty());
        assert!(
            assembly
                .take(Some(&headers("b", None)), line(1).as_bytes())
                .is_empty()
        );
        assert!(assembly.take(Some(&headers("a", None)), b"{}").is_empty());
        assert!(
            assembly
                .take(Some(&headers("a", Some("3/2"))), line(1).as_bytes())
                .is_empty()
        );
        assert_eq!(
            assembly
                .take(Some(&headers("a", None)), line(1).as_bytes())
                .len(),
            1
        );
    }

    #[test]
    fn a_record_in_parts_is_put_together_also_when_it_was_begun_before() {
        let mut assembly = RecordAssembler::new("a");
        let (text, half) = (line(1), line(1).len() / 2);
        assert!(
            assembly
                .take(Some(&headers("a", Some("1/2"))), &text.as_bytes()[..half])
                .is_empty()
        );
        assert!(
            assembly
                .take(Some(&headers("a", Some("1/2"))), &text.as_bytes()[..half])
                .is_empty()
        );
        let whole = assembly.take(Some(&headers("a", Some("2/2"))), &text.as_bytes()[half..]);
        assert_eq!(whole, [text + "\n"]);
    }
}
