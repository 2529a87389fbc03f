//! The records of a journal as it grows, read from its file; and the state of a session that
//! another process runs, kept current by them.
//!
//! Owns reading whole lines from an offset. Each reader of a session reads at its own speed and has
//! only its current chunk in memory: the rest is on disk.
//!
//! # Invariants
//! - Every record is read once, whole, and in order.
//! - A deleted journal stays readable: the file exists as long as a process has it open.

use std::{fs::File, io, os::unix::fs::FileExt as _, path::Path};

use crate::{
    engine::{
        SessionState,
        event::{Event, SessionEvent},
        time::UnixTime,
    },
    journal::{JournalError, Record, fold, open, snapshot},
};

/// Bytes per read.
const CHUNK: usize = 64 << 10;

/// Where a record is in its journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordSpan {
    pub offset: u64,
    /// With the newline.
    pub length: u64,
}

/// Reads a journal from an offset, including records that are written later.
#[derive(Debug)]
pub struct RecordTail {
    file: File,
    /// Where in the file `held` begins.
    offset: u64,
    /// Bytes that were read; the first `taken` of them were returned already.
    held: Vec<u8>,
    taken: usize,
}

impl RecordTail {
    pub(super) const fn new(file: File, offset: u64) -> Self {
        Self {
            file,
            offset,
            held: Vec::new(),
            taken: 0,
        }
    }

    /// Opens a journal at its beginning.
    pub fn open(journal: &Path) -> io::Result<Self> {
        Ok(Self::new(File::open(journal)?, 0))
    }

    /// The next line with its newline, or None if there is no further line yet.
    pub fn next_line(&mut self) -> io::Result<Option<&str>> {
        let mut looked_at = self.taken;
        let end = loop {
            if let Some(newline) = self.held[looked_at..]
                .iter()
                .position(|byte| *byte == b'\n')
            {
                break looked_at + newline + 1;
            }
            looked_at = self.held.len() - self.taken;
            if self.read_more()? == 0 {
                return Ok(None);
            }
        };
        let start = std::mem::replace(&mut self.taken, end);
        str::from_utf8(&self.held[start..end])
            .map(Some)
            .map_err(invalid)
    }

    /// The next record, or None if there is none yet. Skips a line that is not a record: creel did
    /// not write it.
    pub fn next_record(&mut self) -> io::Result<Option<Record>> {
        while let Some(line) = self.next_line()? {
            match Record::from_line(line) {
                Ok(record) => return Ok(Some(record)),
                Err(error) => tracing::warn!("a line of the journal is not a record: {error}"),
            }
        }
        Ok(None)
    }

    /// The next record and where it is, or None if there is none yet. A line that is not a record is
    /// an error.
    pub fn next_placed(&mut self) -> io::Result<Option<(RecordSpan, Record)>> {
        let Some(line) = self.next_line()? else {
            return Ok(None);
        };
        let (record, length) = (Record::from_line(line).map_err(invalid)?, line.len() as u64);
        let offset = self.offset + self.taken as u64 - length;
        Ok(Some((RecordSpan { offset, length }, record)))
    }

    /// Reads a record again, so that its text need not stay in memory.
    pub fn again(&self, span: RecordSpan) -> io::Result<Record> {
        let mut line = vec![0; usize::try_from(span.length).unwrap_or(0)];
        self.file.read_exact_at(&mut line, span.offset)?;
        Record::from_line(str::from_utf8(&line).map_err(invalid)?).map_err(invalid)
    }

