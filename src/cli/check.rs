//! `creel check`: shows what a config means, before anything runs.

use std::{collections::BTreeMap, path::Path};

use clap::Args;
use serde_json::json;

use crate::{
    agents::prices::PriceTable,
    cli::{
        agents::INTERRUPTED,
        arguments::ConfigArgs,
        error::{CliResult, print, say},
        launch::readiness,
        target::Project,
        verb_outcome::VerbOutcome,
    },
    config::{
        self, HookOrigin, ImportResult, ImportedHook, PlanError, PlanRequest, ResolvedHook,
        Settings, paths,
    },
    engine::{
        hooks::point::HookPoint,
        policy::{
            AgentSpec, AutomationHook, Budget, FinalDeliveryPolicy, HookAction, HookSpec,
            OutputFormat, PermissionPolicy, PermissionRule, RuleSpec, SessionPlan, StopPlan,
            SubmitPlan, ToolHookLevel,
        },
        time::TimeSpan,
    },
    present::{
        policies::{hook_failure_policy, output_format, retry_limit_policy},
        style::{ColourMode, TextRole},
        text::{counted, plain},
    },
    protocol::view,
};

/// What to check.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Which config.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Check the settings for this task type, one of the config's `task_types`.
    #[arg(short, long, value_name = "TYPE")]
    pub task_type: Option<String>,
    /// Check the settings for this agent.
    #[arg(short, long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Exit with code 1 if the config is valid but has warnings, or needs something that this
    /// machine does not have.
    #[arg(long)]
    pub strict: bool,
}

/// What a config means on this machine, ready to be printed.
pub(crate) struct CheckReport {
    args: CheckArgs,
    project: Project,
    plan: Result<SessionPlan, PlanError>,
    problems: Vec<String>,
    /// What the config says and probably does not mean.
    warnings: Vec<String>,
    hooks: BTreeMap<HookPoint, Vec<ResolvedHook>>,
}

pub(super) fn check(args: CheckArgs) -> CliResult<VerbOutcome> {
    if args.json
        && let Some(errors) = Project::mistakes(&args.config)?
    {
        print(&format!("{:#}\n", json!({ "errors": errors })))?;
        return Ok(VerbOutcome::Done(2));
    }
    let project = Project::load_existing(&args.config)?;
    let wanted = PlanRequest {
        agent: args.agent.as_deref(),
        task_type: args.task_type.as_deref(),
        ..PlanRequest::default()
    };
    let plan = project.settings.plan(wanted);
    // A user that names a type or an agent has to learn that it is not available.
    if let Err(
        error @ (PlanError::UnknownType { .. }
        | PlanError::NotAllowed(_)
        | PlanError::UnknownAgent { .. }),
    ) = plan
    {
        return Err(error.into());
    }
    let Some(problems) = readiness::problems(&project, plan.as_ref(), args.agent.as_deref())?
    else {
        return Ok(VerbOutcome::Done(INTERRUPTED));
    };
    let agent = plan
        .as_ref()
        .map(|plan| plan.agent.as_str())
        .ok()
        .or(args.agent.as_deref());
    let settings = &project.settings;
    let hooks = settings.hooks_for(args.task_type.as_deref(), agent);
    let stop = plan
        .as_ref()
        .map_or(&settings.base_plan.stop, |plan| &plan.stop);
    let advice = settings.advice_for(&hooks, stop);
    if !advice.is_empty() {
        say(&config::render(&advice));
    }
    let unseen = plan.as_ref().ok().map(|plan| {
        let known = &project.settings.known;
        readiness::warn_about_unseen_calls(plan, known)
    });
    let prices = paths::prices_file().and_then(|file| PriceTable::read(&file).err());
    let prices = prices.map(|error| format!("{error}\n  creel cannot estimate what turns cost"));
    if let Some(warning) = &prices {
        say(&format!("creel: warning: {warning}"));
    }
    let warnings = settings.warnings.iter().chain(&advice);
    let warnings = warnings.map(|warning| warning.message.clone());
    let warnings = warnings
        .chain(unseen.into_iter().flatten())
        .chain(prices)
        .collect();
    Ok(VerbOutcome::PrintCheck(Box::new(CheckReport {
        args,
        project,
        plan,
        problems,
        warnings,
        hooks,
    })))
}

