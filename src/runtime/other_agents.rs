//! The agents beside the session's own: those that work while it cannot, and gatekeepers.

use std::collections::BTreeMap;

use crate::{
    agents::{self, Agent, AgentHistory, AgentWorkspace},
    engine::{
        budget::ConversationUsage,
        policy::{self, EnvPlan, FallbackAgent},
    },
    runtime::perform::SendError,
};

pub(super) struct FallbackAgents {
    pub(super) known: Vec<FallbackAgent>,
    pub(super) env: EnvPlan,
    pub(super) place: AgentWorkspace,
    /// The prompts that each answered before this process started, by name.
    pub(super) past: BTreeMap<String, Vec<String>>,
    /// The fallback that worked when this process started, its id for the conversation, and what
    /// that conversation had used.
    pub(super) working: Option<(String, Option<String>, ConversationUsage)>,
}

impl FallbackAgents {
    pub(super) fn start(&self, name: &str) -> Result<Box<dyn Agent>, SendError> {
        let Some((number, agent)) = (1..).zip(&self.known).find(|(_, agent)| agent.name == name)
        else {
            return Err(SendError::NoFallback(name.to_owned()));
        };
        // creel finds the processes that an agent left running by its mark, so each agent needs a
        // mark of its own.
        let place = AgentWorkspace {
            mark: format!("{}/fallback-{number}", self.place.mark),
            variables: self.env.variables(&agent.spec),
            ..self.place.clone()
        };
        let prompts = self.past.get(name).map_or(&[][..], Vec::as_slice);
        let working = self
            .working
            .as_ref()
            .filter(|(working, ..)| working == name);
        let past = AgentHistory {
            prompts,
            conversation: working.and_then(|(_, conversation, _)| conversation.as_deref()),
            tally: working.map(|(.., tally)| *tally).unwrap_or_default(),
            first: None,
        };
        Ok(agents::kinds::start(&agent.spec, place, past)?)
    }
}

pub(super) struct GatekeeperAgents {
    /// By the names that hooks use for them.
    pub(super) known: BTreeMap<String, policy::Gatekeeper>,
    pub(super) env: EnvPlan,
    pub(super) place: AgentWorkspace,
    /// The prompts that each answered before this process started, by name.
    pub(super) past: BTreeMap<String, Vec<String>>,
}

impl GatekeeperAgents {
    pub(super) fn start(&self, name: &str) -> Result<Box<dyn Agent>, SendError> {
        let Some(gatekeeper) = self.known.get(name) else {
            return Err(SendError::NoGatekeeper(name.to_owned()));
        };
        // creel finds the processes that an agent left running by its mark, so each agent needs a
        // mark of its own.
        let number = self
            .known
            .keys()
            .position(|known| known == name)
            .unwrap_or_default();
        let place = AgentWorkspace {
            mark: format!("{}/review-{number}", self.place.mark),
            variables: self.env.variables(&gatekeeper.spec),
            ..self.place.clone()
        };
        let prompts = self.past.get(name).map_or(&[][..], Vec::as_slice);
        let past = AgentHistory {
            prompts,
            ..AgentHistory::default()
        };
        Ok(agents::kinds::start(&gatekeeper.spec, place, past)?)
    }
}
