//! Searching all sessions of a project, and of all projects.

use serde_json::Value;

use crate::support::project::Project;

const CONFIG: &str = "prompt: \"Find the \\\"needle\\\" in the hay\"\nagents: { demo: { script: play.yaml } }\n\
    checks: [{ name: tests, command: 'test -s done || { echo \"E0042: no space left\"; exit 1; }' }]\n";
const PLAY: &str = "turns:\n  - say: Looking in the Haystack. <promise>COMPLETE</promise>\n\
    \x20 - say: Done. <promise>COMPLETE</promise>\n    run: echo > done; echo x >> done\n";

fn searched() -> Project {
    let project = Project::with(CONFIG).file("play.yaml", PLAY);
    for name in ["old", "new"] {
        let ran = project.creel(&["run", "--headless", "--trust", "-s", name]);
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
        std::fs::remove_file(project.root().join("done")).expect("it is there");
    }
    project
}

#[test]
fn matches_name_the_session_the_iteration_and_the_record_newest_session_first() {
    let project = searched();
    let found = project.creel(&["search", "no space left"]);
    assert_eq!((found.code, found.err.as_str()), (0, ""), "{}", found.out);
    let first = found.out.lines().next().expect("a match");
    assert!(first.starts_with("new  1  "), "{}", found.out);
    let order: Vec<&str> = found.out.lines().map(|line| &line[..3]).collect();
    assert!(
        order.is_sorted() && order.last() == Some(&"old"),
        "{}",
        found.out
    );
    for kind in ["hook_finished", "prompt_sent"] {
        assert!(
            found.out.contains(&format!("new  1  {kind}  ")),
            "{}",
            found.out
        );
    }
    // Quotation marks are written differently in the journal.
    let quoted = project.creel(&["search", "the \"needle\" in"]);
    assert!(
        quoted
            .out
            .contains("new  1  prompt_sent  Find the \"needle\" in the hay"),
        "{}",
        quoted.out
    );
}

#[test]
fn case_patterns_and_nothing_found() {
    let project = searched();
    let code = |args: &[&str]| project.creel(&[&["search"], args].concat()).code;
    assert_eq!((code(&["haystack"]), code(&["-i", "haystack"])), (1, 0));
    assert_eq!(
        (code(&["-S", "haystack"]), code(&["-S", "HayStack"])),
        (0, 1)
    );
    assert_eq!(code(&["--regex", r"^E\d{4}: no .* left$"]), 0);
    assert_eq!(
        (code(&["--regex", "^space"]), code(&["--regex", "("])),
        (1, 2)
    );
    assert_eq!((code(&[""]), code(&["hook_finished"])), (2, 1));
    let none = project.creel(&["search", "nowhere", "--json"]);
    assert_eq!((none.code, none.out.as_str()), (1, "[]\n"));
}

#[test]
fn all_projects_are_searched_and_json_names_them() {
    let project = searched();
    let elsewhere = project.root().with_file_name("elsewhere");
    std::fs::create_dir(&elsewhere).expect("a folder");
    let search = |args: &[&str]| {
        let mut command = project.command(&[&["search", "--json", "Haystack"], args].concat());
        let output = command
            .current_dir(&elsewhere)
            .output()
            .expect("creel starts");
        let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        (output.status.code(), found)
    };
    assert_eq!(search(&[]), (Some(1), Value::Array(Vec::new())));
    let (code, found) = search(&["--all"]);
    assert_eq!(code, Some(0));
    let root = project.root().display().to_string();
    let first = &found[0];
    assert_eq!(
        [
            &first["project"],
            &first["session"],
            &first["kind"],
            &first["field"]
        ],
        [
            &root.into(),
            &Value::from("new"),
            &"agent_said".into(),
            &"text".into()
        ]
    );
    assert_eq!(
        (first["iteration"].as_u64(), first["line"].as_str()),
        (
            Some(1),
            Some("Looking in the Haystack. <promise>COMPLETE</promise>")
        )
    );
}
