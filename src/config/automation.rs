//! Reads `automation:` into the hooks that run when tasks change.
//!
//! Owns how files and the config change the built-in hooks and add others. Does not run anything:
//! see [`crate::engine::tasks::automation`].
//!
//! # Invariants
//! - The hooks are in the order in which they run, and names are unique.

use super::{
    diagnostic::{DiagnosticReport, SourceSpan, names, nearest, quoted},
    fields::ConfigFields,
    hooks::check_template,
    keys::AUTOMATION_HOOK,
    node::{ConfigNode, NodeKind},
};
use crate::engine::{
    hooks::point::HookPoint,
    policy::{AutomationHook, HookAction, HookSpec},
    tasks::{
        builtin::{AutomationPreset, BuiltinAutomation},
        record::TaskEventKind,
    },
};

const OWN_PRIORITY: i64 = 100;

/// The built-in hooks with their defaults.
pub(super) fn builtin() -> Vec<AutomationHook> {
    let all = BuiltinAutomation::ALL
        .map(BuiltinAutomation::preset)
        .into_iter();
    all.map(
        |AutomationPreset {
             name,
             priority,
             events,
             enabled,
         }| AutomationHook {
            events: events.to_vec(),
            spec: HookSpec {
                timeout: ConfigFields::of(&AUTOMATION_HOOK, None).duration("timeout"),
                priority,
                enabled,
                ..HookSpec::new(name, HookAction::Builtin(name.into()))
            },
        },
    )
    .collect()
}

/// Adds the hooks that a list defines. Returns its entries for hooks that another list defines: see
/// [`change`].
pub(super) fn describe<'a>(
    report: &mut DiagnosticReport,
    list: Option<&'a ConfigNode>,
    hooks: &mut Vec<AutomationHook>,
) -> Vec<&'a ConfigNode> {
    let mut changes = Vec::new();
    let mut seen: Vec<String> = Vec::new();
    for node in list.map(ConfigNode::items).unwrap_or_default() {
        let fields = ConfigFields::of(&AUTOMATION_HOOK, Some(node));
        let Some(name) = fields.some_text("name") else {
            continue;
        };
        if seen.contains(&name) {
            let at = fields.given("name").map_or(node.at, |name| name.at);
            report.error_hint(
                at,
                format!("another hook has the name {}", quoted(&name)),
                "keep one of them".to_owned(),
            );
            continue;
        }
        seen.push(name.clone());
        if BuiltinAutomation::named(&name).is_none() && fields.some_text("command").is_none() {
            changes.push(node);
            continue;
        }
        if let Some(hook) = hook(report, &fields, node, name) {
            hooks.retain(|other| other.spec.name != hook.spec.name);
            hooks.push(hook);
        }
    }
    changes
}

/// Enables, disables and reorders hooks that are defined elsewhere: the config can change those of
/// the file, and vice versa.
pub(super) fn change(
    report: &mut DiagnosticReport,
    changes: Vec<&ConfigNode>,
    hooks: &mut [AutomationHook],
) {
    for node in changes {
        let fields = ConfigFields::of(&AUTOMATION_HOOK, Some(node));
        let Some(name) = fields.some_text("name") else {
            continue;
        };
        let at = fields.given("name").map_or(node.at, |name| name.at);
        let Some(hook) = hooks.iter_mut().find(|hook| hook.spec.name == name) else {
            unknown(report, &name, hooks, at);
            continue;
        };
        hook.spec.priority = fields.maybe_int("priority").unwrap_or(hook.spec.priority);
        if fields.given("enabled").is_some() {
            hook.spec.enabled = fields.bool("enabled");
        }
        if fields.given("timeout").is_some() {
            hook.spec.timeout = fields.duration("timeout");
        }
        if let Some(list) = fields.given("event_types") {
            hook.events = given_events(report, list);
        }
    }
}

pub(super) fn in_order(mut hooks: Vec<AutomationHook>) -> Vec<AutomationHook> {
    hooks.sort_by_key(|hook| hook.spec.priority);
    hooks
}

fn unknown(report: &mut DiagnosticReport, name: &str, hooks: &[AutomationHook], at: SourceSpan) {
    let all = BuiltinAutomation::ALL.map(|builtin| builtin.preset().name);
    let known = hooks.iter().map(|hook| hook.spec.name.as_str());
    let hint = nearest(name, known).map_or_else(
        || {
            format!(
                "a hook of your own needs a `command`. Built-in hooks: {}",
                names(&all)
            )
        },
        |near| format!("did you mean `{near}`?"),
    );
    report.error_hint(at, format!("unknown hook {}", quoted(name)), hint);
}

fn hook(
    report: &mut DiagnosticReport,
    fields: &ConfigFields<'_>,
    node: &ConfigNode,
    name: String,
) -> Option<AutomationHook> {
    let known = BuiltinAutomation::named(&name).map(BuiltinAutomation::preset);
    let at = fields.given("name").map_or(node.at, |name| name.at);
    let action = action(report, fields, &name, known, at)?;
    let spec = HookSpec {
        timeout: fields.duration("timeout"),
        priority: fields
            .maybe_int("priority")
            .unwrap_or(known.map_or(OWN_PRIORITY, |known| known.priority)),
        enabled: fields.bool("enabled"),
        ..HookSpec::new(name, action)
    };
    Some(AutomationHook {
        events: events(report, fields, known, at),
        spec,
    })
}

fn action(
    report: &mut DiagnosticReport,
    fields: &ConfigFields<'_>,
    name: &str,
    known: Option<AutomationPreset>,
    at: SourceSpan,
) -> Option<HookAction> {
    match (known, fields.some_text("command")) {
        // Such an entry is about a hook that is defined elsewhere.
        (None, None) => None,
        (Some(_), Some(_)) => {
            report.error_hint(
                at,
                format!("`{name}` is a built-in hook and runs no command"),
                "give your hook another name".to_owned(),
            );
            None
        }
        (Some(_), None) => Some(HookAction::Builtin(name.into())),
        (None, Some(command)) => {
            check_template(
                report,
                HookPoint::Automation,
                &command,
                fields.given("command").map_or(at, |node| node.at),
            );
            Some(HookAction::Command(command))
        }
    }
}

fn events(
    report: &mut DiagnosticReport,
    fields: &ConfigFields<'_>,
    known: Option<AutomationPreset>,
    at: SourceSpan,
) -> Vec<TaskEventKind> {
    match (fields.given("event_types"), known) {
        (Some(list), _) => given_events(report, list),
        (None, Some(known)) => known.events.to_vec(),
        (None, None) => {
            report.error_hint(
                at,
                "`event_types` is missing",
                "such as `event_types: [task_completed]`".to_owned(),
            );
            Vec::new()
        }
    }
}

fn given_events(report: &mut DiagnosticReport, list: &ConfigNode) -> Vec<TaskEventKind> {
    if matches!(&list.kind, NodeKind::List(items) if items.is_empty()) {
        report.error_hint(
            list.at,
            "`event_types` is empty",
            "disable a hook with `enabled: false`".to_owned(),
        );
    }
    list.items()
        .iter()
        .filter_map(|item| TaskEventKind::named(item.text()?))
        .collect()
}
