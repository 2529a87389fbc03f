//! Agents that are commands or scripts, turn by turn.

use std::{ffi::OsString, fs, os::unix::ffi::OsStringExt as _, path::Path};

use creel::{
    agents::{Agent, AgentError, AgentHistory, TurnRequest, kinds::start},
    engine::{
        conversation::{AgentUpdate, ConversationMode, StopReason, ToolStatus, TurnFailure},
        policy::{AgentFacts, AgentSpec, OutputFormat},
        time::TimeSpan,
    },
};
use tokio_util::sync::CancellationToken;

use crate::support::{
    acp_agent, eventually, folder, in_folder,
    listener::{TurnRecorder, ended, failure, place, request, turn},
    lives, pid_in,
    project::Project,
};

fn command(line: &str, dir: &Path) -> Box<dyn Agent> {
    let spec = AgentSpec::command(line);
    start(&spec, place(dir), AgentHistory::default()).expect("an agent")
}

fn scripted(script: &str, dir: &Path) -> Box<dyn Agent> {
    start(
        &AgentSpec::Scripted {
            script: script.into(),
        },
        place(dir),
        AgentHistory::default(),
    )
    .expect("an agent")
}

#[tokio::test]
async fn the_prompt_is_on_standard_input_and_the_answer_on_standard_output() {
    let dir = folder();
    let mut agent = command("echo \"$CREEL_SESSION:\"; cat", dir.path());
    let (end, recorder) = turn(&mut *agent, request("do it\n")).await;
    assert_eq!(
        (end, recorder.text().as_str(), recorder.groups()),
        (Ok(ended(StopReason::EndTurn)), "s-1:\ndo it\n", 1)
    );
}

#[tokio::test]
async fn the_prompt_can_be_one_argument() {
    let dir = folder();
    let mut agent = command(
        "printf '<%s>' {{prompt}} \"{{prompt}}\" '{{session}}'; cat",
        dir.path(),
    );
    let text = "it's $(touch pwned) \"x\"\n--help";
    let (_, recorder) = turn(&mut *agent, request(text)).await;
    assert_eq!(recorder.text(), format!("<{text}><{text}><s-1>"));
    let too_long = failure(&mut *agent, request(&"x".repeat(200_000))).await;
    assert!(too_long.contains("standard input"), "{too_long}");
}

#[tokio::test]
async fn later_turns_of_a_conversation_have_their_own_command() {
    let dir = folder();
    let spec = AgentSpec::Command {
        command: "echo first".into(),
        continue_command: Some("echo later".into()),
        format: OutputFormat::Text,
        tty: false,
        known: AgentFacts::default(),
    };
    let mut agent = start(&spec, place(dir.path()), AgentHistory::default()).expect("an agent");
    assert_eq!(turn(&mut *agent, request("")).await.1.text(), "first\n");
    let same = TurnRequest {
        conversation: ConversationMode::Same,
        ..request("")
    };
    assert_eq!(turn(&mut *agent, same).await.1.text(), "later\n");
}

#[tokio::test]
async fn the_answer_is_passed_on_while_it_arrives() {
    let dir = folder();
    let mut agent = command(
        "printf 'no line end'; while ! test -e go; do sleep 0.01; done; printf .",
        dir.path(),
    );
    let mut recorder = TurnRecorder::default();
    let listening = recorder.clone();
    let cancel = CancellationToken::new();
    let (end, ()) = tokio::join!(agent.turn(request(""), &mut recorder, &cancel), async {
        eventually("live text", || listening.text() == "no line end").await;
        std::fs::write(in_folder(&dir, "go"), "").expect("a file");
    });
    assert_eq!(
        (end, recorder.text().as_str()),
        (Ok(ended(StopReason::EndTurn)), "no line end.")
    );
}

#[tokio::test]
async fn a_character_in_two_pieces_is_joined() {
    let dir = folder();
    let line = "printf 'a\\342'; touch half; while ! test -e go; do sleep 0.01; done; printf '\\202\\254b\\377'";
    let mut agent = command(line, dir.path());
    let mut recorder = TurnRecorder::default();
    let listening = recorder.clone();
    let cancel = CancellationToken::new();
    let (_, ()) = tokio::join!(agent.turn(request(""), &mut recorder, &cancel), async {
        eventually("the first piece", || listening.text() == "a").await;
        std::fs::write(in_folder(&dir, "go"), "").expect("a file");
    });
    assert_eq!(recorder.text(), "a€b\u{fffd}");
}