impl CheckReport {
    /// Prints the report, and returns the exit code. The screen knows the mistakes in the user's
    /// keymap.
    pub(crate) fn print(&self, keymap_mistakes: &[String]) -> CliResult {
        let text = if self.args.json {
            self.json(keymap_mistakes)
        } else {
            self.text(keymap_mistakes)
        };
        let is_clean = self.problems.is_empty() && self.warnings.is_empty();
        print(&text).map(|_| u8::from(self.args.strict && !is_clean))
    }

    fn json(&self, keymap_mistakes: &[String]) -> String {
        let Self {
            args,
            project,
            plan,
            problems,
            warnings,
            hooks,
        } = self;
        let settings = &project.settings;
        let agent = match plan {
            Ok(plan) => json!({ "name": plan.agent, "runs": plan.agent_spec }),
            Err(error) => json!({ "name": settings.agent, "error": error.to_string() }),
        };
        let warnings: Vec<&String> = warnings.iter().chain(keymap_mistakes).collect();
        let mut follows = json!(settings.base_plan);
        if let Some(fields) = follows.as_object_mut() {
            // These are beside the plan, or known only once the session has its agent.
            for key in ["agent", "agent_spec", "gatekeepers", "task_types"] {
                fields.remove(key);
            }
        }
        let SessionPlan {
            access, worktree, ..
        } = &settings.base_plan;
        (follows["protect"], follows["worktree"]) = (json!(access.protect), json!(worktree));
        follows["fallback"] = json!(settings.fallback);
        follows["hooks"] = json!(settings.project_hooks());
        if let Ok(plan) = plan {
            // The settings of the task type count.
            (follows["stop"], follows["max_iterations"]) =
                (json!(plan.stop), json!(plan.max_iterations));
        }
        let all = json!({
            "config": settings.path.as_deref().map(Path::to_string_lossy),
            "project": project.root.to_string_lossy(),
            "session": settings.session,
            "prompt": settings.prompt,
            "agent": agent,
            "plan": follows,
            "task_type": args.task_type,
            "hooks": listed(settings, hooks),
            "imported": imports_listed(settings, plan.as_ref().ok()),
            "nats": settings.servers.nats.as_ref().map(|nats| json!({
                "url": nats.shown(), "prefix": nats.prefix, "stream": nats.stream.name,
            })),
            "otel": settings.servers.otel.as_ref().map(|otel| otel.endpoint.shown()),
            "warnings": warnings,
            "notes": plan.iter().flat_map(forgetful_agents).collect::<Vec<_>>(),
            "ready": problems.is_empty(),
            "problems": problems,
        });
        format!("{all:#}\n")
    }

    fn text(&self, keymap_mistakes: &[String]) -> String {
        let Self {
            args,
            project,
            plan,
            problems,
            warnings,
            hooks,
        } = self;
        let settings = &project.settings;
        let paint = ColourMode::for_stream(&std::io::stdout());
        let mut text = heading(settings, problems, warnings, paint);
        text += &plan
            .as_ref()
            .map_or_else(|_| "agent      none\n".to_owned(), agent_line);
        text += &plan
            .iter()
            .flat_map(forgetful_agents)
            .map(|note| format!("           {}\n", plain(&note)))
            .collect::<String>();
        text += &limits(settings, plan.as_ref().ok());
        text += &allowance(settings);
        text += &types(settings, args.task_type.as_deref());
        text += &nats(settings);
        text += &otel(settings);
        text += &keymap_mistakes
            .iter()
            .map(|why| paint.paint(TextRole::Warning, format!("keymap     {}\n", plain(why))))
            .collect::<String>();
        text += &points(settings, hooks, paint);
        text += &imported(settings, plan.as_ref().ok(), paint);
        let stop = plan
            .as_ref()
            .map_or(&settings.base_plan.stop, |plan| &plan.stop);
        text + &deciding(stop, paint) + &rules(stop, paint) + &automation(settings, paint)
    }
}

