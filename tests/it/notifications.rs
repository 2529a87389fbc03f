//! The recipes of docs/notifications.md, taken from the page itself and run in real sessions with
//! recorders.

use std::{
    fs,
    os::unix::{
        fs::{PermissionsExt as _, symlink},
        process::CommandExt as _,
    },
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

use crate::{
    attach::Background,
    support::{
        http::{HttpRecorder, HttpRequest, post},
        project::{Project, until},
    },
};

const PAGE: &str = include_str!("../../docs/notifications.md");

/// A reason that would be code in every language of the recipes.
const REASON: &str = "2 failed: \"a 'b\" $(touch pwned) `touch pwned` ${HOME} {{gate}} %s @x <!channel> <b>&amp; \\n\\ ✓ é\nsecond; line";

/// The block of the page that begins with this name.
fn recipe(name: &str) -> String {
    let heading = format!("# {name}");
    let is_heading = |line: &str| {
        line.strip_prefix(&heading)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
    };
    let mut blocks = PAGE.split("\n```").skip(1).step_by(2);
    let block = blocks.find(|block| block.lines().take(3).any(is_heading));
    let block = block.unwrap_or_else(|| panic!("the page has no block `{name}`"));
    block
        .split_once('\n')
        .expect("a language, then the text")
        .1
        .to_owned()
        + "\n"
}

/// A project with the hook of a recipe. A stop hook blocks its first turn, which opens a gate.
fn gated(name: &str) -> Project {
    let config = recipe(&format!("creel.yaml: {name}"));
    assert!(config.contains("\nhooks:\n  on_gate:\n"), "{config}");
    let project = Project::with(&format!(
        "prompt: GOAL\nagents: {{ demo: {{ script: scenario.yaml }} }}\nmax_hook_retries: 0\n\
         {config}  stop:\n    - {{ name: tests, command: sh check.sh }}\n"
    ))
    .file(
        "scenario.yaml",
        "turns: []\notherwise: { say: '<promise>COMPLETE</promise>' }\n",
    )
    .file(
        "check.sh",
        "[ ! -e checked ] || exit 0\ntouch checked\ncat reply.json\n",
    )
    .file(
        "reply.json",
        &json!({ "decision": "block", "reason": REASON }).to_string(),
    );
    install_creel(&project);
    project
}

/// The first folder on the recipes' `PATH`.
fn bin(project: &Project) -> PathBuf {
    project.temp_dir().join("bin")
}

/// Puts creel on the recipes' `PATH`.
pub(crate) fn install_creel(project: &Project) {
    fs::create_dir_all(bin(project)).expect("a folder");
    symlink(env!("CARGO_BIN_EXE_creel"), bin(project).join("creel")).expect("a link");
}

pub(crate) fn install(project: &Project, name: &str, text: &str) {
    let path = bin(project).join(name);
    fs::write(&path, text).expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
}

/// Installs scripts from the page, and the secrets that they read. They need two programs that are
/// not always installed.
fn install_scripts(project: &Project, names: &[&str], secrets: &str) {
    for program in ["curl", "jq"] {
        let found = Command::new(program).arg("--version").output();
        assert!(
            found.is_ok(),
            "`{program}` is missing, and docs/notifications.md needs it: install the package `{program}`"
        );
    }
    for name in names {
        let script = recipe(name);
        assert!(script.starts_with("#!/bin/sh\n"), "{script}");
        install(project, name, &script);
    }
    let folder = project.config_dir().join("creel");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("notify.env"), secrets).expect("a file");
}

/// Installs a program that writes its arguments, each followed by NUL, to a new file each time.
fn install_stub(project: &Project, name: &str) {
    let kept = project.temp_dir().join(name);
    let kept = kept.display();
    install(
        project,
        name,
        &format!(
            "#!/bin/sh\nprintf '%s\\0' \"$@\" > '{kept}.part'\nmv '{kept}.part' \"{kept}.$CREEL_STATE\"\n"
        ),
    );
}

