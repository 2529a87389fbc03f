//! A stop hook whose retry limit and feedback text are in the config.

use expect_test::expect;
use serde_json::{Value, json};

use crate::support::project::Project;

#[test]
fn a_session_follows_the_limit_and_the_template_of_its_config() {
    let hook = r#"echo "run $CREEL_ATTEMPT {""{reason}}"; echo broken >&2; exit 2"#;
    let template = "{{hook}} {{attempt}}/{{limit}}: {{reason}}\\n{{output}}\\n{{changed}}";
    let config = format!(
        "prompt: GOAL\nmax_iterations: 1\nagents: {{ demo: {{ script: scenario.yaml }} }}\nhooks:\n  stop:\n    \
         - {{ command: '{hook}', name: tests, retries: 2, feedback: \"{template}\" }}\n"
    );
    let project =
        Project::with(&config).file("scenario.yaml", "turns: []\notherwise: { say: Working. }\n");
    let ran = project.run();
    assert_eq!(ran.code, 5, "{}{}", ran.out, ran.err);
    let counted: Vec<Value> = project
        .kind("retry_counted")
        .iter()
        .map(|record| json!([record["used"], record["limit"]]))
        .collect();
    assert_eq!(counted, [json!([1, 2]), json!([2, 2])]);
    assert_eq!(project.kind("retry_limit_reached")[0]["limit"], 2);
    let prompts = project.prompts();
    expect![[r#"
        tests 1/2: broken
        run 0 {{reason}}
        broken
        (first run)"#]]
    .assert_eq(&prompts[1].1);
    expect![[r#"
        tests 2/2: broken
        run 1 {{reason}}
        broken
        - run 0 {{reason}}
        + run 1 {{reason}}"#]]
    .assert_eq(&prompts[2].1);
}
