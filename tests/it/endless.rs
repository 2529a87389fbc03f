//! Sessions whose agent and hooks would continue for ever: real processes, real creel commands, and
//! an end.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::project::{Project, eventually_in};

const CREEL: &str = env!("CARGO_BIN_EXE_creel");

/// A project whose agent runs this in every turn.
fn with_agent(command: &str, rest: &Value) -> Project {
    let mut config =
        json!({ "prompt": "GOAL", "max_iterations": 1, "agents": { "a": { "command": command } } });
    if let (Some(config), Value::Object(rest)) = (config.as_object_mut(), rest.clone()) {
        config.extend(rest);
    }
    Project::with(&config.to_string())
}

fn reasons(project: &Project) -> Vec<String> {
    project
        .prompts()
        .into_iter()
        .map(|(reason, _)| reason)
        .collect()
}

fn warnings(project: &Project) -> String {
    project
        .kind("warning")
        .iter()
        .map(|record| format!("{}\n", record["text"]))
        .collect()
}

#[test]
fn an_agent_that_completes_a_task_in_every_turn_gets_three_final_deliveries() {
    let hooks = json!({ "hooks": { "on_task_complete": [{ "command": "echo seen", "pipe_output": true }] } });
    let project = with_agent(
        &format!("{CREEL} task done t$$ --content x; echo Working."),
        &hooks,
    );
    let ran = project.run();
    assert_eq!(project.outcome().as_deref(), Some("limit"), "{}", ran.err);
    assert_eq!(
        reasons(&project),
        [
            "iteration",
            "final_delivery",
            "final_delivery",
            "final_delivery"
        ]
    );
    assert!(
        warnings(&project).contains("not delivered: item 4"),
        "{}",
        warnings(&project)
    );
}

#[test]
fn the_budget_also_applies_after_the_loop() {
    let hooks = json!({
        "hooks": { "on_task_complete": [{ "command": "echo seen", "pipe_output": true }] },
        "budget": { "time": "1ms" },
    });
    let project = with_agent(
        &format!("{CREEL} task done t$$ --content x; echo Working."),
        &hooks,
    );
    let ran = project.run();
    assert_eq!(project.outcome().as_deref(), Some("limit"), "{}", ran.err);
    assert_eq!(reasons(&project), ["iteration"]);
    assert!(
        warnings(&project).contains("not delivered: item 1"),
        "{}",
        warnings(&project)
    );
}

#[test]
fn an_agent_that_writes_to_itself_in_every_turn_uses_up_its_iterations() {
    let agent = format!("{CREEL} message again; echo Working.");
    let project = with_agent(&agent, &json!({ "max_iterations": 3 }));
    let ran = project.run();
    assert_eq!(
        (ran.code, project.outcome().as_deref()),
        (3, Some("limit")),
        "{}",
        ran.err
    );
    assert_eq!(project.kind("message_queued")[0]["by"], "agent");
    assert!(reasons(&project).len() <= 4, "{:?}", reasons(&project));
}

#[test]
fn a_hook_that_completes_another_task_is_cut_off() {
    let hooks = json!({ "hooks": { "on_task_complete": [{ "command": format!("{CREEL} task done t$$ --content x") }] } });
    let agent = format!("{CREEL} task done first --content x; echo '<promise>COMPLETE</promise>'");
    let project = with_agent(&agent, &hooks);
    let ran = project.run();
    assert_eq!(
        (ran.code, project.outcome().as_deref()),
        (0, Some("complete")),
        "{}",
        ran.err
    );
    assert!(
        warnings(&project).contains("creel stops on_task_complete here"),
        "{}",
        warnings(&project)
    );
    assert!(project.kind("hook_finished").len() <= 12);
}

