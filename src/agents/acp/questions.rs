//! Questions of an agent to the user (`elicitation/create`): the form in creel's terms, and the
//! answer in the agent's.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use agent_client_protocol::v1::{Responder, schema as s};
use serde::Deserialize as _;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::{
    agents::{AgentObserver, LONG_MAX, NOTE_MAX, PendingAnswer, PermissionRequest, limited},
    engine::{
        conversation::{AgentUpdate, PermissionAnswer, PermissionSource, ToolCall},
        question::{AgentQuestion, FieldKind, FieldOption, QuestionField, UNATTENDED},
    },
};

/// Bytes of a form in a record.
const FORM_MAX: usize = 4 * LONG_MAX;
/// What agents call the field for your own words beside a field with options.
const OTHER: &str = "_custom";

/// The kinds of questions that creel can ask.
pub(super) fn capabilities() -> s::ElicitationCapabilities {
    s::ElicitationCapabilities::new()
        .form(s::ElicitationFormCapabilities::new())
        .url(s::ElicitationUrlCapabilities::new())
}

/// Asks the user, and passes the answer on. The agent's other messages continue meanwhile.
pub(super) async fn ask(
    request: s::CreateElicitationRequest,
    responder: Responder<s::CreateElicitationResponse>,
    updates: &mut dyn AgentObserver,
    (refused, stop): (Arc<AtomicBool>, &CancellationToken),
) {
    let Some(question) = question(&request) else {
        let message = limited(&request.message, NOTE_MAX);
        let text = format!("creel declined a question of a kind that it does not know: {message}");
        updates.update(AgentUpdate::Warned(text)).await;
        refused.store(true, Ordering::Relaxed);
        let _ = responder.respond(response(PermissionAnswer::Declined { unattended: false }));
        return;
    };
    let tool = ToolCall {
        call: call_of(request.scope()),
        title: question.message.clone(),
        ..ToolCall::default()
    };
    let answer = PendingAnswer::ask(updates, stop, |answer| PermissionRequest {
        tool,
        options: Vec::new(),
        source: PermissionSource::Question(Box::new(question)),
        shortened: false,
        whole: None,
        answer,
    });
    let answer = answer.await;
    tokio::spawn(async move {
        let answer = answer.wait().await;
        let is_declined = matches!(answer, PermissionAnswer::Declined { .. });
        refused.fetch_or(is_declined, Ordering::Relaxed);
        // An agent that is gone needs no answer.
        let _ = responder.respond(response(answer));
    });
}

fn response(answer: PermissionAnswer) -> s::CreateElicitationResponse {
    let content = |text: &str| {
        let fields: Map<String, Value> = serde_json::from_str(text)?;
        let fields = fields.into_iter().map(|(name, value)| {
            s::ElicitationContentValue::deserialize(value).map(|value| (name, value))
        });
        fields.collect::<Result<BTreeMap<_, _>, _>>()
    };
    match answer {
        PermissionAnswer::Selected(text) => match content(&text) {
            Ok(content) => {
                let accepted = s::ElicitationAcceptAction::new().content(content);
                s::CreateElicitationResponse::new(s::ElicitationAction::Accept(accepted))
            }
            // Part of an answer would be another answer.
            Err(error) => {
                tracing::error!("creel could not pass an answer on: {error}");
                s::CreateElicitationResponse::new(s::ElicitationAction::Cancel)
            }
        },
        PermissionAnswer::Declined { unattended } => {
            let reason =
                unattended.then(|| Map::from_iter([("creel".to_owned(), Value::from(UNATTENDED))]));
            s::CreateElicitationResponse::new(s::ElicitationAction::Decline).meta(reason)
        }
        PermissionAnswer::Refused(_)
        | PermissionAnswer::Undecided
        | PermissionAnswer::Cancelled => {
            s::CreateElicitationResponse::new(s::ElicitationAction::Cancel)
        }
    }
}

fn call_of(scope: &s::ElicitationScope) -> String {
    let scope = serde_json::to_value(scope).unwrap_or_default();
    scope["toolCallId"].as_str().unwrap_or_default().to_owned()
}

