//! Reads hooks of Claude Code: under its own names in `hooks:`, and from the settings files that
//! `hooks.import` names.
//!
//! Owns matchers, the keys of a handler, and which handlers of a file creel runs. What an event
//! means is in `crate::engine::hooks::claude`.
//!
//! Also reads what creel's own hooks of tool calls are for: `match:` and `matcher:`.
//!
//! # Invariants
//! - Every handler of an imported file either runs, or `creel check` shows why it does not.
//! - A file that creel cannot read as its tool does is an error.
//! - A matcher that can never match is a mistake.

use std::path::Path;

use regex::Regex;
use serde::Serialize;

use super::{
    agents::reason,
    diagnostic::{DiagnosticReport, SourceSpan, quoted},
    fields::{ConfigFields, as_name, duration},
    hooks::HookLists,
    keys::TOOL_MATCH,
    node::{ConfigNode, NodeKind},
    plan::{one_or_more, pattern},
};
use crate::{
    engine::{
        hooks::{
            claude::{ClaudeEvent, ClaudeHandler, ClaudeOffer, offer},
            point::{DecisionMode, HookPoint},
            tool_matcher::{ClaudeToolEvent, ToolMatcher, check_text},
        },
        policy::{HookAction, HookFailurePolicy, HookSpec, PipeOutput, RetryOptions},
        protect::PROTECT,
        time::TimeSpan,
    },
    text::{command_line, first_line},
};

/// How long a `SessionEnd` hook may run at most.
const SESSION_END: TimeSpan = TimeSpan::secs(60);
/// Where creel has no such setting of its own.
const PRIORITY: i64 = 100;
/// Why a matcher of a question cannot be used.
const NO_SERVER: &str = "creel does not know which server asks";
/// Why creel does not run a handler that is not a command.
const NO_COMMAND: &str = "creel runs only hooks of the type `command`";

/// A handler of an imported file, for `creel check`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ImportedHook {
    /// As the config names it.
    pub file: String,
    pub line: usize,
    pub event: String,
    /// What it runs, in one line.
    pub runs: String,
    pub result: ImportResult,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ImportResult {
    Runs {
        point: HookPoint,
        hook: String,
        /// What differs from the tool that the file is for. Empty: nothing.
        notes: String,
    },
    NotRun {
        why: String,
    },
}

/// Whose settings a file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SettingsFormat {
    Claude,
    Codex,
    /// Its timeouts are milliseconds, and only its session events mean the same.
    Gemini,
}

impl SettingsFormat {
    fn of(path: &Path) -> Self {
        let below = |folder: &str| path.components().any(|part| part.as_os_str() == folder);
        if below(".gemini") {
            Self::Gemini
        } else if below(".codex") {
            Self::Codex
        } else {
            Self::Claude
        }
    }

    fn offer(self, event: &str) -> ClaudeOffer {
        let same: &[ClaudeEvent] = match self {
            Self::Claude => return offer(event),
            Self::Codex => &[
                ClaudeEvent::SessionStart,
                ClaudeEvent::UserPromptSubmit,
                ClaudeEvent::Stop,
                ClaudeEvent::SessionEnd,
            ],
            Self::Gemini => &[ClaudeEvent::SessionStart, ClaudeEvent::SessionEnd],
        };
        // Codex has taken over Claude Code's events of tool calls.
        let tools = self == Self::Codex && ClaudeToolEvent::named(event).is_some();
        match offer(event) {
            ClaudeOffer::Runs(event) if tools || same.contains(&event) => ClaudeOffer::Runs(event),
            ClaudeOffer::Refused(why) => ClaudeOffer::Refused(why),
            ClaudeOffer::Runs(_) | ClaudeOffer::Unknown => {
                ClaudeOffer::Refused("it does not mean the same in this agent")
            }
        }
    }
}

/// Why a matcher cannot be used.
#[derive(Debug, thiserror::Error)]
enum MatcherError {
    #[error(
        "creel cannot read this regular expression: JavaScript's look-around and backreferences do not exist here"
    )]
    NotRegex,
    #[error("it selects nothing that happens in creel: {} has {}", .0.name(), .0.rules().words.join(", "))]
    Nothing(ClaudeEvent),
}

