//! The control socket: every command from another process, many clients, faulty clients, and none
//! that blocks the session.

use std::{fs, io::Write as _, os::unix::fs::PermissionsExt as _, process::Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{
    peer::{Peer, socket_of},
    project::{Project, Ran, Started, eventually_in, until},
};

/// A turn that lasts until the file `go` exists.
const UNTIL_GO: &str = "  - { say: '<promise>COMPLETE</promise>', run: 'echo $$ > turn; until [ -e go ] || [ ! -e creel.yaml ]; do sleep 0.02; done' }\n";

/// A project with a scripted agent.
fn scripted(rest: &str, turns: &str) -> Project {
    Project::with(&format!(
        "prompt: GOAL\nagents: {{ demo: {{ script: scenario.yaml }} }}\n{rest}"
    ))
    .file(
        "scenario.yaml",
        &format!("turns:\n{turns}otherwise: {{ say: '<promise>COMPLETE</promise>' }}\n"),
    )
}

/// A session that works until the file `go` exists.
fn working(rest: &str) -> (Project, Started) {
    let project = scripted(rest, UNTIL_GO);
    let mut session = project.start();
    session.wait_for("prompt_sent");
    (project, session)
}

impl Project {
    /// A command that succeeds without output.
    #[track_caller]
    pub(crate) fn does(&self, args: &[&str]) {
        let Ran { code, out, err } = self.creel(args);
        assert_eq!((code, out.as_str(), err.as_str()), (0, "", ""), "{args:?}");
    }

    /// A command that the session refuses, with its reason.
    #[track_caller]
    pub(crate) fn refuses(&self, args: &[&str], why: &str) {
        let Ran { code, out, err } = self.creel(args);
        assert_eq!((code, out.as_str()), (1, ""), "{args:?}: {err}");
        let rest = err
            .strip_prefix(&format!("creel: {why}\n"))
            .unwrap_or_else(|| panic!("{args:?}: {err}"));
        assert!(
            rest.is_empty() || rest.starts_with("  list the "),
            "only what to do follows: {err}"
        );
    }

    /// A command that is rejected before it is sent, with a part of the message.
    #[track_caller]
    pub(crate) fn rejects(&self, args: &[&str], why: &str) {
        let Ran { code, out, err } = self.creel(args);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {err}");
        assert!(err.contains(why), "{args:?}: {err}");
    }

    #[track_caller]
    pub(crate) fn tells(&self, args: &[&str]) -> Value {
        let Ran { code, out, err } = self.creel(args);
        assert_eq!((code, err.as_str()), (0, ""), "{args:?}");
        serde_json::from_str(&out).expect("JSON")
    }

    /// A command that reads standard input.
    #[track_caller]
    pub(crate) fn does_with(&self, args: &[&str], stdin: &str) {
        let mut child = self
            .command(args)
            .stdin(Stdio::piped())
            .spawn()
            .expect("creel starts");
        let written = child
            .stdin
            .take()
            .expect("it is piped")
            .write_all(stdin.as_bytes());
        written.expect("creel reads");
        assert!(child.wait().expect("it ended").success(), "{args:?}");
    }
}

// The command line

#[test]
fn a_session_is_paused_messaged_and_stopped_from_another_terminal() {
    let (project, session) = working("");
    let status = project.tells(&["status", "--json"]);
    assert_eq!(
        (&status["session"], &status["state"]),
        (&"s".into(), &"running".into())
    );
    assert_eq!(
        (&status["iteration"], &status["turn"], &status["paused"]),
        (&1.into(), &1.into(), &false.into())
    );
    assert_eq!(status["pid"], session.pid());
    let said = project.creel(&["status"]);
    assert!(
        said.out
            .contains("session    s (running)\ndoing      the agent works\n"),
        "{}",
        said.out
    );

    project.does(&["pause"]);
    project.refuses(&["pause"], "the session is already paused");
    assert_eq!(project.tells(&["status", "--json"])["paused"], true);
    project.does(&["unpause", "-s", "s"]);
    project.refuses(&["unpause"], "the session is not paused");

    project.does(&["message", "look at the tests"]);
    project.does_with(&["message", "-"], "one\ntwo\n");
    project.refuses(&["message", " "], "the message is empty");
    assert_eq!(project.tells(&["status", "--json"])["messages"], 2);
    let texts: Vec<Value> = project
        .kind("message_queued")
        .iter()
        .map(|record| record["text"].clone())
        .collect();
    assert_eq!(texts, ["look at the tests", "one\ntwo"]);
    assert_eq!(project.kind("message_queued")[0]["by"], "cli");
    assert_eq!(project.tells(&["gate", "list", "--json"]), json!([]));
    assert_eq!(project.tells(&["pending", "list", "--json"]), json!([]));

    project.does(&["stop"]);
    project.refuses(&["stop"], "the session is already stopping");
    assert_eq!(
        project.tells(&["status", "--json"])["stopping"],
        "after_iteration"
    );
    project.does(&["stop", "--now"]);
    assert_eq!(session.end().code, 130);
    assert_eq!(project.outcome().as_deref(), Some("cancelled"));
}

#[test]
fn a_turn_is_cancelled_from_another_terminal_and_sent_again_when_the_session_is_unpaused() {
    let (project, mut session) = working("");
    project.does(&["cancel", "-s", "s"]);
    assert_eq!(session.wait_for("turn_ended")["stop_reason"], "cancelled");
    assert_eq!(project.tells(&["status", "--json"])["paused"], true);
    project.refuses(&["cancel"], "no turn is running");
    project.write("go", "");
    project.does(&["unpause"]);
    assert_eq!(session.end().code, 0);
    let goal = ("iteration".to_owned(), "GOAL".to_owned());
    assert_eq!(
        project.prompts(),
        [goal.clone(), goal],
        "the iteration is not used up"
    );
    assert_eq!(project.kind("paused")[0]["by"], "cli");
    project.rejects(&["cancel", "-s", "s"], "session `s` is not running");
    project.rejects(&["cancel"], "no session is running");
}

/// A session that waits at a gate for two pending items, although it has no screen.
fn held() -> (Project, Started) {
    let hook = |name: &str, text: &str| {
        format!(
            "{{ name: {name}, pipe_output: true, command: '[ $CREEL_ITERATION != 1 ] || echo {text}' }}"
        )
    };
    let rest = format!(
        "gates: {{ delivery: ask, timeout: 1h }}\nhooks: {{ post_iteration: [{}, {}] }}",
        hook("a", "red"),
        hook("b", "blue")
    );
    let project = scripted(&rest, &format!("  - say: one\n  - say: two\n{UNTIL_GO}"));
    let mut session = project.start();
    session.wait_for("gate_opened");
    (project, session)
}

#[test]
fn pending_output_is_listed_changed_and_approved_from_another_terminal() {
    let (project, mut session) = held();
    let gates = project.tells(&["gate", "list", "--json"]);
    assert_eq!(
        (&gates[0]["gate"], &gates[0]["about"]),
        (&1.into(), &"delivery".into())
    );
    assert_eq!(
        (&gates[0]["items"], &gates[0]["choices"]),
        (&json!([1, 2]), &json!(["approve", "skip"]))
    );
    let said = project.creel(&["gate", "list"]);
    assert!(
        said.out.starts_with("1 delivery: ")
            && said
                .out
                .contains("  approve  Send the ticked items: with the next prompt\n"),
        "{}",
        said.out
    );
    assert_eq!(project.tells(&["status", "--json"])["state"], "waiting");

    let items = project.tells(&["pending", "list", "--json"]);
    let listed: Vec<_> = [0, 1]
        .iter()
        .map(|n| (&items[n]["hook"], &items[n]["state"]))
        .collect();
    assert_eq!(
        listed,
        [
            (&"a".into(), &"pending".into()),
            (&"b".into(), &"pending".into())
        ]
    );
    assert!(
        project
            .creel(&["pending", "list"])
            .out
            .contains("pending    post_iteration")
    );
    assert!(project.creel(&["pending", "show", "1"]).out.contains("red"));
    project.does(&["pending", "skip", "2"]);
    project.refuses(&["pending", "skip", "2"], "item 2 is already skipped");
    assert_eq!(
        project.tells(&["pending", "show", "2", "--json"])["state"],
        "skipped"
    );
    project.does(&["pending", "restore", "2"]);
    project.refuses(&["pending", "show", "9"], "there is no pending item 9");
    project.does(&["pending", "edit", "1", "crimson"]);
    assert_eq!(project.creel(&["pending", "show", "1"]).out, "crimson\n");
    project.does_with(&["pending", "edit", "1", "-"], "scarlet\n");
    project.rejects(&["pending", "edit", "1"], "pass the new text, or `-`");
    project.rejects(&["pending", "show", "one"], "an item is a number");

    project.rejects(&["gate", "answer", "1", "dance"], "unknown answer");
    project.refuses(
        &["gate", "answer", "1", "abort"],
        "gate 1 does not accept `abort`; use one of: approve, skip",
    );
    project.refuses(&["gate", "answer", "2", "skip"], "there is no gate 2");
    project.refuses(
        &["gate", "answer", "1", "approve", "--items", "1,7"],
        "gate 1 does not include item 7",
    );
    project.does(&["gate", "answer", "1", "approve", "--items", "1"]);
    project.refuses(
        &["gate", "answer", "1", "skip"],
        "gate 1 was already answered",
    );
    session.wait_for("delivered");
    let prompts = project.prompts();
    assert!(
        prompts[1].1.contains("scarlet") && !prompts[1].1.contains("blue"),
        "{}",
        prompts[1].1
    );
    assert_eq!(project.kind("gate_answered")[0]["by"], "cli");

    assert_eq!(project.tells(&["pending", "list", "--json"])[0]["item"], 2);
    assert_eq!(
        project.tells(&["pending", "list", "--all", "--json"])[0]["state"],
        "delivered"
    );
    assert_eq!(
        project.creel(&["pending", "show", "1"]).out,
        "scarlet\n",
        "what was delivered is read from the journal"
    );
    project.does(&["stop", "--now"]);
    session.end();
}

#[test]
fn of_two_answers_to_one_gate_the_first_counts() {
    let (project, mut session) = held();
    let answers: Vec<Ran> = std::thread::scope(|scope| {
        let answer = |choice: &'static str| {
            let project = &project;
            scope.spawn(move || project.creel(&["gate", "answer", "1", choice]))
        };
        let both = [answer("approve"), answer("skip")];
        both.into_iter()
            .map(|answer| answer.join().expect("an answer"))
            .collect()
    });
    session.wait_for("gate_answered");
    let mut codes: Vec<i32> = answers.iter().map(|ran| ran.code).collect();
    codes.sort_unstable();
    assert_eq!(codes, [0, 1]);
    let late = answers
        .iter()
        .find(|ran| ran.code == 1)
        .expect("one of them");
    assert_eq!(late.err, "creel: gate 1 was already answered\n");
    assert_eq!(project.kind("gate_answered").len(), 1);
    project.does(&["stop", "--now"]);
    session.end();
}

