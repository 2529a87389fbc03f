//! Keys and clicks: the screen before, the input, the screen after, and the requests to the
//! session.

use crossterm::event::MouseEventKind;
use expect_test::expect;

use crate::support::{
    samples,
    screen::Screen,
    world::{Answer, DONE, Ran, Script, World, blocks, breaks, completes, exits, passes, prints},
};
use creel::{
    config::HintMode,
    engine::{
        conversation::{
            AgentUpdate, FileLocation, PermissionAnswer, PermissionOption, PermissionOptionKind,
            ToolCall, ToolStatus, TurnUsage,
        },
        event::{Event, GateEvent, HookEvent, SessionEvent, StopEvent, StopTiming, TurnEvent},
        gate::kind::GateChoice,
        hooks::{
            point::HookPoint,
            verdict::{RunEnd, Verdict},
        },
        ids::{GateId, ItemId, PermissionId},
        input::{GateAnswer, SessionCommand},
        policy::PermissionPolicy,
        refusal::{ByHandObstacle, Refusal},
        submit::kind::PipelineKind,
        time::TimeSpan,
    },
    tui::{
        modals::{Modal, viewer::ViewerModal},
        model::{Pane, ScreenMode},
        request::{CloseBehavior, ScreenEvent, ScreenRequest},
        stream::StreamPosition,
    },
};

const WIDE: (u16, u16) = (120, 40);
const SMALL: (u16, u16) = (80, 24);

fn asked(command: SessionCommand) -> Vec<ScreenRequest> {
    vec![ScreenRequest::Command(command)]
}

fn answer(choice: GateChoice) -> Vec<ScreenRequest> {
    asked(SessionCommand::AnswerGate(GateAnswer {
        gate: GateId(1),
        choice,
        text: None,
        items: None,
    }))
}

fn toast(screen: &Screen) -> &str {
    screen.model.toast.as_ref().map_or("", |toast| &toast.text)
}

fn at_gate(screen: &Screen) -> bool {
    matches!(screen.model.modals.last(), Some(Modal::Gate(_)))
}

/// A session that prints many lines, in its second iteration.
fn talks() -> World {
    let mut world = samples::until(World::begin(samples::eventful()), |world| {
        world.state.iterations.current == 2 && world.turn.is_some()
    });
    for n in 1..=100 {
        samples::agent(&mut world, AgentUpdate::Message(format!("line {n}\n")));
    }
    world
}

#[test]
fn a_model_is_chosen_from_those_that_the_agent_offers() {
    let offers = |what: &str| {
        let mut world = samples::works();
        for (what, text) in [(what, "opus\nsonnet\nhaiku"), ("model", "opus")] {
            let (what, text) = (what.into(), text.into());
            samples::agent(&mut world, AgentUpdate::Noted { what, text });
        }
        let mut screen = Screen::of(&world, SMALL).armed();
        screen.press(":");
        screen.type_text("model");
        screen.press("enter");
        screen
    };
    let chosen = |model: Option<&str>| {
        asked(SessionCommand::SetModel {
            model: model.map(Into::into),
        })
    };
    assert_eq!(offers("models").press("down enter"), chosen(Some("sonnet")));
    assert_eq!(offers("models").click_on("haiku"), chosen(Some("haiku")));
    assert_eq!(offers("models").press("up enter"), chosen(None));
    let mut typed = offers("models");
    typed.type_text("son");
    assert_eq!(typed.press("enter"), chosen(Some("sonnet")));
    let mut other = offers("models");
    other.type_text("gpt-9");
    assert_eq!(other.press("enter"), [], "the agent has no such model");
    let mut listed_in_part = offers("some_models");
    listed_in_part.type_text("gpt-9");
    assert_eq!(listed_in_part.press("enter"), chosen(Some("gpt-9")));
}

#[test]
fn tab_numbers_and_clicks_focus_a_pane() {
    let world = samples::first_turn();
    for size in [WIDE, SMALL] {
        let mut screen = Screen::of(&world, size);
        let mut after = |keys| {
            screen.press(keys);
            screen.model.panes.focus
        };
        assert_eq!(
            [
                after("tab"),
                after("tab tab"),
                after("tab"),
                after("tab"),
                after("shift-tab"),
                after("3")
            ],
            [
                Pane::Hooks,
                Pane::Retries,
                Pane::Tasks,
                Pane::Stream,
                Pane::Tasks,
                Pane::Pending
            ]
        );
        screen.click_on("Retries");
        assert_eq!(screen.model.panes.focus, Pane::Retries);
        screen.click_on("Stream");
        assert_eq!(screen.model.panes.focus, Pane::Stream);
    }
}

#[test]
fn the_tab_of_the_visible_pane_has_its_name_at_every_size() {
    let mut screen = Screen::of(&samples::first_turn(), (24, 6));
    screen.press("5");
    assert_eq!(screen.frame().lines().nth(1), Some(" 1  2  3  4  5 Tasks"));
    screen.click_on(" 3 ");
    assert_eq!(
        screen.frame().lines().nth(1),
        Some(" 1  2  3 Pending  4  5")
    );
}

#[test]
fn a_pane_is_zoomed_and_restored() {
    let mut screen = Screen::of(&samples::first_turn(), WIDE);
    let before = screen.frame();
    screen.press("4 z");
    assert!(!screen.frame().contains("Pending ·"));
    screen.press("z 1");
    assert_eq!(screen.frame(), before);
}

#[test]
fn the_view_stays_while_it_does_not_follow_the_end() {
    let mut world = talks();
    let mut screen = Screen::of(&world, SMALL);
    assert_eq!(screen.model.stream.position(), StreamPosition::Follow);
    screen.press("page-up k");
    let seen = screen.model.frame.lines.clone();
    for n in 101..=150 {
        samples::agent(&mut world, AgentUpdate::Message(format!("line {n}\n")));
    }
    let world = samples::until(world, |world| world.state.iterations.current == 3);
    screen.see(&world);
    assert_eq!(screen.model.frame.lines, seen);
    assert!(
        screen.frame().contains("○ scrolled back · G to the end"),
        "{}",
        screen.frame()
    );
    screen.press("end");
    assert_eq!(screen.model.stream.position(), StreamPosition::Follow);
    assert!(screen.frame().contains("iteration 3"));
}

#[test]
fn scrolling_down_to_the_end_follows_again() {
    let mut screen = Screen::of(&talks(), SMALL);
    screen.press("k k k");
    assert_ne!(screen.model.stream.position(), StreamPosition::Follow);
    screen.press("j j j");
    assert_eq!(screen.model.stream.position(), StreamPosition::Follow);
    screen.press("page-up page-up page-down page-down");
    assert_eq!(screen.model.stream.position(), StreamPosition::Follow);
}

#[test]
fn the_view_keeps_following_while_everything_is_visible() {
    let mut screen = Screen::of(&samples::first_turn(), SMALL);
    screen.press("k page-up");
    assert_eq!(screen.model.stream.position(), StreamPosition::Follow);
    screen.press("home");
    assert_ne!(screen.model.stream.position(), StreamPosition::Follow);
}

#[test]
fn the_wheel_scrolls_the_pane_under_the_mouse() {
    let mut screen = Screen::of(&talks(), WIDE);
    screen.press("2");
    let (column, row) = screen.find("line 99");
    screen.mouse(MouseEventKind::ScrollUp, column, row);
    assert_eq!(screen.model.panes.focus, Pane::Stream);
    assert!(!screen.frame().contains("line 98"));
    screen.mouse(MouseEventKind::ScrollDown, column, row);
    assert_eq!(screen.model.stream.position(), StreamPosition::Follow);
}

fn first_line(screen: &Screen) -> String {
    let lines = screen.model.frame.lines.iter().map(ToString::to_string);
    lines
        .map(|line| line.trim().to_owned())
        .find(|line| !line.is_empty())
        .unwrap_or_default()
}

