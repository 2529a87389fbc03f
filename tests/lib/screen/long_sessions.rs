//! Long sessions on the screen: folded iterations, delivered items, the timeline, and the scrubber of a
//! replay.

use expect_test::expect_file;

use crate::support::{
    frame_sheet::sheet,
    samples,
    screen::{Screen, records},
};
use creel::{
    engine::{
        conversation::WorktreeChanges,
        event::{Event, SessionEvent, TurnEvent},
    },
    report::session_diff::DiffPart,
    tui::{
        model::Pane,
        patch::PatchRows,
        request::{ScreenEvent, ScreenRequest},
        stream::StreamPosition,
        theme::ScreenTheme,
    },
};

const MIDDLE: (u16, u16) = (120, 40);

#[test]
fn finished_iterations_are_one_row_each() {
    let frames = sheet(|size, theme: ScreenTheme| {
        let mut screen = Screen::in_looks(&samples::ended(), size, theme);
        screen.press("esc");
        screen
    });
    expect_file!["../../frames/states/long-session.txt"].assert_eq(&frames);
}

#[test]
fn enter_opens_an_iteration_and_closes_it_again() {
    let mut screen = Screen::of(&samples::ended(), MIDDLE);
    screen.press("esc home");
    let row = |screen: &mut Screen| screen.row(" 1  ✗✗✓ cargo test");
    assert!(row(&mut screen).contains("▸"), "{}", screen.frame());
    screen.click_on("cargo test");
    let opened = screen.frame();
    assert!(opened.contains("ITERATION 1 ──"), "{opened}");
    assert!(opened.contains("Retry 1 of 5"), "{opened}");
    screen.press("enter");
    assert!(row(&mut screen).contains("▸"));
}

#[test]
fn a_closed_iteration_has_its_changed_lines_once_they_are_read() {
    let mut world = samples::ended();
    for event in &mut world.events {
        if let Event::Turn(TurnEvent::Ended { work, .. }) = event {
            *work = Some(Box::new(WorktreeChanges {
                files_modified: vec!["src/parser.rs".into(), "tests/empty.rs".into()],
                ..WorktreeChanges::default()
            }));
        }
    }
    let mut screen = Screen::of(&world, MIDDLE);
    screen.press("esc");
    assert!(screen.row(" 1  ✗✗✓ cargo test").contains("2 files"));
    assert_eq!(screen.due(), [DiffPart::Iteration(1)]);
    let answer = |screen: &mut Screen, counted| {
        let mut rows = Box::new(PatchRows::default());
        rows.counted = counted;
        screen.send(ScreenEvent::Diffed(DiffPart::Iteration(1), Ok(rows)));
    };
    answer(&mut screen, None);
    assert!(screen.row(" 1  ✗✗✓ cargo test").contains("2 files"));
    answer(&mut screen, Some((14, 2)));
    assert!(screen.row(" 1  ✗✗✓ cargo test").contains("+14 −2"));
    screen.due();
    assert_eq!(screen.due(), [], "each is read once");
}

#[test]
fn what_is_searched_for_opens_its_iteration() {
    let mut screen = Screen::of(&samples::ended(), MIDDLE);
    screen.press("esc");
    assert!(!screen.frame().contains("empty tree now."));
    screen.press("home /");
    screen.type_text("empty tree now");
    screen.press("enter");
    assert!(
        screen
            .frame()
            .contains("The empty text is an empty tree now.")
    );
    let mut errors = Screen::of(&samples::ended(), MIDDLE);
    errors.press("esc home e");
    assert!(
        errors.frame().contains("▌ ! pre_iteration"),
        "{}",
        errors.frame()
    );
}

#[test]
fn an_iteration_that_ends_while_the_user_reads_stays_open_until_the_end_is_back() {
    let world = samples::ended();
    let all = records(&world);
    let second = all
        .iter()
        .position(|record| {
            let second = SessionEvent::IterationStarted { iteration: 2 };
            record.event == Event::Session(second)
        })
        .unwrap_or(all.len());
    let mut early = samples::ended();
    early.events.truncate(second);
    let mut screen = Screen::of(&early, MIDDLE);
    screen.press("home");
    assert!(matches!(
        screen.model.stream.position(),
        StreamPosition::At { .. }
    ));
    let before = screen.frame();
    let first_rows = |frame: &str| {
        frame
            .lines()
            .skip(2)
            .take(20)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    screen.see(&world);
    assert!(screen.frame().contains("ITERATION 1 ──"));
    assert_eq!(
        first_rows(&before)
            .first()
            .map(|row| row.chars().take(60).collect::<String>()),
        first_rows(&screen.frame())
            .first()
            .map(|row| row.chars().take(60).collect::<String>())
    );
    screen.press("G esc");
    assert!(
        !screen.frame().contains("ITERATION 1 ──"),
        "{}",
        screen.frame()
    );
}

#[test]
fn a_click_on_the_timeline_goes_to_its_step() {
    let mut screen = Screen::of(&samples::ended(), MIDDLE);
    screen.press("esc");
    let (column, row) = screen.find("✗✗✓");
    assert_eq!(row, 1, "it is in the frame of the stream");
    screen.mouse(
        crossterm::event::MouseEventKind::Down(crossterm::event::MouseButton::Left),
        column,
        row,
    );
    assert_eq!(screen.model.panes.focus, Pane::Stream);
    assert!(
        screen.frame().contains("Retry 1 of 5"),
        "{}",
        screen.frame()
    );
}

#[test]
fn delivered_items_share_a_row() {
    let mut screen = Screen::of(&samples::ended(), MIDDLE);
    screen.press("esc 3");
    assert!(
        screen.row("▸ 3 delivered").contains("✓"),
        "{}",
        screen.frame()
    );
    screen.press("home enter");
    assert!(screen.frame().contains("git log"), "{}", screen.frame());
    assert!(screen.row("▾ 3 delivered").contains("✓"));
    screen.press("enter");
    assert!(screen.row("▸ 3 delivered").contains("✓"));
}

#[test]
fn a_click_on_the_scrubber_goes_there() {
    let world = samples::ended();
    let mut screen = Screen::replay(&world, (80, 24), 5);
    let frame = screen.frame();
    assert!(frame.contains("replay 0:01 of 0:"), "{frame}");
    let row = u16::try_from(frame.lines().count() - 2).expect("a row");
    let asked = screen.mouse(
        crossterm::event::MouseEventKind::Down(crossterm::event::MouseButton::Left),
        78,
        row,
    );
    let [ScreenRequest::Seek(target)] = asked[..] else {
        panic!("{asked:?}");
    };
    assert!(target > records(&world).len() - 5, "{target}");
}
