//! The line to an agent: its process, and the protocol spoken with it.
//!
//! Owns the start, the end, and the questions that the agent may ask us. Does not know what a turn is: see [`super`].
//!
//! # Invariants
//! - Every question of the agent reaches whoever holds the link, with the means to answer it; one that is dropped is
//!   answered with an error.
//! - When it was closed, or is dropped, nothing of the agent is left running.

use std::{path::Path, time::Duration};

use agent_client_protocol::{
    Agent, ByteStreams, Client, Error, JsonRpcRequest,
    v1::{ConnectionTo, Responder, schema as s},
};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader},
    process::ChildStderr,
    sync::{mpsc, oneshot},
    time::{Instant, timeout_at},
};
use tokio_util::{
    compat::{TokioAsyncReadCompatExt as _, TokioAsyncWriteCompatExt as _},
    sync::CancellationToken,
    task::AbortOnDropHandle,
};

use super::{
    reader::{self, ActiveTurnFlag, SharedTail, TextChunk},
    service::DecidedRequest,
    terminals::TerminalEvent,
};
use crate::process::{
    piped_process::{PipedProcess, PipedProcessSpec},
    run::{ProcessEnd, ProcessGroup},
};

/// How much may be heard before the agent has to wait.
pub(super) const BACKLOG: usize = 256;
/// How much the protocol may be behind.
pub(super) const PIPE: usize = 256 << 10;
/// How long to wait for the last output of an agent that has ended. A process that it left behind can keep its streams
/// open indefinitely.
const LAST_OUTPUT: Duration = Duration::from_secs(5);
/// How much of one line of complaints is logged.
const COMPLAINT: u64 = 4 << 10;

/// What an agent says or asks of its own accord.
pub(super) enum AcpEvent {
    Text(TextChunk),
    Update {
        session: String,
        update: Value,
    },
    Permission(Box<s::RequestPermissionRequest>, Responder<s::RequestPermissionResponse>),
    /// It wants something done for it.
    Wants(Box<AcpServiceRequest>),
    /// The engine has decided whether creel does it.
    Decided(Box<DecidedRequest>),
    /// A command that we run for it got on.
    Terminal(TerminalEvent),
}

/// What can be done for an agent.
pub(super) enum AcpServiceRequest {
    Read(s::ReadTextFileRequest, Responder<s::ReadTextFileResponse>),
    Write(s::WriteTextFileRequest, Responder<s::WriteTextFileResponse>),
    CreateTerminal(s::CreateTerminalRequest, Responder<s::CreateTerminalResponse>),
    TerminalOutput(s::TerminalOutputRequest, Responder<s::TerminalOutputResponse>),
    WaitForTerminal(s::WaitForTerminalExitRequest, Responder<s::WaitForTerminalExitResponse>),
    KillTerminal(s::KillTerminalRequest, Responder<s::KillTerminalResponse>),
    ReleaseTerminal(s::ReleaseTerminalRequest, Responder<s::ReleaseTerminalResponse>),
}

impl AcpServiceRequest {
    /// Answers with an error.
    pub(super) fn fail(self, error: Error) -> Result<(), Error> {
        match self {
            Self::Read(_, responder) => responder.respond_with_error(error),
            Self::Write(_, responder) => responder.respond_with_error(error),
            Self::CreateTerminal(_, responder) => responder.respond_with_error(error),
            Self::TerminalOutput(_, responder) => responder.respond_with_error(error),
            Self::WaitForTerminal(_, responder) => responder.respond_with_error(error),
            Self::KillTerminal(_, responder) => responder.respond_with_error(error),
            Self::ReleaseTerminal(_, responder) => responder.respond_with_error(error),
        }
    }
}

