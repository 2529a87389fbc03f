//! Servers, streams and messages that creel did not expect, or that are hostile.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use async_nats::jetstream::stream::Config;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    nats::{UNTIL_GO, journal, killed_in_a_turn, link, project, texts, until_it_waits, until_sent},
    nats_elsewhere::{WIDE, two_machines},
    nats_live::Listener,
    support::{
        nats::{NatsServer, Stored},
        project::{Project, until},
        terminal::Terminal,
    },
};

const COMPLETE: &str = "  - say: '<promise>COMPLETE</promise>'\n";
/// A hook whose record does not fit into 8 KiB.
const LONG: &str =
    "hooks: { session_start: [{ name: h, command: 'head -c 15000 /dev/zero | tr \"\\\\0\" x' }] }";

/// The stream of the records with other settings.
fn stream(different: Config) -> Config {
    Config {
        name: "CREEL".into(),
        subjects: vec!["creel.events.>".into()],
        ..different
    }
}

/// A stream's records of a session.
fn of(project: &Project, stored: &[Stored]) -> Vec<String> {
    let id = project.kind("session_started")[0]["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    texts(
        &stored
            .iter()
            .filter(|stored| stored.session.as_ref() == Some(&id))
            .cloned()
            .collect::<Vec<_>>(),
    )
}

fn purge(server: &NatsServer) {
    server.block_on(async {
        let stream = async_nats::jetstream::new(server.client().await)
            .get_stream("CREEL")
            .await
            .expect("a stream");
        stream.purge().await.expect("an empty stream");
    });
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp")
        .arg("-r")
        .args([from, to])
        .status()
        .expect("a shell's tool");
    assert!(copied.success());
}

#[test]
fn records_for_one_server_are_not_sent_to_another() {
    let (one, other) = (NatsServer::start(), NatsServer::start());
    let project = project(&one.url(), "", COMPLETE);
    assert_eq!(project.run().code, 0);
    let config = project.read("creel.yaml").replace(&one.url(), &other.url());
    project.write("creel.yaml", &config);
    assert_eq!(
        project
            .creel(&["run", "--headless", "--trust", "-s", "t"])
            .code,
        0
    );
    let stored = other.stored("CREEL");
    assert!(
        stored
            .iter()
            .all(|stored| stored.subject.starts_with("creel.events.t.")),
        "{stored:?}"
    );
    assert!(stored.len() > 5);
    assert_eq!(texts(&one.stored("CREEL")), journal(&project));
}

#[test]
fn a_server_behind_a_variable_is_another_one_when_the_variable_is() {
    let servers = [NatsServer::start(), NatsServer::start()];
    let project = project("${PLACE}", "", COMPLETE);
    for (session, server) in ["s", "t"].iter().zip(&servers) {
        let mut command = project.command(&["run", "--headless", "--trust", "-s", session]);
        let ran = command
            .env("PLACE", server.url())
            .output()
            .expect("creel starts");
        assert!(
            ran.status.success(),
            "{}",
            String::from_utf8_lossy(&ran.stderr)
        );
    }
    let stored = servers[1].stored("CREEL");
    assert!(
        stored
            .iter()
            .all(|stored| stored.subject.starts_with("creel.events.t.")),
        "{stored:?}"
    );
    assert_eq!(texts(&servers[0].stored("CREEL")), journal(&project));
}

#[test]
fn records_that_a_stream_removed_are_not_sent_again_even_without_the_outbox() {
    let server = NatsServer::start();
    let project = project(&server.url(), "", &format!("  - say: one\n{UNTIL_GO}"));
    killed_in_a_turn(&project);
    server.block_on(async {
        let stream = async_nats::jetstream::new(server.client().await)
            .get_stream("CREEL")
            .await
            .expect("a stream");
        stream.purge().sequence(3).await.expect("it has more");
    });
    project.write(".creel/sessions/s/outbox", "");
    project.write("go", "");
    assert_eq!(project.creel(&["resume", "s", "--headless"]).code, 0);
    assert_eq!(texts(&server.stored("CREEL")), journal(&project)[2..]);
}

