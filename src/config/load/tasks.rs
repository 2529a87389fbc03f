//! Reads task types and automation.
//!
//! Owns the files of automation hooks. Does not check single values: see
//! [`super::super::validate`].

use std::{collections::BTreeMap, sync::Arc};

use super::{ConfigLoader, display};
use crate::{
    config::{
        automation,
        diagnostic::SourceFile,
        fields::ConfigFields,
        hooks::{self, HookLists, HookNodes},
        keys::{AUTOMATION, STOP, TASK_TYPE, TYPE_STOP},
        node::{self, ConfigNode, NodeKind},
        report::DiagnosticReport,
        rules,
        settings::{ConfigDocument, TaskAgents, TaskType},
        shape::ValueType,
        stop, validate,
    },
    engine::policy::{AutomationHook, RuleSpec, SettledPolicy},
};

impl ConfigLoader {
    pub(super) fn automation(&mut self, root: &ConfigFields<'_>) -> Vec<AutomationHook> {
        let fields = root.below("automation", &AUTOMATION);
        let mut hooks = automation::builtin();
        let file = fields
            .given("file")
            .and_then(|file| self.automation_file(file));
        let (mut others, root) = file.unzip();
        let in_file = others.as_mut().zip(root.as_ref());
        let list = in_file
            .map(|(report, root)| automation::describe(report, root.get("hooks"), &mut hooks));
        let own = automation::describe(&mut self.report, fields.given("hooks"), &mut hooks);
        // Each list can change hooks that the other one defines.
        if let (Some(report), Some(list)) = (&mut others, list) {
            automation::change(report, list, &mut hooks);
        }
        automation::change(&mut self.report, own, &mut hooks);
        self.others.extend(others);
        automation::in_order(hooks)
    }

    /// Reads a file of automation hooks, with its own report.
    fn automation_file(&mut self, file: &ConfigNode) -> Option<(DiagnosticReport, ConfigNode)> {
        let (path, text) = self.read_beside(file, "automation file")?;
        self.documents.push(ConfigDocument {
            name: file.text().unwrap_or_default().to_owned(),
            text: text.clone(),
        });
        let source = Arc::new(SourceFile::new(display(&path), &text));
        let mut report = DiagnosticReport::new(Arc::clone(&source));
        let root = match node::parse(&source) {
            Ok(root) => root,
            Err(diagnostic) => {
                report.diagnostics.push(diagnostic);
                self.others.push(report);
                return None;
            }
        };
        validate::check(
            &mut report,
            &ValueType::Object(&AUTOMATION),
            &root,
            "automation",
        );
        if let Some(again) = root.get("file").filter(|node| !node.is_null()) {
            report.error(
                again.at,
                "a file of automation hooks cannot include another file",
            );
        }
        Some((report, root))
    }

    /// `rules` and `hooks` are the project's, which apply where a type has none.
    pub(super) fn task_types(
        &mut self,
        root: &ConfigFields<'_>,
        rules: &[RuleSpec],
        hooks: &HookLists,
    ) -> BTreeMap<String, TaskType> {
        let given = root
            .given("task_types")
            .map(ConfigNode::entries)
            .unwrap_or_default();
        let settled = root.below("stop", &STOP).maybe_one_of("settled");
        let mut of_type = |node| self.task_type(node, (rules, hooks), settled);
        given
            .iter()
            .map(|(key, node)| (key.name.clone(), of_type(node)))
            .collect()
    }

    fn task_type(
        &mut self,
        node: &ConfigNode,
        (common, outer): (&[RuleSpec], &HookLists),
        settled: Option<SettledPolicy>,
    ) -> TaskType {
        let fields = ConfigFields::of(&TASK_TYPE, Some(node));
        let deciding = fields.below("stop", &TYPE_STOP);
        let own = deciding
            .given("rules")
            .map(|list| rules::lower(&mut self.report, Some(list)));
        let known: Vec<&str> = own
            .as_deref()
            .unwrap_or(common)
            .iter()
            .map(|rule| rule.name.as_str())
            .collect();
        let nodes = HookNodes {
            hooks: fields.given("hooks"),
            checks: fields.given("checks"),
        };
        TaskType {
            hooks: hooks::lower(&mut self.report, nodes, outer),
            agents: fields
                .given("agents")
                .map(|agents| self.task_agents(agents)),
            settled: deciding
                .given("hooks")
                .map(|_| settled.unwrap_or(SettledPolicy::Continue)),
            stop_hooks: deciding
                .given("hooks")
                .map(|list| stop::hooks(&mut self.report, list.items(), &known)),
            rules: own,
            max_iterations: fields.maybe_int("max_iterations"),
            max_hook_retries: fields.maybe_int("max_hook_retries"),
            remediation_attempts: fields.maybe_int("remediation_attempts"),
            turn_timeout: fields.maybe_duration("turn_timeout"),
        }
    }

    fn task_agents(&mut self, node: &ConfigNode) -> TaskAgents {
        if matches!(node.kind, NodeKind::List(_)) {
            return TaskAgents {
                implementer: hooks::mention(&mut self.report, node),
                gatekeeper: Vec::new(),
            };
        }
        let mut role = |name| {
            node.get(name)
                .map(|list| hooks::mention(&mut self.report, list))
                .unwrap_or_default()
        };
        TaskAgents {
            implementer: role("implementer"),
            gatekeeper: role("gatekeeper"),
        }
    }
}
