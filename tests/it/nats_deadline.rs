//! Commands that arrive late, and connections that die silently.

use std::{sync::mpsc, time::Duration};

use async_nats::Client;
use jiff::{SignedDuration, Timestamp};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    nats::{UNTIL_GO, link, project, until_sent},
    nats_elsewhere::{WIDE, two_machines},
    support::{
        nats::{NatsServer, Proxy},
        project::{Project, until},
        terminal::Terminal,
    },
};

fn time(value: &Value) -> Timestamp {
    value
        .as_str()
        .and_then(|text| text.parse().ok())
        .expect("a time")
}

#[test]
fn a_session_refuses_a_command_that_arrives_after_its_deadline() {
    let server = NatsServer::start();
    let here = project(&server.url(), "", UNTIL_GO);
    let mut session = here.start();
    session.wait_for("prompt_sent");
    until_sent(&here);
    let ask = |request: &Value| server.ask("creel.commands.s", &request.to_string());
    let clock = || time(&ask(&json!({ "v": 1, "do": "status" }))["at"]);
    // The session is stopped for longer than the client waits.
    let deadline = clock() + SignedDuration::from_millis(300);
    session.signal(Signal::STOP);
    let late = std::thread::scope(|scope| {
        let asked = scope
            .spawn(|| ask(&json!({ "v": 1, "do": "pause", "deadline": deadline.to_string() })));
        // The session's clock has milliseconds.
        until("the deadline is over", || {
            Timestamp::now() > deadline + SignedDuration::from_millis(5)
        });
        session.signal(Signal::CONT);
        asked.join().expect("an answer")
    });
    assert_eq!(
        (&late["ok"], &late["refusal"]),
        (&false.into(), &"past_deadline".into()),
        "{late}"
    );
    let why = late["error"].as_str().expect("a reason");
    assert!(
        why.contains("after its deadline") && why.contains("did not run it"),
        "{why}"
    );
    let unclear = ask(&json!({ "v": 1, "do": "pause", "deadline": "soon" }));
    assert!(
        unclear["error"]
            .as_str()
            .is_some_and(|why| why.contains("`deadline` is not a time")),
        "{unclear}"
    );
    assert!(here.kind("paused").is_empty(), "nothing of that was done");
    let in_time = clock() + SignedDuration::from_secs(60);
    assert_eq!(
        ask(&json!({ "v": 1, "do": "pause", "deadline": in_time.to_string() }))["ok"],
        true
    );
    assert_eq!(
        ask(&json!({ "v": 1, "do": "unpause" }))["ok"],
        true,
        "other programs need not say a deadline"
    );
    here.write("go", "");
    assert_eq!(session.end().code, 0);
}

/// A session whose clock is wrong: answers everything, and reports each deadline that it is given
/// with the time of its clock.
fn session_with_wrong_clock(
    server: &NatsServer,
    skew: SignedDuration,
) -> mpsc::Receiver<(Timestamp, Timestamp)> {
    let (tell, told) = mpsc::channel();
    let (client, mut commands) = server.block_on(async {
        let client: Client = server.client().await;
        let commands = client
            .subscribe("creel.commands.s")
            .await
            .expect("a connection");
        client.flush().await.expect("a connection");
        (client, commands)
    });
    server.spawn(async move {
        while let Some(asked) = creel::nats::commands::next(&mut commands).await {
            let clock = Timestamp::now() + skew;
            let request: Value = serde_json::from_slice(&asked.payload).expect("JSON");
            if request["do"] == "pause" {
                tell.send((clock, time(&request["deadline"])))
                    .expect("somebody listens");
            }
            let reply = json!({ "v": 1, "ok": true, "at": clock.to_string() });
            client
                .publish(asked.reply.expect("it waits"), reply.to_string().into())
                .await
                .expect("a connection");
        }
    });
    told
}

