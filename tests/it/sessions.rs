//! Whole sessions with the real program: exit codes, signals, kills and resumption, leftovers.

use std::{
    ffi::OsStr,
    fs,
    io::Write as _,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{PermissionsExt as _, symlink},
    },
    process::Stdio,
};

use rustix::process::Signal;
use serde_json::json;

use crate::support::{
    lives,
    mcp::Raw,
    project::{Project, Ran, Started, eventually_in, lines, until},
};

/// A config with a scripted agent.
fn scripted(rest: &str, turns: &str) -> Project {
    Project::with(&format!(
        "prompt: GOAL\nagents: {{ demo: {{ script: scenario.yaml }} }}\n{rest}"
    ))
    .file("scenario.yaml", &format!("turns:\n{turns}"))
}

#[test]
fn exit_codes_show_how_a_session_ended() {
    let complete = "  - say: <promise>COMPLETE</promise>\n";
    let cases = [
        ("", complete, 0, "complete"),
        ("max_consecutive_errors: 1", "  - fail: down\n", 1, "failed"),
        (
            "hooks: { stop: [{ command: 'exit 2' }] }\non_limit: abort",
            complete,
            1,
            "aborted",
        ),
        ("max_iterations: 2", "  - say: working\n", 3, "limit"),
        ("", "  - say: <promise>ESCALATE</promise>\n", 4, "escalated"),
        (
            "hooks: { stop: [{ command: 'exit 2' }] }\non_limit: escalate",
            complete,
            4,
            "escalated",
        ),
        (
            "hooks: { stop: [{ command: 'exit 2' }] }",
            complete,
            5,
            "forced",
        ),
    ];
    for (rest, turns, code, outcome) in cases {
        let project = scripted(rest, turns);
        let ran = project.run();
        assert_eq!(ran.code, code, "{outcome}: {}{}", ran.out, ran.err);
        assert_eq!(project.outcome().as_deref(), Some(outcome));
    }
}

#[test]
fn a_delivery_that_needs_approval_waits_with_exit_code_4_and_can_be_resumed() {
    let rest = "gates: { final_delivery: ask }\nhooks: { post_iteration: [{ command: 'echo red', pipe_output: true }] }";
    let project = scripted(rest, "  - say: <promise>COMPLETE</promise>\n");
    let ran = project.run();
    assert_eq!(ran.code, 4);
    assert!(ran.err.contains("creel resume s"), "{}", ran.err);
    assert_eq!(project.kind("gate_opened")[0]["about"], "final_delivery");
    assert_eq!(project.outcome(), None);
    assert_eq!(project.creel(&["resume", "s", "--headless"]).code, 4);
}

#[test]
fn json_prints_the_records_of_the_journal_and_nothing_else() {
    let project = scripted(
        "hooks: { stop: [{ command: 'echo ok' }] }",
        "  - say: <promise>COMPLETE</promise>\n",
    );
    let ran = project.creel(&["run", "--json", "--trust", "-s", "s"]);
    assert_eq!(ran.code, 0);
    assert_eq!(lines(&ran.out), project.records());
    assert_eq!(project.creel(&["show", "s", "--json"]).out, ran.out);
    let seqs: Vec<u64> = project
        .records()
        .iter()
        .filter_map(|record| record["seq"].as_u64())
        .collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
}

#[test]
fn show_and_sessions_print_what_happened() {
    let project = scripted(
        "hooks: { stop: [{ command: 'echo checked' }] }",
        "  - say: <promise>COMPLETE</promise>\n",
    );
    project.run();
    let shown = project.creel(&["show", "s"]);
    assert!(
        shown.out.contains("━━ Iteration 1") && shown.out.contains("│ checked"),
        "{}",
        shown.out
    );
    let prompts = project.creel(&["show", "s", "--prompts"]);
    assert!(
        prompts.out.contains("turn 1") && prompts.out.contains("GOAL"),
        "{}",
        prompts.out
    );
    let listed = project.creel(&["sessions", "--json"]);
    let list: serde_json::Value = serde_json::from_str(&listed.out).expect("JSON");
    assert_eq!(
        (&list[0]["name"], &list[0]["state"]),
        (&"s".into(), &"complete".into())
    );
    assert_eq!(
        (&list[0]["iteration"], &list[0]["running"]),
        (&1.into(), &false.into())
    );
    assert_eq!(project.creel(&["show", "nope"]).code, 2);
}

