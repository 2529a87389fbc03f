//! `checks:` in real sessions, and what `creel check` says about a config's checks.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use serde_json::{Value, json};

use crate::{
    book::pages,
    support::project::{Project, Ran},
};

/// A project whose agent plays these turns.
fn scripted(config: &str, turns: &serde_json::Value) -> Project {
    let config = format!(
        "prompt: GOAL\nagent: play\nagents: {{ play: {{ script: play.yaml }} }}\n{config}\n"
    );
    Project::with(&config).file("play.yaml", &json!({ "turns": turns }).to_string())
}

#[test]
fn a_check_sends_the_agent_back_whatever_the_exit_code() {
    let turns = json!([
        { "say": "Done. <promise>COMPLETE</promise>" },
        { "when": "2 tests failed", "run": "touch fixed", "say": "Fixed. <promise>COMPLETE</promise>" },
    ]);
    let project = scripted(
        "checks: ['[ -e fixed ] || { echo 2 tests failed; exit 101; }']",
        &turns,
    );
    let ran = project.run();
    assert_eq!(
        (ran.code, project.outcome().as_deref()),
        (0, Some("complete")),
        "{}{}",
        ran.out,
        ran.err
    );
    let verdicts: Vec<_> = project
        .kind("hook_finished")
        .iter()
        .map(|run| run["verdict"].clone())
        .collect();
    assert_eq!(verdicts, ["block", "pass"]);
}

#[test]
fn an_advisory_check_holds_nothing_up() {
    let turns = json!([{ "run": "touch x", "say": "Done. <promise>COMPLETE</promise>" }]);
    let project = scripted(
        "checks: [{ command: 'exit 1', on_failure: ignore }]",
        &turns,
    );
    let ran = project.run();
    assert_eq!(
        (ran.code, project.kind("turn_ended").len()),
        (0, 1),
        "{}{}",
        ran.out,
        ran.err
    );
}

#[test]
fn a_session_does_not_begin_while_the_program_of_a_check_is_missing() {
    let turns = json!([{ "say": "Done. <promise>COMPLETE</promise>" }]);
    let checks = "checks: ['true', { name: lint, command: 'cd . && no-such-linter .' }, { exec: [no-such-test, x] }]";
    let project = scripted(checks, &turns);
    let refused = project.run();
    assert_eq!(refused.code, 2, "{}{}", refused.out, refused.err);
    let expected = "creel: the check `lint` cannot start: `no-such-linter` is not on PATH\n\
                    the check `no-such-test x` cannot start: `no-such-test` is not on PATH\n  \
                    install it, or correct the name under `checks:`\n  Nothing has run.\n";
    assert_eq!(refused.err, expected);
    assert!(!project.root().join(".creel").exists());
}

#[test]
fn a_session_begins_if_a_check_can_appear_or_does_not_count() {
    let turns = json!([{ "say": "Done. <promise>COMPLETE</promise>" }]);
    for (config, expected) in [
        ("checks: [{ command: no-such-linter, enabled: false }]", ""),
        ("checks: [./gone.sh]\nmax_hook_retries: 0", ""),
        (
            "checks: ['./gone.sh && no-such-linter']\nmax_hook_retries: 0",
            "",
        ),
        (
            "checks: [no-such-linter]\nhooks: { session_start: [{ command: 'true' }] }",
            "",
        ),
        (
            "checks: [{ name: lint, command: no-such-linter, on_failure: ignore }]",
            "creel: warning: the check `lint` cannot run: `no-such-linter` is not on PATH\n",
        ),
    ] {
        let project = scripted(config, &turns);
        let ran = project.run();
        assert_ne!(ran.code, 2, "{config}: {}{}", ran.out, ran.err);
        let about_path: String = ran
            .err
            .split_inclusive('\n')
            .filter(|line| line.contains("PATH"))
            .collect();
        assert_eq!(about_path, expected, "{config}");
        assert_eq!(project.kind("session_started").len(), 1, "{config}");
    }
}

#[test]
fn a_session_is_resumed_only_if_the_programs_of_its_checks_are_there() {
    let turns = json!([{ "run": "touch work", "say": "One." }, { "say": "Done. <promise>COMPLETE</promise>" }]);
    let project = scripted(
        "max_iterations: 1\nchecks: [{ name: lint, command: my-linter }]",
        &turns,
    );
    let linter = project.temp_dir().join("my-linter");
    fs::write(&linter, "#!/bin/sh\n").expect("a program");
    fs::set_permissions(&linter, fs::Permissions::from_mode(0o755)).expect("permissions");
    let with_linter = |args: &[&str]| {
        let path = format!(
            "{}:{}",
            project.temp_dir().display(),
            std::env::var("PATH").unwrap_or_default()
        );
        Ran::of(
            &project
                .command(args)
                .env("PATH", path)
                .output()
                .expect("creel starts"),
        )
    };
    assert_eq!(
        with_linter(&["run", "--headless", "--trust", "-s", "s"]).code,
        3
    );
    let before = project.records().len();
    let refused = project.creel(&["resume", "--headless", "-n", "2", "s"]);
    assert_eq!(refused.code, 2, "{}{}", refused.out, refused.err);
    let expected = "creel: the check `lint` cannot start: `my-linter` is not on PATH\n  install it, then resume the \
                    session; or correct the name under `checks:` and start a new one\n  Nothing has run.\n";
    assert_eq!(refused.err, expected);
    assert_eq!(project.records().len(), before);
    assert_eq!(
        with_linter(&["resume", "--headless", "-n", "2", "s"]).code,
        0
    );
}

