//! Removes terminal sequences from a program's output.
//!
//! Owns the distinction between sequences and text. It is hand-written because no terminal crate
//! returns to text after a sequence that never ends.
//!
//! # Invariants
//! - The result contains no escape sequence and no control character, apart from line ends and
//!   tabs. All other bytes stay, also those that are not UTF-8.
//! - Sequences and characters can be split between pieces of output.
//! - A sequence that does not end consumes at most the rest of its line, or [`STRING_MAX`].

/// The longest title, link or picture, in bytes.
const STRING_MAX: usize = 64 * 1024;
/// How many bytes of a line that is redrawn repeatedly are buffered.
const REDRAWN_MAX: usize = 4 * 1024;

/// The text without escape sequences and control characters; newlines and tabs stay. A bare
/// carriage return redraws the line; as text it would hide the text before it, so it becomes a line
/// end.
pub fn plain_text(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut plain = PlainTextFilter::new(CarriageReturnMode::EndLine);
    plain.push(text.as_bytes(), &mut out);
    plain.finish(&mut out);
    String::from_utf8(out).expect("only whole characters are taken out of a text")
}

/// The meaning of a carriage return without a line end after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CarriageReturnMode {
    /// The line ends: nothing of it is hidden.
    EndLine,
    /// The line is redrawn: of a progress bar, only the last state counts. Text that was already
    /// passed on stays.
    Redraw,
}

/// Converts pieces of output to text.
#[derive(Debug)]
pub struct PlainTextFilter {
    returns: CarriageReturnMode,
    place: EscapeState,
    /// The part of the current line that has not been passed on.
    line: Vec<u8>,
    /// Whether a part of the current line was passed on.
    begun: bool,
    /// Whether the current line was redrawn, and can be again.
    redrawn: bool,
    /// Whether the last character was a carriage return; its meaning depends on the next one.
    returned: bool,
}

/// The position in a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EscapeState {
    Text,
    /// After `C2`, the first byte of a control character with two bytes.
    TextLead,
    /// After an escape character.
    Escape,
    /// After an escape character and one of `' '..='/'`.
    Charset,
    /// In `ESC [ …`. Whether it can still be `ESC [ G` or `ESC [ 1 G`, which go back to the start
    /// of the line.
    Control {
        parameters: usize,
        to_start: bool,
    },
    /// In a title, a link or a picture.
    String {
        kind: ControlStringKind,
        taken: usize,
    },
    /// After `C2` in one.
    StringLead {
        kind: ControlStringKind,
        taken: usize,
    },
    /// After an escape character in one: it ends, with `\` or with another sequence.
    StringEscape,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ControlStringKind {
    /// `ESC ]`: contains no line ends.
    Command,
    /// All others: can contain line ends.
    Other,
}

const CONTROL: EscapeState = EscapeState::Control {
    parameters: 0,
    to_start: true,
};

impl PlainTextFilter {
    pub fn new(returns: CarriageReturnMode) -> Self {
        Self {
            returns,
            place: EscapeState::Text,
            line: Vec::new(),
            begun: false,
            redrawn: false,
            returned: false,
        }
    }

