//! What `creel check` advises about a valid config that probably does not do what its author
//! expects.
//!
//! Owns the list of tools whose exit codes and run times creel knows. A script can do anything, so
//! nothing is said about it: a false alarm is worse than no warning.

use super::{
    diagnostic::{DiagnosticReport, SourceSpan, quoted},
    fields::ConfigFields,
};
use crate::{
    engine::policy::{HookAction, HookSpec},
    process::programs::{deciding_program, needed},
};

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
