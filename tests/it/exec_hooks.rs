//! Hooks that run a program without a shell: `exec: [program, arguments]`.

use crate::support::project::Project;

/// Writes its arguments down, each between brackets.
const ARGUMENTS: &str = "printf '[%s]' \"$@\" > arguments\n";
const NASTY: &str = "it's \"$(touch pwned)\" `touch pwned` ; {{session}} \\ * %s";

fn project(hooks: &str, turns: &str) -> Project {
    let agent = "prompt: GOAL\nagents: { demo: { script: scenario.yaml } }\n";
    Project::with(&format!("{agent}{hooks}"))
        .file("arguments.sh", ARGUMENTS)
        .file(
            "scenario.yaml",
            &format!("turns:\n{turns}otherwise: {{ say: '<promise>COMPLETE</promise>' }}\n"),
        )
}

#[test]
fn each_argument_reaches_the_program_as_it_is_written() {
    let hooks = "hooks: { stop: [{ exec: [sh, arguments.sh, 'a b', '$HOME; touch pwned', '', '{{session}}-{{attempt}}', '*'] }] }\n";
    let project = project(hooks, "  - say: <promise>COMPLETE</promise>\n");
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(
        project.read("arguments"),
        "[a b][$HOME; touch pwned][][s-0][*]"
    );
    assert!(!project.root().join("pwned").exists());
    let finished = project.kind("hook_finished");
    assert_eq!(
        [&finished[0]["hook"], &finished[0]["verdict"]],
        [
            "sh arguments.sh 'a b' '$HOME; touch pwned' '' '{{session}}-{{attempt}}' '*'",
            "pass"
        ]
    );
    let plan = &project.kind("session_started")[0]["plan"]["hooks"]["stop"][0];
    assert_eq!(plan["action"]["exec"][1], "arguments.sh");
}

#[test]
fn a_value_of_an_agent_is_one_argument_whatever_it_holds() {
    let hooks = "hooks: { on_error: [{ name: tell, exec: [sh, arguments.sh, '{{error}}', 'error: {{error}}'] }] }\n";
    let fails = serde_json::json!([{ "fail": NASTY }]);
    let project = project(hooks, &format!("  - {}\n", fails[0]));
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}", ran.err);
    let error = project.kind("turn_failed")[0]["error"]
        .as_str()
        .expect("a text")
        .to_owned();
    assert!(error.contains(NASTY), "{error}");
    assert_eq!(
        project.read("arguments"),
        format!("[{error}][error: {error}]")
    );
    assert!(!project.root().join("pwned").exists());
}

#[test]
fn a_hook_without_a_shell_can_block_and_gets_its_facts_on_standard_input() {
    let hooks = "hooks: { stop: [{ exec: [sh, check.sh], retries: 1 }] }\n";
    let project = project(hooks, "  - say: one\n")
        .file("check.sh", "cat > input; [ \"$CREEL_ATTEMPT\" = 1 ] && exit 0; echo 'write a test first' >&2; exit 2\n");
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(
        project.prompts()[1].1,
        "[Hook feedback]: check `sh check.sh` failed, exit 2\nwrite a test first"
    );
    let input: serde_json::Value = serde_json::from_str(&project.read("input")).expect("JSON");
    assert_eq!(
        [&input["hook"], &input["hook_event_name"]],
        ["sh check.sh", "stop"]
    );
}

#[test]
fn a_program_that_is_missing_is_found_by_check_and_breaks_only_its_hook() {
    let hooks = "hooks: { post_iteration: [{ exec: [no-such-program, 'ls; ls'] }, { exec: [./gone.sh] }] }\n";
    let project = project(hooks, "  - say: <promise>COMPLETE</promise>\n");
    let checked = project.creel(&["check"]);
    for part in [
        "the post_iteration hook: `no-such-program` is not on PATH\n",
        "the post_iteration hook: `./gone.sh` does not exist\n",
        "no-such-program 'ls; ls'",
    ] {
        assert!(checked.out.contains(part), "no {part} in\n{}", checked.out);
    }
    let asked = project.creel(&["run", "--headless", "-s", "s"]);
    assert!(
        asked
            .err
            .contains("post_iteration: no-such-program 'ls; ls'"),
        "{}",
        asked.err
    );
    assert_eq!(project.run().code, 0);
    let finished = project.kind("hook_finished");
    let ends: Vec<&serde_json::Value> = finished.iter().map(|run| &run["end"]).collect();
    let expected = [
        "`no-such-program` is not on PATH",
        "the program `./gone.sh` does not exist",
    ];
    assert_eq!(
        ends,
        expected
            .map(|why| serde_json::json!({ "spawn_failed": why }))
            .iter()
            .collect::<Vec<_>>()
    );
}
