//! Agents that speak the Agent Client Protocol, correctly and incorrectly.

use std::path::{Path, PathBuf};

use creel::{
    agents::{Agent, AgentHistory, TurnRequest, kinds::start},
    engine::{
        budget::ConversationUsage,
        conversation::{
            AgentUpdate, ContextUsage, PermissionOptionKind, StopReason, ToolKind, ToolStatus,
            TurnEnd, TurnUsage,
        },
        policy::{AgentFacts, AgentSpec, ServicePolicy, UsageScope},
        time::TimeSpan,
    },
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::{
    acp_agent, eventually, folder, in_folder,
    listener::{TurnRecorder, again, ended, failure, place, request, turn},
    lives, pid_in,
};

/// The command line of the test agent with this script; the agent logs what it receives.
fn line(script: &Value, dir: &Path) -> String {
    let file = dir.join("script.json");
    std::fs::write(&file, script.to_string()).expect("a script");
    format!(
        "'{}' '{}' '{}'",
        acp_agent().display(),
        file.display(),
        dir.join("log").display()
    )
}

fn agent(script: &Value, dir: &Path) -> Box<dyn Agent> {
    start(
        &AgentSpec::acp(line(script, dir)),
        place(dir),
        AgentHistory::default(),
    )
    .expect("an agent")
}

fn agent_with(script: &Value, dir: &Path, change: impl FnOnce(&mut AgentFacts)) -> Box<dyn Agent> {
    let mut facts = AgentFacts::default();
    change(&mut facts);
    let AgentSpec::Acp {
        command,
        mode,
        files,
        terminals,
        ..
    } = AgentSpec::acp(line(script, dir))
    else {
        panic!("it speaks the protocol")
    };
    let spec = AgentSpec::Acp {
        command,
        mode,
        files,
        terminals,
        known: facts,
    };
    start(&spec, place(dir), AgentHistory::default()).expect("an agent")
}

/// What the agent received.
fn log(dir: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(dir.join("log")).unwrap_or_default();
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

fn methods(dir: &Path) -> Vec<String> {
    log(dir)
        .iter()
        .filter_map(|message| message["method"].as_str().map(str::to_owned))
        .collect()
}

#[tokio::test]
async fn a_prompt_is_answered_with_all_updates_of_the_agent() {
    let dir = folder();
    let script = json!({"turns": [[
        {"update": {"sessionUpdate": "current_mode_update", "currentModeId": "code"}},
        {"think": "Hm."},
        {"say": "I will "}, {"say": "do it.\n"},
        {"update": {"sessionUpdate": "plan", "entries": [{"content": "a", "priority": "high", "status": "pending"}]}},
        {"tool": {"toolCallId": "c", "title": "Write a.py", "kind": "edit", "status": "in_progress",
            "locations": [{"path": "/p/a.py", "line": 2}],
            "content": [{"type": "diff", "path": "/p/a.py", "oldText": null, "newText": "x\n"}]}},
        {"tool_update": {"toolCallId": "c", "status": "completed"}},
        {"update": {"sessionUpdate": "usage_update", "used": 7, "size": 100, "cost": {"amount": 0.25, "currency": "USD"}}},
        {"update": {"sessionUpdate": "tomorrow", "x": 1}},
        {"say": "Done."},
        {"end": "end_turn", "usage": {"totalTokens": 120, "inputTokens": 100, "outputTokens": 20}},
    ]]});
    let mut agent = agent(&script, dir.path());
    let (end, recorder) = turn(&mut *agent, request("do it")).await;
    let spent = TurnUsage {
        tokens: Some(120),
        cost: Some(0.25),
        ..TurnUsage::UNKNOWN
    };
    assert_eq!(
        end,
        Ok(TurnEnd {
            spent,
            ..TurnEnd::new(StopReason::EndTurn)
        })
    );
    assert_eq!(recorder.text(), "I will do it.\nDone.");
    let [call] = &recorder.calls()[..] else {
        panic!("{:?}", recorder.calls())
    };
    assert_eq!(
        (call.title.as_str(), call.kind, call.status),
        ("Write a.py", Some(ToolKind::Edit), ToolStatus::Completed)
    );
    assert_eq!(call.locations[0].line, Some(2));
    assert!(call.diff.as_deref().is_some_and(|diff| diff.contains("+x")));
    let all = recorder.all();
    assert!(
        all.contains(&AgentUpdate::Opened("session-1".into())),
        "{all:?}"
    );
    assert!(all.contains(&AgentUpdate::Thought("Hm.".into())));
    assert!(all.contains(&AgentUpdate::Used(ContextUsage { used: 7, size: 100 })));
    assert!(all.contains(&AgentUpdate::Noted {
        what: "mode".into(),
        text: "code".into()
    }));
    assert!(all.iter().any(
        |update| matches!(update, AgentUpdate::Noted { what, .. } if what == "unknown:tomorrow")
    ));
    assert!(
        all.iter()
            .any(|update| matches!(update, AgentUpdate::Planned(entries) if entries.len() == 1))
    );
    agent.shutdown().await;
}

#[tokio::test]
async fn every_stop_reason_is_passed_on() {
    let dir = folder();
    let reasons = [
        ("end_turn", StopReason::EndTurn),
        ("max_tokens", StopReason::MaxTokens),
        ("max_turn_requests", StopReason::MaxTurnRequests),
        ("refusal", StopReason::Refusal),
    ];
    let turns: Vec<Value> = reasons
        .iter()
        .map(|(name, _)| json!([{"say": "."}, {"end": name}]))
        .collect();
    let mut agent = agent(&json!({"turns": turns}), dir.path());
    for (name, reason) in reasons {
        assert_eq!(
            turn(&mut *agent, request(name)).await.0,
            Ok(ended(reason)),
            "{name}"
        );
    }
}

#[tokio::test]
async fn a_turn_that_the_agent_cancels_has_failed_unless_a_permission_was_refused() {
    let dir = folder();
    let end = json!({"end": "cancelled"});
    let ask = json!({"ask": {"options": [{"optionId": "n", "name": "No", "kind": "reject_once"}]}});
    let mut agent = agent(
        &json!({"turns": [[{"say": "I"}, end], [{"say": "I"}, ask, end]]}),
        dir.path(),
    );
    let message = failure(&mut *agent, request("1")).await;
    assert!(
        message.contains("without a request from creel"),
        "{message}"
    );
    let mut recorder = TurnRecorder::answering("n");
    let refused = agent
        .turn(again("2"), &mut recorder, &CancellationToken::new())
        .await;
    assert_eq!(refused, Ok(ended(StopReason::EndTurn)));
}

#[tokio::test]
async fn one_process_serves_all_turns_and_a_new_conversation_is_a_new_session() {
    let dir = folder();
    let mut agent = agent(&json!({"turns": [[{"say": "{session}"}]]}), dir.path());
    assert_eq!(turn(&mut *agent, request("1")).await.1.text(), "session-1");
    assert_eq!(turn(&mut *agent, again("2")).await.1.text(), "session-1");
    assert_eq!(turn(&mut *agent, request("3")).await.1.text(), "session-2");
    let prompts = ["session/new", "session/prompt"];
    let expected = [
        "initialize",
        prompts[0],
        prompts[1],
        prompts[1],
        prompts[0],
        prompts[1],
    ];
    assert_eq!(methods(dir.path()), expected);
    assert_eq!(log(dir.path())[2]["params"]["prompt"][0]["text"], "1");
    assert_eq!(log(dir.path())[1]["params"]["cwd"], json!(dir.path()));
}

#[tokio::test]
async fn a_new_message_is_separated_from_the_last_one() {
    let dir = folder();
    let chunk = |message: &str, text: &str| {
        let content = json!({"type": "text", "text": text});
        json!({"update": {"sessionUpdate": "agent_message_chunk", "messageId": message, "content": content}})
    };
    let script = json!({"turns": [[chunk("a", "<promise>C"), chunk("a", "OMPLETE</promise>"), chunk("b", "Done.")]]});
    assert_eq!(
        turn(&mut *agent(&script, dir.path()), request(""))
            .await
            .1
            .text(),
        "<promise>COMPLETE</promise>\n\nDone."
    );
}

#[tokio::test]
async fn the_agent_gets_the_chosen_permission_option() {
    let dir = folder();
    let ask = json!({"ask": {
        "tool": {"toolCallId": "c", "title": "Write a.py", "kind": "edit", "rawInput": {"path": "a.py"}},
        "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}, {"optionId": "n", "name": "No", "kind": "reject_once"}],
    }});
    let script =
        json!({"turns": [[ask, {"if_allowed": [{"say": "yes"}], "else": [{"say": "no"}]}]]});
    for (option, message) in [("y", "yes"), ("n", "no")] {
        let mut recorder = TurnRecorder::answering(option);
        let mut agent = agent(&script, dir.path());
        let end = agent
            .turn(request(""), &mut recorder, &CancellationToken::new())
            .await;
        assert_eq!(
            (end, recorder.text().as_str()),
            (Ok(ended(StopReason::EndTurn)), message)
        );
        let [(tool, options)] = &recorder.asked()[..] else {
            panic!("one request")
        };
        assert_eq!(
            (tool.title.as_str(), tool.kind),
            ("Write a.py", Some(ToolKind::Edit))
        );
        assert!(
            tool.input
                .as_deref()
                .is_some_and(|input| input.contains("a.py"))
        );
        assert_eq!(
            options.iter().map(|o| o.kind).collect::<Vec<_>>(),
            [
                PermissionOptionKind::AllowOnce,
                PermissionOptionKind::RejectOnce
            ]
        );
    }
}

#[tokio::test]
async fn a_cancelled_turn_answers_open_requests_as_cancelled() {
    let dir = folder();
    let mut agent = agent(
        &json!({"turns": [[{"ask": {}}, {"say": "{outcome}"}], [{"say": "on"}]]}),
        dir.path(),
    );
    let (cancel, mut recorder) = (CancellationToken::new(), TurnRecorder::default());
    let listening = recorder.clone();
    let (end, ()) = tokio::join!(agent.turn(request(""), &mut recorder, &cancel), async {
        eventually("it asks", || !listening.asked().is_empty()).await;
        cancel.cancel();
    });
    assert_eq!(end, Ok(ended(StopReason::Cancelled)));
    let answer = log(dir.path())
        .into_iter()
        .find(|message| !message["result"].is_null())
        .expect("an answer");
    assert_eq!(answer["result"]["outcome"]["outcome"], "cancelled");
    assert!(methods(dir.path()).contains(&"session/cancel".to_owned()));
    assert_eq!(turn(&mut *agent, again("and now?")).await.1.text(), "on");
}

#[tokio::test]
async fn files_are_served_inside_the_project_only_and_shown() {
    let outer = folder();
    let dir = in_folder(&outer, "project");
    std::fs::create_dir(&dir).expect("a folder");
    std::fs::write(dir.join("in.txt"), "one\ntwo\n").expect("a file");
    std::fs::write(in_folder(&outer, "secret"), "secret").expect("a file");
    std::os::unix::fs::symlink(in_folder(&outer, "secret"), dir.join("link")).expect("a link");
    let script = json!({"turns": [[
        {"read": {"path": "in.txt"}}, {"say": "|"}, {"read": {"path": "link"}}, {"say": "|"},
        {"read": {"path": "../secret"}}, {"say": "|"},
        {"write": {"path": "new/out.txt", "content": "new\n"}}, {"say": "|"},
        {"write": {"path": "../secret", "content": "gone"}},
    ]]});
    let (_, recorder) = turn(&mut *agent(&script, &dir), request("")).await;
    let message = recorder.text();
    let parts: Vec<&str> = message.split('|').collect();
    assert_eq!((parts[0], parts[3]), ("one\ntwo\n", "written"), "{message}");
    assert!(
        [1, 2, 4]
            .iter()
            .all(|n| parts[*n].starts_with("error") && !parts[*n].contains("secretsecret")),
        "{message}"
    );
    assert_eq!(
        std::fs::read_to_string(in_folder(&outer, "secret")).expect("text"),
        "secret"
    );
    assert_eq!(
        std::fs::read_to_string(dir.join("new/out.txt")).expect("text"),
        "new\n"
    );
    let calls: Vec<(String, ToolStatus)> = recorder
        .calls()
        .into_iter()
        .map(|call| (call.title, call.status))
        .collect();
    let (done, failed) = (ToolStatus::Completed, ToolStatus::Failed);
    let shown = |title: &str, status| (title.to_owned(), status);
    assert_eq!(calls[0], shown("read in.txt", done));
    assert_eq!(calls[1], shown("read link", failed));
    assert_eq!(calls[3], shown("write new/out.txt", done));
    assert!(
        recorder.calls()[3]
            .diff
            .as_deref()
            .is_some_and(|diff| diff.contains("+new"))
    );
}

#[tokio::test]
async fn commands_are_run_for_the_agent_and_shown() {
    let dir = folder();
    let script = json!({"turns": [[
        {"terminal": {"command": "printf", "args": ["%s|", "a b", "it's"], "then": "wait"}}, {"say": "\n"},
        {"terminal": {"command": "echo shell && exit 3", "then": "wait"}}, {"say": "\n"},
        {"terminal": {"command": "printf 0123456789abcdef", "output_byte_limit": 10, "then": "wait"}}, {"say": "\n"},
        {"terminal": {"command": "sleep 1000", "then": "kill"}}, {"say": "\n"},
        {"terminal": {"command": "pwd", "cwd": "/", "then": "wait"}},
    ]]});
    let (_, recorder) = turn(&mut *agent(&script, dir.path()), request("")).await;
    let message = recorder.text();
    let lines: Vec<&str> = message.lines().collect();
    assert_eq!(
        lines[..3],
        ["exit 0: a b|it's|", "exit 3: shell", ""],
        "{message}"
    );
    assert!(
        message.contains("exit 0, truncated: 6789abcdef\n") && message.contains("signal TERM: "),
        "{message}"
    );
    assert!(
        lines.last().is_some_and(|last| last.starts_with("error")),
        "{message}"
    );
    let calls = recorder.calls();
    assert_eq!(
        (calls[0].title.as_str(), calls[0].status),
        ("printf %s| a b it's", ToolStatus::Completed)
    );
    assert_eq!(calls[1].status, ToolStatus::Failed);
}

#[tokio::test]
async fn declined_capabilities_are_neither_offered_nor_served() {
    let dir = folder();
    let script = json!({"turns": [[
        {"write": {"path": "a", "content": "x"}}, {"say": "|"}, {"terminal": {"command": "touch b", "then": "wait"}},
    ]]});
    let AgentSpec::Acp {
        command,
        mode,
        known,
        ..
    } = AgentSpec::acp(line(&script, dir.path()))
    else {
        panic!("it is")
    };
    let spec = AgentSpec::Acp {
        command,
        mode,
        files: ServicePolicy::Decline,
        terminals: ServicePolicy::Decline,
        known,
    };
    let mut agent = start(&spec, place(dir.path()), AgentHistory::default()).expect("an agent");
    let message = turn(&mut *agent, request("")).await.1.text();
    assert!(
        message
            .split('|')
            .all(|part| part.starts_with("error -32601")),
        "{message}"
    );
    let capabilities = log(dir.path())[0]["params"]["clientCapabilities"].clone();
    assert_eq!(
        (
            &capabilities["fs"]["writeTextFile"],
            &capabilities["terminal"]
        ),
        (&json!(false), &json!(false))
    );
    assert!(!in_folder(&dir, "a").exists() && !in_folder(&dir, "b").exists());
}

#[tokio::test]
async fn a_mode_is_set_and_the_agent_does_not_work_in_another_one() {
    let dir = folder();
    let script = json!({"on": {"session/set_mode": [{"error": {"code": -32602, "message": "no such mode"}}]},
        "turns": [[{"say": "."}]]});
    let AgentSpec::Acp {
        command,
        files,
        terminals,
        known,
        ..
    } = AgentSpec::acp(line(&script, dir.path()))
    else {
        panic!("it is")
    };
    let spec = AgentSpec::Acp {
        command,
        mode: Some("turbo".into()),
        files,
        terminals,
        known,
    };
    let mut agent = start(&spec, place(dir.path()), AgentHistory::default()).expect("an agent");
    let message = failure(&mut *agent, request("")).await;
    assert!(
        message.contains("turbo") && message.contains("no such mode"),
        "{message}"
    );
    assert!(!methods(dir.path()).contains(&"session/prompt".to_owned()));
}

/// Runs an agent that fails in the first turn and works in the second; returns the error of the
/// first.
async fn fails_then_works(script: Value) -> String {
    fails_within(TimeSpan::secs(60), script).await
}

async fn fails_within(timeout: TimeSpan, script: Value) -> String {
    let dir = folder();
    let mut script = script;
    script["state_file"] = json!("state.json");
    let mut agent = agent_with(&script, dir.path(), |facts| {
        facts.install = Some("get-it".into());
        facts.login = Some("agent login".into());
        facts.error_pattern = Some("^Error: ".into());
    });
    let message = failure(
        &mut *agent,
        TurnRequest {
            timeout,
            ..request("")
        },
    )
    .await;
    let (end, recorder) = turn(&mut *agent, request("again")).await;
    assert_eq!(
        (end, recorder.text().as_str()),
        (Ok(ended(StopReason::EndTurn)), "works"),
        "after: {message}"
    );
    agent.shutdown().await;
    message
}

fn first(steps: &Value) -> Value {
    json!({"turns": [steps, [{"say": "works"}]]})
}

#[tokio::test]
async fn an_agent_that_crashes_is_started_again() {
    let message = fails_then_works(first(
        &json!([{"say": "I"}, {"stderr": "out of memory\n"}, {"exit": 3}]),
    ))
    .await;
    assert!(
        message.contains("exit 3") && message.contains("out of memory"),
        "{message}"
    );
    let message = fails_then_works(first(&json!([{"exit": 0}]))).await;
    assert!(
        message.contains("ended by itself") && message.contains("gave no reason"),
        "{message}"
    );
    let message = fails_then_works(first(&json!([{"run": "kill -9 $PPID"}]))).await;
    assert!(message.contains("signal 9"), "{message}");
}

#[tokio::test]
async fn a_crash_at_the_start_is_reported_with_the_agents_stderr() {
    let once = |steps: Value| json!([{"once": steps, "else": []}]);
    let script = json!({"on_start": once(json!([{"stderr": "no config\n"}, {"exit": 1}])), "turns": [[{"say": "works"}]]});
    let message = fails_then_works(script).await;
    assert!(
        message.contains("did not complete the handshake")
            && message.contains("exit 1")
            && message.contains("no config"),
        "{message}"
    );
    let script = json!({"on_start": once(json!([{"garbage": 2}, {"exit": 0}])), "turns": [[{"say": "works"}]]});
    let message = fails_then_works(script).await;
    assert!(message.contains("ended by itself"), "{message}");
}

#[tokio::test]
async fn an_agents_last_output_is_read_before_its_end_is_reported() {
    let dir = folder();
    // The line is printed only when creel knows that the agent has ended.
    let command =
        "agent=$$; (while kill -0 $agent 2>/dev/null; do :; done; echo 'no config' >&2) & exit 1";
    let mut agent = start(
        &AgentSpec::acp(command),
        place(dir.path()),
        AgentHistory::default(),
    )
    .expect("an agent");
    let message = failure(&mut *agent, request("")).await;
    agent.shutdown().await;
    assert!(
        message.contains("exit 1") && message.contains("no config"),
        "{message}"
    );
}

#[tokio::test]
async fn a_timeout_names_the_failing_server_that_the_agent_waits_for() {
    let retries = json!({"stderr": "API error 529: overloaded, retrying\n"});
    let (silent, talking) = tokio::join!(
        fails_within(
            TimeSpan::secs(8),
            first(&json!([retries.clone(), {"hang": true}]))
        ),
        fails_within(
            TimeSpan::secs(8),
            first(&json!([{"say": "I"}, retries, {"hang": true}]))
        ),
    );
    for message in [silent, talking] {
        assert!(
            message.contains("server reported errors") && message.contains("529: overloaded"),
            "{message}"
        );
        assert!(message.contains("turn_timeout"), "{message}");
    }
}

#[tokio::test]
async fn an_agent_that_hangs_fails_in_time() {
    let once = |steps: Value| json!([{"once": steps, "else": []}]);
    // Long enough to start on a busy machine: a turn that fails before its deadline would give
    // another error.
    let soon = TimeSpan(4_000);
    let before =
        json!({"on_initialize": once(json!([{"hang": true}])), "turns": [[{"say": "works"}]]});
    let (before, within, deaf, mute) = tokio::join!(
        fails_within(soon, before),
        fails_within(soon, first(&json!([{"say": "I"}, {"hang": true}]))),
        fails_within(soon, first(&json!([{"hang_deaf": true}]))),
        fails_within(soon, first(&json!([{"close_stdout": true}]))),
    );
    for message in [before, within, deaf, mute] {
        assert!(message.contains("turn_timeout"), "{message}");
    }
}

#[tokio::test]
async fn errors_are_distinguished_and_explained() {
    let error =
        |code: i32, message: &str| first(&json!([{"error": {"code": code, "message": message}}]));
    let login = fails_then_works(error(-32603, "API Error: 401 Unauthorized")).await;
    assert!(login.contains("Log in (agent login)"), "{login}");
    let limit = fails_then_works(error(429, "Too many requests, retry after 20 seconds")).await;
    assert!(
        limit.contains("Too many requests, retry after 20 seconds"),
        "{limit}"
    );
    let server = fails_then_works(error(-32603, "500 Internal Server Error")).await;
    assert!(server.contains("server reports an error"), "{server}");
    let full = fails_then_works(error(
        -32603,
        "prompt is too long: 210000 tokens > 200000 maximum",
    ))
    .await;
    assert!(full.contains("too long for the model"), "{full}");
    let odd = fails_then_works(error(-32603, "Unexpected token < in JSON at position 0")).await;
    assert!(odd.contains("Unexpected token <"), "{odd}");
}

#[tokio::test]
async fn a_rate_limit_says_how_long_to_wait() {
    let dir = folder();
    let script = json!({"turns": [[{"error": {"code": -32603, "message": "429 rate limit: try again in 7s"}}]]});
    let failed = turn(&mut *agent(&script, dir.path()), request(""))
        .await
        .0
        .expect_err("a failure");
    assert_eq!(failed.retry_after, Some(TimeSpan::secs(7)));
}

#[tokio::test]
async fn an_error_in_disguise_and_an_empty_turn_are_failures() {
    let message = fails_then_works(first(&json!([{"say": "Error: 401 invalid api key"}]))).await;
    assert!(
        message.contains("Log in") && message.contains("invalid api key"),
        "{message}"
    );
    let message = fails_then_works(first(&json!([{"end": "end_turn"}]))).await;
    assert!(message.contains("without an answer"), "{message}");
    let dir = folder();
    let script = json!({"turns": [[{"tool": {"toolCallId": "c", "title": "Silent work"}}]]});
    assert!(
        turn(&mut *agent(&script, dir.path()), request(""))
            .await
            .0
            .is_ok(),
        "deeds are an answer, too"
    );
}

#[tokio::test]
async fn an_answer_that_only_quotes_an_error_is_an_answer() {
    let dir = folder();
    let script = json!({"turns": [[
        {"say": "Error: this was in the log.\n"}, {"tool": {"toolCallId": "c", "title": "Edit"}}, {"say": "It is mended."},
    ]]});
    let mut agent = agent_with(&script, dir.path(), |facts| {
        facts.error_pattern = Some("^Error: ".into());
    });
    assert_eq!(
        turn(&mut *agent, request("")).await.0,
        Ok(ended(StopReason::EndTurn))
    );
}

#[tokio::test]
async fn tokens_counted_per_conversation_are_reported_per_turn() {
    let dir = folder();
    let end = |all: u64| json!([{"say": "."}, {"end": "end_turn", "usage": {"totalTokens": all, "inputTokens": 0, "outputTokens": 0}}]);
    let script = json!({"turns": [end(100), end(250), end(40)]});
    let mut agent = agent_with(&script, dir.path(), |facts| {
        facts.usage = Some(UsageScope::Conversation);
    });
    let mut tokens = Vec::new();
    for request in [request("1"), again("2"), request("3")] {
        tokens.push(
            turn(&mut *agent, request)
                .await
                .0
                .expect("a turn")
                .spent
                .tokens,
        );
    }
    assert_eq!(tokens, [Some(100), Some(150), Some(40)]);
}

#[tokio::test]
async fn usage_before_a_restart_is_not_reported_twice() {
    let dir = folder();
    let usage = json!({"sessionUpdate": "usage_update", "used": 1, "size": 9, "cost": {"amount": 0.75, "currency": "USD"}});
    let script = json!({"capabilities": {"loadSession": true}, "turns": [[{"say": "."}, {"update": usage}]]});
    let tally = ConversationUsage {
        tokens: 10,
        cost: 0.5,
    };
    let past = AgentHistory {
        conversation: Some("session-1"),
        tally,
        ..AgentHistory::default()
    };
    let mut agent = start(
        &AgentSpec::acp(line(&script, dir.path())),
        place(dir.path()),
        past,
    )
    .expect("an agent");
    let spent = turn(&mut *agent, again("go on"))
        .await
        .0
        .expect("a turn")
        .spent;
    assert_eq!(spent.cost, Some(0.25));
}

#[tokio::test]
async fn tokens_reported_during_a_turn_are_added_up() {
    let dir = folder();
    let usage = |tokens: u64| {
        let content = json!({"type": "text", "text": ""});
        let meta =
            json!({"usage": {"inputTokens": tokens, "outputTokens": 5, "totalTokens": tokens + 5}});
        json!({"update": {"sessionUpdate": "agent_message_chunk", "content": content, "_meta": meta}})
    };
    let script = json!({"turns": [[{"say": "a"}, usage(10), usage(20)], [{"say": "b"}]]});
    let mut agent = agent(&script, dir.path());
    let (end, recorder) = turn(&mut *agent, request("1")).await;
    assert_eq!(
        (end.expect("a turn").spent.tokens, recorder.text().as_str()),
        (Some(40), "a")
    );
    assert!(
        !recorder
            .all()
            .contains(&AgentUpdate::Message(String::new()))
    );
    assert_eq!(
        turn(&mut *agent, again("2"))
            .await
            .0
            .expect("a turn")
            .spent
            .tokens,
        None
    );
}

#[tokio::test]
async fn a_missing_agent_and_a_wrong_protocol_version_are_reported() {
    let dir = folder();
    let known = AgentFacts {
        install: Some("npm install it".into()),
        ..AgentFacts::default()
    };
    let (files, terminals) = (ServicePolicy::Serve, ServicePolicy::Serve);
    let spec = AgentSpec::Acp {
        command: "no-such-agent acp".into(),
        mode: None,
        files,
        terminals,
        known,
    };
    let mut missing =
        start(&spec, place(dir.path()), AgentHistory::default()).expect("not started yet");
    let message = failure(&mut *missing, request("")).await;
    assert!(
        message.contains("not installed") && message.contains("npm install it"),
        "{message}"
    );
    let message = failure(&mut *agent(&json!({"version": 9}), dir.path()), request("")).await;
    assert!(message.contains("version"), "{message}");
    let script = json!({
        "auth_methods": [{"id": "oauth", "name": "Log in with Example"}],
        "on_new_session": [{"error": {"code": -32000, "message": "Authentication required"}}],
    });
    let message = failure(&mut *agent(&script, dir.path()), request("")).await;
    assert!(
        message.contains("needs a login") && message.contains("Log in with Example"),
        "{message}"
    );
}

#[tokio::test]
async fn noise_between_messages_is_harmless() {
    let dir = folder();
    let script = json!({
        "on_start": [{"garbage": 3}],
        "turns": [[
            {"raw": "Warning: deprecated"}, {"say": "a"}, {"raw": "{\"jsonrpc\":\"2.0\",\"id\":"}, {"raw": "null"}, {"raw": "[]"},
            {"raw": "{}"}, {"raw": "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\"}"},
            {"notify": {"method": "_auth/status_update", "params": {}}},
            {"request": {"method": "_ours/please", "params": {}}}, {"say": "b"},
        ]],
    });
    let (end, recorder) = turn(&mut *agent(&script, dir.path()), request("")).await;
    assert_eq!(end, Ok(ended(StopReason::EndTurn)));
    assert!(
        recorder.text().starts_with('a') && recorder.text().ends_with('b'),
        "{}",
        recorder.text()
    );
    assert!(
        recorder.text().contains("error -32601"),
        "an unknown request is declined: {}",
        recorder.text()
    );
}

#[tokio::test]
async fn a_conversation_is_resumed_if_the_agent_can() {
    let dir = folder();
    let state = json!("state.json");
    let script = json!({"capabilities": {"loadSession": true}, "state_file": state,
        "on_load_session": [{"say": "old words"}, {"user": "old prompt"}],
        "turns": [[{"say": "one"}], [{"say": "two in {session}"}]]});
    let mut before = agent(&script, dir.path());
    turn(&mut *before, request("first"))
        .await
        .0
        .expect("a turn");
    before.shutdown().await;
    let past = AgentHistory {
        conversation: Some("session-1"),
        ..AgentHistory::default()
    };
    let mut after = start(
        &AgentSpec::acp(line(&script, dir.path())),
        place(dir.path()),
        past,
    )
    .expect("an agent");
    let (_, recorder) = turn(&mut *after, again("go on")).await;
    assert_eq!(
        (recorder.text().as_str(), recorder.warned()),
        ("two in session-1", vec![])
    );
    assert!(methods(dir.path()).contains(&"session/load".to_owned()));
}

#[tokio::test]
async fn the_replay_of_a_resumed_conversation_is_not_shown_again() {
    let dir = folder();
    let script = json!({"capabilities": {"loadSession": true}, "state_file": "state.json",
        "on_load_session": [{"result": null}, {"say": "old <promise>COMPLETE</promise>"}],
        "turns": [[{"say": "one"}], [{"say": "two"}]]});
    turn(&mut *agent(&script, dir.path()), request("first"))
        .await
        .0
        .expect("a turn");
    let past = AgentHistory {
        conversation: Some("session-1"),
        ..AgentHistory::default()
    };
    let mut after = start(
        &AgentSpec::acp(line(&script, dir.path())),
        place(dir.path()),
        past,
    )
    .expect("an agent");
    assert_eq!(turn(&mut *after, again("go on")).await.1.text(), "two");
}

#[tokio::test]
async fn a_resumed_conversation_gets_the_configured_mode() {
    let dir = folder();
    let script = json!({"capabilities": {"loadSession": true}, "on": {"session/set_mode": [{"result": {}}]},
        "turns": [[{"say": "."}]]});
    let AgentSpec::Acp {
        command,
        files,
        terminals,
        known,
        ..
    } = AgentSpec::acp(line(&script, dir.path()))
    else {
        panic!("it is")
    };
    let spec = AgentSpec::Acp {
        command,
        mode: Some("careful".into()),
        files,
        terminals,
        known,
    };
    let past = AgentHistory {
        conversation: Some("session-1"),
        ..AgentHistory::default()
    };
    let mut agent = start(&spec, place(dir.path()), past).expect("an agent");
    turn(&mut *agent, again("go on")).await.0.expect("a turn");
    assert_eq!(
        methods(dir.path()),
        [
            "initialize",
            "session/load",
            "session/set_mode",
            "session/prompt"
        ]
    );
}

#[tokio::test]
async fn a_command_of_the_agent_ends_with_a_cancelled_turn() {
    let dir = folder();
    let terminal =
        json!({"terminal": {"command": "echo $$ > command.pid; exec sleep 1000", "then": "leave"}});
    let mut agent = agent(
        &json!({"turns": [[terminal, {"say": "ready"}, {"wait_cancel": true}]]}),
        dir.path(),
    );
    let (cancel, mut recorder) = (CancellationToken::new(), TurnRecorder::default());
    let (_, command) = tokio::join!(agent.turn(request(""), &mut recorder, &cancel), async {
        let command = pid_in(&in_folder(&dir, "command.pid")).await;
        cancel.cancel();
        command
    });
    eventually("the command is gone", || !lives(command)).await;
}

#[tokio::test]
async fn an_edit_at_a_gate_has_the_line_numbers_of_its_file() {
    let dir = folder();
    let text: String = (1..=40).map(|n| format!("line {n}\n")).collect();
    std::fs::write(in_folder(&dir, "long.txt"), text).expect("a file");
    let content = json!([{"type": "diff", "path": in_folder(&dir, "long.txt"), "oldText": "line 30", "newText": "new"}]);
    let tool = json!({"toolCallId": "e", "title": "Edit long.txt", "kind": "edit", "status": "pending", "content": content});
    let script = json!({"turns": [[{"tool": tool}, {"ask": {"tool": tool}},
        {"tool_update": {"toolCallId": "e", "status": "completed", "content": content}}]]});
    let mut agent = agent(&script, dir.path());
    let mut recorder = TurnRecorder::answering("allow");
    let end = agent
        .turn(request("edit"), &mut recorder, &CancellationToken::new())
        .await;
    assert_eq!(end, Ok(ended(StopReason::EndTurn)));
    let (asked, last) = (recorder.asked(), recorder.calls());
    let placed = |diff: &Option<String>| {
        diff.as_deref()
            .is_some_and(|diff| diff.contains("@@ -27,7 +27,7 @@"))
    };
    assert!(
        placed(&asked[0].0.diff) && placed(&last[0].diff),
        "{asked:?}"
    );
}

#[tokio::test]
async fn a_lost_conversation_is_reported() {
    let dir = folder();
    let past = AgentHistory {
        conversation: Some("session-9"),
        ..AgentHistory::default()
    };
    let script = json!({"turns": [[{"say": "{session}: {prompt}"}]]});
    let mut agent = start(
        &AgentSpec::acp(line(&script, dir.path())),
        place(dir.path()),
        past,
    )
    .expect("an agent");
    let (_, recorder) = turn(&mut *agent, again("go on")).await;
    assert_eq!(
        recorder.text(),
        "session-1: GOAL\n\ngo on",
        "the goal goes in front"
    );
    assert!(
        recorder.warned()[0].contains("cannot resume"),
        "{:?}",
        recorder.warned()
    );
}

#[tokio::test]
async fn a_dead_agent_is_noticed_even_if_its_child_keeps_the_output_open() {
    let dir = folder();
    let script = json!({"turns": [[
        {"say": "a"}, {"spawn": "exec sleep 1000", "holds_output": true}, {"stderr": "out of memory\n"}, {"exit": 134},
    ]]});
    let mut agent = agent(&script, dir.path());
    let patience = std::time::Duration::from_secs(20);
    let (end, recorder) = tokio::time::timeout(patience, turn(&mut *agent, request("")))
        .await
        .expect("it ends");
    let error = end.expect_err("a failure").message;
    assert!(error.ends_with("signal 6: out of memory"), "{error}");
    assert_eq!(recorder.text(), "a");
    agent.shutdown().await;
}

#[tokio::test]
async fn text_between_turns_belongs_to_no_turn() {
    let dir = folder();
    let mut first = vec![
        json!({"say": "one"}),
        json!({"end": "end_turn"}),
        json!({"wait_file": "over"}),
    ];
    first.extend((0..400).flat_map(|_| [json!({"say": "x"}), json!({"think": "y"})]));
    first.extend([
        json!({"say": "<promise>COMPLETE</promise>"}),
        json!({"run": "touch said"}),
    ]);
    let mut agent = agent(&json!({"turns": [first, [{"say": "two"}]]}), dir.path());
    assert_eq!(turn(&mut *agent, request("")).await.1.text(), "one");
    std::fs::write(in_folder(&dir, "over"), "").expect("a file");
    eventually("it has said all", || in_folder(&dir, "said").exists()).await;
    assert_eq!(turn(&mut *agent, again("")).await.1.text(), "two");
}

#[tokio::test]
async fn a_permission_request_between_turns_is_answered_in_the_next_one() {
    let dir = folder();
    let first = json!([
        {"say": "one"}, {"end": "end_turn"}, {"wait_file": "over"}, {"ask": {"wait": false}}, {"run": "touch asked"},
        {"if_allowed": [{"run": "touch allowed"}]},
    ]);
    let mut agent = agent(&json!({"turns": [first, [{"say": "two"}]]}), dir.path());
    assert_eq!(turn(&mut *agent, request("")).await.1.text(), "one");
    std::fs::write(in_folder(&dir, "over"), "").expect("a file");
    eventually("it has asked", || in_folder(&dir, "asked").exists()).await;
    let (cancel, mut recorder) = (CancellationToken::new(), TurnRecorder::default());
    let listening = recorder.clone();
    let (end, ()) = tokio::join!(agent.turn(again(""), &mut recorder, &cancel), async {
        eventually("a person is asked", || !listening.asked().is_empty()).await;
        let prompts = || {
            methods(dir.path())
                .iter()
                .filter(|method| *method == "session/prompt")
                .count()
        };
        eventually("the next prompt is sent", || prompts() == 2).await;
        listening.answer("allow");
    });
    assert_eq!(
        (end, recorder.text().as_str()),
        (Ok(ended(StopReason::EndTurn)), "two")
    );
    assert!(in_folder(&dir, "allowed").exists(), "the agent was told");
}

/// An agent with a child in its process group, and one that left it.
fn with_children(last: &Value) -> Value {
    json!({"turns": [[
        {"write_pid": "agent.pid"},
        {"spawn": "echo $$ > child.pid; exec sleep 1000"},
        {"spawn_away": "echo $$ > away.pid; exec sleep 1000"},
        {"wait_file": "child.pid"}, {"wait_file": "away.pid"}, {"say": "ready"}, last,
    ]]})
}

async fn pids(dir: &Path) -> [i32; 3] {
    let file = |name: &str| -> PathBuf { dir.join(name) };
    [
        pid_in(&file("agent.pid")).await,
        pid_in(&file("child.pid")).await,
        pid_in(&file("away.pid")).await,
    ]
}

#[tokio::test]
async fn no_process_is_left_however_the_agent_ends() {
    tokio::join!(
        leaves_nothing("normal", json!({"end": "end_turn"})),
        leaves_nothing("cancel", json!({"wait_cancel": true})),
        leaves_nothing("stubborn", json!({"hang_deaf": true})),
        leaves_nothing("killed", json!({"run": "kill -9 $PPID"})),
        leaves_nothing("timeout", json!({"hang": true})),
    );
}

async fn leaves_nothing(way: &str, last: Value) {
    let dir = folder();
    let mut agent = agent(&with_children(&last), dir.path());
    let (cancel, mut recorder) = (CancellationToken::new(), TurnRecorder::default());
    let listening = recorder.clone();
    let timeout = if way == "timeout" {
        TimeSpan::secs(5)
    } else {
        TimeSpan::secs(60)
    };
    let (_, pids) = tokio::join!(
        agent.turn(
            TurnRequest {
                timeout,
                ..request("")
            },
            &mut recorder,
            &cancel
        ),
        async {
            let pids = pids(dir.path()).await;
            eventually("it is ready", || listening.text() == "ready").await;
            if matches!(way, "cancel" | "stubborn") {
                cancel.cancel();
            }
            pids
        }
    );
    agent.shutdown().await;
    // On a busy machine, a killed process can take a moment to disappear.
    eventually(&format!("{way}: all are gone"), || {
        !pids.into_iter().any(lives)
    })
    .await;
}

#[tokio::test]
async fn a_dropped_agent_leaves_no_process() {
    let dir = folder();
    let mut agent = agent(&with_children(&json!({"hang": true})), dir.path());
    let (cancel, mut recorder) = (CancellationToken::new(), TurnRecorder::default());
    let pids = tokio::select! {
        end = agent.turn(request(""), &mut recorder, &cancel) => panic!("it must not end: {end:?}"),
        pids = pids(dir.path()) => pids,
    };
    drop(agent);
    eventually("all are gone", || !pids.into_iter().any(lives)).await;
}

#[tokio::test]
async fn a_flood_is_passed_on_completely_and_in_order() {
    let dir = folder();
    let script = json!({"turns": [[{"flood": {"updates": 20_000, "text": "{n} "}}]]});
    let (end, recorder) = turn(&mut *agent(&script, dir.path()), request("")).await;
    assert_eq!(end, Ok(ended(StopReason::EndTurn)));
    assert!(
        recorder
            .text()
            .split_whitespace()
            .map(str::to_owned)
            .eq((1..=20_000).map(|n: u32| n.to_string()))
    );
    assert!(
        recorder.all().len() < 5_000,
        "{} pieces",
        recorder.all().len()
    );
}

/// What an agent can print in answer to a prompt; `{id}` is the request's id.
const ANSWERS: [&str; 6] = [
    r#"{"jsonrpc":"2.0","id":{id},"result":{"stopReason":"end_turn"}}"#,
    r#"{"jsonrpc":"2.0","id":{id},"error":{"code":-32603,"message":"no","data":{"a":[1,2]}}}"#,
    r#"{"jsonrpc":"2.0","id":77,"method":"session/request_permission","params":{"sessionId":"{session}","toolCall":{"toolCallId":"c"},"options":[]}}"#,
    r#"{"jsonrpc":"2.0","id":78,"method":"fs/read_text_file","params":{"sessionId":"{session}","path":"/etc/passwd"}}"#,
    r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"{session}","update":{"sessionUpdate":"tool_call","toolCallId":"c","title":"t","content":[{"type":"diff","path":"/a","newText":"x"}]}}}"#,
    r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"{session}","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a"}}}}"#,
];

