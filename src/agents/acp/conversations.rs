//! The conversations of an agent: opened, continued, resumed and copied, and set to the mode, the
//! model and the options that the config or the turn asks for.
//!
//! # Invariants
//! - Updates that an agent replays when it resumes a conversation are not forwarded again.
//! - An agent that lost the conversation of a turn gets the goal with the next prompt. One that the
//!   user chose is never replaced by another.

use std::time::Duration;

use agent_client_protocol::{
    UntypedMessage,
    v1::schema::{self as s, SessionId},
};

use super::{
    AcpAgent, AcpTurn, ResumableConversation, RunningAcpAgent, TurnAbortReason,
    exchange::{self, AcpExchange, AcpRequestError, UpdateOrigin, is_hung_up, words},
    options,
    translate::AcpConversation,
};
use crate::{
    agents::{
        mcp_tools::{self, ToolServer},
        native_hooks::NativeHooks,
    },
    engine::{
        conversation::{AgentUpdate, ConversationMode, FirstConversation, TurnFailure},
        policy::MODEL,
    },
};

/// Why the agent does not continue a conversation, as a clause for the user.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConversationRefusal {
    #[error("the agent has exited")]
    Exited,
    #[error("creel restarted the agent")]
    Restarted,
    #[error("the agent cannot copy conversations")]
    CannotCopy,
    #[error("the agent could not copy the conversation {id} ({why})")]
    NotCopied { id: String, why: String },
    #[error("the agent cannot resume conversations")]
    CannotResume,
    #[error("the agent could not resume the conversation {id} ({why})")]
    NotResumed { id: SessionId, why: String },
}

/// How long an agent must be silent after it resumed a conversation: some replay it only after
/// their response.
const REPLAYED: Duration = Duration::from_millis(700);
/// How long a replay can last at most.
const REPLAY_MAX: Duration = Duration::from_secs(20);

impl AcpAgent {
    /// The conversation of this turn: new, continued or resumed.
    pub(super) async fn converse(
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
            None => Err(ConversationRefusal::Restarted),
        };
        match (resumed, self.first.clone()) {
            (Ok(conversation), _) => Ok(conversation),
            (Err(_), Some(first)) => self.begin_with(&first, turn).await,
            (Err(why), None) => {
                turn.lose(&why.to_string()).await;
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
    ) -> Result<Result<SessionId, ConversationRefusal>, TurnAbortReason> {
        let running = self.running.as_ref();
        if !running.is_some_and(RunningAcpAgent::can_fork) {
            return Ok(Err(ConversationRefusal::CannotCopy));
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
            Err(AcpRequestError::Answered(error)) if !is_hung_up(&error) => {
                Ok(Err(ConversationRefusal::NotCopied {
                    id: id.to_owned(),
                    why: words(&error),
                }))
            }
            Err(broken) => Err(self.fail(broken, "could not copy the conversation").await),
        }
    }

    /// Opens a new conversation in the project's folder.
    pub(super) async fn begin(
        &mut self,
        turn: &mut AcpTurn<'_>,
    ) -> Result<SessionId, TurnAbortReason> {
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

    /// Resumes a conversation, or returns why the agent could not.
    pub(super) async fn take_up(
        &mut self,
        left: &ResumableConversation,
        turn: &mut AcpTurn<'_>,
    ) -> Result<Result<SessionId, ConversationRefusal>, TurnAbortReason> {
        let Some(running) = &self.running else {
            return Ok(Err(ConversationRefusal::Exited));
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
            return Ok(Err(ConversationRefusal::CannotResume));
        };
        match answered {
            Ok(options) => {
                self.is_unsure = options.is_none() && self.services.book.options().is_empty();
                let options = options.or_else(|| left.options.clone());
                self.opened(&id, options, left.own_model.clone(), turn)
                    .await?;
                Ok(Ok(id))
            }
            Err(AcpRequestError::Answered(error)) => Ok(Err(ConversationRefusal::NotResumed {
                id,
                why: words(&error),
            })),
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
}

impl AcpAgent {
    /// Sets the turn's model, or returns to the agent's own. Then sets the other options: which
    /// ones there are can depend on the model.
    pub(super) async fn set_options(
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

    pub(super) async fn tell_models(&mut self, turn: &mut AcpTurn<'_>) {
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
        let request = request.map_err(|error| failed(error.to_string()))?;
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

    /// Sets the mode from the config. In a different mode the agent could do what the user does not
    /// want, so a failure here fails the turn.
    pub(super) async fn set_mode(
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
                Err(TurnAbortReason::Failed(exchange::wrong_mode(&mode, &error)))
            }
            Err(broken) => Err(self.fail(broken, "could not change its mode").await),
        }
    }
}
