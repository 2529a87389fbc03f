//! An agent that speaks the Agent Client Protocol.
//!
//! Owns its process: how it starts, how a request to it fails, and how it ends.
//!
//! - [`turn`] leads a turn; [`conversations`] opens and sets what it is part of, as [`options`] reads
//!   it; [`exchange`] words what went wrong.
//! - [`offer`] asks an agent that gets no prompt what it offers.
//! - [`connection`] and [`exchange`] pass messages; [`translate`] says what they mean.
//! - [`service`], [`files`], [`terminals`] and [`questions`] are what creel does for the agent.
//!
//! # Invariants
//! - There is one process at a time. The next one can resume the conversation that it was in.

mod connection;
mod conversations;
mod exchange;
mod files;
mod offer;
mod options;
mod questions;
mod reader;
mod service;
mod terminals;
mod translate;
mod turn;

use std::time::Duration;

pub use offer::{AgentOffer, KnownConversations, ListedConversation};
pub use options::{OfferedOption, OfferedValue};
pub use reader::{AcpOutputReading, read_output};

use agent_client_protocol::{
    schema::ProtocolVersion,
    v1::schema::{self as s, SessionId},
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::service::AcpServices;
use super::{
    Agent, AgentError, AgentHistory, AgentObserver, AgentWorkspace, BoxFuture, TurnRequest,
    environment, failure::FailureKind,
};
use crate::{
    agents::{
        acp::{
            connection::AcpConnection,
            exchange::{AcpExchange, AcpRequestError, UpdateOrigin, is_hung_up, words},
        },
        error_pattern::ErrorPattern,
        mcp_tools::{self, ToolOptions},
        native_hooks::NativeHooks,
        scripted::ScriptError,
        with_flags,
    },
    engine::{
        budget::ConversationUsage,
        conversation::{AGENT_NOT_STARTED, AgentUpdate, FirstConversation, TurnEnd, TurnFailure},
        policy::{AgentFacts, AgentSpec, MODEL},
    },
    process::{run::StartError, trace_context::TracedWork},
};

/// How long an agent gets to initialize. Some are downloaded at their first start.
const HELLO: Duration = Duration::from_mins(2);
/// How long an agent gets to close its conversation before creel ends it.
const CLOSE: Duration = Duration::from_secs(1);

pub struct AcpAgent {
    /// As written in the config.
    command: String,
    /// The command with the options that pass the session's tools.
    line: String,
    /// Options that pass the session's tools, if the agent does not accept them over the protocol.
    tool_options: Option<ToolOptions>,
    /// The hook that creel adds to the agent.
    hooks: Option<NativeHooks>,
    /// A warning to show once, if the agent does not accept the tools at all.
    refusal: Option<&'static str>,
    mode: Option<String>,
    known: AgentFacts,
    disguise: Option<ErrorPattern>,
    place: AgentWorkspace,
    services: AcpServices,
    running: Option<RunningAcpAgent>,
    /// The conversation that the agent was in when it ended.
    left: Option<ResumableConversation>,
    /// Whether the agent resumed a conversation without its options: creel knows them from before,
    /// but not their values.
    is_unsure: bool,
    /// The conversation that the session begins with, until a turn in it has ended well.
    first: Option<FirstConversation>,
}

struct ResumableConversation {
    id: String,
    tally: ConversationUsage,
    own_model: Option<String>,
    /// The options that the agent had. None if another process of creel led the conversation.
    options: Option<Vec<s::SessionConfigOption>>,
}

impl ResumableConversation {
    /// One that the user began in the agent itself.
    fn chosen(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            tally: ConversationUsage::default(),
            own_model: None,
            options: None,
        }
    }
}

/// An initialized agent.
struct RunningAcpAgent {
    link: AcpConnection,
    hello: s::InitializeResponse,
    conversation: Option<SessionId>,
    /// The model that the conversation had before creel chose one.
    own_model: Option<String>,
    /// The model on its command line.
    started_with: Option<String>,
}

impl RunningAcpAgent {
    fn can_resume(&self) -> bool {
        let can = &self.hello.agent_capabilities;
        can.load_session || can.session_capabilities.resume.is_some()
    }

    fn can_fork(&self) -> bool {
        let can = &self.hello.agent_capabilities.session_capabilities;
        can.fork.is_some()
    }
}

