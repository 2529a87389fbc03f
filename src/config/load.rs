//! Converts a tree to settings.
//!
//! Owns the files that a config names: prompts, scripts, automation. Does not read the keys of the
//! plan (see [`super::plan`]) and does not check single values:
//! [`super::validate`] has reported those. An invalid value reads as its default here, so that all
//! mistakes are reported at once.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    ConfigErrors,
    agents::{AgentDescription, AgentEntry, AgentOrigin, KnownAgents},
    automation,
    claude::{self, ImportedHook},
    diagnostic::{self, Diagnostic, DiagnosticReport, Severity, SourceFile, quoted, suggest},
    fields::ConfigFields,
    hooks::{self, HookLists, HookNodes},
    keys::{AGENT, AUTOMATION, HOOKS, ROOT, STOP, TASK_TYPE, TYPE_STOP, UI},
    nats,
    node::{self, ConfigKey, ConfigNode, FileReadError, NodeKind},
    otel, paths, plan,
    settings::{
        AgentOverrides, ConfigDocument, DESCRIBE, SessionServers, Settings, TaskAgents, TaskType,
        UiSettings, agent_names,
    },
    shape::ValueType,
    stop, validate,
};
use crate::engine::{
    hooks::point::HookPoint,
    policy::{AgentSpec, AutomationHook, RuleSpec, SettledPolicy, TestProtection},
};

const FORMAT: i64 = 1;
const LONGEST_SESSION: usize = 64;

/// The settings of an empty config.
pub(super) fn defaults() -> Settings {
    let mut loader = ConfigLoader::new(Arc::default(), Path::new(""));
    let settings = loader.settings(None);
    Settings {
        path: None,
        documents: Vec::new(),
        ..settings
    }
}

/// The settings of an empty config, with the user's table of agents.
pub(super) fn defaults_with(own: Option<&Path>) -> Result<Settings, ConfigErrors> {
    let mut loader = ConfigLoader::new(Arc::default(), Path::new(""));
    loader.learn(own);
    let settings = loader.settings(None);
    loader.finish(Settings {
        path: None,
        documents: Vec::new(),
        ..settings
    })
}

/// `path` is where the config is.
pub(super) fn parse(text: &str, path: &Path, own: Option<&Path>) -> Result<Settings, ConfigErrors> {
    let source = Arc::new(SourceFile::new(display(path), text));
    let root = node::parse(&source).map_err(ConfigErrors::one)?;
    let mut loader = ConfigLoader::new(source, path);
    loader.learn(own);
    if matches!(root.kind, NodeKind::Map(_) | NodeKind::Null) {
        validate::shape(&mut loader.report, &ROOT, &root);
    } else {
        let message = format!("a config is a map of keys, not {}", root.kind.describe());
        loader.report.error_hint(
            root.at,
            message,
            "such as `prompt: Make the tests pass.`".to_owned(),
        );
    }
    let settings = loader.settings(Some(&root));
    loader.finish(settings)
}

pub(super) fn load(path: &Path, own: Option<&Path>) -> Result<Settings, ConfigErrors> {
    let text = node::read(path).map_err(|reason| {
        let source = Arc::new(SourceFile::new(display(path), ""));
        let hint = match reason {
            FileReadError::Io(_) | FileReadError::Folder => {
                "name another file with --config, or write a config with `creel init`"
            }
            FileReadError::TooLarge(_) | FileReadError::Grew => "check that this is the right file",
            FileReadError::NotUtf8 { .. } => "save it as UTF-8",
        };
        ConfigErrors::one(Diagnostic::error(&source, None, reason.to_string()).hint(hint))
    })?;
    parse(&text, path, own)
}

