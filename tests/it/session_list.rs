//! `creel sessions`: the order, the words and the filters of the list, and the list that follows
//! changes.

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

use rustix::process::Signal;

use crate::support::project::{Project, Ran, Started, until};

/// The session `works` works until the file `go` exists, and `asks` waits at a gate.
pub(crate) const CONFIG: &str = r#"
prompt: GOAL
agent: sh
max_iterations: 5
agents:
  sh:
    command: |
      cat > /dev/null
      case "$CREEL_SESSION" in
        works*) until [ -e go ] || [ -e "go-$CREEL_SESSION" ] || [ ! -e creel.yaml ]; do sleep 0.02; done;;
      esac
      echo "<promise>COMPLETE</promise>"
hooks:
  stop: [{ name: tests, command: 'case "$CREEL_SESSION" in asks*) echo "case_4 FAILED"; exit 2;; esac', retries: 0 }]
"#;

/// Runs a session in the background until it works, waits or has ended.
#[track_caller]
pub(crate) fn detached(project: &Project, folder: &str, name: &str) {
    let mut command = project.command(&["run", "--detach", "--trust", "--force", "-s", name]);
    let ran = Ran::of(
        &command
            .current_dir(project.root().join(folder))
            .output()
            .expect("creel starts"),
    );
    assert_eq!(ran.code, 0, "{}", ran.err);
    let wanted = match name.split('-').next() {
        Some("works") => "prompt_sent",
        Some("asks") => "gate_opened",
        Some(_) | None => "session_ended",
    };
    let journal = project
        .root()
        .join(folder)
        .join(format!(".creel/sessions/{name}/journal.jsonl"));
    let has = |kind: &str| std::fs::read_to_string(&journal).is_ok_and(|text| text.contains(kind));
    until("it is where it should be", || {
        has(&format!("\"kind\":\"{wanted}\""))
    });
}

/// Ends the sessions that wait.
pub(crate) fn finish(project: &Project, names: &[&str]) {
    for name in names {
        let stopped = project.creel(&["stop", "--now", "-s", name]);
        assert_eq!(stopped.code, 0, "{}", stopped.err);
    }
    until("no session runs", || {
        project
            .creel(&["sessions", "--state", "running"])
            .out
            .is_empty()
    });
}

fn names(project: &Project, args: &[&str]) -> Vec<String> {
    let list = project.creel(&[&["sessions", "--json"], args].concat());
    let list: serde_json::Value = serde_json::from_str(&list.out).expect("JSON");
    let names = list.as_array().into_iter().flatten();
    names
        .map(|one| one["name"].as_str().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn sessions_that_need_the_user_come_first_then_running_ones_then_the_others() {
    let project = Project::with(CONFIG);
    detached(&project, "", "asks");
    detached(&project, "", "works");
    detached(&project, "", "done");
    assert_eq!(names(&project, &[]), ["asks", "works", "done"]);
    let listed = project.creel(&["sessions"]).out;
    let lines: Vec<&str> = listed.lines().collect();
    assert!(
        lines[0].starts_with("NAME   AGE        ITERATION  WHAT"),
        "{listed}"
    );
    assert!(
        lines[1].starts_with("asks ")
            && lines[1].contains("1/5  ◆ Needs you: Retry limit: case_4 FAILED"),
        "{listed}"
    );
    assert!(
        lines[2].starts_with("works ") && lines[2].contains("1/5  ⠹ Working 0:"),
        "{listed}"
    );
    assert!(
        lines[3].starts_with("done ") && lines[3].contains("1/5  ✓ Complete: "),
        "{listed}"
    );
    for (state, found) in [
        ("needs-you", "asks"),
        ("running", "works"),
        ("ended", "done"),
        ("complete", "done"),
    ] {
        assert_eq!(names(&project, &["--state", state]), [found], "{state}");
    }
    finish(&project, &["asks", "works"]);
}

#[test]
fn a_session_whose_creel_was_killed_does_not_seem_to_work() {
    let project = Project::with(CONFIG);
    let mut session = Started::of(project.command(&["run", "--json", "--trust", "-s", "works"]));
    session.wait_for("prompt_sent");
    session.kill();
    let listed = project.creel(&["sessions"]).out;
    assert!(
        listed.contains("■ Stopped in iteration 1") && !listed.contains("work "),
        "{listed}"
    );
    assert_eq!(names(&project, &["--state", "stopped"]), ["works"]);
    project.write("go", "");
    assert_eq!(project.creel(&["resume", "--headless"]).code, 0);
}

#[test]
fn the_sessions_of_all_projects_are_listed_together() {
    let project = Project::with(CONFIG).file("other/creel.yaml", CONFIG);
    detached(&project, "", "done");
    detached(&project, "other", "asks");
    assert_eq!(names(&project, &[]), ["done"]);
    assert_eq!(names(&project, &["--all"]), ["asks", "done"]);
    assert_eq!(names(&project, &["--all", "--project", "other"]), ["asks"]);
    let listed = project.creel(&["sessions", "--all"]).out;
    assert!(
        listed.contains("asks  ~/p/other  ") && listed.contains("done  ~/p        "),
        "{listed}"
    );
    let other = project.root().join("other");
    let ran = Ran::of(
        &project
            .command(&["stop", "--now"])
            .current_dir(&other)
            .output()
            .expect("creel starts"),
    );
    assert_eq!(ran.code, 0, "{}", ran.err);
    until("it has ended", || {
        names(&project, &["--all", "--state", "needs-you"]).is_empty()
    });
    std::fs::remove_dir_all(other).expect("a folder");
    assert_eq!(
        names(&project, &["--all"]),
        ["done"],
        "a project that is gone does no harm"
    );
}

#[test]
fn a_watched_list_has_a_line_for_each_change() {
    let project = Project::with(CONFIG);
    detached(&project, "", "works");
    let mut command: Command = project.command(&["sessions", "--watch"]);
    let mut watch = command
        .stdout(Stdio::piped())
        .spawn()
        .expect("creel starts");
    let mut lines = BufReader::new(watch.stdout.take().expect("a pipe")).lines();
    let mut wait_for = |text: &str| {
        let found = lines
            .by_ref()
            .map_while(Result::ok)
            .find(|line| line.contains(text));
        assert!(found.is_some(), "no line with `{text}`");
    };
    wait_for("works  1/5  ⠹ Working");
    detached(&project, "", "asks");
    wait_for("asks  1/5  ◆ Needs you: Retry limit");
    project.write("go", "");
    wait_for("works  1/5  ✓ Complete: ");
    finish(&project, &["asks"]);
    wait_for("asks  1/5  ■ Stopped");
    let pid = rustix::process::Pid::from_child(&watch);
    rustix::process::kill_process(pid, Signal::INT).expect("it runs");
    watch.wait().expect("it ends");
}