/// The words of the event that a matcher selects. None: all.
fn selected(event: ClaudeEvent, matcher: &str) -> Result<Option<Vec<String>>, MatcherError> {
    let all = event.rules().words;
    if all.is_empty() || matches!(matcher, "" | "*") {
        return Ok(None);
    }
    let separators = if event == ClaudeEvent::StopFailure {
        "_|"
    } else {
        "_|, -"
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || separators.contains(c);
    let words: Vec<&str> = if matcher.chars().all(is_plain) {
        let named: Vec<&str> = matcher.split(['|', ',']).map(str::trim).collect();
        all.iter()
            .copied()
            .filter(|word| named.contains(word))
            .collect()
    } else {
        let pattern = Regex::new(matcher).map_err(|_| MatcherError::NotRegex)?;
        all.iter()
            .copied()
            .filter(|word| pattern.is_match(word))
            .collect()
    };
    if words.is_empty() {
        return Err(MatcherError::Nothing(event));
    }
    let is_all = words.len() == all.len();
    Ok((!is_all).then(|| words.into_iter().map(str::to_owned).collect()))
}

/// The words that the matcher of a group in the config selects.
pub(super) fn group_words(
    report: &mut DiagnosticReport,
    event: ClaudeEvent,
    matcher: Option<&ConfigNode>,
) -> Option<Vec<String>> {
    let matcher = matcher?;
    let text = matcher.text()?;
    let is_all = matches!(text, "" | "*");
    if event.point() == HookPoint::OnQuestion && !is_all {
        let message = format!("{NO_SERVER}: `{}` takes no matcher", event.name());
        let hint = "without a matcher the hook sees every question".to_owned();
        report.error_hint(matcher.at, message, hint);
    } else if event.rules().words.is_empty() && !is_all {
        let message = format!("this matcher has no effect: `{}` has none", event.name());
        report.warning(matcher.at, message);
    }
    selected(event, text).unwrap_or_else(|error| {
        report.error(matcher.at, error.to_string());
        None
    })
}

/// Completes a hook that the config lists under an event's name.
pub(super) fn complete(spec: &mut HookSpec, handler: ClaudeHandler, fields: &ConfigFields<'_>) {
    if fields.given("timeout").is_none() {
        spec.timeout = handler.event.rules().timeout;
    }
    if let Some(node) = fields.written() {
        let keys = HandlerKeys { node };
        if let HookAction::Command(command) = &spec.action {
            spec.action = keys.action(command);
        }
        spec.on_failure = spec.on_failure.or_else(|| keys.on_failure(handler.event));
    }
    spec.claude = Some(Box::new(handler));
}

/// The keys of a handler that creel's own hooks do not have.
struct HandlerKeys<'a> {
    node: &'a ConfigNode,
}

impl HandlerKeys<'_> {
    fn is_set(&self, key: &str) -> bool {
        matches!(
            self.node.get(key).map(|node| &node.kind),
            Some(NodeKind::Bool(true))
        )
    }

    /// A shell command, or a program with its arguments.
    fn action(&self, command: &str) -> HookAction {
        let of = |text: &str| text.to_owned();
        if let Some(list) = self.node.get("args") {
            let arguments = list.items().iter().filter_map(ConfigNode::text).map(of);
            return HookAction::Exec([of(command)].into_iter().chain(arguments).collect());
        }
        match self.node.get("shell").and_then(ConfigNode::text) {
            Some("bash") => HookAction::Command(command_line(&[of("bash"), of("-c"), of(command)])),
            Some(_) | None => HookAction::Command(of(command)),
        }
    }

    /// Claude Code does not wait for it, so its result counts for nothing. creel waits, and its
    /// failure is only a warning.
    fn on_failure(&self, event: ClaudeEvent) -> Option<HookFailurePolicy> {
        let decides = event.point().rules().decides == DecisionMode::TheStrictest;
        let is_asked = event == ClaudeEvent::Stop || decides;
        (is_asked && self.is_set("async") && !self.is_set("async_rewake"))
            .then_some(HookFailurePolicy::Ignore)
    }
}

/// A file that `hooks.import` names.
pub(super) struct ImportFile<'a> {
    /// As the config names it.
    pub(super) name: &'a str,
    pub(super) path: &'a Path,
    pub(super) root: &'a ConfigNode,
}

