//! Reads values from a tree, with the defaults from the table.
//!
//! Owns the meaning of single values, such as durations. Does not report mistakes: a value of the
//! wrong type reads as its default, because [`super::validate`] has reported it.
//!
//! Also reads patterns of files, and words what is wrong with a pattern or a regular expression.
//! Does not match anything: see [`crate::engine::permission`] and [`crate::engine::protect`].
//!
//! # Invariants
//! - A pattern that can never match a file is a mistake: a rule that protects nothing must not look
//!   like one that does.

use std::time::Duration;

use fast_glob::ErrorKind;
use serde::{
    Deserialize,
    de::{DeserializeOwned, IntoDeserializer as _},
};

use super::{
    diagnostic::{DiagnosticReport, quoted},
    node::{ConfigNode, NodeKind},
    shape::MapShape,
};
use crate::engine::time::TimeSpan;

/// The longest duration in a config: a year.
const LONGEST: Duration = Duration::from_hours(366 * 24);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DurationError {
    WrongType,
    Unreadable,
    Negative,
    TooLong,
}

/// Accepts seconds, or text with units.
pub(super) fn duration(node: &ConfigNode) -> Result<TimeSpan, DurationError> {
    match &node.kind {
        NodeKind::Int(n) if *n < 0 => Err(DurationError::Negative),
        NodeKind::Int(n) => u64::try_from(*n)
            .map_err(|_| DurationError::TooLong)
            .and_then(|n| bounded(Duration::from_secs(n))),
        NodeKind::Float(seconds) => from_seconds(*seconds),
        NodeKind::Text(text) => from_text(text.trim()),
        NodeKind::Null | NodeKind::Bool(_) | NodeKind::List(_) | NodeKind::Map(_) => {
            Err(DurationError::WrongType)
        }
    }
}

/// A text of the command line that is no duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a time is a number of seconds (`30`), or has a unit (`500ms`, `2m`)")]
pub struct BadDuration;

/// A duration from the command line.
pub fn duration_of(text: &str) -> Result<TimeSpan, BadDuration> {
    from_text(text.trim()).map_err(|_| BadDuration)
}

fn from_seconds(seconds: f64) -> Result<TimeSpan, DurationError> {
    if seconds < 0.0 {
        return Err(DurationError::Negative);
    }
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| DurationError::TooLong)
        .and_then(bounded)
}

fn from_text(text: &str) -> Result<TimeSpan, DurationError> {
    if text.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '.')
        && let Ok(seconds) = text.parse::<f64>()
    {
        return from_seconds(seconds);
    }
    let (days, rest) = days_of(text).unwrap_or((0, text));
    let signed = if rest.is_empty() {
        jiff::SignedDuration::ZERO
    } else {
        rest.parse().map_err(|_| DurationError::Unreadable)?
    };
    if signed.is_negative() {
        return Err(DurationError::Negative);
    }
    let days = Duration::from_hours(u64::from(days) * 24);
    bounded(signed.unsigned_abs().saturating_add(days))
}

/// The days at the beginning of a text, `7d` or `2 days 6h`, and the rest. A day has 24 hours.
fn days_of(text: &str) -> Option<(u32, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, rest) = text.split_at(digits);
    let rest = rest.trim_start();
    let unit = rest
        .find(|c: char| !c.is_ascii_alphabetic())
        .unwrap_or(rest.len());
    matches!(&rest[..unit], "d" | "day" | "days").then_some(())?;
    Some((number.parse().ok()?, rest[unit..].trim_start()))
}

/// A duration below the resolution is rounded up, because zero has a different meaning.
fn bounded(duration: Duration) -> Result<TimeSpan, DurationError> {
    if duration > LONGEST {
        return Err(DurationError::TooLong);
    }
    let span = TimeSpan::from(duration);
    Ok(if span.is_zero() && !duration.is_zero() {
        TimeSpan(1)
    } else {
        span
    })
}

/// A map whose keys are in the table.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConfigFields<'a> {
    shape: &'static MapShape,
    node: Option<&'a ConfigNode>,
}

impl<'a> ConfigFields<'a> {
    pub(super) fn of(shape: &'static MapShape, node: Option<&'a ConfigNode>) -> Self {
        Self { shape, node }
    }

