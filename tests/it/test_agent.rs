//! The test agent by itself: checks that it does what its manual says, so that tests of creel can
//! rely on it.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
};

use serde_json::{Value, json};

use crate::support::{PATIENCE, acp_agent, folder, in_folder, lives};

/// A conversation with an agent that plays a script.
struct Talk {
    agent: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    log: PathBuf,
}

impl Talk {
    /// Starts an agent in a folder.
    fn start(dir: &Path, script: &Value) -> Self {
        let (path, log) = (dir.join("script.json"), dir.join("log"));
        fs::write(&path, script.to_string()).expect("a script");
        let mut agent = Command::new(acp_agent())
            .args([&path, &log])
            .current_dir(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("an agent");
        let stdout = BufReader::new(agent.stdout.take().expect("a pipe"));
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            stdout
                .split(b'\n')
                .map_while(Result::ok)
                .try_for_each(|line| sender.send(text(&line)))
        });
        Self {
            stdin: agent.stdin.take(),
            agent,
            lines,
            log,
        }
    }

    /// Starts an agent and opens `session-1`.
    fn in_session(dir: &Path, script: &Value) -> Self {
        let mut talk = Self::start(dir, script);
        talk.ask(0, "initialize", &json!({"protocolVersion": 1}));
        talk.answer(0);
        talk.ask(1, "session/new", &json!({"cwd": dir, "mcpServers": []}));
        assert_eq!(talk.answer(1)["result"], json!({"sessionId": "session-1"}));
        talk
    }

    fn send(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        writeln!(stdin, "{line}").expect("the agent reads");
    }

    fn ask(&mut self, id: u32, method: &str, params: &Value) {
        self.send(
            &json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string(),
        );
    }

    fn tell(&mut self, method: &str, params: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
    }

    fn reply(&mut self, request: &Value, result: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}).to_string());
    }

    fn prompt(&mut self, id: u32, text: &str) {
        self.ask(
            id,
            "session/prompt",
            &json!({"sessionId": "session-1", "prompt": [{"type": "text", "text": text}]}),
        );
    }

    fn cancel(&mut self) {
        self.tell("session/cancel", &json!({"sessionId": "session-1"}));
    }

    /// The next line. None at the end.
    fn line(&mut self) -> Option<String> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("waited in vain for a line of the agent"),
        }
    }

    fn message(&mut self) -> Value {
        let line = self
            .line()
            .unwrap_or_else(|| panic!("the agent has exited: {}", self.ending().1));
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("no message: {line}"))
    }

    /// The answer to a request, which must be the next message.
    fn answer(&mut self, id: u32) -> Value {
        let message = self.message();
        assert!(
            message["id"] == id && message.get("method").is_none(),
            "not the answer to {id}: {message}"
        );
        message
    }

    /// A request of the agent, which must be the next message.
    fn request(&mut self, method: &str) -> Value {
        let message = self.message();
        assert!(
            message["method"] == method && message.get("id").is_some(),
            "no {method}: {message}"
        );
        message
    }

    /// The agent's text up to the answer to a prompt, and that answer's stop reason.
    fn turn(&mut self, id: u32) -> (String, String) {
        let mut said = String::new();
        loop {
            let message = self.message();
            if message["id"] == id {
                return (
                    said,
                    message["result"]["stopReason"]
                        .as_str()
                        .unwrap_or("none")
                        .to_owned(),
                );
            }
            said += message["params"]["update"]["content"]["text"]
                .as_str()
                .unwrap_or_default();
        }
    }

    fn close(&mut self) {
        self.stdin = None;
    }

    /// Waits for the end. Returns the exit code and stderr.
    fn ending(&mut self) -> (Option<i32>, String) {
        let mut stderr = String::new();
        if let Some(mut pipe) = self.agent.stderr.take() {
            pipe.read_to_string(&mut stderr).expect("text");
        }
        (self.agent.wait().expect("an end").code(), stderr)
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        let _ = self.agent.kill();
        let _ = self.agent.wait();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn update(kind: &str, text: &str) -> Value {
    let update = json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}});
    json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "session-1", "update": update}})
}

