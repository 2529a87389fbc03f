//! `creel resume` of a session that ended at a gate opens the same gate again, before anything else
//! happens.

use std::{fs, os::unix::fs::PermissionsExt as _};

use serde_json::{Value, json};

use crate::support::project::{Project, Ran};

const DONE: &str = "All done.\n<promise>COMPLETE</promise>";

/// A session with a scripted agent whose stop hooks may send it back once.
fn scripted(rest: &Value, turns: &Value) -> Project {
    let mut config = json!({
        "prompt": "GOAL", "agents": { "demo": { "script": "scenario.yaml" } }, "max_iterations": 4,
        "max_hook_retries": 1, "on_limit": "escalate",
    });
    config
        .as_object_mut()
        .expect("a map")
        .extend(rest.as_object().expect("a map").clone());
    let scenario = json!({ "turns": turns, "otherwise": { "say": "Nothing to do." } });
    Project::with(&config.to_string()).file("scenario.yaml", &scenario.to_string())
}

fn fails_until_fixed(turns: &Value) -> Project {
    scripted(
        &json!({ "checks": [{ "command": "[ -e fixed ]", "name": "tests" }] }),
        turns,
    )
}

fn resume(project: &Project, more: &[&str]) -> Ran {
    project.creel(&[&["resume", "s", "--headless"], more].concat())
}

fn turns(project: &Project) -> usize {
    project.kind("turn_ended").len()
}

/// What each gate asked about, and why.
fn asked(project: &Project) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    project
        .kind("gate_opened")
        .iter()
        .map(|gate| (text(&gate["about"]), text(&gate["reason"])))
        .collect()
}

fn last_prompt(project: &Project) -> String {
    let sent = project.kind("prompt_sent").pop().unwrap_or_default();
    sent["text"].as_str().unwrap_or_default().to_owned()
}

/// The session asks what it asked before, and the agent has worked no further.
#[track_caller]
fn asks_again(project: &Project, about: &str) {
    let first = asked(project).len();
    for nth in 1..3 {
        let before = turns(project);
        let ran = resume(project, &[]);
        assert_eq!(
            (ran.code, turns(project)),
            (4, before),
            "{}{}",
            ran.out,
            ran.err
        );
        let asked = asked(project);
        let same = &asked[first - 1];
        assert_eq!(
            (asked.len(), same.0.as_str()),
            (first + nth, about),
            "{asked:?}"
        );
        assert!(asked[first..].iter().all(|gate| gate == same), "{asked:?}");
    }
}

#[track_caller]
fn answers(project: &Project, answer: &[&str], code: i32, outcome: &str) -> Ran {
    let ran = resume(project, &[&["--answer"], answer].concat());
    assert_eq!(
        (ran.code, project.outcome().as_deref()),
        (code, Some(outcome)),
        "{}{}",
        ran.out,
        ran.err
    );
    ran
}

#[test]
fn the_retry_limit_asks_again_and_continue_grants_retries() {
    let project = fails_until_fixed(
        &json!([{ "say": DONE }, { "say": DONE, "run": "echo 1 > a" }, { "run": "touch fixed", "say": DONE }]),
    );
    assert_eq!(project.run().code, 4);
    asks_again(&project, "retry_limit");
    answers(&project, &["continue"], 0, "complete");
    assert_eq!(
        (turns(&project), project.kind("iteration_started").len()),
        (3, 1),
        "the same iteration goes on"
    );
    let answered = project.kind("gate_answered").pop().expect("an answer");
    assert_eq!(
        (&answered["choice"], &answered["by"]),
        (&json!("continue"), &json!("cli"))
    );
}

#[test]
fn work_that_the_user_repaired_is_checked_first() {
    let project =
        fails_until_fixed(&json!([{ "say": DONE }, { "say": DONE, "run": "echo 1 > a" }]));
    assert_eq!(project.run().code, 4);
    fs::write(project.root().join("fixed"), "").expect("a file");
    answers(&project, &["continue"], 0, "complete");
    assert_eq!(turns(&project), 2, "the agent has nothing to do");
}

#[test]
fn accepting_a_red_check_when_resuming_is_a_forced_end() {
    let project = fails_until_fixed(&json!([{ "say": DONE }, { "say": DONE }]));
    assert_eq!(project.run().code, 4);
    answers(&project, &["ignore"], 5, "forced");
    assert_eq!(turns(&project), 2);
    let listed = project.creel(&["sessions"]).out;
    assert!(listed.contains("⚠ Forced: tests still fails"), "{listed}");
}

