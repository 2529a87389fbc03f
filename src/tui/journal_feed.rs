//! The records of a session as its journal tells them: read as they are written, and again when they are wanted.
//!
//! The screen reads the file, whoever writes it. So running, resumed, attached and past sessions look the same, and text
//! that was scrolled out of sight need not be kept in memory.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
    os::unix::fs::FileExt as _,
    path::Path,
};

use crate::journal::Record;

/// How much is read at a time, so that a long journal does not hold the screen.
const CHUNK: usize = 1 << 20;

/// Where a record lies in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordSpan {
    /// Its first byte.
    pub offset: u64,
    /// Its length, newline included.
    pub length: u64,
}

/// A journal that is read.
#[derive(Debug)]
pub struct JournalFeed {
    file: File,
    /// Where the next record begins.
    offset: u64,
    /// What was read and is not a whole line yet.
    rest: Vec<u8>,
}

/// What a read has brought.
#[derive(Debug, Default)]
pub struct RecordBatch {
    /// The records, with their places.
    pub records: Vec<(RecordSpan, Record)>,
    /// Whether there is more to read right now.
    pub more: bool,
}

impl JournalFeed {
    /// The feed of a journal, from its beginning.
    pub fn open(journal: &Path) -> io::Result<Self> {
        Ok(Self { file: File::open(journal)?, offset: 0, rest: Vec::new() })
    }

    /// The next records, if there are any.
    pub fn read(&mut self) -> io::Result<RecordBatch> {
        let start = self.rest.len();
        self.rest.resize(start + CHUNK, 0);
        self.file.seek(SeekFrom::Start(self.offset + start as u64))?;
        let mut filled = start;
        while filled < self.rest.len() {
            match self.file.read(&mut self.rest[filled..])? {
                0 => break,
                n => filled += n,
            }
        }
        let more = filled == self.rest.len();
        self.rest.truncate(filled);
        Ok(RecordBatch { records: self.take_lines()?, more })
    }

    fn take_lines(&mut self) -> io::Result<Vec<(RecordSpan, Record)>> {
        let mut records = Vec::new();
        let mut taken = 0;
        while let Some(newline) = self.rest[taken..].iter().position(|byte| *byte == b'\n') {
            let line = &self.rest[taken..=taken + newline];
            let spot = RecordSpan { offset: self.offset + taken as u64, length: line.len() as u64 };
            records.push((spot, parse(line)?));
            taken += line.len();
        }
        self.rest.drain(..taken);
        self.offset += taken as u64;
        Ok(records)
    }

    /// A record that was read before.
    pub fn again(&self, spot: RecordSpan) -> io::Result<Record> {
        let mut line = vec![0; usize::try_from(spot.length).unwrap_or(0)];
        self.file.read_exact_at(&mut line, spot.offset)?;
        parse(&line)
    }
}

fn parse(line: &[u8]) -> io::Result<Record> {
    let text = str::from_utf8(line).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    Record::from_line(text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}
