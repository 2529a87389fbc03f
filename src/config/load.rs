//! Converts a tree to settings.
//!
//! Owns what keys mean together, and the files that a config names. Does not check single values:
//! [`super::validate`] has reported those. An invalid value reads as its default here, so that all
//! mistakes are reported at once.

mod tasks;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    ConfigErrors,
    agents::{AgentDescription, AgentEntry},
    diagnostic::{self, Diagnostic, Severity, SourceFile, quoted, suggest},
    fields::ConfigFields,
    hooks::{self, HookLists, HookNodes},
    keys::{AGENT, GATES, RETRY, ROOT, STOP, SUBMIT, UI},
    known_agents::{AgentOrigin, KnownAgents},
    nats,
    node::{self, ConfigKey, ConfigNode, FileReadError, NodeKind},
    paths,
    report::DiagnosticReport,
    rules,
    settings::{
        AgentOverrides, ConfigDocument, DESCRIBE, Settings, TaskType, UiSettings, agent_names,
    },
    stop, validate, workflows, worktree,
};
use crate::{
    config::permissions,
    engine::{
        hooks::{point::HookPoint, template},
        policy::{
            AgentAccess, AgentSpec, BackoffPolicy, CompletionInstructions, GatePolicies,
            LimitsPlan, SessionPlan, SettledPolicy, StopHook, StopPlan, StopPreset, SubmitPlan,
        },
    },
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
        let (limits, fallback) = permissions::limits(&mut self.report, &root);
        let base_plan = self.base_plan(&root, limits);
        let task_types = self.task_types(&root, &base_plan.stop.rules, &hooks);
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
            nats: root
                .given("nats")
                .and_then(|given| nats::lower(&mut self.report, given, &self.path)),
            ui: ui(&root),
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
        let path = paths::folder(&self.path).join(written);
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
        entries
            .iter()
            .map(|(key, node)| (key.name.clone(), self.agent_spec(key, node)))
            .collect()
    }

    /// Even an invalid entry counts as an agent, or `agent:` would be reported too.
    fn agent_spec(&mut self, key: &ConfigKey, node: &ConfigNode) -> AgentSpec {
        let wrong = || AgentSpec::acp("");
        if !matches!(node.kind, NodeKind::Map(_)) {
            return wrong();
        }
        let entry = AgentEntry {
            name: &key.name,
            at: key.at,
            fields: ConfigFields::of(&AGENT, Some(node)),
            ways: &["acp", "command", "script"],
            origin: AgentOrigin::Own,
        };
        let known = &self.known;
        match entry.read(&mut self.report, |command| known.facts_of(command)) {
            Some(AgentDescription::Run(spec)) => spec,
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
            .map(|(key, node)| (key.name.clone(), self.agent_notes(node, outer)));
        all.filter(|(_, notes)| *notes != AgentOverrides::default())
            .collect()
    }

    fn agent_notes(&mut self, node: &ConfigNode, outer: &HookLists) -> AgentOverrides {
        let fields = ConfigFields::of(&AGENT, Some(node));
        let prompt = fields
            .given("prompt_file")
            .and_then(|file| self.read_beside(file, "prompt_file"));
        let nodes = HookNodes {
            hooks: fields.given("hooks"),
            checks: None,
        };
        AgentOverrides {
            hooks: hooks::lower(&mut self.report, nodes, outer),
            prompt: prompt.map(|(_, text)| text),
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

    /// The project's hooks. An empty list matters only where a missing list would mean default
    /// hooks.
    fn hooks(&mut self, root: &ConfigFields<'_>) -> HookLists {
        let nodes = HookNodes {
            hooks: root.given("hooks"),
            checks: root.given("checks"),
        };
        let mut lists = hooks::lower(&mut self.report, nodes, &HookLists::default());
        lists
            .hooks
            .retain(|point, hooks| !hooks.is_empty() || *point == HookPoint::BeforeSubmit);
        lists.checks = lists.checks.filter(|checks| !checks.is_empty());
        lists
    }

    fn base_plan(&mut self, root: &ConfigFields<'_>, limits: LimitsPlan) -> SessionPlan {
        let gates = root.below("gates", &GATES);
        SessionPlan {
            limits,
            max_iterations: root.int("max_iterations"),
            instructions: CompletionInstructions::of(
                &root.some_text("instructions").unwrap_or_default(),
            ),
            context: root.one_of("context"),
            max_hook_retries: root.int("max_hook_retries"),
            on_limit: root.one_of("on_limit"),
            max_consecutive_errors: root.int("max_consecutive_errors"),
            turn_timeout: root.duration("turn_timeout"),
            output_limit: root.int("output_limit"),
            backoff: self.backoff(root),
            gates: GatePolicies {
                final_delivery: gates.maybe_one_of("final_delivery"),
                delivery: gates.one_of("delivery"),
                permissions: gates.one_of("permissions"),
                timeout: gates.duration("timeout"),
            },
            automation: self.automation(root),
            workflows: workflows::lower(&mut self.report, root.given("workflows")),
            stop: self.stop(root),
            access: AgentAccess {
                permissions: permissions::permissions(&mut self.report, root.given("permissions")),
                agent_may: permissions::agent_may(root),
                protect: permissions::protect(&mut self.report, root.given("protect")),
                config_files: Vec::new(),
            },
            budget: permissions::budget(root),
            submit: submit(&mut self.report, root),
            worktree: worktree::worktree(&mut self.report, root),
            agent: "outside".to_owned(),
            agent_spec: AgentSpec::Outside,
            // These depend on the agent and the type of the task.
            hooks: BTreeMap::new(),
            gatekeepers: BTreeMap::new(),
            task_type: None,
            task_types: BTreeMap::new(),
            proposal: None,
        }
    }

    fn backoff(&mut self, root: &ConfigFields<'_>) -> Option<BackoffPolicy> {
        let retry = root.below("retry", &RETRY);
        let backoff = retry.given("backoff");
        let number = ["base", "factor", "max", "jitter"]
            .into_iter()
            .find_map(|key| retry.given(key));
        if let (Some("none"), Some(number)) = (backoff.and_then(ConfigNode::text), number) {
            let message = "this has no effect with `backoff: none`";
            self.report
                .error_hint(number.at, message, "remove one of the two".to_owned());
        }
        (number.is_some() || backoff.and_then(ConfigNode::text) == Some("exponential")).then(|| {
            BackoffPolicy {
                base: retry.duration("base"),
                factor: retry.number("factor"),
                max: retry.duration("max"),
                jitter: retry.number("jitter"),
            }
        })
    }

    fn stop(&mut self, root: &ConfigFields<'_>) -> StopPlan {
        let stop = root.below("stop", &STOP);
        let given = stop
            .given("hooks")
            .filter(|list| matches!(list.kind, NodeKind::List(_)));
        let rules = rules::lower(&mut self.report, stop.given("rules"));
        let known: Vec<&str> = rules.iter().map(|rule| rule.name.as_str()).collect();
        let hooks = match given {
            Some(list) => stop::hooks(&mut self.report, list.items(), &known),
            None => vec![StopHook::preset(StopPreset::Default)],
        };
        let usually = if given.is_some() {
            SettledPolicy::Continue
        } else {
            SettledPolicy::Complete
        };
        StopPlan {
            hooks,
            rules,
            settled: stop.maybe_one_of("settled").unwrap_or(usually),
            open_tasks: stop.one_of("open_tasks"),
            circuit_breaker: stop.int("circuit_breaker"),
            thrashing: stop.int("thrashing"),
            no_progress: stop.int("no_progress"),
        }
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

fn submit(report: &mut DiagnosticReport, root: &ConfigFields<'_>) -> SubmitPlan {
    let submit = root.below("submit", &SUBMIT);
    if let (Some(node), Some(command)) =
        (submit.given("pr_command"), submit.some_text("pr_command"))
    {
        hooks::check_placeholders(
            report,
            "`pr_command`",
            template::PULL_REQUEST,
            &command,
            node.at,
        );
    }
    let at_once = matches!(
        root.given("submit"),
        Some(ConfigNode {
            kind: NodeKind::Bool(true),
            ..
        })
    );
    SubmitPlan {
        on_complete: at_once || submit.bool("on_complete"),
        base_branch: submit.some_text("base_branch"),
        remote: submit.some_text("remote"),
        pr_command: submit.some_text("pr_command"),
        test_command: submit.some_text("test_command"),
        remediation_attempts: root.int("remediation_attempts"),
        usual: SubmitPlan::default().usual,
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
