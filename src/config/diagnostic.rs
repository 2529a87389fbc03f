//! Messages about mistakes in a config, collected while it is read.
//!
//! Owns the format of a message: file, line, column, the line itself, a caret below the mistake,
//! and what to do. Reading does not stop at the first mistake. Does not find mistakes: see [`super::validate`] and [`mod@super::load`].
//!
//! # Invariants
//! - A position is inside its source.
//! - The excerpt of a source contains no control characters, so a config cannot write to the
//!   terminal.
//! - It also contains no password, as far as a single line shows what is one.

use std::{fmt, sync::Arc};

use unicode_width::UnicodeWidthChar as _;

use super::node::ConfigNode;

pub(super) use crate::text::nearest;

/// Columns of a line that are shown.
const SHOWN_COLUMNS: usize = 120;
/// A tab is shown as this many spaces, so that the caret is right whatever the terminal's tab stops
/// are.
const TAB: usize = 4;
/// Characters of a foreign text that are quoted.
const QUOTED: usize = 60;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SourceFile {
    /// The path as the user knows it.
    pub name: String,
    pub text: String,
}

/// A byte range of a source. Cheap, unlike a [`SourcePosition`], which has to count lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SourceSpan {
    pub offset: usize,
    /// 0 if only the start is known.
    pub len: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourcePosition {
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// In bytes.
    pub offset: usize,
    /// In bytes. 0 if only the start is known.
    pub len: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Nothing runs.
    Error,
    /// It runs, but perhaps not as intended.
    Warning,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    pub severity: Severity,
    pub source: Arc<SourceFile>,
    /// None if it is about the whole file.
    pub place: Option<SourcePosition>,
    pub message: String,
    /// What the user probably meant, or what to do.
    pub hint: Option<String>,
}

impl SourceFile {
    /// Removes a byte order mark.
    pub fn new(name: impl Into<String>, text: &str) -> Self {
        Self {
            name: name.into(),
            text: text.strip_prefix('\u{feff}').unwrap_or(text).to_owned(),
        }
    }

    /// The position of a byte range. A range outside of the source is clamped.
    pub fn place(&self, SourceSpan { offset, len }: SourceSpan) -> SourcePosition {
        let offset = self.text.floor_char_boundary(offset);
        let before = &self.text[..offset];
        let start = before.rfind('\n').map_or(0, |i| i + 1);
        let end = self.text.floor_char_boundary(offset.saturating_add(len));
        SourcePosition {
            line: before.matches('\n').count() + 1,
            column: before[start..].chars().count() + 1,
            offset,
            len: end - offset,
        }
    }

    /// The start of a line and column, both from 1. A position outside of the source is clamped.
    pub fn stretch_at(&self, line: usize, column: usize) -> SourceSpan {
        let start = match line {
            0 | 1 => 0,
            _ => self
                .text
                .match_indices('\n')
                .nth(line - 2)
                .map_or(self.text.len(), |(i, _)| i + 1),
        };
        let rest = &self.text[start..];
        let rest = &rest[..rest.find('\n').unwrap_or(rest.len())];
        let within = rest
            .char_indices()
            .nth(column.saturating_sub(1))
            .map_or(rest.len(), |(i, _)| i);
        SourceSpan {
            offset: start + within,
            len: 0,
        }
    }

    pub fn slice(&self, at: SourceSpan) -> &str {
        self.text
            .get(at.offset..at.offset.saturating_add(at.len))
            .unwrap_or_default()
    }

    fn line_around(&self, offset: usize) -> (usize, &str) {
        let start = self.text[..offset].rfind('\n').map_or(0, |i| i + 1);
        let end = self.text[offset..]
            .find('\n')
            .map_or(self.text.len(), |i| offset + i);
        (start, self.text[start..end].trim_end_matches('\r'))
    }
}

