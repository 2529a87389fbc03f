//! An asynchronous connection to a session. [`super::client`] is the blocking one, for command
//! lines.

use std::{io, time::Duration};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::UnixStream,
    time::timeout,
};

use super::{
    client::{PATIENCE, SessionRequestError, SocketClient, heard},
    message::{ClientKind, ReplyData, SessionRequest, ask},
};

#[derive(Debug)]
pub struct AsyncSocketClient {
    name: String,
    stream: BufReader<UnixStream>,
}

impl AsyncSocketClient {
    /// Wraps a connection on which no request was sent yet. Must be called inside a tokio runtime.
    pub fn new(client: SocketClient) -> Result<Self, SessionRequestError> {
        let (name, stream) = client.into_parts();
        let stream = stream
            .set_nonblocking(true)
            .and_then(|()| UnixStream::from_std(stream));
        match stream {
            Ok(stream) => Ok(Self {
                name,
                stream: BufReader::new(stream),
            }),
            Err(cause) => Err(SessionRequestError::Unreachable { name, cause }),
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

    /// Sends a request and waits for the answer.
    pub async fn ask(
        &mut self,
        by: ClientKind,
        request: impl Into<SessionRequest>,
    ) -> Result<Option<ReplyData>, SessionRequestError> {
        self.ask_within(PATIENCE, by, &request.into()).await
    }

    /// Sends a request that takes as long as the session needs for it.
    pub async fn ask_patiently(
        &mut self,
        by: ClientKind,
        request: impl Into<SessionRequest>,
    ) -> Result<Option<ReplyData>, SessionRequestError> {
        self.ask_within(Duration::MAX, by, &request.into()).await
    }

    async fn ask_within(
        &mut self,
        long: Duration,
        by: ClientKind,
        request: &SessionRequest,
    ) -> Result<Option<ReplyData>, SessionRequestError> {
        let line = ask(by, request);
        let Self { name, stream } = self;
        let asking = async {
            // The session answers a line that it refuses before it has read all of it. So the
            // answer counts, even if writing failed.
            let _ = stream.get_mut().write_all(line.as_bytes()).await;
            let mut answer = String::new();
            stream.read_line(&mut answer).await.map(|_| answer)
        };
        heard(
            name,
            timeout(long, asking)
                .await
                .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())),
        )
    }
}
