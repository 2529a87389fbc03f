//! What an agent offers, and which conversations it has: questions to an agent that gets no prompt.
//!
//! Owns its start for that, and its end. Each question has a time limit.

use std::{path::Path, time::Duration};

use agent_client_protocol::v1::schema as s;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    AcpAgent, AcpTurn, ResumableConversation, RunningAcpAgent, TurnAbortReason,
    exchange::{AcpRequestError, UpdateOrigin, is_hung_up, words},
    options::{self, OfferedOption},
};
use crate::{
    agents::{AgentHistory, AgentObserver, AgentWorkspace, BoxFuture, PermissionRequest},
    engine::{
        conversation::{AgentUpdate, TurnFailure},
        policy::AgentSpec,
        time::TimeSpan,
    },
    process::run::ProcessGroup,
};

/// How long an agent gets to start and to answer a question of the user.
const PATIENCE: Duration = Duration::from_mins(1);
/// How many pages of its conversations creel reads.
const PAGES: usize = 50;

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
                self.take_up(&wanted, turn)
                    .await?
                    .err()
                    .map(|why| why.to_string())
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
