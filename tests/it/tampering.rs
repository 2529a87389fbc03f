//! Files that an agent must not change: creel's own, the config, git's config and hooks, and the
//! paths under `protect:`.

use std::{
    fs,
    os::unix::fs::symlink,
    process::{Command as Process, Stdio},
};

use serde_json::{Value, json};

use crate::{
    nats::until_sent,
    support::{
        acp_agent,
        mcp::Raw,
        nats::NatsServer,
        project::{Project, Ran, until},
    },
};

const DONE: &str = "<promise>COMPLETE</promise>";

fn scripted(rest: &str, turns: &Value) -> Project {
    Project::with(&format!(
        "prompt: GOAL\nagents: {{ demo: {{ script: scenario.yaml }} }}\n{rest}\n"
    ))
    .file("scenario.yaml", &json!({ "turns": turns }).to_string())
}

fn git(project: &Project, args: &[&str]) {
    let ran = Process::new("git")
        .args(["-c", "user.name=n", "-c", "user.email=e"])
        .args(args)
        .current_dir(project.root())
        .env("HOME", project.config_dir())
        .stdout(Stdio::null())
        .status();
    assert!(ran.expect("git").success(), "git {args:?}");
}

fn gates(records: &[Value]) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let opened = records
        .iter()
        .filter(|record| record["kind"] == "gate_opened");
    opened
        .map(|record| (text(&record["about"]), text(&record["reason"])))
        .collect()
}

