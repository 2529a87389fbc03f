//! `checks:`, the short form of hooks at `stop`.

use std::ffi::OsStr;

use super::{super::PlanRequest, errors_in, good};
use crate::{
    config::{Settings, trust::commands},
    engine::{
        hooks::point::HookPoint,
        policy::{HookAction, HookFailurePolicy, HookSpec, PipeOutput, RetryOptions, SessionPlan},
        time::TimeSpan,
    },
};

const AGENT: &str = "agents: { ada: { acp: ada } }\n";

pub(super) fn plan(
    settings: &Settings,
    agent: Option<&str>,
    task_type: Option<&str>,
) -> SessionPlan {
    let wanted = PlanRequest {
        agent,
        task_type,
        ..PlanRequest::default()
    };
    settings.plan_with(wanted, OsStr::new("")).expect("a plan")
}

/// The hooks at `stop`, in the order in which they run.
fn stop(plan: &SessionPlan) -> Vec<&str> {
    plan.hooks
        .get(&HookPoint::Stop)
        .into_iter()
        .flatten()
        .map(|hook| hook.name.as_str())
        .collect()
}

#[test]
fn a_check_is_a_stop_hook_that_blocks_and_has_ten_minutes() {
    let settings = good(&format!(
        "{AGENT}checks:\n  - cargo test\n  - {{ command: cargo clippy, name: clippy, timeout: 20m }}\n  \
         - {{ exec: [npm, test], on_failure: ignore, retries: 2, feedback: '{{{{hook}}}}', priority: 5, enabled: false }}\n"
    ));
    let check = |name: &str, action| HookSpec {
        timeout: TimeSpan::secs(600),
        on_failure: Some(HookFailurePolicy::Block),
        ..HookSpec::new(name, action)
    };
    let words = |words: [&str; 2]| HookAction::Exec(words.map(str::to_owned).to_vec());
    let expected = [
        HookSpec {
            on_failure: Some(HookFailurePolicy::Ignore),
            retry: RetryOptions {
                retries: Some(2),
                feedback: Some("{{hook}}".to_owned()),
            },
            priority: 5,
            enabled: false,
            ..check("npm test", words(["npm", "test"]))
        },
        check("cargo test", HookAction::Command("cargo test".to_owned())),
        HookSpec {
            timeout: TimeSpan::secs(1200),
            ..check("clippy", HookAction::Command("cargo clippy".to_owned()))
        },
    ];
    assert_eq!(
        plan(&settings, None, None).hooks[&HookPoint::Stop],
        expected
    );
}

#[test]
fn output_is_piped_always_never_or_on_failure() {
    let piped = |written: &str| {
        let settings = good(&format!(
            "{AGENT}hooks: {{ post_iteration: [{{ command: a, pipe_output: {written} }}] }}"
        ));
        settings.hooks.hooks[&HookPoint::PostIteration][0].pipe_output
    };
    let read = ["true", "false", "on_failure", "null"].map(piped);
    assert_eq!(
        read,
        [
            PipeOutput::Always,
            PipeOutput::Never,
            PipeOutput::OnFailure,
            PipeOutput::Never
        ]
    );
    expect_test::expect![[r#"
        creel.yaml:2:32: `pipe_output` must be `true`, `false` or `on_failure`, not `on_failur`
        2 |   - { command: a, pipe_output: on_failur }
          |                                ^^^^^^^^^ did you mean `on_failure`?
        creel.yaml:3:31: `pipeOutput` must be `true`, `false` or `on_failure`, not `yes`
        3 |   - { command: b, pipeOutput: yes }
          |                               ^^^ did you mean `true`?
        creel.yaml:4:31: `pipe_output` must be `true`, `false` or `on_failure`, not a number
        4 |   - { exec: [c], pipe_output: 1 }
          |                               ^"#]].assert_eq(&errors_in(
        "checks:\n  - { command: a, pipe_output: on_failur }\n  - { command: b, pipeOutput: yes }\n  - { exec: [c], pipe_output: 1 }\n",
    ));
}

#[test]
fn checks_run_before_stop_hooks_of_the_same_priority() {
    let text = format!(
        "{AGENT}hooks: {{ stop: [{{ command: b }}, {{ command: first, priority: 1 }}] }}\nchecks: [a]\n"
    );
    assert_eq!(stop(&plan(&good(&text), None, None)), ["first", "a", "b"]);
    assert_eq!(
        stop(&plan(&good(&format!("{AGENT}checks: []")), None, None)),
        [""; 0]
    );
}

#[test]
fn a_type_replaces_the_checks_or_the_stop_hooks_separately() {
    let settings = good(
        "agent: ada\nagents: { ada: { acp: ada }, bob: { acp: bob, hooks: { stop: [{ command: bobs }] } } }\n\
         checks: [check]\nhooks: { stop: [{ command: hook }] }\ntask_types:\n  plain: {}\n  \
         hooked: { hooks: { stop: [{ command: own hook }] } }\n  checked: { checks: [own check] }\n  \
         free: { checks: [] }\n  bare: { checks: [], hooks: { stop: [] } }\n",
    );
    let of = |agent, task_type| {
        plan(&settings, agent, task_type)
            .hooks
            .remove(&HookPoint::Stop)
            .unwrap_or_default()
    };
    let of = |agent, task_type| {
        of(agent, task_type)
            .into_iter()
            .map(|hook| hook.name)
            .collect::<Vec<_>>()
    };
    assert_eq!(of(None, Some("plain")), ["check", "hook"]);
    assert_eq!(of(None, Some("hooked")), ["check", "own hook"]);
    assert_eq!(of(None, Some("checked")), ["own check", "hook"]);
    assert_eq!(of(None, Some("free")), ["hook"]);
    assert_eq!(of(None, Some("bare")), [""; 0]);
    assert_eq!(of(Some("bob"), Some("checked")), ["own check", "bobs"]);
    let origins: Vec<_> = settings
        .hooks_for(Some("checked"), Some("bob"))
        .remove(&HookPoint::Stop)
        .expect("hooks");
    let origins: Vec<_> = origins
        .iter()
        .map(|hook| (hook.origin.describe(), hook.line))
        .collect();
    assert_eq!(
        origins,
        [
            ("task type `checked`".to_owned(), Some(8)),
            ("agent `bob`".to_owned(), Some(2))
        ]
    );
}

