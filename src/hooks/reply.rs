//! Reads the JSON that a hook may answer with: the format of Claude Code and codemie hooks.
//!
//! Owns what counts as an answer. Does not decide what follows from one: see `crate::engine::hooks::verdict`.
//!
//! # Invariants
//! - Text is an answer as a whole or not at all: a JSON object, with at least one key that we know, and with no
//!   decision that we do not know. Everything else is ordinary output, which somebody gets to read; to half believe
//!   an answer would hide the other half.
//! - A decision does not get lost: what begins like an answer and speaks of one, but cannot be read, is told as such.

use serde_json::{Map, Value};

use super::{json::mended, output::Answer};
use crate::engine::hooks::verdict::{Decision, Reply};

/// The keys that make an object an answer.
const KNOWN: &[&str] = &[
    "decision",
    "reason",
    "additionalContext",
    "additional_context",
    "hookSpecificOutput",
    "suppressOutput",
    "suppress_output",
    "continue",
    "stopReason",
];

/// The answer in what a hook printed, if it is one. `continue: false` is no decision of its own (in Claude Code it
/// ends the agent, not the check), but its `stopReason` is kept as the reason.
pub fn parse(stdout: &Answer) -> Option<Reply> {
    let text = match stdout {
        Answer::Whole(text) | Answer::Beginning(text) => text.trim(),
    };
    if !text.starts_with('{') {
        return None;
    }
    let value = match stdout {
        Answer::Whole(_) => serde_json::from_str(text).or_else(|_| serde_json::from_str(&mended(text))).ok(),
        Answer::Beginning(_) => None,
    };
    let Some(Value::Object(answer)) = value else { return speaks_of_a_decision(text).then(Reply::unreadable) };
    if !KNOWN.iter().any(|key| answer.contains_key(*key)) {
        return None;
    }
    let specific = answer.get("hookSpecificOutput").and_then(Value::as_object);
    Some(Reply {
        decision: decision(answer.get("decision")).ok()?,
        reason: text_of(&answer, &["reason", "stopReason"]),
        additional_context: text_of(&answer, &["additionalContext", "additional_context"])
            .or_else(|| text_of(specific?, &["additionalContext", "additional_context"])),
        suppress_output: ["suppressOutput", "suppress_output"]
            .iter()
            .any(|key| answer.get(*key) == Some(&Value::Bool(true))),
        unreadable: false,
    })
}

/// Whether a text was meant as an answer that decides. Text that only begins with a brace is harmless.
fn speaks_of_a_decision(text: &str) -> bool {
    const KEY: &str = "\"decision\"";
    text.match_indices(KEY).any(|(at, _)| text[at + KEY.len()..].trim_start().starts_with(':'))
}

/// A decision that is not one of ours.
struct Unknown;

fn decision(value: Option<&Value>) -> Result<Option<Decision>, Unknown> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(word)) => match word.trim().to_ascii_lowercase().as_str() {
            "allow" => Ok(Some(Decision::Allow)),
            "approve" => Ok(Some(Decision::Approve)),
            "deny" => Ok(Some(Decision::Deny)),
            "block" => Ok(Some(Decision::Block)),
            _ => Err(Unknown),
        },
        Some(Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => Err(Unknown),
    }
}

/// The first of these that is text and says something.
fn text_of(object: &Map<String, Value>, keys: &[&str]) -> Option<String> {
    keys.iter().find_map(|key| object.get(*key)?.as_str().filter(|s| !s.trim().is_empty()).map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<Reply> {
        super::parse(&Answer::Whole(text.into()))
    }

    #[test]
    fn an_answer_is_read_in_both_spellings() {
        let full = Reply {
            decision: Some(Decision::Block),
            reason: Some("red".into()),
            additional_context: Some("see log".into()),
            suppress_output: true,
            unreadable: false,
        };
        let camel = r#" {"decision":"block","reason":"red","additionalContext":"see log","suppressOutput":true} "#;
        let snake = r#"{"decision":"Block","reason":"red","additional_context":"see log","suppress_output":true}"#;
        let nested = r#"{"decision":"block","reason":"red","hookSpecificOutput":{"additionalContext":"see log"},"suppressOutput":true}"#;
        for text in [camel, snake, nested] {
            assert_eq!(parse(text).as_ref(), Some(&full), "{text}");
        }
    }

    #[test]
    fn the_reason_to_stop_is_a_reason_and_no_decision() {
        let reply = parse(r#"{"continue":false,"stopReason":"enough"}"#).expect("an answer");
        assert_eq!((reply.decision, reply.reason.as_deref()), (None, Some("enough")));
    }

    #[test]
    fn half_a_character_does_not_cost_the_decision() {
        let reply = parse(r#"{"decision":"block","reason":"cut \ud83d"}"#).expect("an answer");
        assert_eq!((reply.decision, reply.reason.as_deref()), (Some(Decision::Block), Some("cut \u{fffd}")));
    }

    #[test]
    fn a_decision_that_cannot_be_read_is_told() {
        let long = Answer::Beginning(r#"{"decision" : "block", "reason": "very long"#.into());
        assert_eq!(super::parse(&long), Some(Reply::unreadable()));
        assert_eq!(super::parse(&Answer::Beginning("{ very long".into())), None);
        assert_eq!(parse(r#"{"decision":"block","reason":"x"#), Some(Reply::unreadable()));
        assert_eq!(parse("{\"level\":1}\n{\"level\":2}"), None);
    }

    #[test]
    fn what_is_no_answer_is_ordinary_output() {
        for text in [
            "",
            "ok",
            "[1]",
            "{\"passed\": 3}",
            "{\"decision\": \"maybe\"}",
            "{\"decision\": 1}",
            "{\"reason\": \"x\"} ok",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
