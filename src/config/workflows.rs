//! Reads `workflows:` into steps that automation can start.
//!
//! Owns what the keys of a step mean together, and the order of steps. Does not run anything: see
//! [`crate::engine::tasks::workflow`].
//!
//! # Invariants
//! - Every path through a workflow ends: no step follows itself, directly or through others.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    diagnostic::{DiagnosticReport, SourceSpan, names, nearest, quoted, suggest},
    fields::ConfigFields,
    hooks::{check_names, check_placeholders, unknown_name},
    keys::{PART, STEP},
    node::{ConfigNode, NodeKind},
    shape::MapShape,
};
use crate::engine::{
    hooks::{
        point::HookPoint,
        template::{self, Placeholder},
    },
    policy::{
        HookAction, HookSpec, StepAction, StepCondition, StepTransition, Workflow, WorkflowStep,
    },
    tasks::workflow_record::FIELDS,
};

pub(super) fn lower(
    report: &mut DiagnosticReport,
    given: Option<&ConfigNode>,
) -> BTreeMap<String, Workflow> {
    let entries = given.map(ConfigNode::entries).unwrap_or_default();
    entries
        .iter()
        .map(|(key, node)| (key.name.clone(), workflow(report, &key.name, node)))
        .collect()
}

fn workflow(report: &mut DiagnosticReport, name: &str, node: &ConfigNode) -> Workflow {
    let description = node
        .get("description")
        .and_then(ConfigNode::text)
        .map(str::to_owned);
    let items = node.get("steps").map(ConfigNode::items).unwrap_or_default();
    let named = name_all(report, items);
    let reader = WorkflowReader {
        workflow: name,
        known: &named
            .iter()
            .map(|(_, name)| name.as_str())
            .collect::<Vec<_>>(),
    };
    let steps: Vec<WorkflowStep> = items
        .iter()
        .enumerate()
        .map(|(n, item)| reader.step(report, &STEP, item, name_of(item, UNNAMED, n)))
        .collect();
    check_way(report, items, &steps);
    Workflow { description, steps }
}

/// The prefix for steps without a name. A number follows.
const UNNAMED: &str = "step";

/// A step without a name is numbered within its list.
fn name_of(node: &ConfigNode, around: &str, nth: usize) -> String {
    let given = node
        .get("name")
        .or_else(|| node.get("id"))
        .and_then(ConfigNode::text);
    given.map_or_else(|| format!("{around}_{}", nth + 1), str::to_owned)
}

/// Every step and part with its name. Two names that would share a variable are reported like
/// duplicates.
fn name_all<'a>(
    report: &mut DiagnosticReport,
    items: &'a [ConfigNode],
) -> Vec<(&'a ConfigNode, String)> {
    let mut named: Vec<(&ConfigNode, String)> = Vec::new();
    for (n, item) in items.iter().enumerate() {
        let own = name_of(item, UNNAMED, n);
        let parts = item
            .get("steps")
            .map(ConfigNode::items)
            .unwrap_or_default()
            .iter()
            .enumerate();
        let parts: Vec<_> = parts
            .map(|(m, part)| (part, name_of(part, &own, m)))
            .collect();
        for (node, name) in [(item, own)].into_iter().chain(parts) {
            let at = node
                .get("name")
                .or_else(|| node.get("id"))
                .map_or(node.at, |name| name.at);
            if !name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
                || name == "stop"
            {
                let message = format!("{} is not a valid step name", quoted(&name));
                report.error_hint(
                    at,
                    message,
                    "use letters, digits, `-` and `_`; `stop` ends the workflow".to_owned(),
                );
            }
            if named
                .iter()
                .any(|(_, other)| template::variable(other) == template::variable(&name))
            {
                let message = format!("another step has the name {}", quoted(&name));
                report.error_hint(at, message, "give one of them another `name`".to_owned());
            }
            named.push((node, name));
        }
    }
    named
}

struct WorkflowReader<'a> {
    workflow: &'a str,
    known: &'a [&'a str],
}

