//! The hash chain of a journal: each line ends with a hash over its own bytes and the hash of the
//! line before it, so a changed, missing or moved line is found.
//!
//! Owns the link at the end of a line, the seal next to the journal, which names the last line that a
//! process of creel left there, and [`verify`]. Does not protect from a program that writes both
//! anew: for that, the hash of the last line must be kept elsewhere.
//!
//! # Invariants
//! - The link is the last field of a line and always of the same length, so it is found without
//!   parsing the line.
//! - A line without a link is accepted only at the beginning: an earlier creel wrote it.

use std::{
    collections::BTreeMap,
    fmt,
    fs::File,
    io::{self, BufRead as _, BufReader},
    os::unix::fs::FileExt as _,
    path::Path,
};

use ring::digest::{Context, SHA256};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{SessionDir, file, open};

/// Between the fields of a record and its hash.
const LABEL: &str = ",\"chain\":\"";
/// After the hash.
const CLOSE: &str = "\"}";
/// Enough bytes that no second line with the same hash can be found.
const BYTES: usize = 16;
const DIGITS: [char; 16] = [
    '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f',
];
/// Bytes of a link at the end of a line, without the newline.
const LINK: usize = LABEL.len() + 2 * BYTES + CLOSE.len();

/// The hash of a line and of all lines before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainHash([u8; BYTES]);

impl ChainHash {
    /// Before the first line with a link.
    pub const START: Self = Self([0; BYTES]);

    /// The hash of the next line, given without its link: `{…` up to the last field.
    fn of(self, line: &[u8]) -> Self {
        let mut hash = Context::new(&SHA256);
        hash.update(&self.0);
        hash.update(line);
        let mut short = [0; BYTES];
        short.copy_from_slice(&hash.finish().as_ref()[..BYTES]);
        Self(short)
    }

    pub fn hex(self) -> String {
        let digits = self.0.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        digits.map(|digit| DIGITS[usize::from(digit)]).collect()
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let mut hash = [0; BYTES];
        if text.len() != 2 * BYTES {
            return None;
        }
        for (byte, pair) in hash.iter_mut().zip(text.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Self(hash))
    }
}

impl Serialize for ChainHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.hex())
    }
}

impl<'de> Deserialize<'de> for ChainHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        known(deserializer)?.ok_or_else(|| de::Error::custom("it is not the hash of a chain"))
    }
}

/// Reads a hash. None if it is not a hash: a damaged link does not make its record unreadable.
pub(super) fn known<'de, D: Deserializer<'de>>(from: D) -> Result<Option<ChainHash>, D::Error> {
    from.deserialize_str(ChainHashVisitor)
}

/// Needs no copy of the text.
struct ChainHashVisitor;

impl de::Visitor<'_> for ChainHashVisitor {
    type Value = Option<ChainHash>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the hash of a chain")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(ChainHash::parse(text.as_bytes()))
    }
}

/// Appends a line without a link to `lines`, with its link. `line` ends with its newline.
pub(super) fn append(lines: &mut String, line: &str, before: ChainHash) -> ChainHash {
    let content = line.trim_end_matches('\n').strip_suffix('}');
    let content = content.expect("a record is a JSON object");
    let hash = before.of(content.as_bytes());
    lines.push_str(content);
    lines.push_str(LABEL);
    lines.push_str(&hash.hex());
    lines.push_str(CLOSE);
    lines.push('\n');
    hash
}

/// The content of a line, and its hash. `line` has no newline.
fn link(line: &[u8]) -> Option<(&[u8], ChainHash)> {
    let (content, end) = line.split_at_checked(line.len().checked_sub(LINK)?)?;
    let hash = end
        .strip_prefix(LABEL.as_bytes())?
        .strip_suffix(CLOSE.as_bytes())?;
    Some((content, ChainHash::parse(hash)?))
}

/// The hash at the end of a journal's whole lines. None if the last one has no link.
pub(super) fn last(journal: &File, length: u64) -> Option<ChainHash> {
    let mut end = [0; LINK + 1];
    let start = length.checked_sub(end.len() as u64)?;
    journal.read_exact_at(&mut end, start).ok()?;
    link(end.strip_suffix(b"\n")?).map(|(_, hash)| hash)
}

/// What begins the line that names the head of a journal, in a commit or in a git note.
pub const EVIDENCE: &str = "Creel-Journal";
/// The ref of the git notes with such lines.
pub const EVIDENCE_NOTES: &str = "creel";

