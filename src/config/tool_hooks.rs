//! Reads what hooks of tool calls are for: `match:`, `matcher:` and Claude Code's names of the
//! points.
//!
//! # Invariants
//! - A matcher that can never match is a mistake.

use super::{
    agents::reason,
    diagnostic::{DiagnosticReport, quoted},
    fields::{ConfigFields, as_name},
    keys::TOOL_MATCH,
    node::ConfigNode,
    plan::{one_or_more, pattern},
};
use crate::engine::{
    hooks::{
        claude::{ClaudeEvent, ClaudeHandler},
        point::HookPoint,
        tool_matcher::{ClaudeToolEvent, ToolMatcher, check_text},
    },
    policy::HookSpec,
    time::TimeSpan,
};

/// The time limit of Claude Code's hooks.
const CLAUDE_TIMEOUT: TimeSpan = TimeSpan::secs(600);

/// Sets what a hook is for, or refuses a matcher at a point without tool calls.
pub(super) fn complete(
    report: &mut DiagnosticReport,
    point: HookPoint,
    spec: &mut HookSpec,
    fields: &ConfigFields<'_>,
) {
    let (map, text) = (fields.given("match"), fields.given("matcher"));
    if !is_about_tools(point) {
        for (name, given) in [("match", map), ("matcher", text)] {
            if let Some(given) = given {
                let hint = "only `pre_tool` and `post_tool` are about tool calls".to_owned();
                let message = format!("`{name}` has no effect at `{point}`");
                report.error_hint(given.at, message, hint);
            }
        }
        return;
    }
    let mut matcher = spec.matcher.take().unwrap_or_default();
    if let Some(node) = map {
        read(report, &mut matcher, node);
    }
    if let Some(node) = text {
        group(report, &mut matcher, node);
    }
    spec.matcher = Some(matcher).filter(|matcher| **matcher != ToolMatcher::default());
}

/// Adds the condition of a matcher's text.
pub(super) fn group(report: &mut DiagnosticReport, matcher: &mut ToolMatcher, node: &ConfigNode) {
    let Some(text) = node.text() else { return };
    if let Err(error) = check_text(text) {
        let message = format!(
            "{} is not a valid pattern: {}",
            quoted(text),
            reason(&error)
        );
        let hint = "write names such as `Edit|Write`, or a regular expression".to_owned();
        report.error_hint(node.at, message, hint);
    }
    matcher.text = Some(text.to_owned()).filter(|text| !matches!(text.trim(), "" | "*"));
}

pub(super) const fn is_about_tools(point: HookPoint) -> bool {
    matches!(point, HookPoint::PreTool | HookPoint::PostTool)
}

fn read(report: &mut DiagnosticReport, matcher: &mut ToolMatcher, node: &ConfigNode) {
    let fields = ConfigFields::of(&TOOL_MATCH, Some(node));
    let names = one_or_more(report, fields.given("name"), "name");
    let names = names.into_iter().filter_map(|name| name.text());
    matcher.names = names.map(str::to_owned).collect();
    let kinds = one_or_more(report, fields.given("kind"), "kind");
    matcher.kinds = kinds.into_iter().filter_map(as_name).collect();
    let paths = one_or_more(report, fields.given("path"), "path");
    let paths = paths.into_iter().filter_map(|path| pattern(report, path));
    matcher.paths = paths.collect();
}

/// A hook under one of Claude Code's names gets Claude Code's input and time limit.
pub(super) fn for_claude(spec: &mut HookSpec, event: ClaudeToolEvent, fields: &ConfigFields<'_>) {
    spec.matcher.get_or_insert_default().claude = Some(event);
    spec.claude = Some(Box::new(ClaudeHandler::new(ClaudeEvent::Tool(event))));
    if fields.given("timeout").is_none() {
        spec.timeout = CLAUDE_TIMEOUT;
    }
}
