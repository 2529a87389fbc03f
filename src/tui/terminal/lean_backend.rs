//! Writes the changed cells of a frame with as few bytes as possible.
//!
//! The terminal keeps its colours between two frames, so a spinner costs a few bytes for each of
//! its steps.
//!
//! # Invariants
//! - A frame that changes something is one synchronized update, so that no terminal shows half of
//!   it.
//! - What is printed has the width that the layout counted, on every terminal: characters of
//!   several parts, whose width terminals and multiplexers disagree about, are printed in a simple
//!   form.

use std::{
    collections::BTreeSet,
    io::{self, Write},
};

use crossterm::{
    cursor, queue,
    style::{Attribute, Colors, Print, SetAttribute, SetColors},
    terminal::{self, BeginSynchronizedUpdate, ClearType, EndSynchronizedUpdate},
};
use ratatui::{
    backend::{Backend, ClearType as ClearedPart, IntoCrossterm as _, WindowSize},
    buffer::Cell,
    layout::{Position, Size},
    style::{Color, Modifier},
};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// How the terminal prints at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PrintStyle {
    front: Color,
    back: Color,
    modifier: Modifier,
}

const NONE: PrintStyle = PrintStyle {
    front: Color::Reset,
    back: Color::Reset,
    modifier: Modifier::empty(),
};

#[derive(Debug)]
pub struct LeanBackend<W: Write> {
    out: W,
    /// None if something else may have changed it.
    style: Option<PrintStyle>,
    cursor_hidden: bool,
    /// Whether a frame has begun that is not complete.
    in_frame: bool,
    /// Where a wide character is printed as two narrow ones. If another wide one covers only the
    /// first of them, the second would stay: the comparison of frames knows nothing of it, and a
    /// terminal only clears the halves of wide ones.
    halves: BTreeSet<(u16, u16)>,
}

impl<W: Write> LeanBackend<W> {
    pub const fn new(out: W) -> Self {
        Self {
            out,
            style: None,
            cursor_hidden: false,
            in_frame: false,
            halves: BTreeSet::new(),
        }
    }

    pub const fn writer_mut(&mut self) -> &mut W {
        &mut self.out
    }

    /// Something else has used the terminal: its colours and its cursor are unknown.
    pub const fn forget(&mut self) {
        self.style = None;
        self.cursor_hidden = false;
    }

    fn set_style(&mut self, new: PrintStyle) -> io::Result<()> {
        if self.style == Some(new) {
            return Ok(());
        }
        let same_modifier = self.style.is_some_and(|old| old.modifier == new.modifier);
        if !same_modifier {
            // Attributes cannot be removed one by one on all terminals, so all of them are set
            // again.
            queue!(self.out, SetAttribute(Attribute::Reset))?;
            self.style = Some(NONE);
            let attributes = [
                (Modifier::BOLD, Attribute::Bold),
                (Modifier::DIM, Attribute::Dim),
                (Modifier::ITALIC, Attribute::Italic),
                (Modifier::UNDERLINED, Attribute::Underlined),
                (Modifier::REVERSED, Attribute::Reverse),
            ];
            for (modifier, attribute) in attributes {
                if new.modifier.contains(modifier) {
                    queue!(self.out, SetAttribute(attribute))?;
                }
            }
        }
        let old = self.style.unwrap_or(NONE);
        if (old.front, old.back) != (new.front, new.back) {
            queue!(
                self.out,
                SetColors(Colors::new(
                    new.front.into_crossterm(),
                    new.back.into_crossterm()
                ))
            )?;
        }
        self.style = Some(new);
        Ok(())
    }
}

