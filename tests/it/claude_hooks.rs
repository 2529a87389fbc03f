//! Hooks that are written for Claude Code: what they read, and what each of their answers does.

use serde_json::{Map, Value, json};

use crate::{
    attach::Background,
    support::{
        acp_agent,
        project::{Project, until},
    },
};

const CREEL: &str = env!("CARGO_BIN_EXE_creel");
const DONE: &str = "<promise>COMPLETE</promise>";

/// Writes its input and its variables down, by the event.
const RECORD: &str = "cat >> \"$CLAUDE_PROJECT_DIR/$1.json\"
printf '%s|%s|%s' \"$CLAUDE_PROJECT_DIR\" \"$CLAUDECODE\" \"$CLAUDE_CODE_SESSION_ID\" > env
";

fn project(rest: &Value, turns: &Value) -> Project {
    let mut config = json!({
        "prompt": "GOAL", "agents": { "demo": { "script": "scenario.yaml" } }, "max_hook_retries": 2,
        "instructions": "none",
    });
    if let (Some(config), Some(rest)) = (config.as_object_mut(), rest.as_object()) {
        config.extend(rest.clone());
    }
    Project::with(&config.to_string())
        .file(
            "scenario.yaml",
            &json!({ "turns": turns, "otherwise": { "say": DONE } }).to_string(),
        )
        .file("record.sh", RECORD)
}

fn group(command: &str) -> Value {
    json!([{ "hooks": [{ "type": "command", "command": command }] }])
}

/// The inputs of the runs of an event, without creel's own fields.
fn inputs(project: &Project, event: &str) -> Vec<Value> {
    const OWN: [&str; 12] = [
        "session",
        "hook",
        "iteration",
        "attempt",
        "task",
        "agent_output",
        "files_modified",
        "gate",
        "about",
        "choices",
        "answer_command",
        "state",
    ];
    const ALSO: [&str; 5] = [
        "waits_for_user",
        "choice",
        "by",
        "validation_results",
        "prompt_reason",
    ];
    let root = project.root().to_string_lossy().into_owned();
    let text = std::fs::read_to_string(project.root().join(format!("{event}.json")));
    let text = text.unwrap_or_default().replace(&root, "ROOT");
    let of_claude = |fields: Map<String, Value>| {
        let is_own = |key: &str| OWN.contains(&key) || ALSO.contains(&key);
        fields
            .into_iter()
            .filter(move |(key, _)| !is_own(key))
            .map(|(key, value)| {
                let value = if key == "session_id" {
                    json!("ID")
                } else {
                    value
                };
                (key, value)
            })
    };
    text.lines()
        .map(|line| {
            let fields: Map<String, Value> = serde_json::from_str(line).expect("an object");
            Value::Object(of_claude(fields).collect())
        })
        .collect()
}

fn input(event: &str, fields: &Value) -> Value {
    let mut all = json!({
        "session_id": "ID", "cwd": "ROOT", "hook_event_name": event, "permission_mode": "acceptEdits",
        "transcript_path": "ROOT/.creel/sessions/s/journal.jsonl", "stop_hook_active": false,
    });
    if let (Some(all), Some(fields)) = (all.as_object_mut(), fields.as_object()) {
        all.extend(fields.clone());
    }
    all
}

