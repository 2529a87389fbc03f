//! Setting up creel: the config that `creel init` writes, what `creel check` reports as missing,
//! and a missing agent.

use std::{fs, os::unix::fs::PermissionsExt as _, process::Command};

use serde_json::Value;

use crate::support::{
    project::{Project, Ran},
    terminal::Terminal,
};

/// Installs a program in the only folder on `PATH`.
fn install(project: &Project, name: &str, script: &str) {
    let file = project.root().join("../bin").join(name);
    fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
    fs::write(&file, format!("#!/bin/sh\n{script}\n")).expect("a program");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("permissions");
}

/// creel, which finds only those programs.
fn creel(project: &Project, args: &[&str]) -> Command {
    let mut command = project.command(args);
    command.env(
        "PATH",
        project.root().parent().expect("a folder").join("bin"),
    );
    command
}

fn ran(project: &Project, args: &[&str]) -> Ran {
    Ran::of(&creel(project, args).output().expect("creel starts"))
}

const NOT_READY: &str = "agents: { mine: { command: 'no-such-agent --go', install: 'npm install -g no-such-agent' } }\n\
    hooks:\n  stop:\n    - { name: lint, command: 'no-such-linter . || exit 2' }\n    - { command: './gone.sh', enabled: false }\n\
    stop: { rules: [{ name: scan, type: command, command: './scan.sh' }] }\n\
    nats: { url: 'nats://127.0.0.1:4222', token: '${CREEL_TEST_TOKEN}' }\n";

#[test]
fn check_reports_what_a_valid_config_lacks_and_fails_only_with_strict() {
    let project = Project::with(NOT_READY);
    let checked = ran(&project, &["check"]);
    assert_eq!(checked.code, 0, "{}", checked.err);
    for part in [
        "creel.yaml is valid, but:\n",
        "  - the agent `mine` cannot start: `no-such-agent` is not on PATH\n    install it: npm install -g no-such-agent\n",
        "  - the stop hook `lint`: `no-such-linter` is not on PATH\n",
        "  - the rule `scan`: `./scan.sh` does not exist\n",
        "  - `nats:` needs the environment variable `CREEL_TEST_TOKEN`, which is not set\n",
    ] {
        assert!(checked.out.contains(part), "no {part} in\n{}", checked.out);
    }
    assert!(
        !checked.out.contains("gone.sh` does not exist"),
        "a disabled hook needs nothing\n{}",
        checked.out
    );
    assert_eq!(ran(&project, &["check", "--strict"]).code, 1);
    let json = ran(&project, &["check", "--json", "--strict"]);
    let all: Value = serde_json::from_str(&json.out).expect("JSON");
    assert_eq!(
        (
            json.code,
            &all["ready"],
            all["problems"].as_array().map(Vec::len)
        ),
        (1, &Value::Bool(false), Some(4))
    );
}

#[test]
fn check_looks_at_everything_that_a_session_may_start() {
    let agent = "agents: { mine: { command: good }, other: { command: 'gone --go', install: 'get gone' } }\nagent: mine\n";
    for (rest, problem) in [
        (
            "limits: { fallback: [other] }",
            "the fallback agent `other` cannot start: `gone` is not on PATH\n    install it: get gone\n",
        ),
        (
            "limits: { fallback: [codex] }",
            "`limits.fallback`: the agent `codex` is not installed: ",
        ),
        (
            "hooks: { before_submit: [{ gatekeeper: [other] }] }",
            "the gatekeeper `other` cannot start: `gone` is not on PATH\n    install it: get gone\n",
        ),
        (
            "hooks: { before_merge: [{ gatekeeper: [codex] }] }",
            "the gatekeeper `codex`: the agent `codex` is not installed: ",
        ),
        (
            "workflows: { ship: { steps: [{ name: build, type: command, command: 'gone build' }] } }",
            "the step `build` of the workflow `ship`: `gone` is not on PATH\n",
        ),
        (
            "workflows: { ship: { steps: [{ name: both, type: parallel, steps: [{ name: a, type: command, command: good }, { name: b, type: command, command: ./gone }] }] } }",
            "the step `b` of the workflow `ship`: `./gone` does not exist\n",
        ),
        (
            "submit: { pr_command: 'gone {{branch}}' }",
            "`submit.pr_command`: `gone` is not on PATH\n",
        ),
        (
            "submit: { test_command: 'gone test' }",
            "`submit.test_command`: `gone` is not on PATH\n",
        ),
        (
            "hooks: { before_submit: [{ builtin: run_tests, command: 'gone test' }] }",
            "the before_submit hook `run_tests`: `gone` is not on PATH\n",
        ),
    ] {
        let project = Project::with(&format!("{agent}{rest}\n"));
        install(&project, "good", "");
        let checked = ran(&project, &["check"]);
        assert_eq!(checked.code, 0, "{rest}: {}", checked.err);
        let expected = format!("creel.yaml is valid, but:\n  - {problem}");
        assert!(
            checked.out.contains(&expected),
            "{rest}: no {expected} in\n{}",
            checked.out
        );
        let json: Value =
            serde_json::from_str(&ran(&project, &["check", "--json"]).out).expect("JSON");
        assert_eq!(
            json["problems"].as_array().map(Vec::len),
            Some(1),
            "{rest}: {json:#}"
        );
        assert_eq!(ran(&project, &["check", "--strict"]).code, 1, "{rest}");
    }
}

