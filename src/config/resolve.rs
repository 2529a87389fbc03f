//! Resolves the config for one session, by the type of its task and by its agent.
//!
//! Owns their precedence. Does not read anything: see [`mod@super::load`].
//!
//! # Invariants
//! - Each hook point is resolved separately: the agent's list, otherwise the task type's, otherwise
//!   the project's, otherwise the default. `checks` is a list of its own, which runs at `stop`
//!   before that point's list.
//! - The merge is the last hook of its point, wherever the list comes from.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsStr,
    iter,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    diagnostic::{Diagnostic, SourceFile, quoted, suggest},
    hooks::HookLists,
    paths,
    settings::{PlanError, Settings, TaskType, can_pass},
};
use crate::engine::{
    hooks::point::HookPoint,
    policy::{
        AgentSpec, FallbackAgent, Gatekeeper, HookFailurePolicy, HookSpec, MODEL, ModelPlan,
        SessionPlan, StopPlan, TypeNotAllowed,
    },
};

/// The options of one session. The command line overrides the config.
#[derive(Debug, Clone, Copy, Default)]
pub struct PlanRequest<'a> {
    pub agent: Option<&'a str>,
    pub task_type: Option<&'a str>,
    pub max_iterations: Option<u32>,
    pub model: Option<&'a str>,
}

/// Where a hook is configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookOrigin {
    Agent(String),
    TaskType(String),
    Project,
    /// A default hook, which the config does not contain.
    Usual,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ResolvedHook {
    pub spec: HookSpec,
    pub origin: HookOrigin,
    /// The line in the config. None for a default hook.
    pub line: Option<usize>,
}

impl Settings {
    /// The plan of a session, with an agent that can run on this machine.
    pub fn plan(&self, wanted: PlanRequest<'_>) -> Result<SessionPlan, PlanError> {
        self.plan_with(wanted, &env::var_os("PATH").unwrap_or_default())
    }

    /// Searches programs in these folders.
    pub(super) fn plan_with(
        &self,
        wanted: PlanRequest<'_>,
        path: &OsStr,
    ) -> Result<SessionPlan, PlanError> {
        let named = wanted
            .task_type
            .map(|name| Ok::<_, PlanError>((name, self.task_type(name)?)))
            .transpose()?;
        let restricted = named.and_then(|(kind, of_type)| Some((kind, of_type.implementers()?)));
        // `--agent A,B`: B takes over while A cannot work.
        let mut asked = wanted
            .agent
            .into_iter()
            .flat_map(|names| names.split(','))
            .map(str::trim);
        let own = asked.next();
        let fallback: Vec<&str> = asked.collect();
        let is_of_config = |allowed: &[String]| {
            self.agent
                .as_ref()
                .is_some_and(|agent| allowed.contains(agent))
        };
        let (agent, agent_spec) = match restricted {
            Some((kind, allowed)) if own.is_none() && !is_of_config(allowed) => {
                self.first_installed(kind, allowed, path)?
            }
            Some(_) | None => self.pick(own, path)?,
        };
        if let Some((kind, allowed)) = restricted
            && !allowed.contains(&agent)
        {
            return Err(PlanError::NotAllowed(TypeNotAllowed::new(
                &agent, kind, allowed,
            )));
        }
        let mut plan = self.plan_of(wanted, (agent, agent_spec), path);
        if plan.models != ModelPlan::default() {
            can_pass(&plan.agent, &plan.agent_spec, MODEL)?;
        }
        let config_fallbacks = if fallback.is_empty() {
            self.fallback.as_slice()
        } else {
            &[]
        };
        let others = config_fallbacks.iter().filter(|name| **name != plan.agent);
        let of_type = named.and_then(|(_, of_type)| of_type.agents.as_ref());
        let of_type = of_type.map_or(&[][..], |agents| &agents.gatekeeper);
        let reviewers = plan
            .hooks
            .values()
            .flatten()
            .flat_map(HookSpec::gatekeepers);
        for name in others.chain(of_type).chain(reviewers) {
            // Without these the session starts. Without their options it must not.
            if let Err(error @ PlanError::NoFlag { .. }) = self.pick(Some(name), path) {
                return Err(error);
            }
        }
        if !fallback.is_empty() {
            plan.limits.fallback.clear();
            for name in fallback {
                plan.limits.fallback.push(self.fallback_agent(name, path)?);
            }
        }
        Ok(plan)
    }

