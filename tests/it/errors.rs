//! Errors as users meet them: each says what happened, why, and what to do next.
//!
//! `tests/fixtures/errors.txt` has all of them, to be read as a whole.

use std::{collections::BTreeSet, fs, os::unix::fs::PermissionsExt as _};

use expect_test::expect_file;
use regex::Regex;

use crate::support::{
    nats::NatsServer,
    project::{Project, Ran},
};

const AGENT: &str = "agent: a\nagents: { a: { script: scenario.yaml } }\n";
const SCRIPT: &str = "turns: [{ say: 'One.' }]\notherwise: { say: 'Nothing.' }\n";

/// How to provoke an error.
struct ErrorCase {
    /// Files of the project.
    files: &'static [(&'static str, &'static str)],
    /// Commands that come first.
    before: &'static [&'static [&'static str]],
    args: &'static [&'static str],
}

const fn case(args: &'static [&'static str]) -> ErrorCase {
    ErrorCase {
        files: &[],
        before: &[],
        args,
    }
}

const fn config(text: &'static [(&'static str, &'static str)]) -> ErrorCase {
    ErrorCase {
        files: text,
        before: &[],
        args: &["check"],
    }
}

/// In a project with a session `nightly` that reached its limit of one iteration.
const fn after_a_session(args: &'static [&'static str]) -> ErrorCase {
    ErrorCase {
        files: &[
            (
                "creel.yaml",
                "version: 1\nprompt: Go.\nagent: a\nagents: { a: { script: scenario.yaml } }\n",
            ),
            ("scenario.yaml", SCRIPT),
        ],
        before: &[&["run", "--headless", "--trust", "-n", "1", "-s", "nightly"]],
        args,
    }
}