#[test]
fn the_handshake_says_what_the_script_says() {
    let dir = folder();
    let script = json!({"version": 7, "capabilities": {"loadSession": true}, "auth_methods": [{"id": "key"}]});
    let mut talk = Talk::start(dir.path(), &script);
    talk.ask(4, "initialize", &json!({"protocolVersion": 1}));
    assert_eq!(
        talk.answer(4)["result"],
        json!({
            "protocolVersion": 7,
            "agentCapabilities": {"loadSession": true},
            "agentInfo": {"name": "acp-agent", "version": "1"},
            "authMethods": [{"id": "key"}],
        })
    );
    for (id, session) in [(5, "session-1"), (6, "session-2")] {
        talk.ask(
            id,
            "session/new",
            &json!({"cwd": dir.path(), "mcpServers": []}),
        );
        assert_eq!(talk.answer(id)["result"], json!({"sessionId": session}));
    }
    talk.ask(
        7,
        "session/load",
        &json!({"cwd": dir.path(), "sessionId": "old"}),
    );
    assert_eq!(talk.answer(7)["result"], Value::Null);
    talk.close();
    assert_eq!(talk.ending(), (Some(0), String::new()));
    let log = fs::read_to_string(&talk.log).expect("a log");
    let methods: Vec<Value> = log
        .lines()
        .map(|l| serde_json::from_str::<Value>(l).expect("JSON")["method"].clone())
        .collect();
    assert_eq!(
        methods,
        ["initialize", "session/new", "session/new", "session/load"]
    );
}

#[test]
fn a_turn_says_its_text_and_ends() {
    let dir = folder();
    let script = json!({"turns": [
        [{"think": "hm"}, {"say": "You said: {prompt}"}, {"tool": {"toolCallId": "c"}}],
        [{"end": "max_tokens", "usage": {"totalTokens": 3}}, {"say": "late"}],
    ]});
    let mut talk = Talk::in_session(dir.path(), &script);
    talk.prompt(2, "hello {cwd}");
    assert_eq!(talk.message(), update("agent_thought_chunk", "hm"));
    assert_eq!(
        talk.message(),
        update("agent_message_chunk", "You said: hello {cwd}")
    );
    assert_eq!(
        talk.message()["params"]["update"],
        json!({"sessionUpdate": "tool_call", "toolCallId": "c"})
    );
    assert_eq!(talk.answer(2)["result"], json!({"stopReason": "end_turn"}));
    for id in [3, 4] {
        talk.prompt(id, "again");
        assert_eq!(
            talk.answer(id)["result"],
            json!({"stopReason": "max_tokens", "usage": {"totalTokens": 3}})
        );
        assert_eq!(talk.message(), update("agent_message_chunk", "late"));
    }
}

#[test]
fn turns_are_chosen_by_the_prompt() {
    let dir = folder();
    let script = json!({"turns": [
        {"when": "red", "do": [{"say": "first red"}]},
        {"when": "red", "do": [{"say": "more red"}]},
        [{"say": "anything"}],
    ]});
    let mut talk = Talk::in_session(dir.path(), &script);
    let prompts = ["green", "it is red", "red", "blue", "red"];
    let said = prompts.map(|prompt| {
        talk.prompt(9, prompt);
        talk.turn(9).0
    });
    assert_eq!(
        said,
        ["anything", "first red", "more red", "anything", "anything"]
    );
}

#[test]
fn a_permission_request_is_sent_and_its_answer_matters() {
    let dir = folder();
    let script = json!({"turns": [[
        {"ask": {"tool": {"toolCallId": "c", "title": "Write"}}},
        {"if_allowed": [{"run": "echo done > greeting"}, {"say": "yes, {outcome}"}], "else": [{"say": "no, {outcome}"}]},
    ]]});
    let mut talk = Talk::in_session(dir.path(), &script);
    let selected = |option: &str| json!({"outcome": {"outcome": "selected", "optionId": option}});
    let answers = [
        selected("reject"),
        json!({"outcome": {"outcome": "cancelled"}}),
        selected("allow"),
    ];
    for (answer, said) in answers
        .iter()
        .zip(["no, reject", "no, cancelled", "yes, allow"])
    {
        assert!(!in_folder(&dir, "greeting").exists());
        talk.prompt(2, "go");
        let question = talk.request("session/request_permission");
        assert_eq!(question["params"]["sessionId"], "session-1");
        assert_eq!(
            question["params"]["toolCall"],
            json!({"toolCallId": "c", "title": "Write"})
        );
        talk.reply(&question, answer);
        assert_eq!(talk.turn(2), (said.to_owned(), "end_turn".to_owned()));
    }
    assert_eq!(
        fs::read_to_string(in_folder(&dir, "greeting")).expect("written"),
        "done\n"
    );
}

