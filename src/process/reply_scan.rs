//! Scans output that can be too long to store for a JSON reply, and repairs JSON that other programs
//! print.
//!
//! Owns the search for the keys of a reply. Does not read their values: see
//! [`crate::hooks::reply::parse`].
//!
//! # Invariants
//! - Memory is constant, whatever the command prints.
//! - Only keys of the outermost object count, and only if the output is that object alone: a log of
//!   JSON lines is not a reply, even if its lines have a `reason`.

/// The keys that make an object a reply.
pub const REPLY_KEYS: &[&str] = &[
    "decision",
    "reason",
    "additionalContext",
    "additional_context",
    "hookSpecificOutput",
    "suppressOutput",
    "suppress_output",
    "continue",
    "stopReason",
    "systemMessage",
];
/// Longer keys are not compared.
const LONGEST_KEY: usize = 32;

/// Reads one stream of bytes, chunk by chunk.
#[derive(Debug, Default)]
pub struct ReplyScan {
    place: ScanPosition,
    depth: usize,
    in_string: bool,
    after_backslash: bool,
    /// The last string, up to the length of the longest key.
    string: Vec<u8>,
    found: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum ScanPosition {
    /// Only white space so far.
    #[default]
    Before,
    Inside,
    /// The object was closed, and nothing followed.
    After,
    /// The output is not a single object.
    Elsewhere,
}

impl ReplyScan {
    pub fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match self.place {
                ScanPosition::Elsewhere => return,
                ScanPosition::Inside => self.inside(*byte),
                ScanPosition::Before | ScanPosition::After if byte.is_ascii_whitespace() => {}
                ScanPosition::Before if *byte == b'{' => {
                    (self.place, self.depth) = (ScanPosition::Inside, 1);
                }
                ScanPosition::Before | ScanPosition::After => self.place = ScanPosition::Elsewhere,
            }
        }
    }

    /// Whether the output is one JSON object, complete or cut off, with a key of a reply.
    pub fn is_reply(&self) -> bool {
        self.found && self.place != ScanPosition::Elsewhere
    }

    fn inside(&mut self, byte: u8) {
        if self.in_string {
            return self.inside_string(byte);
        }
        match byte {
            b'"' => {
                self.in_string = true;
                self.string.clear();
            }
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.depth -= 1;
                if self.depth == 0 {
                    self.place = ScanPosition::After;
                }
            }
            b':' if self.depth == 1 => {
                self.found |= REPLY_KEYS.iter().any(|key| key.as_bytes() == self.string);
            }
            _ => {}
        }
    }

    fn inside_string(&mut self, byte: u8) {
        match byte {
            b'"' if !self.after_backslash => self.in_string = false,
            _ => {
                self.after_backslash = byte == b'\\' && !self.after_backslash;
                if self.string.len() < LONGEST_KEY {
                    self.string.push(byte);
                }
            }
        }
    }
}

/// Removes unpaired surrogates from a line. JavaScript programs count in UTF-16, and text that they
/// cut can end with half a pair, which other programs cannot parse.
pub fn mended(line: &str) -> String {
    const ESCAPE: usize = "\\u0000".len();
    let unit = |at: usize| match line.get(at..at + ESCAPE)?.strip_prefix("\\u") {
        Some(digits) => u16::from_str_radix(digits, 16).ok(),
        None => None,
    };
    let mut out = String::with_capacity(line.len());
    let mut at = 0;
    while let Some(found) = line[at..].find('\\').map(|i| at + i) {
        out.push_str(&line[at..found]);
        let taken = match (unit(found), unit(found + ESCAPE)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 2 * ESCAPE,
            (Some(0xd800..=0xdfff), _) => {
                out.push(char::REPLACEMENT_CHARACTER);
                at = found + ESCAPE;
                continue;
            }
            // The backslash and the character after it.
            _ => 1 + line[found + 1..].chars().next().map_or(0, char::len_utf8),
        };
        out.push_str(&line[found..found + taken]);
        at = found + taken;
    }
    out + &line[at..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_reply(text: &str) -> bool {
        let mut whole = ReplyScan::default();
        whole.push(text.as_bytes());
        let mut bytewise = ReplyScan::default();
        text.bytes().for_each(|byte| bytewise.push(&[byte]));
        assert_eq!(whole.is_reply(), bytewise.is_reply(), "{text}");
        whole.is_reply()
    }

    #[test]
    fn a_key_of_the_outermost_object_makes_a_reply_wherever_it_stands() {
        for text in [
            r#"{"decision":"block"}"#,
            " \n{ \"reason\" : \"x \\\" } {\", \"deci",
            r#"{"log":[{"a":1},"]"],"continue":false}"#,
            "{\"suppressOutput\":true}\n",
        ] {
            assert!(is_reply(text), "{text}");
        }
    }

    #[test]
    fn other_output_is_no_reply() {
        for text in [
            "",
            "ok",
            r#"{"passed":3}"#,
            r#"{"test":{"reason":"x"}}"#,
            r#"{"a":"reason","b":"\"decision\":"}"#,
            "{\"reason\":\"compiler-artifact\"}\n{\"reason\":\"build-finished\"}",
            "[{\"decision\":1}]",
            "{}}}",
        ] {
            assert!(!is_reply(text), "{text}");
        }
    }

    #[test]
    fn only_halves_are_replaced() {
        assert_eq!(mended(r#"{"a":"x\ud83d"}"#), "{\"a\":\"x\u{fffd}\"}");
        for whole in [r#""\ud83d\ude00 \\ud83d \u00e9""#, "€\\", "", "\\u12"] {
            assert_eq!(mended(whole), whole);
        }
    }
}
