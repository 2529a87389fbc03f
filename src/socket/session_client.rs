//! How a screen steers its session: one that runs in this process, or one in another.

use tokio::sync::{mpsc, watch};

use super::caller::person;
use crate::{
    engine::{
        event::{ActorKind, Event, SessionEvent},
        input::SessionCommand,
    },
    journal::SessionDir,
    nats::{session_client::NatsSessionClient, status::NatsStatus},
    runtime::{HookOutputChunk, SessionHandle},
    socket::{
        client::{SessionRequestError, SessionWatch, SocketClient, WatchMessage},
        message::{ClientKind, ReplyData, SessionRequest, live_message::LiveMessage},
    },
};

/// Why a command is not known to be carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandError {
    /// It will not be, for this reason.
    Refused(String),
    /// Nobody answered, and it may be all the same.
    Unanswered(String),
}

/// Where the commands of a screen go.
#[derive(Debug, Clone)]
pub enum SessionClient {
    /// To the session of this process, which ends with the screen.
    Here(SessionHandle),
    /// To a session that goes on without this screen.
    There(RemoteSession),
}

impl SessionClient {
    /// Asks the session for something; the answer says why not, if it will not.
    pub async fn command(&self, command: SessionCommand) -> Result<(), CommandError> {
        match self {
            Self::Here(handle) => handle.command(person(ActorKind::Tui), command).await.map_err(CommandError::Refused),
            Self::There(remote) => remote.command(command).await,
        }
    }
}

/// How much output of hooks may wait to be shown.
pub const LIVE_BACKLOG: usize = 256;

/// What comes from a session in another process. It ends when the session does.
#[derive(Debug)]
pub struct RemoteUpdates {
    /// The number of its last record: a sign that there is more in its journal.
    pub news: watch::Receiver<u64>,
    /// The output of its hooks.
    pub live: mpsc::Receiver<HookOutputChunk>,
    /// How it stands with its NATS server, if it has one.
    pub nats: Option<watch::Receiver<NatsStatus>>,
}

/// Where all that goes.
struct RemoteUpdateSenders {
    news: watch::Sender<u64>,
    live: mpsc::Sender<HookOutputChunk>,
    nats: Option<watch::Sender<NatsStatus>>,
}

/// A session in another process.
#[derive(Debug, Clone)]
pub enum RemoteSession {
    /// On this machine: its socket is told in its folder.
    Near(SessionDir),
    /// On another one, reached by NATS.
    Far(Box<NatsSessionClient>),
}

impl RemoteSession {
    /// The session of this folder, and what comes from it.
    pub fn follow(folder: &SessionDir) -> Result<(Self, RemoteUpdates), SessionRequestError> {
        let mut client = SocketClient::connect(folder)?;
        let link = match client.ask(ClientKind::Tui, &SessionRequest::Status)? {
            Some(ReplyData::Status(status)) => status.nats,
            Some(_) | None => None,
        };
        // From here on nothing is missed: what was recorded before is in the journal, which the screen reads later.
        let watch = client.watch(None)?;
        let (told, news) = watch::channel(0);
        let (heard, live) = mpsc::channel(LIVE_BACKLOG);
        let (changed, nats) = link.map(watch::channel).unzip();
        let telling = RemoteUpdateSenders { news: told, live: heard, nats: changed };
        let session = folder.clone();
        std::thread::spawn(move || telling.tell_all(&session, watch));
        Ok((Self::Near(folder.clone()), RemoteUpdates { news, live, nats }))
    }

    async fn command(&self, command: SessionCommand) -> Result<(), CommandError> {
        let folder = match self {
            Self::Near(folder) => folder.clone(),
            Self::Far(asking) => {
                let asked = asking.ask(ClientKind::Tui, &command.into()).await;
                return asked.map(drop).map_err(|error| unheeded(error, |_| true));
            }
        };
        // One connection a command: it cannot have grown old, and a person does not type faster.
        let asked =
            tokio::task::spawn_blocking(move || SocketClient::connect(&folder)?.ask(ClientKind::Tui, &command.into()))
                .await;
        match asked {
            Ok(answer) => {
                answer.map(drop).map_err(|error| unheeded(error, |cause| cause.kind() == std::io::ErrorKind::TimedOut))
            }
            Err(panic) => Err(CommandError::Refused(format!("the session could not be asked: {panic}"))),
        }
    }
}

/// What it means that a session did not do what it was asked for: it may have heard it if it was reached and then silent.
fn unheeded(error: SessionRequestError, was_silent: impl Fn(&std::io::Error) -> bool) -> CommandError {
    let words = error.to_string();
    match error {
        SessionRequestError::Unreachable { cause, .. } if was_silent(&cause) => {
            CommandError::Unanswered(format!("{words}; it is not known whether it took that"))
        }
        SessionRequestError::Unreachable { .. }
        | SessionRequestError::NotRunning(_)
        | SessionRequestError::Refused(_)
        | SessionRequestError::Ended(_) => CommandError::Refused(words),
    }
}

impl RemoteUpdateSenders {
    /// Passes on what comes, until nothing more comes or nobody wants it. A session leaves those who do not read, such as a
    /// screen that is halted: as long as it runs, they come back, to where they were.
    fn tell_all(&self, folder: &SessionDir, mut watch: SessionWatch) {
        let mut next = 0;
        while self.is_left(watch, &mut next) {
            match SocketClient::connect(folder).and_then(|client| client.watch(Some(next))) {
                Ok(again) => watch = again,
                Err(error) => return tracing::info!("{error}"),
            }
        }
    }

    /// Passes on what comes; whether it ended before the session did. `next` is the record that would have come.
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
            // What the screen is too slow for is dropped: all of it is on disk.
            (LiveMessage::Live(piece), _) => self.live.try_send(piece.into()).is_ok() || !self.live.is_closed(),
            (LiveMessage::Nats(link), Some(nats)) => nats.send(link).is_ok(),
            (LiveMessage::Nats(_), None) => true,
        }
    }
}
