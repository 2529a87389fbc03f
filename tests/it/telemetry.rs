//! What an OpenTelemetry collector gets from real sessions, and sessions whose collector fails.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::Path,
    sync::{Arc, mpsc},
};

use serde_json::Value;
use tokio_rustls::rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};

use crate::support::{
    http::HttpRecorder,
    project::{Project, Ran, until},
};

/// A scripted agent with a tool call, a check that fails once, and a gate of the retry limit.
const CONFIG: &str = r#"
prompt: A secret goal.
agents: { demo: { script: scenario.yaml } }
max_hook_retries: 1
hooks:
  session_start: [{ name: facts, command: 'echo "$TRACEPARENT" > hook.txt' }]
  stop: [{ name: tests, command: "echo a secret failure; exit 2" }]
"#;

const SCENARIO: &str = r#"
turns: []
otherwise: { say: "A secret answer. <promise>COMPLETE</promise>", run: 'echo "$TRACEPARENT" > tool.txt' }
"#;

fn project(otel: &str) -> Project {
    Project::with(&format!("{CONFIG}{otel}\n")).file("scenario.yaml", SCENARIO)
}

fn at(recorder: &HttpRecorder) -> String {
    format!("otel: {{ endpoint: '{}' }}", recorder.url())
}

/// All spans that arrived.
fn spans(recorder: &HttpRecorder, path: &str) -> Vec<Value> {
    let requests = recorder.requests(path);
    let bodies = requests.iter().map(crate::support::http::HttpRequest::json);
    bodies
        .flat_map(|body| {
            let spans = &body["resourceSpans"][0]["scopeSpans"][0]["spans"];
            spans.as_array().cloned().expect("spans")
        })
        .collect()
}

fn named<'a>(spans: &'a [Value], name: &str) -> &'a Value {
    let mut found = spans.iter().filter(|span| span["name"] == name);
    let span = found.next();
    assert!(found.next().is_none(), "`{name}` came twice: {spans:#?}");
    span.unwrap_or_else(|| panic!("no span `{name}`: {spans:#?}"))
}

fn attribute<'a>(span: &'a Value, name: &str) -> &'a Value {
    let mut all = span["attributes"].as_array().expect("attributes").iter();
    all.find(|attribute| attribute["key"] == name)
        .map_or(&Value::Null, |attribute| &attribute["value"])
}

/// The name of each span with those of its parents.
fn paths(spans: &[Value]) -> Vec<String> {
    let path = |span: &Value| {
        let mut names = vec![span["name"].as_str().expect("a name").to_owned()];
        let mut parent = &span["parentSpanId"];
        while let Some(above) = spans.iter().find(|it| it["spanId"] == *parent) {
            names.insert(0, above["name"].as_str().expect("a name").to_owned());
            parent = &above["parentSpanId"];
        }
        names.join(" / ")
    };
    let mut all: Vec<String> = spans.iter().map(path).collect();
    all.sort();
    all
}

/// The `TRACEPARENT` of a process below this span.
fn traceparent(span: &Value) -> String {
    let text = |key: &str| span[key].as_str().expect("an id");
    format!("00-{}-{}-01\n", text("traceId"), text("spanId"))
}

