//! Reads `hooks:` and `checks:` into the hooks of each point.
//!
//! Owns names, order and templates. Does not run anything.
//!
//! # Invariants
//! - The hooks of a point are in the order in which they run, and names are unique.
//! - A template uses only names that its point offers.

use std::{collections::BTreeMap, ops::Range};

use super::{
    claude,
    diagnostic::{DiagnosticReport, SourceSpan, names, nearest, quoted},
    fields::ConfigFields,
    keys::{
        BUILTIN_HOOK, CLAUDE_HOOK, COMMAND_CHECK, COMMAND_HOOK, EXEC_CHECK, EXEC_HOOK,
        GATEKEEPER_HOOK,
    },
    node::{ConfigNode, NodeKind, is_spelling},
    shape::MapShape,
    validate,
};
use crate::{
    engine::{
        hooks::{
            claude::{ClaudeEvent, ClaudeHandler},
            point::HookPoint,
            template::{self, Placeholder, offered, placeholders},
            tool_matcher::ClaudeToolEvent,
        },
        policy::{
            BuiltinCall, BuiltinOptions, HookAction, HookFailurePolicy, HookSpec, MERGE,
            PipeOutput, RetryOptions,
        },
        protect::PROTECT,
        retry::feedback::FEEDBACK_VALUES,
        time::TimeSpan,
    },
    process::programs::unclosed_quote,
    text::command_line,
};

pub const BUILTIN_HOOKS: [&str; 4] = ["rebase_on_main", "run_tests", "create_pr", "merge_pr"];

/// A hook and the position of its name.
struct LocatedHook {
    spec: HookSpec,
    at: SourceSpan,
}

/// A list of hooks in the config.
#[derive(Clone, Copy)]
enum HookList {
    /// `checks:`, whose entries run at `stop` with defaults of their own.
    Checks,
    /// A point under `hooks:`.
    At(HookPoint),
    /// An event of Claude Code under `hooks:`.
    Claude(ClaudeEvent),
    /// A point of tool calls under Claude Code's name.
    Tool(ClaudeToolEvent),
}

impl HookList {
    const fn point(self) -> HookPoint {
        match self {
            Self::Checks => HookPoint::Stop,
            Self::At(point) => point,
            Self::Claude(event) => event.point(),
            Self::Tool(event) => event.point(),
        }
    }

    /// Its key in quotes, for messages.
    fn shown(self) -> String {
        match self {
            Self::Checks => "`checks`".to_owned(),
            Self::At(point) => format!("`{point}`"),
            Self::Claude(event) => format!("`{}`", event.name()),
            Self::Tool(event) => format!("`{}`", event.name()),
        }
    }

    const fn has_matchers(self) -> bool {
        !matches!(self, Self::Checks | Self::Claude(_))
    }

    fn command_shape(self) -> &'static MapShape {
        match self {
            Self::Checks => &COMMAND_CHECK,
            Self::At(_) | Self::Tool(_) => &COMMAND_HOOK,
            Self::Claude(_) => &CLAUDE_HOOK,
        }
    }

    fn exec_shape(self) -> &'static MapShape {
        match self {
            Self::Checks => &EXEC_CHECK,
            Self::At(_) | Self::Claude(_) | Self::Tool(_) => &EXEC_HOOK,
        }
    }
}

/// The hooks of the configured points, and their lines in the config.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HookLists {
    /// In the order in which they run. An empty list means no hooks.
    pub hooks: BTreeMap<HookPoint, Vec<HookSpec>>,
    /// The entries of `checks:`. With equal priorities, they run before the hooks of `stop`.
    pub checks: Option<Vec<HookSpec>>,
    /// By point and name.
    pub lines: BTreeMap<(HookPoint, String), usize>,
}

/// The parts of a config that have hooks.
#[derive(Clone, Copy, Default)]
pub(super) struct HookNodes<'a> {
    pub(super) hooks: Option<&'a ConfigNode>,
    pub(super) checks: Option<&'a ConfigNode>,
}

