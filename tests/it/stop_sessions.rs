//! Stop decisions in whole sessions with the real program: the input of a command, what is
//! recorded, and the result.

use serde_json::{Value, json};

use crate::support::project::Project;

/// A config with a scripted agent.
fn scripted(rest: &str, turns: &str) -> Project {
    Project::with(&format!(
        "prompt: GOAL\nagents: {{ demo: {{ script: scenario.yaml }} }}\n{rest}"
    ))
    .file("scenario.yaml", &format!("turns:\n{turns}"))
}

const WORK: &str = "  - run: 'echo 1 > work.txt'\n    say: First step.\n  - run: 'touch done'\n    say: Second step.\n";

#[test]
fn a_command_gets_everything_that_it_needs_to_judge() {
    let judge = "cat > context-$CREEL_ITERATION.json; test $CREEL_ITERATION = 2 && echo '{\"action\":\"complete\",\"reason\":\"enough\"}' || echo '{\"action\":\"continue\",\"reason\":\"more\",\"nextPrompt\":\"Go on.\",\"checkpointData\":{\"executionPhase\":\"testing\"}}'";
    let rest = json!({
        "stop": {
            "hooks": [{ "command": judge, "name": "judge" }],
            "rules": [{ "name": "is done", "type": "file_existence", "files": ["done"] }],
        }
    });
    let project = scripted(
        &rest.to_string()[1..rest.to_string().len() - 1].replacen("\"stop\":", "stop: ", 1),
        WORK,
    );
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let told: Value = serde_json::from_str(&project.read("context-1.json")).expect("JSON");
    assert_eq!(told["taskId"], "s");
    assert_eq!(told["iteration"], 1);
    assert_eq!(told["executionPhase"], Value::Null);
    assert_eq!(told["filesModified"], json!(["work.txt"]));
    assert_eq!(told["files_modified"], json!(["work.txt"]));
    assert_eq!(told["validationResults"][0]["ruleName"], "is done");
    assert_eq!(told["validationResults"][0]["passed"], false);
    assert_eq!(told["completionPromises"], json!([]));
    assert_eq!(told["agentOutput"], "First step.");
    assert_eq!(told["hook_event_name"], "stop_decision");
    let later: Value = serde_json::from_str(&project.read("context-2.json")).expect("JSON");
    assert_eq!(
        (
            &later["executionPhase"],
            &later["validationResults"][0]["passed"]
        ),
        (&json!("testing"), &json!(true))
    );
    let decided = project.kind("stop_decided");
    assert_eq!(decided[0]["action"], "continue");
    assert_eq!(decided[0]["next_prompt"], "Go on.");
    assert_eq!(
        (&decided[1]["hook"], &decided[1]["reason"]),
        (&json!("judge"), &json!("enough"))
    );
    assert_eq!(project.prompts()[1].1, "Go on.\n\nGOAL");
    let kept = &project.kind("checkpoint")[0];
    assert_eq!(
        (&kept["task"], &kept["data"]),
        (&json!("s"), &json!({"executionPhase": "testing"}))
    );
    let listed = project.creel(&["checkpoint", "list", "-s", "s", "--json"]);
    assert_eq!(
        serde_json::from_str::<Value>(&listed.out).expect("JSON")[0]["checkpoint"],
        1
    );
    assert!(
        project
            .creel(&["checkpoint", "show", "1", "-s", "s"])
            .out
            .contains("executionPhase")
    );
    assert_eq!(
        project.creel(&["checkpoint", "show", "7", "-s", "s"]).code,
        2
    );
}

#[test]
fn a_checkpoint_records_the_state_of_the_repository() {
    let commit =
        "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m first && touch more";
    let kept = "stop: { hooks: [{ action: complete, reason: kept, checkpoint: { a: 1 } }] }\n";
    let project = scripted(kept, &format!("  - run: '{commit}'\n    say: Committed.\n"));
    let made = std::process::Command::new("git")
        .args(["init", "-q", "."])
        .current_dir(project.root())
        .status();
    assert!(made.expect("git is there").success());
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let kept = &project.kind("checkpoint")[0];
    assert_eq!(kept["commit"].as_str().map(str::len), Some(40), "{kept}");
    assert!(
        kept["dirty"]
            .as_array()
            .is_some_and(|dirty| dirty.contains(&json!("more"))),
        "{kept}"
    );
}