struct AcpTurn<'a> {
    updates: &'a mut dyn AgentObserver,
    cancel: &'a CancellationToken,
    deadline: Option<Instant>,
    /// Whether the agent lost the conversation that the turn continues.
    lost: bool,
}

impl AcpTurn<'_> {
    /// The agent knows nothing of the earlier conversation.
    async fn lose(&mut self, why: &str) {
        self.lost = true;
        let text = format!(
            "{why}. It does not know the earlier conversation, so creel puts the goal in front of the prompt"
        );
        self.warn(text).await;
    }

    async fn warn(&mut self, text: impl Into<String>) {
        self.updates.update(AgentUpdate::Warned(text.into())).await;
    }
}

enum TurnAbortReason {
    Cancelled,
    TooLate,
    Failed(TurnFailure),
}

impl AcpAgent {
    /// Starts no process yet.
    pub fn new(
        spec: &AgentSpec,
        place: AgentWorkspace,
        past: AgentHistory<'_>,
    ) -> Result<Self, AgentError> {
        let AgentSpec::Acp {
            command,
            mode,
            files,
            terminals,
            known,
        } = spec
        else {
            return Err(AgentError::Script(ScriptError::NotAcp));
        };
        let disguise = ErrorPattern::of(known)?;
        let tool_options = ToolOptions::of(&place, known);
        let services = AcpServices::new(*files, *terminals, &place, known);
        let hooks = NativeHooks::of(&place, known)?;
        let line = match &tool_options {
            Some(tools) => tools.added_to(command)?,
            None => command.clone(),
        };
        let line = match &hooks {
            Some(hooks) => hooks.added_to(&line)?,
            None => line,
        };
        Ok(Self {
            command: command.clone(),
            line,
            tool_options,
            hooks,
            refusal: mcp_tools::refusal(&place, known),
            mode: mode.clone(),
            known: known.clone(),
            disguise,
            place,
            services,
            running: None,
            is_unsure: false,
            left: past.conversation.map(|id| ResumableConversation {
                id: id.to_owned(),
                tally: past.tally,
                own_model: past.own_model.map(str::to_owned),
                options: None,
            }),
            first: past.first.cloned(),
        })
    }

    /// The model for the agent's command line, if it gets it there.
    fn model_flag(&self, wanted: Option<&str>) -> Option<String> {
        let model = wanted.or_else(|| self.known.options.get(MODEL).map(String::as_str));
        model
            .filter(|_| self.known.flags.contains_key(MODEL))
            .map(str::to_owned)
    }

    /// Starts the agent if it does not run.
    async fn start(
        &mut self,
        model: Option<String>,
        turn: &mut AcpTurn<'_>,
    ) -> Result<(), TurnAbortReason> {
        if self.running.is_some() {
            return Ok(());
        }
        if let Some(refusal) = self.refusal.take() {
            turn.warn(refusal).await;
        }
        if let Some(hooks) = &self.hooks {
            let prepared = hooks
                .prepare()
                .map_err(|error| TurnFailure::new(error.to_string()));
            prepared.map_err(TurnAbortReason::Failed)?;
        }
        let mut env = environment(&self.place, TracedWork::Session(0));
        env.extend(self.tool_options.iter().flat_map(ToolOptions::variables));
        env.extend(self.hooks.iter().flat_map(NativeHooks::variables));
        let command = with_flags(&self.known, model.as_deref(), &self.line, &mut env)
            .map_err(|error| TurnAbortReason::Failed(TurnFailure::new(error.to_string())))?;
        let spec = connection::spec(&command, &self.place, env.into_iter().collect());
        let not_started = |why: StartError| {
            TurnAbortReason::Failed(TurnFailure::new(format!("{AGENT_NOT_STARTED}: {why}")))
        };
        let mut link = AcpConnection::open(spec).await.map_err(not_started)?;
        turn.updates.process(link.group());
        match self.greet(&mut link, turn).await {
            Ok(hello) => {
                self.running = Some(RunningAcpAgent {
                    link,
                    hello,
                    conversation: None,
                    own_model: None,
                    started_with: model,
                });
                Ok(())
            }
            Err(stop) => {
                link.close().await;
                Err(stop)
            }
        }
    }

