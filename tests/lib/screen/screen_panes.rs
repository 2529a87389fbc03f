//! The panes: cursors, clicks, folding, the split, the detail of wide screens, and the keys that
//! the screen offers.

use crossterm::event::{MouseButton, MouseEventKind};
use ratatui::style::Color;

use crate::support::{
    samples,
    screen::Screen,
    world::{Script, blocks},
};
use creel::{
    engine::hooks::point::HookPoint,
    tui::{
        memory::PaneSplit,
        modals::viewer::{RunOutput, ViewerModal},
        model::Pane,
        request::{ScreenEvent, ScreenRequest},
    },
};

const WIDE: (u16, u16) = (120, 40);
const SMALL: (u16, u16) = (80, 24);

/// A stop hook has printed a hundred lines, in colours, and blocked.
fn flooded() -> Screen {
    let lines: String = (1..=100)
        .map(|n| format!("\u{1b}[31mline {n}\u{1b}[0m\n"))
        .collect();
    let printed: &'static str = Box::leak(lines.into_boxed_str());
    let script = Script::new()
        .hook(HookPoint::Stop, "tests", [blocks(printed)])
        .attended(&[]);
    let world = samples::until(crate::support::world::World::begin(script), |world| {
        world.state.retry.used == 1
    });
    Screen::of(&world, WIDE)
}

#[test]
fn long_output_in_the_stream_is_folded_to_its_end_in_its_own_colours() {
    let mut screen = flooded();
    let frame = screen.frame();
    assert!(
        frame.contains("… 88 more lines")
            && frame.contains("line 89")
            && frame.contains("line 100"),
        "{frame}"
    );
    assert!(!frame.contains("line 88 "), "{frame}");
    let (column, row) = screen.find("line 95");
    assert_eq!(screen.draw()[(column, row)].fg, Color::Indexed(1));
    screen.click_on("▾ ✗ stop: tests");
    screen.press("home");
    assert!(
        !screen.frame().contains("more lines"),
        "all of it is open: {}",
        screen.frame()
    );
    assert!(screen.frame().contains("line 1 "), "{}", screen.frame());
}

#[test]
fn enter_opens_the_row_under_the_cursor_and_a_click_does_the_same() {
    let mut screen = Screen::of(&samples::first_turn(), WIDE);
    screen.press("home j");
    assert!(
        screen
            .row("▌ ▸ ✓ session_start: git log")
            .contains("passed")
    );
    screen.press("enter");
    assert!(
        screen.frame().contains("4f2a1c parser: keep the places"),
        "{}",
        screen.frame()
    );
    screen.press("enter");
    assert!(!screen.frame().contains("4f2a1c parser: keep the places"));
    screen.click_on("▸ ✗ ◇ cargo build");
    assert!(screen.row("▌ ▾ ✗ ◇ cargo build").contains("failed"));
    assert!(
        screen
            .frame()
            .contains("error[E0425]: cannot find value `tree`")
    );
    screen.press("home enter");
    let toast = screen.model.toast.as_ref().map(|toast| toast.text.clone());
    assert_eq!(toast.as_deref(), Some("This row has nothing to open"));
}

#[test]
fn a_click_selects_a_row_and_another_click_opens_it() {
    let mut screen = Screen::of(&samples::sent_back_twice(), WIDE);
    assert_eq!(screen.click_on("cargo test    ✗✗"), []);
    assert_eq!(
        (screen.model.panes.focus, screen.model.panes.hook),
        (Pane::Hooks, 2)
    );
    let opened = screen.click_on("cargo test    ✗✗");
    let [ScreenRequest::ReadOutput(RunOutput { title, earlier, .. })] = opened.as_slice() else {
        panic!("{opened:?}")
    };
    assert!(title.contains("stop · cargo test"), "{title}");
    assert!(
        earlier.contains("parser::empty ... FAILED"),
        "the run before follows: {earlier}"
    );
    screen.click_on("1  00:00");
    assert_eq!(
        (screen.model.panes.focus, screen.model.panes.attempt),
        (Pane::Retries, 1)
    );
    screen.press("k enter");
    let frame = screen.frame();
    assert!(
        frame.contains("║ Run 1, 00:00 ") && frame.contains("│ Run 2, 00:00 "),
        "{frame}"
    );
    assert!(
        frame.contains("- test parser::empty") && frame.contains("+ 1 failed; 32 passed"),
        "{frame}"
    );
}