#[test]
fn concurrent_questions_are_distinguished() {
    let dir = folder();
    let script = json!({"turns": [[
        {"ask": {"as": "one", "wait": false}},
        {"ask": {"as": "two", "wait": false}},
        {"if_allowed": [{"say": "one "}], "as": "one"},
        {"if_allowed": [{"say": "two"}], "as": "two"},
    ]]});
    let mut talk = Talk::in_session(dir.path(), &script);
    talk.prompt(2, "go");
    let one = talk.request("session/request_permission");
    let two = talk.request("session/request_permission");
    talk.reply(
        &two,
        &json!({"outcome": {"outcome": "selected", "optionId": "allow"}}),
    );
    talk.reply(
        &one,
        &json!({"outcome": {"outcome": "selected", "optionId": "reject"}}),
    );
    assert_eq!(talk.turn(2).0, "two");
}

#[test]
fn a_cancelled_turn_ends_at_the_next_step() {
    let dir = folder();
    let wait = json!([{"say": "a"}, {"wait_cancel": true}, {"say": "b"}]);
    let sleep = json!([{"say": "c"}, {"sleep_ms": 600_000}, {"say": "d"}]);
    let stubborn =
        json!([{"ignore_cancel": true}, {"say": "e"}, {"wait_cancel": true}, {"say": "f"}]);
    let mut talk = Talk::in_session(dir.path(), &json!({"turns": [wait, sleep, stubborn]}));
    for (first, rest, stop) in [
        ("a", "", "cancelled"),
        ("c", "", "cancelled"),
        ("e", "f", "end_turn"),
    ] {
        talk.prompt(2, "go");
        assert_eq!(talk.message(), update("agent_message_chunk", first));
        talk.cancel();
        assert_eq!(talk.turn(2), (rest.to_owned(), stop.to_owned()));
    }
}

#[test]
fn errors_replace_answers_and_leave_no_session() {
    let dir = folder();
    let denied = json!({"code": -32000, "message": "Authentication required"});
    let overloaded =
        json!({"code": -32603, "message": "Internal error", "data": {"details": "overloaded"}});
    let script = json!({"on_new_session": [{"once": [{"error": denied}]}], "turns": [[{"error": overloaded}]]});
    let mut talk = Talk::start(dir.path(), &script);
    talk.ask(1, "session/new", &json!({"cwd": dir.path()}));
    assert_eq!(talk.answer(1)["error"], denied);
    talk.ask(2, "session/new", &json!({"cwd": dir.path()}));
    assert_eq!(talk.answer(2)["result"], json!({"sessionId": "session-1"}));
    talk.prompt(3, "go");
    assert_eq!(talk.answer(3)["error"], overloaded);
}

#[test]
fn unknown_requests_are_refused_also_during_a_turn() {
    let dir = folder();
    let script =
        json!({"on": {"session/set_mode": []}, "turns": [[{"say": "a"}, {"wait_cancel": true}]]});
    let mut talk = Talk::in_session(dir.path(), &script);
    talk.prompt(2, "go");
    assert_eq!(talk.message(), update("agent_message_chunk", "a"));
    talk.ask(3, "session/load", &json!({"sessionId": "session-1"}));
    assert_eq!(talk.answer(3)["error"]["code"], -32601);
    talk.send("what?");
    assert_eq!(talk.message()["error"]["code"], -32700);
    talk.cancel();
    assert_eq!(talk.turn(2).1, "cancelled");
    talk.ask(
        4,
        "session/set_mode",
        &json!({"sessionId": "session-1", "modeId": "plan"}),
    );
    assert_eq!(talk.answer(4)["result"], json!({}));
    talk.ask(
        5,
        "session/prompt",
        &json!({"sessionId": "missing", "prompt": []}),
    );
    assert_eq!(talk.answer(5)["error"]["code"], -32602);
}

