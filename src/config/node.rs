//! YAML, and therefore JSON, as a tree with source positions.
//!
//! Owns reading files and the syntax. Does not know what a key means: see [`super::shape`].
//!
//! Also finds the quote that a YAML parser misses the end of. For that it reads only where a value
//! begins, comments, block texts and quotes.
//!
//! # Invariants
//! - Reading is bounded by the size of the file and by the expansion of aliases.
//! - The positions of a tree are inside its source.

use std::{
    fmt, fs,
    io::{self, Read as _},
    path::Path,
    sync::Arc,
};

use serde::{Deserialize, Deserializer, de};
use serde_yaml::{Location, Spanned};

use super::{
    diagnostic::{Diagnostic, SourceFile, SourceSpan, quoted},
    paths::in_words,
};

/// The maximum size of a config file.
pub const MAX_BYTES: u64 = 1 << 20;
const MAX_NODES: usize = 20_000;
const MAX_ALIASES: usize = 500;
const MAX_DEPTH: usize = 32;

#[derive(Debug, Clone, PartialEq)]
pub struct ConfigNode {
    pub at: SourceSpan,
    pub kind: NodeKind,
}

#[derive(Debug, Clone, PartialEq)]
pub enum NodeKind {
    /// Nothing, or `null`.
    Null,
    /// `true` or `false`, and nothing else.
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
    List(Vec<ConfigNode>),
    /// In the order in which they are written.
    Map(Vec<(ConfigKey, ConfigNode)>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigKey {
    pub at: SourceSpan,
    /// As written.
    pub name: String,
}

impl NodeKind {
    /// For messages to the user.
    pub const fn describe(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "a boolean",
            Self::Int(_) | Self::Float(_) => "a number",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }
}

impl ConfigNode {
    /// Accepts any valid spelling of the key.
    pub fn get(&self, name: &str) -> Option<&Self> {
        self.entries()
            .iter()
            .find(|(key, _)| is_spelling(&key.name, name))
            .map(|(_, node)| node)
    }

    /// Empty for anything but a map.
    pub fn entries(&self) -> &[(ConfigKey, Self)] {
        if let NodeKind::Map(entries) = &self.kind {
            entries
        } else {
            &[]
        }
    }

    /// Empty for anything but a list.
    pub fn items(&self) -> &[Self] {
        if let NodeKind::List(items) = &self.kind {
            items
        } else {
            &[]
        }
    }

    pub fn text(&self) -> Option<&str> {
        if let NodeKind::Text(text) = &self.kind {
            Some(text)
        } else {
            None
        }
    }

    /// `null` means the same as a missing key.
    pub fn is_null(&self) -> bool {
        self.kind == NodeKind::Null
    }

    /// Without positions.
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::{Number, Value};
        match &self.kind {
            NodeKind::Null => Value::Null,
            NodeKind::Bool(b) => Value::Bool(*b),
            NodeKind::Int(n) => Number::from_i128(*n).map_or(Value::Null, Value::Number),
            NodeKind::Float(x) => Number::from_f64(*x).map_or(Value::Null, Value::Number),
            NodeKind::Text(text) => Value::String(text.clone()),
            NodeKind::List(items) => items.iter().map(Self::to_json).collect(),
            NodeKind::Map(entries) => entries
                .iter()
                .map(|(key, node)| (key.name.clone(), node.to_json()))
                .collect(),
        }
    }
}

/// Whether `written` is `name`, `maxHookRetries` or `MaxHookRetries` for `max_hook_retries`.
pub fn is_spelling(written: &str, name: &str) -> bool {
    written == name
        || written.chars().eq(joined(name, false))
        || written.chars().eq(joined(name, true))
}

/// The letters of a name without `_`, each of its words but the first with a capital. The first one
/// too if `capital`.
fn joined(name: &str, mut capital: bool) -> impl Iterator<Item = char> {
    name.chars().filter_map(move |letter| {
        let shown = if capital {
            letter.to_ascii_uppercase()
        } else {
            letter
        };
        capital = letter == '_';
        (!capital).then_some(shown)
    })
}

/// `max_hook_retries` as `maxHookRetries`.
pub fn camel(name: &str) -> String {
    joined(name, false).collect()
}

/// `max_hook_retries` as `MaxHookRetries`.
pub fn pascal(name: &str) -> String {
    joined(name, true).collect()
}

/// Reads a config file. The error follows the file's name in a message.
pub fn read(path: &Path) -> Result<String, FileReadError> {
    let bytes = read_bounded(path)?;
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..valid]
            .split(|byte| *byte == b'\n')
            .count();
        FileReadError::NotUtf8 { byte: valid, line }
    })
}

