//! The workflow of the stories, in a config.

use std::path::Path;

use creel::config::{PlanRequest, parse};

use crate::engine::workflows::release;

const CONFIG: &str = r#"
agents: { demo: { acp: x } }
workflows:
  release:
    steps:
      - { name: build, type: command, command: "make {{task_id}} {{context}} {{context.why}} {{context.tags.1}} {{context.tags}} {{context.no.such}}", on_failure: tell }
      - name: checks
        type: parallel
        steps:
          - { name: lint, type: command, command: "lint {{steps.build.stdout}}" }
          - { name: note, type: create_task, task: { goal: "Note: {{steps.build.stdout}}", labels: ["from {{session}}", "{{context.tags.0}}"] } }
      - { name: clean, type: condition, value: "{{steps.lint.exit}} {{steps.note.task}}", equals: "0 task_1" }
      - { name: finish, type: update_task, task_id: "{{task_id}}", action: add_labels, payload: { labels: [built] }, on_success: stop }
      - { name: tell, type: create_task, task: { goal: "Repair: {{steps.build.stderr}}" } }
"#;

#[test]
fn the_config_of_a_workflow_becomes_its_plan() {
    let settings = parse(CONFIG, Path::new("creel.yaml")).expect("a config");
    let plan = settings.plan(PlanRequest::default()).expect("a plan");
    assert_eq!(plan.workflows, [("release".to_owned(), release())].into());
}
