//! A session that was killed in the first turn of a conversation continues that conversation.

use serde_json::{Value, json};

use crate::support::{
    acp_agent,
    project::{Project, until},
};

/// The methods with which creel asked the agent to open or resume a conversation.
fn conversations(project: &Project) -> Vec<String> {
    let log = project.read("log");
    let messages = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let methods = messages.filter_map(|message| message["method"].as_str().map(str::to_owned));
    methods
        .filter(|method| method == "session/new" || method == "session/load")
        .collect()
}

/// A session whose agent hangs in its first turn, where creel is killed and resumed.
fn killed_and_resumed(context: &str, capabilities: &Value) -> Project {
    let turns =
        json!([[{"say": "begun\n"}, {"hang": true}], [{"say": "<promise>COMPLETE</promise>"}]]);
    let script = json!({"capabilities": capabilities, "state_file": "state.json", "turns": turns});
    let agent = acp_agent();
    let config = format!(
        "prompt: GOAL\nagent: a\ncontext: {context}\nagents: {{ a: {{ acp: \"'{}' script.json log\" }} }}\n",
        agent.display()
    );
    let project = Project::with(&config).file("script.json", &script.to_string());
    let creel = project.start();
    until("the agent has begun", || {
        !project.kind("agent_said").is_empty()
    });
    creel.kill();
    let resumed = project.creel(&["resume", "s", "--headless"]);
    assert_eq!(resumed.code, 0, "{}{}", resumed.out, resumed.err);
    project
}

fn warnings(project: &Project) -> String {
    let left_running = |text: &String| text.contains("left running");
    project
        .kind("warning")
        .iter()
        .map(ToString::to_string)
        .filter(|text| !left_running(text))
        .collect()
}

#[test]
fn an_acp_agent_that_was_killed_in_its_first_turn_loads_its_conversation() {
    for context in ["fresh", "keep"] {
        let project = killed_and_resumed(context, &json!({"loadSession": true}));
        assert_eq!(
            conversations(&project),
            ["session/new", "session/load"],
            "{context}"
        );
        let sent: Vec<Value> = project
            .kind("prompt_sent")
            .iter()
            .map(|sent| sent["conversation"].clone())
            .collect();
        assert_eq!(sent, [json!("new"), json!("same")], "{context}");
        assert_eq!(warnings(&project), "", "{context}");
    }
}

#[test]
fn an_acp_agent_that_cannot_load_conversations_starts_a_new_one_with_a_warning() {
    let project = killed_and_resumed("keep", &json!({}));
    assert_eq!(conversations(&project), ["session/new", "session/new"]);
    assert!(
        warnings(&project).contains("cannot resume conversations"),
        "{}",
        warnings(&project)
    );
}

/// A command agent that reports the name of its conversation, and hangs the first time.
const AGENT: &str = r#"echo "$1" >> turns
echo '{"type":"system","subtype":"init","session_id":"c-1"}'
test -e hung || { touch hung; exec sleep 1000; }
echo '{"type":"assistant","message":{"content":[{"type":"text","text":"<promise>COMPLETE</promise>"}]}}'
echo '{"type":"result","result":"<promise>COMPLETE</promise>","is_error":false}'
"#;

fn command_agent(more: &str) -> Project {
    let config = format!(
        "prompt: GOAL\nagent: a\nagents: {{ a: {{ command: 'sh agent.sh first', format: claude{more} }} }}\n"
    );
    let project = Project::with(&config).file("agent.sh", AGENT);
    let creel = project.start();
    until("the conversation is open", || {
        !project.kind("conversation_opened").is_empty()
    });
    until("the agent hangs", || project.root().join("hung").exists());
    creel.kill();
    let resumed = project.creel(&["resume", "s", "--headless"]);
    assert_eq!(resumed.code, 0, "{}{}", resumed.out, resumed.err);
    project
}

#[test]
fn a_command_agent_that_was_killed_in_its_first_turn_continues_its_conversation() {
    let project = command_agent(", continue_command: 'sh agent.sh {{conversation}}'");
    assert_eq!(project.read("turns"), "first\nc-1\n");
    assert_eq!(warnings(&project), "");
}

#[test]
fn a_command_agent_without_a_way_to_continue_starts_anew_with_the_same_prompt() {
    let project = command_agent("");
    assert_eq!(project.read("turns"), "first\nfirst\n");
    assert_eq!(warnings(&project), "");
    let prompts = project.kind("prompt_sent");
    assert_eq!(prompts[0]["text"], prompts[1]["text"]);
    assert_eq!(
        (&prompts[0]["conversation"], &prompts[1]["conversation"]),
        (&"new".into(), &"new".into())
    );
}

/// Saves its prompt, writes a file, and answers as the turn's number wants it. The third turn
/// fails.
const FORGETFUL: &str = r#"mkdir -p ../prompts; n=$(ls ../prompts | wc -l); cat > ../prompts/$n
case $n in
  0) echo parser > parser.rs; echo "I wrote the parser."; echo "<promise>COMPLETE</promise>" ;;
  1) echo "the disk is odd" >&2; exit 1 ;;
  2) echo "Nothing to repair." ;;
  *) touch fixed; echo "Mended. <promise>COMPLETE</promise>" ;;
esac
"#;

#[test]
fn every_prompt_stands_on_its_own_for_a_command_agent_that_cannot_continue() {
    let config = "\
prompt: Write the parser.
agent: a
agents: { a: { command: 'sh agent.sh' } }
hooks:
  stop:
    - { name: tests, command: 'test -e fixed || { echo 1 failed; exit 1; }', on_failure: block }
    - { command: 'test -e fixed', on_failure: block }
  on_error: [{ name: look, command: 'echo the disk is full', pipe_output: true }]
";
    let project = Project::with(config).file("agent.sh", FORGETFUL);
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let sent = project.kind("prompt_sent");
    let reasons: Vec<&str> = sent
        .iter()
        .map(|sent| sent["reason"].as_str().expect("a reason"))
        .collect();
    assert_eq!(reasons, ["iteration", "feedback", "recovery", "iteration"]);
    assert!(
        sent.iter().all(|sent| sent["conversation"] == "new"),
        "{sent:?}"
    );
    let note = "Work until the goal above is reached";
    for (nth, sent) in sent.iter().enumerate() {
        let text = project.read(&format!("../prompts/{nth}"));
        assert_eq!(
            text.trim_end(),
            sent["text"].as_str().expect("a text").trim_end()
        );
        assert_eq!(
            (
                text.matches("Write the parser.").count(),
                text.matches(note).count()
            ),
            (1, 1),
            "{text}"
        );
        assert!(
            text.trim_end().ends_with("you will get another turn."),
            "{text}"
        );
    }
    let feedback = project.read("../prompts/1");
    let (head, _) = feedback.split_once(note).expect("the note");
    assert_eq!(
        head,
        "[Hook feedback]: check `tests` failed: `test -e fixed || { echo 1 failed; exit 1; }`, exit 1\n1 failed\n\n\
         check `test -e fixed` failed, exit 1\n\n\
         The goal of the whole work:\nWrite the parser.\n\n\
         You start a new conversation. What happened so far:\n- This is iteration 1.\n\
         - You said at the end: I wrote the parser.\n- This iteration changed: parser.rs\n\n"
    );
    let recovery = project.read("../prompts/2");
    assert!(
        recovery.starts_with("[Recovery]: the last turn failed: "),
        "{recovery}"
    );
    assert!(
        recovery.contains("\n- The last feedback was: check `tests` failed: "),
        "{recovery}"
    );
}