/// The line to a running agent.
pub(super) struct AcpConnection {
    pub(super) companion: PipedProcess,
    connection: ConnectionTo<Agent>,
    /// What it says and asks.
    pub(super) heard: mpsc::Receiver<AcpEvent>,
    /// For those who have something to say in the agent's stead.
    pub(super) hear: mpsc::Sender<AcpEvent>,
    /// Whether text counts.
    pub(super) attention: ActiveTurnFlag,
    /// It closed its output, or has ended: nothing more will come.
    pub(super) gone: CancellationToken,
    noise: SharedTail,
    complaints: SharedTail,
    speaking: Option<AbortOnDropHandle<()>>,
    /// The tasks that read its standard output and standard error to the end.
    readers: [AbortOnDropHandle<()>; 2],
}

impl AcpConnection {
    /// Starts the agent. Nothing is said yet.
    pub(super) async fn open(spec: PipedProcessSpec) -> Result<Self, String> {
        let (companion, streams) = PipedProcess::start(spec)?;
        let (hear, heard) = mpsc::channel(BACKLOG);
        let (near, far) = tokio::io::duplex(PIPE);
        let (noise, complaints, gone) = (SharedTail::new(), SharedTail::new(), CancellationToken::new());
        let attention = ActiveTurnFlag::default();
        let reading = tokio::spawn({
            let (heard, noise, gone) = (hear.clone(), noise.clone(), gone.clone());
            let attention = attention.clone();
            async move {
                reader::read(streams.stdout, near, (heard, attention), noise).await;
                gone.cancel();
            }
        });
        let complaining = tokio::spawn(listen(streams.stderr, complaints.clone()));
        let (ready, connection) = oneshot::channel();
        let transport = ByteStreams::new(streams.stdin.compat_write(), far.compat());
        let speaking = tokio::spawn(speak(transport, hear.clone(), ready));
        let connection = connection.await.map_err(|_| "the protocol could not be started".to_owned())?;
        Ok(Self {
            companion,
            connection,
            heard,
            hear,
            attention,
            gone,
            noise,
            complaints,
            speaking: Some(AbortOnDropHandle::new(speaking)),
            readers: [AbortOnDropHandle::new(reading), AbortOnDropHandle::new(complaining)],
        })
    }

    /// Whether nothing more will come.
    pub(super) fn is_gone(&mut self) -> bool {
        self.gone.is_cancelled() || self.companion.has_exited()
    }

    pub(super) fn group(&self) -> ProcessGroup {
        self.companion.group()
    }

    /// Asks the agent for something. There is no limit of time: that is the caller's.
    pub(super) fn ask<R: JsonRpcRequest>(
        &self,
        request: R,
    ) -> impl Future<Output = Result<R::Response, Error>> + Send + use<R> {
        let sent = self.connection.send_request(request);
        async move { sent.block_task().await }
    }

    /// Tells the agent that its turn is to end. That it is gone already is fine.
    pub(super) fn cancel(&self, session: &s::SessionId) {
        let _ = self.connection.send_notification(s::CancelNotification::new(session.clone()));
    }

    /// How it ended, and what it printed last, for a person.
    pub(super) async fn obituary(&mut self) -> AcpProcessExit {
        let end = self.companion.ended().await;
        // What it printed before it ended may not have been read yet.
        let deadline = Instant::now() + LAST_OUTPUT;
        for reader in self.readers.iter_mut().filter(|reader| end.is_some() && !reader.is_finished()) {
            let _ = timeout_at(deadline, reader).await;
        }
        AcpProcessExit { end, complaints: self.complaints.text(), noise: self.noise.text() }
    }

    /// What it complained last, while it still lives.
    pub(super) fn complaints(&self) -> String {
        self.complaints.text()
    }

    /// Ends the agent: its input is closed, then it is told, then it is made to.
    pub(super) async fn close(&mut self) {
        self.speaking = None;
        self.companion.end().await;
    }
}

/// How an agent ended.
#[derive(Debug)]
pub(super) struct AcpProcessExit {
    pub(super) end: Option<ProcessEnd>,
    pub(super) complaints: String,
    pub(super) noise: String,
}

