//! The records of a session in a `JetStream` stream: in order, exactly once, however often the
//! server or creel dies.

use std::{
    fs,
    process::{Child, Command, Stdio},
    time::Duration,
};

use async_nats::jetstream::stream::{Config, DiscardPolicy};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{
    PATIENCE,
    nats::{NatsServer, Stored},
    project::{Project, Started, until},
};

/// A turn that lasts until the file `go` exists.
pub(crate) const UNTIL_GO: &str =
    "  - { say: 'working', run: 'until [ -e go ] || [ ! -e creel.yaml ]; do sleep 0.02; done' }\n";
const COMPLETE: &str = "  - say: '<promise>COMPLETE</promise>'\n";

/// A project with a scripted agent and a server.
pub(crate) fn project(url: &str, rest: &str, turns: &str) -> Project {
    let config = format!(
        "prompt: GOAL\nagents: {{ demo: {{ script: scenario.yaml }} }}\nnats: {{ url: '{url}' }}\n{rest}"
    );
    Project::with(&config).file(
        "scenario.yaml",
        &format!("turns:\n{turns}otherwise: {{ say: '<promise>COMPLETE</promise>' }}\n"),
    )
}

/// The lines of the journal.
pub(crate) fn journal(project: &Project) -> Vec<String> {
    fs::read_to_string(project.journal())
        .unwrap_or_default()
        .lines()
        .map(str::to_owned)
        .collect()
}

/// The records in the stream, as lines.
pub(crate) fn texts(stored: &[Stored]) -> Vec<String> {
    stored.iter().map(|stored| stored.text.clone()).collect()
}

pub(crate) fn link(project: &Project) -> Value {
    project.tells(&["status", "--json"])["nats"].clone()
}

/// Waits until the server has all records. The status does not count what is on its way, so the
/// saved position counts too.
#[track_caller]
pub(crate) fn until_sent(project: &Project) {
    let outbox = project.journal().with_file_name("outbox");
    until("everything is sent", || {
        let text = fs::read_to_string(&outbox).unwrap_or_default();
        let place: Value = serde_json::from_str(&text).unwrap_or_default();
        link(project) == json!({ "state": "connected", "behind": 0 })
            && place["seq"].as_u64()
                == project
                    .records()
                    .last()
                    .and_then(|last| last["seq"].as_u64())
    });
}

/// Waits until the last turn is at [`UNTIL_GO`]. From there, the session records nothing until the
/// file `go` exists.
pub(crate) fn until_it_waits(project: &Project) {
    until("the turn waits", || {
        let records = project.records();
        let start = records
            .iter()
            .rposition(|record| record["kind"] == "prompt_sent")
            .unwrap_or(records.len());
        let turn = &records[start..];
        let has = |kind: &str| turn.iter().any(|record| record["kind"] == kind);
        ["agent_said", "tool_called", "process_started"]
            .into_iter()
            .all(has)
    });
}

/// The same for a session whose second turn waits.
fn until_the_second_turn(project: &Project, session: &mut Started) {
    session.wait_for("prompt_sent");
    session.wait_for("prompt_sent");
    until_it_waits(project);
}

// In order, and once

/// Starts a session, and kills it when the server has all its records.
pub(crate) fn killed_in_a_turn(project: &Project) {
    let session = project.start();
    until_it_waits(project);
    until_sent(project);
    session.kill();
}

#[test]
fn the_stream_has_the_journal_under_the_subjects_of_the_contract() {
    let server = NatsServer::start();
    let project = project(
        &server.url(),
        "hooks: { session_start: [{ name: h, command: 'true' }] }",
        COMPLETE,
    );
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}", ran.err);
    let stored = server.stored("CREEL");
    assert_eq!(texts(&stored), journal(&project));
    let id = project.kind("session_started")[0]["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    for (seq, message) in (1..).zip(&stored) {
        assert_eq!(
            (&message.id, message.session.as_deref()),
            (&format!("s:{seq}"), Some(id.as_str()))
        );
    }
    let subjects: Vec<&str> = stored
        .iter()
        .map(|stored| stored.subject.as_str())
        .collect();
    for subject in [
        "session.started",
        "hook.finished",
        "agent.said",
        "iteration.completed",
        "session.ended",
    ] {
        assert!(
            subjects.contains(&format!("creel.events.s.{subject}").as_str()),
            "{subjects:?}"
        );
    }
    assert!(
        !journal(&project)
            .concat()
            .contains(&server.port().to_string()),
        "no URL in the records"
    );
}

