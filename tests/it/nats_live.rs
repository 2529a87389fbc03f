//! The live output of hooks, seen from another machine.

use std::time::Duration;

use async_nats::{HeaderMap, Message, Subscriber};
use futures_core::Stream as _;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    nats::{journal, project, texts, until_sent},
    nats_elsewhere::{WIDE, documented, two_machines},
    support::{
        PATIENCE,
        nats::NatsServer,
        project::{Project, until},
        terminal::Terminal,
    },
};

const COMPLETE: &str = "  - say: '<promise>COMPLETE</promise>'\n";
const WATCH: &str = r#"{"v":1,"do":"watch","live":true}"#;

/// Two hooks. Each prints something, waits for a file of its name, prints more, and waits for
/// another one.
const TALKATIVE: &str = "hooks:
  stop: [{ name: first, command: 'echo first-before; until [ -e first ] || [ ! -e creel.yaml ]; do sleep 0.02; done; echo first-after; \
                                  until [ -e first-end ] || [ ! -e creel.yaml ]; do sleep 0.02; done' }]
  post_iteration: [{ name: second, command: 'echo second-before; until [ -e second ] || [ ! -e creel.yaml ]; do sleep 0.02; done' }]
";

fn output(project: &Project, run: u32) -> String {
    project.read(&format!(".creel/sessions/s/outputs/run-{run}.log"))
}

/// Messages on a subject, for a client that does not know creel.
pub(crate) struct Listener<'a> {
    server: &'a NatsServer,
    client: async_nats::Client,
    heard: Subscriber,
}

impl<'a> Listener<'a> {
    pub(crate) fn new(server: &'a NatsServer, subject: &'static str) -> Self {
        let (client, heard) = server.block_on(async {
            let client = server.client().await;
            let heard = client.subscribe(subject).await.expect("a subscription");
            client.flush().await.expect("a connection");
            (client, heard)
        });
        Self {
            server,
            client,
            heard,
        }
    }

    fn say(&self, subject: &'static str, id: &str, line: &'static str) {
        self.server.block_on(async {
            let mut headers = HeaderMap::new();
            headers.insert("Creel-Session", id);
            self.client
                .publish_with_headers(subject, headers, line.into())
                .await
                .expect("a connection");
            self.client.flush().await.expect("a connection");
        });
    }

    pub(crate) fn next_within(&mut self, patience: Duration) -> Option<Message> {
        let heard = &mut self.heard;
        let next =
            std::future::poll_fn(|context| std::pin::Pin::new(&mut *heard).poll_next(context));
        self.server
            .block_on(async { tokio::time::timeout(patience, next).await.ok().flatten() })
    }

    /// Announces itself as a watcher until it receives something.
    fn watch(&mut self, id: &str) {
        until("it is told something", || {
            self.say("creel.watch.s", id, WATCH);
            self.next_within(Duration::from_secs(1)).is_some()
        });
    }

    /// The next piece, its hook, and the length of its message.
    fn piece(&mut self) -> (Value, String, usize) {
        let message = self.next_within(PATIENCE).expect("a piece");
        let of = message
            .headers
            .as_ref()
            .and_then(|headers| headers.get("Creel-Session"))
            .expect("a header");
        (
            serde_json::from_slice(&message.payload).expect("JSON"),
            of.to_string(),
            message.length,
        )
    }
}

#[test]
fn a_remote_screen_shows_the_output_of_running_hooks() {
    let server = NatsServer::start();
    let (here, there) = two_machines(&server, TALKATIVE, COMPLETE);
    let mut session = here.start();
    session.wait_for("hook_started");
    until_sent(&here);
    until("it has printed", || output(&here, 1) == "first-before\n");
    let url = server.url();
    let mut screen = Terminal::open(&there, &["attach", "--nats", &url, "s"], WIDE);
    screen.wait_for_status("▸ ");
    screen.press("2 z");
    screen.wait_for_text("    first-before");
    here.write("first", "");
    screen.wait_for_text("    first-after");
    assert_eq!(screen.text().matches("    first-before").count(), 1);
    assert!(here.kind("hook_finished").is_empty());
    here.write("first-end", "");
    // The record of the hook's start arrives on another path than its output.
    screen.wait_for_text("    second-before");
    assert_eq!(here.kind("hook_finished").len(), 1);
    here.write("second", "");
    screen.wait_for_status("COMPLETE");
    screen.press("q");
    assert_eq!(screen.end(), 0);
    assert_eq!(session.end().code, 0);
    assert_eq!(
        texts(&server.stored("CREEL")),
        journal(&here),
        "it is no record"
    );
}

#[test]
fn a_remote_screen_shows_hook_output_again_when_the_server_is_back() {
    let mut server = NatsServer::start();
    let (here, there) = two_machines(&server, TALKATIVE, COMPLETE);
    let mut session = here.start();
    session.wait_for("hook_started");
    until_sent(&here);
    let url = server.url();
    let mut screen = Terminal::open(&there, &["attach", "--nats", &url, "s"], WIDE);
    screen.press("2 z");
    screen.wait_for_text("    first-before");
    server.kill();
    here.write("first", "");
    until("it has printed", || {
        output(&here, 1).ends_with("first-after\n")
    });
    server.up();
    screen.wait_for_text("    first-after");
    here.write("first-end", "");
    here.write("second", "");
    screen.wait_for_status("COMPLETE");
    screen.press("q");
    assert_eq!(screen.end(), 0);
    assert_eq!(session.end().code, 0);
}

