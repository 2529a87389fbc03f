//! Reads the JSON reply of a hook, in the format of Claude Code and codemie hooks.
//!
//! Owns what counts as a reply. Does not decide what follows from one: see
//! `crate::engine::hooks::verdict`.
//!
//! # Invariants
//! - A JSON object with at least one key that creel knows is a reply. Everything else is ordinary
//!   output.
//! - No decision is lost: a reply that is too long or incomplete, or has an unknown decision, never
//!   counts as ordinary output, which would pass. It is unreadable, and the message says what is
//!   wrong and what is accepted.

use serde_json::{Map, Value};

use crate::{
    engine::{
        hooks::verdict::{HookDecision, HookReply},
        policy::PermissionPolicy,
    },
    process::{
        output::{ANSWER, ReplyText},
        reply_scan::{REPLY_KEYS, mended},
    },
};

/// Bytes of a wrong value that a message repeats.
const SHOWN: usize = 60;

/// The reply in a hook's output, if there is one.
pub fn parse(stdout: &ReplyText) -> Option<HookReply> {
    let text = match stdout {
        ReplyText::Whole(text) => text.trim(),
        ReplyText::TooLong { is_reply: true, .. } => {
            return Some(HookReply::unreadable(too_long()));
        }
        ReplyText::TooLong {
            beginning,
            is_reply: false,
        } => {
            let begins = beginning.trim_start().starts_with('{');
            return (begins && has_a_decision(beginning))
                .then(|| HookReply::unreadable(too_long()));
        }
    };
    if !text.starts_with('{') {
        return None;
    }
    let value = serde_json::from_str(text).or_else(|_| serde_json::from_str(&mended(text)));
    let Ok(Value::Object(answer)) = value else {
        return has_a_decision(text)
            .then(|| HookReply::unreadable("its JSON reply is not valid: print one JSON object"));
    };
    if !REPLY_KEYS.iter().any(|key| answer.contains_key(*key)) {
        return None;
    }
    Some(read(&answer).unwrap_or_else(|error| HookReply::unreadable(error.to_string())))
}

/// The reply, or what is wrong with it.
fn read(answer: &Map<String, Value>) -> Result<HookReply, ReplyError> {
    let specific = answer.get("hookSpecificOutput").and_then(Value::as_object);
    let decision = decision(answer.get("decision"))?;
    let stops = stops(answer.get("continue"))? || interrupts(specific);
    let reasons: &[&str] = if stops {
        &["stopReason", "reason"]
    } else {
        &["reason", "stopReason"]
    };
    Ok(HookReply {
        decision,
        reason: text_of(answer, reasons).or_else(|| permission_reason(specific?)),
        additional_context: text_of(answer, &["additionalContext", "additional_context"])
            .or_else(|| text_of(specific?, &["additionalContext", "additional_context"])),
        suppress_output: ["suppressOutput", "suppress_output"]
            .iter()
            .any(|key| answer.get(*key) == Some(&Value::Bool(true))),
        permission: permission(specific)?,
        stops,
        answer: question_answer(specific),
        system_message: text_of(answer, &["systemMessage"]),
        initial_message: specific.and_then(|it| text_of(it, &["initialUserMessage"])),
        ..HookReply::default()
    }
    .without_changes(specific))
}

impl HookReply {
    /// creel cannot change the arguments of a call. One that a hook allows only with others is the
    /// user's.
    fn without_changes(self, specific: Option<&Map<String, Value>>) -> Self {
        let of_request = specific.and_then(|specific| specific.get("decision"));
        let changes = |all: Option<&Value>| all.is_some_and(|input| !input.is_null());
        let is_changed = changes(specific.and_then(|it| it.get("updatedInput")))
            || changes(of_request.and_then(|it| it.get("updatedInput")));
        let denies = self.permission == Some(PermissionPolicy::Deny);
        if !is_changed || denies {
            return self;
        }
        let reason = "the hook changes the call's input, which creel cannot pass on";
        Self {
            permission: Some(PermissionPolicy::Ask),
            reason: Some(reason.to_owned()),
            ..self
        }
    }
}

fn too_long() -> String {
    format!(
        "its JSON reply is too long: creel reads at most {} KiB",
        ANSWER / 1024
    )
}

/// Whether invalid JSON was intended as a reply with a decision. Text that only begins with a brace
/// is harmless.
fn has_a_decision(text: &str) -> bool {
    let keys = [
        "\"decision\"",
        "\"continue\"",
        "\"permissionDecision\"",
        "\"behavior\"",
    ];
    keys.iter().any(|key| {
        text.match_indices(key)
            .any(|(at, _)| text[at + key.len()..].trim_start().starts_with(':'))
    })
}

