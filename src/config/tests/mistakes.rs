//! What is said about configs that are wrong.

use std::{fs, path::Path};

use proptest::prelude::*;

use super::{good, read, said};
use crate::{
    config::load,
    engine::{hooks::point::Point, time::Span},
};

#[test]
fn all_mistakes_are_told_at_once_each_at_its_place() {
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
    insta::assert_snapshot!(said(text), @"");
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
    insta::assert_snapshot!(said(text), @"");
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
    insta::assert_snapshot!(said(text), @"");
}

#[test]
fn builtin_hooks_and_gatekeepers_belong_to_submit_and_merge() {
    let text = "\
hooks:
  before_submit: [rebase_on_man, cargo test]
  before_merge: [{ gatekeeper: [] }, { gatekeeper: [codx] }]
  session_end: [{ gatekeeper: [claude] }]
";
    insta::assert_snapshot!(said(text), @"");
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
    insta::assert_snapshot!(said(text), @"");
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
    insta::assert_snapshot!(said(text), @"");
}

#[test]
fn what_this_version_does_not_use_is_said_once_a_feature() {
    let text = "\
stop:
  hooks: [{ command: x }, { command: y }]
  rules: [{ name: a, type: command, command: x }]
workflows: { w: { steps: [{ type: noop, anything: goes }] } }
nats: { url: 'nats://localhost' }
hooks:
  before_submit: [run_tests]
  stop: [{ matcher: Bash, hooks: [{ type: command, command: z }] }]
remediation_attempts: 2
";
    insta::assert_snapshot!(said(text), @"");
}

#[test]
fn syntax_errors_have_a_place_too() {
    let all =
        ["a: [1, 2\n", "session: a\nsession: b\n", "hooks:\n stop: []\n  x: 1\n", "a: {{x}}\n", "a: 1\n---\nb: 2\n"];
    insta::assert_snapshot!(all.map(said).join("\n"), @"");
}

#[test]
fn two_spellings_of_a_key_are_one_key() {
    insta::assert_snapshot!(said("max_hook_retries: 1\nmaxHookRetries: 2\n"), @"");
}

#[test]
fn an_alias_bomb_is_refused() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for i in 1..10 {
        let list = vec![format!("*a{}", i - 1); 10].join(", ");
        bomb += &format!("a{i}: &a{i} [{list}]\n");
    }
    insta::assert_snapshot!(said(&bomb), @"");
    insta::assert_snapshot!(said(&("a: ".to_owned() + &"[".repeat(60) + &"]".repeat(60))), @"");
    assert!(said(&"[".repeat(100_000)).contains("creel.yaml:1:"));
}

#[test]
fn files_that_cannot_be_read_say_why() {
    let dir = tempfile::tempdir().expect("a folder");
    let say = |name: &str, bytes: Option<&[u8]>| {
        let path = dir.path().join(name);
        if let Some(bytes) = bytes {
            fs::write(&path, bytes).expect("a file");
        }
        let errors = load(&path).expect_err("a mistake").to_string();
        errors.replace(&dir.path().display().to_string(), "DIR")
    };
    let said = [
        say("missing.yaml", None),
        say("latin.yaml", Some(b"prompt: a\nsession: \xe9\n")),
        say("large.yaml", Some(&vec![b' '; 10_000_000])),
        say("", None),
    ];
    insta::assert_snapshot!(said.join("\n"), @"");
}

#[test]
fn a_broken_automation_file_is_reported_in_its_own_name() {
    let dir = tempfile::tempdir().expect("a folder");
    fs::write(dir.path().join("creel.yaml"), "contxt: keep\nautomation: { file: hooks.json }\n").expect("a file");
    fs::write(dir.path().join("hooks.json"), "{\"hooks\": [{\"nam\": 1}]}").expect("a file");
    let errors = load(&dir.path().join("creel.yaml")).expect_err("mistakes").to_string();
    insta::assert_snapshot!(errors.replace(&dir.path().display().to_string(), "DIR"), @"");
}

#[test]
fn files_beside_the_config_are_read_with_it() {
    let dir = tempfile::tempdir().expect("a folder");
    let config = "agents: { demo: { script: play.yaml } }\nprompt_file: task.md\n";
    fs::write(dir.path().join("creel.yaml"), config).expect("a file");
    fs::write(dir.path().join("play.yaml"), "turns: []\n").expect("a file");
    fs::write(dir.path().join("task.md"), "Do it.\n").expect("a file");
    let settings = load(&dir.path().join("creel.yaml")).expect("settings");
    assert_eq!(settings.prompt.as_deref(), Some("Do it.\n"));
    let documents: Vec<_> = settings.documents.iter().map(|d| (d.name.as_str(), d.text.as_str())).collect();
    assert_eq!(documents, [("creel.yaml", config), ("play.yaml", "turns: []\n")]);
    let plan = settings.plan(None, None).expect("a plan");
    assert_eq!(plan.agent, "demo");
}

#[test]
fn hooks_run_by_priority_and_then_as_written() {
    let settings = good("hooks: { stop: [{command: a}, {command: b, priority: 0}, {command: c, timeout: 1.5}] }");
    let hooks = &settings.draft.hooks[&Point::Stop];
    assert_eq!(hooks.iter().map(|hook| hook.name.as_str()).collect::<Vec<_>>(), ["b", "a", "c"]);
    assert_eq!(hooks[2].timeout, Span(1_500));
}

#[test]
fn backoff_is_on_when_one_of_its_keys_is_given() {
    assert_eq!(good("retry: { backoff: none }").draft.backoff, None);
    let backoff = good("retry: { base: 500ms }").draft.backoff.expect("a backoff");
    assert_eq!((backoff.base, backoff.factor, backoff.max), (Span(500), 2.0, Span::secs(60)));
    assert_eq!(good("retry: { backoff: exponential }").draft.backoff.expect("a backoff").base, Span::secs(1));
}

/// Text that is likely to come close to a config.
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
    assert!(errors.to_string().starts_with("sub/creel.yml:1:1: unknown key `x`"));
}