impl<W: Write> Backend for LeanBackend<W> {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        let mut expected: Option<(u16, u16)> = None;
        for (x, y, cell) in content {
            if !std::mem::replace(&mut self.in_frame, true) {
                queue!(self.out, BeginSynchronizedUpdate)?;
            }
            if expected != Some((x, y)) {
                queue!(self.out, cursor::MoveTo(x, y))?;
            }
            self.set_style(PrintStyle {
                front: cell.fg,
                back: cell.bg,
                modifier: cell.modifier,
            })?;
            let symbol = cell.symbol();
            let width = u16::try_from(symbol.width().max(1)).unwrap_or(1);
            self.halves.remove(&(x, y));
            if is_simple(symbol) {
                queue!(self.out, Print(symbol))?;
            } else {
                let form = simplified(symbol);
                let is_halved =
                    width == 2 && form.starts_with(|first: char| first.width() == Some(1));
                self.halves.extend(is_halved.then_some((x, y)));
                queue!(self.out, Print(form))?;
            }
            if width == 2 && self.halves.remove(&(x + 1, y)) {
                queue!(self.out, cursor::MoveTo(x + 2, y), Print(' '))?;
            }
            // Whether the cursor is where it should be is certain only after narrow characters.
            expected = (width == 1).then_some((x + 1, y));
        }
        Ok(())
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.cursor_hidden, true) {
            queue!(self.out, cursor::Hide)?;
        }
        Ok(())
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        self.cursor_hidden = false;
        queue!(self.out, cursor::Show)
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        // Asking the terminal would wait for its answer among the keys.
        Ok(Position::ORIGIN)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        let Position { x, y } = position.into();
        queue!(self.out, cursor::MoveTo(x, y))
    }

    fn clear(&mut self) -> io::Result<()> {
        self.clear_region(ClearedPart::All)
    }

    fn clear_region(&mut self, part: ClearedPart) -> io::Result<()> {
        // Cleared cells get the current background.
        self.set_style(NONE)?;
        self.halves.clear();
        let part = match part {
            ClearedPart::All => ClearType::All,
            ClearedPart::AfterCursor => ClearType::FromCursorDown,
            ClearedPart::BeforeCursor => ClearType::FromCursorUp,
            ClearedPart::CurrentLine => ClearType::CurrentLine,
            ClearedPart::UntilNewLine => ClearType::UntilNewLine,
        };
        queue!(self.out, terminal::Clear(part))
    }

    fn size(&self) -> io::Result<Size> {
        let (width, height) = terminal::size()?;
        Ok(Size { width, height })
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        let columns_rows = self.size()?;
        Ok(WindowSize {
            columns_rows,
            pixels: Size::ZERO,
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.in_frame) {
            queue!(self.out, EndSynchronizedUpdate)?;
        }
        self.out.flush()
    }
}

/// Whether all terminals agree about the width of a character. They do about single code points
/// with or without marks that have no width, but not about joined emoji, flags, skin tones and
/// variants.
fn is_simple(symbol: &str) -> bool {
    if symbol.is_ascii() {
        return true;
    }
    let mut parts = symbol.chars();
    let first = parts.next();
    !first.is_some_and(is_regional) && parts.all(|c| c.width() == Some(0) && !is_joiner(c))
}

/// Whether a character without a width changes the width or the look of the one before it: the
/// joiner, the selectors of emoji and text forms, the keycap, and the letters of the flags of
/// regions.
const fn is_joiner(c: char) -> bool {
    matches!(
        c,
        '\u{200d}' | '\u{fe0e}' | '\u{fe0f}' | '\u{20e3}' | '\u{e0020}'..='\u{e007f}'
    )
}

/// A form of a character of several parts with the same width: a flag as its two letters, anything
/// else as its first part.
fn simplified(symbol: &str) -> String {
    let letters: Option<String> = symbol.chars().map(regional_letter).collect();
    let mut text = letters.unwrap_or_else(|| symbol.chars().take(1).collect());
    while text.width() < symbol.width() {
        text.push(' ');
    }
    text
}

const fn is_regional(c: char) -> bool {
    matches!(c, '\u{1f1e6}'..='\u{1f1ff}')
}

fn regional_letter(c: char) -> Option<char> {
    let nth = u32::from(c)
        .checked_sub(0x1_f1e6)
        .filter(|_| is_regional(c))?;
    char::from_u32(u32::from('A') + nth)
}

#[cfg(test)]
mod tests {
    use ratatui::style::Style;

