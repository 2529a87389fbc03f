//! The client of a session: sends requests to it, over its control socket or a NATS server, for the
//! command line, the screens and the agent's tools alike; and follows a session in another process.
//!
//! Does not own how bytes travel: see [`crate::socket::client`] and [`crate::nats::commands`].

use tokio::sync::{mpsc, watch};

use crate::{
    engine::{
        event::{ActorKind, Event, SessionEvent},
        input::SessionCommand,
    },
    journal::SessionDir,
    nats::commands::NatsTransport,
    present::refusals,
    protocol::{
        ClientKind, LiveMessage, NatsStatus, ReplyData, SessionQuery, SessionRequest,
        SessionRequestError, process_origin::person,
    },
    runtime::{HookOutputChunk, SessionHandle},
    socket::client::{SessionWatch, SocketTransport, WatchMessage},
};

/// A client of one session.
#[derive(Debug)]
pub struct SessionClient {
    by: ClientKind,
    transport: SessionTransport,
}

#[derive(Debug)]
enum SessionTransport {
    Socket(SocketTransport),
    Nats(NatsTransport),
}

impl SessionClient {
    /// Connects to the session in this folder, if it runs on this machine.
    pub async fn connect(folder: &SessionDir, by: ClientKind) -> Result<Self, SessionRequestError> {
        let transport = SessionTransport::Socket(SocketTransport::connect(folder).await?);
        Ok(Self { by, transport })
    }

    pub const fn over_nats(transport: NatsTransport, by: ClientKind) -> Self {
        let transport = SessionTransport::Nats(transport);
        Self { by, transport }
    }

    /// Whether the session still listens, as far as creel knows.
    pub fn is_open(&self) -> bool {
        match &self.transport {
            SessionTransport::Socket(socket) => socket.is_open(),
            SessionTransport::Nats(nats) => nats.is_connected(),
        }
    }

    /// Sends a request and waits for the reply. A refusal is an error.
    pub async fn request(
        &mut self,
        request: impl Into<SessionRequest>,
    ) -> Result<Option<ReplyData>, SessionRequestError> {
        let request = request.into();
        match &mut self.transport {
            SessionTransport::Socket(socket) => socket.ask(self.by, &request).await,
            SessionTransport::Nats(nats) => nats.ask(self.by, &request).await,
        }
    }
}

/// Sends one request to the session in this folder and waits for the reply. Uses one thread, since
/// a command line must start fast.
pub fn request_once(
    folder: &SessionDir,
    by: ClientKind,
    request: impl Into<SessionRequest>,
) -> Result<Option<ReplyData>, SessionRequestError> {
    let tokio = single_thread(folder)?;
    tokio.block_on(async {
        let mut client = SessionClient::connect(folder, by).await?;
        client.request(request).await
    })
}

fn single_thread(folder: &SessionDir) -> Result<tokio::runtime::Runtime, SessionRequestError> {
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    tokio.map_err(|cause| SessionRequestError::Unreachable {
        name: folder.name.clone(),
        cause,
    })
}

/// Why a command was not confirmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandError {
    /// The session refuses it, for this reason.
    Refused(String),
    /// The session did not answer. It may have run the command or not.
    Unanswered(String),
}

/// Where the session of a screen is.
#[derive(Debug, Clone)]
pub enum SessionAddress {
    /// In this process: it ends with the screen.
    Here(SessionHandle),
    /// In another process of this machine. Its folder says where its socket is.
    Socket(SessionDir),
    /// On another machine.
    Nats(Box<NatsTransport>),
}

impl SessionAddress {
    /// Sends a command of the user. Fails with the session's reason if it refuses.
    pub async fn command(&self, command: SessionCommand) -> Result<(), CommandError> {
        let client = match self {
            Self::Here(handle) => {
                let done = handle.command(person(ActorKind::Tui), command).await;
                return done.map_err(|why| CommandError::Refused(refusals::text(&why)));
            }
            // A new connection for each command: it cannot be stale, and the user does not type
            // faster.
            Self::Socket(folder) => SessionClient::connect(folder, ClientKind::Tui).await,
            Self::Nats(nats) => Ok(SessionClient::over_nats(*nats.clone(), ClientKind::Tui)),
        };
        let replied = match client {
            Ok(mut client) => client.request(command).await,
            Err(error) => Err(error),
        };
        match replied {
            Ok(_) => Ok(()),
            Err(error @ SessionRequestError::Unanswered { .. }) => Err(CommandError::Unanswered(
                format!("{error}; the session may have run it or not"),
            )),
            Err(
                error @ (SessionRequestError::NotRunning(_)
                | SessionRequestError::Unreachable { .. }
                | SessionRequestError::Refused(_)
                | SessionRequestError::NotSent(_)
                | SessionRequestError::Ended(_)),
            ) => Err(CommandError::Refused(error.to_string())),
        }
    }
}

