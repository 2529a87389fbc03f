//! Reads `stop.hooks` into the hooks that decide whether the session is complete, and `stop.rules`
//! into the checks after each iteration.
//!
//! Owns what their keys mean together, names, patterns, and which files a rule can read. Does not
//! run or check anything: see [`crate::engine::stop`] and [`crate::hooks`].
//!
//! # Invariants
//! - Every hook has a unique name, including the parts of groups: its answer is stored under that
//!   name.
//! - A rule that can never be checked is a mistake: its pattern compiles, its report has a format,
//!   its files have names.
//! - No path of a rule leads out of the project, as far as its name shows.

use std::{collections::BTreeMap, path::Path};

use regex::Regex;

use super::{
    diagnostic::{DiagnosticReport, SourceSpan, names, quoted, suggest},
    fields::{ConfigFields, reason},
    hooks::check_placeholders,
    keys::{
        COMMAND_RULE, COVERAGE_RULE, FILES_RULE, PATTERN_RULE, STOP_ACTION, STOP_ALL, STOP_ANY,
        STOP_COMMAND, STOP_PRESET, STOP_WHEN,
    },
    node::{ConfigNode, NodeKind},
    shape::MapShape,
    validate,
};
use crate::engine::{
    hooks::{point::HookPoint, template},
    policy::{
        CoverageFormat, PatternTarget, RuleCheck, RuleSpec, StopHook, StopHookCondition,
        StopHookKind, StopPreset,
    },
    stop::{
        context::OFFERED,
        decision::{StopAction, StopResult},
    },
};

/// `rules` are the names that conditions can use.
pub(super) fn hooks(
    report: &mut DiagnosticReport,
    items: &[ConfigNode],
    rules: &[&str],
) -> Vec<StopHook> {
    let mut reader = StopHookReader {
        report,
        rules,
        taken: Vec::new(),
    };
    items.iter().filter_map(|node| reader.hook(node)).collect()
}

struct StopHookReader<'a> {
    report: &'a mut DiagnosticReport,
    rules: &'a [&'a str],
    /// The names in use.
    taken: Vec<String>,
}

