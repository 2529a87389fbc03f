//! A listener for an agent that records what it hears.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use creel::{
    agents::{Agent, AgentObserver, AgentWorkspace, BoxFuture, PermissionRequest, TurnRequest},
    engine::{
        conversation::{
            AgentUpdate, ConversationMode, PermissionAnswer, PermissionOption, PermissionSource,
            StopReason, ToolCall, TurnEnd, TurnFailure,
        },
        ids::TurnId,
        time::TimeSpan,
    },
    process::run::ProcessGroup,
};
use tokio_util::sync::CancellationToken;

use super::fresh_mark;

/// Records what it heard; clones share the record.
#[derive(Clone, Default)]
pub(crate) struct TurnRecorder(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    updates: Vec<AgentUpdate>,
    groups: Vec<ProcessGroup>,
    asked: Vec<(ToolCall, Vec<PermissionOption>)>,
    /// The id of the option to choose. None: requests stay unanswered.
    answer: Option<String>,
    unanswered: Vec<PermissionRequest>,
}

impl TurnRecorder {
    /// A listener that answers every permission request with this option.
    pub(crate) fn answering(option: &str) -> Self {
        let recorder = Self::default();
        recorder.with(|seen| seen.answer = Some(option.to_owned()));
        recorder
    }

    fn with<T>(&self, look: impl FnOnce(&mut Seen) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn text(&self) -> String {
        let text_of = |update: &AgentUpdate| {
            if let AgentUpdate::Message(text) = update {
                Some(text.clone())
            } else {
                None
            }
        };
        self.with(|seen| seen.updates.iter().filter_map(text_of).collect())
    }

    pub(crate) fn warned(&self) -> Vec<String> {
        let warned = |update: &AgentUpdate| {
            if let AgentUpdate::Warned(text) = update {
                Some(text.clone())
            } else {
                None
            }
        };
        self.with(|seen| seen.updates.iter().filter_map(warned).collect())
    }

    pub(crate) fn all(&self) -> Vec<AgentUpdate> {
        self.with(|seen| seen.updates.clone())
    }

    /// The last state of each tool call, in the order in which they began.
    pub(crate) fn calls(&self) -> Vec<ToolCall> {
        let mut calls: Vec<ToolCall> = Vec::new();
        for update in self.all() {
            if let AgentUpdate::ToolCalled(call) | AgentUpdate::ToolUpdated(call) = update {
                match calls.iter_mut().find(|known| known.call == call.call) {
                    Some(known) => *known = call,
                    None => calls.push(call),
                }
            }
        }
        calls
    }

    pub(crate) fn groups(&self) -> usize {
        self.with(|seen| seen.groups.len())
    }

    /// Chooses this option for all unanswered requests.
    pub(crate) fn answer(&self, option: &str) {
        for request in self.with(|seen| std::mem::take(&mut seen.unanswered)) {
            let _ = request
                .answer
                .send(PermissionAnswer::Selected(option.to_owned()));
        }
    }

    pub(crate) fn asked(&self) -> Vec<(ToolCall, Vec<PermissionOption>)> {
        self.with(|seen| seen.asked.clone())
    }
}

impl AgentObserver for TurnRecorder {
    fn update(&mut self, update: AgentUpdate) -> BoxFuture<'_, ()> {
        self.with(|seen| seen.updates.push(update));
        Box::pin(std::future::ready(()))
    }

    fn permission(&mut self, request: PermissionRequest) -> BoxFuture<'_, ()> {
        // The engine decides what creel serves; here it is allowed.
        if request.source == PermissionSource::Service {
            let _ = request
                .answer
                .send(PermissionAnswer::Selected("allow_once".to_owned()));
            return Box::pin(std::future::ready(()));
        }
        self.with(|seen| {
            seen.asked
                .push((request.tool.clone(), request.options.clone()));
            match seen.answer.clone() {
                Some(option) => drop(request.answer.send(PermissionAnswer::Selected(option))),
                None => seen.unanswered.push(request),
            }
        });
        Box::pin(std::future::ready(()))
    }

    fn process(&mut self, group: ProcessGroup) {
        self.with(|seen| seen.groups.push(group));
    }
}

/// Where an agent works in a test.
pub(crate) fn place(dir: &Path) -> AgentWorkspace {
    AgentWorkspace {
        cwd: dir.into(),
        session: "s-1".into(),
        session_dir: dir.join("session"),
        mark: fresh_mark(),
        guard: Arc::default(),
        goal: "GOAL".into(),
        creel: None,
        variables: None,
        has_tool_hooks: false,
        prices: None,
    }
}

/// A first prompt.
pub(crate) fn request(text: &str) -> TurnRequest {
    TurnRequest {
        turn: TurnId(3),
        text: text.into(),
        conversation: ConversationMode::New,
        model: None,
        timeout: TimeSpan::secs(60),
    }
}

/// A later prompt of the same conversation.
pub(crate) fn again(text: &str) -> TurnRequest {
    TurnRequest {
        conversation: ConversationMode::Same,
        ..request(text)
    }
}

pub(crate) async fn turn(
    agent: &mut dyn Agent,
    request: TurnRequest,
) -> (Result<TurnEnd, TurnFailure>, TurnRecorder) {
    let mut recorder = TurnRecorder::default();
    let end = agent
        .turn(request, &mut recorder, &CancellationToken::new())
        .await;
    (end, recorder)
}

pub(crate) const fn ended(stop_reason: StopReason) -> TurnEnd {
    TurnEnd::new(stop_reason)
}

pub(crate) async fn failure(agent: &mut dyn Agent, request: TurnRequest) -> String {
    turn(agent, request).await.0.expect_err("a failure").message
}
