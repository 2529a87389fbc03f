//! Command agents with more than plain text: JSON lines, terminals, errors printed as answers,
//! conversations.

use std::path::Path;

use creel::{
    agents::{Agent, AgentError, AgentHistory, TurnRequest, kinds::start},
    engine::{
        conversation::{AgentUpdate, StopReason, ToolStatus, TurnEnd, TurnUsage},
        policy::{AgentFacts, AgentSpec, OutputFormat},
        time::TimeSpan,
    },
};
use tokio_util::sync::CancellationToken;

use crate::support::{
    eventually, folder, in_folder,
    listener::{TurnRecorder, again, ended, failure, place, request, turn},
    lives, pid_in,
};

const CLAUDE: &str = r#"{"type":"system","subtype":"init","session_id":"5f-1"}
{"type":"assistant","message":{"content":[{"type":"text","text":"Schön. "}]},"session_id":"5f-1"}
{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls"}}]}}
{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"a.py"}]}}
{"type":"assistant","message":{"content":[{"type":"text","text":"<promise>COMPLETE</promise>"}]}}
{"result":"<promise>COMPLETE</promise>","type":"result","is_error":false,"total_cost_usd":0.5,"usage":{"input_tokens":7}}
"#;
const CODEX: &str = r#"{"type":"thread.started","thread_id":"5f-1"}
{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"Schön. "}}
{"type":"item.started","item":{"id":"t1","type":"command_execution","command":"ls","status":"in_progress"}}
{"type":"item.completed","item":{"id":"t1","type":"command_execution","command":"ls","aggregated_output":"a.py","status":"completed"}}
{"type":"item.completed","item":{"id":"item_2","type":"agent_message","text":"<promise>COMPLETE</promise>"}}
{"type":"turn.completed","usage":{"input_tokens":5,"output_tokens":2}}
"#;
const GEMINI: &str = r#"{"type":"init","session_id":"5f-1"}
{"type":"message","role":"assistant","content":"Sch","delta":true}
{"type":"message","role":"assistant","content":"ön. ","delta":true}
{"type":"tool_use","tool_name":"run_shell_command","tool_id":"t1","parameters":{"command":"ls"}}
{"type":"tool_result","tool_id":"t1","status":"success","output":"a.py"}
{"type":"message","role":"assistant","content":"<promise>COMPLETE</promise>\n","delta":true}
{"type":"result","status":"success","stats":{"total_tokens":7}}
"#;
const OPENCODE: &str = r#"{"type":"text","sessionID":"5f-1","part":{"text":"Schön. "}}
{"type":"tool_use","sessionID":"5f-1","part":{"tool":"bash","callID":"t1","state":{"status":"completed","input":{"command":"ls"},"output":"a.py"}}}
{"type":"text","sessionID":"5f-1","part":{"text":"<promise>COMPLETE</promise>"}}
{"type":"step_finish","sessionID":"5f-1","part":{"reason":"stop","tokens":{"total":7},"cost":0.5}}
"#;

const FORMATS: [(OutputFormat, &str); 4] = [
    (OutputFormat::Claude, CLAUDE),
    (OutputFormat::Codex, CODEX),
    (OutputFormat::Gemini, GEMINI),
    (OutputFormat::Opencode, OPENCODE),
];

/// A command agent with defaults that tests change.
struct Spec {
    command: String,
    continue_command: Option<String>,
    format: OutputFormat,
    tty: bool,
    known: AgentFacts,
}

impl Spec {
    fn new(command: &str, format: OutputFormat) -> Self {
        let (command, known) = (command.to_owned(), AgentFacts::default());
        Self {
            command,
            continue_command: None,
            format,
            tty: false,
            known,
        }
    }

    fn on_terminal(command: &str) -> Self {
        Self {
            tty: true,
            ..Self::new(command, OutputFormat::Text)
        }
    }

    fn then(self, continue_command: &str) -> Self {
        Self {
            continue_command: Some(continue_command.to_owned()),
            ..self
        }
    }

