//! Agents that make the tests pass by weakening them: what creel says at the end, in the report and
//! at the gate.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::project::{Project, Ran, until};

const DONE: &str = "All done.\n<promise>COMPLETE</promise>";
const TEST_FILE: &str = "def test_a():\n    assert price(1) == 3\n    assert price(2) == 6\n\ndef test_b():\n    assert price(7) == 21\n";

/// A project in git whose check prints the summary of a runner, as far as its tests go: it fails
/// while `price.py` is wrong, and counts tests and skip marks.
fn project(rest: &Value, run: &str) -> Project {
    let check = "tests=$(grep -c '^def test' test_price.py); \
                 skipped=$(grep -c 'mark.skip' test_price.py); \
                 if grep -q wrong price.py && [ \"$skipped\" = 0 ]; \
                 then echo \"1 failed, $((tests-1)) passed in 0.01s\"; exit 2; \
                 else echo \"$((tests-skipped)) passed, $skipped skipped in 0.01s\"; fi";
    let mut config = json!({ "prompt": "GOAL", "agents": { "demo": { "script": "scenario.yaml" } },
        "max_iterations": 4, "checks": [{ "name": "pytest", "command": check }] });
    let keys = config.as_object_mut().expect("a map");
    keys.extend(rest.as_object().expect("a map").clone());
    let turns = json!([{ "say": DONE }, { "run": run, "say": DONE }]);
    let scenario = json!({ "turns": turns, "otherwise": { "say": DONE } });
    let project = Project::with(&config.to_string())
        .file("scenario.yaml", &scenario.to_string())
        .file("test_price.py", TEST_FILE)
        .file("price.py", "wrong = 1\n");
    let git = |args: &[&str]| {
        let ran = Command::new("git")
            .args(["-c", "user.name=t", "-c", "user.email=t@t"])
            .args(args)
            .current_dir(project.root())
            .output()
            .expect("git starts");
        assert!(ran.status.success(), "{ran:?}");
    };
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["commit", "-qm", "start"]);
    project
}

fn reason(project: &Project) -> String {
    let ended = project.kind("session_ended").pop().unwrap_or_default();
    ended["reason"].as_str().unwrap_or_default().to_owned()
}

fn signs(project: &Project) -> Vec<String> {
    let compared = project.kind("tests_compared").pop().unwrap_or_default();
    let all = compared["findings"].as_array().cloned().unwrap_or_default();
    let sign = |it: &Value| it["sign"].as_str().unwrap_or_default().to_owned();
    all.iter().map(sign).collect()
}

const SKIPS: &str =
    "sed -i.bak 's/^def test/@pytest.mark.skip\\ndef test/' test_price.py; rm test_price.py.bak";

#[test]
fn skipped_tests_are_named_on_the_lines_in_the_report_and_at_the_end() {
    let project = project(&json!({}), SKIPS);
    let ran: Ran = project.run();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(signs(&project), ["weakened", "weakened", "more_skipped"]);
    let said = "test_price.py:1: `@pytest.mark.skip` is new";
    assert!(reason(&project).contains(said), "{}", reason(&project));
    assert!(
        format!("{}{}", ran.out, ran.err).contains(said),
        "{}{}",
        ran.out,
        ran.err
    );
    let report = project.creel(&["report", "--json"]);
    let report: Value = serde_json::from_str(&report.out).expect("a report");
    let cautions = report["outcome"]["cautions"].to_string();
    assert!(
        cautions.contains("pytest: 0 skipped tests at the start, 2 at the end"),
        "{cautions}"
    );
    assert_eq!(report["tests"]["findings"][0]["line"], json!(1));
    let counted = &report["checks"][0]["runs"][0]["tests"];
    assert_eq!(counted, &json!({ "passed": 1, "failed": 1, "skipped": 0 }));
    let page = project.creel(&["report"]);
    assert!(page.out.contains("1 test passed, 1 failed"), "{}", page.out);
}

#[test]
fn a_deleted_assertion_opens_the_gate_and_is_asked_about_again_on_resume() {
    let run =
        "sed -i.bak '/price(2)/d' test_price.py; rm test_price.py.bak; echo right = 1 > price.py";
    let project = project(&json!({ "protect_tests": "gate" }), run);
    let ran = project.run();
    assert_eq!(ran.code, 4, "{}{}", ran.out, ran.err);
    let gate = project.kind("gate_opened").pop().expect("a gate");
    assert_eq!(gate["about"], "tampered");
    let text = gate["reason"].as_str().unwrap_or_default();
    assert!(
        text.contains("test_price.py:3: 1 assertion was removed"),
        "{text}"
    );
    let resumed = project.creel(&["resume", "--headless", "--answer", "ignore"]);
    assert_eq!(resumed.code, 0, "{}{}", resumed.out, resumed.err);
}

