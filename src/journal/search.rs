//! Finds the records of a journal that contain a text, without parsing the others.
//!
//! Owns how the bytes of a journal are searched. What counts as the text of a record is for the
//! caller to decide: a record that is found here contains the text somewhere.
//!
//! # Invariants
//! - A record that contains the text is never missed, however JSON writes the text.
//! - A journal is read in parts; only a line is ever in memory as a whole.

use std::{
    io::{self, Read},
    ops::ControlFlow,
    path::Path,
};

use memchr::{memchr, memchr2, memmem, memrchr};
use regex::{RegexBuilder, bytes};
use regex_syntax::hir::{Hir, HirKind};

use super::open;

/// How much is read at a time.
const PART: usize = 256 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchCase {
    Exact,
    Ignored,
}

/// What to search for.
#[derive(Debug)]
pub struct SearchPattern {
    /// Finds it in a line of a text.
    line: regex::Regex,
    /// A text that every match has. None if there is none.
    literal: Option<LiteralSearch>,
    /// Finds it in the texts of a record. None if the literal is all of it.
    texts: Option<bytes::Regex>,
}

/// Finds a text as JSON writes it.
#[derive(Debug)]
enum LiteralSearch {
    Exact(Box<memmem::Finder<'static>>),
    AnyCase(bytes::Regex),
}

impl LiteralSearch {
    fn of(text: &str, case: SearchCase) -> Result<Self, regex::Error> {
        let quoted = serde_json::to_string(text).expect("a text is JSON");
        let written = &quoted[1..quoted.len() - 1];
        Ok(match case {
            SearchCase::Exact => Self::Exact(Box::new(memmem::Finder::new(written).into_owned())),
            SearchCase::Ignored => Self::AnyCase(
                bytes::RegexBuilder::new(&regex::escape(written))
                    .case_insensitive(true)
                    .build()?,
            ),
        })
    }

    fn find(&self, lines: &[u8]) -> Option<usize> {
        match self {
            Self::Exact(finder) => finder.find(lines),
            Self::AnyCase(regex) => regex.find(lines).map(|found| found.start()),
        }
    }
}

impl SearchPattern {
    /// This text itself.
    pub fn text(text: &str, case: SearchCase) -> Result<Self, regex::Error> {
        Ok(Self {
            line: line_regex(&regex::escape(text), case)?,
            literal: Some(LiteralSearch::of(text, case)?),
            texts: None,
        })
    }

    /// What a regular expression matches in a line.
    pub fn regex(pattern: &str, case: SearchCase) -> Result<Self, regex::Error> {
        let texts = bytes::RegexBuilder::new(pattern)
            .case_insensitive(case == SearchCase::Ignored)
            .multi_line(true)
            .crlf(true)
            .build()?;
        let parsed = regex_syntax::parse(pattern).ok();
        let literal = parsed.and_then(|parsed| required_text(&parsed));
        Ok(Self {
            line: line_regex(pattern, case)?,
            literal: literal
                .map(|text| LiteralSearch::of(&text, case))
                .transpose()?,
            texts: Some(texts),
        })
    }

    /// Where a line of a text matches first.
    pub fn find(&self, line: &str) -> Option<std::ops::Range<usize>> {
        self.line.find(line).map(|found| found.range())
    }

    /// Calls `each` with every line of a journal that contains the pattern. Ignores an incomplete
    /// last line.
    pub fn search(
        &self,
        journal: &Path,
        each: impl FnMut(&str) -> ControlFlow<()>,
    ) -> io::Result<()> {
        self.search_in(open::to_read(journal)?, each)
    }