    fn start(self, dir: &Path, past: AgentHistory<'_>) -> Box<dyn Agent> {
        let Self {
            command,
            continue_command,
            format,
            tty,
            known,
        } = self;
        let spec = AgentSpec::Command {
            command,
            continue_command,
            format,
            tty,
            known,
        };
        start(&spec, place(dir), past).expect("an agent")
    }

    fn agent(self, dir: &Path) -> Box<dyn Agent> {
        self.start(dir, AgentHistory::default())
    }
}

/// An agent that prints these lines.
fn prints(lines: &str, format: OutputFormat, dir: &Path) -> Box<dyn Agent> {
    std::fs::write(dir.join("lines"), lines).expect("a file");
    Spec::new("cat lines", format).agent(dir)
}

fn spent(tokens: u64, cost: Option<f64>) -> TurnEnd {
    TurnEnd {
        spent: TurnUsage {
            tokens: Some(tokens),
            cost,
            ..TurnUsage::UNKNOWN
        },
        ..ended(StopReason::EndTurn)
    }
}

#[tokio::test]
async fn every_format_reports_text_tools_tokens_and_the_conversation() {
    for (format, lines) in FORMATS {
        let dir = folder();
        let (end, recorder) = turn(&mut *prints(lines, format, dir.path()), request("go")).await;
        let cost = matches!(format, OutputFormat::Claude | OutputFormat::Opencode).then_some(0.5);
        assert_eq!(end, Ok(spent(7, cost)), "{format:?}");
        assert_eq!(
            recorder.text(),
            "Schön. \n<promise>COMPLETE</promise>\n",
            "{format:?}"
        );
        let calls: Vec<_> = recorder
            .calls()
            .into_iter()
            .map(|c| (c.call, c.title, c.status, c.output))
            .collect();
        let done = (
            "turn-3/t1".to_owned(),
            "ls".to_owned(),
            ToolStatus::Completed,
            Some("a.py".to_owned()),
        );
        assert_eq!(calls, [done], "{format:?}");
        assert!(
            recorder.all().contains(&AgentUpdate::Opened("5f-1".into())),
            "{format:?}"
        );
        assert_eq!(recorder.warned(), [""; 0], "{format:?}");
    }
}

#[tokio::test]
async fn lines_are_passed_on_while_they_arrive_wherever_they_are_split() {
    for (format, lines) in FORMATS {
        let dir = folder();
        std::fs::write(in_folder(&dir, "lines"), lines).expect("a file");
        // In the middle of the two bytes of `ö`.
        let cut = lines.find('ö').expect("it is there") + 1;
        let first_line = lines.find('\n').expect("it is there") + 1;
        let command = format!(
            "head -c {cut} lines; while ! test -e go; do sleep 0.01; done; tail -c +{} lines",
            cut + 1
        );
        let mut agent = Spec::new(&command, format).agent(dir.path());
        let mut recorder = TurnRecorder::default();
        let listening = recorder.clone();
        let cancel = CancellationToken::new();
        let (_, ()) = tokio::join!(agent.turn(request(""), &mut recorder, &cancel), async {
            if cut > first_line {
                eventually("the first line", || !listening.all().is_empty()).await;
            }
            std::fs::write(in_folder(&dir, "go"), "").expect("a file");
        });
        assert_eq!(
            recorder.text(),
            "Schön. \n<promise>COMPLETE</promise>\n",
            "{format:?}"
        );
    }
}