    use super::*;

    fn cell(symbol: &str, style: Style) -> Cell {
        let mut cell = Cell::default();
        cell.set_symbol(symbol).set_style(style);
        cell
    }

    fn printed(backend: &mut LeanBackend<Vec<u8>>, cells: &[(u16, u16, Cell)]) -> String {
        backend.out.clear();
        backend
            .draw(cells.iter().map(|(x, y, cell)| (*x, *y, cell)))
            .expect("drawn");
        backend.flush().expect("flushed");
        let text = String::from_utf8(backend.out.clone()).expect("text");
        let inside = text
            .strip_prefix("\u{1b}[?2026h")
            .and_then(|text| text.strip_suffix("\u{1b}[?2026l"));
        inside.expect("a synchronized update").to_owned()
    }

    #[test]
    fn a_step_of_the_spinner_is_a_few_bytes() {
        let mut backend = LeanBackend::new(Vec::new());
        let style = Style::default()
            .fg(Color::Rgb(136, 192, 208))
            .bg(Color::Rgb(27, 31, 39));
        printed(&mut backend, &[(20, 0, cell("⠹", style))]);
        let step = printed(&mut backend, &[(20, 0, cell("⠸", style))]);
        assert_eq!(step, "\u{1b}[1;21H⠸");
        backend.hide_cursor().expect("hidden");
        backend.out.clear();
        backend.hide_cursor().expect("hidden");
        assert!(backend.out.is_empty());
    }

    #[test]
    fn styles_are_set_when_they_change_and_after_another_program() {
        let mut backend = LeanBackend::new(Vec::new());
        let (bold, plain) = (
            Style::default().add_modifier(Modifier::BOLD),
            Style::default(),
        );
        let cells = [
            (0, 0, cell("a", bold)),
            (1, 0, cell("b", bold)),
            (2, 0, cell("c", plain)),
        ];
        assert_eq!(
            printed(&mut backend, &cells),
            "\u{1b}[1;1H\u{1b}[0m\u{1b}[1mab\u{1b}[0mc"
        );
        let again = [(0, 0, cell("x", plain))];
        assert_eq!(printed(&mut backend, &again), "\u{1b}[1;1Hx");
        backend.forget();
        assert_eq!(printed(&mut backend, &again), "\u{1b}[1;1H\u{1b}[0mx");
    }

    #[test]
    fn half_of_a_flag_does_not_stay_beside_the_emoji_that_covers_the_other() {
        let mut backend = LeanBackend::new(Vec::new());
        let plain = Style::default();
        printed(&mut backend, &[(11, 0, cell("\u{1f1eb}\u{1f1f7}", plain))]);
        let over = printed(&mut backend, &[(10, 0, cell("\u{1f600}", plain))]);
        assert_eq!(over, "\u{1b}[1;11H\u{1f600}\u{1b}[1;13H ");
        assert_eq!(
            printed(&mut backend, &[(10, 0, cell("\u{1f600}", plain))]),
            "\u{1b}[1;11H\u{1f600}"
        );
    }

    #[test]
    fn characters_of_several_parts_are_printed_in_a_form_of_the_same_width() {
        let cases = [
            ("\u{1f1e9}\u{1f1ea}", "DE"),
            ("\u{1f469}\u{200d}\u{1f469}\u{200d}\u{1f466}", "\u{1f469}"),
            ("\u{1f44d}\u{1f3fd}", "\u{1f44d}"),
            ("\u{2764}\u{fe0f}", "\u{2764} "),
            ("\u{1f3f4}\u{e0067}\u{e0062}\u{e007f}", "\u{1f3f4}"),
        ];
        for (symbol, form) in cases {
            assert!(!is_simple(symbol), "{symbol}");
            assert_eq!(simplified(symbol), form);
            assert_eq!(simplified(symbol).width(), symbol.width(), "{symbol}");
        }
        for symbol in ["a", "é", "e\u{301}", "日", "\u{1f600}", "⠹"] {
            assert!(is_simple(symbol), "{symbol}");
        }
    }
}