    fn search_in(
        &self,
        mut journal: impl Read,
        mut each: impl FnMut(&str) -> ControlFlow<()>,
    ) -> io::Result<()> {
        let mut buffer = vec![0; PART];
        let mut length = 0;
        loop {
            if length == buffer.len() {
                buffer.resize(2 * length, 0);
            }
            let read = match journal.read(&mut buffer[length..]) {
                Ok(0) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            // Earlier parts of the line have no newline.
            let last = memrchr(b'\n', &buffer[length..length + read]);
            let whole = last.map_or(0, |last| length + last + 1);
            length += read;
            if self.search_lines(&buffer[..whole], &mut each).is_break() {
                return Ok(());
            }
            buffer.copy_within(whole..length, 0);
            length -= whole;
        }
    }

    fn search_lines(
        &self,
        mut lines: &[u8],
        each: &mut impl FnMut(&str) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut texts = Vec::new();
        while !lines.is_empty() {
            let found = match &self.literal {
                Some(literal) => literal.find(lines),
                None => Some(0),
            };
            let Some(found) = found else {
                break;
            };
            let start = memrchr(b'\n', &lines[..found]).map_or(0, |before| before + 1);
            let Some(length) = memchr(b'\n', &lines[start..]) else {
                break;
            };
            let line = &lines[start..start + length];
            let is_match = self.texts.as_ref().is_none_or(|regex| {
                write_texts(line, &mut texts);
                regex.is_match(&texts)
            });
            if let Some(line) = std::str::from_utf8(line).ok().filter(|_| is_match) {
                each(line)?;
            }
            lines = &lines[start + length + 1..];
        }
        ControlFlow::Continue(())
    }
}

/// The longest text that every match of a pattern has.
fn required_text(pattern: &Hir) -> Option<String> {
    match pattern.kind() {
        HirKind::Literal(literal) => String::from_utf8(literal.0.to_vec()).ok(),
        HirKind::Capture(capture) => required_text(&capture.sub),
        HirKind::Repetition(repetition) if repetition.min > 0 => required_text(&repetition.sub),
        HirKind::Concat(parts) => parts
            .iter()
            .filter_map(required_text)
            .max_by_key(String::len),
        HirKind::Empty
        | HirKind::Class(_)
        | HirKind::Look(_)
        | HirKind::Repetition(_)
        | HirKind::Alternation(_) => None,
    }
}

fn line_regex(pattern: &str, case: SearchCase) -> Result<regex::Regex, regex::Error> {
    RegexBuilder::new(pattern)
        .case_insensitive(case == SearchCase::Ignored)
        .multi_line(true)
        .crlf(true)
        .build()
}

/// Writes the texts of a line of JSON, each on its own lines, and what is between them.
fn write_texts(line: &[u8], texts: &mut Vec<u8>) {
    texts.clear();
    let mut rest = line;
    while let Some(at) = memchr2(b'"', b'\\', rest) {
        texts.extend_from_slice(&rest[..at]);
        if rest[at] == b'"' {
            texts.push(b'\n');
            rest = &rest[at + 1..];
            continue;
        }
        let (escaped, after) = rest[at + 1..].split_first().unwrap_or((&b'\\', &[]));
        rest = after;
        match escaped {
            b'n' => texts.push(b'\n'),
            b't' => texts.push(b'\t'),
            b'r' => texts.push(b'\r'),
            b'b' => texts.push(8),
            b'f' => texts.push(12),
            b'u' => {
                let (digits, after) = rest.split_at(rest.len().min(4));
                let code = std::str::from_utf8(digits).ok();
                let code = code.and_then(|digits| u32::from_str_radix(digits, 16).ok());
                let c = code.and_then(char::from_u32).unwrap_or('\u{fffd}');
                texts.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                rest = after;
            }
            other => texts.push(*other),
        }
    }
    texts.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(pattern: &SearchPattern, journal: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        let each = |line: &str| {
            lines.push(line.to_owned());
            ControlFlow::Continue(())
        };
        pattern.search_in(journal, each).expect("readable");
        lines
    }

    fn text(text: &str, case: SearchCase) -> SearchPattern {
        SearchPattern::text(text, case).expect("a text is a pattern")
    }

    fn regex(pattern: &str) -> SearchPattern {
        SearchPattern::regex(pattern, SearchCase::Exact).expect("a pattern")
    }

    #[test]
    fn lines_are_found_in_every_part_of_a_journal_and_a_torn_one_is_ignored() {
        let filler = format!("{{\"text\":\"{}\"}}\n", "x".repeat(PART / 3));
        let long = format!("{{\"text\":\"{}needle\"}}\n", "y".repeat(3 * PART));
        let journal =
            format!("{filler}{{\"a\":\"needle\"}}\n{filler}{filler}{long}{filler}{{\"needle");
        let lines = found(&text("needle", SearchCase::Exact), journal.as_bytes());
        assert_eq!(lines, ["{\"a\":\"needle\"}", long.trim_end()]);
        assert_eq!(found(&regex("n.*e$"), journal.as_bytes()), lines);
        assert!(found(&text("Needle", SearchCase::Exact), journal.as_bytes()).is_empty());
        let any = found(&text("NEEDLE", SearchCase::Ignored), journal.as_bytes());
        assert_eq!(any, lines);
    }

    #[test]
    fn anchors_mean_the_lines_of_a_text() {
        let journal = b"{\"text\":\"first\\nsecond line\\r\\nthird\"}\n";
        for pattern in ["^first$", "^second line$", "^third$", r"\bsecond\b"] {
            assert_eq!(found(&regex(pattern), journal).len(), 1, "{pattern}");
        }
        assert!(found(&regex("^line"), journal).is_empty());
    }

    #[test]
    fn a_text_that_every_match_has_is_searched_for_first() {
        let required =
            |pattern: &str| required_text(&regex_syntax::parse(pattern).expect("a pattern"));
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(required("zebra +quagga"), text("quagga"));
        assert_eq!(required(r"^error\[E(\d+)\]: (no space)+"), text("no space"));
        for pattern in [r"\d+", "a|b", "(?i)zebra", "(zebra)?", "x*"] {
            assert_eq!(required(pattern), None, "{pattern}");
        }
    }

    proptest! {
        #[test]
        fn a_text_is_found_however_json_writes_it(
            around in r#"[a-cA-C"\\\n\t\r\u{1}é]{0,12}"#,
            wanted in r#"[a-cA-C"\\\t\u{1}é]{1,4}"#,
        ) {
            let value = format!("{around}{wanted}{around}");
            let mut line = serde_json::json!({ "v": 1, "text": value }).to_string();
            line.push('\n');
            let quoted = regex::escape(&wanted);
            for pattern in [
                text(&wanted, SearchCase::Exact),
                text(&wanted.to_uppercase(), SearchCase::Ignored),
                regex(&quoted),
            ] {
                prop_assert_eq!(found(&pattern, line.as_bytes()), [line.trim_end()]);
                prop_assert!(value.split('\n').any(|line| pattern.find(line).is_some()));
            }
        }
    }
}