#[test]
fn a_late_server_gets_everything_and_the_session_does_not_wait() {
    let mut server = NatsServer::idle("");
    let project = project(&server.url(), "", &format!("  - say: one\n{UNTIL_GO}"));
    let mut session = project.start();
    until_the_second_turn(&project, &mut session);
    until("it says why not", || link(&project)["state"] == "away");
    let said = project.creel(&["status"]).out;
    assert!(
        said.contains("nats       creel cannot reach the server: ") && said.contains(" behind\n"),
        "{said}"
    );
    server.up();
    until_sent(&project);
    assert!(
        project
            .creel(&["status"])
            .out
            .contains("nats       connected\n")
    );
    project.write("go", "");
    assert_eq!(session.end().code, 0);
    assert_eq!(texts(&server.stored("CREEL")), journal(&project));
}

#[test]
fn unsent_records_are_reported_and_sent_with_the_next_session() {
    let mut server = NatsServer::idle("");
    let project = project(&server.url(), "", COMPLETE);
    let ran = project.run();
    assert_eq!(ran.code, 0);
    assert!(
        ran.err
            .contains("the NATS server does not have all records of the session"),
        "{}",
        ran.err
    );
    // An unreadable session does not block the others.
    project.write(".creel/sessions/torn/journal.jsonl", "what?\n");
    fs::copy(
        project.root().join(".creel/sessions/s/outbox"),
        project.root().join(".creel/sessions/torn/outbox"),
    )
    .expect("it has one");
    assert_eq!(unsent(&project), ["s"]);
    server.up();
    assert_eq!(
        project
            .creel(&["run", "--headless", "--trust", "-s", "t"])
            .code,
        0
    );
    assert_eq!(unsent(&project), [""; 0]);
    let stored = server.stored("CREEL");
    let of = |session: &str| {
        let part = format!("creel.events.{session}.");
        texts(
            &stored
                .iter()
                .filter(|stored| stored.subject.starts_with(&part))
                .cloned()
                .collect::<Vec<_>>(),
        )
    };
    assert_eq!(of("s"), journal(&project));
    assert!(of("t").len() > 5);
}

/// The sessions whose records the next session looks at.
fn unsent(project: &Project) -> Vec<String> {
    let entries = fs::read_dir(project.root().join(".creel/sessions/.unsent")).expect("a folder");
    entries
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("text")
        })
        .collect()
}

#[test]
fn a_new_stream_gets_the_records_of_all_sessions() {
    let server = NatsServer::start();
    let project = project(&server.url(), "", COMPLETE);
    for session in ["s", "t"] {
        assert_eq!(
            project
                .creel(&["run", "--headless", "--trust", "-s", session])
                .code,
            0
        );
    }
    assert_eq!(unsent(&project), [""; 0]);
    server.block_on(async {
        let jetstream = async_nats::jetstream::new(server.client().await);
        jetstream.delete_stream("CREEL").await.expect("it is there");
    });
    assert_eq!(
        project
            .creel(&["run", "--headless", "--trust", "-s", "u"])
            .code,
        0
    );
    let stored = server.stored("CREEL");
    for session in ["s", "t", "u"] {
        let part = format!("creel.events.{session}.");
        assert!(
            stored
                .iter()
                .filter(|stored| stored.subject.starts_with(&part))
                .count()
                > 5,
            "{session}"
        );
    }
    assert_eq!(unsent(&project), [""; 0]);
}