impl Diagnostic {
    pub fn error(
        source: &Arc<SourceFile>,
        at: impl Into<Option<SourceSpan>>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            severity: Severity::Error,
            source: Arc::clone(source),
            place: at.into().map(|at| source.place(at)),
            message: message.into(),
            hint: None,
        }
    }

    pub fn warning(
        source: &Arc<SourceFile>,
        at: impl Into<Option<SourceSpan>>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::error(source, at, message)
        }
    }

    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }

    #[must_use]
    pub fn maybe_hint(self, hint: Option<String>) -> Self {
        Self { hint, ..self }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.source.name)?;
        if let Some(place) = self.place {
            write!(f, ":{}:{}", place.line, place.column)?;
        }
        let kind = match self.severity {
            Severity::Error => "",
            Severity::Warning => "warning: ",
        };
        write!(f, ": {kind}{}", self.message)?;
        match (self.place, &self.hint) {
            (Some(place), hint) => write_excerpt(f, &self.source, place, hint.as_deref()),
            (None, Some(hint)) => write!(f, "\n  {hint}"),
            (None, None) => Ok(()),
        }
    }
}

fn write_excerpt(
    f: &mut fmt::Formatter<'_>,
    source: &SourceFile,
    place: SourcePosition,
    hint: Option<&str>,
) -> fmt::Result {
    let (start, line) = source.line_around(place.offset);
    let line = masked(line);
    let at = (place.offset - start).min(line.len());
    let end = (at + place.len).min(line.len());
    let shown = SourceExcerpt::of(&line, at, end);
    let number = place.line.to_string();
    let gutter = " ".repeat(number.len());
    write!(f, "\n{number} | {}", shown.line)?;
    write!(
        f,
        "\n{gutter} | {}{}",
        " ".repeat(shown.indent),
        "^".repeat(shown.carets)
    )?;
    hint.map_or(Ok(()), |hint| write!(f, " {hint}"))
}

/// Parts of keys whose values are not shown, even if misspelt.
const SECRETS: [&str; 8] = [
    "pas", "token", "secret", "pwd", "auth", "header", "-key", "apikey",
];
/// A key that contains one of them, but is only a number of tokens.
const AMOUNT: &str = "tokens";

/// Replaces possible secrets in a line with as many stars, so that positions stay the same. Hides
/// too much rather than too little, because a secret can contain any YAML syntax.
fn masked(line: &str) -> String {
    let keys = line.match_indices(':').map(|(colon, _)| colon);
    let secret = keys.into_iter().find(|colon| {
        is_secret(
            line[..*colon]
                .rsplit(['{', ',', ' '])
                .next()
                .unwrap_or_default(),
        )
    });
    let line = secret.map_or_else(
        || line.to_owned(),
        |colon| starred(line, colon + 1, line.len()),
    );
    let user = line
        .find("://")
        .and_then(|at| Some((at + 3, at + 3 + line[at + 3..].rfind('@')?)));
    user.map_or_else(|| line.clone(), |(from, to)| starred(&line, from, to))
}

/// Replaces all but spaces and delimiters with stars.
fn starred(part: &str, from: usize, to: usize) -> String {
    let star = |c: char| {
        if c.is_whitespace() || "\"'{},".contains(c) {
            c.to_string()
        } else {
            "*".repeat(c.len_utf8())
        }
    };
    format!(
        "{}{}{}",
        &part[..from],
        part[from..to].chars().map(star).collect::<String>(),
        &part[to..]
    )
}

/// Whether the value of a key is hidden.
pub(super) fn is_secret(key: &str) -> bool {
    let key = key.to_lowercase();
    SECRETS.iter().any(|word| key.contains(word)) && !key.contains(AMOUNT)
}

/// A line as shown, and the position of the carets below it.
struct SourceExcerpt {
    line: String,
    indent: usize,
    carets: usize,
}

impl SourceExcerpt {
    fn of(line: &str, at: usize, end: usize) -> Self {
        let (before, meant, after) = (&line[..at], &line[at..end], &line[end..]);
        let before_room = SHOWN_COLUMNS / 2;
        let mut shown = String::new();
        if columns(before) > before_room {
            let mut from = before.len();
            let mut room = before_room - 1;
            for (i, c) in before.char_indices().rev() {
                let Some(left) = room.checked_sub(width(c)) else {
                    break;
                };
                (from, room) = (i, left);
            }
            shown.push('…');
            push_shown(&mut shown, &before[from..], usize::MAX);
        } else {
            push_shown(&mut shown, before, usize::MAX);
        }
        let indent = columns(&shown);
        let cut = push_shown(
            &mut shown,
            meant,
            SHOWN_COLUMNS - indent.min(SHOWN_COLUMNS / 2),
        );
        let carets = (columns(&shown) - indent).max(1);
        let cut = cut
            || push_shown(
                &mut shown,
                after,
                SHOWN_COLUMNS.saturating_sub(indent + carets),
            );
        if cut {
            shown.push('…');
        }
        Self {
            line: shown.trim_end().to_owned(),
            indent,
            carets,
        }
    }
}

