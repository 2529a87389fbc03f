//! Stop hooks: what the keys mean together, and their mistakes.

use expect_test::expect;
use serde_json::json;

use super::{errors_in, good};
use crate::engine::{
    policy::{StopHook, StopHookCondition, StopHookKind, StopPreset},
    stop::decision::{StopAction, StopResult},
    time::TimeSpan,
};

fn hooks(text: &str) -> Vec<StopHook> {
    good(&format!(
        "stop:\n  rules: [{{ name: tests, type: command, command: x }}]\n  hooks:\n{text}"
    ))
    .base_plan
    .stop
    .hooks
}

#[test]
fn a_hook_is_a_preset_a_command_an_action_or_a_group() {
    let read = hooks(
        "    - default\n    - { preset: promise, when: { iteration: '3..' }, name: late }\n    - { command: ./judge.sh, timeout: 5 }\n\
         \x20   - { action: continue, reason: Halfway, checkpoint: { a: 1 }, nextPrompt: Go., when: { iteration: 5 } }\n\
         \x20   - { any: [validation, { all: [promise] }], enabled: false }\n",
    );
    let always = StopHookCondition::default;
    let hook = |name: &str, judge, when| StopHook {
        name: name.into(),
        judge,
        when,
        enabled: true,
    };
    let from = |from, to| StopHookCondition {
        from,
        to,
        ..StopHookCondition::default()
    };
    let halfway = StopResult {
        checkpoint_data: Some(json!({"a": 1})),
        ..StopResult::new(StopAction::Continue, "Halfway")
    };
    let expected = [
        StopHook::preset(StopPreset::Default),
        hook(
            "late",
            StopHookKind::Preset(StopPreset::Promise),
            from(Some(3), None),
        ),
        hook(
            "./judge.sh",
            StopHookKind::Command {
                command: "./judge.sh".into(),
                timeout: TimeSpan::secs(5),
            },
            always(),
        ),
        hook(
            "Halfway",
            StopHookKind::Fixed(halfway.telling("Go.")),
            from(Some(5), Some(5)),
        ),
        StopHook {
            enabled: false,
            ..hook(
                "any",
                StopHookKind::Any(vec![
                    StopHook::preset(StopPreset::Validation),
                    hook(
                        "all",
                        StopHookKind::All(vec![StopHook::preset(StopPreset::Promise)]),
                        always(),
                    ),
                ]),
                always(),
            )
        },
    ];
    assert_eq!(read, expected);
}

#[test]
fn hooks_without_names_of_their_own_are_numbered() {
    let names: Vec<_> = hooks("    - promise\n    - { all: [promise, promise] }\n")
        .into_iter()
        .map(|hook| hook.name)
        .collect();
    assert_eq!(names, ["promise", "all"]);
    let all = hooks("    - { all: [promise, promise] }\n").remove(0);
    assert_eq!(
        all.parts()
            .iter()
            .map(|part| part.name.as_str())
            .collect::<Vec<_>>(),
        ["promise", "promise (2)"]
    );
}

#[test]
fn conditions_speak_of_rules_that_there_are() {
    let when = |text: &str| {
        hooks(&format!("    - {{ preset: default, when: {text} }}\n"))
            .remove(0)
            .when
    };
    assert_eq!(
        when("{ rules: { tests: failed } }").rules,
        [("tests".to_owned(), false)].into()
    );
    assert_eq!(
        when("{ iteration: '2 .. 4', files: ['src/**'], labels: [risky] }"),
        StopHookCondition {
            from: Some(2),
            to: Some(4),
            files: vec!["src/**".into()],
            labels: vec!["risky".into()],
            ..StopHookCondition::default()
        }
    );
}

#[test]
fn mistakes_in_stop_hooks_have_a_place_and_a_way_out() {
    let text = "stop:\n  rules: [{ name: tests, type: command, command: x }]\n  hooks:\n    - { preset: promises }\n\
                \x20   - { preset: promise, when: { iteration: soon } }\n    - { preset: promise, when: { iteration: 5..3 } }\n\
                \x20   - { preset: promise, when: { rules: { test: passed } } }\n    - { all: [] }\n\
                \x20   - { command: 'echo {{error}}', name: one }\n    - { command: x, name: one }\n";
    expect![[r#"
        creel.yaml:4:17: `preset` must be one of `default`, `validation`, `promise`, not `promises`
        4 |     - { preset: promises }
          |                 ^^^^^^^^ did you mean `promise`?
        creel.yaml:5:45: `soon` is not a range of iterations
        5 |     - { preset: promise, when: { iteration: soon } }
          |                                             ^^^^ write `5`, `3..5`, `3..` or `..5`
        creel.yaml:6:45: this range ends before it begins
        6 |     - { preset: promise, when: { iteration: 5..3 } }
          |                                             ^^^^
        creel.yaml:7:43: unknown rule `test`
        7 |     - { preset: promise, when: { rules: { test: passed } } }
          |                                           ^^^^ did you mean `tests`?
        creel.yaml:8:14: `all` is empty
        8 |     - { all: [] }
          |              ^
        creel.yaml:9:24: a stop hook has no `{{error}}`
        9 |     - { command: 'echo {{error}}', name: one }
          |                        ^^^^^^^^^ a stop hook has `session`, `iteration`
        creel.yaml:10:27: another stop hook has the name `one`
        10 |     - { command: x, name: one }
           |                           ^^^ give one of them another `name`"#]]
    .assert_eq(&errors_in(text));
}