/// Whatever the agent prints, the turn ends in time: it fails, unless an answer arrived.
async fn ends(steps: Vec<Value>, what: &str) {
    let dir = folder();
    let mut agent = agent(&json!({"turns": [steps]}), dir.path());
    let mut recorder = TurnRecorder::answering("y");
    let cancel = CancellationToken::new();
    let limited = TurnRequest {
        timeout: TimeSpan::secs(30),
        ..request("")
    };
    let ended = tokio::time::timeout(
        crate::support::PATIENCE,
        agent.turn(limited, &mut recorder, &cancel),
    )
    .await;
    let failed = ended
        .unwrap_or_else(|_| panic!("it hangs: {what}"))
        .expect_err(what)
        .message;
    assert!(!failed.contains("creel itself"), "{what}: {failed}");
    agent.shutdown().await;
}

#[tokio::test]
async fn truncated_messages_end_as_a_failed_turn() {
    for answer in ANSWERS {
        for cut in (1..answer.len()).step_by(answer.len() / 6) {
            let part = &answer[..cut];
            ends(
                vec![json!({"raw_unterminated": part}), json!({"exit": 0})],
                part,
            )
            .await;
        }
    }
}

#[tokio::test]
async fn mangled_messages_end_as_a_failed_turn() {
    // A small generator of our own, for the same cases in every run.
    let mut seed = 0x9e37_79b9_u64;
    let mut next = |below: usize| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(seed >> 33).expect("31 bits fit") % below
    };
    for _ in 0..40 {
        let lines: Vec<Value> = (0..6)
            .map(|_| {
                let mut line = ANSWERS[next(ANSWERS.len())]
                    .replace("{id}", "\"another\"")
                    .into_bytes();
                for _ in 0..=next(4) {
                    let at = next(line.len());
                    match next(3) {
                        0 => line[at] = b"{}[]\",:0\\nx"[next(11)],
                        1 => drop(line.remove(at)),
                        _ => line.insert(at, b"{}[]\",:0\\nx"[next(11)]),
                    }
                }
                json!({"raw": String::from_utf8_lossy(&line)})
            })
            .chain([json!({"exit": 1})])
            .collect();
        let what = format!("{lines:?}");
        ends(lines, &what).await;
    }
}