#[test]
fn the_split_is_moved_by_keys_and_by_the_mouse() {
    let mut screen = Screen::of(&samples::first_turn(), WIDE);
    assert_eq!(screen.press("+"), [ScreenRequest::Remember]);
    assert_eq!(screen.model.memory.split, PaneSplit::new(65));
    screen.press("- -");
    assert_eq!(screen.model.memory.split, PaneSplit::new(55));
    let (column, row) = screen.find("╭ 2 Hooks");
    assert_eq!(
        screen.mouse(MouseEventKind::Down(MouseButton::Left), column, row + 2),
        []
    );
    assert_eq!(
        screen.mouse(MouseEventKind::Drag(MouseButton::Left), 84, row + 2),
        []
    );
    assert_eq!(screen.find("╭ 2 Hooks").0, 84);
    let up = screen.mouse(MouseEventKind::Up(MouseButton::Left), 84, row + 2);
    assert_eq!(up, [ScreenRequest::Remember]);
    assert_eq!(screen.model.memory.split, PaneSplit::new(70));
    // A drag that did not begin on the line moves nothing.
    screen.mouse(MouseEventKind::Drag(MouseButton::Left), 50, 5);
    assert_eq!(screen.model.memory.split, PaneSplit::new(70));
}

#[test]
fn a_wide_screen_shows_the_detail_of_the_selected_row() {
    let mut screen = Screen::of(&samples::sent_back_twice(), (200, 50));
    screen.press("2");
    let frame = screen.frame();
    assert!(
        frame.contains("╭ stop: cargo test ─") && frame.contains("1 failed; 32 passed"),
        "{frame}"
    );
    screen.press("4 j");
    assert!(
        screen.frame().contains("╭ Retry 1 · cargo test ─"),
        "{}",
        screen.frame()
    );
    screen.press("1 home j j j");
    assert!(!screen.frame().contains("╭ Retry 1"));
    assert!(
        !Screen::of(&samples::sent_back_twice(), WIDE)
            .frame()
            .contains("╭ stop: cargo test ─")
    );
}

#[test]
fn the_last_line_has_the_keys_of_whatever_receives_them() {
    let last = |screen: &mut Screen| screen.frame().lines().last().unwrap_or_default().to_owned();
    let mut screen = Screen::of(&samples::first_turn(), WIDE);
    assert!(last(&mut screen).contains("e next error") && last(&mut screen).contains("q leave"));
    let mut gate = Screen::of(&samples::retry_limit(), WIDE).armed();
    // The gate has its own keys; below it are those that work besides.
    assert!(
        gate.frame().contains("║ enter answer  1-5 choose  "),
        "{}",
        gate.frame()
    );
    assert_eq!(last(&mut gate).trim(), "? keys  q leave");
    gate.press("esc");
    // The note about the open gate goes with the next key.
    gate.press("j");
    assert!(
        last(&mut gate).starts_with(" g answer"),
        "{}",
        last(&mut gate)
    );
    screen.send(ScreenEvent::Read(ViewerModal::new("text", "text", "")));
    assert!(!last(&mut screen).contains("next error"));
}

#[test]
fn help_begins_with_the_keys_of_the_pane_and_the_palette_with_what_is_useful() {
    let mut screen = Screen::of(&samples::first_turn(), SMALL);
    screen.press("3 ?");
    let second = screen.frame().lines().nth(1).unwrap_or_default().to_owned();
    assert!(second.contains("Pending"), "{}", screen.frame());
    screen.press("esc 1 :");
    let commands: Vec<String> = screen.frame().lines().map(str::to_owned).collect();
    let first = commands
        .iter()
        .position(|line| line.contains("› "))
        .map(|at| commands[at + 1].clone());
    assert!(
        first
            .as_deref()
            .is_some_and(|line| line.contains("Open or close the row")),
        "{commands:?}"
    );
    screen.press("esc");
    // What the user used most comes before what was never used, if both are of no special use now.
    screen.press("alt-s : ");
    let frame = screen.frame();
    let at = |words: &str| frame.lines().position(|line| line.contains(words));
    let (submit, quit) = (at("Submit the work"), at("Leave; asks"));
    assert!(
        submit.is_some_and(|submit| quit.is_none_or(|quit| submit < quit)),
        "{frame}"
    );
}

#[test]
fn panes_without_content_are_one_line_that_says_how_to_fill_them() {
    let mut screen = Screen::of(&samples::works(), WIDE);
    let frame = screen.frame();
    // Beside the stream would be nothing, so they are below it.
    for line in [
        "\n  2 Hooks  No hooks. Add some under `hooks:` in creel.yaml",
        "\n  3 Pending  Nothing to send. Hooks with `pipe_output: true` add items",
        "\n  4 Retries  ○○○○○  None in this iteration. A stop hook that blocks uses one",
        "\n  5 Tasks  No tasks. Press a to add one",
    ] {
        assert!(frame.contains(line), "no `{line}`:\n{frame}");
    }
    assert!(
        frame.contains(&format!("┏ 1 Stream {}┓", "━".repeat(108))),
        "{frame}"
    );
    // A click there is no drag of the split.
    screen.click_on("3 Pending");
    assert_eq!(
        (screen.model.panes.focus, screen.model.panes.drags),
        (Pane::Pending, false)
    );
    screen.press("5");
    assert!(screen.frame().contains("▌ 5 Tasks"), "{}", screen.frame());
}