    /// The plan of a session with an agent under `agents:`, for the list of what the config would
    /// run: whether or not the agent is installed and accepts the config's models.
    pub fn plan_to_trust(&self, agent: &str) -> SessionPlan {
        let path = env::var_os("PATH").unwrap_or_default();
        let spec = self.described_spec(agent).unwrap_or(AgentSpec::Outside);
        self.plan_of(PlanRequest::default(), (agent.to_owned(), spec), &path)
    }

    pub fn agent_named(&self, name: &str) -> Result<AgentSpec, PlanError> {
        self.pick(Some(name), &env::var_os("PATH").unwrap_or_default())
            .map(|(_, spec)| spec)
    }

    fn fallback_agent(&self, name: &str, path: &OsStr) -> Result<FallbackAgent, PlanError> {
        self.pick(Some(name), path)
            .map(|(name, spec)| FallbackAgent { name, spec })
    }

    /// The fallback agents of the config. Skips those that are not installed, because they can be
    /// meant for another machine.
    fn fallbacks(&self, agent: &str, path: &OsStr) -> Vec<FallbackAgent> {
        let others = self.fallback.iter().filter(|name| *name != agent);
        others
            .filter_map(|name| self.fallback_agent(name, path).ok())
            .collect()
    }

    /// The plan of a session with a self-driven agent.
    pub fn plan_outside(&self, task_type: Option<&str>) -> SessionPlan {
        let path = env::var_os("PATH").unwrap_or_default();
        let wanted = PlanRequest {
            task_type,
            ..PlanRequest::default()
        };
        let agent = (self.base_plan.agent.clone(), AgentSpec::Outside);
        self.plan_of(wanted, agent, &path)
    }

    fn plan_of(
        &self,
        wanted: PlanRequest<'_>,
        (agent, agent_spec): (String, AgentSpec),
        path: &OsStr,
    ) -> SessionPlan {
        let chosen = self.hooks_for(wanted.task_type, Some(&agent));
        let of_type = wanted.task_type.and_then(|name| self.task_types.get(name));
        let mut plan = SessionPlan {
            gatekeepers: self.gatekeepers(&chosen, of_type, path),
            hooks: given(chosen),
            task_type: wanted.task_type.map(str::to_owned),
            task_types: self.restricted(),
            ..self.base_plan.clone()
        };
        plan.access.config_files = self.config_files();
        plan.limits.fallback = self.fallbacks(&agent, path);
        let model = wanted.model.map(str::to_owned);
        let model = model.or_else(|| of_type?.model.clone());
        let model = model.or_else(|| agent_spec.model().map(str::to_owned));
        plan.models.model = model.or(plan.models.model);
        if agent_spec == AgentSpec::Outside {
            plan.models = ModelPlan::default();
        }
        (plan.agent, plan.agent_spec) = (agent, agent_spec);
        if let Some(of_type) = of_type {
            of_type.override_plan(&mut plan);
        }
        plan.max_iterations = wanted.max_iterations.unwrap_or(plan.max_iterations);
        self.leave_own_hooks(&mut plan);
        plan
    }

    /// Notes which agents of a plan run an imported hook themselves, so that none runs twice.
    fn leave_own_hooks(&self, plan: &mut SessionPlan) {
        let Some(path) = &self.path else { return };
        let place = |folder: &Path, name: &str| {
            let path = paths::named(folder, name);
            path.canonicalize().unwrap_or(path)
        };
        let root = paths::project_root(path);
        let own = |spec: &AgentSpec| -> Vec<PathBuf> {
            let files = spec.facts().map(|facts| facts.own_hooks.as_slice());
            files
                .unwrap_or_default()
                .iter()
                .map(|file| place(&root, file))
                .collect()
        };
        let fallbacks = plan
            .limits
            .fallback
            .iter()
            .map(|agent| (&agent.name, &agent.spec));
        let agents: Vec<(String, Vec<PathBuf>)> = iter::once((&plan.agent, &plan.agent_spec))
            .chain(fallbacks)
            .map(|(name, spec)| (name.clone(), own(spec)))
            .collect();
        let handlers = plan.hooks.values_mut().flatten();
        for handler in handlers.filter_map(|spec| spec.claude.as_mut()) {
            let Some(file) = &handler.file else { continue };
            let file = place(&paths::folder(path), file);
            let runs_it = agents.iter().filter(|(_, files)| files.contains(&file));
            handler.left_to = runs_it.map(|(name, _)| name.clone()).collect();
        }
    }

