//! The NATS side of a session: publishes its records to a `JetStream` stream and receives commands.
//!
//! Owns the thread that does this. A command becomes the same
//! [`crate::engine::input::SessionCommand`] as one from any other client. The records are read from
//! the journal file.
//!
//! # Invariants
//! - The session never waits for the server: it writes its journal, and this thread reads it.
//! - No record is lost or stored twice, however often the server, the connection or creel fails:
//!   each connection first checks which records the stream has.
//! - No secret leaves [`mod@connection`].

pub mod commands;
pub mod connection;
mod live_output;
pub mod presence;
mod record_sender;
pub mod remote_journal;
mod send_window;
pub mod stream;
pub mod subject;

use std::{
    io,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use async_nats::{
    Client,
    jetstream::{Context, context::ContextBuilder},
};
use tokio::sync::{Notify, broadcast, mpsc, watch};

use crate::{
    config::NatsConfig,
    journal::{SessionDir, SessionsDir, outbox::Outbox},
    nats::{
        commands::CommandListener,
        live_output::LiveOutputPublisher,
        presence::HeartbeatSender,
        record_sender::{BacklogSender, RecordSender},
        stream::{NatsStream, SessionIdentity, StoredRecords},
    },
    protocol::{NatsStatus, view::StatusView},
    runtime::{HookOutputChunk, SessionHandle, SessionRuntime},
    socket::{
        CompanionWork,
        session_mirror::{FoldPace, QueryHandle, SessionMirror},
    },
};
use connection::{NatsConnectionEvent, NatsError, ReconnectPolicy, connect, destination, pause};
use subject::SessionSubjects;

/// How long creel waits for an answer of the server.
const ANSWER: Duration = Duration::from_secs(10);
/// How long a session that has ended waits until the server has its last records.
const FAREWELL: Duration = Duration::from_secs(5);
/// The same, if the connection was lost when the session ended.
const LAST_TRY: Duration = Duration::from_secs(2);

/// How often to check whether another creel is still sending records of this session.
const HELD: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub struct NatsEndpoint {
    folder: SessionDir,
    link: watch::Receiver<NatsStatus>,
    /// Wakes the thread up when no more records will follow.
    leaving: Arc<Notify>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// Work that uses each connection of the session until the connection is lost, on the NATS thread.
pub type ConnectionCompanion =
    Box<dyn Fn(Context, SessionHandle, QueryHandle) -> CompanionWork + Send>;

/// Everything that the NATS thread needs.
struct NatsTask {
    nats: NatsConfig,
    subjects: SessionSubjects,
    session: String,
    id: String,
    outbox: Outbox,
    /// All sessions of the project.
    sessions: SessionsDir,
    link: watch::Sender<NatsStatus>,
    query_handle: QueryHandle,
    handle: SessionHandle,
    listener: CommandListener,
    /// The output of running hooks.
    live: broadcast::Sender<HookOutputChunk>,
    /// Until when to publish that output.
    watched: tokio::time::Instant,
    companion: ConnectionCompanion,
    /// Whether the session has warned that the list of sessions has too few replicas.
    replicas_warned: bool,
    folder: PathBuf,
    /// The status at its end. `None` while the session runs.
    ended: watch::Receiver<Option<StatusView>>,
    warned: NatsWarnings,
}

/// Which warnings the session has recorded: it records each of them once.
#[derive(Debug, Default)]
struct NatsWarnings {
    differences: bool,
    refused: bool,
    /// The server refuses the output of running hooks. Only the log says so, and this connection
    /// does not try again.
    live: bool,
}

enum NatsConnectionEnd {
    /// The session has ended, and the server has all records.
    Done,
    Failed(NatsError),
}

impl NatsEndpoint {
    /// Connects the session in this folder, which this process is about to run.
    pub fn open(
        nats: NatsConfig,
        folder: &SessionDir,
        runtime: &mut SessionRuntime,
        companion: ConnectionCompanion,
    ) -> io::Result<Self> {
        let server = destination(&nats);
        let outbox = addressed(folder, &server)?;
        let follower = runtime.follow()?;
        let (id, started) = (follower.state.began.id.clone(), follower.state.started);
        if !subject::is_plain(&id) {
            return Err(io::Error::other(
                "the id in its first record is not from creel",
            ));
        }
        let (link_in, link) = watch::channel(NatsStatus::Connecting {
            behind: follower.seq,
        });
        let leaving = Arc::new(Notify::new());
        let (mirror, query_handle) = SessionMirror::new(
            follower,
            Some(link.clone()),
            FoldPace::Gathered(Arc::clone(&leaving)),
        );
        let subjects = SessionSubjects::new(&nats.prefix, &folder.name);
        let (ended_in, ended) = watch::channel(None);
        let handle = runtime.handle();
        let live = runtime.live();
        let of = folder.clone();
        let task = move |outbox: Outbox| NatsTask {
            nats,
            session: of.name.clone(),
            id: id.clone(),
            outbox,
            sessions: SessionsDir::around(&of),
            link: link_in,
            query_handle,
            listener: CommandListener::new(subjects.clone(), id, started, handle.clone()),
            handle,
            subjects,
            live,
            watched: tokio::time::Instant::now(),
            companion,
            replicas_warned: false,
            folder: of.path,
            ended,
            warned: NatsWarnings::default(),
        };
        let mut session = FollowedSession {
            mirror: Some(mirror),
            ended: ended_in,
        };
        let (folder, own) = (folder.clone(), folder.clone());
        let thread = std::thread::Builder::new()
            .name("nats".into())
            .spawn(move || {
                if let Some(outbox) = outbox.or_else(|| session.outbox(&folder, &server)) {
                    task(outbox).run(session);
                }
            })?;
        Ok(Self {
            folder: own,
            link,
            leaving,
            thread: Some(thread),
        })
    }

    pub fn link(&self) -> watch::Receiver<NatsStatus> {
        self.link.clone()
    }

    /// Waits a few seconds until the server has the last records. The session must have ended.
    /// Returns the status if the server lacks records: the next session sends these.
    pub fn close(mut self) -> Option<NatsStatus> {
        self.leaving.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let link = self.link.borrow().clone();
        if link.behind() == 0 {
            self.folder.mark_sent();
        }
        (link.behind() > 0).then_some(link)
    }
}

impl NatsTask {
    fn run(mut self, mut session: FollowedSession) {
        let mut failures = 0;
        loop {
            // A new runtime for each connection: messages that the old client has not sent are
            // dropped with it.
            let Ok(tokio) = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
            else {
                tracing::error!("cannot start NATS: the system has no resources left");
                return;
            };
            let (began, last_try) = (Instant::now(), session.is_over());
            let end = tokio.block_on(session.beside(self.connection()));
            tokio.shutdown_background();
            let Some(NatsConnectionEnd::Failed(NatsError(why))) = end else {
                break;
            };
            tracing::info!("nats: {why}");
            failures = if began.elapsed() > ANSWER {
                1
            } else {
                failures + 1
            };
            self.away(why);
            // A session that has ended does not wait until the server is back.
            if last_try {
                break;
            }
            if !session.is_over() {
                session.wait(pause(failures), &self);
            }
        }
    }

    fn away(&self, why: String) {
        let last = *self.query_handle.news.borrow();
        self.link.send_replace(NatsStatus::Away {
            why,
            behind: last.saturating_sub(self.outbox.place().seq),
        });
    }

    async fn connection(&mut self) -> NatsConnectionEnd {
        let (client, events) = match connect(&self.nats, ReconnectPolicy::Never).await {
            Ok(connected) => connected,
            Err(problem) => return NatsConnectionEnd::Failed(problem.into()),
        };
        match Box::pin(self.use_connection(&client, events)).await {
            Ok(()) => NatsConnectionEnd::Done,
            Err(error) => NatsConnectionEnd::Failed(error),
        }
    }

    /// Checks which records the stream has, and warns if the stream differs from the config.
    async fn prepare(
        &mut self,
        jetstream: &Context,
        events: &mut mpsc::UnboundedReceiver<NatsConnectionEvent>,
    ) -> Result<(NatsStream, StoredRecords), NatsError> {
        let Self {
            nats,
            subjects,
            id,
            outbox,
            handle,
            warned,
            ..
        } = self;
        let mut looking = Box::pin(async {
            let store = stream::open(jetstream, nats).await?;
            let stored = store
                .stored(SessionIdentity { subjects, id }, outbox.place())
                .await?;
            Ok::<_, NatsError>((store, stored))
        });
        let (store, stored) = loop {
            tokio::select! {
                looked = &mut looking => break looked?,
                events = events.recv() => check(events, subjects, warned, handle)?,
            }
        };
        if !store.differences.is_empty() && !std::mem::replace(&mut warned.differences, true) {
            let (name, differences) = (&nats.stream.name, store.differences.join("; "));
            handle.warn(format!(
                "the NATS stream {name} differs from the config: {differences}"
            ));
        }
        Ok((store, stored))
    }

    async fn use_connection(
        &mut self,
        client: &Client,
        mut events: mpsc::UnboundedReceiver<NatsConnectionEvent>,
    ) -> Result<(), NatsError> {
        let jetstream = context(client);
        let (store, stored) = self.prepare(&jetstream, &mut events).await?;
        let Self {
            nats,
            subjects,
            session,
            id,
            outbox,
            sessions,
            link,
            query_handle,
            handle,
            listener,
            ended,
            warned,
            ..
        } = self;
        let largest = store.largest(client.server_info().max_payload)?;
        let beyond = stored.continue_in(outbox);
        let news = query_handle.news.clone();
        let mut sender = RecordSender {
            client,
            store: &store,
            outbox,
            subjects,
            session,
            id,
            beyond,
            largest,
            link,
        };
        let roster = HeartbeatSender::new(nats, client, &jetstream);
        let post = BacklogSender {
            client,
            store: &store,
            nats,
            largest,
        };
        let sending =
            async { tokio::try_join!(sender.run(news), post.send_all(sessions, session)) };
        tokio::pin!(sending);
        let hearing = listener.listen(client, &store, query_handle);
        tokio::pin!(hearing);
        let replicas_warned = &mut self.replicas_warned;
        let mut warn = |why: String| {
            if !std::mem::replace(replicas_warned, true) {
                handle.warn(format!(
                    "if the NATS server fails, the list of sessions can be lost: {why}"
                ));
            }
        };
        let signing = roster.keep(id, query_handle, &mut warn);
        tokio::pin!(signing);
        let stage = LiveOutputPublisher {
            client,
            subjects,
            id,
            query_handle,
            live: &self.live,
            folder: &self.folder,
            largest,
        };
        let showing = stage.show(&mut self.watched);
        tokio::pin!(showing);
        let mut companion =
            (self.companion)(jetstream.clone(), handle.clone(), query_handle.clone());
        warned.live = false;
        loop {
            tokio::select! {
                biased;
                events = events.recv() => check(events, subjects, warned, handle)?,
                sent = &mut sending => {
                    sent?;
                    break;
                }
                error = &mut hearing => return Err(error),
                () = &mut signing => {}
                () = &mut showing, if !warned.live => {}
                () = &mut companion => companion = Box::pin(std::future::pending()),
            }
        }
        let last = ended.borrow().clone();
        if let Some(status) = last {
            roster.send_last(id, status).await;
        }
        Ok(())
    }
}

impl Drop for NatsTask {
    /// A thread that panicked must not leave the status at "connected".
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.away("a bug in creel, see its log".to_owned());
        }
    }
}

