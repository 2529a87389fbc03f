//! Reads a session's records from its journal: new ones as they are written, and old ones again on
//! request.
//!
//! The screen reads only the file, whichever process writes it. So running, resumed, attached and
//! past sessions look the same, and text that is scrolled out of view need not stay in memory.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
    os::unix::fs::FileExt as _,
    path::Path,
};

use crate::journal::Record;

/// How much is read at a time, so that a long journal does not block the screen.
const CHUNK: u64 = 1 << 20;
/// How much memory stays reserved between two reads.
const KEPT: usize = 1 << 14;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordSpan {
    pub offset: u64,
    /// With the newline.
    pub length: u64,
}

#[derive(Debug)]
pub struct JournalFeed {
    file: File,
    /// Where the next record begins.
    offset: u64,
    /// Bytes that do not form a complete line yet.
    rest: Vec<u8>,
}

#[derive(Debug, Default)]
pub struct RecordBatch {
    pub records: Vec<(RecordSpan, Record)>,
    /// Whether the file has more right now.
    pub more: bool,
}

impl JournalFeed {
    /// Opens a journal at its beginning.
    pub fn open(journal: &Path) -> io::Result<Self> {
        Ok(Self {
            file: File::open(journal)?,
            offset: 0,
            rest: Vec::new(),
        })
    }

    pub fn read(&mut self) -> io::Result<RecordBatch> {
        self.file
            .seek(SeekFrom::Start(self.offset + self.rest.len() as u64))?;
        let read = (&mut self.file).take(CHUNK).read_to_end(&mut self.rest)?;
        let records = self.take_lines()?;
        self.rest.shrink_to(KEPT);
        Ok(RecordBatch {
            records,
            more: read as u64 == CHUNK,
        })
    }

    fn take_lines(&mut self) -> io::Result<Vec<(RecordSpan, Record)>> {
        let mut records = Vec::new();
        let mut taken = 0;
        while let Some(newline) = self.rest[taken..].iter().position(|byte| *byte == b'\n') {
            let line = &self.rest[taken..=taken + newline];
            let spot = RecordSpan {
                offset: self.offset + taken as u64,
                length: line.len() as u64,
            };
            records.push((spot, parse(line)?));
            taken += line.len();
        }
        self.rest.drain(..taken);
        self.offset += taken as u64;
        Ok(records)
    }

    /// Reads a record again.
    pub fn again(&self, spot: RecordSpan) -> io::Result<Record> {
        let mut line = vec![0; usize::try_from(spot.length).unwrap_or(0)];
        self.file.read_exact_at(&mut line, spot.offset)?;
        parse(&line)
    }
}

fn parse(line: &[u8]) -> io::Result<Record> {
    let text =
        str::from_utf8(line).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    Record::from_line(text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}