/// Appends what fits into `room` columns. Returns whether something was cut.
fn push_shown(to: &mut String, text: &str, mut room: usize) -> bool {
    for c in text.chars() {
        let Some(left) = room.checked_sub(width(c)) else {
            return true;
        };
        room = left;
        match c {
            '\t' => to.extend(std::iter::repeat_n(' ', TAB)),
            c if is_unsafe(c) => to.push('\u{fffd}'),
            c => to.push(c),
        }
    }
    false
}

fn columns(text: &str) -> usize {
    text.chars().map(width).sum()
}

/// Control characters, and those that change the writing direction.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
}

/// The width of a character in columns.
fn width(c: char) -> usize {
    if c == '\t' {
        TAB
    } else {
        c.width().unwrap_or(0)
    }
}

/// Quotes a foreign text in a message: in backquotes, on one line, cut if it is long.
pub(super) fn quoted(text: &str) -> String {
    let mut shown = String::from("`");
    for (i, c) in text.chars().enumerate() {
        if i == QUOTED {
            shown.push('…');
            break;
        }
        if is_unsafe(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown.push('`');
    shown
}

/// "did you mean", or a list of the valid names.
pub(super) fn suggest<'a>(
    wrong: &str,
    known: impl IntoIterator<Item = &'a str>,
    what: &str,
) -> Option<String> {
    const LISTED: usize = 14;
    let known: Vec<&str> = known.into_iter().collect();
    if let Some(name) = nearest(wrong, known.iter().copied()) {
        return Some(format!("did you mean `{name}`?"));
    }
    (1..=LISTED)
        .contains(&known.len())
        .then(|| format!("{what}: {}", names(&known)))
}

/// Names in a sentence: `a`, `b`, `c`.
pub(super) fn names(names: &[&str]) -> String {
    names
        .iter()
        .map(|name| quoted(name))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Sorts by file, then by position, errors before warnings. Removes duplicates, because a mistake
/// that an alias repeats is one mistake.
pub(super) fn sort(diagnostics: &mut Vec<Diagnostic>) {
    diagnostics
        .sort_by(|a, b| (a.place, a.severity, &a.message).cmp(&(b.place, b.severity, &b.message)));
    let mut files: Vec<Arc<SourceFile>> = Vec::new();
    for diagnostic in diagnostics.iter() {
        if !files.contains(&diagnostic.source) {
            files.push(Arc::clone(&diagnostic.source));
        }
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    diagnostics.sort_by_key(|d| files.iter().position(|file| *file == d.source));
    diagnostics.dedup();
}

/// The maximum number of mistakes in one file. Finding the positions of more would be too slow.
const MOST: usize = 200;

#[derive(Debug)]
pub(super) struct DiagnosticReport {
    pub(super) source: Arc<SourceFile>,
    pub(super) diagnostics: Vec<Diagnostic>,
    /// Warnings that only `creel check` shows.
    pub(super) advice: Vec<Diagnostic>,
    /// Agents that are named somewhere. They are checked when all agents are known.
    pub(super) mentioned: Vec<(String, SourceSpan)>,
    errors: usize,
}

impl DiagnosticReport {
    pub(super) fn new(source: Arc<SourceFile>) -> Self {
        Self {
            source,
            diagnostics: Vec::new(),
            advice: Vec::new(),
            mentioned: Vec::new(),
            errors: 0,
        }
    }

    pub(super) fn error(&mut self, at: SourceSpan, message: impl Into<String>) {
        self.error_hint(at, message, None);
    }

    pub(super) fn error_hint(
        &mut self,
        at: SourceSpan,
        message: impl Into<String>,
        hint: impl Into<Option<String>>,
    ) {
        self.errors += 1;
        if self.errors <= MOST {
            self.diagnostics
                .push(Diagnostic::error(&self.source, at, message).maybe_hint(hint.into()));
        }
    }

    pub(super) fn warning(&mut self, at: SourceSpan, message: impl Into<String>) {
        self.diagnostics
            .push(Diagnostic::warning(&self.source, at, message));
    }

    pub(super) fn advise(&mut self, at: SourceSpan, message: impl Into<String>, hint: &str) {
        self.advice
            .push(Diagnostic::warning(&self.source, at, message).hint(hint));
    }

    /// The position of a byte of a text. If escapes hide it, the whole value.
    pub(super) fn within(&self, node: &ConfigNode, text: &str, index: usize) -> SourceSpan {
        match self.source.slice(node.at).find(text) {
            Some(start) => SourceSpan {
                offset: node.at.offset + start + index,
                len: 1,
            },
            None => node.at,
        }
    }

    pub(super) fn has_errors(&self) -> bool {
        self.diagnostics
            .iter()
            .any(|diagnostic| diagnostic.severity == Severity::Error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, part: &str, hint: &str) -> String {
        let source = Arc::new(SourceFile::new("creel.yaml", text));
        let at = SourceSpan {
            offset: text.find(part).expect("the part is in the text"),
            len: part.len(),
        };
        Diagnostic::error(&source, at, "wrong")
            .hint(hint)
            .to_string()
    }

    #[test]
    fn the_caret_stands_below_what_is_meant() {
        expect_test::expect![[r#"
            creel.yaml:3:3: wrong
            3 |   stopp: []
              |   ^^^^^ did you mean `stop`?"#]]
        .assert_eq(&shown(
            "a: 1\nhooks:\n  stopp: []\n",
            "stopp",
            "did you mean `stop`?",
        ));
    }

    #[test]
    fn wide_characters_and_tabs_keep_the_caret_in_its_column() {
        expect_test::expect![[r#"
            creel.yaml:1:8: wrong
            1 | 日本: {     x: 1 }
              |             ^ no"#]]
        .assert_eq(&shown("日本: { \tx: 1 }\r\n", "x", "no"));
    }

    #[test]
    fn escape_sequences_of_a_config_do_not_reach_the_terminal() {
        let text = "a: \u{1b}[31mred\n";
        assert!(!shown(text, "red", "no").contains('\u{1b}'));
        assert_eq!(quoted("\u{1b}[31m"), "`\\u{1b}[31m`");
    }

    #[test]
    fn a_long_line_is_shown_around_what_is_meant() {
        let text = format!("{}WRONG{}", "a".repeat(500), "b".repeat(500));
        let shown = shown(&text, "WRONG", "no");
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines[1].chars().count() < 130, "{shown}");
        assert_eq!(
            lines[1]
                .find("WRONG")
                .map(|i| lines[1][..i].chars().count()),
            lines[2].find("^^^^^"),
            "{shown}"
        );
    }

    #[test]
    fn a_password_is_not_shown_in_whatever_line_it_stands() {
        let secret = "hunter2";
        for text in [
            "  url: nats://me:hunter2@host:4222,nats://me:hunter2@other # WRONG",
            "  password: \"hunter2,{hunter2}\" # WRONG",
            "nats: { url: 'tls://hunter2@host', prefix: WRONG }",
            "nats: { prefix: WRONG, pasword: hunter2 }",
            "  token: hunter2 WRONG",
            "otel: { headers: { x-team: hunter2 }, WRONG: 1 }",
            "    Authorization: Bearer hunter2 # WRONG",
            "    x-api-key: hunter2 # WRONG",
        ] {
            let shown = shown(
                text,
                if text.contains("token") {
                    "token"
                } else {
                    "WRONG"
                },
                "no",
            );
            assert!(!shown.contains(secret), "{shown}");
        }
        assert!(shown("hooks: { stop: [{ command: a@b }] }", "stop", "no").contains("a@b"));
    }

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        assert_eq!(
            nearest("post_iterations", ["pre_iteration", "post_iteration"]),
            Some("post_iteration")
        );
        assert_eq!(
            nearest("postIteration", ["pre_iteration", "post_iteration"]),
            Some("post_iteration")
        );
        assert_eq!(nearest("banana", ["pre_iteration", "stop"]), None);
    }
}
