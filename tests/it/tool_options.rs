//! Command-line options give the session's tools to agents; creel reports agents that do not accept
//! them.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

use serde_json::{Value, json};

use crate::support::{
    acp_agent,
    project::{Project, Ran},
};

/// A program that writes its arguments, one per line, and a variable to files.
const RECORDER: &str =
    "printf '%s\\n' \"$@\" > args\nprintf %s \"$OPENCODE_CONFIG_CONTENT\" > variable\n";
const ANSWER: &str = "cat > /dev/null\necho '<promise>COMPLETE</promise>'\n";

fn bin(project: &Project) -> PathBuf {
    project.root().parent().expect("a folder").join("bin")
}

fn install(project: &Project, name: &str, script: &str) {
    let file = bin(project).join(name);
    fs::create_dir_all(bin(project)).expect("a folder");
    fs::write(&file, format!("#!/bin/sh\n{script}")).expect("a program");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("permissions");
}

/// A whole session, with the installed programs first on `PATH`.
fn run(project: &Project) -> Ran {
    let mut command = project.command(&["run", "--headless", "--trust", "-s", "s", "GOAL"]);
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", bin(project).display());
    Ran::of(&command.env("PATH", path).output().expect("creel starts"))
}

/// What a program gets that this command line runs.
fn recorded(program: &str, config: &str) -> (Vec<String>, Project) {
    let project = Project::with(config);
    install(&project, program, &format!("{RECORDER}{ANSWER}"));
    let ran = run(&project);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    (
        project.read("args").lines().map(str::to_owned).collect(),
        project,
    )
}

fn creel() -> &'static str {
    env!("CARGO_BIN_EXE_creel")
}

fn after<'a>(args: &'a [String], option: &str) -> &'a str {
    let at = args
        .iter()
        .position(|arg| arg == option)
        .unwrap_or_else(|| panic!("no {option} in {args:?}"));
    &args[at + 1]
}

fn json_after(args: &[String], option: &str) -> Value {
    serde_json::from_str(after(args, option)).expect("JSON")
}

#[test]
fn claude_gets_the_tools_through_its_options_and_may_use_them() {
    let (args, _) = recorded("claude", "agent: claude\n");
    let server = json!({ "command": creel(), "args": ["mcp", "--session", "s"] });
    assert_eq!(
        json_after(&args, "--mcp-config"),
        json!({ "mcpServers": { "creel": server } })
    );
    assert_eq!(after(&args, "--allowedTools"), "mcp__creel");
}

#[test]
fn codex_gets_the_tools_through_its_options_and_may_use_them() {
    let (args, _) = recorded("codex", "agent: codex\n");
    for part in [
        format!("mcp_servers.creel.command=\"{}\"", creel()),
        "mcp_servers.creel.args=[\"mcp\",\"--session\",\"s\"]".to_owned(),
        "mcp_servers.creel.default_tools_approval_mode=\"approve\"".to_owned(),
    ] {
        assert!(args.contains(&part), "no {part} in {args:?}");
    }
}

#[test]
fn a_command_of_a_config_gets_the_options_of_the_agent_that_it_runs() {
    let (args, _) = recorded("qwen", "agents: { q: { command: 'qwen --fast' } }\n");
    let server = &json_after(&args, "--mcp-config")["mcpServers"]["creel"];
    assert_eq!(
        (&server["command"], &server["trust"]),
        (&json!(creel()), &json!(true))
    );
    let (args, _) = recorded("goose", "agents: { g: { command: 'goose run -i -' } }\n");
    assert_eq!(
        after(&args, "--with-extension"),
        format!("{} mcp --session s", creel())
    );
    let (args, project) = recorded("opencode", "agents: { o: { command: 'opencode run' } }\n");
    assert_eq!(args, ["run"]);
    let variable: Value = serde_json::from_str(&project.read("variable")).expect("JSON");
    assert_eq!(
        variable["mcp"]["creel"]["command"],
        json!([creel(), "mcp", "--session", "s"])
    );
}

