//! Captures a command's output: all of it in a file, the beginning and the end in memory.
//!
//! Owns the limits and the truncation. Does not read from processes: see [`super::run`].
//!
//! # Invariants
//! - The limit bounds the memory, however much and however fast the command prints.
//! - Both texts together are at most as long as the limit. The line that reports omitted bytes
//!   counts too, unless the limit is below 512 bytes, which would leave no room.
//! - A file that cannot be written never fails the run. The failure is remembered and reported.

use std::{
    collections::VecDeque,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use memchr::memchr_iter;
use rustix::fs::OFlags;

use crate::process::{reply_scan::ReplyScan, run::OutputStream};

/// Bytes of a run's output that are written to its file.
pub const FILE_CAP: u64 = 64 * 1024 * 1024;
/// Bytes of standard output that are saved to parse a JSON reply, whatever the limit is.
pub const ANSWER: usize = 1024 * 1024;
/// Below this limit, the marker line between head and tail does not count.
const COUNT_MARKER_FROM: usize = 512;

#[derive(Debug)]
pub struct OutputCapture {
    limit: usize,
    stdout: HeadTailBuffer,
    stderr: HeadTailBuffer,
    answer: Vec<u8>,
    scan: ReplyScan,
    spool: Option<SpoolFile>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapturedOutput {
    /// Lossy UTF-8, cut to the limit.
    pub stdout: String,
    /// Lossy UTF-8, cut to the limit.
    pub stderr: String,
    /// Bytes of both streams that are in neither text.
    pub omitted_bytes: u64,
    /// Standard output, to parse a reply from.
    pub answer: ReplyText,
    pub file_written: bool,
    /// Why the file is incomplete, if it is.
    pub file_note: Option<String>,
}

/// Standard output, to parse a reply from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplyText {
    Whole(String),
    /// Longer than any reply.
    TooLong {
        beginning: String,
        /// Whether it is a JSON object with a key of a reply.
        is_reply: bool,
    },
}

impl ReplyText {
    pub fn whole(self) -> Option<String> {
        match self {
            Self::Whole(text) => Some(text),
            Self::TooLong { .. } => None,
        }
    }
}

impl OutputCapture {
    /// Returns at most `limit` bytes of text. `file` is a path and its display name: the output
    /// goes there, up to `file_cap` bytes.
    pub fn new(limit: usize, file: Option<(PathBuf, String)>, file_cap: u64) -> Self {
        Self {
            limit,
            stdout: HeadTailBuffer::new(limit),
            stderr: HeadTailBuffer::new(limit),
            answer: Vec::new(),
            scan: ReplyScan::default(),
            spool: file.map(|(path, name)| SpoolFile::new(path, name, file_cap)),
        }
    }

    pub fn push(&mut self, stream: OutputStream, bytes: &[u8]) {
        if let Some(spool) = &mut self.spool {
            spool.write(bytes);
        }
        match stream {
            OutputStream::Stdout => {
                let room = ANSWER.saturating_sub(self.answer.len()).min(bytes.len());
                self.answer.extend_from_slice(&bytes[..room]);
                self.scan.push(bytes);
                self.stdout.push(bytes);
            }
            OutputStream::Stderr => self.stderr.push(bytes),
        }
    }

    pub fn finish(self) -> CapturedOutput {
        let whole = self.spool.as_ref().and_then(SpoolFile::whole_is_in);
        let (for_stdout, for_stderr) = shares(self.limit, self.stdout.wants(), self.stderr.wants());
        let count_marker = self.limit >= COUNT_MARKER_FROM;
        let is_whole = self.stdout.total == self.answer.len() as u64;
        let answer = lossy(&self.answer);
        let answer = if is_whole {
            ReplyText::Whole(answer)
        } else {
            ReplyText::TooLong {
                beginning: answer,
                is_reply: self.scan.is_reply(),
            }
        };
        let (stdout, missing_stdout) = self.stdout.cut(for_stdout, count_marker, whole.as_deref());
        let (stderr, missing_stderr) = self.stderr.cut(for_stderr, count_marker, whole.as_deref());
        CapturedOutput {
            stdout,
            stderr,
            omitted_bytes: missing_stdout + missing_stderr,
            answer,
            file_written: self.spool.as_ref().is_some_and(|s| s.written > 0),
            file_note: self.spool.and_then(|s| s.note),
        }
    }
}

/// The path of a file for a command that runs in a folder: relative if the file is inside it.
pub fn path_from(folder: &Path, file: &Path) -> String {
    file.strip_prefix(folder)
        .unwrap_or(file)
        .display()
        .to_string()
}

/// Cuts a text of a reply to the limit, like printed output.
pub fn limited(text: String, limit: usize, whole: Option<&str>) -> String {
    if text.len() <= limit {
        return text;
    }
    let mut kept = HeadTailBuffer::new(limit);
    kept.push(text.as_bytes());
    kept.cut(limit, limit >= COUNT_MARKER_FROM, whole).0
}

/// Splits the limit: both get all they need if it is enough, otherwise the smaller one gets up to
/// half.
fn shares(limit: usize, stdout: usize, stderr: usize) -> (usize, usize) {
    if stdout.saturating_add(stderr) <= limit {
        return (stdout, stderr);
    }
    let smaller = stdout.min(stderr).min(limit / 2);
    if stdout <= stderr {
        (smaller, limit - smaller)
    } else {
        (limit - smaller, smaller)
    }
}

/// The line in place of the omitted bytes. `lines` is how many whole lines they had; 0 is not
/// mentioned.
pub fn marker(missing: u64, lines: u64, whole: Option<&str>) -> String {
    let counted =
        |count: u64, unit: &str| format!("{count} {unit}{}", if count == 1 { "" } else { "s" });
    let lines = if lines == 0 {
        String::new()
    } else {
        format!("{}, ", counted(lines, "line"))
    };
    let bytes = counted(missing, "byte");
    match whole {
        Some(whole) => format!("[… {lines}{bytes} left out; {whole} …]\n"),
        None => format!("[… {lines}{bytes} left out …]\n"),
    }
}

#[derive(Debug)]
struct HeadTailBuffer {
    head: Vec<u8>,
    head_cap: usize,
    tail: TailBuffer,
    total: u64,
    /// How many lines have ended.
    line_ends: u64,
    /// Whether the last line has no end yet.
    is_unfinished: bool,
}

impl HeadTailBuffer {
    fn new(limit: usize) -> Self {
        let head_cap = limit / 4;
        Self {
            head: Vec::new(),
            head_cap,
            tail: TailBuffer::new(limit - head_cap),
            total: 0,
            line_ends: 0,
            is_unfinished: false,
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        self.line_ends += memchr_iter(b'\n', bytes).count() as u64;
        self.is_unfinished = bytes
            .last()
            .map_or(self.is_unfinished, |last| *last != b'\n');
        let room = (self.head_cap - self.head.len()).min(bytes.len());
        let (head, tail) = bytes.split_at(room);
        self.head.extend_from_slice(head);
        self.tail.push(tail);
    }

    fn kept(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    fn is_whole(&self) -> bool {
        self.kept() as u64 == self.total
    }

    /// Bytes of text if nothing is omitted.
    fn wants(&self) -> usize {
        if !self.is_whole() {
            return usize::MAX;
        }
        let len = lossy_len(&self.head) + lossy_len(&self.tail.bytes());
        // A character across the boundary counts as two invalid ones. The exact length needs the
        // joined text.
        if len > self.kept() {
            lossy_len(&[self.head.as_slice(), &self.tail.bytes()].concat())
        } else {
            len
        }
    }

    /// The text cut to `share` bytes, and how many bytes it omits.
    fn cut(self, share: usize, count_marker: bool, whole: Option<&str>) -> (String, u64) {
        let is_whole = self.is_whole();
        let tail = self.tail.bytes();
        let all = if is_whole {
            [self.head.as_slice(), &tail].concat()
        } else {
            Vec::new()
        };
        if is_whole && lossy_len(&all) <= share {
            return (lossy(&all), 0);
        }
        let (head, tail) = if is_whole {
            (all.as_slice(), all.as_slice())
        } else {
            (
                &self.head[..self.head.len() - torn_end(&self.head)],
                &tail[torn_start(&tail)..],
            )
        };
        // Plus one for the line break before the marker.
        let lines = self.line_ends + u64::from(self.is_unfinished);
        let reserve = if count_marker {
            marker(self.total, lines, whole).len() + 1
        } else {
            0
        };
        let room = share.saturating_sub(reserve);
        let (mut text, shown_head) = prefix(head, room / 4);
        let (end, shown_tail) = suffix(tail, room - room / 4);
        let missing = self.total.saturating_sub((shown_head + shown_tail) as u64);
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        // A line of which a part is shown counts as shown.
        let shown_lines = (text.lines().count() + end.lines().count()) as u64;
        text.push_str(&marker(missing, lines.saturating_sub(shown_lines), whole));
        text.push_str(&end);
        (text, missing)
    }
}

#[derive(Debug)]
pub struct TailBuffer {
    bytes: VecDeque<u8>,
    cap: usize,
}

impl TailBuffer {
    pub fn new(cap: usize) -> Self {
        Self {
            bytes: VecDeque::new(),
            cap,
        }
    }

    /// Appends bytes and drops the oldest ones beyond the capacity. Moves slices, never single
    /// bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        let new = &bytes[bytes.len().saturating_sub(self.cap)..];
        let too_many = (self.bytes.len() + new.len()).saturating_sub(self.cap);
        self.bytes.drain(..too_many);
        self.bytes.extend(new);
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn bytes(&self) -> Vec<u8> {
        let (front, back) = self.bytes.as_slices();
        [front, back].concat()
    }
}

/// A file that is created on the first write. Errors do not fail the run.
#[derive(Debug)]
pub struct SpoolFile {
    path: PathBuf,
    name: String,
    cap: u64,
    file: Option<File>,
    written: u64,
    note: Option<String>,
}

impl SpoolFile {
    /// Creates no file yet. `name` is for messages to the user and the agent.
    pub fn new(path: PathBuf, name: String, cap: u64) -> Self {
        Self {
            path,
            name,
            cap,
            file: None,
            written: 0,
            note: None,
        }
    }

    /// Appends up to the cap, unless an earlier write failed.
    pub fn write(&mut self, bytes: &[u8]) {
        if self.note.is_some() || bytes.is_empty() {
            return;
        }
        let room = usize::try_from(self.cap - self.written).unwrap_or(usize::MAX);
        let fits = &bytes[..bytes.len().min(room)];
        if let Err(e) = self.try_write(fits) {
            self.note = Some(format!("{} is not complete: {e}", self.name));
        } else if fits.len() < bytes.len() {
            self.note = Some(format!(
                "{} has only the first {} MiB",
                self.name,
                self.cap / (1024 * 1024)
            ));
        }
        if self.note.is_some() {
            self.file = None;
        }
    }

    fn try_write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if self.file.is_none() {
            self.file = Some(create(&self.path)?);
        }
        if let Some(file) = &mut self.file {
            file.write_all(bytes)?;
        }
        self.written += bytes.len() as u64;
        Ok(())
    }

    /// Whether there was no room for all of the output.
    pub fn is_full(&self) -> bool {
        self.written >= self.cap
    }

    /// For the user: where all of the output is, or how much of it.
    pub fn whole_is_in(&self) -> Option<String> {
        match &self.note {
            None if self.written > 0 => Some(format!("all of it: {}", self.name)),
            None => None,
            Some(note) => Some(note.clone()),
        }
    }
}

/// The file with the last lines of an output whose file is full.
fn live_end_file(output: &Path) -> PathBuf {
    output.with_extension("end")
}

/// Keeps the end of an output whose file is full, for readers that follow it. Replaces the file, so
/// that a reader never sees half of an end.
pub fn keep_live_end(output: &Path, total: u64, end: &[u8]) -> io::Result<()> {
    let (file, new) = (live_end_file(output), output.with_extension("end-new"));
    create(&new)?.write_all(&[&total.to_le_bytes()[..], end].concat())?;
    fs::rename(new, file)
}

/// Removes what [`keep_live_end`] has written.
pub fn remove_live_end(output: &Path) {
    if let Err(error) = fs::remove_file(live_end_file(output))
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::debug!("cannot remove the end of {}: {error}", output.display());
    }
}

/// How many bytes were printed, and whole lines at their end, if the output's file is full.
pub fn live_end(output: &Path) -> Option<(u64, Vec<u8>)> {
    let written = fs::metadata(output).ok()?.len();
    let bytes = fs::read(live_end_file(output)).ok()?;
    let (total, end) = bytes.split_first_chunk()?;
    let total = u64::from_le_bytes(*total);
    let line = end.iter().position(|byte| *byte == b'\n');
    let end = &end[line.map_or(0, |newline| newline + 1)..];
    (total > written).then(|| (total, end.to_vec()))
}

/// Readable by the owner only, because a command can print secrets. Does not follow a link, because
/// the folder can come from a clone.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .custom_flags(flags)
        .open(path)
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The length of the lossy text in bytes.
fn lossy_len(bytes: &[u8]) -> usize {
    let broken = char::REPLACEMENT_CHARACTER.len_utf8();
    bytes
        .utf8_chunks()
        .map(|c| c.valid().len() + if c.invalid().is_empty() { 0 } else { broken })
        .sum()
}

/// How many bytes at the end are the start of an incomplete character.
pub fn torn_end(bytes: &[u8]) -> usize {
    let lead = bytes.iter().rev().take(3).position(|b| b & 0xC0 != 0x80);
    let Some(back) = lead.map(|i| i + 1) else {
        return 0;
    };
    let needed = match bytes[bytes.len() - back] {
        0xC2..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF4 => 4,
        _ => 1,
    };
    if needed > back { back } else { 0 }
}

/// How many bytes at the start are the end of a character that began earlier.
pub fn torn_start(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .take(3)
        .take_while(|b| **b & 0xC0 == 0x80)
        .count()
}

/// The longest prefix whose text has at most `room` bytes, cut at a line end if one is near, and
/// how many original bytes it covers.
fn prefix(bytes: &[u8], room: usize) -> (String, usize) {
    let mut text = String::new();
    let mut taken = 0;
    for chunk in bytes.utf8_chunks() {
        let valid = chunk.valid();
        let fits = valid.floor_char_boundary(room - text.len());
        text.push_str(&valid[..fits]);
        taken += fits;
        let broken = if chunk.invalid().is_empty() {
            0
        } else {
            char::REPLACEMENT_CHARACTER.len_utf8()
        };
        if fits < valid.len() || text.len() + broken > room {
            break;
        }
        if broken > 0 {
            text.push(char::REPLACEMENT_CHARACTER);
            taken += chunk.invalid().len();
        }
    }
    // Cut back over valid text only, where text and original bytes have the same length.
    if taken < bytes.len()
        && let Some(line_end) = text.rfind('\n').map(|i| i + 1)
        && line_end >= text.len() - text.len() / 4
        && !text[line_end..].contains(char::REPLACEMENT_CHARACTER)
    {
        taken -= text.len() - line_end;
        text.truncate(line_end);
    }
    (text, taken)
}

/// The longest suffix whose text has at most `room` bytes, cut at a line start if one is near, and
/// how many original bytes it covers.
fn suffix(bytes: &[u8], room: usize) -> (String, usize) {
    // The text is never shorter than its bytes, so bytes further back cannot fit.
    let mut from = bytes.len() - bytes.len().min(room);
    if from > 0 {
        from += torn_start(&bytes[from..]);
    }
    let mut excess = lossy_len(&bytes[from..]).saturating_sub(room);
    let mut text = String::new();
    for chunk in bytes[from..].utf8_chunks() {
        let valid = chunk.valid();
        let skipped = valid.ceil_char_boundary(excess.min(valid.len()));
        excess = excess.saturating_sub(skipped);
        from += skipped;
        text.push_str(&valid[skipped..]);
        if !chunk.invalid().is_empty() {
            if excess > 0 {
                excess = excess.saturating_sub(char::REPLACEMENT_CHARACTER.len_utf8());
                from += chunk.invalid().len();
            } else {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
    }
    if from > 0
        && bytes[from - 1] != b'\n'
        && let Some(line_start) = text.find('\n').map(|i| i + 1)
        && line_start <= text.len() / 4
        && !text[..line_start].contains(char::REPLACEMENT_CHARACTER)
    {
        from += line_start;
        text.drain(..line_start);
    }
    (text, bytes.len() - from)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn captured(limit: usize, pieces: &[(OutputStream, &[u8])]) -> CapturedOutput {
        let mut capture = OutputCapture::new(limit, None, 0);
        for (stream, bytes) in pieces {
            capture.push(*stream, bytes);
        }
        capture.finish()
    }

    #[test]
    fn output_is_not_written_through_a_link() {
        let dir = tempfile::tempdir().expect("a folder");
        let (link, victim) = (dir.path().join("run-1.log"), dir.path().join("victim"));
        fs::write(&victim, "precious").expect("space");
        std::os::unix::fs::symlink(&victim, &link).expect("a link");
        assert!(create(&link).is_err());
        assert_eq!(
            fs::read_to_string(&victim).expect("it is there"),
            "precious"
        );
    }

    #[test]
    fn output_that_fits_is_kept_whole() {
        let got = captured(
            16,
            &[
                (OutputStream::Stdout, b"12345678"),
                (OutputStream::Stderr, b"abcdefgh"),
            ],
        );
        assert_eq!(
            (got.stdout.as_str(), got.stderr.as_str(), got.omitted_bytes),
            ("12345678", "abcdefgh", 0)
        );
        assert_eq!(got.answer, ReplyText::Whole("12345678".into()));
    }

    #[test]
    fn the_smaller_stream_is_kept_whole_up_to_half() {
        assert_eq!(shares(100, 40, 60), (40, 60));
        assert_eq!(shares(100, 30, 90), (30, 70));
        assert_eq!(shares(100, usize::MAX, 30), (70, 30));
        assert_eq!(shares(101, usize::MAX, 90), (51, 50));
    }

    #[test]
    fn a_long_text_loses_its_middle_at_line_ends() {
        let lines: String = (0..1000)
            .map(|n| format!("line {n}\n"))
            .collect::<Vec<_>>()
            .concat();
        let got = captured(512, &[(OutputStream::Stdout, lines.as_bytes())]);
        assert!(got.stdout.len() <= 512);
        assert!(got.stdout.starts_with("line 0\nline 1\n"));
        assert!(got.stdout.contains(" bytes left out …]\nline 9"));
        let shown = got
            .stdout
            .lines()
            .filter(|line| line.starts_with("line "))
            .count();
        assert!(
            got.stdout
                .contains(&format!("\n[… {} lines, 8", 1000 - shown)),
            "{}",
            got.stdout
        );
        assert!(got.stdout.ends_with("line 998\nline 999\n"));
    }

    #[test]
    fn an_answer_is_kept_whole_whatever_the_limit_is() {
        let long = format!("{{\"reason\":\"{}\"}}", "x".repeat(ANSWER - 100));
        assert!(
            captured(0, &[(OutputStream::Stdout, long.as_bytes())]).answer
                == ReplyText::Whole(long)
        );
        let longer = captured(0, &[(OutputStream::Stdout, &vec![b'x'; ANSWER + 1])]).answer;
        assert!(
            longer
                == ReplyText::TooLong {
                    beginning: "x".repeat(ANSWER),
                    is_reply: false
                }
        );
    }

    #[test]
    fn a_character_is_not_torn() {
        let text = "ä€🦀".repeat(1000);
        let got = captured(600, &[(OutputStream::Stdout, text.as_bytes())]);
        assert!(
            !got.stdout.contains(char::REPLACEMENT_CHARACTER),
            "{}",
            got.stdout
        );
    }

    #[test]
    fn a_file_that_cannot_be_written_only_adds_a_note() {
        let mut capture = OutputCapture::new(
            600,
            Some(("/dev/null/x.log".into(), "x.log".into())),
            FILE_CAP,
        );
        capture.push(OutputStream::Stdout, &[b'x'; 2000]);
        let got = capture.finish();
        assert!(!got.file_written);
        assert!(
            got.file_note
                .expect("a note")
                .starts_with("x.log is not complete: ")
        );
        assert!(got.stdout.contains("x.log is not complete"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_only_adds_a_note() {
        let mut capture =
            OutputCapture::new(600, Some(("/dev/full".into(), "x.log".into())), FILE_CAP);
        capture.push(OutputStream::Stdout, b"short");
        let got = capture.finish();
        assert_eq!((got.stdout.as_str(), got.file_written), ("short", false));
        assert!(got.file_note.expect("a note").contains("No space left"));
    }

    proptest! {
        #[test]
        fn both_texts_together_are_within_the_limit_and_no_byte_is_unaccounted_for(
            limit in 512usize..4096,
            pieces in proptest::collection::vec((any::<bool>(), proptest::collection::vec(any::<u8>(), 0..900)), 0..12),
        ) {
            let pieces: Vec<_> = pieces.iter()
                .map(|(out, bytes)| (if *out { OutputStream::Stdout } else { OutputStream::Stderr }, bytes.as_slice()))
                .collect();
            let got = captured(limit, &pieces);
            prop_assert!(got.stdout.len() + got.stderr.len() <= limit);
            let whole = |stream| lossy(&pieces.iter().filter(|p| p.0 == stream).flat_map(|p| p.1.to_vec()).collect::<Vec<_>>());
            if got.omitted_bytes == 0 {
                prop_assert_eq!(got.stdout, whole(OutputStream::Stdout));
                prop_assert_eq!(got.stderr, whole(OutputStream::Stderr));
            } else {
                prop_assert!(whole(OutputStream::Stdout).len() + whole(OutputStream::Stderr).len() > limit);
            }
        }
    }
}
