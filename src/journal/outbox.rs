//! The records of a journal that have not been sent to the server yet.
//!
//! Owns the one position up to which the server has the journal, its copy in a file beside the
//! journal, and reading from there. Records are not copied: the journal itself is the queue. Does
//! not send: see [`crate::nats`].
//!
//! # Invariants
//! - One sender: the process that has the file's lock.
//! - The saved position is never ahead of the server. It can be behind, so the sender checks the
//!   server first.

use std::{
    fs::{File, TryLockError},
    io::{self, Read as _, Seek as _, SeekFrom},
    os::unix::fs::FileExt as _,
    path::PathBuf,
};

use bytes::{Bytes, BytesMut};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use super::{SessionDir, open};

/// Bytes per read.
const CHUNK: usize = 64 << 10;
/// The file has a fixed length in bytes, so a shorter text overwrites all of a longer one.
const LENGTH: usize = 1024;
/// Bytes of a server's name that are saved.
const NAME: usize = 512;

/// Up to which record the server has the journal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutboxPosition {
    /// The server that the records are sent to. No other server receives them.
    #[serde(default)]
    pub server: String,
    /// Identifies the store on the server. A different store has no records yet.
    pub store: String,
    /// The store has all records up to this one.
    pub seq: u64,
    /// The byte offset to continue at: the end of that record, or earlier.
    pub offset: u64,
    /// Every message of the store up to this sequence number is accounted for.
    pub at: u64,
    pub names: RecordNaming,
}

/// The subject names of a session's records in a store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordNaming {
    /// By the session's name: no other session in the store had it before.
    #[default]
    Plain,
    /// By name and id: an earlier session in the store has the same name.
    WithId,
}

/// The unsent records of one session, for its sender.
#[derive(Debug)]
pub struct Outbox {
    journal: PathBuf,
    file: File,
    place: OutboxPosition,
    /// As the file has it.
    saved: OutboxPosition,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxRecord {
    pub seq: u64,
    pub kind: String,
    /// Without its newline.
    pub line: Bytes,
    /// The byte offset in the journal where the record ends.
    pub end: u64,
}

#[derive(Deserialize)]
struct RecordHead {
    seq: u64,
    kind: String,
}

impl Outbox {
    /// Returns None if another process sends this session.
    pub fn open(folder: &SessionDir) -> io::Result<Option<Self>> {
        let mut file = open::open(&folder.outbox_file(), OFlags::RDWR | OFlags::CREATE)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let mut text = String::new();
        // An unreadable position counts as none: the sender checks what the server has.
        let place = file
            .read_to_string(&mut text)
            .ok()
            .and_then(|_| serde_json::from_str(&text).ok());
        let place: OutboxPosition = place.unwrap_or_default();
        Ok(Some(Self {
            journal: folder.journal(),
            file,
            saved: place.clone(),
            place,
        }))
    }

    /// Up to where the server has the records.
    pub fn place(&self) -> &OutboxPosition {
        &self.place
    }

    /// Changes the position. [`Self::save`] makes it survive this process.
    pub fn place_mut(&mut self) -> &mut OutboxPosition {
        &mut self.place
    }

    /// Sets the server. The sender finds out later whether that server has the same store.
    pub fn address(&mut self, server: &str) -> io::Result<()> {
        if self.is_for(server) {
            return Ok(());
        }
        short(server).clone_into(&mut self.place.server);
        self.save()
    }

    pub fn is_for(&self, server: &str) -> bool {
        self.place.server == short(server)
    }

    /// Saves the position. It is a single write, so a kill cannot leave half of it.
    pub fn save(&mut self) -> io::Result<()> {
        if self.place == self.saved {
            return Ok(());
        }
        let text =
            serde_json::to_string(&self.place).expect("a place has no keys that are not text");
        self.file.write_all_at(
            format!("{text:<width$}\n", width = LENGTH - 1).as_bytes(),
            0,
        )?;
        self.saved.clone_from(&self.place);
        Ok(())
    }

    /// Reads the records after this offset, which must be the end of a record.
    pub fn records(&self, offset: u64) -> io::Result<OutboxReader> {
        let mut file = open::to_read(&self.journal)?;
        file.seek(SeekFrom::Start(offset))?;
        Ok(OutboxReader {
            file,
            offset,
            last: None,
            chunk: vec![0; CHUNK].into_boxed_slice(),
            rest: BytesMut::new(),
        })
    }
}

/// A server's name, cut to the saved length.
fn short(server: &str) -> &str {
    &server[..server.floor_char_boundary(NAME)]
}

/// Reads unsent records while the session writes more.
#[derive(Debug)]
pub struct OutboxReader {
    file: File,
    /// Where the next record begins.
    offset: u64,
    last: Option<u64>,
    /// The read buffer. Returned records have their own memory.
    chunk: Box<[u8]>,
    /// Bytes that were read but not returned yet.
    rest: BytesMut,
}

impl OutboxReader {
    /// Returns None if there is no further record yet.
    pub fn read(&mut self) -> io::Result<Option<OutboxRecord>> {
        let mut searched = 0;
        loop {
            if let Some(newline) = self.rest[searched..].iter().position(|byte| *byte == b'\n') {
                return self.take(searched + newline + 1).map(Some);
            }
            searched = self.rest.len();
            let read = self.file.read(&mut self.chunk)?;
            if read == 0 {
                return Ok(None);
            }
            self.rest.extend_from_slice(&self.chunk[..read]);
        }
    }

