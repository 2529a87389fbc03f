//! How a screen controls its session, which runs in this process or in another one.

use tokio::sync::{mpsc, watch};

use super::caller::person;
use crate::{
    engine::{
        event::{ActorKind, Event, SessionEvent},
        input::SessionCommand,
    },
    journal::SessionDir,
    nats::{session_client::NatsSessionClient, status::NatsStatus},
    present::refusals,
    runtime::{HookOutputChunk, SessionHandle},
    socket::{
        client::{SessionRequestError, SessionWatch, SocketClient, WatchMessage},
        message::{ClientKind, ReplyData, live_message::LiveMessage},
        query::SessionQuery,
    },
};

/// Why a command was not confirmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandError {
    /// The session refuses it, for this reason.
    Refused(String),
    /// The session did not answer. It may have run the command or not.
    Unanswered(String),
}

#[derive(Debug, Clone)]
pub enum SessionClient {
    /// The session of this process, which ends with the screen.
    Here(SessionHandle),
    /// A session in another process, which continues without this screen.
    There(RemoteSession),
}

impl SessionClient {
    /// Sends a command. Fails with the session's reason if it refuses.
    pub async fn command(&self, command: SessionCommand) -> Result<(), CommandError> {
        match self {
            Self::Here(handle) => {
                let done = handle.command(person(ActorKind::Tui), command).await;
                done.map_err(|why| CommandError::Refused(refusals::text(&why)))
            }
            Self::There(remote) => remote.command(command).await,
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

#[derive(Debug, Clone)]
pub enum RemoteSession {
    /// On this machine. Its folder says where its socket is.
    Near(SessionDir),
    /// On another machine, reached by NATS.
    Far(Box<NatsSessionClient>),
}

impl RemoteSession {
    /// Connects to the session in this folder and follows its updates.
    pub fn follow(folder: &SessionDir) -> Result<(Self, RemoteUpdates), SessionRequestError> {
        let mut client = SocketClient::connect(folder)?;
        let link = match client.ask(ClientKind::Tui, SessionQuery::Status)? {
            Some(ReplyData::Status(status)) => status.nats,
            Some(_) | None => None,
        };
        // The screen reads the journal after this point, so it misses no record.
        let watch = client.watch(None)?;
        let (told, news) = watch::channel(0);
        let (heard, live) = mpsc::channel(LIVE_BACKLOG);
        let (changed, nats) = link.map(watch::channel).unzip();
        let telling = RemoteUpdateSenders {
            news: told,
            live: heard,
            nats: changed,
        };
        let session = folder.clone();
        std::thread::spawn(move || telling.tell_all(&session, watch));
        Ok((
            Self::Near(folder.clone()),
            RemoteUpdates { news, live, nats },
        ))
    }

    async fn command(&self, command: SessionCommand) -> Result<(), CommandError> {
        let folder = match self {
            Self::Near(folder) => folder.clone(),
            Self::Far(asking) => {
                let asked = asking.ask(ClientKind::Tui, &command.into()).await;
                return asked.map(drop).map_err(|error| unheeded(error, |_| true));
            }
        };
        // A new connection for each command: it cannot be stale, and the user does not type faster.
        let asked = tokio::task::spawn_blocking(move || {
            SocketClient::connect(&folder)?.ask(ClientKind::Tui, command)
        })
        .await;
        match asked {
            Ok(answer) => answer.map(drop).map_err(|error| {
                unheeded(error, |cause| cause.kind() == std::io::ErrorKind::TimedOut)
            }),
            Err(panic) => Err(CommandError::Refused(format!(
                "cannot ask the session: {panic}"
            ))),
        }
    }
}

/// Turns a failed request into the error of a command. A session that was reached and then was
/// silent may have run it.
fn unheeded(
    error: SessionRequestError,
    was_silent: impl Fn(&std::io::Error) -> bool,
) -> CommandError {
    let words = error.to_string();
    match error {
        SessionRequestError::Unreachable { cause, .. } if was_silent(&cause) => {
            CommandError::Unanswered(format!("{words}; the session may have run it or not"))
        }
        SessionRequestError::Unreachable { .. }
        | SessionRequestError::NotRunning(_)
        | SessionRequestError::Refused(_)
        | SessionRequestError::NotSent(_)
        | SessionRequestError::Ended(_) => CommandError::Refused(words),
    }
}

impl RemoteUpdateSenders {
    /// Forwards updates until the session or the screen ends. A session disconnects watchers that
    /// do not read, such as a suspended screen: these reconnect and continue with the next record.
    fn tell_all(&self, folder: &SessionDir, mut watch: SessionWatch) {
        let mut next = 0;
        while self.is_left(watch, &mut next) {
            match SocketClient::connect(folder).and_then(|client| client.watch(Some(next))) {
                Ok(again) => watch = again,
                Err(error) => return tracing::info!("{error}"),
            }
        }
    }

    /// Forwards updates. Returns whether the watch ended before the session did. `next` is the
    /// number of the next record.
    fn is_left(&self, watch: SessionWatch, next: &mut u64) -> bool {
        let mut ended = false;
        for seen in watch {
            let wanted = match seen {
                Ok(WatchMessage::Record(record)) => {
                    ended = matches!(record.event, Event::Session(SessionEvent::Ended { .. }));
                    *next = record.seq + 1;
                    self.news.send(record.seq).is_ok()
                }
                Ok(WatchMessage::Aside(aside)) => self.tell(aside),
                Err(SessionRequestError::Ended(_)) => break,
                Err(error) => {
                    tracing::warn!("{error}");
                    false
                }
            };
            if !wanted {
                return false;
            }
        }
        !ended
    }

    fn tell(&self, aside: LiveMessage) -> bool {
        match (aside, &self.nats) {
            // If the screen is too slow, chunks are dropped: all output is on disk.
            (LiveMessage::Live(piece), _) => {
                self.live.try_send(piece.into()).is_ok() || !self.live.is_closed()
            }
            (LiveMessage::Nats(link), Some(nats)) => nats.send(link).is_ok(),
            (LiveMessage::Nats(_), None) => true,
        }
    }
}