impl<'a> HookNodes<'a> {
    fn list(self, point: HookPoint) -> Option<&'a ConfigNode> {
        let mut entries = self
            .hooks
            .map(ConfigNode::entries)
            .unwrap_or_default()
            .iter();
        let is_own =
            |name: &str| is_spelling(name, point.name()) && ClaudeEvent::named(name).is_none();
        entries
            .find(|(key, _)| is_own(&key.name))
            .map(|(_, list)| list)
            .filter(|list| is_list(list))
    }

    /// The lists of a point: its own, and those under Claude Code's names.
    fn lists(self, point: HookPoint) -> impl Iterator<Item = (HookList, &'a ConfigNode)> {
        let own = self.list(point).map(|list| (HookList::At(point), list));
        let entries = self.hooks.map(ConfigNode::entries).unwrap_or_default();
        let theirs = entries.iter().filter_map(move |(key, list)| {
            let event = ClaudeToolEvent::named(&key.name).map(HookList::Tool);
            let event = event.or_else(|| ClaudeEvent::named(&key.name).map(HookList::Claude))?;
            (event.point() == point && is_list(list)).then_some((event, list))
        });
        own.into_iter().chain(theirs)
    }

    fn checks(self) -> Option<&'a ConfigNode> {
        self.checks.filter(|list| is_list(list))
    }
}

fn is_list(node: &ConfigNode) -> bool {
    matches!(node.kind, NodeKind::List(_))
}

/// `outer` are the lists that apply where these are silent.
pub(super) fn lower(
    report: &mut DiagnosticReport,
    nodes: HookNodes<'_>,
    outer: &HookLists,
) -> HookLists {
    let mut all = HookLists::default();
    let outer_checks = outer
        .checks
        .iter()
        .flatten()
        .filter(|_| nodes.checks().is_none());
    let outer_hooks = outer.hooks.get(&HookPoint::Stop).into_iter().flatten();
    let outer_hooks = outer_hooks.filter(|_| nodes.lists(HookPoint::Stop).next().is_none());
    // The other hooks at `stop` that run in the same sessions.
    let mut beside: Vec<HookSpec> = outer_checks.chain(outer_hooks).cloned().collect();
    if let Some(list) = nodes.checks() {
        let checks = all.read(report, HookList::Checks, list, &beside);
        beside.extend(checks.iter().cloned());
        all.checks = Some(checks);
    }
    for point in HookPoint::ALL {
        let mut hooks: Vec<HookSpec> = Vec::new();
        let lists: Vec<_> = nodes.lists(point).collect();
        for (list, node) in &lists {
            let checks = beside.iter().filter(|_| point == HookPoint::Stop);
            let beside: Vec<HookSpec> = checks.chain(&hooks).cloned().collect();
            let read = all.read(report, *list, node, &beside);
            hooks.extend(read);
        }
        if !lists.is_empty() {
            hooks.sort_by_key(|spec| spec.priority);
            all.hooks.insert(point, hooks);
        }
    }
    all
}

impl HookLists {
    /// The hooks of one list, in the order in which they run.
    fn read(
        &mut self,
        report: &mut DiagnosticReport,
        list: HookList,
        node: &ConfigNode,
        beside: &[HookSpec],
    ) -> Vec<HookSpec> {
        let mut found = Vec::new();
        for item in node.items() {
            match list {
                HookList::Checks => found.extend(check(report, item)),
                HookList::At(_) | HookList::Claude(_) | HookList::Tool(_) => {
                    entry(report, list, item, &mut found);
                }
            }
        }
        let kept = in_order(report, list, found, beside);
        for LocatedHook { spec, at } in &kept {
            let line = report.source.place(*at).line;
            self.lines
                .entry((list.point(), spec.name.clone()))
                .or_insert(line);
        }
        kept.into_iter().map(|placed| placed.spec).collect()
    }
}

fn is_about_submitting(point: HookPoint) -> bool {
    match point {
        HookPoint::BeforeSubmit
        | HookPoint::AfterSubmit
        | HookPoint::BeforeMerge
        | HookPoint::AfterMerge => true,
        HookPoint::SessionStart
        | HookPoint::PreIteration
        | HookPoint::PrePrompt
        | HookPoint::PreTool
        | HookPoint::PostTool
        | HookPoint::OnQuestion
        | HookPoint::Stop
        | HookPoint::PostIteration
        | HookPoint::OnTaskComplete
        | HookPoint::Automation
        | HookPoint::StopDecision
        | HookPoint::OnError
        | HookPoint::OnGate
        | HookPoint::SessionEnd => false,
    }
}