impl StopHookReader<'_> {
    fn hook(&mut self, node: &ConfigNode) -> Option<StopHook> {
        let (shape, judge, unnamed) = match &node.kind {
            NodeKind::Text(name) => {
                let preset = StopPreset::named(name)?;
                let hook = StopHook {
                    name: self.name(None, preset.name(), node)?,
                    ..StopHook::preset(preset)
                };
                return Some(self.advised(hook, node));
            }
            NodeKind::Map(_) if node.get("command").is_some() => self.command(node)?,
            NodeKind::Map(_) if node.get("action").is_some() => fixed(node)?,
            NodeKind::Map(_) if node.get("all").is_some() => (
                &STOP_ALL,
                StopHookKind::All(self.parts(node, "all")),
                "all".into(),
            ),
            NodeKind::Map(_) if node.get("any").is_some() => (
                &STOP_ANY,
                StopHookKind::Any(self.parts(node, "any")),
                "any".into(),
            ),
            NodeKind::Map(_) => {
                let preset = StopPreset::named(node.get("preset")?.text()?)?;
                (
                    &STOP_PRESET,
                    StopHookKind::Preset(preset),
                    preset.name().to_owned(),
                )
            }
            NodeKind::Null
            | NodeKind::Bool(_)
            | NodeKind::Int(_)
            | NodeKind::Float(_)
            | NodeKind::List(_) => {
                return None;
            }
        };
        let fields = ConfigFields::of(shape, Some(node));
        let name = self.name(fields.some_text("name"), &unnamed, node)?;
        let when = self.when(&fields.below("when", &STOP_WHEN));
        Some(self.advised(
            StopHook {
                name,
                judge,
                when,
                enabled: fields.bool("enabled"),
            },
            node,
        ))
    }

    fn advised(&mut self, hook: StopHook, node: &ConfigNode) -> StopHook {
        if hook.enabled
            && hook.judge == StopHookKind::Preset(StopPreset::Validation)
            && self.rules.is_empty()
        {
            validate::about_validation(self.report, node.at);
        }
        hook
    }

    fn parts(&mut self, node: &ConfigNode, key: &str) -> Vec<StopHook> {
        let Some(list) = node.get(key) else {
            return Vec::new();
        };
        if list.items().is_empty() {
            self.report.error(list.at, format!("`{key}` is empty"));
        }
        list.items()
            .iter()
            .filter_map(|part| self.hook(part))
            .collect()
    }

    fn command(&mut self, node: &ConfigNode) -> Option<(&'static MapShape, StopHookKind, String)> {
        let fields = ConfigFields::of(&STOP_COMMAND, Some(node));
        let (at, command) = (node.get("command")?.at, fields.some_text("command")?);
        check_placeholders(
            self.report,
            "a stop hook",
            template::offered(HookPoint::StopDecision),
            &command,
            at,
        );
        Some((
            &STOP_COMMAND,
            StopHookKind::Command {
                command: command.clone(),
                timeout: fields.duration("timeout"),
            },
            command,
        ))
    }

    /// The configured name, which must be unique, or a generated one, with a number if it is in
    /// use.
    fn name(&mut self, given: Option<String>, unnamed: &str, node: &ConfigNode) -> Option<String> {
        let name = match given {
            Some(given) if self.taken.contains(&given) => {
                let at = node.get("name").map_or(node.at, |name| name.at);
                let hint = "give one of them another `name`".to_owned();
                self.report.error_hint(
                    at,
                    format!("another stop hook has the name {}", quoted(&given)),
                    hint,
                );
                return None;
            }
            Some(given) => given,
            None => {
                let numbered = (2..).map(|n| format!("{unnamed} ({n})"));
                let mut names = std::iter::once(unnamed.to_owned()).chain(numbered);
                names.find(|name| !self.taken.contains(name))?
            }
        };
        self.taken.push(name.clone());
        Some(name)
    }

    fn when(&mut self, when: &ConfigFields<'_>) -> StopHookCondition {
        let (files, labels) = (when.texts("files"), when.texts("labels"));
        let (from, to) = self.iterations(when.given("iteration"));
        let rules = when
            .given("rules")
            .map(ConfigNode::entries)
            .unwrap_or_default();
        let mut results = BTreeMap::new();
        for (key, node) in rules {
            if !self.rules.contains(&key.name.as_str()) {
                let hint = suggest(
                    &key.name,
                    self.rules.iter().copied(),
                    "choose from the rules",
                );
                self.report
                    .error_hint(key.at, format!("unknown rule {}", quoted(&key.name)), hint);
            }
            results.insert(key.name.clone(), node.text() == Some("passed"));
        }
        StopHookCondition {
            from,
            to,
            files,
            rules: results,
            labels,
        }
    }

    /// Parses `5`, `3..5`, `3..` or `..5`.
    fn iterations(&mut self, given: Option<&ConfigNode>) -> (Option<u32>, Option<u32>) {
        let Some(node) = given else {
            return (None, None);
        };
        let text = match &node.kind {
            NodeKind::Int(n) => n.to_string(),
            NodeKind::Text(text) => text.replace(' ', ""),
            NodeKind::Null
            | NodeKind::Bool(_)
            | NodeKind::Float(_)
            | NodeKind::List(_)
            | NodeKind::Map(_) => {
                return (None, None);
            }
        };
        let (from, to) = text.split_once("..").unwrap_or((&text, &text));
        let bound = |text: &str| {
            if text.is_empty() {
                Some(None)
            } else {
                text.parse().ok().map(Some)
            }
        };
        match (bound(from), bound(to)) {
            (Some(None), Some(None)) | (None, _) | (_, None) => {
                let message = format!("{} is not a range of iterations", quoted(&text));
                self.report.error_hint(
                    node.at,
                    message,
                    "write `5`, `3..5`, `3..` or `..5`".to_owned(),
                );
            }
            (Some(Some(from)), Some(Some(to))) if from > to => {
                self.report
                    .error(node.at, "this range ends before it begins".to_owned());
            }
            (Some(from), Some(to)) => return (from, to),
        }
        (None, None)
    }
}

fn fixed(node: &ConfigNode) -> Option<(&'static MapShape, StopHookKind, String)> {
    let fields = ConfigFields::of(&STOP_ACTION, Some(node));
    let action: StopAction = fields.maybe_one_of("action")?;
    let reason = fields
        .some_text("reason")
        .unwrap_or_else(|| format!("the config says so: {}", word(action)));
    let result = StopResult {
        next_prompt: fields.some_text("next_prompt"),
        checkpoint_data: fields.given("checkpoint").map(ConfigNode::to_json),
        ..StopResult::new(action, reason)
    };
    let unnamed = fields
        .some_text("reason")
        .unwrap_or_else(|| word(action).to_owned());
    Some((&STOP_ACTION, StopHookKind::Fixed(result), unnamed))
}

const fn word(action: StopAction) -> &'static str {
    match action {
        StopAction::Complete => "complete",
        StopAction::Continue => "continue",
        StopAction::Escalate => "escalate",
    }
}

/// In the order in which they are checked.
pub(super) fn rules(report: &mut DiagnosticReport, list: Option<&ConfigNode>) -> Vec<RuleSpec> {
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
    validate::about_rule(report, &command, fields, written.at);
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
