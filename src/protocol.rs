//! What clients and sessions say to each other, over the control socket and over NATS.
//!
//! Owns the words: requests, replies, live messages, views of a session, and the identity of a caller. Sends
//! nothing: see [`crate::socket`] and [`crate::nats`].

pub mod process_origin;
mod reply;
mod request;
pub mod view;
mod worker_order;

pub use process_origin::{CallerInfo, ClientKind};
pub use reply::{
    DeadlineRefusal, ReplyData, RequestRefusal, SessionClock, SessionReply, SessionRequestError,
    TimedReply, check_deadline,
};
pub use request::{
    ItemFilter, LONGEST_REQUEST, RequestError, SessionQuery, SessionRequest, WatchRequest,
    read_request, request_line,
};

pub use worker_order::WorkerOrder;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    engine::ids::RunId,
    process::run::OutputStream,
    protocol::request::{VERSION, line},
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct LiveMessageLine {
    v: u32,
    #[serde(flatten)]
    message: Option<LiveMessage>,
}

/// A message between the records of a watch. It is not stored, so a client that connects later has
/// missed it.
///
/// ```text
/// {"v":1,"live":{"run":3,"stream":"stdout","at":0,"text":"…"}}    a hook printed something
/// {"v":1,"nats":{"state":"connected","behind":0}}                 the state of its NATS connection
/// ```
///
/// If the session has a NATS server, the first message of a watch is the state of that connection;
/// it is sent again when it changes. Clients skip lines that they do not know, so later versions
/// can add others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LiveMessage {
    Live(HookOutputMessage),
    /// The state of the connection to the NATS server.
    Nats(NatsStatus),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookOutputMessage {
    pub run: RunId,
    pub stream: OutputStream,
    /// How many bytes of both streams the run had printed before: the position in its output file.
    pub at: u64,
    /// The text. Bytes that are not UTF-8 are replaced.
    pub text: String,
    /// Whether output before it is missing, because the hook printed faster than the client read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gap: bool,
}

impl LiveMessage {
    /// The message as a line, with its newline.
    pub fn into_line(self) -> String {
        line(&LiveMessageLine {
            v: VERSION,
            message: Some(self),
        })
    }

    /// Parses a line. `None` if this creel does not know the kind of message.
    pub fn read(line: &[u8]) -> Result<Option<Self>, serde_json::Error> {
        serde_json::from_slice(line).map(|LiveMessageLine { message, .. }| message)
    }
}

/// The state of a session's connection to its NATS server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum NatsStatus {
    /// The session has not reached the server yet.
    Connecting {
        /// How many records the server does not have.
        behind: u64,
    },
    Connected {
        /// How many records the server does not have yet.
        behind: u64,
    },
    /// The session cannot reach the server, or the server refuses records.
    Away {
        why: String,
        /// How many records the server does not have.
        behind: u64,
    },
}

impl NatsStatus {
    /// The same state with another count.
    #[must_use]
    pub fn with(self, behind: u64) -> Self {
        match self {
            Self::Connecting { .. } => Self::Connecting { behind },
            Self::Connected { .. } => Self::Connected { behind },
            Self::Away { why, .. } => Self::Away { why, behind },
        }
    }

    /// How many records the server does not have.
    pub const fn behind(&self) -> u64 {
        match self {
            Self::Connecting { behind }
            | Self::Connected { behind }
            | Self::Away { behind, .. } => *behind,
        }
    }
}

impl fmt::Display for NatsStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connecting { .. } => write!(f, "connecting")?,
            Self::Connected { .. } => write!(f, "connected")?,
            Self::Away { why, .. } => write!(f, "{why}")?,
        }
        match self.behind() {
            0 => Ok(()),
            1 => write!(f, ", 1 record behind"),
            n => write!(f, ", {n} records behind"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_messages_are_as_documented_and_unknown_ones_are_skipped() {
        let output = HookOutputMessage {
            run: RunId(3),
            stream: OutputStream::Stdout,
            at: 0,
            text: "x".into(),
            gap: false,
        };
        let messages = [
            (
                LiveMessage::Live(output),
                r#"{"v":1,"live":{"run":3,"stream":"stdout","at":0,"text":"x"}}"#,
            ),
            (
                LiveMessage::Nats(NatsStatus::Connected { behind: 0 }),
                r#"{"v":1,"nats":{"state":"connected","behind":0}}"#,
            ),
        ];
        for (message, text) in messages {
            assert_eq!(message.clone().into_line().trim_end(), text);
            assert_eq!(
                LiveMessage::read(text.as_bytes()).expect("a line"),
                Some(message)
            );
        }
        assert_eq!(
            LiveMessage::read(br#"{"v":1,"mood":{"is":"good"}}"#).expect("a line"),
            None
        );
        assert!(LiveMessage::read(b"nonsense").is_err());
    }
}