    /// Appends another chunk to the bytes that were not returned yet.
    fn read_more(&mut self) -> io::Result<usize> {
        self.held.drain(..self.taken);
        self.offset += self.taken as u64;
        self.taken = 0;
        let start = self.held.len();
        self.held.resize(start + CHUNK, 0);
        let read = self
            .file
            .read_at(&mut self.held[start..], self.offset + start as u64);
        self.held.truncate(start + *read.as_ref().unwrap_or(&0));
        if !matches!(read, Ok(0)) {
            return read;
        }
        let length = self.file.metadata()?.len();
        if length < self.offset + start as u64 {
            // creel cut a torn last line. If more is gone, another program truncated the file, and
            // creel's next records begin at its start.
            self.held.clear();
            if length < self.offset {
                self.offset = 0;
            }
            return self.read_more();
        }
        read
    }
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// A session's state and the place in its journal up to which it was read.
#[derive(Debug)]
pub struct JournalFollower {
    state: Box<SessionState>,
    tail: RecordTail,
}

impl JournalFollower {
    /// Reads a journal, from its snapshot if there is one. `each` sees every record that is read.
    pub fn open(path: &Path, mut each: impl FnMut(UnixTime, &Event)) -> Result<Self, JournalError> {
        let io = fold::unreadable(path);
        let file = open::to_read(path).map_err(&io)?;
        let restored = snapshot::restore(path, &file);
        let (mut state, offset) = restored.map_or((None, 0), |restored| {
            (Some(restored.state), restored.mark.position.offset)
        });
        let mut tail = RecordTail::new(file, offset);
        while state.is_none() {
            let Some(record) = tail.next_record().map_err(&io)? else {
                break;
            };
            each(record.at, &record.event);
            if let Event::Session(SessionEvent::Started(began)) = record.event {
                state = Some(Box::new(SessionState::new(
                    &record.session,
                    *began,
                    record.at,
                )));
            }
        }
        let state = state.ok_or_else(|| JournalError::NotASession(path.to_owned()))?;
        let mut session = Self { state, tail };
        session.catch_up(each).map_err(io)?;
        Ok(session)
    }

    /// Applies the records that were written since. Returns whether there were any.
    pub fn catch_up(&mut self, mut each: impl FnMut(UnixTime, &Event)) -> io::Result<bool> {
        let mut has_changed = false;
        while let Some(record) = self.tail.next_record()? {
            each(record.at, &record.event);
            self.state.apply(record.at, &record.event);
            has_changed = true;
        }
        Ok(has_changed)
    }

    pub fn state(&self) -> &SessionState {
        &self.state
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn lines(tail: &mut RecordTail) -> Vec<String> {
        std::iter::from_fn(|| tail.next_line().expect("a file").map(str::to_owned)).collect()
    }

    #[test]
    fn whole_lines_are_read_once_and_in_order_however_long_they_are() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        let line = |n: usize| format!("{n}{}\n", "é".repeat(CHUNK * n / 3));
        write!(file, "skipped\n{}{}{}", line(0), line(1), &line(7)[..99]).expect("space");
        let mut tail = RecordTail::new(file.reopen().expect("a file"), "skipped\n".len() as u64);
        assert_eq!(lines(&mut tail), [line(0), line(1)]);
        assert!(lines(&mut tail).is_empty());
        write!(file, "{}{}", &line(7)[99..], line(2)).expect("space");
        assert_eq!(lines(&mut tail), [line(7), line(2)]);
        assert!(
            tail.held.capacity() < 8 * line(7).len(),
            "what was read is not kept"
        );
    }

    #[test]
    fn a_torn_line_that_is_cut_repeats_nothing() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        write!(file, "one\ntwo\ntor").expect("space");
        let mut tail = RecordTail::open(file.path()).expect("a file");
        assert_eq!(lines(&mut tail), ["one\n", "two\n"]);
        file.as_file().set_len(8).expect("a file");
        assert!(lines(&mut tail).is_empty());
        let mut after = File::options()
            .append(true)
            .open(file.path())
            .expect("a file");
        writeln!(after, "three").expect("space");
        assert_eq!(lines(&mut tail), ["three\n"]);
        file.as_file().set_len(0).expect("a file");
        writeln!(after, "four").expect("space");
        assert_eq!(lines(&mut tail), ["four\n"]);
    }
}
