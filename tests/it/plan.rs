//! From a goal to tasks in the queue.

use std::fs;

use serde_json::Value;

use crate::{
    book::blocks,
    support::{
        git_project::config,
        project::{Project, until},
        terminal::Terminal,
    },
    terminal::{await_gate, click_on},
};

const VALID: &str = r#"{"tasks": [
    {"id": "test", "goal": "Test both.", "depends_on": ["parser", "printer"], "type": "qa"},
    {"id": "parser", "goal": "Write the parser."},
    {"id": "printer", "goal": "Write the printer.", "priority": 0}]}"#;

/// A project whose agent prints the next of these answers in each turn, and the last one for ever.
fn answering(answers: &[&str], more: &str) -> Project {
    let agent = "cat > ../prompt; n=$(cat ../turn 2>/dev/null || echo 0); echo $((n + 1)) > ../turn; \
                 [ -e ../answer-$n ] || n=last; cat ../answer-$n";
    let project = Project::with(&config(agent, more));
    for (turn, answer) in answers.iter().enumerate() {
        fs::write(
            project.root().with_file_name(format!("answer-{turn}")),
            answer,
        )
        .expect("a file");
        fs::write(project.root().with_file_name("answer-last"), answer).expect("a file");
    }
    assert_eq!(project.creel(&["trust"]).code, 0);
    project
}

fn queued(project: &Project) -> Vec<Value> {
    serde_json::from_str(&project.creel(&["task", "list", "--queue", "--json"]).out).expect("JSON")
}

#[test]
fn a_goal_becomes_tasks_with_their_dependencies() {
    let answer = format!("I looked around.\n\n```json\n{VALID}\n```\n");
    let project = answering(&[&answer], "task_types: { qa: {} }");
    let ran = project.creel(&["plan", "Read and print.", "--yes"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.out
            .contains("parser: Write the parser.\n  └ test (qa): Test both. [also after printer]"),
        "{}",
        ran.out
    );
    let tasks = queued(&project);
    let goal = |goal: &str| {
        tasks
            .iter()
            .find(|task| task["goal"] == goal)
            .expect("it is queued")
    };
    let (parser, printer, test) = (
        goal("Write the parser."),
        goal("Write the printer."),
        goal("Test both."),
    );
    assert_eq!(test["type"], "qa");
    assert_eq!(test["state"], "created");
    assert_eq!(printer["priority"], 0);
    let after: Vec<&Value> = test["dependencies"]
        .as_array()
        .expect("a list")
        .iter()
        .collect();
    assert_eq!(after, [&parser["id"], &printer["id"]]);
    let asked = fs::read_to_string(project.root().with_file_name("prompt")).expect("a prompt");
    assert!(
        asked.contains("Read and print.") && asked.contains("one of `qa`"),
        "{asked}"
    );
}

#[test]
fn the_tree_in_the_book_is_what_creel_prints() {
    let proposal = r#"{"tasks": [
        {"id": "parser", "goal": "Write a parser for CSV files in src/csv.rs, with tests."},
        {"id": "table", "goal": "Write src/table.rs, which aligns columns, with tests."},
        {"id": "command", "goal": "Add `print FILE` to the command line.", "depends_on": ["parser", "table"]}]}"#;
    let ran =
        answering(&[proposal], "").creel(&["plan", "Read CSV files and print them as tables."]);
    let shown = blocks(include_str!("../../docs/queue.md"))
        .into_iter()
        .find(|block| block.language == "text");
    let tree = shown.expect("the tree").text;
    assert!(ran.out.ends_with(&tree), "{}{}", ran.out, ran.err);
}