#[test]
fn the_clients_files_and_terminals_are_used() {
    let dir = folder();
    let script = json!({"turns": [[
        {"read": {"path": "notes"}},
        {"write": {"path": "/tmp/x", "content": "y"}},
        {"terminal": {"command": "ls", "output_byte_limit": 5}},
        {"request": {"method": "_more", "params": {"for": "{session}"}}},
    ]]});
    let mut talk = Talk::in_session(dir.path(), &script);
    talk.prompt(2, "go");
    let read = talk.request("fs/read_text_file");
    assert_eq!(
        read["params"],
        json!({"sessionId": "session-1", "path": dir.path().join("notes")})
    );
    talk.reply(&read, &json!({"content": "read|"}));
    assert_eq!(talk.message(), update("agent_message_chunk", "read|"));
    let write = talk.request("fs/write_text_file");
    assert_eq!(
        write["params"],
        json!({"sessionId": "session-1", "path": "/tmp/x", "content": "y"})
    );
    talk.send(&json!({"id": write["id"], "error": {"code": 5, "message": "no"}}).to_string());
    assert_eq!(talk.message(), update("agent_message_chunk", "error 5: no"));
    let create = talk.request("terminal/create");
    assert_eq!(
        create["params"],
        json!({"sessionId": "session-1", "command": "ls", "outputByteLimit": 5})
    );
    talk.reply(&create, &json!({"terminalId": "t"}));
    let output = json!({"output": "five!", "truncated": true, "exitStatus": {"exitCode": 1}});
    for (method, result) in [
        ("wait_for_exit", json!({"exitCode": 1})),
        ("output", output),
    ] {
        let call = talk.request(&format!("terminal/{method}"));
        assert_eq!(
            call["params"],
            json!({"sessionId": "session-1", "terminalId": "t"})
        );
        talk.reply(&call, &result);
    }
    assert_eq!(
        talk.message(),
        update("agent_message_chunk", "exit 1, truncated: five!")
    );
    let release = talk.request("terminal/release");
    talk.reply(&release, &Value::Null);
    let more = talk.request("_more");
    assert_eq!(more["params"], json!({"for": "session-1"}));
    talk.reply(&more, &json!([1]));
    assert_eq!(talk.turn(2).0, "[1]");
}

#[test]
fn a_cancelled_turn_kills_the_terminal_that_it_waits_for() {
    let dir = folder();
    let mut talk = Talk::in_session(
        dir.path(),
        &json!({"turns": [[{"terminal": {"command": "sleep"}}]]}),
    );
    talk.prompt(2, "go");
    let create = talk.request("terminal/create");
    talk.reply(&create, &json!({"terminalId": "t"}));
    let exit = talk.request("terminal/wait_for_exit");
    talk.cancel();
    let kill = talk.request("terminal/kill");
    talk.reply(&kill, &json!({}));
    talk.reply(&exit, &json!({"signal": "KILL"}));
    let output = talk.request("terminal/output");
    talk.reply(
        &output,
        &json!({"output": "", "truncated": false, "exitStatus": {"signal": "KILL"}}),
    );
    assert_eq!(
        talk.message(),
        update("agent_message_chunk", "signal KILL: ")
    );
    let release = talk.request("terminal/release");
    talk.reply(&release, &json!({}));
    assert_eq!(talk.turn(2).1, "cancelled");
}

#[test]
fn bytes_are_what_the_script_says() {
    let dir = folder();
    let script = json!({"turns": [[
        {"garbage": 2},
        {"raw": "{\"id\": {id}"},
        {"raw_bytes": [255, 10]},
        {"raw_unterminated": "ab", "repeat": 2},
        {"stderr": "bye"},
        {"close_stdout": true, "then": "cat; exit 3"},
    ]]});
    let mut talk = Talk::in_session(dir.path(), &script);
    talk.prompt(2, "go");
    let lines: Vec<String> = std::iter::from_fn(|| talk.line()).collect();
    assert!(
        lines[..2].iter().all(|line| line.contains("no message")),
        "{lines:?}"
    );
    assert_eq!(lines[2..], ["{\"id\": 2", "\u{fffd}", "abab"]);
    talk.close();
    assert_eq!(talk.ending(), (Some(3), "bye".to_owned()));
}

#[test]
fn answers_are_sent_twice_or_with_an_unknown_id() {
    let dir = folder();
    let script = json!({"turns": [[{"answer_twice": true}], [{"answer_wrong_id": true}], [{"no_answer": true}], []]});
    let mut talk = Talk::in_session(dir.path(), &script);
    (2..=5).for_each(|id| talk.prompt(id, "go"));
    for id in [2, 2, 1003, 5] {
        assert_eq!(talk.answer(id)["result"]["stopReason"], "end_turn");
    }
}

#[test]
fn a_flood_arrives_in_order() {
    let dir = folder();
    let script = json!({"turns": [[{"flood": {"updates": 5000, "text": "{n},"}}]]});
    let mut talk = Talk::in_session(dir.path(), &script);
    talk.prompt(2, "go");
    let all: String = (1..=5000).map(|number| format!("{number},")).collect();
    assert_eq!(talk.turn(2), (all, "end_turn".to_owned()));
}

