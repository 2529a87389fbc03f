//! The messages about stop rules and their guards.

use std::collections::BTreeMap;

use super::{errors_in, good};
use crate::engine::{
    policy::{
        CoverageFormat, FileRequirement, OpenTasksPolicy, PatternTarget, RuleCheck, RuleSpec,
    },
    time::TimeSpan,
};

fn rule(name: &str, check: RuleCheck) -> RuleSpec {
    RuleSpec {
        name: name.to_owned(),
        check,
        timeout: TimeSpan::secs(60),
        enabled: true,
    }
}

fn command(command: &str, expected_exit: i32) -> RuleCheck {
    RuleCheck::Command {
        command: command.to_owned(),
        expected_exit,
        folder: None,
        env: BTreeMap::new(),
    }
}

fn coverage(file: &str, format: CoverageFormat, minimum: f64) -> RuleCheck {
    RuleCheck::Coverage {
        file: file.to_owned(),
        format,
        minimum,
    }
}

#[test]
fn rules_are_kept_in_their_order_with_their_defaults() {
    let text = r#"
stop:
  rules:
    - { name: tests, type: command, command: 'cargo test {{iteration}}' }
    - { name: web, type: command, command: npm test, expectedExitCode: 3, folder: ./web, env: { CI: "1" }, timeout: 2m, enabled: false }
    - { name: said, type: content_pattern, pattern: 'all (tests|checks) pass' }
    - { name: no-todo, type: content_pattern, pattern: dbg, file: src/main.rs, mustMatch: false }
    - { name: docs, type: file_existence, files: [README.md, ./docs] }
    - { name: one, type: file_existence, files: [a, b], mode: any }
    - { name: lcov, type: coverage, report: coverage/lcov.info, minimum: 80 }
    - { name: xml, type: coverage, file: cobertura.xml, minimum: 71.5 }
    - { name: json, type: coverage, file: out.txt, format: json, minimum: 0 }
"#;
    let file = |name: &str| PatternTarget::File(name.to_owned());
    let search = |pattern: &str, target, must_match| RuleCheck::ContentPattern {
        pattern: pattern.into(),
        target,
        must_match,
    };
    let files = |files: &[&str], need| RuleCheck::FileExistence {
        files: files.iter().map(|&f| f.into()).collect(),
        need,
    };
    let web = RuleCheck::Command {
        command: "npm test".into(),
        expected_exit: 3,
        folder: Some("web".into()),
        env: [("CI".to_owned(), "1".to_owned())].into(),
    };
    assert_eq!(
        good(text).base_plan.stop.rules,
        [
            rule("tests", command("cargo test {{iteration}}", 0)),
            RuleSpec {
                timeout: TimeSpan::secs(120),
                enabled: false,
                ..rule("web", web)
            },
            rule(
                "said",
                search("all (tests|checks) pass", PatternTarget::AgentOutput, true)
            ),
            rule("no-todo", search("dbg", file("src/main.rs"), false)),
            rule("docs", files(&["README.md", "docs"], FileRequirement::All)),
            rule("one", files(&["a", "b"], FileRequirement::Any)),
            rule(
                "lcov",
                coverage("coverage/lcov.info", CoverageFormat::Lcov, 80.0)
            ),
            rule(
                "xml",
                coverage("cobertura.xml", CoverageFormat::Cobertura, 71.5)
            ),
            rule("json", coverage("out.txt", CoverageFormat::Json, 0.0)),
        ]
    );
    assert_eq!(errors_in(text), "");
}