/// The question in creel's terms. None if creel cannot ask it.
fn question(request: &s::CreateElicitationRequest) -> Option<AgentQuestion> {
    let mode = serde_json::to_value(&request.mode).ok()?;
    let message = limited(&request.message, LONG_MAX);
    match mode["mode"].as_str()? {
        "url" => Some(AgentQuestion {
            message,
            fields: Vec::new(),
            url: Some(whole(mode["url"].as_str()?)?),
        }),
        "form" => Some(AgentQuestion {
            message,
            fields: fields(&mode["requestedSchema"])?,
            url: None,
        }),
        _ => None,
    }
}

/// A text that must not be shortened, such as an address. None if it is too long.
fn whole(text: &str) -> Option<String> {
    (text.len() <= NOTE_MAX).then(|| text.to_owned())
}

/// A label or a description, in one line.
fn line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    limited(&words.join(" "), NOTE_MAX).replace('\n', " ")
}

/// The fields of a form. None if one of them is of a kind that creel does not know, or too large.
fn fields(schema: &Value) -> Option<Vec<QuestionField>> {
    let required = |name: &str| {
        let required = schema["required"].as_array().into_iter().flatten();
        required.into_iter().any(|it| it == name)
    };
    let properties = schema["properties"].as_object().into_iter().flatten();
    let mut fields: Vec<QuestionField> = Vec::new();
    for (name, property) in properties {
        let text = |key: &str| property[key].as_str().map(line);
        let options = [options(property)?, options(&property["items"])?].concat();
        let kind = match (property["type"].as_str()?, options.as_slice()) {
            ("string", []) => FieldKind::Text,
            ("string", _) => FieldKind::One,
            ("number", _) => FieldKind::Number,
            ("integer", _) => FieldKind::Integer,
            ("boolean", _) => FieldKind::Boolean,
            ("array", [_, ..]) => FieldKind::Many,
            (_, _) => return None,
        };
        let field = QuestionField {
            title: text("title").unwrap_or_else(|| line(name)),
            name: whole(name)?,
            description: text("description"),
            kind,
            options,
            required: required(name),
            default: None,
            other: None,
        };
        // A default that does not fit would fail as an answer.
        let default = Some(&property["default"]).filter(|default| {
            let fits = field.fill_json(&mut Map::new(), default);
            !default.is_null() && fits.is_ok() && default.to_string().len() <= LONG_MAX
        });
        let default = default.cloned();
        fields.push(QuestionField { default, ..field });
    }
    let fields = with_own_words(&fields);
    let size = serde_json::to_string(&fields).ok()?.len();
    (size <= FORM_MAX).then_some(fields)
}

/// Joins the fields for your own words with those that they belong to.
fn with_own_words(fields: &[QuestionField]) -> Vec<QuestionField> {
    let (words, mut fields): (Vec<_>, Vec<_>) = fields.iter().cloned().partition(|field| {
        let of = field
            .name
            .strip_suffix(OTHER)
            .filter(|_| field.kind == FieldKind::Text);
        let has_options = |it: &QuestionField| Some(&*it.name) == of && !it.options.is_empty();
        fields.iter().any(has_options)
    });
    for field in &mut fields {
        let name = format!("{}{OTHER}", field.name);
        field.other = words.iter().any(|own| own.name == name).then_some(name);
    }
    fields
}

