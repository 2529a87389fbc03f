//! Hooks of `on_gate` as real commands: what they read, and what they may not do.

use serde_json::{Value, json};

use crate::{
    attach::Background,
    support::project::{Project, until},
};

const CREEL: &str = env!("CARGO_BIN_EXE_creel");

fn project(hook: &str, rest: &str) -> Project {
    let config = json!({
        "prompt": "GOAL", "agents": { "demo": { "script": "scenario.yaml" } }, "max_iterations": 1, "max_hook_retries": 0,
        "hooks": { "stop": [{ "command": r#"printf '%s\n' "it's $(id) \"red\" ü" >&2; exit 2"#, "name": "tests" }],
                   "on_gate": [{ "command": hook, "name": "tell" }] },
    });
    Project::with(&format!("{config}\n{rest}")).file("scenario.yaml", "turns: [{ say: Hello. }]\n")
}

fn lines(project: &Project, file: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(project.root().join(file)).unwrap_or_default();
    text.lines()
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect()
}

#[test]
fn the_hook_reads_the_gates_facts_and_the_command_that_answers_it() {
    let session = Background::start(project("cat >> told", ""));
    until("the hook has run", || {
        lines(&session.project, "told").len() == 1
    });
    let opened = &lines(&session.project, "told")[0];
    let reason = session.project.kind("gate_opened")[0]["reason"].clone();
    assert!(
        reason
            .as_str()
            .is_some_and(|reason| reason.contains("\"red\" ü")),
        "{reason}"
    );
    let fields = [
        "hook_event_name",
        "gate",
        "about",
        "reason",
        "choices",
        "state",
        "waits_for_user",
        "choice",
    ];
    let seen: Vec<Value> = fields.iter().map(|field| opened[*field].clone()).collect();
    let choices = json!(["continue", "send", "ignore", "disable", "abort"]);
    let expected = [
        json!("on_gate"),
        json!(1),
        json!("retry_limit"),
        reason,
        choices,
        json!("opened"),
        json!(true),
    ];
    assert_eq!(seen, [&expected[..], &[Value::Null]].concat());
    let answer = opened["answer_command"].as_str().expect("a command line");
    let words: Vec<&str> = answer.split(' ').skip(1).chain(["ignore"]).collect();
    let answered = session.project.creel(&words);
    assert_eq!(answered.code, 0, "{answer}: {}", answered.err);
    session.ends("forced");
    let closed = &lines(&session.project, "told")[1];
    let seen = (
        &closed["state"],
        &closed["gate"],
        &closed["choice"],
        &closed["by"],
    );
    assert_eq!(
        seen,
        (&json!("closed"), &json!(1), &json!("ignore"), &json!("cli"))
    );
}

#[test]
fn values_reach_the_command_as_data() {
    let hook = "printf '%s|%s|%s|%s|%s\\n' {{state}} {{gate}} {{about}} \"{{choices}}\" '{{reason}}' >> told; \
                [ \"$CREEL_REASON\" = {{reason}} ] && [ \"$CREEL_ANSWER_COMMAND\" = {{answer_command}} ] && echo same >> told";
    let project = project(hook, "");
    let ran = project.run();
    assert_eq!(ran.code, 5, "{}{}", ran.out, ran.err);
    let reason = project.kind("gate_opened")[0]["reason"]
        .as_str()
        .expect("a reason")
        .to_owned();
    let line = |state| {
        format!("{state}|1|retry_limit|continue, send, ignore, disable, abort|{reason}\nsame\n")
    };
    let told = std::fs::read_to_string(project.root().join("told")).expect("the hook ran");
    assert_eq!(told, line("opened") + &line("closed"));
}

#[test]
fn a_hook_cannot_answer_the_gate_that_it_reports() {
    let hook = format!("'{CREEL}' gate answer \"$CREEL_GATE\" ignore 2>> refused; true");
    let session = Background::start(project(&hook, ""));
    let refused =
        || std::fs::read_to_string(session.project.root().join("refused")).unwrap_or_default();
    until("the hook tried", || !refused().is_empty());
    assert!(
        refused().contains("hook may not answer gates"),
        "{}",
        refused()
    );
    assert_eq!(
        session
            .project
            .creel(&["gate", "answer", "1", "abort"])
            .code,
        0
    );
    session.ends("aborted");
}

#[test]
fn a_hook_at_on_gate_cannot_block_and_pipes_nothing() {
    let check = |option: &str| {
        let hook = format!("hooks: {{ on_gate: [{{ command: 'true', {option} }}] }}");
        Project::with(&format!(
            "prompt: GOAL\nagents: {{ a: {{ command: cat }} }}\n{hook}\n"
        ))
        .creel(&["check"])
    };
    let ran = check("on_failure: escalate");
    assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
    assert!(
        ran.err
            .contains("a failure at `on_gate` can only be ignored"),
        "{}",
        ran.err
    );
    let ran = check("pipe_output: true");
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(
        ran.err.contains("`pipe_output` has no effect at `on_gate`"),
        "{}",
        ran.err
    );
}
