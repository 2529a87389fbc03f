//! Checks a tree against the table of keys.
//!
//! Owns every mistake in a single value: unknown keys, wrong types, names and numbers out of range.
//! Does not check values together: see [`mod@super::load`].
//!
//! Also advises about a valid config that probably does not do what its author expects, for
//! `creel check`. Owns the list of tools whose exit codes and run times creel knows. A script can
//! do anything, so nothing is said about it: a false alarm is worse than no warning.

use super::{
    diagnostic::{DiagnosticReport, SourceSpan, is_secret, names, nearest, quoted, suggest},
    fields::{ConfigFields, DurationError, as_number, duration},
    keys::HOOKS,
    node::{ConfigKey, ConfigNode, NodeKind},
    shape::{DefaultValue, FieldShape, KeyPolicy, MapShape, ValueType, ZeroDuration},
};
use crate::{
    engine::{
        hooks::claude::refused_like,
        policy::{HookAction, HookSpec},
    },
    process::programs::{deciding_program, needed},
};

/// Checks a map whose keys are in the table.
pub(super) fn shape(report: &mut DiagnosticReport, shape: &'static MapShape, node: &ConfigNode) {
    let mut seen: Vec<(&'static str, &ConfigKey)> = Vec::new();
    let mut misspelt: Vec<&'static str> = Vec::new();
    for (key, value) in node.entries() {
        let Some(field) = shape.field(&key.name) else {
            misspelt.extend(nearest(
                &key.name,
                shape.fields.iter().map(|field| field.name),
            ));
            unknown_key(report, shape, key);
            continue;
        };
        if let Some((_, first)) = seen.iter().find(|(name, _)| *name == field.name) {
            let message = format!(
                "{} appears twice: it means the same as {}",
                quoted(&key.name),
                quoted(&first.name)
            );
            report.error_hint(key.at, message, "keep one of them".to_owned());
        }
        seen.push((field.name, key));
        if !value.is_null() {
            check(report, &field.ty, value, &key.name);
        }
    }
    for field in shape
        .fields
        .iter()
        .filter(|field| matches!(field.default, DefaultValue::Required))
    {
        // A misspelt key is not reported as missing too.
        if node.get(field.name).is_none_or(ConfigNode::is_null) && !misspelt.contains(&field.name) {
            missing(report, shape, field, node);
        }
    }
}

fn missing(report: &mut DiagnosticReport, shape: &MapShape, field: &FieldShape, node: &ConfigNode) {
    // A key without a value is a better position than the map around it.
    let at = node
        .entries()
        .iter()
        .find(|(key, _)| shape.field(&key.name).is_some_and(|f| f.name == field.name));
    let at = at.map_or(node.at, |(key, _)| key.at);
    report.error_hint(
        at,
        format!("`{}` is missing", field.name),
        as_hint(field.doc),
    );
}

fn as_hint(doc: &str) -> String {
    let sentence = doc.split(';').next().unwrap_or(doc).trim_end_matches('.');
    let mut letters = sentence.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_lowercase().to_string() + letters.as_str()
    })
}

fn unknown_key(report: &mut DiagnosticReport, shape: &MapShape, key: &ConfigKey) {
    if shape.keys == KeyPolicy::Free {
        return;
    }
    if shape.name == HOOKS.name
        && let Some((name, why)) = refused_like(&key.name)
    {
        let name = quoted(name);
        let message = format!("creel does not run hooks of Claude Code's event {name}");
        return report.error_hint(key.at, message, why.to_owned());
    }
    let known = shape.fields.iter().map(|field| field.name);
    let hint = suggest(&key.name, known, "known here")
        .unwrap_or_else(|| "`creel schema` lists all keys".to_owned());
    report.error_hint(
        key.at,
        format!("unknown {} {}", shape.noun, quoted(&key.name)),
        hint,
    );
}

