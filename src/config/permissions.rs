//! Reads `permissions:`, `protect:`, `limits:` and `budget:`.
//!
//! Owns file patterns. Does not judge requests: see [`crate::engine::session`].
//!
//! # Invariants
//! - A pattern that can never match a file is a mistake: a rule that protects nothing must not look
//!   like one that does.

use fast_glob::ErrorKind;

use super::{
    diagnostic::quoted,
    fields::{ConfigFields, as_name},
    hooks,
    keys::{BUDGET, LIMITS, OUTAGE, PERMISSION},
    node::{ConfigNode, NodeKind},
    report::DiagnosticReport,
};
use crate::engine::{
    actor::UserCommand,
    policy::{Budget, LimitsPlan, OutagePlan, PermissionPolicy, PermissionRule},
};

/// In the order in which they are tried.
pub(super) fn permissions(
    report: &mut DiagnosticReport,
    list: Option<&ConfigNode>,
) -> Vec<PermissionRule> {
    let mut rules: Vec<PermissionRule> = Vec::new();
    for node in list.map(ConfigNode::items).unwrap_or_default() {
        let fields = ConfigFields::of(&PERMISSION, Some(node));
        let kinds = one_or_more(report, fields.given("kind"), "kind");
        let kinds = kinds.into_iter().filter_map(as_name).collect();
        let paths = one_or_more(report, fields.given("path"), "path");
        let paths = paths
            .into_iter()
            .filter_map(|path| pattern(report, path))
            .collect();
        let Some(action) = fields.maybe_one_of::<PermissionPolicy>("action") else {
            continue;
        };
        if rules
            .iter()
            .any(|rule| rule.kinds.is_empty() && rule.paths.is_empty())
        {
            report.warning(
                node.at,
                "this rule has no effect: a rule above matches every request",
            );
        }
        rules.push(PermissionRule {
            kinds,
            paths,
            action,
        });
    }
    rules
}

/// The patterns of paths that no turn can change.
pub(super) fn protect(report: &mut DiagnosticReport, list: Option<&ConfigNode>) -> Vec<String> {
    let mut patterns = Vec::new();
    for node in list.map(ConfigNode::items).unwrap_or_default() {
        let Some(pattern) = pattern(report, node) else {
            continue;
        };
        if pattern.starts_with('/') {
            let hint = "write the path relative to the project folder".to_owned();
            report.error_hint(
                node.at,
                format!("{} is outside the project", quoted(&pattern)),
                hint,
            );
        } else {
            patterns.push(pattern);
        }
    }
    patterns
}

/// Accepts one value or a list.
fn one_or_more<'a>(
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

/// Normalizes a pattern. It is matched against paths relative to the project, or absolute paths of
/// files outside.
fn pattern(report: &mut DiagnosticReport, node: &ConfigNode) -> Option<String> {
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
        let (what, hint) = reason(error.kind);
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

fn reason(kind: ErrorKind) -> (&'static str, &'static str) {
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

/// The user's commands that agents and hooks can give too.
pub(super) fn agent_may(root: &ConfigFields<'_>) -> Vec<UserCommand> {
    root.given("agent_may")
        .map(ConfigNode::items)
        .unwrap_or_default()
        .iter()
        .filter_map(as_name)
        .collect()
}

/// What happens at a usage limit, and the names of the fallback agents.
pub(super) fn limits(
    report: &mut DiagnosticReport,
    root: &ConfigFields<'_>,
) -> (LimitsPlan, Vec<String>) {
    let limits = root.below("limits", &LIMITS);
    let fallback = limits
        .given("fallback")
        .map(|list| hooks::mention(report, list))
        .unwrap_or_default();
    let (on_usage_limit, max_wait) = (limits.one_of("on_usage_limit"), limits.duration("max_wait"));
    let outage = limits.below("outage", &OUTAGE);
    let (base, max, total) = (
        outage.duration("base"),
        outage.duration("max"),
        outage.duration("total"),
    );
    let (outage, silence) = (OutagePlan { base, max, total }, limits.duration("silence"));
    (
        LimitsPlan {
            on_usage_limit,
            max_wait,
            outage,
            silence,
            fallback: Vec::new(),
        },
        fallback,
    )
}

pub(super) fn budget(root: &ConfigFields<'_>) -> Budget {
    let budget = root.below("budget", &BUDGET);
    Budget {
        tokens: budget.maybe_int("tokens"),
        cost: budget.maybe_number("cost"),
        time: budget.maybe_duration("time"),
    }
}
