//! Sums over real sessions.

use std::fs;

use serde_json::{Value, json};

use crate::support::project::Project;

const CONFIG: &str = "prompt: Write the greeting\nagents: { demo: { script: play.yaml } }\n\
    checks: [{ name: tests, command: 'test -s greeting.txt' }]\ntask_types: { docs: { max_iterations: 3 } }\n";
const PLAY: &str = "turns:\n  - say: I look around. <promise>COMPLETE</promise>\n\
    \x20 - say: Done. <promise>COMPLETE</promise>\n    run: 'echo hello > greeting.txt'\n";

fn sums(project: &Project, args: &[&str]) -> Value {
    let ran = project.creel(&[&["stats", "--json"], args].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    serde_json::from_str(&ran.out).expect("JSON")
}

const TOKENS_ONLY: &str = "turns:\n  - { say: I look around., model: gpt-5.5, token_kinds: { input: 1000, output: 200, cache_read: 9000 } }\n\
    \x20 - { say: '<promise>COMPLETE</promise>', cost: 0.5 }\n";

#[test]
fn what_an_agent_with_tokens_only_cost_is_estimated_once_and_shown_as_an_estimate() {
    let project =
        Project::with("prompt: Look\nmax_iterations: 3\nagents: { demo: { script: play.yaml } }\n")
            .file("play.yaml", TOKENS_ONLY);
    assert_eq!(project.run().code, 0);
    let prices = |text: &str| {
        let folder = project.config_dir().join("creel");
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("prices.yaml"), text).expect("a file");
    };
    let run = |name: &str| project.creel(&["run", "--headless", "--trust", "-s", name]);
    // 1,000 · $5 + 200 · $30 + 9,000 · $0.50, per million.
    let estimate = 0.0155;
    let is = |value: &Value, amount: f64| {
        let value = value.as_f64().unwrap_or(-1.0);
        assert!((value - amount).abs() < 1e-9, "{value} is not {amount}");
    };
    let check = |sums: &Value| {
        let total = &sums["total"];
        is(&total["cost"], 0.5 + estimate);
        is(&total["cost_estimated"], estimate);
        assert_eq!(total["cost_unknown"], 0, "{sums:#}");
    };
    check(&sums(&project, &[]));
    let text = project.creel(&["stats"]).out;
    assert!(
        text.contains("≈ $0.52") && text.contains("creel estimated a part"),
        "{text}"
    );
    let shown = project.creel(&["show"]).out;
    assert!(
        shown.contains("≈ $0.02") && shown.contains("≈ $0.52"),
        "{shown}"
    );
    let report = project.creel(&["report", "--format", "json"]).out;
    let report: Value = serde_json::from_str(&report).expect("JSON");
    is(&report["usage"]["cost"], 0.5 + estimate);
    is(&report["usage"]["cost_estimated"], estimate);

    // Other prices change no journal. A table that creel cannot read leaves the cost unknown.
    prices("models: { gpt-5.5: { input: 100, output: 100, cache_read: 100 } }\n");
    check(&sums(&project, &[]));
    assert_eq!(run("t").code, 0);
    is(
        &sums(&project, &[])["total"]["cost_estimated"],
        estimate + 1.02,
    );
    prices("models: [1]\n");
    let ran = run("u");
    assert!(
        ran.code == 0 && (ran.out.clone() + &ran.err).contains("prices.yaml"),
        "{}{}",
        ran.out,
        ran.err
    );
    let all = sums(&project, &[]);
    is(&all["total"]["cost_estimated"], estimate + 1.02);
    assert_eq!(all["total"]["cost_unknown"], 1, "{all:#}");
}

#[test]
fn sums_have_outcomes_retries_and_failing_checks_and_unknown_cost_is_not_zero() {
    let project = Project::with(CONFIG).file("play.yaml", PLAY);
    let none = project.creel(&["stats"]);
    assert_eq!((none.code, none.out.as_str()), (0, ""), "{}", none.err);
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let typed = ["run", "--headless", "--trust", "-s", "t", "-t", "docs"];
    assert_eq!(project.creel(&typed).code, 0);

    let all = sums(&project, &[]);
    let total = &all["total"];
    assert_eq!(
        [
            &total["sessions"],
            &total["verified"],
            &total["retries"],
            &total["cost"],
            &total["cost_unknown"]
        ],
        [&json!(2), &json!(2), &json!(1), &Value::Null, &json!(2)],
        "{all:#}"
    );
    assert_eq!(all["groups"][0]["name"], "demo");
    assert_eq!(total["outcomes"], json!({ "complete": 2 }));
    assert_eq!(total["retries_per_completion"], 0.5);
    let check = &all["checks"][0];
    assert_eq!(
        (&check["name"], &check["failed"]),
        (&json!("tests"), &json!(1))
    );

    let names = |by: &str| -> Vec<Value> {
        let all = sums(&project, &["--by", by]);
        let groups = all["groups"].as_array().expect("groups");
        groups.iter().map(|group| group["name"].clone()).collect()
    };
    assert_eq!(names("type"), [Value::Null, json!("docs")]);
    assert_eq!(names("project"), [json!(project.root())]);
    assert_eq!(names("week").len(), 1);
    assert!(names("user")[0].is_string(), "{:?}", names("user"));
    assert_eq!(sums(&project, &["--since", "30d"])["total"]["sessions"], 2);
    assert_eq!(sums(&project, &["--all"])["total"]["sessions"], 2);

    let text = project.creel(&["stats"]);
    assert!(
        text.out.starts_with("AGENT  SESSIONS  VERIFIED"),
        "{}",
        text.out
    );
    assert!(
        text.out.contains("2 complete") && text.out.contains("  ?  "),
        "{}",
        text.out
    );
    assert!(!text.out.contains("$0"), "{}", text.out);
}