#[test]
fn nothing_of_a_config_or_a_journal_moves_the_cursor() {
    let config = r#"prompt: "GOAL\e[31m"
agent: "a\e[2Jb"
agents: { "a\e[2Jb": { script: scenario.yaml }, "r\e[31m": { script: scenario.yaml } }
hooks:
  session_start: [{ name: "n\e[31m", command: "echo x; : '\e]0;t\a'" }]
  before_submit: [{ gatekeeper: ["r\e[31m"] }]
"#;
    let project = Project::with(config).file(
        "scenario.yaml",
        "turns: [{ say: <promise>COMPLETE</promise> }]\n",
    );
    project.write(
        ".creel/sessions/x\u{1b}[31m/journal.jsonl",
        "{\"v\":1,\"kind\":\"\u{1b}[31m\"\n",
    );
    let asked: [&[&str]; 7] = [
        &["run", "--headless"],
        &["check"],
        &["trust"],
        &["run", "--headless", "-s", "s"],
        &["sessions"],
        &["show", "s"],
        &["run", "-a", "\u{1b}[31m", "--headless"],
    ];
    for args in asked {
        let Ran { out, err, .. } = project.creel(args);
        let moves = |c: char| c.is_control() && c != '\n' && c != '\t';
        assert!(
            !out.contains(moves) && !err.contains(moves),
            "{args:?}: {out:?} {err:?}"
        );
        assert!(
            !out.is_empty() || !err.is_empty(),
            "{args:?} says something"
        );
    }
    assert_eq!(project.outcome().as_deref(), Some("complete"));
}