    /// Initializes the protocol and checks its version.
    async fn greet(
        &mut self,
        link: &mut AcpConnection,
        turn: &mut AcpTurn<'_>,
    ) -> Result<s::InitializeResponse, TurnAbortReason> {
        let hello = link.ask(
            s::InitializeRequest::new(ProtocolVersion::V1)
                .client_info(s::Implementation::new("creel", env!("CARGO_PKG_VERSION")))
                .client_capabilities(self.services.capabilities()),
        );
        let patience = Instant::now() + HELLO;
        let deadline = turn
            .deadline
            .map_or(patience, |deadline| deadline.min(patience));
        let mut stage = AcpExchange::new(
            link,
            turn.updates,
            &mut self.services,
            UpdateOrigin::Live,
            None,
        );
        let hello = match stage.until(hello, Some(turn.cancel), Some(deadline)).await {
            Ok(hello) => hello,
            Err(AcpRequestError::TooLate) if deadline == patience => {
                return Err(TurnAbortReason::Failed(self.silence(HELLO)));
            }
            Err(broken) => {
                return Err(self
                    .why_not(link, broken, "did not complete the handshake", None)
                    .await);
            }
        };
        if hello.protocol_version == ProtocolVersion::V1 {
            Ok(hello)
        } else {
            Err(TurnAbortReason::Failed(self.stranger(&hello)))
        }
    }

    /// Sends a request other than a prompt.
    async fn request<R: agent_client_protocol::JsonRpcRequest>(
        &mut self,
        request: R,
        listening: UpdateOrigin,
        turn: &mut AcpTurn<'_>,
    ) -> Result<R::Response, AcpRequestError> {
        let Some(running) = &mut self.running else {
            return Err(AcpRequestError::Gone);
        };
        let asked = running.link.ask(request);
        let mut stage = AcpExchange::new(
            &mut running.link,
            turn.updates,
            &mut self.services,
            listening,
            None,
        );
        stage.until(asked, Some(turn.cancel), turn.deadline).await
    }

    /// Makes the next turn begin a new conversation.
    fn forget(&mut self) {
        if let Some(running) = &mut self.running {
            running.conversation = None;
        }
    }

    /// Explains a failure, and cleans up after an agent that is gone.
    async fn fail(&mut self, broken: AcpRequestError, what: &str) -> TurnAbortReason {
        let Some(mut running) = self.running.take() else {
            return TurnAbortReason::Failed(TurnFailure::new("the agent has exited"));
        };
        let answered = matches!(&broken, AcpRequestError::Answered(error) if !is_hung_up(error));
        let alive = answered && !running.link.gone.is_cancelled();
        let full = matches!(&broken, AcpRequestError::Answered(error) if FailureKind::of(&words(error)) == FailureKind::ContextFull);
        let stop = self
            .why_not(&mut running.link, broken, what, Some(&running.hello))
            .await;
        if full {
            running.conversation = None;
        }
        self.running = Some(running);
        if !alive {
            self.bury().await;
        }
        stop
    }

    /// Lets the agent free what it keeps for its conversation. It can still be resumed.
    async fn close_conversation(&mut self) {
        let Some(running) = self
            .running
            .as_mut()
            .filter(|it| !it.link.gone.is_cancelled())
        else {
            return;
        };
        let can = &running.hello.agent_capabilities.session_capabilities;
        if let Some(id) = running.conversation.clone().filter(|_| can.close.is_some()) {
            let closed = running.link.ask(s::CloseSessionRequest::new(id));
            let _ = tokio::time::timeout(CLOSE, closed).await;
        }
    }

    /// Ends what is left of the agent. The next process can resume its conversation.
    async fn bury(&mut self) {
        self.services.end_all();
        if let Some(mut running) = self.running.take() {
            let tally = self.services.book.tally;
            let left = running.conversation.take().map(|id| ResumableConversation {
                id: id.to_string(),
                tally,
                own_model: running.own_model.take(),
                options: self.services.book.options_mut().take(),
            });
            self.left = left.or(self.left.take());
            running.link.close().await;
        }
    }
}

impl Agent for AcpAgent {
    fn turn<'a>(
        &'a mut self,
        request: TurnRequest,
        updates: &'a mut dyn AgentObserver,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<TurnEnd, TurnFailure>> {
        Box::pin(self.one_turn(request, updates, cancel))
    }

    fn shutdown(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.close_conversation().await;
            self.bury().await;
        })
    }
}