fn check(report: &mut DiagnosticReport, node: &ConfigNode) -> Option<LocatedHook> {
    let list = HookList::Checks;
    match &node.kind {
        NodeKind::Text(text) => command_text(
            report,
            list,
            &ConfigFields::of(list.command_shape(), None),
            (text, node.at),
        ),
        NodeKind::Map(_) if node.get("exec").is_some() => exec(report, list, node),
        NodeKind::Map(_) => command(report, list, node),
        NodeKind::Null
        | NodeKind::Bool(_)
        | NodeKind::Int(_)
        | NodeKind::Float(_)
        | NodeKind::List(_) => None,
    }
}

fn entry(
    report: &mut DiagnosticReport,
    list: HookList,
    node: &ConfigNode,
    found: &mut Vec<LocatedHook>,
) {
    let point = list.point();
    match &node.kind {
        NodeKind::Text(name) => found.extend(builtin(report, point, name, node.at)),
        NodeKind::Map(_) if node.get("builtin").is_some() => {
            found.extend(builtin_with_options(report, point, node));
        }
        NodeKind::Map(_) if node.get("exec").is_some() => found.extend(exec(report, list, node)),
        NodeKind::Map(_) if node.get("gatekeeper").is_some() => {
            found.extend(gatekeeper(report, point, node));
        }
        NodeKind::Map(_) if node.get("hooks").is_some() => {
            group(report, list, node, found);
        }
        NodeKind::Map(_) => found.extend(command(report, list, node)),
        NodeKind::Null
        | NodeKind::Bool(_)
        | NodeKind::Int(_)
        | NodeKind::Float(_)
        | NodeKind::List(_) => {}
    }
}

fn group(
    report: &mut DiagnosticReport,
    list: HookList,
    node: &ConfigNode,
    found: &mut Vec<LocatedHook>,
) {
    let matcher = node.get("matcher");
    let handlers = node.get("hooks").map(ConfigNode::items).unwrap_or_default();
    if let HookList::Claude(event) = list {
        let words = claude::group_words(report, event, matcher);
        for item in handlers {
            found.extend(command(report, list, item).map(|mut placed| {
                if let Some(handler) = &mut placed.spec.claude {
                    handler.words.clone_from(&words);
                }
                placed
            }));
        }
        return;
    }
    if let Some(matcher) = matcher
        && !claude::is_about_tools(list.point())
        && matcher.text().is_some_and(|text| !matches!(text, "" | "*"))
    {
        let message = "this matcher has no effect: the hooks of a point run every time".to_owned();
        report.warning(matcher.at, message);
    }
    let first = found.len();
    for item in handlers {
        found.extend(command(report, list, item));
    }
    if let Some(matcher) = matcher.filter(|_| claude::is_about_tools(list.point())) {
        for placed in &mut found[first..] {
            let own = placed.spec.matcher.get_or_insert_default();
            claude::group(report, own, matcher);
        }
    }
}

fn builtin(
    report: &mut DiagnosticReport,
    point: HookPoint,
    name: &str,
    at: SourceSpan,
) -> Option<LocatedHook> {
    if name.trim().is_empty() {
        return None;
    }
    if !BUILTIN_HOOKS.contains(&name) {
        let hint = match nearest(name, BUILTIN_HOOKS) {
            Some(near) => format!("did you mean `{near}`?"),
            None if point == HookPoint::Stop => {
                "move it to `checks:`, or write `command: …`".to_owned()
            }
            None => format!(
                "write a command as `command: …`. Built-in hooks: {}",
                names(&BUILTIN_HOOKS)
            ),
        };
        report.error_hint(at, format!("unknown built-in hook {}", quoted(name)), hint);
        return None;
    }
    if !is_about_submitting(point) {
        report.error_hint(
            at,
            format!("`{name}` does not work at `{point}`"),
            only_at_submit(),
        );
        return None;
    }
    if name != MERGE {
        return Some(LocatedHook {
            spec: HookSpec::builtin(name),
            at,
        });
    }
    if point != HookPoint::BeforeMerge {
        let hint = "`creel merge` runs it when all hooks at `before_merge` have passed".to_owned();
        report.error_hint(at, format!("`{name}` does not work at `{point}`"), hint);
        return None;
    }
    Some(LocatedHook {
        spec: HookSpec::merge(),
        at,
    })
}

