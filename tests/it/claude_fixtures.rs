//! The usual kinds of hook scripts for Claude Code, imported for another agent: the same decision as
//! there, or a line of `creel check` that says what differs. A counter in each script proves that
//! none ran twice.

use serde_json::{Value, json};

use crate::support::{acp_agent, project::Project};

const SETTINGS: &str = ".claude/hooks.json";
const DONE: &str = "<promise>COMPLETE</promise>";

fn fixtures() -> Vec<Value> {
    let text = include_str!("../fixtures/claude_hooks/fixtures.json");
    serde_json::from_str(text).expect("a list of fixtures")
}

/// The project of a fixture, whose agent makes its call.
fn project(fixture: &Value) -> Project {
    let config = format!(
        "prompt: GOAL\nagent: a\nagents: {{ a: {{ acp: \"'{}' script.json log\" }} }}\nmax_iterations: 2\n\
         gates: {{ permissions: allow }}\nhooks: {{ import: [{SETTINGS}] }}\n",
        acp_agent().display()
    );
    let project = Project::with(&config);
    let root = project.root().display().to_string();
    let placed = |call: &Value| -> Value {
        let text = call.to_string().replace("$ROOT", &root);
        serde_json::from_str(&text).expect("a call")
    };
    let mut turn = Vec::new();
    if let Some(call) = fixture.get("call") {
        turn.push(json!({"ask": {"tool": placed(call)}}));
        turn.push(json!({"if_allowed": [{"say": "allowed "}], "else": [{"say": "refused "}]}));
    }
    if let Some(call) = fixture.get("ends") {
        let mut begun = placed(call);
        begun["sessionUpdate"] = json!("tool_call");
        begun["status"] = json!("pending");
        let id = &begun["toolCallId"];
        let ended =
            json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "status": "completed"});
        turn.extend([json!({"update": begun}), json!({"update": ended})]);
    }
    turn.push(json!({"say": DONE}));
    let script = fixture["script"].as_str().expect("a script");
    let hook = format!("input=$(cat)\necho x >> counted\n{script}\n");
    project
        .file(
            "script.json",
            &json!({"turns": [turn, [{"say": DONE}]]}).to_string(),
        )
        .file("hook.sh", &hook)
        .file(SETTINGS, &json!({"hooks": fixture["hooks"]}).to_string())
}

/// What differs from the fixture.
fn mistakes(fixture: &Value) -> Vec<String> {
    let project = project(fixture);
    let mut mistakes = Vec::new();
    let mut expect = |what: &str, is_right: bool, shown: &str| {
        if !is_right {
            mistakes.push(format!("{}: {what}: {shown}", fixture["name"]));
        }
    };
    let text = |key: &str| fixture[key].as_str();
    let checked = project.creel(&["check"]).out;
    if let Some(line) = text("check") {
        expect("check", checked.contains(line), &checked);
    }
    let ran = project.run();
    if let Some(code) = fixture["code"].as_i64() {
        expect(
            "exit code",
            i64::from(ran.code) == code,
            &format!("{} {}", ran.code, ran.err),
        );
    }
    let texts = |kind: &str| -> String {
        let records = project.kind(kind);
        let texts = records.iter().filter_map(|record| record["text"].as_str());
        texts.collect::<Vec<_>>().join("\n")
    };
    if let Some(answer) = text("answer") {
        let said = texts("agent_said");
        expect("answer", said.starts_with(answer), &said);
    }
    if let Some(words) = text("prompt") {
        expect(
            "prompt",
            texts("prompt_sent").contains(words),
            &texts("prompt_sent"),
        );
    }
    if let Some(file) = text("file") {
        expect("file", project.root().join(file).exists(), file);
    }
    let counted = std::fs::read_to_string(project.root().join("counted")).unwrap_or_default();
    let counted = counted.lines().count();
    let started = project.kind("hook_started");
    let is_counted = |record: &&Value| {
        record["hook"]
            .as_str()
            .is_some_and(|hook| hook.contains("hook.sh"))
    };
    let started = started.iter().filter(is_counted).count();
    let asked = project.kind("permission_asked").len();
    let once = if fixture.get("call").is_some() {
        asked
    } else {
        started
    };
    let runs = fixture["runs"]
        .as_u64()
        .map_or(once, |runs| usize::try_from(runs).unwrap_or(0));
    expect(
        "runs",
        counted == started && counted == runs,
        &format!("{counted}, {started}, {runs}"),
    );
    mistakes
}

#[test]
fn hook_scripts_for_claude_code_decide_the_same_for_another_agent() {
    let mistakes: Vec<String> = fixtures().iter().flat_map(mistakes).collect();
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}
