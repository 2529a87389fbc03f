//! Reads `stop.rules` into the checks after each iteration.
//!
//! Owns patterns, names, and which files a rule can read. Does not check anything itself: see
//! [`crate::hooks`].
//!
//! # Invariants
//! - A rule that can never be checked is a mistake: its pattern compiles, its report has a format,
//!   its files have names.
//! - No path of a rule leads out of the project, as far as its name shows.

use std::{collections::BTreeMap, path::Path};

use regex::Regex;

use super::{
    advice,
    agents::reason,
    diagnostic::{SourceSpan, names, quoted},
    fields::ConfigFields,
    hooks::check_placeholders,
    keys::{COMMAND_RULE, COVERAGE_RULE, FILES_RULE, PATTERN_RULE},
    node::{ConfigNode, NodeKind},
    report::DiagnosticReport,
    shape::MapShape,
};
use crate::engine::{
    policy::{CoverageFormat, PatternTarget, RuleCheck, RuleSpec},
    stop::rule::OFFERED,
};

/// In the order in which they are checked.
pub(super) fn lower(report: &mut DiagnosticReport, list: Option<&ConfigNode>) -> Vec<RuleSpec> {
    let items = list.map(ConfigNode::items).unwrap_or_default();
    check_names(report, items);
    items.iter().filter_map(|node| rule(report, node)).collect()
}

fn check_names(report: &mut DiagnosticReport, items: &[ConfigNode]) {
    let mut seen: Vec<&str> = Vec::new();
    for name in items.iter().filter_map(|item| item.get("name")) {
        let Some(text) = name.text() else { continue };
        if seen.contains(&text) {
            let message = format!("another rule has the name {}", quoted(text));
            report.error_hint(
                name.at,
                message,
                "give one of them another `name`".to_owned(),
            );
        }
        seen.push(text);
    }
}

fn rule(report: &mut DiagnosticReport, node: &ConfigNode) -> Option<RuleSpec> {
    let shape: &'static MapShape = match node.get("type")?.text()? {
        "command" => &COMMAND_RULE,
        "content_pattern" => &PATTERN_RULE,
        "file_existence" => &FILES_RULE,
        "coverage" => &COVERAGE_RULE,
        _ => return None,
    };
    let fields = ConfigFields::of(shape, Some(node));
    let check = match shape.name {
        "command_rule" => command(report, &fields),
        "content_pattern_rule" => pattern(report, &fields),
        "file_existence_rule" => files(report, &fields),
        _ => coverage(report, &fields, node.at),
    };
    Some(RuleSpec {
        name: fields.some_text("name")?,
        check: check?,
        timeout: fields.duration("timeout"),
        enabled: fields.bool("enabled"),
    })
}

fn command(report: &mut DiagnosticReport, fields: &ConfigFields<'_>) -> Option<RuleCheck> {
    let folder = fields.given("folder").and_then(|node| inside(report, node));
    let env = environment(report, fields.given("env"));
    let exit = either(report, fields, "expected_exit", "expected_exit_code");
    let (written, command) = (fields.given("command")?, fields.some_text("command")?);
    check_placeholders(report, "a rule", OFFERED, &command, written.at);
    advice::about_rule(report, &command, fields, written.at);
    let expected_exit = exit.map_or_else(
        || fields.int("expected_exit"),
        |(name, _)| fields.maybe_int(name).unwrap_or(0),
    );
    Some(RuleCheck::Command {
        command,
        expected_exit,
        folder,
        env,
    })
}

/// The value under one of two names with the same meaning, and which name it was.
fn either<'a>(
    report: &mut DiagnosticReport,
    fields: &ConfigFields<'a>,
    name: &'static str,
    other: &'static str,
) -> Option<(&'static str, &'a ConfigNode)> {
    let (first, second) = (fields.given(name), fields.given(other));
    if let (Some(_), Some(again)) = (first, second) {
        report.error(
            again.at,
            format!("`{other}` is another name for `{name}`: keep one of them"),
        );
    }
    first
        .map(|node| (name, node))
        .or(second.map(|node| (other, node)))
}

fn environment(
    report: &mut DiagnosticReport,
    given: Option<&ConfigNode>,
) -> BTreeMap<String, String> {
    let mut env = BTreeMap::new();
    for (key, value) in given.map(ConfigNode::entries).unwrap_or_default() {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let is_name =
            !key.name.starts_with(|c: char| c.is_ascii_digit()) && key.name.chars().all(plain);
        if key.name.is_empty() || !is_name {
            let message = format!("{} is not a valid variable name", quoted(&key.name));
            report.error_hint(key.at, message, "use letters, digits and `_`".to_owned());
        } else if key.name.starts_with("CREEL_") {
            let message = format!("{} belongs to creel", quoted(&key.name));
            report.error_hint(
                key.at,
                message,
                "creel sets the variables that begin with `CREEL_`".to_owned(),
            );
        } else if let Some(text) = value.text() {
            env.insert(key.name.clone(), text.to_owned());
        }
    }
    env
}

