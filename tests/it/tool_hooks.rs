//! Hooks of tool calls as processes: what they read, and what becomes of the agent's request.

use serde_json::{Value, json};

use crate::support::{
    acp_agent,
    peer::Peer,
    project::{Project, until},
};

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

/// An agent that asks `creel hook` about calls, as the agents do to which creel adds it.
const ASKS: &str = r#"ask() {
  printf '{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_use_id":"%s","tool_input":{"command":"%s"}}' "$1" "$2" |
    "$CREEL" hook PreToolUse $3 > "out-$1" 2> "err-$1"
  echo $? > "code-$1"
}
ask 1 'rm -rf build'; ask 2 ls; ask 3 'rm -rf build' --deny-only
echo '<promise>COMPLETE</promise>'"#;

#[test]
fn an_agent_asks_through_creel_hook_before_each_call_and_nobody_else_gets_an_answer() {
    let creel = env!("CARGO_BIN_EXE_creel");
    let config = format!(
        "prompt: GOAL\nagent: a\nagents: {{ a: {{ command: \"CREEL='{creel}' sh asks.sh\", tool_hooks: {{ level: native, args: '{{{{pre_tool}}}}' }} }} }}\n\
         hooks:\n  PreToolUse: [{{ matcher: Bash, hooks: [{{ type: command, command: sh guard.sh, name: guard }}] }}]\n  \
         post_iteration: [{{ command: \"'{creel}' hook PreToolUse < in.json 2> err-hook; echo $? > code-hook\" }}]\n"
    );
    let project = Project::with(&config)
        .file("asks.sh", ASKS)
        .file("in.json", r#"{"tool_name":"Bash"}"#)
        .file("guard.sh", &format!("echo x >> counted\n{GUARD}"));
    let outside = project.creel(&["hook", "PreToolUse"]);
    assert_eq!(outside.code, 2, "there is no session: {}", outside.err);
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}", ran.err);
    let denied: Value = serde_json::from_str(&project.read("out-1")).expect("JSON");
    let specific = &denied["hookSpecificOutput"];
    assert_eq!(
        (
            &specific["permissionDecision"],
            &specific["permissionDecisionReason"]
        ),
        (&json!("deny"), &json!("the hook `guard` denies it: no rm"))
    );
    let answer = |file: &str| project.read(file).trim().to_owned();
    assert_eq!(
        (answer("code-1"), answer("code-2"), answer("out-2")),
        ("0".into(), "0".into(), String::new())
    );
    assert_eq!(
        (answer("code-3"), answer("out-3")),
        ("2".into(), String::new())
    );
    assert!(
        answer("err-3").ends_with("denies it: no rm"),
        "{}",
        answer("err-3")
    );
    assert_eq!(answer("counted").lines().count(), 3, "once for each call");
    assert_eq!(
        (
            project.kind("tool_decided").len(),
            project.kind("gate_opened").len()
        ),
        (3, 0)
    );
    assert_eq!(answer("code-hook"), "2");
    assert!(
        answer("err-hook").contains("only the session's own agent"),
        "{}",
        answer("err-hook")
    );
}

/// A command agent that gets creel's hook in a file.
fn with_files(rest: &str) -> Project {
    let config = format!(
        "prompt: GOAL\nagent: a\nmax_consecutive_errors: 1\nagents: {{ a: {{ command: 'sh agent.sh', tool_hooks: {{ level: native, \
         args: '--plugin-dir {{{{hooks_dir}}}}', files: {{ hooks.json: '{{\"run\": {{{{pre_tool}}}}}}' }} }} }} }}\n\
         hooks:\n  pre_tool: [{{ command: 'true' }}]\n{rest}"
    );
    Project::with(&config).file(
        "agent.sh",
        "cp \"$2/hooks.json\" got.json && echo '<promise>COMPLETE</promise>'",
    )
}

#[test]
fn an_agent_gets_creels_hook_in_a_file_of_the_session() {
    let project = with_files("");
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}", ran.err);
    let got: Value = serde_json::from_str(&project.read("got.json")).expect("JSON");
    let line = got["run"].as_str().unwrap_or_default();
    assert!(line.contains(" hook PreToolUse || "), "{line}");
}

