//! Agents that need no config entry: the list of them, a user's own, and the config that `creel
//! init` writes for one.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, process::Command};

use serde_json::Value;
use unicode_width::UnicodeWidthStr as _;

use crate::support::project::{Project, Ran, eventually_in, until};

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

fn own_table(project: &Project, text: &str) {
    let folder = project.config_dir().join("creel");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("agents.yaml"), text).expect("a file");
}

fn line_of<'a>(table: &'a str, name: &str) -> &'a str {
    let is_its = |line: &&str| line.split_whitespace().next() == Some(name);
    table
        .lines()
        .find(is_its)
        .unwrap_or_else(|| panic!("no {name} in\n{table}"))
}

#[test]
fn agents_are_listed_with_how_they_run_their_version_and_how_to_install_them() {
    let project = Project::new();
    install(&project, "claude-agent-acp", "echo 0.9.1");
    install(
        &project,
        "codex",
        "echo 'warning: no terminal' >&2; echo \"codex-cli 1.2.3 ($*)\"",
    );
    install(&project, "aider", "exit 1");
    let ran = ran(&project, &["agents"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(
        line_of(&ran.out, "claude"),
        "claude        ACP      0.9.1    claude-agent-acp"
    );
    assert!(
        line_of(&ran.out, "codex").starts_with("codex         command  1.2.3    codex exec --json"),
        "{}",
        ran.out
    );
    assert!(
        ran.out
            .contains("over ACP with: npm install -g @agentclientprotocol/codex-acp"),
        "{}",
        ran.out
    );
    assert!(
        line_of(&ran.out, "aider").starts_with("aider         command  fails    aider "),
        "{}",
        ran.out
    );
    assert_eq!(
        line_of(&ran.out, "gemini"),
        "gemini        npm install -g @google/gemini-cli"
    );
    assert!(
        ran.out.lines().all(|line| line.chars().count() <= 80),
        "{}",
        ran.out
    );
    assert_eq!(
        ran.err,
        "creel: this project uses `claude`; choose another agent with `--agent NAME`\n"
    );
}

#[test]
fn the_columns_are_straight_whatever_the_names_are() {
    let project = Project::with(
        "agents: { 代理: { command: codex run }, ü: { command: codex run }, a-very-long-name-of-an-agent: { command: codex run } }\n",
    );
    install(&project, "codex", "echo codex-cli 1.2.3");
    let listed = ran(&project, &["agents"]).out;
    let starts = |line: &str| line.find("codex run").map(|at| line[..at].width());
    let columns: Vec<usize> = listed.lines().filter_map(starts).collect();
    let heading = listed.lines().next().expect("a heading");
    let command = heading.find("COMMAND").expect("a column");
    assert_eq!(columns, [command; 3], "{listed}");
}

#[test]
fn the_list_is_data_for_programs() {
    let project =
        Project::with("agents: { mine: { command: './agent.sh --now', login: ask Bob } }\n");
    install(&project, "codex", "echo codex-cli 1.2.3");
    let listed: Vec<Value> =
        serde_json::from_str(&ran(&project, &["agents", "--json"]).out).expect("JSON");
    let named = |name: &str| {
        listed
            .iter()
            .find(|agent| agent["name"] == name)
            .expect("it is listed")
            .clone()
    };
    let codex = named("codex");
    assert_eq!(
        (&codex["from"], &codex["runs"], &codex["version"]),
        (&"built_in".into(), &"command".into(), &"1.2.3".into())
    );
    assert_eq!(codex["installed"], true);
    let mine = named("mine");
    assert_eq!(
        (&mine["from"], &mine["installed"], &mine["login"]),
        (&"config".into(), &false.into(), &"ask Bob".into())
    );
    assert_eq!(named("claude")["runs"], Value::Null);
    assert_eq!(named("claude")["install"].as_array().map(Vec::len), Some(2));
}

#[test]
fn nothing_that_a_config_names_is_run_to_list_it() {
    let project = Project::with(
        "agents:\n  a: { command: './agent.sh' }\n  b: { acp: other }\n  c: { command: 'codex --mine' }\n  d: { command: gone }\n",
    )
    .file("agent.sh", "#!/bin/sh\ntouch ran\n");
    let file = project.root().join("agent.sh");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("permissions");
    install(
        &project,
        "other",
        &format!("> '{}/ran'; echo 9.9.9", project.root().display()),
    );
    install(&project, "codex", "echo 1.2.3");
    let ran = ran(&project, &["agents"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        line_of(&ran.out, "a").contains("./agent.sh") && line_of(&ran.out, "b").contains("ACP"),
        "{}",
        ran.out
    );
    assert!(
        line_of(&ran.out, "c").contains("1.2.3"),
        "a known program is known here, too\n{}",
        ran.out
    );
    assert_eq!(
        line_of(&ran.out, "d").trim_start_matches(['d', ' ']),
        "`gone` is not on PATH"
    );
    assert!(!project.root().join("ran").exists());
}

#[test]
fn a_program_that_does_not_answer_in_time_is_listed_with_that_and_is_ended() {
    let project = Project::new();
    let pid_file = project.root().join("pid");
    install(
        &project,
        "gemini",
        &format!("echo $$ > '{}'; exec /bin/sleep 600", pid_file.display()),
    );
    install(
        &project,
        "opencode",
        "while :; do echo and so on and so on; done",
    );
    let ran = ran(&project, &["agents"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    for name in ["gemini", "opencode"] {
        let line = line_of(&ran.out, name);
        assert!(line.contains("ACP      no answer  "), "{}", ran.out);
    }
    let pid = eventually_in(&pid_file);
    until("it is ended", || !is_running(&pid));
}

fn is_running(pid: &str) -> bool {
    Command::new("/bin/kill")
        .args(["-0", pid])
        .output()
        .is_ok_and(|output| output.status.success())
}

#[test]
fn a_users_own_agent_is_listed_and_runs() {
    let project = Project::new();
    own_table(
        &project,
        "mine:\n  ways: [{ command: 'my-agent --go', version: version, install: ask Bob }]\n",
    );
    assert_eq!(
        line_of(&ran(&project, &["agents"]).out, "mine"),
        "mine          ask Bob"
    );
    install(
        &project,
        "my-agent",
        "[ \"$1\" = version ] && echo v4.5 && exit; echo '<promise>COMPLETE</promise>'",
    );
    assert_eq!(
        line_of(&ran(&project, &["agents"]).out, "mine"),
        "mine          command  4.5      my-agent --go"
    );
    let ran = ran(&project, &["run", "--headless", "-s", "s", "GOAL"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(project.kind("session_started")[0]["agent"], "mine");
}

#[test]
fn a_mistake_in_a_users_table_is_reported_with_its_place() {
    let project = Project::new();
    own_table(&project, "mine:\n  ways: [{ comand: x }]\n");
    for args in [&["agents"][..], &["run", "--headless", "GOAL"], &["init"]] {
        let ran = ran(&project, args);
        assert_eq!(ran.code, 2);
        assert!(
            ran.err.contains("agents.yaml:2:12: unknown key `comand`"),
            "{}",
            ran.err
        );
        assert!(ran.err.contains("did you mean `command`?"), "{}", ran.err);
    }
    assert_eq!(
        project.creel(&["demo", "--fast", "--headless"]).code,
        0,
        "a demo needs nothing"
    );
}

#[test]
fn init_prefers_an_agent_that_speaks_the_protocol_and_says_how_to_log_in() {
    let project = Project::new();
    install(&project, "claude", "");
    install(&project, "opencode", "");
    let ran = ran(&project, &["init"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.err.contains("installed agents: claude, opencode"),
        "{}",
        ran.err
    );
    let written = project.read("creel.yaml");
    assert!(
        written.contains(
            "agent: opencode   # opencode, over ACP; to log in: run `opencode auth login`\n"
        ),
        "{written}"
    );
    let checked = Ran::of(&creel(&project, &["check"]).output().expect("creel starts"));
    assert!(
        checked.out.contains("opencode acp (ACP)"),
        "{}",
        checked.out
    );
}

#[test]
fn check_reports_the_agents_permissions_and_the_sessions_limits() {
    let project = Project::with(
        "agents: { a: { command: 'x', format: codex } }\n\
         permissions: [{ kind: [edit, delete], path: 'src/**', action: allow }, { path: '**/.env', action: deny }]\n\
         budget: { tokens: 1000, cost: 2.5, time: 2h }\n",
    );
    let out = project.creel(&["check"]).out;
    for part in [
        "agent      a: x (read as the JSON lines of codex)\n           `a` starts a new conversation for every prompt; give it \
         `continue_command` to continue one\n",
        "may        allow: edit, delete in src/**\nmay        deny: anything in **/.env\nmay        ask: everything else\n",
        "budget     1000 tokens, a cost of 2.5, 2 h of agent time; then creel asks you\n",
    ] {
        assert!(out.contains(part), "no {part} in\n{out}");
    }
    let json: Value = serde_json::from_str(&project.creel(&["check", "--json"]).out).expect("JSON");
    assert_eq!(json["plan"]["permissions"][0]["paths"][0], "src/**");
    assert_eq!(json["plan"]["budget"]["tokens"], 1000);
    assert!(Path::new(json["config"].as_str().expect("a path")).ends_with("creel.yaml"));
}

#[test]
fn a_session_of_a_type_has_the_configs_agent_or_else_the_first_installed_one_of_the_type() {
    let config = "prompt: GOAL\nagent: ada\nagents:\n  ada: { command: 'ada' }\n  bob: { command: 'bob --fast' }\n  \
                  eve: { script: scenario.yaml }\ntask_types:\n  both: { agents: [bob, ada] }\n  \
                  other: { agents: [codex, bob, gemini] }\n  script: { agents: [bob, eve] }\n";
    let project = Project::with(config).file(
        "scenario.yaml",
        "otherwise: { say: '<promise>COMPLETE</promise>' }\n",
    );
    let done = "echo '<promise>COMPLETE</promise>'";
    install(&project, "ada", done);
    let agent_of = |kind: &str| {
        let Ran { code, out, err } = ran(
            &project,
            &["run", "--json", "--trust", "-s", kind, "-t", kind],
        );
        assert_eq!(code, 0, "{err}");
        let first: Value =
            serde_json::from_str(out.lines().next().expect("a record")).expect("JSON");
        first["agent"].as_str().expect("a name").to_owned()
    };
    let fails = |args: &[&str]| {
        let failed = ran(
            &project,
            &[&["run", "--headless", "--trust", "-s", "failed"], args].concat(),
        );
        assert_eq!(failed.code, 2, "{}", failed.err);
        failed.err
    };
    assert_eq!(
        (agent_of("both"), agent_of("script")),
        ("ada".into(), "eve".into())
    );
    expect_test::expect![[r#"
        creel: none of the agents for tasks of type `other` is installed: `codex`, `bob`, `gemini`
          install `codex`: npm install -g @agentclientprotocol/codex-acp
          or: npm install -g @openai/codex
    "#]]
    .assert_eq(&fails(&["-t", "other"]));
    install(&project, "bob", done);
    assert_eq!(agent_of("other"), "bob");
    expect_test::expect![[r#"
        creel: the agent `ada` may not work on tasks of type `other`. Agents for this type: `codex`, `bob`, `gemini`
          choose one of them with `--agent NAME`, or change `task_types:`
    "#]]
    .assert_eq(&fails(&["-t", "other", "-a", "ada"]));
}

#[test]
fn the_trust_question_shows_the_hooks_of_a_type_without_an_installed_agent() {
    let config = "prompt: GOAL\nagent: eve\nagents: { eve: { script: scenario.yaml } }\ntask_types:\n  \
                  other: { agents: [codex], hooks: { stop: [{ command: deploy-it }] } }\n";
    let project = Project::with(config).file("scenario.yaml", "otherwise: { say: done }\n");
    let asked = ran(&project, &["run", "--headless"]);
    assert!(
        asked.code == 2 && asked.err.contains("stop: deploy-it"),
        "{}",
        asked.err
    );
}
