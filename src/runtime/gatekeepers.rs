//! The agents that review: each is made ready when it is first asked.

use std::collections::BTreeMap;

use crate::{
    agents::{self, Agent, AgentHistory, AgentWorkspace},
    engine::policy,
};

/// Who can be asked for a review.
pub(super) struct GatekeeperAgents {
    /// How to run them, by the names that hooks call them by.
    pub(super) known: BTreeMap<String, policy::Gatekeeper>,
    /// Where they work.
    pub(super) place: AgentWorkspace,
    /// The prompts that they answered before creel was started.
    pub(super) past: BTreeMap<String, Vec<String>>,
}

impl GatekeeperAgents {
    /// Makes one ready, or says why it cannot be done.
    pub(super) fn start(&self, name: &str) -> Result<Box<dyn Agent>, String> {
        let Some(gatekeeper) = self.known.get(name) else {
            return Err(format!("there is no agent `{name}`"));
        };
        // What one of them leaves behind is swept by its mark, and that must not meet anybody else.
        let number = self.known.keys().position(|known| known == name).unwrap_or_default();
        let place = AgentWorkspace { mark: format!("{}/review-{number}", self.place.mark), ..self.place.clone() };
        let prompts = self.past.get(name).map_or(&[][..], Vec::as_slice);
        let past = AgentHistory { prompts, ..AgentHistory::default() };
        agents::start(&gatekeeper.spec, place, past).map_err(|error| error.to_string())
    }
}