/// A program in the project, with the tests' environment for creel.
pub(crate) fn command(project: &Project, program: &str, arguments: &[&str]) -> Command {
    let path = format!(
        "{}:{}",
        bin(project).display(),
        std::env::var("PATH").expect("a path")
    );
    let mut command = Command::new("env");
    let creel = project.command(&[]);
    for (name, value) in creel.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    for proxy in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
        command.env_remove(proxy);
    }
    command
        .env("PATH", path)
        .arg(program)
        .args(arguments)
        .current_dir(project.root())
        .stdin(Stdio::null());
    command
}

/// The session `s`, in the background, at its gate.
fn start(project: Project) -> Background {
    let ran = command(
        &project,
        "creel",
        &["run", "--detach", "--trust", "-s", "s"],
    )
    .output()
    .expect("creel starts");
    assert!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    let session = Background::of(project);
    session.waits_for("gate_opened");
    assert_eq!(session.project.kind("gate_opened")[0]["gate"], 1);
    session
}

/// The gate's reason from the journal: everything that the hook printed.
fn reason(session: &Background) -> String {
    let reason = session.project.kind("gate_opened")[0]["reason"]
        .as_str()
        .expect("a reason")
        .to_owned();
    assert!(reason.contains(REASON), "{reason}");
    reason
}

/// The session completes after that answer, and nothing in the reason was executed.
fn ends_after(session: &Background, choice: &str) {
    session.ends("complete");
    let answered = &session.project.kind("gate_answered")[0];
    assert_eq!(
        (&answered["choice"], &answered["by"]),
        (&json!(choice), &json!("cli")),
        "{answered}"
    );
    assert!(
        !session.project.root().join("pwned").exists(),
        "a part of the reason was run"
    );
    let broken: Vec<Value> = session.project.kind("warning");
    assert!(broken.is_empty(), "{broken:?}");
}

fn answer(session: &Background, choice: &str) {
    let ran = session
        .project
        .creel(&["gate", "answer", "-s", "s", "1", choice]);
    assert_eq!(ran.code, 0, "{}", ran.err);
}

/// A script that listens for answers until the test ends.
struct AnswerScript(Child);

impl AnswerScript {
    fn start(project: &Project, name: &str) -> Self {
        let mut script = command(project, name, &[]);
        Self(
            script
                .process_group(0)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("it starts"),
        )
    }
}

