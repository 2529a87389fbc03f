//! The completion note: instructions for the agent on how to report the end of its work.
//!
//! # Invariants
//! - The note is at the end of a prompt, at most once, and once in each conversation.
//! - A goal that mentions promises itself needs no note.
//! - An agent that repeats the note promises nothing: the tags in it are inline code.

use crate::engine::{
    conversation::ConversationMode,
    creel_tools::TOOLS,
    policy::{AgentFacts, AgentSpec, CompletionInstructions},
    usage_limit::AgentChoice,
};

/// Prompts of queued tasks end with it, too.
pub const COMPLETION_NOTE: &str = include_str!("../../../assets/prompts/completion.md");

/// A goal with this text contains its own completion instructions.
const MENTIONS_PROMISES: &str = "<promise>";

impl<'a> AgentChoice<'a> {
    /// The note for a prompt. None if it is not needed.
    pub(crate) fn completion_note(self, conversation: ConversationMode) -> Option<String> {
        let is_known = conversation == ConversationMode::Same;
        let text = match &self.plan.instructions {
            _ if is_known => return None,
            CompletionInstructions::None => return None,
            CompletionInstructions::Auto if self.began.prompt.contains(MENTIONS_PROMISES) => {
                return None;
            }
            CompletionInstructions::Auto => COMPLETION_NOTE,
            CompletionInstructions::Text(text) => text,
        };
        let tools = self
            .agent_facts()
            .filter(|facts| facts.lists_tools())
            .map(|_| tool_list());
        let parts = [Some(text.trim_end().to_owned()), tools]
            .into_iter()
            .flatten()
            .filter(|part| !part.is_empty());
        Some(parts.collect::<Vec<_>>().join("\n\n")).filter(|text| !text.is_empty())
    }

    pub(crate) fn agent_facts(self) -> Option<&'a AgentFacts> {
        self.agent_spec()?.facts()
    }

    /// Whether each prompt begins a new conversation, because the agent that works cannot continue
    /// one.
    pub(crate) fn forgets(self) -> bool {
        self.agent_spec().is_some_and(AgentSpec::forgets)
    }

    fn agent_spec(self) -> Option<&'a AgentSpec> {
        let plan = self.plan;
        match &self.limits.stand_in {
            None => Some(&plan.agent_spec),
            Some(name) => plan
                .limits
                .fallback
                .iter()
                .find(|agent| agent.name == *name)
                .map(|agent| &agent.spec),
        }
    }
}

/// Some agents hide tools behind a search, so their models have to know the names.
fn tool_list() -> String {
    let names = TOOLS.map(|tool| format!("`{}`", tool.name)).join(", ");
    format!(
        "You have these tools of the MCP server `creel`; if you do not see them, search for them by name: {names}."
    )
}
