//! From a tree to what is said about tasks: their types, their rules, and what happens by itself when they change.
//!
//! Owns the files of automation hooks. Does not check single values: see [`super::super::validate`].

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Map, Value};

use super::{Loader, display};
use crate::{
    config::{
        automation,
        diagnostic::{Source, quoted},
        fields::Fields,
        hooks,
        node::{self, Kind, Node},
        report::Report,
        settings::{Document, TaskAgents, TaskType},
        shape::{AUTOMATION, RULE, Shape, TASK_LIMITS, Type},
        validate,
    },
    engine::policy::AutomationHook,
};

impl Loader {
    pub(super) fn rules(&mut self, list: Option<&Node>) -> Vec<Value> {
        let rules = list.map(Node::items).unwrap_or_default();
        if let Some(first) = rules.first() {
            self.report.not_yet(first.at, "rules of the stop decision");
        }
        let mut seen: Vec<&str> = Vec::new();
        for rule in rules {
            self.check_rule(rule);
            let Some(name) = rule.get("name") else { continue };
            let Some(text) = name.text() else { continue };
            if seen.contains(&text) {
                let message = format!("another rule is called {}", quoted(text));
                self.report.error_hint(name.at, message, "give one of them another `name`".to_owned());
            }
            seen.push(text);
        }
        rules.iter().map(|rule| canonical(&RULE, rule)).collect()
    }

    fn check_rule(&mut self, rule: &Node) {
        if rule.get("type").and_then(Node::text) == Some("coverage") {
            match (rule.get("file"), rule.get("report")) {
                (None, None) => {
                    self.report.error_hint(rule.at, "`file` is missing", "the coverage report".to_owned());
                }
                (Some(_), Some(report)) => {
                    self.report.error(report.at, "`report` is another name of `file`: keep one of them");
                }
                (Some(_), None) | (None, Some(_)) => {}
            }
        }
    }

    pub(super) fn automation(&mut self, root: &Fields<'_>) -> Vec<AutomationHook> {
        let fields = root.below("automation", &AUTOMATION);
        let mut hooks = automation::builtin();
        if let Some(file) = fields.given("file") {
            self.automation_file(file, &mut hooks);
        }
        let list = fields.given("hooks");
        automation::apply(&mut self.report, list, &mut hooks);
        hooks
    }

    fn automation_file(&mut self, file: &Node, hooks: &mut Vec<AutomationHook>) {
        let Some((path, text)) = self.read_beside(file, "automation file") else { return };
        self.documents.push(Document { name: file.text().unwrap_or_default().to_owned(), text: text.clone() });
        let source = Arc::new(Source::new(display(&path), &text));
        let mut report = Report::new(Arc::clone(&source));
        match node::parse(&source) {
            Ok(root) => {
                validate::check(&mut report, &Type::Object(&AUTOMATION), &root, "automation");
                if let Some(again) = root.get("file").filter(|node| !node.is_null()) {
                    report.error(again.at, "a file of automation hooks cannot name another");
                }
                automation::apply(&mut report, root.get("hooks"), hooks);
            }
            Err(diagnostic) => report.diagnostics.push(diagnostic),
        }
        self.others.push(report);
    }

    pub(super) fn task_types(&mut self, root: &Fields<'_>) -> BTreeMap<String, TaskType> {
        let given = root.given("task_types").map(Node::entries).unwrap_or_default();
        if let Some((first, _)) = given.first() {
            self.report.not_yet(first.at, "task types");
        }
        given.iter().map(|(key, node)| (key.name.clone(), self.task_type(node))).collect()
    }

    fn task_type(&mut self, node: &Node) -> TaskType {
        let limits = Fields::of(&TASK_LIMITS, node.get("limits"));
        TaskType {
            hooks: hooks::lower(&mut self.report, node.get("hooks")),
            agents: node.get("agents").filter(|agents| !agents.is_null()).map(|agents| self.task_agents(agents)),
            rules: self.rules(node.get("rules")),
            max_iterations: limits.maybe_int("max_iterations"),
            max_hook_retries: limits.maybe_int("max_hook_retries"),
            turn_timeout: limits.maybe_duration("turn_timeout"),
        }
    }

    fn task_agents(&mut self, node: &Node) -> TaskAgents {
        if matches!(node.kind, Kind::List(_)) {
            return TaskAgents { implementer: hooks::mention(&mut self.report, node), gatekeeper: Vec::new() };
        }
        let mut role = |name| node.get(name).map(|list| hooks::mention(&mut self.report, list)).unwrap_or_default();
        TaskAgents { implementer: role("implementer"), gatekeeper: role("gatekeeper") }
    }
}

/// A value with the keys' own spelling and their defaults.
fn canonical(ty: &Type, node: &Node) -> Value {
    match ty {
        Type::Either(alternatives) => {
            alternatives.iter().find(|(when, _)| when.holds(node)).map_or(Value::Null, |(_, ty)| canonical(ty, node))
        }
        Type::Object(shape) => canonical_object(shape, node),
        Type::Bool
        | Type::Integer(..)
        | Type::Number(..)
        | Type::Duration(_)
        | Type::Text
        | Type::SomeText
        | Type::OneOf(_)
        | Type::List(_)
        | Type::Map(_)
        | Type::Anything => node.to_json(),
    }
}

fn canonical_object(shape: &Shape, node: &Node) -> Value {
    let mut map = Map::new();
    for field in shape.fields {
        let given = node.get(field.name).filter(|given| !given.is_null());
        let value = given.map(|given| canonical(&field.ty, given)).or_else(|| Some(field.default.node()?.to_json()));
        if let Some(value) = value {
            map.insert(field.name.to_owned(), value);
        }
    }
    Value::Object(map)
}
