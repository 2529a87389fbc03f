//! Messages between the records of a watch. They are not stored, so a client that connects later
//! has missed them.
//!
//! ```text
//! {"v":1,"live":{"run":3,"stream":"stdout","at":0,"text":"…"}}    a hook printed something
//! {"v":1,"nats":{"state":"connected","behind":0}}                 the state of its NATS connection
//! ```
//!
//! If the session has a NATS server, the first message of a watch is the state of that connection;
//! it is sent again when it changes. Clients skip lines that they do not know, so later versions
//! can add others.

use serde::{Deserialize, Serialize};

use super::{VERSION, line};
use crate::{
    engine::ids::RunId, nats::status::NatsStatus, process::run::OutputStream,
    runtime::HookOutputChunk,
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct LiveMessageLine {
    v: u32,
    #[serde(flatten)]
    aside: Option<LiveMessage>,
}

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
            aside: Some(self),
        })
    }

    /// Parses a line. `None` if this creel does not know the kind of message.
    pub fn read(line: &[u8]) -> Result<Option<Self>, serde_json::Error> {
        serde_json::from_slice(line).map(|LiveMessageLine { aside, .. }| aside)
    }
}

impl From<HookOutputChunk> for LiveMessage {
    fn from(live: HookOutputChunk) -> Self {
        let HookOutputChunk {
            run,
            stream,
            at,
            bytes,
            gap,
        } = live;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Self::Live(HookOutputMessage {
            run,
            stream,
            at,
            text,
            gap,
        })
    }
}

impl From<HookOutputMessage> for HookOutputChunk {
    fn from(piece: HookOutputMessage) -> Self {
        let HookOutputMessage {
            run,
            stream,
            at,
            text,
            gap,
        } = piece;
        Self {
            run,
            stream,
            at,
            bytes: text.into_bytes(),
            gap,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_record_reads_as_it_is_documented_and_what_is_not_known_is_skipped() {
        let live = HookOutputChunk {
            run: RunId(3),
            stream: OutputStream::Stdout,
            at: 0,
            bytes: b"x".to_vec(),
            gap: false,
        };
        let asides = [
            (
                LiveMessage::from(live),
                r#"{"v":1,"live":{"run":3,"stream":"stdout","at":0,"text":"x"}}"#,
            ),
            (
                LiveMessage::Nats(NatsStatus::Connected { behind: 0 }),
                r#"{"v":1,"nats":{"state":"connected","behind":0}}"#,
            ),
        ];
        for (aside, text) in asides {
            assert_eq!(aside.clone().into_line().trim_end(), text);
            assert_eq!(
                LiveMessage::read(text.as_bytes()).expect("a line"),
                Some(aside)
            );
        }
        assert_eq!(
            LiveMessage::read(br#"{"v":1,"mood":{"is":"good"}}"#).expect("a line"),
            None
        );
        assert!(LiveMessage::read(b"nonsense").is_err());
    }
}
