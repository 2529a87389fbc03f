//! A stand-in for an agent that the user runs by hand. That agent drives itself and reaches the
//! session through its tools.

use tokio_util::sync::CancellationToken;

use super::{Agent, AgentObserver, BoxFuture, TurnRequest};
use crate::engine::conversation::{TurnEnd, TurnFailure};

/// Never receives a prompt: the engine sends none to a self-driven agent.
#[derive(Debug)]
pub struct SelfDrivenAgent;

impl Agent for SelfDrivenAgent {
    fn turn<'a>(
        &'a mut self,
        _request: TurnRequest,
        _updates: &'a mut dyn AgentObserver,
        _cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<TurnEnd, TurnFailure>> {
        let why = "the agent of this session drives itself: creel sends it no prompts, only the results of its tool calls";
        Box::pin(async move { Err(TurnFailure::new(why)) })
    }

    fn shutdown(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}