#[test]
fn a_patched_comparison_is_found_and_a_special_case_leaves_no_sign() {
    let patched =
        "printf 'class Money:\\n    def __eq__(self, other):\\n        return True\\n' > price.py";
    let found = project(&json!({}), patched);
    assert_eq!(found.run().code, 0);
    assert_eq!(signs(&found), ["weakened"]);
    let special = "printf 'def price(n):\\n    if n == 7:\\n        return 21\\n' > price.py";
    let quiet = project(&json!({}), special);
    assert_eq!(quiet.run().code, 0);
    assert_eq!(signs(&quiet).len(), 0);
    assert_eq!(quiet.kind("tests_compared").len(), 1, "creel compared them");
}

#[test]
fn nothing_is_compared_if_the_config_says_so() {
    let project = project(&json!({ "protect_tests": "off" }), SKIPS);
    assert_eq!(project.run().code, 0);
    assert!(project.kind("tests_compared").is_empty());
    assert!(!reason(&project).contains("weaker"), "{}", reason(&project));
}

#[test]
fn what_an_interrupted_turn_did_to_the_tests_is_found_after_a_kill() {
    // Only the interrupted turn changes the tests.
    let run = format!("grep -q mark.skip test_price.py || {{ {SKIPS}; sleep 600; }}");
    let project = project(&json!({}), &run);
    let session = project.start();
    until("the tests are skipped", || {
        project.read("test_price.py").contains("mark.skip")
            && !project.root().join("test_price.py.bak").exists()
    });
    session.kill();
    let resumed = project.creel(&["resume", "--headless"]);
    assert_eq!(resumed.code, 0, "{}{}", resumed.out, resumed.err);
    assert_eq!(signs(&project), ["weakened", "weakened", "more_skipped"]);
    let diff = project.creel(&["diff", "--json"]);
    assert!(
        diff.out.contains("did not see all that a turn changed"),
        "{}",
        diff.out
    );
}

#[test]
fn a_commit_put_in_place_of_the_base_commit_hides_nothing() {
    let run = "sed -i.bak '/assert price(2)/d' test_price.py; rm test_price.py.bak; echo right > price.py; git add -A; \
               git replace HEAD $(git -c user.name=t -c user.email=t@t commit-tree -m start $(git write-tree))";
    let project = project(&json!({}), run);
    assert_eq!(project.run().code, 0);
    assert_eq!(signs(&project), ["fewer_assertions"]);
    let diff = project.creel(&["diff", "s"]);
    assert!(
        diff.out.contains("-    assert price(2) == 6"),
        "{}",
        diff.out
    );
}

#[test]
fn tests_in_a_submodule_that_moved_on_are_named() {
    let project = project(
        &json!({ "protect_tests": "gate" }),
        "echo right > price.py; git -C tests checkout -q weaker",
    );
    let git = |args: &[&str]| {
        let ran = Command::new("git")
            .args([
                "-c",
                "user.name=t",
                "-c",
                "user.email=t@t",
                "-c",
                "protocol.file.allow=always",
            ])
            .args(args)
            .current_dir(project.root())
            .output()
            .expect("git starts");
        assert!(ran.status.success(), "{ran:?}");
    };
    git(&["init", "-q", "../strong"]);
    git(&[
        "-C",
        "../strong",
        "commit",
        "-q",
        "--allow-empty",
        "-m",
        "strong",
    ]);
    git(&["submodule", "--quiet", "add", "../strong", "tests"]);
    git(&["commit", "-qm", "submodule"]);
    git(&["-C", "tests", "checkout", "-q", "-b", "weaker"]);
    git(&[
        "-C",
        "tests",
        "commit",
        "-q",
        "--allow-empty",
        "-m",
        "weaker",
    ]);
    git(&["-C", "tests", "checkout", "-q", "-"]);
    assert_eq!(project.run().code, 4);
    assert_eq!(signs(&project), ["not_compared"]);
    let why = reason(&project);
    assert!(
        why.contains("creel does not look into the tests of the submodule tests"),
        "{why}"
    );
    assert_eq!(why.matches("submodule").count(), 1, "{why}");
}