#[test]
fn the_server_never_searches_the_records_of_others() {
    let server = NatsServer::start();
    let project = project(&server.url(), "", &format!("  - say: one\n{UNTIL_GO}"));
    let mut asked = Listener::new(&server, "$JS.API.STREAM.MSG.GET.CREEL");
    killed_in_a_turn(&project);
    let own = server.count("CREEL");
    (0..20).for_each(|n| {
        server.publish_for_good("creel.events.other.a.thing", &format!("{{\"n\":{n}}}"));
    });
    project.write(".creel/sessions/s/outbox", "");
    project.write("go", "");
    assert_eq!(project.creel(&["resume", "s", "--headless"]).code, 0);
    // The server has an index for exact subjects. For a wildcard it visits message by message.
    let requests = std::iter::from_fn(|| asked.next_within(Duration::from_millis(300)));
    let requests: Vec<Value> = requests
        .map(|asked| serde_json::from_slice(&asked.payload).expect("JSON"))
        .collect();
    let wild = |request: &&Value| {
        request["next_by_subj"]
            .as_str()
            .is_some_and(|subject| subject.contains('>'))
    };
    let from: Vec<u64> = requests
        .iter()
        .filter(wild)
        .map(|request| request["seq"].as_u64().expect("one"))
        .collect();
    assert_eq!(from, (1..=own).collect::<Vec<_>>(), "{requests:?}");
    assert_eq!(of(&project, &server.stored("CREEL")), journal(&project));
}

#[test]
fn a_stream_from_which_the_last_records_were_deleted_gets_them_again_and_the_rest() {
    let server = NatsServer::start();
    server.create(stream(Config {
        duplicate_window: Duration::from_millis(200),
        ..Config::default()
    }));
    let project = project(&server.url(), "", &format!("  - say: one\n{UNTIL_GO}"));
    let mut session = project.start();
    session.wait_for_one("agent_said", |said| said["text"] == "working");
    until_sent(&project);
    session.kill();
    assert!(!server.has_seen("creel.events.other.a.thing", "the last"));
    server.block_on(async {
        let stream = async_nats::jetstream::new(server.client().await)
            .get_stream("CREEL")
            .await
            .expect("a stream");
        // If an older message has the same subject, the server continues its search for the last
        // one from there.
        while let Ok(last) = stream
            .get_last_raw_message_by_subject("creel.events.s.>")
            .await
        {
            stream
                .delete_message(last.sequence)
                .await
                .expect("it is there");
        }
    });
    let left = of(&project, &server.stored("CREEL"));
    assert!(left.len() > 4, "{left:?}");
    let shown = Project::new().creel(&["show", "s", "--json", "--nats", &server.url()]);
    assert_eq!(shown.out.lines().collect::<Vec<_>>(), left, "{}", shown.err);
    until("the server has forgotten what it had", || {
        !server.has_seen("creel.events.other.a.thing", "the last")
    });
    project.write(".creel/sessions/s/outbox", "");
    project.write("go", "");
    assert_eq!(project.creel(&["resume", "s", "--headless"]).code, 0);
    let mut stored = of(&project, &server.stored("CREEL"));
    stored.sort_by_key(|text| serde_json::from_str::<Value>(text).expect("JSON")["seq"].as_u64());
    assert_eq!(stored, journal(&project));
}

