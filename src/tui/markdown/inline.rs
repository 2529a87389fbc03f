//! The text of a line of Markdown: code, links and emphasis.
//!
//! # Invariants
//! - The address of a link is visible: its words may name another one.
//! - The work grows with the length of the line, whatever an agent prints.

use ratatui::style::{Modifier, Style};

use crate::tui::{
    text::StyledText,
    theme::{ScreenTheme, ThemeRole},
};

/// Emphasis inside emphasis beyond this many levels is text.
const DEEPEST: usize = 4;

/// A text with its code, links and emphasis.
pub(super) fn inline(text: &str, style: Style, theme: &ScreenTheme) -> Vec<StyledText> {
    let mut pieces = Vec::new();
    InlineText::new(text).read(style, 0, theme, &mut pieces);
    pieces
}

/// The signs that surround a part of a line. Longer ones first.
const MARKS: [&str; 7] = ["`", "***", "**", "__", "~~", "*", "_"];

/// A line, or a part of one, that is read from its beginning.
///
/// A sign without a partner is text, and creel then looks for no partner of this sign any more: so
/// the work grows with the length of the line, whatever an agent prints.
struct InlineText<'a> {
    text: &'a str,
    /// Where it is read next.
    at: usize,
    /// From where on the text that was read is not in `pieces` yet.
    begun: usize,
    open: [bool; MARKS.len()],
}

impl<'a> InlineText<'a> {
    const fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            begun: 0,
            open: [true; MARKS.len()],
        }
    }

    fn read(
        mut self,
        style: Style,
        depth: usize,
        theme: &ScreenTheme,
        pieces: &mut Vec<StyledText>,
    ) {
        while let Some(first) = self.text[self.at..].chars().next() {
            if let Some((mark, inside)) = self.marked() {
                let begin = self.at;
                let end = begin + MARKS[mark].len() * 2 + inside.len();
                self.finish(style, end, pieces);
                if mark == 0 {
                    pieces.push((inside.to_owned(), theme.style(ThemeRole::Code)));
                } else if depth < DEEPEST {
                    Self::new(inside).read(emphasized(style, mark), depth + 1, theme, pieces);
                } else {
                    pieces.push((inside.to_owned(), emphasized(style, mark)));
                }
            } else if let Some(link) = self.link() {
                self.finish(style, self.at + link.length, pieces);
                link.show(style, theme, pieces);
            } else {
                self.at += first.len_utf8();
            }
        }
        let end = self.text.len();
        self.finish(style, end, pieces);
    }

    /// Adds the text before the current place, and continues behind what is there.
    fn finish(&mut self, style: Style, end: usize, pieces: &mut Vec<StyledText>) {
        if self.begun < self.at {
            pieces.push((self.text[self.begun..self.at].to_owned(), style));
        }
        (self.at, self.begun) = (end, end);
    }

    /// The sign that begins here and what is between it and its partner.
    fn marked(&mut self) -> Option<(usize, &'a str)> {
        let rest = &self.text[self.at..];
        let before = self.text[..self.at].chars().next_back();
        let mark = MARKS.iter().position(|mark| rest.starts_with(mark))?;
        let (sign, is_code) = (MARKS[mark], mark == 0);
        let inside = &rest[sign.len()..];
        let is_inside = |c: char| is_code || !(c.is_whitespace() || sign.starts_with(c));
        let opens = is_code || before.is_none_or(|c| may_surround(c, "([{\"'“‘«"));
        if !self.open[mark] || !opens || !inside.starts_with(is_inside) {
            return None;
        }
        let end = inside.match_indices(sign).map(|(end, _)| end).find(|end| {
            let (text, after) = (&inside[..*end], inside[*end + sign.len()..].chars().next());
            let closes = is_code || after.is_none_or(|c| may_surround(c, ".,;:!?)]}\"'”’»…"));
            closes
                && text.ends_with(is_inside)
                && !after.is_some_and(|c| sign.starts_with(c) && !is_code)
        });
        self.open[mark] = end.is_some();
        Some((mark, &inside[..end?]))
    }

    /// The link that begins here: `[words](address)`, a picture in the same form, or `<address>`.
    fn link(&self) -> Option<InlineLink<'a>> {
        let rest = &self.text[self.at..];
        if let Some(inside) = rest.strip_prefix('<') {
            let end = inside.find(['<', '>', ' '])?;
            let address = &inside[..end];
            let is_link = inside[end..].starts_with('>') && address.contains("://");
            return is_link.then_some(InlineLink {
                words: "",
                address,
                length: address.len() + 2,
            });
        }
        let picture = usize::from(rest.starts_with("!["));
        let inside = rest[picture..].strip_prefix('[')?;
        let words = &inside[..inside.find(['[', ']'])?];
        let after = inside[words.len()..].strip_prefix("](")?;
        let address = &after[..after.find(['(', ')', ' '])?];
        let is_link = after[address.len()..].starts_with(')') && !address.is_empty();
        is_link.then_some(InlineLink {
            words,
            address,
            length: picture + words.len() + address.len() + 4,
        })
    }
}

/// Whether emphasis may begin after this character, or end before it. Others are no emphasis: names
/// such as `snake_case`, patterns such as `src/*.rs`, products such as `2*3`.
fn may_surround(c: char, signs: &str) -> bool {
    c.is_whitespace() || signs.contains(c) || "*_~-–—|".contains(c) || !c.is_ascii()
}

/// The address is always visible: the words of a link may name another one.
struct InlineLink<'a> {
    words: &'a str,
    address: &'a str,
    length: usize,
}

impl InlineLink<'_> {
    fn show(&self, style: Style, theme: &ScreenTheme, pieces: &mut Vec<StyledText>) {
        let link = style.patch(theme.style(ThemeRole::Accent));
        let link = link.add_modifier(Modifier::UNDERLINED);
        if self.words.is_empty() || self.words == self.address {
            pieces.push((self.address.to_owned(), link));
        } else {
            pieces.push((self.words.to_owned(), link));
            let address = format!(" ({})", self.address);
            pieces.push((address, theme.style(ThemeRole::Faint)));
        }
    }
}

fn emphasized(style: Style, mark: usize) -> Style {
    style.add_modifier(match MARKS[mark] {
        "***" => Modifier::BOLD | Modifier::ITALIC,
        "**" | "__" => Modifier::BOLD,
        "~~" => Modifier::CROSSED_OUT,
        _ => Modifier::ITALIC,
    })
}