#[test]
fn names_are_unique_over_checks_and_stop_hooks_also_across_types_and_agents() {
    let text = "\
agents: { bob: { acp: bob, hooks: { stop: [{ command: b, name: lint }] } } }
checks: [a, { command: x, name: a }]
hooks: { stop: [{ command: a }, { command: c }] }
task_types:
  t: { checks: [c, { command: y, name: lint }] }
  u: { hooks: { stop: [{ command: z, name: a }] } }
  v: { checks: [c], hooks: { stop: [{ command: z, name: a }] } }
";
    expect_test::expect![[r#"
        creel.yaml:1:64: another hook at `stop` has the name `lint`
        1 | …ts: { bob: { acp: bob, hooks: { stop: [{ command: b, name: lint }] } } }
          |                                                             ^^^^ give one of them another `name`
        creel.yaml:2:33: another hook at `stop` has the name `a`
        2 | checks: [a, { command: x, name: a }]
          |                                 ^ give one of them another `name`
        creel.yaml:3:28: another hook at `stop` has the name `a`
        3 | hooks: { stop: [{ command: a }, { command: c }] }
          |                            ^ give one of them another `name`
        creel.yaml:5:17: another hook at `stop` has the name `c`
        5 |   t: { checks: [c, { command: y, name: lint }] }
          |                 ^ give one of them another `name`
        creel.yaml:6:44: another hook at `stop` has the name `a`
        6 |   u: { hooks: { stop: [{ command: z, name: a }] } }
          |                                            ^ give one of them another `name`"#]]
    .assert_eq(&errors_in(text));
}

#[test]
fn the_same_hook_twice_runs_once() {
    let text = format!(
        "{AGENT}checks: [a]\nhooks: {{ stop: [{{ command: a, on_failure: block, timeout: 10m }}] }}\n"
    );
    assert_eq!(stop(&plan(&good(&text), None, None)), ["a"]);
    expect_test::expect![[r#"
        creel.yaml:3:28: warning: `a` appears twice at `stop` and runs once
        3 | hooks: { stop: [{ command: a, on_failure: block, timeout: 10m }] }
          |                            ^"#]]
    .assert_eq(&errors_in(&text));
}

#[test]
fn mistakes_in_checks_have_a_place_and_a_way_out() {
    let text = "\
checks:
  - 'echo {{error}}'
  - { comand: x }
  - { exec: [] }
  - { builtin: run_tests }
  - run_tests
  - 7
  - ''
  - { command: x, on_failure: blok, name: protected paths }
  - \"echo 'x\"
hooks: { stop: [cargo test] }
task_types: { t: { checks: x } }
";
    expect_test::expect![[r#"
        creel.yaml:2:11: `checks` has no `{{error}}`
        2 |   - 'echo {{error}}'
          |           ^^^^^^^^^ `checks` has `session`, `iteration`, `attempt`
        creel.yaml:3:7: unknown key `comand`
        3 |   - { comand: x }
          |       ^^^^^^ did you mean `command`?
        creel.yaml:4:13: `exec` names no program
        4 |   - { exec: [] }
          |             ^ write the program first, then its arguments: `exec: [cargo, test]`
        creel.yaml:5:5: `command` is missing
        5 |   - { builtin: run_tests }
          |     ^ a command for `sh -c` in the project folder. `{{session}}` and others stand for values
        creel.yaml:5:7: unknown key `builtin`
        5 |   - { builtin: run_tests }
          |       ^^^^^^^ known here: `command`, `name`, `timeout`, `pipe_output`, `priority`, `enabled`, `on_failure`, `retries`, `feedback`, `tests`, `type`
        creel.yaml:7:5: `checks` must be text or a map, not a number
        7 |   - 7
          |     ^
        creel.yaml:8:5: `checks` is empty
        8 |   - ''
          |     ^^
        creel.yaml:9:31: `on_failure` must be one of `ignore`, `block`, `escalate`, not `blok`
        9 |   - { command: x, on_failure: blok, name: protected paths }
          |                               ^^^^ did you mean `block`?
        creel.yaml:10:11: the shell does not find the end of this quote
        10 |   - "echo 'x"
           |           ^ close it, or write a backslash before it
        creel.yaml:11:17: unknown built-in hook `cargo test`
        11 | hooks: { stop: [cargo test] }
           |                 ^^^^^^^^^^ move it to `checks:`, or write `command: …`
        creel.yaml:12:28: `checks` must be a list, not text
        12 | task_types: { t: { checks: x } }
           |                            ^ begin each item with `- `"#]].assert_eq(&errors_in(text));
}

#[test]
fn what_a_config_wants_to_run_lists_its_checks() {
    let settings = good(&format!(
        "{AGENT}checks: [cargo test, {{ exec: [npm, test] }}]"
    ));
    assert_eq!(
        commands(&plan(&settings, None, None), false),
        ["stop: cargo test", "stop: npm test"]
    );
}
