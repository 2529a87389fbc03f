//! Frames: the whole screen as text, for every pane and every dialog.

use expect_test::{ExpectFile, expect, expect_file};

use crate::support::{
    samples,
    screen::Screen,
    task_samples,
    world::{World, completes},
};
use creel::{
    config::{HintMode, ThemeName as Choice},
    engine::{
        conversation::{AgentUpdate, ToolCall, ToolKind},
        ids::ItemId,
        input::SessionCommand,
    },
    process::playback_pace::{PlaybackMode, PlaybackPace},
    tui::{
        modals::viewer::ViewerModal,
        request::{CloseBehavior, ScreenEvent, ScreenRequest},
        theme::{ScreenTheme, ThemeRole},
    },
};

const LARGE: (u16, u16) = (200, 60);
const MIDDLE: (u16, u16) = (120, 40);
const SMALL: (u16, u16) = (80, 24);

#[expect(
    clippy::needless_pass_by_value,
    reason = "so that the frame's name stands in its test"
)]
fn shows(mut screen: Screen, expected: ExpectFile) {
    expected.assert_eq(&screen.frame());
}

fn pressed(world: &World, size: (u16, u16), keys: &str) -> Screen {
    let mut screen = Screen::of(world, size).armed();
    screen.press(keys);
    screen
}

#[test]
fn a_screen_before_the_first_record() {
    let mut world = samples::first_turn();
    world.events.clear();
    shows(
        Screen::of(&world, SMALL),
        expect_file!["../../frames/empty-80.txt"],
    );
}

#[test]
fn a_turn_was_sent_back() {
    let world = samples::sent_back_twice();
    shows(
        pressed(&world, MIDDLE, "t home z"),
        expect_file!["../../frames/stream-from-the-top-120.txt"],
    );
}

#[test]
fn a_line_explains_what_is_going_on_where_there_is_room() {
    let hinted = |world: &World, size| {
        let mut screen = Screen::of(world, size).armed();
        screen.model.hint.mode = HintMode::Always;
        screen
    };
    let world = samples::sent_back_twice();
    shows(
        hinted(&world, MIDDLE),
        expect_file!["../../frames/hint-120.txt"],
    );
    shows(
        hinted(&world, SMALL),
        expect_file!["../../frames/hint-80.txt"],
    );
    shows(
        hinted(&samples::final_delivery(), SMALL),
        expect_file!["../../frames/hint-gate-80.txt"],
    );
    assert!(
        !hinted(&world, (60, 16)).frame().contains("» "),
        "a small screen needs its rows"
    );
    let mut hidden = hinted(&world, SMALL);
    assert_eq!(hidden.press("h"), [ScreenRequest::Remember]);
    assert!(!hidden.frame().contains("» "));
    hidden.press("h");
    assert!(hidden.frame().contains("» "));
    let mut replay = Screen::replay(&world, SMALL, 5);
    replay.model.hint.mode = HintMode::Always;
    assert!(!replay.frame().contains("» "));
}

#[test]
fn the_demo_names_its_own_keys() {
    let mut screen = Screen::of(&samples::sent_back_twice(), SMALL);
    screen.model.hint.mode = HintMode::Always;
    screen.model.link.demo = Some(PlaybackPace::default());
    let footer = |screen: &mut Screen| screen.frame().lines().last().unwrap_or_default().to_owned();
    assert_eq!(
        footer(&mut screen),
        " space pause  any key skip ahead  q leave"
    );
    let skipped = PlaybackPace {
        skips: 1,
        mode: PlaybackMode::Play,
    };
    assert_eq!(screen.press("x"), [ScreenRequest::SetPace(skipped)]);
    let paused = PlaybackPace {
        mode: PlaybackMode::Paused,
        ..skipped
    };
    assert_eq!(screen.press("space"), [ScreenRequest::SetPace(paused)]);
    screen.press("q");
    let frame = screen.frame();
    assert!(
        frame.contains("Leave the demo?") && !frame.contains("The session is still"),
        "{frame}"
    );
    screen.press("esc");
    shows(screen, expect_file!["../../frames/demo-paused-80.txt"]);
    let mut small = Screen::of(&samples::sent_back_twice(), (60, 16));
    small.model.hint.mode = HintMode::Always;
    small.model.link.demo = Some(PlaybackPace::default());
    shows(small, expect_file!["../../frames/demo-60.txt"]);
}