/// The options of a field, in any of the forms that the protocol knows. None if creel cannot offer
/// all of them.
fn options(of: &Value) -> Option<Vec<FieldOption>> {
    let titled = of["oneOf"].as_array().or_else(|| of["anyOf"].as_array());
    let plain = of["enum"].as_array();
    let option = |value: &Value| {
        let id = value.as_str().or_else(|| value["const"].as_str())?;
        Some(FieldOption {
            value: whole(id)?,
            title: line(value["title"].as_str().unwrap_or(id)),
            description: value["description"].as_str().map(line),
        })
    };
    let all = titled.or(plain);
    all.into_iter().flatten().map(option).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asked(mode: Value) -> Option<AgentQuestion> {
        let mut request = mode;
        request["message"] = json!("Which?");
        request["sessionId"] = json!("s");
        question(&s::CreateElicitationRequest::deserialize(request).expect("a request"))
    }

    #[test]
    fn the_question_of_claude_is_one_choice_with_room_for_own_words() {
        let question = asked(
            json!({"mode": "form", "requestedSchema": {"type": "object", "properties": {
                "question_0": {"type": "string", "title": "DB", "oneOf": [
                    {"const": "Postgres", "title": "Postgres", "description": "a server"},
                    {"const": "SQLite", "title": "SQLite"},
                ]},
                "question_0_custom": {"type": "string", "title": "Other"},
            }}}),
        )
        .expect("a question");
        let [field] = question.fields.as_slice() else {
            panic!("{question:?}");
        };
        assert_eq!(field.other.as_deref(), Some("question_0_custom"));
        assert_eq!(field.kind, FieldKind::One);
        assert_eq!(question.offers()[0].1, "Postgres: a server");
    }

    #[test]
    fn a_form_is_bounded_and_its_labels_are_lines() {
        let form = |property: Value| {
            asked(json!({"mode": "form", "requestedSchema":
                {"type": "object", "properties": {"a": property}}}))
        };
        let long = "x".repeat(100_000);
        let question =
            form(json!({"type": "string", "title": "A\nB: no", "default": 7})).expect("a question");
        let field = &question.fields[0];
        assert_eq!(field.title, "A B: no");
        assert_eq!(field.default, None, "a number does not fit into a text");
        let title = form(json!({"type": "string", "title": long})).expect("a question");
        assert!(title.fields[0].title.len() < 2 * NOTE_MAX);
        assert_eq!(form(json!({"type": "string", "enum": [long]})), None);
        let many: Vec<String> = (0..10_000).map(|n| format!("option {n}")).collect();
        assert_eq!(form(json!({"type": "string", "enum": many})), None);
        let page = json!({"mode": "url", "url": long, "elicitationId": "e"});
        assert_eq!(asked(page), None);
    }

    #[test]
    fn part_of_an_answer_is_never_sent() {
        let sent = |text: &str| {
            let answer = response(PermissionAnswer::Selected(text.to_owned()));
            serde_json::to_value(answer).expect("JSON")["action"].clone()
        };
        assert_eq!(sent(r#"{"a": ["x"], "b": 1.5}"#), "accept");
        assert_eq!(sent(r#"{"a": "x", "b": {"c": 1}}"#), "cancel");
        assert_eq!(sent("no JSON"), "cancel");
    }

    #[test]
    fn every_kind_of_field_is_known_and_a_strange_one_is_declined() {
        let form = |property: Value| {
            asked(json!({"mode": "form", "requestedSchema":
                {"type": "object", "required": ["a"], "properties": {"a": property}}}))
        };
        let kinds = [
            (json!({"type": "string"}), FieldKind::Text),
            (json!({"type": "string", "enum": ["x"]}), FieldKind::One),
            (json!({"type": "integer", "default": 3}), FieldKind::Integer),
            (json!({"type": "number"}), FieldKind::Number),
            (json!({"type": "boolean"}), FieldKind::Boolean),
            (
                json!({"type": "array", "items": {"type": "string", "enum": ["x"]}}),
                FieldKind::Many,
            ),
            (
                json!({"type": "array", "items": {"anyOf": [{"const": "x", "title": "X"}]}}),
                FieldKind::Many,
            ),
        ];
        for (property, kind) in kinds {
            let question = form(property.clone()).expect("a question");
            assert_eq!(question.fields[0].kind, kind, "{property}");
            assert!(question.fields[0].required);
        }
        assert_eq!(form(json!({"type": "matrix", "rows": 2})), None);
        let page = asked(json!({"mode": "url", "url": "http://localhost/", "elicitationId": "e"}));
        assert_eq!(
            page.expect("a page").url.as_deref(),
            Some("http://localhost/")
        );
    }
}