fn pattern(report: &mut DiagnosticReport, fields: &ConfigFields<'_>) -> Option<RuleCheck> {
    let file = fields.given("file");
    let target = file.map(|node| inside(report, node).map(PatternTarget::File));
    let (node, pattern) = (fields.given("pattern")?, fields.some_text("pattern")?);
    if let Err(error) = Regex::new(&pattern) {
        let at =
            caret(&error, &pattern).map_or(node.at, |index| report.within(node, &pattern, index));
        let hint = r"write a `\` before a special character that you mean literally, such as `\(`"
            .to_owned();
        report.error_hint(
            at,
            format!(
                "{} is not a regular expression: {}",
                quoted(&pattern),
                reason(&error)
            ),
            hint,
        );
        return None;
    }
    let target = target.unwrap_or(Some(PatternTarget::AgentOutput))?;
    Some(RuleCheck::ContentPattern {
        pattern,
        target,
        must_match: fields.bool("must_match"),
    })
}

/// The byte of a pattern that an error points to. The error shows a one-line pattern with a caret
/// below.
fn caret(error: &regex::Error, pattern: &str) -> Option<usize> {
    let text = error.to_string();
    let mut lines = text.lines();
    let drawn = lines.by_ref().find(|line| line.trim_start() == pattern)?;
    let indent = drawn.len() - pattern.len();
    let column = lines.next()?.find('^')?.checked_sub(indent)?;
    pattern.char_indices().nth(column).map(|(index, _)| index)
}

fn files(report: &mut DiagnosticReport, fields: &ConfigFields<'_>) -> Option<RuleCheck> {
    let list = fields.given("files")?;
    if matches!(&list.kind, NodeKind::List(items) if items.is_empty()) {
        let hint = "disable a rule with `enabled: false`".to_owned();
        report.error_hint(
            list.at,
            "`files` is an empty list, so the rule checks nothing",
            hint,
        );
    }
    let files = list
        .items()
        .iter()
        .filter_map(|item| inside(report, item))
        .collect();
    Some(RuleCheck::FileExistence {
        files,
        need: fields.one_of("mode"),
    })
}

fn coverage(
    report: &mut DiagnosticReport,
    fields: &ConfigFields<'_>,
    at: SourceSpan,
) -> Option<RuleCheck> {
    let Some((_, node)) = either(report, fields, "file", "report") else {
        report.error_hint(
            at,
            "`file` is missing",
            "name the coverage report".to_owned(),
        );
        return None;
    };
    let file = inside(report, node)?;
    let format = fields.maybe_one_of("format").or_else(|| guess(&file));
    if format.is_none() && fields.given("format").is_none() {
        let message = format!(
            "creel cannot derive the format of the report from the name {}",
            quoted(&file)
        );
        report.error_hint(
            node.at,
            message,
            format!(
                "set its `format`: {}",
                names(&["lcov", "cobertura", "json"])
            ),
        );
    }
    Some(RuleCheck::Coverage {
        file,
        format: format?,
        minimum: fields.maybe_number("minimum")?,
    })
}

/// Guesses the format of a report from its file name.
fn guess(file: &str) -> Option<CoverageFormat> {
    let lower = file.to_lowercase();
    let path = Path::new(&lower);
    let name = path.file_name()?.to_str()?;
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("xml") => Some(CoverageFormat::Cobertura),
        Some("json") => Some(CoverageFormat::Json),
        Some("info") => Some(CoverageFormat::Lcov),
        Some(_) | None => name.contains("lcov").then_some(CoverageFormat::Lcov),
    }
}

/// A path inside the project's folder, as written.
fn inside(report: &mut DiagnosticReport, node: &ConfigNode) -> Option<String> {
    let written = node.text().filter(|text| !text.trim().is_empty())?;
    let hint = if written.starts_with('/') {
        "write it relative to the project folder"
    } else if written == "~" || written.starts_with("~/") {
        "creel does not expand `~` here; write the path relative to the project folder"
    } else if written.split('/').any(|part| part == "..") {
        "a rule reads only files in the project folder: remove the `..`"
    } else if written.contains('\0') {
        "a file name cannot contain NUL"
    } else {
        let mut plain = written;
        while let Some(rest) = plain.strip_prefix("./").filter(|rest| !rest.is_empty()) {
            plain = rest.trim_start_matches('/');
        }
        return Some(plain.to_owned());
    };
    report.error_hint(
        node.at,
        format!("{} is outside the project folder", quoted(written)),
        hint.to_owned(),
    );
    None
}
