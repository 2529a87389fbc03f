//! The home screen in a terminal.

use std::{fs, os::unix::fs::PermissionsExt as _};

use crate::{
    session_list::{CONFIG, detached, finish},
    support::{
        project::{Project, until},
        terminal::{Terminal, at_home},
    },
    terminal::click_on,
};

// In a terminal

#[test]
fn home_follows_five_sessions_and_opens_stops_and_removes_them() {
    let project = Project::with(CONFIG);
    for name in ["done-1", "done-2", "works-1", "works-2", "asks"] {
        detached(&project, "", name);
    }
    let browser = project.root().join("browser");
    fs::write(&browser, "#!/bin/sh\necho \"$1\" > opened\n").expect("space");
    fs::set_permissions(&browser, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let mut home = at_home(&project, &[]);
    home.env("BROWSER", &browser);
    let mut terminal = Terminal::start(home, (120, 40));
    terminal.wait_for("five sessions", |shown| {
        [
            "NEEDS YOU  1",
            "RUNNING  2",
            "ENDED  2",
            "◆ asks",
            "Retry limit: case_4 FAILED",
            "Complete: ",
        ]
        .iter()
        .all(|text| shown.has(text))
    });
    // Two of them change.
    project.write("go-works-1", "");
    terminal.wait_for("one has ended", |shown| {
        shown.has("RUNNING  1") && shown.has("ENDED  3")
    });
    let answered = project.creel(&["gate", "answer", "1", "ignore", "-s", "asks"]);
    assert_eq!(answered.code, 0, "{}", answered.err);
    terminal.wait_for("no session needs the user", |shown| {
        !shown.has("NEEDS YOU") && shown.has("⚠ asks")
    });
    // Open one, and return.
    terminal.press("home");
    terminal.wait_for("the cursor", |shown| {
        shown
            .text()
            .lines()
            .any(|line| line.starts_with('▌') && line.contains("works-2"))
    });
    terminal.press("enter");
    terminal.wait_for_status("WORKING");
    terminal.press("q");
    terminal.wait_for_text("RUNNING  1");
    // Stop it.
    terminal.press("s");
    terminal.wait_for_text("Stop works-2?");
    terminal.press("2");
    terminal.wait_for("it has stopped", |shown| {
        shown.has("ENDED  5") && shown.has("■ works-2")
    });
    // Its report, in a browser.
    terminal.press("o");
    let page = project.root().join(".creel/sessions/works-2/report.html");
    let opened = project.root().join("opened");
    terminal.wait_for_text("The report is open in your browser");
    until("it is open", || {
        fs::read_to_string(&opened).is_ok_and(|file| file.trim() == page.display().to_string())
    });
    assert!(fs::read_to_string(&page).is_ok_and(|page| page.contains("works-2")));
    // Remove it.
    terminal.press("x");
    let folder = project.root().join(".creel/sessions/works-2");
    terminal.wait_for("what it deletes", |shown| {
        shown.has("Remove works-2?") && shown.has("/.creel/sessions/works-2")
    });
    assert!(folder.exists());
    terminal.press("2");
    terminal.wait_for("it is gone", |shown| {
        shown.has("works-2 is removed") && shown.has("ENDED  4")
    });
    assert!(
        !folder.exists()
            && !project
                .root()
                .join(".creel/sessions/.unfinished/works-2")
                .exists()
    );
    // Replay one, and return.
    terminal.press("enter");
    terminal.wait_for_text("Stream");
    terminal.press("q");
    terminal.wait_for_text("ENDED  4");
    terminal.press("q");
    assert_eq!(terminal.end(), 0);
    terminal.is_as_it_was();
}

#[test]
fn a_session_that_starts_elsewhere_appears_and_one_that_is_killed_stops() {
    let project = Project::with(CONFIG).file("other/creel.yaml", CONFIG);
    detached(&project, "", "done");
    let mut terminal = Terminal::open(&project, &[], (80, 24));
    terminal.wait_for_text("✓ done");
    detached(&project, "other", "works");
    terminal.wait_for("the other project", |shown| {
        shown.has("RUNNING  1") && shown.has("works")
    });
    let pid = fs::read_to_string(project.root().join("other/.creel/sessions/works/pid"))
        .expect("it runs");
    let pid =
        rustix::process::Pid::from_raw(pid.trim().parse().expect("a number")).expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it runs");
    terminal.wait_for_text("Stopped in iteration 1");
    project.write("other/go", "");
    terminal.press("q");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn a_session_can_be_started_from_home_and_home_shows_again_when_it_is_left() {
    let project = Project::with(CONFIG);
    detached(&project, "", "done");
    let mut terminal = Terminal::open(&project, &[], (80, 24));
    terminal.wait_for_text("✓ done");
    terminal.press("n");
    terminal.wait_for_text("New session");
    terminal.type_text("Write the parser.");
    terminal.wait_for_text("Write the parser.");
    terminal.press("ctrl-s");
    terminal.wait_for_status("COMPLETE");
    terminal.press("q");
    terminal.wait_for("both", |shown| shown.has("ENDED  2") && shown.has("✓ done"));
    let sessions = fs::read_dir(project.root().join(".creel/sessions"))
        .expect("sessions")
        .filter_map(Result::ok);
    let journals =
        sessions.filter_map(|entry| fs::read_to_string(entry.path().join("journal.jsonl")).ok());
    assert!(
        journals
            .into_iter()
            .any(|text| text.contains("Write the parser.")),
        "the prompt was sent"
    );
    terminal.press("q");
    assert_eq!(terminal.end(), 0);
    terminal.is_as_it_was();
}

#[test]
fn an_empty_home_writes_a_config_and_shows_the_demo() {
    let project = Project::new();
    let mut terminal = Terminal::open(&project, &[], (100, 30));
    // By key, and by a click on the line that offers it.
    click_on(&terminal, "watch the demo");
    terminal.wait_for("the demo", |shown| {
        shown.has("any key skip ahead") && shown.status().contains("demo")
    });
    terminal.press("ctrl-c ctrl-c");
    terminal.wait_for_text("write a creel.yaml");
    terminal.press("d");
    terminal.wait_for_text("any key skip ahead");
    terminal.press("ctrl-c ctrl-c");
    terminal.wait_for_text("write a creel.yaml");
    terminal.press("i");
    terminal.wait_for_text("Which agent should do the work?");
    // The defaults answer all questions; the last key returns to the home screen.
    terminal.press("enter enter enter enter");
    until("creel init has run", || {
        project.root().join("creel.yaml").exists()
    });
    terminal.wait_for("home", |shown| {
        shown.screen().alternate_screen() && shown.has("q quit")
    });
    terminal.press("i");
    terminal.wait_for_text("This folder already has a config");
    terminal.press("q");
    assert_eq!(terminal.end(), 0);
    terminal.is_as_it_was();
}

#[test]
fn a_stopped_session_is_resumed_from_home() {
    let project = Project::with(CONFIG);
    detached(&project, "", "asks");
    finish(&project, &["asks"]);
    let mut terminal = Terminal::open(&project, &[], (100, 30));
    terminal.wait_for("it has ended", |shown| {
        shown.has("ENDED  1") && shown.has("r resume")
    });
    click_on(&terminal, "r resume");
    terminal.wait_for("its screen", |shown| {
        shown.status().contains("asks") && shown.has("1 Stream")
    });
    terminal.press("ctrl-c");
    terminal.wait_for_text("Leave?");
    click_on(&terminal, "Stop now");
    terminal.wait_for_text("ENDED  1");
    click_on(&terminal, "q quit");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn an_empty_home_explains_itself_at_any_size() {
    let project = Project::new();
    let mut terminal = Terminal::open(&project, &[], (80, 24));
    terminal.wait_for("what creel is", |shown| {
        [
            "creel runs a coding agent",
            "watch the demo",
            "write a creel.yaml",
            "d demo",
        ]
        .iter()
        .all(|text| shown.has(text))
    });
    terminal.resize((40, 10));
    terminal.wait_for("less", |shown| {
        shown.has("creel runs a coding agent") && shown.has("q quit")
    });
    terminal.resize((20, 5));
    terminal.wait_for_text("Terminal too small");
    terminal.resize((80, 24));
    terminal.wait_for_text("watch the demo");
    terminal.press("ctrl-c");
    assert_eq!(terminal.end(), 0);
    terminal.is_as_it_was();
}

#[test]
fn without_a_terminal_creel_prints_its_help() {
    let project = Project::with(CONFIG);
    let ran = project.creel(&[]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.out.contains("Usage:") && ran.out.contains("sessions"),
        "{}",
        ran.out
    );
    assert!(!project.root().join(".creel").exists(), "nothing has run");
    detached(&project, "", "asks");
    finish(&project, &["asks"]);
    until("it has ended", || {
        project
            .creel(&["sessions", "--state", "needs-you"])
            .out
            .is_empty()
    });
}

#[test]
fn a_blocked_task_needs_you_on_the_home_screen_and_starts_again_with_a_hint() {
    let project =
        Project::with("agent: demo\nmax_iterations: 1\nagents: { demo: { script: s.yaml } }\n")
            .file(
                "s.yaml",
                "turns: []\notherwise: { say: 'I cannot. <promise>BLOCKED</promise>' }\n",
            );
    project.queue(&["add", "Upgrade to 3.0"]);
    project.queue(&["add", "Celebrate", "--depends-on", "1"]);
    assert_eq!(project.drain(&[]).code, 4);
    let listed = project.creel(&["sessions"]);
    assert!(
        listed.err.contains("the queue: 1 waiting · 1 blocked"),
        "{}",
        listed.err
    );
    let mut terminal = Terminal::start(project.command(&[]), (80, 24));
    terminal.wait_for("the task needs you", |shown| {
        shown.has("QUEUE  1 waiting · 1 blocked") && shown.has("◆ task 1")
    });
    // A task that is added elsewhere shows up.
    project.queue(&["add", "Look around"]);
    terminal.wait_for_text("1 ready");
    terminal.press("a");
    terminal.wait_for_text("Task 1 is blocked");
    terminal.press("2");
    terminal.wait_for_text("hint:");
    for key in ["u", "s", "e"] {
        terminal.press(key);
    }
    terminal.press("enter");
    terminal.wait_for_text("Task 1 is in the queue again");
    let task = project.queued("1");
    assert_eq!(
        (&task["state"], &task["context"]),
        (&"ready".into(), &"use".into())
    );
    terminal.wait_for("nothing is blocked", |shown| {
        shown.has("2 ready") && !shown.has("blocked")
    });
    terminal.press("q");
    assert_eq!(terminal.end(), 0);
}