/// Whether the config is valid, and what is missing on this machine. The warnings are on standard
/// error.
fn heading(
    settings: &Settings,
    problems: &[String],
    warnings: &[String],
    paint: ColourMode,
) -> String {
    let path = settings
        .path
        .as_deref()
        .map(|path| plain(&path.display().to_string()))
        .unwrap_or_default();
    if problems.is_empty() {
        let with = match warnings.len() {
            0 => String::new(),
            all => format!(", with {}", counted(all, "warning")),
        };
        return paint.paint(TextRole::Heading, format!("{path} is valid{with}\n"));
    }
    let item = |problem: &String| format!("  - {}\n", plain(problem).replace('\n', "\n  "));
    let list: String = problems.iter().map(item).collect();
    paint.paint(TextRole::Heading, format!("{path} is valid, but:\n"))
        + &paint.paint(TextRole::Warning, list)
}

fn agent_line(plan: &SessionPlan) -> String {
    let how = match &plan.agent_spec {
        AgentSpec::Acp { command, mode, .. } => {
            let mode = mode
                .as_ref()
                .map(|mode| format!(", mode {mode}"))
                .unwrap_or_default();
            format!("{command} (ACP{mode})")
        }
        AgentSpec::Command {
            command,
            format: OutputFormat::Text,
            ..
        } => command.clone(),
        AgentSpec::Command {
            command, format, ..
        } => {
            format!(
                "{command} (read as the JSON lines of {})",
                output_format(*format)
            )
        }
        AgentSpec::Scripted { script } => format!("a script of {}", counted(script.len(), "byte")),
        AgentSpec::Outside => "drives itself".into(),
    };
    format!("agent      {}: {}\n", plain(&plan.agent), plain(&how))
}

/// Notes about the session's agent and its fallbacks, if they cannot continue a conversation.
fn forgetful_agents(plan: &SessionPlan) -> Vec<String> {
    let fallbacks = plan
        .limits
        .fallback
        .iter()
        .map(|agent| (agent.name.as_str(), &agent.spec));
    let agents = std::iter::once((plan.agent.as_str(), &plan.agent_spec)).chain(fallbacks);
    let forgetful = agents.filter(|(_, spec)| spec.forgets());
    forgetful
        .map(|(name, _)| {
            format!("`{name}` starts a new conversation for every prompt; give it `continue_command` to continue one")
        })
        .collect()
}

fn limits(settings: &Settings, plan: Option<&SessionPlan>) -> String {
    let base = &settings.base_plan;
    // A task type can have its own limits.
    let (iterations, retries, turn) = plan.map_or(
        (
            base.max_iterations,
            base.max_hook_retries,
            base.turn_timeout,
        ),
        |plan| {
            (
                plan.max_iterations,
                plan.max_hook_retries,
                plan.turn_timeout,
            )
        },
    );
    let turn = if turn.is_zero() {
        "any length of time".into()
    } else {
        turn.to_string()
    };
    let wait = base.backoff.as_ref().map_or_else(
        || "without a wait".to_owned(),
        |backoff| {
            format!(
                "after {}, times {}, at most {}",
                backoff.base, backoff.factor, backoff.max
            )
        },
    );
    let delivery = match base.gates.final_delivery {
        None => "asks you, or sends pending items when unattended",
        Some(FinalDeliveryPolicy::Ask) => "asks you",
        Some(FinalDeliveryPolicy::Auto) => "sends pending items",
        Some(FinalDeliveryPolicy::Skip) => "skips pending items",
    };
    format!(
        "iterations at most {iterations}, a turn may take {turn}\n\
         retries    at most {retries}, {wait}; when unattended at the limit: {}\n\
         errors     at most {} in a row\n\
         output     the agent gets at most {} B of a hook's output\n\
         delivery   at the end: {delivery}\n",
        retry_limit_policy(base.on_limit),
        base.max_consecutive_errors,
        base.output_limit,
    )
}

