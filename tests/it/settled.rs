//! How a session ends when the work is done: the completion note, promises, and iterations that
//! settle.

use serde_json::{Value, json};

use crate::support::project::{Project, Ran};

const NOTE: &str = include_str!("../../assets/prompts/completion.md");
const SETTLED: &str = "All checks pass and the agent changed nothing";

fn scripted(rest: &str, turns: &Value) -> Project {
    let config = format!(
        "prompt: GOAL\nagents: {{ demo: {{ script: scenario.yaml }} }}\nmax_iterations: 4\n{rest}\n"
    );
    let scenario = json!({ "turns": turns, "otherwise": { "say": "Nothing to do." } });
    Project::with(&config).file("scenario.yaml", &scenario.to_string())
}

fn prompts(project: &Project, reason: &str) -> Vec<String> {
    let sent = project
        .kind("prompt_sent")
        .into_iter()
        .filter(|sent| sent["reason"] == reason);
    sent.map(|sent| sent["text"].as_str().expect("a text").to_owned())
        .collect()
}

/// The stop decisions, each with the hook that made it.
fn decisions(project: &Project) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    project
        .kind("stop_decided")
        .iter()
        .map(|decided| (text(&decided["hook"]), text(&decided["action"])))
        .collect()
}

#[track_caller]
fn ends(project: &Project, code: i32, outcome: &str, turns: usize) -> Ran {
    let ran = project.run();
    let seen = (
        ran.code,
        project.outcome(),
        project.kind("turn_ended").len(),
    );
    assert_eq!(
        seen,
        (code, Some(outcome.to_owned()), turns),
        "{}{}",
        ran.out,
        ran.err
    );
    ran
}

#[test]
fn an_agent_that_makes_the_tests_pass_and_promises_nothing_is_done_after_one_more_turn() {
    let check = "hooks: { stop: [{ command: '[ -e fixed ] || { echo red; exit 2; }' }] }";
    let project = scripted(
        check,
        &json!([{ "run": "touch fixed", "say": "I fixed it." }]),
    );
    let ran = ends(&project, 0, "complete", 2);
    assert!(
        ran.out
            .contains("Decision: complete · the agent changed nothing more"),
        "{}",
        ran.out
    );
    let decided = decisions(&project);
    assert_eq!(
        decided,
        [
            ("default".into(), "continue".into()),
            ("settled".into(), "complete".into())
        ]
    );
}

#[test]
fn three_failures_one_failure_and_a_pass_are_one_iteration_and_the_next_one_settles() {
    let hook = "n=$(cat ../n 2>/dev/null || echo 0); echo $((n + 1)) > ../n; \
                case $n in 0) echo '3 tests failed' >&2; exit 2;; 1) echo '1 test failed' >&2; exit 2;; esac";
    let config = json!({ "stop": [{ "command": hook }] });
    let nothing = json!([{ "say": "one" }, { "say": "two" }, { "say": "three" }]);
    let project = scripted(&format!("hooks: {config}"), &nothing);
    ends(&project, 4, "escalated", 4);
    let work = json!([{ "say": "one", "run": "echo 1 > a" }, { "say": "two" }, { "say": "three", "run": "echo 3 > a" }]);
    let project = scripted(&format!("hooks: {config}"), &work);
    ends(&project, 0, "complete", 4);
    assert_eq!(project.kind("iteration_completed").len(), 2);
}

#[test]
fn rules_are_checks_too() {
    let rules = "stop: { hooks: [promise], settled: complete, circuit_breaker: 0, \
                 rules: [{ name: made, type: file_existence, files: [made] }] }";
    let project = scripted(
        rules,
        &json!([{ "say": "first I think" }, { "run": "touch made", "say": "made" }]),
    );
    ends(&project, 0, "complete", 3);
}

#[test]
fn without_proof_nothing_settles() {
    let cases = [
        ("without a check", "", json!([])),
        (
            "a check that fails without blocking",
            "hooks: { stop: [{ command: 'exit 1' }] }",
            json!([]),
        ),
        (
            "a broken check",
            "hooks: { stop: [{ command: 'true' }, { command: 'exit 127' }] }",
            json!([]),
        ),
        (
            "a failed rule",
            "hooks: { stop: [{ command: 'true' }] }\nstop: { circuit_breaker: 0, rules: [{ name: r, type: command, command: 'false' }] }",
            json!([]),
        ),
        (
            "settled: continue",
            "hooks: { stop: [{ command: 'true' }] }\nstop: { settled: continue }",
            json!([]),
        ),
        (
            "stop hooks of the config",
            "hooks: { stop: [{ command: 'true' }] }\nstop: { hooks: [default] }",
            json!([]),
        ),
    ];
    for (what, rest, turns) in cases {
        let project = scripted(rest, &turns);
        let ran = project.run();
        assert_eq!(
            (ran.code, project.kind("turn_ended").len()),
            (3, 4),
            "{what}: {}{}",
            ran.out,
            ran.err
        );
    }
}

#[test]
fn an_agent_that_works_on_tasks_has_not_settled() {
    let creel = env!("CARGO_BIN_EXE_creel");
    let turns = json!([{ "run": format!("{creel} task add 'look at it'"), "say": "planned" }]);
    let project = scripted("hooks: { stop: [{ command: 'true' }] }", &turns);
    ends(&project, 3, "limit", 4);
}

#[test]
fn a_config_with_its_own_hooks_can_ask_for_it_and_ask_opens_the_gate() {
    let check = "hooks: { stop: [{ command: 'true' }] }";
    let works = json!([{ "run": "touch made", "say": "made" }]);
    let project = scripted(
        &format!("{check}\nstop: {{ hooks: [default], settled: complete }}"),
        &works,
    );
    ends(&project, 0, "complete", 2);
    let project = scripted(&format!("{check}\nstop: {{ settled: ask }}"), &works);
    ends(&project, 4, "escalated", 2);
    let gate = &project.kind("gate_opened")[0];
    assert_eq!(
        (&gate["about"], &gate["reason"]),
        (&json!("escalation"), &json!(SETTLED))
    );
}