#[test]
fn rules_are_checked_in_parallel_and_their_failures_are_reported() {
    // Each waits for the other: run one after the other, they would never end.
    let meet =
        |own: &str, other: &str| format!("touch {own}; until test -e {other}; do sleep 0.01; done");
    let rest = format!(
        "stop:\n  rules:\n    - {{ name: one, type: command, command: '{}' }}\n    - {{ name: two, type: command, command: '{}; exit 3' }}\nmax_iterations: 2\n",
        meet("a", "b"),
        meet("b", "a"),
    );
    let project = scripted(&rest, WORK);
    let ran = project.run();
    assert_eq!(ran.code, 3, "{}{}", ran.out, ran.err);
    let mut checked: Vec<_> = project.kind("rule_checked");
    checked.retain(|rule| rule["iteration"] == 1);
    checked.sort_by_key(|rule| rule["rule"].to_string());
    assert_eq!(
        (&checked[0]["passed"], &checked[1]["passed"]),
        (&json!(true), &json!(false))
    );
    assert!(
        checked[1]["message"]
            .as_str()
            .is_some_and(|message| message.contains("exit 3")),
        "{}",
        checked[1]
    );
    let (_, prompt) = &project.prompts()[1];
    assert!(
        prompt.starts_with("[Validation failed]\n- two: "),
        "{prompt}"
    );
    assert!(
        ran.out.contains("☑ Rule one") && ran.out.contains("☐ Rule two"),
        "{}",
        ran.out
    );
}

#[test]
fn guards_stop_a_session_without_progress_and_say_what_they_saw() {
    let same = "  - say: Still on it.\n".repeat(9);
    let project = scripted("max_iterations: 9\nstop: { no_progress: 3 }\n", &same);
    assert_eq!(project.run().code, 4);
    let decided = project.kind("stop_decided");
    let last = decided.last().expect("a decision");
    assert_eq!(
        (decided.len(), &last["hook"], &last["action"]),
        (3, &json!("no_progress"), &json!("escalate"))
    );
    let project = scripted(
        "max_iterations: 9\n",
        &steps(|n| format!("echo {} > same.txt", n % 2)),
    );
    assert_eq!(project.run().code, 4);
    let decided = project.kind("stop_decided");
    assert_eq!(
        (decided.len(), &decided[6]["hook"]),
        (7, &json!("thrashing"))
    );
    assert_eq!(
        decided[6]["reason"],
        "`same.txt` returned to content that it had before in 5 iterations in a row"
    );
    // "01" begins with "0".
    let project = scripted(
        "max_iterations: 9\n",
        &steps(|n| format!("printf {} > same.txt", ["0", "01"][n as usize % 2])),
    );
    assert_eq!(project.run().code, 4);
    let decided = project.kind("stop_decided");
    assert_eq!(
        (decided.len(), &decided[6]["hook"]),
        (7, &json!("thrashing"))
    );
    let failing = "  - say: One.\n  - say: Two.\n  - say: Three.\n  - say: Four.\n";
    let rules = "stop: { rules: [{ name: tests, type: command, command: 'false' }] }\n";
    let project = scripted(rules, failing);
    assert_eq!(project.run().code, 4);
    let gate = &project.kind("gate_opened")[0];
    assert_eq!(
        (&gate["about"], &gate["reason"]),
        (
            &json!("escalation"),
            &json!("rules failed in 3 iterations in a row; now: `tests`")
        )
    );
    assert_eq!(
        gate["choices"],
        json!(["continue", "message", "complete", "abort"])
    );
}

/// Eight turns, each with its own command and message.
fn steps(command: impl Fn(u32) -> String) -> String {
    (1..9)
        .map(|n| format!("  - run: '{}'\n    say: Step {n}.\n", command(n)))
        .collect()
}

/// Runs git in a project, independent of the user's settings.
const GIT: &str =
    "git -c user.name=a -c user.email=a@b -c commit.gpgsign=false -c core.hooksPath=/dev/null";

/// A scripted session in a repository.
fn in_repository(rest: &str, turns: &str) -> Project {
    let project = scripted(rest, turns);
    let init = std::process::Command::new("git")
        .args(["init", "-q", "."])
        .current_dir(project.root())
        .status();
    assert!(init.expect("git is installed").success());
    project
}

