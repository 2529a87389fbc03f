//! Permission requests of a real agent: for creel's own tools, and for what creel serves to it.

use serde_json::{Value, json};

use crate::support::{acp_agent, project::Project};

/// A project whose agent follows this script, with more config.
fn project(more: &str, script: &Value) -> Project {
    let agent = acp_agent();
    let config = format!(
        "prompt: GOAL\nagent: a\nagents: {{ a: {{ acp: \"'{}' script.json log\" }} }}\n{more}\n",
        agent.display()
    );
    Project::with(&config).file("script.json", &script.to_string())
}

fn said(project: &Project) -> String {
    project
        .kind("agent_said")
        .iter()
        .filter_map(|record| record["text"].as_str().map(str::to_owned))
        .collect()
}

const DONE: &str = "<promise>COMPLETE</promise>";

#[test]
fn creel_answers_requests_for_its_own_tools_itself() {
    let requests = [
        json!({"toolCallId": "1", "title": "mcp__creel__task_list", "kind": "other", "rawInput": {}}),
        json!({"toolCallId": "2", "title": "task_list (creel MCP Server)", "kind": "other", "locations": [],
            "content": [{"type": "content", "content": {"type": "text", "text": "{}"}}]}),
        json!({"toolCallId": "3", "title": "task_list (creel MCP Server): {}", "kind": "read", "rawInput": {}}),
        json!({"toolCallId": "4", "title": "mcp.creel.task_list", "kind": "execute",
            "rawInput": {"server": "creel", "tool": "task_list", "arguments": {}}}),
        json!({"toolCallId": "5", "title": "creel_task_add", "kind": "other", "rawInput": {"goal": "x".repeat(10_000)}}),
    ];
    let mut steps: Vec<Value> = Vec::new();
    for tool in requests {
        steps.extend([
            json!({"ask": {"tool": tool}}),
            json!({"if_allowed": [{"say": "yes "}], "else": [{"say": "no "}]}),
        ]);
    }
    steps.push(json!({ "say": DONE }));
    for config in [
        "",
        "gates: { permissions: deny }\npermissions: [{ action: deny }]",
    ] {
        let project = project(config, &json!({ "turns": [steps] }));
        let ran = project.run();
        assert_eq!(ran.code, 0, "{config}: {}", ran.err);
        assert_eq!(
            said(&project),
            format!("yes yes yes yes yes {DONE}"),
            "{config}"
        );
        assert!(
            project.kind("gate_opened").is_empty() && project.kind("permission_asked").is_empty()
        );
    }
}

#[test]
fn a_command_with_the_name_of_a_tool_of_creel_is_asked_about() {
    for tool in [
        json!({"toolCallId": "1", "title": "mcp__creel__task_list", "kind": "execute", "rawInput": {"command": "rm -rf x"}}),
        json!({"toolCallId": "1", "title": "mcp__creel__task_list", "kind": "other", "rawInput": {"command": "rm -rf x"}}),
        json!({"toolCallId": "1", "title": "mcp__creel__task_list", "kind": "execute"}),
    ] {
        let project = project(
            "",
            &json!({"turns": [[{"ask": {"tool": tool}}, {"say": DONE}]]}),
        );
        let ran = project.run();
        assert_eq!(ran.code, 4, "{tool}: {}", ran.err);
    }
}

#[test]
fn without_creels_tools_no_request_is_for_one() {
    let script = json!({"turns": [[
        {"ask": {"tool": {"toolCallId": "1", "title": "mcp__creel__task_list", "kind": "other"}}}, {"say": DONE},
    ]]});
    let agent = acp_agent();
    let config = format!(
        "prompt: GOAL\nagent: a\nagents: {{ a: {{ acp: \"'{}' script.json log\", mcp: false }} }}\n",
        agent.display()
    );
    let project = Project::with(&config).file("script.json", &script.to_string());
    assert_eq!(project.run().code, 4);
}

#[test]
fn deny_covers_the_files_and_terminals_that_creel_serves() {
    let script = json!({"turns": [[
        {"write": {"path": "new", "content": "x"}}, {"say": "|"}, {"read": {"path": "old"}}, {"say": "|"},
        {"terminal": {"command": "echo ran > ran", "then": "wait"}}, {"say": format!("|{DONE}")},
    ]]});
    let project = project("gates: { permissions: deny }", &script).file("old", "secret");
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}", ran.err);
    let said = said(&project);
    let parts: Vec<&str> = said.split('|').collect();
    assert!(
        parts[..3]
            .iter()
            .all(|part| part.contains("permission denied")),
        "{said}"
    );
    assert!(!project.root().join("new").exists() && !project.root().join("ran").exists());
    let calls = project.kind("tool_called");
    assert_eq!(calls.len(), 3);
    assert!(
        calls.iter().all(|call| call["status"] == "failed"),
        "the user sees what was refused: {calls:?}"
    );
}

#[test]
fn ask_covers_them_too_unless_a_rule_allows_them() {
    let script = json!({"turns": [[
        {"read": {"path": "old"}}, {"write": {"path": "new", "content": "x"}}, {"say": DONE},
    ]]});
    let asks = project("", &script).file("old", "text");
    let ran = asks.run();
    assert_eq!(ran.code, 4, "{}", ran.err);
    assert!(!asks.root().join("new").exists());
    let [request] = &asks.kind("permission_asked")[..] else {
        panic!("one request")
    };
    assert_eq!(
        (&request["title"], &request["source"]),
        (&json!("write new"), &json!("service"))
    );
    assert!(
        request["diff"]
            .as_str()
            .is_some_and(|diff| diff.contains("+x")),
        "the user sees the change"
    );
    let [gate] = &asks.kind("gate_opened")[..] else {
        panic!("one gate")
    };
    let choices = json!([
        "allow_once",
        "allow_always",
        "allow_edits",
        "reject_once",
        "reject_always",
        "cancel"
    ]);
    assert_eq!(
        (&gate["about"], &gate["choices"]),
        (&json!("permission"), &choices)
    );
    let ruled = project(
        "permissions: [{ kind: edit, path: new, action: allow }]",
        &script,
    )
    .file("old", "text");
    let ran = ruled.run();
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(ruled.read("new"), "x");
}