#[tokio::test]
async fn an_empty_answer_ends_well() {
    let dir = folder();
    let (end, recorder) = turn(&mut *command("true", dir.path()), request("")).await;
    assert_eq!(
        (end, recorder.all()),
        (Ok(ended(StopReason::EndTurn)), vec![])
    );
}

#[tokio::test]
async fn a_failed_command_is_a_failed_turn_with_the_end_of_its_errors() {
    let dir = folder();
    let message = failure(
        &mut *command(
            "echo half; seq 1 10000 >&2; echo broken >&2; exit 3",
            dir.path(),
        ),
        request(""),
    )
    .await;
    assert!(
        message.starts_with("the agent ended with exit 3: ")
            && message.ends_with("\nbroken")
            && message.len() < 3000,
        "{message}"
    );
    let message = failure(&mut *command("kill -9 $$", dir.path()), request("")).await;
    assert!(message.contains("killed by signal 9"), "{message}");
    let message = failure(
        &mut *command("no-such-agent-here --fast", dir.path()),
        request(""),
    )
    .await;
    assert!(
        message.contains("not installed") && message.contains("no-such-agent-here --fast"),
        "{message}"
    );
}

#[tokio::test]
async fn a_turn_that_takes_too_long_fails_and_leaves_no_process() {
    let dir = folder();
    let mut agent = command("echo $$ > pid; echo begun; sleep 1000", dir.path());
    let slow = TurnRequest {
        timeout: TimeSpan::secs(4),
        ..request("")
    };
    let (end, recorder) = turn(&mut *agent, slow).await;
    let message = end.expect_err("a failure").message;
    assert!(message.contains("within 4 s (turn_timeout)"), "{message}");
    assert_eq!(recorder.text(), "begun\n");
    assert!(!lives(pid_in(&in_folder(&dir, "pid")).await));
}

#[tokio::test]
async fn a_cancelled_turn_ends_as_cancelled_and_leaves_no_process() {
    let dir = folder();
    for (kind, mut agent) in [
        (
            "command",
            command("echo $$ > pid-command; sleep 1000 & sleep 1000", dir.path()),
        ),
        (
            "script",
            scripted(
                "turns: [{ run: 'echo $$ > pid-script; sleep 1000 & sleep 1000' }]",
                dir.path(),
            ),
        ),
    ] {
        let cancel = CancellationToken::new();
        let mut recorder = TurnRecorder::default();
        let (end, pid) = tokio::join!(agent.turn(request(""), &mut recorder, &cancel), async {
            let pid = pid_in(&in_folder(&dir, &format!("pid-{kind}"))).await;
            cancel.cancel();
            pid
        });
        assert_eq!(end, Ok(ended(StopReason::Cancelled)), "{kind}");
        assert!(!lives(pid), "{kind}");
    }
}

#[tokio::test]
async fn a_very_long_answer_is_bounded_and_reported() {
    let dir = folder();
    let mut agent = command(
        "echo start; head -c 100000000 /dev/zero | tr '\\0' x; echo; echo end",
        dir.path(),
    );
    let (end, recorder) = turn(&mut *agent, request("")).await;
    assert_eq!(end, Ok(ended(StopReason::EndTurn)));
    let message = recorder.text();
    assert!(message.len() < 1024 * 1024 + 17 * 1024);
    assert!(message.starts_with("start\nxxx") && message.ends_with("xxx\nend\n"));
    assert!(message.contains("\n[… 98"));
    assert!(
        recorder.warned()[0].contains("outputs/turn-3.log"),
        "{:?}",
        recorder.warned()
    );
    let file = std::fs::metadata(in_folder(&dir, "session/outputs/turn-3.log")).expect("the file");
    assert_eq!(file.len(), 64 * 1024 * 1024);
}

#[tokio::test]
async fn an_answer_just_over_the_limit_is_complete() {
    let dir = folder();
    let mut agent = command("head -c 1050000 /dev/zero | tr '\\0' x", dir.path());
    let (_, recorder) = turn(&mut *agent, request("")).await;
    assert_eq!(
        (recorder.text(), recorder.warned()),
        ("x".repeat(1_050_000), vec![])
    );
}