#[test]
fn a_question_of_the_agent_is_asked_again_and_its_answer_reaches_the_agent() {
    let question = "HTML or PDF?\n<promise>ESCALATE</promise>";
    let project = scripted(&json!({}), &json!([{ "say": question }, { "say": DONE }]));
    assert_eq!(project.run().code, 4);
    asks_again(&project, "escalation");
    assert!(
        asked(&project)[0].1.contains("HTML or PDF?"),
        "{:?}",
        asked(&project)
    );
    answers(&project, &["message", "PDF, please."], 0, "complete");
    assert!(
        last_prompt(&project).contains("PDF, please."),
        "{}",
        last_prompt(&project)
    );
    assert_eq!(
        (turns(&project), project.kind("iteration_started").len()),
        (2, 2)
    );
}

#[test]
fn complete_accepts_the_work_and_abort_gives_up() {
    let question = json!([{ "say": "HTML or PDF?\n<promise>ESCALATE</promise>" }]);
    let project = scripted(&json!({}), &question);
    assert_eq!(project.run().code, 4);
    answers(&project, &["complete"], 0, "complete");
    let project = scripted(&json!({}), &question);
    assert_eq!(project.run().code, 4);
    answers(&project, &["abort"], 1, "aborted");
    assert_eq!(turns(&project), 1);
}

#[test]
fn a_checkpoint_starts_the_next_iteration_instead() {
    let judge = r#"test $CREEL_ITERATION = 1 && echo '{"action":"escalate","reason":"look","checkpointData":{"phase":"testing"}}' || echo '{"action":"complete","reason":"enough"}'"#;
    let rest = json!({ "stop": { "hooks": [{ "command": judge, "name": "judge" }] } });
    let project = scripted(&rest, &json!([{ "say": "one" }, { "say": "two" }]));
    assert_eq!(project.run().code, 4);
    let both = resume(&project, &["--checkpoint", "1", "--answer", "continue"]);
    assert_eq!(both.code, 2, "{}", both.err);
    let ran = resume(&project, &["--checkpoint", "1"]);
    assert_eq!(
        (ran.code, asked(&project).len(), turns(&project)),
        (0, 1, 2),
        "{}{}",
        ran.out,
        ran.err
    );
    assert!(
        last_prompt(&project).contains("testing"),
        "{}",
        last_prompt(&project)
    );
}

/// The program of its check is missing until a file with its name is in `bin`.
fn with_a_missing_program() -> Project {
    let rest = json!({
        "checks": [{ "command": "look-closely", "name": "tests" }],
        "hooks": { "session_start": [{ "command": "true" }] },
    });
    scripted(&rest, &json!([{ "say": DONE }]))
}

fn provide(project: &Project) {
    fs::create_dir_all(project.root().join("bin")).expect("a folder");
    let program = project.root().join("bin/look-closely");
    fs::write(&program, "#!/bin/sh\nexit 0\n").expect("a program");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("executable");
}

fn with_path(project: &Project, args: &[&str]) -> Ran {
    let path = format!(
        "{}:{}",
        project.root().join("bin").display(),
        std::env::var("PATH").unwrap_or_default()
    );
    Ran::of(
        &project
            .command(args)
            .env("PATH", path)
            .output()
            .expect("creel starts"),
    )
}

#[test]
fn a_check_that_could_not_start_runs_again_as_soon_as_its_program_is_there() {
    let project = with_a_missing_program();
    assert_eq!(project.run().code, 4);
    let reason = "the check `tests` cannot start: `look-closely` is not on PATH";
    assert_eq!(
        asked(&project),
        [("broken_hook".to_owned(), reason.to_owned())]
    );
    assert_eq!(
        turns(&project),
        0,
        "no turn is paid for while a check cannot run"
    );
    assert_eq!(
        (
            resume(&project, &[]).code,
            turns(&project),
            asked(&project).len()
        ),
        (4, 0, 2)
    );
    provide(&project);
    let ran = with_path(&project, &["resume", "s", "--headless"]);
    assert_eq!(
        (ran.code, turns(&project), asked(&project).len()),
        (0, 1, 2),
        "{}{}",
        ran.out,
        ran.err
    );
}

#[test]
fn a_program_that_disappears_later_is_asked_about_and_resume_refuses_until_it_is_back() {
    let rest = json!({ "checks": [{ "command": "look-closely", "name": "tests" }] });
    let project = scripted(
        &rest,
        &json!([{ "run": "rm bin/look-closely", "say": DONE }]),
    );
    provide(&project);
    let ran = with_path(&project, &["run", "--headless", "--trust", "-s", "s"]);
    assert_eq!(
        (ran.code, asked(&project)[0].0.as_str()),
        (4, "broken_hook"),
        "{}{}",
        ran.out,
        ran.err
    );
    let ran = with_path(&project, &["resume", "s", "--headless"]);
    assert_eq!((ran.code, turns(&project)), (2, 1), "{}", ran.err);
    assert!(
        ran.err.contains("`look-closely` is not on PATH"),
        "{}",
        ran.err
    );
    provide(&project);
    let ran = with_path(&project, &["resume", "s", "--headless"]);
    assert_eq!(
        (ran.code, turns(&project), asked(&project).len()),
        (0, 1, 1),
        "{}{}",
        ran.out,
        ran.err
    );
}