#[test]
fn each_event_gets_claude_codes_input_and_variables() {
    let events = [
        "SessionStart",
        "UserPromptSubmit",
        "Stop",
        "StopFailure",
        "TaskCompleted",
        "SessionEnd",
    ];
    let hooks: Map<String, Value> = events
        .into_iter()
        .map(|event| (event.to_owned(), group(&format!("sh record.sh {event}"))))
        .collect();
    let task = format!("'{CREEL}' task add 'Write it\nwell' --id t && '{CREEL}' task done t");
    let turns = json!([{ "fail": "401 unauthorized" }, { "run": task, "say": "Written." }]);
    let project = project(&json!({ "session": "s", "hooks": hooks }), &turns);
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let error = project.kind("turn_failed")[0]["error"].clone();
    assert_eq!(
        project.kind("turn_failed")[0]["cause"],
        "authentication_failed"
    );
    let expected: [(&str, Vec<Value>); 6] = [
        ("SessionStart", vec![json!({ "source": "startup" })]),
        ("UserPromptSubmit", vec![json!({ "prompt": "GOAL" }); 2]),
        (
            "Stop",
            vec![json!({ "last_assistant_message": "Written." })],
        ),
        (
            "StopFailure",
            vec![json!({ "error": "authentication_failed", "error_details": error })],
        ),
        (
            "TaskCompleted",
            vec![
                json!({ "task_id": "t", "task_subject": "Write it", "task_description": "Write it\nwell" }),
            ],
        ),
        ("SessionEnd", vec![json!({ "reason": "other" })]),
    ];
    for (event, fields) in expected {
        let expected: Vec<Value> = fields.iter().map(|fields| input(event, fields)).collect();
        let seen = inputs(&project, event);
        // Later iterations end the session.
        assert_eq!(seen[..expected.len()], expected, "{event}");
    }
    let id = project.kind("session_started")[0]["id"].clone();
    let root = project.root().to_string_lossy().into_owned();
    assert_eq!(
        project.read("env"),
        format!("{root}|1|{}", id.as_str().expect("an id"))
    );
}

#[test]
fn a_gate_that_waits_for_you_is_a_notification_and_its_matcher_selects_it() {
    let notification = json!([
        { "matcher": "permission_prompt", "hooks": [{ "type": "command", "command": "touch asked" }] },
        { "matcher": "idle.*", "hooks": [{ "type": "command", "command": "sh record.sh Notification" }] },
    ]);
    let hooks = json!({ "Notification": notification, "Stop": group("echo red >&2; exit 2") });
    let config = json!({ "session": "s", "max_hook_retries": 0, "hooks": hooks });
    let session = Background::start(project(&config, &json!([{ "say": "Hello." }])));
    until("the hook has run", || {
        !inputs(&session.project, "Notification").is_empty()
    });
    let reason = session.project.kind("gate_opened")[0]["reason"].clone();
    let notified = json!({ "message": reason, "title": "creel needs you",
        "notification_type": "idle_prompt", "reason": reason });
    assert_eq!(
        inputs(&session.project, "Notification"),
        [input("Notification", &notified)]
    );
    assert_eq!(
        session
            .project
            .creel(&["gate", "answer", "1", "abort"])
            .code,
        0
    );
    session.ends("aborted");
    // Claude Code has no notification for a gate that closes.
    assert_eq!(inputs(&session.project, "Notification").len(), 1);
    assert!(!session.project.root().join("asked").exists());
}

/// What one answer at `Stop` comes to: the exit code of creel, the verdict, and the feedback.
struct StopCase {
    hook: &'static str,
    code: i32,
    verdict: &'static str,
    feedback: Option<&'static str>,
}

const fn stop(
    hook: &'static str,
    code: i32,
    verdict: &'static str,
    feedback: Option<&'static str>,
) -> StopCase {
    StopCase {
        hook,
        code,
        verdict,
        feedback,
    }
}

