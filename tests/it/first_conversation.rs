//! `creel run --from` and `--fork`: sessions that begin with a conversation that exists already.

use serde_json::{Value, json};

use crate::support::{
    acp_agent,
    project::{Project, Started},
};

const ALL: [&str; 3] = ["resume", "list", "fork"];

fn script(can: &[&str], turns: &Value) -> Value {
    let can: serde_json::Map<_, _> = can.iter().map(|it| ((*it).to_owned(), json!({}))).collect();
    json!({"capabilities": {"sessionCapabilities": can}, "state_file": "state.json", "turns": turns})
}

/// A project whose agent had conversations before creel: `mine` here, `other` in another folder.
fn project(script: &Value) -> Project {
    let config = format!(
        "prompt: GOAL\nagent: a\nmax_iterations: 3\nagents: {{ a: {{ acp: \"'{}' script.json log\" }} }}\n",
        acp_agent().display()
    );
    let project = Project::with(&config).file("script.json", &script.to_string());
    let sessions = json!({"mine": project.root(), "other": "/elsewhere"});
    project.file("state.json", &json!({"sessions": sessions}).to_string())
}

/// The methods that open conversations and send prompts, each with its conversation.
fn used(project: &Project) -> Vec<String> {
    let log = project.read("log");
    let messages = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let each = messages.filter_map(|message| {
        let method = message["method"].as_str()?.strip_prefix("session/")?;
        let id = message["params"]["sessionId"].as_str().unwrap_or("-");
        ["new", "resume", "fork", "prompt"]
            .contains(&method)
            .then(|| format!("{method} {id}"))
    });
    each.collect()
}

fn no_session(project: &Project) -> bool {
    !project.root().join(".creel/sessions/s").exists()
}