#[test]
fn an_editor_over_the_retry_gate_leaves_the_failure_visible() {
    let world = samples::retry_limit();
    let writes = |size| {
        let mut screen = pressed(&world, size, "2");
        screen.type_text("Try another way.");
        screen
    };
    shows(
        writes((60, 16)),
        expect_file!["../../frames/gate-retry-write-60.txt"],
    );
    shows(
        writes(SMALL),
        expect_file!["../../frames/gate-retry-write-80.txt"],
    );
    shows(
        writes((120, 35)),
        expect_file!["../../frames/gate-retry-write-120.txt"],
    );
    shows(
        writes((200, 50)),
        expect_file!["../../frames/gate-retry-write-200.txt"],
    );
}

#[test]
fn what_an_agent_says_has_a_gutter_at_every_size() {
    let mut world = samples::works();
    let text = "# Plan\n## Steps\n### Later\n> They said *no*.\n1. See [the docs](https://example.org/docs).\n\
                - [x] `parse` is **done**\n\n---\n✓ stop: cargo test passed · exit 0 · 1.2s\n";
    samples::agent(&mut world, AgentUpdate::Message(text.into()));
    world.command(SessionCommand::Message {
        text: "keep the public API as it is".into(),
    });
    let at = |size| Screen::of(&world, size);
    shows(at((60, 16)), expect_file!["../../frames/speakers-60.txt"]);
    shows(at(SMALL), expect_file!["../../frames/speakers-80.txt"]);
    shows(at((120, 35)), expect_file!["../../frames/speakers-120.txt"]);
    shows(at((200, 50)), expect_file!["../../frames/speakers-200.txt"]);
}

#[test]
fn a_selected_row_of_the_terminals_own_theme_is_one_reversed_row() {
    let theme = ScreenTheme::chosen(Choice::Terminal, false);
    let spans = vec![
        theme.span(ThemeRole::Bad, "a"),
        theme.span(ThemeRole::Faint, "b"),
    ];
    let row = theme.selected(spans.into());
    let colours = row.spans.iter().map(|span| (span.style.fg, span.style.bg));
    assert!(colours.into_iter().all(|colours| colours == (None, None)));
}

#[test]
fn the_work_is_submitted() {
    shows(
        Screen::of(&samples::repair(), (40, 12)),
        expect_file!["../../frames/submit-repair-40.txt"],
    );
    shows(
        pressed(&samples::submit_held(), (40, 12), "right"),
        expect_file!["../../frames/gate-submit-40.txt"],
    );
    shows(
        pressed(&samples::submit_held(), SMALL, "right enter"),
        expect_file!["../../frames/gate-submit-write-80.txt"],
    );
    shows(
        Screen::of(&samples::submit_done(), SMALL),
        expect_file!["../../frames/submit-done-80.txt"],
    );
}

#[test]
fn hooks_run_and_ran() {
    let running = samples::hook_runs();
    let run = running.jobs[0].run;
    let with_output = |size, keys| {
        let mut screen = pressed(&running, size, keys);
        let printed =
            b"\x1b[32m   Compiling\x1b[0m parser v0.1.0\nrunning 33 tests\ntest parser::empty ... ";
        screen.model.runs.add_output(run, 0, printed);
        screen.later(12_000);
        screen
    };
    shows(
        with_output(MIDDLE, "2"),
        expect_file!["../../frames/hook-runs-120.txt"],
    );
    shows(
        with_output(SMALL, "2"),
        expect_file!["../../frames/hook-runs-80.txt"],
    );
    shows(
        pressed(&samples::ended(), SMALL, "2 j j"),
        expect_file!["../../frames/hooks-80.txt"],
    );
}

