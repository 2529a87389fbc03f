//! `checks:` in real sessions, and what `creel check` says about a config's checks.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use serde_json::{Value, json};

use crate::{book::pages, support::project::Project};

/// A project whose agent plays these turns.
fn scripted(config: &str, turns: &serde_json::Value) -> Project {
    let config = format!("prompt: GOAL\nagent: play\nagents: {{ play: {{ script: play.yaml }} }}\n{config}\n");
    Project::with(&config).file("play.yaml", &json!({ "turns": turns }).to_string())
}

#[test]
fn a_check_sends_the_agent_back_whatever_the_exit_code() {
    let turns = json!([
        { "say": "Done. <promise>COMPLETE</promise>" },
        { "when": "2 tests failed", "run": "touch fixed", "say": "Fixed. <promise>COMPLETE</promise>" },
    ]);
    let project = scripted("checks: ['[ -e fixed ] || { echo 2 tests failed; exit 101; }']", &turns);
    let ran = project.run();
    assert_eq!((ran.code, project.outcome().as_deref()), (0, Some("complete")), "{}{}", ran.out, ran.err);
    let verdicts: Vec<_> = project.kind("hook_finished").iter().map(|run| run["verdict"].clone()).collect();
    assert_eq!(verdicts, ["block", "pass"]);
}

#[test]
fn an_advisory_check_holds_nothing_up() {
    let turns = json!([{ "run": "touch x", "say": "Done. <promise>COMPLETE</promise>" }]);
    let project = scripted("checks: [{ command: 'exit 1', on_failure: ignore }]", &turns);
    let ran = project.run();
    assert_eq!((ran.code, project.kind("turn_ended").len()), (0, 1), "{}{}", ran.out, ran.err);
}

#[test]
fn check_warns_about_checks_that_are_probably_not_meant() {
    let agent = "agents: { mine: { command: sh } }\n";
    for (config, warning) in [
        ("", "no check: the session ends as complete without any check"),
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
        assert!(checked.out.contains("creel.yaml is valid, with 1 warning\n"), "{}", checked.out);
        assert!(checked.err.contains(&format!("warning: {warning}\n")), "{}", checked.err);
        assert_eq!(project.creel(&["check", "--strict"]).code, 1);
        let json: Value = serde_json::from_str(&project.creel(&["check", "--json"]).out).expect("JSON");
        assert_eq!((&json["warnings"], &json["ready"]), (&json!([warning]), &json!(true)));
    }
    let project = Project::with(&format!("{agent}checks: ['true']\n"));
    let checked = project.creel(&["check", "--strict"]);
    assert_eq!((checked.code, checked.err.as_str()), (0, ""), "{}", checked.out);
}

/// The headings in the output of `creel check`.
fn headings(config: &str, args: &[&str]) -> Vec<String> {
    let project = Project::with(&format!("agents: {{ mine: {{ command: sh }} }}\nprotect: [tests]\n{config}\n"));
    let checked = project.creel(&[&["check"], args].concat());
    assert_eq!(checked.code, 0, "{}", checked.err);
    let sections = checked.out.split("\n\n").skip(1).filter_map(|section| section.lines().next());
    sections.map(str::to_owned).collect()
}

#[test]
fn check_shows_submit_merge_and_automation_only_if_the_config_uses_them() {
    assert_eq!(headings("", &[]), [""; 0]);
    assert_eq!(headings("hooks: { session_end: [{ command: 'true' }] }", &[]), ["session_end"]);
    let pipelines = ["before_submit", "before_merge"];
    assert_eq!(headings("submit: true", &[]), pipelines);
    assert_eq!(headings("submit: { base_branch: trunk }", &[]), pipelines);
    assert_eq!(headings("hooks: { before_merge: [{ command: 'true' }] }", &[]), pipelines);
    let of_type = "task_types: { t: { hooks: { after_submit: [{ command: 'true' }] } } }";
    assert_eq!(headings(of_type, &[]), pipelines);
    assert_eq!(headings(of_type, &["-t", "t"]), ["before_submit", "after_submit", "before_merge"]);
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
        for path in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
            if path.is_dir() {
                folders.push(path);
            } else {
                texts.push((path.clone(), fs::read_to_string(path).expect("a text")));
            }
        }
    }
    for file in ["config.example.yaml", "src/cli/init/config_text.rs"] {
        texts.push((root.join(file), fs::read_to_string(root.join(file)).expect("a text")));
    }
    let found = texts.iter().filter(|(_, text)| text.contains("|| exit 2")).map(|(path, _)| path);
    assert_eq!(found.collect::<Vec<_>>(), Vec::<&std::path::PathBuf>::new(), "`checks:` blocks on any exit code");
}
