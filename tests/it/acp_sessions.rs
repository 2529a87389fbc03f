//! Whole sessions with an agent that speaks the Agent Client Protocol.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{
    acp_agent, lives,
    project::{Project, eventually_in, until},
};

/// A project whose agent follows this script, with more config.
fn project(more: &str, script: &Value) -> Project {
    let agent = acp_agent();
    let config = format!(
        "prompt: GOAL\nagent: a\nagents: {{ a: {{ acp: \"'{}' script.json log\" }} }}\n{more}\n",
        agent.display()
    );
    Project::with(&config).file("script.json", &script.to_string())
}

fn agent_text(project: &Project) -> String {
    project
        .kind("agent_said")
        .iter()
        .filter_map(|record| record["text"].as_str().map(str::to_owned))
        .collect()
}

fn received(project: &Project, method: &str) -> Vec<Value> {
    let log = project.read("log");
    let messages = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    messages
        .filter(|message| message["method"] == method)
        .collect()
}

#[test]
fn a_blocked_stop_goes_back_as_the_next_prompt_of_the_same_conversation() {
    let script = json!({"turns": [
        [{"say": "I write it.\n"}, {"ask": {"tool": {"toolCallId": "w", "title": "Write answer", "kind": "edit"}}},
            {"if_allowed": [{"write": {"path": "answer", "content": "41\n"}}]}],
        [{"say": "I mend it.\n"}, {"write": {"path": "answer", "content": "42\n"}}, {"say": " <promise>COMPLETE</promise>"}],
    ]});
    let hooks = "gates: { permissions: allow }\nhooks: { stop: [{ name: check, command: 'grep -q 42 answer || { echo \"answer is not 42\" >&2; exit 2; }' }] }";
    let project = project(hooks, &script);
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}", ran.err);
    let prompts = project.prompts();
    assert_eq!(prompts[0], ("iteration".into(), "GOAL".into()));
    let feedback = "[Hook feedback]: check `check` failed: `grep -q 42 answer || { echo \"answer is not 42\" >&2; exit 2; }`, \
                    exit 2\nanswer is not 42";
    assert_eq!(prompts[1], ("feedback".into(), feedback.into()));
    let sessions: Vec<Value> = received(&project, "session/prompt")
        .iter()
        .map(|message| message["params"]["sessionId"].clone())
        .collect();
    assert_eq!(sessions, [json!("session-1"), json!("session-1")]);
    assert_eq!(project.read("answer"), "42\n");
    assert_eq!(project.kind("retry_counted").len(), 1);
    let [gate] = &project.kind("gate_opened")[..] else {
        panic!("one gate")
    };
    assert_eq!(
        (&gate["about"], &gate["choices"][0]),
        (&json!("permission"), &json!("allow_once"))
    );
    let [answer] = &project.kind("gate_answered")[..] else {
        panic!("one answer")
    };
    assert_eq!(
        (&answer["choice"], &answer["by"]),
        (&json!("allow_once"), &json!("policy"))
    );
    let written: Vec<Value> = project
        .kind("tool_called")
        .into_iter()
        .filter(|call| call["tool"] == "edit")
        .collect();
    assert!(
        written.iter().any(|call| call["diff"]
            .as_str()
            .is_some_and(|diff| diff.contains("+41"))),
        "{written:?}"
    );
}

#[test]
fn fresh_contexts_are_new_sessions_in_one_process_and_kept_ones_are_not() {
    let script = json!({"on_start": [{"write_pid": "pid"}], "turns": [[{"say": "working"}]]});
    let fresh = project("max_iterations: 2", &script);
    assert_eq!(fresh.run().code, 3);
    assert_eq!(
        (
            received(&fresh, "initialize").len(),
            received(&fresh, "session/new").len()
        ),
        (1, 2)
    );
    let kept = project("max_iterations: 2\ncontext: keep", &script);
    assert_eq!(kept.run().code, 3);
    assert_eq!(
        (
            received(&kept, "session/new").len(),
            received(&kept, "session/prompt").len()
        ),
        (1, 2)
    );
}

