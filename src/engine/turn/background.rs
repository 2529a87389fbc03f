//! What an agent has to know that does not continue a conversation: the goal, what happened, and
//! how to report the end (the completion note).
//!
//! # Invariants
//! - A prompt that begins a new conversation contains the goal and ends with the completion note,
//!   whatever its reason.
//! - The background contains no promise, so an agent that repeats its own last words makes the
//!   promise again.
//! - The note is at the end of a prompt, at most once, and once in each conversation.
//! - A goal that mentions promises itself needs no note.
//! - An agent that repeats the note promises nothing: the tags in it are inline code.

use crate::{
    engine::{
        conversation::ConversationMode,
        creel_tools::TOOLS,
        event::PromptReason,
        policy::{AgentFacts, AgentSpec, CompletionInstructions},
        stop::context::Promise,
        turn::prompt::PromptRules,
        usage_limit::AgentChoice,
    },
    text::{shortened, some_names},
};

/// How many characters of each of the agent's last two lines the summary contains.
const WORDS_SHOWN: usize = 200;

/// How many files the summary names.
const FILES: usize = 20;

impl PromptRules<'_> {
    /// Completes a prompt for the session's agent. Iteration prompts contain the goal and the note
    /// anyway.
    pub(super) fn with_background(self, reason: PromptReason, text: String) -> String {
        let is_complete = matches!(reason, PromptReason::Iteration | PromptReason::Gatekeeper);
        let takes_over = self.0.limits.handed_over.is_some();
        if is_complete || !(takes_over || self.0.agent_choice().forgets()) {
            return text;
        }
        // The handover precedes the prompt and contains the goal and a summary.
        let background = (!takes_over).then(|| self.background(&text)).flatten();
        let text = [Some(text), background]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join("\n\n");
        // A session that only submits or merges has no end to report.
        if self.0.began.only_pipeline.is_some() {
            text
        } else {
            self.with_note(text)
        }
    }

    /// Adds the completion note, unless the text has one.
    pub(super) fn with_note(self, text: String) -> String {
        match self.0.agent_choice().completion_note(ConversationMode::New) {
            // The notes of two agents differ only after the first paragraph.
            Some(note) if !text.contains(note.split("\n\n").next().unwrap_or(&note)) => {
                format!("{text}\n\n{note}")
            }
            Some(_) | None => text,
        }
    }

    fn background(self, text: &str) -> Option<String> {
        let goal = Some(self.0.began.prompt.trim())
            .filter(|goal| !goal.is_empty() && !has_paragraph(text, goal));
        let goal = goal.map(|goal| format!("The goal of the whole work:\n{goal}"));
        let facts: Vec<String> = self
            .facts(text)
            .into_iter()
            .flatten()
            .map(|fact| format!("\n- {fact}"))
            .collect();
        let facts = (!facts.is_empty()).then(|| {
            format!(
                "You start a new conversation. What happened so far:{}",
                facts.concat()
            )
        });
        [goal, facts]
            .into_iter()
            .flatten()
            .reduce(|goal, facts| format!("{goal}\n\n{facts}"))
    }

    fn facts(self, text: &str) -> [Option<String>; 4] {
        let iteration = self.0.iterations.current;
        let number = (iteration > 0).then(|| format!("This is iteration {iteration}."));
        let last_line = last_words(self.0.limits.last_message())
            .map(|words| format!("You said at the end: {words}"));
        let files = &self.0.iterations.files;
        let files = (!files.is_empty())
            .then(|| format!("This iteration changed: {}", some_names(files, FILES)));
        let failed = self
            .0
            .retry
            .last_usual
            .as_deref()
            .and_then(|feedback| failed_checks(feedback, text));
        [
            number,
            last_line,
            files,
            failed.map(|failed| format!("The last feedback was: {failed}")),
        ]
    }
}

/// Whether a text contains this paragraph.
fn has_paragraph(text: &str, paragraph: &str) -> bool {
    text.contains(&format!("\n\n{paragraph}\n\n"))
}

/// The last two lines of a message, without promises.
fn last_words(message: &str) -> Option<String> {
    let plain = Promise::ALL
        .iter()
        .fold(message.to_owned(), |text, promise| {
            text.replace(&promise.tag(), "")
        });
    let mut lines: Vec<String> = plain
        .lines()
        .rev()
        .map(str::trim)
        .filter(|line| line.contains(char::is_alphanumeric))
        .take(2)
        .map(|line| shortened(line, WORDS_SHOWN))
        .collect();
    lines.reverse();
    (!lines.is_empty()).then(|| lines.join(" "))
}

/// The lines of a feedback that say which checks failed, unless the text has them.
fn failed_checks(feedback: &str, text: &str) -> Option<String> {
    let lines = feedback
        .lines()
        .map(|line| line.strip_prefix("[Hook feedback]: ").unwrap_or(line));
    let failed: Vec<&str> = lines
        .filter(|line| line.starts_with("check `") && !text.contains(line))
        .collect();
    (!failed.is_empty()).then(|| failed.join("; "))
}

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