#[test]
fn a_check_that_cannot_start_can_be_disabled() {
    let project = with_a_missing_program();
    assert_eq!(project.run().code, 4);
    answers(&project, &["disable"], 5, "unverified");
    assert_eq!(turns(&project), 1);
}

#[test]
fn changed_files_of_creel_are_asked_about_again() {
    let project = scripted(
        &json!({}),
        &json!([{ "run": "echo >> creel.yaml", "say": DONE }]),
    );
    assert_eq!(project.run().code, 4);
    asks_again(&project, "tampered");
    answers(&project, &["ignore"], 0, "complete");
    assert_eq!(turns(&project), 1);
}

#[test]
fn a_hook_that_escalates_asks_again() {
    let rest = json!({ "hooks": { "pre_iteration": [{ "command": "exit 1", "name": "look", "on_failure": "escalate" }] } });
    let project = scripted(&rest, &json!([{ "say": DONE }]));
    assert_eq!(project.run().code, 4);
    asks_again(&project, "escalation");
    answers(&project, &["continue"], 0, "complete");
    assert_eq!(
        (turns(&project), project.kind("iteration_started").len()),
        (1, 1)
    );
}

#[test]
fn a_final_delivery_that_breaks_the_work_asks_again() {
    let rest = json!({
        "checks": [{ "command": "[ ! -e broken ]", "name": "tests" }],
        "hooks": { "post_iteration": [{ "command": "echo news", "pipe_output": true }] },
    });
    let work = json!([{ "say": DONE }, { "run": "touch broken", "say": "read" }, { "say": "no" }]);
    let project = scripted(&rest, &work);
    assert_eq!(project.run().code, 4, "{:?}", project.outcome());
    asks_again(&project, "retry_limit");
    fs::remove_file(project.root().join("broken")).expect("a file");
    answers(&project, &["continue"], 0, "complete");
}

#[test]
fn a_submit_that_was_left_starts_again_without_further_repairs() {
    let rest = json!({
        "submit": true,
        "hooks": { "before_submit": [{ "command": "[ -e ready ] || { echo not yet; exit 2; }", "name": "ready" }] },
    });
    let project = scripted(
        &rest,
        &json!([{ "run": "touch made", "say": DONE }, { "say": "no" }, { "say": "no" }]),
    );
    assert_eq!(project.run().code, 4, "{:?}", project.outcome());
    let before = turns(&project);
    assert_eq!(resume(&project, &[]).code, 4);
    assert_eq!(
        turns(&project),
        before,
        "the gate asks before the agent works"
    );
    let wrong = resume(&project, &["--answer", "complete"]);
    assert_eq!(
        (wrong.code, wrong.err.contains("retry")),
        (2, true),
        "{}",
        wrong.err
    );
    answers(&project, &["skip"], 0, "complete");
    assert_eq!(turns(&project), before);
    let ended = project.kind("session_ended").pop().expect("an end");
    assert_eq!(
        ended["reason"],
        "no checks are configured, and the agent says it is done"
    );
}

#[test]
fn an_answer_that_the_gate_does_not_offer_changes_nothing() {
    let project = fails_until_fixed(&json!([{ "say": DONE }, { "say": DONE }]));
    assert_eq!(project.run().code, 4);
    let before = project.records().len();
    for (answer, names) in [
        (vec!["approve"], "continue, send, ignore, disable, abort"),
        (vec!["perhaps"], "perhaps"),
        (vec!["send"], "empty"),
        (vec!["escalate"], "continue"),
    ] {
        let ran = resume(&project, &[&["--answer"], &answer[..]].concat());
        assert_eq!(
            (ran.code, ran.err.contains(names)),
            (2, true),
            "{answer:?}: {}",
            ran.err
        );
    }
    assert_eq!(project.records().len(), before);
    let verified = project.creel(&["verify", "s"]);
    assert_eq!(verified.code, 0, "{}{}", verified.out, verified.err);
}

#[test]
fn without_a_gate_there_is_nothing_to_answer() {
    let project = scripted(&json!({ "max_iterations": 1 }), &json!([{ "say": "more" }]));
    assert_eq!(project.run().code, 3);
    let ran = resume(&project, &["-n", "2", "--answer", "continue"]);
    assert_eq!(
        (ran.code, ran.err.contains("nothing to answer")),
        (2, true),
        "{}",
        ran.err
    );
}