#[test]
fn output_is_pending() {
    let mut world = samples::final_delivery();
    world.command(SessionCommand::EditItem {
        item: ItemId(3),
        text: "one warning is left".into(),
    });
    shows(
        pressed(&world, MIDDLE, "esc 3"),
        expect_file!["../../frames/pending-120.txt"],
    );
    let mut world = samples::delivery();
    world.command(SessionCommand::SkipItem { item: ItemId(2) });
    shows(
        pressed(&world, SMALL, "esc 3 j"),
        expect_file!["../../frames/pending-80.txt"],
    );
    world.answer_gate();
    shows(
        pressed(&world, SMALL, "3"),
        expect_file!["../../frames/pending-with-the-agent-80.txt"],
    );
}

#[test]
fn retries_are_counted() {
    shows(
        pressed(&samples::retry_limit(), SMALL, "esc 4"),
        expect_file!["../../frames/retries-80.txt"],
    );
    shows(
        pressed(&samples::backoff(), SMALL, "4"),
        expect_file!["../../frames/backoff-80.txt"],
    );
}

#[test]
fn the_tasks_pane_is_shown_without_tasks() {
    let mut world = samples::first_turn();
    world.command(completes("7", "Write the lexer"));
    shows(
        pressed(&world, SMALL, "5"),
        expect_file!["../../frames/tasks-none-80.txt"],
    );
}

#[test]
fn tasks_are_listed() {
    let world = task_samples::planned();
    shows(
        pressed(&world, LARGE, "5"),
        expect_file!["../../frames/tasks-200.txt"],
    );
    shows(
        pressed(&world, MIDDLE, "5 j"),
        expect_file!["../../frames/tasks-120.txt"],
    );
    shows(
        pressed(&world, SMALL, "5 j j"),
        expect_file!["../../frames/tasks-80.txt"],
    );
    shows(
        pressed(&world, SMALL, "5 v j t"),
        expect_file!["../../frames/tasks-tree-80.txt"],
    );
    shows(
        pressed(&world, LARGE, "5 t z"),
        expect_file!["../../frames/tasks-tree-200.txt"],
    );
    shows(
        pressed(&world, SMALL, "5 f f f"),
        expect_file!["../../frames/tasks-blocked-80.txt"],
    );
}

#[test]
fn tasks_are_read_written_and_removed() {
    let world = task_samples::planned();
    shows(
        pressed(&world, SMALL, "5 j enter"),
        expect_file!["../../frames/task-80.txt"],
    );
    shows(
        pressed(&world, MIDDLE, "5 end enter"),
        expect_file!["../../frames/task-done-120.txt"],
    );
    shows(
        pressed(&world, SMALL, "5 j R"),
        expect_file!["../../frames/task-remove-80.txt"],
    );
    let mut screen = pressed(&world, SMALL, "5 a");
    screen.type_text("Write the manual");
    screen.press("tab");
    screen.type_text("An example for each command.");
    screen.press("tab tab tab");
    screen.type_text("tsk_5");
    screen.press("ctrl-s");
    shows(screen, expect_file!["../../frames/task-new-80.txt"]);
}

#[test]
fn tasks_are_changed_and_ended() {
    let world = task_samples::planned();
    shows(
        pressed(&world, SMALL, "5 j e"),
        expect_file!["../../frames/task-change-80.txt"],
    );
    shows(
        pressed(&world, SMALL, "5 d"),
        expect_file!["../../frames/task-result-80.txt"],
    );
    let mut screen = pressed(&world, SMALL, "5 B");
    screen.type_text("The disk is full");
    let asks = screen.press("ctrl-s");
    let [ScreenRequest::Command(command)] = &asks[..] else {
        panic!("{asks:?}")
    };
    screen.send(ScreenEvent::Refused(
        command.clone(),
        "there is no task task_5".into(),
    ));
    shows(screen, expect_file!["../../frames/task-refused-80.txt"]);
}

#[test]
fn hook_statistics_are_shown() {
    shows(
        pressed(&samples::ended(), SMALL, "2 s"),
        expect_file!["../../frames/hook-stats-80.txt"],
    );
}

#[test]
fn an_item_is_left_out_at_a_gate() {
    shows(
        pressed(&samples::delivery(), SMALL, "j space"),
        expect_file!["../../frames/gate-delivery-80.txt"],
    );
}

