//! Which background the terminal has: from `COLORFGBG`, or from the terminal's own answer.
//!
//! The terminal's answer arrives among the keys, at any time or never. [`BackgroundReply`] takes it
//! out of them, so the first frame waits for nothing.
//!
//! # Invariants
//! - No part of an answer acts as a key, however late it comes.
//! - Keys that only look like the beginning of an answer come back in their order.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;

/// Asks the terminal for its background.
pub const QUESTION: &str = "\u{1b}]11;?\u{1b}\\";
/// The contrast from which on text is readable, as in WCAG 2.
pub const READABLE: f64 = 4.5;
/// An answer is not longer than this.
const LONGEST: usize = 40;

/// A colour by its red, green and blue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rgb(pub u8, pub u8, pub u8);

impl Rgb {
    /// None for a colour of the terminal's palette, which can be anything.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "all other colours are of the palette"
    )]
    pub const fn of(colour: Color) -> Option<Self> {
        match colour {
            Color::Rgb(r, g, b) => Some(Self(r, g, b)),
            _ => None,
        }
    }

    /// The relative luminance, 0 to 1.
    fn luminance(self) -> f64 {
        let linear = |part: u8| {
            let part = f64::from(part) / 255.0;
            if part <= 0.04045 {
                part / 12.92
            } else {
                ((part + 0.055) / 1.055).powf(2.4)
            }
        };
        0.2126 * linear(self.0) + 0.7152 * linear(self.1) + 0.0722 * linear(self.2)
    }

    /// The contrast between two colours, 1 to 21.
    pub fn contrast(self, other: Self) -> f64 {
        let (one, two) = (self.luminance() + 0.05, other.luminance() + 0.05);
        one.max(two) / one.min(two)
    }

    pub fn is_dark(self) -> bool {
        self.contrast(Self(255, 255, 255)) > self.contrast(Self(0, 0, 0))
    }

    /// The background from `COLORFGBG`, such as `15;0`: the last number is a colour of the palette.
    pub fn from_colorfgbg(value: &str) -> Option<Self> {
        match value.rsplit(';').next()?.parse::<u8>().ok()? {
            0..=6 | 8 => Some(Self(0, 0, 0)),
            7 | 15 => Some(Self(255, 255, 255)),
            9..=14 | 16.. => None,
        }
    }

    /// The colour in an answer, such as `rgb:1e1e/2e2e/3e3e`.
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text
            .strip_prefix("rgb:")
            .or_else(|| text.strip_prefix("rgba:"))?
            .split('/')
            .map(|part| {
                let digits = part.get(..2).unwrap_or(part);
                let value = u8::from_str_radix(digits, 16).ok()?;
                Some(if digits.len() == 1 { value * 17 } else { value })
            });
        Some(Self(parts.next()??, parts.next()??, parts.next()??))
    }
}

/// What a key means while an answer is expected.
#[derive(Debug, PartialEq, Eq)]
pub enum FilteredKeys {
    /// They are keys of the user.
    Keys(Vec<KeyEvent>),
    /// It can be part of an answer.
    Withheld,
    /// The answer is complete. None if it is not readable.
    Answer(Option<Rgb>),
}

/// Takes the terminal's answer out of the keys.
#[derive(Debug, Default)]
pub struct BackgroundReply {
    withheld: Vec<KeyEvent>,
    /// The answer so far, after `ESC ]`.
    text: String,
}

impl BackgroundReply {
    /// Whether keys are withheld that may be the user's after all.
    pub fn is_partial(&self) -> bool {
        !self.withheld.is_empty()
    }

    /// Gives the withheld keys back, because nothing followed them.
    pub fn give_up(&mut self) -> Vec<KeyEvent> {
        self.text.clear();
        std::mem::take(&mut self.withheld)
    }