#[test]
fn a_session_arrives_as_one_trace_and_metrics() {
    let recorder = HttpRecorder::start();
    let project = project(&at(&recorder));
    let ran = project.run();
    assert_eq!(
        (ran.code, ran.err.contains("OpenTelemetry")),
        (5, false),
        "{}",
        ran.err
    );
    let spans = spans(&recorder, "/v1/traces");
    expect_test::expect![[r#"
        creel session s
        creel session s / hook facts
        creel session s / iteration 1
        creel session s / iteration 1 / check tests
        creel session s / iteration 1 / check tests
        creel session s / iteration 1 / gate retry_limit
        creel session s / iteration 1 / turn 1
        creel session s / iteration 1 / turn 1 / execute_tool execute
        creel session s / iteration 1 / turn 2
        creel session s / iteration 1 / turn 2 / execute_tool execute"#]]
    .assert_eq(&paths(&spans).join("\n"));
    let session = named(&spans, "creel session s");
    assert_eq!(session["status"]["message"], "forced");
    assert_eq!(attribute(session, "creel.outcome")["stringValue"], "forced");
    assert_eq!(
        attribute(named(&spans, "gate retry_limit"), "creel.gate.by")["stringValue"],
        "policy"
    );
    assert_eq!(
        project.read("hook.txt"),
        traceparent(named(&spans, "hook facts"))
    );
    assert_eq!(
        project.read("tool.txt"),
        traceparent(named(&spans, "turn 2"))
    );
    let metrics = recorder.requests("/v1/metrics");
    let [metrics] = metrics.as_slice() else {
        panic!("metrics come once: {metrics:#?}");
    };
    assert_eq!(metrics.header("content-type"), Some("application/json"));
    let all = &metrics.json()["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
    let runs = all.as_array().expect("metrics").iter();
    let mut runs = runs.filter(|metric| metric["name"] == "creel.hook.runs");
    let points = runs.next().expect("runs")["sum"]["dataPoints"].clone();
    let of_tests = points.as_array().expect("points").iter();
    let mut of_tests =
        of_tests.filter(|point| attribute(point, "creel.hook.name")["stringValue"] == "tests");
    let point = of_tests.next().expect("a check");
    assert_eq!(
        (
            attribute(point, "creel.hook.verdict")["stringValue"].as_str(),
            point["asInt"].as_str()
        ),
        (Some("block"), Some("2"))
    );
    let sent: String = [
        recorder.requests("/v1/traces"),
        recorder.requests("/v1/metrics"),
    ]
    .concat()
    .iter()
    .map(|request| request.body.clone())
    .collect();
    assert!(!sent.contains("secret"), "{sent}");
}

#[test]
fn headers_are_sent_and_not_recorded() {
    let recorder = HttpRecorder::start();
    let project = project(&format!(
        "otel: {{ endpoint: '{}/otlp/', headers: {{ authorization: 'Bearer ${{OTEL_LOGIN}}' }} }}",
        recorder.url()
    ));
    let missing = project.creel(&["check", "--strict"]);
    assert!(
        missing
            .out
            .contains(&format!("otel       {}/otlp\n", recorder.url())),
        "{}",
        missing.out
    );
    assert!(
        missing
            .out
            .contains("`otel:` needs the environment variable `OTEL_LOGIN`"),
        "{}",
        missing.out
    );
    let ran = project.run();
    assert_eq!(ran.code, 5, "{}", ran.err);
    assert!(
        ran.err
            .contains("needs the environment variable `OTEL_LOGIN`"),
        "{}",
        ran.err
    );
    assert_eq!(recorder.count(), 0);
    let mut command = project.command(&["run", "--headless", "-s", "t"]);
    command.env("OTEL_LOGIN", "planted-login");
    let ran = Ran::of(&command.output().expect("creel starts"));
    assert_eq!(ran.code, 5, "{}", ran.err);
    let request = recorder.wait_for("a trace", |request| request.path == "/otlp/v1/traces");
    assert_eq!(
        request.header("authorization"),
        Some("Bearer planted-login")
    );
    let journal = fs::read_to_string(project.root().join(".creel/sessions/t/journal.jsonl"));
    assert!(!journal.expect("a journal").contains("planted-login"));
}

/// Serves each connection with this until the test ends. Returns the URL.
fn collector(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            serve(stream);
        }
    });
    format!("http://{address}")
}

#[test]
fn a_collector_that_fails_changes_neither_the_outcome_nor_the_end() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let refuses = TcpListener::bind("127.0.0.1:0").expect("a port");
    let down = format!("http://{}", refuses.local_addr().expect("it is bound"));
    drop(refuses);
    let cases = [
        (down, "refused"),
        (
            format!("http://{}", silent.local_addr().expect("it is bound")),
            "it did not answer within 3 seconds after the end",
        ),
        (
            collector(|mut stream| {
                let _ = stream.read(&mut vec![0; 1 << 16]);
                let _ = stream.write_all(b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n");
            }),
            "it answers with 500",
        ),
        (
            collector(|mut stream| {
                let _ = stream.read(&mut [0; 100]);
            }),
            ": ",
        ),
        (
            collector(|mut stream| {
                let _ = stream.read(&mut vec![0; 1 << 16]);
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Len");
            }),
            "it does not speak HTTP",
        ),
    ];
    for (url, why) in cases {
        let project = project(&format!("otel: {{ endpoint: '{url}' }}"));
        let ran = project.run();
        assert_eq!(
            (ran.code, project.outcome().as_deref()),
            (5, Some("forced")),
            "{}",
            ran.err
        );
        let said: Vec<&str> = ran
            .err
            .lines()
            .filter(|line| line.contains("OpenTelemetry"))
            .collect();
        let [line] = said.as_slice() else {
            panic!("one line: {said:?}");
        };
        assert!(line.contains(&url) && line.contains(why), "{line}");
        let journal = fs::read_to_string(project.journal()).expect("a journal");
        assert!(!journal.contains(&url), "{journal}");
    }
}

