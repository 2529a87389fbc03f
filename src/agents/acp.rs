//! An agent that speaks the Agent Client Protocol.
//!
//! Owns a turn with such an agent: its start, its conversations, a prompt and its end, and every
//! way in which that can fail. See [`connection`] for the connection, [`translate`] for the meaning
//! of updates, and [`service`] for what creel does for the agent.
//!
//! # Invariants
//! - Whatever the agent does or prints, a turn ends: well, cancelled, or failed with a helpful
//!   message.
//! - If a cancelled turn does not end, creel ends the process. The next turn starts another one.
//! - Updates that an agent replays when it resumes a conversation are not forwarded again.

mod connection;
mod exchange;
mod failure_messages;
mod files;
mod options;
mod questions;
mod reader;
mod service;
mod terminals;
mod translate;

use std::time::Duration;

pub use options::{OfferedOption, OfferedValue};
pub use reader::{AcpOutputReading, read_output};

use agent_client_protocol::{
    UntypedMessage,
    schema::ProtocolVersion,
    v1::schema::{self as s, SessionId},
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::{service::AcpServices, translate::AcpConversation};
use super::{
    Agent, AgentError, AgentHistory, AgentObserver, AgentWorkspace, BoxFuture, PermissionRequest,
    TurnRequest, cancelled, environment,
    failure::{self, FailureKind},
    limit, too_late,
};
use crate::{
    agents::{
        acp::{
            connection::AcpConnection,
            exchange::{AcpAnswer, AcpExchange, AcpRequestError, UpdateOrigin},
            failure_messages::{is_hung_up, words},
        },
        error_pattern::ErrorPattern,
        flags::with_flags,
        mcp_tools::{self, ToolOptions, ToolServer},
        scripted::ScriptError,
    },
    engine::{
        budget::ConversationUsage,
        conversation::{AgentUpdate, ConversationMode, StopReason, TurnEnd, TurnFailure},
        policy::{AgentFacts, AgentSpec, MODEL, ServicePolicy, UsageScope},
        time::TimeSpan,
    },
    process::run::{ProcessGroup, StartError},
};

/// How long an agent gets to initialize. Some are downloaded at their first start.
const HELLO: Duration = Duration::from_mins(2);
/// How long an agent must be silent after it resumed a conversation: some replay it only after
/// their response.
const REPLAYED: Duration = Duration::from_millis(700);
/// How long a replay can last at most.
const REPLAY_MAX: Duration = Duration::from_secs(20);
/// How long an agent gets to close its conversation before creel ends it.
const CLOSE: Duration = Duration::from_secs(1);
/// How long a cancelled turn gets to end before creel ends the process.
const CANCEL_GRACE: Duration = Duration::from_secs(3);

pub struct AcpAgent {
    /// As written in the config.
    command: String,
    /// The command with the options that pass the session's tools.
    line: String,
    /// Options that pass the session's tools, if the agent does not accept them over the protocol.
    tool_options: Option<ToolOptions>,
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
}

struct ResumableConversation {
    id: String,
    tally: ConversationUsage,
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
        Ok(Self {
            command: command.clone(),
            line: tool_options
                .as_ref()
                .map_or_else(|| Ok(command.clone()), |tools| tools.added_to(command))?,
            tool_options,
            refusal: mcp_tools::refusal(&place, known),
            mode: mode.clone(),
            known: known.clone(),
            disguise,
            place,
            services,
            running: None,
            left: past.conversation.map(|id| ResumableConversation {
                id: id.to_owned(),
                tally: past.tally,
            }),
        })
    }

    async fn one_turn(
        &mut self,
        request: TurnRequest,
        updates: &mut dyn AgentObserver,
        cancel: &CancellationToken,
    ) -> Result<TurnEnd, TurnFailure> {
        let deadline = limit(request.timeout).and_then(|limit| Instant::now().checked_add(limit));
        let mut turn = AcpTurn {
            updates,
            cancel,
            deadline,
            lost: false,
        };
        let played = self.play(&request, &mut turn).await;
        if let Some(running) = &self.running {
            running.link.attention.turn_away();
        }
        match played {
            Ok(end) => Ok(end),
            Err(TurnAbortReason::Cancelled) => Ok(cancelled()),
            Err(TurnAbortReason::TooLate) => Err(too_late(request.timeout)),
            Err(TurnAbortReason::Failed(failure)) => Err(failure),
        }
    }

    async fn play(
        &mut self,
        request: &TurnRequest,
        turn: &mut AcpTurn<'_>,
    ) -> Result<TurnEnd, TurnAbortReason> {
        if turn.cancel.is_cancelled() {
            return Err(TurnAbortReason::Cancelled);
        }
        if self
            .running
            .as_mut()
            .is_some_and(|running| running.link.is_gone())
        {
            self.bury().await;
        }
        let model = self.model_flag(request.model.as_deref());
        if let Some(running) = &self.running
            && running.started_with != model
        {
            self.bury().await;
        }
        self.leave_the_past(request.conversation, turn).await;
        self.start(model, turn).await?;
        let conversation = self.converse(request.conversation, turn).await?;
        self.set_options(&conversation, request.model.as_deref(), turn)
            .await?;
        self.prompt(request, conversation, turn).await
    }

    /// Before a new conversation, drops what the agent sent since its last turn. If the same
    /// conversation continues, [`Self::prompt`] handles that, and answers pending requests in its
    /// turn.
    async fn leave_the_past(&mut self, wanted: ConversationMode, turn: &mut AcpTurn<'_>) {
        let Some(running) = &mut self.running else {
            return;
        };
        if wanted == ConversationMode::Same && running.conversation.is_some() {
            return;
        }
        let (conversation, link) = (running.conversation.clone(), &mut running.link);
        AcpExchange::new(
            link,
            turn.updates,
            &mut self.services,
            UpdateOrigin::Live,
            conversation,
        )
        .leave_the_past()
        .await;
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
        let mut env = environment(&self.place);
        env.extend(self.tool_options.iter().flat_map(ToolOptions::variables));
        let command = with_flags(&self.known, model.as_deref(), &self.line, &mut env)
            .map_err(|error| TurnAbortReason::Failed(TurnFailure::new(error.to_string())))?;
        let spec = connection::spec(&command, &self.place, env.into_iter().collect());
        let not_started = |why: StartError| {
            TurnAbortReason::Failed(TurnFailure::new(format!(
                "the agent could not be started: {why}"
            )))
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

    /// The conversation of this turn: new, continued or resumed.
    async fn converse(
        &mut self,
        wanted: ConversationMode,
        turn: &mut AcpTurn<'_>,
    ) -> Result<SessionId, TurnAbortReason> {
        let Some(running) = &mut self.running else {
            return Err(TurnAbortReason::Failed(TurnFailure::new(
                "the agent has exited",
            )));
        };
        let known = match wanted {
            ConversationMode::Same => running.conversation.clone(),
            ConversationMode::New => None,
        };
        if let Some(conversation) = known {
            return Ok(conversation);
        }
        let left = self
            .left
            .take()
            .filter(|_| wanted == ConversationMode::Same);
        if let Some(left) = left {
            if let Some(conversation) = self.take_up(&left, turn).await? {
                return Ok(conversation);
            }
        } else if wanted == ConversationMode::Same {
            turn.lose("creel restarted the agent").await;
        }
        self.begin(turn).await
    }

    /// Opens a new conversation in the project's folder.
    async fn begin(&mut self, turn: &mut AcpTurn<'_>) -> Result<SessionId, TurnAbortReason> {
        let request = s::NewSessionRequest::new(self.place.cwd.clone()).mcp_servers(self.tools());
        let opened = self.request(request, UpdateOrigin::Live, turn).await;
        let opened = match opened {
            Ok(opened) => opened,
            Err(broken) => return Err(self.fail(broken, "could not open a conversation").await),
        };
        let id = opened.session_id;
        let options = opened.config_options.unwrap_or_default();
        self.opened(&id, (ConversationUsage::default(), options), turn)
            .await?;
        Ok(id)
    }

    /// The session's tools, as a server that the agent starts itself.
    fn tools(&self) -> Vec<s::McpServer> {
        ToolServer::of(&self.place, &self.known)
            .filter(|_| self.known.tools.is_none())
            .map(|ToolServer { command, args }| {
                s::McpServerStdio::new(mcp_tools::NAME, command).args(args.to_vec())
            })
            .map(s::McpServer::Stdio)
            .into_iter()
            .collect()
    }

    /// Sets the mode from the config. In a different mode the agent could do what the user does not
    /// want, so a failure here fails the turn.
    async fn set_mode(
        &mut self,
        id: &SessionId,
        turn: &mut AcpTurn<'_>,
    ) -> Result<(), TurnAbortReason> {
        let Some(mode) = self.mode.clone() else {
            return Ok(());
        };
        let request = s::SetSessionModeRequest::new(id.clone(), mode.clone());
        match self.request(request, UpdateOrigin::Live, turn).await {
            Ok(_) => Ok(()),
            Err(AcpRequestError::Answered(error)) if !is_hung_up(&error) => {
                self.forget();
                Err(TurnAbortReason::Failed(failure_messages::wrong_mode(
                    &mode, &error,
                )))
            }
            Err(broken) => Err(self.fail(broken, "could not change its mode").await),
        }
    }

    /// Resumes a conversation. Returns None if the agent cannot.
    async fn take_up(
        &mut self,
        left: &ResumableConversation,
        turn: &mut AcpTurn<'_>,
    ) -> Result<Option<SessionId>, TurnAbortReason> {
        let Some(running) = &self.running else {
            return Ok(None);
        };
        let can = &running.hello.agent_capabilities;
        let (id, cwd) = (SessionId::new(left.id.clone()), self.place.cwd.clone());
        let answered = if can.session_capabilities.resume.is_some() {
            let request = s::ResumeSessionRequest::new(id.clone(), cwd).mcp_servers(self.tools());
            self.request(request, UpdateOrigin::Replay, turn)
                .await
                .map(|resumed| resumed.config_options)
        } else if can.load_session {
            let request = s::LoadSessionRequest::new(id.clone(), cwd).mcp_servers(self.tools());
            let loaded = self
                .request(request, UpdateOrigin::Replay, turn)
                .await
                .map(|loaded| loaded.config_options);
            self.let_it_repeat(turn).await;
            loaded
        } else {
            turn.lose("the agent cannot resume conversations").await;
            return Ok(None);
        };
        match answered {
            Ok(options) => {
                self.opened(&id, (left.tally, options.unwrap_or_default()), turn)
                    .await?;
                Ok(Some(id))
            }
            Err(AcpRequestError::Answered(error)) => {
                let why = format!(
                    "the agent could not resume the conversation {id} ({})",
                    words(&error)
                );
                turn.lose(&why).await;
                Ok(None)
            }
            Err(broken) => Err(self.fail(broken, "could not resume its conversation").await),
        }
    }

    /// Drops what an agent replays of a conversation, because it can come late and must not look
    /// like the next turn.
    async fn let_it_repeat(&mut self, turn: &mut AcpTurn<'_>) {
        if let Some(running) = &mut self.running {
            let link = &mut running.link;
            let mut stage = AcpExchange::new(
                link,
                turn.updates,
                &mut self.services,
                UpdateOrigin::Replay,
                None,
            );
            stage.until_quiet(REPLAYED, REPLAY_MAX).await;
        }
    }

    /// Notes a conversation, and sets its mode.
    async fn opened(
        &mut self,
        id: &SessionId,
        (tally, options): (ConversationUsage, Vec<s::SessionConfigOption>),
        turn: &mut AcpTurn<'_>,
    ) -> Result<(), TurnAbortReason> {
        if let Some(running) = &mut self.running {
            running.conversation = Some(id.clone());
            running.own_model = options::model(&options);
        }
        self.services.book = AcpConversation::new(tally, options);
        turn.updates
            .update(AgentUpdate::Opened(id.to_string()))
            .await;
        self.set_mode(id, turn).await
    }

    /// Sets the turn's model, or returns to the agent's own. Then sets the other options: which
    /// ones there are can depend on the model.
    async fn set_options(
        &mut self,
        id: &SessionId,
        wanted: Option<&str>,
        turn: &mut AcpTurn<'_>,
    ) -> Result<(), TurnAbortReason> {
        let configured = self.known.options.get(MODEL).cloned();
        let own = self.running.as_ref().and_then(|it| it.own_model.clone());
        let model = wanted.map(str::to_owned).or(configured).or(own);
        let others = self.known.options.clone().into_iter();
        let others = others.filter(|(name, _)| name != MODEL);
        let model = model.map(|model| (MODEL.to_owned(), model));
        for (name, value) in model.into_iter().chain(others) {
            if !self.known.flags.contains_key(&name) {
                self.set_option(id, (&name, &value), turn).await?;
            }
        }
        for note in self.services.book.models() {
            turn.updates.update(note).await;
        }
        Ok(())
    }

    /// Sets an option. Without it, the agent could do what the user does not want, so a failure
    /// here fails the turn.
    async fn set_option(
        &mut self,
        id: &SessionId,
        (name, value): (&str, &str),
        turn: &mut AcpTurn<'_>,
    ) -> Result<(), TurnAbortReason> {
        let failed = |why: String| {
            TurnAbortReason::Failed(TurnFailure::new(format!(
                "{why}. creel did not send the prompt: correct the config, or `--model`"
            )))
        };
        let request = options::request(id, &self.services.book.options, (name, value));
        let Some(request) = request.map_err(failed)? else {
            return Ok(());
        };
        // Some answer with nothing, not with all options.
        let asked = UntypedMessage::new("session/set_config_option", &request)
            .map_err(|error| failed(error.to_string()))?;
        match self.request(asked, UpdateOrigin::Live, turn).await {
            Ok(answer) => {
                options::note_answer(&mut self.services.book.options, &request, &answer);
                Ok(())
            }
            Err(AcpRequestError::Answered(error)) if !is_hung_up(&error) => {
                self.forget();
                let why = words(&error);
                Err(failed(format!(
                    "the agent did not accept {value} for its option `{name}` ({why})"
                )))
            }
            Err(broken) => Err(self.fail(broken, "could not change its options").await),
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

    /// Sends one prompt and waits for the end of the turn.
    async fn prompt(
        &mut self,
        request: &TurnRequest,
        conversation: SessionId,
        turn: &mut AcpTurn<'_>,
    ) -> Result<TurnEnd, TurnAbortReason> {
        let Some(running) = &mut self.running else {
            return Err(TurnAbortReason::Failed(TurnFailure::new(
                "the agent has exited",
            )));
        };
        let mut stage = AcpExchange::new(
            &mut running.link,
            turn.updates,
            &mut self.services,
            UpdateOrigin::Live,
            Some(conversation.clone()),
        );
        stage.begin_turn().await;
        let complained = stage.link.complaints();
        let text = if turn.lost {
            self.place.with_goal(&request.text)
        } else {
            request.text.clone()
        };
        let content = vec![s::ContentBlock::from(text)];
        let mut asked = Box::pin(
            stage
                .link
                .ask(s::PromptRequest::new(conversation.clone(), content)),
        );
        let answered = stage
            .until(&mut asked, Some(turn.cancel), turn.deadline)
            .await;
        let late = match &answered {
            Err(AcpRequestError::Cancelled) => Some(TurnAbortReason::Cancelled),
            Err(AcpRequestError::TooLate) => Some(TurnAbortReason::TooLate),
            Ok(_) | Err(_) => None,
        };
        let Some(stop) = late else {
            let answer = stage.answer.clone();
            return match answered {
                Ok(response) => self.conclude(&response, &answer),
                Err(broken) => Err(self.fail(broken, "failed during its turn").await),
            };
        };
        let silent = !stage.answer.anything && !stage.has_calls();
        let complaints = failure_messages::newer(&complained, stage.link.complaints());
        stage.link.cancel(&conversation);
        stage.unask();
        let patience = Instant::now() + CANCEL_GRACE;
        let ended = stage.until(&mut asked, None, Some(patience)).await;
        self.services.end_all();
        if !matches!(ended, Ok(_) | Err(AcpRequestError::Answered(_))) {
            drop(asked);
            self.bury().await;
        }
        match stop {
            TurnAbortReason::TooLate => {
                let late = if silent {
                    failure_messages::not_a_word(request.timeout)
                } else {
                    too_late(request.timeout)
                };
                Err(TurnAbortReason::Failed(failure::after_server_errors(
                    late,
                    &complaints,
                )))
            }
            TurnAbortReason::Cancelled | TurnAbortReason::Failed(_) => Err(stop),
        }
    }

    /// The agent ended its turn. Checks whether it failed or did nothing.
    fn conclude(
        &mut self,
        response: &s::PromptResponse,
        answer: &AcpAnswer,
    ) -> Result<TurnEnd, TurnAbortReason> {
        let spent = self
            .services
            .book
            .spent(response, self.known.usage.unwrap_or(UsageScope::Turn));
        let mut stop_reason = translate::stop_reason(response.stop_reason);
        let failed =
            |failure: TurnFailure| Err(TurnAbortReason::Failed(TurnFailure { spent, ..failure }));
        if let Some(message) = self
            .disguise
            .as_ref()
            .and_then(|pattern| pattern.find(&answer.last))
        {
            let failure = failure::explain(
                "the agent's answer was an error message",
                message,
                &self.known,
            );
            self.forget_if_full(message);
            return failed(failure);
        }
        if stop_reason == StopReason::Cancelled {
            // creel did not cancel the turn. An agent can end its turn this way after a refused
            // permission.
            if !self.services.was_refused() {
                return failed(TurnFailure::new(
                    "the agent cancelled its turn without a request from creel",
                ));
            }
            stop_reason = StopReason::EndTurn;
        }
        if stop_reason == StopReason::EndTurn && !answer.anything && !self.services.book.has_calls()
        {
            let complaints = self
                .running
                .as_ref()
                .map(|running| running.link.complaints())
                .unwrap_or_default();
            let what = "the agent ended its turn without an answer or a tool call";
            return failed(if complaints.trim().is_empty() {
                let login = self.known.login.as_deref();
                TurnFailure::new(format!(
                    "{what}. Its model's server may have refused the request or the key. Run the agent by hand to see \
                     why{}",
                    login
                        .map(|how| format!(" (to log in: {how})"))
                        .unwrap_or_default()
                ))
            } else {
                failure::explain(what, &complaints, &self.known)
            });
        }
        Ok(TurnEnd {
            spent,
            ..TurnEnd::new(stop_reason)
        })
    }

    /// A full conversation cannot be continued.
    fn forget_if_full(&mut self, message: &str) {
        if FailureKind::of(message) == FailureKind::ContextFull {
            self.forget();
        }
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
            });
            self.left = left.or(self.left.take());
            running.link.close().await;
        }
    }
}

/// What an agent says about itself when it starts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentOffer {
    /// Its own name for itself.
    pub program: Option<String>,
    pub version: Option<String>,
    /// Whether it can continue a conversation in another process.
    pub can_resume: bool,
    /// Whether it can branch a conversation.
    pub can_fork: bool,
    pub options: Vec<OfferedOption>,
}

