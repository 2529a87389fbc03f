//! The scenarios of the founding documents, with the real program.

use crate::support::project::Project;

#[test]
fn piped_output_reaches_the_agent_at_the_next_iteration_and_a_side_effect_does_not() {
    let project = Project::with(
        r#"
prompt: GOAL
max_iterations: 2
gates: { final_delivery: skip }
agents: { cat: { command: "cat >> seen.txt; echo ===== >> seen.txt; echo ok" } }
hooks:
  post_iteration:
    - command: "echo 'Test output for agent'"
      pipe_output: true
    - command: "echo 'Side effect only'"
"#,
    );
    assert_eq!(project.run().code, 3);
    let seen = project.read("seen.txt");
    let prompts: Vec<&str> = seen.split("=====\n").collect();
    assert!(
        prompts[0].starts_with("GOAL\n\nWork until"),
        "{}",
        prompts[0]
    );
    let framed = prompts[1]
        .strip_prefix("[Hook output: post_iteration \"echo 'Test output for agent'\" · exit 0 · ");
    let (_, rest) = framed
        .expect("a frame")
        .split_once("]\n")
        .expect("the end of the frame");
    assert!(
        rest.starts_with("Test output for agent\n\nGOAL\n\nWork until"),
        "{rest}"
    );
    assert!(!seen.contains("Side effect only"));
}

/// The hook of seed 001: three tests fail, then one, then none.
const TEST_HOOK: &str = r#"#!/bin/bash
count=$(cat .codemie/attempts 2>/dev/null || echo 0)
count=$((count + 1))
echo $count > .codemie/attempts
case $count in
  1) echo "3 tests failing"; exit 2 ;;
  2) echo "1 test failing"; exit 2 ;;
  *) echo "All tests passed!"; exit 0 ;;
esac
"#;

#[test]
fn a_stop_hook_blocks_twice_and_the_agent_gets_its_feedback() {
    let config = r#"{
  "prompt": "Implement feature X",
  "agents": { "demo": { "script": "scenario.yaml" } },
  "hooks": {
    "Stop": [{
      "matcher": "*",
      "hooks": [{
        "type": "command",
        "command": "bash ./.codemie/test-hook.sh"
      }]
    }]
  },
  "maxHookRetries": 5
}"#;
    let scenario = r#"
turns:
  - say: "Wrote the code."
  - when: "[Hook feedback]: check `bash ./.codemie/test-hook.sh` failed, exit 2\n3 tests failing"
    say: "Fixed two."
  - when: "1 test failing"
    say: "Fixed the last one. <promise>COMPLETE</promise>"
"#;
    let project = Project::new()
        .file("creel.json", config)
        .file("scenario.yaml", scenario)
        .file(".codemie/test-hook.sh", TEST_HOOK);
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let feedback = "[Hook feedback]: check `bash ./.codemie/test-hook.sh` failed, exit 2";
    let prompts = [
        ("iteration".to_owned(), "Implement feature X".to_owned()),
        (
            "feedback".to_owned(),
            format!("{feedback}\n3 tests failing"),
        ),
        ("feedback".to_owned(), format!("{feedback}\n1 test failing")),
    ];
    assert_eq!(project.prompts(), prompts);
    let said: Vec<String> = project
        .kind("agent_said")
        .iter()
        .map(|record| record["text"].to_string())
        .collect();
    assert_eq!(
        said,
        [
            r#""Wrote the code.""#,
            r#""Fixed two.""#,
            r#""Fixed the last one. <promise>COMPLETE</promise>""#
        ]
    );
    let retries: Vec<_> = project
        .kind("retry_counted")
        .iter()
        .map(|r| (r["used"].clone(), r["limit"].clone()))
        .collect();
    assert_eq!(retries, [(1.into(), 5.into()), (2.into(), 5.into())]);
}

#[test]
fn a_hook_that_always_blocks_is_forced_after_five_retries() {
    let project = Project::with(
        r#"
prompt: GOAL
max_iterations: 1
agents: { mute: { command: "true" } }
hooks: { stop: [{ name: never, command: "echo no >&2; exit 2" }] }
"#,
    );
    assert_eq!(project.run().code, 5);
    assert_eq!(project.kind("prompt_sent").len(), 6);
    assert_eq!(project.kind("hook_finished").len(), 6);
    let feedback = "[Hook feedback]: check `never` failed: `echo no >&2; exit 2`, exit 2\nno";
    assert_eq!(
        project
            .prompts()
            .iter()
            .filter(|(_, text)| text.starts_with(feedback))
            .count(),
        5
    );
    let warnings = project.kind("warning");
    assert_eq!(
        warnings[0]["text"],
        "[Warning: Hook retry limit (5) reached. Completing execution.]"
    );
    assert_eq!(project.kind("iteration_completed")[0]["outcome"], "forced");
    assert_eq!(project.outcome().as_deref(), Some("forced"));
}

#[test]
fn an_error_runs_its_hooks_sends_a_recovery_prompt_and_the_session_continues() {
    let project = Project::with(
        r#"
prompt: GOAL
max_iterations: 2
agents: { demo: { script: scenario.yaml } }
hooks:
  on_error:
    - command: "printf '%s|%s' {{error}} \"{{iteration}}\""
      pipe_output: true
  stop: [{ command: "echo stop >> ../ran.txt" }]
  post_iteration: [{ command: "echo post >> ../ran.txt" }]
"#,
    )
    .file(
        "scenario.yaml",
        "turns: [{ fail: \"it's $(down)\" }, { say: recovered }, { say: <promise>COMPLETE</promise> }]",
    );
    assert_eq!(project.run().code, 0);
    let prompts = project.prompts();
    assert_eq!(prompts[1].0, "recovery");
    assert!(
        prompts[1].1.ends_with("\nit's $(down)|1"),
        "{}",
        prompts[1].1
    );
    assert_eq!(
        project.read("../ran.txt"),
        "stop\npost\n",
        "hooks of the failed iteration did not run"
    );
}

#[test]
fn session_end_hooks_run_after_the_final_delivery_and_pipe_nothing() {
    let project = Project::with(
        r#"
prompt: GOAL
agents: { demo: { script: scenario.yaml } }
hooks:
  session_start: [{ command: "echo started >> ran.txt; echo built", pipe_output: true }]
  post_iteration: [{ command: "echo red", pipe_output: true }]
  session_end: [{ command: "echo {{session}} >> ran.txt; echo lost", pipe_output: true }]
"#,
    )
    .file(
        "scenario.yaml",
        "turns: [{ say: <promise>COMPLETE</promise> }, { when: red, say: fixed }]",
    );
    assert_eq!(project.run().code, 0);
    let kinds: Vec<String> = project
        .records()
        .iter()
        .map(|r| r["kind"].as_str().unwrap_or("").to_owned())
        .collect();
    let place = |kind: &str| kinds.iter().rposition(|k| k == kind).expect(kind);
    assert!(
        place("delivered") < place("hook_started")
            && place("hook_finished") < place("session_ended")
    );
    assert_eq!(
        project.prompts().last().map(|(reason, _)| reason.as_str()),
        Some("final_delivery")
    );
    assert_eq!(project.read("ran.txt"), "started\ns\n");
    assert_eq!(project.kind("pending_added").len(), 2);
}