/// The outbox of a session, addressed to that server. `None` if another process is sending from it.
fn addressed(folder: &SessionDir, server: &str) -> io::Result<Option<Outbox>> {
    // Before anything can be unsent.
    folder.mark_unsent()?;
    let mut outbox = Outbox::open(folder)?;
    outbox
        .iter_mut()
        .try_for_each(|outbox| outbox.address(server))?;
    Ok(outbox)
}

/// Follows a session to its end and returns its last status.
async fn follow(mirror: &mut Option<SessionMirror>) -> StatusView {
    let Some(following) = mirror else {
        return std::future::pending().await;
    };
    let status = following.follow().await;
    *mirror = None;
    status
}

/// Sends the unsent records of a project's sessions, without running one.
pub async fn send_leftovers(nats: &NatsConfig, sessions: &SessionsDir) -> Result<(), NatsError> {
    let (client, _events) = connect(nats, ReconnectPolicy::Never).await?;
    let jetstream = context(&client);
    let store = stream::open(&jetstream, nats).await?;
    let largest = store.largest(client.server_info().max_payload)?;
    BacklogSender {
        client: &client,
        store: &store,
        nats,
        largest,
    }
    .send_all(sessions, "")
    .await
}

fn context(client: &Client) -> Context {
    ContextBuilder::new().timeout(ANSWER).build(client.clone())
}