#[test]
fn check_starts_every_known_agent_of_a_session() {
    let config = "agents: { mine: { command: good } }\nagent: mine\nlimits: { fallback: [mine, codex] }\n\
                  checks: [good]\nhooks: { before_submit: [{ gatekeeper: [gemini] }] }\n";
    let project = Project::with(config);
    for program in ["good", "codex-acp", "gemini"] {
        install(&project, program, "echo 1.2.3");
    }
    let checked = ran(&project, &["check", "--strict"]);
    assert_eq!(checked.code, 0, "{}{}", checked.out, checked.err);
    for program in ["codex-acp", "gemini"] {
        install(&project, program, "echo 'node: not found' >&2; exit 127");
    }
    let checked = ran(&project, &["check"]);
    for problem in [
        "the fallback agent `codex` does not start: ",
        "the gatekeeper `gemini` does not start: ",
    ] {
        assert!(
            checked.out.contains(problem),
            "no {problem} in\n{}",
            checked.out
        );
    }
    let asked = ran(&project, &["check", "--agent", "mine,gemini"]);
    assert!(
        asked
            .out
            .contains("the fallback agent `gemini` does not start: "),
        "{}",
        asked.out
    );
    assert!(
        !asked.out.contains("codex"),
        "`--agent` replaces `limits.fallback`\n{}",
        asked.out
    );
}

#[test]
fn check_raises_no_false_alarm() {
    let project = Project::with(
        "agents: { mine: { command: 'MODE=fast ./agent.sh {{prompt}} 2>&1 | tail -n 5' } }\n\
         hooks:\n  stop:\n    - command: 'cd web && ./run.sh'\n    - command: 'A=1 B=2 cat x || exit 2'\n    - command: 'command -v prettier && prettier -c .'\n    \
         - command: 'if true; then echo; fi'\n    - command: '[ -e x ] && no-such-thing'\n    - command: '$TOOL x'\n    - command: 'echo {{session}} | cat'\n",
    )
    .file("agent.sh", "#!/bin/sh\n");
    fs::set_permissions(
        project.root().join("agent.sh"),
        fs::Permissions::from_mode(0o755),
    )
    .expect("permissions");
    for program in ["tail", "cat"] {
        install(&project, program, "");
    }
    let checked = ran(&project, &["check", "--strict"]);
    assert_eq!(checked.code, 0, "{}{}", checked.out, checked.err);
    assert!(
        checked.out.contains("creel.yaml is valid\n"),
        "{}",
        checked.out
    );
}

#[test]
fn check_starts_a_known_agent_to_see_whether_it_works() {
    let project = Project::with("agent: claude\nprotect: [tests]\n");
    install(
        &project,
        "claude-agent-acp",
        "echo 'node: not found' >&2; exit 127",
    );
    let checked = ran(&project, &["check"]);
    assert_eq!(checked.code, 0, "{}", checked.err);
    assert!(
        checked.out.contains("the agent `claude` does not start: "),
        "{}",
        checked.out
    );
    assert!(
        checked
            .out
            .contains("--version`: exit code 127: node: not found"),
        "{}",
        checked.out
    );
    install(&project, "claude-agent-acp", "echo 1.2.3");
    assert_eq!(ran(&project, &["check", "--strict"]).code, 0);
}

