//! The connection to an agent: its process and the protocol.
//!
//! Owns the start, the end, and the agent's requests to creel. Does not know about turns: see
//! [`super`].
//!
//! # Invariants
//! - Every request of the agent reaches the owner of the connection, together with its responder. A
//!   dropped request is answered with an error.
//! - After it was closed or dropped, nothing of the agent is left running.

use std::time::Duration;

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
    terminals::TerminalEvent,
};
use crate::{
    agents::AgentWorkspace,
    engine::conversation::{PermissionAnswer, ToolCall},
    process::{
        piped_process::{PipedProcess, PipedProcessSpec},
        run::{ProcessEnd, ProcessGroup, StartError},
    },
};

/// How many events are queued before the agent has to wait. Few, because each can be a long piece
/// of text.
pub(super) const BACKLOG: usize = 32;
/// Bytes that are buffered for the protocol library.
pub(super) const PIPE: usize = 256 << 10;
/// How long to wait for the last output of an agent that has ended. A process that it left running
/// can keep its streams open indefinitely.
const LAST_OUTPUT: Duration = Duration::from_secs(5);
/// Bytes of one line of standard error that are logged.
const COMPLAINT: u64 = 4 << 10;

/// What an agent sends without being asked.
pub(super) enum AcpEvent {
    Text(TextChunk),
    Update {
        session: String,
        update: Value,
    },
    Permission(
        Box<s::RequestPermissionRequest>,
        Responder<s::RequestPermissionResponse>,
    ),
    /// A request to creel.
    Wants(Box<AcpServiceRequest>),
    /// The engine's decision about such a request.
    Decided(Box<DecidedRequest>),
    /// Progress of a command that creel runs for the agent.
    Terminal(TerminalEvent),
}

/// A request to creel that the engine has decided about.
pub(super) struct DecidedRequest {
    pub(super) wanted: AcpServiceRequest,
    pub(super) call: ToolCall,
    pub(super) answer: PermissionAnswer,
}

/// What creel can do for an agent.
pub(super) enum AcpServiceRequest {
    Read(s::ReadTextFileRequest, Responder<s::ReadTextFileResponse>),
    Write(s::WriteTextFileRequest, Responder<s::WriteTextFileResponse>),
    CreateTerminal(
        s::CreateTerminalRequest,
        Responder<s::CreateTerminalResponse>,
    ),
    TerminalOutput(
        s::TerminalOutputRequest,
        Responder<s::TerminalOutputResponse>,
    ),
    WaitForTerminal(
        s::WaitForTerminalExitRequest,
        Responder<s::WaitForTerminalExitResponse>,
    ),
    KillTerminal(s::KillTerminalRequest, Responder<s::KillTerminalResponse>),
    ReleaseTerminal(
        s::ReleaseTerminalRequest,
        Responder<s::ReleaseTerminalResponse>,
    ),
    /// A question to the user.
    Ask(
        s::CreateElicitationRequest,
        Responder<s::CreateElicitationResponse>,
    ),
}

impl AcpServiceRequest {
    pub(super) fn fail(self, error: Error) -> Result<(), Error> {
        match self {
            Self::Read(_, responder) => responder.respond_with_error(error),
            Self::Write(_, responder) => responder.respond_with_error(error),
            Self::CreateTerminal(_, responder) => responder.respond_with_error(error),
            Self::TerminalOutput(_, responder) => responder.respond_with_error(error),
            Self::WaitForTerminal(_, responder) => responder.respond_with_error(error),
            Self::KillTerminal(_, responder) => responder.respond_with_error(error),
            Self::ReleaseTerminal(_, responder) => responder.respond_with_error(error),
            Self::Ask(_, responder) => responder.respond_with_error(error),
        }
    }
}

pub(super) struct AcpConnection {
    pub(super) companion: PipedProcess,
    connection: ConnectionTo<Agent>,
    pub(super) events: mpsc::Receiver<AcpEvent>,
    /// For events that do not come from the agent's output.
    pub(super) hear: mpsc::Sender<AcpEvent>,
    pub(super) attention: ActiveTurnFlag,
    /// The agent closed its output, or has ended.
    pub(super) gone: CancellationToken,
    noise: SharedTail,
    complaints: SharedTail,
    speaking: Option<AbortOnDropHandle<()>>,
    /// The tasks that read its standard output and standard error to the end.
    readers: [AbortOnDropHandle<()>; 2],
}

impl AcpConnection {
    /// Starts the agent. Sends nothing yet.
    pub(super) async fn open(spec: PipedProcessSpec) -> Result<Self, StartError> {
        let (companion, streams) = PipedProcess::start(spec)?;
        let (hear, events) = mpsc::channel(BACKLOG);
        let (near, far) = tokio::io::duplex(PIPE);
        let (noise, complaints, gone) = (
            SharedTail::new(),
            SharedTail::new(),
            CancellationToken::new(),
        );
        let attention = ActiveTurnFlag::default();
        let reading = tokio::spawn({
            let (events, noise, gone) = (hear.clone(), noise.clone(), gone.clone());
            let attention = attention.clone();
            async move {
                reader::read(streams.stdout, near, (events, attention), noise).await;
                gone.cancel();
            }
        });
        let complaining = tokio::spawn(listen(streams.stderr, complaints.clone()));
        let (ready, connection) = oneshot::channel();
        let transport = ByteStreams::new(streams.stdin.compat_write(), far.compat());
        let speaking = tokio::spawn(speak(transport, hear.clone(), ready));
        let connection = connection
            .await
            .map_err(|_| std::io::Error::other("creel could not start the protocol"))?;
        Ok(Self {
            companion,
            connection,
            events,
            hear,
            attention,
            gone,
            noise,
            complaints,
            speaking: Some(AbortOnDropHandle::new(speaking)),
            readers: [
                AbortOnDropHandle::new(reading),
                AbortOnDropHandle::new(complaining),
            ],
        })
    }