/// Fails if the connection event means that this connection is of no more use.
fn check(
    events: Option<NatsConnectionEvent>,
    subjects: &SessionSubjects,
    warned: &mut NatsWarnings,
    handle: &SessionHandle,
) -> Result<(), NatsError> {
    match events {
        Some(NatsConnectionEvent::Connected) => Ok(()),
        Some(NatsConnectionEvent::Lost) | None => {
            Err(NatsError("the connection was lost".to_owned()))
        }
        Some(NatsConnectionEvent::Refused(why)) => {
            if subjects.live_is_meant(&why) {
                tracing::info!("nats: creel does not publish the output of running hooks: {why}");
                warned.live = true;
                return Ok(());
            }
            if concerns_records(&why, subjects) {
                return Err(NatsError(format!("the server refused: {why}")));
            }
            if !std::mem::replace(&mut warned.refused, true) {
                handle.warn(format!("the NATS server does not allow everything: {why}"));
            }
            Ok(())
        }
    }
}

/// Whether a refusal prevents creel from storing records. creel can work without the rest.
fn concerns_records(why: &str, subjects: &SessionSubjects) -> bool {
    let why = why.to_lowercase();
    let without = [
        &subjects.commands(),
        &subjects.completions(),
        &subjects.queue(),
        "$kv.",
        ".kv_",
        "_queue",
    ];
    !without
        .iter()
        .any(|subject| why.contains(&subject.to_lowercase()))
        || why.contains(&format!("publish to \"{}", subjects.completions()).to_lowercase())
}

