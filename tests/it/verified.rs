//! Complete means verified: no session ends with exit code 0 unless every check passed on the work
//! as it is at the end.

use std::{fs, process::Command};

use serde_json::{Value, json};

use crate::support::project::{Project, Ran};

/// A session with a scripted agent.
fn scripted(rest: &Value, turns: &Value) -> Project {
    let mut config = json!({ "prompt": "GOAL", "agents": { "demo": { "script": "scenario.yaml" } }, "max_iterations": 4 });
    let keys = config.as_object_mut().expect("a map");
    keys.extend(rest.as_object().expect("a map").clone());
    let scenario = json!({ "turns": turns, "otherwise": { "say": "Nothing to do." } });
    Project::with(&config.to_string()).file("scenario.yaml", &scenario.to_string())
}

fn in_git(project: Project) -> Project {
    let git = |args: &[&str]| {
        let ran = Command::new("git")
            .args(args)
            .current_dir(project.root())
            .output()
            .expect("git starts");
        assert!(ran.status.success(), "{ran:?}");
    };
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&[
        "-c",
        "user.name=t",
        "-c",
        "user.email=t@t",
        "commit",
        "-qm",
        "start",
    ]);
    project
}

const DONE: &str = "All done.\n<promise>COMPLETE</promise>";

fn done(run: &str) -> Value {
    json!([{ "run": run, "say": DONE }])
}

fn checks(project: &Project) -> Value {
    project
        .kind("session_ended")
        .pop()
        .map_or(Value::Null, |ended| ended["checks"].clone())
}

fn reason(project: &Project) -> String {
    let ended = project.kind("session_ended").pop().unwrap_or_default();
    ended["reason"].as_str().unwrap_or_default().to_owned()
}

fn runs(project: &Project, hook: &str) -> usize {
    project
        .kind("hook_finished")
        .iter()
        .filter(|done| done["hook"] == hook)
        .count()
}

