//! The agents that review. Each starts when it is first needed.

use std::collections::BTreeMap;

use crate::{
    agents::{self, Agent, AgentHistory, AgentWorkspace},
    engine::policy,
    runtime::perform::SendError,
};

pub(super) struct GatekeeperAgents {
    /// By the names that hooks use for them.
    pub(super) known: BTreeMap<String, policy::Gatekeeper>,
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
            ..self.place.clone()
        };
        let prompts = self.past.get(name).map_or(&[][..], Vec::as_slice);
        let past = AgentHistory {
            prompts,
            ..AgentHistory::default()
        };
        Ok(agents::start(&gatekeeper.spec, place, past)?)
    }
}