#[test]
fn a_permission_request_is_shown() {
    let world = samples::permission();
    shows(
        pressed(&world, SMALL, "right page-down page-down"),
        expect_file!["../../frames/gate-permission-read-80.txt"],
    );
    shows(
        pressed(&world, (40, 12), "left left"),
        expect_file!["../../frames/gate-permission-40.txt"],
    );
    let mut by_name = samples::works();
    let write = ToolCall {
        title: "write".into(),
        kind: Some(ToolKind::Other),
        input: Some("{\"path\": \"src/lib.rs\", \"content\": \"mod parser;\"}".into()),
        ..ToolCall::default()
    };
    samples::asks(&mut by_name, write, samples::usual_options());
    shows(
        Screen::of(&by_name, SMALL).armed(),
        expect_file!["../../frames/gate-permission-by-name-80.txt"],
    );
    let alike = samples::permission_with(samples::options_alike());
    shows(
        pressed(&alike, SMALL, "right"),
        expect_file!["../../frames/gate-permission-alike-80.txt"],
    );
    shows(
        Screen::of(&samples::long_command(), SMALL).armed(),
        expect_file!["../../frames/gate-permission-command-80.txt"],
    );
}

#[test]
fn several_questions_are_answered_in_a_form() {
    shows(
        Screen::of(&samples::questions(), SMALL).armed(),
        expect_file!["../../frames/gate-questions-80.txt"],
    );
    shows(
        pressed(&samples::questions(), SMALL, "w"),
        expect_file!["../../frames/gate-questions-form-80.txt"],
    );
}

#[test]
fn the_agent_changed_files_that_it_must_not_change() {
    let world = samples::tampered();
    shows(
        pressed(&world, (40, 12), "right"),
        expect_file!["../../frames/gate-tampered-40.txt"],
    );
}

#[test]
fn a_budget_is_used_up() {
    let world = samples::budget();
    shows(
        pressed(&world, (40, 12), "right"),
        expect_file!["../../frames/gate-budget-40.txt"],
    );
}

#[test]
fn every_kind_of_agent_update_is_shown() {
    let world = samples::talkative();
    // Everything else is folded, and the tool calls are open.
    let mut screen = Screen::of(&world, MIDDLE);
    screen.press("z /");
    screen.type_text("replace_all");
    screen.press("enter /");
    screen.type_text("32 passed");
    screen.press("enter / enter home");
    shows(screen, expect_file!["../../frames/tools-unfolded-120.txt"]);
}

#[test]
fn a_gate_that_just_opened_accepts_no_answer_and_aborting_asks_once_more() {
    let world = samples::broken_hook();
    shows(
        Screen::of(&world, SMALL),
        expect_file!["../../frames/gate-unarmed-80.txt"],
    );
    shows(
        pressed(&world, SMALL, "left enter"),
        expect_file!["../../frames/gate-abort-80.txt"],
    );
}

#[test]
fn a_gate_closed_for_later_is_named_in_the_status_line() {
    let mut screen = pressed(&samples::retry_limit(), MIDDLE, "esc");
    expect![" story · demo   ◆ NEEDS YOU: retry limit since 00:00                             iteration 1/20  retries ●●●  pending 0"]
        .assert_eq(screen.frame().lines().next().expect("a status line"));
}

#[test]
fn the_editor_is_shown() {
    let world = samples::first_turn();
    let mut screen = pressed(&world, SMALL, "m");
    screen.type_text("Please look at the lexer first.");
    screen.press("enter enter");
    screen.type_text("日本語 works, too 🎣.");
    shows(screen, expect_file!["../../frames/editor-message-80.txt"]);
    let mut screen = pressed(&samples::delivery(), MIDDLE, "j e");
    screen.press("enter");
    screen.type_text("Only the first one matters.");
    screen.press("ctrl-d");
    shows(screen, expect_file!["../../frames/editor-change-120.txt"]);
}