struct FollowedSession {
    /// `None` when the session has ended: dropping it closes the channel that announces new
    /// records.
    mirror: Option<SessionMirror>,
    /// The status at its end. `None` while the session runs.
    ended: watch::Sender<Option<StatusView>>,
}

impl FollowedSession {
    fn is_over(&self) -> bool {
        self.ended.borrow().is_some()
    }

    /// Waits for the outbox, since another session may be sending what an earlier run of this
    /// session left. `None` if this session ends first; then the next session sends those records.
    fn outbox(&mut self, folder: &SessionDir, server: &str) -> Option<Outbox> {
        let tokio = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .ok()?;
        while !self.is_over() {
            if let Ok(Some(outbox)) = addressed(folder, server) {
                return Some(outbox);
            }
            let followed = tokio
                .block_on(async { tokio::time::timeout(HELD, follow(&mut self.mirror)).await });
            if let Ok(status) = followed {
                self.ended.send_replace(Some(status));
            }
        }
        None
    }

    /// Follows the session while a connection is used. `None` if the session has ended and the time
    /// limit for its last records has passed.
    async fn beside(
        &mut self,
        connection: impl Future<Output = NatsConnectionEnd>,
    ) -> Option<NatsConnectionEnd> {
        let following = follow(&mut self.mirror);
        tokio::pin!(connection, following);
        let leave = tokio::time::sleep(LAST_TRY);
        tokio::pin!(leave);
        loop {
            tokio::select! {
                biased;
                status = &mut following, if self.ended.borrow().is_none() => {
                    self.ended.send_replace(Some(status));
                    leave.as_mut().reset(tokio::time::Instant::now() + FAREWELL);
                }
                end = &mut connection => return Some(end),
                () = &mut leave, if self.ended.borrow().is_some() => return None,
            }
        }
    }

    /// Waits before the next connection attempt, or until the session ends.
    fn wait(&mut self, long: Duration, task: &NatsTask) {
        let Ok(tokio) = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
        else {
            std::thread::sleep(long);
            return;
        };
        tokio.block_on(async {
            let enough = tokio::time::sleep(long);
            let following = follow(&mut self.mirror);
            tokio::pin!(enough, following);
            let mut news = task.query_handle.news.clone();
            loop {
                tokio::select! {
                    biased;
                    status = &mut following => {
                        self.ended.send_replace(Some(status));
                        return;
                    }
                    Ok(()) = news.changed() => {
                        let behind = news.borrow_and_update().saturating_sub(task.outbox.place().seq);
                        task.link.send_modify(|link| *link = link.clone().with(behind));
                    }
                    () = &mut enough => return,
                }
            }
        });
    }
}