#[test]
fn an_answer_that_cannot_be_used_goes_back_with_all_its_mistakes() {
    let broken = r#"{"tasks": [{"id": "a", "goal": "Go.", "depends_on": ["b"], "type": "art"}]}"#;
    let project = answering(
        &["I have no idea.", broken, VALID],
        "task_types: { qa: {} }",
    );
    let ran = project.creel(&["plan", "Do it.", "--yes", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(queued(&project).len(), 3);
    let last = fs::read_to_string(project.root().with_file_name("prompt")).expect("a prompt");
    assert!(
        last.contains("depends on `b`, which is not in the list"),
        "{last}"
    );
    assert!(
        last.contains("has the type `art`; the types are: `qa`"),
        "{last}"
    );
}

#[test]
fn repairs_end_at_the_retry_limit_and_nothing_is_queued() {
    let project = answering(&["No."], "max_hook_retries: 2");
    let ran = project.creel(&["plan", "Do it.", "--yes"]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert_eq!(
        fs::read_to_string(project.root().with_file_name("turn"))
            .expect("turns")
            .trim(),
        "3"
    );
    assert!(queued(&project).is_empty());
}

#[test]
fn without_a_terminal_the_user_decides_later() {
    let project = answering(&[VALID], "");
    let ran = project.creel(&["plan", "Do it."]);
    assert_eq!(ran.code, 4, "{}", ran.err);
    assert!(queued(&project).is_empty());
    let name = ran
        .err
        .split("--session ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next())
        .expect("a name");
    let later = project.creel(&["plan", "--session", name, "--yes"]);
    assert_eq!(later.code, 0, "{}", later.err);
    assert_eq!(queued(&project).len(), 3);
    assert_eq!(
        fs::read_to_string(project.root().with_file_name("turn"))
            .expect("turns")
            .trim(),
        "1"
    );
    // Once more, it adds only what is missing.
    let again = project.creel(&["plan", "--session", name, "--yes"]);
    assert_eq!(again.code, 0, "{}", again.err);
    assert!(
        again.err.contains("task 1 is in the queue already")
            && again.err.contains("nothing was added"),
        "{}",
        again.err
    );
    assert_eq!(queued(&project).len(), 3);
    assert_eq!(project.creel(&["task", "remove", "--queue", "2"]).code, 0);
    let again = project.creel(&["plan", "--session", name, "--yes"]);
    assert!(
        again.err.contains("creel: task 4: ") && again.err.contains("work on them with"),
        "{}",
        again.err
    );
    assert_eq!(queued(&project).len(), 3);
}

#[test]
fn at_a_terminal_you_edit_the_tree_and_then_approve_it() {
    let project = answering(&[VALID], "");
    // The first edit has a mistake, which the editor shows the second time.
    let editor = "#!/bin/sh\n\
                  if grep -q 'cannot be queued yet' \"$1\"; then cp \"$1\" ../second; sed -i 's/missing/parser/' \"$1\"\n\
                  else sed -i 's/Test both/Test everything/; s/\"parser\", \"printer\"/\"missing\", \"printer\"/' \"$1\"; fi\n";
    project.write("edit", editor);
    let mut command = project.command(&["plan", "Do it.", "--headless"]);
    command.env("EDITOR", "sh ./edit");
    let mut terminal = Terminal::start(command, (100, 40));
    terminal.wait_for_text("Queue these 3 tasks?");
    terminal.type_text("e\r");
    terminal.wait_for_text("Test everything.");
    terminal.type_text("y\r");
    assert_eq!(terminal.end(), 0, "{}", terminal.text());
    let goals: Vec<String> = queued(&project)
        .iter()
        .map(|task| task["goal"].as_str().expect("text").to_owned())
        .collect();
    assert!(goals.contains(&"Test everything.".to_owned()), "{goals:?}");
    let second =
        fs::read_to_string(project.root().with_file_name("second")).expect("a second edit");
    assert!(
        second.contains("# task `test` depends on `missing`, which is not in the list"),
        "{second}"
    );
}

const SMALL: (u16, u16) = (80, 24);
const ONE: &str = r#"{"tasks": [{"id": "all", "goal": "Do it in one step."}]}"#;

/// `creel plan` in a terminal, at its gate.
fn at_the_gate(project: &Project) -> Terminal {
    let terminal = Terminal::open(project, &["plan", "Do it."], SMALL);
    await_gate(&terminal, "The agent proposes 3 tasks");
    terminal
}

/// Leaves the session that has ended; `creel plan` continues.
#[track_caller]
fn leave_with(terminal: &mut Terminal, code: i32) -> String {
    terminal.wait_for_status("COMPLETE");
    terminal.press("q");
    assert_eq!(terminal.end(), code, "{}", terminal.text());
    terminal.is_as_it_was();
    terminal.text()
}

fn goals(project: &Project) -> Vec<String> {
    let goal = |task: &Value| task["goal"].as_str().expect("text").to_owned();
    let mut goals: Vec<String> = queued(project).iter().map(goal).collect();
    goals.sort();
    goals
}

/// The name of the only session.
fn session(project: &Project) -> String {
    let sessions = fs::read_dir(project.root().join(".creel/sessions")).expect("sessions");
    let names = sessions.map(|entry| {
        entry
            .expect("an entry")
            .file_name()
            .to_string_lossy()
            .into_owned()
    });
    let mut names: Vec<String> = names.filter(|name| name.starts_with("plan-")).collect();
    names.sort();
    names.pop().expect("a session")
}

#[test]
fn approved_at_the_gate_by_number_by_enter_and_by_mouse_the_tasks_are_queued() {
    let answers: [fn(&Terminal); 3] = [
        |terminal| terminal.press("1"),
        |terminal| terminal.press("enter"),
        |terminal| click_on(terminal, "Approve these tasks"),
    ];
    for answer in answers {
        let project = answering(&[VALID], "task_types: { qa: {} }");
        let mut terminal = at_the_gate(&project);
        terminal.wait_for_text("parser: Write the parser.");
        terminal.wait_for_text("  └ test (qa): Test both. [also after printer]");
        answer(&terminal);
        let said = leave_with(&mut terminal, 0);
        assert!(
            said.contains("the user approved 3 tasks") && said.contains("creel: work on them with"),
            "{said}"
        );
        assert_eq!(
            goals(&project),
            ["Test both.", "Write the parser.", "Write the printer."]
        );
    }
}

#[test]
fn a_changed_proposal_is_shown_again_and_queued_as_changed() {
    let project = answering(&[VALID], "");
    let mut terminal = at_the_gate(&project);
    click_on(&terminal, "Edit the tasks");
    terminal.wait_for_text("ctrl-s save");
    // The first line is `tasks:`; without it, nothing can be read.
    terminal.type_text("\u{b}");
    terminal.press("ctrl-s");
    terminal.wait_for_text("# This cannot be queued yet:");
    terminal.press("down down");
    terminal.type_text("tasks:");
    // The next is `- id: "test"`, then its goal.
    terminal.press("down down end");
    terminal.type_text("\u{7f}\u{7f} and more.\"");
    terminal.press("ctrl-s");
    await_gate(&terminal, "The changed proposal has 3 tasks");
    terminal.wait_for_text("Test both and more.");
    terminal.press("1");
    leave_with(&mut terminal, 0);
    assert_eq!(
        goals(&project),
        [
            "Test both and more.",
            "Write the parser.",
            "Write the printer."
        ]
    );
}

#[test]
fn what_should_be_different_goes_to_the_same_agent_and_the_new_tasks_are_queued() {
    let project = answering(&[VALID, "I forgot the JSON.", ONE], "");
    let mut terminal = at_the_gate(&project);
    terminal.press("3");
    terminal.wait_for_text("Your own message");
    terminal.type_text("In one step, please.");
    terminal.press("ctrl-s");
    await_gate(&terminal, "The agent proposes 1 task");
    terminal.press("enter");
    leave_with(&mut terminal, 0);
    assert_eq!(goals(&project), ["Do it in one step."]);
    assert_eq!(
        fs::read_to_string(project.root().with_file_name("turn"))
            .expect("turns")
            .trim(),
        "3"
    );
}

#[test]
fn queueing_nothing_keeps_the_changed_proposal_for_later() {
    let project = answering(&[VALID], "");
    let mut terminal = at_the_gate(&project);
    let name = session(&project);
    let answer = |choice: &str, text: &[&str]| {
        project.creel(&[&["gate", "answer", "--session", &name, "1", choice], text].concat())
    };
    let refused = answer(
        "approve",
        &[r#"{"tasks": [{"id": "a", "goal": "Go.", "depends_on": ["b"]}]}"#],
    );
    assert_eq!(refused.code, 1);
    assert!(
        refused
            .err
            .contains("task `a` depends on `b`, which is not in the list"),
        "{}",
        refused.err
    );
    assert_eq!(answer("edit", &[ONE]).code, 0);
    await_gate(&terminal, "The changed proposal has 1 task");
    let listed = project.creel(&["gate", "list", "--session", &name]).out;
    assert!(
        listed.contains("the changed proposal has 1 task: all\n    all: Do it in one step.\n"),
        "{listed}"
    );
    terminal.press("4");
    let said = leave_with(&mut terminal, 0).replace('\n', "");
    assert!(
        said.contains("nothing is queued; the proposal stays"),
        "{said}"
    );
    assert!(goals(&project).is_empty());
    assert_eq!(
        project.creel(&["plan", "--session", &name, "--yes"]).code,
        0
    );
    assert_eq!(goals(&project), ["Do it in one step."]);
}

#[test]
fn a_killed_session_shows_its_gate_again_and_says_how_to_queue() {
    let project = answering(&[VALID], "");
    let mut terminal = at_the_gate(&project);
    let name = session(&project);
    let changed = project.creel(&["gate", "answer", "--session", &name, "1", "edit", ONE]);
    assert_eq!(changed.code, 0, "{}", changed.err);
    let status = project.creel(&["status", "--session", &name, "--json"]).out;
    let pid = serde_json::from_str::<Value>(&status).expect("JSON")["pid"]
        .as_i64()
        .expect("a process");
    let pid =
        rustix::process::Pid::from_raw(i32::try_from(pid).expect("a process")).expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it is killed");
    assert_ne!(terminal.end(), 0);
    let mut resumed = Terminal::open(&project, &["resume", &name], SMALL);
    await_gate(&resumed, "The changed proposal has 1 task");
    resumed.press("1");
    let said = leave_with(&mut resumed, 0).replace('\n', "");
    assert!(
        said.contains(&format!(
            "queue them with `creel plan --session {name} --yes`"
        )),
        "{said}"
    );
    assert!(goals(&project).is_empty());
    assert_eq!(
        project.creel(&["plan", "--session", &name, "--yes"]).code,
        0
    );
    assert_eq!(goals(&project), ["Do it in one step."]);
}

#[test]
fn a_session_that_is_left_running_at_its_gate_is_answered_later() {
    let project = answering(&[VALID], "");
    let mut terminal = at_the_gate(&project);
    let name = session(&project);
    terminal.press("q");
    terminal.wait_for_text("eave");
    terminal.press("d");
    assert_eq!(terminal.end(), 0, "{}", terminal.text());
    let said = terminal.text().replace('\n', "");
    assert!(
        said.contains("nothing is queued yet; when session"),
        "{said}"
    );
    let changed = format!("{ONE}\n");
    let answer = [
        "gate",
        "answer",
        "--session",
        &name,
        "1",
        "approve",
        &changed,
    ];
    assert_eq!(project.creel(&answer).code, 0);
    until("the session ends", || {
        project
            .creel(&["show", &name])
            .out
            .contains("Session complete")
    });
    assert_eq!(
        project.creel(&["plan", "--session", &name, "--yes"]).code,
        0
    );
    assert_eq!(goals(&project), ["Do it in one step."]);
}

#[test]
fn with_yes_the_screen_shows_no_gate() {
    let project = answering(&[VALID], "");
    let mut terminal = Terminal::open(&project, &["plan", "--yes", "Do it."], SMALL);
    leave_with(&mut terminal, 0);
    assert_eq!(goals(&project).len(), 3);
}
