//! What is said between the records of a watch, and is none: it is not kept, and whoever comes late has missed it.
//!
//! ```text
//! {"v":1,"live":{"run":3,"stream":"stdout","at":0,"text":"…"}}    a hook printed something
//! {"v":1,"nats":{"state":"connected","behind":0}}                 how the session stands with its NATS server
//! ```
//!
//! How it stands is told first when the watch begins, if the session has a server, then when it has changed. Lines that are
//! not known are skipped, so that there may be others one day.

use serde::{Deserialize, Serialize};

use super::{VERSION, line};
use crate::{engine::ids::RunId, nats::status::NatsStatus, process::run::OutputStream, runtime::HookOutputChunk};

/// A line between the records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct LiveMessageLine {
    v: u32,
    #[serde(flatten)]
    aside: Option<LiveMessage>,
}

/// Something that is no record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LiveMessage {
    /// A piece of a hook's output.
    Live(HookOutputMessage),
    /// How the session stands with its NATS server.
    Nats(NatsStatus),
}

/// A piece of a hook's output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookOutputMessage {
    /// The run that printed it.
    pub run: RunId,
    /// Where.
    pub stream: OutputStream,
    /// How much the run had printed before, in bytes of both streams: so much of its output file is older.
    pub at: u64,
    /// What; bytes that are no text are replaced.
    pub text: String,
    /// Whether something before it is missing, because it came faster than it was read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gap: bool,
}

impl LiveMessage {
    /// The line for it, newline included.
    pub fn into_line(self) -> String {
        line(&LiveMessageLine { v: VERSION, aside: Some(self) })
    }

    /// Reads a line; nothing, if it is one that is not known.
    pub fn read(line: &[u8]) -> Result<Option<Self>, serde_json::Error> {
        serde_json::from_slice(line).map(|LiveMessageLine { aside, .. }| aside)
    }
}

impl From<HookOutputChunk> for LiveMessage {
    fn from(live: HookOutputChunk) -> Self {
        let HookOutputChunk { run, stream, at, bytes, gap } = live;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Self::Live(HookOutputMessage { run, stream, at, text, gap })
    }
}

impl From<HookOutputMessage> for HookOutputChunk {
    fn from(piece: HookOutputMessage) -> Self {
        let HookOutputMessage { run, stream, at, text, gap } = piece;
        Self { run, stream, at, bytes: text.into_bytes(), gap }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_record_reads_as_it_is_documented_and_what_is_not_known_is_skipped() {
        let live =
            HookOutputChunk { run: RunId(3), stream: OutputStream::Stdout, at: 0, bytes: b"x".to_vec(), gap: false };
        let asides = [
            (LiveMessage::from(live), r#"{"v":1,"live":{"run":3,"stream":"stdout","at":0,"text":"x"}}"#),
            (
                LiveMessage::Nats(NatsStatus::Connected { behind: 0 }),
                r#"{"v":1,"nats":{"state":"connected","behind":0}}"#,
            ),
        ];
        for (aside, text) in asides {
            assert_eq!(aside.clone().into_line().trim_end(), text);
            assert_eq!(LiveMessage::read(text.as_bytes()).expect("a line"), Some(aside));
        }
        assert_eq!(LiveMessage::read(br#"{"v":1,"mood":{"is":"good"}}"#).expect("a line"), None);
        assert!(LiveMessage::read(b"nonsense").is_err());
    }
}
