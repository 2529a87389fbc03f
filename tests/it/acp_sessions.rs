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
        ran.err
            .starts_with("creel: no user is there to allow edits")
            && ran.err.contains("action: allow }]"),
        "{}",
        ran.err
    );
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

/// What an agent answers that offers two models and an effort.
fn options(model: &str) -> Value {
    json!([
        {"id": "model", "name": "Model", "category": "model", "type": "select", "currentValue": model,
            "options": [{"value": "small", "name": "Small"}, {"value": "large", "name": "Large"}]},
        {"id": "thinking", "name": "Thinking", "category": "thought_level", "type": "select", "currentValue": "low",
            "options": [{"value": "low", "name": "Low"}, {"value": "high", "name": "High"}]},
    ])
}

fn options_set(project: &Project) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    received(project, "session/set_config_option")
        .iter()
        .map(|message| {
            (
                text(&message["params"]["configId"]),
                text(&message["params"]["value"]),
            )
        })
        .collect()
}

#[test]
fn an_agent_gets_its_options_and_a_stronger_model_after_a_retry() {
    let script = json!({
        "on_new_session": [{"result": {"sessionId": "session-1", "configOptions": options("small")}}],
        // This agent answers with nothing, as some do.
        "on": {"session/set_config_option": [{"result": {}}]},
        "turns": [
            [{"say": "First."}],
            [{"say": "Second."}],
            [{"write": {"path": "answer", "content": "42\n"}}, {"say": "<promise>COMPLETE</promise>"}],
        ],
    });
    let project = project(
        "gates: { permissions: allow }\nretries: [{ after: 1, model: Large }]\nchecks: ['grep -q 42 answer']",
        &script,
    );
    let config = project.read("creel.yaml");
    project.write(
        "creel.yaml",
        &config.replace("log\" }", "log\", options: { effort: high } }"),
    );
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}", ran.err);
    let set = options_set(&project);
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(set, [pair("thinking", "high"), pair("model", "large")]);
    let models: Vec<Value> = project
        .kind("prompt_sent")
        .iter()
        .map(|prompt| prompt["model"].clone())
        .collect();
    assert_eq!(models, [Value::Null, Value::Null, json!("Large")]);
    let noted: Vec<(Value, Value)> = project
        .kind("agent_noted")
        .into_iter()
        .map(|note| (note["what"].clone(), note["text"].clone()))
        .collect();
    assert_eq!(
        noted,
        [
            (json!("models"), json!("small\nlarge")),
            (json!("model"), json!("small")),
            (json!("model"), json!("large")),
        ]
    );
    assert!(!ran.out.contains("models"), "{}", ran.out);
}

#[test]
fn a_model_that_the_agent_does_not_offer_fails_the_turn_and_the_message_lists_those_it_does() {
    let script = json!({
        "on_new_session": [{"result": {"sessionId": "session-1", "configOptions": options("small")}}],
        "turns": [[{"say": "<promise>COMPLETE</promise>"}]],
    });
    let project = project("model: huge\nmax_consecutive_errors: 1", &script);
    let ran = project.run();
    assert_eq!(ran.code, 1, "{}", ran.err);
    let failed = project.kind("turn_failed");
    assert_eq!(
        failed[0]["error"],
        "the agent's option `model` has no value `huge`. It has small, large. creel did not send the prompt: correct the \
         config, or `--model`"
    );
}

#[test]
fn an_agent_that_gets_its_model_on_the_command_line_starts_again_for_another_one() {
    let script = json!({
        "capabilities": {"sessionCapabilities": {"resume": {}}},
        "state_file": "state.json",
        "on_start": [{"run": "echo $MODEL >> models"}],
        "turns": [
            [{"say": "First."}],
            [{"say": "Second."}],
            [{"write": {"path": "answer", "content": "42\n"}}, {"say": "<promise>COMPLETE</promise>"}],
        ],
    });
    let project = project(
        "gates: { permissions: allow }\nretries: [{ after: 1, model: large }]\nchecks: ['grep -q 42 answer']",
        &script,
    );
    let config = project.read("creel.yaml");
    let flags = "log\", options: { model: small }, flags: { model: 'MODEL={{value}}' } }";
    project.write("creel.yaml", &config.replace("log\" }", flags));
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(
        received(&project, "session/set_config_option"),
        [] as [Value; 0]
    );
    assert_eq!(received(&project, "session/resume").len(), 1);
    assert_eq!(project.read("models"), "small\nlarge\n");
}