/// Adds the hooks of a settings file to those of the config, and returns what became of each.
pub(super) fn import(
    report: &mut DiagnosticReport,
    file: &ImportFile<'_>,
    lists: &mut HookLists,
) -> Vec<ImportedHook> {
    let format = SettingsFormat::of(file.path);
    let mut all = Vec::new();
    let Some(hooks) = file.root.get("hooks").filter(|node| !node.is_null()) else {
        let at = SourceSpan {
            len: 1,
            ..file.root.at
        };
        report.warning(at, "this file has no `hooks`");
        return all;
    };
    if !is_map(report, hooks, "hooks") {
        return all;
    }
    for (event, groups) in hooks.entries() {
        if !is_list(report, groups, &event.name) {
            continue;
        }
        for group in groups.items() {
            if !is_map(report, group, &event.name) {
                continue;
            }
            let Some(handlers) = group.get("hooks") else {
                report.error(group.at, "`hooks` is missing");
                continue;
            };
            if !is_list(report, handlers, "hooks") {
                continue;
            }
            let matcher = group.get("matcher").filter(|node| !node.is_null());
            if let Some(matcher) = matcher.filter(|node| node.text().is_none()) {
                report.error(matcher.at, "`matcher` must be text");
                continue;
            }
            for handler in handlers.items() {
                if !is_map(report, handler, "hooks") {
                    continue;
                }
                let line = report.source.place(handler.at).line;
                let read = ImportedHandler {
                    format,
                    event: &event.name,
                    matcher: matcher.and_then(ConfigNode::text).unwrap_or_default(),
                    node: handler,
                    file: file.name,
                };
                let result = match read.spec(report) {
                    Ok(spec) => lists.add(spec, line),
                    Err(why) => ImportResult::NotRun { why },
                };
                all.push(ImportedHook {
                    file: file.name.to_owned(),
                    line,
                    event: event.name.clone(),
                    runs: read.shown(),
                    result,
                });
            }
        }
    }
    all
}

fn is_map(report: &mut DiagnosticReport, node: &ConfigNode, name: &str) -> bool {
    let fits = matches!(node.kind, NodeKind::Map(_));
    if !fits {
        let message = format!(
            "{} must have maps, not {}",
            quoted(name),
            node.kind.describe()
        );
        report.error(node.at, message);
    }
    fits
}

fn is_list(report: &mut DiagnosticReport, node: &ConfigNode, name: &str) -> bool {
    let fits = matches!(node.kind, NodeKind::List(_));
    if !fits {
        let message = format!(
            "{} must be a list, not {}",
            quoted(name),
            node.kind.describe()
        );
        report.error(node.at, message);
    }
    fits
}

struct ImportedHandler<'a> {
    format: SettingsFormat,
    event: &'a str,
    matcher: &'a str,
    node: &'a ConfigNode,
    file: &'a str,
}

impl ImportedHandler<'_> {
    /// What it runs, in one line.
    fn shown(&self) -> String {
        let of = |key: &str| self.node.get(key).and_then(ConfigNode::text);
        let what = ["command", "url", "tool", "prompt"]
            .into_iter()
            .find_map(of);
        let kind = of("type").unwrap_or("command");
        match what {
            Some(what) if kind == "command" => first_line(what, usize::MAX),
            Some(what) => format!("{kind}: {}", first_line(what, usize::MAX)),
            None => kind.to_owned(),
        }
    }

    /// The hook, or why creel does not run it.
    fn spec(&self, report: &mut DiagnosticReport) -> Result<HookSpec, String> {
        let event = match self.format.offer(self.event) {
            ClaudeOffer::Runs(event) => event,
            ClaudeOffer::Refused(why) => return Err(why.to_owned()),
            ClaudeOffer::Unknown => return Err("creel does not know this event".to_owned()),
        };
        let text = |key: &str| self.node.get(key).and_then(ConfigNode::text);
        if text("type").is_some_and(|kind| kind != "command") {
            return Err(NO_COMMAND.to_owned());
        }
        if text("shell") == Some("powershell") {
            return Err("creel has no PowerShell".to_owned());
        }
        let Some(command) = text("command").filter(|text| !text.trim().is_empty()) else {
            report.error(self.node.at, "`command` is missing");
            return Err(NO_COMMAND.to_owned());
        };
        let words = selected(event, self.matcher).map_err(|error| error.to_string())?;
        let matcher = match event {
            ClaudeEvent::Tool(event) => {
                check_text(self.matcher).map_err(|_| MatcherError::NotRegex.to_string())?;
                Some(Box::new(ToolMatcher {
                    text: Some(self.matcher.to_owned()).filter(|it| !matches!(it.trim(), "" | "*")),
                    claude: Some(event),
                    ..ToolMatcher::default()
                }))
            }
            ClaudeEvent::SessionStart
            | ClaudeEvent::UserPromptSubmit
            | ClaudeEvent::Stop
            | ClaudeEvent::StopFailure
            | ClaudeEvent::Notification
            | ClaudeEvent::TaskCompleted
            | ClaudeEvent::Elicitation
            | ClaudeEvent::ElicitationResult
            | ClaudeEvent::SessionEnd => None,
        };
        if event.point() == HookPoint::OnQuestion && !matches!(self.matcher, "" | "*") {
            return Err(NO_SERVER.to_owned());
        }
        if self.node.get("if").is_some() {
            return Err(
                "creel has no rules for `if`; the hook would run for more calls".to_owned(),
            );
        }
        let keys = HandlerKeys { node: self.node };
        Ok(HookSpec {
            name: command.trim().to_owned(),
            action: keys.action(command),
            timeout: self.timeout(report, event),
            pipe_output: PipeOutput::Never,
            priority: PRIORITY,
            enabled: true,
            on_failure: keys.on_failure(event),
            matcher,
            tests: None,
            retry: RetryOptions::default(),
            claude: Some(Box::new(ClaudeHandler {
                words,
                file: Some(self.file.to_owned()),
                ..ClaudeHandler::new(event)
            })),
        })
    }

    fn timeout(&self, report: &mut DiagnosticReport, event: ClaudeEvent) -> TimeSpan {
        let usual = event.rules().timeout;
        let Some(node) = self.node.get("timeout").filter(|node| !node.is_null()) else {
            return usual;
        };
        let Ok(given) = duration(node) else {
            report.error(node.at, "`timeout` must be a number of seconds");
            return usual;
        };
        let given = match self.format {
            SettingsFormat::Gemini => TimeSpan(given.0 / 1_000),
            SettingsFormat::Claude | SettingsFormat::Codex => given,
        };
        if given.is_zero() {
            usual
        } else if event == ClaudeEvent::SessionEnd {
            given.min(SESSION_END)
        } else {
            given
        }
    }
}