impl WorkflowReader<'_> {
    fn step(
        &self,
        report: &mut DiagnosticReport,
        shape: &'static MapShape,
        node: &ConfigNode,
        name: String,
    ) -> WorkflowStep {
        let fields = ConfigFields::of(shape, Some(node));
        let action = self.action(report, &fields, node, &name);
        let next = |key: &str, unsaid| match node.get(key).and_then(ConfigNode::text) {
            None => unsaid,
            Some("stop") => StepTransition::End,
            Some(step) => StepTransition::Step(step.to_owned()),
        };
        let (on_success, on_failure) = (
            next("on_success", StepTransition::Following),
            next("on_failure", StepTransition::End),
        );
        WorkflowStep {
            name,
            action,
            on_success,
            on_failure,
        }
    }

    fn action(
        &self,
        report: &mut DiagnosticReport,
        fields: &ConfigFields<'_>,
        node: &ConfigNode,
        name: &str,
    ) -> StepAction {
        let kind = node
            .get("type")
            .and_then(ConfigNode::text)
            .unwrap_or("noop");
        match kind {
            "command" => self.command(report, fields, node, name),
            "create_task" => {
                let task = needed(report, node, "task", kind);
                StepAction::CreateTask(self.payload(report, task))
            }
            "update_task" => {
                let id = needed(report, node, "task_id", kind)
                    .and_then(ConfigNode::text)
                    .unwrap_or_default();
                let action = needed(report, node, "action", kind)
                    .and_then(ConfigNode::text)
                    .unwrap_or_default();
                let mut payload = Map::new();
                payload.insert("taskId".into(), id.into());
                payload.insert("action".into(), action.into());
                payload.insert("payload".into(), self.payload(report, node.get("payload")));
                self.check_texts(report, node.get("task_id"));
                StepAction::UpdateTask(Value::Object(payload))
            }
            "condition" => {
                let value = needed(report, node, "value", kind);
                self.check_texts(report, value);
                if node.get("equals").is_none() && node.get("contains").is_none() {
                    report.error_hint(
                        node.at,
                        "this condition checks nothing",
                        "add `equals` or `contains`".to_owned(),
                    );
                }
                let text = |key| node.get(key).and_then(as_text);
                let value = value.and_then(as_text).unwrap_or_default();
                StepAction::Condition(StepCondition {
                    value,
                    equals: text("equals"),
                    contains: text("contains"),
                })
            }
            "parallel" => {
                let list = needed(report, node, "steps", kind);
                if let Some(list) = list.filter(|list| list.items().is_empty()) {
                    report.error_hint(
                        list.at,
                        "`steps` is empty",
                        "use `type: noop` for a step that does nothing".to_owned(),
                    );
                }
                let parts = list
                    .map(ConfigNode::items)
                    .unwrap_or_default()
                    .iter()
                    .enumerate();
                StepAction::Parallel(
                    parts
                        .map(|(n, part)| self.step(report, &PART, part, name_of(part, name, n)))
                        .collect(),
                )
            }
            _ => StepAction::Noop,
        }
    }

    fn command(
        &self,
        report: &mut DiagnosticReport,
        fields: &ConfigFields<'_>,
        node: &ConfigNode,
        name: &str,
    ) -> StepAction {
        let given = needed(report, node, "command", "command");
        let command = given
            .and_then(ConfigNode::text)
            .unwrap_or_default()
            .to_owned();
        let at = given.map_or(node.at, |given| given.at);
        let offered = self.offered(&command);
        let offered: Vec<&str> = offered.iter().map(String::as_str).collect();
        check_placeholders(report, PLACE, &offered, &command, at);
        self.check_lookalikes(report, &command, at);
        check_variables(report, &command, at);
        StepAction::Command(HookSpec {
            timeout: fields.duration("timeout"),
            ..HookSpec::new(
                format!("{}/{name}", self.workflow),
                HookAction::Command(command),
            )
        })
    }

    /// The placeholders that are valid in this workflow. The action that starts it brings the
    /// context, so any part of it that a text uses can be there.
    fn offered(&self, text: &str) -> Vec<String> {
        let steps = self
            .known
            .iter()
            .flat_map(|step| FIELDS.map(|field| format!("steps.{step}.{field}")));
        let plain = template::offered(HookPoint::Automation)
            .iter()
            .chain(&["context"])
            .map(|&name| name.to_owned());
        let used = template::placeholders(text)
            .into_iter()
            .map(|used| used.name);
        plain
            .chain(steps)
            .chain(used.filter(|name| name.starts_with("context.")))
            .collect()
    }

    /// Reports names with a misspelt beginning, such as `{{contxt.version}}`.
    fn check_lookalikes(&self, report: &mut DiagnosticReport, text: &str, at: SourceSpan) {
        for found in template::lookalikes(text) {
            let meant = found
                .name
                .split_once('.')
                .map(|(_, path)| format!("context.{path}"));
            let known: Vec<String> = self.offered("").into_iter().chain(meant).collect();
            let near = nearest(&found.name, known.iter().map(String::as_str));
            unknown_name(
                report,
                PLACE,
                &near.map_or(vec!["context.NAME", "steps.NAME.stdout"], |near| vec![near]),
                text,
                (&found, at),
            );
        }
    }

    fn payload(&self, report: &mut DiagnosticReport, node: Option<&ConfigNode>) -> Value {
        self.check_texts(report, node);
        node.map_or(Value::Null, ConfigNode::to_json)
    }

    /// Checks that every text below a node uses existing steps only.
    fn check_texts(&self, report: &mut DiagnosticReport, node: Option<&ConfigNode>) {
        let Some(node) = node else { return };
        match &node.kind {
            NodeKind::Text(text) => self.check_text(report, text, node.at),
            NodeKind::List(items) => items
                .iter()
                .for_each(|item| self.check_texts(report, Some(item))),
            NodeKind::Map(entries) => entries
                .iter()
                .for_each(|(_, value)| self.check_texts(report, Some(value))),
            NodeKind::Null | NodeKind::Bool(_) | NodeKind::Int(_) | NodeKind::Float(_) => {}
        }
    }

    fn check_text(&self, report: &mut DiagnosticReport, text: &str, at: SourceSpan) {
        let offered = self.offered(text);
        check_names(
            report,
            PLACE,
            &offered.iter().map(String::as_str).collect::<Vec<_>>(),
            text,
            at,
        );
        self.check_lookalikes(report, text, at);
    }
}

