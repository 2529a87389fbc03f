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

use std::{path::Path, time::Duration};

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
        native_hooks::NativeHooks,
        scripted::ScriptError,
    },
    engine::{
        budget::ConversationUsage,
        conversation::{
            AgentUpdate, ConversationMode, FirstConversation, StopReason, TurnEnd, TurnFailure,
        },
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
/// How long an agent gets to start and to answer a question of the user.
const PATIENCE: Duration = Duration::from_mins(1);
/// How many pages of its conversations creel reads.
const PAGES: usize = 50;
/// How long a cancelled turn gets to end before creel ends the process.
const CANCEL_GRACE: Duration = Duration::from_secs(3);

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
        let hooks = NativeHooks::of(&place, known);
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
        env.extend(self.hooks.iter().flat_map(NativeHooks::variables));
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
        if wanted == ConversationMode::New {
            (self.left, self.first) = (None, None);
            return self.begin(turn).await;
        }
        let resumed = match self.left.take() {
            Some(left) => self.take_up(&left, turn).await?,
            None => Err("creel restarted the agent".to_owned()),
        };
        match (resumed, self.first.clone()) {
            (Ok(conversation), _) => Ok(conversation),
            (Err(_), Some(first)) => self.begin_with(&first, turn).await,
            (Err(why), None) => {
                turn.lose(&why).await;
                self.begin(turn).await
            }
        }
    }

    /// Continues the conversation that the user chose for the session, or a copy of it. Any other
    /// conversation is not what the user wants, so a failure here fails the turn.
    async fn begin_with(
        &mut self,
        first: &FirstConversation,
        turn: &mut AcpTurn<'_>,
    ) -> Result<SessionId, TurnAbortReason> {
        let begun = if first.fork_of.is_some() {
            self.fork(&first.id, turn).await?
        } else {
            let chosen = ResumableConversation::chosen(&first.id);
            self.take_up(&chosen, turn).await?
        };
        begun.map_err(|why| {
            TurnAbortReason::Failed(TurnFailure::new(format!(
                "{why}. creel did not send the prompt, because the session begins with this conversation"
            )))
        })
    }

    /// Opens a copy of a conversation, or returns why the agent could not.
    async fn fork(
        &mut self,
        id: &str,
        turn: &mut AcpTurn<'_>,
    ) -> Result<Result<SessionId, String>, TurnAbortReason> {
        let running = self.running.as_ref();
        if !running.is_some_and(RunningAcpAgent::can_fork) {
            return Ok(Err("the agent cannot copy conversations".to_owned()));
        }
        let request = s::ForkSessionRequest::new(id.to_owned(), self.place.cwd.clone())
            .mcp_servers(self.tools())
            .meta(self.meta());
        (self.services.book, self.is_unsure) = (AcpConversation::default(), false);
        match self.request(request, UpdateOrigin::Replay, turn).await {
            Ok(forked) => {
                self.opened(&forked.session_id, forked.config_options, None, turn)
                    .await?;
                Ok(Ok(forked.session_id))
            }
            Err(AcpRequestError::Answered(error)) if !is_hung_up(&error) => Ok(Err(format!(
                "the agent could not copy the conversation {id} ({})",
                words(&error)
            ))),
            Err(broken) => Err(self.fail(broken, "could not copy the conversation").await),
        }
    }

    /// Opens a new conversation in the project's folder.
    async fn begin(&mut self, turn: &mut AcpTurn<'_>) -> Result<SessionId, TurnAbortReason> {
        let request = s::NewSessionRequest::new(self.place.cwd.clone())
            .mcp_servers(self.tools())
            .meta(self.meta());
        (self.services.book, self.is_unsure) = (AcpConversation::default(), false);
        let opened = self.request(request, UpdateOrigin::Live, turn).await;
        let opened = match opened {
            Ok(opened) => opened,
            Err(broken) => return Err(self.fail(broken, "could not open a conversation").await),
        };
        let id = opened.session_id;
        self.opened(&id, opened.config_options, None, turn).await?;
        Ok(id)
    }

    /// What adds creel's hook to a conversation.
    fn meta(&self) -> Option<s::Meta> {
        self.hooks.as_ref().and_then(NativeHooks::meta)
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

    /// Resumes a conversation, or returns why the agent could not.
    async fn take_up(
        &mut self,
        left: &ResumableConversation,
        turn: &mut AcpTurn<'_>,
    ) -> Result<Result<SessionId, String>, TurnAbortReason> {
        let Some(running) = &self.running else {
            return Ok(Err("the agent has exited".to_owned()));
        };
        let can = &running.hello.agent_capabilities;
        let (id, cwd) = (SessionId::new(left.id.clone()), self.place.cwd.clone());
        self.services.book = AcpConversation::new(left.tally);
        let answered = if can.session_capabilities.resume.is_some() {
            let request = s::ResumeSessionRequest::new(id.clone(), cwd)
                .mcp_servers(self.tools())
                .meta(self.meta());
            self.request(request, UpdateOrigin::Replay, turn)
                .await
                .map(|resumed| resumed.config_options)
        } else if can.load_session {
            let request = s::LoadSessionRequest::new(id.clone(), cwd)
                .mcp_servers(self.tools())
                .meta(self.meta());
            let loaded = self
                .request(request, UpdateOrigin::Replay, turn)
                .await
                .map(|loaded| loaded.config_options);
            self.let_it_repeat(turn).await;
            loaded
        } else {
            return Ok(Err("the agent cannot resume conversations".to_owned()));
        };
        match answered {
            Ok(options) => {
                self.is_unsure = options.is_none() && self.services.book.options().is_empty();
                let options = options.or_else(|| left.options.clone());
                self.opened(&id, options, left.own_model.clone(), turn)
                    .await?;
                Ok(Ok(id))
            }
            Err(AcpRequestError::Answered(error)) => Ok(Err(format!(
                "the agent could not resume the conversation {id} ({})",
                words(&error)
            ))),
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

    /// Notes a conversation, and sets its mode. Options that the agent sent after its answer are
    /// newer than those in it.
    async fn opened(
        &mut self,
        id: &SessionId,
        options: Option<Vec<s::SessionConfigOption>>,
        own_model: Option<String>,
        turn: &mut AcpTurn<'_>,
    ) -> Result<(), TurnAbortReason> {
        let book = &mut self.services.book;
        let newest = book.options_mut();
        if newest.is_none() {
            *newest = options;
        }
        if let Some(running) = &mut self.running {
            running.conversation = Some(id.clone());
            running.own_model = own_model.or_else(|| options::model(book.options()));
        }
        turn.updates
            .update(AgentUpdate::Opened(id.to_string()))
            .await;
        // Recorded before creel sets a model, so that a later process knows the agent's own.
        self.tell_models(turn).await;
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
        let own = own.filter(|_| !self.known.flags.contains_key(MODEL));
        let model = wanted.map(str::to_owned).or(configured);
        let model = match (model, own) {
            (Some(model), _) => Some(model),
            (None, Some(own)) if self.is_set((MODEL, &own)) => None,
            (None, Some(own)) => {
                let request = options::request(id, self.services.book.options(), (MODEL, &own));
                if request.is_err() {
                    self.keep_other_model(&own, turn).await;
                }
                request.ok().map(|_| own)
            }
            (None, None) => None,
        };
        let others = self.known.options.clone().into_iter();
        let others = others.filter(|(name, _)| name != MODEL);
        let model = model.map(|model| (MODEL.to_owned(), model));
        for (name, value) in model.into_iter().chain(others) {
            if !self.known.flags.contains_key(&name) {
                self.set_option(id, (&name, &value), turn).await?;
            }
        }
        self.is_unsure = false;
        self.tell_models(turn).await;
        Ok(())
    }

    fn is_set(&self, option: (&str, &str)) -> bool {
        !self.is_unsure && options::has(self.services.book.options(), option)
    }

    /// The agent does not list the model that it had by itself, so creel cannot return to it.
    async fn keep_other_model(&mut self, own: &str, turn: &mut AcpTurn<'_>) {
        let current = options::model(self.services.book.options());
        if let Some(running) = &mut self.running {
            running.own_model = None;
        }
        if let Some(current) = current {
            turn.warn(format!(
                "the agent does not list its own model {own}, so creel cannot return to it. It continues with {current}: \
                 choose a model with `model:` or `--model`"
            ))
            .await;
        }
    }

    async fn tell_models(&mut self, turn: &mut AcpTurn<'_>) {
        for note in self.services.book.models() {
            turn.updates.update(note).await;
        }
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
        if self.is_set((name, value)) {
            return Ok(());
        }
        let request = options::request(id, self.services.book.options(), (name, value));
        let request = request.map_err(failed)?;
        // Some answer with nothing, not with all options.
        let asked = UntypedMessage::new("session/set_config_option", &request)
            .map_err(|error| failed(error.to_string()))?;
        match self.request(asked, UpdateOrigin::Live, turn).await {
            Ok(answer) => {
                options::note_answer(self.services.book.options_mut(), &request, &answer);
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
            // permission or a declined question.
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
        self.first = None;
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
                own_model: running.own_model.take(),
                options: self.services.book.options_mut().take(),
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

/// The conversations of an agent, and what it can do with them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownConversations {
    pub can_resume: bool,
    pub can_fork: bool,
    /// None if the agent does not list all.
    pub listed: Option<Vec<ListedConversation>>,
    /// Why it cannot continue the wanted one.
    pub refused: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedConversation {
    pub id: String,
    pub title: Option<String>,
    /// When the agent last used it, as it says.
    pub updated: Option<String>,
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
        cancel: &CancellationToken,
    ) -> Result<AgentOffer, TurnFailure> {
        let mut agent = Self::only_asked(spec, place)?;
        let mut nobody = NoObserver;
        let mut turn = asked_turn(&mut nobody, cancel);
        let opened = match agent.start(agent.model_flag(None), &mut turn).await {
            Ok(()) => agent.begin(&mut turn).await,
            Err(stop) => Err(stop),
        };
        let offer = agent.running.as_ref().map(|running| {
            let info = running.hello.agent_info.as_ref();
            AgentOffer {
                program: info.map(|info| info.title.clone().unwrap_or_else(|| info.name.clone())),
                version: info.map(|info| info.version.clone()),
                can_resume: running.can_resume(),
                can_fork: running.can_fork(),
                options: options::offered(agent.services.book.options()),
            }
        });
        agent.bury().await;
        match opened {
            Ok(_) => Ok(offer.unwrap_or_default()),
            Err(stop) => Err(not_answered(stop)),
        }
    }

    /// Starts an agent, lists its conversations of the folder, and ends it. If the list does not
    /// have the wanted one, the agent tries to open it.
    pub async fn conversations(
        spec: &AgentSpec,
        place: AgentWorkspace,
        wanted: Option<&str>,
        cancel: &CancellationToken,
    ) -> Result<KnownConversations, TurnFailure> {
        let mut agent = Self::only_asked(spec, place)?;
        let mut nobody = NoObserver;
        let mut turn = asked_turn(&mut nobody, cancel);
        let known = agent.known_conversations(wanted, &mut turn).await;
        agent.bury().await;
        known.map_err(not_answered)
    }

    async fn known_conversations(
        &mut self,
        wanted: Option<&str>,
        turn: &mut AcpTurn<'_>,
    ) -> Result<KnownConversations, TurnAbortReason> {
        self.start(self.model_flag(None), turn).await?;
        let listed = self.list(turn).await?;
        let is_listed = |id: &str| listed.iter().flatten().any(|one| one.id == id);
        let refused = match wanted.filter(|id| !is_listed(id)) {
            Some(id) => {
                let wanted = ResumableConversation::chosen(id);
                self.take_up(&wanted, turn).await?.err()
            }
            None => None,
        };
        let running = self.running.as_ref();
        Ok(KnownConversations {
            can_resume: running.is_some_and(RunningAcpAgent::can_resume),
            can_fork: running.is_some_and(RunningAcpAgent::can_fork),
            listed,
            refused,
        })
    }

    /// All its conversations of the folder, or None if it does not list all.
    async fn list(
        &mut self,
        turn: &mut AcpTurn<'_>,
    ) -> Result<Option<Vec<ListedConversation>>, TurnAbortReason> {
        let can_list = |running: &RunningAcpAgent| {
            let can = &running.hello.agent_capabilities.session_capabilities;
            can.list.is_some()
        };
        if !self.running.as_ref().is_some_and(can_list) {
            return Ok(None);
        }
        let (mut listed, mut cursor) = (Vec::new(), None);
        for _ in 0..PAGES {
            let request = s::ListSessionsRequest::new()
                .cwd(self.place.cwd.clone())
                .cursor(cursor);
            let page = match self.request(request, UpdateOrigin::Live, turn).await {
                Ok(page) => page,
                Err(AcpRequestError::Answered(error)) if !is_hung_up(&error) => {
                    tracing::info!(
                        "the agent does not list its conversations: {}",
                        words(&error)
                    );
                    return Ok(None);
                }
                Err(broken) => {
                    return Err(self.fail(broken, "could not list its conversations").await);
                }
            };
            // Some list those of all folders.
            let here = page.sessions.into_iter();
            let here = here.filter(|one| is_same_folder(&one.cwd, &self.place.cwd));
            listed.extend(here.map(|one| ListedConversation {
                id: one.session_id.to_string(),
                title: one.title,
                updated: one.updated_at,
            }));
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(Some(listed));
            }
        }
        Ok(None)
    }

    /// An agent that gets no prompt.
    fn only_asked(spec: &AgentSpec, place: AgentWorkspace) -> Result<Self, TurnFailure> {
        let mut agent = Self::new(spec, place, AgentHistory::default())
            .map_err(|error| TurnFailure::new(error.to_string()))?;
        (agent.mode, agent.refusal) = (None, None);
        Ok(agent)
    }
}

fn asked_turn<'a>(updates: &'a mut NoObserver, cancel: &'a CancellationToken) -> AcpTurn<'a> {
    AcpTurn {
        updates,
        cancel,
        deadline: Instant::now().checked_add(PATIENCE),
        lost: false,
    }
}

fn not_answered(stop: TurnAbortReason) -> TurnFailure {
    match stop {
        TurnAbortReason::Failed(failure) => failure,
        TurnAbortReason::Cancelled => TurnFailure::new("interrupted"),
        TurnAbortReason::TooLate => TurnFailure::new(format!(
            "it did not answer within {}",
            TimeSpan::from(PATIENCE)
        )),
    }
}

fn is_same_folder(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    one == other || real(one) == real(other)
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