fn decision(value: Option<&Value>) -> Result<Option<HookDecision>, ReplyError> {
    let known = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(word)) => match word.trim().to_ascii_lowercase().as_str() {
            "allow" => Some(HookDecision::Allow),
            "approve" => Some(HookDecision::Approve),
            "deny" => Some(HookDecision::Deny),
            "block" => Some(HookDecision::Block),
            _ => None,
        },
        Some(Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => None,
    };
    known
        .map(Some)
        .ok_or_else(|| wrong("decision", value, "allow, approve, deny or block"))
}

/// What a hook says about a request of the agent: `permissionDecision`, or the `behavior` of a
/// `PermissionRequest` hook.
fn permission(
    specific: Option<&Map<String, Value>>,
) -> Result<Option<PermissionPolicy>, ReplyError> {
    let Some(specific) = specific else {
        return Ok(None);
    };
    if let Some(action) = question_action(specific) {
        let content = specific.get("content");
        let fits = content.is_none_or(|content| content.is_object() || content.is_null());
        return match action.as_str() {
            Some("accept") if !fits => Err(wrong(
                "content",
                content,
                "an object with the fields of the answer",
            )),
            Some("accept") => Ok(Some(PermissionPolicy::Allow)),
            Some("decline" | "cancel") => Ok(Some(PermissionPolicy::Deny)),
            Some(_) | None => Err(wrong("action", Some(action), "accept, decline or cancel")),
        };
    }
    let answers = specific.get("action").and_then(Value::as_str);
    if matches!(answers, Some("accept" | "decline" | "cancel")) {
        let name = "hookEventName";
        let accepted = "Elicitation or ElicitationResult with an action";
        return Err(wrong(name, specific.get(name), accepted));
    }
    let of_request = specific.get("decision");
    let (key, value, accepted) = match of_request {
        Some(decision) => ("behavior", decision.get("behavior"), "allow or deny"),
        None => (
            "permissionDecision",
            specific.get("permissionDecision"),
            "allow, deny or ask",
        ),
    };
    match value {
        None | Some(Value::Null) if of_request.is_none() => Ok(None),
        Some(Value::String(word)) if word == "allow" => Ok(Some(PermissionPolicy::Allow)),
        Some(Value::String(word)) if word == "deny" => Ok(Some(PermissionPolicy::Deny)),
        Some(Value::String(word)) if matches!(word.as_str(), "ask" | "defer") => {
            Ok(Some(PermissionPolicy::Ask))
        }
        value => Err(wrong(key, value, accepted)),
    }
}

/// What a hook replies to a question of the agent.
fn question_action(specific: &Map<String, Value>) -> Option<&Value> {
    let event = specific.get("hookEventName").and_then(Value::as_str);
    let is_question = matches!(event, Some("Elicitation" | "ElicitationResult"));
    specific.get("action").filter(|_| is_question)
}

/// Its answer to the question, as a JSON object.
fn question_answer(specific: Option<&Map<String, Value>>) -> Option<String> {
    let specific = specific.filter(|it| question_action(it).is_some())?;
    let content = specific
        .get("content")
        .filter(|content| content.is_object());
    content.map(Value::to_string)
}

fn permission_reason(specific: &Map<String, Value>) -> Option<String> {
    text_of(specific, &["permissionDecisionReason"]).or_else(|| {
        let decision = specific.get("decision")?.as_object()?;
        text_of(decision, &["message"])
    })
}

/// Whether a `PermissionRequest` hook denies a call and ends the turn with it.
fn interrupts(specific: Option<&Map<String, Value>>) -> bool {
    let of_request = specific.and_then(|specific| specific.get("decision"));
    of_request.is_some_and(|decision| {
        decision.get("behavior") == Some(&Value::from("deny"))
            && decision.get("interrupt") == Some(&Value::Bool(true))
    })
}

fn stops(value: Option<&Value>) -> Result<bool, ReplyError> {
    match value {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(continues)) => Ok(!continues),
        Some(Value::String(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            Err(wrong("continue", value, "true or false"))
        }
    }
}

/// A field of a reply with a value that creel does not know.
#[derive(Debug, thiserror::Error)]
#[error("its JSON reply has {what}; use {accepted}")]
struct ReplyError {
    what: String,
    accepted: &'static str,
}

fn wrong(key: &'static str, value: Option<&Value>, accepted: &'static str) -> ReplyError {
    let Some(value) = value else {
        let what = format!("no {key}");
        return ReplyError { what, accepted };
    };
    let mut shown = value.to_string();
    if shown.len() > SHOWN {
        shown.truncate(shown.floor_char_boundary(SHOWN));
        shown.push('…');
    }
    let what = format!("the {key} {shown}, which creel does not know");
    ReplyError { what, accepted }
}

