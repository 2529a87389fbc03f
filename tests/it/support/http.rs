//! A local web server that records every request, and simulates the two services that answers come
//! from.
//!
//! A topic of ntfy is a path: a POST to it reaches every open `GET PATH/raw`. Telegram's
//! `getUpdates` returns the updates that a test has written, and waits for one if there is none.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use serde_json::{Value, json};

use super::PATIENCE;

#[derive(Debug, Clone)]
pub(crate) struct HttpRequest {
    pub(crate) method: String,
    pub(crate) path: String,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl HttpRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

#[derive(Default)]
struct Recorded {
    requests: Vec<HttpRequest>,
    updates: Vec<Value>,
    closed: bool,
}

#[derive(Default)]
struct Shared {
    recorded: Mutex<Recorded>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Recorded> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, recorded: MutexGuard<'a, Recorded>) -> MutexGuard<'a, Recorded> {
        let waited = self.changed.wait_timeout(recorded, PATIENCE);
        waited.map_or_else(|poisoned| poisoned.into_inner().0, |(recorded, _)| recorded)
    }
}

pub(crate) struct HttpRecorder {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl HttpRecorder {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(Shared::default());
        let server = Arc::clone(&shared);
        std::thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                if server.lock().closed {
                    return;
                }
                let server = Arc::clone(&server);
                std::thread::spawn(move || serve(&server, connection));
            }
        });
        Self { address, shared }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The first matching request, once it has arrived.
    #[track_caller]
    pub(crate) fn wait_for(
        &self,
        what: &str,
        is_wanted: impl Fn(&HttpRequest) -> bool,
    ) -> HttpRequest {
        let deadline = Instant::now() + PATIENCE;
        let mut recorded = self.shared.lock();
        loop {
            if let Some(found) = recorded.requests.iter().find(|request| is_wanted(request)) {
                return found.clone();
            }
            assert!(
                Instant::now() < deadline,
                "{what} did not arrive; these did: {:#?}",
                recorded.requests
            );
            recorded = self.shared.wait(recorded);
        }
    }

    /// All requests with this path.
    pub(crate) fn requests(&self, path: &str) -> Vec<HttpRequest> {
        self.shared
            .lock()
            .requests
            .iter()
            .filter(|request| request.path == path)
            .cloned()
            .collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.shared.lock().requests.len()
    }

    /// A message to the bot, from this person in this chat.
    pub(crate) fn telegram(&self, chat: i64, from: i64, text: &str) {
        let mut recorded = self.shared.lock();
        let number = recorded.updates.len() + 100;
        let message = json!({ "chat": { "id": chat }, "from": { "id": from }, "text": text });
        recorded
            .updates
            .push(json!({ "update_id": number, "message": message }));
        drop(recorded);
        self.shared.changed.notify_all();
    }
}

impl Drop for HttpRecorder {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
        // Wakes the accepting thread, which then ends.
        let _ = TcpStream::connect(self.address);
    }
}

/// Sends a text like the button of a notification does.
pub(crate) fn post(url: &str, body: &str) {
    let (host, path) = url
        .strip_prefix("http://")
        .and_then(|rest| rest.split_once('/'))
        .expect("an address");
    let mut stream = TcpStream::connect(host).expect("the server");
    write!(
        stream,
        "POST /{path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .expect("it listens");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

fn serve(shared: &Shared, stream: TcpStream) {
    let mut reader = BufReader::new(stream);
    let Some(request) = read(&mut reader) else {
        return;
    };
    let seen = {
        let mut recorded = shared.lock();
        recorded.requests.push(request.clone());
        recorded.requests.len()
    };
    shared.changed.notify_all();
    let stream = reader.into_inner();
    // Fails if the client has left.
    let _ = match request.path.strip_suffix("/raw") {
        Some(topic) => subscribe(shared, stream, topic, seen),
        None if request.path.ends_with("/getUpdates") => answer(stream, &updates(shared, &request)),
        None => answer(stream, &json!({ "ok": true })),
    };
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<HttpRequest> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut request = HttpRequest {
        method,
        path,
        headers: Vec::new(),
        body: String::new(),
    };
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        request
            .headers
            .push((name.to_owned(), value.trim().to_owned()));
    }
    if request.header("Expect").is_some() {
        reader
            .get_mut()
            .write_all(b"HTTP/1.1 100 Continue\r\n\r\n")
            .ok()?;
    }
    let length = request
        .header("Content-Length")
        .map_or(0, |length| length.parse().expect("a number"));
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    request.body = String::from_utf8(body).expect("text");
    Some(request)
}

fn answer(mut stream: TcpStream, body: &Value) -> std::io::Result<()> {
    let body = body.to_string();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Passes on what arrives at the topic from now on, one message per line; first an empty line, as
/// ntfy sends from time to time.
fn subscribe(
    shared: &Shared,
    mut stream: TcpStream,
    topic: &str,
    mut seen: usize,
) -> std::io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n\n")?;
    let mut recorded = shared.lock();
    while !recorded.closed {
        let new: Vec<HttpRequest> = recorded.requests[seen..].to_vec();
        seen += new.len();
        drop(recorded);
        for message in new
            .iter()
            .filter(|request| request.method == "POST" && request.path == topic)
        {
            writeln!(stream, "{}", message.body.replace('\n', " "))?;
        }
        recorded = shared.lock();
        if recorded.requests.len() == seen && !recorded.closed {
            recorded = shared.wait(recorded);
        }
    }
    Ok(())
}

/// The updates from `offset` on; -1 asks for the last one, and does not wait.
fn updates(shared: &Shared, request: &HttpRequest) -> Value {
    let offset = request
        .body
        .split('&')
        .find_map(|part| part.strip_prefix("offset="))
        .expect("an offset");
    let offset: i64 = offset.parse().expect("a number");
    let mut recorded = shared.lock();
    loop {
        let from = |update: &&Value| update["update_id"].as_i64() >= Some(offset);
        let found: Vec<Value> = match offset {
            -1 => recorded.updates.last().cloned().into_iter().collect(),
            _ => recorded.updates.iter().filter(from).cloned().collect(),
        };
        if offset == -1 || !found.is_empty() || recorded.closed {
            return json!({ "ok": true, "result": found });
        }
        recorded = shared.wait(recorded);
    }
}