impl AcpProcessExit {
    /// What it said last: complaints, or else what it printed where messages were expected.
    pub(super) fn last_words(&self) -> &str {
        if self.complaints.is_empty() { &self.noise } else { &self.complaints }
    }
}

/// Keeps the end of what the agent complains, and logs it.
async fn listen(stderr: ChildStderr, complaints: SharedTail) {
    let mut lines = BufReader::new(stderr);
    let mut line = Vec::new();
    // A long line is logged in pieces: nothing is kept but its end.
    while let Ok(n) = (&mut lines).take(COMPLAINT).read_until(b'\n', &mut line).await
        && n > 0
    {
        tracing::info!(target: "agent", "{}", String::from_utf8_lossy(line.trim_ascii_end()));
        complaints.push(&line);
        line.clear();
    }
}

/// Speaks the protocol until the agent closes its output. A handler holds up all others, so that none of them waits for
/// anything but the place in the queue.
async fn speak(
    transport: ByteStreams<
        tokio_util::compat::Compat<tokio::process::ChildStdin>,
        tokio_util::compat::Compat<tokio::io::DuplexStream>,
    >,
    hear: mpsc::Sender<AcpEvent>,
    ready: oneshot::Sender<ConnectionTo<Agent>>,
) {
    use agent_client_protocol::on_receive_request as on;
    macro_rules! pass_on {
        ($request:ty, $response:ty, $make:path) => {{
            let hear = hear.clone();
            async move |request: $request, responder: Responder<$response>, _: ConnectionTo<Agent>| {
                // Whoever listened is gone: the dropped responder answers.
                let _ = hear.send(AcpEvent::Wants(Box::new($make(request, responder)))).await;
                Ok(())
            }
        }};
    }
    let permission = {
        let hear = hear.clone();
        async move |request: s::RequestPermissionRequest, responder, _: ConnectionTo<Agent>| {
            let _ = hear.send(AcpEvent::Permission(Box::new(request), responder)).await;
            Ok(())
        }
    };
    let ended = Client
        .v1()
        .name("creel")
        .on_receive_request(permission, on!())
        .on_receive_request(pass_on!(s::ReadTextFileRequest, s::ReadTextFileResponse, AcpServiceRequest::Read), on!())
        .on_receive_request(
            pass_on!(s::WriteTextFileRequest, s::WriteTextFileResponse, AcpServiceRequest::Write),
            on!(),
        )
        .on_receive_request(
            pass_on!(s::CreateTerminalRequest, s::CreateTerminalResponse, AcpServiceRequest::CreateTerminal),
            on!(),
        )
        .on_receive_request(
            pass_on!(s::TerminalOutputRequest, s::TerminalOutputResponse, AcpServiceRequest::TerminalOutput),
            on!(),
        )
        .on_receive_request(
            pass_on!(s::WaitForTerminalExitRequest, s::WaitForTerminalExitResponse, AcpServiceRequest::WaitForTerminal),
            on!(),
        )
        .on_receive_request(
            pass_on!(s::KillTerminalRequest, s::KillTerminalResponse, AcpServiceRequest::KillTerminal),
            on!(),
        )
        .on_receive_request(
            pass_on!(s::ReleaseTerminalRequest, s::ReleaseTerminalResponse, AcpServiceRequest::ReleaseTerminal),
            on!(),
        )
        .connect_with(transport, async move |connection: ConnectionTo<Agent>| {
            let _ = ready.send(connection.clone());
            connection.incoming_closed().await;
            Ok(())
        })
        .await;
    if let Err(error) = ended {
        tracing::info!("the connection to the agent ended: {error}");
    }
}

/// What to start an agent with.
pub(super) fn spec(command: &str, cwd: &Path, env: Vec<(String, String)>, mark: String) -> PipedProcessSpec {
    PipedProcessSpec { command: command.to_owned(), cwd: cwd.to_owned(), env, mark }
}