#[test]
fn a_restored_stream_gets_the_missing_records_even_if_others_wrote_since() {
    let mut server = NatsServer::start();
    let project = project(&server.url(), "", UNTIL_GO);
    let mut session = project.start();
    session.wait_for("prompt_sent");
    until_sent(&project);
    let (store, backup): (PathBuf, PathBuf) = (server.path("js"), server.path("backup"));
    server.kill();
    copy(&store, &backup);
    server.up();
    until_sent(&project);
    for n in 0..5 {
        project.does(&["message", &format!("number {n}")]);
    }
    until_sent(&project);
    session.signal(Signal::STOP);
    server.kill();
    server.forget();
    copy(&backup, &store);
    server.up();
    for n in 0..20 {
        server.publish_for_good("creel.events.other.a.thing", &format!("{{\"n\":{n}}}"));
    }
    session.signal(Signal::CONT);
    until("what it lost is there again", || {
        let stored = server.stored("CREEL");
        texts(&stored)
            .iter()
            .filter(|text| text.contains("number 4"))
            .count()
            == 1
    });
    project.write("go", "");
    assert_eq!(session.end().code, 0);
    assert_eq!(of(&project, &server.stored("CREEL")), journal(&project));
    let shown = Project::new().creel(&["show", "s", "--json", "--nats", &server.url()]);
    assert_eq!(
        shown.out.lines().collect::<Vec<_>>(),
        journal(&project),
        "{}",
        shown.err
    );
}

#[test]
fn remembered_message_ids_do_not_suppress_a_later_session_of_the_same_name() {
    let server = NatsServer::start();
    let [one, other] = [
        project(&server.url(), "", COMPLETE),
        project(&server.url(), "", COMPLETE),
    ];
    assert_eq!(one.run().code, 0);
    purge(&server);
    assert_eq!(other.run().code, 0);
    assert_eq!(texts(&server.stored("CREEL")), journal(&other));
}

#[test]
fn a_stream_with_a_small_message_limit_gets_long_records_in_parts() {
    let server = NatsServer::start();
    server.create(stream(Config {
        max_message_size: 8192,
        ..Config::default()
    }));
    let project = project(&server.url(), LONG, COMPLETE);
    assert_eq!(project.run().code, 0);
    assert_eq!(
        texts(&server.stored("CREEL")).concat(),
        journal(&project).concat()
    );
}

#[test]
fn a_stream_with_a_tiny_message_limit_is_reported() {
    let server = NatsServer::start();
    server.create(stream(Config {
        max_message_size: 512,
        ..Config::default()
    }));
    let project = project(&server.url(), "", UNTIL_GO);
    let mut session = project.start();
    session.wait_for("prompt_sent");
    until("it says why", || {
        link(&project)["why"]
            == "the stream CREEL allows messages of 512 B, but creel needs at least 1024 B. Raise the stream's `max_msg_size`, or set another `stream` under `nats:`"
    });
    project.write("go", "");
    assert_eq!(session.end().code, 0);
    assert_eq!(server.count("CREEL"), 0);
}

#[test]
fn a_record_with_more_parts_than_fit_in_flight_arrives() {
    let server = NatsServer::with("max_payload: 2048");
    let hook = "output_limit: 3000000\nhooks: { session_start: [{ name: h, pipe_output: true, \
                command: 'head -c 2000000 /dev/zero | tr \"\\\\0\" x' }] }";
    let project = project(&server.url(), hook, UNTIL_GO);
    let session = project.start();
    until_it_waits(&project);
    until_sent(&project);
    project.write("go", "");
    assert_eq!(session.end().code, 0);
    assert_eq!(
        texts(&server.stored("CREEL")).concat(),
        journal(&project).concat()
    );
}

#[test]
fn a_session_without_its_beginning_is_reported_as_such() {
    let server = NatsServer::start();
    server.create(stream(Config {
        max_messages: 3,
        ..Config::default()
    }));
    let project = project(&server.url(), "", COMPLETE);
    assert_eq!(project.run().code, 0);
    let shown = project.creel(&["show", "s", "--nats", &server.url()]);
    assert_eq!(shown.code, 1);
    assert!(
        shown
            .err
            .contains("the stream CREEL no longer has the beginning of `s`"),
        "{}",
        shown.err
    );
}