#[test]
fn a_deadline_is_a_time_of_the_sessions_clock_however_wrong_that_is() {
    for hours in [-5, 0, 700] {
        let server = NatsServer::start();
        let told = session_with_wrong_clock(&server, SignedDuration::from_hours(hours));
        let there = Project::new();
        let ran = there.creel(&["pause", "-s", "s", "--nats", &server.url()]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""));
        let (clock, deadline) = told.recv().expect("a command");
        let left = deadline.duration_since(clock);
        let most = SignedDuration::from_secs(30);
        assert!(
            left > SignedDuration::ZERO && left <= most,
            "{left:?} are left, with a clock {hours} hours off"
        );
    }
}

#[test]
fn a_silently_dead_connection_is_shown_soon() {
    let server = NatsServer::start();
    let (to_session, to_viewer) = (Proxy::to(&server), Proxy::to(&server));
    let (_, there) = two_machines(&server, "", UNTIL_GO);
    let here = project(&to_session.url(), "", UNTIL_GO);
    let mut session = here.start();
    session.wait_for("prompt_sent");
    until_sent(&here);
    let mut screen = Terminal::open(&there, &["attach", "--nats", &to_viewer.url(), "s"], WIDE);
    screen.wait_for("that it is connected", |shown| shown.has("nats: connected"));
    to_session.break_off();
    to_viewer.break_off();
    // After three pings without an answer, not after the 45 seconds of the client library.
    until("the session says so", || link(&here)["state"] == "away");
    screen.wait_for("that it is away", |shown| {
        shown.has("nats: ") && !shown.has("nats: connected")
    });
    to_session.mend();
    to_viewer.mend();
    until_sent(&here);
    here.write("go", "");
    screen.wait_for_text("Session complete");
    screen.press("q");
    assert_eq!(screen.end(), 0);
    assert_eq!(session.end().code, 0);
}

#[test]
fn a_server_without_jetstream_is_reported_with_advice() {
    let server = NatsServer::without_jetstream();
    let (here, there) = two_machines(&server, "", UNTIL_GO);
    let url = server.url();
    let says = |text: &str| {
        text.contains("JetStream is not enabled on this server")
            && text.contains("`nats-server -js`")
    };
    for args in [
        &["sessions"][..],
        &["show", "s"],
        &["task", "add", "x", "--queue=q"],
    ] {
        let ran = there.creel(&[args, &["--nats", &url]].concat());
        assert!(ran.code == 1 && says(&ran.err), "{args:?}: {}", ran.err);
    }
    let mut session = here.start();
    session.wait_for("prompt_sent");
    until("the session says so", || {
        link(&here)["why"].as_str().is_some_and(says)
    });
    here.write("go", "");
    let ran = session.end();
    assert!(ran.code == 0 && says(&ran.err), "{}", ran.err);
}

#[test]
fn a_session_is_listed_once_however_often_it_changes_meanwhile() {
    const SESSIONS: usize = 50;
    let server = NatsServer::start();
    let (here, there) = two_machines(&server, "", "  - say: '<promise>COMPLETE</promise>'\n");
    assert_eq!(here.run().code, 0);
    let sign: Value =
        serde_json::from_str(&server.stored("KV_creel-sessions")[0].text).expect("a sign of life");
    let signs: Vec<(String, String)> = (0..SESSIONS)
        .map(|n| {
            let (name, id, mut sign) = (format!("s{n}"), format!("id{n}"), sign.clone());
            (sign["session"], sign["id"]) = (name.as_str().into(), id.as_str().into());
            (format!("$KV.creel-sessions.{name}.{id}"), sign.to_string())
        })
        .collect();
    for (subject, text) in &signs {
        server.publish_for_good(subject, text);
    }
    let client = server.block_on(server.client());
    server.spawn(async move {
        loop {
            for (subject, text) in &signs {
                let _ = client.publish(subject.clone(), text.clone().into()).await;
            }
            let _ = client.flush().await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    for _ in 0..3 {
        let ran = there.creel(&["sessions", "--json", "--nats", &server.url()]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let listed: Vec<Value> = serde_json::from_str(&ran.out).expect("JSON");
        let mut names: Vec<&str> = listed
            .iter()
            .filter_map(|sign| sign["session"].as_str())
            .collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(
            (names.len(), count),
            (SESSIONS + 1, SESSIONS + 1),
            "{names:?}"
        );
    }
}
