//! The cost of NATS, each figure a ratio of two times from the same run against the same server.
//!
//! Needs a `nats-server`. `cargo bench --bench nats` measures all, `-- outbox` one. The exit code
//! is 1 if one is missed.

#[path = "support/measure.rs"]
mod measure;
#[path = "support/memory.rs"]
mod memory;

use std::{
    collections::VecDeque,
    fs::{self, File},
    io::{BufWriter, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, ExitCode, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use async_nats::{
    Client,
    jetstream::context::{ContextBuilder, PublishAckFuture},
};
use creel::{
    config::{self, NatsConfig},
    engine::{
        event::{SessionStarted, UserPresence},
        policy::SessionPlan,
    },
    journal::{SessionsDir, outbox::Outbox},
    nats::{NatsEndpoint, connection::destination, send_leftovers},
    runtime::{RuntimeDirs, SessionRuntime},
};
use measure::{Figure, Finding, Result, Verdict, check, compare};
use memory::{forget_peak, peak_memory_kib};

/// Records in the journal.
const RECORDS: u32 = 50_000;
/// How many messages are in flight at once.
const WINDOW: usize = 512;
/// Requests per round.
const REQUESTS: u32 = 500;
const ITERATIONS: u32 = 100;
/// An agent that answers a hundred times faster than a real one: an iteration takes 4 ms.
const QUICK: &str = "sleep 0.002";
/// An agent that does nothing, so that only creel and the server use the processors.
const NOTHING: &str = "true";

fn main() -> ExitCode {
    measure::run(&FIGURES)
}

const FIGURES: [Figure; 3] = [
    Figure {
        name: "outbox",
        measure: outbox,
    },
    Figure {
        name: "session",
        measure: session,
    },
    Figure {
        name: "command",
        measure: command,
    },
];

/// A journal through the outbox, from the connection to the last acknowledgement, compared with the
/// same lines published by the same client directly.
fn outbox() -> Result<Vec<Finding>> {
    let stage = Stage::new()?;
    let sessions = SessionsDir::of(stage.folder.path());
    let lines: Vec<String> = (2..=RECORDS).map(line).collect();
    let ours = || {
        let name = stage.name();
        let folder = sessions.folder(&name);
        fs::create_dir_all(&folder.path)?;
        let mut file = BufWriter::new(File::create(folder.journal())?);
        writeln!(file, "{}", first(&name))?;
        lines.iter().try_for_each(|line| writeln!(file, "{line}"))?;
        file.flush()?;
        folder.mark_unsent()?;
        let mut outbox = Outbox::open(&folder)?.ok_or("somebody else sends it")?;
        outbox.address(&destination(&stage.nats))?;
        drop(outbox);
        let started = Instant::now();
        stage
            .tokio
            .block_on(send_leftovers(&stage.nats, &sessions))?;
        let took = started.elapsed();
        let kept = fs::read_to_string(folder.outbox_file())?;
        check(
            kept.contains(&format!("\"seq\":{RECORDS},")),
            "not all records were sent",
        )?;
        fs::remove_dir_all(&folder.path)?;
        Ok(took)
    };
    let theirs = || {
        stage
            .tokio
            .block_on(bare(&stage.url, &lines, &stage.name()))
    };
    forget_peak();
    let before = peak_memory_kib()?;
    ours()?;
    let grown = peak_memory_kib()?.saturating_sub(before) / 1024;
    let memory =
        format!("{RECORDS} records through the outbox: {grown} MiB more memory at the peak");
    let compared = compare(7, ours, theirs)?;
    Ok(vec![
        compared.finding(
            &format!("{RECORDS} records through the outbox"),
            "bare pipelined publishing",
            2.0,
        ),
        Finding {
            text: memory,
            verdict: Verdict::Information,
        },
    ])
}

async fn bare(url: &str, lines: &[String], name: &str) -> Result<Duration> {
    let started = Instant::now();
    let jetstream = ContextBuilder::new()
        .max_ack_inflight(WINDOW)
        .build(async_nats::connect(url).await?);
    let subject = format!("creel.events.{name}.tool.called");
    let mut under_way = VecDeque::new();
    for line in lines {
        if under_way.len() >= WINDOW
            && let Some(ack) = under_way.pop_front()
        {
            PublishAckFuture::into_future(ack).await?;
        }
        under_way.push_back(
            jetstream
                .publish(subject.clone(), line.clone().into())
                .await?,
        );
    }
    for ack in under_way {
        ack.await?;
    }
    Ok(started.elapsed())
}

/// As many messages as such a session has records, at the same pace.
async fn bursts(url: &str, name: &str, ready: std::sync::mpsc::Sender<()>) -> Result<()> {
    const RECORDS_OF_AN_ITERATION: u32 = 6;
    const BURST: u32 = 8 * RECORDS_OF_AN_ITERATION;
    let jetstream = async_nats::jetstream::new(async_nats::connect(url).await?);
    let subject = format!("creel.events.{name}.tool.called");
    let mut next = tokio::time::interval(Duration::from_millis(10));
    ready.send(())?;
    let mut left = ITERATIONS * RECORDS_OF_AN_ITERATION;
    while left > 0 {
        next.tick().await;
        let mut under_way = Vec::new();
        for seq in 1..=BURST.min(left) {
            under_way.push(jetstream.publish(subject.clone(), line(seq).into()).await?);
        }
        left = left.saturating_sub(BURST);
        for ack in under_way {
            ack.await?;
        }
    }
    Ok(())
}

/// The first record of a session.
fn first(name: &str) -> String {
    format!(
        r#"{{"v":1,"seq":1,"at":"2026-11-15T09:30:00.123Z","session":"{name}","kind":"session_started","id":"bench-{name}"}}"#
    )
}

/// A record like those of agents.
fn line(seq: u32) -> String {
    let text = "I will look at the parser first: it reads a list as one word, and that is wrong. "
        .repeat(3);
    format!(
        r#"{{"v":1,"seq":{seq},"at":"2026-11-15T09:30:00.123Z","session":"s","kind":"agent_said","iteration":1,"turn":1,"text":"{text}"}}"#
    )
}

/// A session with a server, compared with the same session without one.
fn session() -> Result<Vec<Finding>> {
    let stage = Stage::new()?;
    let session = |agent, nats| stage.session(agent, nats);
    let compared = compare(
        15,
        || session(QUICK, Some(&stage.nats)),
        || session(QUICK, None),
    )?;
    let hasty = compare(
        25,
        || session(NOTHING, Some(&stage.nats)),
        || session(NOTHING, None),
    )?;
    let beside = compare(
        25,
        || stage.session_beside_a_sender(NOTHING),
        || session(NOTHING, None),
    )?;
    let what = format!("{ITERATIONS} iterations with a server");
    let hasty = hasty.tell(&format!("{what}, of an agent that does nothing"), "without");
    let beside = beside.tell(
        "the same, while another program publishes as much",
        "without",
    );
    let for_information = |text| Finding {
        text,
        verdict: Verdict::Information,
    };
    Ok(vec![
        compared.finding(&what, "without", 1.05),
        for_information(hasty),
        for_information(beside),
    ])
}

/// No task of the session goes to a queue.
fn alone() -> creel::nats::ConnectionCompanion {
    Box::new(|_, _, _| Box::pin(std::future::pending()))
}

/// A command to a session and its answer, compared with a bare request to a program that only
/// answers.
fn command() -> Result<Vec<Finding>> {
    let stage = Stage::new()?;
    let name = stage.name();
    let _inside = stage.tokio.enter();
    let (mut runtime, folder) = stage.begin(&name, "sleep 600")?;
    let uplink = NatsEndpoint::open(stage.nats.clone(), &folder, &mut runtime, alone())?;
    let (handle, running) = (runtime.handle(), stage.tokio.spawn(runtime.run()));
    let client = stage.tokio.block_on(async_nats::connect(&stage.url))?;
    let echo = std::thread::spawn({
        let url = stage.url.clone();
        move || -> std::result::Result<(), String> {
            let tokio = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(|e| e.to_string())?;
            tokio
                .block_on(echo(&url))
                .map_err(|error| error.to_string())
        }
    });
    let subject = format!("creel.commands.{name}");
    stage.until_answered(&client, &subject)?;
    stage.until_answered(&client, "echo")?;
    let asked = |subject: &str| stage.tokio.block_on(ask_many(&client, subject));
    let compared = compare(15, || asked(&subject), || asked("echo"))?;
    stage.tokio.block_on(async {
        let stop = creel::engine::input::SessionCommand::Stop {
            how: creel::engine::event::StopTiming::Now,
        };
        let _ = handle
            .command(creel::engine::event::ActorKind::Cli, stop)
            .await;
        let _ = running.await;
        let _ = client.publish("echo", "stop".into()).await;
        let _ = client.flush().await;
    });
    drop(uplink.close());
    let _ = echo.join();
    Ok(vec![compared.finding(
        &format!("{REQUESTS} commands"),
        "bare requests",
        3.0,
    )])
}

async fn ask_many(client: &Client, subject: &str) -> Result<Duration> {
    let started = Instant::now();
    for n in 0..REQUESTS {
        let verb = if n % 2 == 0 { "pause" } else { "unpause" };
        let line = format!(r#"{{"v":1,"do":"{verb}"}}"#);
        client.request(subject.to_owned(), line.into()).await?;
    }
    Ok(started.elapsed())
}

/// Answers every request with as many bytes as a session does.
async fn echo(url: &str) -> Result<()> {
    let client = async_nats::connect(url).await?;
    let mut asked = client.subscribe("echo").await?;
    loop {
        let next = std::future::poll_fn(|context| {
            futures_core::Stream::poll_next(std::pin::Pin::new(&mut asked), context)
        });
        match next.await {
            Some(message) if message.payload != "stop" => {
                if let Some(to) = message.reply {
                    client.publish(to, r#"{"v":1,"ok":true}"#.into()).await?;
                }
            }
            Some(_) | None => return Ok(()),
        }
    }
}

struct Stage {
    folder: tempfile::TempDir,
    /// The server's folder. It is outside the project, because a session looks at the project's
    /// files after each turn.
    _kept: tempfile::TempDir,
    tokio: tokio::runtime::Runtime,
    server: Child,
    url: String,
    nats: NatsConfig,
    next: AtomicU32,
}

impl Stage {
    fn new() -> Result<Self> {
        let (folder, kept) = (tempfile::tempdir()?, tempfile::tempdir()?);
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let program = ["/usr/sbin/nats-server", "nats-server"]
            .into_iter()
            .find(|path| Path::new(path).exists());
        let server = Command::new(
            std::env::var("NATS_SERVER").unwrap_or(program.unwrap_or("nats-server").to_owned()),
        )
        .args(["-a", "127.0.0.1", "-p", &port.to_string(), "-js", "-sd"])
        .arg(kept.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("`nats-server` does not start: {error}"))?;
        let deadline = Instant::now() + Duration::from_secs(10);
        while !greets(port) {
            check(Instant::now() < deadline, "`nats-server` does not answer")?;
            std::thread::sleep(Duration::from_millis(5));
        }
        let url = format!("nats://127.0.0.1:{port}");
        let nats = NatsConfig::named(&url, None)?;
        let tokio = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        Ok(Self {
            folder,
            _kept: kept,
            tokio,
            server,
            url,
            nats,
            next: AtomicU32::new(1),
        })
    }

    fn name(&self) -> String {
        format!("s{}", self.next.fetch_add(1, Ordering::Relaxed))
    }

    fn begin(
        &self,
        name: &str,
        agent: &str,
    ) -> Result<(SessionRuntime, creel::journal::SessionDir)> {
        let project = self.folder.path();
        // An agent that does nothing makes no progress, which is not what is measured.
        let text = format!(
            "prompt: Go.\nmax_iterations: {ITERATIONS}\nagents: {{ a: {{ command: '{agent}' }} }}\n\
             stop: {{ thrashing: 0, no_progress: 0 }}\n"
        );
        let plan: SessionPlan = config::parse(&text, &project.join("creel.yaml"))?
            .plan(config::PlanRequest::default())?;
        let began = SessionStarted {
            agent: plan.agent.clone(),
            cwd: project.to_string_lossy().into_owned(),
            prompt: "Go.".into(),
            max_iterations: ITERATIONS,
            id: format!("bench-{}-{name}", std::process::id()),
            seed: 7,
            presence: UserPresence::Unattended,
            plan,
            only_pipeline: None,
            order: None,
            worktree: None,
            from: None,
            fork: None,
            creel: String::new(),
            user: None,
            trace: None,
        };
        let folder = SessionsDir::of(project).folder(name);
        let scene = RuntimeDirs {
            cwd: project.to_owned(),
            rescue: project.join("rescued"),
            prices: None,
        };
        Ok((SessionRuntime::begin(began, &folder, scene)?, folder))
    }

    /// A session from its first record until the server has its last.
    fn session(&self, agent: &str, nats: Option<&NatsConfig>) -> Result<Duration> {
        let name = self.name();
        let started = Instant::now();
        let _inside = self.tokio.enter();
        let (mut runtime, folder) = self.begin(&name, agent)?;
        let uplink = nats
            .map(|nats| NatsEndpoint::open(nats.clone(), &folder, &mut runtime, alone()))
            .transpose()?;
        let left = self.tokio.block_on(runtime.run())?;
        check(
            uplink.and_then(NatsEndpoint::close).is_none(),
            "the server does not have everything",
        )?;
        let took = started.elapsed();
        check(
            left.state.iterations.current == ITERATIONS,
            "not all iterations took place",
        )?;
        fs::remove_dir_all(&folder.path)?;
        Ok(took)
    }

    /// A session without a server, while another client sends the same messages in small bursts:
    /// this is what the server's own work costs on the same processors.
    fn session_beside_a_sender(&self, agent: &str) -> Result<Duration> {
        let (url, name) = (self.url.clone(), self.name());
        let (ready_in, ready) = std::sync::mpsc::channel();
        let sender = std::thread::spawn(move || -> std::result::Result<(), String> {
            let tokio = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            let tokio = tokio.map_err(|error| error.to_string())?;
            tokio
                .block_on(bursts(&url, &name, ready_in))
                .map_err(|error| error.to_string())
        });
        ready.recv()?;
        let took = self.session(agent, None)?;
        sender.join().map_err(|_| "the sender is gone")??;
        Ok(took)
    }

    fn until_answered(&self, client: &Client, subject: &str) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(10);
        let request = || client.request(subject.to_owned(), r#"{"v":1,"do":"status"}"#.into());
        while self.tokio.block_on(request()).is_err() {
            check(Instant::now() < deadline, "the session does not answer")?;
        }
        Ok(())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn greets(port: u16) -> bool {
    let mut greeting = [0; 4];
    TcpStream::connect(("127.0.0.1", port))
        .is_ok_and(|mut stream| stream.read_exact(&mut greeting).is_ok())
}
