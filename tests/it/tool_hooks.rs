//! Hooks of tool calls as processes: what they read, and what becomes of the agent's request.

use serde_json::{Value, json};

use crate::support::{acp_agent, project::Project};

/// A script for Claude Code that reads its input and denies a command.
const GUARD: &str = r#"input=$(cat); printf '%s' "$input" > seen.json
case "$input" in *'"command":"rm -rf '*) echo "no rm" >&2; exit 2;; esac
printf '%s' "$CLAUDE_PROJECT_DIR" > dir"#;

fn project(hooks: &str, turn: &Value) -> Project {
    let agent = acp_agent();
    let config = format!(
        "prompt: GOAL\nagent: a\nagents: {{ a: {{ acp: \"'{}' script.json log\" }} }}\n\
         gates: {{ permissions: allow }}\nhooks:\n{hooks}\n",
        agent.display()
    );
    Project::with(&config)
        .file("script.json", &json!({ "turns": [turn] }).to_string())
        .file("guard.sh", GUARD)
}

fn seen(project: &Project) -> Value {
    serde_json::from_str(&project.read("seen.json")).expect("JSON")
}

const DONE: &str = "<promise>COMPLETE</promise>";

#[test]
fn a_hook_for_claude_code_denies_a_command_of_another_agent() {
    let tool = json!({"toolCallId": "1", "title": "Run", "kind": "execute",
        "rawInput": {"command": ["bash", "-lc", "rm -rf build"]}});
    let turn = json!([
        {"ask": {"tool": tool}},
        {"if_allowed": [{"say": "deleted "}], "else": [{"say": "refused "}]},
        {"say": DONE},
    ]);
    let project = project(
        "  PreToolUse: [{ matcher: Bash, hooks: [{ type: command, command: sh guard.sh, name: guard }] }]",
        &turn,
    );
    let ran = project.run();
    let said: String = project
        .kind("agent_said")
        .iter()
        .filter_map(|record| record["text"].as_str().map(str::to_owned))
        .collect();
    // It reads the reason with the next prompts, and tries again.
    assert!(
        said.starts_with("refused ") && !said.contains("deleted"),
        "{said} {}",
        ran.err
    );
    let seen = seen(&project);
    assert_eq!(
        (
            &seen["hook_event_name"],
            &seen["tool_name"],
            &seen["tool_input"]["command"]
        ),
        (&json!("PreToolUse"), &json!("Bash"), &json!("rm -rf build"))
    );
    let gates = project.kind("gate_answered");
    assert_eq!(
        (&gates[0]["by"], &gates[0]["choice"]),
        (&json!("hook"), &json!("reject_once"))
    );
}

#[test]
fn a_hook_after_a_call_reads_how_it_ended() {
    let turn = json!([
        {"update": {"sessionUpdate": "tool_call", "toolCallId": "1", "title": "edit", "kind": "edit",
            "status": "pending", "rawInput": {"path": "a.rs", "content": "x"}}},
        {"update": {"sessionUpdate": "tool_call_update", "toolCallId": "1", "status": "completed",
            "rawOutput": "written"}},
        {"say": DONE},
    ]);
    let project = project(
        "  post_tool: [{ command: sh guard.sh, match: { kind: edit, path: '*.rs' } }]",
        &turn,
    );
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}", ran.err);
    let seen = seen(&project);
    assert_eq!(
        (
            &seen["status"],
            &seen["tool_kind"],
            &seen["tool_response"],
            &seen["tool_input"]["path"]
        ),
        (
            &json!("completed"),
            &json!("edit"),
            &json!("written"),
            &json!("a.rs")
        )
    );
}

#[test]
fn a_command_agent_whose_calls_no_hook_sees_is_named_before_it_runs() {
    let config = "prompt: GOAL\nagent: a\nagents: { a: { command: \"echo '<promise>COMPLETE</promise>'\" } }\n\
        hooks: { pre_tool: [{ command: \"true\" }] }\n";
    let project = Project::with(config);
    let warning = "creel: warning: the hooks at `pre_tool` see no tool call of a: ";
    let ran = project.run();
    assert!(ran.err.contains(warning), "{}", ran.err);
    let checked = project.creel(&["check", "--strict"]);
    assert!(checked.err.contains(warning), "{}", checked.err);
    assert_eq!(checked.code, 1);
}
