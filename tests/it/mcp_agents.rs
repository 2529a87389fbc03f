//! An agent that takes part in its own supervision: it calls the tools in its turns, and the hooks
//! that it registered continue, stop and escalate it.

use serde_json::{Value, json};

use crate::support::{
    mcp::Raw,
    project::{Project, until},
    terminal::Terminal,
};

/// Calls one tool of the caller's session, and prints the answer.
const CALL: &str = r#"
hello='{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"sh","version":"0"}}}'
{
    printf '%s\n' "$hello" '{"jsonrpc":"2.0","method":"notifications/initialized"}'
    printf '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%s","arguments":%s}}\n' "$1" "$2"
    until grep -q '"id":1' "answer-$1" 2>/dev/null; do sleep 0.02; done
} | "$CREEL" mcp > "answer-$1"
grep '"id":1' "answer-$1"
"#;

/// Has its work on a task judged, and asks for the user.
const ESCALATE: &str = r#"
sh call task_add '{"goal":"Publish","taskId":"publish"}'
sh call hook_register '{"taskId":"publish","hookType":"promise"}'
id=$(sh call iteration_start '{"taskId":"publish","maxIterations":3}' | grep -o 'IT-[0-9a-z-]*' | head -n 1)
sh call iteration_validate "{\"iterationId\":\"$id\",\"agentOutput\":\"I need a key. <promise>ESCALATE</promise>\"}"
"#;

/// A session that trusts its agent's promises, with these turns of the agent.
fn agent(turns: &Value) -> Project {
    let rules = "[{ name: is done, type: file_existence, files: [done] }]";
    let config = format!(
        "prompt: GOAL\nagents: {{ demo: {{ script: scenario.yaml }} }}\nstop: {{ hooks: [promise], rules: {rules} }}\n"
    );
    let call = format!("CREEL='{}'\n{CALL}", env!("CARGO_BIN_EXE_creel"));
    Project::with(&config)
        .file("scenario.yaml", &json!({ "turns": turns }).to_string())
        .file("call", &call)
        .file("escalate", ESCALATE)
}

const REGISTER: &str = r#"sh call hook_register '{"taskId":"s","hookType":"validation"}'"#;

/// Registers its own check and promises too early, then does the work.
fn continued_and_stopped() -> Value {
    json!([
        { "run": REGISTER, "say": "Registered. <promise>COMPLETE</promise>" },
        { "run": "touch done", "say": "Done, I think. <promise>COMPLETE</promise>" },
    ])
}

fn registered(project: &Project) -> Value {
    project.kind("stop_hook_registered")[0]["hook_id"].clone()
}

#[test]
fn a_hook_that_the_agent_registered_rejects_its_promise_until_the_rules_pass() {
    let project = agent(&continued_and_stopped());
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let hook = registered(&project);
    let decided = project.kind("stop_decided");
    let said: Vec<_> = decided
        .iter()
        .map(|decided| (&decided["hook"], &decided["action"]))
        .collect();
    assert_eq!(
        said,
        [
            (&hook, &json!("continue")),
            (&json!("promise"), &json!("complete"))
        ]
    );
    assert!(
        project.prompts()[1]
            .1
            .starts_with("[Validation failed]\n- is done: "),
        "{:?}",
        project.prompts()
    );
    assert_eq!(project.kind("stop_hook_registered")[0]["by"], "agent");
}

#[test]
fn an_agent_is_escalated_by_its_own_loop() {
    let project = agent(&json!([{ "run": "sh escalate", "say": "A person should look." }]));
    let ran = project.run();
    assert_eq!(ran.code, 4, "{}{}", ran.out, ran.err);
    assert!(
        project
            .read("answer-iteration_validate")
            .contains(r#""completionSignal":"ESCALATE""#)
    );
    let gate = &project.kind("gate_opened")[0];
    assert_eq!(gate["about"], "escalation");
    assert_eq!(
        gate["reason"],
        "Agent signaled a need for escalation via <promise>ESCALATE</promise>"
    );
    assert_eq!(project.kind("task_blocked")[0]["task"], "publish");
    assert_eq!(project.outcome().as_deref(), Some("escalated"));
}

#[test]
fn hooks_that_an_agent_registered_still_apply_after_a_kill() {
    let wait = format!("{REGISTER}; until [ -e go ] || [ ! -e creel.yaml ]; do sleep 0.02; done");
    let turns = json!([
        { "run": wait, "say": "Registered. <promise>COMPLETE</promise>" },
        { "run": "touch done", "say": "Again, and done. <promise>COMPLETE</promise>" },
    ]);
    let project = agent(&turns);
    let mut creel = project.start();
    creel.wait_for("stop_hook_registered");
    creel.kill();
    project.write("go", "");
    let resumed = project.creel(&["resume", "s", "--headless"]);
    assert_eq!(resumed.code, 0, "{}{}", resumed.out, resumed.err);
    let decided = project.kind("stop_decided");
    assert!(
        decided[0]["hook"]
            .as_str()
            .is_some_and(|hook| hook.starts_with("HOOK-")),
        "{decided:?}"
    );
    assert_eq!(decided[0]["action"], "continue");
    assert_eq!(project.outcome().as_deref(), Some("complete"));
}

#[test]
fn the_screen_shows_what_an_agent_decides_about_itself() {
    let mut turns = continued_and_stopped();
    turns[1] = json!({ "run": "sh escalate", "say": "A person should look." });
    let project = agent(&turns);
    let mut terminal = Terminal::run(&project, (120, 40));
    terminal.wait_for("the gate", |shown| {
        shown.has("Write to the agent") && shown.has("enter answer")
    });
    let text = terminal.text();
    assert!(
        text.contains("Agent signaled a need for escalation"),
        "{text}"
    );
    terminal.press("3");
    // The rule is still red.
    terminal.wait_for_status("FORCED");
    terminal.press("q");
    assert_eq!(terminal.end(), 5, "{}", terminal.text());
    until("it is on record", || {
        project.outcome().as_deref() == Some("forced")
    });
    let shown = project.creel(&["show", "s"]).out;
    for line in [
        "registered for s",
        "☐ Rule is done",
        "Decision: continue",
        "Decision: escalate",
        "Loop IT-",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
}

#[test]
fn a_self_driven_session_is_shown_on_a_screen_too() {
    let project = Project::with("version: 1\n");
    let mut agent = Raw::greeted(&project);
    agent.does("task_add", &json!({"goal": "x", "taskId": "TASK-abc123"}));
    agent.does(
        "iteration_start",
        &json!({"taskId": "TASK-abc123", "maxIterations": 3}),
    );
    let mut terminal = Terminal::open(&project, &["attach"], (80, 24));
    terminal.wait_for_text("for TASK-abc123 started");
    terminal.press("q");
    terminal.wait_for_text("Leave it running");
    terminal.press("d");
    assert_eq!(terminal.end(), 0, "{}", terminal.text());
    agent.does("task_get", &json!({"taskId": "TASK-abc123"}));
}
