//! Hooks of tool calls: their matchers, and Claude Code's names of the points.

use super::{checks::plan, errors_in, good};
use crate::engine::{
    conversation::ToolKind,
    hooks::{
        point::HookPoint,
        tool_matcher::{ClaudeToolEvent, ToolMatcher},
    },
    policy::HookSpec,
    time::TimeSpan,
};

const AGENT: &str = "agents: { a: { command: x } }\n";

fn hooks_at(point: HookPoint, text: &str) -> Vec<HookSpec> {
    let settings = good(&format!("{AGENT}hooks:\n{text}"));
    plan(&settings, None, None).hooks[&point].clone()
}

#[test]
fn a_hook_names_the_calls_that_it_is_for() {
    let hooks = hooks_at(
        HookPoint::PreTool,
        "  pre_tool:\n    - { command: a, match: { name: [Bash, 'mcp__*'], kind: execute, path: ./src/** } }\n    \
         - { exec: [b], matcher: Edit|Write }\n    - { command: c, matcher: '*' }\n",
    );
    let matchers: Vec<_> = hooks.iter().map(|hook| hook.matcher.clone()).collect();
    let first = ToolMatcher {
        names: vec!["Bash".into(), "mcp__*".into()],
        kinds: vec![ToolKind::Execute],
        paths: vec!["src/**".into()],
        ..ToolMatcher::default()
    };
    let second = ToolMatcher {
        text: Some("Edit|Write".into()),
        ..ToolMatcher::default()
    };
    assert_eq!(matchers, [Some(first.into()), Some(second.into()), None]);
}

#[test]
fn a_point_with_claude_codes_name_has_its_groups_and_its_timeout() {
    let text = "  PreToolUse: [{ matcher: Bash, hooks: [{ type: command, command: a }] }]\n  \
                pre_tool: [{ command: b }]\n  PermissionRequest: [{ hooks: [{ command: c, timeout: 5 }] }]\n";
    let hooks = hooks_at(HookPoint::PreTool, text);
    let shown = |hook: &HookSpec| {
        let matcher = hook.matcher.clone().unwrap_or_default();
        (
            hook.name.clone(),
            matcher.claude,
            matcher.text,
            hook.timeout,
        )
    };
    let bash = Some("Bash".to_owned());
    assert_eq!(
        hooks.iter().map(shown).collect::<Vec<_>>(),
        [
            ("b".to_owned(), None, None, TimeSpan::secs(60)),
            (
                "a".to_owned(),
                Some(ClaudeToolEvent::PreToolUse),
                bash,
                TimeSpan::secs(600)
            ),
            (
                "c".to_owned(),
                Some(ClaudeToolEvent::PermissionRequest),
                None,
                TimeSpan::secs(5)
            ),
        ]
    );
}

#[test]
fn a_matcher_that_cannot_work_is_a_mistake() {
    let text = "\
hooks:
  pre_tool:
    - { command: a, matcher: '(' }
    - { command: b, match: { kind: edti, path: ../x } }
    - { command: c, match: { tool: Bash } }
  stop:
    - { command: d, matcher: Bash }
    - { command: e, match: { kind: edit } }
";
    expect_test::expect![[r#"
        creel.yaml:3:30: `(` is not a valid pattern: unclosed group
        3 |     - { command: a, matcher: '(' }
          |                              ^^^ write names such as `Edit|Write`, or a regular expression
        creel.yaml:4:36: `kind` must be one of `read`, `edit`, `delete`, `move`, `search`, `execute`, `think`, `fetch`, `switch_mode`, `other`, not `edti`
        4 |     - { command: b, match: { kind: edti, path: ../x } }
          |                                    ^^^^ did you mean `edit`?
        creel.yaml:4:48: the pattern `../x` matches no file
        4 |     - { command: b, match: { kind: edti, path: ../x } }
          |                                                ^^^^ write the whole path of a file outside the project
        creel.yaml:5:30: unknown key `tool`
        5 |     - { command: c, match: { tool: Bash } }
          |                              ^^^^ known here: `name`, `kind`, `path`
        creel.yaml:7:30: `matcher` has no effect at `stop`
        7 |     - { command: d, matcher: Bash }
          |                              ^^^^ only `pre_tool` and `post_tool` are about tool calls
        creel.yaml:8:28: `match` has no effect at `stop`
        8 |     - { command: e, match: { kind: edit } }
          |                            ^ only `pre_tool` and `post_tool` are about tool calls"#]].assert_eq(&errors_in(text));
}
