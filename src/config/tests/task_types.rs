//! Resolving a config for one session: its task type, its agent, and the defaults.

use std::{ffi::OsStr, fs, os::unix::fs::PermissionsExt as _};

use super::{super::PlanRequest, errors_in, good};
use crate::{
    config::{ResolvedHook, Settings},
    engine::{
        hooks::point::HookPoint,
        policy::{SessionPlan, StopHook, StopPreset},
    },
};

const CONFIG: &str = "\
agent: ada
agents:
  ada: { acp: ada }
  bob: { acp: bob, hooks: { before_submit: [] , stop: [{ command: bobs }] } }
  gatekeeper-qa: { acp: qa }
hooks:
  before_submit: [rebase_on_main, create_pr]
  stop: [{ command: tests }]
task_types:
  product:
    hooks:
      before_submit: [run_tests, create_pr]
      before_merge: [merge_pr, { gatekeeper: [qa, architecture] }]
    agents: { implementer: [ada], gatekeeper: [gatekeeper-qa] }
    stop: { hooks: [promise] }
    max_iterations: 3
    max_hook_retries: 0
    remediation_attempts: 4
    turn_timeout: 5m
  open: {}
";

fn plan(
    settings: &Settings,
    agent: Option<&str>,
    task_type: Option<&str>,
) -> Result<SessionPlan, String> {
    let wanted = PlanRequest {
        agent,
        task_type,
        ..PlanRequest::default()
    };
    settings
        .plan_with(wanted, OsStr::new(""))
        .map_err(|error| error.to_string())
}

fn names(plan: &SessionPlan, point: HookPoint) -> Vec<&str> {
    plan.hooks_or_usual(point)
        .iter()
        .map(|hook| hook.name.as_str())
        .collect()
}

#[test]
fn each_point_is_the_agents_or_the_types_or_the_projects_or_usual() {
    let settings = good(CONFIG);
    let product = plan(&settings, None, Some("product")).expect("a plan");
    assert_eq!(
        names(&product, HookPoint::BeforeSubmit),
        ["run_tests", "create_pr"]
    );
    assert_eq!(names(&product, HookPoint::Stop), ["tests"]);
    let open = plan(&settings, None, Some("open")).expect("a plan");
    assert_eq!(
        names(&open, HookPoint::BeforeSubmit),
        ["rebase_on_main", "create_pr"]
    );
    let bobs = plan(&settings, Some("bob"), Some("open")).expect("a plan");
    assert_eq!(
        (
            names(&bobs, HookPoint::BeforeSubmit),
            names(&bobs, HookPoint::Stop)
        ),
        (vec![], vec!["bobs"])
    );
    let usual = plan(&good("agents: { ada: { acp: ada } }"), None, None).expect("a plan");
    assert_eq!(
        (
            names(&usual, HookPoint::BeforeSubmit),
            names(&usual, HookPoint::BeforeMerge)
        ),
        (vec!["create_pr"], vec!["merge_pr"])
    );
    assert!(
        usual.hooks.is_empty(),
        "what is usual is not shown as if it were written"
    );
    let none = plan(
        &good("agents: { ada: { acp: ada } }\nhooks: { before_submit: [] }"),
        None,
        None,
    )
    .expect("a plan");
    assert_eq!(names(&none, HookPoint::BeforeSubmit), [""; 0]);
}