#[test]
fn keys_jump_between_iterations_and_errors() {
    let mut screen = Screen::of(&samples::ended(), SMALL);
    let mut after = |keys| {
        screen.press(keys);
        format!("{keys}: {}\n", first_line(&screen))
    };
    let jumps: String = ["[", "[", "[", "]", "home", "e", "e", "e", "E", "end", "E"]
        .map(&mut after)
        .concat();
    expect![[r#"
        [: ITERATION 3 ────────────────────────────────────────────────────── 00:00:20
        [: ▸  2  ✗ failed              2s
        [: ▸  1  ✗✗✓ cargo test       15s  Nested lists, too.
        ]: ▸  2  ✗ failed              2s
        home: ● Session started · agent demo · up to 20 iterations
        e: ! pre_iteration: disk space failed · timed out · 1.2s
        e: ▸ ✗ ◇ cargo build · failed                                             0.4s
        e: ▾ ✗ stop: cargo test blocked · exit 2 · 1.2s
        E: ▸ ✗ ◇ cargo build · failed                                             0.4s
        end: ▸  2  ✗ failed              2s
        E: ✗ Iteration 2 failed
    "#]]
    .assert_eq(&jumps);
    screen.press("end ]");
    assert_eq!(
        toast(&screen),
        "No iteration after this point: this is the first one"
    );
    assert!(
        first_line(&screen).contains("ITERATION 1"),
        "{}",
        first_line(&screen)
    );
    screen.press("home E");
    assert_eq!(
        toast(&screen),
        "No error before this point: this is the last one"
    );
    let mut calm = Screen::of(&samples::works(), SMALL);
    calm.press("e");
    assert_eq!(toast(&calm), "No error so far");
    calm.press("home ]");
    calm.press("]");
    assert_eq!(toast(&calm), "No other iteration");
}

#[test]
fn blocks_are_folded_and_unfolded() {
    let mut screen = Screen::of(&samples::first_turn(), SMALL);
    let folded = screen.frame();
    assert!(!folded.contains("First the lexer."));
    screen.press("t");
    assert!(screen.frame().contains("First the lexer."));
    screen.press("t home j");
    assert!(!screen.frame().contains("keep the places"));
    screen.press("enter");
    assert!(
        screen
            .frame()
            .contains("    4f2a1c parser: keep the places")
    );
    screen.press("enter end");
    assert_eq!(screen.frame(), folded);
}

#[test]
fn a_tool_call_is_not_confused_with_one_of_an_earlier_turn() {
    let mut world = samples::talkative();
    samples::spends(&mut world, TurnUsage::default());
    let mut world = samples::until(world, |world| world.turn.is_some());
    samples::uses_tools(&mut world);
    let mut screen = Screen::of(&world, (100, 80));
    screen.press("z home");
    screen.click_on(" 2  ✓ done");
    assert_eq!(
        screen.frame().matches("Read the parser").count(),
        2,
        "{}",
        screen.frame()
    );
}

#[test]
fn the_newest_plan_is_open_and_the_scrolled_view_does_not_move() {
    let mut world = samples::talkative();
    let mut screen = Screen::of(&world, SMALL);
    assert!(screen.frame().contains("    ▸ Test it") && !screen.frame().contains("    ▸ Limit"));
    screen.press("home");
    let seen = screen.model.frame.lines.clone();
    samples::agent(
        &mut world,
        samples::plan(&[("Something else", ToolStatus::Pending)]),
    );
    screen.see(&world);
    assert_eq!(screen.model.frame.lines, seen);
    screen.press("end");
    assert!(screen.frame().contains("    ☐ Something else"));
}

#[test]
fn the_output_of_a_blocking_hook_is_unfolded() {
    let mut screen = Screen::of(&samples::sent_back_twice(), SMALL);
    assert!(screen.frame().contains("    1 failed; 32 passed"));
}

fn search(screen: &mut Screen, text: &str) {
    screen.press("/");
    screen.type_text(text);
    screen.press("enter");
}

#[test]
fn the_search_goes_line_by_line_and_around_the_stream() {
    let mut screen = Screen::of(&talks(), SMALL);
    screen.press("home");
    search(&mut screen, "LINE 1");
    let mut after = |keys| {
        screen.press(keys);
        first_line(&screen)
    };
    assert_eq!(
        [
            after("home n"),
            after("n"),
            after("n"),
            after("N"),
            after("N"),
            after("N")
        ],
        [
            "▎ line 1",
            "▎ line 10",
            "▎ line 11",
            "▎ line 10",
            "▎ line 1",
            "▎ line 100"
        ]
    );
    assert!(
        hinted(&mut screen).contains("n next match  N previous match"),
        "{}",
        hinted(&mut screen)
    );
    search(&mut screen, "nowhere");
    assert_eq!(toast(&screen), "Not found: nowhere");
}

#[test]
fn a_search_begins_at_the_nearest_match_and_counts() {
    let mut screen = Screen::of(&talks(), SMALL);
    search(&mut screen, "line 9");
    assert_eq!(first_line(&screen), "▎ line 99");
    assert!(
        toast(&screen).starts_with("Match 11 of 11  "),
        "{}",
        toast(&screen)
    );
    screen.press("N");
    assert!(
        toast(&screen).starts_with("Match 10 of 11  "),
        "{}",
        toast(&screen)
    );
    let text: String = (1..=60).map(|n| format!("number {n}\n")).collect();
    screen.send(ScreenEvent::Read(ViewerModal::new("text", &text, "")));
    search(&mut screen, "number 5");
    assert!(
        toast(&screen).starts_with("Match 1 of 11  "),
        "{}",
        toast(&screen)
    );
}

#[test]
fn a_large_text_is_copied_only_after_a_second_press() {
    let mut screen = Screen::of(&samples::works(), SMALL);
    let text = "a line\n".repeat(20_000);
    screen.send(ScreenEvent::Read(ViewerModal::new("text", &text, "")));
    assert_eq!(screen.press("y"), []);
    assert_eq!(toast(&screen), "This is 139.9 kB: y again copies it");
    assert_eq!(screen.press("y").len(), 1);
    screen.press("esc home");
    assert_eq!(
        screen.press("y"),
        [ScreenRequest::Copy(
            "● Session started · agent demo · up to 20 iterations".into()
        )]
    );
}

#[test]
fn the_palette_offers_only_what_can_be_done_now() {
    let found = |world: &World, text: &str| {
        let mut screen = Screen::of(world, SMALL);
        screen.press("esc :");
        screen.type_text(text);
        screen.frame()
    };
    let retry = "Send the turn that waits for a usage limit now";
    assert!(!found(&samples::works(), "retry-now").contains(retry));
    assert!(found(&samples::limited(), "retry-now").contains(retry));
    let pause = "Pause or unpause the session";
    assert!(found(&samples::works(), "pause").contains(pause));
    assert!(!found(&samples::ended(), "pause").contains(pause));
}

#[test]
fn a_search_unfolds_its_match() {
    let mut screen = Screen::of(&samples::first_turn(), SMALL);
    search(&mut screen, "first the lexer");
    assert_eq!(first_line(&screen), "▎ First the lexer.");
}

#[test]
fn hooks_items_and_the_viewer_are_searchable() {
    let mut screen = Screen::of(&samples::ended(), SMALL);
    screen.press("2");
    search(&mut screen, "git");
    assert_eq!(screen.model.panes.hook, 0);
    let mut screen = Screen::of(&samples::delivery(), SMALL).armed();
    screen.press("esc 3");
    search(&mut screen, "the lexer");
    assert_eq!(screen.model.panes.item, 2);
    search(&mut screen, "hook output");
    assert_eq!(screen.model.panes.item, 0);
    screen.press("N");
    assert_eq!(screen.model.panes.item, 2);
    let text: String = (1..=60).map(|n| format!("number {n}\n")).collect();
    screen.send(ScreenEvent::Read(ViewerModal::new("text", &text, "")));
    search(&mut screen, "number 5");
    assert!(screen.frame().contains("line 5 of 60"));
    screen.press("n");
    assert!(screen.frame().contains("line 50 of 60"));
    screen.press("N");
    assert!(screen.frame().contains("line 5 of 60"));
    screen.press("y");
    assert!(toast(&screen).starts_with("Copied"));
    screen.press("esc");
    assert!(screen.model.modals.is_empty());
}

#[test]
fn items_are_skipped_restored_and_edited() {
    let mut world = samples::delivery();
    let mut screen = Screen::of(&world, SMALL).armed();
    screen.press("esc 3 j");
    assert_eq!(
        screen.press("s"),
        asked(SessionCommand::SkipItem { item: ItemId(2) })
    );
    world.command(SessionCommand::SkipItem { item: ItemId(2) });
    screen.see(&world);
    assert_eq!(
        screen.press("s"),
        asked(SessionCommand::RestoreItem { item: ItemId(2) })
    );
    screen.press("j e");
    screen.type_text("!");
    assert_eq!(screen.press("ctrl-s"), {
        let text = &world
            .state
            .pending
            .get(ItemId(3))
            .expect("it is there")
            .text;
        asked(SessionCommand::EditItem {
            item: ItemId(3),
            text: format!("{text}!"),
        })
    });
    screen.press("e");
    screen.type_text("not this");
    assert_eq!(screen.press("esc"), []);
    assert_eq!(screen.model.drafts.unsent, "");
}

#[test]
fn focusing_the_pending_pane_selects_the_first_pending_item() {
    let mut screen = Screen::of(&samples::final_delivery(), SMALL).armed();
    assert_eq!(
        screen.press("esc 3 s"),
        asked(SessionCommand::SkipItem { item: ItemId(3) })
    );
}

#[test]
fn runs_are_opened_switched_off_and_ended() {
    let world = samples::hook_runs();
    let run = world.jobs[0].run;
    let mut screen = Screen::of(&world, SMALL);
    screen.press("2");
    assert_eq!(screen.press("x"), asked(SessionCommand::CancelHook { run }));
    assert_eq!(
        screen.press("o"),
        asked(SessionCommand::DisableHook {
            point: Some(HookPoint::Stop),
            hook: "cargo test".into()
        })
    );
    screen.press("home");
    let read = screen.press("enter");
    expect![[r#"
        [
            ReadOutput(
                RunOutput {
                    title: "Run 1 · session_start · git log",
                    file: None,
                    otherwise: "4f2a1c parser: keep the places",
                    earlier: "",
                    live: None,
                    reason: None,
                },
            ),
        ]
    "#]]
    .assert_debug_eq(&read);
}

#[test]
fn the_selected_hook_stays_selected_when_others_start() {
    let world = samples::hook_runs();
    let mut screen = Screen::of(&world, SMALL);
    screen.press("2 k");
    let chosen = |screen: &Screen| {
        screen
            .model
            .hook_rows()
            .nth(screen.model.panes.hook)
            .map(|row| row.hook().hook)
    };
    assert_eq!(chosen(&screen).as_deref(), Some("disk space"));
    screen.see(&samples::ended());
    assert_eq!(chosen(&screen).as_deref(), Some("disk space"));
    let mut follows = Screen::of(&world, SMALL);
    follows.see(&samples::ended());
    follows.press("2");
    assert_eq!(chosen(&follows).as_deref(), Some("cargo test"));
}

#[test]
fn a_click_selects_its_row_also_in_a_scrolled_list() {
    let hooks = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
    let script = hooks.iter().fold(Script::new(), |script, name| {
        script.piped(
            HookPoint::SessionStart,
            &format!("hook-{name}"),
            [prints("x")],
        )
    });
    let world = samples::until(World::begin(script), |world| world.turn.is_some());
    let mut screen = Screen::of(&world, (80, 14));
    screen.press("2 G");
    screen.click_on("hook-e");
    let chosen = screen
        .model
        .hook_rows()
        .nth(screen.model.panes.hook)
        .map(|row| row.hook().hook);
    assert_eq!(chosen.as_deref(), Some("hook-e"));
    screen.press("3 G");
    screen.click_on("hook-k");
    assert_eq!(screen.model.panes.item, 10);
    let mut screen = Screen::of(&world, (110, 20));
    let (column, row) = screen.find("→ hook-");
    let shown = screen.row("→ hook-");
    let down = MouseEventKind::Down(crossterm::event::MouseButton::Left);
    screen.mouse(down, column, row);
    let name = format!("→ hook-{}", hooks[screen.model.panes.item]);
    assert!(shown.contains(&name), "{name} in {shown}");
}

#[test]
fn a_gate_ignores_keys_that_were_meant_for_something_else() {
    let world = samples::retry_limit();
    let mut screen = Screen::of(&world, SMALL);
    assert!(at_gate(&screen));
    assert_eq!(screen.press("enter q right enter space"), []);
    screen.later(500);
    assert_eq!(screen.press("enter"), []);
    screen.later(500);
    assert_eq!(
        screen.press("enter"),
        [],
        "each key makes the moment longer"
    );
    screen.later(600);
    assert_eq!(screen.press("enter"), answer(GateChoice::Continue));
}

#[test]
fn an_answer_is_selected_and_confirmed() {
    let mut screen = Screen::of(&samples::retry_limit(), SMALL).armed();
    assert_eq!(screen.press("down down"), []);
    assert_eq!(
        screen.press("enter"),
        [],
        "what gives something up asks once more"
    );
    assert!(
        screen
            .frame()
            .contains("enter or 3 again accepts it as it is")
    );
    assert_eq!(screen.press("enter"), answer(GateChoice::Ignore));
    assert_eq!(screen.press("tab enter"), []);
    assert!(
        screen
            .frame()
            .contains("enter or 4 again turns this hook off")
    );
    assert_eq!(screen.press("enter"), answer(GateChoice::Disable));
    assert_eq!(screen.press("up up up up"), []);
    assert_eq!(screen.press("enter"), [], "giving up asks once more");
    assert!(
        screen
            .frame()
            .contains("enter or 5 again aborts the session")
    );
    assert_eq!(screen.press("enter"), answer(GateChoice::Abort));
    assert_eq!(
        screen.press("up down enter"),
        [],
        "going away takes it back"
    );
}

#[test]
fn a_digit_or_a_letter_answers_at_once_and_other_keys_do_nothing() {
    let screen = || Screen::of(&samples::retry_limit(), SMALL).armed();
    for keys in ["1", "r"] {
        assert_eq!(screen().press(keys), answer(GateChoice::Continue));
    }
    assert_eq!(screen().press("3 a"), answer(GateChoice::Ignore));
    assert_eq!(screen().press("t enter"), answer(GateChoice::Disable));
    for keys in [
        "6", "0", "z", "ctrl-t", "alt-r", "p", "X", "5", "5 j k 5", "b z b", "3", "t", "3 4",
    ] {
        assert_eq!(screen().press(keys), [], "{keys}");
    }
    for keys in ["5 5", "b b", "5 b", "b enter"] {
        assert_eq!(screen().press(keys), answer(GateChoice::Abort), "{keys}");
    }
    let mut unarmed = Screen::of(&samples::retry_limit(), SMALL);
    assert_eq!(unarmed.press("1 3 t"), [], "it has just appeared");
}

#[test]
fn the_retry_gate_shows_the_newest_run_first_and_all_others_beside_it() {
    let mut screen = Screen::of(&samples::retry_limit(), WIDE).armed();
    let frame = screen.frame();
    assert!(
        frame.contains("◆ cargo test still fails after 3 retries ")
            && frame.contains(" since 00:00 "),
        "{frame}"
    );
    assert!(
        frame.contains("Run 4, now ─") && frame.contains("▌1  Retry 3 more times"),
        "{frame}"
    );
    let signs = |screen: &mut Screen| {
        let frame = screen.frame();
        let rows = frame
            .lines()
            .filter_map(|line| Some(line.split_once('│')?.1.split_once('║')?.0.to_owned()));
        rows.map(|row| row.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect::<Vec<_>>()
    };
    let rows = signs(&mut screen);
    for row in [
        "▌ 4 test parser::nested ... FAILED =",
        "3 test parser::nested ... FAILED =",
        "2 test parser::nested ... FAILED",
        "1 test parser::empty ... FAILED",
    ] {
        assert!(rows.iter().any(|shown| shown == row), "{row}: {rows:?}");
    }
    screen.press("left left left left");
    let frame = screen.frame();
    assert!(
        frame.contains("Run 1, 00:00 ─") && frame.contains("║ ▸ test parser::empty ... FAILED"),
        "{frame}"
    );
    screen.press("right right right");
    assert!(screen.frame().contains("Run 4, now ─"));
}

#[test]
fn the_preview_has_only_the_ticked_items() {
    for keys in ["v", "esc 3 v"] {
        let mut screen = Screen::of(&samples::delivery(), WIDE).armed();
        screen.press("space");
        screen.press(keys);
        let frame = screen.frame();
        assert!(
            frame.contains("The next prompt") && !frame.contains("git log"),
            "{frame}"
        );
        assert!(frame.contains("cargo clippy"), "{frame}");
    }
    let mut last = Screen::of(&samples::final_delivery(), WIDE).armed();
    last.press("v");
    assert!(
        last.frame().contains("warning: one is left") && !last.frame().contains("GOAL"),
        "{}",
        last.frame()
    );
}

#[test]
fn a_gate_is_announced_over_a_viewer_and_answered_from_there() {
    let before = samples::until(World::begin(samples::eventful()), |world| {
        world.state.iterations.current == 3
    });
    for keys in ["", "?"] {
        let mut screen = Screen::of(&before, WIDE);
        screen.press(keys);
        if keys.is_empty() {
            screen.send(ScreenEvent::Read(ViewerModal::new("text", "some text", "")));
        }
        assert!(!screen.frame().contains("◆ Finished"));
        screen.see(&samples::final_delivery());
        assert!(!at_gate(&screen));
        let first = screen.frame().lines().next().unwrap_or_default().to_owned();
        assert!(
            first.contains("◆ Finished. 1 item has not been sent to the agent yet · g answer"),
            "{first}"
        );
        screen.press("g");
        assert!(at_gate(&screen));
        assert_eq!(screen.press("1"), answer(GateChoice::Approve));
    }
}

#[test]
fn the_title_of_a_gate_over_a_viewer_is_not_cut() {
    let mut screen = Screen::of(&samples::works(), (60, 16));
    screen.send(ScreenEvent::Read(ViewerModal::new("text", "some text", "")));
    screen.see(&samples::permission());
    let frame = screen.frame();
    let top = frame.lines().take(2).collect::<Vec<_>>().join(" ");
    let top = top.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        top.starts_with("◆ The agent asks for permission · 2 more after this · g answer"),
        "{frame}"
    );
}

#[test]
fn a_gate_with_a_timeout_says_when_creel_decides() {
    for size in [(60, 16), SMALL, WIDE] {
        let world = samples::at_gate(
            samples::eventful().plan(|plan| plan.gates.timeout = TimeSpan::secs(7)),
        );
        let mut screen = Screen::of(&world, size).armed();
        assert!(
            screen.frame().contains("╚═ creel decides at 00:00:"),
            "{}",
            screen.frame()
        );
    }
}

#[test]
fn an_answer_is_in_the_stream_in_the_words_of_the_choice() {
    let answered = |choice| {
        let mut world = samples::retry_limit();
        world.command(SessionCommand::AnswerGate(GateAnswer {
            gate: GateId(1),
            choice,
            text: None,
            items: None,
        }));
        let mut screen = Screen::of(&world, WIDE);
        screen.press("esc");
        screen.frame()
    };
    let shown = answered(GateChoice::Ignore);
    assert!(shown.contains("◆ You chose: Accept as it is "), "{shown}");
    let shown = answered(GateChoice::Continue);
    assert!(
        shown.contains("◆ You chose: Retry 3 more times "),
        "{shown}"
    );
}

#[test]
fn help_over_a_viewer_shows_the_keys_of_the_viewer() {
    let mut screen = Screen::of(&samples::works(), SMALL);
    screen.send(ScreenEvent::Read(ViewerModal::new("text", "some text", "")));
    assert!(screen.row("copy").contains("? keys"), "{}", screen.frame());
    screen.press("?");
    let frame = screen.frame();
    assert!(
        frame.contains("wrap long lines or not") && frame.contains("search"),
        "{frame}"
    );
    assert!(!frame.contains("pause"), "{frame}");
    screen.press("esc");
    assert!(matches!(screen.model.modals[..], [Modal::Viewer(_)]));
}

#[test]
fn a_replay_that_plays_moves_and_says_that_space_pauses() {
    let world = samples::first_turn();
    let mut screen = Screen::replay(&world, SMALL, world.events.len() - 3);
    let words = |screen: &mut Screen| {
        hinted(screen)
            .split("  ")
            .find(|hint| hint.starts_with("space"))
            .map(str::to_owned)
    };
    assert_eq!(words(&mut screen).as_deref(), Some("space play"));
    assert_eq!(screen.model.next_tick(), None);
    screen.press("space");
    assert_eq!(words(&mut screen).as_deref(), Some("space pause"));
    let before = screen.frame();
    let tick = screen.model.next_tick().expect("it plays");
    assert!(
        tick.since(screen.model.now).0 <= 250,
        "the spinner moves before the next record"
    );
    screen.model.now = tick;
    assert_ne!(screen.frame(), before);
}

#[test]
fn unticked_items_are_not_approved() {
    let mut screen = Screen::of(&samples::delivery(), SMALL).armed();
    screen.press("down space");
    let some = GateAnswer {
        gate: GateId(1),
        choice: GateChoice::Approve,
        text: None,
        items: Some(vec![ItemId(1), ItemId(3)]),
    };
    assert_eq!(
        screen.press("enter"),
        asked(SessionCommand::AnswerGate(some))
    );
    screen.press("space");
    assert_eq!(screen.press("enter"), answer(GateChoice::Approve));
    assert_eq!(screen.press("2"), answer(GateChoice::Skip));
}

#[test]
fn an_item_skipped_meanwhile_is_shown_as_skipped_and_can_be_restored() {
    let mut world = samples::delivery();
    let mut screen = Screen::of(&world, SMALL).armed();
    screen.press("esc 3 home");
    assert_eq!(
        screen.press("s"),
        asked(SessionCommand::SkipItem { item: ItemId(1) })
    );
    world.command(SessionCommand::SkipItem { item: ItemId(1) });
    screen.see(&world);
    screen.press("g");
    screen.later(600);
    assert!(
        screen.frame().contains("☐ git log       skipped"),
        "{}",
        screen.frame()
    );
    // All others are approved, so the answer needs no list.
    assert_eq!(screen.press("enter"), answer(GateChoice::Approve));
    assert_eq!(
        screen.press("space"),
        asked(SessionCommand::RestoreItem { item: ItemId(1) })
    );
    // A screen that opens later shows the same.
    let mut later = Screen::of(&world, SMALL).armed();
    assert!(later.frame().contains("☐ git log       skipped"));
    world.command(SessionCommand::RestoreItem { item: ItemId(1) });
    for screen in [&mut screen, &mut later] {
        screen.see(&world);
        assert!(screen.frame().contains("☑ git log"), "{}", screen.frame());
        assert!(!screen.frame().contains("git log       skipped"));
    }
}

#[test]
fn an_item_is_edited_at_the_gate() {
    let mut world = samples::delivery();
    let mut screen = Screen::of(&world, SMALL).armed();
    screen.press("down e");
    screen.type_text("!");
    let edit = screen.press("ctrl-s");
    let [
        ScreenRequest::Command(SessionCommand::EditItem {
            item: ItemId(2),
            text,
        }),
    ] = edit.as_slice()
    else {
        panic!("{edit:?}")
    };
    assert!(text.ends_with('!'));
    world.command(SessionCommand::EditItem {
        item: ItemId(2),
        text: text.clone(),
    });
    screen.see(&world);
    assert!(at_gate(&screen));
    assert!(screen.frame().contains("☑~cargo clippy"));
    assert!(matches!(
        screen.press("E").as_slice(),
        [ScreenRequest::EditOutside(..)]
    ));
}

/// Opens the user's editor, and closes it with the changed text.
fn outside(screen: &mut Screen, keys: &str, change: impl Fn(&str) -> String) -> Vec<ScreenRequest> {
    let asks = screen.press(keys);
    let [ScreenRequest::EditOutside(what, before)] = asks.as_slice() else {
        panic!("{asks:?}")
    };
    screen.send(ScreenEvent::Edited {
        what: what.clone(),
        before: before.clone(),
        text: change(before),
    })
}

fn editor_text(screen: &Screen) -> Option<String> {
    match screen.model.modals.last() {
        Some(Modal::Editor(editor)) => Some(editor.text()),
        _ => None,
    }
}

#[test]
fn closing_the_users_editor_without_a_change_sends_nothing() {
    let unchanged = |text: &str| text.trim_end_matches('\n').to_owned();
    let mut screen = Screen::of(&samples::first_turn(), SMALL);
    screen.press("M");
    screen.type_text("half a sent");
    assert_eq!(outside(&mut screen, "ctrl-o", unchanged), []);
    assert_eq!(
        (editor_text(&screen).as_deref(), toast(&screen)),
        (Some("half a sent"), "You changed nothing")
    );
    let sent = [
        SessionCommand::Message {
            text: "half a sentence".into(),
        },
        SessionCommand::CancelTurn,
    ];
    assert_eq!(
        outside(&mut screen, "ctrl-o", |text| format!("{text}ence")),
        [ScreenRequest::InOrder(sent.to_vec())]
    );
    assert_eq!(editor_text(&screen), None);

    let mut world = samples::first_turn();
    world.command(SessionCommand::Task {
        task: creel::engine::tasks::command::TaskCommand::Add(
            creel::engine::tasks::command::NewTask {
                goal: "Lex".into(),
                ..Default::default()
            },
        ),
    });
    let mut tasks = Screen::of(&world, SMALL);
    tasks.press("5 c");
    assert_eq!(outside(&mut tasks, "ctrl-o", unchanged), []);
    assert_eq!(editor_text(&tasks).as_deref(), Some(""));

    let mut gate = Screen::of(&samples::delivery(), SMALL).armed();
    assert_eq!(outside(&mut gate, "E", unchanged), []);
    assert!(at_gate(&gate));
    assert_eq!(toast(&gate), "You changed nothing");
    assert_eq!(
        outside(&mut gate, "E", |_| "other".into()),
        asked(SessionCommand::EditItem {
            item: ItemId(1),
            text: "other".into()
        })
    );

    let mut answers = Screen::of(&samples::retry_limit(), SMALL).armed();
    answers.press("down enter");
    answers.type_text("Try");
    assert_eq!(outside(&mut answers, "ctrl-o", unchanged), []);
    assert_eq!(editor_text(&answers).as_deref(), Some("Try"));
}

#[test]
fn a_message_answers_a_gate() {
    let mut screen = Screen::of(&samples::retry_limit(), SMALL).armed();
    screen.press("2");
    screen.type_text("Try another way.");
    let answer = GateAnswer {
        gate: GateId(1),
        choice: GateChoice::Send,
        text: Some("Try another way.".into()),
        items: None,
    };
    assert_eq!(
        screen.press("ctrl-s"),
        asked(SessionCommand::AnswerGate(answer))
    );
}

#[test]
fn a_gate_is_closed_for_later_and_reopened() {
    let mut screen = Screen::of(&samples::retry_limit(), SMALL).armed();
    assert_eq!(screen.press("esc"), []);
    assert!(!at_gate(&screen));
    assert_eq!(toast(&screen), "The gate is still open; g shows it");
    screen.press("2 j");
    assert!(!at_gate(&screen));
    assert!(
        screen.frame().contains("◆ NEEDS YOU: retry limit") && screen.frame().contains("g answer")
    );
    screen.press("g");
    assert!(at_gate(&screen));
    assert_eq!(
        screen.press("enter"),
        answer(GateChoice::Continue),
        "you opened it yourself"
    );
}

#[test]
fn a_gate_that_has_just_appeared_closes_with_esc() {
    let mut screen = Screen::of(&samples::retry_limit(), SMALL);
    assert_eq!(screen.press("enter"), []);
    assert_eq!(screen.press("esc"), []);
    assert!(!at_gate(&screen));
}

#[test]
fn an_editor_over_the_retry_gate_leaves_the_failure_visible() {
    for size in [(60, 16), SMALL, (120, 35), (200, 50)] {
        let mut screen = Screen::of(&samples::retry_limit(), size).armed();
        assert!(screen.row("▸ test parser::nested").contains('║'));
        screen.press("2");
        screen.type_text("Try another way.");
        let frame = screen.frame();
        assert!(
            frame.contains("▸ test parser::nested") && frame.contains("Try another way."),
            "{frame}"
        );
    }
}

#[test]
fn a_gate_leaves_the_keys_to_an_open_editor() {
    let before = samples::until(World::begin(samples::eventful()), |world| {
        world.state.iterations.current == 3
    });
    let mut screen = Screen::of(&before, WIDE);
    screen.press("m");
    screen.see(&samples::final_delivery());
    assert!(!at_gate(&screen));
    assert!(
        screen
            .frame()
            .contains("not been sent to the agent yet · waits until you close this")
    );
    screen.type_text("go");
    assert_eq!(
        screen.press("ctrl-s"),
        asked(SessionCommand::Message { text: "go".into() })
    );
    assert!(at_gate(&screen));
    assert_eq!(screen.press("enter"), []);
}

#[test]
fn a_gate_answered_elsewhere_is_closed() {
    let mut world = samples::retry_limit();
    let mut screen = Screen::of(&world, SMALL).armed();
    world.answer_gate();
    screen.see(&world);
    assert!(screen.model.modals.is_empty());
    assert_eq!(screen.press("g"), []);
    assert_eq!(toast(&screen), "No gate is open");
}

#[test]
fn gates_are_answered_by_clicks() {
    let world = samples::retry_limit();
    for size in [WIDE, SMALL, (40, 12)] {
        let mut screen = Screen::of(&world, size);
        assert_eq!(screen.click_on("Retry 3 more"), [], "not yet");
        screen.later(600);
        assert_eq!(
            screen.click_on("Accept as it is"),
            [],
            "not without a second one"
        );
        assert_eq!(
            screen.click_on("Accept as it is"),
            answer(GateChoice::Ignore)
        );
    }
}

#[test]
fn items_at_a_gate_are_selected_and_toggled_by_clicks() {
    let mut screen = Screen::of(&samples::delivery(), SMALL).armed();
    screen.click_on("☑ todo list");
    assert!(screen.frame().contains("- the lexer"));
    screen.click_on("☑ todo list");
    assert!(screen.frame().contains("☐ todo list"));
}

#[test]
fn long_text_at_a_gate_scrolls_both_ways_and_stops_at_its_ends() {
    let mut screen = Screen::of(&samples::retry_limit(), (120, 12)).armed();
    screen.press("left left left");
    assert!(
        screen.frame().contains("▸ test parser::empty ... FAILED"),
        "it opens where it says why"
    );
    screen.press("page-down page-down page-down page-down");
    let end = screen.frame();
    assert!(end.contains("The empty text is no error."), "{end}");
    screen.press("page-down page-down");
    assert_eq!(screen.frame(), end, "the end stays");
    assert!(screen.row("enter answer").contains("PgUp more"), "{end}");
    let pages = |screen: &mut Screen, key: &str| {
        for _ in 0..9 {
            screen.press(key);
        }
        screen.frame()
    };
    let start = pages(&mut screen, "page-up");
    assert!(
        start.contains("║ ▸ test parser::empty ... FAILED"),
        "{start}"
    );
    assert!(screen.row("enter answer").contains("PgDn more"), "{start}");
    screen.press("page-up");
    assert_eq!(screen.frame(), start, "the start stays");
    assert_eq!(pages(&mut screen, "page-down"), end);
}

#[test]
fn help_shows_all_its_text_on_a_small_screen() {
    let mut screen = Screen::of(&samples::first_turn(), (40, 10));
    screen.press("?");
    let mut seen = String::new();
    for _ in 0..200 {
        seen += &screen.frame();
        screen.press("down");
    }
    for words in [
        "q ctrl-c  leave; asks whether to",
        "stop the session",
        "ctrl-f page-down space  one page",
    ] {
        assert!(seen.contains(words), "{words}");
    }
    assert!(!seen.contains('…'));
}

#[test]
fn help_scrolls_to_its_end_and_back() {
    let mut screen = Screen::of(&samples::first_turn(), SMALL);
    screen.press("?");
    let top = screen.frame();
    screen.press("G");
    let end = screen.frame();
    assert!(end.contains("to the next error"));
    screen.press("k");
    assert_ne!(screen.frame(), end);
    screen.press("home");
    assert_eq!(screen.frame(), top);
    screen.press("?");
    assert!(screen.model.modals.is_empty());
}

#[test]
fn live_output_reads_the_same_however_it_was_split() {
    const PRINTED: &str = "a\x1b[1;31mred\x1b[0m\r\n日本\x1b]0;title\x1b\\\x1b(Bnext\r50%\r100%\n";
    let world = samples::hook_runs();
    let run = world.jobs[0].run;
    let heard = |parts: &[&[u8]]| {
        let mut screen = Screen::of(&world, SMALL);
        let mut at = 0;
        for part in parts {
            screen.model.runs.add_output(run, at, part);
            at += part.len() as u64;
        }
        screen.model.runs.running().map(|run| run.live.clone())
    };
    let whole = heard(&[PRINTED.as_bytes()]);
    assert_eq!(
        whole.as_deref(),
        Some("a\u{1b}[1;31mred\u{1b}[0m\n日本next\r50%\r100%\n")
    );
    for cut in 0..PRINTED.len() {
        let (before, after) = PRINTED.as_bytes().split_at(cut);
        assert_eq!(heard(&[before, after]), whole, "cut at {cut}");
    }
}

#[test]
fn a_late_screen_shows_earlier_hook_output_and_each_piece_once() {
    let world = samples::hook_runs();
    let run = world.jobs[0].run;
    let mut screen = Screen::of(&world, SMALL);
    assert_eq!(screen.model.runs.unread(), [run]);
    screen.model.runs.catch_up(run, 1_008, b"two\nthree\n");
    assert_eq!(screen.model.runs.unread(), []);
    // Output that was on its way when the file was read: known, partly known, new.
    screen.model.runs.add_output(run, 998, b"two\n");
    screen.model.runs.add_output(run, 1_002, b"three\nfour\n");
    screen.model.runs.add_output(run, 1_013, b"five\n");
    let live = screen.model.runs.running().map(|run| run.live.as_str());
    assert_eq!(live, Some("two\nthree\nfour\nfive\n"));
}

#[test]
fn aborting_by_clicks_asks_once_more_each_time() {
    let mut screen = Screen::of(&samples::retry_limit(), WIDE).armed();
    let mut click = |what| screen.click_on(what);
    assert_eq!(click("Abort"), []);
    assert_eq!(click("Accept as"), []);
    assert_eq!(click("Accept as"), answer(GateChoice::Ignore));
    assert_eq!(click("Abort"), []);
    assert_eq!(click("Abort"), answer(GateChoice::Abort));
}

#[test]
fn the_selected_answer_is_visible_even_if_not_all_fit() {
    for (size, all_fit) in [((40, 12), true), ((24, 6), false)] {
        let mut screen = Screen::of(&samples::retry_limit(), size).armed();
        assert_eq!(screen.frame().contains("5  Abort"), all_fit);
        screen.press("up");
        assert!(screen.frame().contains("5  Abort"));
        assert_eq!(screen.click_on("Abort"), []);
        assert_eq!(screen.click_on("Abort"), answer(GateChoice::Abort));
    }
}

fn answered(choice: GateChoice, option: Option<&str>) -> Vec<ScreenRequest> {
    let text = option.map(Into::into);
    asked(SessionCommand::AnswerGate(GateAnswer {
        gate: GateId(1),
        choice,
        text,
        items: None,
    }))
}

#[test]
fn a_permission_request_is_answered_with_the_agents_options() {
    for size in [WIDE, SMALL, (40, 12)] {
        let screen = || Screen::of(&samples::permission(), size).armed();
        assert_eq!(
            screen().press("enter"),
            answered(GateChoice::AllowOnce, Some("once"))
        );
        assert_eq!(
            screen().press("right enter"),
            answered(GateChoice::AllowAlways, Some("always"))
        );
        assert_eq!(
            screen().press("tab tab enter"),
            answered(GateChoice::RejectOnce, Some("no"))
        );
        assert_eq!(
            screen().press("left enter"),
            answered(GateChoice::Cancel, None)
        );
        let mut screen = screen();
        assert_eq!(
            screen.click_on("Always allow"),
            answered(GateChoice::AllowAlways, Some("always"))
        );
    }
}

#[test]
fn an_always_answer_is_not_preselected() {
    let mut options = samples::usual_options();
    options.swap(0, 1);
    let mut screen = Screen::of(&samples::permission_with(options), SMALL).armed();
    assert!(
        screen
            .row("Always")
            .contains("1  Always allow this exact request"),
        "in the agent's order"
    );
    assert!(screen.row("Yes").contains("▌2  Yes"));
    assert_eq!(
        screen.press("enter"),
        answered(GateChoice::AllowOnce, Some("once"))
    );
}

#[test]
fn always_is_one_answer_and_the_agent_gets_allow_once() {
    let world = samples::permission_with(samples::options_alike());
    let screen = || Screen::of(&world, SMALL).armed();
    assert_eq!(
        screen().press("right enter"),
        answered(GateChoice::AllowAlways, Some("file"))
    );
    assert_eq!(
        screen().press("right right enter"),
        answered(GateChoice::RejectOnce, Some("no"))
    );
    let mut after = world.clone();
    let [ScreenRequest::Command(command)] = &screen().press("right enter")[..] else {
        panic!("an answer")
    };
    after.command(command.clone());
    assert_eq!(
        after.permitted,
        [(PermissionId(1), PermissionAnswer::Selected("once".into()))]
    );
}

#[test]
fn the_next_request_ignores_an_answer_meant_for_the_one_before() {
    let mut world = samples::permission();
    let mut screen = Screen::of(&world, SMALL);
    assert!(screen.frame().contains("2 more after this"));
    assert_eq!(
        screen.press("enter right enter"),
        [],
        "it has just appeared"
    );
    screen.later(600);
    let [ScreenRequest::Command(command)] = &screen.press("enter")[..] else {
        panic!("an answer")
    };
    world.command(command.clone());
    screen.see(&world);
    assert!(
        screen.frame().contains("Edit src/lib.rs") && screen.frame().contains("1 more after this")
    );
    assert_eq!(screen.press("enter"), []);
    screen.later(600);
    let [ScreenRequest::Command(SessionCommand::AnswerGate(answer))] = &screen.press("enter")[..]
    else {
        panic!("an answer")
    };
    assert_eq!(
        (answer.gate, answer.choice),
        (GateId(2), GateChoice::AllowOnce)
    );
}

#[test]
fn a_request_that_a_rule_answers_is_not_shown() {
    let script = Script::new()
        .plan(|plan| plan.gates.permissions = PermissionPolicy::Allow)
        .agent([Answer::Asks(&["a.rs"]), DONE])
        .attended(&[]);
    let mut world = World::begin(script).run();
    let opened = world
        .events
        .iter()
        .position(|event| matches!(event, Event::Gate(GateEvent::Opened { .. })));
    // The answer arrives a moment later, and a frame can be drawn in between.
    world.events.truncate(opened.expect("a gate") + 1);
    let mut screen = Screen::of(&world, SMALL);
    assert!(!at_gate(&screen), "{}", screen.frame());
}

#[test]
fn a_permission_request_is_closed_with_its_turn() {
    // Visible, closed for later, and below an editor.
    for keys in ["", "esc", "esc m"] {
        let mut world = samples::permission();
        let mut screen = Screen::of(&world, SMALL).armed();
        screen.press(keys);
        world.command(SessionCommand::CancelTurn);
        world.finish_turn();
        screen.see(&world);
        assert!(
            !screen.frame().contains("The agent asks for permission"),
            "{}",
            screen.frame()
        );
        screen.press(if keys == "esc m" { "esc g" } else { "g" });
        assert_eq!(toast(&screen), "No gate is open");
    }
}

#[test]
fn the_whole_request_can_be_read_and_scrolling_stops_at_its_end() {
    for size in [SMALL, (40, 12), (30, 8)] {
        let mut screen = Screen::of(&samples::long_command(), size).armed();
        let mut seen = screen.frame();
        for _ in 0..60 {
            screen.press("page-down");
            seen += &screen.frame();
        }
        assert!(seen.contains(".ssh"), "{seen}");
        let end = screen.frame();
        screen.press("page-up");
        if size != SMALL {
            assert_ne!(
                screen.frame(),
                end,
                "the way back is as long as the way there"
            );
        }
    }
}

#[test]
fn a_gate_in_a_replay_is_read_only() {
    for scene in [samples::retry_limit, samples::delivery, samples::permission] {
        let world = scene();
        let mut screen = Screen::replay(&world, SMALL, world.events.len());
        screen.press("g");
        assert!(at_gate(&screen));
        assert_eq!(screen.press("enter left enter enter e E 1 5 5"), []);
        assert_eq!(screen.click_on("1  "), []);
        assert!(at_gate(&screen) && screen.frame().contains("A past gate"));
        screen.press("esc");
        assert!(!at_gate(&screen));
        assert_eq!(toast(&screen), "");
    }
    let mut screen = Screen::replay(&samples::ended(), SMALL, 3);
    screen.press("g");
    assert_eq!(toast(&screen), "No gate is open");
}

#[test]
fn a_gate_on_a_too_small_screen_is_not_answered() {
    let mut screen = Screen::of(&samples::permission(), SMALL).armed();
    screen.draw();
    let (column, row) = screen.find("Yes");
    screen.send(ScreenEvent::Resize(20, 5));
    screen.later(5_000);
    assert_eq!(screen.frame().trim(), "Terminal too small");
    let click = MouseEventKind::Down(crossterm::event::MouseButton::Left);
    let clicks: Vec<ScreenRequest> = (0..2)
        .flat_map(|_| screen.mouse(click, column, row))
        .collect();
    assert_eq!(
        (screen.press("enter enter q y"), clicks),
        (Vec::new(), Vec::new())
    );
    assert!(at_gate(&screen));
    assert_eq!(screen.press("ctrl-z"), [ScreenRequest::Suspend]);
    // When the gate is visible again, it ignores keys that were meant for something else.
    screen.send(ScreenEvent::Resize(SMALL.0, SMALL.1));
    assert_eq!(screen.press("enter"), []);
    assert_eq!(screen.later(600).press("enter").len(), 1);
}

#[test]
fn ctrl_c_asks_and_ctrl_c_again_leaves_at_once_from_anywhere() {
    for before in ["", "?", ":", "/", "m", "q"] {
        for size in [SMALL, (20, 5)] {
            let mut screen = Screen::of(&samples::first_turn(), SMALL);
            screen.press(before);
            screen.send(ScreenEvent::Resize(size.0, size.1));
            if before != "q" {
                assert_eq!(screen.press("ctrl-c"), [], "after {before:?}");
            }
            assert_eq!(
                screen.press("ctrl-c"),
                [ScreenRequest::LeaveAtOnce],
                "after {before:?}"
            );
        }
    }
}

#[test]
fn while_the_session_is_being_stopped_ctrl_c_leaves_at_once() {
    let mut world = samples::first_turn();
    world.command(SessionCommand::Stop {
        how: StopTiming::Now,
    });
    let mut screen = Screen::of(&world, SMALL);
    assert_eq!(screen.press("ctrl-c"), [ScreenRequest::LeaveAtOnce]);
}

#[test]
fn the_quit_question_waits_for_a_screen_that_is_large_enough() {
    let mut screen = Screen::of(&samples::first_turn(), (20, 5));
    assert_eq!(screen.frame().trim(), "Terminal too small");
    assert_eq!(screen.press("ctrl-c y"), []);
    let words = screen
        .frame()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert_eq!(words, "Terminal too small: make it larger to answer");
    screen.send(ScreenEvent::Paste("text".into()));
    screen.send(ScreenEvent::Resize(SMALL.0, SMALL.1));
    assert!(screen.frame().contains("Leave?"));
    screen.press("esc");
    assert!(screen.model.modals.is_empty());
    let mut loose = Screen::of(&samples::first_turn(), (20, 5));
    loose.model.link.tie = CloseBehavior::Loose;
    assert_eq!(loose.press("ctrl-d"), [ScreenRequest::LeaveRunning]);
}

/// The keys in the last line.
fn hinted(screen: &mut Screen) -> String {
    screen
        .frame()
        .lines()
        .last()
        .unwrap_or_default()
        .trim()
        .to_owned()
}

#[test]
fn a_click_on_a_key_that_the_screen_shows_presses_it() {
    let mut screen = Screen::of(&samples::first_turn(), SMALL);
    screen.click_on("? keys");
    assert!(
        matches!(screen.model.modals[..], [Modal::Help(_)]),
        "{}",
        screen.frame()
    );
    screen.click_on("esc close");
    assert!(screen.model.modals.is_empty());
    screen.click_on("q leave");
    assert!(screen.frame().contains("Leave?"));
    assert_eq!(screen.click_on("The session is still running."), []);
    screen.click_on("Stay");
    assert!(screen.model.modals.is_empty());
    screen.press("q");
    screen.click_on("esc close");
    assert!(screen.model.modals.is_empty());
    screen.click_on("m message");
    assert!(matches!(screen.model.modals[..], [Modal::Editor(_)]));
    screen.click_on("esc keep as draft");
    screen.press(":");
    assert!(
        hinted(&mut screen).starts_with("enter run"),
        "{}",
        hinted(&mut screen)
    );
    screen.click_on("Search  ");
    assert!(matches!(screen.model.modals[..], [Modal::Search(_)]));
    screen.press("esc :");
    screen.type_text("hooks");
    screen.click_on("Go to the hooks");
    assert_eq!(
        (screen.model.panes.focus, screen.model.modals.len()),
        (Pane::Hooks, 0)
    );
    // Words of the agent and of hooks are no keys.
    screen.press("1");
    screen.click_on("ITERATION 1");
    assert!(screen.model.modals.is_empty());
}

#[test]
fn the_sentence_above_the_footer_is_hidden_by_its_key_and_by_a_click() {
    for (label, by_key, scene) in [
        ("h hide", true, samples::first_turn as fn() -> World),
        ("h hide", false, samples::first_turn),
        // A gate has another meaning for the key.
        ("× hide", false, samples::retry_limit),
    ] {
        let mut screen = Screen::of(&scene(), (100, 30)).armed();
        screen.model.hint.mode = HintMode::Always;
        assert!(screen.frame().contains(label), "{}", screen.frame());
        let asks = if by_key {
            screen.press("h")
        } else {
            screen.click_on(label)
        };
        assert_eq!(asks, [ScreenRequest::Remember]);
        assert!(!screen.frame().contains(label), "{}", screen.frame());
    }
}

#[test]
fn the_hints_name_only_what_works() {
    let world = samples::ended();
    let mut past = Screen::replay(&world, SMALL, world.events.len());
    past.press("2");
    assert!(!hinted(&mut past).contains("hook"), "{}", hinted(&mut past));
    past.press("3");
    assert!(!hinted(&mut past).contains("edit") && hinted(&mut past).contains("preview"));
    let mut over = Screen::of(&world, SMALL);
    over.press("2");
    assert!(!hinted(&mut over).contains("hook"));
    let mut works = Screen::of(&samples::first_turn(), SMALL);
    works.press("2");
    assert!(
        hinted(&mut works).contains("r run now  o disable")
            && !hinted(&mut works).contains("cancel")
    );
    let mut runs = Screen::of(&samples::hook_runs(), SMALL);
    runs.press("2");
    assert!(hinted(&mut runs).contains("x cancel"));
    // A hook for task events has no event when the user runs it.
    let mut world = works_with_automation(["look"]);
    let mut events = Screen::of(&world, SMALL);
    events.press("2 home");
    assert!(events.row("look").contains("▸"), "{}", events.frame());
    assert!(!hinted(&mut events).contains("run now") && hinted(&mut events).contains("o disable"));
    assert_eq!(
        events.press("r"),
        asked(SessionCommand::RunHook {
            point: Some(HookPoint::Automation),
            hook: "look".into()
        })
    );
    world.command(SessionCommand::RunHook {
        point: Some(HookPoint::Automation),
        hook: "look".into(),
    });
    assert_eq!(
        world.refused,
        [Refusal::NotRunByHand {
            hook: "look".into(),
            why: ByHandObstacle::AnswersTaskEvents,
        }]
    );
}

/// A running turn, and a completed task that these hooks handle.
fn works_with_automation<const N: usize>(hooks: [&str; N]) -> World {
    let completed = [creel::engine::tasks::record::TaskEventKind::TaskCompleted];
    let script = Script::new().hook(HookPoint::OnTaskComplete, "validate", [passes()]);
    let script = hooks.iter().fold(script, |script, hook| {
        script.automation(hook, 1, &completed, [passes()])
    });
    let mut world = World::begin(script);
    world.settle();
    world.command(completes("T1", "parser"));
    world
}

#[test]
fn cancelling_ends_the_selected_run() {
    let world = works_with_automation(["look"]);
    let running: Vec<_> = world
        .jobs
        .iter()
        .map(|job| (job.hook.name.as_str(), job.run))
        .collect();
    assert_eq!(running.len(), 2, "{running:?}");
    let mut screen = Screen::of(&world, SMALL);
    screen.press("2 home");
    for row in 0..2 {
        let chosen = screen
            .model
            .hook_rows()
            .nth(row)
            .expect("a run")
            .hook()
            .hook;
        let (_, run) = *running
            .iter()
            .find(|(hook, _)| *hook == chosen)
            .expect("it runs");
        assert_eq!(
            screen.press("x j"),
            asked(SessionCommand::CancelHook { run }),
            "{chosen}"
        );
    }
    // Another hook than the selected one is left alone.
    let mut one = Screen::of(&samples::hook_runs(), SMALL);
    one.press("2 end");
    assert_eq!(one.press("x"), []);
    assert_eq!(toast(&one), "`cargo clippy` is not running");
}

#[test]
fn a_hook_that_has_not_run_can_be_run_switched_and_viewed() {
    let mut world = samples::first_turn();
    let mut screen = Screen::of(&world, SMALL);
    screen.press("2 end");
    let clippy = || "cargo clippy".to_owned();
    assert_eq!(
        screen.press("r"),
        asked(SessionCommand::RunHook {
            point: Some(HookPoint::PostIteration),
            hook: clippy()
        })
    );
    assert_eq!(
        screen.press("o"),
        asked(SessionCommand::DisableHook {
            point: Some(HookPoint::PostIteration),
            hook: clippy()
        })
    );
    world.command(SessionCommand::DisableHook {
        point: Some(HookPoint::PostIteration),
        hook: clippy(),
    });
    screen.see(&world);
    assert!(screen.row("cargo clippy").contains("disabled"));
    assert_eq!(
        screen.press("o"),
        asked(SessionCommand::EnableHook {
            point: Some(HookPoint::PostIteration),
            hook: clippy()
        })
    );
    screen.press("enter");
    assert!(
        screen
            .frame()
            .contains("it would run for at most 1 min; the agent gets its output")
    );
    screen.press("esc k");
    assert_eq!(
        screen.press("r"),
        asked(SessionCommand::RunHook {
            point: Some(HookPoint::Stop),
            hook: "cargo test".into()
        })
    );
    search(&mut screen, "clippy");
    assert_eq!(screen.model.panes.hook, 3);
}

#[test]
fn a_selected_hook_stays_selected_when_it_starts() {
    let mut screen = Screen::of(&samples::first_turn(), SMALL);
    screen.press("2 end k");
    assert!(screen.row("▌").contains("cargo test"));
    screen.see(&samples::hook_runs());
    assert_eq!(screen.model.panes.hook, 2);
    screen.press("end");
    screen.see(&samples::sent_back_twice());
    assert_eq!(
        screen.press("o"),
        asked(SessionCommand::DisableHook {
            point: Some(HookPoint::PostIteration),
            hook: "cargo clippy".into()
        })
    );
}

#[test]
fn the_end_of_a_text_is_reachable_with_wrapped_lines() {
    let text: String = (1..=40)
        .map(|n| format!("{n} {} end {n}\n", "word ".repeat(60)))
        .collect();
    for size in [SMALL, (40, 12), WIDE] {
        let mut screen = Screen::of(&samples::first_turn(), size);
        screen.send(ScreenEvent::Read(ViewerModal::new("text", &text, "")));
        let top = screen.frame();
        screen.press("end");
        let end = screen.frame();
        assert!(end.contains("end 40"), "{end}");
        screen.press("page-down j");
        assert_eq!(screen.frame(), end);
        screen.press("k");
        assert!(!screen.frame().contains("end 40"));
        for _ in 0..1_000 {
            screen.press("page-up");
        }
        assert_eq!(screen.frame(), top);
        for _ in 0..1_000 {
            screen.press("page-down");
        }
        assert_eq!(screen.frame(), end);
    }
}

#[test]
fn a_message_is_written_kept_and_sent() {
    let mut screen = Screen::of(&samples::first_turn(), SMALL);
    screen.press("m");
    screen.type_text("Look at q");
    assert_eq!(screen.press("esc"), []);
    assert!(screen.model.modals.is_empty());
    assert_eq!(screen.model.drafts.unsent, "Look at q");
    screen.press("m enter");
    screen.send(ScreenEvent::Paste("the lexer\x1b[31m!".into()));
    assert_eq!(
        screen.press("ctrl-s"),
        asked(SessionCommand::Message {
            text: "Look at q\nthe lexer!".into()
        })
    );
    assert_eq!(screen.model.drafts.unsent, "");
}

#[test]
fn an_immediate_message_cancels_the_turn() {
    let mut screen = Screen::of(&samples::first_turn(), SMALL);
    screen.press("M");
    screen.type_text("Stop that.");
    assert_eq!(
        screen.press("ctrl-s"),
        [ScreenRequest::InOrder(vec![
            SessionCommand::Message {
                text: "Stop that.".into()
            },
            SessionCommand::CancelTurn
        ])]
    );
}

#[test]
fn a_refusal_is_shown_and_a_refused_message_is_not_lost() {
    let mut screen = Screen::of(&samples::first_turn(), SMALL);
    screen.press("m");
    screen.type_text("Hello");
    screen.press("ctrl-s");
    screen.send(ScreenEvent::Refused(
        SessionCommand::Message {
            text: "Hello".into(),
        },
        "the session has ended\x1b[2J".into(),
    ));
    assert_eq!(
        screen.frame().lines().last(),
        Some(" The session has ended")
    );
    assert!(screen.frame().contains("Hello"));
    screen.press("esc m");
    assert!(screen.frame().contains("Hello"));
    screen.press("esc j");
    assert_eq!(toast(&screen), "");
}

#[test]
fn a_refused_immediate_message_is_not_lost_and_a_queued_one_does_not_come_back() {
    let mut screen = Screen::of(&samples::first_turn(), SMALL);
    screen.press("M");
    screen.type_text("Stop that.");
    let asks = screen.press("ctrl-s");
    let [ScreenRequest::InOrder(commands)] = &asks[..] else {
        panic!("{asks:?}")
    };
    screen.send(ScreenEvent::Refused(
        commands[1].clone(),
        "no turn is running".into(),
    ));
    assert!(screen.model.modals.is_empty());
    screen.send(ScreenEvent::Refused(
        commands[0].clone(),
        "the session has ended".into(),
    ));
    assert!(screen.frame().contains("Stop that."));
    screen.press("esc");
    assert_eq!(screen.model.drafts.unsent, "Stop that.");
}

#[test]
fn a_late_refusal_brings_the_refused_text_back() {
    let mut screen = Screen::of(&samples::first_turn(), SMALL);
    for text in ["one", "two"] {
        screen.press("m");
        screen.type_text(text);
        screen.press("ctrl-s");
    }
    screen.press("j k");
    let message = |text: &str| SessionCommand::Message { text: text.into() };
    screen.send(ScreenEvent::Accepted(message("one")));
    screen.send(ScreenEvent::Refused(
        message("one"),
        "the session has ended".into(),
    ));
    assert_eq!(editor_text(&screen), None, "it was taken");
    screen.send(ScreenEvent::Refused(
        message("two"),
        "the session has ended".into(),
    ));
    assert_eq!(editor_text(&screen).as_deref(), Some("two"));
    // The open editor keeps the keys.
    screen.press("ctrl-s m");
    screen.type_text("thr");
    screen.send(ScreenEvent::Refused(
        message("two"),
        "the session has ended".into(),
    ));
    assert_eq!(toast(&screen), "The session has ended");
    screen.type_text("ee");
    assert_eq!(editor_text(&screen).as_deref(), Some("three"));
    screen.press("esc");
    assert_eq!(editor_text(&screen).as_deref(), Some("two"));
    screen.press("esc");
    assert_eq!(
        (editor_text(&screen), screen.model.drafts.unsent.as_str()),
        (None, "three\n\ntwo")
    );
}

#[test]
fn a_refusal_leaves_the_keys_to_a_question_and_opens_above_its_own_gate() {
    let mut screen = Screen::of(&samples::first_turn(), SMALL);
    screen.press("m");
    screen.type_text("Hello");
    screen.press("ctrl-s q");
    screen.send(ScreenEvent::Refused(
        SessionCommand::Message {
            text: "Hello".into(),
        },
        "the session has ended".into(),
    ));
    assert!(matches!(screen.model.modals.last(), Some(Modal::Quit(_))));
    screen.press("esc");
    assert_eq!(editor_text(&screen).as_deref(), Some("Hello"));
    let mut screen = Screen::of(&samples::final_delivery(), SMALL).armed();
    screen.press("e");
    screen.type_text(" as a brick");
    let asks = screen.press("ctrl-s");
    let [ScreenRequest::Command(command)] = &asks[..] else {
        panic!("{asks:?}")
    };
    assert!(at_gate(&screen));
    screen.send(ScreenEvent::Refused(
        command.clone(),
        "item 1 is already with the agent".into(),
    ));
    assert!(editor_text(&screen).is_some_and(|text| text.ends_with(" as a brick")));
    screen.press("ctrl-s");
    screen.send(ScreenEvent::Unanswered(
        command.clone(),
        "it does not answer".into(),
    ));
    assert!(editor_text(&screen).is_some_and(|text| text.ends_with(" as a brick")));
    screen.press("esc esc");
    assert!(at_gate(&screen));
}

#[test]
fn an_unanswered_text_is_not_sent_again_and_not_lost() {
    let mut screen = Screen::of(&samples::first_turn(), SMALL);
    screen.press("m");
    screen.type_text("Hello");
    screen.press("ctrl-s");
    screen.send(ScreenEvent::Unanswered(
        SessionCommand::Message {
            text: "Hello".into(),
        },
        "it does not answer".into(),
    ));
    assert_eq!(
        (editor_text(&screen), toast(&screen)),
        (None, "It does not answer")
    );
    screen.press("m");
    assert_eq!(editor_text(&screen).as_deref(), Some("Hello"));
}

#[test]
fn an_unanswered_text_survives_text_written_since() {
    let mut screen = Screen::of(&samples::first_turn(), SMALL);
    let silent = |text: &str| {
        ScreenEvent::Unanswered(
            SessionCommand::Message { text: text.into() },
            "it does not answer".into(),
        )
    };
    for text in ["one", "two"] {
        screen.press("m");
        screen.type_text(text);
        screen.press("ctrl-s");
    }
    screen.press("m");
    screen.type_text("three");
    screen.send(silent("one"));
    screen.send(silent("two"));
    assert_eq!(
        screen.press("ctrl-s"),
        asked(SessionCommand::Message {
            text: "three".into()
        })
    );
    screen.press("m");
    assert_eq!(editor_text(&screen).as_deref(), Some("one\n\ntwo"));
}

#[test]
fn the_session_is_steered() {
    let mut screen = Screen::of(&samples::first_turn(), SMALL);
    assert_eq!(screen.press("p"), asked(SessionCommand::Pause));
    assert_eq!(screen.press("X"), []);
    assert!(screen.frame().contains("Cancel the turn?"));
    assert_eq!(screen.press("n"), []);
    assert_eq!(screen.press("X esc X y"), asked(SessionCommand::CancelTurn));
    assert_eq!(
        screen.press("S"),
        asked(SessionCommand::Stop {
            how: StopTiming::AfterIteration
        })
    );
    assert_eq!(
        screen.press("alt-s"),
        asked(SessionCommand::Pipeline {
            pipeline: PipelineKind::Submit
        })
    );
    assert_eq!(
        screen.press("alt-m"),
        asked(SessionCommand::Pipeline {
            pipeline: PipelineKind::Merge
        })
    );
    let mut world = samples::first_turn();
    world.command(SessionCommand::Pause);
    assert_eq!(
        Screen::of(&world, SMALL).press("p"),
        asked(SessionCommand::Unpause)
    );
}

#[test]
fn the_palette_runs_the_command_that_it_found() {
    let mut screen = Screen::of(&samples::first_turn(), SMALL);
    screen.press(":");
    screen.type_text("pause");
    assert_eq!(screen.press("enter"), asked(SessionCommand::Pause));
    screen.press(":");
    screen.type_text("zzz");
    assert_eq!(screen.press("enter"), []);
    screen.press("ctrl-p");
    screen.type_text("iter");
    assert!(screen.frame().contains("› iter▏"));
    screen.press("esc");
    assert!(screen.model.modals.is_empty());
}

#[test]
fn without_offered_models_the_palette_asks_for_a_name() {
    let mut screen = Screen::of(&samples::works(), WIDE);
    screen.press(":");
    screen.type_text("model");
    screen.press("enter");
    screen.type_text("opus");
    let chosen = SessionCommand::SetModel {
        model: Some("opus".into()),
    };
    assert_eq!(screen.press("ctrl-s"), asked(chosen));
}

#[test]
fn leaving_asks_while_the_session_runs() {
    let mut screen = Screen::of(&samples::first_turn(), SMALL);
    assert_eq!(screen.press("q x esc"), []);
    assert!(screen.model.modals.is_empty());
    assert_eq!(
        screen.press("q w"),
        asked(SessionCommand::Stop {
            how: StopTiming::AfterIteration
        })
    );
    assert_eq!(
        screen.press("ctrl-c y"),
        [
            ScreenRequest::Command(SessionCommand::Stop {
                how: StopTiming::Now
            }),
            ScreenRequest::LeaveAtTheEnd
        ]
    );
    assert_eq!(
        Screen::of(&samples::ended(), SMALL).press("q"),
        [ScreenRequest::Leave]
    );
    assert_eq!(
        Screen::replay(&samples::first_turn(), SMALL, 3).press("q"),
        [ScreenRequest::Leave]
    );
}

#[test]
fn the_question_whether_to_leave_is_a_numbered_list() {
    let mut screen = Screen::of(&samples::first_turn(), SMALL);
    screen.model.link.tie = CloseBehavior::Loose;
    screen.press("q");
    let frame = screen.frame();
    for row in [
        "▌1  Leave it running",
        " 2  Stop after this iteration",
        " 3  Stop now",
        " 4  Stay",
    ] {
        assert!(frame.contains(row), "{frame}");
    }
    assert!(
        frame.contains("enter answer  1-4 choose  ↑↓ move  esc close"),
        "{frame}"
    );
    assert_eq!(hinted(&mut screen), "", "the question has its keys");
    assert_eq!(screen.press("4"), []);
    assert!(screen.model.modals.is_empty());
    assert_eq!(
        screen.press("q down enter"),
        asked(SessionCommand::Stop {
            how: StopTiming::AfterIteration
        })
    );
    assert_eq!(screen.press("q 1"), [ScreenRequest::LeaveRunning]);
    screen.press("q");
    assert_eq!(
        screen.click_on("Stop after this"),
        asked(SessionCommand::Stop {
            how: StopTiming::AfterIteration
        })
    );
}

#[test]
fn questions_about_a_session_close_when_it_ends() {
    for keys in ["q", "X"] {
        let mut screen = Screen::of(&samples::works(), SMALL);
        screen.press(keys);
        assert_eq!(screen.model.modals.len(), 1, "{keys}: {}", screen.frame());
        screen.see(&samples::works().run());
        assert!(screen.model.modals.is_empty(), "{keys}: {}", screen.frame());
        assert!(
            screen.frame().contains("esc close"),
            "the end card: {}",
            screen.frame()
        );
    }
}

#[test]
fn a_session_independent_of_its_screen_can_be_left_running() {
    let mut bound = Screen::of(&samples::first_turn(), WIDE);
    assert_eq!(bound.press("q d esc ctrl-d"), []);
    assert!(
        bound.frame().contains("This session ends with its screen"),
        "{}",
        bound.frame()
    );
    let mut screen = Screen::of(&samples::first_turn(), SMALL);
    screen.model.link.tie = CloseBehavior::Loose;
    assert_eq!(screen.press("q d"), [ScreenRequest::LeaveRunning]);
    screen.press("esc");
    assert_eq!(screen.press("ctrl-d"), [ScreenRequest::LeaveRunning]);
    let mut at_a_gate = Screen::of(&samples::retry_limit(), SMALL).armed();
    at_a_gate.model.link.tie = CloseBehavior::Loose;
    assert_eq!(at_a_gate.press("ctrl-d"), [ScreenRequest::LeaveRunning]);
    assert_eq!(
        Screen::of(&samples::ended(), SMALL).press("ctrl-d"),
        [ScreenRequest::Leave]
    );
    assert_eq!(
        Screen::replay(&samples::first_turn(), SMALL, 3).press("ctrl-d"),
        [ScreenRequest::Leave]
    );
}

#[test]
fn a_replay_is_stepped_through_and_not_steered() {
    let world = samples::ended();
    let mut screen = Screen::replay(&world, SMALL, 10);
    assert_eq!(screen.press("."), [ScreenRequest::Seek(11)]);
    assert_eq!(screen.press(","), [ScreenRequest::Seek(9)]);
    let started = |n: u32| {
        let at = |event: &Event| matches!(event, Event::Session(SessionEvent::IterationStarted { iteration }) if *iteration == n);
        world.events.iter().position(at).expect("it was started") + 1
    };
    assert_eq!(screen.press("]"), [ScreenRequest::Seek(started(2))]);
    screen.press("space + +");
    let row = screen.row("replay");
    assert!(row.contains("replay 0:03 of 0:31 playing · 4x"), "{row}");
    screen.press("space - - - -");
    let row = screen.row("replay");
    assert!(row.contains("replay 0:03 of 0:31 paused · 1/4x"), "{row}");
    assert_eq!(screen.press("m"), []);
    assert_eq!(toast(&screen), "This is a replay: you cannot control it");
    assert!(matches!(screen.model.link.mode, ScreenMode::Replay(_)));
}

#[test]
fn a_hook_in_a_replay_shows_its_original_duration() {
    let world = samples::hook_runs();
    let mut screen = Screen::replay(&world, SMALL, world.events.len());
    screen.later(1_000_000_000);
    screen.press("2");
    assert!(
        screen.row("▌ cargo test").contains("0s of 60s"),
        "{}",
        screen.frame()
    );
}

#[test]
fn any_keys_anywhere_leave_a_screen_that_can_be_drawn() {
    let named =
        "enter esc tab shift-tab space up down left right home end page-up page-down backspace";
    let keys: Vec<String> = ('!'..='~')
        .map(String::from)
        .chain(named.split(' ').map(String::from))
        .chain(["ctrl-d".into()])
        .collect();
    for scene in [samples::delivery, samples::hook_runs, samples::permission] {
        let world = scene();
        for first in &keys {
            let mut screen = Screen::of(&world, (30, 8)).armed();
            screen.press(first);
            for second in &keys {
                screen.press(second);
            }
            screen.frame();
            screen.send(ScreenEvent::Resize(140, 30));
            screen.frame();
        }
    }
}

#[test]
fn no_control_character_reaches_a_cell() {
    const NASTY: &str = "a\x1b[31mb\x1b]0;title\x07c\u{9b}2Jd\x08\x00e\rf\u{7f}";
    let script = Script::new()
        .piped(HookPoint::SessionStart, NASTY, [prints(NASTY)])
        .hook(HookPoint::Stop, "later", [passes()])
        .attended(&[]);
    let mut world = samples::until(World::begin(script), |world| world.turn.is_some());
    let run = creel::engine::ids::RunId(1);
    samples::agent(
        &mut world,
        AgentUpdate::Message(format!("# {NASTY}\n- {NASTY}\n```\n{NASTY}\n```\n")),
    );
    samples::agent(&mut world, AgentUpdate::Thought(NASTY.into()));
    samples::agent(&mut world, AgentUpdate::Warned(NASTY.into()));
    samples::agent(
        &mut world,
        samples::plan(&[(NASTY, ToolStatus::InProgress)]),
    );
    samples::agent(
        &mut world,
        AgentUpdate::Noted {
            what: NASTY.into(),
            text: format!("{NASTY}\n{NASTY}"),
        },
    );
    samples::agent(&mut world, AgentUpdate::Opened(NASTY.into()));
    let nasty = || Some(NASTY.to_owned());
    let tool = ToolCall {
        title: NASTY.into(),
        locations: vec![FileLocation {
            path: NASTY.into(),
            line: Some(1),
        }],
        input: nasty(),
        diff: nasty(),
        output: nasty(),
        ..ToolCall::default()
    };
    samples::agent(&mut world, AgentUpdate::ToolCalled(tool.clone()));
    let option = PermissionOption {
        id: NASTY.into(),
        name: NASTY.into(),
        kind: PermissionOptionKind::AllowOnce,
    };
    samples::asks(&mut world, tool, vec![option]);
    world.command(completes(NASTY, NASTY));
    world.command(SessionCommand::Message { text: NASTY.into() });
    for size in [WIDE, SMALL] {
        for keys in [
            "",
            "t",
            "2",
            "2 enter",
            "2 end enter",
            "3",
            "3 enter",
            "3 v",
            "3 e",
            "4",
            "5",
            "m",
            ":",
        ] {
            let mut screen = Screen::of(&world, size).armed();
            screen.model.runs.add_output(run, 0, NASTY.as_bytes());
            if !keys.is_empty() {
                screen.press("esc");
                screen.press(keys);
            }
            screen.send(ScreenEvent::Paste(NASTY.into()));
            screen.send(ScreenEvent::Failed(NASTY.into()));
            let buffer = screen.draw();
            let wrong = buffer
                .content
                .iter()
                .find(|cell| cell.symbol().chars().any(char::is_control));
            assert_eq!(wrong, None, "{keys}");
            assert!(
                !screen.frame().contains("[31m"),
                "{keys}\n{}",
                screen.frame()
            );
        }
    }
}

#[test]
fn a_delivered_item_can_still_be_read() {
    let world = samples::ended();
    let mut screen = Screen::of(&world, SMALL);
    let all = crate::support::screen::records(&world);
    let reload = |at: creel::journal::RecordSpan| {
        all.iter()
            .find(|record| crate::support::screen::spot(record) == at)
            .cloned()
    };
    screen.press("3 enter down");
    let open = crossterm::event::KeyEvent::new(
        crossterm::event::KeyCode::Enter,
        crossterm::event::KeyModifiers::NONE,
    );
    creel::tui::update::update(&mut screen.model, ScreenEvent::Key(open), &reload);
    assert!(
        screen.frame().contains("[Hook output: session_start"),
        "{}",
        screen.frame()
    );
}

#[test]
fn matches_are_highlighted_until_an_empty_search() {
    let mut screen = Screen::of(&samples::ended(), WIDE);
    let selected = screen
        .model
        .look
        .theme
        .style(creel::tui::theme::ThemeRole::Selected)
        .bg;
    let marked = |screen: &mut Screen| {
        let buffer = screen.draw();
        buffer
            .content
            .iter()
            .filter(|cell| Some(cell.bg) == selected)
            .map(|cell| cell.symbol().to_owned())
            .collect::<String>()
    };
    screen.press("/");
    screen.type_text("ITERATION 3");
    screen.press("enter");
    assert!(marked(&mut screen).to_lowercase().contains("iteration 3"));
    screen.press("/ enter");
    assert_eq!(marked(&mut screen), "");
}

#[test]
fn the_attempts_are_scrolled_and_searched() {
    let mut screen = Screen::of(&samples::retry_limit(), SMALL).armed();
    screen.press("esc 4 j");
    assert!(
        screen.row("▌ 2 ").contains("parser::nested"),
        "{}",
        screen.frame()
    );
    screen.press("home /");
    screen.type_text("parser::empty");
    screen.press("enter");
    assert!(
        screen.row("▌ 1 ").contains("parser::empty"),
        "{}",
        screen.frame()
    );
    screen.press("enter");
    assert!(
        screen.frame().contains("Retry 1 · cargo test"),
        "{}",
        screen.frame()
    );
}

#[test]
fn a_session_that_waits_for_the_user_draws_nothing_by_itself() {
    let waiting = vec![
        samples::final_delivery(),
        samples::retry_limit(),
        samples::escalation(),
        samples::permission(),
    ];
    for world in waiting.into_iter().chain([samples::ended()]) {
        let screen = Screen::of(&world, SMALL).armed();
        assert_eq!(screen.model.next_tick(), None);
    }
    let works = Screen::of(&samples::first_turn(), SMALL);
    assert!(
        works.model.next_tick().is_some(),
        "the elapsed time is counted while the agent works"
    );
}

#[test]
fn selections_at_a_gate_survive_closing_it_for_later() {
    let mut screen = Screen::of(&samples::final_delivery(), SMALL).armed();
    screen.press("space esc g");
    screen.later(600);
    assert!(
        screen.frame().contains("☐ cargo clippy"),
        "{}",
        screen.frame()
    );
}

#[test]
fn the_next_error_of_a_replay_can_be_a_hook_that_blocked() {
    let world = samples::sent_back_twice();
    let mut screen = Screen::replay(&world, SMALL, 1);
    let asks = screen.press("e");
    let [ScreenRequest::Seek(shown)] = asks[..] else {
        panic!("{asks:?}")
    };
    let Event::Hook(HookEvent::Finished(finished)) = &world.events[shown - 1] else {
        panic!("{shown}")
    };
    assert_ne!(finished.verdict, Verdict::Pass, "{}", finished.hook);
}

#[test]
fn in_a_replay_the_key_for_errors_visits_every_run_that_did_not_pass() {
    let missing = Ran {
        end: RunEnd::SpawnFailed("no such program".into()),
        ..exits(0, "", "")
    };
    let killed = Ran {
        end: RunEnd::Signal(9),
        ..exits(0, "", "")
    };
    let script = Script::new()
        .hook(HookPoint::SessionStart, "fails", [exits(1, "", "red")])
        .hook(HookPoint::SessionStart, "passes", [passes()])
        .hook(HookPoint::PreIteration, "times out", [breaks(), passes()])
        .hook(HookPoint::PreIteration, "is missing", [missing, passes()])
        .hook(HookPoint::PostIteration, "is killed", [killed, passes()])
        .hook(HookPoint::Stop, "blocks", [blocks("red"), passes()])
        .rule("rule", &[false, true])
        .agent([
            Answer::Says("Not yet."),
            Answer::Fails("connection reset"),
            DONE,
        ]);
    let world = World::begin(script).run();
    let mut screen = Screen::replay(&world, SMALL, 1);
    let mut visited = Vec::new();
    loop {
        let asks = screen.press("e");
        if asks.is_empty() {
            break;
        }
        let [ScreenRequest::Seek(shown)] = asks[..] else {
            panic!("{asks:?}")
        };
        let event = &world.events[shown - 1];
        screen = Screen::replay(&world, SMALL, shown);
        visited.push(match event {
            Event::Hook(HookEvent::Finished(finished)) => finished.hook.clone(),
            Event::Stop(StopEvent::RuleChecked { .. }) => "rule".to_owned(),
            Event::Turn(TurnEvent::Failed { .. }) => "turn".to_owned(),
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(
        visited,
        [
            "fails",
            "times out",
            "is missing",
            "blocks",
            "turn",
            "is killed",
            "rule"
        ]
    );
    assert_eq!(toast(&screen), "No error after this point");
}

#[test]
fn the_card_at_the_end_is_closed_with_esc_and_leaves_all_other_keys() {
    let mut screen = Screen::of(&samples::ended(), WIDE);
    let frame = screen.frame();
    assert!(
        frame.contains("╔ ✓ COMPLETE ") && frame.contains("took  ") && frame.contains("esc close"),
        "{frame}"
    );
    assert_eq!(screen.model.next_tick(), None, "nothing moves at the end");
    screen.press("2");
    assert_eq!(screen.model.panes.focus, Pane::Hooks);
    assert!(screen.frame().contains("esc close"));
    screen.press("esc");
    assert!(!screen.frame().contains("esc close"));
    assert_eq!(screen.press("q"), [ScreenRequest::Leave]);
    let replay = samples::ended();
    assert!(
        Screen::replay(&replay, WIDE, replay.events.len())
            .frame()
            .contains("esc close")
    );
    assert!(
        !Screen::replay(&replay, WIDE, replay.events.len() - 1)
            .frame()
            .contains("esc close")
    );
}

#[test]
fn a_changed_item_is_discarded_only_after_two_presses() {
    let mut screen = Screen::of(&samples::final_delivery(), SMALL).armed();
    screen.press("e");
    screen.type_text("more");
    screen.press("ctrl-d esc");
    assert!(
        screen.frame().contains("ctrl-s save"),
        "out of what changed, back to the text"
    );
    screen.press("esc");
    assert!(
        screen.frame().contains("esc again discards the change"),
        "{}",
        screen.frame()
    );
    screen.press("esc");
    assert!(!screen.frame().contains("ctrl-s"), "{}", screen.frame());
}

#[test]
fn the_status_shows_the_requested_action() {
    let mut world = samples::first_turn();
    world.command(SessionCommand::Pause);
    assert!(
        Screen::of(&world, WIDE)
            .frame()
            .contains("pauses after this turn")
    );
    world.command(SessionCommand::Stop {
        how: StopTiming::AfterIteration,
    });
    let frame = Screen::of(&world, WIDE).frame();
    assert!(
        frame.contains("stops after this iteration") && frame.contains("Resumed"),
        "{frame}"
    );
}