#[test]
fn a_queued_message_leaves_a_mark() {
    let mut world = samples::first_turn();
    world.command(creel::engine::input::SessionCommand::Message {
        text: "Use the lexer".into(),
    });
    for size in [(60, 16), SMALL, WIDE] {
        let frame = Screen::of(&world, size).frame();
        assert!(frame.contains("1 message"), "{size:?}\n{frame}");
    }
}

#[test]
fn a_row_without_a_text_leaves_the_detail_to_the_goal() {
    let mut screen = Screen::of(&samples::talkative(), (200, 50));
    assert!(
        screen.frame().contains("╭ Goal ──") && screen.frame().contains("│ GOAL "),
        "{}",
        screen.frame()
    );
}

#[test]
fn texts_do_not_touch_their_frames() {
    let mut screen = Screen::of(&samples::sent_back_twice(), WIDE);
    let frame = screen.frame();
    for row in [
        "│ session_start ",
        "│ ▌ git log ",
        " piped │",
        "│ ▌ ✓ git log ",
        "│ errors 0 of 3",
    ] {
        assert!(frame.contains(row), "no `{row}`:\n{frame}");
    }
}

#[test]
fn a_narrow_pane_says_when_an_item_is_sent_and_what_a_task_does() {
    let frame = Screen::of(&samples::delivery(), WIDE).armed().frame();
    assert!(
        frame.contains("☑ cargo clippy  179 B  for the next prompt │"),
        "{frame}"
    );
    let frame = Screen::of(&crate::support::task_samples::planned(), WIDE).frame();
    for (task, state) in [
        ("● task_5 Measure 1 MB of brackets ", " ready │"),
        ("▸ task_2 Read nested lists ", " active │"),
    ] {
        let is_there = frame
            .lines()
            .any(|line| line.contains(task) && line.ends_with(state));
        assert!(is_there, "no `{task}`:\n{frame}");
    }
}

#[test]
fn the_cost_is_shown_once_and_failed_turns_count_at_every_size() {
    for size in [(60, 16), SMALL, WIDE] {
        let frame = Screen::of(&samples::talkative(), size).frame();
        assert_eq!(
            frame.matches("$0.42 \n").count() + frame.matches("$0.42\n").count(),
            1,
            "{size:?}\n{frame}"
        );
        let frame = Screen::of(&samples::backoff(), size).frame();
        assert!(
            frame.contains("errors 1/3") || frame.contains("errors 1 of 3"),
            "{size:?}\n{frame}"
        );
    }
}

#[test]
fn a_hook_that_only_fails_to_run_is_counted_with_its_own_sign() {
    let frame = Screen::of(&samples::first_turn(), SMALL).frame();
    assert!(frame.contains("2 Hooks !1"), "{frame}");
    let frame = Screen::of(&samples::sent_back_twice(), SMALL).frame();
    assert!(frame.contains("2 Hooks ✗1"), "{frame}");
    // Its line in the stream says why; a second line would say the same.
    assert_eq!(frame.matches("timed out").count(), 0, "{frame}");
    let frame = Screen::of(&samples::first_turn(), SMALL).frame();
    assert_eq!(
        frame.matches("timed out").count(),
        2,
        "in the stream and below it:\n{frame}"
    );
}

#[test]
fn a_search_in_a_viewer_begins_at_its_top_and_marks_what_it_finds() {
    let mut screen = Screen::of(&samples::first_turn(), SMALL);
    let text: String = (1..=60)
        .map(|n| format!("line {n}{}\n", if n % 20 == 1 { " FAILED" } else { "" }))
        .collect();
    screen.send(ScreenEvent::Read(ViewerModal::new("text", &text, "")));
    screen.press("/");
    screen.type_text("failed");
    screen.press("enter");
    let (column, row) = screen.find("FAILED");
    assert_eq!(row, 1, "the first line has it:\n{}", screen.frame());
    let selected = screen
        .model
        .look
        .theme
        .style(creel::tui::theme::ThemeRole::Selected);
    assert_eq!(Some(screen.draw()[(column, row)].bg), selected.bg);
    assert!(
        screen.frame().contains("n next match"),
        "the message is visible over the viewer:\n{}",
        screen.frame()
    );
    screen.press("n");
    assert!(
        screen.frame().contains("║ line 21 FAILED"),
        "{}",
        screen.frame()
    );
    screen.press("/");
    screen.type_text("nowhere");
    screen.press("enter");
    assert!(
        screen.frame().contains("Not found: nowhere"),
        "{}",
        screen.frame()
    );
}

