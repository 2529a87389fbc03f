//! One client of the control socket: reads its requests one after another and answers them.
//!
//! # Invariants
//! - A client can block only itself: its requests are limited in size, and a client that does not
//!   read is disconnected.

use std::{
    io,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{
        OwnedSemaphorePermit, Semaphore,
        broadcast::{
            self,
            error::{RecvError, TryRecvError},
        },
        watch,
    },
    time::timeout,
};

use super::{
    MOST_WATCHERS,
    answer::{RequestOutcome, answer},
    message::{self, LONGEST, SessionReply, SessionRequest},
    query::WatchRequest,
};
use crate::{
    engine::actor::ActorKind,
    nats::status::NatsStatus,
    runtime::{HookOutputChunk, SessionHandle},
    socket::{
        caller::CallerInfo, journal_lines::JournalLineReader, message::live_message::LiveMessage,
        request_refusal::RequestRefusal, session_mirror::QueryHandle,
    },
};

/// How long a client can take to read an answer.
pub(super) const WRITING: Duration = Duration::from_secs(10);
/// How long a client can be silent before it is disconnected.
const IDLE: Duration = Duration::from_mins(10);

/// What the connection of a client needs.
#[derive(Clone)]
pub(super) struct ClientContext {
    pub(super) handle: SessionHandle,
    pub(super) desk: QueryHandle,
    pub(super) journal: PathBuf,
    pub(super) live: broadcast::Sender<HookOutputChunk>,
    /// `None` if the session has no NATS server.
    pub(super) nats: Option<watch::Receiver<NatsStatus>>,
    /// The session's id.
    pub(super) session: String,
    /// The slots for clients that watch.
    pub(super) watches: Arc<Semaphore>,
}

/// Since when a client has been idle. `None` while its request is being answered, or while it
/// watches. A client that never sent a request sorts before all that did.
#[derive(Debug, Clone)]
pub(super) struct IdleSince(Arc<Mutex<Option<(RequestHistory, Instant)>>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RequestHistory {
    Never,
    Before,
}

impl IdleSince {
    pub(super) fn now() -> Self {
        Self(Arc::new(Mutex::new(Some((
            RequestHistory::Never,
            Instant::now(),
        )))))
    }

    pub(super) fn get(&self) -> Option<(RequestHistory, Instant)> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, since: Option<(RequestHistory, Instant)>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }
}

struct ClientConnection {
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
    reach: ClientContext,
    /// The session's own agent or hook, if the client's process belongs to one.
    process: Option<ActorKind>,
    idle: IdleSince,
}

enum ClientLine {
    Line(Vec<u8>),
    TooLong,
    Nothing,
}

/// Serves a client until it disconnects, stops reading, or the session ends.
pub(super) async fn serve(
    stream: UnixStream,
    process: Option<ActorKind>,
    reach: ClientContext,
    idle: IdleSince,
) {
    let (reader, writer) = stream.into_split();
    let connection = ClientConnection {
        reader: BufReader::new(reader),
        writer,
        reach,
        process,
        idle,
    };
    if let Err(error) = connection.talk().await {
        tracing::info!("disconnected a client of the control socket: {error}");
    }
}

impl ClientConnection {
    async fn talk(mut self) -> io::Result<()> {
        loop {
            let news = self.reach.desk.news.clone();
            let heard = tokio::select! {
                biased;
                heard = timeout(IDLE, self.hear()) => heard.unwrap_or(Ok(ClientLine::Nothing))?,
                () = the_end(news) => return Ok(()),
            };
            let line = match heard {
                ClientLine::Line(line) if line.trim_ascii().is_empty() => continue,
                ClientLine::Line(line) => line,
                ClientLine::TooLong => {
                    return self
                        .say(&SessionReply::refused(&RequestRefusal::LineTooLong))
                        .await;
                }
                ClientLine::Nothing => return Ok(()),
            };
            self.idle.set(None);
            match message::read(&line) {
                Ok((caller, request)) => match self.answer(caller, request).await {
                    ConnectionAction::Say(reply) => self.say(&reply).await?,
                    ConnectionAction::Watch(tail, aside, _room) => {
                        return self.watch(tail, aside).await;
                    }
                },
                Err(why) => self.say(&SessionReply::refused(&why.into())).await?,
            }
            self.idle
                .set(Some((RequestHistory::Before, Instant::now())));
        }
    }

    /// The next line, up to the size limit.
    async fn hear(&mut self) -> io::Result<ClientLine> {
        let mut line = Vec::new();
        let most = LONGEST as u64 + 1;
        (&mut self.reader)
            .take(most)
            .read_until(b'\n', &mut line)
            .await?;
        Ok(match line.pop() {
            Some(b'\n') => ClientLine::Line(line),
            Some(_) if line.len() == LONGEST => ClientLine::TooLong,
            // A client that disconnects in the middle of a line has sent no request.
            Some(_) | None => ClientLine::Nothing,
        })
    }