#[test]
fn check_without_an_agent_says_what_to_install() {
    let project = Project::with("agent: codex\n");
    let checked = ran(&project, &["check"]);
    assert_eq!(checked.code, 0, "{}", checked.err);
    assert!(
        checked
            .out
            .contains("valid, but:\n  - the agent `codex` is not installed"),
        "{}",
        checked.out
    );
    assert!(
        checked.out.contains("npm install -g @openai/codex"),
        "{}",
        checked.out
    );
    assert_eq!(ran(&project, &["check", "--strict"]).code, 1);
}

#[test]
fn a_session_whose_agent_is_missing_does_not_begin() {
    let config = "agents: { mine: { acp: 'no-such-agent --acp', install: 'npm install -g no-such-agent' } }\n\
                  hooks: { session_start: [{ command: 'touch ran' }] }\n";
    let project = Project::with(config);
    let refused = project.creel(&["run", "--headless", "--trust", "-s", "s", "GOAL"]);
    assert_eq!(refused.code, 2, "{}{}", refused.out, refused.err);
    assert!(
        refused
            .err
            .contains("the agent `mine` cannot start: `no-such-agent` is not on PATH"),
        "{}",
        refused.err
    );
    assert!(
        refused
            .err
            .contains("install it: npm install -g no-such-agent"),
        "{}",
        refused.err
    );
    assert!(refused.err.contains("Nothing has run."), "{}", refused.err);
    assert!(!project.root().join("ran").exists() && !project.root().join(".creel").exists());
}

#[test]
fn a_session_is_resumed_only_if_its_agent_is_still_there() {
    let project = Project::with("max_iterations: 1\nagents: { mine: { command: './agent.sh' } }\n")
        .file("agent.sh", "#!/bin/sh\n");
    let agent = project.root().join("agent.sh");
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).expect("permissions");
    assert_eq!(
        project
            .creel(&["run", "--headless", "--trust", "-s", "s", "GOAL"])
            .code,
        3
    );
    fs::remove_file(agent).expect("it is there");
    let before = project.records().len();
    let refused = project.creel(&["resume", "--headless", "-n", "2", "s"]);
    assert_eq!(refused.code, 2, "{}{}", refused.out, refused.err);
    assert!(
        refused.err.contains("`./agent.sh` does not exist"),
        "{}",
        refused.err
    );
    assert_eq!(project.records().len(), before);
}

#[test]
fn init_without_an_agent_says_what_to_install_and_invents_none() {
    let project = Project::new().file("Cargo.toml", "");
    let wrote = ran(&project, &["init"]);
    assert_eq!(wrote.code, 0, "{}", wrote.err);
    assert!(
        wrote
            .err
            .contains("npm i -g @agentclientprotocol/claude-agent-acp # Node 22+ · Claude Code"),
        "{}",
        wrote.err
    );
    let config = project.read("creel.yaml");
    assert!(
        config.contains(
            "#   npm i -g @agentclientprotocol/claude-agent-acp # Node 22+ · Claude Code\n"
        ),
        "{config}"
    );
    assert!(
        !config.contains("my-agent") && !config.contains("\nagent:"),
        "{config}"
    );
    let checked = ran(&project, &["check"]);
    assert_eq!(checked.code, 0, "{}", checked.err);
    assert!(
        checked.out.contains("valid, but:\n  - no agent found"),
        "{}",
        checked.out
    );
    for program in ["gemini", "cargo"] {
        install(&project, program, "echo 1.2.3");
    }
    let checked = ran(&project, &["check", "--strict"]);
    assert_eq!(
        checked.code, 0,
        "the installed agent is used: {}{}",
        checked.out, checked.err
    );
}

#[test]
fn init_writes_a_schema_that_an_editor_finds_beside_the_config() {
    let project = Project::new();
    let wrote = ran(&project, &["init", "--yes"]);
    assert_eq!(wrote.code, 0, "{}", wrote.err);
    let config = project.read("creel.yaml");
    let schema = config
        .lines()
        .next()
        .and_then(|line| line.strip_prefix("# yaml-language-server: $schema="));
    let schema = project.read(schema.expect("the first line names the schema"));
    assert_eq!(schema, ran(&project, &["schema"]).out);
    assert!(
        config.contains("creel config example") && config.contains("\n# permissions:"),
        "{config}"
    );
    assert!(config.lines().count() <= 15, "{config}");
    assert!(
        wrote
            .err
            .contains("creel found no tests here, so nothing would be verified"),
        "{}",
        wrote.err
    );
    assert_eq!(
        ran(&project, &["init", "--yes"]).code,
        2,
        "it never overwrites"
    );
    assert_eq!(project.read("creel.yaml"), config);
}

