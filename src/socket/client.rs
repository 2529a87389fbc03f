//! The other end of the control socket: asks a session that runs in another process.
//!
//! Plain blocking calls: a command line must start and be done at once, and needs no runtime for a line each way.

use std::{
    io::{self, BufRead as _, BufReader, Write as _},
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

use super::{
    address::SocketLocation,
    message::{ClientKind, ReplyData, SessionReply, SessionRequest, ask},
};
use crate::{
    journal::{self, Record, SessionDir, record::RecordError},
    socket::message::live_message::LiveMessage,
};

/// How long a session may take to answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// How long a session that has just been started may take until it can be reached.
const STARTING: Duration = Duration::from_secs(5);
/// How often to look.
const AGAIN: Duration = Duration::from_millis(10);

/// Why nothing came of a request.
#[derive(Debug, thiserror::Error)]
pub enum SessionRequestError {
    /// Nobody runs it.
    #[error("session `{0}` is not running")]
    NotRunning(String),
    /// Somebody runs it, but it does not answer.
    #[error("session `{name}` is running, but cannot be reached: {cause}")]
    Unreachable {
        /// The session.
        name: String,
        /// Why.
        cause: io::Error,
    },
    /// The session will not, and says why.
    #[error("{0}")]
    Refused(String),
    /// It was over before it answered.
    #[error("session `{0}` ended before it answered")]
    Ended(String),
}

/// A connection to a session.
#[derive(Debug)]
pub struct SocketClient {
    name: String,
    stream: BufReader<UnixStream>,
}

impl SocketClient {
    /// Connects to the session of this folder, if it runs. What a dead one left behind is taken away.
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
                None => Err(io::Error::new(io::ErrorKind::NotFound, "it has no socket; creel's log tells why")),
            };
            match connected {
                Ok(stream) => return Self::new(folder, stream),
                // It may be about to listen, or about to end.
                Err(_) if Instant::now() < deadline => std::thread::sleep(AGAIN),
                Err(cause) => return Err(SessionRequestError::Unreachable { name: folder.name.clone(), cause }),
            }
        }
    }

    fn new(folder: &SessionDir, stream: UnixStream) -> Result<Self, SessionRequestError> {
        let name = folder.name.clone();
        let set = stream.set_read_timeout(Some(PATIENCE)).and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
        set.map_err(|cause| SessionRequestError::Unreachable { name: name.clone(), cause })?;
        Ok(Self { name, stream: BufReader::new(stream) })
    }

    /// The session's name, and the way there.
    pub(super) fn into_parts(self) -> (String, UnixStream) {
        (self.name, self.stream.into_inner())
    }

    /// Asks, and waits for the answer.
    pub fn ask(&mut self, by: ClientKind, request: &SessionRequest) -> Result<Option<ReplyData>, SessionRequestError> {
        let line = ask(by, request);
        // A refused line is answered before it is read to its end: the answer counts, whatever became of the writing.
        let _ = self.stream.get_mut().write_all(line.as_bytes());
        let answer = self.line();
        heard(&self.name, answer)
    }

    /// Asks for all that comes: records, from the one of that number on, and what is none.
    pub fn watch(mut self, from: Option<u64>) -> Result<SessionWatch, SessionRequestError> {
        self.ask(ClientKind::Tui, &SessionRequest::Watch { from, live: true })?;
        self.stream.get_ref().set_read_timeout(None).map_err(|error| self.broken(error))?;
        Ok(SessionWatch(self))
    }

    /// The next line; less than one, if there are no more.
    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line).map(|_| line)
    }

    fn broken(&self, cause: io::Error) -> SessionRequestError {
        broken(&self.name, cause)
    }
}

/// What a session says to a question.
pub(super) fn heard(session: &str, answer: io::Result<String>) -> Result<Option<ReplyData>, SessionRequestError> {
    let answer = answer.map_err(|error| broken(session, error))?;
    if !answer.ends_with('\n') {
        return Err(SessionRequestError::Ended(session.to_owned()));
    }
    let reply: SessionReply = serde_json::from_str(&answer).map_err(|error| broken(session, error.into()))?;
    reply.outcome().map_err(SessionRequestError::Refused)
}

fn broken(session: &str, cause: io::Error) -> SessionRequestError {
    let ended = [io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe].contains(&cause.kind());
    let name = session.to_owned();
    // What the kernel says of a limit that has passed tells nobody anything.
    let silent = [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut].contains(&cause.kind());
    let cause = if silent { io::Error::new(io::ErrorKind::TimedOut, "it does not answer") } else { cause };
    if ended { SessionRequestError::Ended(name) } else { SessionRequestError::Unreachable { name, cause } }
}

/// What comes from a session.
#[derive(Debug)]
pub enum WatchMessage {
    /// A record.
    Record(Box<Record>),
    /// Something that is no record.
    Aside(LiveMessage),
}

/// A session as it happens. Ends when the session does, and for whoever does not read it for too long.
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
            let seen = line.and_then(|line| seen(&line).map_err(|error| self.0.broken(io::Error::other(error))));
            // A newer session may tell what is not known here.
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