    /// The map itself, if the config has it.
    pub(super) fn written(&self) -> Option<&'a ConfigNode> {
        self.node
    }

    /// The configured value, unless it is `null`.
    pub(super) fn given(&self, name: &str) -> Option<&'a ConfigNode> {
        debug_assert!(
            self.shape.field(name).is_some(),
            "`{name}` is in the table of `{}`",
            self.shape.name
        );
        self.node?.get(name).filter(|node| !node.is_null())
    }

    pub(super) fn below(&self, name: &str, shape: &'static MapShape) -> Self {
        Self {
            shape,
            node: self.given(name),
        }
    }

    /// The configured value or the default, converted with `read`.
    fn read<T>(&self, name: &str, read: impl Fn(&ConfigNode) -> Option<T>) -> Option<T> {
        self.given(name)
            .and_then(&read)
            .or_else(|| read(&self.shape.field(name)?.default.node()?))
    }

    /// A value that has a default.
    fn certain<T>(&self, name: &str, read: impl Fn(&ConfigNode) -> Option<T>) -> T {
        self.read(name, read)
            .expect("the table's default is of the table's type")
    }

    pub(super) fn bool(&self, name: &str) -> bool {
        self.certain(name, |node| {
            if let NodeKind::Bool(b) = node.kind {
                Some(b)
            } else {
                None
            }
        })
    }

    pub(super) fn int<T: TryFrom<i128>>(&self, name: &str) -> T {
        self.certain(name, as_int)
    }

    pub(super) fn maybe_int<T: TryFrom<i128>>(&self, name: &str) -> Option<T> {
        self.read(name, as_int)
    }

    pub(super) fn number(&self, name: &str) -> f64 {
        self.certain(name, |node| as_number(&node.kind))
    }

    pub(super) fn maybe_number(&self, name: &str) -> Option<f64> {
        self.read(name, |node| as_number(&node.kind))
    }

    pub(super) fn duration(&self, name: &str) -> TimeSpan {
        self.certain(name, |node| duration(node).ok())
    }

    pub(super) fn maybe_duration(&self, name: &str) -> Option<TimeSpan> {
        self.read(name, |node| duration(node).ok())
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.read(name, |node| node.text().map(str::to_owned))
    }

    /// Text that is not blank.
    pub(super) fn some_text(&self, name: &str) -> Option<String> {
        self.text(name).filter(|text| !text.trim().is_empty())
    }

    /// The texts of a list.
    pub(super) fn texts(&self, name: &str) -> Vec<String> {
        let items = self.given(name).into_iter().flat_map(ConfigNode::items);
        items
            .filter_map(ConfigNode::text)
            .map(str::to_owned)
            .collect()
    }

    /// A value that is written as records write it.
    pub(super) fn recorded<T: DeserializeOwned>(&self, name: &str) -> T {
        self.certain(name, |node| serde_json::from_value(node.to_json()).ok())
    }

    /// Converts a name to its enum value.
    pub(super) fn one_of<T: for<'de> Deserialize<'de>>(&self, name: &str) -> T {
        self.certain(name, as_name)
    }

    pub(super) fn maybe_one_of<T: for<'de> Deserialize<'de>>(&self, name: &str) -> Option<T> {
        self.read(name, as_name)
    }
}

fn as_int<T: TryFrom<i128>>(node: &ConfigNode) -> Option<T> {
    if let NodeKind::Int(n) = node.kind {
        T::try_from(n).ok()
    } else {
        None
    }
}

/// Any number as a float.
pub(super) fn as_number(kind: &NodeKind) -> Option<f64> {
    match kind {
        // Integers beyond 32 bits are outside of every range in the table.
        NodeKind::Int(n) => Some(i32::try_from(*n).map_or(
            f64::INFINITY.copysign(if *n < 0 { -1.0 } else { 1.0 }),
            f64::from,
        )),
        NodeKind::Float(x) => Some(*x),
        NodeKind::Null
        | NodeKind::Bool(_)
        | NodeKind::Text(_)
        | NodeKind::List(_)
        | NodeKind::Map(_) => None,
    }
}

/// Converts a name to its enum value.
pub(super) fn as_name<T: for<'de> Deserialize<'de>>(node: &ConfigNode) -> Option<T> {
    let deserializer: serde::de::value::StrDeserializer<'_, serde::de::value::Error> =
        node.text()?.into_deserializer();
    T::deserialize(deserializer).ok()
}

