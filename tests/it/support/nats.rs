//! A NATS server for a test, and a client that reads its content.

use std::{
    fs::{self, File},
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use async_nats::{
    Client, ConnectOptions, HeaderMap,
    jetstream::{
        self, ErrorCode,
        context::{GetStreamError, GetStreamErrorKind},
        message::PublishMessage,
        stream::{Config, RawMessageErrorKind},
    },
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::PATIENCE;

/// A server on its own port, with storage that survives it.
pub(crate) struct NatsServer {
    dir: tempfile::TempDir,
    port: u16,
    child: Option<Child>,
    /// More of its config.
    more: String,
    jetstream: bool,
    tokio: tokio::runtime::Runtime,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) subject: String,
    pub(crate) id: String,
    pub(crate) session: Option<String>,
    pub(crate) text: String,
}

impl NatsServer {
    /// A server that is not started yet.
    pub(crate) fn idle(more: &str) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let tokio = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build();
        Self {
            dir,
            port: free_port(),
            child: None,
            more: more.to_owned(),
            jetstream: true,
            tokio: tokio.expect("a runtime"),
        }
    }

    /// A server without authentication.
    pub(crate) fn start() -> Self {
        Self::with("")
    }

    /// A server with more in its config.
    pub(crate) fn with(more: &str) -> Self {
        let mut server = Self::idle(more);
        server.up();
        server
    }

    /// A server without `JetStream`.
    pub(crate) fn without_jetstream() -> Self {
        let mut server = Self::idle("");
        server.jetstream = false;
        server.up();
        server
    }

    /// A cluster of servers with a leader.
    pub(crate) fn cluster(size: u16) -> Vec<Self> {
        let mut servers: Vec<Self> = (0..size).map(|_| Self::idle("")).collect();
        let ports: Vec<u16> = servers.iter().map(|_| free_port()).collect();
        let routes: Vec<String> = ports
            .iter()
            .map(|port| format!("\"nats://127.0.0.1:{port}\""))
            .collect();
        for (n, (server, port)) in servers.iter_mut().zip(&ports).enumerate() {
            let routes = routes.join(", ");
            server.more = format!(
                "server_name: n{n}\ncluster {{ name: c, listen: \"127.0.0.1:{port}\", routes: [{routes}] }}\n"
            );
            server.up();
        }
        for server in &servers {
            server.until_ready();
        }
        servers
    }

    /// Waits until its cluster has a leader.
    pub(crate) fn until_ready(&self) {
        let deadline = Instant::now() + PATIENCE;
        self.block_on(async {
            let jetstream = jetstream::new(self.client().await);
            let is_answered = |error: &GetStreamError| {
                matches!(error.kind(), GetStreamErrorKind::JetStream(why) if why.error_code() == ErrorCode::STREAM_NOT_FOUND)
            };
            while !jetstream.get_stream("none").await.as_ref().is_err_and(is_answered) {
                assert!(Instant::now() < deadline, "the cluster has no leader");
            }
        });
    }

    /// The leader of a stream in its cluster, and the number of servers that have all of it.
    pub(crate) fn leader_and_replicas(&self, stream: &str) -> Option<(String, usize)> {
        self.block_on(async {
            let stream = jetstream::new(self.client().await)
                .get_stream(stream)
                .await
                .ok()?;
            let info = stream.cached_info();
            let cluster = info.cluster.as_ref()?;
            Some((
                cluster.leader.clone()?,
                1 + cluster.replicas.iter().filter(|peer| peer.current).count(),
            ))
        })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Starts the server, also again.
    pub(crate) fn up(&mut self) {
        let store = format!(
            "jetstream {{ store_dir: \"{}\" }}\n",
            self.path("js").display()
        );
        let store = if self.jetstream { store.as_str() } else { "" };
        let config = format!(
            "listen: \"127.0.0.1:{}\"\n{store}{}\n",
            self.port, self.more
        );
        fs::write(self.path("server.conf"), config).expect("space");
        let log = File::create(self.path("log")).expect("space");
        let child = Command::new(program())
            .arg("-c")
            .arg(self.path("server.conf"))
            .stdout(Stdio::null())
            .stderr(log)
            .stdin(Stdio::null())
            .spawn()
            .expect("`nats-server` is installed; ./test installs it where it can");
        self.child = Some(child);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let greets = self.greets();
            // Another server can greet at this port.
            let gone = self
                .child
                .as_mut()
                .is_some_and(|child| child.try_wait().is_ok_and(|ended| ended.is_some()));
            let log = fs::read_to_string(self.path("log")).unwrap_or_default();
            assert!(
                !gone && Instant::now() < deadline,
                "the server does not start: {log}"
            );
            if greets {
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn greets(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else {
            return false;
        };
        let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
        let mut greeting = [0; 4];
        stream.read_exact(&mut greeting).is_ok() && &greeting == b"INFO"
    }

    /// `kill -9`, and wait.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = self
            .child
            .as_ref()
            .and_then(|child| Pid::from_raw(i32::try_from(child.id()).ok()?));
        kill_process(pid.expect("it runs"), signal).expect("it is there");
    }

    /// Deletes everything that it stored.
    pub(crate) fn forget(&self) {
        let _ = fs::remove_dir_all(self.path("js"));
    }

    /// The URL without a user.
    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// The URL with a user that logs in.
    pub(crate) fn url_for(&self, user: &str) -> String {
        format!("nats://{user}@127.0.0.1:{}", self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.tokio.block_on(future)
    }

    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.tokio.spawn(future);
    }

    pub(crate) async fn client(&self) -> Client {
        async_nats::connect(self.url())
            .await
            .expect("the server is there")
    }

    /// A client that logs in.
    pub(crate) fn client_with(&self, options: ConnectOptions) -> Client {
        self.block_on(options.connect(self.url()))
            .expect("the server lets it in")
    }

    /// All messages of a stream.
    pub(crate) fn stored(&self, stream: &str) -> Vec<Stored> {
        let client = self.block_on(self.client());
        self.stored_by(&client, stream)
    }

    pub(crate) fn stored_by(&self, client: &Client, stream: &str) -> Vec<Stored> {
        self.block_on(async {
            let Ok(stream) = jetstream::new(client.clone()).get_stream(stream).await else {
                return Vec::new();
            };
            let last = stream.cached_info().state.last_sequence;
            let mut all = Vec::new();
            for number in stream.cached_info().state.first_sequence.max(1)..=last {
                let message = match stream.get_raw_message(number).await {
                    Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => continue,
                    message => message.expect("a message"),
                };
                let header = |name: &str| {
                    message
                        .headers
                        .get(name)
                        .map(|value| value.as_str().to_owned())
                };
                all.push(Stored {
                    subject: message.subject.to_string(),
                    id: header("Nats-Msg-Id").unwrap_or_default(),
                    session: header("Creel-Session"),
                    text: String::from_utf8_lossy(&message.payload).into_owned(),
                });
            }
            all
        })
    }

    /// How many messages a stream has.
    pub(crate) fn count(&self, stream: &str) -> u64 {
        self.block_on(async {
            let client = self.client().await;
            let stream = jetstream::new(client).get_stream(stream).await;
            stream.map_or(0, |stream| stream.cached_info().state.messages)
        })
    }

    pub(crate) fn create(&self, config: Config) {
        self.block_on(async {
            jetstream::new(self.client().await)
                .create_stream(config)
                .await
                .expect("a stream");
        });
    }

    pub(crate) fn publish(&self, subject: &str, text: &str) {
        self.block_on(async {
            let client = self.client().await;
            client
                .publish(subject.to_owned(), text.to_owned().into())
                .await
                .expect("a connection");
            client.flush().await.expect("a connection");
        });
    }

    /// Publishes, and waits until the stream has stored it.
    pub(crate) fn publish_for_good(&self, subject: &str, text: &str) {
        self.block_on(async {
            let jetstream = jetstream::new(self.client().await);
            let ack = jetstream
                .publish(subject.to_owned(), text.to_owned().into())
                .await
                .expect("a connection");
            ack.await.expect("the stream has it");
        });
    }

    /// Publishes under an id; returns whether the stream already had a message with that id.
    pub(crate) fn has_seen(&self, subject: &str, id: &str) -> bool {
        self.block_on(async {
            let jetstream = jetstream::new(self.client().await);
            let message = PublishMessage::build().message_id(id).payload("{}".into());
            let ack = jetstream
                .send_publish(subject.to_owned(), message)
                .await
                .expect("a connection");
            ack.await.expect("the stream has it").duplicate
        })
    }

    /// Sends a request, and waits for the answer.
    pub(crate) fn ask(&self, subject: &str, line: &str) -> Value {
        self.block_on(async {
            let answer = self
                .client()
                .await
                .request(subject.to_owned(), line.to_owned().into())
                .await;
            serde_json::from_slice(&answer.expect("an answer").payload).expect("JSON")
        })
    }

    /// Sends a request with headers. None without an answer in time.
    pub(crate) fn ask_with(
        &self,
        subject: &str,
        headers: HeaderMap,
        line: &str,
        patience: Duration,
    ) -> Option<Value> {
        self.block_on(async {
            let request = async_nats::Request::new()
                .headers(headers)
                .payload(line.to_owned().into());
            let request = request.timeout(Some(patience));
            let answer = self
                .client()
                .await
                .send_request(subject.to_owned(), request)
                .await
                .ok()?;
            serde_json::from_slice(&answer.payload).ok()
        })
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        self.kill();
    }
}

fn program() -> PathBuf {
    let named = std::env::var_os("NATS_SERVER").map(PathBuf::from);
    let debian = PathBuf::from("/usr/sbin/nats-server");
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&folders)
        .map(|folder| folder.join("nats-server"))
        .find(|path| path.exists());
    named.or(on_path).unwrap_or(debian)
}

/// A connection to a server that can stop carrying anything, as in a broken network: neither side
/// is notified.
pub(crate) struct Proxy {
    port: u16,
    stuck: Arc<AtomicBool>,
}

impl Proxy {
    pub(crate) fn to(server: &NatsServer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("a port").port();
        let stuck = Arc::new(AtomicBool::new(false));
        let (to, is_stuck) = (server.port(), Arc::clone(&stuck));
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(("127.0.0.1", to)) else {
                    continue;
                };
                let (Ok(client_too), Ok(server_too)) = (client.try_clone(), server.try_clone())
                else {
                    continue;
                };
                for (from, to) in [(client, server_too), (server, client_too)] {
                    let is_stuck = Arc::clone(&is_stuck);
                    std::thread::spawn(move || carry(from, to, &is_stuck));
                }
            }
        });
        Self { port, stuck }
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// From here on nothing arrives, and nothing is closed.
    pub(crate) fn break_off(&self) {
        self.stuck.store(true, Ordering::Relaxed);
    }

    /// New connections work again. What was on its way is lost.
    pub(crate) fn mend(&self) {
        self.stuck.store(false, Ordering::Relaxed);
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, is_stuck: &AtomicBool) {
    let (mut buffer, mut lost) = ([0; 16 * 1024], false);
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        // A connection that has lost something is useless.
        lost |= is_stuck.load(Ordering::Relaxed);
        if !lost && to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    if !lost {
        let _ = to.shutdown(std::net::Shutdown::Both);
    }
}

/// A port for a server that starts later. It is below the ports that the kernel gives to
/// connections, or one of those could take it meanwhile.
fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let candidates =
        std::iter::repeat_with(|| std::process::id() * 64 + NEXT.fetch_add(1, Ordering::Relaxed));
    let ports = candidates
        .map(|number| u16::try_from(16_000 + number % 16_000).expect("it is below 32,000"));
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    ports.take(16_000).find(is_free).expect("a free port")
}