#[test]
fn only_the_owner_can_read_what_a_session_leaves() {
    let project = scripted(
        "hooks: { stop: [{ command: 'echo secret' }] }",
        "  - say: <promise>COMPLETE</promise>\n",
    );
    project.run();
    let session = project.root().join(".creel/sessions/s");
    let mode = |path: &std::path::Path| {
        fs::metadata(path)
            .expect("it is there")
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(mode(&session), 0o700);
    assert_eq!(mode(&session.join("journal.jsonl")), 0o600);
    assert_eq!(mode(&session.join("outputs")), 0o700);
    assert_eq!(mode(&session.join("outputs/run-1.log")), 0o600);
    assert_eq!(
        fs::read_to_string(session.join("outputs/run-1.log")).expect("it is there"),
        "secret\n"
    );
    for entry in fs::read_dir(project.state_dir().join("creel/trust")).expect("it is there") {
        assert_eq!(mode(&entry.expect("an entry").path()), 0o600);
    }
}

#[test]
fn an_untrusted_config_runs_nothing() {
    let project = scripted(
        "hooks: { session_start: [{ command: 'touch ran' }] }",
        "  - say: <promise>COMPLETE</promise>\n",
    );
    let run = ["run", "--headless"];
    let refused = project.creel(&run);
    assert_eq!(refused.code, 2);
    assert!(
        refused.err.contains("touch ran") && refused.err.contains("creel trust"),
        "{}",
        refused.err
    );
    assert!(!project.root().join("ran").exists() && !project.root().join(".creel").exists());

    assert_eq!(project.creel(&["trust"]).code, 0);
    assert_eq!(project.creel(&run).code, 0);
    project.write(
        "creel.yaml",
        &(project.read("creel.yaml") + "\n# changed\n"),
    );
    assert_eq!(
        project.creel(&run).code,
        2,
        "another content is another config"
    );
    assert_eq!(project.creel(&["run", "--headless", "--trust"]).code, 0);
    assert_eq!(project.creel(&run).code, 0, "--trust is remembered");
    project.write(
        "scenario.yaml",
        "turns: [{ run: 'touch evil', say: <promise>COMPLETE</promise> }]",
    );
    assert_eq!(
        project.creel(&run).code,
        2,
        "what the agent's script runs counts, too"
    );
    project.creel(&["trust"]);
    assert_eq!(project.creel(&["untrust"]).code, 0);
    assert_eq!(project.creel(&run).code, 2);
}

#[test]
fn a_journal_that_came_with_a_clone_is_not_resumed_without_trust() {
    let project = scripted(
        "hooks: { session_start: [{ command: 'touch ran' }] }",
        "  - hang: true\n",
    );
    let mut creel = project.start();
    creel.wait_for("prompt_sent");
    creel.kill();
    fs::remove_dir_all(project.state_dir()).expect("another machine");
    let refused = project.creel(&["resume", "s"]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("touch ran"), "{}", refused.err);
    // This trusts the config, but not the session.
    assert!(
        refused.err.contains("add --trust") && !refused.err.contains("creel trust"),
        "{}",
        refused.err
    );
}

#[test]
fn nothing_of_a_journal_that_came_with_a_clone_is_changed_before_it_is_trusted() {
    let project = scripted("", "  - say: one\n  - say: <promise>COMPLETE</promise>\n")
        .file("../key", "secret");
    assert_eq!(
        project
            .creel(&["run", "--headless", "--trust", "-s", "s", "-n", "1"])
            .code,
        3
    );
    fs::remove_dir_all(project.state_dir()).expect("another machine");
    let session = project.root().join(".creel/sessions/s");
    for name in ["pid", "pid.new", "socket.new", "outbox"] {
        symlink("../../../../key", session.join(name)).expect("a link");
    }
    let torn = fs::read_to_string(project.journal()).expect("a journal") + "{\"v\":1,\"se";
    fs::write(project.journal(), &torn).expect("a torn journal");

    let refused = project.creel(&["resume", "s", "--headless", "-n", "2"]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert_eq!(
        fs::read_to_string(project.journal()).expect("a journal"),
        torn
    );
    assert!(session.join("pid").is_symlink() && project.read("../key") == "secret");

    let trusted = project.creel(&["resume", "s", "--headless", "-n", "2", "--trust"]);
    assert_eq!(trusted.code, 0, "{}", trusted.err);
    assert_eq!(project.read("../key"), "secret");
}

#[test]
fn a_link_is_never_used_as_a_session_or_as_a_part_of_one() {
    let project = scripted("", "  - say: <promise>COMPLETE</promise>\n")
        .file("../elsewhere/note", "one\ntwo");
    assert_eq!(project.run().code, 0);
    let (sessions, elsewhere) = (
        project.root().join(".creel/sessions"),
        project.root().join("../elsewhere"),
    );
    let links = [
        ("note", "../../../../elsewhere/note"),
        ("zero", "/dev/zero"),
        ("new", "../../../../elsewhere/new"),
    ];
    for (name, target) in links {
        fs::create_dir(sessions.join(name)).expect("a folder");
        symlink(target, sessions.join(name).join("journal.jsonl")).expect("a link");
    }
    symlink("../../../elsewhere", sessions.join("folder")).expect("a link");
    fs::create_dir(sessions.join("outputs")).expect("a folder");
    symlink("../../../../elsewhere", sessions.join("outputs/outputs")).expect("a link");

    let listed: serde_json::Value =
        serde_json::from_str(&project.creel(&["sessions", "--json"]).out).expect("JSON");
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    assert_eq!(project.creel(&["resume", "note", "--trust"]).code, 2);
    for name in ["note", "zero", "new", "folder", "outputs"] {
        let refused = project.creel(&["run", "--headless", "--trust", "-s", name]);
        assert_eq!(refused.code, 1, "{name}: {}", refused.err);
        assert!(
            refused.err.contains("is a symbolic link"),
            "{name}: {}",
            refused.err
        );
    }
    assert_eq!(project.read("../elsewhere/note"), "one\ntwo");
    assert_eq!(
        fs::read_dir(elsewhere).expect("a folder").count(),
        1,
        "nothing was made there"
    );
}

#[test]
fn a_self_driven_session_is_not_resumed_without_trust_either() {
    let project = Project::with("");
    let mut agent = Raw::greeted(&project);
    agent.does("task_add", &json!({"goal": "Do it"}));
    agent.child.kill().expect("it runs");
    agent.child.wait().expect("it ended");
    fs::remove_dir_all(project.state_dir()).expect("another machine");
    let refused = project.creel(&["resume"]);
    assert_eq!(refused.code, 2);
    assert!(
        refused.err.contains("the next steps in its journal"),
        "{}",
        refused.err
    );
}

#[test]
fn trusting_a_config_shows_everything_that_it_may_run() {
    let project = Project::with(
        "prompt: GOAL
agent: one
agents: { one: { command: 'agent one', continue_command: 'agent one -c' }, two: { acp: 'agent two' } }
gates: { permissions: allow }
permissions: [{ kind: edit, path: ['src/**'], action: allow }, { kind: execute, action: deny }]
task_types: { bug: { hooks: { before_submit: [{ command: 'look twice' }] } } }
",
    );
    let shown = project.creel(&["trust"]).err;
    for part in [
        "agent one: agent one\n",
        "agent one: agent one -c (for later turns)\n",
        "agent two: agent two\n",
        "before_submit: look twice\n",
        "(permissions) allows every request of the agent\n",
        "(permissions) allows this without asking you: edit in src/**\n",
    ] {
        assert_eq!(shown.matches(part).count(), 1, "{part}: {shown}");
    }
    assert!(!shown.contains("execute"), "{shown}");
}

#[test]
fn a_second_creel_on_a_session_is_refused_with_the_pid_of_the_first() {
    let project = scripted("", "  - hang: true\n");
    let mut creel = project.start();
    creel.wait_for("prompt_sent");
    for args in [&["resume", "s"][..], &["run", "--headless", "-s", "s"]] {
        let second = project.creel(args);
        assert_eq!(second.code, 2);
        assert!(
            second.err.contains(&creel.pid().to_string()),
            "{}",
            second.err
        );
    }
    creel.kill();
}

#[test]
fn an_interrupt_ends_the_turn_runs_session_end_and_leaves_no_process() {
    for one in [Signal::INT, Signal::TERM, Signal::HUP] {
        let project = Project::with(
            r#"
prompt: GOAL
agents: { slow: { command: "sleep 600 & echo $! > child; echo $$ > agent; wait" } }
hooks: { session_end: [{ command: "echo ended > ended.txt" }] }
"#,
        );
        let mut creel = project.start();
        creel.wait_for("prompt_sent");
        let pids = ["child", "agent"].map(|file| {
            eventually_in(&project.root().join(file))
                .parse()
                .expect("a pid")
        });
        creel.signal(one);
        let ran = creel.end();
        assert_eq!(ran.code, 130, "{}", ran.err);
        assert_eq!(project.read("ended.txt"), "ended\n");
        assert_eq!(project.outcome().as_deref(), Some("cancelled"));
        assert!(
            !pids.into_iter().any(lives),
            "a process of the agent is left"
        );
    }
}

#[test]
fn a_second_interrupt_exits_at_once_and_still_no_process_survives() {
    let project = Project::with(
        r#"
prompt: GOAL
agents: { stubborn: { command: "trap '' TERM; setsid sleep 600 & echo $! > child; while :; do sleep 0.1; done" } }
hooks: { session_end: [{ command: "trap '' TERM; echo $$ > hook; sleep 600" }] }
"#,
    );
    let mut creel = project.start();
    creel.wait_for("prompt_sent");
    let child: i32 = eventually_in(&project.root().join("child"))
        .parse()
        .expect("a pid");
    creel.signal(Signal::INT);
    let hook: i32 = eventually_in(&project.root().join("hook"))
        .parse()
        .expect("a pid");
    creel.signal(Signal::INT);
    assert_eq!(creel.end().code, 130);
    assert!(!lives(child) && !lives(hook));
}

#[test]
fn killed_in_a_turn_the_session_resumes_where_it_was() {
    let project = Project::with(
        r#"
prompt: GOAL
agents:
  once: { command: "cat > prompt-$(ls prompt-* 2>/dev/null | wc -l).txt; test -e go && echo '<promise>COMPLETE</promise>' || { sleep 600 & echo $! > child; wait; }" }
hooks:
  session_start: [{ command: "echo held; echo x >> started", pipe_output: true }]
"#,
    );
    let mut creel = project.start();
    creel.wait_for("prompt_sent");
    let child: i32 = eventually_in(&project.root().join("child"))
        .parse()
        .expect("a pid");
    creel.kill();
    assert!(
        lives(child),
        "nothing ends the children of a killed process"
    );
    project.write("go", "");
    let ran = project.creel(&["resume", "s", "--headless"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(
        !lives(child),
        "what the dead creel left running is ended first"
    );
    assert_eq!(project.kind("session_resumed")[0]["cut"][0], "turn 1");
    assert_eq!(
        project.read("prompt-0.txt"),
        project.read("prompt-1.txt"),
        "the turn is sent again as it was"
    );
    assert_eq!(project.kind("delivered").len(), 1);
    assert_eq!(project.read("started"), "x\n");
}

#[test]
fn killed_in_a_hook_the_hook_is_cut_and_runs_again_at_the_same_count() {
    let project = scripted(
        "hooks: { stop: [{ name: tests, command: 'echo x >> runs; n=$(wc -l < runs); [ $n = 2 ] && { echo here > second; sleep 600; }; [ $n -ge 3 ] || exit 2' }] }",
        "  - say: one\n  - say: two <promise>COMPLETE</promise>\n",
    );
    let mut creel = project.start();
    creel.wait_for("retry_counted");
    eventually_in(&project.root().join("second"));
    creel.kill();
    assert_eq!(project.creel(&["resume", "--headless"]).code, 0);
    let ends: Vec<_> = project
        .kind("hook_finished")
        .iter()
        .map(|record| record["end"].to_string())
        .collect();
    assert_eq!(ends, [r#"{"exit":2}"#, r#""cut""#, r#"{"exit":0}"#]);
    assert_eq!(project.kind("retry_counted").len(), 1);
    assert_eq!(project.kind("prompt_sent").len(), 2);
}

#[test]
fn a_torn_last_line_is_cut_off_with_a_warning() {
    let project = scripted(
        "",
        "  - say: working\n  - say: <promise>COMPLETE</promise>\n",
    );
    project.creel(&["run", "--headless", "--trust", "-s", "s", "-n", "1"]);
    let whole = fs::read_to_string(project.journal()).expect("a journal");
    let kept: Vec<&str> = whole
        .lines()
        .take_while(|line| !line.contains("\"turn_ended\""))
        .collect();
    fs::write(
        project.journal(),
        kept.join("\n") + "\n{\"v\":1,\"seq\":99,\"at\":\"20",
    )
    .expect("a torn journal");
    assert_eq!(project.creel(&["show", "s"]).code, 0, "a reader ignores it");
    assert_eq!(
        project
            .creel(&["resume", "s", "--headless", "-n", "5"])
            .code,
        0
    );
    let warnings = project.kind("warning");
    assert!(
        warnings[0]["text"]
            .as_str()
            .is_some_and(|text| text.contains("in the middle of a record")),
        "{warnings:?}"
    );
    let seqs: Vec<u64> = project
        .records()
        .iter()
        .filter_map(|record| record["seq"].as_u64())
        .collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
}

#[test]
fn a_journal_of_a_newer_version_is_refused_and_left_alone() {
    let project = scripted("", "  - hang: true\n");
    let line =
        r#"{"v":9,"seq":1,"at":"2030-01-01T00:00:00Z","session":"s","kind":"session_started"}"#
            .to_owned()
            + "\n";
    project.write(".creel/sessions/s/journal.jsonl", &line);
    let ran = project.creel(&["resume", "s"]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.err.contains("newer creel") && ran.err.contains("journal.jsonl:1"),
        "{}",
        ran.err
    );
    assert_eq!(
        fs::read_to_string(project.journal()).expect("a journal"),
        line
    );
}

#[test]
fn ended_sessions_are_not_resumed_but_stopped_and_limited_ones_are() {
    let project = scripted("", "  - say: one\n  - say: <promise>COMPLETE</promise>\n");
    assert_eq!(
        project
            .creel(&["run", "--headless", "--trust", "-s", "s", "-n", "1"])
            .code,
        3
    );
    let refused = project.creel(&["resume", "s", "--headless"]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("--max-iterations"), "{}", refused.err);
    assert_eq!(
        project
            .creel(&["resume", "s", "--headless", "-n", "2"])
            .code,
        0
    );
    assert_eq!(project.creel(&["resume", "s", "--headless"]).code, 2);
}

#[test]
fn without_a_name_the_latest_resumable_session_is_resumed() {
    let project = scripted("", "  - hang: true\n");
    let mut old = Started::of(project.command(&["run", "--json", "--trust", "-s", "old"]));
    old.wait_for("prompt_sent");
    old.signal(Signal::INT);
    assert_eq!(old.end().code, 130);
    project.write(
        "scenario.yaml",
        "turns:\n  - say: one\n  - say: <promise>COMPLETE</promise>\n",
    );
    assert_eq!(
        project
            .creel(&["run", "--headless", "--trust", "-s", "s", "-n", "1"])
            .code,
        3
    );
    let resumed = project.creel(&["resume", "--headless", "-n", "2"]);
    assert_eq!(resumed.code, 0, "{}{}", resumed.out, resumed.err);
    assert_eq!(project.outcome().as_deref(), Some("complete"));
}

#[test]
fn a_session_stopped_after_a_forced_iteration_is_found_and_reported() {
    let project = scripted(
        "max_hook_retries: 0\nhooks: { stop: [{ command: '[ -e fine ] || exit 2' }] }",
        "  - { run: 'until [ -e go ]; do sleep 0.05; done', say: one }\n  - say: <promise>COMPLETE</promise>\n",
    );
    let mut creel = project.start();
    creel.wait_for("prompt_sent");
    assert_eq!(project.creel(&["stop"]).code, 0);
    project.write("go", "");
    let ended = creel.end();
    assert_eq!(project.outcome().as_deref(), Some("cancelled"));
    assert!(
        ended.err.contains("continue with `creel resume s`"),
        "{}",
        ended.err
    );
    project.write("fine", "");
    let resumed = project.creel(&["resume", "--headless"]);
    assert_eq!(resumed.code, 0, "{}{}", resumed.out, resumed.err);
}

#[test]
fn self_driven_sessions_come_after_all_others() {
    let project = scripted("", "  - say: one\n  - say: <promise>COMPLETE</promise>\n");
    assert_eq!(
        project
            .creel(&["run", "--headless", "--trust", "-s", "s", "-n", "1"])
            .code,
        3
    );
    let mut agent = Raw::greeted(&project);
    agent.does("task_add", &json!({"goal": "Do it"}));
    agent.child.kill().expect("it runs");
    agent.child.wait().expect("it ended");
    assert_eq!(project.creel(&["resume", "--headless", "-n", "2"]).code, 0);
    assert_eq!(project.outcome().as_deref(), Some("complete"));
}

#[test]
fn a_configured_name_gets_a_number_and_a_name_on_the_command_line_must_be_free() {
    let project = scripted("session: mine", "  - say: <promise>COMPLETE</promise>\n");
    for name in ["mine", "mine-2"] {
        assert_eq!(project.creel(&["run", "--headless", "--trust"]).code, 0);
        assert!(project.root().join(".creel/sessions").join(name).exists());
    }
    let taken = project.creel(&["run", "--headless", "-s", "mine"]);
    assert_eq!(taken.code, 2);
    assert!(taken.err.contains("creel show mine"), "{}", taken.err);
    assert_eq!(project.creel(&["run", "-s", "../evil"]).code, 2);
}

#[test]
fn unread_output_does_not_end_the_session() {
    let project = scripted(
        "max_iterations: 3",
        "  - say: working\n  - say: working\n  - say: <promise>COMPLETE</promise>\n",
    );
    let mut command = project.command(&["run", "--headless", "--trust", "-s", "s"]);
    let mut creel = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("creel starts");
    drop(creel.stdout.take());
    assert_eq!(creel.wait().expect("it ended").code(), Some(0));
    assert_eq!(project.outcome().as_deref(), Some("complete"));
}

#[test]
fn the_demo_shows_red_twice_then_green_then_a_final_delivery() {
    let project = Project::new();
    let ran = project.creel(&["demo", "--fast", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let records = lines(&ran.out);
    let verdicts: Vec<&str> = records
        .iter()
        .filter(|record| record["kind"] == "hook_finished" && record["hook"] == "tests")
        .filter_map(|record| record["verdict"].as_str())
        .collect();
    assert_eq!(
        verdicts,
        ["block", "block", "pass", "pass"],
        "the final delivery is checked, too"
    );
    let reasons: Vec<&str> = records
        .iter()
        .filter(|r| r["kind"] == "prompt_sent")
        .filter_map(|r| r["reason"].as_str())
        .collect();
    assert_eq!(
        reasons,
        ["iteration", "feedback", "feedback", "final_delivery"]
    );
    let folder = records[0]["cwd"].as_str().expect("a folder");
    assert!(
        !std::path::Path::new(folder).exists(),
        "the folder goes away"
    );
    assert_eq!(
        project
            .creel(&["demo", "limit", "--fast", "--headless"])
            .code,
        5
    );
    let asks = project.creel(&["demo", "permission", "--fast", "--headless"]);
    assert_eq!(asks.code, 4);
    assert!(
        asks.out
            .contains("? Permission request: ✎ Edit greeting.txt")
            && asks.err.contains("without --headless"),
        "{}",
        asks.err
    );
    assert_eq!(project.creel(&["demo", "nope"]).code, 2);
}

#[test]
fn usage_before_a_resume_is_counted() {
    let turns = "  - { say: working, tokens: 9000, cost: 0.5 }\n  - { say: <promise>COMPLETE</promise>, tokens: 4500 }\n";
    let project = scripted("max_iterations: 1", turns);
    let first = project.run();
    assert_eq!(first.code, 3);
    assert!(
        first.out.contains("Iteration 1 done · 9000 tokens · $0.50"),
        "{}",
        first.out
    );
    let second = project.creel(&["resume", "s", "-n", "2", "--headless"]);
    assert!(
        second.out.contains("Iteration 2 done · 4500 tokens\n"),
        "{}",
        second.out
    );
    assert!(
        second
            .out
            .contains("after 2 iterations · 13.5k tokens · ≥ $0.50: "),
        "{}",
        second.out
    );
    assert!(
        project
            .creel(&["show", "s"])
            .out
            .contains("after 2 iterations · 13.5k tokens · ≥ $0.50: ")
    );
}

#[test]
fn a_reader_that_stops_reading_blocks_neither_hooks_nor_signals() {
    let project = scripted(
        "hooks: { session_start: [{ command: 'seq 1 200000; echo done > hook-done' }] }",
        "  - say: working\n  - hang: true\n",
    );
    project.creel(&["trust"]);
    let mut command = project.command(&["run", "--headless", "-s", "s"]);
    // This pipe is neither read nor closed.
    let mut creel = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("creel starts");
    eventually_in(&project.root().join("hook-done"));
    until("the second turn", || project.kind("prompt_sent").len() == 2);
    let pid = rustix::process::Pid::from_raw(i32::try_from(creel.id()).expect("a number"))
        .expect("a process");
    rustix::process::kill_process(pid, Signal::INT).expect("it runs");
    until("the end", || project.outcome().is_some());
    // It now waits for its reader, or has ended.
    let _ = rustix::process::kill_process(pid, Signal::INT);
    assert_eq!(creel.wait().expect("it ended").code(), Some(130));
}

#[test]
fn a_no_longer_trusted_config_is_not_resumed_either() {
    let project = scripted(
        "max_iterations: 1\nstop: { settled: continue }\nhooks: { stop: [{ command: 'echo x >> ran' }] }",
        "  - say: working\n",
    );
    assert_eq!(project.run().code, 3);
    assert_eq!(project.creel(&["untrust"]).code, 0);
    assert_eq!(project.creel(&["resume", "s", "-n", "2"]).code, 2);
    assert_eq!(project.read("ran"), "x\n");
}

#[test]
fn processes_of_a_creel_inside_a_hook_end_with_the_outer_one() {
    let project = scripted(
        "agent_may: [run]\nhooks: { session_start: [{ command: 'cd inner && \"$CREEL\" run --headless' }] }",
        "  - say: x\n",
    );
    project.write(
        "inner/creel.yaml",
        "prompt: GOAL\nagents: { a: { command: \"trap '' TERM; echo $$ > ../pid; while :; do sleep 1; done\" } }\n",
    );
    // A hook may not trust a config, so you did.
    let trusted = project
        .command(&["trust"])
        .current_dir(project.root().join("inner"))
        .output()
        .expect("creel starts");
    assert!(trusted.status.success(), "{trusted:?}");
    let mut creel = project.start_with(&[("CREEL", env!("CARGO_BIN_EXE_creel"))]);
    let inner: i32 = eventually_in(&project.root().join("pid"))
        .parse()
        .expect("a pid");
    creel.wait_for("hook_started");
    creel.signal(Signal::INT);
    creel.signal(Signal::INT);
    creel.end();
    until("the end of the inner agent", || !lives(inner));
}

#[test]
fn a_journal_without_a_record_is_no_session() {
    let project = scripted("session: mine", "  - say: <promise>COMPLETE</promise>\n");
    project.write(".creel/sessions/mine/journal.jsonl", "{\"v\":1,\"se");
    assert_eq!(project.creel(&["resume", "mine"]).code, 2);
    assert_eq!(project.creel(&["run", "--headless", "--trust"]).code, 0);
    assert!(!project.root().join(".creel/sessions/mine-2").exists());
}

#[test]
fn sessions_of_another_folder_are_found_by_its_config() {
    let project = scripted("max_iterations: 1", "  - say: working\n").file("sub/x", "");
    let mut elsewhere = project.command(&[
        "run",
        "-c",
        "../p/creel.yaml",
        "--headless",
        "--trust",
        "-s",
        "s",
    ]);
    let other = project.root().parent().expect("a folder").join("other");
    fs::create_dir_all(&other).expect("a folder");
    let ran = Ran::of(
        &elsewhere
            .current_dir(&other)
            .output()
            .expect("creel starts"),
    );
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert!(
        ran.err
            .contains(&format!("in {}", project.root().display())),
        "{}",
        ran.err
    );
    let mut show = project.command(&["show", "s", "-c", "../p/creel.yaml"]);
    assert!(
        show.current_dir(&other)
            .status()
            .expect("creel starts")
            .success()
    );
}

#[test]
fn sessions_that_begin_at_the_same_time_get_different_names() {
    for (how, config) in [
        ("--headless", ""),
        ("--headless", "session: mine"),
        ("--detach", ""),
    ] {
        let project = scripted(config, "  - say: <promise>COMPLETE</promise>\n");
        assert_eq!(project.creel(&["trust"]).code, 0);
        let spawn = |_| {
            let mut command = project.command(&["run", how, "--force"]);
            command
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("creel starts")
        };
        let all: Vec<_> = (0..6).map(spawn).collect();
        let ended: Vec<Ran> = all
            .into_iter()
            .map(|child| Ran::of(&child.wait_with_output().expect("it ended")))
            .collect();
        for ran in &ended {
            assert_eq!(ran.code, 0, "{how} {config}: {}", ran.err);
        }
        let found = fs::read_dir(project.root().join(".creel/sessions")).expect("a folder");
        let names = found.map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        });
        let begun = names.filter(|name| !name.starts_with('.')).count();
        assert_eq!(begun, ended.len());
    }
}

#[test]
fn a_background_session_that_never_began_is_reported() {
    let project = scripted("", "  - say: <promise>COMPLETE</promise>\n")
        .file(".creel/sessions/s/pid/in-the-way", "");
    let refused = project.creel(&["run", "--detach", "--trust", "-s", "s"]);
    assert_eq!(
        (refused.code, refused.out.as_str()),
        (1, ""),
        "{}",
        refused.err
    );
    assert!(
        refused.err.contains("cannot write") && refused.err.contains("pid"),
        "{}",
        refused.err
    );
}

#[test]
fn a_prompt_that_can_be_read_only_once_reaches_the_background_session() {
    let project = scripted("", "  - say: <promise>COMPLETE</promise>\n");
    let mut command =
        project.command(&["run", "--detach", "--trust", "-s", "s", "-f", "/dev/stdin"]);
    let prompt = "Do it. ".repeat(20_000);
    let mut creel = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("creel starts");
    creel
        .stdin
        .take()
        .expect("it is piped")
        .write_all(prompt.as_bytes())
        .expect("it reads");
    assert!(creel.wait().expect("it ended").success());
    until("the end", || project.outcome().is_some());
    assert_eq!(project.kind("session_started")[0]["prompt"], prompt);
}

#[test]
fn the_path_of_a_project_need_not_be_text() {
    let project = scripted("", "  - say: <promise>COMPLETE</promise>\n");
    let folder = project.root().join("..").join(OsStr::from_bytes(b"\xff"));
    fs::create_dir(&folder).expect("a folder");
    for name in ["creel.yaml", "scenario.yaml"] {
        fs::copy(project.root().join(name), folder.join(name)).expect("a file");
    }
    let asked: [(&[&str], i32); 6] = [
        (&["run", "--headless"], 2),
        (&["trust"], 0),
        (&["run", "--headless", "-s", "s"], 0),
        (&["check", "--json"], 0),
        (&["sessions", "--json"], 0),
        (&["show", "s"], 0),
    ];
    for (args, code) in asked {
        let ran = Ran::of(
            &project
                .command(args)
                .current_dir(&folder)
                .output()
                .expect("creel starts"),
        );
        assert_eq!(ran.code, code, "{args:?}: {}", ran.err);
    }
}

#[test]
fn no_c1_control_character_reaches_the_terminal_in_json_or_in_errors() {
    let is_c1 = |c: char| matches!(c, '\u{80}'..='\u{9f}');
    let project = Project::with(
        "prompt: \"red \\x9b31m text\"\nagents: { a: { command: 'echo \"<promise>COMPLETE</promise>\"' } }\nagent: a\n",
    );
    let ran = project.creel(&["run", "--json", "--trust", "-s", "s"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(!ran.out.contains(is_c1), "{:?}", ran.out);
    assert_eq!(
        lines(&ran.out),
        project.records(),
        "the escapes mean the same characters"
    );
    assert_eq!(project.prompts()[0].1, "red \u{9b}31m text");
    let shown = project.creel(&["show", "s", "--json"]);
    assert!(
        shown.out.contains("\\u009b31m") && !shown.out.contains(is_c1),
        "{:?}",
        shown.out
    );
    for args in [
        ["\u{9b}31mrun", "x"],
        ["show", "\u{9b}31mred"],
        ["run", "--\u{9b}31m"],
    ] {
        let refused = project.creel(&args);
        assert_ne!(refused.code, 0);
        assert!(!refused.err.is_empty());
        assert!(
            !refused.err.contains(|c: char| is_c1(c) || c == '\u{1b}'),
            "{:?}",
            refused.err
        );
    }
}
