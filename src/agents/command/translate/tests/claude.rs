//! Claude Code and Qwen Code.

use expect_test::expect;
use serde_json::json;

use super::*;

fn block(block: &Value) -> Value {
    json!({ "type": "assistant", "session_id": "5f-1", "parent_tool_use_id": null,
        "message": { "id": "m1", "model": "big", "content": [block], "usage": { "input_tokens": 90, "output_tokens": 10 } } })
}

fn words(words: &str) -> Value {
    block(&json!({ "type": "text", "text": words }))
}

fn tool_result(id: &str, content: &Value, is_error: bool) -> Value {
    json!({ "type": "user", "session_id": "5f-1", "message": { "role": "user", "content": [
        { "type": "tool_result", "tool_use_id": id, "content": content, "is_error": is_error } ] } })
}

fn piece(delta: &Value) -> Value {
    json!({ "type": "stream_event", "parent_tool_use_id": null, "event": { "type": "content_block_delta", "delta": delta } })
}

#[test]
fn claude_thinks_uses_tools_and_answers() {
    let lines = [
        json!({ "type": "system", "subtype": "init", "session_id": "5f-1", "tools": ["Bash"] }),
        json!({ "type": "system", "subtype": "thinking_tokens", "estimated_tokens": 5 }),
        block(&json!({ "type": "thinking", "thinking": "hm", "signature": "x" })),
        words("I will write."),
        block(&json!({ "type": "tool_use", "id": "t1", "name": "Edit",
            "input": { "file_path": "a.py", "old_string": "1\n", "new_string": "2\n" } })),
        json!({ "type": "user", "message": { "content": [{ "type": "tool_result", "tool_use_id": "t1", "content": "ok" }] },
            "tool_use_result": { "filePath": "a.py", "structuredPatch": [
                { "oldStart": 3, "oldLines": 2, "newStart": 3, "newLines": 2, "lines": [" x", "-1", "+2"] }] } }),
        block(
            &json!({ "type": "tool_use", "id": "t2", "name": "Bash", "input": { "command": "make" } }),
        ),
        tool_result(
            "t2",
            &json!([{ "type": "text", "text": "no rule" }, { "type": "image" }]),
            true,
        ),
        block(
            &json!({ "type": "tool_use", "id": "t3", "name": "TodoWrite",
            "input": { "todos": [{ "content": "test", "status": "in_progress" }] } }),
        ),
        words("Done. <promise>COMPLETE</promise>"),
        json!({ "stop_reason": "end_turn", "session_id": "5f-1", "total_cost_usd": 0.5, "type": "result", "subtype": "success",
            "is_error": false, "result": "Done. <promise>COMPLETE</promise>",
            "usage": { "input_tokens": 300, "cache_creation_input_tokens": 15, "cache_read_input_tokens": 150, "output_tokens": 35 },
            "modelUsage": { "big": { "inputTokens": 300, "outputTokens": 35, "cacheReadInputTokens": 150,
                "cacheCreationInputTokens": 15, "costUSD": 0.5, "contextWindow": 200_000 } },
            "permission_denials": [{ "tool_name": "Write" }, { "tool_name": "Bash" }, { "tool_name": "Write" }] }),
    ];
    becomes(
        OutputFormat::Claude,
        &lines,
        &expect![[r#"
            opened 5f-1
            thought "hm"
            said "I will write."
            said "\n"
            called turn-3/t1 edit InProgress "Edit a.py" ["a.py"] diff "--- a.py\n+++ a.py\n@@ -1 +1 @@\n-1\n+2\n"
            updated turn-3/t1 edit Completed "Edit a.py" ["a.py"] "ok" diff "--- a.py\n+++ a.py\n@@ -3,2 +3,2 @@\n x\n-1\n+2\n"
            called turn-3/t2 execute InProgress "make" []
            updated turn-3/t2 execute Failed "make" [] "no rule\n[image]"
            called turn-3/t3 think InProgress "TodoWrite" []
            planned [("test", InProgress)]
            said "Done. <promise>COMPLETE</promise>"
            said "\n"
            used 100 of 200000
            warned the agent has no permission to use Bash, Write. Allow it in the agent's own settings, or with an option of its command
            Ended(EndTurn) Some(500) Some(0.5)
            input 300, output 35, cache read 150, cache write 15
        "#]],
    );
}

#[test]
fn claude_says_once_what_comes_in_pieces_and_whole() {
    let start = json!({ "type": "stream_event", "event": { "type": "content_block_start", "content_block": { "type": "text" } } });
    let lines = [
        start.clone(),
        piece(&json!({ "type": "thinking_delta", "thinking": "h" })),
        block(&json!({ "type": "thinking", "thinking": "hm" })),
        start.clone(),
        piece(&json!({ "type": "text_delta", "text": "One " })),
        piece(&json!({ "type": "text_delta", "text": "twö" })),
        words("One twö."),
        start,
        piece(&json!({ "type": "text_delta", "text": "Three" })),
        words("Three"),
        json!({ "type": "result", "subtype": "success", "is_error": false, "result": "Three" }),
    ];
    becomes(
        OutputFormat::Claude,
        &lines,
        &expect![[r#"
            opened 5f-1
            thought "hm"
            said "One "
            said "twö"
            said "."
            said "\n"
            said "Three"
            said "\n"
            Ended(EndTurn) None None
        "#]],
    );
}

#[test]
fn an_answer_that_is_only_in_claudes_result_is_a_message() {
    let result = json!({ "type": "result", "subtype": "success", "is_error": false, "result": "Hi", "session_id": "5f-1" });
    becomes(
        OutputFormat::Claude,
        &[result],
        &expect![[r#"
            opened 5f-1
            said "Hi"
            said "\n"
            Ended(EndTurn) None None
        "#]],
    );
}

#[test]
fn claudes_helpers_promise_nothing() {
    let mut helper = words("<promise>COMPLETE</promise>");
    helper["parent_tool_use_id"] = json!("t1");
    let lines = [
        block(
            &json!({ "type": "tool_use", "id": "t1", "name": "Task", "input": { "description": "look around" } }),
        ),
        helper,
        tool_result("t1", &json!("found"), false),
        words("Not done."),
        json!({ "type": "result", "subtype": "error_max_turns", "is_error": true }),
    ];
    becomes(
        OutputFormat::Claude,
        &lines,
        &expect![[r#"
            opened 5f-1
            called turn-3/t1 think InProgress "Task look around" []
            thought "<promise>COMPLETE</promise>"
            updated turn-3/t1 think Completed "Task look around" [] "found"
            said "Not done."
            said "\n"
            Ended(MaxTurnRequests) None None
        "#]],
    );
}

#[test]
fn an_error_of_claudes_server_is_a_failed_turn_although_it_is_called_a_success() {
    let mut error = words("API Error: slow down");
    error["is_api_error_message"] = json!(true);
    let lines = [
        json!({ "type": "system", "subtype": "api_retry", "attempt": 2, "max_retries": 10, "retry_delay_ms": 1071, "error": "rate_limit" }),
        error,
        json!({ "type": "result", "subtype": "success", "is_error": true, "result": "API Error: slow down", "api_error_status": 429 }),
    ];
    becomes(
        OutputFormat::Claude,
        &lines,
        &expect![[r#"
        noted retry: attempt 2 of 10 failed (rate_limit). Next attempt in 1.0 s
        opened 5f-1
        Failed("API Error: slow down (status 429)") None None
        complaint: API Error: slow down
    "#]],
    );
    let unknown = json!({ "type": "result", "subtype": "error_during_execution", "is_error": true, "errors": ["No such conversation"] });
    becomes(
        OutputFormat::Claude,
        &[unknown],
        &expect![[r#"
        Failed("No such conversation") None None
    "#]],
    );
}

#[test]
fn qwen_is_read_like_claude() {
    let lines = [
        json!({ "type": "system", "subtype": "init", "session_id": "9a" }),
        json!({ "type": "system", "subtype": "retry", "data": { "attempt": 1, "maxRetries": 10, "delayMs": 60000 } }),
        json!({ "type": "stream_event", "event": { "type": "goal_state", "goal_state": {} } }),
        words("[API Error: 401 wrong key]"),
        json!({ "type": "result", "subtype": "error_during_execution", "is_error": true, "error": { "message": "[API Error: 401 wrong key]" },
            "usage": { "input_tokens": 330, "output_tokens": 60, "cache_read_input_tokens": 150, "total_tokens": 390 } }),
    ];
    becomes(
        OutputFormat::Claude,
        &lines,
        &expect![[r#"
            opened 9a
            noted retry: attempt 1 of 10 failed. Next attempt in 1 min
            opened 5f-1
            Failed("[API Error: 401 wrong key]") Some(390) None
            input 180, output 60, cache read 150, cache write 0
            complaint: [API Error: 401 wrong key]
        "#]],
    );
    let quoted = [
        words("[API Error: as I was asked to say]"),
        json!({ "type": "result", "is_error": false, "result": "x" }),
    ];
    becomes(
        OutputFormat::Claude,
        &quoted,
        &expect![[r#"
            opened 5f-1
            said "[API Error: as I was asked to say]"
            said "\n"
            Ended(EndTurn) None None
        "#]],
    );
}

#[test]
fn what_qwen_counts_is_taken_from_its_messages() {
    let mut message = words("Done.");
    message["message"]["usage"] =
        json!({ "input_tokens": 120, "output_tokens": 20, "total_tokens": 140 });
    let result = json!({ "type": "result", "is_error": false, "usage": { "input_tokens": 810, "output_tokens": 140, "total_tokens": 950 } });
    becomes(
        OutputFormat::Claude,
        &[message.clone(), message, result],
        &expect![[r#"
        opened 5f-1
        said "Done."
        said "\n"
        said "Done."
        said "\n"
        Ended(EndTurn) Some(280) None
    "#]],
    );
}

#[test]
fn the_cost_of_a_turn_of_claudes_is_what_came_on_top() {
    let result = |of_turn: u64, of_all: u64, cost: f64| {
        json!({ "type": "result", "is_error": false, "usage": { "input_tokens": of_turn }, "total_cost_usd": cost,
            "modelUsage": { "big": { "inputTokens": of_all } } })
    };
    let cost = |before: Option<ReportedUsage>, result: &Value| {
        let mut translator = crate::agents::command::translator(OutputFormat::Claude, before)
            .expect("a format of lines");
        translator.line(result, &mut TranslatedOutput::new(TurnId(3), None));
        translator.end().spent.cost
    };
    let before = Some(ReportedUsage {
        tokens: 330,
        cost: 0.25,
        ..ReportedUsage::default()
    });
    assert_eq!(
        cost(before, &result(120, 450, 0.375)),
        Some(0.125),
        "it counts on"
    );
    assert_eq!(
        cost(before, &result(120, 120, 0.125)),
        Some(0.125),
        "it began anew"
    );
    assert_eq!(
        cost(None, &result(120, 120, 0.125)),
        Some(0.125),
        "there was nothing before"
    );
    assert_eq!(
        cost(None, &result(120, 450, 0.375)),
        None,
        "what was before is not known"
    );
}