#[test]
fn each_answer_at_stop_means_what_claude_code_makes_of_it_and_only_exit_0_verifies() {
    let cases = [
        stop("exit 0", 0, "pass", None),
        stop("echo done", 0, "pass", None),
        stop(r#"echo '{"decision":"approve"}'"#, 0, "pass", None),
        stop(r#"echo '{"systemMessage":"hi"}'"#, 0, "pass", None),
        stop("echo red >&2; exit 2", 5, "block", Some("red")),
        stop(
            r#"echo '{"decision":"block","reason":"red"}'"#,
            5,
            "block",
            Some("red"),
        ),
        stop(
            r#"echo '{"decision":"block","reason":"red"}'; exit 1"#,
            5,
            "block",
            Some("red"),
        ),
        stop(
            r#"echo '{"decision":"approve"}'; echo red >&2; exit 2"#,
            5,
            "block",
            Some("red"),
        ),
        stop(
            r#"echo '{"reason":"of JSON"}'; echo red >&2; exit 2"#,
            5,
            "block",
            Some("of JSON"),
        ),
        stop(
            r#"echo '{"hookSpecificOutput":{"hookEventName":"Stop","additionalContext":"go on"}}'"#,
            5,
            "block",
            Some("go on"),
        ),
        stop("echo red >&2; exit 1", 5, "fail", None),
        stop(r#"echo '{"decision":"approve"}'; exit 1"#, 5, "fail", None),
        stop("exit 126", 5, "fail", None),
        stop("kill -9 $$", 5, "fail", None),
        stop("sleep 60", 5, "fail", None),
        stop(
            r#"echo '{"continue":false,"stopReason":"enough"}'"#,
            4,
            "fail",
            None,
        ),
        stop(
            r#"echo '{"continue":false,"stopReason":"enough"}'; exit 1"#,
            4,
            "fail",
            None,
        ),
        stop(r#"echo '{"decision":"maybe"}'; exit 0"#, 5, "fail", None),
    ];
    for case in cases {
        let hook = json!({ "type": "command", "command": case.hook, "timeout": 1 });
        let hook = if case.hook.starts_with("sleep") {
            hook
        } else {
            json!({ "type": "command", "command": case.hook })
        };
        let hooks = json!({ "Stop": [{ "hooks": [hook] }] });
        let project = project(&json!({ "hooks": hooks }), &json!([]));
        let ran = project.run();
        assert_eq!(ran.code, case.code, "{}: {}{}", case.hook, ran.out, ran.err);
        let verdict = &project.kind("hook_finished")[0]["verdict"];
        assert_eq!(verdict, case.verdict, "{}", case.hook);
        let prompts = project.prompts();
        let feedback = prompts.iter().find(|(reason, _)| reason == "feedback");
        assert_eq!(feedback.is_some(), case.feedback.is_some(), "{}", case.hook);
        if let (Some((_, text)), Some(expected)) = (feedback, case.feedback) {
            assert!(
                text.ends_with(&format!("\n{expected}")),
                "{}: {text}",
                case.hook
            );
        }
    }
}

#[test]
fn plain_output_is_context_only_where_claude_code_says_so_and_only_after_exit_0() {
    let says = |code: i32| {
        group(&format!(
            "echo 'told by {code}'; echo aside >&2; exit {code}"
        ))
    };
    let two = |point: &str| json!({ point: [says(0)[0], says(3)[0]] });
    for (point, is_context) in [
        ("SessionStart", true),
        ("UserPromptSubmit", true),
        ("SessionEnd", false),
    ] {
        let project = project(&json!({ "hooks": two(point) }), &json!([]));
        let ran = project.run();
        assert_eq!(ran.code, 0, "{point}: {}{}", ran.out, ran.err);
        let prompt = &project.prompts()[0].1;
        let is_line = |text: &str| prompt.lines().any(|line| line == text);
        assert_eq!(is_line("told by 0"), is_context, "{point}: {prompt}");
        assert!(
            !is_line("told by 3") && !is_line("aside"),
            "{point}: {prompt}"
        );
    }
}

#[test]
fn a_reply_is_read_at_every_exit_code() {
    for point in ["SessionStart", "UserPromptSubmit"] {
        for code in [0, 1, 3] {
            let output = json!({ "hookEventName": point, "additionalContext": "in JSON" });
            let reply = json!({ "hookSpecificOutput": output });
            let hooks = json!({ point: group(&format!("echo '{reply}'; exit {code}")) });
            let project = project(&json!({ "hooks": hooks }), &json!([]));
            let ran = project.run();
            assert_eq!(ran.code, 0, "{point} {code}: {}{}", ran.out, ran.err);
            let prompt = &project.prompts()[0].1;
            assert!(prompt.contains("\nin JSON"), "{point} {code}: {prompt}");
        }
    }
}

#[test]
fn at_most_10_000_characters_reach_the_agent_and_a_file_has_all_of_them() {
    let long = "x".repeat(30_000);
    let in_json = json!({ "hookSpecificOutput": { "hookEventName": "SessionStart",
        "additionalContext": long } });
    for text in [long.clone(), in_json.to_string()] {
        let hooks = json!({ "SessionStart": group("cat long") });
        let project = project(&json!({ "hooks": hooks }), &json!([])).file("long", &text);
        let ran = project.run();
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
        let prompt = &project.prompts()[0].1;
        let kept = prompt.matches('x').count();
        assert!((9_000..=10_010).contains(&kept), "{kept}");
        assert!(prompt.contains("all of it: "), "{}", &prompt[..200]);
    }
}

#[test]
fn an_event_that_creel_does_not_run_says_why() {
    for (event, why) in [
        ("PermissionDenied", "use `PreToolUse`"),
        ("TaskCreated", "use `automation`"),
        ("TeammateIdle", "only the agent knows"),
        ("WorktreeCreate", "use `worktree.setup`"),
        ("FileChanged", "creel compares files"),
        ("ConfigChange", "creel asks you itself"),
    ] {
        let settings = json!({ "hooks": { event: group("true") } }).to_string();
        let imports = json!({ "hooks": { "import": ["settings.json"] } });
        let imported = project(&imports, &json!([])).file("settings.json", &settings);
        let checked = imported.creel(&["check"]);
        assert!(
            checked.code == 0 && checked.out.contains(why),
            "{event}: {}{}",
            checked.out,
            checked.err
        );
        let written = project(&json!({ "hooks": { event: group("true") } }), &json!([]));
        let checked = written.creel(&["check"]);
        assert_eq!(checked.code, 2, "{event}");
        assert!(checked.err.contains(why), "{event}: {}", checked.err);
        assert!(!checked.err.contains("unknown hook point"), "{event}");
    }
}

#[test]
fn the_gate_of_a_prompt_shows_it_and_says_what_each_answer_does() {
    let hooks = json!({ "UserPromptSubmit": group("test -e asked || { touch asked; echo no >&2; exit 2; }") });
    let project = project(&json!({ "session": "s", "hooks": hooks }), &json!([]));
    let session = Background::start(project);
    session.waits_for("gate_opened");
    let listed = session.project.creel(&["gate", "list"]).out;
    for words in [
        "\n  prompt:\n    GOAL\n",
        "Send the prompt: as it is",
        "sent instead of this prompt",
    ] {
        assert!(listed.contains(words), "{listed}");
    }
    assert_eq!(
        session
            .project
            .creel(&["gate", "answer", "1", "escalate"])
            .code,
        1
    );
    let answered = session
        .project
        .creel(&["gate", "answer", "1", "message", "Do it."]);
    assert_eq!(answered.code, 0, "{}", answered.err);
    session.ends("complete");
    assert!(session.project.prompts()[0].1.contains("Do it."));
}

#[test]
fn a_prompt_that_a_hook_blocks_is_not_sent() {
    for hook in [
        "echo no >&2; exit 2",
        r#"echo '{"decision":"block","reason":"no"}'"#,
    ] {
        let hooks = json!({ "UserPromptSubmit": group(hook) });
        let project = project(&json!({ "hooks": hooks }), &json!([]));
        let ran = project.run();
        assert_eq!(ran.code, 4, "{}{}", ran.out, ran.err);
        assert!(project.prompts().is_empty());
        let reason = project.kind("gate_opened")[0]["reason"].clone();
        assert!(
            reason
                .as_str()
                .is_some_and(|reason| reason.ends_with("needs you: no")),
            "{reason}"
        );
        let silent = project.creel(&["resume", "--headless", "--answer", "message"]);
        assert!(
            silent.err.contains("write it in quotes after the answer"),
            "{}",
            silent.err
        );
    }
}

#[test]
fn every_prompt_is_read_as_it_is_sent_and_gets_the_context() {
    let adds = "sh record.sh UserPromptSubmit; echo 'by the hook'";
    let hooks = json!({
        "UserPromptSubmit": group(adds),
        "Stop": group("test -e fixed || { touch fixed; echo red >&2; exit 2; }"),
    });
    let config = json!({ "session": "s", "hooks": hooks, "instructions": "Say when it is done." });
    let project = project(&config, &json!([{ "say": "One." }]));
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let prompts = project.prompts();
    let reasons: Vec<&str> = prompts.iter().map(|(reason, _)| &**reason).collect();
    assert_eq!(reasons, ["iteration", "feedback"]);
    let read = inputs(&project, "UserPromptSubmit");
    assert_eq!(read.len(), 2);
    for (input, (_, sent)) in read.iter().zip(&prompts) {
        let frame = sent.find("[Hook output: pre_prompt").expect("its output");
        let (before, added) = sent.split_at(frame);
        assert!(added.contains("\nby the hook"), "{sent}");
        let read = input["prompt"].as_str().expect("the prompt");
        assert!(read.starts_with(before.trim_end()), "{read}\n{sent}");
    }
    assert!(prompts[0].1.ends_with("Say when it is done."));
}

#[test]
fn a_reply_can_speak_to_you_and_begin_the_conversation() {
    let start = r#"echo '{"systemMessage":"be careful","hookSpecificOutput":{"hookEventName":"SessionStart","initialUserMessage":"Read NOTES."}}'"#;
    let stop = r#"echo '{"systemMessage":"not yet","decision":"block","reason":"red"}'; exit 1"#;
    let hooks = json!({ "SessionStart": group(start), "Stop": group(stop) });
    let config = json!({ "session": "s", "max_hook_retries": 0, "hooks": hooks });
    let project = project(&config, &json!([]));
    let ran = project.run();
    assert_eq!(ran.code, 5, "{}{}", ran.out, ran.err);
    assert_eq!(project.prompts()[0].1, "Read NOTES.\n\nGOAL");
    let shown = project.creel(&["show", "s"]).out;
    for said in ["at session_start says: be careful", "at stop says: not yet"] {
        assert!(ran.out.contains(said), "{}", ran.out);
        assert!(shown.contains(said), "{shown}");
    }
}

#[test]
fn a_completed_task_that_a_hook_refuses_is_reported_to_the_agent() {
    let hooks = json!({ "TaskCompleted": group("echo 'no tests' >&2; exit 2") });
    let task = format!("'{CREEL}' task add Write --id t && '{CREEL}' task done t");
    let project = project(
        &json!({ "hooks": hooks }),
        &json!([{ "run": task, "say": "Written." }]),
    );
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let prompts = project.prompts();
    assert!(
        prompts
            .iter()
            .skip(1)
            .any(|(_, text)| text.contains("no tests")),
        "{prompts:?}"
    );
}

#[test]
fn a_session_that_is_resumed_tells_the_hooks_of_its_start() {
    let start = json!([
        { "hooks": [{ "type": "command", "command": "sh record.sh SessionStart" }] },
        { "matcher": "startup", "hooks": [{ "type": "command", "command": "echo x >> began" }] },
        { "matcher": "resume|compact", "hooks": [{ "type": "command", "command": "echo 'back again'" }] },
    ]);
    let config = json!({ "session": "s", "max_iterations": 1, "hooks": { "SessionStart": start } });
    let project = project(&config, &json!([{ "say": "One." }, { "say": "Two." }]));
    assert_eq!(project.run().code, 3);
    let ran = project.creel(&["resume", "s", "--headless", "-n", "3", "--trust"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let sources: Vec<Value> = inputs(&project, "SessionStart")
        .iter()
        .map(|input| input["source"].clone())
        .collect();
    assert_eq!(sources, ["startup", "resume"]);
    assert_eq!(project.read("began"), "x\n");
    let prompts = project.prompts();
    assert!(
        prompts
            .iter()
            .skip(1)
            .any(|(_, text)| text.contains("back again")),
        "{prompts:?}"
    );
}

#[test]
fn arguments_are_expanded_without_a_shell_and_stop_can_stand_beside_its_lower_case_name() {
    let hook = json!({ "type": "command", "command": "sh",
        "args": ["${CLAUDE_PROJECT_DIR}/save.sh", "${CLAUDE_PROJECT_DIR}", "$HOME; touch pwned"] });
    let hooks = json!({ "Stop": [{ "hooks": [hook] }], "stop": [{ "command": "touch plain" }] });
    let project = project(&json!({ "hooks": hooks }), &json!([]))
        .file("save.sh", "printf '[%s]' \"$@\" > saved\n");
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let root = project.root();
    assert_eq!(
        project.read("saved"),
        format!("[{}][$HOME; touch pwned]", root.display())
    );
    assert!(root.join("plain").exists() && !root.join("pwned").exists());
}

/// A project whose agent asks which database, and says what it got.
fn asking_project(hooks: &Value) -> Project {
    let form = json!({ "type": "object", "required": ["db"], "properties": {
        "db": { "type": "string", "title": "Database", "oneOf": [
            { "const": "pg", "title": "Postgres" }, { "const": "lite", "title": "SQLite" }] } } });
    let request = json!({ "method": "elicitation/create", "params": { "sessionId": "{session}",
        "mode": "form", "message": "Which database?", "requestedSchema": form } });
    let script = json!({ "turns": [[{ "request": request }, { "say": format!(" {DONE}") }]] });
    let agent = format!("'{}' script.json log", acp_agent().display());
    let config = json!({ "session": "s", "prompt": "GOAL", "agent": "a", "hooks": hooks,
        "agents": { "a": { "acp": agent } } });
    Project::with(&config.to_string())
        .file("script.json", &script.to_string())
        .file("record.sh", RECORD)
}

#[test]
fn a_question_is_answered_by_a_hook_and_its_answer_is_changed_by_another() {
    let reply = |event: &str, action: &str, content: &Value| {
        let output = json!({ "hookEventName": event, "action": action, "content": content });
        let reply = json!({ "hookSpecificOutput": output });
        format!("sh record.sh {event}; echo '{reply}'")
    };
    let answers = reply("Elicitation", "accept", &json!({ "db": "pg" }));
    let changes = reply("ElicitationResult", "accept", &json!({ "db": "lite" }));
    let hooks = json!({ "Elicitation": group(&answers), "ElicitationResult": group(&changes) });
    let project = asking_project(&hooks);
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let said: String = project
        .kind("agent_said")
        .iter()
        .filter_map(|record| record["text"].as_str().map(str::to_owned))
        .collect();
    assert!(said.contains(r#""db":"lite""#), "{said}");
    assert!(said.contains(r#""action":"accept""#), "{said}");
    let answered = &project.kind("gate_answered")[0];
    assert_eq!(answered["by"], "hook");
    assert!(
        project
            .creel(&["show", "s"])
            .out
            .contains("changed the answer")
    );
    let option = |value: &str, title: &str| json!({ "const": value, "title": title });
    let schema = json!({ "type": "object", "required": ["db"], "properties": { "db": {
        "type": "string", "title": "Database",
        "oneOf": [option("pg", "Postgres"), option("lite", "SQLite")] } } });
    let asked = json!({ "message": "Which database?", "mode": "form", "requested_schema": schema,
        "permission_mode": "default" });
    assert_eq!(
        inputs(&project, "Elicitation"),
        [input("Elicitation", &asked)]
    );
    let mut result = input("ElicitationResult", &asked);
    result["action"] = json!("accept");
    result["content"] = json!({ "db": "pg" });
    assert_eq!(inputs(&project, "ElicitationResult"), [result]);
}

#[test]
fn a_hook_that_blocks_declines_the_question() {
    for event in ["Elicitation", "ElicitationResult"] {
        let answer = r#"echo '{"hookSpecificOutput":{"hookEventName":"Elicitation","action":"accept","content":{"db":"pg"}}}'"#;
        let mut hooks = json!({ "Elicitation": group(answer) });
        hooks[event] = group("echo no >&2; exit 2");
        let project = asking_project(&hooks);
        let ran = project.run();
        assert_eq!(ran.code, 0, "{event}: {}{}", ran.out, ran.err);
        let said = project.kind("agent_said")[0]["text"].clone();
        let said = said.as_str().unwrap_or_default();
        assert!(said.contains(r#""action":"decline""#), "{event}: {said}");
    }
}

/// The forms of a command handler, and a key of a reply without effect.
#[test]
fn each_form_of_a_command_handler_runs_as_in_claude_code() {
    let handler = |command: &str| json!({ "type": "command", "command": command });
    let mut bash = handler("[[ x == x ]] && touch bash");
    bash["shell"] = json!("bash");
    let mut background = handler("echo red >&2; exit 2");
    background["async"] = json!(true);
    let quiet = r#"echo '{"suppressOutput":true,"hookSpecificOutput":{"hookEventName":"SessionStart","additionalContext":"still context"}}'"#;
    let here = handler("cd / && touch \"$CLAUDE_PROJECT_DIR/here\"");
    let project = project(
        &json!({ "hooks": {
            "SessionStart": [{ "hooks": [bash, here, handler(quiet)] }],
            "Stop": [{ "hooks": [background] }],
        } }),
        &json!([]),
    );
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    for file in ["bash", "here"] {
        assert!(project.root().join(file).exists(), "{file}");
    }
    let prompts = project.prompts();
    assert_eq!(
        prompts.len(),
        1,
        "an async hook blocks nothing: {prompts:?}"
    );
    assert!(prompts[0].1.contains("still context"), "{}", prompts[0].1);
}

/// The agent asks for permission to run a command, and says what it got.
fn permission_project(event: &str, hook: &str) -> Project {
    let tool = json!({ "toolCallId": "1", "title": "Run", "kind": "execute",
        "rawInput": { "command": "make" } });
    let turn = json!([{ "ask": { "tool": tool } },
        { "if_allowed": [{ "say": "ran " }], "else": [{ "say": "refused " }] }, { "say": DONE }]);
    let agent = format!("'{}' script.json log", acp_agent().display());
    let config = json!({ "session": "s", "prompt": "GOAL", "agent": "a", "max_iterations": 1,
        "agents": { "a": { "acp": agent } }, "hooks": { event: group(hook) } });
    Project::with(&config.to_string()).file("script.json", &json!({ "turns": [turn] }).to_string())
}

/// What each reply about a call comes to: what the agent says, or that the session stops, and
/// whether the agent reads the reason.
#[test]
fn each_reply_about_a_call_means_what_claude_code_makes_of_it() {
    let before = |decision: &str| {
        let output = json!({ "hookEventName": "PreToolUse", "permissionDecision": decision,
            "permissionDecisionReason": "WHY" });
        json!({ "hookSpecificOutput": output })
    };
    let request = |decision: Value| json!({ "hookSpecificOutput": { "hookEventName": "PermissionRequest", "decision": decision } });
    let deny = json!({ "behavior": "deny", "message": "WHY" });
    let mut interrupt = deny.clone();
    interrupt["interrupt"] = json!(true);
    let stop = json!({ "continue": false, "stopReason": "WHY" });
    let (ran, refused, stopped) = (Some("ran "), Some("refused "), None);
    for (event, reply, said, is_told) in [
        ("PreToolUse", before("allow"), ran, false),
        ("PreToolUse", before("deny"), refused, true),
        ("PreToolUse", stop.clone(), stopped, false),
        (
            "PermissionRequest",
            request(json!({ "behavior": "allow" })),
            ran,
            false,
        ),
        ("PermissionRequest", request(deny), refused, true),
        ("PermissionRequest", request(interrupt), stopped, false),
        ("PermissionRequest", stop, stopped, false),
    ] {
        let project = permission_project(event, &format!("echo '{reply}'"));
        let ran = project.run();
        let case = format!("{event} {reply}: {}{}", ran.out, ran.err);
        assert_eq!(ran.code == 4, said.is_none(), "{case}");
        let first = &project.kind("agent_said");
        let first = first.first().and_then(|record| record["text"].as_str());
        if let Some(said) = said {
            assert!(first.is_some_and(|text| text.starts_with(said)), "{case}");
        } else {
            let gates = project.kind("gate_opened");
            let reason = gates.last().and_then(|gate| gate["reason"].as_str());
            assert!(
                reason.is_some_and(|it| it.ends_with("stopped the session: WHY")),
                "{case}"
            );
            assert!(first.is_none_or(|text| !text.starts_with("ran")), "{case}");
        }
        let tells = |kind: &str| {
            let all = project.kind(kind);
            all.iter()
                .any(|record| record["text"].to_string().contains("WHY"))
        };
        assert_eq!(
            tells("pending_added") || tells("prompt_sent"),
            is_told,
            "{case}"
        );
    }
}

#[test]
fn a_question_is_declined_or_stops_the_session_as_the_reply_says() {
    let action = |action: &str| {
        let output = json!({ "hookEventName": "Elicitation", "action": action });
        json!({ "hookSpecificOutput": output })
    };
    let stop = json!({ "continue": false, "stopReason": "enough" });
    for (reply, code) in [(action("decline"), 0), (action("cancel"), 0), (stop, 4)] {
        let hooks = json!({ "Elicitation": group(&format!("echo '{reply}'")) });
        let project = asking_project(&hooks);
        let ran = project.run();
        assert_eq!(ran.code, code, "{reply}: {}{}", ran.out, ran.err);
        let said = project.kind("agent_said");
        let said = said.first().map(|record| record["text"].to_string());
        let declined = said.is_some_and(|text| text.contains("decline"));
        assert_eq!(declined, code == 0, "{reply}");
        let reason = project.kind("gate_opened");
        let reason = reason.last().map(|gate| gate["reason"].to_string());
        let stopped = reason.is_some_and(|it| it.contains("stopped the session: enough"));
        assert_eq!(stopped, code == 4, "{reply}");
    }
}

/// `continue: false` stops the session at every event that can: its reason is yours.
#[test]
fn continue_false_stops_the_session_and_the_agent_does_not_read_why() {
    let reply = r#"echo '{"continue":false,"stopReason":"WHY","decision":"block"}'"#;
    let task = format!("'{CREEL}' task add Write --id t && '{CREEL}' task done t");
    for event in [
        "SessionStart",
        "UserPromptSubmit",
        "Stop",
        "TaskCompleted",
        "StopFailure",
    ] {
        let turn = if event == "StopFailure" {
            json!({ "fail": "401 unauthorized" })
        } else {
            json!({ "run": task, "say": "Written." })
        };
        let config = json!({ "hooks": { event: group(reply) } });
        let project = project(&config, &json!([turn]));
        let ran = project.run();
        assert_eq!(ran.code, 4, "{event}: {}{}", ran.out, ran.err);
        let gate = project.kind("gate_opened")[0]["reason"].to_string();
        assert!(gate.contains("stopped the session: WHY"), "{event}: {gate}");
        let prompts = project.prompts();
        assert!(
            prompts.iter().all(|(_, text)| !text.contains("WHY")),
            "{event}: {prompts:?}"
        );
    }
}

/// A matcher selects the cause of a failure; what such a hook prints has no effect.
#[test]
fn a_failed_turn_runs_the_hooks_of_its_cause() {
    let handler = |command: &str| json!([{ "type": "command", "command": command }]);
    let hooks = json!({ "StopFailure": [
        { "matcher": "rate_limit", "hooks": handler("touch limited") },
        { "matcher": "authentication_failed|overloaded", "hooks": handler("touch failed; echo noise") },
    ] });
    let project = project(
        &json!({ "hooks": hooks }),
        &json!([{ "fail": "401 unauthorized" }]),
    );
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let has = |file: &str| project.root().join(file).exists();
    assert!(has("failed") && !has("limited"));
    let prompts = project.prompts();
    assert!(
        prompts.iter().all(|(_, text)| !text.contains("noise")),
        "{prompts:?}"
    );
}

/// A retry is named, and `asyncRewake` blocks like a hook that creel waits for.
#[test]
fn a_stop_hook_learns_that_it_has_blocked_before() {
    let command = "sh record.sh Stop; test -e fixed || { touch fixed; echo red >&2; exit 2; }";
    let hook = json!({ "type": "command", "command": command, "async": true, "asyncRewake": true });
    let hooks = json!({ "Stop": [{ "hooks": [hook] }] });
    let project = project(
        &json!({ "session": "s", "hooks": hooks }),
        &json!([{ "say": "One." }]),
    );
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let active: Vec<Value> = inputs(&project, "Stop")
        .iter()
        .map(|input| input["stop_hook_active"].clone())
        .collect();
    assert_eq!(active, [false, true]);
}