#[test]
fn the_merge_comes_after_every_check_whoever_wrote_the_list() {
    let product = plan(&good(CONFIG), None, Some("product")).expect("a plan");
    assert_eq!(
        names(&product, HookPoint::BeforeMerge),
        ["gatekeeper: qa, architecture", "merge_pr"]
    );
    let text = "agents: { ada: { acp: ada } }\nhooks: { before_merge: [{ command: last, priority: 999 }] }";
    assert_eq!(
        names(
            &plan(&good(text), None, None).expect("a plan"),
            HookPoint::BeforeMerge
        ),
        ["last", "merge_pr"]
    );
    expect_test::expect![[r#"
        creel.yaml:1:25: `merge_pr` does not work at `after_submit`
        1 | hooks: { after_submit: [merge_pr] }
          |                         ^^^^^^^^ `creel merge` runs it when all hooks at `before_merge` have passed"#]]
    .assert_eq(&errors_in("hooks: { after_submit: [merge_pr] }"));
}

#[test]
fn a_type_has_limits_and_stop_hooks_of_its_own() {
    let product = plan(&good(CONFIG), None, Some("product")).expect("a plan");
    assert_eq!(
        (
            product.max_iterations,
            product.max_hook_retries,
            product.turn_timeout.0
        ),
        (3, 0, 300_000)
    );
    assert_eq!(
        (product.submit.remediation_attempts, product.stop.hooks),
        (4, vec![StopHook::preset(StopPreset::Promise)])
    );
    assert_eq!(product.task_type.as_deref(), Some("product"));
    let open = plan(&good(CONFIG), None, Some("open")).expect("a plan");
    assert_eq!(
        (open.max_iterations, open.submit.remediation_attempts),
        (20, 1)
    );
}

#[test]
fn only_those_who_may_work_on_a_type_do() {
    let settings = good(CONFIG);
    expect_test::expect![[r#"
        the agent `bob` may not work on tasks of type `product`. Agents for this type: `ada`
          choose one of them with `--agent NAME`, or change `task_types:`"#]]
    .assert_eq(&plan(&settings, Some("bob"), Some("product")).expect_err("a refusal"));
    expect_test::expect![[r#"
        unknown task type `produkt`
          did you mean `product`?"#]]
    .assert_eq(&plan(&settings, None, Some("produkt")).expect_err("a refusal"));
    let bobs = plan(&settings, Some("bob"), None).expect("a plan");
    assert!(
        bobs.refuses_type("product")
            .is_some_and(|why| why.to_string().contains("Agents for this type: `ada`"))
    );
    assert_eq!(
        (bobs.refuses_type("open"), bobs.refuses_type("unheard of")),
        (None, None)
    );
}

#[test]
fn without_a_named_agent_a_type_gets_the_configs_agent_or_else_its_first_installed_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let agent_of = |implementers: &str| {
        let settings = good(&CONFIG.replace(
            "implementer: [ada]",
            &format!("implementer: [{implementers}]"),
        ));
        let wanted = PlanRequest {
            task_type: Some("product"),
            ..PlanRequest::default()
        };
        settings
            .plan_with(wanted, folder.path().as_os_str())
            .map_or_else(|error| error.to_string(), |plan| plan.agent)
    };
    assert_eq!(
        agent_of("bob, ada"),
        "ada",
        "the config's agent comes first, installed or not"
    );
    expect_test::expect![[r#"
        none of the agents for tasks of type `product` is installed: `bob`, `codex`
          `bob` is not on PATH
          install it, or correct the agent's command under `agents:`"#]]
    .assert_eq(&agent_of("bob, codex"));
    expect_test::expect![[r#"
        none of the agents for tasks of type `product` is installed: `codex`
          install `codex`: npm install -g @agentclientprotocol/codex-acp
          or: npm install -g @openai/codex"#]]
    .assert_eq(&agent_of("codex"));
    let install = |program: &str| {
        let file = folder.path().join(program);
        fs::write(&file, "").expect("a file");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("permissions");
    };
    install("codex");
    assert_eq!(agent_of("bob, codex, gatekeeper-qa"), "codex");
    install("bob");
    assert_eq!(agent_of("bob, codex, gatekeeper-qa"), "bob");
}

#[test]
fn a_gatekeeper_is_an_agent_or_a_sort_of_review_that_one_of_the_types_does() {
    let product = plan(&good(CONFIG), None, Some("product")).expect("a plan");
    let who: Vec<_> = product
        .gatekeepers
        .iter()
        .map(|(name, it)| (name.as_str(), it.agent.as_str()))
        .collect();
    assert_eq!(
        who,
        [("architecture", "gatekeeper-qa"), ("qa", "gatekeeper-qa")]
    );
}

#[test]
fn every_hook_tells_where_it_is_written() {
    let settings = good(CONFIG);
    let messages = |chosen: &ResolvedHook| {
        format!(
            "{} {} {:?}",
            chosen.spec.name,
            chosen.origin.describe(),
            chosen.line
        )
    };
    let hooks = settings.hooks_for(Some("product"), Some("bob"));
    let all: Vec<String> = hooks.values().flatten().map(messages).collect();
    expect_test::expect![[r#"
        bobs agent `bob` Some(4)
        gatekeeper: qa, architecture task type `product` Some(13)
        merge_pr task type `product` Some(13)"#]]
    .assert_eq(&all.join("\n"));
}

#[test]
fn submit_is_one_word_or_all_there_is_to_say() {
    assert!(!good("").base_plan.submit.on_complete);
    assert!(good("submit: true").base_plan.submit.on_complete);
    let submit = good(
        "submit: { base_branch: trunk, test_command: make, remote: up }\nremediation_attempts: 3",
    )
    .base_plan
    .submit;
    assert_eq!(
        (
            submit.base_branch.as_deref(),
            submit.test_command.as_deref()
        ),
        (Some("trunk"), Some("make"))
    );
    assert_eq!(
        (
            submit.on_complete,
            submit.remediation_attempts,
            submit.pr_command
        ),
        (false, 3, None)
    );
}