#[test]
fn check_warns_about_checks_that_are_probably_not_meant() {
    let agent = "agents: { mine: { command: sh } }\n";
    for (config, warning) in [
        (
            "",
            "no check: the session ends as complete without any check",
        ),
        (
            "hooks: { stop: [{ command: sh -c true }, { command: './npm test' }] }",
            "a failure of `./npm` does not send the agent back: under `hooks.stop` only exit code 2 blocks",
        ),
        (
            "checks: ['true']\nhooks: { session_end: [{ command: 'true', pipe_output: true }] }",
            "`pipe_output` has no effect at `session_end`: no prompt follows",
        ),
    ] {
        let project = Project::with(&format!("{agent}{config}\n")).file("npm", "#!/bin/sh\n");
        let npm = project.root().join("npm");
        fs::set_permissions(npm, fs::Permissions::from_mode(0o755)).expect("permissions");
        let checked = project.creel(&["check"]);
        assert_eq!(checked.code, 0, "{}", checked.err);
        assert!(
            checked
                .out
                .contains("creel.yaml is valid, with 1 warning\n"),
            "{}",
            checked.out
        );
        assert!(
            checked.err.contains(&format!("warning: {warning}\n")),
            "{}",
            checked.err
        );
        assert_eq!(project.creel(&["check", "--strict"]).code, 1);
        let json: Value =
            serde_json::from_str(&project.creel(&["check", "--json"]).out).expect("JSON");
        assert_eq!(
            (&json["warnings"], &json["ready"]),
            (&json!([warning]), &json!(true))
        );
    }
    let project = Project::with(&format!("{agent}checks: ['true']\n"));
    let checked = project.creel(&["check", "--strict"]);
    assert_eq!(
        (checked.code, checked.err.as_str()),
        (0, ""),
        "{}",
        checked.out
    );
}

/// The headings in the output of `creel check`.
fn headings(config: &str, args: &[&str]) -> Vec<String> {
    let project = Project::with(&format!(
        "agents: {{ mine: {{ command: sh }} }}\nprotect: [tests]\n{config}\n"
    ));
    let checked = project.creel(&[&["check"], args].concat());
    assert_eq!(checked.code, 0, "{}", checked.err);
    let sections = checked
        .out
        .split("\n\n")
        .skip(1)
        .filter_map(|section| section.lines().next());
    sections.map(str::to_owned).collect()
}

#[test]
fn check_shows_submit_merge_and_automation_only_if_the_config_uses_them() {
    assert_eq!(headings("", &[]), [""; 0]);
    assert_eq!(
        headings("hooks: { session_end: [{ command: 'true' }] }", &[]),
        ["session_end"]
    );
    let pipelines = ["before_submit", "before_merge"];
    assert_eq!(headings("submit: true", &[]), pipelines);
    assert_eq!(headings("submit: { base_branch: trunk }", &[]), pipelines);
    assert_eq!(
        headings("hooks: { before_merge: [{ command: 'true' }] }", &[]),
        pipelines
    );
    let of_type = "task_types: { t: { hooks: { after_submit: [{ command: 'true' }] } } }";
    assert_eq!(headings(of_type, &[]), pipelines);
    assert_eq!(
        headings(of_type, &["-t", "t"]),
        ["before_submit", "after_submit", "before_merge"]
    );
    let quiet = "automation: { hooks: [{ name: auto-create-review-task, enabled: false }] }";
    assert_eq!(headings(quiet, &[]), ["automation"]);
    let workflow = "workflows: { w: { steps: [{ type: noop }] } }";
    assert_eq!(headings(workflow, &[]), ["automation", "workflow w"]);
}

#[test]
fn no_sample_works_around_exit_codes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut texts = pages();
    let mut folders = vec![root.join("assets/demo"), root.join("assets/help")];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").path())
        {
            if path.is_dir() {
                folders.push(path);
            } else {
                texts.push((path.clone(), fs::read_to_string(path).expect("a text")));
            }
        }
    }
    for file in ["config.example.yaml", "src/cli/init.rs"] {
        texts.push((
            root.join(file),
            fs::read_to_string(root.join(file)).expect("a text"),
        ));
    }
    let found = texts
        .iter()
        .filter(|(_, text)| text.contains("|| exit 2"))
        .map(|(path, _)| path);
    assert_eq!(
        found.collect::<Vec<_>>(),
        Vec::<&std::path::PathBuf>::new(),
        "`checks:` blocks on any exit code"
    );
}
