//! From a goal to tasks in the queue.

use std::fs;

use serde_json::Value;

use crate::{
    book::blocks,
    support::{git_project::config, project::Project, terminal::Terminal},
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
        fs::write(project.root().with_file_name(format!("answer-{turn}")), answer).expect("a file");
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
        ran.out.contains("parser: Write the parser.\n  └ test (qa): Test both. [also after printer]"),
        "{}",
        ran.out
    );
    let tasks = queued(&project);
    let goal = |goal: &str| tasks.iter().find(|task| task["goal"] == goal).expect("it is queued");
    let (parser, printer, test) = (goal("Write the parser."), goal("Write the printer."), goal("Test both."));
    assert_eq!(test["type"], "qa");
    assert_eq!(test["state"], "created");
    assert_eq!(printer["priority"], 0);
    let after: Vec<&Value> = test["dependencies"].as_array().expect("a list").iter().collect();
    assert_eq!(after, [&parser["id"], &printer["id"]]);
    let asked = fs::read_to_string(project.root().with_file_name("prompt")).expect("a prompt");
    assert!(asked.contains("Read and print.") && asked.contains("one of `qa`"), "{asked}");
}

#[test]
fn the_tree_in_the_book_is_what_creel_prints() {
    let proposal = r#"{"tasks": [
        {"id": "parser", "goal": "Write a parser for CSV files in src/csv.rs, with tests."},
        {"id": "table", "goal": "Write src/table.rs, which aligns columns, with tests."},
        {"id": "command", "goal": "Add `print FILE` to the command line.", "depends_on": ["parser", "table"]}]}"#;
    let ran = answering(&[proposal], "").creel(&["plan", "Read CSV files and print them as tables."]);
    let shown = blocks(include_str!("../../docs/queue.md")).into_iter().find(|block| block.language == "text");
    let shown = shown.expect("the tree").text;
    let (tree, _) = shown.split_once("Queue these 3 tasks?").expect("the question");
    assert!(ran.out.ends_with(tree), "{}{}", ran.out, ran.err);
}

#[test]
fn an_answer_that_cannot_be_used_goes_back_with_all_its_mistakes() {
    let broken = r#"{"tasks": [{"id": "a", "goal": "Go.", "depends_on": ["b"], "type": "art"}]}"#;
    let project = answering(&["I have no idea.", broken, VALID], "task_types: { qa: {} }");
    let ran = project.creel(&["plan", "Do it.", "--yes", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(queued(&project).len(), 3);
    let last = fs::read_to_string(project.root().with_file_name("prompt")).expect("a prompt");
    assert!(last.contains("depends on `b`, which is not in the list"), "{last}");
    assert!(last.contains("has the type `art`; the types are: `qa`"), "{last}");
}

#[test]
fn repairs_end_at_the_retry_limit_and_nothing_is_queued() {
    let project = answering(&["No."], "max_hook_retries: 2");
    let ran = project.creel(&["plan", "Do it.", "--yes"]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert_eq!(fs::read_to_string(project.root().with_file_name("turn")).expect("turns").trim(), "3");
    assert!(queued(&project).is_empty());
}

#[test]
fn without_a_terminal_the_user_decides_later() {
    let project = answering(&[VALID], "");
    let ran = project.creel(&["plan", "Do it."]);
    assert_eq!(ran.code, 4, "{}", ran.err);
    assert!(queued(&project).is_empty());
    let name = ran.err.split("--session ").nth(1).and_then(|rest| rest.split(' ').next()).expect("a name");
    let later = project.creel(&["plan", "--session", name, "--yes"]);
    assert_eq!(later.code, 0, "{}", later.err);
    assert_eq!(queued(&project).len(), 3);
    assert_eq!(fs::read_to_string(project.root().with_file_name("turn")).expect("turns").trim(), "1");
    // Once more, it adds only what is missing.
    let again = project.creel(&["plan", "--session", name, "--yes"]);
    assert_eq!(again.code, 0, "{}", again.err);
    assert!(
        again.err.contains("task 1 is in the queue already") && again.err.contains("nothing was added"),
        "{}",
        again.err
    );
    assert_eq!(queued(&project).len(), 3);
    assert_eq!(project.creel(&["task", "remove", "--queue", "2"]).code, 0);
    let again = project.creel(&["plan", "--session", name, "--yes"]);
    assert!(again.err.contains("creel: task 4: ") && again.err.contains("work on them with"), "{}", again.err);
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
    let goals: Vec<String> =
        queued(&project).iter().map(|task| task["goal"].as_str().expect("text").to_owned()).collect();
    assert!(goals.contains(&"Test everything.".to_owned()), "{goals:?}");
    let second = fs::read_to_string(project.root().with_file_name("second")).expect("a second edit");
    assert!(second.contains("# task `test` depends on `missing`, which is not in the list"), "{second}");
}
