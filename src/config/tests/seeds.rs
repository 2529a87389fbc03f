//! The configs in creel's original documents load unchanged.

use std::path::{Path, PathBuf};

use super::{super::load, schema_check::objections};
use crate::{
    config::{Settings, json_schema},
    engine::{
        hooks::point::HookPoint,
        policy::{HookAction, PipeOutput, StopHook, StopPreset},
        time::TimeSpan,
    },
};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/seeds")
        .join(name)
}

fn seed(name: &str) -> Settings {
    load(&fixture(name), None).unwrap_or_else(|errors| panic!("{errors}"))
}

fn warnings(settings: &Settings) -> Vec<&str> {
    settings
        .warnings
        .iter()
        .map(|warning| warning.message.as_str())
        .collect()
}

#[test]
fn lifecycle_hooks_load() {
    let settings = seed("lifecycle.yaml");
    assert_eq!(warnings(&settings), [""; 0]);
    let hooks = &settings.hooks.hooks;
    let counts: Vec<_> = hooks
        .iter()
        .map(|(point, hooks)| (point.name(), hooks.len()))
        .collect();
    assert_eq!(
        counts,
        [
            ("session_start", 2),
            ("pre_iteration", 1),
            ("post_iteration", 2),
            ("on_task_complete", 1),
            ("on_error", 1),
            ("session_end", 2)
        ]
    );
    let tests = &hooks[&HookPoint::PostIteration][0];
    assert_eq!(
        (tests.timeout, tests.pipe_output, tests.priority),
        (TimeSpan::secs(120), PipeOutput::Always, 100)
    );
    assert_eq!(tests.name, "go test ./... -short");
}

#[test]
fn the_tracer_bullet_loads() {
    let hooks = seed("tracer_bullet.yaml").hooks.hooks;
    let piped: Vec<_> = hooks[&HookPoint::PostIteration]
        .iter()
        .map(|hook| hook.pipe_output)
        .collect();
    assert_eq!(piped, [PipeOutput::Always, PipeOutput::Never]);
}

#[test]
fn stop_hooks_in_groups_load_flattened() {
    let settings = seed("stop_retries.json");
    assert_eq!(warnings(&settings), [""; 0]);
    assert_eq!(settings.base_plan.max_hook_retries, 5);
    let [hook] = &settings.hooks.hooks[&HookPoint::Stop][..] else {
        panic!("one hook")
    };
    assert_eq!(
        hook.action,
        HookAction::Command("./.codemie/run-tests.sh".to_owned())
    );
}

#[test]
fn task_types_load() {
    let settings = seed("task_types.yaml");
    let product = &settings.task_types["product"];
    let names: Vec<_> = product.hooks.hooks[&HookPoint::BeforeSubmit]
        .iter()
        .map(|hook| hook.name.as_str())
        .collect();
    assert_eq!(names, ["rebase_on_main", "run_tests", "create_pr"]);
    let reviewers = HookAction::Gatekeeper(vec!["qa".to_owned(), "architecture".to_owned()]);
    assert_eq!(
        product.hooks.hooks[&HookPoint::BeforeMerge][0].action,
        reviewers
    );
    assert_eq!(
        product.agents.as_ref().expect("agents").gatekeeper,
        ["gatekeeper-qa"]
    );
    assert!(
        !settings.task_types["infrastructure"]
            .hooks
            .hooks
            .contains_key(&HookPoint::BeforeMerge)
    );
    let warnings = warnings(&settings);
    assert!(
        warnings.contains(&"`agents:` has no agent `implementer-1`"),
        "{warnings:?}"
    );
}

#[test]
fn a_file_of_automation_hooks_switches_and_reorders_the_users_own() {
    let dir = tempfile::tempdir().expect("a folder");
    let config = "automation:\n  file: hooks.json\n  hooks:\n    - { name: deploy, event_types: [task_completed], command: ./deploy, priority: 60 }\n    - { name: tell, event_types: [task_blocked], command: ./tell, priority: 70 }\n    - { name: track-agent-task-lifecycle, priority: 80 }\n";
    std::fs::write(dir.path().join("creel.yaml"), config).expect("a file");
    let file = r#"{ "version": "1.0", "hooks": [
        { "name": "deploy", "enabled": false },
        { "name": "tell", "priority": 5, "eventTypes": ["task_blocked"] },
        { "name": "track-agent-task-lifecycle", "enabled": true, "priority": 50 }
    ] }"#;
    std::fs::write(dir.path().join("hooks.json"), file).expect("a file");
    let settings = load(&dir.path().join("creel.yaml"), None).expect("a config");
    let hooks: Vec<_> = settings
        .base_plan
        .automation
        .iter()
        .map(|hook| {
            (
                hook.spec.name.as_str(),
                hook.spec.priority,
                hook.spec.enabled,
            )
        })
        .collect();
    assert_eq!(
        hooks,
        [
            ("tell", 5, true),
            ("auto-create-review-task", 10, true),
            ("check-dependency-satisfaction", 20, true),
            ("auto-label-by-keyword", 30, false),
            ("deploy", 60, false),
            ("track-agent-task-lifecycle", 80, true),
        ]
    );
    assert_eq!(
        settings.base_plan.automation[4].spec.action,
        HookAction::Command("./deploy".into())
    );
}

#[test]
fn automation_loads_from_its_own_file_and_from_the_config() {
    let from_file = seed("automation_file.yaml");
    let inline = seed("automation_inline.yaml");
    assert_eq!(from_file.base_plan.automation, inline.base_plan.automation);
    assert_eq!(
        from_file.base_plan.automation,
        Settings::default().base_plan.automation
    );
    assert_eq!(warnings(&from_file), [""; 0]);
    let documents: Vec<_> = from_file
        .documents
        .iter()
        .map(|document| document.name.as_str())
        .collect();
    assert_eq!(documents, ["automation_file.yaml", "automation-hooks.json"]);
}

#[test]
fn stop_decisions_load() {
    assert_eq!(
        seed("stop_default.yaml").base_plan.stop.hooks,
        [StopHook::preset(StopPreset::Default)]
    );
    let settings = seed("stop_hooks.yaml");
    assert_eq!(
        settings.base_plan.stop.hooks,
        [
            StopPreset::Validation,
            StopPreset::Promise,
            StopPreset::Default
        ]
        .map(StopHook::preset)
    );
    let rules: Vec<_> = settings
        .base_plan
        .stop
        .rules
        .iter()
        .map(|rule| rule.name.as_str())
        .collect();
    assert_eq!(
        rules,
        ["tests_pass", "vulns_fixed", "sast_clean", "covered"]
    );
    assert_eq!(warnings(&settings), [""; 0]);
}

#[test]
fn the_schema_accepts_them_all() {
    let names = [
        "lifecycle.yaml",
        "tracer_bullet.yaml",
        "stop_retries.json",
        "task_types.yaml",
    ];
    for name in names.into_iter().chain([
        "automation_file.yaml",
        "automation_inline.yaml",
        "stop_hooks.yaml",
    ]) {
        let text = std::fs::read_to_string(fixture(name)).expect("a fixture");
        let value: serde_json::Value = serde_yaml::from_str(&text).expect("YAML");
        assert_eq!(objections(&json_schema(), &value), [""; 0], "{name}");
    }
}