#[test]
fn a_stream_with_a_gap_is_shown_up_to_it_with_a_warning() {
    let server = NatsServer::start();
    let project = project(&server.url(), "", COMPLETE);
    assert_eq!(project.run().code, 0);
    server.block_on(async {
        let stream = async_nats::jetstream::new(server.client().await)
            .get_stream("CREEL")
            .await
            .expect("a stream");
        stream.delete_message(3).await.expect("it is there");
    });
    let shown = project.creel(&["show", "s", "--json", "--nats", &server.url()]);
    assert_eq!(
        shown.out.lines().collect::<Vec<_>>(),
        journal(&project)[..2]
    );
    assert!(
        shown
            .err
            .contains("record 3 of `s` is missing in the stream CREEL"),
        "{}",
        shown.err
    );
}

#[test]
fn an_answer_too_long_for_the_server_is_refused_with_a_message() {
    let server = NatsServer::with("max_payload: 8192");
    let rest = LONG.replace("name: h,", "name: h, pipe_output: true,");
    let project = project(&server.url(), &rest, UNTIL_GO);
    let mut session = project.start();
    session.wait_for("prompt_sent");
    until_sent(&project);
    let shown = project.creel(&["pending", "show", "1", "-s", "s", "--nats", &server.url()]);
    assert!(
        shown
            .err
            .contains("the NATS server allows 8192 B); ask on the session's machine"),
        "{}",
        shown.err
    );
    assert_eq!(link(&project), json!({ "state": "connected", "behind": 0 }));
    project.write("go", "");
    assert_eq!(session.end().code, 0);
}

#[test]
fn a_completion_can_name_things_in_several_ways_at_once() {
    let server = NatsServer::start();
    let rest = "hooks: { on_task_complete: [{ name: t, command: 'echo \"{{task_id}} {{task_content}}\" >> done' }] }";
    let project = project(&server.url(), rest, UNTIL_GO);
    let mut session = project.start();
    session.wait_for("prompt_sent");
    until_sent(&project);
    let tell = |value: &Value| server.publish("creel.events.s.task.completed", &value.to_string());
    tell(
        &json!({ "id": "event-9", "task_id": "t-1", "goal": "g", "content": "c", "result": { "lines": 3 } }),
    );
    tell(&json!({ "id": 7, "goal": "by number" }));
    tell(&json!({ "task_id": "t\u{1b}[2J", "content": "paints the screen" }));
    tell(&json!({ "task_id": null }));
    until("both hooks ran", || {
        project.read("done").lines().count() == 2
    });
    until("the others were told", || {
        project.kind("warning").len() == 2
    });
    project.write("go", "");
    assert_eq!(session.end().code, 0);
    assert_eq!(project.read("done"), "t-1 c\n7 by number\n");
    assert_eq!(
        project.kind("task_completed")[0]["data"]["result"],
        r#"{"lines":3}"#
    );
}