#[test]
fn a_gate_about_a_repair_is_asked_again_before_anything_is_pushed() {
    let need = "test -e ../asked || { touch ../asked; echo please; exit 2; }";
    let rest = json!({
        "submit": true,
        "protect": ["p.txt"],
        "hooks": { "before_submit": [
            { "command": need, "name": "need", "pipe_output": true },
            { "command": "touch ../pushed", "name": "push" },
        ] },
    });
    let work = json!([{ "run": "touch made", "say": DONE }, { "run": "echo 1 > p.txt", "say": "repaired" }]);
    let project = scripted(&rest, &work).file("p.txt", "0\n");
    let ran = project.run();
    assert_eq!(ran.code, 4, "{}{}", ran.out, ran.err);
    asks_again(&project, "tampered");
    let ended = project.kind("pipeline_ended").pop().expect("an end");
    assert!(
        ended["reason"]
            .as_str()
            .is_some_and(|reason| reason.contains("p.txt")),
        "{ended}"
    );
    answers(&project, &["ignore"], 4, "escalated");
    let last = asked(&project).pop().expect("a gate");
    assert_eq!(
        last.0, "submit",
        "accepted work is submitted only on your word: {}",
        last.1
    );
    assert!(!project.root().join("../pushed").exists());
}

#[test]
fn a_submit_over_work_that_was_broken_since_asks_before_the_agent_works() {
    let rest = json!({
        "submit": true,
        "checks": [{ "command": "grep -q good state", "name": "tests" }],
        "hooks": { "before_submit": [
            { "command": "echo bad > state", "name": "spoil" }, { "command": "touch ../pushed", "name": "push" },
        ] },
    });
    let project = scripted(
        &rest,
        &json!([{ "run": "echo good > state", "say": DONE }, { "say": "no" }]),
    );
    let ran = project.run();
    assert_eq!(ran.code, 4, "{}{}", ran.out, ran.err);
    let before = turns(&project);
    let ran = resume(&project, &[]);
    assert_eq!(
        (ran.code, turns(&project)),
        (4, before),
        "{}{}",
        ran.out,
        ran.err
    );
    assert_eq!(asked(&project).pop().expect("a gate").0, "submit");
    assert!(!project.root().join("../pushed").exists());
}

#[test]
fn complete_over_a_check_that_escalated_is_forced() {
    let check = json!({ "command": "exit 1", "name": "tests", "on_failure": "escalate" });
    let project = scripted(&json!({ "checks": [check] }), &json!([{ "say": DONE }]));
    assert_eq!(project.run().code, 4);
    answers(&project, &["complete"], 5, "forced");
    assert_eq!(turns(&project), 1);
}

#[test]
fn a_question_in_a_repair_is_asked_before_anything_is_pushed() {
    let need = "test -e ../asked || { touch ../asked; echo please; exit 2; }";
    let rest = json!({
        "submit": true,
        "hooks": { "before_submit": [
            { "command": need, "name": "need", "pipe_output": true },
            { "command": "touch ../pushed", "name": "push" },
        ] },
    });
    let question = "Which changelog do you mean?\n<promise>ESCALATE</promise>";
    let project = scripted(
        &rest,
        &json!([{ "run": "touch made", "say": DONE }, { "say": question }]),
    );
    let ran = project.run();
    assert_eq!(ran.code, 4, "{}{}", ran.out, ran.err);
    let gate = asked(&project).pop().expect("a gate");
    assert_eq!(
        (
            gate.0.as_str(),
            gate.1.contains("Which changelog do you mean?")
        ),
        ("submit", true),
        "{}",
        gate.1
    );
    assert_eq!(resume(&project, &[]).code, 4);
    assert_eq!(asked(&project).pop(), Some(gate));
    assert!(!project.root().join("../pushed").exists());
    answers(&project, &["retry"], 0, "complete");
    assert!(project.root().join("../pushed").exists());
}

#[test]
fn an_agent_cannot_answer_for_you() {
    let project = scripted(
        &json!({ "agent_may": ["run"] }),
        &json!([{ "say": "HTML or PDF?\n<promise>ESCALATE</promise>" }]),
    );
    assert_eq!(project.run().code, 4);
    let answer = format!(
        "{} resume s --answer complete --headless --trust --force",
        env!("CARGO_BIN_EXE_creel")
    );
    let turns = json!({ "turns": [{ "run": format!("{answer} 2> ../said"), "say": DONE }] });
    fs::write(project.root().join("scenario.yaml"), turns.to_string()).expect("a scenario");
    let other = project.creel(&["run", "--headless", "--trust", "--force", "-s", "other"]);
    let said = fs::read_to_string(project.root().join("../said")).unwrap_or_default();
    assert!(
        said.contains("agents and hooks cannot answer gates"),
        "{said}{}{}",
        other.out,
        other.err
    );
    assert_eq!(project.outcome().as_deref(), Some("escalated"));
}