/// An agent that is in a conversation with these options, and whose options can be set.
fn with_options(model: &str, turns: &Value) -> Value {
    json!({
        "capabilities": {"sessionCapabilities": {"resume": {}}},
        "state_file": "state.json",
        "on_new_session": [{"result": {"sessionId": "session-1", "configOptions": options(model)}}],
        "on": {"session/set_config_option": [{"result": {}}]},
        "turns": turns,
    })
}

/// The third prompt of the first iteration goes to the large model.
const STRONGER: &str = "context: keep\nretries: [{ after: 1, model: large }]\n\
    checks: ['echo x >> n; test $(wc -l < n) -ge 3']";

#[test]
fn an_agent_returns_to_its_own_model_after_a_restart_in_the_same_and_in_another_process() {
    // An agent keeps the model of its conversation. Some do not say so.
    for (resumed, set) in [
        (json!({"configOptions": options("large")}), 4),
        (json!({}), 3),
    ] {
        let turns = json!([
            [{"say": "First."}],
            [{"say": "Second."}],
            [{"say": "Third."}],
            [{"stderr": "boom\n"}, {"exit": 3}],
            [{"run": "touch hangs"}, {"hang": true}],
            [{"say": "<promise>COMPLETE</promise>"}],
        ]);
        let mut script = with_options("small", &turns);
        script["on_resume_session"] = json!([{"result": resumed}]);
        let project = project(STRONGER, &script);
        let creel = project.start();
        until("the fifth turn", || project.root().join("hangs").exists());
        creel.kill();
        let resumed = project.creel(&["resume", "s", "--headless"]);
        assert_eq!(resumed.code, 0, "{}{}", resumed.out, resumed.err);
        let models: Vec<String> = options_set(&project)
            .into_iter()
            .map(|(_, model)| model)
            .collect();
        assert_eq!(models, ["large", "small", "small", "small"][..set]);
        assert_eq!(received(&project, "session/resume").len(), 2);
    }
}

#[test]
fn an_agent_that_does_not_list_its_own_model_keeps_the_other_one_with_a_warning() {
    let script = with_options(
        "of-its-own",
        &json!([
            [{"say": "First."}],
            [{"say": "Second."}],
            [{"say": "Third."}],
            [{"say": "<promise>COMPLETE</promise>"}],
        ]),
    );
    let project = project(STRONGER, &script);
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}", ran.err);
    let warned: Vec<Value> = project.kind("warning");
    let about = |record: &&Value| {
        record["text"]
            .to_string()
            .contains("own model of-its-own, so creel cannot return to it. It continues with large")
    };
    assert_eq!(warned.iter().filter(about).count(), 1, "{warned:?}");
}

#[test]
fn options_that_an_agent_sends_right_after_its_answer_are_newer() {
    let update =
        json!({"sessionUpdate": "config_option_update", "configOptions": options("large")});
    let mut script = with_options("small", &json!([[{"say": "<promise>COMPLETE</promise>"}]]));
    script["on_new_session"] = json!([
        {"result": {"sessionId": "session-1", "configOptions": options("small")}},
        {"update": update},
    ]);
    let project = project("model: large", &script);
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}", ran.err);
    let noted = project.kind("agent_noted");
    let last = noted.iter().rfind(|note| note["what"] == "model");
    assert_eq!(last.expect("a note")["text"], "large", "{noted:?}");
}

