//! `checks:` in real sessions, and what `creel check` says about a config's checks.

use serde_json::json;

use crate::support::project::Project;

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
