//! From `automation:` to the hooks that run when tasks change.
//!
//! Owns how files and the config change the hooks that are built in, and add others. Does not run anything: see
//! [`crate::engine::tasks::automation`].
//!
//! # Invariants
//! - The hooks are in the order in which they run, and no two have one name.

use super::{
    diagnostic::{Stretch, names, nearest, quoted},
    fields::Fields,
    hooks::check_template,
    node::{Kind, Node},
    report::Report,
    shape::AUTOMATION_HOOK,
};
use crate::engine::{
    hooks::point::Point,
    policy::{AutomationHook, HookAction, HookSpec},
    tasks::{
        builtin::{Builtin, Preset},
        record::TaskEventKind,
    },
};

const OWN_PRIORITY: i64 = 100;

/// The built-in hooks, as they are when nothing is said.
pub(super) fn builtin() -> Vec<AutomationHook> {
    let all = Builtin::ALL.map(Builtin::preset).into_iter();
    all.map(|Preset { name, priority, events, enabled }| AutomationHook {
        events: events.to_vec(),
        spec: HookSpec {
            name: name.to_owned(),
            action: HookAction::Builtin(name.into()),
            timeout: Fields::of(&AUTOMATION_HOOK, None).duration("timeout"),
            pipe_output: false,
            priority,
            enabled,
            on_failure: None,
        },
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
            hooks.retain(|other| other.spec.name != hook.spec.name);
            hooks.push(hook);
        }
    }
    hooks.sort_by_key(|hook| hook.spec.priority);
}

fn hook(report: &mut Report, fields: &Fields<'_>, node: &Node, name: String) -> Option<AutomationHook> {
    let known = Builtin::named(&name).map(Builtin::preset);
    let at = fields.given("name").map_or(node.at, |name| name.at);
    let action = action(report, fields, &name, known, at)?;
    let spec = HookSpec {
        name,
        action,
        timeout: fields.duration("timeout"),
        pipe_output: false,
        priority: fields.maybe_int("priority").unwrap_or(known.map_or(OWN_PRIORITY, |known| known.priority)),
        enabled: fields.bool("enabled"),
        on_failure: None,
    };
    Some(AutomationHook { events: events(report, fields, known, at), spec })
}

fn action(
    report: &mut Report,
    fields: &Fields<'_>,
    name: &str,
    known: Option<Preset>,
    at: Stretch,
) -> Option<HookAction> {
    match (known, fields.some_text("command")) {
        (None, None) => {
            let all = Builtin::ALL.map(|builtin| builtin.preset().name);
            let hint = nearest(name, all).map_or_else(
                || format!("a hook of your own needs a `command`; built-in hooks: {}", names(&all)),
                |near| format!("did you mean `{near}`?"),
            );
            report.error_hint(at, format!("there is no built-in hook {}", quoted(name)), hint);
            None
        }
        (Some(_), Some(_)) => {
            report.error_hint(
                at,
                format!("`{name}` is built in, and runs no command"),
                "give yours another name".to_owned(),
            );
            None
        }
        (Some(_), None) => Some(HookAction::Builtin(name.into())),
        (None, Some(command)) => {
            check_template(report, Point::Automation, &command, fields.given("command").map_or(at, |node| node.at));
            Some(HookAction::Command(command))
        }
    }
}

fn events(report: &mut Report, fields: &Fields<'_>, known: Option<Preset>, at: Stretch) -> Vec<TaskEventKind> {
    let given = fields.given("event_types");
    if let Some(list) = given
        && matches!(&list.kind, Kind::List(items) if items.is_empty())
    {
        report.error_hint(list.at, "`event_types` is empty", "switch a hook off with `enabled: false`".to_owned());
    } else if given.is_none() && known.is_none() {
        report.error_hint(at, "`event_types` is missing", "such as `event_types: [task_completed]`".to_owned());
    }
    match (given, known) {
        (Some(list), _) => list.items().iter().filter_map(|item| TaskEventKind::named(item.text()?)).collect(),
        (None, Some(known)) => known.events.to_vec(),
        (None, None) => Vec::new(),
    }
}
