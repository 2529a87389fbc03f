//! Translates the JSON lines of known agents.
//!
//! Owns what all formats share: the list of formats, parsing a line, and the end of a stream. Each
//! format has a file of its own.
//!
//! # Invariants
//! - The shape of an agent's output never fails a turn: unknown lines are skipped, and lines that
//!   are not JSON are text.

use serde_json::Value;

use crate::{
    engine::{
        conversation::{StopReason, TurnUsage},
        policy::OutputFormat,
    },
    process::reply_scan::mended,
};

mod claude;
mod codex;
mod gemini;
mod opencode;
mod tools;
mod translated_output;

pub(super) use crate::agents::command::translate::translated_output::TranslatedOutput;

/// Translates the lines of one turn.
pub(super) trait StreamTranslator: Send {
    /// Returns None if the line has an unknown kind or shape.
    fn line(&mut self, line: &Value, told: &mut TranslatedOutput) -> Option<()>;
    fn end(self: Box<Self>) -> StreamEnd;
}

/// The translator of a format, or None for plain text. `before` is the usage of this conversation
/// before the turn, if known.
pub(super) fn translator(
    format: OutputFormat,
    before: Option<ReportedUsage>,
) -> Option<Box<dyn StreamTranslator>> {
    match format {
        OutputFormat::Text => None,
        OutputFormat::Claude => Some(Box::new(claude::ClaudeTranslator::new(before))),
        OutputFormat::Codex => Some(Box::new(codex::CodexTranslator::new(before))),
        OutputFormat::Gemini => Some(Box::<gemini::GeminiTranslator>::default()),
        OutputFormat::Opencode => Some(Box::<opencode::OpencodeTranslator>::default()),
    }
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

#[cfg(test)]
mod tests;
