//! Code blocks: set off by an indent instead of their fences. In common languages, comments,
//! strings and keywords stand out.
//!
//! A line is read on its own, so a string or a comment over several lines is ordinary code.

use ratatui::{style::Modifier, text::Line};

use crate::tui::{
    text::{StyledText, wrap},
    theme::{ScreenTheme, ThemeRole},
};

/// The columns before each line of code. On narrow screens there are none.
const INDENT: usize = 2;
const NARROW: usize = 16;

/// What a line needs to be read.
#[derive(Debug, Clone, Copy)]
struct CodeLanguage {
    /// Separated by spaces, like the keywords.
    names: &'static str,
    comment: &'static str,
    keywords: &'static str,
}

const LANGUAGES: &[CodeLanguage] = &[
    CodeLanguage {
        names: "rust rs",
        comment: "//",
        keywords: "as async await break const continue else enum false fn for if impl in let loop match mod move \
            mut pub ref return self Self static struct trait true type unsafe use where while",
    },
    CodeLanguage {
        names: "c cpp c++ csharp go java javascript js jsx kotlin swift ts tsx typescript",
        comment: "//",
        keywords: "async await break case catch class const continue default defer else enum export extends false \
            finally for func function if import interface let new nil null package private public range \
            return static struct switch this throw true try type var void while",
    },
    CodeLanguage {
        names: "python py ruby rb",
        comment: "#",
        keywords: "and as async await begin break class continue def del do elif else end ensure except False \
            finally for from if import in is lambda module None nil not or pass raise require rescue return \
            self True try unless while with yield",
    },
    CodeLanguage {
        names: "bash console sh shell zsh",
        comment: "#",
        keywords: "case do done elif else esac exit export fi for function if in local return set then until while",
    },
    CodeLanguage {
        names: "toml yaml yml",
        comment: "#",
        keywords: "false null true",
    },
    CodeLanguage {
        names: "json jsonc",
        comment: "//",
        keywords: "false null true",
    },
    CodeLanguage {
        names: "sql",
        comment: "--",
        keywords: "AND AS BY CREATE DELETE FROM GROUP IN INSERT INTO JOIN NOT NULL ON OR ORDER SELECT SET TABLE \
            UPDATE VALUES WHERE",
    },
];

/// The code block that the current line belongs to.
#[derive(Debug)]
pub(super) struct CodeBlock {
    sign: char,
    /// How many signs its fence has.
    length: usize,
    syntax: CodeSyntax,
}

#[derive(Debug)]
enum CodeSyntax {
    Unknown,
    Diff,
    Known(CodeLanguage),
}

/// The sign of a fence, how many of them there are, and the text after them.
fn fence(line: &str) -> Option<(char, usize, &str)> {
    let line = line.trim_start();
    let sign = line
        .chars()
        .next()
        .filter(|sign| matches!(sign, '`' | '~'))?;
    let rest = line.trim_start_matches(sign);
    let length = line.len() - rest.len();
    (length >= 3 && !rest.contains(sign)).then_some((sign, length, rest.trim()))
}

impl CodeBlock {
    /// The block that begins with this line, if it is a fence.
    pub(super) fn beginning(line: &str) -> Option<Self> {
        let (sign, length, rest) = fence(line)?;
        let language = rest
            .split([' ', ',', '{', ':'])
            .next()
            .unwrap_or_default()
            .to_lowercase();
        let known = LANGUAGES
            .iter()
            .find(|known| is_among(&language, known.names));
        let syntax = match (known, language.as_str()) {
            (Some(known), _) => CodeSyntax::Known(*known),
            (None, "diff" | "patch") => CodeSyntax::Diff,
            (None, _) => CodeSyntax::Unknown,
        };
        Some(Self {
            sign,
            length,
            syntax,
        })
    }

    pub(super) fn ends_with(&self, line: &str) -> bool {
        fence(line).is_some_and(|(sign, length, rest)| {
            sign == self.sign && length >= self.length && rest.is_empty()
        })
    }

    pub(super) fn rows(&self, line: &str, theme: &ScreenTheme, width: usize) -> Vec<Line<'static>> {
        let indent = if width < NARROW { 0 } else { INDENT };
        let mut rows = wrap(&self.pieces(line, theme), width - indent, indent);
        for row in &mut rows {
            row.spans.insert(0, " ".repeat(indent).into());
        }
        rows
    }

    fn pieces(&self, line: &str, theme: &ScreenTheme) -> Vec<StyledText> {
        let whole = |role| vec![(line.to_owned(), theme.style(role))];
        match &self.syntax {
            CodeSyntax::Diff if line.starts_with('+') => whole(ThemeRole::Good),
            CodeSyntax::Diff if line.starts_with('-') => whole(ThemeRole::Bad),
            CodeSyntax::Diff | CodeSyntax::Unknown => whole(ThemeRole::Code),
            CodeSyntax::Known(language) => language.pieces(line, theme),
        }
    }
}

impl CodeLanguage {
    fn pieces(&self, line: &str, theme: &ScreenTheme) -> Vec<StyledText> {
        let code = theme.style(ThemeRole::Code);
        let mut pieces: Vec<StyledText> = Vec::new();
        let mut rest = line;
        let mut spaced = true;
        while let Some(first) = rest.chars().next() {
            let (length, style) = if spaced && rest.starts_with(self.comment) {
                (rest.len(), theme.style(ThemeRole::Faint))
            } else if let Some(length) = quoted(rest, first) {
                (length, theme.style(ThemeRole::Good))
            } else if is_word(first) {
                let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
                let known = is_among(&rest[..length], self.keywords);
                (
                    length,
                    if known {
                        code.add_modifier(Modifier::BOLD)
                    } else {
                        code
                    },
                )
            } else {
                (first.len_utf8(), code)
            };
            let (piece, after) = rest.split_at(length);
            match pieces.last_mut() {
                Some((last, known)) if *known == style => last.push_str(piece),
                Some(_) | None => pieces.push((piece.to_owned(), style)),
            }
            // A `#` inside a word begins no comment: `$#`, `C#`.
            spaced = !first.is_alphanumeric() && first != '$';
            rest = after;
        }
        pieces
    }
}

fn is_among(word: &str, words: &str) -> bool {
    words.split(' ').any(|known| known == word)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The length of the string at the beginning of a text, with its quotes. A single quote without a
/// partner soon after it is no string: it can begin a lifetime.
fn quoted(text: &str, quote: char) -> Option<usize> {
    if !matches!(quote, '"' | '\'' | '`') {
        return None;
    }
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '\\' if !escaped => escaped = true,
            _ if c == quote && !escaped => return Some(at + 1),
            ' ' | ',' | '>' | ')'
                if quote == '\'' && at > 1 && text[1..at].chars().all(is_word) =>
            {
                return None;
            }
            _ => escaped = false,
        }
    }
    None
}
