//! Reads the keys of the session's plan that need no file, such as `retry:`, `permissions:`,
//! `limits:` and `worktree:`.
//!
//! Owns what these keys mean together. Does not judge requests: see [`crate::engine::session`].

use std::collections::BTreeMap;

pub(super) use super::fields::{one_or_more, pattern};
use super::{
    diagnostic::{DiagnosticReport, quoted},
    fields::{ConfigFields, as_name},
    hooks,
    keys::{
        BUDGET, ENV, GATES, HOOKS, LIMITS, MERGE_QUEUE, OUTAGE, PERMISSION, RETRY, RETRY_MODEL,
        STOP, SUBMIT, WORKTREE,
    },
    node::{ConfigNode, NodeKind},
    stop, workflows,
};
use crate::{
    engine::{
        actor::UserCommand,
        hooks::{point::HookPoint, template},
        policy::{
            AgentAccess, AgentSpec, AutomationHook, BackoffPolicy, Budget, CompletionInstructions,
            EnvPlan, GatePolicies, LimitsPlan, MergeQueuePlan, ModelPlan, OutagePlan,
            PermissionPolicy, PermissionRule, RetryModel, SessionPlan, SettledPolicy, StopHook,
            StopPlan, StopPreset, SubmitPlan, SubmitUntil, WatchPlan, WorktreePlan,
        },
    },
    text::check_pattern,
};

/// The plan of a session of no task type, before an agent and its hooks are chosen, and the names
/// of the agents that take over at a usage limit.
pub(super) fn base_plan(
    report: &mut DiagnosticReport,
    root: &ConfigFields<'_>,
    automation: Vec<AutomationHook>,
) -> (SessionPlan, Vec<String>) {
    let gates = root.below("gates", &GATES);
    let (limits, fallback) = limits(report, root);
    let plan = SessionPlan {
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
        backoff: backoff(report, root),
        gates: GatePolicies {
            final_delivery: gates.maybe_one_of("final_delivery"),
            delivery: gates.one_of("delivery"),
            permissions: gates.one_of("permissions"),
            questions: gates.one_of("questions"),
            review: gates.one_of("review"),
            timeout: gates.duration("timeout"),
        },
        automation,
        workflows: workflows::lower(report, root.given("workflows")),
        stop: stop_plan(report, root),
        access: AgentAccess {
            permissions: permissions(report, root.given("permissions")),
            agent_may: agent_may(root),
            protect: protect(report, root.given("protect")),
            config_files: Vec::new(),
            env: env(root),
            protect_tests: root.one_of("protect_tests"),
            mask: mask(report, root.given("mask")),
        },
        budget: budget(root),
        evidence: root.one_of("evidence"),
        submit: submit(report, root),
        worktree: worktree(report, root),
        models: models(root),
        agent: "outside".to_owned(),
        agent_spec: AgentSpec::Outside,
        // These depend on the agent and the type of the task.
        hooks: BTreeMap::new(),
        gatekeepers: BTreeMap::new(),
        task_type: None,
        task_types: BTreeMap::new(),
        proposal: None,
    };
    (plan, fallback)
}

fn env(root: &ConfigFields<'_>) -> EnvPlan {
    let env = root.below("env", &ENV);
    EnvPlan {
        base: env.one_of("base"),
        pass: env.texts("pass"),
    }
}

fn models(root: &ConfigFields<'_>) -> ModelPlan {
    let retries = root.given("retries").map_or(&[][..], ConfigNode::items);
    let retries = retries.iter().filter_map(|node| {
        let fields = ConfigFields::of(&RETRY_MODEL, Some(node));
        Some(RetryModel {
            after: fields.maybe_int("after")?,
            model: fields.some_text("model")?,
        })
    });
    ModelPlan {
        model: root.some_text("model"),
        retries: retries.collect(),
    }
}

