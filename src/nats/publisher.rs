//! Publishes messages to a stream and receives the server's acknowledgements.
//!
//! Owns one inbox for all acknowledgements, so thousands of messages need no timer and no channel
//! each. Does not decide what a refusal means.

use std::pin::Pin;

use async_nats::{
    Client, HeaderMap, Message, StatusCode, Subscriber,
    jetstream::{self, ErrorCode},
};
use bytes::Bytes;
use futures_core::Stream as _;
use serde::Deserialize;

use super::connection::NatsError;

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
    pub(super) said: Result<StoredMessage, PublishRefusal>,
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
            if let (Some(message), Some(said)) = (number, read(&message, self.stream)) {
                return Ok(PublishOutcome { message, said });
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
    let said: AckPayload = serde_json::from_slice(&message.payload).ok()?;
    match said.error {
        Some(error) if error.error_code() == ErrorCode::STREAM_WRONG_LAST_SEQUENCE => {
            Some(Err(PublishRefusal::NotTheFirst))
        }
        Some(error) => Some(Err(PublishRefusal::Other(error.to_string()))),
        None if said.stream == stream && said.seq > 0 => Some(Ok(StoredMessage {
            at: said.seq,
            again: said.duplicate,
        })),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(
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
    fn what_the_server_says_is_a_number_or_a_refusal() {
        assert_eq!(
            said(r#"{"stream":"CREEL","seq":7}"#, None),
            Some(Ok(StoredMessage {
                at: 7,
                again: false
            }))
        );
        let again = r#"{"stream":"CREEL","seq":7,"domain":"d","duplicate":true}"#;
        assert_eq!(
            said(again, None),
            Some(Ok(StoredMessage { at: 7, again: true }))
        );
        assert_eq!(
            said("", Some(StatusCode::NO_RESPONDERS)),
            Some(Err(PublishRefusal::NoStream))
        );
        let not_first = r#"{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 1"},"seq":0}"#;
        assert_eq!(
            said(not_first, None),
            Some(Err(PublishRefusal::NotTheFirst))
        );
        let full = r#"{"error":{"code":503,"err_code":10077,"description":"maximum bytes exceeded"},"stream":"CREEL","seq":0}"#;
        let told = "maximum bytes exceeded (code 503, error code 10077)".to_owned();
        assert_eq!(said(full, None), Some(Err(PublishRefusal::Other(told))));
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
                .all(|payload| said(payload, None).is_none())
        );
    }
}
