//! Reads patterns of files, and words what is wrong with a pattern or a regular expression.
//!
//! Does not match anything: see [`crate::engine::permission`] and [`crate::engine::protect`].
//!
//! # Invariants
//! - A pattern that can never match a file is a mistake: a rule that protects nothing must not look
//!   like one that does.

use fast_glob::ErrorKind;

use super::{
    diagnostic::{DiagnosticReport, quoted},
    node::{ConfigNode, NodeKind},
};

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