/// Serves with a certificate for `localhost`, which only the authority of the tests vouches for.
fn encrypted_collector(seen: mpsc::Sender<String>) -> u16 {
    let certificate = include_bytes!("../fixtures/tls/server.pem");
    let certificate = CertificateDer::from_pem_slice(certificate).expect("a certificate");
    let key = include_bytes!("../fixtures/tls/server.key");
    let key = PrivateKeyDer::from_pem_slice(key).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("they fit");
    let config = Arc::new(config);
    let url = collector(move |stream| {
        let session = ServerConnection::new(Arc::clone(&config)).expect("a connection");
        let mut stream = StreamOwned::new(session, stream);
        let mut head = vec![0; 1 << 16];
        // Fails if creel does not trust the certificate.
        let read = stream.read(&mut head).unwrap_or(0);
        let _ = seen.send(String::from_utf8_lossy(&head[..read]).into_owned());
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        stream.conn.send_close_notify();
        let _ = stream.flush();
    });
    let (_, port) = url.rsplit_once(':').expect("a port");
    port.parse().expect("a number")
}

#[test]
fn https_needs_a_certificate_that_the_system_trusts() {
    let (seen, requests) = mpsc::channel();
    let port = encrypted_collector(seen);
    let project = project(&format!("otel: {{ endpoint: 'https://localhost:{port}' }}"));
    let authority = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tls/ca.pem");
    let mut command = project.command(&["run", "--headless", "--trust"]);
    command.env("SSL_CERT_FILE", &authority);
    let ran = Ran::of(&command.output().expect("creel starts"));
    assert!(!ran.err.contains("OpenTelemetry"), "{}", ran.err);
    let request = requests.recv().expect("a request");
    assert!(
        request.starts_with("POST /v1/traces HTTP/1.1\r\n"),
        "{request}"
    );
    command.env(
        "SSL_CERT_FILE",
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tls/server.pem"),
    );
    let refused = Ran::of(&command.output().expect("creel starts"));
    assert!(refused.err.contains("certificate"), "{}", refused.err);
}

#[test]
fn a_session_that_is_killed_and_resumed_continues_its_trace() {
    let recorder = HttpRecorder::start();
    let project = Project::with(&format!(
        "prompt: GOAL\nagent: sh\nagents:\n  sh:\n    command: |\n      cat > /dev/null; echo \"$TRACEPARENT\" >> turns.txt\n      \
         [ -e go ] || sleep 1000; echo '<promise>COMPLETE</promise>'\n\
         hooks:\n  pre_iteration: [{{ name: before, command: 'true' }}]\n{}\n",
        at(&recorder)
    ));
    let mut command = project.command(&["run", "--json", "--trust", "-s", "s"]);
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    command.env("TRACEPARENT", parent);
    let mut started = crate::support::project::Started::of(command);
    started.wait_for("prompt_sent");
    until("the agent has begun", || {
        !project.read("turns.txt").is_empty()
    });
    recorder.wait_for("the hook", |request| request.body.contains("hook before"));
    started.kill();
    assert_eq!(project.records()[0]["trace"], parent);
    project.write("go", "");
    let ran = project.creel(&["resume", "s", "--headless"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let spans = spans(&recorder, "/v1/traces");
    expect_test::expect![[r#"
        creel session s
        creel session s / iteration 1
        creel session s / iteration 1 / hook before
        creel session s / iteration 1 / turn 1
        creel session s / iteration 1 / turn 2"#]]
    .assert_eq(&paths(&spans).join("\n"));
    assert!(
        spans
            .iter()
            .all(|span| span["traceId"] == "4bf92f3577b34da6a3ce929d0e0e4736")
    );
    assert_eq!(named(&spans, "turn 1")["status"]["message"], "cut");
    assert_eq!(
        named(&spans, "creel session s")["parentSpanId"],
        "00f067aa0ba902b7"
    );
    let turns = [named(&spans, "turn 1"), named(&spans, "turn 2")].map(traceparent);
    assert_eq!(project.read("turns.txt"), turns.concat());
}

#[test]
fn a_changed_config_sends_nothing_until_it_is_trusted() {
    let recorder = HttpRecorder::start();
    let config = "prompt: GOAL\nagents: { demo: { script: scenario.yaml } }\n";
    let project =
        Project::with(config).file("scenario.yaml", "turns: []\notherwise: { say: More. }\n");
    let ran = project.creel(&["run", "--headless", "--trust", "-s", "s", "-n", "1"]);
    assert_eq!(project.outcome().as_deref(), Some("limit"), "{}", ran.err);
    project.write("creel.yaml", &format!("{config}{}\n", at(&recorder)));
    let refused = project.creel(&["run", "--headless", "-s", "t"]);
    let would = format!("(otel) sends what the session does to {}", recorder.url());
    assert!(refused.err.contains(&would), "{}", refused.err);
    let resumed = project.creel(&["resume", "s", "-n", "2", "--headless"]);
    let silent = "so creel sends nothing to the OpenTelemetry collector";
    assert!(resumed.err.contains(silent), "{}", resumed.err);
    assert_eq!(recorder.count(), 0);
}
