//! Projects with many sessions: creel finds the running, the killed and the unfinished ones without
//! looking at the others.

use std::{
    fs,
    process::{Child, Stdio},
};

use crate::support::{
    project::{Project, until},
    terminal::Terminal,
};

/// The agent works until it is killed, unless the file `quick` exists.
const CONFIG: &str = r#"
prompt: GOAL
agent: sh
agents:
  sh:
    command: |
      cat > /dev/null; [ -e quick ] || { touch works; sleep 1000; }; echo "<promise>COMPLETE</promise>"
"#;

fn entries(project: &Project, index: &str) -> Vec<String> {
    let folder = project.root().join(".creel/sessions").join(index);
    let found = fs::read_dir(folder).into_iter().flatten();
    let mut names: Vec<String> = found
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    names
}

fn works(project: &Project) -> Child {
    let mut command = project.command(&["run", "--headless", "--trust", "-s", "s"]);
    let session = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("creel starts");
    until("the agent works", || project.root().join("works").exists());
    session
}

fn quick(project: &Project, name: &str) -> String {
    project.write("quick", "");
    let ran = project.creel(&["run", "--headless", "--trust", "-s", name]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    ran.out
}

#[test]
fn a_session_has_entries_until_it_stops_and_until_it_has_ended() {
    let project = Project::with(CONFIG);
    quick(&project, "ended");
    assert!(entries(&project, ".live").is_empty() && entries(&project, ".unfinished").is_empty());
    fs::remove_file(project.root().join("quick")).expect("a file");
    let mut session = works(&project);
    assert_eq!(
        (entries(&project, ".live"), entries(&project, ".unfinished")),
        (vec!["s".into()], vec!["s".into()])
    );
    let status = project.creel(&["status"]);
    assert!(
        status.out.contains("session    s"),
        "{}{}",
        status.out,
        status.err
    );
    assert_eq!(project.creel(&["stop", "--now"]).code, 0);
    session.wait().expect("it was running");
    assert_eq!(
        (entries(&project, ".live"), entries(&project, ".unfinished")),
        (vec![], vec!["s".into()])
    );
    project.write("quick", "");
    let resumed = project.creel(&["resume", "--headless"]);
    assert_eq!(resumed.code, 0, "{}", resumed.err);
    assert_eq!(project.outcome().as_deref(), Some("complete"));
    assert!(entries(&project, ".live").is_empty() && entries(&project, ".unfinished").is_empty());
    let none = project.creel(&["resume", "--headless"]);
    assert!(none.err.contains("no session to resume"), "{}", none.err);
}

#[test]
fn a_killed_session_of_an_earlier_creel_is_found_too() {
    for has_index in [true, false] {
        let project = Project::with(CONFIG);
        let mut session = works(&project);
        session
            .kill()
            .and_then(|()| session.wait())
            .expect("it was running");
        assert_eq!(entries(&project, ".live"), ["s"]);
        for index in [".live", ".unfinished"].into_iter().filter(|_| !has_index) {
            fs::remove_dir_all(project.root().join(".creel/sessions").join(index))
                .expect("an index");
        }
        let said = quick(&project, "next");
        assert!(said.contains("that session `s` left running"), "{said}");
        assert_eq!(
            (entries(&project, ".live"), entries(&project, ".unfinished")),
            (vec![], vec!["s".into()])
        );
        assert!(!quick(&project, "another").contains("left running"));
    }
}

#[test]
fn no_other_session_is_looked_at() {
    let project = Project::with(CONFIG);
    quick(&project, "first");
    // A session without an entry has shut down cleanly. Its pid file would say otherwise to a creel
    // that looked.
    let sessions = project.root().join(".creel/sessions");
    fs::create_dir(sessions.join("other")).expect("a folder");
    fs::copy(
        sessions.join("first/journal.jsonl"),
        sessions.join("other/journal.jsonl"),
    )
    .expect("a copy");
    fs::write(sessions.join("other/pid"), "1\n").expect("a pid");
    quick(&project, "second");
    assert!(
        sessions.join("other/pid").exists(),
        "creel looked at the other session"
    );
    assert!(project.creel(&["sessions"]).out.contains("other"));
}

#[test]
fn show_and_replay_use_the_latest_session_without_a_name() {
    let project = Project::with(CONFIG).file("quick", "");
    // Neither the first nor the last by name, so that only the time can decide.
    for (name, goal) in [
        ("m", "The first goal."),
        ("z", "The second goal."),
        ("a", "The third goal."),
        ("k", "The last goal."),
    ] {
        let ran = project.creel(&["run", "--headless", "--trust", "-s", name, goal]);
        assert_eq!(ran.code, 0, "{}", ran.err);
    }
    let shown = project.creel(&["show"]);
    assert_eq!(shown.code, 0, "{}", shown.err);
    assert_eq!(shown.out, project.creel(&["show", "k"]).out);
    assert!(
        shown.out.contains("The last goal.") && !shown.out.contains("The third goal."),
        "{}",
        shown.out
    );
    let mut terminal = Terminal::open(&project, &["replay"], (120, 40));
    terminal.wait_for("the latest session", |shown| {
        shown.status().contains("replay ") && shown.has("The last goal.")
    });
    terminal.press("q");
    assert_eq!(terminal.end(), 0);
    terminal.is_as_it_was();
}
