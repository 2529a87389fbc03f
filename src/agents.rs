//! Agents: who answers the prompts.
//!
//! Owns the one way in which the runtime talks to any agent, and which kinds there are. Does not decide what is sent
//! or what an answer means: see [`crate::engine`].
//!
//! # Invariants
//! - A turn that was cancelled ends as `Cancelled`, is not a failure, and has left nothing running.
//! - What an agent says is bounded in memory, however much it is.

use std::{collections::BTreeMap, path::PathBuf, pin::Pin, sync::Arc, time::Duration};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::{
    engine::{
        conversation::{
            AgentUpdate, ConversationMode, PermissionAnswer, PermissionOption, PermissionSource, StopReason, ToolCall,
            TurnEnd, TurnFailure,
        },
        hooks::template::TemplateError,
        ids::TurnId,
        policy::AgentSpec,
        session::budget::ConversationUsage,
        time::TimeSpan,
    },
    process::{environment::project, path_guard::PathGuard, run::ProcessGroup},
};

pub mod acp;
pub mod command;
mod error_pattern;
mod failure;
mod mcp_tools;
pub mod scripted;
mod self_driven;
mod tool_limits;
mod usage_limit;

/// A future that can be behind `dyn`.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// One prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnRequest {
    /// The ticket.
    pub turn: TurnId,
    /// What to send.
    pub text: String,
    /// Whether the agent starts anew.
    pub conversation: ConversationMode,
    /// How long the turn may take; zero: as long as it likes.
    pub timeout: TimeSpan,
}

/// Somebody who answers prompts.
pub trait Agent: Send {
    /// Sends a prompt and waits for the end. A cancelled turn ends as [`StopReason::Cancelled`].
    fn turn<'a>(
        &'a mut self,
        request: TurnRequest,
        updates: &'a mut dyn AgentObserver,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<TurnEnd, TurnFailure>>;

    /// Ends what the agent keeps running between turns.
    fn shutdown(&mut self) -> BoxFuture<'_, ()>;
}

/// Hears what an agent does while it does it.
pub trait AgentObserver: Send {
    /// It did something. May wait, and the agent with it.
    fn update(&mut self, update: AgentUpdate) -> BoxFuture<'_, ()>;
    /// It wants leave to do something.
    fn permission(&mut self, request: PermissionRequest) -> BoxFuture<'_, ()>;
    /// It started a process, which may have to be ended later.
    fn process(&mut self, group: ProcessGroup);
}

/// What an agent wants leave for.
#[derive(Debug)]
pub struct PermissionRequest {
    /// What it wants to do.
    pub tool: ToolCall,
    /// The answers that it offers.
    pub options: Vec<PermissionOption>,
    /// What it is about.
    pub source: PermissionSource,
    /// Whether creel kept only a part of its title or its input.
    pub shortened: bool,
    /// Where the answer goes; it is dropped, if the turn is over before there is one.
    pub answer: oneshot::Sender<PermissionAnswer>,
}

impl PermissionRequest {
    /// A request for something that the agent does itself.
    pub fn of_agent(tool: ToolCall, options: Vec<PermissionOption>, answer: oneshot::Sender<PermissionAnswer>) -> Self {
        Self { tool, options, source: PermissionSource::Agent, shortened: false, answer }
    }
}

/// Where an agent works.
#[derive(Debug, Clone)]
pub struct AgentWorkspace {
    /// The project's folder.
    pub cwd: PathBuf,
    /// The session's name.
    pub session: String,
    /// The session's folder; long answers go into `outputs` inside it.
    pub session_dir: PathBuf,
    /// What the session's processes are marked with. Each turn adds its number.
    pub mark: String,
    /// Guards the files that creel never writes for an agent.
    pub guard: Arc<PathGuard>,
    /// What the session is for.
    pub goal: String,
    /// This program, for agents that start its tools.
    pub creel: Option<PathBuf>,
}

impl AgentWorkspace {
    /// A prompt for an agent that lost the conversation which the prompt goes on with: it has to be told the goal again.
    fn with_goal(&self, text: &str) -> String {
        if self.goal.is_empty() || text.contains(&self.goal) {
            text.to_owned()
        } else {
            format!("{}\n\n{text}", self.goal)
        }
    }
}

/// Why an agent cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The pattern for errors in disguise is wrong.
    #[error("the agent's `error_pattern` cannot be used: {0}")]
    Pattern(#[source] regex::Error),
    /// A name stands where it cannot be filled in.
    #[error("the agent's command cannot be used: {0}")]
    Template(#[from] TemplateError),
    /// A name that agents are not told.
    #[error(
        "the agent's command has the unknown name `{{{{{name}}}}}`: there are {{{{prompt}}}} and {{{{session}}}}, and \
         {{{{conversation}}}} in `continue_command`"
    )]
    UnknownName {
        /// The name.
        name: String,
    },
    /// The script is wrong.
    #[error("the agent's script cannot be used: {0}")]
    Script(String),
}

/// What an agent did in this session before creel was started.
#[derive(Debug, Clone, Copy, Default)]
pub struct AgentHistory<'a> {
    /// The prompts that it answered, oldest first.
    pub prompts: &'a [String],
    /// Its own name for the conversation that it was in.
    pub conversation: Option<&'a str>,
    /// What that conversation had used.
    pub tally: ConversationUsage,
}

/// Makes the agent ready.
pub fn start(spec: &AgentSpec, place: AgentWorkspace, past: AgentHistory<'_>) -> Result<Box<dyn Agent>, AgentError> {
    match spec {
        AgentSpec::Acp { .. } => Ok(Box::new(acp::AcpAgent::new(spec, place, past)?)),
        AgentSpec::Command { .. } => Ok(Box::new(command::CommandAgent::new(spec, place, past.conversation)?)),
        AgentSpec::Scripted { script } => {
            Ok(Box::new(scripted::ScriptedAgent::new(script, place, past.prompts).map_err(AgentError::Script)?))
        }
        AgentSpec::Outside => Ok(Box::new(self_driven::SelfDrivenAgent)),
    }
}

/// What every process of an agent is told. A map, so that a name is there once.
fn environment(place: &AgentWorkspace) -> BTreeMap<String, String> {
    let session = ("CREEL_SESSION".to_owned(), place.session.clone());
    [session].into_iter().chain(project(&place.session_dir)).collect()
}

fn limit(timeout: TimeSpan) -> Option<Duration> {
    (!timeout.is_zero()).then(|| timeout.into())
}

fn cancelled() -> TurnEnd {
    TurnEnd::new(StopReason::Cancelled)
}

fn too_late(timeout: TimeSpan) -> TurnFailure {
    TurnFailure::new(format!(
        "the agent did not end its turn within {timeout} (turn_timeout) and was stopped: raise turn_timeout, or give it \
         less to do at once"
    ))
}
