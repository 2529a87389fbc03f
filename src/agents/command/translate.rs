//! Translates the JSON lines of known agents.
//!
//! Owns what all formats share: the list of formats, parsing a line, how messages are separated,
//! which tool calls are open, and the end of a stream. Each format has a file of its own.
//!
//! # Invariants
//! - The shape of an agent's output never fails a turn: unknown lines are skipped, and lines that
//!   are not JSON are text.
//! - Text is forwarded unchanged, except that a message without a final newline gets one.
//! - A tool call begins before it ends, whatever the stream omits.

pub(super) mod claude;
pub(super) mod codex;
pub(super) mod gemini;
#[cfg(test)]
mod tests;
mod tools;

use std::{collections::HashMap, mem};

use serde_json::Value;

use crate::{
    agents::{INPUT_MAX, LONG_MAX, NOTE_MAX, OUTPUT_MAX, limited},
    engine::{
        conversation::{
            AgentUpdate, ContextUsage, PlanEntry, StopReason, TokenKinds, ToolCall, ToolStatus,
            TurnUsage,
        },
        ids::TurnId,
        policy::{MODEL, OutputFormat},
    },
    process::reply_scan::mended,
};

/// Translates the lines of one turn.
pub(super) trait StreamTranslator: Send {
    /// Returns None if the line has an unknown kind or shape.
    fn line(&mut self, line: &Value, updates: &mut TranslatedOutput) -> Option<()>;
    fn end(self: Box<Self>) -> StreamEnd;
}

/// The arguments that make a program print this format.
pub(super) const fn arguments(format: OutputFormat) -> &'static str {
    match format {
        OutputFormat::Text => "",
        OutputFormat::Claude => "--output-format stream-json --verbose",
        OutputFormat::Codex => "--json",
        OutputFormat::Gemini => "--output-format stream-json",
        OutputFormat::Opencode => "--format json",
    }
}

/// The usage that a program reported for a conversation so far. Some continue the count when a
/// conversation is resumed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct ReportedUsage {
    pub(super) tokens: u64,
    pub(super) cost: f64,
    /// The tokens by kind, if these are all of them.
    pub(super) kinds: TokenKinds,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct StreamEnd {
    pub(super) verdict: StreamOutcome,
    /// The last error in the stream, even if the agent recovered.
    pub(super) complaint: Option<String>,
    pub(super) spent: TurnUsage,
    pub(super) tally: Option<ReportedUsage>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum StreamOutcome {
    /// The stream ended without a result.
    #[default]
    Unsaid,
    Ended(StopReason),
    /// With the error message.
    Failed(String),
}

pub(super) fn parse(line: &str) -> Option<Value> {
    let value = serde_json::from_str(line).or_else(|_| serde_json::from_str(&mended(line)));
    value.ok().filter(Value::is_object)
}

fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer)?.as_str()
}

/// A missing number counts as zero.
fn number(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
}

/// Cannot overflow on a wrong number.
fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}

fn list<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    value
        .pointer(pointer)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

/// How many calls can be open at once. For further ones, the end is reported without the details of
/// the start.
const OPEN_MAX: usize = 256;
/// How many steps a plan, or files a call, can have.
const LIST_MAX: usize = 100;
/// In bytes.
const PATH_MAX: usize = 4 * 1024;
/// In bytes.
const NAME_MAX: usize = 200;

/// The updates since the last [`TranslatedOutput::take`].
#[derive(Debug)]
pub(in crate::agents::command) struct TranslatedOutput {
    turn: TurnId,
    updates: Vec<AgentUpdate>,
    open: HashMap<String, ToolCall>,
    conversation: Option<String>,
    hopeless: Option<String>,
    has_text: bool,
    has_calls: bool,
    at_line_start: bool,
}

#[derive(Debug)]
pub(super) struct ToolCallEnd {
    pub(super) status: ToolStatus,
    pub(super) output: Option<String>,
    pub(super) diff: Option<String>,
}

impl TranslatedOutput {
    /// `conversation` is the agent's id for it, if known.
    pub(in crate::agents::command) fn new(turn: TurnId, conversation: Option<String>) -> Self {
        Self {
            turn,
            updates: Vec::new(),
            open: HashMap::new(),
            conversation,
            hopeless: None,
            has_text: false,
            has_calls: false,
            at_line_start: true,
        }
    }

    pub(in crate::agents::command) fn take(&mut self) -> Vec<AgentUpdate> {
        mem::take(&mut self.updates)
    }

    /// Why the agent must be stopped, if it must.
    pub(in crate::agents::command) fn hopeless(&self) -> Option<&str> {
        self.hopeless.as_deref()
    }

    /// Whether the agent said something, or used a tool.
    pub(in crate::agents::command) fn has_answer(&self) -> bool {
        self.has_text || self.has_calls
    }

    pub(in crate::agents::command) fn conversation(self) -> Option<String> {
        self.conversation
    }

    /// A line that is not JSON, as text.
    pub(in crate::agents::command) fn plain_line(&mut self, line: &str) {
        self.end_message();
        self.say(&format!("{line}\n"));
    }