/// For messages about placeholders.
const PLACE: &str = "a workflow";

/// Reports placeholders of a command that differ, but would share a variable.
fn check_variables(report: &mut DiagnosticReport, command: &str, at: SourceSpan) {
    let mut seen: Vec<String> = Vec::new();
    for Placeholder { name, .. } in template::placeholders(command) {
        let same = seen.iter().find(|other| {
            **other != name && template::variable(other) == template::variable(&name)
        });
        if let Some(same) = same {
            let (one, other) = (
                quoted(&format!("{{{{{same}}}}}")),
                quoted(&format!("{{{{{name}}}}}")),
            );
            let message = format!(
                "{one} and {other} would both be {}",
                template::variable(&name)
            );
            report.error_hint(at, message, "use them in different steps".to_owned());
        }
        seen.push(name);
    }
}

fn as_text(node: &ConfigNode) -> Option<String> {
    match &node.kind {
        NodeKind::Text(text) => Some(text.clone()),
        NodeKind::Int(n) => Some(n.to_string()),
        NodeKind::Null
        | NodeKind::Bool(_)
        | NodeKind::Float(_)
        | NodeKind::List(_)
        | NodeKind::Map(_) => None,
    }
}

fn needed<'a>(
    report: &mut DiagnosticReport,
    node: &'a ConfigNode,
    key: &str,
    kind: &str,
) -> Option<&'a ConfigNode> {
    let given = node.get(key).filter(|given| !given.is_null());
    if given.is_none() {
        report.error(node.at, format!("a step of type `{kind}` needs `{key}`"));
    }
    given
}

/// Reports unknown steps and loops, each at its position.
fn check_way(report: &mut DiagnosticReport, items: &[ConfigNode], steps: &[WorkflowStep]) {
    let known: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
    for (item, step) in items.iter().zip(steps) {
        for (key, next) in [
            ("on_success", &step.on_success),
            ("on_failure", &step.on_failure),
        ] {
            let StepTransition::Step(name) = next else {
                continue;
            };
            if !known.contains(&name.as_str()) {
                let at = item.get(key).map_or(item.at, |node| node.at);
                let hint = suggest(name, known.iter().copied(), "choose from these, or `stop`");
                report.error_hint(at, format!("unknown step {}", quoted(name)), hint);
            }
        }
    }
    if let Some(around) = circle(steps) {
        let at = items
            .get(around[0])
            .map_or_else(SourceSpan::default, |item| item.at);
        let way: Vec<&str> = around
            .iter()
            .chain(&around[..1])
            .filter_map(|at| known.get(*at).copied())
            .collect();
        report.error_hint(
            at,
            format!("these steps form a loop: {}", names(&way)),
            None,
        );
    }
}

/// Finds steps that lead back to the first of them.
fn circle(steps: &[WorkflowStep]) -> Option<Vec<usize>> {
    let following = |at: usize| {
        let to = move |next: &StepTransition| match next {
            StepTransition::Following => Some(at + 1),
            StepTransition::Step(name) => steps.iter().position(|step| step.name == *name),
            StepTransition::End => None,
        };
        [to(&steps[at].on_success), to(&steps[at].on_failure)]
            .into_iter()
            .flatten()
            .filter(|to| *to < steps.len())
    };
    let mut ended = vec![false; steps.len()];
    for from in 0..steps.len() {
        // The current path, with the successors of each step that are still to be tried.
        let mut way: Vec<(usize, Vec<usize>)> = vec![(from, following(from).collect())];
        while let Some((here, rest)) = way.last_mut() {
            let Some(next) = rest.pop() else {
                ended[*here] = true;
                way.pop();
                continue;
            };
            if let Some(start) = way.iter().position(|(at, _)| *at == next) {
                return Some(way[start..].iter().map(|(at, _)| *at).collect());
            }
            if !ended[next] {
                way.push((next, following(next).collect()));
            }
        }
    }
    None
}
