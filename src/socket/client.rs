//! Requests over the control socket, to a session in another process of this machine.
//!
//! Owns one connection. [`crate::sessions::session_client`] is the client that uses it.

use std::{io, os::unix, time::Duration};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::UnixStream,
    time::{Instant, sleep, timeout},
};

use super::address::SocketLocation;
use crate::{
    journal::{self, Record, SessionDir, record::RecordError},
    protocol::{
        ClientKind, LiveMessage, ReplyData, SessionReply, SessionRequest, SessionRequestError,
        WatchRequest, request_line,
    },
};

/// How long to wait for the session's answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long to wait until a session that has just started can be reached.
const STARTING: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_millis(10);

/// A connection to the socket of a session.
#[derive(Debug)]
pub struct SocketTransport {
    name: String,
    stream: BufReader<UnixStream>,
}

impl SocketTransport {
    /// Connects to the session in this folder, if it runs. Removes the socket that a dead session
    /// left.
    pub async fn connect(folder: &SessionDir) -> Result<Self, SessionRequestError> {
        let name = folder.name.clone();
        let deadline = Instant::now() + STARTING;
        loop {
            let address = SocketLocation::of(folder);
            if journal::running(folder).is_none() {
                if let Some(address) = address {
                    address.remove_if_stale();
                }
                return Err(SessionRequestError::NotRunning(name));
            }
            let connected = match address {
                Some(address) => address.connect().and_then(asynchronous),
                None => Err(io::Error::new(
                    io::ErrorKind::NotFound,
                    "it has no socket; see creel's log",
                )),
            };
            match connected {
                Ok(stream) => {
                    let stream = BufReader::new(stream);
                    return Ok(Self { name, stream });
                }
                // The session may be about to listen, or about to end.
                Err(_) if Instant::now() < deadline => sleep(AGAIN).await,
                Err(cause) => return Err(SessionRequestError::Unreachable { name, cause }),
            }
        }
    }

    /// Whether the session still listens. It sends nothing without a request, so any read other
    /// than "would block" is the end.
    pub fn is_open(&self) -> bool {
        self.stream
            .get_ref()
            .try_read(&mut [0])
            .is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Sends a request and waits for the answer, for a judgement as long as the session needs.
    pub async fn ask(
        &mut self,
        by: ClientKind,
        request: &SessionRequest,
    ) -> Result<Option<ReplyData>, SessionRequestError> {
        let patience = if request.waits_for_judgement() {
            Duration::MAX
        } else {
            PATIENCE
        };
        match timeout(patience, self.send(by, request)).await {
            Ok(answered) => answered,
            Err(_) => Err(SessionRequestError::Unanswered {
                name: self.name.clone(),
                cause: io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("no answer within {}s", PATIENCE.as_secs()),
                ),
            }),
        }
    }

    async fn send(
        &mut self,
        by: ClientKind,
        request: &SessionRequest,
    ) -> Result<Option<ReplyData>, SessionRequestError> {
        let line = request_line(by, request, None);
        // The session answers a line that it refuses before it has read all of it. So the answer
        // counts, even if writing failed.
        let _ = self.stream.get_mut().write_all(line.as_bytes()).await;
        let Some(answer) = self.line().await? else {
            return Err(SessionRequestError::Ended(self.name.clone()));
        };
        let reply: SessionReply =
            serde_json::from_str(&answer).map_err(|error| broken(&self.name, error.into()))?;
        reply.outcome().map_err(SessionRequestError::Refused)
    }

    /// Watches the session: all records with at least that number, and live messages.
    pub async fn watch(mut self, from: Option<u64>) -> Result<SessionWatch, SessionRequestError> {
        let request = WatchRequest { from, live: true };
        self.ask(ClientKind::Tui, &request.into()).await?;
        Ok(SessionWatch(self))
    }

    /// The next line. `None` if the session has closed the connection.
    async fn line(&mut self) -> Result<Option<String>, SessionRequestError> {
        let mut line = String::new();
        match self.stream.read_line(&mut line).await {
            Ok(_) => Ok(Some(line).filter(|line| line.ends_with('\n'))),
            Err(error) => Err(broken(&self.name, error)),
        }
    }
}

fn asynchronous(stream: unix::net::UnixStream) -> io::Result<UnixStream> {
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

/// Why a connection is of no more use.
fn broken(session: &str, cause: io::Error) -> SessionRequestError {
    let (name, kind) = (session.to_owned(), cause.kind());
    if [io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe].contains(&kind) {
        return SessionRequestError::Ended(name);
    }
    SessionRequestError::Unanswered { name, cause }
}

#[derive(Debug)]
pub enum WatchMessage {
    Record(Box<Record>),
    /// Hook output or a status, which the journal does not contain.
    Live(LiveMessage),
}

/// The records and live messages of a session. Ends with the session, or if the client does not
/// read for too long.
#[derive(Debug)]
pub struct SessionWatch(SocketTransport);

impl SessionWatch {
    pub async fn next(&mut self) -> Result<Option<WatchMessage>, SessionRequestError> {
        while let Some(line) = self.0.line().await? {
            let message = match Record::from_line(&line) {
                Ok(record) => Ok(Some(WatchMessage::Record(Box::new(record)))),
                Err(RecordError::Malformed(error)) => match LiveMessage::read(line.as_bytes()) {
                    Ok(message) => Ok(message.map(WatchMessage::Live)),
                    Err(_) => Err(error.into()),
                },
                Err(error @ (RecordError::Newer { .. } | RecordError::Time(_))) => Err(error),
            };
            match message {
                Ok(Some(message)) => return Ok(Some(message)),
                // A newer session may send kinds of messages that this creel does not know.
                Ok(None) => {}
                Err(error) => return Err(broken(&self.0.name, io::Error::other(error))),
            }
        }
        Ok(None)
    }
}
