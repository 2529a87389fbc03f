//! The messages about invalid configs.

use std::{fs, path::Path};

use proptest::prelude::*;

use super::{errors_in, good, read};
use crate::{
    config::{PlanRequest, load},
    engine::{hooks::point::HookPoint, time::TimeSpan},
};

#[test]
fn all_mistakes_are_reported_at_once_each_at_its_place() {
    let text = "\
version: 2
max_iteration: 3
context: fersh
turn_timeout: -5s
agent: cluade
session: my feature
hooks:
  post_iterations:
    - command: x
  stop:
    - command: 'cargo test {{iteratoin}}'
      timeout: 0
    - command: '  '
    - command: 'echo {{error}}'
      pipeOutput: yes
      pipe_output: true
    - run_tests
    - comand: x
";
    expect_test::expect![[r#"
        creel.yaml:1:10: this creel is too old for version 2 of the config; it supports version 1
        1 | version: 2
          |          ^ update creel, or write `version: 1`
        creel.yaml:2:1: unknown key `max_iteration`
        2 | max_iteration: 3
          | ^^^^^^^^^^^^^ did you mean `max_iterations`?
        creel.yaml:3:10: `context` must be one of `fresh`, `keep`, not `fersh`
        3 | context: fersh
          |          ^^^^^ did you mean `fresh`?
        creel.yaml:4:15: `turn_timeout` must not be negative
        4 | turn_timeout: -5s
          |               ^^^
        creel.yaml:5:8: unknown agent `cluade`
        5 | agent: cluade
          |        ^^^^^^ did you mean `claude`?
        creel.yaml:6:10: `my feature` is not a valid session name
        6 | session: my feature
          |          ^^^^^^^^^^ use letters, digits, `-` and `_`
        creel.yaml:8:3: unknown hook point `post_iterations`
        8 |   post_iterations:
          |   ^^^^^^^^^^^^^^^ did you mean `post_iteration`?
        creel.yaml:11:28: `stop` has no `{{iteratoin}}`
        11 |     - command: 'cargo test {{iteratoin}}'
           |                            ^^^^^^^^^^^^^ did you mean `{{iteration}}`?
        creel.yaml:12:16: `timeout` must be longer than 0
        12 |       timeout: 0
           |                ^ remove it to use the default
        creel.yaml:13:16: `command` is empty
        13 |     - command: '  '
           |                ^^^^
        creel.yaml:14:22: `stop` has no `{{error}}`
        14 |     - command: 'echo {{error}}'
           |                      ^^^^^^^^^ `stop` has `session`, `iteration`, `attempt`
        creel.yaml:15:19: `pipeOutput` must be `true`, `false` or `on_failure`, not `yes`
        15 |       pipeOutput: yes
           |                   ^^^ did you mean `true`?
        creel.yaml:16:7: `pipe_output` appears twice: it means the same as `pipeOutput`
        16 |       pipe_output: true
           |       ^^^^^^^^^^^ keep one of them
        creel.yaml:17:7: `run_tests` does not work at `stop`
        17 |     - run_tests
           |       ^^^^^^^^^ use it at `before_submit`, `after_submit`, `before_merge` or `after_merge`
        creel.yaml:18:7: unknown key `comand`
        18 |     - comand: x
           |       ^^^^^^ did you mean `command`?"#]]
    .assert_eq(&errors_in(text));
}

#[test]
fn hooks_of_one_point_have_different_names() {
    let text = "\
hooks:
  stop:
    - { command: a, name: tests }
    - { command: b, name: tests }
    - { command: c }
    - { command: c }
";
    expect_test::expect![[r#"
        creel.yaml:4:27: another hook at `stop` has the name `tests`
        4 |     - { command: b, name: tests }
          |                           ^^^^^ give one of them another `name`"#]]
    .assert_eq(&errors_in(text));
}

#[test]
fn a_hook_without_a_shell_names_a_program_and_takes_no_value_as_code() {
    let text = "\
hooks:
  on_error:
    - exec: []
    - exec: ['{{session}}', x]
    - exec: [sh, -c, 'echo {{error}}']
    - exec: [notify, '{{erorr}}']
    - { exec: [notify], command: x }
    - exec: notify
";
    expect_test::expect![[r#"
        creel.yaml:3:13: `exec` names no program
        3 |     - exec: []
          |             ^ write the program first, then its arguments: `exec: [cargo, test]`
        creel.yaml:4:15: {{session}} cannot name the program: a value would choose what runs
        4 |     - exec: ['{{session}}', x]
          |               ^^^^^^^^^^^
        creel.yaml:5:28: {{error}} cannot be in text that another program runs as code: pass it to that program as an argument after its code, or read the environment variable CREEL_ERROR in that code ("$CREEL_ERROR" in a shell)
        5 |     - exec: [sh, -c, 'echo {{error}}']
          |                            ^^^^^^^^^
        creel.yaml:6:23: `on_error` has no `{{erorr}}`
        6 |     - exec: [notify, '{{erorr}}']
          |                       ^^^^^^^^^ did you mean `{{error}}`?
        creel.yaml:7:25: unknown key `command`
        7 |     - { exec: [notify], command: x }
          |                         ^^^^^^^ known here: `exec`, `name`, `timeout`, `pipe_output`, `priority`, `enabled`, `on_failure`, `match`, `matcher`, `retries`, `feedback`, `tests`
        creel.yaml:8:13: `exec` must be a list, not text
        8 |     - exec: notify
          |             ^^^^^^ begin each item with `- `"#]].assert_eq(&errors_in(text));
}

#[test]
fn what_is_allowed_and_perhaps_not_meant_is_a_warning() {
    let text = "\
agents: { codex: { acp: x } }
hooks:
  stop:
    - { command: c }
    - { command: c }
  session_end: [{ command: x, pipe_output: true }, { command: y, pipe_output: false }]
task_types: { t: { agents: [codx, somebody-else] } }
";
    expect_test::expect![[r#"
        creel.yaml:5:18: warning: `c` appears twice at `stop` and runs once
        5 |     - { command: c }
          |                  ^
        creel.yaml:6:44: warning: `pipe_output` has no effect at `session_end`: no prompt follows
        6 |   session_end: [{ command: x, pipe_output: true }, { command: y, pipe_output: false }]
          |                                            ^^^^
        creel.yaml:7:29: warning: `agents:` has no agent `codx`
        7 | task_types: { t: { agents: [codx, somebody-else] } }
          |                             ^^^^ did you mean `codex`?
        creel.yaml:7:35: warning: `agents:` has no agent `somebody-else`
        7 | task_types: { t: { agents: [codx, somebody-else] } }
          |                                   ^^^^^^^^^^^^^"#]]
    .assert_eq(&errors_in(text));
    assert_eq!(good(text).hooks.hooks[&HookPoint::Stop].len(), 1);
}

#[test]
fn wrong_types_say_what_is_expected() {
    let text = "\
max_iterations: many
prompt: 42
output_limit: 1
hooks: { stop: { command: x }, on_error: [7] }
ui: { mouse: on, theme: drak }
retry: { jitter: 2, backoff: none }
gates: []
stop:
  hooks: [defualt]
  rules:
    - { name: a, type: comand }
    - { name: b, type: command }
    - { name: c, type: coverage, minimum: 120, file: x }
";
    expect_test::expect![[r#"
        creel.yaml:1:17: `max_iterations` must be a whole number from 1 to 1000000, not text
        1 | max_iterations: many
          |                 ^^^^
        creel.yaml:2:9: `prompt` must be text, not a number
        2 | prompt: 42
          |         ^^ put it in quotes: "42"
        creel.yaml:3:15: `output_limit` must be a whole number from 256 to 67108864
        3 | output_limit: 1
          |               ^
        creel.yaml:4:16: `stop` must be a list, not a map
        4 | hooks: { stop: { command: x }, on_error: [7] }
          |                ^ begin each item with `- `
        creel.yaml:4:43: `on_error` must be text or a map, not a number
        4 | hooks: { stop: { command: x }, on_error: [7] }
          |                                           ^
        creel.yaml:5:14: `mouse` must be `true` or `false`, not text
        5 | ui: { mouse: on, theme: drak }
          |              ^^ did you mean `true`?
        creel.yaml:5:25: `theme` must be one of `auto`, `dark`, `light`, `high-contrast`, `terminal`, not `drak`
        5 | ui: { mouse: on, theme: drak }
          |                         ^^^^ did you mean `dark`?
        creel.yaml:6:18: `jitter` must be a number from 0 to 1
        6 | retry: { jitter: 2, backoff: none }
          |                  ^
        creel.yaml:6:18: this has no effect with `backoff: none`
        6 | retry: { jitter: 2, backoff: none }
          |                  ^ remove one of the two
        creel.yaml:7:8: `gates` must be a map, not a list
        7 | gates: []
          |        ^
        creel.yaml:9:11: `hooks` must be one of `default`, `validation`, `promise`, not `defualt`
        9 |   hooks: [defualt]
          |           ^^^^^^^ did you mean `default`?
        creel.yaml:11:24: `type` must be one of `command`, `content_pattern`, `file_existence`, `coverage`, not `comand`
        11 |     - { name: a, type: comand }
           |                        ^^^^^^ did you mean `command`?
        creel.yaml:12:7: `command` is missing
        12 |     - { name: b, type: command }
           |       ^ a command for `sh -c` in the project folder. `{{session}}` and `{{iteration}}` stand for values
        creel.yaml:13:43: `minimum` must be a number from 0 to 100
        13 |     - { name: c, type: coverage, minimum: 120, file: x }
           |                                           ^^^
        creel.yaml:13:54: creel cannot derive the format of the report from the name `x`
        13 |     - { name: c, type: coverage, minimum: 120, file: x }
           |                                                      ^ set its `format`: `lcov`, `cobertura`, `json`"#]]
    .assert_eq(&errors_in(text));
}

#[test]
fn builtin_hooks_and_gatekeepers_belong_to_submit_and_merge() {
    let text = "\
hooks:
  before_submit: [rebase_on_man, cargo test]
  before_merge: [{ gatekeeper: [] }, { gatekeeper: [codx] }]
  session_end: [{ gatekeeper: [claude] }]
";
    expect_test::expect![[r#"
        creel.yaml:2:19: unknown built-in hook `rebase_on_man`
        2 |   before_submit: [rebase_on_man, cargo test]
          |                   ^^^^^^^^^^^^^ did you mean `rebase_on_main`?
        creel.yaml:2:34: unknown built-in hook `cargo test`
        2 |   before_submit: [rebase_on_man, cargo test]
          |                                  ^^^^^^^^^^ write a command as `command: …`. Built-in hooks: `rebase_on_main`, `run_tests`, `create_pr`, `merge_pr`
        creel.yaml:3:32: `gatekeeper` names no agent
        3 |   before_merge: [{ gatekeeper: [] }, { gatekeeper: [codx] }]
          |                                ^
        creel.yaml:4:31: a gatekeeper does not work at `session_end`
        4 |   session_end: [{ gatekeeper: [claude] }]
          |                               ^ use it at `before_submit`, `after_submit`, `before_merge` or `after_merge`"#]].assert_eq(&errors_in(text));
}

#[test]
fn agents_are_described_in_one_way() {
    let text = "\
agent: mine
agents:
  mine: { acp: x, command: y }
  empty: {}
  play: { script: missing.yaml }
  talk: { acp: x, continue_command: y }
prompt: a
prompt_file: b
";
    expect_test::expect![[r#"
        creel.yaml:3:3: the agent `mine` has 2 ways to run: `acp`, `command`
        3 |   mine: { acp: x, command: y }
          |   ^^^^ keep one of `acp`, `command` and `script`
        creel.yaml:4:3: the agent `empty` has no command
        4 |   empty: {}
          |   ^^^^^ keep one of `acp`, `command` and `script`
        creel.yaml:5:19: the script `missing.yaml` cannot be read: it does not exist
        5 |   play: { script: missing.yaml }
          |                   ^^^^^^^^^^^^ paths are relative to the config's folder
        creel.yaml:6:37: `continue_command` is only for `command`
        6 |   talk: { acp: x, continue_command: y }
          |                                     ^ remove it, or remove `acp`
        creel.yaml:8:14: the config has both `prompt` and `prompt_file`
        8 | prompt_file: b
          |              ^ keep one of them"#]]
    .assert_eq(&errors_in(text));
}

#[test]
fn automation_hooks_are_built_in_or_have_a_command() {
    let text = "\
automation:
  hooks:
    - { name: auto-create-review-tasks }
    - { name: mine, command: x }
    - { name: mine2, command: x, eventTypes: [task_complete] }
    - { name: check-dependency-satisfaction, command: x }
";
    expect_test::expect![[r#"
        creel.yaml:3:15: unknown hook `auto-create-review-tasks`
        3 |     - { name: auto-create-review-tasks }
          |               ^^^^^^^^^^^^^^^^^^^^^^^^ did you mean `auto-create-review-task`?
        creel.yaml:4:15: `event_types` is missing
        4 |     - { name: mine, command: x }
          |               ^^^^ such as `event_types: [task_completed]`
        creel.yaml:5:47: `eventTypes` must be one of `task_created`, `task_started`, `task_completed`, `task_blocked`, `task_deleted`, `dependency_added`, `dependency_removed`, `dependency_satisfied`, not `task_complete`
        5 |     - { name: mine2, command: x, eventTypes: [task_complete] }
          |                                               ^^^^^^^^^^^^^ did you mean `task_completed`?
        creel.yaml:6:15: `check-dependency-satisfaction` is a built-in hook and runs no command
        6 |     - { name: check-dependency-satisfaction, command: x }
          |               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ give your hook another name"#]].assert_eq(&errors_in(text));
}

#[test]
fn only_stop_hooks_have_retries_and_feedback_and_a_template_names_values_that_there_are() {
    let text = "\
hooks:
  post_iteration: [{ command: a, retries: 1, feedback: x }]
  stop:
    - { command: a, retries: -1, feedback: '{{hook}} {{ouput}} {{session}} {{.Go}}' }
";
    expect_test::expect![[r#"
        creel.yaml:2:43: `retries` has no effect at `post_iteration`
        2 |   post_iteration: [{ command: a, retries: 1, feedback: x }]
          |                                           ^ only hooks at `stop` send the agent back to work; remove this key
        creel.yaml:2:56: `feedback` has no effect at `post_iteration`
        2 |   post_iteration: [{ command: a, retries: 1, feedback: x }]
          |                                                        ^ only hooks at `stop` send the agent back to work; remove this key
        creel.yaml:4:30: `retries` must be a whole number from 0 to 1000000
        4 |     - { command: a, retries: -1, feedback: '{{hook}} {{ouput}} {{session}} {{.Go}}' }
          |                              ^^
        creel.yaml:4:54: `feedback` has no `{{ouput}}`
        4 |     - { command: a, retries: -1, feedback: '{{hook}} {{ouput}} {{session}} {{.Go}}' }
          |                                                      ^^^^^^^^^ did you mean `{{output}}`?
        creel.yaml:4:64: `feedback` has no `{{session}}`
        4 | …- { command: a, retries: -1, feedback: '{{hook}} {{ouput}} {{session}} {{.Go}}' }
          |                                                             ^^^^^^^^^^^ `feedback` has `hook`, `reason`, `output`, `attempt`, `limit`, `changed`"#]].assert_eq(&errors_in(text));
}

#[test]
fn only_checks_that_count_run_with_the_tests_of_the_base_commit() {
    let text = "\
protect_tests: off
checks:
  - { command: a, tests: base }
  - { command: b, tests: old }
  - { command: c, tests: base, on_failure: ignore }
hooks:
  post_iteration: [{ command: d, tests: base }]
  before_submit: [{ command: e, tests: base }]
";
    expect_test::expect![[r#"
        creel.yaml:1:16: `protect_tests: off` contradicts `tests: base` of the check `a`
        1 | protect_tests: off
          |                ^^^ remove one of the two
        creel.yaml:4:26: `tests` must be one of `base`, not `old`
        4 |   - { command: b, tests: old }
          |                          ^^^
        creel.yaml:5:26: `tests` has no effect with `on_failure: ignore`
        5 |   - { command: c, tests: base, on_failure: ignore }
          |                          ^^^^ only a check that must pass also runs with the tests of the base commit; remove this key
        creel.yaml:7:41: `tests` has no effect at `post_iteration`
        7 |   post_iteration: [{ command: d, tests: base }]
          |                                         ^^^^ only a check that must pass also runs with the tests of the base commit; remove this key
        creel.yaml:8:40: `tests` has no effect at `before_submit`
        8 |   before_submit: [{ command: e, tests: base }]
          |                                        ^^^^ only a check that must pass also runs with the tests of the base commit; remove this key"#]].assert_eq(&errors_in(text));
}

#[test]
fn a_session_that_waits_for_a_merge_needs_a_pull_request() {
    let config =
        |hooks: &str| format!("submit:\n  until: merged\nhooks:\n  before_submit: {hooks}\n");
    for fine in ["[create_pr]", "[run_tests, { builtin: create_pr }]"] {
        assert_eq!(errors_in(&config(fine)), "", "{fine}");
    }
    assert_eq!(errors_in("submit: { until: merged }\n"), "");
    expect_test::expect![[r#"
        creel.yaml:2:10: `until: merged` waits for a pull request, and `before_submit` opens none
        2 |   until: merged
          |          ^^^^^^ add `create_pr` to `before_submit`"#]]
    .assert_eq(&errors_in(&config("[]")));
}

#[test]
fn a_built_in_hook_takes_the_options_that_it_looks_at() {
    let text = "\
hooks:
  before_submit:
    - { builtin: run_test }
    - { builtin: run_tests, remote: origin, timeout: 0 }
    - { builtin: create_pr, command: glab }
    - { builtin: rebase_on_main, pipe_output: true }
  stop: [{ builtin: run_tests }]
  before_merge: [{ builtin: merge_pr, priority: 1, on_failure: ignore }]
";
    expect_test::expect![[r#"
        creel.yaml:3:18: unknown built-in hook `run_test`
        3 |     - { builtin: run_test }
          |                  ^^^^^^^^ did you mean `run_tests`?
        creel.yaml:4:37: `run_tests` does not accept `remote`
        4 |     - { builtin: run_tests, remote: origin, timeout: 0 }
          |                                     ^^^^^^ it runs the tests of the project folder, whatever the branch
        creel.yaml:4:54: `timeout` must be longer than 0
        4 |     - { builtin: run_tests, remote: origin, timeout: 0 }
          |                                                      ^ remove it to use the default
        creel.yaml:5:38: `create_pr` does not accept `command`
        5 |     - { builtin: create_pr, command: glab }
          |                                      ^^^^ set `pr_command` under `submit`; `merge_pr` uses it too
        creel.yaml:6:34: unknown key `pipe_output`
        6 |     - { builtin: rebase_on_main, pipe_output: true }
          |                                  ^^^^^^^^^^^ known here: `builtin`, `command`, `base_branch`, `remote`, `name`, `timeout`, `priority`, `enabled`, `on_failure`
        creel.yaml:7:21: `run_tests` does not work at `stop`
        7 |   stop: [{ builtin: run_tests }]
          |                     ^^^^^^^^^ use it at `before_submit`, `after_submit`, `before_merge` or `after_merge`
        creel.yaml:8:49: `merge_pr` does not accept `priority`
        8 |   before_merge: [{ builtin: merge_pr, priority: 1, on_failure: ignore }]
          |                                                 ^ it always runs last, after all checks
        creel.yaml:8:64: `merge_pr` cannot ignore its own failure
        8 | …fore_merge: [{ builtin: merge_pr, priority: 1, on_failure: ignore }]
          |                                                             ^^^^^^ a failed merge is never ignored; remove `on_failure`"#]].assert_eq(&errors_in(text));
}

#[test]
fn a_workflow_comes_to_its_end_and_names_only_what_there_is() {
    let text = "\
workflows:
  release:
    steps:
      - { name: build, type: command, command: 'make {{steps.buld.stdout}}', on_success: publsh }
      - { name: build, type: create_task }
      - { type: condition, value: '{{steps.nope.exit}}' }
      - { name: a b, type: parallel, steps: [{ type: noop, on_failure: stop }] }
      - { type: command, command: 'echo {{contxt.word}} {{context.word}} {{context.a.0.b}} {{.Names}} {{steps.build}}' }
      - { type: create_task, task: { goal: 'About {{contet.word}} and {{other.thing}}' } }
      - { type: command, command: 'echo {{context.a-b}} {{context.A_b}}' }
  around:
    steps:
      - { name: one, type: noop }
      - { name: two, type: noop, on_failure: one }
";
    expect_test::expect![[r#"
        creel.yaml:4:54: a workflow has no `{{steps.buld.stdout}}`
        4 |       - { name: build, type: command, command: 'make {{steps.buld.stdout}}', on_success: publsh }
          |                                                      ^^^^^^^^^^^^^^^^^^^^^ did you mean `{{steps.build.stdout}}`?
        creel.yaml:4:90: unknown step `publsh`
        4 | …ommand, command: 'make {{steps.buld.stdout}}', on_success: publsh }
          |                                                             ^^^^^^ choose from these, or `stop`: `build`, `build`, `step_3`, `a b`, `step_5`, `step_6`, `step_7`
        creel.yaml:5:9: a step of type `create_task` needs `task`
        5 |       - { name: build, type: create_task }
          |         ^
        creel.yaml:5:17: another step has the name `build`
        5 |       - { name: build, type: create_task }
          |                 ^^^^^ give one of them another `name`
        creel.yaml:6:9: this condition checks nothing
        6 |       - { type: condition, value: '{{steps.nope.exit}}' }
          |         ^ add `equals` or `contains`
        creel.yaml:6:36: a workflow has no `{{steps.nope.exit}}`
        6 |       - { type: condition, value: '{{steps.nope.exit}}' }
          |                                    ^^^^^^^^^^^^^^^^^^^ did you mean `{{steps.a b.exit}}`?
        creel.yaml:7:17: `a b` is not a valid step name
        7 |       - { name: a b, type: parallel, steps: [{ type: noop, on_failure: stop }] }
          |                 ^^^ use letters, digits, `-` and `_`; `stop` ends the workflow
        creel.yaml:7:46: `a b_1` is not a valid step name
        7 |       - { name: a b, type: parallel, steps: [{ type: noop, on_failure: stop }] }
          |                                              ^ use letters, digits, `-` and `_`; `stop` ends the workflow
        creel.yaml:7:60: unknown key `on_failure`
        7 |       - { name: a b, type: parallel, steps: [{ type: noop, on_failure: stop }] }
          |                                                            ^^^^^^^^^^ known here: `name`, `id`, `type`, `command`, `timeout`, `task`, `task_id`, `action`, `payload`, `value`, `equals`, `contains`
        creel.yaml:8:41: a workflow has no `{{contxt.word}}`
        8 |       - { type: command, command: 'echo {{contxt.word}} {{context.word}} {{context.a.0.b}} {{.Names}} {{steps.build}}' }
          |                                         ^^^^^^^^^^^^^^^ did you mean `{{context.word}}`?
        creel.yaml:8:103: a workflow has no `{{steps.build}}`
        8 | …ontxt.word}} {{context.word}} {{context.a.0.b}} {{.Names}} {{steps.build}}' }
          |                                                             ^^^^^^^^^^^^^^^ did you mean `{{steps.build.exit}}`?
        creel.yaml:9:51: a workflow has no `{{contet.word}}`
        9 |       - { type: create_task, task: { goal: 'About {{contet.word}} and {{other.thing}}' } }
          |                                                   ^^^^^^^^^^^^^^^ did you mean `{{context.word}}`?
        creel.yaml:9:71: a workflow has no `{{other.thing}}`
        9 | …ype: create_task, task: { goal: 'About {{contet.word}} and {{other.thing}}' } }
          |                                                             ^^^^^^^^^^^^^^^ a workflow has `context.NAME`, `steps.NAME.stdout`
        creel.yaml:10:35: `{{context.a-b}}` and `{{context.A_b}}` would both be CREEL_CONTEXT_A_B
        10 |       - { type: command, command: 'echo {{context.a-b}} {{context.A_b}}' }
           |                                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ use them in different steps
        creel.yaml:13:9: these steps form a loop: `one`, `two`, `one`
        13 |       - { name: one, type: noop }
           |         ^"#]].assert_eq(&errors_in(text));
}

#[test]
fn a_step_that_is_several_at_once_is_at_least_one() {
    let text = "workflows: { release: { steps: [{ name: checks, type: parallel, steps: [] }] } }\n";
    expect_test::expect![[r#"
        creel.yaml:1:72: `steps` is empty
        1 | … release: { steps: [{ name: checks, type: parallel, steps: [] }] } }
          |                                                             ^ use `type: noop` for a step that does nothing"#]]
    .assert_eq(&errors_in(text));
}

#[test]
fn a_matcher_without_effect_is_reported() {
    let text = "\
stop:
  hooks: [{ command: x }, { command: y }]
hooks:
  stop: [{ matcher: Bash, hooks: [{ type: command, command: z }] }]
";
    expect_test::expect![[r#"
        creel.yaml:4:21: warning: this matcher has no effect: the hooks of a point run every time
        4 |   stop: [{ matcher: Bash, hooks: [{ type: command, command: z }] }]
          |                     ^^^^"#]]
    .assert_eq(&errors_in(text));
}

#[test]
fn a_matcher_of_a_question_and_an_event_in_another_spelling_say_why() {
    let text = "\
hooks:
  Elicitation: [{ matcher: github, hooks: [{ type: command, command: z }] }]
  taskcreated: [{ hooks: [{ type: command, command: z }] }]
  permission_denied: [z]
";
    expect_test::expect![[r#"
        creel.yaml:2:28: creel does not know which server asks: `Elicitation` takes no matcher
        2 |   Elicitation: [{ matcher: github, hooks: [{ type: command, command: z }] }]
          |                            ^^^^^^ without a matcher the hook sees every question
        creel.yaml:3:3: creel does not run hooks of Claude Code's event `TaskCreated`
        3 |   taskcreated: [{ hooks: [{ type: command, command: z }] }]
          |   ^^^^^^^^^^^ creel has no hook point for new tasks; use `automation`
        creel.yaml:4:3: creel does not run hooks of Claude Code's event `PermissionDenied`
        4 |   permission_denied: [z]
          |   ^^^^^^^^^^^^^^^^^ creel has no hook point for denied calls; use `PreToolUse`, which sees each call before"#]].assert_eq(&errors_in(text));
}

#[test]
fn syntax_errors_have_a_place_too() {
    let all = [
        "a: [1, 2\n",
        "session: a\nsession: b\n",
        "hooks:\n stop: []\n  x: 1\n",
        "a: {{x}}\n",
        "a: 1\n---\nb: 2\n",
    ];
    expect_test::expect![[r#"
        creel.yaml:1:4: unclosed bracket '['
        1 | a: [1, 2
          |    ^ check the quotes, the brackets and the indentation here
        creel.yaml:2:1: `session` appears twice
        2 | session: b
          | ^^^^^^^ keep one of them
        creel.yaml:3:3: while parsing a block mapping, did not find expected key
        3 |   x: 1
          |   ^ check the quotes, the brackets and the indentation here
        creel.yaml:1:5: a key must be text
        1 | a: {{x}}
          |     ^ quote text that begins with `{` or `[`
        creel.yaml:3:1: a second document begins here
        3 | b: 2
          | ^ keep one document"#]]
    .assert_eq(&all.map(errors_in).join("\n"));
}

#[test]
fn two_spellings_of_a_key_are_one_key() {
    expect_test::expect![[r#"
        creel.yaml:2:1: `maxHookRetries` appears twice: it means the same as `max_hook_retries`
        2 | maxHookRetries: 2
          | ^^^^^^^^^^^^^^ keep one of them"#]]
    .assert_eq(&errors_in("max_hook_retries: 1\nmaxHookRetries: 2\n"));
}

#[test]
fn an_alias_bomb_is_refused() {
    let line = |i: i32| {
        format!(
            "a{i}: &a{i} [{}]\n",
            vec![format!("*a{}", i - 1); 10].join(", ")
        )
    };
    let bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned()
        + &(1..10).map(line).collect::<String>();
    expect_test::expect![[r#"
        creel.yaml:5:10: aliases expand to more than 20000 values
        5 | a4: &a4 [*a3, *a3, *a3, *a3, *a3, *a3, *a3, *a3, *a3, *a3]
          |          ^^^ use fewer `*aliases`"#]]
    .assert_eq(&errors_in(&bomb));
    expect_test::expect![[r#"
        creel.yaml:1:35: this is nested deeper than 32 levels
        1 | a: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]…
          |                                   ^ check that this is the right file"#]].assert_eq(&errors_in(&("a: ".to_owned() + &"[".repeat(60) + &"]".repeat(60))));
    assert!(errors_in(&"[".repeat(100_000)).contains("creel.yaml:1:"));
}

#[test]
fn a_file_full_of_mistakes_is_refused_in_good_time() {
    let keys: Vec<String> = (0..9_000)
        .map(|i| format!("a_rather_long_key_that_nobody_knows_at_all_{i}: 1"))
        .collect();
    let errors_in = errors_in(&format!("{{{}}}", keys.join(", ")));
    assert!(
        errors_in.ends_with("more"),
        "{}",
        &errors_in[errors_in.len() - 200..]
    );
}

#[test]
fn files_that_cannot_be_read_say_why() {
    let dir = tempfile::tempdir().expect("a folder");
    let say = |name: &str, bytes: Option<&[u8]>| {
        let path = dir.path().join(name);
        if let Some(bytes) = bytes {
            fs::write(&path, bytes).expect("a file");
        }
        let errors = load(&path, None).expect_err("a mistake").to_string();
        errors.replace(&dir.path().display().to_string(), "DIR")
    };
    let errors_in = [
        say("missing.yaml", None),
        say("latin.yaml", Some(b"prompt: a\nsession: \xe9\n")),
        say("large.yaml", Some(&vec![b' '; 10_000_000])),
        say("", None),
    ];
    expect_test::expect![[r#"
        DIR/missing.yaml: cannot be read: it does not exist
          name another file with --config, or write a config with `creel init`
        DIR/latin.yaml: is not UTF-8: byte 19, in line 2, is not part of a character
          save it as UTF-8
        DIR/large.yaml: is too large: 9.5 MiB; the limit is 1 MiB
          check that this is the right file
        DIR/: cannot be read: it is a folder
          name another file with --config, or write a config with `creel init`"#]]
    .assert_eq(&errors_in.join("\n"));
}

#[test]
fn a_broken_automation_file_is_reported_in_its_own_name() {
    let dir = tempfile::tempdir().expect("a folder");
    fs::write(
        dir.path().join("creel.yaml"),
        "contxt: keep\nautomation: { file: hooks.json }\n",
    )
    .expect("a file");
    fs::write(dir.path().join("hooks.json"), "{\"hooks\": [{\"nam\": 1}]}").expect("a file");
    let errors = load(&dir.path().join("creel.yaml"), None)
        .expect_err("mistakes")
        .to_string();
    expect_test::expect![[r#"
        DIR/creel.yaml:1:1: unknown key `contxt`
        1 | contxt: keep
          | ^^^^^^ did you mean `context`?
        DIR/hooks.json:1:13: unknown key `nam`
        1 | {"hooks": [{"nam": 1}]}
          |             ^^^^^ did you mean `name`?"#]]
    .assert_eq(&errors.replace(&dir.path().display().to_string(), "DIR"));
}

#[test]
fn files_beside_the_config_are_read_with_it() {
    let dir = tempfile::tempdir().expect("a folder");
    let config = "agents: { demo: { script: play.yaml } }\nprompt_file: task.md\n";
    fs::write(dir.path().join("creel.yaml"), config).expect("a file");
    fs::write(dir.path().join("play.yaml"), "turns: []\n").expect("a file");
    fs::write(dir.path().join("task.md"), "Do it.\n").expect("a file");
    let settings = load(&dir.path().join("creel.yaml"), None).expect("settings");
    assert_eq!(settings.prompt.as_deref(), Some("Do it.\n"));
    let documents: Vec<_> = settings
        .documents
        .iter()
        .map(|d| (d.name.as_str(), d.text.as_str()))
        .collect();
    assert_eq!(
        documents,
        [("creel.yaml", config), ("play.yaml", "turns: []\n")]
    );
    let plan = settings.plan(PlanRequest::default()).expect("a plan");
    assert_eq!(plan.agent, "demo");
}

#[test]
fn hooks_run_by_priority_and_then_as_written() {
    let settings = good(
        "hooks: { stop: [{command: a}, {command: b, priority: 0}, {command: c, timeout: 1.5}] }",
    );
    let hooks = &settings.hooks.hooks[&HookPoint::Stop];
    assert_eq!(
        hooks
            .iter()
            .map(|hook| hook.name.as_str())
            .collect::<Vec<_>>(),
        ["b", "a", "c"]
    );
    assert_eq!(hooks[2].timeout, TimeSpan(1_500));
}

#[test]
fn backoff_is_on_when_one_of_its_keys_is_given() {
    assert_eq!(good("retry: { backoff: none }").base_plan.backoff, None);
    let backoff = good("retry: { base: 500ms }")
        .base_plan
        .backoff
        .expect("a backoff");
    assert_eq!(
        (backoff.base, backoff.factor, backoff.max),
        (TimeSpan(500), 2.0, TimeSpan::secs(60))
    );
    assert_eq!(
        good("retry: { backoff: exponential }")
            .base_plan
            .backoff
            .expect("a backoff")
            .base,
        TimeSpan::secs(1)
    );
}

/// Text that resembles a config.
fn near_config() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "hooks",
        "stop",
        ": ",
        "- ",
        "\n",
        "\n  ",
        "\n    ",
        "command",
        "{{error}}",
        "{",
        "}",
        "[",
        "]",
        "'",
        "\"",
        "*a",
        "&a ",
        "agents",
        "prompt",
        "timeout",
        "-1",
        "1e999",
        "日本",
        "\t",
        "\r\n",
        "\r",
        "#",
        "|",
        ">",
        "---",
        "null",
        "~",
        "<<",
        "version",
        "task_types",
        "automation",
        "retry",
        "\u{1b}",
        "\u{feff}",
        "gatekeeper",
        "rules",
        "type",
        "!!int ",
        "? ",
        "@",
        "%",
        "\\",
        "\u{2028}",
        "\u{85}",
        "matcher",
    ]);
    prop::collection::vec(words, 0..40).prop_map(|words| words.concat())
}

const ESCAPE: char = '\u{1b}';

proptest! {
    #[test]
    fn no_text_breaks_the_loader_and_every_place_is_inside(text in prop_oneof![near_config(), any::<String>()]) {
        let found = match read(&text) {
            Ok(settings) => settings.warnings,
            Err(errors) => errors.diagnostics,
        };
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        for diagnostic in found {
            let shown = diagnostic.to_string();
            prop_assert!(!shown.contains(ESCAPE));
            let Some(place) = diagnostic.place else { continue };
            prop_assert!(text.get(place.offset..place.offset + place.len).is_some());
            let line = text.split('\n').nth(place.line - 1);
            prop_assert!(line.is_some_and(|line| place.column <= line.chars().count() + 1));
        }
    }
}

#[test]
fn the_name_of_a_config_is_the_path_that_was_given() {
    let errors = crate::config::parse("x: 1", Path::new("sub/creel.yml")).expect_err("a mistake");
    assert!(
        errors
            .to_string()
            .starts_with("sub/creel.yml:1:1: unknown key `x`")
    );
}

#[test]
fn an_unknown_placeholder_of_pr_command_is_reported() {
    expect_test::expect![[r#"
        creel.yaml:1:42: `pr_command` has no `{{titel}}`
        1 | submit: { pr_command: 'forge new --title {{titel}} < {{body_file}}' }
          |                                          ^^^^^^^^^ did you mean `{{title}}`?"#]]
    .assert_eq(&errors_in(
        "submit: { pr_command: 'forge new --title {{titel}} < {{body_file}}' }\n",
    ));
}

#[test]
fn a_stop_hook_cannot_take_the_name_of_creels_own_check() {
    expect_test::expect![[r#"
        creel.yaml:1:25: creel uses the name `protect` for its own check of the paths under `protect:`
        1 | hooks: { stop: [{ name: protect, command: c }] }
          |                         ^^^^^^^ give this hook another `name`"#]]
    .assert_eq(&errors_in("hooks: { stop: [{ name: protect, command: c }] }\n"));
}
