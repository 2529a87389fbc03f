//! The demo in a real terminal, and the line that explains what happens.

use std::{fs, path::PathBuf};

use serde_json::Value;

use crate::support::{
    project::{Project, until},
    terminal::{Cells, Terminal},
};

const WIDE: Cells = (120, 40);
const SMALL: Cells = (80, 24);

/// The demo's folder.
fn folder(project: &Project) -> Option<PathBuf> {
    let folders = fs::read_dir(project.root())
        .ok()?
        .filter_map(Result::ok)
        .map(|entry| entry.path());
    folders
        .into_iter()
        .find(|path| path.join("creel.yaml").exists() && path.join("demo").exists())
}

/// What the demo's agent and hooks read: the number of skips, and the mode.
fn pace(project: &Project) -> String {
    let file = folder(project).map(|folder| folder.join(".creel/pace"));
    file.and_then(|file| fs::read_to_string(file).ok())
        .unwrap_or_default()
}

fn skips(project: &Project) -> u32 {
    pace(project)
        .split(' ')
        .next()
        .and_then(|skips| skips.parse().ok())
        .unwrap_or(0)
}

/// Skips ahead until the screen shows a text.
#[track_caller]
fn skip_to(project: &Project, terminal: &Terminal, text: &str) {
    for _ in 0..200 {
        if terminal.glance(|shown| shown.has(text)) {
            return;
        }
        let before = skips(project);
        terminal.press("x");
        until("the key was understood", || {
            skips(project) > before || terminal.glance(|shown| shown.has(text))
        });
    }
    panic!(
        "the demo does not come to {text}; the screen shows:\n{}",
        terminal.text()
    );
}

fn watch_by_skipping(size: Cells) {
    let project = Project::new();
    let mut terminal = Terminal::open(&project, &["demo"], size);
    terminal.wait_for_text("space pause  any key skip ahead");
    skip_to(&project, &terminal, "Finished. ");
    terminal.wait_for_text("Send this output to the agent before the end?");
    terminal.wait_for("a gate that accepts answers", |shown| {
        shown.has("enter answer") || shown.has("One last prompt")
    });
    terminal.press("enter");
    terminal.wait_for_status("COMPLETE");
    terminal.wait_for("the card", |shown| {
        shown.has("next          creel init · creel run") && shown.has("used  ")
    });
    terminal.press("q");
    assert_eq!(terminal.end(), 0);
    terminal.is_as_it_was();
    assert!(
        terminal
            .text()
            .contains("  next          creel init · creel run"),
        "{}",
        terminal.text()
    );
    assert_eq!(folder(&project), None, "the folder is gone");
}

#[test]
fn any_key_skips_ahead_in_the_demo_on_a_wide_screen() {
    watch_by_skipping(WIDE);
}

#[test]
fn any_key_skips_ahead_in_the_demo_on_a_small_screen() {
    watch_by_skipping(SMALL);
}

#[test]
fn a_demo_without_keys_comes_to_its_end() {
    let project = Project::new();
    let mut terminal = Terminal::open(&project, &["demo"], SMALL);
    for caption in ["Retry 1 of 5.", "Retry 2 of 5.", "creel decides in 7 s."] {
        terminal.wait_for_text(caption);
    }
    terminal.wait_for_status("COMPLETE");
    let answer = folder(&project).map(|folder| folder.join(".creel/sessions/demo/journal.jsonl"));
    let journal = answer
        .and_then(|journal| fs::read_to_string(journal).ok())
        .expect("a journal");
    assert!(
        journal.contains(r#""kind":"gate_answered","gate":1,"choice":"approve","by":"timeout""#),
        "{journal}"
    );
    terminal.press("q");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn a_paused_demo_can_be_explored_and_continues() {
    let project = Project::new();
    let mut terminal = Terminal::open(&project, &["demo"], SMALL);
    terminal.wait_for_text("space pause  any key skip ahead");
    terminal.press("space");
    terminal.wait_for_text("space continue the demo");
    until("the pace is known to hooks", || {
        pace(&project) == "0 paused\n"
    });
    // Keys have their usual meaning now.
    terminal.press("3");
    terminal.wait_for_text("v preview");
    assert_eq!(pace(&project), "0 paused\n");
    terminal.press("space");
    until("it continues", || pace(&project) == "0 play\n");
    terminal.wait_for_text("any key skip ahead");
    terminal.press("ctrl-c");
    terminal.wait_for_text("Leave the demo?");
    terminal.press("ctrl-c");
    assert_eq!(terminal.end(), 130);
    terminal.is_as_it_was();
}

#[test]
fn a_demo_without_a_screen_prints_the_card_and_json_stays_records_only() {
    let project = Project::new();
    let ran = project.creel(&["demo", "--fast", "--headless"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let card: Vec<&str> = ran
        .out
        .lines()
        .skip_while(|line| !line.starts_with("Session complete"))
        .skip(1)
        .collect();
    let [took, used, changed, next] = card.as_slice() else {
        panic!("{}", ran.out)
    };
    assert!(
        took.starts_with("  took          ") && took.ends_with(" · 1 iteration · 2 retries"),
        "{took}"
    );
    assert_eq!(*used, "  used          16.0k tokens · $0.08");
    assert!(changed.starts_with("  changed       "), "{changed}");
    assert_eq!(*next, "  next          creel init · creel run");
    let ran = project.creel(&["demo", "--fast", "--json"]);
    assert!(
        ran.out
            .lines()
            .all(|line| serde_json::from_str::<Value>(line).is_ok()),
        "{}",
        ran.out
    );
}

/// What the screen remembers.
fn memory(project: &Project) -> Value {
    let text =
        fs::read_to_string(project.state_dir().join("creel/screen.json")).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

#[test]
fn hints_appear_in_the_first_sessions_until_they_are_hidden() {
    let project = Project::with("prompt: GOAL\nagents: { demo: { script: scenario.yaml } }\n")
        .file(
            "scenario.yaml",
            "otherwise: { say: '<promise>COMPLETE</promise>' }\n",
        );
    let watched = |name: &str, hinted: bool, keys: &str| {
        let mut terminal = Terminal::open(&project, &["run", "--trust", "-s", name], SMALL);
        terminal.wait_for_status("COMPLETE");
        terminal.wait_for(name, |shown| shown.has("» Complete: ") == hinted);
        if !keys.is_empty() {
            terminal.press(keys);
            terminal.wait_for("no hint", |shown| !shown.has("» "));
        }
        terminal.press("q");
        terminal.end();
    };
    for name in ["one", "two", "three"] {
        watched(name, true, "");
    }
    watched("four", false, "");
    assert_eq!(
        memory(&project)["hints"]["sessions"]
            .as_array()
            .map(Vec::len),
        Some(3)
    );
    // A user who wants them back, and hides them again.
    project.write(
        "creel.yaml",
        "prompt: GOAL\nagents: { demo: { script: scenario.yaml } }\nui: { hints: always }\n",
    );
    watched("five", true, "h");
    assert_eq!(memory(&project)["hints"]["dismissed"], Value::Bool(true));
}
