//! Which kind of agent a spec describes.

use crate::{
    agents::{
        Agent, AgentError, AgentHistory, AgentWorkspace, SelfDrivenAgent, acp::AcpAgent,
        command::CommandAgent, prices::PricedAgent, scripted::ScriptedAgent,
    },
    engine::policy::{AgentSpec, MODEL},
};

pub fn start(
    spec: &AgentSpec,
    place: AgentWorkspace,
    past: AgentHistory<'_>,
) -> Result<Box<dyn Agent>, AgentError> {
    let prices = place.prices.clone();
    let agent: Box<dyn Agent> = match spec {
        AgentSpec::Acp { .. } => Box::new(AcpAgent::new(spec, place, past)?),
        AgentSpec::Command { .. } => Box::new(CommandAgent::new(spec, place, past)?),
        AgentSpec::Scripted { script } => {
            Box::new(ScriptedAgent::new(script, place, past.prompts).map_err(AgentError::Script)?)
        }
        AgentSpec::Outside => Box::new(SelfDrivenAgent),
    };
    let options = spec.facts().map(|known| &known.options);
    let model = options.and_then(|options| options.get(MODEL)).cloned();
    Ok(Box::new(PricedAgent::new(agent, prices, model)))
}