/// The line for a commit: `Creel-Journal: SESSION HASH`. None if the last record has no link.
pub fn evidence(folder: &SessionDir) -> Option<String> {
    let journal = open::to_read(&folder.journal()).ok()?;
    let head = last(&journal, journal.metadata().ok()?.len())?;
    Some(format!("{EVIDENCE}: {} {}", folder.name, head.hex()))
}

/// The number of each line of a journal by its hash.
pub fn lines_by_hash(folder: &SessionDir) -> io::Result<BTreeMap<String, u64>> {
    let reader = BufReader::with_capacity(256 << 10, open::to_read(&folder.journal())?);
    let mut lines = BTreeMap::new();
    for (number, line) in (1..).zip(reader.split(b'\n')) {
        if let Some((_, hash)) = link(&line?) {
            lines.insert(hash.hex(), number);
        }
    }
    Ok(lines)
}

/// The file next to the journal that names its last line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct JournalSeal {
    seq: u64,
    /// None if that line has no link.
    chain: Option<ChainHash>,
    /// Whether no process has written to the journal since.
    closed: bool,
    /// The record up to which an earlier seal vouched, if a process continued a journal without it. 0: there
    /// was no seal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cut: Option<u64>,
}

impl JournalSeal {
    /// A process writes from here on.
    pub(super) const fn open(seq: u64, chain: Option<ChainHash>) -> Self {
        Self {
            seq,
            chain,
            closed: false,
            cut: None,
        }
    }

    /// The last line that a process wrote.
    pub(super) const fn closed(seq: u64, chain: Option<ChainHash>) -> Self {
        Self {
            seq,
            chain,
            closed: true,
            cut: None,
        }
    }

    /// Replaces the seal. A session runs without one, too; then `creel verify` reports that.
    pub(super) fn write(&self, folder: &SessionDir) {
        let text = serde_json::to_string(&self.after(Self::read(folder).as_ref()));
        let text = text.unwrap_or_default();
        if let Err(error) = open::replace(&folder.seal_file(), &(text + "\n")) {
            tracing::warn!("cannot seal {}: {error}", folder.journal().display());
        }
    }

    /// The same with what the seal before it says: continuing a journal hides no cut.
    fn after(&self, before: Option<&Self>) -> Self {
        let cut = match before {
            Some(before) if before.cut.is_some() => before.cut,
            Some(before) => {
                let differs = before.seq == self.seq && before.chain != self.chain;
                (before.seq > self.seq || differs).then_some(before.seq)
            }
            // The first process writes it before the first link.
            None => self.chain.map(|_| 0),
        };
        Self {
            cut,
            ..self.clone()
        }
    }

    fn read(folder: &SessionDir) -> Option<Self> {
        serde_json::from_str(&open::line(&folder.seal_file()).ok()?).ok()
    }
}

/// What [`verify`] found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChainCheck {
    /// How many whole lines the journal has, as far as it was read.
    pub records: u64,
    /// How many lines at the beginning have no link.
    pub without_chain: u64,
    /// The hash of the last line.
    pub head: Option<ChainHash>,
    pub finding: ChainFinding,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum ChainFinding {
    /// Every line is as creel wrote it, and the last one is the last that creel wrote.
    Intact,
    /// The same up to now: the session runs.
    Running,
    /// creel was killed after the end of the session, so nothing names the last line.
    NotSealed,
    /// A line differs from what creel wrote, or lines before it are missing or moved.
    Changed { line: u64 },
    /// A line has no link although the ones before it have.
    Unlinked { line: u64 },
    /// The last line is not whole.
    Torn { line: u64 },
    /// creel wrote more records, and the last ones are missing.
    CutOff { sealed: u64 },
    /// Records follow the last one that creel wrote.
    Added { sealed: u64 },
    /// The seal is missing or cannot be read.
    SealMissing,
    /// The end of the session is not on record: creel was killed, or the end was cut off.
    NoEnd,
    /// An earlier creel wrote the journal, without a chain.
    NoChain,
}

impl ChainFinding {
    /// Whether nothing was changed, as far as the chain can show.
    pub const fn is_good(&self) -> bool {
        matches!(self, Self::Intact | Self::Running | Self::NotSealed)
    }
}

/// Whether a journal has a seal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JournalOrigin {
    Own,
    /// A copy of a journal on another machine has no seal: the records must end with the session.
    Copy,
}