#[test]
fn a_log_that_grows_with_every_iteration_is_no_thrashing() {
    let story =
        |n: u32| format!("echo story {n} > story-{n}.txt; echo story {n} done >> progress.txt");
    let committed = |n: u32| {
        format!(
            "{}; {GIT} add story-{n}.txt progress.txt && {GIT} commit -qm {n}",
            story(n)
        )
    };
    let by_hook = format!(
        "hooks:\n  post_iteration:\n    - command: '{GIT} add story.txt && {GIT} commit -qm story'\n"
    );
    let failing =
        "stop: { circuit_breaker: 0, rules: [{ name: tests, type: command, command: 'false' }] }\n";
    let limit = "max_iterations: 8\n";
    for project in [
        in_repository(limit, &steps(committed)),
        in_repository(limit, &steps(story)),
        scripted(limit, &steps(story)),
        in_repository(&format!("{limit}{failing}"), &steps(committed)),
        scripted(
            &format!("{limit}{failing}"),
            &steps(|n| format!("echo story {n} >> progress.txt")),
        ),
        // The same story file, rewritten by each iteration and committed by a hook.
        in_repository(
            &format!("{limit}{failing}{by_hook}"),
            &steps(|n| format!("echo {n} > story.txt")),
        ),
    ] {
        let ran = project.run();
        assert_eq!(ran.code, 3, "{}{}", ran.out, ran.err);
        assert_eq!(project.kind("stop_decided").len(), 8);
        assert_eq!(project.kind("gate_opened"), Vec::<Value>::new());
    }
}

#[test]
fn rewriting_a_file_while_a_rule_fails_in_the_same_way_is_thrashing_unless_git_ignores_the_file() {
    let rest = "max_iterations: 8\nstop: { circuit_breaker: 0, rules: [{ name: tests, type: command, command: 'echo broken; exit 1' }] }\n";
    let project = in_repository(rest, &steps(|n| format!("echo {n} > same.txt")));
    assert_eq!(project.run().code, 4);
    let decided = project.kind("stop_decided");
    let reason = decided[4]["reason"].as_str().expect("a reason");
    assert_eq!(
        (decided.len(), &decided[4]["hook"]),
        (5, &json!("thrashing"))
    );
    assert!(
        reason.starts_with(
            "the agent rewrote `same.txt` in 5 iterations in a row, and `tests` still fails"
        ),
        "{reason}"
    );
    let project = in_repository(rest, &steps(|n| format!("echo {n} > same.txt")))
        .file(".gitignore", "same.txt\n");
    assert_eq!(project.run().code, 3);
}

#[test]
fn statistics_show_the_decisions_and_the_rules_that_passed() {
    let rules = "stop: { rules: [{ name: tests, type: command, command: 'test -e done' }] }\n";
    let project = scripted(rules, WORK);
    assert_eq!(project.run().code, 0);
    let stats = project.creel(&["hooks", "stats", "-s", "s"]);
    assert!(stats.out.contains("rule tests"), "{}", stats.out);
    assert!(
        stats.out.contains(
            "COMPLETE  CONTINUE  ESCALATE  STOP HOOK\n       1         1         0  default\n"
        ),
        "{}",
        stats.out
    );
    let all = project.creel(&["hooks", "stats", "-s", "s", "--json"]);
    let all: Vec<Value> = serde_json::from_str(&all.out).expect("JSON");
    let default = all
        .iter()
        .find(|stats| stats["hook"] == "default")
        .expect("it decided");
    assert_eq!(
        default["decisions"],
        json!({"complete": 1, "continue": 1, "escalate": 0})
    );
    let rule = all
        .iter()
        .find(|stats| stats["hook"] == "rule tests")
        .expect("it was checked");
    assert_eq!((&rule["runs"], &rule["passed"]), (&json!(2), &json!(1)));
}

#[test]
fn init_templates_write_configs_with_stop_decisions() {
    for (template, has) in [
        ("tdd", "Fix failing tests and run again"),
        ("security", "vulns_fixed"),
        ("checkpoint", "Halfway checkpoint"),
    ] {
        let project = Project::new().file("Cargo.toml", "");
        assert_eq!(project.creel(&["init", "--template", template]).code, 0);
        assert!(project.read("creel.yaml").contains(has));
        let checked = project.creel(&["check"]);
        assert_eq!(
            checked.code,
            0,
            "{template}: {}{}\n{}",
            checked.out,
            checked.err,
            project.read("creel.yaml")
        );
        assert!(checked.out.contains("stop decision\n"), "{}", checked.out);
    }
    assert_eq!(
        Project::new().creel(&["init", "--template", "magic"]).code,
        2
    );
}

#[test]
fn stop_hooks_are_listed_and_switched_like_others() {
    let rest = "stop: { hooks: [promise, { all: [validation] , name: both }] }\n";
    let project = scripted(rest, WORK);
    let listed = project.creel(&["hooks", "list", "--json"]);
    let listed: Vec<Value> = serde_json::from_str(&listed.out).expect("JSON");
    let names: Vec<_> = listed
        .iter()
        .map(|hook| (hook["point"].clone(), hook["hook"].clone()))
        .collect();
    assert_eq!(
        names,
        [
            (json!("stop_decision"), json!("promise")),
            (json!("stop_decision"), json!("both"))
        ]
    );
}