impl Drop for AnswerScript {
    fn drop(&mut self) {
        let group = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        if let Some(group) = group {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

// The desktop

#[test]
fn a_gate_is_shown_on_a_linux_desktop_with_its_text_escaped() {
    let project = gated("desktop-linux");
    install_stub(&project, "notify-send");
    let kept = project.temp_dir();
    let session = start(project);
    until("the notification", || {
        kept.join("notify-send.opened").exists()
    });
    answer(&session, "continue");
    ends_after(&session, "continue");
    let text = reason(&session)
        .replace('\\', "\\\\")
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    assert_eq!(
        fs::read_to_string(kept.join("notify-send.opened")).expect("arguments"),
        format!("--app-name=creel\0--urgency=critical\0--\0creel: s needs you\0{text}\0")
    );
    assert!(
        !kept.join("notify-send.closed").exists(),
        "only the opened gate is shown"
    );
}

#[test]
fn a_gate_is_shown_on_macos_with_its_text_outside_of_the_script() {
    let project = gated("desktop-macos");
    install_stub(&project, "osascript");
    let kept = project.temp_dir();
    let session = start(project);
    until("the notification", || {
        kept.join("osascript.opened").exists()
    });
    answer(&session, "continue");
    ends_after(&session, "continue");
    assert_eq!(
        fs::read_to_string(kept.join("osascript.opened")).expect("arguments"),
        format!(
            "-e\0on run argv\0\
             -e\0display notification (item 2 of argv) with title (item 1 of argv) sound name \"Ping\"\0\
             -e\0end run\0creel: s needs you\0{}\0",
            reason(&session)
        )
    );
    assert!(
        !kept.join("osascript.closed").exists(),
        "only the opened gate is shown"
    );
}

#[test]
fn a_gate_is_shown_on_windows_with_its_text_outside_of_the_script() {
    let project = gated("desktop-windows");
    let kept = project.temp_dir().join("shown");
    let path = kept.display();
    install(
        &project,
        "powershell.exe",
        &format!(
            "#!/bin/sh\nprintf '%s\\n' \"$*\" \"$WSLENV\" \"$CREEL_SESSION\" \"$CREEL_REASON\" > '{path}.part'\n\
             cat > '{path}.script'\nmv '{path}.part' '{path}.'$CREEL_STATE\n"
        ),
    );
    let session = start(project);
    until("the notification", || {
        kept.with_extension("opened").exists()
    });
    answer(&session, "continue");
    ends_after(&session, "continue");
    let read = |extension: &str| {
        fs::read_to_string(kept.with_extension(extension)).expect("it was written")
    };
    assert_eq!(
        read("opened"),
        format!(
            "-NoProfile -NonInteractive -Command -\nCREEL_SESSION:CREEL_REASON\ns\n{}\n",
            reason(&session)
        )
    );
    let script = read("script");
    assert!(
        script.contains("CreateTextNode($env:CREEL_REASON)") && !script.contains("2 failed"),
        "{script}"
    );
    assert!(
        !kept.with_extension("closed").exists(),
        "only the opened gate is shown"
    );
}

// The phone

/// Asserts that a message to the phone is complete.
fn is_complete(text: &str, session: &Background) {
    let gate = &session.project.kind("gate_opened")[0];
    let choices: Vec<&str> = gate["choices"]
        .as_array()
        .expect("choices")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert!(text.contains(&reason(session)), "{text}");
    assert!(
        text.contains(&format!("Answers: {}\n", choices.join(", "))),
        "{text}"
    );
    let command = text.lines().last().expect("it has lines");
    assert!(
        command.starts_with("creel gate answer ") && command.contains("CHOICE"),
        "{command}"
    );
}

#[test]
fn a_button_of_an_ntfy_message_answers_the_gate() {
    let server = HttpRecorder::start();
    let project = gated("ntfy");
    let secrets = format!(
        "export NTFY_URL={} NTFY_TOPIC=gates-1a NTFY_ANSWERS=answers-2b\n",
        server.url()
    );
    install_scripts(&project, &["creel-ntfy", "creel-ntfy-answers"], &secrets);
    let _script = AnswerScript::start(&project, "creel-ntfy-answers");
    server.wait_for("the script", |request| {
        request.method == "GET" && request.path == "/answers-2b/raw"
    });

    let session = start(project);
    let message = server.wait_for("the message", |request| request.path == "/");
    let sent = message.json();
    assert_eq!(message.method, "POST");
    assert_eq!(
        (&sent["topic"], &sent["title"]),
        (&json!("gates-1a"), &json!("creel: s"))
    );
    assert_eq!(
        (&sent["priority"], &sent["tags"]),
        (&json!(4), &json!(["raised_hand"]))
    );
    is_complete(sent["message"].as_str().expect("a text"), &session);
    let buttons = sent["actions"].as_array().expect("buttons");
    let labels: Vec<&Value> = buttons.iter().map(|button| &button["label"]).collect();
    assert_eq!(labels, ["continue", "ignore", "disable"]);

    // A text that is not an answer changes nothing.
    let answers = format!("{}/answers-2b", server.url());
    for other in [
        "s 1 $(touch pwned)",
        "--help",
        "s 1",
        "s 7 abort",
        "-s --nats x",
        "s 1 send -",
    ] {
        post(&answers, other);
    }
    let button = &buttons[0];
    assert_eq!(
        (&button["action"], &button["clear"]),
        (&json!("http"), &json!(true))
    );
    post(
        button["url"].as_str().expect("an address"),
        button["body"].as_str().expect("a text"),
    );
    ends_after(&session, "continue");
    let closed = server.wait_for("the second message", |request| {
        request.path == "/" && request.json()["message"] == "Gate 1 is closed: continue"
    });
    assert_eq!(
        closed.json(),
        json!({ "topic": "gates-1a", "title": "creel: s", "priority": 2, "message": "Gate 1 is closed: continue" })
    );
    assert_eq!(server.requests("/").len(), 2);
}

#[test]
fn a_text_for_the_agent_arrives_through_an_ntfy_server_with_a_password() {
    let server = HttpRecorder::start();
    let project = gated("ntfy");
    let secrets = format!(
        "export NTFY_URL={} NTFY_TOPIC=gates-1a NTFY_ANSWERS=answers-2b\n",
        server.url()
    );
    install_scripts(&project, &["creel-ntfy", "creel-ntfy-answers"], &secrets);
    let home = project.root().parent().expect("a home").to_owned();
    fs::write(
        home.join(".netrc"),
        "machine 127.0.0.1 login me password pw\n",
    )
    .expect("a file");
    let password = Some("Basic bWU6cHc=");
    let _script = AnswerScript::start(&project, "creel-ntfy-answers");
    let listens = server.wait_for("the script", |request| request.path == "/answers-2b/raw");
    let session = start(project);
    let message = server.wait_for("the message", |request| request.path == "/");
    assert_eq!(
        (
            listens.header("Authorization"),
            message.header("Authorization")
        ),
        (password, password)
    );
    post(
        &format!("{}/answers-2b", server.url()),
        "s 1 send --now: look at $(touch pwned) \"it\" é",
    );
    ends_after(&session, "send");
    let sent = &session.project.prompts()[1].1;
    assert!(
        sent.starts_with("[Message]: from the user\n--now: look at $(touch pwned) \"it\" é"),
        "{sent}"
    );
}

#[test]
fn a_script_that_a_hook_started_cannot_answer() {
    let server = HttpRecorder::start();
    let project = gated("ntfy");
    let secrets = format!(
        "export NTFY_URL={} NTFY_TOPIC=gates-1a NTFY_ANSWERS=answers-2b\n",
        server.url()
    );
    install_scripts(&project, &["creel-ntfy", "creel-ntfy-answers"], &secrets);
    let start_script = "setsid creel-ntfy-answers > refused 2>&1 &";
    let config = project.read("creel.yaml");
    project.write(
        "creel.yaml",
        &format!("{config}  session_start: [{{ command: '{start_script}' }}]\n"),
    );
    let session = start(project);
    server.wait_for("the script", |request| request.path == "/answers-2b/raw");
    post(&format!("{}/answers-2b", server.url()), "s 1 abort");
    until("creel refuses", || {
        session
            .project
            .read("refused")
            .contains("a hook may not answer gates")
    });
    answer(&session, "continue");
    ends_after(&session, "continue");
}

#[test]
fn a_key_in_telegram_answers_the_gate_and_other_people_do_not() {
    let server = HttpRecorder::start();
    let project = gated("telegram");
    let secrets = format!(
        "export TELEGRAM_URL={} TELEGRAM_TOKEN=7:tok TELEGRAM_CHAT=42\n",
        server.url()
    );
    install_scripts(
        &project,
        &["creel-telegram", "creel-telegram-answers"],
        &secrets,
    );
    let session = start(project);
    let message = server.wait_for("the message", |request| {
        request.path == "/bot7:tok/sendMessage"
    });
    assert_eq!(
        (message.method.as_str(), message.header("Content-Type")),
        ("POST", Some("application/json"))
    );
    let sent = message.json();
    assert_eq!(
        (&sent["chat_id"], &sent["disable_web_page_preview"]),
        (&json!("42"), &json!(true))
    );
    assert_eq!(sent.get("parse_mode"), None, "the text is plain");
    let text = sent["text"].as_str().expect("a text");
    assert!(text.starts_with("creel: s needs you\n\n"), "{text}");
    is_complete(text, &session);
    let keys = &sent["reply_markup"]["keyboard"];
    let expected: Vec<Value> = ["continue", "ignore", "disable", "abort"]
        .map(|choice| json!([{ "text": format!("s 1 {choice}") }]))
        .into();
    assert_eq!(keys, &json!(expected));

    // Messages from before the script's start, from other people and from groups are ignored.
    server.telegram(42, 42, "s 1 abort");
    let _script = AnswerScript::start(&session.project, "creel-telegram-answers");
    let waits = |request: &HttpRequest| {
        request.path.ends_with("/getUpdates") && request.body.contains("offset=101")
    };
    server.wait_for("the script", waits);
    server.telegram(666, 666, "s 1 abort");
    server.telegram(42, 666, "s 1 abort");
    server.telegram(-42, 42, "s 1 abort");
    server.telegram(42, 42, "hello");
    server.telegram(42, 42, keys[0][0]["text"].as_str().expect("a text"));
    ends_after(&session, "continue");
    let closed = server.wait_for("the second message", |request| {
        request.path.ends_with("/sendMessage")
            && request.json()["text"] == "Gate 1 is closed: continue"
    });
    assert_eq!(
        closed.json()["reply_markup"],
        json!({ "remove_keyboard": true })
    );
}

#[test]
fn a_gate_is_posted_to_slack_and_the_command_in_the_message_answers_it() {
    let server = HttpRecorder::start();
    let project = gated("slack");
    install_scripts(
        &project,
        &["creel-slack"],
        &format!(
            "export SLACK_WEBHOOK={}/services/T/B/secret\n",
            server.url()
        ),
    );
    let session = start(project);
    let message = server.wait_for("the message", |request| {
        request.path == "/services/T/B/secret"
    });
    assert_eq!(
        (message.method.as_str(), message.header("Content-Type")),
        ("POST", Some("application/json"))
    );
    let sent = message.json();
    assert_eq!(
        (
            &sent["mrkdwn"],
            &sent["unfurl_links"],
            &sent["unfurl_media"]
        ),
        (&json!(false), &json!(false), &json!(false))
    );
    let text = sent["text"].as_str().expect("a text");
    assert!(!text.contains(['<', '>']), "{text}");
    let text = text
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&");
    assert!(text.starts_with("creel: s needs you\n"), "{text}");
    is_complete(&text, &session);

    let line = text
        .lines()
        .last()
        .expect("it has lines")
        .replace("CHOICE", "continue");
    let ran = command(&session.project, "sh", &["-c", &line])
        .output()
        .expect("a shell");
    assert!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    ends_after(&session, "continue");
    assert_eq!(
        server.requests("/services/T/B/secret").len(),
        1,
        "only the opened gate is told"
    );
}

#[test]
fn a_gate_that_the_config_answers_sends_nothing() {
    let server = HttpRecorder::start();
    for name in ["ntfy", "telegram", "slack"] {
        let project = gated(name);
        let url = server.url();
        let secrets = format!(
            "export NTFY_URL={url} NTFY_TOPIC=a NTFY_ANSWERS=b SLACK_WEBHOOK={url}\n\
             export TELEGRAM_URL={url} TELEGRAM_TOKEN=a TELEGRAM_CHAT=1\n"
        );
        install_scripts(&project, &[&format!("creel-{name}")], &secrets);
        let ran = command(
            &project,
            "creel",
            &["run", "--headless", "--trust", "-s", "s"],
        )
        .output()
        .expect("creel starts");
        assert_eq!(
            ran.status.code(),
            Some(5),
            "{}",
            String::from_utf8_lossy(&ran.stderr)
        );
        let runs = project
            .kind("hook_finished")
            .into_iter()
            .filter(|run| run["point"] == "on_gate");
        assert_eq!(
            runs.map(|run| run["verdict"].clone()).collect::<Vec<_>>(),
            ["pass", "pass"]
        );
    }
    assert_eq!(server.count(), 0);
}

#[test]
fn an_unresponsive_server_causes_a_warning_and_blocks_no_session() {
    let server = HttpRecorder::start();
    let gone = server.url();
    drop(server);
    let project = gated("slack");
    install_scripts(
        &project,
        &["creel-slack"],
        &format!("export SLACK_WEBHOOK={gone}/x\n"),
    );
    let session = start(project);
    until("the hook has failed", || {
        session
            .project
            .kind("hook_finished")
            .iter()
            .any(|run| run["point"] == "on_gate" && run["verdict"] != "pass")
    });
    answer(&session, "continue");
    session.ends("complete");
}
