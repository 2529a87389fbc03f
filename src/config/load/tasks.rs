//! From a tree to what is said about tasks: their types, and what happens by itself when they change.
//!
//! Owns the files of automation hooks. Does not check single values: see [`super::super::validate`].

use std::{collections::BTreeMap, sync::Arc};

use super::{Loader, display};
use crate::{
    config::{
        automation,
        diagnostic::Source,
        fields::Fields,
        hooks,
        node::{self, Kind, Node},
        report::Report,
        rules,
        settings::{Document, TaskAgents, TaskType},
        shape::{AUTOMATION, TASK_LIMITS, Type},
        validate,
    },
    engine::policy::AutomationHook,
};

impl Loader {
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
            rules: rules::lower(&mut self.report, node.get("rules")),
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