#[test]
fn two_sessions_with_one_name_are_reached_by_their_ids() {
    let server = NatsServer::start();
    let url = server.url();
    let (both, there) = (
        [project(&url, "", UNTIL_GO), project(&url, "", UNTIL_GO)],
        Project::new(),
    );
    let sessions = both.each_ref().map(|project| {
        let mut session = project.start();
        session.wait_for("prompt_sent");
        until_sent(project);
        session
    });
    let ids = both.each_ref().map(|one| {
        one.kind("session_started")[0]["id"]
            .as_str()
            .expect("an id")
            .to_owned()
    });
    until("both are listed", || {
        let listed = there.creel(&["sessions", "--json", "--nats", &url]).out;
        ids.iter().all(|id| listed.contains(id.as_str()))
    });
    let refused = there.creel(&["pause", "-s", "s", "--nats", &url]);
    assert_eq!(refused.code, 2);
    assert!(
        refused
            .err
            .contains("several sessions `s` are running; pass the id of one instead:"),
        "{}",
        refused.err
    );
    assert!(
        ids.iter().all(|id| refused.err.contains(id.as_str())),
        "{}",
        refused.err
    );
    assert_eq!(
        there.creel(&["pause", "-s", &ids[0], "--nats", &url]).code,
        0
    );
    assert_eq!(
        both.each_ref().map(|project| project.kind("paused").len()),
        [1, 0]
    );
    both[0].does(&["unpause"]);
    // The last record under the name belongs to the other session, and the screen follows the
    // requested one.
    both[1].does(&["message", "to the other one"]);
    until_sent(&both[1]);
    let mut screen = Terminal::open(&there, &["attach", "--nats", &url, &ids[0]], WIDE);
    screen.wait_for("the session", |shown| shown.has("nats: connected"));
    both[0].does(&["message", "to the one that is meant"]);
    screen.wait_for("what comes", |shown| shown.has("to the one that is meant"));
    assert!(!screen.text().contains("to the other one"));
    for (project, session) in both.iter().zip(sessions) {
        project.write("go", "");
        assert_eq!(session.end().code, 0);
    }
    screen.wait_for("the end", |shown| shown.has("Session complete"));
    screen.press("q");
    assert_eq!(screen.end(), 0);
    for (project, id) in both.iter().zip(&ids) {
        let shown = there.creel(&["show", id, "--json", "--nats", &url]);
        assert_eq!(
            shown.out.lines().collect::<Vec<_>>(),
            journal(project),
            "{}",
            shown.err
        );
    }
}

#[test]
fn a_screen_follows_a_session_whose_server_lost_all_it_had() {
    let mut server = NatsServer::start();
    let (here, there) = two_machines(&server, "", UNTIL_GO);
    let mut session = here.start();
    session.wait_for("prompt_sent");
    until_sent(&here);
    let mut screen = Terminal::open(&there, &["attach", "--nats", &server.url(), "s"], WIDE);
    screen.wait_for("the session", |shown| shown.has("nats: connected"));
    server.kill();
    screen.wait_for("that it is away", |shown| {
        shown.has("nats: ") && !shown.has("nats: connected")
    });
    server.forget();
    server.up();
    until_sent(&here);
    here.does(&["message", "after all that"]);
    screen.wait_for("what comes", |shown| {
        shown.has("after all that") && shown.has("nats: connected")
    });
    here.write("go", "");
    screen.wait_for("the end", |shown| shown.has("Session complete"));
    screen.press("q");
    assert_eq!(screen.end(), 0);
    assert_eq!(session.end().code, 0);
}

#[test]
fn a_command_refused_without_a_server_is_not_done_when_the_server_is_back() {
    let mut server = NatsServer::start();
    let (here, there) = two_machines(&server, "", UNTIL_GO);
    let mut session = here.start();
    session.wait_for("prompt_sent");
    until_sent(&here);
    let url = server.url();
    let mut screen = Terminal::open(&there, &["attach", "--nats", &url, "s"], WIDE);
    screen.wait_for("the session", |shown| shown.has("nats: connected"));
    server.kill();
    screen.wait_for("that it is away", |shown| {
        shown.has("nats: ") && !shown.has("nats: connected")
    });
    screen.press("p");
    screen.wait_for("why not", |shown| shown.has("nothing was sent"));
    server.up();
    screen.wait_for("that it is back", |shown| shown.has("nats: connected"));
    until_sent(&here);
    here.does(&["message", "after all that"]);
    screen.wait_for("what comes", |shown| shown.has("after all that"));
    assert_eq!(here.kind("paused").len(), 0);
    here.write("go", "");
    screen.wait_for("the end", |shown| shown.has("Session complete"));
    screen.press("q");
    assert_eq!(screen.end(), 0);
    assert_eq!(session.end().code, 0);
}