/// The permissions and the budget, if the config has any.
fn allowance(settings: &Settings) -> String {
    let mut text = String::new();
    for rule in &settings.base_plan.access.permissions {
        text += &format!("may        {}\n", permission(rule));
    }
    if !settings.base_plan.access.permissions.is_empty() {
        text += &format!(
            "may        {}: everything else\n",
            says(settings.base_plan.gates.permissions)
        );
    }
    if !settings.base_plan.access.protect.is_empty() {
        text += &format!(
            "protect    no turn may change {}\n",
            settings.base_plan.access.protect.join(", ")
        );
    }
    if !settings.base_plan.access.agent_may.is_empty() {
        let commands: Vec<&str> = settings
            .base_plan
            .access
            .agent_may
            .iter()
            .map(|command| command.name())
            .collect();
        text += &format!("agent_may  {}\n", commands.join(", "));
    }
    if !settings.base_plan.access.mask.is_empty() {
        let patterns = counted(settings.base_plan.access.mask.len(), "pattern");
        text += &format!("mask       {patterns} of secrets besides the built-in ones\n");
    }
    let Budget { tokens, cost, time } = settings.base_plan.budget;
    let limits = [
        tokens.map(|tokens| format!("{tokens} tokens")),
        cost.map(|cost| format!("a cost of {cost}")),
        time.map(|time| format!("{time} of agent time")),
    ];
    let limits: Vec<String> = limits.into_iter().flatten().collect();
    if !limits.is_empty() {
        text += &format!("budget     {}; then creel asks you\n", limits.join(", "));
    }
    text
}

/// Where the records go, without the login.
fn nats(settings: &Settings) -> String {
    let Some(nats) = &settings.servers.nats else {
        return String::new();
    };
    format!(
        "nats       {}, stream {}, subjects {}.>\n",
        plain(&nats.shown()),
        plain(&nats.stream.name),
        plain(&nats.prefix)
    )
}

/// Where the trace and the metrics go.
fn otel(settings: &Settings) -> String {
    settings
        .servers
        .otel
        .as_ref()
        .map_or_else(String::new, |otel| {
            format!("otel       {}\n", plain(&otel.endpoint.shown()))
        })
}

fn permission(rule: &PermissionRule) -> String {
    let kinds: Vec<&str> = rule.kinds.iter().map(|kind| kind.name()).collect();
    let kinds = if kinds.is_empty() {
        "anything".to_owned()
    } else {
        kinds.join(", ")
    };
    let paths = if rule.paths.is_empty() {
        String::new()
    } else {
        format!(" in {}", plain(&rule.paths.join(", ")))
    };
    format!("{}: {kinds}{paths}", says(rule.action))
}

const fn says(action: PermissionPolicy) -> &'static str {
    match action {
        PermissionPolicy::Ask => "ask",
        PermissionPolicy::Allow => "allow",
        PermissionPolicy::Deny => "deny",
    }
}

/// The task types, each with the agents that can work on it.
fn types(settings: &Settings, asked: Option<&str>) -> String {
    let mut text = String::new();
    for (name, of_type) in &settings.task_types {
        let who = of_type
            .implementers()
            .map_or_else(|| "everybody".to_owned(), |names| names.join(", "));
        let this = if asked == Some(name) {
            " (this one)"
        } else {
            ""
        };
        text += &format!("task type  {}{this}: for {}\n", plain(name), plain(&who));
    }
    text
}

const SUBMITTING: [HookPoint; 4] = [
    HookPoint::BeforeSubmit,
    HookPoint::AfterSubmit,
    HookPoint::BeforeMerge,
    HookPoint::AfterMerge,
];

