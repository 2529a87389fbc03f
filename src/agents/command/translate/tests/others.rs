//! Codex, Gemini CLI and opencode.

use expect_test::expect;
use serde_json::json;

use super::*;

#[test]
fn codex_thinks_uses_tools_and_answers() {
    let lines = [
        json!({ "type": "thread.started", "thread_id": "01a1-2" }),
        json!({ "type": "turn.started" }),
        json!({ "type": "item.completed", "item": { "id": "item_0", "type": "reasoning", "text": "hm" } }),
        json!({ "type": "item.completed", "item": { "id": "item_1", "type": "agent_message", "text": "I will patch." } }),
        json!({ "type": "item.started", "item": { "id": "item_2", "type": "file_change", "status": "in_progress",
            "changes": [{ "path": "a.py", "kind": "add" }, { "path": "b.py", "kind": "delete" }] } }),
        json!({ "type": "item.completed", "item": { "id": "item_2", "type": "file_change", "status": "completed",
            "changes": [{ "path": "a.py", "kind": "add" }, { "path": "b.py", "kind": "delete" }] } }),
        json!({ "type": "item.started", "item": { "id": "item_3", "type": "command_execution", "status": "in_progress",
            "command": "/bin/bash -lc 'echo '\\''hi'\\'''", "aggregated_output": "", "exit_code": null } }),
        json!({ "type": "item.completed", "item": { "id": "item_3", "type": "command_execution", "status": "failed",
            "command": "/bin/bash -lc 'echo '\\''hi'\\'''", "aggregated_output": "hi\n", "exit_code": 1 } }),
        json!({ "type": "item.completed", "item": { "id": "item_4", "type": "mcp_tool_call", "server": "tasks", "tool": "add",
            "arguments": { "title": "x" }, "result": { "content": [{ "type": "text", "text": "added" }] }, "status": "completed" } }),
        json!({ "type": "item.completed", "item": { "id": "item_5", "type": "web_search", "query": "rust" } }),
        json!({ "type": "item.updated", "item": { "id": "item_6", "type": "todo_list",
            "items": [{ "text": "read", "completed": true }, { "text": "write", "completed": false }] } }),
        json!({ "type": "item.completed", "item": { "id": "item_7", "type": "error", "message": "a model is missing" } }),
        json!({ "type": "item.completed", "item": { "id": "item_8", "type": "agent_message", "text": "Done.\n" } }),
        json!({ "type": "item.completed", "item": { "id": "item_9", "type": "agent_message", "text": "<promise>COMPLETE</promise>" } }),
        json!({ "type": "turn.completed", "usage": { "input_tokens": 330, "cached_input_tokens": 150, "output_tokens": 60 } }),
    ];
    becomes(
        OutputFormat::Codex,
        &lines,
        &expect![[r#"
            opened 01a1-2
            thought "hm"
            said "I will patch."
            said "\n"
            called turn-3/item_2 edit InProgress "edit a.py, b.py" ["a.py", "b.py"]
            updated turn-3/item_2 edit Completed "edit a.py, b.py" ["a.py", "b.py"]
            called turn-3/item_3 execute InProgress "echo 'hi'" []
            updated turn-3/item_3 execute Failed "echo 'hi'" [] "hi\n"
            called turn-3/item_4 other InProgress "tasks.add x" []
            updated turn-3/item_4 other Completed "tasks.add x" [] "added"
            called turn-3/item_5 fetch InProgress "web search rust" []
            updated turn-3/item_5 fetch Completed "web search rust" []
            planned [("read", Completed), ("write", Pending)]
            warned warning from the agent: a model is missing
            said "Done.\n"
            said "<promise>COMPLETE</promise>"
            said "\n"
            Ended(EndTurn) Some(390) None
            input 180, output 60, cache read 150, cache write 0
        "#]],
    );
}

#[test]
fn codex_tries_again_and_then_fails() {
    let lines = [
        json!({ "type": "thread.started", "thread_id": "01a1-2" }),
        json!({ "type": "error", "message": "Reconnecting... 1/5 (last status: 429)" }),
        json!({ "type": "error", "message": "exceeded retry limit, last status: 429" }),
        json!({ "type": "turn.failed", "error": { "message": "exceeded retry limit, last status: 429" } }),
    ];
    becomes(
        OutputFormat::Codex,
        &lines,
        &expect![[r#"
        opened 01a1-2
        noted retry: Reconnecting... 1/5 (last status: 429)
        Failed("exceeded retry limit, last status: 429") None None
        complaint: exceeded retry limit, last status: 429
    "#]],
    );
}

#[test]
fn codex_counts_over_all_turns_of_a_thread() {
    let end = json!({ "type": "turn.completed",
        "usage": { "input_tokens": 450, "cached_input_tokens": 200, "output_tokens": 80 } });
    let kinds = |input, output, cache_read| TokenKinds {
        input,
        output,
        cache_read,
        cache_write: 0,
    };
    let spent = |before: Option<ReportedUsage>| {
        let mut translator = crate::agents::command::translator(OutputFormat::Codex, before)
            .expect("a format of lines");
        translator.line(&end, &mut TranslatedOutput::new(TurnId(3), None));
        translator.end()
    };
    let before = Some(ReportedUsage {
        tokens: 390,
        kinds: kinds(180, 60, 150),
        ..ReportedUsage::default()
    });
    assert_eq!(
        (spent(before).spent.tokens, spent(before).tally),
        (
            Some(140),
            Some(ReportedUsage {
                tokens: 530,
                kinds: kinds(250, 80, 200),
                ..ReportedUsage::default()
            })
        )
    );
    assert_eq!(
        (spent(None).spent.tokens, spent(None).tally),
        (
            None,
            Some(ReportedUsage {
                tokens: 530,
                kinds: kinds(250, 80, 200),
                ..ReportedUsage::default()
            })
        )
    );
}

/// Without the earlier count by kind, or if the count began again, no kind of it is made up.
#[test]
fn codex_has_the_kinds_of_a_turns_tokens_only_if_it_knows_them_all() {
    let kinds = |before: ReportedUsage| {
        let end = json!({ "type": "turn.completed",
            "usage": { "input_tokens": 450, "cached_input_tokens": 200, "output_tokens": 80 } });
        let mut translator = crate::agents::command::translator(OutputFormat::Codex, Some(before))
            .expect("a format of lines");
        translator.line(&end, &mut TranslatedOutput::new(TurnId(3), None));
        let kinds = translator.end().spent.token_kinds;
        kinds.map(|kinds| (kinds.input, kinds.output, kinds.cache_read))
    };
    let counted = TokenKinds {
        input: 180,
        output: 60,
        cache_read: 150,
        cache_write: 0,
    };
    let before = ReportedUsage {
        tokens: 390,
        kinds: counted,
        ..ReportedUsage::default()
    };
    assert_eq!(kinds(before), Some((70, 20, 50)));
    let unknown = ReportedUsage {
        kinds: TokenKinds::default(),
        ..before
    };
    assert_eq!(kinds(unknown), None);
    let began_again = ReportedUsage {
        tokens: 9_000,
        ..before
    };
    assert_eq!(kinds(began_again), Some((250, 80, 200)));
}

#[test]
fn gemini_speaks_in_pieces_and_uses_tools() {
    let say = |words: &str| json!({ "type": "message", "role": "assistant", "content": words, "delta": true });
    let lines = [
        json!({ "type": "init", "session_id": "49d2", "model": "pro" }),
        json!({ "type": "message", "role": "user", "content": "say <promise>COMPLETE</promise>" }),
        say("I will "),
        say("write."),
        json!({ "type": "tool_use", "tool_name": "write_file", "tool_id": "w_1", "parameters": { "file_path": "a.py", "content": "x" } }),
        json!({ "type": "tool_result", "tool_id": "w_1", "status": "success" }),
        json!({ "type": "tool_use", "tool_name": "run_shell_command", "tool_id": "r_1", "parameters": { "command": "ls" } }),
        json!({ "type": "tool_result", "tool_id": "r_1", "status": "error", "error": { "type": "x", "message": "denied" } }),
        json!({ "type": "error", "severity": "warning", "message": "loop detected" }),
        say("Done. <promi"),
        say("se>COMPLETE</promise>"),
        json!({ "type": "result", "status": "success", "stats": { "total_tokens": 405, "input_tokens": 330, "output_tokens": 60, "cached": 150, "input": 180 } }),
    ];
    becomes(
        OutputFormat::Gemini,
        &lines,
        &expect![[r#"
            opened 49d2
            noted model: pro
            said "I will "
            said "write."
            said "\n"
            called turn-3/w_1 edit InProgress "write_file a.py" ["a.py"]
            updated turn-3/w_1 edit Completed "write_file a.py" ["a.py"]
            called turn-3/r_1 execute InProgress "ls" []
            updated turn-3/r_1 execute Failed "ls" [] "denied"
            warned warning from the agent: loop detected
            said "Done. <promi"
            said "se>COMPLETE</promise>"
            Ended(EndTurn) Some(405) None
            input 180, output 75, cache read 150, cache write 0
        "#]],
    );
}

#[test]
fn gemini_fails_in_the_words_of_its_server() {
    let result = json!({ "type": "result", "status": "error", "stats": { "total_tokens": 0 },
        "error": { "type": "unknown", "message": "[API Error: {\"error\":{\"code\":401,\"message\":\"Wrong key\"}}]" } });
    becomes(
        OutputFormat::Gemini,
        &[result],
        &expect![[r#"
        Failed("[API Error: {\"error\":{\"code\":401,\"message\":\"Wrong key\"}}]") Some(0) None
    "#]],
    );
    let broken = json!({ "type": "error", "severity": "error", "message": "max turns" });
    becomes(
        OutputFormat::Gemini,
        &[broken],
        &expect![[r#"
        Unsaid None None
        complaint: max turns
    "#]],
    );
}

fn step(reason: &str, tokens: &Value) -> Value {
    json!({ "type": "step_finish", "sessionID": "ses_1", "part": { "reason": reason, "tokens": tokens, "cost": 0.25 } })
}

#[test]
fn opencode_tells_tools_when_they_are_over_and_counts_by_step() {
    let text = |words: &str| json!({ "type": "text", "sessionID": "ses_1", "part": { "type": "text", "text": words } });
    let lines = [
        json!({ "type": "step_start", "timestamp": 1, "sessionID": "ses_1", "part": { "type": "step-start" } }),
        json!({ "type": "reasoning", "sessionID": "ses_1", "part": { "text": "hm" } }),
        text("I will edit."),
        json!({ "type": "tool_use", "sessionID": "ses_1", "part": { "tool": "edit", "callID": "c_1", "state": { "status": "completed",
            "input": { "filePath": "a.py" }, "output": "ok", "title": "a.py", "metadata": { "diff": "-1\n+2\n" } } } }),
        json!({ "type": "tool_use", "sessionID": "ses_1", "part": { "tool": "bash", "callID": "c_2", "state": { "status": "error",
            "input": { "command": "ls" }, "error": "not allowed" } } }),
        step(
            "tool-calls",
            &json!({ "total": 120, "input": 50, "output": 20, "cache": { "read": 50 } }),
        ),
        text("Done. <promise>COMPLETE</promise>"),
        step(
            "stop",
            &json!({ "input": 60, "output": 15, "reasoning": 5, "cache": { "read": 50, "write": 0 } }),
        ),
    ];
    becomes(
        OutputFormat::Opencode,
        &lines,
        &expect![[r#"
            opened ses_1
            thought "hm"
            said "I will edit."
            said "\n"
            called turn-3/c_1 edit InProgress "edit a.py" ["a.py"] diff "-1\n+2\n"
            updated turn-3/c_1 edit Completed "edit a.py" ["a.py"] "ok" diff "-1\n+2\n"
            called turn-3/c_2 execute InProgress "ls" []
            updated turn-3/c_2 execute Failed "ls" [] "not allowed"
            said "Done. <promise>COMPLETE</promise>"
            said "\n"
            Ended(EndTurn) Some(250) Some(0.5)
            input 110, output 40, cache read 100, cache write 0
        "#]],
    );
}

#[test]
fn opencode_fails_with_the_wait_that_its_server_asks_for() {
    let error = json!({ "type": "error", "sessionID": "ses_1", "error": { "name": "APIError", "data": {
        "message": "Slow down", "statusCode": 429, "isRetryable": true, "responseHeaders": { "retry-after": "7" } } } });
    becomes(
        OutputFormat::Opencode,
        &[error.clone(), error],
        &expect![[r#"
        opened ses_1
        Failed("APIError: Slow down (status 429) (retry-after: 7)") None None
        complaint: APIError: Slow down (status 429) (retry-after: 7)
    "#]],
    );
}

#[test]
fn opencode_that_gets_empty_answers_for_ever_is_hopeless() {
    let empty = step("unknown", &json!({ "input": 0, "output": 0 }));
    let lines = vec![empty; 10];
    becomes(
        OutputFormat::Opencode,
        &lines,
        &expect![[r#"
            opened ses_1
            hopeless: its server keeps sending empty answers. Check the server address and the model
            Unsaid Some(0) Some(2.5)
            input 0, output 0, cache read 0, cache write 0
        "#]],
    );
}
