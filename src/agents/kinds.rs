//! Which kind of agent a spec describes.

use crate::{
    agents::{
        Agent, AgentError, AgentHistory, AgentWorkspace, SelfDrivenAgent, acp::AcpAgent,
        command::CommandAgent, scripted::ScriptedAgent,
    },
    engine::policy::AgentSpec,
};

pub fn start(
    spec: &AgentSpec,
    place: AgentWorkspace,
    past: AgentHistory<'_>,
) -> Result<Box<dyn Agent>, AgentError> {
    match spec {
        AgentSpec::Acp { .. } => Ok(Box::new(AcpAgent::new(spec, place, past)?)),
        AgentSpec::Command { .. } => Ok(Box::new(CommandAgent::new(spec, place, past)?)),
        AgentSpec::Scripted { script } => Ok(Box::new(
            ScriptedAgent::new(script, place, past.prompts).map_err(AgentError::Script)?,
        )),
        AgentSpec::Outside => Ok(Box::new(SelfDrivenAgent)),
    }
}