fn builtin_with_options(
    report: &mut DiagnosticReport,
    point: HookPoint,
    node: &ConfigNode,
) -> Option<LocatedHook> {
    let fields = ConfigFields::of(&BUILTIN_HOOK, Some(node));
    let written = fields.given("builtin")?;
    let name = fields.some_text("builtin")?;
    let LocatedHook { spec: plain, .. } = builtin(report, point, &name, written.at)?;
    check_options(report, &fields, &name);
    let options = BuiltinOptions {
        command: fields.some_text("command"),
        base_branch: fields.some_text("base_branch"),
        remote: fields.some_text("remote"),
    };
    let priority = if plain.is_merge() {
        plain.priority
    } else {
        fields.int("priority")
    };
    let called = fields.some_text("name").unwrap_or_else(|| name.clone());
    let action = HookAction::Builtin(BuiltinCall { name, options });
    let spec = HookSpec {
        priority,
        ..spec(&fields, called, action, fields.duration("timeout"))
    };
    Some(LocatedHook {
        spec,
        at: name_at(&fields, written.at),
    })
}

/// Refuses options that the built-in hook would ignore, or that would make it do less than its name
/// says.
fn check_options(report: &mut DiagnosticReport, fields: &ConfigFields<'_>, name: &str) {
    let mut refuse = |key: &str, hint: &str| {
        if let Some(given) = fields.given(key) {
            report.error_hint(
                given.at,
                format!("`{name}` does not accept `{key}`"),
                hint.to_owned(),
            );
        }
    };
    match name {
        "run_tests" => {
            for key in ["base_branch", "remote"] {
                refuse(
                    key,
                    "it runs the tests of the project folder, whatever the branch",
                );
            }
        }
        "create_pr" => refuse(
            "command",
            "set `pr_command` under `submit`; `merge_pr` uses it too",
        ),
        _ => refuse("command", "only `run_tests` runs a command of yours"),
    }
    if name != MERGE {
        return;
    }
    refuse("priority", "it always runs last, after all checks");
    if let Some(given) = fields.given("on_failure")
        && fields.maybe_one_of("on_failure") == Some(HookFailurePolicy::Ignore)
    {
        let hint = "a failed merge is never ignored; remove `on_failure`".to_owned();
        report.error_hint(given.at, "`merge_pr` cannot ignore its own failure", hint);
    }
}

fn only_at_submit() -> String {
    "use it at `before_submit`, `after_submit`, `before_merge` or `after_merge`".to_owned()
}

fn gatekeeper(
    report: &mut DiagnosticReport,
    point: HookPoint,
    node: &ConfigNode,
) -> Option<LocatedHook> {
    let fields = ConfigFields::of(&GATEKEEPER_HOOK, Some(node));
    let list = fields.given("gatekeeper")?;
    if !is_about_submitting(point) {
        report.error_hint(
            list.at,
            format!("a gatekeeper does not work at `{point}`"),
            only_at_submit(),
        );
        return None;
    }
    if matches!(&list.kind, NodeKind::List(items) if items.is_empty()) {
        report.error(list.at, "`gatekeeper` names no agent");
        return None;
    }
    let agents = mention(report, list);
    let name = fields
        .some_text("name")
        .unwrap_or_else(|| format!("gatekeeper: {}", agents.join(", ")));
    let action = HookAction::Gatekeeper(agents);
    let timeout = fields.duration("timeout");
    Some(LocatedHook {
        spec: spec(&fields, name, action, timeout),
        at: name_at(&fields, list.at),
    })
}

/// Reads a list of agent names. They are checked later, when all agents are known.
pub(super) fn mention(report: &mut DiagnosticReport, list: &ConfigNode) -> Vec<String> {
    let named: Vec<_> = list
        .items()
        .iter()
        .filter_map(|item| Some((item.text()?.to_owned(), item.at)))
        .collect();
    report.mentioned.extend(named.iter().cloned());
    named.into_iter().map(|(name, _)| name).collect()
}

fn command(
    report: &mut DiagnosticReport,
    list: HookList,
    node: &ConfigNode,
) -> Option<LocatedHook> {
    let fields = ConfigFields::of(list.command_shape(), Some(node));
    let written = fields.given("command")?;
    command_text(report, list, &fields, (written.text()?, written.at))
}