const CASES: &[(&str, &[ErrorCase])] = &[
    (
        "The command line",
        &[
            case(&["frobnicate"]),
            case(&["rsume"]),
            case(&["ls"]),
            case(&["log"]),
            case(&["start"]),
            case(&["continue"]),
            case(&["kill"]),
            case(&["version"]),
            case(&["task", "lst"]),
            case(&["report", "--format", "pdf"]),
            case(&["export", "--format"]),
            case(&["import"]),
            case(&["status", "--config", "a", "--config", "b"]),
            case(&["run", "--agnt", "x"]),
            case(&["run", "-n", "-3"]),
            case(&["run", "-n", "0"]),
            case(&["run", "-n", "many"]),
            case(&["run", "Go.", "-f", "goal.md"]),
            case(&["run", "-s", "a b", "Go."]),
            case(&["show", "../x"]),
            case(&["gate", "answer", "one", "approve"]),
            case(&["gate", "answer", "1", "perhaps"]),
            case(&["pending", "show", "first"]),
            case(&["task", "add"]),
            case(&["task", "list", "--state", "open"]),
            case(&["--sessions"]),
            case(&["run", "fix", "the", "tests"]),
            case(&["run", "Go.", "--detach", "--headless"]),
            case(&["merge", "--nats", "nats://x"]),
            ErrorCase {
                files: &[("file", "")],
                before: &[],
                args: &["man", "--out", "file/man"],
            },
            case(&["hooks", "run", "tests", "--point", "end"]),
            case(&["worker", "--lease", "1ms"]),
            case(&["completions", "csh"]),
            case(&["init", "--template", "waterfall"]),
            case(&["demo", "everything"]),
            case(&["help", "exit-code"]),
            case(&["help", "quantum"]),
        ],
    ),
    (
        "No config, no agent, no session",
        &[
            case(&["run", "Go."]),
            case(&["check"]),
            case(&["check", "-c", "no-such.yaml"]),
            ErrorCase {
                files: &[("folder/x", "")],
                before: &[],
                args: &["check", "-c", "folder"],
            },
            case(&["trust"]),
            case(&["untrust"]),
            case(&["config", "path"]),
            case(&["submit"]),
            case(&["resume"]),
            case(&["resume", "nightly"]),
            case(&["show"]),
            case(&["show", "nightly"]),
            case(&["status"]),
            case(&["message", "Go."]),
            case(&["hooks", "stats"]),
            case(&["task", "list"]),
            case(&["task", "start", "--queue", "9"]),
            case(&["task", "add", "--queue", " "]),
            ErrorCase {
                files: &[(".creel/queue", "")],
                before: &[],
                args: &["task", "list", "--queue"],
            },
            case(&["worktree", "list"]),
            case(&["worker", "--max-load", "-1"]),
            case(&["config", "path", "-c", "no-such.yaml"]),
            case(&["worker"]),
        ],
    ),
    (
        "The config",
        &[
            config(&[(
                "creel.yaml",
                "version: 1\nhooks:\n  stop:\n    - command: \"cargo test\n",
            )]),
            config(&[("creel.yaml", "version: 1\nprompt: 'It's late.'\n")]),
            config(&[(
                "creel.yaml",
                "version: 1\nhooks:\n  stop:\n    - command: \"make\n      name: \"x\"\n",
            )]),
            config(&[(
                "creel.yaml",
                "version: 1\nhooks:\n  stop:\n    - command: echo \"a b\n    - command: |\n        echo one\n        echo it's\n",
            )]),
            config(&[("creel.yaml", "version: 1\nhooks:\n\tstop: []\n")]),
            config(&[("creel.yaml", "- version: 1\n")]),
            config(&[("creel.yaml", "prompt: [x\n")]),
            config(&[("creel.yaml", "version: 3\n")]),
            config(&[("creel.yaml", "hooks: { stopp: [] }\n")]),
            config(&[("creel.yaml", "max_iterations: lots\n")]),
            config(&[("creel.yaml", "max_iterations: -3\n")]),
            config(&[("creel.yaml", "agent: cluade\n")]),
            config(&[("creel.yaml", "prompt_file: goal.md\n")]),
            config(&[
                ("creel.yaml", "prompt_file: goals\n"),
                ("goals/one.md", "Go."),
            ]),
            config(&[(
                "creel.yaml",
                "hooks: { stop: [{ command: 'echo {{task}}' }] }\n",
            )]),
            config(&[("creel.yaml", "turn_timeout: soon\n")]),
            config(&[("creel.yaml", "nats: { url: 'http://x' }\n")]),
        ],
    ),
    (
        "A session that is over",
        &[
            after_a_session(&["run", "--headless", "--trust", "-s", "nightly"]),
            after_a_session(&["run", "--headless", "--trust", "-f", "goal.md"]),
            after_a_session(&["run", "--headless", "--trust", "-f", "."]),
            after_a_session(&["run", "--headless", "--trust", "-a", "b"]),
            after_a_session(&["run", "--headless", "--trust", "-t", "fix"]),
            after_a_session(&["run", "--headless", "--trust", "--tasks-from", "nigthly"]),
            after_a_session(&["resume", "nightly"]),
            after_a_session(&["resume", "nigthly"]),
            after_a_session(&["show", "nihgtly"]),
            after_a_session(&["replay", "nightly"]),
            after_a_session(&["attach", "nightly"]),
            after_a_session(&["status", "-s", "nightly"]),
            after_a_session(&["status"]),
            after_a_session(&["plan", "--session", "nightly", "--yes"]),
            ErrorCase {
                files: &[
                    (
                        "creel.yaml",
                        "prompt: Go.\nagent: a\nagents: { a: { script: scenario.yaml } }\n",
                    ),
                    ("scenario.yaml", "turn: []\n"),
                ],
                before: &[],
                args: &["run", "--headless", "--trust"],
            },
            after_a_session(&["hooks", "stats"]),
            after_a_session(&["task", "list"]),
            after_a_session(&["gate", "list", "-s", "nightly"]),
            after_a_session(&["checkpoint", "show", "4", "-s", "nightly"]),
            after_a_session(&["task", "show", "9", "-s", "nightly"]),
            ErrorCase {
                files: &[(
                    "creel.yaml",
                    "prompt: Go.\nagent: a\nagents: { a: { command: 'cat -' } }\n",
                )],
                before: &[],
                args: &["run", "--headless"],
            },
            ErrorCase {
                files: &[(
                    "creel.yaml",
                    "prompt: Go.\nagent: a\nagents: { a: { command: no-such-agent } }\n",
                )],
                before: &[],
                args: &["run", "--headless", "--trust"],
            },
            ErrorCase {
                files: &[
                    ("creel.yaml", "prompt: Go.\n"),
                    (".creel/sessions/s/journal.jsonl", "{\"v\":1,\"seq\":1\n"),
                ],
                before: &[],
                args: &["show", "s"],
            },
            ErrorCase {
                files: &[
                    (
                        "creel.yaml",
                        "agent: a\nagents: { a: { script: scenario.yaml } }\n",
                    ),
                    ("scenario.yaml", SCRIPT),
                ],
                before: &[],
                args: &["run", "--headless", "--trust"],
            },
        ],
    ),
];

/// creel in a project, without the paths of this machine and without agents of this machine.
fn provoked(project: &Project, args: &[&str]) -> Ran {
    let mut ran = Ran::of(
        &project
            .command(args)
            .env("PATH", "/usr/bin:/bin")
            .output()
            .expect("creel starts"),
    );
    let root = project.root().to_string_lossy().into_owned();
    ran.err = ran.err.replace(&root, "/project");
    ran
}