fn read_bounded(path: &Path) -> Result<Vec<u8>, FileReadError> {
    let file = fs::File::open(path)?;
    let size = file.metadata()?;
    if size.is_dir() {
        return Err(FileReadError::Folder);
    }
    if size.len() > MAX_BYTES {
        return Err(FileReadError::TooLarge(size.len()));
    }
    // The size of a pipe or a growing file is unknown.
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        Err(FileReadError::Grew)
    } else {
        Ok(bytes)
    }
}

/// Why a config file cannot be read. The text follows the file's name in a message.
#[derive(Debug, thiserror::Error)]
pub enum FileReadError {
    #[error("cannot be read: {}", in_words(.0))]
    Io(#[from] io::Error),
    #[error("cannot be read: it is a folder")]
    Folder,
    #[error("{}", too_large(*.0))]
    TooLarge(u64),
    #[error("is larger than 1 MiB")]
    Grew,
    #[error("is not UTF-8: byte {byte}, in line {line}, is not part of a character")]
    NotUtf8 { byte: usize, line: usize },
}

fn too_large(bytes: u64) -> String {
    format!(
        "is too large: {}.{} MiB; the limit is 1 MiB",
        bytes >> 20,
        ((bytes & 0xf_ffff) * 10) >> 20
    )
}

/// Parses a source. An empty source is `null`.
pub fn parse(source: &Arc<SourceFile>) -> Result<ConfigNode, Diagnostic> {
    let options = serde_yaml::options! {
        budget: serde_yaml::budget! {
            max_nodes: MAX_NODES,
            max_aliases: MAX_ALIASES,
            max_depth: MAX_DEPTH,
            max_total_scalar_bytes: 4 << 20,
        },
        alias_limits: serde_yaml::alias_limits! { max_total_replayed_events: MAX_NODES },
        duplicate_keys: serde_yaml::DuplicateKeyPolicy::Error,
        strict_booleans: true,
        with_snippet: false,
    };
    match serde_yaml::from_str_with_options::<RawNode>(&source.text, options) {
        Ok(raw) => Ok(raw.placed(source)),
        Err(error) => Err(syntax_error(source, &error)),
    }
}

/// Parses a source that must be JSON, so that creel reads it as other programs do.
pub fn parse_json(source: &Arc<SourceFile>) -> Result<ConfigNode, Diagnostic> {
    if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(&source.text) {
        let at = source.stretch_at(error.line(), error.column());
        let message = without_place(&error.to_string());
        return Err(Diagnostic::error(
            source,
            at,
            format!("this is not JSON: {message}"),
        ));
    }
    parse(source)
}

fn stretch_of(source: &SourceFile, location: Location) -> SourceSpan {
    let bytes = |n: Option<u64>| n.and_then(|n| usize::try_from(n).ok());
    let span = location.span();
    if let (Some(offset), Some(len)) = (bytes(span.byte_offset()), bytes(span.byte_len())) {
        return SourceSpan { offset, len };
    }
    let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    source.stretch_at(number(location.line()), number(location.column()))
}

fn syntax_error(source: &Arc<SourceFile>, error: &serde_yaml::Error) -> Diagnostic {
    let error = error.without_snippet();
    let at = error
        .location()
        .map(|location| stretch_of(source, location));
    // The parser notices an unclosed quote where the text cannot continue, often at the end of the
    // file.
    if let Some(offset) = at.and_then(|at| opening(&source.text, at.offset)) {
        let at = SourceSpan { offset, len: 1 };
        let hint = "close it at the end of the value, in the same line";
        return Diagnostic::error(source, at, "this quote is not closed").hint(hint);
    }
    let (message, hint) = reason(error);
    if let Some(at) = at
        .filter(|_| message.contains("tab"))
        .and_then(|at| tab(&source.text, at.offset))
    {
        return Diagnostic::error(
            source,
            SourceSpan { offset: at, len: 1 },
            "YAML does not allow tabs here",
        )
        .hint("indent with spaces");
    }
    Diagnostic::error(source, at, message).maybe_hint(hint.map(str::to_owned))
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the parser's enum grows, and its own words are good enough"
)]
fn reason(error: &serde_yaml::Error) -> (String, Option<&'static str>) {
    use serde_yaml::Error;
    match error {
        Error::DuplicateMappingKey { key, .. } => {
            let key = key.as_deref().map_or_else(|| "a key".to_owned(), quoted);
            (format!("{key} appears twice"), Some("keep one of them"))
        }
        Error::AliasReplayLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. } => (
            format!("aliases expand to more than {MAX_NODES} values"),
            Some("use fewer `*aliases`"),
        ),
        Error::AliasError { error, .. } => reason(error),
        Error::Budget { breach, .. } => over_budget(breach),
        Error::MultipleDocuments { .. } => (
            "a second document begins here".to_owned(),
            Some("keep one document"),
        ),
        Error::NullIntoString { .. } | Error::Unexpected { .. } => (
            "a key must be text".to_owned(),
            Some("quote text that begins with `{` or `[`"),
        ),
        Error::NonFiniteFloat { value, .. } => {
            (format!("{} is not a usable number", quoted(value)), None)
        }
        Error::RecursiveReferencesRequireWeakTypes { .. } => {
            ("this alias contains itself".to_owned(), None)
        }
        other => {
            let message = without_place(&other.to_string());
            // The parser has no kind for this mistake, only words.
            if message.contains("after single-quoted") || message.contains("after double-quoted") {
                let hint = "inside '…', write '' for a quote; inside \"…\", write \\\"";
                return (
                    "this follows the end of a quoted text".to_owned(),
                    Some(hint),
                );
            }
            (
                message,
                Some("check the quotes, the brackets and the indentation here"),
            )
        }
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the parser's enum grows, and they all mean too much"
)]
fn over_budget(breach: &serde_yaml::budget::BudgetBreach) -> (String, Option<&'static str>) {
    use serde_yaml::budget::BudgetBreach;
    let message = match breach {
        BudgetBreach::Aliases { .. } => format!("there are more than {MAX_ALIASES} aliases"),
        BudgetBreach::Depth { .. } => format!("this is nested deeper than {MAX_DEPTH} levels"),
        BudgetBreach::Nodes { .. } | BudgetBreach::Events { .. } => {
            format!("there are more than {MAX_NODES} values")
        }
        _ => "this is too large for a config".to_owned(),
    };
    (message, Some("check that this is the right file"))
}