    fn take(&mut self, length: usize) -> io::Result<OutboxRecord> {
        let mut line = self.rest.split_to(length).freeze();
        line.truncate(length - 1);
        self.offset += length as u64;
        let RecordHead { seq, kind } = serde_json::from_slice(&line)?;
        if let Some(last) = self.last.filter(|last| seq != last.saturating_add(1)) {
            let text = format!(
                "record {seq} follows record {last}: lines are missing, repeated or out of order"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        self.last = Some(seq);
        Ok(OutboxRecord {
            seq,
            kind,
            line,
            end: self.offset,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::journal::SessionsDir;

    fn folder(root: &std::path::Path) -> SessionDir {
        let folder = SessionsDir::of(root).folder("s");
        std::fs::create_dir_all(&folder.path).expect("a folder");
        folder
    }

    #[test]
    fn only_whole_records_are_sent_and_each_once_from_any_place_on() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = folder(root.path());
        let line = |seq: u64| {
            format!(
                "{{\"v\":1,\"seq\":{seq},\"kind\":\"warning\",\"text\":\"{}\"}}\n",
                "x".repeat(CHUNK / 3)
            )
        };
        let mut journal = File::create(folder.journal()).expect("a file");
        write!(journal, "{}{}{}", line(1), line(2), &line(3)[..20]).expect("space");
        let outbox = Outbox::open(&folder)
            .expect("a file")
            .expect("the lock is free");
        let mut records = outbox.records(0).expect("a file");
        let first = records.read().expect("a file").expect("a record");
        assert_eq!(
            (first.seq, first.kind.as_str(), first.end),
            (1, "warning", line(1).len() as u64)
        );
        assert_eq!(first.line, line(1).trim_end().as_bytes());
        assert_eq!(
            records.read().expect("a file").map(|record| record.seq),
            Some(2)
        );
        assert_eq!(records.read().expect("a file"), None);
        write!(journal, "{}{}", &line(3)[20..], line(4)).expect("space");
        let later: Vec<u64> = std::iter::from_fn(|| records.read().expect("a file"))
            .map(|record| record.seq)
            .collect();
        assert_eq!(later, [3, 4]);
        let mut again = outbox.records(first.end).expect("a file");
        assert_eq!(
            again.read().expect("a file").map(|record| record.seq),
            Some(2)
        );
    }

    #[test]
    fn a_journal_that_is_out_of_order_is_not_sent_past_the_gap() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = folder(root.path());
        let line =
            |seq: u64| format!("{{\"v\":1,\"seq\":{seq},\"kind\":\"warning\",\"text\":\"x\"}}\n");
        std::fs::write(folder.journal(), [line(1), line(2), line(4)].concat()).expect("space");
        let outbox = Outbox::open(&folder)
            .expect("a file")
            .expect("the lock is free");
        let mut records = outbox.records(0).expect("a file");
        assert_eq!(
            records.read().expect("a file").map(|record| record.seq),
            Some(1)
        );
        assert_eq!(
            records.read().expect("a file").map(|record| record.seq),
            Some(2)
        );
        assert_eq!(
            records.read().expect_err("a gap").kind(),
            io::ErrorKind::InvalidData
        );
    }

    #[test]
    fn the_place_is_kept_and_there_is_one_sender() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = folder(root.path());
        let server = short(&"ü".repeat(NAME)).to_owned();
        let store = "2026-11-15T09:30:00Z".into();
        let long = OutboxPosition {
            server,
            store,
            seq: 70_000,
            offset: 1 << 40,
            at: 9,
            names: RecordNaming::WithId,
        };
        let short = OutboxPosition {
            seq: 7,
            ..OutboxPosition::default()
        };
        {
            let mut outbox = Outbox::open(&folder)
                .expect("a file")
                .expect("the lock is free");
            assert_eq!(*outbox.place(), OutboxPosition::default());
            assert!(Outbox::open(&folder).expect("a file").is_none());
            for place in [&long, &short] {
                outbox.place_mut().clone_from(place);
                outbox.save().expect("space");
            }
            outbox.place_mut().seq = 8;
        }
        assert_eq!(
            *Outbox::open(&folder)
                .expect("a file")
                .expect("it is free again")
                .place(),
            short
        );
        std::fs::write(folder.outbox_file(), "{\"seq\":").expect("space");
        assert_eq!(
            *Outbox::open(&folder)
                .expect("a file")
                .expect("it is free")
                .place(),
            OutboxPosition::default()
        );
    }

    #[test]
    fn it_is_meant_for_one_server() {
        let root = tempfile::tempdir().expect("a folder");
        let mut outbox = Outbox::open(&folder(root.path()))
            .expect("a file")
            .expect("the lock is free");
        outbox.address("a").expect("space");
        outbox.place_mut().seq = 7;
        let place = outbox.place().clone();
        outbox.address("a").expect("space");
        assert!(outbox.is_for("a") && *outbox.place() == place);
        outbox.address("b").expect("space");
        assert!(outbox.is_for("b") && !outbox.is_for("a") && outbox.place().seq == 7);
    }
}
