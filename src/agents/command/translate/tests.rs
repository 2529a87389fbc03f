//! Streams of every format, handwritten in the shapes that the programs print, and their meaning.

use expect_test::Expect;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::engine::{
    conversation::{AgentUpdate, TokenKinds, ToolCall},
    ids::TurnId,
};

mod claude;
mod others;

/// The updates, one per line, and the end.
fn played(format: OutputFormat, before: Option<ReportedUsage>, lines: &[Value]) -> String {
    let mut translator =
        crate::agents::command::translator(format, before).expect("a format of lines");
    let mut updates = TranslatedOutput::new(TurnId(3), None);
    let mut shown = String::new();
    for line in lines {
        if translator.line(line, &mut updates).is_none() {
            shown.push_str("unknown\n");
        }
        updates
            .take()
            .iter()
            .for_each(|update| shown.push_str(&show(update)));
    }
    if let Some(why) = updates.hopeless() {
        shown.push_str(&format!("hopeless: {why}\n"));
    }
    let end = translator.end();
    shown.push_str(&format!(
        "{:?} {:?} {:?}\n",
        end.verdict, end.spent.tokens, end.spent.cost
    ));
    if let Some(kinds) = end.spent.token_kinds {
        let TokenKinds {
            input,
            output,
            cache_read,
            cache_write,
        } = kinds;
        shown.push_str(&format!(
            "input {input}, output {output}, cache read {cache_read}, cache write {cache_write}\n"
        ));
    }
    end.complaint
        .iter()
        .for_each(|complaint| shown.push_str(&format!("complaint: {complaint}\n")));
    shown
}

fn show(update: &AgentUpdate) -> String {
    let call = |what: &str, call: &ToolCall| {
        let files: Vec<&str> = call.locations.iter().map(|at| at.path.as_str()).collect();
        let kind = call
            .kind
            .map_or("-", crate::engine::conversation::ToolKind::name);
        let mut text = format!(
            "{what} {} {kind} {:?} {:?} {files:?}",
            call.call, call.status, call.title
        );
        call.output
            .iter()
            .for_each(|output| text.push_str(&format!(" {output:?}")));
        call.diff
            .iter()
            .for_each(|diff| text.push_str(&format!(" diff {diff:?}")));
        text
    };
    let text = match update {
        AgentUpdate::Message(text) => format!("said {text:?}"),
        AgentUpdate::Thought(text) => format!("thought {text:?}"),
        AgentUpdate::ToolCalled(tool) => call("called", tool),
        AgentUpdate::ToolUpdated(tool) => call("updated", tool),
        AgentUpdate::Planned(plan) => {
            format!(
                "planned {:?}",
                plan.iter()
                    .map(|entry| (&entry.content, entry.status))
                    .collect::<Vec<_>>()
            )
        }
        AgentUpdate::Used(context) => format!("used {} of {}", context.used, context.size),
        AgentUpdate::Opened(name) => format!("opened {name}"),
        AgentUpdate::Noted { what, text } => format!("noted {what}: {text}"),
        AgentUpdate::Warned(text) => format!("warned {text}"),
    };
    text + "\n"
}

fn becomes(format: OutputFormat, lines: &[Value], expected: &Expect) {
    expected.assert_eq(&played(format, Some(ReportedUsage::default()), lines));
}

#[test]
fn unknown_values_are_left_out() {
    let strange = [
        json!({}),
        json!({ "type": 7 }),
        json!({ "type": "brand_new", "session_id": "ok" }),
        json!({ "type": "item.completed", "item": { "id": "x", "type": "brand_new" } }),
        json!({ "type": "message" }),
        json!({ "type": "tool_use" }),
        json!({ "type": "assistant" }),
    ];
    for format in FORMATS {
        let shown = played(format, None, &strange);
        assert!(
            !shown.contains("said \"") && shown.contains("unknown"),
            "{shown}"
        );
    }
}

#[test]
fn a_name_that_could_be_an_option_is_not_taken() {
    let started = |name: &str| {
        played(
            OutputFormat::Codex,
            None,
            &[json!({ "type": "thread.started", "thread_id": name })],
        )
    };
    assert!(started("01a1-ddc3").contains("opened 01a1-ddc3"));
    for name in ["", "--yolo", "a b", "a;b", "$(x)", &"x".repeat(300)] {
        assert!(!started(name).contains("opened"), "{name}");
    }
}

#[test]
fn half_a_character_does_not_cost_the_line() {
    let text = |line: &str| parse(line).and_then(|value| value["a"].as_str().map(str::to_owned));
    assert_eq!(text(r#"{"a":"x\ud83d"}"#).as_deref(), Some("x\u{fffd}"));
    assert_eq!(
        text(r#"{"a":"\ud83d\ude00 \ude00 \\ud83d \u00e9"}"#).as_deref(),
        Some("😀 \u{fffd} \\ud83d é")
    );
    assert_eq!(text(r#"{"a":"€\"#), None);
    assert_eq!((parse("[1]"), parse("{"), parse("x")), (None, None, None));
}

const FORMATS: [OutputFormat; 4] = [
    OutputFormat::Claude,
    OutputFormat::Codex,
    OutputFormat::Gemini,
    OutputFormat::Opencode,
];

/// Objects with the keys and kinds of all formats, in every wrong combination.
fn objects() -> impl Strategy<Value = Value> {
    const WORDS: [&str; 56] = [
        "type",
        "subtype",
        "message",
        "content",
        "text",
        "thinking",
        "delta",
        "event",
        "tool_use",
        "tool_result",
        "id",
        "name",
        "input",
        "usage",
        "modelUsage",
        "result",
        "is_error",
        "errors",
        "error",
        "assistant",
        "user",
        "system",
        "stream_event",
        "content_block_delta",
        "session_id",
        "item",
        "item.started",
        "item.completed",
        "item.updated",
        "command_execution",
        "command",
        "file_change",
        "changes",
        "path",
        "todo_list",
        "items",
        "turn.completed",
        "turn.failed",
        "thread.started",
        "part",
        "state",
        "step_finish",
        "tokens",
        "total",
        "sessionID",
        "callID",
        "tool",
        "todos",
        "file_path",
        "old_string",
        "new_string",
        "structuredPatch",
        "lines",
        "filePath",
        "tool_use_result",
        "status",
    ];
    let word = prop::sample::select(WORDS.as_slice());
    let leaf = prop_oneof![
        word.clone().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(word.clone().prop_map(str::to_owned), inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_object_breaks_a_translator(lines in prop::collection::vec(objects(), 0..8)) {
        for format in FORMATS {
            played(format, Some(ReportedUsage { tokens: 5, cost: 0.5, ..ReportedUsage::default() }), &lines);
        }
    }

    #[test]
    fn no_text_breaks_the_reading_of_a_line(line in "(\\PC|\\\\u[dD][89a-fA-F][0-9a-f]{2}|\\\\|\"|\\{|\\}){0,30}") {
        parse(&line);
        parse(&format!("{{\"a\":\"{line}\"}}"));
    }
}