    /// The absolute paths of all config files.
    fn config_files(&self) -> Vec<String> {
        let Some(path) = &self.path else {
            return Vec::new();
        };
        let path = path.canonicalize().unwrap_or_else(|_| path.clone());
        let folder = paths::folder(&path);
        // The first document is the config itself.
        let others = self
            .documents
            .iter()
            .skip(1)
            .map(|document| paths::named(&folder, &document.name));
        let files = iter::once(path).chain(others);
        files
            .map(|file| file.to_string_lossy().into_owned())
            .collect()
    }

    /// The hooks of each point and their origin, for a task type and an agent.
    pub fn hooks_for(
        &self,
        task_type: Option<&str>,
        agent: Option<&str>,
    ) -> BTreeMap<HookPoint, Vec<ResolvedHook>> {
        let of_agent = agent.and_then(|name| Some((name, &self.notes.get(name)?.hooks)));
        let of_type = task_type.and_then(|name| Some((name, &self.task_types.get(name)?.hooks)));
        let layers = [
            of_agent.map(|(name, lists)| (HookOrigin::Agent(name.to_owned()), lists)),
            of_type.map(|(name, lists)| (HookOrigin::TaskType(name.to_owned()), lists)),
            Some((HookOrigin::Project, &self.hooks)),
        ];
        let layers: Vec<_> = layers.into_iter().flatten().collect();
        let chosen = HookPoint::ALL
            .into_iter()
            .filter_map(|point| Some((point, self.choose(point, &layers)?)));
        chosen.collect()
    }

    /// The hooks of a point from the first layer that has a list for it.
    fn choose(&self, point: HookPoint, layers: &[HookLayer<'_>]) -> Option<Vec<ResolvedHook>> {
        let usual = self.base_plan.submit.usual.get(&point);
        let as_usual = |spec: &HookSpec| ResolvedHook {
            spec: spec.clone(),
            origin: HookOrigin::Usual,
            line: None,
        };
        let listed = from_first(layers, point, |lists| lists.hooks.get(&point));
        let checks = from_first(layers, point, |lists| {
            lists.checks.as_ref().filter(|_| point == HookPoint::Stop)
        });
        if listed.is_none() && checks.is_none() {
            return usual.map(|usual| usual.iter().map(as_usual).collect());
        }
        let mut chosen = checks.unwrap_or_default();
        for hook in listed.into_iter().flatten() {
            // The config warned about a hook that is also a check.
            if !chosen.iter().any(|check| check.spec.name == hook.spec.name) {
                chosen.push(hook);
            }
        }
        chosen.sort_by_key(|hook| hook.spec.priority);
        if point == HookPoint::BeforeMerge && !chosen.iter().any(|chosen| chosen.spec.is_merge()) {
            chosen.push(as_usual(&HookSpec::merge()));
        }
        Some(chosen)
    }

    /// The hooks that the project configures, without those of agents and task types.
    pub fn project_hooks(&self) -> BTreeMap<HookPoint, Vec<HookSpec>> {
        given(self.hooks_for(None, None))
    }

    fn task_type(&self, name: &str) -> Result<&TaskType, PlanError> {
        self.task_types.get(name).ok_or_else(|| {
            let known = self.task_types.keys().map(String::as_str);
            let hint = suggest(name, known, "choose from");
            let hint = hint.unwrap_or_else(|| {
                "the config has no task types: add it under `task_types:`".to_owned()
            });
            PlanError::UnknownType {
                name: name.to_owned(),
                hint,
            }
        })
    }

    /// The agents that can work on each task type. Without an entry, all agents can.
    fn restricted(&self) -> BTreeMap<String, Vec<String>> {
        let types = self.task_types.iter();
        types
            .filter_map(|(name, of_type)| Some((name.clone(), of_type.implementers()?.to_vec())))
            .collect()
    }

    /// How to run the reviewing agents. A name that is not an agent is a kind of review, which a
    /// gatekeeper of the task type does. Skips agents that cannot run: the review itself reports
    /// that.
    fn gatekeepers(
        &self,
        chosen: &BTreeMap<HookPoint, Vec<ResolvedHook>>,
        of_type: Option<&TaskType>,
        path: &OsStr,
    ) -> BTreeMap<String, Gatekeeper> {
        let own = of_type
            .and_then(|it| it.agents.as_ref())
            .map_or(&[][..], |agents| agents.gatekeeper.as_slice());
        let named = chosen
            .values()
            .flatten()
            .map(|chosen| chosen.spec.gatekeepers());
        let known = |name: &str| self.pick(Some(name), path).ok();
        let found = named.flatten().filter_map(|name| {
            let stands_in = || {
                own.iter()
                    .find(|agent| agent.contains(name.as_str()))
                    .or(own.first())
            };
            let (agent, spec) = known(name).or_else(|| known(stands_in()?))?;
            let prompt = [name, &agent]
                .into_iter()
                .find_map(|name| self.notes.get(name)?.prompt.clone());
            Some((
                name.clone(),
                Gatekeeper {
                    agent,
                    spec,
                    prompt,
                },
            ))
        });
        found.collect()
    }
}

type HookLayer<'a> = (HookOrigin, &'a HookLists);

