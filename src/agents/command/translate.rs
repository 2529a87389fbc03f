//! The JSON lines of known agents, and what they mean.
//!
//! Owns what all formats share: which there are, how a line is read, and what the end of a stream says. Does not know
//! any format itself: each has a file of its own.
//!
//! # Invariants
//! - Nothing that an agent prints fails a turn by its shape: what is not understood is left out, and what is no JSON is
//!   text.

use serde_json::Value;

use crate::{
    engine::{
        conversation::{StopReason, TurnUsage},
        policy::OutputFormat,
    },
    process::json_repair::mended,
};

mod claude;
mod codex;
mod gemini;
mod opencode;
mod tools;
mod translated_output;

pub(super) use crate::agents::command::translate::translated_output::TranslatedOutput;

/// Understands the lines of one turn.
pub(super) trait StreamTranslator: Send {
    /// Tells what a line means; nothing, if it has a kind or a shape that is not known.
    fn line(&mut self, line: &Value, told: &mut TranslatedOutput) -> Option<()>;
    /// There are no more lines.
    fn end(self: Box<Self>) -> StreamEnd;
}

/// Who understands this format, if it is one of JSON lines. `before` is what was counted in this conversation before the
/// turn, where that is known.
pub(super) fn translator(format: OutputFormat, before: Option<ReportedUsage>) -> Option<Box<dyn StreamTranslator>> {
    match format {
        OutputFormat::Text => None,
        OutputFormat::Claude => Some(Box::new(claude::ClaudeTranslator::new(before))),
        OutputFormat::Codex => Some(Box::new(codex::CodexTranslator::new(before))),
        OutputFormat::Gemini => Some(Box::<gemini::GeminiTranslator>::default()),
        OutputFormat::Opencode => Some(Box::<opencode::OpencodeTranslator>::default()),
    }
}

/// The arguments with which a program prints a format.
pub(super) const fn arguments(format: OutputFormat) -> &'static str {
    match format {
        OutputFormat::Text => "",
        OutputFormat::Claude => "--output-format stream-json --verbose",
        OutputFormat::Codex => "--json",
        OutputFormat::Gemini => "--output-format stream-json",
        OutputFormat::Opencode => "--format json",
    }
}

/// What a program counted in a conversation so far. Some count on when a conversation is taken up again.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct ReportedUsage {
    pub(super) tokens: u64,
    pub(super) cost: f64,
}

/// What a stream says when it is over.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct StreamEnd {
    pub(super) verdict: StreamOutcome,
    /// The last error that it told, whatever became of it.
    pub(super) complaint: Option<String>,
    pub(super) spent: TurnUsage,
    pub(super) tally: Option<ReportedUsage>,
}

/// How the turn ended, as the stream says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum StreamOutcome {
    /// It broke off.
    #[default]
    Unsaid,
    /// By itself.
    Ended(StopReason),
    /// With an error, in these words.
    Failed(String),
}

/// The object in a line.
pub(super) fn parse(line: &str) -> Option<Value> {
    let value = serde_json::from_str(line).or_else(|_| serde_json::from_str(&mended(line)));
    value.ok().filter(Value::is_object)
}

/// The text at this place.
fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer)?.as_str()
}

/// The number at this place; none is as good as zero in a sum.
fn number(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
}

/// A sum that a wrong number cannot break.
fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}

/// The list at this place.
fn list<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    value.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests;
