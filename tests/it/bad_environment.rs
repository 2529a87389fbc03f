//! Bad input and a bad environment: a clear message, and nothing lost.

use std::fs;

use crate::support::project::{Project, Ran};

fn with_agent(command: &str, rest: &str) -> Project {
    let agents = serde_json::json!({ "a": { "command": command } });
    Project::with(&format!(
        "prompt: GOAL\nmax_iterations: 1\nmax_consecutive_errors: 1\nagents: {agents}\n{rest}\n"
    ))
}

#[test]
fn an_agent_that_creel_cannot_check_beforehand_fails_its_turn_with_a_reason() {
    let project = with_agent("if true; then no-such-agent-here; fi", "");
    let ran = project.run();
    assert_eq!(ran.code, 1);
    let error = project.kind("turn_failed")[0]["error"].to_string();
    assert!(
        error.contains("no-such-agent-here") && error.contains("not"),
        "{error}"
    );
    assert!(ran.out.contains("no-such-agent-here"), "{}", ran.out);
}

#[test]
fn a_known_agent_that_is_not_on_the_path_is_reported_before_anything_runs() {
    let project = Project::with("prompt: GOAL\nagent: claude\n");
    let mut command = project.command(&["run", "--headless", "--trust"]);
    let ran = Ran::of(
        &command
            .env("PATH", "/nowhere")
            .output()
            .expect("creel starts"),
    );
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains("claude") && ran.err.contains("creel demo"),
        "{}",
        ran.err
    );
    assert!(!project.root().join(".creel").exists());
}

#[test]
fn a_failing_agent_is_reported_with_the_end_of_its_standard_error() {
    let project = with_agent("echo partial; echo 'no config' >&2; exit 3", "");
    assert_eq!(project.run().code, 1);
    let error = project.kind("turn_failed")[0]["error"].to_string();
    assert!(
        error.contains("no config") && error.contains('3'),
        "{error}"
    );
    assert_eq!(project.kind("agent_said")[0]["text"], "partial\n");
}

#[test]
fn an_agents_error_is_shown_before_the_noise_on_its_standard_error() {
    let noise = "echo 'npm warn deprecated glob@7' >&2; echo 'loading 3 plugins' >&2";
    let wrong = "Error: the model `tiny` does not exist";
    for said in [
        format!("echo '{wrong}'; {noise}"),
        format!("{noise}; echo '{wrong}' >&2; echo bye >&2"),
    ] {
        let project = with_agent(&format!("{said}; exit 1"), "");
        assert_eq!(project.run().code, 1);
        let error = project.kind("turn_failed")[0]["error"]
            .as_str()
            .expect("a text")
            .to_owned();
        let first = error.lines().next().unwrap_or_default();
        assert_eq!(
            first,
            format!("the agent ended with exit 1: {wrong}"),
            "{error}"
        );
    }
}

#[test]
fn a_turn_timeout_names_the_errors_of_the_server_that_the_agent_waited_for() {
    // Long enough for the shell to print, also on a busy machine.
    let waits = "echo 'request failed: 503 Service Unavailable, retrying' >&2; sleep 600";
    let project = with_agent(waits, "turn_timeout: 4s");
    assert_eq!(project.run().code, 1);
    let error = project.kind("turn_failed")[0]["error"]
        .as_str()
        .expect("a text")
        .to_owned();
    assert!(
        error.contains("server reported errors") && error.contains("503 Service Unavailable"),
        "{error}"
    );
    assert!(error.contains("turn_timeout"), "{error}");
}

#[test]
fn agent_output_of_four_times_the_limit_is_bounded_and_its_promise_counts() {
    let project = with_agent(
        "head -c 256000000 /dev/zero | tr '\\0' 'x'; echo; echo '<promise>COMPLETE</promise>'",
        "",
    );
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(fs::metadata(project.journal()).expect("a journal").len() < 4 << 20);
    let whole = project.root().join(".creel/sessions/s/outputs/turn-1.log");
    assert!(fs::metadata(whole).expect("the answer is on disk").len() <= 64 << 20);
}