/// Checks one value. `name` is for messages.
pub(super) fn check(report: &mut DiagnosticReport, ty: &ValueType, node: &ConfigNode, name: &str) {
    match (ty, &node.kind) {
        (ValueType::Anything, _)
        | (ValueType::Bool | ValueType::BoolOr(_), NodeKind::Bool(_))
        | (ValueType::Text, NodeKind::Text(_)) => {}
        (ValueType::Integer(min, max), NodeKind::Int(n)) => {
            if !(i128::from(*min)..=i128::from(*max)).contains(n) {
                out_of_range(report, ty, node, name);
            }
        }
        (ValueType::Number(min, max), NodeKind::Int(_) | NodeKind::Float(_)) => {
            if !as_number(&node.kind).is_some_and(|x| (*min..=*max).contains(&x)) {
                out_of_range(report, ty, node, name);
            }
        }
        (ValueType::Duration(zero), _) => check_duration(report, ty, *zero, node, name),
        (ValueType::SomeText, NodeKind::Text(text)) => {
            if text.trim().is_empty() {
                report.error(node.at, format!("{} is empty", quoted(name)));
            }
        }
        (ValueType::OneOf(known), NodeKind::Text(text)) => {
            if !known.contains(&text.as_str()) {
                let message = format!(
                    "{} must be {}, not {}",
                    quoted(name),
                    ty.describe(),
                    quoted(text)
                );
                let hint = nearest(text, known.iter().copied())
                    .map(|near| format!("did you mean `{near}`?"));
                report.error_hint(node.at, message, hint);
            }
        }
        (ValueType::BoolOr(words), NodeKind::Text(text)) => {
            if !words.contains(&text.as_str()) {
                let message = format!(
                    "{} must be {}, not {}",
                    quoted(name),
                    ty.describe(),
                    quoted(text)
                );
                let meant = meant_as_bool(text).map(|meant| meant.to_string());
                let meant =
                    meant.or_else(|| nearest(text, words.iter().copied()).map(str::to_owned));
                report.error_hint(
                    node.at,
                    message,
                    meant.map(|meant| format!("did you mean `{meant}`?")),
                );
            }
        }
        (ValueType::List(item), NodeKind::List(items)) => {
            for node in items {
                check(report, item, node, name);
            }
        }
        (ValueType::Map(value), NodeKind::Map(entries)) => {
            for (key, node) in entries {
                check(report, value, node, &key.name);
            }
        }
        (ValueType::Object(of), NodeKind::Map(_)) => shape(report, of, node),
        (ValueType::Either(alternatives), _) => {
            match alternatives.iter().find(|ty| ty.is_for(node)) {
                Some(ty) => check(report, ty, node, name),
                None => wrong_type(report, ty, node, name),
            }
        }
        (
            ValueType::Bool
            | ValueType::Text
            | ValueType::SomeText
            | ValueType::Integer(..)
            | ValueType::Number(..)
            | ValueType::OneOf(_)
            | ValueType::BoolOr(_)
            | ValueType::List(_)
            | ValueType::Map(_)
            | ValueType::Object(_),
            _,
        ) => wrong_type(report, ty, node, name),
    }
}

fn check_duration(
    report: &mut DiagnosticReport,
    ty: &ValueType,
    zero: ZeroDuration,
    node: &ConfigNode,
    name: &str,
) {
    let name = quoted(name);
    match duration(node) {
        Ok(span) if span.is_zero() && zero == ZeroDuration::Refused => {
            report.error_hint(
                node.at,
                format!("{name} must be longer than 0"),
                "remove it to use the default".to_owned(),
            );
        }
        Ok(_) => {}
        Err(DurationError::WrongType) => wrong_type(report, ty, node, &name[1..name.len() - 1]),
        Err(DurationError::Unreadable) => {
            report.error(node.at, format!("{name} must be {}", ty.describe()));
        }
        Err(DurationError::Negative) => {
            report.error(node.at, format!("{name} must not be negative"));
        }
        Err(DurationError::TooLong) => {
            report.error(node.at, format!("{name} is longer than a year"));
        }
    }
}

fn out_of_range(report: &mut DiagnosticReport, ty: &ValueType, node: &ConfigNode, name: &str) {
    report.error(
        node.at,
        format!("{} must be {}", quoted(name), ty.describe()),
    );
}

fn wrong_type(report: &mut DiagnosticReport, ty: &ValueType, node: &ConfigNode, name: &str) {
    let message = format!(
        "{} must be {}, not {}",
        quoted(name),
        ty.describe(),
        node.kind.describe()
    );
    let written = report.source.slice(node.at).to_owned();
    let hint = if let (
        ValueType::Text | ValueType::SomeText,
        NodeKind::Int(_) | NodeKind::Float(_) | NodeKind::Bool(_),
    ) = (ty, &node.kind)
    {
        let quotes = "put it in quotes";
        Some(if is_secret(name) {
            quotes.to_owned()
        } else {
            format!("{quotes}: \"{written}\"")
        })
    } else if let (ValueType::Bool, NodeKind::Text(text)) = (ty, &node.kind) {
        meant_as_bool(text).map(|meant| format!("did you mean `{meant}`?"))
    } else if let (ValueType::List(_), NodeKind::Text(_) | NodeKind::Map(_)) = (ty, &node.kind) {
        Some("begin each item with `- `".to_owned())
    } else if let (ValueType::OneOf(known), NodeKind::Bool(_)) = (ty, &node.kind) {
        Some(format!("known: {}", names(known)))
    } else {
        None
    };
    report.error_hint(node.at, message, hint);
}

