//! Many clients on the control socket: thousands of changes, with half of the clients stuck, beside
//! a working session.

use std::fs;

use serde_json::{Value, json};

use crate::support::{
    peer::Peer,
    project::{Project, Started},
};

/// Clients that connect, send a request, and then neither read nor write again.
const STUCK: usize = 25;
/// Clients that change tasks, one request after the other.
const BUSY: usize = 20;
/// Clients that read every record.
const WATCHING: usize = 5;
/// How often a busy client makes its five changes.
const ROUNDS: usize = 100;
/// The number of changes in total.
const CHANGES: usize = BUSY * ROUNDS * 6;

/// A session whose agent never finishes.
fn looping() -> (Project, Started) {
    let config = "prompt: GOAL\nmax_iterations: 1000000\nstop: { no_progress: 0 }\nagents: { demo: { script: scenario.yaml } }\n";
    let project = Project::with(config).file(
        "scenario.yaml",
        "otherwise: { say: working, run: 'true' }\n",
    );
    let mut session = project.start();
    session.wait_for("prompt_sent");
    (project, session)
}

/// Some stop in the middle of a request, others never read the answer.
fn stuck(project: &Project, n: usize) -> Peer {
    let mut peer = Peer::of(project);
    match n % 3 {
        0 => peer.send(br#"{"v":1,"do":"mess"#),
        1 => peer.send(b"{\"v\":1,\"do\":\"watch\",\"from\":1}\n"),
        _ => (0..200).for_each(|_| peer.send(b"{\"v\":1,\"do\":\"task_list\"}\n")),
    }
    peer
}

/// The requests of a busy client in one round: the second task waits for the first, and is ready
/// when that is done.
fn round(client: usize, round: usize) -> [Value; 5] {
    let (first, second) = (format!("c{client}-{round}a"), format!("c{client}-{round}b"));
    [
        json!({ "add": { "id": first, "goal": "First" } }),
        json!({ "add": { "id": second, "goal": "Second", "dependencies": [first] } }),
        json!({ "complete": { "id": first } }),
        json!({ "start": { "id": second, "context": null } }),
        json!({ "remove": { "id": second } }),
    ]
}

/// The records of one client's round.
fn recorded(client: usize, round: usize) -> [(&'static str, String); 6] {
    let (first, second) = (format!("c{client}-{round}a"), format!("c{client}-{round}b"));
    [
        ("task_created", first.clone()),
        ("task_created", second.clone()),
        ("dependency_added", second.clone()),
        ("task_completed", first),
        ("task_started", second.clone()),
        ("task_deleted", second),
    ]
}

/// Makes all changes of a client, each after the answer to the one before.
fn change_tasks(project: &Project, client: usize) {
    let mut peer = Peer::of(project);
    for task in (0..ROUNDS).flat_map(|n| round(client, n)) {
        let reply = peer.ask(&json!({ "v": 1, "do": "task", "task": task }).to_string());
        assert_eq!(reply["ok"], true, "{task}: {reply}");
    }
}

/// A client that watches all records.
fn watching(project: &Project) -> Peer {
    let mut peer = Peer::of(project);
    assert_eq!(peer.ask(r#"{"v":1,"do":"watch","from":1}"#)["ok"], true);
    peer
}

/// Whether a record is a change that a client requested, and not one that followed automatically.
fn is_asked_for(record: &Value) -> bool {
    record["by"] == "cli" && !record["task"].is_null()
}

#[test]
fn ten_thousand_changes_beside_stuck_clients_keep_their_order_and_block_no_client() {
    let (project, session) = looping();
    let stuck: Vec<Peer> = (0..STUCK).map(|n| stuck(&project, n)).collect();
    let watching: Vec<Peer> = (0..WATCHING).map(|_| watching(&project)).collect();
    let project = &project;
    let seen: Vec<String> = std::thread::scope(|scope| {
        let watching: Vec<_> = watching
            .into_iter()
            .map(|peer| scope.spawn(|| peer.rest()))
            .collect();
        let busy: Vec<_> = (0..BUSY)
            .map(|client| scope.spawn(move || change_tasks(project, client)))
            .collect();
        for client in busy {
            client.join().expect("its changes were made");
        }
        project.does(&["stop"]);
        watching
            .into_iter()
            .map(|watcher| watcher.join().expect("it saw the end"))
            .collect()
    });
    drop(stuck);
    session.end();

    let journal = fs::read_to_string(project.journal()).expect("a journal");
    assert!(
        seen.iter().all(|seen| *seen == journal),
        "who watches sees what is on record, in that order"
    );
    let records = project.records();
    assert!(
        records
            .iter()
            .zip(1_u64..)
            .all(|(record, seq)| record["seq"] == seq),
        "each number is there once"
    );
    nothing_is_lost_and_each_keeps_its_order(&records);
    the_session_went_on(&records);
}

fn nothing_is_lost_and_each_keeps_its_order(records: &[Value]) {
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let changes = || records.iter().filter(|record| is_asked_for(record));
    for client in 0..BUSY {
        let own = format!("c{client}-");
        let made = changes().map(|record| (text(&record["kind"]), text(&record["task"])));
        let made: Vec<_> = made.filter(|(_, task)| task.starts_with(&own)).collect();
        let asked = (0..ROUNDS)
            .flat_map(|n| recorded(client, n))
            .map(|(kind, task)| (kind.to_owned(), task));
        assert!(
            made.iter().eq(asked.collect::<Vec<_>>().iter()),
            "the changes of client {client}: {made:?}"
        );
    }
    assert_eq!(changes().count(), CHANGES);
    let satisfied = records
        .iter()
        .filter(|record| record["kind"] == "dependency_satisfied")
        .count();
    assert_eq!(
        satisfied,
        BUSY * ROUNDS,
        "what follows by itself followed every time"
    );
}

/// Iterations ended all the time: clients never made a fifth of all changes between two of them. An
/// iteration starts processes, so a machine with little time to spare lets some hundred changes
/// pass meanwhile.
fn the_session_went_on(records: &[Value]) {
    let (mut changes, mut at_last_iteration, mut longest) = (0, 0, 0);
    for record in records {
        changes += usize::from(is_asked_for(record));
        longest = longest.max(changes - at_last_iteration);
        if record["kind"] == "iteration_completed" {
            at_last_iteration = changes;
        }
    }
    assert!(
        longest < CHANGES / 5,
        "{longest} changes without an iteration"
    );
}