#[test]
fn denied_requests_stay_denied_and_rules_come_first() {
    let ask = |title: &str, path: &str| json!({"ask": {"tool": {"toolCallId": title, "title": title, "kind": "edit", "locations": [{"path": path}]}}});
    let say = json!({"if_allowed": [{"say": "yes "}], "else": [{"say": "no "}]});
    let script = json!({"turns": [[ask("a", "src/a.rs"), say, ask("b", "src/../b.rs"), say, {"say": "<promise>COMPLETE</promise>"}]]});
    let rules = "gates: { permissions: deny }\npermissions: [{ kind: edit, path: 'src/**', action: allow }]";
    let project = project(rules, &script);
    assert_eq!(project.run().code, 0);
    assert!(
        agent_text(&project).starts_with("yes no "),
        "{}",
        agent_text(&project)
    );
}

#[test]
fn an_unattended_request_ends_the_run_and_its_turn_is_sent_again() {
    let script = json!({"turns": [[{"ask": {}}, {"say": "<promise>COMPLETE</promise>"}]], "on_start": [{"write_pid": "pid"}]});
    let project = project("", &script);
    let ran = project.run();
    assert_eq!(ran.code, 4, "{}", ran.err);
    assert!(
        ran.err.contains("permission") && ran.err.contains("gates.permissions"),
        "{}",
        ran.err
    );
    let agent: i32 = eventually_in(&project.root().join("pid"))
        .parse()
        .expect("a pid");
    assert!(!lives(agent));
    let again = project.creel(&["resume", "s", "--headless"]);
    assert_eq!(again.code, 4, "{}", again.err);
    assert_eq!(project.prompts().len(), 2, "the turn was sent again");
    assert_eq!(
        project
            .kind("gate_answered")
            .iter()
            .map(|r| r["choice"].clone())
            .collect::<Vec<_>>(),
        [json!("cancel")]
    );
}

/// An agent with children, one of which left its group.
fn with_children(last: &Value) -> Value {
    json!({"turns": [[
        {"write_pid": "agent.pid"},
        {"spawn": "echo $$ > child.pid; exec sleep 1000"},
        {"spawn_away": "echo $$ > away.pid; exec sleep 1000"},
        {"wait_file": "child.pid"}, {"wait_file": "away.pid"}, {"say": "ready\n"}, last,
    ]]})
}

fn pids(project: &Project) -> Vec<i32> {
    let pid = |name: &str| {
        eventually_in(&project.root().join(name))
            .parse()
            .expect("a pid")
    };
    ["agent.pid", "child.pid", "away.pid"].map(pid).to_vec()
}

#[test]
fn no_agent_process_is_left_however_the_session_ends() {
    for (way, last) in [
        ("normal", json!({"say": "<promise>COMPLETE</promise>"})),
        ("interrupt", json!({"hang": true})),
        ("timeout", json!({"hang": true})),
    ] {
        let limit = if way == "timeout" {
            "turn_timeout: 5\nmax_iterations: 1"
        } else {
            "max_iterations: 1"
        };
        let project = project(limit, &with_children(&last));
        let creel = project.start();
        let pids = pids(&project);
        if way == "interrupt" {
            creel.signal(Signal::INT);
        }
        creel.end();
        assert!(!pids.iter().any(|pid| lives(*pid)), "{way}: {pids:?}");
    }
}