#[test]
fn invalid_utf8_from_an_agent_is_accepted() {
    let project = with_agent(r"printf 'a\377b <promise>COMPLETE</promise>'", "");
    assert_eq!(project.run().code, 0);
    assert_eq!(
        project.kind("agent_said")[0]["text"],
        "a\u{fffd}b <promise>COMPLETE</promise>"
    );
}

#[test]
fn an_agent_that_never_ends_is_ended_by_the_turn_timeout() {
    let project = with_agent("echo thinking; sleep 600", "turn_timeout: 3s");
    assert_eq!(project.run().code, 1);
    let error = project.kind("turn_failed")[0]["error"].to_string();
    assert!(error.contains("turn_timeout"), "{error}");
    assert_eq!(project.kind("agent_said")[0]["text"], "thinking\n");
}

#[test]
fn a_full_disk_stops_the_session_with_a_message_and_keeps_its_records() {
    let project = with_agent(
        "head -c 3000 /dev/zero | tr '\\0' 'x'",
        "stop: { no_progress: 0 }\n",
    )
    .file(
        "limited.sh",
        // Files cannot grow beyond 16 blocks of 512 bytes: every write past that fails.
        "trap '' XFSZ; ulimit -f 16; exec \"$@\"",
    );
    project.creel(&["trust"]);
    let mut shell = std::process::Command::new("sh");
    let creel = project.command(&[]);
    for (name, value) in creel.get_envs() {
        if let Some(value) = value {
            shell.env(name, value);
        }
    }
    shell.current_dir(project.root()).args([
        "limited.sh",
        env!("CARGO_BIN_EXE_creel"),
        "run",
        "--headless",
    ]);
    shell
        .args(["-s", "s", "-n", "50"])
        .stdin(std::process::Stdio::null());
    let ran = Ran::of(&shell.output().expect("it starts"));
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(
        ran.err.contains("cannot write") && ran.err.contains("free space"),
        "{}",
        ran.err
    );
    let records = project.records();
    assert!(!records.is_empty(), "what was recorded is whole");
    assert_eq!(project.outcome(), None);
    assert_eq!(
        project
            .creel(&["resume", "s", "--headless", "-n", "50"])
            .code,
        3,
        "with space again, it goes on"
    );
}

#[test]
fn a_read_only_project_is_reported_before_anything_runs() {
    let project = with_agent("touch ran", "").file(".creel", "a file where the folder should be");
    let ran = project.run();
    assert_eq!(ran.code, 1);
    assert!(
        ran.err.contains(".creel") && ran.err.contains("writable"),
        "{}",
        ran.err
    );
    assert!(!project.root().join("ran").exists());
}

#[test]
fn a_hook_that_deletes_the_project_ends_the_session_and_the_journal_is_saved() {
    let project = with_agent(
        "echo hi",
        "hooks: { pre_iteration: [{ command: 'rm -rf \"$PWD\"' }] }",
    );
    let ran = project.run();
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("a copy is in"), "{}", ran.err);
    let rescued: Vec<_> = fs::read_dir(project.state_dir().join("creel/rescued"))
        .expect("a folder")
        .collect();
    let text = fs::read_to_string(rescued[0].as_ref().expect("a file").path()).expect("a journal");
    assert!(
        text.contains("session_ended") && text.contains("was deleted"),
        "{text}"
    );
}

#[test]
fn all_mistakes_of_a_config_are_reported_before_anything_runs() {
    let project = Project::with(
        "agnet: x\nhooks:\n  post_iterations: []\n  stop:\n    - command: ''\n    - command: 'echo {{eror}}'\n      timeout: -1\n",
    );
    let ran = project.creel(&["run", "--headless", "--trust", "GOAL"]);
    assert_eq!(ran.code, 2);
    for part in [
        "creel.yaml:1:1",
        "did you mean `agent`",
        "creel.yaml:3:3",
        "did you mean `post_iteration`",
        "creel.yaml:5:16",
        "creel.yaml:6:",
        "creel.yaml:7:16",
        "5 mistakes",
    ] {
        assert!(ran.err.contains(part), "no {part} in:\n{}", ran.err);
    }
    assert!(ran.out.is_empty());
    assert_eq!(project.creel(&["check"]).code, 2);
}

