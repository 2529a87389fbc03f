//! The client of the control socket: sends requests to a session in another process.
//!
//! Uses blocking calls: a command line must start fast, and needs no runtime for one line each way.

use std::{
    io::{self, BufRead as _, BufReader, Write as _},
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

use super::{
    address::SocketLocation,
    message::{ClientKind, ReplyData, SessionReply, SessionRequest, ask},
    query::WatchRequest,
};
use crate::{
    journal::{self, Record, SessionDir, record::RecordError},
    socket::{message::live_message::LiveMessage, request_refusal::RefusedRequest},
};

/// How long to wait for the session's answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// How long to wait until a session that has just started can be reached.
const STARTING: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_millis(10);

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum SessionRequestError {
    /// No process runs the session.
    #[error("session `{0}` is not running")]
    NotRunning(String),
    /// A process runs the session, but it does not answer.
    #[error("session `{name}` is running, but creel cannot reach it: {cause}")]
    Unreachable { name: String, cause: io::Error },
    #[error(transparent)]
    Refused(RefusedRequest),
    /// The request did not leave this machine.
    #[error("{0}; nothing was sent")]
    NotSent(String),
    /// The session ended before it answered.
    #[error("session `{0}` ended before it answered")]
    Ended(String),
}

#[derive(Debug)]
pub struct SocketClient {
    name: String,
    stream: BufReader<UnixStream>,
}

impl SocketClient {
    /// Connects to the session in this folder, if it runs. Removes the socket that a dead session
    /// left.
    pub fn connect(folder: &SessionDir) -> Result<Self, SessionRequestError> {
        let deadline = Instant::now() + STARTING;
        loop {
            if journal::running(folder).is_none() {
                if let Some(address) = SocketLocation::of(folder) {
                    address.remove_if_stale();
                }
                return Err(SessionRequestError::NotRunning(folder.name.clone()));
            }
            let connected = match SocketLocation::of(folder) {
                Some(address) => address.connect(),
                None => Err(io::Error::new(
                    io::ErrorKind::NotFound,
                    "it has no socket; see creel's log",
                )),
            };
            match connected {
                Ok(stream) => return Self::new(folder, stream),
                // The session may be about to listen, or about to end.
                Err(_) if Instant::now() < deadline => std::thread::sleep(AGAIN),
                Err(cause) => {
                    return Err(SessionRequestError::Unreachable {
                        name: folder.name.clone(),
                        cause,
                    });
                }
            }
        }
    }

    fn new(folder: &SessionDir, stream: UnixStream) -> Result<Self, SessionRequestError> {
        let name = folder.name.clone();
        let set = stream
            .set_read_timeout(Some(PATIENCE))
            .and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
        set.map_err(|cause| SessionRequestError::Unreachable {
            name: name.clone(),
            cause,
        })?;
        Ok(Self {
            name,
            stream: BufReader::new(stream),
        })
    }

    pub(super) fn into_parts(self) -> (String, UnixStream) {
        (self.name, self.stream.into_inner())
    }

    /// Sends a request and waits for the answer.
    pub fn ask(
        &mut self,
        by: ClientKind,
        request: impl Into<SessionRequest>,
    ) -> Result<Option<ReplyData>, SessionRequestError> {
        let line = ask(by, &request.into());
        // The session answers a line that it refuses before it has read all of it. So the answer
        // counts, even if writing failed.
        let _ = self.stream.get_mut().write_all(line.as_bytes());
        let answer = self.line();
        heard(&self.name, answer)
    }

    /// Watches the session: all records with at least that number, and live messages.
    pub fn watch(mut self, from: Option<u64>) -> Result<SessionWatch, SessionRequestError> {
        self.ask(ClientKind::Tui, WatchRequest { from, live: true })?;
        self.stream
            .get_ref()
            .set_read_timeout(None)
            .map_err(|error| self.broken(error))?;
        Ok(SessionWatch(self))
    }

    /// The next line. Without a newline at its end, the session has closed the connection.
    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line).map(|_| line)
    }

    fn broken(&self, cause: io::Error) -> SessionRequestError {
        broken(&self.name, cause)
    }
}

/// Parses the session's answer.
pub(super) fn heard(
    session: &str,
    answer: io::Result<String>,
) -> Result<Option<ReplyData>, SessionRequestError> {
    let answer = answer.map_err(|error| broken(session, error))?;
    if !answer.ends_with('\n') {
        return Err(SessionRequestError::Ended(session.to_owned()));
    }
    let reply: SessionReply =
        serde_json::from_str(&answer).map_err(|error| broken(session, error.into()))?;
    reply.outcome().map_err(SessionRequestError::Refused)
}

fn broken(session: &str, cause: io::Error) -> SessionRequestError {
    let ended = [io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe].contains(&cause.kind());
    let name = session.to_owned();
    // The kernel's message for a timeout does not help the user.
    let silent = [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut].contains(&cause.kind());
    let cause = if silent {
        io::Error::new(io::ErrorKind::TimedOut, "it does not answer")
    } else {
        cause
    };
    if ended {
        SessionRequestError::Ended(name)
    } else {
        SessionRequestError::Unreachable { name, cause }
    }
}

#[derive(Debug)]
pub enum WatchMessage {
    Record(Box<Record>),
    /// Hook output or a status, which the journal does not contain.
    Aside(LiveMessage),
}

/// The records and live messages of a session. Ends with the session, or if the client does not
/// read for too long.
#[derive(Debug)]
pub struct SessionWatch(SocketClient);

impl Iterator for SessionWatch {
    type Item = Result<WatchMessage, SessionRequestError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let line = match self.0.line() {
                Ok(line) if !line.ends_with('\n') => return None,
                line => line.map_err(|error| self.0.broken(error)),
            };
            let seen = line.and_then(|line| {
                seen(&line).map_err(|error| self.0.broken(io::Error::other(error)))
            });
            // A newer session may send kinds of messages that this creel does not know.
            if let Some(seen) = seen.transpose() {
                return Some(seen);
            }
        }
    }
}

fn seen(line: &str) -> Result<Option<WatchMessage>, RecordError> {
    match Record::from_line(line) {
        Ok(record) => Ok(Some(WatchMessage::Record(Box::new(record)))),
        Err(RecordError::Malformed(error)) => match LiveMessage::read(line.as_bytes()) {
            Ok(aside) => Ok(aside.map(WatchMessage::Aside)),
            Err(_) => Err(error.into()),
        },
        Err(error @ (RecordError::Newer { .. } | RecordError::Time(_))) => Err(error),
    }
}