#[test]
fn a_listed_session_with_a_path_as_its_name_is_ignored() {
    let server = NatsServer::start();
    let (here, there) = two_machines(&server, "", COMPLETE);
    assert_eq!(here.run().code, 0);
    let listed: Value = serde_json::from_str(
        &there
            .creel(&["sessions", "--json", "--nats", &server.url()])
            .out,
    )
    .expect("JSON");
    let planted = there.root().join("planted");
    let mut sign = listed[0].clone();
    sign["session"] = planted.to_string_lossy().into();
    sign["outcome"] = Value::Null;
    sign["seen"] = "2999-01-01T00:00:00.000Z".into();
    server.publish_for_good("$KV.creel-sessions.x.y", &sign.to_string());
    let shown = there.creel(&["status", "--nats", &server.url()]);
    assert!(
        shown.err.contains("no session is running there"),
        "{}{}",
        shown.out,
        shown.err
    );
    assert!(!planted.exists());
}

#[test]
fn a_folder_that_creel_did_not_write_is_not_sent_and_disturbs_nothing() {
    let server = NatsServer::start();
    let project = project(&server.url(), "", COMPLETE);
    assert_eq!(project.run().code, 0);
    let outbox =
        fs::read_to_string(project.root().join(".creel/sessions/s/outbox")).expect("it has one");
    let mut place: Value = serde_json::from_str(&outbox).expect("JSON");
    (place["seq"], place["offset"], place["at"]) = (0.into(), 0.into(), 0.into());
    let first = &project.records()[0];
    for (name, session, id) in [
        ("odd", "odd", "a\nb"),
        ("other", "s", "1-a"),
        ("other2", "../s", "1-a"),
    ] {
        let mut first = first.clone();
        (first["session"], first["id"]) = (session.into(), id.into());
        project.write(
            &format!(".creel/sessions/{name}/journal.jsonl"),
            &format!("{first}\n"),
        );
        project.write(
            &format!(".creel/sessions/{name}/outbox"),
            &place.to_string(),
        );
    }
    // A session with an unreadable end is newer than one that has something to send.
    let lines = journal(&project);
    place["store"] = "".into();
    project.write(".creel/sessions/left/outbox", &place.to_string());
    let left: String = lines
        .iter()
        .map(|line| line.replace("\"session\":\"s\"", "\"session\":\"left\"") + "\n")
        .collect();
    let id = first["id"].as_str().expect("an id");
    project.write(
        ".creel/sessions/left/journal.jsonl",
        &left.replace(id, "1-b"),
    );
    project.write(".creel/sessions/bad/outbox", &place.to_string());
    let bad: String = left
        .lines()
        .take(2)
        .map(|line| line.replace("\"left\"", "\"bad\"") + "\n")
        .collect();
    project.write(
        ".creel/sessions/bad/journal.jsonl",
        &(bad.replace(id, "1-c") + "what?\n"),
    );
    for name in ["odd", "other", "other2", "left", "bad"] {
        project.write(&format!(".creel/sessions/.unsent/{name}"), "");
    }
    assert_eq!(
        project
            .creel(&["run", "--headless", "--trust", "-s", "t"])
            .code,
        0
    );
    let stored = server.stored("CREEL");
    let sent = stored
        .iter()
        .filter(|stored| stored.subject.starts_with("creel.events.left."))
        .count();
    assert_eq!(sent, lines.len());
    let own = |stored: &&Stored| {
        ["s.", "t.", "left.", "bad."]
            .iter()
            .any(|of| stored.subject.starts_with(&format!("creel.events.{of}")))
    };
    assert_eq!(stored.iter().filter(own).count(), stored.len());
    assert_eq!(of(&project, &stored), journal(&project));
    assert!(
        texts(&stored)
            .iter()
            .any(|text| text.contains("\"session\":\"t\"") && text.contains("session_ended"))
    );
}
