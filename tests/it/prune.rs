//! `creel prune`: which sessions it deletes, and which it keeps.

use serde_json::Value;

use crate::support::{
    git_project::{git, repository},
    project::Project,
};

const CONFIG: &str =
    "prompt: GOAL\ninstructions: none\nagents: { demo: { script: scenario.yaml } }\n";

fn project(scenario: &str) -> Project {
    Project::with(CONFIG).file("scenario.yaml", scenario)
}

fn sessions(project: &Project, names: &[&str]) {
    for name in names {
        let ran = project.creel(&["run", "--headless", "--trust", "-s", name]);
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    }
}

fn left(project: &Project) -> Vec<String> {
    let listed = project.creel(&["sessions", "--json"]);
    let listed: Value = serde_json::from_str(&listed.out).expect("JSON");
    let rows = listed.as_array().expect("a list");
    let mut names: Vec<String> = rows
        .iter()
        .map(|row| {
            row["session"]
                .as_str()
                .or(row["name"].as_str())
                .expect("a name")
                .to_owned()
        })
        .collect();
    names.sort();
    names
}

#[test]
fn old_sessions_are_listed_without_a_terminal_and_deleted_with_yes() {
    let project = project("otherwise: { say: <promise>COMPLETE</promise> }");
    sessions(&project, &["one", "two", "three"]);
    let listed = project.creel(&["prune", "--keep", "1"]);
    assert_eq!(listed.code, 0, "{}", listed.err);
    assert!(
        listed
            .err
            .contains("deleted nothing: this only lists 2 sessions, "),
        "{}",
        listed.err
    );
    assert!(
        listed.out.contains("one") && listed.out.contains("two"),
        "{}",
        listed.out
    );
    assert!(!listed.out.contains("three"), "{}", listed.out);
    assert_eq!(left(&project), ["one", "three", "two"]);
    let young = project.creel(&["prune", "--older-than", "1h", "--yes"]);
    assert_eq!(
        (young.code, young.err.as_str()),
        (0, "creel: nothing to delete\n")
    );
    let both = project.creel(&[
        "prune",
        "--older-than",
        "0",
        "--keep",
        "1",
        "--yes",
        "--json",
    ]);
    let rows: Value = serde_json::from_str(&both.out).expect("JSON");
    let rows = rows.as_array().expect("a list");
    assert_eq!(rows.len(), 2, "{}", both.out);
    assert!(
        rows.iter()
            .all(|row| row["deleted"] == true && row["bytes"].as_u64() > Some(0))
    );
    assert_eq!(left(&project), ["three"]);
}

#[test]
fn without_an_age_and_a_number_nothing_is_old() {
    let refused = project("").creel(&["prune", "--yes"]);
    assert_eq!(refused.code, 2, "{}", refused.err);
}

#[test]
fn a_session_that_runs_or_waits_for_a_person_stays() {
    let project = project(
        "turns:\n  - say: '<promise>ESCALATE</promise> Which one?'\notherwise: { say: x, hang: true }",
    );
    let asked = project.creel(&["run", "--headless", "--trust", "-s", "asked"]);
    assert_eq!(asked.code, 4, "{}{}", asked.out, asked.err);
    project.write("scenario.yaml", "turns: [{ say: x, hang: true }]");
    let mut running = project.start();
    running.wait_for("prompt_sent");
    let pruned = project.creel(&["prune", "--keep", "0", "--yes"]);
    assert_eq!(pruned.code, 0, "{}", pruned.err);
    assert!(
        pruned.out.contains("stays: it waits for your decision"),
        "{}",
        pruned.out
    );
    assert_eq!(left(&project), ["asked", "s"]);
    running.kill();
    project.creel(&["prune", "--keep", "0", "--yes"]);
    assert_eq!(left(&project), ["asked", "s"], "it can be resumed");
}

#[test]
fn a_session_stays_while_its_worktree_has_work() {
    let project = project(
        "turns: [{ run: 'echo x > new.txt' }]\notherwise: { say: <promise>COMPLETE</promise> }",
    );
    let git = "git init -q -b main . && git -c user.name=a -c user.email=a@b.c commit -q --allow-empty -m first \
               && git add creel.yaml scenario.yaml && git -c user.name=a -c user.email=a@b.c commit -q -m files";
    let made = std::process::Command::new("sh")
        .args(["-c", git])
        .current_dir(project.root())
        .status();
    assert!(made.expect("git").success());
    let ran = project.creel(&["run", "--headless", "--trust", "--worktree", "-s", "w"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let pruned = project.creel(&["prune", "--keep", "0", "--yes"]);
    assert!(
        pruned.out.contains("stays: its worktree has "),
        "{}{}",
        pruned.out,
        pruned.err
    );
    assert_eq!(left(&project), ["w"]);
    // What cannot be found out is no reason to delete.
    let git = project.root().join(".git");
    std::fs::rename(&git, project.root().join("away")).expect("it is there");
    let refused = project.creel(&["prune", "--keep", "0", "--yes"]);
    assert_ne!(refused.code, 0, "{}", refused.out);
    assert_eq!(left(&project), ["w"]);
}

#[test]
fn a_session_stays_while_its_task_of_the_queue_is_open() {
    let project = project("otherwise: { say: Working. }");
    project.write("creel.yaml", &format!("{CONFIG}max_iterations: 1\n"));
    project.creel(&["task", "add", "--queue", "--id", "q", "Queued"]);
    project.creel(&["worker", "--drain", "--trust"]);
    let names = left(&project);
    assert_eq!(names.len(), 1, "{names:?}");
    let pruned = project.creel(&["prune", "--keep", "0", "--yes"]);
    let why = "stays: its task `q` of the queue is open";
    assert!(pruned.out.contains(why), "{}{}", pruned.out, pruned.err);
    assert_eq!(left(&project), names);
    project.creel(&["task", "remove", "--queue", "q"]);
    project.creel(&["prune", "--keep", "0", "--yes"]);
    assert_eq!(left(&project), [""; 0]);
}

#[test]
fn without_a_choice_prune_names_both_options() {
    let ran = project("otherwise: { say: Hi }").creel(&["prune"]);
    assert_eq!(ran.code, 2, "{}", ran.out);
    assert!(
        ran.err.contains("--older-than 30d") && ran.err.contains("--keep 20"),
        "{}",
        ran.err
    );
}

#[test]
fn two_sessions_in_one_worktree_both_stay_while_it_has_work() {
    let project = repository(CONFIG);
    project.write(
        "scenario.yaml",
        "turns: [{ run: 'echo work > new.txt' }]\notherwise: { say: <promise>COMPLETE</promise> }",
    );
    git(&project, &["add", "--all"]);
    git(&project, &["commit", "--quiet", "-m", "files"]);
    for name in ["one", "two"] {
        let args = [
            "run",
            "--headless",
            "--trust",
            "-s",
            name,
            "--worktree",
            "shared",
        ];
        let ran = project.creel(&args);
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    }
    let pruned = project.creel(&["prune", "--keep", "0", "--yes"]);
    assert_eq!(
        left(&project),
        ["one", "two"],
        "{}{}",
        pruned.out,
        pruned.err
    );
}