#[test]
fn a_task_that_the_agent_completes_when_it_is_ended_gets_its_hooks_after_resume() {
    let hooks = json!({ "hooks": { "on_task_complete": [{ "command": "echo {{task_id}} >> completed" }] } });
    let agent = format!(
        "if [ -e second ]; then echo '<promise>COMPLETE</promise>'; exit; fi; touch second; \
         trap '{CREEL} task done late --content x; exit 0' TERM; echo now > ready; sleep 1000 & wait"
    );
    let project = with_agent(&agent, &hooks);
    let mut creel = project.start();
    creel.wait_for("prompt_sent");
    eventually_in(&project.root().join("ready"));
    creel.signal(Signal::INT);
    assert_eq!(creel.end().code, 130);
    assert_eq!(
        project.kind("task_completed").len(),
        1,
        "the trap has completed it"
    );
    assert!(!project.root().join("completed").exists());
    let resumed = project.creel(&["resume", "--headless", "--trust", "s"]);
    assert_eq!(resumed.code, 0, "{}{}", resumed.out, resumed.err);
    assert_eq!(project.read("completed"), "late\n");
}

#[test]
fn a_turn_interrupted_in_the_last_iteration_continues_in_it() {
    let agent = "if [ -e second ]; then echo '<promise>COMPLETE</promise>'; exit; fi; echo now > second; sleep 600";
    let project = with_agent(agent, &json!({}));
    let mut creel = project.start();
    creel.wait_for("prompt_sent");
    eventually_in(&project.root().join("second"));
    creel.signal(Signal::INT);
    assert_eq!(creel.end().code, 130);
    let resumed = project.creel(&["resume", "--headless", "--trust", "s"]);
    assert_eq!(resumed.code, 0, "{}{}", resumed.out, resumed.err);
    let iterations: Vec<Value> = project
        .kind("prompt_sent")
        .iter()
        .map(|sent| sent["iteration"].clone())
        .collect();
    assert_eq!(iterations, [1, 1]);
    assert_eq!(project.outcome().as_deref(), Some("complete"));
}

#[test]
fn a_journal_out_of_order_is_not_resumed_and_shown_with_a_warning() {
    let project = with_agent("sleep 600", &json!({}));
    let mut creel = project.start();
    creel.wait_for("prompt_sent");
    creel.signal(Signal::INT);
    assert_eq!(creel.end().code, 130);
    let text = fs::read_to_string(project.journal()).expect("a journal");
    let lines: Vec<&str> = text.lines().collect();
    let written =
        |lines: &[&str]| fs::write(project.journal(), lines.join("\n") + "\n").expect("space");
    let mut swapped = lines.clone();
    swapped.swap(1, 2);
    let without = [&lines[..2], &lines[3..]].concat();
    let doubled = [&lines[..3], &lines[2..]].concat();
    let beheaded = lines[1..].to_vec();
    for (what, line, broken) in [
        ("swapped", 2, swapped),
        ("a gap", 3, without),
        ("doubled", 4, doubled),
    ] {
        written(&broken);
        let resumed = project.creel(&["resume", "--headless", "--trust", "s"]);
        assert_eq!(resumed.code, 1, "{what}: {}", resumed.err);
        let place = format!("journal.jsonl:{line} is record");
        assert!(
            resumed.err.contains(&place) && resumed.err.contains("creel show"),
            "{what}: {}",
            resumed.err
        );
        assert_eq!(
            fs::read_to_string(project.journal())
                .expect("a journal")
                .lines()
                .count(),
            broken.len()
        );
        let shown = project.creel(&["show", "s"]);
        assert_eq!(shown.code, 0, "{what}: {}", shown.err);
        assert!(
            shown.err.contains(&place) && shown.out.contains("Stopping"),
            "{what}: {}{}",
            shown.out,
            shown.err
        );
        assert!(
            project
                .creel(&["hooks", "stats", "-s", "s"])
                .err
                .contains(&place),
            "{what}"
        );
    }
    written(&beheaded);
    let resumed = project.creel(&["resume", "--headless", "--trust", "s"]);
    assert!(
        resumed.code != 0 && resumed.err.contains("journal.jsonl"),
        "{}",
        resumed.err
    );
    // A torn last line is what a kill leaves, not a damaged journal.
    fs::write(project.journal(), format!("{text}{{\"v\":1,\"se")).expect("space");
    let shown = project.creel(&["show", "s"]);
    assert!(
        shown.code == 0 && !shown.err.contains("warning"),
        "{}",
        shown.err
    );
}