#[test]
fn a_session_continues_a_conversation_of_the_agent_in_its_first_iteration() {
    let done = json!([[{"say": "more"}], [{"say": "<promise>COMPLETE</promise>"}]]);
    let project = project(&script(&ALL, &done));
    let ran = project.creel(&["run", "-s", "s", "--headless", "--trust", "--from", "mine"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(
        used(&project),
        ["resume mine", "prompt mine", "new -", "prompt session-1"]
    );
    let [started] = &project.kind("session_started")[..] else {
        panic!("one start")
    };
    assert_eq!(
        (&started["from"], &started["fork"]),
        (&json!("mine"), &Value::Null)
    );
    let first = &project.kind("prompt_sent")[0];
    assert_eq!(first["conversation"], "same");
    assert!(first["text"].to_string().contains("<promise>"), "{first}");
}

#[test]
fn an_unknown_conversation_is_refused_with_those_that_there_are() {
    let project = project(&script(&ALL, &json!([])));
    let ran = project.creel(&["run", "-s", "s", "--headless", "--trust", "--from", "nine"]);
    assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
    assert!(
        ran.err
            .contains("does not continue the conversation `nine`")
            && ran.err.contains("About mine"),
        "{}",
        ran.err
    );
    assert!(
        no_session(&project) && !ran.err.contains("About other"),
        "{}",
        ran.err
    );
    let list = project.creel(&["run", "--headless", "--trust", "--from", "list"]);
    assert_eq!(list.code, 0, "{}", list.err);
    let lines: Vec<&str> = list.out.lines().collect();
    assert!(
        lines[0].starts_with("CONVERSATION  LAST USED") && lines[1].starts_with("mine"),
        "{}",
        list.out
    );
    assert_eq!(lines.len(), 2, "{}", list.out);
}

#[test]
fn an_agent_that_lists_nothing_opens_the_conversation_before_the_session_starts() {
    let done = json!([[{"say": "<promise>COMPLETE</promise>"}]]);
    let project = project(&script(&["resume"], &done));
    let from = |id: &str| project.creel(&["run", "-s", "s", "--headless", "--trust", "--from", id]);
    let refused = from("nine");
    assert_eq!(
        (refused.code, no_session(&project)),
        (2, true),
        "{}",
        refused.err
    );
    assert_eq!(from("list").code, 2);
    assert_eq!(from("mine").code, 0);
    assert_eq!(
        used(&project),
        ["resume nine", "resume mine", "resume mine", "prompt mine"]
    );
}

#[test]
fn a_fork_copies_the_conversation_in_which_a_session_ended() {
    let done = json!([[{"say": "<promise>COMPLETE</promise>"}]]);
    let project = project(&script(&ALL, &done));
    assert_eq!(
        project
            .creel(&["run", "-s", "one", "--headless", "--trust"])
            .code,
        0
    );
    let fork = |name: &str| {
        project.creel(&[
            "run",
            "-s",
            "s",
            "--headless",
            "--fork",
            name,
            "Try another way.",
        ])
    };
    let missing = fork("two");
    assert_eq!(
        (missing.code, no_session(&project)),
        (2, true),
        "{}",
        missing.err
    );
    let forked = fork("one");
    assert_eq!(forked.code, 0, "{}", forked.err);
    assert_eq!(
        used(&project),
        [
            "new -",
            "prompt session-1",
            "fork session-1",
            "prompt session-2"
        ]
    );
    let started = &project.kind("session_started")[0];
    assert_eq!(
        (&started["from"], &started["fork"]),
        (&json!("session-1"), &json!("one"))
    );
}

#[test]
fn an_agent_that_cannot_is_refused_before_anything_is_recorded() {
    let done = json!([[{"say": "<promise>COMPLETE</promise>"}]]);
    let project = project(&script(&[], &done));
    assert_eq!(
        project
            .creel(&["run", "-s", "one", "--headless", "--trust"])
            .code,
        0
    );
    for (flag, value, why) in [
        ("--from", "session-1", "cannot continue conversations"),
        ("--fork", "one", "cannot copy conversations"),
    ] {
        let ran = project.creel(&["run", "-s", "s", "--headless", flag, value]);
        assert_eq!((ran.code, no_session(&project)), (2, true), "{}", ran.err);
        assert!(ran.err.contains(why), "{}", ran.err);
    }
    let without_id = Project::with("prompt: GOAL\nagent: a\nagents: { a: { command: cat } }\n");
    let ran = without_id.creel(&["run", "-s", "s", "--headless", "--trust", "--from", "c-7"]);
    assert_eq!(
        (ran.code, no_session(&without_id)),
        (2, true),
        "{}",
        ran.err
    );
    assert!(
        ran.err.contains("cannot continue a conversation by its id"),
        "{}",
        ran.err
    );
}

#[test]
fn a_command_agent_continues_a_conversation_by_its_id() {
    const AGENT: &str = "echo \"$1\" >> turns; cat > /dev/null; echo '<promise>COMPLETE</promise>'";
    let project = Project::with(
        "prompt: GOAL\nagent: a\nagents: { a: { command: 'sh agent.sh first', continue_command: 'sh agent.sh {{conversation}}' } }\n",
    )
    .file("agent.sh", AGENT);
    let ran = project.creel(&["run", "-s", "s", "--headless", "--trust", "--from", "c-7"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(project.read("turns"), "c-7\n");
}

#[test]
fn a_kill_in_the_first_turn_keeps_the_conversation_even_if_the_copy_is_lost() {
    let turns = json!([
        {"when": "GOAL", "do": [{"say": "<promise>COMPLETE</promise>"}]},
        {"when": "other", "do": [{"say": "begun\n"}, {"hang": true}]},
        {"when": "other", "do": [{"say": "<promise>COMPLETE</promise>"}]},
    ]);
    let project = project(&script(&ALL, &turns));
    let ran = project.creel(&["run", "-s", "one", "--headless", "--trust"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let fork = [
        "run",
        "-s",
        "s",
        "--json",
        "--fork",
        "one",
        "Try another way.",
    ];
    let mut creel = Started::of(project.command(&fork));
    creel.wait_for("agent_said");
    creel.kill();
    // Some agents keep a copy only once it has an answer.
    let kept = project.read("state.json");
    let mut kept: Value = serde_json::from_str(&kept).expect("JSON");
    kept["sessions"] = json!({"session-1": project.root()});
    project.write("state.json", &kept.to_string());
    let resumed = project.creel(&["resume", "s", "--headless"]);
    assert_eq!(resumed.code, 0, "{}{}", resumed.out, resumed.err);
    assert_eq!(
        used(&project)[2..],
        [
            "fork session-1",
            "prompt session-2",
            "resume session-2",
            "fork session-1",
            "prompt session-2"
        ]
    );
}