#[track_caller]
fn ends(project: &Project, code: i32, outcome: &str) -> Ran {
    let ran = project.run();
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
fn a_check_that_passes_on_the_final_work_completes_the_session_and_is_named() {
    let project = scripted(
        &json!({ "checks": [{ "command": "[ -e made ]", "name": "tests" }] }),
        &done("touch made"),
    );
    let ran = ends(&project, 0, "complete");
    assert_eq!(
        reason(&project),
        "tests passed, and the agent says it is done"
    );
    assert!(
        ran.out
            .contains("tests passed, and the agent says it is done"),
        "{}",
        ran.out
    );
    assert_eq!(
        (checks(&project), runs(&project, "tests")),
        (json!([{ "name": "tests", "result": "passed" }]), 1)
    );
}

#[test]
fn without_a_check_that_counts_the_end_says_so() {
    let none = "no check is configured that counts";
    for (rest, why) in [
        (json!({}), "no checks are configured"),
        (
            json!({ "checks": [{ "command": "false", "on_failure": "ignore" }] }),
            none,
        ),
        (
            json!({ "checks": [{ "command": "false", "enabled": false }] }),
            none,
        ),
    ] {
        let project = scripted(&rest, &done("touch made"));
        ends(&project, 0, "complete");
        assert_eq!(
            reason(&project),
            format!("{why}, and the agent says it is done"),
            "{rest}"
        );
    }
}

#[test]
fn a_stop_hook_that_fails_without_blocking_ends_as_unverified_and_sends_nothing_back() {
    let rest = json!({ "hooks": { "stop": [{ "command": "echo broken >&2; exit 101", "name": "tests" }] } });
    let project = scripted(&rest, &done("touch made"));
    ends(&project, 5, "unverified");
    assert_eq!(
        checks(&project),
        json!([{ "name": "tests", "result": "failed" }])
    );
    assert_eq!(
        (reason(&project).as_str(), project.kind("prompt_sent").len()),
        ("tests failed (broken)", 1)
    );
}

#[test]
fn an_advisory_check_that_exits_with_2_costs_no_retry() {
    let check = json!({ "command": "exit 2", "name": "lint", "on_failure": "ignore" });
    let project = scripted(&json!({ "checks": ["true", check] }), &done("touch made"));
    ends(&project, 0, "complete");
    assert_eq!(
        (
            project.kind("retry_counted").len(),
            reason(&project).as_str()
        ),
        (0, "true passed, and the agent says it is done")
    );
}

#[test]
fn complete_over_a_red_rule_is_not_believed() {
    let rest = json!({ "max_iterations": 2, "stop": { "rules": [{ "name": "made", "type": "file_existence", "files": ["made"] }] } });
    let project = scripted(
        &rest,
        &json!([{ "run": "touch other", "say": DONE }, { "run": "touch made", "say": DONE }]),
    );
    ends(&project, 0, "complete");
    let prompts = project.kind("prompt_sent");
    assert!(
        prompts[1]["text"]
            .as_str()
            .expect("a text")
            .contains("[Validation failed]\n- made: "),
        "{}",
        prompts[1]
    );
    let project = scripted(
        &rest,
        &json!([{ "run": "touch other", "say": DONE }, { "say": DONE }]),
    );
    ends(&project, 3, "limit");
    assert_eq!(
        reason(&project),
        "stopped at 2 iterations: made still fails"
    );
}

#[test]
fn a_check_that_times_out_goes_to_the_agent() {
    let check = json!({ "command": "sleep 30", "name": "slow", "timeout": "300ms" });
    let project = scripted(
        &json!({ "checks": [check], "max_hook_retries": 1 }),
        &done("touch made"),
    );
    ends(&project, 5, "forced");
    assert_eq!(
        reason(&project),
        "slow still fails after 1 retry; accepted because on_limit is complete"
    );
    let feedback = &project.kind("prompt_sent")[1];
    assert!(
        feedback["text"]
            .as_str()
            .expect("a text")
            .contains("timed out"),
        "{feedback}"
    );
}

#[test]
fn a_check_whose_program_is_missing_opens_the_gate_at_once() {
    let rest = json!({ "checks": ["no-such-program-anywhere"], "hooks": { "session_start": [{ "command": "true" }] } });
    let project = scripted(&rest, &done("touch made"));
    ends(&project, 4, "escalated");
    let gate = &project.kind("gate_opened")[0];
    assert_eq!(
        (&gate["about"], &gate["hook"]),
        (&json!("broken_hook"), &json!("no-such-program-anywhere"))
    );
    assert_eq!(project.kind("prompt_sent").len(), 0, "no turn is paid for");
}

#[test]
fn a_missing_script_of_the_project_is_an_ordinary_failure() {
    let write = "printf '#!/bin/sh\\n' > check.sh; chmod +x check.sh";
    let turns = json!([{ "run": "touch a", "say": DONE }, { "run": write, "say": DONE }]);
    let project = scripted(&json!({ "checks": ["./check.sh"] }), &turns);
    ends(&project, 0, "complete");
    assert_eq!(project.kind("retry_counted").len(), 1);
}

#[test]
fn a_hook_that_changes_the_work_after_the_checks_makes_them_run_again() {
    let hooks =
        json!({ "post_iteration": [{ "command": "echo formatted >> made", "name": "format" }] });
    let rest = json!({ "checks": [{ "command": "[ -e made ]", "name": "tests" }], "hooks": hooks });
    for project in [
        scripted(&rest, &done("touch made")),
        in_git(scripted(&rest, &done("touch made"))),
    ] {
        ends(&project, 0, "complete");
        assert_eq!(
            (
                runs(&project, "tests"),
                project.kind("verification_started").len()
            ),
            (2, 1)
        );
    }
}

#[test]
fn a_hook_that_breaks_the_work_gives_the_agent_another_iteration() {
    let hooks = json!({ "post_iteration": [{ "command": "[ $CREEL_ITERATION = 2 ] || echo broken > state", "name": "format" }] });
    let rest =
        json!({ "checks": [{ "command": "grep -q good state", "name": "tests" }], "hooks": hooks });
    let good = "echo good > state";
    let project = scripted(
        &rest,
        &json!([{ "run": good, "say": DONE }, { "run": good, "say": DONE }]),
    );
    ends(&project, 0, "complete");
    let prompts = project.kind("prompt_sent");
    assert!(
        prompts[1]["text"]
            .as_str()
            .expect("a text")
            .contains("[Hook feedback]"),
        "{}",
        prompts[1]
    );
    assert_eq!(
        (&prompts[1]["reason"], &prompts[1]["iteration"]),
        (&json!("iteration"), &json!(2))
    );
}

#[test]
fn files_that_only_checks_write_are_not_work() {
    let check = json!({ "command": "date +%s%N >> report.log; mkdir -p out; date +%N > out/$$", "name": "tests" });
    let rest = json!({ "checks": [check] });
    for project in [
        scripted(&rest, &done("touch made")),
        in_git(scripted(&rest, &done("touch made"))),
    ] {
        ends(&project, 0, "complete");
        assert_eq!(
            (runs(&project, "tests"), project.kind("work_changed").len()),
            (1, 0)
        );
    }
}

#[test]
fn checks_that_change_tracked_files_run_twice_and_then_prove_nothing() {
    let once = json!({ "command": "grep -q formatted main.rs || echo formatted >> main.rs", "name": "format" });
    let project = in_git(
        scripted(&json!({ "checks": [once] }), &done("echo code > main.rs"))
            .file("main.rs", "old\n"),
    );
    ends(&project, 0, "complete");
    assert_eq!(runs(&project, "format"), 2);
    let always = json!({ "command": "date +%s%N >> main.rs", "name": "format" });
    let project = in_git(
        scripted(&json!({ "checks": [always] }), &done("echo code > main.rs"))
            .file("main.rs", "old\n"),
    );
    ends(&project, 5, "unverified");
    assert_eq!(
        reason(&project),
        "the checks change main.rs each time they run"
    );
}

#[test]
fn files_that_creel_writes_into_the_project_are_no_work() {
    let project = scripted(&json!({ "checks": ["true"] }), &done("touch made"));
    let out = fs::File::create(project.root().join("out.jsonl")).expect("a file");
    let ran = project
        .command(&["run", "--json", "--trust", "-s", "s"])
        .stdout(out)
        .status()
        .expect("creel starts");
    assert_eq!(
        (
            ran.code(),
            runs(&project, "true"),
            project.kind("work_changed").len()
        ),
        (Some(0), 1, 0)
    );
    let ended = &project.kind("turn_ended")[0];
    assert_eq!(ended["work"]["files_modified"], json!(["made"]));
}

#[test]
fn the_turn_of_a_final_delivery_is_checked_and_its_question_is_asked() {
    let hooks = json!({ "post_iteration": [{ "command": "echo warning", "name": "lint", "pipe_output": true }] });
    let rest =
        json!({ "checks": [{ "command": "grep -q good state", "name": "tests" }], "hooks": hooks });
    let turns = json!([
        { "run": "echo good > state", "say": DONE },
        { "run": "echo bad > state", "say": "I changed something." },
        { "run": "echo good > state", "say": "Repaired." },
    ]);
    let project = scripted(&rest, &turns);
    ends(&project, 0, "complete");
    let prompts: Vec<Value> = project
        .kind("prompt_sent")
        .iter()
        .map(|sent| sent["reason"].clone())
        .collect();
    assert_eq!(prompts, ["iteration", "final_delivery", "feedback"]);
    let turns = json!([
        { "run": "echo good > state", "say": DONE },
        { "say": "Should I delete /v1/users?\n<promise>ESCALATE</promise>" },
    ]);
    let project = scripted(&rest, &turns);
    ends(&project, 4, "escalated");
    assert_eq!(
        project.kind("gate_opened").pop().expect("a gate")["reason"],
        "Should I delete /v1/users?"
    );
}

#[test]
fn a_session_that_has_changed_nothing_is_not_complete_because_the_checks_are_green() {
    let turns =
        json!([{ "say": "HTML or PDF?" }, { "say": "Which format do you want, HTML or PDF?" }]);
    let project = scripted(&json!({ "checks": ["true"] }), &turns);
    ends(&project, 4, "escalated");
    assert_eq!(
        project.kind("gate_opened")[0]["reason"],
        "Which format do you want, HTML or PDF?"
    );
    assert!(
        project.kind("prompt_sent")[1]["text"]
            .as_str()
            .expect("a text")
            .starts_with("[Nothing changed]")
    );
    let project = scripted(
        &json!({ "checks": ["true"] }),
        &json!([{ "say": "Nothing is needed.\n<promise>COMPLETE</promise>" }]),
    );
    ends(&project, 0, "complete");
    assert_eq!(
        reason(&project),
        "true passed, and the agent says it is done and that nothing had to change"
    );
}

#[test]
fn open_tasks_reach_the_prompt_and_the_end_once() {
    let creel = env!("CARGO_BIN_EXE_creel");
    let add = format!("touch made; {creel} task add 'write the docs'");
    let turns = json!([{ "run": add, "say": DONE }, { "say": DONE }]);
    let project = scripted(&json!({ "checks": ["true"] }), &turns);
    ends(&project, 0, "complete");
    let prompts = project.kind("prompt_sent");
    assert_eq!(prompts.len(), 2);
    let text = prompts[1]["text"].as_str().expect("a text");
    assert!(
        text.contains("[Open tasks]") && text.contains("write the docs"),
        "{text}"
    );
    let project = scripted(
        &json!({ "checks": ["true"], "stop": { "open_tasks": "ignore" } }),
        &turns,
    );
    ends(&project, 0, "complete");
    assert_eq!(project.kind("prompt_sent").len(), 1);
}

#[test]
fn unverified_work_is_not_submitted() {
    let rest = json!({
        "hooks": { "stop": [{ "command": "exit 1", "name": "tests" }], "before_submit": [{ "command": "touch ../submitted" }] },
        "submit": true,
    });
    let project = scripted(&rest, &done("touch made"));
    ends(&project, 5, "unverified");
    assert!(!project.root().join("../submitted").exists());
}

#[test]
fn a_repair_that_breaks_the_checks_is_not_submitted() {
    let wants = "[ -e repaired ] || { echo 'add the license' >&2; exit 1; }";
    let rest = json!({
        "checks": [{ "command": "grep -q good state", "name": "tests" }],
        "hooks": { "before_submit": [
            { "command": wants, "name": "license", "pipe_output": true },
            { "command": "touch ../submitted", "name": "push" },
        ] },
        "submit": true,
    });
    let turns = json!([
        { "run": "echo good > state", "say": DONE },
        { "run": "touch repaired; echo bad > state", "say": "Repaired." },
    ]);
    let project = scripted(&rest, &turns);
    ends(&project, 4, "escalated");
    assert!(
        !project.root().join("../submitted").exists(),
        "nothing is pushed"
    );
    let gate = project.kind("gate_opened").pop().expect("a gate");
    assert_eq!(
        (&gate["about"], &gate["hook"]),
        (&json!("submit"), &json!("tests"))
    );
}

#[test]
fn a_process_that_the_agent_left_cannot_swap_the_work_after_the_checks() {
    let swap = "until [ -e ../now ]; do sleep 0.01; done; touch -r state ../time; echo evil > state; \
                touch -r ../time state; touch ../swapped";
    let leave = format!("echo good > state; nohup sh -c '{swap}' > /dev/null 2>&1 &");
    let wait = "touch ../now; until [ -e ../swapped ]; do sleep 0.01; done";
    let hooks = json!({ "post_iteration": [{ "command": wait, "name": "wait" }] });
    let check = json!({ "command": "grep -q good state", "name": "tests" });
    let rest = json!({ "checks": [check], "hooks": hooks, "max_iterations": 1 });
    for project in [
        scripted(&rest, &done(&leave)),
        in_git(scripted(&rest, &done(&leave))),
    ] {
        ends(&project, 3, "limit");
        assert_eq!(
            reason(&project),
            "stopped at 1 iteration: tests still fails"
        );
    }
}

#[test]
fn what_a_built_in_step_of_the_submit_changes_is_checked_before_the_session_is_complete() {
    let rest = json!({
        "checks": [{ "command": "grep -q good state", "name": "tests" }],
        "hooks": { "before_submit": [{ "builtin": "run_tests", "command": "echo bad > state" }] },
        "submit": true,
        "remediation_attempts": 0,
    });
    let project = scripted(&rest, &done("echo good > state"));
    ends(&project, 4, "escalated");
    assert_eq!(
        project.kind("gate_opened").pop().expect("a gate")["hook"],
        "tests"
    );
}

#[test]
fn a_file_that_a_turn_made_is_work_also_while_the_checks_run() {
    let makes = done("echo good > new.txt");
    let breaks_it =
        json!({ "checks": ["grep -q good new.txt", "echo bad > new.txt"], "max_iterations": 1 });
    let removes_it = json!({ "checks": ["test -e new.txt", "rm -f new.txt"], "max_iterations": 1 });
    for rest in [breaks_it, removes_it] {
        for project in [scripted(&rest, &makes), in_git(scripted(&rest, &makes))] {
            let ran = project.run();
            assert_ne!(ran.code, 0, "{}{}", ran.out, ran.err);
        }
    }
    // A report that both the agent and the checks write is no work of theirs: one more pass, and it
    // is complete.
    let report = json!({ "checks": [{ "command": "date +%s%N > report.xml", "name": "tests" }] });
    let project = in_git(scripted(&report, &done("echo 1 > report.xml; touch made")));
    ends(&project, 0, "complete");
    assert_eq!(runs(&project, "tests"), 2);
}

#[test]
fn a_protected_path_that_was_accepted_once_stays_accepted_and_not_passed() {
    let rest = json!({ "checks": ["true"], "protect": ["tests/**"], "max_hook_retries": 1 });
    let turns = json!([{ "run": "echo 1 > tests/a", "say": "one" }, { "say": "two" }]);
    let mut project = scripted(&rest, &turns).file("scenario.yaml", &scenario(&turns));
    fs::create_dir_all(project.root().join("tests")).expect("a folder");
    project = project.file("tests/a", "0\n");
    ends(&in_git(project), 5, "forced");
}

fn scenario(turns: &Value) -> String {
    json!({ "turns": turns, "otherwise": { "say": DONE } }).to_string()
}

#[test]
fn protected_paths_that_a_final_delivery_changed_are_accepted_only_on_your_word() {
    let rest = json!({
        "checks": ["true"],
        "protect": ["p.txt"],
        "hooks": { "post_iteration": [{ "command": "echo news", "pipe_output": true }] },
    });
    let turns =
        json!([{ "run": "touch made", "say": DONE }, { "run": "echo 1 > p.txt", "say": DONE }]);
    let begun = || {
        let project = in_git(scripted(&rest, &turns).file("p.txt", "0\n"));
        ends(&project, 4, "escalated");
        assert_eq!(
            project.kind("gate_opened").pop().expect("a gate")["about"],
            "tampered"
        );
        project
    };
    let resumed = |project: &Project, answer: &[&str]| {
        project
            .creel(&[&["resume", "s", "--headless", "--answer"], answer].concat())
            .code
    };
    let project = begun();
    assert_eq!(
        (resumed(&project, &["ignore"]), project.outcome().as_deref()),
        (5, Some("forced"))
    );
    let project = begun();
    assert_eq!(
        resumed(&project, &["send", "Undo it."]),
        4,
        "it is not undone, so creel asks again"
    );
    let project = begun();
    assert_eq!(resumed(&project, &["abort"]), 1);
    let again = project.creel(&["resume", "s", "--headless"]);
    assert_eq!(again.code, 4, "{}{}", again.out, again.err);
}

#[test]
fn the_work_is_all_of_the_repository_also_if_the_project_is_a_part_of_it() {
    let breaks_it = json!({
        "checks": ["grep -q good ../f.txt"],
        "hooks": { "post_iteration": [{ "command": "echo bad > ../f.txt" }] },
        "max_iterations": 1,
    });
    for (rest, code) in [
        (breaks_it, 3),
        (json!({ "checks": ["grep -q good ../f.txt"] }), 0),
    ] {
        let project = scripted(&rest, &done("echo good > ../f.txt"));
        fs::write(project.root().join("../f.txt"), "bad\n").expect("a file");
        let git = |args: &[&str]| {
            let ran = Command::new("git")
                .args(args)
                .current_dir(project.root().join(".."))
                .output()
                .expect("git");
            assert!(ran.status.success(), "{ran:?}");
        };
        git(&["init", "-q"]);
        git(&["add", "f.txt"]);
        git(&[
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@t",
            "commit",
            "-qm",
            "start",
        ]);
        let ran = project.run();
        assert_eq!(ran.code, code, "{}{}", ran.out, ran.err);
    }
}

#[test]
fn a_change_that_git_is_set_to_ignore_is_work() {
    for how in ["--assume-unchanged", "--skip-worktree"] {
        let rest = json!({
            "checks": ["grep -q good f.txt"],
            "hooks": { "post_iteration": [{ "command": "echo bad > f.txt" }] },
            "max_iterations": 1,
        });
        let hide = format!("echo good > f.txt; git update-index {how} f.txt");
        let project = scripted(&rest, &done(&hide));
        fs::write(project.root().join("f.txt"), "bad\n").expect("a file");
        let project = in_git(project);
        let ran = project.run();
        assert_eq!(ran.code, 3, "{how}: {}{}", ran.out, ran.err);
    }
}

#[test]
fn a_submit_that_finds_a_red_check_ends_the_session_as_not_verified() {
    let project = in_git(scripted(
        &json!({ "checks": ["grep -q good f.txt"] }),
        &done("echo good > f.txt"),
    ));
    ends(&project, 0, "complete");
    project.write("f.txt", "bad\n");
    let ran = project.creel(&["submit", "s"]);
    assert_eq!(ran.code, 4, "{}{}", ran.out, ran.err);
    let end = project.kind("session_ended").pop().expect("an end");
    assert_eq!(
        (&end["outcome"], &end["checks"][0]["result"]),
        (&"unverified".into(), &"failed".into()),
        "{end}"
    );
    assert!(!ran.out.contains("Session complete"), "{}", ran.out);
}
