//! Records in flight: published to a stream, but not acknowledged yet.
//!
//! Owns one inbox for all acknowledgements, so thousands of messages need no timer and no channel
//! each. Does not decide what a refusal means.
//!
//! # Invariants
//! - A record leaves the window when all of its messages have been stored, and not before the one
//!   in front of it.
//! - The window is limited in records and in bytes, so creel reads the journal no faster than the
//!   server stores it.

use std::{
    collections::{BTreeSet, VecDeque},
    pin::Pin,
};

use async_nats::{
    Client, HeaderMap, Message, StatusCode, Subscriber,
    jetstream::{self, ErrorCode},
};
use bytes::Bytes;
use futures_core::Stream as _;
use serde::Deserialize;
use tokio::time::Instant;

use crate::nats::connection::NatsError;

/// The most records in flight.
pub(super) const WINDOW: usize = 512;
/// How much room for records the window must have before it is filled again.
const REFILL: usize = 64;
/// The most bytes in flight. One record may exceed it.
const BYTES: usize = 8 << 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InFlightRecord {
    /// Its sequence number.
    pub(super) seq: u64,
    /// The byte offset in the journal where it ends.
    pub(super) end: u64,
    pub(super) bytes: usize,
    /// The numbers of its messages that have not been acknowledged.
    pub(super) missing: BTreeSet<u64>,
    /// The highest sequence number of its messages in the stream.
    pub(super) at: u64,
    /// When it was sent.
    pub(super) since: Instant,
}

/// What is left to send in the journal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum RemainingRecords {
    /// The journal has not been read since a new record was announced.
    #[default]
    Unknown,
    Nothing,
    /// More than fits into the window.
    TooMuch,
    /// Everything after the first record, which claims the session's name and must be stored first.
    AllButTheFirst,
}

/// All records in flight, in the order of the journal.
#[derive(Debug, Default)]
pub(super) struct SendWindow {
    records: VecDeque<InFlightRecord>,
    bytes: usize,
    pub(super) rest: RemainingRecords,
    /// When a message of the first record was acknowledged last.
    moved: Option<Instant>,
}