    /// A chunk of text.
    pub(super) fn say(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.has_text = true;
        self.at_line_start = text.ends_with('\n');
        self.updates.push(AgentUpdate::Message(text.to_owned()));
    }

    /// A whole message.
    pub(super) fn message(&mut self, text: &str) {
        self.end_message();
        self.say(text);
        self.end_message();
    }

    /// A warning from the agent itself.
    pub(super) fn quote(&mut self, words: &str) {
        self.warn(&format!("warning from the agent: {words}"));
    }

    /// The next text is a new message.
    pub(super) fn end_message(&mut self) {
        if !self.at_line_start {
            self.say("\n");
        }
    }

    pub(super) fn has_text(&self) -> bool {
        self.has_text
    }

    pub(super) fn think(&mut self, text: &str) {
        if !text.is_empty() {
            self.updates
                .push(AgentUpdate::Thought(limited(text, LONG_MAX)));
        }
    }

    /// A tool call began. Text after it is a new message.
    pub(super) fn began(&mut self, call: ToolCall) {
        self.end_message();
        self.has_calls = true;
        let call = self.in_turn(call);
        self.updates.push(AgentUpdate::ToolCalled(call.clone()));
        if self.open.len() < OPEN_MAX {
            self.open.insert(call.call.clone(), call);
        }
    }

    /// A tool call ended. `id` is from its start.
    pub(super) fn ended(&mut self, id: &str, ending: ToolCallEnd) {
        let unknown = || ToolCall {
            call: id.to_owned(),
            title: "a tool".into(),
            ..ToolCall::default()
        };
        if !self.open.contains_key(&self.name(id)) {
            self.began(unknown());
        }
        let call = self
            .open
            .remove(&self.name(id))
            .unwrap_or_else(|| self.in_turn(unknown()));
        let ended = ToolCall {
            status: ending.status,
            output: ending
                .output
                .filter(|text| !text.is_empty())
                .map(|text| limited(&text, OUTPUT_MAX)),
            diff: ending
                .diff
                .map(|text| limited(&text, LONG_MAX))
                .or(call.diff),
            ..call
        };
        self.updates.push(AgentUpdate::ToolUpdated(ended));
    }

    /// A tool call of which the stream contains only the end.
    pub(super) fn happened(&mut self, call: ToolCall, ending: ToolCallEnd) {
        let id = call.call.clone();
        self.began(call);
        self.ended(&id, ending);
    }

    pub(super) fn is_open(&self, id: &str) -> bool {
        self.open.contains_key(&self.name(id))
    }

    pub(super) fn planned(&mut self, plan: impl IntoIterator<Item = PlanEntry>) {
        let short = |entry: PlanEntry| PlanEntry {
            content: limited(&entry.content, NOTE_MAX),
            ..entry
        };
        self.updates.push(AgentUpdate::Planned(
            plan.into_iter().take(LIST_MAX).map(short).collect(),
        ));
    }

    pub(super) fn used(&mut self, context: ContextUsage) {
        self.updates.push(AgentUpdate::Used(context));
    }

    /// The model that the agent uses.
    pub(super) fn model(&mut self, name: Option<&str>) {
        if let Some(name) = name.filter(|name| !name.is_empty() && name.len() <= NAME_MAX) {
            self.note(MODEL, name);
        }
    }

    /// A note about the agent's own state.
    pub(super) fn note(&mut self, what: &str, text: &str) {
        self.updates.push(AgentUpdate::Noted {
            what: what.to_owned(),
            text: limited(text, NOTE_MAX),
        });
    }

    pub(super) fn warn(&mut self, text: &str) {
        self.updates
            .push(AgentUpdate::Warned(limited(text, NOTE_MAX)));
    }

    /// Sets the agent's id for the conversation. The id becomes an argument of a later command, so
    /// it must not look like an option.
    pub(super) fn opened(&mut self, name: &str) {
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
        if name.len() > NAME_MAX
            || !name.starts_with(|c: char| c.is_ascii_alphanumeric())
            || !name.chars().all(is_name)
        {
            tracing::debug!(
                name,
                "creel cannot use the conversation id that the agent reported"
            );
        } else if self.conversation.as_deref() != Some(name) {
            self.conversation = Some(name.to_owned());
            self.updates.push(AgentUpdate::Opened(name.to_owned()));
        }
    }

    /// The agent will never end by itself.
    pub(super) fn give_up(&mut self, why: &str) {
        self.hopeless.get_or_insert_with(|| why.to_owned());
    }

    /// Call ids are unique in the session, although some programs count from zero in every turn.
    fn name(&self, id: &str) -> String {
        format!("turn-{}/{id}", self.turn)
    }

    fn in_turn(&self, call: ToolCall) -> ToolCall {
        ToolCall {
            call: self.name(&call.call),
            title: limited(&call.title, NOTE_MAX),
            status: ToolStatus::InProgress,
            locations: call
                .locations
                .into_iter()
                .filter(|at| at.path.len() <= PATH_MAX)
                .take(LIST_MAX)
                .collect(),
            input: call.input.map(|text| limited(&text, INPUT_MAX)),
            diff: call.diff.map(|text| limited(&text, LONG_MAX)),
            ..call
        }
    }
}