#[test]
fn the_viewer_is_shown() {
    let text: String = (1..=40)
        .map(|n| format!("line {n}\tof the output\n"))
        .collect();
    let viewer = ViewerModal::new("run 3 · stop · cargo test", &text, "1 MB, the first 8 kB");
    let mut screen = Screen::of(&samples::first_turn(), SMALL);
    screen.send(ScreenEvent::Read(viewer));
    screen.press("j j");
    shows(screen, expect_file!["../../frames/viewer-80.txt"]);
    shows(
        pressed(&samples::sent_back_twice(), SMALL, "3 v"),
        expect_file!["../../frames/preview-80.txt"],
    );
}

#[test]
fn the_models_that_the_agent_offers_are_shown() {
    let mut world = samples::works();
    for (what, text) in [("models", "opus\nsonnet\nhaiku"), ("model", "sonnet")] {
        samples::agent(
            &mut world,
            AgentUpdate::Noted {
                what: what.into(),
                text: text.into(),
            },
        );
    }
    let mut screen = pressed(&world, SMALL, ":");
    screen.type_text("model");
    screen.press("enter");
    shows(screen, expect_file!["../../frames/models-80.txt"]);
}

#[test]
fn help_palette_search_and_quit_are_shown() {
    let world = samples::first_turn();
    shows(
        pressed(&world, MIDDLE, "?"),
        expect_file!["../../frames/help-120.txt"],
    );
    let mut palette = pressed(&world, SMALL, ":");
    palette.type_text("iter");
    palette.press("down");
    shows(palette, expect_file!["../../frames/palette-80.txt"]);
    let mut search = pressed(&world, SMALL, "/");
    search.type_text("lexer");
    expect!["/lexer▏                                                  enter find  esc cancel"]
        .assert_eq(search.frame().lines().last().expect("a search line"));
    shows(
        pressed(&world, SMALL, "q"),
        expect_file!["../../frames/quit-80.txt"],
    );
    let mut loose = Screen::of(&world, SMALL);
    loose.model.link.tie = CloseBehavior::Loose;
    loose.press("q");
    shows(loose, expect_file!["../../frames/quit-loose-80.txt"]);
}

#[test]
fn a_replay_is_shown() {
    let world = samples::ended();
    let mut screen = Screen::replay(&world, SMALL, 30);
    screen.press("+ +");
    shows(screen, expect_file!["../../frames/replay-80.txt"]);
    let limit = samples::retry_limit();
    let mut screen = Screen::replay(&limit, SMALL, limit.events.len());
    screen.press("+ +");
    expect![" story   ◆ NEEDS YOU: retry limit since 00:00   replay 0:12 of 0:12 paused · 4x"]
        .assert_eq(screen.frame().lines().next().expect("a status line"));
    screen.press("g");
    shows(screen, expect_file!["../../frames/replay-gate-80.txt"]);
}

