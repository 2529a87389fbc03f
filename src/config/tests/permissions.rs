//! The messages about permissions and budgets.

use super::{errors_in, good};
use crate::engine::{
    conversation::ToolKind,
    policy::{Budget, PermissionPolicy, PermissionRule},
    time::TimeSpan,
};

#[test]
fn rules_are_kept_in_their_order_with_one_value_or_several() {
    let text = "\
permissions:
  - { kind: edit, path: './src/**', action: allow }
  - { kind: [delete, switch_mode], action: deny }
  - { path: ['.env', '!./docs/**', '/etc/**'], action: ask }
  - action: allow
";
    let rule = |kinds: &[ToolKind], paths: &[&str], action| PermissionRule {
        kinds: kinds.to_vec(),
        paths: paths.iter().map(|&path| path.to_owned()).collect(),
        action,
    };
    assert_eq!(
        good(text).base_plan.access.permissions,
        [
            rule(&[ToolKind::Edit], &["src/**"], PermissionPolicy::Allow),
            rule(
                &[ToolKind::Delete, ToolKind::SwitchMode],
                &[],
                PermissionPolicy::Deny
            ),
            rule(&[], &[".env", "!docs/**", "/etc/**"], PermissionPolicy::Ask),
            rule(&[], &[], PermissionPolicy::Allow),
        ]
    );
    assert_eq!(errors_in(text), "");
}

#[test]
fn every_kind_of_tool_can_be_named() {
    use ToolKind::{Delete, Edit, Execute, Fetch, Move, Other, Read, Search, SwitchMode, Think};
    let all = [
        Read, Edit, Delete, Move, Search, Execute, Think, Fetch, SwitchMode, Other,
    ];
    let names = all.map(ToolKind::name).join(", ");
    assert_eq!(
        good(&format!(
            "permissions: [{{ kind: [{names}], action: ask }}]"
        ))
        .base_plan
        .access
        .permissions[0]
            .kinds,
        all
    );
}

#[test]
fn a_rule_that_protects_nothing_is_a_mistake() {
    let text = r"
permissions:
  - { kind: edti, action: allow }
  - { kind: [], path: [], action: deny }
  - { kind: [edit, 7], path: '', action: perhaps }
  - { path: 'src/' }
  - { path: './', action: deny }
  - { path: [../other/**, ~/.ssh/**], action: deny }
  - { path: './src/[a-z', action: deny }
  - { path: ['src/*.{rs,toml', 'a\'], action: deny }
  - { paht: x, action: deny }
  - edit
";
    expect_test::expect![[r#"
        creel.yaml:3:13: `kind` must be one of `read`, `edit`, `delete`, `move`, `search`, `execute`, `think`, `fetch`, `switch_mode`, `other`, not `edti`
        3 |   - { kind: edti, action: allow }
          |             ^^^^ did you mean `edit`?
        creel.yaml:4:13: `kind` is an empty list, so the rule matches nothing
        4 |   - { kind: [], path: [], action: deny }
          |             ^ remove the key if the rule is for all of them
        creel.yaml:4:23: `path` is an empty list, so the rule matches nothing
        4 |   - { kind: [], path: [], action: deny }
          |                       ^ remove the key if the rule is for all of them
        creel.yaml:5:20: `kind` must be one of `read`, `edit`, `delete`, `move`, `search`, `execute`, `think`, `fetch`, `switch_mode`, `other`, not a number
        5 |   - { kind: [edit, 7], path: '', action: perhaps }
          |                    ^
        creel.yaml:5:30: `path` is empty
        5 |   - { kind: [edit, 7], path: '', action: perhaps }
          |                              ^^
        creel.yaml:5:42: `action` must be one of `allow`, `deny`, `ask`, not `perhaps`
        5 |   - { kind: [edit, 7], path: '', action: perhaps }
          |                                          ^^^^^^^
        creel.yaml:6:5: `action` is missing
        6 |   - { path: 'src/' }
          |     ^ the answer: `allow`, `deny`, or `ask` you
        creel.yaml:6:13: the pattern `src/` matches no file
        6 |   - { path: 'src/' }
          |             ^^^^^^ write `src/**` for everything in the folder
        creel.yaml:7:13: the pattern `./` matches no file
        7 |   - { path: './', action: deny }
          |             ^^^^ write `**` for every file in the project
        creel.yaml:8:14: the pattern `../other/**` matches no file
        8 |   - { path: [../other/**, ~/.ssh/**], action: deny }
          |              ^^^^^^^^^^^ write the whole path of a file outside the project
        creel.yaml:8:27: the pattern `~/.ssh/**` matches no file
        8 |   - { path: [../other/**, ~/.ssh/**], action: deny }
          |                           ^^^^^^^^^ write the whole path: creel does not expand `~` here
        creel.yaml:9:20: `./src/[a-z` is not a valid pattern: this `[` is never closed
        9 |   - { path: './src/[a-z', action: deny }
          |                    ^ write `[[]` for a literal `[`
        creel.yaml:10:21: `src/*.{rs,toml` is not a valid pattern: this `{` is never closed
        10 |   - { path: ['src/*.{rs,toml', 'a\'], action: deny }
           |                     ^ write `[{]` for a literal `{`
        creel.yaml:10:34: `a\` is not a valid pattern: there is nothing after this `\`
        10 |   - { path: ['src/*.{rs,toml', 'a\'], action: deny }
           |                                  ^ write `\\` for a literal `\`
        creel.yaml:11:7: unknown key `paht`
        11 |   - { paht: x, action: deny }
           |       ^^^^ did you mean `path`?
        creel.yaml:12:5: `permissions` must be a map, not text
        12 |   - edit
           |     ^^^^"#]].assert_eq(&errors_in(text));
}

#[test]
fn a_rule_below_one_that_fits_everything_is_a_warning() {
    let text = "permissions:\n  - { action: deny }\n  - { kind: read, action: allow }\n";
    expect_test::expect![[r#"
        creel.yaml:3:5: warning: this rule has no effect: a rule above matches every request
        3 |   - { kind: read, action: allow }
          |     ^"#]]
    .assert_eq(&errors_in(text));
}

#[test]
fn a_budget_is_of_tokens_money_and_time() {
    let budget = |text: &str| good(&format!("budget: {text}")).base_plan.budget;
    assert_eq!(
        budget("{ tokens: 2000000, cost: 2.5, time: 2h }"),
        Budget {
            tokens: Some(2_000_000),
            cost: Some(2.5),
            time: Some(TimeSpan::secs(7200))
        }
    );
    assert_eq!(
        budget("{ cost: 5 }"),
        Budget {
            cost: Some(5.0),
            ..Budget::default()
        }
    );
    assert_eq!(budget("{}"), Budget::default());
    expect_test::expect![[r#"
        creel.yaml:1:19: `tokens` must be a whole number from 1
        1 | budget: { tokens: 0, cost: -1, time: 0, tokns: 5 }
          |                   ^
        creel.yaml:1:28: `cost` must be a number from 0.0001 to 1000000
        1 | budget: { tokens: 0, cost: -1, time: 0, tokns: 5 }
          |                            ^^
        creel.yaml:1:38: `time` must be longer than 0
        1 | budget: { tokens: 0, cost: -1, time: 0, tokns: 5 }
          |                                      ^ remove it to use the default
        creel.yaml:1:41: unknown limit `tokns`
        1 | budget: { tokens: 0, cost: -1, time: 0, tokns: 5 }
          |                                         ^^^^^ did you mean `tokens`?"#]]
    .assert_eq(&errors_in(
        "budget: { tokens: 0, cost: -1, time: 0, tokns: 5 }",
    ));
}