/// What differs from the tool that the file is for.
fn notes(spec: &HookSpec) -> &'static str {
    let is_at = |event| {
        spec.claude
            .as_ref()
            .is_some_and(|handler| handler.event == event)
    };
    if is_at(ClaudeEvent::Stop) && spec.is_advisory() {
        "; it is `async`: creel waits for it, and it checks nothing"
    } else if is_at(ClaudeEvent::TaskCompleted) {
        "; the task stays completed, and the agent gets the reason"
    } else if is_at(ClaudeEvent::UserPromptSubmit) {
        "; a block waits for you"
    } else if is_at(ClaudeEvent::Tool(ClaudeToolEvent::PreToolUse)) {
        "; if it fails or changes the input of a call, you are asked"
    } else if is_at(ClaudeEvent::Tool(ClaudeToolEvent::PostToolUse)) {
        "; the agent reads a block with the next prompt"
    } else {
        ""
    }
}

impl HookLists {
    /// Adds an imported hook under a name of its own. An identical one runs once.
    fn add(&mut self, spec: HookSpec, line: usize) -> ImportResult {
        let of = spec
            .claude
            .as_ref()
            .map(|handler| (handler.event, &handler.words, &spec.matcher));
        let point = of.map_or(HookPoint::Stop, |(event, ..)| event.point());
        let list = self.hooks.entry(point).or_default();
        let is_same = |other: &&HookSpec| {
            let handler = other.claude.as_ref();
            handler.map(|handler| (handler.event, &handler.words, &other.matcher)) == of
                && other.action == spec.action
        };
        if let Some(same) = list.iter().find(is_same) {
            return ImportResult::Runs {
                point,
                hook: same.name.clone(),
                notes: ", once with the same hook above".to_owned(),
            };
        }
        let notes = notes(&spec);
        let checks = self
            .checks
            .iter()
            .flatten()
            .filter(|_| point == HookPoint::Stop);
        let taken: Vec<&str> = list
            .iter()
            .chain(checks)
            .map(|hook| hook.name.as_str())
            .collect();
        let is_free = |name: &str| !taken.contains(&name) && name != PROTECT;
        let plain = spec.name.clone();
        let numbered = (2..).map(|n| format!("{plain} ({n})"));
        let name = std::iter::once(plain.clone())
            .chain(numbered)
            .find(|name| is_free(name));
        let name = name.unwrap_or(plain);
        self.lines.insert((point, name.clone()), line);
        list.push(HookSpec {
            name: name.clone(),
            ..spec
        });
        list.sort_by_key(|hook| hook.priority);
        ImportResult::Runs {
            point,
            hook: name,
            notes: notes.to_owned(),
        }
    }
}

/// The time limit of Claude Code's hooks.
const CLAUDE_TIMEOUT: TimeSpan = TimeSpan::secs(600);

/// Sets what a hook is for, or refuses a matcher at a point without tool calls.
pub(super) fn complete_matcher(
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