#[tokio::test]
async fn a_stream_that_reports_a_failure_is_a_failed_turn_whatever_the_exit_code() {
    let failures = [
        (
            OutputFormat::Claude,
            r#"{"type":"result","subtype":"success","is_error":true,"result":"429: try again in 20s"}"#,
        ),
        (
            OutputFormat::Codex,
            r#"{"type":"turn.failed","error":{"message":"429: try again in 20s"}}"#,
        ),
        (
            OutputFormat::Gemini,
            r#"{"type":"result","status":"error","error":{"message":"429: try again in 20s"}}"#,
        ),
        (
            OutputFormat::Opencode,
            r#"{"type":"error","error":{"name":"APIError","data":{"message":"429: try again in 20s"}}}"#,
        ),
    ];
    for (format, line) in failures {
        let dir = folder();
        std::fs::write(in_folder(&dir, "lines"), line).expect("a file");
        for (exit, what) in [
            ("0", "the agent reports that its turn failed"),
            ("1", "the agent ended with exit 1"),
        ] {
            let mut agent = Spec::new(&format!("cat lines; echo chatter >&2; exit {exit}"), format)
                .agent(dir.path());
            let failed = turn(&mut *agent, request(""))
                .await
                .0
                .expect_err("a failure");
            assert_eq!(failed.retry_after, Some(TimeSpan::secs(20)), "{failed}");
            assert_eq!(
                failed.limit.and_then(|limit| limit.resets_in),
                Some(TimeSpan::secs(20)),
                "{failed}"
            );
            assert!(
                failed.message.contains(what) && failed.message.contains("429: try again"),
                "{failed}"
            );
            assert!(!failed.message.contains("chatter"), "{failed}");
        }
    }
}

#[tokio::test]
async fn non_json_is_text_and_unreadable_json_is_reported() {
    let dir = folder();
    let lines = format!(
        "Loading…\n\n{{\"type\":\"new\"}}\n{{\"type\": torn\nnull\n{CODEX}{{\"type\":\"item.comp"
    );
    let (end, recorder) = turn(
        &mut *prints(&lines, OutputFormat::Codex, dir.path()),
        request(""),
    )
    .await;
    assert_eq!(end, Ok(spent(7, None)));
    assert_eq!(
        recorder.text(),
        "Loading…\n\nnull\nSchön. \n<promise>COMPLETE</promise>\n"
    );
    let warned = recorder.warned();
    assert!(
        warned.len() == 1 && warned[0].contains("{\"type\": torn"),
        "{warned:?}"
    );
}

#[tokio::test]
async fn truncated_output_is_reported() {
    let dir = folder();
    let lines: String = CODEX
        .lines()
        .take(2)
        .map(|line| format!("{line}\n"))
        .collect();
    let (end, recorder) = turn(
        &mut *prints(&lines, OutputFormat::Codex, dir.path()),
        request(""),
    )
    .await;
    assert_eq!(
        (end, recorder.text().as_str()),
        (Ok(ended(StopReason::EndTurn)), "Schön. \n")
    );
    assert!(
        recorder.warned()[0].contains("ends abruptly"),
        "{:?}",
        recorder.warned()
    );
}

#[tokio::test]
async fn plain_text_instead_of_json_lines_is_shown_with_advice() {
    let dir = folder();
    let (end, recorder) = turn(
        &mut *prints("Hello.\n\nDone.\n", OutputFormat::Claude, dir.path()),
        request(""),
    )
    .await;
    assert_eq!(
        (end, recorder.text().as_str()),
        (Ok(ended(StopReason::EndTurn)), "Hello.\n\nDone.\n")
    );
    assert!(
        recorder.warned()[0].contains("`--output-format stream-json --verbose`"),
        "{:?}",
        recorder.warned()
    );
}

#[tokio::test]
async fn a_line_that_is_too_long_is_omitted_and_reported() {
    let dir = folder();
    let command = "head -c 9000000 /dev/zero | tr '\\0' '{'; echo; cat lines";
    std::fs::write(in_folder(&dir, "lines"), CODEX).expect("a file");
    let (end, recorder) = turn(
        &mut *Spec::new(command, OutputFormat::Codex).agent(dir.path()),
        request(""),
    )
    .await;
    assert_eq!(
        (end, recorder.text().as_str()),
        (Ok(spent(7, None)), "Schön. \n<promise>COMPLETE</promise>\n")
    );
    assert!(
        recorder.warned()[0].contains("9000000 B"),
        "{:?}",
        recorder.warned()
    );
}

