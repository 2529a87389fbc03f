//! One line of the journal, and how it is parsed.
//!
//! # Invariants
//! - One record is one line, and a line is whole only with its newline.
//! - Unknown kinds and fields are skipped. A journal in a newer format is refused.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::{Deserialize, Serialize, Serializer};

use super::chain::{self, ChainHash};
use crate::engine::{event::Event, time::UnixTime};

/// The format version that this creel writes.
pub const VERSION: u32 = 1;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Record {
    /// The format version.
    pub v: u32,
    /// The position in the journal, from 1.
    pub seq: u64,
    #[serde(serialize_with = "as_rfc3339")]
    pub at: UnixTime,
    pub session: String,
    #[serde(flatten)]
    pub event: Event,
    /// The link to the line before. None in journals of earlier versions, and until it is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain: Option<ChainHash>,
}

/// The fields that all kinds of records share.
#[derive(Deserialize)]
struct RecordEnvelope<'a> {
    v: u32,
    seq: u64,
    #[serde(borrow)]
    at: Cow<'a, str>,
    #[serde(borrow)]
    session: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(default, deserialize_with = "chain::known")]
    chain: Option<ChainHash>,
}

#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error(
        "a newer creel wrote it (format {found}, this creel reads up to {VERSION}); update creel to read it"
    )]
    Newer { found: u32 },
    #[error("it is not a record: {}", without_place(.0))]
    Malformed(#[from] serde_json::Error),
    #[error("its time is not valid: {0}")]
    Time(#[from] jiff::Error),
}

/// The position is inside one line, and would look like a line of the journal.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    text.strip_suffix(&place).unwrap_or(&text).to_owned()
}

impl Record {
    /// Includes the newline.
    pub fn to_line(&self) -> String {
        let mut line = serde_json::to_string(self).expect("records have no keys that are not text");
        line.push('\n');
        line
    }

    /// Parses the line twice: the shared fields first, which is cheap and shows the format version,
    /// then the event by its kind. A single pass would have to buffer every field.
    pub fn from_line(line: &str) -> Result<Self, RecordError> {
        let envelope: RecordEnvelope<'_> = serde_json::from_str(line)?;
        if envelope.v > VERSION {
            return Err(RecordError::Newer { found: envelope.v });
        }
        let at: Timestamp = envelope.at.parse()?;
        let event = Event::read(&envelope.kind, line)?;
        Ok(Self {
            v: envelope.v,
            seq: envelope.seq,
            at: UnixTime(at.as_millisecond()),
            session: envelope.session.into_owned(),
            event,
            chain: envelope.chain,
        })
    }
}

/// Formats a time as records do: `2026-11-15T09:30:00.123Z`.
pub fn rfc3339(at: UnixTime) -> String {
    at.rfc3339()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn as_rfc3339<S: Serializer>(at: &UnixTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&rfc3339(*at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{
        event::{ActorKind, HookEvent, HookFinished, SteeringEvent},
        hooks::{
            point::HookPoint,
            verdict::{RunEnd, Verdict},
        },
        ids::RunId,
        time::TimeSpan,
    };

    fn record(event: Event) -> Record {
        Record {
            v: 1,
            seq: 7,
            at: UnixTime(1_794_735_000_123),
            session: "NAME".into(),
            event,
            chain: None,
        }
    }

    #[test]
    fn a_record_reads_as_the_contract_writes_it() {
        let finished = HookFinished {
            run: RunId(3),
            point: HookPoint::Stop,
            hook: "tests".into(),
            iteration: 1,
            end: RunEnd::Exit(2),
            took_ms: TimeSpan(12),
            verdict: Verdict::Block,
            stdout: "out".into(),
            stderr: "err".into(),
            omitted_bytes: 0,
            piped: false,
            reply: None,
            decision: None,
            file: None,
            outcome: None,
            judged: None,
            tests: None,
            tests_of: None,
            again: false,
        };
        let line = record(Event::Hook(HookEvent::Finished(Box::new(finished)))).to_line();
        let expected = concat!(
            r#"{"v":1,"seq":7,"at":"2026-11-15T09:30:00.123Z","session":"NAME","kind":"hook_finished","run":3,"#,
            r#""point":"stop","hook":"tests","iteration":1,"end":{"exit":2},"took_ms":12,"verdict":"block","#,
            r#""stdout":"out","stderr":"err","omitted_bytes":0,"piped":false}"#,
            "\n"
        );
        assert_eq!(line, expected);
    }

    #[test]
    fn what_is_written_is_read_back() {
        let written = record(Event::Steering(SteeringEvent::MessageQueued {
            by: ActorKind::Cli.into(),
            text: "a\n\u{1f41f} \"b\"".into(),
        }));
        assert_eq!(
            Record::from_line(&written.to_line()).expect("a record"),
            written
        );
    }

    #[test]
    fn unknown_kinds_and_fields_are_skipped() {
        let line =
            r#"{"v":1,"seq":1,"at":"2026-11-15T09:30:00Z","session":"a","kind":"sang","song":[1]}"#;
        assert_eq!(
            Record::from_line(line).expect("a record").event,
            Event::Unknown
        );
        let line = r#"{"v":1,"seq":1,"at":"2026-11-15T09:30:00Z","session":"a","kind":"paused","by":"tui","new":{}}"#;
        assert_eq!(
            Record::from_line(line).expect("a record").event,
            Event::Steering(SteeringEvent::Paused {
                by: ActorKind::Tui.into(),
                turn: None
            })
        );
    }

    #[test]
    fn a_newer_format_is_refused() {
        let line = r#"{"v":2,"seq":1,"at":"2026-11-15T09:30:00Z","session":"a","kind":"paused","by":"tui"}"#;
        assert!(matches!(
            Record::from_line(line),
            Err(RecordError::Newer { found: 2 })
        ));
    }
}
