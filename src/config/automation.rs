//! From `automation:` to the hooks that run when tasks change.
//!
//! Owns the built-in hooks' names and defaults, and how files and the config change them. Does not run anything.
//!
//! # Invariants
//! - The hooks are in the order in which they run, and no two have one name.

use super::{
    diagnostic::{names, nearest, quoted},
    fields::Fields,
    node::{Kind, Node},
    report::Report,
    settings::AutomationHook,
    shape::AUTOMATION_HOOK,
};

/// The automation hooks that creel brings along: name, priority, events.
pub const BUILTIN_AUTOMATION: [(&str, i64, &[&str]); 3] = [
    ("auto-create-review-task", 10, &["task_completed"]),
    ("check-dependency-satisfaction", 20, &["task_completed"]),
    ("track-agent-task-lifecycle", 50, &["task_created", "task_started", "task_completed"]),
];

const OWN_PRIORITY: i64 = 100;

/// The built-in hooks, as they are when nothing is said.
pub(super) fn builtin() -> Vec<AutomationHook> {
    BUILTIN_AUTOMATION
        .into_iter()
        .map(|(name, priority, events)| AutomationHook {
            name: name.to_owned(),
            events: events.iter().map(|&event| event.to_owned()).collect(),
            priority,
            enabled: true,
            command: None,
            timeout: Fields::of(&AUTOMATION_HOOK, None).duration("timeout"),
        })
        .collect()
}

/// Changes the hooks as a list says.
pub(super) fn apply(report: &mut Report, list: Option<&Node>, hooks: &mut Vec<AutomationHook>) {
    let mut seen: Vec<String> = Vec::new();
    for node in list.map(Node::items).unwrap_or_default() {
        let fields = Fields::of(&AUTOMATION_HOOK, Some(node));
        let Some(name) = fields.some_text("name") else { continue };
        if seen.contains(&name) {
            let at = fields.given("name").map_or(node.at, |name| name.at);
            report.error_hint(at, format!("another hook is called {}", quoted(&name)), "keep one of them".to_owned());
            continue;
        }
        seen.push(name.clone());
        if let Some(hook) = hook(report, &fields, node, name) {
            hooks.retain(|other| other.name != hook.name);
            hooks.push(hook);
        }
    }
    hooks.sort_by_key(|hook| hook.priority);
}

fn hook(report: &mut Report, fields: &Fields<'_>, node: &Node, name: String) -> Option<AutomationHook> {
    let known = BUILTIN_AUTOMATION.into_iter().find(|(known, ..)| *known == name);
    let command = fields.some_text("command");
    let at = fields.given("name").map_or(node.at, |name| name.at);
    match (known, &command) {
        (None, None) => {
            let all = BUILTIN_AUTOMATION.map(|(name, ..)| name);
            let hint = nearest(&name, all).map_or_else(
                || format!("a hook of your own needs a `command`; built-in hooks: {}", names(&all)),
                |near| format!("did you mean `{near}`?"),
            );
            report.error_hint(at, format!("there is no built-in hook {}", quoted(&name)), hint);
            return None;
        }
        (Some(_), Some(_)) => {
            report.error_hint(
                at,
                format!("`{name}` is built in, and runs no command"),
                "give yours another name".to_owned(),
            );
            return None;
        }
        (Some(_), None) | (None, Some(_)) => {}
    }
    let given = fields.given("event_types");
    if let Some(list) = given
        && matches!(&list.kind, Kind::List(items) if items.is_empty())
    {
        report.error_hint(list.at, "`event_types` is empty", "switch a hook off with `enabled: false`".to_owned());
    } else if given.is_none() && known.is_none() {
        report.error_hint(at, "`event_types` is missing", "such as `event_types: [task_completed]`".to_owned());
    }
    let events = match (given, known) {
        (Some(list), _) => list.items().iter().filter_map(|item| item.text().map(str::to_owned)).collect(),
        (None, Some((.., events))) => events.iter().map(|&event| event.to_owned()).collect(),
        (None, None) => Vec::new(),
    };
    let priority = known.map_or(OWN_PRIORITY, |(_, priority, _)| priority);
    Some(AutomationHook {
        name,
        events,
        priority: fields.maybe_int("priority").unwrap_or(priority),
        enabled: fields.bool("enabled"),
        command,
        timeout: fields.duration("timeout"),
    })
}
