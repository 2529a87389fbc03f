//! The session's tools, as an agent is told of them: how to start creel's MCP server.

use serde::Serialize;

use super::AgentPlace;
use crate::engine::policy::AgentFacts;

/// What agents call the server.
pub(super) const NAME: &str = "creel";
/// Where an agent that is one process a turn finds it.
pub(super) const VARIABLE: &str = "CREEL_MCP";

/// A program that serves the session's tools on its standard streams.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct ToolServer {
    pub(super) command: String,
    pub(super) args: [String; 3],
}

impl ToolServer {
    /// The server for an agent; none, if the config does not want it.
    pub(super) fn of(place: &AgentPlace, known: &AgentFacts) -> Option<Self> {
        let wanted = known.mcp.unwrap_or(true);
        let command = place.creel.as_ref().filter(|_| wanted)?.to_str()?.to_owned();
        // The session is named: what starts the server may not pass our variables on.
        Some(Self { command, args: ["mcp".into(), "--session".into(), place.session.clone()] })
    }

    /// As a line of JSON.
    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("texts are JSON")
    }
}
