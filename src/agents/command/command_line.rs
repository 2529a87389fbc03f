//! A command line, and how it receives the prompt.
//!
//! # Invariants
//! - The prompt and the conversation id are data: standard input or one argument, never part of the
//!   command text.

use std::collections::BTreeMap;

use crate::{
    agents::{AgentError, TurnRequest, mcp_tools::ToolOptions},
    engine::{conversation::TurnFailure, hooks::template},
    process::{environment::VARIABLE_MAX, pty},
};

/// The placeholder for the prompt.
const PROMPT: &str = "prompt";
/// The placeholder for the agent's id of the conversation.
const CONVERSATION: &str = "conversation";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TurnPosition {
    First,
    Later,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StandardStreams {
    Pipes,
    Terminal,
}

#[derive(Debug, Clone)]
pub(super) struct CommandLine {
    /// As written in the config.
    pub(super) written: String,
    /// For the shell.
    pub(super) expanded: String,
    /// Whether it needs the conversation's id.
    pub(super) needs_conversation: bool,
    prompt_as: PromptPassing,
    /// Whether it uses the prompt's variable, through the placeholder or directly.
    needs_prompt: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PromptPassing {
    StandardInput,
    Argument,
}

impl CommandLine {
    pub(super) fn new(written: &str, place: TurnPosition) -> Result<Self, AgentError> {
        let names: &[&str] = match place {
            TurnPosition::First => &[PROMPT, "session"],
            TurnPosition::Later => &[PROMPT, "session", CONVERSATION],
        };
        let placeholders = template::placeholders(written);
        if let Some(unknown) = placeholders
            .iter()
            .find(|p| !names.contains(&p.name.as_str()))
        {
            return Err(AgentError::UnknownName {
                name: unknown.name.clone(),
            });
        }
        let names = |name: &str| placeholders.iter().any(|p| p.name == name);
        Ok(Self {
            written: written.to_owned(),
            expanded: template::expand(written)?,
            needs_conversation: names(CONVERSATION),
            prompt_as: if names(PROMPT) {
                PromptPassing::Argument
            } else {
                PromptPassing::StandardInput
            },
            needs_prompt: names(PROMPT) || written.contains(&template::variable(PROMPT)),
        })
    }

    /// Adds the options that pass the session's tools. Messages still show the command as written.
    pub(super) fn with_tools(self, tools: Option<&ToolOptions>) -> Result<Self, AgentError> {
        let Some(tools) = tools else { return Ok(self) };
        Ok(Self {
            expanded: tools.added_to(&self.written)?,
            ..self
        })
    }

    /// Adds the variables that the command line uses.
    pub(super) fn fill_in(
        &self,
        env: &mut BTreeMap<String, String>,
        prompt: &str,
        conversation: Option<&str>,
    ) -> Result<(), TurnFailure> {
        if self.needs_prompt {
            if prompt.len() > VARIABLE_MAX {
                return Err(TurnFailure::new(format!(
                    "the prompt is too long for an argument ({} B; the limit is {VARIABLE_MAX} B). Remove \
                     {{{{prompt}}}} from the agent's command, so that the agent reads the prompt from standard input",
                    prompt.len()
                )));
            }
            env.insert(template::variable(PROMPT), prompt.to_owned());
        }
        if let Some(conversation) = conversation.filter(|_| self.needs_conversation) {
            env.insert(template::variable(CONVERSATION), conversation.to_owned());
        }
        Ok(())
    }

    /// The standard input of the command.
    pub(super) fn input(
        &self,
        request: &TurnRequest,
        streams: StandardStreams,
    ) -> Result<Vec<u8>, TurnFailure> {
        match (self.prompt_as, streams) {
            (PromptPassing::Argument, _) => Ok(Vec::new()),
            (PromptPassing::StandardInput, StandardStreams::Pipes) => Ok(request.text.clone().into_bytes()),
            (PromptPassing::StandardInput, StandardStreams::Terminal) => pty::typed(&request.text).ok_or_else(|| {
                TurnFailure::new(format!(
                    "a line of the prompt is longer than {} B, the limit of a terminal. Add {{{{prompt}}}} to the \
                     agent's command, or remove `tty: true`",
                    pty::LINE_MAX
                ))
            }),
        }
    }
}