fn command_text(
    report: &mut DiagnosticReport,
    list: HookList,
    fields: &ConfigFields<'_>,
    (text, at): (&str, SourceSpan),
) -> Option<LocatedHook> {
    let name = text.trim();
    if name.is_empty() {
        return None;
    }
    check_placeholders(report, &list.shown(), offered(list.point()), text, at);
    if BUILTIN_HOOKS.contains(&name) {
        report.warning(
            at,
            format!(
                "this runs a program with the name {}, not the built-in hook",
                quoted(name)
            ),
        );
        let hint = if is_about_submitting(list.point()) {
            format!("did you mean `builtin: {name}`?")
        } else {
            "built-in hooks are for submitting and merging; write your own command here".to_owned()
        };
        if let Some(last) = report.diagnostics.last_mut() {
            last.hint = Some(hint);
        }
    }
    let action = HookAction::Command(text.to_owned());
    Some(process_hook(
        report,
        list,
        fields,
        (name.to_owned(), action),
        at,
    ))
}

/// A program without a shell.
fn exec(report: &mut DiagnosticReport, list: HookList, node: &ConfigNode) -> Option<LocatedHook> {
    let fields = ConfigFields::of(list.exec_shape(), Some(node));
    let written = fields.given("exec")?;
    let NodeKind::List(items) = &written.kind else {
        return None;
    };
    let arguments: Vec<String> = items
        .iter()
        .map(|item| item.text().map(str::to_owned))
        .collect::<Option<_>>()?;
    if arguments
        .first()
        .is_none_or(|program| program.trim().is_empty())
    {
        let hint = "write the program first, then its arguments: `exec: [cargo, test]`".to_owned();
        report.error_hint(written.at, "`exec` names no program", hint);
        return None;
    }
    if let Err((index, error)) = template::check_arguments(&arguments) {
        let at = within(
            report,
            &arguments[index],
            &error.placeholder,
            items[index].at,
        );
        report.error(at, error.to_string());
    }
    for (argument, item) in arguments.iter().zip(items) {
        check_names(
            report,
            &list.shown(),
            offered(list.point()),
            argument,
            item.at,
        );
    }
    let name = command_line(&arguments);
    Some(process_hook(
        report,
        list,
        &fields,
        (name, HookAction::Exec(arguments)),
        written.at,
    ))
}

/// A hook that runs a process of the user's, under its own name or the one that it has by default.
fn process_hook(
    report: &mut DiagnosticReport,
    list: HookList,
    fields: &ConfigFields<'_>,
    (default_name, action): (String, HookAction),
    at: SourceSpan,
) -> LocatedHook {
    let name = fields.some_text("name").unwrap_or(default_name);
    let timeout = fields.maybe_duration("timeout").unwrap_or_default();
    let mut spec = spec(fields, name, action, timeout);
    spec.pipe_output = fields.recorded("pipe_output");
    spec.retry = retry_options(report, list.point(), fields);
    // Handlers of Claude Code have no such key.
    if !matches!(list, HookList::Claude(_)) {
        check_tests(report, list.point(), &mut spec, fields);
    }
    if list.has_matchers() {
        claude::complete_matcher(report, list.point(), &mut spec, fields);
    }
    match list {
        HookList::Claude(event) => {
            claude::complete(&mut spec, ClaudeHandler::new(event), fields);
            if event == ClaudeEvent::Stop {
                validate::about_stop_hook(report, &spec, fields, at);
            }
        }
        HookList::Tool(event) => claude::for_claude(&mut spec, event, fields),
        HookList::At(HookPoint::Stop) => validate::about_stop_hook(report, &spec, fields, at),
        HookList::At(HookPoint::OnGate) => check_gate_hook(report, &spec, fields),
        HookList::At(HookPoint::SessionEnd) => {
            check_piped(
                report,
                (HookPoint::SessionEnd, "no prompt follows"),
                &spec,
                fields,
            );
        }
        HookList::Checks | HookList::At(_) => {}
    }
    LocatedHook {
        spec,
        at: name_at(fields, at),
    }
}

fn name_at(fields: &ConfigFields<'_>, otherwise: SourceSpan) -> SourceSpan {
    fields.given("name").map_or(otherwise, |name| name.at)
}