#[tokio::test]
async fn a_script_says_and_does_what_it_lists() {
    let dir = folder();
    let script = r#"
turns:
  - think: "hm"
    say: "one\ntwo"
    run: ["echo hi > made; echo made it; echo $CREEL_SESSION", "exit 4"]
"#;
    let (end, recorder) = turn(&mut *scripted(script, dir.path()), request("go")).await;
    assert_eq!(end, Ok(ended(StopReason::EndTurn)));
    let shown: Vec<String> = recorder
        .all()
        .into_iter()
        .map(|update| match update {
            AgentUpdate::Message(text) => format!("said {text:?}"),
            AgentUpdate::Thought(text) => format!("thought {text:?}"),
            AgentUpdate::ToolCalled(call) => format!("called {} {:?}", call.call, call.status),
            AgentUpdate::ToolUpdated(call) => {
                format!("updated {} {:?} {:?}", call.call, call.status, call.output)
            }
            AgentUpdate::Warned(text) => format!("warned {text:?}"),
            other @ (AgentUpdate::Planned(_)
            | AgentUpdate::Used(_)
            | AgentUpdate::Opened(_)
            | AgentUpdate::Noted { .. }) => format!("{other:?}"),
        })
        .collect();
    let in_progress = ToolStatus::InProgress;
    assert_eq!(
        shown,
        [
            "thought \"hm\"".into(),
            "said \"one\\n\"".into(),
            "said \"two\"".into(),
            format!("called turn-3/1 {in_progress:?}"),
            "updated turn-3/1 Completed Some(\"made it\\ns-1\")".into(),
            format!("called turn-3/2 {in_progress:?}"),
            "updated turn-3/2 Failed Some(\"exit 4\")".into(),
        ]
    );
    assert!(in_folder(&dir, "made").exists());
}

#[tokio::test]
async fn a_script_can_fail_crash_hang_and_run_out() {
    let dir = folder();
    let script = "turns: [{ fail: broken, say: hm }, { crash: true }, { hang: true }, { stop_reason: refusal }]";
    let mut agent = scripted(script, dir.path());
    let (end, recorder) = turn(&mut *agent, request("")).await;
    assert_eq!(
        (end, recorder.text().as_str()),
        (Err(TurnFailure::new("broken")), "hm")
    );
    assert!(failure(&mut *agent, request("")).await.contains("crashed"));
    let hanging = TurnRequest {
        timeout: TimeSpan(50),
        ..request("")
    };
    assert!(
        failure(&mut *agent, hanging)
            .await
            .contains("within 50 ms (turn_timeout)")
    );
    assert_eq!(
        turn(&mut *agent, request("")).await.0,
        Ok(ended(StopReason::Refusal))
    );
    let (end, recorder) = turn(&mut *agent, request("")).await;
    assert_eq!(
        (end, recorder.all()),
        (Ok(ended(StopReason::EndTurn)), vec![])
    );
}

#[tokio::test]
async fn a_hanging_script_can_be_cancelled() {
    let dir = folder();
    let mut agent = scripted("turns: [{ say: begun, hang: true }]", dir.path());
    let cancel = CancellationToken::new();
    let mut recorder = TurnRecorder::default();
    let listening = recorder.clone();
    let endless = TurnRequest {
        timeout: TimeSpan(0),
        ..request("")
    };
    let (end, ()) = tokio::join!(agent.turn(endless, &mut recorder, &cancel), async {
        eventually("it hangs", || listening.text() == "begun").await;
        cancel.cancel();
    });
    assert_eq!(end, Ok(ended(StopReason::Cancelled)));
}

#[test]
fn an_unusable_agent_is_refused_with_advice() {
    let dir = folder();
    let refused = |spec: &AgentSpec| -> AgentError {
        start(spec, place(dir.path()), AgentHistory::default())
            .err()
            .expect("it cannot be used")
    };
    let AgentSpec::Acp {
        command,
        mode,
        files,
        terminals,
        ..
    } = AgentSpec::acp("agent")
    else {
        panic!("it is")
    };
    let known = AgentFacts {
        error_pattern: Some("(".into()),
        ..AgentFacts::default()
    };
    let acp = AgentSpec::Acp {
        command,
        mode,
        files,
        terminals,
        known,
    };
    assert!(refused(&acp).to_string().contains("error_pattern"));
    let line = |command: &str| AgentSpec::command(command);
    assert!(
        refused(&line("a {{task_id}}"))
            .to_string()
            .contains("{{task_id}}")
    );
    assert!(
        refused(&line("bash -c 'a {{prompt}}'"))
            .to_string()
            .contains("$CREEL_PROMPT")
    );
    assert!(
        refused(&AgentSpec::Scripted {
            script: "turn: []".into()
        })
        .to_string()
        .contains("turn")
    );
}