/// The list of the first layer that has one.
fn from_first<'a>(
    layers: &[HookLayer<'a>],
    point: HookPoint,
    list: impl Fn(&'a HookLists) -> Option<&'a Vec<HookSpec>>,
) -> Option<Vec<ResolvedHook>> {
    let (origin, lists, specs) = layers
        .iter()
        .find_map(|(origin, lists)| Some((origin, lists, list(lists)?)))?;
    let line = |spec: &HookSpec| lists.lines.get(&(point, spec.name.clone())).copied();
    let resolved = |spec: &HookSpec| ResolvedHook {
        spec: spec.clone(),
        origin: origin.clone(),
        line: line(spec),
    };
    Some(specs.iter().map(resolved).collect())
}

/// The configured hooks. Points with default hooks only are omitted.
fn given(chosen: BTreeMap<HookPoint, Vec<ResolvedHook>>) -> BTreeMap<HookPoint, Vec<HookSpec>> {
    let written = |list: &[ResolvedHook]| {
        list.is_empty() || list.iter().any(|chosen| chosen.origin != HookOrigin::Usual)
    };
    let points = chosen.into_iter().filter(|(_, list)| written(list));
    points
        .map(|(point, list)| (point, list.into_iter().map(|chosen| chosen.spec).collect()))
        .collect()
}

impl Settings {
    /// What `creel check` advises about this config with these hooks and decisions, besides its
    /// warnings.
    pub fn advice_for(
        &self,
        hooks: &BTreeMap<HookPoint, Vec<ResolvedHook>>,
        stop: &StopPlan,
    ) -> Vec<Diagnostic> {
        let counts =
            |hook: &HookSpec| hook.enabled && hook.on_failure != Some(HookFailurePolicy::Ignore);
        let has_check = hooks
            .get(&HookPoint::Stop)
            .into_iter()
            .flatten()
            .any(|hook| counts(&hook.spec))
            || stop.rules.iter().any(|rule| rule.enabled)
            || !self.base_plan.access.protect.is_empty();
        let missing = (!has_check).then(|| {
            let name = self
                .path
                .as_deref()
                .unwrap_or(Path::new(""))
                .to_string_lossy();
            let source = Arc::new(SourceFile::new(name, ""));
            let message = "no check: the session ends as complete without any check";
            Diagnostic::warning(&source, None, message)
                .hint("add your tests: `checks: [\"make test\"]`")
        });
        missing
            .into_iter()
            .chain(self.advice.iter().cloned())
            .collect()
    }
}

impl HookOrigin {
    /// For the user.
    pub fn describe(&self) -> String {
        match self {
            Self::Agent(name) => format!("agent {}", quoted(name)),
            Self::TaskType(name) => format!("task type {}", quoted(name)),
            Self::Project => "the project".to_owned(),
            Self::Usual => "default".to_owned(),
        }
    }
}