/// Compares every line of a journal with its link, and the last one with the seal.
pub fn verify(folder: &SessionDir, origin: JournalOrigin) -> io::Result<ChainCheck> {
    // Before the journal: what is sealed is in it.
    let seal = JournalSeal::read(folder);
    let runs = origin == JournalOrigin::Own && file::running(folder).is_some();
    let mut reader = BufReader::with_capacity(256 << 10, open::to_read(&folder.journal())?);
    let mut walk = ChainWalk::default();
    let mut line = Vec::new();
    let finding = loop {
        line.clear();
        if reader.read_until(b'\n', &mut line)? == 0 {
            break None;
        }
        let fault = match line.strip_suffix(b"\n") {
            Some(line) => walk.step(line, seal.as_ref()),
            // The process that runs the session is about to write the rest.
            None if runs => break None,
            None => Some(ChainFinding::Torn {
                line: walk.check.records + 1,
            }),
        };
        if fault.is_some() {
            break fault;
        }
    };
    let end = |walk: &ChainWalk| match origin {
        JournalOrigin::Own => walk.end(seal.as_ref(), runs),
        JournalOrigin::Copy if walk.ended.is_some() => ChainFinding::Intact,
        JournalOrigin::Copy => ChainFinding::NoEnd,
    };
    let finding = match finding {
        Some(fault) => fault,
        None if walk.check.head.is_none() => ChainFinding::NoChain,
        None => end(&walk),
    };
    Ok(ChainCheck {
        finding,
        ..walk.check
    })
}

/// The first line that is not as creel wrote it, or that does not belong where it is. None if there
/// is none, or if the journal cannot be read. Whether the end is missing, only [`verify`] tells.
pub fn later_change(journal: &Path) -> Option<u64> {
    let mut reader = BufReader::with_capacity(256 << 10, open::to_read(journal).ok()?);
    let mut walk = ChainWalk::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        reader.read_until(b'\n', &mut line).ok()?;
        // The process that runs the session may be about to write the rest.
        if walk.step(line.strip_suffix(b"\n")?, None).is_some() {
            return Some(walk.check.records + 1);
        }
    }
}

/// The state between two lines.
struct ChainWalk {
    check: ChainCheck,
    /// The line at which the session ended, if it was not resumed since.
    ended: Option<u64>,
}

impl Default for ChainWalk {
    fn default() -> Self {
        Self {
            check: ChainCheck {
                records: 0,
                without_chain: 0,
                head: None,
                finding: ChainFinding::NoChain,
            },
            ended: None,
        }
    }
}

impl ChainWalk {
    fn step(&mut self, line: &[u8], seal: Option<&JournalSeal>) -> Option<ChainFinding> {
        let number = self.check.records + 1;
        match (link(line), self.check.head) {
            (Some((content, hash)), before) => {
                if before.unwrap_or(ChainHash::START).of(content) != hash {
                    return Some(ChainFinding::Changed { line: number });
                }
                self.check.head = Some(hash);
            }
            (None, None) => self.check.without_chain = number,
            (None, Some(_)) => return Some(ChainFinding::Unlinked { line: number }),
        }
        self.check.records = number;
        match kind(line).as_deref() {
            Some("session_ended") => self.ended = Some(number),
            Some("session_resumed") => self.ended = None,
            Some(_) | None => {}
        }
        let sealed = seal.filter(|seal| seal.seq == number);
        sealed
            .filter(|seal| seal.chain != self.check.head)
            .map(|_| ChainFinding::Changed { line: number })
    }

    /// What the seal says about the last line.
    fn end(&self, seal: Option<&JournalSeal>, runs: bool) -> ChainFinding {
        let Some(seal) = seal else {
            return ChainFinding::SealMissing;
        };
        let (sealed, records) = (seal.seq, self.check.records);
        match seal.cut {
            Some(0) => return ChainFinding::SealMissing,
            Some(sealed) => return ChainFinding::CutOff { sealed },
            None => {}
        }
        if records < sealed {
            ChainFinding::CutOff { sealed }
        } else if runs {
            ChainFinding::Running
        } else if seal.closed && records > sealed {
            ChainFinding::Added { sealed }
        } else if seal.closed {
            ChainFinding::Intact
        } else if self.ended.is_some_and(|ended| ended > sealed) {
            ChainFinding::NotSealed
        } else {
            ChainFinding::NoEnd
        }
    }
}

/// The kind of a record that can be the end or the resumption of a session. Few lines are parsed: a
/// quotation mark in a text is escaped, so none can look like the field.
fn kind(line: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct RecordKind {
        kind: String,
    }
    let looks_like = |kind: &[u8]| memchr::memmem::find(line, kind).is_some();
    if looks_like(b"\"kind\":\"session_ended\"") || looks_like(b"\"kind\":\"session_resumed\"") {
        let record: RecordKind = serde_json::from_slice(line).ok()?;
        return Some(record.kind);
    }
    None
}

#[cfg(test)]
mod tests;