#[test]
fn options_are_added_only_where_they_belong() {
    let (args, _) = recorded("claude", "agents: { c: { command: 'claude -p | cat' } }\n");
    assert_eq!(
        args,
        ["-p"],
        "after a pipe they would go to another program"
    );
    let (args, _) = recorded(
        "claude",
        "agents: { c: { command: 'claude -p', mcp: false } }\n",
    );
    assert_eq!(args, ["-p"], "the config keeps the tools from the agent");
    let (args, _) = recorded(
        "other",
        "agents: { c: { command: 'other x', tools: '--server {{mcp_command}}' } }\n",
    );
    assert_eq!(after(&args, "--server"), format!("\"{}\"", creel()));
}

#[test]
fn copilot_gets_the_tools_through_its_option_and_not_over_the_protocol() {
    let project = Project::with("agent: copilot\n").file(
        "script.json",
        &json!({"turns": [[{"say": "<promise>COMPLETE</promise>"}]]}).to_string(),
    );
    install(
        &project,
        "copilot",
        &format!(
            "{RECORDER}exec '{}' script.json log\n",
            acp_agent().display()
        ),
    );
    let ran = run(&project);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let args: Vec<String> = project.read("args").lines().map(str::to_owned).collect();
    assert_eq!(args[0], "--acp");
    let server = &json_after(&args, "--additional-mcp-config")["mcpServers"]["creel"];
    assert_eq!(
        (&server["command"], &server["tools"]),
        (&json!(creel()), &json!(["*"]))
    );
    assert!(args.contains(&"--allow-tool=creel".to_owned()), "{args:?}");
    let opened = project
        .read("log")
        .lines()
        .any(|line| line.contains("session/new") && line.contains("\"mcpServers\":[]"));
    assert!(opened, "{}", project.read("log"));
}

#[test]
fn an_agent_that_does_not_accept_the_tools_is_reported_once_in_the_stream_and_in_the_list() {
    let project = Project::with("agent: aider\nmax_iterations: 2\nstop: { settled: continue }\n");
    install(&project, "aider", "echo 'aider 1.2.3'\n");
    let ran = run(&project);
    assert_eq!(ran.code, 3, "{}{}", ran.out, ran.err);
    let warnings: Vec<String> = project
        .kind("warning")
        .iter()
        .map(|warning| warning["text"].to_string())
        .collect();
    let about = warnings
        .iter()
        .filter(|text| text.contains("does not accept creel's tools"))
        .count();
    assert_eq!(about, 1, "{warnings:?}");
    let mut list = project.command(&["agents"]);
    let list = Ran::of(
        &list
            .env("PATH", bin(&project))
            .output()
            .expect("creel starts"),
    );
    assert!(
        list.out.contains("does not accept creel's tools"),
        "{}",
        list.out
    );
}

#[test]
fn pi_and_mini_are_known() {
    let project = Project::new();
    install(&project, "pi", "echo 0.74.2\n");
    install(
        &project,
        "mini",
        "echo 'This is mini-swe-agent version 2.4.6.'\n",
    );
    let mut list = project.command(&["agents", "--json"]);
    let list = Ran::of(
        &list
            .env("PATH", bin(&project))
            .output()
            .expect("creel starts"),
    );
    let listed: Vec<Value> = serde_json::from_str(&list.out).expect("JSON");
    let named = |name: &str| {
        listed
            .iter()
            .find(|agent| agent["name"] == name)
            .expect("it is listed")
            .clone()
    };
    for (name, version) in [("pi", "0.74.2"), ("mini", "2.4.6")] {
        let agent = named(name);
        assert_eq!(
            (&agent["runs"], &agent["version"], &agent["tools"]),
            (&json!("command"), &json!(version), &json!("refused")),
            "{agent}"
        );
    }
}