/// The first of these keys with text that is not blank.
fn text_of(object: &Map<String, Value>, keys: &[&str]) -> Option<String> {
    keys.iter().find_map(|key| {
        object
            .get(*key)?
            .as_str()
            .filter(|s| !s.trim().is_empty())
            .map(str::to_owned)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<HookReply> {
        super::parse(&ReplyText::Whole(text.into()))
    }

    #[test]
    fn an_answer_is_read_in_both_spellings() {
        let full = HookReply {
            decision: Some(HookDecision::Block),
            reason: Some("red".into()),
            additional_context: Some("see log".into()),
            suppress_output: true,
            ..HookReply::default()
        };
        let camel = r#" {"decision":"block","reason":"red","additionalContext":"see log","suppressOutput":true} "#;
        let snake = r#"{"decision":"Block","reason":"red","additional_context":"see log","suppress_output":true}"#;
        let nested = r#"{"decision":"block","reason":"red","hookSpecificOutput":{"additionalContext":"see log"},"suppressOutput":true}"#;
        for text in [camel, snake, nested] {
            assert_eq!(parse(text).as_ref(), Some(&full), "{text}");
        }
    }

    #[test]
    fn a_hook_can_stop_the_session_whatever_it_decided() {
        let reply =
            parse(r#"{"continue":false,"stopReason":"enough","decision":"block","reason":"red"}"#);
        let stops = HookReply {
            stops: true,
            decision: Some(HookDecision::Block),
            reason: Some("enough".into()),
            ..HookReply::default()
        };
        assert_eq!(reply, Some(stops));
        assert_eq!(parse(r#"{"continue":true}"#), Some(HookReply::default()));
    }

    #[test]
    fn half_a_character_does_not_cost_the_decision() {
        let reply = parse(r#"{"decision":"block","reason":"cut \ud83d"}"#).expect("an answer");
        assert_eq!(
            (reply.decision, reply.reason.as_deref()),
            (Some(HookDecision::Block), Some("cut \u{fffd}"))
        );
    }

    #[test]
    fn a_reply_that_is_too_long_or_incomplete_is_unreadable() {
        let long = |beginning: &str, is_reply| ReplyText::TooLong {
            beginning: beginning.into(),
            is_reply,
        };
        let too_long = Some(HookReply::unreadable(
            "its JSON reply is too long: creel reads at most 1024 KiB",
        ));
        assert_eq!(
            super::parse(&long(r#"{"reason": "very lo"#, true)),
            too_long
        );
        assert_eq!(
            super::parse(&long(
                r#"{{"decision" : "block", "reason": "very lo"#,
                false
            )),
            too_long
        );
        assert_eq!(super::parse(&long("{ very long", false)), None);
        for cut_off in [
            r#"{"decision":"block","reason":"x"#,
            r#"{"continue":false,"#,
        ] {
            let invalid =
                HookReply::unreadable("its JSON reply is not valid: print one JSON object");
            assert_eq!(parse(cut_off), Some(invalid), "{cut_off}");
        }
        assert_eq!(parse("{\"level\":1}\n{\"level\":2}"), None);
    }

    #[test]
    fn a_decision_that_creel_does_not_know_is_unreadable() {
        for (value, shown) in [
            ("\"blocked\"", "\"blocked\""),
            ("\"\"", "\"\""),
            ("1", "1"),
            ("[true]", "[true]"),
        ] {
            let problem = format!(
                "its JSON reply has the decision {shown}, which creel does not know; use allow, approve, deny or block"
            );
            assert_eq!(
                parse(&format!("{{\"decision\":{value}}}")),
                Some(HookReply::unreadable(problem))
            );
        }
        let problem = "its JSON reply has the continue \"false\", which creel does not know; use true or false";
        assert_eq!(
            parse(r#"{"continue":"false"}"#),
            Some(HookReply::unreadable(problem))
        );
    }

    #[test]
    fn an_answer_to_a_question_that_creel_cannot_use_says_why() {
        for (output, problem) in [
            (
                r#"{"hookEventName":"Elicitation","action":"accept","content":"pg"}"#,
                "the content \"pg\", which creel does not know; use an object with the fields of the answer",
            ),
            (
                r#"{"hookEventName":"Elicitation","action":"yes"}"#,
                "the action \"yes\", which creel does not know; use accept, decline or cancel",
            ),
            (
                r#"{"action":"accept","content":{}}"#,
                "no hookEventName; use Elicitation or ElicitationResult with an action",
            ),
        ] {
            let unreadable = HookReply::unreadable(format!("its JSON reply has {problem}"));
            let text = format!("{{\"hookSpecificOutput\":{output}}}");
            assert_eq!(parse(&text), Some(unreadable), "{text}");
        }
    }

    #[test]
    fn output_that_is_no_reply_is_ordinary_output() {
        for text in ["", "ok", "[1]", "{\"passed\": 3}", "{\"reason\": \"x\"} ok"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