#[test]
fn there_is_a_frame_for_every_size() {
    let world = samples::retry_limit();
    shows(
        pressed(&world, (40, 12), "esc"),
        expect_file!["../../frames/tiny-40.txt"],
    );
    shows(
        Screen::of(&world, (40, 12)).armed(),
        expect_file!["../../frames/gate-retry-limit-40.txt"],
    );
    shows(
        Screen::of(&world, (24, 6)).armed(),
        expect_file!["../../frames/gate-retry-limit-24.txt"],
    );
    shows(
        pressed(&world, (24, 6), "esc"),
        expect_file!["../../frames/tiny-24.txt"],
    );
    shows(
        pressed(&world, (40, 12), "esc q"),
        expect_file!["../../frames/quit-40.txt"],
    );
    shows(
        pressed(&world, (40, 12), "esc m"),
        expect_file!["../../frames/editor-message-40.txt"],
    );
    shows(
        Screen::of(&world, (40, 12)),
        expect_file!["../../frames/gate-unarmed-40.txt"],
    );
    expect![[r#"
        Terminal too small




    "#]]
    .assert_eq(&Screen::of(&world, (20, 5)).frame());
    for (width, height) in [
        (0, 0),
        (1, 1),
        (24, 6),
        (25, 7),
        (59, 15),
        (60, 16),
        (99, 19),
        (100, 20),
        (300, 100),
    ] {
        for keys in [
            "",
            "esc",
            "esc 2",
            "esc 3",
            "esc 4",
            "esc 5 z",
            "esc 5 a",
            "esc 5 t",
            "right enter",
            "esc ?",
            "esc :",
            "esc /",
            "esc q",
        ] {
            pressed(&world, (width, height), keys).frame();
        }
    }
}

#[test]
fn the_styles_of_every_theme() {
    let themes = [
        (
            ScreenTheme::chosen(Choice::Dark, false),
            expect_file!["../../frames/styles-dark.txt"],
        ),
        (
            ScreenTheme::chosen(Choice::HighContrast, false),
            expect_file!["../../frames/styles-high-contrast.txt"],
        ),
        (
            ScreenTheme::chosen(Choice::Light, true),
            expect_file!["../../frames/styles-plain.txt"],
        ),
    ];
    for (theme, expected) in themes {
        let mut screen = Screen::in_looks(&samples::sent_back_twice(), MIDDLE, theme.clone());
        let mut gate = Screen::in_looks(&samples::delivery(), SMALL, theme).armed();
        expected.assert_eq(&format!("{}\n{}", screen.styles(), gate.styles()));
    }
}

#[test]
fn the_styles_of_a_permission_request_and_of_a_budget() {
    let themes = [
        (
            ScreenTheme::chosen(Choice::Dark, false),
            expect_file!["../../frames/styles-permission-dark.txt"],
        ),
        (
            ScreenTheme::chosen(Choice::HighContrast, false),
            expect_file!["../../frames/styles-permission-high-contrast.txt"],
        ),
    ];
    for (theme, expected) in themes {
        let mut request = Screen::in_looks(&samples::permission(), SMALL, theme.clone()).armed();
        let mut budget = Screen::in_looks(&samples::budget(), SMALL, theme).armed();
        expected.assert_eq(&format!("{}\n{}", request.styles(), budget.styles()));
    }
}

#[test]
fn the_styles_of_tasks() {
    let themes = [
        (
            ScreenTheme::chosen(Choice::Dark, false),
            expect_file!["../../frames/styles-tasks-dark.txt"],
        ),
        (
            ScreenTheme::chosen(Choice::HighContrast, false),
            expect_file!["../../frames/styles-tasks-high-contrast.txt"],
        ),
    ];
    for (theme, expected) in themes {
        let mut screen = Screen::in_looks(&task_samples::planned(), SMALL, theme);
        screen.press("5 j");
        expected.assert_eq(&screen.styles());
    }
}

#[test]
fn without_colours_no_cell_has_one() {
    let mut screen = Screen::in_looks(
        &samples::ended(),
        MIDDLE,
        ScreenTheme::chosen(Choice::Dark, true),
    );
    screen.model.say(ThemeRole::Bad, "no");
    let plain = ratatui::style::Color::Reset;
    assert!(
        screen
            .draw()
            .content
            .iter()
            .all(|cell| cell.fg == plain && cell.bg == plain)
    );
}

#[test]
fn a_lost_nats_server_is_shown_on_a_screen_of_usual_size() {
    let why =
        "cannot reach nats://build.example.org:4222: connection refused; it is tried again in 8 s";
    let status = |size, behind| {
        let mut screen = Screen::of(&samples::first_turn(), size);
        screen.model.link.nats = Some(creel::protocol::NatsStatus::Away {
            why: why.into(),
            behind,
        });
        screen.frame().lines().next().unwrap_or_default().to_owned()
    };
    assert!(
        status((80, 24), 12).contains("  nats: away, 12 behind"),
        "{}",
        status((80, 24), 12)
    );
    assert!(
        status((80, 24), 0).contains("  nats: away"),
        "{}",
        status((80, 24), 0)
    );
    assert!(
        status((200, 24), 12).contains(&format!("nats: {why}, 12 records behind")),
        "{}",
        status((200, 24), 12)
    );
    assert!(
        status((40, 12), 12).contains("iteration 1/20"),
        "{}",
        status((40, 12), 12)
    );
}