/// Accepts one value or a list.
pub(super) fn one_or_more<'a>(
    report: &mut DiagnosticReport,
    given: Option<&'a ConfigNode>,
    name: &str,
) -> Vec<&'a ConfigNode> {
    let Some(node) = given else { return Vec::new() };
    match &node.kind {
        // A missing key means the opposite (everything), so an empty list is an error.
        NodeKind::List(items) if items.is_empty() => {
            let hint = "remove the key if the rule is for all of them".to_owned();
            report.error_hint(
                node.at,
                format!("`{name}` is an empty list, so the rule matches nothing"),
                hint,
            );
            Vec::new()
        }
        NodeKind::List(items) => items.iter().collect(),
        NodeKind::Text(_) => vec![node],
        NodeKind::Null
        | NodeKind::Bool(_)
        | NodeKind::Int(_)
        | NodeKind::Float(_)
        | NodeKind::Map(_) => Vec::new(),
    }
}

/// Normalizes a pattern of files. It is matched against paths relative to the project, or absolute paths of
/// files outside.
pub(super) fn pattern(report: &mut DiagnosticReport, node: &ConfigNode) -> Option<String> {
    let written = node.text().filter(|text| !text.trim().is_empty())?;
    let plain = written.trim_start_matches('!');
    let negation = &written[..written.len() - plain.len()];
    let mut plain = plain;
    while let Some(rest) = plain.strip_prefix("./") {
        plain = rest;
    }
    let hint = if plain.is_empty() || plain == "." {
        Some("write `**` for every file in the project".to_owned())
    } else if plain.starts_with("~/") {
        Some("write the whole path: creel does not expand `~` here".to_owned())
    } else if plain.split('/').any(|part| part == "..") {
        Some("write the whole path of a file outside the project".to_owned())
    } else {
        plain
            .strip_suffix('/')
            .map(|folder| format!("write `{folder}/**` for everything in the folder"))
    };
    if let Some(hint) = hint {
        report.error_hint(
            node.at,
            format!("the pattern {} matches no file", quoted(written)),
            hint,
        );
        return None;
    }
    let pattern = format!("{negation}{plain}");
    if let Err(error) = fast_glob::validate(&pattern) {
        let (what, hint) = glob_reason(error.kind);
        let at = report.within(node, written, error.index + (written.len() - pattern.len()));
        report.error_hint(
            at,
            format!("{} is not a valid pattern: {what}", quoted(written)),
            hint.to_owned(),
        );
        return None;
    }
    Some(pattern)
}

fn glob_reason(kind: ErrorKind) -> (&'static str, &'static str) {
    match kind {
        ErrorKind::UnclosedBrace => ("this `{` is never closed", "write `[{]` for a literal `{`"),
        ErrorKind::UnclosedBracket => ("this `[` is never closed", "write `[[]` for a literal `[`"),
        ErrorKind::TrailingBackslash => (
            "there is nothing after this `\\`",
            "write `\\\\` for a literal `\\`",
        ),
        ErrorKind::BraceNestingTooDeep | ErrorKind::TooManyBraceGroups => {
            ("it has too many braces", "write several patterns")
        }
        _ => (
            "creel cannot parse it",
            "use `*`, `**`, `?`, `[ab]` and `{a,b}`",
        ),
    }
}

/// What is wrong with a regular expression: the last line of the error. The lines before it show
/// the position.
pub(super) fn reason(error: &regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::diagnostic::SourceSpan;

    #[test]
    fn lengths_of_time_are_seconds_or_text() {
        let read = |kind| {
            duration(&ConfigNode {
                at: SourceSpan::default(),
                kind,
            })
            .map(|span| span.0)
        };
        let text = |text: &str| read(NodeKind::Text(text.to_owned()));
        assert_eq!(read(NodeKind::Int(30)), Ok(30_000));
        assert_eq!(read(NodeKind::Float(1.5)), Ok(1_500));
        assert_eq!(read(NodeKind::Float(0.000_001)), Ok(1));
        assert_eq!(read(NodeKind::Int(-1)), Err(DurationError::Negative));
        assert_eq!(read(NodeKind::Int(i128::MAX)), Err(DurationError::TooLong));
        assert_eq!(read(NodeKind::Float(f64::NAN)), Err(DurationError::TooLong));
        assert_eq!(
            ["500ms", "2m", "1h 30m", "90s", "45", "0"].map(text),
            [
                Ok(500),
                Ok(120_000),
                Ok(5_400_000),
                Ok(90_000),
                Ok(45_000),
                Ok(0)
            ]
        );
        assert_eq!(text("-5s"), Err(DurationError::Negative));
        assert_eq!(text("soon"), Err(DurationError::Unreadable));
        assert_eq!(text("inf"), Err(DurationError::Unreadable));
        assert_eq!(text("100000h"), Err(DurationError::TooLong));
    }
}
