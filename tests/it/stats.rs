//! Sums over real sessions.

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
