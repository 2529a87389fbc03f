//! The changes of a turn, an iteration and the session on the screen.

use std::fs;

use expect_test::expect_file;

use crate::support::{
    frame_sheet::sheet,
    samples,
    screen::{Screen, records, spot},
    world::World,
};
use creel::{
    engine::{
        conversation::{AgentUpdate, ToolCall, ToolKind, ToolStatus},
        ids::TurnId,
    },
    report::session_diff::{DiffPart, DiffPlace, WorkHistory, session_diff},
    tui::{
        modals::Modal,
        patch::PatchRows,
        request::{ScreenEvent, ScreenRequest},
        theme::ScreenTheme,
    },
};

const PARSER: &str = "--- a/src/parser.rs\n+++ b/src/parser.rs\n@@ -10,5 +10,6 @@ fn parse\n fn parse(text: &str) -> Result<Tree, Error> {\n-    let mut line = 0;\n+    // Lines count from 1.\n+    let mut line = 1;\n     lexer(text).collect()\n }\n \n";
const TESTS: &str = "--- /dev/null\n+++ b/tests/empty.rs\n@@ -0,0 +1,2 @@\n+#[test]\n+fn the_empty_text_is_an_empty_tree() {}\n";

fn edit(call: &str, diff: &str) -> AgentUpdate {
    AgentUpdate::ToolUpdated(ToolCall {
        call: call.into(),
        title: format!("Edit {call}"),
        status: ToolStatus::Completed,
        kind: Some(ToolKind::Edit),
        diff: Some(diff.into()),
        ..ToolCall::default()
    })
}

/// The agent has edited two files in its first turn, which has not ended.
fn edited() -> World {
    let mut world = samples::first_turn();
    samples::agent(&mut world, edit("src/parser.rs", PARSER));
    samples::agent(&mut world, edit("tests/empty.rs", TESTS));
    world
}

/// What git would not know: the edits that the agent reported.
fn read(world: &World, part: DiffPart) -> Result<Box<PatchRows>, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let journal = folder.path().join("journal.jsonl");
    let lines: String = records(world)
        .iter()
        .map(creel::journal::Record::to_line)
        .collect();
    fs::write(&journal, lines).expect("written");
    let history = WorkHistory::read(&journal).expect("a journal");
    let place = DiffPlace::Elsewhere(folder.path().to_owned());
    session_diff(&history, part, &place)
        .map(|diff| Box::new(PatchRows::new(&diff)))
        .map_err(|error| error.to_string())
}

fn with_diff(world: &World, mut screen: Screen) -> Screen {
    for request in screen.press("d") {
        let ScreenRequest::ReadDiff(part) = request else {
            panic!("{request:?}");
        };
        screen.send(ScreenEvent::Diffed(part, read(world, part)));
    }
    screen
}

#[test]
fn the_changes_of_the_turn_are_one_key_away() {
    let world = edited();
    let frames =
        sheet(|size, theme: ScreenTheme| with_diff(&world, Screen::in_looks(&world, size, theme)));
    expect_file!["../../frames/states/changes.txt"].assert_eq(&frames);
}

#[test]
fn the_third_column_shows_the_changes_of_the_turn() {
    let world = edited();
    let frames = sheet(|size, theme: ScreenTheme| {
        let mut screen = Screen::in_looks(&world, size, theme);
        let turn = DiffPart::Turn(TurnId(1));
        screen.send(ScreenEvent::Diffed(turn, read(&world, turn)));
        screen
    });
    expect_file!["../../frames/states/third-column.txt"].assert_eq(&frames);
}

#[test]
fn the_same_key_goes_on_to_the_iteration_and_the_session() {
    let world = edited();
    let mut screen = Screen::of(&world, (80, 24));
    let asks = |screen: &mut Screen, part| {
        assert_eq!(screen.press("d"), [ScreenRequest::ReadDiff(part)]);
        assert!(screen.frame().contains("Reading the changes"));
    };
    asks(&mut screen, DiffPart::Turn(TurnId(1)));
    asks(&mut screen, DiffPart::Iteration(1));
    asks(&mut screen, DiffPart::Session);
    // An answer for another part comes late.
    screen.send(ScreenEvent::Diffed(
        DiffPart::Iteration(1),
        read(&world, DiffPart::Iteration(1)),
    ));
    assert!(screen.frame().contains("Reading the changes"));
    screen.send(ScreenEvent::Diffed(
        DiffPart::Session,
        Err("no such journal".to_owned()),
    ));
    assert!(screen.frame().contains("no such journal"));
    screen.press("esc");
    assert!(screen.model.modals.is_empty());
}

#[test]
fn files_are_found_by_key_and_text_by_search() {
    let world = edited();
    let mut screen = with_diff(&world, Screen::of(&world, (80, 10)));
    let first = |screen: &mut Screen| screen.frame().lines().nth(2).unwrap_or_default().to_owned();
    screen.press("]");
    assert!(first(&mut screen).contains("src/parser.rs  as reported"));
    screen.press("]");
    assert!(screen.frame().contains("file 2 of 2"), "{}", screen.frame());
    screen.press("[");
    assert!(first(&mut screen).contains("src/parser.rs  as reported"));
    screen.press("/");
    screen.type_text("empty tree");
    screen.press("enter");
    assert!(screen.model.toast.is_some());
    let copied = screen.press("y");
    assert!(
        matches!(&copied[..], [ScreenRequest::Copy(text)] if text.contains("+    let mut line = 1;")),
        "{copied:?}"
    );
}

#[test]
fn marked_rows_of_the_changes_are_copied_as_a_patch() {
    let world = edited();
    for size in [(80, 24), (200, 50)] {
        let mut screen = with_diff(&world, Screen::of(&world, size));
        screen.press("/");
        screen.type_text("let mut line");
        screen.press("enter v j y");
        let copied = screen.press("v j y");
        let [ScreenRequest::Copy(text)] = &copied[..] else {
            panic!("{copied:?}");
        };
        let (first, rest) = text.split_once('\n').unwrap_or_default();
        assert!(first.starts_with(['-', '+']), "{text}");
        assert!(rest.starts_with(['-', '+', ' ']), "{text}");
    }
}

#[test]
fn the_changes_are_visible_at_a_gate_and_esc_returns_to_it() {
    let world = samples::retry_limit();
    let mut screen = Screen::of(&world, (80, 24)).armed();
    screen.press("d");
    assert!(matches!(screen.model.modals.last(), Some(Modal::Diff(_))));
    screen.press("esc");
    assert!(matches!(screen.model.modals.last(), Some(Modal::Gate(_))));
}

#[test]
fn changes_are_read_again_only_after_something_may_have_changed() {
    let world = edited();
    let mut screen = Screen::of(&world, (200, 50));
    screen.later(2_000);
    let turn = DiffPart::Turn(TurnId(1));
    assert_eq!(screen.due(), [turn]);
    assert_eq!(screen.due(), [], "the answer is still to come");
    screen.send(ScreenEvent::Diffed(turn, read(&world, turn)));
    screen.later(10_000);
    assert_eq!(screen.due(), []);
    let last = records(&world).last().cloned().expect("a record");
    screen.model.take(spot(&last), &last);
    assert_eq!(screen.due(), [turn]);
    let mut small = Screen::of(&world, (120, 40));
    small.later(10_000);
    assert_eq!(small.due(), [], "nothing shows them");
}