#[test]
fn an_agent_whose_settings_turn_hooks_off_does_not_start() {
    let config = "prompt: GOAL\nagent: a\nmax_consecutive_errors: 1\nagents: { a: { command: 'touch began', own_hooks: [own.json], \
        tool_hooks: { level: native, env: { OWN: '{}' }, disabled_by: [off] } } }\nhooks: { pre_tool: [{ command: 'true' }] }\n";
    for (settings, starts) in [
        (r#"{"off": false}"#, true),
        (r#"{"off": true}"#, false),
        (r#"{"off": true, // a comment"#, false),
    ] {
        let project = Project::with(config).file("own.json", settings);
        project.run();
        assert_eq!(project.root().join("began").exists(), starts, "{settings}");
        if !starts {
            let failed = project.kind("turn_failed")[0]["error"].to_string();
            assert!(failed.contains("`own.json` turns the hooks"), "{failed}");
        }
    }
}

#[test]
fn no_link_leads_creels_files_for_an_agent_elsewhere() {
    let project = with_files(
        "  session_start: [{ command: 'mkdir elsewhere; ln -s ../../../elsewhere .creel/sessions/s/agent-hooks' }]\n",
    );
    let ran = project.run();
    assert_ne!(ran.code, 0, "{}", ran.err);
    let failed = &project.kind("turn_failed")[0]["error"];
    assert!(
        failed
            .as_str()
            .is_some_and(|why| why.contains("the folder is a link")),
        "{failed}"
    );
    assert!(!project.root().join("elsewhere/hooks.json").exists());
}

#[test]
fn a_hook_gets_the_whole_of_a_long_call() {
    let content = format!("{}SECRET{}", "a".repeat(9_000), "b".repeat(9_000));
    let tool = json!({"toolCallId": "1", "title": "Write a.txt", "kind": "edit",
        "rawInput": {"path": "a.txt", "content": content}});
    let turn = json!([
        {"ask": {"tool": tool}},
        {"if_allowed": [{"say": "wrote "}], "else": [{"say": "refused "}]},
        {"say": DONE},
    ]);
    let project = project(
        "  pre_tool: [{ command: sh secrets.sh, name: secrets }]",
        &turn,
    )
    .file(
        "secrets.sh",
        "case \"$(cat)\" in *SECRET*) echo 'a secret' >&2; exit 2;; esac",
    );
    project.run();
    let said = project.kind("agent_said")[0]["text"].to_string();
    assert!(said.contains("refused"), "{said}");
    let asked = &project.kind("permission_asked")[0];
    assert_eq!(
        (&asked["shortened"], &asked["whole"]),
        (&json!(true), &json!(true))
    );
    assert!(
        asked["input"]
            .as_str()
            .is_some_and(|text| text.len() < 5_000)
    );
}

/// An agent whose calls wait for the user, one per answer of `creel hook`.
fn asks_the_user(calls: &str) -> Project {
    let creel = env!("CARGO_BIN_EXE_creel");
    let ask = r#"{"hookSpecificOutput":{"permissionDecision":"ask"}}"#;
    let config = format!(
        "prompt: GOAL\nagent: a\nagents: {{ a: {{ command: \"CREEL='{creel}' sh asks.sh\", tool_hooks: {{ level: native, args: '{{{{pre_tool}}}}' }} }} }}\n\
         gates: {{ timeout: 1h }}\nhooks:\n  pre_tool: [{{ command: \"echo '{}'\", name: asker }}]\n",
        ask.replace('"', "\\\"")
    );
    Project::with(&config).file("asks.sh", calls)
}

const ONE_CALL: &str = r#"call() { printf '{"tool_name":"Bash","tool_use_id":"%s","tool_input":{"command":"ls"}}' "$1"; }
"#;

#[test]
fn waiting_calls_leave_room_for_the_users_commands() {
    let calls = format!(
        "{ONE_CALL}i=0; while [ $i -lt 45 ]; do call $i | \"$CREEL\" hook PreToolUse > out-$i 2> err-$i & i=$((i+1)); done; wait"
    );
    let project = asks_the_user(&calls);
    let mut session = project.start();
    session.wait_for("gate_opened");
    let refused = || {
        let errors = (0..45).map(|nth| project.read(&format!("err-{nth}")));
        errors
            .filter(|error| error.contains("32 calls already wait"))
            .count()
    };
    until("the rest is refused", || refused() == 45 - 32);
    assert_eq!(project.creel(&["status"]).code, 0);
    assert_eq!(
        project.creel(&["gate", "answer", "1", "reject_once"]).code,
        0
    );
    project.does(&["stop", "--now"]);
    session.end();
}

#[test]
fn a_killed_hook_frees_the_gate_for_the_next_call() {
    let calls = format!(
        "{ONE_CALL}call 1 > in; \"$CREEL\" hook PreToolUse < in > out 2> err & p=$!; echo $p > pid; wait $p; echo $? > code\n\
         call 2 | \"$CREEL\" hook PreToolUse > out-2 2> err-2; echo $? > code-2"
    );
    let project = asks_the_user(&calls);
    let mut session = project.start();
    session.wait_for("gate_opened");
    let pid = project.read("pid");
    let killed = std::process::Command::new("kill")
        .args(["-9", pid.trim()])
        .status();
    assert!(killed.is_ok_and(|status| status.success()));
    until("the next call is asked about", || {
        project.kind("gate_opened").len() == 2
    });
    assert_eq!(project.kind("gate_answered")[0]["by"], "policy");
    project.does(&["stop", "--now"]);
    session.end();
}

#[test]
fn a_process_that_the_agent_did_not_start_cannot_speak_for_its_hook() {
    let project = asks_the_user("echo x > began; sleep 60");
    let session = project.start();
    until("the agent works", || !project.read("began").is_empty());
    let started = &project.kind("session_started")[0];
    let mark = format!("{}/turn-1", started["id"].as_str().expect("an id"));
    for verb in ["tool_ended", "decide_tool"] {
        for mark in [None, Some(&mark)] {
            let call = json!({"call": "xyz", "title": "make test", "status": "completed"});
            let request = json!({"v": 1, "do": verb, "mark": mark, "call": call});
            let reply = Peer::of(&project).ask(&request.to_string());
            assert_eq!(reply["code"], "not_the_agent", "{reply}");
        }
    }
    project.does(&["stop", "--now"]);
    session.end();
}

#[test]
fn a_wrapped_agent_gets_no_hook_and_creel_says_so() {
    let config = "prompt: GOAL\nagent: a\nagents: { a: { acp: \"env FOO=1 claude-agent-acp\" } }\n\
        hooks: { pre_tool: [{ command: \"true\" }] }\n";
    let checked = Project::with(config).creel(&["check"]);
    let warning =
        "creel does not add its hook to a, because another program starts `claude-agent-acp`";
    assert!(checked.err.contains(warning), "{}", checked.err);
}

#[test]
fn a_config_with_which_creel_could_not_add_its_hook_is_wrong() {
    for hooks in [
        "{ level: native }",
        "{ level: native, meta: '{\"x\": {{pre_tool}' }",
        "{ level: native, env: { X: 'nojson {{pre_tool}}' } }",
    ] {
        let config =
            format!("prompt: GOAL\nagent: a\nagents: {{ a: {{ acp: x, tool_hooks: {hooks} }} }}\n");
        let checked = Project::with(&config).creel(&["check"]);
        assert_eq!(checked.code, 2, "{hooks}");
        assert!(
            checked.err.contains("adds its hook") || checked.err.contains("add its hook"),
            "{}",
            checked.err
        );
    }
}

#[test]
fn a_long_call_full_of_quotes_is_asked_about() {
    let input = json!({"tool_name": "Write", "tool_use_id": "1",
        "tool_input": {"file_path": "/tmp/x", "content": "\"a\\n\"\n".repeat(80_000)}});
    let calls = "\"$CREEL\" hook PreToolUse < in.json > out 2> err; echo $? > code; echo '<promise>COMPLETE</promise>'";
    let creel = env!("CARGO_BIN_EXE_creel");
    let config = format!(
        "prompt: GOAL\nagent: a\nagents: {{ a: {{ command: \"CREEL='{creel}' sh asks.sh\", tool_hooks: {{ level: native, args: '{{{{pre_tool}}}}' }} }} }}\n\
         hooks:\n  pre_tool: [{{ command: \"wc -c > seen\", name: counts }}]\n"
    );
    let input = input.to_string();
    let project = Project::with(&config)
        .file("asks.sh", calls)
        .file("in.json", &input);
    let ran = project.run();
    assert_eq!(
        (ran.code, project.read("err").as_str()),
        (0, ""),
        "{}",
        ran.err
    );
    let seen: usize = project.read("seen").trim().parse().expect("a number");
    assert!(seen > input.len() / 2, "{seen} of {}", input.len());
}