#[test]
fn a_promise_counts_more_than_silence() {
    let check = "hooks: { stop: [{ command: 'true' }] }";
    let project = scripted(
        check,
        &json!([{ "say": "I need a key. <promise>BLOCKED</promise>" }]),
    );
    ends(&project, 4, "escalated", 1);
}

#[test]
fn iteration_prompts_end_with_the_completion_note() {
    let turns = json!([{ "say": "one" }, { "say": "two <promise>COMPLETE</promise>" }]);
    let told = |rest: &str| {
        let project = scripted(rest, &turns);
        ends(&project, 0, "complete", 2);
        assert!(prompts(&project, "feedback").is_empty());
        prompts(&project, "iteration")
    };
    let with_note = format!("GOAL\n\n{}", NOTE.trim_end());
    assert_eq!(told(""), [with_note.clone(), with_note.clone()]);
    assert_eq!(told("instructions: none"), ["GOAL", "GOAL"]);
    assert_eq!(
        told("instructions: Say so when you are done."),
        ["GOAL\n\nSay so when you are done."; 2]
    );
    assert_eq!(
        told("context: keep"),
        [with_note, "GOAL".to_owned()],
        "once in a conversation"
    );
}

#[test]
fn a_goal_that_mentions_promises_gets_no_note() {
    let goal = "Write it, then say <promise>COMPLETE</promise>.";
    let project = scripted("", &json!([{ "say": "<promise>COMPLETE</promise>" }]));
    let ran = project.creel(&["run", goal, "--headless", "--trust", "-s", "s"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(prompts(&project, "iteration"), [goal]);
}

#[test]
fn an_agent_that_repeats_the_note_promises_nothing() {
    let project =
        Project::with("prompt: GOAL\nagents: { echo: { command: cat } }\nmax_iterations: 2\n");
    let ran = project.run();
    assert_eq!(ran.code, 3, "{}{}", ran.out, ran.err);
    let reworded = format!("You told me: {}", NOTE.replace("the goal", "my goal"));
    let project = scripted(
        "",
        &json!([{ "say": reworded }, { "say": "<promise>COMPLETE</promise>" }]),
    );
    ends(&project, 0, "complete", 2);
}

#[test]
fn show_prints_the_note_with_the_prompt() {
    let project = scripted("", &json!([{ "say": "<promise>COMPLETE</promise>" }]));
    ends(&project, 0, "complete", 1);
    let shown = project.creel(&["show", "s", "--prompts"]).out;
    assert!(shown.contains("If work is left, write no tag"), "{shown}");
}

#[test]
fn an_agent_that_hides_tools_gets_their_names() {
    let told = |list: bool| {
        let done = "echo '<promise>COMPLETE</promise>'";
        let config = format!(
            "prompt: GOAL\nagents: {{ a: {{ command: \"{done}\", list_tools: {list} }} }}\n"
        );
        let project = Project::with(&config);
        ends(&project, 0, "complete", 1);
        prompts(&project, "iteration").remove(0)
    };
    assert!(
        told(true).ends_with("`session_status`, `session_complete`."),
        "{}",
        told(true)
    );
    assert!(!told(false).contains("task_add"));
}

#[test]
fn changes_before_a_usage_limit_are_not_forgotten() {
    let limit = "You've hit your usage limit. Try again in 1s.";
    let turns = json!([{ "run": "echo half > half", "fail": limit }, { "say": "Nothing more." }]);
    let project = scripted("hooks: { stop: [{ command: 'true' }] }", &turns);
    ends(&project, 0, "complete", 2);
    assert_eq!(project.kind("iteration_completed").len(), 2);
}

#[test]
fn a_message_that_waits_for_the_agent_keeps_the_session_from_settling() {
    let hook = "until [ -e checked ] || [ ! -e creel.yaml ]; do sleep 0.02; done; test ! -e broken || exit 2";
    let turns = json!([{ "say": "one" }, { "say": "I break it.", "run": "touch broken" }, { "say": "Mended.", "run": "rm broken" }]);
    let project = scripted(
        &format!("hooks: {}", json!({ "stop": [{ "command": hook }] })),
        &turns,
    );
    let mut session = project.start();
    session.wait_for("hook_started");
    assert_eq!(project.creel(&["message", "one more thing"]).code, 0);
    project.write("checked", "");
    assert_eq!(session.end().code, 0);
    let kinds: Vec<String> = project
        .records()
        .iter()
        .map(|record| record["kind"].as_str().unwrap_or_default().to_owned())
        .collect();
    let last = |kind: &str| {
        kinds
            .iter()
            .rposition(|seen| seen == kind)
            .expect("a record")
    };
    assert!(
        last("hook_finished") > last("turn_ended"),
        "the last turn is checked"
    );
    assert!(!project.root().join("broken").exists());
}

#[test]
fn work_in_a_nested_repository_is_work() {
    let turns = json!([{ "run": "echo 1 > nested/a", "say": "one" }, { "run": "echo 22 > nested/a", "say": "two" }, { "say": "three" }]);
    let project = scripted("hooks: { stop: [{ command: 'true' }] }", &turns);
    for place in [".", "nested"] {
        let init = std::process::Command::new("git")
            .args(["init", "-q", place])
            .current_dir(project.root())
            .status();
        assert!(init.expect("git is installed").success());
    }
    project.write("nested/a", "0");
    ends(&project, 0, "complete", 3);
}
