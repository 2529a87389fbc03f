//! Splits chunks into whole lines.
//!
//! # Invariants
//! - At most [`LINE_MAX`] of a line is stored. For a longer line, only its beginning and its length
//!   are returned.

/// The longest line in bytes. A line can contain whole files and pictures.
const LINE_MAX: usize = 8 * 1024 * 1024;
/// Bytes of a longer line that are returned.
const BEGINNING: usize = 80;

#[derive(Debug, Default)]
pub(super) struct LineSplitter {
    held: Vec<u8>,
    /// The length of the current line, including bytes that were not stored.
    length: usize,
}

/// Without its newline.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SplitLine<'a> {
    Whole(&'a [u8]),
    TooLong { beginning: &'a [u8], length: usize },
}

impl LineSplitter {
    /// Calls `each` for every line that ends in this chunk.
    pub(super) fn push(&mut self, piece: &[u8], mut each: impl FnMut(SplitLine<'_>)) {
        let mut parts = piece.split(|byte| *byte == b'\n');
        let last = parts.next_back().unwrap_or_default();
        for part in parts {
            if self.length == 0 && part.len() <= LINE_MAX {
                each(SplitLine::Whole(part));
            } else {
                self.hold(part);
                each(self.line());
                self.held.clear();
                self.length = 0;
            }
        }
        self.hold(last);
    }

    /// The text after the last newline, if any.
    pub(super) fn rest(&self) -> Option<SplitLine<'_>> {
        (self.length > 0).then(|| self.line())
    }

    fn hold(&mut self, bytes: &[u8]) {
        self.length += bytes.len();
        if self.length <= LINE_MAX {
            self.held.extend_from_slice(bytes);
        } else {
            let room = BEGINNING.saturating_sub(self.held.len()).min(bytes.len());
            self.held.extend_from_slice(&bytes[..room]);
            self.held.truncate(BEGINNING);
            self.held.shrink_to_fit();
        }
    }

    fn line(&self) -> SplitLine<'_> {
        if self.length <= LINE_MAX {
            SplitLine::Whole(&self.held)
        } else {
            SplitLine::TooLong {
                beginning: &self.held,
                length: self.length,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pieces: &[&[u8]]) -> Vec<String> {
        let mut lines = LineSplitter::default();
        let mut seen = Vec::new();
        let show = |line: SplitLine<'_>| match line {
            SplitLine::Whole(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            SplitLine::TooLong { beginning, length } => format!("{} of {length}", beginning.len()),
        };
        for piece in pieces {
            lines.push(piece, |line| seen.push(show(line)));
        }
        seen.extend(lines.rest().map(|line| format!("rest {}", show(line))));
        seen
    }

    #[test]
    fn lines_are_whole_however_they_come() {
        assert_eq!(lines(&[b"one\ntwo\n"]), ["one", "two"]);
        assert_eq!(
            lines(&[b"o", b"ne", b"\n\nt", b"wo"]),
            ["one", "", "rest two"]
        );
        assert_eq!(
            lines(&[
                "€".as_bytes().split_at(1).0,
                "€".as_bytes().split_at(1).1,
                b"\n"
            ]),
            ["€"]
        );
        assert_eq!(lines(&[b""]), [""; 0]);
    }

    #[test]
    fn of_a_line_that_is_too_long_the_beginning_is_told() {
        let half = vec![b'x'; LINE_MAX / 2 + 1];
        assert_eq!(
            lines(&[b"a\n", &half, &half, b"\nb\n"]),
            ["a", "80 of 8388610", "b"]
        );
        assert_eq!(
            lines(&[&[half.as_slice(), &half, b"\nb\n"].concat()]),
            ["80 of 8388610", "b"]
        );
        assert_eq!(
            lines(&[b"12", &vec![b'x'; LINE_MAX]]),
            ["rest 80 of 8388610"]
        );
    }
}
