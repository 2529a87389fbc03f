//! What `creel check` advises.

use super::{super::render, good};

const CHECKED: &str = "checks: [./test]\n";

/// The advice about a config, without a task type.
fn advised(text: &str) -> String {
    let settings = good(text);
    render(&settings.advice_for(&settings.hooks_for(None, None), &settings.base_plan.stop))
}

#[test]
fn a_config_without_a_check_that_counts_is_warned_about() {
    expect_test::expect![[r#"
        creel.yaml: warning: no check: the session ends as complete without any check
          add your tests: `checks: ["make test"]`"#]]
    .assert_eq(&advised("max_iterations: 3"));
    for (text, counts) in [
        ("checks: [./test]", true),
        ("hooks: { stop: [{ command: ./test }] }", true),
        (
            "stop: { rules: [{ name: made, type: file_existence, files: [made] }] }",
            true,
        ),
        ("protect: [tests]", true),
        ("checks: [{ command: ./test, enabled: false }]", false),
        ("checks: [{ command: ./test, on_failure: ignore }]", false),
        (
            "stop: { rules: [{ name: made, type: file_existence, files: [made], enabled: false }] }",
            false,
        ),
        ("stop: { hooks: [{ command: ./judge }] }", false),
    ] {
        assert_eq!(
            advised(text).is_empty(),
            counts,
            "{text}\n{}",
            advised(text)
        );
    }
}

#[test]
fn a_stop_hook_whose_failure_does_not_block_should_be_a_check() {
    let text = "\
hooks:
  stop:
    - { command: cargo test }
    - { command: 'cd web && CI=1 npm test 2>&1', timeout: 5m }
    - { exec: [pytest, -q] }
task_types:
  t: { hooks: { stop: [{ command: ./gradlew check }] } }
";
    expect_test::expect![[r#"
        creel.yaml:3:18: warning: a failure of `cargo` does not send the agent back: under `hooks.stop` only exit code 2 blocks
        3 |     - { command: cargo test }
          |                  ^^^^^^^^^^ move it to `checks:`, or write `on_failure: ignore` if it is only advisory
        creel.yaml:4:18: warning: a failure of `npm` does not send the agent back: under `hooks.stop` only exit code 2 blocks
        4 |     - { command: 'cd web && CI=1 npm test 2>&1', timeout: 5m }
          |                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ move it to `checks:`, or write `on_failure: ignore` if it is only advisory
        creel.yaml:5:15: warning: a failure of `pytest` does not send the agent back: under `hooks.stop` only exit code 2 blocks
        5 |     - { exec: [pytest, -q] }
          |               ^ move it to `checks:`, or write `on_failure: ignore` if it is only advisory
        creel.yaml:7:35: warning: a failure of `./gradlew` does not send the agent back: under `hooks.stop` only exit code 2 blocks
        7 |   t: { hooks: { stop: [{ command: ./gradlew check }] } }
          |                                   ^^^^^^^^^^^^^^^ move it to `checks:`, or write `on_failure: ignore` if it is only advisory"#]].assert_eq(&advised(text));
}

#[test]
fn a_stop_hook_that_can_block_or_cannot_be_judged_is_left_alone() {
    for hook in [
        "command: './check.sh'",
        "command: 'cargo test || exit 2', timeout: 10m",
        "command: 'cargo test | tee log', timeout: 10m",
        "command: 'make test', timeout: 10m",
        "command: 'cargo test', on_failure: ignore, timeout: 10m",
        "command: 'cargo test', on_failure: block, timeout: 10m",
        "command: 'cargo test', enabled: false",
        "command: 'if cargo test; then exit 0; fi; exit 2', timeout: 10m",
        "command: '$TOOL test'",
    ] {
        assert_eq!(
            advised(&format!("{CHECKED}hooks: {{ stop: [{{ {hook} }}] }}")),
            "",
            "{hook}"
        );
    }
    assert_eq!(advised("checks: [cargo test, { exec: [npm, test] }]"), "");
    assert_eq!(
        advised(&format!(
            "{CHECKED}hooks: {{ post_iteration: [{{ command: cargo test }}] }}"
        )),
        ""
    );
}

#[test]
fn the_default_timeout_is_short_for_tests() {
    let text = "\
hooks: { stop: [{ command: make check }, { command: 'cargo test || exit 2' }] }
stop:
  rules:
    - { name: tests, type: command, command: 'cargo test' }
    - { name: slow, type: command, command: 'cargo test', timeout: 10m }
    - { name: off, type: command, command: 'cargo test', enabled: false }
    - { name: script, type: command, command: ./test }
";
    expect_test::expect![[r#"
        creel.yaml:1:28: warning: the default timeout of 60 s is short for `make`
        1 | hooks: { stop: [{ command: make check }, { command: 'cargo test || exit 2' }] }
          |                            ^^^^^^^^^^ set a longer one: `timeout: 10m`
        creel.yaml:1:53: warning: the default timeout of 60 s is short for `cargo`
        1 | hooks: { stop: [{ command: make check }, { command: 'cargo test || exit 2' }] }
          |                                                     ^^^^^^^^^^^^^^^^^^^^^^ set a longer one: `timeout: 10m`
        creel.yaml:4:46: warning: the default timeout of 60 s is short for `cargo`
        4 |     - { name: tests, type: command, command: 'cargo test' }
          |                                              ^^^^^^^^^^^^ set a longer one: `timeout: 10m`"#]]
    .assert_eq(&advised(text));
}

#[test]
fn validation_needs_rules() {
    let text = "\
checks: [./test]
stop: { hooks: [validation, { all: [promise, { preset: validation, name: again }] }, { preset: validation, name: off, enabled: false }] }
task_types:
  t: { stop: { hooks: [validation], rules: [{ name: made, type: file_existence, files: [made] }] } }
";
    expect_test::expect![[r#"
        creel.yaml:2:17: warning: `validation` never completes the session: the config has no rules to judge by
        2 | stop: { hooks: [validation, { all: [promise, { preset: validation, name: again }] }, { preset: validation, name: off, en…
          |                 ^^^^^^^^^^ add `rules:`, or let `default` decide
        creel.yaml:2:46: warning: `validation` never completes the session: the config has no rules to judge by
        2 | stop: { hooks: [validation, { all: [promise, { preset: validation, name: again }] }, { preset: validation, name: off, en…
          |                                              ^ add `rules:`, or let `default` decide"#]]
    .assert_eq(&advised(text));
}