    pub(super) fn is_gone(&mut self) -> bool {
        self.gone.is_cancelled() || self.companion.has_exited()
    }

    pub(super) fn group(&self) -> ProcessGroup {
        self.companion.group()
    }

    /// Sends a request. Has no time limit; the caller sets one.
    pub(super) fn ask<R: JsonRpcRequest>(
        &self,
        request: R,
    ) -> impl Future<Output = Result<R::Response, Error>> + Send + use<R> {
        let sent = self.connection.send_request(request);
        async move { sent.block_task().await }
    }

    /// Cancels the agent's turn. Ignores an agent that is gone already.
    pub(super) fn cancel(&self, session: &s::SessionId) {
        let _ = self
            .connection
            .send_notification(s::CancelNotification::new(session.clone()));
    }

    /// How the agent ended, and its last output.
    pub(super) async fn obituary(&mut self) -> AcpProcessExit {
        let end = self.companion.ended().await;
        // The last output might not have been read yet.
        let deadline = Instant::now() + LAST_OUTPUT;
        for reader in self
            .readers
            .iter_mut()
            .filter(|reader| end.is_some() && !reader.is_finished())
        {
            let _ = timeout_at(deadline, reader).await;
        }
        AcpProcessExit {
            end,
            complaints: self.complaints.text(),
            noise: self.noise.text(),
        }
    }

    /// The end of its standard error, while it still runs.
    pub(super) fn complaints(&self) -> String {
        self.complaints.text()
    }

    /// Ends the agent: closes its input, then sends TERM, then KILL.
    pub(super) async fn close(&mut self) {
        self.speaking = None;
        self.companion.end().await;
    }
}

#[derive(Debug)]
pub(super) struct AcpProcessExit {
    pub(super) end: Option<ProcessEnd>,
    pub(super) complaints: String,
    pub(super) noise: String,
}

impl AcpProcessExit {
    /// The end of standard error, or of the output that was not a message.
    pub(super) fn last_words(&self) -> &str {
        if self.complaints.is_empty() {
            &self.noise
        } else {
            &self.complaints
        }
    }
}

/// Stores the end of the agent's standard error, and logs all of it.
async fn listen(stderr: ChildStderr, complaints: SharedTail) {
    let mut lines = BufReader::new(stderr);
    let mut line = Vec::new();
    // A long line is logged in pieces. Only its end is stored.
    while let Ok(n) = (&mut lines)
        .take(COMPLAINT)
        .read_until(b'\n', &mut line)
        .await
        && n > 0
    {
        tracing::info!(target: "agent", "{}", String::from_utf8_lossy(line.trim_ascii_end()));
        complaints.push(&line);
        line.clear();
    }
}

/// Speaks the protocol until the agent closes its output. Each handler delays all others, so a
/// handler waits for nothing but room in the queue.
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
            async move |request: $request,
                        responder: Responder<$response>,
                        _: ConnectionTo<Agent>| {
                // If the receiver is gone, the dropped responder answers.
                let _ = hear
                    .send(AcpEvent::Wants(Box::new($make(request, responder))))
                    .await;
                Ok(())
            }
        }};
    }
    let permission = {
        let hear = hear.clone();
        async move |request: s::RequestPermissionRequest, responder, _: ConnectionTo<Agent>| {
            let _ = hear
                .send(AcpEvent::Permission(Box::new(request), responder))
                .await;
            Ok(())
        }
    };
    let ended = Client
        .v1()
        .name("creel")
        .on_receive_request(permission, on!())
        .on_receive_request(
            pass_on!(
                s::ReadTextFileRequest,
                s::ReadTextFileResponse,
                AcpServiceRequest::Read
            ),
            on!(),
        )
        .on_receive_request(
            pass_on!(
                s::WriteTextFileRequest,
                s::WriteTextFileResponse,
                AcpServiceRequest::Write
            ),
            on!(),
        )
        .on_receive_request(
            pass_on!(
                s::CreateTerminalRequest,
                s::CreateTerminalResponse,
                AcpServiceRequest::CreateTerminal
            ),
            on!(),
        )
        .on_receive_request(
            pass_on!(
                s::TerminalOutputRequest,
                s::TerminalOutputResponse,
                AcpServiceRequest::TerminalOutput
            ),
            on!(),
        )
        .on_receive_request(
            pass_on!(
                s::WaitForTerminalExitRequest,
                s::WaitForTerminalExitResponse,
                AcpServiceRequest::WaitForTerminal
            ),
            on!(),
        )
        .on_receive_request(
            pass_on!(
                s::KillTerminalRequest,
                s::KillTerminalResponse,
                AcpServiceRequest::KillTerminal
            ),
            on!(),
        )
        .on_receive_request(
            pass_on!(
                s::ReleaseTerminalRequest,
                s::ReleaseTerminalResponse,
                AcpServiceRequest::ReleaseTerminal
            ),
            on!(),
        )
        .on_receive_request(
            pass_on!(
                s::CreateElicitationRequest,
                s::CreateElicitationResponse,
                AcpServiceRequest::Ask
            ),
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

pub(super) fn spec(
    command: &str,
    place: &AgentWorkspace,
    env: Vec<(String, String)>,
) -> PipedProcessSpec {
    PipedProcessSpec {
        command: command.to_owned(),
        cwd: place.cwd.clone(),
        env,
        unset: place.unset(),
        mark: format!("{}/agent", place.mark),
    }
}