#[tokio::test]
async fn a_flood_of_lines_is_bounded() {
    let dir = folder();
    let message = r#"{"type":"item.completed","item":{"id":"i","type":"agent_message","text":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}}"#;
    let command =
        format!("yes '{message}' | head -n 60000; echo '{{\"type\":\"turn.completed\"}}'");
    let (end, recorder) = turn(
        &mut *Spec::new(&command, OutputFormat::Codex).agent(dir.path()),
        request(""),
    )
    .await;
    assert!(end.is_ok(), "{end:?}");
    assert!(recorder.text().len() < 1024 * 1024 + 17 * 1024);
    assert!(
        recorder.warned()[0].contains("too long to keep"),
        "{:?}",
        recorder.warned()
    );
}

#[tokio::test]
async fn an_agent_that_asks_a_broken_server_for_ever_is_stopped() {
    let dir = folder();
    let empty =
        r#"{"type":"step_finish","part":{"reason":"unknown","tokens":{"input":0,"output":0}}}"#;
    let command = format!("echo $$ > pid; while :; do echo '{empty}'; sleep 0.01; done");
    let mut agent = Spec::new(&command, OutputFormat::Opencode).agent(dir.path());
    let message = failure(&mut *agent, request("")).await;
    assert!(
        message.starts_with("creel stopped the agent: its server keeps sending empty answers"),
        "{message}"
    );
    assert!(!lives(pid_in(&in_folder(&dir, "pid")).await));
}

#[tokio::test]
async fn the_message_of_a_failure_is_found_in_either_stream() {
    let dir = folder();
    let known = AgentFacts {
        install: Some("npm install -g mine".into()),
        login: Some("mine login".into()),
        ..AgentFacts::default()
    };
    let fails = async |command: &str| {
        let spec = Spec {
            known: known.clone(),
            ..Spec::new(command, OutputFormat::Text)
        };
        failure(&mut *spec.agent(dir.path()), request("")).await
    };
    let message = fails("no-such-agent-here").await;
    assert!(
        message.contains("not installed") && message.contains("npm install -g mine"),
        "{message}"
    );
    let message = fails("echo half an answer; echo 'error: 401 Unauthorized' >&2; exit 1").await;
    assert!(
        message.contains("Log in (mine login)") && message.ends_with("error: 401 Unauthorized"),
        "{message}"
    );
    let message = fails("echo 'Not logged in · Please run /login'; exit 1").await;
    assert!(
        message.contains("Log in (mine login)") && message.ends_with("Please run /login"),
        "{message}"
    );
    assert_eq!(
        fails("exit 1").await,
        "the agent ended with exit 1 and gave no reason"
    );
}

#[tokio::test]
async fn an_answer_that_is_an_error_in_disguise_is_a_failed_turn() {
    let disguised = AgentFacts {
        error_pattern: Some(r"^litellm\.\w+: ".into()),
        ..AgentFacts::default()
    };
    let dir = folder();
    let answer = "I begin.\nlitellm.RateLimitError: try again in 5s\nSee the docs.";
    let json = format!("{{\"type\":\"text\",\"part\":{{\"text\":{answer:?}}}}}");
    for (format, printed) in [
        (OutputFormat::Text, answer),
        (OutputFormat::Opencode, &json),
    ] {
        std::fs::write(in_folder(&dir, "lines"), printed).expect("a file");
        let spec = Spec {
            known: disguised.clone(),
            ..Spec::new("cat lines", format)
        };
        let failed = turn(&mut *spec.agent(dir.path()), request(""))
            .await
            .0
            .expect_err("a failure");
        let words = "the agent's answer was an error message: litellm.RateLimitError: try again in 5s\nSee the docs.";
        assert!(failed.message.ends_with(words), "{failed}");
        assert_eq!(failed.retry_after, Some(TimeSpan::secs(5)), "{failed}");
    }
    let spec = Spec {
        known: disguised,
        ..Spec::new(
            "echo 'what is litellm.RateLimitError: ?'",
            OutputFormat::Text,
        )
    };
    assert_eq!(
        turn(&mut *spec.agent(dir.path()), request("")).await.0,
        Ok(ended(StopReason::EndTurn))
    );
}

