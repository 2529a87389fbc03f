//! The agents that work while the session's own agent may not.

use std::collections::BTreeMap;

use crate::{
    agents::{self, Agent, AgentHistory, AgentWorkspace},
    engine::{policy::FallbackAgent, session::budget::ConversationUsage},
};

/// The agents that can take over.
pub(super) struct FallbackAgents {
    /// How to run them.
    pub(super) known: Vec<FallbackAgent>,
    /// Where they work.
    pub(super) place: AgentWorkspace,
    /// The prompts that they answered before creel was started, by their names.
    pub(super) past: BTreeMap<String, Vec<String>>,
    /// The one that worked when creel was started, with its own name of the conversation and what that had used.
    pub(super) working: Option<(String, Option<String>, ConversationUsage)>,
}

impl FallbackAgents {
    /// Starts one, or says why it cannot be done.
    pub(super) fn start(&self, name: &str) -> Result<Box<dyn Agent>, String> {
        let Some((number, agent)) = (1..).zip(&self.known).find(|(_, agent)| agent.name == name) else {
            return Err(format!("there is no fallback agent `{name}`"));
        };
        // What one of them leaves running is found by its mark, and that must not meet another agent.
        let place = AgentWorkspace { mark: format!("{}/fallback-{number}", self.place.mark), ..self.place.clone() };
        let prompts = self.past.get(name).map_or(&[][..], Vec::as_slice);
        let working = self.working.as_ref().filter(|(working, ..)| working == name);
        let past = AgentHistory {
            prompts,
            conversation: working.and_then(|(_, conversation, _)| conversation.as_deref()),
            tally: working.map(|(.., tally)| *tally).unwrap_or_default(),
        };
        agents::start(&agent.spec, place, past).map_err(|error| error.to_string())
    }
}