fn spec(
    fields: &ConfigFields<'_>,
    name: String,
    action: HookAction,
    timeout: TimeSpan,
) -> HookSpec {
    HookSpec {
        name,
        action,
        timeout,
        pipe_output: PipeOutput::Never,
        priority: fields.int("priority"),
        enabled: fields.bool("enabled"),
        on_failure: fields.maybe_one_of("on_failure"),
        matcher: None,
        tests: None,
        retry: RetryOptions::default(),
        claude: None,
    }
}

/// A hook at `on_gate` only notifies people. It can neither delay the session nor send anything to
/// the agent.
fn check_gate_hook(report: &mut DiagnosticReport, spec: &HookSpec, fields: &ConfigFields<'_>) {
    if let (Some(HookFailurePolicy::Block | HookFailurePolicy::Escalate), Some(given)) =
        (spec.on_failure, fields.given("on_failure"))
    {
        let hint = "a hook at `on_gate` never opens a gate itself; remove `on_failure`".to_owned();
        report.error_hint(given.at, "a failure at `on_gate` can only be ignored", hint);
    }
    check_piped(
        report,
        (HookPoint::OnGate, "the agent does not get its output"),
        spec,
        fields,
    );
}

/// Warns about piped output that goes nowhere.
fn check_piped(
    report: &mut DiagnosticReport,
    (point, why): (HookPoint, &str),
    spec: &HookSpec,
    fields: &ConfigFields<'_>,
) {
    if let Some(given) = fields
        .given("pipe_output")
        .filter(|_| spec.pipe_output != PipeOutput::Never)
    {
        report.warning(
            given.at,
            format!("`pipe_output` has no effect at `{point}`: {why}"),
        );
    }
}

/// The retry options of a stop hook. Hooks at other points cannot have them.
fn retry_options(
    report: &mut DiagnosticReport,
    point: HookPoint,
    fields: &ConfigFields<'_>,
) -> RetryOptions {
    if point != HookPoint::Stop {
        for key in ["retries", "feedback"] {
            if let Some(given) = fields.given(key) {
                let hint =
                    "only hooks at `stop` send the agent back to work; remove this key".to_owned();
                report.error_hint(
                    given.at,
                    format!("`{key}` has no effect at `{point}`"),
                    hint,
                );
            }
        }
        return RetryOptions::default();
    }
    let feedback = fields.some_text("feedback");
    if let (Some(template), Some(given)) = (&feedback, fields.given("feedback")) {
        check_names(report, "`feedback`", FEEDBACK_VALUES, template, given.at);
    }
    RetryOptions {
        retries: fields.maybe_int("retries"),
        feedback,
    }
}

/// Only a check that counts can also run with the tests of the base commit.
fn check_tests(
    report: &mut DiagnosticReport,
    point: HookPoint,
    spec: &mut HookSpec,
    fields: &ConfigFields<'_>,
) {
    let Some(given) = fields.given("tests") else {
        return;
    };
    let wrong = if point != HookPoint::Stop {
        Some(format!("`tests` has no effect at `{point}`"))
    } else if spec.is_advisory() {
        Some("`tests` has no effect with `on_failure: ignore`".to_owned())
    } else {
        None
    };
    if let Some(message) = wrong {
        let hint = "only a check that must pass also runs with the tests of the base commit; remove \
                    this key";
        report.error_hint(given.at, message, hint.to_owned());
    } else {
        spec.tests = fields.maybe_one_of("tests");
    }
}

pub(super) fn check_template(
    report: &mut DiagnosticReport,
    point: HookPoint,
    command: &str,
    at: SourceSpan,
) {
    check_placeholders(report, &format!("`{point}`"), offered(point), command, at);
}

/// Checks the `{{name}}`s of a command: their position, and whether the names exist.
pub(super) fn check_placeholders(
    report: &mut DiagnosticReport,
    place: &str,
    known: &[&str],
    command: &str,
    at: SourceSpan,
) {
    if let Err(error) = template::expand(command) {
        let at = within(report, command, &error.placeholder, at);
        report.error(at, error.to_string());
    }
    if let Some(offset) = unclosed_quote(command) {
        let rest = command[offset..].lines().next().unwrap_or_default().len();
        let at = SourceSpan {
            len: 1,
            ..range_within(report, command, offset..offset + rest, at)
        };
        let hint = "close it, or write a backslash before it".to_owned();
        report.error_hint(at, "the shell does not find the end of this quote", hint);
    }
    check_names(report, place, known, command, at);
}