#[test]
fn an_unwatched_session_sends_no_live_output_and_a_watched_one_sends_all_of_it_once() {
    let server = NatsServer::start();
    let here = project(&server.url(), TALKATIVE, COMPLETE);
    let mut listener = Listener::new(&server, "creel.live.*");
    let mut session = here.start();
    session.wait_for("hook_started");
    until_sent(&here);
    until("it has printed", || output(&here, 1) == "first-before\n");
    let id = here.kind("session_started")[0]["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    // Neither is for this session: otherwise something would arrive before the expected message.
    listener.say("creel.watch.s", "another-id", WATCH);
    listener.say("creel.watch.s", &id, r#"{"v":1,"do":"pause"}"#);
    here.write("first", "");
    until("it has printed more", || {
        output(&here, 1) == "first-before\nfirst-after\n"
    });
    listener.say("creel.watch.s", &id, WATCH);
    let text = "first-before\nfirst-after\n";
    let piece = json!({ "v": 1, "live": { "run": 1, "stream": "stdout", "at": 0, "text": text } });
    let (heard, of, _) = listener.piece();
    assert_eq!((heard, of), (piece, id));
    here.write("first-end", "");
    let piece = json!({ "v": 1, "live": { "run": 2, "stream": "stdout", "at": 0, "text": "second-before\n" } });
    assert_eq!(listener.piece().0, piece);
    here.write("second", "");
    assert_eq!(session.end().code, 0);
    assert!(here.kind("paused").is_empty());
    assert!(listener.next_within(Duration::ZERO).is_none());
}

#[test]
fn a_hook_with_much_output_delays_neither_the_session_nor_its_records_and_its_last_output_is_sent()
{
    let server = NatsServer::with("max_payload: 8192");
    let hook = "hooks: { stop: [{ name: h, command: 'echo ready; until [ -e start ] || [ ! -e creel.yaml ]; do sleep 0.02; done; \
                head -c 30000000 /dev/zero; echo the very end; until [ -e go ] || [ ! -e creel.yaml ]; do sleep 0.02; done' }] }";
    let here = project(&server.url(), hook, COMPLETE);
    let mut listener = Listener::new(&server, "creel.live.s");
    let mut session = here.start();
    session.wait_for("hook_started");
    until_sent(&here);
    let id = here.kind("session_started")[0]["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    listener.watch(&id);
    here.write("start", "");
    listener.piece();
    // A server that does not read does not block the session either.
    server.signal(Signal::STOP);
    until("all is printed", || {
        output(&here, 1).ends_with("the very end\n")
    });
    here.does(&["message", "said while the server sleeps"]);
    server.signal(Signal::CONT);
    let mut told = 0;
    loop {
        let (piece, _, length) = listener.piece();
        assert!(length <= 8192, "{length}");
        let text = piece["live"]["text"].as_str().expect("text");
        told += text.len();
        if text.ends_with("the very end\n") {
            break;
        }
    }
    assert!(
        told < 15_000_000,
        "{told} bytes: what no reader can follow is left out"
    );
    until_sent(&here);
    here.write("go", "");
    assert_eq!(session.end().code, 0);
    assert_eq!(
        texts(&server.stored("CREEL")).concat(),
        journal(&here).concat()
    );
}

#[test]
fn a_server_that_forbids_live_output_disturbs_nothing_else() {
    let is_live = |line: &&str| !line.contains("creel.live") && !line.contains("creel.watch");
    let without: String = documented()
        .lines()
        .filter(is_live)
        .map(|line| format!("{line}\n"))
        .collect();
    for (config, is_seen) in [(documented(), true), (without, false)] {
        assert_eq!(config.contains("creel.live"), is_seen);
        let server = NatsServer::with(&config);
        let (here, there) = (
            project(&server.url_for("session:s3cret"), TALKATIVE, COMPLETE),
            Project::new(),
        );
        let mut session = here.start();
        session.wait_for("hook_started");
        until_sent(&here);
        let url = server.url_for("viewer:s3cret");
        let mut screen = Terminal::open(&there, &["attach", "--nats", &url, "s"], WIDE);
        screen.wait_for_status("▸ ");
        screen.press("2 z");
        if is_seen {
            screen.wait_for_text("    first-before");
        }
        here.write("first", "");
        here.write("first-end", "");
        screen.wait_for("the next hook", |shown| {
            shown.has("second") && shown.has("nats: connected")
        });
        here.write("second", "");
        screen.wait_for_status("COMPLETE");
        assert!(
            is_seen || !screen.text().contains("│ "),
            "{}",
            screen.text()
        );
        screen.press("q");
        assert_eq!(screen.end(), 0);
        let ran = session.end();
        assert_eq!((ran.code, ran.err.as_str()), (0, ""));
        assert!(
            here.kind("warning").is_empty(),
            "{:?}",
            here.kind("warning")
        );
    }
}