    /// Adds a piece of output. Text that is complete is written to `out`.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut rest = bytes;
        while let Some((&byte, after)) = rest.split_first() {
            if self.place == EscapeState::Text && !is_special(byte) {
                let run = rest
                    .iter()
                    .position(|b| is_special(*b))
                    .unwrap_or(rest.len());
                self.text(&rest[..run], out);
                rest = &rest[run..];
            } else {
                self.special(byte, out);
                rest = after;
            }
        }
        if !self.returned && (!self.redrawn || self.line.len() > REDRAWN_MAX) {
            self.pass_on(out);
        }
    }

    /// Writes the remaining text.
    pub fn finish(mut self, out: &mut Vec<u8>) {
        if self.place == EscapeState::TextLead {
            self.text(&[0xc2], out);
        }
        self.pass_on(out);
        if self.returned && self.returns == CarriageReturnMode::EndLine {
            out.push(b'\n');
        }
    }

    fn pass_on(&mut self, out: &mut Vec<u8>) {
        self.begun |= !self.line.is_empty();
        out.append(&mut self.line);
    }

    fn text(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if std::mem::take(&mut self.returned) {
            self.start_again(out);
        }
        self.line.extend_from_slice(bytes);
    }

    fn line_end(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.line);
        out.push(b'\n');
        (self.begun, self.redrawn, self.returned) = (false, false, false);
    }

    fn carriage_return(&mut self, out: &mut Vec<u8>) {
        if self.returned && self.returns == CarriageReturnMode::EndLine {
            self.line_end(out);
        }
        self.returned = true;
    }

    /// Text follows a carriage return.
    fn start_again(&mut self, out: &mut Vec<u8>) {
        match self.returns {
            CarriageReturnMode::EndLine => self.line_end(out),
            CarriageReturnMode::Redraw => {
                if self.begun {
                    out.push(b'\n');
                }
                self.line.clear();
                (self.begun, self.redrawn) = (false, true);
            }
        }
    }

    fn special(&mut self, byte: u8, out: &mut Vec<u8>) {
        self.place = match self.place {
            EscapeState::Text => self.in_text(byte, out),
            EscapeState::TextLead => self.after_lead(byte, out),
            EscapeState::Escape | EscapeState::StringEscape => self.after_escape(byte, out),
            EscapeState::Charset => match byte {
                b' '..=b'/' => EscapeState::Charset,
                b'0'..=b'~' => EscapeState::Text,
                other => self.broken_off(other, out),
            },
            EscapeState::Control {
                parameters,
                to_start,
            } => self.in_control(byte, parameters, to_start, out),
            EscapeState::String { kind, taken } => match byte {
                0x07 | 0x18 | 0x1a => EscapeState::Text,
                0x1b => EscapeState::StringEscape,
                0xc2 => EscapeState::StringLead { kind, taken },
                b'\n' if kind == ControlStringKind::Command => self.in_text(byte, out),
                // Not in the middle of a character.
                _ if taken >= STRING_MAX && byte & 0xc0 != 0x80 => self.in_text(byte, out),
                _ => EscapeState::String {
                    kind,
                    taken: taken + 1,
                },
            },
            EscapeState::StringLead { .. } if byte == 0x9c => EscapeState::Text,
            EscapeState::StringLead { kind, taken } => {
                self.place = EscapeState::String { kind, taken };
                return self.special(byte, out);
            }
        };
    }

    fn in_text(&mut self, byte: u8, out: &mut Vec<u8>) -> EscapeState {
        match byte {
            0x1b => return EscapeState::Escape,
            0xc2 => return EscapeState::TextLead,
            b'\n' => self.line_end(out),
            b'\r' => self.carriage_return(out),
            b'\t' => self.text(b"\t", out),
            0..0x20 | 0x7f => {}
            other => self.text(&[other], out),
        }
        EscapeState::Text
    }

    /// The second byte of a character between U+0080 and U+00BF. The first half of these are
    /// control characters.
    fn after_lead(&mut self, byte: u8, out: &mut Vec<u8>) -> EscapeState {
        match byte {
            0x9b => CONTROL,
            0x9d => EscapeState::String {
                kind: ControlStringKind::Command,
                taken: 0,
            },
            0x90 | 0x98 | 0x9e | 0x9f => EscapeState::String {
                kind: ControlStringKind::Other,
                taken: 0,
            },
            0x80..=0x9f => EscapeState::Text,
            other => {
                self.text(&[0xc2], out);
                self.in_text(other, out)
            }
        }
    }

    fn after_escape(&mut self, byte: u8, out: &mut Vec<u8>) -> EscapeState {
        match byte {
            b'[' => CONTROL,
            b']' => EscapeState::String {
                kind: ControlStringKind::Command,
                taken: 0,
            },
            b'P' | b'X' | b'^' | b'_' => EscapeState::String {
                kind: ControlStringKind::Other,
                taken: 0,
            },
            b' '..=b'/' => EscapeState::Charset,
            b'0'..=b'~' => EscapeState::Text,
            other => self.broken_off(other, out),
        }
    }

    fn in_control(
        &mut self,
        byte: u8,
        parameters: usize,
        to_start: bool,
        out: &mut Vec<u8>,
    ) -> EscapeState {
        match byte {
            b' '..=b'?' => EscapeState::Control {
                parameters: parameters + 1,
                to_start: to_start && parameters == 0 && byte == b'1',
            },
            b'G' if to_start && self.returns == CarriageReturnMode::Redraw => {
                self.carriage_return(out);
                EscapeState::Text
            }
            b'@'..=b'~' => EscapeState::Text,
            other => self.broken_off(other, out),
        }
    }

    /// This byte cannot be part of the sequence: the sequence ends, and the byte is text.
    fn broken_off(&mut self, byte: u8, out: &mut Vec<u8>) -> EscapeState {
        self.in_text(byte, out)
    }
}

