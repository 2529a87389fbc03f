//! Sessions on other machines: listed, shown, replayed, watched and steered through a NATS server.

use std::time::Duration;

use async_nats::ConnectOptions;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    nats::{journal, project, texts, until_it_waits, until_sent},
    support::{
        nats::NatsServer,
        project::{Project, Ran, until},
        terminal::{Cells, Terminal},
    },
};

pub(crate) const WIDE: Cells = (140, 40);
const UNTIL_GO: &str = "  - { say: 'working on it', run: 'until [ -e go ] || [ ! -e creel.yaml ]; do sleep 0.02; done' }\n";

/// A session on one machine, and another machine without it.
pub(crate) fn two_machines(server: &NatsServer, rest: &str, turns: &str) -> (Project, Project) {
    (project(&server.url(), rest, turns), Project::new())
}

#[test]
fn sessions_are_listed_shown_and_steered_from_another_machine() {
    let server = NatsServer::start();
    let (here, there) = two_machines(&server, "", UNTIL_GO);
    let url = server.url();
    let nats = ["--nats", url.as_str()];
    let with = |args: &[&'static str]| {
        args.iter()
            .copied()
            .chain(nats)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let run = |args: &[&'static str]| {
        let mut command = there.command(&with(args).iter().map(String::as_str).collect::<Vec<_>>());
        Ran::of(&command.env("USER", "grace").output().expect("creel starts"))
    };
    assert!(
        run(&["status"]).err.contains("no session is running there"),
        "nothing yet"
    );
    assert!(
        run(&["sessions"])
            .err
            .contains("this server has no sessions")
    );
    let mut session = here.start();
    session.wait_for("prompt_sent");
    until("it is listed", || {
        run(&["sessions"]).out.contains("running: the agent works")
    });
    let listed: Value = serde_json::from_str(&run(&["sessions", "--json"]).out).expect("JSON");
    assert_eq!(
        (&listed[0]["session"], &listed[0]["iteration"]),
        (&"s".into(), &1.into())
    );
    assert!(
        listed[0]["host"]
            .as_str()
            .is_some_and(|host| !host.is_empty())
            && listed[0]["seen"].is_string()
    );

    let Ran { code, out, err } = run(&["status"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(
        out.contains("session    s (running)") && out.contains("nats       connected"),
        "{out}"
    );
    assert_eq!(run(&["pause"]).code, 0);
    assert_eq!(
        run(&["pause", "-s", "s"]).err,
        "creel: the session is already paused\n"
    );
    assert_eq!(run(&["unpause"]).code, 0);
    assert_eq!(run(&["message", "hello from afar"]).code, 0);
    assert_eq!(run(&["task", "add", "a thing to do"]).out, "task_1\n");
    assert!(run(&["task", "list"]).out.contains("a thing to do"));
    assert_eq!(run(&["pending", "list"]).code, 0);
    assert_eq!(run(&["hooks", "list"]).code, 0);
    let queued = &here.kind("message_queued")[0];
    assert_eq!(
        (&queued["by"], &queued["user"]),
        (&"nats".into(), &"grace".into())
    );
    assert!(
        queued["host"].as_str().is_some_and(|host| !host.is_empty()),
        "{queued}"
    );
    assert!(
        run(&["pause", "-s", "nope"])
            .err
            .contains("session `nope` is not running")
    );
    until("the copy has it", || {
        run(&["show", "s"]).out.contains("hello from afar")
    });
    assert!(
        run(&["show", "nope"])
            .err
            .contains("the stream CREEL has no session `nope`")
    );
    assert_eq!(run(&["stop", "--now"]).code, 0);
    assert_eq!(session.end().code, 130);
    until("its end is listed", || {
        run(&["sessions", "--ended"]).out.contains("cancelled")
    });
    let shown = run(&["show", "s", "--json"]);
    assert_eq!(
        shown.out.lines().collect::<Vec<_>>(),
        journal(&here),
        "{}",
        shown.err
    );
    let found = run(&["search", "from afar"]);
    assert_eq!(found.code, 0, "{}", found.err);
    let place = format!("{}:s", here.root().display());
    assert!(found.out.contains(&place), "{}", found.out);
    assert_eq!(run(&["search", "nowhere in it"]).code, 1);
    let sums: Value =
        serde_json::from_str(&run(&["stats", "--by", "project", "--json"]).out).expect("JSON");
    assert_eq!(
        (&sums["total"]["sessions"], &sums["groups"][0]["name"]),
        (&json!(1), &json!(here.root()))
    );
    assert_eq!(
        copies(&there),
        [""; 0],
        "a viewer that has ended leaves nothing"
    );
}

/// Copies of sessions in a project's temporary directory.
fn copies(project: &Project) -> Vec<String> {
    let entries = std::fs::read_dir(project.temp_dir())
        .expect("a folder")
        .flatten();
    let copies = entries.filter(|entry| entry.path().join("copy/journal.jsonl").exists());
    copies
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

#[test]
fn the_next_viewer_removes_the_copies_that_killed_viewers_left() {
    let server = NatsServer::start();
    let (here, there) = two_machines(&server, "", UNTIL_GO);
    let mut session = here.start();
    session.wait_for("prompt_sent");
    until_sent(&here);
    let url = server.url();
    let attach = || {
        let mut command = there.command(&["attach", "--nats", &url, "s"]);
        command.env_remove("EDITOR");
        let screen = Terminal::start(command, WIDE);
        screen.wait_for_text("working on it");
        screen
    };
    let mut killed = attach();
    let left = copies(&there);
    assert_eq!(left.len(), 1);
    killed.signal(Signal::KILL);
    killed.end();
    assert_eq!(
        copies(&there),
        left,
        "a killed viewer cannot remove its copy"
    );
    let mut living = attach();
    let of_living = copies(&there);
    assert!(
        of_living.len() == 1 && of_living != left,
        "{of_living:?} instead of {left:?}"
    );
    assert_eq!(there.creel(&["show", "s", "--nats", &url]).code, 0);
    assert_eq!(
        copies(&there),
        of_living,
        "the viewer that runs keeps its own"
    );
    here.write("go", "");
    living.wait_for_text("Session complete");
    living.press("q");
    assert_eq!(living.end(), 0);
    assert_eq!(copies(&there), [""; 0]);
    assert_eq!(session.end().code, 0);
}

#[test]
fn a_remote_screen_shows_and_steers_a_session_and_reconnects_by_itself() {
    let mut server = NatsServer::start();
    let rest = "gates: { delivery: ask, timeout: 1h }\n\
                hooks: { post_iteration: [{ name: a, pipe_output: true, command: '[ $CREEL_ITERATION != 1 ] || echo red' }] }";
    let (here, there) = two_machines(
        &server,
        rest,
        &format!("  - say: the first words\n{UNTIL_GO}"),
    );
    let mut session = here.start();
    session.wait_for("gate_opened");
    until("it is listed", || {
        !there
            .creel(&["sessions", "--nats", &server.url()])
            .out
            .is_empty()
    });
    let url = server.url();
    let mut screen = Terminal::open(&there, &["attach", "--nats", &url, "s"], WIDE);
    screen.wait_for("the past and the gate", |shown| {
        shown.has("the first words") && shown.has("enter answer")
    });
    screen.press("enter");
    session.wait_for("gate_answered");
    assert_eq!(here.kind("gate_answered")[0]["by"], "nats");
    screen.wait_for("what comes", |shown| shown.has("working on it"));
    server.kill();
    screen.wait_for("that it is away", |shown| {
        shown.has("nats: ") && !shown.has("nats: connected")
    });
    here.does(&["message", "said meanwhile"]);
    server.up();
    screen.wait_for("what was said meanwhile", |shown| {
        shown.has("said meanwhile") && shown.has("nats: connected")
    });
    here.write("go", "");
    screen.wait_for("the end", |shown| shown.has("Session complete"));
    screen.press("q");
    assert_eq!(screen.end(), 0);
    assert_eq!(session.end().code, 0);
}

#[test]
fn a_locally_attached_screen_shows_the_sessions_nats_status() {
    let mut server = NatsServer::start();
    let here = project(&server.url(), "", UNTIL_GO);
    let session = here.start();
    until_it_waits(&here);
    until_sent(&here);
    let mut screen = Terminal::open(&here, &["attach"], (200, 40));
    screen.wait_for("that it is connected", |shown| shown.has("nats: connected"));
    server.kill();
    screen.wait_for("that it is away", |shown| {
        shown.has("nats: the ") && !shown.has("nats: connected")
    });
    here.does(&["message", "said meanwhile"]);
    screen.wait_for("how far it is behind", |shown| {
        shown.has(", 1 record behind")
    });
    server.up();
    screen.wait_for("that it is back", |shown| {
        shown.has("nats: connected") && !shown.has("behind")
    });
    here.write("go", "");
    screen.wait_for("the end", |shown| shown.has("Session complete"));
    screen.press("q");
    assert_eq!(screen.end(), 0);
    assert_eq!(session.end().code, 0);
}

#[test]
fn a_remote_replay_works_like_a_local_one() {
    let server = NatsServer::start();
    let (here, there) = two_machines(
        &server,
        "",
        "  - say: the only words <promise>COMPLETE</promise>\n",
    );
    assert_eq!(here.run().code, 0);
    let url = server.url();
    let mut screen = Terminal::open(&there, &["replay", "--nats", &url, "s"], WIDE);
    screen.press("G");
    screen.wait_for("the words", |shown| shown.has("the only words"));
    screen.press("q");
    assert_eq!(screen.end(), 0);
}

#[test]
fn a_long_judgement_does_not_delay_other_commands() {
    let server = NatsServer::start();
    let rule = "until [ -e judged ] || [ ! -e creel.yaml ]; do sleep 0.02; done";
    let rules = format!("stop: {{ rules: [{{ name: slow, type: command, command: '{rule}' }}] }}");
    let here = project(&server.url(), &rules, UNTIL_GO);
    let mut session = here.start();
    session.wait_for("prompt_sent");
    until_sent(&here);
    let ask = |line: Value| server.ask("creel.commands.s", &line.to_string());
    assert_eq!(here.creel(&["task", "add", "Do it", "--id", "t"]).code, 0);
    let about = json!({ "start": { "task": "t", "max_iterations": 3, "promises": [] } });
    let started = ask(json!({ "v": 1, "do": "loop", "about": about }));
    assert_eq!(started["ok"], true, "{started}");
    let id = &started["agent_loop"]["id"];
    let about = json!({ "judge": { "loop": id, "said": "It works.", "rules": "check" } });
    std::thread::scope(|scope| {
        let judged = scope.spawn(|| ask(json!({ "v": 1, "do": "loop", "about": about })));
        session.wait_for("judgement_asked");
        assert_eq!(ask(json!({ "v": 1, "do": "pause" }))["ok"], true);
        assert!(!judged.is_finished());
        here.write("judged", "");
        let judged = judged.join().expect("an answer");
        assert_eq!(judged["judged"]["rules"][0]["passed"], true, "{judged}");
    });
    assert_eq!(ask(json!({ "v": 1, "do": "unpause" }))["ok"], true);
    here.write("go", "");
    assert_eq!(session.end().code, 0);
}

/// The server config with minimal permissions, from the documentation.
pub(crate) fn documented() -> String {
    let page = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/docs/reference-nats.md"
    ))
    .expect("the page");
    page.split("```conf\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .expect("a config")
        .to_owned()
}

#[test]
fn a_server_that_allows_only_what_the_documentation_lists_is_enough() {
    let server = NatsServer::with(&documented());
    let here = project(&server.url_for("session:s3cret"), "", UNTIL_GO);
    let there = Project::new();
    let url = server.url_for("viewer:s3cret");
    let mut session = here.start();
    session.wait_for("prompt_sent");
    until("it is listed", || {
        there
            .creel(&["sessions", "--nats", &url])
            .out
            .contains("the agent works")
    });
    let paused = there.creel(&["pause", "--nats", &url, "-s", "s"]);
    assert_eq!(paused.code, 0, "{}", paused.err);
    // The answer comes before the record is in the stream.
    until("the stream has it", || {
        there
            .creel(&["show", "s", "--json", "--nats", &url])
            .out
            .contains("\"paused\"")
    });
    assert_eq!(there.creel(&["unpause", "--nats", &url]).code, 0);
    here.write("go", "");
    let ran = session.end();
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(
        here.kind("warning").is_empty(),
        "{:?}",
        here.kind("warning")
    );
    let root = ConnectOptions::with_user_and_password("root".into(), "s3cret".into());
    let client = server.client_with(root.connection_timeout(Duration::from_secs(5)));
    assert_eq!(texts(&server.stored_by(&client, "CREEL")), journal(&here));
}

#[test]
fn the_home_screen_shows_the_sessions_of_all_machines() {
    let server = NatsServer::start();
    let (here, there) = two_machines(&server, "", UNTIL_GO);
    let url = server.url();
    let mut session = here.start_with(&[("USER", "ada")]);
    session.wait_for("prompt_sent");
    let mut home = Terminal::open(&there, &["--nats", &url], WIDE);
    home.wait_for("the session", |shown| {
        ["all machines", "RUNNING  1", "The agent works", "ada"]
            .iter()
            .all(|text| shown.has(text))
    });
    home.press("enter");
    home.wait_for_status("WORKING");
    home.press("q");
    home.wait_for_text("RUNNING  1");
    home.press("s");
    home.wait_for_text("Stop s?");
    home.press("2");
    assert_eq!(session.end().code, 130);
    home.wait_for_text("ENDED  1");
    let listed = there.creel(&[
        "sessions",
        "--nats",
        &url,
        "--user",
        "ada",
        "--state",
        "cancelled",
    ]);
    assert!(listed.out.contains(" ada "), "{}{}", listed.out, listed.err);
    home.press("q");
    assert_eq!(home.end(), 0);
}

#[test]
fn proposed_tasks_are_read_changed_and_approved_from_another_machine() {
    let server = NatsServer::start();
    let turns = "  - say: '{\"tasks\": [{\"id\": \"a\", \"goal\": \"Go.\"}, {\"id\": \"b\", \"goal\": \"On.\", \"depends_on\": [\"a\"]}]}'\n";
    let (here, there) = two_machines(&server, "", turns);
    let url = server.url();
    let elsewhere = |args: &[&str]| there.creel(&[args, &["--nats", &url]].concat());
    let mut screen = Terminal::open(
        &here,
        &[
            "run",
            "--proposal",
            "at-gate",
            "--session",
            "s",
            "--trust",
            "Plan it.",
        ],
        (80, 24),
    );
    screen.wait_for_text("The agent proposes 2 tasks");
    until("the gate is listed", || {
        elsewhere(&["gate", "list"])
            .out
            .contains("    a: Go.\n      └ b: On.\n")
    });
    let refused = elsewhere(&[
        "gate",
        "answer",
        "1",
        "approve",
        r#"{"tasks": [{"id": "a", "goal": " "}]}"#,
    ]);
    assert_eq!(refused.code, 1);
    assert!(
        refused
            .err
            .contains("these tasks cannot be queued: task `a`: "),
        "{}",
        refused.err
    );
    let answered = elsewhere(&[
        "gate",
        "answer",
        "1",
        "approve",
        r#"{"tasks": [{"id": "c", "goal": "Less."}]}"#,
    ]);
    assert_eq!(answered.code, 0, "{}", answered.err);
    screen.wait_for_status("COMPLETE");
    screen.press("q");
    assert_eq!(screen.end(), 0, "{}", screen.text());
    let (edited, answers) = (here.kind("proposal_edited"), here.kind("gate_answered"));
    assert_eq!(edited[0]["tasks"], json!([{ "id": "c", "goal": "Less." }]));
    assert_eq!(
        (&edited[0]["by"], &answers[0]["by"]),
        (&json!("nats"), &json!("nats"))
    );
}