fn meant_as_bool(text: &str) -> Option<bool> {
    match text.to_lowercase().as_str() {
        "yes" | "on" | "y" | "true" => Some(true),
        "no" | "off" | "n" | "false" => Some(false),
        _ => None,
    }
}

/// Tools that test, lint or build, and exit with 1 (or another code than 2) when they find
/// something.
const TOOLS: &[&str] = &[
    "ava",
    "biome",
    "black",
    "bun",
    "bundle",
    "cargo",
    "composer",
    "ctest",
    "dart",
    "deno",
    "dotnet",
    "eslint",
    "flake8",
    "flutter",
    "go",
    "golangci-lint",
    "gradle",
    "gradlew",
    "jest",
    "mvn",
    "mvnw",
    "mypy",
    "ninja",
    "nox",
    "npm",
    "phpunit",
    "pnpm",
    "prettier",
    "pyright",
    "pytest",
    "rake",
    "rspec",
    "rubocop",
    "ruff",
    "sbt",
    "shellcheck",
    "swift",
    "tox",
    "vitest",
    "xcodebuild",
    "yarn",
];
/// The same, but they can exit with 2, or with the code of the tool that they start.
const TOOLS_WITH_EXIT_2: &[&str] = &[
    "bazel",
    "gmake",
    "make",
    "mix",
    "npx",
    "pipenv",
    "poetry",
    "pylint",
    "stylelint",
    "tsc",
    "uv",
];

fn file_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

fn is_tool(program: &str) -> bool {
    let name = file_name(program);
    TOOLS.contains(&name) || TOOLS_WITH_EXIT_2.contains(&name)
}

/// Advice about a hook under `hooks.stop`.
pub(super) fn about_stop_hook(
    report: &mut DiagnosticReport,
    hook: &HookSpec,
    fields: &ConfigFields<'_>,
    at: SourceSpan,
) {
    if !hook.enabled {
        return;
    }
    let (deciding, programs) = match &hook.action {
        HookAction::Command(text) => (
            deciding_program(text).filter(|_| !text.contains("exit 2")),
            needed(text),
        ),
        HookAction::Exec(arguments) => (
            arguments.first().cloned(),
            arguments.first().cloned().into_iter().collect(),
        ),
        HookAction::Builtin(_) | HookAction::Gatekeeper(_) => return,
    };
    let deciding = deciding.filter(|program| TOOLS.contains(&file_name(program)));
    if let Some(program) = deciding.filter(|_| hook.on_failure.is_none()) {
        let message = format!(
            "a failure of {} does not send the agent back: under `hooks.stop` only exit code 2 blocks",
            quoted(&program)
        );
        report.advise(
            at,
            message,
            "move it to `checks:`, or write `on_failure: ignore` if it is only advisory",
        );
    } else {
        about_timeout(report, &programs, fields, at);
    }
}

/// Advice about a rule with a command.
pub(super) fn about_rule(
    report: &mut DiagnosticReport,
    command: &str,
    fields: &ConfigFields<'_>,
    at: SourceSpan,
) {
    if fields.bool("enabled") {
        about_timeout(report, &needed(command), fields, at);
    }
}

fn about_timeout(
    report: &mut DiagnosticReport,
    programs: &[String],
    fields: &ConfigFields<'_>,
    at: SourceSpan,
) {
    if fields.given("timeout").is_some() {
        return;
    }
    if let Some(program) = programs.iter().find(|program| is_tool(program)) {
        let message = format!(
            "the default timeout of 60 s is short for {}",
            quoted(program)
        );
        report.advise(at, message, "set a longer one: `timeout: 10m`");
    }
}

/// Advice about `validation` among the stop decision hooks, if the config has no rules.
pub(super) fn about_validation(report: &mut DiagnosticReport, at: SourceSpan) {
    let message = "`validation` never completes the session: the config has no rules to judge by";
    report.advise(at, message, "add `rules:`, or let `default` decide");
}