fn shown(args: &[&str], ran: &Ran) -> String {
    let words = args.iter().map(|word| {
        if word.contains(' ') {
            format!("{word:?}")
        } else {
            (*word).to_owned()
        }
    });
    format!(
        "$ creel {}\n{}exit code {}\n\n",
        words.collect::<Vec<_>>().join(" "),
        ran.err,
        ran.code
    )
}

/// What a message does not answer of: what happened, why, what to do next.
fn judged(args: &[&str], ran: &Ran) -> Vec<String> {
    let mut wrong = Vec::new();
    if ran.code == 0 || ran.err.trim().is_empty() {
        wrong.push("no error");
    }
    // A command, an option, a key of the config, or an imperative.
    let way_out = Regex::new(
        r"(?m)`[^`]+`|--[a-z]|did you mean|\b(close|indent|keep|quote|write|use|name|choose|set|check|list|cut|restore)\b",
    );
    if !way_out.expect("a regular expression").is_match(&ran.err) {
        wrong.push("it does not say what to do");
    }
    if ran.err.contains("os error") {
        wrong.push("it has the number of an error");
    }
    let causes = Regex::new(r"\b(cannot|could not|failed to)\b").expect("a regular expression");
    if ran.err.lines().any(|line| {
        line.split(": ")
            .filter(|part| causes.is_match(part))
            .count()
            > 1
    }) {
        wrong.push("it has a cause twice");
    }
    wrong
        .into_iter()
        .map(|what| format!("{what}: creel {}\n{}", args.join(" "), ran.err))
        .collect()
}

#[test]
fn each_error_says_what_happened_why_and_what_to_do() {
    let (mut text, mut wrong, mut seen) = (String::new(), Vec::new(), BTreeSet::new());
    for (heading, cases) in CASES {
        text += &format!("── {heading}\n\n");
        for ErrorCase {
            files,
            before,
            args,
        } in *cases
        {
            let project = files.iter().fold(Project::new(), |project, (name, text)| {
                project.file(name, text)
            });
            for first in *before {
                provoked(&project, first);
            }
            let ran = provoked(&project, args);
            wrong.extend(judged(args, &ran));
            seen.insert(format!("{files:?}{args:?}"));
            let config = files
                .iter()
                .find(|(name, _)| *name == "creel.yaml" && *args == ["check"]);
            text +=
                &config.map_or_else(String::new, |(_, config)| format!("{}\n", indented(config)));
            text += &shown(args, &ran);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen.len() >= 50, "only {} errors", seen.len());
    expect_file!["../fixtures/errors.txt"].assert_eq(&text);
}

fn indented(text: &str) -> String {
    text.lines()
        .map(|line| format!("    {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
#[expect(clippy::print_stderr, reason = "a test says what it skips")]
fn a_file_without_permission_is_named() {
    if rustix::process::geteuid().is_root() {
        eprintln!("root may read every file: skipped");
        return;
    }
    let project = Project::with(&format!("prompt: Go.\n{AGENT}"))
        .file("goal.md", "Go.")
        .file("scenario.yaml", SCRIPT);
    fs::set_permissions(
        project.root().join("goal.md"),
        fs::Permissions::from_mode(0o000),
    )
    .expect("it is ours");
    let ran = provoked(&project, &["run", "--headless", "--trust", "-f", "goal.md"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err
            .contains("cannot read the prompt from goal.md: you do not have permission"),
        "{}",
        ran.err
    );
}

#[test]
fn errors_of_a_nats_server_are_explained() {
    let project = Project::new();
    let asks = |url: &str| {
        let ran = provoked(&project, &["sessions", "--nats", url]);
        assert_eq!(ran.code, 1, "{}", ran.err);
        ran.err
    };
    let plain = NatsServer::start();
    let secured = NatsServer::with("authorization { user: me, password: secret }\n");
    let place = |server: &NatsServer| format!("127.0.0.1:{}", server.port());
    let tls = asks(&format!("tls://{}", place(&plain)));
    assert_eq!(
        tls,
        format!(
            "creel: tls://{}: the server does not speak TLS on this port\n  begin the URL with `nats://` if the server \
             has no TLS, or name the port that has it\n",
            place(&plain)
        )
    );
    for user in ["", "me:wrong@"] {
        let login = asks(&format!("nats://{user}{}", place(&secured)));
        assert!(
            login.starts_with(&format!(
                "creel: nats://{}: the server refused the login\n  set `user`",
                place(&secured)
            )),
            "{login}"
        );
        assert!(!login.contains("wrong"), "{login}");
    }
    let port = place(&plain);
    drop(plain);
    let away = asks(&format!("nats://{port}"));
    assert!(
        away.contains(
            "creel cannot reach the server: Connection refused\n  check that the server is running"
        ),
        "{away}"
    );
}