#[test]
fn a_state_file_outlives_the_process() {
    let dir = folder();
    let script = json!({
        "state_file": "state.json",
        "capabilities": {"loadSession": true},
        "on_load_session": [{"user": "before"}],
        "turns": [[{"say": "crash"}, {"exit": 9}], [{"say": "fine in {cwd}, {turn}"}]],
    });
    let mut first = Talk::in_session(dir.path(), &script);
    first.prompt(2, "go");
    assert_eq!(first.message(), update("agent_message_chunk", "crash"));
    assert_eq!(first.ending(), (Some(9), String::new()));
    let mut second = Talk::start(dir.path(), &script);
    second.ask(
        1,
        "session/load",
        &json!({"sessionId": "session-1", "cwd": dir.path()}),
    );
    assert_eq!(second.message(), update("user_message_chunk", "before"));
    second.answer(1);
    second.prompt(2, "go");
    assert_eq!(
        second.turn(2).0,
        format!("fine in {}, 2", dir.path().display())
    );
    second.ask(
        3,
        "session/load",
        &json!({"sessionId": "session-2", "cwd": dir.path()}),
    );
    assert_eq!(second.message()["params"]["sessionId"], "session-2");
    assert_eq!(second.answer(3)["error"]["code"], -32002);
}

#[test]
fn a_hanging_agent_still_notices_the_end_of_stdin_unless_deaf() {
    let dir = folder();
    let mut polite = Talk::start(dir.path(), &json!({"on_start": [{"hang": true}]}));
    polite.ask(1, "initialize", &json!({}));
    polite.close();
    assert_eq!(
        (polite.ending(), polite.line()),
        ((Some(0), String::new()), None)
    );
    let script = json!({"turns": [[{"write_pid": "pid"}, {"say": "a"}, {"hang_deaf": true}]]});
    let mut deaf = Talk::in_session(dir.path(), &script);
    deaf.prompt(2, "go");
    deaf.message();
    deaf.cancel();
    deaf.close();
    let pid = fs::read_to_string(in_folder(&dir, "pid"))
        .expect("a number")
        .trim()
        .parse()
        .expect("a number");
    assert!(lives(pid));
}

#[test]
fn background_processes_can_keep_the_output_open_or_leave_the_group() {
    let dir = folder();
    let script = json!({"turns": [[
        {"spawn": "echo $$ > draft; mv draft same; exec sleep 1000"},
        {"spawn_away": "echo $$ > away; cat gate; echo held", "holds_output": true},
        {"wait_file": "same"},
        {"wait_file": "away"},
        {"exit": 0},
    ]]});
    let gate = in_folder(&dir, "gate");
    assert!(
        Command::new("mkfifo")
            .arg(&gate)
            .status()
            .expect("mkfifo")
            .success()
    );
    let mut talk = Talk::in_session(dir.path(), &script);
    talk.prompt(2, "go");
    assert_eq!(talk.agent.wait().expect("an end").code(), Some(0));
    fs::write(&gate, "").expect("somebody reads");
    assert_eq!((talk.line(), talk.line()), (Some("held".to_owned()), None));
    assert!(
        Command::new("sh")
            .args(["-c", "kill $(cat same)"])
            .current_dir(dir.path())
            .status()
            .expect("sh")
            .success()
    );
}

#[test]
fn a_mistake_in_a_script_is_reported_with_its_place() {
    let dir = folder();
    for (script, problem) in [
        (json!({"turn": []}), "the script has an unknown key `turn`"),
        (
            json!({"turns": [[], [{"say": "a"}, {"sya": "b"}]]}),
            r#"turns[1][1] is no step: {"sya":"b"}"#,
        ),
        (
            json!({"turns": [{"do": [{"once": [{"say": "a", "slowly": true}]}]}]}),
            "turns[0].do[0].once[0] has an unknown key `slowly`",
        ),
        (
            json!({"on_start": [{"hang": false}]}),
            "on_start[0].hang must be true",
        ),
        (
            json!({"on": {"session/prompt": []}}),
            "on.session/prompt: prompts play `turns`",
        ),
    ] {
        let path = in_folder(&dir, "script.json");
        let told = format!("acp-agent: {}: {problem}\n", path.display());
        assert_eq!(Talk::start(dir.path(), &script).ending(), (Some(2), told));
    }
}