fn display(path: &Path) -> String {
    path.to_string_lossy()
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

struct ConfigLoader {
    report: DiagnosticReport,
    /// The reports about other files.
    others: Vec<DiagnosticReport>,
    path: PathBuf,
    documents: Vec<ConfigDocument>,
    imports: Vec<ImportedHook>,
    /// Agents that need no entry.
    known: KnownAgents,
}

impl ConfigLoader {
    fn new(source: Arc<SourceFile>, path: &Path) -> Self {
        let name = path
            .file_name()
            .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let documents = vec![ConfigDocument {
            name,
            text: source.text.clone(),
        }];
        let known = KnownAgents::built_in();
        Self {
            report: DiagnosticReport::new(source),
            others: Vec::new(),
            path: path.to_owned(),
            documents,
            imports: Vec::new(),
            known,
        }
    }

    /// Adds the user's table of agents, if it exists.
    fn learn(&mut self, own: Option<&Path>) {
        let Some(path) = own.filter(|path| path.exists()) else {
            return;
        };
        let read = node::read(path);
        let source = Arc::new(SourceFile::new(
            display(path),
            read.as_deref().unwrap_or_default(),
        ));
        let mut report = DiagnosticReport::new(Arc::clone(&source));
        match read {
            Ok(_) => self.known = self.known.with_own(&mut report),
            Err(reason) => {
                report
                    .diagnostics
                    .push(Diagnostic::error(&source, None, reason.to_string()));
            }
        }
        self.others.push(report);
    }

    /// Returns the settings, or the errors if there are any.
    fn finish(self, mut settings: Settings) -> Result<Settings, ConfigErrors> {
        let failed =
            self.report.has_errors() || self.others.iter().any(DiagnosticReport::has_errors);
        let mut diagnostics = self.report.diagnostics;
        diagnostics.extend(
            self.others
                .into_iter()
                .flat_map(|report| report.diagnostics),
        );
        diagnostic::sort(&mut diagnostics);
        if failed {
            // Show only errors. The warnings appear once those are fixed.
            diagnostics.retain(|diagnostic| diagnostic.severity == Severity::Error);
            return Err(ConfigErrors { diagnostics });
        }
        settings.warnings = diagnostics;
        settings.advice = self.report.advice;
        diagnostic::sort(&mut settings.advice);
        Ok(settings)
    }

    fn settings(&mut self, root: Option<&ConfigNode>) -> Settings {
        let root = ConfigFields::of(&ROOT, root);
        self.check_version(&root);
        let agents = self.agents(&root);
        let agent = self.agent(&root, &agents);
        let hooks = self.hooks(&root);
        let automation = self.automation(&root);
        let (base_plan, fallback) = plan::base_plan(&mut self.report, &root, automation);
        let task_types = self.task_types(&root, &base_plan.stop.rules, &hooks);
        let of_types = task_types.values().map(|of_type| &of_type.hooks);
        let protection = base_plan.access.protect_tests;
        self.check_protection(&root, protection, std::iter::once(&hooks).chain(of_types));
        let notes = self.notes(&root, &checks_of_all(&hooks, &task_types));
        hooks::check_mentioned(
            &mut self.report,
            &agent_names(agents.keys(), &self.known).collect::<Vec<_>>(),
        );
        Settings {
            path: Some(self.path.clone()),
            session: self.session(&root),
            prompt: self.prompt(&root),
            agent,
            agents,
            known: self.known.clone(),
            base_plan,
            fallback,
            hooks,
            task_types,
            notes,
            servers: SessionServers {
                nats: root
                    .given("nats")
                    .and_then(|given| nats::lower(&mut self.report, given, &self.path)),
                otel: root
                    .given("otel")
                    .and_then(|given| otel::lower(&mut self.report, given)),
            },
            ui: ui(&root),
            imports: std::mem::take(&mut self.imports),
            documents: std::mem::take(&mut self.documents),
            warnings: Vec::new(),
            advice: Vec::new(),
        }
    }

    fn check_version(&mut self, root: &ConfigFields<'_>) {
        let version: i64 = root.int("version");
        if let Some(given) = root.given("version").filter(|_| version > FORMAT) {
            let message = format!(
                "this creel is too old for version {version} of the config; it supports version {FORMAT}"
            );
            self.report.error_hint(
                given.at,
                message,
                "update creel, or write `version: 1`".to_owned(),
            );
        }
    }

    /// `protect_tests: off` would hide what a check with `tests: base` finds.
    fn check_protection<'h>(
        &mut self,
        root: &ConfigFields<'_>,
        protection: TestProtection,
        lists: impl Iterator<Item = &'h HookLists>,
    ) {
        let is_off = protection == TestProtection::Off;
        let Some(given) = root.given("protect_tests").filter(|_| is_off) else {
            return;
        };
        let of = |lists: &'h HookLists| lists.hooks.values().chain(&lists.checks).flatten();
        if let Some(spec) = lists.flat_map(of).find(|spec| spec.tests.is_some()) {
            let message = format!(
                "`protect_tests: off` contradicts `tests: base` of the check {}",
                quoted(&spec.name)
            );
            let hint = "remove one of the two".to_owned();
            self.report.error_hint(given.at, message, hint);
        }
    }

    fn session(&mut self, root: &ConfigFields<'_>) -> Option<String> {
        let given = root.given("session")?;
        let name = root.some_text("session")?;
        let is_plain = name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        if !is_plain {
            let message = format!("{} is not a valid session name", quoted(&name));
            self.report.error_hint(
                given.at,
                message,
                "use letters, digits, `-` and `_`".to_owned(),
            );
        } else if name.len() > LONGEST_SESSION {
            self.report.error(
                given.at,
                format!("the session name is longer than {LONGEST_SESSION} characters"),
            );
        }
        Some(name)
    }

    fn prompt(&mut self, root: &ConfigFields<'_>) -> Option<String> {
        let Some(file) = root.given("prompt_file") else {
            return root.some_text("prompt");
        };
        if root.given("prompt").is_some() {
            self.report.error_hint(
                file.at,
                "the config has both `prompt` and `prompt_file`",
                "keep one of them".to_owned(),
            );
            return None;
        }
        let (_, text) = self.read_beside(file, "prompt_file")?;
        if text.trim().is_empty() {
            self.report
                .error(file.at, format!("{} is empty", quoted(file.text()?)));
        }
        Some(text)
    }

    /// Reads a file that the config names. A mistake is reported at the position of the name.
    fn read_beside(&mut self, name: &ConfigNode, key: &str) -> Option<(PathBuf, String)> {
        let written = name.text().filter(|text| !text.trim().is_empty())?;
        let path = paths::named(&paths::folder(&self.path), written);
        match node::read(&path) {
            Ok(text) => Some((path, text)),
            Err(reason) => {
                self.report.error_hint(
                    name.at,
                    format!("the {key} {} {reason}", quoted(written)),
                    "paths are relative to the config's folder".to_owned(),
                );
                None
            }
        }
    }

    fn agents(&mut self, root: &ConfigFields<'_>) -> BTreeMap<String, AgentSpec> {
        let entries = root
            .given("agents")
            .map(ConfigNode::entries)
            .unwrap_or_default();
        let own = entries
            .iter()
            .filter(|(key, node)| !self.is_known_agent(key, node))
            .collect::<Vec<_>>();
        own.into_iter()
            .map(|(key, node)| (key.name.clone(), self.agent_spec(key, node)))
            .collect()
    }

    /// Whether an entry only changes an agent that creel knows how to run.
    fn is_known_agent(&self, key: &ConfigKey, node: &ConfigNode) -> bool {
        matches!(node.kind, NodeKind::Map(_))
            && agent_entry(key, node).has_no_way()
            && self.known.named(&key.name).is_some()
    }

    /// Even an invalid entry counts as an agent, or `agent:` would be reported too.
    fn agent_spec(&mut self, key: &ConfigKey, node: &ConfigNode) -> AgentSpec {
        let wrong = || AgentSpec::acp("");
        if !matches!(node.kind, NodeKind::Map(_)) {
            return wrong();
        }
        let entry = agent_entry(key, node);
        let known = &self.known;
        match entry.read(&mut self.report, |command| known.facts_of(command)) {
            Some(AgentDescription::Run(spec)) => *spec,
            Some(AgentDescription::Script(file)) => self.script(file).unwrap_or_else(wrong),
            None => wrong(),
        }
    }

    /// The settings in agents' entries besides their launch methods.
    fn notes(
        &mut self,
        root: &ConfigFields<'_>,
        outer: &HookLists,
    ) -> BTreeMap<String, AgentOverrides> {
        let entries = root
            .given("agents")
            .map(ConfigNode::entries)
            .unwrap_or_default();
        let all = entries
            .iter()
            .map(|(key, node)| (key.name.clone(), self.agent_notes(key, node, outer)));
        all.filter(|(_, notes)| *notes != AgentOverrides::default())
            .collect()
    }

    fn agent_notes(
        &mut self,
        key: &ConfigKey,
        node: &ConfigNode,
        outer: &HookLists,
    ) -> AgentOverrides {
        let facts = self
            .is_known_agent(key, node)
            .then(|| agent_entry(key, node).read_facts(&mut self.report));
        let fields = ConfigFields::of(&AGENT, Some(node));
        let prompt = fields
            .given("prompt_file")
            .and_then(|file| self.read_beside(file, "prompt_file"));
        let nodes = HookNodes {
            hooks: fields.given("hooks"),
            checks: None,
        };
        self.refuse_import(nodes.hooks);
        AgentOverrides {
            hooks: hooks::lower(&mut self.report, nodes, outer),
            prompt: prompt.map(|(_, text)| text),
            facts,
        }
    }

    fn script(&mut self, file: &ConfigNode) -> Option<AgentSpec> {
        let (_, script) = self.read_beside(file, "script")?;
        self.documents.push(ConfigDocument {
            name: file.text()?.to_owned(),
            text: script.clone(),
        });
        Some(AgentSpec::Scripted { script })
    }

    fn agent(
        &mut self,
        root: &ConfigFields<'_>,
        agents: &BTreeMap<String, AgentSpec>,
    ) -> Option<String> {
        let given = root.given("agent")?;
        let name = root.some_text("agent")?;
        if !agents.contains_key(&name) && self.known.named(&name).is_none() {
            let all = agent_names(agents.keys(), &self.known);
            let hint = suggest(&name, all, "describe it under `agents:`, or choose from");
            let hint = hint.unwrap_or_else(|| DESCRIBE.to_owned());
            self.report
                .error_hint(given.at, format!("unknown agent {}", quoted(&name)), hint);
        }
        Some(name)
    }

    /// Refuses an import in the hooks of an agent or a task type.
    fn refuse_import(&mut self, hooks: Option<&ConfigNode>) {
        if let Some(import) = hooks.and_then(|hooks| hooks.get("import")) {
            let hint = "move it to `hooks:` of the config".to_owned();
            let message = "hooks are imported for the whole project";
            self.report.error_hint(import.at, message, hint);
        }
    }

    /// Adds the hooks of the settings files that `hooks.import` names.
    fn import(&mut self, root: &ConfigFields<'_>, lists: &mut HookLists) {
        let named = root.below("hooks", &HOOKS).given("import");
        let files = named.map_or(&[][..], |node| match &node.kind {
            NodeKind::List(items) => items.as_slice(),
            NodeKind::Text(_) => std::slice::from_ref(node),
            NodeKind::Null
            | NodeKind::Bool(_)
            | NodeKind::Int(_)
            | NodeKind::Float(_)
            | NodeKind::Map(_) => &[],
        });
        for file in files {
            let Some((path, text)) = self.read_beside(file, "settings file") else {
                continue;
            };
            let name = file.text().unwrap_or_default().to_owned();
            self.documents.push(ConfigDocument {
                name: name.clone(),
                text: text.clone(),
            });
            let source = Arc::new(SourceFile::new(display(&path), &text));
            let mut report = DiagnosticReport::new(Arc::clone(&source));
            match node::parse_json(&source) {
                Ok(root) => {
                    let file = claude::ImportFile {
                        name: &name,
                        path: &path,
                        root: &root,
                    };
                    self.imports
                        .extend(claude::import(&mut report, &file, lists));
                }
                Err(diagnostic) => report.diagnostics.push(diagnostic),
            }
            self.others.push(report);
        }
    }

    /// The project's hooks. An empty list matters only where a missing list would mean default
    /// hooks.
    fn hooks(&mut self, root: &ConfigFields<'_>) -> HookLists {
        let nodes = HookNodes {
            hooks: root.given("hooks"),
            checks: root.given("checks"),
        };
        let mut lists = hooks::lower(&mut self.report, nodes, &HookLists::default());
        self.import(root, &mut lists);
        lists
            .hooks
            .retain(|point, hooks| !hooks.is_empty() || *point == HookPoint::BeforeSubmit);
        lists.checks = lists.checks.filter(|checks| !checks.is_empty());
        lists
    }
}