/// A viewer of 60 lines over a working session.
fn sixty_lines() -> Screen {
    let mut screen = Screen::of(&samples::first_turn(), SMALL);
    let text: String = (1..=60).map(|n| format!("line {n}\n")).collect();
    screen.send(ScreenEvent::Read(ViewerModal::new("text", &text, "")));
    screen
}

#[test]
fn marked_lines_of_a_viewer_are_copied() {
    let copied = |text: &str| vec![ScreenRequest::Copy(text.to_owned())];
    let mut screen = sixty_lines();
    assert_eq!(screen.press("j v y"), copied("line 2"));
    assert_eq!(screen.press("v j j y"), copied("line 2\nline 3\nline 4"));
    screen.press("shift-down shift-down");
    assert!(screen.frame().contains("3 lines marked  y copy"));
    let (column, row) = screen.find("line 4");
    let selected = screen
        .model
        .look
        .theme
        .style(creel::tui::theme::ThemeRole::Selected);
    assert_eq!(Some(screen.draw()[(column, row)].bg), selected.bg);
    assert_eq!(screen.press("shift-up y"), copied("line 2\nline 3"));
    screen.press("v end");
    assert!(screen.frame().contains("59 lines marked"));
    assert!(screen.frame().contains("║ line 60 "), "{}", screen.frame());
    screen.press("esc");
    assert!(
        screen.frame().contains("line 40 of 60"),
        "{}",
        screen.frame()
    );
    let all = screen.press("y");
    assert!(
        matches!(&all[..], [ScreenRequest::Copy(text)] if text.starts_with("line 1\n")),
        "{all:?}"
    );
    screen.press("esc");
    assert!(screen.model.modals.is_empty());
}

#[test]
fn a_search_extends_the_mark_and_a_large_mark_is_copied_only_on_demand() {
    let mut screen = Screen::of(&samples::first_turn(), SMALL);
    let text: String = (1..=20_000).map(|n| format!("line {n}\n")).collect();
    screen.send(ScreenEvent::Read(ViewerModal::new("text", &text, "")));
    screen.press("v /");
    screen.type_text("line 9999");
    screen.press("enter");
    assert!(
        screen.frame().contains("9,999 lines marked"),
        "{}",
        screen.frame()
    );
    assert_eq!(screen.press("y"), []);
    assert!(screen.frame().contains("y again copies it"));
    let copied = screen.press("y");
    assert!(
        matches!(&copied[..], [ScreenRequest::Copy(text)] if text.ends_with("line 9999")),
        "the mark is still there: {copied:?}"
    );
}

#[test]
fn matches_are_counted_in_long_texts_and_in_lists() {
    let found = |screen: &mut Screen, text: &str| {
        screen.press("/");
        screen.type_text(text);
        screen.press("enter");
        let toast = screen.model.toast.take();
        let toast = toast.map(|toast| toast.text).unwrap_or_default();
        toast.split("  ").next().unwrap_or_default().to_owned()
    };
    let mut screen = Screen::of(&samples::first_turn(), SMALL);
    let text: String = (1..=250_000).map(|n| format!("line {n}\n")).collect();
    screen.send(ScreenEvent::Read(ViewerModal::new("text", &text, "")));
    assert_eq!(found(&mut screen, "line"), "Match 1 of 100,000+");
    assert_eq!(found(&mut screen, "00"), "Match 1 of 2,701+");
    assert_eq!(found(&mut screen, "99999"), "Match 1 of 1+");
    let mut tasks = Screen::of(&crate::support::task_samples::planned(), SMALL);
    tasks.press("5");
    assert_eq!(found(&mut tasks, "the"), "Match 1 of 4");
}

#[test]
fn help_at_a_gate_begins_with_the_keys_of_gates() {
    let mut screen = Screen::of(&samples::retry_limit(), SMALL).armed();
    screen.press("?");
    let second = screen.frame().lines().nth(1).unwrap_or_default().to_owned();
    assert!(second.contains("Gates"), "{}", screen.frame());
}

#[test]
fn a_question_is_answered_by_a_digit_by_enter_and_by_a_click() {
    let mut screen = Screen::of(&samples::first_turn(), SMALL);
    let cancels = [ScreenRequest::Command(
        creel::engine::input::SessionCommand::CancelTurn,
    )];
    assert_eq!(
        screen.press("X enter"),
        [],
        "the answer that changes nothing is chosen first"
    );
    assert_eq!(screen.press("X 1"), cancels);
    assert_eq!(screen.press("X k enter"), cancels);
    screen.press("X");
    assert!(
        screen
            .frame()
            .contains("1  Cancel it     and pause, so that"),
        "{}",
        screen.frame()
    );
    assert_eq!(screen.click_on("Let it work"), []);
    assert!(screen.model.modals.is_empty());
    screen.press("X");
    assert_eq!(screen.click_on("Cancel it"), cancels);
}