/// Whether the config says anything about submitting or merging. Otherwise their default hooks are
/// of no interest.
fn uses_submit(settings: &Settings) -> bool {
    let of_agents = settings.notes.values().map(|notes| &notes.hooks);
    let of_types = settings.task_types.values().map(|of_type| &of_type.hooks);
    let mut lists = std::iter::once(&settings.hooks)
        .chain(of_agents)
        .chain(of_types);
    settings.base_plan.submit != SubmitPlan::default()
        || lists.any(|lists| {
            SUBMITTING
                .iter()
                .any(|point| lists.hooks.contains_key(point))
        })
}

fn points(
    settings: &Settings,
    hooks: &BTreeMap<HookPoint, Vec<ResolvedHook>>,
    paint: ColourMode,
) -> String {
    let mut text = String::new();
    let submits = uses_submit(settings);
    let is_shown = |point: HookPoint| submits || !SUBMITTING.contains(&point);
    for (point, list) in hooks
        .iter()
        .filter(|(point, list)| !list.is_empty() && is_shown(**point))
    {
        text += &format!("\n{}\n", paint.paint(TextRole::Heading, point.name()));
        for (n, chosen) in list.iter().enumerate() {
            let from = paint.paint(
                TextRole::Faint,
                format!("  {}", plain(&origin(settings, chosen))),
            );
            text += &format!("  {}. {}{from}\n", n + 1, describe(&chosen.spec));
        }
    }
    text
}

/// Every hook of the imported files, with what became of it.
fn imported(settings: &Settings, plan: Option<&SessionPlan>, paint: ColourMode) -> String {
    let mut text = String::new();
    let mut file = "";
    for hook in &settings.imports {
        if hook.file != file {
            file = &hook.file;
            let heading = paint.paint(TextRole::Heading, format!("imported from {}", plain(file)));
            text += &format!("\n{heading}\n");
        }
        let result = match &hook.result {
            ImportResult::Runs { point, hook, notes } => {
                let agent = plan.and_then(|plan| runs_too(plan, *point, hook));
                let seen = plan.and_then(|plan| what_holds(plan, *point));
                match agent {
                    None if seen.is_some() => format!("{}{notes}", seen.unwrap_or_default()),
                    Some((agent, true)) => format!("left to `{agent}`, which runs it itself"),
                    Some((agent, false)) => {
                        format!("runs at {point}{notes}; `{agent}` may run it too")
                    }
                    None => format!("runs at {point}{notes}"),
                }
            }
            ImportResult::NotRun { why } => format!("not run: {why}"),
        };
        text += &format!(
            "  {}: {} {}: {}\n",
            hook.line,
            plain(&hook.event),
            plain(&hook.runs),
            plain(&result)
        );
    }
    text
}

fn imports_listed(settings: &Settings, plan: Option<&SessionPlan>) -> serde_json::Value {
    let one = |hook: &ImportedHook| {
        let left_to = match &hook.result {
            ImportResult::Runs { point, hook, .. } => plan
                .and_then(|plan| runs_too(plan, *point, hook))
                .filter(|(_, left)| *left),
            ImportResult::NotRun { .. } => None,
        };
        let mut listed = json!(hook);
        listed["left_to"] = json!(left_to.map(|(agent, _)| agent));
        listed
    };
    settings.imports.iter().map(one).collect()
}