#[test]
fn a_session_without_its_outbox_sends_nothing_twice_even_if_its_name_was_reused() {
    let server = NatsServer::start();
    let (here, there) = (
        project(&server.url(), "", COMPLETE),
        project(&server.url(), "", COMPLETE),
    );
    let run = |project: &Project, session: &str| {
        assert_eq!(
            project
                .creel(&["run", "--headless", "--trust", "-s", session])
                .code,
            0
        );
    };
    run(&here, "s");
    let mut place: Value =
        serde_json::from_str(&here.read(".creel/sessions/s/outbox")).expect("JSON");
    (place["store"], place["seq"], place["offset"]) = ("".into(), 0.into(), 0.into());
    here.write(".creel/sessions/s/outbox", &place.to_string());
    run(&there, "s");
    run(&here, "t");
    let stored = server.stored("CREEL");
    for machine in [&here, &there] {
        let id = machine.kind("session_started")[0]["id"]
            .as_str()
            .expect("an id")
            .to_owned();
        let own: Vec<Stored> = stored
            .iter()
            .filter(|it| it.session.as_ref() == Some(&id))
            .cloned()
            .collect();
        assert_eq!(texts(&own), journal(machine));
    }
}

#[test]
fn a_session_whose_unsent_records_are_being_sent_sends_the_rest_afterwards() {
    let server = NatsServer::start();
    let project = project(&server.url(), "", UNTIL_GO);
    let mut session = project.start();
    session.wait_for("prompt_sent");
    session.kill();
    let outbox =
        fs::File::open(project.root().join(".creel/sessions/s/outbox")).expect("it has one");
    outbox.lock().expect("the lock is free");
    let mut session = Started::of(project.command(&["resume", "s", "--json", "--trust"]));
    session.wait_for("prompt_sent");
    assert_eq!(link(&project)["state"], "connecting");
    drop(outbox);
    until_sent(&project);
    project.write("go", "");
    assert_eq!(session.end().code, 0);
    assert_eq!(texts(&server.stored("CREEL")), journal(&project));
}

#[test]
fn a_restarted_server_misses_nothing_even_after_its_duplicate_window() {
    let mut server = NatsServer::start();
    // Here the server soon forgets message ids.
    server.create(Config {
        name: "CREEL".into(),
        subjects: vec!["creel.events.>".into()],
        duplicate_window: Duration::from_millis(100),
        ..Config::default()
    });
    let project = project(&server.url(), "", &format!("  - say: one\n{UNTIL_GO}"));
    let mut session = project.start();
    until_the_second_turn(&project, &mut session);
    until_sent(&project);
    server.kill();
    until("it is seen", || link(&project)["state"] == "away");
    project.does(&["message", "said while the server was away"]);
    until("it is counted", || link(&project)["behind"] == 1);
    server.up();
    until_sent(&project);
    project.write("go", "");
    assert_eq!(session.end().code, 0);
    assert_eq!(texts(&server.stored("CREEL")), journal(&project));
}

#[test]
fn a_server_that_lost_its_storage_gets_the_whole_journal_again() {
    let mut server = NatsServer::start();
    let project = project(&server.url(), "", &format!("  - say: one\n{UNTIL_GO}"));
    let mut session = project.start();
    until_the_second_turn(&project, &mut session);
    until_sent(&project);
    server.kill();
    server.forget();
    server.up();
    until("it is sent again", || {
        server.count("CREEL") >= journal(&project).len() as u64
    });
    project.write("go", "");
    assert_eq!(session.end().code, 0);
    assert_eq!(texts(&server.stored("CREEL")), journal(&project));
}

#[test]
fn a_killed_creel_continues_where_the_stream_ends() {
    let server = NatsServer::start();
    let project = project(&server.url(), "", &format!("  - say: one\n{UNTIL_GO}"));
    killed_in_a_turn(&project);
    // Even if creel no longer knows how far that was.
    fs::remove_file(project.root().join(".creel/sessions/s/outbox")).expect("it was there");
    project.write("go", "");
    assert_eq!(project.creel(&["resume", "s", "--headless"]).code, 0);
    assert_eq!(texts(&server.stored("CREEL")), journal(&project));
}