/// Checks that the `{{name}}`s of a text exist.
pub(super) fn check_names(
    report: &mut DiagnosticReport,
    place: &str,
    known: &[&str],
    command: &str,
    at: SourceSpan,
) {
    for placeholder in placeholders(command) {
        if !known.contains(&placeholder.name.as_str()) {
            unknown_name(report, place, known, command, (&placeholder, at));
        }
    }
}

/// Reports a `{{name}}` of a text that does not exist.
pub(super) fn unknown_name(
    report: &mut DiagnosticReport,
    place: &str,
    known: &[&str],
    text: &str,
    (placeholder, at): (&Placeholder, SourceSpan),
) {
    let hint = nearest(&placeholder.name, known.iter().copied()).map_or_else(
        || format!("{place} has {}", names(known)),
        |near| format!("did you mean `{{{{{near}}}}}`?"),
    );
    let at = within(report, text, placeholder, at);
    report.error_hint(
        at,
        format!(
            "{place} has no {}",
            quoted(&format!("{{{{{}}}}}", placeholder.name))
        ),
        hint,
    );
}

/// The position of a placeholder: the same occurrence of the text in the source as in the command.
/// If escapes hide it, the whole value.
fn within(
    report: &DiagnosticReport,
    command: &str,
    placeholder: &Placeholder,
    value: SourceSpan,
) -> SourceSpan {
    range_within(report, command, placeholder.range.clone(), value)
}

fn range_within(
    report: &DiagnosticReport,
    command: &str,
    range: Range<usize>,
    value: SourceSpan,
) -> SourceSpan {
    let text = &command[range.clone()];
    let nth = command[..range.start].matches(text).count();
    match report.source.slice(value).match_indices(text).nth(nth) {
        Some((offset, _)) => SourceSpan {
            offset: value.offset + offset,
            len: text.len(),
        },
        None => value,
    }
}

/// Sorts by priority and checks that names are unique, also among the hooks that run beside these.
fn in_order(
    report: &mut DiagnosticReport,
    list: HookList,
    found: Vec<LocatedHook>,
    beside: &[HookSpec],
) -> Vec<LocatedHook> {
    let point = list.point();
    let mut kept: Vec<LocatedHook> = Vec::new();
    for LocatedHook { spec, at } in found {
        if point == HookPoint::Stop && spec.name == PROTECT {
            let message = format!(
                "creel uses the name {} for its own check of the paths under `protect:`",
                quoted(PROTECT)
            );
            report.error_hint(at, message, "give this hook another `name`".to_owned());
            continue;
        }
        let in_list = kept
            .iter()
            .find(|other| other.spec.name == spec.name)
            .map(|other| &other.spec);
        let same = in_list.or_else(|| beside.iter().find(|other| other.name == spec.name));
        match same {
            Some(same) if *same == spec => {
                report.warning(
                    at,
                    format!(
                        "{} appears twice at `{point}` and runs once",
                        quoted(&spec.name)
                    ),
                );
            }
            Some(_) => {
                let message = format!(
                    "another hook at `{point}` has the name {}",
                    quoted(&spec.name)
                );
                report.error_hint(at, message, "give one of them another `name`".to_owned());
            }
            None => {}
        }
        // A list can apply without the one beside it.
        if in_list.is_none() {
            kept.push(LocatedHook { spec, at });
        }
    }
    kept.sort_by_key(|placed| placed.spec.priority);
    kept
}

/// An unknown agent is only a warning, unless it is the one that runs.
pub(super) fn check_mentioned(report: &mut DiagnosticReport, known: &[&str]) {
    for (name, at) in std::mem::take(&mut report.mentioned) {
        if known.contains(&name.as_str()) {
            continue;
        }
        let message = format!("`agents:` has no agent {}", quoted(&name));
        report.warning(at, message);
        if let Some(last) = report.diagnostics.last_mut() {
            last.hint =
                nearest(&name, known.iter().copied()).map(|near| format!("did you mean `{near}`?"));
        }
    }
}