#[test]
fn an_invalid_pattern_is_refused() {
    let dir = folder();
    let mut spec = AgentSpec::command("true");
    if let AgentSpec::Command { known, .. } = &mut spec {
        known.error_pattern = Some("(".into());
    }
    let refused = start(&spec, place(dir.path()), AgentHistory::default()).err();
    assert!(
        matches!(&refused, Some(AgentError::Pattern(_))),
        "{refused:?}"
    );
}

#[tokio::test]
async fn colours_and_progress_are_not_part_of_an_answer() {
    let dir = folder();
    let command = "printf '\\033[1;3'; while ! test -e go; do sleep 0.01; done; \
                   printf '1mred\\033[0m\\r\\n 10%%\\r 50%%\\r100%%\\n\\033]8;;http://x\\033\\\\link\\033]8;;\\007'";
    let mut agent = Spec::new(command, OutputFormat::Text).agent(dir.path());
    let mut recorder = TurnRecorder::default();
    let cancel = CancellationToken::new();
    let (end, ()) = tokio::join!(agent.turn(request(""), &mut recorder, &cancel), async {
        std::fs::write(in_folder(&dir, "go"), "").expect("a file");
    });
    assert_eq!(
        (end, recorder.text().as_str()),
        (Ok(ended(StopReason::EndTurn)), "red\n100%\nlink")
    );
}

#[tokio::test]
async fn a_conversation_is_resumed_by_the_name_that_the_agent_reported() {
    let dir = folder();
    let first = r#"echo '{"type":"thread.started","thread_id":"5f-1"}'; echo '{"type":"turn.completed","usage":{"input_tokens":5}}'"#;
    let later = r#"printf '{"type":"thread.started","thread_id":"%s"}\n' {{conversation}}; cat; echo '{"type":"turn.completed","usage":{"input_tokens":12}}'"#;
    let spec = || {
        Spec::new(first, OutputFormat::Codex)
            .then(&format!("echo {{{{conversation}}}} >> names; {later}"))
    };
    let mut agent = spec().agent(dir.path());
    let (end, recorder) = turn(&mut *agent, request("one")).await;
    assert_eq!(
        (end, recorder.all()),
        (Ok(spent(5, None)), vec![AgentUpdate::Opened("5f-1".into())])
    );
    let (end, recorder) = turn(&mut *agent, again("two\n")).await;
    assert_eq!(
        (end, recorder.all()),
        (
            Ok(spent(7, None)),
            vec![AgentUpdate::Message("two\n".into())]
        )
    );
    // After a restart of creel.
    let mut agent = spec().start(
        dir.path(),
        AgentHistory {
            conversation: Some("7a-2"),
            ..AgentHistory::default()
        },
    );
    let (end, _) = turn(&mut *agent, again("three\n")).await;
    assert_eq!(
        end,
        Ok(ended(StopReason::EndTurn)),
        "what was spent before is not known"
    );
    let names = std::fs::read_to_string(in_folder(&dir, "names")).expect("the names");
    assert_eq!(names, "5f-1\n7a-2\n");
}

#[tokio::test]
async fn a_conversation_without_a_name_starts_again_with_a_warning() {
    let dir = folder();
    let mut agent = Spec::new("echo first", OutputFormat::Text)
        .then("echo later {{conversation}}")
        .agent(dir.path());
    turn(&mut *agent, request("")).await.0.expect("an end");
    let (_, recorder) = turn(&mut *agent, again("")).await;
    assert_eq!(recorder.text(), "first\n");
    assert!(
        recorder.warned()[0].contains("starts a new one"),
        "{:?}",
        recorder.warned()
    );
}