#[test]
fn the_options_of_an_agent_are_listed_with_their_values() {
    let script = json!({
        "agent_info": {"name": "my-agent", "version": "1.2"},
        "capabilities": {"sessionCapabilities": {"resume": {}, "fork": {}}},
        "on_new_session": [{"result": {"sessionId": "session-1", "configOptions": options("small")}}],
        "turns": [],
    });
    let project = project("model: not-there", &script);
    let listed = project.creel(&["agents", "a"]);
    assert_eq!(
        listed.code, 2,
        "a config's agent needs trust: {}",
        listed.out
    );
    assert_eq!(project.creel(&["trust"]).code, 0);
    let listed = project.creel(&["agents", "a"]);
    assert_eq!(
        listed.out,
        "a · my-agent · 1.2\n  model   small (now), large\n  effort  low (now), high\n"
    );
    assert!(
        listed.err.contains("options: { model: large }"),
        "{}",
        listed.err
    );
    let json = project.creel(&["agents", "a", "--json"]);
    let json: Value = serde_json::from_str(&json.out).expect("JSON");
    assert_eq!(
        (&json["resume"], &json["fork"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(
        json["options"][1]["values"][1],
        json!({"name": "high", "title": "High"})
    );
    assert_eq!(project.creel(&["agents", "nobody"]).code, 2);
}

#[test]
fn an_agent_without_options_says_so_and_one_that_does_not_start_says_why() {
    let project = project("", &json!({"turns": []}));
    assert_eq!(project.creel(&["trust"]).code, 0);
    let listed = project.creel(&["agents", "a"]);
    assert_eq!(listed.out, "a · acp-agent · 1\n  offers no options\n");
    project.write(
        "script.json",
        "{\"on_start\": [{\"stderr\": \"no key\\n\"}, {\"exit\": 3}]}",
    );
    let listed = project.creel(&["agents", "a"]);
    assert_eq!(listed.code, 1);
    assert!(
        listed.err.contains("the agent `a` does not work") && listed.err.contains("no key"),
        "{}",
        listed.err
    );
}

#[test]
fn creel_says_what_it_understands_and_closes_the_conversation_of_an_agent_that_can() {
    let script = json!({
        "capabilities": {"sessionCapabilities": {"close": {}}},
        "on": {"session/close": [{"result": {}}]},
        "turns": [[
            {"update": {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Terminal", "name": "Bash", "kind": "execute",
                "status": "pending", "rawInput": {}}},
            {"update": {"sessionUpdate": "tool_call_update", "toolCallId": "t", "title": "cargo test", "rawInput": {"command": "cargo test"}}},
            {"update": {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed"}},
            {"say": "<promise>COMPLETE</promise>"},
        ]],
    });
    let project = project("", &script);
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}", ran.err);
    let [hello] = &received(&project, "initialize")[..] else {
        panic!("one start")
    };
    let session = &hello["params"]["clientCapabilities"]["session"];
    assert!(
        session["notices"].is_object()
            && session["compaction"].is_object()
            && session["configOptions"]["boolean"].is_object(),
        "{session}"
    );
    assert_eq!(received(&project, "session/close").len(), 1);
    let [called] = &project.kind("tool_called")[..] else {
        panic!("one call")
    };
    assert_eq!(
        (&called["title"], &called["name"]),
        (&json!("cargo test"), &json!("Bash"))
    );
    let shown = project.creel(&["show"]);
    assert!(
        shown.out.contains("$ cargo test") && !shown.out.contains("Terminal"),
        "{}",
        shown.out
    );
}

#[test]
fn no_agent_of_an_untrusted_config_is_started_to_list_its_options() {
    let config = "agents:\n  'a,b': { acp: 'touch owned; cat' }\n  ' c': { acp: 'touch owned; cat' }\n  \
        claude: { flags: { model: '; touch owned; : {{value}}' }, options: { model: x } }\n";
    let project = Project::with(config);
    for name in ["a,b", " c"] {
        assert_eq!(project.creel(&["agents", name]).code, 2);
    }
    assert!(!project.root().join("owned").exists());
}

#[test]
fn listing_the_options_of_one_agent_asks_about_all_that_the_config_runs() {
    let config = "agent: b\nmodel: large\nchecks: ['touch checked']\nagents:\n  \
        a: { acp: 'touch owned; cat' }\n  b: { command: 'touch other' }\n";
    let project = Project::with(config);
    let all = ["touch owned", "touch other", "touch checked"];
    let asked = project.creel(&["agents", "a"]);
    assert_eq!(asked.code, 2);
    for command in all {
        assert!(asked.err.contains(command), "{command}: {}", asked.err);
    }
    let listed = project.creel(&["agents", "b"]);
    assert_eq!(listed.code, 0, "nothing starts: {}", listed.err);
    let trusted = project.creel(&["trust"]);
    for command in all {
        assert!(trusted.err.contains(command), "{command}: {}", trusted.err);
    }
    assert!(!project.root().join("owned").exists());
}

/// An agent that asks as Claude does, and says what it gets.
fn asks_a_question() -> Value {
    let form = json!({"type": "object", "properties": {
        "question_0": {"type": "string", "title": "Database", "oneOf": [
            {"const": "Postgres", "title": "Postgres", "description": "a server"},
            {"const": "SQLite", "title": "SQLite"},
        ]},
        "question_0_custom": {"type": "string", "title": "Other"},
    }});
    let request = json!({"method": "elicitation/create", "params": {
        "sessionId": "{session}", "mode": "form", "message": "Which database?", "requestedSchema": form}});
    json!({"turns": [[{"request": request}, {"say": " <promise>COMPLETE</promise>"}]]})
}

#[test]
fn a_question_is_answered_from_another_terminal() {
    let project = project("", &asks_a_question());
    let ran = project.creel(&["run", "--detach", "--trust", "-s", "s"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    until("the gate opens", || !project.kind("gate_opened").is_empty());
    let listed = project.creel(&["gate", "list", "-s", "s"]).out;
    assert!(
        listed.contains("question: the agent asks: Which database?")
            && listed.contains("answer Postgres: Postgres: a server"),
        "{listed}"
    );
    let wrong = project.creel(&["gate", "answer", "-s", "s", "1", "allow_once"]);
    assert_ne!(wrong.code, 0);
    let answer = project.creel(&["gate", "answer", "-s", "s", "1", "answer", "sqlite"]);
    assert_eq!(answer.code, 0, "{}", answer.err);
    until("it ends", || !project.kind("session_ended").is_empty());
    let got = agent_text(&project);
    assert!(
        got.contains(r#""action":"accept""#) && got.contains(r#""question_0":"SQLite""#),
        "{got}"
    );
    let shown = project.creel(&["show", "s"]).out;
    assert!(shown.contains("Question: Which database?"), "{shown}");
    assert!(
        shown.contains("Answered: Which database? · “SQLite”"),
        "{shown}"
    );
}

#[test]
fn a_question_in_an_unattended_session_is_declined_or_waits() {
    let declined = project("", &asks_a_question());
    assert_eq!(declined.run().code, 0);
    assert!(
        agent_text(&declined).contains("No user is there"),
        "{}",
        agent_text(&declined)
    );
    let escalated = project("gates: { questions: escalate }", &asks_a_question());
    let ran = escalated.run();
    assert_eq!(ran.code, 4, "{}", ran.err);
    assert!(ran.err.contains("Which database?"), "{}", ran.err);
    assert!(escalated.kind("gate_answered").is_empty());
}

#[test]
fn an_agent_that_cancels_its_turn_after_a_declined_question_has_ended_it() {
    let mut script = asks_a_question();
    let ask = script["turns"][0][0].clone();
    let mut plain = ask;
    plain["request"]["params"]["requestedSchema"]["properties"]
        .as_object_mut()
        .expect("fields")
        .remove("question_0_custom");
    script["turns"] =
        json!([[plain, {"end": "cancelled"}], [{"say": "<promise>COMPLETE</promise>"}]]);
    let project = project("", &script);
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(project.kind("turn_failed").is_empty());
}

#[test]
fn a_question_of_an_unknown_kind_is_declined_with_a_warning() {
    let mut script = asks_a_question();
    script["turns"][0][0]["request"]["params"]["requestedSchema"]["properties"] =
        json!({"a": {"type": "array", "items": {"type": "object"}}});
    let project = project("", &script);
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}", ran.err);
    let warned = project.kind("warning");
    assert!(
        warned
            .iter()
            .any(|record| record["text"].to_string().contains("Which database?")),
        "{warned:?}{}",
        agent_text(&project)
    );
}

#[test]
fn one_answer_allows_every_edit_in_the_project_and_nothing_else() {
    let ask = |title: &str, kind: &str, input: Value| json!({"ask": {"tool": {"toolCallId": title, "title": title, "kind": kind, "rawInput": input}}});
    let say = json!({"if_allowed": [{"say": "yes "}], "else": [{"say": "no "}]});
    let script = json!({"turns": [[
        // As goose asks: the path is only in the input.
        ask("write", "other", json!({"path": "src/a.rs", "content": "a"})), say,
        ask("edit", "other", json!({"path": "src/b.rs", "before": "b", "after": "c"})), say,
        ask("write", "other", json!({"path": "/etc/creel-test", "content": "a"})), say,
        {"say": "<promise>COMPLETE</promise>"},
    ]]});
    let project = project("", &script);
    let ran = project.creel(&["run", "--detach", "--trust", "-s", "s"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    until("the first gate", || project.kind("gate_opened").len() == 1);
    assert_eq!(
        project.kind("gate_opened")[0]["choices"],
        json!(["allow_once", "allow_edits", "reject_once", "cancel"])
    );
    let answer = project.creel(&["gate", "answer", "-s", "s", "1", "allow_edits"]);
    assert_eq!(answer.code, 0, "{}", answer.err);
    until("the gate about the other folder", || {
        project.kind("gate_opened").len() == 3
    });
    let answers = project.kind("gate_answered");
    assert_eq!(answers.len(), 2, "{answers:?}");
    assert_eq!(answers[1]["by"], "policy");
    assert_eq!(
        project.kind("gate_opened")[2]["choices"],
        json!(["allow_once", "reject_once", "cancel"])
    );
    let answer = project.creel(&["gate", "answer", "-s", "s", "3", "reject_once"]);
    assert_eq!(answer.code, 0, "{}", answer.err);
    until("it ends", || !project.kind("session_ended").is_empty());
    assert!(
        agent_text(&project).starts_with("yes yes no "),
        "{}",
        agent_text(&project)
    );
}
