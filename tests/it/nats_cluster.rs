//! A cluster of servers: one of them can be lost.

use async_nats::jetstream::stream::Config;
use serde_json::Value;

use crate::{
    nats::{UNTIL_GO, until_sent},
    support::{
        nats::NatsServer,
        project::{Project, until},
    },
};

fn project(url: &str) -> Project {
    let config = format!(
        "prompt: GOAL\nagents: {{ demo: {{ script: scenario.yaml }} }}\nnats: {{ url: '{url}', replicas: 3, queue: q }}\n"
    );
    let script = format!("turns:\n{UNTIL_GO}otherwise: {{ say: '<promise>COMPLETE</promise>' }}\n");
    Project::with(&config).file("scenario.yaml", &script)
}

/// The bucket of the session list as an older creel created it.
fn old_bucket() -> Config {
    Config {
        name: "KV_creel-sessions".into(),
        subjects: vec!["$KV.creel-sessions.>".into()],
        max_messages_per_subject: 1,
        num_replicas: 1,
        ..Config::default()
    }
}

#[test]
fn the_list_of_sessions_and_the_queue_survive_the_loss_of_one_server_of_three() {
    let mut servers = NatsServer::cluster(3);
    servers[0].create(old_bucket());
    let url = servers
        .iter()
        .map(NatsServer::url)
        .collect::<Vec<_>>()
        .join(",");
    let here = project(&url);
    let mut session = here.start();
    session.wait_for("prompt_sent");
    until_sent(&here);
    let add = |id: &str| here.creel(&["task", "add", "x", "--id", id, "--queue", "--nats", &url]);
    let ran = add("before");
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let of = |stream: &str| servers[0].leader_and_replicas(stream);
    for stream in [
        "CREEL",
        "KV_creel-sessions",
        "KV_creel-tasks",
        "CREEL_QUEUE",
    ] {
        until(stream, || {
            of(stream).is_some_and(|(_, replicas)| replicas == 3)
        });
    }
    let listed = || here.creel(&["sessions", "--json", "--nats", &url]);
    until("it is listed", || {
        listed().out.contains("\"session\": \"s\"")
    });
    // The worst loss: the leader of the list.
    let (leader, _) = of("KV_creel-sessions").expect("a leader");
    let lost: usize = leader.trim_start_matches('n').parse().expect("a number");
    servers[lost].kill();
    let ran = listed();
    assert_eq!(ran.code, 0, "{}", ran.err);
    let sessions: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(sessions[0]["session"], "s", "{sessions}");
    let ran = add("after");
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let tasks = here.creel(&["task", "list", "--queue", "--nats", &url]);
    assert!(
        tasks.out.contains("before") && tasks.out.contains("after"),
        "{}{}",
        tasks.out,
        tasks.err
    );
    here.write("go", "");
    let ran = session.end();
    assert_eq!(ran.code, 0, "{}", ran.err);
    let other = &servers[(lost + 1) % 3];
    until("the others have all of it", || {
        other
            .stored("CREEL")
            .last()
            .is_some_and(|stored| stored.text.contains("session_ended"))
    });
}

#[test]
fn creel_says_when_the_server_does_not_add_the_replicas_that_are_missing() {
    let server = NatsServer::start();
    server.create(old_bucket());
    server.create(Config {
        name: "CREEL".into(),
        subjects: vec!["creel.events.>".into()],
        ..Config::default()
    });
    let here = project(&server.url());
    let mut session = here.start();
    session.wait_for("prompt_sent");
    let warned = |text: &str| {
        here.kind("warning").iter().any(|warning| {
            warning["text"]
                .as_str()
                .is_some_and(|said| said.contains(text))
        })
    };
    until("it is said", || {
        warned("KV_creel-sessions should have 3 copies but has 1, and the server does not add any")
    });
    here.write("go", "");
    assert_eq!(session.end().code, 0);
}