#[test]
fn sessions_with_a_reused_name_are_kept_apart() {
    let server = NatsServer::start();
    let first = project(&server.url(), "", COMPLETE);
    let second = project(&server.url(), "", COMPLETE);
    assert_eq!((first.run().code, second.run().code), (0, 0));
    let stored = server.stored("CREEL");
    let all: Vec<String> = journal(&first)
        .into_iter()
        .chain(journal(&second))
        .collect();
    assert_eq!(texts(&stored), all);
    let id = second.kind("session_started")[0]["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    assert_eq!(stored[journal(&first).len()].id, format!("s:{id}:1"));
    // The name refers to the newest session.
    let shown = first.creel(&["show", "s", "--json", "--nats", &server.url()]);
    assert_eq!(
        shown.out.lines().collect::<Vec<_>>(),
        journal(&second),
        "{}",
        shown.err
    );
}

#[test]
fn two_running_sessions_with_one_name_do_not_affect_each_other() {
    let server = NatsServer::start();
    let both = [
        project(&server.url(), "", UNTIL_GO),
        project(&server.url(), "", UNTIL_GO),
    ];
    let mut sessions = both.each_ref().map(Project::start);
    for session in &mut sessions {
        session.wait_for("prompt_sent");
    }
    both.iter().for_each(until_sent);
    let ids = both.each_ref().map(|project| {
        project.kind("session_started")[0]["id"]
            .as_str()
            .expect("an id")
            .to_owned()
    });
    let mut meant = async_nats::HeaderMap::new();
    meant.insert("Creel-Session", ids[1].as_str());
    let paused = server.ask_with(
        "creel.commands.s",
        meant,
        r#"{"v":1,"do":"pause"}"#,
        PATIENCE,
    );
    assert_eq!(paused.map(|answer| answer["ok"].clone()), Some(true.into()));
    assert_eq!(
        both.each_ref().map(|project| project.kind("paused").len()),
        [0, 1]
    );
    both[1].does(&["unpause"]);
    for (project, session) in both.iter().zip(sessions) {
        project.write("go", "");
        assert_eq!(session.end().code, 0);
    }
    let stored = server.stored("CREEL");
    for (project, id) in both.iter().zip(&ids) {
        let own: Vec<Stored> = stored
            .iter()
            .filter(|stored| stored.session.as_ref() == Some(id))
            .cloned()
            .collect();
        assert_eq!(texts(&own), journal(project));
    }
}

#[test]
fn a_slow_server_does_not_block_the_session() {
    let server = NatsServer::start();
    let project = project(&server.url(), "", UNTIL_GO);
    let session = project.start();
    until_it_waits(&project);
    until_sent(&project);
    server.signal(Signal::STOP);
    project.does(&["message", "said to a session whose server sleeps"]);
    until("it is counted", || link(&project)["behind"] == 1);
    server.signal(Signal::CONT);
    until_sent(&project);
    project.write("go", "");
    assert_eq!(session.end().code, 0);
    assert_eq!(texts(&server.stored("CREEL")), journal(&project));
}

#[test]
fn a_record_too_large_for_a_message_is_sent_in_parts() {
    let server = NatsServer::with("max_payload: 8192");
    let hook = "hooks: { session_start: [{ name: h, command: 'head -c 15000 /dev/zero | tr \"\\\\0\" x' }] }";
    let project = project(&server.url(), hook, COMPLETE);
    assert_eq!(project.run().code, 0);
    let stored = server.stored("CREEL");
    assert_eq!(texts(&stored).concat(), journal(&project).concat());
    assert!(
        stored.iter().any(|stored| stored.id.ends_with(".2")),
        "in parts"
    );
    let shown = project.creel(&["show", "s", "--json", "--nats", &server.url()]);
    assert_eq!(
        shown.out.lines().collect::<Vec<_>>(),
        journal(&project),
        "{}",
        shown.err
    );
}

// The stream

#[test]
fn an_existing_stream_is_used_unchanged_and_differences_are_reported() {
    let server = NatsServer::start();
    let wanted = Config {
        name: "CREEL".into(),
        subjects: vec!["creel.>".into()],
        max_age: Duration::from_hours(1),
        ..Config::default()
    };
    server.create(wanted);
    let project = project(&server.url(), "", UNTIL_GO);
    let session = project.start();
    until("it is told", || !project.kind("warning").is_empty());
    project.write("go", "");
    assert_eq!(session.end().code, 0);
    let warnings = project.kind("warning");
    let said = warnings[0]["text"].as_str().expect("text");
    assert_eq!(
        said,
        "the NATS stream CREEL differs from the config: subjects: creel.> instead of creel.events.>; \
         max_age: 1 h instead of forever"
    );
    assert_eq!(texts(&server.stored("CREEL")), journal(&project));
}

#[test]
fn a_full_stream_is_reported_and_does_not_block_the_session() {
    let server = NatsServer::start();
    server.create(Config {
        name: "CREEL".into(),
        subjects: vec!["creel.events.>".into()],
        max_messages: 3,
        discard: DiscardPolicy::New,
        ..Config::default()
    });
    let project = project(&server.url(), "", UNTIL_GO);
    let mut session = project.start();
    session.wait_for("prompt_sent");
    until("it says why", || {
        link(&project)["why"]
            .as_str()
            .is_some_and(|why| why.contains("maximum messages exceeded"))
    });
    project.write("go", "");
    assert_eq!(session.end().code, 0);
    assert_eq!(texts(&server.stored("CREEL")), journal(&project)[..3]);
}

#[test]
fn records_removed_from_the_stream_are_not_sent_again() {
    let server = NatsServer::start();
    let project = project(&server.url(), "", &format!("  - say: one\n{UNTIL_GO}"));
    killed_in_a_turn(&project);
    let sent = server.count("CREEL");
    server.block_on(async {
        let stream = async_nats::jetstream::new(server.client().await)
            .get_stream("CREEL")
            .await
            .expect("a stream");
        stream.purge().await.expect("an empty stream");
    });
    project.write("go", "");
    assert_eq!(project.creel(&["resume", "s", "--headless"]).code, 0);
    let sent = usize::try_from(sent).expect("a few");
    assert_eq!(texts(&server.stored("CREEL")), journal(&project)[sent..]);
}

// Logging in

#[test]
fn every_way_to_log_in_works_and_leaves_no_secret() {
    let seed = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";
    let user = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4";
    let cases = [
        (
            "authorization { user: me, password: hunter2 }",
            "",
            "me:hunter2@",
            "",
        ),
        (
            "authorization { user: me, password: hunter2 }",
            "user: me, password: '${SECRET}'",
            "",
            "",
        ),
        (
            "authorization { token: hunter2 }",
            "token: '${SECRET}'",
            "",
            "",
        ),
        ("authorization { token: hunter2 }", "", "${SECRET}@", ""),
        ("NKEY", "nkey: me.nk", "", seed),
    ];
    for (server, login, in_url, file) in cases {
        let server = NatsServer::with(&server.replace(
            "NKEY",
            &format!("authorization {{ users: [{{ nkey: {user} }}] }}"),
        ));
        let url = format!("nats://{in_url}127.0.0.1:{}", server.port());
        let config = format!(
            "prompt: GOAL\nagents: {{ demo: {{ script: scenario.yaml }} }}\nnats: {{ url: '{url}', {login} }}\n"
        );
        let project = Project::with(&config)
            .file("me.nk", file)
            .file("scenario.yaml", &format!("turns:\n{COMPLETE}"));
        let mut command = project.command(&["run", "--headless", "--trust", "-s", "s"]);
        let ran = command
            .env("SECRET", "hunter2")
            .env("CREEL_LOG", "trace")
            .output()
            .expect("creel starts");
        let said = String::from_utf8_lossy(&ran.stdout).into_owned()
            + &String::from_utf8_lossy(&ran.stderr);
        assert!(
            ran.status.success() && !said.contains("the NATS server does not have"),
            "{login}{in_url}: {said}"
        );
        assert!(!said.contains("hunter2"), "{said}");
        for kept in [
            project.root().join(".creel"),
            project.state_dir().join("creel/log"),
        ] {
            let found = Command::new("grep")
                .args(["-rE", "hunter2|SUACSSL3"])
                .arg(kept)
                .output()
                .expect("grep");
            assert!(
                found.stdout.is_empty(),
                "{}",
                String::from_utf8_lossy(&found.stdout)
            );
        }
    }
}

#[test]
fn a_rejected_login_is_reported() {
    let server = NatsServer::with("authorization { token: hunter2 }");
    let project = project(&server.url_for("wrong-secret"), "", UNTIL_GO);
    let mut session = project.start();
    session.wait_for("prompt_sent");
    until("it says why", || {
        link(&project)["why"] == "the server refused the login"
    });
    project.write("go", "");
    let ran = session.end();
    assert_eq!(ran.code, 0);
    assert!(!ran.err.contains("wrong-secret"), "{}", ran.err);
    let without = crate::nats::project("nats://h", "", COMPLETE);
    without.write(
        "creel.yaml",
        &without
            .read("creel.yaml")
            .replace("'nats://h'", "'nats://${NOT_SET_HERE}@h'"),
    );
    let said = without.run().err;
    assert!(
        said.contains("the environment variable `NOT_SET_HERE`"),
        "{said}"
    );
}

#[test]
fn an_encrypted_connection_trusts_the_configured_authority() {
    let keys = tempfile::tempdir().expect("a folder");
    let run = |line: &str| {
        let ran = Command::new("sh")
            .arg("-ec")
            .arg(line)
            .current_dir(keys.path())
            .output()
            .expect("sh");
        assert!(
            ran.status.success(),
            "{}",
            String::from_utf8_lossy(&ran.stderr)
        );
    };
    let request = "openssl req -newkey rsa:2048 -nodes -subj /CN=x -keyout $1.key";
    run(&format!(
        "set -- ca; {request} -x509 -days 2 -out ca.pem -addext basicConstraints=critical,CA:TRUE"
    ));
    for name in ["server", "me"] {
        run(&format!(
            "set -- {name}; {request} -out $1.csr; printf 'subjectAltName=IP:127.0.0.1\\n' > ext; \
             openssl x509 -req -in $1.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile ext -out $1.pem"
        ));
    }
    let at = |name: &str| keys.path().join(name).display().to_string();
    let tls = format!(
        "tls {{ cert_file: \"{}\", key_file: \"{}\", ca_file: \"{}\", verify: true }}",
        at("server.pem"),
        at("server.key"),
        at("ca.pem")
    );
    let server = NatsServer::with(&tls);
    let trusting = format!(
        "tls: {{ ca: '{}', cert: '{}', key: '{}' }}",
        at("ca.pem"),
        at("me.pem"),
        at("me.key")
    );
    let sent = |more: &str| {
        let project = project(&server.url(), "", COMPLETE);
        let config = project
            .read("creel.yaml")
            .replace("' }\n", &format!("', {more} }}\n"));
        project.write("creel.yaml", &config);
        let ran = project.run();
        assert_eq!(ran.code, 0, "{}", ran.err);
        ran.err
    };
    assert!(!sent(&trusting).contains("the NATS server does not have"));
    assert!(
        sent("tls: true").contains("the NATS server does not have"),
        "an unknown server is not trusted"
    );
}

// Commands

#[test]
fn commands_by_request_mean_what_they_mean_on_the_socket() {
    let server = NatsServer::start();
    let project = project(&server.url(), "", UNTIL_GO);
    let mut session = project.start();
    session.wait_for("prompt_sent");
    until_sent(&project);
    let ask = |line: &str| server.ask("creel.commands.s", line);
    let paused = ask(r#"{"v":1,"do":"pause"}"#);
    assert_eq!(paused, json!({ "v": 1, "ok": true, "at": &paused["at"] }));
    assert!(
        paused["at"].is_string(),
        "every reply tells the session's clock"
    );
    assert_eq!(
        ask(r#"{"v":1,"do":"pause"}"#)["error"],
        "the session is already paused"
    );
    assert_eq!(ask(r#"{"v":1,"do":"status"}"#)["status"]["paused"], true);
    assert_eq!(ask(r#"{"v":1,"do":"unpause","by":"tui"}"#)["ok"], true);
    let by: Vec<Value> = project
        .records()
        .iter()
        .filter_map(|record| record.get("by").cloned())
        .collect();
    assert_eq!(by, ["nats", "nats"]);
    assert_eq!(
        ask("{}")["error"],
        "`v` is missing; this creel supports version 1"
    );
    assert!(
        ask(r#"{"v":1,"do":"watch"}"#)["error"]
            .as_str()
            .expect("a reason")
            .contains("creel.events.s.>")
    );
    let mut other = async_nats::HeaderMap::new();
    other.insert("Creel-Session", "another-id");
    let patience = Duration::from_millis(500);
    assert_eq!(
        server.ask_with(
            "creel.commands.s",
            other,
            r#"{"v":1,"do":"pause"}"#,
            patience
        ),
        None
    );
    let id = project.kind("session_started")[0]["id"].clone();
    let mark = format!("{}/turn-1", id.as_str().expect("an id"));
    for verb in ["tool_ended", "decide_tool"] {
        let call = serde_json::json!({"call": "1", "title": "make test", "status": "completed"});
        let forged = serde_json::json!({"v": 1, "do": verb, "mark": mark, "call": call});
        assert_eq!(ask(&forged.to_string())["code"], "not_the_agent");
    }
    assert_eq!(
        ask(r#"{"v":1,"do":"task","task":{"add":{"goal":"x"}}}"#)["added"],
        "task_1"
    );
    project.write("go", "");
    assert_eq!(session.end().code, 0);
}

#[test]
fn of_two_answers_to_one_gate_from_two_machines_the_first_counts() {
    let server = NatsServer::start();
    let rest = "gates: { delivery: ask, timeout: 1h }\n\
                hooks: { post_iteration: [{ name: a, pipe_output: true, command: '[ $CREEL_ITERATION != 1 ] || echo red' }] }";
    let project = project(&server.url(), rest, &format!("  - say: one\n{UNTIL_GO}"));
    let mut session = project.start();
    session.wait_for("gate_opened");
    until_sent(&project);
    let answers: Vec<Value> = std::thread::scope(|scope| {
        let answer = |choice: &'static str| {
            let line = format!(r#"{{"v":1,"do":"gate_answer","gate":1,"choice":"{choice}"}}"#);
            let server = &server;
            scope.spawn(move || server.ask("creel.commands.s", &line))
        };
        [answer("approve"), answer("skip")]
            .into_iter()
            .map(|answer| answer.join().expect("an answer"))
            .collect()
    });
    let refused: Vec<&Value> = answers
        .iter()
        .filter(|answer| answer["ok"] == false)
        .collect();
    assert_eq!(refused.len(), 1, "{answers:?}");
    assert_eq!(refused[0]["error"], "gate 1 was already answered");
    assert_eq!(project.kind("gate_answered")[0]["by"], "nats");
    project.write("go", "");
    assert_eq!(session.end().code, 0);
}

// Tasks of other programs

#[test]
fn a_task_completed_by_another_program_fires_its_hook_once() {
    let mut server = NatsServer::start();
    let rest = "hooks: { on_task_complete: [{ name: t, command: 'echo \"{{task_id}} {{task_content}}\" >> done' }] }";
    let config = project(&server.url(), rest, UNTIL_GO)
        .read("creel.yaml")
        .replace("' }\n", "', prefix: iteratr }\n");
    let project = project(&server.url(), rest, UNTIL_GO).file("creel.yaml", &config);
    server.publish(
        "iteratr.events.s.task.completed",
        r#"{"task_id":"before","content":"too early"}"#,
    );
    let mut session = project.start();
    session.wait_for("prompt_sent");
    until_sent(&project);
    let subject = "iteratr.events.s.task.completed";
    for _ in 0..2 {
        server.publish(
            subject,
            r#"{"task_id":"t-1","content":"write $(it) \"down\""}"#,
        );
    }
    server.publish(subject, r#"{"id":"t-2","goal":"as others say it"}"#);
    server.publish(subject, "nonsense");
    until("the hooks ran", || {
        project.read("done").lines().count() == 2
    });
    until("the nonsense was told", || {
        !project.kind("warning").is_empty()
    });
    // Messages that arrive while the session does not listen are found in the stream.
    session.signal(Signal::STOP);
    server.publish_for_good(subject, r#"{"task_id":"t-3","content":"in between"}"#);
    server.kill();
    session.signal(Signal::CONT);
    server.up();
    until("that hook ran, too", || {
        project.read("done").lines().count() == 3
    });
    project.write("go", "");
    assert_eq!(session.end().code, 0);
    assert_eq!(
        project.read("done"),
        "t-1 write $(it) \"down\"\nt-2 as others say it\nt-3 in between\n"
    );
    assert_eq!(project.kind("task_completed").len(), 3);
    let warning = project.kind("warning")[0]["text"]
        .as_str()
        .expect("text")
        .to_owned();
    assert!(
        warning.starts_with("creel does not understand a completed task from NATS"),
        "{warning}"
    );
    let ours: Vec<Stored> = server
        .stored("CREEL")
        .into_iter()
        .filter(|stored| stored.session.is_some())
        .collect();
    assert_eq!(texts(&ours), journal(&project));
}

// Kills

/// An agent that sends many updates in each turn.
const MANY: &str = r#"while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\("[^"]*"\).*/\1/p')
  case $line in
    *'"initialize"'*) result='{"protocolVersion":1}' ;;
    *'"session/new"'*) result='{"sessionId":"s"}' ;;
    *'"session/prompt"'*) cat updates.jsonl; result='{"stopReason":"end_turn"}' ;;
    *) continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done"#;

/// Updates per turn, and turns: more than 10,000 records.
const UPDATES: usize = 500;
const TURNS: usize = 20;

fn update(n: usize) -> Value {
    let update = json!({
        "sessionUpdate": "tool_call_update", "toolCallId": format!("call-{n}"), "title": format!("Edit file {n}"),
        "kind": "edit", "status": "completed",
    });
    json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": "s", "update": update } })
}

/// Reproducible random numbers.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn spawned(project: &Project, args: &[&str]) -> Child {
    project
        .command(args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("creel starts")
}

/// `CREEL_NATS_KILLS` sets how often; `CREEL_NATS_SEED` when.
#[test]
fn the_stream_has_exactly_the_journal_whatever_is_killed_and_when() {
    let number = |name: &str, default: u64| {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(default)
    };
    let (kills, seed) = (
        number("CREEL_NATS_KILLS", 10),
        number("CREEL_NATS_SEED", u64::from(std::process::id())),
    );
    let mut chance = Chance(seed);
    let mut server = NatsServer::start();
    let updates: String = (0..UPDATES).map(|n| format!("{}\n", update(n))).collect();
    let config = format!(
        "prompt: GOAL\nmax_iterations: {TURNS}\nagents: {{ a: {{ acp: 'sh agent.sh' }} }}\nnats: {{ url: '{}' }}\n",
        server.url()
    );
    let project = Project::with(&config)
        .file("agent.sh", MANY)
        .file("updates.jsonl", &updates);
    let mut creel = spawned(&project, &["run", "--headless", "--trust", "-s", "s"]);
    let recorded = || fs::metadata(project.journal()).map_or(0, |meta| meta.len());
    for _ in 0..kills {
        let wanted = recorded() + chance.below(4_000_000 / kills.max(1));
        until("it goes on, or is over", || {
            recorded() >= wanted || project.outcome_is_there()
        });
        let (server_dies, creel_dies) = [(true, false), (false, true), (true, true)]
            [usize::try_from(chance.below(3)).expect("small")];
        if server_dies {
            server.kill();
        }
        if creel_dies {
            let _ = creel.kill();
            creel.wait().expect("it is gone");
        }
        if server_dies {
            server.up();
        }
        if creel_dies && !project.outcome_is_there() {
            creel = spawned(&project, &["resume", "s", "--headless"]);
        }
    }
    creel.wait().expect("it is gone");
    let of_this = |stored: &Stored| stored.subject.starts_with("creel.events.s.");
    let sent = || {
        server
            .stored("CREEL")
            .into_iter()
            .filter(of_this)
            .collect::<Vec<Stored>>()
    };
    // The next sessions send what was left, each for some seconds.
    let mut next = (0..20).map(|n| format!("t{n}"));
    while sent().len() < journal(&project).len()
        && let Some(name) = next.next()
    {
        project.creel(&["run", "--headless", "--trust", "-s", &name, "-n", "1"]);
    }
    let (stored, journal) = (texts(&sent()), journal(&project));
    assert!(journal.len() > 10_000, "{} records", journal.len());
    assert!(
        stored == journal,
        "seed {seed}: {} messages for {} records",
        stored.len(),
        journal.len()
    );
}

impl Project {
    /// Whether the session has ended, without reading the whole journal.
    fn outcome_is_there(&self) -> bool {
        let ran = Command::new("tail")
            .args(["-n", "1"])
            .arg(self.journal())
            .output()
            .expect("tail");
        String::from_utf8_lossy(&ran.stdout).contains("\"kind\":\"session_ended\"")
    }
}