#[test]
fn automation_hooks_are_listed_and_switched_like_others() {
    let rest = "automation: { hooks: [{ name: note, event_types: [task_created], command: 'echo []', priority: 5 }] }";
    let project = scripted(rest, UNTIL_GO);
    let listed = || {
        let hooks = project.tells(&["hooks", "list", "--json"]);
        let hooks = hooks.as_array().expect("a list").iter();
        hooks
            .map(|hook| format!("{} {} {}", hook["point"], hook["hook"], hook["enabled"]))
            .collect::<Vec<_>>()
    };
    assert_eq!(listed(), [r#""automation" "note" true"#]);
    let mut session = project.start();
    session.wait_for("prompt_sent");
    assert_eq!(listed(), [r#""automation" "note" true"#]);
    project.does(&["hooks", "disable", "note"]);
    project.does(&["hooks", "disable", "auto-create-review-task"]);
    assert_eq!(
        listed(),
        [
            r#""automation" "note" false"#,
            r#""automation" "auto-create-review-task" false"#
        ]
    );
    assert!(
        project
            .creel(&["hooks", "list"])
            .out
            .contains("off  automation        note: echo []")
    );
    project.write("go", "");
    session.end();
}

#[test]
fn hooks_are_listed_switched_and_run_from_another_terminal() {
    let rest = "hooks:\n  pre_iteration: [{ name: lint, command: 'echo lint' }]\n  \
                stop: [{ name: tests, command: 'echo tests; exit 2', enabled: false }]";
    let project = scripted(rest, UNTIL_GO);
    let names = |hooks: &Value| {
        let hooks = hooks.as_array().expect("a list").clone();
        hooks
            .iter()
            .map(|hook| (hook["hook"].clone(), hook["enabled"].clone()))
            .collect::<Vec<_>>()
    };
    let configured = project.tells(&["hooks", "list", "--json"]);
    assert_eq!(
        names(&configured),
        [("lint".into(), true.into()), ("tests".into(), false.into())]
    );
    let mut session = project.start();
    session.wait_for("prompt_sent");
    assert_eq!(project.tells(&["hooks", "list", "--json"]), configured);
    project.does(&["hooks", "disable", "lint"]);
    project.does(&["hooks", "enable", "tests", "--point", "stop"]);
    let switched = project.tells(&["hooks", "list", "--json"]);
    assert_eq!(
        names(&switched),
        [("lint".into(), false.into()), ("tests".into(), true.into())]
    );
    assert!(
        project
            .creel(&["hooks", "list"])
            .out
            .contains("off  pre_iteration     lint: echo lint")
    );
    project.does(&["hooks", "disable", "tests"]);
    project.refuses(
        &["hooks", "run", "nope"],
        "unknown hook `nope`\n  list the hooks with `creel hooks list`",
    );
    project.rejects(
        &["hooks", "run", "lint", "--point", "never"],
        "use one of: session_start, pre_iteration",
    );
    project.does(&["hooks", "run", "lint"]);
    assert_eq!(session.wait_for("hook_finished")["hook"], "lint");
    let stats = project.tells(&["hooks", "stats", "--json"]);
    assert_eq!(
        (&stats[0]["hook"], &stats[0]["runs"], &stats[0]["pass_rate"]),
        (&"lint".into(), &2.into(), &1.0.into())
    );
    project.write("go", "");
    assert_eq!(session.end().code, 0);
}

#[test]
fn hook_statistics_of_a_past_session_are_shown() {
    let rest = "max_hook_retries: 2\ngates: { final_delivery: skip }\nhooks:\n  \
                stop: [{ name: check, command: '[ $CREEL_ATTEMPT = 2 ] || { echo no >&2; exit 2; }' }]\n  \
                post_iteration: [{ name: report, command: 'printf 12345', pipe_output: true }]";
    let project = scripted(rest, "  - say: <promise>COMPLETE</promise>\n");
    assert_eq!(project.run().code, 0);
    project.rejects(&["hooks", "stats"], "no session is running");
    let stats = project.tells(&["hooks", "stats", "-s", "s", "--json"]);
    let facts = |n: usize, names: &[&str]| {
        names
            .iter()
            .map(|name| stats[n][name].clone())
            .collect::<Vec<_>>()
    };
    let counts = ["hook", "runs", "passed", "blocked", "retries_caused"];
    assert_eq!(
        facts(0, &counts),
        [json!("check"), json!(3), json!(1), json!(2), json!(2)]
    );
    assert_eq!(
        facts(1, &["hook", "runs", "bytes_piped"]),
        [json!("report"), json!(1), json!(5)]
    );
    assert!(stats[0]["p50_ms"].as_u64() <= stats[0]["p95_ms"].as_u64());
    let said = project.creel(&["hooks", "stats", "-s", "s"]).out;
    assert!(
        said.lines()
            .nth(1)
            .is_some_and(|line| line.contains(" 33%") && line.ends_with("check")),
        "{said}"
    );
}

// Which session

#[test]
fn the_session_is_the_named_one_the_agents_own_or_the_only_one() {
    let project = scripted("", UNTIL_GO).file("sub/x", "");
    project.rejects(&["status"], "no session is running in");
    project.rejects(
        &["status", "-s", "nope"],
        "session `nope` does not exist here",
    );
    let (mut one, two) = (
        project.start(),
        project.command(&["run", "--headless", "--trust", "--force", "-s", "two"]),
    );
    one.wait_for("prompt_sent");
    let mut below = project.command(&["status", "--json"]);
    let status = Ran::of(
        &below
            .current_dir(project.root().join("sub"))
            .output()
            .expect("creel starts"),
    );
    assert!(
        status.out.contains("\"session\": \"s\""),
        "{}{}",
        status.out,
        status.err
    );

    let mut two = { two }
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("creel starts");
    until("it runs, too", || {
        project.creel(&["status", "-s", "two"]).code == 0
    });
    project.rejects(
        &["pause"],
        "several sessions are running; choose one with --session:",
    );
    project.rejects(&["pause"], "\n  two\n");
    let mut own = project.command(&["status", "--json"]);
    let own = Ran::of(
        &own.env("CREEL_SESSION", "two")
            .output()
            .expect("creel starts"),
    );
    assert!(
        own.out.contains("\"session\": \"two\""),
        "{}{}",
        own.out,
        own.err
    );
    // A project that does not exist, or has no such session, does not hide the session here.
    for elsewhere in [project.root().join("moved"), project.root().join("sub")] {
        let mut own = project.command(&["status", "--json"]);
        own.env("CREEL_SESSION", "two")
            .env("CREEL_PROJECT", elsewhere);
        let own = Ran::of(&own.output().expect("creel starts"));
        assert!(
            own.out.contains("\"session\": \"two\""),
            "{}{}",
            own.out,
            own.err
        );
    }
    project.write("go", "");
    assert_eq!(one.end().code, 0);
    assert!(two.wait().expect("it ended").success());
    project.rejects(&["status", "-s", "s"], "session `s` is not running");
}

#[test]
fn an_agent_reaches_its_own_session() {
    let creel = env!("CARGO_BIN_EXE_creel");
    let say = |from: &str, what: &str| format!("cd {from} && '{creel}' message '{what}'");
    let places = [
        (".", "from inside"),
        ("sub", "from a project in it"),
        ("/", "from elsewhere"),
    ];
    let runs: Vec<String> = places
        .iter()
        .map(|(from, what)| format!("\"{}\"", say(from, what)))
        .collect();
    let turn = format!(
        "  - {{ say: one, run: [{}] }}\n  - say: <promise>COMPLETE</promise>\n",
        runs.join(", ")
    );
    let hook = format!(
        "agent_may: [message]\nhooks: {{ session_start: [{{ command: \"{}\" }}] }}\n",
        say("sub", "from a hook")
    );
    let project = scripted(&hook, &turn).file("sub/creel.yaml", "prompt: OTHER\n");
    assert_eq!(project.run().code, 0);
    let heard: Vec<_> = project
        .kind("message_queued")
        .iter()
        .map(|record| record["text"].to_string())
        .collect();
    let sent = ["from a hook"]
        .into_iter()
        .chain(places.map(|(_, what)| what))
        .map(|what| format!("\"{what}\""));
    assert_eq!(heard, sent.collect::<Vec<_>>());
    assert!(project.prompts()[1].1.contains("from inside"));
    let mut shown = project.command(&["show", "s", "--json"]);
    shown
        .current_dir("/")
        .env("CREEL_SESSION", "s")
        .env("CREEL_PROJECT", project.root());
    let shown = Ran::of(&shown.output().expect("creel starts"));
    assert!(
        shown.code == 0 && shown.out.contains("from elsewhere"),
        "{}{}",
        shown.out,
        shown.err
    );
}

// The protocol

#[test]
fn the_page_of_the_socket_shows_what_happens() {
    let (project, session) = working("");
    let mut peer = Peer::of(&project);
    let page = crate::book::blocks(include_str!("../../docs/reference-socket.md"));
    let shown = page
        .iter()
        .find(|block| block.language == "text")
        .expect("the lines");
    let mut lines = shown.text.lines().map(|line| line.split_at("→ ".len()));
    let mut asked = 0;
    while let (Some((_, request)), Some((_, reply))) = (lines.next(), lines.next()) {
        // No gate is open here.
        if !request.contains("gate_answer") {
            asked += 1;
            assert_eq!(
                peer.ask(request),
                serde_json::from_str::<Value>(reply).expect("JSON"),
                "{request}"
            );
        }
    }
    assert_eq!(asked, 2);
    assert_eq!(peer.ask(r#"{"v":1,"do":"unpause"}"#)["ok"], true);
    project.write("go", "");
    assert_eq!(session.end().code, 0);
}

#[test]
fn an_invalid_request_gets_the_reason_and_the_connection_stays() {
    let (project, session) = working("");
    let mut peer = Peer::of(&project);
    let mut refused = |line: &str| {
        let reply = peer.ask(line);
        assert_eq!((&reply["v"], &reply["ok"]), (&1.into(), &false.into()));
        reply["error"].as_str().expect("a reason").to_owned()
    };
    assert_eq!(
        refused(r#"{"v":0,"do":"pause"}"#),
        "version 0 is not supported; this creel supports version 1"
    );
    assert_eq!(
        refused(r#"{"do":"pause"}"#),
        "`v` is missing; this creel supports version 1"
    );
    let verbs = refused(r#"{"v":1,"do":"dance"}"#);
    let verbs = verbs
        .strip_prefix("not a request: unknown verb `dance`. The verbs are: ")
        .expect("a list");
    let page = include_str!("../../docs/reference-socket.md");
    let unlisted: Vec<&str> = verbs
        .split(", ")
        .filter(|verb| !page.contains(&format!("`{verb}`")))
        .collect();
    assert_eq!(unlisted, Vec::<&str>::new(), "the page lists every verb");
    assert!(refused("hello").starts_with("not a request: "));
    assert!(refused(r#"{"v":1,"do":"message"}"#).contains("missing field `text`"));
    assert_eq!(
        peer.ask("\n{\"v\":1,\"do\":\"pause\",\"new\":[]}"),
        json!({"v": 1, "ok": true})
    );
    let status = peer.ask(r#"{"v":1,"do":"status"}"#);
    assert_eq!(
        (&status["ok"], &status["status"]["paused"]),
        (&true.into(), &true.into())
    );
    assert_eq!(peer.ask(r#"{"v":1,"do":"unpause","by":"mcp"}"#)["ok"], true);
    assert_eq!(project.kind("unpaused")[0]["by"], "mcp");
    project.write("go", "");
    assert_eq!(session.end().code, 0);
    assert!(peer.is_closed());
}

#[test]
fn a_refusal_has_a_code_for_programs_on_the_socket_and_with_json() {
    let (project, session) = working("");
    let mut peer = Peer::of(&project);
    assert_eq!(
        peer.ask(r#"{"v":1,"do":"unpause"}"#),
        json!({"v": 1, "ok": false, "error": "the session is not paused", "code": "not_paused"})
    );
    let mut code = |line: &str| peer.ask(line)["code"].clone();
    assert_eq!(code(r#"{"v":1,"do":"dance"}"#), "unknown_verb");
    assert_eq!(code(r#"{"v":7,"do":"pause"}"#), "unsupported_version");
    assert_eq!(code(r#"{"v":1,"do":"message"}"#), "bad_request");
    assert_eq!(
        code(r#"{"v":1,"do":"gate_answer","gate":9,"choice":"approve"}"#),
        "no_such_gate"
    );
    assert_eq!(code(r#"{"v":1,"do":"task_show","id":"x"}"#), "no_such_task");
    let shown = project.creel(&["pending", "show", "9", "--json"]);
    assert_eq!(shown.code, 1, "{}", shown.err);
    let printed: Value = serde_json::from_str(&shown.out).expect("JSON");
    assert_eq!(
        printed,
        json!({"error": "there is no pending item 9", "code": "no_such_item"})
    );
    assert!(
        shown.err.contains("there is no pending item 9"),
        "{}",
        shown.err
    );
    project.write("go", "");
    assert_eq!(session.end().code, 0);
}

#[test]
fn a_line_that_is_too_long_is_refused_and_the_connection_closed() {
    let (project, session) = working("");
    let message = |bytes: usize| {
        let frame = r#"{"v":1,"do":"message","text":""}"#.len();
        format!(
            r#"{{"v":1,"do":"message","text":"{}"}}"#,
            "x".repeat(bytes - frame)
        )
    };
    let mut peer = Peer::of(&project);
    assert_eq!(peer.ask(&message(1 << 20))["ok"], true);
    peer.send(&vec![b'x'; 3 << 20]);
    let reply = peer.line().expect("an answer");
    assert_eq!(
        reply["error"],
        "a request has at most 1048576 bytes; the session closed the connection"
    );
    assert!(peer.is_closed());
    assert_eq!(Peer::of(&project).ask(&message((1 << 20) + 1))["ok"], false);
    assert_eq!(project.kind("message_queued").len(), 1);
    project.does(&["stop", "--now"]);
    session.end();
}

#[test]
fn a_watcher_gets_every_record_once_from_the_requested_one_on() {
    let (project, session) = working("hooks: { stop: [{ command: 'echo ok' }] }");
    let watch = |request: &str| {
        let mut peer = Peer::of(&project);
        assert_eq!(peer.ask(request), json!({"v": 1, "ok": true}));
        peer
    };
    let mut all = watch(r#"{"v":1,"do":"watch","from":1}"#);
    let mut some = watch(r#"{"v":1,"do":"watch","from":4}"#);
    let known = project.tells(&["status", "--json"])["seq"]
        .as_u64()
        .expect("a number");
    let mut new = watch(r#"{"v":1,"do":"watch"}"#);
    let seen: Vec<Value> = (0..known).map(|_| all.line().expect("a record")).collect();
    assert_eq!(seen[..], project.records()[..seen.len()]);
    project.write("go", "");
    assert_eq!(session.end().code, 0);
    let rest = |peer: &mut Peer| std::iter::from_fn(|| peer.line()).collect::<Vec<_>>();
    let records = project.records();
    assert_eq!(rest(&mut all), records[seen.len()..]);
    assert_eq!(rest(&mut some), records[3..]);
    let new = rest(&mut new);
    assert!(!new.is_empty() && records.ends_with(&new));
}

#[test]
fn a_watcher_can_get_hook_output_while_hooks_run() {
    let hook =
        "echo out; until [ -e heard ] || [ ! -e creel.yaml ]; do sleep 0.02; done; echo err >&2";
    let (project, session) = working(&format!("hooks: {{ stop: [{{ command: '{hook}' }}] }}"));
    let mut peer = Peer::of(&project);
    assert_eq!(peer.ask(r#"{"v":1,"do":"watch","live":true}"#)["ok"], true);
    project.write("go", "");
    let pieces = |peer: &mut Peer| loop {
        let line = peer.line().expect("a line");
        if !line["live"].is_null() {
            return line["live"].clone();
        }
    };
    assert_eq!(
        pieces(&mut peer),
        json!({"run": 1, "stream": "stdout", "at": 0, "text": "out\n"})
    );
    project.write("heard", "");
    assert_eq!(
        pieces(&mut peer),
        json!({"run": 1, "stream": "stderr", "at": 4, "text": "err\n"})
    );
    assert_eq!(session.end().code, 0);
    let records: Vec<Value> = std::iter::from_fn(|| peer.line()).collect();
    assert!(project.records().ends_with(&records));
}

// Many clients, and faulty ones

#[test]
fn stuck_clients_block_nothing() {
    const CLIENTS: usize = 25;
    const MESSAGES: usize = 20;
    let flood = "x".repeat(4_000);
    let project = scripted(
        &format!("hooks: {{ session_start: [{{ command: 'printf {flood}' }}] }}"),
        UNTIL_GO,
    );
    let mut session = project.start();
    session.wait_for("prompt_sent");
    let stuck: Vec<Peer> = (0..CLIENTS)
        .map(|n| {
            let mut peer = Peer::of(&project);
            // Some stop in the middle of a request, others never read the answer.
            match n % 3 {
                0 => peer.send(br#"{"v":1,"do":"mess"#),
                1 => peer.send(b"{\"v\":1,\"do\":\"watch\",\"from\":1}\n"),
                _ => (0..200).for_each(|_| peer.send(b"{\"v\":1,\"do\":\"status\"}\n")),
            }
            peer
        })
        .collect();
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let project = &project;
            scope.spawn(move || {
                let mut peer = Peer::of(project);
                for n in 0..MESSAGES {
                    let text = format!("{client} {n} {}", "y".repeat(4_000));
                    let reply =
                        peer.ask(&json!({"v": 1, "do": "message", "text": text}).to_string());
                    assert_eq!(reply, json!({"v": 1, "ok": true}));
                }
            });
        }
    });
    let mut next = [0; CLIENTS];
    for record in project.kind("message_queued") {
        let mut words = record["text"]
            .as_str()
            .expect("text")
            .split(' ')
            .map(str::parse::<usize>);
        let (Some(Ok(client)), Some(Ok(n))) = (words.next(), words.next()) else {
            panic!("{record}")
        };
        assert_eq!(
            n, next[client],
            "the messages of client {client} are out of order"
        );
        next[client] += 1;
    }
    assert_eq!(next, [MESSAGES; CLIENTS]);
    project.write("go", "");
    assert_eq!(session.end().code, 0);
    drop(stuck);
}

#[test]
fn idle_clients_make_room_for_others_and_watchers_stay() {
    let (project, session) = working("");
    let mut watcher = Peer::of(&project);
    assert_eq!(watcher.ask(r#"{"v":1,"do":"watch","from":1}"#)["ok"], true);
    let mut asked = Peer::of(&project);
    assert_eq!(asked.ask(r#"{"v":1,"do":"status"}"#)["ok"], true);
    let mut silent: Vec<Peer> = (0..creel::socket::MOST_CLIENTS)
        .map(|_| Peer::of(&project))
        .collect();
    assert_eq!(project.creel(&["status"]).code, 0);
    project.does(&["pause"]);
    assert!(silent[0].is_closed(), "who was idle for longest has left");
    assert_eq!(
        asked.ask(r#"{"v":1,"do":"status"}"#)["ok"],
        true,
        "who never asked leaves before those who did"
    );
    for peer in &mut silent[64..] {
        assert_eq!(peer.ask(r#"{"v":1,"do":"status"}"#)["ok"], true);
    }
    let fresh: Vec<Peer> = (0..creel::socket::MOST_CLIENTS)
        .map(|_| Peer::of(&project))
        .collect();
    project.does(&["unpause"]);
    while watcher.line().expect("it still watches")["kind"] != "unpaused" {}
    drop((silent, fresh));
    project.does(&["stop", "--now"]);
    session.end();
}

#[test]
fn watchers_leave_room_for_commands() {
    let (project, session) = working("");
    let watch = r#"{"v":1,"do":"watch","from":1}"#;
    let mut peers: Vec<Peer> = (0..creel::socket::MOST_WATCHERS)
        .map(|_| Peer::of(&project))
        .collect();
    for peer in &mut peers {
        assert_eq!(peer.ask(watch)["ok"], true);
    }
    assert_eq!(
        Peer::of(&project).ask(watch)["error"],
        "too many clients watch this session (the limit is 112)"
    );
    assert_eq!(project.creel(&["status"]).code, 0);
    drop(peers);
    until("there is room", || {
        Peer::of(&project).ask(watch)["ok"] == true
    });
    project.does(&["stop", "--now"]);
    session.end();
}

// Start and end of the socket

#[test]
fn only_the_owner_can_reach_a_session_and_its_socket_ends_with_it() {
    for signal in [
        None,
        Some(Signal::TERM),
        Some(Signal::INT),
        Some(Signal::HUP),
    ] {
        let (project, session) = working("");
        let socket = socket_of(&project).expect("it says where it is");
        let mode = |path: &std::path::Path| {
            fs::metadata(path)
                .expect("it is there")
                .permissions()
                .mode()
                & 0o777
        };
        assert_eq!(
            (mode(&socket), mode(socket.parent().expect("a folder"))),
            (0o600, 0o700)
        );
        match signal {
            Some(signal) => session.signal(signal),
            None => project.write("go", ""),
        }
        session.end();
        assert!(
            !socket.exists() && socket_of(&project).is_none(),
            "{signal:?}"
        );
    }
}

#[test]
fn the_socket_of_a_killed_session_is_recognised_and_removed() {
    let (project, session) = working("");
    let socket = socket_of(&project).expect("it says where it is");
    session.kill();
    assert!(socket.exists());
    project.rejects(&["status", "-s", "s"], "session `s` is not running");
    assert!(!socket.exists() && socket_of(&project).is_none());
}

#[test]
fn a_resumed_session_can_be_reached_again() {
    let (project, session) = working("");
    let socket = socket_of(&project).expect("it says where it is");
    eventually_in(&project.root().join("turn"));
    session.kill();
    fs::remove_file(project.root().join("turn")).expect("it was there");
    let mut resumed = project
        .command(&["resume", "s", "--headless"])
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    eventually_in(&project.root().join("turn"));
    let status = project.creel(&["status", "--json"]);
    let cleared = !socket.exists();
    project.write("go", "");
    assert!(resumed.wait().expect("it ended").success());
    assert!(
        status.out.contains("\"iteration\": 1"),
        "{}{}",
        status.out,
        status.err
    );
    assert!(cleared, "what the dead one left is cleared by the next");
}
