//! The tools of an agent: `creel mcp` with clients of all kinds.

use std::{
    collections::BTreeSet,
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

use expect_test::expect;
use serde_json::{Value, json};

use crate::support::{
    acp_agent,
    mcp::{Raw, Said, Tools, call},
    project::{Project, Started, until},
};

/// A session whose agent works until the file `go` exists.
pub(crate) fn working() -> (Project, Started) {
    let project = idle();
    let mut session = project.start();
    session.wait_for("prompt_sent");
    (project, session)
}

/// The project of such a session.
fn idle() -> Project {
    configured("")
}

/// The same, with more config.
pub(crate) fn configured(more: &str) -> Project {
    let turn = "  - { say: '<promise>COMPLETE</promise>', run: 'until [ -e go ] || [ ! -e creel.yaml ]; do sleep 0.02; done' }\n";
    let scenario = format!("turns:\n{turn}otherwise: {{ say: '<promise>COMPLETE</promise>' }}\n");
    let config = format!("prompt: GOAL\nagents: {{ demo: {{ script: scenario.yaml }} }}\n{more}");
    Project::with(&config).file("scenario.yaml", &scenario)
}

pub(crate) fn ends(project: &Project, session: Started) {
    project.write("go", "");
    assert_eq!(session.end().code, 0);
}

/// The named fields of a value.
pub(crate) fn facts(value: &Value, names: &[&str]) -> Value {
    names.iter().map(|name| value[name].clone()).collect()
}

// The list of tools

#[tokio::test]
async fn every_tool_describes_its_input_output_and_effect() {
    let (project, session) = working();
    let tools = Tools::of(&project).await;
    let listed = tools.peer().list_all_tools().await.expect("a list");
    let mut table = String::new();
    let page = include_str!("../../docs/reference-mcp.md");
    for tool in listed {
        let tool = serde_json::to_value(tool).expect("JSON");
        let fields = tool["inputSchema"]["properties"]
            .as_object()
            .into_iter()
            .flat_map(|fields| fields.keys());
        for word in fields.map(String::as_str).chain(tool["name"].as_str()) {
            assert!(
                page.contains(&format!("`{word}`")),
                "the page of tools has no `{word}`"
            );
        }
        let (input, output) = (&tool["inputSchema"], &tool["outputSchema"]);
        assert!(
            tool["description"]
                .as_str()
                .is_some_and(|text| text.len() > 20),
            "{tool}"
        );
        assert_eq!(
            (&input["type"], &input["additionalProperties"]),
            (&json!("object"), &json!(false)),
            "{tool}"
        );
        assert_eq!(output["type"], "object", "{tool}");
        for schema in [input, output] {
            assert!(
                !schema.to_string().contains("\"format\":"),
                "clients that check formats refuse this: {schema}"
            );
            let undescribed = |field: &&Value| field["description"].is_null();
            let fields = schema["properties"].as_object();
            assert_eq!(
                fields
                    .into_iter()
                    .flat_map(|fields| fields.values())
                    .find(undescribed),
                None,
                "{tool}"
            );
        }
        let hint = |name: &str, word: &'static str| {
            if tool["annotations"][name] == true {
                word
            } else {
                ""
            }
        };
        let hints = [
            hint("readOnlyHint", " reads"),
            hint("destructiveHint", " ends"),
            hint("idempotentHint", " once"),
        ];
        let required = input["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str);
        let name = tool["name"].as_str().expect("a name");
        table += &format!(
            "{name}({}){}\n",
            required.collect::<Vec<_>>().join(", "),
            hints.concat()
        );
    }
    expect![[r#"
        task_add(goal)
        task_list() reads once
        task_get(taskId) reads once
        task_start(taskId) once
        task_complete(taskId) once
        task_block(taskId, reason)
        task_depend(taskId, dependsOn) once
        hook_register(taskId)
        hook_evaluate(iterationId)
        hook_list(taskId) reads once
        hook_clear(taskId) once
        iteration_start(taskId)
        iteration_validate(iterationId)
        iteration_next(iterationId)
        iteration_complete(iterationId) once
        session_status() reads once
        session_complete() once
    "#]]
    .assert_eq(&table);
    tools.close().await;
    ends(&project, session);
}

// The task graph

#[tokio::test]
async fn an_agent_adds_starts_blocks_and_completes_tasks() {
    let (project, session) = working();
    let tools = Tools::of(&project).await;
    let parser = json!({"goal": "Write the parser", "labels": ["rust"], "priority": 1, "deliverables": ["src/parser.rs"]});
    let parser = tools.does("task_add", parser).await;
    let known = facts(
        &parser,
        &[
            "id",
            "goal",
            "state",
            "priority",
            "labels",
            "deliverables",
            "dependencies",
        ],
    );
    assert_eq!(
        known,
        json!([
            "task_1",
            "Write the parser",
            "ready",
            1,
            ["rust"],
            ["src/parser.rs"],
            []
        ])
    );
    let docs = json!({"goal": "Document it", "task_id": "docs", "depends_on": ["task_1"], "parentId": "task_1"});
    let docs = tools.does("task_add", docs).await;
    assert_eq!(
        facts(&docs, &["id", "state", "parent", "openDependencies"]),
        json!(["docs", "created", "task_1", 1])
    );

    let started = tools
        .does(
            "task_start",
            json!({"taskId": "task_1", "context": "top down"}),
        )
        .await;
    assert_eq!(started["state"], "active");
    let blocked = json!({"taskId": "task_1", "reason": "which headings?", "requiredKnowledge": ["the format"]});
    let blocked = tools.does("task_block", blocked).await;
    assert_eq!(
        facts(&blocked, &["state", "reason"]),
        json!(["blocked", "which headings?"])
    );
    let done = json!({"taskId": "task_1", "result": "it parses", "artifacts": ["src/parser.rs"]});
    let done = tools.does("task_complete", done).await;
    assert_eq!(
        facts(&done, &["state", "result", "artifacts"]),
        json!(["completed", "it parses", ["src/parser.rs"]])
    );

    let listed = tools.does("task_list", json!({"state": "completed"})).await;
    assert_eq!(
        (&listed["taskCount"], &listed["tasks"][0]["id"]),
        (&json!(1), &json!("task_1"))
    );
    assert_eq!(
        tools
            .does("task_list", json!({"labels": ["rust"], "type": null}))
            .await["taskCount"],
        1
    );
    assert_eq!(
        tools.does("task_list", json!({})).await["tasks"][1]["id"],
        "docs"
    );
    assert_eq!(
        tools.does("task_get", json!({"taskId": "task_1"})).await,
        done
    );
    for kind in [
        "task_created",
        "task_started",
        "task_blocked",
        "task_completed",
    ] {
        assert_eq!(project.kind(kind)[0]["by"], "mcp", "{kind}");
    }
    tools.close().await;
    ends(&project, session);
}

#[tokio::test]
async fn dependencies_come_and_go_and_a_cycle_is_named() {
    let (project, session) = working();
    let tools = Tools::of(&project).await;
    for id in ["a", "b", "c"] {
        tools
            .does("task_add", json!({"goal": id, "taskId": id}))
            .await;
    }
    let b = tools
        .does("task_depend", json!({"taskId": "b", "dependsOn": "a"}))
        .await;
    assert_eq!(
        facts(&b, &["state", "dependencies"]),
        json!(["created", ["a"]])
    );
    tools
        .does("task_depend", json!({"task_id": "c", "depends_on": "b"}))
        .await;
    let why = tools
        .fails("task_depend", json!({"taskId": "a", "dependsOn": "c"}))
        .await;
    assert_eq!(
        why,
        "a cannot depend on c: that would be a cycle, a → c → b → a"
    );
    let b = tools
        .does(
            "task_depend",
            json!({"taskId": "b", "dependsOn": "a", "remove": true}),
        )
        .await;
    assert_eq!(facts(&b, &["state", "dependencies"]), json!(["ready", []]));
    tools.close().await;
    ends(&project, session);
}

#[tokio::test]
async fn errors_advise_the_agent_what_to_do_next() {
    let (project, session) = working();
    let tools = Tools::of(&project).await;
    let why = tools.fails("task_get", json!({"taskId": "x"})).await;
    assert_eq!(
        why,
        "there is no task x\nno tasks yet; add one with task_add"
    );
    tools.does("task_add", json!({"goal": "one"})).await;
    tools
        .does("task_add", json!({"goal": "two", "dependsOn": ["task_1"]}))
        .await;
    for (tool, arguments) in [
        ("task_get", json!({"taskId": "x"})),
        ("task_start", json!({"taskId": "x"})),
        ("task_block", json!({"taskId": "x", "reason": "y"})),
        ("task_depend", json!({"taskId": "task_1", "dependsOn": "x"})),
        ("task_add", json!({"goal": "y", "dependsOn": ["x"]})),
    ] {
        let why = tools.fails(tool, arguments).await;
        assert_eq!(
            why, "there is no task x\nuse one of: task_1 (ready), task_2 (created)",
            "{tool}"
        );
    }
    let why = tools.fails("task_complete", json!({"taskId": "x"})).await;
    assert!(
        why.ends_with("\nuse one of: task_1 (ready), task_2 (created)"),
        "{why}"
    );
    let why = tools.fails("task_start", json!({"taskId": "task_2"})).await;
    assert_eq!(
        why,
        "task_2 depends on a task that is not completed\nit depends on: task_1 (ready)"
    );
    let why = tools
        .fails("task_block", json!({"taskId": "task_1", "reason": " "}))
        .await;
    assert_eq!(why, "a reason is needed to block task_1");
    tools.does("task_start", json!({"taskId": "task_1"})).await;
    assert_eq!(
        tools.fails("task_start", json!({"taskId": "task_1"})).await,
        "task_1 is already active"
    );
    for n in 0..30 {
        tools
            .does(
                "task_add",
                json!({"goal": "more", "taskId": format!("more_{n}")}),
            )
            .await;
    }
    let why = tools.fails("task_get", json!({"taskId": "x"})).await;
    assert!(
        why.ends_with("more_17 (ready) and 12 more; list them with task_list"),
        "{why}"
    );

    let why = tools.rejects("task_get", json!({})).await;
    assert_eq!(why, "task_get: missing field `taskId`");
    let why = tools.rejects("task_add", json!({"goal": 5})).await;
    assert_eq!(
        why,
        "task_add: `goal`: invalid type: integer `5`, expected a string"
    );
    let why = tools.rejects("task_list", json!({"state": "open"})).await;
    assert!(
        why.contains("unknown variant `open`, expected one of `created`, `ready`, `active`"),
        "{why}"
    );
    let why = tools
        .rejects("task_add", json!({"goal": "x", "dependson": ["task_1"]}))
        .await;
    assert!(why.contains("unknown field `dependson`"), "{why}");
    let why = tools.rejects("task_dance", json!({})).await;
    assert!(
        why.starts_with("unknown tool `task_dance`; use one of: task_add, task_list"),
        "{why}"
    );
    tools.close().await;
    ends(&project, session);
}

#[tokio::test]
async fn the_session_reports_its_state() {
    let (project, session) = working();
    let tools = Tools::of(&project).await;
    tools.does("task_add", json!({"goal": "one"})).await;
    let status = tools.does("session_status", json!({})).await;
    let known = facts(
        &status,
        &[
            "session",
            "state",
            "iteration",
            "maxIterations",
            "retries",
            "maxRetries",
            "gate",
        ],
    );
    assert_eq!(known, json!(["s", "running", 1, 20, 0, 5, null]));
    assert_eq!(
        status["tasks"],
        json!({"created": 0, "ready": 1, "active": 0, "blocked": 0, "completed": 0})
    );
    assert_eq!(status["cwd"], project.root().to_str().expect("text"));
    tools.close().await;
    ends(&project, session);
}

// Which session

#[tokio::test(flavor = "multi_thread")]
async fn the_session_may_begin_after_the_server_and_end_before_it() {
    let project = idle();
    let tools = Tools::with(&project, &["mcp", "--session", "s"], &[]).await;
    let why = tools.fails("session_status", json!({})).await;
    assert!(
        why.starts_with("session `s` does not exist here")
            && why.contains("\nstart a session with `creel run`"),
        "{why}"
    );
    let mut session = project.start();
    session.wait_for("prompt_sent");
    assert_eq!(
        tools.does("session_status", json!({})).await["session"],
        "s"
    );
    ends(&project, session);
    let why = tools.fails("task_list", json!({})).await;
    assert!(
        why.starts_with("session `s` is not running\nstart a session with `creel run`"),
        "{why}"
    );
    tools.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_session_is_the_named_one_the_agents_own_or_the_only_one() {
    let (project, session) = working();
    let mut other = project.command(&["run", "--headless", "--trust", "--force", "-s", "two"]);
    let mut other = other
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("it starts");
    until("it runs, too", || {
        project.creel(&["status", "-s", "two"]).code == 0
    });
    let unnamed = Tools::of(&project).await;
    let why = unnamed.fails("session_status", json!({})).await;
    assert!(
        why.starts_with("several sessions are running; choose one with --session:\n  "),
        "{why}"
    );
    let named = Tools::with(
        &project,
        &["mcp", "--session", "two"],
        &[("CREEL_SESSION", "s")],
    )
    .await;
    assert_eq!(
        named.does("session_status", json!({})).await["session"],
        "two"
    );
    let own = Tools::with(&project, &["mcp"], &[("CREEL_SESSION", "s")]).await;
    assert_eq!(own.does("session_status", json!({})).await["session"], "s");
    let missing = Tools::with(&project, &["mcp", "--session", "three"], &[]).await;
    let why = missing.fails("session_status", json!({})).await;
    assert!(
        why.starts_with("session `three` does not exist here"),
        "{why}"
    );
    for tools in [unnamed, named, own, missing] {
        tools.close().await;
    }
    ends(&project, session);
    assert!(other.wait().expect("it ended").success());
}

// Many calls, many servers

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_calls_are_all_done() {
    const CALLS: usize = 200;
    let (project, session) = working();
    let tools = Tools::of(&project).await;
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..CALLS {
        let peer = tools.peer().clone();
        calls.spawn(async move { call(&peer, "task_add", json!({"goal": n.to_string()})).await });
    }
    let added: BTreeSet<String> = calls
        .join_all()
        .await
        .into_iter()
        .map(|said| match said {
            Said::Done(task) => task["id"].as_str().expect("a name").to_owned(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        (added.len(), project.kind("task_created").len()),
        (CALLS, CALLS)
    );
    tools.close().await;
    ends(&project, session);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_one_of_two_servers_starts_a_task() {
    let (project, session) = working();
    let (one, two) = (Tools::of(&project).await, Tools::of(&project).await);
    for n in 1..=20 {
        let id = format!("task_{n}");
        assert_eq!(one.does("task_add", json!({"goal": "x"})).await["id"], id);
        let start = json!({"taskId": id});
        let said = tokio::join!(
            one.call("task_start", start.clone()),
            two.call("task_start", start)
        );
        let late = Said::Failed(format!("{id} is already active"));
        match said {
            (Said::Done(_), said) | (said, Said::Done(_)) => assert_eq!(said, late),
            neither => panic!("{neither:?}"),
        }
        assert_eq!(
            two.does("task_get", json!({"taskId": id})).await["state"],
            "active"
        );
    }
    one.close().await;
    two.close().await;
    ends(&project, session);
}

// Clients that misbehave

#[test]
fn wrong_requests_are_answered_and_the_server_continues() {
    let (project, session) = working();
    let mut raw = Raw::greeted(&project);
    for line in [
        "",
        "hello",
        "{",
        "\u{0}\u{1}",
        "[]",
        r#"{"jsonrpc":"2.0"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/none"}"#,
    ] {
        raw.line(line);
    }
    raw.line(r#"{"jsonrpc":"2.0","id":9,"method":5}"#);
    // Lines that are not messages are skipped; messages of a wrong shape are answered without an
    // id.
    raw.send(1, "ping", &json!({}));
    let mut wrong = 0;
    loop {
        let answer = raw.answer().expect("an answer");
        if answer["id"] == 1 {
            assert_eq!(answer["result"], json!({}));
            break;
        }
        assert_eq!(answer["error"]["code"], -32600, "{answer}");
        wrong += 1;
    }
    assert!(wrong > 0);
    assert_eq!(
        raw.ask(2, "tools/dance", &json!({}))["error"]["code"],
        -32601
    );
    assert_eq!(
        raw.call(3, "task_dance", &json!({}))["error"]["code"],
        -32602
    );
    assert_eq!(raw.call(4, "task_get", &json!({}))["error"]["code"], -32602);
    assert_eq!(
        raw.call(5, "task_get", &json!({"taskId": ["x"]}))["error"]["code"],
        -32602
    );
    let failed = raw.call(6, "task_get", &json!({"taskId": "x"}));
    assert_eq!(failed["result"]["isError"], true, "{failed}");
    let told = raw.call(7, "session_status", &json!({}));
    let text = told["result"]["content"][0]["text"].as_str().expect("text");
    assert_eq!(
        serde_json::from_str::<Value>(text).expect("JSON"),
        told["result"]["structuredContent"]
    );
    assert_eq!(raw.hang_up(), (Vec::new(), 0));
    ends(&project, session);
}

#[test]
fn requests_that_are_too_long_are_refused_and_the_server_continues() {
    let (project, session) = working();
    let mut raw = Raw::greeted(&project);
    for (id, bytes) in [(1, 1 << 20), (2, 10_000_000)] {
        let answer = raw.call(id, "task_add", &json!({"goal": "x".repeat(bytes)}));
        assert_eq!(answer["error"]["code"], -32602);
        let why = answer["error"]["message"].as_str().expect("words");
        assert!(
            why.contains("the limit is 1047552 B). `goal` is the longest: write it to a file"),
            "{why}"
        );
    }
    let answer = raw.call(
        3,
        "task_add",
        &json!({"goal": "x", "labels": vec!["y".repeat(1_000); 1_100]}),
    );
    assert_eq!(answer["error"]["code"], -32602);
    let answer = raw.call(4, "task_add", &json!({"goal": "\u{1}".repeat(170_000)}));
    assert_eq!(
        answer["result"]["structuredContent"]["id"], "task_1",
        "what fits is taken"
    );
    let answer = raw.call(5, "task_add", &json!({"goal": "x".repeat(1_047_000)}));
    assert_eq!(answer["result"]["structuredContent"]["id"], "task_2");
    assert_eq!(project.kind("task_created").len(), 2);
    raw.hang_up();
    ends(&project, session);
}

#[test]
fn calls_are_answered_after_the_client_closed_its_output() {
    let (project, session) = working();
    let mut raw = Raw::greeted(&project);
    for id in 1..=5 {
        raw.send(
            id,
            "tools/call",
            &json!({"name": "task_add", "arguments": {"goal": "x"}}),
        );
    }
    let (rest, code) = raw.hang_up();
    let ids: BTreeSet<u64> = rest
        .iter()
        .filter_map(|answer| answer["id"].as_u64())
        .collect();
    assert_eq!((ids, code), ((1..=5).collect(), 0));
    assert_eq!(
        Raw::of(&project).hang_up(),
        (Vec::new(), 0),
        "who says nothing at all just leaves"
    );
    ends(&project, session);
}

#[test]
fn a_client_that_dies_during_a_call_ends_its_server_and_nothing_else() {
    let (project, session) = working();
    for _ in 0..5 {
        let mut raw = Raw::greeted(&project);
        for id in 1..=20 {
            raw.send(
                id,
                "tools/call",
                &json!({"name": "task_add", "arguments": {"goal": "x".repeat(10_000)}}),
            );
        }
        raw.die().wait().expect("it ended");
    }
    let mut raw = Raw::greeted(&project);
    assert_eq!(
        raw.call(1, "session_status", &json!({}))["result"]["structuredContent"]["state"],
        "running"
    );
    raw.hang_up();
    ends(&project, session);
}

#[test]
fn a_server_of_a_session_that_is_killed_says_so() {
    let (project, session) = working();
    let mut raw = Raw::with(&project, &["mcp", "-s", "s"]);
    assert_eq!(
        raw.call(1, "task_list", &json!({}))["result"]["structuredContent"]["taskCount"],
        0
    );
    session.kill();
    let answer = raw.call(2, "task_list", &json!({}));
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    raw.hang_up();
}

// How an agent gets the server

/// The server that an agent is given.
fn given() -> Value {
    json!([{"name": "creel", "command": env!("CARGO_BIN_EXE_creel"), "args": ["mcp", "--session", "s"], "env": []}])
}

fn with_acp(more: &str, script: &Value) -> Project {
    let agent = format!("acp: \"'{}' script.json log\"{more}", acp_agent().display());
    let config = format!(
        "prompt: GOAL\nagent: a\nagents: {{ a: {{ {agent} }} }}\nmax_iterations: 2\ncontext: keep\n"
    );
    Project::with(&config).file("script.json", &script.to_string())
}

fn servers(project: &Project, method: &str) -> Vec<Value> {
    let log = project.read("log");
    let messages = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    messages
        .filter(|message| message["method"] == method)
        .map(|message| message["params"]["mcpServers"].clone())
        .collect()
}

#[test]
fn an_agent_that_speaks_the_protocol_is_given_the_server_with_every_conversation() {
    let script = json!({"turns": [[{"say": "<promise>COMPLETE</promise>"}]]});
    let project = with_acp("", &script);
    assert_eq!(project.run().code, 0);
    assert_eq!(servers(&project, "session/new"), [given()]);
    let without = with_acp(", mcp: false", &script);
    assert_eq!(without.run().code, 0);
    assert_eq!(servers(&without, "session/new"), [json!([])]);
}

#[test]
fn a_resumed_conversation_gets_the_server_too() {
    for (can, method) in [
        (json!({"loadSession": true}), "session/load"),
        (
            json!({"sessionCapabilities": {"resume": {}}}),
            "session/resume",
        ),
    ] {
        let script = json!({"capabilities": can, "state_file": "state.json", "turns": [[{"say": "first"}],
            [{"say": "begun"}, {"hang": true}], [{"say": "<promise>COMPLETE</promise>"}]]});
        let project = with_acp("", &script);
        let session = project.start();
        until("the second turn", || project.kind("agent_said").len() == 2);
        session.kill();
        let resumed = project.creel(&["resume", "s", "--headless"]);
        assert_eq!(resumed.code, 0, "{}", resumed.err);
        assert_eq!(servers(&project, method), [given()], "{method}");
    }
}

#[test]
fn an_agent_with_one_process_per_turn_finds_the_server_in_its_environment() {
    let agent = |more: &str| {
        let command = "printf '%s' \\\"$CREEL_MCP\\\" > told; echo '<promise>COMPLETE</promise>'";
        Project::with(&format!(
            "prompt: GOAL\nagents: {{ a: {{ command: \"{command}\"{more} }} }}\n"
        ))
    };
    let project = agent("");
    assert_eq!(project.run().code, 0);
    let told: Value = serde_json::from_str(&project.read("told")).expect("JSON");
    assert_eq!(
        told,
        json!({"command": env!("CARGO_BIN_EXE_creel"), "args": ["mcp", "--session", "s"]})
    );
    let without = agent(", mcp: false");
    assert_eq!(without.run().code, 0);
    assert_eq!(without.read("told"), "");
}

#[test]
fn an_agent_uses_the_tools_of_its_own_session() {
    let creel = env!("CARGO_BIN_EXE_creel");
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params":
        {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "sh", "version": "0"}}});
    let add = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params":
        {"name": "task_add", "arguments": {"goal": "from inside"}}});
    let turn = format!(
        "  - {{ say: '<promise>COMPLETE</promise>', run: \"'{creel}' mcp < calls > answers\" }}\n"
    );
    let project = Project::with(
        "prompt: GOAL\nagents: { demo: { script: scenario.yaml } }\nstop: { open_tasks: ignore }\n",
    )
    .file("scenario.yaml", &format!("turns:\n{turn}"))
    .file("calls", &format!("{hello}\n{add}\n"));
    assert_eq!(project.run().code, 0);
    assert_eq!(
        project.kind("task_created")[0]["data"]["goal"],
        "from inside"
    );
    let answers = project.read("answers");
    assert!(
        answers
            .lines()
            .any(|line| line.contains("\"id\":\"task_1\"")),
        "{answers}"
    );
}

// The protocol's own client

/// The Python with the protocol's own library that `./test` installs. None if it is missing.
fn python() -> Option<PathBuf> {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/mcp-python/bin/python");
    let ran = Command::new(&python).args(["-c", "import mcp"]).output();
    ran.is_ok_and(|ran| ran.status.success()).then_some(python)
}

#[test]
fn the_protocols_own_client_agrees() {
    let Some(python) = python() else {
        // Written directly, because the test runner captures what tests print.
        let why = "there is no Python with the package `mcp` in target/mcp-python; `./test` installs it where it can";
        writeln!(
            std::io::stderr(),
            "skipped the_protocols_own_client_agrees: {why}"
        )
        .expect("there is a stderr");
        return;
    };
    let (project, session) = working();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp/client.py");
    let ran = Command::new(python)
        .arg(script)
        .arg(env!("CARGO_BIN_EXE_creel"))
        .current_dir(project.root())
        .output()
        .expect("Python starts");
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(
        ran.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    assert_eq!(said, "ok\n");
    ends(&project, session);
}
