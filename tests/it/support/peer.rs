//! A client of the control socket that sends anything.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::net::UnixStream,
    path::PathBuf,
};

use serde_json::Value;

use super::{PATIENCE, project::Project};

/// A connection to session `s`.
pub(crate) struct Peer(BufReader<UnixStream>);

/// The socket of session `s`, if its file exists.
pub(crate) fn socket_of(project: &Project) -> Option<PathBuf> {
    project
        .read(".creel/sessions/s/socket")
        .strip_suffix('\n')
        .map(PathBuf::from)
}

impl Peer {
    pub(crate) fn of(project: &Project) -> Self {
        let stream = UnixStream::connect(socket_of(project).expect("it says where it is"))
            .expect("somebody listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        Self(BufReader::new(stream))
    }

    /// Sends raw bytes. The session may close the connection before their end.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let _ = self.0.get_mut().write_all(bytes);
    }

    /// The next line. None at the end.
    pub(crate) fn line(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("text");
        (!line.is_empty()).then(|| serde_json::from_str(&line).expect("JSON"))
    }

    /// Everything until the other side closes.
    pub(crate) fn rest(mut self) -> String {
        let mut rest = String::new();
        self.0.read_to_string(&mut rest).expect("text");
        rest
    }

    pub(crate) fn ask(&mut self, line: &str) -> Value {
        self.send(format!("{line}\n").as_bytes());
        self.line().expect("an answer")
    }

    /// Whether the other side has closed.
    pub(crate) fn is_closed(&mut self) -> bool {
        // Unread data can cause a reset.
        matches!(self.0.read(&mut [0]), Ok(0) | Err(_))
    }
}