/// Hears nothing.
struct NoObserver;

impl AgentObserver for NoObserver {
    fn update(&mut self, _update: AgentUpdate) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    fn permission(&mut self, _request: PermissionRequest) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    fn process(&mut self, _group: ProcessGroup) {}
}

impl AcpAgent {
    /// Starts an agent, opens a conversation, and ends it. Says what it offers.
    pub async fn offer(
        spec: &AgentSpec,
        place: AgentWorkspace,
        patience: Duration,
        cancel: &CancellationToken,
    ) -> Result<AgentOffer, TurnFailure> {
        let mut agent = Self::new(spec, place, AgentHistory::default())
            .map_err(|error| TurnFailure::new(error.to_string()))?;
        (agent.mode, agent.refusal) = (None, None);
        let mut turn = AcpTurn {
            updates: &mut NoObserver,
            cancel,
            deadline: Instant::now().checked_add(patience),
            lost: false,
        };
        let model = agent.model_flag(None);
        let opened = match agent.start(model, &mut turn).await {
            Ok(()) => agent.begin(&mut turn).await,
            Err(stop) => Err(stop),
        };
        let offer = agent.running.as_ref().map(|running| {
            let (hello, can) = (&running.hello, &running.hello.agent_capabilities);
            let info = hello.agent_info.as_ref();
            AgentOffer {
                program: info.map(|info| info.title.clone().unwrap_or_else(|| info.name.clone())),
                version: info.map(|info| info.version.clone()),
                can_resume: can.load_session || can.session_capabilities.resume.is_some(),
                can_fork: can.session_capabilities.fork.is_some(),
                options: options::offered(&agent.services.book.options),
            }
        });
        agent.bury().await;
        match opened {
            Ok(_) => Ok(offer.unwrap_or_default()),
            Err(TurnAbortReason::Failed(failure)) => Err(failure),
            Err(TurnAbortReason::Cancelled) => Err(TurnFailure::new("interrupted")),
            Err(TurnAbortReason::TooLate) => Err(TurnFailure::new(format!(
                "it did not open a conversation within {}",
                TimeSpan::from(patience)
            ))),
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

fn serves(service: ServicePolicy) -> bool {
    service == ServicePolicy::Serve
}