#[tokio::test]
async fn a_full_conversation_is_not_resumed() {
    let dir = folder();
    let mut agent = Spec::new("echo first", OutputFormat::Text)
        .then("echo 'Prompt is too long'; exit 1")
        .agent(dir.path());
    let message = failure(&mut *agent, again("")).await;
    assert!(message.contains("context: fresh"), "{message}");
    let (end, recorder) = turn(&mut *agent, again("")).await;
    assert_eq!(
        (end, recorder.text().as_str()),
        (Ok(ended(StopReason::EndTurn)), "first\n")
    );
    assert!(
        recorder.warned()[0].contains("cannot continue"),
        "{:?}",
        recorder.warned()
    );
}

#[tokio::test]
async fn an_agent_can_have_its_own_terminal() {
    let dir = folder();
    let command =
        "test -t 0 && test -t 1 && test -t 2 && stty size && : > /dev/tty && cat && echo err >&2";
    let (end, recorder) = turn(
        &mut *Spec::on_terminal(command).agent(dir.path()),
        request("one\ntwo"),
    )
    .await;
    assert_eq!(
        (end, recorder.text().as_str()),
        (Ok(ended(StopReason::EndTurn)), "40 120\none\ntwoerr\n")
    );
}

#[tokio::test]
async fn a_long_prompt_is_typed_completely() {
    let dir = folder();
    let longest = "ü".repeat(2047);
    let text: String = (0..40)
        .map(|n| {
            format!(
                "{n} {}\n{longest}\n\u{1b}\u{3}\u{15}\u{7f}\r\n",
                "x".repeat(500)
            )
        })
        .collect();
    let mut agent = Spec::on_terminal("cat > typed; printf 'read'").agent(dir.path());
    let (end, recorder) = turn(&mut *agent, request(&text)).await;
    assert_eq!(
        (end, recorder.text().as_str()),
        (Ok(ended(StopReason::EndTurn)), "read")
    );
    let typed = std::fs::read_to_string(in_folder(&dir, "typed")).expect("what was typed");
    assert_eq!(typed.len(), text.len());
    assert!(typed == text, "what is typed arrives as it is");
    let message = failure(&mut *agent, request(&"x".repeat(5000))).await;
    assert!(
        message.contains("{{prompt}}") && message.contains("tty"),
        "{message}"
    );
}

#[tokio::test]
async fn a_prompt_that_is_an_argument_is_not_typed() {
    let dir = folder();
    let mut agent =
        Spec::on_terminal("printf '<%s>' {{prompt}}; tput cols 2>/dev/null || echo 120")
            .agent(dir.path());
    let (end, recorder) = turn(&mut *agent, request(&"x".repeat(5000))).await;
    assert_eq!(end, Ok(ended(StopReason::EndTurn)));
    assert_eq!(recorder.text(), format!("<{}>120\n", "x".repeat(5000)));
}

#[tokio::test]
async fn lines_can_also_come_from_a_terminal() {
    let dir = folder();
    std::fs::write(in_folder(&dir, "lines"), CODEX.replace('\n', "\r\n")).expect("a file");
    let command = "printf '\\033]0;title\\007\\033[?25l'; cat lines";
    let spec = Spec {
        format: OutputFormat::Codex,
        ..Spec::on_terminal(command)
    };
    let (end, recorder) = turn(&mut *spec.agent(dir.path()), request("go")).await;
    assert_eq!(
        (end, recorder.text().as_str()),
        (Ok(spent(7, None)), "Schön. \n<promise>COMPLETE</promise>\n")
    );
}