/// Removes the position at the end of the parser's message, because creel prints its own in front.
fn without_place(message: &str) -> String {
    let message = message.split(" at line ").next().unwrap_or(message);
    message
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

/// The tree as the parser returns it.
struct RawNode(Spanned<RawNodeKind>);

enum RawNodeKind {
    Leaf(NodeKind),
    List(Vec<RawNode>),
    Map(Vec<(Spanned<String>, RawNode)>),
}

impl RawNode {
    fn placed(self, source: &SourceFile) -> ConfigNode {
        let kind = match self.0.value {
            RawNodeKind::Leaf(kind) => kind,
            RawNodeKind::List(items) => {
                NodeKind::List(items.into_iter().map(|item| item.placed(source)).collect())
            }
            RawNodeKind::Map(entries) => NodeKind::Map(
                entries
                    .into_iter()
                    .map(|(key, value)| {
                        (
                            ConfigKey {
                                at: stretch_of(source, key.defined),
                                name: key.value,
                            },
                            value.placed(source),
                        )
                    })
                    .collect(),
            ),
        };
        // Use the position of the value, not of an alias to it: the user has to change the value.
        ConfigNode {
            at: stretch_of(source, self.0.defined),
            kind,
        }
    }
}

impl<'de> Deserialize<'de> for RawNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Spanned::deserialize(deserializer).map(Self)
    }
}