    pub fn filter(&mut self, key: KeyEvent) -> FilteredKeys {
        let alt = key.modifiers.contains(KeyModifiers::ALT);
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if self.withheld.is_empty() {
            if alt && key.code == KeyCode::Char(']') {
                self.withheld.push(key);
                return FilteredKeys::Withheld;
            }
            return FilteredKeys::Keys(vec![key]);
        }
        // `ESC \` and `BEL` end the answer. The terminal library reports them as alt-\ and ctrl-g.
        let ends =
            (alt && key.code == KeyCode::Char('\\')) || (control && key.code == KeyCode::Char('g'));
        if ends && self.text.starts_with("11;") {
            let answer = Rgb::parse(&self.text[3..]);
            self.give_up();
            return FilteredKeys::Answer(answer);
        }
        self.withheld.push(key);
        let KeyCode::Char(c) = key.code else {
            return FilteredKeys::Keys(self.give_up());
        };
        if alt || control {
            return FilteredKeys::Keys(self.give_up());
        }
        self.text.push(c);
        let belongs = self.text.starts_with("11;") || "11;".starts_with(&self.text);
        if belongs && self.text.len() <= LONGEST {
            FilteredKeys::Withheld
        } else {
            FilteredKeys::Keys(self.give_up())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key events that the terminal library makes of bytes.
    fn keys(text: &str) -> Vec<KeyEvent> {
        let mut out = Vec::new();
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            out.push(match c {
                '\u{1b}' => KeyEvent::new(
                    KeyCode::Char(chars.next().expect("a character")),
                    KeyModifiers::ALT,
                ),
                '\u{7}' => KeyEvent::new(KeyCode::Char('g'), KeyModifiers::CONTROL),
                c => KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE),
            });
        }
        out
    }

    /// The answers, and the keys that came through.
    fn filtered(text: &str) -> (Vec<Option<Rgb>>, Vec<KeyEvent>) {
        let (mut reply, mut answers, mut through) =
            (BackgroundReply::default(), Vec::new(), Vec::new());
        for key in keys(text) {
            match reply.filter(key) {
                FilteredKeys::Keys(keys) => through.extend(keys),
                FilteredKeys::Withheld => {}
                FilteredKeys::Answer(colour) => answers.push(colour),
            }
        }
        through.extend(reply.give_up());
        (answers, through)
    }

    #[test]
    fn an_answer_among_keys_is_taken_out_whole() {
        let dark = vec![Some(Rgb(0x1e, 0x2e, 0x3e))];
        for end in ["\u{1b}\\", "\u{7}"] {
            assert_eq!(
                filtered(&format!("q\u{1b}]11;rgb:1e1e/2e2e/3e3e{end}j")),
                (dark.clone(), keys("qj"))
            );
        }
        assert_eq!(
            filtered("\u{1b}]11;rgb:f/0/8\u{7}").0,
            [Some(Rgb(255, 0, 136))]
        );
        assert_eq!(
            filtered("\u{1b}]11;rgba:ffff/0000/8080/ffff\u{7}").0,
            [Some(Rgb(255, 0, 128))]
        );
        assert_eq!(filtered("\u{1b}]11;what\u{7}"), (vec![None], Vec::new()));
    }

    #[test]
    fn keys_that_are_no_answer_come_back_in_their_order() {
        for typed in [
            "abc",
            "\u{1b}]",
            "\u{1b}]1x",
            "\u{1b}]11;rgb\u{1b}x",
            "\u{1b}]\u{7}",
        ] {
            assert_eq!(filtered(typed), (Vec::new(), keys(typed)), "{typed:?}");
        }
        let long = format!("\u{1b}]11;{}", "a".repeat(60));
        assert_eq!(filtered(&long), (Vec::new(), keys(&long)));
    }

    #[test]
    fn the_variable_of_some_terminals_names_the_background() {
        let dark = ["15;0", "15;default;0", "0;8"]
            .map(|value| Rgb::from_colorfgbg(value).map(Rgb::is_dark));
        assert_eq!(dark, [Some(true); 3]);
        assert_eq!(Rgb::from_colorfgbg("0;15").map(Rgb::is_dark), Some(false));
        assert_eq!(
            ["", "15;default", "0;11"].map(Rgb::from_colorfgbg),
            [None; 3]
        );
    }
}