/// The printed records. creel prints them from the journal, so a line that the agent overwrote may
/// be no JSON.
fn readable(text: &str) -> Vec<Value> {
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

fn is_held(project: &Project, ran: &Ran, file: &str) {
    assert_eq!(ran.code, 4, "{}{}", ran.out, ran.err);
    let records = if ran.out.starts_with('{') {
        readable(&ran.out)
    } else {
        project.records()
    };
    let gates = gates(&records);
    let [(about, reason)] = &gates[..] else {
        panic!("one gate: {gates:?}")
    };
    assert_eq!(about, "tampered");
    assert!(reason.contains(file), "{reason}");
    let answers: Vec<&Value> = records
        .iter()
        .filter(|record| record["kind"] == "gate_answered")
        .collect();
    assert_eq!(
        (&answers[0]["choice"], &answers[0]["by"]),
        (&json!("escalate"), &json!("policy"))
    );
}

#[test]
fn a_turn_that_changed_git_or_the_config_opens_a_gate() {
    let cases = [
        (
            "git config core.hooksPath /nonexistent/hooks",
            ".git/config",
        ),
        (
            "mkdir -p .git/hooks; echo 'exit 0' > .git/hooks/pre-commit",
            ".git/hooks/pre-commit",
        ),
        ("echo 'max_iterations: 99' >> creel.yaml", "creel.yaml"),
        ("echo '# more' >> scenario.yaml", "scenario.yaml"),
        ("rm creel.yaml", "creel.yaml"),
    ];
    for (command, file) in cases {
        let project = scripted("", &json!([{ "run": command, "say": DONE }]));
        git(&project, &["init", "-q"]);
        let ran = project.run();
        is_held(&project, &ran, file);
        assert_eq!(project.kind("turn_ended")[0]["tampered"], json!([file]));
    }
}

#[test]
fn a_turn_that_failed_or_changed_the_journal_opens_a_gate() {
    let failing = scripted(
        "",
        &json!([{ "run": "echo >> creel.yaml", "fail": "down" }]),
    );
    let ran = failing.run();
    is_held(&failing, &ran, "creel.yaml");
    let journal = ".creel/sessions/s/journal.jsonl";
    let cases = [
        (format!(": > {journal}"), "truncated"),
        (format!("echo '{{}}' >> {journal}"), "written to"),
        (
            format!("printf x | dd of={journal} bs=1 seek=3 conv=notrunc 2>/dev/null"),
            "written to",
        ),
        (
            format!(
                "cp {journal} x; mv x {journal}.new; ln {journal} keep; mv {journal}.new {journal}"
            ),
            "replaced",
        ),
    ];
    for (command, what) in cases {
        let project = scripted("", &json!([{ "run": command, "say": DONE }]));
        let ran = project.creel(&["run", "--json", "--trust", "-s", "s"]);
        is_held(&project, &ran, &format!("{journal} ({what})"));
    }
}

#[test]
fn ordinary_work_and_creel_itself_raise_no_alarm() {
    let creel = env!("CARGO_BIN_EXE_creel");
    let work = [
        format!("{creel} task add --id t1 'a task' || {creel} task add 'a task'"),
        format!("{creel} trust; {creel} sessions"),
        "mkdir -p .creel/sessions/other; echo '{}' > .creel/sessions/other/journal.jsonl".to_owned(),
        "echo x > a.txt; git add a.txt; git -c user.name=n -c user.email=e commit -qm one".to_owned(),
        "git branch other; git config branch.other.remote origin; git config branch.other.merge refs/heads/other"
            .to_owned(),
        "chmod 600 creel.yaml; touch creel.yaml".to_owned(),
    ];
    let project = scripted(
        "stop: { open_tasks: ignore }",
        &json!([{ "run": work, "say": DONE }]),
    );
    git(&project, &["init", "-q"]);
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(gates(&project.records()), []);
}

fn acp_project(more: &str, steps: &[Value]) -> Project {
    let agent = acp_agent();
    let config = format!(
        "prompt: GOAL\nagent: a\nagents: {{ a: {{ acp: \"'{}' script.json log\" }} }}\ngates: {{ permissions: allow }}\n{more}\n",
        agent.display()
    );
    Project::with(&config).file("script.json", &json!({ "turns": [steps] }).to_string())
}

#[test]
fn creel_writes_none_of_them_for_an_agent() {
    let paths = [
        ".creel/sessions/s/journal.jsonl",
        ".creel/config.yaml",
        ".git/config",
        ".git/hooks/pre-commit",
        "creel.yaml",
        "src/../creel.yaml",
        "config-link",
        "git-link/hooks/post-checkout",
        "hard",
        ".GIT/hooks/pre-push",
        "tests/a.rs",
        "tests/new.rs",
    ];
    let mut steps: Vec<Value> = Vec::new();
    for path in paths {
        steps.extend([
            json!({"write": {"path": path, "content": "overwritten"}}),
            json!({"say": "|"}),
        ]);
    }
    steps.extend([
        json!({"write": {"path": "src/ok.rs", "content": "fine"}}),
        json!({ "say": DONE }),
    ]);
    let project = acp_project("protect: ['tests/**']", &steps)
        .file("src/main.rs", "")
        .file("tests/a.rs", "one");
    git(&project, &["init", "-q"]);
    let root = project.root();
    symlink("creel.yaml", root.join("config-link")).expect("a link");
    symlink(".git", root.join("git-link")).expect("a link");
    fs::hard_link(root.join(".git/config"), root.join("hard")).expect("a link");
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let said: String = project
        .kind("agent_said")
        .iter()
        .filter_map(|it| it["text"].as_str().map(str::to_owned))
        .collect();
    let parts: Vec<&str> = said.split('|').collect();
    for (path, part) in paths.iter().zip(&parts) {
        assert!(part.contains("was not written"), "{path}: {part}");
    }
    assert!(
        parts.last().is_some_and(|last| last.starts_with("written")),
        "{said}"
    );
    assert!(project.read("creel.yaml").starts_with("prompt: GOAL"));
    assert!(
        !project.read(".git/config").contains("overwritten") && project.read("tests/a.rs") == "one"
    );
    assert!(!root.join(".git/hooks/pre-commit").exists() && !root.join(".GIT").exists());
}

fn has_tests(project: Project) -> Project {
    let project = project
        .file("tests/a.rs", "one")
        .file("tests/b.rs", "one")
        .file("src/main.rs", "");
    git(&project, &["init", "-q"]);
    git(&project, &["add", "."]);
    git(&project, &["commit", "-qm", "first"]);
    project
}

#[test]
fn a_turn_that_changed_a_protected_path_is_sent_back_until_it_is_undone() {
    let change = "echo two > tests/a.rs; rm tests/b.rs; echo new > tests/new.rs; git add -A; git -c user.name=n -c user.email=e commit -qm x";
    let undo = "printf one > tests/a.rs; printf one > tests/b.rs; rm tests/new.rs";
    let turns = json!([
        { "run": change, "say": DONE },
        { "when": "Hook feedback", "say": format!("No. {DONE}") },
        { "when": "Hook feedback", "run": undo, "say": DONE },
    ]);
    let project = has_tests(scripted(
        "protect: ['tests/**']\nhooks: { stop: [{ name: check, command: 'true' }] }",
        &turns,
    ));
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let prompts = project.prompts();
    assert_eq!(
        prompts
            .iter()
            .map(|(reason, _)| reason.as_str())
            .collect::<Vec<_>>(),
        ["iteration", "feedback", "feedback"]
    );
    let expected = "[Hook feedback]: You changed paths that the user protects (`protect:` in creel's config). Undo these \
        changes, and do the task without them:\n- tests/a.rs\n- tests/b.rs\n- tests/new.rs";
    assert_eq!(prompts[1].1, expected);
    let retries = project.kind("retry_counted");
    assert_eq!(
        (
            &retries[0]["hook"],
            &retries[0]["used"],
            &retries[0]["limit"]
        ),
        (&json!("protect"), &json!(1), &json!(5))
    );
    assert_eq!(
        retries[0]["reason"],
        "protected paths changed: tests/a.rs, tests/b.rs, tests/new.rs"
    );
    assert_eq!(retries[1]["no_progress"], true);
    assert_eq!(
        project.kind("hook_finished").len(),
        1,
        "stop hooks run once nothing protected is changed"
    );
}

#[test]
fn at_the_limit_a_protected_path_that_stays_changed_is_never_a_pass() {
    let turns = json!([{ "run": "echo two > tests/a.rs", "say": DONE }, { "when": "Hook feedback", "say": DONE }]);
    for (rest, code) in [("", 5), ("on_limit: escalate", 4)] {
        let rest = format!("protect: ['tests/**']\nmax_hook_retries: 1\n{rest}");
        let project = has_tests(scripted(&rest, &turns));
        let ran = project.run();
        assert_eq!(ran.code, code, "{}{}", ran.out, ran.err);
        let gates = gates(&project.records());
        let [(about, reason)] = &gates[..] else {
            panic!("one gate: {gates:?}")
        };
        assert_eq!(about, "retry_limit");
        assert!(
            reason.contains("protect still fails") && reason.contains("tests/a.rs"),
            "{reason}"
        );
    }
}

#[test]
fn the_plan_shows_protected_paths_and_a_pattern_without_a_match_is_a_mistake() {
    let project = scripted("protect: ['tests/**', './golden/*.txt']", &json!([]));
    let ran = project.creel(&["check"]);
    assert!(
        ran.out
            .contains("no turn may change tests/**, golden/*.txt"),
        "{}{}",
        ran.out,
        ran.err
    );
    let wrong = scripted("protect: ['/etc/**', 'tests/']", &json!([]));
    let ran = wrong.creel(&["check"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains("outside the project") && ran.err.contains("tests/**"),
        "{}",
        ran.err
    );
}

/// An agent that does this in its first turn, and then waits; creel is killed meanwhile, and the
/// session is resumed.
fn killed_in_its_first_turn(rest: &str, work: &str) -> (Project, Ran) {
    let wait = format!("{work}; touch changed; until [ -e go ]; do sleep 0.02; done");
    let project = scripted(
        rest,
        &json!([{ "run": wait, "say": "half" }, { "say": DONE }, { "say": DONE }]),
    );
    git(&project, &["init", "-q"]);
    fs::create_dir(project.root().join("tests")).expect("a folder");
    fs::write(project.root().join("tests/a.rs"), "assert").expect("a file");
    let session = project.start();
    until("the agent changed it", || {
        project.root().join("changed").exists()
    });
    session.kill();
    fs::write(project.root().join("go"), "").expect("a file");
    // The user may change the config while nothing runs.
    let config = project.read("creel.yaml");
    fs::write(
        project.root().join("creel.yaml"),
        format!("# more\n{config}"),
    )
    .expect("a file");
    let ran = project.creel(&["resume", "s"]);
    (project, ran)
}

#[test]
fn a_kill_in_the_turn_does_not_hide_what_the_turn_changed() {
    let work = "echo > tests/a.rs";
    let (project, ran) =
        killed_in_its_first_turn("protect: ['tests/**']\nmax_hook_retries: 1", work);
    let feedback = project
        .kind("prompt_sent")
        .into_iter()
        .filter(|prompt| prompt["reason"] == "feedback");
    let texts: Vec<Value> = feedback.map(|prompt| prompt["text"].clone()).collect();
    assert!(
        texts[0].as_str().expect("a text").contains("- tests/a.rs"),
        "{texts:?} {}{}",
        ran.out,
        ran.err
    );

    let hook = "echo 'exit 0' > .git/hooks/pre-commit";
    let (project, ran) = killed_in_its_first_turn("", hook);
    is_held(&project, &ran, ".git/hooks/pre-commit");
}

#[test]
fn after_a_kill_what_did_not_change_raises_no_alarm() {
    let (project, ran) = killed_in_its_first_turn("protect: ['tests/**']", "echo > src.rs");
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(gates(&project.records()), []);
}

#[test]
fn the_gate_is_shown_and_answered_over_nats_and_shown_over_mcp() {
    let server = NatsServer::start();
    let more = format!("nats: {{ url: '{}' }}", server.url());
    let project = scripted(
        &more,
        &json!([{ "run": "echo '# more' >> creel.yaml", "say": DONE }]),
    );
    let ran = project.creel(&["run", "--detach", "--trust", "-s", "s"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    until("the gate is open", || {
        !project.kind("gate_opened").is_empty()
    });
    until_sent(&project);
    let ask = |line: &str| server.ask("creel.commands.s", line);
    let gate = ask(r#"{"v":1,"do":"status"}"#)["status"]["gate"].clone();
    assert_eq!(
        (&gate["about"], &gate["choices"]),
        (&json!("tampered"), &json!(["ignore", "send", "abort"]))
    );
    let seen = Raw::greeted(&project).does("session_status", &json!({}))["gate"].clone();
    assert_eq!(
        (&seen["about"], &seen["reason"]),
        (&json!("tampered"), &gate["reason"])
    );
    assert!(
        seen["reason"]
            .as_str()
            .is_some_and(|reason| reason.ends_with("creel.yaml")),
        "{seen}"
    );
    assert_eq!(
        ask(r#"{"v":1,"do":"gate_answer","gate":1,"choice":"ignore"}"#)["ok"],
        true
    );
    until("it is over", || project.outcome().is_some());
    assert_eq!(project.outcome().as_deref(), Some("complete"));
    assert_eq!(project.kind("gate_answered")[0]["by"], "nats");
}

/// Runs a command in the turn of a session in a repository that has a remote.
fn turn_in_a_repository(command: &str) -> (Project, Ran) {
    let project = scripted("", &json!([{ "run": command, "say": DONE }]));
    git(&project, &["init", "-q", "-b", "main"]);
    git(&project, &["init", "-q", "--bare", "origin.git"]);
    git(&project, &["remote", "add", "origin", "origin.git"]);
    git(&project, &["config", "include.path", "../included"]);
    project.write("included", "[alias]\n\tst = status\n");
    git(&project, &["add", "."]);
    git(&project, &["commit", "-q", "-m", "begin"]);
    let ran = project.run();
    (project, ran)
}

#[test]
fn gits_config_is_compared_as_git_reads_it() {
    for (command, file) in [
        (
            "echo '[core] hooksPath = /tmp/x' >> .git/config",
            ".git/config",
        ),
        (
            "echo '[Core]hookspath=/tmp/x ; why' >> .git/config",
            ".git/config",
        ),
        ("git config core.fsmonitor /tmp/x", ".git/config"),
        (
            "printf '[include]\\n\\tpath = x\\n' >> .git/config",
            ".git/config",
        ),
        ("git config remote.origin.url /tmp/elsewhere", ".git/config"),
        (
            "git config --add remote.origin.url /tmp/elsewhere",
            ".git/config",
        ),
        (
            "git config remote.origin.pushurl /tmp/elsewhere",
            ".git/config",
        ),
        ("git remote add evil 'ext::sh -c x'", ".git/config"),
        (
            "git config branch.main.remote /tmp/elsewhere",
            ".git/config",
        ),
        ("echo '[core' >> .git/config", ".git/config"),
        ("rm .git/config", ".git/config"),
        (
            "git config extensions.worktreeConfig true; git config --worktree core.hooksPath x",
            ".git/config.worktree",
        ),
        (
            "printf '[core]\\n\\thooksPath = x\\n' >> included",
            "included",
        ),
        (
            "mkdir .git/hooks/lib; echo exit 0 > .git/hooks/lib/x",
            ".git/hooks/lib/x",
        ),
    ] {
        let (project, ran) = turn_in_a_repository(command);
        is_held(&project, &ran, file);
    }
}

#[test]
fn ordinary_commands_that_change_gits_config_raise_no_alarm() {
    let commit = "git -c user.name=n -c user.email=e commit -q --allow-empty -m x";
    for command in [
        &format!("{commit} && git push -q -u origin main"),
        "git switch -q -c feature && git push -q -u origin feature",
        "git remote add fork https://example.com/fork.git",
        "git config user.name Ada && git config user.email ada@example.com",
        "printf '# a comment\\n\\n' >> .git/config",
        "git config gc.auto 1; git config --unset gc.auto",
        "git switch -q -c 'fix/#12' && git push -q -u origin 'fix/#12'",
        "git switch -q -c topic --track main",
        "git remote add --no-tags other https://example.com/o.git && git config branch.main.description 'two words'",
    ] {
        let (project, ran) = turn_in_a_repository(command);
        assert_eq!(
            project.kind("gate_opened"),
            Vec::<Value>::new(),
            "{command}: {}{}",
            ran.out,
            ran.err
        );
        assert_eq!(
            project.kind("turn_ended")[0].get("tampered"),
            None,
            "{command}"
        );
    }
}

#[test]
fn a_new_repository_and_all_of_creels_folder_are_watched() {
    for (command, file) in [
        (
            "git init -q && printf 'exit 0' > .git/hooks/pre-commit",
            ".git/hooks/pre-commit",
        ),
        ("git init -q && git config core.hooksPath x", ".git/config"),
        ("echo x > .creel/config.yaml", ".creel/config.yaml"),
        (
            "mkdir -p .creel/a/b && echo x > .creel/a/b/c",
            ".creel/a/b/c",
        ),
        ("echo x >> .creel/check.sh", ".creel/check.sh"),
    ] {
        let project = scripted("", &json!([{ "run": command, "say": DONE }]))
            .file(".creel/check.sh", "true\n");
        let ran = project.run();
        is_held(&project, &ran, file);
    }
    let project = scripted(
        "",
        &json!([{ "run": "git init -q && git config user.name n", "say": DONE }]),
    );
    let ran = project.run();
    assert_eq!(
        (ran.code, project.kind("gate_opened").len()),
        (0, 0),
        "{}{}",
        ran.out,
        ran.err
    );
}

/// A turn that leaves a process behind. That process runs the command while the check runs.
fn left_behind(command: &str, more: &str, then: &str) -> Project {
    let until =
        |file: &str| format!("until [ -e {file} ] || [ ! -e scenario.yaml ]; do sleep 0.02; done");
    let behind = format!(
        "({}; {command}; touch written) >/dev/null 2>&1 &",
        until("checking")
    );
    let checks = json!([{ "name": "slow", "command": format!("touch checking; {}; {then}", until("written")) }]);
    scripted(
        &format!("{more}\nchecks: {checks}"),
        &json!([{ "run": behind, "say": DONE }]),
    )
}

#[test]
fn what_a_process_changes_that_the_agent_left_behind_is_found_before_the_end() {
    for (command, file) in [
        ("echo '# more' >> creel.yaml", "creel.yaml"),
        ("echo x >> tests/a.sh", "tests/a.sh"),
        ("rm tests/a.sh", "tests/a.sh"),
        ("echo exit 0 > .git/hooks/pre-push", ".git/hooks/pre-push"),
        (
            "echo x >> .creel/sessions/s/journal.jsonl",
            ".creel/sessions/s/journal.jsonl (written to)",
        ),
    ] {
        let project = left_behind(command, "protect: [tests]", "true").file("tests/a.sh", "true\n");
        git(&project, &["init", "-q"]);
        git(&project, &["add", "tests"]);
        let ran = project.creel(&["run", "--json", "--trust", "-s", "s"]);
        is_held(&project, &ran, file);
        assert!(ran.out.contains("tampering_found"), "{}", ran.out);
    }
}

#[test]
fn the_folder_of_hooks_that_gits_config_names_is_watched() {
    let project = scripted(
        "",
        &json!([{ "run": "echo exit 0 >> .husky/pre-commit", "say": DONE }]),
    );
    git(&project, &["init", "-q"]);
    git(&project, &["config", "core.hooksPath", ".husky"]);
    project.write(".husky/pre-commit", "npm test\n");
    let ran = project.run();
    is_held(&project, &ran, ".husky/pre-commit");
}

#[test]
fn reports_of_checks_and_changes_of_your_own_hooks_raise_no_alarm() {
    let check = "date +%N > tests/report.xml; test -e ok";
    let hooks =
        "hooks: { post_iteration: [{ command: 'echo x >> tests/a.sh' }] }\nmax_iterations: 3";
    let rest = format!("protect: [tests]\nchecks: [{}]\n{hooks}", json!(check));
    let turns =
        json!([{ "say": "working" }, { "run": "touch ok", "say": "working" }, { "say": DONE }]);
    let project = scripted(&rest, &turns)
        .file("tests/a.sh", "true\n")
        .file("tests/report.xml", "");
    git(&project, &["init", "-q"]);
    git(&project, &["add", "tests/a.sh"]);
    let ran = project.run();
    assert_eq!(
        (ran.code, project.kind("gate_opened").len()),
        (0, 0),
        "{}{}",
        ran.out,
        ran.err
    );
    assert!(project.kind("tampering_found").is_empty());
}

#[test]
fn new_files_of_checks_and_files_that_nobody_protects_do_not_matter() {
    let command = "echo x > tests/report.xml; echo x > src.rs";
    let project = left_behind(command, "protect: [tests]", "true").file("tests/a.sh", "true\n");
    let ran = project.run();
    assert_eq!(
        (ran.code, project.kind("gate_opened").len()),
        (0, 0),
        "{}{}",
        ran.out,
        ran.err
    );
}

#[test]
fn a_change_is_found_before_the_next_prompt() {
    let project = left_behind("echo '# more' >> creel.yaml", "", "exit 2");
    let ran = project.run();
    is_held(&project, &ran, "creel.yaml");
    assert_eq!(project.kind("prompt_sent").len(), 1);
}

#[test]
fn a_baseline_that_is_gone_or_damaged_is_tampering() {
    let baseline = ".creel/sessions/s/baseline.json";
    for (command, what) in [("rm", "missing"), ("echo '{}' >", "written to")] {
        let project = scripted(
            "",
            &json!([{ "run": format!("{command} {baseline}"), "say": DONE }]),
        );
        let ran = project.run();
        is_held(&project, &ran, &format!("{baseline} ({what})"));
    }
    for (work, what) in [
        (format!("rm {baseline}"), "missing"),
        (format!("echo x > {baseline}"), "damaged"),
    ] {
        let (project, ran) = killed_in_its_first_turn("", &work);
        assert_eq!(ran.code, 4, "{}{}", ran.out, ran.err);
        let gates = gates(&project.records());
        assert!(
            gates[0].1.contains(&format!("{baseline} ({what})")),
            "{gates:?}"
        );
    }
}

#[test]
fn a_change_that_the_agent_undoes_is_settled_and_one_that_stays_is_asked_about_again() {
    for (second, code) in [("git config --unset core.hooksPath", 0), ("true", 4)] {
        let turns = json!([{ "run": "git config core.hooksPath x", "say": DONE }, { "run": second, "say": DONE }]);
        let project = scripted("checks: ['true']", &turns);
        git(&project, &["init", "-q"]);
        assert_eq!(project.run().code, 4);
        let ran = project.creel(&[
            "resume",
            "s",
            "--headless",
            "--answer",
            "send",
            "Undo that.",
        ]);
        assert_eq!(ran.code, code, "{second}: {}{}", ran.out, ran.err);
    }
}