impl SendWindow {
    /// Whether to read more of the journal.
    pub(super) fn can_follow(&self) -> bool {
        match self.rest {
            RemainingRecords::Unknown => true,
            RemainingRecords::Nothing => false,
            RemainingRecords::TooMuch => {
                self.records.len() + REFILL <= WINDOW && self.bytes <= BYTES / 2
            }
            RemainingRecords::AllButTheFirst => self.records.is_empty(),
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.records.len() >= WINDOW || self.bytes >= BYTES
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Since when nothing has moved: the first record was sent then, or one of its messages was
    /// acknowledged. `None` if the window is empty.
    pub(super) fn since(&self) -> Option<Instant> {
        self.records.front().map(|first| {
            self.moved
                .map_or(first.since, |moved| moved.max(first.since))
        })
    }

    pub(super) fn leave(&mut self, record: InFlightRecord) {
        self.bytes += record.bytes;
        self.records.push_back(record);
    }

    /// Whether the message has not been acknowledged yet.
    pub(super) fn awaits(&self, message: u64) -> bool {
        self.records
            .iter()
            .any(|record| record.missing.contains(&message))
    }

    /// Notes that the stream has stored a message under the sequence number `at`.
    pub(super) fn arrived(&mut self, message: u64, at: u64) {
        // They are nearly always acknowledged in order, so this search is short.
        let Some(which) = self
            .records
            .iter_mut()
            .position(|record| record.missing.remove(&message))
        else {
            return;
        };
        if let Some(record) = self.records.get_mut(which) {
            record.at = record.at.max(at);
        }
        if which == 0 {
            self.moved = Some(Instant::now());
        }
    }

    /// Removes the first record, if the server has stored all of it.
    pub(super) fn take_off(&mut self) -> Option<InFlightRecord> {
        let first = self
            .records
            .pop_front_if(|first| first.missing.is_empty())?;
        self.bytes -= first.bytes;
        Some(first)
    }
}

pub(super) struct StreamPublisher<'a> {
    client: &'a Client,
    /// The name of the stream that must acknowledge.
    stream: &'a str,
    /// The prefix of all reply subjects, with its final dot.
    inbox: String,
    answers: Subscriber,
    sent: u64,
}

/// The server's answer to one message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PublishOutcome {
    /// Which message, counted from 1.
    pub(super) message: u64,
    pub(super) reply: Result<StoredMessage, PublishRefusal>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StoredMessage {
    /// Its sequence number in the stream.
    pub(super) at: u64,
    /// Whether the stream already had a message of that id.
    pub(super) again: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum PublishRefusal {
    /// No stream has this subject.
    NoStream,
    /// It was to be the first message of its subject, but the subject already has one.
    NotTheFirst,
    /// Another reason, in the server's words.
    Other(String),
}

#[derive(Deserialize)]
struct AckPayload {
    #[serde(default)]
    stream: String,
    #[serde(default)]
    seq: u64,
    #[serde(default)]
    duplicate: bool,
    error: Option<jetstream::Error>,
}

impl<'a> StreamPublisher<'a> {
    pub(super) async fn open(client: &'a Client, stream: &'a str) -> Result<Self, NatsError> {
        let inbox = format!("{}.", client.new_inbox());
        let answers = client.subscribe(format!("{inbox}*")).await;
        let answers = answers.map_err(|error| NatsError(format!("cannot subscribe: {error}")))?;
        Ok(Self {
            client,
            stream,
            inbox,
            answers,
            sent: 0,
        })
    }

    /// Sends a message and returns its number.
    pub(super) async fn send(
        &mut self,
        subject: String,
        headers: HeaderMap,
        text: Bytes,
    ) -> Result<u64, NatsError> {
        self.sent += 1;
        let reply = format!("{}{}", self.inbox, self.sent);
        let sent = self
            .client
            .publish_with_reply_and_headers(subject, reply, headers, text)
            .await;
        sent.map_err(|error| NatsError(format!("cannot send a record: {error}")))?;
        Ok(self.sent)
    }

    /// Waits for the next acknowledgement. Cancel-safe: dropping the future loses none.
    pub(super) async fn next(&mut self) -> Result<PublishOutcome, NatsError> {
        loop {
            let next =
                std::future::poll_fn(|context| Pin::new(&mut self.answers).poll_next(context))
                    .await;
            let Some(message) = next else {
                return Err(NatsError("the connection was lost".to_owned()));
            };
            let number = message
                .subject
                .strip_prefix(self.inbox.as_str())
                .and_then(|number| number.parse().ok());
            if let (Some(message), Some(reply)) = (number, read(&message, self.stream)) {
                return Ok(PublishOutcome { message, reply });
            }
        }
    }
}

/// Parses an acknowledgement. Other programs can subscribe to the same subjects and answer too, so
/// an answer that is not from this stream is ignored.
fn read(message: &Message, stream: &str) -> Option<Result<StoredMessage, PublishRefusal>> {
    if message.status == Some(StatusCode::NO_RESPONDERS) {
        return Some(Err(PublishRefusal::NoStream));
    }
    let reply: AckPayload = serde_json::from_slice(&message.payload).ok()?;
    match reply.error {
        Some(error) if error.error_code() == ErrorCode::STREAM_WRONG_LAST_SEQUENCE => {
            Some(Err(PublishRefusal::NotTheFirst))
        }
        Some(error) => Some(Err(PublishRefusal::Other(error.to_string()))),
        None if reply.stream == stream && reply.seq > 0 => Some(Ok(StoredMessage {
            at: reply.seq,
            again: reply.duplicate,
        })),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn record(seq: u64, bytes: usize, messages: impl IntoIterator<Item = u64>) -> InFlightRecord {
        let missing = messages.into_iter().collect();
        InFlightRecord {
            seq,
            end: seq * 10,
            bytes,
            missing,
            at: 0,
            since: Instant::now(),
        }
    }

    #[test]
    fn a_record_comes_out_when_all_of_it_and_all_before_it_have_arrived() {
        let mut window = SendWindow::default();
        window.leave(record(1, 5, [1]));
        window.leave(record(2, 5, [2, 3]));
        window.leave(record(3, 5, [4]));
        let out = |window: &mut SendWindow| window.take_off().map(|record| (record.seq, record.at));
        window.arrived(4, 23);
        window.arrived(3, 22);
        assert_eq!(out(&mut window), None);
        window.arrived(1, 20);
        assert_eq!(out(&mut window), Some((1, 20)));
        // Ignore duplicate acknowledgements.
        window.arrived(1, 24);
        window.arrived(3, 25);
        assert!(
            window.awaits(2)
                && ![1, 3, 4, 5]
                    .into_iter()
                    .any(|message| window.awaits(message))
        );
        assert_eq!(out(&mut window), None);
        window.arrived(2, 21);
        assert_eq!(
            [out(&mut window), out(&mut window), out(&mut window)],
            [Some((2, 22)), Some((3, 23)), None]
        );
        assert!(window.is_empty() && window.bytes == 0);
    }

    #[test]
    fn a_large_record_has_time_as_long_as_parts_of_it_arrive() {
        let mut window = SendWindow::default();
        let long_ago = Instant::now()
            .checked_sub(Duration::from_mins(1))
            .expect("the machine runs for longer");
        window.leave(InFlightRecord {
            since: long_ago,
            ..record(1, 5, [1, 2])
        });
        window.leave(InFlightRecord {
            since: long_ago,
            ..record(2, 5, [3])
        });
        window.arrived(3, 7);
        assert_eq!(window.since(), Some(long_ago));
        window.arrived(1, 5);
        assert!(
            window
                .since()
                .is_some_and(|since| since.elapsed() < Duration::from_secs(30))
        );
    }

    #[test]
    fn unconfirmed_records_are_limited_in_number_and_in_bytes() {
        let mut window = SendWindow::default();
        (1..=WINDOW as u64).for_each(|seq| window.leave(record(seq, 1, [seq])));
        assert!(window.is_full());
        window.rest = RemainingRecords::TooMuch;
        for seq in 1..REFILL as u64 {
            window.arrived(seq, seq);
            window.take_off();
            assert!(!window.can_follow());
        }
        window.arrived(REFILL as u64, 1);
        window.take_off();
        assert!(window.can_follow() && !window.is_full());
        let mut heavy = SendWindow {
            rest: RemainingRecords::TooMuch,
            ..SendWindow::default()
        };
        heavy.leave(record(1, BYTES, [1]));
        assert!(heavy.is_full() && !heavy.can_follow());
        heavy.arrived(1, 1);
        heavy.take_off();
        assert!(heavy.can_follow() && !heavy.is_full());
    }

    fn reply(
        payload: &'static str,
        status: Option<StatusCode>,
    ) -> Option<Result<StoredMessage, PublishRefusal>> {
        let message = Message {
            subject: "_INBOX.a.1".into(),
            reply: None,
            payload: payload.into(),
            headers: None,
            status,
            description: None,
            length: 0,
        };
        read(&message, "CREEL")
    }

    #[test]
    fn an_acknowledgement_is_a_number_or_a_refusal() {
        assert_eq!(
            reply(r#"{"stream":"CREEL","seq":7}"#, None),
            Some(Ok(StoredMessage {
                at: 7,
                again: false
            }))
        );
        let again = r#"{"stream":"CREEL","seq":7,"domain":"d","duplicate":true}"#;
        assert_eq!(
            reply(again, None),
            Some(Ok(StoredMessage { at: 7, again: true }))
        );
        assert_eq!(
            reply("", Some(StatusCode::NO_RESPONDERS)),
            Some(Err(PublishRefusal::NoStream))
        );
        let not_first = r#"{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 1"},"seq":0}"#;
        assert_eq!(
            reply(not_first, None),
            Some(Err(PublishRefusal::NotTheFirst))
        );
        let full = r#"{"error":{"code":503,"err_code":10077,"description":"maximum bytes exceeded"},"stream":"CREEL","seq":0}"#;
        let complaint = "maximum bytes exceeded (code 503, error code 10077)".to_owned();
        assert_eq!(
            reply(full, None),
            Some(Err(PublishRefusal::Other(complaint)))
        );
        let of_others = [
            r#"{"stream":"CREEL"}"#,
            r#"{"stream":"OTHER","seq":7}"#,
            "+ACK",
            "hello",
            "{}",
        ];
        assert!(
            of_others
                .into_iter()
                .all(|payload| reply(payload, None).is_none())
        );
    }
}