/// What holds for an imported hook of tool calls, with the session's agent.
fn what_holds(plan: &SessionPlan, point: HookPoint) -> Option<String> {
    let (agent, level) = (&plan.agent, plan.agent_spec.tool_hook_level());
    Some(match (point, level) {
        (HookPoint::PreTool, ToolHookLevel::Native) => {
            format!("creel runs it before every call of `{agent}`")
        }
        (HookPoint::PreTool, ToolHookLevel::Asks) => {
            format!("creel runs it only before calls that `{agent}` asks about")
        }
        (HookPoint::PreTool, ToolHookLevel::Sees | ToolHookLevel::None) => {
            format!("cannot block: `{agent}` does not ask creel before a call")
        }
        (HookPoint::PostTool, ToolHookLevel::None) => {
            format!("not run: `{agent}` does not report its calls")
        }
        (
            HookPoint::PostTool,
            ToolHookLevel::Native | ToolHookLevel::Asks | ToolHookLevel::Sees,
        ) => {
            format!("creel runs it after the calls of `{agent}`")
        }
        (
            HookPoint::SessionStart
            | HookPoint::PreIteration
            | HookPoint::PrePrompt
            | HookPoint::OnQuestion
            | HookPoint::Stop
            | HookPoint::PostIteration
            | HookPoint::OnTaskComplete
            | HookPoint::Automation
            | HookPoint::StopDecision
            | HookPoint::OnError
            | HookPoint::OnGate
            | HookPoint::BeforeSubmit
            | HookPoint::AfterSubmit
            | HookPoint::BeforeMerge
            | HookPoint::AfterMerge
            | HookPoint::SessionEnd,
            _,
        ) => return None,
    })
}

/// The session's agent, if it reads the file of an imported hook itself, and whether creel leaves
/// the hook to it.
fn runs_too<'a>(plan: &'a SessionPlan, point: HookPoint, hook: &str) -> Option<(&'a str, bool)> {
    let handler = plan.hook(point, hook)?.claude.as_ref()?;
    let agent = plan.agent.as_str();
    let reads_it = handler.left_to.iter().any(|name| name == agent);
    reads_it.then(|| (agent, handler.is_left_to(agent)))
}

/// Which part of the config says that a hook runs, with its line.
fn origin(settings: &Settings, chosen: &ResolvedHook) -> String {
    let imported = chosen
        .spec
        .claude
        .as_ref()
        .and_then(|claude| claude.file.as_ref());
    if let (Some(file), Some(line)) = (imported, chosen.line) {
        return format!("{}:{line}", plain(file));
    }
    match (&chosen.origin, chosen.line) {
        (HookOrigin::Project, Some(line)) => format!("{}:{line}", file(settings)),
        (origin, Some(line)) => format!("{}:{line} ({})", file(settings), origin.describe()),
        (origin, None) => origin.describe(),
    }
}

fn file(settings: &Settings) -> String {
    let name = settings.path.as_deref().and_then(Path::file_name);
    name.map(|name| plain(&name.to_string_lossy()))
        .unwrap_or_default()
}

fn listed(
    settings: &Settings,
    hooks: &BTreeMap<HookPoint, Vec<ResolvedHook>>,
) -> serde_json::Value {
    let one = |chosen: &ResolvedHook| {
        let from = match &chosen.origin {
            HookOrigin::Agent(name) => json!({ "agent": name }),
            HookOrigin::TaskType(name) => json!({ "task_type": name }),
            HookOrigin::Project => json!("project"),
            HookOrigin::Usual => json!("usual"),
        };
        let imported = chosen
            .spec
            .claude
            .as_ref()
            .and_then(|claude| claude.file.clone());
        let config = || Some(settings.path.as_deref()?.to_string_lossy().into_owned());
        let file = chosen.line.and(imported.or_else(config));
        json!({ "hook": chosen.spec, "from": from, "file": file, "line": chosen.line })
    };
    let all = hooks
        .iter()
        .map(|(point, list)| (point.name().to_owned(), list.iter().map(one).collect()));
    serde_json::Value::Object(all.collect())
}

/// The hooks that decide whether the work is complete.
fn deciding(stop: &StopPlan, paint: ColourMode) -> String {
    let hooks = view::stop_hooks(stop, None);
    if hooks.is_empty() {
        return String::new();
    }
    let lines = hooks.iter().enumerate().map(|(n, hook)| {
        let off = if hook.enabled { "" } else { "  [off]" };
        let runs = if hook.runs == hook.hook {
            String::new()
        } else {
            format!(" {}", plain(&hook.runs))
        };
        format!("  {}. {}{runs}{off}\n", n + 1, plain(&hook.hook))
    });
    format!(
        "\n{}\n{}",
        paint.paint(TextRole::Heading, "stop decision"),
        lines.collect::<String>()
    )
}