#[tokio::test]
async fn processes_on_a_terminal_are_ended_too() {
    let dir = folder();
    let command =
        "echo $$ > pid; trap '' HUP; (setsid sh -c 'echo $$ > away; exec sleep 1000') & sleep 1000";
    let mut agent = Spec::on_terminal(command).agent(dir.path());
    let cancel = CancellationToken::new();
    let mut recorder = TurnRecorder::default();
    let (end, pids) = tokio::join!(agent.turn(request("x"), &mut recorder, &cancel), async {
        let pids = [
            pid_in(&in_folder(&dir, "pid")).await,
            pid_in(&in_folder(&dir, "away")).await,
        ];
        cancel.cancel();
        pids
    });
    assert_eq!(end, Ok(ended(StopReason::Cancelled)));
    assert!(pids.iter().all(|pid| !lives(*pid)));

    let mut agent = Spec::on_terminal("echo $$ > slow; echo begun; sleep 1000").agent(dir.path());
    let slow = TurnRequest {
        timeout: TimeSpan::secs(4),
        ..request("")
    };
    let (end, recorder) = turn(&mut *agent, slow).await;
    assert!(end.expect_err("a failure").message.contains("turn_timeout"));
    assert_eq!(recorder.text(), "begun\n");
    assert!(!lives(pid_in(&in_folder(&dir, "slow")).await));

    let message = failure(
        &mut *Spec::on_terminal("echo broken; exit 3").agent(dir.path()),
        request(""),
    )
    .await;
    assert_eq!(message, "the agent ended with exit 3: broken");
}

#[tokio::test]
async fn a_refused_login_ends_the_turn_at_once() {
    let dir = folder();
    let retry = r#"{"type":"system","subtype":"api_retry","attempt":1,"max_retries":10,"retry_delay_ms":500,"error_status":401,"error":"authentication_failed","session_id":"5f-1"}"#;
    let spec = Spec {
        known: AgentFacts {
            login: Some("mine login".into()),
            ..AgentFacts::default()
        },
        ..Spec::new(
            &format!("echo $$ > pid; echo '{retry}'; exec sleep 1000"),
            OutputFormat::Claude,
        )
    };
    let message = failure(&mut *spec.agent(dir.path()), request("")).await;
    assert!(
        message.starts_with("the agent is not logged in") && message.contains("mine login"),
        "{message}"
    );
    assert!(!lives(pid_in(&in_folder(&dir, "pid")).await));
}

#[tokio::test]
async fn only_a_conversation_that_exists_is_continued() {
    let dir = folder();
    // The first turn fails before the agent answers: the next one starts the conversation.
    let init = r#"{"type":"init","session_id":"5f-1"}"#;
    let first = format!(
        "echo '{init}'; cat >> prompts; test -e tried || {{ touch tried; exit 1; }}; echo '{{\"type\":\"result\",\"status\":\"success\"}}'"
    );
    let mut agent = Spec::new(&first, OutputFormat::Gemini)
        .then("echo {{conversation}} > wrong; exit 42")
        .agent(dir.path());
    failure(&mut *agent, request("GOAL\n")).await;
    let (end, recorder) = turn(&mut *agent, again("recover\n")).await;
    assert_eq!(end, Ok(ended(StopReason::EndTurn)));
    assert!(
        recorder.warned()[0].contains("no conversation to continue"),
        "{:?}",
        recorder.warned()
    );
    let prompts = std::fs::read_to_string(in_folder(&dir, "prompts")).expect("the prompts");
    assert_eq!(prompts, "GOAL\nGOAL\n\nrecover\n");
    // One that the agent does not know any more is replaced in the same turn.
    let mut agent = Spec::new("echo anew; cat", OutputFormat::Text)
        .then("echo 'Error resuming session: Invalid session identifier \"x\".' >&2; exit 42")
        .agent(dir.path());
    turn(&mut *agent, request("GOAL\n"))
        .await
        .0
        .expect("an end");
    let (end, recorder) = turn(&mut *agent, again("recover\n")).await;
    assert_eq!(
        (end, recorder.text().as_str()),
        (Ok(ended(StopReason::EndTurn)), "anew\nGOAL\n\nrecover\n")
    );
}