fn backoff(report: &mut DiagnosticReport, root: &ConfigFields<'_>) -> Option<BackoffPolicy> {
    let retry = root.below("retry", &RETRY);
    let backoff = retry.given("backoff");
    let number = ["base", "factor", "max", "jitter"]
        .into_iter()
        .find_map(|key| retry.given(key));
    if let (Some("none"), Some(number)) = (backoff.and_then(ConfigNode::text), number) {
        let message = "this has no effect with `backoff: none`";
        report.error_hint(number.at, message, "remove one of the two".to_owned());
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

fn stop_plan(report: &mut DiagnosticReport, root: &ConfigFields<'_>) -> StopPlan {
    let stop = root.below("stop", &STOP);
    let given = stop
        .given("hooks")
        .filter(|list| matches!(list.kind, NodeKind::List(_)));
    let rules = stop::rules(report, stop.given("rules"));
    let known: Vec<&str> = rules.iter().map(|rule| rule.name.as_str()).collect();
    let hooks = match given {
        Some(list) => stop::hooks(report, list.items(), &known),
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
    let until = submit.one_of("until");
    if let (Some(node), SubmitUntil::Merged) = (submit.given("until"), until)
        && !opens_request(root)
    {
        report.error_hint(
            node.at,
            "`until: merged` waits for a pull request, and `before_submit` opens none",
            "add `create_pr` to `before_submit`".to_owned(),
        );
    }
    SubmitPlan {
        on_complete: at_once || submit.bool("on_complete"),
        base_branch: submit.some_text("base_branch"),
        remote: submit.some_text("remote"),
        pr_command: submit.some_text("pr_command"),
        test_command: submit.some_text("test_command"),
        remediation_attempts: root.int("remediation_attempts"),
        usual: SubmitPlan::default().usual,
        watch: WatchPlan {
            until,
            rounds: submit.int("rounds"),
            merge: submit.one_of("merge"),
            reviewers: match submit.given("reviewers") {
                Some(_) => submit.texts("reviewers"),
                None => WatchPlan::default().reviewers,
            },
            max_watch: submit.duration("max_watch"),
            poll: submit.duration("poll"),
        },
        queue: merge_queue(root),
    }
}

fn merge_queue(root: &ConfigFields<'_>) -> MergeQueuePlan {
    let merge = root.below("merge", &MERGE_QUEUE);
    MergeQueuePlan {
        attempts: merge.int("attempts"),
        style: merge.one_of("style"),
    }
}

/// Whether the hooks before a submit open a pull request. The usual ones do.
fn opens_request(root: &ConfigFields<'_>) -> bool {
    let hooks = root.below("hooks", &HOOKS);
    let opens = |hook: &ConfigNode| {
        let name = hook.text().or_else(|| hook.get("builtin")?.text());
        name == Some("create_pr")
    };
    let given = hooks.given("before_submit").map(ConfigNode::items);
    given.is_none_or(|hooks| hooks.iter().any(opens))
}

/// In the order in which they are tried.
fn permissions(report: &mut DiagnosticReport, list: Option<&ConfigNode>) -> Vec<PermissionRule> {
    let mut rules: Vec<PermissionRule> = Vec::new();
    for node in list.map(ConfigNode::items).unwrap_or_default() {
        let fields = ConfigFields::of(&PERMISSION, Some(node));
        let kinds = one_or_more(report, fields.given("kind"), "kind");
        let kinds = kinds.into_iter().filter_map(as_name).collect();
        let paths = one_or_more(report, fields.given("path"), "path");
        let paths = paths
            .into_iter()
            .filter_map(|path| pattern(report, path))
            .collect();
        let Some(action) = fields.maybe_one_of::<PermissionPolicy>("action") else {
            continue;
        };
        if rules
            .iter()
            .any(|rule| rule.kinds.is_empty() && rule.paths.is_empty())
        {
            report.warning(
                node.at,
                "this rule has no effect: a rule above matches every request",
            );
        }
        rules.push(PermissionRule {
            kinds,
            paths,
            action,
        });
    }
    rules
}

/// The patterns of paths that no turn can change.
fn protect(report: &mut DiagnosticReport, list: Option<&ConfigNode>) -> Vec<String> {
    let mut patterns = Vec::new();
    for node in list.map(ConfigNode::items).unwrap_or_default() {
        let Some(pattern) = pattern(report, node) else {
            continue;
        };
        if pattern.starts_with('/') {
            let hint = "write the path relative to the project folder".to_owned();
            report.error_hint(
                node.at,
                format!("{} is outside the project", quoted(&pattern)),
                hint,
            );
        } else {
            patterns.push(pattern);
        }
    }
    patterns
}

/// The patterns of secrets.
fn mask(report: &mut DiagnosticReport, list: Option<&ConfigNode>) -> Vec<String> {
    let mut patterns = Vec::new();
    for node in list.map(ConfigNode::items).unwrap_or_default() {
        let Some(pattern) = node.text() else {
            continue;
        };
        match check_pattern(pattern) {
            Ok(()) => patterns.push(pattern.to_owned()),
            // The pattern itself can be a secret.
            Err(error) => report.error_hint(
                node.at,
                format!("this pattern of `mask` cannot be used: {error}"),
                r"write a `\` before a special character that you mean literally, such as `\.`"
                    .to_owned(),
            ),
        }
    }
    patterns
}

/// The user's commands that agents and hooks can give too.
fn agent_may(root: &ConfigFields<'_>) -> Vec<UserCommand> {
    root.given("agent_may")
        .map(ConfigNode::items)
        .unwrap_or_default()
        .iter()
        .filter_map(as_name)
        .collect()
}

/// What happens at a usage limit, and the names of the fallback agents.
fn limits(report: &mut DiagnosticReport, root: &ConfigFields<'_>) -> (LimitsPlan, Vec<String>) {
    let limits = root.below("limits", &LIMITS);
    let fallback = limits
        .given("fallback")
        .map(|list| hooks::mention(report, list))
        .unwrap_or_default();
    let (on_usage_limit, max_wait) = (limits.one_of("on_usage_limit"), limits.duration("max_wait"));
    let outage = limits.below("outage", &OUTAGE);
    let (base, max, total) = (
        outage.duration("base"),
        outage.duration("max"),
        outage.duration("total"),
    );
    let (outage, silence) = (OutagePlan { base, max, total }, limits.duration("silence"));
    (
        LimitsPlan {
            on_usage_limit,
            max_wait,
            outage,
            silence,
            fallback: Vec::new(),
        },
        fallback,
    )
}

fn budget(root: &ConfigFields<'_>) -> Budget {
    let budget = root.below("budget", &BUDGET);
    Budget {
        tokens: budget.maybe_int("tokens"),
        cost: budget.maybe_number("cost"),
        time: budget.maybe_duration("time"),
    }
}

fn worktree(report: &mut DiagnosticReport, root: &ConfigFields<'_>) -> Option<WorktreePlan> {
    let node = root.given("worktree")?;
    match node.kind {
        NodeKind::Bool(true) => return Some(WorktreePlan::default()),
        NodeKind::Map(_) => {}
        // Anything else is `false`, or was reported.
        NodeKind::Null
        | NodeKind::Bool(false)
        | NodeKind::Int(_)
        | NodeKind::Float(_)
        | NodeKind::Text(_)
        | NodeKind::List(_) => return None,
    }
    let fields = root.below("worktree", &WORKTREE);
    let branch = fields.some_text("branch").unwrap_or_default();
    if let Some(given) = fields
        .given("branch")
        .filter(|_| !branch.contains("{{session}}"))
    {
        let hint = "for example `creel/{{session}}`".to_owned();
        report.error_hint(
            given.at,
            "each session needs a branch of its own: write `{{session}}` in the name",
            hint,
        );
    }
    for given in fields.given("copy").into_iter().flat_map(ConfigNode::items) {
        let leaves = given
            .text()
            .is_some_and(|path| path.starts_with('/') || path.split('/').any(|part| part == ".."));
        if leaves {
            let hint = "name a file in the project, such as `.env`".to_owned();
            report.error_hint(given.at, "creel copies only files of the project", hint);
        }
    }
    for given in fields
        .given("setup")
        .into_iter()
        .flat_map(ConfigNode::items)
    {
        let command = given.text().unwrap_or_default();
        hooks::check_template(report, HookPoint::SessionStart, command, given.at);
    }
    Some(WorktreePlan {
        base: fields.some_text("base"),
        folder: fields.some_text("folder"),
        branch,
        setup: fields.texts("setup"),
        copy: fields.texts("copy"),
        keep: fields.one_of("keep"),
    })
}
