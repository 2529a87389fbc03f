//! Secrets that hooks and agents print: nothing that creel writes has them.

use std::{fs, path::Path};

use serde_json::Value;

use crate::support::project::{Project, Ran};

/// Every form of a secret that the test plants. None is real.
const PLANTED: [&str; 5] = [
    "sk-live-planted0123456789",
    "ghp_planted0123456789abcdefABCDEF",
    "planted-in-the-environment",
    "acme-planted-7",
    "MIIEplantedplantedplantedplanted",
];

const CONFIG: &str = r#"
prompt: The user writes sk-written-by-the-user.
mask: ["acme-planted-[0-9]"]
max_hook_retries: 1
instructions: none
agents: { demo: { script: scenario.yaml } }
hooks:
  session_start:
    - { name: facts, command: "sh leak.sh", pipe_output: true }
  stop:
    - { name: tests, command: "sh leak.sh; sh leak.sh >&2; test -e done || exit 2", pipe_output: true }
"#;

const SCENARIO: &str = r#"
turns:
  - think: "Is it ghp_planted0123456789abcdefABCDEF?"
    say: "I found sk-live-planted0123456789 and planted-in-the-environment."
    run: "echo acme-planted-7; echo sk-live-planted0123456789 > kept.txt"
  - say: "Fixed."
    run: "touch done; creel_says=ghp_planted0123456789abcdefABCDEF true"
otherwise: { say: "<promise>COMPLETE</promise> acme-planted-7" }
"#;

/// Prints each secret, also in two pieces with a pause between them.
const LEAK: &str = r#"
echo "key: sk-live-planted0123456789"
printf 'split: ghp_planted0123'; sleep 0.1; echo 456789abcdefABCDEF
echo "$PLANTED_TOKEN and acme-planted-7"
printf -- '-----BEGIN PRIVATE KEY-----\nMIIEplantedplanted'; sleep 0.1
printf 'plantedplanted\n-----END PRIVATE KEY-----\n'
"#;

fn leaking() -> Project {
    Project::with(CONFIG)
        .file("scenario.yaml", SCENARIO)
        .file("leak.sh", LEAK)
}

fn with_token(project: &Project, args: &[&str]) -> Ran {
    let mut command = project.command(args);
    command.env("PLANTED_TOKEN", "planted-in-the-environment");
    command.env("CREEL_LOG", "debug");
    Ran::of(&command.output().expect("creel starts"))
}

/// The files below a folder that have one of the secrets.
fn leaks(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else {
        return found;
    };
    for entry in entries {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(leaks(&path));
        } else if let Ok(bytes) = fs::read(&path) {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let secrets = PLANTED.iter().filter(|secret| text.contains(**secret));
            found.extend(secrets.map(|secret| format!("{}: {secret}", path.display())));
        }
    }
    found
}

/// The journal and the trusted config quote the script of the agent, which the user wrote.
fn without_the_script(project: &Project) {
    let journal = project.journal();
    let text = fs::read_to_string(&journal).expect("a journal");
    let lines = text.lines().map(|line| {
        let mut record: Value = serde_json::from_str(line).expect("a record");
        if record["kind"] == "session_started" {
            record["plan"] = Value::Null;
        }
        format!("{record}\n")
    });
    let rest: String = lines.collect();
    fs::write(&journal, rest).expect("space");
}

#[test]
fn nothing_that_creel_writes_has_a_secret_that_a_hook_or_the_agent_printed() {
    let project = leaking();
    let ran = with_token(&project, &["run", "--headless", "--trust", "-s", "s"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let feedback = &project.kind("prompt_sent")[1]["text"];
    let feedback = feedback.as_str().expect("a text");
    assert!(
        feedback.contains("key: [masked]\nsplit: [masked]\n[masked] and [masked]\n[masked]"),
        "{feedback}"
    );
    assert!(project.read("kept.txt").contains(PLANTED[0]));
    let mut shown = ran.out + &ran.err;
    for args in [
        &["report", "s"][..],
        &["report", "s", "--format", "html"],
        &["report", "s", "--format", "json"],
        &["show", "s", "--prompts"],
        &["show", "s"],
    ] {
        shown += &with_token(&project, args).out;
    }
    assert!(shown.contains("sk-written-by-the-user"), "{shown}");
    for secret in PLANTED {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
    without_the_script(&project);
    let written = [project.root().join(".creel"), project.state_dir()];
    let mut found: Vec<String> = written.iter().flat_map(|folder| leaks(folder)).collect();
    // What the user trusted has the config and the script as they are, and a snapshot has the plan.
    found.retain(|leak| !leak.contains("/trust") && !leak.contains("/snapshot"));
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn a_secret_in_a_reply_is_masked_however_json_spells_it() {
    let reply = r#"{"additionalContext": "see:\nghp_planted0123456789abcdefABCDEF or \u0067hp_planted0123456789abcdefABCDEF",
        "systemMessage": "\tsk-live-planted0123456789"}"#;
    let config = "prompt: GOAL\nagents: { demo: { script: scenario.yaml } }\n\
                  hooks: { pre_iteration: [{ name: note, command: 'cat reply.json' }] }\n";
    let project = Project::with(config).file("reply.json", reply).file(
        "scenario.yaml",
        "otherwise: { say: <promise>COMPLETE</promise> }",
    );
    let ran = project.creel(&["run", "--headless", "--trust", "-s", "s"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let shown = project.creel(&["show", "s", "--prompts"]);
    assert!(shown.out.contains("[masked] or [masked]"), "{}", shown.out);
    assert_eq!(leaks(&project.root().join(".creel")), Vec::<String>::new());
    let printed = format!("{}{}{}", ran.out, ran.err, shown.out);
    assert!(
        !PLANTED.iter().any(|secret| printed.contains(secret)),
        "{printed}"
    );
}

#[test]
fn a_pattern_that_is_no_regular_expression_is_an_error_with_its_line() {
    let project =
        Project::with("prompt: GOAL\nmask:\n  - 'acme-[0-9'\n  - 'x*'\nchecks: [\"true\"]\n");
    let checked = project.creel(&["check"]);
    assert_eq!(checked.code, 2, "{}", checked.err);
    assert!(
        checked.err.contains("creel.yaml:3:5: this pattern of `mask` cannot be used: it is not a regular expression: unclosed character class"),
        "{}",
        checked.err
    );
    assert!(
        checked.err.contains(
            "creel.yaml:4:5: this pattern of `mask` cannot be used: it matches an empty text"
        ),
        "{}",
        checked.err
    );
}

#[test]
fn check_says_how_many_patterns_there_are() {
    let project = leaking();
    let checked = project.creel(&["check"]);
    assert!(
        checked
            .out
            .contains("mask       1 pattern of secrets besides the built-in ones\n"),
        "{}{}",
        checked.out,
        checked.err
    );
}