/// The checks that can run beside the hooks of an agent: the project's, and those of every task
/// type.
fn checks_of_all(project: &HookLists, types: &BTreeMap<String, TaskType>) -> HookLists {
    let lists = std::iter::once(project).chain(types.values().map(|of_type| &of_type.hooks));
    let checks = lists
        .flat_map(|lists| lists.checks.iter().flatten())
        .cloned()
        .collect();
    HookLists {
        checks: Some(checks),
        ..HookLists::default()
    }
}

fn ui(root: &ConfigFields<'_>) -> UiSettings {
    let ui = root.below("ui", &UI);
    UiSettings {
        theme: ui.one_of("theme"),
        mouse: ui.bool("mouse"),
        notify: ui.bool("notify"),
        motion: ui.one_of("motion"),
        signs: ui.one_of("signs"),
        hints: ui.one_of("hints"),
    }
}

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
            .map(|list| stop::rules(&mut self.report, Some(list)));
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
        self.refuse_import(nodes.hooks);
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
            model: fields.some_text("model"),
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

fn agent_entry<'a>(key: &'a ConfigKey, node: &'a ConfigNode) -> AgentEntry<'a> {
    AgentEntry {
        name: &key.name,
        at: key.at,
        fields: ConfigFields::of(&AGENT, Some(node)),
        ways: &["acp", "command", "script"],
        origin: AgentOrigin::Own,
    }
}