/// How many chunks of hook output can wait to be shown.
pub const LIVE_BACKLOG: usize = 256;

/// The updates of a session in another process. They end with the session.
#[derive(Debug)]
pub struct RemoteUpdates {
    /// The number of the last record: a change means that the journal has more.
    pub news: watch::Receiver<u64>,
    pub live: mpsc::Receiver<HookOutputChunk>,
    /// `None` if the session has no NATS server.
    pub nats: Option<watch::Receiver<NatsStatus>>,
}

struct RemoteUpdateSenders {
    news: watch::Sender<u64>,
    live: mpsc::Sender<HookOutputChunk>,
    nats: Option<watch::Sender<NatsStatus>>,
}

impl RemoteUpdates {
    /// Follows the session in this folder, on a thread of its own. Blocks until the session has
    /// confirmed it, so it must not be called inside a tokio runtime.
    pub fn follow(folder: &SessionDir) -> Result<Self, SessionRequestError> {
        let tokio = single_thread(folder)?;
        let (status, watch) = tokio.block_on(async {
            let mut socket = SocketTransport::connect(folder).await?;
            let status = socket
                .ask(ClientKind::Tui, &SessionQuery::Status.into())
                .await?;
            // The screen reads the journal after this point, so it misses no record.
            Ok::<_, SessionRequestError>((status, socket.watch(None).await?))
        })?;
        let nats = match status {
            Some(ReplyData::Status(status)) => status.nats,
            Some(_) | None => None,
        };
        let (news_in, news) = watch::channel(0);
        let (live_in, live) = mpsc::channel(LIVE_BACKLOG);
        let (nats_in, nats) = nats.map(watch::channel).unzip();
        let senders = RemoteUpdateSenders {
            news: news_in,
            live: live_in,
            nats: nats_in,
        };
        let folder = folder.clone();
        std::thread::spawn(move || tokio.block_on(senders.forward_all(&folder, watch)));
        Ok(Self { news, live, nats })
    }
}

impl RemoteUpdateSenders {
    /// Forwards updates until the session or the screen ends. A session disconnects watchers that
    /// do not read, such as a suspended screen: these reconnect and continue with the next record.
    async fn forward_all(&self, folder: &SessionDir, mut watch: SessionWatch) {
        let mut next = 0;
        while self.forward(&mut watch, &mut next).await == WatchEnd::TooEarly {
            let again = match SocketTransport::connect(folder).await {
                Ok(socket) => socket.watch(Some(next)).await,
                Err(error) => Err(error),
            };
            match again {
                Ok(again) => watch = again,
                Err(error) => return tracing::info!("{error}"),
            }
        }
    }

    /// Forwards updates until the watch ends. `next` is the number of the next record.
    async fn forward(&self, watch: &mut SessionWatch, next: &mut u64) -> WatchEnd {
        let mut end = WatchEnd::TooEarly;
        loop {
            let wanted = match watch.next().await {
                Ok(Some(WatchMessage::Record(record))) => {
                    let ended = matches!(record.event, Event::Session(SessionEvent::Ended { .. }));
                    end = if ended {
                        WatchEnd::Final
                    } else {
                        WatchEnd::TooEarly
                    };
                    *next = record.seq + 1;
                    self.news.send(record.seq).is_ok()
                }
                Ok(Some(WatchMessage::Live(message))) => self.forward_live(message),
                Ok(None) | Err(SessionRequestError::Ended(_)) => return end,
                Err(error) => {
                    tracing::warn!("{error}");
                    false
                }
            };
            if !wanted {
                return WatchEnd::Final;
            }
        }
    }

    fn forward_live(&self, message: LiveMessage) -> bool {
        match (message, &self.nats) {
            // If the screen is too slow, chunks are dropped: all output is on disk.
            (LiveMessage::Live(output), _) => {
                self.live.try_send(output.into()).is_ok() || !self.live.is_closed()
            }
            (LiveMessage::Nats(status), Some(nats)) => nats.send(status).is_ok(),
            (LiveMessage::Nats(_), None) => true,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WatchEnd {
    /// The session or the screen has ended.
    Final,
    TooEarly,
}
