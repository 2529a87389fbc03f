//! Settings files of Claude Code that a config imports: what `creel check` says about each hook,
//! and that none runs twice.

use serde_json::{Value, json};

use crate::support::project::Project;

const SETTINGS: &str = ".claude/settings.json";
const LOCAL: &str = ".claude/settings.local.json";

fn handler(command: &str) -> Value {
    json!({ "type": "command", "command": command })
}

/// Counts its runs by event.
fn counting(event: &str) -> Value {
    json!([{ "hooks": [handler(&format!("echo {event} >> counted"))] }])
}

fn settings() -> Value {
    json!({ "model": "opus", "hooks": {
        "SessionStart": counting("SessionStart"),
        "Stop": counting("Stop"),
        "PreToolUse": [{ "matcher": "Bash", "hooks": [handler("./guard.sh")] }],
        "Notification": [{ "matcher": "auth_success", "hooks": [handler("true")] }],
        "SessionEnd": [{ "hooks": [{ "type": "http", "url": "http://127.0.0.1:9" }] }],
    } })
}

fn project(agent: &Value, files: &[&str]) -> Project {
    let config =
        json!({ "prompt": "GOAL", "agents": { "demo": agent }, "hooks": { "import": files } });
    let mut project = Project::with(&config.to_string());
    for file in files {
        project = project.file(file, &settings().to_string());
    }
    project
}

fn done(before: &str) -> Value {
    json!({ "command": format!("{before}; echo '<promise>COMPLETE</promise>'") })
}

fn counted(project: &Project) -> Vec<String> {
    let text = std::fs::read_to_string(project.root().join("counted")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_hook_in_two_files_runs_once_and_check_lists_every_hook() {
    let project = project(&done("true"), &[SETTINGS, LOCAL]);
    let ran = project.creel(&["check"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let (_, listed) = ran
        .out
        .split_once("imported from")
        .expect("the imported hooks");
    for line in [
        "SessionStart echo SessionStart >> counted: runs at session_start",
        "Stop echo Stop >> counted: runs at stop",
        "PreToolUse ./guard.sh: cannot block: `demo` does not ask creel before a call",
        "Notification true: not run: it selects nothing that happens in creel",
        "SessionEnd http: http://127.0.0.1:9: not run: creel runs only hooks of the type `command`",
        "runs at stop, once with the same hook above",
    ] {
        assert!(listed.contains(line), "{line}\n{listed}");
    }
    let json: Value =
        serde_json::from_str(&project.creel(&["check", "--json"]).out).expect("an object");
    assert_eq!(json["imported"].as_array().map(Vec::len), Some(10));
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(counted(&project), ["SessionStart", "Stop"]);
}

#[test]
fn each_event_has_claude_codes_timeout_unless_the_handler_has_its_own() {
    let one = |handler: Value| json!([{ "hooks": [handler] }]);
    let mut hooks = json!({});
    let usual = [
        ("SessionStart", "session_start", 600),
        ("UserPromptSubmit", "pre_prompt", 30),
        ("PermissionRequest", "pre_tool", 600),
        ("PostToolUse", "post_tool", 600),
        ("Stop", "stop", 600),
        ("StopFailure", "on_error", 600),
        ("Notification", "on_gate", 600),
        ("Elicitation", "on_question", 600),
        ("TaskCompleted", "on_task_complete", 600),
        ("SessionEnd", "session_end", 60),
    ];
    for (event, _, _) in usual {
        hooks[event] = one(handler("true"));
    }
    let config = |hooks: &Value| {
        let config = json!({ "prompt": "GOAL", "agents": { "demo": done("true") }, "hooks": { "import": [SETTINGS] } });
        Project::with(&config.to_string()).file(SETTINGS, &json!({ "hooks": hooks }).to_string())
    };
    let plan = |hooks: &Value| {
        let ran = config(hooks).creel(&["check", "--json"]);
        let checked: Value = serde_json::from_str(&ran.out).expect("JSON");
        checked["plan"]["hooks"].clone()
    };
    let checked = plan(&hooks);
    for (event, point, seconds) in usual {
        assert_eq!(checked[point][0]["timeout"], seconds * 1000, "{event}");
    }
    let own = json!({ "Stop": one(json!({ "type": "command", "command": "true", "timeout": 7 })) });
    assert_eq!(plan(&own)["stop"][0]["timeout"], 7000);
}

#[test]
fn a_hook_that_the_agent_runs_itself_is_left_to_it_and_stop_is_still_a_check() {
    let mut agent = done("echo SessionStart >> counted");
    agent["own_hooks"] = json!([SETTINGS]);
    let project = project(&agent, &[SETTINGS]);
    let listed = project.creel(&["check"]).out;
    assert!(
        listed.contains("left to `demo`, which runs it itself"),
        "{listed}"
    );
    assert!(
        listed.contains("runs at stop; `demo` may run it too"),
        "{listed}"
    );
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    // The agent made the file that the check changes, so the check runs a second time.
    assert_eq!(counted(&project), ["SessionStart", "Stop", "Stop"]);
}

#[test]
fn check_says_for_each_hook_of_tool_calls_which_calls_it_sees() {
    let listed = |agent: Value| project(&agent, &[SETTINGS]).creel(&["check"]).out;
    let asks = listed(json!({ "acp": "true" }));
    assert!(
        asks.contains("creel runs it only before calls that `demo` asks about"),
        "{asks}"
    );
    let native = json!({ "acp": "true", "tool_hooks": { "level": "native", "meta": "{}" } });
    let native = listed(native);
    assert!(
        native.contains("creel runs it before every call of `demo`"),
        "{native}"
    );
    let own = listed(json!({ "acp": "true", "own_hooks": [SETTINGS] }));
    assert!(
        own.contains("./guard.sh: left to `demo`, which runs it itself"),
        "{own}"
    );
}

#[test]
fn an_imported_file_that_is_missing_or_no_json_is_an_error_at_its_place() {
    let project = project(&done("true"), &[SETTINGS]);
    project.write(SETTINGS, "{ \"hooks\": {\n  \"Stop\": [ }\n}\n");
    let ran = project.creel(&["check"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains("settings.json:2:13: this is not JSON"),
        "{}",
        ran.err
    );
    project.write(
        SETTINGS,
        r#"{ "hooks": { "Stop": [{ "hooks": [{ "type": "command" }] }] } }"#,
    );
    let ran = project.creel(&["check"]);
    assert!(
        ran.code == 2 && ran.err.contains("`command` is missing"),
        "{}",
        ran.err
    );
    std::fs::remove_file(project.root().join(SETTINGS)).expect("removed");
    let ran = project.creel(&["check"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err
            .contains("the settings file `.claude/settings.json`"),
        "{}",
        ran.err
    );
}

#[test]
fn an_imported_file_needs_trust_and_a_turn_must_not_change_it() {
    let project = project(&done("true"), &[SETTINGS]);
    assert_eq!(project.creel(&["trust"]).code, 0);
    let run = ["run", "--headless", "-s", "s"];
    assert_eq!(project.creel(&run).code, 0);
    project.write(
        SETTINGS,
        &json!({ "hooks": { "Stop": counting("Other") } }).to_string(),
    );
    let ran = project.creel(&["run", "--headless", "-s", "t"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(!counted(&project).contains(&"Other".to_owned()));
    let project = self::project(&done("echo >> .claude/settings.json"), &[SETTINGS]);
    assert_eq!(project.run().code, 4);
    assert_eq!(project.kind("gate_opened")[0]["about"], "tampered");
}