    async fn answer(&self, caller: CallerInfo, request: SessionRequest) -> ConnectionAction {
        let ClientContext {
            handle,
            desk,
            journal,
            live,
            nats,
            session,
            watches,
        } = &self.reach;
        match answer(
            handle,
            desk,
            caller.on_socket(self.process, session),
            request,
        )
        .await
        {
            RequestOutcome::Say(reply) => ConnectionAction::Say(reply),
            RequestOutcome::Watch(WatchRequest {
                from,
                live: wants_live,
            }) => {
                let Ok(room) = Arc::clone(watches).try_acquire_owned() else {
                    return ConnectionAction::Say(SessionReply::refused(
                        &RequestRefusal::TooManyWatchers(MOST_WATCHERS),
                    ));
                };
                let from = from.unwrap_or(*desk.news.borrow() + 1);
                let aside = if wants_live {
                    LiveMessageSource::new(live, nats.as_ref())
                } else {
                    LiveMessageSource::default()
                };
                match JournalLineReader::open(journal, from) {
                    Ok(tail) => ConnectionAction::Watch(tail, aside, room),
                    Err(error) => ConnectionAction::Say(SessionReply::refused(
                        &RequestRefusal::JournalUnreadable(error),
                    )),
                }
            }
        }
    }

    async fn watch(
        mut self,
        mut tail: JournalLineReader,
        mut asides: LiveMessageSource,
    ) -> io::Result<()> {
        self.say(&SessionReply::done()).await?;
        let mut news = self.reach.desk.news.clone();
        let mut over = false;
        loop {
            // Mark first, read the file afterwards: a record that is written in between counts as a
            // change.
            news.mark_unchanged();
            // What a hook has printed goes out before the end of the session. What it prints
            // meanwhile must not delay the records.
            for _ in 0..asides.waiting() {
                let Some(aside) = asides.next_waiting() else {
                    break;
                };
                self.write(aside.into_line().as_bytes()).await?;
            }
            while let Some(lines) = tail.read()? {
                self.write(&lines).await?;
                // Other clients must not wait until a long journal has been sent.
                tokio::task::yield_now().await;
            }
            if over {
                return Ok(());
            }
            tokio::select! {
                // After the last record, the file is read once more.
                changed = news.changed() => over = changed.is_err(),
                aside = asides.next() => self.write(aside.into_line().as_bytes()).await?,
                () = gone(&mut self.reader) => return Ok(()),
            }
        }
    }

    async fn say(&mut self, reply: &SessionReply) -> io::Result<()> {
        self.write(reply.to_line().as_bytes()).await
    }

    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        timeout(WRITING, self.writer.write_all(bytes))
            .await
            .unwrap_or_else(|_| {
                Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "it does not read its messages",
                ))
            })
    }
}

enum ConnectionAction {
    Say(SessionReply),
    Watch(JournalLineReader, LiveMessageSource, OwnedSemaphorePermit),
}

/// The live messages that the client wants.
#[derive(Default)]
struct LiveMessageSource {
    live: Option<broadcast::Receiver<HookOutputChunk>>,
    nats: Option<watch::Receiver<NatsStatus>>,
}

impl LiveMessageSource {
    fn new(
        live: &broadcast::Sender<HookOutputChunk>,
        nats: Option<&watch::Receiver<NatsStatus>>,
    ) -> Self {
        let nats = nats.cloned().map(|mut link| {
            // A new client must learn the current status first.
            link.mark_changed();
            link
        });
        Self {
            live: Some(live.subscribe()),
            nats,
        }
    }

    async fn next(&mut self) -> LiveMessage {
        tokio::select! {
            piece = overheard(&mut self.live) => piece.into(),
            link = changed(&mut self.nats) => LiveMessage::Nats(link),
        }
    }

    /// How many chunks of hook output have already arrived.
    fn waiting(&self) -> usize {
        self.live.as_ref().map_or(0, broadcast::Receiver::len)
    }

    /// The next chunk of hook output that has already arrived.
    fn next_waiting(&mut self) -> Option<LiveMessage> {
        let mut missed = false;
        loop {
            match self.live.as_mut()?.try_recv() {
                Ok(piece) => {
                    return Some(
                        HookOutputChunk {
                            gap: missed,
                            ..piece
                        }
                        .into(),
                    );
                }
                Err(TryRecvError::Lagged(_)) => missed = true,
                Err(TryRecvError::Empty | TryRecvError::Closed) => return None,
            }
        }
    }
}

/// The next chunk of hook output. Never returns if the client does not want it.
async fn overheard(live: &mut Option<broadcast::Receiver<HookOutputChunk>>) -> HookOutputChunk {
    let mut missed = false;
    while let Some(pieces) = live {
        match pieces.recv().await {
            Ok(piece) => {
                return HookOutputChunk {
                    gap: missed,
                    ..piece
                };
            }
            Err(RecvError::Lagged(_)) => missed = true,
            Err(RecvError::Closed) => *live = None,
        }
    }
    std::future::pending().await
}

/// The next status of the NATS connection. Never returns if the session has no NATS server.
async fn changed(nats: &mut Option<watch::Receiver<NatsStatus>>) -> NatsStatus {
    while let Some(link) = nats {
        match link.changed().await {
            Ok(()) => return link.borrow_and_update().clone(),
            Err(_) => *nats = None,
        }
    }
    std::future::pending().await
}

/// Waits until the session has ended.
async fn the_end(mut news: watch::Receiver<u64>) {
    while news.changed().await.is_ok() {}
}

/// Waits until the client has closed its side. Ignores what it still sends.
async fn gone(reader: &mut BufReader<OwnedReadHalf>) {
    while let Ok(heard) = reader.fill_buf().await {
        let length = heard.len();
        if length == 0 {
            return;
        }
        reader.consume(length);
    }
}