#[test]
fn a_rule_that_could_never_be_judged_is_a_mistake() {
    let text = r#"
stop:
  rules:
    - { name: a, type: comand, command: x }
    - { name: a, type: command, command: 'x {{task_id}}', expected_exit: 1, expectedExitCode: 2, folder: ../other }
    - { name: c, type: command, comand: x, env: { 'A-B': x, CREEL_X: y, N: 1 } }
    - { name: d, type: content_pattern, pattern: 'done (now', file: /etc/passwd }
    - { name: e, type: content_pattern, pattern: 'a(?=b)', mustMach: true }
    - { name: f, type: file_existence, files: [] }
    - { name: g, type: file_existence, files: [~/x, src/../../y, ok], mode: some }
    - { name: h, type: coverage, file: report, minimum: 101 }
    - { name: i, type: coverage, minimum: 80 }
    - { name: j, type: coverage, file: a.xml, report: b.xml, format: clover }
    - tests
  thrashing: -1
  noProgress: many
"#;
    expect_test::expect![[r#"
        creel.yaml:4:24: `type` must be one of `command`, `content_pattern`, `file_existence`, `coverage`, not `comand`
        4 |     - { name: a, type: comand, command: x }
          |                        ^^^^^^ did you mean `command`?
        creel.yaml:5:15: another rule has the name `a`
        5 |     - { name: a, type: command, command: 'x {{task_id}}', expected_exit: 1, expectedExitCode: 2, folder: ../other }
          |               ^ give one of them another `name`
        creel.yaml:5:45: a rule has no `{{task_id}}`
        5 |     - { name: a, type: command, command: 'x {{task_id}}', expected_exit: 1, expectedExitCode: 2, folder: ../other }
          |                                             ^^^^^^^^^^^ a rule has `session`, `iteration`
        creel.yaml:5:95: `expected_exit_code` is another name for `expected_exit`: keep one of them
        5 | …mand: 'x {{task_id}}', expected_exit: 1, expectedExitCode: 2, folder: ../other }
          |                                                             ^
        creel.yaml:5:106: `../other` is outside the project folder
        5 | …task_id}}', expected_exit: 1, expectedExitCode: 2, folder: ../other }
          |                                                             ^^^^^^^^ a rule reads only files in the project folder: remove the `..`
        creel.yaml:6:33: unknown key `comand`
        6 |     - { name: c, type: command, comand: x, env: { 'A-B': x, CREEL_X: y, N: 1 } }
          |                                 ^^^^^^ did you mean `command`?
        creel.yaml:6:51: `A-B` is not a valid variable name
        6 |     - { name: c, type: command, comand: x, env: { 'A-B': x, CREEL_X: y, N: 1 } }
          |                                                   ^^^^^ use letters, digits and `_`
        creel.yaml:6:61: `CREEL_X` belongs to creel
        6 |     - { name: c, type: command, comand: x, env: { 'A-B': x, CREEL_X: y, N: 1 } }
          |                                                             ^^^^^^^ creel sets the variables that begin with `CREEL_`
        creel.yaml:6:76: `N` must be text, not a number
        6 | … type: command, comand: x, env: { 'A-B': x, CREEL_X: y, N: 1 } }
          |                                                             ^ put it in quotes: "1"
        creel.yaml:7:56: `done (now` is not a regular expression: unclosed group
        7 |     - { name: d, type: content_pattern, pattern: 'done (now', file: /etc/passwd }
          |                                                        ^ write a `\` before a special character that you mean literally, such as `\(`
        creel.yaml:7:69: `/etc/passwd` is outside the project folder
        7 | …ame: d, type: content_pattern, pattern: 'done (now', file: /etc/passwd }
          |                                                             ^^^^^^^^^^^ write it relative to the project folder
        creel.yaml:8:52: `a(?=b)` is not a regular expression: look-around, including look-ahead and look-behind, is not supported
        8 |     - { name: e, type: content_pattern, pattern: 'a(?=b)', mustMach: true }
          |                                                    ^ write a `\` before a special character that you mean literally, such as `\(`
        creel.yaml:8:60: unknown key `mustMach`
        8 |     - { name: e, type: content_pattern, pattern: 'a(?=b)', mustMach: true }
          |                                                            ^^^^^^^^ did you mean `must_match`?
        creel.yaml:9:47: `files` is an empty list, so the rule checks nothing
        9 |     - { name: f, type: file_existence, files: [] }
          |                                               ^ disable a rule with `enabled: false`
        creel.yaml:10:48: `~/x` is outside the project folder
        10 |     - { name: g, type: file_existence, files: [~/x, src/../../y, ok], mode: some }
           |                                                ^^^ creel does not expand `~` here; write the path relative to the project folder
        creel.yaml:10:53: `src/../../y` is outside the project folder
        10 |     - { name: g, type: file_existence, files: [~/x, src/../../y, ok], mode: some }
           |                                                     ^^^^^^^^^^^ a rule reads only files in the project folder: remove the `..`
        creel.yaml:10:77: `mode` must be one of `all`, `any`, not `some`
        10 | …type: file_existence, files: [~/x, src/../../y, ok], mode: some }
           |                                                             ^^^^
        creel.yaml:11:40: creel cannot derive the format of the report from the name `report`
        11 |     - { name: h, type: coverage, file: report, minimum: 101 }
           |                                        ^^^^^^ set its `format`: `lcov`, `cobertura`, `json`
        creel.yaml:11:57: `minimum` must be a number from 0 to 100
        11 |     - { name: h, type: coverage, file: report, minimum: 101 }
           |                                                         ^^^
        creel.yaml:12:7: `file` is missing
        12 |     - { name: i, type: coverage, minimum: 80 }
           |       ^ name the coverage report
        creel.yaml:13:7: `minimum` is missing
        13 |     - { name: j, type: coverage, file: a.xml, report: b.xml, format: clover }
           |       ^ the lowest coverage that passes, in percent
        creel.yaml:13:55: `report` is another name for `file`: keep one of them
        13 |     - { name: j, type: coverage, file: a.xml, report: b.xml, format: clover }
           |                                                       ^^^^^
        creel.yaml:13:70: `format` must be one of `lcov`, `cobertura`, `json`, not `clover`
        13 | …me: j, type: coverage, file: a.xml, report: b.xml, format: clover }
           |                                                             ^^^^^^
        creel.yaml:14:7: `rules` must be a map, not text
        14 |     - tests
           |       ^^^^^
        creel.yaml:15:14: `thrashing` must be a whole number from 0 to 1000000
        15 |   thrashing: -1
           |              ^^
        creel.yaml:16:15: `noProgress` must be a whole number from 0 to 1000000, not text
        16 |   noProgress: many
           |               ^^^^"#]].assert_eq(&errors_in(text));
}

#[test]
fn open_tasks_start_another_iteration_unless_the_config_ignores_them() {
    let policy = |text: &str| good(text).base_plan.stop.open_tasks;
    assert_eq!(policy(""), OpenTasksPolicy::Continue);
    assert_eq!(
        policy("stop: { open_tasks: continue }"),
        OpenTasksPolicy::Continue
    );
    assert_eq!(
        policy("stop: { openTasks: ignore }"),
        OpenTasksPolicy::Ignore
    );
}

#[test]
fn the_guards_have_defaults_and_can_be_switched_off() {
    let guards = |text: &str| {
        let stop = good(text).base_plan.stop;
        (stop.circuit_breaker, stop.thrashing, stop.no_progress)
    };
    assert_eq!(guards(""), (3, 5, 5));
    assert_eq!(
        guards("stop: { circuitBreaker: 0, thrashing: 0, noProgress: 0 }"),
        (0, 0, 0)
    );
}