#[test]
fn a_prompt_is_required() {
    let project = Project::with("agents: { a: { command: cat } }\n");
    let ran = project.run();
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("prompt"), "{}", ran.err);
    project.write("goal.txt", "<promise>COMPLETE</promise>");
    assert_eq!(
        project
            .creel(&["run", "--headless", "--trust", "-f", "goal.txt"])
            .code,
        0
    );
    assert_eq!(
        project
            .creel(&["run", "--headless", "-f", "missing.txt"])
            .code,
        2
    );
}

#[test]
fn without_a_config_creel_says_how_to_start() {
    let ran = Project::new().creel(&[]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(
        ran.out.contains("creel demo") && ran.out.contains("creel init"),
        "{}",
        ran.out
    );
}

#[test]
fn init_writes_a_config_that_passes_its_check_and_never_overwrites() {
    let project = Project::new().file("Cargo.toml", "");
    assert_eq!(project.creel(&["init"]).code, 0);
    let written = project.read("creel.yaml");
    assert!(written.contains("cargo test"), "{written}");
    assert_eq!(project.creel(&["check"]).code, 0);
    assert_eq!(project.creel(&["init"]).code, 2);
    assert_eq!(project.read("creel.yaml"), written);
}

#[test]
fn the_plan_is_printed_in_the_order_in_which_hooks_run() {
    let project = with_agent(
        "true",
        "hooks: { stop: [{ command: b }, { command: a, priority: 0, timeout: 2m, pipe_output: true }] }\n\
         automation: { hooks: [{ name: auto-create-review-task, enabled: false },\n\
           { name: tell, command: ./tell, event_types: [task_blocked], priority: 30 }] }\n\
         workflows: { release: { steps: [{ name: tag, type: command, command: git tag x }] } }",
    );
    let ran = project.creel(&["check"]);
    assert_eq!(ran.code, 0);
    let plan = ran.out.split_once("stop\n").expect("the point").1;
    expect_test::expect![[r#"
          1. a  [timeout 2 min, priority 0, piped]  creel.yaml:5
          2. b  [timeout 1 min]  creel.yaml:5

        automation
          1. check-dependency-satisfaction (built in)  [priority 20] on task_completed
          2. tell: ./tell  [timeout 1 min, priority 30] on task_blocked
          3. track-agent-task-lifecycle (built in)  [priority 50] on task_created, task_started, task_completed

        workflow release
          1. tag
    "#]]
    .assert_eq(plan);
    let json: serde_json::Value =
        serde_json::from_str(&project.creel(&["check", "--json"]).out).expect("JSON");
    assert_eq!(json["plan"]["hooks"]["stop"][0]["name"], "a");
}

#[test]
fn schema_completions_and_manual_are_printed() {
    let project = Project::new();
    let schema: serde_json::Value =
        serde_json::from_str(&project.creel(&["schema"]).out).expect("JSON");
    assert!(
        schema["$schema"]
            .as_str()
            .is_some_and(|text| text.contains("json-schema"))
    );
    assert!(
        project
            .creel(&["completions", "bash"])
            .out
            .contains("creel")
    );
    assert!(project.creel(&["man"]).out.contains(".TH"));
}

#[test]
fn an_agents_command_is_checked_like_a_hooks() {
    let project = Project::with("agents:\n  a: { command: \"echo {{promt}}\" }\n");
    let ran = project.creel(&["check"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains("creel.yaml:2:23") && ran.err.contains("did you mean `{{prompt}}`"),
        "{}",
        ran.err
    );
    let json: serde_json::Value =
        serde_json::from_str(&project.creel(&["check", "--json"]).out).expect("JSON");
    assert_eq!(json["errors"][0]["line"], 2);
}
