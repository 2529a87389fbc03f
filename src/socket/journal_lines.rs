//! Reads the end of a journal as it grows, for a client that watches.
//!
//! Each watcher reads the file at its own pace, so a slow one needs no memory here and delays no
//! other.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
};

use serde::Deserialize;

/// How many bytes to read at a time.
const CHUNK: usize = 128 << 10;

/// Reads whole lines, from the record with that number on.
pub(super) struct JournalLineReader {
    file: File,
    from: u64,
    /// Whether the first wanted record was found.
    found: bool,
    /// The beginning of a line whose end has not been read yet.
    rest: Vec<u8>,
}

#[derive(Deserialize)]
struct NumberedLine {
    seq: u64,
}

impl JournalLineReader {
    pub(super) fn open(journal: &Path, from: u64) -> io::Result<Self> {
        Ok(Self {
            file: File::open(journal)?,
            from,
            found: from <= 1,
            rest: Vec::new(),
        })
    }

    /// The next wanted lines, which can be empty. `None` if there is no more for now.
    pub(super) fn read(&mut self) -> io::Result<Option<Vec<u8>>> {
        let start = self.rest.len();
        self.rest.resize(start + CHUNK, 0);
        let read = self.file.read(&mut self.rest[start..]);
        self.rest.truncate(start + *read.as_ref().unwrap_or(&0));
        if read? == 0 {
            return Ok(None);
        }
        let Some(newline) = self.rest.iter().rposition(|byte| *byte == b'\n') else {
            return Ok(Some(Vec::new()));
        };
        let rest = self.rest.split_off(newline + 1);
        let lines = std::mem::replace(&mut self.rest, rest);
        Ok(Some(self.wanted(lines)))
    }

    fn wanted(&mut self, mut lines: Vec<u8>) -> Vec<u8> {
        let mut skipped = 0;
        while !self.found && skipped < lines.len() {
            let line = lines[skipped..]
                .split_inclusive(|byte| *byte == b'\n')
                .next()
                .unwrap_or_default();
            // A line that is not a record is skipped.
            let seq = serde_json::from_slice(line).map_or(0, |NumberedLine { seq }| seq);
            self.found = seq >= self.from;
            skipped += if self.found { 0 } else { line.len() };
        }
        lines.drain(..skipped);
        lines
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn all(tail: &mut JournalLineReader) -> String {
        let mut lines = Vec::new();
        while let Some(more) = tail.read().expect("a file") {
            lines.extend(more);
        }
        String::from_utf8(lines).expect("text")
    }

    #[test]
    fn only_whole_lines_from_the_number_on_and_each_once() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        let line = |seq: u64| {
            format!(
                "{{\"v\":1,\"seq\":{seq},\"text\":\"{}\"}}\n",
                "x".repeat(CHUNK / 3)
            )
        };
        write!(file, "{}{}{}{}", line(1), line(2), line(3), &line(4)[..20]).expect("space");
        let mut tail = JournalLineReader::open(file.path(), 2).expect("a file");
        assert_eq!(all(&mut tail), line(2) + &line(3));
        write!(file, "{}{}", &line(4)[20..], line(5)).expect("space");
        assert_eq!(all(&mut tail), line(4) + &line(5));
        assert_eq!(
            all(&mut JournalLineReader::open(file.path(), 6).expect("a file")),
            ""
        );
        assert_eq!(
            all(&mut JournalLineReader::open(file.path(), 0).expect("a file"))
                .lines()
                .count(),
            5
        );
    }
}