/// The rules that must pass for the work to be complete.
fn rules(stop: &StopPlan, paint: ColourMode) -> String {
    if stop.rules.is_empty() {
        return String::new();
    }
    let lines = stop.rules.iter().enumerate().map(|(n, rule)| {
        let off = if rule.enabled { "" } else { ", off" };
        let RuleSpec {
            name,
            check,
            timeout,
            ..
        } = rule;
        format!(
            "  {}. {}: {}  [timeout {timeout}{off}]\n",
            n + 1,
            plain(name),
            plain(&check.describe())
        )
    });
    format!(
        "\n{}\n{}",
        paint.paint(TextRole::Heading, "rules"),
        lines.collect::<String>()
    )
}

/// The automation hooks, without built-in ones that are off, and the workflows. Nothing if the
/// config changes neither.
fn automation(settings: &Settings, paint: ColourMode) -> String {
    if settings.base_plan.workflows.is_empty()
        && settings.base_plan.automation == Settings::default().base_plan.automation
    {
        return String::new();
    }
    let built_in = |hook: &AutomationHook| matches!(hook.spec.action, HookAction::Builtin(_));
    let listed = settings
        .base_plan
        .automation
        .iter()
        .filter(|hook| hook.spec.enabled || !built_in(hook));
    let mut text = format!("\n{}\n", paint.paint(TextRole::Heading, "automation"));
    for (n, hook) in listed.enumerate() {
        let events: Vec<&str> = hook.events.iter().map(|event| event.name()).collect();
        let HookSpec { name, priority, .. } = &hook.spec;
        // Built-in hooks have no timeout to show.
        let what = if built_in(hook) {
            format!("{} (built in)  [priority {priority}]", plain(name))
        } else {
            describe(&hook.spec)
        };
        text += &format!("  {}. {what} on {}\n", n + 1, events.join(", "));
    }
    for (name, workflow) in &settings.base_plan.workflows {
        text += &format!(
            "\n{}\n",
            paint.paint(TextRole::Heading, format!("workflow {}", plain(name)))
        );
        for (n, step) in workflow.steps.iter().enumerate() {
            text += &format!("  {}. {}\n", n + 1, plain(&step.name));
        }
    }
    text
}

fn describe(hook: &HookSpec) -> String {
    let what = match &hook.action {
        HookAction::Command(_) | HookAction::Exec(_) if hook.action.describe() == hook.name => {
            String::new()
        }
        HookAction::Builtin(call) if call.describe() == hook.name => " (built in)".into(),
        HookAction::Command(_)
        | HookAction::Exec(_)
        | HookAction::Builtin(_)
        | HookAction::Gatekeeper(_) => {
            format!(": {}", plain(&hook.action.describe()))
        }
    };
    let on_failure = hook
        .on_failure
        .map(|failure| format!("on failure {}", hook_failure_policy(failure)));
    let notes = [
        Some(timeout(hook.timeout)),
        match hook.priority {
            100 => None,
            i64::MAX => Some("last".to_owned()),
            priority => Some(format!("priority {priority}")),
        },
        hook.pipe_output.describe().map(str::to_owned),
        on_failure,
        hook.retry
            .retries
            .map(|retries| format!("retries {retries}")),
        hook.retry
            .feedback
            .as_ref()
            .map(|_| "own feedback".to_owned()),
        (!hook.enabled).then(|| "off".to_owned()),
    ];
    let notes = notes.into_iter().flatten().collect::<Vec<_>>().join(", ");
    format!("{}{what}  [{notes}]", plain(&hook.name))
}

fn timeout(span: TimeSpan) -> String {
    format!("timeout {span}")
}