#[test]
fn the_example_config_and_the_path_of_the_config_are_printed() {
    let project = Project::new();
    let example = ran(&project, &["config", "example"]);
    assert_eq!(
        (example.code, example.out.as_str()),
        (0, include_str!("../../config.example.yaml"))
    );
    let none = ran(&project, &["config", "path"]);
    assert_eq!(none.code, 2);
    assert!(none.err.contains("creel init"), "{}", none.err);
    project.write("creel.yml", "version: 1\n");
    let found = ran(&project, &["config", "path"]);
    assert_eq!(
        (found.code, found.out),
        (
            0,
            format!("{}\n", project.root().join("creel.yml").display())
        )
    );
    assert_eq!(
        ran(&project, &["config", "path", "-c", "gone.yaml"]).code,
        2
    );
}

#[test]
fn in_a_terminal_init_asks_for_the_agent_the_check_and_the_limit() {
    let project = Project::new().file("Cargo.toml", "");
    install(&project, "opencode", "");
    install(&project, "codex", "");
    let mut terminal = Terminal::start(creel(&project, &["init"]), (120, 40));
    terminal.wait_for_text("Which agent should do the work? Installed: codex, opencode.");
    terminal.wait_for_text("[opencode]");
    terminal.type_text("codex\r");
    terminal.wait_for_text("[cargo test]");
    terminal.type_text("make \"all\"; make check\r");
    terminal.wait_for_text("[complete]");
    terminal.type_text("escalate\r");
    assert_eq!(terminal.end(), 0, "{}", terminal.text());
    let config = project.read("creel.yaml");
    assert!(
        config.contains("\nagent: codex ") && config.contains("\non_limit: escalate "),
        "{config}"
    );
    assert!(
        config.contains(r#"- "make \"all\"; make check""#),
        "{config}"
    );
    assert_eq!(ran(&project, &["check"]).code, 0);
}

#[test]
fn in_a_terminal_init_asks_nothing_with_yes() {
    let project = Project::new().file("Cargo.toml", "");
    install(&project, "opencode", "");
    let mut terminal = Terminal::start(creel(&project, &["init", "--yes"]), (120, 40));
    assert_eq!(terminal.end(), 0, "{}", terminal.text());
    assert!(
        !terminal.text().contains("Which agent"),
        "{}",
        terminal.text()
    );
    let config = project.read("creel.yaml");
    assert!(
        config.contains("\nagent: opencode ") && config.contains("\n  - \"cargo test\"\n"),
        "{config}"
    );
}

#[test]
fn init_writes_a_check_for_each_part_and_a_config_of_at_most_15_lines() {
    let project = (1..=6).fold(Project::new(), |project, n| {
        project.file(&format!("part{n}/go.mod"), "")
    });
    let wrote = ran(&project, &["init", "--yes"]);
    let config = project.read("creel.yaml");
    assert!(
        config.contains("  - \"cd part4 && go test ./...\"\n") && config.lines().count() <= 15,
        "{config}"
    );
    assert!(
        wrote
            .err
            .contains("too: cd part5 && go test ./..., cd part6"),
        "{}",
        wrote.err
    );
    assert_eq!(ran(&project, &["check"]).code, 0);
}

#[test]
fn init_offers_to_import_hooks_and_widens_no_trust() {
    let settings =
        r#"{ "hooks": { "Stop": [{ "hooks": [{ "type": "command", "command": "true" }] }] } }"#;
    let project = Project::new().file(".claude/settings.json", settings);
    let ran = project.creel(&["init", "--yes"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.err.contains(".claude/settings.json has hooks"),
        "{}",
        ran.err
    );
    let config = project.read("creel.yaml");
    let line = "# hooks: { import: [.claude/settings.json] }";
    assert!(config.contains(line), "{config}");
    project.write("creel.yaml", &config.replace(line, &line[2..]));
    let listed = project.creel(&["check"]).out;
    assert!(listed.contains("Stop true: runs at stop"), "{listed}");
}
