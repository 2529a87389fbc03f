//! One client of the control socket: reads its requests one after another and answers them.
//!
//! # Invariants
//! - A client can block only itself: its requests are limited in size, and a client that does not
//!   read is disconnected.

use std::{
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use serde::Deserialize;
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

use super::{MOST_CALLS, MOST_WATCHERS};
use crate::{
    engine::refusal::Refusal,
    protocol::{
        CallerInfo, LONGEST_REQUEST, LiveMessage, NatsStatus, RequestRefusal, SessionReply,
        SessionRequest, WatchRequest, process_origin::PeerProcess, read_request,
    },
    runtime::{HookOutputChunk, SessionHandle},
    socket::session_mirror::{QueryHandle, RequestOutcome, answer},
};

/// How long a client can take to read an answer.
pub(super) const WRITING: Duration = Duration::from_secs(10);
/// How long a client can be silent before it is disconnected.
const IDLE: Duration = Duration::from_mins(10);

/// What the connection of a client needs.
#[derive(Clone)]
pub(super) struct ClientContext {
    pub(super) handle: SessionHandle,
    pub(super) query_handle: QueryHandle,
    pub(super) journal: PathBuf,
    pub(super) live: broadcast::Sender<HookOutputChunk>,
    /// `None` if the session has no NATS server.
    pub(super) nats: Option<watch::Receiver<NatsStatus>>,
    /// The session's id.
    pub(super) session: String,
    /// The slots for clients that watch.
    pub(super) watches: Arc<Semaphore>,
    /// The slots for calls that wait for an answer.
    pub(super) calls: Arc<Semaphore>,
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
    context: ClientContext,
    peer: PeerProcess,
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
    peer: PeerProcess,
    context: ClientContext,
    idle: IdleSince,
) {
    let (reader, writer) = stream.into_split();
    let connection = ClientConnection {
        reader: BufReader::new(reader),
        writer,
        context,
        peer,
        idle,
    };
    if let Err(error) = connection.talk().await {
        tracing::info!("disconnected a client of the control socket: {error}");
    }
}

impl ClientConnection {
    async fn talk(mut self) -> io::Result<()> {
        loop {
            let news = self.context.query_handle.news.clone();
            let received = tokio::select! {
                biased;
                received = timeout(IDLE, self.next_line()) => received.unwrap_or(Ok(ClientLine::Nothing))?,
                () = the_end(news) => return Ok(()),
            };
            let line = match received {
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
            match read_request(&line) {
                Ok((caller, request)) => {
                    let decides = request.decides_tool();
                    let answered = answered(&self.context, self.peer, caller, request);
                    let action = tokio::select! {
                        biased;
                        action = answered => action,
                        // A call whose hook was killed needs no answer.
                        () = hung_up(&mut self.reader), if decides => return Ok(()),
                    };
                    match action {
                        ConnectionAction::Reply(reply) => self.say(&reply).await?,
                        ConnectionAction::Watch(tail, live_message, _room) => {
                            return self.watch(tail, live_message).await;
                        }
                    }
                }
                Err(why) => self.say(&SessionReply::refused(&why.into())).await?,
            }
            self.idle
                .set(Some((RequestHistory::Before, Instant::now())));
        }
    }

    /// The next line, up to the size limit.
    async fn next_line(&mut self) -> io::Result<ClientLine> {
        let mut line = Vec::new();
        let most = LONGEST_REQUEST as u64 + 1;
        (&mut self.reader)
            .take(most)
            .read_until(b'\n', &mut line)
            .await?;
        Ok(match line.pop() {
            Some(b'\n') => ClientLine::Line(line),
            Some(_) if line.len() == LONGEST_REQUEST => ClientLine::TooLong,
            // A client that disconnects in the middle of a line has sent no request.
            Some(_) | None => ClientLine::Nothing,
        })
    }

    async fn watch(
        mut self,
        mut tail: JournalLineReader,
        mut live_messages: LiveMessageSource,
    ) -> io::Result<()> {
        self.say(&SessionReply::done()).await?;
        let mut news = self.context.query_handle.news.clone();
        let mut over = false;
        loop {
            // Mark first, read the file afterwards: a record that is written in between counts as a
            // change.
            news.mark_unchanged();
            // What a hook has printed goes out before the end of the session. What it prints
            // meanwhile must not delay the records.
            for _ in 0..live_messages.waiting() {
                let Some(live_message) = live_messages.next_waiting() else {
                    break;
                };
                self.write(live_message.into_line().as_bytes()).await?;
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
                live_message = live_messages.next() => self.write(live_message.into_line().as_bytes()).await?,
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

async fn answered(
    context: &ClientContext,
    peer: PeerProcess,
    caller: CallerInfo,
    request: SessionRequest,
) -> ConnectionAction {
    let ClientContext {
        handle,
        query_handle,
        journal,
        live,
        nats,
        session,
        watches,
        calls,
    } = context;
    if request.is_of_agent_hook() && !peer.may_be_agent_hook(&caller, session) {
        return ConnectionAction::Reply(SessionReply::refused(&Refusal::NotTheAgent.into()));
    }
    let room = request.decides_tool().then(|| calls.try_acquire());
    if let Some(Err(_)) = room {
        return ConnectionAction::Reply(SessionReply::refused(&RequestRefusal::TooManyCalls(
            MOST_CALLS,
        )));
    }
    match answer(
        handle,
        query_handle,
        caller.on_socket(peer.by, session),
        request,
    )
    .await
    {
        RequestOutcome::Reply(reply) => ConnectionAction::Reply(reply),
        RequestOutcome::Watch(WatchRequest {
            from,
            live: wants_live,
        }) => {
            let Ok(room) = Arc::clone(watches).try_acquire_owned() else {
                return ConnectionAction::Reply(SessionReply::refused(
                    &RequestRefusal::TooManyWatchers(MOST_WATCHERS),
                ));
            };
            let from = from.unwrap_or(*query_handle.news.borrow() + 1);
            let live_message = if wants_live {
                LiveMessageSource::new(live, nats.as_ref())
            } else {
                LiveMessageSource::default()
            };
            match JournalLineReader::open(journal, from) {
                Ok(tail) => ConnectionAction::Watch(tail, live_message, room),
                Err(error) => ConnectionAction::Reply(SessionReply::refused(
                    &RequestRefusal::JournalUnreadable(error),
                )),
            }
        }
    }
}

enum ConnectionAction {
    Reply(SessionReply),
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
            piece = next_chunk(&mut self.live) => piece.into(),
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
async fn next_chunk(live: &mut Option<broadcast::Receiver<HookOutputChunk>>) -> HookOutputChunk {
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
    while let Ok(received) = reader.fill_buf().await {
        let length = received.len();
        if length == 0 {
            return;
        }
        reader.consume(length);
    }
}

/// Waits until the client has closed its side, and takes none of what it still sends.
async fn hung_up(reader: &mut BufReader<OwnedReadHalf>) {
    if reader.fill_buf().await.is_ok_and(|sent| !sent.is_empty()) {
        std::future::pending::<()>().await;
    }
}

/// How many bytes to read at a time.
const CHUNK: usize = 128 << 10;

/// Reads the end of a journal as it grows: whole lines, from the record with that number on. Each
/// watcher reads the file at its own pace, so a slow one needs no memory here and delays no other.
struct JournalLineReader {
    file: File,
    from: u64,
    /// Whether the first wanted record was found.
    found: bool,
    /// The beginning of a line whose end has not been read yet.
    rest: Vec<u8>,
}

#[derive(Deserialize)]
struct NumberedLine {
    seq: u64,
}

impl JournalLineReader {
    fn open(journal: &Path, from: u64) -> io::Result<Self> {
        Ok(Self {
            file: File::open(journal)?,
            from,
            found: from <= 1,
            rest: Vec::new(),
        })
    }

    /// The next wanted lines, which can be empty. `None` if there is no more for now.
    fn read(&mut self) -> io::Result<Option<Vec<u8>>> {
        let start = self.rest.len();
        self.rest.resize(start + CHUNK, 0);
        let read = self.file.read(&mut self.rest[start..]);
        self.rest.truncate(start + *read.as_ref().unwrap_or(&0));
        if read? == 0 {
            return Ok(None);
        }
        let Some(newline) = self.rest.iter().rposition(|byte| *byte == b'\n') else {
            return Ok(Some(Vec::new()));
        };
        let rest = self.rest.split_off(newline + 1);
        let lines = std::mem::replace(&mut self.rest, rest);
        Ok(Some(self.wanted(lines)))
    }

    fn wanted(&mut self, mut lines: Vec<u8>) -> Vec<u8> {
        let mut skipped = 0;
        while !self.found && skipped < lines.len() {
            let line = lines[skipped..]
                .split_inclusive(|byte| *byte == b'\n')
                .next()
                .unwrap_or_default();
            // A line that is not a record is skipped.
            let seq = serde_json::from_slice(line).map_or(0, |NumberedLine { seq }| seq);
            self.found = seq >= self.from;
            skipped += if self.found { 0 } else { line.len() };
        }
        lines.drain(..skipped);
        lines
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn all(tail: &mut JournalLineReader) -> String {
        let mut lines = Vec::new();
        while let Some(more) = tail.read().expect("a file") {
            lines.extend(more);
        }
        String::from_utf8(lines).expect("text")
    }

    #[test]
    fn only_whole_lines_from_the_number_on_and_each_once() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        let line = |seq: u64| {
            format!(
                "{{\"v\":1,\"seq\":{seq},\"text\":\"{}\"}}\n",
                "x".repeat(CHUNK / 3)
            )
        };
        write!(file, "{}{}{}{}", line(1), line(2), line(3), &line(4)[..20]).expect("space");
        let mut tail = JournalLineReader::open(file.path(), 2).expect("a file");
        assert_eq!(all(&mut tail), line(2) + &line(3));
        write!(file, "{}{}", &line(4)[20..], line(5)).expect("space");
        assert_eq!(all(&mut tail), line(4) + &line(5));
        assert_eq!(
            all(&mut JournalLineReader::open(file.path(), 6).expect("a file")),
            ""
        );
        assert_eq!(
            all(&mut JournalLineReader::open(file.path(), 0).expect("a file"))
                .lines()
                .count(),
            5
        );
    }
}
