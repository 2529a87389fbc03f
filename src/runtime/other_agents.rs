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
    /// The fallback that worked when this process started.
    pub(super) working: Option<WorkingFallback>,
}

pub(super) struct WorkingFallback {
    pub(super) name: String,
    /// Its id for the conversation.
    pub(super) conversation: Option<String>,
    /// What that conversation had used.
    pub(super) tally: ConversationUsage,
    /// The model that it had in it before creel chose one.
    pub(super) own_model: Option<String>,
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
        let working = self.working.as_ref().filter(|working| working.name == name);
        let past = AgentHistory {
            prompts,
            conversation: working.and_then(|working| working.conversation.as_deref()),
            tally: working.map(|working| working.tally).unwrap_or_default(),
            own_model: working.and_then(|working| working.own_model.as_deref()),
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