/// Whether a byte is more than plain text.
const fn is_special(byte: u8) -> bool {
    matches!(byte, 0..0x20 | 0x7f | 0xc2)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn plain(returns: CarriageReturnMode, pieces: &[&[u8]]) -> Vec<u8> {
        let mut plain = PlainTextFilter::new(returns);
        let mut out = Vec::new();
        for piece in pieces {
            plain.push(piece, &mut out);
        }
        plain.finish(&mut out);
        out
    }

    fn redrawn(pieces: &[&str]) -> String {
        let pieces: Vec<&[u8]> = pieces.iter().map(|piece| piece.as_bytes()).collect();
        String::from_utf8(plain(CarriageReturnMode::Redraw, &pieces)).expect("text")
    }

    #[test]
    fn colours_moves_titles_and_links_are_gone_also_when_they_come_in_pieces() {
        assert_eq!(redrawn(&["\u{1b}[1;31mred\u{1b}[0m\tok\n"]), "red\tok\n");
        assert_eq!(
            redrawn(&["a\u{1b}", "[3", "1mb", "\u{1b}[2J\u{1b}[10;5Hc"]),
            "abc"
        );
        assert_eq!(
            redrawn(&[
                "\u{1b}]0;ti",
                "tle\u{7}a\u{1b}]8;;http://x\u{1b}",
                "\\link\u{1b}]8;;\u{1b}\\!"
            ]),
            "alink!"
        );
        assert_eq!(
            redrawn(&["\u{1b}Pq#0\u{1b}\\b\u{1b}(Bc\u{1b}cd\u{9b}2Je\u{8}\u{7}f\u{9d}0;t\u{9c}g"]),
            "bcdefg"
        );
        assert_eq!(
            plain(
                CarriageReturnMode::Redraw,
                &[b"\xc2", b"\x9b31mx\xc2", b"\xa7\xff\xc2a\xc2"]
            ),
            b"x\xc2\xa7\xff\xc2a\xc2"
        );
    }

    #[test]
    fn a_sequence_that_never_ends_takes_no_more_than_its_line() {
        assert_eq!(
            redrawn(&["\u{1b}]0;title\nmore\n\u{1b}[31\nlast \u{1b}["]),
            "\nmore\n\nlast "
        );
        let picture = format!("\u{1b}P{}text", "x".repeat(STRING_MAX));
        assert_eq!(redrawn(&[&picture]), "text");
    }

    #[test]
    fn of_a_line_that_is_drawn_again_the_last_state_stays() {
        assert_eq!(redrawn(&["50%\r100%\r\nend\r\n"]), "100%\nend\n");
        assert_eq!(redrawn(&["\r10%", "\r20%", "\r30%\r", "\n"]), "30%\n");
        assert_eq!(
            redrawn(&["one\n10%", "\r20%", "\r30%", "\ndone"]),
            "one\n10%\n30%\ndone"
        );
        assert_eq!(redrawn(&["|\u{1b}[1G/\u{1b}[0K\u{1b}[G-\u{1b}[5Gx"]), "-x");
        assert_eq!(redrawn(&["a\r\r\nb\r"]), "a\nb");
    }

    #[test]
    fn a_return_can_end_a_line_instead() {
        let ended = |text: &str| plain(CarriageReturnMode::EndLine, &[text.as_bytes()]);
        assert_eq!(ended("50%\r100%\r\nend\r"), b"50%\n100%\nend\n");
        assert_eq!(ended("a\r\r\nb"), b"a\n\nb");
    }

    proptest! {
        #[test]
        fn where_the_pieces_are_cut_does_not_matter(bytes in sequences(), cut in any::<prop::sample::Index>()) {
            let (one, two) = bytes.split_at(cut.index(bytes.len() + 1));
            prop_assert_eq!(plain(CarriageReturnMode::EndLine, &[one, two]), plain(CarriageReturnMode::EndLine, &[&bytes]));
            let still: Vec<u8> = bytes.iter().copied().filter(|b| *b != b'\r' && *b != b'G').collect();
            let (one, two) = still.split_at(cut.index(still.len() + 1));
            prop_assert_eq!(plain(CarriageReturnMode::Redraw, &[one, two]), plain(CarriageReturnMode::Redraw, &[&still]));
        }

        #[test]
        fn no_control_character_comes_out_and_text_stays(text in "(\\PC|[\\x00-\\x1f]){0,60}") {
            let out = String::from_utf8(plain(CarriageReturnMode::Redraw, &[text.as_bytes()])).expect("text stays text");
            prop_assert!(!out.contains(|c: char| c.is_control() && c != '\n' && c != '\t'));
            let clean: String = text.chars().filter(|c| !c.is_control() || *c == '\n').collect();
            prop_assert_eq!(plain(CarriageReturnMode::Redraw, &[clean.as_bytes()]), clean.into_bytes());
        }
    }

    /// Bytes in which sequences are likely.
    fn sequences() -> impl Strategy<Value = Vec<u8>> {
        let bytes = prop::sample::select(
            b"\x1b\x1b[]P\\1;mGab\r\n\x07\xc2\x9b\x9c\xa7\xe2\x82\xac".to_vec(),
        );
        prop::collection::vec(bytes, 0..40)
    }
}