#[test]
fn a_killed_session_is_resumed_in_the_conversation_that_it_was_in() {
    let script = json!({"capabilities": {"loadSession": true}, "state_file": "state.json",
        "on_load_session": [{"say": "an old answer"}],
        "turns": [[{"say": "first"}], {"when": "feedback", "do": [{"say": "begun\n"}, {"once": [
            {"spawn": "echo $$ > child.pid; exec sleep 1000"}, {"wait_file": "child.pid"}, {"hang": true},
        ], "else": [{"say": "fixed <promise>COMPLETE</promise>"}]}]}]});
    let project = project(
        "hooks: { stop: [{ command: 'test -e fixed || { touch fixed; echo red >&2; exit 2; }' }] }",
        &script,
    );
    let creel = project.start();
    let child: i32 = eventually_in(&project.root().join("child.pid"))
        .parse()
        .expect("a pid");
    until("the first words", || agent_text(&project).contains("begun"));
    creel.kill();
    let resumed = project.creel(&["resume", "s", "--headless"]);
    assert_eq!(resumed.code, 0, "{}{}", resumed.out, resumed.err);
    assert!(!lives(child), "what the dead creel left was ended first");
    let [load] = &received(&project, "session/load")[..] else {
        panic!("{}", project.read("log"))
    };
    assert_eq!(load["params"]["sessionId"], "session-1");
    assert!(
        !agent_text(&project).contains("an old answer"),
        "what is replayed is not told again"
    );
    let feedback = project
        .prompts()
        .into_iter()
        .filter(|(reason, _)| reason == "feedback")
        .count();
    assert_eq!(
        (feedback, project.kind("retry_counted").len()),
        (2, 1),
        "the same turn, at the same count"
    );
}

#[test]
fn a_failed_turn_runs_on_error_and_the_next_iteration_has_a_working_agent() {
    let script = json!({"state_file": "state.json", "turns": [
        [{"say": "I"}, {"stderr": "boom\n"}, {"exit": 3}], [{"say": "<promise>COMPLETE</promise>"}],
    ]});
    let project = project(
        "hooks: { on_error: [{ command: 'printf \"%s\" {{error}} > error' }] }",
        &script,
    );
    assert_eq!(project.run().code, 0);
    assert!(
        project.read("error").contains("boom"),
        "{}",
        project.read("error")
    );
    assert_eq!(received(&project, "initialize").len(), 2);
}

#[test]
fn a_rate_limit_waits_as_long_as_it_says() {
    let script = json!({"turns": [
        [{"error": {"code": 429, "message": "rate limit exceeded, retry after 1 second"}}],
        [{"say": "<promise>COMPLETE</promise>"}],
    ]});
    let project = project("", &script);
    assert_eq!(project.run().code, 0);
    let [limit] = &project.kind("limit_reached")[..] else {
        panic!("one limit")
    };
    assert_eq!(
        (&limit["action"], &limit["resets_at"]),
        (&json!("wait"), &limit["until"])
    );
    assert!(project.kind("prompt_sent")[1]["at"].as_str() >= limit["until"].as_str());
    assert_eq!(project.kind("iteration_started").len(), 1);
}

#[test]
fn tokens_and_cost_are_reported_per_turn_and_a_budget_ends_the_session() {
    let cost = |amount: f64| {
        let cost = json!({"amount": amount, "currency": "USD"});
        json!({"update": {"sessionUpdate": "usage_update", "used": 10, "size": 100, "cost": cost}})
    };
    let end = json!({"end": "end_turn", "usage": {"totalTokens": 60, "inputTokens": 50, "outputTokens": 10}});
    let script =
        json!({"turns": [[{"say": "a"}, cost(0.5), end], [{"say": "b"}, cost(0.75), end]]});
    let project = project("budget: { tokens: 100 }\ncontext: keep", &script);
    assert_eq!(project.run().code, 3);
    let spent: Vec<(Value, Value)> = project
        .kind("turn_ended")
        .iter()
        .map(|record| (record["tokens"].clone(), record["cost"].clone()))
        .collect();
    assert_eq!(spent, [(json!(60), json!(0.5)), (json!(60), json!(0.25))]);
    let [gate] = &project.kind("gate_opened")[..] else {
        panic!("one gate")
    };
    assert_eq!(gate["about"], "budget");
    assert_eq!(project.outcome().as_deref(), Some("limit"));
}

#[test]
fn a_tool_call_that_was_cut_with_its_turn_is_not_shown_as_running_for_ever() {
    let call = json!({"tool": {"toolCallId": "c", "title": "Long work", "status": "in_progress"}});
    let project = project(
        "max_iterations: 1",
        &json!({"turns": [[call, {"exit": 3}]]}),
    );
    project.run();
    let [update] = &project.kind("tool_updated")[..] else {
        panic!("one update")
    };
    assert_eq!(
        (&update["call"], &update["status"]),
        (&json!("c"), &json!("failed"))
    );
}