#[test]
fn no_way_to_start_an_agent_passes_a_secret_into_a_clean_environment() {
    let acp = acp_agent();
    let acp = acp.display();
    let look = |place: &str| format!("env | LC_ALL=C grep -a -c SECRET > seen-{place}");
    let done = "echo \"<promise>COMPLETE</promise>\"";
    let command = |place: &str| {
        let look = look(place);
        format!("command: 'cat > /dev/null; {look}; {done}'")
    };
    let script = serde_json::json!({
        "on_start": [{"run": look("acp")}],
        "turns": [[
            {"terminal": {"command": "sh", "args": ["-c", look("terminal")]}},
            {"say": "<promise>COMPLETE</promise>"},
        ]],
    });
    let limit = "command: 'cat > /dev/null; echo usage limit reached >&2; exit 1', limit_pattern: 'usage limit'";
    for (place, agents, more) in [
        ("command", format!("a: {{ {} }}", command("command")), ""),
        ("tty", format!("a: {{ {}, tty: true }}", command("tty")), ""),
        (
            "acp",
            format!("a: {{ acp: \"'{acp}' script.json log\" }}"),
            "",
        ),
        (
            "terminal",
            format!("a: {{ acp: \"'{acp}' script.json log\" }}"),
            "",
        ),
        (
            "fallback",
            format!("a: {{ {limit} }}, b: {{ {} }}", command("fallback")),
            "limits: { fallback: [b] }",
        ),
    ] {
        let config = format!(
            "prompt: GOAL\nagent: a\nmax_iterations: 1\nagents: {{ {agents} }}\nenv: {{ base: clean }}\n\
             gates: {{ permissions: allow }}\n{more}\n"
        );
        let project = Project::with(&config).file("script.json", &script.to_string());
        let odd = OsString::from_vec(b"SECRET_\xff".to_vec());
        let mut run = project.command(&["run", "--headless", "--trust"]);
        let output = run.env("SECRET", "1").env(odd, "SECRET").output();
        let output = output.expect("creel");
        assert_eq!(
            project.read(&format!("seen-{place}")).trim(),
            "0",
            "{place}: {output:?}"
        );
        if place == "acp" {
            fs::remove_file(project.root().join("seen-acp")).expect("a file");
            let mut list = project.command(&["agents", "a"]);
            let output = list.env("SECRET", "1").output().expect("creel");
            assert_eq!(project.read("seen-acp").trim(), "0", "{output:?}");
        }
    }
}

#[test]
fn a_clean_environment_has_what_the_agent_needs_and_what_you_pass() {
    let config = "prompt: GOAL\nagent: a\nmax_iterations: 1\nagents:\n  \
        a: { command: 'cat > /dev/null; env > seen; echo \"<promise>COMPLETE</promise>\"', env: ['A_*'] }\n\
        hooks: { session_start: [{ command: 'env > hooks-seen' }] }\n";
    let run = |env: &str| {
        let project = Project::with(&format!("{config}{env}\n"));
        let mut command = project.command(&["run", "--headless", "--trust"]);
        command.envs([("SECRET", "1"), ("PASSED_ON", "2"), ("A_KEY", "3")]);
        let output = command.output().expect("creel");
        assert!(output.status.success(), "{output:?}");
        let names = |file: &str| -> Vec<String> {
            let text = project.read(file);
            let names = text
                .lines()
                .filter_map(|line| Some(line.split_once('=')?.0.to_owned()));
            names.collect()
        };
        assert!(names("hooks-seen").contains(&"SECRET".to_owned()));
        names("seen")
    };
    let has = |seen: &[String], name: &str| seen.iter().any(|one| one == name);
    let all = run("");
    assert!(has(&all, "SECRET") && has(&all, "A_KEY"));
    let some = run("env: { base: clean, pass: [PASSED_ON] }");
    assert!(!has(&some, "SECRET"), "{some:?}");
    for name in ["PATH", "HOME", "PASSED_ON", "A_KEY", "CREEL_SESSION"] {
        assert!(has(&some, name), "{name}: {some:?}");
    }
}