impl<'de> Deserialize<'de> for RawNodeKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawNodeVisitor)
    }
}

struct RawNodeVisitor;

impl<'de> de::Visitor<'de> for RawNodeVisitor {
    type Value = RawNodeKind;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<RawNodeKind, E> {
        Ok(RawNodeKind::Leaf(NodeKind::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<RawNodeKind, E> {
        Ok(RawNodeKind::Leaf(NodeKind::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<RawNodeKind, E> {
        Ok(RawNodeKind::Leaf(NodeKind::Int(value.into())))
    }

    fn visit_u64<E>(self, value: u64) -> Result<RawNodeKind, E> {
        Ok(RawNodeKind::Leaf(NodeKind::Int(value.into())))
    }

    fn visit_f64<E>(self, value: f64) -> Result<RawNodeKind, E> {
        Ok(RawNodeKind::Leaf(NodeKind::Float(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<RawNodeKind, E> {
        Ok(RawNodeKind::Leaf(NodeKind::Text(value.to_owned())))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut access: A) -> Result<RawNodeKind, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(RawNodeKind::List(items))
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut access: A) -> Result<RawNodeKind, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Ok(RawNodeKind::Map(entries))
    }
}

/// The quote that is open at a position, or that opened in an earlier line and closed in the line
/// of the position.
pub(super) fn opening(text: &str, position: usize) -> Option<usize> {
    let position = text.floor_char_boundary(position);
    let line_start = text[..position].rfind('\n').map_or(0, |at| at + 1);
    let mut block: Option<usize> = None;
    let mut last: Option<QuotedText> = None;
    let mut at = 0;
    while at < position {
        let line_end = text[at..].find('\n').map_or(text.len(), |end| at + end);
        let line = &text[at..line_end];
        let indent = line.len() - line.trim_start().len();
        if block.is_some_and(|above| line.trim().is_empty() || indent > above) {
            at = line_end + 1;
            continue;
        }
        block = None;
        let mut next = line_end + 1;
        for start in value_starts(line) {
            let start = at + start;
            match text[start..].chars().next() {
                Some(quote @ ('"' | '\'')) => {
                    let end = end_of(text, start, quote);
                    last = Some(QuotedText { start, end });
                    if end.is_none_or(|end| end > line_end) {
                        next = end.map_or(text.len(), |end| {
                            text[end..].find('\n').map_or(text.len(), |n| end + n + 1)
                        });
                        break;
                    }
                }
                Some('|' | '>') => block = Some(indent),
                Some(_) | None => {}
            }
        }
        at = next;
    }
    let QuotedText { start, end } = last?;
    let spans_lines = start < line_start;
    match end {
        None => Some(start),
        Some(end) if end >= position => Some(start),
        // It closed where the next quote was meant to open.
        Some(end) => (spans_lines && end >= line_start).then_some(start),
    }
}

/// The first tab that indents something, at or after a position.
pub(super) fn tab(text: &str, position: usize) -> Option<usize> {
    let position = text.floor_char_boundary(position);
    let from = text[..position].rfind('\n').map_or(0, |at| at + 1);
    let mut at = from;
    for line in text[from..].split_inclusive('\n') {
        let indent = line.len() - line.trim_start_matches([' ', '\t']).len();
        if let Some(tab) = line[..indent].find('\t') {
            return Some(at + tab);
        }
        at += line.len();
    }
    None
}

struct QuotedText {
    start: usize,
    /// None if it has no end.
    end: Option<usize>,
}

/// Where values can begin in a line: after its indent, `- `, `: `, `[`, `{` and `, `. Nothing in a
/// comment or a quoted text is one.
fn value_starts(line: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut is_start = true;
    let mut is_after_space = true;
    let mut skipped_to = 0;
    for (at, c) in line.char_indices().filter(|(_, c)| *c != '\r') {
        if at < skipped_to {
            continue;
        }
        match c {
            '#' if is_after_space => break,
            ' ' | '\t' => {}
            _ if is_start => {
                let rest = &line[at..];
                let is_mark = rest.starts_with("- ") || matches!(c, '[' | '{' | ',');
                is_start = is_mark;
                if !is_mark {
                    found.push(at);
                    if matches!(c, '"' | '\'') {
                        skipped_to = end_of(line, at, c).map_or(line.len(), |end| end + 1);
                    }
                }
            }
            ':' | ',' => is_start = line[at + 1..].starts_with([' ', '\t']),
            '[' | '{' => is_start = true,
            _ => {}
        }
        is_after_space = matches!(c, ' ' | '\t');
    }
    found
}

/// Where the quoted text that begins at `start` closes.
fn end_of(text: &str, start: usize, quote: char) -> Option<usize> {
    let mut characters = text[start + 1..].char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        if c == '\\' && quote == '"' {
            characters.next();
        } else if c == quote {
            // Two single quotes in a row stand for one.
            if quote == '\'' && characters.peek().is_some_and(|(_, next)| *next == '\'') {
                characters.next();
                continue;
            }
            return Some(start + 1 + at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the quote opens, as line and column from 1, if the parser fails at `mark`.
    fn opens(text: &str, mark: &str) -> Option<(usize, usize)> {
        let position = if mark.is_empty() {
            text.len()
        } else {
            text.find(mark).expect("the mark")
        };
        let before = &text[..opening(text, position)?];
        Some((
            before.matches('\n').count() + 1,
            before.len() - before.rfind('\n').map_or(0, |at| at + 1) + 1,
        ))
    }

    #[test]
    fn an_unclosed_quote_is_found_where_it_opens() {
        assert_eq!(opens("a: 1\nb: \"c d\ne: 2\n", ""), Some((2, 4)));
        assert_eq!(opens("a: 1\nb: 'it''s\ne: 2\n", ""), Some((2, 4)));
        assert_eq!(
            opens("a:\n  - { b: \"x\", c: \"y }\nd: 1\n", ""),
            Some((2, 18))
        );
        assert_eq!(
            opens("a: \"b\nc: \"here\"\n", "here"),
            Some((1, 4)),
            "it closed where another opens"
        );
        assert_eq!(opens("\"a: 1\n", ""), Some((1, 1)), "a key");
    }

    #[test]
    fn other_mistakes_are_not_about_quotes() {
        assert_eq!(opens("a: \"b\"\nc: [d\n", ""), None);
        assert_eq!(
            opens("a: it's\nb: [c\n", ""),
            None,
            "a quote inside of a plain value"
        );
        assert_eq!(opens("a: b # it's \"one\nc: [d\n", ""), None, "a comment");
        assert_eq!(
            opens("a: |\n  \"b\n  it's\nc: [d\n", ""),
            None,
            "a block of text"
        );
        assert_eq!(
            opens("a: \"one\n  two\"\nb: 1\nc: [d\n", ""),
            None,
            "a quoted text over two lines"
        );
        assert_eq!(opens("", ""), None);
    }

    #[test]
    fn tabs_are_found_where_they_indent() {
        assert_eq!(tab("a: 1\n\tb: 2\n", 3), Some(5));
        assert_eq!(tab("a:\n  b\tc\n", 0), None);
    }
}
