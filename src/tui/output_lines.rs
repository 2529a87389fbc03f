//! The lines of an output file that may still grow, by number.
//!
//! # Invariants
//! - Memory is bounded: an offset for every [`STRIDE`] lines, and a few blocks of text. A line is
//!   cut at [`LONGEST`].
//! - A line that was read is never shown in an older form than the file has: growing forgets the
//!   last block.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom},
    path::PathBuf,
};

/// How many lines one remembered offset stands for.
const STRIDE: usize = 256;
/// In bytes. The rest of a longer line is left out.
const LONGEST: u64 = 16 << 10;
/// How many blocks of text are kept.
const BLOCKS: usize = 4;
const CHUNK: usize = 64 << 10;

#[derive(Debug)]
pub struct OutputLines {
    path: PathBuf,
    /// None until the file exists.
    file: Option<File>,
    /// Where each block begins.
    blocks: Vec<u64>,
    scanned: u64,
    /// How many lines have ended.
    ended: usize,
    /// Whether the last line has no end yet.
    unfinished: bool,
    cache: VecDeque<(usize, Vec<String>)>,
}

impl OutputLines {
    pub fn new(path: PathBuf) -> Self {
        let (blocks, cache) = (vec![0], VecDeque::new());
        let mut lines = Self {
            path,
            file: None,
            blocks,
            scanned: 0,
            ended: 0,
            unfinished: false,
            cache,
        };
        lines.refresh();
        lines
    }

    pub fn len(&self) -> usize {
        self.ended + usize::from(self.unfinished)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// In bytes.
    pub fn size(&self) -> u64 {
        self.scanned
    }

    /// Looks at what was written since. What cannot be read now is read the next time.
    pub fn refresh(&mut self) {
        if self.file.is_none() {
            self.file = File::open(&self.path).ok();
        }
        let before = self.scanned;
        if let Err(error) = self.scan() {
            tracing::debug!("cannot read {}: {error}", self.path.display());
        }
        if self.scanned != before {
            let last = self.ended / STRIDE;
            self.cache
                .retain(|(block, lines)| *block < last && lines.len() == STRIDE);
        }
    }

    fn scan(&mut self) -> io::Result<()> {
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        if file.metadata()?.len() <= self.scanned {
            return Ok(());
        }
        file.seek(SeekFrom::Start(self.scanned))?;
        let mut chunk = vec![0; CHUNK];
        loop {
            let read = file.read(&mut chunk)?;
            if read == 0 {
                return Ok(());
            }
            for (at, _) in chunk[..read]
                .iter()
                .enumerate()
                .filter(|(_, byte)| **byte == b'\n')
            {
                self.ended += 1;
                if self.ended.is_multiple_of(STRIDE) {
                    self.blocks.push(self.scanned + at as u64 + 1);
                }
            }
            self.unfinished = chunk[read - 1] != b'\n';
            self.scanned += read as u64;
        }
    }

    /// A line as it was printed, with its escape sequences. Empty beyond the end.
    pub fn line(&mut self, n: usize) -> String {
        let block = n / STRIDE;
        if !self.cache.iter().any(|(known, _)| *known == block) {
            let lines = self.read_block(block).unwrap_or_default();
            if self.cache.len() >= BLOCKS {
                self.cache.pop_front();
            }
            self.cache.push_back((block, lines));
        }
        let found = self.cache.iter().find(|(known, _)| *known == block);
        found
            .and_then(|(_, lines)| lines.get(n % STRIDE))
            .cloned()
            .unwrap_or_default()
    }

    fn read_block(&mut self, block: usize) -> io::Result<Vec<String>> {
        let (Some(file), Some(from)) = (&mut self.file, self.blocks.get(block)) else {
            return Ok(Vec::new());
        };
        file.seek(SeekFrom::Start(*from))?;
        let mut reader = BufReader::with_capacity(CHUNK, file.take(self.scanned - from));
        let mut lines = Vec::new();
        while lines.len() < STRIDE {
            let mut bytes = Vec::new();
            if reader
                .by_ref()
                .take(LONGEST)
                .read_until(b'\n', &mut bytes)?
                == 0
            {
                break;
            }
            if bytes.last() == Some(&b'\n') {
                bytes.pop();
            } else if bytes.len() as u64 == LONGEST {
                reader.skip_until(b'\n')?;
                bytes.extend_from_slice("…".as_bytes());
            }
            lines.push(String::from_utf8_lossy(&bytes).into_owned());
        }
        Ok(lines)
    }

    /// The first bytes of the file, as text.
    pub fn beginning(&mut self, most: u64) -> String {
        let mut bytes = Vec::new();
        if let Some(file) = &mut self.file
            && file.seek(SeekFrom::Start(0)).is_ok()
            && let Err(error) = file.take(most).read_to_end(&mut bytes)
        {
            tracing::debug!("cannot read {}: {error}", self.path.display());
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_growing_file_is_read_line_by_line_from_its_first_one() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("run-1.log");
        let mut lines = OutputLines::new(path.clone());
        assert!(lines.is_empty());
        let mut file = File::create(&path).expect("a file");
        for n in 0..100_000 {
            writeln!(file, "line {n}").expect("written");
        }
        write!(file, "op").expect("written");
        lines.refresh();
        assert_eq!(lines.len(), 100_001);
        let found = [0, 255, 256, 99_999, 100_000, 100_001].map(|n| lines.line(n));
        assert_eq!(
            found,
            ["line 0", "line 255", "line 256", "line 99999", "op", ""]
        );
        writeln!(file, "en\nlast").expect("written");
        lines.refresh();
        assert_eq!(
            (lines.len(), lines.line(100_000), lines.line(100_001)),
            (100_002, "open".into(), "last".into())
        );
        assert!(lines.blocks.len() < 400 && lines.cache.len() <= BLOCKS);
    }

    #[test]
    fn a_very_long_line_is_cut_and_the_next_one_is_whole() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("run-1.log");
        std::fs::write(&path, format!("{}\nnext\n", "x".repeat(1 << 20))).expect("a file");
        let mut lines = OutputLines::new(path);
        assert_eq!(lines.len(), 2);
        assert!(lines.line(0).ends_with("x…") && lines.line(0).len() < 20_000);
        assert_eq!(lines.line(1), "next");
        assert_eq!(lines.beginning(3), "xxx");
    }
}
